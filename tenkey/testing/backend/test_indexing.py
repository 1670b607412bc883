"""Index tensors: bounds, negative indices, duplicates, empty and broadcast indices, masks. Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.testing.backend.compare import LAYOUTS, agree, gradient_of
from tenkey.testing.backend.plugin import Subject

NAN, INF = float("nan"), float("inf")
EXACT: Final[dict[str, Any]] = {"absolute": False, "ulps": 0}


def put(x: Any, index: Any, value: Any) -> Any:
    """Assign in place and return the tensor."""
    x[index] = value
    return x


def along(index: Any, x: Any) -> Any:
    """Return the index with a second dimension, as the functions that gather along an axis expect it."""
    return tk.broadcast_to(tk.expand_dims(index, 1), (index.shape[0], x.shape[1]))


BY_INDEX: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, i]": lambda x, i: x[i, i],
    "x[i, 0]": lambda x, i: x[i, tk.zeros_like(i)],
    "x[0, i]": lambda x, i: x[tk.zeros_like(i), i],
    "x[:, :, i]": lambda x, i: tk.expand_dims(x, 1)[:, :, i],
    "take": lambda x, i: tk.take(x, i, axis=0),
    "take, axis=1": lambda x, i: tk.take(x, i, axis=1),
    "take_along_axis": lambda x, i: tk.take_along_axis(x, along(i, x), axis=0),
    "gather": lambda x, i: x.gather(along(i, x), 0),
    "x[i] = 1": lambda x, i: put(x, i, 1),
    "x[:, i] = 1": lambda x, i: put(x, (slice(None), i), 1),
    "x[i, i] = 1": lambda x, i: put(x, (i, i), 1),
    "scatter": lambda x, i: tk.scatter(x, along(i, x), tk.ones_like(along(i, x)).astype(x.dtype), 0),
    "scatter_add": lambda x, i: tk.scatter_add(x, along(i, x), tk.ones_like(along(i, x)).astype(x.dtype), 0),
    "index_add": lambda x, i: tk.index_add(x, i, tk.ones((i.shape[0], x.shape[1]), dtype=x.dtype, device=x.device)),
    "index_copy": lambda x, i: tk.index_copy(x, i, tk.ones((i.shape[0], x.shape[1]), dtype=x.dtype, device=x.device)),
    "index_fill": lambda x, i: tk.index_fill(x, i, 7),
}


def table(dtype: str = "float32", rows: int = 5, columns: int = 5) -> np.ndarray:
    """Return a table whose elements are all different."""
    return (np.arange(rows * columns).reshape(rows, columns) + 1).astype(dtype)


@pytest.mark.parametrize("name", BY_INDEX)
def test_bounds(subject: Subject, name: str) -> None:
    """Test that an index out of range raises IndexError, at the latest when the result is read, and only this call."""
    call = BY_INDEX[name]
    for wrong in (5, 6, -6, 2**31, -(2**31), 2**40, 2**62, -(2**63)):
        for place in (0, 2):
            index = np.array([1, 2, 0], np.int64)
            index[place] = wrong
            x = tk.asarray(table(), device=subject.name)
            at = tk.asarray(index, device=subject.name)
            try:
                result = call(x, at)
                got = f"gave {result.detach().numpy().tolist()}"
                subject.backend.synchronize(x.device.index)
            except IndexError:
                got = ""
            except Exception as error:  # the suite reports which
                got = f"raised {error!r}"
            assert not got, f"{name} of float32[5, 5] with the indices {index.tolist()} {got}, expected an IndexError"
    agree(subject.name, call, table(), np.array([4, 0, -5]), what=f"{name} after an error", **EXACT)


@pytest.mark.parametrize("name", BY_INDEX)
def test_indices(subject: Subject, name: str) -> None:
    call = BY_INDEX[name]
    for index in ([0, 4, 2], [-1, -5, 3], [4], [], [3, 3, -2, 3, 0, 0]):
        array = np.array(index, np.int64)
        agree(subject.name, call, table(), array, what=f"{name}, {index}", layouts=LAYOUTS, **EXACT)
    for dtype in ("int8", "int32", "uint8"):
        agree(subject.name, call, table(), np.array([3, 0, 1], dtype), what=name, **EXACT)
    for dtype in ("uint8", "int16", "int64", "float64", "bool", "complex64"):
        agree(subject.name, call, table(dtype), np.array([3, 0, 1]), what=name, refused=dtype == "bool", **EXACT)


def test_shapes_of_indices(subject: Subject) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    i, j = np.array([[0, 2], [-1, 1]]), np.array([3, -4])
    calls: dict[str, Callable[..., Any]] = {
        "x[i]": lambda x, i, j: x[i], "x[i, j]": lambda x, i, j: x[i, j], "x[i, :, j]": lambda x, i, j: x[i, :, j],
        "x[:, j]": lambda x, i, j: x[:, j], "x[..., j]": lambda x, i, j: x[..., j], "x[i, 1]": lambda x, i, j: x[i, 1],
        "x[i, j, j]": lambda x, i, j: x[i, j, j], "x[i[0, 0]]": lambda x, i, j: x[i[0, 0]],
        "x[i, None, j]": lambda x, i, j: x[i, None, j], "x[1:, j]": lambda x, i, j: x[1:, j],
        "take": lambda x, i, j: tk.take(x, i, axis=1), "x[i][j]": lambda x, i, j: x[:, :, 0][i, j],
        "x[i, j] = 0": lambda x, i, j: put(x, (i, j), 0),
        "x[:, j] = row": lambda x, i, j: put(x, (slice(None), j), x[:, :2] * 2),
        "x[i, j] = columns": lambda x, i, j: put(x, (i, j), x[0, 0]),
    }  # fmt: skip
    for name, call in calls.items():
        agree(subject.name, call, x, i, j, what=name, layouts=LAYOUTS, **EXACT)
    empty = np.zeros((0, 3), np.float32)
    none = np.zeros(0, np.int64)
    for name in ("x[i]", "x[:, i]", "x[i] = 1", "take"):
        call = BY_INDEX[name]
        agree(subject.name, call, empty, none, what="nothing of nothing")
        agree(subject.name, call, empty, np.array([0]), what="an element of nothing", refused=True)
    for call in (lambda x, i: tk.take_along_axis(x, i, axis=1), lambda x, i: tk.take_along_axis(x[:1], i, axis=1)):
        index = np.array([[0], [1], [4], [-1], [2]])
        agree(subject.name, call, table(), index, what="take_along_axis", layouts=LAYOUTS)


def test_many_indices(subject: Subject) -> None:
    """Test more indices than one group of a device handles."""
    rng = np.random.default_rng(0)
    x, i = table(rows=300, columns=3), rng.integers(-300, 300, 1777)
    for name in ("x[i]", "take", "take_along_axis", "scatter_add", "index_add"):
        agree(subject.name, BY_INDEX[name], x, i, what=name, **EXACT)


@pytest.mark.parametrize("reduce", [None, "add", "multiply", "max", "min"])
def test_duplicates(subject: Subject, reduce: str | None) -> None:
    """Test several sources for one place: combined in any order, and of assignments the last remains."""
    index = np.array([2, 0, 2, 2, 1, 2, 0])

    def along_rows(x: Any, index: Any, source: Any) -> Any:
        return tk.scatter(x, index, source, 0, reduce=reduce)

    def along_columns(x: Any, index: Any, source: Any) -> Any:
        places = tk.broadcast_to(index, (4, 7))
        return tk.scatter(tk.broadcast_to(x, (4, 4)), places, tk.broadcast_to(source, (4, 7)), 1, reduce=reduce)

    source: Any
    for dtype in ("float32", "int64", "uint8", "bool"):
        for source in ([3, 1, 2, 5, 7, 4, 6], [0, 0, 1, 0, 1, 1, 0]):
            x = np.array([1, 2, 3, 4]).astype(dtype)
            for call in (along_rows, along_columns):
                agree(
                    subject.name, call, x, index, np.array(source).astype(dtype), what=f"scatter, reduce={reduce!r}",
                    layouts=("contiguous", "strided"), **EXACT,
                )  # fmt: skip
    x = np.array([1.0, NAN, -INF, 4.0], np.float32)
    for source in ([NAN, 1, 2, 5, 7, 4, 6], [3, 1, 2, 5, 7, NAN, 6], [-1, INF, -2, NAN, NAN, -7, -INF]):
        agree(subject.name, along_rows, x, index, np.array(source, np.float32), what=f"scatter, reduce={reduce!r}")
    if reduce is None:
        agree(subject.name, lambda x, i, v: put(x, i, v), x, index, np.arange(7, dtype=np.float32), what="x[i] = v")
        many = np.random.default_rng(1).integers(0, 4, 500)
        agree(subject.name, along_rows, x, many, np.arange(500, dtype=np.float32), what="many assignments")
    if reduce == "add":
        many = np.random.default_rng(1).integers(0, 4, 500)
        x = table(rows=1, columns=4)[0]
        agree(subject.name, along_rows, x, many, np.ones(500, np.float32), what="many sums", **EXACT)


def test_masks(subject: Subject) -> None:
    x = table()
    for mask in (x % 2 == 0, x > 99, x > 0, np.eye(5, dtype=bool)):
        for name, call in {
            "x[mask]": lambda x, m: x[m], "x[mask] = 0": lambda x, m: put(x, m, 0),
            "x[mask] += 1": lambda x, m: put(x, m, x[m] + 1), "nonzero": lambda x, m: tuple(tk.nonzero(m)),
            "argwhere": lambda x, m: tk.argwhere(m), "masked_fill": lambda x, m: x.masked_fill(m, -1),
            "x[rows]": lambda x, m: x[m[1]],
        }.items():  # fmt: skip
            agree(subject.name, call, x, mask, what=f"{name}, {int(mask.sum())} selected", layouts=LAYOUTS, **EXACT)
    for special in (NAN, INF, 5e-324, -0.0):
        agree(subject.name, lambda x: tuple(tk.nonzero(x)), np.array([0.0, special, 1.0]), what=f"nonzero of {special}")


def test_gradients_add_up_duplicates(subject: Subject) -> None:
    index = np.array([3, 0, 3, -2, 3, -5])
    for name in ("x[i]", "x[:, i]", "x[i, i]", "take", "take_along_axis", "gather", "scatter_add", "index_add"):
        agree(subject.name, gradient_of(BY_INDEX[name]), table(), index, what=f"gradient of {name}", **EXACT)


SIZES: Final = ((1, 1, 1), (1, 7, 1), (7, 1, 5), (3, 4, 5), (16, 16, 16), (17, 33, 15), (65, 63, 66), (5, 257, 3))


class TestMatmul:
    @pytest.mark.parametrize("dtype", ["float32", "int64", "float64", "uint8", "int32"])
    def test_sizes(self, subject: Subject, dtype: str, float64: bool) -> None:
        """Test sizes around those of tiles with whole numbers, whose products and sums are exact."""
        if dtype == "float64" and not float64:
            pytest.skip("the device does not compute in double precision")
        rng = np.random.default_rng(0)
        for rows, inner, columns in SIZES:
            a = rng.integers(0, 9, (rows, inner)).astype(dtype)
            b = rng.integers(0, 9, (inner, columns)).astype(dtype)
            agree(subject.name, tk.matmul, a, b, what="matmul", layouts=LAYOUTS, **EXACT)

    def test_operands(self, subject: Subject) -> None:
        rng = np.random.default_rng(0)
        shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
            ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 4, 5), (5, 3)), ((4, 5), (2, 5, 3)), ((2, 4, 5), (5,)),
            ((2, 1, 4, 5), (3, 5, 2)), ((1, 4, 5), (3, 5, 2)), ((0, 5), (5, 3)), ((4, 0), (0, 3)), ((4, 5), (5, 0)),
            ((2, 0, 3), (2, 3, 4)), ((5,), (2, 5, 3)), ((3, 4, 5), (3, 5, 2)),
        ]  # fmt: skip
        for left, right in shapes:
            a = rng.integers(-9, 9, left).astype(np.float32)
            b = rng.integers(-9, 9, right).astype(np.float32)
            agree(subject.name, tk.matmul, a, b, what="matmul", layouts=LAYOUTS, **EXACT)
        a, b = (rng.integers(-9, 9, (6, 6)).astype(np.float32) for _ in range(2))
        calls: dict[str, Callable[[Any, Any], Any]] = {
            "a.T @ b": lambda a, b: a.T @ b, "a @ b.T": lambda a, b: a @ b.T, "a.T @ b.T": lambda a, b: a.T @ b.T,
            "a @ a": lambda a, b: a @ a, "a @ a.T": lambda a, b: a @ a.T, "a[::2] @ b": lambda a, b: a[::2] @ b,
            "a[1:, ::2] @ b[3:]": lambda a, b: a[1:, ::2] @ b[3:], "a[2] @ b": lambda a, b: a[2] @ b,
            "one row repeated": lambda a, b: tk.broadcast_to(a[:1], (4, 6)) @ tk.broadcast_to(b[:, :1], (6, 5)),
            "one matrix repeated": lambda a, b: tk.broadcast_to(a, (3, 6, 6)) @ b,
            "a.T[1:] @ b": lambda a, b: a.T[1:] @ b,
        }  # fmt: skip
        for name, call in calls.items():
            agree(subject.name, call, a, b, what=name, **EXACT)

    def test_special_values(self, subject: Subject) -> None:
        a = np.array([[NAN, 0, 1], [INF, 0, 1], [INF, -INF, 0], [1, 1, 1]], np.float32)
        b = np.array([[1, 0], [1, 2], [3, INF]], np.float32)
        agree(subject.name, tk.matmul, a, b, what="matmul", layouts=LAYOUTS)
        big = np.full((2, 3), 3e38, np.float32)
        agree(subject.name, tk.matmul, big, np.ones((3, 2), np.float32), what="matmul, overflow")
        agree(subject.name, tk.matmul, np.full((2, 3), 2**62), np.full((3, 2), 3), what="matmul, overflow")

    def test_sums_in_single_precision(self, subject: Subject) -> None:
        ones = np.ones((3, 5001), np.float32)
        agree(subject.name, lambda a: a @ a.T, ones, what="matmul of ones", **EXACT)
        small = np.full((2, 50), 1 + 2.0**-12, np.float32)
        agree(subject.name, lambda a: a @ a.T, small, what="matmul of numbers near 1")
