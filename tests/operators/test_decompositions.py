"""Operators in terms of others, as devices without a kernel compute them: run on the CPU, against the CPU's kernels.

Integers, bools and copies have the same bits, floats the tolerance of ``test_reference.py``. Arguments that the
operator refuses, its decomposition refuses with the same type of error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.core.tree import map_tensors, tree_map
from tenkey.dispatch.local_state import silently
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tenkey.testing.backend.compare import comparable
from tests._tiers import Failures
from tests.operators._table import DTYPES, FACTORIES, OPERATORS, chosen, named
from tests.operators.test_meta import _MADE
from tests.operators.test_reference import assert_close

_DECOMPOSED: Final = [op for op in OPERATORS if "Decomposition" in op.facets]
_OF_TENSORS: Final = [op for op in _DECOMPOSED if op not in FACTORIES]
_REFUSED: Final = (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)
_INFINITIES_OF_BLAS: Final = ("tk::vecdot",)
"""Which parts of an infinite complex number are nan depends on the library for these, and on the length."""
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0)


_SORTED: Final = {"place_sorted": 0, "digitize": 1, "bins_of": 1, "interval_of": 1}
"""The places of arguments that must be sorted."""


def outcome(call: Callable[..., Any], sample: SampleInput) -> tuple[Any, SampleInput]:
    """What a call with copies of the arguments returns or raises, and the arguments afterwards."""
    copied = sample.map(lambda t: t if t.device.type == "meta" else t.clone())
    try:
        return call(*copied.args, **copied.kwargs), copied
    except _REFUSED as error:
        return error, copied


def agree(got: Any, want: Any) -> None:
    """Raise AssertionError unless the results agree: in structure, shape, dtype and values, or in the type of error."""
    if isinstance(want, BaseException):
        assert isinstance(got, type(want)), f"{got!r} in place of {want!r}"
    elif isinstance(got, BaseException):
        raise got
    elif isinstance(want, Tensor):
        assert isinstance(got, Tensor)
        assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, want.device)
        assert_close(got.numpy(), want.numpy())
    else:
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            agree(one, other)


def compare(operator: Operator, sample: SampleInput) -> None:
    want, reference = outcome(operator.call, sample)
    function = operator.facets["Decomposition"].function
    got, ours = outcome(lambda *args, **kwargs: silently(function, *args, **kwargs), sample)
    agree(*[comparable(operator, result, sample) for result in (got, want)])
    if Tag.NONDETERMINISTIC not in operator.tags:
        agree(ours.tensors(), reference.tensors())


@named(_OF_TENSORS)
def test_samples(operator: Operator) -> None:
    failures = Failures()
    for dtype in DTYPES:
        for sample in chosen(operator, dtype):
            with failures.of(f"{dtype}, {sample.name}"):
                compare(operator, sample)
    failures.check()


def _special(x: Tensor) -> Tensor:
    """Replace some floats by NaN, infinities and zeros."""
    values = x.numpy().copy()
    if values.dtype.kind in "fc":
        values.reshape(-1)[::2] = np.resize(_SPECIAL, values.reshape(-1)[::2].shape)
    return tk.asarray(values)


def _in_order(operator: Operator, sample: SampleInput) -> SampleInput:
    place = _SORTED.get(operator.schema.base_name)
    ordered = [tk.asarray(np.sort(x.numpy())) if i == place else x for i, x in enumerate(sample.args)]
    return SampleInput(tuple(ordered), sample.kwargs)


@named(_OF_TENSORS)
def test_special_values(operator: Operator) -> None:
    failures = Failures()
    for dtype in ("float32", *([] if operator.name in _INFINITIES_OF_BLAS else ["complex64"])):
        for sample in itertools.islice(chosen(operator, dtype), 4):
            with failures.of(f"{dtype}, {sample.name}"):
                compare(operator, _in_order(operator, sample.map(_special)))
    failures.check()


_NAN: Final = np.array([2.0, np.nan, 1.0, np.nan, 2.0, -0.0, 0.0, np.inf])
_PAIRS: Final = np.array([1 + 2j, 1 - 1j, complex(np.nan, 1), 1 + 2j, complex(0, np.nan), 0, complex(np.nan, np.nan)])
_EDGES: Final = (np.array([-1.0, 0.0, 0.5]), np.array([0.5, 0.0, -1.0]), np.array([0.0, 1.0, 0.5]), np.zeros(0))
_RULES: Final = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")
_MORE: Final[dict[str, list[Any]]] = {
    **{
        name: [(_NAN,), (_NAN.astype(np.float16),), (_NAN.reshape(2, 4),), (_PAIRS,), (np.array([3, 0, 3], np.uint64),)]
        for name in ("unique_values", "unique_parts", "argwhere", "flatnonzero", "nonzero_rows", "argsort")
    },
    **{
        name: [
            (_NAN, _NAN[::2].copy()),
            (_PAIRS, _PAIRS[:3].copy()),
            (np.array([3, 1, 3], np.int8), np.array([1.5, 1.0])),
            (_NAN[:0].copy(), _NAN[:0].copy()),
            (np.array([True]), np.array(2.0)),
            (_NAN.astype(np.float16), _NAN),
        ]
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")
    },
    "among": [(_NAN, _NAN, False), (_PAIRS, _PAIRS[::-1].copy(), True), (_NAN, np.array([2, 0], np.int8), False)],
    "sorting_order": [
        (_NAN.reshape(2, 4), 0, True),
        (_NAN.astype(np.float16), 0, True),
        (np.array([True, False]), 0, True),
    ],
    "top_indices": [(_NAN, 3, 0, True), (_NAN, 0, 0, False), (np.array([[3, 1, 3, 3]], np.uint64), 2, 1, True)],
    "order_statistics": [(np.arange(8.0).reshape(2, 1, 4), np.array([[1, -1], [0, 2], [3, 3]])), (_NAN, np.array([2]))],
    "bin_sums": [(np.array([3, 0, -1, 3]), None, 4), (np.array([1, 1], np.uint8), np.array([True, True]), 2)],
    "bincount": [
        (np.array([3, 0, 3]),),
        (np.zeros(0, np.int64), None, 2),
        (np.array([-1, 2]),),
        (np.array([True]), None, 4),
    ],
    "digitize": [(_NAN, edges) for edges in _EDGES] + [(np.array([0, 1]), _EDGES[0])],
    "bins_of": [(_NAN, edges) for edges in _EDGES if edges is not _EDGES[1]] + [(np.arange(9), np.arange(6.0))],
    "ascending": [(edges,) for edges in _EDGES] + [(_NAN,)],
    "even_edges": [(_NAN[:3], 2), (np.full(3, 2.0), 2), (np.zeros(0), 3), (np.array([1.0, 3.0], np.float16), 2)],
    "estimated_edges": [
        *[(np.random.default_rng(3).gamma(2.0, size=n), rule) for n in (1, 2, 50, 300) for rule in _RULES],
        *[(np.arange(40.0) // 7, rule, None, True) for rule in _RULES],
        *[(np.arange(40.0).astype(np.float32), rule, (3.0, 17.5)) for rule in _RULES],
        (_NAN, "auto"),
        (np.arange(3.0), "auto", (5.0, 6.0)),
    ],
    "interval_of": [(_NAN, _EDGES[0]), (_NAN, _EDGES[3])],
    "repeat_indices": [(np.array([2, 0, 1], np.uint64),), (np.array([1, -1]),), (np.zeros(0, np.int64),)],
    "nanargmax": [(_NAN,), (np.array([[np.nan, -np.inf], [np.nan, np.nan]]), 0), (np.array([[np.nan, 1.0]]), 0)],
    "nanargmin": [
        (_NAN.reshape(2, 4), 1),
        (np.array([[np.nan, np.inf], [1.0, 2.0]]), 1),
        (np.array([3, 1, 1], np.int8),),
    ],
    "mean_of_runs": [(np.arange(4.0).astype(np.float16), np.array([1, 0, 1, 0]), 0)],
    "unravel_rows": [(np.array([-1, 2]), (2, 3)), (np.array(0), ()), (np.zeros((0, 2), np.int64), (0, 3))],
    "ravel_multi_index": [([np.array([0, 3])], (3,)), ([np.array([-4, 3])], (0,))],
    "put_": [(_NAN.copy(), [np.array([1, 1, -1])], np.array([1.0, 2.0, 3.0])), (_PAIRS, [np.array(2)], np.array(1.5))],
}
"""Calls with what samples have not: ties, NaN beside numbers, other dtypes, values that are refused."""


@named([op for op in _OF_TENSORS if op.schema.base_name in _MORE])
def test_more_calls(operator: Operator) -> None:
    failures = Failures()
    for args in _MORE[operator.schema.base_name]:
        with failures.of(f"{args}"):
            compare(operator, tree_map(lambda x: tk.asarray(x) if isinstance(x, np.ndarray) else x, SampleInput(args)))
    failures.check()


def _variations(sample: SampleInput) -> Iterator[tuple[str, SampleInput]]:
    """Calls that an operator may refuse: indices out of range, other dtypes and shapes, numbers out of range."""
    yield "beyond the end", sample.map(lambda t: t + 100 if t.dtype.kind == "i" else t)
    yield "before the beginning", sample.map(lambda t: t - 100 if t.dtype.kind == "i" else t)
    for dtype in (tk.complex64, tk.bool, tk.int8, tk.uint64, tk.float16):
        yield f"as {dtype}", sample.map(lambda t, dtype=dtype: tk.ops.tk.cast(t, dtype))  # type: ignore[misc]
    yield "one dimension more", sample.map(lambda t: tk.expand_dims(t, axis=0))
    yield "no dimension", sample.map(lambda t: tk.reshape(t, (-1,))[0] if t.size else t)
    for i, value in enumerate(sample.args):
        if type(value) is int:
            for number in (-100, 100):
                yield (
                    f"argument {i} = {number}",
                    SampleInput((*sample.args[:i], number, *sample.args[i + 1 :]), sample.kwargs),
                )
    for name, value in sample.kwargs.items():
        if type(value) is int:
            for number in (-100, 100):
                yield f"{name} = {number}", SampleInput(sample.args, {**sample.kwargs, name: number})


@pytest.mark.filterwarnings("ignore:Casting complex values")
@named(_OF_TENSORS)
def test_refused_arguments(operator: Operator) -> None:
    failures = Failures()
    for sample in itertools.islice(chosen(operator, "float32"), 3):
        for name, changed in _variations(sample):
            with failures.of(f"{sample.name}, {name}"):
                compare(operator, changed)
    failures.check()


def test_factories() -> None:
    failures = Failures()
    for operator in FACTORIES:
        for args, kwargs in _MADE[operator.schema.base_name] if operator in _DECOMPOSED else ():
            with failures.of(f"{operator.name}{args}"):
                compare(operator, _converted(operator, args, kwargs))
    failures.check()


def _converted(operator: Operator, args: Any, kwargs: dict[str, Any]) -> SampleInput:
    """The arguments of a call as kernels get them: shapes are tuples, dtypes objects."""
    types = [str(argument.type) for argument in operator.schema.arguments]
    shaped = [(x,) if kind == "int[1]" and isinstance(x, int) else x for x, kind in zip(args, types, strict=False)]
    return SampleInput(tuple(shaped), {name: np.dtype(x) if name == "dtype" else x for name, x in kwargs.items()})


def test_a_decomposition_that_differs_is_found() -> None:
    x = tk.asarray([1.0, 2.0])
    with pytest.raises(AssertionError):
        agree(x + 1e-3, x)
    with pytest.raises(AssertionError):
        agree(tk.astype(x, tk.float64), x)
    with pytest.raises(AssertionError, match="in place of"):
        agree(x, IndexError("out of range"))
    with pytest.raises(TypeError):
        agree(TypeError("refused"), x)
    moved = map_tensors(lambda t: t.to_device("meta"), [x])
    with pytest.raises(AssertionError):
        agree(moved, [x])
