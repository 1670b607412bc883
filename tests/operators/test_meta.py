"""On the device ``meta`` every operator gives the shape and dtype of the real run, from the same rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tests._tiers import each
from tests.operators._table import FACTORIES, SAMPLED, arrays, calls, chosen, named, results, sampled

_DTYPES = ("float32", "float64", "int64", "uint8", "bool", "complex64")


@pytest.mark.wider
@each("dtype", _DTYPES)
@named(SAMPLED)
def test_shape_and_dtype(operator: Operator, dtype: str) -> None:
    for sample in chosen(operator, dtype):
        moved = sample.map(lambda tensor: tensor.to_device("meta"))
        try:
            made = results(operator, moved)
        except NotImplementedError as error:
            assert "depends on the" in str(error)  # noqa: PT017 (only some samples have a mask)
            mask = any(t.dtype.kind == "b" for t in sample.tensors())
            assert mask or Tag.DATA_DEPENDENT_OUTPUT in operator.tags
            continue
        for got, real in zip(made, results(operator, sample), strict=True):
            assert (got.shape, got.dtype, str(got.device)) == (real.shape, real.dtype, "meta"), sample


@named([op for op in SAMPLED if "View" in op.facets])
def test_views_on_meta_share_storage(operator: Operator) -> None:
    for sample in sampled(operator, "float32"):
        moved = sample.map(lambda tensor: tensor.to_device("meta"))
        made = calls(operator, moved)
        assert tk.shares_storage(made, moved.tensors()[0])
        if sample.name == "contiguous":
            assert made.strides == calls(operator, sample).strides or made.size < 2


_MADE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "empty": [(((2, 0),), {}), ((3,), {"dtype": "int8"})],
    "zeros": [(((2, 3),), {})],
    "ones": [(((),), {"dtype": "complex64"})],
    "full": [(((2,), 7), {}), ((2, 1.5), {}), ((2, True), {}), ((2, 1j), {})],
    "arange": [((5,), {}), ((5, 0, -2), {}), ((0.0, 1.0, 0.3), {}), ((3, 1), {})],
    "linspace": [((0, 1, 5), {}), ((0, 1j, 5), {})],
    "eye": [((3,), {}), ((2, 4), {"k": 1})],
    "logspace": [((0, 2, 3), {}), ((0, 2, 3), {"dtype": "float64"})],
    "geomspace": [((1, 8, 4), {})],
    "tri": [((3,), {}), ((2, 4), {"k": 1, "dtype": "bool"})],
    "fft_fftfreq": [((4,), {}), ((5,), {"d": 0.5, "dtype": "float64"})],
    "fft_rfftfreq": [((4,), {}), ((5,), {"d": 0.5, "dtype": "float64"})],
    "random_uniform": [(((2, 3), 0, 0, 0), {}), ((2, 0, 0, 0), {"dtype": "float64"})],
    "random_normal": [(((2, 3), 0, 0, 0), {})],
    "random_addresses": [(((2, 3), 0, 0, 0), {})],
    "random_standard": [(((2, 3), 0, 0, 0), {"kind": "gumbel", "dtype": tk.float64})],
    "random_integers": [(((2, 3), 0, 0, 0), {"low": 1, "high": 5})],
    "random_permutation": [((4, 0, 0, 0), {})],
}


@named(FACTORIES)
def test_creation(operator: Operator) -> None:
    for args, kwargs in _MADE[operator.schema.base_name]:
        here = operator.call(*args, **kwargs)
        got = operator.call(*args, **kwargs, device="meta")
        assert (got.shape, got.dtype, str(got.device)) == (here.shape, here.dtype, "meta")


def test_no_memory_is_needed() -> None:
    huge = tk.zeros((1 << 20, 1 << 20, 1 << 20), device="meta")
    assert tk.exp(huge + 1).sum(axis=0).shape == (1 << 20, 1 << 20)
    assert huge.nbytes == 4 << 60


def test_gradients_have_shapes_too() -> None:
    x = tk.zeros((3, 1), device="meta").requires_grad_()
    (found,) = tk.autograd.grad((tk.tanh(x) * tk.ones((3, 4), device="meta")).sum(), x)
    assert found is not None
    assert (found.shape, str(found.device)) == ((3, 1), "meta")


@pytest.mark.parametrize("read", ["item", "tolist", "numpy", "__array__", "__bool__", "__float__"])
def test_values_are_refused(read: str) -> None:
    with pytest.raises(RuntimeError, match="no values"):
        getattr(tk.zeros((), device="meta"), read)()


def test_indexing() -> None:
    here = tk.zeros((4, 3, 2))
    there = here.to_device("meta")
    for index in (0, np.s_[1:3, ..., 0], None, [0, 2], np.s_[:, [0, 1, 1]], np.s_[[0, 1], :, [1, 0]], np.s_[::-1]):
        assert there[index].shape == here[index].shape
    with pytest.raises(NotImplementedError, match=r"\[index\].*use where"):
        there[np.array([True, False, True, True])]
    there[0] = 1.0
    there[[0, 1]] = tk.zeros(2, device="meta")
    assert there._version == 2


def test_arrays_of_the_table_are_copies() -> None:
    (sample, *_) = sampled(next(op for op in SAMPLED if op.name == "tk::add"), "float32")
    copied = arrays(sample).args[0]
    copied[...] = 7
    assert not (sample.args[0].numpy() == 7).any()
