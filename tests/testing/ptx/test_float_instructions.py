"""Arithmetic of floats in every format and direction, against exact fractions that are rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests._tiers import only_full
from tests.testing.ptx._exact import BF16, F16, F32, F64, bf16_bits, bf16_values, exact, nearby, rounded
from tests.testing.ptx._instructions import case, check, evaluate, per_element

FORMATS = {"f32": ("f4", F32), "f64": ("f8", F64)}
TINY = float(np.finfo("f4").tiny)


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < TINY, np.copysign(0, x), x).astype("f4")


def applied(operation: str, kind: str, mode: str = "rn"):
    dtype, to = FORMATS[kind]
    return per_element(lambda *xs: exact(operation, xs, to, mode), dtype)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", only_full(["rn", "rz", "rm", "rp"], ["rn", "rm"]))
def test_every_direction(kind: str, mode: str) -> None:
    dtype = FORMATS[kind][0]
    x, y, z = (nearby(dtype, seed, spread=40 if kind == "f32" else 300) for seed in range(3))
    with np.errstate(all="ignore"):
        near = np.where(np.arange(500) % 2, y, -x * np.roll(x, 1)).astype(dtype)  # sums that cancel
    cases = [
        case(f"add.{mode}.{kind} d, a, b;", (x, y), applied("add", kind, mode)),
        case(f"sub.{mode}.{kind} d, a, b;", (x, y), applied("sub", kind, mode)),
        case(f"mul.{mode}.{kind} d, a, b;", (x, y), applied("mul", kind, mode)),
        case(f"fma.{mode}.{kind} d, a, b, c;", (x, y, z), applied("fma", kind, mode)),
        case(f"fma.{mode}.{kind} d, a, b, c;", (x, np.roll(x, 1), near), applied("fma", kind, mode)),
        case(f"mad.{mode}.{kind} d, a, b, c;", (x, y, z), applied("fma", kind, mode)),
        case(f"div.{mode}.{kind} d, a, b;", (x, y), applied("div", kind, mode)),
        case(f"rcp.{mode}.{kind} d, a;", (x,), applied("rcp", kind, mode)),
        case(f"sqrt.{mode}.{kind} d, a;", (np.abs(x),), applied("sqrt", kind, mode)),
    ]
    check(cases)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_signs_and_extremes(kind: str) -> None:
    dtype = FORMATS[kind][0]
    x, y = nearby(dtype, 0), nearby(dtype, 1)
    x[:6], y[:6] = [0.0, -0.0, 0.0, -0.0, np.nan, 1], [-0.0, 0.0, 0.0, -0.0, 2, np.nan]
    # of two zeros, the negative one is the lesser
    low = np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y)).astype(dtype)
    high = np.where(x == y, np.where(np.signbit(x), y, x), np.fmax(x, y)).astype(dtype)
    cases = [
        case(f"abs.{kind} d, a;", (x,), np.abs(x)),
        case(f"neg.{kind} d, a;", (x,), -x),
        case(f"min.{kind} d, a, b;", (x, y), low),
        case(f"max.{kind} d, a, b;", (x, y), high),
        case(f"copysign.{kind} d, a, b;", (x, y), np.copysign(y, x)),
    ]
    if kind == "f32":
        nan = np.isnan(x) | np.isnan(y)
        cases += [
            case("min.NaN.f32 d, a, b;", (x, y), np.where(nan, np.float32(np.nan), low)),
            case("max.NaN.f32 d, a, b;", (x, y), np.where(nan, np.float32(np.nan), high)),
            case("min.ftz.f32 d, a, b;", (x, y), _low(flush(x), flush(y))),
            case("min.xorsign.abs.f32 d, a, b;", (x, y), _xorsign(x, y)),
        ]  # fmt: skip
    check(cases)


def _low(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y)).astype("f4")


def _xorsign(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    magnitude = np.fmin(np.abs(x), np.abs(y))
    signed = np.copysign(magnitude, np.where(np.signbit(x) ^ np.signbit(y), -1.0, 1.0))
    return np.where(np.isnan(x) & np.isnan(y), np.float32(np.nan), signed).astype("f4")


def test_subnormals_and_saturation() -> None:
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(500) * 2.0 ** rng.integers(-149, -100, 500)).astype("f4")
    y = (rng.standard_normal(500) * 2.0 ** rng.integers(-30, 20, 500)).astype("f4")
    z = np.roll(x, 7)
    ftz = {name: flush(applied(name, "f32")(*[flush(v) for v in vs])) for name, vs in {
        "add": (x, z), "sub": (x, z), "mul": (x, y), "div": (x, y), "fma": (x, y, z)}.items()}  # fmt: skip
    w = nearby("f4", 9, spread=2)

    def clipped(v: np.ndarray) -> np.ndarray:
        return np.where(v > 0, np.minimum(v, 1), 0).astype("f4")

    check([
        case("add.ftz.f32 d, a, b;", (x, z), ftz["add"]),
        case("sub.ftz.f32 d, a, b;", (x, z), ftz["sub"]),
        case("mul.ftz.f32 d, a, b;", (x, y), ftz["mul"]),
        case("div.rn.ftz.f32 d, a, b;", (x, y), ftz["div"]),
        case("fma.rn.ftz.f32 d, a, b, c;", (x, y, z), ftz["fma"]),
        case("add.f32 d, a, b;", (x, z), x + z),
        case("abs.ftz.f32 d, a;", (x,), flush(np.abs(x))),
        case("neg.ftz.f32 d, a;", (x,), flush(-x)),
        case("sqrt.rn.ftz.f32 d, a;", (np.abs(x),), np.sqrt(flush(np.abs(x)))),
        case("setp.lt.ftz.f32 p, a, b;\nselp.u32 d, 1, 0, p;", (x, z), (flush(x) < flush(z)).astype("u4")),
        case("add.sat.f32 d, a, b;", (w, np.roll(w, 3)), lambda a, b: clipped(a + b)),
        case("mul.sat.f32 d, a, b;", (w, np.roll(w, 3)), lambda a, b: clipped(a * b)),
        case("fma.rn.sat.f32 d, a, b, c;", (w, np.roll(w, 3), np.roll(w, 5)),
             lambda a, b, c: clipped(applied("fma", "f32")(a, b, c))),
    ])  # fmt: skip


def test_comparisons_with_nan() -> None:
    x, y = nearby("f4", 0), nearby("f4", 1)
    x[::7], y[::5], y[1::9] = np.nan, np.nan, x[1::9]
    unordered = np.isnan(x) | np.isnan(y)
    table = {"eq": x == y, "ne": (x != y) & ~unordered, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    table |= {f"{k}u": v | unordered for k, v in table.items()}
    table |= {"num": ~unordered, "nan": unordered}
    code = "setp.{}.{} p, a, b;\nselp.u32 d, 1, 0, p;"
    check([case(code.format(k, "f32"), (x, y), v.astype("u4")) for k, v in table.items()])
    check([case(code.format(k, "f64"), (x.astype("f8"), y.astype("f8")), v.astype("u4")) for k, v in table.items()])
    kinds = {"finite": np.isfinite, "infinite": np.isinf, "number": lambda v: ~np.isnan(v), "notanumber": np.isnan}
    kinds |= {"normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
              "subnormal": lambda v: (np.abs(v) < np.finfo(v.dtype).tiny) & (v != 0)}  # fmt: skip
    test = "testp.{}.{} p, a;\nselp.u32 d, 1, 0, p;"
    z = nearby("f8", 1)
    check([case(test.format(k, "f32"), (x,), f(x).astype("u4")) for k, f in kinds.items()])
    check([case(test.format(k, "f64"), (z,), f(z).astype("u4")) for k, f in kinds.items()])


def test_approximate_functions_are_accurate() -> None:
    x = np.linspace(-8, 8, 500).astype("f4")
    positive = np.abs(x) + np.float32(1e-3)
    w = x.astype("f8")
    p = positive.astype("f8")
    check(
        [
            case("ex2.approx.ftz.f32 d, a;", (x,), (np.exp2(w)).astype("f4"), close=2e-7),
            case("lg2.approx.f32 d, a;", (positive,), (np.log2(p)).astype("f4"), close=2e-7),
            case("sin.approx.f32 d, a;", (x,), (np.sin(w)).astype("f4"), close=2e-7),
            case("cos.approx.f32 d, a;", (x,), (np.cos(w)).astype("f4"), close=2e-7),
            case("tanh.approx.f32 d, a;", (x,), (np.tanh(w)).astype("f4"), close=3e-7),
            case("rsqrt.approx.f32 d, a;", (positive,), (1 / np.sqrt(p)).astype("f4"), close=1e-7),
            case("rcp.approx.ftz.f32 d, a;", (positive,), (1 / p).astype("f4"), close=1e-7),
            case("sqrt.approx.f32 d, a;", (positive,), (np.sqrt(p)).astype("f4"), close=1e-7),
            case("div.approx.f32 d, a, b;", (x, positive), (w / p).astype("f4"), close=1e-7),
            case("div.full.f32 d, a, b;", (x, positive), (w / p).astype("f4"), close=1e-7),
            case("rsqrt.approx.f64 d, a;", (p,), 1 / np.sqrt(p), close=1e-6),
            case("rcp.approx.ftz.f64 d, a;", (p,), 1 / p, close=1e-6),
        ]
    )


def test_coarse_reciprocals_of_doubles() -> None:
    """These give the upper half only, and take subnormal numbers for zeros."""
    x = np.array([3.0, -7.0, 1e300, 5e-324, -5e-324, 1.7e308, np.inf, 0.0])
    ((found,),) = evaluate([case("rcp.approx.ftz.f64 d, a;", (x,), x)])
    assert (found.view("u8") & 0xFFFFFFFF == 0).all()
    np.testing.assert_allclose(found[:3], 1 / x[:3], rtol=1e-6)
    assert found[3:].tolist() == [np.inf, -np.inf, 0.0, 0.0, np.inf]


def _bits16(numbers: np.ndarray, kind: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return numbers.astype("f2").view("u2") if kind == "f16" else bf16_bits(numbers)


def _numbers16(bits: np.ndarray, kind: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return bits.view("f2").astype("f8") if kind == "f16" else bf16_values(bits).astype("f8")


def _canonical(bits: np.ndarray, kind: str) -> np.ndarray:
    return np.where(np.isnan(_numbers16(bits, kind)), 0x7FFF, bits).astype("u2")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sixteen_bits(kind: str) -> None:
    to = F16 if kind == "f16" else BF16
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 16, (3, 900)).astype("u2")
    usual = rng.standard_normal((3, 300)) * 2.0 ** rng.integers(-5, 5, (3, 300))
    bits[:, :300] = _bits16(per_element(lambda v: rounded(Fraction(v), to), "f8")(usual), kind)
    a, b, c = bits
    # products that lie between two numbers, and a sum that decides: the case in which two roundings are wrong
    a[:20], b[:20], c[:20] = _ties(kind)

    def of(operation: str):
        def arrays(*xs: np.ndarray) -> np.ndarray:
            rows = zip(*[_numbers16(x, kind).tolist() for x in xs], strict=True)
            return _canonical(_bits16(np.array([exact(operation, row, to) for row in rows]), kind), kind)

        return arrays

    cases = [
        case(f"add.rn.{kind} d, a, b;", (a, b), of("add")),
        case(f"sub.rn.{kind} d, a, b;", (a, b), of("sub")),
        case(f"mul.rn.{kind} d, a, b;", (a, b), of("mul")),
        case(f"fma.rn.{kind} d, a, b, c;", (a, b, c), of("fma")),
        case(f"fma.rn.relu.{kind} d, a, b, c;", (a, b, c), lambda *x: _relu(of("fma")(*x), kind)),
        case(f"neg.{kind} d, a;", (a,), a ^ 0x8000),
        case(f"abs.{kind} d, a;", (a,), a & 0x7FFF),
    ]
    x, y = _numbers16(a, kind), _numbers16(b, kind)
    low = np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y))
    cases += [
        case(f"min.{kind} d, a, b;", (a, b), _canonical(_bits16(low, kind), kind)),
        case(f"max.NaN.{kind} d, a, b;", (a, b), _high(x, y, kind)),
        case(f"setp.lt.{kind} p, a, b;\nselp.u32 d, 1, 0, p;", (a, b), (x < y).astype("u4")),
        case(f"setp.geu.{kind} p, a, b;\nselp.u32 d, 1, 0, p;", (a, b), (~(x < y)).astype("u4")),
    ]  # fmt: skip
    if kind == "f16":
        sat = of("add")(a, b)
        numbers = _numbers16(sat, kind)
        cases.append(case("add.sat.f16 d, a, b;", (a, b),
                          _bits16(np.where(numbers > 0, np.minimum(numbers, 1), 0), kind)))  # fmt: skip
    check(cases)

    def packed(v: np.ndarray) -> np.ndarray:
        return np.stack([v, np.roll(v, 1)], -1).copy().view("u4").ravel()

    cases = []
    for name, n in (("add", 2), ("mul", 2), ("sub", 2), ("fma", 3)):
        code = f"{name}.{'rn.' if name == 'fma' else ''}{kind}x2 d, {', '.join('abc'[:n])};"
        want = np.stack([of(name)(*bits[:n]), of(name)(*[np.roll(v, 1) for v in bits[:n]])], -1)
        cases.append(case(code, [packed(v) for v in bits[:n]], want.copy().view("u4").ravel()))
    check(cases)


def _relu(bits: np.ndarray, kind: str) -> np.ndarray:
    return np.where(_numbers16(bits, kind) < 0, 0, bits).astype("u2")


def _high(x: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    high = np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))
    return _canonical(_bits16(high, kind), kind)


def _ties(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    digits = 11 if kind == "f16" else 8
    far = 2.0**-24 if kind == "f16" else 2.0**-100
    a = np.full(20, 1 + 2.0 ** (1 - digits))
    b = np.full(20, 1 + 2.0 ** (-1)) if kind == "f16" else np.full(20, 1.5)
    c = np.resize([far, -far, 0.0, far * 2], 20)
    return tuple(_bits16(v, kind) for v in (a, b, c))


def test_packed_singles() -> None:
    x, y, z = (nearby("f4", seed, 400).reshape(-1, 2) for seed in range(3))
    pack = [v.copy().view("u8").ravel() for v in (x, y, z)]

    def joined(v: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(v), np.uint32(0x7FFFFFFF).view("f4"), v).astype("f4").view("u8").ravel()

    with np.errstate(all="ignore"):
        check(
            [
                case("add.rn.f32x2 d, a, b;", pack[:2], joined(x + y)),
                case("mul.rn.f32x2 d, a, b;", pack[:2], joined(x * y)),
                case("fma.rn.f32x2 d, a, b, c;", pack, joined(applied("fma", "f32")(x, y, z))),
            ]
        )


def test_the_reference_agrees_with_the_processor() -> None:
    """The fractions themselves, where NumPy rounds to nearest too."""
    x, y = nearby("f4", 0), nearby("f4", 1)
    with np.errstate(all="ignore"):
        for name, want in {"add": x + y, "mul": x * y, "div": x / y, "sub": x - y}.items():
            got = applied(name, "f32")(x, y)
            np.testing.assert_array_equal(got, want)
            assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(got)])
        np.testing.assert_array_equal(applied("sqrt", "f32")(np.abs(x)), np.sqrt(np.abs(x)))
    assert exact("fma", (1 + 2.0**-23, 1 + 2.0**-23, -1.0), F64) == 2.0**-22 + 2.0**-46
    assert exact("add", (1.0, 2.0**-60), F32, "rp") == 1 + 2.0**-23
    assert exact("add", (1.0, -(2.0**-60)), F32, "rz") == 1 - 2.0**-24
    assert math.isinf(exact("mul", (1e38, 1e38), F32))
    assert exact("mul", (1e38, 1e38), F32, "rz") < 3.5e38
