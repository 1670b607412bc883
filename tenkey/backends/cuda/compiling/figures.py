"""What a kernel costs, read from its machine code: registers, spills, widths of accesses, float64 arithmetic.

Note [Figures of kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel can compute the right values and still be slow on every GPU: it spills registers to memory, keeps an array in
local memory, multiplies in float64 because of a constant, or loads single elements where it should load four. All of
this shows in the compiled code, without a GPU. :func:`figures_of` reads it, ``python -m tenkey warm --cuda`` prints it,
and ``tests/backends/cuda/kernel_figures.txt`` holds the figures of the built-in kernels, so that a change is seen.

Accesses and float64 instructions are counted in the PTX: the assembler keeps both. With ``nvdisasm`` (the distribution
``nvidia-cuda-nvdisasm``, or CUDA's toolkit) the machine code is read too, in :func:`sass_of`. Occupancy is the share of
the threads that a multiprocessor can hold, by registers, shared memory and the size of the block, after the table of
technical specifications in the CUDA C++ programming guide. Guarded by
``tests/backends/cuda/compiling/test_figures.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from .kernel_source import Source
from .linking import Cubin
from .translation import cubin_of, ptx_of

__all__ = ["Figures", "figures_of", "nvdisasm", "occupancy", "sass_of"]

_ACCESS: Final = re.compile(
    r"^\s*(?:@!?%\w+\s+)?(ld|st)\.(?:volatile\.|relaxed\.\w+\.|weak\.)?(global|local)((?:\.[\w:]+)*?)(\.v[248])?"
    r"\.[busf](8|16|32|64|128)\b",
    re.MULTILINE,
)
_FLOAT64: Final = re.compile(r"^\s*(?:@!?%\w+\s+)?(?!ld|st|mov|selp|setp|atom|red|shfl)\w[\w.]*\.f64\b", re.MULTILINE)
_WARP: Final = 32
_ALLOCATION: Final = 256  # registers are given to warps in units of this
_LIMITS: Final = {8: (2048, 32, 164 << 10), 9: (2048, 32, 228 << 10), 10: (2048, 32, 228 << 10)}
"""By major number: threads, blocks and bytes of shared memory of a multiprocessor (of 8.0 and not of 8.6 or 8.9)."""


class Figures(NamedTuple):
    """What a kernel costs on one architecture (Note [Figures of kernels]).

    ``registers`` are those of a thread; ``spills`` and ``local`` bytes of a thread; ``shared`` bytes of a block;
    ``loads`` and ``stores`` instructions that access global memory, ``wide_loads`` and ``wide_stores`` those of 128
    bits and more among them; ``float64`` arithmetic instructions in float64; ``occupancy`` a share between 0 and 1.
    """

    kernel: str
    arch: str
    registers: int
    spills: int
    local: int
    shared: int
    loads: int
    wide_loads: int
    stores: int
    wide_stores: int
    float64: int
    occupancy: float


def figures_of(source: Source, cc: tuple[int, int] = (9, 0)) -> Figures:
    """Compile a kernel, or load it from the cache, and return what it costs."""
    cubin, ptx = cubin_of(source, cc), _body(ptx_of(source, cc))
    counts = dict.fromkeys(["ld", "st", "ld wide", "st wide"], 0)
    for kind, space, _, vector, bits in _ACCESS.findall(ptx):
        if space == "global":
            counts[kind] += 1
            counts[f"{kind} wide"] += int(vector[2:] or 1) * int(bits) >= 128
    return Figures(
        kernel=source.name,
        arch=f"sm_{cc[0]}{cc[1]}",
        registers=cubin.registers,
        spills=cubin.spills,
        local=cubin.stack,
        shared=cubin.shared + source.shared,
        loads=counts["ld"],
        wide_loads=counts["ld wide"],
        stores=counts["st"],
        wide_stores=counts["st wide"],
        float64=len(_FLOAT64.findall(ptx)),
        occupancy=occupancy(cubin, source.threads, source.shared, cc),
    )


def _body(ptx: str) -> str:
    """Return PTX without comments; the source of the kernel is one."""
    return re.sub(r"//.*|/\*.*?\*/", "", ptx)


def occupancy(cubin: Cubin, threads: int, dynamic: int = 0, cc: tuple[int, int] = (9, 0)) -> float:
    """Return the share of the threads of a multiprocessor that run at once, with blocks of this many threads.

    ``dynamic`` are bytes of dynamic shared memory of a block.

    >>> occupancy(Cubin(b"", registers=32, stack=0, spills=0, shared=0), 256)
    1.0
    >>> occupancy(Cubin(b"", registers=64, stack=0, spills=0, shared=0), 256)
    0.5
    """
    most_threads, most_blocks, memory = _LIMITS[min(max(cc[0], 8), 10)]
    warps = -(-threads // _WARP)
    of_warp = -(-max(cubin.registers, 1) * _WARP // _ALLOCATION) * _ALLOCATION
    by_registers = (1 << 16) // of_warp // warps
    shared = cubin.shared + dynamic + 1024  # what the system takes of each block
    blocks = min(most_blocks, most_threads // (warps * _WARP), by_registers, memory // shared)
    return blocks * warps * _WARP / most_threads


def nvdisasm() -> Path | None:
    """Return the disassembler, if its distribution or CUDA's toolkit is installed."""
    import shutil
    import sys

    for place in sys.path:
        for found in Path(place, "nvidia").glob("*/bin/nvdisasm*"):
            return found
    on_path = shutil.which("nvdisasm")
    return Path(on_path) if on_path else None


def sass_of(cubin: Cubin) -> str:
    """Return the machine code of a kernel as text; RuntimeError without a disassembler."""
    import subprocess
    import tempfile

    program = nvdisasm()
    if program is None:
        raise RuntimeError("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin.image)
        return subprocess.run([program, "-c", path], capture_output=True, text=True, check=True).stdout
