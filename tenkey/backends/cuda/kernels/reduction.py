"""Reductions along rows, with any associative and commutative function.

Note [Forms of reductions]
~~~~~~~~~~~~~~~~~~~~~~~~~~
*Columns*: where neighbouring rows are adjacent in memory, or rows are short, a thread belongs to a row, and the threads
of a block (32 rows, 8 places in each) join their parts through shared memory. *Warp*: up to 1,024 elements, a warp
takes a row, and its lanes join theirs by a tree of shuffles. *Block*: a block of 8 warps takes a row. Where there are
too few rows to occupy the device, several blocks take a part of a row each, and a second pass joins the parts. No form
needs a neutral element: a lane beyond the end reads the first element, and its value is not used. The order in which
elements are combined depends on the shape, the strides and the alignment, so results are the same in every run. Rows
without gaps are read in vectors of four elements. Places have 32 bits where those of the window fit. Floats of 16 bits
are combined in float32 and rounded once. Guarded by
``tests/backends/cuda/kernels/test_reduction.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.storage import StridedArray
from ....ops.scalar import topological_order
from ...external.scalar_function import ScalarFunction
from ...external.templates import identity
from ..compiling import KernelSource
from ..device.prepared_launches import prepared
from .emission import TYPES, parts_count
from .launches import Launcher, address, reach, word
from .places import inner
from .pointwise import element_source, kernel_name
from .registers import register_of

__all__ = ["Scratch", "reduction", "reduction_source"]

Scratch = Callable[[tuple[int, ...], np.dtype, Any], StridedArray]
"""Returns an uninitialized window of a shape and dtype on a device, for results between two passes."""

_WARP: Final = 32
_WARPS: Final = 8  # of a block
_THREADS: Final = _WARP * _WARPS
_WARP_ROW: Final = 1024  # the longest row of a single warp
_VECTOR: Final = 4
_MOST_32: Final = 1 << 31
_SHORT_FUNCTIONS: Final = 10  # operations of which loops are unrolled
_SHORT: Final = 8  # a row of so many elements is one thread's
_OCCUPYING: Final = 2048  # blocks that fill a large device
_LEAST_CHUNK: Final = 1024  # elements of a block, if there are several to a row


class _Text:
    """The statements that all forms are made of, for one combination of functions and dtypes."""

    def __init__(
        self, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, target: np.dtype | None = None,
        *, wide: bool = False, vector: bool = False,
    ) -> None:  # fmt: skip
        self.wide = wide
        self.vector = vector
        self.dtype = combine.dtype
        self.target = combine.dtype if target is None else target
        self.register = register_of(str(combine.dtype))
        self.names = self.register.names  # the variables that hold a value
        self.operand = operand
        self.is_short = len(topological_order([scalar.expression, combine.expression])) <= _SHORT_FUNCTIONS
        self.head = "\n".join([
            element_source(scalar, [operand], combine.dtype, "element"),
            element_source(combine, [combine.dtype] * 2, combine.dtype, "combine"),
            _VECTOR_ELEMENT if vector else "",
        ])  # fmt: skip
        index = "uint64" if wide else "uint32"
        pointers = (f"{TYPES[str(self.target)]}*", f"{TYPES[str(operand)]}*")
        self.parameters = (index, index, *pointers, index, index)

    def element(self, name: str, at: str) -> str:
        """Return the statement that loads the element at a place, counted in parts of elements or in vectors."""
        if self.vector:
            return f"{name} = vector_element(*load_vector4(x, int64(shift_left({at}, uint64(2)))))"
        values = f"x[{at}]" if parts_count(str(self.operand)) == 1 else f"x[{at}], x[wrap_add({at}, uint64(1))]"
        return f"{', '.join(self.names(name))} = element({values})"

    def shared(self, shape: str) -> list[str]:
        """Return the statements that declare shared memory for totals."""
        return [f"{name}_shared = cuda.shared.array({shape}, {self.register.kind})" for name in self.names("total")]

    def join(self, name: str, a: str, b: str) -> str:
        """Return the statement that combines two values."""
        return self.register.call(name, "combine", a, b)[0]

    def kept(self, condition: str, name: str, chosen: str) -> list[str]:
        """Return the statements that replace a value where a condition holds."""
        pairs = zip(self.names(name), self.names(chosen), strict=True)
        return [f"{old} = select({condition}, {new}, {old})" for old, new in pairs]

    def stored(self, name: str, at: str) -> list[str]:
        """Return the statements that store a value as an element of the result."""
        if self.register.parts == 1:
            return [f"out[{at}] = {name if self.target == self.dtype else f'to_{self.target}({name})'}"]
        first, second = self.names(name)
        return [f"place = shift_left({at}, uint64(1))", f"out[place] = {first}", f"out[place + uint64(1)] = {second}"]

    def walk(self, end: str, stride: int) -> list[str]:
        """Return the statements that join to ``total`` the elements at every ``stride``-th place after ``k``.

        ``at`` is the place of the element ``k``, which ``total`` holds. Elements of short functions are loaded four at
        a time, so that the memory has more to do while they arrive.
        """
        lines = [
            f"step = wrap_multiply(column_step, uint64({stride}))",
            f"k = wrap_add(k, uint64({stride}))",
            "at = wrap_add(at, step)",
        ]
        if self.is_short:
            lines.append(f"while wrap_add(k, uint64({3 * stride})) < {end}:")
            body = []
            for n in range(4):
                body += [self.element(f"value{n}", "at"), "at = wrap_add(at, step)"]
            for a, b in ((0, 1), (2, 3), (0, 2)):
                body.append(self.join(f"value{a}", f"value{a}", f"value{b}"))
            body += [self.join("total", "total", "value0"), f"k = wrap_add(k, uint64({4 * stride}))"]
            lines += inner(body)
        rest = [
            self.element("value", "at"), self.join("total", "total", "value"), "at = wrap_add(at, step)",
            f"k = wrap_add(k, uint64({stride}))",
        ]  # fmt: skip
        return [*lines, f"while k < {end}:", *inner(rest)]

    def tree(self, count: str) -> list[str]:
        """Return the statements that join ``total`` of the first ``count`` lanes of a warp in its first lane."""
        lines = []
        for offset in (16, 8, 4, 2, 1):
            pairs = zip(self.names("other"), self.names("total"), strict=True)
            lines += [f"{other} = shuffle_down({total}, uint32({offset}))" for other, total in pairs]
            lines.append(self.join("joined", "total", "other"))
            lines += self.kept(f"uint64(lane + {offset}) < {count}", "total", "joined")
        return lines

    def source(self, form: str, name: str, lines: list[str]) -> KernelSource:
        """Return the kernel. The statements are written for places of 64 bits; they are those of 32 bits otherwise."""
        width = ["64"] if self.wide else []
        title = kernel_name(name, form, *(["vector"] if self.vector else []), *width, str(self.target))
        body = "\n".join(inner(lines))
        if not self.wide:
            body = body.replace("uint64(", "uint32(")
        signature = "rows, columns, out, x, row_step, column_step"
        text = f"{self.head}\n\ndef {title}({signature}"
        parameters: tuple[str, ...] = self.parameters
        if form != "warp":
            text += ", splits"
            parameters = (*parameters, parameters[0])
        return KernelSource(title, f"{text}):\n{body}\n", parameters, _THREADS)


# Four adjacent elements as one, for rows without gaps.
_VECTOR_ELEMENT: Final = """\
def vector_element(a, b, c, d):
    return combine(combine(element(a), element(b)), combine(element(c), element(d)))
"""


def reduction_source(
    form: str, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, target: np.dtype | None = None,
    *, wide: bool = False, vector: bool = False,
) -> KernelSource:  # fmt: skip
    """Return the kernel of a form (rows, columns, out, x, row_step, column_step, splits): Note [Forms of reductions].

    For "warp" there are no ``splits``; for "block" a block takes one of so many parts of a row, and ``out`` has a place
    for each part; for "columns" blocks are (32, 8), and ``out`` has the shape (splits, rows).
    """
    text = _Text(combine, scalar, operand, target, wide=wide, vector=vector)
    return text.source(form, combine.name, {"warp": _warp, "block": _block, "columns": _columns}[form](text))


def _warp(text: _Text) -> list[str]:
    row = [
        "base = wrap_multiply(row, row_step)",
        "at = wrap_add(base, wrap_multiply(select(lane64 < columns, lane64, uint64(0)), column_step))",
        text.element("total", "at"),
        "k = lane64",
        *text.walk("columns", _WARP),
        *text.tree("columns"),
        "if lane == 0:",
        *inner(text.stored("total", "row")),
    ]
    return [
        "lane = int32(cuda.threadIdx.x & 31)", "lane64 = uint64(lane)",
        f"row = wrap_add(wrap_multiply(uint64(cuda.blockIdx.x), uint64({_WARPS})), uint64(cuda.threadIdx.x >> 5))",
        "if row < rows:",
        *inner(row),
    ]  # fmt: skip


# From where to where a part of a row goes.
_PART: Final = (
    "chunk = unsigned_quotient(wrap_add(columns, wrap_subtract(splits, uint64(1))), splits)",
    "start = wrap_multiply(split, chunk)",
    "end = wrap_add(start, chunk)",
    "end = select(end < columns, end, columns)",
)


def _block(text: _Text) -> list[str]:
    return [
        *text.shared(f"{_WARPS}"),
        "thread = cuda.threadIdx.x", "lane = int32(thread & 31)",
        "row = unsigned_quotient(uint64(cuda.blockIdx.x), splits)",
        "split = unsigned_remainder(uint64(cuda.blockIdx.x), splits)",
        *_PART,
        "count = wrap_subtract(end, start)",
        "base = wrap_multiply(row, row_step)",
        "k = wrap_add(start, uint64(thread))",
        "at = wrap_add(base, wrap_multiply(select(k < end, k, start), column_step))",
        text.element("total", "at"),
        *text.walk("end", _THREADS),
        "first = uint64(thread & 0x7FFFFFE0)",
        "valid = select(count > first, wrap_subtract(count, first), uint64(0))",
        *text.tree("valid"),
        "if lane == 0:",
        *[f"    {name}_shared[thread >> 5] = {name}" for name in text.names("total")],
        "cuda.syncthreads()",
        "if thread < 32:",
        f"    warps = unsigned_quotient(wrap_add(count, uint64(31)), uint64({_WARP}))",
        f"    warps = select(warps < uint64({_WARPS}), warps, uint64({_WARPS}))",
        *[f"    {name} = {name}_shared[select(lane < {_WARPS}, lane, int32(0))]" for name in text.names("total")],
        *inner(text.tree("warps")),
        "    if lane == 0:",
        *inner(inner(text.stored("total", "uint64(cuda.blockIdx.x)"))),
    ]  # fmt: skip


def _columns(text: _Text) -> list[str]:
    return [
        *text.shared(f"({_WARPS}, {_WARP})"),
        "tx = cuda.threadIdx.x", "ty = cuda.threadIdx.y",
        "row = wrap_add(wrap_multiply(uint64(cuda.blockIdx.x), uint64(32)), uint64(tx))",
        "split = uint64(cuda.blockIdx.y)",
        *_PART,
        "base = wrap_multiply(select(row < rows, row, uint64(0)), row_step)",
        "k = wrap_add(start, uint64(ty))",
        "at = wrap_add(base, wrap_multiply(select(k < end, k, start), column_step))",
        text.element("total", "at"),
        *text.walk("end", _WARPS),
        *[f"{name}_shared[ty, tx] = {name}" for name in text.names("total")],
        "cuda.syncthreads()",
        "if (ty == 0) & (row < rows):",
        "    count = wrap_subtract(end, start)",
        f"    count = int32(select(count < uint64({_WARPS}), count, uint64({_WARPS})))",
        "    j = int32(1)",
        "    while j < count:",
        *[f"        {value} = {total}_shared[j, tx]" for value, total in
          zip(text.names("value"), text.names("total"), strict=True)],
        f"        {text.join('total', 'total', 'value')}",
        "        j = wrap_add(j, int32(1))",
        "    place_of_row = wrap_add(wrap_multiply(split, rows), row)",
        *inner(text.stored("total", "place_of_row")),
    ]  # fmt: skip


def reduction(
    combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, scratch: Scratch
) -> Callable[[StridedArray, StridedArray], None]:
    """Return the host function ``kernel(out, x)`` of the template ``reduction``."""
    half = str(combine.dtype) in ("float16", "bfloat16")
    dtype = np.dtype(np.float32) if half else combine.dtype  # of what is combined
    joined = ScalarFunction(combine.name, combine.parameters, combine.expression, dtype)
    same = ScalarFunction("join", ("x",), identity(dtype), dtype)
    allows_vectors = operand.kind != "c" and dtype.kind != "c"
    _Text(joined, scalar, operand)  # NotImplementedError, before any call

    @functools.cache
    def launcher(form: _Kind, first: bool, last: bool) -> Launcher:
        element, source = (scalar, operand) if first else (same, dtype)
        target = combine.dtype if last else dtype
        return Launcher(
            reduction_source(form.name, joined, element, source, target, wide=form.wide, vector=form.vector)
        )

    def arguments(form: _Form, target: StridedArray, x: StridedArray) -> list[Any]:
        rows, columns = x.shape
        steps = [step // word(x.dtype) for step in x.strides]
        if form.kind.vector:
            columns, steps = columns // _VECTOR, [steps[0] // _VECTOR, 1]
        mask = (1 << 64) - 1 if form.kind.wide else (1 << 32) - 1  # negative steps wrap around, as sums of them do
        given = [rows, columns, address(target), address(x), *[step & mask for step in steps]]
        return given if form.kind.name == "warp" else [*given, form.splits]

    def run(out: StridedArray, x: StridedArray, first: bool) -> None:
        form = _form_of(x, allows_vectors)
        rows, splits = x.shape[0], form.splits
        target = parts = out
        if splits > 1 and form.kind.name == "columns":
            target = scratch((splits, rows), dtype, out.device)
            parts = target.window((rows, splits), (dtype.itemsize, rows * dtype.itemsize), target.offset)
        elif splits > 1:
            target = parts = scratch((rows, splits), dtype, out.device)
        kernel = launcher(form.kind, first, splits == 1)
        kernel(x.device.index, form.grid, form.block, *arguments(form, target, x))
        if splits > 1:
            run(out, parts, False)

    def kernel(out: StridedArray, x: StridedArray) -> None:
        run(out, x, True)

    def prepare(out: StridedArray, x: StridedArray) -> Callable[..., StridedArray | None] | None:
        form = _form_of(x, allows_vectors)
        if form.splits > 1:
            return None
        loaded = functools.partial(launcher(form.kind, True, True).on, out.device.index)
        return prepared(loaded, form.grid, form.block, arguments(form, out, x), out)

    kernel.prepare = prepare  # type: ignore[attr-defined]
    return kernel


class _Kind(NamedTuple):
    """A kernel of a reduction: its form, whether places have 64 bits, and whether elements are taken four at a time."""

    name: str
    wide: bool
    vector: bool = False


class _Form(NamedTuple):
    """The kernel for a layout, its grid and block, and into how many parts a row is divided."""

    kind: _Kind
    grid: Any
    block: Any
    splits: int


def _form_of(x: StridedArray, allows_vectors: bool) -> _Form:
    rows, columns = x.shape
    row_step, column_step = x.strides
    wide = not 0 <= reach(x) < _MOST_32 or x.size >= _MOST_32
    if columns <= _SHORT or (rows >= _WARP and abs(row_step) < abs(column_step)):
        blocks = -(-rows // _WARP)
        splits = _splits(blocks, columns, 64)
        return _Form(_Kind("columns", wide), (blocks, splits), (_WARP, _WARPS), splits)
    vector = allows_vectors and columns >= _VECTOR * _WARP and _in_vectors(x)
    if columns <= _WARP_ROW:
        return _Form(_Kind("warp", wide, vector), -(-rows // _WARPS), min(_WARPS, rows) * _WARP, 1)
    each = _VECTOR if vector else 1
    splits = _splits(rows, columns // each, _LEAST_CHUNK // each)
    return _Form(_Kind("block", wide, vector), rows * splits, _THREADS, splits)


def _in_vectors(x: StridedArray) -> bool:
    """Tell whether each row consists of vectors of adjacent elements at aligned addresses."""
    (rows, columns), (row_step, column_step) = x.shape, x.strides
    size = x.dtype.itemsize
    if column_step != size or columns % _VECTOR or (rows > 1 and row_step % (_VECTOR * size)):
        return False
    return address(x) % min(16, _VECTOR * size) == 0


def _splits(blocks: int, columns: int, least: int) -> int:
    """Return the number of parts of a row, so that the device is occupied; no part is empty."""
    wanted = min(max(1, _OCCUPYING // blocks), max(1, columns // least), 1024)
    chunk = -(-columns // wanted)
    return -(-columns // chunk)
