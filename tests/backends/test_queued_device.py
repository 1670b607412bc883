"""Operators on a device with queues, batches and a cache: what is queued sees the memory of its own time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tenkey as tk
from tests._queued_device import Queued
from tests._tiers import Failures, each, is_full
from tests.backends.test_reference_device import _compare
from tests.operators._table import FACTORIES, OPERATORS, chosen

COUNT = 1  # samples of each operator


@pytest.fixture
def backend() -> Iterator[Queued]:
    made = Queued()
    with tk.backends.register(made):
        yield made
        tk.backends.synchronize("queued:1")


@each("dtype", ["float32", "int64"], fast=["float32"])
def test_operators(dtype: str, backend: Queued) -> None:
    failures = Failures()
    for operator in OPERATORS if is_full() else OPERATORS[::4]:
        if operator in FACTORIES or operator.name == "tk::to_device":
            continue
        for sample in [*chosen(operator, dtype)][:COUNT]:
            with failures.of(f"{operator.name}, {sample.name}"):
                _compare(operator, sample, "queued:1")
    failures.check()
    found = backend.memory_stats(1)
    assert found.allocations > 1_000
    assert found.reserved_bytes < 1 << 20  # the cache has served nearly all of them


def test_training(backend: Queued) -> None:
    """Thousands of kernels between two synchronisations, through the same memory."""

    def trained(device: str) -> np.ndarray:
        rng = np.random.default_rng(0)
        x = tk.asarray(rng.standard_normal((16, 3)), device=device)
        w = tk.tensor(rng.standard_normal((3, 4)), device=device, requires_grad=True)
        for _ in range(30):
            (g,) = tk.autograd.grad(tk.mean(tk.tanh(x @ w) ** 2 - tk.sort(x @ w, axis=0)), w)
            assert g is not None
            with tk.no_grad():
                w -= 0.1 * g
        return w.detach().numpy()

    np.testing.assert_allclose(trained("queued"), trained("cpu"), rtol=1e-12)


def test_errors_of_batches(backend: Queued) -> None:
    x = tk.asarray([1.0, 2.0], device="queued:1")
    y = tk.take(x, tk.asarray([0, 9], device="queued:1"))
    z = x + 1
    with pytest.raises(IndexError, match="out of range"):
        z.tolist()
    assert z.tolist() == [2.0, 3.0]
    assert y.tolist()[0] == 1.0
