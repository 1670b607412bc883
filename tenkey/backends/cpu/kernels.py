"""Hand-written CPU kernels on NumPy: products, copies, gathers, creation, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.device import Device
from ...core.dtypes import names as dtypes
from ...core.plans import InPlace
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import DTYPE_MASK, dtypes_of
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...ops.shapes import refuse_shape
from ..allocation.host import allocate_like
from .fp_warnings import quietly, silenced
from .loops import random_draws
from .programs.program import Program, compute_into, program_of
from .thresholds import FEW_CONVERTED, LIGHT_LIMIT_BYTES

__all__ = ["KERNELS", "WORDS", "Specialized", "check", "convert_into", "own_error", "quiet_copy", "wrap"]

WORDS: Final[dict[np.dtype, int]] = {}
"""Words of CPU tensors by dtype, added when a dtype first occurs."""


class Specialized(NamedTuple):
    """In a table of kernels: ``rule(operator, word)`` returns the kernel for a dispatch word."""

    rule: Callable[[Operator, int], Callable[..., Any]]


def wrap(data: Any) -> Tensor:
    """Return a CPU tensor around a NumPy array or scalar."""
    if data.__class__ is not np.ndarray:
        data = np.asarray(data)
    word = WORDS.get(data.dtype)
    if word is None:
        word = WORDS[data.dtype] = cpu_word(data.dtype)
    return make_tensor(data, word)


def own_error(rule: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a rule that raises the operator's own error; the traceback omits the NumPy error that is being handled."""
    try:
        return rule(*args, **kwargs)
    except Exception as error:
        raise error from None


def check(name: str, *args: Any, **kwargs: Any) -> Any:
    """Run an operator's rule for shapes, which raises the operator's own error for arguments that NumPy refused."""
    facets = registry.find(f"tk::{name}").facets
    return own_error(facets["View"].window if "View" in facets else facets["Meta"].rule, *args, **kwargs)


def cast(x: Tensor, dtype: np.dtype) -> Tensor:
    data = x._data
    if data.dtype.kind == "c" and dtype.kind in "iufV":
        data = data.real
    if data.size >= FEW_CONVERTED and _in_loops(data, dtype):
        out = allocate_like(data, dtype)
        if _converted(out, data):
            return wrap(out)
    made = quiet_copy(data, dtype)
    word = WORDS.get(dtype)
    return wrap(made) if word is None else make_tensor(made, word)


def quiet_copy(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a copy of an array in another dtype, without warnings, laid out as results of ufuncs are in NumPy."""
    if a.ndim > 1 and 0 in a.strides:  # NumPy's astype moves these axes behind the others
        made = allocate_like(a, dtype)
        silenced(np.copyto, made, a, "unsafe")
        return made
    try:
        return quietly(a.astype, dtype)  # type: ignore[no-any-return]
    except RuntimeError:  # Note [A context without warnings]
        return silenced(a.astype, dtype)  # type: ignore[no-any-return]


def astype(x: Tensor, dtype: np.dtype, *, copy: bool = True, device: Device | None = None) -> Tensor:
    data = x._data
    if data.dtype.kind == "c" or device is not None or not copy:
        composition = registry.find("tk::astype").facets["Composite"].function
        return composition(x, dtype, copy=copy, device=device)  # type: ignore[no-any-return]
    return cast(x, dtype)


def _converted(out: np.ndarray, data: np.ndarray) -> bool:
    """Convert elements in a loop, if there is one."""
    from .programs.inner_loops import cast_loop  # Note [Delayed modules]

    loop = cast_loop(data.dtype, out.dtype)
    return loop is not None and not loop.run((data, out))


def convert_into(out: np.ndarray, data: np.ndarray) -> None:
    """Write the elements of an array of another dtype into an array of the same shape."""
    if not (_in_loops(data, out.dtype) and _converted(out, data)):
        silenced(np.copyto, out, data, "unsafe")


_IN_LOOPS: Final = "biufcV"  # kinds of dtypes that compiled loops convert


def _in_loops(data: np.ndarray, dtype: np.dtype) -> bool:
    """Tell whether a loop converts elements to a dtype, and pays: NumPy is slow for floats of two bytes only."""
    given = data.dtype
    if given.kind not in _IN_LOOPS or dtype.kind not in _IN_LOOPS:
        return False
    if (given.itemsize == 2 and given.kind in "fV") or (dtype.itemsize == 2 and dtype.kind in "fV"):
        return data.size >= FEW_CONVERTED
    return data.size * (given.itemsize + dtype.itemsize) >= LIGHT_LIMIT_BYTES


def to_device_kernel(x: Tensor, device: Device, *, non_blocking: bool = False) -> Tensor:
    if device.type == "cpu":
        return x
    if device.backend is None:
        return registry.find("tk::empty").call(x.shape, dtype=x.dtype, device=device)  # type: ignore[no-any-return]
    backend = device.backend
    copy = backend.from_host_later if non_blocking else backend.from_host
    return copy(x._data, device)  # type: ignore[no-any-return]


def _position(name: str, method: Callable[..., Any]) -> Callable[..., Tensor]:
    def kernel(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        if x.dtype.kind == "c":
            check(name, x, axis=axis)
        try:
            if axis is not None and not x._data.ndim:  # NumPy would treat it as a vector
                raise IndexError
            return wrap(method(x._data, axis, keepdims=keepdims) if keepdims else method(x._data, axis))
        except (ValueError, IndexError, OverflowError):
            check(name, x, axis=axis, keepdims=keepdims)
            raise

    return kernel


def complex_from(real: Tensor, imag: Tensor) -> Tensor:
    check("complex_from", real, imag)
    out = np.empty(real.shape, dtypes.complex_of(real.dtype))
    out.real, out.imag = real._data, imag._data
    return wrap(out)


# ---- creation


def full(shape: Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    check("full", shape, fill_value, dtype=dtype)
    wanted = dtype or dtypes.to_dtype(type(fill_value))
    try:
        if fill_value.__class__ is int and wanted.kind in "fVc":  # not all of these accept an int beyond 64 bits
            fill_value = float(fill_value)
        return wrap(silenced(np.full, shape, fill_value, wanted))
    except ValueError:
        own_error(refuse_shape, "full", shape, wanted.itemsize)
        raise


def linspace(
    start: Any, stop: Any, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    spec = registry.find("tk::linspace").facets["Meta"].rule(start, stop, num, dtype=dtype, endpoint=endpoint)
    try:
        first, last = (float(end) if end.__class__ is int else end for end in (start, stop))
        return wrap(silenced(np.linspace, first, last, num, endpoint=endpoint, dtype=spec.dtype))
    except ValueError:
        own_error(refuse_shape, "linspace", spec.shape, 8)  # NumPy computes in double precision
        raise


def eye(n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    check("eye", n_rows, n_cols)
    wanted = dtype or dtypes.default_float()
    try:
        return wrap(np.eye(n_rows, n_cols, k, wanted))
    except ValueError:
        own_error(refuse_shape, "eye", (n_rows, n_rows if n_cols is None else n_cols), wanted.itemsize)
        raise


# ---- random numbers


def random_uniform(
    shape: Sequence[int], seed: int, stream: int, start: int, *, low: float = 0.0, high: float = 1.0,
    dtype: Any = None, device: Any = None,
) -> Tensor:  # fmt: skip
    dtype = dtype or dtypes.default_float()
    return wrap(random_draws.uniform((seed, stream), math.prod(shape), dtype, start, low, high).reshape(shape))


def random_normal(
    shape: Sequence[int], seed: int, stream: int, start: int, *, dtype: Any = None, device: Any = None
) -> Tensor:
    dtype = dtype or dtypes.default_float()
    return wrap(random_draws.normal((seed, stream), math.prod(shape), dtype, start).reshape(shape))


def random_integers(
    shape: Sequence[int], seed: int, stream: int, start: int, *, low: int, high: int, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    drawn = random_draws.integers((seed, stream), low, high, math.prod(shape), dtype or dtypes.int64, start)
    return wrap(drawn.reshape(shape))


def random_standard(
    shape: Sequence[int], seed: int, stream: int, start: int, *, kind: str = "exponential", dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    dtype = dtype or dtypes.default_float()
    return wrap(random_draws.standard(kind, (seed, stream), math.prod(shape), dtype, start).reshape(shape))


# ---- gradients

_add: Final = np.add
_MUCH: Final = 1 << 15  # elements from which the kernel of add may be faster


def accumulate(x: Tensor, y: Tensor, in_place: bool) -> Tensor:
    """Return ``x + y``, written into ``x`` with ``in_place``, which callers pass if they alone refer to ``x``."""
    a = x._data
    if a.size >= _MUCH:
        if not in_place:
            return registry.find("tk::add").call(x, y)  # type: ignore[no-any-return]
        facet = registry.find("tk::add").facets["Pointwise"]
        if compute_into(program_of("tk::add", facet, a.dtype, a.dtype), (a, y._data), a):
            return x
    out = a if in_place else None
    try:
        data = quietly(_add, a, y._data, out)
    except RuntimeError:  # Note [A context without warnings]
        data = silenced(_add, a, y._data, out)
    return x if in_place else wrap(data)


def _sum_program(key: int) -> Program | None:
    """Return the program of the sum of two tensors of one dtype."""
    found = dtypes_of(key & DTYPE_MASK)
    if len(found) != 1 or found[0].kind not in "fc":
        return None
    return program_of("tk::add", registry.find("tk::add").facets["Pointwise"], found[0], found[0])


_described: Any = accumulate
_described.small = InPlace(_sum_program)

KERNELS: Final[dict[str, Callable[..., Any] | Specialized]] = {
    "tk::cast": cast, "tk::astype": astype, "tk::to_device": to_device_kernel,
    "tk::argmax": _position("argmax", np.ndarray.argmax),
    "tk::argmin": _position("argmin", np.ndarray.argmin),
    "tk::complex_from": complex_from, "tk::full": full, "tk::linspace": linspace, "tk::eye": eye,
    "tk::random_uniform": random_uniform, "tk::random_normal": random_normal, "tk::random_integers": random_integers,
    "tk::random_standard": random_standard,
    "tk::accumulate": accumulate,
}  # fmt: skip
