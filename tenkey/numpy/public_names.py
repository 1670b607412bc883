"""The names of the namespace: functions and ufuncs of ours, NumPy's own dtypes and constants, and what is refused."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np

from .known import functions
from .namespace import universal

__all__ = ["OUT_OF_SCOPE", "REFUSED", "fill", "find", "kind_of", "missing"]

_OWN: Final = [
    "bool_", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "complex64", "complex128", "int_", "uint", "intc", "uintc", "intp", "uintp", "short", "ushort", "byte",
    "ubyte", "long", "ulong", "longlong", "ulonglong", "half", "single", "double", "csingle", "cdouble", "dtype",
    "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating",
    "finfo", "iinfo", "issubdtype", "can_cast", "promote_types", "isdtype", "errstate", "seterr", "geterr",
    "seterrcall", "geterrcall", "broadcast_shapes", "ndindex", "pi", "e", "inf", "nan", "newaxis", "euler_gamma",
    "True_", "False_", "typecodes", "sctypeDict", "ScalarType", "little_endian", "s_", "index_exp", "get_printoptions",
    "set_printoptions", "printoptions", "testing", "exceptions", "typing", "emath", "polynomial", "lib", "__version__",
    "info", "show_config",
]  # fmt: skip
"""Names that are NumPy's own objects."""
_LATE: Final = ("polynomial", "testing", "typing")
"""Modules that NumPy itself imports at their first use; ``testing`` takes as long as half of NumPy."""

OUT_OF_SCOPE: Final = {
    "object, structured, text and date dtypes": "object_ void str_ bytes_ flexible character record recarray rec "
    "datetime64 timedelta64 datetime_as_string datetime_data busdaycalendar busday_count busday_offset is_busday isnat "
    "char strings dtypes",
    "dtypes of more than 64 bits per number": "longdouble clongdouble float128 complex256",
    "subclasses of arrays": "matrix asmatrix bmat ma memmap",
    "NumPy's memory, iterators and build": "nditer nested_iters flatiter ctypeslib core f2py test "
    "get_include show_runtime setbufsize getbufsize",
}
"""What the namespace does not offer, and the names that belong to it."""
REFUSED: Final = {
    "frompyfunc": "its results are arrays of objects: use tenkey.numpy.vectorize",
    "in1d": "NumPy 2.4 has it no longer: use tenkey.numpy.isin",
    "trapz": "NumPy 2.4 has it no longer: use tenkey.numpy.trapezoid",
}
"""Other names that are missing, with the reason."""
_MORE: Final = ("host_calls", "operators_only")  # names that NumPy does not have


def fill(module: str, namespace: dict[str, Any]) -> None:
    """Add the functions of a module of NumPy's, "" for the main namespace, to the globals of ours, with ``__all__``."""
    source = getattr(np, module) if module else np
    own = [name for name in _OWN if name not in ("lib", *_LATE)] if not module else []
    own += ["LinAlgError"] if module == "linalg" else []
    found = {name: getattr(source, name) for name in own if hasattr(source, name)}
    for name, function in functions.items():
        before, _, short = name.rpartition(".")
        if before == module:
            found[short] = function
    if not module:
        found.update(universal)
    namespace.update(found)
    public = [name for name in namespace if not name.startswith("_") and (hasattr(source, name) or name in _MORE)]
    namespace["__all__"] = sorted({*public, "random", *_LATE} if not module else public)


def kind_of(module: str, name: str) -> str:
    """Return how a name of a module of NumPy's is offered, for the table of the documents.

    One of ``operators`` (with gradients and on any device), ``host`` (NumPy computes from the values), ``NumPy's own``,
    ``refused``, ``out of scope``, or "" for a name that is missing without a reason.

    >>> kind_of("", "exp"), kind_of("", "float64"), kind_of("", "longdouble")
    ('operators', "NumPy's own", 'out of scope')
    """
    full = f"{module}.{name}" if module else name
    if any(name in names.split() for names in OUT_OF_SCOPE.values()) and not module:
        return "out of scope"
    if name in REFUSED and not module:
        return "refused"
    if full in functions:
        return "host" if getattr(functions[full], "on_host", False) else "operators"
    if not module and name in universal:
        return "host" if universal[name]._operator is None else "operators"
    if (not module and name in _OWN) or full == "linalg.LinAlgError":
        return "NumPy's own"
    if not module and name in ("linalg", "fft", "random", "ndarray", "ufunc"):
        return "operators"
    return _OTHER.get(full, "")


_OTHER: Final = {
    **dict.fromkeys(["poly1d", "vectorize", "mgrid", "ogrid", "r_", "c_"], "host"),
    "ndenumerate": "operators",
}


def find(name: str) -> object:
    """Return a module that is loaded at its first use; raise the AttributeError that explains another name."""
    if name in ("random", "lib"):
        return importlib.import_module(f"tenkey.numpy.{name}")
    if name in _LATE:
        return getattr(np, name)
    raise missing(name)


def missing(name: str) -> AttributeError:
    """Return the error for a name that the namespace lacks, with the reason."""
    if name in REFUSED:
        return AttributeError(f"module 'tenkey.numpy' has no attribute {name!r}: {REFUSED[name]}.")
    for reason, names in OUT_OF_SCOPE.items():
        if name in names.split():
            return AttributeError(
                f"module 'tenkey.numpy' has no attribute {name!r}: {reason} are out of scope (docs/numpy.md)."
            )
    return AttributeError(f"module 'tenkey.numpy' has no attribute {name!r}.")
