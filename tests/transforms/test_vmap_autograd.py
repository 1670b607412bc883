"""vmap together with gradients and modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.transforms import vmap
from tests._batches import rows

# ---- with autograd


def test_gradient_through_vmap() -> None:
    rng = np.random.default_rng(0)
    x = tk.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    w = tk.tensor(rng.standard_normal((4, 2)), requires_grad=True)
    y = vmap(lambda row: tk.softmax(tk.tanh(row @ w)).sum() + (row @ w).max())(x)
    plain = tk.softmax(tk.tanh(x @ w)).sum(axis=1) + (x @ w).max(axis=1)
    for got, want in zip(tk.autograd.grad(y.sum(), (x, w)), tk.autograd.grad(plain.sum(), (x, w)), strict=True):
        assert got is not None
        assert want is not None
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


def test_grad_inside_of_vmap() -> None:
    x = rows()

    def per_sample(row: Tensor) -> Any:
        row = row.detach().requires_grad_()
        (first,) = tk.autograd.grad((row**3).sum(), row, create_graph=True)
        (second,) = tk.autograd.grad(first.sum(), row)
        return first.detach(), second

    first, second = vmap(per_sample, in_dims=1, out_dims=1)(x)
    np.testing.assert_allclose(first.numpy(), 3 * x.numpy() ** 2)
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy())
    assert not x.requires_grad


def test_grad_of_a_shared_input_inside_of_vmap() -> None:
    """Another gradient for each sample, though what was recorded sums them up."""
    w = tk.tensor(np.arange(4.0), requires_grad=True)

    def per_sample(row: Tensor) -> Any:
        row = row.detach().requires_grad_()
        return tk.autograd.grad([(row * w**2).sum(), (w**3).sum()], [w, row], materialize_grads=True)

    by_w, by_row = vmap(per_sample)(rows())
    values, batch = w.detach().numpy(), rows().numpy()
    np.testing.assert_allclose(by_w.numpy(), 2 * batch * values + 3 * values**2)
    np.testing.assert_allclose(by_row.numpy(), np.broadcast_to(values**2, (3, 4)))
    nested = vmap(vmap(lambda row, s: tk.autograd.grad((row * w**2).sum() * s, w)[0], (None, 0)), (0, None))
    scales = np.array([1.0, 10.0])
    got = nested(rows(), tk.asarray(scales))
    np.testing.assert_allclose(got.numpy(), 2 * batch[:, None] * values * scales[:, None])


def test_backward_inside_of_vmap_is_refused() -> None:
    w = tk.tensor(np.ones(4), requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"tk\.autograd\.grad"):
        vmap(lambda row: (row * w).sum().backward())(rows())


def test_batched_gradients() -> None:
    x = tk.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    rows = vmap(lambda g: tk.autograd.grad(y, x, g, retain_graph=True)[0])(tk.eye(3))
    np.testing.assert_array_equal(rows.numpy(), np.diag([2.0, 4.0, 6.0]))


def test_no_grad_is_kept_inside() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    with tk.no_grad():
        assert not vmap(lambda v: v * 2)(x).requires_grad
    assert vmap(lambda v: v * 2)(x).requires_grad


def test_modes_see_the_calls_of_the_sample() -> None:
    class Shapes(tk.dispatch.DispatchMode):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            self.seen.append((str(op), args[0].shape))
            return op(*args, **kwargs)

    with Shapes() as mode:
        vmap(lambda row: tk.exp(row))(rows())
    assert mode.seen == [("tk::exp", (4,))]
