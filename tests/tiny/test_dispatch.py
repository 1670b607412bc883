"""Calls: the word, local state, redispatch, refusals, ``explain``, overloads, pickling, modes."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from tenkey.dispatch import (
    ArgumentError,
    DeviceMismatchError,
    DispatchKey,
    DispatchKeySet,
    DispatchMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    Kernel,
    MissingKernelError,
    Operator,
    OperatorNotFoundError,
    OperatorPacket,
    Registry,
    explain,
    fallthrough_kernel,
    registry,
)
from tenkey.dispatch.local import StateGuard, _changes, current_state, get_state
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    BATCHED,
    CPU,
    CUDA,
    DISPATCH,
    EXPLICIT,
    IMPLICIT,
    META,
    OTHER,
    TRACER,
    TRAIT,
    Fake,
    fresh,
    impl,
    named,
    snapshot,
)

F = "t::f(Tensor x) -> Tensor"
Factory = Callable[[], AbstractContextManager[Any]]


@pytest.fixture
def reg() -> Registry:
    """An operator with a kernel for the CPU, for the key Tracer, and for Batched."""
    made = fresh(F)
    for name, key in (("cpu", CPU), ("tracer", TRACER), ("batched", BATCHED)):
        impl(made, "t::f", name, key)
    return made


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
            __slots__ = ("_word",)

        text = Text("text")
        text._word = TRACER.mask
        op, seen = keysets_of("t::g(Tensor x, str mode) -> ()")
        op(Fake(CPU), text)
        assert seen == [DispatchKeySet(CPU)]

    def test_device_decides_for_factories(self) -> None:
        op, seen = keysets_of("t::g(int n, *, Device? device=None) -> Tensor")
        op.registry.device_word = lambda device: DispatchKeySet(CPU if device is None else CUDA).mask
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
        with pytest.raises(TypeError, match="is no dispatch key: give a DispatchKey such as DispatchKey.CPU"):
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
        impl(reg, "t::outer", lambda x: reg.find("t::f")(x), IMPLICIT)
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
        (change,) = _changes.get()
        change.owner.__exit__(None, None, None)  # type: ignore[attr-defined]

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


class TestMissingKernel:
    def test_names_operator_device_remedy_and_devices_that_have_one(self) -> None:
        reg = fresh(F)
        reg.device_names["CUDA"] = "gpu"
        cpu_kernel = Kernel(named("cpu"), CPU)
        reg.impl("t::f", cpu_kernel)
        impl(reg, "t::f", "meta", META)
        impl(reg, "t::f", "tracer", TRACER)
        before = snapshot(reg)
        with pytest.raises(NotImplementedError) as caught:
            reg.find("t::f")(Fake(CUDA))
        assert isinstance(caught.value, MissingKernelError)
        first, second = str(caught.value).splitlines()
        assert first == (
            "[t::f] has no kernel for gpu. Register one with tk.library.register_kernel('t::f', 'gpu'), or move the "
            "tensors to a device that has one."
        )
        assert second.startswith(f"Kernels there are: cpu ({cpu_kernel.site}); meta (")
        assert "tracer" not in second
        assert snapshot(reg) == before

    def test_is_not_remembered(self) -> None:
        reg = fresh(F)
        op, fake = reg.find("t::f"), Fake(CPU)
        for _ in range(2):
            with pytest.raises(MissingKernelError, match="Kernels there are: none"):
                op(fake)
        impl(reg, "t::f", "cpu", CPU)
        assert op(fake)[0] == "cpu"

    def test_is_short(self) -> None:
        reg = fresh(F)
        for key in DispatchKey:
            if key not in (CPU, DispatchKey.Dense) and (key.is_alias or not key.per_backend or key.backend):
                impl(reg, "t::f", named("kernel_with_a_long_name" * 3), key, when=lambda x: False)
        reg.find("t::f").kernels.pop(EXPLICIT)
        reg.find("t::f").kernels.pop(IMPLICIT)
        for n in range(60):
            impl(reg, "t::f", f"meta {n}", META, allow_override=True)
        with pytest.raises(MissingKernelError) as caught:
            reg.find("t::f")(Fake(CPU))
        assert len(str(caught.value).splitlines()) <= 25

    def test_operator_without_tensors(self, reg: Registry) -> None:
        with pytest.raises(MissingKernelError, match=r"\[t::g\] has no kernel for a call without tensors"):
            reg.define("t::g(int n) -> int")(3)
        with pytest.raises(MissingKernelError, match=r"\[t::h\] has no kernel for a call without tensors"):
            reg.define("t::h(Tensor[] xs) -> Tensor")([])

    def test_works_once_the_key_is_excluded(self, reg: Registry) -> None:
        with ExcludeDispatchKeyGuard(CPU), pytest.raises(MissingKernelError, match=r"\[t::f\] has no kernel for cpu"):
            reg.find("t::f")(Fake(CPU))


class TestMixedDevices:
    def test_names_operator_and_both(self, reg: Registry) -> None:
        reg.device_names["CUDA"] = "gpu"
        op = reg.define("t::g(Tensor x, Tensor y) -> Tensor")
        impl(reg, "t::g", "cpu", CPU)
        impl(reg, "t::g", "cuda", CUDA)
        for pair in ((Fake(CPU), Fake(CUDA)), (Fake(CUDA), Fake(CPU))):
            with pytest.raises(DeviceMismatchError) as caught:
                op(*pair)
            assert isinstance(caught.value, RuntimeError)
            assert str(caught.value) == (
                "[t::g] got tensors on different devices (cpu and gpu): all tensors of a call live on one device. "
                "Move them with x.to(device)."
            )
        assert op(Fake(CUDA), Fake(CUDA))[0] == "cuda"

    def test_within_a_list(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor[] xs) -> Tensor")
        impl(reg, "t::g", "cuda", CUDA)
        with pytest.raises(DeviceMismatchError, match="cpu and cuda"):
            op([Fake(CPU), Fake(CUDA)])

    def test_operator_that_mixes(self, reg: Registry) -> None:
        op = reg.define("t::copy_to(Tensor x, Tensor y) -> Tensor", tags=["mixes_devices"])
        impl(reg, "t::copy_to", "cuda", CUDA)
        assert op(Fake(CPU), Fake(CUDA))[0] == "cuda"

    def test_composites_leave_it_to_what_they_call(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor x, Tensor y) -> Tensor")
        impl(reg, "t::g", "composite", EXPLICIT)
        assert op(Fake(CPU), Fake(CUDA))[0] == "composite"


class _Hostile:
    """Every question put to it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __repr__(self) -> str:
        raise ZeroDivisionError


class _HostileError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class TestExplain:
    def test_names_keys_choice_kernel_and_place(self, reg: Registry) -> None:
        op = reg.find("t::f")
        text = explain(op, Fake(CPU, AUTOGRAD_CPU, traits=TRAIT))
        lines = text.splitlines()
        assert lines[0] == f"explain {F}"
        assert lines[1] == f"  defined at {op.site}"
        assert lines[2].startswith("  argument x: DispatchKeySet(AutogradCPU, CPU; bits: ")
        assert lines[2].endswith(") with trait of the tests")
        assert "  AutogradCPU: falls through (rule 4 falls through)" in lines
        place = lines.index("  CPU: handles the call (rule 1 direct)")
        kernel = op.kernels[CPU][0]
        assert lines[place + 1] == f"    explicit kernel cpu, {kernel.site}"
        assert kernel.site.rpartition(":")[0].endswith("_fakes.py")
        assert kernel.site.rpartition(":")[2].isdecimal()

    def test_says_why_the_others_lost(self, reg: Registry) -> None:
        impl(reg, "t::f", "composite", IMPLICIT)
        impl(reg, "t::f", "generated", CPU, origin="generated")
        impl(reg, "t::f", "newest", CPU, allow_override=True)
        impl(reg, "t::f", "meta", META)
        reg.fallback(Kernel(named("fallback"), CPU, boxed=True))
        text = explain(reg.find("t::f"), Fake(CPU))
        lost = {line.split("kernel ")[1].split(" for ")[0]: line for line in text.splitlines() if "  lost: " in line}
        assert lost["composite"].endswith(": rule 1 direct comes first")
        assert lost["fallback"].endswith(": rule 1 direct comes first")
        assert lost["cpu"].endswith(": hidden by the one above: explicit beats generated, then the newest wins")
        assert lost["generated"].endswith(": hidden by the one above: explicit beats generated, then the newest wins")
        assert lost["meta"].endswith(": the call has no key Meta")
        assert lost["tracer"].endswith(": the call has no key Tracer")
        assert "newest" not in lost
        lower = explain(reg.find("t::f"), Fake(TRACER, CPU))
        (line,) = [line for line in lower.splitlines() if "lost" in line and "newest" in line]
        assert line.endswith(": Tracer comes first")

    def test_says_what_was_included_and_excluded(self, reg: Registry) -> None:
        with IncludeDispatchKeyGuard(DispatchKeySet([TRACER, BATCHED])), ExcludeDispatchKeyGuard(BATCHED):
            text = explain(reg.find("t::f"), Fake(CPU))
        assert "  included locally: DispatchKeySet(Batched, Tracer; bits: Batched, Tracer)" in text
        assert "  excluded locally: DispatchKeySet(Batched; bits: Batched)" in text
        assert "  Tracer: handles the call" in text
        plain = explain(reg.find("t::f"), Fake(CPU))
        assert "locally" not in plain

    def test_fallthrough_skipped_and_conditional(self) -> None:
        reg = fresh(F)
        impl(reg, "t::f", fallthrough_kernel, TRACER)
        impl(reg, "t::f", "formula", AUTOGRAD, only_with=TRAIT)
        impl(reg, "t::f", "cpu", CPU)

        def for_small(x: Any) -> bool:
            raise AssertionError("explain runs no predicate")

        impl(reg, "t::f", "small", CPU, when=for_small, priority=3)
        fake = Fake(TRACER, AUTOGRAD_CPU, CPU)
        text = explain(reg.find("t::f"), fake)
        assert "  Tracer: falls through (rule 1 direct)" in text
        assert "  AutogradCPU: skipped: no argument needs it (rule 2.3 Autograd)" in text
        assert "for_small" in text
        assert "explicit kernel small for CPU" in text
        assert "(priority 3)" in text
        fake._word |= TRAIT
        text = explain(reg.find("t::f"), fake)
        assert "  AutogradCPU: handles the call (rule 2.3 Autograd)" in text
        assert "      CPU: handles the call (rule 1 direct)" in text  # what it will redispatch to

    def test_runs_no_kernel_and_changes_nothing(self) -> None:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            raise AssertionError("explain runs no kernel")

        reg = fresh(F)
        for key in DispatchKey:
            if key.is_alias or key.backend or not key.per_backend:
                impl(reg, "t::f", kernel, key)
        before = snapshot(reg)
        for key in DispatchKey:
            assert "handles the call" in explain(reg.find("t::f"), Fake(key, CPU))
        assert snapshot(reg) == before

    def test_under_a_mode(self, reg: Registry) -> None:
        with DispatchMode():
            text = explain(reg.find("t::f"), Fake(CPU))
        assert "  Mode: handles the call (rule 3 fallback)" in text

    def test_calls_that_would_fail(self, reg: Registry) -> None:
        reg.autograd_other = ("CPU",)
        op = reg.define("t::g(Tensor x, Tensor? y=None, *, int n=0) -> Tensor")
        assert "the call would raise MissingKernelError" in explain(op, Fake(CPU))
        assert "the call would raise MissingKernelError" in explain(op, Fake())
        impl(reg, "t::g", "cuda", CUDA)
        assert "the call would raise DeviceMismatchError: cpu and cuda" in explain(op, Fake(CPU), Fake(CUDA))
        impl(reg, "t::g", "composite", IMPLICIT)
        impl(reg, "t::g", "cpu", CPU)
        text = explain(op, Fake(OTHER, CPU))
        assert "AutogradOther: ambiguous (rule 2.2 ambiguous)" in text
        assert "the call would raise RegistrationError: CPU has a kernel of its own" in text

    @pytest.mark.parametrize(
        ("args", "kwargs", "why"),
        [
            ((), {}, "ArgumentError: [t::g] needs the argument 'x'"),
            ((1, 2, 3), {}, "ArgumentError: [t::g] takes 2 arguments by position, got 3"),
            ((Fake(CPU),), {"m": 1}, "ArgumentError: [t::g] has no argument 'm'"),
            ((Fake(CPU),), {"x": 1}, "ArgumentError: [t::g] got two values for the argument 'x'"),
            ((3,), {}, "ArgumentError: [t::g] the argument 'x' must be a Tensor, got 3 of type int"),
            ((Fake(CPU), "two"), {}, "ArgumentError: [t::g] the argument 'n' must be an int, got 'two' of type str"),
        ],
    )
    def test_bad_arguments(self, reg: Registry, args: Any, kwargs: Any, why: str) -> None:
        op = reg.define("t::g(Tensor x, int n=1) -> Tensor")
        impl(reg, "t::g", "cpu", CPU)
        text = explain(op, *args, **kwargs)
        assert text.startswith("explain t::g(Tensor x, int n=1) -> Tensor\n")
        assert f"  the call would raise {why}" in text
        with pytest.raises(TypeError):
            op(*args, **kwargs)

    @pytest.mark.parametrize("op", [None, 3, "t::f", len, lambda x: x, Operator, object()], ids=str)
    def test_what_is_no_operator(self, op: Any) -> None:
        text = explain(op, 1, n=2)
        assert text.startswith("explain ")
        assert text.endswith(": this is no operator; give one of tk.ops.<namespace>.<name>.")

    def test_never_raises(self, reg: Registry) -> None:
        op = reg.find("t::f")
        for call in (
            lambda: explain(_Hostile()),
            lambda: explain(op, _Hostile()),
            lambda: explain(op, _Hostile(), _Hostile(), y=_Hostile()),
            lambda: explain(OperatorPacket(reg, "t::nothing"), 1),
        ):
            assert call().startswith("explain ")

        def fails(*args: Any) -> Any:
            raise _HostileError

        reg.preparers.append(fails)
        assert explain(op, Fake(CPU)).endswith("cannot be explained: _HostileError")
        reg.preparers.clear()
        reg.undefine(op)
        assert explain(op, Fake(CPU)).startswith(f"explain {F}")

    def test_factories(self, reg: Registry) -> None:
        op = reg.define("t::g(int n, *, Device? device=None) -> Tensor")
        reg.device_word = lambda device: DispatchKeySet(CPU).mask
        impl(reg, "t::g", "cpu", CPU)
        assert "  no tensor arguments; the device gives DispatchKeySet(CPU; bits: Dense, CPUBit)" in explain(op, 3)
        plain = reg.define("t::h(int n) -> int")
        assert "  no tensor arguments; the keyset is DispatchKeySet()" in explain(plain, 3)

    def test_takes_operators_entries_and_packets(self, reg: Registry) -> None:
        op = reg.find("t::f")
        assert explain(op.call, Fake(CPU)) == explain(op, Fake(CPU)) == explain(reg.namespace("t").f, Fake(CPU))

    def test_packet_explains_the_overload_that_fits(self, reg: Registry) -> None:
        reg.define("t::f.two(Tensor x, Tensor y) -> Tensor")
        packet = reg.namespace("t").f
        assert explain(packet, Fake(CPU)).startswith(f"explain {F}\n")
        assert explain(packet, Fake(CPU), Fake(CPU)).startswith("explain t::f.two(")
        assert "no overload fits the arguments" in explain(packet, 1, 2, 3)


class TestPackets:
    @pytest.fixture
    def reg(self) -> Registry:
        made = fresh(
            "t::f(Tensor x, Tensor y) -> Tensor",
            "t::f.scalar(Tensor x, Scalar y) -> Tensor",
            "t::f.dims(Tensor x, int[] y, *, DType? dtype=None) -> Tensor",
        )
        for op in made:
            impl(made, op.name, op.schema.overload_name or "default", CPU)
        return made

    def test_overloads(self, reg: Registry) -> None:
        packet = reg.namespace("t").f
        assert packet.overloads() == ["default", "scalar", "dims"]
        assert packet.default is reg.find("t::f")
        assert packet.scalar is reg.find("t::f.scalar")
        assert str(packet) == "t::f"
        assert repr(packet) == "<operator packet t::f: default, scalar, dims>"
        assert packet.__name__ == "f"

    def test_first_that_fits(self, reg: Registry) -> None:
        packet, x = reg.namespace("t").f, Fake(CPU)
        assert packet(x, x)[0] == "default"
        assert packet(x, 2)[0] == packet(x, y=2.5)[0] == packet(x=x, y=True)[0] == "scalar"
        assert packet(x, (1, 2))[0] == packet(x, [1])[0] == "dims"
        assert packet(x, [], dtype=None)[0] == "dims"

    @pytest.mark.parametrize(
        ("args", "kwargs"), [((), {}), ((1, 2), {}), ((None, None), {}), ((Fake(CPU), "a"), {}), ((Fake(CPU),), {"z": 1})]
    )
    def test_none_fits(self, reg: Registry, args: Any, kwargs: Any) -> None:
        with pytest.raises(ArgumentError) as caught:
            reg.namespace("t").f(*args, **kwargs)
        lines = str(caught.value).splitlines()
        assert lines[0] == "[t::f] no overload fits the arguments:"
        assert [line.split(": ")[0].strip() for line in lines[1:]] == [str(op.schema) for op in reg]

    def test_converter_that_raises_value_error(self, reg: Registry) -> None:
        """An overload whose dtype cannot be read does not fit; the next one is tried."""

        def convert(value: Any) -> Any:
            raise ValueError(f"no dtype {value!r}")

        reg.converters["DType"] = convert
        reg.define("t::g(Tensor x, DType dtype) -> Tensor")
        reg.define("t::g.text(Tensor x, str text) -> Tensor")
        impl(reg, "t::g.text", "text", CPU)
        assert reg.namespace("t").g(Fake(CPU), "no such dtype")[0] == "text"

    def test_single_overload_reports_its_own_error(self, reg: Registry) -> None:
        reg.define("t::one(Tensor x, int n) -> Tensor")
        with pytest.raises(ArgumentError, match=r"^\[t::one\] the argument 'n' must be an int"):
            reg.namespace("t").one(Fake(CPU), "n")

    def test_unknown_overload_and_operator(self, reg: Registry) -> None:
        with pytest.raises(AttributeError, match=r"there is no operator 't::f.scalr'. Close: t::f.scalar"):
            _ = reg.namespace("t").f.scalr
        with pytest.raises(AttributeError, match="there is no operator 't::fff'. Close: "):
            _ = reg.namespace("t").fff
        assert not hasattr(reg.namespace("empty"), "f")
        assert not hasattr(reg.namespace("t").f, "__wrapped__")

    def test_no_default_overload(self, reg: Registry) -> None:
        reg.define("t::only.named(Tensor x) -> Tensor")
        packet = reg.namespace("t").only
        assert packet.overloads() == ["named"]
        with pytest.raises(AttributeError, match="there is no operator 't::only'"):
            _ = packet.default

    def test_all_overloads_removed(self, reg: Registry) -> None:
        packet = reg.namespace("t").f
        for op in reg:
            reg.undefine(op)
        with pytest.raises(OperatorNotFoundError, match="there is no operator 't::f'"):
            packet(Fake(CPU))

    def test_namespace_lists_its_operators(self, reg: Registry) -> None:
        reg.define("other::g(Tensor x) -> Tensor")
        reg.define("t::a(Tensor x) -> Tensor")
        assert dir(reg.namespace("t")) == ["a", "f"]
        assert repr(reg.namespace("t")) == "<operators of the namespace 't'>"


class TestPickle:
    @pytest.fixture
    def op(self) -> Iterator[Operator]:
        made = registry.define("test_dispatch::f.over(Tensor x) -> Tensor")
        yield made
        registry.undefine(made)

    def test_operators_pickle_by_name(self, op: Operator) -> None:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(op, protocol)
            assert pickle.loads(data) is op
            assert b"test_dispatch::f.over" in data
        assert len(pickle.dumps(op)) < 300
        assert copy.deepcopy(op) is copy.copy(op) is op

    def test_packets(self, op: Operator) -> None:
        packet = registry.namespace("test_dispatch").f
        assert pickle.loads(pickle.dumps(packet)).over is op

    def test_of_a_removed_operator(self, op: Operator) -> None:
        data = pickle.dumps(op)
        registry.undefine(op)
        with pytest.raises(OperatorNotFoundError, match="there is no operator 'test_dispatch::f.over'"):
            pickle.loads(data)

    def test_redefined_since(self, op: Operator) -> None:
        data = pickle.dumps(op)
        registry.undefine(op)
        again = registry.define("test_dispatch::f.over(Tensor x, Tensor y) -> Tensor")
        try:
            assert pickle.loads(data) is again
        finally:
            registry.undefine(again)


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
            TestGuards().in_thread(lambda: op(fake))
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
        impl(reg, "t::outer", lambda x: reg.find("t::f")(x), IMPLICIT)
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
