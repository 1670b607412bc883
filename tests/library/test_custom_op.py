"""tenkey.library.custom_op: Python functions as operators, their kernels, mutation, and everything that is refused."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import (
    ArgumentError,
    MissingKernelError,
    OperatorNotFoundError,
    RegistrationError,
    SchemaError,
)
from tenkey.dispatch.registry import registry
from tenkey.library import CustomOperator, Library, custom_op, register_autograd, register_fake, register_kernel
from tests._custom_op import NS, Tensor, gradients, leaf, make, square_with_gradient
from tests._registry import registry_as_before

HERE = "test_custom_op.py:"


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


class TestCall:
    def test_looks_like_the_function(self) -> None:
        @custom_op(f"{NS}::scale", mutates_args=())
        def scale(x: Tensor, factor: float = 2.0, *, offset: float = 0.0) -> Tensor:
            """Scaled and moved."""
            return x * factor + offset

        assert getattr(scale, "__name__", None) == "scale"
        assert scale.__doc__ == "Scaled and moved."
        assert list(inspect.signature(scale).parameters) == ["x", "factor", "offset"]
        assert f"{NS}::scale(Tensor x, float factor=2.0, *, float offset=0.0) -> Tensor" in repr(scale)
        x = tk.asarray([1.0, 2.0])
        assert scale(x).tolist() == [2.0, 4.0]
        assert scale(x, 3, offset=1).tolist() == [4.0, 7.0]
        assert scale(factor=3.0, x=x).tolist() == [3.0, 6.0]
        assert tk.ops.custom_op_test.scale(x).tolist() == [2.0, 4.0]

    def test_function_gets_converted_arguments(self) -> None:
        seen: list[Any] = []

        def kernel(x: Tensor, axes: Any, factor: float) -> Tensor:
            seen.extend((axes, factor))
            return x + 0

        op = make("converted", kernel, "(Tensor x, int[] axes, float factor) -> Tensor")
        op(tk.asarray([1.0]), [np.int64(1), 2], np.float32(2))
        assert seen == [(1, 2), 2.0]
        assert [type(value) for value in (*seen[0], seen[1])] == [int, int, float]

    def test_wrong_arguments(self) -> None:
        op = make("argument", lambda x, n: x, "(Tensor x, int n) -> Tensor")
        with pytest.raises(ArgumentError, match=rf"\[{NS}::argument\] the argument 'n' must be an int, got 'a'"):
            op(tk.asarray([1.0]), "a")
        with pytest.raises(ArgumentError, match=rf"\[{NS}::argument\].*'x'.*Tensor"):
            op("a", 1)
        with pytest.raises(TypeError, match=rf"^{NS}::argument\(\) missing 1 required positional argument: 'n'"):
            op(tk.asarray([1.0]))

    def test_errors_about_arguments_name_the_operator(self) -> None:
        """The function behind an operator may have another name than the operator, or none."""

        @custom_op(f"{NS}::official", mutates_args=())
        def anything(x: Tensor, factor: float = 2.0) -> Tensor:
            return x * factor

        x = tk.asarray([1.0])
        calls: list[Any] = [lambda: anything(), lambda: anything(x, 1.0, 2.0), lambda: anything(x, scale=1.0)]
        calls += [lambda: anything(x, x=x), lambda: anything("a"), lambda: anything(x, "a"), lambda: anything({})]
        calls += [lambda: tk.ops.custom_op_test.official()]
        for call in calls:
            with pytest.raises(TypeError) as caught:
                call()
            assert f"{NS}::official" in str(caught.value)
            assert "anything" not in str(caught.value)

    def test_pickled_by_name(self) -> None:
        op = make("pickled", lambda x: x + 1, "(Tensor x) -> Tensor")
        assert pickle.loads(pickle.dumps(op)) is op
        text = pickle.dumps(op).replace(b"pickled", b"removed")
        with pytest.raises(OperatorNotFoundError, match="custom_op_test::removed"):
            pickle.loads(text)

    def test_results(self) -> None:
        x = tk.asarray([3.0, 4.0])
        pair = make("pair", lambda x: (x + 1, x + 2), "(Tensor x) -> (Tensor, Tensor)")
        first, second = pair(x)
        assert (first.tolist(), second.tolist()) == ([4.0, 5.0], [5.0, 6.0])
        assert make("number", lambda x: x.shape[0], "(Tensor x) -> int")(x) == 2
        assert make("nothing", lambda x: None, "(Tensor x) -> ()")(x) is None

    def test_without_a_gradient_too_a_result_is_a_new_tensor(self) -> None:
        op = make("same", lambda x: x, "(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match=rf"\[{NS}::same\] returned one of its arguments, 'x'.*clone\(\)"):
            op(tk.asarray([1.0]))

    def test_dispatch_sees_it(self) -> None:
        op = make("seen", lambda x: x + 1, "(Tensor x) -> Tensor")
        text = tk.dispatch.explain(op, tk.asarray([1.0]))
        assert f"{NS}::seen" in text
        assert HERE in text


class TestDefinition:
    @pytest.mark.parametrize("name", ["plain", "", 7])
    def test_name(self, name: Any) -> None:
        with pytest.raises(RegistrationError, match="must be 'namespace::name', got"):
            custom_op(name, lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")

    @pytest.mark.parametrize("schema", ["wrong(Tensor x) -> Tensor", "", 3])
    def test_schema_has_no_name(self, schema: Any) -> None:
        with pytest.raises(RegistrationError, match=rf"\[{NS}::f\] schema= .* such as '\(Tensor x\) -> Tensor'"):
            custom_op(f"{NS}::f", lambda x: x, mutates_args=(), schema=schema)
        assert not [name for name in registry.operators if name.startswith(f"{NS}::f")]

    def test_what_is_no_sequence(self) -> None:
        with pytest.raises(RegistrationError, match=rf"\[{NS}::f\] device_types is a device .* got 3 of type int"):
            custom_op(f"{NS}::f", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor", device_types=3)  # type: ignore[arg-type]
        with pytest.raises(RegistrationError, match=rf"\[{NS}::f\] mutates_args must be .* got 3 of type int"):
            custom_op(f"{NS}::f", lambda x: x, mutates_args=3, schema="(Tensor x) -> Tensor")  # type: ignore[call-overload]
        assert f"{NS}::f" not in registry.operators

    def test_reserved_namespace(self) -> None:
        with pytest.raises(RegistrationError, match="'tk' belongs to tenkey"):
            custom_op("tk::mine", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
        assert "tk::mine" not in registry.operators

    def test_annotations_are_needed(self) -> None:
        with pytest.raises(SchemaError, match=r"the parameter 'x' of .* has no annotation"):
            make("bare", lambda x: x)
        assert f"{NS}::bare" not in registry.operators

    def test_taken_by_a_library(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("taken(Tensor x) -> Tensor")
            library.impl("taken", lambda x: x + 1, "cpu")
            with pytest.raises(RegistrationError, match=rf"\[{NS}::taken\] is defined already at .*{HERE}"):
                make("taken", lambda x: x, "(Tensor x) -> Tensor")
            assert tk.ops.custom_op_test.taken(tk.asarray([1.0])).tolist() == [2.0]

    @pytest.mark.parametrize(
        ("function", "schema", "text"),
        [
            (lambda x, y: x, "(Tensor x) -> Tensor", r"signature \(x, y\)"),
            (lambda x: x, "(Tenso x) -> Tensor", "'Tenso'"),
            (3, "(Tensor x) -> Tensor", "a kernel is a function, got 3"),
        ],
    )
    def test_failure_leaves_the_old_one(self, function: Any, schema: str, text: str) -> None:
        op = square_with_gradient("kept")
        register_fake(op, lambda x: tk.empty(x.shape, dtype=x.dtype, device=x.device))
        x = leaf(1.0, 2.0)
        with pytest.raises((RegistrationError, SchemaError), match=text):
            make("kept", function, schema)
        assert pickle.loads(pickle.dumps(op)) is op
        assert op(x).tolist() == [1.0, 4.0]
        assert gradients(op(x), x) == [[2.0, 4.0]]
        assert op(tk.empty((2, 3), device="meta")).shape == (2, 3)
        op.register_autograd(lambda ctx, g: g * 7)  # and it can still be changed
        assert gradients(op(x), x) == [[7.0, 7.0]]

    def test_failure_of_an_installer_leaves_the_old_one(self) -> None:
        op = square_with_gradient("kept")
        x = leaf(1.0, 2.0)
        armed = False

        def fails(operator: Any) -> None:
            if armed and operator.name == f"{NS}::kept":
                raise ZeroDivisionError

        with registry.subscribe(fails):
            armed = True
            with pytest.raises(ZeroDivisionError):
                make("kept", lambda x: x, "(Tensor x) -> Tensor")
            armed = False
        assert gradients(op(x), x) == [[2.0, 4.0]]
        handle = op.register_autograd(lambda ctx, g: g * 7)
        assert gradients(op(x), x) == [[7.0, 7.0]]
        handle.remove()
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            gradients(op(x), x)

    def test_again_replaces(self) -> None:
        old = square_with_gradient("again")
        handle = old.register_autograd(lambda ctx, g: g)
        new = make("again", lambda x, n: x * n, "(Tensor x, int n) -> Tensor")
        x = leaf(1.0, 2.0)
        assert new(x, 3).tolist() == [3.0, 6.0]
        assert tk.ops.custom_op_test.again(x, 3).tolist() == [3.0, 6.0]
        assert pickle.loads(pickle.dumps(new)) is new
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            gradients(new(x, 3), x)  # the gradient belonged to the one that was replaced
        new.register_autograd(lambda ctx, g: (g * 3, None))
        handle.remove()  # of the old one: it must not take the new one's gradient away
        assert gradients(new(x, 3), x) == [[3.0, 3.0]]

    def test_device_types(self) -> None:
        op = make("cpu_only", lambda x: x + 1, "(Tensor x) -> Tensor", device_types="cpu")
        assert op(tk.asarray([1.0])).tolist() == [2.0]
        with pytest.raises(MissingKernelError, match=rf"\[{NS}::cpu_only\] has no kernel for meta.*register_fake"):
            op(tk.empty(2, device="meta"))
        both = make("both", lambda x: x + 1, "(Tensor x) -> Tensor", device_types=["cpu", "meta", "cpu"])
        assert both(tk.empty(2, device="meta")).shape == (2,)
        everywhere = make("everywhere", lambda x: x + 1, "(Tensor x) -> Tensor")
        assert everywhere(tk.empty(2, device="meta")).shape == (2,)

    @pytest.mark.parametrize(
        "kernel",
        [
            lambda x: tk.asarray(x.numpy() + 1),
            lambda x: x.to_device("cpu") + 1,
            lambda x: x * x.sum().item(),
            lambda x: x if x.sum() > 0 else -x,
            lambda x: tk.asarray(x.tolist()),
        ],
    )
    def test_without_a_fake(self, kernel: Any) -> None:
        op = make("no_fake", kernel, "(Tensor x) -> Tensor")
        outer = make("outer", lambda x: op(x) + 1, "(Tensor x) -> Tensor")
        message = rf"^\[{NS}::no_fake\] got tensors on 'meta'.*register_fake\('{NS}::no_fake', function\)"
        for function in (op, outer):
            for x in (tk.empty(2, device="meta"), tk.empty(2, device="meta").requires_grad_()):
                with pytest.raises(RuntimeError, match=message) as caught:
                    function(x)
                assert caught.value.__suppress_context__
        op.register_fake(lambda x: tk.empty(x.shape, dtype=x.dtype, device=x.device))
        assert outer(tk.empty(2, device="meta")).shape == (2,)

    def test_unknown_device_type(self) -> None:
        with pytest.raises(RegistrationError, match=rf"\[{NS}::wrong\] 'gpu' is neither a dispatch key nor a device"):
            make("wrong", lambda x: x, "(Tensor x) -> Tensor", device_types=["cpu", "gpu"])
        assert f"{NS}::wrong" not in registry.operators


class TestKernels:
    def test_for_another_device(self) -> None:
        op = make("kernels", lambda x: x + 1, "(Tensor x) -> Tensor", device_types="cpu")

        @op.register_kernel("meta")
        def on_meta(x: Tensor) -> Tensor:
            return tk.empty((*x.shape, 7), dtype=x.dtype, device="meta")

        assert op(tk.empty(2, device="meta")).shape == (2, 7)
        assert op(tk.asarray([1.0])).tolist() == [2.0]
        assert on_meta.__name__ == "on_meta"

    def test_beats_the_function(self) -> None:
        op = make("beaten", lambda x: x + 1, "(Tensor x) -> Tensor")
        with op.register_kernel("cpu", lambda x: x + 10):
            assert op(tk.asarray([1.0])).tolist() == [11.0]
        assert op(tk.asarray([1.0])).tolist() == [2.0]

    def test_several_devices_or_none(self) -> None:
        op = make("several", lambda x: x + 1, "(Tensor x) -> Tensor")
        with op.register_kernel(["cpu", "meta"], lambda x: tk.zeros(5, device=x.device)):
            assert op(tk.asarray([1.0])).shape == (5,)
            assert op(tk.empty(2, device="meta")).shape == (5,)
        assert op(tk.asarray([1.0])).tolist() == [2.0]
        with pytest.raises(RegistrationError, match="'gpu' is neither"):
            op.register_kernel(["cpu", "gpu"], lambda x: x)
        assert op(tk.asarray([1.0])).tolist() == [2.0]  # nor for the CPU
        with pytest.raises(RegistrationError, match=r"signature \(\)"):
            op.register_kernel("cpu", lambda: 0)

    def test_by_the_functions_of_the_module(self) -> None:
        op = make("outside", lambda x: x + 1, "(Tensor x) -> Tensor", device_types="cpu")
        register_fake(op, lambda x: tk.empty((9,), device="meta"))
        assert op(tk.empty(2, device="meta")).shape == (9,)
        with register_kernel(op, "cpu", lambda x: x * 5, allow_override=True):
            assert op(tk.asarray([1.0])).tolist() == [5.0]
        with register_autograd(op, lambda ctx, g: g * 5):
            x = leaf(1.0)
            assert gradients(op(x), x) == [[5.0]]

    def test_fake(self) -> None:
        op = make("faked", lambda x: tk.asarray(np.repeat(x.detach().numpy(), 2)), "(Tensor x) -> Tensor")
        op.register_fake(lambda x: tk.empty((2 * x.shape[0],), dtype=x.dtype, device=x.device))
        made = op(tk.empty((3,), dtype=tk.int8, device="meta"))
        assert (made.shape, made.dtype, made.device) == ((6,), tk.int8, "meta")
        assert op(tk.asarray([1, 2])).tolist() == [1, 1, 2, 2]


class TestMutation:
    def increment(self) -> CustomOperator:
        @custom_op(f"{NS}::increment", mutates_args=("x",))
        def increment(x: Tensor, by: float = 1.0) -> None:
            x.detach().numpy()[...] += by

        made: CustomOperator = increment
        return made

    def test_bumps_the_version(self) -> None:
        increment = self.increment()
        assert "Tensor(a0!) x" in str(increment.operator.schema)
        x = tk.asarray([1.0, 2.0])
        view = x[:1]
        before = x._version
        increment(x)
        assert x.tolist() == [2.0, 3.0]
        assert x._version == before + 1
        assert view._version == x._version
        increment(view, by=5.0)
        assert x.tolist() == [7.0, 3.0]
        assert x._version == before + 2

    def test_lists_and_optionals(self) -> None:
        @custom_op(f"{NS}::fill", mutates_args=("xs", "y"))
        def fill(xs: list[Tensor], y: Tensor | None, z: Tensor) -> None:
            for x in xs:
                x.numpy()[...] = 7
            if y is not None:
                y.numpy()[...] = 8

        a, b, c, z = (tk.zeros(2) for _ in range(4))
        fill([a, b], None, z)
        fill([a], c, z)
        assert [t._version for t in (a, b, c, z)] == [2, 1, 1, 0]
        assert c.tolist() == [8.0, 8.0]

    def test_a_changed_saved_tensor_is_noticed(self) -> None:
        increment = self.increment()
        x = leaf(1.0, 2.0)
        y = x * 1
        out = y * y
        increment(y.detach())
        with pytest.raises(RuntimeError, match=r"modified by an in-?place operation"):
            gradients(out, x)

    def test_needs_no_grad(self) -> None:
        increment = self.increment()
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::increment\] mutates its argument 'x'.*no_grad"):
            increment(x)
        assert x.tolist() == [1.0]
        assert x._version == 0
        with tk.no_grad():
            increment(x)
        assert x.tolist() == [2.0]

    def test_a_gradient_can_be_given_and_replaced(self) -> None:
        increment = self.increment()
        first = increment.register_autograd(lambda ctx: (None, None))
        second = increment.register_autograd(lambda ctx: (None, None))
        first.remove()
        second.remove()
        with pytest.raises(RuntimeError, match="mutates its argument"):
            increment(leaf(1.0))

    def test_unknown_argument(self) -> None:
        def f(x: Tensor, n: int) -> Tensor:
            return x

        with pytest.raises(SchemaError, match=r"mutates_args names 'y', which .* does not have"):
            make("mutates", f, mutates_args=("y",))
        with pytest.raises(SchemaError, match=r"mutates_args names 'n' of .*, which holds no tensor"):
            make("mutates", f, mutates_args="n")
        assert f"{NS}::mutates" not in registry.operators
