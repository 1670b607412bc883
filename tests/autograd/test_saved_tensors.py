"""Hooks on saved tensors: which tensors they get, how they nest, what they may do, and what they leave behind."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tenkey.autograd.saved_tensors.saved_tensor_hooks import HOOKED, active_hooks
from tenkey.dispatch.local_state import current_state
from tests._backends import Host
from tests._gradients import collector_off


def leaf(*values: float) -> Any:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


class Product(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        y = x * w
        ctx.save_for_backward(x, None, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, none, w, y = ctx.saved_tensors
        assert none is None
        np.testing.assert_allclose(y.detach().numpy(), (x * w).detach().numpy())
        return g * w, g * x


class TestWhatIsPacked:
    def test_inputs_in_order_and_outputs(self) -> None:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        packed: list[Any] = []
        with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
            y = tk.exp(a * b)
        assert packed[0] is a  # an input is given itself, so that a hook can tell parameters
        assert packed[1] is b
        np.testing.assert_array_equal(packed[2].numpy(), np.exp([3.0, 8.0]))
        assert not packed[2].requires_grad  # an output without its history: no cycle
        assert y.grad_fn is not None

    def test_each_saved_tensor_is_packed_and_unpacked_once(self) -> None:
        counts = {"pack": 0, "unpack": 0}

        def pack(t: Any) -> Any:
            counts["pack"] += 1
            return t

        def unpack(t: Any) -> Any:
            counts["unpack"] += 1
            return t

        a, b = leaf(0.5, 2.0), leaf(3.0, 4.0)
        with saved_tensors_hooks(pack, unpack):
            y = tk.sum(tk.logaddexp(a, b))  # both formulas name both arguments
        assert counts == {"pack": 2, "unpack": 0}
        y.backward()
        assert counts == {"pack": 2, "unpack": 2}

    def test_what_is_recorded_outside_and_python_numbers_are_left_alone(self) -> None:
        a = leaf(1.0)
        packed: list[Any] = []
        before = a * a
        with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
            scaled = a * 3.0
            with tk.no_grad():
                tk.exp(a)
        (before + scaled * scaled).sum().backward()
        assert packed == []

    def test_lists_of_tensors(self) -> None:
        a, b = leaf(2.0, 3.0), leaf(5.0)
        packed: list[Any] = []
        with saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):  # type: ignore[func-returns-value]
            y = tk.sum(tk.einsum("i,j->ij", a, b))
        y.backward()
        assert packed
        np.testing.assert_array_equal(a.grad.numpy(), [5.0, 5.0])

    def test_functions_and_custom_operators_save_through_them(self) -> None:
        @tk.library.custom_op("docs_saving::cube", mutates_args=())
        def cube(x: tk.Tensor) -> tk.Tensor:
            return x * x * x

        cube.register_autograd(
            lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        )
        a, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        packed: list[Any] = []

        def pack(t: Any) -> Any:
            packed.append(t)
            return t.numpy().copy() if not t.requires_grad else t.detach().numpy().copy()

        with saved_tensors_hooks(pack, tk.asarray):
            y = Product.apply(a, w)
            assert [t.shape for t in packed] == [(2,)] * 3
            z = cube(y)
        assert len(packed) == 4
        tk.sum(z).backward()
        np.testing.assert_allclose(a.grad.numpy(), 3 * np.array([3.0, 8.0]) ** 2 * [3.0, 4.0])

    def test_assignment_and_other_in_place_operations(self) -> None:
        a, v = leaf(1.0, 2.0, 3.0), leaf(7.0)
        with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), tk.asarray):
            b = a * 1.5
            b[tk.tensor([1])] = v * v
            b.multiply_(b.detach() + 1)
            y = b.sum()
        y.backward()
        np.testing.assert_allclose(a.grad.numpy(), [1.5 * 2.5, 0.0, 1.5 * 5.5])
        np.testing.assert_allclose(v.grad.numpy(), [2 * 7 * 50.0])


class TestUnpacking:
    def test_gradients_of_every_order(self) -> None:
        a = leaf(0.3, 0.7)
        with saved_tensors_hooks(lambda t: t.detach().numpy().tolist(), lambda v: tk.tensor(v, dtype=tk.float64)):
            y = tk.sum(tk.sin(a) * tk.exp(a))
        (first,) = tk.autograd.grad(y, a, create_graph=True)
        (second,) = tk.autograd.grad(first.sum(), a, create_graph=True)
        (third,) = tk.autograd.grad(second.sum(), a)
        x = a.detach().numpy()
        np.testing.assert_allclose(first.detach().numpy(), np.exp(x) * (np.sin(x) + np.cos(x)))
        np.testing.assert_allclose(second.detach().numpy(), 2 * np.exp(x) * np.cos(x))
        np.testing.assert_allclose(third.numpy(), 2 * np.exp(x) * (np.cos(x) - np.sin(x)))

    def test_a_leaf_collects_through_what_was_unpacked(self) -> None:
        a = leaf(2.0)
        with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            y = tk.sum(a * a * a)
        (first,) = tk.autograd.grad(y, a, create_graph=True)
        first.sum().backward()  # through the saved leaf, which is another tensor now
        np.testing.assert_allclose(a.grad.numpy(), [12.0])

    def test_gradcheck_through_hooks(self) -> None:
        def function(x: Any, w: Any) -> Any:
            with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), tk.asarray):
                return tk.tanh(x @ w) / (1 + w[0] ** 2)

        rng = np.random.default_rng(0)
        x = tk.asarray(rng.normal(size=(2, 3))).requires_grad_()
        w = tk.asarray(rng.normal(size=3)).requires_grad_()
        assert tk.autograd.gradcheck(function, (x, w))
        assert tk.autograd.gradgradcheck(function, (x, w))

    def test_versions_are_the_hooks_own_affair(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            b = a * 1.0
            y = tk.sum(b * b)
        with tk.no_grad():
            b.multiply_(100.0)
        y.backward()
        np.testing.assert_array_equal(a.grad.numpy(), [2.0, 4.0])

    def test_retained_and_freed(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            y = tk.sum(a * a)
        y.backward(retain_graph=True)
        y.backward()
        np.testing.assert_array_equal(a.grad.numpy(), [4.0, 8.0])
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.backward()


class TestNesting:
    """Stacked contexts compose; the innermost is the first to pack and the last to unpack."""

    def test_the_outer_hook_packs_what_the_inner_one_made(self) -> None:
        order: list[str] = []

        def named(name: str) -> Any:
            return saved_tensors_hooks(
                lambda t: order.append(f"pack {name}") or t.detach(),  # type: ignore[func-returns-value]
                lambda t: order.append(f"unpack {name}") or t,  # type: ignore[func-returns-value]
            )

        a = leaf(2.0)
        with named("outer"), named("inner"):
            y = tk.exp(a)
        y.sum().backward()
        assert order == ["pack inner", "pack outer", "unpack outer", "unpack inner"]

    def test_save_on_cpu_inside_of_quantising(self) -> None:
        def quantise(t: Any) -> Any:
            return (t.detach().numpy() * 64).round().astype(np.int8)

        def restore(q: Any) -> Any:
            return tk.asarray(q.astype(np.float64) / 64)

        a = leaf(0.51, 0.26)
        kept: list[Any] = []
        with saved_tensors_hooks(lambda t: kept.append(quantise(t)) or kept[-1], restore), save_on_cpu():  # type: ignore[func-returns-value]
            y = tk.sum(a * a)
        assert [q.dtype for q in kept] == [np.int8] * 2  # the tensor in save_on_cpu's (device, tensor) was quantised
        y.backward()
        np.testing.assert_allclose(a.grad.numpy(), 2 * np.round(np.array([0.51, 0.26]) * 64) / 64)

    def test_tensors_in_structures_are_packed_one_by_one(self) -> None:
        a = leaf(1.0, 2.0, 3.0)
        shapes: list[Any] = []
        halves = saved_tensors_hooks(
            lambda t: {"parts": [t.detach()[:1], t.detach()[1:]], "n": 3},
            lambda d: tk.concat(d["parts"]),
        )
        outer = saved_tensors_hooks(lambda t: shapes.append(t.shape) or t.numpy().copy(), tk.asarray)  # type: ignore[func-returns-value]
        with outer, halves:
            y = tk.sum(tk.exp(a))
        y.backward()
        assert shapes == [(1,), (2,)]
        np.testing.assert_allclose(a.grad.numpy(), np.exp([1.0, 2.0, 3.0]))

    def test_an_object_without_tensors_ends_the_chain(self) -> None:
        a = leaf(1.0)
        store: list[Any] = []

        def forbidden(t: Any) -> Any:
            raise AssertionError("nothing is left to pack")

        inner = saved_tensors_hooks(lambda t: store.append(t.detach()) or len(store) - 1, store.__getitem__)  # type: ignore[func-returns-value]
        with saved_tensors_hooks(forbidden, forbidden), inner:
            y = tk.sum(tk.exp(a))
        y.backward()
        np.testing.assert_allclose(a.grad.numpy(), [np.e])

    def test_a_hook_is_off_while_it_runs(self) -> None:
        a = leaf(2.0)
        depth: list[int] = []

        def pack(t: Any) -> Any:
            depth.append(len(active_hooks()))
            with tk.enable_grad():  # records and saves, and must not come back here
                (t.detach().requires_grad_() ** 2).sum().backward()
            return t.detach()

        with saved_tensors_hooks(pack, lambda t: t):
            y = tk.exp(a)
        assert depth == [0]
        y.sum().backward()

    def test_one_context_entered_twice_and_left_out_of_order(self) -> None:
        hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
        with hooks, hooks:
            assert len(active_hooks()) == 2
        assert not current_state().include & HOOKED

        def generator() -> Iterator[None]:
            with hooks:
                yield

        first = generator()
        next(first)
        other = save_on_cpu()
        other.__enter__()
        first.close()  # the outer context ends first
        assert len(active_hooks()) == 1
        assert current_state().include & HOOKED
        other.__exit__(None, None, None)
        assert active_hooks() == ()
        assert not current_state().include & HOOKED


class TestErrors:
    def test_pack_must_not_change_the_tensor(self) -> None:
        a = leaf(1.0)
        with (
            saved_tensors_hooks(lambda t: t.multiply_(2.0), lambda t: t),
            pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
        ):
            tk.exp(a * 2.0)
        np.testing.assert_array_equal(tk.exp(a).detach().numpy(), np.exp([1.0]))

    @pytest.mark.parametrize("value", [None, 3, "text", np.ones(1)])
    def test_unpack_returns_a_tensor(self, value: Any) -> None:
        a = leaf(1.0)
        with saved_tensors_hooks(lambda t: t, lambda t: value):
            y = tk.exp(a)
        with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor"):
            y.sum().backward()

    def test_unpack_keeps_the_shape(self) -> None:
        a = leaf(1.0, 2.0)
        with saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
            y = tk.exp(a)
        with pytest.raises(RuntimeError, match=r"\(1,\) for out, which was saved with shape \(2,\)"):
            y.sum().backward()

    def test_an_exception_in_pack_arrives_and_changes_nothing(self) -> None:
        a = leaf(1.0, 2.0)

        def fail(t: Any) -> Any:
            raise KeyError("no room")

        b = a * 2.0
        node, version = b.grad_fn, b._version
        with saved_tensors_hooks(fail, lambda t: t):
            with pytest.raises(KeyError, match="no room"):
                tk.exp(b)
            with pytest.raises(KeyError, match="no room"):
                b.multiply_(b)
            with pytest.raises(KeyError, match="no room"):
                Product.apply(a, b)
            assert tk.is_grad_enabled()
            assert len(active_hooks()) == 1
        assert b.grad_fn is node
        assert b._version == version
        assert active_hooks() == ()
        tk.exp(b).sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), 2 * np.exp([2.0, 4.0]))

    def test_an_exception_in_unpack_arrives_and_the_next_backward_works(self) -> None:
        a = leaf(1.0)
        broken = [True]

        def unpack(t: Any) -> Any:
            if broken:
                raise OSError("the disk is gone")
            return t

        with saved_tensors_hooks(lambda t: t, unpack):
            y = tk.exp(a)
        with pytest.raises(OSError, match="the disk is gone"):
            y.sum().backward()
        assert a.grad is None
        broken.clear()
        y.sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), [np.e])

    def test_hooks_are_functions(self) -> None:
        with pytest.raises(TypeError, match="pack_hook must be a function, got int"):
            saved_tensors_hooks(1, lambda t: t)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="unpack_hook must be a function, got NoneType"):
            saved_tensors_hooks(lambda t: t, None)  # type: ignore[arg-type]

    def test_inference_tensors_are_refused_with_hooks_too(self) -> None:
        with tk.inference_mode():
            w = tk.ones(1, dtype=tk.float64)
        with (
            saved_tensors_hooks(lambda t: t, lambda t: t),
            pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"),
        ):
            leaf(1.0) * w


class TestDisabling:
    def test_entering_is_an_error_with_the_message(self) -> None:
        with disable_saved_tensors_hooks("not in here"):
            with pytest.raises(RuntimeError, match="not in here"), save_on_cpu():
                pass
            with (
                disable_saved_tensors_hooks("nor here"),
                pytest.raises(RuntimeError, match="nor here"),
                save_on_cpu(),
            ):
                pass
            with pytest.raises(RuntimeError, match="not in here"), save_on_cpu():
                pass
        with save_on_cpu():
            assert current_state().include & HOOKED
            with pytest.raises(RuntimeError, match="too late"), disable_saved_tensors_hooks("too late"):
                pass
        with save_on_cpu():  # the refusal left nothing behind
            pass
        with pytest.raises(TypeError, match="as a string"):
            disable_saved_tensors_hooks(3)  # type: ignore[arg-type]


class TestDevices:
    def test_save_on_cpu_keeps_tensors_of_the_cpu(self) -> None:
        a = leaf(1.0, 2.0)
        with save_on_cpu():
            y = tk.sum(tk.exp(a) * a)
        (g,) = tk.autograd.grad(y, a)
        np.testing.assert_allclose(g.numpy(), np.exp([1.0, 2.0]) * [2.0, 3.0])

    def test_save_on_cpu_finds_a_change_of_what_it_did_not_copy(self) -> None:
        a = leaf(1.0, 2.0)
        for outer in (save_on_cpu, lambda: saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)):
            b = a * 1.0
            b.add_(1.0)
            with outer(), save_on_cpu():
                y = tk.sum(b * b)
            b.add_(1.0)
            if outer is save_on_cpu:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    y.backward()
            else:  # that one did
                y.backward()
                np.testing.assert_array_equal(a.grad.numpy(), [4.0, 6.0])

    def test_save_on_cpu_moves_from_another_device_and_back(self) -> None:
        with tk.backends.register(Host()):
            a = tk.asarray([1.0, 2.0], device="host").requires_grad_()
            with save_on_cpu():
                y = tk.exp(a)
            held = y.grad_fn.saved_out.packed_value.value
            assert str(held[0]) == str(a.device)
            assert held[1].device == tk.device("cpu")
            assert y.grad_fn._saved_out.device == a.device
            y.sum().backward()
            np.testing.assert_allclose(a.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)

    def test_meta_tensors_have_nothing_to_move(self) -> None:
        a = tk.empty((3,), device="meta").requires_grad_()
        with save_on_cpu():
            y = tk.exp(a).sum()
        y.backward()
        assert a.grad.shape == (3,)


class TestOneSavedTensor:
    def test_saved_and_raw_saved(self) -> None:
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = a * b
        node: Any = y.grad_fn
        assert node._saved_x1 is node._saved_self is a
        assert node._saved_other is b
        condition = tk.tensor([True, False])
        chosen: Any = tk.where(condition, a, b).grad_fn
        assert chosen._saved_condition is condition
        assert not hasattr(chosen, "_saved_self")
        assert not hasattr(chosen, "_raw_saved_self")
        single: Any = tk.sin(a).grad_fn
        assert single._saved_self is single._saved_x is a
        log: list[str] = []
        node._raw_saved_x1.register_hooks(
            lambda t: log.append("pack") or t.detach() * 2,  # type: ignore[func-returns-value]
            lambda t: log.append("unpack") or t / 2,  # type: ignore[func-returns-value]
        )
        assert log == ["pack"]
        y.sum().backward()
        assert log == ["pack", "unpack"]
        np.testing.assert_array_equal(b.grad.numpy(), [1.0, 2.0])

    def test_of_a_function(self) -> None:
        a, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = Product.apply(a, w)
        raw = y.grad_fn._raw_saved_tensors
        assert len(raw) == 4
        raw[2].register_hooks(lambda t: t.detach().numpy().copy(), tk.asarray)
        with pytest.raises(RuntimeError, match="with value None is forbidden"):
            raw[1].register_hooks(lambda t: t, lambda t: t)
        y.sum().backward()
        np.testing.assert_array_equal(a.grad.numpy(), [3.0, 4.0])
        with pytest.raises(RuntimeError, match="after it has been freed"):
            raw[0].register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            _ = y.grad_fn._raw_saved_tensors

    def test_hooks_on_a_saved_tensor_that_was_changed_are_refused(self) -> None:
        """A plain tensor saved by a Function is at version 0, also if hooks are registered after a change."""

        class Square(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x

        a = leaf(1.0, 2.0)
        y = Square.apply(a)
        a.detach().add_(1.0)
        (raw,) = y.grad_fn._raw_saved_tensors
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
            raw.register_hooks(lambda t: t, lambda t: t)

    def test_errors(self) -> None:
        a = leaf(1.0)
        node: Any = tk.exp(a).grad_fn
        node._raw_saved_out.register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(RuntimeError, match="whose hooks have already been set"):
            node._raw_saved_out.register_hooks(lambda t: t, lambda t: t)
        scaled: Any = (a * leaf(2.0).detach()).grad_fn
        with pytest.raises(RuntimeError, match="with value None is forbidden"):
            scaled._raw_saved_x1.register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(TypeError, match="pack_hook must be a function"):
            scaled._raw_saved_x2.register_hooks(None, lambda t: t)
        y = tk.exp(a)
        raw = y.grad_fn._raw_saved_out
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after it has been freed"):
            raw.register_hooks(lambda t: t, lambda t: t)


class TestNothingIsLeftBehind:
    def test_hooks_that_are_off_leave_no_kernels_behind(self) -> None:
        """The words of calls outside of the context are those without its bit (Note [Bits of the local state])."""
        a = leaf(1.0)
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            tk.expm1(a)
        operator = tk.ops.tk.expm1.default
        operator.cache.clear()
        tk.expm1(a)
        assert operator.cache
        assert not any(word & HOOKED for word in operator.cache)

    def test_a_graph_with_identity_hooks_makes_no_cycle(self) -> None:
        a = leaf(1.0)
        with collector_off():
            with saved_tensors_hooks(lambda t: t, lambda t: t):
                y = Product.apply(tk.exp(a), tk.sqrt(a))
            node, data = weakref.ref(y.grad_fn), weakref.ref(y)
            del y
            assert node() is None
            assert data() is None

    def test_what_was_packed_is_freed_by_backward(self) -> None:
        class Box:
            def __init__(self, t: Any) -> None:
                self.t = t

        boxes: list[Any] = []

        def pack(t: Any) -> Box:
            box = Box(t.detach())
            boxes.append(weakref.ref(box))
            return box

        a = leaf(1.0)
        with collector_off():
            with saved_tensors_hooks(pack, lambda box: box.t):
                y = tk.exp(tk.exp(a))
            assert all(box() is not None for box in boxes)
            y.sum().backward()
            assert all(box() is None for box in boxes)

    def test_threads_and_tasks_have_their_own(self) -> None:
        seen: list[bool] = []
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            thread = threading.Thread(target=lambda: seen.append(bool(current_state().include & HOOKED)))
            thread.start()
            thread.join()
        assert seen == [False]

        async def one(inside: Any) -> bool:
            with saved_tensors_hooks(lambda t: t, lambda t: t):
                await inside.wait()
            return bool(current_state().include & HOOKED)

        async def both() -> Any:
            inside = asyncio.Event()
            task = asyncio.create_task(one(inside))
            await asyncio.sleep(0)
            outside = bool(current_state().include & HOOKED)
            inside.set()
            return outside, await task

        assert asyncio.run(both()) == (False, False)


def test_values_saved_as_they_are() -> None:
    """Note [Values saved as they are]."""
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    assert y.grad_fn._saved_x1 is x
    assert [(name, saved.tensor is t) for (name, saved), t in zip(y.grad_fn._kept_values(), (w, x))] == [
        ("x2", True), ("x1", True),
    ]  # fmt: skip
    with tk.no_grad():
        w += 1.0
    with pytest.raises(RuntimeError, match=r"saved tensor x2 .* is at version 1; expected version 0"):
        y.backward(tk.ones(2, dtype=tk.float64))
    y = x * w  # saved with its version
    y.backward(tk.ones(2, dtype=tk.float64))
    assert x.grad.tolist() == [4.0, 5.0]

    out = tk.exp(x)
    node = out.grad_fn
    assert node._saved_out.grad_fn is node
    np.testing.assert_array_equal(node._saved_out.detach().numpy(), out.detach().numpy())
    assert [(name, type(saved).__name__, saved.nbytes) for name, saved in node._kept_values()] == [
        ("out", "SavedOutput", 16)
    ]
    out.detach().add_(1.0)
    with pytest.raises(RuntimeError, match=r"saved tensor out .* is at version 1; expected version 0"):
        out.backward(tk.ones(2, dtype=tk.float64))
    seen = []
    with collector_off():
        node = weakref.ref(tk.exp(x).grad_fn)
        assert node() is None  # an output and its node make no cycle
        out = tk.exp(x)
        out.grad_fn._raw_saved_out.register_hooks(lambda t: seen.append(t.tolist()), lambda _: tk.zeros(2))
        (g,) = tk.autograd.grad(out, x, tk.ones(2, dtype=tk.float64))
    assert seen == [np.exp([1.0, 2.0]).tolist()]
    assert g.tolist() == [0.0, 0.0]
