"""Changes in place of views where other parts of autograd meet them: Functions, custom operators, transforms, modes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.transforms import grad, hessian, jacfwd, jacrev, vjp, vmap

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().tolist()


# ---- indices of tensors, on views


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (([0, 2],), (2, 2)),
        ((slice(None), [1, 0]), (3, 2)),
        ((slice(1, None), [1]), (2, 1)),
        ((slice(None, None, -1),), (3, 2)),
        ((np.array([[True, False], [False, True], [True, True]]),), (4,)),
        ((..., None, 0), (3, 1)),
    ],
    ids=repr,
)
def test_assignment_to_a_view_by_any_index(index: Any, shape: tuple[int, ...]) -> None:
    at = tuple(tk.asarray(i) if isinstance(i, np.ndarray) else i for i in index)
    rng = np.random.default_rng(0)
    x, w = leaf(rng.standard_normal((4, 3))), leaf(rng.standard_normal(shape))

    def function(x: Tensor, w: Tensor) -> Tensor:
        y = x * 2.0
        part = y.T[:, 1:3]
        part[at] = w * w
        part[at] += w
        return y * y + tk.sum(part)

    want = x.detach().numpy() * 2.0
    view = want.T[:, 1:3]
    view[index] = w.detach().numpy() ** 2
    view[index] += w.detach().numpy()
    np.testing.assert_allclose(values_of(function(x, w)), want * want + view.sum())
    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))


# ---- out=


def test_out_takes_no_part_in_a_graph() -> None:
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0]) * 1.0
    into = tk.zeros(4, dtype=tk.float64)
    text = "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires"
    for arguments, out in (((x, 1.0), into[:2]), ((x.detach(), 1.0), y), ((x.detach(), 1.0), y[:]), ((y, x), x)):
        before = out.tolist()
        with pytest.raises(RuntimeError, match=text):
            tk.ops.tk.add.out(*arguments, out=out)
        assert out.tolist() == before
    with tk.no_grad():
        assert tk.ops.tk.add.out(x, 1.0, out=into[:2]).tolist() == [2.0, 3.0]
        tk.ops.tk.add.out(x, 1.0, out=y[:])
    assert into.tolist() == [2.0, 3.0, 0.0, 0.0]
    assert (into._version, y._version) == (1, 1)
    assert y.tolist() == [2.0, 3.0]


# ---- Functions and custom operators


class Square(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        x.mul_(x.clone())
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2.0 * ctx.saved_tensors[0]


def test_a_function_that_changes_a_view() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    v, u = y[1:], y[:2]
    assert Square.apply(v) is v
    assert y.tolist() == [1.0, 4.0, 9.0]
    assert [t.grad_fn.name() for t in (y, v, u)] == ["CopySlices", "AsStridedBackward", "AsStridedBackward"]
    assert y.grad_fn.next_functions[1][0].name() == "SquareBackward"
    (y.sum() + u.sum()).backward()
    assert values_of(x.grad) == [2.0, 8.0, 6.0]


def test_a_function_of_several_views_that_changes_one() -> None:
    class AddInto(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            x.add_(y)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            return g, g

    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    head, tail = y[:2], y[1:]
    AddInto.apply(head, tail)
    assert y.tolist() == [3.0, 5.0, 3.0]
    tail.sum().backward()
    assert values_of(x.grad) == [0.0, 1.0, 2.0]


def test_a_function_that_changes_a_base() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    v = y[1:]
    assert Square.apply(y) is y
    assert y.grad_fn.name() == "SquareBackward"
    v.sum().backward()
    assert values_of(x.grad) == [0.0, 4.0, 6.0]
    with pytest.raises(RuntimeError, match=LEAF):
        Square.apply(leaf([1.0]))
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        Square.apply(leaf([1.0, 2.0])[:1])


class Tail(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x[1:]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return tk.concat([g[:1] * 0.0, g * 10.0])


class Same(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 10.0


@pytest.mark.parametrize("function", [Tail, Same])
def test_a_view_out_of_a_function_is_not_changed(function: type[tk.autograd.Function]) -> None:
    """The Function's own gradient would be bypassed without a word."""
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    out = function.apply(y)
    part = out[:1]
    assert tk.shares_storage(out, y)
    text = "Output 0 of .* is a view and is being modified inplace. This view was created inside a custom Function"
    for change in (lambda: out.add_(1.0), lambda: part.add_(1.0), lambda: out.__setitem__(0, 1.0)):
        with pytest.raises(RuntimeError, match=text):
            change()
    assert y._version == 0
    (out.sum() + part.sum()).backward(retain_graph=True)
    assert values_of(x.grad)[1] == (20.0 if function is Tail else 10.0)
    used = out.sum()
    y.mul_(2.0)
    text = "its base or another view of its base has been modified inplace. This view was created inside a custom"
    for use in (lambda: out * 2.0, lambda: part * 2.0, lambda: out.grad_fn, lambda: out.is_leaf):
        with pytest.raises(RuntimeError, match=text):
            use()
    assert "grad_fn=<Invalid>" in repr(out)
    used.backward()  # what was computed before is as it was
    with tk.no_grad():
        out.add_(1.0)
    assert out.detach().tolist() == y.detach().tolist()[3 - out.size :]


def test_a_window_on_memory_that_a_function_made() -> None:
    class Made(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return (x * 2.0)[1:]

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return tk.concat([g[:1] * 0.0, g * 2.0])

    x = leaf([1.0, 2.0, 3.0])
    out = Made.apply(x)
    out[:1].mul_(5.0)
    assert out.tolist() == [20.0, 6.0]
    out.sum().backward()
    assert values_of(x.grad) == [0.0, 10.0, 2.0]


def test_a_custom_operator_that_changes_a_view() -> None:
    @tk.library.custom_op("test_views::scale_", mutates_args=("x",))
    def scale_(x: Tensor, k: float) -> None:
        x.mul_(k)

    scale_.register_autograd(
        lambda ctx, g: (g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
    )
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    v = y[1:]
    scale_(v, 5.0)
    assert y.tolist() == [1.0, 10.0, 15.0]
    assert y.grad_fn.name() == "CopySlices"
    (y.sum() + v.sum()).backward()
    assert values_of(x.grad) == [1.0, 10.0, 10.0]
    b = tk.zeros(2, dtype=tk.float64)
    c = b[:1]
    b += x[:2]
    scale_(c, 2.0)
    assert c.requires_grad
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        scale_(x[:1], 2.0)
    with pytest.raises(RuntimeError, match=LEAF):
        scale_(x, 2.0)
    assert x.tolist() == [1.0, 2.0, 3.0]


# ---- transforms


def _changed(x: Tensor) -> Tensor:
    y = x * 2.0
    part = y[1:]
    part.mul_(x[0])
    q = part.clone()
    y[0] += q[0] * q[1]
    v = y[:2]
    v[[0, 1]] = v.clone() ** 2
    q = y.clone()
    y[:, None][1:, [0]] = q[2:3, None] * q[1:2]
    return (y * y).sum()


def _unchanged(x: Tensor) -> Tensor:
    a, b, c = 2 * x[0], 2 * x[1] * x[0], 2 * x[2] * x[0]
    a = (a + b * c) ** 2
    b = b * b * c
    return a**2 + b**2 + b**2


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        hessian,
        lambda f: jacrev(jacrev(f)),
        lambda f: jacrev(jacfwd(f)),
        lambda f: grad(lambda x: grad(f)(x).sum()),
        lambda f: lambda x: vjp(f, x)[1](tk.tensor(2.0, dtype=tk.float64)),
    ],
    ids=["grad", "hessian", "jacrev of jacrev", "jacrev of jacfwd", "grad of grad", "vjp"],
)
def test_transforms(transform: Callable[..., Any]) -> None:
    x = tk.tensor([1.0, 2.0, 3.0], dtype=tk.float64)
    ours, want = transform(_changed)(x), transform(_unchanged)(x)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (ours, want)], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("transform", [grad, hessian])
def test_transforms_of_a_batch(transform: Callable[..., Any]) -> None:
    xs = tk.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]], dtype=tk.float64)
    np.testing.assert_allclose(
        vmap(transform(_changed))(xs).numpy(), vmap(transform(_unchanged))(xs).numpy(), rtol=1e-12
    )


def test_a_batch_along_another_dimension_is_recorded() -> None:
    """vmap changes a permuted view of the whole batch; that the whole is recorded is what counts."""
    x = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = x * 1.0
    w = leaf([2.0, 3.0, 4.0])
    vmap(lambda column: column.mul_(w), in_dims=1)(y)
    assert y.tolist() == [[2.0, 4.0], [9.0, 12.0], [20.0, 24.0]]
    y.sum().backward()
    assert values_of(x.grad) == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
    assert values_of(w.grad) == [3.0, 7.0, 11.0]


# ---- modes and threads


def test_under_inference_mode() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1.0
    v = y[:1]
    with tk.inference_mode():
        v.mul_(2.0)
        inside = y[1:]
        made = tk.zeros(2, dtype=tk.float64)
    assert y.tolist() == [2.0, 2.0]
    assert v.grad_fn.name() == "AsStridedBackward"
    with pytest.raises(RuntimeError, match="is being modified inplace with grad mode enabled"):
        inside.mul_(2.0)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        made[:1].add_(x[:1])


def test_anomaly_mode_names_who_changed_a_view() -> None:
    with tk.autograd.anomaly_mode():
        y = leaf([1.0, 2.0, 3.0]) * 1.0
        tail = y[1:]
        z = tail * tail
        y[0].exp_()
        with pytest.raises(
            RuntimeError, match=r"saved by tk::multiply at .*The last change was by tk::exp_ at .*y\[0\]"
        ):
            z.sum().backward()


def test_subclasses() -> None:
    class Own(tk.Tensor):
        pass

    x = leaf([1.0, 2.0])
    y = (x * 1.0).as_subclass(Own)
    y[:1].mul_(3.0)
    y[1] += y[0]
    assert y.tolist() == [3.0, 5.0]
    y.sum().backward()
    assert values_of(x.grad) == [6.0, 1.0]


def test_threads_ask_for_one_history() -> None:
    x = leaf(np.ones(100))
    y = x * 1.0
    views = [y[i : i + 10] for i in range(0, 100, 10)]
    y.mul_(2.0)
    barrier = threading.Barrier(10)
    errors: list[BaseException] = []

    def work(view: Tensor) -> None:
        try:
            barrier.wait()
            for each in views:
                (each.sum() + view.sum()).backward(retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert values_of(x.grad) == [40.0] * 100


def test_saved_tensors_may_be_changed_in_the_context_for_it() -> None:
    x = leaf([1.0, 2.0])
    with tk.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1.0
        v = y[:1]
        z = v * v + (y * y).sum()
        v.mul_(10.0)
        (z.sum() + v.sum()).backward()
    assert values_of(x.grad) == [2.0 + 2.0 + 10.0, 4.0]
