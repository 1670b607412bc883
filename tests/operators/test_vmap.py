"""Every operator in vmap against a Python loop over the samples, along every dimension and choice of arguments."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.core.tree import flatten
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tenkey.transforms import vmap
from tests._tiers import each, is_full
from tests.operators._table import SAMPLED, chosen, named

SIZE = 3


def _batch(x: Tensor, dim: int, scaled: bool = False) -> Tensor:
    """Three samples with the elements of ``x`` in other places, or multiplied, along a dimension of their own."""
    values = x.detach().numpy()
    if scaled:
        return tk.asarray(np.moveaxis(np.stack([values, values * 2, values * 3]), 0, dim))
    flat = values.reshape(-1)
    samples = [values, flat[::-1].reshape(values.shape), np.roll(flat, 1).reshape(values.shape)]
    return tk.asarray(np.moveaxis(np.stack(samples), 0, dim))


def _variants(sample: SampleInput) -> Iterator[list[int | None]]:
    """Which tensors of a call are batched, and along which dimension."""
    tensors = sample.tensors()
    for choice in itertools.product((True, False), repeat=len(tensors)):
        if any(choice):
            yield [0 if one else None for one in choice]
    yield [t.ndim for t in tensors]
    yield [min(1, t.ndim) for t in tensors]


_UNCHECKED = {  # sized by values: samples whose results differ in shape are no batch; or of permutations alone
    "invert_order", "repeat", "repeat_indices", "unique_all", "unique_counts", "unique_inverse",
    "unique_parts", "unique_values", "bincount", "argwhere", "flatnonzero", "union1d", "intersect1d", "setdiff1d",
    "setxor1d",
}  # fmt: skip


_SCALED = {"linalg_cholesky"}  # takes positive definite matrices, which they are no longer with their elements moved


def _check(operator: Operator, sample: SampleInput, dims: list[int | None]) -> None:
    tensors = sample.tensors()
    masks = [t.dtype.kind == "b" for t in tensors]
    scaled = operator.schema.base_name in _SCALED
    inputs = [t if dim is None else _batch(t, dim, scaled) for t, dim in zip(tensors, dims, strict=True)]

    def call(*given: Tensor) -> Any:
        own = list(given)
        if operator.schema.is_mutable:
            own[0] = own[0].clone()
        remaining = iter(own)
        made = sample.map(lambda t: next(remaining))
        return operator.call(*made.args, **made.kwargs)

    def one(b: int) -> Any:
        return call(
            *[x if dim is None else tk.ops.tk.select_index(x, dim, b) for x, dim in zip(inputs, dims, strict=True)]
        )

    if operator.schema.is_mutable and dims[0] is None:
        with pytest.raises(RuntimeError, match="inplace"):
            vmap(call, in_dims=tuple(dims))(*inputs)
        return
    if any(mask and dim is not None for mask, dim in zip(masks, dims)) and operator.schema.base_name == "index":
        return
    if operator.schema.base_name in _UNCHECKED:
        return
    if Tag.DATA_DEPENDENT_OUTPUT in operator.tags:
        try:
            vmap(call, in_dims=tuple(dims))(*inputs)
        except RuntimeError as error:
            if "shape" not in str(error):
                raise
            return
    found, wanted = flatten(vmap(call, in_dims=tuple(dims))(*inputs)), [flatten(one(b)) for b in range(SIZE)]
    for result, expected in zip(found, [np.stack([t.numpy() for t in parts]) for parts in zip(*wanted)], strict=True):
        _compare(operator, sample, dims, result, expected)


def _compare(operator: Operator, sample: SampleInput, dims: list[int | None], result: Tensor, expected: Any) -> None:
    assert result.dtype == expected.dtype, (operator, dims, sample)
    assert result.shape == expected.shape, (operator, dims, sample)
    if Tag.NONDETERMINISTIC in operator.tags:
        return
    tolerance = 1e-12 if expected.dtype.itemsize > 4 else 2e-5
    np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance, err_msg=f"{dims} {sample}")


@pytest.mark.wider
@each("dtype", ["float64", "complex128", "int64"])
@named([op for op in SAMPLED if op.schema.base_name != "to_device"])  # its sample goes where there are no values
def test_every_operator_against_a_loop(operator: Operator, dtype: str) -> None:
    for number, sample in enumerate(chosen(operator, dtype, None if dtype == "float64" else 0)):
        variants = list(_variants(sample))
        # without --full every choice of arguments for three samples, of the others all at once
        for dims in variants if is_full() or (dtype == "float64" and number < 3) else variants[:: len(variants) - 1]:
            _check(operator, sample, dims)
