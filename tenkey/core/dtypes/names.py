"""Data types: NumPy's own ``np.dtype`` objects under the names of the array API standard.

``float32`` *is* ``np.dtype("float32")``, so libraries that inspect ``x.dtype`` (xarray, dask, jaxtyping, matplotlib)
need no adapter. This module defines which dtypes tensors may have, their categories, and the defaults for Python
numbers; ``limits`` has the numerical limits and ``promotion`` the rules for combining dtypes. ``bfloat16`` comes from
the optional package ``ml_dtypes``, which is imported at the first use of the name.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from builtins import bool as _bool
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from ...dispatch.errors import shown

__all__ = [
    "ALL", "KINDS", "DType", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "all_dtypes", "canonical", "complex_of",
    "default_complex", "default_dtypes", "default_float", "default_int", "get_defaults", "is_complex", "is_inexact",
    "is_integral", "is_real_floating", "isdtype", "real_of", "remedy", "set_default_dtypes", "to_dtype",
]  # fmt: skip

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
"""Every dtype except bfloat16; ``all_dtypes()`` adds it where ``ml_dtypes`` is installed."""

_CANONICAL: Final[dict[DType, DType]] = {dtype: dtype for dtype in ALL}

_NO_BFLOAT16: Final = (
    "[dtype] got bfloat16: NumPy has no bfloat16 of its own, and the package ml_dtypes is not installed. Run `pip "
    "install ml_dtypes`, or use float16 or float32."
)
_REMEDY_BY_KIND: Final = {
    "f": "Extended precision has no kernels: convert with `x.astype('float64')`.",
    "c": "Extended precision has no kernels: convert with `x.astype('complex128')`.",
    "O": "Convert the objects to numbers first, for instance with `np.asarray(data, dtype='float32')`.",
    **dict.fromkeys(
        "UST",
        "Convert the text to a new array of numbers first, for instance with `np.asarray(data).astype('float32')`.",
    ),
    "M": "Convert times to integers first with `x.astype('int64')`, and keep the unit beside them.",
    "m": "Convert durations to integers first with `x.astype('int64')`, and keep the unit beside them.",
    "V": "Make one tensor for each field, or convert with `x.astype('float32')`.",
}


# Note [Optional bfloat16]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# ml_dtypes is optional and takes milliseconds to import, so it is imported when "bfloat16" is named; a dtype object of
# that name can only come from ml_dtypes. Its bit in the dispatch word (``word``) is reserved from the start. Nothing
# here compares with a bfloat16 object, which may not exist: categories go by the dtype's *name*, because NumPy's kind
# of it is "V" (void). Guarded by test_dtypes.py::test_bfloat16_missing.
@functools.cache
def _load_bfloat16() -> DType | None:
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)  # type: ignore[no-any-return]
    except ImportError:
        return None


def __getattr__(name: str) -> DType:
    if name != "bfloat16":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    dtype = _load_bfloat16()
    if dtype is None:
        raise AttributeError(_NO_BFLOAT16)
    return dtype


def all_dtypes() -> tuple[DType, ...]:
    """Return ``ALL``, and bfloat16 where ``ml_dtypes`` is installed (which imports it).

    >>> len(all_dtypes()) >= 14
    True
    """
    dtype = _load_bfloat16()
    return ALL if dtype is None else (*ALL, dtype)


def _is_bfloat16(dtype: DType) -> _bool:
    return dtype.itemsize == 2 and dtype.name == "bfloat16"


# Categories. They take supported dtypes (results of to_dtype); for others they answer by NumPy's kind.


def is_integral(dtype: DType) -> _bool:
    """Return whether ``dtype`` is a signed or unsigned integer; bool is not.

    >>> is_integral(uint8), is_integral(bool)
    (True, False)
    """
    return dtype.kind in "iu"


def is_real_floating(dtype: DType) -> _bool:
    """Return whether ``dtype`` is float16, bfloat16, float32 or float64."""
    return dtype.kind == "f" or _is_bfloat16(dtype)


def is_complex(dtype: DType) -> _bool:
    """Return whether ``dtype`` is complex64 or complex128."""
    return dtype.kind == "c"


def is_inexact(dtype: DType) -> _bool:
    """Return whether ``dtype`` is real or complex floating point: the dtypes that can carry a gradient.

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
"""The kinds of the array API standard's ``isdtype`` with their members; bfloat16 also belongs to "real floating" and
"numeric"."""


def isdtype(dtype: DType, kind: object) -> _bool:
    """Return whether ``dtype`` is of a kind: a dtype, a name in ``KINDS``, or a tuple of these, one of which must hold.

    Source: array API standard 2025.12, ``isdtype``. Raises ValueError for an unknown name, TypeError for other types.

    >>> isdtype(float32, "real floating"), isdtype(float32, (float64, "integral"))
    (True, False)
    """
    if isinstance(kind, tuple):
        answers = [isdtype(dtype, one) for one in kind]  # all of them: a wrong kind is reported wherever it stands
        return any(answers)
    if isinstance(kind, np.dtype):
        return _bool(dtype == kind)
    if not isinstance(kind, str) or kind not in KINDS:
        raise (ValueError if isinstance(kind, str) else TypeError)(
            f"[isdtype] got kind {shown(kind)}: a kind is a dtype, one of {', '.join(map(repr, KINDS))}, or a tuple of "
            "them."
        )
    return dtype in KINDS[kind] or (kind in ("real floating", "numeric") and _is_bfloat16(dtype))


class _Defaults(NamedTuple):
    real_floating: DType
    complex_floating: DType
    integral: DType


def _initial_defaults() -> _Defaults:
    given = os.environ.get("TENKEY_DEFAULT_FLOAT", "float32")
    if given not in ("float32", "float64"):
        raise ValueError(
            f"[dtype] the environment variable TENKEY_DEFAULT_FLOAT is {given!r}: give one of float32, float64."
        )
    return _Defaults(np.dtype(given), complex128 if given == "float64" else complex64, int64)


_INITIAL: Final = _initial_defaults()
# Local to the thread and asyncio task: a library that changes the defaults for its own computation must not change
# them for other threads. Every thread starts from these values.
_defaults: ContextVar[_Defaults] = ContextVar("tenkey_default_dtypes", default=_INITIAL)
get_defaults: Final = _defaults.get
"""The default dtypes ``real_floating``, ``complex_floating`` and ``integral``; a C function, for hot paths."""


def default_float() -> DType:
    """Return the dtype of Python floats: float32, or what ``default_dtypes`` or ``TENKEY_DEFAULT_FLOAT`` set."""
    return _defaults.get().real_floating


def default_complex() -> DType:
    """Return the dtype of Python complex numbers: complex64 unless changed."""
    return _defaults.get().complex_floating


def default_int() -> DType:
    """Return the dtype of Python ints, of indices and of counts: int64 unless changed."""
    return _defaults.get().integral


def set_default_dtypes(
    *, real_floating: object = None, complex_floating: object = None, integral: object = None
) -> None:
    """Change default dtypes in this thread and asyncio task; see ``default_dtypes``.

    Integers narrower than int32, or unsigned, are refused: indices and sizes would not fit, or could not be negative.
    """
    if real_floating is not None:
        choices = ALL if to_dtype(real_floating) in (float32, float64) else all_dtypes()  # Note [Optional bfloat16]
        given = _checked_default(real_floating, is_real_floating, choices)
        _defaults.set(_defaults.get()._replace(real_floating=given, complex_floating=complex_of(given)))
    if complex_floating is not None:
        given = _checked_default(complex_floating, is_complex, _COMPLEX)
        _defaults.set(_defaults.get()._replace(complex_floating=given))
    if integral is not None:
        given = _checked_default(integral, is_integral, (int32, int64))
        _defaults.set(_defaults.get()._replace(integral=given))


def _checked_default(dtype: object, belongs: Callable[[DType], _bool], choices: tuple[DType, ...]) -> DType:
    given, allowed = to_dtype(dtype), [choice for choice in choices if belongs(choice)]
    if given not in allowed:
        names = ", ".join(choice.name for choice in allowed)
        raise TypeError(f"[default_dtypes] got {given.name}: the default must be one of {names}.")
    return given


@contextlib.contextmanager
def default_dtypes(
    *, real_floating: object = None, complex_floating: object = None, integral: object = None
) -> Iterator[None]:
    """Change default dtypes inside a ``with`` block, in this thread and asyncio task.

    Python floats, complex numbers and ints become tensors of these dtypes. Each is a dtype or its name;
    ``real_floating`` also sets the complex dtype of the same precision (at least complex64). For a whole process, set
    the environment variable ``TENKEY_DEFAULT_FLOAT`` to ``float64``. Raises TypeError for a dtype of another kind.

    >>> with default_dtypes(real_floating="float64"):
    ...     to_dtype(float), to_dtype(complex)
    (dtype('float64'), dtype('complex128'))
    """
    token = _defaults.set(_defaults.get())
    try:
        set_default_dtypes(real_floating=real_floating, complex_floating=complex_floating, integral=integral)
        yield
    finally:
        _defaults.reset(token)


_PYTHON_NAMES: Final[dict[str, type]] = {"bool": _bool, "int": int, "float": float, "complex": complex}
_PYTHON_TYPES: Final[dict[object, Callable[[], DType]]] = {
    _bool: lambda: bool,
    int: default_int,
    float: default_float,
    complex: default_complex,
}


def _unsupported(given: object, kind: str | None) -> TypeError:
    supported = ", ".join([*(dtype.name for dtype in ALL), "bfloat16"])
    remedy = _REMEDY_BY_KIND.get(kind or "", "Name one of these dtypes, for instance tenkey.float32 or 'float32'.")
    return TypeError(f"[dtype] got {shown(given)}: tensors hold {supported}. {remedy}")


def to_dtype(obj: object) -> DType:
    """Return the supported dtype, in native byte order, that ``obj`` names.

    ``obj`` is a dtype, its name or NumPy code ("float32", "<f4"), a NumPy scalar type, or one of Python's bool, int,
    float, complex (or their names), which stand for the default dtypes. A foreign byte order is normalised: it
    describes data in files, not the dtype of a tensor. Raises TypeError for anything else, ``None`` included.

    >>> to_dtype("float32"), to_dtype(float), to_dtype(np.uint8), to_dtype(">i4")
    (dtype('float32'), dtype('float32'), dtype('uint8'), dtype('int32'))
    """
    if isinstance(obj, np.dtype):
        # The look-up also maps NumPy's twins (the dtype of np.longlong equals that of np.int64) to one object.
        known = _CANONICAL.get(obj)
        return known if known is not None else _normalise(obj, obj)
    if isinstance(obj, type):
        if obj in _PYTHON_TYPES:
            return _PYTHON_TYPES[obj]()
        if not issubclass(obj, np.generic):  # np.dtype would make the object dtype of any class
            raise _unsupported(obj, None)
        return _normalise(np.dtype(obj), obj)
    if isinstance(obj, str):
        if obj in _PYTHON_NAMES:
            return _PYTHON_TYPES[_PYTHON_NAMES[obj]]()
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
    native = canonical(dtype)
    if native in _CANONICAL or _is_bfloat16(native):
        return native
    raise _unsupported(given, dtype.kind) from None


def canonical(dtype: DType) -> DType:
    """Return the one object for a dtype that tensors can have; other dtypes in native byte order.

    >>> canonical(np.dtype(">i4")) is int32
    True
    """
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    return _CANONICAL.get(native, native)


def remedy(dtype: DType) -> str:
    """Return what to do with data of a dtype that tensors cannot have, for error messages."""
    return _REMEDY_BY_KIND.get(dtype.kind, "")


def real_of(dtype: DType) -> DType:
    """Return the dtype of the real part, of ``abs`` and of norms: ``dtype`` itself unless it is complex.

    >>> real_of(complex128), real_of(int8)
    (dtype('float64'), dtype('int8'))
    """
    return float32 if dtype == complex64 else float64 if dtype == complex128 else dtype


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts hold ``dtype``: complex64 for half precision, the default for integers.

    >>> complex_of(float64), complex_of(float16)
    (dtype('complex128'), dtype('complex64'))
    """
    if is_complex(dtype):
        return dtype
    if is_real_floating(dtype):
        return complex128 if dtype == float64 else complex64
    return default_complex()
