"""The work of ``python -m benchmarks.cuda``, and the least time that each part can take on a GPU.

Note [Roofline]
    A kernel can be no faster than its compulsory traffic (each operand read once, each result written once) at the
    bandwidth of the memory, nor than its arithmetic at the peak of the units that it uses. The larger of the two is
    the minimum time. Figures of the devices are those of NVIDIA's data sheets (H100 SXM, H200 SXM; dense, without
    sparsity); a copy reaches about nine tenths of the bandwidth. Measurements are compared with the minimum, so that a
    kernel that is faster than another library's, and still slow, is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["DEVICES", "WORK", "Device", "Part", "minimum"]


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
    statements: Mapping[str, str] = field(default_factory=dict)  # of libraries that write it differently


def minimum(part: Part, device: Device) -> tuple[float, str]:
    """Return the least seconds that a part can take on a device, and whether memory or arithmetic limits it.

    >>> add = next(part for part in WORK if part.name.startswith("add"))
    >>> seconds, limit = minimum(add, DEVICES[1])
    >>> f"{1e6 * seconds:.0f} us", limit
    ('250 us', 'memory')
    """
    memory, arithmetic = part.bytes / device.bandwidth, part.flops / device.peaks[part.units]
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


_N: Final = 10**8
_ROWS: Final = (4096, 4096)
_CELLS: Final = 4096 * 4096
_FLAT: Final = ((_N,), "float32")
_SQUARE: Final = (_ROWS, "float32")
WORK: Final = (
    Part("copy, 1e8 float32", "copy(x)", {"x": _FLAT}, 8 * _N, 0, of_copy=1.0),
    Part("add, 1e8 float32", "x + y", {"x": _FLAT, "y": _FLAT}, 12 * _N, _N, of_copy=0.9, of_torch=0.97),
    Part("add, 1e8 bfloat16", "x + y", {"x": ((_N,), "bfloat16"), "y": ((_N,), "bfloat16")}, 6 * _N, _N,
         of_copy=0.9, of_torch=0.97),
    Part("x * 2 + 1, 1e8 float32", "x * 2 + 1", {"x": _FLAT}, 16 * _N, 2 * _N, of_torch=0.97),
    Part("exp, 1e8 float32", "exp(x)", {"x": _FLAT}, 8 * _N, 10 * _N, of_copy=0.9, of_torch=0.97),
    Part("sin, 1e8 float32", "sin(x)", {"x": _FLAT}, 8 * _N, 20 * _N, of_torch=0.97),
    Part("add a row, 4096 x 4096", "x + y", {"x": _SQUARE, "y": ((4096,), "float32")}, 8 * _CELLS, _CELLS,
         of_torch=0.8),
    Part("add a column, 4096 x 4096", "x + y", {"x": _SQUARE, "y": ((4096, 1), "float32")}, 8 * _CELLS, _CELLS,
         of_torch=0.8),
    Part("transposed copy, 4096 x 4096", "copy(x.T)", {"x": _SQUARE}, 8 * _CELLS, 0, of_torch=0.8),
    Part("where, 1e8 float32", "where(x > 0, x, y)", {"x": _FLAT, "y": _FLAT}, 18 * _N, 2 * _N, of_torch=0.8),
    Part("sum, 1e8 float32", "sum(x)", {"x": _FLAT}, 4 * _N, _N, of_torch=0.9),
    Part("sum of rows, 4096 x 4096", "sum(x, 1)", {"x": _SQUARE}, 4 * _CELLS, _CELLS, of_torch=0.9),
    Part("sum of columns, 4096 x 4096", "sum(x, 0)", {"x": _SQUARE}, 4 * _CELLS, _CELLS, of_torch=0.9),
    Part("argmax of rows, 4096 x 4096", "argmax(x, 1)", {"x": _SQUARE}, 4 * _CELLS, _CELLS, of_torch=0.9),
    Part("softmax, 4096 x 4096", "softmax(x)", {"x": _SQUARE}, 8 * _CELLS, 15 * _CELLS, of_torch=0.9),
    Part("layer norm, 4096 x 4096", "layer_norm(x)", {"x": _SQUARE}, 8 * _CELLS, 8 * _CELLS, of_torch=0.9),
    Part("cumulative sum, 1e8 float32", "cumsum(x, 0)", {"x": _FLAT}, 8 * _N, _N, of_torch=0.8),
    Part("sort, 4096 x 4096", "sort(x)", {"x": _SQUARE}, 16 * _CELLS, 0, of_torch=0.8),
    Part("rows by index, 4096 of 4096", "take(x, i)", {"x": _SQUARE, "i": ((4096,), "int64")}, 8 * _CELLS, 0,
         of_torch=0.8),
    Part("matmul 4096, float32", "x @ y", {"x": _SQUARE, "y": _SQUARE}, 12 * _CELLS, 2 * 4096**3, of_torch=0.97),
    Part("matmul 8192, bfloat16", "x @ y", {"x": ((8192, 8192), "bfloat16"), "y": ((8192, 8192), "bfloat16")},
         6 * 8192**2, 2 * 8192**3, "bfloat16", of_torch=0.97),
    Part("matmul 2048, float64", "x @ y", {"x": ((2048, 2048), "float64"), "y": ((2048, 2048), "float64")},
         24 * 2048**2, 2 * 2048**3, "float64", of_torch=0.97),
)  # fmt: skip
