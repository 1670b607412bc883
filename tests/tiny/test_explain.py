"""``explain``: what a call would do, in text, without doing it and without ever raising."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenkey.dispatch import (
    DispatchKey,
    DispatchKeySet,
    DispatchMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    Kernel,
    Operator,
    OperatorPacket,
    Registry,
    explain,
    fallthrough_kernel,
)
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    BATCHED,
    CPU,
    CUDA,
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
    with_three_kernels,
)

# Precedence is tested with kernels that shadow one another: the warning has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore::tenkey.dispatch.ShadowedKernelWarning")

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    return with_three_kernels()


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
        assert lines[2] == "  argument x: AutogradCPU > CPU with trait of the tests"
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
        assert "  included locally: Batched > Tracer\n" in text
        assert "  excluded locally: Batched\n" in text
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

    def test_conditions_are_named_and_not_asked(self) -> None:
        class Predicate:
            def __call__(self, x: Any) -> bool:
                raise AssertionError("explain runs no predicate")

            def __repr__(self) -> str:
                raise AssertionError("explain runs no predicate")

        def is_small(x: Any) -> bool:
            raise AssertionError("explain runs no predicate")

        reg = fresh(F)
        impl(reg, "t::f", "one", CPU, when=is_small, priority=2)
        impl(reg, "t::f", "two", CPU, when=Predicate())
        lines = explain(reg.find("t::f"), Fake(CPU)).splitlines()
        asked = [line for line in lines if "first asks" in line]
        place = f"{__file__}:{is_small.__code__.co_firstlineno}"
        assert f"is_small ({place}):" in asked[0]
        assert "explicit kernel one for CPU" in asked[0]
        assert "(priority 2)" in asked[0]
        assert "Predicate" in asked[1]
        assert "    if none accepts, the call would raise MissingKernelError" in lines

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
        assert "    if every mode passes the call on:\n      CPU: handles the call (rule 1 direct)\n" in text

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

    @pytest.mark.parametrize(
        "op", [None, 3, len, lambda x: x, Operator, object()], ids=lambda value: str(value).partition(" at 0x")[0]
    )
    def test_what_is_no_operator(self, op: Any) -> None:
        text = explain(op, 1, n=2)
        assert text.startswith("explain ")
        assert ": not an operator; give one (tk.add, tk.ops.<namespace>.<name>) or its name" in text

    def test_takes_the_name_of_an_operator(self) -> None:
        assert explain("tk::add", 1, 2).startswith("explain tk::add(Tensor x1, Tensor x2) -> Tensor\n")
        assert "cannot be explained: OperatorNotFoundError: there is no operator 'tk::ad'" in explain("tk::ad")
        assert explain("add", 1, 2) == explain("tk::add", 1, 2)  # the namespace of the built-in ones may be left out
        assert "there is no operator 'tk::ad'. Close: tk::" in explain("ad")

    def test_never_raises(self, reg: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
        op = reg.find("t::f")
        calls: list[Callable[[], str]] = [
            lambda: explain(_Hostile()),
            lambda: explain(op, _Hostile()),
            lambda: explain(op, _Hostile(), _Hostile(), y=_Hostile()),
            lambda: explain(OperatorPacket(reg, "t::nothing"), 1),
        ]
        for call in calls:
            assert call().startswith("explain ")

        def fails(*args: Any) -> Any:
            raise _HostileError

        with monkeypatch.context() as patch:
            patch.setattr(op, "slot", fails)
            assert explain(op, Fake(CPU)).endswith("cannot be explained: _HostileError")
        reg.undefine(op)
        assert explain(op, Fake(CPU)).startswith(f"explain {F}")

    def test_factories(self, reg: Registry) -> None:
        op = reg.define("t::g(int n, *, Device? device=None) -> Tensor")
        reg.hooks.device_word = lambda device: DispatchKeySet(CPU).mask
        impl(reg, "t::g", "cpu", CPU)
        assert "  no tensor arguments; the device gives CPU\n" in explain(op, 3)
        plain = reg.define("t::h(int n) -> int")
        assert "  no tensor arguments; the default device gives CPU\n" in explain(plain, 3)

    def test_takes_operators_entries_and_packets(self, reg: Registry) -> None:
        op = reg.find("t::f")
        assert explain(op.call, Fake(CPU)) == explain(op, Fake(CPU)) == explain(reg.namespace("t").f, Fake(CPU))

    def test_packet_explains_the_overload_that_fits(self, reg: Registry) -> None:
        reg.define("t::f.two(Tensor x, Tensor y) -> Tensor")
        packet = reg.namespace("t").f
        assert explain(packet, Fake(CPU)).startswith(f"explain {F}\n")
        assert explain(packet, Fake(CPU), Fake(CPU)).startswith("explain t::f.two(")
        assert "no overload fits the arguments" in explain(packet, 1, 2, 3)
