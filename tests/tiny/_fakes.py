"""Three-line tensors, fresh registries, and a private copy of the dispatcher: what its tests are made of."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

import tenkey.dispatch
from tenkey.dispatch import DispatchKey, DispatchKeySet, Handle, Kernel, Registry, register_key
from tenkey.dispatch.keys import register_trait
from tenkey.dispatch.modes import install_modes

DISPATCH = Path(tenkey.dispatch.__file__).parent
CPU, CUDA, META = DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta
AUTOGRAD_CPU, AUTOGRAD_CUDA, OTHER = DispatchKey.AutogradCPU, DispatchKey.AutogradCUDA, DispatchKey.AutogradOther
AUTOGRAD = DispatchKey.Autograd
IMPLICIT, EXPLICIT = DispatchKey.CompositeImplicitAutograd, DispatchKey.CompositeExplicitAutograd
TRACER, BATCHED = DispatchKey.Tracer, DispatchKey.Batched
TRAIT = register_trait("trait of the tests")

__all__ = [
    "AUTOGRAD",
    "AUTOGRAD_CPU",
    "AUTOGRAD_CUDA",
    "BATCHED",
    "CPU",
    "CUDA",
    "DISPATCH",
    "EXPLICIT",
    "IMPLICIT",
    "META",
    "OTHER",
    "TRACER",
    "TRAIT",
    "Fake",
    "fresh",
    "impl",
    "named",
    "private_copy",
    "register_key",
    "snapshot",
    "with_three_kernels",
]


class Fake:
    """All that the dispatcher knows of a tensor: its word."""

    def __init__(self, *keys: DispatchKey, traits: int = 0) -> None:
        self._word = DispatchKeySet(keys).mask | traits


def fresh(*schemas: str) -> Registry:
    """A registry with these operators and the stack of modes."""
    registry = Registry()
    install_modes(registry)
    for schema in schemas:
        registry.define(schema)
    return registry


def named(text: str) -> Callable[..., Any]:
    """A kernel for any schema that gives back its name and what it was called with."""

    def kernel(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return (text, args, kwargs)

    kernel.__qualname__ = text
    return kernel


def impl(
    registry: Registry,
    name: str,
    function: str | Callable[..., Any],
    key: DispatchKey,
    *,
    allow_override: bool = False,
    **options: Any,
) -> Handle:
    """Register a kernel, given as a function or as the name that it returns."""
    function = named(function) if isinstance(function, str) else function
    return registry.impl(name, Kernel(function, key, **options), allow_override=allow_override)


def with_three_kernels() -> Registry:
    """``t::f(Tensor x) -> Tensor`` with kernels for CPU, Tracer and Batched, each of which returns its name first."""
    registry = fresh("t::f(Tensor x) -> Tensor")
    for name, key in (("cpu", CPU), ("tracer", TRACER), ("batched", BATCHED)):
        impl(registry, "t::f", name, key)
    return registry


def snapshot(registry: Registry) -> dict[str, Any]:
    """All state of a registry, by value: equal before and after whatever must change nothing."""
    return {
        "operators": dict(registry.operators),
        "kernels": {op.name: {key: list(stack) for key, stack in op.kernels.items()} for op in registry},
        "facets": {op.name: dict(op.facets) for op in registry},
        "removed": {op.name: op.removed for op in registry},
        "tables": {op.name: op.table() for op in registry},
        "fallbacks": {key: list(stack) for key, stack in registry.fallbacks.items()},
        "pending": {name: list(stack) for name, stack in registry.pending.items()},
        "dangling": registry.dangling(),
        "installers": list(registry.installers._installers),
        "installed": {key: list(handles) for key, handles in registry.installers.made.items()},
    }


@functools.cache
def _compiled(path: str) -> types.CodeType:
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


class _CompiledOnce(SourceFileLoader):
    """All copies are made of the same code, also where Python writes no files of it."""

    def get_code(self, fullname: str) -> types.CodeType:
        return _compiled(self.path)


class _Finder:
    """Finds the modules below one parent."""

    def __init__(self, parent: str) -> None:
        self.prefix = f"{parent}."

    def find_spec(self, name: str, path: list[str] | None, target: Any = None) -> ModuleSpec | None:
        if path is None or not name.startswith(self.prefix):
            return None
        return FileFinder(path[0], (_CompiledOnce, [".py"])).find_spec(name)


@contextmanager
def private_copy() -> Iterator[types.SimpleNamespace]:
    """The dispatcher imported once more, under a parent that is only a name: keys made in it are nobody else's."""
    parent = "tenkey_private_copy"
    package = types.ModuleType(parent)
    package.__path__ = [str(DISPATCH.parent)]
    sys.modules[parent] = package
    finder = _Finder(parent)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(f"{parent}.dispatch")
        prefix = f"{parent}.dispatch."
        yield types.SimpleNamespace(
            **{n.removeprefix(prefix): m for n, m in list(sys.modules.items()) if n.startswith(prefix)}
        )
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in list(sys.modules) if n.split(".")[0] == parent]:
            del sys.modules[name]
