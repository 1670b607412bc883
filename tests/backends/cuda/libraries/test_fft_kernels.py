"""Fourier transforms by cuFFT, compared with SciPy: axes, lengths, layouts, norms and dtypes, without a fallback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.fft
from numpy.testing import assert_allclose

import tenkey as tk
from tenkey.testing.backend.compare import outcome
from tests.backends.cuda.libraries._library_device import LibraryDevice, device

NAMES = ("fft", "ifft", "rfft", "irfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


@pytest.fixture(scope="module", autouse=True)
def backend() -> Iterator[LibraryDevice]:
    with device() as made, tk.backends.strict_fallback():
        yield made


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.uniform(-1, 1, shape)
    return (found + 1j * rng.uniform(-1, 1, shape) if "complex" in dtype else found).astype(dtype)


def put(x: np.ndarray) -> tk.Tensor:
    return tk.asarray(x, device="libraries")


def dtype_for(name: str, wide: bool) -> str:
    if name.startswith("rfft"):
        return "float64" if wide else "float32"
    return "complex128" if wide else "complex64"


def agree(got: tk.Tensor, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    single = want.dtype.name in ("float32", "complex64")
    assert_allclose(
        got.cpu().numpy(), want, rtol=0, atol=3e-6 * max(1, np.abs(want).max(initial=0)) if single else 1e-12
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 1, 4, 5, 9])
def test_lengths_and_norms(name: str, wide: bool, norm: Any, n: int | None) -> None:
    for shape, axis in (((6,), 0), ((2, 6), -1), ((6, 3), 0), ((2, 6, 3), 1), ((2, 3, 1, 6), 3), ((1, 6, 1), 1)):
        a = values(shape, dtype_for(name, wide))
        x = put(a)
        agree(getattr(tk.fft, name)(x, n=n, axis=axis, norm=norm), getattr(scipy.fft, name)(a, n, axis, norm))
        assert np.array_equal(x.cpu().numpy(), a), "the input is unchanged"


@pytest.mark.parametrize("name", NAMES)
def test_layouts(name: str) -> None:
    a = values((4, 6, 5), dtype_for(name, True))
    windows = {
        "transposed": lambda x: tk.permute_dims(x, (2, 0, 1)),
        "sliced": lambda x: x[1:3, ::2, 1:],
        "last of a row": lambda x: x[:, :, 3:],
        "broadcast": lambda x: tk.broadcast_to(x[:1], (3, 6, 5)),
        "one element": lambda x: x[:, 2:3, 1],
    }
    for says, window in windows.items():
        given = np.array(window(tk.asarray(a)).numpy())
        for axis in range(given.ndim):
            want = getattr(scipy.fft, name)(given, n=given.shape[axis], axis=axis)
            got = getattr(tk.fft, name)(window(put(a)), n=given.shape[axis], axis=axis)
            assert got.shape == want.shape, (says, axis)
            assert_allclose(got.cpu().numpy(), want, atol=1e-12, err_msg=f"{says}, axis {axis}")


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str) -> None:
    a = values((3, 4, 5), dtype_for(name, True))
    for options in ({}, {"axes": (0, 2)}, {"s": (2, 6), "axes": (2, 0), "norm": "ortho"}, {"axes": (1,)}):
        agree(getattr(tk.fft, name)(put(a), **options), getattr(scipy.fft, name)(a, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float16", "int64", "float32", "float64"])
def test_real_signals_in_complex_transforms(dtype: str) -> None:
    a = np.array([[1, 2, 0, 3], [0, 1, 0, 0]], dtype)
    for name in ("fft", "ifft", "rfft"):
        want = getattr(tk.fft, name)(tk.asarray(a)).numpy()
        agree(getattr(tk.fft, name)(put(a)), want)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["irfft", "hfft"])
def test_half_precision_of_transforms_to_real_numbers(name: str, axis: int) -> None:
    a = np.arange(24).reshape(2, 3, 4).astype("float16")
    want = getattr(tk.fft, name)(tk.asarray(a), axis=axis).numpy()
    assert want.dtype == "float16"
    got = getattr(tk.fft, name)(put(a), axis=axis)
    assert got.dtype == want.dtype
    assert_allclose(got.cpu().numpy(), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n", [3, 4])
def test_parts_that_a_hermitian_spectrum_lacks_are_ignored(n: int) -> None:
    a = np.array([[1 + 5j, 2 + 1j, 3 + 4j]])[:, : n // 2 + 1]
    agree(tk.fft.irfft(put(a), n=n), np.fft.irfft(a, n))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_addresses_that_are_not_aligned_to_complex_numbers(dtype: str) -> None:
    a = values((9,), dtype)
    agree(tk.fft.rfft(put(a)[1:]), scipy.fft.rfft(a[1:]))


def test_no_copy_of_rows_and_columns() -> None:
    """Contiguous rows, contiguous columns and truncated rows are read where they are."""
    library: Any = sys.modules["nvmath.bindings.cufft"]
    seen: list[int] = []
    right = library.exec_z2z
    library.exec_z2z = lambda plan, idata, *rest: (seen.append(idata), right(plan, idata, *rest))[1]
    x = put(values((6, 4), "complex128"))
    address = x.array.buffer.memory.ctypes.data
    try:
        for options in ({"axis": 1}, {"axis": 0}, {"axis": 1, "n": 2}):
            tk.fft.fft(x, **options)
        assert seen == [address] * 3
    finally:
        library.exec_z2z = right


def test_gradients() -> None:
    a = values((3, 4), "float64")
    found = []
    for place in ("cpu", "libraries"):
        x = tk.asarray(a.copy(), device=place).requires_grad_()
        with tk.enable_grad():
            y = tk.fft.irfft(tk.fft.rfft(x, n=6) * 2j, n=5)
            tk.sum(y * y * tk.real(tk.fft.fft2(x, s=(3, 5)) if hasattr(tk.fft, "fft2") else y)).backward()
        found.append(x.grad.cpu().numpy())  # type: ignore[union-attr]
    assert_allclose(found[1], found[0], atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((0, 4), {}),
        ((3, 0), {"n": 3}),
        ((3, 0), {}),
        ((3, 4), {"n": 0}),
        ((3, 4), {"axis": 2}),
        ((3, 4), {"norm": "no"}),
    ],
)
def test_empty_batches_and_errors(name: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    a, call = values(shape, dtype_for(name, False)), getattr(tk.fft, name)
    want, refused = outcome(lambda: call(tk.asarray(a), **options).numpy())
    if refused is None:
        agree(call(put(a), **options), want)
        return
    with pytest.raises(refused) as caught:
        call(put(a), **options)
    assert str(caught.value) == str(want)
