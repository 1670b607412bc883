"""Kernels with one mistake each: it must be found, with the kernel's name, the thread and the line of the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from tenkey.testing import ptx
from tests.testing.ptx._instructions import HEAD, entry

FILE = "kernels.cu"
DECLARED = """
.reg .pred p, q;
.reg .b32 t, n, a, b, c, d, v<9>;
.reg .b64 x, y, z, w;
mov.u32 t, %tid.x;
mov.u32 n, %ntid.x;
"""


def lined(body: str) -> tuple[str, int]:
    """Return a body with a ``.loc`` before each line, and the number of the line that is marked as wrong."""
    lines, wrong = [], 0
    for number, line in enumerate(body.strip().split("\n"), 1):
        text, _, mark = line.partition("//")
        wrong = number if mark.strip() == "WRONG" else wrong
        lines += [f"\t.loc 1 {number} 1", "\t" + text]
    return "\n".join(lines), wrong


class Wrong(NamedTuple):
    name: str
    kind: str
    body: str
    parameters: str = ".param .u64 out"
    block: Any = 64
    grid: Any = 1
    shared: int = 0
    sizes: Sequence[int] = (64,)  # of arrays of int32
    words: str = ""  # in the message
    options: dict[str, Any] = {}  # noqa: RUF012 -- never changed
    head: str = ""


OUT = "ld.param.u64 x, [out];\nmad.wide.u32 x, t, 4, x;"
SHARED = ".shared .align 16 .b8 s[256];\nmov.u32 a, s;\nmad.lo.u32 b, t, 4, a;"
KERNELS = [
    Wrong("one_too_many", "out of bounds", f"{OUT}\nst.global.u32 [x], t; // WRONG", block=65, words="after the end"),
    Wrong("before_the_begin", "out of bounds", f"{OUT}\nld.global.u32 a, [x+-4]; // WRONG\nst.global.u32 [x], a;",
          words="before an allocation"),
    Wrong("null", "out of bounds", "mov.u64 x, 0;\nld.global.u32 a, [x]; // WRONG", words="no allocation"),
    Wrong("straddles", "out of bounds", "ld.param.u64 x, [out];\nld.global.v2.u32 {a, b}, [x+8]; // WRONG",
          sizes=(3,), words="ends beyond|8 bytes"),
    Wrong("misaligned_word", "misaligned", f"{OUT}\nld.global.u32 a, [x+2]; // WRONG", words="misaligned"),
    Wrong("misaligned_vector", "misaligned",
          f"{OUT}\nld.global.v4.u32 {{a, b, c, d}}, [x]; // WRONG", words="16 bytes"),
    Wrong("misaligned_shared", "misaligned", f"{SHARED}\nst.shared.u16 [b+1], t; // WRONG"),
    Wrong("generic_out_of_bounds", "out of bounds", f"{OUT}\nst.u32 [x+256], t; // WRONG"),
    Wrong("atomic_out_of_bounds", "out of bounds", f"{OUT}\nred.global.add.u32 [x+4], t; // WRONG", words="thread .63"),
    Wrong("shared_out_of_bounds", "out of bounds", f"{SHARED}\nst.shared.u32 [b+4], t; // WRONG", words="256 bytes"),
    Wrong("dynamic_shared_too_small", "out of bounds", "mov.u32 a, dyn;\nmad.lo.u32 b, t, 4, a;\n"
          "st.shared.u32 [b], t; // WRONG", shared=128, head=".extern .shared .align 16 .b8 dyn[];\n"),
    Wrong("shared_by_generic_address", "out of bounds", ".shared .align 8 .b8 s[16];\nmov.u64 y, s;\n"
          "cvta.shared.u64 y, y;\nst.u64 [y+8], y;\nst.u64 [y+16], y; // WRONG", block=1),
    Wrong("local_out_of_bounds", "out of bounds", ".local .align 4 .b8 l[16];\nmov.u64 y, l;\n"
          "mad.wide.u32 y, t, 4, y;\nst.local.u32 [y], t; // WRONG", block=5, words="local memory"),
    Wrong("uninitialised", "uninitialised", f"{SHARED}\nbar.sync 0;\nld.shared.u32 c, [b]; // WRONG"),
    Wrong("half_initialised", "uninitialised", f"{SHARED}\nst.shared.u16 [b], t;\nbar.sync 0;\n"
          "ld.shared.u32 c, [b]; // WRONG"),
    Wrong("too_early", "uninitialised", f"{SHARED}\nst.shared.u32 [b], t;\nsub.u32 c, 252, b;\n"
          "ld.shared.u32 d, [c]; // WRONG", words="nothing was written"),
    Wrong("copy_not_awaited", "uninitialised", f"{OUT}\n{SHARED}\ncp.async.ca.shared.global [b], [x], 4;\n"
          "cp.async.commit_group;\nld.shared.u32 c, [b]; // WRONG"),
    Wrong("wrong_group_awaited", "uninitialised", f"{OUT}\n{SHARED}\ncp.async.ca.shared.global [b], [x], 4;\n"
          "cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 c, [b]; // WRONG"),
    Wrong("divergent", "divergent barrier", "setp.lt.u32 p, t, 20;\n@p bar.sync 0; // WRONG",
          words="44 threads have ended"),
    Wrong("two_barriers", "divergent barrier", "setp.lt.u32 p, t, 32;\n@p bra $one;\nbar.sync 0; // WRONG\nbra $end;\n"
          "$one:\nbar.sync 0;\n$end:", words="wait at another one"),
    Wrong("early_exit", "divergent barrier", "setp.eq.u32 p, t, 63;\n@p ret;\nbar.sync 0; // WRONG"),
    Wrong("too_few_at_a_named_barrier", "divergent barrier", "setp.lt.u32 p, t, 32;\n@p bar.sync 1, 64; // WRONG",
          words="too few|have ended"),
    Wrong("bad_barrier_number", "bad barrier", "mov.u32 a, 16;\nbar.sync a; // WRONG"),
    Wrong("bad_barrier_count", "bad barrier", "mov.u32 a, 33;\nbar.sync 1, a; // WRONG"),
    Wrong("missing_lanes", "missing lanes", "setp.lt.u32 p, t, 16;\n@!p bra $end;\n"
          "shfl.sync.down.b32 a, t, 1, 31, 0xffffffff; // WRONG\n$end:", block=32, words="lane 16, which has ended"),
    Wrong("different_masks", "missing lanes", "setp.lt.u32 p, t, 16;\nselp.b32 a, 0xffffffff, 0xffff8000, p;\n"
          "vote.sync.ballot.b32 b, p, a; // WRONG", block=32, words="names the mask"),
    Wrong("lane_not_in_its_mask", "not a member", "mov.u32 a, 0x0000ffff;\nbar.warp.sync a; // WRONG", block=32,
          words="lane 16"),
    Wrong("lanes_at_two_operations", "missing lanes", "setp.lt.u32 p, t, 16;\n@p bra $one;\n"
          "shfl.sync.idx.b32 a, t, 0, 31, 0xffffffff;\nbra $end;\n$one:\n"
          "shfl.sync.idx.b32 b, t, 0, 31, 0xffffffff; // WRONG\n$end:", block=32, words="waits at kernels.cu:3"),
    Wrong("read_only", "read-only", ".reg .b64 k;\nmov.u64 k, table;\nst.global.u32 [k], t; // WRONG",
          head=".const .align 4 .u32 table[4] = {1, 2, 3, 4};\n"),
    Wrong("beyond_a_variable", "out of bounds", "mov.u64 y, first;\nld.global.u32 a, [y+16]; // WRONG", block=1,
          head=".global .align 4 .u32 first[4];\n.global .align 4 .u32 second[4];\n"),
    Wrong("trap", "trap", "setp.ne.u32 p, t, 7;\n@p ret;\ntrap; // WRONG", words="thread .7, 0, 0."),
    Wrong("waits_for_ever", "endless", "$again:\nmov.u32 a, t;\nbra $again; // WRONG", block=1),
    Wrong("waits_for_another_thread", "endless", f"{SHARED}\nst.shared.u32 [b], 0;\nbar.sync 0;\n$again:\n"
          "ld.volatile.shared.u32 c, [b];\nsetp.eq.u32 p, c, 0;\n@p bra $again; // WRONG", block=2),
    Wrong("missing_barrier", "race", f"{SHARED}\nst.shared.u32 [b], t;\nadd.u32 c, t, 1;\nand.b32 c, c, 31;\n"
          "mad.lo.u32 c, c, 4, a;\nst.shared.u32 [c], 5;", block=32, options={"races": True}, words="kernels.cu:8"),
    Wrong("race_of_read_and_write", "race", f"{OUT}\nst.global.u32 [x], t;\nld.param.u64 y, [out];\n"
          "ld.global.u32 c, [y]; // WRONG", options={"races": True}, words="thread .0, 0, 0. accesses at kernels.cu:3"),
    Wrong("plain_counter", "race", "ld.param.u64 x, [out];\nld.global.u32 a, [x];\nadd.u32 a, a, 1;\n"
          "st.global.u32 [x], a;", options={"races": True}, words="kernels.cu:(2|4)"),
    Wrong("second_barrier_missing", "race", f"{SHARED}\nst.shared.u32 [b], t;\nbar.sync 0;\nadd.u32 c, t, 40;\n"
          "and.b32 c, c, 63;\nmad.lo.u32 c, c, 4, a;\nld.shared.u32 d, [c];\nadd.u32 d, d, 1;\n"
          "st.shared.u32 [b], d;", options={"races": True}, words="without a barrier"),
    Wrong("atomic_and_plain", "race", "ld.param.u64 x, [out];\nred.global.add.u32 [x], 1;\nsetp.ne.u32 p, t, 5;\n"
          "@p ret;\nst.global.u32 [x], 77;", options={"races": True}),
    Wrong("bad_table_index", "bad call", "$ts: .branchtargets $one, $two;\nbrx.idx t, $ts; // WRONG\n$one:\n$two:",
          block=3, words="table"),
]  # fmt: skip


def launched(wrong: Wrong, order: str = "up") -> None:
    text, _ = lined(wrong.body)
    module = ptx.Module(
        HEAD + f'.file 1 "{FILE}"\n' + wrong.head + entry(wrong.name, wrong.parameters, DECLARED + text),
        optimized=False, **wrong.options,
    )  # fmt: skip
    arrays = [np.zeros(size, np.int32) for size in wrong.sizes]
    module.kernel(wrong.name).launch(wrong.grid, wrong.block, arrays, shared=wrong.shared, order=order)


@pytest.mark.parametrize("wrong", KERNELS, ids=lambda one: one.name)
def test_a_wrong_kernel_is_found(wrong: Wrong) -> None:
    with pytest.raises(ptx.KernelError) as caught:
        launched(wrong)
    error = caught.value
    line = lined(wrong.body)[1]
    assert error.kernel == wrong.name
    assert error.kind == wrong.kind, str(error)
    assert error.file == FILE
    assert f"{FILE}:{error.line}" in str(error)
    assert str(error).startswith(wrong.name)
    assert error.line == line or not line, str(error)
    assert error.thread is not None and 0 <= error.thread[0] < 100  # noqa: PT018
    assert error.block == (0, 0, 0)
    if error.kind in {"out of bounds", "misaligned", "uninitialised"}:
        assert error.nbytes in {1, 2, 4, 8, 16}
        assert error.address is not None
    if wrong.words:
        assert re.search(wrong.words, str(error)), str(error)


def test_there_are_many_wrong_kernels() -> None:
    assert len(KERNELS) >= 25
    assert len({one.name for one in KERNELS}) == len(KERNELS)


CORRECT: dict[str, Callable[[str], str]] = {
    "one_too_many": lambda body: body,
    "too_early": lambda body: body.replace("sub.u32", "bar.sync 0;\nsub.u32"),
    "copy_not_awaited": lambda body: body.replace("ld.shared", "cp.async.wait_group 0;\nld.shared"),
    "wrong_group_awaited": lambda body: body.replace("wait_group 1", "wait_group 0"),
    "divergent": lambda body: body.replace("@p bar", "bar"),
    "too_few_at_a_named_barrier": lambda body: body.replace("1, 64", "1, 32"),
    "missing_lanes": lambda body: body.replace("0xffffffff", "0x0000ffff"),
    "missing_barrier": lambda body: body.replace("add.u32 c", "bar.sync 0;\nadd.u32 c"),
    "plain_counter": lambda body: body.replace("ld.global.u32 a, [x]", "red.global.add.u32 [x], 1;\nret"),
    "second_barrier_missing": lambda body: body.replace("st.shared.u32 [b], d", "bar.sync 0;\nst.shared.u32 [b], d"),
    "beyond_a_variable": lambda body: body.replace("y+16", "y+12"),
    "race_of_read_and_write": lambda body: body.replace("ld.param.u64 y", "bar.sync 0;\nld.param.u64 y"),
}


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_without_the_mistake_nothing_is_found(name: str, order: str) -> None:
    wrong = next(one for one in KERNELS if one.name == name)
    block = 64 if name == "one_too_many" else wrong.block
    launched(wrong._replace(body=CORRECT[name](wrong.body), block=block), order)
