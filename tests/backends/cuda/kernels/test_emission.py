"""Expressions in numba.cuda's language compute what NumPy computes, for all dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

import tenkey as tk
from tenkey.backends.cuda.compiling import KernelSource
from tenkey.backends.cuda.kernels.emission import TYPES, parts_count, to_numba
from tenkey.library import scalar as s
from tenkey.testing.printer_cases import numpy_dtype
from tests._tiers import only_full
from tests.backends.cuda.kernels._execution import execute, instructions

_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "float16",
    "bfloat16", "complex64", "complex128",
)  # fmt: skip
_TOGETHER = 8  # functions in one kernel


def run(functions: Sequence[Any]) -> list[np.ndarray]:
    """Compute the elements of printed functions, several in one kernel."""
    results: list[np.ndarray] = []
    for start in range(0, len(functions), _TOGETHER):
        group = functions[start : start + _TOGETHER]
        results += _run_group(group)
    return results


def _run_group(functions: Sequence[Any]) -> list[np.ndarray]:
    names: list[str] = []
    kinds: list[str] = []
    arguments: list[Any] = []
    body: list[str] = []
    outs: list[np.ndarray] = []
    for k, function in enumerate(functions):
        values: list[str] = []
        for n, (array, dtype) in enumerate(zip(function.arrays, function.parameters.values(), strict=True)):
            names.append(f"x{k}_{n}")
            kinds.append(f"{TYPES[dtype]}*")
            arguments.append(np.ascontiguousarray(array))
            parts = parts_count(dtype)
            values += [f"x{k}_{n}[{parts} * i + {part}]" for part in range(parts)]
        out = np.empty(function.arrays[0].shape, numpy_dtype(function.result))
        names += [f"n{k}", f"out{k}"]
        kinds += ["uint32", f"{TYPES[function.result]}*"]
        arguments += [out.size, out]
        outs.append(out)
        body += [f"    if i < n{k}:", f"        v{k} = {function.name}({', '.join(values)})"]
        if parts_count(function.result) == 2:
            body += [f"        out{k}[2 * i] = v{k}[0]", f"        out{k}[2 * i + 1] = v{k}[1]"]
        else:
            body.append(f"        out{k}[i] = v{k}")
    head = "".join([f"{function.source}\n" for function in functions])
    text = "\n".join([f"{head}def run({', '.join(names)}):", "    i = uint32(cuda.grid(1))", *body, ""])
    source = KernelSource("run", text, tuple(kinds))
    size = max(out.size for out in outs)
    execute(source, -(-size // 128), 128, *arguments)
    return outs


@pytest.mark.parametrize("dtype", only_full(_DTYPES, ("bool", "int8")))
def test_the_battery_of_printers(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    report = tk.testing.check_printer(to_numba, run, dtypes=[dtype])
    assert report.checked >= 24
    accepted = [title for title in report.declined if not title.startswith("all expressions on")]
    assert all("nextafter" in title or "pow" in title for title in accepted), accepted


def test_wrong_printers_are_found() -> None:
    def careless(*args: Any, **options: Any) -> str:
        return to_numba(*args, **options).replace("wrap_add", "wrap_subtract")

    with pytest.raises(tk.testing.WrongPrinterError, match="add on int8"):
        tk.testing.check_printer(careless, run, dtypes=["int8"])


def test_what_a_function_looks_like() -> None:
    x, t0 = s.variable("x"), s.variable("select")
    text = to_numba(s.where(x > 0, x, t0 * 2), {"x": "float32", "select": "bfloat16"}, dtype="float32", name="f")
    assert text.splitlines()[0] == "def f(x_, select_value_):"
    assert "select_value = from_bfloat16(select_value_)" in text
    text = to_numba(x * x, {"x": "complex64"}, dtype="complex64", name="f")
    assert text.startswith("def f(x__re, x__im):")
    with pytest.raises(NotImplementedError, match=r"pow"):
        to_numba(x ** s.variable("y"), {"x": "int32", "y": "int32"}, dtype="int32")


def test_arithmetic_keeps_its_width() -> None:
    x = s.variable("x")
    expression = s.tanh(x) * 2 + s.exp(x) / 3 - s.floor(x)
    text = to_numba(expression, {"x": "float32"}, dtype="float32", name="f")
    ptx = instructions(KernelSource("k", f"{text}\ndef k(out, x):\n    out[0] = f(x[0])\n", ("float32*", "float32*")))
    assert ".f64" not in ptx
    text = to_numba((x + 7) * x // 3, {"x": "int32"}, dtype="int32", name="f")
    ptx = instructions(KernelSource("k", f"{text}\ndef k(out, x):\n    out[0] = f(x[0])\n", ("int32*", "int32*")))
    assert not any(word in ptx for word in ("add.s64", "mul.lo.s64", "div.s64"))
