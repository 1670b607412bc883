"""tenkey.core.dtypes.promotion: the standard's tables, PyTorch's rules across kinds, and the laws of a lattice."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenkey.core.dtypes import names as dtypes
from tenkey.core.dtypes.names import DType
from tenkey.core.dtypes.promotion import Category, can_cast, category_of, promote_types, result_dtype
from tests._tiers import tier

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATING = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTEGRAL = SIGNED + UNSIGNED

# array API standard 2025.12, "Type promotion rules", "Integer dtypes" and "Floating-point type promotion table".
# Rows and columns in the order of the heading; a dot stands for what the standard does not define.
SIGNED_TABLE = """
        int8  int16 int32 int64
int8    int8  int16 int32 int64
int16   int16 int16 int32 int64
int32   int32 int32 int32 int64
int64   int64 int64 int64 int64
"""
UNSIGNED_TABLE = """
        uint8  uint16 uint32 uint64
uint8   uint8  uint16 uint32 uint64
uint16  uint16 uint16 uint32 uint64
uint32  uint32 uint32 uint32 uint64
uint64  uint64 uint64 uint64 uint64
"""
MIXED_TABLE = """
        uint8 uint16 uint32 uint64
int8    int16 int32  int64  .
int16   int16 int32  int64  .
int32   int32 int32  int64  .
int64   int64 int64  int64  .
"""
FLOATING_TABLE = """
           float32    float64    complex64  complex128
float32    float32    float64    complex64  complex128
float64    float64    float64    complex128 complex128
complex64  complex64  complex128 complex64  complex128
complex128 complex128 complex128 complex128 complex128
"""
# PyTorch 2.13, torch.promote_types on these dtypes: categories decide, float16 and bfloat16 meet in float32.
ACROSS_KINDS = [
    ("bool", "uint8", "uint8"),
    ("bool", "int64", "int64"),
    ("bool", "float16", "float16"),
    ("bool", "complex64", "complex64"),
    ("uint8", "float16", "float16"),
    ("int64", "float16", "float16"),
    ("int64", "float32", "float32"),
    ("int8", "float64", "float64"),
    ("int64", "complex64", "complex64"),
    ("float16", "float32", "float32"),
    ("float16", "float64", "float64"),
    ("float32", "complex64", "complex64"),
    ("float64", "complex64", "complex128"),
]


def read(table: str) -> list[tuple[str, str, str]]:
    heading, *rows = [line.split() for line in table.strip().splitlines()]
    return [(row[0], column, cell) for row in rows for column, cell in zip(heading, row[1:], strict=True)]


def promote(*names: str) -> str:
    return promote_types(*map(np.dtype, names)).name


@pytest.mark.parametrize("table", [SIGNED_TABLE, UNSIGNED_TABLE, MIXED_TABLE, FLOATING_TABLE])
def test_the_standards_tables(table: str) -> None:
    entries = read(table)
    assert len(entries) == 16
    for x1, x2, expected in entries:
        if expected == ".":
            with pytest.raises(TypeError, match=r"int\d+ with uint64.*astype"):
                promote(x1, x2)
        else:
            assert promote(x1, x2) == promote(x2, x1) == expected, (x1, x2)


@pytest.mark.parametrize(("x1", "x2", "expected"), ACROSS_KINDS)
def test_across_kinds_as_in_pytorch(x1: str, x2: str, expected: str) -> None:
    assert promote(x1, x2) == promote(x2, x1) == expected


def test_bool() -> None:
    assert promote("bool") == promote("bool", "bool") == "bool"
    for dtype in dtypes.ALL:
        assert promote_types(dtypes.bool, dtype) == dtype


def test_within_kinds_as_numpy() -> None:
    for names in (INTEGRAL, ["float16", *FLOATING], COMPLEX):
        for x1, x2 in itertools.product(names, repeat=2):
            if {x1, x2} & set(SIGNED) and "uint64" in (x1, x2):
                continue
            assert promote(x1, x2) == np.promote_types(x1, x2).name


def test_float16_with_complex64() -> None:
    assert promote("float16", "complex64") == "complex64"
    assert promote("float16", "float64", "complex64") == "complex128"


def test_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    half, brain = dtypes.float16, dtypes.to_dtype("bfloat16")
    assert promote_types(brain, brain) == brain
    assert promote_types(half, brain) == promote_types(brain, half) == dtypes.float32
    assert promote_types(brain, dtypes.float32) == dtypes.float32
    assert promote_types(brain, dtypes.float64) == dtypes.float64
    assert promote_types(brain, dtypes.int64) == brain
    assert promote_types(brain, dtypes.complex64) == dtypes.complex64
    assert promote_types(half, brain, dtypes.float64) == dtypes.float64
    assert result_dtype([brain], [float]) == brain
    assert result_dtype([brain], [complex]) == dtypes.complex64


def outcome(given: Sequence[DType]) -> DType | None:
    try:
        return promote_types(*given)
    except TypeError:
        return None


@pytest.mark.wider
@settings(max_examples=tier(75, 300), deadline=None)
@given(st.lists(st.sampled_from(dtypes.ALL), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_matter(given_dtypes: list[DType], random: object) -> None:
    expected = outcome(given_dtypes)
    shuffled = list(given_dtypes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert outcome(shuffled) == expected
    assert outcome(given_dtypes * 2) == expected
    if expected is None:
        return
    assert promote_types(expected, *given_dtypes) == expected
    for cut in range(1, len(given_dtypes)):
        left, right = outcome(given_dtypes[:cut]), outcome(given_dtypes[cut:])
        if left is not None and right is not None:
            assert promote_types(left, right) == expected


def test_uint64_with_signed_is_decided_by_a_float() -> None:
    for order in itertools.permutations(["uint64", "int8", "float32"]):
        assert promote(*order) == "float32"
    with pytest.raises(TypeError, match="int16 with int8 with uint64"):
        promote("uint64", "int8", "int16", "bool")


def test_foreign_byte_order_and_unsupported() -> None:
    assert promote_types(np.dtype(">f4"), np.dtype(">f4")).isnative
    with pytest.raises(TypeError, match="float64"):
        promote_types(np.dtype(np.longdouble), dtypes.float32)
    with pytest.raises(TypeError, match="numbers first"):
        promote_types(np.dtype(object))
    with pytest.raises(ValueError, match="no dtypes"):
        promote_types()


# dtype of the array, type of the scalar, result. PyTorch 2.13's `array * scalar`, with int64, float32 and complex64 as
# defaults. (For a float16 array and a complex scalar PyTorch gives its complex32, which is not among our dtypes.)
WEAK = [
    ("bool", bool, "bool"),
    ("bool", int, "int64"),
    ("bool", float, "float32"),
    ("bool", complex, "complex64"),
    ("uint8", bool, "uint8"),
    ("uint8", int, "uint8"),
    ("int8", float, "float32"),
    ("int64", float, "float32"),
    ("int64", complex, "complex64"),
    ("float16", int, "float16"),
    ("float16", float, "float16"),
    ("float16", complex, "complex64"),
    ("float32", float, "float32"),
    ("float32", complex, "complex64"),
    ("float64", bool, "float64"),
    ("float64", float, "float64"),
    ("float64", complex, "complex128"),
    ("complex64", float, "complex64"),
    ("complex64", complex, "complex64"),
    ("complex128", int, "complex128"),
]


@pytest.mark.parametrize(("array", "scalar", "expected"), WEAK)
def test_weak_scalars(array: str, scalar: type, expected: str) -> None:
    assert result_dtype([np.dtype(array)], [scalar]) == expected


def test_weak_scalars_alone_and_together() -> None:
    assert result_dtype([], [bool]) == "bool"
    assert result_dtype([], [bool, int]) == "int64"
    assert result_dtype([], [float, int]) == "float32"
    assert result_dtype([], [complex, int]) == "complex64"
    assert result_dtype([dtypes.float64], [int, complex, bool]) == "complex128"
    assert result_dtype([dtypes.int8, dtypes.uint8]) == "int16"
    assert result_dtype([dtypes.int8, dtypes.float64], [float]) == "float64"
    with pytest.raises(ValueError, match="no dtypes"):
        result_dtype([])


def test_defaults_decide_for_scalars() -> None:
    with dtypes.default_dtypes(real_floating="float64", integral="int32"):
        assert result_dtype([dtypes.int8], [float]) == "float64"
        assert result_dtype([dtypes.bool], [int]) == "int32"
        assert result_dtype([dtypes.int8], [complex]) == "complex128"
        assert result_dtype([dtypes.float32], [float]) == "float32"
    assert result_dtype([dtypes.int8], [float]) == "float32"  # nothing of this was remembered


def test_weak_types() -> None:
    class Color(enum.IntEnum):
        RED = 1

    assert result_dtype([dtypes.float32], [Color]) == "float32"
    assert result_dtype([dtypes.bool], [Color]) == "int64"
    for not_weak in (np.float64, np.complex128, np.int8, str, list):
        with pytest.raises(TypeError, match=r"x\.dtype"):
            result_dtype([dtypes.float32], [not_weak])


def test_can_cast_within_kinds_as_numpy() -> None:
    for names in (INTEGRAL, FLOATING, COMPLEX):
        for x1, x2 in itertools.product(names, repeat=2):
            assert can_cast(np.dtype(x1), np.dtype(x2)) == np.can_cast(x1, x2), (x1, x2)


def test_can_cast_across_kinds() -> None:
    assert can_cast(dtypes.bool, dtypes.int8)
    assert can_cast(dtypes.int64, dtypes.float32)
    assert not can_cast(dtypes.float32, dtypes.int64)
    assert not can_cast(dtypes.float64, dtypes.complex64)
    assert not can_cast(dtypes.uint64, dtypes.int64)
    with pytest.raises(TypeError, match="numbers first"):
        can_cast(np.dtype(object), dtypes.int64)


def test_categories_are_ordered() -> None:
    assert Category.BOOL < Category.INTEGRAL < Category.REAL_FLOATING < Category.COMPLEX
    names = ["bool", "uint64", "float16", "complex64"]
    assert [category_of(np.dtype(name)) for name in names] == list(Category)
    with pytest.raises(TypeError, match="numbers first"):
        category_of(np.dtype("U1"))
