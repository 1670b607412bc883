"""tenkey.core.text.formatting: the text of tensors, and options that are local."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenkey.core.text.formatting import (
    PrintOptions,
    edge_indices,
    format_tensor,
    get_printoptions,
    printoptions,
    set_printoptions,
)


def text(values: Any, extra: str = "", **more: Any) -> str:
    values = np.asarray(values)
    return format_tensor(values, dtype=values.dtype, device="cpu", extra=extra, **more)


def body(values: Any) -> str:
    """The values alone."""
    found = re.fullmatch(r"tensor\((.*?),\s+shape=.*\)", text(values), flags=re.DOTALL)
    assert found is not None
    return found[1]


def test_matrix() -> None:
    expected = "tensor([[1., 2.],\n        [3., 4.]], shape=(2, 2), dtype=float32, device='cpu')"
    assert text(np.array([[1, 2], [3, 4]], np.float32)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.float32(3.5), "3.5"),
        (np.array(7), "7"),
        (np.array(True), "True"),
        (np.array(1 / 3), "0.3333"),
        (np.array(1 + 2j), "1.+2.j"),
        (np.zeros((0,)), "[]"),
        (np.zeros((3, 0, 2)), "[]"),
        (np.array([True, False]), "[ True, False]"),
        (np.array([1, -10, 100], np.int8), "[  1, -10, 100]"),
        (np.array([2**64 - 1], np.uint64), "[18446744073709551615]"),
        (np.array([1 / 3, 2.0]), "[0.3333, 2.    ]"),
        (np.array([np.nan, np.inf, -np.inf, 1]), "[ nan,  inf, -inf,   1.]"),
        (np.array([1e-9, 1.0]), "[1.e-09, 1.e+00]"),
        (np.array([1 + 2j, 0.5 - 1j]), "[1. +2.j, 0.5-1.j]"),
    ],
)
def test_values(values: np.ndarray[Any, Any], expected: str) -> None:
    printed = text(values)
    assert printed.startswith(f"tensor({expected},")
    assert re.search(rf"shape={re.escape(str(values.shape))}, dtype={values.dtype.name}, device='cpu'\)$", printed)


def test_columns_are_aligned() -> None:
    lines = text(np.array([[1.5, -200.25], [30.125, 4.0]])).splitlines()
    assert lines[0].index(",") == lines[1].index(",")
    assert len(lines[0].rstrip(",")) == lines[1].index("]") + 1
    cube = text(np.arange(24).reshape(2, 3, 4))
    assert cube.startswith("tensor([[[ 0,  1,  2,  3],\n         [ 4,")
    assert "],\n\n        [[12," in cube


def test_extra_device_and_dtype_are_printed_as_given() -> None:
    printed = format_tensor(np.zeros(1), dtype=np.dtype("float32"), device="cuda:0", extra="grad_fn=<Add>")
    assert printed == "tensor([0.], shape=(1,), dtype=float32, device='cuda:0', grad_fn=<Add>)"


def test_long_tail_gets_a_line_of_its_own() -> None:
    printed = text(np.arange(32), "requires_grad=True")
    *values, tail = printed.splitlines()
    assert tail == "       shape=(32,), dtype=int64, device='cpu', requires_grad=True)"
    assert values[-1].endswith("],")
    for width in (40, 60, 80, 120):
        with printoptions(linewidth=width):
            for n in range(1, 40):
                lines = text(np.arange(n)).splitlines()
                assert all(len(line) <= width or line.startswith("       shape=") for line in lines)


@pytest.mark.parametrize("values", [np.arange(3), np.arange(40), np.zeros((2, 3))])
def test_a_tail_that_just_fits_stays_on_the_last_line(values: Any) -> None:
    with printoptions(linewidth=10**6):
        whole = text(values)
    *before, last = whole.splitlines()
    for width, lines in ((len(last), [*before, last]), (len(last) - 1, len(before) + 2)):
        with printoptions(linewidth=width):
            printed = text(values).splitlines()
        assert printed == lines if isinstance(lines, list) else len(printed) == lines


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([[1.5, -100], [1 / 3, 0]], ml_dtypes.bfloat16)
    assert body(values) == body(values.astype(np.float32))
    assert "dtype=bfloat16" in text(values)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    dtype=st.sampled_from(["float32", "int16", "bool", "complex64"]),
    threshold=st.integers(0, 40),
    edgeitems=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_summary_is_numpys(shape: tuple[int, ...], dtype: str, threshold: int, edgeitems: int, seed: int) -> None:
    values = (np.random.default_rng(seed).standard_normal(shape) * 100).astype(dtype)
    with printoptions(threshold=threshold, edgeitems=edgeitems, linewidth=70):
        ours = body(values)
    numpys = np.array2string(
        values,
        separator=", ",
        prefix="tensor(",
        precision=4,
        max_line_width=70,
        threshold=threshold,
        edgeitems=edgeitems,
    )
    assert ours == numpys


def test_huge_tensors_are_summarised_at_once() -> None:
    huge = np.broadcast_to(np.float32(1), (10**6, 10**6, 10**6))  # 4 EB, if one looked at all of it
    printed = text(huge)
    assert printed.count("...") > 3
    assert "shape=(1000000, 1000000, 1000000)" in printed
    for sci_mode in (True, False):
        with printoptions(sci_mode=sci_mode):
            assert len(text(huge)) < 5000


def test_piece_with_shape() -> None:
    values = np.arange(10_000).reshape(100, 2, 50) / 7
    indices = edge_indices(values.shape)
    assert indices is not None
    piece = values[np.ix_(*indices)]
    assert piece.shape == (7, 2, 7)
    assert text(piece, shape=values.shape) == text(values)
    assert edge_indices((10, 100)) is None
    small = values[:2]
    assert text(small, shape=small.shape) == text(small)


@pytest.mark.parametrize("sci_mode", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_sci_mode(dtype: str, sci_mode: bool) -> None:
    values = np.array([1, -0.25, 1e6, np.nan]).astype(dtype)
    with printoptions(sci_mode=sci_mode, precision=2):
        printed = body(values)
        assert body(np.array([1, 20])) == "[ 1, 20]"  # integers have no scientific notation
    numbers = [number.strip() for number in printed.strip("[]").split(",")]
    assert len({len(number) for number in printed.replace("\n       ", "").strip("[]").split(", ")}) == 1  # aligned
    code = "{:.2e}" if sci_mode else "{:.2f}"
    for number, value in zip(numbers, values, strict=True):
        assert number.startswith(code.format(float(value.real)))
        if dtype == "complex64":
            assert number.endswith(code.replace(":", ":+").format(float(value.imag)) + "j")


def test_precision() -> None:
    with printoptions(precision=8):
        assert body(np.array([1 / 3])) == "[0.33333333]"
    assert body(np.array([1 / 3])) == "[0.3333]"


def test_options_are_set_and_restored() -> None:
    before = get_printoptions()
    assert before == PrintOptions(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)
    with printoptions(precision=2, sci_mode=True) as inside:
        assert get_printoptions() == inside == PrintOptions(precision=2, sci_mode=True)
        set_printoptions(threshold=np.int64(5))
        assert get_printoptions() == PrintOptions(precision=2, threshold=5, sci_mode=True)
        seen: list[PrintOptions] = []
        thread = threading.Thread(target=lambda: seen.append(get_printoptions()))
        thread.start()
        thread.join()
        assert seen == [before]
    assert get_printoptions() == before
    with pytest.raises(ZeroDivisionError), printoptions(precision=1):
        raise ZeroDivisionError
    assert get_printoptions() == before


def test_wrong_options_change_nothing() -> None:
    before = get_printoptions()
    with pytest.raises(TypeError, match="precision, threshold, edgeitems, linewidth, sci_mode"):
        set_printoptions(precision=3, digits=4)
    with pytest.raises(TypeError, match=r"precision=1\.5"):
        set_printoptions(precision=1.5)
    with pytest.raises(ValueError, match=r"edgeitems=0: .* at least 1"):
        set_printoptions(edgeitems=0)
    with pytest.raises(TypeError, match="sci_mode=1:"):
        set_printoptions(sci_mode=1)
    assert get_printoptions() == before


def test_numpys_own_options_do_not_matter() -> None:
    values = np.array([1 / 3, np.nan, 2e-9])
    expected = text(values)
    with np.printoptions(precision=1, nanstr="?", formatter={"all": lambda _: "x"}, legacy="1.13", sign="+"):
        assert text(values) == expected
        with printoptions(sci_mode=True):
            assert "?" not in text(values)
