"""What tests of ``tenkey.library.Library`` share: the state of the registry, and what a refusal leaves of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tenkey as tk
from tenkey.dispatch.registry import registry

NS = "library_test"


def state() -> dict[str, Any]:
    """Everything that a registration may change: operators, their kernels and facets, fallbacks, waiting kernels."""
    return {
        "operators": {
            op.name: (
                str(op.schema),
                {key.name: [kernel.function for kernel in stack] for key, stack in op.kernels.items()},
                dict(op.facets),
            )
            for op in registry
            if not op.schema.base_name.startswith("_") and "_vjp_" not in op.name
        },
        "fallbacks": {key.name: [kernel.function for kernel in stack] for key, stack in registry.fallbacks.items()},
        "waiting": {name: [kernel.function for kernel in stack] for name, stack in registry.dangling().items()},
    }


def values(x: tk.Tensor | None) -> list[float]:
    assert x is not None
    result: list[float] = x.tolist()
    return result


@contextmanager
def nothing_left() -> Iterator[None]:
    """Holds what runs inside to leaving the registry as it was; kernels that wait in ``NS`` are taken out."""
    before = state()
    yield
    for name in registry.dangling():  # kernels outlive the operator that they were registered for by name
        if name.startswith(f"{NS}::"):
            registry.undefine(registry.define(f"{name}(Tensor x) -> Tensor"), keep_kernels=False)
    assert state() == before


def refused(action: Callable[[], object], kind: type[Exception], *parts: str) -> str:
    """The text of the exception that ``action`` must raise; it holds all ``parts`` and leaves everything as it was."""
    before = state()
    with pytest.raises(kind) as caught:
        action()
    assert state() == before
    text = str(caught.value)
    for part in parts:
        assert part in text
    return text
