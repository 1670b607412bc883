"""Kernels from outside are checked: Note [Checked kernels]."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import DispatchKey
from tenkey.dispatch.registry import registry
from tenkey.library import CustomOperator, Library, custom_op
from tests._backends import Host

NS = "checks_test"


class _HostAliases(Host):
    name = "hostaliases"


Tensor = tk.Tensor


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def make(function: Callable[..., Any], schema: str = "(Tensor x) -> Tensor", **options: Any) -> CustomOperator:
    options.setdefault("mutates_args", ())
    made: CustomOperator = custom_op(f"{NS}::f", function, schema=schema, **options)
    return made


WRONG: list[tuple[str, Callable[[Tensor], Any], str]] = [
    ("Tensor", lambda x: x.detach().numpy() + 1, "of type ndarray as its result: the schema says Tensor. Convert it"),
    ("Tensor", lambda x: None, r"returned None .* Return a Tensor, or say 'Tensor\?'"),
    ("Tensor", lambda x: 1.0, "returned 1.0 of type float"),
    ("Tensor", lambda x: [x + 1], "of type list"),
    ("Tensor", lambda x: (x + 1, x + 2), "of type tuple"),
    ("Tensor", lambda x: tk.zeros(1, device="meta"), "on the device meta, but its arguments are on cpu"),
    ("Tensor?", lambda x: 1.0, "of type float"),
    ("(Tensor, Tensor)", lambda x: x + 1, r"returned one Tensor, but the schema says 2 results"),
    ("(Tensor, Tensor)", lambda x: (x + 1,), "returned 1 results, but the schema says 2"),
    ("(Tensor, Tensor)", lambda x: (x + 1, x + 2, x + 3), "returned 3 results, but the schema says 2"),
    ("(Tensor, Tensor)", lambda x: None, "returned one NoneType, but the schema says 2"),
    ("(Tensor a, Tensor b)", lambda x: (x + 1, 2), "returned 2 of type int as its result b"),
    ("(Tensor, int)", lambda x: (x + 1, "2"), "returned '2' of type str as its result 1: the schema says int"),
    ("(Tensor, int)", lambda x: (x + 1, 2.5), "returned 2.5 of type float"),
    ("(Tensor, float)", lambda x: (x + 1, True), "returned True of type bool"),
    ("Tensor[]", lambda x: x + 1, "of type Tensor as its result"),
    ("Tensor[]", lambda x: [x + 1, None], r"returned None .* as its result\[1\]"),
    ("Tensor[2]", lambda x: [x + 1], r"the schema says Tensor\[2\]"),
    ("Tensor[]", lambda x: [x + 1, tk.zeros(1, device="meta")], "on the device meta"),
    ("str", lambda x: 3, "the schema says str"),
    ("bool", lambda x: 1, "the schema says bool"),
    ("()", lambda x: x + 1, "the schema says that it returns nothing"),
    ("((Tensor, int))", lambda x: (x + 1, x + 2), r"as its result\[1\]: the schema says int"),
]


@pytest.mark.parametrize(("result", "kernel", "text"), WRONG, ids=[f"{r[0]}-{i}" for i, r in enumerate(WRONG)])
@pytest.mark.parametrize("gradient", [False, True])
def test_wrong_results(result: str, kernel: Callable[[Tensor], Any], text: str, gradient: bool) -> None:
    op = make(kernel, f"(Tensor x) -> {result}")
    op.register_autograd(lambda ctx, *grads: grads[0])
    with pytest.raises(TypeError, match=rf"^\[{NS}::f\] its kernel .*<lambda> returned") as caught:
        op(tk.tensor([1.0], requires_grad=gradient))
    assert caught.match(text)


@pytest.mark.parametrize(("result", "kernel", "text"), WRONG, ids=[f"{r[0]}-{i}" for i, r in enumerate(WRONG)])
@pytest.mark.parametrize("key", ["cpu", "default", DispatchKey.CompositeImplicitAutograd])
def test_wrong_results_of_libraries(result: str, kernel: Callable[[Tensor], Any], text: str, key: Any) -> None:
    with Library(NS, "FRAGMENT") as library:
        library.define(f"g(Tensor x) -> {result}")
        library.impl("g", kernel, key)
        with pytest.raises(TypeError, match=text):
            tk.ops.checks_test.g(tk.ones(1))
        library.impl("g", lambda keyset, x: kernel(x), key, with_keyset=True, allow_override=True)
        with pytest.raises(TypeError, match=text):
            tk.ops.checks_test.g(tk.ones(1))


def test_right_results() -> None:
    x = tk.ones(1)
    for result, kernel, expected in [
        ("(Tensor, int)", lambda x: [x + 1, np.int64(2)], (2.0, 2)),
        ("(Tensor, float)", lambda x: (x + 1, 2), (2.0, 2)),
        ("(Tensor, Scalar)", lambda x: (x + 1, True), (2.0, True)),
        ("(Tensor, complex?)", lambda x: (x + 1, None), (2.0, None)),
    ]:
        first, second = make(kernel, f"(Tensor x) -> {result}")(x)
        assert (first.item(), second) == expected
    assert make(lambda x: None, "(Tensor x) -> Tensor?")(x) is None

    class Own(Tensor):
        pass

    own = make(lambda x: (x + 1).as_subclass(Own) if hasattr(x, "as_subclass") else x + 1)(x)
    assert issubclass(type(own), Tensor)


def test_devices_of_factories_and_of_device_arguments() -> None:
    make_on = make(lambda x, device: tk.zeros(2, device=device), "(Tensor x, Device device) -> Tensor")
    assert make_on(tk.ones(1), "meta").device == "meta"
    factory = make(lambda n: tk.zeros(n, device="meta"), "(int n) -> Tensor")
    assert factory(3).shape == (3,)


def test_fakes_are_checked_and_may_return_their_argument() -> None:
    op = make(lambda x: x + 1)
    op.register_fake(lambda x: x)
    x = tk.empty(2, device="meta")
    assert op(x).shape == (2,)
    op = make(lambda x: x + 1)
    op.register_fake(lambda x: tk.zeros(2))
    with pytest.raises(TypeError, match="on the device cpu, but its arguments are on meta"):
        op(x)


class TestAliases:
    @pytest.mark.parametrize("gradient", [False, True])
    @pytest.mark.parametrize(
        ("kernel", "text"),
        [
            (lambda x, y: y, "returned one of its arguments, 'y'"),
            (lambda x, y: x[:1], "returned a view of one of its arguments, 'x'"),
            (lambda x, y: tk.reshape(y, (1, 2)), "returned a view of one of its arguments, 'y'"),
            (lambda x, y: tk.asarray(y.detach().numpy()), "returned (a view of )?one of its arguments, 'y'"),
            (lambda x, y: x.detach(), "returned a view of one of its arguments, 'x'"),
        ],
    )
    def test_refused(self, kernel: Callable[..., Any], text: str, gradient: bool) -> None:
        op = make(kernel, "(Tensor x, Tensor y) -> Tensor")
        op.register_autograd(lambda ctx, g: (g, g))
        x = tk.tensor([1.0, 2.0], requires_grad=gradient)
        for _ in range(5):  # not only while it is sampled
            with pytest.raises(RuntimeError, match=text):
                op(x, tk.tensor([3.0, 4.0]))

    def test_refused_in_lists_and_pairs(self) -> None:
        op = make(lambda xs: [xs[0] + 1, xs[1]], "(Tensor[] xs) -> Tensor[]")
        with pytest.raises(RuntimeError, match="returned one of its arguments, 'xs'"):
            op([tk.ones(1), tk.ones(1)])
        op = make(lambda x: (x + 1, x[:1]), "(Tensor x) -> (Tensor, Tensor)")
        with pytest.raises(RuntimeError, match="returned a view of one of its arguments, 'x'"):
            op(tk.ones(2))

    def test_one_tensor_as_two_results(self) -> None:
        op = make(lambda x: (x * 2,) * 2, "(Tensor x) -> (Tensor, Tensor)")
        with pytest.raises(RuntimeError, match="returned one tensor as two of its results"):
            op(tk.ones(2))

    def test_the_schema_may_say_so(self) -> None:
        op = make(lambda x, y: x[:1], "(Tensor(a) x, Tensor y) -> Tensor(a)")
        x = tk.ones(2)
        assert tk.shares_storage(op(x, x + 1), x)
        op = make(lambda x, y: y[:1], "(Tensor(a) x, Tensor y) -> Tensor(a)")
        with pytest.raises(RuntimeError, match="a view of one of its arguments, 'y'"):
            op(x, x + 1)

    def test_libraries_may_return_arguments(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("same(Tensor x) -> Tensor")
            library.impl("same", lambda x: x, "cpu")
            x = tk.ones(1)
            assert tk.ops.checks_test.same(x) is x

    @pytest.mark.parametrize("device", ["cpu", "hostaliases"])
    def test_kernels_of_built_in_operators(self, device: str) -> None:
        """Otherwise a change in place of the result would change the argument."""
        with ExitStack() as stack:
            if device != "cpu":
                stack.enter_context(tk.backends.register(_HostAliases()))
            for name, kernel, text in (
                ("abs", lambda x: x, r"\[tk::abs\] returned one of its arguments, 'x'"),
                ("abs", lambda x: x.detach(), "returned a view of one of its arguments, 'x'"),
                ("maximum", lambda x1, x2: x2, "returned one of its arguments, 'x2'"),
                ("maximum", lambda x1, x2: x1[:], "returned a view of one of its arguments, 'x1'"),
                ("sum", lambda x, *axis, **options: x, "returned one of its arguments, 'x'"),
                ("sign", lambda x: x[...], "returned a view of one of its arguments, 'x'"),
            ):
                with tk.library.register_kernel(f"tk::{name}", device, kernel, allow_override=True):
                    x = tk.asarray([1.0, 2.0], device=device)
                    arguments = (x, x * 1) if name == "maximum" else (x,)
                    for _ in range(5):
                        with pytest.raises(RuntimeError, match=text):
                            getattr(tk, name)(*arguments)

    def test_views_and_changes_in_place_return_their_arguments(self) -> None:
        def view(x: Tensor, shape: Any, *, copy: Any = None) -> Tensor:
            return x.detach()

        def add(x1: Tensor, x2: Tensor) -> Tensor:
            x1.numpy()[...] += x2.numpy()
            return x1

        x = tk.ones(2)
        with tk.library.register_kernel("tk::reshape", "cpu", view):
            assert tk.shares_storage(tk.reshape(x, (2,)), x)
        with tk.library.register_kernel("tk::add_", "cpu", add):
            assert tk.ops.tk.add_(x, x) is x
            assert x.tolist() == [2.0, 2.0]

    def test_views_of_something_new(self) -> None:
        assert make(lambda x: tk.reshape(x * 2, (2, 1)))(tk.ones(2)).shape == (2, 1)


class TestDistinct:
    def fill(self) -> CustomOperator:
        def fill(x: Tensor, y: Tensor) -> None:
            x.detach().numpy()[...] = y.detach().numpy()[:1]

        made: CustomOperator = custom_op(f"{NS}::fill", fill, mutates_args=("x",))
        return made

    def test_one_memory_for_two_arguments(self) -> None:
        op, x = self.fill(), tk.tensor([1.0, 2.0])
        for first, second in ((x, x), (x, x[:1]), (x[1:], x), (x[:1], x[1:]), (x, tk.asarray(x.numpy()))):
            with pytest.raises(RuntimeError, match=rf"\[{NS}::fill\] the arguments 'x' and 'y' share one memory"):
                op(first, second)
        assert x.tolist() == [1.0, 2.0]
        assert x._version == 0
        op(x, tk.tensor([5.0]))
        assert x.tolist() == [5.0, 5.0]

    def test_lists(self) -> None:
        def fill(xs: list[Tensor], y: Tensor | None = None) -> None:
            for x in xs:
                x.numpy()[...] = 7

        op: CustomOperator = custom_op(f"{NS}::fills", fill, mutates_args=("xs",))
        a, b = tk.zeros(2), tk.zeros(2)
        op([a, b])
        op([a], b)
        for given in (([a, a],), ([a, b], a), ([a[:1], a[1:]],)):
            with pytest.raises(RuntimeError, match="share one memory"):
                op(*given)

    def test_arguments_that_are_only_read_may_be_one(self) -> None:
        op = make(lambda x, y: x + y, "(Tensor x, Tensor y) -> Tensor")
        x = tk.ones(1)
        assert op(x, x).tolist() == [2.0]


class TestSampling:
    @pytest.mark.parametrize("first", [0, 1, 2, 3, 7, 50, 150, 1000])
    def test_found_within_200_calls(self, first: int) -> None:
        """A kernel that starts to change its input after some calls is found within the next 200."""
        calls = 0

        def kernel(x: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            if calls > first:
                x.detach().numpy()[-1] += 1
            return x + 1

        op = make(kernel)
        x = tk.zeros(5)
        for _ in range(first):
            op(x)
        with pytest.raises(RuntimeError, match=r"changed the argument 'x' in place.*mutates_args=\('x',\)"):
            all(op(x) is not None for _ in range(200))
        assert calls > first
        assert x._version > 0

    def test_found_where_every_other_call_does_it(self) -> None:
        for period in (2, 3, 5, 7):
            op = make(lambda x, n: x.detach().numpy().__setitem__(0, n) or x + 1, "(Tensor x, int n) -> Tensor")
            x = tk.zeros(3)
            values = (i if i % period == period - 1 else int(x[0].item()) for i in range(200 * period))
            with pytest.raises(RuntimeError, match="changed the argument 'x'"):
                all(op(x, n) is not None for n in values)

    @pytest.mark.parametrize("gradient", [False, True])
    @pytest.mark.parametrize(
        ("schema", "call"),
        [
            ("(Tensor[] v) -> Tensor", lambda op, x: op([tk.ones(1), x])),
            ("(Tensor? v) -> Tensor", lambda op, x: op(x)),
            ("((Tensor, int) v) -> Tensor", lambda op, x: op((x, 1))),
            ("(int n, *, Tensor v) -> Tensor", lambda op, x: op(1, v=x)),
        ],
    )
    def test_in_all_kinds_of_arguments(self, schema: str, call: Any, gradient: bool) -> None:
        def change(value: Any) -> None:
            if isinstance(value, Tensor):
                value.detach().numpy()[...] += 1
            elif isinstance(value, (list, tuple)):
                change(value[-1] if isinstance(value[-1], Tensor) else value[0])

        def kernel(*args: Any, **kwargs: Any) -> Tensor:
            change(kwargs.get("v", args[-1]))
            return tk.ones(1)

        with pytest.raises(RuntimeError, match="changed the argument 'v' in place"):
            call(make(kernel, schema), tk.tensor([1.0, 2.0], requires_grad=gradient))

    def test_by_operators_of_tenkey(self) -> None:
        with pytest.raises(RuntimeError, match="changed the argument 'x' in place"):
            make(lambda x: x.add_(1) * 1)(tk.ones(2))

    def test_large_inputs(self) -> None:
        x = tk.zeros((3 << 20) * 2)

        def kernel(x: Tensor) -> Tensor:
            x.numpy()[12345] = 1
            return tk.ones(1)

        with pytest.raises(RuntimeError, match="changed the argument 'x'"):
            make(kernel)(x)

    def test_not_a_number_is_no_change(self) -> None:
        op = make(lambda x: x + 1)
        x = tk.asarray([float("nan"), 1.0])[::1]
        for _ in range(300):
            op(x)

    def test_declared_changes_are_fine(self) -> None:
        op = make(
            lambda x, y: x.numpy().__setitem__(0, 5) or y + 1, "(Tensor(a!) x, Tensor y) -> Tensor", mutates_args="x"
        )
        x, y = tk.zeros(2), tk.zeros(2)
        for _ in range(300):
            op(x, y)
        assert x._version == 300

    def test_libraries(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("sneaky(Tensor x) -> Tensor")
            library.impl("sneaky", lambda x: x.numpy().__setitem__(0, 5) or x + 1, "cpu")
            with pytest.raises(RuntimeError, match="changed the argument 'x' in place"):
                tk.ops.checks_test.sneaky(tk.zeros(2))

    def test_threads(self) -> None:
        op = make(lambda x: x + 1)
        errors: list[BaseException] = []

        def work() -> None:
            x = tk.zeros(3)
            try:
                for _ in range(300):
                    assert op(x).tolist() == [1.0, 1.0, 1.0]
            except BaseException as error:  # reported below
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []


def test_mutates_args_and_a_schema_by_hand_agree() -> None:
    with pytest.raises(RuntimeError, match=rf"\[{NS}::f\] mutates_args names 'x', which the schema does not mark"):
        make(lambda x: None, "(Tensor x) -> ()", mutates_args="x")
    assert f"{NS}::f" not in registry.operators
