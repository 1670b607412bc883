"""Measured constants of the CPU backend: from which size on what pays, with the measurement behind each.

Machine, unless stated otherwise: 2 virtual cores of a server processor with AVX-512.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHUNKS_BEFORE_WORKERS", "COMPILED_ARG_COLUMNS", "COMPILED_ARG_REDUCTION", "COMPILED_REDUCTION", "COMPILED_ROWS",
    "COMPILED_RUNNING", "COMPILED_SCAN", "COPIED", "FEW_CONVERTED", "FILLED", "GATHERED", "GATHERED_BYTES",
    "HEAVY_CHUNK", "HEAVY_LIMIT", "JOINED", "LARGE", "LIGHT_CHUNK_BYTES", "LIGHT_LIMIT_BYTES", "LISTED", "MANY_ROWS",
    "ORDERED_ELEMENTS", "RANDOM_NUMBERS", "REORDERED", "SCATTERED", "SEARCHED_ELEMENTS", "SHORT_ROW",
    "SHORT_ROWS_REDUCED", "SORTED_ELEMENTS", "SORTED_IN_PARTS", "SPIN_SECONDS", "STREAMED", "TAKEN", "TAKEN_ALONG",
    "TALLIED", "TILED_ROWS", "TRIANGULAR", "WORTH_WAKING_SECONDS",
]  # fmt: skip

SPIN_SECONDS: Final = 200e-6
"""How long a worker looks out for the next region before it sleeps. The second thread of a region begins after 1 us if
its worker looks out, and after 5 to 30 us otherwise. Calls of a Python program follow each other within some 10 us, but
within 50 to 150 where large operands have displaced the interpreter from the caches. With 50 us, ``clip`` of 2^20
elements takes 230 us in place of 150, a forward pass of picoGPT 3.2 ms in place of 2.8. Threads of other libraries lose
up to 8 % right after a region (512 x 512 products of OpenBLAS in float64)."""

WORTH_WAKING_SECONDS: Final = 60e-6
"""The work of a call from which sleeping workers are woken for it alone. Calls 0.5 ms apart, on one and two threads, in
us (medians, loaded machine): 2 chunks of 4 us 23.5 and 34.6, 8 chunks 45.8 and 51.5, 16 chunks 79 and 75, 32 chunks 145
and 119."""

CHUNKS_BEFORE_WORKERS: Final = 16
"""Chunks that a process computes before it starts workers, which takes 0.7 ms, or 30 ms if the pool must be compiled. A
call of a light loop on 2^19 elements has as many, and gains 0.03 ms by a second thread; ``exp`` of 2^16 has 8."""

RANDOM_NUMBERS: Final = 128
"""Elements of a draw from which it is compiled: NumPy takes 60 us for any small number of them, a kernel 5 us."""

# ---- elementwise loops

LARGE: Final = 1 << 14
"""Elements from which a call takes the path of large ones if it is limited by arithmetic: several threads gain from
here on, and 2 us of Python and the driver are worth it. Such a call is also worth compiling for."""

FEW_CONVERTED: Final = 1 << 12
"""Elements from which conversions of floats of two bytes are compiled: NumPy takes 1.7 ns for each element."""

SHORT_ROW: Final = 256
"""Elements of the last axis up to which smaller calls use the driver, which tiles short rows."""
TILED_ROWS: Final = 1 << 10
"""Rows of a result from which that pays, if an operand is repeated. NumPy against it, in us (one thread): 64 rows of 64
elements 1.5 : 6, 512 rows of 64 8.6 : 11, 1,000 of 64 14 : 12, 4,000 of 10 22 : 12, 10,000 of 3 72 : 14."""

HEAVY_LIMIT: Final = 1 << 14
"""Elements from which loops that are limited by arithmetic use several threads (``exp``: 3.8 -> 2.3 us)."""
HEAVY_CHUNK: Final = 1 << 13
"""Elements of a chunk of such a loop: at least 3 us of work."""
LIGHT_LIMIT_BYTES: Final = 3 << 18
"""Bytes of operands and results from which loops that are limited by memory use several threads: 2**16 elements of
``add`` in float32 (7.9 -> 4.2 us)."""
LIGHT_CHUNK_BYTES: Final = 3 << 17
"""Bytes of a chunk of such a loop."""

# ---- copies and selections

COPIED: Final = 1 << 17
"""Bytes of a result from which copies run in compiled loops. NumPy against them, in us: contiguous 1.7 : 3.1 at 2^16
bytes, 3.0 : 3.5 at 2^17, 5.6 : 5.1 at 2^18; reversed 4.9 : 4.4, 9.4 : 6.2, 18 : 5.8; transposed 8.7 : 4.5, 8.6 : 8.8,
64 : 11."""

REORDERED: Final = 1 << 16
"""The same where the elements of a source are not adjacent: transposed 8.3 : 6.0 at 2^16 bytes, reversed 4.6 : 3.9,
every second 4.6 : 4.8; at 2^15 2.4 : 3.7, 2.5 : 3.1 and 2.5 : 3.7 (one thread)."""

JOINED: Final = 1 << 19
"""Bytes of a result from which several arrays are joined in compiled loops. NumPy against them, two arrays on one
thread and on two: 6.0 : 10.1 and 6.0 : 8.4 at 2^18 bytes, 10.8 : 15.4 and 10.9 : 11.0 at 2^19, 24.5 : 36.2 and
25.6 : 19.5 at 2^20."""

TRIANGULAR: Final = 1 << 12
"""Bytes of a result from which a triangle is copied in compiled loops. NumPy against them: 6.0 : 2.9 at 2^12 bytes,
27 : 4.9 at 2^16, 1125 : 256 at 2^22 (one thread)."""

FILLED: Final = 1 << 18
"""Bytes of a new array from which it is filled in compiled loops. NumPy against them: 1.9 : 3.8 us at 2^16 bytes,
3.5 : 5.1 at 2^17, 6.7 : 6.0 at 2^18, 26 : 16 at 2^20."""

STREAMED: Final = 1 << 25
"""Bytes of a result from which contiguous copies and pointwise loops bypass the caches. Copies: 433 -> 407 us at 2^24
bytes, 914 -> 803 at 2^25, 3800 -> 1620 at 2^26 (NumPy: 788, 1610, 8290). Least times of ``add`` in float32: 2.7 -> 1.8
ms at 2^25 bytes, 37 -> 24 at 2^27; of ``exp`` 1.4 -> 1.3 and 25 -> 14."""

GATHERED: Final = 1 << 15
"""Elements from which selections by indices run in compiled loops. NumPy against them, in us, single elements: 8 : 18
at 2^14, 16 : 22 at 2^15, 32 : 27 at 2^16, 224 : 114 at 2^18; assignments 41 : 39 at 2^15."""

GATHERED_BYTES: Final = 1 << 19
"""The same for rows, in bytes: 9 : 16 at 2^18, 16 : 29 at 2^19, 44 : 29 at 2^20 (rows of 128 bytes)."""

TAKEN: Final = 1 << 13
"""The same for one tensor of indices along the last axis, for which little is prepared: vectors 4.8 : 4.9 us at 2^13,
9.0 : 8.0 at 2^14, 36 : 28 at 2^16; columns 3.2 : 3.6, 10 : 7.4, 35 : 16."""

TAKEN_ALONG: Final = 1 << 9
"""The same along an axis with an index for each element: 6.1 : 3.9 us for 2^10 elements, 47 : 11 for 2^14."""

SCATTERED: Final = 1 << 8
"""Elements from which sums at indices run in compiled loops: ``np.add.at`` takes 16 to 20 ns for each element of a
matrix, a call of the loop 3 us."""

TALLIED: Final = 1 << 15
"""Elements from which integers are counted in compiled loops, on one thread: 4 : 9 us at 2^12, 14 : 17 at 2^14,
1350 : 960 at 2^20."""

LISTED: Final = 1 << 15
"""Elements from which the places of nonzero ones are found in compiled loops, on one thread: 3 : 8 us at 2^12, 10 : 11
at 2^14, 580 : 330 at 2^20."""

# ---- operators along axes

COMPILED_REDUCTION: Final = 3 << 12
"""Elements from which a reduction is compiled. Calls of sum on float32 in us, NumPy's first: 4,096 elements 1.9 : 2.4,
16,384 3.8 : 3.0, 65,536 11 : 4.9; along an axis 2.8 : 4.4, 6.7 : 5.9, 23 : 8.2."""

SHORT_ROWS_REDUCED: Final = 1 << 11
"""The same where rows are short or far apart, of which NumPy reduces each by itself: rows of 10 float32 take, in
us, 8.6 : 3.2 for 130 (their maximum), 52 : 8.6 for 1,000."""

MANY_ROWS: Final = 96
"""Short rows that are many: sums of 32 rows of 64 along axis 0 take 1.6 : 2.7 us, of 64 rows 2.3 : 2.7, of 128 rows of
32 3.1 : 2.7."""

COMPILED_ARG_REDUCTION: Final = 1 << 18
"""Elements from which the place of an extreme in rows is sought by compiled code: NumPy's own is faster as long as the
elements are in the cache (65,536 float32: 3.4 : 5.4 us; 2**20: 115 : 46)."""

COMPILED_ARG_COLUMNS: Final = 1 << 12
"""The same along another axis than the last, where NumPy takes ten times as long."""

COMPILED_SCAN: Final = 1 << 13
"""Elements from which running results are compiled: sums of 4,096 float32 9.6 : 13.6 us, of 8,192 18 : 15, of 65,536
134 : 34."""

COMPILED_RUNNING: Final = 1 << 7
"""The same for running extremes with their places, for which NumPy takes several passes (1,024 elements: 10 : 4 us)."""

COMPILED_ROWS: Final = 1 << 7
"""Elements from which sweeps over rows are compiled: the composition takes 5 to 15 us for any small number, a kernel 5.
The size alone decides: the last bits of both differ, and equal calls give equal results."""

# ---- sorting

SORTED_ELEMENTS: Final = 1 << 14
"""Elements from which sorting uses several threads; before, it is NumPy's function, called sooner by NumPy."""

ORDERED_ELEMENTS: Final = 1 << 10
"""Elements from which an order comes from sorted keys with indices: 9 us for 1,024 float32, of which 5 are spent in
Python, and 13 for 2,048; NumPy's stable order takes 15 and 62. For 2**14 the figures are 89 and 888."""

SORTED_IN_PARTS: Final = 1 << 15
"""Elements of one row from which it is divided among the threads: 82 -> 69 us at 2**15, 322 -> 193 at 2**17."""

SEARCHED_ELEMENTS: Final = 1 << 9
"""Elements to be found in a sorted vector from which the searches are compiled: 256 take 6 us, NumPy's 3 to 6."""
