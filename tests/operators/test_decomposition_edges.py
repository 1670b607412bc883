"""Decompositions where the samples do not reach: limits of dtypes, infinities, magnitudes, orders and blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.registry import registry
from tenkey.ops.builtin.numeric import signal
from tenkey.testing import SampleInput
from tests._tiers import Failures
from tests.operators.test_decompositions import compare

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")


def _check(calls: Any) -> None:
    failures = Failures()
    for name, args, kwargs in calls:
        given = [tk.asarray(v) if isinstance(v, np.ndarray) else v for v in args]
        with failures.of(f"{name}{tuple(str(v) for v in given)}{kwargs}"):
            compare(registry.find(f"tk::{name}"), SampleInput(tuple(given), kwargs))
    failures.check()


def _divisors() -> Iterator[Any]:
    rng = np.random.default_rng(2)
    for dtype in _INTEGERS:
        limits = np.iinfo(dtype)
        edges = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 6, 9], dtype)
        many = rng.integers(limits.min, limits.max, 50, dtype)
        other = np.int16 if dtype == "int8" else np.dtype(dtype)
        for name in ("gcd_of", "lcm_of"):
            yield name, (edges[:, None], edges), {}
            yield name, (many, many[::-1].astype(other)), {}
    fibonacci = [1, 1]
    while len(fibonacci) < 92:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    yield "gcd_of", (np.array(fibonacci[1:]), np.array(fibonacci[:-1])), {}  # the most rounds


def test_divisors_of_every_dtype_and_size() -> None:
    _check(_divisors())


def _norms() -> Iterator[Any]:
    for dtype in (*_FLOATS, "complex64", "complex128"):
        limits = np.finfo(dtype)
        rows = np.array([[limits.max / 4] * 3, [limits.tiny] * 3, [0.0] * 3, [1.0, -np.inf, 2.0], [1.0, np.nan, 2.0]])
        rows = rows.astype(dtype) * (np.array([1, 1j, -1], dtype) if "c" in dtype else np.array([1, -1, 1], dtype))
        for order in (2, 1, 0, 3, 0.5, -1, np.inf, -np.inf):
            if "c" not in dtype or order == 2:
                yield "linalg_vector_norm", (rows,), {"axis": 1, "ord": order}
            yield "linalg_vector_norm", (rows[:3],), {"axis": -1, "ord": order, "keepdims": True}
    for order in (2, 1, 0, 3, np.inf, -1):
        yield "linalg_vector_norm", (np.zeros((2, 0)),), {"axis": 1, "ord": order}
        yield "linalg_vector_norm", (np.arange(6).reshape(2, 3),), {"ord": order}


@pytest.mark.filterwarnings("ignore:invalid value")
def test_norms_of_every_magnitude() -> None:
    _check(_norms())


def _arrangements() -> Iterator[Any]:
    rng = np.random.default_rng(4)
    for dtype in ("bool", *_INTEGERS, *_FLOATS, "complex64", "complex128"):
        x = rng.integers(0, 5, (2, 3, 4)).astype(dtype)
        yield "flip", (x,), {"axis": (0, 2)}
        yield "flip", (x[:, ::2],), {}
        yield "pad_constant", (x[0], (1, 0), (2, 1), (1, 2, 0, 1)), {}
        yield "pad_constant", (x[0], (0, 0), (0, 0), (3, 3, 3, 3)), {}
        yield "repeat_each", (x, 1, 1), {}
        yield "repeat_each", (x.T, 3, 0), {}
        yield "diagonal_embed", (x, (2, 3, 6, 5), -1), {}
        yield "trace", (x,), {"offset": -1}
        yield "trace", (x,), {"offset": 1 << 40}
        if dtype != "bool":
            yield "trace", (x,), {"dtype": np.dtype("complex128")}
        yield "vecdot", (x, x[1]), {"axis": 1}
        yield "vecdot", (x, x[:1].astype(np.promote_types(dtype, np.float64))), {"axis": -1}
        yield "conj", (x,), {}
    for dtype in _INTEGERS:
        yield "repeat_indices", (np.array([3, 0, 0, 2, 1, 0], dtype),), {}
        yield "repeat_indices", (np.zeros(3, dtype),), {}
        yield "repeat_indices", (np.zeros(0, dtype),), {}


def test_arrangements_of_every_dtype() -> None:
    _check(_arrangements())


def _convolutions() -> Iterator[Any]:
    rng = np.random.default_rng(5)
    for dtype in ("bool", *_INTEGERS, *_FLOATS, "complex64", "complex128"):
        a, v = (rng.integers(0, 100, n).astype(dtype) for n in (40, 13))
        yield "convolve_full", (a, v), {}
        yield "convolve_full", (v, a), {}
    yield "convolve_full", (np.array([1.0, np.inf, 2.0, 3.0, 0.0]), np.array([1.0, 2.0, np.nan])), {}


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_convolutions_in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(signal, "_BLOCK", block)
    _check(_convolutions())


def _bins() -> Iterator[Any]:
    rng = np.random.default_rng(6)
    places = rng.integers(-3, 12, (5, 20))
    for dtype in ("bool", *_INTEGERS, *_FLOATS, "complex64"):
        weights = rng.integers(0, 100, (5, 20)).astype(dtype)
        yield "bin_sums", (places, weights, 9), {}
        yield "bin_sums", (places.astype(np.int8), weights, 0), {}
    yield "bin_sums", (places, None, 9), {}
    yield "bin_sums", (np.array([0, 1, 1, 0]), np.array([1e20, 1.0, 2.0, -1e20]), 2), {}
    for dtype in _INTEGERS:
        yield "bincount", (np.array([3, 0, 3, 7], dtype),), {"minlength": 5}
        yield "bincount", (np.zeros(0, dtype),), {"minlength": 2}
    yield "bincount", (np.array([3, -1, 3]),), {}
    edges = np.array([-1.0, 0.0, 0.0, 1.5, 4.0])
    x = np.array([[-2.0, -1.0, 0.0, 0.5], [1.5, 4.0, 4.5, np.nan], [np.inf, -np.inf, -0.0, 1.0]])
    for given in (x, x.astype(np.float32), np.array([-1, 0, 1, 4, 5]), np.array(2.0)):
        yield "bins_of", (given, edges), {}
        yield "interval_of", (given, edges), {}
        for right in (False, True):
            for bins in (edges, edges[::-1], edges[:1], edges[:0], np.array([1.0, 1.0]), np.array([0, 3])):
                yield "digitize", (given, bins), {"right": right}
    large = np.array([2**53, 2**53 + 1, 2**53 + 2])
    yield "bins_of", (large, large), {}
    yield "digitize", (x, np.array([0.0, 2.0, 1.0])), {}
    yield "ascending", (edges,), {}
    yield "ascending", (edges[::-1],), {}
    yield "ascending", (np.array([0.0, np.nan, 1.0]),), {}
    for given in (x, x[:1], np.array([3.0]), np.array([2.0, np.inf])):
        yield "even_edges", (given, 5), {}
        yield "even_edges", (given, 5, (1.0, 1.0)), {}


def test_bins_of_every_kind() -> None:
    _check(_bins())


def _rules() -> Iterator[Any]:
    rng = np.random.default_rng(7)
    for rule in ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"):
        yield "estimated_edges", (rng.standard_normal(300), rule), {}
        yield "estimated_edges", (rng.exponential(size=90), rule), {"range": (0.25, 1.5)}
        yield "estimated_edges", (rng.integers(0, 6, 50).astype(float), rule), {"whole": True}
        yield "estimated_edges", (np.array([2.0]), rule), {}
        yield "estimated_edges", (np.array([2.0, 3.0]), rule), {"range": (5.0, 6.0)}
    yield "estimated_edges", (np.array([2.0, np.nan]), "fd"), {}


def test_rules_for_the_number_of_bins() -> None:
    _check(_rules())
