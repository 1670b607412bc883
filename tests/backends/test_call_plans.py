"""Plans of calls: the same results and errors as without them, for every layout, and used where they should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.external import templates
from tenkey.backends.external.runtime import call_plans
from tests._reference_device import Reference

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 7
ROUNDS = range(5)  # without a plan, noted, and with a plan


@pytest.fixture
def device() -> Iterator[Reference]:
    backend = Reference()
    with tk.backends.register(backend):
        yield backend


def there(values: Any) -> tk.Tensor:
    return tk.asarray(values, device="reference")


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "sliced": lambda x: x[1:, ::2],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 1:2],
    "scalar": lambda x: x[1, 2],
    "empty": lambda x: x[:0],
    "broadcast": lambda x: x[:1],
}


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_layouts(device: Reference, first: str, second: str) -> None:
    a, b = LAYOUTS[first](X), LAYOUTS[second](X)
    try:
        expected = a * b + a
    except ValueError:
        for _ in ROUNDS:
            with pytest.raises(ValueError, match="broadcast"):
                LAYOUTS[first](there(X)) * LAYOUTS[second](there(X))
        return
    for k in ROUNDS:  # other memory and other values each time
        x, y = LAYOUTS[first](there(X + k)), LAYOUTS[second](there(X - k))
        expected = LAYOUTS[first](X + k) * LAYOUTS[second](X - k) + LAYOUTS[first](X + k)
        np.testing.assert_array_equal((x * y + x).numpy(), expected)
        np.testing.assert_array_equal((-x).numpy(), -LAYOUTS[first](X + k))


def test_numbers_differ_by_their_bits(device: Reference) -> None:
    x = there(X)
    for _ in ROUNDS:
        for number in (0.0, -0.0, 2, 2.5, True, float("nan"), -1, 2**70):
            for found, expected in ((x * number, X * np.float32(number)), (number - x, np.float32(number) - X)):
                assert found.dtype == np.float32
                values = found.numpy()
                np.testing.assert_array_equal(values, expected)
                np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))


def test_dtypes_among_the_operands(device: Reference) -> None:
    kinds = [np.float32, np.float64, np.int32, np.bool_]
    for _ in ROUNDS:
        for one in kinds:
            for other in kinds:
                found = there(X.astype(one)) + there(X.astype(other)) if one is not np.bool_ else None
                if found is not None:
                    expected = tk.asarray(X.astype(one)) + tk.asarray(X.astype(other))
                    assert found.dtype == expected.dtype
                    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_three_operands_and_options(device: Reference) -> None:
    x = there(X)
    for k in ROUNDS:
        y = there(X * k)
        np.testing.assert_array_equal(tk.where(x > y, x, y).numpy(), np.maximum(X, X * k))
        for alpha in (1.0, 0.5):
            expected = tk.elu(tk.asarray(X), alpha)
            np.testing.assert_allclose(tk.elu(x, alpha).numpy(), expected.numpy(), rtol=1e-6)


def test_errors_stay(device: Reference) -> None:
    x, small = there(X), there(np.ones(3, np.uint8))
    for _ in ROUNDS:
        assert (small + 7).tolist() == [8, 8, 8]
        np.testing.assert_array_equal((x + x).numpy(), X + X)
    for _ in ROUNDS:
        with pytest.raises(OverflowError):
            small + 300
        with pytest.raises(ValueError, match="broadcast"):
            x + x[:, :5]
        with pytest.raises(RuntimeError, match="different devices"):
            x + tk.asarray(X)
        with pytest.raises(RuntimeError, match="different devices"):
            tk.asarray(X) + x


def test_a_plan_merges_nothing_anew(device: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    original = templates.fused

    def counted(*args: Any) -> Any:
        calls.append(1)
        return original(*args)

    monkeypatch.setattr(templates, "fused", counted)
    monkeypatch.setattr(call_plans, "fused", counted)
    x, y = there(X), there(X)
    operations: list[Callable[[], Any]] = [
        lambda: x + y, lambda: x * 2.5, lambda: 2.5 * x, lambda: tk.exp(x), lambda: tk.elu(x, 0.5),
        lambda: x.__iadd__(y),
    ]  # fmt: skip
    for operation in operations:
        for _ in range(3):
            operation()
        calls.clear()
        for _ in range(3):
            operation()
        assert calls == []
    x.T + y.T
    assert calls != []


def test_layouts_that_never_return(device: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_plans, "_MOST", 4)
    for n in range(1, 12):
        for _ in range(3):
            x = there(np.arange(n, dtype=np.float32))
            np.testing.assert_array_equal((x + x).numpy(), 2 * np.arange(n))
            np.testing.assert_array_equal(x.sum().numpy(), np.arange(n).sum())
            x.__imul__(2)
            np.testing.assert_array_equal(x.numpy(), 2 * np.arange(n))


class TestInplace:
    def test_layouts(self, device: Reference) -> None:
        for name, layout in LAYOUTS.items():
            for k in ROUNDS:
                values = X.copy()
                x, y = there(X), there(X + k)
                target = layout(x)
                if name == "scalar":
                    continue
                layout(values).__iadd__(layout(X + k))
                assert target.__iadd__(layout(y)) is target
                np.testing.assert_array_equal(x.numpy(), values)

    def test_memory_that_overlaps(self, device: Reference) -> None:
        """The plan of a call whose operands share nothing is not used where they do."""
        for _ in ROUNDS:
            x, y = there(X[0]), there(X[1])
            x[1:].__iadd__(y[:-1])
        for _ in ROUNDS:
            x = there(X[0])
            x[1:].__iadd__(x[:-1])
            np.testing.assert_array_equal(x.numpy(), X[0] + np.concatenate([[0], X[0][:-1]]))
            x.__iadd__(x)
            np.testing.assert_array_equal(x.numpy(), 2 * (X[0] + np.concatenate([[0], X[0][:-1]])))

    def test_a_kernel_that_is_registered_later(self, device: Reference) -> None:
        x, y = there(X), there(X)
        for _ in ROUNDS:
            x.__iadd__(y)
        with tk.library.register_kernel("tk::add", "reference", lambda a, b: there(np.full_like(X, 5))):
            x.__iadd__(y)
            np.testing.assert_array_equal(x.numpy(), np.full_like(X, 5))
        x.__iadd__(y)
        np.testing.assert_array_equal(x.numpy(), X + 5)

    def test_versions_and_gradients(self, device: Reference) -> None:
        w = there(X).requires_grad_()
        for _ in ROUNDS:
            x = w * 1
            y = x * x
            x.__iadd__(there(X))
            with pytest.raises(RuntimeError, match=r"modified|changed"):
                y.sum().backward()


class TestReductions:
    def test_layouts_and_options(self, device: Reference) -> None:
        for layout in LAYOUTS.values():
            for k in ROUNDS:
                x, values = layout(there(X + k)), layout(X + k)
                np.testing.assert_allclose(x.sum().numpy(), values.sum(), rtol=1e-6)
                for axis in range(values.ndim):
                    for keepdims in (False, True):
                        found = tk.sum(x, axis=axis, keepdims=keepdims)
                        np.testing.assert_allclose(found.numpy(), values.sum(axis, keepdims=keepdims), rtol=1e-6)
                    found = tk.prod(x, axis=axis, dtype=tk.float64)
                    assert found.dtype == np.float64
                    np.testing.assert_allclose(found.numpy(), values.prod(axis, dtype=np.float64), rtol=1e-6)
                if values.ndim == 2:
                    np.testing.assert_allclose(tk.sum(x, axis=(1, 0)).numpy(), values.sum(), rtol=1e-6)

    def test_long_rows(self, device: Reference) -> None:
        values = np.arange(5000, dtype=np.float64)
        for _ in ROUNDS:
            assert there(values).sum().item() == values.sum()
            assert (there(np.tile(values, (2, 1))).sum(axis=1).numpy() == values.sum()).all()

    def test_errors_stay(self, device: Reference) -> None:
        x = there(X)
        for _ in ROUNDS:
            x.sum(axis=1)
            with pytest.raises((IndexError, ValueError)):
                x.sum(axis=2)
            with pytest.raises(TypeError):
                x.sum(axis=1.5)  # type: ignore[arg-type]


def test_windows_of_an_earlier_backend_are_refused() -> None:
    with tk.backends.register(Reference()):
        old = there(X)
    with tk.backends.register(Reference()):
        new = there(X)
        for _ in ROUNDS:
            for call in _calls(new, new):
                call()
        for call in _calls(old, new):
            with pytest.raises(RuntimeError, match=r"removed|backend"):
                call()


def _calls(x: tk.Tensor, y: tk.Tensor) -> list[Callable[[], Any]]:
    return [lambda: -x, lambda: y + x, lambda: x + y, lambda: x * 2, x.sum, lambda: x.__imul__(1)]


class Preparing(Reference):
    """A device whose kernels prepare calls; ``refuses`` makes them leave a call to the kernel."""

    name = "preparing"

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[str] = []
        self.refuses = False

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel: Any = super().pointwise(scalar, operands, result)

        def call(*arguments: Any) -> None:
            kernel(*arguments)

        def prepare(out: Any, *inputs: Any) -> Any:
            shape, device = out.shape, out.device
            numbers = [None if x.__class__ is tk.backends.StridedArray else x for x in inputs]

            def run(*windows: Any) -> Any:
                if self.refuses:
                    return None
                self.prepared.append(scalar.name)
                made = self.empty(shape, result, device)._data
                given = iter(windows)
                kernel(made, *[templates.aligned([next(given)], shape)[0] if x is None else x for x in numbers])
                return made

            return run

        def prepare_into(out: Any, *inputs: Any) -> Any:
            def run(*windows: Any) -> bool:
                self.prepared.append(f"{scalar.name} in place")
                target, *others = windows
                kernel(target, *templates.aligned(others, target.shape))
                return True

            return None if any(x.__class__ is not tk.backends.StridedArray for x in inputs) else run

        call.prepare = prepare  # type: ignore[attr-defined]
        call.prepare_into = prepare_into  # type: ignore[attr-defined]
        return call


def test_kernels_that_prepare() -> None:
    backend = Preparing()
    with tk.backends.register(backend):
        x, y = [tk.asarray(X, device="preparing") for _ in range(2)]
        for k in ROUNDS:
            backend.refuses = k == 3
            backend.prepared.clear()
            np.testing.assert_array_equal((x + y).numpy(), X + X)
            np.testing.assert_array_equal((x * 3).numpy(), X * 3)
            np.testing.assert_array_equal((x - y[0]).numpy(), X - X[0])
            assert backend.prepared == (["tk::add", "tk::multiply", "tk::subtract"] if k in (2, 4) else [])
        backend.prepared.clear()
        for _ in ROUNDS:
            x.__iadd__(y)
            x.__isub__(y[0])
            x.__imul__(1)
        expected = X.copy()
        for _ in ROUNDS:
            expected = expected + X - X[0]
        np.testing.assert_array_equal(x.numpy(), expected)
        assert backend.prepared.count("tk::add in place") == len(ROUNDS) - 1
        assert backend.prepared.count("tk::multiply in place") == 0
