"""Results have memory of their own: no argument, no earlier result, no cache shares it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.core.tree import tensors_in
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput
from tenkey.testing.backend.compare import agree_on_errors, comparable, finished, outcome, place, same
from tenkey.testing.backend.plugin import Subject
from tenkey.testing.backend.test_operators import PARTITIONS, inputs, sampled

from ...dispatch.tags import Tag


def operators() -> list[Any]:
    """Return the operators that give new tensors for samples of float32 or, if they refuse these, int64."""
    return [
        pytest.param(operator, id=operator.name)
        for operator in sampled()
        if not (operator.schema.is_mutable or "View" in operator.facets or Tag.NONDETERMINISTIC in operator.tags)
    ]


def calls(operator: Operator) -> Iterator[SampleInput]:
    """Yield a sample, and for operators with kernels of their own one of numbers that many map to themselves."""
    for dtype in ("float32", "int64"):
        sample = next((one for one in inputs(operator, dtype) if any(x.size for x in one.tensors())), None)
        if sample is not None:
            yield sample
            if not {"Composite", "Decomposition"} & {*operator.facets}:
                yield sample.map(lambda x: tk.ones_like(x) if x.dtype.kind == "f" and x.device.type == "cpu" else x)
            return


def values(result: Any) -> list[np.ndarray]:
    """Return the values of all tensors of a result."""
    return [np.array(x.detach().numpy()) for x in tensors_in(result) if x.device.type != "meta"]


def unchanged(now: list[np.ndarray], before: list[np.ndarray], what: str) -> None:
    """Raise AssertionError unless the values are those of before."""
    for got, want in zip(now, before, strict=True):
        assert np.array_equal(got, want, equal_nan=got.dtype.kind in "fc"), f"{what}: got {got}, expected {want}"


def overwrite(x: Tensor, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace the elements in place by a function of them, unless some share their memory."""
    repeated = any(step == 0 for n, step in zip(x.shape, x.strides, strict=True) if n > 1)
    if x.size and x.device.type != "meta" and not repeated:
        data = x.detach()
        host = data.numpy()
        data.copy_(tk.asarray(function(host).astype(host.dtype)))


def shares(results: list[Tensor], arguments: list[Tensor]) -> list[bool]:
    """Return for each result whether it is an argument or a view of one."""
    return [any(r is a or (r.size and tk.shares_storage(r, a)) for a in arguments) for r in results]


@pytest.mark.parametrize("operator", operators())
def test_results_have_their_own_memory(operator: Operator, subject: Subject, record_property: Any) -> None:
    record_property("operator", operator.name)
    for sample in calls(operator):
        says = f"{operator.name}, sample {sample.name!r}"
        theirs = sample.map(lambda x: x.clone() if x.device.type == "cpu" else x)
        want, refused = outcome(functools.partial(operator.call, *theirs.args, **theirs.kwargs))
        if refused is not None:
            continue
        ours = sample.map(lambda x: place(x, subject.name).tensor if x.device.type == "cpu" else x)

        call = functools.partial(run, operator, ours)
        first, _ = outcome(call)
        agree_on_errors(first, None, says)
        aliased = shares(tensors_in(want), theirs.tensors())
        if any(aliased) or not tensors_in(first):
            continue
        results, arguments = tensors_in(first), ours.tensors()
        assert not any(shares(results, arguments)), f"{says}: the result shares memory with an argument"
        second = call()
        again = tensors_in(second)
        assert not any(r is other for r in again for other in results), f"{says}: two calls give the same tensor"
        before, given = values(first), values(arguments)
        for result in again:
            overwrite(result, lambda host: host != 1)
        unchanged(values(first), before, f"{says}: changing a second result in place changed the first")
        unchanged(values(arguments), given, f"{says}: changing the result in place changed an argument")
        wrong, changed = outcome(functools.partial(change, call, ours, theirs, operator))
        if changed is None and operator.name not in PARTITIONS:  # else it refuses the values, as on the CPU
            got, expected = [comparable(operator, result, theirs) for result in wrong]
            same(got, expected, subject.name, f"{says}: the same arguments with other values")
        unchanged(values(first), before, f"{says}: changing an argument in place changed an earlier result")


def run(operator: Operator, sample: SampleInput) -> Any:
    """Call an operator and wait for its result."""
    return finished(operator.call(*sample.args, **sample.kwargs))


def change(call: Callable[[], Any], ours: SampleInput, theirs: SampleInput, operator: Operator) -> tuple[Any, Any]:
    """Halve floating arguments on both devices, which keeps them in order and in a domain; return the results."""
    for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        if mine.dtype.kind == "f":
            overwrite(mine, lambda host: host / 2)
            overwrite(other, lambda host: host / 2)
    want = operator.call(*theirs.args, **theirs.kwargs)
    return call(), want


def test_factories_give_new_memory(subject: Subject) -> None:
    device = subject.name
    makers: list[Callable[[], Tensor]] = [
        lambda: tk.zeros(3, device=device), lambda: tk.ones(3, device=device), lambda: tk.full((), 2.5, device=device),
        lambda: tk.arange(3.0, device=device), lambda: tk.eye(3, device=device), lambda: tk.zeros((), device=device),
        lambda: tk.asarray([1.0, 2.0], device=device), lambda: tk.linspace(0, 1, 3, device=device),
        lambda: tk.empty(3, device=device).fill_(0),
    ]  # fmt: skip
    for make in makers:
        first = make()
        before = values(first)
        second = make()
        second += 5
        unchanged(values(first), before, "changing a tensor in place changed an equal one")
        unchanged(values(make()), before, "a factory gives what was changed in place before")


def test_copies_have_their_own_memory(subject: Subject) -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = tk.tensor(host, device=subject.name)
    host[:] = -1
    np.testing.assert_array_equal(x.numpy(), np.arange(6).reshape(2, 3), "the tensor shares memory with an array")
    for name, copy in {
        "clone": x.clone(), "astype": x.astype(tk.float32), "copy": x.copy(), "asarray": tk.asarray(x, copy=True),
        "flip": tk.flip(x), "roll": tk.roll(x, 0), "reshape of a transposed tensor": tk.reshape(x.T, (6,)),
    }.items():  # fmt: skip
        kept = values(copy)
        x += 1
        unchanged(values(copy), kept, f"{name}: changing the original changed the copy")
        copy += 100
        assert x.numpy().max() < 50, f"{name}: changing the copy changed the original"
    read = np.array(x.numpy())
    got = x.numpy()
    x += 1
    np.testing.assert_array_equal(got, read, "changing the tensor changed what was read from it before")
    np.testing.assert_array_equal(x.numpy(), read + 1, "a read after a change gives what was there before")
    for step in range(5):  # reads alternate with writes: none may be served from a cache
        x.fill_(step)
        assert x[1, 2].item() == step
        x[1, 2] = -step
        assert x.numpy()[1, 2] == -step
