"""tenkey.library.infer_schema: annotations and defaults to schema text, and what it refuses."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, List, Literal, Optional, Tuple, Union  # noqa: UP035  # the old spellings are tested, too

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.device import Device
from tenkey.dispatch import parse_schema
from tenkey.dispatch.errors import SchemaError
from tenkey.library import infer_schema

Tensor = tk.Tensor

ARGUMENTS: list[tuple[Any, str]] = [
    (Tensor, "Tensor"),
    (int, "int"),
    (float, "float"),
    (bool, "bool"),
    (complex, "complex"),
    (str, "str"),
    (np.dtype, "DType"),
    (np.dtype[Any], "DType"),
    (Device, "Device"),
    (tk.device, "Device"),
    (Optional[Tensor], "Tensor?"),  # noqa: UP045
    (Tensor | None, "Tensor?"),
    (None | int, "int?"),
    (Optional[str], "str?"),  # noqa: UP045
    (int | float, "Scalar"),
    (Union[float, int], "Scalar"),  # noqa: UP007
    (int | float | bool, "Scalar"),
    (int | float | complex, "Scalar"),
    (int | float | bool | complex | None, "Scalar?"),
    (list[int], "int[]"),
    (List[float], "float[]"),  # noqa: UP006
    (Sequence[int], "int[]"),
    (typing.Sequence[Tensor], "Tensor[]"),
    (list[str], "str[]"),
    (list[Tensor], "Tensor[]"),
    (list[Tensor] | None, "Tensor[]?"),
    (list[Tensor | None], "Tensor?[]"),
    (list[list[int]], "int[][]"),
    (tuple[int, ...], "int[]"),
    (tuple[int, float], "(int, float)"),
    (Tuple[int, int, str], "(int, int, str)"),  # noqa: UP006
    (Sequence[int | float], "Scalar[]"),
]

RESULTS: list[tuple[Any, str]] = [
    (Tensor, "Tensor"),
    (None, "()"),
    (type(None), "()"),
    (int, "int"),
    (str, "str"),
    (Tensor | None, "Tensor?"),
    (list[Tensor], "Tensor[]"),
    (tuple[Tensor, ...], "Tensor[]"),
    (tuple[Tensor, Tensor], "(Tensor, Tensor)"),
    (tuple[Tensor, int, list[Tensor]], "(Tensor, int, Tensor[])"),
]

REFUSED: list[Any] = [
    list, tuple, dict, dict[int, int], set[int], Any, object, np.ndarray, bytes, Path, Literal["a"],
    int | str, Tensor | int, type(None), Callable[[], int],
]  # fmt: skip

DEFAULTS: list[tuple[Any, Any, str]] = [
    (int, 3, "int x=3"),
    (int, -3, "int x=-3"),
    (float, 2.5, "float x=2.5"),
    (float, 1, "float x=1"),
    (float, 1e-30, "float x=1e-30"),
    (float, float("inf"), "float x=inf"),
    (float, float("-inf"), "float x=-inf"),
    (bool, True, "bool x=True"),
    (complex, 1 + 2j, "complex x=1+2j"),
    (complex, -2j, "complex x=-0-2j"),
    (int | float, 2, "Scalar x=2"),
    (str, "mean", "str x='mean'"),
    (str, "it's", 'str x="it\'s"'),
    (str, "a\"b'c\\d", "str x='a\"b\\'c\\\\d'"),
    (Tensor | None, None, "Tensor? x=None"),
    (int | None, None, "int? x=None"),
    (list[int], [1, 2], "int[] x=[1, 2]"),
    (Sequence[int], (1, 2), "int[] x=[1, 2]"),
    (list[int], [], "int[] x=[]"),
    (tuple[int, int], (1, 2), "(int, int) x=(1, 2)"),
    (np.dtype, np.dtype("float64"), "DType x=float64"),
    (Device, Device("cpu"), "Device x=cpu"),
]


def function_of(argument: Any = Tensor, result: Any = Tensor, default: Any = ...) -> Callable[..., Any]:
    """A function of one parameter ``x`` with these annotations."""

    def function(x: Any) -> Any:
        raise NotImplementedError

    function.__annotations__ = {"x": argument, "return": result}
    if default is not ...:
        function.__defaults__ = (default,)
    return function


@pytest.mark.parametrize(("annotation", "text"), ARGUMENTS, ids=str)
def test_arguments(annotation: Any, text: str) -> None:
    made = infer_schema(function_of(annotation))
    assert made == f"({text} x) -> Tensor"
    assert str(parse_schema(f"f{made}").arguments[0].type) == text


@pytest.mark.parametrize(("annotation", "text"), RESULTS, ids=str)
def test_results(annotation: Any, text: str) -> None:
    assert infer_schema(function_of(result=annotation)) == f"(Tensor x) -> {text}"


@pytest.mark.parametrize(("annotation", "default", "text"), DEFAULTS, ids=str)
def test_defaults(annotation: Any, default: Any, text: str) -> None:
    made = infer_schema(function_of(annotation, default=default))
    parsed = parse_schema(f"f{made}")
    wanted = tuple(default) if isinstance(default, list) else default
    stored = parsed.arguments[0].default
    assert parsed == parse_schema(f"f({text}) -> Tensor")
    if isinstance(wanted, (np.dtype, Device)):
        assert stored == str(wanted)
    else:
        assert stored == wanted
        assert isinstance(stored, float) == (annotation is float or isinstance(wanted, float))


def test_keyword_only_and_name() -> None:
    def scale(x: Tensor, n: int = 2, *, by: float, mode: str = "a") -> Tensor:
        raise NotImplementedError

    wanted = "(Tensor x, int n=2, *, float by, str mode='a') -> Tensor"
    assert infer_schema(scale, mutates_args=()) == wanted
    assert infer_schema(scale, mutates_args=(), name="infer_test::scale") == f"infer_test::scale{wanted}"


def test_no_parameters() -> None:
    def nothing() -> Tensor:
        raise NotImplementedError

    assert infer_schema(nothing) == "() -> Tensor"


def test_string_annotations() -> None:
    """This file postpones its annotations; others write them as strings."""

    def quoted(x: "Tensor", n: "int | None" = None) -> "tuple[Tensor, int]":  # noqa: UP037
        raise NotImplementedError

    assert infer_schema(quoted) == "(Tensor x, int? n=None) -> (Tensor, int)"


def test_unknown_names_in_annotations() -> None:
    def unknown(x: "Tenso") -> Tensor:  # type: ignore[name-defined]  # noqa: F821, UP037
        raise NotImplementedError

    with pytest.raises(SchemaError, match=r"the annotations of .*unknown cannot be read: name 'Tenso' is not defined"):
        infer_schema(unknown)


class TestMutation:
    @staticmethod
    def function(x: Tensor, n: int, y: Tensor | None, z: list[Tensor]) -> None:
        raise NotImplementedError

    @pytest.mark.parametrize(
        ("mutates", "text"),
        [
            ((), "(Tensor x, int n, Tensor? y, Tensor[] z) -> ()"),
            ("x", "(Tensor(a0!) x, int n, Tensor? y, Tensor[] z) -> ()"),
            (["y", "z"], "(Tensor x, int n, Tensor(a0!)? y, Tensor(a1!)[] z) -> ()"),
            ("unknown", "(Tensor(a0!) x, int n, Tensor(a1!)? y, Tensor(a2!)[] z) -> ()"),
        ],
    )
    def test_marks_the_arguments(self, mutates: Any, text: str) -> None:
        made = infer_schema(self.function, mutates_args=mutates)
        assert made == text
        expected = {"unknown": {"x", "y", "z"}}.get(mutates if isinstance(mutates, str) else "", set(mutates))
        assert {a.name for a in parse_schema(f"f{made}").arguments if a.is_mutable} == expected

    def test_unknown_name(self) -> None:
        with pytest.raises(SchemaError, match=r"mutates_args names 'w', which .*function does not have") as caught:
            infer_schema(self.function, mutates_args=("x", "w"))
        assert "names of the tensors" in str(caught.value)

    def test_not_a_tensor(self) -> None:
        with pytest.raises(SchemaError, match=r"mutates_args names 'n' of .*function, which holds no tensor"):
            infer_schema(self.function, mutates_args="n")


class TestRefused:
    @pytest.mark.parametrize("annotation", REFUSED, ids=str)
    def test_annotations(self, annotation: Any) -> None:
        with pytest.raises(SchemaError, match=r"the annotation .* of 'x' of .*function has no counterpart") as caught:
            infer_schema(function_of(annotation))
        assert "pass schema=" in str(caught.value)

    @pytest.mark.parametrize("annotation", [list, dict, Any, np.ndarray])
    def test_results(self, annotation: Any) -> None:
        with pytest.raises(SchemaError, match=r"the annotation .* of the result of .*function has no counterpart"):
            infer_schema(function_of(result=annotation))

    def test_parameter_without_annotation(self) -> None:
        def bare(x: Tensor, n) -> Tensor:  # type: ignore[no-untyped-def]
            raise NotImplementedError

        with pytest.raises(SchemaError, match=r"the parameter 'n' of .*bare has no annotation"):
            infer_schema(bare)

    def test_result_without_annotation(self) -> None:
        def bare(x: Tensor):  # type: ignore[no-untyped-def]
            raise NotImplementedError

        with pytest.raises(SchemaError, match=r"bare has no annotation for its result"):
            infer_schema(bare)

    def test_any_number_of_arguments(self) -> None:
        def positional(*xs: Tensor) -> Tensor:
            raise NotImplementedError

        def keywords(**xs: Tensor) -> Tensor:
            raise NotImplementedError

        for function in (positional, keywords):
            with pytest.raises(SchemaError, match=r"takes \*args or \*\*kwargs"):
                infer_schema(function)

    def test_default_of_another_type(self) -> None:
        with pytest.raises(SchemaError, match="the default 'a' does not fit the type int"):
            infer_schema(function_of(int, default="a"))
        with pytest.raises(SchemaError, match=r"the default None does not fit the type Tensor.*'Tensor\?'"):
            infer_schema(function_of(Tensor, default=None))

    def test_no_function(self) -> None:
        with pytest.raises(SchemaError, match="the annotations of 3 cannot be read"):
            infer_schema(3)  # type: ignore[arg-type]
