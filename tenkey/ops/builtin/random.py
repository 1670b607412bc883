"""Random numbers, addressed by element: a key and a start decide every number (``tenkey.random`` keeps the state)."""

from __future__ import annotations

from typing import Any

from ...core import dtypes
from ..declare import TensorSpec, factory

_DOC = "{what}, from the 128-bit key (seed, stream), beginning with element ``start`` of its sequence."


def _float_meta(shape: Any, seed: int, stream: int, start: int, *, dtype: Any = None, **rest: Any) -> TensorSpec:
    return TensorSpec(tuple(shape), dtype or dtypes.default_float())


random_uniform = factory(
    "random_uniform(int[1] shape, int seed, int stream, int start, *, float low=0.0, float high=1.0,"
    " DType? dtype=None, Device? device=None) -> Tensor",
    meta=_float_meta,
    tags=("internal",),
    doc=_DOC.format(what="Uniform numbers in [low, high)"),
)
random_normal = factory(
    "random_normal(int[1] shape, int seed, int stream, int start, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_float_meta,
    tags=("internal",),
    doc=_DOC.format(what="Standard normal numbers"),
)
random_integers = factory(
    "random_integers(int[1] shape, int seed, int stream, int start, *, int low, int high, DType? dtype=None,"
    " Device? device=None) -> Tensor",
    meta=lambda shape, seed, stream, start, *, low, high, dtype=None, device=None: TensorSpec(
        tuple(shape), dtype or dtypes.int64
    ),
    tags=("internal",),
    doc=_DOC.format(what="Integers in [low, high)"),
)
random_permutation = factory(
    "random_permutation(int n, int seed, int stream, int start, *, Device? device=None) -> Tensor",
    meta=lambda n, seed, stream, start, *, device=None: TensorSpec((n,), dtypes.int64),
    tags=("internal",),
    doc=_DOC.format(what="The numbers 0 to n - 1 in random order"),
)
