"""The template ``rows``: what its kernels are promised, which calls they get, and what is left to the composition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import coverage, strict_fallback
from tests._backends import window
from tests._reference_device import Reference, evaluated
from tests._tiers import Failures
from tests.operators._table import OPERATORS, results, sampled

_SWEEPS = [op for op in OPERATORS if "Rows" in op.facets]
_WAYS = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


class Sweeping(Reference):
    """The reference device with the template ``rows``, which checks what its kernels are promised."""

    name = "sweeping"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []
        self.calls: list[str] = []
        self.declines = False

    def rows(self, function: Any) -> Any:
        self.made.append(function)

        def kernel(outs: Any, xs: Any, numbers: Any) -> None:
            assert len(outs) == len(function.results)
            assert len(xs) == len(function.inputs)
            assert len(numbers) == len(function.numbers)
            rows, columns = next(x.shape for x in xs if x.ndim == 2)
            assert rows * columns > 0
            shapes = {"row": (rows, columns), "each": (rows,), "column": (columns,)}
            for one, array in zip((*outs, *xs), (*function.results, *function.inputs), strict=True):
                assert one.shape == shapes[array.role]
                assert one.dtype == array.dtype
                assert one.strides[-1] == one.dtype.itemsize
            assert all(out.is_contiguous for out in outs)
            assert all(type(number) is float for number in numbers)
            if self.declines:
                raise NotImplementedError("not today")
            self.calls.append(function.name)
            _compute(function, outs, xs, numbers)

        return kernel


def _compute(function: Any, outs: Any, xs: Any, numbers: Any) -> None:
    dtype = function.dtype
    known: dict[str, Any] = {}
    for array, x in zip(function.inputs, xs, strict=True):
        values = window(x).astype(dtype)
        known[array.name] = values[:, None] if array.role == "each" else values
    rows = next(x.shape for x in xs if x.ndim == 2)
    known["count"] = np.asarray(rows[1], dtype)
    known |= {name: np.asarray(value, dtype) for name, value in zip(function.numbers, numbers, strict=True)}
    place = np.arange(rows[1])[None]

    def value(f: Any) -> Any:
        return evaluated(f, [known[name] for name in f.parameters], [place] * len(f.indices))

    with np.errstate(all="ignore"):
        for sweep in function.sweeps:
            for name, f in sweep.elements:
                known[name] = value(f)
            for name, way, f in sweep.folds:
                known[name] = _WAYS[way].reduce(np.broadcast_to(value(f), rows), 1, keepdims=True)
            for name, f in sweep.columns:
                known[name] = np.broadcast_to(value(f), rows).sum(0)
            for name, f in sweep.then:
                known[name] = value(f)
    for array, out in zip(function.results, outs, strict=True):
        window(out)[...] = known[array.name][:, 0] if array.role == "each" else known[array.name]


@pytest.fixture
def backend() -> Iterator[Sweeping]:
    made = Sweeping()
    with tk.backends.register(made):
        yield made


def _on(values: Any) -> tk.Tensor:
    return tk.asarray(values, device="sweeping")


def test_samples(backend: Sweeping) -> None:
    """All operators with sweeps, in all layouts of their samples, beside the CPU."""
    failures = Failures()
    for operator in _SWEEPS:
        for dtype in ("float16", "float32", "float64", "int32", "complex64"):
            for sample in sampled(operator, dtype):
                with failures.of(f"{operator.name} {dtype} {sample.name}"), strict_fallback():
                    here = sample.map(lambda t: t.clone())
                    there = sample.map(lambda t: t.to_device("sweeping"))
                    eps = {"float16": 2.0**-10, "float64": 2.0**-52}.get(dtype, 2.0**-23)
                    for want, got in zip(results(operator, here), results(operator, there), strict=True):
                        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=32 * eps, atol=32 * eps, strict=True)
    failures.check()
    assert {*backend.calls} == {op.name for op in _SWEEPS} - {"tk::row_cross_entropy"}


def test_halves_are_computed_in_float32(backend: Sweeping) -> None:
    x = _on(np.zeros((2, 3), np.float16))
    assert tk.softmax(x).dtype == np.float16
    (function,) = backend.made
    assert (function.dtype, function.inputs[0].dtype, function.results[0].dtype) == (np.float32, np.float16, np.float16)


def test_tensors_that_are_left_out_are_constants(backend: Sweeping) -> None:
    x = _on(np.arange(6, dtype=np.float32).reshape(2, 3))
    expected = tk.layer_norm(x.to("cpu")).numpy()
    np.testing.assert_allclose(tk.layer_norm(x).numpy(), expected, rtol=1e-6)
    weight = _on(np.full(3, 2, np.float32))
    np.testing.assert_allclose(tk.layer_norm(x, weight).numpy(), 2 * expected, rtol=1e-6)
    assert [[array.name for array in function.inputs] for function in backend.made] == [["x"], ["x", "weight"]]


def test_layouts(backend: Sweeping) -> None:
    """Rows with gaps are not copied; elements with gaps are, and every result is new."""
    values = np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)
    x = _on(values)
    for view in (lambda a: a[:, 1, :5], lambda a: a[:, :, 3], lambda a: a[1].T, lambda a: a[:, :3], lambda a: a[2, 2]):
        found = tk.softmax(view(x))
        np.testing.assert_allclose(found.numpy(), tk.softmax(tk.asarray(view(values).copy())).numpy(), rtol=1e-5)
    assert backend.calls == ["tk::softmax"] * 5
    spread = tk.broadcast_to(x[0, :1], (3, 8))
    np.testing.assert_allclose(tk.var(spread, axis=1).numpy(), [values[0, 0].var()] * 3, rtol=1e-5)


def test_axes(backend: Sweeping) -> None:
    x = _on(np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32))
    for axis in (None, -1, (1, 2), (2, 1)):
        for keepdims in (False, True):
            here, there = [tk.var(one, axis, keepdims=keepdims) for one in (x.to("cpu"), x)]
            np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=1e-6, strict=True)
    assert len(backend.calls) == 8
    tk.var(x, (0, 2))
    tk.var(x, 1)
    assert len(backend.calls) == 8, "rows of adjacent elements only"
    tk.var(x[:, :, :1], 1)
    assert len(backend.calls) == 9, "the last axis has one element"


@pytest.mark.parametrize("why", ["raises", "returns None"])
def test_what_is_declined_is_composed_on_the_device(backend: Sweeping, why: str) -> None:
    backend.declines = True
    if why == "returns None":
        backend.rows = lambda function: None  # type: ignore[method-assign]
    x = _on(np.ones((2, 4), np.float32))
    with strict_fallback():
        assert tk.softmax(x).tolist() == [[0.25] * 4] * 2
    assert not backend.calls
    assert coverage("sweeping").fallback == {}


def test_mistakes_raise_the_errors_of_the_composition(backend: Sweeping) -> None:
    x = _on(np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match="weight of shape"):
        tk.layer_norm(x, _on(np.ones(3, np.float32)))
    with pytest.raises(IndexError, match=r"\[softmax\]"):
        tk.softmax(x, 5)
    with pytest.raises(TypeError, match=r"\[layer_norm\]"):
        tk.layer_norm(_on(np.ones((2, 4), np.int32)))
    with pytest.raises(tk.dispatch.DeviceMismatchError):
        tk.layer_norm(x, tk.ones(4))
    with pytest.raises(IndexError, match="class"):
        tk.cross_entropy(x, _on(np.array([0, 4])))
    assert not backend.calls or {*backend.calls} == {"tk::log_softmax"}


def test_mixed_dtypes_and_empty_tensors_are_composed(backend: Sweeping) -> None:
    half = _on(np.ones((2, 4), np.float16))
    assert tk.layer_norm(half, _on(np.ones(4, np.float32))).dtype == np.float32
    assert tk.softmax(_on(np.ones((0, 4), np.float32))).shape == (0, 4)
    assert tk.softmax(_on(np.ones((2, 0), np.float32))).shape == (2, 0)
    assert not backend.calls


def test_gradients(backend: Sweeping) -> None:
    def loss(x: tk.Tensor, weight: tk.Tensor, target: tk.Tensor) -> tk.Tensor:
        return tk.cross_entropy(tk.layer_norm(x, weight), target) + tk.sum(tk.var(tk.softmax(x), axis=1))

    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 5)), rng.standard_normal(5)
    target = np.array([1, 0, 4])
    found = []
    for device in ("cpu", "sweeping"):
        x, weight = [tk.asarray(v, device=device).requires_grad_() for v in values]
        loss(x, weight, tk.asarray(target, device=device)).backward()
        assert x.grad is not None
        assert weight.grad is not None
        found.append((x.grad.numpy(), weight.grad.numpy()))
    for there, here in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-10, atol=1e-12)
    backward = {"softmax", "layer_norm", "var", "row_cross_entropy"}
    assert {f"tk::{name}_backward" for name in backward - {"layer_norm"}} <= {*backend.calls}
    assert "tk::layer_norm_all_backward" in backend.calls or "tk::layer_norm_backward" in backend.calls
