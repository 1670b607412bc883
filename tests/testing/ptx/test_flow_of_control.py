"""Jumps, calls, predicates, scopes, barriers, and what threads keep while they wait."""

from __future__ import annotations

import numpy as np
import pytest

from tenkey.testing import ptx
from tests.testing.ptx._instructions import HEAD, entry, kernel

TID = """
.reg .pred p, q, r;
.reg .b32 t, n, a, b, c, d;
.reg .b64 x, y, z;
mov.u32 t, %tid.x;
ld.param.u64 x, [out];
mad.wide.u32 x, t, 4, x;
"""


def values(body: str, count: int = 64, head: str = "", dtype: str = "u4", **launch: object) -> np.ndarray:
    """Run a kernel that stores one number for each thread."""
    out = np.zeros(count, dtype)
    kernel(".param .u64 out", TID + body, head=head).launch(1, count, [out], **launch)
    return out


def test_a_loop_with_a_predicate() -> None:
    body = """
    mov.u32 a, 0;
    mov.u32 b, 0;
    $again:
    setp.ge.u32 p, b, t;
    @p bra $done;
    and.b32 c, b, 1;
    setp.eq.u32 q, c, 0;
    @q add.u32 a, a, b;
    @!q add.u32 a, a, 1000;
    add.u32 b, b, 1;
    bra.uni $again;
    $done:
    st.global.u32 [x], a;
    """
    want = [sum(k if k % 2 == 0 else 1000 for k in range(t)) for t in range(64)]
    assert values(body).tolist() == want


def test_tables_of_labels() -> None:
    body = """
    and.b32 a, t, 3;
    $ts: .branchtargets $zero, $one, $two, $one;
    brx.idx a, $ts;
    $zero:
    mov.u32 b, 10;
    bra $end;
    $one:
    mov.u32 b, 11;
    bra $end;
    $two:
    mov.u32 b, 12;
    $end:
    st.global.u32 [x], b;
    """
    assert values(body).tolist() == [[10, 11, 12, 11][t % 4] for t in range(64)]


def test_scopes_hide_registers() -> None:
    body = """
    mov.u32 a, 1;
    {
    .reg .b32 a, fresh<2>;
    mov.u32 a, 100;
    { .reg .b32 a; mov.u32 a, 5; add.u32 fresh1, a, 0; }
    add.u32 b, a, fresh1;
    }
    add.u32 a, a, b;
    st.global.u32 [x], a;
    """
    assert (values(body) == 106).all()


FUNCTIONS = """
.func (.param .b32 result) square_and_add(.param .b32 first, .param .align 4 .b8 pair[8])
{
    .reg .b32 %r<6>;
    ld.param.b32 %r1, [first];
    ld.param.b32 %r2, [pair];
    ld.param.b32 %r3, [pair+4];
    mul.lo.s32 %r4, %r1, %r1;
    add.s32 %r4, %r4, %r2;
    add.s32 %r4, %r4, %r3;
    st.param.b32 [result], %r4;
    ret;
}
.func (.reg .b32 result) early(.reg .b32 given)
{
    .reg .pred %p1;
    setp.lt.u32 %p1, given, 8;
    mov.u32 result, 1;
    @%p1 ret;
    mov.u32 result, 2;
    ret;
}
.func (.param .b32 result) summed(.param .b32 given)
{
    .reg .b32 %r<9>;
    .reg .pred %p1;
    ld.param.b32 %r1, [given];
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff;
    add.u32 %r1, %r1, %r2;
    bar.sync 0;
    shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0xffffffff;
    add.u32 %r1, %r1, %r2;
    st.param.b32 [result], %r1;
    ret;
}
"""


def test_calls() -> None:
    body = """
    {
    .param .b32 one;
    .param .align 4 .b8 two[8];
    .param .b32 back;
    st.param.b32 [one], t;
    st.param.b32 [two], 7;
    st.param.b32 [two+4], t;
    call.uni (back), square_and_add, (one, two);
    ld.param.b32 a, [back];
    }
    call (b), early, (t);
    mad.lo.u32 a, b, 100000, a;
    st.global.u32 [x], a;
    """
    t = np.arange(64)
    assert values(body, head=FUNCTIONS).tolist() == (t * t + 7 + t + np.where(t < 8, 1, 2) * 100000).tolist()


def test_calls_of_functions_that_wait() -> None:
    body = """
    add.u32 d, t, 5;
    {
    .param .b32 one;
    .param .b32 back;
    st.param.b32 [one], t;
    call.uni (back), summed, (one);
    ld.param.b32 a, [back];
    st.param.b32 [one], a;
    call.uni (back), summed, (one);
    ld.param.b32 b, [back];
    }
    add.u32 a, b, d;
    st.global.u32 [x], a;
    """
    t = np.arange(64)
    want = (t // 4 * 16 + 6) * 4 + t + 5
    for order in ("up", "down", "random"):
        assert values(body, head=FUNCTIONS, order=order).tolist() == want.tolist()


def test_calls_by_address() -> None:
    body = """
    mov.u64 y, one;
    mov.u64 z, two;
    setp.lt.u32 p, t, 10;
    selp.b64 y, y, z, p;
    {
    .param .b32 given;
    .param .b32 back;
    st.param.b32 [given], t;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (back), y, (given), proto;
    ld.param.b32 a, [back];
    }
    st.global.u32 [x], a;
    """
    head = "".join(
        f".func (.param .b32 r) {name}(.param .b32 g)\n{{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [g];\n"
        f"{code} %r2, %r1, 3;\nst.param.b32 [r], %r2;\nret;\n}}\n"
        for name, code in (("one", "add.u32"), ("two", "mul.lo.u32"))
    )
    t = np.arange(64)
    assert values(body, head=head).tolist() == np.where(t < 10, t + 3, t * 3).tolist()


def test_what_is_kept_while_a_thread_waits() -> None:
    """Registers of each width, predicates, local memory and values of a loop, over barriers on several ways."""
    body = """
    .local .align 8 .b8 l[16];
    .shared .align 8 .b8 s[512];
    .reg .b16 h;
    .reg .b64 w, k;
    .reg .f64 f;
    mov.u32 n, %ntid.x;
    cvt.u16.u32 h, t;
    mul.wide.u32 w, t, 1000;
    cvt.rn.f64.u32 f, t;
    setp.lt.u32 p, t, 20;
    mov.u64 k, l;
    st.local.u64 [k+8], w;
    mov.u32 b, 0;
    mov.u32 c, 0;
    $again:
    mad.lo.u32 d, t, 8, s;
    st.shared.f64 [d], f;
    bar.sync 0;
    xor.b32 d, t, 63;
    mad.lo.u32 d, d, 8, s;
    ld.shared.f64 f, [d];
    bar.sync 0;
    @p add.u32 c, c, 1;
    add.u32 b, b, 1;
    setp.lt.u32 q, b, 3;
    @q bra $again;
    cvt.u32.u16 a, h;
    cvt.rzi.u32.f64 d, f;
    mad.lo.u32 a, d, 100, a;
    mad.lo.u32 a, c, 10000, a;
    ld.local.u64 w, [k+8];
    cvt.u32.u64 d, w;
    add.u32 a, a, d;
    st.global.u32 [x], a;
    """
    t = np.arange(64)
    want = t + (63 - t) * 100 + np.where(t < 20, 3, 0) * 10000 + t * 1000
    for order in ("up", "down", "random"):
        assert values(body, order=order, seed=5).tolist() == want.tolist()


def test_named_barriers() -> None:
    """The second warp waits for what the first one has written, and goes on alone."""
    body = """
    .shared .align 4 .b8 s[128];
    setp.lt.u32 p, t, 32;
    @!p bra $second;
    mul.lo.u32 a, t, 3;
    mad.lo.u32 d, t, 4, s;
    st.shared.u32 [d], a;
    bar.arrive 1, 64;
    mov.u32 b, 7;
    bra $end;
    $second:
    bar.sync 1, 64;
    sub.u32 d, t, 32;
    mad.lo.u32 d, d, 4, s;
    ld.shared.u32 b, [d];
    bar.sync 2, 32;
    $end:
    st.global.u32 [x], b;
    """
    for order in ("up", "down", "random"):
        assert values(body, order=order).tolist() == [7] * 32 + [3 * k for k in range(32)]


def test_barriers_that_reduce() -> None:
    body = """
    setp.lt.u32 p, t, 50;
    bar.red.popc.u32 a, 0, p;
    bar.red.and.pred q, 0, p;
    bar.red.or.pred r, 0, !p;
    selp.u32 b, 100, 0, q;
    selp.u32 c, 1000, 0, r;
    add.u32 a, a, b;
    add.u32 a, a, c;
    st.global.u32 [x], a;
    """
    assert (values(body) == 1050).all()


def test_threads_that_wait_in_loops() -> None:
    """A flag in shared memory, which another warp sets; the loop lets others run."""
    body = """
    .shared .align 4 .b8 s[8];
    mov.u32 a, s;
    setp.eq.u32 p, t, 0;
    @p st.shared.u32 [a], 0;
    bar.sync 0;
    setp.eq.u32 p, t, 40;
    @p st.volatile.shared.u32 [a], 9;
    $again:
    ld.volatile.shared.u32 b, [a];
    setp.eq.u32 q, b, 0;
    @q bra $again;
    st.global.u32 [x], b;
    """
    for order in ("up", "down", "random"):
        assert (values(body, order=order) == 9).all()


def test_counted_barriers() -> None:
    """mbarrier: the phase is over when all threads have arrived."""
    body = """
    .shared .align 8 .b8 s[8];
    .shared .align 4 .b8 v[256];
    .reg .b64 state;
    mov.u32 a, s;
    setp.eq.u32 p, t, 0;
    @p mbarrier.init.shared.b64 [a], 64;
    bar.sync 0;
    mad.lo.u32 d, t, 4, v;
    st.shared.u32 [d], t;
    mbarrier.arrive.shared.b64 state, [a];
    $wait:
    mbarrier.try_wait.shared.b64 q, [a], state;
    @!q bra $wait;
    mbarrier.test_wait.parity.shared.b64 r, [a], 0;
    xor.b32 d, t, 63;
    mad.lo.u32 d, d, 4, v;
    ld.shared.u32 b, [d];
    selp.u32 c, 100, 0, r;
    add.u32 b, b, c;
    st.global.u32 [x], b;
    """
    for order in ("up", "down", "random"):
        assert values(body, order=order).tolist() == [163 - t for t in range(64)]


def test_asynchronous_copies() -> None:
    body = """
    .shared .align 16 .b8 s[1024];
    .reg .b64 y;
    ld.param.u64 y, [out];
    mul.lo.u32 a, t, 16;
    cvt.u64.u32 z, a;
    add.u64 y, y, z;
    add.u32 a, a, s;
    cp.async.cg.shared.global [a], [y], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    xor.b32 b, t, 63;
    mad.lo.u32 b, b, 16, s;
    ld.shared.v4.u32 {a, b, c, d}, [b];
    add.u32 a, a, d;
    bar.sync 0;
    st.global.u32 [x], a;
    """
    out = np.arange(256, dtype="u4")
    kernel(".param .u64 out", TID + body).launch(1, 64, [out])
    assert out[:64].tolist() == [4 * (63 - t) * 2 + 3 for t in range(64)]


def test_copies_that_fill_with_zeros() -> None:
    body = """
    .shared .align 16 .b8 s[16];
    .reg .b64 y;
    ld.param.u64 y, [out];
    mov.u32 a, s;
    mov.u32 b, 6;
    cp.async.ca.shared.global [a], [y], 16, b;
    cp.async.wait_all;
    ld.shared.v4.u32 {a, b, c, d}, [a];
    st.global.v4.u32 [y], {a, b, c, d};
    """
    out = np.full(4, 0xFFFFFFFF, "u4")
    kernel(".param .u64 out", TID.replace("mad.wide.u32 x, t, 4, x;", "") + body).launch(1, 1, [out])
    assert out.tolist() == [0xFFFFFFFF, 0xFFFF, 0, 0]


def test_blocks_and_grids_of_three_axes() -> None:
    body = """
    .reg .b32 i<12>;
    mov.u32 i0, %tid.x;
    mov.u32 i1, %tid.y;
    mov.u32 i2, %tid.z;
    mov.u32 i3, %ctaid.x;
    mov.u32 i4, %ctaid.y;
    mov.u32 i5, %ctaid.z;
    mov.u32 i6, %ntid.x;
    mov.u32 i7, %ntid.y;
    mov.u32 i8, %nctaid.x;
    mov.u32 i9, %nctaid.y;
    mad.lo.u32 a, i5, i9, i4;
    mad.lo.u32 a, a, i8, i3;
    mad.lo.u32 b, i2, i7, i1;
    mad.lo.u32 b, b, i6, i0;
    mad.lo.u32 b, a, 24, b;
    ld.param.u64 x, [out];
    mad.wide.u32 x, b, 4, x;
    mad.lo.u32 a, i0, 10, i1;
    mad.lo.u32 a, a, 10, i2;
    mad.lo.u32 a, a, 10, i3;
    mad.lo.u32 a, a, 10, i4;
    mad.lo.u32 a, a, 10, i5;
    st.global.u32 [x], a;
    """
    k = kernel(".param .u64 out", TID + body)
    want = [((((tx * 10 + ty) * 10 + tz) * 10 + bx) * 10 + by) * 10 + bz
            for bz in range(3) for by in range(2) for bx in range(2)
            for tz in range(2) for ty in range(3) for tx in range(4)]  # fmt: skip
    for order in ("up", "down", "random"):
        out = np.zeros(len(want), "u4")
        k.launch((2, 2, 3), (4, 3, 2), [out], order=order)
        assert out.tolist() == want


def test_what_is_not_supported_is_said() -> None:
    for code in ("wgmma.fence.sync.aligned;", "tcgen05.alloc.b32 [a], 32;", "cp.async.bulk.commit_group;"):
        with pytest.raises(ptx.UnsupportedError, match=r"PTX line \d+: '" + code.split(".", maxsplit=1)[0]):
            kernel(".param .u64 out", TID + code)
    with pytest.raises(ptx.PtxSyntaxError, match="not a PTX module"):
        ptx.Module("int main() {}")
    with pytest.raises(ptx.UnsupportedError, match="calls itself"):
        ptx.Module(HEAD + ".func f()\n{\ncall f;\nret;\n}\n" + entry("k", "", "call f;"))
    with pytest.raises(KeyError, match="0 kernels named"):
        kernel("", "").module.kernel("other")
