"""A short form of ``sample_inputs=`` for the most common samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["normal"]


def normal(*cases: Any) -> Callable[[np.random.Generator], list[Any]]:
    """Return ``sample_inputs`` in which each list stands for an array of that shape of standard normal numbers.

    A case is such a list, or a tuple of arguments, which ends with a dict if there are keyword arguments:
    ``normal([2, 3], ([4], 1), ([2, 3], [3], {"axis": 0}))``.
    """

    def sample_inputs(rng: np.random.Generator) -> list[Any]:
        samples = []
        for case in cases:
            args = case if isinstance(case, tuple) else (case,)
            args, options = (args[:-1], args[-1]) if isinstance(args[-1], dict) else (args, {})
            samples.append((_filled(rng, args), _filled(rng, options)))
        return samples

    return sample_inputs


def _filled(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_filled(rng, one) for one in value])
    if isinstance(value, dict):
        return {name: _filled(rng, one) for name, one in value.items()}
    return rng.standard_normal(value) if isinstance(value, list) else value
