"""Factories as scalar expressions of index variables: the same bits as on the CPU, without a fallback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.ops.builtin.element_plans import linspace_plan
from tenkey.ops.scalar import evaluate, trace
from tests._backends import TemplateHost
from tests._tiers import Failures

INT, FLOAT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), ("float32", "float64")


@pytest.fixture
def backend() -> Iterator[TemplateHost]:
    made = TemplateHost()
    with tk.backends.register(made):
        yield made


def same(function: Any, calls: Any, dtypes: Any, *, rtol: float = 0.0) -> None:
    """Compare the calls on the device and on the CPU, to the bit."""
    failures = Failures()
    for args, kwargs in calls:
        for dtype in dtypes:
            with failures.of(f"{args} {kwargs} {dtype}"):
                try:
                    want: Any = function(*args, **kwargs, dtype=dtype).numpy()
                except Exception as error:
                    with pytest.raises(type(error)):
                        function(*args, **kwargs, dtype=dtype, device="templated")
                    continue
                with tk.backends.strict_fallback():
                    got = function(*args, **kwargs, dtype=dtype, device="templated")
                assert got.device == "templated"
                np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=0, strict=True)
                if rtol == 0:
                    assert got.numpy().tobytes() == want.tobytes()
    failures.check()


def calls(*given: Any) -> list[tuple[Any, dict[str, Any]]]:
    return [(one[:-1], one[-1]) if isinstance(one[-1], dict) else (one, {}) for one in given]


def test_full(backend: TemplateHost) -> None:
    given = calls(((2,), 2.7), ((), -2.7), ((1,), True), ((1,), 0.5), ((3,), 300), ((1,), float("nan")), ((1,), 1j))
    same(tk.full, given, (None, *INT, *FLOAT, "bool"))


def test_arange(backend: TemplateHost) -> None:
    given = calls(
        (7,), (0,), (-3,), (2, 9), (9, 2, -3), (0.5, 3.0, 0.25), (-1.5, 100), (0, 1e3, 7.3), (3, -4, -0.1),
        (0.1, 0.7, 0.2),
    )  # fmt: skip
    same(tk.arange, given, (None, *INT, *FLOAT, "float16"))
    same(tk.arange, calls((2**63 - 5, 2**63 - 1), (-(2**63), -(2**63) + 9, 4)), ("int64",))
    same(
        tk.arange,
        calls(
            (2**64 - 5, 2**64 - 1),
        ),
        ("uint64",),
    )


def test_linspace(backend: TemplateHost) -> None:
    given = calls(
        (0, 1, 7), (0, 1, 7, {"endpoint": False}), (-3.3, 8.1, 101), (5, -5, 1), (2, 3, 0), (0.0, 5e-324, 4),
        (1e300, -1e300, 5), (3, 3, 4), (0, 100, 33, {"endpoint": False}), (-1, -100, 17),
    )  # fmt: skip
    same(tk.linspace, given, (None, *FLOAT, "float16", "int64", "int8", "uint8"))


def test_powers(backend: TemplateHost) -> None:
    given = calls((0, 3, 7), (0, 3, 7, {"base": 2.0}), (-2, 2.5, 1), (1, 2, 0), (0, 1, 5, {"endpoint": False}))
    same(tk.logspace, given, (None, *FLOAT), rtol=2e-15)
    given = calls((1, 1000, 7), (-8, -0.1, 5), (0.3, 20, 6, {"endpoint": False}), (2, 2, 1), (2, 3, 0), (1, -1, 3))
    same(tk.geomspace, given, (None, *FLOAT), rtol=2e-15)


def test_diagonals(backend: TemplateHost) -> None:
    for function in (tk.eye, tk.tri):
        given = calls(
            *[(n, m, {"k": k}) for n, m in ((4, 4), (2, 5), (5, 2), (0, 3), (3, 0)) for k in (0, 1, -2, 10**12, -9)],
            (3,),
        )
        same(function, given, (None, *FLOAT, "int32", "uint8", "bool", "complex64", "float16"))


def test_frequencies(backend: TemplateHost) -> None:
    for function in (tk.fft.fftfreq, tk.fft.rfftfreq):
        same(function, calls((1,), (8,), (9,), (7, {"d": 0.1}), (10, {"d": -3.0})), (None, *FLOAT, "complex64"))


def test_functions_that_are_made_of_them(backend: TemplateHost) -> None:
    a = np.arange(12.0).reshape(3, 4)
    with tk.backends.strict_fallback():
        x = tk.tensor(a, device="templated", requires_grad=True)
        np.testing.assert_array_equal(tk.tril(x, k=-1).detach().numpy(), np.tril(a, -1))
        tk.sum(tk.triu(x) * 2).backward()
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), np.triu(np.full((3, 4), 2.0)))


def test_one_kernel_serves_all_calls(backend: TemplateHost) -> None:
    for n in (3, 5, 700):
        tk.linspace(n, 2 * n, n, device="templated")
        tk.eye(n % 7, k=n, device="templated")
        tk.arange(n, n + 3, device="templated")
    assert backend.made == ["tk::linspace", "tk::eye", "tk::arange"]


def test_a_device_without_the_dtype_falls_back(backend: TemplateHost) -> None:
    class Narrow(TemplateHost):
        name = "narrowed"

        def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
            return None if "64" in f"{scalar.dtype} {result}" else super().pointwise(scalar, operands, result)

    with tk.backends.register(Narrow()):
        np.testing.assert_array_equal(
            tk.linspace(0, 1, 5, device="narrowed").numpy(), np.linspace(0, 1, 5, dtype="float32")
        )
        np.testing.assert_array_equal(tk.eye(3, device="narrowed").numpy(), np.eye(3, dtype="float32"))
        assert tk.backends.coverage("narrowed").fallback.keys() == {"tk::linspace"}


def test_complex_numbers() -> None:
    for endpoint in (True, False):
        plan = linspace_plan(1 + 2j, -3 - 0.5j, 7, endpoint=endpoint)
        expression: Any = trace(plan.scalar, tuple(plan.numbers))
        got = [evaluate(expression, {**plan.numbers, "index_0": i}) for i in range(7)]  # type: ignore[dict-item]
        assert plan.dtype == tk.complex128
        np.testing.assert_array_equal(got, np.linspace(1 + 2j, -3 - 0.5j, 7, endpoint=endpoint))
