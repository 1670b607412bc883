"""Softmax, its logarithm, cross entropy and layer norm, whose gradients are operators as well."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.dtypes.names import float32, int64
from ...core.dtypes.promotion import result_dtype
from ...core.tensor import Tensor
from ...core.word import WEAK_MASK
from .. import scalar as s
from ..declare import Entry, Rows, Sweep, composite, internal_composite, normal, operator_of
from ..shapes import normalize_axis
from .creation import arange, full
from .elementwise.comparison import equal, where
from .elementwise.complex import conjugated, real_part
from .elementwise.exponential import exp, log, rsqrt
from .indexing.advanced_indexing import take_along_axis
from .reductions.reduction import is_half, max, mean, sum
from .shape.copying import as_dtype, cast, clone, floating
from .shape.views import along_axis, expand_dims, squeeze

_samples = normal([3, 4], ([3, 4], {"axis": 0}))
_gradient_samples = normal(([3, 4], [3, 4], -1), ([3, 4], [3, 4], 0))


@internal_composite(
    "softmax_backward(Tensor g, Tensor out, int axis) -> Tensor",
    rows=Rows(
        {"g": "row", "out": "row"},
        {"found": "row"},
        (
            Sweep(folds={"total": ("add", lambda g, out: g * out)}),
            Sweep(elements={"found": lambda g, out, total: out * (g - total)}),
        ),
    ),
    sample_inputs=_gradient_samples,
)
def softmax_backward(g: Tensor, out: Tensor, axis: int) -> Tensor:
    """Return the gradient of ``softmax`` from its result."""
    shares = conjugated(out)
    return shares * (g - sum(g * shares, axis=axis, keepdims=True))


@composite(
    "softmax(Tensor x, int axis=-1) -> Tensor",
    autocast="float32",
    vjp={"x": softmax_backward},
    jvp=lambda tangents, out, axis: out * (tangents["x"] - sum(tangents["x"] * out, axis=axis, keepdims=True)),
    rows=Rows(
        {"x": "row"},
        {"out": "row"},
        (
            Sweep(folds={"largest": ("maximum", lambda x: x)}),
            Sweep(
                elements={"out": lambda x, largest: s.exp(x - largest)},
                folds={"total": ("add", lambda out: out)},
                then={"share": lambda total: 1 / total},
            ),
            Sweep(elements={"out": lambda out, share: out * share}),
        ),
    ),
    sample_inputs=_samples,
)
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow.

    >>> tk.softmax(tk.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    axis = normalize_axis("softmax", axis, x.ndim)
    x = floating(x)  # the difference of unsigned integers would wrap around
    if not x.shape[axis]:  # there is no largest element
        return clone(x)
    powers = exp(x - max(real_part(x), axis=axis, keepdims=True))
    return powers / sum(powers, axis=axis, keepdims=True)


@internal_composite(
    "log_softmax_backward(Tensor g, Tensor out, int axis) -> Tensor",
    rows=Rows(
        {"g": "row", "out": "row"},
        {"found": "row"},
        (
            Sweep(folds={"total": ("add", lambda g: g)}),
            Sweep(elements={"found": lambda g, out, total: g - s.exp(out) * total}),
        ),
    ),
    sample_inputs=_gradient_samples,
)
def log_softmax_backward(g: Tensor, out: Tensor, axis: int) -> Tensor:
    """Return the gradient of ``log_softmax`` from its result."""
    return g - conjugated(exp(out)) * sum(g, axis=axis, keepdims=True)


@composite(
    "log_softmax(Tensor x, int axis=-1) -> Tensor",
    autocast="float32",
    vjp={"x": log_softmax_backward},
    jvp=lambda tangents, out, axis: tangents["x"] - sum(exp(out) * tangents["x"], axis=axis, keepdims=True),
    rows=Rows(
        {"x": "row"},
        {"out": "row"},
        (
            Sweep(folds={"largest": ("maximum", lambda x: x)}),
            Sweep(
                folds={"total": ("add", lambda x, largest: s.exp(x - largest))},
                then={"log_of_total": lambda total: s.log(total)},
            ),
            Sweep(elements={"out": lambda x, largest, log_of_total: (x - largest) - log_of_total}),
        ),
    ),
    sample_inputs=_samples,
)
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))``, without overflow; as there, a row with an infinite largest element gives NaN.

    >>> [f"{v:.4f}" for v in tk.log_softmax(tk.asarray([0.0, 0.0]))]
    ['-0.6931', '-0.6931']
    """
    axis = normalize_axis("log_softmax", axis, x.ndim)
    x = floating(x)
    if not x.shape[axis]:
        return clone(x)
    below = x - max(real_part(x), axis=axis, keepdims=True)  # exact where the difference decides
    return below - log(sum(exp(below), axis=axis, keepdims=True))


# ---- cross entropy


def _classes(logits: np.ndarray, target: np.ndarray) -> bool:
    if target.__class__ is not np.ndarray or not target.size:  # the values of a device are not read
        return False
    return int(target.min()) >= 0 and int(target.max()) < logits.shape[-1]


def _entropy_samples(rng: np.random.Generator) -> list[Any]:
    return [((rng.standard_normal((3, 4)), rng.integers(0, 4, (3,))), {})]


@internal_composite(
    "row_cross_entropy_backward(Tensor g, Tensor logits, Tensor target) -> Tensor",
    rows=Rows(
        {"logits": "row", "g": "each", "target": "each"},
        {"found": "row"},
        (
            Sweep(folds={"largest": ("maximum", lambda logits: logits)}),
            Sweep(
                elements={"found": lambda logits, largest: s.exp(logits - largest)},
                folds={"total": ("add", lambda found: found)},
                then={"share": lambda total, g: g / total},
            ),
            Sweep(
                elements={"found": lambda found, share, g, target: found * share - s.where(s.index(0) == target, g, 0)}
            ),
        ),
    ),
    sample_inputs=lambda rng: [((rng.standard_normal(3), *args), {}) for args, _ in _entropy_samples(rng)],
)
def row_cross_entropy_backward(g: Tensor, logits: Tensor, target: Tensor) -> Tensor:
    """Return the gradient of ``row_cross_entropy``."""
    n = logits.shape[-1]
    chosen = equal(expand_dims(target, -1), arange(n, device=logits.device))
    found = conjugated(exp(log_softmax(logits)))
    return expand_dims(g, -1) * where(chosen, found - 1.0, found)


@internal_composite(
    "row_cross_entropy(Tensor logits, Tensor target) -> Tensor",
    vjp={"logits": row_cross_entropy_backward},
    rows=Rows(
        {"logits": "row", "target": "each"},
        {"loss": "each"},
        (
            Sweep(folds={"largest": ("maximum", lambda logits: logits)}),
            Sweep(
                folds={
                    "total": ("add", lambda logits, largest: s.exp(logits - largest)),
                    "chosen": ("add", lambda logits, target: s.where(s.index(0) == target, logits, 0)),
                },
                then={"loss": lambda total, largest, chosen: s.log(total) + (largest - chosen)},
            ),
        ),
        accepts=_classes,
    ),
    sample_inputs=_entropy_samples,
)
def row_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the negative log-likelihood of each row's class."""
    target = as_dtype(target, int64)
    chosen = where(target < 0, logits.shape[-1], target)  # a negative index would count from the end
    return -squeeze(take_along_axis(log_softmax(logits, axis=-1), expand_dims(chosen, -1), axis=-1), -1)


@composite("cross_entropy(Tensor logits, Tensor target) -> Tensor", autocast="float32", sample_inputs=_entropy_samples)
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
        return mean(row_cross_entropy(logits, target))
    except IndexError:
        raise IndexError(
            f"[cross_entropy] the target holds a class that is not in [0, {logits.shape[-1]}), the columns of logits "
            f"of shape {logits.shape}: leave out rows without a class, as in logits[target >= 0]."
        ) from None


# ---- layer norm

_NORMALIZED: Final = (
    Sweep(folds={"total": ("add", lambda x: x)}, then={"mean": lambda total, count: total / count}),
    Sweep(
        folds={"squares": ("add", lambda x, mean: s.square(x - mean))},
        then={"scale": lambda squares, count, eps: 1 / s.sqrt(squares / count + eps)},
    ),
)
_NORM: Final = "Tensor x, Tensor? weight=None, Tensor? bias=None, *, int axis=-1, float eps=1e-05"


def _normalized(x: Tensor, axis: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return the normalized elements, and the factor by which their deviations were scaled; of halves in float32."""
    if is_half(x.dtype):  # the square of 256 is beyond float16
        x = cast(x, float32)
    deviations = x - mean(x, axis=axis, keepdims=True)
    scale = rsqrt(mean(deviations * deviations, axis=axis, keepdims=True) + eps)
    return deviations * scale, scale


def _rounded(result: Tensor, *operands: Tensor | None) -> Tensor:
    """Return the result for halves, which was computed in float32, in the dtype of its operands."""
    found = result_dtype([x.dtype for x in operands if x is not None])
    return cast(result, found) if is_half(found) else result


def _others(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple([i for i in range(ndim) if i != axis % ndim])


_SLOPES: Final = Sweep(
    folds={
        "total": ("add", lambda g, weight: g * weight),
        "product": ("add", lambda g, weight, x, mean: g * weight * (x - mean)),
    },
    then={
        "shift": lambda total, count: total / count,
        "tilt": lambda product, count, scale: scale * scale * product / count,
    },
)


def _slope(x: Any, g: Any, weight: Any, mean: Any, scale: Any, shift: Any, tilt: Any) -> Any:
    return scale * (g * weight - shift - (x - mean) * tilt)


@internal_composite(
    "layer_norm_backward(Tensor g, Tensor x, Tensor? weight, int axis, float eps) -> Tensor",
    rows=Rows(
        {"x": "row", "g": "row", "weight": "column"},
        {"found": "row"},
        (*_NORMALIZED, _SLOPES, Sweep(elements={"found": _slope})),
        ("eps",),
        {"weight": 1.0},
    ),
    sample_inputs=normal(([3, 4], [3, 4], [4], -1, 1e-5), ([3, 4], [3, 4], [3], 0, 0.1)),
)
def layer_norm_backward(g: Tensor, x: Tensor, weight: Tensor | None, axis: int, eps: float) -> Tensor:
    """Return the gradient of ``layer_norm`` by the elements."""
    normalized, scale = _normalized(x, axis, eps)
    inner = g if weight is None else g * along_axis(weight, axis, x.ndim)
    shift = mean(inner, axis=axis, keepdims=True)
    tilt = mean(inner * normalized, axis=axis, keepdims=True)
    return _rounded(scale * (inner - shift - normalized * tilt), g, x, weight)


@internal_composite(
    "layer_norm_weight_backward(Tensor g, Tensor x, int axis, float eps) -> Tensor",
    rows=Rows(
        {"x": "row", "g": "row"},
        {"found": "column"},
        (*_NORMALIZED, Sweep(columns={"found": lambda g, x, mean, scale: g * ((x - mean) * scale)})),
        ("eps",),
    ),
    sample_inputs=normal(([3, 4], [3, 4], -1, 1e-5), ([3, 4], [3, 4], 0, 0.1)),
)
def layer_norm_weight_backward(g: Tensor, x: Tensor, axis: int, eps: float) -> Tensor:
    """Return the gradient of ``layer_norm`` by its weight."""
    return _rounded(sum(g * _normalized(x, axis, eps)[0], axis=_others(x.ndim, axis)), g, x)


def _bias_gradient(g: Tensor, axis: int) -> Tensor:
    return sum(g, axis=_others(g.ndim, axis))


@internal_composite(
    "layer_norm_all_backward(Tensor g, Tensor x, Tensor weight, int axis, float eps) -> (Tensor, Tensor, Tensor)",
    rows=Rows(
        {"x": "row", "g": "row", "weight": "column"},
        {"by_x": "row", "by_weight": "column", "by_bias": "column"},
        (
            *_NORMALIZED,
            _SLOPES,
            Sweep(
                elements={"by_x": _slope},
                columns={"by_weight": lambda g, x, mean, scale: g * ((x - mean) * scale), "by_bias": lambda g: g},
            ),
        ),
        ("eps",),
    ),
    sample_inputs=normal(([3, 4], [3, 4], [4], -1, 1e-5), ([3, 4], [3, 4], [3], 0, 0.1)),
)
def layer_norm_all_backward(
    g: Tensor, x: Tensor, weight: Tensor, axis: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of ``layer_norm`` by the elements, the weight and the bias, which one pass computes."""
    by_x = layer_norm_backward(g, x, weight, axis, eps)
    return by_x, layer_norm_weight_backward(g, x, axis, eps), _bias_gradient(floating(g), axis)


@composite(
    f"layer_norm({_NORM}) -> Tensor",
    autocast="float32",
    vjp={
        "x": lambda g, x, weight, axis, eps: layer_norm_backward(g, x, weight, axis, eps),
        "weight": lambda g, x, axis, eps: layer_norm_weight_backward(g, x, axis, eps),
        "bias": _bias_gradient,
    },
    joint_vjp=lambda g, x, weight, axis, eps: layer_norm_all_backward(g, x, weight, axis, eps),
    rows=Rows(
        {"x": "row", "weight": "column", "bias": "column"},
        {"out": "row"},
        (
            *_NORMALIZED,
            Sweep(elements={"out": lambda x, mean, scale, weight, bias: (x - mean) * scale * weight + bias}),
        ),
        ("eps",),
        {"weight": 1.0, "bias": 0.0},
    ),
    sample_inputs=normal([3, 4], ([3, 4], [4], [4]), ([3, 4], [3], [3], {"axis": 0, "eps": 0.1})),
)
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, axis: int = -1, eps: float = 1e-5
) -> Tensor:
    """Subtract the mean along an axis, divide by the standard deviation, multiply by ``weight`` and add ``bias``.

    Args: weight, bias: vectors as long as the axis. eps: added to the variance. Raises ValueError for other shapes,
    TypeError for integers. Halves are computed in float32.

    >>> tk.layer_norm(tk.asarray([1.0, 3.0]), eps=0.0).tolist()
    [-1.0, 1.0]
    """
    i = normalize_axis("layer_norm", axis, x.ndim)
    if x.dtype.kind not in "fV":
        raise TypeError(f"[layer_norm] got x of dtype {x.dtype}: it takes real floating dtypes.")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (x.shape[i],):
            raise ValueError(
                f"[layer_norm] {name} of shape {given.shape} must be a vector of {x.shape[i]} elements, the length of "
                f"axis {axis} of x, whose shape is {x.shape}."
            )
    out, _ = _normalized(x, i, eps)
    if weight is not None:
        out = out * along_axis(weight, i, x.ndim)
    if bias is not None:
        out = out + along_axis(bias, i, x.ndim)
    return _rounded(out, x, weight, bias)


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


special_softmax, special_log_softmax = map(_scipys, (softmax, log_softmax))
