"""gradcheck beyond reverse mode: forward mode, batches, outputs without a gradient; wrong ones are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def leaf(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype, requires_grad=True)


REAL = leaf([0.5, -1.25, 2.0])
MATRIX = leaf([[1.5, 0.5, -0.75], [0.25, 1.0, 2.0]])
COMPLEX = leaf([0.5 + 1j, -1.25 - 0.5j, 0.25j], tk.complex128)

RIGHT: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x: tk.exp(x) * x, (REAL,)),
    (lambda x, y: x * y + tk.sum(y), (REAL, MATRIX)),
    (lambda z: z * z * tk.conj(z), (COMPLEX,)),
    (lambda x, z: (tk.exp(x) * z, tk.abs(z) * x), (REAL, COMPLEX)),
    (lambda x: (tk.sum(x), x[1:], tk.stack([x, x])), (REAL,)),
    (lambda x: tk.matmul(x, x.mT), (MATRIX,)),
    (lambda x: tk.zeros(2, dtype=tk.float64) + tk.sum(x[0:0]), (REAL,)),
    (lambda x: tk.floor(x + 0.125), (REAL,)),
    (lambda x: x * 2.0, (leaf([]),)),
    (lambda x: x * x, (leaf(2.0),)),
]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("function", "inputs"), RIGHT)
def test_right_ones_pass_every_check(function: Callable[..., Any], inputs: tuple[Any, ...], fast: bool) -> None:
    assert gradcheck(
        function,
        inputs,
        fast_mode=fast,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        check_grad_dtypes=True,
        check_undefined_grad=True,
    )
    assert gradcheck(function, inputs, fast_mode=fast, check_forward_ad=True, check_backward_ad=False)
    assert gradgradcheck(function, inputs, fast_mode=fast, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)


class WrongForward(Function):
    """x ** 2 with a right backward and a wrong jvp."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2.0 * g * x

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3.0 * t * x


class WrongBackward(WrongForward):
    """The other way round."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3.0 * g * x

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2.0 * t * x


@pytest.mark.parametrize("fast", [False, True])
def test_each_mode_is_checked_for_itself(fast: bool) -> None:
    assert gradcheck(WrongForward.apply, REAL, fast_mode=fast)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0 with respect"):
        gradcheck(WrongForward.apply, REAL, fast_mode=fast, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(WrongBackward.apply, REAL, fast_mode=fast)
    assert gradcheck(WrongBackward.apply, REAL, fast_mode=fast, check_forward_ad=True, check_backward_ad=False)


def test_a_missing_forward_rule_is_not_passed_over() -> None:
    @tk.library.custom_op("gradcheck_tests::opaque", mutates_args=())
    def opaque(x: Tensor) -> Tensor:
        return x * x

    def no_rule(ctx: Any, g: Tensor) -> Tensor:
        return tk.tensor((2.0 * g.detach() * ctx.saved_tensors[0].detach()).numpy())

    opaque.register_autograd(no_rule, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    assert gradcheck(opaque, REAL)
    with pytest.raises((NotImplementedError, RuntimeError)):
        gradcheck(opaque, REAL, check_forward_ad=True)


class Pair(Function):
    """(x + x, 3 x); its backward takes a missing gradient for one of 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return x + x, x * 3.0

    @staticmethod
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None) -> Tensor | None:
        total: Tensor | None = None if a is None else a * 2.0
        if b is not None:
            total = b * 3.0 if total is None else total + b * 3.0
        return total


class Both(Pair):
    """As if nobody asked for one output alone: right only where both gradients come together."""

    @staticmethod
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None) -> Tensor | None:
        if a is not None and b is not None:
            return a * 2.0 + b * 4.0
        return a * 2.0 if a is not None else None if b is None else b * 3.0


def test_undefined_gradients() -> None:
    assert gradcheck(Pair.apply, REAL)
    with pytest.raises(GradcheckError, match="Expected backward function to handle undefined output grads"):
        gradcheck(Both.apply, REAL)
    assert gradcheck(Both.apply, REAL, check_undefined_grad=False)


class Twice(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 2.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return None


class NoBatches(Twice):
    """Its derivatives have a vmap rule that forgets every sample but the first."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        result: Tensor = Doubled.apply(g)
        return result

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        result: Tensor = Doubled.apply(t)
        return result


class Doubled(Twice):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2.0

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
        first = tk.take(x, tk.asarray([0] * info.batch_size), axis=in_dims[0])
        return first * 2.0, in_dims[0]


def test_batched_gradients() -> None:
    assert gradcheck(NoBatches.apply, REAL, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="the batched backward differs from the loop"):
        gradcheck(NoBatches.apply, REAL, check_batched_grad=True)
    with pytest.raises(GradcheckError, match="the batched forward mode differs from the loop"):
        gradcheck(NoBatches.apply, REAL, check_forward_ad=True, check_batched_forward_grad=True)


def test_a_wrong_second_order_in_either_mode() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return 2.0 * g * WrongSlope.apply(x)

    class WrongSlope(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 2.0

    assert gradcheck(lambda x: Wrong.apply(x), REAL)
    for ahead in (True, False):
        with pytest.raises(GradcheckError, match=r"mismatch"):
            gradgradcheck(lambda x: Wrong.apply(x), REAL, check_fwd_over_rev=ahead, check_rev_over_rev=not ahead)


@pytest.mark.parametrize(
    "options",
    [
        {"check_backward_ad": False},
        {"eps": 0.0},
        {"eps": float("nan")},
        {"projections": 0, "fast_mode": True},
    ],
)
def test_options_that_check_nothing(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\[gradcheck\]"):
        gradcheck(lambda x: x * 2.0, REAL, **options)
