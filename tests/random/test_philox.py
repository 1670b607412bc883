"""tenkey.core.random: known answers, addresses, distributions, and who draws what."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tenkey.core.dtypes import limits as dtype_limits
from tenkey.core.dtypes import names as dtypes
from tenkey.core.random import draws, generator, philox, samplers
from tenkey.core.random import exact_functions as exact
from tenkey.core.random.generator import Generator, GeneratorState
from tests._tiers import each

KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
MASK = 0xFFFFFFFF
REAL_FLOATING = [dtype for dtype in dtypes.all_dtypes() if dtypes.is_real_floating(dtype)]

# The lines `philox4x32` of the file kat_vectors in the Random123 distribution: rounds, counter, key, result.
KNOWN_ANSWERS = """
7  00000000 00000000 00000000 00000000  00000000 00000000  5f6fb709 0d893f64 4f121f81 4f730a48
7  ffffffff ffffffff ffffffff ffffffff  ffffffff ffffffff  5207ddc2 45165e59 4d8ee751 8c52f662
7  243f6a88 85a308d3 13198a2e 03707344  a4093822 299f31d0  4dfccaba 190a87f0 c47362ba b6b5242a
10 00000000 00000000 00000000 00000000  00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
10 ffffffff ffffffff ffffffff ffffffff  ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
10 243f6a88 85a308d3 13198a2e 03707344  a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""


def reference_block(key: tuple[int, int], tag: int, block: int) -> list[int]:
    """A block in Python's integers, one word after the other, as the paper writes it."""
    seed, stream = key
    number = (tag << 60) + block
    x0, x1, x2, x3 = number & MASK, number >> 32, stream & MASK, stream >> 32
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        h0, l0 = divmod(0xD2511F53 * x0, 1 << 32)
        h1, l1 = divmod(0xCD9E8D57 * x2, 1 << 32)
        x0, x1, x2, x3 = h1 ^ x1 ^ k0, l1, h0 ^ x3 ^ k1, l0
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [x0, x1, x2, x3]


def reference_word(key: tuple[int, int], element: int) -> int:
    return reference_block(key, 0, element // 4)[element % 4]


def reference_double_word(key: tuple[int, int], element: int) -> int:
    block, half = reference_block(key, 1, element // 2), 2 * (element % 2)
    return block[half] + (block[half + 1] << 32)


def reference_halves(key: tuple[int, int], element: int) -> tuple[int, int]:
    w0, w1, w2, w3 = reference_block(key, 2, element)
    return w0 + (w1 << 32), w2 + (w3 << 32)


@pytest.mark.parametrize("line", KNOWN_ANSWERS.strip().splitlines())
def test_known_answers(line: str) -> None:
    rounds, *words = line.split()
    numbers = np.array([int(word, 16) for word in words], np.uint32)
    counter, key, expected = numbers[:4], numbers[4:6], numbers[6:]
    np.testing.assert_array_equal(philox.philox4x32(counter, key, int(rounds)), expected)
    np.testing.assert_array_equal(counter, numbers[:4])  # not overwritten
    many = philox.philox4x32(np.broadcast_to(counter, (3, 2, 4)), key, int(rounds))
    assert many.shape == (3, 2, 4)
    assert (many == expected).all()


def test_few_blocks_are_computed_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = np.array([0, 1, MASK, MASK + 1, (5 << 60) + 12345, (1 << 64) - 1], np.uint64)
    for stream in (np.uint64(KEY[1]), blocks[::-1].copy()):
        few = philox._evaluate(KEY[0], blocks, stream)
        with monkeypatch.context() as patch:
            patch.setattr(philox, "_FEW", 0)
            many = philox._evaluate(KEY[0], blocks, stream)
        np.testing.assert_array_equal(np.stack(few), np.stack(many))


def test_random_bits_of_key_zero_begin_with_the_known_answer() -> None:
    assert philox.random_bits((0, 0), 0, 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


ELEMENTS = [0, 1, 2, 3, 4, 5, 17, (1 << 34) - 3, (1 << 36) + 7, (1 << 60) - 2]


@each("start", ELEMENTS)
@pytest.mark.parametrize("key", [(0, 0), (1, 0), (1 << 32, 0), (0, 1), (0, 1 << 32), KEY])
def test_layouts_follow_the_note(key: tuple[int, int], start: int) -> None:
    count = 2
    elements = range(start, start + count)
    words = [reference_word(key, element) for element in elements]
    doubles = [reference_double_word(key, element) for element in elements]
    assert philox.random_bits(key, start, count).tolist() == words
    assert draws.uniform(key, count, start=start).tolist() == [(word >> 8) / 2**24 for word in words]
    assert draws.uniform(key, count, dtypes.float16, start).tolist() == [(word >> 21) / 2**11 for word in words]
    assert draws.uniform(key, count, dtypes.float64, start).tolist() == [(word >> 11) / 2**53 for word in doubles]
    blocks = [reference_block(key, 3, element) for element in elements]
    assert philox.derive_keys(key, start, count) == [(w0 + (w1 << 32), w2 + (w3 << 32)) for w0, w1, w2, w3 in blocks]


def test_layouts_share_no_bits() -> None:
    words = philox.random_bits(KEY, 0, 40_000).reshape(-1, 2)
    whole = list(itertools.chain.from_iterable(philox.derive_keys(KEY, 0, 10_000)))
    doubles: list[int] = []
    for _, bits in philox._each_double_words(KEY, 0, 20_000):
        doubles += bits.tolist()
    blocks: list[int] = []
    for _, low, high in philox._each_blocks(KEY, 0, 10_000):
        blocks += [*low.tolist(), *high.tolist()]
    pairs = (words[:, 0].astype(object) + words[:, 1].astype(object) * 2**32).tolist()
    everything = [*pairs, *doubles, *blocks, *whole]
    assert len(set(everything)) == len(everything) == 80_000


DRAWS: dict[str, Callable[[int, int], np.ndarray[Any, Any]]] = {
    "random_bits": lambda count, start: philox.random_bits(KEY, start, count),
    "uniform float16": lambda count, start: draws.uniform(KEY, count, dtypes.float16, start),
    "uniform float32": lambda count, start: draws.uniform(KEY, count, dtypes.float32, start),
    "uniform float64": lambda count, start: draws.uniform(KEY, count, dtypes.float64, start),
    "uniform interval": lambda count, start: draws.uniform(KEY, count, dtypes.float32, start, low=-2, high=5),
    "normal float32": lambda count, start: draws.normal(KEY, count, dtypes.float32, start),
    "normal float64": lambda count, start: draws.normal(KEY, count, dtypes.float64, start),
    "normal complex64": lambda count, start: draws.normal(KEY, count, dtypes.complex64, start),
    "integers narrow": lambda count, start: draws.integers(KEY, -5, 1000, count, dtypes.int64, start),
    "integers wide": lambda count, start: draws.integers(KEY, -(2**62), 2**62, count, dtypes.int64, start),
}


@pytest.mark.parametrize("name", DRAWS)
def test_chunks_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = DRAWS[name]
    whole = draw(3000, 0)
    assert whole.shape == (3000,)
    for size in (1, 3, 64):
        monkeypatch.setattr(philox, "_BLOCKS_PER_CHUNK", size)
        np.testing.assert_array_equal(draw(500, 0), whole[:500])
        np.testing.assert_array_equal(draw(501, 77), whole[77 : 77 + 501])
    assert draw(0, 5).shape == (0,)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(DRAWS)), cuts=st.lists(st.integers(0, 300), max_size=6))
def test_any_partition_gives_the_same_numbers(name: str, cuts: list[int]) -> None:
    draw = DRAWS[name]
    ends = [*sorted(cuts), 300]
    parts = [draw(end - start, start) for start, end in itertools.pairwise([0, *ends])]
    np.testing.assert_array_equal(np.concatenate(parts), draw(300, 0))


def test_seeds_and_streams_give_different_numbers() -> None:
    keys = [(0, 0), (1, 0), (0, 1), (1 << 32, 0), (0, 1 << 32), (1 << 63, 0), (0, 1 << 63)]
    drawn = [philox.random_bits(key, 0, 1000) for key in keys]
    for one, other in itertools.combinations(drawn, 2):
        assert (one == other).sum() <= 1


@pytest.mark.parametrize("key", [(-1, 0), (0, 1 << 64)])
def test_wrong_keys(key: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="pair of integers"):
        philox.random_bits(key, 0, 1)


def test_elements_out_of_range() -> None:
    for start, count in [(-1, 1), (0, -1), (philox.ELEMENT_LIMIT, 1)]:
        for draw in DRAWS.values():
            with pytest.raises(ValueError, match=r"2\*\*60"):
                draw(count, start)
    assert philox.random_bits(KEY, philox.ELEMENT_LIMIT, 0).size == 0


def test_uniform_dtypes_and_ends() -> None:
    for dtype in (dtypes.int32, dtypes.complex64):
        with pytest.raises(TypeError, match="real floating"):
            draws.uniform(KEY, 1, dtype)
    for dtype in REAL_FLOATING:
        draw = draws.uniform(KEY, 20_000, dtype)
        assert draw.dtype == dtype
        eps = dtype_limits.finfo(dtype).eps
        wide = draw.astype(np.float64)
        assert 0 <= wide.min() < 0.01
        assert 0.98 < wide.max() <= 1 - eps / 2
        assert (np.mod(wide, eps / 2) == 0).all()  # multiples of 2**-digits


@pytest.mark.parametrize("dtype", REAL_FLOATING, ids=str)
def test_uniform_never_reaches_high(dtype: dtypes.DType) -> None:
    high = 1.0 + 2 * dtype_limits.finfo(dtype).eps  # between the ends there are two numbers
    draw = draws.uniform(KEY, 5000, dtype, low=1.0, high=high).astype(np.float64)
    assert set(draw) == {1.0, 1.0 + dtype_limits.finfo(dtype).eps}


def test_uniform_interval() -> None:
    draw = draws.uniform(KEY, 100_000, dtypes.float64, low=-3.0, high=5.0)
    assert stats.kstest(draw, stats.uniform(-3, 8).cdf).pvalue > 1e-3
    for low, high in [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (-3e38, 3e38), (0.0, 1e300)]:
        with pytest.raises(ValueError, match="low must be below high"):
            draws.uniform(KEY, 1, dtypes.float32, low=low, high=high)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("key", [(0, 0), (1, 0), KEY])
def test_uniform_is_uniform(key: tuple[int, int], dtype: str) -> None:
    draw = draws.uniform(key, 200_000, np.dtype(dtype)).astype(np.float64)
    assert stats.kstest(draw, "uniform").pvalue > 1e-3
    pairs, _, _ = np.histogram2d(draw[0::2], draw[1::2], bins=16)  # neighbours are independent
    assert stats.chisquare(pairs.reshape(-1)).pvalue > 1e-3


def test_all_bits_are_fair_and_independent() -> None:
    words = philox.random_bits(KEY, 0, 100_000)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 32).astype(np.int64)
    counts = np.asarray(bits.sum(axis=0))
    chi_square = ((counts - 50_000) ** 2 / 25_000).sum()
    assert stats.chi2(32).sf(chi_square) > 1e-3
    correlations = np.asarray(np.corrcoef(bits.T))[np.triu_indices(32, 1)] * math.sqrt(100_000)
    assert stats.kstest(correlations, "norm").pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("key", [(0, 0), (1, 0), KEY])
def test_normal_is_normal(key: tuple[int, int], dtype: str) -> None:
    draw = draws.normal(key, 200_000, np.dtype(dtype)).astype(np.float64)
    assert stats.kstest(draw, "norm").pvalue > 1e-3
    # The tails, of which Kolmogorov and Smirnov's test knows little: how many lie beyond 3 and 4.
    for bound in (3.0, 4.0):
        beyond = int((abs(draw) > bound).sum())
        assert stats.binomtest(beyond, draw.size, 2 * stats.norm.sf(bound)).pvalue > 1e-3
    assert abs(np.corrcoef(draw[:-1], draw[1:])[0, 1]) < 4 / math.sqrt(draw.size)


def test_normal_complex() -> None:
    draw = draws.normal(KEY, 100_000, dtypes.complex128)
    scale = math.sqrt(0.5)
    assert stats.kstest(draw.real, stats.norm(scale=scale).cdf).pvalue > 1e-3
    assert stats.kstest(draw.imag, stats.norm(scale=scale).cdf).pvalue > 1e-3
    assert stats.kstest(np.angle(draw), stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(draw.real, draw.imag)[0, 1]) < 4 / math.sqrt(draw.size)
    assert draws.normal(KEY, 3, dtypes.complex64).dtype == "complex64"


def test_normal_against_mpmath() -> None:
    draw = draws.normal(KEY, 500, dtypes.float64)
    with mpmath.workprec(120):
        for element, value in enumerate(draw.tolist()):
            low, high = reference_halves(KEY, element)
            u1, u2 = mpmath.mpf((low >> 11) + 1) / 2**53, mpmath.mpf(high >> 11) / 2**53
            exact = mpmath.sqrt(-2 * mpmath.log(u1)) * mpmath.cospi(2 * u2)
            # Each of log, cos, square root and product contributes about one rounding.
            assert abs(value - exact) <= 4 * 2.0**-52 * abs(exact)


def test_errors_of_stirlings_formula() -> None:
    """log(k!) less the logarithm of sqrt(2 pi k) (k / e)**k, by which counts are accepted (Hormann, 1993)."""
    with mpmath.workprec(120):
        errors = [float(mpmath.loggamma(k + 1) - mpmath.log(2 * mpmath.pi * k) / 2 - k * mpmath.log(k) + k)
                 for k in range(1, 40)]  # fmt: skip
    np.testing.assert_allclose(samplers.stirling_table()[1:], errors[:15], rtol=0, atol=2e-15)
    np.testing.assert_allclose(samplers.ARRAYS.stirling_error(np.arange(1.0, 40.0)), errors, rtol=0, atol=2e-15)


def test_logarithm_against_mpmath() -> None:
    half = math.sqrt(0.5)
    rng = np.random.default_rng(0)
    points = [1.0, 1 - 2.0**-53, 0.5, 2.0**-53, half, math.nextafter(half, 0), math.nextafter(half, 1), 3 * 2.0**-53]
    x = np.concatenate([points, rng.random(2000), 1 - rng.random(1000) * 1e-6, np.exp2(-53 * rng.random(1000))])
    ours = draws.ARRAYS.log(x)
    assert ours[0] == 0.0
    with mpmath.workprec(120):
        for one, value in zip(x.tolist(), ours.tolist(), strict=True):
            exact = mpmath.log(one)
            assert abs(value - exact) <= 2 * 2.0**-52 * abs(exact), one


def test_cosine_and_sine_against_mpmath() -> None:
    rng = np.random.default_rng(0)
    eighths = np.arange(8) / 8
    near = np.nextafter(eighths[1:], 0), np.nextafter(eighths[1:], 1)
    turns = np.concatenate([eighths, *near, [1 - 2.0**-53, 2.0**-53], rng.random(3000)])
    cosine, sine = draws.ARRAYS.cosine(turns), draws.ARRAYS.sine(turns)
    with mpmath.workprec(120):
        for turn, c, s in zip(turns.tolist(), cosine.tolist(), sine.tolist(), strict=True):
            exact_c, exact_s = mpmath.cospi(2 * mpmath.mpf(turn)), mpmath.sinpi(2 * mpmath.mpf(turn))
            assert abs(c - exact_c) <= 2 * 2.0**-52 * abs(exact_c), turn
            assert abs(s - exact_s) <= 2 * 2.0**-52 * abs(exact_s), turn


def test_normal_rounds_float64() -> None:
    exact = draws.normal(KEY, 1000, dtypes.float64)
    for dtype in REAL_FLOATING:
        draw = draws.normal(KEY, 1000, dtype)
        assert draw.dtype == dtype
        np.testing.assert_array_equal(draw, exact.astype(dtype))
    with pytest.raises(TypeError, match="floating point"):
        draws.normal(KEY, 1, dtypes.int32)


INTERVALS = [
    (0, 1, "int8"),
    (-128, 128, "int8"),
    (0, 256, "uint8"),
    (-5, 7, "int16"),
    (3, 3 + 2**32, "int64"),
    (0, 2**32, "uint32"),
    (-1, 2**32, "int64"),
    (-(2**63), 2**63, "int64"),
    (-(2**63), 2**63 - 1, "int64"),
    (0, 2**64, "uint64"),
    (5, 2**64 - 7, "uint64"),
    (0, 3 * 2**62, "uint64"),
]


@pytest.mark.parametrize(("low", "high", "dtype"), INTERVALS)
def test_integers_are_the_upper_part_of_the_product(low: int, high: int, dtype: str) -> None:
    draw = draws.integers(KEY, low, high, 200, np.dtype(dtype))
    assert draw.dtype == dtype
    size = high - low
    for element, value in enumerate(draw.tolist()):
        if size <= 2**32:
            expected = reference_double_word(KEY, element) * size >> 64
        else:
            lower, upper = reference_halves(KEY, element)
            expected = ((upper << 64) + lower) * size >> 128
        assert value == low + expected


CORNERS = [0, 1, MASK, MASK + 1, 2**63, 2**64 - 2**32, 2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize("size", [2**32 + 1, 2**63 + 12345, 2**64 - 1, 3 * 2**62])
def test_wide_products_carry(size: int) -> None:
    pairs = list(itertools.product(CORNERS, repeat=2))
    lower, upper = np.array(pairs, np.uint64).T
    expected = [((high << 64) + low) * size >> 128 for low, high in pairs]
    assert exact.scaled_wide(draws.ARRAYS, lower, upper, np.uint64(size)).tolist() == expected


@pytest.mark.parametrize("size", [1, 2, 3, MASK - 1, MASK, MASK + 1])
def test_narrow_products_carry(size: int) -> None:
    expected = [bits * size >> 64 for bits in CORNERS]
    assert exact.scaled(np.array(CORNERS, np.uint64), np.uint64(size)).tolist() == expected


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-50, 50), (0, 3 * 2**62)])
def test_integers_are_uniform(low: int, high: int) -> None:
    draw = draws.integers(KEY, low, high, 100_000, dtypes.uint64 if high > 2**63 else dtypes.int64)
    bins = high - low if high - low <= 100 else 96
    assert (high - low) % bins == 0  # equally likely bins
    counts = np.bincount([(value - low) * bins // (high - low) for value in draw.tolist()], minlength=bins)
    assert counts.size == bins
    assert stats.chisquare(counts).pvalue > 1e-3


def test_integers_refuse() -> None:
    with pytest.raises(ValueError, match="low must be below high"):
        draws.integers(KEY, 3, 3, 1)
    with pytest.raises(ValueError, match="choose a wider dtype"):
        draws.integers(KEY, 0, 129, 1, dtypes.int8)
    with pytest.raises(ValueError, match="choose a wider dtype"):
        draws.integers(KEY, -1, 5, 1, dtypes.uint8)
    with pytest.raises(TypeError, match="an integer dtype"):
        draws.integers(KEY, 0, 2, 1, dtypes.bool)


def test_permutation() -> None:
    assert draws.permutation(KEY, 0).tolist() == []
    order = draws.permutation(KEY, 10_000)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(10_000))
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.04
    orders = list(itertools.permutations(range(4)))
    counts = dict.fromkeys(orders, 0)
    for draw in range(12_000):
        counts[tuple(draws.permutation(KEY, 4, start=4 * draw).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("name", DRAWS)
def test_two_draws_are_one_draw(name: str) -> None:
    source = Generator(3)
    parts = [DRAWS[name](count, source.next_key(count)[1]) for count in (10, 1, 20)]
    np.testing.assert_array_equal(np.concatenate(parts), DRAWS[name](31, 0))


def test_state_is_saved_and_restored() -> None:
    source = Generator(5)
    source.next_key(7)
    state = source.get_state()
    assert state == GeneratorState(seed=5, stream=0, offset=7)
    twin = source.clone()
    expected = source.next_key(3)
    assert expected == ((5, 0), 7)
    assert twin.next_key(3) == expected
    source.set_state(state)
    assert source.next_key(3) == expected
    source.set_state((1, 2, 3))
    assert source.next_key(1) == ((1, 2), 3)
    assert repr(source) == "Generator(seed=1, stream=2, offset=4)"


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_are_independent(copier: Callable[[Generator], Generator]) -> None:
    source = Generator(5).split(1)[0]
    source.next_key(7)
    twin = copier(source)
    assert twin.get_state() == source.get_state()
    twin.next_key(1)
    assert source.get_state().offset == 7


def test_seeds() -> None:
    source = Generator(5)
    source.next_key(7)
    assert source.manual_seed(2**64 - 1) is source
    assert source.get_state() == (2**64 - 1, 0, 0)
    assert Generator(np.int64(5)).initial_seed == 5  # type: ignore[arg-type]
    assert Generator().initial_seed != Generator().initial_seed
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match=r"2\*\*64"):
            Generator(wrong)
    for wrong_type in (1.0, "1"):
        with pytest.raises(TypeError, match="integer"):
            Generator(wrong_type)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"2\*\*64"):
        source.manual_seed(-1)
    assert source.initial_seed == 2**64 - 1


def test_wrong_counts_and_states() -> None:
    source = Generator(5)
    with pytest.raises(ValueError, match="next_key"):
        source.next_key(-1)
    with pytest.raises(TypeError, match="split"):
        source.split(1.5)  # type: ignore[arg-type]
    for wrong in [(1, 2), (1, 2, -1), (2**64, 0, 0), (0, -1, 0), (0, 0, 2**60 + 1), (0.5, 0, 0), 3]:
        with pytest.raises(ValueError, match="get_state"):
            source.set_state(wrong)  # type: ignore[arg-type]
    assert source.get_state() == (5, 0, 0)


def test_exhausted_stream() -> None:
    source = Generator(5)
    source.set_state((5, 0, philox.ELEMENT_LIMIT - 3))
    with pytest.raises(RuntimeError, match="split"):
        source.next_key(4)
    assert source.next_key(3) == ((5, 0), philox.ELEMENT_LIMIT - 3)
    assert source.next_key(0) == ((5, 0), philox.ELEMENT_LIMIT)


def test_split() -> None:
    one, other = Generator(5), Generator(5)
    first, second = one.split(2), other.split(2)
    assert [child.get_state() for child in first] == [child.get_state() for child in second]
    children = [*first, *one.split(100), *first[0].split(100)]
    keys = {child.next_key(1)[0] for child in children}
    assert len(keys) == 202
    assert (5, 0) not in keys
    assert one.split(0) == []
    drawn = np.array([draws.uniform(child.next_key(1000)[0], 1000, dtypes.float64) for child in children])
    assert stats.kstest(drawn.reshape(-1), "uniform").pvalue > 1e-3
    correlations = np.corrcoef(drawn)[np.triu_indices(len(drawn), 1)] * math.sqrt(1000)
    assert abs(correlations).max() < 5.5  # 20,000 pairs of independent draws


def test_threads_get_numbers_of_their_own() -> None:
    source = Generator(5)
    taken: list[list[int]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def work(mine: list[int]) -> None:
        barrier.wait()
        mine.extend(source.next_key(3)[1] for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain.from_iterable(taken)) == list(range(0, 8 * 2000 * 3, 3))
    # The interpreter seldom interrupts so short a function, so see also that the lock is respected.
    late = threading.Thread(target=source.next_key, args=(1,))
    with generator._lock:
        late.start()
        late.join(0.05)
        assert late.is_alive()
    late.join()


def test_default_generator() -> None:
    default = generator.default_generator()
    before = default.get_state()
    try:
        assert generator.seed(9) is default
        assert default.next_key(4) == ((9, 0), 0)
        generator.seed(9)
        assert default.next_key(4) == ((9, 0), 0)
    finally:
        default.set_state(before)
