"""The template ``rows`` on the host: which form of the kernel a call gets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....core.storage import StridedArray
from .....ops.scalar import variable
from ....external.scalar_function import RowFunction, ScalarFunction
from ....external.templates import identity
from ...compiling import KernelSource
from ...device import launching
from ...device.prepared_launches import prepared
from ..launches import address
from ..reduction import Scratch, reduction
from .sweep_source import Form, sweep_source
from .sweep_steps import kept_rows

__all__ = ["form_of", "sweeping"]

_REGISTERS = 16  # of a thread, for the elements of rows
_WARP = 32
_BLOCK = 512  # threads of the largest block
_BLOCKS = 256  # that sum values over rows: two to a multiprocessor of the largest devices
_FEW_ROWS, _MANY_COLUMNS = 64, 1 << 16


_Call = tuple[KernelSource, int, int, list[Any]]  # a kernel, grid and block, windows and numbers


def form_of(function: RowFunction, columns: int, aligned: bool) -> Form:
    """Return the form of the kernel for rows of a length."""
    size = function.dtype.itemsize
    width = 1 if not aligned else 2 if size == 8 else 4
    held = _REGISTERS * 4 // size // _power(kept_rows(function)) // (2 if width == 1 else 1)
    sums = any(array.role == "column" for array in function.results)
    if sums:  # of every element, which are in registers to the end
        held = held * 2 // size
    if held < width:
        width = 1
    most = max(1, held)  # elements of a thread; each has an address if they are not adjacent
    pieces = -(-columns // width)
    if columns <= _WARP * most and not sums:
        lanes = min(_power(pieces), _WARP)
        return Form(lanes, _power(-(-pieces // lanes)), width)
    for lanes in (64, 128, 256, _BLOCK):
        if columns <= lanes * most:
            return Form(lanes, _power(-(-pieces // lanes)), width)
    return Form(_BLOCK, 4 if width == 1 else 2, width, is_long=True)


def sweeping(backend: Any, function: RowFunction) -> Callable[..., None] | None:
    """Return the host function ``kernel(outs, xs, numbers)`` of the template ``rows``.

    ``backend`` has the methods ``launch`` and ``scratch`` of the CUDA backend.
    """
    sums = [k for k, array in enumerate(function.results) if array.role == "column"]
    add = _sum(function, function.results[sums[0]].dtype, backend.scratch) if sums else None
    sweep_source(function, Form(2 * _WARP, 1, 1))  # NotImplementedError, before any call

    source = functools.cache(functools.partial(sweep_source, function))
    form = functools.cache(functools.partial(form_of, function))

    def call(outs: Sequence[StridedArray], xs: Sequence[StridedArray], numbers: Sequence[float]) -> _Call:
        rows, columns = next(x.shape for x, array in zip(xs, function.inputs, strict=True) if array.role == "row")
        if rows < _FEW_ROWS and columns > _MANY_COLUMNS:
            raise NotImplementedError("a block for each row does not occupy the device")
        arguments: list[Any] = [rows, columns, *numbers, *outs]
        width = 2 if function.dtype.itemsize == 8 else 4
        aligned = not columns % width
        for out, array in zip(outs, function.results, strict=True):
            aligned = aligned and (array.role == "each" or _is_aligned(out, width))
        for x, array in zip(xs, function.inputs, strict=True):
            arguments.append(x)
            if array.role == "row":
                step = x.strides[0] // x.dtype.itemsize
                arguments.append(step)
                aligned = aligned and not step % width
            aligned = aligned and (array.role == "each" or _is_aligned(x, width))
        chosen = form(columns, aligned)
        if sums and chosen.is_long:
            raise NotImplementedError("the sums of a row over all rows do not fit in registers")
        blocks = -(-rows // (chosen.threads // chosen.lanes))
        return source(chosen), min(blocks, _BLOCKS) if sums else blocks, chosen.threads, arguments

    def kernel(outs: tuple[StridedArray, ...], xs: tuple[StridedArray, ...], numbers: Sequence[float]) -> None:
        if add is None:
            text, grid, block, arguments = call(outs, xs, numbers)
            backend.launch(text, grid, block, *arguments)
            return
        rows, columns = next(x.shape for x, array in zip(xs, function.inputs, strict=True) if array.role == "row")
        size = function.dtype.itemsize
        parts = {k: backend.scratch((min(rows, _BLOCKS), columns), function.dtype, outs[0].device) for k in sums}
        text, grid, block, arguments = call([parts.get(k, out) for k, out in enumerate(outs)], xs, numbers)
        backend.launch(text, grid, block, *arguments)
        for k, part in parts.items():
            add(outs[k], part.window((columns, grid), (size, columns * size), part.offset))

    def prepare(
        out: StridedArray, xs: tuple[StridedArray, ...], numbers: Sequence[float]
    ) -> Callable[..., StridedArray | None]:
        text, grid, block, arguments = call((out,), xs, numbers)
        given = [address(value) if value.__class__ is StridedArray else value for value in arguments]
        return prepared(functools.partial(launching.kernel, text, out.device.index), grid, block, given, out)

    if not sums:
        kernel.prepare = prepare  # type: ignore[attr-defined]
    return kernel


def _sum(function: RowFunction, result: np.dtype, scratch: Scratch) -> Callable[..., None]:
    """Return the host function that sums the parts of the blocks."""
    name = f"{function.name} sums"
    both = ScalarFunction(name, ("a", "b"), variable("a") + variable("b"), result)
    return reduction(both, ScalarFunction(name, ("x",), identity(result), result), function.dtype, scratch)


def _is_aligned(window: StridedArray, width: int) -> bool:
    return address(window) % min(16, width * window.dtype.itemsize) == 0


def _power(n: int) -> int:
    """Return the smallest power of two that is not less."""
    return 1 << (n - 1).bit_length()
