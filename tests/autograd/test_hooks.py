"""Hooks: their order for one node and for a leaf, what they may return, and how they are taken back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def ones(*shape: int) -> Tensor:
    return tk.ones(shape, dtype=tk.float64)


class _Traced(Function):
    """Doubles; notes when its backward runs, and what it looks like then."""

    log: list[str] = []  # noqa: RUF012  # emptied by the fixture

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        _Traced.log.append(f"apply {grads[0].item():g}")
        return grads[0] * 2.0


@pytest.fixture
def log() -> list[str]:
    _Traced.log = []
    return _Traced.log


def _note(log: list[str], name: str, factor: float | None = None) -> Callable[[Tensor], Tensor | None]:
    """A tensor hook that writes down the gradient it sees, and multiplies it."""

    def hook(g: Tensor) -> Tensor | None:
        log.append(f"{name} {g.item():g}")
        return None if factor is None else g * factor

    return hook


# ---- Note [Order of hooks], line by line


def test_order_of_hooks_for_a_node(log: list[str]) -> None:
    x = leaf(1.0)
    y = _Traced.apply(x * 1.0)
    node = y.grad_fn

    def after(grad_inputs: Any, grad_outputs: Any) -> None:
        released = False
        try:
            _ = node.saved_tensors
        except RuntimeError:
            released = True
        log.append(f"node hook {grad_inputs[0].item():g} {grad_outputs[0].item():g} released={released}")

    node.register_hook(after)
    node.register_prehook(lambda grads: log.append(f"node pre-hook {grads[0].item():g}") or (grads[0] * 5.0,))
    y.retain_grad()
    y.register_hook(_note(log, "tensor hook", 3.0))
    y.register_hook(_note(log, "second tensor hook", 7.0))
    y.backward()
    assert log == [
        "tensor hook 1",
        "second tensor hook 3",
        "node pre-hook 21",
        "apply 105",
        "node hook 210 105 released=True",
    ]
    assert y.grad is not None
    assert y.grad.item() == 21.0  # retained after all tensor hooks, before the node's pre-hooks
    assert x.grad is not None
    assert x.grad.item() == 210.0


def test_order_of_hooks_for_a_leaf(log: list[str]) -> None:
    x = leaf(1.0)
    y = x * 2.0
    accumulator = y.grad_fn.next_functions[0][0]

    def state() -> str:
        return "none" if x.grad is None else f"{x.grad.item():g}"

    accumulator.register_hook(lambda inputs, outputs: log.append(f"node hook {inputs} {outputs[0].item():g}"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(f"post-accumulate {t is x} {state()}"))
    accumulator.register_prehook(lambda grads: log.append(f"node pre-hook {state()}") or (grads[0] * 5.0,))
    x.register_hook(_note(log, "tensor hook", 3.0))
    y.backward()
    assert log == ["tensor hook 2", "node pre-hook none", "post-accumulate True 30", "node hook () 30"]


def test_retained_gradients_come_after_hooks_registered_later() -> None:
    y = leaf([1.0, 2.0]) * 2.0
    y.register_hook(lambda g: g * 10.0)
    y.retain_grad()
    y.register_hook(lambda g: g * 10.0)
    y.sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [100.0, 100.0]


@pytest.mark.parametrize("deeper", [False, True])
def test_a_captured_gradient_has_passed_the_hooks_of_its_tensor(deeper: bool) -> None:
    x = leaf(1.0)
    y = x * 2.0
    y.register_hook(lambda g: g * 10.0)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5.0,))  # after the capture
    wanted = [y, x] if deeper else [y]
    found = grad(y * 3.0, wanted)
    assert found[0] is not None
    assert found[0].item() == 30.0
    if deeper:
        assert found[1] is not None
        assert found[1].item() == 300.0


def test_a_captured_leaf_gradient_has_passed_its_hooks_only() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: g * 10.0)
    x.register_post_accumulate_grad_hook(lambda t: pytest.fail("nothing is accumulated"))
    (found,) = grad(x * 2.0, x)
    assert found is not None
    assert found.item() == 20.0
    assert x.grad is None


def test_hooks_see_the_whole_gradient_once() -> None:
    x = leaf(3.0)
    y = x * 1.0
    seen: list[float] = []
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2.0 + y * 5.0).backward()
    assert seen == [7.0]


def test_a_hook_may_remove_another() -> None:
    x = leaf(1.0)
    y = x * 2.0
    calls: list[str] = []

    def first(g: Tensor) -> None:
        calls.append("first")
        second.remove()
        y.register_hook(lambda g: calls.append("added"))

    handle = y.register_hook(first)
    second = y.register_hook(lambda g: calls.append("second"))
    y.backward(retain_graph=True)
    assert calls == ["first", "second"]  # what is called was settled before
    handle.remove()
    calls.clear()
    y.backward()
    assert calls == ["added"]


def test_a_hook_that_returns_no_tensor_is_named() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0

    def wrong(g: Tensor) -> Any:
        return "text"

    y.register_hook(wrong)
    with pytest.raises(TypeError, match=r"\[MultiplyBackward\] a hook returned 'text' .*wrong.*index 0"):
        y.sum().backward()


def test_node_hooks_run_in_the_order_of_registration() -> None:
    y = leaf(1.0) * 2.0
    order: list[str] = []
    for name in "abc":
        y.grad_fn.register_prehook(lambda grads, name=name: order.append(f"pre {name}"))
        y.grad_fn.register_hook(lambda i, o, name=name: order.append(f"post {name}"))
    y.backward()
    assert order == ["pre a", "pre b", "pre c", "post a", "post b", "post c"]


def test_hooks_of_one_output_do_not_touch_the_others() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2.0 + grads[1] * 3.0

    x = leaf(1.0)
    a, b = Two.apply(x)
    b.register_hook(lambda g: g * 100.0)
    b.retain_grad()
    (a + b).backward()
    assert x.grad is not None
    assert b.grad is not None
    assert (x.grad.item(), b.grad.item()) == (302.0, 100.0)


# ---- what a hook may return


def test_a_hook_that_returns_none_changes_nothing() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    x.register_hook(lambda g: None)
    y.register_hook(lambda g: None)
    y.grad_fn.register_prehook(lambda grads: None)
    y.grad_fn.register_hook(lambda i, o: None)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("where", ["leaf", "tensor"])
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (5, r"a hook returned 5 for a gradient of shape \(2,\), dtype float64: return None or a Tensor of that shape"),
        (tk.ones(3, dtype=tk.float64), r"a hook returned a tensor of shape \(3,\), dtype float64"),
        (tk.ones(1, dtype=tk.float64), r"a hook returned a tensor of shape \(1,\)"),
        (tk.ones(2), r"a hook returned a tensor of shape \(2,\), dtype float32"),
        (tk.ones(2, dtype=tk.complex128), r"a hook returned a tensor of shape \(2,\), dtype complex128"),
    ],
)
def test_a_wrong_result_of_a_tensor_hook(where: str, result: Any, text: str) -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    handle = (x if where == "leaf" else y).register_hook(lambda g: result)
    name = "AccumulateGrad" if where == "leaf" else "MultiplyBackward"
    with pytest.raises(RuntimeError, match=rf"\[{name}\] {text}"):
        y.sum().backward(retain_graph=True)
    assert x.grad is None
    assert tk.is_grad_enabled()
    handle.remove()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_wrong_result_of_a_node_pre_hook() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    with y.grad_fn.register_prehook(lambda grads: (grads[0], grads[0])):  # noqa: SIM117
        with pytest.raises(RuntimeError, match=r"\[MultiplyBackward\] its pre-hook returned 2 gradients, expected 1"):
            y.sum().backward(retain_graph=True)
    for wrong in (5, ones(3)):
        with y.grad_fn.register_prehook(lambda grads, wrong=wrong: (wrong,)):  # noqa: SIM117
            with pytest.raises(RuntimeError, match=r"\[MultiplyBackward\] a hook returned .* for a gradient of"):
                y.sum().backward(retain_graph=True)
    assert x.grad is None
    y.grad_fn.register_prehook(lambda grads: grads[0] * 3.0)  # one gradient needs no tuple
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_wrong_result_of_a_node_hook() -> None:
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    y = x * w
    with y.grad_fn.register_hook(lambda i, o: (i[0],)):  # noqa: SIM117
        with pytest.raises(RuntimeError, match=r"\[MultiplyBackward hook\] returned 1 gradients, expected 2"):
            y.sum().backward(retain_graph=True)
    with y.grad_fn.register_hook(lambda i, o: (5, i[1])):  # noqa: SIM117
        with pytest.raises(TypeError, match=r"\[MultiplyBackward\] got int as the gradient of index 0"):
            y.sum().backward(retain_graph=True)
    x.grad = w.grad = None
    y.grad_fn.register_hook(lambda i, o: (i[0] * 10.0, None))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 10.0]
    assert w.grad is None


def test_what_a_post_accumulate_hook_returns_is_ignored() -> None:
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda t: "anything")
    (x * 2.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0


def test_a_post_accumulate_hook_may_step_and_clear() -> None:
    x = leaf([1.0, 2.0])

    def step(t: Tensor) -> None:
        assert not tk.is_grad_enabled()
        t.sub_(t.grad * 0.5)
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    assert x.grad is None
    assert x.tolist() == [0.0, 0.0]
    assert x.is_leaf


# ---- handles and registration


def test_handles_take_hooks_back() -> None:
    x = leaf(1.0)
    y = x * 2.0
    calls: list[str] = []
    handles = [
        x.register_hook(lambda g: calls.append("leaf")),
        x.register_post_accumulate_grad_hook(lambda t: calls.append("post")),
        y.register_hook(lambda g: calls.append("tensor")),
        y.grad_fn.register_hook(lambda i, o: calls.append("node")),
        y.grad_fn.register_prehook(lambda g: calls.append("pre")),
    ]
    y.backward(retain_graph=True)
    assert calls == ["tensor", "pre", "node", "leaf", "post"]
    for handle in handles:
        handle.remove()
        handle.remove()  # a second time does nothing
    calls.clear()
    y.backward()
    assert calls == []


def test_a_handle_is_a_context_manager() -> None:
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 10.0):
        (x * 2.0).backward()
    (x * 2.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 22.0


def test_a_hook_may_remove_itself() -> None:
    x = leaf(1.0)
    calls: list[int] = []

    def once(g: Tensor) -> None:
        calls.append(1)
        handle.remove()

    handle = x.register_hook(once)
    x.register_hook(lambda g: calls.append(2))
    for _ in range(2):
        (x * 2.0).backward()
    assert calls == [1, 2, 2]


def test_a_leaf_hook_serves_every_graph() -> None:
    x = leaf(1.0)
    before = x * 1.0  # recorded before the hook is there
    x.register_hook(lambda g: g * 10.0)
    before.backward()
    (x * 2.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 30.0


def test_hooks_are_functions() -> None:
    x = leaf(1.0)
    y = x * 1.0
    for register in (
        x.register_hook, y.register_hook, x.register_post_accumulate_grad_hook, y.grad_fn.register_hook,
        y.grad_fn.register_prehook,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=rf"\[{register.__name__}\] a hook must be callable, got int: pass"):
            register(3)
    y.backward()


def test_tensors_without_gradient_take_no_hooks() -> None:
    plain = tk.ones(2)
    with pytest.raises(RuntimeError, match=r"\[register_hook\] cannot register a hook on a tensor that.*: call req"):
        plain.register_hook(lambda g: None)
    with pytest.raises(RuntimeError, match=r"\[register_post_accumulate_grad_hook\] cannot register a hook on"):
        plain.register_post_accumulate_grad_hook(lambda t: None)
    with pytest.raises(RuntimeError, match=r"can't retain_grad on Tensor that has requires_grad=False: compute"):
        plain.retain_grad()
    with pytest.raises(RuntimeError, match=r"cannot be registered on non-leaf tensors: register it on the leaf"):
        (leaf(1.0) * 2.0).register_post_accumulate_grad_hook(lambda t: None)
    assert plain.grad_fn is None
    assert not plain.retains_grad


# ---- retain_grad


def test_retain_grad() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    assert not y.retains_grad
    assert y.grad is None
    y.retain_grad()
    y.retain_grad()  # once is enough
    assert y.retains_grad
    (y * 3.0).sum().backward(retain_graph=True)
    (y * 5.0).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [8.0, 8.0]


def test_retain_grad_of_a_leaf_is_what_a_leaf_does_anyway() -> None:
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0


def test_retained_gradients_have_history_under_create_graph() -> None:
    x = leaf(2.0)
    y = x * x
    y.retain_grad()
    (y * y * y).backward(create_graph=True)
    assert y.grad is not None
    (second,) = grad(y.grad, x)
    assert second is not None
    assert second.item() == pytest.approx(6 * 4.0 * 4.0)  # d/dx 3 y^2 = 6 y y'
    x.grad = y.grad = None  # they refer to the graph that refers to them


def test_retain_grad_keeps_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = x * 2.0
        y.retain_grad()
        z = y * 3.0
        watched = weakref.ref(y)
        del y
        assert watched() is None
        z.backward()
    finally:
        gc.enable()
    assert x.grad is not None
    assert x.grad.item() == 6.0


def test_hooks_are_recorded_under_create_graph() -> None:
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g * g)
    (first,) = grad((x * x).sum(), x, create_graph=True)
    assert first is not None
    np.testing.assert_allclose(first.detach().numpy(), [4.0, 16.0])
    with tk.no_grad():
        assert first.requires_grad
    seen = x.register_hook(lambda g: None)
    (second,) = grad(first.sum(), x)  # d (2x)^2 / dx = 8x, which passes the hook that squares
    seen.remove()
    assert second is not None
    np.testing.assert_allclose(second.detach().numpy(), [64.0, 256.0])


def test_node_hooks_see_validated_gradients() -> None:
    """What a formula returns is summed to the shape of the input and cast to its dtype before hooks get it."""

    class Wide(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: tk.Tensor) -> tk.Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: tk.Tensor) -> tk.Tensor:
            return tk.broadcast_to(g, (4, 3)).astype(tk.float64)

    x = tk.ones(3, dtype=tk.float32).requires_grad_()
    y = Wide.apply(x)
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda results, grads: seen.append((results[0].shape, results[0].dtype)))
    tk.sum(y).backward()
    assert seen == [((3,), tk.float32)]
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
