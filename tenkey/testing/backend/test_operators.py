"""Every operator and its gradient on sample inputs, in every layout, compared with the CPU."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator
from operator import add
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tenkey.dispatch.errors import ArgumentError
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput, samples
from tenkey.testing.backend.compare import Placed, agree_on_errors, close, comparable, finished, outcome, place, same
from tenkey.testing.backend.extremes import extreme_samples
from tenkey.testing.backend.plugin import Subject

from ...dispatch.tags import Tag

DTYPES = ("float32", "float64", "int64", "uint8", "bool", "complex64")
DERIVATIVE_DTYPES = ("float32",)
PARTITIONS = ("tk::partition", "tk::argpartition")
CANCELS = ("tk::special_beta", "tk::special_betaln")  # differences of large numbers, of which no digit may be right
# The logarithm that is added to the larger operand is rounded to units in its last place, and the sum may be near 0.
LARGER_OPERAND_IS_A_TERM = ("tk::logaddexp", "tk::logaddexp2")


@functools.cache
def has_samples(operator: Operator) -> bool:
    """Return whether the declaration provides sample inputs."""
    if not any(a.type.is_tensor_like for a in operator.schema.arguments):
        return False
    try:
        next(iter(samples(operator, np.random.default_rng(0), "float32")), None)
    except ArgumentError:
        return False
    return True


def sampled() -> list[Operator]:
    """Return the operators with sample inputs in an order that is the same in every process."""
    return [operator for operator in sorted(registry, key=lambda operator: operator.name) if has_samples(operator)]


def in_parts(operator: Operator, sample: SampleInput, result: Tensor) -> Tensor:
    """Sort the two parts of a partition, whose order is left open, on the CPU."""
    given: dict[str, Any] = {a.name: a.default for a in operator.schema.arguments if a.has_default}
    given |= zip([a.name for a in operator.schema.arguments], sample.args, strict=False)
    given |= sample.kwargs
    axis, values = given["axis"], np.asarray(result.detach().numpy())
    if operator.name == "tk::argpartition":
        values = np.take_along_axis(given["x"].numpy(), values, axis)
    n = values.shape[axis]
    kth = given["kth"] % n if n else 0
    low, middle, high = np.split(values, [kth, kth + 1], axis) if n else (values, values, values)
    return tk.asarray(np.concatenate([np.sort(low, axis), middle, np.sort(high, axis)], axis))


def cases() -> list[Any]:
    """Return operators and dtypes."""
    return [
        pytest.param(operator, dtype, id=f"{operator.name}-{dtype}")
        for operator in sampled()
        for dtype in (DERIVATIVE_DTYPES if Tag.DERIVED in operator.tags else DTYPES)
    ]


def inputs(operator: Operator, dtype: str) -> Iterator[SampleInput]:
    """Yield the samples, which are the same in every process."""
    yield from samples(operator, np.random.default_rng(zlib.crc32(f"{operator.name} {dtype}".encode())), dtype)
    if operator.name not in CANCELS and Tag.DERIVED not in operator.tags:
        yield from extreme_samples(operator, dtype)


@pytest.mark.parametrize(("operator", "dtype"), cases())
def test_operator(operator: Operator, dtype: str, subject: Subject, float64: bool, record_property: Any) -> None:
    record_property("operator", operator.name)
    if dtype == "float64" and not float64:
        pytest.skip("the device does not compute in double precision")
    relative = "Pointwise" in operator.facets and operator.name not in CANCELS
    for sample in inputs(operator, dtype):
        placed: list[Placed] = []
        says = f"{operator.name}, sample {sample.name!r} of {dtype}"

        def put(x: Tensor, placed: list[Placed] = placed, sample: SampleInput = sample) -> Tensor:
            if x.device.type != "cpu":
                return x
            placed.append(place(x, subject.name))
            return placed[-1].tensor if sample.name != "contiguous" else x.to_device(subject.name)

        ours = sample.map(put)
        reference = sample.map(lambda x: x.clone() if x.device.type == "cpu" else x)
        want, refused = outcome(lambda reference=reference: operator.call(*reference.args, **reference.kwargs))  # type: ignore[misc]
        got, _ = outcome(lambda ours=ours: finished(operator.call(*ours.args, **ours.kwargs)))  # type: ignore[misc]
        agree_on_errors(got, refused, says)
        if operator.name in PARTITIONS and refused is None:
            assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, tk.device(subject.name)), says
            same(in_parts(operator, sample, got), in_parts(operator, sample, want), "cpu", f"{says}, parts in order")
        elif refused is None and Tag.NONDETERMINISTIC not in operator.tags:
            operands = [x.detach().numpy() for x in sample.tensors()] if relative else []
            term = functools.reduce(np.maximum, operands) if operator.name in LARGER_OPERAND_IS_A_TERM else 0
            got, want = [comparable(operator, result, sample) for result in (got, want)]
            same(got, want, subject.name, says, absolute=not relative, zeros=relative, operands=operands, term=term)
        for mine, other in zip(ours.tensors(), reference.tensors(), strict=True):
            close(mine.detach().numpy(), other.detach().numpy(), f"{says}: an argument")
        assert all(one.untouched() for one in placed), f"{says}: memory around an argument was written"
        if operator.schema.is_mutable and refused is None:
            assert got is ours.tensors()[0], f"{says}: an in-place operator returns its first argument"
            changed = bool(want._version)  # a kernel of several changes in place counts each of them
            assert bool(got._version) == changed, f"{says}: the version is {got._version}, the CPU's {want._version}"


def test_results_are_on_the_device_of_their_operands(subject: Subject, record_property: Any) -> None:
    """Test on the last of several devices: a kernel may use the current device by mistake."""
    if subject.count == 1:
        pytest.skip("there is one device")
    kind, here = tk.device(subject.name).type, tk.device(subject.name).index
    device = f"{kind}:{subject.count - 1 if here == 0 else 0}"
    for operator in sampled():
        if Tag.NONDETERMINISTIC in operator.tags:
            continue
        record_property("operator", operator.name)
        for sample in itertools.islice(inputs(operator, "float32"), 2):
            ours = sample.map(lambda x: place(x, device).tensor if x.device.type == "cpu" else x)
            reference = sample.map(lambda x: x.clone() if x.device.type == "cpu" else x)
            want, refused = outcome(functools.partial(operator.call, *reference.args, **reference.kwargs))
            got, _ = outcome(functools.partial(operator.call, *ours.args, **ours.kwargs))
            agree_on_errors(got, refused, f"{operator.name}, {sample.name}")
            if refused is None:
                got, want = [comparable(operator, result, sample) for result in (got, want)]
                same(got, want, device, f"{operator.name}, {sample.name}")


def differentiable() -> list[Any]:
    """Return the operators with a gradient for a float32 input."""
    return [
        pytest.param(operator, id=operator.name)
        for operator in sampled()
        if not (operator.schema.is_mutable or Tag.DERIVED in operator.tags or "NotDifferentiable" in operator.facets)
    ]


def gradients(operator: Operator, sample: SampleInput, device: str | None) -> list[np.ndarray] | None:
    """Return the gradients of a weighted sum of the result by all floating inputs; None if there are none."""
    leaves: list[Tensor] = []

    def leaf(x: Tensor) -> Tensor:
        made = x.detach().clone() if device is None else place(x, device).tensor
        if made.dtype.kind == "f":
            made = made.requires_grad_()
            leaves.append(made)
        return made

    called = sample.map(leaf)
    wrapper = operator.facets["SampleInputs"].gradcheck_wrapper if "Compared" in operator.facets else None
    if wrapper is None:
        result = operator.call(*called.args, **called.kwargs)
    else:  # of several correct results, what they have in common
        result = wrapper(operator.call, *called.args, **called.kwargs)
    outputs = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, Tensor)]
    outputs = [r for r in outputs if r.requires_grad and r.dtype.kind == "f" and r.device.type != "meta"]
    if not outputs or not leaves:
        return None
    parts = []
    for output in outputs:
        weights = tk.asarray(np.cos(np.arange(output.size, dtype=output.dtype)).reshape(output.shape))
        parts.append(tk.sum(output * weights.to_device(output.device)))
    functools.reduce(add, parts).backward()
    for x in leaves:
        assert x.grad is None or x.grad.device is x.device, f"a gradient is on {x.grad.device}, not on {x.device}"
    return [np.zeros(x.shape) if x.grad is None else np.array(x.grad.numpy()) for x in leaves]


@pytest.mark.parametrize("operator", differentiable())
def test_gradient(operator: Operator, subject: Subject, record_property: Any) -> None:
    record_property("operator", operator.name)
    for count, sample in enumerate(inputs(operator, "float32")):
        if count >= 12:
            break
        if any(x.device.type != "cpu" for x in sample.tensors()):
            continue
        want, refused = outcome(lambda sample=sample: gradients(operator, sample, None))  # type: ignore[misc]
        got, _ = outcome(lambda sample=sample: gradients(operator, sample, subject.name))  # type: ignore[misc]
        agree_on_errors(got, refused, f"{operator.name}, {sample.name}")
        if refused is not None or want is None:
            continue
        assert got is not None, f"{sample.name}: no gradient"
        for mine, other in zip(got, want, strict=True):
            close(mine.astype(np.float32), other.astype(np.float32), f"gradient of {operator.name}, {sample.name}")
