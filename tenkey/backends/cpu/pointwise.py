"""CPU kernels of pointwise operators, specialised for a dispatch word.

Note [Small and large calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A small call goes straight to the program's NumPy function, in a closure that knows its dtypes. A large one allocates
its result, cuts it into pieces that fit a core's cache, and gives these to several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.lift import refuse_number, refuse_out_of_range
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise
from ...ops.shapes import broadcast_shapes
from .fp_warnings import QUIET, ignore, quietly, restore, silenced
from .numba.program import Program, program_of
from .threads import PIECE, for_pieces, for_shares

__all__ = ["converted", "pointwise_kernel"]

LARGE: Final = 1 << 15  # elements from which allocation, pieces and compiled code pay
# One core moves 80 GB/s (measured: ``add``, 12 MB in 148 us), and waking another costs 60 us: below this many bytes a
# loop that is limited by memory is faster alone.
WORTH_SPLITTING: Final = 8 << 20
_ndarray: Final = np.ndarray
_new: Final = object.__new__
_square: Final = np.square
_asarray: Final[Any] = np.asarray


def pointwise_kernel(operator: Operator, word: int) -> Callable[..., Tensor]:
    """The kernel of a pointwise operator for tensors of these dtypes."""
    facet: Pointwise = operator.facets["Pointwise"]
    arrays, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
    compute, result = facet.promotion.dtypes(operator.name, arrays, weak)
    if (
        facet.boolean == facet.parameters
        and compute.kind == "b"
        and len(arrays) == 1
        and arrays != (compute,)
        and not weak
    ):
        # logic on numbers: the test against zero is part of the expression, not a pass of its own
        facet, compute = facet.of_numbers, arrays[0]
    program = program_of(operator.name, facet, compute, result)
    plain = len(facet.parameters) == len(facet.tensors) and not facet.boolean
    if weak and plain and len(arrays) == 1 and arrays[0] == compute and len(facet.parameters) == 2:
        return _binary_weak(operator, program)
    mixed = bool(weak) or any(dtype != compute for dtype in arrays) or len(facet.boolean) > 0
    if mixed or len(facet.parameters) != len(facet.tensors):
        return _general(operator, facet, program)
    if len(facet.parameters) == 1:
        return _unary(operator, program)
    if len(facet.parameters) == 2:
        return _binary(operator, program)
    return _general(operator, facet, program)


def _limit(program: Program, operands: int) -> int:
    """The size from which a call is large."""
    if not program.light or not isinstance(program.call, np.ufunc):
        return LARGE
    return WORTH_SPLITTING // (operands * program.dtype.itemsize + program.result.itemsize)


def _unary(operator: Operator, program: Program) -> Callable[[Tensor], Tensor]:
    word = cpu_word(program.result)
    limit = _limit(program, 1)

    def composed(x: Tensor) -> Tensor:
        a = x._data
        if a.size >= limit:
            return make_tensor(large(program, (a,), a.shape), word)
        return make_tensor(_calmly(program, a), word)

    if not isinstance(program.call, np.ufunc):
        return composed
    call = program.call

    def kernel(x: Tensor) -> Tensor:
        a = x._data
        if a.size >= limit:
            return composed(x)
        try:
            data = quietly(call, a)
        except RuntimeError:  # Note [A context without warnings]
            data = silenced(call, a)
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    def silent(x: Tensor) -> Tensor:
        a = x._data
        if a.size >= limit:
            return composed(x)
        data = call(a)
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return silent if program.silent else kernel


def _calmly(program: Program, *arrays: np.ndarray) -> np.ndarray:
    """A small call of a program that is no ufunc of NumPy's."""
    if program.compiled:
        try:
            return _asarray(quietly(program.call, *arrays))  # type: ignore[no-any-return]
        except RuntimeError:  # Note [A context without warnings]
            pass
    else:
        program.count()
    return _asarray(silenced(program.call, *arrays))  # type: ignore[no-any-return]


def _binary(operator: Operator, program: Program) -> Callable[[Tensor, Tensor], Tensor]:
    word = cpu_word(program.result)
    name = operator.name
    limit = _limit(program, 2)

    def composed(x1: Tensor, x2: Tensor) -> Tensor:
        a, b = x1._data, x2._data
        if a.size >= limit or b.size >= limit:
            return make_tensor(large(program, (a, b), _shape(name, (a, b))), word)
        try:
            return make_tensor(_calmly(program, a, b), word)
        except ValueError:
            _shape(name, (a, b))
            raise

    if not isinstance(program.call, np.ufunc):
        return composed
    call = program.call

    def kernel(x1: Tensor, x2: Tensor) -> Tensor:
        a = x1._data
        b = x2._data
        if a.size >= limit or b.size >= limit:
            return composed(x1, x2)
        try:
            data = quietly(call, a, b)
        except RuntimeError:  # Note [A context without warnings]
            data = silenced(call, a, b)
        except ValueError:
            _shape(name, (a, b))
            raise
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    def silent(x1: Tensor, x2: Tensor) -> Tensor:
        a = x1._data
        b = x2._data
        if a.size >= limit or b.size >= limit:
            return composed(x1, x2)
        try:
            data = call(a, b)
        except ValueError:
            _shape(name, (a, b))
            raise
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return silent if program.silent else kernel


def _binary_weak(operator: Operator, program: Program) -> Callable[[Tensor, Tensor], Tensor]:
    """For a tensor and a Python scalar, which is converted once and then remembered."""
    word = cpu_word(program.result)
    name, dtype = operator.name, program.dtype
    # What is called for a scalar, by the identity of its tensor (which is kept here, too), and with what
    converted: dict[int, tuple[Any, np.ndarray, Tensor]] = {}
    is_power = program.call is np.power and dtype.kind in "fc"

    def convert(weak: Tensor) -> np.ndarray:
        found = converted.get(id(weak))
        if found is None:
            if len(converted) >= 256:
                converted.clear()
            token = ignore(QUIET)
            try:
                refuse_out_of_range(name, weak, dtype)
                number = weak._data.astype(dtype)
            finally:
                restore(token)
            squares = is_power and number == 2
            found = converted[id(weak)] = (_square if squares else program.call, number, weak)
        return found[1]

    def general(x1: Tensor, x2: Tensor) -> Tensor:
        """Of any size, the scalar on any side; it is converted afterwards."""
        try:
            a, b = (x1._data, convert(x2)) if x2._word & WEAK_MASK else (convert(x1), x2._data)
        except OverflowError:
            return _exact_comparison(operator, x1, x2)
        if a.size >= LARGE or b.size >= LARGE:
            return make_tensor(large(program, (a, b), _shape(name, (a, b))), word)
        if not program.is_ufunc:
            return make_tensor(_calmly(program, a, b), word)
        squares = x2._word & WEAK_MASK and is_power and b == 2
        return make_tensor(_asarray(silenced(_square, a) if squares else silenced(program.call, a, b)), word)

    if not isinstance(program.call, np.ufunc):
        return general

    def kernel(x1: Tensor, x2: Tensor) -> Tensor:
        call: Any
        try:
            call, b, _ = converted[id(x2)]
        except KeyError:
            call = b = None
        a = x1._data
        if call is None or a.size >= LARGE:
            return general(x1, x2)
        try:
            data = quietly(call, a) if call is _square else quietly(call, a, b)
        except RuntimeError:  # Note [A context without warnings]
            return general(x1, x2)
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return kernel


def _exact_comparison(operator: Operator, x1: Tensor, x2: Tensor) -> Tensor:
    """A comparison with a Python int that the dtype cannot hold: it has an answer, which NumPy knows.

    Called while the OverflowError of another operator is handled, which goes on.
    """
    name = operator.schema.base_name
    if not operator.facets["Pointwise"].promotion.compares or not hasattr(np, name):
        raise  # noqa: PLE0704 -- see the docstring
    a, b = [int(x._data) if x._word & WEAK_MASK else x._data for x in (x1, x2)]
    return make_tensor(np.asarray(getattr(np, name)(a, b)), cpu_word(np.dtype(bool)))


def _shape(name: str, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    first = arrays[0].shape
    if all(a.shape == first for a in arrays):
        return first
    return broadcast_shapes(name.partition("::")[2], *[a.shape for a in arrays])


def converted(name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """An operand in the dtype that is computed in."""
    a: np.ndarray = value._data if isinstance(value, Tensor) else np.asarray(value)
    if a.dtype == dtype:
        return a
    if isinstance(value, Tensor):
        refuse_out_of_range(name, value, dtype)
    else:
        refuse_number(name, value, dtype)
    token = ignore(QUIET)
    try:
        return a.astype(dtype)
    finally:
        restore(token)


def _general(operator: Operator, facet: Pointwise, program: Program) -> Callable[..., Tensor]:
    """For mixed dtypes, weak scalars, boolean operands and arguments that are no tensors."""
    word = cpu_word(program.result)
    wanted = [np.dtype(bool) if p in facet.boolean else program.dtype for p in facet.parameters]
    name = operator.name

    def kernel(*args: Any) -> Tensor:
        operands = []
        bound = 1  # on the elements of the result
        for value, dtype in zip(args, wanted):
            a = value._data if value.__class__ is Tensor else None
            if a is None or a.dtype is not dtype:
                a = converted(name, value, dtype)
            operands.append(a)
            bound *= a.size
        if bound >= LARGE:
            shape = _shape(name, operands)
            size = 1
            for n in shape:
                size *= n
            if size >= LARGE:
                return make_tensor(large(program, tuple(operands), shape), word)
        if not program.is_ufunc:
            program.count()
        token = ignore(QUIET)
        try:
            data = program.call(*operands)
        except ValueError:
            _shape(name, operands)
            raise
        finally:
            restore(token)
        if data.__class__ is not _ndarray:
            data = np.asarray(data)
        if data.dtype is not program.result and data.dtype != program.result:
            data = data.astype(program.result)
        return make_tensor(data, word)

    if len(wanted) != 3 or len(facet.tensors) != 3:
        return kernel
    first, second, third = wanted

    def of_three(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
        a, b, c = x1._data, x2._data, x3._data
        if a.dtype is not first or b.dtype is not second or c.dtype is not third or a.size * b.size * c.size >= LARGE:
            return kernel(x1, x2, x3)
        try:
            if program.compiled:
                try:
                    data = quietly(program.call, a, b, c)
                except RuntimeError:  # Note [A context without warnings]
                    data = silenced(program.call, a, b, c)
            else:
                program.count()
                data = silenced(program.call, a, b, c)
        except ValueError:
            _shape(name, (a, b, c))
            raise
        made: Tensor = _new(Tensor)
        made._data = data if data.__class__ is _ndarray else _asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return of_three


def pointwise_into(operator: Operator, out: np.ndarray, args: tuple[Any, ...]) -> None:
    """Write a pointwise result into an array: for in-place variants. ``out`` has the broadcast shape."""
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
    token = ignore(QUIET)
    try:
        call = program.call
        if isinstance(call, np.ufunc) and result == out.dtype:
            call(*arrays, out=out)
        else:
            out[...] = call(*arrays)
    finally:
        restore(token)


def large(program: Program, arrays: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Run a program over many elements, in pieces, on several threads."""
    program.request()
    length = 1
    for n in shape:
        length *= n
    out = np.empty(shape, program.result)
    if all(a.size == 1 or (a.shape == shape and a.flags.c_contiguous) for a in arrays):
        flat = [a.reshape(-1) for a in arrays]
        if program.compiled and length > PIECE:
            flat = [np.full(PIECE, a[0], a.dtype) if a.size == 1 else a for a in flat]
        _flat(program, flat, out.reshape(-1), [a.size == 1 for a in arrays])
        return out
    rows = shape[0]
    if rows <= 1 or length < PIECE:
        _assign(program, arrays, out)
        return out
    spread = [np.broadcast_to(a, shape) for a in arrays]
    per_row = max(1, length // rows)

    def rows_of(start: int, stop: int) -> None:
        _assign(program, tuple([a[start:stop] for a in spread]), out[start:stop])

    for_pieces(rows_of, rows, max(1, PIECE // per_row))
    return out


def _flat(program: Program, flat: list[np.ndarray], out: np.ndarray, single: list[bool]) -> None:
    def piece(start: int, stop: int) -> None:
        operands = [(a if a.size == 1 else a[: stop - start]) if one else a[start:stop] for a, one in zip(flat, single)]
        _assign(program, tuple(operands), out[start:stop])

    # one pass over memory: a share for each thread, since every piece costs a turn of the GIL; a function of several
    # NumPy calls: pieces whose intermediate results stay in a core's cache
    if isinstance(program.large, np.ufunc) and not any(single):
        for_shares(piece, out.size, program.pace)
    else:
        for_pieces(piece, out.size)


def _assign(program: Program, arrays: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    token = ignore(QUIET)
    try:
        call = program.large
        if isinstance(call, np.ufunc):
            call(*arrays, out=out)
        else:
            out[...] = call(*arrays)
    finally:
        restore(token)
