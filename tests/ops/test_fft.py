"""Fourier transforms against their definition in extended precision, their gradients, precision and errors."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck

_RNG = np.random.default_rng(0)


def _definition(x: np.ndarray[Any, Any], sign: int) -> np.ndarray[Any, Any]:
    """The sum itself, in 40 digits."""
    n = len(x)
    with mpmath.workdps(40):
        roots = [mpmath.expjpi(mpmath.mpf(2 * sign * k) / n) for k in range(n)]
        values = [mpmath.mpmathify(complex(v)) for v in x]
        sums = [mpmath.fsum(values[j] * roots[j * k % n] for j in range(n)) for k in range(n)]
        return np.array([complex(s) for s in sums])


@pytest.mark.parametrize("n", [1, 2, 7, 16, 30, 97])
@pytest.mark.parametrize(("dtype", "eps"), [("complex128", 2e-15), ("complex64", 1e-6)])
def test_against_the_definition(n: int, dtype: str, eps: float) -> None:
    x = (_RNG.standard_normal(n) + 1j * _RNG.standard_normal(n)).astype(dtype)
    limit = eps * float(np.linalg.norm(x)) * np.sqrt(n)
    t = tk.asarray(x)
    np.testing.assert_allclose(tk.fft.fft(t).numpy(), _definition(x, -1), atol=limit, rtol=0)
    np.testing.assert_allclose(tk.fft.ifft(t).numpy(), _definition(x, 1) / n, atol=limit / n, rtol=0)
    np.testing.assert_allclose(tk.fft.rfft(tk.real(t)).numpy(),
                               _definition(x.real, -1)[: n // 2 + 1], atol=limit, rtol=0)  # fmt: skip
    half = x[: n // 2 + 1].copy()
    half[0] = half[0].real
    if n % 2 == 0:
        half[-1] = half[-1].real
    whole = np.concatenate([half, half[1 : (n + 1) // 2][::-1].conj()])
    np.testing.assert_allclose(
        tk.fft.irfft(tk.asarray(half), n).numpy(), (_definition(whole, 1) / n).real, atol=limit / n, rtol=0
    )
    np.testing.assert_allclose(
        tk.fft.hfft(tk.asarray(half), n).numpy(), _definition(whole, -1).real, atol=limit, rtol=0
    )


@pytest.mark.parametrize(("given", "result"), [("float32", "complex64"), ("float64", "complex128"),
                                               ("complex64", "complex64"), ("int64", "complex64")])  # fmt: skip
def test_precision_is_kept(given: str, result: str) -> None:
    x = tk.ones((2, 4), dtype=given)
    for function in (tk.fft.fft, tk.fft.ifft, tk.fft.fftn, tk.fft.ifftn):
        assert function(x).dtype == np.dtype(result)
    assert tk.fft.fftn(x, axes=()).dtype == np.dtype(result)
    real = "float64" if result == "complex128" else "float32"
    assert tk.fft.irfft(x).dtype == tk.fft.hfft(x).dtype == tk.fft.irfftn(x).dtype == np.dtype(real)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [4, 5])
def test_inverses(n: int, norm: str) -> None:
    x = _RNG.standard_normal((3, n))
    t = tk.asarray(x)
    for there, back in (
        (tk.fft.fft(t, norm=norm), lambda y: tk.fft.ifft(y, norm=norm)),
        (tk.fft.rfft(t, norm=norm), lambda y: tk.fft.irfft(y, n=n, norm=norm)),
        (tk.fft.fftn(t, norm=norm), lambda y: tk.fft.ifftn(y, norm=norm)),
        (tk.fft.rfftn(t, norm=norm), lambda y: tk.fft.irfftn(y, s=(3, n), norm=norm)),
        (tk.fft.ihfft(t, norm=norm), lambda y: tk.fft.hfft(y, n=n, norm=norm)),
        (tk.fft.fftshift(t), tk.fft.ifftshift),
    ):
        np.testing.assert_allclose(back(there).numpy(), x, atol=1e-14)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_gradients_of_half_spectra(n: int, norm: str) -> None:
    x = tk.tensor(_RNG.standard_normal((2, 4)), requires_grad=True)
    z = tk.tensor(_RNG.standard_normal((2, 3)) + 1j * _RNG.standard_normal((2, 3)), requires_grad=True)
    assert gradcheck(lambda a: tk.fft.rfft(a, n, norm=norm), (x,))
    assert gradcheck(lambda a: tk.fft.irfft(a, n, norm=norm), (z,))
    assert gradcheck(lambda a: tk.fft.hfft(a, n, norm=norm), (z,))
    assert gradcheck(lambda a: tk.fft.irfft(a, n, norm=norm), (x,))


def test_vmap() -> None:
    x = _RNG.standard_normal((3, 4, 5))
    found = tk.transforms.vmap(lambda a: tk.fft.rfft(a, axis=0), in_dims=2)(tk.asarray(x))
    np.testing.assert_allclose(found.numpy(), np.fft.rfft(x, axis=0).transpose(2, 0, 1), atol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: tk.fft.fft(x, n=0), ValueError, r"^\[fft.fft\] got n=0"),
        (lambda x: tk.fft.fft(x, axis=2), IndexError, r"^\[fft.fft\] axis 2"),
        (lambda x: tk.fft.fft(tk.ones(())), IndexError, r"^\[fft.fft\] axis -1"),
        (lambda x: tk.fft.ifft(x, norm="other"), ValueError, r"^\[fft.ifft\] got norm='other'"),
        (lambda x: tk.fft.hfft(x, norm="other"), ValueError, r"^\[fft.hfft\] got norm='other'"),
        (lambda x: tk.fft.rfft(x * 1j), TypeError, r"^\[fft.rfft\].*its input is real"),
        (lambda x: tk.fft.rfftn(x * 1j), TypeError, r"^\[fft.rfftn\].*its input is real"),
        (lambda x: tk.fft.ihfft(x * 1j), TypeError, r"^\[fft.ihfft\].*its input is real"),
        (lambda x: tk.fft.fft(tk.ones((2, 0))), ValueError, r"^\[fft.fft\] got n=0"),
        (lambda x: tk.fft.irfft(tk.ones((2, 1))), ValueError, r"^\[fft.irfft\] got n=0"),
        (lambda x: tk.fft.fft(tk.ones(2, dtype="bool")), TypeError, r"^\[fft.fft\] is not defined for dtype bool"),
        (lambda x: tk.fft.fftn(x, s=(2,), axes=(0, 1)), ValueError, r"^\[fft.fftn\].*one length for each axis"),
        (lambda x: tk.fft.fftn(x, s=(2, 2, 2)), ValueError, r"^\[fft.fftn\].*one length for each axis"),
        (lambda x: tk.fft.fftn(x, axes=(0, 0)), ValueError, r"names a dimension twice"),
        (lambda x: tk.fft.rfftn(x, axes=()), ValueError, r"^\[fft.rfftn\] got axes=\(\)"),
        (lambda x: tk.fft.irfftn(x, axes=()), ValueError, r"^\[fft.irfftn\] got axes=\(\)"),
        (lambda x: tk.fft.fftfreq(0), ValueError, r"^\[fft.fftfreq\] got n=0"),
        (lambda x: tk.fft.fftshift(x, axes=2), IndexError, r"^\[fft.fftshift\] axis 2"),
    ],
)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(tk.ones((2, 3)))
    with pytest.raises(error, match=text):
        call(tk.ones((2, 3), device="meta"))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_transforms_of_no_elements_are_those_of_zeros(name: str, shape: tuple[int, ...]) -> None:
    """NumPy's own irfft reads memory that nobody wrote."""
    axis = shape.index(0)
    x = tk.zeros(shape, dtype=tk.float64 if name in ("rfft", "ihfft") else tk.complex128)
    for _ in range(3):
        np.full(1000, 7.0)  # what such memory may hold
        got = getattr(tk.fft, name)(x, n=5, axis=axis)
        assert got.shape[axis] == (3 if name in ("rfft", "ihfft") else 5)
        assert not got.numpy().any()


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_single_sample(name: str) -> None:
    np.testing.assert_array_equal(getattr(tk.fft, name)(1).numpy(), getattr(np.fft, name)(1))
