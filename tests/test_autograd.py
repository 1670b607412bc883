"""The engine: order, accumulation, saved tensors, higher orders, deep graphs, threads, errors."""

from __future__ import annotations

import gc
import math
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, backward, grad
from tenkey.autograd.graph import GradientEdge, get_gradient_edge
from tenkey.dispatch import registry


def leaf(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype, requires_grad=True)


def constant(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().numpy()


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Identity(Function):
    """Passes the gradient on; subclasses change it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + 0.0


# ---- shape of the graph


def test_an_edge_leads_to_the_node_of_the_input() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    middle = x * w
    out = middle + constant([1.0, 1.0])
    assert out.grad_fn.next_functions == ((middle.grad_fn, 0), (None, 0))
    assert [node.name() for node, _ in middle.grad_fn.next_functions] == ["AccumulateGrad", "AccumulateGrad"]
    assert middle.grad_fn.next_functions[0][0].variable is x
    assert out.grad_fn.name() == "AddBackward"
    assert x.grad_fn is None
    assert x.is_leaf
    assert not out.is_leaf


def test_sequence_and_topological_numbers() -> None:
    x = leaf(1.0)
    a = x * 2.0
    b = a * 2.0
    side = x * 3.0
    c = b + side
    numbers = [t.grad_fn.sequence_nr for t in (a, b, side, c)]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 4
    assert [t.grad_fn.topological_nr for t in (a, b, side, c)] == [1, 2, 1, 3]
    accumulator = a.grad_fn.next_functions[0][0]
    assert accumulator.sequence_nr > max(numbers)
    assert accumulator.topological_nr == 0
    assert accumulator is side.grad_fn.next_functions[0][0]  # one accumulator for one leaf


def test_metadata_is_the_users() -> None:
    node = (leaf(1.0) * 2.0).grad_fn
    node.metadata["who"] = "me"
    assert node.metadata == {"who": "me"}


def test_results_that_need_no_gradient_have_no_node() -> None:
    out = constant([1.0]) * constant([2.0])
    assert out.grad_fn is None
    assert not out.requires_grad
    assert out.is_leaf


# ---- first order


def test_reused_input() -> None:
    x = leaf([1.0, -2.0, 3.0])
    (x * x * x + x).sum().backward()
    np.testing.assert_allclose(values_of(x.grad), 3 * np.array([1.0, 4.0, 9.0]) + 1)


def test_diamond_runs_the_shared_node_once() -> None:
    x = leaf(0.5)
    shared = tk.exp(x)
    calls: list[float] = []
    shared.grad_fn.register_prehook(lambda grads: calls.append(grads[0].item()))
    out = shared * 2.0 + shared * shared
    out.backward()
    e = math.exp(0.5)
    assert calls == [pytest.approx(2 + 2 * e)]
    assert values_of(x.grad) == pytest.approx(e * (2 + 2 * e))


def test_wide_and_deep_diamonds() -> None:
    x = leaf(1.0)
    y = x * 1.0
    for _ in range(60):  # 2**60 paths: each node may run only once
        y = y * 0.5 + y * 0.5
    y.backward()
    assert values_of(x.grad) == 1.0


def test_execution_follows_the_sequence_numbers() -> None:
    x = leaf(1.0)
    order: list[str] = []
    named = {}
    for name in ("first", "second", "third"):
        named[name] = x * 2.0
        named[name].grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    (named["second"] + (named["third"] + named["first"])).backward()
    assert order == ["third", "second", "first"]


def test_an_accumulator_runs_as_soon_as_it_is_ready() -> None:
    order: list[str] = []
    early, late = leaf(1.0), leaf(2.0)
    a = tk.exp(early)
    b = tk.exp(late)
    a.grad_fn.register_prehook(lambda grads: order.append("node of early"))
    late.register_post_accumulate_grad_hook(lambda t: order.append("late accumulated"))
    (a + b).backward()
    assert order == ["late accumulated", "node of early"]


def test_accumulation_over_several_backwards() -> None:
    x = leaf([1.0, 2.0, 3.0])
    x.sum().backward()  # the first gradient is one element that is repeated
    first = x.grad
    (x * constant([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is first  # added in place
    assert values_of(x.grad).tolist() == [2.0, 3.0, 4.0]
    x.grad = None
    (x * 2.0).sum().backward()
    assert values_of(x.grad).tolist() == [2.0, 2.0, 2.0]


def test_several_roots_at_once() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    z = y * 3.0  # one root lies behind the other
    backward([y, z, y], [constant([1.0, 1.0]), constant([10.0, 10.0]), constant([5.0, 5.0])])
    assert values_of(x.grad).tolist() == [72.0, 72.0]


def test_a_leaf_as_root() -> None:
    x = leaf(3.0)
    x.backward()
    assert values_of(x.grad) == 1.0
    (found,) = grad(x, x)
    assert values_of(found) == 1.0


def test_retain_graph_allows_another_run() -> None:
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert values_of(x.grad) == 12.0


def test_second_backward_through_a_freed_graph() -> None:
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match=r"backward through the graph a second time") as caught:
        y.backward()
    text = str(caught.value)
    assert "[MultiplyBackward]" in text
    assert "Specify retain_graph=True" in text
    assert values_of(x.grad) == 6.0
    with pytest.raises(RuntimeError, match="a second time"):
        _ = y.grad_fn._saved_x1
    assert tk.is_grad_enabled()


def test_a_graph_that_saved_nothing_can_run_again() -> None:
    x = leaf(3.0)
    y = x + 1.0
    y.backward()
    y.backward()
    assert values_of(x.grad) == 2.0


def test_grad_frees_the_graph_too() -> None:
    x = leaf(3.0)
    y = x * x
    grad(y, x)
    with pytest.raises(RuntimeError, match="a second time"):
        grad(y, x)


def test_implicit_gradient_only_for_a_real_scalar() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"grad can be implicitly created only for scalar outputs, got shape \(2,\)"):
        (x * 2.0).backward()
    z = tk.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"implicitly created only for real scalar outputs, got dtype complex64"):
        (z * z).backward()
    (x[:1] * 2.0).backward()  # one element, whatever the number of dimensions
    assert values_of(x.grad).tolist() == [2.0, 0.0]


def test_a_tensor_without_gradient_has_no_backward() -> None:
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        constant(1.0).backward()
    x = leaf(1.0)
    with tk.no_grad():
        y = x * 2.0
    with pytest.raises(RuntimeError, match="does not require grad"):
        y.backward()
    assert x.grad is None


# ---- the function grad


def test_grad_accumulates_nothing() -> None:
    x, w = leaf(2.0), leaf(5.0)
    found_w, found_x = grad(x * x * w, [w, x])
    assert (values_of(found_w), values_of(found_x)) == (4.0, 20.0)
    assert x.grad is None
    assert w.grad is None


def test_grad_of_an_unused_input() -> None:
    x, other = leaf(2.0), leaf([1.0, 2.0])
    y = x * 3.0
    with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph: input 1.*allow_unused=True"):
        grad(y, [x, other], retain_graph=True)
    assert grad(y, [other], allow_unused=True, retain_graph=True) == (None,)
    _, zero = grad(y, [x, other], materialize_grads=True)
    assert values_of(zero).tolist() == [0.0, 0.0]
    assert zero is not None
    assert zero.dtype == other.dtype
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        grad(y, x, allow_unused=False, materialize_grads=True)


def test_grad_by_an_input_that_needs_none() -> None:
    x = leaf(2.0)
    with pytest.raises(RuntimeError, match=r"One of the differentiated Tensors does not require grad: input 0"):
        grad(x * 2.0, constant(1.0))
    with pytest.raises(TypeError, match=r"\[grad\] inputs are tensors or gradient edges, got float at index 0"):
        grad(x * 2.0, [1.0])
    with pytest.raises(RuntimeError, match=r"\[grad\] inputs argument cannot be empty"):
        grad(x * 2.0, [])
    with pytest.raises(TypeError, match=r"takes a tensor, a gradient edge or a sequence of them, got int"):
        grad(x * 2.0, 3)


def test_grad_by_intermediate_inputs() -> None:
    x = leaf([1.0, 2.0])
    middle = x * x
    y = (middle * middle * middle).sum()
    by_middle, by_x = grad(y, [middle, x])
    m = np.array([1.0, 4.0])
    np.testing.assert_allclose(values_of(by_middle), 3 * m**2)
    np.testing.assert_allclose(values_of(by_x), 3 * m**2 * 2 * np.array([1.0, 2.0]))


def test_grad_by_an_intermediate_leaves_what_lies_below_alone() -> None:
    x = leaf([1.0, 2.0])
    middle = x * x
    calls: list[Any] = []
    middle.grad_fn.register_hook(lambda *given: calls.append(given))
    grad((middle * middle).sum(), middle)
    assert calls == []  # the node of the input did not run, and what it saved is still there
    (by_x,) = grad(middle.sum(), x)
    np.testing.assert_allclose(values_of(by_x), [2.0, 4.0])


def test_grad_by_the_output_itself() -> None:
    y = leaf([1.0, 2.0]) * 2.0
    seed = constant([5.0, 7.0])
    (found,) = grad(y, y, seed)
    assert values_of(found).tolist() == [5.0, 7.0]


def test_grad_takes_the_same_input_twice() -> None:
    x = leaf(3.0)
    a, b = grad(x * x, [x, x])
    assert (values_of(a), values_of(b)) == (6.0, 6.0)


def test_gradient_edges_stand_for_tensors() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    edge = get_gradient_edge(y)
    assert isinstance(edge, GradientEdge)
    assert (edge.node, edge.output_nr) == (y.grad_fn, 0)
    z = (y * 3.0).sum()
    (by_edge,) = grad(z, edge, retain_graph=True)
    assert values_of(by_edge).tolist() == [3.0, 3.0]
    (by_leaf,) = grad(edge, get_gradient_edge(x), constant([1.0, 1.0]), retain_graph=True)
    assert values_of(by_leaf).tolist() == [2.0, 4.0]
    backward(edge, constant([1.0, 10.0]), inputs=[get_gradient_edge(x)])
    assert values_of(x.grad).tolist() == [2.0, 40.0]
    with pytest.raises(RuntimeError, match=r"\[get_gradient_edge\] the tensor does not require a gradient"):
        get_gradient_edge(constant(1.0))


def test_a_gradient_edge_needs_its_gradient() -> None:
    edge = get_gradient_edge(leaf(1.0) * 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        backward(edge)


# ---- backward into some inputs


def test_backward_into_some_inputs_only() -> None:
    x, w = leaf(2.0), leaf(5.0)
    y = x * w
    y.backward(inputs=[x], retain_graph=True)
    assert values_of(x.grad) == 5.0
    assert w.grad is None
    y.backward(inputs=w)
    assert values_of(w.grad) == 2.0
    assert values_of(x.grad) == 5.0


def test_backward_into_an_intermediate() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    (y * y).sum().backward(inputs=[y, x, y])
    assert values_of(y.grad).tolist() == [4.0, 8.0]
    assert values_of(x.grad).tolist() == [8.0, 16.0]


def test_backward_inputs_are_judged_before_anything_runs() -> None:
    x = leaf(2.0)
    y = x * x
    with pytest.raises(RuntimeError, match=r"\[backward\] inputs argument cannot be empty"):
        y.backward(inputs=[])
    with pytest.raises(RuntimeError, match=r"\[backward\] One of the differentiated Tensors does not require.*input 1"):
        y.backward(inputs=[x, constant(1.0)])
    with pytest.raises(TypeError, match=r"\[backward\] inputs are tensors or gradient edges, got str"):
        y.backward(inputs=["x"])
    with pytest.raises(RuntimeError, match=r"gradient edge inside the graph, which has no \.grad"):
        y.backward(inputs=[get_gradient_edge(y)])
    assert x.grad is None
    y.backward()  # the graph is still there
    assert values_of(x.grad) == 4.0


def test_backward_of_a_wrong_number_of_gradients() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"\[backward\] got 1 tensors and 2 gradients"):
        backward([x * 2.0], [constant([1.0, 1.0]), constant([1.0, 1.0])])
    with pytest.raises(RuntimeError, match=r"\[grad\] got 2 tensors and 1 gradients"):
        grad([x * 2.0, x * 3.0], x, [constant([1.0, 1.0])])


# ---- higher orders


def test_powers_of_every_order() -> None:
    x = leaf(1.5)
    value = x * x * x * x * x
    expected = 5.0
    for order in range(1, 6):
        (value,) = grad(value, x, create_graph=True)
        assert values_of(value) == pytest.approx(expected * 1.5 ** (5 - order))
        expected *= 5 - order


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (tk.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]),
        (tk.exp, [np.exp] * 4),
        (tk.log, [lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4]),
        (tk.reciprocal, [lambda x: -1 / x**2, lambda x: 2 / x**3, lambda x: -6 / x**4, lambda x: 24 / x**5]),
        (tk.sqrt, [lambda x: x**-0.5 / 2, lambda x: -(x**-1.5) / 4, lambda x: 3 * x**-2.5 / 8]),
        (tk.tanh, [lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)]),
        (lambda x: x**3, [lambda x: 3 * x**2, lambda x: 6 * x, lambda x: 6 + 0 * x]),
        (tk.square, [lambda x: 2 * x, lambda x: 2 + 0 * x]),
    ],
)
def test_orders_against_closed_forms(function: Callable[..., Tensor], derivatives: list[Callable[..., Any]]) -> None:
    points = np.array([0.4, 0.9, 1.7])
    x = leaf(points)
    value: Tensor | None = function(x)
    for derivative in derivatives:
        assert value is not None
        (value,) = grad(value.sum(), x, create_graph=True)
        np.testing.assert_allclose(values_of(value), derivative(points), rtol=1e-12)


def test_mixed_second_derivatives() -> None:
    x, y = leaf(0.7), leaf(1.3)
    value = tk.sin(x * y) * x
    dx, dy = grad(value, [x, y], create_graph=True)
    assert dx is not None
    assert dy is not None
    (dxy,) = grad(dx, y, retain_graph=True)
    (dyx,) = grad(dy, x)
    a, b = 0.7, 1.3
    expected = 2 * a * np.cos(a * b) - a**2 * b * np.sin(a * b)
    assert values_of(dxy) == pytest.approx(expected)
    assert values_of(dyx) == pytest.approx(expected)


def test_hessian_of_a_quadratic_form() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((3, 3))
    x = leaf(rng.standard_normal(3))
    value = (x * tk.squeeze(tk.matmul(constant(matrix), tk.expand_dims(x, 1)), 1)).sum()
    (first,) = grad(value, x, create_graph=True)
    assert first is not None
    rows = [values_of(grad(first[i], x, retain_graph=True)[0]) for i in range(3)]
    np.testing.assert_allclose(np.array(rows), matrix + matrix.T, rtol=1e-12)


def test_backward_with_create_graph_gives_a_gradient_with_history() -> None:
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad is not None
    assert x.grad.requires_grad
    (second,) = grad(x.grad, x)
    assert values_of(second) == 12.0
    x.grad = None  # x and its gradient refer to each other


def test_without_create_graph_the_gradient_has_no_history() -> None:
    x = leaf(2.0)
    (found,) = grad(x * x * x, x)
    assert found is not None
    assert not found.requires_grad
    assert found.grad_fn is None
    seed = leaf(1.0)
    (x * x).backward(seed)
    assert x.grad is not None
    assert not x.grad.requires_grad


def test_gradient_of_the_gradient_by_the_seed() -> None:
    x, seed = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (found,) = grad(x * x, x, seed, create_graph=True)
    assert found is not None
    (by_seed,) = grad(found.sum(), seed)
    assert values_of(by_seed).tolist() == [2.0, 4.0]


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


def test_a_python_number_as_factor_of_a_complex_tensor() -> None:
    z = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128, requires_grad=True)
    seed = tk.tensor([1j, 2.0], dtype=tk.complex128)
    for factor in (2.0, 1 - 3j):
        (found,) = grad(z * factor, z, seed)
        np.testing.assert_allclose(values_of(found), np.array([1j, 2.0]) * np.conj(factor))


def test_a_complex_gradient_for_a_real_output_is_refused() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"\[MultiplyBackward\] got a complex gradient for a real output.*index 0"):
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


# ---- what is saved


def test_only_named_tensors_are_saved() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    scaled = x * constant([5.0, 6.0])
    assert scaled.grad_fn._saved_x1 is None  # only the gradient of x is needed, and its formula names the factor
    assert values_of(scaled.grad_fn._saved_x2).tolist() == [5.0, 6.0]
    both = x * w
    assert both.grad_fn._saved_x1 is x
    assert both.grad_fn._saved_x2 is w
    total = x + w
    assert not [name for name in dir(total.grad_fn) if name.startswith("_saved_")]


def test_what_is_not_saved_is_freed() -> None:
    with collector_off():
        x = leaf([1.0, 2.0])
        middle = tk.exp(x) + 1.0  # neither the sum nor the product by a constant needs its values
        watched = weakref.ref(middle)
        out = middle * 3.0
        del middle
        assert watched() is None
        out.sum().backward()
    np.testing.assert_allclose(values_of(x.grad), 3 * np.exp([1.0, 2.0]))


def test_saved_output_makes_no_cycle() -> None:
    for run in (False, True):
        with collector_off():
            x = leaf([0.1, 0.2])
            y = tk.exp(x)
            out, node = weakref.ref(y), weakref.ref(y.grad_fn)
            assert y.grad_fn._saved_out is not y
            assert y.grad_fn._saved_out.grad_fn is y.grad_fn  # attached again, so that a second order exists
            if run:
                y.sum().backward(retain_graph=True)
            del y
            assert out() is None
            assert node() is None


def test_saved_tensors_are_released_by_backward() -> None:
    with collector_off():
        x = leaf([1.0, 2.0])
        inner = x * 1.0
        watched = weakref.ref(inner)
        y = (inner * inner).sum()
        del inner
        assert watched() is not None
        y.backward()
        assert watched() is None


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sqrt"])
def test_derivative_reuses_output(name: str) -> None:
    x = leaf([0.3, 0.7])
    y = getattr(tk, name)(x)
    assert not hasattr(y.grad_fn, "_saved_x")
    assert y.grad_fn._saved_out is not None
    y.sum().backward()
    derived = registry.operators.get(f"tk::{name}_vjp_x")
    if derived is not None:
        assert [argument.name for argument in derived.schema.arguments] == ["grad_output", "result"]
    v = np.array([0.3, 0.7])
    expected = {
        "exp": np.exp(v), "tanh": 1 - np.tanh(v) ** 2, "sigmoid": np.exp(-v) / (1 + np.exp(-v)) ** 2,
        "sqrt": 0.5 / np.sqrt(v),
    }[name]  # fmt: skip
    np.testing.assert_allclose(values_of(x.grad), expected, rtol=1e-12)


def test_a_modified_saved_tensor_is_found() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    with tk.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation") as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "[MultiplyBackward]" in text
    assert "saved tensor x2 of shape (2,), dtype float64 is at version 1; expected version 0" in text
    assert x.grad is None


# ---- who owns a gradient


def _backward_cases() -> list[tuple[str, Callable[[Tensor, Tensor], Tensor]]]:
    return [
        ("sum", lambda x, y: x + y),
        ("identity", lambda x, y: x + 0.0),
        ("view", lambda x, y: tk.reshape(x, (3, 2)) + tk.reshape(y, (3, 2))),
        ("transposed", lambda x, y: tk.permute_dims(x + y, (1, 0))),
        ("difference", lambda x, y: x - y),
        ("reused", lambda x, y: x + x + y),
        ("hooked", lambda x, y: _hooked(x) + y),
        ("squeezed", lambda x, y: tk.expand_dims(x, 0) + tk.expand_dims(y, 0)),
    ]


def _hooked(x: Tensor) -> Tensor:
    made = x + 0.0
    made.register_hook(lambda g: g)
    made.retain_grad()
    return made


@pytest.mark.parametrize(("name", "function"), _backward_cases())
def test_gradients_are_never_shared(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = leaf(np.ones((2, 3))), leaf(np.ones((2, 3)))
    out = function(x, y)
    out.retain_grad()
    seed = constant(np.arange(6.0).reshape(out.shape))
    before = seed.numpy().copy()
    out.backward(seed, retain_graph=True)
    first = {k: t.grad.numpy().copy() for k, t in (("x", x), ("y", y), ("out", out)) if t.grad is not None}
    owners = [t for t in (x.grad, y.grad, out.grad, seed) if t is not None]
    for i, one in enumerate(owners):
        for other in owners[i + 1 :]:
            assert not np.shares_memory(one.numpy(), other.numpy()), name
    out.backward(seed)  # accumulates in place
    np.testing.assert_array_equal(seed.numpy(), before)
    for key, tensor in (("x", x), ("y", y), ("out", out)):
        if key in first:
            np.testing.assert_array_equal(values_of(tensor.grad), 2 * first[key])


def test_the_gradient_given_is_never_changed() -> None:
    x = leaf([1.0, 2.0])
    seed = constant([1.0, 1.0])
    x.backward(seed)  # straight into the leaf
    assert x.grad is not seed
    x.backward(seed)
    (x + 0.0).backward(seed)
    y = x + 0.0
    y.backward(seed, inputs=[y])
    assert y.grad is not None
    y.grad.add_(100.0)
    assert values_of(x.grad).tolist() == [3.0, 3.0]
    assert seed.tolist() == [1.0, 1.0]
    assert seed._version == 0


def test_a_repeated_element_is_no_gradient_to_keep() -> None:
    x = leaf(np.ones((2, 3)))
    x.sum().backward()
    assert x.grad is not None
    x.grad[0, 0] = 5.0
    assert values_of(x.grad).tolist() == [[5.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_assigned_gradients_are_checked() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"assigned grad has shape \(3,\).*the tensor has shape \(2,\)"):
        x.grad = tk.zeros(3, dtype=tk.float64)
    with pytest.raises(RuntimeError, match=r"dtype float32"):
        x.grad = tk.zeros(2)
    with pytest.raises(TypeError, match=r"the gradient is a Tensor or None, got float"):
        x.grad = 1.0  # type: ignore[assignment]
    assert x.grad is None
    x.grad = constant([1.0, 1.0])
    (x * 2.0).sum().backward()
    assert values_of(x.grad).tolist() == [3.0, 3.0]
    del x.grad
    assert x.grad is None


# ---- wrong gradients


def test_a_seed_of_the_wrong_shape() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: gradient 0 .*\(3,\) and output 0 has a shape of \("):
        y.backward(tk.ones(3, dtype=tk.float64))
    with pytest.raises(TypeError, match=r"\[backward\] a gradient is a Tensor or None, got ndarray"):
        y.backward(np.ones(2))
    assert x.grad is None
    y.backward(tk.ones(2, dtype=tk.float64))
    assert values_of(x.grad).tolist() == [2.0, 4.0]


def test_a_seed_of_another_dtype_is_cast() -> None:
    x = leaf([1.0, 2.0], tk.float32)
    (x * 2.0).backward(constant([1.0, 2.0]))
    assert values_of(x.grad).dtype == np.float32
    assert values_of(x.grad).tolist() == [2.0, 4.0]


class _WrongShape(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return tk.ones((3,), dtype=tk.float64)


class _Larger(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return tk.ones((4, 2), dtype=tk.float32)


class _ComplexGradient(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 1j


class _NoTensor(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return 1.0


class _Raises(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise LookupError("deliberate")


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (
            _WrongShape,
            RuntimeError,
            r"\[_WrongShapeBackward\] returned an invalid gradient at index 0 - got \(3,\) but expected .* \(2,\).*sum",
        ),
        (_ComplexGradient, RuntimeError, r"\[_ComplexGradientBackward\] got a complex gradient.*index 0.*tk\.real"),
        (_NoTensor, TypeError, r"\[_NoTensorBackward\] got float as the gradient of index 0: a gradient is a"),
    ],
)
def test_a_wrong_gradient_names_the_node(function: type[Function], kind: type[Exception], text: str) -> None:
    x = leaf([1.0, 2.0])
    y = function.apply(x * 1.0)
    with pytest.raises(kind, match=text):
        y.sum().backward()
    assert x.grad is None
    assert tk.is_grad_enabled()
    (x * 3.0).sum().backward()
    assert values_of(x.grad).tolist() == [3.0, 3.0]


def test_a_larger_gradient_is_summed_and_cast() -> None:
    x = leaf([1.0, 2.0])
    _Larger.apply(x * 1.0).sum().backward()
    assert values_of(x.grad).tolist() == [4.0, 4.0]
    assert values_of(x.grad).dtype == np.float64


# ---- errors on the way


def test_an_error_in_a_node_keeps_its_type_and_traceback() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(LookupError, match="deliberate") as caught:
        _Raises.apply(x).sum().backward()
    frames = traceback.extract_tb(caught.tb)
    assert any(frame.name == "backward" and "test_autograd" in frame.filename for frame in frames)
    assert tk.is_grad_enabled()
    assert x.grad is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["tensor", "prehook", "hook", "leaf", "post"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_an_error_in_a_hook_leaves_the_state_as_it_was(
    error: type[BaseException], where: str, create_graph: bool
) -> None:
    x = leaf([1.0, 2.0])
    other = leaf([1.0, 1.0])
    y = x * other

    def fail(*given: Any) -> Any:
        raise error("stop")

    handle = {
        "tensor": lambda: y.register_hook(fail),
        "prehook": lambda: y.grad_fn.register_prehook(fail),
        "hook": lambda: y.grad_fn.register_hook(fail),
        "leaf": lambda: x.register_hook(fail),
        "post": lambda: x.register_post_accumulate_grad_hook(fail),
    }[where]()
    out = (y * 2.0).sum()
    for mode in (True, False):
        with tk.set_grad_enabled(mode):
            with pytest.raises(error, match="stop"):
                out.backward(retain_graph=True, create_graph=create_graph)
            assert tk.is_grad_enabled() is mode
    handle.remove()
    x.grad = other.grad = None
    out.backward()
    assert values_of(x.grad).tolist() == [2.0, 2.0]
    assert values_of(other.grad).tolist() == [2.0, 4.0]


def test_no_grad_around_backward_is_restored() -> None:
    x = leaf(2.0)
    y = x * x * x
    with tk.no_grad():
        (first,) = grad(y, x, create_graph=True)
        assert not tk.is_grad_enabled()
    assert first is not None
    assert first.requires_grad
    assert tk.is_grad_enabled()
    (second,) = grad(first, x)
    assert values_of(second) == 12.0


# ---- depth


def _chain(length: int) -> tuple[Tensor, Tensor, list[weakref.ref[Any]]]:
    x = leaf(1.0)
    y = x + 0.0
    nodes = []
    for i in range(length):
        y = y + 0.0
        if i % (length // 5) == 0:
            nodes.append(weakref.ref(y.grad_fn))
    return x, y, nodes


@pytest.mark.parametrize("run", [True, False])
def test_a_deep_graph_is_built_run_and_freed_without_recursion(run: bool) -> None:
    with collector_off():
        x, y, nodes = _chain(150_000)
        assert all(node() is not None for node in nodes)
        if run:
            y.backward()
            assert values_of(x.grad) == 1.0
        del y
        assert all(node() is None for node in nodes)


def test_a_deep_graph_with_saved_outputs_and_a_pruned_search() -> None:
    with collector_off():
        x = leaf(0.5)
        y = x * 1.0
        for _ in range(20_000):
            y = tk.tanh(y) * y
        watched = weakref.ref(y.grad_fn)
        (found,) = grad(y, x)
        assert found is not None
        assert np.isfinite(values_of(found))
        del y, found
        assert watched() is None


class _Passed(_Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def test_a_deep_graph_of_functions() -> None:
    with collector_off():
        x = leaf(1.0)
        y = x
        for _ in range(20_000):
            y = _Passed.apply(y)
        watched = weakref.ref(y.grad_fn)
        y.backward()
        assert values_of(x.grad) == 1.0
        del y
        assert watched() is None


# ---- threads


def test_concurrent_backwards_sum_exactly() -> None:
    shared = leaf(np.zeros(64))
    together = shared * 1.0 + 0.0  # one graph for all threads, beside one of each
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(factor: float) -> None:
        try:
            start.wait()
            for _ in range(50):
                (shared * factor).sum().backward()
                together.backward(tk.ones(64, dtype=tk.float64), retain_graph=True)
        except BaseException as error:  # handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(float(i + 1),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert values_of(shared.grad).tolist() == [50.0 * (1 + 2 + 3 + 4) + 200.0] * 64


def test_backward_inside_backward() -> None:
    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            with tk.enable_grad():
                own = x.detach().requires_grad_()
                (found,) = grad(own * own * own, own)
            assert not tk.is_grad_enabled()
            return grads[0] * found

    x = leaf(2.0)
    Nested.apply(Nested.apply(x)).backward()
    assert values_of(x.grad) == pytest.approx(9 * 2.0**8)


def test_a_leaf_and_its_accumulator_make_no_cycle() -> None:
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        y = (x * 2.0).sum()
        accumulator = weakref.ref(y.grad_fn.next_functions[0][0].next_functions[0][0])
        y.backward(retain_graph=True)
        assert accumulator().variable is x
        gone = weakref.ref(x)
        del x
        assert gone() is None
        y.backward()  # nobody could see the gradient: nothing is done, and nothing fails
        assert accumulator().variable is None
        del y
        assert accumulator() is None
    finally:
        gc.enable()


def test_a_hook_after_accumulation_keeps_its_leaf() -> None:
    seen: list[list[float]] = []
    x = leaf([1.0, 2.0])
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y = (x * 2.0).sum()
    del x
    y.backward()
    assert seen == [[2.0, 2.0]]


def test_a_number_is_not_freed() -> None:
    x = leaf([1.0, 2.0])
    y = (x * 2.0).sum()
    y.backward()
    y.backward()
    assert values_of(x.grad).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("name", ["data", "node", "meta", "number", "saved", "inner", "new", "Meta", "NodeClass", "t"])
def test_arguments_called_like_what_the_kernel_uses(name: str) -> None:
    cube = tk.library.pointwise(f"clash::cube_{name}(Tensor {name}) -> Tensor", scalar=lambda T: lambda x: x * x * x)
    x = leaf([2.0])
    cube(x).sum().backward()
    assert values_of(x.grad).tolist() == [12.0]


@pytest.mark.parametrize("name", ["g", "out", "x_meta"])
def test_arguments_called_like_a_role_are_refused(name: str) -> None:
    with pytest.raises(tk.dispatch.RegistrationError, match=f"the argument '{name}' cannot be called so"):
        tk.library.pointwise(f"clash::role(Tensor {name}) -> Tensor", scalar=lambda T: lambda x: x * x)


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


def test_gradients_that_a_function_or_a_hook_keeps_are_not_taken() -> None:
    kept = [tk.tensor([5.0]), tk.tensor([7.0])]

    class Two(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return kept[0], kept[1]

    a, b = tk.tensor([1.0], requires_grad=True), tk.tensor([1.0], requires_grad=True)
    for _ in range(2):
        Two.apply(a, b).sum().backward()
    assert [t.tolist() for t in kept] == [[5.0], [7.0]]
    assert (a.grad.tolist(), b.grad.tolist()) == ([10.0], [14.0])

    mine = tk.tensor([9.0])
    w = tk.tensor([1.0], requires_grad=True)
    w.register_hook(lambda g: mine)
    for _ in range(2):
        (w * 2.0).sum().backward()
    assert (mine.tolist(), w.grad.tolist()) == ([9.0], [18.0])

    held: list[Any] = []
    v, u = tk.tensor([2.0], requires_grad=True), tk.tensor([3.0], requires_grad=True)
    for one in (v, u):
        one.register_hook(lambda g: held.append(g))
    (v * u).sum().backward()
    assert all(t.grad is not h for t in (v, u) for h in held)


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
