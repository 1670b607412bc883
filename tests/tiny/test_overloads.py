"""Packets choose among overloads, namespaces list them, and all of them pickle by name."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from tenkey.dispatch import (
    ArgumentError,
    DispatchKeySet,
    Kernel,
    Operator,
    OperatorNotFoundError,
    RegistrationError,
    Registry,
    registry,
)
from tests.tiny._fakes import (
    CPU,
    Fake,
    fresh,
    impl,
    named,
    with_three_kernels,
)

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    return with_three_kernels()


class TestPackets:
    @pytest.fixture
    def reg(self) -> Registry:
        made = fresh(
            "t::f(Tensor x, Tensor y) -> Tensor",
            "t::f.scalar(Tensor x, Scalar y) -> Tensor",
            "t::f.dims(Tensor x, int[] y, *, DType? dtype=None) -> Tensor",
        )
        for op in made:
            impl(made, op.name, op.schema.overload_name or "default", CPU)
        return made

    def test_overloads(self, reg: Registry) -> None:
        packet = reg.namespace("t").f
        assert packet.overloads() == ["default", "scalar", "dims"]
        assert packet.default is reg.find("t::f")
        assert packet.scalar is reg.find("t::f.scalar")
        assert str(packet) == "t::f"
        assert repr(packet) == "<operator packet t::f: default, scalar, dims>"
        assert packet.__name__ == "f"

    def test_follows_the_definitions(self) -> None:
        """Whatever is defined and removed, a packet calls what a new one would."""
        made = fresh(F)
        impl(made, "t::f", "first", CPU)
        packet, x = made.namespace("t").f, Fake(CPU)
        assert packet is made.packet("t::f")
        assert packet(x)[0] == packet(x=x)[0] == "first"
        assert str(inspect.signature(packet)) == "(x)"
        other = made.define("t::f.s(Tensor x, str y) -> Tensor")
        impl(made, "t::f.s", "second", CPU)
        assert (packet(x)[0], packet(x, "y")[0]) == ("first", "second")
        made.undefine(made.find("t::f"))
        assert packet(x, "y")[0] == "second"
        with pytest.raises(TypeError):
            packet(x)
        made.undefine(other)
        with pytest.raises(OperatorNotFoundError, match=r"there is no operator 't::f'"):
            packet(x)
        made.define(F)
        assert packet(x)[0] == "first"  # its kernel waited
        with pytest.raises(RegistrationError, match="cannot be called"):
            made.define(F, replace=["t::f"], kernels=[Kernel(lambda: None, CPU)])
        assert packet(x)[0] == "first"

    def test_the_one_that_fits(self, reg: Registry) -> None:
        packet, x = reg.namespace("t").f, Fake(CPU)
        assert packet(x, x)[0] == "default"
        assert packet(x, 2)[0] == packet(x, y=2.5)[0] == packet(x=x, y=True)[0] == "scalar"
        assert packet(x, (1, 2))[0] == packet(x, [1])[0] == "dims"
        assert packet(x, [], dtype=None)[0] == "dims"

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [((), {}), ((1, 2), {}), ((None, None), {}), ((Fake(CPU), "a"), {}), ((Fake(CPU),), {"z": 1})],
    )
    def test_none_fits(self, reg: Registry, args: Any, kwargs: Any) -> None:
        with pytest.raises(ArgumentError) as caught:
            reg.namespace("t").f(*args, **kwargs)
        lines = str(caught.value).splitlines()
        assert lines[0] == "[t::f] no overload fits the arguments:"
        assert [line.split(": ")[0].strip() for line in lines[1:]] == [str(op.schema) for op in reg]

    def test_the_exact_type_wins_whatever_the_order(self) -> None:
        schemas = [f"t::f.{t.lower()}({t} x) -> int" for t in ("complex", "float", "int", "bool", "Scalar", "str")]
        for order in (schemas, schemas[::-1]):
            reg = fresh(*order)
            for op in reg:
                reg.impl(op.name, Kernel(named(op.schema.overload_name), CPU))
                reg.hooks.device_word = lambda device: DispatchKeySet(CPU).mask
            packet = reg.namespace("t").f
            chosen = [packet._select((v,), {}).schema.overload_name for v in (True, 3, 2.5, 1j, "s")]
            assert chosen == ["bool", "int", "float", "complex", "str"]
            reg.undefine(reg.find("t::f.int"))
            assert packet._select((3,), {}).schema.overload_name == "scalar"
            reg.undefine(reg.find("t::f.scalar"))
            assert packet._select((3,), {}).schema.overload_name == "float"
            reg.undefine(reg.find("t::f.float"))
            assert packet._select((3,), {}).schema.overload_name == "complex"
            with pytest.raises(ArgumentError, match="no overload fits"):
                packet(None)

    def test_lists_options_and_defaults(self) -> None:
        reg = fresh(
            "t::f(Tensor x) -> Tensor",
            "t::f.n(Tensor x, int n=0) -> Tensor",
            "t::f.ints(Tensor x, int[] n) -> Tensor",
            "t::f.floats(Tensor x, float[] n) -> Tensor",
            "t::f.maybe(Tensor x, str? n) -> Tensor",
        )
        packet, x = reg.namespace("t").f, Fake(CPU)

        def chosen(*args: Any, **kwargs: Any) -> str:
            return packet._select(args, kwargs).schema.overload_name

        assert chosen(x) == ""  # fewer defaults
        assert chosen(x, 1) == chosen(x=x, n=1) == "n"
        assert chosen(x, [1]) == chosen(x, n=(1, 2)) == "ints"
        assert chosen(x, [1.0]) == chosen(x, [1, 2.0]) == "floats"
        assert chosen(x, None) == chosen(x, "a") == "maybe"

    def test_ambiguous(self) -> None:
        reg = fresh(
            "t::f.a(Tensor x, int n) -> Tensor", "t::f.b(Tensor y, int m) -> Tensor", "t::f.c(Tensor x) -> Tensor"
        )
        packet, x = reg.namespace("t").f, Fake(CPU)
        with pytest.raises(ArgumentError) as caught:
            packet(x, 3)
        lines = str(caught.value).splitlines()
        assert lines[0] == "[t::f] the call is ambiguous: these overloads fit the arguments equally well:"
        assert [line.partition(", defined at ")[0] for line in lines[1:3]] == [
            f"  {reg.find(f't::f.{o}').schema}" for o in "ab"
        ]
        assert lines[3] == "Call one of them by its name, as tk.ops.t.f.a(...)."
        assert packet._select((x,), {"m": 3}).schema.overload_name == "b"  # the name decides

    def test_ambiguous_where_each_suits_one_argument_better(self) -> None:
        reg = fresh("t::f.a(int x, float y) -> int", "t::f.b(float x, int y) -> int")
        packet = reg.namespace("t").f
        with pytest.raises(ArgumentError, match="ambiguous"):
            packet(1, 2)
        assert packet._select((1, 2.0), {}).schema.overload_name == "a"
        assert packet._select((1.0, 2), {}).schema.overload_name == "b"

    def test_table_of_several(self, reg: Registry) -> None:
        with pytest.raises(ArgumentError, match=r"\[t::f\] has several overloads \(default, scalar, dims\)"):
            reg.namespace("t").f.table()

    def test_converter_that_raises_value_error(self, reg: Registry) -> None:
        """An overload whose dtype cannot be read does not fit; the next one is tried."""

        def convert(value: Any) -> Any:
            raise ValueError(f"no dtype {value!r}")

        reg.hooks.converters["DType"] = convert
        reg.define("t::g(Tensor x, DType dtype) -> Tensor")
        reg.define("t::g.text(Tensor x, str text) -> Tensor")
        impl(reg, "t::g.text", "text", CPU)
        assert reg.namespace("t").g(Fake(CPU), "no such dtype")[0] == "text"

    def test_single_overload_reports_its_own_error(self, reg: Registry) -> None:
        reg.define("t::one(Tensor x, int n) -> Tensor")
        with pytest.raises(ArgumentError, match=r"^\[t::one\] the argument 'n' must be an int"):
            reg.namespace("t").one(Fake(CPU), "n")

    def test_unknown_overload_and_operator(self, reg: Registry) -> None:
        with pytest.raises(AttributeError, match=r"there is no operator 't::f.scalr'. Close: t::f.scalar"):
            _ = reg.namespace("t").f.scalr
        with pytest.raises(AttributeError, match=r"there is no operator 't::fff'. Close: "):
            _ = reg.namespace("t").fff
        assert not hasattr(reg.namespace("empty"), "f")
        assert not hasattr(reg.namespace("t").f, "__wrapped__")

    def test_no_default_overload(self, reg: Registry) -> None:
        reg.define("t::only.named(Tensor x) -> Tensor")
        packet = reg.namespace("t").only
        assert packet.overloads() == ["named"]
        with pytest.raises(AttributeError, match="there is no operator 't::only'"):
            _ = packet.default

    def test_all_overloads_removed(self, reg: Registry) -> None:
        packet = reg.namespace("t").f
        for op in reg:
            reg.undefine(op)
        with pytest.raises(OperatorNotFoundError, match="there is no operator 't::f'"):
            packet(Fake(CPU))

    def test_namespace_lists_its_operators(self, reg: Registry) -> None:
        reg.define("other::g(Tensor x) -> Tensor")
        reg.define("t::a(Tensor x) -> Tensor")
        assert dir(reg.namespace("t")) == ["a", "f"]
        assert repr(reg.namespace("t")) == "<operators of the namespace 't'>"


class TestPickle:
    @pytest.fixture
    def op(self) -> Iterator[Operator]:
        made = registry.define("test_dispatch::f.over(Tensor x) -> Tensor")
        yield made
        registry.undefine(made)

    def test_operators_pickle_by_name(self, op: Operator) -> None:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(op, protocol)
            assert pickle.loads(data) is op
            assert b"test_dispatch::f.over" in data
        assert len(pickle.dumps(op)) < 300
        assert copy.deepcopy(op) is copy.copy(op) is op

    def test_packets(self, op: Operator) -> None:
        packet = registry.namespace("test_dispatch").f
        assert pickle.loads(pickle.dumps(packet)).over is op

    def test_of_a_removed_operator(self, op: Operator) -> None:
        data = pickle.dumps(op)
        registry.undefine(op)
        with pytest.raises(OperatorNotFoundError, match=r"there is no operator 'test_dispatch::f.over'"):
            pickle.loads(data)

    def test_redefined_since(self, op: Operator) -> None:
        data = pickle.dumps(op)
        registry.undefine(op)
        again = registry.define("test_dispatch::f.over(Tensor x, Tensor y) -> Tensor")
        try:
            assert pickle.loads(data) is again
        finally:
            registry.undefine(again)
