"""Modes see every call in a ``with`` block, the innermost first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tenkey.dispatch import (
    DispatchKey,
    DispatchKeySet,
    DispatchMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    MissingKernelError,
    Registry,
)
from tenkey.dispatch.local_state import get_state
from tests.tiny._fakes import (
    BATCHED,
    CPU,
    IMPLICIT,
    TRACER,
    Fake,
    fresh,
    impl,
    with_three_kernels,
)

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    return with_three_kernels()


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    yield
    assert get_state() is None


class Recorder(DispatchMode):
    """Notes what it sees and answers as told."""

    def __init__(self, log: list[Any], name: str, answer: Any = NotImplemented) -> None:
        self.log, self.name, self.answer = log, name, answer

    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self.log.append(self.name)
        return self.answer(op, *args, **kwargs) if callable(self.answer) else self.answer


class TestModes:
    def test_innermost_first_and_not_implemented_passes_on(self, reg: Registry) -> None:
        log: list[Any] = []
        op, fake = reg.find("t::f"), Fake(CPU)
        with Recorder(log, "outer"), Recorder(log, "middle"), Recorder(log, "inner"):
            assert op(fake)[0] == "cpu"
        assert log == ["inner", "middle", "outer"]
        assert op(fake)[0] == "cpu"
        assert len(log) == 3

    def test_an_answer_ends_it(self, reg: Registry) -> None:
        log: list[Any] = []
        for answer in ("an answer", None, 0):
            with Recorder(log, "outer"), Recorder(log, "middle", answer), Recorder(log, "inner"):
                assert reg.find("t::f")(Fake(CPU)) is answer
        assert log == ["inner", "middle"] * 3

    def test_off_while_it_runs(self, reg: Registry) -> None:
        """Its own calls go to the modes around it, and never to itself or to those within."""
        log: list[Any] = []

        def again(op: Any, *args: Any, **kwargs: Any) -> Any:
            return ("wrapped", op(*args, **kwargs)[0], op(*args, **kwargs)[0])

        with Recorder(log, "outer"), Recorder(log, "again", again), Recorder(log, "inner"):
            assert reg.find("t::f")(Fake(CPU)) == ("wrapped", "cpu", "cpu")
        assert log == ["inner", "again", "outer", "outer"]

    def test_on_again_after_the_call(self, reg: Registry) -> None:
        log: list[Any] = []
        op, fake = reg.find("t::f"), Fake(CPU)
        with Recorder(log, "mode"):
            before = get_state()
            op(fake)
            assert get_state() is before
            op(fake)
        assert log == ["mode", "mode"]

    def test_restored_after_exceptions(self, reg: Registry) -> None:
        log: list[Any] = []

        def fail(op: Any, *args: Any) -> Any:
            raise ZeroDivisionError

        op, fake = reg.find("t::f"), Fake(CPU)
        with Recorder(log, "outer"), Recorder(log, "fails", fail):
            before = get_state()
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    op(fake)
                assert get_state() is before
        assert log == ["fails", "fails"]

    def test_restored_after_a_kernel_failed(self) -> None:
        reg = fresh(F)
        log: list[Any] = []
        with Recorder(log, "mode"):
            before = get_state()
            with pytest.raises(MissingKernelError):
                reg.find("t::f")(Fake(CPU))
            assert get_state() is before

    def test_entered_twice_and_in_threads(self, reg: Registry) -> None:
        log: list[Any] = []
        mode = Recorder(log, "mode")
        op, fake = reg.find("t::f"), Fake(CPU)
        with mode:
            with mode:
                op(fake)
            assert log == ["mode", "mode"]
            thread = threading.Thread(target=op, args=(fake,))
            thread.start()
            thread.join(20)
            assert log == ["mode", "mode"]  # a new thread starts without modes
            op(fake)
        assert log == ["mode"] * 3

    def test_handler_gets_all_arguments_and_the_types_of_tensors(self, reg: Registry) -> None:
        class Other(Fake):
            pass

        seen: list[Any] = []

        class Mode(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                seen.append((op, types, args, kwargs))

        op = reg.define("t::g(Tensor x, Tensor?[] ys, int n=3, *, Tensor? z=None, bool flag=True) -> Tensor")
        x, y, z = Fake(CPU), Other(CPU), Fake(CPU)
        with Mode():
            assert op(x, [y, None], z=z) is None
            assert op(y, (), 4) is None
        assert seen[0] == (op, (Fake, Other), (x, [y, None], 3), {"z": z, "flag": True})
        assert seen[1] == (op, (Other,), (y, (), 4), {"z": None, "flag": True})

    def test_comes_before_every_other_key(self, reg: Registry) -> None:
        with Recorder([], "mode", "the mode's"):
            assert reg.find("t::f")(Fake(CPU, TRACER, BATCHED)) == "the mode's"

    def test_passing_on_keeps_guards_and_lower_keys(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU, TRACER, BATCHED)
        with Recorder([], "mode"), ExcludeDispatchKeyGuard(BATCHED):
            assert op(fake)[0] == "tracer"
        with Recorder([], "mode"), IncludeDispatchKeyGuard(BATCHED):
            assert op(Fake(CPU))[0] == "batched"

    def test_sees_what_composites_call(self, reg: Registry) -> None:
        names: list[str] = []

        class Names(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                names.append(op.name)
                with self:  # a handler that wants to see the calls within turns itself on again
                    return op.redispatch(DispatchKeySet(CPU), *args, **kwargs)

        outer = reg.define("t::outer(Tensor x) -> Tensor")
        impl(reg, "t::outer", reg.find("t::f"), IMPLICIT)
        with Names():
            assert outer(Fake(CPU))[0] == "cpu"
        assert names == ["t::outer", "t::f"]

    def test_key_without_a_mode(self, reg: Registry) -> None:
        with IncludeDispatchKeyGuard(DispatchKey.Mode):
            assert reg.find("t::f")(Fake(CPU))[0] == "cpu"

    def test_default_handler(self, reg: Registry) -> None:
        with DispatchMode() as mode:
            assert isinstance(mode, DispatchMode)
            assert reg.find("t::f")(Fake(CPU))[0] == "cpu"

    def test_guards_entered_within_a_handler_end_with_it(self, reg: Registry) -> None:
        class Mode(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                with ExcludeDispatchKeyGuard(TRACER):
                    return op(*args, **kwargs)

        op, fake = reg.find("t::f"), Fake(CPU, TRACER)
        with Mode():
            assert op(fake)[0] == "cpu"
        assert op(fake)[0] == "tracer"


class TestRunWithin:
    """``run_within``: the operator itself, with the mode on for what its kernel calls."""

    class Tree(DispatchMode):
        def __init__(self) -> None:
            self.depth, self.lines = 0, list[str]()

        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            self.lines.append("  " * self.depth + op.name)
            self.depth += 1
            try:
                return self.run_within(op, *args, **kwargs)
            finally:
                self.depth -= 1

    def test_sees_the_calls_within(self, reg: Registry) -> None:
        outer = reg.define("t::outer(Tensor x, *, int n=0) -> Tensor")
        impl(reg, "t::outer", lambda x, *, n: (reg.find("t::f")(x), reg.find("t::f")(x)), IMPLICIT)
        tree = self.Tree()
        with tree:
            outer(Fake(CPU), n=3)
            reg.find("t::f")(Fake(CPU))
        assert tree.lines == ["t::outer", "  t::f", "  t::f", "t::f"]

    def test_other_modes_and_guards_stay(self, reg: Registry) -> None:
        log: list[Any] = []
        tree = self.Tree()
        outer = reg.define("t::outer(Tensor x) -> Tensor")
        impl(reg, "t::outer", lambda x: reg.find("t::f")(x), IMPLICIT)
        with Recorder(log, "around"), ExcludeDispatchKeyGuard(TRACER), tree:
            assert outer(Fake(CPU, TRACER))[0] == "cpu"
        assert tree.lines == ["t::outer", "  t::f"]
        assert log == ["around"] * 2  # the modes around are asked about what the inner one runs
        with Recorder(log, "around", "an answer"), tree:
            assert outer(Fake(CPU)) == "an answer"
        assert tree.lines[2:] == ["t::outer"]

    def test_factories(self, reg: Registry) -> None:
        op = reg.define("t::make(int n, *, Device? device=None) -> Tensor")
        reg.hooks.device_word = lambda device: DispatchKeySet(CPU if device is None else BATCHED).mask
        impl(reg, "t::make", "cpu", CPU)
        impl(reg, "t::make", "batched", BATCHED)
        tree = self.Tree()
        with tree:
            assert op(3)[0] == "cpu"
            assert op(3, device="other")[0] == "batched"
        assert tree.lines == ["t::make"] * 2

    def test_restored_after_a_kernel_failed(self) -> None:
        reg, tree = fresh(F), self.Tree()
        with tree:
            before = get_state()
            with pytest.raises(MissingKernelError):
                reg.find("t::f")(Fake(CPU))
            assert get_state() is before
        assert tree.depth == 0


def test_passed_on_all_modes_see_what_the_kernel_calls(reg: Registry) -> None:
    log: list[Any] = []
    outer = reg.define("t::outer(Tensor x) -> Tensor")
    impl(reg, "t::outer", lambda x: reg.find("t::f")(x), IMPLICIT)
    with Recorder(log, "a"), Recorder(log, "b"):
        before = get_state()
        assert outer(Fake(CPU))[0] == "cpu"
        assert get_state() is before
    assert log == ["b", "a"] * 2


def test_asyncio_tasks_have_modes_of_their_own(reg: Registry) -> None:
    op, fake = reg.find("t::f"), Fake(CPU)

    async def work(log: list[Any], name: str) -> None:
        with Recorder(log, name):
            for _ in range(3):
                await asyncio.sleep(0)
                op(fake)

    async def main() -> list[list[Any]]:
        logs: list[list[Any]] = [[], []]
        await asyncio.gather(work(logs[0], "a"), work(logs[1], "b"))
        return logs

    assert asyncio.run(main()) == [["a"] * 3, ["b"] * 3]


def test_no_mode_no_key(reg: Registry) -> None:
    """Without a mode the word of a call is that of its tensors: nothing of the modes is on its way."""
    op, fake = reg.find("t::f"), Fake(CPU)
    op(fake)
    assert list(op.cache) == [fake._word]
