"""Registering a backend of four methods and kernels for it, what falls back to the CPU, and how all of it ends."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import Backend, coverage, register, strict_fallback
from tenkey.backends.external.template_calls import TEMPLATES
from tenkey.core.device import device_types
from tenkey.dispatch.errors import MissingKernelError, RegistrationError
from tenkey.dispatch.keys import backends_in, key_mask
from tenkey.dispatch.registry import registry
from tenkey.library import Library, register_kernel
from tests._lodged import Lodged, Tensor, array, gradient, on, registered


@pytest.fixture
def backend() -> Iterator[Lodged]:
    with registered(Lodged()) as made:
        yield made


# ---- kernels and coverage


class TestKernels:
    def test_a_registered_kernel_takes_over(self, backend: Lodged) -> None:
        seen: list[Any] = []

        def add(a: Tensor, b: Tensor) -> Tensor:
            seen.append((a.dtype, b.dtype, b.shape, str(a.device), str(b.device)))
            return backend.from_host(backend.to_host(a) + backend.to_host(b), a.device)

        x, ints = on([1.0, 2.0], dtype=tk.float32), on([1, 2])
        with register_kernel("tk::add", "lodged", add):
            with strict_fallback():
                assert (x + x).tolist() == [2.0, 4.0]
                assert (x + 0.5).tolist() == [1.5, 2.5]
                assert (1 + x).tolist() == [2.0, 3.0]
            assert (x + ints).tolist() == [2.0, 4.0]
            assert (ints + 0.5).dtype == tk.float32
            assert coverage("lodged").fallback == {"tk::cast": 2}
            assert "tk::add" in coverage("lodged").implemented
            y = on([1.0, 2.0], requires_grad=True)
            assert gradient(y + y, y).tolist() == [2.0, 2.0]
        assert seen[0] == (tk.float32, tk.float32, (2,), "lodged", "lodged")
        assert seen[1] == (tk.float32, tk.float32, (), "lodged", "lodged")
        assert all(a == b for a, b, *_ in seen)
        count = len(seen)
        assert (x + x).tolist() == [2.0, 4.0]
        assert len(seen) == count
        assert coverage("lodged").fallback["tk::add"] == 1

    def test_coverage(self, backend: Lodged) -> None:
        x = on([1.0, 2.0])
        tk.exp(x)
        tk.exp(x)
        tk.mean(x)
        with register_kernel("tk::multiply", "lodged", lambda a, b: a):
            found = coverage("lodged")
            assert found.implemented == ["tk::multiply"]
            assert {"tk::reshape", "tk::to_device", "tk::std", "tk::copy_", "tk::empty"} <= set(found.derived)
            assert found.derived_with_fallbacks == ["tk::mean"]
            assert found.fallback["tk::exp"] == 2
            text = str(found)
            assert text.startswith("coverage of 'lodged'\n")
            assert "implemented (1): tk::multiply" in text
            assert "fallback to the CPU" in text
            assert "tk::exp x2" in text
            assert repr(found) == text
        assert coverage("lodged").implemented == []

    def test_coverage_of_an_unknown_backend(self, backend: Lodged) -> None:
        with pytest.raises(ValueError, match=r"\[coverage\] there is no registered backend 'nothing'; known: .*lodged"):
            coverage("nothing")

    def test_strict_fallback(self, backend: Lodged) -> None:
        x = on([1.0, 2.0])
        with strict_fallback():
            with pytest.raises(
                MissingKernelError, match=r"\[tk::exp\] would fall back to the CPU on 'lodged'"
            ) as caught:
                tk.exp(x)
            assert "tk.library.register_kernel('tk::exp', 'lodged')" in str(caught.value)
            assert x[1:].tolist() == [2.0]  # views and copies need no fallback
            assert x.clone().tolist() == [1.0, 2.0]
        assert coverage("lodged").fallback == {}
        np.testing.assert_allclose(array(tk.exp(x)), np.exp([1.0, 2.0]))

    def test_strict_fallback_is_local_and_ends(self, backend: Lodged) -> None:
        x = on([1.0])
        results: list[Any] = []

        def fails() -> None:
            with strict_fallback():
                thread = threading.Thread(target=lambda: results.append(tk.exp(x)))
                thread.start()
                thread.join()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        assert len(results) == 1
        tk.exp(x)

    def test_default_kernels_run_on_the_backend(self, backend: Lodged) -> None:
        with Library("external_test", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x[:1] if x.device == "lodged" else x, "default")
            assert tk.ops.external_test.twice(on([1.0, 2.0])).tolist() == [1.0]
            assert "external_test::twice" in coverage("lodged").derived


class TestFallback:
    """Note [The fallback moves buffers]."""

    def test_arguments_that_overlap_still_do(self, backend: Lodged) -> None:
        x = on(np.arange(6.0))
        tail = x[1:]
        tail += x[:-1]  # reads what it has not written
        assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]
        with Library("external_test", "DEF") as library:
            library.define("write_then_read(Tensor(a!) x, Tensor(b!) y) -> Tensor")

            def kernel(x: Tensor, y: Tensor) -> Tensor:
                x.array[...] = 7
                return y + 0

            library.impl("write_then_read", kernel, "cpu", allow_override=True)
            z = on(np.zeros(4))
            assert tk.ops.external_test.write_then_read(z[:2], z[1:]).tolist() == [7.0, 0.0, 0.0]
            assert z.tolist() == [7.0, 7.0, 0.0, 0.0]

    def test_views_and_arguments_among_the_results(self, backend: Lodged) -> None:
        with Library("external_test", "DEF") as library:
            library.define("parts(Tensor(a) x) -> (Tensor(a), Tensor(a), Tensor)")
            library.impl("parts", lambda x: (x, x[1:], x + 1), "cpu")
            x = on(np.arange(6.0).reshape(2, 3))
            view = tk.permute_dims(x, (1, 0))
            same_one, tail, fresh = tk.ops.external_test.parts(view)
            assert same_one is view
            assert tk.shares_storage(tail, x)
            assert not tk.shares_storage(fresh, x)
            assert tail.tolist() == [[1.0, 4.0], [2.0, 5.0]]
            tail.add_(10)
            assert x.tolist() == [[0.0, 11.0, 12.0], [3.0, 14.0, 15.0]]
            assert tail._version == x._version == 1

    def test_lists_and_optionals(self, backend: Lodged) -> None:
        with Library("external_test", "DEF") as library:
            library.define("gathered(Tensor[] xs, Tensor? y=None, *, Tensor?[] zs) -> (Tensor, Tensor[])")
            library.impl("gathered", lambda xs, y, *, zs: (xs[0] + sum(z for z in zs if z is not None), [*xs]), "cpu")
            x = on([1.0, 2.0])
            total, listed = tk.ops.external_test.gathered([x, x[:1]], None, zs=[None, x])
            assert total.tolist() == [2.0, 4.0]
            assert total.device == listed[1].device == "lodged"
            assert listed[0] is x
            assert coverage("lodged").fallback == {"external_test::gathered": 1}

    def test_only_what_is_needed_is_copied(self, backend: Lodged, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes: list[int] = []
        copy = Lodged.copy_to_host
        monkeypatch.setattr(Lodged, "copy_to_host", lambda self, b, a: (sizes.append(a.size), copy(self, b, a))[1])
        x = on(np.arange(1000.0))
        tk.exp(x[:10])
        x + x
        assert sizes == [80, 8000]  # one buffer is copied once


# ---- registration


def refused(action: Callable[[], object], *parts: str) -> None:
    devices, fallbacks = device_types(), {key.name: list(stack) for key, stack in registry.fallbacks.items()}
    kernels = {op.name: {key.name: list(stack) for key, stack in op.kernels.items()} for op in registry}
    with pytest.raises(RegistrationError) as caught:
        action()
    for part in parts:
        assert part in str(caught.value)
    assert device_types() == devices
    assert {key.name: list(stack) for key, stack in registry.fallbacks.items()} == fallbacks
    assert {op.name: {key.name: list(stack) for key, stack in op.kernels.items()} for op in registry} == kernels


class TestRegistration:
    @pytest.mark.parametrize("name", ["", "With Space", "Upper", "1st", "a-b", 3, None])
    def test_bad_names(self, name: Any) -> None:
        bad = type("Bad", (Lodged,), {"name": name})
        refused(lambda: register(bad()), "[register]", "lower-case identifier", repr(name))

    @pytest.mark.parametrize("name", ["cpu", "meta"])
    def test_taken_names(self, name: str) -> None:
        bad = type("Bad", (Lodged,), {"name": name})
        refused(lambda: register(bad()), "[register]", repr(name), "registered already")

    def test_twice(self, backend: Lodged) -> None:
        x = on([1.0])
        refused(lambda: register(Lodged()), "'lodged' is registered already")
        assert (x + 1).tolist() == [2.0]

    @pytest.mark.parametrize("method", ["allocate", "free", "copy_from_host", "copy_to_host"])
    def test_missing_methods(self, method: str) -> None:
        bad = type("Bad", (Lodged,), {"name": "bad", method: getattr(Backend, method)})
        refused(lambda: register(bad()), "[register]", "'bad'", f"lacks the method {method}()", "copy_to_host")
        none = type("Bad", (Lodged,), {"name": "bad", method: None})
        refused(lambda: register(none()), f"lacks the method {method}()")

    @pytest.mark.parametrize("template", TEMPLATES)
    def test_templates_that_cannot_be_called(self, template: str) -> None:
        bad = type("Bad", (Lodged,), {"name": "bad", template: lambda self: None})
        refused(lambda: register(bad()), "[register]", f"{template}(", "'bad'", f"cannot be called as {template}(")

    @pytest.mark.parametrize("bad", [Lodged, object(), "lodged", None])
    def test_no_instance(self, bad: Any) -> None:
        refused(lambda: register(bad), "[register] needs an instance of a subclass of tk.backends.Backend", repr(bad))

    def test_removed_and_registered_again(self) -> None:
        before = device_types()
        handle = register(Lodged())
        x = on([1.0, 2.0])
        assert (x + 1).tolist() == [2.0, 3.0]
        handle.remove()
        handle.remove()
        assert device_types() == before
        with pytest.raises(ValueError, match="unknown device 'lodged'"):
            tk.zeros(2, device="lodged")
        with pytest.raises(ValueError, match="no registered backend 'lodged'"):
            coverage("lodged")
        with pytest.raises(MissingKernelError):
            x + 1  # a tensor that has outlived its backend
        with registered(Lodged()) as again:
            assert (on([1.0]) + 1).tolist() == [2.0]
            assert coverage("lodged").fallback == {"tk::add": 1}
            assert again.allocated > 0

    def test_operators_defined_later(self, backend: Lodged) -> None:
        with Library("external_test", "DEF") as library:
            library.define("late(Tensor x) -> Tensor")
            library.impl("late", lambda x: x * 3, "cpu")
            assert tk.ops.external_test.late(on([1.0])).tolist() == [3.0]
            assert coverage("lodged").fallback == {"external_test::late": 1}

    def test_keys(self, backend: Lodged) -> None:
        x = on([1.0])
        assert x.keyset.has(tk.dispatch.DispatchKey.LODGED)
        assert x.keyset.has(tk.dispatch.DispatchKey.AutogradLODGED)
        assert backends_in(x._word & key_mask()) == ("LODGED",)

    @pytest.mark.parametrize("method", ["allocate", "copy_from_host", "copy_to_host", "synchronize"])
    def test_a_method_that_raises(self, method: str) -> None:
        armed = False

        def fails(self: Any, *args: Any, **kwargs: Any) -> Any:
            if armed:
                raise OSError(f"{method} failed")
            return getattr(Lodged, method)(self, *args, **kwargs)

        with registered(type("Failing", (Lodged,), {"name": "failing", method: fails})()) as made:
            x = on([1.0, 2.0], "failing")
            armed = True
            with pytest.raises(OSError, match=f"{method} failed"):
                x + x
            armed = False
            gc.collect()
            assert len(made.live) == 1  # what was allocated for the result was given back
            assert (x + x).tolist() == [2.0, 4.0]
            assert x._version == 0
