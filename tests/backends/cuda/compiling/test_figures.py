"""Figures of compiled kernels: each kind of defect shows in them."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import Cubin, KernelSource, cubin_of, figures, figures_of
from tests.backends.cuda.compiling._sources import HALVE, SCALE, WIDE

_ARCHITECTURES = ((8, 0), (9, 0), (10, 0))
_LOCAL = KernelSource(
    "pick",
    """
def pick(n, out, x):
    i = uint32(cuda.grid(1))
    if i < n:
        a = cuda.local.array(8, float32)
        for k in range(8):
            a[k] = x[i * 8 + k]
        out[i] = a[uint32(x[i]) & 7]
""",
    ("uint32", "float32*", "float32*"),
)


@pytest.mark.parametrize("cc", _ARCHITECTURES, ids=str)
class TestDefects:
    """Of four kernels, each with one defect or none."""

    def test_none(self, cc: tuple[int, int]) -> None:
        found = figures_of(SCALE, cc)
        assert (found.kernel, found.arch) == ("scale", f"sm_{cc[0]}{cc[1]}")
        assert (found.spills, found.local, found.float64) == (0, 0, 0)
        assert (found.loads, found.stores, found.wide_loads, found.wide_stores) == (2, 1, 0, 0)
        assert found.occupancy == 1.0

    def test_float64(self, cc: tuple[int, int]) -> None:
        assert figures_of(HALVE, cc).float64 >= 1

    def test_local_memory(self, cc: tuple[int, int]) -> None:
        assert figures_of(_LOCAL, cc).local >= 32

    def test_wide_accesses(self, cc: tuple[int, int]) -> None:
        found = figures_of(WIDE, cc)
        assert (found.loads, found.wide_loads, found.stores, found.wide_stores) == (1, 1, 1, 1)

    def test_the_machine_code_agrees(self, cc: tuple[int, int]) -> None:
        if figures.nvdisasm() is None:
            pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
        wide, local = figures.sass_of(cubin_of(WIDE, cc)), figures.sass_of(cubin_of(_LOCAL, cc))
        assert re.findall(r"\b(?:LDG|STG)[\w.]*", wide) == ["LDG.E.128", "STG.E.128"]
        assert re.search(r"\bLDL", local)
        assert not re.search(r"\bLDL|\bSTL", wide)
        assert re.search(r"\bDMUL", figures.sass_of(cubin_of(HALVE, cc)))


def test_accesses_of_ptx() -> None:
    """As the manual writes them: with predicates, cache operators, volatile and vectors."""
    ptx = """
    @%p1 ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    ld.volatile.global.u32 %r1, [%rd1];
    ld.relaxed.gpu.global.u32 %r1, [%rd1];
    ld.global.L1::no_allocate.v2.b64 {%rd2, %rd3}, [%rd1];
    st.global.v2.f32 [%rd1], {%f1, %f2};
    @!%p2 st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};
    ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r5];
    ld.param.u64 %rd1, [k_param_0];
    """
    found = [
        (kind, space, int(vector[2:] or 1) * int(bits)) for kind, space, _, vector, bits in figures._ACCESS.findall(ptx)
    ]
    assert found == [
        ("ld", "global", 128),
        ("ld", "global", 32),
        ("ld", "global", 32),
        ("ld", "global", 128),
        ("st", "global", 64),
        ("st", "global", 128),
    ]


def test_float64_of_ptx() -> None:
    ptx = """
    mul.rn.f64 %fd1, %fd2, %fd3;
    @%p1 cvt.f64.f32 %fd1, %f1;
    ld.global.f64 %fd1, [%rd1];
    mov.f64 %fd1, 0d0;
    // mul.f64 in a comment
    setp.lt.f64 %p1, %fd1, %fd2;
    """
    assert len(figures._FLOAT64.findall(figures._body(ptx))) == 2


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "cc", "expected"),
    [  # computed by hand from the table of technical specifications in the programming guide
        (32, 256, 0, (9, 0), 1.0),  # 65536 / (32 * 256) = 8 blocks
        (33, 256, 0, (9, 0), 6 * 256 / 2048),  # rounded to 40 registers: 1280 for each warp, 51 warps, 6 blocks
        (255, 256, 0, (8, 0), 256 / 2048),  # 256 registers: one block
        (16, 32, 0, (9, 0), 32 * 32 / 2048),  # 32 blocks at most
        (16, 1024, 0, (9, 0), 1.0),
        (16, 256, 48 << 10, (9, 0), 4 * 256 / 2048),  # 228 KB / 49 KB = 4 blocks
        (16, 256, 48 << 10, (8, 0), 3 * 256 / 2048),  # 164 KB / 49 KB = 3 blocks
        (16, 96, 0, (9, 0), 21 * 96 / 2048),  # 2048 // 96 = 21 blocks
    ],
)
def test_occupancy(registers: int, threads: int, shared: int, cc: tuple[int, int], expected: float) -> None:
    cubin = Cubin(b"", registers=registers, stack=0, spills=0, shared=0)
    assert figures.occupancy(cubin, threads, shared, cc) == expected
