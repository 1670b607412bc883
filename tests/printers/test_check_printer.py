"""check_printer finds wrong printers, names what is wrong, and accepts right ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey.library import scalar as s
from tenkey.testing import PrintedFunction, WrongPrinterError, check_printer
from tests._tiers import tier

from ._runners import C_HEAD, Compiled

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

Change = Callable[[str], str]


def replaced(*pairs: tuple[str, str]) -> Change:
    def change(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return change


def plain(operation: str, source: str) -> Change:
    """Change the body to one expression, where it calls the helper of an operation."""

    def change(text: str) -> str:
        return text if f"_{operation}(" not in text else text.replace(_body(text, operation), f"{{ return {source}; }}")

    return change


def _body(text: str, operation: str) -> str:
    start = text.index("{", text.index(f"_{operation}("))
    return text[start : text.index("\n}\n", start) + 2]


WRONG: dict[str, tuple[str, tuple[str, ...], Change]] = {
    "a maximum that ignores NaN": (
        "float32", ("maximum on float32",), replaced((" || x != x) ? x : y)", ") ? x : y)"))
    ),
    "a division that truncates": (
        "int32", ("floor_divide on int32",), plain("floor_divide", "y == 0 ? 0 : y == -1 ? 0u - x : x / y")
    ),
    "a remainder with the sign of the dividend": (
        "int32", ("remainder on int32",), plain("remainder", "y == 0 || y == -1 ? 0 : x % y")
    ),
    "a remainder of floats like fmod": ("float64", ("remainder on float64",), plain("remainder", "fmod(x, y)")),
    "a shift by the count modulo the width": (
        "int32", ("bitwise_left_shift on int32",), plain("bitwise_left_shift", "(int)((unsigned)x << (y & 31))")
    ),
    "a right shift without the sign": (
        "int16", ("bitwise_right_shift on int16",),
        plain("bitwise_right_shift", "y >= 0 && y < 16 ? (uint16_t)x >> y : 0"),
    ),
    "halves rounded away from zero": ("float32", ("round on float32",), replaced(("rintf(", "roundf("))),
    "bools added as numbers": ("bool", ("add on bool",), replaced(("(x | y)", "(x + y)"))),
    "the absolute value of a float as of an integer": (
        "float64", ("abs on float64",), replaced(("fabs(x)", "(double)labs((long)x)"))
    ),
    "exp(x) - 1 for expm1": ("float64", ("expm1 on float64",), replaced(("expm1(x)", "(exp(x) - 1)"))),
    "log(1 + x) for log1p": ("float32", ("log1p on float32",), replaced(("log1pf(x)", "logf(1.0f + x)"))),
    "a sine without reduction of large arguments": (
        "float32", ("sin on float32",), replaced((" sinf(x)", " (fabsf(x) < 1e4f ? sinf(x) : 0.0f)"))
    ),
    "a contraction of x * x + y": (
        "float64", ("x * x + y rounded twice on float64",), replaced(("(t0 + y)", "fma(x, x, y)"))
    ),
    "-x written 0 - x": ("float32", ("negative on float32",), replaced(("(-x)", "(0.0f - x)"))),
    "exp clipped": ("float64", ("exp on float64",), replaced(("exp(x)", "exp(x > 20 ? 20 : x < -20 ? -20 : x)"))),
    "exp of NaN is 0": ("float32", ("exp on float32",), replaced(("expf(x)", "(x != x ? 0.0f : expf(x))"))),
    "unsigned numbers compared as signed": ("uint32", ("less on uint32",), replaced(("(x < y)", "((int)x < (int)y)"))),
    "an overflow that saturates": (
        "int8", ("add on int8",),
        replaced(("((int8_t)((uint32_t)x + (uint32_t)y))", "((int8_t)(x + y > 127 ? 127 : x + y))")),
    ),
    "the largest 64-bit number through a double": (
        "int64", (f"the constant {2**63 - 1} on int64",), replaced(("9223372036854775807ULL", "9223372036854774784ULL"))
    ),
    "a negative zero as a literal without its sign": (
        "float64", ("the constant -0.0 on float64",), replaced(("(-0.0)", "0.0"))
    ),
    "isnan by comparison with itself the wrong way": (
        "float32", ("isnan on float32",), replaced(("(x != x);", "(x == x);"))
    ),
    "a float16 that is truncated": (
        "float16", ("add on float16",), replaced(("bits += 0xfff + (bits >> 13 & 1);", ""))
    ),
    "a product of complex numbers without a part": (
        "complex64", ("multiply on complex64",), replaced(("(t0 - t1)", "t0"))
    ),
    "a choice of the other branch": ("int32", ("choice by a comparison on int32",), replaced(("? x : y)", "? y : x)"))),
}  # fmt: skip
"""By what is wrong: the dtype with which it is found, cases in which it is, and the change of the source."""


def wrong_printer(change: Change) -> Any:
    def printer(*args: Any, **options: Any) -> str:
        return change(s.to_c(*args, **options))

    return printer


@pytest.fixture
def run(tmp_path: Path) -> Compiled:
    return Compiled(
        tmp_path, ["cc", "-std=c11", "-O0", "-w", "-fwrapv", "-ffp-contract=off"], C_HEAD + "#include <stdlib.h>\n"
    )


def test_wrong_printers_are_rejected(run: Compiled) -> None:
    assert len(WRONG) >= 24
    missed = []
    for what, (dtype, titles, change) in list(WRONG.items())[:: tier(2, 1)]:
        try:
            check_printer(wrong_printer(change), run, dtypes=[dtype])
        except WrongPrinterError as error:
            found = {case.title: case for case in error.wrong}
            missed += [f"{what}: {title} is not reported" for title in titles if title not in found]
            missed += [f"{what}: {case.error}" for case in found.values() if case.error]
        else:
            missed.append(f"{what}: accepted")
    assert missed == []


def test_the_message_says_what_is_wrong(run: Compiled) -> None:
    change = replaced((" || x != x) ? x : y)", ") ? x : y)"))
    with pytest.raises(WrongPrinterError) as caught:
        check_printer(wrong_printer(change), run, dtypes=["float64"])
    assert {case.title for case in caught.value.wrong} == {"maximum on float64", "minimum on float64"}
    (operands, given, expected) = caught.value.wrong[0].elements[0]
    assert np.isnan(operands[0])
    assert np.isnan(expected)
    assert given == operands[1]
    text = str(caught.value)
    assert text.startswith("[check_printer] 2 of ")
    assert "maximum on float64: (nan, " in text
    assert "gives" in text
    assert "more)" in text
    assert "docs/printers.md" in text


def test_source_that_does_not_compile_is_located(run: Compiled) -> None:
    """One function does not compile: only its case is reported, and the others are checked."""
    with pytest.raises(
        WrongPrinterError, match=r"1 of \d\d cases are wrong:\n  sign on int8: run raised Runtime"
    ) as caught:
        check_printer(wrong_printer(replaced(("((int8_t)((x > 0) - (x < 0)))", "sgn(x) +"))), run, dtypes=["int8"])
    assert len(caught.value.wrong) == 1


def test_a_printer_that_raises_or_declines_everything(run: Compiled) -> None:
    def fails(expression: Any, parameters: Any, **options: Any) -> str:
        if expression.operation == "add":
            raise KeyError("add")
        return s.to_c(expression, parameters, **options)

    with pytest.raises(WrongPrinterError, match="add on int8: the printer raised KeyError"):
        check_printer(fails, run, dtypes=["int8"])

    def declines(*args: Any, **options: Any) -> str:
        raise NotImplementedError

    with pytest.raises(WrongPrinterError, match="everything on int8: the printer declines every expression"):
        check_printer(declines, run, dtypes=["int8"])
    with pytest.raises(WrongPrinterError, match="the printer declines every dtype"):
        check_printer(declines, run)


def test_run_must_return_one_array_for_each_function(run: Compiled) -> None:
    with pytest.raises(WrongPrinterError, match="returned 0 results for one function"):
        check_printer(s.to_c, lambda functions: [], dtypes=["bool"])

    def of_another_dtype(functions: list[PrintedFunction]) -> list[np.ndarray]:
        return [array.astype("int64") for array in run(functions)]

    with pytest.raises(WrongPrinterError, match=r"run returned int64 of shape \(4,\), expected bool of shape \(4,\)"):
        check_printer(s.to_c, of_another_dtype, dtypes=["bool"])


def test_subnormal_numbers_may_be_flushed(run: Compiled) -> None:
    def flushing(functions: list[PrintedFunction]) -> list[np.ndarray]:
        results = []
        for array in run(functions):
            tiny = (
                (np.abs(array) < np.finfo("float32").tiny) if array.dtype == np.float32 else np.zeros(array.shape, bool)
            )
            results.append(np.where(tiny, np.copysign(np.float32(0), array), array) if tiny.any() else array)
        return results

    check_printer(s.to_c, flushing, dtypes=["float32"], subnormals=False)
    with pytest.raises(WrongPrinterError, match="multiply on float32"):
        check_printer(s.to_c, flushing, dtypes=["float32"])


def test_declined_operations_are_listed(run: Compiled) -> None:
    def printer(expression: Any, parameters: Any, **options: Any) -> str:
        if "float64" in (*parameters.values(), options["dtype"], options["result"]):
            raise NotImplementedError
        if "lgamma" in s.operations(expression):
            raise s.UnsupportedOperationError("no lgamma")
        return s.to_c(expression, parameters, **options)

    report = check_printer(printer, run, dtypes=["float32"])
    assert "lgamma on float32" in report.declined
    assert "add on float32" not in report.declined
    assert "all expressions on float64" in check_printer(printer, run, dtypes=["bool"]).declined
