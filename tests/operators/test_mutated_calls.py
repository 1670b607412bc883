"""Every public operator on arguments that nobody meant: a result that the rules agree on, or an error that helps.

Hypothesis takes a sample call of an operator and changes one or two of its arguments: another dtype, another shape
(zero-size and 0-d among them), nan and infinities, another device, an axis or a number out of range, a wrong word. The
call may refuse. If it does, then deliberately, naming itself, and leaving its arguments as they were; if it does not,
its result has the shape and dtype that the device ``meta`` predicts, and, in double precision, the values of NumPy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tests._tiers import tier
from tests.operators._references import reference_of
from tests.operators._table import SAMPLED, arrays, named, results, sampled

DELIBERATE: Final = (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError, OverflowError)
ACCIDENTS: Final = (RecursionError,)
SHAPES: Final = ((), (0,), (1,), (3,), (2, 3), (0, 2), (2, 0, 3), (3, 3), (1, 1, 1, 1), (2, 3, 4))
KINDS: Final = ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")
NUMBERS: Final = (0, 1, -1, 2, -2, 7, -7, 100, -100)
FLOATS: Final = (0.0, -1.0, 2.5, float("nan"), float("inf"), -1e300)
SETTINGS: Final = settings(deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
UNDEFINED: Final = frozenset({"empty_like"})  # of its values nothing is said
ADDITION: Final = "depends on"  # words of the error of an operator whose result's shape depends on values


@st.composite
def _tensors(draw: Any, like: Tensor) -> Tensor:
    """Another tensor in place of one: of another dtype, of another shape, of hard values, on another device."""
    if str(like.device) == "meta":
        return like
    change = draw(st.sampled_from(["dtype", "shape", "values", "device", "both"]))
    kind = np.dtype(draw(st.sampled_from(KINDS))) if change in ("dtype", "both") else like.dtype
    shape = draw(st.sampled_from(SHAPES)) if change in ("shape", "both") else like.shape
    rng = np.random.default_rng(draw(st.integers(0, 3)))
    values = rng.uniform(0, 3, shape)
    if kind.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    if change == "values" and values.size and kind.kind in "fc":
        values.reshape(-1)[0] = draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
    elif change in ("dtype", "device"):
        values = like.numpy() if kind.kind == "c" or like.dtype.kind != "c" else np.real(like.numpy())
    with np.errstate(all="ignore"):
        made = tk.asarray(np.asarray(values).astype(kind))
    return made.to_device("meta") if change == "device" else made


def _changed(draw: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return draw(_tensors(value))
    if isinstance(value, bool):
        return draw(st.sampled_from([not value, 2, None]))
    if isinstance(value, int):
        return draw(st.sampled_from([*NUMBERS, 1.5, None, "0"]))
    if isinstance(value, float):
        return draw(st.sampled_from([*FLOATS, None, "0"]))
    if isinstance(value, str):
        return draw(st.sampled_from(["", "no such word", 3, None]))
    if isinstance(value, (tuple, list)) and value:
        place = draw(st.integers(0, len(value) - 1))
        items = list(value)
        action = draw(st.sampled_from(["change", "drop", "repeat", "none"]))
        if action == "change":
            items[place] = _changed(draw, items[place])
        elif action == "drop":
            del items[place]
        elif action == "repeat":
            items.insert(place, items[place])
        else:
            return None
        return type(value)(items)
    if value is None:
        return draw(st.sampled_from([0, -100, 1.5, "0"]))
    return value


@st.composite
def _calls(draw: Any, operator: Operator) -> SampleInput:
    """A sample call with one or two arguments changed."""
    made = list(sampled(operator, draw(st.sampled_from(["float64", "float32", "int64", "complex64"]))))
    if not made:
        made = list(sampled(operator, "float64")) or list(sampled(operator, "int64")) or list(sampled(operator, "bool"))
    sample = made[draw(st.integers(0, len(made) - 1))]
    args, kwargs = list(sample.args), dict(sample.kwargs)
    for argument in operator.schema.arguments:  # what the sample leaves at its default can be wrong, too
        if argument.kwarg_only and argument.name not in kwargs and argument.has_default:
            kwargs[argument.name] = argument.default
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from([*range(len(args)), *kwargs]))
        if isinstance(place, int):
            args[place] = _changed(draw, args[place])
        else:
            kwargs[place] = _changed(draw, kwargs[place])
    return SampleInput(tuple(args), kwargs, sample.name)


def _copies(sample: SampleInput) -> list[bytes]:
    return [t.numpy().tobytes() for t in sample.tensors() if str(t.device) == "cpu"]


def _run(operator: Operator, sample: SampleInput) -> list[Tensor] | Exception:
    """The results of a call, or the error by which it refuses; any other error is the test's."""
    try:
        return list(results(operator, sample))
    except DELIBERATE as error:
        refusal = error
    assert not isinstance(refusal, ACCIDENTS), sample
    assert "[" in str(refusal), f"{sample} gives an error that does not name its operator: {refusal!r}"
    return refusal


def _agrees_with_numpy(operator: Operator, sample: SampleInput, got: list[Tensor]) -> None:
    tensors = sample.tensors()
    if operator.schema.base_name in UNDEFINED or any(
        t.dtype.name not in ("float64", "int64") or not np.isfinite(t.numpy()).all() for t in tensors
    ):
        return
    reference = reference_of(operator)
    if reference is None:
        return
    call = arrays(sample)
    try:
        with np.errstate(all="ignore"):
            wanted = reference(*call.args, **call.kwargs)
    except Exception:
        return  # what NumPy takes otherwise, or not at all, is not measured by it
    several = wanted if isinstance(wanted, (tuple, list)) and len(got) > 1 else [wanted]
    for mine, its in zip(got, several, strict=True):
        if np.asarray(its).dtype.kind in "biufc" and np.shape(its) == mine.shape:
            near = 1e-9 if mine.dtype.itemsize >= 8 else 1e-6  # integers give single precision
            np.testing.assert_allclose(mine.numpy(), its, rtol=1e-6, atol=near, err_msg=str(sample))


@pytest.mark.wider
@named([op for op in SAMPLED if op.doc and not op.schema.is_mutable and Tag.INTERNAL not in op.tags])
def test_a_changed_call(operator: Operator) -> None:
    @settings(
        max_examples=tier(6, 15),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: Any) -> None:
        sample = data.draw(_calls(operator))
        before = _copies(sample)
        got = _run(operator, sample)
        assert _copies(sample) == before, f"{sample} changes its arguments"
        if any(str(t.device) == "meta" for t in sample.tensors()):
            return
        predicted = _run(operator, sample.map(lambda t: t.to_device("meta")))
        if isinstance(got, Exception):
            return  # values, too, may be refused: a singular matrix, an index out of range
        if isinstance(predicted, Exception):
            assert isinstance(predicted, NotImplementedError), f"{sample} has a result, but meta says {predicted!r}"
            assert ADDITION in str(predicted), predicted
            return
        assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in predicted], sample
        _agrees_with_numpy(operator, sample, got)

    run()


def test_the_check_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accident, a nameless error and a changed argument are each noticed."""
    x = tk.ones(2)
    for error in (AttributeError("[f]"), RecursionError("[f]"), ValueError("no name")):

        def fail(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr("tests.operators.test_mutated_calls.results", fail)
        with pytest.raises((AttributeError, AssertionError)):
            _run(tk.exp.operator, SampleInput((x,)))
