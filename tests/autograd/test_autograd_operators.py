"""Gradients of operators: complex numbers, broadcasting, steps and selections, formulas derived from an expression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad
from tenkey.dispatch import registry
from tenkey.library import scalar as s
from tests._gradients import constant, leaf, values_of

# ---- complex numbers


def test_squared_modulus() -> None:
    z = tk.tensor(1 + 2j, dtype=tk.complex128, requires_grad=True)
    tk.real(z * tk.conj(z)).backward()
    assert values_of(z.grad) == 2 + 4j


def test_a_holomorphic_function_gives_the_conjugate_derivative() -> None:
    z0 = 0.3 - 0.8j
    for function, derivative in ((lambda z: z * z * z, 3 * z0**2), (tk.exp, np.exp(z0))):
        z = tk.tensor(z0, dtype=tk.complex128, requires_grad=True)
        (found,) = grad(function(z), z, tk.tensor(1 + 0j, dtype=tk.complex128))
        np.testing.assert_allclose(values_of(found), np.conj(derivative), rtol=1e-12)


def test_real_and_complex_operands() -> None:
    x = leaf([2.0, 3.0])
    factor = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128)
    tk.imag(x * factor).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == tk.float64
    np.testing.assert_allclose(values_of(x.grad), [2.0, -1.0])


def test_a_real_term_of_a_complex_sum_takes_the_real_part() -> None:
    x, y = leaf([2.0, 3.0]), leaf([1.0, 1.0])
    seed = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128)
    (x + tk.tensor([1j, 1j], dtype=tk.complex128) - y).backward(seed)
    assert values_of(x.grad).tolist() == [1.0, 3.0]
    assert values_of(y.grad).tolist() == [-1.0, -3.0]


@pytest.mark.parametrize(
    "join", [tk.concat, tk.stack, lambda both: tk.concat(both, axis=None), lambda both: tk.stack(both, axis=-1)]
)
def test_a_real_tensor_joined_with_a_complex_one_takes_the_real_part(join: Any) -> None:
    x = leaf([2.0, 3.0])
    factor = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128)
    joined = join([x, factor])
    (first,) = grad(tk.real(joined * joined * 1j).sum() + tk.real(joined).sum(), x, create_graph=True)
    assert first is not None
    assert first.dtype == tk.float64
    np.testing.assert_array_equal(values_of(first), [1.0, 1.0])  # x * x * 1j has no real part
    (second,) = grad(tk.real(joined**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(values_of(second), [12.0, 27.0], rtol=1e-12)
    np.testing.assert_allclose(values_of(grad(second.sum(), x)[0]), [12.0, 18.0], rtol=1e-12)


def test_a_python_number_as_factor_of_a_complex_tensor() -> None:
    z = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128, requires_grad=True)
    seed = tk.tensor([1j, 2.0], dtype=tk.complex128)
    for factor in (2.0, 1 - 3j):
        (found,) = grad(z * factor, z, seed)
        np.testing.assert_allclose(values_of(found), np.array([1j, 2.0]) * np.conj(factor))


def test_a_complex_gradient_for_a_real_output_is_refused() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"For complex Tensors, both grad_output and output .* same dtype"):
        (x * 2.0).backward(tk.tensor([1j, 1j], dtype=tk.complex128))
    assert x.grad is None


# ---- broadcasting


@pytest.mark.parametrize(
    ("left", "right"),
    [((), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((1,), (4, 2)), ((2, 1, 4), (3, 1)), ((0, 3), (3,)), ((1, 1), ())],
)
def test_gradients_are_summed_over_broadcast_dimensions(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a0, b0 = rng.standard_normal(left), rng.standard_normal(right)
    w = rng.standard_normal(np.broadcast_shapes(left, right))
    a, b = leaf(a0), leaf(b0)
    (a * b * constant(w)).sum().backward()
    for tensor, own, other in ((a, a0, b0), (b, b0, a0)):
        full = np.asarray(w * other)
        lead = full.ndim - own.ndim
        expected = full.sum(axis=tuple(range(lead)))
        expected = expected.sum(axis=tuple(i for i, n in enumerate(own.shape) if n == 1), keepdims=True)
        assert values_of(tensor.grad).shape == own.shape
        np.testing.assert_allclose(values_of(tensor.grad), expected.reshape(own.shape), rtol=1e-12, atol=1e-15)


def test_gradients_have_the_dtype_of_the_input() -> None:
    x, w = leaf([1.0, 2.0], tk.float32), leaf([3.0, 4.0])
    y = x * w
    assert y.dtype == tk.float64
    y.sum().backward()
    assert values_of(x.grad).dtype == np.float32
    assert values_of(w.grad).dtype == np.float64


# ---- steps, integers, selections


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "sign"])
def test_step_functions_keep_the_graph_with_a_zero_gradient(name: str) -> None:
    x = leaf([-1.4, 0.3, 2.6])
    y = getattr(tk, name)(x)
    assert y.requires_grad
    (y * 5.0 + x).sum().backward()
    assert values_of(x.grad).tolist() == [1.0, 1.0, 1.0]


def test_integer_and_bool_results_carry_no_gradient() -> None:
    x = leaf([1.0, 3.0, 2.0])
    indices = (tk.argmax(x), tk.argmin(x), tk.astype(x, tk.int64), tk.sum(x, dtype=tk.int64))
    for result in (*indices, x > 2.0, tk.isnan(x), tk.equal(x, x), tk.all(x)):
        assert result.dtype.kind in "bi"
        assert not result.requires_grad
        assert result.grad_fn is None


def test_integers_cannot_require_a_gradient() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)only tensors of floating point and complex dtype can require"):
        tk.tensor([1, 2]).requires_grad_()
    with pytest.raises(RuntimeError, match=r"(?i)only .*floating.* and complex dtypes? can require .*int64"):
        tk.tensor([1, 2], requires_grad=True)
    x = tk.tensor([1, 2])
    with pytest.raises(RuntimeError, match="got int64"):
        x.requires_grad = True
    assert not x.requires_grad


def test_where_passes_the_gradient_to_the_selected_side() -> None:
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    tk.where(tk.tensor([True, False]), a, b).sum().backward()
    assert values_of(a.grad).tolist() == [1.0, 0.0]
    assert values_of(b.grad).tolist() == [0.0, 1.0]


def test_nan_on_the_other_side_of_where_does_not_leak() -> None:
    a, b = leaf([1.0, math.nan]), leaf([math.inf, 4.0])
    (tk.where(tk.tensor([True, False]), a, b) * constant([2.0, 3.0])).sum().backward()
    assert values_of(a.grad).tolist() == [2.0, 0.0]
    assert values_of(b.grad).tolist() == [0.0, 3.0]


def test_an_infinite_derivative_on_the_other_side_of_where_does_not_leak() -> None:
    x = leaf([0.0, 4.0])
    tk.where(x > 0.0, tk.sqrt(x), 0.0).sum().backward()
    assert values_of(x.grad).tolist() == [0.0, 0.25]


@pytest.mark.parametrize(
    ("function", "slopes"),
    [
        (tk.relu, [0.0, 0.0, 1.0]),
        (tk.relu6, [0.0, 0.0, 1.0]),
        (lambda x: tk.clip(x, -0.5, 1.0), [0.0, 1.0, 0.0]),
        (lambda x: tk.maximum(x, constant([0.5, 0.5, 0.5])), [0.0, 0.0, 1.0]),
    ],
)
def test_an_infinite_gradient_does_not_pass_a_zero_derivative(
    function: Callable[[Tensor], Tensor], slopes: Any
) -> None:
    for given in (math.inf, math.nan):  # as PyTorch: the gradient of 1 / relu(x) is 0 where x < 0
        x = leaf([-1.0, 0.0, 2.0])
        function(x).backward(constant([given] * 3))
        assert np.array_equal(values_of(x.grad), [given if slope else 0.0 for slope in slopes], equal_nan=True)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_of_two_tensors_share(name: str) -> None:
    a, b = leaf([1.0, 2.0, 5.0]), leaf([1.0, 3.0, 4.0])
    getattr(tk, name)(a, b).sum().backward()
    larger = [0.5, 0.0, 1.0]
    expected = larger if name == "maximum" else [0.5, 1.0, 0.0]
    assert values_of(a.grad).tolist() == expected
    assert values_of(b.grad).tolist() == [1.0 - v for v in expected]


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_of_a_reduction_share(name: str) -> None:
    x = leaf([[3.0, 1.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    (getattr(tk, name)(x, axis=1) * constant([1.0, 4.0])).sum().backward()
    first = [0.5, 0.0, 0.5, 0.0] if name == "max" else [0.0, 0.5, 0.0, 0.5]
    assert values_of(x.grad).tolist() == [first, [1.0] * 4]


# ---- formulas derived from an expression, and given ones


@pytest.mark.parametrize("name", ["data", "node", "meta", "number", "saved", "inner", "new", "Meta", "NodeClass", "t"])
def test_arguments_called_like_what_the_kernel_uses(name: str) -> None:
    cube = tk.library.pointwise(f"clash::cube_{name}(Tensor {name}) -> Tensor", scalar=lambda T: lambda x: x * x * x)
    x = leaf([2.0])
    cube(x).sum().backward()
    assert values_of(x.grad).tolist() == [12.0]


def test_arguments_called_like_a_role() -> None:
    """``g``, ``out`` and ``x_meta`` mean something else in formulas, which are derived here or name the arguments."""
    x, y = tk.asarray([0.5, 1.5, -0.7]), tk.asarray([0.25, -1.0, 2.0])
    product: Any = lambda T: lambda a, b: s.exp(a) * b  # noqa: E731
    for names in ("g, out", "out, g", "x, x_meta", "out_meta, out", "g, grad_output", "out, result"):
        a, b = names.split(", ")
        op = tk.library.pointwise(f"clash::role(Tensor {a}, Tensor {b}) -> Tensor", scalar=product)
        tk.library.opcheck(op, (x, y), checks=("autograd", "gradient", "second order", "forward mode", "vmap"))
    given = tk.library.pointwise(
        "clash::given(Tensor g, Tensor x) -> Tensor",
        scalar=lambda T: lambda g, x: g * s.cos(x),
        partials=(lambda x: tk.cos(x), lambda g, x: -g * tk.sin(x)),
    )
    tk.library.opcheck(given, (x, y), checks=("gradient", "second order", "forward mode"))

    @tk.library.composite("clash::composed(Tensor g, Tensor out, Tensor out_meta) -> Tensor")
    def composed(g: tk.Tensor, out: tk.Tensor, out_meta: tk.Tensor) -> tk.Tensor:
        return g * out + out_meta

    tk.library.opcheck(composed, (x, y, x), checks=("gradient", "second order", "forward mode"))


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ("Tensor out", {"partials": lambda out: out}),
        ("Tensor x, Tensor x_meta", {"partials": (lambda x_meta: tk.ones(x_meta.shape), None)}),
    ],
)
def test_formulas_must_not_name_an_argument_called_like_a_role(schema: str, options: Any) -> None:
    scalar: Any = lambda T: lambda *arguments: s.exp(arguments[0])  # noqa: E731
    with pytest.raises(tk.dispatch.RegistrationError, match="which is an argument, but in a gradient formula g is"):
        tk.library.pointwise(f"clash::refused({schema}) -> Tensor", scalar=scalar, **options)
    with pytest.raises(tk.dispatch.RegistrationError, match="the formula for the vjp by g names 'g', which is an"):
        tk.library.composite("clash::refused(Tensor g) -> Tensor", vjp={"g": lambda g: g})(lambda g: g * 1)


def test_a_redefined_operator_has_its_own_derivative() -> None:
    cube: Any = lambda T: lambda x: x * x * x  # noqa: E731
    fourth: Any = lambda T: lambda x: x * x * x * x  # noqa: E731
    for power, scalar in ((3, cube), (4, fourth)):
        op = tk.library.pointwise("clash::again(Tensor x) -> Tensor", scalar=scalar)
        x = leaf([2.0])
        op(x).sum().backward()
        assert values_of(x.grad).tolist() == [power * 2.0 ** (power - 1)]
        registry.undefine(op.operator)
        assert not [name for name in registry.operators if name.startswith("clash::again")]


def test_a_formula_is_known_by_identity_not_by_name() -> None:
    def same_gradient(g: Any) -> Any:
        return g * 3

    from tenkey.ops.declare import structured

    with tk.library.Library("clash_vjp", "DEF"):
        op = structured(
            "clash_vjp::triple(Tensor x) -> Tensor",
            meta=lambda x: tk.ops.declare.TensorSpec(x.shape, x.dtype),
            vjp={"x": same_gradient},
        )
        tk.library.register_kernel(op, "cpu", lambda x: tk.asarray(x.numpy() * 3))
        x = leaf([2.0])
        op(x).sum().backward()
        assert values_of(x.grad).tolist() == [3.0]


@pytest.mark.parametrize("schema", ["(Tensor y, Tensor[] xs, Tensor z)", "(Tensor[] ys, Tensor[] xs, Tensor z)"])
def test_formulas_beside_a_list_run_only_where_a_gradient_is_needed(schema: str) -> None:
    from tenkey.ops.declare import structured

    given = "ys" if "ys" in schema else "y"

    formulas: Any = {
        "xs": lambda g, z, xs: [g * z * len(xs), g * z],
        "z": lambda g, xs, out: g * (xs[0] * 2 + xs[1]) + out * 0,
        "y": lambda g, y, out: g * y * 0 + out * 0 + g,
        "ys": lambda g, ys, out: [g * ys[0] * 0 + out * 0 + g, g],
    }
    with tk.library.Library("beside_a_list", "DEF"):
        op = structured(
            f"beside_a_list::of_{given}{schema} -> Tensor",
            meta=lambda y, xs, z: tk.ops.declare.TensorSpec(z.shape, z.dtype),
            vjp={name: formulas[name] for name in (given, "xs", "z")},
        )
        tk.library.register_kernel(
            op, "cpu", lambda y, xs, z: (xs[0] * 2 + xs[1]) * z + (y[0] + y[1] if given == "ys" else y)
        )
        for chosen in itertools.product([False, True], repeat=4):
            tensors = [constant([v, v + 1]).requires_grad_(need) for v, need in zip((1.0, 2.0, 3.0, 4.0), chosen)]
            y, first, second, z = tensors
            if not any(chosen):
                continue
            op([y, y] if given == "ys" else y, [first, second], z).sum().backward()
            wanted = [[2.0, 2.0] if given == "ys" else [1.0, 1.0], [8.0, 10.0], [4.0, 5.0], [7.0, 10.0]]
            for tensor, need, gradient in zip(tensors, chosen, wanted, strict=True):
                assert (None if tensor.grad is None else tensor.grad.tolist()) == (gradient if need else None)


def test_a_formula_of_several_results_may_ask_for_the_shape_alone() -> None:
    from tenkey.ops.declare import structured

    with tk.library.Library("two_results", "DEF"):
        op = structured(
            "two_results::halves(Tensor x, Tensor[] others) -> (Tensor, Tensor)",
            meta=lambda x, others: (tk.ops.declare.TensorSpec((2,), x.dtype),) * 2,
            vjp={"x": lambda g, x_meta, others_meta: tk.concat(list(g)) * len(others_meta) + tk.zeros(x_meta.shape)},
        )
        tk.library.register_kernel(op, "cpu", lambda x, others: (x[:2] * len(others), x[2:] * len(others)))
        x = leaf([1.0, 2.0, 3.0, 4.0])
        kept: list[Tensor] = []
        with tk.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            first, second = op(x, [constant([5.0]), constant([6.0])])
        (first * 3 + second).sum().backward()
        assert values_of(x.grad).tolist() == [6.0, 6.0, 2.0, 2.0]
        assert not kept
