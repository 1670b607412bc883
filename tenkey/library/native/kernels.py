"""Kernels that call native functions, generated for each operator and dispatch word.

Note [Address of an array]
~~~~~~~~~~~~~~~~~~~~~~~~~~
``array.ctypes.data`` costs 0.9 us and ``(c_char * 0).from_buffer(array)`` 0.2 us for each array, whereas the whole call
of a C function on 16 elements should cost 3 us. NumPy's binary interface puts the address of the elements into the
first field after the object header of every array, where compiled extensions read it. A ``c_void_p`` at this field
costs 0.08 us. The first use compares it with ``array.ctypes.data`` on arrays of several kinds, and falls back to the
latter if they differ (in an interpreter whose ``id`` is not an address). Guarded by
``tests/library/test_native.py::test_the_address_of_an_array``.

Note [Native functions and overlapping arguments]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An argument that is read and lies in the memory of one that the function changes is copied first, as NumPy and the
built-in operators do, since a loop would read elements that it has changed already. Two arguments that are changed must
not overlap, and neither may elements of one. Guarded by ``tests/library/test_native.py::TestMutation``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any, Final

import numpy as np

from ..._util.cached_attribute import cached_property
from ...core.dtypes.promotion import result_dtype
from ...core.exchange import capsules
from ...core.lift import refuse_out_of_range
from ...core.tensor import Tensor, arrays_overlap, cpu_word, make_tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.calling import codegen
from ...dispatch.errors import OutOfRangeError
from ...dispatch.schema import FunctionSchema
from ...ops.declare.facets import TensorSpec
from ...ops.shapes import broadcast_shapes
from ...ops.variants import check_distinct_elements

__all__ = ["MAKERS", "NUMBERS", "Native", "gives_tensors", "result_count", "spec_rule"]

_RULE: Final = (
    "[{operator}] meta= returned {got} for {want} results: give a shape or (shape, dtype) for one, a list of these for "
    "several."
)

# schema type: how a number is passed, and what Numba calls that
NUMBERS: Final[dict[str, tuple[Any, str]]] = {
    "int": (ctypes.c_int64, "int64"),
    "float": (ctypes.c_double, "float64"),
    "bool": (ctypes.c_bool, "bool"),
    "complex": (ctypes.c_void_p, "complex128*"),
}


def gives_tensors(schema: FunctionSchema) -> bool:
    """Return whether all results are tensors."""
    return all(str(r.type) == "Tensor" for r in schema.returns)


def result_count(schema: FunctionSchema) -> int:
    """Return the number of tensors that are allocated for the function to fill."""
    return len(schema.returns) if gives_tensors(schema) else 0


@dataclass
class Native:
    """The arguments of :func:`load_native`: a schema and the functions by dtypes."""

    schema: FunctionSchema
    functions: Mapping[Any, Any]  # a dtype, a tuple of one for each tensor, or None for any dtype
    meta: Callable[..., Any] | None
    status: bool | Mapping[int, str]

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.schema.name

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """The positions of the tensors in the schema."""
        return tuple([i for i, a in enumerate(self.schema.arguments) if a.type.is_tensor_like])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all arguments."""
        return tuple([a.name for a in self.schema.arguments])

    @cached_property
    def gives_tensors(self) -> bool:
        """Whether all results are tensors."""
        return gives_tensors(self.schema)

    @cached_property
    def per_tensor(self) -> bool:
        """Whether the functions are registered by one dtype per tensor."""
        return any(isinstance(key, tuple) for key in self.functions)

    def values(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in the order of the schema."""
        return [*args, *[kwargs[name] for name in self.names[len(args) :]]]

    def choose(self, tensors: list[Tensor | None]) -> tuple[Any, Any]:
        """Return the function for the dtypes of a call, and its key in ``functions``."""
        given = [t for t in tensors if t is not None]
        if None in self.functions:
            return self.functions[None], None
        word = 0
        for tensor in given:
            word |= tensor._word
        found, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
        if self.per_tensor:
            for key, function in self.functions.items():
                if not isinstance(key, tuple):
                    key = (key,) * len(tensors)
                if all(t is None or t._word & WEAK_MASK or t.dtype == one for t, one in zip(tensors, key)):
                    return function, key
        else:
            common = result_dtype(found, weak)
            if common in self.functions:
                return self.functions[common], common
        got = ", ".join("a number" if t._word & WEAK_MASK else str(t.dtype) for t in given)
        keys = [f"({', '.join(map(str, key))})" if isinstance(key, tuple) else str(key) for key in self.functions]
        raise TypeError(
            f"[{self.name}] is compiled for {' or '.join(keys)}, and the arguments are "
            f"{got}: convert them with tk.astype(x, dtype), or give a function for this dtype to "
            "load_native(..., dtypes={...})."
        )

    def specs(self, key: Any, shape: tuple[int, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the shape and dtype of each result of a call."""
        count = result_count(self.schema)
        dtypes = key[len(key) - count :] if isinstance(key, tuple) else (key,) * count
        if self.meta is None:
            return [TensorSpec(shape, dtype) for dtype in dtypes]
        made = self.meta(*args, **kwargs)
        listed = made if isinstance(made, list) else [made]
        if len(listed) != count:
            raise ValueError(_RULE.format(operator=self.name, got=repr(made), want=count))
        return [self._spec(one, dtype, made) for one, dtype in zip(listed, dtypes)]

    def _spec(self, one: Any, dtype: np.dtype, made: Any) -> TensorSpec:
        try:
            if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], tuple):
                one, dtype = one[0], np.dtype(one[1])
            shape = tuple([index(length) for length in one])
            if any(length < 0 for length in shape):
                raise ValueError(made)
            return TensorSpec(shape, dtype)
        except (TypeError, ValueError):
            raise ValueError(_RULE.format(operator=self.name, got=repr(made), want=result_count(self.schema))) from None

    def failed(self, symbol: str, code: int) -> RuntimeError:
        """Return the error for a status code that is not 0."""
        reason = f": {self.status[code]}," if isinstance(self.status, Mapping) and code in self.status else ""
        return RuntimeError(f"[{self.name}] the native function {symbol} failed{reason} with the code {code}.")


def spec_rule(native: Native) -> Callable[..., Any]:
    """Return the rule for the shapes and dtypes of the results, which needs no values."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        values = native.values(args, kwargs)
        tensors = [values[i] for i in native.tensors]
        key = native.choose(tensors)[1] if native.functions else None
        given = [t for t in tensors if t is not None]
        if key is None:
            key = result_dtype(tuple(t.dtype for t in given if not t._word & WEAK_MASK), ())
        shape = () if native.meta is not None else broadcast_shapes(native.name, *[t.shape for t in given])
        made = native.specs(key, shape, args, kwargs)
        return made[0] if len(made) == 1 else made

    return rule


# ---- pointers


def _slow_address(array: np.ndarray) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


_HEAD: Final = object.__basicsize__


def fast_address(array: np.ndarray) -> Any:
    """Return a pointer to the elements that lies in the array object (Note [Address of an array])."""
    return ctypes.c_void_p.from_address(id(array) + _HEAD)


@cache
def addresses_are_known() -> bool:
    """Return whether the first field of an array is the address of its elements (Note [Address of an array])."""
    base = np.arange(12.0)
    read_only = np.frombuffer(b"abcd", "u1")
    tried = (base, base[3:], base.reshape(3, 4).T, np.zeros((), np.int8), np.zeros((0, 2)), read_only)
    if type(base).__basicsize__ < _HEAD + ctypes.sizeof(ctypes.c_void_p) or id(base) < 4096:
        return False
    return all(fast_address(array).value == _slow_address(array).value for array in tried)


def _pair(number: complex) -> Any:
    return (ctypes.c_double * 2)(number.real, number.imag)


def _check_int(operator: str, argument: str, value: int) -> None:
    if not -(2**63) <= value < 2**63:
        raise OutOfRangeError(
            f"[{operator}] the argument {argument!r} is {value}, which is not an int64_t: it must be in "
            "[-2**63, 2**63)."
        )


def describe(array: np.ndarray) -> capsules.Array:
    """Return the ``DLTensor`` of an array, which must stay alive as long as the struct is used."""
    strides = tuple([stride // array.itemsize for stride in array.strides])
    return capsules.describe(array.ctypes.data, (1, 0), array.dtype, array.shape, strides)


# ---- the convention "elements"


def elements_kernel(native: Native, word: int) -> Callable[..., Any]:
    """Return the kernel for one word: generated for plain arguments, general for all others."""
    general = _Elements(native)
    dtypes, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
    plain = (
        len(dtypes) == 1
        and not weak
        and dtypes[0] in native.functions
        and native.meta is None
        and not native.schema.is_mutable
        and all(str(native.schema.arguments[i].type) == "Tensor" for i in native.tensors)
    )
    return _write(native, dtypes[0], general) if plain else general


def _write(native: Native, dtype: np.dtype, general: Callable[..., Any]) -> Callable[..., Any]:
    """Generate the function for tensors of one dtype, shape and layout."""
    entry = native.functions[dtype]
    tensors = [native.names[i] for i in native.tensors]
    address = f"$at($id({{}}) + {_HEAD})" if addresses_are_known() else "$slow_address({})"
    schema = native.schema
    values, lines = [], []
    for a in schema.arguments:
        kind = str(a.type)
        if kind == "Tensor":
            values.append(address.format(f"$data_{a.name}"))
        else:
            values.append(f"$pair({a.name})" if kind == "complex" else a.name)
        if kind == "int":
            lines.append(f"if not {-(2**63)} <= {a.name} < {2**63}: $check_int({native.name!r}, {a.name!r}, {a.name})")
    first = tensors[0]
    lines += [f"$data_{name} = {name}._data" for name in tensors]
    lines.append(f"$shape = $data_{first}.shape")
    tests = [f"not $data_{name}.flags.carray" for name in tensors] + [f"$data_{n}.shape != $shape" for n in tensors[1:]]
    lines.append(f"if {' or '.join(tests)}: return $general({codegen.call(schema)})")
    outs = [f"$out{i}" for i in range(result_count(native.schema))]
    lines += [f"{out} = $empty($shape, $dtype)" for out in outs]
    values += [address.format(out) for out in outs]
    call = f"$call({', '.join(values)}, $data_{first}.size)"
    made = [f"$make({out}, $word)" for out in outs]
    if not native.gives_tensors:
        lines.append(f"return {call}")
    else:
        lines += [f"$code = {call}", "if $code: raise $failed($symbol, $code)"] if native.status else [call]
        lines.append(f"return {made[0]}" if len(made) == 1 else f"return ({', '.join(made)})")
    scope: dict[str, Any] = {
        "at": ctypes.c_void_p.from_address, "call": entry.call, "check_int": _check_int, "dtype": dtype,
        "empty": np.empty, "failed": native.failed, "general": general, "id": id, "make": make_tensor, "pair": _pair,
        "slow_address": _slow_address, "symbol": entry.symbol, "word": cpu_word(dtype),
    }  # fmt: skip
    source = f"def kernel({codegen.parameters(schema)}):\n" + "".join(f"    {line}\n" for line in lines)
    return codegen.define(source, scope, f"<native kernel of {native.name} for {dtype}>", schema)


# ---- calls of any kind


class _Call:
    """A call whose arguments must be converted; subclasses implement the conventions."""

    def __init__(self, native: Native, word: int = 0) -> None:
        self.native = native

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        native = self.native
        values = native.values(args, kwargs)
        tensors = [values[i] for i in native.tensors]
        entry, key = native.choose(tensors)
        given = [t for t in tensors if t is not None]
        common = key
        if key is None:
            common = result_dtype(tuple(t.dtype for t in given if not t._word & WEAK_MASK), ())
        shape = self.common_shape(given)
        outs = [np.empty(*spec) for spec in native.specs(common, shape, args, kwargs)]
        arrays: list[np.ndarray | None] = []
        written: list[tuple[np.ndarray, np.ndarray]] = []
        changed = self._changed(tensors)
        for place, (position, tensor) in enumerate(zip(native.tensors, tensors)):
            if tensor is None:
                arrays.append(None)
                continue
            dtype = key[place] if isinstance(key, tuple) else key
            if dtype is None and tensor._word & WEAK_MASK:
                dtype = common
            if native.schema.arguments[position].is_mutable:
                array = self._mutable(native.names[position], tensor, dtype, shape)
                used = self.mutable(array)
                if used is not array:
                    written.append((array, used))
            else:
                if dtype is not None:
                    refuse_out_of_range(native.name, tensor, dtype)
                used = self.readable(tensor._data, dtype, shape)
                if any(np.may_share_memory(used, array) for array in changed):
                    used = used.copy()  # the function reads the values from before the call
            arrays.append(used)
        code = self.run(entry, values, arrays, outs, shape)
        for array, used in written:
            array[...] = used
        if not native.gives_tensors:
            return code
        if native.status and code:
            raise native.failed(entry.symbol, code)
        made = tuple([make_tensor(out, cpu_word(out.dtype)) for out in outs])
        return made[0] if len(made) == 1 else made or None

    def _changed(self, tensors: list[Tensor | None]) -> list[np.ndarray]:
        """Return the arrays that the function changes; raise ValueError if two of them share memory."""
        arguments = self.native.schema.arguments
        found: dict[str, np.ndarray] = {}
        for position, tensor in zip(self.native.tensors, tensors):
            if arguments[position].is_mutable and tensor is not None:
                check_distinct_elements(self.native.name, tensor, f"the argument {arguments[position].name!r}")
                for other, array in found.items():
                    if arrays_overlap(array, tensor._data):
                        raise ValueError(
                            f"[{self.native.name}] changes {other!r} and {arguments[position].name!r}, which share "
                            "their memory: give a clone() of one of them."
                        )
                found[arguments[position].name] = tensor._data
        return [*found.values()]

    def _mutable(self, argument: str, tensor: Tensor, dtype: Any, shape: tuple[int, ...] | None) -> np.ndarray:
        operator = self.native.name
        if tensor._word & WEAK_MASK or (dtype is not None and tensor.dtype != dtype):
            got = "a number's" if tensor._word & WEAK_MASK else tensor.dtype
            raise TypeError(
                f"[{operator}] changes {argument!r}, which has dtype {got} where the function works on {dtype}."
            )
        if shape is not None and tensor.shape != shape:
            raise ValueError(
                f"[{operator}] changes {argument!r} of shape {tensor.shape}, and the arguments together have the "
                f"shape {shape}: they must be equal."
            )
        array: np.ndarray = tensor._data
        if not array.flags.writeable:
            raise ValueError(f"[{operator}] changes {argument!r}, whose memory is read-only: give a clone() of it.")
        return array

    def common_shape(self, tensors: list[Tensor]) -> Any:
        """Return the shape that all tensors are broadcast to, or None if each keeps its shape."""
        return None if self.native.meta is not None else tensors[0].shape if tensors else ()

    def mutable(self, array: np.ndarray) -> np.ndarray:
        """Return the array for the function to change, or a copy that is copied back."""
        return array

    def readable(self, array: np.ndarray, dtype: Any, shape: Any) -> np.ndarray:
        """Return the array for the function to read."""
        return array if dtype is None else array.astype(dtype, copy=False)

    def numbers(self, values: list[Any]) -> list[Any]:
        """Convert the arguments that are not tensors."""
        made = list(values)
        for i, argument in enumerate(self.native.schema.arguments):
            kind = str(argument.type)
            if kind == "int":
                _check_int(self.native.name, argument.name, made[i])
            elif kind == "complex":
                made[i] = _pair(made[i])
        return made

    def passed(self, values: list[Any], arrays: list[Any], outs: list[Any], form: Callable[..., Any]) -> list[Any]:
        """Return what the function gets: the arguments and the results, with arrays in the form of the convention."""
        for position, array in zip(self.native.tensors, arrays):
            values[position] = None if array is None else form(array)
        return [*values, *map(form, outs)]

    def run(self, entry: Any, values: list[Any], arrays: list[Any], outs: list[Any], shape: Any) -> Any:
        """Call the function and return its status."""
        raise NotImplementedError


class _Elements(_Call):
    """A call in the convention "elements": it broadcasts, promotes and copies to row-major order."""

    def common_shape(self, tensors: list[Tensor]) -> Any:
        return broadcast_shapes(self.native.name, *[t.shape for t in tensors])

    def mutable(self, array: np.ndarray) -> np.ndarray:
        return array if array.flags.carray else np.array(array, order="C")

    def readable(self, array: np.ndarray, dtype: Any, shape: Any) -> np.ndarray:
        return np.require(np.broadcast_to(array, shape), dtype, ["C", "A"])

    def run(self, entry: Any, values: list[Any], arrays: list[Any], outs: list[Any], shape: Any) -> Any:
        return entry.call(*self.passed(self.numbers(values), arrays, outs, _slow_address), math.prod(shape))


class _DLPack(_Call):
    """A call in the convention "dlpack"."""

    def run(self, entry: Any, values: list[Any], arrays: list[Any], outs: list[Any], shape: Any) -> Any:
        return entry.call(*self.passed(self.numbers(values), arrays, outs, lambda x: ctypes.byref(describe(x))))


class _TVMFFI(_Call):
    """A call in the convention "tvm-ffi", which raises Python exceptions itself."""

    def readable(self, array: np.ndarray, dtype: Any, shape: Any) -> np.ndarray:
        made = super().readable(array, dtype, shape)
        return made if made.flags.writeable else made.copy()  # NumPy does not export read-only arrays

    def run(self, entry: Any, values: list[Any], arrays: list[Any], outs: list[Any], shape: Any) -> Any:
        try:
            passed = self.passed(list(values), arrays, outs, from_dlpack)
        except BufferError as error:
            raise TypeError(f"[{self.native.name}] an argument cannot be exchanged by DLPack: {error}") from None
        entry.call(*passed)
        return 0


def from_dlpack(array: np.ndarray) -> Any:
    """Return the array as a tensor of the TVM FFI, on the same memory."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(array)


MAKERS: Final[dict[str, Callable[[Native, int], Callable[..., Any]]]] = {
    "elements": elements_kernel, "dlpack": _DLPack, "tvm-ffi": _TVMFFI,
}  # fmt: skip
"""The kernel for a word, by convention."""
