"""CPU kernels of pointwise operators, specialised for a dispatch word.

Note [Small and large calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A small call goes directly to the program's NumPy function, in a kernel that knows its dtypes. A large call allocates
its result and cuts it into pieces that fit a core's cache, which several threads compute.

Note [Results beyond the caches]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Before a processor writes to a cache line it reads it from memory. Results of ``STREAMED`` bytes and more, of contiguous
operands, are therefore written past the caches, by loops that are compiled for it. Results in place are not: their
lines have just been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from string import ascii_lowercase
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.lift import refuse_number, refuse_out_of_range
from ...core.plans import SMALL, Elementwise, Simple
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise
from ..allocation.host import allocate, allocate_like
from .fp_warnings import QUIET, errors, ignore, quietly, restore, silenced
from .kernels import own_error
from .loops.numpy_loops import WRONG_WITH_GAPS
from .programs.number_powers import kernel_by_exponent, power_program
from .programs.program import Program, compute_into, program_of
from .programs.small_calls import SQUARE, common_shape, form_of, is_large, quiet_cast, small_kernel
from .thresholds import LARGE, STREAMED

__all__ = ["converted", "pointwise_kernel"]

_PART: Final = 1 << 17  # elements of a part of a call of several NumPy functions, whose temporary arrays fit a cache
_KEPT: Final = 256  # how many converted numbers are remembered for each operand
_SHORT: Final = 4  # elements between two that are still read along
_IN_LOOPS: Final = "biuf"  # kinds of dtypes that compiled loops convert


def pointwise_kernel(operator: Operator, word: int) -> Callable[..., Tensor]:
    """Return the kernel of a pointwise operator for tensors of these dtypes."""
    facet: Pointwise = operator.facets["Pointwise"]
    arrays, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
    compute, result = facet.promotion.dtypes(operator.name, arrays, weak)
    logical = facet.boolean == facet.parameters and compute.kind == "b" and len(arrays) == 1 and not weak
    if logical and arrays != (compute,):
        # logic on numbers: the test against zero is part of the expression, not a separate pass
        facet, compute = facet.of_numbers, arrays[0]
    program = program_of(operator.name, facet, compute, result)
    if facet.indices:
        return _general(operator, facet, program)
    count = len(facet.parameters)
    uniform = logical or not facet.boolean
    uniform = uniform and count == len(facet.tensors) and all(dtype == compute for dtype in arrays)
    if uniform and weak and count == 2 and arrays and form_of(program) != "program":
        return _binary_weak(operator, program)
    if uniform and not weak and count <= 2:
        return _uniform(operator, program, count)
    general = _general(operator, facet, program)
    if not weak or compute.kind != "f" or arrays != (compute,):
        return general

    def special(without: Pointwise) -> Callable[..., Tensor]:
        program = program_of(operator.name, without, compute, result)
        few = len(without.parameters) <= 2
        return _uniform(operator, program, len(without.parameters)) if few else _general(operator, without, program)

    return kernel_by_exponent(facet, general, special)


def _uniform(operator: Operator, program: Program, count: int) -> Callable[..., Tensor]:
    """Return a kernel for operands that all have the compute dtype."""
    word, compute = cpu_word(program.result), _of_arrays(operator, program)

    def general(*operands: Tensor) -> Tensor:
        return make_tensor(compute(*[x._data for x in operands]), word)

    kernel: Any = small_kernel(form_of(program), "t" * count, operator, program, general)
    kernel.small = Elementwise(program, _beyond(program, compute))
    return kernel  # type: ignore[no-any-return]


def _of_arrays(operator: Operator, program: Program) -> Callable[..., np.ndarray]:
    """Return the function that computes a program of one or two arrays of its dtypes, of any size."""
    loops, signature, result, name = program.loops, program.signature, program.result, operator.name
    limit, streamed = program.limit, STREAMED // program.result.itemsize

    def compute(*arrays: np.ndarray) -> np.ndarray:
        whole, other = arrays[0], arrays[-1]
        if not whole.ndim:
            whole, other = other, whole
        loop = loops.get(signature)
        # Every step of Python costs 1 us here, because large arrays displace its code from the cache.
        if (
            loop is not None
            and limit <= whole.size < streamed
            and whole.flags.c_contiguous
            and (not other.ndim or other is whole or (other.flags.c_contiguous and other.shape == whole.shape))
        ):
            out = allocate(whole.shape, result, name)
            if not loop.run((*arrays, out)):
                return out
        shape = common_shape(name, arrays)
        if is_large(program, shape):
            return large(program, arrays, shape, name)
        data = np.asarray(silenced(program.call, *arrays))  # repeated along one axis, joined along another
        return data if data.dtype is result else data.astype(result)

    return compute


def _beyond(program: Program, compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    """Return a function that computes large operands, and returns None for others: the kernel computes those."""
    limit = program.limit
    return lambda *arrays: compute(*arrays) if max([a.size for a in arrays]) >= limit else None


def _binary_weak(operator: Operator, program: Program) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a kernel for a tensor and a Python scalar, which is converted once and then remembered."""
    word = cpu_word(program.result)
    name, dtype, compute = operator.name, program.dtype, _of_arrays(operator, program)
    # By the identity of a scalar's tensor: the function to call, the converted scalar, and the tensor to keep it alive;
    # None in place of a function leaves the call to ``general``.
    converted: dict[int, tuple[Any, np.ndarray, Tensor]] = {}
    is_power = program.call is np.power and dtype.kind in "fc"

    def convert(weak: Tensor) -> np.ndarray:
        found = converted.get(id(weak))
        if found is None:
            if len(converted) >= _KEPT:
                converted.clear()
            refuse_out_of_range(name, weak, dtype)
            number = silenced(weak._data.astype, dtype)
            call: Any = program.call
            if is_power and number == 2:
                call = SQUARE
            elif is_power and power_program(dtype, complex(number).real) is not None:
                call = None
            found = converted[id(weak)] = (call, number, weak)
        return found[1]

    def general(x1: Tensor, x2: Tensor) -> Tensor:
        """Compute for any size, with the scalar on either side, and remember the scalar."""
        try:
            a, b = (x1._data, convert(x2)) if x2._word & WEAK_MASK else (convert(x1), x2._data)
        except OverflowError:
            return _exact_comparison(operator, x1, x2)
        whole = a if x2._word & WEAK_MASK else b
        if is_power and whole is a and b == 2 and dtype.kind == "f" and a.size >= program.limit:
            return operator.registry.find("tk::square").cache[cpu_word(dtype)](x1)  # type: ignore[no-any-return]
        if not is_power and whole.size >= program.limit:
            return make_tensor(compute(a, b), word)
        special = power_program(dtype, float(b)) if is_power and dtype.kind == "f" and x2._word & WEAK_MASK else None
        if special is not None:
            if a.size >= special.limit:
                return make_tensor(large(special, (a,), a.shape), word)
            return make_tensor(_calmly(special, a), word)
        squares = x2._word & WEAK_MASK and is_power and b == 2
        # whole powers of complex numbers are products in NumPy, and logarithms and exponentials in our loop
        products = is_power and dtype.kind == "c" and x2._word & WEAK_MASK and b.imag == 0 and b.real % 1 == 0
        if not products and (a.size >= program.limit or b.size >= program.limit):
            return make_tensor(large(program, (a, b), common_shape(name, (a, b))), word)
        return make_tensor(np.asarray(silenced(SQUARE, a) if squares else silenced(program.call, a, b)), word)

    kernel: Any = small_kernel("weak", "tt", operator, program, general, converted=converted)
    if not is_power:  # which chooses a function by the exponent
        kernel.small = Elementwise(program, _beyond(program, compute))
    return kernel  # type: ignore[no-any-return]


def _calmly(program: Program, *arrays: np.ndarray) -> np.ndarray:
    """Run a small call of a program that is not a NumPy ufunc."""
    if program.compiled:
        try:
            return np.asarray(quietly(program.call, *arrays))
        except RuntimeError:  # Note [A context without warnings]
            pass
    else:
        program.count(arrays[0].size)
    return np.asarray(silenced(program.call, *arrays))


def _exact_comparison(operator: Operator, x1: Tensor, x2: Tensor) -> Tensor:
    """Compare with a Python int that the dtype cannot hold, as NumPy does.

    Called while an OverflowError is handled, which is raised again for operators other than comparisons.
    """
    name = operator.schema.base_name
    if not operator.facets["Pointwise"].promotion.compares or not hasattr(np, name):
        raise  # noqa: PLE0704 -- see the docstring
    a, b = [int(x._data) if x._word & WEAK_MASK else x._data for x in (x1, x2)]
    return make_tensor(np.asarray(getattr(np, name)(a, b)), cpu_word(np.dtype(bool)))


def converted(name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Return an operand in the dtype that the program computes in."""
    a: np.ndarray = value._data if isinstance(value, Tensor) else np.asarray(value)
    if a.dtype == dtype:
        return a
    if isinstance(value, Tensor):
        refuse_out_of_range(name, value, dtype)
    else:
        refuse_number(name, value, dtype)
    return quiet_cast(a, dtype)


def _general(operator: Operator, facet: Pointwise, program: Program) -> Callable[..., Tensor]:
    """Return a kernel for mixed dtypes, weak scalars, boolean operands and arguments that are not tensors."""
    word = cpu_word(program.result)
    wanted = [np.dtype(bool) if p in facet.boolean else program.dtype for p in facet.parameters]
    name = operator.name
    indexed = bool(facet.indices)
    # for each operand, by the identity of a number's tensor, or by the class and value of a number: the converted
    # number, and the tensor to keep it alive
    known: list[dict[Any, tuple[np.ndarray, Any]]] = [{} for _ in wanted]

    def convert(place: int, value: Any) -> np.ndarray:
        key: Any = None
        if not isinstance(value, Tensor):
            key = (value.__class__, value or str(value)) if value == value and value.__class__ is not complex else None
        elif value._word & WEAK_MASK:
            key = id(value)
        if key in known[place]:
            return known[place][key][0]
        a = converted(name, value, wanted[place])
        if key is not None:
            if len(known[place]) >= _KEPT:
                known[place].clear()
            known[place][key] = a, value
        return a

    def kernel(*args: Any) -> Tensor:
        operands = []
        bound = 1  # on the elements of the result
        other = False  # whether operands have other dtypes, from which the loop converts
        for place, value in enumerate(args):
            a = value._data if value.__class__ is Tensor else None
            if a is None or a.dtype is not wanted[place]:
                if a is None or a.size < LARGE or a.dtype.kind not in _IN_LOOPS or value._word & WEAK_MASK:
                    a = convert(place, value)
                else:
                    other = True
            operands.append(a)
            bound *= a.size
        if indexed:
            shape = common_shape(name, operands)
            operands += _index_arrays(facet, shape, program.dtype)
            bound = prod(shape)
        if bound >= program.limit:
            shape = common_shape(name, operands)
            if is_large(program, shape):
                return make_tensor(large(program, tuple(operands), shape), word)
        if other:
            operands = [quiet_cast(a, dtype) for a, dtype in zip(operands, program.signature)]
        if not program.compiled:
            program.count(bound)
        found = errors()
        try:
            ignore(QUIET)
            data = program.call(*operands)
        except ValueError:
            own_error(common_shape, name, operands)
            raise
        finally:
            restore(found)
        if data.__class__ is not np.ndarray:
            data = np.asarray(data)
        if data.dtype is not program.result and data.dtype != program.result:
            data = data.astype(program.result)
        return make_tensor(data, word)

    if indexed or not facet.tensors or len(wanted) > len(ascii_lowercase):
        return kernel
    kinds = "".join(["t" if p in facet.tensors else "n" for p in facet.parameters])
    made: Any = small_kernel(
        form_of(program), kinds, operator, program, kernel, wanted=wanted, converted=known, convert=convert
    )
    if facet.expression.operation == "where" and facet.boolean == facet.parameters[:1]:
        made.small = Simple(program.dtype, SMALL)
    return made  # type: ignore[no-any-return]


def _index_arrays(facet: Pointwise, shape: tuple[int, ...], dtype: np.dtype) -> list[np.ndarray]:
    """Return the values of the index variables, which broadcast to the shape of the result: further operands."""
    made = []
    for axis in facet.index_axes(len(shape)).values():
        lengths = shape if axis is None else tuple([n if i == axis else 1 for i, n in enumerate(shape)])
        made.append(np.arange(prod(lengths)).astype(dtype).reshape(lengths))
    return made


def pointwise_into(operator: Operator, out: np.ndarray, args: tuple[Any, ...]) -> None:
    """Write a pointwise result into ``out``, which has the broadcast shape; in-place variants use this."""
    word = 0
    for value in args:
        if isinstance(value, Tensor):
            word |= value._word
    facet: Pointwise = operator.facets["Pointwise"]
    compute, result = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
    if compute.kind == "V":  # bfloat16 is storage
        compute, result = dtypes.float32, dtypes.float32
    program = program_of(operator.name, facet, compute, result)
    arrays = []
    for parameter, value in zip(facet.parameters, args):
        dtype = np.dtype(bool) if parameter in facet.boolean else compute
        arrays.append(converted(operator.name, value, dtype))
    if facet.indices:
        arrays += _index_arrays(facet, out.shape, compute)
    if out.size < program.limit or _overlap(arrays, out) or not compute_into(program, tuple(arrays), out):
        assign(program, tuple(arrays), out)


def _overlap(arrays: Sequence[np.ndarray], out: np.ndarray) -> bool:
    """Tell whether an operand may overlap the result otherwise than element by element."""
    for a in arrays:
        same = a.shape == out.shape and a.strides == out.strides and a.ctypes.data == out.ctypes.data
        if not same and np.may_share_memory(a, out):
            return True
    return False


def large(
    program: Program, arrays: tuple[np.ndarray, ...], shape: tuple[int, ...], name: str | None = None
) -> np.ndarray:
    """Run a program over many elements, on several threads."""
    dtypes_ = tuple([a.dtype for a in arrays])
    loop = program.loop(dtypes_)
    if loop is None and prod(shape) <= _PART:
        data = np.asarray(silenced(program.call, *_of_signature(program, arrays)))
        return data if data.dtype == program.result else data.astype(program.result)
    out = _allocated(arrays, shape, program.result, name)
    if loop is not None:
        if not all(a.flags.c_contiguous and (a.shape == shape or not a.ndim) for a in arrays):
            rows = program.loop_of_rows(dtypes_, out)
            if rows is not None and not rows.run((*[_along(a, out) for a in arrays], out)):
                return out
        else:
            stream = program.streaming_loop(dtypes_) if out.nbytes >= STREAMED else None
            if not (stream or loop).run((*arrays, out)):
                return out
    assign(program, arrays, out)
    return out


def _along(a: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return an operand, or a copy of it if its adjacent elements are far apart in the result.

    A loop along the rows of the result would load a cache line for each element of a transposed operand. Copying it by
    tiles takes 0.2 ms for 2**20 float32, and adding it then 0.15; without the copy the addition takes 7 ms.
    """
    if a.ndim < 2 or a.shape != out.shape or a.flags.c_contiguous or not out.flags.c_contiguous:
        return a
    steps = [abs(step) for step, length in zip(a.strides, a.shape) if length > _SHORT and step]
    if abs(a.strides[-1]) <= _SHORT * a.itemsize or not steps or min(steps) > a.itemsize:
        return a
    from .loops.moves.strided_copies import copied  # Note [Delayed modules]

    return copied(a)


def _allocated(arrays: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype, name: str | None) -> np.ndarray:
    """Return memory for a result whose axes are in the order of those of the first whole operand, as in NumPy."""
    for a in arrays:
        if a.shape == shape:
            return allocate_like(a, dtype, name)
    return allocate(shape, dtype, name)


def assign(program: Program, arrays: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    """Run a program on NumPy; a function of several steps in parts, so that its temporary arrays stay small."""
    found = errors()
    try:
        ignore(QUIET)
        call = program.call
        direct = out.flags.forc or call not in WRONG_WITH_GAPS
        if direct and isinstance(call, np.ufunc) and out.dtype == program.result:
            call(*_of_signature(program, arrays), out=out)
            return
        rows = out.shape[0] if out.ndim and out.size > _PART and not _overlap(arrays, out) else 1
        step = max(1, rows * _PART // out.size) if rows > 1 else 1
        for start in range(0, rows, step):
            part = slice(start, start + step)
            some = [a[part] if rows > 1 and a.ndim == out.ndim and a.shape[0] == rows else a for a in arrays]
            target = out[part] if rows > 1 else out
            target[...] = call(*_of_signature(program, some))
    finally:
        restore(found)


def _of_signature(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [a if a.dtype == dtype else a.astype(dtype) for a, dtype in zip(arrays, program.signature)]
