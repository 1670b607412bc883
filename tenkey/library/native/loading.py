"""``load_native``: functions of compiled libraries as operators.

Note [Conventions of native functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A compiled C function does not carry its signature; the schema describes it, with one of three conventions.

``"elements"`` is for functions that process the elements one after the other. Arguments are in the order of the schema:
a ``Tensor`` as a pointer to its elements, ``int`` as ``int64_t``, ``float`` as ``double``, ``bool`` as ``bool``,
``complex`` as ``const double[2]``. A pointer for each result and ``int64_t n`` follow. The tensors are broadcast to one
shape of ``n`` elements, promoted to a dtype that the function takes, aligned and in row-major order. An absent
``Tensor?`` is NULL.

``"dlpack"`` is for functions that need shapes: each tensor and each result is a ``DLTensor *`` (the DLPack struct:
data, device, ndim, dtype, shape, strides in elements, byte offset). Numbers are passed as above; there is no ``n``, no
broadcasting and no copy.

``"tvm-ffi"`` is for functions of the Apache TVM FFI, called through the package ``apache-tvm-ffi``; the results to be
filled are the last arguments.

Guarded by ``tests/library/test_native.py``.
"""

from __future__ import annotations

import ctypes
import re
from _ctypes import CFuncPtr
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...core.dtypes.names import to_dtype
from ...dispatch.diagnostics.registration_checks import check_signature
from ...dispatch.diagnostics.sites import caller_site, function_site
from ...dispatch.errors import RegistrationError, shown
from ...dispatch.kernel import Kernel
from ...dispatch.keys import DispatchKey
from ...dispatch.schema import FunctionSchema, parse_schema
from ...ops.declare.facets import Meta
from ..custom_operator import CustomOperator, define_custom
from ..derivatives import check_call
from ..registration import _RESERVED, _RESERVED_NAMESPACES
from .kernels import MAKERS, NUMBERS, Native, gives_tensors, result_count, spec_rule

__all__ = ["load_native"]

_NO_LIBRARY: Final = (
    "[{name}] the library {path!r} could not be loaded: {reason}. Give the path of a shared library for this machine, "
    "or the name of one that the system's loader finds."
)
_NO_SYMBOL: Final = (
    "[{name}] the library {library} has no function {symbol!r}. Give its name with symbol=, or one for each dtype with "
    "dtypes={{'float32': 'name', ...}}; functions in C++ need extern \"C\"."
)
_DTYPES: Final = (
    "[{name}] dtypes={value}: give a dtype, a tuple of one for each Tensor (those of the results may be left out), "
    "a list of such (one function for all: conventions 'dlpack' and 'tvm-ffi'), or a dict of such to symbols."
)
_MISMATCH: Final = "[{name}] the cfunc has the signature {got}, and the schema requires {want} ({convention!r})."

_TENSORS: Final = {"Tensor", "Tensor?"}
_TAKES: Final = {
    "elements": "Tensor, Tensor?, int, float, bool, complex",
    "dlpack": "Tensor, Tensor?, int, float, bool, complex",
    "tvm-ffi": "Tensor, Tensor?, int, float, bool, str, their optionals and lists of numbers",
}
_OTHER_FFI: Final = re.compile(r"(int|float|bool|str)(\?|\[\d*\]\??)?")


def load_native(
    library: Any,
    schema: str,
    *,
    symbol: str | None = None,
    dtypes: Any = None,
    convention: str = "elements",
    namespace: str | None = None,
    meta: Callable[..., Any] | None = None,
    status: bool | Mapping[int, str] = False,
    doc: str | None = None,
) -> CustomOperator:
    """Define an operator by a compiled function, which is called through a pointer that is looked up once.

    Args: library: path or name of a shared library, a ``ctypes.CDLL``, an address, a ctypes function, a Numba ``cfunc``
    (with the signature that the convention requires), or a plain Python function of Tensors; schema:
    ``"[namespace::]name(Tensor x, float a) -> Tensor"``, where ``Tensor(a!)`` is an argument that the function changes;
    symbol: the name of the function (default: ``name``); dtypes: the dtypes that it takes (default: float32): a dtype,
    a tuple of one for each Tensor, or a dict ``{"float32": "name_f32", "float64": "name_f64"}``; convention: how
    arguments are passed, see Note [Conventions of native functions] and docs/native_code.md; namespace: if None and not
    in the schema, the library's file name without ``lib`` and suffix (``native`` for a function); meta:
    ``meta(*arguments)`` returns the shape of the result, or ``(shape, dtype)``, or a list of one for each result, in
    place of the broadcast shape and the common dtype; status: the function returns an ``int``, and a value other than 0
    raises RuntimeError; a dict maps such values to texts.

    The function runs without the interpreter's lock. Returns a :class:`CustomOperator`, with ``register_autograd`` and
    the other methods; loading again under the same name replaces the operator. Raises RegistrationError if the function
    cannot be loaded and SchemaError for an invalid schema; a call with a dtype that the function does not take raises
    TypeError.

    >>> import ctypes
    >>> @ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_float)] * 2, ctypes.c_double, ctypes.c_void_p, ctypes.c_int64)
    ... def saxpy(x, y, a, out, n):
    ...     out = ctypes.cast(out, ctypes.POINTER(ctypes.c_float))
    ...     for i in range(n):
    ...         out[i] = a * x[i] + y[i]
    >>> op = tk.library.load_native(saxpy, "docs::saxpy(Tensor x, Tensor y, float a=1.0) -> Tensor")
    >>> op(tk.asarray([1.0, 2.0], dtype=tk.float32), tk.asarray([[10.0], [20.0]], dtype=tk.float32), 3.0).tolist()
    [[13.0, 16.0], [23.0, 26.0]]
    """
    site = caller_site()
    parsed = _with_namespace(parse_schema(schema), namespace, library)
    name = parsed.name
    if meta is not None:
        if not callable(meta):
            raise RegistrationError(
                f"[{name}] meta= is a function of the arguments, got {shown(meta)} of type {type(meta).__name__}."
            )
        positional = tuple([a.name for a in parsed.arguments if not a.kwarg_only])
        check_call(parsed, "meta", meta, positional, [a.name for a in parsed.arguments if a.kwarg_only])
    if not isinstance(status, (bool, Mapping)):
        raise RegistrationError(
            f"[{name}] status={shown(status)}: give True, or a dict of codes to texts, status={{1: 'no convergence'}}."
        )
    if callable(library) and not _is_native(library):
        for option, value in (("symbol", symbol), ("dtypes", dtypes), ("status", status or None)):
            if value is not None:
                raise RegistrationError(
                    f"[{name}] {option}= is for native functions: a Python function takes and returns Tensors."
                )
        if hasattr(library, "py_func"):
            raise RegistrationError(
                f"[{name}] got a Numba function without an address: decorate it with numba.cfunc(signature), not with "
                "jit."
            )
        return _define_python(parsed, library, meta, site, doc)
    if convention not in MAKERS:
        raise RegistrationError(f"[{name}] convention must be 'elements', 'dlpack' or 'tvm-ffi', got {convention!r}.")
    _check_schema(parsed, convention, status)
    if meta is None and convention != "elements":
        tensors = [a.name for a in parsed.arguments if str(a.type) == "Tensor"]
        if len(parsed.returns) > 0 and gives_tensors(parsed) and len(tensors) != 1:
            raise RegistrationError(
                f"[{name}] returns {len(parsed.returns)} tensors: in the convention 'dlpack' or 'tvm-ffi' with more "
                "than one Tensor to take a shape from, say which shapes they have with "
                f"meta=lambda {', '.join(a.name for a in parsed.arguments)}: ..."
            )
    functions = _find_functions(parsed, library, symbol, dtypes, convention, bool(status))
    native = Native(parsed, functions, meta, status)
    kernel = Kernel(
        _described(native, library),
        DispatchKey.CPU,
        site=site,
        specialize=lambda operator, word: MAKERS[convention](native, word),
    )
    return _define(parsed, [kernel, *_fakes(native)], native, site, doc)


def _described(native: Native, library: Any) -> Callable[..., Any]:
    """Return a function for ``explain`` to show; it keeps the library alive and is never called."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"[{native.name}] {library!r} is called by the kernel for a word.")

    stand_in.__qualname__ = " or ".join(dict.fromkeys(entry.symbol for entry in native.functions.values()))
    return stand_in


def _fakes(native: Native) -> list[Kernel]:
    """Return a kernel for the device ``meta`` if the operator returns nothing; the facet Meta serves the others."""
    if not native.gives_tensors or native.schema.returns:
        return []
    rule = spec_rule(native)

    def fake(*args: Any, **kwargs: Any) -> None:
        rule(*args, **kwargs)

    return [Kernel(fake, DispatchKey.Meta, origin="generated")]


def _define_python(
    schema: FunctionSchema, function: Callable[..., Any], meta: Any, site: str, doc: str | None
) -> CustomOperator:
    kernel = Kernel(function, DispatchKey.CompositeExplicitAutograd, site=function_site(function))
    check_signature(function, schema, with_keyset=False, site=kernel.site)
    native = Native(schema, {}, meta, False) if meta is not None else None
    return _define(schema, [kernel], native, site, doc or function.__doc__)


def _define(
    schema: FunctionSchema, kernels: list[Kernel], native: Native | None, site: str, doc: str | None
) -> CustomOperator:
    """Define the operator, replacing an earlier custom one of this name."""
    facets: dict[str, Any] = {}
    if native is not None and native.gives_tensors and schema.returns:
        facets["Meta"] = Meta(spec_rule(native))
    return define_custom(schema, kernels, facets=facets, site=site, doc=doc)


# ---- the schema


def _with_namespace(schema: FunctionSchema, namespace: str | None, library: Any) -> FunctionSchema:
    name = schema.name
    if schema.namespace is not None:
        if namespace not in (None, schema.namespace):
            raise RegistrationError(
                f"[{name}] the schema names the namespace {schema.namespace!r}, and namespace= says {namespace!r}: "
                "leave one out."
            )
        namespace = schema.namespace
    if namespace is None:
        file = getattr(library, "_name", None) if isinstance(library, ctypes.CDLL) else library
        namespace = _namespace_of(file) if isinstance(file, (str, Path)) else "native"
    if not str(namespace).isidentifier():
        raise RegistrationError(f"[{name}] a namespace is an identifier, got {namespace!r}.")
    if namespace in _RESERVED_NAMESPACES:
        raise RegistrationError(_RESERVED.format(namespace=namespace))
    return schema if schema.namespace is not None else schema.with_namespace(namespace)


def _namespace_of(path: str | Path) -> str:
    """Return the namespace for a library: ``foo`` for ``libfoo.so.1``."""
    stem = Path(path).name.split(".")[0].removeprefix("lib")
    stem = re.sub(r"\W", "_", stem)
    return stem if stem.isidentifier() and stem not in _RESERVED_NAMESPACES else f"native_{stem}"


def _check_schema(schema: FunctionSchema, convention: str, status: Any) -> None:
    name = schema.name
    for a in schema.arguments:
        kind = str(a.type)
        fits = kind in _TENSORS or (_OTHER_FFI.fullmatch(kind) if convention == "tvm-ffi" else kind in NUMBERS)
        if not fits:
            article = "an" if kind[:1] in "aeio" else "a"
            raise RegistrationError(
                f"[{name}] the argument {a.name!r} is {article} {kind}, which the convention {convention!r} cannot "
                f"pass: it passes {_TAKES[convention]}."
            )
    kinds = [str(a.type) for a in schema.arguments]
    if "Tensor" not in kinds:
        raise RegistrationError(f"[{name}] takes no Tensor: a native function needs at least one.")
    returns = [str(r.type) for r in schema.returns]
    if any(r.alias is not None for r in schema.returns):
        raise RegistrationError(
            f"[{name}] its result is annotated as an argument: let the function return () and use the argument, which "
            "it changes."
        )
    number = len(returns) == 1 and returns[0] in ("int", "float", "bool")
    if not gives_tensors(schema) and (not number or convention == "tvm-ffi"):
        raise RegistrationError(
            f"[{name}] returns {', '.join(returns)}: a native function returns Tensors that are allocated for it, "
            "nothing, or, in a C convention, one int, float or bool."
        )
    if number and status:
        raise RegistrationError(
            f"[{name}] a function that returns a number cannot return a status code as well: leave status= out."
        )
    if not returns and not schema.is_mutable:
        raise RegistrationError(f"[{name}] returns nothing and changes nothing: mark what it changes with Tensor(a!).")


# ---- the functions


@dataclass(frozen=True)
class Entry:
    """One function: its symbol, for messages, and the callable."""

    symbol: str
    call: Any


def _find_functions(
    schema: FunctionSchema, library: Any, symbol: str | None, dtypes: Any, convention: str, status: bool
) -> dict[Any, Entry]:
    """Map dtypes (one for all tensors, a tuple of one for each, or None for any) to functions."""
    name = schema.name
    load, errors = (_tvm_loader(name), Exception) if convention == "tvm-ffi" else (ctypes.CDLL, OSError)
    source = _opened(name, library, load, errors) if isinstance(library, (str, Path)) else library
    wanted: dict[Any, Any]
    default = symbol if symbol is not None else schema.base_name
    if isinstance(dtypes, Mapping):
        if not dtypes:
            raise RegistrationError(_DTYPES.format(name=name, value=shown(dtypes)))
        wanted = {_dtype_key(schema, key): target for key, target in dtypes.items()}
    elif dtypes is None and convention != "elements":
        wanted = {None: default}
    elif dtypes is None:
        wanted = {_dtypes_of_cfunc(schema, library) or np.dtype(np.float32): default}
    elif isinstance(dtypes, list) and convention != "elements":
        wanted = {_dtype_key(schema, key): default for key in dtypes}
    else:
        wanted = {_dtype_key(schema, dtypes): default}
    return {key: _entry(schema, source, target, key, convention, status) for key, target in wanted.items()}


def _dtype_key(schema: FunctionSchema, given: Any) -> Any:
    """Return a dtype, or a tuple of one for each tensor argument and each result."""
    name = schema.name
    tensors = [a for a in schema.arguments if str(a.type) in _TENSORS]
    results = result_count(schema)
    try:
        if not isinstance(given, tuple):
            return to_dtype(given)
        made = tuple(map(to_dtype, given))
    except (TypeError, ValueError):
        raise RegistrationError(_DTYPES.format(name=name, value=shown(given))) from None
    if len(made) not in (len(tensors), len(tensors) + results):
        raise RegistrationError(
            f"[{name}] dtypes={shown(given)} has {len(made)} dtypes, the schema {len(tensors)} Tensor arguments "
            f"and {results} results."
        )
    return made if len(made) == len(tensors) + results else (*made, *(made[:1] * results))


def _opened(name: str, path: str | Path, load: Callable[[str], Any], errors: type[Exception]) -> Any:
    found = Path(path)
    try:
        return load(str(found.resolve() if found.exists() else path))
    except errors as error:
        raise RegistrationError(_NO_LIBRARY.format(name=name, path=str(path), reason=error)) from None


def _tvm_loader(name: str) -> Callable[[str], Any]:
    """Return the function that loads a module; its errors are of types of the package's own."""
    try:
        import tvm_ffi
    except ImportError as error:
        raise RegistrationError(
            f"[{name}] the convention 'tvm-ffi' needs the package apache-tvm-ffi: pip install 'tenkey[tvm-ffi]' "
            f"({error})."
        ) from None
    return tvm_ffi.load_module  # type: ignore[no-any-return]


def _entry(schema: FunctionSchema, source: Any, target: Any, key: Any, convention: str, status: bool) -> Entry:
    name = schema.name
    if convention == "tvm-ffi":
        if not hasattr(source, "get_function") and callable(source):
            return Entry(schema.base_name, source)
        try:
            return Entry(str(target), source.get_function(str(target)))
        except (AttributeError, RuntimeError):
            raise RegistrationError(_NO_SYMBOL.format(name=name, library=shown(source), symbol=target)) from None
    symbol = target if isinstance(target, str) else getattr(target, "native_name", None) or schema.base_name
    if isinstance(source, ctypes.CDLL) and isinstance(target, str):
        try:
            pointer: Any = source[target]
        except AttributeError:
            where = shown(getattr(source, "_name", source))
            raise RegistrationError(_NO_SYMBOL.format(name=name, library=where, symbol=target)) from None
    else:
        pointer = source if isinstance(target, str) else target
    if _is_cfunc(pointer):
        _check_cfunc(schema, pointer, key, convention)
        symbol = str(pointer.native_name)
    address = _address(name, pointer)
    return Entry(str(symbol), _prototype(schema, convention, status)(address))


def _prototype(schema: FunctionSchema, convention: str, status: bool) -> Any:
    """Return the ctypes function type; CFUNCTYPE releases the interpreter's lock."""
    kinds = [NUMBERS.get(str(a.type), (ctypes.c_void_p, ""))[0] for a in schema.arguments]
    results = [ctypes.c_void_p] * result_count(schema)
    last = [ctypes.c_int64] if convention == "elements" else []
    returned = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}
    answer: Any = ctypes.c_int if status else None
    if not gives_tensors(schema):
        answer = returned[str(schema.returns[0].type)]
    return ctypes.CFUNCTYPE(answer, *kinds, *results, *last)


def _is_cfunc(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "numba" and hasattr(value, "address")


def _is_native(value: Any) -> bool:
    kind = type(value).__module__.partition(".")[0]
    return isinstance(value, (CFuncPtr, ctypes.CDLL)) or _is_cfunc(value) or kind == "tvm_ffi"


def _address(name: str, pointer: Any) -> int:
    if _is_cfunc(pointer):
        return int(pointer.address)
    if isinstance(pointer, CFuncPtr):
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
    elif isinstance(pointer, int) and not isinstance(pointer, bool):
        address = pointer
    else:
        raise RegistrationError(
            f"[{name}] a native function is a library's path with a symbol in it, an address, a ctypes function, a "
            f"Numba cfunc, or a Python function, got {shown(pointer)} of type {type(pointer).__name__}."
        )
    if not 0 < address < 1 << 64 or address < 4096:  # the first page is never mapped
        raise RegistrationError(f"[{name}] {pointer} is not the address of a function.")
    return address


# ---- Numba's cfunc, which knows its signature


def _dtypes_of_cfunc(schema: FunctionSchema, library: Any) -> Any:
    """Return the dtypes that the pointers of a cfunc point to, one for each tensor; None for other functions."""
    if not _is_cfunc(library):
        return None
    signature = library._sig
    places = [i for i, a in enumerate(schema.arguments) if str(a.type) in _TENSORS]
    places += range(len(schema.arguments), len(schema.arguments) + result_count(schema))
    found = [str(signature.args[i]).removesuffix("*") for i in places if i < len(signature.args)]
    try:
        made = tuple([to_dtype(kind) for kind in found])
    except (TypeError, ValueError):
        made = ()
    if len(made) < len(places):
        raise RegistrationError(
            _MISMATCH.format(name=schema.name, got=signature, want=_wanted(schema, None), convention="elements")
        )
    return made[0] if len(set(made)) == 1 else made


def _wanted(schema: FunctionSchema, key: Any) -> str:
    """Return the signature that the convention "elements" requires, in Numba's notation."""
    count = len([a for a in schema.arguments if str(a.type) in _TENSORS]) + result_count(schema)
    kinds = iter(key if isinstance(key, tuple) else (key,) * count)
    pointers = iter([f"{kind}*" if kind is not None else "dtype*" for kind in kinds])
    words = [NUMBERS[str(a.type)][1] if str(a.type) in NUMBERS else next(pointers) for a in schema.arguments]
    words += [*pointers, "int64"]
    return f"({', '.join(words)})"


def _check_cfunc(schema: FunctionSchema, function: Any, key: Any, convention: str) -> None:
    signature = function._sig
    got = f"({', '.join(map(str, signature.args))})"
    want = _wanted(schema, key)
    if convention == "elements" and got.replace("boolean", "bool") != want:
        raise RegistrationError(_MISMATCH.format(name=schema.name, got=signature, want=want, convention=convention))
