"""Kernels of operators along rows: every form, operator and dtype against NumPy in float64, in three thread orders."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import cubin_of
from tenkey.backends.cuda.kernels.sweeps.sweep_source import Form, sweep_source
from tenkey.backends.cuda.kernels.sweeps.sweeping import form_of, sweeping
from tests._tiers import Failures, only_full, tier
from tests.backends.cuda.kernels._bench import Bench
from tests.backends.cuda.kernels._execution import ORDERS, instructions
from tests.backends.cuda.kernels.sweeps._row_operators import (
    DTYPES,
    REFERENCES,
    accuracy,
    computed,
    function_of,
    inputs,
    reference,
)

LENGTHS = (1, 31, 32, 33, 1000, 1024, 1025, 5000)
GROUP, BLOCK, LONG = Form(8, 2, 1), Form(64, 1, 4), Form(64, 2, 1, is_long=True)
ALL_FORMS = (GROUP, BLOCK, LONG)


def _columns(form: Form) -> int:
    """Return a number of columns of which the last pieces are beyond the end."""
    return {GROUP: 13, BLOCK: 140, LONG: 301}[form]


def _check(name: str, dtype: str, xs: list[np.ndarray], **options: object) -> None:
    function = function_of(name, dtype)
    expected = reference(name, xs)
    found = []
    for order in ORDERS:
        found.append(computed(function, xs, order=order, **options))  # type: ignore[arg-type]
        columns = next(x.shape[1] for x in xs if x.ndim == 2)
        np.testing.assert_allclose(found[-1].astype(float), expected, **accuracy(dtype, columns, expected))
    for other in found[1:]:
        np.testing.assert_array_equal(other.view(np.uint8), found[0].view(np.uint8), "the order of threads matters")


@pytest.mark.parametrize("name", only_full(list(REFERENCES), ["softmax"]))
def test_lengths(name: str) -> None:
    failures = Failures()
    for columns in tier((1, 33, 1024, 5000), LENGTHS):
        for rows in (1, 3) if columns > 33 else (1, 3, 70):
            with failures.of(f"{name} {rows} x {columns}"):
                _check(name, "float32", inputs(function_of(name, "float32"), rows, columns))
    failures.check()


@pytest.mark.parametrize("name", only_full(list(REFERENCES), ["layer_norm_backward", "row_cross_entropy_backward"]))
def test_operators_in_each_form(name: str) -> None:
    failures = Failures()
    for form in ALL_FORMS:
        with failures.of(f"{name} {form.name}"):
            _check(name, "float32", inputs(function_of(name, "float32"), 5, _columns(form)), form=form)
    failures.check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    failures = Failures()
    for k, name in enumerate(tier(["layer_norm"], list(REFERENCES))):
        form = ALL_FORMS[(k + 1) % len(ALL_FORMS)]
        with failures.of(f"{name} {form.name}"):
            _check(name, dtype, inputs(function_of(name, dtype), 3, _columns(form)), form=form)
    failures.check()


@pytest.mark.parametrize("form", ALL_FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("name", only_full(["softmax", "log_softmax", "logsumexp", "row_cross_entropy"], ["logsumexp"]))
def test_infinities_and_nan(name: str, form: Form) -> None:
    columns = _columns(form)
    xs = inputs(function_of(name, "float32"), 8, columns)
    x = xs[0]
    x[0] = -np.inf
    x[1, columns // 2] = np.inf
    x[2, columns - 1] = np.nan
    x[3, : columns - 1] = -np.inf  # the running sum begins with infinities
    x[4, 1:] = -np.inf
    x[5] = np.inf
    x[6] *= 1e4
    x[7, 0], x[7, columns - 1] = np.inf, -np.inf
    _check(name, "float32", xs, form=form)


def test_large_means() -> None:
    """The variance of numbers far from zero: squares of the numbers themselves would cancel."""
    failures = Failures()
    for form in ALL_FORMS:
        for name in ("var", "layer_norm"):
            xs = inputs(function_of(name, "float32"), 3, _columns(form))
            xs[0] = (1e4 + np.round(xs[0] * 64) / 64).astype("f4")
            expected = reference(name, xs)
            with failures.of(f"{name} {form.name}"):
                found = computed(function_of(name, "float32"), xs, form=form)
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3 * np.abs(expected).max())
    failures.check()


@pytest.mark.parametrize("name", ["softmax_backward"])
def test_gaps_and_addresses(name: str) -> None:
    function = function_of(name, "float32")
    for columns, gap, first in ((32, 4, 4), (32, 3, 0), (32, 0, 1), (32, -32, 0)):
        xs = inputs(function, 6, columns)
        if gap < 0:  # all rows are the first one
            xs = [np.broadcast_to(x[:1], x.shape) if x.ndim == 2 else x for x in xs]
        _check(name, "float32", xs, gap=gap, first=first)


def _windows(x: np.ndarray, count: int) -> tuple[Any, ...]:
    return tuple([Bench().put(x) for _ in range(count)])


@pytest.mark.parametrize("order", ORDERS)
def test_sums_over_all_rows(order: str) -> None:
    """Each block adds up every second row; a row of NaN in one shows that the other does not take it."""
    function = function_of("layer_norm_weight_backward", "float32")
    form = Form(64, 1, 4)
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 5, 100)).astype("f4")
    g[3] = np.nan
    bench = Bench(order)
    out = bench.put(np.zeros((2, 100), "f4"))
    bench.launch(sweep_source(function, form), 2, form.threads, 5, 100, 1e-3, out, bench.put(x), 100, bench.put(g), 100)
    away = x.astype(float) - x.mean(1, keepdims=True, dtype=float)
    each = g * away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-3)
    expected = np.stack([each[0::2].sum(0), each[1::2].sum(0)])
    assert np.isnan(expected[1]).all()
    np.testing.assert_allclose(bench.get(out), expected, rtol=1e-4, atol=1e-5)


def test_tensors_that_are_left_out() -> None:
    function = function_of("layer_norm", "float32", ("weight", "bias"))
    assert [array.name for array in function.inputs] == ["x"]
    (x,) = inputs(function, 3, 50)
    expected = reference("layer_norm", [x, np.ones(50), np.zeros(50)])
    np.testing.assert_allclose(computed(function, [x]), expected, rtol=1e-5, atol=1e-6)


def test_forms() -> None:
    """A group of lanes for short rows, a block for longer ones, sweeps through memory for those beyond registers."""
    function = function_of("softmax", "float32")
    for columns, aligned, form in (
        (1, False, Form(1, 1, 1)), (4, True, Form(1, 1, 4)), (31, False, Form(32, 1, 1)), (32, True, Form(8, 1, 4)),
        (512, True, Form(32, 4, 4)), (516, True, Form(64, 4, 4)), (255, False, Form(32, 8, 1)),
        (1025, False, Form(256, 8, 1)), (8192, True, Form(512, 4, 4)), (8196, True, Form(512, 2, 4, is_long=True)),
    ):  # fmt: skip
        found = form_of(function, columns, aligned)
        assert found == form, columns
        assert found.is_long or found.lanes * found.slots * found.width >= columns
    wide = form_of(function_of("layer_norm_backward", "float64"), 1024, True)
    assert (wide.width, wide.slots * wide.width) == (2, 4)  # x and g, of two registers each


def test_what_is_declined() -> None:
    sums = function_of("layer_norm_weight_backward", "float32")
    with pytest.raises(NotImplementedError, match="registers"):
        sweeping(Bench(), sums)((Bench().put(np.zeros(5000, "f4")),), _windows(np.zeros((2, 5000), "f4"), 2), [1e-5])
    function = function_of("softmax", "float32")
    x = np.zeros((1, 70_000), "f4")
    with pytest.raises(NotImplementedError, match="occupy"):
        computed(function, [x])


@pytest.mark.parametrize("cc", only_full([(8, 0), (9, 0), (10, 0)], [(9, 0)]))
def test_figures(cc: tuple[int, int]) -> None:
    """Registers for half of the threads of a multiprocessor, no local memory, and accesses of 128 bits."""
    failures = Failures()
    cases = [("softmax", 8192), ("layer_norm", 1024), ("layer_norm_backward", 4096), ("layer_norm_backward", 9000)]
    for name, columns in cases:
        function = function_of(name, "float32")
        form = form_of(function, columns, True)
        source = sweep_source(function, form)
        with failures.of(f"{name} {form.name}"):
            cubin = cubin_of(source, cc)
            assert (cubin.spills, cubin.stack) == (0, 0)
            assert cubin.registers <= 64
    failures.check()


def test_instructions() -> None:
    for name, columns in (("softmax", 1024), ("layer_norm_backward", 9000)):
        function = function_of(name, "float32")
        text = instructions(sweep_source(function, form_of(function, columns, True)))
        assert ".f64" not in text
        loads = re.findall(r"ld\.global\S*", text)
        assert loads
        assert all(".v4." in load for load in loads), loads
        assert all(".v4." in store for store in re.findall(r"st\.global\S*", text))
