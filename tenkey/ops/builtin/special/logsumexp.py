"""``logsumexp`` and the softmax functions under SciPy's names: ``tk.special``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.tensor import Tensor
from ...declare import composite
from ..nn import log_softmax, softmax
from ..reductions.reduction import logsumexp


def _samples(rng: np.random.Generator) -> Any:
    return [((rng.standard_normal((3, 4)),), {"axis": axis}) for axis in (0, -1)]


@composite(
    "special_logsumexp(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=lambda rng: [*_samples(rng), ((rng.standard_normal((3, 4)),), {"keepdims": True})],
)
def special_logsumexp(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along axes, without overflow: ``tk.logsumexp``.

    >>> import tenkey as tk
    >>> f"{tk.special.logsumexp(tk.asarray([1000.0, 1000.0])):.3f}"
    '1000.693'
    """
    return logsumexp(x, axis=axis, keepdims=keepdims)


@composite("special_softmax(Tensor x, int axis=-1) -> Tensor", sample_inputs=_samples)
def special_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along one axis: ``tk.softmax``.

    >>> import tenkey as tk
    >>> tk.special.softmax(tk.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return softmax(x, axis)


@composite("special_log_softmax(Tensor x, int axis=-1) -> Tensor", sample_inputs=_samples)
def special_log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))`` along one axis: ``tk.log_softmax``.

    >>> import tenkey as tk
    >>> [f"{v:.4f}" for v in tk.special.log_softmax(tk.asarray([0.0, 0.0]))]
    ['-0.6931', '-0.6931']
    """
    return log_softmax(x, axis)
