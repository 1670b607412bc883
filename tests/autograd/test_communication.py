"""Broadcast, ReduceAdd, Scatter and Gather between devices of one process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad, gradcheck, gradgradcheck
from tenkey.autograd.communication import (
    Broadcast,
    Gather,
    ReduceAdd,
    Scatter,
    broadcast,
    gather,
    reduce_add,
    scatter,
)
from tests._backends import TemplateHost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module", params=["cpu", "toy", "templated"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "cpu":
        yield "cpu"
        return
    backend: Any = TemplateHost()
    if request.param == "toy":
        source = (EXAMPLES / "custom_backend.py").read_text(encoding="utf-8")
        scope: dict[str, Any] = {"__name__": "custom_backend"}
        exec(source[: source.index("\ntoy = ")], scope)  # the class; the module registers it for good
        backend = scope["Toy"]()
    with tk.backends.register(backend):
        yield request.param


def leaf(values: Any, device: str = "cpu") -> Tensor:
    return tk.tensor(values, dtype=tk.float64, device=device).requires_grad_()


def values(x: Tensor | None) -> Any:
    assert x is not None
    return x.detach().to("cpu").tolist()


def test_broadcast(device: str) -> None:
    x = leaf([1.0, 2.0])
    here, there = broadcast(x, ["cpu", device])
    assert (str(here.device), str(there.device)) == ("cpu", device)
    assert values(here) == values(there) == [1.0, 2.0]
    assert here.grad_fn is there.grad_fn
    assert here.grad_fn.name() == "BroadcastBackward"
    ((here * here).sum() + (there * 5.0).sum().to("cpu")).backward()
    assert values(x.grad) == [7.0, 9.0]


def test_broadcast_of_several_of_which_some_are_not_used(device: str) -> None:
    x, y, z = leaf([1.0]), leaf([2.0], device), leaf([3.0])
    copies = Broadcast.apply([device, "cpu"], x, y, z)
    assert [str(c.device) for c in copies] == [device] * 3 + ["cpu"] * 3
    (copies[0].to("cpu") * 2.0 + copies[4] * 3.0 + copies[3]).sum().backward()
    assert values(x.grad) == [3.0]
    assert values(y.grad) == [3.0]
    assert str(y.grad.device) == device  # type: ignore[union-attr]
    assert z.grad is None


def test_reduce_add(device: str) -> None:
    x, y = leaf([1.0, 2.0]), leaf([10.0, 20.0], device)
    total = reduce_add([x, y], device)
    assert (str(total.device), values(total)) == (device, [11.0, 22.0])
    assert str(reduce_add([x, y]).device) == "cpu"
    (total * total).sum().backward()
    assert values(x.grad) == values(y.grad) == [22.0, 44.0]
    assert str(y.grad.device) == device  # type: ignore[union-attr]


def test_scatter_and_gather(device: str) -> None:
    x = leaf(np.arange(10.0).reshape(2, 5))
    parts = scatter(x, [device, "cpu"], axis=1)
    assert [(str(p.device), p.shape) for p in parts] == [(device, (2, 3)), ("cpu", (2, 2))]
    together = gather([parts[0] * 2.0, parts[1] * 3.0], axis=-1)
    assert str(together.device) == device
    together.sum().backward()
    assert values(x.grad) == [[2.0, 2.0, 2.0, 3.0, 3.0]] * 2
    back = gather(scatter(x, [device, "cpu", device], [1, 0, 4], axis=1), axis=1, destination="cpu")
    assert values(back) == values(x)


def test_a_part_that_is_not_used_has_a_gradient_of_zeros(device: str) -> None:
    x = leaf([1.0, 2.0, 3.0])
    parts = scatter(x, [device, "cpu"])
    parts[0].sum().backward()
    assert values(x.grad) == [1.0, 1.0, 0.0]


def test_numbers_are_gathered_into_a_vector(device: str) -> None:
    x, y = leaf(1.0), leaf(2.0, device)
    made = gather([x, y])
    assert values(made) == [1.0, 2.0]
    (made * made).sum().backward()
    assert (values(x.grad), values(y.grad)) == (2.0, 4.0)


def test_a_short_tensor_has_fewer_parts() -> None:
    assert [p.tolist() for p in scatter(tk.arange(2), ["cpu"] * 3)] == [[0], [1]]
    assert [p.shape for p in scatter(tk.zeros((0, 2)), ["cpu"] * 2)] == [(0, 2)]


def test_second_order(device: str) -> None:
    x, y = leaf([0.5, -1.0, 2.0]), leaf([1.5, 1.0, -2.0])

    def through(x: Tensor, y: Tensor) -> Tensor:
        a, b = broadcast(x, [device, "cpu"])
        c, d = scatter(y, ["cpu", device])
        total = reduce_add([a * a, b.to(device)], "cpu")
        return (total * gather([c * c, d * d * d], destination="cpu")).sum()

    assert gradcheck(through, (x, y))
    assert gradgradcheck(through, (x, y))
    (first,) = grad(through(x, y), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert np.allclose(values(second), 2.0 * np.asarray([1.5**2, 1.0, -8.0]))


def test_meta_has_shapes() -> None:
    x = tk.ones((4, 3), dtype=tk.float64, device="meta").requires_grad_()
    parts = scatter(x, ["meta", "meta"])
    assert [p.shape for p in parts] == [(2, 3)] * 2
    total = reduce_add(list(parts))
    gather([total, *broadcast(total, ["meta"])]).sum().backward()
    assert x.grad is not None
    assert (x.grad.shape, str(x.grad.device)) == ((4, 3), "meta")
    assert [str(p.device) for p in broadcast(leaf([1.0]), ["cpu", "meta"])] == ["cpu", "meta"]
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        gather([x], destination="cpu")


def test_integers_have_no_gradient(device: str) -> None:
    assert [values(p) for p in scatter(tk.arange(4), [device, "cpu"])] == [[0, 1], [2, 3]]
    copies = Broadcast.apply([device], tk.arange(2), leaf([1.0]))
    assert [c.requires_grad for c in copies] == [False, True]


def test_the_functions_take_arguments_in_the_usual_order() -> None:
    x = leaf([1.0, 2.0])
    assert [p.tolist() for p in Scatter.apply(["cpu", "cpu"], None, 0, x)] == [[1.0], [2.0]]
    assert Gather.apply("cpu", 0, x, x).tolist() == [1.0, 2.0, 1.0, 2.0]
    assert ReduceAdd.apply("cpu", x, x).tolist() == [2.0, 4.0]


def test_refusals() -> None:
    x = tk.ones((2, 3))
    with pytest.raises(ValueError, match=r"\[scatter\] chunk_sizes \[1, 3\] do not add up to the length 3 of axis 1"):
        scatter(x, ["cpu", "cpu"], [1, 3], axis=1)
    with pytest.raises(IndexError, match=r"\[scatter\] axis 2 is out of range"):
        scatter(x, ["cpu"], axis=2)
    with pytest.raises(IndexError, match=r"\[scatter\] axis 0 is out of range for a tensor of 0 dimensions"):
        scatter(tk.ones(()), ["cpu"])
    with pytest.raises(ValueError, match=r"\[broadcast\] expects at least one device"):
        broadcast(x, [])
    with pytest.raises(ValueError, match="unknown device"):
        broadcast(x, ["nowhere"])
    with pytest.raises(TypeError, match=r"\[gather\] expects tensors, got int"):
        gather([x, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"\[gather\] expects at least one tensor"):
        gather([])
    with pytest.raises(ValueError, match=r"\[gather\] tensors to be joined must agree .*number 1 has shape \(2, 4\)"):
        gather([x, tk.ones((2, 4))])
    with pytest.raises(ValueError, match=r"\[reduce_add\] tensors to be summed must have one shape .*number 1"):
        reduce_add([x, tk.ones(3)])


@pytest.mark.parametrize("axis", [-1, -2])
def test_negative_axes_count_from_the_end(axis: int) -> None:
    values_ = np.arange(8.0).reshape(2, 4)
    x = leaf(values_)
    parts = Scatter.apply(["cpu", "cpu"], None, axis, x)
    wanted = np.split(values_, 2, axis=axis)
    assert [values(p) for p in parts] == [w.tolist() for w in wanted]
    joined = Gather.apply("cpu", axis, *parts)
    assert values(joined) == values_.tolist()
    (joined * joined).sum().backward()
    assert values(x.grad) == (2.0 * values_).tolist()
    numbers = leaf(1.0), leaf(2.0)
    Gather.apply("cpu", -1, *numbers).sum().backward()
    assert values(numbers[1].grad) == 1.0


_X: Any = tk.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: broadcast(3, ["cpu"]), TypeError, r"[broadcast] expects tensors, got int"),  # type: ignore[arg-type]
        (
            lambda: broadcast(_X, 3),
            TypeError,
            r"[broadcast] devices must be a device or a sequence of devices, got int",
        ),  # type: ignore[arg-type]
        (lambda: broadcast([_X, _X], ["cpu"]), ValueError, r"[broadcast] expects one tensor, got 2"),  # type: ignore[arg-type]
        (lambda: Broadcast.apply(["cpu"], _X, 3), TypeError, r"[broadcast] expects tensors, got int"),
        (lambda: reduce_add(3), TypeError, r"[reduce_add] expects tensors, got int"),  # type: ignore[arg-type]
        (
            lambda: ReduceAdd.apply("cpu", _X, tk.ones(3)),
            ValueError,
            r"[reduce_add] tensors to be summed must have one",
        ),
        (lambda: ReduceAdd.apply("cpu"), ValueError, r"[reduce_add] expects at least one tensor"),
        (lambda: scatter([_X, _X], ["cpu"]), ValueError, r"[scatter] expects one tensor, got 2"),  # type: ignore[arg-type]
        (lambda: scatter(_X, ["cpu"], 3), TypeError, r"[scatter] chunk_sizes must be a sequence of integers"),  # type: ignore[arg-type]
        (lambda: scatter(_X, ["cpu"], ["a"]), TypeError, r"[scatter] chunk_sizes must be a sequence of integers"),  # type: ignore[list-item]
        (lambda: scatter(_X, ["cpu"], axis="x"), TypeError, r"[scatter] axis must be an int, got 'x'"),  # type: ignore[arg-type]
        (lambda: Scatter.apply([], None, 0, _X), ValueError, r"[scatter] expects at least one device"),
        (lambda: gather([_X], axis=None), TypeError, r"[gather] axis must be an int, got None"),  # type: ignore[arg-type]
        (lambda: Gather.apply("cpu", 0), ValueError, r"[gather] expects at least one tensor"),
    ],
)
def test_what_is_no_tensor_device_or_axis(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
