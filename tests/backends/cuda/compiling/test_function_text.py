"""Kernels that are written as Python functions: the text that they become."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey.backends.cuda.compiling.function_text import origins_of, text_of

cuda: Any = None  # what `from numba import cuda` would give
float32: Any = None
HALF = 0.5
COUNT = np.int32(3)
NOTHING = float("nan")
TABLE = np.zeros(3)


def shifted(x: Any) -> Any:
    return x + HALF


def twice_shifted(x: Any) -> Any:
    return shifted(shifted(x)) * COUNT


def kernel(out: Any, x: Any, n: int) -> None:
    """Use helper functions, a local function of the module, and names that every kernel has."""
    i = cuda.grid(1)
    if i < n:
        out[i] = twice_shifted(x[i]) + float32(2) + math.exp(x[i]) + min(1, NOTHING)


def test_helpers_and_numbers_come_first() -> None:
    text = text_of(kernel)
    scope: dict[str, Any] = {"np": np, "float": float, "min": min}
    exec(text, scope)  # as the compiler does
    assert scope["twice_shifted"](1.0) == 6.0
    assert text.index("HALF = 0.5") < text.index("def shifted(x):") < text.index("def twice_shifted(x):")
    assert text.index("def twice_shifted") < text.index("def kernel(out, x, n):"), "annotations are left out"
    assert "COUNT = np.int32(3)" in text
    assert "NOTHING = float('nan')" in text
    assert "cuda =" not in text


def test_a_function_that_numba_decorated() -> None:
    class Decorated:
        py_func = staticmethod(kernel)

    assert text_of(Decorated()) == text_of(kernel)


def test_decorators_are_left_out() -> None:
    def keep(function: Any) -> Any:
        return function

    @keep
    def wanted(x: Any) -> None:
        x[0] = 1

    assert text_of(wanted).startswith("def wanted(x):")


def test_enclosing_names() -> None:
    factor = 3

    def scaled(x: Any) -> None:
        x[0] = factor

    assert text_of(scaled).startswith("factor = 3\n")


def test_a_function_that_calls_itself() -> None:
    def down(n: int) -> int:
        return down(n - 1) if n else 0

    assert text_of(down).count("def down") == 1


def uses_an_array(x: Any) -> None:
    x[0] = TABLE[0]


def uses_a_module(x: Any) -> None:
    x[0] = pytest.approx


def uses_nothing_known(x: Any) -> None:
    x[0] = unknown_name


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uses_an_array, r"\[uses_an_array\].*'TABLE', a ndarray.*Pass other values as arguments"),
        (uses_a_module, r"\[uses_a_module\].*'pytest', the module pytest"),
        (uses_nothing_known, r"\[uses_nothing_known\].*'unknown_name', which is not defined"),
        (lambda x: None, r"\[<lambda>\] the source of the kernel cannot be read"),
        (eval("lambda x: None"), r"\[<lambda>\] the source of the kernel cannot be read"),
        (len, r"\[len\] the source of the kernel cannot be read"),
    ],
)
def test_what_cannot_become_text(function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        text_of(function)


def of_several_lines(
    out: Any,
    x: tuple[Any, ...],
    n: int = 3,
) -> tuple[int, str]:
    """Have a comment, and annotations that are not names."""
    i = cuda.grid(1)  # kept

    out[i] = shifted(x[0])
    return n, "é"


def with_a_long_annotation(
    x: dict[
        int,
        float,
    ],
    /,
    *,
    y: Any,
) -> None:
    x[0] = y


@pytest.mark.parametrize("function", [kernel, of_several_lines])
def test_lines_and_where_they_were_written(function: Any) -> None:
    text = text_of(function)
    compile(text, "text", "exec")
    assert "Any" not in text
    lines = text.splitlines()
    written = Path(__file__).read_text().splitlines()
    counts = []
    for origin in origins_of(function):
        assert Path(origin.file) == Path(__file__)
        counts.append(origin.lines)
        for k in range(origin.lines):
            original = written[origin.line_in_file - 1 + k]
            for annotation in (": Any", ": int", ": tuple[Any, ...]", " -> Any", " -> None", " -> tuple[int, str]"):
                original = original.replace(annotation, "")
            assert lines[origin.line - 1 + k] == original
    assert counts == ([2, 2, 5] if function is kernel else [2, 10])


def test_other_annotations_are_left_out_too() -> None:
    text = text_of(with_a_long_annotation)
    assert text.startswith("def with_a_long_annotation(x, /, *, y):")
    assert origins_of(with_a_long_annotation) == [], "its lines are written anew"
