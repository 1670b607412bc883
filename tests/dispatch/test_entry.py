"""The generated entry of an operator: its signature, what it converts, and what it refuses with which words."""

from __future__ import annotations

import inspect
import math
import pickle
import traceback
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import ArgumentError, DispatchKey, DispatchKeySet, DispatchMode, Operator, explain, registry
from tenkey.dispatch.calling.bindings import keyword_only
from tests.tiny._fakes import CPU, Fake, fresh, impl

X = Fake(CPU)
ALL = (
    "t::f(Tensor x, int n=1, float a=2, bool b=False, str s='q', complex c=1, Scalar k=3, int[] l=[1, 2], "
    "int[2] p=1, (int, float)? t=None, *, int? i=None, float[]? w=None, str? o=None, bool? u=None) -> Tensor"
)


def operator(schema: str = ALL) -> Operator:
    """An operator whose CPU kernel gives back the arguments by name."""
    reg = fresh(schema)
    (op,) = reg
    impl(reg, op.name, lambda *args, **kwargs: {**dict(zip(names, args, strict=False)), **kwargs}, CPU)
    names = [a.name for a in op.schema.arguments if not a.kwarg_only]
    return op


def received(name: str, value: Any, schema: str = ALL) -> Any:
    """What the kernel gets for one argument."""
    return operator(schema)(X, **{name: value})[name]


class TestSignature:
    def test_is_the_schemas(self) -> None:
        signature = inspect.signature(operator().call)
        expected = (
            "(x, n=1, a=2.0, b=False, s='q', c=(1+0j), k=3, l=(1, 2), p=(1, 1), t=None, *, i=None, w=None, o=None, "
            "u=None)"
        )
        assert str(signature) == expected

    def test_keyword_only_without_default(self) -> None:
        op = operator("t::f(Tensor x, *, int n) -> Tensor")
        assert str(inspect.signature(op.call)) == "(x, *, n)"
        with pytest.raises(TypeError, match=r"\w+::f\(\) missing 1 required keyword-only argument: 'n'"):
            op(X)
        with pytest.raises(TypeError, match=r"\w+::f\(\) takes 1 positional argument but 2 were given"):
            op(X, 1)

    def test_of_nothing(self) -> None:
        op = operator("t::f() -> ()")
        assert str(inspect.signature(op.call)) == "()"
        with pytest.raises(TypeError, match=r"\w+::f\(\) takes 0 positional arguments but 1 was given"):
            op(X)

    def test_names(self) -> None:
        op = operator("t::f.over(Tensor x) -> Tensor")
        assert str(op) == op.name == "t::f.over"
        assert repr(op) == "<operator t::f.over(Tensor x) -> Tensor>"
        assert (op.__name__, op.call.__name__, op.call.__qualname__) == ("f", "f", "t::f.over")
        assert op.call.operator is op  # type: ignore[attr-defined]
        assert str(operator("t::f(Tensor x) -> Tensor")) == "t::f"

    def test_documentation(self) -> None:
        reg = fresh()
        op = reg.define("t::f(Tensor x) -> Tensor", doc="What it does.")
        assert op.__doc__ == op.call.__doc__ == "What it does."

    def test_source_can_be_read(self) -> None:
        """A debugger and a traceback show the lines of a function that is in no file."""
        op = operator("t::source(Tensor x, int n=1) -> Tensor")
        with pytest.raises(ArgumentError) as caught:
            op(X, "n")
        frames = traceback.extract_tb(caught.value.__traceback__)
        *_, frame = [frame for frame in frames if frame.filename == "<operator t::source>"]  # the first call has two
        assert frame.line
        assert inspect.getsource(op.call).startswith("def source(x, n=")
        assert "$" not in inspect.getsource(op.call)

    def test_wrong_calls(self) -> None:
        op = operator("t::f(Tensor x, int n=1) -> Tensor")
        calls: list[tuple[Callable[..., Any], str]] = [
            (op, r"\w+::f\(\) missing 1 required positional argument: 'x'"),
            (lambda: op(X, 1, 2), r"\w+::f\(\) takes from 1 to 2 positional arguments but 3 were given"),
            (lambda: op(X, m=1), r"f\(\) got an unexpected keyword argument 'm'"),
            (lambda: op(X, x=X), r"f\(\) got multiple values for argument 'x'"),
        ]
        for call, message in calls:
            with pytest.raises(TypeError, match=message):
                call()

    @pytest.mark.parametrize(
        "name", ["self", "op", "keyset", "int", "tuple", "print", "f", "operator", "args", "kwargs", "None_"]
    )
    def test_argument_names_that_python_uses(self, name: str) -> None:
        op = operator(f"t::f(Tensor x, int {name}, int[] l=[1], float w=1) -> Tensor")
        assert op(X, 3)[name] == 3
        expected = {"x": X, name: 1, "l": (2,), "w": 2.0}
        arguments: dict[str, Any] = {"l": [2], "w": 2, name: True}
        assert op(X, **arguments) == op.registry.namespace("t").f(X, **arguments) == expected
        assert op.bind(X, **arguments)[name] is True
        assert op.redispatch(DispatchKeySet(CPU), **expected) == expected
        assert "the call would" not in explain(op, X, **arguments)
        with DispatchMode():
            assert op(X, **arguments) == expected

    @pytest.mark.parametrize("name", ["f", "list", "len", "type", "self", "True_"])
    def test_operator_names_that_python_uses(self, name: str) -> None:
        assert operator(f"t::{name}(Tensor x, int[] l) -> Tensor")(X, [1]) == {"x": X, "l": (1,)}

    @pytest.mark.parametrize("name", ["_word", "_cache", "_state", "_item", "_registry", "tuple", "int", "TypeError"])
    def test_argument_names_that_the_entry_uses(self, name: str) -> None:
        op = operator(f"t::f(Tensor x, int {name}, int[] l, Tensor y) -> Tensor")
        assert op(X, 30, (1, 2), X) == {"x": X, name: 30, "l": (1, 2), "y": X}
        with pytest.raises(ArgumentError, match="must be a Tensor"):
            op(X, 30, (1, 2), 3)

    @pytest.mark.parametrize("name", ["_cache", "_state", "_union"])
    def test_operator_names_that_the_entry_uses(self, name: str) -> None:
        assert operator(f"t::{name}(Tensor[] xs) -> Tensor")([X]) == {"xs": [X]}

    def test_entry_pickles(self) -> None:
        assert pickle.loads(pickle.dumps(tk.add)) is tk.add


class TestDefaults:
    def test_all_filled_in(self) -> None:
        given = operator()(X)
        assert given == {
            "x": X,
            "n": 1,
            "a": 2.0,
            "b": False,
            "s": "q",
            "c": 1 + 0j,
            "k": 3,
            "l": (1, 2),
            "p": (1, 1),
            "t": None,
            "i": None,
            "w": None,
            "o": None,
            "u": None,
        }
        assert [type(given[name]) for name in "nabsc"] == [int, float, bool, str, complex]

    def test_by_position_and_by_keyword(self) -> None:
        values = [X, 5, 1.5, True, "z", 1j, 2.5, (7,), (8, 9), (1, 2.0)]
        op = operator()
        names = [a.name for a in op.schema.arguments][: len(values)]
        assert op(*values) == op(**dict(zip(names, values, strict=True))) == op(*values[:4], **dict(zip(names[4:], values[4:], strict=True)))  # fmt: skip  # noqa: E501

    def test_kernel_gets_keyword_only_arguments_by_keyword(self) -> None:
        reg = fresh("t::f(Tensor x, *, int n=1) -> Tensor")
        impl(reg, "t::f", "kernel", CPU)
        assert reg.find("t::f")(X) == ("kernel", (X,), {"n": 1})


class TestConversion:
    """An argument has the schema's type when a kernel gets it, exactly."""

    @pytest.mark.parametrize(
        ("name", "given", "expected"),
        [
            ("n", 3, 3),
            ("n", True, 1),
            ("n", np.int8(3), 3),
            ("n", np.array(3), 3),
            ("n", 10**400, 10**400),
            ("a", 1, 1.0),
            ("a", True, 1.0),
            ("a", np.float32(0.5), 0.5),
            ("a", Fraction(1, 2), 0.5),
            ("a", -math.inf, -math.inf),
            ("b", True, True),
            ("b", np.True_, True),
            ("s", "", ""),
            ("c", 1, 1 + 0j),
            ("c", 1.5, 1.5 + 0j),
            ("c", np.complex64(1j), 1j),
            ("k", True, True),
            ("k", 2, 2),
            ("k", 2.5, 2.5),
            ("k", 1j, 1j),
            ("k", np.int16(2), 2),
            ("k", np.complex64(1j), 1j),
            ("k", Fraction(1, 4), 0.25),
            ("l", (), ()),
            ("l", [3], (3,)),
            ("l", (True, np.int64(2)), (1, 2)),
            ("l", range(3), (0, 1, 2)),
            ("l", np.array([1, 2]), (1, 2)),
            ("l", iter([1, 2]), (1, 2)),
            ("p", 3, (3, 3)),
            ("p", [3, 4], (3, 4)),
            ("p", np.int64(3), (3, 3)),
            ("t", (1, 2), (1, 2.0)),
            ("t", [True, 2], (1, 2.0)),
            ("t", None, None),
            ("i", None, None),
            ("i", np.uint8(7), 7),
            ("w", None, None),
            ("w", [1, np.float32(0.5)], (1.0, 0.5)),
            ("o", None, None),
            ("o", "text", "text"),
            ("u", None, None),
            ("u", np.False_, False),
        ],
        ids=lambda value: repr(value).partition(" at 0x")[0],
    )
    def test_accepted(self, name: str, given: Any, expected: Any) -> None:
        got = received(name, given)
        assert got == expected
        assert type(got) is type(expected)
        if isinstance(expected, tuple):
            assert [type(item) for item in got] == [type(item) for item in expected]

    @pytest.mark.parametrize(
        ("name", "given", "rule"),
        [
            ("n", 1.5, "an int"),
            ("n", 1.0, "an int"),
            ("n", "1", "an int"),
            ("n", None, "an int"),
            ("n", [1], "an int"),
            ("n", 1j, "an int"),
            ("a", "1.0", "a float"),
            ("a", None, "a float"),
            ("a", 1j, "a float"),
            ("a", object, "a float"),
            ("b", 1, "a bool"),
            ("b", None, "a bool"),
            ("b", "True", "a bool"),
            ("s", 1, "a str"),
            ("s", b"q", "a str"),
            ("s", None, "a str"),
            ("c", "1j", "a complex number"),
            ("c", None, "a complex number"),
            ("k", "1", "a Python number"),
            ("k", None, "a Python number"),
            ("k", [1], "a Python number"),
            ("l", 3, "a sequence of int"),
            ("l", None, "a sequence of int"),
            ("i", 1.5, "an int"),
            ("i", "1", "an int"),
            ("w", 1.5, "a sequence of float"),
            ("o", 1, "a str"),
            ("u", 0, "a bool"),
        ],
        ids=lambda value: repr(value).partition(" at 0x")[0],
    )
    def test_refused(self, name: str, given: Any, rule: str) -> None:
        with pytest.raises(ArgumentError) as caught:
            received(name, given)
        kind = type(given).__name__
        assert str(caught.value) == f"[t::f] the argument {name!r} must be {rule}, got {given!r} of type {kind}."
        assert isinstance(caught.value, TypeError)

    @pytest.mark.parametrize(
        ("name", "given", "message"),
        [
            ("l", [1, 2.5], "must be an int, got 2.5 of type float"),
            ("l", "12", "must be an int, got '1' of type str"),
            ("l", [1, None], "must be an int, got None of type NoneType"),
            ("l", (1, "a"), "must be an int, got 'a' of type str"),
            ("w", [1.0, "a"], "must be a float, got 'a' of type str"),
            ("t", (1, "a"), "must be a float, got 'a' of type str"),
            ("p", (1, 2.5), "must be an int, got 2.5 of type float"),
            ("p", 1.5, "must be an int, got 1.5 of type float"),
            ("p", (1, 2, 3), r"must have 2 elements, got \(1, 2, 3\)"),
            ("p", [], r"must have 2 elements, got \[\]"),
            ("t", (1,), r"must have 2 elements, got \(1,\)"),
            ("t", 3, "must have 2 elements, got 3"),
        ],
        ids=lambda value: repr(value).partition(" at 0x")[0],
    )
    def test_refused_within(self, name: str, given: Any, message: str) -> None:
        with pytest.raises(ArgumentError, match=rf"^\[t::f\] the argument '{name}' {message}"):
            received(name, given)

    @pytest.mark.parametrize(
        "half", [tk.asarray(0.5), np.asarray(0.5), np.float32(0.5)], ids=["tensor", "array", "scalar"]
    )
    def test_arrays_of_one_number(self, half: Any) -> None:
        assert [received(name, half) for name in "ack"] == [0.5, 0.5, 0.5]
        assert [type(received(name, half)) for name in "ack"] == [float, complex, float]
        assert received("k", np.array(True)) is True

    def test_tensors_of_more_than_one_number(self) -> None:
        assert received("n", tk.asarray(3)) == 3
        for wrong in (tk.ones(1), tk.asarray(1j), tk.asarray(0.5).requires_grad_()):  # a gradient would be lost
            with pytest.raises(ArgumentError, match=r"^\[t::f\] the argument 'a' must be a float, got tensor"):
                received("a", wrong)
        values = tk.asarray([1.0, 2.0])
        np.testing.assert_allclose(values, values + 0.25, rtol=0, atol=tk.asarray(0.3))  # type: ignore[call-overload]

    def test_size_one_takes_any_length(self) -> None:
        """``int[1]`` is "an int stands for one": axes, as in PyTorch, and not a length that is checked."""
        schema = "t::f(Tensor x, int[1] axis=0) -> Tensor"
        assert [received("axis", given, schema) for given in (2, [2], (2, 3), ())] == [(2,), (2,), (2, 3), ()]

    def test_names_the_overload(self) -> None:
        with pytest.raises(ArgumentError, match=r"^\[t::f.over\] the argument 'n' must be an int"):
            operator("t::f.over(Tensor x, int n) -> Tensor")(X, "n")

    def test_hooks_of_the_layers_above(self) -> None:
        op = operator("t::f(Tensor x, DType? dtype=None, *, Device? device=None) -> Tensor")
        asked: list[Any] = []

        def convert(value: Any) -> Any:
            asked.append(value)
            if value == "bad":
                raise ValueError("no such dtype")
            return ("converted", value)

        op.registry.hooks.converters["DType"] = convert
        assert op(X)["dtype"] is None
        assert op(X, "float32")["dtype"] == ("converted", "float32")
        assert asked == ["float32"]
        with pytest.raises(ValueError, match=r"^\[t::f\] the argument 'dtype': no such dtype"):
            op(X, "bad")
        assert op(X, device="where")["device"] == "where"  # nobody converts devices in this registry

    def test_nothing_happens_to_a_call_that_is_refused(self) -> None:
        """No kernel runs, and the next call works."""
        reg = fresh("t::f(Tensor x, int n) -> Tensor")
        calls: list[Any] = []
        impl(reg, "t::f", lambda x, n: calls.append(n), CPU)
        op = reg.find("t::f")
        for wrong in ((X, "n"), (3, 1), (None, 1), ([X], 1)):
            with pytest.raises(ArgumentError):
                op(*wrong)
        assert not calls
        op(X, 1)
        assert calls == [1]

    def test_numpy_number_as_a_scalar(self) -> None:
        """In a kernel np.float64 would promote a float32 array; a Python float does not."""
        assert type(received("k", np.float64(2.5))) is float

    @pytest.mark.parametrize("name", ["a", "c", "w"])
    def test_int_that_no_float_holds(self, name: str) -> None:
        with pytest.raises((ArgumentError, OverflowError), match=rf"\[t::f\] the argument '{name}'"):
            received(name, [10**400] if name == "w" else 10**400)

    @pytest.mark.parametrize(
        ("name", "given"), [("n", list(range(10**5))), ("p", list(range(10**5))), ("b", "a" * 10**5)]
    )
    def test_messages_about_large_values_are_short(self, name: str, given: Any) -> None:
        with pytest.raises(ArgumentError) as caught:
            received(name, given)
        assert len(str(caught.value)) < 1000


class TestTensors:
    @pytest.mark.parametrize(
        "given",
        [None, 3, 1.5, "x", [X], (X,), [], {}, object(), b""],
        ids=lambda value: repr(value).partition(" at 0x")[0],
    )
    def test_what_is_no_tensor(self, given: Any) -> None:
        op = operator("t::f(Tensor x, Tensor y) -> Tensor")
        calls: list[Callable[[], Any]] = [lambda: op(given, X), lambda: op(X, given), lambda: op(X, y=given)]
        for call in calls:
            with pytest.raises(ArgumentError, match=r"^\[t::f\] the argument '[xy]' must be a Tensor, got ") as caught:
                call()
            assert f"of type {type(given).__name__}. Convert it with tk.asarray(...)." in str(caught.value)

    @pytest.mark.parametrize("given", [3, [X], "x", []], ids=lambda value: repr(value).partition(" at 0x")[0])
    def test_what_is_no_optional_tensor(self, given: Any) -> None:
        op = operator("t::f(Tensor x, Tensor? y=None) -> Tensor")
        with pytest.raises(ArgumentError, match=r"^\[t::f\] the argument 'y' must be a Tensor, got "):
            op(X, given)
        assert op(X, None) == {"x": X, "y": None}

    @pytest.mark.parametrize(
        "given",
        [3, X, None, [X, 3], [[X]], "ab", [object()], (X, "x")],
        ids=lambda value: repr(value).partition(" at 0x")[0],
    )
    def test_what_is_no_list_of_tensors(self, given: Any) -> None:
        op = operator("t::f(Tensor[] xs) -> Tensor")
        with pytest.raises(ArgumentError, match=r"^\[t::f\] the argument 'xs' must be a list of Tensors, got "):
            op(given)

    @pytest.mark.parametrize("schema", ["Tensor?[] xs", "Tensor?[]? xs"])
    def test_holes_in_lists(self, schema: str) -> None:
        op = operator(f"t::f(Tensor x, {schema}) -> Tensor")
        assert op(X, [None, X])["xs"] == [None, X]
        with pytest.raises(ArgumentError, match="'xs' must be a list of Tensors, got 3 of type int"):
            op(X, [None, 3])

    def test_message_about_a_large_list_is_short(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            operator("t::f(Tensor x) -> Tensor")(list(range(10**5)))
        assert len(str(caught.value)) < 1000

    def test_lifters_are_asked_once_and_only_if_needed(self) -> None:
        op = operator("t::f(Tensor x, Tensor y, int n=0) -> Tensor")
        asked: list[Any] = []

        def lift(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
            asked.append(values)
            return tuple(X if value == 7 else value for value in values)

        op.registry.hooks.lifters.append(lift)
        op(X, X)
        assert not asked
        assert op(X, 7) == {"x": X, "y": X, "n": 0}
        assert asked == [(X, 7)]
        with pytest.raises(ArgumentError, match="'y' must be a Tensor, got 8 of type int"):
            op(X, 8)

    @pytest.mark.parametrize("given", [[None], [X, None]])
    def test_no_holes_where_the_schema_has_none(self, given: Any) -> None:
        with pytest.raises(ArgumentError, match="'xs' must be a list of Tensors, got None"):
            operator("t::f(Tensor[] xs) -> Tensor")(given)

    def test_iterator_of_tensors(self) -> None:
        """Looking at its words would use it up."""
        with pytest.raises(ArgumentError, match=r"'xs' must be a list of Tensors.*Give a list or a tuple"):
            operator("t::f(Tensor[] xs) -> Tensor")(iter([X, X]))

    @pytest.mark.parametrize("given", [{X}, {X: 1}])
    def test_what_has_no_order_is_no_list(self, given: Any) -> None:
        with pytest.raises(ArgumentError, match="'xs' must be a list of Tensors"):
            operator("t::f(Tensor[] xs) -> Tensor")(given)

    @pytest.mark.parametrize("given", [[], [X], [X, X, X]])
    def test_list_of_the_wrong_length(self, given: Any) -> None:
        with pytest.raises(ArgumentError, match="'xs' must have 2 elements"):
            operator("t::f(Tensor x, Tensor[2] xs) -> Tensor")(X, given)


class TestBuiltIn:
    """The same on the operators that everybody calls."""

    def test_signature(self) -> None:
        assert list(inspect.signature(tk.add).parameters) == ["x1", "x2"]
        for op in registry:
            parameters = [*inspect.signature(op.call).parameters.values()]
            if "EntryOption" in op.facets:
                option = parameters.pop()
                assert (option.name, option.default, option.kind) == ("requires_grad", False, option.KEYWORD_ONLY)
            assert [p.name for p in parameters] == [a.name for a in op.schema.arguments]
            for parameter, argument in zip(parameters, op.schema.arguments, strict=True):
                assert (parameter.kind is parameter.KEYWORD_ONLY) == (argument in keyword_only(op))
                optional = argument.has_default or ("Alone" in op.facets and argument is not op.schema.arguments[0])
                assert (parameter.default is not parameter.empty) == optional

    def test_refusals_name_operator_and_argument(self) -> None:
        x = tk.asarray([1.0, 2.0])
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: tk.sum(x, axis="a"), r"\[tk::sum\] the argument 'axis' must be an int, got 'a' of type str"),
            (lambda: tk.sum(x, keepdims=1), r"\[tk::sum\] the argument 'keepdims' must be a bool, got 1 of type int"),
            (lambda: tk.exp("x"), r"\[tk::exp\] the argument 'x' must be a Tensor, got 'x' of type str"),
            (lambda: tk.exp(None), r"\[tk::exp\] the argument 'x' must be a Tensor, got None of type NoneType"),
            (lambda: tk.add(x, "y"), r"\[tk::add\] the argument 'x2' must be a Tensor, got 'y' of type str"),
        ]
        for call, message in calls:
            with pytest.raises(TypeError, match=message):
                call()

    def test_unknown_dtype_and_device(self) -> None:
        with pytest.raises((TypeError, ValueError), match=r"\[tk::zeros\] the argument 'dtype': .*flaot32"):
            tk.zeros(2, dtype="flaot32")
        with pytest.raises(ValueError, match=r"\[tk::zeros\] the argument 'device': unknown device 'gpu9'"):
            tk.zeros(2, device="gpu9")

    def test_every_operator_refuses_nonsense(self) -> None:
        """Whatever stands where a tensor belongs, the answer is a deliberate error, never one from inside."""
        for op in registry:
            tensors = [a for a in op.schema.arguments if a.type.is_tensor_like and not a.has_default]
            required = [a for a in op.schema.arguments if not a.has_default]
            if len(required) != len(tensors) or not tensors or op.schema.namespace != "tk":
                continue
            for wrong in (object(), "text", {1: 2}, [{}], [["a"]]):
                with pytest.raises((TypeError, ValueError, NotImplementedError)) as caught:
                    op(**dict.fromkeys([a.name for a in required], wrong))
                assert op.label.removeprefix("tk::") in str(caught.value)

    def test_keys_of_a_tensor(self) -> None:
        """Every tensor carries ADInplaceOrView, Autograd and Autocast of its backend."""
        names = {key.name for key in tk.asarray([1.0]).keyset}
        assert names == {"AutocastCPU", "AutogradCPU", "ADInplaceOrView", "CPU"}
        assert tk.empty(2, device="meta").keyset.highest() is DispatchKey.AutocastMeta
