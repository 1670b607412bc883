"""The table that drives the tests of operators: the built-in ones and their sample inputs."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput, samples
from tests._tiers import is_full

__all__ = [
    "DTYPES", "FACTORIES", "FLOATING", "INPLACE", "KINDS", "OPERATORS", "SAMPLED", "arrays", "calls", "chosen",
    "is_probed", "named", "probed", "results", "sampled",
]  # fmt: skip

OPERATORS: Final[list[Operator]] = [op for op in registry if op.schema.namespace == "tk" and Tag.DERIVED not in op.tags]
"""Every built-in operator; those that autograd derives for gradients are tested through the gradients."""
FACTORIES: Final = [op for op in OPERATORS if not any(a.type.is_tensor_like for a in op.schema.arguments)]
SAMPLED: Final = [op for op in OPERATORS if op not in FACTORIES]
INPLACE: Final = [op for op in OPERATORS if op.schema.is_mutable and "NotDifferentiable" not in op.facets]
"""The others are steps of decompositions, which run without recording: tests/ops/test_primitives.py."""
FLOATING: Final = ("float32", "float64")
DTYPES: Final = (*FLOATING, "int8", "int64", "uint8", "bool", "complex64", "complex128")
_LAYOUTS: Final = ("transposed", "strided", "repeated")  # samples with the values of another sample


def _one_of_each_kind() -> list[Operator]:
    """The first operator of each set of facets: of each way to derive kernels, shapes, gradients and batching."""
    found: dict[frozenset[str], Operator] = {}
    for operator in SAMPLED:
        found.setdefault(frozenset(operator.facets) - {"Autocast", "Methods", "Reference"}, operator)
    return list(found.values())


KINDS: Final = _one_of_each_kind()


def named(operators: list[Operator], fast: Sequence[Operator] | None = None) -> pytest.MarkDecorator:
    """A parametrisation over operators, each test named after its operator; those not in ``fast`` are ``full``."""
    cases = [
        pytest.param(op, id=op.schema.base_name, marks=() if fast is None or op in fast else pytest.mark.full)
        for op in operators
    ]
    return pytest.mark.parametrize("operator", cases)


def sampled(operator: Operator, dtype: str) -> Iterator[SampleInput]:
    """The samples of an operator; the same in every process and whichever tests run."""
    seed = zlib.crc32(f"{operator.name} {dtype}".encode())
    return samples(operator, np.random.default_rng(seed), dtype)


def chosen(operator: Operator, dtype: str, half: int | None = None) -> Iterator[SampleInput]:
    """The samples for a sweep that computes much: without ``--full`` other layouts for one operator of each kind.

    ``half``: without ``--full`` of the other operators each second sample, from this one on.
    """
    for number, sample in enumerate(sampled(operator, dtype)):
        if is_full() or operator in KINDS or (sample.name not in _LAYOUTS and half in (None, number % 2)):
            yield sample


def calls(operator: Operator, sample: SampleInput) -> Tensor:
    """The result of a sample's call."""
    result: Tensor = operator.call(*sample.args, **sample.kwargs)
    return result


def results(operator: Operator, sample: SampleInput) -> list[Tensor]:
    """The results of a sample's call, of operators that have several."""
    found = operator.call(*sample.args, **sample.kwargs)
    return [found] if isinstance(found, Tensor) else list(found)


def probed(operator: Operator, sample: SampleInput) -> Tensor:
    """What has a derivative of a sample's call, as one tensor: see ``probe`` of ``structured``."""
    facet = operator.facets.get("SampleInputs")
    call = (
        operator.call
        if facet is None or facet.gradcheck_wrapper is None
        else functools.partial(facet.gradcheck_wrapper, operator.call)
    )
    found = call(*sample.args, **sample.kwargs)
    if isinstance(found, Tensor):
        return found
    parts = [tk.reshape(t, (-1,)) for t in found if t.dtype.kind in "fc"]
    if not parts:
        return found[0]  # type: ignore[no-any-return]  # integers alone: nothing flows
    joined: Tensor = tk.concat([tk.astype(t, tk.result_type(*parts), copy=False) for t in parts])
    return joined


def is_probed(operator: Operator) -> bool:
    """Whether an operator has several results, or derivatives of its probe alone."""
    facet = operator.facets.get("SampleInputs")
    return len(operator.schema.returns) > 1 or (facet is not None and facet.gradcheck_wrapper is not None)


def arrays(sample: SampleInput, wide: bool = False) -> SampleInput:
    """The call with copies of the values as NumPy arrays; ``wide``: floats in double precision."""

    def copy(tensor: Tensor) -> np.ndarray[Any, Any]:
        values = np.array(tensor.detach().numpy())
        if not wide or values.dtype.kind not in "fc":
            return values
        return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)

    return sample.map(copy)
