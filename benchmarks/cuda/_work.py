"""The large work of ``python -m benchmarks.cuda``, and the least time that each part can take on a GPU.

Note [Roofline]
    A kernel can be no faster than its compulsory traffic (each operand read once, each result written once) at the
    bandwidth of the memory, nor than its arithmetic at the peak of the units that it uses. The larger of the two is the
    minimum time. A statement of several operators is counted as one kernel for each; softmax and the layer norm are one
    kernel, which they could be. Functions such as exp count as some operations, which matters for none. Figures of the
    devices are those of NVIDIA's data sheets (H100 SXM, H200 SXM; dense, without sparsity); a copy reaches about nine
    tenths of the bandwidth. Measurements are compared with the minimum, so that a kernel that is faster than another
    library's, and still slow, is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["DEVICES", "WORK", "Device", "Part", "make_work", "minimum"]


@dataclass(frozen=True)
class Device:
    """A GPU: bytes of memory per second, and operations per second by the units that compute them."""

    name: str
    bandwidth: float
    peaks: Mapping[str, float]


_PEAKS: Final = {"float32": 67e12, "float64": 34e12, "tf32": 494e12, "bfloat16": 989e12}
DEVICES: Final = (Device("H100", 3.35e12, _PEAKS), Device("H200", 4.8e12, _PEAKS))


@dataclass(frozen=True)
class Part:
    """One line of the table: a statement for all libraries, its operands, and what it must move and compute.

    ``targets`` are the least share of the bandwidth of a copy, and of PyTorch's speed; None where there is none.
    """

    name: str
    statement: str
    operands: Mapping[str, tuple[tuple[int, ...], str]]
    bytes: float
    flops: float
    units: str = "float32"
    of_copy: float | None = None
    of_torch: float | None = None


def minimum(part: Part, device: Device) -> tuple[float, str]:
    """Return the least seconds that a part can take on a device, and whether memory or arithmetic limits it.

    >>> add = next(part for part in WORK if part.name.startswith("add"))
    >>> seconds, limit = minimum(add, DEVICES[1])
    >>> f"{1e6 * seconds:.0f} us", limit
    ('250 us', 'memory')
    """
    memory, arithmetic = part.bytes / device.bandwidth, part.flops / device.peaks[part.units]
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


def make_work(flat: int = 10**8, side: int = 4096) -> tuple[Part, ...]:
    """Return the parts for vectors of ``flat`` elements and matrices of ``side`` rows and columns.

    >>> [part.bytes for part in make_work(10, 4)][:2]
    [80, 120]
    """
    n, cells, large, small = flat, side * side, 2 * side, side // 2
    vector, square = ((flat,), "float32"), ((side, side), "float32")
    narrow, half = ((flat,), "bfloat16"), ((large, large), "bfloat16")
    double = ((small, small), "float64")
    count = f"1e{len(str(n)) - 1}" if n == 10 ** (len(str(n)) - 1) else str(n)
    shape = f"{side} x {side}"
    return (
        Part(f"copy, {count} float32", "copy(x)", {"x": vector}, 8 * n, 0, of_copy=1.0),
        Part(f"add, {count} float32", "x + y", {"x": vector, "y": vector}, 12 * n, n, of_copy=0.9, of_torch=0.97),
        Part(f"add, {count} bfloat16", "x + y", {"x": narrow, "y": narrow}, 6 * n, n, of_copy=0.9, of_torch=0.97),
        Part(f"x * 2 + 1, {count} float32", "x * 2 + 1", {"x": vector}, 16 * n, 2 * n, of_torch=0.97),
        Part(f"exp, {count} float32", "exp(x)", {"x": vector}, 8 * n, 10 * n, of_copy=0.9, of_torch=0.97),
        Part(f"sin, {count} float32", "sin(x)", {"x": vector}, 8 * n, 20 * n, of_torch=0.97),
        Part(f"add a row, {shape}", "x + y", {"x": square, "y": ((side,), "float32")}, 8 * cells + 4 * side, cells,
             of_torch=0.8),
        Part(f"add a column, {shape}", "x + y", {"x": square, "y": ((side, 1), "float32")}, 8 * cells + 4 * side,
             cells, of_torch=0.8),
        Part(f"transposed copy, {shape}", "copy(x.T)", {"x": square}, 8 * cells, 0, of_torch=0.8),
        Part(f"where, {count} float32", "where(x > 0, x, y)", {"x": vector, "y": vector}, 18 * n, 2 * n, of_torch=0.8),
        Part(f"sum, {count} float32", "sum(x)", {"x": vector}, 4 * n + 4, n, of_torch=0.9),
        Part(f"sum of rows, {shape}", "sum(x, 1)", {"x": square}, 4 * cells + 4 * side, cells, of_torch=0.9),
        Part(f"sum of columns, {shape}", "sum(x, 0)", {"x": square}, 4 * cells + 4 * side, cells, of_torch=0.9),
        Part(f"argmax of rows, {shape}", "argmax(x, 1)", {"x": square}, 4 * cells + 8 * side, cells, of_torch=0.9),
        Part(f"softmax, {shape}", "softmax(x)", {"x": square}, 8 * cells, 15 * cells, of_torch=0.9),
        Part(f"layer norm, {shape}", "layer_norm(x)", {"x": square}, 8 * cells, 8 * cells, of_torch=0.9),
        Part(f"cumulative sum, {count} float32", "cumsum(x, 0)", {"x": vector}, 8 * n, n, of_torch=0.8),
        Part(f"sort, {shape}", "sort(x)", {"x": square}, 8 * cells, 0, of_torch=0.8),
        Part(f"rows by index, {side} of {side}", "take(x, i)", {"x": square, "i": ((side,), "int64")},
             8 * cells + 8 * side, 0, of_torch=0.8),
        Part(f"matmul {side}, float32", "x @ y", {"x": square, "y": square}, 12 * cells, 2 * side**3, of_torch=0.97),
        Part(f"matmul {large}, bfloat16", "x @ y", {"x": half, "y": half}, 6 * large**2, 2 * large**3, "bfloat16",
             of_torch=0.97),
        Part(f"matmul {small}, float64", "x @ y", {"x": double, "y": double}, 24 * small**2, 2 * small**3, "float64",
             of_torch=0.97),
    )  # fmt: skip


WORK: Final = make_work()
