"""``Function``: results that are inputs or views, and what the context saves."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, gradcheck
from tests._functions import Cube, Exponential
from tests._gradients import leaf, values_of

# ---- results that are inputs


def test_an_input_that_is_returned_gets_a_history_of_its_own() -> None:
    class Same(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 10.0

    x = leaf([1.0, 2.0])
    y = Same.apply(x)
    assert y is not x
    assert x.is_leaf
    assert tk.shares_storage(x, y)
    y.sum().backward()
    assert values_of(x.grad).tolist() == [10.0, 10.0]


def test_a_tensor_from_outside_that_is_returned_keeps_its_history() -> None:
    outside = leaf([1.0, 2.0])

    class Foreign(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return outside

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 3.0

    x = leaf([1.0, 1.0])
    Foreign.apply(x).sum().backward()
    assert outside.is_leaf
    assert outside.grad is None
    assert values_of(x.grad).tolist() == [3.0, 3.0]


def test_a_view_of_an_input() -> None:
    class Flat(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.shape = x.shape
            return tk.reshape(x, (-1,))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return tk.reshape(grads[0], ctx.shape)

    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert gradcheck(Flat.apply, (x,))


def test_mark_non_differentiable() -> None:
    class WithSigns(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            signs = tk.sign(x)
            ctx.mark_non_differentiable(signs, x)
            ctx.save_for_backward(signs)
            return x * signs, signs, x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (signs,) = ctx.saved_tensors
            assert grads[1].tolist() == [0.0, 0.0]
            return grads[0] * signs

    x = leaf([-1.0, 2.0])
    size, signs, same = WithSigns.apply(x)
    assert size.requires_grad
    assert not signs.requires_grad
    assert not same.requires_grad
    assert x.requires_grad
    size.sum().backward()
    assert values_of(x.grad).tolist() == [-1.0, 1.0]


class Doubled(Function):
    """Doubles its input in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2.0)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2.0


def test_mark_dirty() -> None:
    x = leaf([1.0, 2.0])
    y = x * 5.0
    z = Doubled.apply(y)
    assert z is y
    assert z.grad_fn.name() == "DoubledBackward"
    assert z.tolist() == [10.0, 20.0]
    z.sum().backward()
    assert values_of(x.grad).tolist() == [10.0, 10.0]
    with pytest.raises(RuntimeError, match=r"\[DoubledBackward\] a leaf Variable that requires grad is being used"):
        Doubled.apply(leaf([1.0]))


# ---- saved tensors


def test_save_for_backward_takes_tensors_and_none() -> None:
    class Saves(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x, None)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return grads[0] * x

    x = leaf(3.0)
    Saves.apply(x).backward()
    assert values_of(x.grad) == 3.0

    class Wrong(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x, 5.0)
            return x * 1.0

    with pytest.raises(TypeError, match=r"\[WrongBackward\] save_for_backward takes tensors and None, got float.*ctx"):
        Wrong.apply(x)
    assert tk.is_grad_enabled()


def test_freed_saved_tensors() -> None:
    x = leaf(2.0)
    y = Cube.apply(x)
    node = y.grad_fn
    assert node.saved_tensors[0] is x
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match=r"\[CubeBackward\].*the graph a second time.*retain_graph=True"):
        y.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = node.saved_tensors
    assert values_of(x.grad) == 24.0


def test_a_modified_saved_tensor_is_found() -> None:
    x = leaf(2.0)
    y = Cube.apply(x)
    with tk.no_grad():
        x.add_(1.0)
    with pytest.raises(RuntimeError, match=r"\[CubeBackward\].*by an inplace operation.*saved_tensors\[0\].*version 1"):
        y.backward()
    assert x.grad is None


def test_a_saved_output_makes_no_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        y = Exponential.apply(leaf([1.0]), 2.0)
        out, node = weakref.ref(y), weakref.ref(y.grad_fn)
        del y
        assert out() is None
        assert node() is None
    finally:
        gc.enable()


def test_a_call_that_needs_no_gradient_keeps_nothing() -> None:
    gc.collect()
    gc.disable()
    try:
        x = tk.tensor([1.0])
        watched = weakref.ref(x)
        y = Cube.apply(x)
        del x
        assert watched() is None
        assert y.item() == 1.0
    finally:
        gc.enable()


# ---- notes, and tensors that are changed


@pytest.mark.parametrize("name", ["shape", "dtype", "device"])
def test_a_note_is_there_in_backward(name: str) -> None:
    class Noting(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            setattr(ctx, name, "mine")
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            assert getattr(ctx, name) == "mine"
            return g * 2.0

    x = leaf([1.0, 2.0])
    Noting.apply(x).backward(tk.ones(2, dtype=x.dtype))
    assert values_of(x.grad).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("change", [lambda x: x.add_(1.0), lambda x: x[:1].add_(1.0)])
def test_a_modified_tensor_that_had_no_storage_is_found(change: Any) -> None:
    x = leaf([1.0, 2.0])
    y = x * 1.0
    out = Cube.apply(y)
    with tk.no_grad():
        change(y)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: the saved tensor saved_tensors\[0\]"):
        out.backward(tk.ones(2, dtype=x.dtype))


# ---- what was computed in forward


class Squared(tk.autograd.Function):
    """exp(x) ** 2, with an intermediate result saved: right to first order alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        inner = tk.exp(x)
        ctx.save_for_backward(inner, x, tk.asarray([1, 2]))
        return inner * inner

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        inner, _, _ = ctx.saved_tensors
        return g * 2.0 * inner * inner


def test_a_saved_intermediate_refuses_a_second_order() -> None:
    x = tk.tensor(0.5, requires_grad=True)
    y = Squared.apply(x)
    (first,) = tk.autograd.grad(y, x, create_graph=True)
    assert first.item() == pytest.approx(2 * math.exp(1.0), rel=1e-6)
    with pytest.raises(RuntimeError, match=r"\[SquaredBackward\] double backward reached saved_tensors\[0\].*interm"):
        tk.autograd.grad(first, x)
    Squared.apply(x).backward()  # the first order is as before
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(2 * math.exp(1.0), rel=1e-6)


def test_an_intermediate_as_a_further_output_has_all_orders() -> None:
    class Right(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            inner = tk.exp(x)
            ctx.save_for_backward(inner)
            return inner * inner, inner

        @staticmethod
        def backward(ctx: Any, g: Tensor, g_inner: Tensor) -> Tensor:
            (inner,) = ctx.saved_tensors
            return g * 2.0 * inner * inner + g_inner * inner

    x = tk.tensor(0.5, dtype=tk.float64, requires_grad=True)
    assert tk.autograd.gradgradcheck(lambda t: Right.apply(t)[0], (x,))


def test_an_intermediate_in_setup_context_of_a_custom_operator() -> None:
    @tk.library.custom_op("function_tests::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x * x

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0] * 2.0)

    square.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0], setup_context=setup)
    x = tk.tensor(3.0, requires_grad=True)
    (first,) = tk.autograd.grad(square(x), x, create_graph=True)
    assert first.item() == 6.0
    first.backward()  # setup_context of an operator is recorded
    assert x.grad is not None
    assert x.grad.item() == 2.0


def test_an_output_on_the_context() -> None:
    class Kept(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = tk.exp(x)
            ctx.result = y
            ctx.several = {"all": [y, x], "n": (1, y)}
            ctx.number = 3
            return y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            assert ctx.number == 3
            assert ctx.several["all"][0].shape == ctx.several["n"][1].shape == ctx.result.shape
            with pytest.raises(AttributeError, match=r"\[KeptBackward\] the context has no attribute 'other'"):
                ctx.other  # noqa: B018  # reading it is what raises
            result: Tensor = g * ctx.result
            return result

    x = tk.tensor([0.0, 1.0], dtype=tk.float64, requires_grad=True)
    assert tk.autograd.gradcheck(Kept.apply, (x,))
    assert tk.autograd.gradgradcheck(Kept.apply, (x,))
    gc.collect()
    gc.disable()
    try:
        y = Kept.apply(x)
        references = [weakref.ref(y), weakref.ref(y.grad_fn)]
        del y
        assert [r() for r in references] == [None, None]
    finally:
        gc.enable()


def test_an_output_on_the_context_that_was_changed() -> None:
    class Kept(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.result = tk.exp(x)
            return ctx.result  # type: ignore[no-any-return]

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.result  # type: ignore[no-any-return]

    y = Kept.apply(tk.tensor(1.0, requires_grad=True))
    with tk.no_grad():
        y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
