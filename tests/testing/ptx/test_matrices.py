"""Products of matrices by warps, against NumPy's; the places of elements are those of the manual's figures."""

from __future__ import annotations

import numpy as np
import pytest

from tenkey.testing import ptx
from tests.testing.ptx._exact import bf16_bits, bf16_values
from tests.testing.ptx._instructions import HEAD, entry

RNG = np.random.default_rng(0)


def fragment_a(k_bits: int, rows: int, depth: int) -> list[list[list[tuple[int, int]]]]:
    """Which element (row, k) each piece of each register of each lane holds: the manual's formulas for each shape."""
    lanes = []
    for lane in range(32):
        group, t = lane >> 2, lane % 4
        if k_bits == 16:  # a0..a7: rows by (i & 2), columns by (i >= 4) * 8
            count = rows * depth // 32
            places = [(group + (8 if i & 2 else 0), t * 2 + (i & 1) + (8 if i >= 4 else 0)) for i in range(count)]
            lanes.append([places[n : n + 2] for n in range(0, count, 2)])
        elif k_bits == 8:
            count = rows * depth // 32
            if rows == 8:
                places = [(group, t * 4 + i) for i in range(count)]
            else:
                places = [
                    (group + (8 if i // 4 % 2 else 0), t * 4 + (i & 3) + (16 if i >= 8 else 0)) for i in range(count)
                ]
            lanes.append([places[n : n + 4] for n in range(0, count, 4)])
        else:
            count = rows * depth // 32
            if rows == 8:
                places = [(group, t)]
            else:
                places = [(group + (8 if i % 2 else 0), t + 4 * (i // 2)) for i in range(count)]
            lanes.append([[place] for place in places])
    return lanes


def fragment_b(k_bits: int, depth: int) -> list[list[list[tuple[int, int]]]]:
    lanes = []
    for lane in range(32):
        group, t = lane >> 2, lane % 4
        pieces = max(1, 32 // k_bits)
        count = depth * 8 // 32
        places = [(t * pieces + i % pieces + 4 * pieces * (i // pieces), group) for i in range(count)]
        lanes.append([places[n : n + pieces] for n in range(0, count, pieces)])
    return lanes


def fragment_c(rows: int) -> list[list[tuple[int, int]]]:
    return [
        [((lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)) for i in range(4 if rows == 16 else 2)]
        for lane in range(32)
    ]


def packed(matrix: np.ndarray, places: list[list[list[tuple[int, int]]]]) -> np.ndarray:
    """Return the registers of all lanes, from a matrix of unsigned integers."""
    word = "u8" if matrix.itemsize == 8 else "u4"
    return np.array([[np.array([matrix[p] for p in register]).view(word)[0] for register in lane] for lane in places])


def run(
    shape: tuple[int, int, int], kinds: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, extra: str = ""
) -> np.ndarray:
    """Run one ``mma`` and return D; a, b and c are matrices of the bits."""
    rows, _, depth = shape
    result, ka, _, kc = kinds.split(".")
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8}[ka]
    ra, rb = packed(a, fragment_a(bits, rows, depth)), packed(b, fragment_b(bits, depth))
    places = fragment_c(rows)
    rc = np.array([[c[p] for p in lane] for lane in places])
    if kc == "f16":
        rc = rc.view("u4")
    size = {"f64": 8}.get(result, 4)
    kind = "b64" if result == "f64" else "b32"
    wide = "b64" if bits == 64 else "b32"
    nd = rc.shape[1] if result != "f16" else len(places[0]) // 2
    step = 8 if bits == 64 else 4
    lines = [f".reg .{wide} a<{ra.shape[1]}>, b<{rb.shape[1]}>;", f".reg .{kind} c<{rc.shape[1]}>, d<{nd}>;",
             ".reg .b64 p<5>;", ".reg .b32 t;", "mov.u32 t, %tid.x;"]  # fmt: skip
    operands = ("a", ra.shape[1], step), ("b", rb.shape[1], step), ("c", rc.shape[1], size), ("d", nd, size)
    for k, (name, count, width) in enumerate(operands):
        lines += [f"ld.param.u64 p{k}, [q{k}];", f"mad.wide.u32 p{k}, t, {count * width}, p{k};"]
        if name != "d":
            lines += [f"ld.global.b{8 * width} {name}{n}, [p{k}+{n * width}];" for n in range(count)]
    list_ = lambda name, n: "{" + ", ".join(f"{name}{k}" for k in range(n)) + "}"  # noqa: E731
    lines.append(f"mma.sync.aligned.m{rows}n8k{depth}.row.col{extra}.{kinds} {list_('d', nd)}, "
                 f"{list_('a', ra.shape[1])}, {list_('b', rb.shape[1])}, {list_('c', rc.shape[1])};")  # fmt: skip
    lines += [f"st.global.b{8 * size} [p3+{n * size}], d{n};" for n in range(nd)]
    out = np.zeros((32, nd), f"u{size}")
    text = HEAD + entry("k", ", ".join(f".param .u64 q{k}" for k in range(4)), "\n".join(lines))
    module = ptx.Module(text, optimized=False)
    for order in ("up", "down", "random"):
        module.kernel("k").launch(1, 32, [ra, rb, rc, out], order=order)
    if result == "f16":
        out = out.view("u2")
    d = np.zeros((rows, 8), out.dtype)
    for lane, held in enumerate(places):
        for n, place in enumerate(held):
            d[place] = out[lane, n]
    return d


@pytest.mark.parametrize("depth", [8, 16])
def test_half_precision(depth: int) -> None:
    a, b = (RNG.standard_normal(s).astype("f2") for s in ((16, depth), (depth, 8)))
    c = RNG.standard_normal((16, 8)).astype("f4")
    want = (a.astype("f8") @ b.astype("f8") + c).astype("f4")
    got = run((16, 8, depth), "f32.f16.f16.f32", a.view("u2"), b.view("u2"), c.view("u4")).view("f4")
    np.testing.assert_allclose(got, want, rtol=1e-6)
    c = c.astype("f2")
    got = run((16, 8, depth), "f16.f16.f16.f16", a.view("u2"), b.view("u2"), c.view("u2")).view("f2")
    np.testing.assert_allclose(got, a.astype("f8") @ b.astype("f8") + c, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("depth", [8, 16])
def test_bfloat16(depth: int) -> None:
    a, b = (bf16_bits(RNG.standard_normal(s)) for s in ((16, depth), (depth, 8)))
    c = RNG.standard_normal((16, 8)).astype("f4")
    got = run((16, 8, depth), "f32.bf16.bf16.f32", a, b, c.view("u4")).view("f4")
    np.testing.assert_allclose(got, bf16_values(a).astype("f8") @ bf16_values(b) + c, rtol=1e-6)


@pytest.mark.parametrize("depth", [4, 8])
def test_tf32(depth: int) -> None:
    a, b = (RNG.standard_normal(s).astype("f4") for s in ((16, depth), (depth, 8)))
    c = RNG.standard_normal((16, 8)).astype("f4")
    got = run((16, 8, depth), "f32.tf32.tf32.f32", a.view("u4"), b.view("u4"), c.view("u4")).view("f4")
    cut = [(x.view("u4") & 0xFFFFE000).view("f4").astype("f8") for x in (a, b)]
    np.testing.assert_allclose(got, cut[0] @ cut[1] + c, rtol=1e-6)
    assert not np.allclose(got, a.astype("f8") @ b + c, rtol=1e-6)  # the lower bits are not read


@pytest.mark.parametrize("shape", [(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)])
def test_double_precision(shape: tuple[int, int, int]) -> None:
    rows, _, depth = shape
    a, b, c = (RNG.standard_normal(s) for s in ((rows, depth), (depth, 8), (rows, 8)))
    got = run(shape, "f64.f64.f64.f64", a.view("u8"), b.view("u8"), c.view("u8")).view("f8")
    np.testing.assert_allclose(got, a @ b + c, rtol=1e-13)


@pytest.mark.parametrize("shape", [(8, 8, 16), (16, 8, 16), (16, 8, 32)])
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_bytes(shape: tuple[int, int, int], kind: str) -> None:
    rows, _, depth = shape
    dtype = "i1" if kind == "s8" else "u1"
    a, b = (RNG.integers(0, 256, s).astype("u1").view(dtype) for s in ((rows, depth), (depth, 8)))
    c = RNG.integers(-(1 << 31), 1 << 31, (rows, 8)).astype("i4")
    want = a.astype("i8") @ b.astype("i8") + c
    got = run(shape, f"s32.{kind}.{kind}.s32", a.view("u1"), b.view("u1"), c.view("u4")).view("i4")
    assert np.array_equal(got, want.astype("i4"))
    got = run(shape, f"s32.{kind}.{kind}.s32", a.view("u1"), b.view("u1"), c.view("u4"), ".satfinite").view("i4")
    assert np.array_equal(got, np.clip(want, -(1 << 31), (1 << 31) - 1))


def loads(trans: str, count: int) -> np.ndarray:
    """Load ``count`` matrices of 8 x 8 halves with ``ldmatrix``, and return the registers of each lane."""
    regs = "{" + ", ".join(f"d{n}" for n in range(count)) + "}"
    body = f"""
    .shared .align 16 .b8 tile[{count * 128}];
    .reg .b32 t, v, row, at, d<4>;
    .reg .b64 p<5>;
    .reg .pred q;
    mov.u32 t, %tid.x;
    ld.param.u64 p0, [in];
    ld.param.u64 p1, [out];
    mov.u32 v, 0;
    $fill:
    add.u32 row, v, t;
    mad.wide.u32 p2, row, 4, p0;
    ld.global.u32 at, [p2];
    mad.lo.u32 row, row, 4, tile;
    st.shared.u32 [row], at;
    add.u32 v, v, 32;
    setp.lt.u32 q, v, {count * 32};
    @q bra $fill;
    bar.sync 0;
    mov.u32 at, tile;
    and.b32 v, t, {8 * count - 1};
    mad.lo.u32 at, v, 16, at;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {regs}, [at];
    mad.wide.u32 p3, t, {4 * count}, p1;
    """ + "\n".join(f"st.global.u32 [p3+{4 * n}], d{n};" for n in range(count))
    data = np.arange(count * 64, dtype="u2") * 7
    out = np.zeros((32, count), "u4")
    module = ptx.Module(HEAD + entry("k", ".param .u64 in, .param .u64 out", body), optimized=False)
    module.kernel("k").launch(1, 32, [data, out])
    return out


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrices_are_loaded(trans: str, count: int) -> None:
    tiles = (np.arange(count * 64, dtype="u2") * 7).reshape(count, 8, 8)
    if trans:
        tiles = tiles.transpose(0, 2, 1)
    want = tiles.copy().view("u4").reshape(count, 32).T  # lane 4 * row + column pair
    assert np.array_equal(loads(trans, count), want)


def test_matrices_are_stored() -> None:
    body = """
    .shared .align 16 .b8 tile[256];
    .reg .b32 t, v, at, d<2>;
    .reg .b64 p0, p1;
    mov.u32 t, %tid.x;
    mul.lo.u32 d0, t, 3;
    add.u32 d1, d0, 1000;
    mov.u32 at, tile;
    and.b32 v, t, 15;
    mad.lo.u32 v, v, 16, at;
    stmatrix.sync.aligned.m8n8.x2.shared.b16 [v], {d0, d1};
    mad.lo.u32 at, t, 8, at;
    ld.param.u64 p0, [out];
    mad.wide.u32 p0, t, 8, p0;
    ld.shared.b64 p1, [at];
    st.global.b64 [p0], p1;
    """
    out = np.zeros(64, "u4")
    ptx.Module(HEAD + entry("k", ".param .u64 out", body)).kernel().launch(1, 32, [out])
    assert np.array_equal(out, np.concatenate([np.arange(32) * 3, np.arange(32) * 3 + 1000]))
