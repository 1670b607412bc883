"""Scalar expressions as C: compiled by the system's compiler, every operation gives what NumPy gives."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

from tenkey.library import scalar as s
from tests._tiers import only_full

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

HEAD = "#include <math.h>\n#include <stdint.h>\n"
FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
C_TYPES = s.C_DIALECTS["c"].types

_FLOAT_ONLY: dict[str, Callable[..., Any]] = {
    "divide": np.divide, "pow": np.power, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt, "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "lgamma": scipy.special.gammaln, "digamma": scipy.special.psi,
    "trigamma": lambda x: scipy.special.polygamma(1, x).astype(x.dtype), "atan2": np.arctan2, "hypot": np.hypot,
    "copysign": np.copysign, "nextafter": np.nextafter,
    "fma": lambda x, y, z: (x.astype(np.longdouble) * y + z).astype(x.dtype),
}  # fmt: skip
_ALL: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "negative": np.negative, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
    "square": np.square, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "maximum": np.maximum, "minimum": np.minimum, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
_INTEGER_ONLY: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_invert": np.invert, "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip
_BOOL = ("add", "multiply", "maximum", "minimum", "less", "equal", "bitwise_and", "bitwise_or", "bitwise_xor")
_WHOLE = ("floor", "ceil", "trunc", "round")  # of integers NumPy makes floats; here they stay what they are


def values(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        limits = np.finfo(dtype)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5]
        return np.array([*special, 0.1, 3.75, -7.25, 2.0, 1e-3, 20.0, -20.0, 700.0], dtype)
    whole = np.iinfo(dtype)
    some = [0, 1, 2, 3, 7, 8, 13, 63, 100, whole.max, whole.max - 1]
    if whole.min < 0:
        some += [-1, -2, -3, -7, -13, -100, whole.min, whole.min + 1]
    return np.array(some, dtype)


def compiled(sources: dict[str, str], folder: Path) -> ctypes.CDLL:
    (folder / "all.c").write_text(HEAD + "\n".join(sources.values()))
    command = ["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-variable", "-Wno-unused-function",
               "-Wno-type-limits", "-Wno-unused-parameter", "-Werror", "-ffp-contract=off", "-shared", "-fPIC",
               "-o", str(folder / "all.so"), str(folder / "all.c"), "-lm"]  # fmt: skip
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return ctypes.CDLL(str(folder / "all.so"))


def loop(name: str, expression: Any, operands: dict[str, str], dtype: str, result: str) -> str:
    """The function, and a loop around it with one pointer for each operand and one for the result."""
    function = s.to_c(expression, operands, dtype=dtype, result=result, name=f"op_{name}")
    pointers = ", ".join(f"const {C_TYPES[kind]} *{p}" for p, kind in operands.items())
    call = ", ".join(f"{p}[i]" for p in operands)
    return (
        f"{function}void run_{name}(long n, {pointers}, {C_TYPES[result]} *out)\n"
        f"{{ for (long i = 0; i < n; ++i) out[i] = op_{name}({call}); }}\n"
    )


def run(library: ctypes.CDLL, name: str, arrays: list[np.ndarray], result: str) -> np.ndarray:
    out = np.empty(arrays[0].shape, result)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, out)]
    getattr(library, f"run_{name}")(ctypes.c_long(out.size), *pointers)
    return out


def table(dtype: str) -> dict[str, Callable[..., Any]]:
    if dtype == "bool":
        return {name: _ALL.get(name) or _INTEGER_ONLY[name] for name in _BOOL}
    if dtype in FLOATS:
        return {**_ALL, **_FLOAT_ONLY}
    signed = {name: f for name, f in _ALL.items() if dtype in SIGNED or name != "negative"}
    return {**signed, **_INTEGER_ONLY}


@pytest.mark.parametrize(
    "dtype", only_full([*FLOATS, *SIGNED, *UNSIGNED, "bool"], ["float32", "float64", "int8", "int64", "uint16", "bool"])
)
def test_every_operation(dtype: str, tmp_path: Path) -> None:
    sources: dict[str, str] = {}
    cases: dict[str, tuple[list[np.ndarray], str]] = {}
    for name in table(dtype):
        operation = s.OPERATIONS[name]
        count = len(operation.operand_kinds)
        parameters = dict.fromkeys("xyz"[:count], dtype)
        result = "bool" if operation.kind == "boolean" else dtype
        expression = s.make(name, *[s.variable(p) for p in parameters])
        sources[name] = loop(name, expression, parameters, dtype, result)
        grid = list(itertools.product(values(dtype), repeat=count))
        cases[name] = ([np.ascontiguousarray(column, dtype) for column in zip(*grid, strict=True)], result)
    library = compiled(sources, tmp_path)
    for name, reference in table(dtype).items():
        arrays, result = cases[name]
        got = run(library, name, arrays, result)
        with np.errstate(all="ignore"):
            want = np.asarray(arrays[0] if name in _WHOLE and dtype not in FLOATS else reference(*arrays))
        if dtype in FLOATS and result != "bool":
            tolerance = 40 * float(np.finfo(dtype).eps)
            close = np.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
            close |= _exempt(name, arrays)
            assert close.all(), (name, [a[~close] for a in arrays], got[~close], want[~close])
        else:
            np.testing.assert_array_equal(got, want.astype(result), err_msg=name)


def _exempt(name: str, arrays: list[np.ndarray]) -> Any:
    """Where the reference itself is not what `tenkey.ops.scalar.reference` says, or cancels."""
    x = arrays[0]
    if name in ("digamma", "trigamma", "lgamma"):
        poles = (x <= 0) & (x == np.floor(x))
        return poles | ~np.isfinite(x) | (np.abs(x) < 1e-30)
    if name in ("sin", "cos", "tan"):
        return np.abs(x) > 1e30
    if name in ("floor_divide", "remainder"):  # of quotients beyond the last digit only C's fmod is exact
        with np.errstate(all="ignore"):
            return np.abs(x / arrays[1]) > 1e6
    if name == "fma":
        with np.errstate(all="ignore"):
            return np.abs(arrays[0].astype(np.longdouble) * arrays[1]) > np.finfo(x.dtype).max
    return np.zeros(x.shape, bool)


def test_the_table_of_this_file_is_complete() -> None:
    logic = {"logical_and", "logical_or", "logical_xor", "logical_not", "where", "eps"}  # in the tests below
    assert {*_FLOAT_ONLY, *_ALL, *_INTEGER_ONLY} | logic == set(s.OPERATIONS)


def test_conditions_and_choices(tmp_path: Path) -> None:
    x, y, b = s.variable("x"), s.variable("y"), s.variable("b", "boolean")
    made = {
        "choose": s.where(s.logical_or(x > y, b), x * 2.5, -y),
        "logic": s.logical_xor(s.logical_and(x > 0, y > 0), s.logical_not(b)),
        "numbers": s.where(b, 1, 0) + s.make("eps"),
    }
    kinds = {"x": "float64", "y": "float64", "b": "bool"}
    results = {"choose": "float64", "logic": "bool", "numbers": "float64"}
    library = compiled({n: loop(n, e, kinds, "float64", results[n]) for n, e in made.items()}, tmp_path)
    grid = list(itertools.product([-1.0, 0.0, 2.0, np.nan], [-3.0, 1.0], [False, True]))
    a, c, d = (np.ascontiguousarray(column) for column in zip(*grid, strict=True))
    want = {
        "choose": np.where((a > c) | d, a * 2.5, -c),
        "logic": ((a > 0) & (c > 0)) ^ ~d,
        "numbers": d + np.finfo("float64").eps,
    }
    for name, reference in want.items():
        np.testing.assert_array_equal(run(library, name, [a, c, d], results[name]), reference)


CONVERSIONS = [(a, b) for a in (*FLOATS, *SIGNED, *UNSIGNED, "bool") for b in (*FLOATS, *SIGNED, *UNSIGNED, "bool")]


def test_conversions_of_operands_and_results(tmp_path: Path) -> None:
    x = {kind: s.variable("x", "boolean" if kind == "bool" else "number") for kind, _ in CONVERSIONS}
    names = {(a, b): f"from_{a}_to_{b}" for a, b in CONVERSIONS}
    library = compiled({n: loop(n, x[a], {"x": a}, a, b) for (a, b), n in names.items()}, tmp_path)
    loads = tmp_path / "loads"
    loads.mkdir()
    number = s.variable("x") + 0
    pairs = [(a, b) for a, b in CONVERSIONS if b != "bool"]
    second = compiled({names[a, b]: loop(names[a, b], number, {"x": a}, b, b) for a, b in pairs}, loads)
    for a, b in CONVERSIONS:
        given = values(a)
        if a in FLOATS and b not in FLOATS and b != "bool":  # others are not defined, in NumPy as in C
            given = np.array([0.0, -0.0, 1.9, 100.5, 7.0, 0.2], a)
        with np.errstate(all="ignore"):
            want = given.astype(b)
        np.testing.assert_array_equal(run(library, names[a, b], [given], b), want, err_msg=names[a, b])
        if b != "bool":
            np.testing.assert_array_equal(run(second, names[a, b], [given], b), want, err_msg=names[a, b])


def test_integers_become_float16_before_the_computation(tmp_path: Path) -> None:
    remainder = s.variable("x") % s.variable("y")
    kinds = [kind for kind in (*SIGNED, *UNSIGNED) if np.dtype(kind).itemsize > 1]
    library = compiled(
        {f"of_{kind}": loop(f"of_{kind}", remainder, {"x": kind, "y": "float16"}, "float16", "float16")
         for kind in kinds}, tmp_path,
    )  # fmt: skip
    y = np.array([2, 3, 0.0008, 4], "float16")
    for kind in kinds:
        x = np.array([2049, 4099, np.iinfo(kind).max, 7], kind)
        with np.errstate(all="ignore"):
            want = np.remainder(x.astype("float16"), y)
        np.testing.assert_array_equal(run(library, f"of_{kind}", [x, y], "float16"), want, err_msg=kind)


def test_constants(tmp_path: Path) -> None:
    constants = {
        "float32": [0.1, -0.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"), 2, True],
        "float64": [0.1, 1e300, -5e-324, 12345678901234567],
        "int64": [2**63 - 1, -(2**63), 0, -1, 5.0],
        "uint64": [2**64 - 1],
        "int8": [-128, 127],
    }
    flat = [(f"c{i}_{dtype}", dtype, v) for dtype, all_of in constants.items() for i, v in enumerate(all_of)]
    sources = {
        name: loop(name, s.make("where", s.variable("x", "boolean"), value, 0), {"x": "bool"}, dtype, dtype)
        for name, dtype, value in flat
    }
    library = compiled(sources, tmp_path)
    for name, dtype, value in flat:
        got = run(library, name, [np.array([True])], dtype)
        np.testing.assert_array_equal(got, np.array([value]).astype(dtype), err_msg=name)
        if value == 0 and dtype in FLOATS:
            assert np.signbit(got[0]) == np.signbit(value)


def test_composed_functions_and_shared_parts(tmp_path: Path) -> None:
    x, y = s.variable("x"), s.variable("y")
    made = {
        "mish": x * s.tanh(s.softplus(x)),
        "log_add": s.logaddexp(x, y),
        "clipped": s.clip(x, -1, y),
        "derivative": s.differentiate(x * s.tanh(s.softplus(x)), "x"),
    }
    kinds = {"x": "float64", "y": "float64"}
    library = compiled({n: loop(n, e, kinds, "float64", "float64") for n, e in made.items()}, tmp_path)
    a, b = np.linspace(-6, 6, 41), np.linspace(3, -3, 41)
    for name, expression in made.items():
        want = [s.evaluate(expression, {"x": p, "y": q}) for p, q in zip(a, b, strict=True)]
        np.testing.assert_allclose(run(library, name, [a, b], "float64"), want, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("dialect", ["c", "opencl", "cuda"])
def test_names_do_not_collide(dialect: str) -> None:
    x, t0 = s.variable("x"), s.variable("t0")
    text = s.to_c(s.exp(x) + t0 * 2, {"x": "float32", "t0": "float32"}, dtype="float32", name="t1", dialect=dialect)
    assert text.count("float t0 =") == 1
    assert "float t1 =" not in text


class TestRefusals:
    def test_dtypes(self) -> None:
        x = s.variable("x")
        for dialect, dtype in (("metal", "float64"), ("wgsl", "int64"), ("wgsl", "int8"), ("c", "longdouble")):
            for options in ({"dtype": dtype}, {"dtype": "float32", "result": dtype}):
                with pytest.raises(s.UnsupportedOperationError, match=rf"no type for {dtype}.*fall back"):
                    s.to_c(x + 1, {"x": "float32"}, dialect=dialect, **options)
            with pytest.raises(NotImplementedError):
                s.to_c(x + 1, {"x": dtype}, dtype="float32", dialect=dialect)

    def test_complex_numbers(self) -> None:
        x = s.variable("x")
        with pytest.raises(s.UnsupportedOperationError, match=r"maximum is not defined for complex numbers"):
            s.to_c(s.maximum(x, 0), {"x": "complex64"}, dtype="complex64")
        with pytest.raises(s.UnsupportedOperationError, match=r"parameter x is complex64, .*computed in float32"):
            s.to_c(x + 1, {"x": "complex64"}, dtype="float32")

    @pytest.mark.parametrize("name", ["pow", "exp", "divide", "lgamma"])
    def test_operations_that_integers_have_not(self, name: str) -> None:
        operands = [s.variable(p) for p in "xy"[: len(s.OPERATIONS[name].operand_kinds)]]
        with pytest.raises(s.UnsupportedOperationError, match=rf"\[to_c\] the operation '{name}' on int32"):
            s.to_c(s.make(name, *operands), {"x": "int32", "y": "int32"}, dtype="int32")

    def test_fractions_in_integers(self) -> None:
        with pytest.raises(s.UnsupportedOperationError, match=r"the constant 0.5 .* int64"):
            s.to_c(s.variable("x") * 0.5, {"x": "int64"}, dtype="int64")

    def test_unknown_dialect_and_variable(self) -> None:
        with pytest.raises(ValueError, match=r"unknown dialect 'fortran': choose from c, opencl, cuda, metal, wgsl"):
            s.to_c(s.variable("x"), {"x": "float32"}, dtype="float32", dialect="fortran")
        with pytest.raises(ValueError, match=r"the variables y, which are not parameters: got x"):
            s.to_c(s.variable("y"), {"x": "float32"}, dtype="float32")
