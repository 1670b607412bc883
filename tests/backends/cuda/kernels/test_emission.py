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


def test_float16_is_rounded_to_nearest_and_to_even() -> None:
    halves = np.arange(0x0001, 0x7BFF, 97, dtype=np.uint16).view(np.float16)
    below, above = halves.astype("f4"), np.nextafter(halves, np.float16(np.inf)).astype("f4")
    middle = (below + above) / 2  # exact in float32
    x = np.concatenate([middle, np.nextafter(middle, below), np.nextafter(middle, above)])
    x = np.concatenate([x, -x, np.array([65519.9, 65520.0, 1e9, np.inf, np.nan, 0.0, -0.0, 2**-25, 2**-26], "f4")])
    out = np.empty(x.size, np.uint16)
    text = "def k(n, out, x):\n    i = uint32(cuda.grid(1))\n    if i < n:\n        out[i] = to_float16(x[i])\n"
    execute(KernelSource("k", text, ("uint32", "uint16*", "float32*")), -(-x.size // 256), 256, x.size, out, x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out.view(np.float16), x.astype(np.float16))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_shifts_by_every_count(dtype: str) -> None:
    """A shift by the width or more leaves nothing, or copies of the sign; so does one by a negative count."""
    width = 8 * np.dtype(dtype).itemsize
    numbers = [np.iinfo(dtype).min, np.iinfo(dtype).max, 1, 3, 0x55]
    counts = [*range(width + 2), 2 * width - 1, 100, np.iinfo(dtype).max, *([-1] if dtype[0] == "i" else [])]
    x, count = np.array([(a, b) for a in numbers for b in counts], dtype).T.copy()
    left, right = np.empty_like(x), np.empty_like(x)
    text = (
        "def k(n, left, right, x, count):\n    i = uint32(cuda.grid(1))\n    if i < n:\n"
        "        left[i] = shift_left(x[i], count[i])\n        right[i] = shift_right(x[i], count[i])\n"
    )
    source = KernelSource("k", text, ("uint32", *[f"{dtype}*"] * 4))
    execute(source, -(-x.size // 256), 256, x.size, left, right, x, count)
    pairs = [(int(a), int(b) if 0 <= b < width else width) for a, b in zip(x, count)]
    np.testing.assert_array_equal(left, np.array([(a << b) % (1 << width) for a, b in pairs], "u8").astype(dtype))
    np.testing.assert_array_equal(right, np.array([a >> b for a, b in pairs], dtype))


def _computed(expression: Any, kinds: dict[str, str], dtype: str, *arrays: np.ndarray) -> np.ndarray:
    text = to_numba(expression, kinds, dtype=dtype, name="f")
    values = ", ".join([f"x{n}[i]" for n in range(len(arrays))])
    names = ", ".join([f"x{n}" for n in range(len(arrays))])
    text += f"\ndef k(out, {names}):\n    i = cuda.grid(1)\n    out[i] = f({values})\n"
    out = np.empty(arrays[0].shape, numpy_dtype(dtype))
    source = KernelSource("k", text, (f"{TYPES[dtype]}*", *[f"{TYPES[kind]}*" for kind in kinds.values()]))
    execute(source, 1, out.size, out, *arrays)
    return out


@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_become_float16_before_the_computation(kind: str) -> None:
    x = np.array([2049, 4099, np.iinfo(kind).max, 7], kind)
    y = np.array([2, 3, 0.0008, 4], "float16")
    with np.errstate(invalid="ignore", over="ignore"):
        want = np.remainder(x.astype("float16"), y)
    found = _computed(s.variable("x") % s.variable("y"), {"x": kind, "y": "float16"}, "float16", x, y)
    np.testing.assert_array_equal(found, want)


def test_the_sign_of_minus_zero_is_zero() -> None:
    x = np.array([-0.0, 0.0, -2.0, np.nan], "float32")
    found = _computed(s.make("sign", s.variable("x")), {"x": "float32"}, "float32", x)
    np.testing.assert_array_equal(found, np.sign(x))
    assert not np.signbit(found[:2]).any()


def test_arithmetic_keeps_its_width() -> None:
    x = s.variable("x")
    expression = s.tanh(x) * 2 + s.exp(x) / 3 - s.floor(x)
    text = to_numba(expression, {"x": "float32"}, dtype="float32", name="f")
    ptx = instructions(KernelSource("k", f"{text}\ndef k(out, x):\n    out[0] = f(x[0])\n", ("float32*", "float32*")))
    assert ".f64" not in ptx
    text = to_numba((x + 7) * x // 3, {"x": "int32"}, dtype="int32", name="f")
    ptx = instructions(KernelSource("k", f"{text}\ndef k(out, x):\n    out[0] = f(x[0])\n", ("int32*", "int32*")))
    assert not any(word in ptx for word in ("add.s64", "mul.lo.s64", "div.s64"))
