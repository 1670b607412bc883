"""``Function``: backwards that may run once only, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad, once_differentiable
from tenkey.dispatch.local_state import current_state, get_state
from tests._functions import Cube, Exponential, SumAndProduct
from tests._gradients import leaf, values_of

# ---- once_differentiable


class OnceSquare(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        assert not tk.is_grad_enabled()
        (x,) = ctx.saved_tensors
        return grads[0] * 2.0 * x


class OnceThroughContext(Function):
    """Nothing is saved as a tensor: only the inputs of forward tell that the result depends on something."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x.detach()
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2.0 * ctx.x


@pytest.mark.parametrize("function", [OnceSquare, OnceThroughContext])
def test_once_differentiable_guards_the_second_order(function: type[Function]) -> None:
    x = leaf([1.0, 2.0])
    (first,) = grad(function.apply(x).sum(), x)
    assert values_of(first).tolist() == [2.0, 4.0]
    # the gradient of the output is a constant: only the inputs of forward need gradients
    (first,) = grad(function.apply(x), x, tk.ones(2, dtype=tk.float64), create_graph=True)
    assert first is not None
    assert values_of(first).tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match=r"\[Once\w+Backward\] trying to differentiate twice.*@once_differentiable"):
        grad(first.sum(), x)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad(first.sum(), x, allow_unused=True)
    assert tk.is_grad_enabled()


def test_once_differentiable_guards_the_gradient_of_the_output() -> None:
    x, seed = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    (first,) = grad(OnceSquare.apply(x), x, seed, create_graph=True)
    assert first is not None
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad(first.sum(), seed, allow_unused=True)


def test_once_differentiable_with_several_gradients() -> None:
    class Once(SumAndProduct):
        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Any) -> Any:
            x, _ = ctx.saved_tensors
            return None, (grads[0] + grads[1]) * tk.sum(x)

    x, y = leaf([1.0, 2.0]), leaf([[3.0, 4.0]])
    total, product = Once.apply(x, y)
    by_x, by_y = grad((total + product).sum(), [x, y], create_graph=True, allow_unused=True)
    assert by_x is None
    assert by_y is not None
    with pytest.raises(RuntimeError, match="differentiate twice"):
        by_y.sum().backward()


# ---- what is refused


def test_a_wrong_number_of_gradients() -> None:
    class TooFew(SumAndProduct):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    class TooMany(SumAndProduct):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0], grads[0], grads[0]

    class NoneTooMany(SumAndProduct):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0], grads[0], None

    x, y = leaf(1.0), leaf(2.0)
    text = r"returned an incorrect number of gradients \(expected 2, got {}\): one for each argument of forward"
    with pytest.raises(RuntimeError, match=r"\[TooFewBackward\] " + text.format(1)):
        TooFew.apply(x, y)[0].backward()
    with pytest.raises(RuntimeError, match=r"\[TooManyBackward\] " + text.format(3)):
        TooMany.apply(x, y)[0].backward()
    assert x.grad is None
    NoneTooMany.apply(x, y)[0].backward()  # more None than arguments do no harm
    assert values_of(x.grad) == 1.0


def test_a_gradient_for_an_argument_that_is_no_tensor() -> None:
    class Wrong(Exponential):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0], grads[0]

    x = leaf(1.0)
    with pytest.raises(
        RuntimeError, match=r"\[WrongBackward\] returned a gradient different than None at position 2, but.*argument 1"
    ):
        Wrong.apply(x, 2.0).backward()
    assert x.grad is None


def test_a_dirty_argument_is_returned() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    with pytest.raises(
        RuntimeError, match=r"\[WrongBackward\] Some elements marked as dirty .* not returned as output"
    ):
        Wrong.apply(leaf(1.0) * 1.0)


def test_backward_and_vjp_are_one() -> None:
    class Both(Exponential):
        @staticmethod
        def vjp(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(leaf(1.0))


def test_a_function_is_not_instantiated() -> None:
    with pytest.raises(TypeError, match=r"\[Function\] a Function is not instantiated: call Cube\.apply\(\.\.\.\)"):
        Cube()


def test_missing_parts() -> None:
    class OnlyForward(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2.0

    x = leaf(1.0)
    y = OnlyForward.apply(x)
    with pytest.raises(NotImplementedError, match=r"\[OnlyForwardBackward\] has no backward: define a staticmethod"):
        y.backward()

    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match=r"\[Function\] define a staticmethod forward"):
        Nothing.apply(x)
    assert x.grad is None
    assert tk.is_grad_enabled()


def test_vjp_is_another_name_for_backward() -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 7.0

        @staticmethod
        def vjp(ctx: Any, g: Tensor) -> Tensor:
            return g * 7.0

    x = leaf(1.0)
    Named.apply(x).backward()
    assert values_of(x.grad) == 7.0


def test_an_error_in_forward_leaves_the_mode() -> None:
    class Fails(Cube):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            raise LookupError("deliberate")

    with pytest.raises(LookupError, match="deliberate"):
        Fails.apply(leaf(1.0))
    assert tk.is_grad_enabled()


def test_the_state_of_a_mode_is_as_before() -> None:
    class Noted(tk.dispatch.DispatchMode):
        seen: list[str] = []  # noqa: RUF012

        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            self.seen.append(str(op))
            return op(*args, **kwargs)

    for x in (tk.tensor(1.0), leaf(1.0)):
        Noted.seen.clear()
        with Noted():
            Cube.apply(x)
            inside = current_state()
            assert tk.is_grad_enabled()
            tk.exp(x)
        assert len(inside.modes) == 1
        assert Noted.seen[-1] == "tk::exp"
        assert Noted.seen[0] == "tk::multiply"
        assert get_state() is None


def _returns(make: Any) -> type[Function]:
    class Made(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return make(ctx, x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    return Made


def _noted(ctx: Any, x: Tensor) -> Any:
    aside = x * 3.0
    ctx.mark_non_differentiable(aside)
    return x * 2.0, {"aside": aside, "count": 2, "places": [tk.arange(2)], "given": x}


def test_tensors_inside_of_a_result_are_refused_where_their_gradient_would_be_lost() -> None:
    x = leaf([1.0, 2.0])
    for make, kind in (
        (lambda ctx, x: {"a": x * 2.0}, "dict"),
        (lambda ctx, x: (x * 2.0, [x * 3.0]), "list"),
        (lambda ctx, x: (x * 2.0, {"deep": (x * 3.0,)}), "dict"),
    ):
        with pytest.raises(TypeError, match=rf"\[MadeBackward\] forward returned a {kind} with tensors in it.*tuple"):
            _returns(make).apply(x)
        assert tk.is_grad_enabled()
        with tk.no_grad():
            _returns(make).apply(x)
    out, rest = _returns(_noted).apply(x)
    assert (rest["count"], rest["given"] is x, rest["aside"].requires_grad) == (2, True, False)
    out.sum().backward()
    assert values_of(x.grad).tolist() == [1.0, 1.0]
    assert _returns(lambda ctx, x: ("text", None)).apply(x) == ("text", None)


@pytest.mark.parametrize("name", ["mark_dirty", "mark_non_differentiable"])
@pytest.mark.parametrize("given", [3, "x", None, [tk.ones(2)]])
@pytest.mark.parametrize("error", [TypeError, RuntimeError])
def test_only_tensors_are_marked(name: str, given: Any, error: type[Exception]) -> None:
    def make(ctx: Any, x: Tensor) -> Any:
        getattr(ctx, name)(x, given)
        return x

    with pytest.raises(
        error, match=rf"\[MadeBackward\] {name} only accepts variable arguments, but got {type(given).__name__}"
    ):
        _returns(make).apply(leaf([1.0]))


def test_set_materialize_grads_takes_a_bool() -> None:
    def make(ctx: Any, x: Tensor) -> Any:
        ctx.set_materialize_grads("x")
        return x * 2.0

    with pytest.raises(TypeError, match=r"\[MadeBackward\] set_materialize_grads expected a bool, got 'x'"):
        _returns(make).apply(leaf([1.0]))


def test_save_for_forward_names_itself() -> None:
    def make(ctx: Any, x: Tensor) -> Any:
        ctx.save_for_forward(x, 5.0)
        return x * 2.0

    with pytest.raises(TypeError, match=r"\[MadeBackward\] save_for_forward takes tensors and None, got float"):
        _returns(make).apply(leaf([1.0]))
