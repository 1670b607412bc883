"""`tk.autograd.profile`: which events there are, where they stand, how long they took, and what they cost when off."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import profile, record_function
from tenkey.dispatch import DispatchKey
from tenkey.dispatch.local_state import get_state
from tests._functions import Cube


def leaf(*shape: int) -> tk.Tensor:
    return tk.ones(shape, dtype=tk.float32).requires_grad_()


def names(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def find(prof: profile, name: str) -> Any:
    (event,) = [event for event in prof.events() if event.name == name]
    return event


def test_every_call_and_every_node_is_an_event_in_order() -> None:
    w, x = leaf(3, 2), tk.ones((4, 3), dtype=tk.float32)
    with profile() as prof:
        loss = tk.sum(tk.tanh(x @ w))
        loss.backward()
    top = [event.name for event in prof.events() if event.cpu_parent is None]
    assert top[:3] == ["tk::matmul", "tk::tanh", "tk::sum"]
    assert [n for n in top if n.endswith(("Backward", "Grad"))] == [
        "SumBackward", "TanhBackward", "MatmulBackward", "AccumulateGrad",
    ]  # fmt: skip
    inside = {child.name for child in find(prof, "MatmulBackward").cpu_children}
    assert {"tk::matmul", "tk::permute_dims"} <= inside
    assert all(event.cpu_parent.name == "MatmulBackward" for event in prof.events() if "permute" in event.name)
    np.testing.assert_allclose(w.grad.numpy(), np.full((3, 2), 4 / np.cosh(3.0) ** 2), rtol=1e-4)


def test_a_call_and_its_node_have_one_sequence_number() -> None:
    x = leaf(3)
    with profile() as prof:
        y = x * x
        z = tk.exp(y)
        assert y.grad_fn is not None
        assert z.grad_fn is not None
        numbers = {"tk::multiply": y.grad_fn.sequence_nr, "tk::exp": z.grad_fn.sequence_nr}
        y_nodes = {"MultiplyBackward": "tk::multiply", "ExpBackward": "tk::exp"}
        tk.sum(z).backward()
    forward = [event for event in prof.events() if event.name in numbers and event.forward is None]
    for name, number in numbers.items():
        assert [e.sequence_nr for e in forward if e.name == name and e.sequence_nr >= 0] == [number]
    for node, call in y_nodes.items():
        event = find(prof, node)
        assert event.sequence_nr == numbers[call]
        assert event.forward.name == call
        assert event.forward.sequence_nr == event.sequence_nr
        assert event.fwd_thread == threading.get_ident()
    assert find(prof, "AccumulateGrad").sequence_nr == -1
    assert all(event.forward is None for event in prof.events() if not event.name.endswith("Backward"))


def test_a_node_recorded_before_the_profile_has_no_call() -> None:
    x = leaf(3)
    y = tk.exp(x)
    with profile() as prof:
        tk.sum(y).backward()
    assert find(prof, "ExpBackward").forward is None
    assert find(prof, "SumBackward").forward.name == "tk::sum"


def test_a_result_that_is_an_argument_is_not_linked_again() -> None:
    x = tk.exp(leaf(3))
    with profile() as prof:
        tk.asarray(x)
        tk.reshape(x, (3,))
        x.add_(1.0)
    assert [e.sequence_nr >= 0 for e in prof.events() if e.name == "tk::add_"] == [True]
    number = find(prof, "tk::add_").sequence_nr
    assert number == x.grad_fn.sequence_nr


def test_a_composite_and_its_part_that_recorded_share_the_number() -> None:
    x = leaf(3, 2)
    with profile() as prof:
        y = tk.matrix_transpose(x)
    outer, inner = find(prof, "tk::matrix_transpose"), find(prof, "tk::permute_dims")
    assert outer.sequence_nr == inner.sequence_nr == y.grad_fn.sequence_nr
    assert inner.cpu_parent is outer
    assert outer.cpu_children == [inner]


def test_shapes_and_dtypes() -> None:
    with profile(record_shapes=True) as prof:
        tk.concat([tk.ones((2, 3)), tk.zeros((1, 3))], axis=0)
        tk.ones((2, 3)) @ tk.ones((3,))
    assert find(prof, "tk::concat").input_shapes == [[[2, 3], [1, 3]], []]
    assert find(prof, "tk::matmul").input_shapes[:2] == [[2, 3], [3]]
    assert find(prof, "tk::matmul").input_dtypes[:2] == ["float32", "float32"]
    with profile() as prof:
        tk.ones(2) + 1
    assert all(event.input_shapes == [] for event in prof.events())


def test_self_and_total_times() -> None:
    with profile() as prof, record_function("outer"):
        time.sleep(0.02)
        with record_function("inner"):
            time.sleep(0.03)
    outer, inner = find(prof, "outer"), find(prof, "inner")
    assert inner.cpu_time_total == inner.self_cpu_time_total >= 30_000
    assert outer.cpu_time_total >= 50_000
    assert 20_000 <= outer.self_cpu_time_total <= outer.cpu_time_total - inner.cpu_time_total + 1
    assert outer.time_range.elapsed_us() >= outer.cpu_time_total
    assert prof.self_cpu_time_total == pytest.approx(outer.cpu_time_total, rel=1e-3)


def test_the_time_of_the_observer_is_not_the_callers() -> None:
    """Note [Time of the observer]: bookkeeping that takes a millisecond a call is not in the caller's time."""
    from tenkey.profiler import observer

    describe = observer._described

    def slow(value: Any) -> Any:
        time.sleep(0.005)
        return describe(value)

    x = tk.ones(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observer, "_described", slow)
        with profile(record_shapes=True) as prof, record_function("caller"):
            for _ in range(10):
                tk.exp(x)
    caller = find(prof, "caller")
    assert caller.time_range.elapsed_us() >= 50_000
    assert caller.cpu_time_total <= caller.time_range.elapsed_us() - 50_000
    assert caller.self_cpu_time_total <= caller.cpu_time_total
    assert sum(e.self_cpu_time_total for e in prof.events()) <= caller.time_range.elapsed_us() - 50_000


def test_thread_time_is_asked_for() -> None:
    with profile(thread_time=True) as prof, record_function("asleep"):
        time.sleep(0.05)
    asleep = find(prof, "asleep")
    assert 0 < asleep.thread_time_total < 25_000 < asleep.cpu_time_total
    assert "Thread time" in prof.key_averages().table()
    with profile() as prof, record_function("asleep"):
        pass
    assert find(prof, "asleep").thread_time_total == 0
    assert "Thread time" not in prof.key_averages().table()


def test_the_stack_says_where_the_program_called() -> None:
    with profile(with_stack=True) as prof:
        tk.exp(tk.ones(1))
    assert re.search(r"test_profiler\.py\(\d+\): test_the_stack_says", find(prof, "tk::exp").stack[0])
    assert "test_profiler.py" in prof.key_averages(group_by_stack_n=1).table()
    for wrong, error in (("x", TypeError), (1.5, TypeError), (-1, ValueError)):
        with pytest.raises(error, match=r"\[key_averages\] group_by_stack_n is a number of callers, 0 or more, got"):
            prof.key_averages(group_by_stack_n=wrong)  # type: ignore[arg-type]


class TestOff:
    def test_nothing_of_it_is_left(self) -> None:
        before = get_state()
        with profile():
            assert get_state() is not None
        assert get_state() is before
        with profile(enabled=False) as prof:
            assert get_state() is before
            tk.exp(tk.ones(1))
        assert prof.events() == []

    def test_an_exception_leaves_nothing(self) -> None:
        before = get_state()
        prof = profile()

        def fail() -> None:
            with prof:
                tk.exp(tk.ones(1))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert get_state() is before
        assert names(prof) == ["tk::ones", "tk::exp"]

    def test_no_word_has_the_key(self) -> None:
        x = tk.exp(tk.ones(1))
        with profile():
            y = tk.exp(tk.ones(1))
        assert not (x._word | y._word) & DispatchKey.Profiler.mask

    def test_the_graph_is_not_kept_alive(self) -> None:
        gc.collect()
        gc.disable()
        try:
            with profile(profile_memory=True, record_shapes=True) as prof:
                x = leaf(3)
                y = Cube.apply(tk.exp(x))
                node, seen = weakref.ref(y.grad_fn), weakref.ref(x)
                y.sum().backward()
            del x, y
            assert node() is None
            assert seen() is None
            assert "CubeBackward" in names(prof)
        finally:
            gc.enable()


class TestErrors:
    def test_a_call_that_raises_is_an_event(self) -> None:
        x, y = tk.ones((2, 3)), tk.ones((4, 5))
        with profile() as prof:
            with pytest.raises(ValueError, match="matmul"), record_function("region"):
                x @ y
            tk.exp(x)
        assert find(prof, "tk::matmul").error == "ValueError"
        assert find(prof, "region").error == "ValueError"
        assert find(prof, "tk::exp").cpu_parent is None

    def test_a_node_that_raises(self) -> None:
        x = leaf(2)
        y = tk.exp(x)
        tk.sum(y).backward()
        with profile() as prof:
            with pytest.raises(RuntimeError, match="retain_graph=True"):
                tk.sum(y).backward()
            tk.exp(tk.ones(1))
        assert find(prof, "ExpBackward").error == "RuntimeError"
        assert find(prof, "tk::exp").cpu_parent is None

    def test_bad_use(self) -> None:
        prof = profile()
        with prof:
            with pytest.raises(RuntimeError, match="when the profile has ended"):
                prof.events()
            with pytest.raises(RuntimeError, match="when the profile has ended"):
                prof.export_chrome_trace("nowhere.json")
        with pytest.raises(RuntimeError, match="runs once"):
            prof.__enter__()
        with pytest.raises(RuntimeError, match="profile_memory=True"):
            prof.memory_timeline()
        with pytest.raises(TypeError, match="is a str, got 3"):
            record_function(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="decorates a function"):
            record_function("a")(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"no column 'speed'.*self_cpu_time_total"):
            prof.key_averages().table(sort_by="speed")
        with pytest.raises(ValueError, match="row_limit"):
            prof.key_averages().table(row_limit=-2)


class TestNesting:
    def test_the_inner_one_records_its_block_the_outer_one_all(self) -> None:
        with profile() as outer, record_function("region"):
            tk.zeros(1)
            with profile(record_shapes=True) as inner:
                tk.exp(tk.ones(2))
            tk.ones(1)
        assert names(inner) == ["tk::ones", "tk::exp"]
        assert names(outer) == ["region", "tk::zeros", "tk::ones", "tk::exp", "tk::ones"]
        assert find(inner, "tk::exp").input_shapes == [[2]]
        assert [e.name for e in find(outer, "region").cpu_children] == names(outer)[1:]

    def test_the_outer_one_may_end_first(self) -> None:
        outer, inner = profile(), profile()
        before = get_state()
        outer.__enter__()
        tk.zeros(1)
        inner.__enter__()
        outer.__exit__(None, None, None)
        tk.ones(1)
        inner.__exit__(None, None, None)
        assert names(outer) == ["tk::zeros"]
        assert names(inner) == ["tk::ones"]
        assert get_state() is before


class TestThreadsAndTasks:
    def test_a_thread_in_a_copy_of_the_context_is_seen(self) -> None:
        def work() -> None:
            with record_function("in the thread"):
                tk.exp(tk.ones(1))

        with profile() as prof:
            with record_function("main"):
                thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
                thread.start()
                thread.join()
            other = threading.Thread(target=lambda: tk.log(tk.ones(1)))
            other.start()
            other.join()
        assert "tk::log" not in names(prof)
        event = find(prof, "tk::exp")
        assert event.thread == thread.ident != find(prof, "main").thread
        assert event.cpu_parent.name == "in the thread"
        assert event.cpu_parent.cpu_parent is None

    def test_a_thread_that_outlives_the_profile(self) -> None:
        started, ended = threading.Event(), threading.Event()

        def work() -> None:
            tk.exp(tk.ones(1))
            started.set()
            ended.wait(10)
            tk.log(tk.ones(1))

        with profile() as prof:
            thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
            thread.start()
            started.wait(10)
        count = len(prof.events())
        ended.set()
        thread.join()
        assert len(prof._recorder.events) == count
        assert "tk::log" not in names(prof)

    def test_the_node_knows_the_thread_of_its_call(self) -> None:
        x = leaf(2)
        with profile() as prof:
            y = tk.sum(tk.exp(x))
            thread = threading.Thread(target=contextvars.copy_context().run, args=(y.backward,))
            thread.start()
            thread.join()
        node = find(prof, "ExpBackward")
        assert node.thread == thread.ident
        assert node.fwd_thread == threading.get_ident()

    def test_tasks_do_not_mix(self) -> None:
        async def work(name: str, function: Any) -> None:
            with record_function(name):
                await asyncio.sleep(0.001)
                function(tk.asarray(1.0))
                await asyncio.sleep(0.001)

        async def main() -> None:
            await asyncio.gather(work("a", tk.exp), work("b", tk.log))

        with profile() as prof:
            asyncio.run(main())
        assert find(prof, "tk::exp").cpu_parent.name == "a"
        assert find(prof, "tk::log").cpu_parent.name == "b"
        assert find(prof, "b").cpu_parent is None

    def test_decorated_functions_of_every_kind(self) -> None:
        @record_function("plain")
        def plain(x: tk.Tensor) -> tk.Tensor:
            return tk.exp(x)

        @record_function("coroutine")
        async def coroutine(x: tk.Tensor) -> tk.Tensor:
            await asyncio.sleep(0)
            return tk.exp(x)

        @record_function("generator")
        def generator(x: tk.Tensor) -> Any:
            yield tk.exp(x)
            yield tk.log(x)

        x = tk.ones(1)
        assert plain.__name__ == "plain"
        plain(x)
        with profile() as prof:
            plain(x)
            asyncio.run(coroutine(x))  # type: ignore[arg-type]
            for _ in generator(x):
                tk.sin(x)
        counts = {row.key: row.count for row in prof.key_averages()}
        assert counts == {"plain": 1, "coroutine": 1, "generator": 3, "tk::exp": 3, "tk::log": 1, "tk::sin": 2}
        assert all(e.cpu_parent is None for e in prof.events() if e.name == "tk::sin")

    def test_one_record_function_in_many_threads(self) -> None:
        region = record_function("region")
        barrier = threading.Barrier(4)

        def work() -> None:
            with region:
                barrier.wait(10)
                tk.exp(tk.ones(1))
                barrier.wait(10)

        with profile() as prof:
            threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for event in prof.events():
            if event.name == "tk::exp":
                assert event.cpu_parent.name == "region"
                assert event.cpu_parent.thread == event.thread
        assert {row.key: row.count for row in prof.key_averages()}["region"] == 4


class TestTable:
    def record(self) -> Any:
        with profile(record_shapes=True, profile_memory=True, thread_time=True, with_stack=True) as prof:
            for size in (1, 10, 100):
                tk.exp(tk.ones(size))
            tk.log(tk.ones(1000))
        return prof.key_averages(group_by_input_shape=True, group_by_stack_n=1)

    @pytest.mark.parametrize(
        ("column", "attribute"),
        [
            ("self_cpu_time_total", "self_cpu_time_total"), ("Self CPU", "self_cpu_time_total"),
            ("cpu_time_total", "cpu_time_total"), ("CPU total", "cpu_time_total"), ("CPU total %", "cpu_time_total"),
            ("Self CPU %", "self_cpu_time_total"), ("cpu_time", "cpu_time"), ("CPU time avg", "cpu_time"),
            ("count", "count"), ("# of Calls", "count"), ("cpu_memory_usage", "cpu_memory_usage"),
            ("Self CPU Mem", "self_cpu_memory_usage"), ("Thread time", "thread_time_total"), ("name", "key"),
            ("key", "key"), ("Input Shapes", "input_shapes"), ("Source Location", "stack"),
        ],
    )  # fmt: skip
    def test_any_column_sorts(self, column: str, attribute: str) -> None:
        averages = self.record()
        lines = averages.table(sort_by=column).splitlines()
        shown = [(line.split()[0], line) for line in lines[3:-2]]
        falling = attribute not in ("key", "input_shapes", "stack")
        rows = sorted(averages, key=lambda row: getattr(row, attribute), reverse=falling)
        assert [name for name, _ in shown] == [row.key for row in rows]
        assert len(shown) == len(averages)

    def test_the_time_of_a_nested_call_counts_once(self) -> None:
        with profile() as prof, record_function("outer"), record_function("region"):
            tk.exp(tk.ones(3))
            with record_function("between"), record_function("region"):
                tk.exp(tk.ones(3))
        (row,) = [row for row in prof.key_averages() if row.key == "region"]
        outer, inner = [event for event in prof.events() if event.name == "region"]
        assert row.count == 2
        assert row.cpu_time_total == outer.cpu_time_total
        assert row.self_cpu_time_total == pytest.approx(outer.self_cpu_time_total + inner.self_cpu_time_total)

    def test_rows_by_shape(self) -> None:
        averages = self.record()
        shapes = {row.input_shapes: row.count for row in averages if row.key == "tk::exp"}
        assert shapes == {"[[1]]": 1, "[[10]]": 1, "[[100]]": 1}

    def test_row_limit_and_header(self) -> None:
        averages = self.record()
        assert len(averages.table(row_limit=1).splitlines()) == 6
        assert len(averages.table(row_limit=-1).splitlines()) == 5 + len(averages)
        assert averages.table(row_limit=0, header="What ran").splitlines()[0] == "What ran"

    def test_percentages_of_a_flat_profile_add_up(self) -> None:
        with profile() as prof:
            for _ in range(3):
                tk.exp(tk.ones(1))
                tk.log(tk.ones(1))
        averages = prof.key_averages()
        assert sum(row.self_cpu_time_total for row in averages) == pytest.approx(prof.self_cpu_time_total)
        total = averages.total_average()
        assert (total.count, total.self_cpu_time_total) == (12, pytest.approx(prof.self_cpu_time_total))
        assert prof.table() == averages.table() == str(averages)
