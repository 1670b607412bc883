"""Every operator on a device that has the templates and no other kernel: no fallback, and the values of the CPU.

Exceptions are matrix factorizations and what is made of them (LAPACK), and Fourier transforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

import tenkey as tk
from tenkey.backends import coverage
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tenkey.testing.backend.compare import close, comparable, place, same
from tenkey.testing.backend.test_operators import differentiable, gradients
from tests._reference_device import Reference
from tests._tiers import Failures, only_full, tier
from tests.operators._table import FACTORIES, OPERATORS, chosen
from tests.operators.test_meta import _MADE

_FACTORIZED: Final = {
    "tk::linalg_adjugate", "tk::linalg_cholesky", "tk::linalg_det", "tk::linalg_eigvals", "tk::linalg_eigvalsh",
    "tk::linalg_inv", "tk::linalg_matrix_exp", "tk::linalg_matrix_rank", "tk::linalg_pinv", "tk::linalg_solve",
    "tk::linalg_svdvals", "tk::lu_factors",
}  # fmt: skip
_LONG: Final = {
    "tk::beta_tail", "tk::f_tail", "tk::gamma_tail", "tk::random_counts", "tk::random_hypergeometric",
    "tk::random_rejection", "tk::special_stdtrit", "tk::student_below", "tk::student_quantile",
}  # fmt: skip
"""Decompositions into thousands of calls, three quarters of the time: full tier, and there in one dtype."""


def on_the_host(name: str) -> bool:
    """Whether an operator needs LAPACK or a Fourier transform."""
    return name.startswith(("tk::lapack_", "tk::fft_")) or name in _FACTORIZED


@pytest.fixture
def device() -> Iterator[str]:
    with tk.backends.register(Reference()):
        yield "reference"


def fallbacks(device: str) -> set[str]:
    """The operators that have fallen back, apart from those that may."""
    return {name for name in coverage(device).fallback if not on_the_host(name)}


def _outcome(operator: Operator, sample: SampleInput) -> Any:
    try:
        return operator.call(*sample.args, **sample.kwargs)
    except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return error


def _compare(operator: Operator, sample: SampleInput, device: str) -> None:
    here = sample.map(lambda t: t.clone())
    there = sample.map(lambda t: place(t, device).tensor)
    want, got = _outcome(operator, here), _outcome(operator, there)
    if isinstance(want, BaseException):
        assert isinstance(got, type(want)), f"{got!r} in place of {want!r}"
        return
    if isinstance(got, BaseException):
        raise got
    if Tag.NONDETERMINISTIC not in operator.tags:
        same(*[comparable(operator, result, sample) for result in (got, want)], device)
        for one, other in zip(there.tensors(), here.tensors(), strict=True):
            close(one.numpy(), other.numpy(), "an argument")


def test_long_decompositions_are_operators() -> None:
    assert {operator.name for operator in OPERATORS} >= _LONG


@pytest.mark.parametrize("dtype", only_full(["float32", "int64", "bool", "complex64"], ["float32", "int64"]))
def test_values(dtype: str, device: str) -> None:
    """Without ``--full`` in two dtypes; see ``test_long_decompositions`` for some operators."""
    failures = Failures()
    for operator in OPERATORS:
        if operator in FACTORIES or operator.name in {"tk::to_device", *_LONG}:
            continue
        for sample in chosen(operator, dtype):
            with failures.of(f"{operator.name}, {sample.name}"):
                _compare(operator, sample, device)
    failures.check()
    assert fallbacks(device) == set()


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(_LONG))
def test_long_decompositions(name: str, device: str) -> None:
    failures = Failures()
    (operator,) = [operator for operator in OPERATORS if operator.name == name]
    for sample in chosen(operator, "float32"):
        with failures.of(sample.name):
            _compare(operator, sample, device)
    failures.check()
    assert fallbacks(device) == set()


def test_factories(device: str) -> None:
    failures = Failures()
    for operator in FACTORIES:
        for args, kwargs in _MADE[operator.schema.base_name]:
            with failures.of(f"{operator.name}{args}"):
                want, got = operator.call(*args, **kwargs), operator.call(*args, **kwargs, device=device)
                if operator.schema.base_name != "empty":
                    same(got, want, device)
    failures.check()
    assert fallbacks(device) == set()


@pytest.mark.wider
def test_gradients(device: str) -> None:
    failures = Failures()
    for case in differentiable():
        operator: Operator = case.values[0]
        if operator.schema.namespace != "tk" or operator.name in tier(_LONG, ()):
            continue
        for sample in [*chosen(operator, "float32")][: tier(2, 3)]:
            if any(t.device.type != "cpu" for t in sample.tensors()):
                continue
            with failures.of(f"{operator.name}, {sample.name}"):
                want, got = gradients(operator, sample, None), gradients(operator, sample, device)
                for one, other in zip(got or (), want or (), strict=True):
                    close(one.astype("float32"), other.astype("float32"), "a gradient")
    failures.check()
    assert fallbacks(device) == set()


def test_a_fallback_is_seen(device: str) -> None:
    tk.linalg.inv(tk.eye(2, device=device))
    assert "tk::linalg_inv" in coverage(device).fallback
    x: Tensor = tk.ones(2, device=device)
    assert tk.exp(x).device.type == device
