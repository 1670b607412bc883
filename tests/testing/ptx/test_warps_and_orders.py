"""Operations of warps, the orders in which threads run, and races that another order shows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.testing.ptx._instructions import kernel

HEAD = """
.reg .pred p, q, r;
.reg .b32 t, lane, a, b, c, d, m;
.reg .b64 x, y;
mov.u32 t, %tid.x;
mov.u32 lane, %laneid;
ld.param.u64 y, [in];
ld.param.u64 x, [out];
mad.wide.u32 x, t, 4, x;
mad.wide.u32 y, t, 4, y;
ld.global.u32 a, [y];
"""
ORDERS = ("up", "down", "random")


def run(body: str, data: np.ndarray, order: str = "up", block: int | None = None, seed: int = 0) -> np.ndarray:
    data = np.ascontiguousarray(data)
    out = np.zeros(data.shape, "u4")
    k = kernel(".param .u64 in, .param .u64 out", HEAD + body + "\nst.global.u32 [x], d;")
    k.launch(1, block or data.size, [data.view("u4"), out], order=order, seed=seed)
    return out


def agree(body: str, data: np.ndarray, want: np.ndarray) -> None:
    for order in ORDERS:
        got = run(body, data, order)
        assert np.array_equal(got, np.asarray(want).view("u4") if np.asarray(want).itemsize == 4 else want), (
            order,
            body,
        )


def shuffled(mode: str, values: np.ndarray, b: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """The pseudocode of the manual."""
    out, flags = np.zeros_like(values), np.zeros(len(values), bool)
    for t in range(len(values)):
        warp, lane = t & ~31, t & 31
        segment, limit = (c >> 8) & 31, c & 31
        bval = b & 31
        top = (lane & segment) | (limit & ~segment & 31)
        least = lane & segment
        match mode:
            case "up":
                j = lane - bval
                inside = j >= top
            case "down":
                j = lane + bval
                inside = j <= top
            case "bfly":
                j = lane ^ bval
                inside = j <= top
            case _:
                j = least | (bval & ~segment & 31)
                inside = j <= top
        out[t], flags[t] = values[warp + (j if inside else lane)], inside
    return out, flags


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode: str) -> None:
    data = np.random.default_rng(0).integers(0, 1 << 31, 64).astype("u4")
    for b in (0, 1, 3, 16, 31):
        for c in (0, 0x1800, 0x1000) if mode == "up" else (31, 0x181F, 0x101F, 7):
            want, flags = shuffled(mode, data, b, c)
            body = f"shfl.sync.{mode}.b32 d|p, a, {b}, {c}, 0xffffffff;\n@p xor.b32 d, d, 0x80000000;"
            got = run(body, data, ORDERS[b % 3])
            assert np.array_equal(got, np.where(flags, want ^ 0x80000000, want)), (b, c)


def test_lanes_outside_the_mask_give_no_value() -> None:
    data = np.arange(32, dtype="u4")
    got = run("setp.gt.u32 p, lane, 15;\nmov.u32 d, 0;\n@p bra $end;\n"
              "shfl.sync.down.b32 d, a, 8, 31, 0x0000ffff;\n$end:", data)  # fmt: skip
    assert got.tolist() == [*range(8, 16), *[0xFFFFFFFF] * 8, *[0] * 16]


def test_votes() -> None:
    data = np.random.default_rng(1).integers(0, 2, 96).astype("u4")
    data[32:64] = 1
    ballots = [sum(int(data[w * 32 + k]) << k for k in range(32)) for w in range(3)]
    per_lane = lambda values: np.repeat(np.array(values, "u4"), 32)  # noqa: E731
    agree("setp.ne.u32 p, a, 0;\nvote.sync.ballot.b32 d, p, 0xffffffff;", data, per_lane(ballots))
    for name, one in (
        ("any", lambda b: b != 0),
        ("all", lambda b: b == 0xFFFFFFFF),
        ("uni", lambda b: b in {0, 0xFFFFFFFF}),
    ):
        agree(f"setp.ne.u32 p, a, 0;\nvote.sync.{name}.pred q, p, 0xffffffff;\nselp.u32 d, 1, 0, q;", data,
              per_lane([one(b) for b in ballots]))  # fmt: skip
    half = "setp.lt.u32 r, lane, 16;\nselp.b32 m, 0x0000ffff, 0xffff0000, r;\nsetp.ne.u32 p, a, 0;\n"
    want = [(ballots[t // 32] & (0xFFFF if t % 32 < 16 else 0xFFFF0000)) for t in range(96)]
    agree(half + "vote.sync.ballot.b32 d, p, m;", data, np.array(want, "u4"))


def test_matches() -> None:
    data = np.random.default_rng(2).integers(0, 5, 64).astype("u4")
    data[32:] = 3
    same = [sum(int(data[t & ~31 | k] == data[t]) << k for k in range(32)) for t in range(64)]
    agree("match.any.sync.b32 d, a, 0xffffffff;", data, np.array(same, "u4"))
    whole = [0xFFFFFFFF if t >= 32 else 0 for t in range(64)]
    agree("match.all.sync.b32 d|p, a, 0xffffffff;\n@!p add.u32 d, d, 7;", data,
          np.array([w or 7 for w in whole], "u4"))  # fmt: skip
    agree("cvt.u64.u32 y, a;\nshl.b64 y, y, 33;\nmatch.any.sync.b64 d, y, 0xffffffff;", data, np.array(same, "u4"))


def test_reductions() -> None:
    data = np.random.default_rng(3).integers(-(1 << 31), 1 << 31, 64).astype("i4")
    rows = data.reshape(2, 32)
    table = {
        "add.s32": rows.sum(1, dtype="i4"), "min.s32": rows.min(1), "max.s32": rows.max(1),
        "min.u32": rows.view("u4").min(1).view("i4"), "max.u32": rows.view("u4").max(1).view("i4"),
        "and.b32": np.bitwise_and.reduce(rows, 1), "or.b32": np.bitwise_or.reduce(rows, 1),
        "xor.b32": np.bitwise_xor.reduce(rows, 1),
    }  # fmt: skip
    for name, want in table.items():
        agree(f"redux.sync.{name} d, a, 0xffffffff;", data, np.repeat(want, 32))
    floats = np.random.default_rng(4).standard_normal(32).astype("f4")
    floats[3] = np.nan
    agree("redux.sync.min.f32 d, a, 0xffffffff;", floats, np.repeat(np.nanmin(floats), 32))
    part = "setp.lt.u32 r, lane, 16;\nselp.b32 m, 0x0000ffff, 0xffff0000, r;\nredux.sync.add.s32 d, a, m;"
    agree(part, data, np.repeat(data.reshape(4, 16).sum(1, dtype="i4"), 16))


def test_which_lanes_are_active_and_elected() -> None:
    data = np.zeros(64, "u4")
    agree("activemask.b32 d;", data, np.full(64, 0xFFFFFFFF, "u4"))
    agree("setp.lt.u32 p, lane, 5;\nmov.u32 d, 1;\n@p activemask.b32 d;", data,
          np.where(np.arange(64) % 32 < 5, 0x1F, 1).astype("u4"))  # fmt: skip
    agree(
        "elect.sync b|p, 0xffffffff;\nselp.u32 d, 100, b, p;",
        data,
        np.where(np.arange(64) % 32 == 0, 100, 0).astype("u4"),
    )


def test_masks_of_lanes() -> None:
    data = np.zeros(32, "u4")
    k = np.arange(32, dtype="u8")
    one = np.uint64(1) << k
    table = {"eq": one, "lt": one - 1, "le": one | (one - 1), "gt": ~(one | (one - 1)), "ge": ~(one - 1)}
    for name, want in table.items():
        assert np.array_equal(run(f"mov.u32 d, %lanemask_{name};", data), (want & 0xFFFFFFFF).astype("u4"))
    assert run("mov.u32 a, %warpid;\nmov.u32 b, %nwarpid;\nmad.lo.u32 d, b, 10, a;", np.zeros(70, "u4")).tolist() == [
        30 + t // 32 for t in range(70)
    ]


def test_small_blocks() -> None:
    """The mask of a full warp in a block of 20 threads means those that exist."""
    data = np.arange(20, dtype="u4")
    agree("shfl.sync.bfly.b32 d, a, 1, 31, 0xffffffff;", data, data ^ 1)
    agree("setp.lt.u32 p, a, 50;\nvote.sync.all.pred q, p, 0xffffffff;\nselp.u32 d, 1, 0, q;", data, np.ones(20, "u4"))


MISSING_BARRIER = """
.shared .align 4 .b8 s[256];
mad.lo.u32 b, t, 4, s;
st.shared.u32 [b], 0;
bar.sync 0;
st.shared.u32 [b], a;
{barrier}
xor.b32 c, t, 63;
mad.lo.u32 c, c, 4, s;
ld.shared.u32 d, [c];
"""


def test_a_missing_barrier_shows_in_another_order() -> None:
    data = np.arange(1, 65, dtype="u4")
    wrong = {order: run(MISSING_BARRIER.format(barrier=""), data, order).tobytes() for order in ORDERS}
    assert len(set(wrong.values())) > 1
    agree(MISSING_BARRIER.format(barrier="bar.sync 0;"), data, data[::-1])


def test_random_orders_differ_by_seed_and_repeat() -> None:
    body = """
    .shared .align 4 .b8 s[4];
    setp.ne.u32 p, t, 0;
    @!p st.shared.u32 [s], 0;
    bar.sync 0;
    atom.shared.add.u32 d, [s], 1;
    """
    data = np.zeros(64, "u4")
    runs = [run(body, data, "random", seed=seed) for seed in (1, 2, 3, 1)]
    assert sorted(runs[0].tolist()) == list(range(64))
    assert np.array_equal(runs[0], runs[3])
    assert not np.array_equal(runs[0], runs[1])
    assert run(body, data, "up").tolist() == list(range(64))
    assert run(body, data, "down").tolist() == list(range(63, -1, -1))


def test_orders_of_blocks() -> None:
    k = kernel(".param .u64 in, .param .u64 out", ".reg .b32 a, b;\n.reg .b64 x, y;\nld.param.u64 x, [in];\n"
               "atom.global.add.u32 a, [x], 1;\nmov.u32 b, %ctaid.x;\nld.param.u64 y, [out];\n"
               "mad.wide.u32 y, b, 4, y;\nst.global.u32 [y], a;")  # fmt: skip
    seen = {}
    for order in ORDERS:
        out = np.zeros(10, "u4")
        k.launch(10, 1, [np.zeros(1, "u4"), out], order=order, seed=7)
        seen[order] = out.tolist()
    assert seen["up"] == list(range(10))
    assert seen["down"] == list(range(9, -1, -1))
    assert sorted(seen["random"]) == list(range(10))
    assert seen["random"] not in (seen["up"], seen["down"])
