"""The error functions of complex numbers, and of any numbers: ``tk.special.erf`` and ``tk.special.erfc``."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ...declare import TensorSpec, checked, composite, internal, same_dim
from ..elementwise.arithmetic import abs as abs_
from ..elementwise.comparison import signbit, where
from ..elementwise.complex import complex_from, conj, imag, real
from ..elementwise.exponential import exp
from ..elementwise.trigonometry import cos, hypot, sin
from ..shape.copying import cast
from .error_functions import real_erf, real_erfc

# Note [Error functions of complex numbers]
#     With x and y the parts of z, brought to x, y >= 0 by symmetry, erf(z) is erf(x) and exp(-x^2) times a series whose
#     terms fall like exp(-(n / 2 - y)^2) (H. Salzer, "Formulas for calculating the error function of a complex
#     variable", 1951; Abramowitz and Stegun 7.1.29). Beyond a radius of 8 it is the asymptotic expansion (DLMF 7.12.1).
#     Guarded by tests/ops/test_special.py::test_error_functions_of_complex_numbers.
_RADIUS: Final = 8.0
_TERMS: Final = 30


def _near(x: Any, y: Any) -> Any:
    """Return what erf(x + iy) is more than erf(x), for 0 <= x and 0 <= y, neither far from zero."""
    safe = np.where(x == 0, 1.0, x)
    phase = 2 * x * y
    cosine, sine = np.cos(phase), np.sin(phase)
    first = np.where(x == 0, 0.0, np.sin(x * y) ** 2 / (math.pi * safe))
    second = np.where(x == 0, y / math.pi, sine / (2 * math.pi * safe))
    for n in range(1, _TERMS + 1):
        up, down = np.exp(n * y - n * n / 4), np.exp(-n * y - n * n / 4)
        even, odd = (up + down) / 2, (up - down) / 2
        weight = 2 / (math.pi * (n * n + 4 * x * x))
        first = first + weight * (2 * x * (math.exp(-n * n / 4) - even * cosine) + n * odd * sine)
        second = second + weight * (2 * x * even * sine + n * odd * cosine)
    return np.exp(-x * x) * (first + 1j * second)


def _far(z: Any) -> Any:
    """Return erfc(z) for large numbers with a real part >= 0."""
    inverse = -0.5 / (z * z)
    term = total = np.ones_like(z)
    for k in range(1, 26):
        term = term * inverse * (2 * k - 1)
        total = total + term
    return np.exp(-z * z) * total / (z * math.sqrt(math.pi))


_REAL: Final = (np.vectorize(math.erf, otypes=[np.float64]), np.vectorize(math.erfc, otypes=[np.float64]))


def _on_numpy(x: Any, complement: bool) -> Any:
    z = np.asarray(x, np.complex128)
    right, up = np.abs(z.real), np.abs(z.imag)
    far = np.hypot(right, up) > _RADIUS
    with np.errstate(all="ignore"):
        more = _near(np.where(far, 1.0, right), np.where(far, 1.0, up))
        on_axis = _REAL[complement](right)
        near = on_axis - more if complement else on_axis + more
        beyond = _far(np.where(far, right + 1j * up, _RADIUS))
        found = np.where(far, beyond if complement else 1 - beyond, near)
        found = np.where(np.signbit(z.imag), np.conj(found), found)
        mirrored = np.conj(found)  # the function at -conj(z), so that the sign of the imaginary part stays
        found = np.where(np.signbit(z.real), 2 - mirrored if complement else -mirrored, found)
    return (found if x.dtype.kind == "c" else found.real).astype(x.dtype)


def _near_parts(x: Tensor, y: Tensor) -> Tensor:
    """Compute ``_near`` by operators."""
    zero = x == 0.0
    safe = where(zero, 1.0, x)
    phase = x * y * 2.0
    cosine, sine = cos(phase), sin(phase)
    half = sin(x * y)
    first = where(zero, 0.0, half * half / (safe * math.pi))
    second = where(zero, y / math.pi, sine / (safe * (2 * math.pi)))
    for n in range(1, _TERMS + 1):
        up, down = exp(y * float(n) - n * n / 4), exp(y * float(-n) - n * n / 4)
        even, odd = (up + down) * 0.5, (up - down) * 0.5
        weight = 2 / math.pi / (x * x * 4.0 + float(n * n))
        first = first + weight * (x * 2.0 * (math.exp(-n * n / 4) - even * cosine) + odd * sine * float(n))
        second = second + weight * (x * 2.0 * even * sine + odd * cosine * float(n))
    scale = exp(-(x * x))
    return complex_from(scale * first, scale * second)


def _parts(x: Tensor, complement: bool) -> Tensor:
    """Compute ``_on_numpy`` by operators."""
    z = cast(x, np.dtype(np.complex128))
    a, b = real(z), imag(z)
    right, up = abs_(a), abs_(b)
    far = hypot(right, up) > _RADIUS
    more = _near_parts(where(far, 1.0, right), where(far, 1.0, up))
    near = (real_erfc(right) - more) if complement else (real_erf(right) + more)
    beyond = _far_parts(complex_from(where(far, right, _RADIUS), where(far, up, 0.0)))
    found = where(far, beyond if complement else 1.0 - beyond, near)
    found = where(signbit(b), conj(found), found)
    mirrored = conj(found)
    found = where(signbit(a), 2.0 - mirrored if complement else -mirrored, found)
    return cast(found if x.dtype.kind == "c" else real(found), x.dtype)


def _far_parts(z: Tensor) -> Tensor:
    """Compute ``_far`` by operators."""
    inverse = -0.5 / (z * z)
    term = total = z * 0.0 + 1.0
    for k in range(1, 26):
        term = term * inverse * float(2 * k - 1)
        total = total + term
    return exp(-(z * z)) * total / (z * math.sqrt(math.pi))


def _meta(x: Tensor, complement: bool) -> TensorSpec:
    if x.dtype.kind not in "cfV":
        raise TypeError(f"[special.erf] got {x.dtype}: the function of complex numbers takes floating dtypes.")
    return TensorSpec(x.shape, x.dtype)


complex_erf = internal(
    "complex_erf(Tensor x, bool complement) -> Tensor",
    meta=_meta,
    numpy=_on_numpy,
    quiet=True,
    decomposition=checked(_meta, _parts),
    vjp={"x": lambda g, x, complement: g * conj(exp(-x * x)) * ((-2 if complement else 2) / math.sqrt(math.pi))},
    sample_inputs=lambda rng: [
        ((rng.standard_normal(shape) + 1j * rng.standard_normal(shape), complement), {})
        for shape in ((3,), (0,))
        for complement in (False, True)
    ],
    batch=same_dim,
)


def _any_samples(rng: np.random.Generator) -> Any:
    return [((rng.uniform(-2, 2, shape),), {}) for shape in ((2, 3), (), (0,))]


@composite(
    "special_erf(Tensor x) -> Tensor",
    sample_inputs=_any_samples,
    autocast="float32",
    batch=same_dim,
)
def special_erf(x: Tensor) -> Tensor:
    """Return the error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x (DLMF 7.2.1).

    >>> tk.special.erf(tk.asarray([0.0, 10.0])).tolist()
    [0.0, 1.0]
    >>> f"{tk.special.erf(tk.asarray(1j)).item():.4f}"
    '0.0000+1.6504j'
    """
    return complex_erf(x, False) if x.dtype.kind == "c" else real_erf(x)


@composite("special_erfc(Tensor x) -> Tensor", sample_inputs=_any_samples, batch=same_dim)
def special_erfc(x: Tensor) -> Tensor:
    """Return ``1 - erf(x)`` without cancellation (DLMF 7.2.2).

    >>> tk.special.erfc(tk.asarray([0.0, 100.0])).tolist()
    [1.0, 0.0]
    """
    return complex_erf(x, True) if x.dtype.kind == "c" else real_erfc(x)
