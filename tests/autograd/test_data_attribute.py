"""``x.data`` against PyTorch's documented behaviour, and where it deliberately differs (Note [x.data])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk

START = np.array([1.0, -2.0, 3.0], np.float32)
OTHER = np.array([4.0, 5.0, -6.0], np.float32)


def leaf(values: Any = START) -> tk.Tensor:
    return tk.tensor(values, requires_grad=True)


def _augmented(p: Any, t: Any) -> None:
    p.data += 1
    p.data *= t


def _assigned(p: Any, t: Any) -> None:
    p.data = t


def _computed(p: Any, t: Any) -> None:
    p.data = p.data * 2 - t


def _item(p: Any, t: Any) -> None:
    p.data[1:] = t[1:]
    p.data[...] = p.data + 1


def _copied(p: Any, t: Any) -> None:
    p.data.copy_(t)
    p.data.clamp_(-5, 4.5) if hasattr(p.data, "clamp_") else p.data.copy_(p.data.clamp(-5, 4.5))


WRITES: list[Callable[[Any, Any], None]] = [_augmented, _assigned, _computed, _item, _copied]


@pytest.mark.parametrize("write", WRITES)
def test_programs_of_pytorch(write: Callable[[Any, Any], None]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = leaf(), torch.tensor(START, requires_grad=True)
    for p, t in ((ours, tk.tensor(OTHER)), (theirs, torch.tensor(OTHER))):
        for _ in range(2):
            (p**3).sum().backward()
            write(p, t)
        (p**2).sum().backward()
    assert (ours.requires_grad, ours.is_leaf, ours.data.requires_grad) == (True, True, False)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("saved", "of_views"), [
    (lambda p: (p**3).sum(), False), (lambda p: (p * 2) @ p, False), (lambda p: (p[:2] * p[1:]).sum(), True),
])  # fmt: skip
def test_a_backward_pass_never_uses_replaced_values(write: Any, saved: Any, of_views: bool) -> None:
    p = leaf()
    (want,) = tk.autograd.grad(saved(p), p)
    loss = saved(p)
    write(p, tk.tensor(OTHER))
    if of_views and write in (_assigned, _computed):  # views stay on the old memory
        loss.backward()
        assert p.grad.tolist() == want.tolist()
    else:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    p.grad = None
    (p * 3).sum().backward()  # the tensor itself is as good as new
    assert p.grad.tolist() == [3, 3, 3]


def test_results_that_do_not_need_the_values_are_not_affected() -> None:
    p = leaf()
    loss = (p * 2 + 1).sum()
    p.data = tk.tensor(OTHER)
    loss.backward()
    assert p.grad.tolist() == [2, 2, 2]


def test_it_is_a_tensor_on_the_same_memory() -> None:
    p = leaf()
    assert type(p.data) is tk.Tensor
    assert tk.shares_storage(p, p.data)
    assert p.data.grad_fn is None
    t = tk.tensor(OTHER)
    p.data = t
    assert tk.shares_storage(p, t)
    t[0] = 9
    assert p.tolist() == [9, 5, -6]
    assert p.array.tolist() == [9, 5, -6]


def test_an_assigned_tensor_that_changes_later_is_noticed() -> None:
    p, t = leaf(), tk.tensor(OTHER)
    p.data = t
    loss = (p * p).sum()
    t.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_shape_dtype_and_device_of_a_leaf_follow() -> None:
    p = leaf()
    (p * p).sum().backward()
    for value in (tk.ones((2, 2)), tk.ones(3, dtype=tk.float64), tk.ones(2, dtype=tk.complex64), tk.ones(2).to("meta")):
        p.data = value
        p.grad = None
        assert (p.shape, p.dtype, p.device, p.requires_grad) == (value.shape, value.dtype, value.device, True)
        if p.device.type != "meta":
            tk.real(p * 3).sum().backward()
            assert (p.grad.shape, p.grad.dtype) == (p.shape, p.dtype)
    q = tk.ones(2)
    q.data = tk.arange(3)
    assert q.tolist() == [0, 1, 2]


def test_hooks_of_a_leaf_stay() -> None:
    p, seen = leaf(), []
    p.register_hook(lambda g: seen.append(g.shape))
    (p * 2).sum().backward()
    p.grad = None
    p.data = tk.ones((2, 2))
    (p * 2).sum().backward()
    assert seen == [(3,), (2, 2)]


def test_views_stay_on_the_old_memory() -> None:
    p = leaf()
    view = p[1:]
    plain = p.detach()[:2]
    loss = (view * view).sum()
    p.data = tk.tensor(OTHER)
    assert view.tolist() == START[1:].tolist()
    assert plain.tolist() == START[:2].tolist()
    loss.backward()
    assert p.grad.tolist() == [0, -4, 6]


def test_results_keep_their_history() -> None:
    p = leaf()
    y = tk.exp(p)
    loss = y.sum()
    y.data = tk.tensor(OTHER)
    assert y.tolist() == OTHER.tolist()
    (loss + (y * 2).sum()).backward()  # the saved output is that of exp
    np.testing.assert_allclose(p.grad.numpy(), 3 * np.exp(START), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"\[data\] got shape \(2,\).* they must be equal"):
        y.data = tk.ones(2)


def test_what_cannot_be_assigned() -> None:
    p = leaf()
    for wrong in (1.0, None, START, [1.0]):
        with pytest.raises(TypeError, match=r"\[data\] takes a Tensor, got"):
            p.data = wrong
    with pytest.raises(RuntimeError, match=r"\[data\] a tensor that requires a gradient has a floating .* got int64"):
        p.data = tk.arange(3)
    view = p[:2]
    with pytest.raises(RuntimeError, match=r"\[data\] x is a view"):
        view.data = tk.ones(2)
    with pytest.raises(NotImplementedError, match=r"\[data\] cannot be assigned inside a transform"):
        tk.vmap(lambda x: setattr(x, "data", tk.ones(2)))(tk.ones((3, 2)))
    assert p.tolist() == START.tolist()


def test_inside_transforms_it_is_detach() -> None:
    x = tk.tensor(START)
    assert tk.vmap(lambda row: row.data * 2)(tk.stack([x, x])).tolist() == [(START * 2).tolist()] * 2
    assert tk.grad(lambda y: (y * y.data).sum())(x).tolist() == START.tolist()


def test_subclasses_stay_what_they_are() -> None:
    class Parameter(tk.Tensor):
        pass

    p = leaf().detach().as_subclass(Parameter).requires_grad_()
    p.data += 1
    p.data = p.data * 2
    assert (type(p), p.requires_grad, p.tolist()) == (Parameter, True, ((START + 1) * 2).tolist())
