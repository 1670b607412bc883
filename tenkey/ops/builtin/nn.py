"""Softmax, its logarithm, and cross entropy."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...core.word import WEAK_MASK
from ..declare import Entry, composite, normal, operator_of
from ..shapes import normalize_axis
from .creation import full
from .elementwise.complex import conjugated, real_part
from .elementwise.exponential import exp
from .indexing.advanced_indexing import take_along_axis
from .reductions.reduction import logsumexp, max, mean, sum
from .shape.copying import floating
from .shape.views import expand_dims, squeeze

_samples = normal([3, 4], ([3, 4], {"axis": 0}))


def _softmax_vjp(g: Tensor, out: Tensor, axis: int) -> Tensor:
    shares = conjugated(out)
    return shares * (g - sum(g * shares, axis=axis, keepdims=True))


@composite(
    "softmax(Tensor x, int axis=-1) -> Tensor",
    vjp={"x": _softmax_vjp},
    jvp=lambda tangents, out, axis: out * (tangents["x"] - sum(tangents["x"] * out, axis=axis, keepdims=True)),
    sample_inputs=_samples,
)
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow.

    >>> tk.softmax(tk.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    axis = normalize_axis("softmax", axis, x.ndim)
    x = floating(x)  # the difference of unsigned integers would wrap around
    powers = exp(x - max(real_part(x), axis=axis, keepdims=True))
    return powers / sum(powers, axis=axis, keepdims=True)


@composite(
    "log_softmax(Tensor x, int axis=-1) -> Tensor",
    vjp={"x": lambda g, out, axis: g - conjugated(exp(out)) * sum(g, axis=axis, keepdims=True)},
    jvp=lambda tangents, out, axis: tangents["x"] - sum(exp(out) * tangents["x"], axis=axis, keepdims=True),
    sample_inputs=_samples,
)
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))``, without overflow.

    >>> [f"{v:.4f}" for v in tk.log_softmax(tk.asarray([0.0, 0.0]))]
    ['-0.6931', '-0.6931']
    """
    axis = normalize_axis("log_softmax", axis, x.ndim)
    return x - logsumexp(x, axis=axis, keepdims=True)


@composite(
    "cross_entropy(Tensor logits, Tensor target) -> Tensor",
    sample_inputs=lambda rng: [((rng.standard_normal((3, 4)), rng.integers(0, 4, (3,))), {})],
)
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of integer classes, a 0-d tensor.

    Args: logits: shape (rows, classes), floating; target: shape (rows,), integers in [0, classes). Raises ValueError
    for other shapes and dtypes, IndexError for a class that is out of range.

    >>> f"{tk.cross_entropy(tk.asarray([[0.0, 0.0]]), tk.asarray([1])):.4f}"
    '0.6931'
    """
    if target._word & WEAK_MASK and target.dtype.kind == "i":  # a Python int: the class of a single row
        target = full((), target.item(), device=logits.device)
    if logits.ndim < 1 or target.shape != logits.shape[:-1] or target.dtype.kind not in "iu":
        raise ValueError(
            f"[cross_entropy] got logits of shape {logits.shape} and target of shape {target.shape}, "
            f"dtype {target.dtype}: the target holds one integer class for each row of the logits, "
            f"shape {logits.shape[:-1]}."
        )
    try:
        chosen = take_along_axis(log_softmax(logits, axis=-1), expand_dims(target, -1), axis=-1)
    except IndexError as error:
        raise IndexError(
            f"[cross_entropy] the target holds a class that is not in [0, {logits.shape[-1]}): {error}"
        ) from None
    return -mean(squeeze(chosen, -1))


# ---- names in ``tk.special``, which are SciPy's


def _scipys(function: Entry) -> Entry:
    operator = operator_of(function)
    name = operator.schema.base_name
    doc = (operator.doc or "").replace(f"tk.{name}(", f"tk.special.{name}(")
    return composite(
        str(operator.schema).replace("tk::", "tk::special_", 1),
        sample_inputs=operator.facets["SampleInputs"].make,
        doc=doc.replace("\n\n", f"\n\n    It is SciPy's name for ``tk.{name}``.\n\n", 1),
    )(function)


special_softmax, special_log_softmax, special_logsumexp = map(_scipys, (softmax, log_softmax, logsumexp))
