"""Loads, stores, addresses and atomic operations of every width, and what may be accessed."""

from __future__ import annotations

import numpy as np
import pytest

from tenkey.testing import ptx
from tests.testing.ptx._exact import bf16_bits, bf16_values
from tests.testing.ptx._instructions import HEAD, case, check, entry, kernel

TID = ".reg .b32 t, a, b, c, d;\n.reg .b16 h<4>;\n.reg .b64 x, y, z, w;\n.reg .pred p;\nmov.u32 t, %tid.x;\n"


SIZES = {"b8": 1, "u16": 2, "b32": 4, "f32": 4, "u64": 8, "f64": 8}


@pytest.mark.parametrize(("kind", "count"), [(k, n) for k in SIZES for n in (1, 2, 4) if SIZES[k] * n <= 16])
def test_vectors(kind: str, count: int) -> None:
    size = SIZES[kind]
    registers = ", ".join(f"v{k}" for k in range(count))
    back = ", ".join(f"v{k}" for k in reversed(range(count)))
    vector = "" if count == 1 else f".v{count}"
    list_ = (lambda names: names) if count == 1 else lambda names: "{" + names + "}"
    body = (
        TID
        + f"""
    .reg .b{max(16, 8 * size)} v<4>;
    ld.param.u64 x, [in];
    ld.param.u64 y, [out];
    mad.wide.u32 x, t, {size * count}, x;
    mad.wide.u32 y, t, {size * count}, y;
    ld.global.nc{vector}.{kind} {list_(registers)}, [x];
    st.global.cs{vector}.{kind} [y], {list_(back)};
    """
    )
    data = np.random.default_rng(0).integers(0, 256, (32, count, size)).astype("u1")
    out = np.zeros_like(data)
    kernel(".param .u64 in, .param .u64 out", body).launch(1, 32, [data, out])
    assert np.array_equal(out, data[:, ::-1])


def test_loads_extend_to_wider_registers() -> None:
    x = np.arange(-8, 8, dtype="i1") * 16
    check(
        [
            case("cvt.s32.s8 t, a;\nmov.b32 d, t;", (x,), x.astype("i4")),
            case("cvt.u32.u8 t, a;\nmov.b32 d, t;", (x,), x.view("u1").astype("u4")),
        ]
    )
    body = (
        TID
        + """
    ld.param.u64 x, [in];
    ld.param.u64 y, [out];
    cvt.u64.u32 z, t;
    add.u64 x, x, z;
    mad.wide.u32 y, t, 8, y;
    ld.global.s8 w, [x];
    st.global.u64 [y], w;
    """
    )
    out = np.zeros(16, "i8")
    kernel(".param .u64 in, .param .u64 out", body).launch(1, 16, [x, out])
    assert np.array_equal(out, x)


def test_every_kind_of_parameter() -> None:
    body = (
        TID
        + """
    .reg .f64 f, g;
    .reg .f32 s;
    ld.param.u64 x, [out];
    ld.param.s8 a, [i8];
    st.global.s32 [x], a;
    ld.param.u16 a, [u16];
    st.global.u32 [x+4], a;
    ld.param.f64 f, [f64];
    st.global.f64 [x+8], f;
    ld.param.f32 s, [f32];
    st.global.f32 [x+16], s;
    ld.param.v2.u32 {a, b}, [block+8];
    st.global.v2.u32 [x+24], {b, a};
    mov.b64 y, block;
    ld.param.u32 c, [y+4];
    st.global.u32 [x+20], c;
    """
    )
    parameters = ".param .u8 i8, .param .u16 u16, .param .f64 f64, .param .f32 f32, "
    parameters += ".param .align 8 .b8 block[16], .param .u64 out"
    k = kernel(parameters, body)
    out = np.zeros(8, "u4")
    block = np.array([1, 2, 3, 4], "u4").tobytes()
    k.launch(1, 1, [-5, 65535, 2.5, np.float32(0.5), block, out])
    assert out[0] == 0xFFFFFFFB
    assert out[1] == 65535
    assert out[2:4].view("f8")[0] == 2.5
    assert out[4:5].view("f4")[0] == 0.5
    assert out[5:].tolist() == [2, 4, 3]
    packed = np.zeros(48, "u1")
    packed[0], packed[2:4].view("u2")[:], packed[8:16].view("f8")[:] = 0xFB, 65535, 2.5
    packed[16:20].view("f4")[:], packed[24:40] = 0.5, np.frombuffer(block, "u1")
    packed[40:].view("u8")[:] = out.ctypes.data
    before, out[:] = out.copy(), 0
    table = np.array([[out.ctypes.data, out.ctypes.data + out.nbytes]], np.int64)
    k.launch(1, 1, packed.tobytes(), memory=table)
    assert np.array_equal(out, before)


def test_variables_of_the_module() -> None:
    head = """
    .global .align 4 .u32 counts[4] = {1, 2, 3};
    .const .align 8 .f64 table[2] = {0d3FF0000000000000, 2.5};
    .global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};
    .global .align 8 .u64 pointers[2] = {counts, generic(counts)+4};
    """
    body = (
        TID
        + """
    ld.param.u64 x, [out];
    ld.global.u32 a, [counts+8];
    st.global.u32 [x], a;
    ld.const.f64 y, [table+8];
    st.global.f64 [x+8], y;
    mov.u64 z, text;
    ld.global.u8 b, [z+4];
    st.global.u32 [x+4], b;
    ld.global.u64 z, [pointers+8];
    ld.global.u32 c, [z];
    st.global.u32 [x+16], c;
    st.global.u32 [z], 77;
    ld.const.f64 y, [table];
    st.global.f64 [x+24], y;
    """
    )
    k = kernel(".param .u64 out", body, head=head)
    out = np.zeros(8, "u4")
    k.launch(1, 1, [out])
    assert out[[0, 1, 4]].tolist() == [3, ord("o"), 2]
    assert out[2:4].view("f8")[0] == 2.5
    assert out[6:].view("f8")[0] == 1
    k.launch(1, 1, [out])  # the variables keep what was written
    assert out[4] == 77
    address, size = k.module.variable("counts")
    assert size == 16
    import ctypes

    assert list((ctypes.c_uint32 * 4).from_address(address)) == [1, 77, 3, 0]
    with pytest.raises(KeyError, match="no variable"):
        k.module.variable("absent")


def test_spaces_and_generic_addresses() -> None:
    body = (
        TID
        + """
    .shared .align 8 .b8 s[64];
    .local .align 8 .b8 l[32];
    .reg .b64 gs, gl;
    ld.param.u64 x, [out];
    mov.u64 y, s;
    cvta.shared.u64 gs, y;
    mov.u64 z, l;
    cvta.local.u64 gl, z;
    st.u32 [gs+12], 5;
    st.u64 [gl+8], 6;
    ld.shared.u32 a, [s+12];
    st.u32 [x], a;
    ld.local.u32 b, [l+8];
    st.u32 [x+4], b;
    cvta.to.shared.u64 w, gs;
    cvt.u32.u64 c, w;
    st.u32 [x+8], c;
    isspacep.shared p, gs;
    selp.u32 a, 1, 0, p;
    isspacep.global p, gs;
    selp.u32 b, 2, 0, p;
    add.u32 a, a, b;
    isspacep.local p, gl;
    selp.u32 b, 4, 0, p;
    add.u32 a, a, b;
    isspacep.global p, x;
    selp.u32 b, 8, 0, p;
    add.u32 a, a, b;
    st.u32 [x+12], a;
    """
    )
    out = np.zeros(4, "u4")
    kernel(".param .u64 out", body).launch(1, 1, [out])
    assert out.tolist() == [5, 6, 0, 13]


def reduced(instruction: str, start: np.ndarray, values: np.ndarray, **launch: object) -> tuple[np.ndarray, np.ndarray]:
    """Apply an atomic operation of each thread's value to one element; return what it is, and what they saw before."""
    size = values.itemsize
    bits = 8 * size
    body = (
        TID
        + f"""
    .reg .b{bits} v, o;
    ld.param.u64 x, [in];
    ld.param.u64 y, [target];
    ld.param.u64 z, [seen];
    mad.wide.u32 x, t, {size}, x;
    mad.wide.u32 z, t, {size}, z;
    ld.global.b{bits} v, [x];
    {instruction}
    st.global.b{bits} [z], o;
    """
    )
    target, seen = start.copy(), np.zeros_like(values)
    kernel(".param .u64 in, .param .u64 target, .param .u64 seen", body).launch(
        1, len(values), [values, target, seen], **launch
    )
    return target, seen


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_atomic_integers(kind: str) -> None:
    dtype = np.dtype({"u": "u", "s": "i"}[kind[0]] + str(int(kind[1:]) // 8))
    rng = np.random.default_rng(0)
    values = np.frombuffer(rng.bytes(40 * dtype.itemsize), dtype)
    start = np.array([np.iinfo(dtype).max // 3], dtype)
    running = np.concatenate([start, values])
    with np.errstate(over="ignore"):
        table = {"add": np.add, "min": np.minimum, "max": np.maximum}
        for name, f in table.items():
            if name == "add" and kind == "s64":
                continue  # .u64 does it
            want = f.accumulate(running, dtype=dtype)
            got, seen = reduced(f"atom.global.{name}.{kind} o, [y], v;", start, values)
            assert got[0] == want[-1]
            assert np.array_equal(seen, want[:-1])
            assert reduced(f"red.relaxed.gpu.global.{name}.{kind} [y], v;", start, values)[0][0] == want[-1]
        if kind[0] == "u":
            for name, f in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
                want = f.accumulate(running, dtype=dtype)
                got, seen = reduced(f"atom.{name}.b{kind[1:]} o, [y], v;", start, values)
                assert got[0] == want[-1]
                assert np.array_equal(seen, want[:-1])


def test_atomic_exchange_and_counters() -> None:
    values = np.array([5, 3, 3, 9, 0, 2], "u4")
    got, seen = reduced("atom.global.exch.b32 o, [y], v;", np.array([7], "u4"), values)
    assert got[0] == 2
    assert seen.tolist() == [7, 5, 3, 3, 9, 0]
    got, seen = reduced("atom.global.cas.b32 o, [y], v, 100;", np.array([3], "u4"), values)
    assert got[0] == 100
    assert seen.tolist() == [3, 3, 100, 100, 100, 100]
    limit = np.full(9, 3, "u4")
    assert reduced("atom.global.inc.u32 o, [y], v;", np.array([0], "u4"), limit)[1].tolist() == [
        0,
        1,
        2,
        3,
        0,
        1,
        2,
        3,
        0,
    ]
    assert reduced("atom.global.dec.u32 o, [y], v;", np.array([1], "u4"), limit)[1].tolist() == [
        1,
        0,
        3,
        2,
        1,
        0,
        3,
        2,
        1,
    ]
    short = np.array([4, 6, 8], "u2")
    got, seen = reduced("atom.global.cas.b16 o, [y], v, 1;", np.array([6], "u2"), short)
    assert got[0] == 1
    assert seen.tolist() == [6, 6, 1]
    assert reduced("atom.global.exch.b64 o, [y], v;", np.array([1], "u8"), np.array([1 << 60, 2], "u8"))[0][0] == 2


def test_atomic_floats() -> None:
    rng = np.random.default_rng(2)
    for kind, dtype in (("f32", "f4"), ("f64", "f8")):
        values = rng.standard_normal(30).astype(dtype)
        want = np.array(0.5, dtype)
        for v in values:
            want = want + v
        got, _ = reduced(f"atom.global.add.{kind} o, [y], v;", np.array([0.5], dtype), values)
        assert got[0] == want
    half = rng.standard_normal(30).astype("f2")
    want = np.float16(0.5)
    for v in half:
        want = np.float16(want + v)
    assert reduced("atom.global.add.noftz.f16 o, [y], v;", np.array([0.5], "f2"), half)[0][0] == want
    pair = np.stack([half, -half], -1).copy()
    got, _ = reduced("atom.global.add.noftz.f16x2 o, [y], v;", np.array([[0.5, -0.5]], "f2").view("u4").ravel(),
                     pair.view("u4").ravel())  # fmt: skip
    assert got.view("f2").tolist() == [want, -want]
    brain = bf16_bits(rng.standard_normal(10))
    value = np.float32(0)
    for b in brain:
        value = bf16_values(_nearest(value + bf16_values(np.array([b], "u2"))[0]))[0]
    got, _ = reduced("red.global.add.noftz.bf16 [y], v;", np.zeros(1, "u2"), brain)
    assert bf16_values(got)[0] == value
    tiny = np.array([1e-40], "f4")
    assert reduced("atom.global.add.f32 o, [y], v;", np.zeros(1, "f4"), tiny)[0][0] == 0  # global: flushed


def _nearest(x: np.float32) -> np.ndarray:
    bits = np.array([x], "f4").view("u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")


def test_shared_counters_in_every_order() -> None:
    body = (
        TID
        + """
    .shared .align 4 .u32 count;
    setp.ne.u32 p, t, 0;
    @p bra $wait;
    st.shared.u32 [count], 0;
    $wait:
    bar.sync 0;
    atom.shared.add.u32 a, [count], t;
    bar.sync 0;
    ld.shared.u32 b, [count];
    ld.param.u64 x, [out];
    mad.wide.u32 x, t, 4, x;
    st.global.u32 [x], b;
    """
    )
    k = kernel(".param .u64 out", body)
    for order in ("up", "down", "random"):
        out = np.zeros(100, "u4")
        k.launch(1, 100, [out], order=order, seed=3)
        assert (out == 4950).all()


class Allocations:
    """Memory as a driver keeps it: freed blocks are known."""

    def __init__(self) -> None:
        self.live: dict[int, tuple[np.ndarray, bool]] = {}
        self.freed: list[tuple[int, int]] = []

    def allocate(self, count: int, writable: bool = True) -> np.ndarray:
        array = np.zeros(count, "u4")
        self.live[array.ctypes.data] = array, writable
        return array

    def free(self, array: np.ndarray) -> None:
        del self.live[array.ctypes.data]
        self.freed.append((array.ctypes.data, array.nbytes))

    def table(self) -> np.ndarray:
        rows = sorted((at, at + a.nbytes, int(w)) for at, (a, w) in self.live.items())
        return np.array(rows, np.int64).reshape(-1, 3)

    def describe(self, address: int) -> str | None:
        return next((f"was freed ({n} bytes)" for at, n in self.freed if at <= address < at + n), None)


def test_memory_that_was_freed() -> None:
    body = TID + "ld.param.u64 x, [at];\nst.global.u32 [x], 3;"
    k = kernel(".param .u64 at", body)
    memory = Allocations()
    block, other, constant = memory.allocate(4), memory.allocate(4), memory.allocate(4, writable=False)
    k.launch(1, 1, [int(block.ctypes.data)], memory=memory)
    assert block[0] == 3
    memory.free(block)
    with pytest.raises(ptx.KernelError, match=r"was freed \(16 bytes\)") as caught:
        k.launch(1, 1, [int(block.ctypes.data)], memory=memory)
    assert caught.value.address == block.ctypes.data
    with pytest.raises(ptx.KernelError, match="read") as caught:
        k.launch(1, 1, [int(constant.ctypes.data)], memory=memory)
    assert caught.value.kind == "read-only"
    k.launch(1, 1, [other], memory=memory)


def test_arrays_that_may_only_be_read() -> None:
    k = kernel(".param .u64 at", TID + "ld.param.u64 x, [at];\nst.global.u32 [x], 3;")
    array = np.zeros(2, "u4")
    array.flags.writeable = False
    with pytest.raises(ptx.KernelError, match="may only be read"):
        k.launch(1, 1, [array])


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (lambda k: k.launch(0, 1, [np.zeros(1)]), "grid has one to three sizes"),
        (lambda k: k.launch(1, 1025, [np.zeros(1)]), "1025 threads"),
        (lambda k: k.launch(1, 1, []), "takes 1 parameters, 0 were given"),
        (lambda k: k.launch(1, 1, b"1234"), "parameters have 8 bytes, 4"),
        (lambda k: k.launch(1, 1, [np.zeros(1)], order="sideways"), "'up', 'down' or 'random', got 'sideways'"),
        (lambda k: k.launch(1, 1, [b"12"]), "a parameter of 8 bytes"),
    ],
)
def test_launches_that_are_not_possible(launch, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launch(kernel(".param .u64 at", TID))


def test_the_largest_block_of_a_kernel() -> None:
    text = HEAD + entry("k", "", "").replace(")\n{", ")\n.maxntid 64, 1, 1\n{")
    ptx.Module(text).kernel("k").launch(1, 64)
    with pytest.raises(ValueError, match="allows 64"):
        ptx.Module(text).kernel("k").launch(1, 65)
