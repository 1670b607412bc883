"""What a custom operator can be given beside kernel and gradient, switched kernels, and gradients of mutations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tenkey as tk
from tenkey.autograd import gradcheck
from tenkey.dispatch.errors import MissingKernelError, OperatorNotFoundError, RegistrationError
from tenkey.dispatch.registry import registry
from tenkey.library import (
    CustomOperator,
    Library,
    custom_op,
    register_autocast,
    register_autograd,
    register_jvp,
    register_vmap,
)

NS = "methods_test"
Tensor = tk.Tensor
X = tk.asarray([1.0, 2.0])


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def make(function: Callable[..., Any] = lambda x: x + 1, schema: str = "(Tensor x) -> Tensor", **options: Any) -> Any:
    options.setdefault("mutates_args", ())
    return custom_op(f"{NS}::f", function, schema=schema, **options)


def leaf(*values: float) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


class TestFacets:
    def test_methods_and_functions(self) -> None:
        op = make()
        facets = op.operator.facets
        for register in (op.register_jvp, lambda fn, **kw: register_jvp(op, fn, **kw)):
            handle = register(lambda ctx, t: t, setup_context=lambda ctx, inputs, output: None)
            assert facets["Forward"].function(None, 3) == 3
            assert facets["Forward"].setup_context is not None
            handle.remove()
            assert "Forward" not in facets
        for register in (op.register_vmap, lambda fn: register_vmap(f"{NS}::f", fn)):
            handle = register(lambda info, in_dims, x: (x, 0))
            assert facets["Batch"].function(None, (0,), 1) == (1, 0)
            handle.remove()
            handle.remove()
            assert "Batch" not in facets

    def test_decorators(self) -> None:
        op = make()

        @op.register_vmap()
        def rule(info: Any, in_dims: Any, x: Any) -> Any:
            return x, 0

        assert rule(None, None, 1) == (1, 0)
        assert op.operator.facets["Batch"].function is rule

        @register_jvp(op)
        def forward(ctx: Any, t: Any) -> Any:
            return t

        assert forward(None, 1) == 1
        assert op.operator.facets["Forward"].function is forward

    def test_a_later_one_replaces(self) -> None:
        op = make()
        first = op.register_vmap(lambda info, in_dims, x: (x, 1))
        op.register_vmap(lambda info, in_dims, x: (x, 2))
        first.remove()
        assert op.operator.facets["Batch"].function(None, (0,), 0) == (0, 2)

    @pytest.mark.parametrize("method", ["register_jvp", "register_vmap"])
    def test_not_a_function(self, method: str) -> None:
        op = make()
        with pytest.raises(RegistrationError, match=rf"\[{NS}::f\] fn is a function, got 3"):
            getattr(op, method)(3)
        assert not {"Forward", "Batch"} & set(op.operator.facets)

    @pytest.mark.parametrize(
        ("method", "function", "called"),
        [
            ("register_autograd", lambda: None, "backward(ctx, grad0)"),
            ("register_autograd", lambda ctx: None, "backward(ctx, grad0)"),
            ("register_jvp", lambda ctx, t, u: None, "fn(ctx, tangent_of_x)"),
            ("register_vmap", lambda info, in_dims: None, "fn(info, in_dims, x, by=by)"),
            ("register_vmap", lambda info, in_dims, x: None, "fn(info, in_dims, x, by=by)"),
        ],
    )
    def test_signatures_are_checked(self, method: str, function: Any, called: str) -> None:
        op = make(lambda x, *, by=1.0: x * by, "(Tensor x, *, float by=1.0) -> Tensor")
        with pytest.raises(RegistrationError) as caught:
            getattr(op, method)(function)
        assert f"called as {called}" in str(caught.value)
        assert "test_custom_methods.py:" in str(caught.value)
        for wrong in (lambda ctx, inputs, output: None, lambda: None):
            with pytest.raises(RegistrationError, match=r"setup_context\(ctx, inputs, keyword_only_inputs, output\)"):
                op.register_autograd(lambda ctx, g: g, setup_context=wrong)
        assert not {"Backward", "Forward", "Batch"} & set(op.operator.facets)

    def test_without_autocast_after_a_call_with_it(self) -> None:
        op = make(lambda x: x * 1)
        handle = op.register_autocast("cpu", tk.float16)
        with tk.autocast("cpu"):
            assert op(X).dtype == tk.float16
            assert op(X.to(tk.float64)).dtype == tk.float64
        handle.remove()
        with tk.autocast("cpu"):
            assert op(X).dtype == tk.float32

    def test_autocast_for_a_device_that_is_not_there(self) -> None:
        handle = make().register_autocast("cuda", tk.float16)
        assert registry.find(f"{NS}::f").facets["Autocast"].dtypes == {"cuda": tk.float16}
        assert make()(X).tolist() == [2.0, 3.0]
        handle.remove()

    def test_autocast(self) -> None:
        op = make()
        first = op.register_autocast("cpu", tk.float16)
        facets = op.operator.facets
        assert dict(facets["Autocast"].dtypes) == {"cpu": tk.float16}
        second = register_autocast(op, "meta", "float32")
        assert dict(facets["Autocast"].dtypes) == {"cpu": tk.float16, "meta": tk.float32}
        first.remove()
        assert dict(facets["Autocast"].dtypes) == {"meta": tk.float32}
        second.remove()
        assert "Autocast" not in facets

    def test_autocast_is_checked(self) -> None:
        op = make()
        with pytest.raises(ValueError, match=r"'gpu' is not a device type.*cpu"):
            op.register_autocast("gpu", tk.float16)
        for wrong in (tk.int32, "nothing", 3):
            with pytest.raises(ValueError, match="a floating dtype"):
                op.register_autocast("cpu", wrong)
        assert "Autocast" not in op.operator.facets

    def test_unknown_operators(self) -> None:
        make()
        for register in (register_jvp, register_vmap, register_autograd):
            with pytest.raises(OperatorNotFoundError, match=rf"{NS}::g.*Close: {NS}::f"):
                register(f"{NS}::g", lambda *args: None)

    def test_decorating_again_starts_afresh(self) -> None:
        op = make()
        op.register_vmap(lambda info, in_dims, x: (x, 0))
        op.register_jvp(lambda ctx, t: t)
        op.register_autocast("cpu", tk.float16)
        op.register_fake(lambda x: tk.empty(9, device="meta"))
        op.register_kernel("cpu", lambda x: x + 100)
        again = make()
        assert not {"Batch", "Forward", "Autocast", "Backward"} & set(again.operator.facets)
        assert again(X).tolist() == [2.0, 3.0]
        assert again(tk.empty(2, device="meta")).shape == (2,)

    def test_a_layer_that_refuses_leaves_the_old_one(self) -> None:
        op = make()
        op.register_vmap(lambda info, in_dims, x: (x, 1))

        def refuses(operator: Any) -> None:
            facet = operator.facets.get("Batch")
            if operator.name == f"{NS}::f" and facet.function(None, None, None)[1] == 2:
                raise ZeroDivisionError

        with registry.subscribe(refuses):
            with pytest.raises(ZeroDivisionError):
                op.register_vmap(lambda info, in_dims, x: (x, 2))
            assert op.operator.facets["Batch"].function(None, None, None) == (None, 1)


class TestSwitches:
    def make(self) -> CustomOperator:
        op: CustomOperator = make()
        op.register_kernel("cpu", lambda x: x + 10)
        return op

    def test_falls_to_the_function(self) -> None:
        op = self.make()
        assert op(X).tolist() == [11.0, 12.0]
        with op.set_kernel_enabled("cpu", False):
            assert op(X).tolist() == [2.0, 3.0]
            with op.set_kernel_enabled("cpu"):
                assert op(X).tolist() == [11.0, 12.0]
                with op.set_kernel_enabled("cpu", enabled=False):
                    assert op(X).tolist() == [2.0, 3.0]
            assert op(X).tolist() == [2.0, 3.0]
        assert op(X).tolist() == [11.0, 12.0]
        with op.set_kernel_enabled("cpu", True):
            assert op(X).tolist() == [11.0, 12.0]

    def test_ends_with_an_exception(self) -> None:
        op = self.make()
        with pytest.raises(ZeroDivisionError), op.set_kernel_enabled("cpu", False):
            raise ZeroDivisionError
        assert op(X).tolist() == [11.0, 12.0]

    def test_a_kernel_that_is_registered_later(self) -> None:
        op = make()
        with op.set_kernel_enabled("cpu", False):
            op.register_kernel("cpu", lambda x: x + 10)
            assert op(X).tolist() == [2.0, 3.0]
        assert op(X).tolist() == [11.0, 12.0]

    def test_conditions_and_priorities_stay(self) -> None:
        """A kernel that was switched once is still asked after those with a condition, and the newest wins."""
        op = make()
        library = Library(NS, "IMPL")
        library.impl("f", lambda x: x + 100, "cpu", when=lambda x: x.shape == (1,))
        library.impl("f", lambda x: x + 10, "cpu")
        library.impl("f", lambda x: x + 20, "cpu", allow_override=True)
        one = tk.asarray([1.0])
        for _ in range(2):
            assert (op(X).tolist(), op(one).tolist()) == ([21.0, 22.0], [101.0])
            with op.set_kernel_enabled("cpu", False):
                assert (op(X).tolist(), op(one).tolist()) == ([2.0, 3.0], [2.0])
        with pytest.raises(RegistrationError, match="has a kernel for CPU already"):
            library.impl("f", lambda x: x, "cpu")

    def test_only_this_operator_and_device(self) -> None:
        op = self.make()
        other = custom_op(f"{NS}::g", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
        other.register_kernel("cpu", lambda x: x + 20)
        op.register_kernel("meta", lambda x: tk.empty(7, device="meta"))
        with op.set_kernel_enabled("cpu", False):
            assert other(X).tolist() == [21.0, 22.0]
            assert op(tk.empty(2, device="meta")).shape == (7,)

    def test_none_is_left(self) -> None:
        op = make(device_types="cpu")
        with op.set_kernel_enabled("cpu", False), pytest.raises(MissingKernelError, match=rf"\[{NS}::f\]"):
            op(X)
        assert op(X).tolist() == [2.0, 3.0]

    def test_with_a_gradient(self) -> None:
        op = make(lambda x: x * 2)
        op.register_kernel("cpu", lambda x: x * 10)
        op.register_autograd(lambda ctx, g: g * 2)
        x = leaf(1.0)
        with op.set_kernel_enabled("cpu", False):
            out = op(x)
        assert out.tolist() == [2.0]
        assert [g.tolist() for g in tk.autograd.grad(tk.sum(out), (x,)) if g is not None] == [[2.0]]
        assert op(x).tolist() == [10.0]

    def test_unknown_device(self) -> None:
        with pytest.raises(RegistrationError, match="'gpu' is neither"):
            self.make().set_kernel_enabled("gpu", False)

    def test_threads_do_not_see_it(self) -> None:
        op = self.make()
        seen: list[Any] = []
        with op.set_kernel_enabled("cpu", False):
            thread = threading.Thread(target=lambda: seen.append(op(X).tolist()))
            thread.start()
            thread.join()
            assert op(X).tolist() == [2.0, 3.0]
        assert seen == [[11.0, 12.0]]

    def test_tasks_do_not_see_it(self) -> None:
        op = self.make()

        async def without() -> Any:
            with op.set_kernel_enabled("cpu", False):
                await asyncio.sleep(0.01)
                return op(X).tolist()

        async def plain() -> Any:
            await asyncio.sleep(0.005)
            return op(X).tolist()

        async def both() -> Any:
            return await asyncio.gather(without(), plain())

        assert asyncio.run(both()) == [[2.0, 3.0], [11.0, 12.0]]

    def test_an_operator_that_is_made_again(self) -> None:
        for _ in range(3):
            self.test_falls_to_the_function()


class TestGradientOfMutation:
    """Registered gradients of operators that write to arguments."""

    def accumulate(self) -> CustomOperator:
        """x * 2, with x added to a buffer."""

        def accumulate(x: Tensor, buffer: Tensor) -> Tensor:
            buffer.numpy()[...] += x.numpy()
            return x * 2

        op: CustomOperator = custom_op(f"{NS}::accumulate", accumulate, mutates_args=("buffer",))
        op.register_autograd(lambda ctx, g: (g * 2, None))
        return op

    def test_of_the_results(self) -> None:
        op, x, buffer = self.accumulate(), leaf(1.0, 2.0), tk.zeros(2, dtype=tk.float64)
        out = op(x, buffer)
        assert not buffer.requires_grad
        assert buffer.tolist() == [1.0, 2.0]
        assert buffer._version == 1
        assert [g.tolist() for g in tk.autograd.grad(tk.sum(out), (x,)) if g is not None] == [[2.0, 2.0]]

    def test_a_buffer_that_requires_a_gradient_is_refused(self) -> None:
        op, x = self.accumulate(), leaf(1.0, 2.0)
        for buffer in (leaf(0.0, 0.0), leaf(0.0, 0.0) * 1):
            with pytest.raises(RuntimeError, match=rf"\[{NS}::accumulate\] mutates its argument 'buffer', which req"):
                op(x, buffer)
            assert buffer.tolist() == [0.0, 0.0]
            assert buffer._version == 0

    def scale(self) -> CustomOperator:
        def scale_(x: Tensor, by: Tensor) -> None:
            x.numpy()[...] *= by.numpy()

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            assert output is None
            ctx.save_for_backward(inputs[1])
            ctx.was = inputs[0].clone()

        def setup_twice(ctx: Any, inputs: Any, output: Any) -> None:
            setup(ctx, inputs, output)
            ctx.save_for_backward(*inputs)

        op: CustomOperator = custom_op(f"{NS}::scale_", scale_, mutates_args=("x",))
        op.register_autograd(
            # what is saved of x is what became of it: x * by
            lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0] / ctx.saved_tensors[1]),
            setup_context=setup_twice,
        )
        return op

    def test_of_what_is_written_to(self) -> None:
        op = self.scale()

        def f(x: Tensor, by: Tensor) -> Tensor:
            y = x * x
            op(y, by)
            return y * 3

        assert gradcheck(f, (leaf(1.0, -2.0), leaf(0.5, 4.0)))

    def test_becomes_part_of_the_graph(self) -> None:
        op, by = self.scale(), leaf(2.0)
        y = tk.ones(1, dtype=tk.float64)
        op(y, by)
        assert y.requires_grad
        assert y.grad_fn is not None
        assert y.grad_fn.name() == "Scale_Backward"
        tk.sum(y).backward()
        assert by.grad is not None
        assert by.grad.tolist() == [1.0]

    def test_leaves_and_their_views_are_refused(self) -> None:
        op, by = self.scale(), leaf(2.0)
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place op"):
            op(x, by)
        with pytest.raises(
            RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-pl"
        ):
            op(x[:1], by)
        assert x.tolist() == [1.0]
        with tk.no_grad():
            op(x, by)
        assert x.tolist() == [2.0]

    def test_a_view_takes_its_base_along(self) -> None:
        op, by = self.scale(), leaf(2.0)
        base = tk.ones(2, dtype=tk.float64)
        op(base[:1], by)
        assert base.tolist() == [2.0, 1.0]
        tk.sum(base * tk.tensor([3.0, 5.0], dtype=tk.float64)).backward()
        assert by.grad is not None
        assert by.grad.tolist() == [3.0]

    def test_retained_gradients_move_along(self) -> None:
        op, x = self.scale(), leaf(3.0)
        y = x * 1
        y.retain_grad()
        op(y, tk.tensor([2.0], dtype=tk.float64))
        tk.sum(y * 5).backward()
        assert y.grad is not None
        assert y.grad.tolist() == [5.0]
        assert x.grad is not None
        assert x.grad.tolist() == [10.0]

    def test_results_that_are_what_was_written_to(self) -> None:
        def double_(x: Tensor) -> Tensor:
            x.numpy()[...] *= 2
            return x

        op = custom_op(f"{NS}::double_", double_, mutates_args=("x",), schema="(Tensor(a!) x) -> Tensor(a!)")
        op.register_autograd(lambda ctx, g: g * 2)
        x = leaf(3.0)
        y = x * 1
        out = op(y)
        assert out is y
        tk.sum(out * 5).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [10.0]

    def test_lists_of_what_is_written_to(self) -> None:
        def doubles(xs: list[Tensor]) -> None:
            for x in xs:
                x.numpy()[...] *= 2

        op = custom_op(f"{NS}::doubles", doubles, mutates_args=("xs",))
        op.register_autograd(lambda ctx, grads: [g * 2 for g in grads])
        x = leaf(3.0)
        y, z = x * 1, x * 2
        op([y, z])
        tk.sum(y + z * 10).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [42.0]


class TestPending:
    def test_impl_before_define_is_checked_and_used(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.impl("later", lambda x, y: x + y, "cpu")
            with pytest.raises(RegistrationError, match="signature"):
                library.define("later(Tensor x) -> Tensor")
            assert f"{NS}::later" not in registry.operators
            library.define("later(Tensor x, Tensor y) -> Tensor")
            assert tk.ops.methods_test.later(X, X).tolist() == [2.0, 4.0]

    def test_keyword_only_tensors(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("kw(Tensor x, *, Tensor w) -> Tensor")
            with pytest.raises(RegistrationError, match="takes x by position and w by keyword"):
                library.impl("kw", lambda x: x, "cpu")
            library.impl("kw", lambda x, *, w: x * w, "cpu")
            assert tk.ops.methods_test.kw(X, w=X).tolist() == [1.0, 4.0]
            with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
                tk.ops.methods_test.kw(X, X)
            with pytest.raises(RegistrationError, match="keyword-only tensor arguments w"):
                register_autograd(f"{NS}::kw", lambda ctx, g: g)
