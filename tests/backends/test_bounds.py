"""Loops read nothing outside of their operands: these end, or begin, at a page that cannot be read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests._tiers import only_full

PROGRAM = """
import ctypes, mmap, sys
import numpy as np
import tenkey as tk

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
kept = []

def guarded(values, at_end):
    page = mmap.PAGESIZE
    inner = -(-values.nbytes // page) * page or page
    memory = mmap.mmap(-1, inner + 2 * page)
    kept[:] = [*kept[-8:], memory]
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (start, start + page + inner):
        assert libc.mprotect(guard, page, 0) == 0
    offset = page + (inner - values.nbytes if at_end else 0)
    made = np.frombuffer(memory, values.dtype, values.size, offset).reshape(values.shape)
    made[...] = values
    return made

SHAPES = (4099, 1), (1, 4099), (1025, 7), (300, 37), (61, 129), (33, 257), (130, 65), (7, 1023), (128, 64), (3, 20011)
CALLS = {
    "sum": [lambda x: tk.sum(x, axis=0), lambda x: tk.sum(x, axis=1), lambda x: tk.sum(x.T, axis=0), tk.sum],
    "extremes": [lambda x: tk.max(x, axis=0), lambda x: tk.argmax(x, axis=0), lambda x: tk.argmin(x, axis=1), tk.min],
    "means": [lambda x: tk.mean(x, axis=0), lambda x: tk.var(x, axis=0), lambda x: tk.std(x, axis=1)],
    "pointwise": [tk.exp, lambda x: x + x, lambda x: x * x[:1], lambda x: x - x[:, :1], lambda x: x[::2] + x[1::2][:1]],
    "copies": [lambda x: tk.flip(x, axis=1), lambda x: x.T + 0, lambda x: tk.concat([x, x], axis=1),
               lambda x: tk.tile(x, (1, 2)), lambda x: x[:, ::2] + 0, lambda x: tk.roll(x, 3, axis=1)],
    "scans": [lambda x: tk.cumulative_sum(x, axis=0), lambda x: tk.cumulative_sum(x, axis=1)],
    "sorting": [lambda x: tk.sort(x, axis=1), lambda x: tk.argsort(x, axis=0)],
    "selection": [lambda x: x[x > 3], lambda x: tk.take(x, tk.arange(len(x)), axis=0), lambda x: tk.where(x > 3, x, 0),
                  lambda x: tk.nonzero(x)[0], lambda x: tk.any(x > 8, axis=0)],
    "products": [lambda x: x @ x.T[:, :33], lambda x: x.T[:33] @ x, lambda x: x[:5] @ x[0], lambda x: x.T @ x[:, 0]],
}[sys.argv[1]]
rng = np.random.default_rng(1)
for dtype in ("f4", "f8", "i8", "u1"):
    if sys.argv[1] == "products" and dtype[0] != "f":
        continue
    for shape in SHAPES:
        values = rng.integers(0, 9, shape).astype(dtype)
        for at_end in (True, False):
            x = tk.from_dlpack(guarded(values, at_end))
            for k, call in enumerate(CALLS):
                print(dtype, shape, at_end, k, file=sys.stderr)
                if x[1::2].shape[0] == 0 and k == 4 and sys.argv[1] == "pointwise":
                    continue
                found, wanted = call(x).numpy(), call(tk.asarray(values)).numpy()
                assert found.tobytes() == wanted.tobytes()
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by Linux's mprotect")
@pytest.mark.parametrize(
    "calls",
    only_full(
        ["sum", "extremes", "means", "pointwise", "copies", "scans", "sorting", "selection", "products"], ["sum"]
    ),
)
def test_loops_stay_within_their_operands(calls: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, calls], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), f"after {done.stderr[-300:]}"
