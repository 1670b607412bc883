"""Every built-in operator on the emulator, against the CPU: values, gradients and tangents, without any fallback.

The conformance suite compares values and gradients in more dtypes and layouts. Here a fallback to the CPU is an error,
also in the kernels of derivatives, and forward mode and the gradients of complex numbers are computed on the device.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tenkey.testing.backend.compare import agree_on_errors, close, comparable, finished, outcome, same
from tests.backends.cuda._emulated import emulated
from tests.operators._table import SAMPLED, named, probed, sampled

_SAMPLES: Final = {"float32": 3, "int64": 2, "complex64": 2}
_OPEN_ORDER: Final = ("partition", "argpartition")  # the conformance suite compares their parts


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> Iterator[None]:
    with emulated(guard=16), tk.backends.strict_fallback(), np.errstate(all="ignore"):
        yield


def _moved(sample: SampleInput, device: str, change: Callable[[Tensor], Tensor] = lambda x: x) -> SampleInput:
    """Copy the tensors of a sample to a device, and change the floating ones there."""

    def move(x: Tensor) -> Tensor:
        if x.device.type == "meta":
            return x
        there = x.detach().clone().to_device(device)
        return change(there) if there.dtype.kind in "fc" else there

    return sample.map(move)


def _along(x: Tensor) -> Tensor:
    """Return a direction, or a weight, for each element: the same on every device."""
    angles = np.arange(x.size).reshape(x.shape)
    values = np.exp(1j * angles) if x.dtype.kind == "c" else np.cos(angles)
    return tk.asarray(values.astype(x.dtype)).to_device(x.device)


def _probed(operator: Operator, sample: SampleInput) -> Tensor:
    """Call an operator; what it changes in place is a copy, which may require a gradient."""
    if operator.schema.is_mutable:
        sample = SampleInput((sample.args[0].clone(), *sample.args[1:]), sample.kwargs)
    return probed(operator, sample)


def gradients(operator: Operator, sample: SampleInput, device: str) -> list[Any]:
    leaves: list[Tensor] = []

    def leaf(x: Tensor) -> Tensor:
        leaves.append(x.requires_grad_())
        return x

    result = _probed(operator, _moved(sample, device, leaf))
    if not result.requires_grad or result.device.type == "meta":
        return []
    found = tk.autograd.grad(result, leaves, _along(result), allow_unused=True)
    assert all(g is None or g.device is x.device for g, x in zip(found, leaves, strict=True))
    return [None if g is None else g.detach().numpy() for g in found]


def tangents(operator: Operator, sample: SampleInput, device: str) -> list[Any]:
    with dual_level():
        result = _probed(operator, _moved(sample, device, lambda x: make_dual(x, _along(x))))
        tangent = unpack_dual(result)[1]
        if tangent is None or result.device.type == "meta":
            return []
        assert tangent.device is result.device
        return [tangent.detach().numpy()]


@pytest.mark.full
@named([op for op in SAMPLED if op.schema.base_name not in _OPEN_ORDER])
def test_operator(operator: Operator) -> None:
    compared = Tag.NONDETERMINISTIC not in operator.tags
    for dtype, count in _SAMPLES.items():
        for sample in itertools.islice(sampled(operator, dtype), count):
            says = f"{operator.name}, sample {sample.name!r} of {dtype}"
            theirs, ours = _moved(sample, "cpu"), _moved(sample, "cuda")
            want, refused = outcome(functools.partial(operator.call, *theirs.args, **theirs.kwargs))
            got, _ = outcome(lambda ours=ours: finished(operator.call(*ours.args, **ours.kwargs)))  # type: ignore[misc]
            agree_on_errors(got, refused, says)
            if refused is not None:
                continue
            if compared:
                same(*[comparable(operator, result, sample) for result in (got, want)], "cuda", says)
            if dtype == "int64" or "NotDifferentiable" in operator.facets:
                continue
            for function in (gradients, tangents):
                what = f"{function.__name__} of {says}"
                expected, error = outcome(functools.partial(function, operator, sample, "cpu"))
                found, _ = outcome(functools.partial(function, operator, sample, "cuda"))
                agree_on_errors(found, error, what)
                if error is not None or not compared:
                    continue
                assert [x is None for x in found] == [x is None for x in expected], what
                for mine, other in zip(found, expected, strict=True):
                    if other is not None:
                        close(mine, other, what)


@pytest.mark.full
def test_nothing_has_fallen_back() -> None:
    """Test after the others: the ledger counts calls since the start."""
    coverage = tk.backends.coverage("cuda")
    assert coverage.fallback == {}
    assert coverage.derived_with_fallbacks == []
