"""A key registered after ``Autograd``: recorded calls run its kernels, as ``explain`` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import (
    DispatchKey,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    explain,
    register_key,
    registrations,
)
from tenkey.dispatch.operator import Operator
from tests.operators._table import SAMPLED, sampled

BelowAutograd = register_key("BelowAutograd", after=DispatchKey.Autograd)
HANDLES = "BelowAutograd: handles the call (rule 3 fallback)"


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """The names of the operators that reach the key, in order."""
    names: list[str] = []

    def observe(op: Operator, *args: Any, **kwargs: Any) -> Any:
        names.append(op.name)
        with ExcludeDispatchKeyGuard(BelowAutograd):
            return op(*args, **kwargs)

    with tk.library.Library("_", "IMPL").fallback(observe, BelowAutograd), IncludeDispatchKeyGuard(BelowAutograd):
        yield names


def test_recorded_calls_and_their_gradients_reach_the_key(seen: list[str]) -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    assert seen == ["tk::multiply"]
    assert y.requires_grad
    tk.sum(y).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_kernel_of_one_operator_computes_recorded_calls() -> None:
    def doubled(keyset: Any, x: tk.Tensor) -> Any:
        return 2 * tk.ops.tk.exp.default.redispatch(keyset.below(BelowAutograd), x)

    x = tk.tensor(0.0, requires_grad=True)
    with tk.library.Library("tk", "IMPL").impl("exp", doubled, BelowAutograd, with_keyset=True):
        assert registrations(BelowAutograd)
        with IncludeDispatchKeyGuard(BelowAutograd):
            assert tk.exp(x).item() == tk.exp(x.detach()).item() == 2.0


def test_custom_operators_reach_the_key(seen: list[str]) -> None:
    op = tk.library.custom_op("below::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda ctx, g: g * 2)
    op(tk.tensor(1.0, requires_grad=True))
    assert "below::twice" in seen


def _requiring(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_requiring(item) for item in value])
    if not isinstance(value, tk.Tensor) or value.dtype.kind not in "fc":
        return value
    return value.detach().clone().requires_grad_()


@pytest.mark.filterwarnings("ignore")
def test_explain_agrees_with_recorded_calls(seen: list[str]) -> None:
    """Where explain says that the key handles a call, the key sees the operator, and only there."""
    wrong: list[str] = []
    for operator in SAMPLED:
        sample = next(iter(sampled(operator, "float64")), None)
        if sample is None:
            continue
        arguments = [_requiring(value) for value in sample.args]
        if operator.schema.is_mutable:  # a leaf must not be changed
            arguments[0] = arguments[0] * np.float64(1) if isinstance(arguments[0], tk.Tensor) else arguments[0]
        says = HANDLES in explain(operator, *arguments, **sample.kwargs)
        seen.clear()
        try:
            operator.call(*arguments, **sample.kwargs)
        except (RuntimeError, NotImplementedError):  # cannot be recorded
            continue
        if says != (operator.name in seen):
            wrong.append(f"{operator.name}: explain says {says}, the key saw {seen}")
    assert not wrong, "\n".join(wrong)
