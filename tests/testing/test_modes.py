"""The ready-made modes of ``tenkey.testing``, each of which must notice what it is for."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import Backend
from tenkey.dispatch.local_state import get_state
from tenkey.library import Library
from tenkey.testing import CallTrace, DeterministicCheck, FlopCounter, OperatorCounter, StrictFallback, modes

NS = "test_modes"


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    yield
    assert get_state() is None


@pytest.mark.parametrize("mode", modes.__all__)
def test_each_is_short(mode: str) -> None:
    lines, _ = inspect.getsourcelines(getattr(modes, mode))
    assert len(lines) < 40


class TestCallTrace:
    def test_tree(self) -> None:
        x = tk.ones((2, 3))
        with CallTrace() as trace:
            tk.matrix_transpose(x)
            tk.exp(x)
        assert [(name, [inner for inner, _, _ in inside]) for name, _, inside in trace.calls] == [
            ("tk::matrix_transpose", ["tk::permute_dims"]),
            ("tk::exp", []),
        ]
        assert str(trace).splitlines()[-1] == "tk::exp(float32(2, 3)) -> float32(2, 3)"

    def test_lists_and_failures(self) -> None:
        with CallTrace() as trace:
            tk.concat([tk.ones(1), tk.ones(2)])
            with pytest.raises(ValueError, match="inner sizes"):
                tk.ones((2, 3)) @ tk.ones((2, 3))
            tk.ones(1)
        lines = str(trace).splitlines()
        assert any(line.startswith("tk::concat([float32(1,), float32(2,)], axis=0)") for line in lines)
        assert "tk::matmul(float32(2, 3), float32(2, 3)) raised ValueError" in lines
        assert lines[-1].startswith("tk::ones(")  # nesting is as it was before the failure

    def test_with_gradients(self) -> None:
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        with CallTrace() as trace:
            y = tk.sum(tk.exp(x))
        y.backward()
        assert [name for name, _, _ in trace.calls] == ["tk::exp", "tk::sum"]
        assert x.grad is not None

    def test_inside_of_another_mode(self) -> None:
        with OperatorCounter() as counter, CallTrace() as trace:
            tk.matrix_transpose(tk.ones((3, 2)))
        names = [name for name, _, _ in trace.calls]
        assert names == ["tk::ones", "tk::matrix_transpose"]
        assert counter.counts == {"tk::ones": 1, "tk::matrix_transpose": 1, "tk::permute_dims": 1}


class TestOperatorCounter:
    def test_counts(self) -> None:
        x = tk.ones(3)
        with OperatorCounter() as counter:
            for _ in range(3):
                tk.exp(x) + 1
            tk.matrix_transpose(tk.reshape(x, (3, 1)))
        assert counter.counts == {
            "tk::exp": 3, "tk::add": 3, "tk::reshape": 1, "tk::matrix_transpose": 1, "tk::permute_dims": 1,
        }  # fmt: skip
        assert counter.total == 9
        tk.exp(x)
        assert counter.total == 9

    def test_backward_is_made_of_operators(self) -> None:
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        y = tk.sum(x * x * x)
        with OperatorCounter() as counter:
            y.backward()
        assert sum(n for name, n in counter.counts.items() if name.startswith("tk::multiply")) >= 2

    def test_other_threads_are_not_counted(self) -> None:
        with OperatorCounter() as counter:
            thread = threading.Thread(target=lambda: tk.exp(tk.ones(2)))
            thread.start()
            thread.join(20)
        assert counter.total == 0

    def test_twice_entered_counts_twice(self) -> None:
        with OperatorCounter() as outer, OperatorCounter() as inner:
            tk.exp(tk.zeros(2))
        assert outer.counts == inner.counts


class TestFlopCounter:
    @pytest.mark.parametrize(
        ("a", "b", "flops"),
        [
            ((3, 4), (4, 5), 2 * 3 * 4 * 5),
            ((7, 3, 4), (4, 5), 7 * 2 * 3 * 4 * 5),
            ((3, 4), (4,), 2 * 3 * 4),
            ((4,), (4,), 2 * 4),
            ((2, 0), (0, 3), 0),
        ],
    )
    def test_products(self, a: Any, b: Any, flops: int) -> None:
        x, y = tk.ones(a), tk.ones(b)
        with FlopCounter() as counter:
            tk.matmul(x, y)
        assert counter.total == counter.flops["tk::matmul"] == flops

    def test_pointwise_and_reductions(self) -> None:
        x = tk.ones((3, 4))
        op = tk.library.pointwise(f"{NS}::fma(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x * y + x)
        try:
            with FlopCounter() as counter:
                op(x, x)
                tk.sum(x, axis=0)
                tk.reshape(x, (4, 3))
        finally:
            tk.dispatch.registry.undefine(tk.dispatch.registry.find(f"{NS}::fma"), keep_kernels=False)
        assert counter.flops == {f"{NS}::fma": 24, "tk::sum": 12}

    def test_training_step(self) -> None:
        """Forward and both products of backward: three times the same size."""
        x, w = tk.ones((5, 3)).requires_grad_(), tk.ones((3, 4)).requires_grad_()
        with FlopCounter() as counter:
            tk.sum(x @ w).backward()
        assert counter.flops["tk::matmul"] == 3 * 2 * 5 * 3 * 4


class TestDeterministicCheck:
    @pytest.fixture
    def library(self) -> Iterator[Library]:
        with Library(NS, "DEF") as made:
            yield made

    def test_finds_one_that_is_not(self, library: Library) -> None:
        numbers = iter(range(100))
        library.define("noise(Tensor x) -> Tensor")
        library.impl("noise", lambda x: x + float(next(numbers)), "cpu")
        with DeterministicCheck(), pytest.raises(RuntimeError, match=rf"\[{NS}::noise\] gave different results"):
            tk.ops.test_modes.noise(tk.ones(2))

    def test_finds_a_sign_of_zero_and_accepts_nan(self, library: Library) -> None:
        zeros = iter([0.0, -0.0] * 10)
        library.define("zero(Tensor x) -> Tensor")
        library.impl("zero", lambda x: tk.asarray(np.full(x.shape, next(zeros), np.float32)), "cpu")
        library.define("nan(Tensor x) -> Tensor[]")
        library.impl("nan", lambda x: [tk.full(x.shape, float("nan"))], "cpu")
        with DeterministicCheck():
            with pytest.raises(RuntimeError, match="test_modes::zero"):
                tk.ops.test_modes.zero(tk.ones(2))
            tk.ops.test_modes.nan(tk.ones(2))

    def test_tagged_ones_are_left_out(self, library: Library) -> None:
        numbers = iter(range(100))
        library.define("noise(Tensor x) -> Tensor", tags=("nondeterministic",))
        library.impl("noise", lambda x: tk.full(x.shape, float(next(numbers))), "cpu")
        with DeterministicCheck():
            tk.ops.test_modes.noise(tk.ones(2))

    def test_the_built_in_ones_are(self) -> None:
        x = tk.tensor(np.random.default_rng(0).standard_normal((20, 30)), requires_grad=True)
        with DeterministicCheck():
            y = tk.mean(tk.softmax(x @ tk.matrix_transpose(x)) * 2)
            y.backward()
            z = tk.zeros(3)
            z += 1.0
            tk.random.normal((3,))
            tk.empty((3,))
        assert z.tolist() == [1.0] * 3  # changed once, not twice
        assert x.grad is not None


class _Plain(Backend):
    """The smallest backend: everything but copies falls back to the CPU."""

    name = "modesdevice"

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def synchronize(self, device: int = 0) -> None:
        pass

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        return np.empty(nbytes, np.uint8)

    def free(self, buffer: Any) -> None:
        pass

    def copy_from_host(self, buffer: Any, array: Any) -> None:
        buffer[: array.size] = array

    def copy_to_host(self, buffer: Any, array: Any) -> None:
        array[...] = buffer[: array.size]


def test_strict_fallback() -> None:
    with tk.backends.register(_Plain()):
        x = tk.ones(3).to("modesdevice")
        assert tk.exp(x).device.type == "modesdevice"
        with StrictFallback():
            with pytest.raises(NotImplementedError, match=r"\[tk::exp\] would fall back to the CPU on 'modesdevice'"):
                tk.exp(x)
            assert tk.exp(tk.zeros(1)).item() == 1.0
        assert tk.exp(x).device.type == "modesdevice"
