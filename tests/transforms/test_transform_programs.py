"""Transforms in programs as their users write them: nested, with tangents and parameters from elsewhere."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.transforms import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap


def _cubes(x: Tensor) -> Tensor:
    return tk.sum(x**3)


_SLOPES: dict[str, Any] = {
    "jvp of grad": lambda x, v: jvp(grad(_cubes), (x,), (v,))[1],
    "jvp of jacrev": lambda x, v: tk.sum(jvp(jacrev(lambda y: y**3), (x,), (v,))[1], axis=0),
    "vjp of grad": lambda x, v: vjp(grad(_cubes), x)[1](v)[0],
    "linearize of grad": lambda x, v: linearize(grad(_cubes), x)[1](v),
    "grad of jvp": lambda x, v: grad(lambda y: jvp(_cubes, (y,), (v,))[1])(x),
    "jvp of vmap of grad": lambda x, v: jvp(vmap(grad(lambda y: y**3)), (x,), (v,))[1],
    "vmap of jvp of grad": lambda x, v: vmap(lambda x, v: jvp(grad(lambda y: y**3), (x,), (v,))[1])(x, v),
}


@pytest.mark.parametrize("name", _SLOPES)
def test_a_direction_that_is_differentiated_itself(name: str) -> None:
    """H v, differentiated by v, by x, and where both are the same tensor: a tangent belongs to whoever made it."""
    product = _SLOPES[name]
    x, v = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    given, direction = tk.asarray(x), tk.asarray(v)
    assert grad(lambda v: tk.sum(product(given, v)))(direction).tolist() == (6 * x).tolist()
    assert grad(lambda x: tk.sum(product(x, direction)))(given).tolist() == (6 * v).tolist()
    assert grad(lambda x: tk.sum(product(x, x)))(given).tolist() == (12 * x).tolist()
    assert jacfwd(lambda x: product(x, x))(given).tolist() == np.diag(12 * x).tolist()
    leaf = tk.tensor(x, requires_grad=True)
    tk.sum(product(given, leaf)).backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == (6 * x).tolist()
    leaf.grad = None
    tk.sum(product(leaf, leaf)).backward()
    assert leaf.grad.tolist() == (12 * x).tolist()


class _Product(tk.autograd.Function):
    """A forward derivative as one writes it down: it does not ask whether there is a tangent."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any, times: Any) -> Any:
        return x * y * times

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(*inputs[:2])
        ctx.save_for_backward(*inputs[:2])
        ctx.times = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y * ctx.times, g * x * ctx.times, None

    @staticmethod
    def jvp(ctx: Any, dx: Any, dy: Any, times: Any) -> Any:
        assert times is None
        x, y = ctx.saved_tensors
        return (dx * y + x * dy) * ctx.times


class _Unfilled(_Product):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _Product.setup_context(ctx, inputs, output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, dx: Any, dy: Any, times: Any) -> Any:
        x, y = ctx.saved_tensors
        if dx is None:
            return x * dy * ctx.times
        assert dy is None
        return dx * y * ctx.times


@pytest.mark.parametrize("function", [_Product, _Unfilled])
def test_tensors_without_a_tangent_have_zeros_in_a_jvp(function: Any) -> None:
    x, y = tk.asarray(np.array([1.0, 2.0])), tk.asarray(np.array([3.0, 5.0]))
    assert jvp(lambda x: function.apply(x, y, 2.0), (x,), (x,))[1].tolist() == [6.0, 20.0]
    assert jvp(lambda y: function.apply(x, y, 2.0), (y,), (x,))[1].tolist() == [2.0, 8.0]
    assert jacfwd(lambda x: function.apply(x, y, 2.0))(x).tolist() == [[6.0, 0.0], [0.0, 10.0]]
    rows = tk.stack([x, y])
    pushed = vmap(lambda row: jvp(lambda x: function.apply(x, y, 2.0), (row,), (row,))[1])(rows)
    assert pushed.tolist() == [[6.0, 20.0], [18.0, 50.0]]
    assert jacfwd(vmap(lambda x: function.apply(x, x[0].detach(), 2.0)))(rows[:, :1]).shape == (2, 1, 2, 1)
    fw = tk.autograd.forward_ad
    with fw.dual_level():
        out = function.apply(fw.make_dual(x, x), y, 2.0)
        assert fw.unpack_dual(out).tangent.tolist() == [6.0, 20.0]


def _in_place(x: Tensor) -> Tensor:
    y = x * 1
    y.multiply_(x)
    first = y[0]
    first.multiply_(x[1])
    y += x
    return y


def _out_of_place(x: Tensor) -> Tensor:
    return tk.stack([x[0] * x[0] * x[1] + x[0], x[1] * x[1] + x[1]])


_ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
_NESTED: dict[str, Any] = {
    "a tangent for all samples": lambda f, x: vmap(lambda row: jvp(f, (row,), (tk.ones_like(x[0]),))[1])(x),
    "a primal for all tangents": lambda f, x: vmap(lambda row: jvp(f, (x[0],), (row,))[1])(x),
    "vmap of jacfwd": lambda f, x: vmap(jacfwd(f))(x),
    "jacfwd of vmap": lambda f, x: jacfwd(vmap(f))(x),
    "jacfwd of jacfwd": lambda f, x: jacfwd(jacfwd(f))(x[1]),
    "vmap of jacfwd of jacrev": lambda f, x: vmap(jacfwd(jacrev(f)))(x),
    "vmap of jacfwd of jacfwd": lambda f, x: vmap(jacfwd(jacfwd(f)))(x),
    "broadcast tangent": lambda f, x: jvp(
        lambda x: f(x.multiply_(2.0)), (x[0] * 1,), (tk.broadcast_to(x[1, 0], (2,)),)
    ),
}


@pytest.mark.parametrize("name", _NESTED)
def test_changes_in_place_in_nested_transforms(name: str) -> None:
    """A tangent that the samples share becomes one for each when something of theirs is written into it."""
    nested, x = _NESTED[name], tk.asarray(_ROWS)
    got, want = nested(_in_place, x), nested(_out_of_place, x)
    for a, b in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    assert x.tolist() == _ROWS.tolist()


def test_a_dual_is_unpacked_in_another_thread() -> None:
    fw = tk.autograd.forward_ad
    with fw.dual_level(), ThreadPoolExecutor(1) as pool:
        dual = fw.make_dual(tk.ones(2), tk.ones(2))
        assert pool.submit(lambda: fw.unpack_dual(dual * 3).tangent.tolist()).result() == [3.0, 3.0]
    assert fw.unpack_dual(dual).tangent is None


def test_the_tape_inside_of_vmap_inside_of_jvp() -> None:
    """``requires_grad_`` makes a leaf of the values; tangents of levels further out stay."""
    weights = tk.asarray(np.array([3.0, -1.0]))

    def slope(x: Tensor) -> Tensor:
        leaf = (x * 1).requires_grad_()
        return tk.autograd.grad(tk.exp(leaf), leaf, weights, create_graph=True)[0]

    def rows(x: Tensor) -> Tensor:
        return vmap(slope)(tk.stack([x, x * 2]))

    x, t = np.array([0.5, -0.7]), np.array([1.0, 10.0])
    want = weights.numpy() * t * np.stack([np.exp(x), 2 * np.exp(2 * x)])
    got = jvp(rows, (tk.asarray(x),), (tk.asarray(t),))[1]
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)
    np.testing.assert_allclose((jacfwd(rows)(tk.asarray(x)) @ tk.asarray(t)).detach().numpy(), want, rtol=1e-12)
    np.testing.assert_allclose((jacrev(rows)(tk.asarray(x)) @ tk.asarray(t)).detach().numpy(), want, rtol=1e-12)


def test_a_view_without_recording_leaves_the_tangent_its_history() -> None:
    """The tangent, shared by the samples, is made one for each of them when the dual is viewed, here in no_grad."""

    def product(x: Tensor, scale: Tensor, tangent: Tensor) -> Tensor:
        def times_constant(x: Tensor) -> Tensor:
            with tk.no_grad():
                constant = x[:, None][:, 0]
            return constant * x

        return jvp(times_constant, (x * scale,), (tangent,))[1]

    x = tk.tensor(np.array([2.0, 3.0]), requires_grad=True)
    t = tk.tensor(np.array([5.0, 7.0]), requires_grad=True)
    for scales in ([1.0], [1.0, 2.0]):
        x.grad = t.grad = None
        tk.sum(vmap(lambda s: product(x, s, t))(tk.asarray(np.array(scales)))).backward()
        assert x.grad is not None
        assert t.grad is not None
        total = sum(scales)
        # t * x + constant * t, where neither the constant nor its tangent has a history
        assert x.grad.tolist() == [5.0 * total, 7.0 * total]
        assert t.grad.tolist() == [2.0 * total, 3.0 * total]


class _Named(dict[str, Any]):
    def __init__(self, name: str, **entries: Any) -> None:
        super().__init__(entries)
        self.name = name


@pytest.mark.parametrize(
    "tree", [OrderedDict(x=1, y=2), defaultdict(list, x=1, y=2), _Named("params", x=1, y=2)], ids=type
)
def test_mappings_of_many_kinds(tree: Any) -> None:
    for key in tree:
        tree[key] = tk.asarray([float(tree[key]), 3.0])
    gradient = grad(lambda p: tk.sum(p["x"] * p["x"] * p["y"]))(tree)
    assert type(gradient) is type(tree)
    assert [gradient[k].tolist() for k in tree] == [[4.0, 18.0], [1.0, 9.0]]
    assert getattr(gradient, "name", "params") == "params"
    assert getattr(gradient, "default_factory", list) is list
    mapped = vmap(lambda p: tk.sum(p["x"] * p["y"]), in_dims=({"x": 0, "y": None},))(tree)
    assert mapped.tolist() == [5.0, 15.0]
    assert [v.tolist() for v in tree.values()] == [[1.0, 3.0], [2.0, 3.0]]


def test_a_tensor_is_called_one_in_an_error() -> None:
    with pytest.raises(ValueError, match="stands for a Tensor"):
        vmap(tk.sin, out_dims=(0, 1))(tk.ones((2, 3)))


def _row(x: Tensor) -> Tensor:
    z = tk.zeros_like(x)
    z[:1].add_(x[1] * x[0])
    return z


def _view(x: Tensor) -> Tensor:
    z = tk.zeros_like(x)
    view = z[1:]
    z[1] = x[0] * x[1]
    return view


def _unstacked(x: Tensor) -> Tensor:
    z = tk.zeros_like(x)
    tk.unstack(z)[1].add_(x[0] ** 3)
    return z


def _transposed(x: Tensor) -> Tensor:
    z = tk.zeros_like(x)[None]
    z.T[1] = x[:1] ** 2
    return z


_THROUGH_VIEWS: list[Any] = [
    (_row, lambda x: tk.stack([x[1] * x[0], x[0] * 0])),
    (_view, lambda x: (x[0] * x[1])[None]),
    (_unstacked, lambda x: tk.stack([x[0] * 0, x[0] ** 3])),
    (_transposed, lambda x: tk.stack([x[0] * 0, x[0] ** 2])[None]),
]


def _columns(transformed: Any) -> Any:
    return lambda x: vmap(transformed, in_dims=1)(tk.stack([x, x * 2], axis=1))


_OF_FUNCTIONS: dict[str, Any] = {
    "jacrev": jacrev,
    "vmap of jacrev": lambda f: lambda x: vmap(jacrev(f))(tk.stack([x, x * 2])),
    "columns of jacrev": lambda f: _columns(jacrev(f)),
    "columns of linearize": lambda f: _columns(lambda x: linearize(f, x)[1](x)),
    "jacrev of columns": lambda f: jacrev(_columns(f)),
    "jacfwd of jacrev": lambda f: jacfwd(jacrev(f)),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(f)),
    "jacfwd of columns of jacrev": lambda f: jacfwd(_columns(jacrev(f))),
    "jacrev of columns of jacrev": lambda f: jacrev(_columns(jacrev(f))),
    "tape": lambda f: _columns(lambda x: _by_tape(f, x)),
}


def _by_tape(f: Any, x: Tensor) -> Any:
    leaf = (x * 1).requires_grad_()
    out = f(leaf)
    assert out.requires_grad
    return tk.autograd.grad(out, leaf, tk.ones_like(out))[0]


@pytest.mark.parametrize("name", _OF_FUNCTIONS)
@pytest.mark.parametrize(("function", "plain"), _THROUGH_VIEWS)
def test_changes_through_views(function: Any, plain: Any, name: str) -> None:
    """What is returned is recorded, though the change was one of a view of it, or of what it is a view of."""
    x = tk.asarray(np.array([0.5, 0.7]))
    got, want = _OF_FUNCTIONS[name](function)(x), _OF_FUNCTIONS[name](plain)(x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
    assert float(tk.sum(tk.abs(want))) > 0
