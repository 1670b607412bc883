"""Data types: NumPy's own ``np.dtype`` objects under the names of the array API standard.

``float32`` *is* ``np.dtype("float32")``: libraries that look at ``x.dtype`` (xarray, dask, jaxtyping, matplotlib) need
no adapter. This module says which dtypes a tensor may have, which category each belongs to, which dtype a Python
number gets by default. The numerical limits are in ``dtype_limits``; how two dtypes combine is in ``promotion``.

``bfloat16`` comes from the optional package ``ml_dtypes``, which is imported when the name is first asked for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from builtins import bool as _bool
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

# fmt: off
__all__ = [
    "ALL", "KINDS", "DType",
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "all_dtypes", "has_bfloat16",
    "is_boolean", "is_complex", "is_inexact", "is_integral", "is_real_floating", "is_signed_integral",
    "is_unsigned_integral", "isdtype",
    "default_complex", "default_dtypes", "default_float", "default_int", "get_defaults",
    "set_default_complex", "set_default_float", "set_default_int",
    "canonical", "complex_of", "dtype_name", "real_of", "remedy", "to_dtype",
]
# fmt: on

DType: TypeAlias = np.dtype[Any]

bool: Final[DType] = np.dtype("bool")
int8: Final[DType] = np.dtype("int8")
int16: Final[DType] = np.dtype("int16")
int32: Final[DType] = np.dtype("int32")
int64: Final[DType] = np.dtype("int64")
uint8: Final[DType] = np.dtype("uint8")
uint16: Final[DType] = np.dtype("uint16")
uint32: Final[DType] = np.dtype("uint32")
uint64: Final[DType] = np.dtype("uint64")
float16: Final[DType] = np.dtype("float16")
float32: Final[DType] = np.dtype("float32")
float64: Final[DType] = np.dtype("float64")
complex64: Final[DType] = np.dtype("complex64")
complex128: Final[DType] = np.dtype("complex128")

if TYPE_CHECKING:
    bfloat16: DType

_SIGNED: Final = (int8, int16, int32, int64)
_UNSIGNED: Final = (uint8, uint16, uint32, uint64)
_REAL_FLOATING: Final = (float16, float32, float64)
_COMPLEX: Final = (complex64, complex128)

ALL: Final[tuple[DType, ...]] = (bool, *_SIGNED, *_UNSIGNED, *_REAL_FLOATING, *_COMPLEX)
"""Every dtype that is always there; ``all_dtypes()`` adds bfloat16 where ``ml_dtypes`` is installed."""

_CANONICAL: Final[dict[DType, DType]] = {dtype: dtype for dtype in ALL}

_NO_BFLOAT16: Final = (
    "[dtype] bfloat16 was asked for, but NumPy has no bfloat16 of its own and the package ml_dtypes is not installed: "
    "run `pip install ml_dtypes`, or use float16 or float32."
)
_REMEDY_BY_KIND: Final = {
    "f": "Extended precision has no kernels: convert with `x.astype('float64')`.",
    "c": "Extended precision has no kernels: convert with `x.astype('complex128')`.",
    "O": "Convert the objects to numbers first, for instance with `np.asarray(data, dtype='float32')`.",
    "U": "Convert the text to a new array of numbers first, for instance with `np.asarray(data).astype('float32')`.",
    "S": "Convert the text to a new array of numbers first, for instance with `np.asarray(data).astype('float32')`.",
    "T": "Convert the text to a new array of numbers first, for instance with `np.asarray(data).astype('float32')`.",
    "M": "Convert times to integers first with `x.astype('int64')`, and keep the unit beside them.",
    "m": "Convert durations to integers first with `x.astype('int64')`, and keep the unit beside them.",
    "V": "Make one tensor for each field, or convert with `x.astype('float32')`.",
}
_REMEDY_UNKNOWN: Final = "Name one of these dtypes, for instance tenkey.float32 or 'float32'."


# Note [Optional bfloat16]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# ml_dtypes is optional and costs some milliseconds to import, so it is imported only when somebody says "bfloat16" or
# hands over a dtype that calls itself so (whoever holds such a dtype has imported ml_dtypes already). The bit that says
# "bfloat16" in a dispatch word is there from the start (``word``). Nothing here
# compares with a bfloat16 object that may not exist: categories go by the dtype's *name*, because its `kind` is "V"
# (void) in NumPy's eyes. Guarded by test_dtypes.py::test_bfloat16_missing.
@functools.cache
def _load_bfloat16() -> DType | None:
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError:
        return None
    dtype: DType = np.dtype(module.bfloat16)
    return dtype


def __getattr__(name: str) -> DType:
    if name == "bfloat16":
        dtype = _load_bfloat16()
        if dtype is None:
            raise AttributeError(_NO_BFLOAT16)
        return dtype
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def has_bfloat16() -> _bool:
    """Whether bfloat16 can be used, that is, whether ``ml_dtypes`` is installed (imports it)."""
    return _load_bfloat16() is not None


def all_dtypes() -> tuple[DType, ...]:
    """``ALL``, and bfloat16 where it is available.

    >>> len(all_dtypes()) - has_bfloat16()
    14
    """
    dtype = _load_bfloat16()
    return ALL if dtype is None else (*ALL, dtype)


def _is_bfloat16(dtype: DType) -> _bool:
    return dtype.itemsize == 2 and dtype.name == "bfloat16"


# ---------------------------------------------------------------------------------------------------------------------
# Categories. They take supported dtypes (what to_dtype returns); for others they answer by NumPy's kind.


def is_boolean(dtype: DType) -> _bool:
    """Whether ``dtype`` is bool."""
    return dtype.kind == "b"


def is_signed_integral(dtype: DType) -> _bool:
    """Whether ``dtype`` is one of int8 to int64."""
    return dtype.kind == "i"


def is_unsigned_integral(dtype: DType) -> _bool:
    """Whether ``dtype`` is one of uint8 to uint64."""
    return dtype.kind == "u"


def is_integral(dtype: DType) -> _bool:
    """Whether ``dtype`` is a signed or unsigned integer; bool is not.

    >>> is_integral(uint8), is_integral(bool)
    (True, False)
    """
    return dtype.kind in "iu"


def is_real_floating(dtype: DType) -> _bool:
    """Whether ``dtype`` is float16, bfloat16, float32 or float64."""
    return dtype.kind == "f" or _is_bfloat16(dtype)


def is_complex(dtype: DType) -> _bool:
    """Whether ``dtype`` is complex64 or complex128."""
    return dtype.kind == "c"


def is_inexact(dtype: DType) -> _bool:
    """Whether ``dtype`` is real or complex floating point: the dtypes that can carry a gradient.

    >>> is_inexact(complex64), is_inexact(int64)
    (True, False)
    """
    return dtype.kind in "fc" or _is_bfloat16(dtype)


KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (bool,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": _REAL_FLOATING,
    "complex floating": _COMPLEX,
    "numeric": (*_SIGNED, *_UNSIGNED, *_REAL_FLOATING, *_COMPLEX),
}
"""The kinds of the array API standard's ``isdtype``, each with its members; bfloat16, where it exists, belongs to
"real floating" and "numeric"."""

_BFLOAT16_KINDS: Final = ("real floating", "numeric")
_BAD_KIND: Final = "[isdtype] got kind {kind!r}: a kind is a dtype, one of {kinds}, or a tuple of these."


def isdtype(dtype: DType, kind: object) -> _bool:
    """Whether ``dtype`` is of a kind: a dtype, a name in ``KINDS``, or a tuple of them of which one must hold.

    Source: array API standard 2025.12, ``isdtype``. Raises ValueError for an unknown kind, TypeError for what is no
    kind at all.

    >>> isdtype(float32, "real floating"), isdtype(float32, (float64, "integral"))
    (True, False)
    """
    if isinstance(kind, tuple):
        answers = [isdtype(dtype, one) for one in kind]  # all of them: a wrong kind is reported wherever it stands
        return any(answers)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(_BAD_KIND.format(kind=kind, kinds=", ".join(map(repr, KINDS))))
        return dtype in KINDS[kind] or (kind in _BFLOAT16_KINDS and _is_bfloat16(dtype))
    if isinstance(kind, np.dtype):
        return _bool(dtype == kind)
    raise TypeError(_BAD_KIND.format(kind=kind, kinds=", ".join(map(repr, KINDS))))


class _Defaults(NamedTuple):
    real_floating: DType
    complex_floating: DType
    integral: DType


# A context variable: local to the thread and to the asyncio task, so that a library that changes the defaults for its
# own computation cannot change them under another thread's feet. A new thread starts from the values below, of which
# the environment chooses the floating ones: for programs written with NumPy's defaults in mind, threads included.
_INITIALS: Final = {"float32": complex64, "float64": complex128}


def _initial_defaults() -> _Defaults:
    given = os.environ.get("TENKEY_DEFAULT_FLOAT", "float32")
    if given not in _INITIALS:
        raise ValueError(
            f"[dtype] the environment variable TENKEY_DEFAULT_FLOAT is {given!r}: give one of {', '.join(_INITIALS)}."
        )
    return _Defaults(np.dtype(given), _INITIALS[given], int64)


_INITIAL: Final = _initial_defaults()
_defaults: ContextVar[_Defaults] = ContextVar("tenkey_default_dtypes", default=_INITIAL)
get_defaults: Final = _defaults.get
"""The default dtypes, ``real_floating``, ``complex_floating`` and ``integral``: a call into C, for those in a hurry."""


def default_float() -> DType:
    """The dtype of a Python float: float32 unless ``set_default_float`` or ``TENKEY_DEFAULT_FLOAT`` changed it.

    >>> default_float()
    dtype('float32')
    """
    return _defaults.get().real_floating


def default_complex() -> DType:
    """The dtype of a Python complex number: complex64 unless changed."""
    return _defaults.get().complex_floating


def default_int() -> DType:
    """The dtype of a Python int, of indices and of counts: int64 unless changed."""
    return _defaults.get().integral


def _checked_default(function: str, dtype: object, choices: tuple[DType, ...]) -> DType:
    given = to_dtype(dtype)
    if given not in choices:
        names = ", ".join(choice.name for choice in choices)
        raise TypeError(f"[{function}] got {given.name}: the default must be one of {names}.")
    return given


def set_default_float(dtype: object) -> None:
    """Set the default real floating dtype, and with it the complex dtype of the same precision (at least complex64).

    Holds in this thread and asyncio task. Raises TypeError if ``dtype`` is not real floating.
    """
    choices = tuple(choice for choice in all_dtypes() if is_real_floating(choice))
    given = _checked_default("set_default_float", dtype, choices)
    _defaults.set(_defaults.get()._replace(real_floating=given, complex_floating=complex_of(given)))


def set_default_complex(dtype: object) -> None:
    """Set the default complex dtype alone. Raises TypeError if ``dtype`` is not complex."""
    given = _checked_default("set_default_complex", dtype, _COMPLEX)
    _defaults.set(_defaults.get()._replace(complex_floating=given))


def set_default_int(dtype: object) -> None:
    """Set the default integer dtype to int32 or int64. Raises TypeError otherwise.

    Narrower or unsigned defaults are refused: indices and sizes would not fit, or could not be negative.
    """
    given = _checked_default("set_default_int", dtype, (int32, int64))
    _defaults.set(_defaults.get()._replace(integral=given))


@contextlib.contextmanager
def default_dtypes(
    *, real_floating: object = None, complex_floating: object = None, integral: object = None
) -> Iterator[None]:
    """Change default dtypes inside a ``with`` block; they are restored however it is left.

    Python's floats, complex numbers and ints make tensors of these dtypes, in this thread and asyncio task. Each is a
    dtype or its name; ``real_floating`` sets the complex one to the same precision. For a whole process, set the
    environment variable ``TENKEY_DEFAULT_FLOAT`` to ``float64``. Raises TypeError for a dtype of another kind.

    >>> with default_dtypes(real_floating="float64"):
    ...     to_dtype(float), to_dtype(complex)
    (dtype('float64'), dtype('complex128'))
    """
    token = _defaults.set(_defaults.get())
    try:
        if real_floating is not None:
            set_default_float(real_floating)
        if complex_floating is not None:
            set_default_complex(complex_floating)
        if integral is not None:
            set_default_int(integral)
        yield
    finally:
        _defaults.reset(token)


# ---------------------------------------------------------------------------------------------------------------------
# Normalisation


_PYTHON_NAMES: Final[dict[str, type]] = {"bool": _bool, "int": int, "float": float, "complex": complex}


def _python_scalar_dtype(kind: type) -> DType | None:
    if kind is float:
        return default_float()
    if kind is int:
        return default_int()
    if kind is _bool:
        return bool
    if kind is complex:
        return default_complex()
    return None


def _unsupported(given: object, kind: str | None) -> TypeError:
    remedy = _REMEDY_UNKNOWN if kind is None else _REMEDY_BY_KIND.get(kind, _REMEDY_UNKNOWN)
    supported = ", ".join([*(dtype.name for dtype in ALL), "bfloat16"])
    return TypeError(f"[dtype] got {given!r}: tensors hold {supported}. {remedy}")


def to_dtype(obj: object) -> DType:
    """The supported dtype in native byte order that ``obj`` names.

    ``obj`` is a dtype, its name or NumPy code ("float32", "<f4"), a NumPy scalar type, or one of Python's own bool,
    int, float, complex (also by these names), which give the default dtypes. A foreign byte order is normalised: it
    describes how data lie in a file, never how a tensor computes. Raises TypeError, naming the remedy, for anything
    else, ``None`` included.

    >>> to_dtype("float32"), to_dtype(float), to_dtype(np.uint8), to_dtype(">i4")
    (dtype('float32'), dtype('float32'), dtype('uint8'), dtype('int32'))
    """
    if isinstance(obj, np.dtype):
        # The look-up also maps NumPy's twins (the dtype of np.longlong equals that of np.int64) to one object.
        known = _CANONICAL.get(obj)
        return known if known is not None else _normalise(obj, obj)
    if isinstance(obj, type):
        scalar = _python_scalar_dtype(obj)
        if scalar is not None:
            return scalar
        # Not any type: np.dtype(some_class) is the object dtype, and np.dtype(None) float64.
        if not issubclass(obj, np.generic):
            raise _unsupported(obj, None)
        return _normalise(np.dtype(obj), obj)
    if isinstance(obj, str):
        python_type = _PYTHON_NAMES.get(obj)
        if python_type is not None:
            scalar = _python_scalar_dtype(python_type)
            assert scalar is not None
            return scalar
        if obj == "bfloat16":
            loaded = _load_bfloat16()
            if loaded is None:
                raise TypeError(_NO_BFLOAT16)
            return loaded
        try:
            named: DType = np.dtype(obj)
        except (TypeError, ValueError, SyntaxError):
            raise _unsupported(obj, None) from None
        return _normalise(named, obj)
    raise _unsupported(obj, None)


def _normalise(dtype: DType, given: object) -> DType:
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    known = _CANONICAL.get(native)
    if known is not None:
        return known
    if _is_bfloat16(native):
        return native
    raise _unsupported(given, dtype.kind)


def canonical(dtype: DType) -> DType:
    """The one object for a dtype that tensors have, in native byte order; others come back as they are, but native.

    >>> canonical(np.dtype(">i4")) is int32
    True
    """
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    return _CANONICAL.get(native, native)


def remedy(dtype: DType) -> str:
    """What to do with data of a dtype that tensors do not have."""
    return _REMEDY_BY_KIND.get(dtype.kind, "")


def dtype_name(dtype: DType) -> str:
    """The name that the standard gives to ``dtype``, without byte order.

    >>> dtype_name(np.dtype("<f8"))
    'float64'
    """
    return dtype.name


def real_of(dtype: DType) -> DType:
    """The dtype of the real part, of ``abs`` and of norms: itself unless ``dtype`` is complex.

    >>> real_of(complex128), real_of(int8)
    (dtype('float64'), dtype('int8'))
    """
    if dtype == complex64:
        return float32
    if dtype == complex128:
        return float64
    return dtype


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold ``dtype``: half precisions widen to complex64, bool and integers give the
    default complex dtype.

    >>> complex_of(float64), complex_of(float16)
    (dtype('complex128'), dtype('complex64'))
    """
    if is_complex(dtype):
        return dtype
    if is_real_floating(dtype):
        return complex128 if dtype == float64 else complex64
    return default_complex()
