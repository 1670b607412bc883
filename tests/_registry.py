"""The registry as it was before a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenkey.dispatch.registry import registry


@contextmanager
def registry_as_before() -> Iterator[None]:
    """Removes the operators of users that were defined meanwhile; derivatives of built-in ones stay."""
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if not name.startswith("tk::") and name in registry.operators:  # a derivative goes with its operator
            registry.undefine(registry.operators[name], keep_kernels=False)
