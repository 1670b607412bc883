"""tenkey.library.custom_op: gradients by hand, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.autograd.gradcheck.gradcheck import GradcheckError
from tenkey.dispatch.errors import (
    RegistrationError,
)
from tenkey.library import Library, register_autograd
from tests._custom_op import NS, Tensor, gradients, leaf, make, square_with_gradient
from tests._registry import registry_as_before


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


class TestGradient:
    def test_without_setup_context(self) -> None:
        op = make("double", lambda x: tk.asarray(x.detach().numpy() * 2), "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 2)
        x = leaf(1.0, 2.0)
        out = op(x)
        assert out.requires_grad
        assert out.grad_fn.name() == "DoubleBackward"
        tk.sum(out).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0]

    def test_gradcheck_to_the_second_order(self) -> None:
        op = square_with_gradient()
        x = leaf(0.5, -1.5, 2.0)
        assert gradcheck(op, (x,))
        assert gradgradcheck(op, (x,))
        (first,) = tk.autograd.grad(tk.sum(op(x) * op(x)), x, create_graph=True)  # the derivative of x**4
        assert first is not None
        np.testing.assert_allclose(first.detach().numpy(), 4 * x.detach().numpy() ** 3)
        (second,) = tk.autograd.grad(tk.sum(first), x)
        assert second is not None
        np.testing.assert_allclose(second.numpy(), 12 * x.detach().numpy() ** 2)

    def test_gradcheck_rejects_a_wrong_gradient(self) -> None:
        op = make("wrong", lambda x: x * x, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 3)
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            gradcheck(op, (leaf(1.0, 2.0),))

    def test_inputs_have_their_defaults(self) -> None:
        seen: list[Any] = []

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append((inputs[1:], output.tolist()))

        op = make("defaults", lambda x, n, f: x * n * f, "(Tensor x, int n=3, float f=0.5) -> Tensor")
        op.register_autograd(lambda ctx, g: (g * 1.5, None, None), setup_context=keep)
        x = leaf(2.0)
        assert gradients(op(x), x) == [[1.5]]
        assert seen == [((3, 0.5), [3.0])]

    def test_keyword_only_arguments(self) -> None:
        def keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
            assert len(inputs) == 1
            ctx.factor = keyword_only_inputs["factor"]

        op = make("keyword", lambda x, *, factor: x * factor, "(Tensor x, *, float factor=2.0) -> Tensor")
        op.register_autograd(lambda ctx, g: g * ctx.factor, setup_context=keep)
        x = leaf(1.0, 2.0)
        assert gradients(op(x), x) == [[2.0, 2.0]]
        assert gradients(op(x, factor=5), x) == [[5.0, 5.0]]

    def test_keyword_only_tensors_are_refused(self) -> None:
        op = make("keyword_tensor", lambda x, *, w: x * w, "(Tensor x, *, Tensor w) -> Tensor")
        with pytest.raises(RegistrationError, match=r"keyword-only tensor arguments w.*positional"):
            op.register_autograd(lambda ctx, g: g)
        assert "Backward" not in op.operator.facets

    def test_lists_of_tensors(self) -> None:
        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs[0], inputs[1])

        def backward(ctx: Any, g: Tensor) -> Any:
            *xs, w = ctx.saved_tensors
            total = xs[0]
            for x in xs[1:]:
                total = total + x
            return [g * w for _ in xs], g * total

        def forward(xs: list[Tensor], w: Tensor) -> Tensor:
            total = xs[0]
            for x in xs[1:]:
                total = total + x
            return total * w

        op = make("lists", forward, "(Tensor[] xs, Tensor w) -> Tensor")
        op.register_autograd(backward, setup_context=keep)
        a, b, w = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
        assert gradients(op([a, b], w), a, b, w) == [[5.0, 6.0], [5.0, 6.0], [4.0, 6.0]]
        assert gradcheck(lambda a, b, w: op([a, b], w), (a, b, w))
        assert gradgradcheck(lambda a, b, w: op([a, b], w), (a, b, w))
        plain = tk.asarray([7.0, 7.0], dtype=tk.float64)
        assert gradients(op((plain, b), plain), b) == [[7.0, 7.0]]

    def test_lists_without_a_gradient(self) -> None:
        op = make("list_none", lambda xs: xs[0] + xs[1], "(Tensor[] xs) -> Tensor")
        op.register_autograd(lambda ctx, g: None)
        x = leaf(1.0)
        assert gradients(op([x, x]), x, allow_unused=True) == [None]
        op.register_autograd(lambda ctx, g: [g * 2, None])
        assert gradients(op([x, x]), x) == [[2.0]]

    @pytest.mark.parametrize(
        ("result", "text"), [(lambda g: [g], "returned 1 gradients"), (lambda g: g, "returned Tensor")]
    )
    def test_lists_of_another_length(self, result: Callable[[Any], Any], text: str) -> None:
        op = make("list_wrong", lambda xs: xs[0] + xs[1], "(Tensor[] xs) -> Tensor")
        op.register_autograd(lambda ctx, g: result(g))
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::list_wrong\].*{text} for the argument 'xs'.*a list of 2"):
            gradients(op([x, x]), x)

    def test_several_results(self) -> None:
        def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
            return g * 2 + h * 3

        op = make("results", lambda x: (x * 2, x * 3), "(Tensor x) -> (Tensor, Tensor)")
        op.register_autograd(backward)
        x = leaf(1.0, 2.0)
        first, second = op(x)
        assert gradients(first + second, x) == [[5.0, 5.0]]
        assert gradients(op(x)[0], x) == [[2.0, 2.0]]  # the other one's gradient arrives as zeros
        assert gradients(op(x)[1], x) == [[3.0, 3.0]]

    def test_undefined_gradients_can_be_none(self) -> None:
        seen: list[bool] = []

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.set_materialize_grads(False)

        def backward(ctx: Any, g: Tensor | None, h: Tensor | None) -> Any:
            seen.append(g is None)
            return h

        op = make("undefined", lambda x: (x * 2, x * 1), "(Tensor x) -> (Tensor, Tensor)")
        op.register_autograd(backward, setup_context=keep)
        x = leaf(1.0)
        assert gradients(op(x)[1], x) == [[1.0]]
        assert seen == [True]

    def test_integer_results_carry_none(self) -> None:
        op = make("integers", lambda x: (x * 2, tk.asarray([1, 2])), "(Tensor x) -> (Tensor, Tensor)")
        op.register_autograd(lambda ctx, g, h: g * 2)
        x = leaf(1.0)
        values, indices = op(x)
        assert values.requires_grad
        assert not indices.requires_grad
        assert gradients(values, x) == [[2.0]]

    def test_optional_tensors(self) -> None:
        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        def backward(ctx: Any, g: Tensor) -> Any:
            x, w = ctx.saved_tensors
            return (g, None) if w is None else (g * w, g * x)

        op = make("optional", lambda x, w: x + 0 if w is None else x * w, "(Tensor x, Tensor? w=None) -> Tensor")
        op.register_autograd(backward, setup_context=keep)
        x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        assert gradients(op(x), x) == [[1.0, 1.0]]
        assert gradients(op(x, w), x, w) == [[3.0, 4.0], [1.0, 2.0]]

    def test_needs_input_grad(self) -> None:
        seen: list[Any] = []

        def backward(ctx: Any, g: Tensor) -> Any:
            seen.append(ctx.needs_input_grad)
            return g, g, None

        op = make("needs", lambda x, y, n: x + y, "(Tensor x, Tensor y, int n) -> Tensor")
        op.register_autograd(backward)
        x, y = leaf(1.0), tk.asarray([1.0], dtype=tk.float64)
        gradients(op(x, y, 3), x)
        gradients(op(y, x, 3), x)
        assert seen == [(True, False, False), (False, True, False)]

    def test_saved_tensors_are_checked(self) -> None:
        op = square_with_gradient()
        x = leaf(1.0, 2.0)
        y = x * 1
        out = op(y)
        with tk.no_grad():
            y.detach().add_(1)
        with pytest.raises(RuntimeError, match=r"modified by an in-?place operation"):
            gradients(out, x)

    def test_second_backward_needs_retain_graph(self) -> None:
        op = square_with_gradient()
        x = leaf(3.0)
        out = op(x)
        assert gradients(out, x, retain_graph=True) == [[6.0]]
        assert gradients(out, x) == [[6.0]]
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            gradients(out, x)

    def test_no_grad_does_not_record(self) -> None:
        op = square_with_gradient()
        x = leaf(3.0)
        with tk.no_grad():
            assert not op(x).requires_grad
        assert not op(x.detach()).requires_grad

    def test_the_function_itself_is_not_recorded(self) -> None:
        op = make("silent", lambda x: x * x * x, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 100)
        x = leaf(1.0, 2.0)
        assert gradients(op(x), x) == [[100.0, 100.0]]

    def test_handle_takes_it_back(self) -> None:
        op = make("handle", lambda x: x * 1, "(Tensor x) -> Tensor")
        first = op.register_autograd(lambda ctx, g: g * 2)
        second = op.register_autograd(lambda ctx, g: g * 3)  # replaces the first
        x = leaf(1.0)
        first.remove()
        assert gradients(op(x), x) == [[3.0]]
        second.remove()
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            gradients(op(x), x)

    def test_a_failed_registration_leaves_the_old_gradient(self) -> None:
        op = make("careful", lambda x: x * 1, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g * 2)
        with pytest.raises(RegistrationError, match=rf"\[{NS}::careful\] backward is a function, got None"):
            op.register_autograd(None)  # type: ignore[arg-type]
        with pytest.raises(RegistrationError, match="setup_context is a function, got 3"):
            op.register_autograd(lambda ctx, g: g, setup_context=3)  # type: ignore[arg-type]
        x = leaf(1.0)
        assert gradients(op(x), x) == [[2.0]]

    def test_missing_formula(self) -> None:
        op = make("formula", lambda x: x * x, "(Tensor x) -> Tensor")
        x = leaf(1.0)
        with pytest.raises(NotImplementedError, match="derivative is not implemented") as caught:
            tk.sum(op(x)).backward()
        assert f"tk.library.register_autograd('{NS}::formula', backward)" in str(caught.value)
        assert x.grad is None

    def test_not_differentiable(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("constant(Tensor x) -> Tensor", differentiable=False)
            library.impl("constant", lambda x: x * x, "default")
            x = leaf(3.0)
            out = tk.ops.custom_op_test.constant(x)
            assert out.tolist() == [9.0]
            assert not out.requires_grad


class TestRefusedInTheGradientPath:
    def test_number_of_gradients(self) -> None:
        op = make("count", lambda x, y: x * y, "(Tensor x, Tensor y) -> Tensor")
        op.register_autograd(lambda ctx, g: g)
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::count\] its backward returned 1 gradients, expected 2.*x, y"):
            gradients(op(x, x), x)

    def test_shape_of_a_gradient(self) -> None:
        op = make("shape", lambda x: x * 1, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: tk.ones(5, dtype=tk.float64))
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match=r"ShapeBackward.*invalid gradient at index 0 - got \(5,\)"):
            gradients(op(x), x)
        assert x.grad is None

    def test_a_gradient_is_a_tensor(self) -> None:
        op = make("kind", lambda x: x * 1, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: 3)
        x = leaf(1.0)
        with pytest.raises(TypeError, match=r"KindBackward.*int.*a gradient is a Tensor or None"):
            gradients(op(x), x)

    @pytest.mark.parametrize("which", [0, 1])
    def test_result_is_an_argument(self, which: int) -> None:
        op = make("alias", lambda x, y: (x, y)[which], "(Tensor x, Tensor y) -> Tensor")
        op.register_autograd(lambda ctx, g: (g, g))
        x, y = leaf(1.0), tk.asarray([2.0], dtype=tk.float64)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::alias\] returned one of its arguments.*clone\(\)"):
            op(x, y)
        assert not y.requires_grad
        assert x.is_leaf

    def test_result_is_an_item_of_a_list(self) -> None:
        op = make("alias_list", lambda xs: xs[1], "(Tensor[] xs) -> Tensor")
        op.register_autograd(lambda ctx, g: [None, g])
        y = tk.asarray([2.0], dtype=tk.float64)
        with pytest.raises(RuntimeError, match="returned one of its arguments"):
            op([leaf(1.0), y])
        assert not y.requires_grad

    def test_result_is_a_view_of_an_argument(self) -> None:
        op = make("view", lambda x: x[1:], "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::view\] returned a view of one of its arguments.*clone\(\)"):
            op(leaf(1.0, 2.0))
        through_numpy = make("numpy_view", lambda x: tk.asarray(x.detach().numpy()[:1]), "(Tensor x) -> Tensor")
        through_numpy.register_autograd(lambda ctx, g: g)
        with pytest.raises(RuntimeError, match="returned a view of one of its arguments"):
            through_numpy(leaf(1.0, 2.0))

    def test_views_of_something_new_are_fine(self) -> None:
        op = make("new_view", lambda x: tk.reshape(x * 2, (2, 1)), "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: tk.reshape(g * 2, (2,)))
        x = leaf(1.0, 2.0)
        assert gradients(op(x), x) == [[2.0, 2.0]]

    def test_a_tensor_that_was_there_before(self) -> None:
        parameter = leaf(1.0)
        op = make("closure", lambda x: parameter, "(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: g)
        with pytest.raises(RuntimeError, match="a tensor that was there before the call"):
            op(leaf(1.0))

    def test_one_tensor_as_two_results(self) -> None:
        def twice(x: Tensor) -> tuple[Tensor, Tensor]:
            y = x * 2
            return y, y

        op = make("twice", twice, "(Tensor x) -> (Tensor, Tensor)")
        op.register_autograd(lambda ctx, g, h: g + h)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::twice\] returned one tensor as two of its results"):
            op(leaf(1.0))


def test_gradient_of_a_pointwise_operator_can_be_written_by_hand() -> None:
    op = tk.library.pointwise(f"{NS}::pw(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x)
    x = leaf(3.0)
    assert gradients(op(x), x) == [[6.0]]
    handle = register_autograd(f"{NS}::pw", lambda ctx, g: g * 7)
    assert gradients(op(x), x) == [[7.0]]
    handle.remove()
    assert gradients(op(x), x) == [[6.0]]
    with register_autograd(f"{NS}::pw", lambda ctx, g: g * 8):
        assert gradients(op(x), x) == [[8.0]]
    assert gradients(op(x), x) == [[6.0]]
