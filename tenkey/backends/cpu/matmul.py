"""The CPU kernel of matrix products: NumPy's BLAS for small ones, our loops for large ones, batches and integers.

Note [Which products are our own]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A small product is one call of BLAS: OpenBLAS computes up to 2^18 multiply-adds in the thread of the call. A batch NumPy
computes matrix by matrix on one core, and products of integers without BLAS; ours share a batch among the cores
(Note [A tile of registers]). A single large product takes as long as OpenBLAS's, measured in CPU time, and is ours too:
the threads of OpenBLAS go on spinning after a call, which slows down the next operator by a factor of 1.5 to 3 on as
many cores, and stall when another thread holds a core: in products of 128 x 512 x 10, they delayed every fourth
training step by 4 to 25 ms on two cores. Products with a vector and of complex numbers stay with NumPy.
Guarded by ``tests/backends/test_product_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.dtypes.promotion import result_dtype
from ...core.plans import Simple
from ...core.tensor import Tensor, cpu_word
from ...core.tensor_base import new_handle
from ...core.word import DTYPE_MASK, dtypes_of
from ...dispatch.operator import Operator
from ...ops.shapes import broadcast_shapes
from ..allocation.host import allocate
from ..llvm.compiled import Case, UnavailableError
from ..llvm.compiled import kernel as compiled
from ..llvm.value_types import of_dtype
from .fp_warnings import quietly, silenced
from .kernels import Specialized, check
from .loops.moves.strided_copies import copied
from .loops.products import MOST_PLACES, PLACE_BYTES, all_widths, matrix_product, tile_size, widths_of
from .pool import STATE, get_num_threads
from .pool.state_block import HELPERS, RUN, block

__all__ = ["KERNELS", "matmul_kernel"]

SMALL: Final = 1 << 10  # elements of the first matrix up to which BLAS is called at once
IN_CACHE: Final = 1 << 18  # bytes of the second matrix up to which it is read where it is
LEAST: Final = 1 << 15  # multiply-adds of a whole batch, or of integers, that are worth our loops
MOST_OF_BLAS: Final = 1 << 18  # of one product of floats, for which OpenBLAS wakes no thread
THIN: Final = 4  # rows or columns up to which BLAS treats a product as one with a vector
FEW: Final = 256  # rows of the first matrix up to which a larger second one is read where it is
FEWER: Final = 24  # the same where rows of the second one lie whole pages apart: they displace each other from caches
PAGE: Final = 4096  # bytes
MANY: Final = 5  # vectors of columns, from which on all numbers of them have one loop
TURNED_COLUMNS: Final = 512  # columns up to which a transposed first matrix is copied block by block
TURNED_ROWS: Final = 64  # the same, rows from which on: few of them make few blocks
_NONE: Final = np.empty(0, np.uint8)


def matmul_kernel(operator: Operator, word: int) -> Callable[..., Tensor]:
    """Return the kernel of matrix products for tensors of these dtypes."""
    found = dtypes_of(word & DTYPE_MASK)
    dtype = result_dtype(found)
    result_word = cpu_word(dtype)
    same = len(found) == 1 and dtype != dtypes.float16
    computed = dtypes.float32 if dtype == dtypes.float16 else dtype  # BLAS has no float16: it computes in float32
    own = computed.name in ("float32", "float64") or computed.kind in "iu"
    small, most = (SMALL, MOST_OF_BLAS) if computed.kind == "f" else (64, LEAST)

    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.ndim == 2 == b.ndim and a.size * b.shape[1] <= most:
            try:
                data: np.ndarray = quietly(a.dot, b)
            except RuntimeError:  # Note [A context without warnings]
                data = silenced(a.dot, b)
            return data
        return silenced(any_product, a, b, own and a.size > small)  # type: ignore[no-any-return]

    def kernel(x1: Tensor, x2: Tensor) -> Tensor:
        a, b = x1._data, x2._data
        try:
            if same:
                data = multiply(a, b)
            else:
                data = multiply(a.astype(computed, copy=False), b.astype(computed, copy=False))
            if computed is not dtype:
                data = silenced(data.astype, dtype, copy=False)
        except ValueError:
            check("matmul", x1, x2)
            raise
        made: Tensor = new_handle(Tensor)
        made._data = data
        made._word = result_word
        made._storage = None
        made._autograd = None
        return made

    if same and computed is dtype:
        described: Any = kernel
        described.small = Simple(dtype, 64 if computed.kind != "f" else SMALL, large=multiply)
    return kernel


def any_product(a: np.ndarray, b: np.ndarray, is_large: bool) -> np.ndarray:
    """Return a product of any shapes."""
    data = large(a, b) if is_large else None
    if data is not None:
        return data
    # the method is the fastest way to BLAS, but means something else for numbers and above two dimensions
    if 0 < a.ndim < 3 and 0 < b.ndim < 3:
        return np.asarray(a.dot(b))
    if a.ndim == 3 == b.ndim and a.shape[1] == 1 and not b.strides[0] and b.shape[0] == a.shape[0] > 1:
        return np.asarray(a[:, 0].dot(b[0])[:, None])  # rows of a batch times one shared matrix
    return np.asarray(np.matmul(a, b))


def large(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the product by our loops, or None if NumPy computes it better: Note [Which products are our own]."""
    if a.ndim < 2 or b.ndim < 2:
        return None
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    if b.shape[-2] != inner or rows <= THIN or columns <= THIN:
        return None
    shape: tuple[int, ...] = ()
    if a.ndim == 2 == b.ndim:
        if a.size * columns <= (MOST_OF_BLAS if a.dtype.kind == "f" else LEAST):
            return None
    elif b.ndim == 2 and a.flags.c_contiguous:  # one product of all rows
        made = large(a.reshape(-1, inner), b)
        return None if made is None else made.reshape(*a.shape[:-1], columns)
    else:
        shape = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
        if prod(shape) * rows * inner * columns < LEAST:
            return None
    if not (a.flags.aligned and b.flags.aligned and a.dtype.isnative and b.dtype.isnative):
        return None
    packs = b.strides[-1] != b.itemsize or (
        inner * columns * b.itemsize > IN_CACHE and rows > (FEW if b.strides[-2] % PAGE else FEWER)
    )
    copy = "b" if packs else ""
    if a.strides[-1] != a.itemsize:  # otherwise the elements of a row lie on different lines or even pages
        by_blocks = a.strides[-2] == a.itemsize and columns <= TURNED_COLUMNS and (shape or rows >= TURNED_ROWS)
        if by_blocks and not packs:
            copy = "a"
        else:
            a = copied(a)
    loop = _loop(a.dtype.char, min(-(-columns * a.itemsize // 64), MANY), copy)
    if loop is None:
        return None
    out = allocate((*shape, rows, columns), a.dtype)
    if not inner:
        out.fill(0)
        return out
    places = min(block[HELPERS] + 1 if block[RUN] else get_num_threads(), MOST_PLACES)
    buffer = np.empty(places * PLACE_BYTES + 64, np.uint8) if copy else _NONE
    loop(STATE, a, b, out, buffer, places)
    return out


@cache
def _loop(char: str, vectors: int, copy: str) -> Callable[..., Any] | None:
    """Return the loop for a dtype and so many vectors of columns, or None where code cannot be compiled."""
    try:
        tile = tile_size()
        statics = {"TILE": tile, "WIDTHS": widths_of(vectors, tile[1]), "COPY": copy}
        return compiled(matrix_product, T=of_dtype(np.dtype(char)), **statics)
    except (UnavailableError, ImportError, OSError):
        return None


def cases(dtypes: tuple[np.dtype, ...]) -> Iterator[Case]:
    """Yield the kernels to be compiled ahead: Note [Kernels that are compiled ahead]."""
    for dtype in dtypes:
        if dtype.name in ("float32", "float64") or dtype.kind in "iu":
            tile = tile_size()
            for widths, copy in product(all_widths(tile[1]), ("", "a", "b")):
                statics = {"T": of_dtype(dtype), "TILE": tile, "WIDTHS": widths, "COPY": copy}
                yield Case("tk::matmul", matrix_product, statics)


KERNELS: Final = {"tk::matmul": Specialized(matmul_kernel)}
