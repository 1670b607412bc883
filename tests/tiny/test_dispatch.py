"""Calls: the word, local state and redispatch."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from tenkey.dispatch import (
    ArgumentError,
    DispatchKey,
    DispatchKeySet,
    DispatchMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    Kernel,
    MissingKernelError,
    Operator,
    Registry,
)
from tenkey.dispatch.local_state import (
    REQUIRES_GRAD,
    SILENT,
    LocalState,
    StateGuard,
    _changes,
    current_state,
    enter,
    get_state,
    leave,
)  # fmt: skip
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    BATCHED,
    CPU,
    CUDA,
    DISPATCH,
    IMPLICIT,
    OTHER,
    TRACER,
    TRAIT,
    Fake,
    fresh,
    impl,
    with_three_kernels,
)

F = "t::f(Tensor x) -> Tensor"
Factory = Callable[[], AbstractContextManager[Any]]


@pytest.fixture
def reg() -> Registry:
    """An operator with a kernel for the CPU, for the key Tracer, and for Batched."""
    return with_three_kernels()


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    yield
    assert get_state() is None
    assert _changes.get() == ()


def keysets_of(schema: str) -> tuple[Operator, list[DispatchKeySet]]:
    """An operator whose kernels note the keysets that they were reached with."""
    made = fresh(schema)
    (op,) = made
    seen: list[DispatchKeySet] = []

    def kernel(keyset: DispatchKeySet, *args: Any, **kwargs: Any) -> None:
        seen.append(keyset)

    made.fallback(Kernel(lambda op, *args, **kwargs: kernel(*args, **kwargs), CPU, boxed=True, with_keyset=True))
    made.fallback(Kernel(lambda op, *args, **kwargs: kernel(*args, **kwargs), CUDA, boxed=True, with_keyset=True))
    return op, seen


class TestWord:
    """Which keys a call has: Note [Dispatch word]."""

    def test_union_of_the_arguments(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor x, Tensor y) -> Tensor")
        impl(reg, "t::g", "tracer", TRACER)
        impl(reg, "t::g", "cpu", CPU)
        assert op(Fake(CPU), Fake(CPU))[0] == "cpu"
        for pair in ((Fake(CPU), Fake(TRACER, CPU)), (Fake(TRACER, CPU), Fake(CPU)), (Fake(CPU), Fake(TRACER))):
            assert op(*pair)[0] == "tracer"

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ("t::g(Tensor y) -> ()", Fake(CPU)),
            ("t::g(Tensor? y) -> ()", Fake(CPU)),
            ("t::g(Tensor? y=None, *, Tensor? z=None) -> ()", Fake(CPU)),
            ("t::g(Tensor[] y) -> ()", [Fake(CPU)]),
            ("t::g(Tensor[] y) -> ()", (Fake(), Fake(CPU))),
            ("t::g(Tensor?[] y) -> ()", [None, Fake(CPU), None]),
            ("t::g(Tensor[]? y) -> ()", [Fake(CPU)]),
            ("t::g(Tensor?[]? y=None) -> ()", (None, Fake(CPU))),
            ("t::g(Tensor[2] y) -> ()", [Fake(CPU), Fake()]),
            ("t::g(Tensor(a!)[] y) -> ()", [Fake(CPU)]),
        ],
    )
    def test_lists_and_optionals_count(self, schema: str, value: Any) -> None:
        op, seen = keysets_of(schema)
        op(value)
        op(y=value)
        assert seen == [DispatchKeySet(CPU)] * 2

    def test_absent_tensors_bring_nothing(self) -> None:
        op, seen = keysets_of("t::g(Tensor x, Tensor? a=None, Tensor[]? b=None, *, Tensor?[] c) -> ()")
        op(Fake(CPU), c=[])
        op(Fake(CPU), None, None, c=[None])
        assert seen == [DispatchKeySet(CPU)] * 2

    def test_keyword_only_tensors_count(self) -> None:
        op, seen = keysets_of("t::g(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        op(Fake(CPU), out=Fake(TRACER, CPU))
        assert seen == [DispatchKeySet([TRACER, CPU])]

    def test_other_arguments_do_not_count(self) -> None:
        """An object that happens to have a word, given where the schema wants a str, is no tensor."""

        class Text(str):
            __slots__ = ()
            _word = TRACER.mask

        text = Text("text")
        op, seen = keysets_of("t::g(Tensor x, str mode) -> ()")
        op(Fake(CPU), text)
        assert seen == [DispatchKeySet(CPU)]

    def test_device_decides_for_factories(self) -> None:
        op, seen = keysets_of("t::g(int n, *, Device? device=None) -> Tensor")
        op.registry.hooks.device_word = lambda device: DispatchKeySet(CPU if device is None else CUDA).mask
        op(1)
        op(1, device="anything")
        assert seen == [DispatchKeySet(CPU), DispatchKeySet(CUDA)]

    def test_traits_ride_along_and_do_not_lead(self, reg: Registry) -> None:
        assert reg.find("t::f")(Fake(CPU, traits=TRAIT))[0] == "cpu"


class TestGuards:
    """Keys = ((union | included) - excluded), local to a thread and a task."""

    def test_include(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU)
        with IncludeDispatchKeyGuard(TRACER):
            assert op(fake)[0] == "tracer"
            with IncludeDispatchKeyGuard(DispatchKeySet([BATCHED])):
                assert op(fake)[0] == "batched"
            assert op(fake)[0] == "tracer"
        assert op(fake)[0] == "cpu"

    def test_exclude(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU, TRACER, BATCHED)
        with ExcludeDispatchKeyGuard(BATCHED):
            assert op(fake)[0] == "tracer"
            with ExcludeDispatchKeyGuard(TRACER):
                assert op(fake)[0] == "cpu"
        assert op(fake)[0] == "batched"

    def test_exclusion_wins_whatever_is_entered_last(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU)
        with ExcludeDispatchKeyGuard(TRACER), IncludeDispatchKeyGuard(TRACER):
            assert op(fake)[0] == "cpu"
        with IncludeDispatchKeyGuard(TRACER), ExcludeDispatchKeyGuard(TRACER):
            assert op(fake)[0] == "cpu"

    def test_excluding_a_backend_key_leaves_the_backend_bit(self, reg: Registry) -> None:
        impl(reg, "t::f", "autograd", AUTOGRAD)
        op, fake = reg.find("t::f"), Fake(AUTOGRAD_CPU, CPU)
        with ExcludeDispatchKeyGuard(CPU):
            assert op(fake)[0] == "autograd"  # AutogradCPU still has its backend
        with ExcludeDispatchKeyGuard(AUTOGRAD_CPU):
            assert op(fake)[0] == "cpu"

    def test_alias_says_nothing(self, reg: Registry) -> None:
        with ExcludeDispatchKeyGuard(AUTOGRAD), IncludeDispatchKeyGuard(IMPLICIT):
            assert not current_state().exclude
            assert not current_state().include

    @pytest.mark.parametrize("guard", [IncludeDispatchKeyGuard, ExcludeDispatchKeyGuard])
    @pytest.mark.parametrize("wrong", ["CPU", 3, None, ["CPU"]])
    def test_what_is_no_key(self, guard: Any, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"is not a dispatch key: give a DispatchKey such as DispatchKey.CPU"):
            guard(wrong)

    @pytest.mark.parametrize(
        "factory",
        [
            lambda: IncludeDispatchKeyGuard(TRACER),
            lambda: ExcludeDispatchKeyGuard(TRACER),
            lambda: StateGuard(unexclude=TRAIT),
            DispatchMode,
        ],
    )
    def test_restored_on_exceptions(self, factory: Factory) -> None:
        with ExcludeDispatchKeyGuard(BATCHED):
            before = get_state()
            for error in (ZeroDivisionError, KeyboardInterrupt, GeneratorExit):
                with pytest.raises(error), factory():
                    raise error
                assert get_state() is before

    def test_entered_again_while_on(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU, TRACER)
        guard = ExcludeDispatchKeyGuard(TRACER)
        with guard, guard:
            with guard:
                assert op(fake)[0] == "cpu"
            assert op(fake)[0] == "cpu"
        assert op(fake)[0] == "tracer"
        with guard:
            assert op(fake)[0] == "cpu"

    def test_left_without_having_been_entered(self) -> None:
        with ExcludeDispatchKeyGuard(BATCHED):
            before = get_state()
            ExcludeDispatchKeyGuard(TRACER).__exit__(None, None, None)
            assert get_state() is before

    def test_kernel_sees_the_guards_of_its_caller(self, reg: Registry) -> None:
        op = reg.define("t::outer(Tensor x) -> Tensor")
        impl(reg, "t::outer", reg.find("t::f"), IMPLICIT)
        with IncludeDispatchKeyGuard(TRACER):
            assert op(Fake(CPU))[0] == "tracer"

    @pytest.mark.parametrize("length", [2, 3])
    def test_guards_end_in_any_order(self, reg: Registry, length: int) -> None:
        """Note [Guards end in any order]: whatever is still on is in force, and nothing stays when all have ended."""
        keys = [TRACER, BATCHED, AUTOGRAD_CPU][:length]
        for order in (keys, keys[::-1], keys[1:] + keys[:1]):
            guards = {key: ExcludeDispatchKeyGuard(key) for key in keys}
            with ExcludeDispatchKeyGuard(OTHER):
                outer = get_state()
                for guard in guards.values():
                    guard.__enter__()
                on = set(keys)
                for key in order:
                    guards[key].__exit__(None, None, None)
                    on.remove(key)
                    for other in keys:
                        assert bool(current_state().exclude & other.mask) == (other in on)
                assert get_state() is outer

    def test_values_come_and_go_with_their_guards(self) -> None:
        """Values of contexts are part of the state, and ``leave`` takes out those of its owner in any order."""
        first, second = object(), object()
        enter(first, include=TRACER.mask, value="one")
        enter(second, value="two")
        assert current_state().values == ("one", "two")
        leave(first)
        assert current_state().values == ("two",)
        assert not current_state().include & TRACER.mask
        leave(second)
        assert get_state() is None
        leave(second)  # does nothing
        assert get_state() is None

    def test_the_silent_state(self) -> None:
        """``silent`` is the same state with recording off, made once; a silent state is its own."""
        mode = object()
        state = LocalState(TRACER.mask, BATCHED.mask, (mode,), ("value",))
        silent = state.silent
        assert silent is state.silent is silent.silent
        assert (silent.include, silent.modes, silent.values) == (state.include, state.modes, state.values)
        assert silent.exclude == BATCHED.mask | REQUIRES_GRAD
        assert silent.outer is not None
        assert SILENT.silent is SILENT

    def test_generators(self, reg: Registry) -> None:
        """A guard in a generator ends with it, exhausted or closed, also while later guards are on."""
        op, fake = reg.find("t::f"), Fake(CPU, TRACER, BATCHED)

        def generator() -> Iterator[str]:
            with ExcludeDispatchKeyGuard(BATCHED):
                yield op(fake)[0]
                yield op(fake)[0]

        assert list(generator()) == ["tracer", "tracer"]
        assert op(fake)[0] == "batched"
        suspended = generator()
        assert next(suspended) == "tracer"
        with ExcludeDispatchKeyGuard(TRACER):
            assert op(fake)[0] == "cpu"
            suspended.close()  # type: ignore[attr-defined]
            assert op(fake)[0] == "batched"
            with ExcludeDispatchKeyGuard(BATCHED):
                assert op(fake)[0] == "cpu"  # the guard that was entered later is still on
        assert op(fake)[0] == "batched"

    def test_generator_closed_in_another_thread(self) -> None:
        def generator() -> Iterator[None]:
            with ExcludeDispatchKeyGuard(BATCHED):
                yield

        suspended = generator()
        next(suspended)
        states: list[Any] = []

        def close() -> None:
            with ExcludeDispatchKeyGuard(TRACER):
                before = get_state()
                suspended.close()  # type: ignore[attr-defined]
                states.extend([before, get_state()])

        self.in_thread(close)
        assert states[0] is states[1] is not None
        # Here nobody can end it any more but us: put the state back for the other tests.
        ((owner, _, _),) = _changes.get()
        owner.__exit__(None, None, None)  # type: ignore[attr-defined]

    def test_threads_start_fresh(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU)
        seen: list[Any] = []
        with IncludeDispatchKeyGuard(TRACER):
            self.in_thread(lambda: seen.append((get_state(), op(fake)[0])))
            assert op(fake)[0] == "tracer"
        assert seen == [(None, "cpu")]

    def test_one_guard_object_in_many_threads(self) -> None:
        """Entered in turn by two threads and left in the wrong turn: neither sees the other's state."""
        guard = ExcludeDispatchKeyGuard(TRACER)
        step = threading.Barrier(2, timeout=10)
        seen: dict[str, Any] = {}

        def first() -> None:
            with ExcludeDispatchKeyGuard(BATCHED):
                before = get_state()
                guard.__enter__()
                step.wait()
                step.wait()
                guard.__exit__(None, None, None)
                seen["first"] = get_state() is before
            step.wait()

        def second() -> None:
            step.wait()
            guard.__enter__()
            step.wait()
            step.wait()
            guard.__exit__(None, None, None)
            seen["second"] = get_state() is None

        threads = [threading.Thread(target=first), threading.Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert seen == {"first": True, "second": True}

    def in_thread(self, function: Callable[[], Any]) -> None:
        thread = threading.Thread(target=function)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    def test_asyncio_tasks_do_not_see_one_another(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU, TRACER, BATCHED)
        shared = ExcludeDispatchKeyGuard(BATCHED)
        log: dict[str, list[str]] = {"a": [], "b": [], "c": []}

        async def task(name: str, *guards: AbstractContextManager[Any]) -> None:
            with ExitStack() as stack:
                for guard in guards:
                    stack.enter_context(guard)
                    await asyncio.sleep(0)
                    log[name].append(op(fake)[0])
            await asyncio.sleep(0)
            log[name].append(op(fake)[0])

        async def main() -> None:
            with ExcludeDispatchKeyGuard(BATCHED):
                inherited = asyncio.create_task(task("c", ExcludeDispatchKeyGuard(TRACER)))
            await asyncio.gather(
                task("a", shared, ExcludeDispatchKeyGuard(TRACER)), task("b", DispatchMode(), shared), inherited
            )
            assert get_state() is None

        asyncio.run(main())
        assert log["a"] == ["tracer", "cpu", "batched"]
        assert log["b"] == ["batched", "tracer", "batched"]
        assert log["c"] == ["cpu", "tracer"]  # a task starts with the state of the place that made it

    def test_cancelled_task(self) -> None:
        async def hold(states: list[Any]) -> None:
            try:
                with ExcludeDispatchKeyGuard(TRACER):
                    await asyncio.sleep(60)
            finally:
                states.append(get_state())

        async def main() -> None:
            states: list[Any] = []
            task = asyncio.create_task(hold(states))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert states == [None]

        asyncio.run(main())


class TestRedispatch:
    def test_takes_the_keyset_as_it_is(self, reg: Registry) -> None:
        """Neither the arguments' keys nor the local state are looked at."""
        op = reg.find("t::f")
        assert op.redispatch(DispatchKeySet(CPU), Fake(CPU, TRACER))[0] == "cpu"
        assert op.redispatch(DispatchKeySet([TRACER, CPU]), Fake(CPU))[0] == "tracer"
        with IncludeDispatchKeyGuard(BATCHED), ExcludeDispatchKeyGuard(TRACER):
            assert op.redispatch(DispatchKeySet([TRACER, CPU]), Fake(CPU))[0] == "tracer"

    def test_down_the_keys(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor x) -> Tensor")
        for name, key in (("batched", BATCHED), ("tracer", TRACER), ("autograd", AUTOGRAD)):

            def kernel(keyset: DispatchKeySet, x: Any, name: str = name, key: DispatchKey = key) -> Any:
                return (name, *op.redispatch(keyset.below(key), x))

            impl(reg, "t::g", kernel, key, with_keyset=True)
        impl(reg, "t::g", lambda x: ("cpu",), CPU)
        assert op(Fake(BATCHED, TRACER, AUTOGRAD_CPU, CPU)) == ("batched", "tracer", "autograd", "cpu")
        assert op(Fake(BATCHED, CPU)) == ("batched", "cpu")

    def test_never_strips_defaults(self, reg: Registry) -> None:
        """A kernel always gets all arguments, those that equal their defaults too, at every hop."""
        op = reg.define("t::g(Tensor x, int n=1, float[] w=[0.5], *, str mode='a', bool? flag=None) -> Tensor")
        impl(reg, "t::g", "cpu", CPU)

        def hop(keyset: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
            assert (args[1:], kwargs) == ((1, (0.5,)), {"mode": "a", "flag": None})
            return op.redispatch(keyset.below(TRACER), *args, **kwargs)

        impl(reg, "t::g", hop, TRACER, with_keyset=True)
        fake = Fake(TRACER, CPU)
        full = ((fake, 1, (0.5,)), {"mode": "a", "flag": None})
        assert op(fake) == op(fake, 1, (0.5,), mode="a", flag=None) == ("cpu", *full)

    def test_keeps_traits_that_are_not_excluded(self, reg: Registry) -> None:
        words: list[int] = []

        def specialize(op: Operator, word: int) -> Any:
            return lambda *args: words.append(word)

        op = reg.define("t::g(Tensor[] xs) -> ()")
        impl(reg, "t::g", "never called", CPU, specialize=specialize)
        fake = Fake(CPU, traits=TRAIT)
        op.redispatch(DispatchKeySet(CPU), [fake])
        with StateGuard(exclude=TRAIT):
            op.redispatch(DispatchKeySet(CPU), [fake])
        assert words == [CPU.mask | TRAIT, CPU.mask]

    def test_to_nothing(self, reg: Registry) -> None:
        with pytest.raises(MissingKernelError, match=r"\[t::f\] has no kernel for a call without tensors"):
            reg.find("t::f").redispatch(DispatchKeySet(), Fake(CPU))

    @pytest.mark.parametrize("wrong", [CPU, None, [CPU], 3])
    def test_what_is_no_keyset(self, reg: Registry, wrong: Any) -> None:
        match = r"\[t::f\] redispatch needs a DispatchKeySet first, got .*: pass keyset.below\(key\)"
        with pytest.raises(ArgumentError, match=match):
            reg.find("t::f").redispatch(wrong, Fake(CPU))


_ISOLATED = """
import importlib, pkgutil, sys, types
parent = types.ModuleType("alone")
parent.__path__ = [{path!r}]
sys.modules["alone"] = parent
package = importlib.import_module("alone.dispatch")
for module in pkgutil.iter_modules(package.__path__):
    importlib.import_module("alone.dispatch." + module.name)
print(" ".join(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def test_imports_neither_numpy_nor_numba() -> None:
    """All of ``tenkey.dispatch``, imported under a parent that is only a name, and what came along."""
    code = _ISOLATED.format(path=str(DISPATCH.parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "alone" in loaded
    assert not loaded & {"tenkey", "numpy", "numba", "llvmlite", "scipy", "ml_dtypes"}


def test_entries_are_written_at_the_first_call() -> None:
    """The parameters of an operator can be asked before, and its first call is like every other."""
    registry = Registry()
    call = registry.define("test::scaled(Tensor x, int by=2, *, int? plus=None) -> Tensor").call
    registry.impl("test::scaled", Kernel(lambda x, by, *, plus: (x, by, plus), CPU))
    before, code = inspect.signature(call), call.__code__  # type: ignore[attr-defined]
    assert str(before) == "(x, by=2, *, plus=None)"
    with pytest.raises(TypeError, match="'x'"):
        call()
    x = Fake(CPU)
    assert call(by=3, x=x, plus=1) == (x, 3, 1)
    assert call.__code__ is not code  # type: ignore[attr-defined]
    assert inspect.signature(call) == before
    assert call(x) == (x, 2, None)
