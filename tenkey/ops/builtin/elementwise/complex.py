"""Complex conjugate, real and imaginary part, and small helpers for complex tensors."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import complex_of, real_of
from ....core.tensor import Tensor
from ...declare import Decomposition, Entry, TensorSpec, linear, normal, prepend, same_dim, structured
from ..creation import zeros_like


def _part_meta(x: Tensor) -> TensorSpec:
    return TensorSpec(x.shape, real_of(x.dtype) if x.dtype.kind == "c" else x.dtype)


def _complex_meta(real: Tensor, imag: Tensor) -> TensorSpec:
    if real.dtype.kind != "f" or imag.dtype != real.dtype:
        raise TypeError(
            f"[complex_from] got real part {real.dtype} and imaginary part {imag.dtype}: both must have one floating "
            "dtype. Convert with tk.astype(x, dtype)."
        )
    if real.shape != imag.shape:
        raise ValueError(
            f"[complex_from] got real part {real.shape} and imaginary part {imag.shape}: the shapes must be equal. "
            "Use tk.broadcast_to."
        )
    return TensorSpec(real.shape, complex_of(real.dtype))


def _complex_samples(rng: np.random.Generator) -> Any:
    return [((rng.standard_normal((3,)) + 1j * rng.standard_normal((3,)),), {})]


_of_elements: Final = partial(structured, jvp=linear("x"), sample_inputs=_complex_samples, batch=same_dim)

conj: Entry = _of_elements(
    "conj(Tensor x) -> Tensor",
    decomposition=Decomposition(lambda x: complex_from(real(x), -imag(x)) if x.dtype.kind == "c" else real(x)),
    meta=lambda x: TensorSpec(x.shape, x.dtype),
    vjp={"x": lambda g: conj(g)},
    methods=("conj",),
    doc="""Return the complex conjugate; a real tensor is copied.

    >>> tk.conj(tk.asarray([1 + 2j])).tolist()
    [(1-2j)]
    """,
)

real: Entry = _of_elements(
    "real(Tensor x) -> Tensor",
    meta=_part_meta,
    vjp={"x": lambda g, x_meta: complex_from(g, zeros_like(g)) if x_meta.dtype.kind == "c" else g},
    doc="""Return the real part, a real tensor.

    >>> tk.real(tk.asarray([1 + 2j])).tolist()
    [1.0]
    """,
)

imag: Entry = _of_elements(
    "imag(Tensor x) -> Tensor",
    meta=_part_meta,
    vjp={"x": lambda g, x_meta: complex_from(zeros_like(g), g) if x_meta.dtype.kind == "c" else zeros_like(g)},
    doc="""Return the imaginary part, a real tensor; zeros for a real one.

    >>> tk.imag(tk.asarray([1 + 2j])).tolist()
    [2.0]
    """,
)

complex_from: Entry = structured(
    "complex_from(Tensor real, Tensor imag) -> Tensor",
    meta=_complex_meta,
    vjp={"real": lambda g: real(g), "imag": lambda g: imag(g)},
    jvp=linear(("real", "imag")),
    sample_inputs=normal(([3], [3])),
    batch=prepend(),
)


def conjugated(x: Tensor) -> Tensor:
    """Return ``conj(x)``, or ``x`` itself if it is real."""
    return conj(x) if x.dtype.kind == "c" else x


def real_part(x: Tensor) -> Tensor:
    """Return ``real(x)``, or ``x`` itself if it is real."""
    return real(x) if x.dtype.kind == "c" else x


def squared_size(x: Tensor) -> Tensor:
    """Return the squares of the absolute values, a real tensor."""
    if x.dtype.kind != "c":
        return x * x
    a, b = real(x), imag(x)
    return a * a + b * b


def like_operand(g: Tensor, meta: Any) -> Tensor:
    """Return the gradient of an operand from that of a complex result: real for a real operand."""
    return real(g) if g.dtype.kind == "c" and meta.dtype.kind != "c" else g


def refuse_complex(operator: str, dtype: np.dtype) -> None:
    """Raise TypeError for complex numbers, which have no order."""
    if dtype.kind == "c":
        raise TypeError(
            f"[{operator}] is not defined for dtype {dtype}: complex numbers have no order. Consider tk.real(x)."
        )
