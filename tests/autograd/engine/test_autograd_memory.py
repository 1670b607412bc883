"""What the engine saves, who owns a gradient, and what is freed: cycles, deep graphs, threads."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad
from tenkey.dispatch import registry
from tests._gradients import Identity, collector_off, constant, leaf, values_of

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
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x
    with pytest.raises(
        RuntimeError, match=r"different size: the assigned grad has shape \(3,\).*the tensor has shape \(2,\)"
    ):
        x.grad = tk.zeros(3, dtype=tk.float64)
    with pytest.raises(RuntimeError, match=r"dtype float32"):
        x.grad = tk.zeros(2)
    with pytest.raises(TypeError, match=r"a Tensor or None but got grad of type float"):
        x.grad = 1.0  # type: ignore[assignment]
    assert x.grad is None
    x.grad = constant([1.0, 1.0])
    (x * 2.0).sum().backward()
    assert values_of(x.grad).tolist() == [3.0, 3.0]
    del x.grad
    assert x.grad is None


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


class _Passed(Identity):
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


# ---- leaves and the gradients that others hold


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
