"""Registrations: all or nothing, taken back in any order, and refused with a text that names both places."""

from __future__ import annotations

import copy
import operator as python_operator
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tenkey.dispatch import (
    ArgumentError,
    DispatchKey,
    Handle,
    Kernel,
    MissingKernelError,
    OperatorNotFoundError,
    RegistrationError,
    Registry,
    SchemaError,
    ShadowedKernelWarning,
    fallthrough_kernel,
    registry,
)
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    BATCHED,
    CPU,
    CUDA,
    EXPLICIT,
    IMPLICIT,
    META,
    TRACER,
    Fake,
    fresh,
    impl,
    named,
    snapshot,
)

# Precedence is tested with kernels that shadow one another: the warning has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore::tenkey.dispatch.ShadowedKernelWarning")

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    return fresh(F)


def refused(reg: Registry, action: Callable[[], Any], error: type[Exception] = RegistrationError) -> str:
    """The text of the refusal; the registry must be exactly as before."""
    before = snapshot(reg)
    with pytest.raises(error) as caught:
        action()
    assert snapshot(reg) == before
    return str(caught.value)


def line_of(function: Callable[..., Any]) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno}"


class TestDefine:
    def test_remembers_its_place(self, reg: Registry) -> None:
        op = reg.define("t::g(Tensor x) -> Tensor")  # this line is named
        assert op.site.startswith(f"{__file__}:")
        line = int(op.site.rpartition(":")[2])
        with open(__file__, encoding="utf-8") as file:  # noqa: PTH123  # the shortest way to one line of this file
            assert file.readlines()[line - 1].endswith("# this line is named\n")

    def test_twice(self, reg: Registry) -> None:
        first = reg.find("t::f")
        text = refused(reg, lambda: reg.define(F))
        assert text.startswith(f"[t::f] is defined already, at {first.site}, and again at {__file__}:")
        assert text.endswith("(its handle's remove()), or choose another name or overload.")
        refused(reg, lambda: reg.define("t::f(Tensor x, Tensor y) -> Tensor"))
        assert reg.find("t::f") is first

    def test_overloads_are_apart(self, reg: Registry) -> None:
        other = reg.define("t::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        assert reg.overloads("t::f") == (reg.find("t::f"), other)
        refused(reg, lambda: reg.define("t::f.out(Tensor y) -> Tensor"))

    def test_needs_a_namespace(self, reg: Registry) -> None:
        text = refused(reg, lambda: reg.define("g(Tensor x) -> Tensor"))
        assert text == "[g] needs a namespace: write it as 'namespace::g(...)'."

    @pytest.mark.parametrize("schema", ["", "t::g(", "t::g(Tenso x) -> Tensor", "t::g(Tensor x, Tensor x) -> ()", 3])
    def test_bad_schema(self, reg: Registry, schema: Any) -> None:
        refused(reg, lambda: reg.define(schema), SchemaError)

    def test_installer_that_fails(self, reg: Registry) -> None:
        """The installers before it have acted already: what they made goes too, and kernels that wait keep waiting."""
        removed = []

        def good(op: Any) -> list[Handle]:
            inner = reg.impl(op.name, Kernel(named("made"), CPU, origin="generated"))
            return [inner, Handle(lambda: removed.append(op.name))]

        def bad(op: Any) -> None:
            reg.impl(op.name, Kernel(named("half"), CUDA, origin="generated"))
            if op.name == "t::bad":
                raise ZeroDivisionError("the installer")

        reg.subscribe(good)
        reg.subscribe(bad)
        impl(reg, "t::bad", "waits", META)
        refused(reg, lambda: reg.define("t::bad(Tensor x) -> Tensor"), ZeroDivisionError)
        assert removed == ["t::bad"]
        assert reg.define("t::good(Tensor x) -> Tensor")(Fake(CPU))[0] == "made"

    def test_call_after_removal(self, reg: Registry) -> None:
        op = reg.find("t::f")
        impl(reg, "t::f", "cpu", CPU)
        op(Fake(CPU))
        reg.undefine(op)
        with pytest.raises(OperatorNotFoundError, match=r"\[t::f\] was removed from the registry: define it again"):
            op(Fake(CPU))
        reg.undefine(op)  # a second time does nothing

    def test_removing_an_old_definition_leaves_the_new_one(self, reg: Registry) -> None:
        made: list[str] = []
        reg.subscribe(lambda op: [Handle(lambda: made.append(op.schema.base_name))])
        old = reg.find("t::f")
        reg.undefine(old)
        made.clear()
        new = reg.define("t::f(Tensor x, Tensor y) -> Tensor")
        before = snapshot(reg)
        reg.undefine(old)
        assert snapshot(reg) == before
        assert not made
        assert not new.removed


class TestImpl:
    def test_duplicate_names_both_places(self, reg: Registry) -> None:
        def first(x: Any) -> Any: ...
        def second(x: Any) -> Any: ...  # fmt: skip

        impl(reg, "t::f", first, CPU)
        text = refused(reg, lambda: impl(reg, "t::f", second, CPU))
        assert text == (
            f"[t::f] has a kernel for CPU already, registered at {line_of(first)}, and another one at "
            f"{line_of(second)}. Pass allow_override=True to put the new one on top, or remove the first."
        )
        impl(reg, "t::f", second, CPU, allow_override=True)

    def test_duplicate_before_the_definition(self, reg: Registry) -> None:
        def first(x: Any) -> Any: ...
        def second(x: Any) -> Any: ...  # fmt: skip

        impl(reg, "t::later", first, CPU)
        text = refused(reg, lambda: impl(reg, "t::later", second, CPU))
        assert line_of(first) in text
        assert line_of(second) in text
        impl(reg, "t::later", second, CUDA)

    def test_of_different_origin_are_no_duplicates(self, reg: Registry) -> None:
        impl(reg, "t::f", "generated", CPU, origin="generated")
        impl(reg, "t::f", "explicit", CPU)
        refused(reg, lambda: impl(reg, "t::f", "generated", CPU, origin="generated"))

    @pytest.mark.parametrize("key", [AUTOGRAD, IMPLICIT, EXPLICIT, AUTOGRAD_CPU, TRACER], ids=str)
    def test_duplicates_for_any_key(self, reg: Registry, key: DispatchKey) -> None:
        impl(reg, "t::f", "first", key)
        assert f"has a kernel for {key.name} already" in refused(reg, lambda: impl(reg, "t::f", "second", key))

    def test_callables_of_all_kinds_have_a_place(self) -> None:
        class Callable_:
            def __call__(self, x: Any) -> Any: ...

            def method(self, x: Any) -> Any: ...

        def function(x: Any) -> Any: ...

        for kind in (function, partial(function), partial(partial(function)), Callable_(), Callable_().method):
            assert Kernel(kind, CPU).site.startswith(f"{__file__}:"), kind
        assert "neg" in Kernel(python_operator.neg, CPU).site  # written in C: its name must do
        assert Kernel(function, CPU, site="over there").site == "over there"

    @pytest.mark.parametrize(
        ("kernel", "reason"),
        [
            (lambda: None, "too many positional arguments"),
            (lambda x, y: None, "missing a required argument: 'y'"),
            (lambda x, *, n: None, "missing a required"),
            (lambda x, /, *, m: None, "unexpected keyword argument|missing a required"),
        ],
    )
    def test_signature_that_does_not_fit(self, reg: Registry, kernel: Any, reason: str) -> None:
        op = reg.define("t::g(Tensor x, *, bool flag=False) -> Tensor")
        text = refused(reg, lambda: impl(reg, "t::g", kernel, CPU))
        assert text.startswith(f"[{op.schema}] the kernel ")
        assert f"at {line_of(kernel)} has the signature (" in text
        assert "which cannot be called with this schema: " in text
        assert text.endswith("A kernel takes x by position and flag by keyword.")

    @pytest.mark.parametrize(
        "kernel",
        [
            lambda x, *, flag: None,
            lambda x, flag: None,
            lambda *args, **kwargs: None,
            lambda anything, /, **options: None,
            lambda x, *, flag, more=1: None,
            fallthrough_kernel,
        ],
    )
    def test_signatures_that_fit(self, reg: Registry, kernel: Any) -> None:
        reg.define("t::g(Tensor x, *, bool flag=False) -> Tensor")
        impl(reg, "t::g", kernel, CPU).remove()

    def test_signature_with_keyset(self, reg: Registry) -> None:
        impl(reg, "t::f", lambda keyset, x: None, CPU, with_keyset=True)
        text = refused(reg, lambda: impl(reg, "t::f", lambda x: None, CUDA, with_keyset=True))
        assert text.endswith("A kernel takes the keyset, x by position.")

    def test_signature_that_cannot_be_asked_for(self, reg: Registry) -> None:
        reg.define("t::g(Tensor x, int n=0) -> int")
        impl(reg, "t::g", min, CPU)  # a builtin without a signature: taken on trust

    @pytest.mark.parametrize("function", [None, 3, "f", [len]])
    def test_what_is_no_function(self, reg: Registry, function: Any) -> None:
        text = refused(reg, lambda: reg.impl("t::f", Kernel(function, CPU)))
        assert text == f"a kernel is a function, got {function!r} of type {type(function).__name__}: pass a callable."

    @pytest.mark.parametrize("key", ["CPU", None, DispatchKey.Dense, DispatchKey.AutogradFunctionality], ids=str)
    def test_key_that_no_call_reaches(self, reg: Registry, key: Any) -> None:
        text = refused(reg, lambda: impl(reg, "t::f", "kernel", key))
        assert text.startswith(f"the kernel kernel is registered for {key!r}, which no call reaches.")

    @pytest.mark.parametrize("name", ["f", "", "t.f"])
    def test_name_without_namespace(self, reg: Registry, name: str) -> None:
        assert refused(reg, lambda: impl(reg, name, "kernel", CPU)).startswith(f"[{name}] needs a namespace")


class TestImplBeforeDefine:
    def test_waits_and_is_listed(self, reg: Registry) -> None:
        impl(reg, "t::later", "cpu", CPU)
        assert [kernel.key for kernel in reg.dangling()["t::later"]] == [CPU]
        with pytest.raises(OperatorNotFoundError):
            reg.find("t::later")
        op = reg.define("t::later(Tensor x) -> Tensor")
        assert op(Fake(CPU))[0] == "cpu"
        assert not reg.dangling()

    def test_is_checked_when_the_schema_comes(self, reg: Registry) -> None:
        def kernel(x: Any, y: Any) -> Any: ...

        handle = impl(reg, "t::later", kernel, CPU)
        text = refused(reg, lambda: reg.define("t::later(Tensor x) -> Tensor"))
        assert line_of(kernel) in text
        assert "missing a required argument: 'y'" in text
        reg.define("t::later(Tensor x, Tensor y) -> Tensor")
        handle.remove()

    def test_removed_before_the_schema_comes(self, reg: Registry) -> None:
        before = snapshot(reg)
        impl(reg, "t::later", "cpu", CPU).remove()
        assert snapshot(reg) == before
        op = reg.define("t::later(Tensor x) -> Tensor")
        assert not op.kernels

    def test_removed_after_the_schema_came(self, reg: Registry) -> None:
        handle = impl(reg, "t::later", "cpu", CPU)
        op = reg.define("t::later(Tensor x) -> Tensor")
        handle.remove()
        assert not op.kernels
        with pytest.raises(MissingKernelError):
            op(Fake(CPU))

    def test_survives_the_definition(self, reg: Registry) -> None:
        """A kernel is a registration of its own: it waits again when its operator goes."""
        handle = impl(reg, "t::f", "cpu", CPU)
        reg.undefine(reg.find("t::f"))
        assert [kernel.key for kernel in reg.dangling()["t::f"]] == [CPU]
        assert reg.define(F)(Fake(CPU))[0] == "cpu"
        handle.remove()
        assert not reg.find("t::f").kernels
        reg.undefine(reg.find("t::f"))
        assert not reg.pending

    def test_what_installers_made_goes_with_the_definition(self, reg: Registry) -> None:
        reg.subscribe(lambda op: [impl(reg, op.name, "generated", CPU, origin="generated")])
        assert reg.find("t::f")(Fake(CPU))[0] == "generated"
        reg.undefine(reg.find("t::f"))
        assert not reg.pending
        assert reg.define(F)(Fake(CPU))[0] == "generated"


class TestHandles:
    def handles(self, reg: Registry) -> list[Handle]:
        return [
            impl(reg, "t::f", "cpu", CPU),
            impl(reg, "t::later", "cpu", CPU),
            reg.fallback(Kernel(named("fallback"), TRACER, boxed=True)),
            reg.subscribe(lambda op: [impl(reg, op.name, "made", META, origin="generated")]),
        ]

    def test_remove_is_idempotent(self, reg: Registry) -> None:
        before = snapshot(reg)
        handles = self.handles(reg)
        for handle in handles * 2:
            handle.remove()
        assert snapshot(reg) == before

    def test_removing_twice_takes_nothing_of_a_later_one(self, reg: Registry) -> None:
        kernel = Kernel(named("same"), CPU)
        first = reg.impl("t::f", kernel)
        first.remove()
        reg.impl("t::f", kernel)
        first.remove()
        assert reg.find("t::f")(Fake(CPU))[0] == "same"

    def test_context_manager(self, reg: Registry) -> None:
        before = snapshot(reg)
        for index in range(4):
            with pytest.raises(ZeroDivisionError):
                self.leave_by_exception(reg, index)
            assert snapshot(reg) == before

    def leave_by_exception(self, reg: Registry, index: int) -> None:
        handles = self.handles(reg)
        for other in handles[:index] + handles[index + 1 :]:
            other.remove()
        with handles[index] as entered:
            assert entered is handles[index]
            raise ZeroDivisionError

    def test_repr(self, reg: Registry) -> None:
        handle = impl(reg, "t::f", "cpu", CPU)
        assert repr(handle) == "<Handle: kernel of t::f for CPU>"
        handle.remove()
        assert repr(handle) == "<Handle: kernel of t::f for CPU (removed)>"


class TestInstallers:
    def test_order_of_declarations_and_installers_is_free(self) -> None:
        def install(op: Any) -> list[Handle]:
            return [impl(op.registry, op.name, "made", CPU, origin="generated")] if "make" in op.facets else []

        early, late = Registry(), Registry()
        early.subscribe(install)
        early.define("t::f(Tensor x) -> Tensor", facets={"make": True})
        late.define("t::f(Tensor x) -> Tensor", facets={"make": True})
        late.subscribe(install)
        assert early.find("t::f")(Fake(CPU))[0] == late.find("t::f")(Fake(CPU))[0] == "made"

    def test_that_fails_at_subscription(self, reg: Registry) -> None:
        reg.define("t::g(Tensor x) -> Tensor")

        def install(op: Any) -> list[Handle]:
            made = [impl(reg, op.name, "made", CPU, origin="generated")]
            if op.name == "t::g":
                raise ZeroDivisionError
            return made

        refused(reg, lambda: reg.subscribe(install), ZeroDivisionError)

    def test_reinstall_after_facets_changed(self, reg: Registry) -> None:
        def install(op: Any) -> list[Handle]:
            return [impl(reg, op.name, op.facets["name"], CPU, origin="generated")] if op.facets else []

        reg.subscribe(install)
        op = reg.find("t::f")
        for name in ("first", "second"):
            op.facets["name"] = name
            reg.reinstall(op)
            assert op(Fake(CPU))[0] == name
        op.facets.clear()
        reg.reinstall(op)
        assert not op.kernels


class TestLookUp:
    def test_unknown_operator_with_close_matches(self, reg: Registry) -> None:
        reg.define("t::softmax(Tensor x) -> Tensor")
        with pytest.raises(OperatorNotFoundError) as caught:
            reg.find("t::sotfmax")
        assert str(caught.value) == (
            "there is no operator 't::sotfmax'. Close: t::softmax. Define it with "
            "tk.library.Library(namespace, 'DEF').define(schema)."
        )
        with pytest.raises(OperatorNotFoundError, match=r"there is no operator 'q::zzz'. Define it with"):
            reg.find("q::zzz")

    def test_registrations_of_a_key(self, reg: Registry) -> None:
        reg.define("t::g(Tensor x) -> Tensor")
        impl(reg, "t::f", "f", CPU)
        impl(reg, "t::g", "g", CPU)
        impl(reg, "t::g", "other", CUDA)
        reg.fallback(Kernel(named("fallback"), CPU, boxed=True))
        assert [k.function.__qualname__ for k in reg.registrations(CPU)] == ["f", "g", "fallback"]
        assert [k.operator for k in reg.registrations(CPU)] == ["t::f", "t::g", ""]
        assert "kernel g for CPU of t::g from " in repr(reg.registrations(CPU)[1])
        assert reg.registrations(BATCHED) == []

    def test_registry_of_the_process_pickles_by_name(self) -> None:
        assert pickle.loads(pickle.dumps(registry)) is registry
        assert copy.deepcopy(registry) is registry
        with pytest.raises(pickle.PicklingError):
            pickle.dumps(Registry())

    def test_unknown_operator_mentions_a_kernel_that_waits(self, reg: Registry) -> None:
        """An ``impl`` of a misspelled name is found from the name that is called, and from the one that lacks it."""
        impl(reg, "t::sofmax", "cpu", CPU)
        (kernel,) = reg.dangling()["t::sofmax"]
        with pytest.raises(OperatorNotFoundError) as caught:
            reg.find("t::softmax")
        assert f"A kernel registered at {kernel.site} waits for 't::sofmax', which is not defined yet." in str(
            caught.value
        )
        op = reg.define("t::softmax(Tensor x) -> Tensor")
        with pytest.raises(MissingKernelError) as missing:
            op(Fake(CPU))
        assert f"waits for an operator 't::sofmax' that is not defined, from {kernel.site}" in str(missing.value)

    @pytest.mark.parametrize("key", ["CPU", None, 3])
    def test_registrations_of_what_is_no_key(self, reg: Registry, key: Any) -> None:
        with pytest.raises(ArgumentError, match=r"\[registrations\] needs a DispatchKey"):
            reg.registrations(key)


@pytest.mark.filterwarnings("default::tenkey.dispatch.ShadowedKernelWarning")
class TestShadowed:
    """Note [Shadowed registrations]."""

    def heard(self, action: Callable[[], Any]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            action()
        assert all(w.category is ShadowedKernelWarning for w in caught)
        return [str(w.message) for w in caught]

    @pytest.mark.parametrize("keys", [(IMPLICIT, EXPLICIT), (EXPLICIT, IMPLICIT)], ids=str)
    def test_implicit_beside_explicit(self, reg: Registry, keys: Any) -> None:
        places = {EXPLICIT: "b.py:2", IMPLICIT: "a.py:1"}
        assert not self.heard(lambda: impl(reg, "t::f", "first", keys[0], site=places[keys[0]]))
        (text,) = self.heard(lambda: impl(reg, "t::f", "second", keys[1], site=places[keys[1]]))
        assert text.startswith(
            "[t::f] the kernel for CompositeImplicitAutograd registered at a.py:1 is never reached: the one for "
            "CompositeExplicitAutograd registered at b.py:2 takes precedence"
        )

    def test_once(self, reg: Registry) -> None:
        impl(reg, "t::f", "implicit", IMPLICIT)
        assert len(self.heard(lambda: impl(reg, "t::f", "explicit", EXPLICIT).remove())) == 1
        assert not self.heard(lambda: impl(reg, "t::f", "explicit", EXPLICIT))
        assert not self.heard(lambda: impl(reg, "t::f", "another", EXPLICIT, allow_override=True))
        assert not self.heard(lambda: reg.find("t::f")(Fake(CPU)))

    def test_autograd_beside_implicit_at_the_first_call(self, reg: Registry) -> None:
        op = reg.find("t::f")
        assert not self.heard(lambda: impl(reg, "t::f", "formula", AUTOGRAD, site="a.py:1"))
        assert not self.heard(lambda: impl(reg, "t::f", "implicit", IMPLICIT, site="b.py:2"))
        (text,) = self.heard(lambda: op(Fake(AUTOGRAD_CPU, CPU)))
        assert "the kernel for Autograd registered at a.py:1 is never reached" in text
        assert "CompositeImplicitAutograd registered at b.py:2" in text
        assert not self.heard(lambda: op(Fake(AUTOGRAD_CPU, CPU)))
        assert not self.heard(lambda: op(Fake(CUDA)))

    def test_a_later_backend_kernel_makes_it_right(self, reg: Registry) -> None:
        impl(reg, "t::f", "formula", AUTOGRAD)
        impl(reg, "t::f", "implicit", IMPLICIT)
        impl(reg, "t::f", "cpu", CPU)
        assert not self.heard(lambda: reg.find("t::f")(Fake(AUTOGRAD_CPU, CPU)))

    def test_asked_for(self, reg: Registry) -> None:
        impl(reg, "t::f", "implicit", IMPLICIT)
        assert not self.heard(lambda: impl(reg, "t::f", "explicit", EXPLICIT, allow_override=True))
        impl(reg, "t::f", "older", CPU)
        assert not self.heard(lambda: impl(reg, "t::f", "newer", CPU, allow_override=True))

    def test_generated_gives_way_in_silence(self, reg: Registry) -> None:
        impl(reg, "t::f", "generated", CPU, origin="generated")
        impl(reg, "t::f", "composite", IMPLICIT, origin="generated")
        assert not self.heard(lambda: impl(reg, "t::f", "explicit", EXPLICIT))
        assert not self.heard(lambda: impl(reg, "t::f", "cpu", CPU))
        assert not self.heard(lambda: reg.find("t::f")(Fake(AUTOGRAD_CPU, CPU)))

    def test_conditional_kernels_shadow_nothing(self, reg: Registry) -> None:
        impl(reg, "t::f", "implicit", IMPLICIT)
        assert not self.heard(lambda: impl(reg, "t::f", "sometimes", EXPLICIT, when=lambda x: False))

    def test_of_kernels_that_waited(self, reg: Registry) -> None:
        impl(reg, "t::g", "implicit", IMPLICIT)
        impl(reg, "t::g", "explicit", EXPLICIT)
        assert len(self.heard(lambda: reg.define("t::g(Tensor x) -> Tensor"))) == 1

    def test_as_an_error_it_leaves_the_registry_as_it_was(self, reg: Registry) -> None:
        impl(reg, "t::f", "implicit", IMPLICIT)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = snapshot(reg)
            with pytest.raises(ShadowedKernelWarning):
                impl(reg, "t::f", "explicit", EXPLICIT)
            assert snapshot(reg) == before
