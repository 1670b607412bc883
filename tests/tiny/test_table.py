"""Note [Precedence], rule by rule, on fresh registries and three-line tensors."""

from __future__ import annotations

from typing import Any

import pytest

from tenkey.dispatch import (
    DispatchKey,
    DispatchKeySet,
    Kernel,
    MissingKernelError,
    RegistrationError,
    Registry,
    compute_table,
    fallthrough_kernel,
)
from tenkey.dispatch.keys import all_runtime_keys
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    AUTOGRAD_CUDA,
    BATCHED,
    CPU,
    CUDA,
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
)

# Precedence is tested with kernels that shadow one another: the warning has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore::tenkey.dispatch.ShadowedKernelWarning")

F = "t::f(Tensor x) -> Tensor"
BACKENDS = [key for key in all_runtime_keys() if key.functionality == "Dense"]
AUTOGRADS = [key for key in all_runtime_keys() if key.is_autograd]
OTHERS = [key for key in all_runtime_keys() if key not in BACKENDS + AUTOGRADS and key is not DispatchKey.Mode]


@pytest.fixture
def registry() -> Registry:
    return fresh(F)


def rule(registry: Registry, key: DispatchKey) -> str:
    op = registry.find("t::f")
    assert op.table() == compute_table(op)
    return op.table()[key].rule


def call(registry: Registry, *keys: DispatchKey, traits: int = 0) -> Any:
    """The name of the kernel that a call with these keys reaches."""
    return registry.find("t::f")(Fake(*keys, traits=traits))[0]


def test_covers_all_runtime_keys(registry: Registry) -> None:
    assert tuple(registry.find("t::f").table()) == all_runtime_keys()


class TestRule1Direct:
    @pytest.mark.parametrize("key", all_runtime_keys(), ids=str)
    def test_wins_over_everything(self, registry: Registry, key: DispatchKey) -> None:
        for other in (EXPLICIT, IMPLICIT, AUTOGRAD):
            impl(registry, "t::f", str(other), other)
        registry.fallback(Kernel(named("fallback"), key, boxed=True))
        impl(registry, "t::f", "direct", key)
        assert rule(registry, key) == "1 direct"
        assert call(registry, key) == "direct"

    def test_only_for_its_key(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        assert rule(registry, CUDA) == "4 missing"
        assert rule(registry, AUTOGRAD_CPU) == "4 falls through"

    def test_explicit_beats_generated_in_any_order(self, registry: Registry) -> None:
        impl(registry, "t::f", "explicit", CPU)
        impl(registry, "t::f", "generated", CPU, origin="generated")
        impl(registry, "t::f", "generated", CUDA, origin="generated")
        impl(registry, "t::f", "explicit", CUDA)
        assert call(registry, CPU) == call(registry, CUDA) == "explicit"

    def test_of_equals_the_newest_wins_and_the_older_comes_back(self, registry: Registry) -> None:
        impl(registry, "t::f", "first", CPU)
        second = impl(registry, "t::f", "second", CPU, allow_override=True)
        third = impl(registry, "t::f", "third", CPU, allow_override=True)
        assert call(registry, CPU) == "third"
        second.remove()
        assert call(registry, CPU) == "third"
        third.remove()
        assert call(registry, CPU) == "first"


class TestRule21CompositeExplicit:
    def test_serves_every_backend_and_no_other_key(self, registry: Registry) -> None:
        impl(registry, "t::f", "explicit", EXPLICIT)
        for key in BACKENDS:
            assert rule(registry, key) == "2.1 CompositeExplicitAutograd"
            assert call(registry, key) == "explicit"
        for key in AUTOGRADS + OTHERS:
            assert rule(registry, key) == "4 falls through"

    def test_before_implicit(self, registry: Registry) -> None:
        impl(registry, "t::f", "implicit", IMPLICIT)
        impl(registry, "t::f", "explicit", EXPLICIT)
        assert rule(registry, CPU) == "2.1 CompositeExplicitAutograd"

    def test_switches_the_implicit_one_off_on_autograd_keys(self, registry: Registry) -> None:
        """The operator is no leaf of the formulas below it any more: it needs one of its own."""
        impl(registry, "t::f", "implicit", IMPLICIT)
        handle = impl(registry, "t::f", "explicit", EXPLICIT)
        impl(registry, "t::f", "autograd", AUTOGRAD)
        for key in AUTOGRADS:
            assert rule(registry, key) == "2.3 Autograd"
        handle.remove()
        for key in AUTOGRADS:
            assert rule(registry, key) == "2.2 CompositeImplicitAutograd"


class TestRule22CompositeImplicit:
    def test_serves_backends_and_autograd_keys(self, registry: Registry) -> None:
        impl(registry, "t::f", "implicit", IMPLICIT)
        for key in BACKENDS + AUTOGRADS:
            assert rule(registry, key) == "2.2 CompositeImplicitAutograd"
        for key in OTHERS:
            assert rule(registry, key) == "4 falls through"
        assert call(registry, CPU, AUTOGRAD_CPU) == "implicit"

    def test_before_the_autograd_alias(self, registry: Registry) -> None:
        impl(registry, "t::f", "autograd", AUTOGRAD)
        impl(registry, "t::f", "implicit", IMPLICIT)
        assert rule(registry, AUTOGRAD_CPU) == "2.2 CompositeImplicitAutograd"

    def test_backend_kernel_refreshes_its_own_autograd_slot_alone(self, registry: Registry) -> None:
        impl(registry, "t::f", "implicit", IMPLICIT)
        assert call(registry, CPU, AUTOGRAD_CPU) == "implicit"  # both slots are filled now
        handle = impl(registry, "t::f", "cpu", CPU)
        assert rule(registry, AUTOGRAD_CPU) == "4 falls through"
        assert rule(registry, AUTOGRAD_CUDA) == "2.2 CompositeImplicitAutograd"
        assert call(registry, CPU, AUTOGRAD_CPU) == "cpu"
        assert call(registry, CUDA, AUTOGRAD_CUDA) == "implicit"
        handle.remove()
        assert call(registry, CPU, AUTOGRAD_CPU) == "implicit"

    def test_autograd_other_is_ambiguous(self, registry: Registry) -> None:
        """Only the call fails, and only on that key: the table can still be printed and explained."""
        registry.autograd_other = ("CPU", "Meta")
        impl(registry, "t::f", "implicit", IMPLICIT)
        assert rule(registry, OTHER) == "2.2 CompositeImplicitAutograd"
        handle = impl(registry, "t::f", "meta", META)
        assert rule(registry, OTHER) == "2.2 ambiguous"
        assert "2.2 ambiguous" in str(registry.find("t::f").table())
        with pytest.raises(RegistrationError) as caught:
            call(registry, META, OTHER)
        assert str(caught.value) == (
            "[t::f] is ambiguous for AutogradOther: it has a composite kernel, and Meta has a kernel of its own. "
            "Register a kernel for AutogradOther."
        )
        assert call(registry, META) == "meta"
        remedy = impl(registry, "t::f", "other", OTHER)
        assert call(registry, META, OTHER) == "other"
        remedy.remove()
        handle.remove()
        assert call(registry, META, OTHER) == "implicit"

    def test_backend_that_is_not_behind_autograd_other(self, registry: Registry) -> None:
        registry.autograd_other = ("Meta",)
        impl(registry, "t::f", "implicit", IMPLICIT)
        impl(registry, "t::f", "cpu", CPU)
        assert rule(registry, OTHER) == "2.2 CompositeImplicitAutograd"


class TestRule23Autograd:
    def test_serves_all_autograd_keys_and_no_other(self, registry: Registry) -> None:
        impl(registry, "t::f", "autograd", AUTOGRAD)
        for key in AUTOGRADS:
            assert rule(registry, key) == "2.3 Autograd"
        for key in OTHERS:
            assert rule(registry, key) == "4 falls through"
        for key in BACKENDS:
            assert rule(registry, key) == "4 missing"

    def test_before_the_fallback(self, registry: Registry) -> None:
        registry.fallback(Kernel(named("fallback"), AUTOGRAD_CPU, boxed=True))
        assert rule(registry, AUTOGRAD_CPU) == "3 fallback"
        impl(registry, "t::f", "autograd", AUTOGRAD)
        assert rule(registry, AUTOGRAD_CPU) == "2.3 Autograd"

    def test_skipped_where_no_argument_needs_it(self, registry: Registry) -> None:
        impl(registry, "t::f", "autograd", AUTOGRAD, only_with=TRAIT)
        impl(registry, "t::f", "cpu", CPU)
        assert call(registry, CPU, AUTOGRAD_CPU) == "cpu"
        assert call(registry, CPU, AUTOGRAD_CPU, traits=TRAIT) == "autograd"


class TestRule3Fallback:
    @pytest.mark.parametrize("key", [TRACER, BATCHED, AUTOGRAD_CPU, CPU, DispatchKey.BackendSelect], ids=str)
    def test_serves_operators_without_a_kernel(self, registry: Registry, key: DispatchKey) -> None:
        def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
            return (op, args, kwargs)

        handle = registry.fallback(Kernel(fallback, key, boxed=True))
        op, fake = registry.find("t::f"), Fake(key)
        assert rule(registry, key) == "3 fallback"
        assert op(fake) == (op, (fake,), {})
        later = registry.define("t::g(Tensor x, *, int n=2) -> Tensor")
        assert later(fake) == (later, (fake,), {"n": 2})
        handle.remove()
        assert rule(registry, key).startswith("4")

    def test_stack(self, registry: Registry) -> None:
        first = registry.fallback(Kernel(lambda op, x: ("first",), TRACER, boxed=True))
        second = registry.fallback(Kernel(lambda op, x: ("second",), TRACER, boxed=True))
        assert call(registry, TRACER) == "second"
        first.remove()
        assert call(registry, TRACER) == "second"
        second.remove()
        assert rule(registry, TRACER) == "4 falls through"
        assert registry.fallbacks.keys() == {DispatchKey.Mode}

    def test_autograd_alias(self, registry: Registry) -> None:
        registry.fallback(Kernel(lambda op, x: ("all",), AUTOGRAD, boxed=True))
        for key in AUTOGRADS:
            assert rule(registry, key) == "3 fallback"
        registry.fallback(Kernel(lambda op, x: ("own",), AUTOGRAD_CPU, boxed=True))
        assert call(registry, AUTOGRAD_CPU) == "own"
        assert call(registry, AUTOGRAD_CUDA) == "all"

    @pytest.mark.parametrize("alias", [IMPLICIT, EXPLICIT], ids=str)
    def test_composite_alias_is_refused(self, registry: Registry, alias: DispatchKey) -> None:
        before = dict(registry.fallbacks)
        with pytest.raises(RegistrationError, match=f"a fallback needs a runtime key, got the alias {alias.name}"):
            registry.fallback(Kernel(named("fallback"), alias, boxed=True))
        assert registry.fallbacks == before


class TestRule4None:
    def test_backend_is_missing_other_keys_fall_through(self, registry: Registry) -> None:
        for key in BACKENDS:
            assert rule(registry, key) == "4 missing"
        for key in AUTOGRADS + OTHERS:
            assert rule(registry, key) == "4 falls through"
            assert registry.find("t::f").table()[key].falls_through
        with pytest.raises(MissingKernelError):
            call(registry, CPU)

    def test_falling_through_reaches_the_next_key(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        above = [key for key in OTHERS if key.backend in (None, "CPU")]
        assert call(registry, DispatchKey.Mode, *above, AUTOGRAD_CPU, OTHER, CPU) == "cpu"
        impl(registry, "t::f", "tracer", TRACER)
        assert call(registry, *above, AUTOGRAD_CPU, CPU) == "tracer"


class TestFallthrough:
    def test_masks_its_key(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        registry.fallback(Kernel(named("fallback"), TRACER, boxed=True))
        assert call(registry, TRACER, CPU) == "fallback"
        handle = impl(registry, "t::f", fallthrough_kernel, TRACER)
        assert rule(registry, TRACER) == "1 direct"
        assert call(registry, TRACER, CPU) == "cpu"
        handle.remove()
        assert call(registry, TRACER, CPU) == "fallback"

    def test_as_a_fallback(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        impl(registry, "t::f", "autograd", AUTOGRAD)
        registry.fallback(Kernel(fallthrough_kernel, TRACER, boxed=True))
        assert call(registry, TRACER, CPU) == "cpu"

    def test_on_the_alias(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        impl(registry, "t::f", fallthrough_kernel, AUTOGRAD)
        assert rule(registry, AUTOGRAD_CPU) == "2.3 Autograd"
        assert call(registry, AUTOGRAD_CPU, CPU) == "cpu"

    def test_everywhere_is_a_missing_kernel(self, registry: Registry) -> None:
        impl(registry, "t::f", fallthrough_kernel, CPU)
        with pytest.raises(MissingKernelError, match="Kernels there are: none"):
            call(registry, CPU)


class TestConditional:
    """``when=`` and ``priority=``: several kernels for one key."""

    @pytest.fixture
    def registry(self) -> Registry:
        return fresh("t::f(Tensor x, int n, *, int m=0) -> Tensor")

    def call(self, registry: Registry, *args: Any, keys: tuple[DispatchKey, ...] = (CPU,), **kwargs: Any) -> Any:
        op = registry.find("t::f")
        assert op.table() == compute_table(op)
        return op(Fake(*keys), *args, **kwargs)[0]

    def test_highest_priority_that_accepts_else_the_unconditional(self, registry: Registry) -> None:
        impl(registry, "t::f", "any", CPU)
        impl(registry, "t::f", "positive", CPU, when=lambda x, n, *, m: n > 0, priority=1)
        impl(registry, "t::f", "large", CPU, when=lambda x, n, *, m: n > 100, priority=2)
        impl(registry, "t::f", "even", CPU, when=lambda x, n, *, m: n % 2 == 0)
        assert [self.call(registry, n) for n in (-1, 5, 4, 101, -2)] == ["any", "positive", "positive", "large", "even"]

    def test_of_equal_priority_the_newest(self, registry: Registry) -> None:
        impl(registry, "t::f", "older", CPU, when=lambda *a, **k: True)
        newer = impl(registry, "t::f", "newer", CPU, when=lambda *a, **k: True)
        assert self.call(registry, 1) == "newer"
        newer.remove()
        assert self.call(registry, 1) == "older"

    def test_gets_the_kernels_arguments(self, registry: Registry) -> None:
        seen = []

        def when(*args: Any, **kwargs: Any) -> bool:
            seen.append((args, kwargs))
            return True

        impl(registry, "t::f", "kernel", CPU, when=when)
        fake = Fake(CPU)
        _, args, kwargs = registry.find("t::f")(fake, 3)
        assert seen == [(args, kwargs)] == [((fake, 3), {"m": 0})]

    def test_none_accepts_on_a_backend(self, registry: Registry) -> None:
        impl(registry, "t::f", "kernel", CPU, when=lambda x, n, *, m: n > 0)
        assert self.call(registry, 1) == "kernel"
        with pytest.raises(MissingKernelError, match=r"\[t::f\] has no kernel for cpu"):
            self.call(registry, 0)

    def test_none_accepts_on_a_key_that_falls_through(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        impl(registry, "t::f", "tracer", TRACER, when=lambda x, n, *, m: n > 0)
        assert self.call(registry, 1, keys=(TRACER, CPU)) == "tracer"
        assert self.call(registry, 0, keys=(TRACER, CPU)) == "cpu"

    def test_before_a_fallthrough_kernel(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        impl(registry, "t::f", fallthrough_kernel, TRACER)
        impl(registry, "t::f", "tracer", TRACER, when=lambda x, n, *, m: n > 0)
        assert self.call(registry, 1, keys=(TRACER, CPU)) == "tracer"
        assert self.call(registry, 0, keys=(TRACER, CPU)) == "cpu"

    def test_before_a_kernel_that_no_argument_needs(self, registry: Registry) -> None:
        impl(registry, "t::f", "cpu", CPU)
        impl(registry, "t::f", "autograd", AUTOGRAD, only_with=TRAIT)
        impl(registry, "t::f", "own", AUTOGRAD_CPU, when=lambda x, n, *, m: n > 0)
        assert self.call(registry, 1, keys=(AUTOGRAD_CPU, CPU)) == "own"
        assert self.call(registry, 0, keys=(AUTOGRAD_CPU, CPU)) == "cpu"
        assert registry.find("t::f")(Fake(AUTOGRAD_CPU, CPU, traits=TRAIT), 0)[0] == "autograd"

    def test_before_composites_and_fallbacks(self, registry: Registry) -> None:
        handle = impl(registry, "t::f", "composite", IMPLICIT)
        impl(registry, "t::f", "kernel", CPU, when=lambda x, n, *, m: n > 0)
        assert [self.call(registry, n) for n in (1, 0)] == ["kernel", "composite"]
        handle.remove()
        registry.fallback(Kernel(lambda op, *args, **kwargs: ("fallback",), CPU, boxed=True))
        assert [self.call(registry, n) for n in (1, 0)] == ["kernel", "fallback"]

    def test_is_no_duplicate(self, registry: Registry) -> None:
        for _ in range(3):
            impl(registry, "t::f", "kernel", CPU, when=lambda *a, **k: False)
        impl(registry, "t::f", "unconditional", CPU)
        assert self.call(registry, 1) == "unconditional"

    def test_predicate_that_raises(self, registry: Registry) -> None:
        impl(registry, "t::f", "any", CPU)
        handle = impl(registry, "t::f", "kernel", CPU, when=lambda x, n, *, m: 1 / n > 0)
        with pytest.raises(ZeroDivisionError):
            self.call(registry, 0)
        handle.remove()
        assert self.call(registry, 0) == "any"


class TestState:
    def test_table_is_what_the_registrations_alone_say(self, registry: Registry) -> None:
        """After every registration and removal the remembered slots equal a table computed anew."""
        op = registry.find("t::f")
        # not those of the backends that other tests registered: the time grows with the third power of their number
        keys = [key for key in all_runtime_keys() if key.backend in (None, "CPU", "CUDA", "Meta")]
        fakes = [Fake(key) for key in keys if key is not DispatchKey.Mode]

        def check() -> None:
            assert op.table() == compute_table(op)
            for fake in fakes:  # fills the slots and the cache, so that a stale one would be seen next time
                try:
                    op(fake)
                except (MissingKernelError, RegistrationError):
                    continue
            assert op.table() == compute_table(op)

        handles = []
        for key in [*keys, IMPLICIT, EXPLICIT, AUTOGRAD]:
            handles.append(impl(registry, "t::f", str(key), key))
            check()
            if not key.is_alias:
                handles.append(registry.fallback(Kernel(named("fallback"), key, boxed=True)))
                check()
        for handle in handles[::2] + handles[1::2]:
            handle.remove()
            check()
        nothing_left = compute_table(fresh(F).find("t::f"))
        assert {key: slot.rule for key, slot in op.table().items()} == {k: s.rule for k, s in nothing_left.items()}
        assert not op.kernels

    def test_slots_are_computed_when_asked_for(self, registry: Registry) -> None:
        op = registry.find("t::f")
        impl(registry, "t::f", "cpu", CPU)
        assert not op._slots
        call(registry, CPU)
        assert op._slots.keys() == {CPU}

    def test_prints_rule_kernel_and_place(self, registry: Registry) -> None:
        impl(registry, "t::f", "the_kernel", CPU)
        impl(registry, "t::f", "the_composite", EXPLICIT, origin="generated")
        text = str(registry.find("t::f").table())
        (line,) = [line for line in text.splitlines() if line.startswith("CPU ")]
        assert "1 direct" in line
        assert "explicit kernel the_kernel for CPU" in line
        assert "_fakes.py:" in line
        (line,) = [line for line in text.splitlines() if line.startswith("CUDA ")]
        assert "2.1 CompositeExplicitAutograd" in line
        assert "generated kernel the_composite" in line
        assert "falls through" not in text

    def test_kernel_gets_the_keyset_it_was_reached_with(self, registry: Registry) -> None:
        def kernel(keyset: DispatchKeySet, x: Any) -> Any:
            return ("got", keyset)

        impl(registry, "t::f", kernel, CPU, with_keyset=True)
        _, keyset = registry.find("t::f")(Fake(TRACER, CPU, traits=TRAIT))
        assert keyset == DispatchKeySet([TRACER, CPU])

    def test_specialised_for_each_word(self, registry: Registry) -> None:
        words = []

        def specialize(op: Any, word: int) -> Any:
            words.append(word)
            return lambda x: (word,)

        impl(registry, "t::f", "never called", CPU, specialize=specialize)
        plain, other = Fake(CPU), Fake(CPU, traits=TRAIT)
        op = registry.find("t::f")
        assert [op(plain), op(other), op(plain)] == [(plain._word,), (other._word,), (plain._word,)]
        assert words == [plain._word, other._word]  # once for each word, not once for each call
        op.invalidate()
        op(plain)
        assert len(words) == 3
