"""The profiler sees through every layer: transforms, Functions, custom operators, modes, subclasses, hooks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import profile
from tenkey.dispatch import DispatchMode
from tenkey.transforms import grad, jvp, vmap
from tests._backends import Host


def leaf(*shape: int) -> tk.Tensor:
    return tk.ones(shape, dtype=tk.float32).requires_grad_()


def names(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def find(prof: profile, name: str) -> Any:
    (event,) = [event for event in prof.events() if event.name == name]
    return event


class TestTransforms:
    def test_vmap_shows_the_level_and_what_it_leads_to(self) -> None:
        with profile(record_shapes=True) as prof:
            vmap(tk.exp)(tk.ones((3, 2)))
        outer, inner = find(prof, "vmap(tk::exp)"), find(prof, "tk::exp")
        assert inner.cpu_parent is outer
        assert (outer.input_shapes, inner.input_shapes) == ([[2]], [[3, 2]])

    def test_levels_nest(self) -> None:
        with profile() as prof:
            vmap(vmap(tk.exp))(tk.ones((3, 2)))
        chain, event = [], find(prof, "tk::exp")
        while event is not None:
            chain.append(event.name)
            event = event.cpu_parent
        assert chain == ["tk::exp", "vmap(tk::exp)", "vmap(tk::exp)"]
        (row,) = [row for row in prof.key_averages() if row.key == "vmap(tk::exp)"]
        first = min(e.id for e in prof.events() if e.name == row.key)
        outer = next(e for e in prof.events() if e.id == first)
        assert row.count == 2
        assert row.cpu_time_total == outer.cpu_time_total  # the inner one is in it already

    def test_forward_mode(self) -> None:
        with profile() as prof:
            jvp(tk.sin, (tk.ones(2),), (tk.ones(2),))
        (outer,) = [e for e in prof.events() if e.name.endswith("(tk::sin)")]
        assert {"tk::sin", "tk::sin_jvp_x"} <= {e.name for e in prof.events() if e.cpu_parent is outer}

    def test_a_node_under_grad_is_linked(self) -> None:
        with profile() as prof:
            grad(lambda x: tk.sum(tk.exp(x)))(tk.ones(2))
        node = find(prof, "ExpBackward")
        assert node.forward is not None
        assert node.forward.name == "tk::exp"
        assert node.forward.sequence_nr == node.sequence_nr

    def test_results_are_those_without_it(self) -> None:
        x = tk.asarray([[1.0, 2.0], [3.0, 4.0]])

        def f(row: tk.Tensor) -> tk.Tensor:
            return tk.sum(tk.tanh(row) ** 2)

        wanted = vmap(grad(f))(x).numpy()
        with profile(profile_memory=True, record_shapes=True):
            got = vmap(grad(f))(x).numpy()
        np.testing.assert_array_equal(got, wanted)


class Cube(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: tk.Tensor) -> tk.Tensor:
        ctx.save_for_backward(x)
        ctx.note = "mine"
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: tk.Tensor) -> tk.Tensor:
        assert ctx.note == "mine"
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Split(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: tk.Tensor) -> Any:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, a: tk.Tensor, b: tk.Tensor) -> tk.Tensor:
        return 2 * a + 3 * b


class TestFunctions:
    def test_a_call_is_an_event_linked_to_its_node(self) -> None:
        x = leaf(2)
        with profile() as prof:
            tk.sum(Cube.apply(x)).backward()
        call, node = find(prof, "Cube"), find(prof, "CubeBackward")
        assert [e.name for e in call.cpu_children] == ["tk::multiply", "tk::multiply"]
        assert node.forward is call
        assert node.sequence_nr == call.sequence_nr
        np.testing.assert_allclose(x.grad.numpy(), 3.0)

    def test_several_results(self) -> None:
        x = leaf(2)
        with profile() as prof:
            a, b = Split.apply(x)
            tk.sum(a + b).backward()
        assert find(prof, "SplitBackward").forward is find(prof, "Split")
        np.testing.assert_allclose(x.grad.numpy(), 5.0)

    def test_without_gradients(self) -> None:
        with profile() as prof:
            Cube.apply(tk.ones(2))
            with tk.no_grad():
                Cube.apply(leaf(2))
        assert [e.sequence_nr for e in prof.events() if e.name == "Cube"] == [-1, -1]

    def test_one_that_raises(self) -> None:
        class Bad(tk.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: tk.Tensor) -> tk.Tensor:
                raise OSError("no")

        with profile() as prof:
            with pytest.raises(OSError, match="no"):
                Bad.apply(leaf(2))
            tk.ones(1)
        assert find(prof, "Bad").error == "OSError"


@tk.library.custom_op("profiled::scale", mutates_args=())
def scale(x: tk.Tensor, by: float) -> tk.Tensor:
    return x * by


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.by = inputs[1]


scale.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=_setup)


@tk.library.custom_op("profiled::double_it", mutates_args={"x"})
def double_it(x: tk.Tensor) -> None:
    x.multiply_(2.0)


class TestOperators:
    def test_custom_operators(self) -> None:
        x = leaf(2)
        with profile() as prof:
            tk.sum(scale(x, 3.0)).backward()
        call = find(prof, "profiled::scale")
        assert "tk::multiply" in [e.name for e in call.cpu_children]
        (node,) = [e for e in prof.events() if e.forward is call]
        assert node.sequence_nr == call.sequence_nr
        np.testing.assert_allclose(x.grad.numpy(), 3.0)

    def test_operators_that_change_an_argument(self) -> None:
        x = tk.ones(2)
        with profile(profile_memory=True, record_shapes=True) as prof:
            double_it(x)
            x += 1
        assert find(prof, "profiled::double_it").input_shapes == [[2]]
        assert find(prof, "profiled::double_it").cpu_memory_usage == 0
        np.testing.assert_array_equal(x.numpy(), [3.0, 3.0])

    def test_an_in_place_operation_is_linked_to_its_node(self) -> None:
        x = leaf(2) + 1
        with profile() as prof:
            x.multiply_(2.0)
            tk.sum(x).backward()
        call, node = find(prof, "tk::multiply_"), find(prof, "MultiplyBackward")
        assert node.sequence_nr == call.sequence_nr
        assert node.forward in (call, *call.cpu_children)

    def test_operators_defined_meanwhile(self) -> None:
        with profile() as prof:
            library = tk.library.Library("profiled_later", "DEF")
            library.define("same(Tensor x) -> Tensor")
            library.impl("same", lambda x: x + 0, "cpu")
            tk.ops.profiled_later.same(tk.ones(1))
        assert "profiled_later::same" in names(prof)

    def test_a_second_order(self) -> None:
        x = leaf(2)
        with profile() as prof:
            (g,) = tk.autograd.grad(tk.sum(tk.exp(x)), [x], create_graph=True)
            tk.sum(g).backward()
        recorded = [e for e in prof.events() if e.sequence_nr >= 0 and e.forward is None]
        assert any(e.cpu_parent is not None and e.cpu_parent.name == "ExpBackward" for e in recorded)
        np.testing.assert_allclose(x.grad.numpy(), np.full(2, np.e), rtol=1e-6)


class TestModesAndSubclasses:
    def test_a_mode_inside_sees_the_call_first_and_it_is_seen_once(self) -> None:
        seen = []

        class Mode(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                seen.append(op.name)
                return op(*args, **kwargs)

        x = tk.ones(2)
        with profile() as prof, Mode():
            tk.exp(x)
        with Mode(), profile() as other:
            tk.exp(x)
        assert seen == ["tk::exp", "tk::exp"]
        assert names(prof) == names(other) == ["tk::exp"]

    def test_subclasses(self) -> None:
        class Own(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return super().__tk_dispatch__(op, types, args, kwargs)

        x = tk.ones(2).as_subclass(Own)
        with profile() as prof:
            y = tk.exp(x)
        assert type(y) is Own
        assert names(prof).count("tk::exp") == 1

    def test_explain_shows_the_key(self) -> None:
        x = tk.ones(2)
        with profile():
            text = str(tk.dispatch.explain("exp", x))
        assert "Profiler: handles the call" in text
        assert "Profiler: handles the call" not in str(tk.dispatch.explain("exp", x))

    def test_autocast(self) -> None:
        with profile() as prof, tk.autocast("cpu"):
            tk.ones((2, 2)) @ tk.ones((2, 2))
        assert [e.name for e in find(prof, "tk::matmul").cpu_children][:2] == ["tk::cast", "tk::cast"]


class Workshop(Host):
    """A device in host memory, whose nodes therefore run on a worker thread (Note [Device workers])."""

    name = "profiledlab"


class TestWorkers:
    def test_nodes_of_a_device_are_events_of_its_worker(self) -> None:
        x = leaf(2)
        with tk.backends.register(Workshop()), profile(profile_memory=True) as prof:
            y = tk.exp(x.to("profiledlab"))
            tk.sum(y).backward()
        node = find(prof, "ExpBackward")
        here = threading.get_ident()
        assert node.thread != here
        assert node.fwd_thread == here
        assert node.forward.name == "tk::exp"
        assert find(prof, "AccumulateGrad").thread == here
        assert all(e.cpu_parent is None or e.cpu_parent.thread == e.thread for e in prof.events())
        assert node.thread in prof._recorder.threads
        np.testing.assert_allclose(x.grad.numpy(), np.full(2, np.e), rtol=1e-6)


class TestCheckpoints:
    def test_the_second_run_is_seen_where_it_happens(self) -> None:
        x = leaf(2)
        with profile() as prof:
            tk.sum(tk.autograd.checkpoint(lambda x: tk.sin(tk.exp(x)), x)).backward()
        first, second = [e for e in prof.events() if e.name == "tk::exp"]
        assert first.cpu_parent is None
        assert second.cpu_parent.name == "SinBackward"
        assert find(prof, "ExpBackward").forward is first


class TestHooks:
    def test_calls_of_hooks_are_events_where_they_run(self) -> None:
        x = leaf(2)
        y = tk.exp(x)
        y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        y.grad_fn.register_hook(lambda results, grads: (tk.sin(results[0]),))
        with profile() as prof:
            tk.sum(y).backward()
        inside = [e.name for e in find(prof, "ExpBackward").cpu_children]
        assert inside[0] == "tk::multiply"
        assert inside[-1] == "tk::sin"
        np.testing.assert_allclose(x.grad.numpy(), np.sin(2 * np.exp(np.ones(2))), rtol=1e-6)

    def test_a_backward_in_a_hook(self) -> None:
        w, x = leaf(2), leaf(2)

        def hook(g: tk.Tensor) -> None:
            with tk.enable_grad():
                tk.sum(w * w).backward()

        y = tk.exp(x)
        y.register_hook(hook)
        with profile() as prof:
            tk.sum(y).backward()
        assert names(prof).count("AccumulateGrad") == 2
        np.testing.assert_allclose(w.grad.numpy(), 2.0)

    def test_gradients_for_some_inputs_only(self) -> None:
        x, w = leaf(2), leaf(2)
        with profile() as prof:
            tk.autograd.grad(tk.sum(tk.exp(x) * tk.sin(w)), [w])
        assert "ExpBackward" not in names(prof)
        assert "SinBackward" in names(prof)
