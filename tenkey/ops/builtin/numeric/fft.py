"""Discrete Fourier transforms, computed by NumPy's pocketfft; single precision stays single.

A transform of length n is a matrix F, so its gradient is F^H: the transform with the other sign and the opposite
``norm``, then truncated or padded to the length of the input. The gradient of a real input is the real part. The
half of the spectrum that ``rfft`` omits has no gradient; ``irfft`` uses every element twice except the first and, for
an even n, the last. Guarded by tests/ops/test_fft.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ...declare import Entry, TensorSpec, along, composite, factory, linear, normal, structured
from ...shapes import normalize_axes, normalize_axis
from ..creation import arange, zeros
from ..element_plans import frequency_plan
from ..elementwise.comparison import where
from ..elementwise.complex import conj, conjugated, like_operand, real
from ..linalg.common import inexact, inexact_array
from ..shape.copying import cast, concatenate
from ..shape.views import along_axis, slice

_OPPOSITE: Final = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _check_norm(operator: str, norm: str) -> None:
    if norm not in _OPPOSITE:
        raise ValueError(f"[fft.{operator}] got norm={norm!r}: it must be 'backward', 'ortho' or 'forward'.")


def _refuse_complex(operator: str, dtype: np.dtype, other: str) -> None:
    if dtype.kind == "c":
        raise TypeError(
            f"[fft.{operator}] is not defined for dtype {dtype}: its input is real. Use tk.fft.{other}, or take "
            "tk.real(x)."
        )


def _check(
    operator: str, x: Tensor, n: int | None, axis: int, norm: str, default: int | None = None
) -> tuple[int, int]:
    """Return the axis, counted from the front, and the number of points."""
    i = normalize_axis(f"fft.{operator}", axis, x.ndim)
    _check_norm(operator, norm)
    points = (x.shape[i] if default is None else default) if n is None else n
    if points < 1:
        raise ValueError(
            f"[fft.{operator}] got n={points} for shape {x.shape} and axis {axis}: a transform has at least one point."
        )
    return i, points


def _with_length(shape: tuple[int, ...], i: int, n: int) -> tuple[int, ...]:
    return (*shape[:i], n, *shape[i + 1 :])


def _resized(x: Tensor, n: int, i: int) -> Tensor:
    """Truncate an axis to its first ``n`` elements, or pad it with zeros."""
    length = x.shape[i]
    if length == n:
        return x
    if length > n:
        return slice(x, i, 0, n)
    return concatenate([x, zeros(_with_length(x.shape, i, n - length), dtype=x.dtype, device=x.device)], axis=i)


def _complex_of(operator: str, x: Tensor) -> np.dtype:
    return dtypes.complex_of(dtypes.real_of(inexact(f"fft.{operator}", x.dtype)))


_samples = normal(
    [4],
    ([5], {"norm": "ortho"}),
    ([3, 4], {"axis": 0, "norm": "forward"}),
    ([2, 3], {"n": 5}),
    ([2, 5], {"n": 2, "axis": -1}),
    [0, 2],
    [1],
)


def _half_samples(rng: np.random.Generator) -> Any:
    return [(args, options) for args, options in _samples(rng) if args[0].shape != (1,)]


def _transform(
    name: str,
    *,
    vjp: Callable[..., Tensor],
    numpy: Callable[..., Any] | None = None,
    samples: Callable[..., Any] = _samples,
    **options: Any,
) -> Entry:
    def on_numpy(x: Any, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return getattr(np.fft, name)(inexact_array(x), n, axis, norm)

    return structured(
        f"fft_{name}(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
        numpy=numpy or on_numpy,
        widens=True,
        strict=True,
        vjp={"x": vjp},
        jvp=linear("x"),
        sample_inputs=samples,
        batch=along("axis"),
        **options,
    )


def _complex_meta(name: str) -> Callable[..., TensorSpec]:
    def meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
        i, points = _check(name, x, n, axis, norm)
        return TensorSpec(_with_length(x.shape, i, points), _complex_of(name, x))

    return meta


def _complex_gradient(inverse: Entry, g: Tensor, x_meta: Any, axis: int, norm: str) -> Tensor:
    i = normalize_axis("fft", axis, len(x_meta.shape))
    back = inverse(g, axis=i, norm=_OPPOSITE[norm])
    return like_operand(_resized(back, x_meta.shape[i], i), x_meta)


fft: Entry = _transform(
    "fft",
    meta=_complex_meta("fft"),
    vjp=lambda g, x_meta, axis, norm: _complex_gradient(ifft, g, x_meta, axis, norm),
    doc="""Return the discrete Fourier transform along an axis: ``sum over j of x[j] exp(-2 pi i j k / n)``.

    Args: x: floating or complex; integers are converted to floats. n: the number of points: the axis is truncated or
    padded with zeros; None for its length. norm: 'backward' does not scale, 'forward' divides by n, 'ortho' by its
    square root. Returns complex values in the precision of x. Raises ValueError for an n below 1 and an unknown norm,
    IndexError for an axis out of range.

    >>> tk.fft.fft(tk.asarray([1.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)

ifft: Entry = _transform(
    "ifft",
    meta=_complex_meta("ifft"),
    vjp=lambda g, x_meta, axis, norm: _complex_gradient(fft, g, x_meta, axis, norm),
    doc="""Return the inverse of ``fft``: ``sum over k of x[k] exp(2 pi i j k / n) / n``.

    Args: as for ``fft``, but norm: 'backward' divides by n, 'forward' does not scale, 'ortho' divides by the square
    root. Returns complex values in the precision of x.

    >>> tk.fft.ifft(tk.asarray([3.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)


def _rfft_meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
    _refuse_complex("rfft", x.dtype, "fft")
    i, points = _check("rfft", x, n, axis, norm)
    return TensorSpec(_with_length(x.shape, i, points // 2 + 1), _complex_of("rfft", x))


def _rfft_vjp(g: Tensor, x_meta: Any, n: int | None, axis: int, norm: str) -> Tensor:
    i = normalize_axis("rfft", axis, len(x_meta.shape))
    length = x_meta.shape[i]
    whole = _resized(g, length if n is None else n, i)
    return real(_resized(ifft(whole, axis=i, norm=_OPPOSITE[norm]), length, i))


rfft: Entry = _transform(
    "rfft",
    meta=_rfft_meta,
    vjp=_rfft_vjp,
    doc="""Return the discrete Fourier transform of real values: its first ``n // 2 + 1`` elements, which determine all.

    Args: as for ``fft``; raises TypeError if x is complex. Returns complex values in the precision of x.

    >>> tk.fft.rfft(tk.asarray([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)


def _irfft_meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
    i = normalize_axis("fft.irfft", axis, x.ndim)
    i, points = _check("irfft", x, n, axis, norm, max(0, 2 * (x.shape[i] - 1)))
    return TensorSpec(_with_length(x.shape, i, points), dtypes.real_of(inexact("fft.irfft", x.dtype)))


def _irfft_vjp(g: Tensor, x_meta: Any, axis: int, norm: str) -> Tensor:
    i = normalize_axis("irfft", axis, len(x_meta.shape))
    n = g.shape[i]
    half = rfft(g, axis=i, norm=_OPPOSITE[norm])
    k = along_axis(arange(half.shape[i], device=g.device), i, g.ndim)
    once = (k == 0) if n % 2 else (k == 0) | (k == n // 2)
    weighted = where(once, half, half * 2.0)
    return like_operand(_resized(weighted, x_meta.shape[i], i), x_meta)


def _irfft_on_numpy(x: np.ndarray, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    a = inexact_array(x)
    if 0 in a.shape and -a.ndim <= axis < a.ndim and not a.shape[axis]:
        # pad with zeros as usual: NumPy would read the first element, which does not exist
        a = np.zeros(tuple([1 if i == axis % a.ndim else m for i, m in enumerate(a.shape)]), a.dtype)
    return np.fft.irfft(a, n, axis, norm)


irfft: Entry = _transform(
    "irfft",
    meta=_irfft_meta,
    vjp=_irfft_vjp,
    numpy=_irfft_on_numpy,
    samples=_half_samples,
    doc="""Return the inverse of ``rfft``: real values from the first half of a spectrum.

    Args: as for ``ifft``, but n: the number of points of the result; None for ``2 * (m - 1)``, where m is the length of
    the axis, so an odd number must be given. The imaginary parts of the first element and, for an even n, of the last
    are ignored. Returns real values in the precision of x.

    >>> tk.fft.irfft(tk.fft.rfft(tk.asarray([1.0, 2.0, 3.0])), n=3).tolist()
    [1.0, 2.0, 3.0]
    """,
)


@composite("fft_hfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor", sample_inputs=_half_samples)
def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform, which is real, of a Hermitian signal, given its first half.

    Args: as for ``fft``, but n: the number of points of the result; None for ``2 * (m - 1)``, where m is the length of
    the axis. Returns real values in the precision of x.

    >>> tk.fft.hfft(tk.asarray([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    _check_norm("hfft", norm)
    return irfft(conjugated(x), n, axis, _OPPOSITE[norm])


@composite("fft_ihfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor", sample_inputs=_samples)
def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Return the inverse of ``hfft``: the first half of the Hermitian signal with the spectrum x.

    Args: as for ``ifft``; raises TypeError if x is complex. Returns complex values in the precision of x.

    >>> tk.fft.ihfft(tk.asarray([4.0, 0.0, 0.0, 0.0])).tolist()
    [(1-0j), (1-0j), (1-0j)]
    """
    _check_norm("ihfft", norm)
    _refuse_complex("ihfft", x.dtype, "ifft")
    return conj(rfft(x, n, axis, _OPPOSITE[norm]))


# ---- several dimensions


def _sizes(
    operator: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, least: int = 0
) -> tuple[list[int | None], tuple[int, ...]]:
    """Return the number of points along each axis, None for its length, and the axes, counted from the front."""
    if axes is None:
        axes = range(0 if s is None else max(0, x.ndim - len(s)), x.ndim)
    places = normalize_axes(f"fft.{operator}", tuple(axes), x.ndim)
    if s is not None and len(s) != len(places):
        raise ValueError(f"[fft.{operator}] got s={tuple(s)} and axes={tuple(axes)}: give one length for each axis.")
    if len(places) < least:
        raise ValueError(f"[fft.{operator}] got axes=(): it transforms along at least one axis.")
    return [None if s is None or s[k] == -1 else s[k] for k in range(len(places))], places


_ALONG_AXES: Final = "(Tensor x, int[]? s=None, int[]? axes=None, str norm='backward') -> Tensor"
_all_samples = normal(
    [3, 4],
    ([2, 3, 4], {"axes": (0, 2), "norm": "ortho"}),
    ([3, 4], {"s": (2, 5), "axes": (0, 1), "norm": "forward"}),
    ([2, 3, 2], {"s": (3, 3), "axes": (-1, 0)}),
    ([0, 2], {"axes": (1,)}),
)


def _along(transform: Entry, x: Tensor, s: list[int | None], axes: tuple[int, ...], norm: str) -> Tensor:
    for n, axis in zip(reversed(s), reversed(axes)):
        x = transform(x, n, axis, norm)
    return x


def _along_all(operator: str, transform: Entry, x: Tensor, s: Any, axes: Any, norm: str) -> Tensor:
    sizes, places = _sizes(operator, x, s, axes)
    if places:
        return _along(transform, x, sizes, places, norm)
    _check_norm(operator, norm)
    return cast(x, _complex_of(operator, x))


@composite("fft_fftn" + _ALONG_AXES, sample_inputs=_all_samples)
def fftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform along several axes.

    Args: x and norm: as for ``fft``. s: the number of points along each axis, -1 for its length. axes: None for all, or
    the last ones if ``s`` is given. Raises ValueError if s and axes have different lengths, and as ``fft``.

    >>> tk.fft.fftn(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _along_all("fftn", fft, x, s, axes, norm)


@composite("fft_ifftn" + _ALONG_AXES, sample_inputs=_all_samples)
def ifftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """Return the inverse of ``fftn``.

    Args: as for ``fftn``; norm: as for ``ifft``.

    >>> tk.fft.ifftn(tk.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    return _along_all("ifftn", ifft, x, s, axes, norm)


@composite("fft_rfftn" + _ALONG_AXES, sample_inputs=_all_samples)
def rfftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform of real values along several axes; along the last one, its first half.

    Args: as for ``fftn``, with at least one axis; raises TypeError if x is complex.

    >>> tk.fft.rfftn(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    sizes, places = _sizes("rfftn", x, s, axes, 1)
    _refuse_complex("rfftn", x.dtype, "fftn")
    return _along(fft, rfft(x, sizes[-1], places[-1], norm), sizes[:-1], places[:-1], norm)


@composite("fft_irfftn" + _ALONG_AXES, sample_inputs=_all_samples)
def irfftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """Return the inverse of ``rfftn``: real values.

    Args: as for ``ifftn``, with at least one axis; without s, the last length is ``2 * (m - 1)``.

    >>> tk.fft.irfftn(tk.fft.rfftn(tk.ones((2, 2)))).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    sizes, places = _sizes("irfftn", x, s, axes, 1)
    for n, axis in zip(sizes[:-1], places[:-1]):
        x = ifft(x, n, axis, norm)
    return irfft(x, sizes[-1], places[-1], norm)


# ---- frequencies


def _freq_dtype(dtype: np.dtype | None) -> np.dtype:
    return inexact("fft.fftfreq", dtype or dtypes.default_float())


def _frequencies(name: str, doc: str) -> Entry:
    def meta(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> TensorSpec:
        if n < 1:
            raise ValueError(f"[fft.{name}] got n={n}: it must be at least 1.")
        if d == 0:
            raise ValueError(f"[fft.{name}] got d=0: the distance of samples must not be 0.")
        if dtype is not None and dtype.kind in "biu":
            raise TypeError(f"[fft.{name}] got dtype={dtype}: frequencies are fractions, so use a floating dtype.")
        return TensorSpec((n if name == "fftfreq" else n // 2 + 1,), _freq_dtype(dtype))

    return factory(
        f"fft_{name}(int n, float d=1.0, *, DType? dtype=None, Device? device=None) -> Tensor",
        meta=meta,
        numpy=lambda n, d=1.0, *, dtype=None, device=None: getattr(np.fft, name)(n, d).astype(_freq_dtype(dtype)),
        elements=partial(frequency_plan, half=name == "rfftfreq"),
        doc=doc,
    )


fftfreq = _frequencies(
    "fftfreq",
    """Return the frequencies of a transform of ``n`` points, ``d`` apart: 0, 1 / (n d), ..., -1 / (n d).

    Args: n: at least 1, else raises ValueError. dtype: floating, None for the default.

    >>> tk.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """,
)

rfftfreq = _frequencies(
    "rfftfreq",
    """Return the frequencies of ``rfft`` of ``n`` points, ``d`` apart: from 0 to 1 / (2 d).

    Args: n: at least 1, else raises ValueError. dtype: floating, None for the default.

    >>> tk.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """,
)


def _rotated(operator: str, x: Tensor, axes: Any, *, back: bool) -> Tensor:
    result = x
    for i in normalize_axes(operator, axes, x.ndim):
        n = x.shape[i]
        first = n // 2 if back else n - n // 2
        if 0 < first < n:
            result = concatenate([slice(result, i, first, n), slice(result, i, 0, first)], axis=i)
    return x.clone() if result is x else result


_shift_samples = normal(
    ([4], {"axes": None}), ([3, 5], {"axes": (0, -1)}), ([2, 3], {"axes": 1}), ([0, 3], {"axes": None})
)


@composite("fft_fftshift(Tensor x, int[1]? axes=None) -> Tensor", sample_inputs=_shift_samples)
def fftshift(x: Tensor, axes: Any = None) -> Tensor:
    """Rotate the elements along axes, so that frequency zero is in the middle.

    Args: x: any dtype. axes: one or several, None for all. Raises IndexError for an axis out of range.

    >>> tk.fft.fftshift(tk.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _rotated("fft.fftshift", x, axes, back=False)


@composite("fft_ifftshift(Tensor x, int[1]? axes=None) -> Tensor", sample_inputs=_shift_samples)
def ifftshift(x: Tensor, axes: Any = None) -> Tensor:
    """Invert ``fftshift``; the two differ for odd lengths.

    >>> tk.fft.ifftshift(tk.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _rotated("fft.ifftshift", x, axes, back=True)
