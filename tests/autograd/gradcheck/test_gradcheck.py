"""gradcheck and gradgradcheck: they accept what is right, and reject wrong formulas of many kinds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def leaf(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype, requires_grad=True)


def function_of(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A differentiable function from its two halves: ``backward(gradient, *inputs)``."""

    class Made(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(grads[0], *ctx.saved_tensors)

    return Made.apply


REAL = (leaf([0.5, -1.25, 2.0]),)
PAIR = (leaf([0.5, -1.25, 2.0]), leaf([[1.5, 0.5, -0.75], [0.25, 1.0, 2.0]]))
COMPLEX = (leaf([0.5 + 1j, -1.25 - 0.5j], tk.complex128),)


def _first_only(g: Tensor) -> Tensor:
    return tk.where(tk.tensor([True, False, False]), g, 0.0)


# ---- right formulas


RIGHT: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("square", function_of(lambda x: x * x, lambda g, x: g * 2.0 * x), REAL),
    (
        "broadcast product",
        function_of(lambda x, y: x * y, lambda g, x, y: (tk.sum(g * y, axis=0), g * x)),
        PAIR,
    ),
    ("complex square", function_of(lambda z: z * z, lambda g, z: g * tk.conj(2.0 * z)), COMPLEX),
    ("squared modulus", lambda z: tk.real(z * tk.conj(z)), COMPLEX),
    ("real part", tk.real, COMPLEX),
    ("several outputs", lambda x: (tk.exp(x), tk.sin(x)), REAL),
    ("a list of outputs", lambda x: [x * 2.0, x * x], REAL),
    ("an output beside that has no gradient", lambda x: (x * x, tk.argmax(x)), REAL),
    ("a scalar", lambda x: (x * x * x).sum(), REAL),
    ("matrix product", lambda x, y: tk.matmul(y, tk.expand_dims(x, 1)), PAIR),
    ("reduction", lambda x, y: tk.logsumexp(x + y, axis=1), PAIR),
    ("an input that is not used", lambda x, y: y * 2.0, PAIR),
    ("an input without gradient", lambda x, c: x * c, (*REAL, tk.tensor([1.0, 2.0, 3.0], dtype=tk.float64))),
    ("an argument that is no tensor", lambda x, n: x**n, (leaf([0.5, 1.25]), 3)),
    ("a 0-d input", lambda x: tk.exp(x) * x, (leaf(0.5),)),
    ("an empty input", lambda x: x * 2.0, (leaf(np.zeros((0, 3))),)),
    ("a transposed input", lambda x: x * x * 1.0, (tk.permute_dims(PAIR[1].detach(), (1, 0)).requires_grad_(),)),
    ("a strided input", tk.sin, (PAIR[1].detach()[:, ::2].requires_grad_(),)),
    ("a step function", tk.floor, (leaf([0.5, -1.25, 2.75]),)),
    ("float32 beside float64", lambda x: tk.astype(x, tk.float64) * 2.0, REAL),
]


@pytest.mark.parametrize(("name", "function", "inputs"), RIGHT, ids=[case[0] for case in RIGHT])
def test_a_right_formula_is_accepted(name: str, function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    assert gradcheck(function, inputs) is True
    assert gradgradcheck(function, inputs) is True


def test_a_single_input_needs_no_tuple() -> None:
    assert gradcheck(tk.exp, leaf([0.5, 1.0]))
    assert gradgradcheck(tk.exp, leaf([0.5, 1.0]))
    assert gradcheck(lambda x, y: x * y, [leaf([0.5]), leaf([1.5])])


# ---- wrong formulas


def _nan_where_negative(g: Tensor, x: Tensor) -> Tensor:
    return tk.where(x > 0.0, g * 2.0 * x, math.nan)


WRONG: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("wrong factor", function_of(lambda x: x * x, lambda g, x: g * 3.0 * x), REAL),
    ("factor off by a permille", function_of(lambda x: x * x, lambda g, x: g * 2.004 * x), REAL),
    ("wrong sign", function_of(tk.cos, lambda g, x: g * tk.sin(x)), REAL),
    (
        "wrong in one element",
        function_of(lambda x: x * x, lambda g, x: g * 2.0 * x + _first_only(g) * 0.01),
        REAL,
    ),
    ("additive constant", function_of(lambda x: x * x, lambda g, x: g * 2.0 * x + 0.01), REAL),
    ("gradient of the output ignored", function_of(lambda x: x * x, lambda g, x: 2.0 * x + g * 0.0), REAL),
    ("not multiplied elementwise", function_of(lambda x: x * x, lambda g, x: 2.0 * x * tk.sum(g)), REAL),
    ("transposed", function_of(lambda x: tk.flip(x) * x, lambda g, x: g * tk.flip(x)), REAL),
    ("reduction without broadcasting", function_of(lambda x: x * tk.sum(x), lambda g, x: g * tk.sum(x)), REAL),
    (
        "mean instead of sum over a broadcast dimension",
        function_of(lambda x, y: x * y, lambda g, x, y: (tk.mean(g * y, axis=0), g * x)),
        PAIR,
    ),
    (
        "one of two inputs",
        function_of(lambda x, y: x * y, lambda g, x, y: (tk.sum(g * y, axis=0), g * x * 1.01)),
        PAIR,
    ),
    ("exchanged inputs", function_of(lambda x, y: x - y, lambda g, x, y: (-tk.sum(g, axis=0), g)), PAIR),
    ("not conjugated", function_of(lambda z: z * z, lambda g, z: g * 2.0 * z), COMPLEX),
    ("conjugate of a conjugate", function_of(tk.conj, lambda g, z: g), COMPLEX),
    ("half the gradient of a real result", function_of(lambda z: tk.real(z * tk.conj(z)), lambda g, z: g * z), COMPLEX),
    ("zero gradient", function_of(lambda x: x * x, lambda g, x: g * 0.0), REAL),
    ("no gradient", function_of(lambda x: x * x, lambda g, x: None), REAL),
    ("detached", lambda x: x.detach() * 2.0, REAL),
    ("half detached", lambda x: x * x.detach(), REAL),
    ("nan", function_of(lambda x: x * x, lambda g, x: g * math.nan), REAL),
    ("nan in some elements", function_of(lambda x: x * x, _nan_where_negative), REAL),
    ("infinite", function_of(lambda x: x * x, lambda g, x: g * math.inf), REAL),
    ("the second of two outputs", lambda x: (x * x, function_of(tk.sin, lambda g, x: g)(x)), REAL),
    ("an integer step with a gradient", function_of(tk.floor, lambda g, x: g), REAL),
]


@pytest.mark.parametrize(("name", "function", "inputs"), WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_formula_is_rejected(name: str, function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    with pytest.raises(GradcheckError, match=r"\[gradcheck\] Jacobian mismatch for output \d with respect to input \d"):
        gradcheck(function, inputs)
    assert gradcheck(function, inputs, raise_exception=False) is False
    assert tk.is_grad_enabled()
    assert all(x.grad is None for x in inputs)


def _frozen_derivative(x: Tensor) -> Any:
    """First order right; its backward hides that it depends on x."""
    return function_of(lambda x: x * x * x, lambda g, x: g * (3.0 * x * x).detach())(x)


def _hidden_gradient(x: Tensor) -> Any:
    """First order right; its backward hides that it depends on the gradient of the output."""
    return function_of(lambda x: x * x, lambda g, x: g.detach() * 2.0 * x)(x)


def _wrong_second(x: Tensor) -> Any:
    wrong = function_of(lambda x: 3.0 * x * x, lambda g, x: g * 5.0 * x)
    return function_of(lambda x: x * x * x, lambda g, x: g * wrong(x))(x)


def _wrong_complex_second(z: Tensor) -> Any:
    wrong = function_of(lambda z: tk.conj(3.0 * z * z), lambda g, z: g * 6.0 * z)
    return function_of(lambda z: z * z * z, lambda g, z: g * wrong(z))(z)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (_frozen_derivative, REAL),
        (_hidden_gradient, REAL),
        (_wrong_second, REAL),
        (_wrong_complex_second, COMPLEX),
    ],
)
def test_a_wrong_second_order_is_rejected(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    assert gradcheck(function, inputs)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(function, inputs)
    assert gradgradcheck(function, inputs, raise_exception=False) is False


class TestFastMode:
    @pytest.mark.parametrize(("name", "function", "inputs"), RIGHT, ids=[case[0] for case in RIGHT])
    def test_a_right_formula_is_accepted(
        self, name: str, function: Callable[..., Any], inputs: tuple[Any, ...]
    ) -> None:
        assert gradcheck(function, inputs, fast_mode=True) is True
        assert gradgradcheck(function, inputs, fast_mode=True) is True

    @pytest.mark.parametrize(("name", "function", "inputs"), WRONG, ids=[case[0] for case in WRONG])
    def test_a_wrong_formula_is_rejected_with_the_text_of_the_slow_mode(
        self, name: str, function: Callable[..., Any], inputs: tuple[Any, ...]
    ) -> None:
        texts = []
        for fast in (False, True):
            with pytest.raises(GradcheckError) as found:
                gradcheck(function, inputs, fast_mode=fast)
            texts.append(str(found.value))
        assert texts[0] == texts[1].replace(" Found in fast mode: projection 0 of seed 0.", "")
        assert texts[0] != texts[1]

    def test_the_seed_is_reported_and_counts(self) -> None:
        """An error that a direction misses is found by another: here only where the two signs are equal."""
        x = leaf([0.5, 2.0])
        wrong = function_of(lambda x: x * x, lambda g, x: g * 2.0 * x + tk.tensor([1e-4, -1e-4]) * tk.sum(g))
        with pytest.raises(GradcheckError, match=r"projection \d+ of seed 5"):
            gradcheck(wrong, x, fast_mode=True, seed=5, projections=20, rtol=1e-9)
        found = [
            gradcheck(wrong, x, fast_mode=True, seed=seed, projections=1, raise_exception=False, rtol=1e-9, atol=3e-5)
            for seed in range(20)
        ]
        assert {True, False} == set(found)
        assert not gradcheck(wrong, x, fast_mode=True, projections=20, raise_exception=False, rtol=1e-9, atol=3e-5)

    def test_a_wrong_second_order_is_rejected(self) -> None:
        for function in (_frozen_derivative, _hidden_gradient, _wrong_second):
            with pytest.raises(GradcheckError, match="Jacobian mismatch"):
                gradgradcheck(function, REAL, fast_mode=True)

    def test_the_cost_does_not_grow_with_the_sizes(self) -> None:
        calls = []

        def function(x: Tensor) -> Tensor:
            calls.append(x)
            return x * x

        assert gradcheck(function, leaf(np.linspace(0.5, 2.0, 100)), fast_mode=True)
        assert len(calls) <= 8
        calls.clear()
        assert gradcheck(function, leaf(np.linspace(0.5, 2.0, 100)), fast_mode=True, projections=1)
        assert len(calls) <= 4

    def test_one_wrong_element_of_many(self) -> None:
        x = leaf(np.linspace(0.5, 2.0, 50))
        one = tk.asarray(np.arange(50) == 17)
        wrong = function_of(lambda x: x * x, lambda g, x: tk.where(one, -2.0, 2.0) * g * x)
        assert gradcheck(wrong, x, fast_mode=True, raise_exception=False) is False


def test_a_second_order_that_is_refused_is_no_mismatch() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @tk.autograd.once_differentiable
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * 2.0 * x

    assert gradcheck(Once.apply, REAL)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradgradcheck(Once.apply, REAL)


# ---- functions that are not deterministic


def test_a_result_that_changes_is_rejected() -> None:
    counter = itertools.count()
    with pytest.raises(GradcheckError, match=r"\[gradcheck\] the function is not deterministic.*differ by 1\.000e-07"):
        gradcheck(lambda x: x * 1.0 + next(counter) * 1e-7, REAL)
    counter = itertools.count()
    assert gradcheck(lambda x: x * 1.0 + (next(counter) % 2) * 1e-13, REAL, nondet_tol=1e-12)


def test_a_gradient_that_changes_is_rejected() -> None:
    counter = itertools.count()
    noisy = function_of(lambda x: x * x, lambda g, x: g * (2.0 * x + 1e-7 * next(counter)))
    with pytest.raises(GradcheckError, match=r"the backward is not deterministic: two runs for output 0.*nondet_tol"):
        gradcheck(noisy, REAL)
    assert gradcheck(noisy, REAL, nondet_tol=1e-5)


def test_a_kernel_that_takes_over_between_two_calls_is_no_change() -> None:
    """As a compiled one does, once; what goes on changing is rejected above."""
    counter = itertools.count()
    assert gradcheck(lambda x: x * 1.0 + (next(counter) > 0) * 1e-16, REAL)


def test_equal_infinities_are_no_change() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):  # inf - inf is no difference, but it is no change
        gradcheck(lambda x: x.detach() * math.inf, REAL)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(tk.log, leaf([0.0, 1.0]))


# ---- tolerances


def test_tolerances_decide() -> None:
    slightly = function_of(lambda x: x * x, lambda g, x: g * (2.0 * x + 1e-3))
    assert not gradcheck(slightly, REAL, rtol=0.0, atol=1e-5, raise_exception=False)
    assert gradcheck(slightly, REAL, rtol=0.0, atol=1e-2)
    assert gradcheck(slightly, REAL, rtol=1e-2, atol=0.0)
    assert not gradcheck(tk.relu, leaf([0.0]), raise_exception=False)  # 0.5 by differences, 0 by formula
    steep = (leaf([1.0]),)
    assert gradcheck(lambda x: tk.exp(x * 5.0), steep, eps=1e-6)
    assert not gradcheck(lambda x: tk.exp(x * 5.0), steep, eps=0.5, raise_exception=False)


# ---- what cannot be checked


def test_inputs_in_single_precision_are_warned_of() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 0.5], tk.float32)
    with (
        pytest.warns(UserWarning, match=r"Input #1 requires gradient and is not a double precision.*dtype float32"),
        pytest.raises(GradcheckError, match="with respect to input 1"),
    ):
        gradcheck(lambda x, y: x * tk.exp(y), (x, y))


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}, {"check_forward_ad": True}])
@pytest.mark.parametrize("dtype", [tk.float32, tk.complex64])
def test_single_precision_with_a_step_that_fits(dtype: Any, options: Any) -> None:
    x, wrong = leaf([1.0, 2.0], dtype), function_of(lambda x: x * x, lambda g, x: g * x)
    fitting = {"eps": 1e-2, "atol": 1e-2, "rtol": 1e-2, **options}
    with pytest.warns(UserWarning, match="double precision") as caught:
        assert gradcheck(lambda x: x * x, x, **fitting)
    with pytest.warns(UserWarning, match="double precision"):
        assert gradgradcheck(lambda x: x * x * x, x, eps=1e-2, atol=1e-1, rtol=1e-1)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match="double precision"):
        assert not gradcheck(wrong, x, raise_exception=False, **fitting)


def test_without_an_input_that_needs_a_gradient() -> None:
    text = r"\[gradcheck\] gradcheck expects at least one input tensor to require gradient"
    with pytest.raises(ValueError, match=text):
        gradcheck(tk.exp, tk.tensor([1.0], dtype=tk.float64))
    with pytest.raises(ValueError, match=text):
        gradcheck(tk.exp, ())


@pytest.mark.parametrize("result", [None, 3.0, (), "text"])
def test_a_function_that_returns_nothing_to_check(result: Any) -> None:
    with pytest.raises(ValueError, match=r"\[gradcheck\] the function returned \w+, no floating or complex tensor"):
        gradcheck(lambda x: result, REAL)
    with pytest.raises(ValueError, match="there is nothing to check"):
        gradcheck(tk.argmax, REAL)


def test_the_text_of_a_mismatch() -> None:
    wrong = function_of(lambda x: x * x, lambda g, x: g * 2.0 * x + _first_only(g) * 0.25)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda c, x: (x * 1.0, wrong(x)), (1.0, *REAL))
    text = str(caught.value)
    assert "Jacobian mismatch for output 1 with respect to input 1" in text
    assert "the largest error is 2.500e-01 at row 0 (component of the input), column 0 (component of" in text
    assert "numerical:" in text
    assert "analytical:" in text


def test_inputs_are_as_before() -> None:
    x = leaf([0.5, -1.25])
    calls: list[bool] = []
    x.register_hook(lambda g: None)

    def function(x: Tensor) -> Tensor:
        calls.append(tk.is_grad_enabled())
        return x * x

    assert gradcheck(function, x)
    assert x.tolist() == [0.5, -1.25]
    assert x._version == 0
    assert x.grad is None
    assert x.requires_grad
    assert calls.count(True) == 2  # the differences are taken without recording
    with tk.no_grad():
        assert gradcheck(tk.exp, x)
        assert gradgradcheck(tk.exp, x)
        assert not tk.is_grad_enabled()
    assert tk.is_grad_enabled()


def test_an_error_of_the_function_passes_through() -> None:
    def fail(x: Tensor) -> Tensor:
        raise LookupError("deliberate")

    with pytest.raises(LookupError, match="deliberate"):
        gradcheck(fail, REAL)
    with pytest.raises(LookupError, match="deliberate"):
        gradcheck(fail, REAL, raise_exception=False)
    assert tk.is_grad_enabled()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"fn": 3}, TypeError, "fn is a function of the inputs, got int"),
        ({"inputs": 3}, TypeError, "inputs is a tensor or a sequence of the arguments of fn, got int"),
        ({"inputs": None}, TypeError, "inputs is a tensor or a sequence of the arguments of fn, got NoneType"),
        ({"eps": "x"}, TypeError, "eps is a positive number, got 'x'"),
        ({"eps": 0.0}, ValueError, "eps is a positive number, got 0.0"),
        ({"eps": math.nan}, ValueError, "eps is a positive number, got nan"),
        ({"atol": None}, TypeError, "atol is a number, 0 or more, got None"),
        ({"rtol": -1.0}, ValueError, "rtol is a number, 0 or more, got -1.0"),
        ({"nondet_tol": "x"}, TypeError, "nondet_tol is a number, 0 or more, got 'x'"),
        ({"projections": "x"}, TypeError, "projections is an integer, 1 or more, got 'x'"),
        ({"projections": 0}, ValueError, "projections is an integer, 1 or more, got 0"),
        ({"seed": "x"}, TypeError, "seed is an integer, 0 or more, got 'x'"),
        ({"seed": -1}, ValueError, "seed is an integer, 0 or more, got -1"),
    ],
)
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_wrong_options_are_refused(
    check: Callable[..., bool], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    given = {"fn": lambda x: x * x, "inputs": leaf([0.5]), **options}
    with pytest.raises(error, match=r"^\[gradcheck\] " + text):
        check(**given)


def test_the_numbers_of_numpy_are_numbers() -> None:
    options: dict[str, Any] = {"eps": np.float32(1e-6), "atol": np.float64(1e-5), "rtol": 1, "seed": np.int64(3)}
    assert gradcheck(lambda x: x * x, leaf([0.5]), projections=np.uint8(1), **options)  # type: ignore[arg-type]


def test_gradients_of_outputs_are_tensors() -> None:
    with pytest.raises(TypeError, match=r"\[gradgradcheck\] grad_outputs is a tensor or a sequence .*, got int"):
        gradgradcheck(lambda x: x * x, leaf([0.5]), 3)
    with pytest.raises(TypeError, match=r"\[gradgradcheck\] grad_outputs is .*, got str in it"):
        gradgradcheck(lambda x: x * x, leaf([0.5]), ["x"])
