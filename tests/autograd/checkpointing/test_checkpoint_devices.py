"""Checkpoints and hooks on several gradients where backward runs on threads of accelerators; nothing piles up."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import checkpoint, checkpoint_policies
from tenkey.autograd.graph import register_multi_grad_hook, save_on_cpu
from tenkey.backends.cpu.programs.program import Program
from tests.autograd.engine.test_workers import Lab


def leaf(device: str) -> Any:
    return tk.tensor([0.1, 0.2], dtype=tk.float64, device=device).requires_grad_()


def test_the_recomputation_runs_on_the_thread_of_its_device_once() -> None:
    threads: list[str] = []

    def function(x: Any) -> Any:
        threads.append(threading.current_thread().name)
        return tk.exp(tk.sin(x))

    with tk.backends.register(Lab()):
        x, z = leaf("lab"), leaf("cpu")
        y = checkpoint(lambda x: checkpoint(function, x), x)
        total = tk.sum(y.to_device("cpu") * checkpoint(function, z))
        seen: list[Any] = []
        register_multi_grad_hook((x, y, z), lambda grads: seen.append([g is not None for g in grads]))
        total.backward()
        here = threading.current_thread().name
        assert threads[:2] == [here] * 2
        assert [name.startswith("tenkey-backward-lab") for name in threads[2:]] == [False, True]
        assert seen == [[True, True, True]]
        values = np.exp(np.sin([0.1, 0.2]))
        np.testing.assert_allclose(z.grad.numpy(), values * np.cos([0.1, 0.2]) * values)
        np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy())


def test_a_backward_in_the_function_on_the_device_that_waits() -> None:
    runs: list[int] = []

    with tk.backends.register(Lab()):
        w, x, z = leaf("lab"), leaf("cpu"), leaf("lab")

        def function(x: Any, z: Any) -> Any:
            runs.append(1)
            a, b = tk.sin(x), tk.sin(z)
            time.sleep(0.02)  # the other thread asks meanwhile
            (g,) = tk.autograd.grad(tk.sum(w * w), w)
            return tk.exp(a), tk.exp(b) + g * 0

        def work() -> None:
            for _ in range(5):
                a, b = checkpoint(lambda x, z: checkpoint(function, x, z), x, z)
                (tk.sum(a) + tk.sum(b.to_device("cpu"))).backward()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        np.testing.assert_allclose(x.grad.numpy(), 5 * np.exp(np.sin([0.1, 0.2])) * np.cos([0.1, 0.2]))
        np.testing.assert_allclose(z.grad.numpy(), x.grad.numpy())
        assert len(runs) == 5 * 3  # forward, the outer checkpoint's and the inner one's recomputation


def test_hooks_and_errors_on_the_thread_of_a_device() -> None:
    with tk.backends.register(Lab()):
        x = leaf("lab")
        runs: list[int] = []

        def function(x: Any) -> Any:
            runs.append(1)
            if len(runs) == 2:
                raise KeyError("again")
            return tk.exp(x)

        with save_on_cpu():
            y = tk.sum((checkpoint(function, x) * x).to_device("cpu"))
        with pytest.raises(KeyError, match="again"):
            y.backward(retain_graph=True)
        assert x.grad is None
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([0.1, 0.2]) * [1.1, 1.2])


@pytest.mark.parametrize("context_fn", [None, checkpoint_policies.save_only_these_operators("exp")])
def test_hundreds_of_checkpoints_leave_nothing(context_fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "count", lambda program, size: None)  # nothing is compiled meanwhile
    x = leaf("cpu")

    def step() -> None:
        y = tk.sum(checkpoint(lambda x: checkpoint(lambda x: tk.sin(tk.exp(x)), x), x, context_fn=context_fn))
        tk.autograd.grad(y, x)
        checkpoint(tk.exp, x, context_fn=context_fn)  # dropped without a backward

    for _ in range(20):
        step()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(100):  # free lists are filled, with memory that is traced
            step()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(300):
            step()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 300 * 20  # not twenty bytes for each
