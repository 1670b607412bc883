"""What a fault is, and the tests of single operators that notice one."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Fault", "gradients", "sweep", "values", "vmap"]


class Fault(NamedTuple):
    """An edit that breaks something, and the tests that must fail with it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def values(*operators: str) -> tuple[str, ...]:
    """Return the test of the values of some operators."""
    return sweep("test_reference.py::test_values_dtype_and_shape", *operators)


def gradients(*operators: str) -> tuple[str, ...]:
    """Return the test of their first derivatives."""
    return sweep("test_gradients.py::test_first_derivative", *operators)


def vmap(*operators: str) -> tuple[str, ...]:
    """Return the test that compares ``vmap`` with a loop."""
    return sweep("test_vmap.py::test_every_operator_against_a_loop", *operators)


def sweep(test: str, *operators: str) -> tuple[str, ...]:
    """Return the cases of a test of ``tests/operators`` for some operators."""
    return tuple([f"tests/operators/{test}[{name}]" for name in operators])
