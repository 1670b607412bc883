"""Wrong gradients, and errors in nodes and hooks: what is said, and that the state is as before."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import Function, grad
from tests._gradients import Identity, constant, leaf, values_of

# ---- wrong gradients


def test_a_seed_of_the_wrong_shape() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    with pytest.raises(RuntimeError, match=r"shape: grad_output\[0\] .*\(3,\) and output\[0\] has a shape of \("):
        y.backward(tk.ones(3, dtype=tk.float64))
    with pytest.raises(
        TypeError, match=r"\[backward\] gradients can be either Tensors or None, but a gradient is ndarray"
    ):
        y.backward(np.ones(2))
    assert x.grad is None
    y.backward(tk.ones(2, dtype=tk.float64))
    assert values_of(x.grad).tolist() == [2.0, 4.0]


def test_a_seed_of_another_dtype_is_cast() -> None:
    x = leaf([1.0, 2.0], tk.float32)
    (x * 2.0).backward(constant([1.0, 2.0]))
    assert values_of(x.grad).dtype == np.float32
    assert values_of(x.grad).tolist() == [2.0, 4.0]


class _WrongShape(Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return tk.ones((3,), dtype=tk.float64)


class _Larger(Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return tk.ones((4, 2), dtype=tk.float32)


class _ComplexGradient(Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 1j


class _NoTensor(Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return 1.0


class _Raises(Identity):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise LookupError("deliberate")


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (
            _WrongShape,
            RuntimeError,
            r"\[_WrongShapeBackward\] returned an invalid gradient at index 0 - got \(3,\) but expected .* \(2,\).*sum",
        ),
        (_ComplexGradient, RuntimeError, r"\[_ComplexGradientBackward\] got a complex gradient.*index 0.*tk\.real"),
        (_NoTensor, TypeError, r"\[_NoTensorBackward\] got float as the gradient of index 0: a gradient is a"),
        (_NoTensor, RuntimeError, r"expected Variable or None \(got float\)"),
    ],
)
def test_a_wrong_gradient_names_the_node(function: type[Function], kind: type[Exception], text: str) -> None:
    x = leaf([1.0, 2.0])
    y = function.apply(x * 1.0)
    with pytest.raises(kind, match=text):
        y.sum().backward()
    assert x.grad is None
    assert tk.is_grad_enabled()
    (x * 3.0).sum().backward()
    assert values_of(x.grad).tolist() == [3.0, 3.0]


def test_a_larger_gradient_is_summed_and_cast() -> None:
    x = leaf([1.0, 2.0])
    _Larger.apply(x * 1.0).sum().backward()
    assert values_of(x.grad).tolist() == [4.0, 4.0]
    assert values_of(x.grad).dtype == np.float64


# ---- errors on the way


def test_an_error_in_a_node_keeps_its_type_and_traceback() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(LookupError, match="deliberate") as caught:
        _Raises.apply(x).sum().backward()
    frames = traceback.extract_tb(caught.tb)
    assert any(frame.name == "backward" and "test_autograd" in frame.filename for frame in frames)
    assert tk.is_grad_enabled()
    assert x.grad is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["tensor", "prehook", "hook", "leaf", "post"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_an_error_in_a_hook_leaves_the_state_as_it_was(
    error: type[BaseException], where: str, create_graph: bool
) -> None:
    x = leaf([1.0, 2.0])
    other = leaf([1.0, 1.0])
    y = x * other

    def fail(*given: Any) -> Any:
        raise error("stop")

    handle = {
        "tensor": lambda: y.register_hook(fail),
        "prehook": lambda: y.grad_fn.register_prehook(fail),
        "hook": lambda: y.grad_fn.register_hook(fail),
        "leaf": lambda: x.register_hook(fail),
        "post": lambda: x.register_post_accumulate_grad_hook(fail),
    }[where]()
    out = (y * 2.0).sum()
    for mode in (True, False):
        with tk.set_grad_enabled(mode):
            with pytest.raises(error, match="stop"):
                out.backward(retain_graph=True, create_graph=create_graph)
            assert tk.is_grad_enabled() is mode
        x.grad = other.grad = None  # what arrived before the error: Note [Failed backward]
    handle.remove()
    out.backward()
    assert values_of(x.grad).tolist() == [2.0, 2.0]
    assert values_of(other.grad).tolist() == [2.0, 4.0]


def test_no_grad_around_backward_is_restored() -> None:
    x = leaf(2.0)
    y = x * x * x
    with tk.no_grad():
        (first,) = grad(y, x, create_graph=True)
        assert not tk.is_grad_enabled()
    assert first is not None
    assert first.requires_grad
    assert tk.is_grad_enabled()
    (second,) = grad(first, x)
    assert values_of(second) == 12.0
