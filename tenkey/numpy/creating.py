"""Functions of ``tenkey.numpy`` that make arrays, with NumPy's defaults.

Note [Arrays made of numbers]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
What is made of Python numbers and buffers alone (``arange``, ``linspace``, ``eye``, ``frombuffer`` ...) NumPy itself
makes, so that the last digits are NumPy's, and ``device=`` (or the default device) receives it. Where tensors are among
the arguments (``full(shape, x[0])``, ``linspace(x, y)``), operators compute, and gradients reach them.
Guarded by ``tests/numpy/test_creating.py``.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import numpy as np

from ..core.device import CPU, default_device, to_device
from ..core.exchange.interfaces import with_arrays
from ..core.tensor import Tensor, from_host
from ..core.tree import map_tensors, tensors_in
from ..core.word import DTYPE_TRAIT
from ..functions.creation import asarray as to_tensor
from ..functions.creation import from_dlpack as tensor_from_dlpack
from ..functions.linspace import linspace as tensor_linspace
from ..interop.numpy_fallback import op
from ..interop.numpy_order import in_order
from .array_class import as_ndarray, as_ndarrays, as_results, ndarray
from .call_rules.quick_functions import quick_function
from .converting import cast, in_float64, on_host, operand
from .known import define, functions

__all__ = ["array", "asarray", "lengths_of"]


_np: Final[Any] = np  # whose overloads do not know what users may pass
_ARRAYS: Final = frozenset([ndarray])


# ---- of data


def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0,
    like: Any = None, device: Any = None,
) -> Any:  # fmt: skip
    """Return an array of numbers, sequences, arrays or tensors, which keep their gradient; a copy by default.

    >>> import tenkey.numpy as tnp
    >>> tnp.array([1, 2], ndmin=2).shape, tnp.array([1.5, 2]).dtype
    ((1, 2), dtype('float64'))
    """
    kind = object.__class__
    if kind is ndarray and dtype is None and copy is True and order == "K" and not ndmin and device is None:
        return functions["copy"](object)
    if (
        (kind is list or kind is tuple) and order == "K" and dtype is None and copy is True and not ndmin
        and device is None and set(map(type, object)) == _ARRAYS
    ):  # fmt: skip
        made = functions["stack"](object)
        return made if made.is_contiguous else made.copy("C")
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted not in DTYPE_TRAIT:
        wanted = _native(wanted)
        if wanted not in DTYPE_TRAIT:
            return on_host(np.array, (object, wanted), {"copy": copy})
    if isinstance(object, Tensor):
        made = object if wanted is None else cast(object, wanted)
        if device is not None:
            made = made.to_device(device)
        arranged = in_order(made, order)
        if copy is False and arranged is not object:
            raise _no_copy()
        made = arranged
        if copy and made is object:
            made = in_order(op("clone")(object), order, like=object)
    elif isinstance(object, (list, tuple)) and tensors_in(object):
        if copy is False:
            raise _no_copy()
        made = in_order(_stacked(object, wanted), "C" if order in ("K", "A", None) else order)
        made = made if device is None else made.to_device(device)
    else:
        made = _of_data(object, wanted, copy, order, device)
    made = as_ndarrays(made, (object,))
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def _native(dtype: np.dtype) -> np.dtype:
    """Return the dtype in the byte order of the machine."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _no_copy() -> ValueError:
    return ValueError(
        "Unable to avoid copy while creating an array as requested.\nIf using `np.array(obj, copy=False)` replace it "
        "with `np.asarray(obj)` to allow a copy when needed (no behavior change in NumPy 1.x)."
    )


def _of_data(object: Any, dtype: np.dtype | None, copy: Any, order: Any, device: Any) -> Tensor:
    given = with_arrays(object, "numpy.array") if isinstance(object, (list, tuple)) else object
    source = np.array(given, dtype, copy=None if copy else copy, order=order)
    if not source.dtype.isnative:
        source = source.astype(_native(source.dtype))
    if source.dtype not in DTYPE_TRAIT:
        raise TypeError(
            f"[numpy.array] arrays of dtype {source.dtype} do not exist here, only bools and numbers of up to 64 bits "
            "(complex128): see docs/numpy.md."
        )
    if device is None and default_device() is CPU:
        fresh = not copy or source is not object
        return from_host(source if fresh and not isinstance(object, np.generic) else source.copy(order="K"))
    return to_tensor(source, device=device, copy=copy or None)


def _stacked(items: Any, dtype: Any) -> Any:
    parts = [x if x.__class__ is ndarray else array(x, copy=None) for x in items]
    made = functions["stack"](parts)
    return made if dtype is None else cast(made, dtype)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    """Return an array, without a copy where the data allow it; arguments as in :func:`array`."""
    if a.__class__ is ndarray and dtype is None and device is None and not copy and order is None:
        return a
    return array(a, dtype, copy=copy, order="K" if order is None else order, device=device)


def _at_least_1d(made: Any) -> Any:
    return made if made.ndim else made.reshape((1,))


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return an array of at least one dimension whose elements lie in row-major order; a copy only where needed."""
    return _at_least_1d(asarray(a, dtype, "C"))


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return an array of at least one dimension whose elements lie in column-major order; a copy only where needed."""
    return _at_least_1d(asarray(a, dtype, "F"))


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """Return an array as :func:`asarray` does; raise ValueError if an element is infinite or not a number."""
    made = asarray(a, dtype, order)
    if made.dtype.kind in "fc" and not bool(functions["all"](op("isfinite")(made))):
        raise ValueError("array must not contain infs or NaNs")
    return made


def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """Return a copy, which the gradient passes through."""
    if a.__class__ is ndarray:
        return a.copy(order)
    return array(a, order=order)


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """Return an array with the layout that is asked for: ``"C"``, ``"F"``, ``"O"`` (not a view), ``"W"``, ``"A"``."""
    known = {"C_CONTIGUOUS": "C", "CONTIGUOUS": "C", "F_CONTIGUOUS": "F", "FORTRAN": "F", "ALIGNED": "A",
             "WRITEABLE": "W", "OWNDATA": "O", "ENSUREARRAY": "E"}  # fmt: skip
    asked = {known.get(str(one).upper(), str(one).upper()) for one in requirements or ()}
    if asked - {"C", "F", "A", "W", "O", "E"}:
        raise KeyError(next(iter(asked - {"C", "F", "A", "W", "O", "E"})))
    if {"C", "F"} <= asked:
        raise ValueError("Cannot specify both 'C' and 'F' order")
    order = "F" if "F" in asked else "C" if "C" in asked else None
    made = asarray(a, dtype, order)
    return made.copy(order or "K") if ("O" in asked and made.base is not None) else made


# ---- of a shape


def lengths_of(shape: Any) -> tuple[int, ...]:
    """Return a shape given as an int, a sequence, or an array as a tuple of ints."""
    if shape is None:
        raise TypeError("[numpy] the shape is None: Use () for an array without dimensions.")
    if isinstance(shape, (Tensor, np.ndarray)):
        shape = shape.tolist()
    return tuple([operator.index(n) for n in shape]) if hasattr(shape, "__iter__") else (operator.index(shape),)


def _filled(name: str, shape: Any, dtype: Any, order: Any, device: Any, like: Any = None) -> Any:
    wanted = np.dtype(float if dtype is None else dtype)
    if wanted not in DTYPE_TRAIT:
        return on_host(getattr(np, name), (shape, wanted), {})
    made = op(name)(lengths_of(shape), dtype=wanted, device=device)
    return as_ndarrays(made if order == "C" else _like_order(made, order, like))


def _like_order(made: Tensor, order: Any, like: Any) -> Tensor:
    """Return a new tensor in ``order``, where ``"K"`` and ``"A"`` refer to ``like``, which may have another shape."""
    name = "K" if order is None else str(order).upper()
    if like is not None and name == "A":
        name = "F" if like.flags.fnc else "C"
    return in_order(made, name, like if like is not None and like.ndim == made.ndim else made)


def _filling(name: str, what: str, call: str, call_like: str) -> None:
    def function(shape: Any, dtype: Any = float, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
        return _filled(name, shape, dtype, order, device)

    def function_like(
        a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Any:
        given = asarray(a)
        place = given.device if device is None else device
        return _filled(name, given.shape if shape is None else shape, dtype or given.dtype, order, place, given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return an array of {what}; float64 unless ``dtype`` says otherwise."
    function_like.__name__ = function_like.__qualname__ = f"{name}_like"
    function_like.__doc__ = f"Return an array of {what} with the shape, dtype, order and device of another one."
    define(quick_function(function, f"new {call} / {name}"))
    define(quick_function(function_like, f"{call_like} / {name}_like {name}", operands="a"))


_filling("zeros", "zeros", "few zeros(shape, dtype)", "filled_like(a, 0, dtype)")
_filling("ones", "ones", "filled(shape, 1.0, dtype)", "filled_like(a, 1, dtype)")
_filling("empty", "any values", "few empty(shape, dtype)", "empty_like(a, dtype)")


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Return an array filled with a value, or with values that broadcast; the gradient reaches them.

    >>> import tenkey.numpy as tnp
    >>> tnp.full(2, 7), tnp.full((2, 2), [1.0, 2.0]).tolist()
    (array([7, 7]), [[1.0, 2.0], [1.0, 2.0]])
    """
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted not in DTYPE_TRAIT:
        return on_host(np.full, (shape, fill_value, wanted), {})
    lengths = lengths_of(shape)
    if tensors_in([fill_value]) or np.ndim(fill_value):
        value = array(fill_value, copy=None, device=device)
        value = value if wanted is None else value.astype(wanted)
        made = op("clone")(op("broadcast_to")(value, lengths))
    else:
        number = np.full((), fill_value, wanted)
        made = op("full")(lengths, number.item(), dtype=number.dtype, device=device)
    return as_ndarrays(in_order(made, "C" if order in ("K", None) else order))


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Return an array filled with a value, with the shape, dtype, order and device of another one."""
    given = asarray(a)
    lengths = given.shape if shape is None else lengths_of(shape)
    place = given.device if device is None else device
    made = full(lengths, fill_value, dtype or given.dtype, "C", device=place)
    return as_ndarrays(_like_order(made, order, given))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Return an array in a dtype; with ``copy=False`` the array itself where it has it.

    >>> import tenkey.numpy as tnp
    >>> tnp.astype(tnp.array([1.5, -2.5]), int)
    array([ 1, -2])
    """
    if isinstance(x, np.generic):
        return x.astype(dtype)
    if not isinstance(x, Tensor):
        raise TypeError(f"[numpy.astype] Input should be a NumPy array. It is of type {type(x)}.")
    made = as_ndarray(x).astype(dtype, copy=copy)
    return made if device is None else made.to_device(device)


# ---- of numbers


def _placed(made: Any, device: Any) -> Any:
    """Return what NumPy made of numbers as an array on a device."""
    if isinstance(made, tuple):
        return tuple([_placed(x, device) for x in made])
    if not isinstance(made, np.ndarray) or made.dtype not in DTYPE_TRAIT:
        return made
    return as_ndarrays(from_host(made, default_device() if device is None else to_device(device)))


def _number(x: Any) -> Any:
    """Return a 0-d tensor as a NumPy scalar of its dtype; raises RuntimeError if it requires a gradient."""
    return x._to_numpy("numpy")[()] if isinstance(x, Tensor) and not x.ndim else x


def _of_numbers(name: str) -> None:
    """Define a function whose arguments are numbers: NumPy makes the array."""
    source = getattr(np, name)

    def function(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        given, options = map_tensors(_number, (args, kwargs))
        return _placed(source(*given, **options), device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return what ``numpy.{name}`` makes of its arguments, as an ``ndarray`` on ``device``."
    function.__wrapped__ = source  # type: ignore[attr-defined]
    define(quick_function(function, f"new {name}(*args#) /"))


for _name in (
    "arange", "eye", "identity", "tri", "bartlett", "blackman", "hamming", "hanning", "frombuffer",
    "fromfile", "fromiter", "fromregex", "fromstring", "genfromtxt", "loadtxt", "load", "tril_indices", "triu_indices",
    "diag_indices",
):  # fmt: skip
    _of_numbers(_name)


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Return ``num`` evenly spaced values from ``start`` to ``stop``; the gradient reaches ends that are tensors.

    >>> import tenkey.numpy as tnp
    >>> tnp.linspace(0, 1, 5, retstep=True)
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), np.float64(0.25))
    """
    num = operator.index(num)
    if not tensors_in((start, stop)):
        return _placed(_np.linspace(start, stop, num, endpoint, retstep, dtype, axis), device)
    first, last = operand(start), operand(stop)
    given = [x if isinstance(x, (int, float, complex)) else end.dtype for x, end in ((start, first), (stop, last))]
    wanted = np.result_type(*given, 1.0)  # Python numbers are weak
    ends = [cast(x, wanted) for x in (first, last)]
    made = in_float64(tensor_linspace, (*ends, num), {"endpoint": bool(endpoint), "device": device})
    made = as_ndarrays(made)
    steps = num - 1 if endpoint else num
    step = as_results((ends[1] - ends[0]) / steps) if steps > 0 else math.nan
    if dtype is not None:
        exact = np.dtype(dtype).kind in "iu"
        made = functions["astype"](op("floor")(made) if exact else made, dtype)
    made = functions["moveaxis"](made, 0, axis) if axis else made
    return (made, step) if retstep else made


def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Return ``num`` powers of ``base``, whose exponents are evenly spaced from ``start`` to ``stop``."""
    if not tensors_in((start, stop, base)):
        return _placed(_np.logspace(start, stop, num, endpoint, base, dtype, axis), device)
    first, last, root = (operand(x) for x in (start, stop, base))
    dims = max(x.ndim for x in (first, last, root))
    first, last, root = (x.reshape((1,) * (dims - x.ndim) + x.shape) for x in (first, last, root))
    made = root ** linspace(first, last, num, endpoint, device=device)
    made = as_ndarrays(made if dtype is None else op("astype")(made, np.dtype(dtype)))
    return functions["moveaxis"](made, 0, axis) if axis else made


def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Return ``num`` values from ``start`` to ``stop``, each the same multiple of the one before."""
    if not tensors_in((start, stop)):
        return _placed(_np.geomspace(start, stop, num, endpoint, dtype, axis), device)
    first, last = (op("add")(operand(x), 0.0) for x in (start, stop))
    exponents = linspace(0.0, 1.0, num, endpoint, device=first.device)
    shape = functions["broadcast_arrays"](first, last)[0].shape
    exponents = exponents.reshape(exponents.shape + (1,) * len(shape))
    made = as_ndarrays(first * (last / first) ** exponents)
    made = made if dtype is None else made.astype(dtype)
    return functions["moveaxis"](made, 0, axis) if axis else made


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """Return a function of the coordinates of all places of a shape, each an array of that shape."""
    return function(*functions["indices"](shape, dtype), **kwargs)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False, *, device: Any = None) -> Any:
    """Return the coordinates of all places of a shape, in one array, or in several that broadcast (``sparse``)."""
    made = _np.indices(lengths_of(dimensions), dtype, sparse)
    return tuple([_placed(x, device) for x in made]) if sparse else _placed(made, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return an array on the memory of another library's array, by the protocol DLPack; see ``tk.from_dlpack``."""
    return as_ndarrays(tensor_from_dlpack(x, device=device, copy=copy), (x,))


_PUBLIC: Final = (
    ascontiguousarray, asfortranarray, asarray_chkfinite, astype, require, logspace, geomspace, fromfunction, indices,
    from_dlpack,
)  # fmt: skip
for _function in _PUBLIC:
    define(_function)
define(asarray, "asarray", "asanyarray")
define(quick_function(array, "new array(object[], dtype) /"))
define(quick_function(copy, "a.copy(order) / clone", operands="a"))
define(quick_function(full, "new filled(shape, fill_value#, dtype) / full"))
define(quick_function(full_like, "filled_like(a, fill_value#, dtype) / full_like full", operands="a"))
define(quick_function(linspace, "new linspace(start#, stop#, num#, endpoint) /"))
