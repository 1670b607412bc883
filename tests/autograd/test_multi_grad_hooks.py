"""register_multi_grad_hook, get_gradient_edge: hooks on several gradients, and places in the graph."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import graph
from tenkey.autograd.graph import register_multi_grad_hook


def leaf(*values: float) -> Any:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def defined(grads: Any) -> list[bool]:
    return [g is not None for g in grads]


class TestAll:
    def test_the_example_of_pytorch(self) -> None:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        c, d = a * b, a * b
        calls: list[Any] = []
        register_multi_grad_hook((a, b, c, d), lambda grads: calls.append(defined(grads)))
        c.sum().backward(retain_graph=True)
        c.sum().backward(inputs=(a,), retain_graph=True)
        tk.autograd.grad(c.sum(), a, retain_graph=True)
        assert calls == [[True, True, True, False], [True, False, True, False], [True, False, True, False]]

    def test_the_gradients_are_complete(self) -> None:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        seen: list[Any] = []
        register_multi_grad_hook([b, a], seen.extend)
        (a * b + a * 2.0).sum().backward()
        np.testing.assert_array_equal(seen[0].numpy(), [1.0, 2.0])
        np.testing.assert_array_equal(seen[1].numpy(), [5.0, 6.0])

    def test_once_for_each_backward_and_removed(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        calls: list[Any] = []
        handle = register_multi_grad_hook((a, b, a), lambda grads: calls.append([g.item() for g in grads]))
        y = (a * b).sum()
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)
        assert calls == [[2.0, 1.0, 2.0]] * 2
        handle.remove()
        handle.remove()
        y.backward(retain_graph=True)
        assert len(calls) == 2
        with register_multi_grad_hook((a,), lambda grads: calls.append(grads)):
            y.backward(retain_graph=True)
        y.backward()
        assert len(calls) == 3

    def test_backward_in_a_backward_has_a_count_of_its_own(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        calls: list[Any] = []
        register_multi_grad_hook((a, b), lambda grads: calls.append(defined(grads)))

        class Inner(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1.0

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                with tk.enable_grad():
                    (a * 3.0).sum().backward()
                return g

        (Inner.apply(a) * b).sum().backward()
        assert calls == [[True, False], [True, True]]

    def test_a_formula_that_gives_none(self) -> None:
        class First(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                return x * y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g, None

        a, b = leaf(1.0), leaf(2.0)
        calls: list[Any] = []
        handle = register_multi_grad_hook((a, b), lambda grads: calls.append([g and g.item() for g in grads]))
        y = First.apply(a, b)
        y.sum().backward(retain_graph=True)
        y.sum().backward(retain_graph=True)
        assert calls == [[1.0, None]] * 2
        (y * b).sum().backward(retain_graph=True)  # the gradient of b comes from elsewhere: once, and at its time
        assert calls[2:] == [[2.0, 2.0]]
        handle.remove()
        y.sum().backward()
        assert len(calls) == 3

    def test_an_exception_in_the_hook(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        calls: list[Any] = []

        def hook(grads: Any) -> None:
            calls.append(defined(grads))
            if len(calls) == 1:
                raise KeyError("hook")

        register_multi_grad_hook((a, b), hook)
        with pytest.raises(KeyError, match="hook"):
            (a * b).sum().backward()
        (a * b).sum().backward()
        assert calls == [[True, True]] * 2

    def test_concurrent_backwards(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        calls: list[Any] = []
        register_multi_grad_hook((a, b), lambda grads: calls.append(defined(grads)))

        def run() -> None:
            for _ in range(50):
                tk.autograd.grad((tk.exp(a) * b).sum(), (a, b))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert calls == [[True, True]] * 200

    def test_nothing_is_kept(self) -> None:
        gc.collect()
        gc.disable()
        try:
            a = leaf(1.0)
            b = a * 2.0
            kept: list[Any] = []
            register_multi_grad_hook((a, b), lambda grads: kept.append(weakref.ref(grads[1])))
            (b * b).sum().backward()
            assert kept[0]() is None
            reference = weakref.ref(b.grad_fn)
            del b
            assert reference() is None  # the hook is on a as well, which lives on
        finally:
            gc.enable()


class TestAny:
    def test_the_first_gradient_of_each_backward(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        c = a * b
        d = c * 5.0
        calls: list[float] = []
        register_multi_grad_hook((a, c, tk.ones(1), b), lambda grad: calls.append(grad.item()), mode="any")
        d.sum().backward(retain_graph=True)
        d.sum().backward(retain_graph=True)
        (a * 7.0).sum().backward()
        assert calls == [5.0, 5.0, 7.0]


class TestErrors:
    def test_arguments(self) -> None:
        a = leaf(1.0)
        with pytest.raises(ValueError, match="Expects mode to be one of"):
            register_multi_grad_hook((a,), print, mode="some")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="put it into a list"):
            register_multi_grad_hook(a, print)
        with pytest.raises(TypeError, match="got int at index 1"):
            register_multi_grad_hook((a, 3), print)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="takes a sequence of tensors, got int"):
            register_multi_grad_hook(3, print)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a hook must be callable, got int"):
            register_multi_grad_hook((a,), 3)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
            register_multi_grad_hook((a, tk.ones(1)), print)
        assert (a * 2).sum().backward() is None  # the refused one left no hook on a


class TestGradientEdges:
    def test_they_stand_for_tensors(self) -> None:
        a = leaf(1.0, 2.0)
        b = a * 3.0
        edge = graph.get_gradient_edge(b)
        assert isinstance(edge, graph.GradientEdge)
        assert isinstance(edge.node, graph.Node)
        assert edge.node is b.grad_fn
        (g,) = tk.autograd.grad((b * b).sum(), edge)
        np.testing.assert_array_equal(g.numpy(), [6.0, 12.0])
        tk.autograd.backward(edge, tk.ones(2, dtype=tk.float64))
        np.testing.assert_array_equal(a.grad.numpy(), [3.0, 3.0])
        of_leaf = graph.get_gradient_edge(a)
        assert of_leaf == graph.get_gradient_edge(a)

    def test_errors(self) -> None:
        with pytest.raises(RuntimeError, match="get the gradient edge for a Tensor that does not require grad"):
            graph.get_gradient_edge(tk.ones(2))
        with pytest.raises(TypeError, match="takes a tensor, got int"):
            graph.get_gradient_edge(3)  # type: ignore[arg-type]
