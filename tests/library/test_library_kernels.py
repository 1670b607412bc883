"""Kernels that a library registers: for one device or all, conditional ones, fallbacks, and kernels of autograd."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import DispatchKey
from tenkey.dispatch.errors import (
    DeviceMismatchError,
    MissingKernelError,
    OperatorNotFoundError,
    RegistrationError,
)
from tenkey.dispatch.registry import registry
from tenkey.library import Library, fallthrough_kernel, register_autograd, register_fake, register_kernel
from tests._library import NS, nothing_left, refused, state, values

HERE = "test_library_kernels.py:"


@pytest.fixture(autouse=True)
def _state_as_before() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def library() -> Iterator[Library]:
    with Library(NS, "DEF") as made:
        yield made


X = tk.asarray([1.0, 2.0, 3.0])


class TestImpl:
    @pytest.mark.parametrize("key", ["cpu", DispatchKey.CPU, "default", DispatchKey.CompositeImplicitAutograd])
    def test_keys(self, library: Library, key: Any) -> None:
        library.define("f(Tensor x) -> Tensor")
        with library.impl("f", lambda x: x * 2, key):
            assert values(tk.ops.library_test.f(X)) == [2.0, 4.0, 6.0]
        with pytest.raises(MissingKernelError):
            tk.ops.library_test.f(X)

    def test_default_serves_all_devices(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 2, "default")
        library.impl("f", lambda x: x * 3, "cpu")
        assert values(tk.ops.library_test.f(X)) == [3.0, 6.0, 9.0]
        assert tk.ops.library_test.f(tk.empty((2, 3), device="meta")).shape == (2, 3)

    def test_operator_objects_are_names(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl(tk.ops.library_test.f.default, lambda x: x * 2, "cpu")
        assert values(tk.ops.library_test.f(X)) == [2.0, 4.0, 6.0]

    def test_unknown_key(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        refused(lambda: library.impl("f", lambda x: x, "gpu"), RegistrationError, f"[{NS}::f]", "'gpu'", "cpu", "meta")
        refused(lambda: library.impl("f", lambda x: x, 7), RegistrationError, f"[{NS}::f]", "7", "'default'")

    @pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
    def test_keys_by_their_names(self, library: Library, key: str) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 2, key)
        assert list(registry.find(f"{NS}::f").kernels) == [getattr(DispatchKey, key)]
        assert values(tk.ops.library_test.f(X)) == [2.0, 4.0, 6.0]

    @pytest.mark.parametrize("name", [3, None, "a.b.c", "a b", "", f"{NS}::a::b"])
    def test_what_is_no_name(self, library: Library, name: Any) -> None:
        refused(lambda: library.impl(name, lambda x: x, "cpu"), RegistrationError, "name.overload", str(name))

    def test_the_namespace_of_all_operators_has_none(self) -> None:
        refused(lambda: Library("_", "IMPL").impl("f", lambda x: x, "cpu"), RegistrationError, "'namespace::f'")

    def test_mixed_devices_without_a_kernel_for_all(self, library: Library) -> None:
        library.define("f(Tensor x, Tensor y) -> Tensor")
        library.impl("f", lambda x, y: x + y, "cpu")
        call, fake = tk.ops.library_test.f, tk.empty(3, device="meta")
        refused(lambda: call(X, fake), DeviceMismatchError, f"[{NS}::f]", "cpu and meta", "x.to(device)")
        assert "DeviceMismatchError" in tk.dispatch.explain(call, X, fake)
        refused(lambda: call(fake, fake), MissingKernelError, f"[{NS}::f]", "no kernel for meta")

    def test_numbers_of_numpy_choose_an_overload(self, library: Library) -> None:
        library.define("f.int(Tensor x, int k) -> str")
        library.define("f.float(Tensor x, float k) -> str")
        for kind in ("int", "float"):
            library.impl(f"f.{kind}", lambda x, k: type(k).__name__, "cpu")
        call = tk.ops.library_test.f
        assert [call(X, k) for k in (np.int8(1), np.uint64(1), np.float32(1))] == ["int", "int", "float"]

    def test_default_serves_calls_without_tensors(self, library: Library) -> None:
        library.define("count(Tensor[] xs, Tensor? x=None) -> int")
        with pytest.raises(MissingKernelError, match="a call without tensors"):
            tk.ops.library_test.count([])
        library.impl("count", lambda xs, x=None: len(xs), "default")
        assert tk.ops.library_test.count([]) == 0
        assert "CompositeExplicitAutograd: handles the call" in tk.dispatch.explain(tk.ops.library_test.count, [])

    def test_foreign_name(self, library: Library) -> None:
        refused(lambda: library.impl("tk::add", lambda a, b: a, "cpu"), RegistrationError, "'tk'", repr(NS))

    def test_not_callable(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        refused(lambda: library.impl("f", 3, "cpu"), RegistrationError, "function", "3")  # type: ignore[arg-type]

    def test_signature_is_checked(self, library: Library) -> None:
        library.define("f(Tensor x, *, float by=1.0) -> Tensor")
        text = refused(
            lambda: library.impl("f", lambda x: x, "cpu"), RegistrationError, "signature (x)", "by by keyword", HERE
        )
        assert f"{NS}::f(Tensor x, *, float by=1.0) -> Tensor" in text
        refused(lambda: library.impl("f", lambda x, by: x, "cpu", with_keyset=True), RegistrationError, "the keyset, x")

    def test_duplicate_names_both_places(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x, "cpu")
        text = refused(
            lambda: library.impl("f", lambda x: x + 1, "cpu"),
            RegistrationError, f"[{NS}::f]", "CPU", "allow_override=True",
        )  # fmt: skip
        assert text.count(HERE) == 2
        assert values(tk.ops.library_test.f(X)) == [1.0, 2.0, 3.0]

    def test_override_and_back(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x, "cpu")
        first = library.impl("f", lambda x: x + 10, "cpu", allow_override=True)
        second = library.impl("f", lambda x: x + 100, "cpu", allow_override=True)
        call = tk.ops.library_test.f
        assert values(call(X))[0] == 101.0
        first.remove()
        assert values(call(X))[0] == 101.0
        second.remove()
        assert values(call(X))[0] == 1.0

    def test_explicit_beats_a_built_in_kernel(self) -> None:
        before = values(tk.exp(X))
        with Library("tk", "IMPL") as builtin:
            builtin.impl("exp", lambda x: x * 0 + 42, "cpu")
            assert values(tk.exp(X)) == [42.0] * 3
        assert values(tk.exp(X)) == before

    def test_with_keyset(self, library: Library) -> None:
        seen: list[Any] = []

        def kernel(keyset: Any, x: tk.Tensor) -> tk.Tensor:
            seen.append(keyset)
            return x + 1

        library.define("f(Tensor x) -> Tensor")
        library.impl("f", kernel, "cpu", with_keyset=True)
        assert values(tk.ops.library_test.f(X)) == [2.0, 3.0, 4.0]
        assert seen[0].has(DispatchKey.CPU)

    def test_with_keyset_redispatch(self, library: Library) -> None:
        order: list[str] = []

        def tracer(keyset: Any, x: tk.Tensor) -> Any:
            order.append("tracer")
            return tk.ops.library_test.f.default.redispatch(keyset.remove(DispatchKey.Tracer), x)

        def kernel(x: tk.Tensor) -> tk.Tensor:
            order.append("cpu")
            return x + 1

        library.define("f(Tensor x) -> Tensor")
        library.impl("f", kernel, "cpu")
        library.impl("f", tracer, DispatchKey.Tracer, with_keyset=True)
        with tk.dispatch.IncludeDispatchKeyGuard(tk.dispatch.DispatchKeySet(DispatchKey.Tracer)):
            assert values(tk.ops.library_test.f(X)) == [2.0, 3.0, 4.0]
        assert order == ["tracer", "cpu"]

    def test_before_define(self, library: Library) -> None:
        library.impl("late", lambda x, by: x * by, "cpu")
        assert f"{NS}::late" in registry.dangling()
        before = state()
        with pytest.raises(RegistrationError, match="signature") as caught:
            library.define("late(Tensor x) -> Tensor")  # the kernel that waits has another signature
        assert HERE in str(caught.value)
        assert state() == before
        library.define("late(Tensor x, float by) -> Tensor")
        assert f"{NS}::late" not in registry.dangling()
        assert values(tk.ops.library_test.late(X, 2.0)) == [2.0, 4.0, 6.0]

    def test_before_define_and_removed(self, library: Library) -> None:
        handle = library.impl("late", lambda x: x, "cpu")
        handle.remove()
        assert f"{NS}::late" not in registry.dangling()


class TestConditional:
    def define(self, library: Library) -> Any:
        library.define("f(Tensor x) -> Tensor")
        return tk.ops.library_test.f

    def test_when(self, library: Library) -> None:
        call = self.define(library)
        library.impl("f", lambda x: x, "cpu")
        library.impl("f", lambda x: x + 10, "cpu", when=lambda x: x.size > 2)
        assert values(call(X)) == [11.0, 12.0, 13.0]
        assert values(call(X[:2])) == [1.0, 2.0]

    def test_priority_decides_and_the_newer_of_equals(self, library: Library) -> None:
        call = self.define(library)
        library.impl("f", lambda x: x, "cpu")
        library.impl("f", lambda x: x + 1, "cpu", when=lambda x: True, priority=1)
        strong = library.impl("f", lambda x: x + 2, "cpu", when=lambda x: x.size > 2, priority=2)
        library.impl("f", lambda x: x + 3, "cpu", when=lambda x: True)
        assert values(call(X)) == [3.0, 4.0, 5.0]
        assert values(call(X[:1])) == [2.0]  # the strongest declines, the next one takes it
        strong.remove()
        assert values(call(X)) == [2.0, 3.0, 4.0]
        library.impl("f", lambda x: x + 4, "cpu", when=lambda x: True, priority=1)
        assert values(call(X)) == [5.0, 6.0, 7.0]

    def test_nothing_accepts(self, library: Library) -> None:
        call = self.define(library)
        library.impl("f", lambda x: x, "cpu", when=lambda x: False)
        with pytest.raises(MissingKernelError, match=rf"\[{NS}::f\]"):
            call(X)

    def test_conditions_are_checked(self, library: Library) -> None:
        call = self.define(library)
        whens: list[Any] = [3, lambda: True, lambda x, y: True]
        for when in whens:
            add = functools.partial(library.impl, "f", lambda x: x, "cpu", when=when)
            refused(add, RegistrationError, "condition")
        priorities: list[Any] = ["high", float("nan"), None]
        for priority in priorities:
            add = functools.partial(library.impl, "f", lambda x: x, "cpu", when=lambda x: True, priority=priority)
            refused(add, RegistrationError, "[priority]")
        with pytest.raises(MissingKernelError):
            call(X)

    def test_when_gets_the_kernels_arguments(self, library: Library) -> None:
        library.define("g(Tensor x, *, float by=1.0) -> Tensor")
        seen: list[Any] = []

        def when(x: tk.Tensor, *, by: float) -> bool:
            seen.append((x, by))
            return False

        library.impl("g", lambda x, *, by: x * by, "cpu")
        library.impl("g", lambda x, *, by: x, "cpu", when=when)
        assert values(tk.ops.library_test.g(X)) == [1.0, 2.0, 3.0]
        assert seen[0][0] is X
        assert seen[0][1] == 1.0


class TestFallback:
    def test_only_for_all_operators(self, library: Library) -> None:
        refused(lambda: library.fallback(lambda op, *a: 0, "cpu"), RegistrationError, "Library('_', 'IMPL')")
        fragment = Library("_", "FRAGMENT")
        refused(lambda: fragment.fallback(lambda op, *a: 0, "cpu"), RegistrationError, "Library('_', 'IMPL')")

    def test_gets_operator_and_arguments(self, library: Library) -> None:
        library.define("f(Tensor x, *, float by=2.0) -> Tensor")
        seen: list[Any] = []

        def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append((str(op), args, kwargs))
            return args[0]

        with Library("_", "IMPL") as everything:
            everything.fallback(fallback, DispatchKey.CPU)
            assert tk.ops.library_test.f(X) is X
        ((name, args, kwargs),) = seen
        assert name == f"{NS}::f"
        assert args[0] is X
        assert kwargs == {"by": 2.0}
        with pytest.raises(MissingKernelError):
            tk.ops.library_test.f(X)

    def test_stack_of_fallbacks(self, library: Library) -> None:
        library.define("f(Tensor x) -> int")
        with Library("_", "IMPL") as everything:
            first = everything.fallback(lambda op, *args: 1, "cpu")
            second = everything.fallback(lambda op, *args: 2, "cpu")
            assert tk.ops.library_test.f(X) == 2
            second.remove()
            assert tk.ops.library_test.f(X) == 1
            first.remove()
            with pytest.raises(MissingKernelError):
                tk.ops.library_test.f(X)

    def test_a_kernel_beats_the_fallback(self, library: Library) -> None:
        library.define("f(Tensor x) -> int")
        library.impl("f", lambda x: 3, "cpu")
        with Library("_", "IMPL") as everything:
            everything.fallback(lambda op, *args: 1, "cpu")
            assert tk.ops.library_test.f(X) == 3

    def test_fallthrough(self, library: Library) -> None:
        library.define("f(Tensor x) -> int")
        library.impl("f", lambda x: 3, "cpu")
        included = tk.dispatch.IncludeDispatchKeyGuard(tk.dispatch.DispatchKeySet(DispatchKey.Tracer))
        with Library("_", "IMPL") as everything, included:
            everything.fallback(lambda op, *args: 1, DispatchKey.Tracer)
            assert tk.ops.library_test.f(X) == 1
            with library.impl("f", fallthrough_kernel, DispatchKey.Tracer):
                assert tk.ops.library_test.f(X) == 3
            assert tk.ops.library_test.f(X) == 1

    def test_unknown_key(self) -> None:
        with Library("_", "IMPL") as everything:
            refused(lambda: everything.fallback(lambda op: 0, "gpu"), RegistrationError, "'gpu'")


class TestGradient:
    def test_without_a_formula_backward_says_so(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 2, "cpu")
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        out = tk.ops.library_test.f(x)  # the call itself is no error: the gradient may not be wanted
        assert out.requires_grad
        with pytest.raises(NotImplementedError, match="derivative is not implemented") as caught:
            tk.sum(out).backward()
        assert f"register_autograd('{NS}::f'" in str(caught.value)
        assert "differentiable=False" in str(caught.value)
        assert x.grad is None

    def test_not_differentiable(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor", differentiable=False)
        library.impl("f", lambda x: x * 2, "cpu")
        assert not tk.ops.library_test.f(tk.tensor([1.0], requires_grad=True)).requires_grad

    def test_composite_implicit_is_differentiable(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * x, DispatchKey.CompositeImplicitAutograd)
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        assert values(tk.autograd.grad(tk.sum(tk.ops.library_test.f(x)), x)[0]) == [2.0, 4.0]

    def test_register_autograd_and_remove(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 2, "cpu")
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        clean = state()
        with register_autograd(f"{NS}::f", lambda ctx, g: g * 2):
            assert values(tk.autograd.grad(tk.sum(tk.ops.library_test.f(x)), x)[0]) == [2.0, 2.0]
            refused(
                lambda: register_autograd(f"{NS}::f", lambda ctx, g: g),
                RegistrationError, f"[{NS}::f]", "has a gradient formula already", "allow_override=True",
            )  # fmt: skip
        assert state() == clean
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            tk.sum(tk.ops.library_test.f(x)).backward()

    def test_its_own_autograd_kernel(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 2, "cpu")
        library.impl("f", lambda x: x * 5, DispatchKey.Autograd)
        x = tk.tensor([1.0], requires_grad=True)
        assert values(tk.ops.library_test.f(x).detach()) == [5.0]

    def test_a_built_in_formula_is_not_replaced(self) -> None:
        refused(
            lambda: register_autograd("tk::matmul", lambda ctx, g: (g, g)),
            RegistrationError, "[tk::matmul]", "has a gradient formula already",
        )  # fmt: skip

    @pytest.mark.parametrize(("backward", "setup"), [(None, None), (3, None), (lambda ctx, g: g, 3)])
    def test_no_function(self, library: Library, backward: Any, setup: Any) -> None:
        library.define("f(Tensor x) -> Tensor")
        refused(
            lambda: register_autograd(f"{NS}::f", backward, setup_context=setup),
            RegistrationError, f"[{NS}::f]", "is a function, got",
        )  # fmt: skip

    def test_keyword_only_tensors_get_none(self, library: Library) -> None:
        library.define("f(Tensor x, *, Tensor weight) -> Tensor")
        refused(
            lambda: register_autograd(f"{NS}::f", lambda ctx, g: g),
            RegistrationError, f"[{NS}::f]", "keyword-only tensor arguments weight", "positional",
        )  # fmt: skip

    def test_unknown_operators(self) -> None:
        name = f"{NS}::nothing"
        refused(lambda: register_autograd(name, lambda ctx, g: g), OperatorNotFoundError, name)
        refused(lambda: register_kernel(name, "cpu", lambda x: x), OperatorNotFoundError, name)
        refused(lambda: register_fake(name, lambda x: x), OperatorNotFoundError, name)


class TestRegisterKernel:
    def test_function_and_decorator(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        handle = register_kernel(f"{NS}::f", "cpu", lambda x: x + 1)
        assert values(tk.ops.library_test.f(X)) == [2.0, 3.0, 4.0]
        handle.remove()

        @register_kernel(tk.ops.library_test.f.default, "cpu")
        def kernel(x: tk.Tensor) -> tk.Tensor:
            return x + 2

        assert callable(kernel)
        assert values(tk.ops.library_test.f(X)) == [3.0, 4.0, 5.0]

    def test_packets_and_entries_are_names(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        register_kernel(tk.ops.library_test.f, "cpu", lambda x: x + 1)
        assert values(tk.ops.library_test.f(X)) == [2.0, 3.0, 4.0]
        with register_kernel(tk.exp, "cpu", lambda x: x + 7):
            assert values(tk.exp(X)) == [8.0, 9.0, 10.0]

    def test_kernels_outlive_their_operator(self) -> None:
        with Library(NS, "DEF") as first:
            first.define("f(Tensor x) -> Tensor")
            handle = register_kernel(f"{NS}::f", "cpu", lambda x: x + 1)
        with Library(NS, "DEF") as second:
            second.define("f(Tensor x) -> Tensor")
            assert values(tk.ops.library_test.f(X)) == [2.0, 3.0, 4.0]
        handle.remove()

    def test_duplicate_and_wrong_signature(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        register_kernel(f"{NS}::f", "cpu", lambda x: x)
        text = refused(
            lambda: register_kernel(f"{NS}::f", "cpu", lambda x: x), RegistrationError, "allow_override=True"
        )
        assert text.count(HERE) == 2
        refused(lambda: register_kernel(f"{NS}::f", "meta", lambda: 0), RegistrationError, "signature ()")
        with register_kernel(f"{NS}::f", "cpu", lambda x: x + 5, allow_override=True):
            assert values(tk.ops.library_test.f(X)) == [6.0, 7.0, 8.0]

    def test_fake(self, library: Library) -> None:
        library.define("twice(Tensor x) -> Tensor")
        register_fake(f"{NS}::twice", lambda x: tk.empty((2 * x.shape[0],), dtype=x.dtype, device=x.device))
        made = tk.ops.library_test.twice(tk.empty(3, device="meta"))
        assert made.shape == (6,)
        assert made.device == "meta"

    def test_mixed_dtypes_arrive_promoted(self) -> None:
        """A kernel of a pointwise operator is written for one dtype; scalars are tensors by then."""
        seen: list[tuple[Any, ...]] = []

        def kernel(a: tk.Tensor, b: tk.Tensor) -> tk.Tensor:
            seen.append((a.dtype, b.dtype, b.shape))
            return tk.asarray(a.numpy() + b.numpy())

        with register_kernel("tk::add", "cpu", kernel):
            ints, floats = tk.asarray([1, 2]), tk.asarray([0.5, 0.5])
            assert values(tk.add(ints, floats)) == [1.5, 2.5]
            assert values(tk.add(floats, 1)) == [1.5, 1.5]
            assert values(tk.add(ints, 0.5)) == [1.5, 2.5]
        assert seen == [
            (tk.float32, tk.float32, (2,)),
            (tk.float32, tk.float32, ()),
            (tk.float32, tk.float32, ()),
        ]
