"""Counter-based random numbers: Philox4x32-10, addressed by element.

Element ``i`` of a draw is a function of the key and ``i`` alone, so one seed gives the same numbers in chunks of any
size, for any number of threads and on every device. These NumPy functions, and the distributions in ``draws``, are the
reference that the kernels of every backend reproduce.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, 2011,
doi:10.1145/2063384.2063405. Not for cryptography.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from . import exact_functions as exact

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ATTEMPTS",
    "BLOCKS",
    "ELEMENT_LIMIT",
    "STANDARD",
    "TAG_SHIFT",
    "Key",
    "attempt_bits",
    "check_range",
    "derive_keys",
    "double_words",
    "philox4x32",
    "random_bits",
]

Key: TypeAlias = tuple[int, int]
"""A 64-bit seed and a 64-bit stream number: two streams of one seed have no numbers in common."""

_UInt64Array: TypeAlias = "npt.NDArray[np.uint64]"

# Note [Random addresses]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Philox maps a 128-bit counter and a 64-bit key to a block of four 32-bit words w0..w3. The counter's words are
#
#     c0, c1 = low and high word of (tag << 60) + block      c2, c3 = low and high word of the stream
#
# and the key's words are the low and high word of the seed. A *layout* determines the bits of element i of a draw:
#
#     layout        tag  block   bits of element i             used by
#     words          0   i // 4  word i % 4                    random_bits, uniform up to float32
#     double words   1   i // 2  words 2(i % 2), 2(i % 2) + 1  uniform float64, integers below 2**32, permutation
#     blocks         2   i       all four                      normal, integers of wider ranges
#     keys           3   i       all four                      derive_keys
#     standard       4   i       all four                      the noise of samplers.py
#     attempts       5   i       all four                      rejection in samplers.py, several blocks for one result
#
# The first of two words is the lower half. The tag separates draws of different layouts: element numbers are reserved
# once (see generator.py), and without tags word 400 and the block of element 100 would be the same bits. Element
# numbers are below 2**60, so a block number never reaches the tag.
# Guarded by test_philox.py::test_layouts_follow_the_note and ::test_layouts_share_no_bits.
WORDS: Final = 0
DOUBLE_WORDS: Final = 1
BLOCKS: Final = 2
_KEYS: Final = 3
STANDARD: Final = 4
ATTEMPTS: Final = 5
TAG_SHIFT: Final = 60

ELEMENT_LIMIT: Final = 1 << TAG_SHIFT
"""The elements of a stream have numbers from 0 up to this, exclusive."""

_WORD: Final = 1 << 64
_MASK32: Final = np.uint64(0xFFFFFFFF)
_SHIFT32: Final = np.uint64(32)
# The multipliers and Weyl increments of Salmon et al., section 4.3 and Random123's philox.h, as columns: the rows of
# the state are (x0, x2) and (x1, x3), so that one NumPy call serves both multiplications of a round.
_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)
_WEYL: Final = np.array([[0x9E3779B9], [0xBB67AE85]], dtype=np.uint64)

# Measured for 2**20 uniform float32: 12 ms with 2**12 blocks, 8 ms with 2**14 (working set 800 KiB), not less above.
_BLOCKS_PER_CHUNK: Final = 1 << 14

_FEW: Final = 8
"""Up to so many blocks are computed one by one (measured: 4 to 6 us each; NumPy takes 60 us for any small number)."""


def philox4x32(
    counter: npt.NDArray[np.uint32], key: npt.NDArray[np.uint32], rounds: int = 10
) -> npt.NDArray[np.uint32]:
    """Apply the Philox4x32 bijection: one block of four words for each counter.

    ``counter``: words of shape (..., 4); ``key``: two words; both uint32. Returns the shape and dtype of ``counter``.

    >>> block = philox4x32(np.zeros(4, np.uint32), np.zeros(2, np.uint32))
    >>> [f"{word:08x}" for word in block]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    words = np.asarray(counter, dtype=np.uint32).astype(np.uint64)
    flat = words.reshape(-1, 4)
    even, odd = _apply_rounds(
        np.ascontiguousarray(flat[:, 0::2].T),
        np.ascontiguousarray(flat[:, 1::2].T),
        np.asarray(key, dtype=np.uint32).astype(np.uint64).reshape(2, 1),
        rounds,
    )
    flat[:, 0::2] = even.T
    flat[:, 1::2] = odd.T
    return words.astype(np.uint32)


def _apply_rounds(
    even: _UInt64Array, odd: _UInt64Array, key: _UInt64Array, rounds: int
) -> tuple[_UInt64Array, _UInt64Array]:
    """Apply rounds to words (x0, x2) and (x1, x3), each of shape (2, n) and overwritten; ``key`` has shape (2, 1).

    One round (Salmon et al., figure 2) is, with (h, l) = the halves of the 64-bit products m0 * x0 and m1 * x2:
    x0' = h1 ^ x1 ^ k0, x1' = l1, x2' = h0 ^ x3 ^ k1, x3' = l0. The two rows are swapped, hence the reversed views.
    """
    spare = np.empty_like(even)
    for _ in range(rounds):
        np.multiply(even, _MULTIPLIERS, out=spare)
        np.right_shift(spare, _SHIFT32, out=even)
        np.bitwise_xor(odd, even[::-1], out=odd)
        np.bitwise_xor(odd, key, out=odd)
        np.bitwise_and(spare, _MASK32, out=spare)
        even, odd, spare = odd, spare[::-1], even
        key = (key + _WEYL) & _MASK32
    return even, odd


def _evaluate(seed: int, blocks: _UInt64Array, stream: Any) -> tuple[_UInt64Array, _UInt64Array]:
    """Return the blocks with these numbers (tag included) of a stream, or each of its own stream.

    They are words (w0, w2) and (w1, w3) in uint64.
    """
    if blocks.size <= _FEW:
        return _evaluate_few(seed, blocks, stream)
    even = np.empty((2, blocks.size), np.uint64)
    odd = np.empty((2, blocks.size), np.uint64)
    np.bitwise_and(blocks, _MASK32, out=even[0])
    np.right_shift(blocks, _SHIFT32, out=odd[0])
    even[1] = stream & _MASK32
    odd[1] = stream >> _SHIFT32
    return _apply_rounds(even, odd, np.array([[seed & 0xFFFFFFFF], [seed >> 32]], dtype=np.uint64), 10)


def _evaluate_few(seed: int, blocks: _UInt64Array, stream: Any) -> tuple[_UInt64Array, _UInt64Array]:
    """Evaluate a few blocks in Python integers, which is faster than ten rounds of NumPy calls."""
    streams = stream.tolist() if stream.ndim else [int(stream)] * blocks.size
    even: list[list[int]] = [[], []]
    odd: list[list[int]] = [[], []]
    for block, own in zip(blocks.tolist(), streams, strict=True):
        words = block & 0xFFFFFFFF, block >> 32, own & 0xFFFFFFFF, own >> 32
        x0, x1, x2, x3 = exact.philox(*words, seed & 0xFFFFFFFF, seed >> 32)
        even[0].append(x0)
        even[1].append(x2)
        odd[0].append(x1)
        odd[1].append(x3)
    return np.array(even, np.uint64).reshape(2, -1), np.array(odd, np.uint64).reshape(2, -1)


def attempt_bits(seed: int, blocks: _UInt64Array, streams: _UInt64Array) -> tuple[_UInt64Array, _UInt64Array]:
    """Return the lower and the upper 64 bits of blocks of the layout "attempts", each of its own stream.

    >>> [f"{half[0]:016x}" for half in attempt_bits(0, np.zeros(1, np.uint64), np.zeros(1, np.uint64))]
    ['2b2a938947286060', 'd91f18f99a457a1b']
    """
    low, high = _halves(*_evaluate(seed, blocks + np.uint64(ATTEMPTS << TAG_SHIFT), streams))
    return low, high


def check_range(key: Key, start: int, count: int) -> None:
    """Raise ValueError unless the key, and the numbers of the elements from ``start``, are in range."""
    seed, stream = key
    if not (0 <= seed < _WORD and 0 <= stream < _WORD):
        raise ValueError(
            f"[random] got the key {key!r}: a key is a pair of integers (seed, stream), each in [0, 2**64)."
        )
    if start < 0 or count < 0 or start + count > ELEMENT_LIMIT:
        raise ValueError(
            f"[random] got start={start!r}, count={count!r}: both must be at least 0, and start + count at most "
            "2**60. Use a generator with another seed, or one made by `split`."
        )


def _each_piece(
    key: Key, tag: int, start: int, count: int, per_block: int
) -> Iterator[tuple[slice, slice, _UInt64Array, _UInt64Array]]:
    """Evaluate a layout with ``per_block`` elements in each block, in pieces that stay in cache.

    Yields the slice of the result that a piece fills, the slice of the piece's elements that it takes, and the words
    (w0, w2) and (w1, w3) of the piece's blocks.
    """
    check_range(key, start, count)
    done = 0
    while done < count:
        first, skip = divmod(start + done, per_block)
        take = min(count - done, per_block * _BLOCKS_PER_CHUNK - skip)
        blocks = np.arange(-(-(skip + take) // per_block), dtype=np.uint64)
        blocks += np.uint64((tag << TAG_SHIFT) + first)
        even, odd = _evaluate(key[0], blocks, np.uint64(key[1]))
        yield slice(done, done + take), slice(skip, skip + take), even, odd
        done += take


def _halves(even: _UInt64Array, odd: _UInt64Array) -> _UInt64Array:
    """Return the lower and the upper 64 bits of blocks, in the memory of ``odd``."""
    odd <<= _SHIFT32
    odd |= even
    return odd


def _each_words(key: Key, start: int, count: int) -> Iterator[tuple[slice, npt.NDArray[np.uint32]]]:
    for where, piece, even, odd in _each_piece(key, WORDS, start, count, 4):
        words = np.empty((even.shape[1], 4), np.uint32)
        words[:, 0::2] = even.T
        words[:, 1::2] = odd.T
        yield where, words.reshape(-1)[piece]


def _each_double_words(key: Key, start: int, count: int) -> Iterator[tuple[slice, _UInt64Array]]:
    for where, piece, even, odd in _each_piece(key, DOUBLE_WORDS, start, count, 2):
        yield where, _halves(even, odd).T.reshape(-1)[piece]


def _each_blocks(
    key: Key, start: int, count: int, tag: int = BLOCKS
) -> Iterator[tuple[slice, _UInt64Array, _UInt64Array]]:
    """Yield the lower and the upper 64 bits of each block."""
    for where, _, even, odd in _each_piece(key, tag, start, count, 1):
        yield where, *_halves(even, odd)


def double_words(key: Key, count: int, start: int) -> _UInt64Array:
    """Return the elements ``start`` to ``start + count`` of the layout "double words", 64 random bits each."""
    result = np.empty(max(count, 0), np.uint64)
    for where, bits in _each_double_words(key, start, count):
        result[where] = bits
    return result


def random_bits(key: Key, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Return the elements ``start`` to ``start + count`` of the stream ``key``: 32 random bits each, as uint32.

    Like all functions of this module, raises ValueError for a key that is not a pair of 64-bit numbers and for elements
    beyond ``ELEMENT_LIMIT``.

    >>> [f"{word:08x}" for word in random_bits((0, 0), 1, 3)]
    ['e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    result = np.empty(max(count, 0), np.uint32)
    for where, words in _each_words(key, start, count):
        result[where] = words
    return result


def derive_keys(key: Key, start: int, count: int) -> list[Key]:
    """Return new keys, one for each element: 128 random bits each, which no other function of this module uses.

    >>> len(set(derive_keys((7, 0), 0, 100)))
    100
    """
    result: list[Key] = []
    for _, low, high in _each_blocks(key, start, count, _KEYS):
        result.extend(zip(low.tolist(), high.tolist(), strict=True))
    return result
