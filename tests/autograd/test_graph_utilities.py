"""tk.autograd.graph apart from hooks on saved tensors: mutation, versions, edges, hooks on several gradients."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import graph


def leaf(*values: float) -> Any:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


class TestAllowMutation:
    def test_a_saved_tensor_is_copied_before_it_is_changed(self) -> None:
        a = leaf(1.0, 2.0)
        with graph.allow_mutation_on_saved_tensors():
            b = a.clone()
            y = tk.sum(b * b)
            b.sin_()
            y.backward(retain_graph=True)
            np.testing.assert_array_equal(a.grad.numpy(), [2.0, 4.0])
            a.grad = None
            tk.sum(b * 1.0).backward()
            np.testing.assert_allclose(a.grad.numpy(), np.cos([1.0, 2.0]))

    def test_copies_are_let_go_of_too(self) -> None:
        a = leaf(1.0, 2.0)
        with graph.allow_mutation_on_saved_tensors() as state:
            b = a.clone()
            y, z = tk.sum(b * b), tk.sum(b * b)
            b.sin_()
            state.clear()
            with pytest.raises(RuntimeError, match="Trying to backward outside of the 'allow_mutation_on_saved"):
                y.backward()
        with pytest.raises(RuntimeError, match="Trying to backward outside of the 'allow_mutation_on_saved"):
            z.backward()

    def test_without_it_the_same_is_an_error(self) -> None:
        b = leaf(1.0).clone()
        y = tk.sum(b * b)
        b.sin_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_changes_through_views_and_by_assignment_and_out(self) -> None:
        a = leaf(1.0, 2.0, 3.0)
        with graph.allow_mutation_on_saved_tensors():
            y = tk.sum(a * a)
            with tk.no_grad():
                a[1:].multiply_(100.0)
                a[0] = -5.0
            y.backward()
            np.testing.assert_array_equal(a.grad.numpy(), [2.0, 4.0, 6.0])
            c = tk.ones(3, dtype=tk.float64)
            y = tk.sum(tk.exp(a * 0.0) * c)
            tk.ops.tk.add(c, c, out=c)
            a.grad = None
            y.backward()
            np.testing.assert_array_equal(a.grad.numpy(), [0.0, 0.0, 0.0])
            y = tk.sum(a * c)
            tk.ops.tk.add(c, c, out=c)
            a.grad = None
            y.backward()
            np.testing.assert_array_equal(a.grad.numpy(), [2.0, 2.0, 2.0])

    def test_changes_that_are_recorded_themselves(self) -> None:
        x, w = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
        with graph.allow_mutation_on_saved_tensors():
            b = x * 1.0
            before = tk.sum(b * b)
            b[1:].multiply_(w[1:])
            after = tk.sum(b * b)
            (g,) = tk.autograd.grad(before, x, retain_graph=True)
            np.testing.assert_array_equal(g.numpy(), [2.0, 4.0, 6.0])
            by_x, by_w = tk.autograd.grad(after, (x, w))
        np.testing.assert_array_equal(by_x.numpy(), [2.0, 2 * 2.0 * 25.0, 2 * 3.0 * 36.0])
        np.testing.assert_array_equal(by_w.numpy(), [0.0, 2 * 5.0 * 4.0, 2 * 6.0 * 9.0])

    def test_changed_twice_it_is_copied_once_and_as_it_was(self) -> None:
        a = leaf(3.0)
        with graph.allow_mutation_on_saved_tensors():
            b = a.clone()
            first = tk.sum(b * b)
            b.add_(1.0)
            second = tk.sum(b * b)
            b.add_(1.0)
            kept: Any = first.grad_fn.next_functions[0][0]
            copy = kept.saved_x1.packed_value.value.tensor
            b.add_(1.0)
            assert kept.saved_x1.packed_value.value.tensor is copy
            (g1,) = tk.autograd.grad(first, a, retain_graph=True)
            (g2,) = tk.autograd.grad(second, a)
        assert (g1.item(), g2.item()) == (6.0, 8.0)

    def test_what_is_not_changed_is_not_copied(self) -> None:
        a = leaf(3.0)
        with graph.allow_mutation_on_saved_tensors():
            y = tk.exp(a)
            assert tk.shares_storage(y.grad_fn._saved_out, y)
            tk.sum(y).backward()

    def test_of_a_function(self) -> None:
        class Square(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return 2 * g * ctx.saved_tensors[0]

        a = leaf(3.0)
        with graph.allow_mutation_on_saved_tensors():
            y = tk.sum(Square.apply(a))
            with tk.no_grad():
                a.multiply_(0.0)
            y.backward()
        np.testing.assert_array_equal(a.grad.numpy(), [6.0])

    def test_after_the_end_it_is_freed_and_an_error(self) -> None:
        a = leaf(1.0)
        with graph.allow_mutation_on_saved_tensors():
            b = a.clone()
            y = tk.exp(b)
            b.add_(1.0)
            kept = y.grad_fn.saved_out.packed_value.value
            held = weakref.ref(kept.tensor)
        gc.disable()
        try:
            assert held() is None
        finally:
            gc.enable()
        with pytest.raises(RuntimeError, match="outside of the 'allow_mutation_on_saved_tensors' context in which"):
            tk.sum(y).backward()
        with (
            graph.allow_mutation_on_saved_tensors(),  # nor in another one
            pytest.raises(RuntimeError, match="in which the graph was originally recorded"),
        ):
            tk.sum(y).backward()

    def test_clear_nesting_and_exceptions(self) -> None:
        a = leaf(1.0)
        with graph.allow_mutation_on_saved_tensors() as state:
            y = tk.exp(a)
            state.clear()
            with pytest.raises(RuntimeError, match=r"^\[allow_mut.*\] Trying to backward outside .*: "):
                tk.sum(y).backward()
            with (
                pytest.raises(RuntimeError, match=r"^\[allow_mutation_on_saved_tensors\] .* cannot be nested: "),
                graph.allow_mutation_on_saved_tensors(),
            ):
                pass
            tk.sum(tk.exp(a)).backward()  # the refused one left this one on
        with pytest.raises(KeyError), graph.allow_mutation_on_saved_tensors():
            raise KeyError
        with graph.allow_mutation_on_saved_tensors():
            pass
        b = a * 1.0
        y = tk.sum(b * b)
        b.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


class TestIncrementVersion:
    def test_formulas_refuse_after_it(self) -> None:
        a, w = leaf(1.0), leaf(2.0)
        y = tk.sum(a * w)
        graph.increment_version(w)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_views_share_the_counter_and_several_may_be_given(self) -> None:
        x, y = tk.ones((2, 2)), tk.ones(2)
        row = x[0]
        graph.increment_version([row, y])
        assert (x._version, row._version, y._version) == (1, 1, 1)
        graph.increment_version(t for t in (x, y))
        assert (row._version, y._version) == (2, 2)

    def test_errors(self) -> None:
        x = tk.ones(2)
        with pytest.raises(TypeError, match="takes a tensor or several, got int"):
            graph.increment_version(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="takes a tensor or several, got str"):
            graph.increment_version([x, "y"])  # type: ignore[list-item]
        assert x._version == 0
        with tk.inference_mode():
            z = tk.ones(2)
        with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
            graph.increment_version(z)


def test_contexts_as_decorators() -> None:
    graph, fw = tk.autograd.graph, tk.autograd.forward_ad

    @graph.disable_saved_tensors_hooks("none of these")
    def saves() -> None:
        with graph.save_on_cpu():
            pass

    for _ in range(2):
        with pytest.raises(RuntimeError, match="none of these"):
            saves()
    with graph.save_on_cpu():
        pass

    @graph.allow_mutation_on_saved_tensors()
    def slope(x: Any) -> Any:
        y = x * 1.0
        loss = tk.sum(y * y)
        y.multiply_(5.0)
        return tk.autograd.grad(loss, x)[0]

    x = tk.tensor([1.0, 2.0], requires_grad=True)
    assert [slope(x).tolist() for _ in range(2)] == [[2.0, 4.0]] * 2

    @fw.dual_level()
    def pushed(x: Any, times: int) -> Any:
        inner = pushed(x, times - 1) if times else x * 0.0
        return fw.unpack_dual(fw.make_dual(x, x) ** 2).tangent + inner

    assert pushed(x.detach(), 2).tolist() == [6.0, 24.0]
