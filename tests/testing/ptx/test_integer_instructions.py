"""Integer arithmetic and logic against the definitions of the PTX ISA manual, written with Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.testing.ptx._instructions import case, check, per_element

U, S = ("u16", "u32", "u64"), ("s16", "s32", "s64")
EDGES = {
    16: [0, 1, 2, 3, 7, 100, 255, 256, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFF00, 0xFFFE, 0xFFFF],
    32: [0, 1, 2, 5, 31, 32, 0xFFFF, 0x10000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF, 0xFFFFFFFF],
    64: [
        0,
        1,
        3,
        63,
        64,
        0xFFFFFFFF,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        0x0123456789ABCDEF,
        (1 << 64) - 1,
    ],
}


def dtype(name: str) -> np.dtype:
    return np.dtype(("i" if name[0] == "s" else "u") + str(int(name[1:]) // 8))


def values(name: str, seed: int = 0) -> np.ndarray:
    bits = int(name[1:])
    rng = np.random.default_rng([seed, bits])
    more = [int.from_bytes(rng.bytes(bits // 8), "little") >> int(rng.integers(0, bits)) for _ in range(10)]
    return np.array(EDGES[bits] + more, f"u{bits // 8}").view(dtype(name))


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    a = values(name)
    x, y = np.meshgrid(a, a)
    return x.ravel()[:1000].copy(), y.ravel()[:1000].copy()


def wrapped(name: str, function):
    bits = int(name[1:])

    def one(*xs: int) -> int:
        value = function(*xs) & ((1 << bits) - 1)
        return value - (1 << bits) if name[0] == "s" and value >> (bits - 1) else value

    return per_element(one, dtype(name))


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


@pytest.mark.parametrize("kind", [*U, *S])
def test_sums_products_and_quotients(kind: str) -> None:
    bits = int(kind[1:])
    x, y = pairs(kind)
    z = np.roll(x, 7)
    cases = [
        case(f"add.{kind} d, a, b;", (x, y), wrapped(kind, lambda a, b: a + b)),
        case(f"sub.{kind} d, a, b;", (x, y), wrapped(kind, lambda a, b: a - b)),
        case(f"mul.lo.{kind} d, a, b;", (x, y), wrapped(kind, lambda a, b: a * b)),
        case(f"mul.hi.{kind} d, a, b;", (x, y), wrapped(kind, lambda a, b: a * b >> bits)),
        case(f"mad.lo.{kind} d, a, b, c;", (x, y, z), wrapped(kind, lambda a, b, c: a * b + c)),
        case(f"mad.hi.{kind} d, a, b, c;", (x, y, z), wrapped(kind, lambda a, b, c: (a * b >> bits) + c)),
        case(f"div.{kind} d, a, b;", (x, y), wrapped(kind, quotient)),
        case(f"rem.{kind} d, a, b;", (x, y), wrapped(kind, remainder)),
        case(f"min.{kind} d, a, b;", (x, y), np.minimum),
        case(f"max.{kind} d, a, b;", (x, y), np.maximum),
        case(f"sad.{kind} d, a, b, c;", (x, y, z), wrapped(kind, lambda a, b, c: c + abs(a - b))),
    ]
    if kind[0] == "s":
        cases += [
            case(f"abs.{kind} d, a;", (x,), wrapped(kind, abs)),
            case(f"neg.{kind} d, a;", (x,), wrapped(kind, lambda a: -a)),
        ]
    if bits < 64:
        wide = kind[0] + str(2 * bits)
        w = np.resize(values(wide), x.shape)
        cases += [
            case(f"mul.wide.{kind} d, a, b;", (x, y), wrapped(wide, lambda a, b: a * b).__call__(x, y)),
            case(f"mad.wide.{kind} d, a, b, c;", (x, y, w), wrapped(wide, lambda a, b, c: a * b + c)),
        ]
    check(cases)


def test_saturated_sums_and_24_bits() -> None:
    x, y = pairs("s32")
    z = np.roll(x, 5)
    limits = -(1 << 31), (1 << 31) - 1

    def limited(v: int) -> int:
        return min(max(v, limits[0]), limits[1])

    def low24(a: int) -> int:
        a &= 0xFFFFFF
        return a - (1 << 24) if a >> 23 else a

    check(
        [
            case("add.sat.s32 d, a, b;", (x, y), wrapped("s32", lambda a, b: limited(a + b))),
            case("sub.sat.s32 d, a, b;", (x, y), wrapped("s32", lambda a, b: limited(a - b))),
            case("mad.hi.sat.s32 d, a, b, c;", (x, y, z), wrapped("s32", lambda a, b, c: limited((a * b >> 32) + c))),
            case("mul24.lo.s32 d, a, b;", (x, y), wrapped("s32", lambda a, b: low24(a) * low24(b))),
            case("mul24.hi.s32 d, a, b;", (x, y), wrapped("s32", lambda a, b: low24(a) * low24(b) >> 16)),
            case("mad24.lo.s32 d, a, b, c;", (x, y, z), wrapped("s32", lambda a, b, c: low24(a) * low24(b) + c)),
        ]
    )


def test_carries() -> None:
    a, b = pairs("u32")
    c, e = np.roll(a, 3), np.roll(b, 11)
    whole = lambda low, high: low.astype(object) + (high.astype(object) << 32)  # noqa: E731

    def halves(total, keep=64):
        total = [t & ((1 << 64) - 1) for t in total]
        return np.array([t & 0xFFFFFFFF for t in total], "u4"), np.array([t >> 32 for t in total], "u4")

    x, y = whole(a, b), whole(c, e)
    check([
        case("add.cc.u32 d0, a, c;\naddc.u32 d1, b, e;", (a, b, c, e), halves(x + y)),
        case("sub.cc.u32 d0, a, c;\nsubc.u32 d1, b, e;", (a, b, c, e), halves(x - y)),
        case("add.cc.u32 d0, a, c;\naddc.cc.u32 t, b, e;\naddc.u32 d1, 0, 0;", (a, b, c, e),
             (halves(x + y)[0], np.array([t >> 64 for t in x + y], "u4"))),
        case("sub.cc.u32 d0, a, c;\nsubc.cc.u32 t, b, e;\nsubc.u32 d1, 0, 0;", (a, b, c, e),
             (halves(x - y)[0], np.array([(t >> 64) & 0xFFFFFFFF for t in x - y], "u4"))),
        case("mad.lo.cc.u32 d0, a, b, c;\nmadc.hi.u32 d1, a, b, e;", (a, b, c, e),
             halves(a.astype(object) * b.astype(object) + y)),
    ])  # fmt: skip
    p, q = pairs("u64")
    r, s = np.roll(p, 3), np.roll(q, 5)
    total = p.astype(object) + (q.astype(object) << 64) + r.astype(object) + (s.astype(object) << 64)
    less = p.astype(object) + (q.astype(object) << 64) - r.astype(object) - (s.astype(object) << 64)
    mask = (1 << 64) - 1
    check([
        case("add.cc.u64 d0, a, c;\naddc.u64 d1, b, e;", (p, q, r, s),
             (np.array([t & mask for t in total], "u8"), np.array([t >> 64 & mask for t in total], "u8"))),
        case("sub.cc.s64 d0, a, c;\nsubc.s64 d1, b, e;", (p, q, r, s),
             (np.array([t & mask for t in less], "u8"), np.array([t >> 64 & mask for t in less], "u8"))),
    ])  # fmt: skip


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits: int) -> None:
    u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"
    x, y = pairs(u)
    signed = x.view(dtype(s))
    n = np.resize(np.array([0, 1, 2, 7, 15, 16, 31, 32, 33, 63, 64, 65, 255, 0x80000000, 0xFFFFFFFF], "u4"), x.shape)
    cases = [
        case(f"and.{b} d, a, b;", (x, y), x & y),
        case(f"or.{b} d, a, b;", (x, y), x | y),
        case(f"xor.{b} d, a, b;", (x, y), x ^ y),
        case(f"not.{b} d, a;", (x,), ~x),
        case(f"cnot.{b} d, a;", (x,), (x == 0).astype(x.dtype)),
        case(f"shl.{b} d, a, b;", (x, n), wrapped(u, lambda a, k: a << min(k, bits))),
        case(f"shr.{u} d, a, b;", (x, n), wrapped(u, lambda a, k: a >> min(k, bits))),
        case(f"shr.{s} d, a, b;", (signed, n), wrapped(s, lambda a, k: a >> min(k, bits))),
    ]
    if bits > 16:
        find = per_element(lambda a: a.bit_length() - 1 if a else 0xFFFFFFFF, "u4")
        cases += [
            case(f"popc.{b} d, a;", (x,), per_element(lambda a: a.bit_count(), "u4")),
            case(f"clz.{b} d, a;", (x,), per_element(lambda a: bits - a.bit_length(), "u4")),
            case(f"brev.{b} d, a;", (x,), per_element(lambda a: int(f"{a:0{bits}b}"[::-1], 2), x.dtype)),
            case(f"bfind.{u} d, a;", (x,), find),
            case(f"bfind.{s} d, a;", (signed,), per_element(
                lambda a: (a if a >= 0 else ~a).bit_length() - 1 if a not in {0, -1} else 0xFFFFFFFF, "u4")),
            case(f"bfind.shiftamt.{u} d, a;", (x,), per_element(
                lambda a: bits - a.bit_length() if a else 0xFFFFFFFF, "u4")),
        ]  # fmt: skip
    check(cases)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_fields(kind: str) -> None:
    """The pseudocode of the manual, one bit at a time."""
    bits = int(kind[1:])
    rng = np.random.default_rng(3)
    a = np.resize(values(kind), 600)
    at = np.resize(rng.integers(0, 70, 200).astype("u4"), 600)
    length = np.resize(
        np.concatenate([rng.integers(0, 70, 190), [0, 1, 64, 65, 255, 256, 300, 31, 32, 33]]), 600
    ).astype("u4")

    def bfe(x: int, pos: int, n: int) -> int:
        x &= (1 << bits) - 1
        pos, n, msb = pos & 0xFF, n & 0xFF, bits - 1
        sbit = 0 if kind[0] == "u" or n == 0 else (x >> min(pos + n - 1, msb)) & 1
        result = 0
        for k in range(bits):
            bit = (x >> (pos + k)) & 1 if k < n and pos + k <= msb else sbit
            result |= bit << k
        return result

    def bfi(x: int, y: int, pos: int, n: int) -> int:
        pos, n, msb, result = pos & 0xFF, n & 0xFF, bits - 1, y
        for k in range(n):
            if pos + k <= msb:
                result = result & ~(1 << (pos + k)) | ((x >> k) & 1) << (pos + k)
        return result

    cases = [case(f"bfe.{kind} d, a, b, c;", (a, at, length), wrapped(kind, bfe))]
    if kind[0] == "u":
        cases.append(case(f"bfi.b{bits} d, a, b, c, e;", (a, np.roll(a, 9), at, length), wrapped(kind, bfi)))
    check(cases)


def test_funnels_bytes_and_tables() -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.integers(0, 1 << 32, (3, 500), np.uint64).astype("u4")
    n = rng.integers(0, 80, 500).astype("u4")

    def prmt(x: int, y: int, s: int) -> int:
        both = (x | y << 32).to_bytes(8, "little")
        out = []
        for k in range(4):
            choice = s >> (4 * k) & 15
            byte = both[choice & 7]
            out.append((0xFF if byte & 0x80 else 0) if choice & 8 else byte)
        return int.from_bytes(bytes(out), "little")

    modes = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }

    def named(table):
        def one(x: int, y: int, s: int) -> int:
            both = (x | y << 32).to_bytes(8, "little")
            return int.from_bytes(bytes(both[k] for k in table[s & 3]), "little")

        return one

    lut = {t: per_element(lambda x, y, z, t=t: sum(
        (t >> ((x >> k & 1) << 2 | (y >> k & 1) << 1 | (z >> k & 1)) & 1) << k for k in range(32)), "u4")
        for t in (0x00, 0x80, 0x96, 0xE8, 0xCA, 0xFE, 0x1B, 0xFF)}  # fmt: skip
    u32 = lambda f: wrapped("u32", f)  # noqa: E731
    nth = np.resize(np.arange(-9, 10), 500).astype("i4")
    check([
        case("shf.l.wrap.b32 d, a, b, c;", (a, b, n), u32(lambda x, y, k: (y << 32 | x) << (k & 31) >> 32)),
        case("shf.r.wrap.b32 d, a, b, c;", (a, b, n), u32(lambda x, y, k: (y << 32 | x) >> (k & 31))),
        case("shf.l.clamp.b32 d, a, b, c;", (a, b, n), u32(lambda x, y, k: (y << 32 | x) << min(k, 32) >> 32)),
        case("shf.r.clamp.b32 d, a, b, c;", (a, b, n), u32(lambda x, y, k: (y << 32 | x) >> min(k, 32))),
        case("prmt.b32 d, a, b, c;", (a, b, c), per_element(prmt, "u4")),
        *[case(f"prmt.b32.{m} d, a, b, c;", (a, b, c), per_element(named(t), "u4")) for m, t in modes.items()],
        *[case(f"lop3.b32 d, a, b, c, {t};", (a, b, c), f) for t, f in lut.items()],
        case("bmsk.clamp.b32 d, a, b;", (n, np.roll(n, 3)), u32(lambda p, k: ((1 << min(k, 32)) - 1) << min(p, 32))),
        case("bmsk.wrap.b32 d, a, b;", (n, np.roll(n, 3)), u32(lambda p, k: ((1 << (k & 31)) - 1) << (p & 31))),
        case("szext.wrap.u32 d, a, b;", (a, n), u32(lambda x, k: x & ((1 << (k & 31)) - 1))),
        case("fns.b32 d, a, b, c;", (a, n & 31, nth), per_element(fns, "u4")),
    ])  # fmt: skip


def fns(mask: int, base: int, offset: int) -> int:
    """The pseudocode of the manual."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    pos, count, inc = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= pos < 32:
        if mask >> pos & 1:
            if count == 0:
                return pos
            count -= 1
        pos += inc
    return 0xFFFFFFFF


def test_tables_with_a_predicate() -> None:
    a, b = np.array([0, 6, 0, 6], "u4"), np.array([0, 0, 1, 1], "u4")
    for word, want in (("or", [0, 1, 1, 1]), ("and", [0, 0, 0, 1])):
        code = f"setp.ne.u32 q, b, 0;\nlop3.{word}.b32 t|p, a, a, a, 0x80, q;\nselp.u32 d, 1, 0, p;"
        check([case(code, (a, b), np.array(want, "u4"))])


def test_dot_products() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 1 << 32, (2, 300), np.uint64).astype("u4")
    c = rng.integers(-(1 << 31), 1 << 31, 300).astype("i4")

    def piece(x: int, at: int, bits: int, signed: bool) -> int:
        x = x >> at & ((1 << bits) - 1)
        return x - (1 << bits) if signed and x >> (bits - 1) else x

    def dp4a(sa: bool, sb: bool):
        return lambda x, y, z: z + sum(piece(x, 8 * k, 8, sa) * piece(y, 8 * k, 8, sb) for k in range(4))

    def dp2a(shift: int, sa: bool, sb: bool):
        return lambda x, y, z: z + sum(piece(x, 16 * k, 16, sa) * piece(y, 8 * k + shift, 8, sb) for k in range(2))

    kinds = [("s32", True), ("u32", False)]
    cases = []
    for ta, sa in kinds:
        for tb, sb in kinds:
            out = "s32" if sa or sb else "u32"
            cases.append(case(f"dp4a.{ta}.{tb} d, a, b, c;", (a, b, c), wrapped(out, dp4a(sa, sb))))
            cases.append(case(f"dp2a.lo.{ta}.{tb} d, a, b, c;", (a, b, c), wrapped(out, dp2a(0, sa, sb))))
            cases.append(case(f"dp2a.hi.{ta}.{tb} d, a, b, c;", (a, b, c), wrapped(out, dp2a(16, sa, sb))))
    check(cases)


@pytest.mark.parametrize("kind", [*U, *S])
def test_comparisons(kind: str) -> None:
    x, y = pairs(kind)
    p = np.resize(np.array([0, 1], "u4"), x.shape)
    table = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    if kind[0] == "u":
        table |= {"lo": x < y, "ls": x <= y, "hi": x > y, "hs": x >= y}
    cases = [
        case(f"setp.{word}.{kind} p|q, a, b;\nselp.u32 d0, 1, 0, p;\nselp.u32 d1, 1, 0, q;", (x, y),
             (want.astype("u4"), (~want).astype("u4")))
        for word, want in table.items()
    ]  # fmt: skip
    both = "selp.u32 d0, 1, 0, p;\nselp.u32 d1, 1, 0, q;"
    for word, combine in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        code = f"setp.ne.u32 r, c, 0;\nsetp.lt.{word}.{kind} p|q, a, b, r;\n{both}"
        want = combine(x < y, p).astype("u4"), combine(x >= y, p).astype("u4")
        cases.append(case(code, (x, y, p), want))
    cases += [
        case(f"setp.ne.u32 r, c, 0;\nsetp.gt.and.{kind} p, a, b, !r;\nselp.u32 d, 1, 0, p;", (x, y, p),
             ((x > y) & (p == 0)).astype("u4")),
        case(f"set.ge.u32.{kind} d, a, b;", (x, y), np.where(x >= y, 0xFFFFFFFF, 0).astype("u4")),
        case(f"set.le.f32.{kind} d, a, b;", (x, y), (x <= y).astype("f4")),
        case(f"setp.lt.{kind} p, a, b;\nselp.{kind} d, a, b, p;", (x, y), np.minimum),
        case(f"slct.{kind}.s32 d, a, b, c;", (x, y, p.astype("i4") - 1), np.where(p.astype("i4") - 1 >= 0, x, y)),
    ]  # fmt: skip
    check(cases)


def test_packed_integers() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 1 << 32, (2, 400), np.uint64).astype("u4")
    x, y = a.view("u2"), b.view("u2")
    s, t = a.view("i2"), b.view("i2")
    check(
        [
            case("add.u16x2 d, a, b;", (a, b), (x + y).view("u4")),
            case("min.u16x2 d, a, b;", (a, b), np.minimum(x, y).view("u4")),
            case("max.s16x2 d, a, b;", (a, b), np.maximum(s, t).view("u4")),
            case("min.relu.s16x2 d, a, b;", (a, b), np.maximum(np.minimum(s, t), 0).view("u4")),
            case(
                "mov.b32 {h0, h1}, a;\nmov.b32 d, {h1, h0};", (a,), x.reshape(-1, 2)[:, ::-1].copy().view("u4").ravel()
            ),
        ]
    )


def test_the_comparison_rejects() -> None:
    x, y = pairs("u32")
    with pytest.raises(AssertionError, match=r"2 of 3 cases fail(.|\n)*add\.u32(.|\n)*abs"):
        check(
            [
                case("add.u32 d, a, b;", (x, y), x - y),
                case("sub.u32 d, a, b;", (x, y), x - y),
                case("abs.s32 d, a;", (x.view("i4"),), x.view("i4")),
            ]
        )
