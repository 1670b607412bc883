"""Forward mode: levels and duals. Every operator in forward mode: ``tests/operators/test_forward_mode.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.forward_ad.levels import dual_level, enter_dual_level, exit_dual_level, make_dual, unpack_dual
from tenkey.core.tensor import Tensor
from tenkey.transforms import vmap
from tests.operators._table import SAMPLED

_STEP = 1e-6
_OPERATORS = [op for op in SAMPLED if op.schema.base_name not in ("to_device", "empty_like")]


def _values(rng: np.random.Generator, *shape: int) -> Tensor:
    return tk.asarray(rng.standard_normal(shape))


# ---- levels and duals


def test_unpacking() -> None:
    x, v = tk.tensor([1.0, 2.0]), tk.tensor([3.0, 4.0])
    with dual_level() as level:
        dual = make_dual(x, v)
        assert dual.shape == (2,)
        assert "tangent" in repr(dual)
        assert unpack_dual(dual).primal is x
        assert unpack_dual(dual).tangent is v
        assert unpack_dual(dual, level).tangent is v
        assert unpack_dual(x).tangent is None
        tangent = unpack_dual(dual * x).tangent
        assert tangent is not None
        assert tangent.tolist() == [3.0, 8.0]


def test_after_its_level_a_dual_is_its_primal() -> None:
    with dual_level():
        dual = make_dual(tk.tensor([1.0, 2.0]), tk.ones(2)) * 3
    assert (dual + 1).tolist() == [4.0, 7.0]
    assert dual.numpy().tolist() == [3.0, 6.0]
    with dual_level():
        assert unpack_dual(dual * 1).tangent is None


def test_gradients_after_the_level() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    with dual_level():
        y = (make_dual(x, tk.ones(2)) ** 2).sum()
    (gradient,) = tk.autograd.grad(y, x, retain_graph=True)
    assert gradient is not None
    assert gradient.tolist() == [2.0, 4.0]
    y.backward(retain_graph=True)
    tk.autograd.backward(y)
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 8.0]


def test_values_of_duals() -> None:
    with dual_level():
        x = make_dual(tk.tensor(2.0), tk.tensor(1.0))
        assert x.item() == 2.0
        assert unpack_dual(x * 3 if x > 1 else x).tangent.item() == 3.0  # type: ignore[union-attr]
        assert x.tolist() == 2.0
        with pytest.raises(RuntimeError, match="unpack_dual"):
            x.numpy()
        assert unpack_dual(x.detach()).tangent is None
        assert unpack_dual(x.clone()).tangent is not None


def test_nested_levels() -> None:
    x = tk.tensor(2.0, dtype=tk.float64)
    one = tk.ones((), dtype=tk.float64)
    with dual_level() as outer, dual_level() as inner:
        dual = make_dual(make_dual(x, one, outer), one, inner)
        cube = dual**3
        first = unpack_dual(cube, inner).tangent
        second = unpack_dual(first, outer)
        assert second.primal.item() == 12.0
        assert second.tangent.item() == 12.0  # type: ignore[union-attr]
        primal, tangent = unpack_dual(cube, outer)
        assert unpack_dual(primal, inner).tangent.item() == 12.0  # type: ignore[union-attr]
        assert unpack_dual(tangent, inner).tangent.item() == 12.0  # type: ignore[union-attr, arg-type]


def test_levels_are_not_confused() -> None:
    """The derivative of x * (d(x + y)/dy) by x is 1, whatever the inner level does."""
    with dual_level():
        x = make_dual(tk.tensor(3.0), tk.tensor(1.0))
        with dual_level() as inner:
            y = make_dual(tk.tensor(5.0), tk.tensor(1.0), inner)
            slope = unpack_dual(x + y, inner).tangent
        assert slope is not None
        assert unpack_dual(x * slope).tangent.item() == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: make_dual(3.0, x), TypeError, "the primal is a Tensor"),  # type: ignore[arg-type]
        (lambda x: make_dual(x, 3.0), TypeError, "the tangent is a Tensor"),  # type: ignore[arg-type]
        (lambda x: make_dual(x, tk.ones(3)), ValueError, r"shape \(3,\)"),
        (lambda x: make_dual(x, tk.ones(2, dtype=tk.float64)), ValueError, "float64"),
        (lambda x: make_dual(tk.asarray([1, 2]), tk.asarray([1, 2])), ValueError, "floating point or complex"),
        (lambda x: make_dual(make_dual(x, x), x), RuntimeError, "already"),
        (lambda x: make_dual(x, make_dual(x, x)), RuntimeError, "already"),
        (lambda x: make_dual(x, x, level=1), RuntimeError, "dual_level"),  # type: ignore[arg-type]
        (lambda x: unpack_dual(1.0), TypeError, "Tensor"),  # type: ignore[arg-type]
    ],
)
def test_wrong_calls(call: Callable[[Tensor], Any], error: type[Exception], words: str) -> None:
    with dual_level(), pytest.raises(error, match=words):
        call(tk.ones(2))


def test_levels_without_a_with_block() -> None:
    with pytest.raises(RuntimeError, match="no level exists"):
        exit_dual_level()
    outer = enter_dual_level()
    inner = enter_dual_level()
    with pytest.raises(RuntimeError, match="not the last one that was created"):
        exit_dual_level(level=outer)
    x = make_dual(make_dual(tk.ones(2), tk.ones(2) * 3, outer), tk.ones(2), inner)
    assert unpack_dual(unpack_dual(x * x, inner).tangent, outer).tangent.tolist() == [6.0, 6.0]
    exit_dual_level()
    exit_dual_level(level=outer)
    assert unpack_dual(tk.ones(2)).tangent is None


def test_no_level() -> None:
    with pytest.raises(RuntimeError, match="no level exists"):
        make_dual(tk.ones(2), tk.ones(2))
    x = tk.ones(2)
    assert unpack_dual(x).primal is x
    assert unpack_dual(x).tangent is None
    with dual_level() as ended:
        pass
    with pytest.raises(RuntimeError, match="has ended"):
        make_dual(tk.ones(2), tk.ones(2), ended)


def test_integer_results_carry_no_tangent() -> None:
    with dual_level():
        x = make_dual(tk.tensor([1.5, 2.5]), tk.ones(2))
        for result in (tk.argmax(x), x > 2, x.astype(tk.int64)):
            assert unpack_dual(result).tangent is None
        steps = unpack_dual(tk.floor(x)).tangent
        assert steps is not None
        assert steps.tolist() == [0.0, 0.0]


def test_in_place() -> None:
    with dual_level():
        x = make_dual(tk.tensor([1.0, 2.0]), tk.tensor([1.0, 1.0])).clone()
        y = make_dual(tk.tensor([3.0, 4.0]), tk.tensor([0.0, 1.0]))
        x *= y
        x[0] = 5.0
        x[tk.asarray([1])] += y[1]
        primal, tangent = unpack_dual(x)
        assert primal.tolist() == [5.0, 12.0]
        assert tangent is not None
        assert tangent.tolist() == [0.0, 4.0 + 2.0 + 1.0]
        assert unpack_dual(tk.zeros_like(y).add_(y)).tangent.tolist() == [0.0, 1.0]  # type: ignore[union-attr]
        assert unpack_dual(tk.ones_like(y, dtype=tk.int64)).tangent is None


def test_views_in_place() -> None:
    with dual_level():
        x = make_dual(tk.tensor([1.0, 2.0, 3.0, 4.0]), tk.tensor([1.0, 1.0, 1.0, 1.0]))
        shifted = x + 1.0  # its tangent equals that of x, and must not be the same memory
        tail = shifted[2:]
        tail *= 10.0
        pair = tk.reshape(shifted, (2, 2))[0]
        pair += pair
        assert unpack_dual(shifted).primal.tolist() == [4.0, 6.0, 40.0, 50.0]
        assert unpack_dual(shifted).tangent.tolist() == [2.0, 2.0, 10.0, 10.0]  # type: ignore[union-attr]
        assert unpack_dual(tail).tangent.tolist() == [10.0, 10.0]  # type: ignore[union-attr]
        assert unpack_dual(x).tangent.tolist() == [1.0] * 4  # type: ignore[union-attr]
        spread = make_dual(tk.zeros((2, 2)), tk.matrix_transpose(tk.ones((2, 2))))
        flat = spread.reshape(4)
        with pytest.raises(NotImplementedError, match="view whose tangent is a copy"):
            flat.add_(1.0)


def test_out_variants() -> None:
    with dual_level():
        x = make_dual(tk.tensor([1.0, 2.0]), tk.tensor([1.0, 3.0]))
        target = x * 0
        tk.ops.tk.multiply.out(x, x, out=target)
        assert unpack_dual(target).tangent.tolist() == [2.0, 12.0]  # type: ignore[union-attr]
        plain = tk.zeros(2)
        tk.ops.tk.multiply.out(x, x, out=plain)
        assert unpack_dual(plain).tangent.tolist() == [2.0, 12.0]  # type: ignore[union-attr]


# ---- with reverse mode


def _function(x: Any) -> Any:
    return tk.sum(tk.exp(x) * x)


def _closed(x: np.ndarray[Any, Any], v: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    return np.exp(x) * (x + 1), np.exp(x) * (x + 2) * v


def test_reverse_over_forward() -> None:
    x = tk.tensor(np.array([0.5, 1.0, -1.0]), requires_grad=True)
    v = tk.asarray(np.array([1.0, -2.0, 0.5]))
    with dual_level():
        tangent = unpack_dual(_function(make_dual(x, v))).tangent
    assert tangent is not None
    tangent.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), _closed(x.detach().numpy(), v.numpy())[1])


def test_forward_over_reverse() -> None:
    x = tk.tensor(np.array([0.5, 1.0, -1.0]), requires_grad=True)
    v = tk.asarray(np.array([1.0, -2.0, 0.5]))
    with dual_level():
        dual = make_dual(x, v)
        (gradient,) = tk.autograd.grad(_function(dual), dual)
        primal, tangent = unpack_dual(gradient)
    first, second = _closed(x.detach().numpy(), v.numpy())
    np.testing.assert_allclose(primal.numpy(), first)
    assert tangent is not None
    np.testing.assert_allclose(tangent.numpy(), second)


def test_forward_over_reverse_with_a_seed_that_has_a_tangent() -> None:
    x = tk.tensor(np.array([0.5, 1.0]), requires_grad=True)
    v, s, ds = (tk.asarray(np.array(values)) for values in ([1.0, -2.0], [2.0, 3.0], [0.1, 0.2]))
    with dual_level():
        dual = make_dual(x, v)
        (gradient,) = tk.autograd.grad(tk.sin(dual), dual, make_dual(s, ds))
        primal, tangent = unpack_dual(gradient)
    values = x.detach().numpy()
    np.testing.assert_allclose(primal.numpy(), np.cos(values) * s.numpy())
    assert tangent is not None
    expected = -np.sin(values) * v.numpy() * s.numpy() + np.cos(values) * ds.numpy()
    np.testing.assert_allclose(tangent.numpy(), expected)


def test_a_gradient_by_what_its_own_tangent_depends_on() -> None:
    """The tangent of exp(x) is computed from exp(x), and stands still where a gradient is taken by exp(x)."""
    values = np.array([0.5, 1.0])
    x = tk.tensor(values, requires_grad=True)
    with dual_level():
        dual = make_dual(x, tk.asarray(np.array([1.0, -2.0])))
        middle = tk.exp(dual)
        first, second = tk.autograd.grad(tk.sum(middle**3 * dual), [middle, dual])
        (primal, tangent), of_input = unpack_dual(first), unpack_dual(second)
    m, dx = np.exp(values), np.array([1.0, -2.0])
    np.testing.assert_allclose(primal.numpy(), 3 * m**2 * values)
    np.testing.assert_allclose(tangent.numpy(), 6 * m * (m * dx) * values + 3 * m**2 * dx)  # type: ignore[union-attr]
    np.testing.assert_allclose(of_input.primal.numpy(), m**3 * (1 + 3 * values))
    np.testing.assert_allclose(of_input.tangent.numpy(), (3 * m**3 * (1 + 3 * values) + 3 * m**3) * dx)  # type: ignore[union-attr]


def test_unused_inputs() -> None:
    x = tk.tensor([1.0], requires_grad=True)
    y = tk.tensor([1.0], requires_grad=True)
    with dual_level():
        dual = make_dual(x, tk.ones(1))
        with pytest.raises(RuntimeError, match="allow_unused"):
            tk.autograd.grad(dual.sum(), y)
        assert tk.autograd.grad(dual.sum(), [dual, y], allow_unused=True)[1] is None
        assert tk.autograd.grad(dual.sum(), [dual, y], materialize_grads=True)[1].tolist() == [0.0]  # type: ignore[union-attr]


# ---- with vmap


def test_vmap_of_forward_mode() -> None:
    rng = np.random.default_rng(0)
    x, v = _values(rng, 3, 4), _values(rng, 4)

    def push(row: Tensor) -> Any:
        with dual_level():
            return unpack_dual(tk.softmax(make_dual(row, v)) * row.max()).tangent

    expected = np.stack([push(x[b]).numpy() for b in range(3)])
    np.testing.assert_allclose(vmap(push)(x).numpy(), expected, rtol=1e-12)


def test_a_batch_of_tangents() -> None:
    """The primal is shared, the tangents are batched: a Jacobian by columns."""
    x = tk.asarray(np.array([0.5, 1.0, 2.0]))

    def column(v: Tensor) -> Any:
        with dual_level():
            return unpack_dual(tk.softmax(make_dual(x, v))).tangent

    s = tk.softmax(x).numpy()
    np.testing.assert_allclose(vmap(column)(tk.eye(3, dtype=tk.float64)).numpy(), np.diag(s) - np.outer(s, s))


def test_forward_mode_of_vmap() -> None:
    rng = np.random.default_rng(0)
    x, v = _values(rng, 3, 4), _values(rng, 3, 4)
    with dual_level():
        together = unpack_dual(vmap(lambda row: tk.softmax(row) * row.max())(make_dual(x, v))).tangent
        alone = unpack_dual(
            tk.softmax(make_dual(x, v), axis=1) * tk.max(make_dual(x, v), axis=1, keepdims=True)
        ).tangent
    assert together is not None
    assert alone is not None
    np.testing.assert_allclose(together.numpy(), alone.numpy(), rtol=1e-12)
