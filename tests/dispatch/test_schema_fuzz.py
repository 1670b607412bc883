"""Schemas at random: what is accepted prints back to an equal schema, and all else is refused with a column."""

from __future__ import annotations

import ast
import contextlib
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tenkey.dispatch.errors import SchemaError
from tenkey.dispatch.schema import FunctionSchema, parse_schema
from tests._tiers import tier

pytestmark = pytest.mark.wider
FUZZ = settings(deadline=None, max_examples=tier(80, 400), database=None)

NAMES = st.sampled_from(["x", "y", "self", "out", "Tensor", "int", "_", "match", "alpha2", "inf", "j"])
BASES = ["Tensor", "int", "float", "bool", "complex", "Scalar", "str", "DType", "Device"]


def _number_text(value: complex) -> str:
    return repr(value).strip("()")


INTS = st.integers().filter(lambda value: abs(value) < 10**290)
DEFAULTS: dict[str, st.SearchStrategy[str]] = {
    "int": INTS.map(str),
    "float": st.one_of(INTS.map(str), st.floats().map(repr)),
    "bool": st.booleans().map(str),
    "complex": st.one_of(INTS.map(str), st.floats().map(repr), st.complex_numbers().map(_number_text)),
    "Scalar": st.one_of(
        st.booleans().map(str), INTS.map(str), st.floats().map(repr), st.complex_numbers().map(_number_text)
    ),
    "str": st.text().map(repr),
    "DType": st.sampled_from(["float32", "'int8'", "bfloat16", "'nan'"]),
    "Device": st.sampled_from(["cpu", "'cuda:1'", "'None'", "meta"]),
}


@st.composite
def typed_defaults(draw: st.DrawFn, depth: int = 0) -> tuple[str, str | None]:
    """The text of a type, and that of a default that fits it (None if no value does)."""
    kind = draw(st.sampled_from(["base"] * 3 + (["optional", "list", "sized", "tuple"] if depth < 4 else [])))
    if kind == "base":
        base = draw(st.sampled_from(BASES))
        return base, draw(DEFAULTS[base]) if base in DEFAULTS else None
    if kind == "tuple":
        parts = draw(st.lists(typed_defaults(depth + 1), min_size=1, max_size=3))
        comma = "," if len(parts) == 1 else ""
        defaults = [default for _, default in parts if default is not None]
        default = f"({', '.join(defaults)}{comma})" if len(defaults) == len(parts) else None
        return f"({', '.join(type_ for type_, _ in parts)}{comma})", default
    element, default = draw(typed_defaults(depth + 1))
    if kind == "optional" and not element.endswith("?"):
        return f"{element}?", draw(st.sampled_from([default or "None", "None"]))
    count = draw(st.integers(1, 3))
    size = str(count) if kind == "sized" else ""
    items = f"[{', '.join([default] * count)}]" if default is not None else None
    return f"{element}[{size}]", items


@st.composite
def schema_texts(draw: st.DrawFn) -> str:
    """A valid schema in which every part of the language may stand."""
    space = st.sampled_from(["", " ", "\n ", "\t"])
    positional: list[str] = []
    keyword_only: list[str] = []
    any_default = False
    aliases: list[str] = []
    for name in draw(st.lists(NAMES, unique=True, max_size=6)):
        type_, default = draw(typed_defaults())
        if type_.startswith("Tensor") and draw(st.booleans()):
            aliases.append(f"{'abcdefgh'[len(aliases)]}{draw(st.sampled_from(['', '!']))}")
            type_ = type_.replace("Tensor", f"Tensor({aliases[-1]})", 1)
        text = f"{type_} {name}"
        has_default = default is not None and draw(st.booleans())
        if has_default:
            text += f"{draw(space)}={draw(space)}{default}"
        if draw(st.booleans()) or (any_default and not has_default):
            keyword_only.append(text)
        else:
            positional.append(text)
            any_default = any_default or has_default
    parts = positional + (["*", *keyword_only] if keyword_only else [])
    results = [draw(typed_defaults())[0] for _ in range(draw(st.integers(0, 3)))]
    results += [f"Tensor({alias})" for alias in aliases]
    results = [f"{text} r{index}" if draw(st.booleans()) else text for index, text in enumerate(results)]
    namespace = draw(st.sampled_from(["", "tk::", "my_ns ::"]))
    overload = draw(st.sampled_from(["", ".out", " . Tensor_Scalar"]))
    comma = f",{draw(space)}"
    return (
        f"{draw(space)}{namespace}op{overload}{draw(space)}({comma.join(parts)}){draw(space)}->({comma.join(results)})"
    )


def _accepted(text: str) -> FunctionSchema | None:
    """The schema, or None where it is refused in the one way that is allowed; any other exception passes through."""
    try:
        return parse_schema(text)
    except SchemaError as caught:
        error = caught
    assert error.text == text
    assert 0 <= error.column <= len(text)
    assert error.rule
    assert error.remedy
    assert str(error).splitlines()[-1].strip() == "^"
    return None


def _assert_prints_back(schema: FunctionSchema) -> None:
    text = str(schema)
    again = parse_schema(text)
    assert again == schema
    assert hash(again) == hash(schema)
    assert str(again) == text


@FUZZ
@given(schema_texts())
def test_valid_schemas_are_accepted_and_print_back(text: str) -> None:
    schema = parse_schema(text)
    _assert_prints_back(schema)
    assert parse_schema(text) == schema


@FUZZ
@given(st.text())
@example("\x00")
@example("f(str a='\ud800') -> ()")
@example("f(int[\u0663] a=\u0663) -> ()")
def test_any_text_is_a_schema_or_a_schema_error(text: str) -> None:
    schema = _accepted(text)
    if schema is not None:
        _assert_prints_back(schema)


MARKS = "()[]?,*=!|.'\"\\+-:\n \x00\u00b2\u00e9"
WORDS = ["f", "x", "Tensor", "int", "str", "Device", "(a!)", "[2]", "->", "::", "class", "float32", "None", "True"]
VALUES = ["1", "1.5", "2j", "1e999", "9" * 400, "inf", "nanj", "'s'", "\\x4", "\\n"]
TOKENS = st.one_of(st.sampled_from(MARKS), st.sampled_from(WORDS), st.sampled_from(VALUES))


@FUZZ
@given(st.lists(TOKENS, max_size=30).map("".join))
def test_any_row_of_tokens_is_a_schema_or_a_schema_error(text: str) -> None:
    for candidate in (text, f"f({text}", f"f({text}) -> ()", f"f(int a={text}) -> ()", f"f() -> {text}"):
        schema = _accepted(candidate)
        if schema is not None:
            _assert_prints_back(schema)


@FUZZ
@given(
    schema_texts(),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5), st.one_of(st.just(""), TOKENS)), max_size=3),
)
def test_damaged_schemas_are_schemas_or_schema_errors(text: str, damages: list[tuple[int, int, str]]) -> None:
    for position, length, inserted in damages:
        start = position % (len(text) + 1)
        text = text[:start] + inserted + text[start + length :]
    schema = _accepted(text)
    if schema is not None:
        _assert_prints_back(schema)


@FUZZ
@given(schema_texts(), st.integers(0, 400))
def test_a_schema_that_breaks_off_is_refused(text: str, position: int) -> None:
    # Only the results' closing parenthesis ends the texts of this strategy, so that no proper beginning is complete.
    assert _accepted(text[: position % len(text)]) is None


@FUZZ
@given(st.sampled_from(["int", "float", "bool", "complex", "str"]), st.data())
def test_defaults_agree_with_python_literals(base: str, data: st.DataObject) -> None:
    source = data.draw(DEFAULTS[base])
    value = parse_schema(f"f({base} a={source}) -> ()").arguments[0].default
    assert type(value).__name__ == base
    if isinstance(value, (float, complex)):
        # `complex` reads inf and nan, for which Python has no literals; nan is unequal to itself.
        expected = complex(source)
        for got, want in ((value.real, expected.real), (value.imag, expected.imag)):
            assert got == want or (math.isnan(got) and math.isnan(want))
            assert math.copysign(1, got) == math.copysign(1, want) or math.isnan(want)
    else:
        assert value == ast.literal_eval(source)


@FUZZ
@given(st.text(alphabet="\\'\"nrtxuU0123456789abcdef\n", max_size=12))
def test_strings_agree_with_python_literals(body: str) -> None:
    schema = _accepted(f"f(str a='{body}') -> ()")
    if schema is not None and len(schema.arguments) == 1 and "\n" not in body:
        expected = None
        with contextlib.suppress(SyntaxError, ValueError):
            expected = ast.literal_eval(f"'{body}'")
        assert schema.arguments[0].default == expected
