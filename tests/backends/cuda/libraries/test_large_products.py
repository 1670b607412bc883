"""Large products by cuBLASLt: dtypes, layouts and stacks, compared with NumPy; small ones are left to the template."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tenkey as tk
from tests._tiers import only_full
from tests.backends.cuda.libraries._library_device import device


@pytest.fixture(scope="module")
def products() -> Iterator[list[Any]]:
    """The products that reached the library."""
    calls: list[Any] = []
    with device(), tk.backends.strict_fallback():
        library: Any = sys.modules["nvmath.bindings.cublasLt"]
        right = library.matmul
        library.matmul = lambda *args: (calls.append(args), right(*args))[1]
        yield calls


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.uniform(-1, 1, shape)
    return (found + 1j * rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def layouts(a: np.ndarray) -> dict[str, tk.Tensor]:
    wide = np.zeros((*a.shape[:-1], a.shape[-1] + 5), a.dtype)
    wide[..., 2:-3] = a
    return {
        "rows": tk.asarray(a, device="libraries"),
        "columns": tk.asarray(np.ascontiguousarray(a.swapaxes(-1, -2)), device="libraries").mT,
        "window": tk.asarray(wide, device="libraries")[..., 2:-3],
    }


SHAPES = [
    ((70, 80), (80, 90)), ((3, 70, 80), (80, 90)), ((3, 70, 80), (3, 80, 90)), ((70, 80), (4, 80, 65)),
    ((600, 1000), (1000, 1)), ((1, 1000), (1000, 600)), ((2, 1, 70, 80), (3, 80, 50)), ((600, 1), (1, 600)),
]  # fmt: skip
DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", only_full(DTYPES, ["float16", "float32", "complex64"]))
@pytest.mark.parametrize("shapes", SHAPES)
def test_layouts_and_stacks(dtype: str, shapes: Any, products: list[Any]) -> None:
    a, b = numbers(shapes[0], dtype, 0), numbers(shapes[1], dtype, 1)
    wide = "complex128" if "complex" in dtype else "float64"
    want = a.astype(wide) @ b.astype(wide)
    atol = {"float16": 0.1, "float32": 1e-3, "complex64": 1e-3}.get(dtype, 1e-10)
    for left, x in layouts(a).items():
        for right, y in layouts(b).items():
            before = len(products)
            found = x @ y
            assert found.dtype == dtype
            assert len(products) > before, f"{left} @ {right} did not reach the library"
            assert_allclose(found.cpu().numpy(), want, rtol=0, atol=atol, err_msg=f"{left} @ {right}")


def test_bfloat16(products: list[Any]) -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes")
    a = numbers((70, 80), "float32", 0)
    x = tk.asarray(a, device="libraries").astype(tk.bfloat16)
    before = len(products)
    found = x @ x.mT
    assert len(products) == before + 1
    assert_allclose(found.cpu().numpy().astype("float32"), a @ a.T, atol=0.3)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((63, 64), (64, 64))],
)
def test_small_products_are_left_to_the_template(left: Any, right: Any, products: list[Any]) -> None:
    before = len(products)
    tk.asarray(numbers(left, "float32", 0), device="libraries") @ tk.asarray(
        numbers(right, "float32", 1), device="libraries"
    )
    assert len(products) == before


def test_rows_and_columns_with_gaps_are_left_to_the_template(products: list[Any]) -> None:
    a = numbers((140, 180), "float64", 0)
    x = tk.asarray(a, device="libraries")[::2, ::2]
    before = len(products)
    assert_allclose((x @ x.mT).cpu().numpy(), a[::2, ::2] @ a[::2, ::2].T, atol=1e-12)
    assert len(products) == before


def test_integers_are_left_to_the_template(products: list[Any]) -> None:
    before = len(products)
    x = tk.ones((70, 80), dtype=tk.int32, device="libraries")
    assert (x @ x.mT).tolist() == [[80] * 70] * 70
    assert len(products) == before


def test_algorithms_are_asked_for_once(products: list[Any]) -> None:
    library: Any = sys.modules["nvmath.bindings.cublasLt"]
    asked: list[Any] = []
    right = library.matmul_algo_get_heuristic
    library.matmul_algo_get_heuristic = lambda *args: (asked.append(args), right(*args))[1]
    x = tk.asarray(numbers((71, 83), "float64", 0), device="libraries")
    for _ in range(3):
        x @ x.mT
    library.matmul_algo_get_heuristic = right
    assert len(asked) == 1
