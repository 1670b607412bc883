"""Operators that are sweeps over rows: their inputs, and what they compute in float64 with NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tenkey as tk
from tenkey.backends.cuda.kernels.sweeps.sweep_source import Form, sweep_source
from tenkey.backends.cuda.kernels.sweeps.sweeping import sweeping
from tenkey.backends.external.runtime.sweep_calls import row_function
from tenkey.backends.external.scalar_function import RowFunction
from tenkey.dispatch.registry import registry
from tests.backends.cuda.kernels._bench import Bench

__all__ = ["DTYPES", "EPS", "REFERENCES", "accuracy", "computed", "function_of", "inputs", "reference"]

Array = np.ndarray[Any, Any]
EPS: Final = 1e-3
CORRECTION: Final = 1.0
DTYPES: Final = {
    "float16": np.dtype("f2"),
    "bfloat16": tk.bfloat16,
    "float32": np.dtype("f4"),
    "float64": np.dtype("f8"),
}


def _largest(x: Array) -> Array:
    return x.max(1, keepdims=True)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - _largest(x))
    return powers / powers.sum(1, keepdims=True)


def _log_softmax(x: Array) -> Array:
    return x - _largest(x) - np.log(np.exp(x - _largest(x)).sum(1, keepdims=True))


def _log_of_sum(x: Array) -> Array:
    shift = np.where(np.isfinite(_largest(x)), _largest(x), 0)
    return np.log(np.exp(x - shift).sum(1)) + shift[:, 0]


def _normalized(x: Array) -> tuple[Array, Array]:
    away = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((away**2).mean(1, keepdims=True) + EPS)
    return away * scale, scale


def _layer_norm_backward(x: Array, g: Array, weight: Array) -> Array:
    normal, scale = _normalized(x)
    inner = g * weight
    return scale * (inner - inner.mean(1, keepdims=True) - normal * (inner * normal).mean(1, keepdims=True))


def _chosen(logits: Array, target: Array) -> Array:
    return np.arange(logits.shape[1]) == target[:, None]


REFERENCES: Final[dict[str, Callable[..., Array]]] = {
    "softmax": _softmax,
    "softmax_backward": lambda g, out: out * (g - (g * out).sum(1, keepdims=True)),
    "log_softmax": _log_softmax,
    "log_softmax_backward": lambda g, out: g - np.exp(out) * g.sum(1, keepdims=True),
    "logsumexp": _log_of_sum,
    "logsumexp_backward": lambda x, g, out: g[:, None] * np.exp(x - out[:, None]),
    "layer_norm": lambda x, weight, bias: _normalized(x)[0] * weight + bias,
    "layer_norm_backward": _layer_norm_backward,
    "var": lambda x: ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / max(x.shape[1] - CORRECTION, 0),
    "var_backward": lambda x, g: (x - x.mean(1, keepdims=True)) * (2 * g[:, None] / max(x.shape[1] - CORRECTION, 0)),
    "row_cross_entropy": lambda logits, target: -_log_softmax(logits)[_chosen(logits, target)],
    "row_cross_entropy_backward": lambda logits, g, target: g[:, None] * (_softmax(logits) - _chosen(logits, target)),
}
"""By name: the arguments are the tensors in the order of the facet."""


@functools.cache
def function_of(name: str, dtype: str, missing: tuple[str, ...] = ()) -> RowFunction:
    """Return what the template gets for an operator."""
    facet = registry.find(f"tk::{name}").facets["Rows"]
    dtypes = {t: DTYPES[dtype] if t != "target" else np.dtype("i8") for t in facet.tensors if t not in missing}
    return row_function(f"tk::{name}", facet, dtypes, DTYPES[dtype])


def inputs(function: RowFunction, rows: int, columns: int, seed: int = 0) -> list[Array]:
    """Return random tensors for an operator."""
    rng = np.random.default_rng([seed, rows, columns])
    shapes = {"row": (rows, columns), "each": (rows,), "column": (columns,)}
    found = []
    for array in function.inputs:
        if array.dtype.kind == "i":
            found.append(rng.integers(0, columns, rows))
        else:
            values = rng.standard_normal(shapes[array.role])
            if array.name == "out":  # of a forward function
                values = values - 4 if array.role == "row" else values + 4
            found.append(values.astype(array.dtype))
    return found


def reference(name: str, xs: list[Array]) -> Array:
    """Return what an operator computes, in float64."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](*[x.astype(float) if x.dtype.kind != "i" else x for x in xs])


def accuracy(dtype: str, columns: int, expected: Array) -> dict[str, float]:
    """Return the tolerances for a result: roundings of the dtype, and of sums in the dtype of the computation."""
    own = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}[dtype]
    compute = max(2.0**-52, min(own, 2.0**-23))
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(finite.max()) if finite.size else 0.0
    small = 2.0**-24 if dtype == "float16" else 0.0
    return {"rtol": own + 64 * compute, "atol": small + 32 * compute * max(largest, 1e-30) + compute / columns}


@functools.cache
def _host(function: RowFunction) -> tuple[Bench, Any]:
    bench = Bench()
    return bench, sweeping(bench, function)


def computed(
    function: RowFunction, xs: list[Array], *, form: Form | None = None, order: str = "up", gap: int = 0,
    first: int = 0,
) -> Array:  # fmt: skip
    """Return the result of the kernel of a call, or of the kernel in a form.

    Rows of the inputs have ``gap`` elements between them, and ``first`` before them.
    """
    bench, kernel = _host(function)
    bench.order = order
    windows = []
    for x, array in zip(xs, function.inputs, strict=True):
        steps = (x.shape[1] + gap, 1) if array.role == "row" else None
        windows.append(bench.put(x, steps, first if array.role == "row" else 0))
    rows, columns = next(x.shape for x in xs if x.ndim == 2)
    (result,) = function.results
    out = bench.put(np.zeros((rows, columns) if result.role == "row" else (rows,), result.dtype))
    numbers = [{"eps": EPS, "correction": CORRECTION}[name] for name in function.numbers]
    if form is None:
        kernel((out,), tuple(windows), numbers)
        return bench.get(out)
    given: list[Any] = [rows, columns, *numbers, out]
    for window, array in zip(windows, function.inputs, strict=True):
        given += [window, window.strides[0] // window.dtype.itemsize] if array.role == "row" else [window]
    blocks = -(-rows // (form.threads // form.lanes))
    bench.launch(sweep_source(function, form), blocks, form.threads, *given)
    return bench.get(out)
