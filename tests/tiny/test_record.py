"""Records are made, compared, printed and matched as dataclasses are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from tenkey._util.record import Record, made, replaced
from tenkey.dispatch.schema import AliasInfo, parse_schema
from tenkey.ops.declare.facets import Meta, Pointwise


class Open(Record):
    x: int
    y: Any = 2
    notes: list[int] = made(default_factory=list)
    hidden: dict[str, int] = made(default_factory=dict, repr=False)


class Closed(Record, frozen=True):
    x: int
    y: Any = 2


@dataclasses.dataclass
class OpenTwin:
    x: int
    y: Any = 2
    notes: list[int] = dataclasses.field(default_factory=list)
    hidden: dict[str, int] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedTwin:
    x: int
    y: Any = 2


def vars_of(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__match_args__}


PAIRS = [(Open, OpenTwin), (Closed, ClosedTwin)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_it_is_what_a_dataclass_is(ours: Any, theirs: Any) -> None:
    for args, kwargs in [((1,), {}), ((1, 3), {}), ((1,), {"y": 4}), ((), {"y": 5, "x": 6}), ((), {"x": 7})]:
        one, other = ours(*args, **kwargs), theirs(*args, **kwargs)
        assert vars_of(one) == vars_of(other)
        assert repr(one) == repr(other).replace("Twin", "")
        assert one == ours(*args, **kwargs)
        assert one != ours(9)
        assert one != other
        assert vars_of(replaced(one, x=8)) == vars_of(dataclasses.replace(other, x=8))
        for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert type(again) is ours
            assert again == one
    assert ours.__match_args__ == theirs.__match_args__
    match ours(1, 3):
        case Open(x, 3) | Closed(x, 3):
            assert x == 1
        case _:
            pytest.fail("it does not match")


@pytest.mark.parametrize("kind", [Open, OpenTwin, Closed, ClosedTwin])
@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "x"),
        ((), {"y": 1}, "x"),
        ((1, 2, 3, 4, 5), {}, "positional|position"),
        ((1,), {"x": 2}, "multiple values|two values"),
        ((1,), {"z": 2}, "z"),
    ],
)
def test_wrong_arguments_are_refused(kind: Any, args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        kind(*args, **kwargs)


@pytest.mark.parametrize("kind", [Closed, ClosedTwin])
def test_what_is_frozen_stays_as_it_is(kind: Any) -> None:
    one = kind(1)
    for name in ("x", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(one, name, 2)
    with pytest.raises(AttributeError):
        del one.x
    assert hash(one) == hash(kind(1))
    assert {one: 1}[kind(1, 2)] == 1


@pytest.mark.parametrize("kind", [Open, OpenTwin])
def test_what_is_not_can_be_changed(kind: Any) -> None:
    one = kind(1)
    one.x, one.other = 5, 6
    assert (one.x, one.other) == (5, 6)
    del one.other
    one.notes.append(1)
    assert kind(1).notes == []
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_what_the_package_has() -> None:
    schema = parse_schema("tk::f(Tensor(a!) x, *, int n=2) -> Tensor(a!)")
    assert replaced(schema, namespace="mine") == schema.with_namespace("mine")
    assert schema.arguments[0].alias == AliasInfo(("a",), is_write=True)
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert set(Pointwise.__match_args__) >= {"schema", "scalar", "promotion"}
    assert Meta(len).rule is len
    assert Meta(len) == Meta(len) != Meta(repr)


@pytest.mark.parametrize("name", ["tenkey.dispatch.schema.types", "tenkey.ops.declare.facets"])
def test_the_package_has_no_others_here(name: str) -> None:
    """Were one of them a dataclass, each import would pay for its methods."""
    import importlib

    module = importlib.import_module(name)
    classes = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == name]
    assert sum(issubclass(kind, Record) for kind in classes) >= 8
    assert not [kind for kind in classes if dataclasses.is_dataclass(kind)]
