"""Calls that have a short way of their own give what NumPy gives: numbers, dtypes, identity and errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tests._tiers import Failures
from tests.numpy._outcomes import counterpart

DTYPES = ["f2", "f4", "f8", "c16", "i4", "u1", "b1"]


def _outcome(run: Callable[[], Any]) -> Any:
    """Return what a call gives as lists and dtypes, or the text "error"."""
    try:
        found = run()
    except (TypeError, ValueError, ArithmeticError, IndexError):
        return "error"
    several = found if type(found) is tuple else (found,)
    return [(np.asarray(x).tolist(), getattr(x, "dtype", type(x))) for x in several]


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda x, y: x.__iadd__(y), "-=": lambda x, y: x.__isub__(y), "*=": lambda x, y: x.__imul__(y),
    "/=": lambda x, y: x.__itruediv__(y),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    failures = Failures()
    others = [2.0, 2, True, 1j, np.float32(2), np.ones(3, "f4"), np.ones(3, "i4"), np.ones((2, 3)), [1, 2, 3]]
    for dtype, other in itertools.product(DTYPES, others):

        def run(module: Any, dtype: str = dtype, other: Any = other) -> Any:
            x = module.array([1, 2, 3], dtype=dtype)
            if isinstance(other, np.ndarray):
                other = module.array(other)
            made = IN_PLACE[name](x, other)
            assert made is x
            return x

        with failures.of(f"{dtype} {name} {other!r}"):
            assert _outcome(lambda run=run: run(tnp)) == _outcome(lambda run=run: run(np))
    failures.check()


@pytest.mark.parametrize("index", [1, slice(0, 2), ..., np.array([True, False, True])], ids=repr)
def test_assignment(index: Any) -> None:
    failures = Failures()
    for dtype, value in itertools.product(DTYPES, [4, 300, -1, 2.5, True, np.float32(1.5), np.inf]):

        def run(module: Any, dtype: str = dtype, value: Any = value) -> Any:
            x = module.zeros(3, dtype=dtype)
            x[index] = value
            return x

        if dtype == "b1" or (dtype == "u1" and value in (2.5, np.inf)):
            continue  # what C makes of these numbers depends on the machine
        with failures.of(f"{dtype}, {value}"):
            assert _outcome(lambda run=run: run(tnp)) == _outcome(lambda run=run: run(np))
    failures.check()


def test_assignment_of_arrays() -> None:
    x = tnp.zeros((2, 3))
    x[0] = tnp.array([1.0, 2.0, 3.0])
    x[1] = x[0]
    x[:, 1:] = x[:, :-1]
    assert x.tolist() == [[1, 1, 2], [1, 1, 2]]
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = tnp.ones(2)


CREATION: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda m: (m.zeros(3), m.zeros((2, 3)), m.zeros(()), m.zeros(3, int), m.zeros([2, 2])),
    "ones": lambda m: (m.ones((2, 0)), m.ones(2, "f4"), m.ones(np.int64(2))),
    "negative": lambda m: m.zeros(-1),
    "arange": lambda m: (m.arange(3), m.arange(1.5, 4), m.arange(5, 0, -2), m.arange(0), m.arange(3, dtype="u1")),
    "no step": lambda m: m.arange(0, 5, 0),
    "eye": lambda m: (m.eye(2), m.eye(2, 3, 1), m.identity(2), m.tri(2), *m.triu_indices(3)),
    "numbers": lambda m: (m.array([1, 2]), m.array([]), m.array([[]]), m.array([True, 2]), m.array([1j, 2])),
    "rows": lambda m: (m.array([[1, 2], [3, 4.0]]), m.array(((1, 2), [3, 4])), m.array([2**63]), m.array([1], ndmin=2)),
    "ragged": lambda m: m.array([1, [2]]),
    "no copy": lambda m: m.array([1, 2], copy=False),
    "parts": lambda m: tuple(m.split(m.arange(6), [2, 5])) + tuple(m.array_split(m.arange(5), 2)),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name: str) -> None:
    found = _outcome(lambda: CREATION[name](tnp))
    assert found == _outcome(lambda: CREATION[name](np))
    if found != "error":
        made = CREATION[name](tnp)
        assert all(type(x) is tnp.ndarray for x in (made if type(made) is tuple else (made,)))


def test_where() -> None:
    failures = Failures()
    values: list[Any] = [0, 1.5, True, 2j, np.array([1, 2, 3]), [4, 5, 6]]
    values += [np.array([1.0, 2.0, 3.0]).astype(dtype) for dtype in DTYPES]
    for x, y in itertools.product(values, values):

        def run(module: Any, x: Any = x, y: Any = y) -> Any:
            return module.where(module.array([True, False, True]), *[
                module.array(v) if isinstance(v, np.ndarray) else v for v in (x, y)
            ])  # fmt: skip

        with failures.of(f"{x!r}, {y!r}"):
            assert _outcome(lambda run=run: run(tnp)) == _outcome(lambda run=run: run(np))
    failures.check()


@pytest.mark.parametrize("length", [3, 5000])
def test_where_with_ints_that_do_not_fit(length: int) -> None:
    """Small and large calls wrap them around, or refuse them, as the NumPy that is installed."""
    for dtype, number in itertools.product(["i1", "u1", "i4", "u8", "f2", "f4"], [-129, -1, 0, 127, 128, 300, 2**40]):
        given = [np.arange(length) % 2 == 0, np.ones(length, dtype)]
        with np.errstate(over="ignore"):
            try:
                wanted = np.where(given[0], number, given[1])
            except OverflowError:  # from NumPy 2.5 on
                with pytest.raises(OverflowError):
                    tnp.where(tnp.array(given[0]), number, tnp.array(given[1]))
                continue
            found = tnp.where(tnp.array(given[0]), number, tnp.array(given[1]))
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk", "ij,ij", "ij,kj->ikj", "ii", "ij,j->i", "ij,jk,k"])
def test_einsum(text: str) -> None:
    for dtype in ("f8", "c8", "i4", "f2"):
        given = [np.arange(9.0).reshape(3, 3)[(0,) * (2 - len(t))] for t in text.partition("->")[0].split(",")]
        given = [x.astype(dtype) for x in given]
        found, wanted = tnp.einsum(text, *map(tnp.array, given)), np.einsum(text, *given)
        assert (type(found), found.dtype, found.shape) == (counterpart(wanted), wanted.dtype, wanted.shape)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-3 if dtype == "f2" else 1e-6)
    with pytest.raises(ValueError, match=r"terms|subscripts"):
        tnp.einsum(text + "...,q,q", *map(tnp.array, given))


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "negative", "abs", "invert", "isnan", "floor", "sign", "log2"])
def test_ufuncs_of_numbers(name: str) -> None:
    for number in (2, 0.25, -3, True):
        with np.errstate(all="ignore"):
            found, wanted = (_outcome(lambda m=m, x=number: getattr(m, name)(x)) for m in (tnp, np))
        assert found == wanted or (found != "error" and np.isnan(found[0][0]) and np.isnan(wanted[0][0]))


def test_a_list_with_tensors_keeps_the_gradient() -> None:
    x = tnp.array([1.0, 2.0]).requires_grad_()
    tnp.array([x[0] * 3, 5.0, x[1]]).sum().backward()
    assert x.grad.tolist() == [3, 1]


def test_rounding_of_elements() -> None:
    x, y = tnp.array([1.25, -2.5]), np.array([1.25, -2.5])
    for given in (x, x.requires_grad_()):
        for one, other in zip(given, y, strict=True):
            assert (round(one), math.trunc(one)) == (round(other), math.trunc(other))
            assert type(round(one, 1)) is (tnp.ndarray if given.requires_grad else type(other))
            assert round(one, 1) == round(other, 1)
    with pytest.raises(TypeError, match=r"x\.round"):
        round(x)


def test_numpys_own_functions_find_ours() -> None:
    x = tnp.array([3.0, 4.0]).requires_grad_()
    for made in (np.linalg.norm(x), np.fft.fft(x).real.sum(), np.squeeze(x[None]).sum()):
        assert isinstance(made, tk.Tensor)
        made.backward()
    assert type(np.split(tk.ones(4), 2)) is list


def test_norms_of_rows_of_zeros() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0], [1e-200, 0.0], [-0.0, 0.0]])
    np.testing.assert_allclose(tk.linalg.vector_norm(tk.asarray(x), axis=1).numpy(), [0, 5, 1e-200, 0])
    np.testing.assert_allclose(tk.linalg.vector_norm(tk.asarray(x[:2]), axis=1).numpy(), [0, 5])
    assert np.isnan(tk.linalg.vector_norm(tk.asarray([[0.0, np.nan], [0.0, 0.0]]), axis=1).numpy()).tolist() == [1, 0]


def test_errors_name_the_function() -> None:
    for name in ("where", "einsum", "sum"):
        with pytest.raises((TypeError, ValueError), match=name):
            getattr(tnp, name)()
