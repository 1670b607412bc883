"""Rows of ``benchmarks.autograd`` that compare function transforms with ``torch.func``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import tenkey as tk

__all__ = ["TRANSFORMS", "transform_names"]

TRANSFORMS: Final[Mapping[str, str]] = {
    "jvp of sum(sin(x) * x), 4 elements": "jvp(wave, (x,), (v,))",
    "jvp of a network of two layers": "jvp(network_at, (row,), (direction,))",
    "hessian of sum(sin(x) * x), 4 elements": "hessian(wave)(x)",
    "hessian of logsumexp, 4 elements": "hessian(peak)(x)",
    "hessian of a network, 8 inputs": "hessian(network_at)(row)",
    "gradient of each of 16 samples, one layer": "vmap(grad(loss), in_dims=(None, 0, 0))(w, rows, targets)",
    "gradient of each of 32 samples, network": "vmap(grad(network), in_dims=(None, 0, 0))(weights, batch, labels)",
    "grad of sum(sin(x) * x)": "grad(wave)(x)",
    "vmap of sum(sin(x) * x), 16 samples": "vmap(wave)(rows)",
    "jacrev of sin(x) * x": "jacrev(product)(x)",
    "jacfwd of sin(x) * x": "jacfwd(product)(x)",
}
"""Map the name of a row to the statement that both libraries run."""


def transform_names(library: Any) -> dict[str, object]:
    """Bind the names of the statements to the functions and tensors of a library."""
    ours = library is tk
    transforms = library.transforms if ours else importlib.import_module("torch.func")
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return library.tensor(rng.standard_normal(shape).astype(np.float32))

    def wave(x: Any) -> Any:
        return (library.sin(x) * x).sum()

    def network(weights: Any, x: Any, y: Any) -> Any:
        hidden = library.tanh(x @ weights["first"] + weights["shift"])
        return ((hidden @ weights["last"] - y) ** 2).mean()

    weights = {"first": normal(8, 16), "shift": normal(16), "last": normal(16, 1)}
    batch, labels = normal(32, 8), normal(32, 1)
    names: dict[str, object] = {
        name: getattr(transforms, name) for name in ("grad", "hessian", "jacfwd", "jacrev", "jvp", "vmap")
    }
    return names | {
        "wave": wave,
        "network": network,
        "product": lambda x: library.sin(x) * x,
        "peak": lambda x: library.logsumexp(x, 0),
        "loss": lambda w, x, y: ((library.tanh(x @ w) - y) ** 2).sum(),
        "network_at": lambda x: network(weights, x, labels[0]),
        "x": normal(4), "v": normal(4), "w": normal(4, 3), "rows": normal(16, 4), "targets": normal(16, 3),
        "row": batch[0], "direction": batch[1], "weights": weights, "batch": batch, "labels": labels,
    }  # fmt: skip
