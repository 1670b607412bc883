"""Expressions on complex numbers: a right gradient, or none and an error that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.autograd.formulas.gradients import jvp_of
from tenkey.dispatch.registry import registry
from tenkey.library import INT_TO_FLOAT, REAL_TO_FLOAT, pointwise, reduction
from tenkey.library import scalar as s

NS = "complex_test"


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if name.startswith(f"{NS}::") and name in registry.operators:
            registry.undefine(registry.operators[name], keep_kernels=False)


def declare(body: Callable[..., Any], arguments: str = "Tensor x", **options: Any) -> Callable[..., tk.Tensor]:
    return pointwise(f"{NS}::op({arguments}) -> Tensor", scalar=lambda T: body, **options)


def leaf(dtype: Any = tk.complex128) -> tk.Tensor:
    values = np.array([0.3 - 0.7j, -1.2 + 0.4j, 0.8 + 0.1j])
    return tk.tensor(values if np.dtype(dtype).kind == "c" else values.real, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * x + 1, lambda x: s.exp(x) / (x + 3), lambda x: s.sin(x) * s.log(x + 4), lambda x: s.sqrt(x + 3),
        lambda x: s.where(x == 0, 1, x * x), lambda x: s.where(s.abs(x) > 1, x * x, s.exp(x)), lambda x: s.tanh(x),
    ],
)  # fmt: skip
def test_holomorphic(body: Any) -> None:
    op = declare(body)
    assert gradcheck(op, leaf())
    assert gradgradcheck(op, leaf())


def test_two_arguments_of_which_one_is_real() -> None:
    op = declare(lambda x, y: x * s.exp(y), "Tensor x, Tensor y")
    assert gradcheck(op, (leaf(tk.float64), leaf()))
    assert gradcheck(op, (leaf(), leaf(tk.float64)))


def test_partials_are_the_holomorphic_derivative() -> None:
    """No conj is written by the user, in an expression or in tensors."""
    for partials in (lambda x: s.exp(x) * (1 + x), lambda x: tk.exp(x) * (1 + x)):
        op = declare(lambda x: x * s.exp(x), partials=partials)
        assert gradcheck(op, leaf())
        registry.undefine(op.operator)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        (lambda x: s.abs(x), "abs"), (lambda x: x * s.sign(x), "sign"), (lambda x: s.exp(-s.abs(x) * s.abs(x)), "abs"),
        (lambda x: s.where(s.abs(x) > 1, x / s.abs(x), x), "abs"),
    ],
)  # fmt: skip
def test_not_holomorphic(body: Any, operation: str) -> None:
    op = declare(body)
    x = leaf()
    result = op(x.detach())
    assert result.dtype == op(tk.empty(3, dtype=tk.complex128, device="meta")).dtype
    assert result.dtype == (tk.complex128 if operation == "sign" or np.iscomplexobj(result.numpy()) else tk.float64)
    out = op(x)  # the values are there
    with pytest.raises(NotImplementedError, match=f"{operation} is not holomorphic"):
        out.backward(tk.ones_like(out))
    operator = op.operator  # type: ignore[attr-defined]
    rule = jvp_of(operator, is_complex=True)
    if rule is not None:
        with pytest.raises(NotImplementedError, match=f"{operation} is not holomorphic"):
            rule({"x": x.detach()}, {"x": x.detach()}, out.detach())
    assert gradcheck(op, leaf(tk.float64))


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        (lambda x: s.maximum(x, 0), "maximum"), (lambda x: s.floor(x), "floor"), (lambda x: x if x > 0 else -x, "gr"),
        (lambda x: s.hypot(x, 1), "hypot"), (lambda x: s.erf(x), "erf"),
    ],
)  # fmt: skip
def test_without_a_meaning_for_complex(body: Any, operation: str) -> None:
    op = declare(body)
    with pytest.raises(TypeError, match=rf"is not defined for dtype complex128: .*since {operation}"):
        op(leaf())
    with pytest.raises(TypeError, match="complex64"):
        op(tk.empty(3, dtype=tk.complex64, device="meta"))
    assert op(leaf(tk.float32)).dtype == tk.float32


def test_an_absolute_value_is_real() -> None:
    op = declare(lambda x: s.abs(x) + 1)
    out = op(tk.asarray([3 + 4j], dtype=tk.complex64))
    assert (out.dtype, out.tolist()) == (np.dtype("float32"), [6.0])


def test_an_order_of_absolute_values() -> None:
    op = declare(lambda x: x / s.maximum(s.abs(x), 1))
    x = np.array([3 + 4j, 0.5j])
    np.testing.assert_allclose(op(tk.asarray(x)).numpy(), [0.6 + 0.8j, 0.5j])


def test_reductions() -> None:
    op = reduction(
        f"{NS}::largest(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: s.maximum(a, b),
    )
    with pytest.raises(TypeError, match="maximum is not defined for complex"):
        op(leaf())
    total = reduction(
        f"{NS}::absolute(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        scalar=lambda T: lambda x: s.abs(x),
    )
    np.testing.assert_allclose(total(leaf().detach()).numpy(), np.abs(leaf().detach().numpy()).sum())
    out = total(leaf())
    with pytest.raises(NotImplementedError, match="abs is not holomorphic"):
        out.backward(tk.ones_like(out))


def test_the_promotion_constant() -> None:
    op = declare(lambda x: s.exp(x), promote=REAL_TO_FLOAT)
    assert op(tk.asarray([0])).dtype == tk.float32
    assert op(tk.asarray([0.0], dtype=tk.float64)).dtype == tk.float64
    with pytest.raises(TypeError, match="it takes real dtypes"):
        op(leaf())
    assert REAL_TO_FLOAT.name != INT_TO_FLOAT.name


@pytest.mark.parametrize("name", ["multiply", "divide", "exp", "log", "sqrt", "sin", "tanh", "pow", "square", "prod"])
def test_built_in_gradients_are_conjugate(name: str) -> None:
    """As PyTorch: the gradient of L is dL/da + i dL/db for x = a + ib, here for L = Re(out) + 2 Im(out)."""
    call = getattr(tk, name)
    x = leaf()
    given = (
        (x, tk.asarray([0.5 + 1j, 2.0, 1 - 1j], dtype=tk.complex128)) if name in ("multiply", "divide", "pow") else (x,)
    )
    out = call(*given)
    (g,) = tk.autograd.grad(out, x, tk.ones_like(out) * (1 + 2j))
    assert g is not None

    def loss(values: np.ndarray[Any, Any]) -> float:
        result = call(tk.asarray(values), *given[1:]).numpy()
        return float(np.sum(result.real + 2 * result.imag))

    base, step = x.detach().numpy(), 1e-6
    for i in range(base.size):
        wanted = 0j
        for unit in (1, 1j):
            moved = [base.copy(), base.copy()]
            moved[0][i] += step * unit
            moved[1][i] -= step * unit
            wanted += unit * (loss(moved[0]) - loss(moved[1])) / (2 * step)
        assert g.numpy()[i] == pytest.approx(wanted, rel=1e-6, abs=1e-7)
