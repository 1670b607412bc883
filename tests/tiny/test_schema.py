"""The schema language: what is accepted, how it prints back, and what each refusal points at."""

from __future__ import annotations

import ast
import math
import pickle
import sys
from pathlib import Path

import pytest

from tenkey.dispatch import errors
from tenkey.dispatch import schema as schema_module
from tenkey.dispatch.errors import SchemaError
from tenkey.dispatch.schema import (
    AliasInfo,
    Argument,
    BaseType,
    FunctionSchema,
    ListType,
    OptionalType,
    Return,
    SchemaType,
    TupleType,
    parse_schema,
)
from tenkey.dispatch.schema import parser as schema_parser
from tenkey.dispatch.schema import types as schema_types

TENSOR, INT = BaseType("Tensor"), BaseType("int")

# Texts in canonical form: `str` must give back exactly these.
CANONICAL = [
    "f() -> ()",
    "tk::add(Tensor x1, Tensor x2, *, Scalar alpha=1) -> Tensor",
    "tk::add.out(Tensor x1, Tensor x2, *, Tensor(a!) out) -> Tensor(a!)",
    "f(Tensor? x, Tensor[] xs, Tensor?[] ys, Tensor[]? zs, Tensor?[3]? ws) -> Tensor[]",
    "f(Tensor(a!)? x, Tensor(b!)[] xs, Tensor(c|d) y) -> (Tensor(a!)?, Tensor(b)[], Tensor(c|d) view)",
    "topk(Tensor self, int k, int dim=-1) -> (Tensor values, Tensor indices)",
    "f(*, Tensor x) -> (Tensor x)",
    "f((Tensor, int) a, (int,) b, ((int, str)?, float[2])[] c) -> ((Tensor, int))",
    "f(int a) -> ((int, int)[])",
    "f(int? a=None, bool b=True, bool c=False, int d=-3, float e=1e-05, float f=inf, float g=-inf) -> int",
    "f(complex a=1j, complex b=2+3j, Scalar c=-0-1.5j, Scalar d=True, Scalar e=1.5, complex g=inf+nanj) -> int",
    "f(str a='', str b='it', str[] c=['a', 'b\\n'], str? d=None) -> str",
    "f(int[] a=[], int[] b=[1, 2], int[2] c=1, int[2] d=[1, 2], int?[2]? e=[None, 3]) -> ()",
    "f((int, float) a=(1, 2.5), (int,) b=(1,), int[][] c=[[1], []]) -> ()",
    "f(DType a=float32, Device b=cpu, DType? c=None, Device d='cuda:0', Device e='inf') -> DType",
    "tk::match._private(Tensor Tensor, int int, float _) -> bool",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_prints_back(text: str) -> None:
    schema = parse_schema(text)
    assert str(schema) == text
    assert parse_schema(text) == schema
    assert hash(parse_schema(text)) == hash(schema)
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  f (\n Tensor x ,int y=+1)->Tensor\n", "f(Tensor x, int y=1) -> Tensor"),
        ("f(float a=1, complex b=1, complex c=.5) -> ()", "f(float a=1.0, complex b=1+0j, complex c=0.5+0j) -> ()"),
        ("f(int[3] a=[2, 2, 2]) -> ()", "f(int[3] a=2) -> ()"),
        ("f(int[] a=[1, 2,], (int, int) b=(1, 2,)) -> ()", "f(int[] a=[1, 2], (int, int) b=(1, 2)) -> ()"),
        ("f(int a) -> (Tensor)", "f(int a) -> Tensor"),
        ("f(int a) -> Tensor y", "f(int a) -> (Tensor y)"),
        ("f(Tensor(b|a|b!) x) -> ()", "f(Tensor(a|b!) x) -> ()"),
        ("f(Device a='cpu', DType b=\"float32\") -> ()", "f(Device a=cpu, DType b=float32) -> ()"),
        ('f(str a="\\x41\\u00e9\\"") -> ()', "f(str a='A\u00e9\"') -> ()"),
        (
            "f(Scalar a=- 2 - 3j, float b=-0.0, float c=1E400) -> ()",
            "f(Scalar a=-2-3j, float b=-0.0, float c=inf) -> ()",
        ),
    ],
)
def test_other_spellings_become_canonical(text: str, canonical: str) -> None:
    assert str(parse_schema(text)) == canonical
    assert parse_schema(canonical) == parse_schema(text)


def test_parts_of_a_schema() -> None:
    schema = parse_schema("tk::f.out(Tensor(a) x, int[2]? n=None, *, Tensor(b!) out) -> (Tensor(a) view, bool)")
    assert schema == FunctionSchema(
        namespace="tk",
        base_name="f",
        overload_name="out",
        arguments=(
            Argument("x", TENSOR, alias=AliasInfo(("a",))),
            Argument("n", OptionalType(ListType(INT, 2)), default=None, has_default=True),
            Argument("out", TENSOR, kwarg_only=True, alias=AliasInfo(("b",), is_write=True)),
        ),
        returns=(Return("view", TENSOR, AliasInfo(("a",))), Return(None, BaseType("bool"))),
    )
    assert schema.name == "tk::f"
    assert schema.is_mutable
    assert [argument.is_mutable for argument in schema.arguments] == [False, False, True]
    assert [argument.has_default for argument in schema.arguments] == [False, True, False]


def test_schema_without_namespace_and_overload() -> None:
    schema = parse_schema("f(Tensor x) -> Tensor")
    assert (schema.name, schema.namespace, schema.base_name, schema.overload_name) == ("f", None, "f", "")
    assert not schema.is_mutable
    moved = schema.with_namespace("mine")
    assert (moved.name, moved.base_name, moved.arguments) == ("mine::f", "f", schema.arguments)
    assert moved != schema
    assert moved.with_namespace(None) == schema
    for bad in ("", "a.b", "class", "\u00e9"):
        with pytest.raises(SchemaError, match="namespace"):
            schema.with_namespace(bad)


def test_all_arguments_after_the_star_are_keyword_only() -> None:
    schema = parse_schema("f(int a=1, *, int b, int c=2, int d) -> ()")
    assert [argument.kwarg_only for argument in schema.arguments] == [False, True, True, True]


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ("int a=-7", -7),
        ("float a=2", 2.0),
        ("float a=1.5e-3", 1.5e-3),
        ("float a=-inf", -math.inf),
        ("complex a=2", 2 + 0j),
        ("complex a=2-3j", 2 - 3j),
        ("Scalar a=2", 2),
        ("Scalar a=False", False),
        ("bool a=True", True),
        ("int[3] a=4", (4, 4, 4)),
        ("int[2]? a=4", (4, 4)),
        ("int[2][] a=[4, [5, 6]]", ((4, 4), (5, 6))),
        ("float[] a=[1, 2.5]", (1.0, 2.5)),
        ("(int, str) a=(1, 'x')", (1, "x")),
        ("(int, int?)[]? a=[(1, None)]", ((1, None),)),
        ("Tensor? a=None", None),
        ("Tensor[] a=[]", ()),
        ("Tensor?[] a=[None]", (None,)),
        ("str a='a\\\\\\'\\n\\r\\t\\U0001f600'", "a\\'\n\r\t\U0001f600"),
        ("DType a=float32", "float32"),
        ("Device a='cuda:1'", "cuda:1"),
    ],
)
def test_default_is_what_the_kernel_gets(declaration: str, value: object) -> None:
    argument = parse_schema(f"f({declaration}) -> ()").arguments[0]
    assert argument.has_default
    assert argument.default == value
    # Equality alone would take True for 1, and 2 for 2.0.
    assert type(argument.default) is type(value)
    assert repr(argument.default) == repr(value)


def test_equality_tells_defaults_apart_that_python_calls_equal() -> None:
    def scalar(default: str) -> FunctionSchema:
        return parse_schema(f"f(Scalar a={default}) -> ()")

    spellings = ["1", "1.0", "True", "1+0j", "0.0", "-0.0", "nan"]
    schemas = [scalar(default) for default in spellings]
    assert len(set(schemas)) == len(spellings)
    assert schemas == [scalar(default) for default in spellings]
    assert parse_schema("f(int a, int b) -> ()") != parse_schema("f(int a, *, int b) -> ()")
    assert parse_schema("f(int? a) -> ()") != parse_schema("f(int? a=None) -> ()")
    assert parse_schema("f(Tensor a) -> ()").arguments[0] != "Tensor a"


@pytest.mark.parametrize(
    ("text", "is_tensor_like", "contains_tensor"),
    [
        ("Tensor", True, True),
        ("Tensor?", True, True),
        ("Tensor[]", True, True),
        ("Tensor[2]", True, True),
        ("Tensor?[]", True, True),
        ("Tensor[]?", True, True),
        ("Tensor?[4]?", True, True),
        ("Tensor[][]", False, True),
        ("(Tensor, int)", False, True),
        ("(int, (int, Tensor?))[]", False, True),
        ("int", False, False),
        ("Scalar?", False, False),
        ("(int, float)[]", False, False),
    ],
)
def test_types_with_tensors(text: str, is_tensor_like: bool, contains_tensor: bool) -> None:
    type_: SchemaType = parse_schema(f"f({text} x) -> ()").arguments[0].type
    assert str(type_) == text
    assert type_.is_tensor_like == is_tensor_like
    assert type_.contains_tensor == contains_tensor


def test_suffixes_stack_from_the_inside_out() -> None:
    type_ = parse_schema("f((Tensor, int?)[2]?[] x) -> ()").arguments[0].type
    assert type_ == ListType(OptionalType(ListType(TupleType((TENSOR, OptionalType(INT))), 2)))


def test_schemas_are_frozen() -> None:
    schema = parse_schema("f(Tensor x) -> Tensor")
    with pytest.raises(AttributeError, match="field"):
        schema.base_name = "g"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="field"):
        schema.arguments[0].name = "y"  # type: ignore[misc]


# A caret in the text marks the column that the error must point at; it is no character of the schema.
REFUSED = [
    ("^", "empty"),
    ("^  \n ", "empty"),
    ("f^", "'\\('"),
    ("f(^", "type"),
    ("f(Tensor x^", "',' or '\\)'"),
    ("f(Tensor x ^-> Tensor", "',' or '\\)'"),
    ("f(Tensor x)^", "'-> Tensor'"),
    ("f(Tensor x) ^Tensor", "'-> Tensor'"),
    ("f(Tensor x) ->^", "type"),
    ("f(Tensor x) -> (Tensor^", "',' or '\\)'"),
    ("f(Tensor x) -> Tensor^)", "end of the schema"),
    ("f(Tensor x)^) -> Tensor", "'->'"),
    ("f(Tensor x) -> Tensor y ^z", "end of the schema"),
    ("f(Tensor x) -> (int, int)^[]", "add parentheses"),
    ("f(^Tenso x) -> Tensor", "Did you mean 'Tensor'"),
    ("f(^tensor x) -> Tensor", "Did you mean 'Tensor'"),
    ("f(^double x) -> Tensor", "Did you mean 'float'"),
    ("f(^xyzzy x) -> Tensor", "Types are Tensor, int"),
    ("f(Tensor x) -> ^Tenso", "Did you mean 'Tensor'"),
    ("f(^x) -> Tensor", "Write 'Tensor x'"),
    ("f(Tensor^) -> Tensor", "argument name"),
    ("f(Tensor x, int ^x) -> Tensor", "two arguments are called 'x'"),
    ("f(int x) -> (int y, int ^y)", "two results are called 'y'"),
    ("f(int a=1, ^int b) -> ()", "'b' has no default and follows 'a', which has one"),
    ("f(Tensor x, int y=1, ^int z) -> Tensor", "'z' has no default and follows 'y'"),
    ("ns::f(Tensor x, int y=1, float? w=None, ^Tensor z, int u=2, int v) -> ()", "'z' has no default"),
    ("f(int a, *, ^*, int b) -> ()", "twice"),
    ("f(int a, *, int b, ^*, int c) -> ()", "twice"),
    ("f(int a, ^*) -> ()", "no argument follows"),
    ("f(int a, ^*, ) -> ()", "no argument follows"),
    ("f(*^xs) -> ()", "Tensor\\[\\] xs"),
    ("f(int a,^) -> ()", "type"),
    ("f(int^(a!) x) -> ()", "only a Tensor"),
    ("f(int^(a)[] x) -> ()", "only a Tensor"),
    ("f(Tensor?^(a!) x) -> ()", "right after Tensor"),
    ("f((Tensor^(a!), int) x) -> ()", "inside a tuple"),
    ("f(Tensor(^) x) -> ()", "alias name"),
    ("f(Tensor(a! ^x) -> ()", "'\\)'"),
    ("f(Tensor(a ^-> b) x) -> ()", "alias annotation holds"),
    ("f(Tensor(a) x) -> ^Tensor(b)", "no argument is annotated"),
    ("f(Tensor(a) x) -> (int, ^Tensor(a|b))", "no argument is annotated"),
    ("f(Tensor(a) x) -> ^Tensor(a!)", "marked as written"),
    ("f(int ^lambda) -> ()", "keyword"),
    ("f(int ^None) -> ()", "keyword"),
    ("^class(int a) -> ()", "keyword"),
    ("tk::^def(int a) -> ()", "keyword"),
    ("f.^import(int a) -> ()", "keyword"),
    ("f(int a) -> (int ^is)", "keyword"),
    ("f(int ^1a) -> ()", "argument name"),
    ("f(int ^\u00e9) -> ()", "no meaning here"),
    ("a::b^::c() -> ()", "'\\('"),
    ("^::f() -> ()", "operator name"),
    ("f.^default() -> ()", "Leave '.default' out"),
    ("f(int?^? a) -> ()", "optional already"),
    ("f(int[^0] a) -> ()", "not the size"),
    ("f(int[^-1] a) -> ()", "not the size"),
    ("f(int[^9999999999999] a) -> ()", "not the size"),
    ("f(int[^\u00b2] a) -> ()", "not the size"),
    ("f(int[2 ^a) -> ()", "'\\]'"),
    ("f(^(int) a) -> ()", "fewer than two"),
    ("f(^() a) -> ()", "fewer than two"),
    ("f(int a=^1.5) -> ()", "declare the argument 'float'"),
    ("f(int a=^True) -> ()", "does not fit"),
    ("f(int a=^None) -> ()", "'int\\?'"),
    ("f(int a=^'1') -> ()", "does not fit"),
    ("f(int a=^[1]) -> ()", "does not fit"),
    ("f(float a=^True) -> ()", "does not fit"),
    ("f(float a=^1j) -> ()", "does not fit"),
    ("f(bool a=^1) -> ()", "True or False"),
    ("f(Scalar a=^'x') -> ()", "does not fit"),
    ("f(str a=^x) -> ()", "in quotes"),
    ("f(str a=^'x) -> ()", "not closed"),
    ("f(str a='x^\\d') -> ()", "not an escape"),
    ("f(str a='x^\\x4') -> ()", "not an escape"),
    ("f(str a='x^\\U00110000') -> ()", "not an escape"),
    ("f(Device a=^1) -> ()", "cuda:0"),
    ("f(Device a=^'') -> ()", "cuda:0"),
    ("f(Tensor a=^1) -> ()", "Tensor\\?"),
    ("f(Tensor a=^None) -> ()", "Tensor\\?"),
    ("f(int[] a=^1) -> ()", "like \\[1, 2\\]"),
    ("f(int[] a=^(1, 2)) -> ()", "like \\[1, 2\\]"),
    ("f(int[] a=[1, ^2.5]) -> ()", "does not fit"),
    ("f(int[] a=[1^) -> ()", "'\\]'"),
    ("f(int[2] a=^[1]) -> ()", "Write 2 items"),
    ("f(float[2] a=^1.0) -> ()", "does not fit"),
    ("f((int, int) a=^(1, 2, 3)) -> ()", "Write 2 items"),
    ("f((int, int) a=(1, ^'x')) -> ()", "does not fit"),
    ("f((int, int) a=^[1, 2]) -> ()", "like \\(1, 2\\)"),
    ("f(int a=^) -> ()", "default"),
    ("f(int a=-^) -> ()", "number"),
    ("f(Scalar a=1 ^2j) -> ()", "',' or '\\)'"),
    ("f(int a=^" + "1" * 5000 + ") -> ()", "digits"),
    ("f(int[^" + "1" * 5000 + "] a) -> ()", "not the size"),
]


@pytest.mark.parametrize(("marked", "words"), REFUSED)
def test_refusal_names_column_rule_and_remedy(marked: str, words: str) -> None:
    text = marked.replace("^", "", 1)
    with pytest.raises(SchemaError, match=words) as caught:
        parse_schema(text)
    error = caught.value
    assert error.text == text
    assert error.column == marked.index("^")
    assert error.rule
    assert error.remedy
    head, line, caret = str(error).splitlines()
    assert f"column {error.column}" in head
    assert len(head) < 400
    if "\n" not in text and len(text) < 400:
        assert line == f"    {text}"
        assert caret == " " * (4 + error.column) + "^"


@pytest.mark.parametrize("given", [None, 5, b"f() -> ()", ["f() -> ()"]])
def test_what_is_no_text_is_refused(given: object) -> None:
    with pytest.raises(SchemaError, match=type(given).__name__) as caught:
        parse_schema(given)  # type: ignore[arg-type]
    assert caught.value.column == 0


@pytest.mark.parametrize("count", [33, 20_000])  # the deepest allowed is 32; Python recurses 1,000 deep
@pytest.mark.parametrize("part", ["int" + "[]", "(", "[", "-"])
def test_nesting_is_bounded(part: str, count: int) -> None:
    text = {
        "int[]": f"f(int{'[]' * count} a) -> ()",
        "(": f"f({'(' * count}int{',)' * count} a) -> ()",
        "[": f"f(int[] a={'[' * count}{']' * count}) -> ()",
        "-": f"f(int a={'-' * count}1) -> ()",
    }[part]
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_the_deepest_nesting_that_is_allowed_prints_back() -> None:
    for text in (f"f(int{'[]' * 32} a) -> ()", f"f({'(' * 16}int{',)[]' * 16} a=[]) -> ()"):
        assert str(parse_schema(text)) == text
    with pytest.raises(SchemaError, match="more than 32 deep"):
        parse_schema(f"f({'(' * 17}int{',)[]' * 17} a) -> ()")


def test_caret_stands_below_its_line_of_a_long_or_broken_text() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema("f(Tensor x,\n\tTenso y)\n -> Tensor")
    assert str(caught.value).splitlines()[1:] == ["     Tenso y)", "     ^"]
    with pytest.raises(SchemaError) as caught:
        parse_schema("f(" + ", ".join(f"int a{i}" for i in range(500)) + ", Tenso y) -> Tensor")
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 200
    assert line[caret.index("^") :].startswith("Tenso y)")


def test_schema_error_is_a_value_error_and_pickles() -> None:
    with pytest.raises(ValueError, match="not a type") as caught:
        parse_schema("f(Tenso x) -> Tensor")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, SchemaError)
    assert (str(copy), copy.column, copy.text) == (str(caught.value), 2, "f(Tenso x) -> Tensor")


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("SchemaError", ValueError),
        ("RegistrationError", RuntimeError),
        ("OperatorNotFoundError", LookupError),
        ("MissingKernelError", NotImplementedError),
        ("DeviceMismatchError", RuntimeError),
        ("ArgumentError", TypeError),
    ],
)
def test_errors_are_caught_by_their_builtin_base(name: str, builtin: type[Exception]) -> None:
    kind = getattr(errors, name)
    assert name in errors.__all__
    assert issubclass(kind, builtin)
    assert issubclass(kind, errors.TenkeyError)


@pytest.mark.parametrize("module", [schema_module, schema_parser, schema_types, errors])
def test_only_the_standard_library_is_imported(module: object) -> None:
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            own = ("_util.record", "diagnostics", "diagnostics.schema_errors", "errors", "parser")
            is_own = node.level and node.module in (*own, "types")
            assert is_own or (node.level == 0 and str(node.module).split(".")[0] in sys.stdlib_module_names)
