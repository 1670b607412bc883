"""The engine: what runs, in which order, how gradients are summed, backward inside of backward, callbacks, errors."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad
from tenkey.autograd.engine.graph_task import mark_needed
from tenkey.autograd.graph import queue_callback
from tenkey.autograd.tape.node import AccumulateGrad
from tests.autograd._calls import Calls


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def ones(*shape: int) -> Tensor:
    return tk.ones(shape, dtype=tk.float64)


def noted(x: Tensor, log: list[str], name: str) -> Tensor:
    def note(g: Tensor) -> Tensor:
        log.append(name)
        return g

    return Calls.apply(x, note)  # type: ignore[no-any-return]


class TestOrder:
    def test_of_ready_nodes_the_later_recorded_runs_first(self) -> None:
        log: list[str] = []
        x = leaf(1.0)
        first = noted(x, log, "first")
        second = noted(x, log, "second")
        third = noted(first, log, "third")
        (first * 2.0 + second + third).backward()
        assert log == ["third", "second", "first"]

    def test_an_accumulator_runs_before_other_ready_nodes(self) -> None:
        log: list[str] = []
        x, w = leaf(1.0), leaf(1.0)
        w.register_hook(lambda g: log.append("leaf"))
        y = noted(x, log, "below")
        (y * w).backward()
        assert log == ["leaf", "below"]

    def test_of_ready_nodes_those_of_the_innermost_backward_run_first(self) -> None:
        log: list[str] = []

        def inner(g: Tensor) -> Tensor:
            log.append("outer")
            u = leaf(1.0)
            with tk.enable_grad():
                v = noted(noted(u, log, "inner 1"), log, "inner 2")
            v.backward()
            return g

        x = leaf(1.0)
        waiting = noted(x, log, "waiting")
        (waiting + Calls.apply(x, inner)).backward()
        assert log == ["outer", "inner 2", "inner 1", "waiting"]


class TestWhatRuns:
    def test_grad_runs_the_path_to_its_inputs_only(self) -> None:
        log: list[str] = []
        x, w = leaf(1.0), leaf(1.0)
        a = noted(x, log, "a")
        b = noted(a, log, "b")
        other = noted(w, log, "other")
        y = noted(b * other, log, "top")
        assert grad(y, b, retain_graph=True)[0].item() == 1.0
        assert log == ["top"]
        log.clear()
        y.backward(inputs=[x], retain_graph=True)
        assert log == ["top", "b", "a"]
        assert w.grad is None
        log.clear()
        assert [g.item() for g in grad(y, [other, a])] == [1.0, 1.0]
        assert log == ["top", "b"]  # `a` and `other` are asked for themselves, so they do not run

    def test_the_search_goes_no_deeper_than_the_shortest_path_of_an_input(self) -> None:
        class Trap(tuple):  # type: ignore[type-arg]  # noqa: SLOT001  # it lives for a moment
            def __iter__(self) -> Any:
                raise AssertionError("this node cannot lead to what is asked for")

        x = leaf(1.0)
        y = x
        for _ in range(100):
            y = y * 1.0
        target = y * 1.0
        short = x * 1.0
        z = target + short
        assert (target.grad_fn.topological_nr, short.grad_fn.topological_nr) == (101, 1)  # known from now on
        short.grad_fn.next_edges = Trap(short.grad_fn.next_edges)
        y.grad_fn.next_edges = Trap(y.grad_fn.next_edges)
        assert mark_needed([z.grad_fn], {target.grad_fn}) == {z.grad_fn, target.grad_fn}
        assert grad(z, target)[0].item() == 1.0

    def test_gradients_of_intermediates_and_of_what_lies_below_them(self) -> None:
        x = leaf(2.0)
        y = x * x
        z = y * y
        dy, dx = grad(z, [y, x], retain_graph=True)
        assert (dy.item(), dx.item()) == (8.0, 32.0)
        z.backward(inputs=[y, x])
        assert x.grad is not None
        assert y.grad is not None
        assert (y.grad.item(), x.grad.item()) == (8.0, 32.0)


class TestSums:
    def test_contributions_are_summed_and_no_shared_one_is_written_to(self) -> None:
        seen: list[Tensor] = []
        x = leaf(np.ones(3))
        parts = [x * 1.0 for _ in range(4)]
        for part in parts:
            part.register_hook(lambda g: seen.append(g))
        given = tk.asarray([1.0, 2.0, 3.0], dtype=tk.float64)
        total = parts[0] + parts[1] + parts[2] + parts[3]
        total.backward(given)
        assert x.grad is not None
        assert x.grad.tolist() == [4.0, 8.0, 12.0]
        assert given.tolist() == [1.0, 2.0, 3.0]
        assert all(g.tolist() == [1.0, 2.0, 3.0] for g in seen)

    def test_a_gradient_that_a_function_keeps_is_not_written_to(self) -> None:
        kept = tk.asarray([1.0, 1.0], dtype=tk.float64)
        x = leaf([0.0, 0.0])
        y = x * 1.0
        out = Calls.apply(y, lambda g: kept) + Calls.apply(y, lambda g: kept) + y * 2.0 + y * 3.0
        out.backward(ones(2))
        assert kept.tolist() == [1.0, 1.0]
        assert x.grad is not None
        assert x.grad.tolist() == [7.0, 7.0]

    def test_a_sum_is_made_in_place_in_memory_of_the_engine_alone(self) -> None:
        operator = tk.ops.tk.accumulate
        x, y = tk.ones(3), tk.ones(3)
        assert operator(x, y, False).tolist() == [2.0, 2.0, 2.0]
        assert x.tolist() == [1.0, 1.0, 1.0]
        assert operator(x, y, True) is x
        assert (x.tolist(), x._version) == ([2.0, 2.0, 2.0], 0)
        big = tk.ones(1 << 16)
        assert operator(big, big, False).tolist()[:1] == [2.0]

    @pytest.mark.filterwarnings("error")
    def test_sums_of_infinities_are_quiet(self) -> None:
        x = leaf([1.0])
        inf = tk.asarray([np.inf], dtype=tk.float64)
        parts = [Calls.apply(x, lambda g, sign=sign: inf * sign) for sign in (1.0, 1.0, -1.0)]
        (parts[0] + parts[1] + parts[2]).sum().backward()
        assert x.grad is not None
        assert np.isnan(x.grad.item())

    def test_nothing_is_in_place_while_the_backward_is_recorded(self) -> None:
        x = leaf([2.0])
        y = x * x + x * x + x * x
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x)
        assert (first.item(), second.item()) == (12.0, 6.0)

    def test_parts(self) -> None:
        weight = np.random.default_rng(0).standard_normal((4, 3, 6))
        whole, rest = (slice(None),), slice(None, None, 2)
        parts = [(1,), (..., slice(1, 3)), (0, 2), (whole[0], -1, rest), (..., None, 5), (0,), whole, (slice(2, 2),)]
        for first in (None, "sum"):  # whether the first gradient to arrive is that of a part
            x = leaf(weight)
            y = x * 2.0
            total = (y * weight).sum()
            for k, part in enumerate(parts):
                total = total + (y[part] * float(k + 1)).sum()
            row = y[1:3, 0]
            total = total + (row * row).sum() + tk.unstack(y)[3].sum() + tk.split(y, [2, 3], axis=2)[1].sum()
            if first is not None:
                total = total + (y * 3.0).sum()
            (found,) = grad(total, x, retain_graph=True)
            (recorded,) = grad(total, x, create_graph=True)  # in which nothing is added in place
            expected = 2 * weight + (0 if first is None else 6.0)
            for k, part in enumerate(parts):
                expected[part] += 2.0 * (k + 1)
            expected[1:3, 0] += 8.0 * weight[1:3, 0]
            expected[3] += 2.0
            expected[:, :, 2:3] += 2.0
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
            np.testing.assert_allclose(recorded.detach().numpy(), expected, rtol=1e-14)

    def test_parts_where_sums_are_not_in_place(self) -> None:
        pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes")
        x = tk.ones((2, 3)).astype("bfloat16").requires_grad_()
        y = x * 1.0
        (y[0] * 2.0 + y[1] * 3.0 + y[:, 1].sum() + y[0]).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [[3.0, 6.0, 3.0], [3.0, 6.0, 3.0]]

    def test_the_gradient_of_a_part_that_is_seen_is_not_written_to(self) -> None:
        seen: list[list[float]] = []
        x = leaf([1.0, 2.0, 3.0])
        y = x * 1.0
        y.register_hook(lambda g: seen.append(g.tolist()))
        z = y * 1.0
        given = tk.asarray([5.0, 7.0], dtype=tk.float64)
        tk.autograd.backward([z[1:], z[:2], z[0], y[2]], [given, given, tk.asarray(1.0, dtype=tk.float64), given[0]])
        assert x.grad is not None
        assert x.grad.tolist() == [6.0, 12.0, 12.0]
        assert (seen, given.tolist()) == ([[6.0, 12.0, 12.0]], [5.0, 7.0])

    def test_an_output_of_several(self) -> None:
        x = leaf([1.0, 2.0, 3.0])
        a, b = tk.unstack(tk.reshape(tk.concat([x, x]), (2, 3)))
        (a * 2.0 + b * 3.0 + a * 5.0).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [10.0, 10.0, 10.0]


class TestAccumulation:
    def test_the_counts_of_a_fresh_gradient_are_the_same_on_both_ways(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counts: list[int] = []
        monkeypatch.setattr(AccumulateGrad, "accumulate", lambda self, grad, references: counts.append(references))
        for special in (False, True):
            x = leaf(1.0)
            y = Calls.apply(x, lambda g: ones())
            y.grad_fn.next_functions[0][0]._special = special
            y.backward()
        monkeypatch.undo()
        x = leaf(1.0)
        assert counts == [AccumulateGrad.fresh_count] * 2
        first = ones()
        data = first._data

        def fresh(g: Tensor) -> Tensor:
            nonlocal first
            given, first = first, None  # type: ignore[assignment]
            return given

        Calls.apply(x, fresh).backward()
        assert x.grad is not None
        assert x.grad._data is not data  # the array is held here, so it was copied

    def test_an_array_of_the_users_is_not_taken(self) -> None:
        mine = np.ones(2)
        x = leaf([1.0, 1.0])
        for _ in range(2):
            Calls.apply(x, lambda g: tk.asarray(mine, copy=False)).backward(ones(2))
        assert mine.tolist() == [1.0, 1.0]
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0]

    def test_in_place_but_out_of_place_under_create_graph(self) -> None:
        x = leaf([1.0])
        (x * 2.0).sum().backward()
        first = x.grad
        assert first is not None
        (x * 2.0).sum().backward()
        assert x.grad is first
        assert first.tolist() == [4.0]
        (x * 2.0).sum().backward(create_graph=True)
        assert x.grad is not first
        assert first.tolist() == [4.0]
        assert x.grad is not None
        assert x.grad.tolist() == [6.0]

    def test_backwards_of_many_threads_sum_exactly(self) -> None:
        x = leaf(np.zeros(8))
        shared = (x * 3.0).sum()
        barrier = threading.Barrier(6)

        def work(number: int) -> None:
            barrier.wait()
            for _ in range(40):
                if number % 2:
                    shared.backward(retain_graph=True)
                else:
                    (x * 2.0).sum().backward()

        run_threads(work, 6)
        assert x.grad is not None
        assert x.grad.tolist() == [3 * 40 * 3.0 + 3 * 40 * 2.0] * 8


def run_threads(work: Any, count: int) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def nested(levels: int, log: Any = None) -> Any:
    """A function that calls backward inside of a backward, to this depth."""

    def function(g: Tensor) -> Tensor:
        if levels:
            x = leaf(1.0)
            with tk.enable_grad():
                y = Calls.apply(x, nested(levels - 1, log))
            y.backward()
            assert x.grad is not None
            return x.grad * g
        if log is not None:
            log()
        return g * 3.0

    return function


class TestReentrant:
    def test_two_thousand_levels(self) -> None:
        x = leaf(1.0)
        threads = threading.active_count()
        Calls.apply(x, nested(2000)).backward()
        assert x.grad is not None
        assert x.grad.item() == 3.0
        assert threading.active_count() - threads < 200

    def test_an_error_from_the_depth_arrives(self) -> None:
        class Mine(Exception):  # noqa: N818
            pass

        def fail() -> None:
            raise Mine("from below")

        x = leaf(1.0)
        with pytest.raises(Mine, match="from below") as caught:
            Calls.apply(x, nested(200, fail)).backward()
        names = [entry.name for entry in caught.traceback]
        assert "fail" in names
        assert names.count("function") == 201
        assert x.grad is None
        (x * 2.0).backward()
        assert x.grad is not None
        assert x.grad.item() == 2.0

    def test_context_variables_are_seen_in_the_depth(self) -> None:
        variable = contextvars.ContextVar("variable", default="none")
        seen: list[Any] = []
        token = variable.set("mine")
        try:
            x = leaf(1.0)
            Calls.apply(x, nested(300, lambda: seen.append((variable.get(), tk.is_grad_enabled())))).backward()
        finally:
            variable.reset(token)
        assert seen == [("mine", False)]

    def test_the_same_graph_inside_of_itself(self) -> None:
        x = leaf(2.0)
        depth = [3]

        def again(g: Tensor) -> Tensor:
            if depth[0]:
                depth[0] -= 1
                (inner,) = grad(y, x, retain_graph=True)
                return g + 0.0 * inner
            return g

        y = Calls.apply(x * x, again)
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 4.0

    def test_from_several_threads_at_once(self) -> None:
        results: list[float] = []

        def work(number: int) -> None:
            x = leaf(float(number))
            Calls.apply(x * x, nested(150)).backward()
            assert x.grad is not None
            results.append(x.grad.item() / 6.0 - number)

        run_threads(work, 4)
        assert results == [0.0] * 4

    def test_nothing_of_a_deep_backward_is_kept(self) -> None:
        x = leaf(1.0)
        y = Calls.apply(x, nested(200))
        watched = weakref.ref(y.grad_fn)
        gc.collect()
        gc.disable()
        try:
            y.backward()
            del y
            assert watched() is None
        finally:
            gc.enable()


class TestCallbacks:
    def test_they_run_after_everything_in_order(self) -> None:
        log: list[str] = []
        x, w = leaf(1.0), leaf(1.0)
        caller = threading.get_ident()

        def more() -> None:
            assert threading.get_ident() == caller
            assert x.grad is not None
            assert w.grad is not None
            log.append("first")
            queue_callback(lambda: log.append("queued by the first"))

        def hook(g: Tensor) -> None:
            queue_callback(more)
            queue_callback(lambda: log.append("second"))

        y = x * w
        y.register_hook(hook)
        noted(y, log, "top").backward()
        assert log == ["top", "first", "second", "queued by the first"]

    def test_they_belong_to_the_backward_in_which_they_were_queued(self) -> None:
        log: list[str] = []

        def inner(g: Tensor) -> Tensor:
            queue_callback(lambda: log.append("outer"))
            u = leaf(1.0)
            with tk.enable_grad():
                v = u * 2.0
            v.register_hook(lambda g: queue_callback(lambda: log.append("inner")))
            v.backward()
            log.append("inner is complete")
            return g

        x = leaf(1.0)
        Calls.apply(x, inner).backward()
        assert log == ["inner", "inner is complete", "outer"]

    def test_after_an_error_none_is_called(self) -> None:
        log: list[str] = []

        def fail(g: Tensor) -> Tensor:
            queue_callback(lambda: log.append("called"))
            raise KeyError("here")

        x = leaf(1.0)
        with pytest.raises(KeyError, match="here"):
            Calls.apply(x, fail).backward()
        assert log == []

    def test_outside_of_a_backward_it_is_an_error(self) -> None:
        text = "Final callbacks can only be installed during backward pass"
        with pytest.raises(RuntimeError, match=text):
            queue_callback(lambda: None)
        x = leaf(1.0)
        (x * 2.0).backward()
        with pytest.raises(RuntimeError, match=text):
            queue_callback(lambda: None)
        y = x * 2.0
        y.register_hook(lambda g: queue_callback(3))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a callback must be a function without arguments, got int"):
            y.backward()

    def test_an_error_of_a_callback_arrives(self) -> None:
        x = leaf(1.0)
        y = x * 2.0
        y.register_hook(lambda g: queue_callback(lambda: 1 // 0))
        with pytest.raises(ZeroDivisionError):
            y.backward()
        assert x.grad is not None
        assert tk.is_grad_enabled()


class TestDepth:
    def test_a_deep_graph_leaves_no_memory_behind(self) -> None:
        def run() -> None:
            x = leaf(1.0)
            y = x * 1.0
            for _ in range(150_000):
                y = y + 0.0
            y.backward()
            assert x.grad is not None

        gc.collect()
        gc.disable()
        try:
            run()  # what Python itself keeps for the next time
            before = sys.getallocatedblocks()
            run()
            assert abs(sys.getallocatedblocks() - before) < 100
        finally:
            gc.enable()

    @pytest.mark.skipif(
        sys.version_info[:2] == (3, 13),
        reason="Python 3.13 counts levels, not bytes: a chain of tuples crashes as well",
    )
    def test_a_deep_graph_is_freed_on_a_small_stack(self) -> None:
        before = threading.stack_size(256 * 1024)
        try:

            def work(_: int) -> None:
                x = leaf(1.0)
                y = x * 1.0
                for _ in range(50_000):
                    y = tk.sin(y)
                del y

            run_threads(work, 1)
        finally:
            threading.stack_size(before)


def test_special_nodes() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    node = y.grad_fn
    assert not node._special
    handle = node.register_hook(lambda i, o: None)
    assert node._special
    handle.remove()
    z = x * 3.0
    z.register_hook(lambda g: g * 10.0)
    assert z.grad_fn._special
    z.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [30.0, 30.0]
    assert (tk.ones(2, device="meta").requires_grad_() * 2.0).grad_fn._special
