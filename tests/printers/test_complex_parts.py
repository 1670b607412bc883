"""Complex expressions in real and imaginary parts, and operations in terms of others, against NumPy and SciPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.library import scalar as s
from tenkey.ops.scalar.complex_parts import _FUNCTIONS
from tenkey.ops.scalar.expansions import EXPANSIONS

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.25, 1e-5, -1e-9, 3.0, 30.0, -25.0, np.inf, -np.inf]
BINARY = {"add", "subtract", "multiply", "divide", "pow", "fma"}
NUMPY: dict[str, Any] = {"rsqrt": lambda z: 1 / np.sqrt(z), "reciprocal": lambda z: 1 / z}


def parts_of(expression: Any, *names: str) -> tuple[Any, Any]:
    return s.real_parts(expression, {name: (s.variable(f"{name}_re"), s.variable(f"{name}_im")) for name in names})


def evaluated(pair: tuple[Any, Any], **values: complex) -> complex:
    given = {f"{name}_{part}": getattr(z, part + "al" if part == "re" else "imag")
             for name, z in values.items() for part in ("re", "im")}  # fmt: skip
    return complex(s.evaluate(pair[0], given), s.evaluate(pair[1], given))


def close(got: complex, want: complex, tolerance: float = 1e-13) -> bool:
    size = abs(want) if np.isfinite(want) else 0.0
    return all(
        a == b or (a != a and b != b) or abs(a - b) <= tolerance * abs(b) + 4e-16 * size
        for a, b in ((got.real, want.real), (got.imag, want.imag))
    )


def test_functions_of_one_number() -> None:
    """Infinite parts and signs of zeros included, which decide the side of a branch cut."""
    grid = [complex(a, b) for a, b in itertools.product(PARTS, repeat=2)]
    array = np.empty(len(grid), complex)
    array.real, array.imag = [z.real for z in grid], [z.imag for z in grid]
    wrong = []
    for name in sorted(_FUNCTIONS.keys() - BINARY):
        pair = parts_of(s.make(name, s.variable("z")), "z")
        with np.errstate(all="ignore"):
            want = NUMPY[name](array) if name in NUMPY else np.asarray(getattr(tk, name)(tk.asarray(array)))
        for z, expected in zip(grid, want, strict=True):
            # at two infinities, or an angle that is infinite, the conventions differ
            known = not np.isinf(z).any() if name in ("tan", "tanh", "sin", "cos", "sinh", "cosh") else True
            known = known and not (np.isinf(z.real) and np.isinf(z.imag))
            if known and not close(evaluated(pair, z=z), complex(expected)):
                wrong.append((name, z, evaluated(pair, z=z), complex(expected)))
    assert wrong == []


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow"])
def test_functions_of_two_numbers(name: str) -> None:
    numbers = [complex(a, b) for a, b in itertools.product([0.0, 1.0, -1.0, 0.5, -2.25, 3.0], repeat=2)]
    pair = parts_of(s.make(name, s.variable("x"), s.variable("y")), "x", "y")
    function = {"pow": np.power}.get(name) or getattr(np, name)
    for x, y in itertools.product(numbers, repeat=2):
        with np.errstate(all="ignore"):
            want = complex(function(np.complex128(x), np.complex128(y)))
        if name == "pow" and x == 0 and y.imag != 0:
            continue  # 0 to the power of a complex number: NumPy has several answers
        assert close(evaluated(pair, x=x, y=y), want, 1e-12), (x, y)


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10"])
def test_numbers_whose_length_is_infinite_or_subnormal(name: str) -> None:
    pair = parts_of(s.make(name, s.variable("z")), "z")
    most = float(np.finfo("float64").max)
    tiny = [complex(5e-324, 1e-322), complex(-1e-320, 5e-324), 5e-324j] if name == "sqrt" else []
    for z in (complex(most, most), complex(-most, 0.5 * most), complex(0.0, -most), *tiny):
        want = complex(getattr(np, name)(np.complex128(z)))
        assert close(evaluated(pair, z=z), want), (z, evaluated(pair, z=z), want)


def test_divisions_do_not_overflow() -> None:
    pair = parts_of(s.variable("x") / s.variable("y"), "x", "y")
    assert close(evaluated(pair, x=1e300 + 1e300j, y=2e300 + 2e300j), 0.5 + 0j)
    assert close(evaluated(pair, x=1 + 1j, y=1e-300j), 1e300 - 1e300j)


def test_conditions_choices_and_real_parts() -> None:
    z, r = s.variable("z"), s.variable("r")
    pair = parts_of(s.where(s.abs(z) > r, z * 2, z - 1), "z")
    assert s.free_variables(pair[0]) == {"z_re", "z_im", "r"}
    given = {"z_re": 3.0, "z_im": 4.0, "r": 1.0}
    assert [s.evaluate(part, given) for part in pair] == [6.0, 8.0]
    assert [s.evaluate(part, {**given, "r": 9.0}) for part in pair] == [2.0, 4.0]
    condition, nothing = parts_of(s.make("equal", z, z), "z")
    assert condition.kind == "boolean"
    assert s.evaluate(nothing, {}) == 0
    size, _ = parts_of(s.maximum(s.abs(z), 1), "z")
    assert s.evaluate(size, given) == 5.0


def test_undefined_operations() -> None:
    with pytest.raises(ValueError, match=r"\[real_parts\] floor is not defined for complex numbers, in `floor\(z\)`"):
        parts_of(s.floor(s.variable("z")), "z")


NUMBERS = [
    0.0, -0.0, 1e-40, 1e-5, -1e-5, 0.1, 0.3, 0.5, -0.5, 0.87, 0.88, 1.0, -1.0, 1.5, 2.0, 2.5, 3.0, -3.3, 6.9, 7.0, 9.0,
    -20.3, 20.0, 50.0, 88.0, -88.0, 100.0, 1e5, 1e10, 1e30, -1e30, 3e38, np.inf, -np.inf, np.nan,
]  # fmt: skip
ULPS = {"exp2": 40, "erfc": 4, "lgamma": 16}  # exp2 multiplies the argument first


@pytest.mark.parametrize("name", EXPANSIONS)
def test_expansions_in_float32(name: str) -> None:
    names = "xy"[: len(s.OPERATIONS[name].operand_kinds)]
    expression = s.make(name, *[s.variable(x) for x in names])
    (expanded,) = s.expand([expression], EXPANSIONS)
    assert not s.operations(expanded) & EXPANSIONS.keys()

    def constant(value: Any, kind: str) -> str:
        return f"np.float32({float(value)!r})" if np.isfinite(value) else f"np.float32('{value}')"

    scope: dict[str, Any] = {}
    exec("\n".join(s.NUMPY.imports), scope)
    exec(s.function_source("f", list(names), [expanded], s.NUMPY.extended(constant=constant)), scope)
    rows = itertools.product(NUMBERS, repeat=len(names))
    grid = [np.array(column, np.float32) for column in zip(*rows, strict=True)]
    with np.errstate(all="ignore"):
        got = scope["f"](*grid)
        want = np.array([s.evaluate(expression, dict(zip(names, map(float, row), strict=True)))
                         for row in zip(*grid, strict=True)]).astype(np.float32)  # fmt: skip
        size = np.abs(want.astype(float))
        size = np.maximum(size, 1) if name == "lgamma" else size  # which has zeros that are not at exact numbers
        error = np.abs(got.astype(float) - want) / (np.finfo(np.float32).eps * size + 1e-45)
    assert got.dtype == np.float32
    right = (got == want) | (np.isnan(got) & np.isnan(want)) | (error <= ULPS.get(name, 3))
    assert right.all(), ([x[~right] for x in grid], got[~right], want[~right])
