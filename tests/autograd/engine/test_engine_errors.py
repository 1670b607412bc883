"""Errors in backward: what arrives, what stays as it was, and the words for wrong gradients."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function
from tests.autograd.engine.test_engine import Calls, leaf, noted, ones


class TestErrors:
    @pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("where", ["apply", "tensor", "leaf", "pre", "node", "post"])
    def test_an_exception_leaves_everything_as_it_was(self, kind: type[BaseException], where: str) -> None:
        def fail(*args: Any) -> Any:
            raise kind("stop")

        x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        w.grad = ones(2)
        y = Calls.apply(x, lambda g: fail() if armed else g)
        armed = where == "apply"
        z = (y * w * x).sum()
        handles = []
        register = {
            "tensor": lambda: y.register_hook(fail), "leaf": lambda: x.register_hook(fail),
            "pre": lambda: y.grad_fn.register_prehook(fail), "node": lambda: y.grad_fn.register_hook(fail),
            "post": lambda: x.register_post_accumulate_grad_hook(fail),
        }  # fmt: skip
        if where in register:
            handles.append(register[where]())
        with pytest.raises(kind, match="stop") as caught:
            z.backward(retain_graph=True)
        assert caught.traceback[-1].name == "fail"
        assert tk.is_grad_enabled()
        for handle in handles:
            handle.remove()
        armed = False
        x.grad = w.grad = None
        z.backward()
        assert x.grad is not None
        assert w.grad is not None
        assert x.grad.tolist() == [6.0, 16.0]
        assert w.grad.tolist() == [1.0, 4.0]

    def test_the_first_error_stops_the_rest(self) -> None:
        log: list[str] = []

        def fail(g: Tensor) -> Tensor:
            raise ValueError("first")

        x = leaf(1.0)
        y = noted(x, log, "not reached") + Calls.apply(noted(x, log, "not reached"), fail)
        with pytest.raises(ValueError, match="first"):
            y.backward()
        assert log == []
        assert x.grad is None

    def test_nothing_of_a_failed_backward_is_kept(self) -> None:
        def fail(g: Tensor) -> Tensor:
            raise ValueError("first")

        gc.collect()
        gc.disable()
        try:
            x = leaf(1.0)
            y = Calls.apply(x * 2.0, fail)
            watched = weakref.ref(y.grad_fn)
            with pytest.raises(ValueError, match="first") as caught:
                y.backward()
            caught.value.__traceback__ = None
            del y, caught
            assert watched() is None
        finally:
            gc.enable()

    @pytest.mark.parametrize(
        ("wrong", "kind", "text"),
        [
            (lambda: ones(3), RuntimeError, r"\[CallsBackward\] returned an invalid gradient at index 0 - got \(3,\)"),
            (lambda: 5, TypeError, r"\[CallsBackward\] got int as the gradient of index 0"),
            (
                lambda: tk.ones(2, device="meta", dtype=tk.float64),
                RuntimeError,
                r"\[CallsBackward\] returned an invalid gradient at index 0 - expected device cpu but got meta",
            ),
            (
                lambda: tk.ones(2, dtype=tk.complex128),
                RuntimeError,
                r"\[CallsBackward\] got a complex gradient for a real output \(index 0\)",
            ),
        ],
    )
    def test_a_wrong_gradient_names_node_and_index(self, wrong: Any, kind: type[Exception], text: str) -> None:
        x = leaf([1.0, 2.0])
        y = Calls.apply(x * 1.0, lambda g: wrong())
        with pytest.raises(kind, match=text):
            y.sum().backward()
        assert x.grad is None

    def test_the_index_is_that_of_the_result(self) -> None:
        class Two(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
                return x + y

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return grads[0], ones(7)

        x = leaf([1.0, 2.0])
        with pytest.raises(RuntimeError, match=r"\[TwoBackward\] returned an invalid gradient at index 1 - got \(7,\)"):
            Two.apply(x, x).sum().backward()

    def test_a_larger_gradient_is_summed_and_another_dtype_cast(self) -> None:
        x = tk.ones((1, 2)).requires_grad_()
        Calls.apply(x, lambda g: ones(5, 3, 2)).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [[15.0, 15.0]]
        assert x.grad.dtype == tk.float32
