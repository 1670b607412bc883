"""The engine: shape of the graph, order, accumulation, gradients by some inputs, higher orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, backward, grad
from tenkey.autograd.graph import GradientEdge, get_gradient_edge
from tenkey.autograd.tape.node import DelayedError, record_node, walk
from tests._gradients import constant, leaf, values_of

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


def test_walk_meets_each_node_once_nearest_first() -> None:
    x = leaf(1.0)
    a = x * 2.0
    b, c = a * 3.0, a * 4.0
    top = b + c
    found = list(walk(top.grad_fn, None, top.grad_fn))
    assert found == [t.grad_fn for t in (top, b, c, a)] + [a.grad_fn.next_functions[0][0]]
    assert list(walk(None)) == []


def test_a_delayed_error_is_raised_by_the_gradient_that_reaches_it() -> None:
    x, out = leaf(1.0), constant(2.0)
    node = DelayedError(KeyError, "late", "LateBackward")
    record_node(node, (get_gradient_edge(x),), [out])
    assert out.requires_grad
    assert out.grad_fn is node
    assert node.name() == "LateBackward"
    assert node.topological_nr == 1
    with pytest.raises(KeyError, match="late"):
        (out * 3.0).backward()


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
    with pytest.raises(RuntimeError, match=r"implicitly created only for real scalar outputs but got dtype complex64"):
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
    with pytest.raises(TypeError, match=r"all inputs have to be Tensors or GradientEdges, but got float at index 0"):
        grad(x * 2.0, [1.0])
    with pytest.raises(RuntimeError, match=r"\[grad\] `inputs` argument to `.*` cannot be empty"):
        grad(x * 2.0, [])
    with pytest.raises(TypeError, match=r"takes a tensor, a gradient edge, or lists, .* of them, got int"):
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
    with pytest.raises(RuntimeError, match=r"\[get_gradient_edge\] It is not possible to get the gradient edge"):
        get_gradient_edge(constant(1.0))


def test_a_gradient_edge_needs_its_gradient_unless_it_is_a_scalars() -> None:
    edge = get_gradient_edge(leaf([1.0, 2.0]) * 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        backward(edge)
    x = leaf(1.0)
    backward(get_gradient_edge(x * 2.0))
    assert values_of(x.grad) == 2.0


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


def test_backward_into_a_tensor_that_retains_its_gradient_adds_once() -> None:
    """As in PyTorch 2.13, where this gives 3 and then 6."""
    x = tk.ones(2).requires_grad_()
    inner = x * 2
    inner.retain_grad()
    y = tk.sum(inner * 3)
    for times in (1, 2):
        y.backward(inputs=[inner, x], retain_graph=True)
        assert inner.grad.tolist() == [3 * times] * 2
        assert x.grad.tolist() == [6 * times] * 2


def test_backward_inputs_are_judged_before_anything_runs() -> None:
    x = leaf(2.0)
    y = x * x
    with pytest.raises(RuntimeError, match=r"\[backward\] `inputs` argument to `.*` cannot be empty"):
        y.backward(inputs=[])
    with pytest.raises(RuntimeError, match=r"\[backward\] One of the differentiated Tensors does not require.*input 1"):
        y.backward(inputs=[x, constant(1.0)])
    with pytest.raises(TypeError, match=r"\[backward\] all inputs have to be Tensors or GradientEdges, but got str"):
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


# ---- runs within runs


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
