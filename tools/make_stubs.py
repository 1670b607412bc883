"""Generate the type stubs of the namespace and of the Tensor methods from the operators' schemas.

    python -m tools.make_stubs            # write the stubs that changed
    python -m tools.make_stubs --check    # only list outdated stubs; the exit status is 1 if there are any

Note [Generated stubs]
~~~~~~~~~~~~~~~~~~~~~~
Operators are created when the package is imported, so type checkers, which do not run code, cannot see them. This
program generates what they read instead: a stub for each module of the namespace, with a function for every public
operator, and ``tenkey/core/_tensor_methods.pyi``, a class with the methods that operator declarations and the layers
above core add to Tensor. This class has no module at run time: under TYPE_CHECKING it is the base class of Tensor, so
the source of Tensor itself is still type-checked. Hand-written functions are imported from their modules.

The stubs of ``tenkey.numpy`` have the names and defaults of the signatures at run time, and the types of NumPy's own
stubs (Note [Types from NumPy's stubs] in ``tools/stubs/numpy_annotations.py``); ``tenkey/numpy/_array_members.pyi`` is
to ``ndarray`` what ``_tensor_methods.pyi`` is to Tensor. They are made with one version of NumPy, and left alone with
another. All stubs are committed; ``tests/package/test_stubs.py`` regenerates them in memory and compares.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import tenkey as tk
from tenkey import _names
from tenkey.core.exchange.pickling import buffer
from tenkey.core.plans import special_methods
from tenkey.core.tensor import Tensor
from tenkey.dispatch.registry import registry
from tenkey.ops.declare.methods import DelayedMethod

from .stubs.delayed import delayed_names
from .stubs.numpy_stubs import numpy_stubs
from .stubs.operators import BINARY, COMPARISONS, define_property, operator_of, operator_signature, result_module
from .stubs.text import Stub, function_signature

__all__ = ["main", "make_stubs", "operator_signature"]

ROOT: Final = Path(__file__).resolve().parents[1]
METHODS: Final = "tenkey/core/_tensor_methods.pyi"
DELAYED: Final = "tenkey/ops/builtin/delayed.py"
# Methods whose types are more precise than their annotations.
_WRITTEN: Final = {
    "__getitem__": "(self, index: Index) -> Tensor",
    "__setitem__": "(self, index: Index, value: ArrayLike) -> None",
    "__eq__": "(self, other: object) -> Tensor",
    "__ne__": "(self, other: object) -> Tensor",
    **dict.fromkeys(COMPARISONS, "(self, other: ArrayLike) -> Tensor"),
}
_OVERRIDES: Final = frozenset({"__eq__", "__ne__"})  # object declares that they return bool


# ---- stubs


def _module_stub(module: Any) -> str:
    """Return the stub of a module of the namespace."""
    names: list[str] = sorted(module.__all__)
    stub = Stub(names, inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0])
    data: list[str] = []
    for name in names:
        value = getattr(module, name)
        operator = operator_of(value)
        if operator is not None:
            parameters, result = operator_signature(operator)
            stub.define(name, parameters, result, operator.doc, result_module=result_module(operator, result))
        elif isinstance(value, types.ModuleType):
            stub.imports.setdefault(module.__name__, set()).add(imported(value.__name__.rpartition(".")[2], name))
        elif isinstance(value, (type, types.FunctionType)) and value.__module__.startswith(("tenkey", "numpy")):
            check_importable(value)
            stub.imports.setdefault(value.__module__, set()).add(imported(value.__qualname__, name))
        else:
            data.append(f"{name}: {stub.use(_data_type(name, value))}")
    listed = ["__all__ = [", *[f'    "{name}",' for name in names], "]", ""]
    stub.lines = [*listed, *data, *_extras(stub, module), "", *stub.lines]
    return stub.text()


def imported(there: str, name: str) -> str:
    return f"{there} as {name}"


def check_importable(value: Any) -> None:
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


def _extras(stub: Stub, module: Any) -> Iterator[str]:
    """Yield the declarations of dunder names, which are not in ``__all__``."""
    for name, value in sorted(vars(module).items()):
        if name in ("__version__", "__array_api_version__") and isinstance(value, str):
            yield f"{name}: {stub.use('Final[str]')}"
        elif name == "__array_namespace_info__":
            stub.imports.setdefault(value.__module__, set()).add(imported(value.__qualname__, name))
    if module is tk:  # loaded from the package ml_dtypes at first use
        yield f"bfloat16: {stub.use('Final[DType]')}"


def _methods_stub() -> str:
    """Return the stub of the members that are added to Tensor after its definition."""
    every = {**special_methods(), **vars(Tensor)}
    members = {name: value for name, value in sorted(every.items()) if _is_attached(name, value)}
    members.pop("__buffer__", None)
    stub = Stub(members, "Members that operator declarations and the layers above core add to Tensor.")
    stub.lines += ["", "class TensorMethods:"]
    for name, value in members.items():
        operator = operator_of(value)
        if name in _WRITTEN or name in BINARY:
            default = f"(self, other: ArrayLike) -> {'Self' if name.startswith('__i') else 'Tensor'}"
            parameters, result = _split(_WRITTEN.get(name, default))
            comment = "  # type: ignore[override]" if name in _OVERRIDES else ""
            stub.define(name, parameters, result, None, indent="    ", comment=comment)
        elif isinstance(value, property):
            define_property(stub, name, value)
        elif operator is not None:
            parameters, result = operator_signature(operator, method=True)
            module = result_module(operator, result)
            stub.define(name, parameters, result, operator.doc, result_module=module, indent="    ")
        else:
            parameters, result = function_signature(value, method=True)
            stub.define(name, parameters, result, value.__doc__, module=value.__module__, indent="    ")
    stub.plain.add("sys")
    stub.lines += ["", "    if sys.version_info >= (3, 12):"]  # so that the text does not depend on the interpreter
    stub.define("__buffer__", ["self", "flags: int"], "memoryview", buffer.__doc__, indent=" " * 8)
    return stub.text()


def _is_attached(name: str, value: object) -> bool:
    function = value.fget if isinstance(value, property) else value
    if getattr(function, "__module__", Tensor.__module__) == Tensor.__module__ or not inspect.isroutine(function):
        return False
    return name == "_version" or not name.startswith("_") or name.startswith("__")


def _split(signature: str) -> tuple[list[str], str]:
    parameters, _, result = signature[1:].partition(") -> ")
    return parameters.split(", "), result


def make_stubs() -> dict[str, str]:
    """Return the current text of every stub, by path."""
    registry.hooks.load_all()
    for kind in (Tensor, tk.numpy.ndarray):
        for name, value in [*vars(kind).items()]:
            if isinstance(value, DelayedMethod) and not hasattr(kind, name):  # its operator is gone
                delattr(kind, name)
    made = {"tenkey/__init__.pyi": _module_stub(tk)}
    for module in _names.MODULES:
        made[f"tenkey/{module}.pyi"] = _module_stub(getattr(tk, module))
    made[METHODS] = _methods_stub()
    made[DELAYED] = delayed_names()
    return {**made, **numpy_stubs()}


def main(arguments: list[str]) -> int:
    """Write the stubs, or compare them with ``--check``; return the exit status."""
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
