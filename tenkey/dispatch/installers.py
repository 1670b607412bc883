"""Installers that wait until somebody asks for the kernels of an operator.

Note [Installers that wait]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
Of hundreds of operators that are defined when the package is imported a process calls a few. So the installers that
the package itself brings do not act on all of them at once, but on each when somebody asks for its kernels
(``Operator.kernels``): a call, a table, a registration, another installer. They act in the order in which they
subscribed, before anybody sees a kernel; nobody can tell the difference, but for the time that an import takes.
Operators that are defined later, by users, are installed at once, and so are installers that subscribe later: what is
wrong with a declaration is said where it is made. Guarded by ``tests/tiny/test_putting_off.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .operator import Operator
    from .registry import Registry

__all__ = ["putting_off", "settle"]


@contextmanager
def putting_off(registry: Registry) -> Iterator[None]:
    """Let installers that subscribe in a ``with`` block wait for the operators that are defined already."""
    before, registry.puts_off = registry.puts_off, True
    try:
        yield
    finally:
        registry.puts_off = before


def settle(operator: Operator) -> None:
    """Let the installers act that wait for this operator."""
    registry = operator.registry
    with registry.lock:
        if operator in registry.settling:
            return  # an installer asks for the kernels so far
        registry.settling.add(operator)
        try:
            while operator.outstanding:
                registry.install(operator.outstanding[0], operator)
                operator.outstanding = operator.outstanding[1:]
        finally:
            registry.settling.remove(operator)
