"""The stubs of ``tenkey.numpy``: names and defaults from the signatures at run time, types from NumPy's stubs.

Functions get one signature with NumPy's parameters, or NumPy's overloads where the kind of the result depends on the
arguments (``return_counts=True``). Where an operator computes, its schema says what the result is.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import numpy as np

import tenkey.numpy as tnp
from tenkey.core.tensor import Tensor
from tenkey.interop.numpy_functions import ARRAYS, named_functions, row_of
from tenkey.numpy.known import functions

from .numpy_annotations import MIXED, Parameter, Signature, joined, named_tuples, signatures
from .operators import BINARY, COMPARISONS, operator_of, operator_signature, result_module, result_text
from .text import Stub, function_signature, plain_default

__all__ = ["MEMBERS", "VERSION", "numpy_stubs", "overloads_of"]

VERSION: Final = "2.4.6"
"""The version of NumPy that the stubs are made with: names, parameters and types differ from version to version."""
MEMBERS: Final = "tenkey/numpy/_array_members.pyi"
_MODULES: Final = {"": "__init__", "linalg": "linalg", "fft": "fft", "random": "random/__init__"}
_TYPES: Final = {"dtype": "DTypeLike | None", "out": "ndarray | None", "device": "Device | str | None", "like": "None"}
_OTHERWISE: Final = {"where": "ArrayLike", "casting": "str", "order": "str | None", "subok": "bool"}
_TAB: Final = "    "
_SOURCE: Final = f"the signatures of NumPy {VERSION}"
_BINARY_UFUNC: Final = "_typing._ufunc:_UFunc_Nin2_Nout1"
_RANDOM_CLASSES: Final = ("Generator", "RandomState")
_SPECIAL: Final = {
    **dict.fromkeys(BINARY, "(self, other: ArrayLike) -> ndarray"),
    **dict.fromkeys(("__divmod__", "__rdivmod__"), "(self, other: ArrayLike) -> tuple[ndarray, ndarray]"),
    **dict.fromkeys(COMPARISONS, "(self, other: ArrayLike) -> ndarray"),
    **dict.fromkeys(("__eq__", "__ne__"), "(self, other: object) -> ndarray"),
    **dict.fromkeys(("__neg__", "__pos__", "__invert__", "__abs__"), "(self) -> ndarray"),
    "__getitem__": "(self, index: Index) -> ndarray",
    "__setitem__": "(self, index: Index, value: ArrayLike) -> None",
    "__iter__": "(self) -> Iterator[ndarray]",
}
_ROWS: Final = frozenset(named_functions())
_Overload = tuple[list[str], str]


# ---- signatures


def _own_result(function: Any, full: str) -> str:
    """Return the type of the result that our operator or function states; "" if it states none."""
    target = row_of(full).target if full in _ROWS else function
    operator = operator_of(target)
    written = getattr(target, "__annotations__", {}).get("return", "")
    text = result_text(operator) if operator is not None else written if isinstance(written, str) else ""
    return "" if "Any" in text or "Result" in text else re.sub(r"\bTensor\b", "ndarray", text)


def overloads_of(function: Any, full: str, *, method: bool = False) -> list[_Overload]:
    """Return the parameters and the result of each overload of a function with NumPy's name."""
    theirs = signatures(full)
    results = {each.result for each in theirs}
    own = _own_result(function, full)
    plain = results <= {"ndarray", "int", "float", "complex", "bool", "Any"}
    if results == {"ndarray", "Any"}:
        results = {"ndarray"}
    if own and (plain or not theirs or own == "None"):
        return [(_parameters(function, theirs, method=method), own)]
    if results == {"Any"} or not theirs:
        results = {"ndarray" if full in _ROWS else "Any"}
    if len(results) == 1:
        (result,) = results
        return [(_parameters(function, theirs, method=method), result.replace(MIXED, "Any"))]
    return [(_written([*each.parameters], method=method), each.result.replace(MIXED, "Any")) for each in theirs]


def _parameters(function: Any, theirs: tuple[Signature, ...], *, method: bool) -> list[str]:
    """Return the parameters at run time, with the types that NumPy's overloads give them."""
    kinds: dict[str, list[str]] = {}
    for each in theirs:
        for one in each.parameters:
            kinds.setdefault(one.name.lstrip("*"), []).extend(one.type.split(" | "))
    made: list[Parameter] = []
    try:
        given = [*inspect.signature(function).parameters.values()]
    except ValueError:  # a compiled function
        return _written(list(theirs[0].parameters) if theirs else [Parameter("*args", "Any")], method=method)
    for place, p in enumerate(given[1:] if method else given):
        own = p.annotation if isinstance(p.annotation, str) and "Any" not in p.annotation else ""
        known = kinds.get(p.name, [])
        if not known and p.kind is p.POSITIONAL_ONLY:  # by any name
            known = [each.parameters[place].type for each in theirs if place < len(each.parameters)]
        kind = _TYPES.get(p.name) or joined(known) or own or _OTHERWISE.get(p.name, "Any")
        if kind == "Any" and p.name in ARRAYS:
            kind = "ArrayLike"
        default = "" if p.default is p.empty else plain_default(p.default)
        if default == "None" and kind != "Any" and "None" not in kind:
            kind += " | None"
        stars = "*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD))
        passed = "/" if p.kind is p.POSITIONAL_ONLY else "*" if p.kind is p.KEYWORD_ONLY else ""
        made.append(Parameter(stars + p.name, kind, default, passed))
    return _written(made, method=method)


def _written(parameters: list[Parameter], *, method: bool) -> list[str]:
    """Return the text of each parameter, with the strokes and stars between them."""
    made = ["self"] if method else []
    for kind, group in groupby(parameters, key=lambda p: p.kind):
        if kind == "*" and not any(p.name[0] == "*" != p.name[1] for p in parameters):
            made.append("*")
        made += [f"{p.name}: {p.type}{f' = {p.default}' if p.default else ''}" for p in group]
        if kind == "/":
            made.append("/")
    return made


def _define(stub: Stub, name: str, given: list[_Overload], doc: str | None, *, indent: str = "") -> None:
    doc = None if (doc or "").startswith("Compute ``numpy.") else doc
    decorators = ["overload"] if len(given) > 1 else []
    stub.classes.update(named_tuples)
    for parameters, result in given:
        if decorators:
            stub.use("overload")
        stub.define(name, parameters, result, doc, indent=indent, decorators=decorators)
        doc = None


# ---- modules


def _import(stub: Stub, module: str, name: str) -> None:
    stub.imports.setdefault(module, set()).add(f"{name} as {name}")


def _module_of(name: str, value: object, holder: str) -> str:
    """Return the module of ``tenkey.numpy`` that defines an object, which carries NumPy's name."""
    for module, found in sorted(sys.modules.items()):
        listed = vars(found).get("__all__", ()) if module.startswith("tenkey.numpy.") and module != holder else ()
        if name in listed and vars(found).get(name) is value:
            return module
    raise LookupError(f"no module of tenkey.numpy lists {name!r}.")


def _kind_of(name: str) -> str:
    source: np.ufunc = getattr(np, name)
    return f"_{'' if source.signature is None else 'Generalized'}Ufunc{source.nin}{source.nout}"


def _define_ufuncs(stub: Stub, names: list[str]) -> None:
    """Add a class for each number of operands and results, whose methods are typed."""
    if not names:
        return
    stub.lines.append(f"class _Ufunc({stub.use('ufunc')}):")
    for method in ("reduce", "accumulate", "reduceat"):
        given = _parameters(getattr(tnp.ufunc, method), signatures(f"{_BINARY_UFUNC}.{method}"), method=True)
        stub.define(method, given, "ndarray", None, indent=_TAB)
    for kind, name in sorted({_kind_of(name): name for name in names}.items()):
        source: np.ufunc = getattr(np, name)
        theirs = (
            f"_typing._ufunc:_{'UFunc' if source.signature is None else 'GUFunc'}_Nin{source.nin}_Nout{source.nout}"
        )
        result = "ndarray" if source.nout == 1 else f"tuple[{', '.join(['ndarray'] * source.nout)}]"
        call = _parameters(source, signatures(f"{theirs}.__call__"), method=False)
        outs = "out: ndarray | tuple[ndarray | None, ...] | None = None"
        stub.lines += ["", f"class {kind}(_Ufunc):"]
        stub.define(
            "__call__", ["self", *[outs if p.startswith("out:") else p for p in call]], result, None, indent=_TAB
        )
        outer = ["self", "a: ArrayLike", "b: ArrayLike", "/", "**options: Any"]
        stub.define("outer", outer, result, None, indent=_TAB)
    stub.lines.append("")


def _define_random_class(stub: Stub, name: str, value: type) -> None:
    """Add a class of ``random`` with typed methods, as a subclass of itself."""
    theirs = f"random.{'_generator' if name == 'Generator' else 'mtrand'}:{name}"
    stub.imports.setdefault(value.__module__, set()).add(f"{name} as _{name}")
    stub.lines.append(f"class {name}(_{name}):")
    for method, function in sorted(inspect.getmembers(value, inspect.isfunction)):
        if not method.startswith("_") and hasattr(getattr(np.random, name), method):
            given = overloads_of(function, f"{theirs}.{method}", method=True)
            _define(stub, method, given, function.__doc__, indent=_TAB)
    stub.lines.append("")


def _namespace(module: str) -> str:
    holder: Any = getattr(tnp, module) if module else tnp
    source: Any = getattr(np, module) if module else np
    names: list[str] = sorted(holder.__all__)
    stub = Stub(
        names, inspect.cleandoc(holder.__doc__ or "").partition("\n\n")[0], source=_SOURCE, lenient=module == "random"
    )
    stub.classes = {*_RANDOM_CLASSES}
    ufuncs = [name for name in names if isinstance(getattr(holder, name), tnp.ufunc)]
    _define_ufuncs(stub, ufuncs)
    stub.lines += [f"{name}: {stub.use('Final')}[{_kind_of(name)}]" for name in ufuncs]
    for name in names:
        value = getattr(holder, name)
        full = f"{module}.{name}" if module else name
        if isinstance(value, types.ModuleType) and value.__name__.startswith("tenkey.numpy."):
            _import(stub, "tenkey.numpy", name)
        elif value is getattr(source, name, None):
            _import(stub, source.__name__, name)
        elif name in _RANDOM_CLASSES and module == "random":
            _define_random_class(stub, name, value)
            stub.lines += ["_state: RandomState", ""] if name == "RandomState" else []
        elif isinstance(value, types.MethodType):
            stub.lines.append(f"{name} = _state.{value.__name__}")
        elif inspect.isroutine(value) and hasattr(source, name):
            _define(stub, name, overloads_of(value, full), value.__doc__)
        elif name not in ufuncs:
            _import(stub, _module_of(name, value, holder.__name__), name)
    if not module:
        _import(stub, "numpy", "__version__")
        _import(stub, "tenkey.numpy", "lib")
    listed = ["__all__ = [", *[f'    "{name}",' for name in names], "]", ""]
    stub.lines = [*listed, *_tuples(stub), *stub.lines]
    return stub.text()


def _tuples(stub: Stub) -> Iterator[str]:
    """Yield the definitions of the named tuples that the stub uses."""
    used = set(re.findall(r"\w+Result\b", "\n".join(stub.lines)))
    for name in sorted(used):
        yield f"class {name}({stub.use('NamedTuple')}):"
        yield from [f"{_TAB}{field}: {stub.use(kind)}" for field, kind in named_tuples[name].items()]
        yield ""


# ---- members of arrays


def _members() -> str:
    """Return the stub of what ``ndarray`` adds to Tensor, or has in place of it."""
    classes = tnp.ndarray.__mro__[: tnp.ndarray.__mro__.index(Tensor)]  # with what is compiled
    names = sorted({*_SPECIAL, *(name for each in classes for name in vars(each) if name[0] != "_")})
    found = {name: inspect.getattr_static(tnp.ndarray, name) for name in names}
    stub = Stub(
        found, "Members of ``tenkey.numpy.ndarray`` that differ from those of Tensor.", source=_SOURCE, lenient=True
    )
    stub.lines.append(f"class ArrayMembers({stub.use('Tensor')}):")
    for name, value in found.items():
        own = value if value is functions.get(name) else getattr(value, "__wrapped__", value)
        if isinstance(value, property) or isinstance(vars(Tensor).get(name), property):
            _define_array_property(stub, name, value)
        elif name in _SPECIAL:
            parameters, _, result = _SPECIAL[name][1:].partition(") -> ")
            stub.define(name, parameters.split(", "), result, None, indent=_TAB)
        elif own is vars(Tensor).get(name):
            _define_own(stub, name, own)
        elif own is functions.get(name):
            given = [(["self", *(p for p in parameters[1:] if p != "/")], result)
                     for parameters, result in overloads_of(own, name)]  # fmt: skip
            _define(stub, name, given, own.__doc__, indent=_TAB)
        else:
            _define(stub, name, overloads_of(value, f":ndarray.{name}", method=True), value.__doc__, indent=_TAB)
    return stub.text()


def _define_own(stub: Stub, name: str, own: Any) -> None:
    """Add a method of tensors that returns arrays; others are those of Tensor."""
    operator = operator_of(own)
    if operator is not None:
        parameters, result = operator_signature(operator, method=True)
        module, result_from = None, result_module(operator, result)
    else:
        parameters, result = function_signature(own, method=True)
        module = result_from = own.__module__
    if "Tensor" in result:
        stub.define(name, parameters, _as_array(result), None, module=module, result_module=result_from, indent=_TAB)


def _define_array_property(stub: Stub, name: str, value: Any) -> None:
    tensors = vars(Tensor).get(name)
    value = value if isinstance(value, property) else tensors  # of the first, where it is compiled
    written = getattr(getattr(tensors, "fget", None), "__annotations__", {}).get("return", "Any")
    theirs = signatures(f":ndarray.{name}")
    if isinstance(value.fget, type):
        result = value.fget.__name__
        stub.imports.setdefault(value.fget.__module__, set()).add(result)
        stub.classes.add(result)
    elif written != "Any":
        result = "int" if written == "Count" else _as_array(written)  # x.size() is PyTorch's
    else:
        result = theirs[0].result if theirs else "Any"
    module = Tensor.__module__ if written != "Any" else None
    stub.define(name, ["self"], result, None, result_module=module, indent=_TAB, decorators=["property"])
    if value.fset is not None:
        stub.define(name, ["self", "value: Any"], "None", None, indent=_TAB, decorators=[f"{name}.setter"])
    if value.fdel is not None:
        stub.define(name, ["self"], "None", None, indent=_TAB, decorators=[f"{name}.deleter"])


def _as_array(result: str) -> str:
    return re.sub(r"\bTensor\b", "ndarray", result)


def numpy_stubs() -> dict[str, str]:
    """Return the text of the stubs of ``tenkey.numpy``, by path; none with another version of NumPy than theirs."""
    if np.__version__ != VERSION:
        return {}
    made = {f"tenkey/numpy/{path}.pyi": _namespace(module) for module, path in _MODULES.items()}
    return {**made, MEMBERS: _members()}
