"""Nodes with several outputs: the gradients that arrive at each output are summed, and nothing else is written to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad
from tenkey.dispatch import registry
from tests._backends import Host
from tests._gradients import constant, leaf, values_of

X = np.array([[2.0, -1.0], [0.5, 3.0]])


@pytest.fixture(params=["cpu", "host"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU, whose nodes run in the calling thread, and a device whose nodes run in a thread of its own."""
    with tk.backends.register(Host()):
        yield request.param


class Scaled(Function):
    """Returns ``x``, ``10 x`` and ``100 x``, and keeps the gradients that arrive."""

    seen: list[Any] = []  # noqa: RUF012  # emptied by each test

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> Any:
        ctx.set_materialize_grads(False)
        return tuple([x * 10.0**k for k in range(count)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        Scaled.seen.append(grads)
        found = [g * 10.0**k for k, g in enumerate(grads) if g is not None]
        return sum(found[1:], start=found[0]), None


def scaled(x: Tensor, count: int) -> Any:
    Scaled.seen.clear()
    return Scaled.apply(x, count)


def arrived() -> list[Any]:
    """The gradients of the one call of ``Scaled.backward``, as lists."""
    (grads,) = Scaled.seen
    return [None if g is None else g.to("cpu").tolist() for g in grads]


@pytest.mark.parametrize("count", [2, 3])
def test_every_output_is_used_several_times(count: int, device: str) -> None:
    x = leaf([1.0, 2.0]).to(device).detach().requires_grad_()
    outs = scaled(x * 1.0, count)
    total = outs[-1] * 1.0
    for k, out in enumerate(outs):
        total = total + out * 2.0 + out * 3.0 + (out * (k + 1.0)).sum()  # of other shapes too
    total.sum().backward()
    want = [5.0 + 2 * (k + 1) + (k == count - 1) for k in range(count)]
    assert arrived() == [[value] * 2 for value in want]
    assert x.grad is not None
    assert x.grad.to("cpu").tolist() == [sum(value * 10**k for k, value in enumerate(want))] * 2


@pytest.mark.parametrize("unused", [0, 1, 2])
def test_an_output_without_gradients_stays_undefined(unused: int, device: str) -> None:
    x = leaf([1.0]).to(device).detach().requires_grad_()
    outs = scaled(x, 3)
    used = [out for k, out in enumerate(outs) if k != unused]
    (used[0] * 2.0 + used[1] * 3.0 + used[0] * 4.0 + used[1] * 5.0).sum().backward()
    want: list[Any] = [[6.0], [8.0]]
    want.insert(unused, None)
    assert arrived() == want


def test_gradients_that_belong_to_the_user_are_not_written_to(device: str) -> None:
    kept: list[Tensor] = []
    x = leaf([1.0, 1.0]).to(device).detach().requires_grad_()
    outs = scaled(x * 1.0, 2)
    parts = [outs[0] * 1.0, outs[1] * 1.0, outs[0] * 1.0, outs[1] * 1.0, outs[0] * 1.0]
    for part in parts:
        part.register_hook(kept.append)
    given = constant([3.0, 4.0]).to(device)
    tk.autograd.backward([*outs, *parts], [given] * 7)
    assert arrived() == [[12.0, 16.0], [9.0, 12.0]]
    assert given.to("cpu").tolist() == [3.0, 4.0]
    assert [g.to("cpu").tolist() for g in kept] == [[3.0, 4.0]] * 5


def test_sums_are_recorded() -> None:
    x = leaf([2.0, 3.0])
    a, b = scaled(x * x, 2)
    (first,) = grad((a * a + a * b + b * 2.0 + b * b).sum(), x, create_graph=True)  # of u = x**2: 111 u**2 + 20 u
    (second,) = grad(first.sum(), x)
    np.testing.assert_allclose(values_of(first), 444 * np.array([8.0, 27.0]) + 40 * np.array([2.0, 3.0]), rtol=1e-14)
    np.testing.assert_allclose(values_of(second), 1332 * np.array([4.0, 9.0]) + 40, rtol=1e-14)


@pytest.mark.parametrize("name", ["qr", "slogdet", "svd", "eigh"])
def test_decompositions(name: str) -> None:
    """Each result is used once, with the factor 5, or twice, with 2 and 3; finite differences say the same."""

    def loss(x: Tensor, *factors: float) -> Tensor:
        outs = getattr(tk.linalg, name)(x * 1.0 if name != "eigh" else x + x.T)
        outs = outs[1:] if name == "slogdet" else outs  # no gradient flows through the sign
        weights = [constant(np.cos(np.arange(out.size)).reshape(out.shape)) for out in outs]
        parts = [(w * (out * out)) * factor for out, w in zip(outs, weights, strict=True) for factor in factors]
        return sum([part.sum() for part in parts], start=constant(0.0))

    x = leaf(X)
    (once,), (twice,) = grad(loss(x, 5.0), x), grad(loss(x, 2.0, 3.0), x)
    np.testing.assert_allclose(values_of(twice), values_of(once), rtol=1e-12)
    assert tk.autograd.gradcheck(lambda x: loss(x, 2.0, 3.0), (x,))


def test_an_operator_of_the_library() -> None:
    @tk.library.custom_op("test_several_outputs::three", mutates_args=())
    def three(x: tk.Tensor) -> tuple[tk.Tensor, tk.Tensor, tk.Tensor]:
        return x * 1.0, x * x, x * x * x

    three.register_autograd(
        lambda ctx, a, b, c: a + 2 * ctx.saved_tensors[0] * b + 3 * ctx.saved_tensors[0] ** 2 * c,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    try:
        x = leaf([1.0, 2.0])
        a, b, c = three(x)
        (a * 2.0 + b * 3.0 + a * 4.0 + c * 5.0 + b * 6.0 + c * 7.0).sum().backward()
        assert values_of(x.grad).tolist() == [6.0 + 18.0 + 36.0, 6.0 + 36.0 + 144.0]
        assert tk.autograd.gradcheck(lambda x: sum(out * out + out for out in three(x)), (leaf([1.0, 2.0]),))
    finally:
        registry.undefine(three.operator, keep_kernels=False)
