"""``linearize``: the function runs once, and a push is linear, cheap, and right wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.transforms import grad, jacfwd, jvp, linearize, vmap

_X = np.array([0.5, 1.0, -1.5])
_V = np.array([1.0, -2.0, 0.5])


def _close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-13)


def test_the_function_runs_once() -> None:
    calls: list[int] = []

    def function(x: Tensor, pair: dict[str, Tensor]) -> dict[str, Tensor]:
        calls.append(1)
        return {"product": tk.sin(x) * pair["y"], "constant": tk.ones(2), "whole": tk.argmax(x)}

    x, y = tk.asarray(_X), tk.asarray(_V)
    output, push = linearize(function, x, {"y": y})
    _close(output["product"], np.sin(_X) * _V)
    for factor in (1.0, 2.0, -3.0):
        pushed = push(x * factor, {"y": y * factor})
        _close(pushed["product"], factor * (np.cos(_X) * _X * _V + np.sin(_X) * _V))
        assert pushed["constant"].tolist() == [0.0, 0.0]
        assert pushed["whole"].dtype == tk.int64
    assert len(calls) == 1
    assert not output["product"].requires_grad
    assert not pushed["product"].requires_grad


def test_a_push_calls_no_operator_of_the_function() -> None:
    class Seen(tk.dispatch.DispatchMode):
        def __init__(self) -> None:
            self.names: set[str] = set()

        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            self.names.add(str(op))
            return op(*args, **kwargs)

    _, push = linearize(
        lambda x: tk.linalg.det(tk.outer(x, x) + tk.eye(3, dtype=tk.float64)) * tk.exp(x), tk.asarray(_X)
    )
    with Seen() as mode:
        push(tk.asarray(_V))
    assert not {"tk::linalg_det", "tk::exp", "tk::outer"} & mode.names


def test_random_numbers_stay_the_same() -> None:
    _, push = linearize(lambda x: x * tk.random.uniform((3,), dtype=tk.float64), tk.asarray(_X))
    v = tk.asarray(_V)
    _close(push(v * 2), 2 * push(v).numpy())


def test_inside_of_other_transforms() -> None:
    def push_once(x: Tensor, v: Tensor) -> Any:
        return linearize(lambda y: tk.exp(y) * tk.sum(y), x)[1](v)

    x, v = tk.asarray(_X), tk.asarray(_V)
    jacobian = np.exp(_X)[:, None] + np.diag(np.exp(_X) * _X.sum())
    _close(push_once(x, v), jacobian @ _V)
    _close(jacfwd(lambda t: push_once(x, t))(v), jacobian)
    _close(grad(lambda t: tk.sum(push_once(x, t)))(v), jacobian.sum(axis=0))
    rows = tk.asarray(np.stack([_X, 2 * _X, _V]))
    got = vmap(push_once)(rows, tk.stack([v, v, v]))
    _close(got, np.stack([push_once(rows[b], v).numpy() for b in range(3)]))
    _, push = linearize(lambda y: tk.exp(y) * tk.sum(y), x)
    _close(vmap(push)(tk.eye(3, dtype=tk.float64)), jacobian.T)


def test_of_a_gradient() -> None:
    x, v = tk.asarray(_X), tk.asarray(_V)
    gradient, push = linearize(grad(lambda y: tk.sum(y**3)), x)
    _close(gradient, 3 * _X**2)
    _close(push(v), 6 * _X * _V)


def test_complex() -> None:
    z = tk.asarray(_X + 1j * _V)
    output, push = linearize(lambda z: z * z * tk.conj(z), z)
    value, t = _X + 1j * _V, np.array([1j, 2.0, 1 - 1j])
    _close(output, value**2 * value.conj())
    _close(push(tk.asarray(t)), 2 * value * value.conj() * t + value**2 * t.conj())


@pytest.fixture
def detached() -> Iterator[Any]:
    """An operator whose backward is made of NumPy, with a forward derivative of its own."""
    op = tk.library.custom_op(
        "lintest::square", lambda x: tk.asarray(x.numpy() ** 2), schema="(Tensor x) -> Tensor", mutates_args=()
    )
    op.register_autograd(
        lambda ctx, g: tk.asarray(g.detach().numpy() * 2 * ctx.saved_tensors[0].detach().numpy()),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    yield op
    tk.dispatch.registry.undefine(op.operator, keep_kernels=False)


def test_a_backward_written_by_hand_is_not_trusted(detached: Any) -> None:
    """It need not be made of recorded operators: a push runs in forward mode, which refuses, or has a rule."""
    x, v = tk.asarray(_X), tk.asarray(_V)
    _, push = linearize(lambda y: detached(y) + y, x)
    with pytest.raises(NotImplementedError, match="lintest::square"):
        push(v)
    detached.register_jvp(
        lambda ctx, t: 2 * ctx.saved_tensors[0] * t,
        setup_context=lambda ctx, inputs, output: ctx.save_for_forward(inputs[0]),
    )
    _close(linearize(lambda y: detached(y) + y, x)[1](v), 2 * _X * _V + _V)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: linearize(3, x), TypeError, "function"),  # type: ignore[arg-type]
        (lambda x: linearize(lambda: x), ValueError, "at least one primal"),
        (lambda x: linearize(lambda y: 1.0, x), TypeError, "must return"),
        (lambda x: linearize(lambda y: y, tk.asarray([1])), TypeError, "no floating"),
        (lambda x: linearize(lambda y: y, x)[1](), ValueError, "same structure"),
        (lambda x: linearize(lambda y: y, x)[1](tk.ones(2)), ValueError, r"shape \(3,\)"),
    ],
)
def test_wrong_calls(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tk.asarray(_X))


def test_it_is_the_jvp() -> None:
    x, v = tk.asarray(_X), tk.asarray(_V)

    def function(y: Tensor) -> Tensor:
        z = tk.zeros_like(y)
        z[1:] = y[:-1] ** 2
        return tk.where(y > 0, tk.softmax(y), z) @ tk.outer(y, y)

    _close(linearize(function, x)[1](v), jvp(function, (x,), (v,))[1].numpy())
