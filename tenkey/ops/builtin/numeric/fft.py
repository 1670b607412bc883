"""Discrete Fourier transforms, by NumPy's pocketfft; single precision stays single.

Note [Gradients of Fourier transforms]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A transform of length n is a matrix F, so its gradient is F^H: the transform with the other sign, scaled as the opposite
``norm`` says, then cut or filled up to the length of the input. A real input takes the real part; of the half spectrum
of ``rfft`` the other half has no gradient, and ``irfft`` uses each of its elements twice but for the first, and for an
even n the last. Guarded by tests/ops/test_fft.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ...declare import Entry, TensorSpec, along, composite, factory, linear, structured
from ...shapes import normalize_axes, normalize_axis
from ..creation import arange, zeros
from ..elementwise.comparison import where
from ..elementwise.complex import conj, conjugated, like_operand, real
from ..linalg.common import inexact, inexact_array
from ..shape.copying import cast, concatenate
from ..shape.views import reshape, slice

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

_OPPOSITE: Final = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_NORM: Final = "[fft.{operator}] got norm={norm!r}: it is 'backward', 'ortho' or 'forward'."
_LENGTH: Final = "[fft.{operator}] got n={n} for shape {shape} and axis {axis}: a transform has at least one point."
_REAL: Final = (
    "[fft.{operator}] is not defined for dtype {dtype}: its input is real. Use tk.fft.{other}, or take tk.real(x)."
)
_SIZES: Final = "[fft.{operator}] got s={s} and axes={axes}: one length for each axis."


def _check(
    operator: str, x: Tensor, n: int | None, axis: int, norm: str, default: int | None = None
) -> tuple[int, int]:
    """The axis from the front and the number of points."""
    i = normalize_axis(f"fft.{operator}", axis, x.ndim)
    if norm not in _OPPOSITE:
        raise ValueError(_NORM.format(operator=operator, norm=norm))
    points = (x.shape[i] if default is None else default) if n is None else n
    if points < 1:
        raise ValueError(_LENGTH.format(operator=operator, n=points, shape=x.shape, axis=axis))
    return i, points


def _with_length(shape: tuple[int, ...], i: int, n: int) -> tuple[int, ...]:
    return (*shape[:i], n, *shape[i + 1 :])


def _resized(x: Tensor, n: int, i: int) -> Tensor:
    """Cut off behind the first ``n`` elements of an axis, or filled up with zeros."""
    length = x.shape[i]
    if length == n:
        return x
    if length > n:
        return slice(x, i, 0, n)
    return concatenate([x, zeros(_with_length(x.shape, i, n - length), dtype=x.dtype, device=x.device)], axis=i)


def _complex_of(operator: str, x: Tensor) -> np.dtype:
    return dtypes.complex_of(dtypes.real_of(inexact(f"fft.{operator}", x.dtype)))


def _samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal(shape),), options)
        for shape, options in (
            ((4,), {}),
            ((5,), {"norm": "ortho"}),
            ((3, 4), {"axis": 0, "norm": "forward"}),
            ((2, 3), {"n": 5}),
            ((2, 5), {"n": 2, "axis": -1}),
            ((0, 2), {}),
            ((1,), {}),
        )
    ]


def _half_samples(rng: np.random.Generator) -> Any:
    return [(args, options) for args, options in _samples(rng) if args[0].shape != (1,)]


def _numpys(name: str) -> Callable[..., Any]:
    """A function of ``numpy.fft``, which NumPy loads when somebody looks at it."""
    return lambda *args, **kwargs: getattr(np.fft, name)(*args, **kwargs)


def _complex_transform(name: str, on_numpy: Callable[..., Any], doc: str) -> Entry:
    other = "ifft" if name == "fft" else "fft"

    def meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
        i, points = _check(name, x, n, axis, norm)
        return TensorSpec(_with_length(x.shape, i, points), _complex_of(name, x))

    def vjp(g: Tensor, x_meta: Any, axis: int, norm: str) -> Tensor:
        i = normalize_axis(name, axis, len(x_meta.shape))
        back = _TRANSFORMS[other](g, axis=i, norm=_OPPOSITE[norm])
        return like_operand(_resized(back, x_meta.shape[i], i), x_meta)

    return structured(
        f"fft_{name}(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
        meta=meta,
        numpy=lambda x, n=None, axis=-1, norm="backward": on_numpy(inexact_array(x), n, axis, norm),
        widens=True,
        strict=True,
        vjp={"x": vjp},
        jvp=linear("x"),
        sample_inputs=_samples,
        reference=on_numpy,
        batch=along("axis"),
        doc=doc,
    )


_TRANSFORMS: dict[str, Entry] = {}

fft = _TRANSFORMS["fft"] = _complex_transform(
    "fft",
    _numpys("fft"),
    """The discrete Fourier transform along an axis: ``sum over j of x[j] exp(-2 pi i j k / n)``.

    Args: x: floating or complex, integers are taken as floats. n: the number of points; the axis is cut, or filled up
    with zeros; None for its length. norm: 'backward' leaves it as it is, 'forward' divides by n, 'ortho' by its square
    root. Returns complex values in the precision of x. Raises ValueError for an n below 1 and for another norm,
    IndexError for an axis that is not there.

    >>> import tenkey as tk
    >>> tk.fft.fft(tk.asarray([1.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)

ifft = _TRANSFORMS["ifft"] = _complex_transform(
    "ifft",
    _numpys("ifft"),
    """The inverse of ``fft``: ``sum over k of x[k] exp(2 pi i j k / n) / n``.

    Args: as of ``fft``. norm: 'backward' divides by n, 'forward' does not, 'ortho' divides by the square root. Returns
    complex values in the precision of x.

    >>> import tenkey as tk
    >>> tk.fft.ifft(tk.asarray([3.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)


def _rfft_meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
    if x.dtype.kind == "c":
        raise TypeError(_REAL.format(operator="rfft", dtype=x.dtype, other="fft"))
    i, points = _check("rfft", x, n, axis, norm)
    return TensorSpec(_with_length(x.shape, i, points // 2 + 1), _complex_of("rfft", x))


def _rfft_vjp(g: Tensor, x_meta: Any, n: int | None, axis: int, norm: str) -> Tensor:
    i = normalize_axis("rfft", axis, len(x_meta.shape))
    length = x_meta.shape[i]
    whole = _resized(g, length if n is None else n, i)
    return real(_resized(ifft(whole, axis=i, norm=_OPPOSITE[norm]), length, i))


rfft: Entry = structured(
    "fft_rfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
    meta=_rfft_meta,
    numpy=lambda x, n=None, axis=-1, norm="backward": np.fft.rfft(inexact_array(x), n, axis, norm),
    widens=True,
    strict=True,
    vjp={"x": _rfft_vjp},
    jvp=linear("x"),
    sample_inputs=_samples,
    reference=_numpys("rfft"),
    batch=along("axis"),
    doc="""The discrete Fourier transform of real values: the first ``n // 2 + 1`` elements, which determine the others.

    Args: as of ``fft``; x is real, TypeError if not. Returns complex values in the precision of x.

    >>> import tenkey as tk
    >>> tk.fft.rfft(tk.asarray([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """,
)


def _irfft_meta(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> TensorSpec:
    i = normalize_axis("fft.irfft", axis, x.ndim)
    if n is None and not x.shape[i]:
        raise ValueError(_LENGTH.format(operator="irfft", n=0, shape=x.shape, axis=axis))
    i, points = _check("irfft", x, n, axis, norm, 2 * (x.shape[i] - 1))
    return TensorSpec(_with_length(x.shape, i, points), dtypes.real_of(inexact("fft.irfft", x.dtype)))


def _irfft_vjp(g: Tensor, x_meta: Any, axis: int, norm: str) -> Tensor:
    i = normalize_axis("irfft", axis, len(x_meta.shape))
    n = g.shape[i]
    half = rfft(g, axis=i, norm=_OPPOSITE[norm])
    k = reshape(arange(half.shape[i], device=g.device), _with_length((1,) * g.ndim, i, half.shape[i]))
    once = (k == 0) if n % 2 else (k == 0) | (k == n // 2)
    weighted = where(once, half, half * 2.0)
    return like_operand(_resized(weighted, x_meta.shape[i], i), x_meta)


def _irfft_on_numpy(x: np.ndarray, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    a = inexact_array(x)
    if 0 in a.shape and -a.ndim <= axis < a.ndim and not a.shape[axis]:
        # padded with zeros like any other: NumPy reads the first element, which is not there
        a = np.zeros(tuple([1 if i == axis % a.ndim else m for i, m in enumerate(a.shape)]), a.dtype)
    return np.fft.irfft(a, n, axis, norm)


irfft: Entry = structured(
    "fft_irfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
    meta=_irfft_meta,
    numpy=_irfft_on_numpy,
    widens=True,
    strict=True,
    vjp={"x": _irfft_vjp},
    jvp=linear("x"),
    sample_inputs=_half_samples,
    reference=_numpys("irfft"),
    batch=along("axis"),
    doc="""The inverse of ``rfft``: real values from the first half of a spectrum.

    Args: as of ``ifft``. n: the number of points of the result; None stands for ``2 * (m - 1)`` where m is the length
    of the axis, so give an odd one. The imaginary parts of the first element, and for an even n of the last, count for
    nothing. Returns real values in the precision of x.

    >>> import tenkey as tk
    >>> tk.fft.irfft(tk.fft.rfft(tk.asarray([1.0, 2.0, 3.0])), n=3).tolist()
    [1.0, 2.0, 3.0]
    """,
)


@composite(
    "fft_hfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
    sample_inputs=_half_samples,
    reference=_numpys("hfft"),
)
def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform, which is real, of a Hermitian signal: of its first half.

    Args: as of ``fft``. n: the number of points of the result; None stands for ``2 * (m - 1)`` where m is the length of
    the axis. Returns real values in the precision of x.

    >>> import tenkey as tk
    >>> tk.fft.hfft(tk.asarray([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if norm not in _OPPOSITE:
        raise ValueError(_NORM.format(operator="hfft", norm=norm))
    return irfft(conjugated(x), n, axis, _OPPOSITE[norm])


@composite(
    "fft_ihfft(Tensor x, int? n=None, int axis=-1, str norm='backward') -> Tensor",
    sample_inputs=_samples,
    reference=_numpys("ihfft"),
)
def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of ``hfft``: the first half of the Hermitian signal whose spectrum is x.

    Args: as of ``ifft``; x is real, TypeError if not. Returns complex values in the precision of x.

    >>> import tenkey as tk
    >>> tk.fft.ihfft(tk.asarray([4.0, 0.0, 0.0, 0.0])).tolist()
    [(1-0j), (1-0j), (1-0j)]
    """
    if norm not in _OPPOSITE:
        raise ValueError(_NORM.format(operator="ihfft", norm=norm))
    if x.dtype.kind == "c":
        raise TypeError(_REAL.format(operator="ihfft", dtype=x.dtype, other="ifft"))
    return conj(rfft(x, n, axis, _OPPOSITE[norm]))


# ---- several dimensions


def _sizes(
    operator: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[list[int | None], tuple[int, ...]]:
    if axes is None:
        ndim = x.ndim
        if s is not None and len(s) > ndim:
            raise ValueError(_SIZES.format(operator=operator, s=tuple(s), axes=f"the {ndim} of shape {x.shape}"))
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    places = normalize_axes(f"fft.{operator}", tuple(axes), x.ndim)
    if s is None:
        return [None] * len(places), places
    if len(s) != len(places):
        raise ValueError(_SIZES.format(operator=operator, s=tuple(s), axes=tuple(axes)))
    return [None if n == -1 else n for n in s], places


def _all_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal(shape),), options)
        for shape, options in (
            ((3, 4), {}),
            ((2, 3, 4), {"axes": (0, 2), "norm": "ortho"}),
            ((3, 4), {"s": (2, 5), "axes": (0, 1), "norm": "forward"}),
            ((2, 3, 2), {"s": (3, 3), "axes": (-1, 0)}),
            ((0, 2), {"axes": (1,)}),
        )
    ]


def _along(transform: Entry, x: Tensor, s: list[int | None], axes: tuple[int, ...], norm: str) -> Tensor:
    for n, axis in zip(reversed(s), reversed(axes)):
        x = transform(x, n, axis, norm)
    return x


def _start(operator: str, x: Tensor, norm: str) -> Tensor:
    """The input, complex already where there is nothing to transform."""
    if norm not in _OPPOSITE:
        raise ValueError(_NORM.format(operator=operator, norm=norm))
    return cast(x, _complex_of(operator, x))


@composite(
    "fft_fftn(Tensor x, int[]? s=None, int[]? axes=None, str norm='backward') -> Tensor",
    sample_inputs=_all_samples,
    reference=_numpys("fftn"),
)
def fftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along several axes.

    Args: x: as of ``fft``. s: the number of points for each axis, -1 for its length. axes: None for all, or the last
    ones if ``s`` is given. norm: as of ``fft``. Raises ValueError where s and axes do not fit, and as ``fft``.

    >>> import tenkey as tk
    >>> tk.fft.fftn(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    sizes, places = _sizes("fftn", x, s, axes)
    return _along(fft, x, sizes, places, norm) if places else _start("fftn", x, norm)


@composite(
    "fft_ifftn(Tensor x, int[]? s=None, int[]? axes=None, str norm='backward') -> Tensor",
    sample_inputs=_all_samples,
    reference=_numpys("ifftn"),
)
def ifftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The inverse of ``fftn``.

    Args: as of ``fftn``; norm: as of ``ifft``.

    >>> import tenkey as tk
    >>> tk.fft.ifftn(tk.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    sizes, places = _sizes("ifftn", x, s, axes)
    return _along(ifft, x, sizes, places, norm) if places else _start("ifftn", x, norm)


_NO_AXES: Final = "[fft.{operator}] got axes=(): it transforms along one axis at least."


@composite(
    "fft_rfftn(Tensor x, int[]? s=None, int[]? axes=None, str norm='backward') -> Tensor",
    sample_inputs=_all_samples,
    reference=_numpys("rfftn"),
)
def rfftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform of real values along several axes; of the last of them the first half.

    Args: as of ``fftn``; x is real, TypeError if not, and there is at least one axis.

    >>> import tenkey as tk
    >>> tk.fft.rfftn(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    sizes, places = _sizes("rfftn", x, s, axes)
    if not places:
        raise ValueError(_NO_AXES.format(operator="rfftn"))
    if x.dtype.kind == "c":
        raise TypeError(_REAL.format(operator="rfftn", dtype=x.dtype, other="fftn"))
    return _along(fft, rfft(x, sizes[-1], places[-1], norm), sizes[:-1], places[:-1], norm)


@composite(
    "fft_irfftn(Tensor x, int[]? s=None, int[]? axes=None, str norm='backward') -> Tensor",
    sample_inputs=_all_samples,
    reference=lambda x, **options: np.fft.irfftn(x, **options),
)
def irfftn(x: Tensor, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The inverse of ``rfftn``: real values.

    Args: as of ``ifftn``, with at least one axis; s: without it the last length is ``2 * (m - 1)``.

    >>> import tenkey as tk
    >>> tk.fft.irfftn(tk.fft.rfftn(tk.ones((2, 2)))).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    sizes, places = _sizes("irfftn", x, s, axes)
    if not places:
        raise ValueError(_NO_AXES.format(operator="irfftn"))
    for n, axis in zip(sizes[:-1], places[:-1]):
        x = ifft(x, n, axis, norm)
    return irfft(x, sizes[-1], places[-1], norm)


# ---- frequencies


def _freq_dtype(dtype: np.dtype | None) -> np.dtype:
    return inexact("fft.fftfreq", dtype or dtypes.default_float())


def _freq_meta(operator: str) -> Callable[..., TensorSpec]:
    def rule(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> TensorSpec:
        if n < 1:
            raise ValueError(f"[fft.{operator}] got n={n}: it must be at least 1.")
        if d == 0:
            raise ValueError(f"[fft.{operator}] got d=0: the distance of samples is another number than 0.")
        if dtype is not None and dtype.kind in "biu":
            raise TypeError(f"[fft.{operator}] got dtype={dtype}: frequencies are fractions, so name a floating dtype.")
        return TensorSpec((n if operator == "fftfreq" else n // 2 + 1,), _freq_dtype(dtype))

    return rule


fftfreq: Entry = factory(
    "fft_fftfreq(int n, float d=1.0, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_freq_meta("fftfreq"),
    numpy=lambda n, d=1.0, *, dtype=None, device=None: np.fft.fftfreq(n, d).astype(_freq_dtype(dtype)),
    doc="""The frequencies of the elements of a transform of ``n`` points, ``d`` apart: 0, 1 / (n d), ..., -1 / (n d).

    Args: n: at least 1, ValueError if not. dtype: floating, None for the default.

    >>> import tenkey as tk
    >>> tk.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """,
)

rfftfreq: Entry = factory(
    "fft_rfftfreq(int n, float d=1.0, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_freq_meta("rfftfreq"),
    numpy=lambda n, d=1.0, *, dtype=None, device=None: np.fft.rfftfreq(n, d).astype(_freq_dtype(dtype)),
    doc="""The frequencies of the elements of ``rfft`` of ``n`` points, ``d`` apart: from 0 to 1 / (2 d).

    Args: n: at least 1, ValueError if not. dtype: floating, None for the default.

    >>> import tenkey as tk
    >>> tk.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """,
)


def _rotated(operator: str, x: Tensor, axes: Any, *, back: bool) -> Tensor:
    for i in normalize_axes(operator, axes, x.ndim):
        n = x.shape[i]
        first = n // 2 if back else n - n // 2
        if 0 < first < n:
            x = concatenate([slice(x, i, first, n), slice(x, i, 0, first)], axis=i)
    return x


def _shift_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal(shape),), {"axes": axes})
        for shape, axes in (((4,), None), ((3, 5), (0, -1)), ((2, 3), 1), ((0, 3), None))
    ]


@composite(
    "fft_fftshift(Tensor x, int[1]? axes=None) -> Tensor",
    sample_inputs=_shift_samples,
    reference=_numpys("fftshift"),
)
def fftshift(x: Tensor, axes: Any = None) -> Tensor:
    """The elements rotated along axes so that the frequency zero is in the middle.

    Args: x: any dtype. axes: one or several, None for all. Raises IndexError for an axis that is not there.

    >>> import tenkey as tk
    >>> tk.fft.fftshift(tk.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    result = _rotated("fft.fftshift", x, axes, back=False)
    return result.clone() if result is x else result


@composite(
    "fft_ifftshift(Tensor x, int[1]? axes=None) -> Tensor",
    sample_inputs=_shift_samples,
    reference=_numpys("ifftshift"),
)
def ifftshift(x: Tensor, axes: Any = None) -> Tensor:
    """The inverse of ``fftshift``, which is another function for odd lengths.

    >>> import tenkey as tk
    >>> tk.fft.ifftshift(tk.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    result = _rotated("fft.ifftshift", x, axes, back=True)
    return result.clone() if result is x else result
