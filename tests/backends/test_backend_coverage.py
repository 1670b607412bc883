"""Note [Whose parts fell back]: what coverage reports about fallbacks, and which operators are native."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import coverage
from tenkey.backends.external.backend_registration import registered
from tenkey.backends.external.coverage import templates_of
from tenkey.dispatch.errors import MissingKernelError
from tenkey.dispatch.registry import registry
from tests._backends import Host, TemplateHost, numpy_function, window
from tests._reference_device import Reference


@pytest.fixture
def host() -> Iterator[Host]:
    backend = Host()
    with tk.backends.register(backend):
        yield backend


@pytest.fixture
def templated() -> Iterator[TemplateHost]:
    backend = TemplateHost()
    with tk.backends.register(backend):
        yield backend


def details(name: str) -> dict[tuple[str, ...], Any]:
    """The fallbacks by operator and dtypes."""
    return {(one.operator, *one.dtypes): one for one in coverage(name).details}


class TestDetails:
    def test_costs(self, host: Host) -> None:
        x = tk.asarray(np.arange(100.0), device="host")
        half = tk.asarray(np.arange(10, dtype=np.float16), device="host")
        for _ in range(3):
            x + x
        x[:50] + x[50:]
        tk.exp(half)
        x.add_(1)
        found = details("host")
        add, exp, add_ = (
            found["tk::add", "float64", "float64"],
            found["tk::exp", "float16"],
            found["tk::add_", "float64"],
        )
        assert (add.calls, add.bytes_to_host, add.bytes_from_host) == (4, 4 * 800, 3 * 800 + 400)
        assert (exp.calls, exp.bytes_to_host, exp.bytes_from_host) == (1, 20, 20)
        assert (add_.calls, add_.bytes_to_host, add_.bytes_from_host) == (1, 800, 800)
        assert all(one.seconds > 0 for one in found.values())
        seconds = [one.seconds for one in coverage("host").details]
        assert seconds == sorted(seconds, reverse=True)
        assert coverage("host").fallback == {"tk::add": 4, "tk::exp": 1, "tk::add_": 1}

    def test_time_is_that_of_the_call(self, host: Host) -> None:
        wait = threading.Event()
        with tk.library.Library("coverage_test", "DEF") as library:
            for name, seconds in (("slow", 0.05), ("quick", 0.0)):
                library.define(f"{name}(Tensor x) -> Tensor")
                library.impl(name, lambda x, s=seconds: (wait.wait(s), x + 1)[1], "cpu")
            x = tk.zeros(1, device="host")
            tk.ops.coverage_test.quick(x)
            tk.ops.coverage_test.slow(x)
            found = details("host")
            assert 0.05 <= found["coverage_test::slow", "float32"].seconds < 5
            assert found["coverage_test::quick", "float32"].seconds < 0.05
            assert coverage("host").details[0].operator == "coverage_test::slow"

    def test_a_call_that_raises_is_counted(self, host: Host) -> None:
        x, y = tk.asarray(np.zeros((2, 3), "f4"), device="host"), tk.asarray(np.zeros(2, "f4"), device="host")
        with pytest.raises(ValueError, match="broadcast"):
            x + y
        assert coverage("host").fallback == {"tk::add": 1}
        assert details("host")["tk::add", "float32", "float32"].bytes_to_host == 24 + 8

    def test_threads(self, host: Host) -> None:
        x = tk.zeros(4, device="host")
        threads = [threading.Thread(target=lambda: [tk.exp(x) for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one = details("host")["tk::exp", "float32"]
        assert (one.calls, one.bytes_to_host, one.bytes_from_host) == (400, 6400, 6400)


class TestReasons:
    def test_no_template(self, host: Host) -> None:
        x = tk.asarray([1.0, 2.0], device="host")
        for function in (tk.exp, tk.sum, tk.fft.fft, lambda x: x @ x, lambda x: x.add_(1)):
            function(x)
        tk.ones(2, device="host")
        found = {one.operator: (one.reason, one.remedy) for one in coverage("host").details}
        pointwise = ("no template pointwise()", "implement pointwise()")
        assert {name: found[f"tk::{name}"] for name in ("exp", "sum", "matmul", "add_", "ones")} == {
            "exp": pointwise, "add_": pointwise, "ones": pointwise,
            "sum": ("no template reduction()", "implement reduction()"),
            "matmul": ("no template matmul()", "implement matmul()"),
        }  # fmt: skip
        (fft,) = [name for name in found if "fft" in name]
        assert found[fft] == ("no kernel", "register a kernel with tk.library.register_kernel(name, 'host')")

    def test_declined_and_raised(self) -> None:
        class Picky(Host):
            name = "picky"

            def pointwise(self, scalar: Any, operands: Any, result: Any) -> Any:
                if any(x.dtype == np.float16 for x in operands):
                    raise NotImplementedError("no half precision")
                if any(x.dtype.kind == "c" for x in operands):
                    return None
                function = numpy_function(scalar)

                def kernel(out: Any, *inputs: Any) -> None:
                    if out.size > 8:
                        raise NotImplementedError("large")
                    window(out)[...] = function(*[x if isinstance(x, np.generic) else window(x) for x in inputs])

                return kernel

            def reduction(self, combine: Any, scalar: Any, operand: Any, identity: Any) -> Any:
                def kernel(out: Any, x: Any) -> None:
                    raise NotImplementedError

                return kernel

        with tk.backends.register(Picky()):
            for x in (np.ones(2, np.float16), np.ones(2, np.complex64), np.ones(9, np.float32), np.ones(3, np.float32)):
                on = tk.asarray(x, device="picky")
                np.testing.assert_array_equal(tk.multiply(on, on).numpy(), x)
                on += on
                np.testing.assert_array_equal(on.numpy(), 2 * x)
            assert tk.sum(on).item() == 6.0
            found = details("picky")
            why = {key: (one.reason, one.remedy) for key, one in found.items()}
            assert why["tk::multiply", "float16", "float16"] == (
                "pointwise() raised NotImplementedError: no half precision", "accept float16 in pointwise()",
            )  # fmt: skip
            assert why["tk::multiply", "complex64", "complex64"] == (
                "pointwise() declined", "accept complex64 in pointwise()",
            )  # fmt: skip
            assert why["tk::add", "float32", "float32"] == (
                "pointwise() its kernel raised NotImplementedError: large", "accept float32 in pointwise()",
            )  # fmt: skip
            assert why["tk::sum", "float32"][0] == "reduction() its kernel raised NotImplementedError"
            assert found["tk::multiply", "float32", "float32"].calls == 1  # not that of three elements
            assert {one for one, *_ in found} == {"tk::multiply", "tk::add", "tk::sum", "tk::copy_"}
            with (
                tk.backends.strict_fallback(),
                pytest.raises(
                    MissingKernelError,
                    match=r"\(pointwise\(\) declined\): accept complex64 in pointwise\(\), or register a",
                ),
            ):
                tk.exp(tk.asarray(1j, device="picky", dtype=tk.complex64))

    def test_copies_that_a_template_declines(self) -> None:
        """On a device without templates, copies through the host are not counted as fallbacks."""

        class Declines(Host):
            name = "declines"

            def pointwise(self, *args: Any) -> Any:
                return None

        def copies(device: str) -> tk.Tensor:
            x = tk.asarray(np.arange(6.0).reshape(2, 3), device=device)
            y = x[:, ::2].clone()
            y[0] = x[1, :2]
            x[:, 1].copy_(tk.asarray([7.0, 8.0]))
            return tk.concat([y.cpu(), x.cpu()], axis=1)

        wanted = copies("cpu").tolist()
        with tk.backends.register(Host()), tk.backends.strict_fallback():
            assert copies("host").tolist() == wanted
            assert coverage("host").fallback == {}
        with tk.backends.register(Declines()):
            assert copies("declines").tolist() == wanted
            assert coverage("declines").fallback == {"tk::clone": 1, "tk::copy_": 2}
            assert {one.reason for one in coverage("declines").details} == {"pointwise() declined"}
            with tk.backends.strict_fallback(), pytest.raises(MissingKernelError, match=r"\[tk::clone\] would fall"):
                copies("declines")

    def test_a_reason_is_that_of_the_call(self) -> None:
        class Copies(TemplateHost):
            name = "copies"

            def copy(self, dtype: Any) -> Any:
                return None

        with tk.backends.register(Copies()):
            tk.zeros((2, 3), device="copies").T.clone()  # declined by copy(), and done by pointwise()
            tk.arange(2, dtype=tk.bool, device="copies")
            (one,) = coverage("copies").details
            assert (one.operator, one.reason) == ("tk::arange", "no kernel")

    def test_every_template_is_named(self) -> None:
        named = {template for operator in registry for template in templates_of(operator)}
        assert {"pointwise", "reduction", "matmul", "gather", "scatter", "sort"} <= named
        assert named <= {name for name in vars(tk.backends.Backend) if not name.startswith("_")}
        with tk.backends.register(Reference()):
            derived = registered["reference"].derived
            for operator in registry:
                if "View" not in operator.facets and operator.schema.base_name not in _WITHOUT:
                    made = derived.kernel(operator)[0] is not None
                    assert made <= bool(templates_of(operator)), operator.name


_WITHOUT = ("to_device", "clone", "empty", "copy_")  # run on devices without templates too


class TestParts:
    def test_composites(self, templated: TemplateHost) -> None:
        x = tk.asarray([1.0, 2.0], device="templated")
        c = tk.asarray([1j, 2.0], device="templated")
        tk.mean(x)
        tk.tril(tk.ones((2, 2), device="templated"))
        before = coverage("templated")
        assert "tk::mean" in before.derived
        assert "tk::mean" not in before.derived_with_fallbacks
        tk.mean(c)
        c += 1
        after = coverage("templated")
        parts = {"tk::mean", "tk::sum", "tk::divide", "tk::add", "tk::add_", "tk::divide_"}
        assert parts <= set(after.derived_with_fallbacks)
        assert not parts & set(after.derived)
        assert sorted(after.derived + after.derived_with_fallbacks) == sorted(
            before.derived + before.derived_with_fallbacks
        )
        assert "tk::exp" in after.derived

    def test_composites_of_composites(self, host: Host) -> None:
        x = tk.asarray([[1.0, 2.0], [3.0, 5.0]], device="host")
        tk.nansum(x)  # shares its function with nanprod
        tk.std(x)
        found = set(coverage("host").derived_with_fallbacks)
        assert {"tk::nansum", "tk::std"} <= found
        assert not {"tk::nanprod", "tk::mean_absolute"} & found

    def test_users_composites_come_and_go(self, host: Host) -> None:
        x = tk.asarray([1.0, 2.0], device="host")
        op = tk.library.composite("coverage_test::twice(Tensor x) -> Tensor")(lambda x: x + x)
        assert op(x).tolist() == [2.0, 4.0]
        assert "coverage_test::twice" in coverage("host").derived_with_fallbacks
        registry.undefine(registry.operators["coverage_test::twice"], keep_kernels=False)
        assert "coverage_test::twice" not in str(coverage("host"))

    def test_backward(self, host: Host) -> None:
        x = tk.tensor([1.0, 2.0], device="host", requires_grad=True)
        tk.sum(tk.softmax(x) * x).backward()
        assert "tk::softmax" in coverage("host").derived_with_fallbacks


def test_text(host: Host) -> None:
    x = tk.asarray(np.ones(4), device="host")
    tk.exp(x), tk.exp(x), tk.sum(tk.fft.fft(x)), tk.mean(x)
    lines = str(coverage("host")).splitlines()
    assert lines[0] == "coverage of 'host'"
    assert any(line.startswith("    tk::exp x2: ") and line.endswith(
        "64 bytes to the host, 64 back; no template pointwise() (float64)") for line in lines)  # fmt: skip
    assert any(line.startswith("  derived, with parts that fell back (1): tk::mean") for line in lines)
    advice = [line for line in lines if line.startswith("  next: ")]
    assert any(
        line.startswith("  next: implement reduction(), which ends ") and "in 1 of these (tk::sum)" in line
        for line in advice
    )
    assert any("next: register a kernel with" in line for line in advice)
    assert "coverage of 'host'" in repr(coverage("host"))


def test_a_long_text_is_cut(host: Host) -> None:
    with tk.library.Library("coverage_test", "DEF") as library:
        for i in range(40):
            library.define(f"f{i}(Tensor x) -> Tensor")
            library.impl(f"f{i}", lambda x: x + 1, "cpu")
            getattr(tk.ops.coverage_test, f"f{i}")(tk.zeros(1, device="host"))
    assert "    and 11 more, in coverage(...).details" in str(coverage("host"))  # 40, and zeros
    assert len(coverage("host").details) == 41
