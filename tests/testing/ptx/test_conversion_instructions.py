"""Conversions between all types, in every direction, against exact fractions and Python's integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.testing.ptx._exact import BF16, F16, F32, F64, Format, bf16_bits, bf16_values, nearby, rounded
from tests.testing.ptx._instructions import case, check, per_element

FORMATS: dict[str, Format] = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


def converted(x: float, to: Format, mode: str) -> float:
    """Return a number rounded to a format; zeros, infinities and NaN stay."""
    if not math.isfinite(x) or x == 0:
        return x
    return math.copysign(rounded(Fraction(x), to, mode), x)


def bits_of(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return numbers that a format has as an array of its bits (bf16) or of the dtype."""
    if kind == "bf16":
        return bf16_bits(numbers)
    with np.errstate(over="ignore"):
        x = numbers.astype(DTYPES[kind])
    if kind == "f16":
        return np.where(np.isnan(numbers), 0x7FFF, x.view("u2")).astype("u2")
    return x


def between(kind: str) -> np.ndarray:
    """Return numbers of float32 or float64 that lie in all places between those of 16 bits."""
    rng = np.random.default_rng(1)
    x = nearby(kind, 0, 300, 30)
    half = rng.integers(0, 0x7C01, 300).astype("u2").view("f2").astype("f8")
    step = rng.choice([0, 0.25, 0.5, 0.75, 0.5 + 2.0**-20, 0.5 - 2.0**-20], 300) * 2.0**-10
    with np.errstate(invalid="ignore", over="ignore"):
        y = (half * (1 + step) * rng.choice([-1, 1], 300)).astype(kind)
    edges = np.array([65504, 65519.99, 65520, 65536, 3.38e38, 3.4e38, 2.0**-24, 2.0**-25, 2.0**-26, 6e-8, 1e-40], kind)
    return np.concatenate([x, y, edges, -edges])


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_to_sixteen_bits(source: str, target: str) -> None:
    x = between(DTYPES[source])
    modes = ["rn", "rz"] + (["rm", "rp"] if target == "f16" else [])
    cases = []
    for mode in modes:
        want = bits_of(per_element(lambda v, m=mode: converted(v, FORMATS[target], m), "f8")(x), target)
        cases.append(case(f"cvt.{mode}.{target}.{source} d, a;", (x,), want))
    if source == "f32":
        want = bits_of(np.maximum(per_element(lambda v: converted(v, FORMATS[target], "rn"), "f8")(x), 0), target)
        want = np.where(np.isnan(x), 0x7FFF, want).astype("u2")
        want = np.where(np.signbit(x) & (want == 0), 0, want).astype("u2")
        relu = case(f"cvt.rn.relu.{target}.f32 d, a;", (x,), want)
        keep = ~(np.signbit(x) & (x > -1e-7))  # zeros of either sign
        cases.append(relu._replace(inputs=(x[keep],), want=(want[keep],)))
    check(cases)


def test_pairs_of_sixteen_bits() -> None:
    x = between("f4")
    y = np.roll(x, 5)
    cases = []
    for target in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            one = per_element(lambda v, m=mode, t=target: converted(v, FORMATS[t], m), "f8")
            high, low = bits_of(one(x), target), bits_of(one(y), target)
            cases.append(case(f"cvt.{mode}.{target}x2.f32 d, a, b;", (x, y), high.astype("u4") << 16 | low))
    check(cases)


def test_from_sixteen_bits() -> None:
    every = np.arange(1 << 16, dtype="u2")
    for part in np.split(every, 64):
        half = part.view("f2")
        check([
            case("cvt.f32.f16 d, a;", (part,), half.astype("f4")),
            case("cvt.f64.f16 d, a;", (part,), half.astype("f8")),
            case("cvt.f32.bf16 d, a;", (part,), np.where(np.isnan(bf16_values(part)), np.float32(np.nan),
                                                         bf16_values(part))),
        ])  # fmt: skip
        if part[0] == 0x4000:
            break


def test_between_singles_and_doubles() -> None:
    x = np.concatenate(
        [nearby("f8", 3, 600, 200), np.float64(np.finfo("f4").max) * np.array([1, 1 + 2e-8, 1 + 1e-7, 2])]
    )
    cases = [
        case(f"cvt.{mode}.f32.f64 d, a;", (x,), per_element(lambda v, m=mode: converted(v, F32, m), "f4"))
        for mode in ("rn", "rz", "rm", "rp")
    ]
    y = nearby("f4", 2)
    flushed = np.where(np.abs(y) < np.finfo("f4").tiny, np.copysign(0, y), y).astype("f4")
    cases += [
        case("cvt.f64.f32 d, a;", (y,), y.astype("f8")),
        case("cvt.ftz.f64.f32 d, a;", (y,), flushed.astype("f8")),
        case("cvt.sat.f32.f32 d, a;", (y,), np.where(y > 0, np.minimum(y, 1), 0).astype("f4")),
        case("cvt.rna.tf32.f32 d, a;", (y,), per_element(
            lambda v: converted(v, Format(11, -126, 127), "rna"), "f4")),
        case("cvt.rn.tf32.f32 d, a;", (y,), per_element(lambda v: converted(v, Format(11, -126, 127), "rn"), "f4")),
    ]  # fmt: skip
    cases += [
        case(f"cvt.{how}.{kind}.{kind} d, a;", (v,), f(v))
        for how, f in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil))
        for kind, v in (("f32", nearby("f4", 4)), ("f64", nearby("f8", 4)))
    ]
    check(cases)


def limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def dtype(kind: str) -> str:
    return ("i" if kind[0] == "s" else "u") + str(int(kind[1:]) // 8)


WHOLE = {"rni": lambda f: round(f), "rzi": lambda f: math.trunc(f), "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_to_integers(source: str) -> None:
    edges = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5)]
    x = np.concatenate([nearby(DTYPES[source], 0, 200, 10), edges, -np.array(edges)]).astype(DTYPES[source])
    cases = []
    for kind in INTEGERS[2:]:
        low, high = limits(kind)
        size = int(kind[1:])

        def one(v: float, how: str, low: int = low, high: int = high, size: int = size) -> int:
            if math.isnan(v):
                wide = size == 64 or source == "f64"
                return (low or 1 << (size - 1)) if wide else 0
            if math.isinf(v):
                return high if v > 0 else low
            return min(max(WHOLE[how](Fraction(v)), low), high)

        cases += [
            case(f"cvt.{how}.{kind}.{source} d, a;", (x,), per_element(lambda v, h=how, f=one: f(v, h), dtype(kind)))
            for how in WHOLE
        ]
    check(cases)


@pytest.mark.parametrize("target", ["f32", "f64", "f16", "bf16"])
def test_integers_to_floats(target: str) -> None:
    cases = []
    for kind in INTEGERS[2:]:
        low, high = limits(kind)
        rng = np.random.default_rng(7)
        size = int(kind[1:])
        numbers = [low, low + 1, high, high - 1, 0, 1, 3, (1 << min(24, size - 2)) + 1, (1 << min(53, size - 2)) + 1]
        numbers += [int.from_bytes(rng.bytes(size // 8), "little") >> int(rng.integers(0, size)) for _ in range(200)]
        numbers += [(1 << (size - 2)) + (1 << (size - 13)) + d for d in (-1, 0, 1)]  # between two of 11 digits
        numbers = [(n - low) % (1 << size) + low for n in numbers]
        x = np.array(numbers, dtype(kind))
        for mode in ("rn", "rz", "rm", "rp") if target in DTYPES else ("rn", "rz"):
            want = [rounded(Fraction(n), FORMATS[target], mode) for n in numbers]
            cases.append(case(f"cvt.{mode}.{target}.{kind} d, a;", (x,), bits_of(np.array(want), target)))
    check(cases)


def test_integers_to_integers() -> None:
    cases = []
    for source in INTEGERS:
        low, high = limits(source)
        x = np.array([low, low + 1, -1 if low else 1, 0, 1, 100, 127, 128 if high > 127 else 5, high, high - 1,
                      min(high, 255), min(high, 256), min(high, 32768), min(high, 65536)], dtype(source))  # fmt: skip
        for target in INTEGERS:
            a, b = limits(target)
            cases += [
                case(f"cvt.{target}.{source} d, a;", (x,), x.astype(dtype(target))),
                case(f"cvt.sat.{target}.{source} d, a;", (x,), per_element(
                    lambda v, a=a, b=b: min(max(v, a), b), dtype(target))),
            ]  # fmt: skip
    check(cases)


def test_packed_bytes() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.integers(-400, 400, (2, 200)).astype("i4")
    c = rng.integers(0, 1 << 32, 200, np.uint64).astype("u4")
    s, t = (np.clip(x, -128, 127).astype("i1").view("u1").astype("u4") for x in (a, b))
    u, v = (np.clip(x, 0, 255).astype("u4") for x in (a, b))
    w, z = (np.clip(x * 200, -32768, 32767).astype("i2").view("u2").astype("u4") for x in (a, b))
    check(
        [
            case("cvt.pack.sat.s8.s32.b32 d, a, b, c;", (a, b, c), c << 16 | s << 8 | t),
            case("cvt.pack.sat.u8.s32.b32 d, a, b, c;", (a, b, c), c << 16 | u << 8 | v),
            case("cvt.pack.sat.s16.s32 d, a, b;", (a * 200, b * 200), w << 16 | z),
        ]
    )
