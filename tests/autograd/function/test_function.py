"""``Function``: forward and backward by hand, arguments, several results, classes that extend one another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad, gradcheck, gradgradcheck
from tests._functions import Cube, Exponential, SumAndProduct
from tests._gradients import leaf, values_of

# ---- forward and backward


@pytest.mark.parametrize("apply", [Cube.apply, lambda x: Exponential.apply(x, 0.5)])
def test_orders_against_differences(apply: Any) -> None:
    x = leaf([0.5, -1.0, 2.0])
    assert gradcheck(apply, (x,))
    assert gradgradcheck(apply, (x,))


def test_forward_runs_without_recording() -> None:
    seen = []

    class Looks(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            seen.append((tk.is_grad_enabled(), (x * 2.0).requires_grad))
            return Cube.forward(ctx, x)

    out = Looks.apply(leaf(2.0))
    assert seen == [(False, False)]
    assert tk.is_grad_enabled()
    assert out.requires_grad
    assert out.grad_fn.name() == "LooksBackward"
    assert repr(out).endswith("grad_fn=<LooksBackward>)")


def test_backward_runs_in_the_mode_of_the_backward() -> None:
    seen = []

    class Looks(Cube):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(tk.is_grad_enabled())
            return Cube.backward(ctx, *grads)

    x = leaf(2.0)
    y = Looks.apply(x)
    grad(y, x, retain_graph=True)
    with tk.no_grad():
        grad(y, x, create_graph=True)
    assert seen == [False, True]


def test_nothing_is_recorded_where_nothing_needs_it() -> None:
    assert not Cube.apply(tk.tensor(2.0)).requires_grad
    with tk.no_grad():
        assert not Cube.apply(leaf(2.0)).requires_grad
    assert Cube.apply(tk.tensor(2.0)).item() == 8.0


def test_orders_of_a_hand_written_function() -> None:
    x = leaf(2.0)
    (first,) = grad(Cube.apply(x), x, create_graph=True)
    assert first is not None
    (second,) = grad(first, x, create_graph=True)
    assert second is not None
    (third,) = grad(second, x)
    assert (values_of(first), values_of(second), values_of(third)) == (12.0, 12.0, 6.0)


def test_several_outputs() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    total, product = SumAndProduct.apply(x, y)
    assert (total.output_nr, product.output_nr) == (0, 1)
    assert total.grad_fn is product.grad_fn
    (total * 10.0 + product).sum().backward()
    assert values_of(x.grad).tolist() == [13.0, 14.0]
    assert values_of(y.grad).tolist() == [11.0, 12.0]
    assert gradcheck(SumAndProduct.apply, (x, y))
    assert gradgradcheck(SumAndProduct.apply, (x, y))


def test_an_output_without_gradient_brings_zeros() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    total, _ = SumAndProduct.apply(x, y)
    total.sum().backward()
    assert values_of(x.grad).tolist() == [1.0, 1.0]


def test_set_materialize_grads() -> None:
    seen: list[Any] = []

    class Bare(SumAndProduct):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return SumAndProduct.forward(ctx, x, y)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(grads)
            return grads[0], grads[0]

    x = leaf(1.0)
    total, _ = Bare.apply(x, x)
    total.backward()
    assert seen[0][1] is None
    assert seen[0][0].item() == 1.0
    assert values_of(x.grad) == 2.0


def test_without_any_gradient_backward_is_not_called() -> None:
    class Stops(Cube):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None

    class Bare(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.set_materialize_grads(False)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            pytest.fail("no gradient arrived")

    x = leaf(1.0)
    Stops.apply(Bare.apply(x)).backward()
    assert x.grad is None


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@pytest.mark.parametrize("kind", [tuple, list, Pair])
def test_the_kind_of_the_result_is_kept(kind: Any) -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            made = [x * 2.0, x * 3.0]
            return kind(*made) if kind is Pair else kind(made)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2.0 + grads[1] * 3.0

    x = leaf(1.0)
    out = Two.apply(x)
    assert type(out) is kind
    (out[0] + out[1]).backward()
    assert values_of(x.grad) == 5.0


def test_other_results_take_part_without_gradient() -> None:
    seen: list[Any] = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x * 2.0, "name", None, x * 3.0, tk.argmax(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.extend(grads)
            return grads[0] * 2.0 + grads[3] * 3.0

    x = leaf([1.0, 2.0])
    a, name, nothing, b, index = Mixed.apply(x)
    assert (name, nothing) == ("name", None)
    assert not index.requires_grad
    (a + b * 10.0).sum().backward()
    assert values_of(x.grad).tolist() == [32.0, 32.0]
    assert len(seen) == 5
    assert seen[1] is None
    assert seen[2] is None


@pytest.mark.parametrize("result", [None, 5, ()])
def test_a_result_without_tensors_is_passed_on(result: Any) -> None:
    class Plain(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return result

    assert Plain.apply(leaf(1.0)) == result


# ---- arguments


def test_arguments_that_are_no_tensors() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, factor: float, x: Tensor, options: dict[str, float], y: Tensor | None) -> Tensor:
            ctx.factor = factor * options["scale"]
            assert ctx.needs_input_grad == (False, True, False, False)
            return x * ctx.factor

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None, grads[0] * ctx.factor, None, None

    x = leaf([1.0, 2.0])
    Scaled.apply(2.0, x, {"scale": 5.0}, None).sum().backward()
    assert values_of(x.grad).tolist() == [10.0, 10.0]


def test_notes_on_the_context_may_have_names_of_outputs() -> None:
    class Padded(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.shape, ctx.dtype, ctx.device = x.shape, "mine", 3
            return tk.concat([tk.reshape(x, (-1,)), tk.zeros(1, dtype=x.dtype)])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            assert (ctx.shape, ctx.dtype, ctx.device) == ((2, 2), "mine", 3)
            return tk.reshape(grads[0][:-1], ctx.shape)

    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert gradcheck(Padded.apply, (x,))
    assert gradgradcheck(Padded.apply, (x,))


@pytest.mark.parametrize("name", ["shape", "dtype", "device"])
@pytest.mark.parametrize("count", [1, 2])
def test_none_is_a_note_like_any_other(name: str, count: int) -> None:
    class Longer(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, *rest: Tensor) -> Any:
            setattr(ctx, name, None)
            made = tk.concat([x, tk.zeros(1, dtype=x.dtype)])
            return made if count == 1 else (made, x * 2.0)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            assert getattr(ctx, name) is None
            return tuple([grads[0][:-1] + sum(g * 2.0 for g in grads[1:])] * len(ctx.needs_input_grad))

    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    for given in ((x,), (x, y)):
        x.grad = None
        out = Longer.apply(*given)
        first = out if count == 1 else out[0]
        assert first.grad_fn._input_metadata[0].shape == (3,)
        assert getattr(first.grad_fn, name) is None
        (tk.sum(first) + (0.0 if count == 1 else tk.sum(out[1]))).backward()
        assert values_of(x.grad).tolist() == [1.0 + 2.0 * (count - 1)] * 2


def test_what_was_not_noted_is_none_on_a_node_of_several_results() -> None:
    x, y = leaf([1.0, 2.0]), leaf([[3.0, 4.0]])
    node: Any = SumAndProduct.apply(x, y)[0].grad_fn
    assert (node.shape, node.dtype, node.device) == (None, None, None)


def test_the_context_of_a_custom_operator_takes_the_same_notes() -> None:
    @tk.library.custom_op("test_function_notes::padded", mutates_args=())
    def padded(x: Tensor) -> Tensor:
        return tk.concat([tk.reshape(x, (-1,)), tk.zeros(1, dtype=x.dtype)])

    def note(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.shape = inputs[0].shape

    padded.register_autograd(lambda ctx, g: tk.reshape(g[:-1], ctx.shape), setup_context=note)
    assert gradcheck(padded, (leaf([[1.0, 2.0], [3.0, 4.0]]),))


@pytest.mark.parametrize("name", ["outputs", "next_edges", "sequence_nr", "topological_nr", "apply", "name"])
def test_names_that_the_node_needs_are_refused(name: str) -> None:
    class Taken(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            setattr(ctx, name, 5)
            return x * 2.0

    with pytest.raises(RuntimeError, match=rf"\[TakenBackward\] the context has {name} .*ctx\.my_{name}"):
        Taken.apply(leaf(1.0))
    assert tk.is_grad_enabled()


def test_a_private_name_does_not_hide_the_node() -> None:
    class Image(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx._height = -5
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx._height

    middle = leaf(1.0) * 1.0
    assert tk.autograd.grad(Image.apply(middle) * 1.0, middle)[0].item() == -5.0


def test_needs_input_grad_allows_to_skip_work() -> None:
    seen = []

    class Product(SumAndProduct):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            x, y = ctx.saved_tensors
            return (grads[0] + grads[1] * y if ctx.needs_input_grad[0] else None), (
                grads[0] + grads[1] * x if ctx.needs_input_grad[1] else None
            )

    x = leaf(2.0)
    _, product = Product.apply(tk.tensor(5.0, dtype=tk.float64), x)
    product.backward()
    assert seen == [(False, True)]
    assert values_of(x.grad) == 5.0


def test_a_gradient_for_an_input_that_needs_none_is_dropped() -> None:
    x, plain = leaf(2.0), tk.tensor(5.0, dtype=tk.float64)
    _, product = SumAndProduct.apply(plain, x)
    product.backward()
    assert values_of(x.grad) == 5.0
    assert plain.grad is None


def test_one_tensor_given_twice() -> None:
    x = leaf(3.0)
    _, square = SumAndProduct.apply(x, x)
    square.backward()
    assert values_of(x.grad) == 6.0


def test_no_gradient_for_an_input() -> None:
    class First(SumAndProduct):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0], None

    x, y = leaf(1.0), leaf(1.0)
    First.apply(x, y)[0].backward()
    assert values_of(x.grad) == 1.0
    assert y.grad is None


# ---- classes that extend or change others


def test_a_class_between_that_keeps_its_subclasses_to_itself() -> None:
    class Alone(Cube):
        def __init_subclass__(cls) -> None:
            pass

    class Below(Alone):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 100.0

    for function, want in ((Cube, 12.0), (Below, 100.0), (Alone, 12.0), (Below, 100.0)):
        x = leaf(2.0)
        out = function.apply(x)
        out.backward()
        assert values_of(x.grad) == want
        assert out.grad_fn is None or out.grad_fn.name() == f"{function.__name__}Backward"


def test_apply_may_be_extended() -> None:
    class Twice(Cube):
        @classmethod
        def apply(cls, x: Tensor) -> Tensor:
            return super().apply(x) * 2.0

    x = leaf(2.0)
    out = Twice.apply(x)
    out.backward()
    assert out.item() == 16.0
    assert values_of(x.grad) == 24.0


def test_a_forward_that_is_replaced_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changing(Cube):
        pass

    x = leaf(2.0)
    assert Changing.apply(x).item() == 8.0
    monkeypatch.setattr(Changing, "forward", staticmethod(lambda ctx, x: x * 5.0))
    monkeypatch.setattr(Changing, "backward", staticmethod(lambda ctx, g: g * 5.0))
    out = Changing.apply(x)
    out.backward()
    assert (out.item(), values_of(x.grad)) == (10.0, 5.0)


def test_complex_functions() -> None:
    class Squared(Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor) -> Tensor:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (z,) = ctx.saved_tensors
            return grads[0] * tk.conj(z * 2.0)

    z = tk.tensor([1 + 2j, -0.5 + 0.3j], dtype=tk.complex128, requires_grad=True)
    assert gradcheck(Squared.apply, (z,))
    assert gradgradcheck(Squared.apply, (z,))
    (found,) = grad(Squared.apply(z), z, tk.ones(2, dtype=tk.complex128))
    np.testing.assert_allclose(values_of(found), np.conj(2 * np.array([1 + 2j, -0.5 + 0.3j])))
