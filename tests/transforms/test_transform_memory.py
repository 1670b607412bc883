"""Transforms leave nothing behind: with the cyclic collector off, what a run made is gone when its results are."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import Function
from tenkey.core.tensor import Tensor
from tenkey.transforms import grad, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp, vmap


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class _Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * g

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * t


def _x() -> Tensor:
    return tk.asarray(np.array([0.5, 1.0, -1.5]))


_RUNS: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "grad": lambda f: grad(f)(_x()),
    "value_and_grad": lambda f: value_and_grad(f)(_x()),
    "grad of grad": lambda f: grad(lambda x: tk.sum(grad(f)(x)))(_x()),
    "vjp": lambda f: vjp(f, _x())[1](tk.asarray(1.0, dtype=tk.float64)),
    "jvp": lambda f: jvp(f, (_x(),), (_x(),)),
    "linearize": lambda f: linearize(f, _x())[1](_x()),
    "jacrev": lambda f: jacrev(f)(_x()),
    "jacfwd": lambda f: jacfwd(f)(_x()),
    "hessian": lambda f: hessian(f)(_x()),
    "vmap": lambda f: vmap(f)(tk.stack([_x(), _x()])),
    "samples": lambda f: vmap(grad(f))(tk.stack([_x(), _x()])),
}


@pytest.mark.parametrize("name", _RUNS)
@pytest.mark.parametrize("function", ["operators", "function"])
def test_what_a_run_made_is_gone(name: str, function: str, collector_off: None) -> None:
    seen: list[weakref.ref[Any]] = []

    def traced(x: Tensor) -> Tensor:
        y = tk.exp(x) * x
        if function == "function":
            y = _Cube.apply(y)
        seen.append(weakref.ref(y))
        seen.append(weakref.ref(x))
        return tk.logsumexp(y)

    results = _RUNS[name](traced)
    assert seen
    del results
    assert [ref() is None for ref in seen] == [True] * len(seen)


def test_an_error_leaves_no_level_open() -> None:
    def failing(x: Tensor) -> Tensor:
        raise ValueError("mine")

    for run in _RUNS.values():
        with pytest.raises(ValueError, match="mine"):
            run(failing)
    from tenkey.core.wrapper import open_levels
    from tenkey.transforms.trace import _open

    assert open_levels() == ()
    assert not _open
    assert grad(lambda x: tk.sum(x * x))(_x()).tolist() == [1.0, 2.0, -3.0]
