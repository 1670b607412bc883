"""Writes the type stubs of the namespace and of the methods of Tensor from the operators' schemas.

    python -m tools.make_stubs            # write those that changed
    python -m tools.make_stubs --check    # write nothing; name what is out of date, exit status 1

Note [Generated stubs]
~~~~~~~~~~~~~~~~~~~~~~
An operator is made when the package is imported, so a type checker, which runs nothing, cannot find it. What it reads
instead is written by this program: a stub for each module of the namespace, with a function for every public operator,
and ``tenkey/core/_tensor_methods.pyi``, a class with everything that is put on Tensor from its declarations or by the
layers above. That last one lies beside no module: the class Tensor names it as its base where types are checked, so
that its own source, too, goes on being checked. Functions that are written by hand are imported from where they are.
The stubs are committed, and ``tests/package/test_stubs.py`` regenerates them in memory and compares.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import math
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import tenkey as tk
from tenkey import _names
from tenkey.core.tensor import Tensor
from tenkey.dispatch.bindings import keyword_only
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.schema import Argument, ListType, OptionalType, SchemaType, TupleType
from tenkey.dispatch.tags import Tag

__all__ = ["main", "make_stubs", "operator_signature"]

ROOT: Final = Path(__file__).resolve().parents[1]
METHODS: Final = "tenkey/core/_tensor_methods.pyi"
WIDTH: Final = 120

_HEAD: Final = "# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.\n"
_BASES: Final = {
    "Tensor": "Tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "complex": "complex",
    "Scalar": "complex",
    "str": "str",
    "DType": "DTypeLike",
    "Device": "Device | str",
}
# Names that a signature may use, by the module to import them from.
_KNOWN: Final = {
    "ArrayLike": "tenkey.core.typing",
    "Any": "typing",
    "Callable": "collections.abc",
    "DType": "tenkey.core.dtypes.names",
    "DTypeLike": "tenkey.core.typing",
    "Device": "tenkey.core.device",
    "Final": "typing",
    "Index": "tenkey.core.typing",
    "Operand": "tenkey.core.typing",
    "Self": "typing",
    "Sequence": "collections.abc",
    "Tensor": "tenkey.core.tensor",
    "TensorLike": "tenkey.core.typing",
}
_BINARY: Final = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r", "i")
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"
    )
)  # fmt: skip
_COMPARISONS: Final = ("__lt__", "__le__", "__gt__", "__ge__")
# Methods whose types are richer than their own annotations say.
_WRITTEN: Final = {
    "__getitem__": "(self, index: Index) -> Tensor",
    "__setitem__": "(self, index: Index, value: Operand) -> None",
    "__eq__": "(self, other: object) -> Tensor",
    "__ne__": "(self, other: object) -> Tensor",
    **dict.fromkeys(_COMPARISONS, "(self, other: Operand) -> Tensor"),
}
_OVERRIDES: Final = frozenset({"__eq__", "__ne__"})  # object says that they give a bool


# ---- from schemas to types


def _type_text(kind: SchemaType, *, result: bool = False) -> str:
    """The annotation of a value of a schema type."""
    if isinstance(kind, OptionalType):
        return f"{_type_text(kind.element, result=result)} | None"
    if isinstance(kind, ListType):
        element = _type_text(kind.element, result=result)
        if result:
            return f"tuple[{element}, ...]"
        return f"{element} | Sequence[{element}]" if kind.size is not None else f"Sequence[{element}]"
    if isinstance(kind, TupleType):
        return f"tuple[{', '.join(_type_text(element, result=result) for element in kind.elements)}]"
    if result and kind.name in ("DType", "Device"):
        return kind.name
    return _BASES[kind.name]


def _takes_numbers(operator: Operator, argument: Argument) -> bool:
    """Whether a Python number may stand for this tensor: among the operands of what works element by element."""
    arguments = operator.schema.arguments
    if Tag.KEEPS_PYTHON_SCALARS in operator.tags or sum(a.type.is_tensor_like for a in arguments) < 2:
        return False
    if isinstance(argument.type, OptionalType):
        return True
    pair = argument.name in ("x1", "x2") and not any(a.name in ("axis", "axes") for a in arguments)
    return "Pointwise" in operator.facets or pair or Tag.INPLACE_VARIANT in operator.tags


def _argument_text(operator: Operator, argument: Argument) -> str:
    kind = _type_text(argument.type)
    if Tag.TAKES_SEQUENCES in operator.tags and argument is not operator.schema.arguments[0]:
        kind = kind.replace("Tensor", "ArrayLike")
    elif kind in ("Tensor", "Tensor | None") and not argument.is_mutable and _takes_numbers(operator, argument):
        kind = kind.replace("Tensor", "TensorLike")
    return f"{argument.name}: {kind}{f' = {_default_text(argument.default)}' if argument.has_default else ''}"


def _default_text(value: object) -> str:
    return "..." if isinstance(value, (float, complex)) and not math.isfinite(abs(value)) else repr(value)


def _composite(operator: Operator) -> types.FunctionType | None:
    """The function that an operator made of others was written as."""
    function = getattr(operator.facets.get("Composite"), "function", None)
    return function if isinstance(function, types.FunctionType) and "DerivedFrom" not in operator.facets else None


def _result_text(operator: Operator) -> str:
    """The annotation of the result; of a composite operator the one that its function has."""
    function = _composite(operator)
    if function is not None:
        written = function.__annotations__.get("return")
        if isinstance(written, str) and written not in ("Any", "Tensor"):
            return written
    returns = [_type_text(r.type, result=True) for r in operator.schema.returns]
    if len(returns) == 1:
        return returns[0]
    return f"tuple[{', '.join(returns)}]" if returns else "None"


def _result_module(operator: Operator, result: str) -> str | None:
    """The module whose names the annotation of the result uses, if these are not our own."""
    function = _composite(operator)
    return None if function is None or result in ("Tensor", "Self") else function.__module__


def _parameters(operator: Operator) -> list[str]:
    made: list[str] = []
    keywords = keyword_only(operator)
    for argument in operator.schema.arguments:
        if argument in keywords and "*" not in made:
            made.append("*")
        made.append(_argument_text(operator, argument))
    return made


def operator_signature(operator: Operator, *, method: bool = False) -> tuple[list[str], str]:
    """The parameters of an operator with their types, and the type of its result; as a method if asked."""
    parameters, result = _parameters(operator), _result_text(operator)
    if method:
        first = operator.schema.arguments[0]
        parameters[0] = "self"
        if first.is_mutable and result == "Tensor":
            result = "Self"
    return parameters, result


# ---- from functions that are written by hand


@functools.cache
def _origins(module: str) -> dict[str, tuple[str, str]]:
    """Where the names of a module come from: name to (module, name there); imports for type checkers count."""
    found: dict[str, tuple[str, str]] = {}
    source = inspect.getsource(sys.modules[module])
    package = sys.modules[module].__package__ or ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")
                base = ".".join([*anchor[: len(anchor) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                found[alias.asname or alias.name] = (base, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name] = (alias.name, "")
    for name in vars(sys.modules[module]):
        found.setdefault(name, (module, name))
    return found


def _function_signature(function: Callable[..., Any], *, method: bool = False) -> tuple[list[str], str]:
    """The parameters and the result of a function, as it is annotated."""
    made: list[str] = []
    signature = inspect.signature(function)
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in made):
            made.append("*")
        stars = "*" * ((parameter.kind is parameter.VAR_POSITIONAL) + 2 * (parameter.kind is parameter.VAR_KEYWORD))
        if method and not index:
            made.append("self")
            continue
        kind = f": {parameter.annotation}" if isinstance(parameter.annotation, str) else ": Any"
        default = "" if parameter.default is parameter.empty else f" = {_plain_default(parameter.default)}"
        made.append(f"{stars}{parameter.name}{kind}{default}")
    result = signature.return_annotation
    return made, result if isinstance(result, str) else "Any"


def _plain_default(value: object) -> str:
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else "..."


# ---- a stub


class _Stub:
    """The text of one stub: definitions, and the imports that follow from the names they use."""

    def __init__(self, defined: Iterable[str], doc: str) -> None:
        self.defined = frozenset(defined)
        self.doc = doc
        self.lines: list[str] = []
        self.imports: dict[str, set[str]] = {}
        self.plain: set[str] = set()

    def use(self, annotation: str, module: str | None = None) -> str:
        """Import what an annotation names; names that the stub defines anew get an underscore."""
        origins = _origins(module) if module else {}
        renamed: dict[str, str] = {}
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if not isinstance(node, ast.Name):
                continue
            name = node.id
            if name in origins:
                base, there = origins[name]
            elif name in _KNOWN:
                base, there = _KNOWN[name], name
            elif hasattr(builtins, name):
                if name in self.defined:
                    self.imports.setdefault("builtins", set()).add(f"{name} as _{name}")
                    renamed[name] = f"_{name}"
                continue
            else:
                raise LookupError(f"no import is known for {name!r} in the annotation {annotation!r}")
            if not there:
                self.plain.add(base if base == name else f"{base} as {name}")
            elif base == "builtins":
                self.imports.setdefault(base, set()).add(f"{there} as _{there}" if there in self.defined else there)
                renamed[name] = f"_{there}" if there in self.defined else there
            else:
                self.imports.setdefault(base, set()).add(there if there == name else f"{there} as {name}")
        return _rename(annotation, renamed) if renamed else annotation

    def define(
        self, name: str, parameters: list[str], result: str, doc: str | None, *,
        module: str | None = None, result_module: str | None = None, indent: str = "",
        decorators: Iterable[str] = (), comment: str = "",
    ) -> None:  # fmt: skip
        """Add a function; the modules are those whose names its annotations use."""
        used = [self._parameter(text, module) for text in parameters]
        returned = self.use(result, result_module or module)
        self.lines += [f"{indent}@{decorator}" for decorator in decorators]
        text = f"{indent}def {name}({', '.join(used)}) -> {returned}:"
        if len(text) + 4 > WIDTH:
            self.lines.append(f"{indent}def {name}({comment}")
            self.lines += [f"{indent}    {parameter}," for parameter in used]
            text = f"{indent}) -> {returned}:"
            comment = ""
        summary = _summary(doc, indent + "    ")
        if summary:
            self.lines += [f"{text}{comment}", *summary]
        else:
            self.lines.append(f"{text} ...{comment}")

    def _parameter(self, text: str, module: str | None) -> str:
        name, colon, rest = text.partition(": ")
        if not colon:
            return text
        kind, equals, default = rest.partition(" = ")
        return f"{name}: {self.use(kind, module)}{equals}{default}"

    def text(self) -> str:
        """The whole stub."""
        head = [_HEAD.rstrip(), f'"""{self.doc}"""', ""]
        imports = [f"import {name}" for name in sorted(self.plain)]
        standard = [module for module in sorted(self.imports) if not module.startswith("tenkey")]
        own = [module for module in sorted(self.imports) if module.startswith("tenkey")]
        for module in (*standard, *own):
            names = sorted(self.imports[module])
            line = f"from {module} import {', '.join(names)}"
            imports += [line] if len(line) <= WIDTH else [f"from {module} import (", *[f"    {n}," for n in names], ")"]
        return "\n".join([*head, *imports, "", *self.lines]) + "\n"


def _rename(annotation: str, names: dict[str, str]) -> str:
    tree = ast.parse(annotation, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


def _summary(doc: str | None, indent: str) -> list[str]:
    """The first paragraph of a docstring, as one."""
    lines = inspect.cleandoc(doc or "").partition("\n\n")[0].splitlines()
    if not lines:
        return []
    quoted = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in lines]
    if any(len(line) > WIDTH - len(indent) - 6 for line in quoted):
        quoted = textwrap.wrap(" ".join(quoted), WIDTH - len(indent) - 6)
    if len(quoted) == 1:
        end = " " if quoted[0].endswith('"') else ""
        return [f'{indent}"""{quoted[0]}{end}"""']
    return [f'{indent}"""{quoted[0]}', *[f"{indent}{line}" for line in quoted[1:]], f'{indent}"""']


def _operator_of(value: Any) -> Operator | None:
    found = getattr(value, "operator", None) if isinstance(value, types.FunctionType) else None
    return found if isinstance(found, Operator) else None


def _module_stub(module: Any) -> str:
    """The stub of a module of the namespace."""
    names: list[str] = sorted(module.__all__)
    stub = _Stub(names, inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0])
    data: list[str] = []
    for name in names:
        value = getattr(module, name)
        operator = _operator_of(value)
        if operator is not None:
            parameters, result = operator_signature(operator)
            stub.define(name, parameters, result, operator.doc, result_module=_result_module(operator, result))
        elif isinstance(value, types.ModuleType):
            stub.imports.setdefault(module.__name__, set()).add(_imported(value.__name__.rpartition(".")[2], name))
        elif isinstance(value, (type, types.FunctionType)) and value.__module__.startswith(("tenkey", "numpy")):
            _check_importable(value)
            stub.imports.setdefault(value.__module__, set()).add(_imported(value.__qualname__, name))
        else:
            data.append(f"{name}: {stub.use(_data_type(name, value))}")
    listed = ["__all__ = [", *[f'    "{name}",' for name in names], "]", ""]
    stub.lines = [*listed, *data, *_extras(stub, module), "", *stub.lines]
    return stub.text()


def _imported(there: str, name: str) -> str:
    return f"{there} as {name}"


def _check_importable(value: Any) -> None:
    found = getattr(importlib.import_module(value.__module__), value.__qualname__, None)
    if found is not value:
        raise LookupError(f"{value!r} is not found as {value.__module__}.{value.__qualname__}")


def _data_type(name: str, value: object) -> str:
    if isinstance(value, np.dtype):
        return "Final[DType]"
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, complex, str)):
        return f"Final[{type(value).__name__}]"
    raise LookupError(f"no annotation is known for the public name {name!r}, a {type(value).__name__}")


def _extras(stub: _Stub, module: Any) -> Iterator[str]:
    """Names with two underscores, which ``__all__`` leaves out."""
    for name, value in sorted(vars(module).items()):
        if name in ("__version__", "__array_api_version__") and isinstance(value, str):
            yield f"{name}: {stub.use('Final[str]')}"
        elif name == "__array_namespace_info__":
            stub.imports.setdefault(value.__module__, set()).add(_imported(value.__qualname__, name))
    if module is tk:  # from the package ml_dtypes, at first use
        yield f"bfloat16: {stub.use('Final[DType]')}"


def _methods_stub() -> str:
    """The class with what is put on Tensor after its definition."""
    members = {name: value for name, value in sorted(vars(Tensor).items()) if _is_attached(name, value)}
    stub = _Stub(members, "What the declarations of operators and the layers above core put on Tensor.")
    stub.lines += ["", "class TensorMethods:"]
    for name, value in members.items():
        operator = _operator_of(value)
        if name in _WRITTEN or name in _BINARY:
            default = f"(self, other: Operand) -> {'Self' if name.startswith('__i') else 'Tensor'}"
            parameters, result = _split(_WRITTEN.get(name, default))
            comment = "  # type: ignore[override]" if name in _OVERRIDES else ""
            stub.define(name, parameters, result, None, indent="    ", comment=comment)
        elif isinstance(value, property):
            _define_property(stub, name, value)
        elif operator is not None:
            parameters, result = operator_signature(operator, method=True)
            module = _result_module(operator, result)
            stub.define(name, parameters, result, operator.doc, result_module=module, indent="    ")
        else:
            parameters, result = _function_signature(value, method=True)
            stub.define(name, parameters, result, value.__doc__, module=value.__module__, indent="    ")
    return stub.text()


def _is_attached(name: str, value: object) -> bool:
    function = value.fget if isinstance(value, property) else value
    if not isinstance(function, types.FunctionType) or function.__module__ == Tensor.__module__:
        return False
    return name == "_version" or not name.startswith("_") or name.startswith("__")


def _split(signature: str) -> tuple[list[str], str]:
    parameters, _, result = signature[1:].partition(") -> ")
    return parameters.split(", "), result


def _define_property(stub: _Stub, name: str, value: property) -> None:
    getter = value.fget
    operator = _operator_of(getter)
    if operator is not None:
        stub.define(name, ["self"], _result_text(operator), value.__doc__, indent="    ", decorators=["property"])
        return
    assert getter is not None
    _, result = _function_signature(getter, method=True)
    module = getter.__module__
    stub.define(name, ["self"], result, value.__doc__, module=module, indent="    ", decorators=["property"])
    if value.fset is not None:
        parameters, _ = _function_signature(value.fset, method=True)
        setter = [f"{name}.setter"]
        stub.define(name, parameters, "None", None, module=value.fset.__module__, indent="    ", decorators=setter)
    if value.fdel is not None:
        stub.define(name, ["self"], "None", None, indent="    ", decorators=[f"{name}.deleter"])


def make_stubs() -> dict[str, str]:
    """The stubs as they should be: path below the root to text."""
    made = {"tenkey/__init__.pyi": _module_stub(tk)}
    for module in _names.MODULES:
        made[f"tenkey/{module}.pyi"] = _module_stub(getattr(tk, module))
    made[METHODS] = _methods_stub()
    return made


def main(arguments: list[str]) -> int:
    """Write the stubs, or with ``--check`` compare them; returns the exit status."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__)
        return 2
    changed = 0
    for path, text in make_stubs().items():
        target = ROOT / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            changed += 1
            print(f"{path}: {'out of date' if check else 'written'}")
            if not check:
                target.write_text(text, encoding="utf-8")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
