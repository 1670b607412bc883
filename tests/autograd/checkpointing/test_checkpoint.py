"""checkpoint: the same numbers for less memory, recomputed once, with the same state, and nothing left behind."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import checkpoint
from tenkey.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from tests._gradients import collector_off


def leaf(*shape: int, seed: int = 0) -> Any:
    return tk.asarray(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


def layer(x: Any, w: Any, *, scale: float = 1.0) -> Any:
    return tk.exp(tk.tanh(x @ w) * scale) / (1 + (x @ w) ** 2)


def gradients(function: Any, *leaves: Any) -> list[np.ndarray]:
    found = tk.autograd.grad(tk.sum(function()), leaves)
    return [g.numpy() for g in found if g is not None]


class TestGradients:
    def test_the_same_as_without(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        plain = gradients(lambda: layer(x, w, scale=0.5), x, w)
        for options in ({}, {"early_stop": False}, {"determinism_check": "none"}, {"debug": True}):
            again = gradients(lambda o=options: checkpoint(layer, x, w, scale=0.5, **o), x, w)
            for a, b in zip(plain, again, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_only_the_inputs_are_kept(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        seen: list[Any] = []

        def function(x: Any) -> Any:
            y = tk.exp(x @ w)
            seen.append(weakref.ref(y._data))
            return tk.sum(y * y)

        with collector_off():
            y = checkpoint(function, x)
            assert seen[0]() is None
            y.backward()
            assert seen[1]() is None

    def test_pytrees_in_and_out_and_results_that_are_no_tensors(self) -> None:
        def function(pair: Any, table: Any, *, more: Any) -> Any:
            a, b = pair
            return {"y": a * b * table["c"] * more[0], "n": len(table)}, "text"

        leaves = [leaf(2, seed=i) for i in range(4)]
        a, b, c, d = leaves
        out, text = checkpoint(function, (a, b), {"c": c}, more=[d])
        assert (out["n"], text) == (1, "text")
        tk.sum(out["y"]).backward()
        values = [t.detach().numpy() for t in leaves]
        for i, t in enumerate(leaves):
            np.testing.assert_allclose(t.grad.numpy(), np.prod([v for j, v in enumerate(values) if j != i], axis=0))

    def test_keyword_arguments_go_to_the_function(self) -> None:
        x = leaf(3)
        seen: list[Any] = []

        def function(x: Any, fn: str, input: int = 0, **others: Any) -> Any:
            seen.append((fn, input, others))
            return tk.sin(x)

        checkpoint(function, x, fn="f", input=2, other=3, use_reentrant=False).sum().backward()
        assert seen == [("f", 2, {"other": 3})] * 2

    def test_tensors_of_the_closure(self) -> None:
        x, w = leaf(3), leaf(3, seed=1)
        tk.sum(checkpoint(lambda: tk.exp(x * w))).backward()
        np.testing.assert_allclose(w.grad.numpy(), _values(x * tk.exp(x * w)))

    def test_second_order(self) -> None:
        x, w = leaf(2, 3), leaf(3, 3, seed=1)
        counted = Counted(layer)

        def second(call: Any) -> np.ndarray:
            (first,) = tk.autograd.grad(tk.sum(call()), w, create_graph=True)
            (found,) = tk.autograd.grad(tk.sum(first * first), w)
            return found.numpy()

        np.testing.assert_allclose(second(lambda: checkpoint(counted, x, w)), second(lambda: layer(x, w)), rtol=1e-12)
        assert counted.calls == 3  # once for each backward: the second goes through the graph of the first as well
        assert tk.autograd.gradcheck(lambda x, w: checkpoint(layer, x, w), (x, w))
        assert tk.autograd.gradgradcheck(lambda x, w: checkpoint(layer, x, w), (x, w))

    def test_a_function_that_calls_grad(self) -> None:
        def penalty(x: Any, w: Any) -> Any:
            y = tk.sum(tk.tanh(x @ w) ** 2)
            (g,) = tk.autograd.grad(y, x, create_graph=True)
            return y + tk.sum(g * g)

        x, w = leaf(2, 3), leaf(3, 3, seed=1)
        plain = gradients(lambda: penalty(x, w), w)
        for early in (True, False):
            again = gradients(lambda early=early: checkpoint(penalty, x, w, early_stop=early), w)
            np.testing.assert_allclose(again[0], plain[0], rtol=1e-12)

    def test_functions_and_custom_operators_inside(self) -> None:
        class Cube(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                first = ctx.saved_tensors[0]
                return g * 3 * first * ctx.saved_tensors[0]  # asked for twice

        x = leaf(3)
        counted = Counted(lambda x: tk.sin(Cube.apply(tk.exp(x))))
        (again,) = gradients(lambda: checkpoint(counted, x), x)
        (plain,) = gradients(lambda: tk.sin(tk.exp(x) ** 3), x)
        np.testing.assert_allclose(again, plain)
        assert counted.calls == 2

    def test_a_function_that_is_once_differentiable(self) -> None:
        class Square(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = x * x
                ctx.save_for_backward(x, y)
                return y

            @staticmethod
            @tk.autograd.once_differentiable
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2 * ctx.saved_tensors[0]

        x = leaf(3)
        counted = Counted(lambda x: Square.apply(tk.exp(x)))
        y = tk.sum(checkpoint(counted, x))
        (g,) = tk.autograd.grad(y, x, create_graph=True)
        np.testing.assert_allclose(_values(g), 2 * np.exp(2 * _values(x)))
        assert counted.calls == 2
        with pytest.raises(RuntimeError, match="once_differentiable"):
            tk.autograd.grad(g.sum(), x)

    def test_leaves_are_themselves(self) -> None:
        seen: list[Any] = []

        class Product(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, w: Any) -> Any:
                ctx.save_for_backward(x, w)
                return x * w

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                seen.extend(ctx.saved_tensors)
                return g, g

        x, w = leaf(3), leaf(3, seed=1)
        checkpoint(lambda x: Product.apply(x, w), x).sum().backward()
        assert seen[0] is x
        assert seen[1] is w

    def test_views_and_changes_in_place(self) -> None:
        def function(x: Any, w: Any) -> Any:
            y = tk.exp(x) * 1.0
            y[1:].multiply_(w[1:])
            y[0] = w[0] * w[1]
            a, b = tk.split(y, 2)
            a.sin_()
            z = y * w
            z.add_(tk.sin(w))
            return tk.sum(z**2) + tk.sum(b * a)

        x, w = leaf(4), leaf(4, seed=1)
        plain = gradients(lambda: function(x, w), x, w)
        for call in (
            lambda: checkpoint(function, x, w),
            lambda: checkpoint(lambda x, w: checkpoint(function, x, w), x, w),
        ):
            for a, b in zip(gradients(call, x, w), plain, strict=True):
                np.testing.assert_array_equal(a, b)
        with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            y = function(x, w)
        for a, b in zip(gradients(lambda: y, x, w), plain, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_other_devices_and_subclasses(self) -> None:
        x = tk.empty((3,), device="meta").requires_grad_()
        checkpoint(lambda x: tk.sum(tk.sin(tk.exp(x))), x).backward()
        assert x.grad.shape == (3,)

        class Tagged(tk.Tensor):
            pass

        y = tk.ones(3).as_subclass(Tagged).requires_grad_()
        checkpoint(lambda y: tk.sum(tk.sin(tk.exp(y))), y).backward()
        np.testing.assert_allclose(y.grad.numpy(), np.full(3, np.cos(np.e) * np.e), rtol=1e-6)

    def test_inside_of_a_function(self) -> None:
        class Outer(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                with tk.enable_grad():
                    ctx.inner = x.detach().requires_grad_()
                    ctx.result = checkpoint(tk.exp, ctx.inner)
                return ctx.result.detach()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return tk.autograd.grad(ctx.result, ctx.inner, g)[0]

        x = leaf(3)
        (found,) = gradients(lambda: Outer.apply(x * 2), x)
        np.testing.assert_allclose(found, 2 * np.exp(2 * _values(x)))

    def test_in_transforms(self) -> None:
        w, xs = leaf(3, 3).detach(), leaf(5, 2, 3, seed=1).detach()

        def loss(function: Any) -> Any:
            return lambda w, x: tk.sum(function(w, x))

        def plain(w: Any, x: Any) -> Any:
            return layer(x, w)

        def saving(w: Any, x: Any) -> Any:
            return checkpoint(lambda w: layer(x, w), w)

        for transform in (
            lambda f: tk.transforms.grad(loss(f))(w, xs[0]),
            lambda f: tk.transforms.vmap(tk.transforms.grad(loss(f)), in_dims=(None, 0))(w, xs),
            lambda f: tk.transforms.grad(lambda w: tk.sum(tk.transforms.vmap(lambda x: f(w, x))(xs)))(w),
            lambda f: tk.transforms.hessian(lambda w: loss(f)(w, xs[0]))(w),
            lambda f: tk.transforms.jvp(lambda w: f(w, xs[0]), (w,), (w,))[1],
            lambda f: tk.transforms.jacfwd(tk.transforms.grad(lambda w: loss(f)(w, xs[0])))(w),
        ):
            np.testing.assert_allclose(transform(saving).numpy(), transform(plain).numpy(), rtol=1e-10)


def _values(x: Any) -> np.ndarray:
    return np.asarray(x.detach().numpy())


class TestRecomputation:
    def test_once_per_backward(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        counted = Counted(layer)
        y = tk.sum(checkpoint(counted, x, w))
        assert counted.calls == 1
        y.backward(retain_graph=True)
        assert counted.calls == 2
        first = _values(w.grad).copy()
        y.backward()
        assert counted.calls == 3
        np.testing.assert_array_equal(_values(w.grad), 2 * first)
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.backward()

    def test_not_at_all_where_no_gradient_is_asked_for(self) -> None:
        x = leaf(3)
        counted = Counted(tk.exp)
        y = checkpoint(counted, x)
        z = x * 2.0
        (y.detach() + z).sum().backward()
        assert counted.calls == 1
        with tk.no_grad():
            checkpoint(counted, x)
        checkpoint(counted, x.detach())
        assert counted.calls == 3

    def test_it_stops_early(self) -> None:
        reached: list[int] = []

        def function(x: Any) -> Any:
            y = tk.exp(x)  # saves
            reached.append(1)
            z = y * 2.0 + 1.0  # saves nothing
            reached.append(2)
            return z

        x = leaf(3)
        checkpoint(function, x).sum().backward()
        assert reached == [1, 2]  # stopped while exp was saving
        checkpoint(function, x, early_stop=False).sum().backward()
        assert reached == [1, 2, 1, 2, 1, 2]

    def test_the_stop_is_not_caught_by_the_function(self) -> None:
        def function(x: Any) -> Any:
            try:
                y = tk.exp(x)
            except Exception:
                return x
            finally:
                assert tk.is_grad_enabled()
            return y

        x = leaf(3)
        (g,) = gradients(lambda: checkpoint(function, x), x)
        np.testing.assert_allclose(g, np.exp(_values(x)))

    def test_only_what_is_asked_for(self) -> None:
        first, second = Counted(tk.exp), Counted(tk.exp)
        x, y = leaf(3), leaf(3, seed=1)
        total = tk.sum(checkpoint(first, x) + checkpoint(second, y))
        tk.autograd.grad(total, x, retain_graph=True)
        assert (first.calls, second.calls) == (2, 1)
        tk.autograd.grad(total, y)
        assert (first.calls, second.calls) == (2, 2)

    def test_looking_at_a_saved_tensor_outside_of_backward(self) -> None:
        x = leaf(3)
        counted = Counted(tk.exp)
        y = checkpoint(counted, x)
        np.testing.assert_allclose(_values(y.grad_fn._saved_out), np.exp(_values(x)))
        assert counted.calls == 2
        y.sum().backward()
        assert counted.calls == 3

    def test_in_two_threads_at_once(self) -> None:
        x = leaf(50, seed=3)
        y = tk.sum(checkpoint(lambda x: tk.exp(tk.sin(x)), x))
        found: list[Any] = []

        def run() -> None:
            found.append(tk.autograd.grad(y, x, retain_graph=True)[0].numpy())

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(found) == 4
        for g in found:
            np.testing.assert_allclose(g, np.exp(np.sin(_values(x))) * np.cos(_values(x)))


class TestNesting:
    def test_checkpoint_in_checkpoint(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        inner, middle = Counted(layer), Counted(lambda x: checkpoint(inner, checkpoint(inner, x, w), w))
        outer = Counted(lambda x: tk.sin(checkpoint(middle, x)))
        again = gradients(lambda: checkpoint(outer, x), x, w)
        plain = gradients(lambda: tk.sin(layer(layer(x, w), w)), x, w)
        for a, b in zip(again, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert outer.calls == 2
        assert middle.calls == 3
        assert inner.calls == 7  # 2 for each run of the middle, which the last time stops early, and 2 of their own

    def test_with_hooks_outside_and_inside(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)
        plain = gradients(lambda: layer(x, w), x, w)
        packed: list[Any] = []
        outside = saved_tensors_hooks(lambda t: packed.append(t.shape) or t.detach().numpy().copy(), tk.asarray)  # type: ignore[func-returns-value]
        with outside:
            y = tk.sum(checkpoint(layer, x, w))
        assert packed == [(4, 3), (3, 3)]  # the inputs alone
        for a, b in zip(tk.autograd.grad(y, (x, w)), plain, strict=True):
            np.testing.assert_array_equal(_values(a), b)

        def function(x: Any) -> Any:
            with save_on_cpu():
                return layer(x, w)

        for a, b in zip(gradients(lambda: checkpoint(function, x), x, w), plain, strict=True):
            np.testing.assert_array_equal(a, b)
        with disable_saved_tensors_hooks("no hooks here"), pytest.raises(RuntimeError, match="no hooks here"):
            checkpoint(layer, x, w)

    def test_backward_in_a_context_of_hooks(self) -> None:
        x = leaf(3)
        y = tk.sum(checkpoint(lambda x: tk.exp(tk.sin(x)), x))

        def forbidden(t: Any) -> Any:
            raise AssertionError("the recomputation is nobody's but the checkpoint's")

        with saved_tensors_hooks(forbidden, forbidden):
            y.backward()
        assert x.grad is not None


class TestState:
    def test_random_numbers_of_the_global_generator(self) -> None:
        def dropout(x: Any) -> Any:
            return tk.exp(x) * tk.random.bernoulli(shape=x.shape, p=0.5, dtype=tk.float64)

        x = leaf(200)
        tk.random.seed(7)
        y = checkpoint(dropout, x)
        after = tk.random.get_state()
        kept = _values(y) != 0
        tk.random.uniform(5)
        between = tk.random.get_state()
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(_values(x)) * kept)
        assert tk.random.get_state() == between != after

    def test_explicit_generators_as_arguments_and_in_the_closure(self) -> None:
        def noisy(x: Any, generators: Any, *, last: Any) -> Any:
            for generator in (*generators, last, own):
                x = tk.sin(x * tk.random.uniform(x.shape, dtype=tk.float64, generator=generator))
            return x

        own = tk.random.Generator(4)
        some = [tk.random.Generator(1), tk.random.Generator(2)]
        last = tk.random.Generator(3)
        x = leaf(20)

        def states() -> list[Any]:
            return [g.get_state() for g in (*some, last, own)]

        start = states()
        y = checkpoint(noisy, x, some, last=last)
        end = states()
        (again,) = tk.autograd.grad(y.sum(), x)
        assert states() == end != start
        for g, state in zip((*some, last, own), start, strict=True):
            g.set_state(state)
        (plain,) = tk.autograd.grad(noisy(x, some, last=last).sum(), x)
        np.testing.assert_array_equal(_values(again), _values(plain))

    def test_it_can_be_switched_off(self) -> None:
        generator = tk.random.Generator(1)
        drawn: list[Any] = []

        def noisy(x: Any) -> Any:
            drawn.append(tk.random.uniform(x.shape, dtype=tk.float64, generator=generator))
            return tk.exp(x) * drawn[-1]

        checkpoint(noisy, leaf(3), preserve_rng_state=False).sum().backward()
        assert not np.array_equal(drawn[0].numpy(), drawn[1].numpy())

    def test_autocast_and_grad_mode(self) -> None:
        modes: list[Any] = []

        def function(x: Any, w: Any) -> Any:
            y = x @ w
            with tk.no_grad():
                mask = tk.exp(y) > 1
                modes.append((tk.is_grad_enabled(), y.dtype))
            modes.append((tk.is_grad_enabled(), y.dtype))
            return tk.sin(y) * mask

        x, w = tk.ones((2, 3)) * 0.3, (tk.ones((3, 3)) * 0.7).requires_grad_()
        with tk.autocast("cpu", dtype=tk.float16):
            y = checkpoint(function, x, w)
            (plain,) = tk.autograd.grad(function(x, w).sum(), w)
        (again,) = tk.autograd.grad(y.sum(), w)  # autocast is off here
        np.testing.assert_array_equal(again.numpy(), plain.numpy())
        assert modes == [(False, tk.float16), (True, tk.float16)] * 3

    def test_a_profiler_or_a_mode_of_the_forward_pass_is_not_woken_up(self) -> None:
        class Names(tk.dispatch.DispatchMode):
            seen: list[str]

            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                self.seen.append(str(op))
                return op(*args, **kwargs)

        first, second = Names(), Names()
        first.seen, second.seen = [], []
        x = leaf(3)
        with first, tk.autograd.anomaly_mode():
            y = checkpoint(tk.exp, x).sum()
        count = len(first.seen)
        with second:
            y.backward()
        assert len(first.seen) == count
        assert "tk::exp" in second.seen


class TestNothingIsLeftBehind:
    def test_a_graph_that_is_dropped(self) -> None:
        class Big:
            pass

        with collector_off():
            big = Big()
            reference = weakref.ref(big)
            x = leaf(3)
            y = checkpoint(lambda x, big: checkpoint(lambda x: tk.exp(tk.sin(x)), x), x, big)
            node = weakref.ref(y.grad_fn)
            del big
            assert reference() is not None
            del y
            assert node() is None
            assert reference() is None

    def test_after_backward_and_after_an_error(self) -> None:
        for fails in (False, True):
            made: list[Any] = []

            def function(x: Any, made: Any = made, fails: bool = fails) -> Any:
                y = tk.exp(x)
                made.append(weakref.ref(y._data))
                z = tk.sin(y)
                if fails and len(made) > 1:
                    raise KeyError
                return z

            with collector_off():
                x = leaf(3)
                y = checkpoint(function, x).sum()
                if fails:
                    with suppress(KeyError):
                        y.backward()
                else:
                    y.backward(retain_graph=True)
                assert len(made) == 2
                assert [data() is None for data in made] == [True, True]

    def test_what_a_pruned_backward_did_not_ask_for(self) -> None:
        made: list[Any] = []

        def function(x: Any, w: Any) -> Any:
            a, b = tk.exp(x), tk.exp(w)
            made.append(weakref.ref(b._data))
            return tk.sin(a) + tk.sin(b)

        with collector_off():
            x, w = leaf(3), leaf(3, seed=1)
            y = checkpoint(function, x, w).sum()
            tk.autograd.grad(y, x, retain_graph=True)
            assert len(made) == 2
            assert made[1]() is None
