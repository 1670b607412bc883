"""Sorting, searching, sets and statistics where the tables of operators say nothing: ties, NaN, zeros, accuracy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck

NAN = float("nan")


def _gradient(function: Any, values: Any, g: Any) -> Any:
    x = tk.tensor(values, dtype="float64", requires_grad=True)
    (found,) = tk.autograd.grad(function(x), (x,), tk.asarray(np.array(g, "float64")))
    assert found is not None
    return found.tolist()


# ---- order


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("size", [7, 5000])
def test_nan_counts_as_the_largest(size: int, descending: bool, stable: bool) -> None:
    values = np.random.default_rng(size).standard_normal(size)
    values[::3] = np.nan
    x = tk.asarray(values)
    got = tk.sort(x, descending=descending, stable=stable)
    order = tk.argsort(x, descending=descending, stable=stable)
    want = np.sort(values)[::-1] if descending else np.sort(values)
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(values[order.numpy()], want)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("size", [8, 4096])
def test_the_order_of_equal_elements_is_kept(size: int, descending: bool) -> None:
    rng = np.random.default_rng(size)
    values = rng.integers(0, 5, size)
    got = tk.argsort(tk.asarray(values), descending=descending).tolist()
    assert got == sorted(range(size), key=lambda i: -values[i] if descending else values[i])
    zeros = np.where(rng.uniform(size=size) < 0.5, -0.0, 0.0)
    zeros[:4] = [1.0, -1.0, 0.0, -0.0]
    order = sorted(range(size), key=lambda i: -zeros[i] if descending else zeros[i])
    got = tk.sort(tk.asarray(zeros), descending=descending).numpy()
    np.testing.assert_array_equal(np.signbit(got), np.signbit(zeros[order]))


def test_ties_share_the_gradient() -> None:
    assert _gradient(tk.sort, [2.0, 1.0, 2.0], [1.0, 10.0, 20.0]) == [15.0, 1.0, 15.0]
    found = _gradient(lambda x: tk.sort(x, axis=0, descending=True), [[1.0, 2.0], [1.0, 3.0]], [[4.0, 1.0], [2.0, 5.0]])
    assert found == [[3.0, 5.0], [3.0, 1.0]]
    assert _gradient(lambda x: tk.topk(x, 1).values, [3.0, 1.0, 3.0], [1.0]) == [0.5, 0.0, 0.5]
    assert _gradient(tk.unique_values, [3.0, 1.0, 3.0], [5.0, 8.0]) == [4.0, 5.0, 4.0]


def test_the_first_of_equal_elements_are_the_top() -> None:
    for n in (6, 400):
        x = tk.asarray(np.r_[np.zeros(n // 2), np.ones(n // 2)])
        assert tk.topk(x, 2).indices.tolist() == [n // 2, n // 2 + 1]
        assert tk.topk(x, 2, largest=False).indices.tolist() == [0, 1]
    values = np.random.default_rng(0).standard_normal((3, 500))
    values[0, 7] = np.nan
    found = tk.topk(tk.asarray(values), 5)
    np.testing.assert_array_equal(found.values.numpy(), np.sort(values)[:, ::-1][:, :5])
    np.testing.assert_array_equal(np.take_along_axis(values, found.indices.numpy(), 1), found.values.numpy())
    for seed in range(9):  # as many equal elements as are asked for, and a nan
        x = np.random.default_rng(seed).permutation(np.repeat([0, 1, np.nan], [95, 4, 1]))
        ones = np.flatnonzero(x == 1)
        assert tk.topk(tk.asarray(x), 4).indices.tolist() == [*np.flatnonzero(np.isnan(x)), *ones[:3]]
        assert tk.topk(tk.asarray(-x), 4, largest=False).indices.tolist() == [*ones]


def test_running_extremes_of_nan() -> None:
    x = tk.asarray([1.0, NAN, 3.0])
    np.testing.assert_array_equal(tk.cummax(x).values.numpy(), [1, np.nan, np.nan])
    assert tk.cummin(tk.asarray([2, 2, 1, 1])).indices.tolist() == [0, 1, 2, 3]


# ---- searching and sets


def test_numbers_take_the_dtype_of_the_data() -> None:
    x = tk.asarray(np.array([0.1, 0.2, 0.3], "float32"))
    assert tk.searchsorted(x, 0.2).item() == 1  # as float32: in double precision 0.2 is less than its float32
    assert tk.searchsorted(tk.asarray([1, 2, 3]), 2.5).item() == 2
    assert tk.isin(x, 0.2).tolist() == [False, True, False]
    assert tk.isin(2, tk.asarray([1, 2])).item() is True
    assert tk.isin(tk.asarray([1, 44], dtype="uint8"), 300).tolist() == [False, False]
    assert tk.isin(300, tk.asarray([1, 44], dtype="uint8"), invert=True).item() is True
    assert tk.searchsorted(tk.asarray([3, 1, 2]), 2, side="right", sorter=tk.asarray([1, 2, 0])).item() == 2


def test_each_nan_is_distinct_and_zeros_are_not() -> None:
    found = tk.unique_all(tk.asarray([NAN, 0.0, -0.0, NAN, 1.0]))
    assert found.counts.tolist() == [2, 1, 1, 1]
    np.testing.assert_array_equal(found.values.numpy(), [0, 1, np.nan, np.nan])
    assert found.indices.tolist() == [1, 4, 0, 3]
    assert tk.unique_values(tk.asarray([complex(1, NAN), complex(1, NAN)])).shape == (2,)
    assert tk.isin(tk.asarray([NAN]), tk.asarray([NAN])).tolist() == [False]
    with pytest.raises(NotImplementedError, match=r"\[unique_values\].*on the CPU"):
        tk.unique_values(tk.zeros(3, device="meta"))


# ---- statistics


def test_sums_of_float32_against_exact_sums() -> None:
    rng = np.random.default_rng(1)
    for size in (1000, 1 << 17):
        values = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype("float32")
        exact, scale = math.fsum(values), math.fsum(np.abs(values))
        assert abs(tk.sum(tk.asarray(values)).item() - exact) <= 32 * 2.0**-24 * scale
        assert abs(tk.mean(tk.asarray(values)).item() - exact / size) <= 32 * 2.0**-24 * scale / size


def test_the_variance_of_data_with_a_large_mean() -> None:
    values = np.random.default_rng(2).standard_normal(10_000) + 1e8
    exact_mean = math.fsum(values) / values.size
    exact = math.fsum((values - exact_mean) ** 2) / values.size
    assert tk.var(tk.asarray(values)).item() == pytest.approx(exact, rel=1e-7)
    assert tk.std(tk.asarray(values), correction=1).item() == pytest.approx(
        math.sqrt(exact * values.size / (values.size - 1)), rel=1e-7
    )
    single = (np.random.default_rng(3).standard_normal(10_000) + 1000).astype("float32")
    assert tk.var(tk.asarray(single)).item() == pytest.approx(np.var(single.astype("float64")), rel=1e-4)


def test_too_few_elements_for_a_variance() -> None:
    for n in (10, 10_000, 100_000):  # the squares of halves add up to more than halves hold
        halves = tk.asarray(np.tile(np.array([7, -7], "f2"), n // 2))
        assert (tk.var(halves).item(), tk.std(halves).item()) == (49, 7), n
    assert math.isnan(tk.var(tk.asarray([1.0]), correction=1).item())
    assert math.isnan(tk.var(tk.zeros(0)).item())
    assert _gradient(tk.std, [2.0, 2.0], 1.0) == [0.0, 0.0]


@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 3.0], [1.5]])
def test_the_gradient_of_cumulative_products_with_zeros(values: list[float]) -> None:
    g = np.arange(1.0, len(values) + 1)
    wanted = []
    for i in range(len(values)):
        partial = [
            math.prod(v for j, v in enumerate(values[: k + 1]) if j != i) if k >= i else 0.0 for k in range(len(g))
        ]
        wanted.append(float(np.dot(g, partial)))
    np.testing.assert_allclose(_gradient(tk.cumulative_prod, values, g), wanted, rtol=1e-14)


def test_the_recurrence_of_a_long_axis() -> None:
    rng = np.random.default_rng(4)
    x = tk.tensor(rng.uniform(0.9, 1.1, 150), requires_grad=True)
    assert gradcheck(tk.cumulative_prod, x)
    a, b = rng.uniform(-1, 1, (1000, 2)), rng.standard_normal((1000, 2))
    for reverse in (False, True):
        got = tk.ops.tk.linear_recurrence(tk.asarray(a), tk.asarray(b), 0, reverse).numpy()
        want = b.copy()
        for i in range(998, -1, -1) if reverse else range(1, 1000):
            want[i] += a[i] * want[i + 1] if reverse else a[i - 1] * want[i - 1]
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_differences_at_the_edges() -> None:
    x = tk.asarray([1.0, 4.0])
    assert tk.diff(x, prepend=0, append=tk.asarray([9.0])).tolist() == [1.0, 3.0, 5.0]
    assert tk.diff(tk.asarray([True, True, False])).tolist() == [False, True]
    assert tk.diff(tk.asarray([3, 1], dtype="uint8")).tolist() == [254]
    assert tk.diff(tk.asarray([1, 4]), prepend=0.5).dtype == tk.float32


# ---- shapes


def test_reshape_with_copy() -> None:
    x = tk.zeros((2, 3))
    assert tk.shares_storage(x, tk.reshape(x, (6,), copy=False))
    assert not tk.shares_storage(x, tk.reshape(x, (6,), copy=True))
    assert not tk.shares_storage(x, x.reshape(2, 3, copy=True))
    there = tk.zeros((2, 3), device="meta")
    assert not tk.shares_storage(there, tk.reshape(there, (6,), copy=True))
    assert gradcheck(lambda t: tk.reshape(t, (3, 2), copy=True), tk.ones((2, 3), dtype="float64").requires_grad_())
    with pytest.raises(ValueError, match=r"\[reshape\] copy=False"):
        tk.reshape(x.T, (6,), copy=False)


def test_splits_are_views() -> None:
    x = tk.arange(7)
    parts = tk.array_split(x, 3)
    assert isinstance(parts, tuple)
    assert [p.tolist() for p in parts] == [a.tolist() for a in np.array_split(np.arange(7), 3)]
    assert all(tk.shares_storage(x, p) for p in parts)
    assert [p.shape for p in tk.split(tk.zeros((4, 2)), np.int64(2))] == [(2, 2), (2, 2)]
    with pytest.raises(ValueError, match=r"\[split\] 7 elements along axis 0 do not divide into 2"):
        tk.split(x, 2)
    with pytest.raises(ValueError, match=r"\[array_split\] a tensor is split into at least 1 part, got 0"):
        tk.array_split(x, 0)
    assert [p.tolist() for p in tk.split([1, 2], 2)] == [[1], [2]]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\[split\] takes a Tensor, got str"):
        tk.split("text", 2)  # type: ignore[arg-type]


def test_methods_spelled_as_numpy_and_pytorch_have_them() -> None:
    x = tk.asarray([[3.0, 1.0], [2.0, 4.0]])
    assert x.cumsum().tolist() == [3.0, 4.0, 6.0, 10.0]
    assert x.cumprod(0).tolist() == [[3.0, 1.0], [6.0, 4.0]]
    assert x.unsqueeze(-1).shape == (2, 2, 1)
    assert x.sort(axis=0).tolist() == [[2.0, 1.0], [3.0, 4.0]]
    assert x.topk(1).values.tolist() == [[3.0], [4.0]]
    assert x.swapaxes(0, 1).tolist() == [[3.0, 2.0], [1.0, 4.0]]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [8, 2000])
def test_a_recorded_sort_gives_the_elements_and_gradients_of_a_stable_one(length: int, descending: bool) -> None:
    rng = np.random.default_rng(3)
    values = rng.choice([0.0, -0.0, 1.5, -2.0, np.nan, np.inf], (3, length))
    x = tk.tensor(values, requires_grad=True)
    found = tk.sort(x, axis=1, descending=descending)
    plain = tk.sort(tk.asarray(values), axis=1, descending=descending)
    np.testing.assert_array_equal(found.detach().numpy(), plain.numpy())
    np.testing.assert_array_equal(np.signbit(found.detach().numpy()), np.signbit(plain.numpy()))
    weights = rng.standard_normal((3, length))
    found.backward(tk.asarray(weights))
    assert x.grad is not None
    for row, ordered, weight, slopes in zip(values, plain.numpy(), weights, x.grad.numpy(), strict=True):
        for value in {0.0, 1.5, -2.0, np.inf} & {*row.tolist()}:  # equal elements share a mean
            np.testing.assert_allclose(slopes[row == value], weight[ordered == value].mean(), rtol=1e-9)
        np.testing.assert_allclose(slopes.sum(), weight.sum())
