"""Wrong kernels of the templates ``gather``, ``scatter``, ``matmul`` and ``copy``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tenkey as tk
from tests._backends import window

from .wrong import Wrong, kernel, packed, template

__all__ = ["INDEXING"]

GATHER: Final = "test_templates::TestGatherAndScatter"
BOUNDS: Final = "test_indexing::test_bounds"
PRODUCT: Final = "test_templates::TestMatmul"
MATMUL: Final = "test_indexing::TestMatmul"
COPY: Final = "test_templates::test_copy"


def other_indices(change: Callable[[np.ndarray, int], np.ndarray]) -> Callable[..., Any]:
    """Return a change of gather whose indices are a function of those given and of the number of elements."""

    def changed(right: Any, *_: Any) -> Any:
        def run(out: Any, x: Any, index: Any, error: Any, code: int) -> None:
            kept = window(index).copy()
            spread = np.broadcast_to(change(kept, x.shape[1]), index.shape)
            right(out, x, copied(index, spread), error, code)

        return run

    return changed


def copied(like: Any, values: np.ndarray) -> Any:
    """Return a packed window with other values, in a buffer of its own."""
    made = like.device.backend.from_host(np.ascontiguousarray(values), like.device)
    data = made.array
    return data.window(data.shape, data.strides, data.offset)


def scattered(change: Callable[..., None]) -> Callable[..., Any]:
    """Return a change of scatter: ``change(right, mode, out, index, source, error, code)``."""
    return lambda right, mode, *_: lambda *windows: change(right, mode, *windows)


def clipped(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    right(out, copied(index, np.clip(window(index), 0, out.shape[1] - 1)), source, error, code)


def first_remains(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    flipped = [copied(x, window(x)[:, ::-1]) if mode == "set" else x for x in (index, source)]
    right(out, *flipped, error, code)


def unbuffered(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    """Write what each source gives with the value before the call: of duplicates one remains."""
    before = window(out).copy()
    combine = {"add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum}.get(mode)
    if combine is None or ((window(index) < 0) | (window(index) >= out.shape[1])).any():
        right(out, index, source, error, code)
        return
    with np.errstate(all="ignore"):
        new = combine(np.take_along_axis(before, window(index), 1), window(source))
    np.put_along_axis(window(out), window(index), new, 1)


def without_nan(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    values = window(source)
    if mode in ("minimum", "maximum") and values.dtype.kind == "f":
        low = -np.inf if mode == "maximum" else np.inf
        source = copied(source, np.where(np.isnan(values), low, values).astype(values.dtype))
    right(out, index, source, error, code)


def sums(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    if mode != "multiply":
        right(out, index, source, error, code)
        return
    out.device.backend.scatter("add", out.dtype, True)(out, index, source, error, code)


def from_nothing(right: Any, mode: str, out: Any, index: Any, source: Any, error: Any, code: int) -> None:
    window(out)[...] = 0
    right(out, index, source, error, code)


def unreported(right: Any, *_: Any) -> Any:
    def run(*arguments: Any) -> None:
        *windows, error, code = arguments
        right(*windows, copied(error, np.zeros(1, np.int64)), code)

    return run


def of_inner(x: Any) -> Any:
    return x.window(x.shape, (*x.strides[:2], 0), x.offset)


def of_outer(x: Any) -> Any:
    return x.window(x.shape, (0, *x.strides[1:]), x.offset)


def multiplied(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a change of matmul without an epilogue: ``change(a, b)`` gives the product of the values."""

    def changed(right: Any, dtype: Any, epilogue: Any, *_: Any) -> Any:
        def run(out: Any, a: Any, b: Any, *others: Any) -> None:
            if epilogue is not None:
                right(out, a, b, *others)
                return
            with np.errstate(all="ignore"):
                window(out)[...] = change(window(a), window(b))

        return run

    return changed


def whole_tiles(a: Any, b: Any) -> Any:
    inner = a.shape[2]
    kept = inner - inner % 16 if inner > 16 else inner
    return a[:, :, :kept] @ b[:, :kept]


def first_tile(a: Any, b: Any) -> Any:
    product = a @ b
    product[:, 64:] = 0
    return product


def in_half(a: Any, b: Any) -> Any:
    return (a.astype("float16") @ b.astype("float16")) if a.dtype == np.float32 else a @ b


def through_double(a: Any, b: Any) -> Any:
    return (a.astype("float64") @ b.astype("float64")).astype(a.dtype) if a.dtype.kind in "iu" else a @ b


def skipping_zeros(a: Any, b: Any) -> Any:
    """Return a product that leaves out factors 0, and with them 0 times infinity."""
    terms = np.where(a[:, :, :, None] == 0, 0, a[:, :, :, None] * b[:, None])
    return terms.sum(2).astype(a.dtype)


def no_epilogue(right: Any, dtype: Any, epilogue: Any, *_: Any) -> Any:
    def run(out: Any, a: Any, b: Any, *others: Any) -> None:
        window(out)[...] = window(a) @ window(b)

    return run


def clips(device: Any, x: Any, indices: Any) -> Any:
    values = window(x)
    index = [slice(None) if i is None else i.numpy() for i in indices]
    bounded = [
        i if isinstance(i, slice) or i.dtype.kind == "b" else np.clip(i, -n, n - 1)
        for i, n in zip(index, values.shape, strict=False)
    ]
    return device.from_host(values[tuple(bounded)], x.device)


def clips_along(device: Any, x: Any, indices: Any, *, axis: int = -1) -> Any:
    n = x.shape[axis]
    return device.from_host(np.take_along_axis(window(x), np.clip(window(indices), -n, n - 1), axis), x.device)


INDEXING: Final[tuple[Wrong, ...]] = (
    template("gather clips indices", "gather", other_indices(lambda i, n: np.clip(i, 0, max(n - 1, 0))), BOUNDS),
    template("gather wraps indices", "gather", other_indices(lambda i, n: i % max(n, 1)), GATHER),
    template("gather accepts the index after the last", "gather",
             other_indices(lambda i, n: np.where(i == n, n - 1, i)), GATHER),
    template("gather uses the lower half of an index", "gather",
             other_indices(lambda i, n: i.astype(np.int32).astype(np.int64)), GATHER),
    template("gather accepts negative indices", "gather",
             other_indices(lambda i, n: np.where(i < 0, i + n, i)), GATHER),
    template("gather does not report an index out of range", "gather", unreported, BOUNDS),
    template("gather reads one inner element for all", "gather",
             lambda right, *_: lambda out, x, *rest: right(out, of_inner(x), *rest), GATHER),
    template("gather reads the first of the outer elements", "gather",
             lambda right, *_: lambda out, x, *rest: right(out, of_outer(x), *rest), GATHER),
    template("gather reads its operand as if it were packed", "gather",
             lambda right, *_: lambda out, x, *rest: right(out, packed(x), *rest), GATHER),
    template("gather reads indices as if they were packed", "gather",
             lambda right, *_: lambda out, x, index, *rest: right(out, x, packed(index), *rest), GATHER),
    template("scatter clips indices", "scatter", scattered(clipped), BOUNDS),
    template("scatter does not report an index out of range", "scatter", unreported, BOUNDS),
    template("of several assignments the first remains", "scatter", scattered(first_remains), GATHER),
    template("of several sources for a place one is added", "scatter", scattered(unbuffered), GATHER),
    template("scatter ignores NaN in minimum and maximum", "scatter", scattered(without_nan), GATHER),
    template("scatter adds in the place of multiplying", "scatter", scattered(sums), GATHER),
    template("scatter begins with zeros", "scatter", scattered(from_nothing), GATHER),
    template("scatter writes as if the result were packed", "scatter",
             lambda right, *_: lambda out, *rest: right(out.window(out.shape, out.strides, 0), *rest), GATHER),
    kernel("an index kernel clips", "tk::index", clips, BOUNDS),
    kernel("take_along_axis clips", "tk::take_along_axis", clips_along, f"{BOUNDS}[take_along_axis]"),
    template("matmul forgets the last tile of the sums", "matmul", multiplied(whole_tiles), PRODUCT),
    template("matmul computes the first 64 rows", "matmul", multiplied(first_tile), PRODUCT),
    template("matmul computes in half precision", "matmul", multiplied(in_half), PRODUCT),
    template("matmul of integers goes through double precision", "matmul", multiplied(through_double), PRODUCT),
    template("matmul leaves out factors 0", "matmul", multiplied(skipping_zeros), PRODUCT),
    template("matmul reads transposed operands as if they were packed", "matmul",
             lambda right, *_: lambda out, a, *rest: right(out, packed(a), *rest), PRODUCT),
    template("matmul uses the first matrix of a batch", "matmul",
             lambda right, *_: lambda out, a, b, *rest: right(out, a, of_outer(b), *rest), PRODUCT),
    template("matmul ignores the epilogue", "matmul", no_epilogue, PRODUCT),
    kernel("a hand-written matmul is right for unequal shapes only", "tk::matmul",
           lambda self, x1, x2: self.from_host(np.matmul(window(x1), window(x2)) if x1.shape != x2.shape
                                               else window(x1) * 2, x1.device), MATMUL),
    template("copy ignores the offset", "copy",
             lambda right, *_: lambda out, x: right(out, x.window(x.shape, x.strides, 0)), COPY),
    template("copy ignores the sign of strides", "copy",
             lambda right, *_: lambda out, x: right(out, x.window(x.shape, (*map(abs, x.strides),), x.offset)), COPY),
    template("copy writes as if the result were packed", "copy",
             lambda right, *_: lambda out, x: right(tk.backends.StridedArray(
                 out.buffer, out.shape, out.dtype, out.device, None, out.offset, out.owner), x), COPY),
    template("copy of 64-bit elements copies half of them", "copy",
             lambda right, dtype: lambda out, x: right(out, x) if dtype.itemsize < 8 else
             window(out).__setitem__(..., window(x).astype(np.uint32)), COPY),
)  # fmt: skip
