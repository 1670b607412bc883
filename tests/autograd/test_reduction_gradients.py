"""Gradients of reductions that are found from the combining expression, against central differences and NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.autograd.formulas.gradients import jvp_of
from tenkey.backends.cpu.programs.program import Program
from tenkey.dispatch.registry import registry
from tenkey.library import INT_TO_FLOAT, reduction
from tenkey.library import scalar as s
from tests._tiers import each

NS = "reduction_gradient_test"
ARGUMENTS = "Tensor x, *, int[1]? axis=None, bool keepdims=False"

# combine, identity, scalar, smallest and largest element that the reduction is defined for
COMBINATIONS: dict[str, tuple[Any, Any, Any, float, float]] = {
    "sum_of_squares": (lambda T: lambda a, b: a + b, 0, lambda T: lambda x: x * x, -2, 2),
    "sum_backwards": (lambda T: lambda a, b: b + a, 0, None, -2, 2),
    "largest_square": (lambda T: lambda a, b: s.maximum(a, b), 0, lambda T: lambda x: x * x, -2, 2),
    "least_by_branch": (lambda T: lambda a, b: min(b, a), None, None, -2, 2),
    "built_in_max": (lambda T: lambda a, b: max(a, b), None, None, -2, 2),
    "product_of_sines": (lambda T: lambda a, b: a * b, 1, lambda T: lambda x: s.sin(x), -2, 2),
    "log_sum_exp": (lambda T: lambda a, b: s.logaddexp(a, b), -np.inf, None, -2, 2),
    "norm": (lambda T: lambda a, b: s.sqrt(a * a + b * b), 0, lambda T: lambda x: s.abs(x), -2, 2),
    "hypot": (lambda T: lambda a, b: s.hypot(a, b), None, None, 0.5, 2),
    "any_of_independent": (lambda T: lambda a, b: a + b - a * b, 0, None, 0.1, 0.9),
    "parallel": (lambda T: lambda a, b: a * b / (a + b), None, None, 0.5, 2),
    "log_add_exp_by_hand": (lambda T: lambda a, b: s.log(s.exp(a) + s.exp(b)), None, None, -2, 2),
    "velocities": (lambda T: lambda a, b: (a + b) / (T(1) + a * b), 0, lambda T: lambda x: s.tanh(x), -1, 1),
}  # fmt: skip
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((5,), None), ((1,), None), ((2,), 0), ((3,), -1), ((), None), ((), ()), ((3, 4), None), ((3, 4), 0), ((3, 4), -1),
    ((2, 3, 2), (0, 2)), ((2, 3, 2), (2, 0)), ((2, 1, 3), 1), ((2, 3), ()), ((7, 2), 0), ((0, 3), 1), ((2, 0), 0),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _no_switch_to_compiled_code() -> Iterator[None]:
    """gradcheck compares two equal calls bit by bit: a program that is compiled between them differs by a rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "count", lambda program, size: None)
        yield


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if name.startswith(f"{NS}::") and name in registry.operators:
            registry.undefine(registry.operators[name], keep_kernels=False)


def declared(name: str) -> Callable[..., tk.Tensor]:
    combine, identity, scalar, _, _ = COMBINATIONS[name]
    return reduction(f"{NS}::{name}({ARGUMENTS}) -> Tensor", combine=combine, identity=identity, scalar=scalar)


def values(name: str, shape: tuple[int, ...]) -> tk.Tensor:
    low, high = COMBINATIONS[name][3:]
    drawn = np.random.default_rng(len(name)).uniform(low, high, shape)
    return tk.tensor(drawn, dtype=tk.float64, requires_grad=True)


def by_loop(name: str, x: np.ndarray[Any, Any]) -> float:
    """The reduction of all elements, one after the other, by Python floats."""
    from tenkey.ops.scalar import PlainTypeMaker

    combine, _, scalar, _, _ = COMBINATIONS[name]
    make = PlainTypeMaker()
    each = (lambda v: v) if scalar is None else scalar(make)
    total, *rest = [each(float(v)) for v in x.ravel()]
    for value in rest:
        total = combine(make)(total, value)
    return float(total)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_values(name: str) -> None:
    op = declared(name)
    x = values(name, (4, 3)).detach()
    np.testing.assert_allclose(op(x).item(), by_loop(name, x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(op(x, axis=0).numpy(), [by_loop(name, c) for c in x.numpy().T], rtol=1e-12)


@each("case", [(*case, keep) for case in SHAPES for keep in (False, True)], fast=[(*c, True) for c in SHAPES[::2]])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_first_and_second_derivative(name: str, case: tuple[tuple[int, ...], Any, bool]) -> None:
    shape, axis, keepdims = case
    op = declared(name)
    x = values(name, shape)
    assert gradcheck(lambda x: op(x, axis=axis, keepdims=keepdims), x)
    if x.size:
        assert gradgradcheck(lambda x: op(x, axis=axis, keepdims=keepdims), x)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_third_derivative(name: str) -> None:
    op = declared(name)
    x = values(name, (3,))

    def first(x: tk.Tensor) -> tk.Tensor:
        (g,) = tk.autograd.grad(op(x), x, create_graph=True)
        assert g is not None
        return g

    if tk.any(first(x) != 0).item() and first(x).requires_grad:
        assert gradgradcheck(lambda x: first(x) * first(x), x, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_forward_derivative(name: str) -> None:
    op = declared(name)
    operator = op.operator  # type: ignore[attr-defined]
    rule = jvp_of(operator, is_complex=False)
    assert rule is not None
    x = values(name, (3, 4)).detach()
    t = tk.asarray(np.random.default_rng(1).standard_normal((3, 4)))
    for axis, keepdims in itertools.product((None, 0, (0, 1)), (False, True)):
        tangent = rule({"x": t}, operator.bind(x, axis=axis, keepdims=keepdims), op(x, axis=axis, keepdims=keepdims))
        up, down = (op(x + step * t, axis=axis, keepdims=keepdims).numpy() for step in (1e-6, -1e-6))
        np.testing.assert_allclose(tangent.numpy(), (up - down) / 2e-6, rtol=1e-6, atol=1e-7)


def gradient(out: tk.Tensor, x: tk.Tensor) -> np.ndarray[Any, Any]:
    (g,) = tk.autograd.grad(out.sum(), x)
    assert g is not None
    assert (g.shape, g.dtype) == (x.shape, x.dtype)
    return g.numpy()


@pytest.mark.parametrize("zeros", [0, 1, 2, 3, 5])
def test_a_product_with_zeros(zeros: int) -> None:
    op = reduction(f"{NS}::product({ARGUMENTS}) -> Tensor", combine=lambda T: lambda a, b: a * b, identity=1)
    data = np.array([2.0, -3.0, 5.0, 0.5, 7.0])
    data[:zeros] = 0
    wanted = [np.prod(np.delete(data, i)) for i in range(5)]
    x = tk.tensor(data, dtype=tk.float64, requires_grad=True)
    np.testing.assert_allclose(gradient(op(x), x), wanted)
    np.testing.assert_allclose(gradient(tk.prod(x), x), wanted)
    assert gradgradcheck(op, x)
    assert gradgradcheck(tk.prod, x)


@pytest.mark.parametrize(
    "combine", [s.maximum, max, lambda a, b: s.where(a >= b, a, b), lambda a, b: s.where(b > a, b, a)]
)
def test_ties_share_equally(combine: Any) -> None:
    op = reduction(f"{NS}::tied({ARGUMENTS}) -> Tensor", combine=lambda T: lambda a, b: combine(a, b))
    x = tk.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], requires_grad=True)
    np.testing.assert_allclose(gradient(op(x, axis=1), x), [[0, 0.5, 0.5], [1 / 3] * 3], rtol=1e-6)
    np.testing.assert_allclose(gradient(op(x), x), [[0, 0.5, 0.5], [0, 0, 0]])


def test_logaddexp_at_infinity() -> None:
    op = declared("log_sum_exp")
    x = tk.tensor([[-np.inf, 0.0, 1.0], [-np.inf, -np.inf, -np.inf]], dtype=tk.float64, requires_grad=True)
    with np.errstate(all="ignore"):
        wanted = [scipy.special.softmax([-np.inf, 0, 1]), [0, 0, 0]]
    np.testing.assert_allclose(gradient(op(x, axis=1), x), wanted, rtol=1e-12)
    large = tk.tensor([1000.0, 1001.0], dtype=tk.float64, requires_grad=True)
    np.testing.assert_allclose(gradient(op(large), large), scipy.special.softmax([0, 1]), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_keep_the_dtype(dtype: str) -> None:
    for name in COMBINATIONS:
        x = values(name, (2, 3)).detach().to(dtype=np.dtype(dtype)).requires_grad_()
        out = declared(name)(x, axis=1)
        assert out.dtype == np.dtype(dtype)
        gradient(out, x)


def test_integers_are_promoted() -> None:
    op = reduction(
        f"{NS}::root_mean({ARGUMENTS}) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        identity=0,
        scalar=lambda T: lambda x: s.sqrt(x),
        promote=INT_TO_FLOAT,
    )
    out = op(tk.asarray([1, 4, 9]))
    assert (out.dtype, out.item()) == (np.dtype("float32"), 6.0)


def test_complex_products_and_sums() -> None:
    rng = np.random.default_rng(0)
    x = tk.tensor(rng.standard_normal(5) + 1j * rng.standard_normal(5), dtype=tk.complex128, requires_grad=True)
    combinations: list[tuple[Any, Any]] = [
        (lambda T: lambda a, b: a * b, None), (lambda T: lambda a, b: a + b, lambda T: lambda x: s.exp(x)),
        (lambda T: lambda a, b: a + b - a * b, None),
    ]  # fmt: skip
    for number, (combine, scalar) in enumerate(combinations):
        op = reduction(f"{NS}::complex_{number}({ARGUMENTS}) -> Tensor", combine=combine, scalar=scalar)
        assert gradcheck(op, x)
        assert gradgradcheck(op, x)


def test_a_sum_in_another_dtype() -> None:
    x = tk.tensor([0.5, 2.0, 4.0], dtype=tk.float32, requires_grad=True)
    for out in (tk.sum(x, dtype=tk.float64), tk.prod(x, dtype=tk.float64), tk.sum(x, dtype=tk.complex64)):
        assert out.dtype != x.dtype
        (g,) = tk.autograd.grad(out, x, tk.ones_like(out))
        assert g is not None
        assert g.dtype == tk.float32
    np.testing.assert_allclose(gradient(tk.prod(x, dtype=tk.float64), x), [8, 2, 1])


def test_the_sum_keeps_nothing() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    out = tk.sum(x)
    assert not out.grad_fn.saves
    with tk.no_grad():
        x.add_(1.0)
    out.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_step_function_of_elements_has_a_zero_gradient() -> None:
    op = reduction(
        f"{NS}::floors({ARGUMENTS}) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        identity=0,
        scalar=lambda T: lambda x: s.floor(x),
    )
    x = tk.tensor([1.5, 2.5], requires_grad=True)
    assert op(x).item() == 3.0
    np.testing.assert_array_equal(gradient(op(x), x), [0, 0])


def test_its_parts_go_with_the_operator() -> None:
    op = declared("norm")
    x = values("norm", (3,))
    gradgradcheck(op, x)
    made = [name for name in registry.operators if name.startswith(f"{NS}::")]
    assert len(made) > 2
    registry.undefine(op.operator)  # type: ignore[attr-defined]
    assert not [name for name in registry.operators if name.startswith(f"{NS}::")]


@pytest.mark.parametrize("values", [[1.5], [1.5, 1.5]])
def test_derivatives_of_a_standard_deviation_of_zero(values: list[float]) -> None:
    """They are 0 in every mode and order, as PyTorch's."""
    x = tk.asarray(np.array(values))
    one, zeros = tk.ones_like(x), [0.0] * len(values)
    slope = tk.transforms.grad(tk.std)
    assert slope(x).tolist() == zeros
    assert tk.transforms.vmap(slope)(tk.stack([x, x])).tolist() == [zeros, zeros]
    assert tk.transforms.jvp(tk.std, (x,), (one,))[1].item() == 0
    assert tk.transforms.jvp(slope, (x,), (one,))[1].tolist() == zeros
    assert tk.transforms.hessian(tk.std)(x).tolist() == [zeros] * len(values)
