"""Annotations drawn at random: a schema that prints to a text that parses to itself, or a SchemaError with a column."""

from __future__ import annotations

import collections
import dataclasses
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey.core.device import Device
from tenkey.dispatch import parse_schema
from tenkey.dispatch.errors import SchemaError
from tenkey.dispatch.registry import registry
from tenkey.dispatch.schema import FunctionSchema
from tenkey.library import custom_op, infer_schema
from tests._tiers import tier

pytestmark = pytest.mark.wider
FUZZ = settings(max_examples=tier(33, 100), deadline=None, suppress_health_check=list(HealthCheck))
NS = "annotation_fuzz"
NAMES = st.sampled_from(["a", "b", "c_1", "value", "Tensor", "int_", "self"])


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def _dataclass(fields: list[tuple[str, Any]]) -> Any:
    return dataclasses.make_dataclass("Data", fields)


def _named_tuple(fields: list[tuple[str, Any]]) -> Any:
    return NamedTuple("Named", fields)  # type: ignore[misc]  # the fields are drawn


def _union(*kinds: Any) -> Any:
    return typing.Union[tuple(kinds)]  # noqa: UP007  # a union of what is drawn


GOOD = st.sampled_from(
    [tk.Tensor, int, float, bool, complex, str, np.dtype, Device, int | float, int | float | bool | complex]
)
BAD = st.sampled_from(
    [
        object, Any, bytes, set[int], dict, list, tuple, np.ndarray, Path, Callable[[], int], 3, "nowhere", [int], (),
        ..., dict[int, int], tk.Tensor | int, typing.Literal["a"], collections.OrderedDict, type, frozenset[str],
        NotImplemented, typing.TypeVar("T"), int | str, typing.ClassVar[int], typing.Final, {}, 1.5, lambda: 0,
    ]
)  # fmt: skip


def _attempt(make: Callable[..., Any], *kinds: Any) -> Any:
    try:
        return make(*kinds)
    except (TypeError, AttributeError):  # Python itself refuses such a type
        return kinds[0] if kinds else Any


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda field: field[0])
    one: list[Callable[[Any], Any]] = [
        lambda t: list[t],
        lambda t: tuple[t, ...],
        lambda t: dict[str, t],
        lambda t: typing.Sequence[t],
        lambda t: typing.Optional[t],  # noqa: UP045  # what is drawn may have no |
    ]
    return st.one_of(
        st.tuples(st.sampled_from(one), inner).map(lambda drawn: _attempt(*drawn)),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: _attempt(lambda *kinds: tuple[tuple(kinds)], *ts)),
        fields.map(lambda fs: _attempt(lambda *kinds: _dataclass(fs), *[f[1] for f in fs])),
        fields.map(lambda fs: _attempt(lambda *kinds: _named_tuple(fs), *[f[1] for f in fs])),
    )


def _any_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda t: _attempt(lambda x: dict[x, int], t)),
        st.tuples(inner, inner).map(lambda ts: _attempt(_union, *ts)),
        inner.map(lambda t: _attempt(lambda x: typing.Annotated[x, "note"], t)),
    )


VALID = st.recursive(GOOD, containers, max_leaves=6)
ANYTHING = st.recursive(
    st.one_of(GOOD, BAD), lambda inner: st.one_of(containers(inner), _any_containers(inner)), max_leaves=6
)


def function_of(annotations: dict[str, Any], result: Any, keyword_only: bool = False) -> Any:
    """A function with parameters of these names and annotations."""
    names = ", ".join(annotations)
    scope: dict[str, Any] = {}
    exec(f"def function({'*, ' if keyword_only and names else ''}{names}): ...", scope)
    function = scope["function"]
    function.__annotations__ = {**annotations, "return": result}
    return function


PARAMETERS = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALID, max_size=3)


def _infers(function: Any, mutates: Any = ()) -> str | None:
    try:
        return infer_schema(function, mutates_args=mutates)
    except SchemaError as caught:
        error = caught
    assert isinstance(error.column, int)
    assert 0 <= error.column <= len(error.text)
    assert error.rule
    assert error.remedy
    assert str(error).splitlines()[-1].strip() == "^"
    return None


def _assert_prints_back(text: str) -> None:
    schema = parse_schema(f"f{text}")
    assert parse_schema(str(schema)) == schema
    assert str(parse_schema(str(schema))) == str(schema)


@FUZZ
@given(PARAMETERS, st.one_of(VALID, st.none()), st.booleans())
def test_valid_annotations_are_accepted_and_print_back(parameters: Any, result: Any, keyword_only: bool) -> None:
    text = infer_schema(function_of(parameters, result, keyword_only))
    _assert_prints_back(text)
    assert [a.name for a in parse_schema(f"f{text}").arguments] == list(parameters)


@FUZZ
@given(
    st.dictionaries(st.sampled_from(["x", "y", "z"]), ANYTHING, max_size=3),
    ANYTHING,
    st.one_of(st.sampled_from([(), "unknown", "x", "w", ("x", "y"), 3, None, ("x", 3)])),
)
def test_any_annotation_is_a_schema_or_a_schema_error(parameters: Any, result: Any, mutates: Any) -> None:
    text = _infers(function_of(parameters, result), mutates)
    if text is not None:
        _assert_prints_back(text)


@FUZZ
@given(PARAMETERS, ANYTHING, ANYTHING)
def test_operators_are_made_or_leave_no_trace(parameters: Any, extra: Any, result: Any) -> None:
    before = set(registry.operators)
    try:
        op = custom_op(f"{NS}::f", function_of({**parameters, "extra": extra}, result), mutates_args=())
    except SchemaError:
        assert set(registry.operators) - {f"{NS}::f"} == before - {f"{NS}::f"}
    else:
        assert parse_schema(str(op.operator.schema)) == op.operator.schema


NUMBERS = st.one_of(st.booleans(), st.integers(), st.floats(), st.complex_numbers())
VALUES = st.one_of(
    st.none(), NUMBERS, st.text(), st.binary(), st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(), st.integers(), max_size=2),
)  # fmt: skip


@FUZZ
@given(GOOD, VALUES)
def test_any_default_is_a_schema_or_a_schema_error(kind: Any, default: Any) -> None:
    for annotation in (kind, kind | None, list[kind], dict[str, kind], tuple[kind, kind]):
        function = function_of({"x": annotation}, int)
        function.__defaults__ = (default,)
        text = _infers(function)
        if text is not None:
            _assert_prints_back(text)


@pytest.mark.parametrize("depth", [10, 23, 30, 100, 400])
def test_deep_annotations(depth: int) -> None:
    for wrap in (lambda t: list[t], lambda t: tuple[t, int], lambda t: dict[str, t], lambda t: _dataclass([("a", t)])):
        annotation: Any = tk.Tensor
        for _ in range(depth):
            annotation = wrap(annotation)
        _infers(function_of({"x": annotation}, tk.Tensor))
        _infers(function_of({"x": tk.Tensor}, annotation))


def _parsed(text: str) -> FunctionSchema | None:
    try:
        return parse_schema(text)
    except SchemaError as caught:
        error = caught
    assert 0 <= error.column <= len(text)
    return None


@pytest.mark.parametrize("depth", [10, 31, 33, 100, 5000])
@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("", "[]"), ("(", ",)"), ("(int, ", ")"), ("", "?[]")])
def test_deep_texts(depth: int, opening: str, closing: str) -> None:
    for text in (f"f({opening * depth}int{closing * depth} x) -> ()", f"f() -> {opening * depth}int{closing * depth}"):
        schema = _parsed(text)
        if schema is not None:
            assert parse_schema(str(schema)) == schema
