"""In-place operations under autograd: what is refused, what is found out, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad, gradcheck, gradgradcheck

LEAF = r"a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = r"a view of a leaf Variable that requires grad is being used in an in-place operation"
MODIFIED = r"one of the variables needed for gradient computation has been modified by an inplace operation"


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def constant(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().numpy()


# ---- leaves


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("add_", lambda x: x.add_(1.0)),
        ("multiply_", lambda x: x.mul_(constant([2.0, 3.0]))),
        ("exp_", lambda x: x.exp_()),
        ("copy_", lambda x: x.copy_(constant([5.0, 5.0]))),
    ],
)
def test_a_leaf_refuses(name: str, change: Callable[[Tensor], Any]) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=rf"\[{name}\] {LEAF}: do it in a tk\.no_grad\(\) block, or"):
        change(x)
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0
    assert x.is_leaf


def test_augmented_assignment_to_a_leaf_refuses() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=LEAF):
        x += 1.0
    assert x.tolist() == [1.0, 2.0]


def test_a_view_of_a_leaf_refuses() -> None:
    x = leaf([1.0, 2.0])
    for change in (lambda: x[0].add_(1.0), lambda: tk.reshape(x, (2, 1))[1:].mul_(2.0)):
        with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
            change()
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0


def test_no_grad_updates_a_parameter() -> None:
    w = leaf([1.0, 2.0])
    for _ in range(3):
        (w * w).sum().backward()
        with tk.no_grad():
            w -= 0.25 * w.grad
            assert w.requires_grad
            assert w.is_leaf
        w.grad = None
    np.testing.assert_allclose(values_of(w), np.array([1.0, 2.0]) / 8)
    assert w._version == 3
    with tk.no_grad():
        w[0] = 7.0
        w[tk.tensor([False, True])] = 9.0
    assert w.tolist() == [7.0, 9.0]
    assert w.requires_grad


def test_the_detached_tensor_may_be_changed() -> None:
    w = leaf([1.0, 2.0])
    w.detach().mul_(3.0)
    assert w.tolist() == [3.0, 6.0]
    assert w.requires_grad


# ---- what is recorded is what the functional form records


_CHANGES: list[tuple[str, Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = [
    ("add_", lambda y, w: y.add_(w), lambda y, w: y + w),
    ("sub_", lambda y, w: y.sub_(w), lambda y, w: y - w),
    ("exp_", lambda y, w: y.exp_(), lambda y, w: tk.exp(y)),
    ("tanh_", lambda y, w: y.tanh_(), lambda y, w: tk.tanh(y)),
    ("sqrt_", lambda y, w: y.sqrt_(), lambda y, w: tk.sqrt(y)),
    ("neg_", lambda y, w: y.neg_(), lambda y, w: -y),
    ("sigmoid_", lambda y, w: y.sigmoid_(), lambda y, w: tk.sigmoid(y)),
    ("relu_", lambda y, w: y.relu_(), lambda y, w: tk.relu(y)),
    ("copy_", lambda y, w: y.copy_(w), lambda y, w: tk.broadcast_to(w, y.shape)),
]


@pytest.mark.parametrize(("name", "change", "functional"), _CHANGES)
def test_a_recorded_change_is_as_the_functional_form(
    name: str, change: Callable[[Tensor, Tensor], Tensor], functional: Callable[[Tensor, Tensor], Tensor]
) -> None:
    x, w = leaf([[0.5, 1.5], [2.5, 0.25]]), leaf([0.75, 1.25])

    def through(x: Tensor, w: Tensor) -> Tensor:
        y = x * 2.0
        changed = change(y, w)
        assert changed is y
        return tk.sin(y) * w + x

    def apart(x: Tensor, w: Tensor) -> Tensor:
        return tk.sin(functional(x * 2.0, w)) * w + x

    ours, theirs = through(x, w), apart(x, w)
    np.testing.assert_allclose(values_of(ours), values_of(theirs), rtol=1e-14)
    seed = tk.ones((2, 2), dtype=tk.float64)
    for a, b in zip(grad(ours, [x, w], seed), grad(theirs, [x, w], seed), strict=True):
        np.testing.assert_allclose(values_of(a), values_of(b), rtol=1e-13, atol=1e-15)
    assert gradcheck(through, (x, w))
    assert gradgradcheck(through, (x, w))


def test_in_place_product_and_quotient_by_constants() -> None:
    x = leaf([0.5, 1.5])

    def through(x: Tensor) -> Tensor:
        y = x + 1.0
        y.mul_(constant([2.0, 3.0]))
        y.div_(4.0)
        return y * y

    assert gradcheck(through, (x,))
    assert gradgradcheck(through, (x,))


def test_augmented_assignment_is_in_place_and_recorded() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * 2.0
    same = y
    y += w
    y -= 1.0
    y *= 3.0
    y /= 2.0
    assert y is same
    assert y._version == 4
    assert y.tolist() == [6.0, 10.5]
    y.sum().backward()
    assert values_of(x.grad).tolist() == [3.0, 3.0]
    assert values_of(w.grad).tolist() == [1.5, 1.5]


def test_a_buffer_becomes_part_of_the_graph() -> None:
    total = tk.zeros(2, dtype=tk.float64)
    x = leaf([1.0, 2.0])
    assert total.is_leaf
    for factor in (1.0, 2.0, 3.0):
        total += x * factor
    assert total.requires_grad
    assert not total.is_leaf
    total.sum().backward()
    assert values_of(x.grad).tolist() == [6.0, 6.0]


@pytest.mark.parametrize("change", [lambda y: y.sign_(), lambda y: y.fill_(2.0), lambda y: y.copy_(tk.ones(3))])
def test_values_that_become_constants(change: Callable[[Tensor], Any]) -> None:
    """The history ends with a node whose gradient is zero, as in PyTorch; its only output is number 0."""
    x = tk.tensor([1.5, -2.0, 3.0], requires_grad=True)
    y = x * 2.0
    change(y)
    assert y.requires_grad
    assert y.output_nr == 0
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_the_old_value_keeps_its_history() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    z = y + 0.0  # saves nothing of y
    before = y.grad_fn
    y.mul_(10.0)
    assert y.grad_fn is not before
    z.sum().backward(retain_graph=True)
    assert values_of(x.grad).tolist() == [2.0, 2.0]


def test_a_retained_gradient_is_that_of_the_changed_tensor() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    y.retain_grad()
    y.mul_(5.0)
    assert y.retains_grad
    (y * 3.0).sum().backward()
    assert values_of(y.grad).tolist() == [3.0, 3.0]
    assert values_of(x.grad).tolist() == [30.0, 30.0]


def test_no_grad_changes_a_non_leaf_without_a_record() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    with tk.no_grad():
        y.add_(100.0)
    (y * 1.0).sum().backward()
    assert y.tolist() == [102.0, 104.0]
    assert values_of(x.grad).tolist() == [2.0, 2.0]


# ---- saved tensors that were changed


def test_a_changed_input_is_found_with_its_versions() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    z = (y * y).sum()
    y.add_(1.0)
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=MODIFIED) as caught:
        z.backward()
    text = str(caught.value)
    assert "[MultiplyBackward]" in text
    assert "of shape (2,), dtype float64, which is output 0 of AddBackward, is at version 2; expected version 0" in text
    assert "clone()" in text
    assert x.grad is None
    assert tk.is_grad_enabled()


def test_a_changed_output_is_found() -> None:
    x = leaf([1.0, 2.0])
    y = tk.exp(x)
    with tk.no_grad():
        y.add_(1.0)
    with pytest.raises(RuntimeError, match=rf"\[ExpBackward\] {MODIFIED}.*tensor out.*version 1; expected version 0"):
        y.sum().backward()
    assert x.grad is None


def test_a_change_before_saving_does_no_harm() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    y.add_(1.0)
    (y * y).sum().backward()
    np.testing.assert_allclose(values_of(x.grad), 4 * (2 * np.array([1.0, 2.0]) + 1))


def test_a_change_to_what_was_not_saved_does_no_harm() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    z = y * 3.0 + 1.0
    y.exp_()
    z.sum().backward()
    assert values_of(x.grad).tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.detach().add_(1.0),
        lambda t: t[0].add_(1.0),
        lambda t: tk.reshape(t, (2, 1)).mul_(2.0),
        lambda t: t.__setitem__(0, 5.0),
        lambda t: t.__setitem__(tk.tensor([1]), 5.0),
        lambda t: t.copy_(t * 1.0),
    ],
)
def test_a_change_through_a_relative_is_found(change: Callable[[Tensor], Any]) -> None:
    x, w = leaf([1.0, 2.0]), constant([3.0, 4.0])
    y = (x * w).sum()
    change(w)
    assert w._version == 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()
    assert x.grad is None


def test_detach_shares_the_version_counter() -> None:
    x = leaf([1.0, 2.0])
    d = x.detach()
    part = d[1:]
    assert (x._version, d._version, part._version) == (0, 0, 0)
    part.add_(1.0)
    assert (x._version, d._version, part._version) == (1, 1, 1)
    assert x.detach()._version == 1
    assert (x * 1.0)._version == 0
    assert x.tolist() == [1.0, 3.0]


# ---- tensors that others share memory with; more of them in test_views.py


def test_a_tensor_with_views_may_be_changed() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    part = y[0]
    y.add_(1.0)
    part.mul_(2.0)
    assert y.tolist() == [6.0, 5.0]
    assert y._version == 2
    (y.sum() + part).backward()
    assert values_of(x.grad).tolist() == [8.0, 2.0]


def test_memory_that_an_array_shares() -> None:
    x = leaf([1.0, 2.0])
    array = np.zeros(2)
    shared = tk.asarray(array)
    shared.add_(x)
    assert array.tolist() == [1.0, 2.0]
    shared.sum().backward()
    assert values_of(x.grad).tolist() == [1.0, 1.0]


def test_a_detached_tensor_has_a_history_of_its_own() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    d = y.detach()
    d.add_(x)
    assert y.tolist() == [3.0, 6.0]
    assert y._version == d._version == 1
    assert (y.grad_fn.name(), d.grad_fn.name()) == ("MultiplyBackward", "AddBackward")


def test_assignment_to_all_items_is_a_recorded_copy() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    y[...] = x[1] * 3.0
    assert y.tolist() == [6.0, 6.0]
    y.sum().backward()
    assert values_of(x.grad).tolist() == [0.0, 6.0]


def test_item_assignment_to_a_leaf_is_refused() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        x[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


# ---- results that do not fit


def test_a_result_that_does_not_fit_is_refused() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    with pytest.raises(ValueError, match=r"\[add_\] the result of shape \(3, 2\) does not fit into the first argument"):
        y.add_(tk.ones((3, 2), dtype=tk.float64))
    with pytest.raises(TypeError, match="dtype complex128 cannot be written into a tensor of dtype float64"):
        y.add_(tk.tensor([1j, 1j], dtype=tk.complex128))
    assert y.tolist() == [2.0, 4.0]
    assert y._version == 0
    y.sum().backward()
    assert values_of(x.grad).tolist() == [2.0, 2.0]


def test_on_a_device_without_values() -> None:
    x = tk.zeros(2, device="meta").requires_grad_()
    y = x * 2.0
    y.add_(1.0)
    assert y._version == 1
    assert y.grad_fn.name() == "AddBackward"


@pytest.mark.parametrize("function", [tk.exp, tk.sigmoid, tk.sqrt])
def test_an_output_that_was_saved_can_be_changed_but_not_used(function: Any) -> None:
    """As in PyTorch: the change is allowed, and backward says that it needed the value."""
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = function(x)
    before = function(x.detach())
    y.add_(1)
    assert y.tolist() == (before + 1).tolist()
    with pytest.raises(RuntimeError, match="modified by an inplace operation: the saved tensor out"):
        tk.sum(y).backward()


@pytest.mark.parametrize("name", ["log_", "sqrt_", "multiply_", "divide_", "pow_"])
def test_a_formula_that_needs_the_old_values_has_them(name: str) -> None:
    operator = getattr(tk.ops.tk, name)
    count = len(operator.default.schema.arguments)
    inputs = [tk.tensor([0.5, 2.0, 3.0], dtype=tk.float64, requires_grad=True) for _ in range(count)]

    def function(x: Tensor, *others: Tensor) -> Tensor:
        return operator(x.clone(), *others)

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
    if count == 2:  # the one that is changed needs no gradient, and had none before
        assert gradcheck(lambda other: operator(inputs[0].detach().clone(), other), inputs[1:])
