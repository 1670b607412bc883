"""Views under autograd: changes in place of a tensor and of its views, and what becomes of all their histories.

What is expected is what PyTorch 2.13 does, but where a comment says otherwise. Whole programs: test_view_programs.py.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad, gradcheck, gradgradcheck
from tenkey.autograd.views.tracking import has_relatives

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
NO_GRAD = "A view was created in no_grad mode and is being modified inplace with grad mode enabled"
MODIFIED = "has been modified by an inplace operation"
OVERLAP = "unsupported operation: more than one element of the written-to tensor refers to a single memory location"


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def tensor(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64)


def zeros(*shape: int) -> Tensor:
    return tk.zeros(shape, dtype=tk.float64)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().tolist()


def nodes(*tensors: Tensor) -> list[str | None]:
    return [None if t.grad_fn is None else t.grad_fn.name() for t in tensors]


# ---- histories


def test_a_change_of_a_view_changes_the_base_and_all_its_views() -> None:
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = x * 2.0
    before = y.grad_fn
    v, u = y[:2], y[1:]
    v.mul_(3.0)
    assert nodes(y, v, u) == ["CopySlices", "AsStridedBackward", "AsStridedBackward"]
    assert y.grad_fn.next_functions[0][0] is before
    assert y.grad_fn.next_functions[1][0].name() == "MultiplyBackward"
    assert u.grad_fn.next_functions == ((y.grad_fn, 0),)
    assert (y._version, v._version, u._version) == (1, 1, 1)
    assert y.is_leaf is v.is_leaf is False
    (u * u).sum().backward()
    assert values_of(x.grad) == [0.0, 2 * 12 * 6.0, 2 * 6 * 2.0, 2 * 8 * 2.0]


def test_a_chain_of_views_collapses_on_the_root() -> None:
    y = leaf(np.zeros((2, 3, 4))) * 1.0
    part = y[0].T[1:][:, 2]
    y.add_(1.0)
    assert part.grad_fn.next_functions == ((y.grad_fn, 0),)
    part.mul_(2.0)
    assert y.grad_fn.name() == "CopySlices"
    assert part.grad_fn.next_functions == ((y.grad_fn, 0),)


def test_the_node_of_a_view_is_renewed_only_after_a_change() -> None:
    y = leaf([1.0, 2.0]) * 1.0
    v = y[0]
    first = v.grad_fn
    assert v.grad_fn is first
    assert first.name() == "BasicIndexBackward"
    y.add_(1.0)
    second = v.grad_fn
    assert second is not first
    assert v.grad_fn is second


def test_views_made_before_anything_was_recorded() -> None:
    """Note [Views of what needed no gradient]."""
    x = leaf([1.0, 2.0])
    for change in (lambda b, v: v.add_(x), lambda b, v: b[:2].add_(x), lambda b, v: b.__setitem__(slice(2), x)):
        b = zeros(4)
        v, u, other = b[:2], b[1:], b.reshape((2, 2))[0]
        d, part_of_d = b.detach(), b.detach()[:2]
        apart = b + 0.0
        change(b, v)
        assert [t.requires_grad for t in (b, v, u, other)] == [True] * 4
        assert [t.requires_grad for t in (d, part_of_d, apart)] == [False] * 3
        assert not d.is_leaf or d.grad_fn is None
        assert nodes(v, u, other) == ["AsStridedBackward"] * 3
        assert values_of(grad((u * u).sum(), x)[0]) == [0.0, 4.0]
        assert values_of(grad(other.sum() + v.sum(), x)[0]) == [2.0, 2.0]


def test_old_views_are_found_beside_young_ones_of_any_kind() -> None:
    """A young view may refer to the memory through the array of an old one, as a diagonal of a slice does."""
    x = leaf([1.0, 2.0])
    assert not has_relatives(tk.zeros((2, 4)))
    memory = np.zeros((2, 4), np.float32)
    for b in (tk.zeros((2, 4)), tk.asarray(memory), tk.asarray(memory[:]), tk.asarray(memory[:, ::-1])):
        v = b[:, :2]
        gc.collect()
        u = tk.linalg.diagonal(v)
        b[:, 0] = x
        assert [t.requires_grad for t in (b, v, u)] == [True] * 3


@pytest.mark.parametrize("many", [False, True])
def test_old_views_are_found_too(many: bool) -> None:
    class Own(tk.Tensor):
        pass

    x = leaf([1.0, 2.0])
    memory = np.zeros(4)
    for b in (zeros(4), tk.asarray(memory), tk.asarray(memory[:])):
        views = [b[:2], b[2:].as_subclass(Own)] * (50 if many else 1)
        seen = b.numpy()
        gc.collect()  # they are in the oldest generation now
        b[1:3] = x
        assert all(v.requires_grad for v in views)
        assert values_of(grad(views[0].sum() + views[1].sum() * 3.0, x)[0]) == [1.0, 3.0]
        assert seen.tolist() == [0.0, 1.0, 2.0, 0.0]
        b.detach().zero_()


def test_an_integer_tensor_takes_values_without_a_history() -> None:
    x = leaf([1.5, 2.5])
    n = tk.zeros(3, dtype=tk.int64)
    v = n[:2]
    n[1:] = x
    v.copy_(x)
    assert n.tolist() == [1, 2, 2]
    assert not n.requires_grad
    assert not v.requires_grad


def test_a_part_of_a_buffer_as_an_accumulator() -> None:
    x = leaf([1.0, 2.0])
    buffer = zeros(4)
    total = buffer[1:3]
    for factor in (1.0, 2.0):
        total += x * factor
    assert buffer.tolist() == [0.0, 3.0, 6.0, 0.0]
    (buffer * buffer).sum().backward()
    assert values_of(x.grad) == [18.0, 36.0]


def test_results_of_split_and_unstack_may_be_changed() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1.0
    for factor, row in enumerate(tk.unstack(y), 2):
        row.mul_(float(factor))
    first, second = tk.split(y, 2, axis=1)
    first += second
    assert y.tolist() == [[6.0, 4.0], [21.0, 12.0]]
    y.sum().backward()
    assert values_of(x.grad) == [[2.0, 4.0], [3.0, 6.0]]


def test_assigning_what_is_there_already_adds_no_node() -> None:
    y = leaf([1.0, 2.0, 3.0]) * 1.0
    y[1:] += 5.0
    assert y.tolist() == [1.0, 7.0, 8.0]
    assert y.grad_fn.name() == "CopySlices"
    y[:2] = y[1:]  # other elements: a copy
    assert y.tolist() == [7.0, 8.0, 8.0]
    assert y.grad_fn.name() == "BasicPutBackward"


def test_assigning_what_is_there_with_another_history() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    with tk.no_grad():
        constant = y[1:]
    y[1:] = constant
    assert values_of(grad(y.sum(), x)[0]) == [1.0, 0.0, 0.0]
    b = zeros(3)
    p = b[1:].requires_grad_()
    b[1:] = p
    assert b.grad_fn.name() == "BasicPutBackward"
    assert not p.is_leaf  # it is a view of the base as it is now; what it was collects a gradient still
    (b * 2.0).sum().backward()
    assert values_of(p.grad) == [2.0, 2.0]


def test_the_source_is_a_view_of_what_it_is_written_into() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    tail = y[1:]
    y[:2] = tail  # both hold y[1], which is x[2] from now on
    assert tail.tolist() == [3.0, 3.0]
    assert values_of(grad((tail * tensor([1.0, 10.0])).sum(), x)[0]) == [0.0, 0.0, 11.0]
    y = x * 1.0
    tail, whole = y[1:], y.reshape((3,))
    whole[:2] = tail
    assert values_of(grad((tail * tensor([1.0, 10.0])).sum(), x)[0]) == [0.0, 0.0, 11.0]
    y = x * 1.0
    tail, head = y[1:], y[:2]
    head.copy_(tail)
    head.add_(tail)
    assert values_of(grad((tail * tensor([1.0, 10.0])).sum(), x)[0]) == [0.0, 0.0, 12.0]


def test_complex_views() -> None:
    x = tk.tensor([1 + 2j, 3 - 1j], dtype=tk.complex128, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        y = x * 1.0
        y[0].mul_(x[1])
        y[1:] *= 2j
        return tk.real(y * tk.conj(y))

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_on_a_device_without_values() -> None:
    x = tk.zeros(4, device="meta").requires_grad_()
    b = tk.zeros(4, device="meta")
    v, u = b[:2], b.reshape((2, 2)).T
    v.add_(x[2:])
    assert nodes(b, v, u) == ["CopySlices", "AsStridedBackward", "AsStridedBackward"]
    u.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (4,)


# ---- what is refused, and that nothing has changed then


def _unchanged(target: Tensor, change: Callable[[], Any], kind: type[Exception], text: str) -> None:
    before, node, version = target.tolist(), target.grad_fn, target._version
    with pytest.raises(kind, match=text):
        change()
    assert target.tolist() == before
    assert target.grad_fn is node
    assert target._version == version


def test_leaves_and_their_views_refuse() -> None:
    x = leaf([1.0, 2.0])
    _unchanged(x, lambda: x.add_(1.0), RuntimeError, rf"\[add_\] {LEAF}")
    _unchanged(x, lambda: x.zero_(), RuntimeError, LEAF)
    _unchanged(x, lambda: x.__setitem__([0], 1.0), RuntimeError, LEAF)
    _unchanged(x, lambda: x.__setitem__(0, 1.0), RuntimeError, VIEW_OF_LEAF)
    _unchanged(x, lambda: x[0].add_(1.0), RuntimeError, rf"\[add_\] {VIEW_OF_LEAF}")
    _unchanged(x, lambda: x.reshape((2, 1))[1:].copy_(x), RuntimeError, VIEW_OF_LEAF)
    _unchanged(x, lambda: x.reshape((2, 1)).__setitem__(0, 1.0), RuntimeError, VIEW_OF_LEAF)
    b = zeros(2)
    v = b[:1].requires_grad_()
    _unchanged(v, lambda: v.add_(1.0), RuntimeError, VIEW_OF_LEAF)
    y = x * 1.0
    with tk.no_grad():
        own = y[:1]
    own.requires_grad_()  # a leaf on the memory of a tensor that is none
    _unchanged(y, lambda: own.add_(1.0), RuntimeError, LEAF)
    early = b[1:]
    b.requires_grad_()
    _unchanged(b, lambda: early.add_(1.0), RuntimeError, VIEW_OF_LEAF)
    with tk.no_grad():
        x[0].add_(1.0)
        early.add_(1.0)
    assert x.tolist() == [2.0, 2.0]


def test_a_view_made_under_no_grad_refuses_outside() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1.0
    with tk.no_grad():
        v, w = y[:1], x[:1]
        v.mul_(3.0)  # where nothing is recorded it is not in the way
    assert not v.requires_grad
    for change in (lambda: v.mul_(2.0), lambda: v.add_(x[:1]), lambda: v.__setitem__(0, 1.0), lambda: v.copy_(x[1:])):
        _unchanged(y, change, RuntimeError, NO_GRAD)
    _unchanged(y, lambda: tk.ops.tk.add.out(zeros(1), 1.0, out=v), RuntimeError, NO_GRAD)
    _unchanged(x, lambda: w.mul_(2.0), RuntimeError, NO_GRAD)
    assert y.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_stretched_tensor_refuses(recorded: bool) -> None:
    y = leaf([[1.0], [2.0]]) * 1.0 if recorded else tk.ones((2, 1))
    wide = tk.broadcast_to(y, (2, 3))
    for change in (lambda: wide.add_(1.0), lambda: wide.copy_(y), lambda: wide.__setitem__(0, 1.0), wide.zero_):
        _unchanged(y, change, RuntimeError, OVERLAP)
    y.add_(1.0)
    wide[:, :1].mul_(2.0)  # a part that repeats nothing
    assert y.tolist() == ([[4.0], [6.0]] if recorded else [[4.0], [4.0]])


def test_a_result_that_does_not_fit_into_a_view() -> None:
    y = leaf([1.0, 2.0]) * 1.0
    v = y[:1]
    _unchanged(y, lambda: v.add_(tk.ones((3, 1), dtype=tk.float64)), ValueError, "does not fit")
    _unchanged(y, lambda: v.mul_(tk.tensor([1j])), TypeError, "complex")
    _unchanged(y, lambda: v.__setitem__(5, 1.0), IndexError, "out of range")
    v.add_(1.0)
    assert y.tolist() == [2.0, 2.0]


# ---- saved tensors


@pytest.mark.parametrize(
    "change",
    [
        lambda y, v: y.add_(1.0),
        lambda y, v: v.add_(1.0),
        lambda y, v: y[2:].mul_(2.0),  # other elements of the same memory: the counter is one
        lambda y, v: y.detach().add_(1.0),
        lambda y, v: y.__setitem__(0, 1.0),
    ],
)
def test_a_saved_view_that_was_changed_is_found(change: Callable[[Tensor, Tensor], Any]) -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1.0
    v = y[:2]
    z = v * v
    change(y, v)
    with pytest.raises(RuntimeError, match=f"{MODIFIED}.* is at version 1; expected version 0 instead"):
        z.sum().backward()
    assert x.grad is None


def test_what_was_saved_before_a_no_grad_change() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1.0
    z = y[0] * y[1]
    with tk.no_grad():
        y[0] = 100.0
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.backward()


# ---- hooks and retained gradients


def test_hooks_stay_with_the_node_and_retain_grad_moves() -> None:
    x = leaf([1.0, 1.0, 1.0, 1.0])
    y = x * 2.0
    y.retain_grad()
    seen: list[tuple[str, list[float]]] = []
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y[1:].mul_(3.0)
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    assert y.retains_grad
    y.sum().backward()
    assert seen == [("new", [1.0] * 4), ("old", [1.0, 3.0, 3.0, 3.0])]
    assert values_of(y.grad) == [1.0] * 4


def test_hooks_and_retained_gradients_of_a_view() -> None:
    x = leaf([1.0, 1.0, 1.0])
    y = x * 2.0
    v = y[:2]
    v.retain_grad()
    seen: list[str] = []
    v.register_hook(lambda g: seen.append("old"))
    y.mul_(3.0)
    assert v.retains_grad
    v.register_hook(lambda g: seen.append("new"))
    v.sum().backward()
    assert seen == ["new"]
    assert values_of(v.grad) == [1.0, 1.0]
    y = x * 2.0
    v = y[:2]
    v.retain_grad()
    v.mul_(3.0)
    y.sum().backward()  # the view's new node is no part of this graph
    assert v.grad is None
    (v * 5.0).sum().backward()
    assert values_of(v.grad) == [5.0, 5.0]


def test_a_gradient_edge_is_that_of_the_moment() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    v = y[:1]
    old = tk.autograd.graph.get_gradient_edge(v) if hasattr(tk.autograd.graph, "get_gradient_edge") else None
    y.mul_(5.0)
    (g,) = grad(v.sum(), v)
    assert values_of(g) == [1.0]
    assert old is None or old.node is not v.grad_fn


# ---- life times


def test_no_cycles() -> None:
    """Note [Views and reference cycles]."""
    gc.collect()
    gc.disable()
    try:
        for change in (
            lambda y, x: y[0].mul_(x[0]),
            lambda y, x: y[:2].log_(),
            lambda y, x: y.__setitem__(0, y[1] * 2.0),
            lambda y, x: y[1:].copy_(y[:1]),
            lambda y, x: y.mul_(y[0].clone()),
            lambda y, x: y[0].exp_(),
        ):
            x = leaf([1.0, 2.0, 3.0])
            y = x * 2.0
            v = y[1:]
            change(y, x)
            v.add_(1.0)
            loss = (v * v).sum() + y.sum()
            loss.backward(retain_graph=True)
            watched = [weakref.ref(t) for t in (x, y, v, loss)] + [weakref.ref(y.grad_fn), weakref.ref(v.grad_fn)]
            del x, y, v, loss
            assert [ref() for ref in watched] == [None] * 6
    finally:
        gc.enable()


def test_a_detached_tensor_keeps_no_graph() -> None:
    y = leaf([1.0, 2.0]) * 2.0
    z = y * 3.0
    node = weakref.ref(z.grad_fn)
    kept = [z.detach(), z.detach()[0], z[1].detach()]
    del z
    assert node() is None
    assert [k.tolist() for k in kept] == [[6.0, 12.0], 6.0, 12.0]


def test_a_view_outlives_its_base() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 2.0
    v = y[1:]
    y[2] = 10.0
    del y
    assert values_of(grad((v * v).sum(), x)[0]) == [0.0, 16.0, 0.0]
    v.mul_(2.0)
    assert values_of(grad((v * v).sum(), x)[0]) == [0.0, 64.0, 0.0]
