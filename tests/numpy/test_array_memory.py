"""Note [Order of elements in memory]: order=, views, flags, strides, ``x.shape = ...`` and ``x.flat``."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

from .test_array_class import A, C, I, same

Z = np.arange(24.0).reshape(2, 3, 4)


def _module(x: Any) -> Any:
    return np if isinstance(x, np.ndarray) else tnp


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_orders(order: Any) -> None:
    for turn in ((0, 1, 2), (2, 0, 1), (2, 1, 0)):
        x, its = tnp.array(Z).transpose(turn), Z.transpose(turn)
        for call in (
            lambda v: v.copy(order), lambda v: v.astype("f4", order), lambda v: v.flatten(order),
            lambda v: v.ravel(order), lambda v: _module(v).array(v, order=order),
            lambda v: _module(v).zeros_like(v, order=order), lambda v: _module(v).copy(v, order),
        ):  # fmt: skip
            made, want = call(x), call(its)
            same(made, want)
            assert made.strides == want.strides
            assert (made.flags.c_contiguous, made.flags.f_contiguous) == (want.flags["C"], want.flags["F"])
        if order != "K":
            same(x.reshape(6, 4, order=order), its.reshape(6, 4, order=order))
    if order in "CF":
        assert tnp.ones((2, 3), order=order).strides == np.ones((2, 3), order=order).strides
        assert tnp.full((2, 3), 7, order=order).strides == np.full((2, 3), 7, order=order).strides


def test_errors_of_orders() -> None:
    for call in (lambda: tnp.array(A).copy("X"), lambda: tnp.zeros((2, 2), order="?")):
        with pytest.raises(ValueError, match=r"order must be one of 'C', 'F', 'A', or 'K'"):
            call()
    with pytest.raises(ValueError, match=r"not permitted"):
        tnp.array(A).reshape(6, order="K")


def test_gradients_pass_through_orders() -> None:
    weights = np.arange(6.0)
    for call in (lambda v: v.ravel("F"), lambda v: v.reshape(6, order="F"), lambda v: v.copy("F").ravel("K")):
        found = tk.grad(lambda v: (call(v) * tnp.array(weights)).sum())(tnp.array(A))  # noqa: B023
        same(found, weights.reshape(3, 2).T.copy())


def test_views_share_memory() -> None:
    x, its = tnp.array(A), A.copy()
    for make in (lambda v: v[0], lambda v: v.T, lambda v: v.reshape(3, 2), lambda v: v.ravel(), lambda v: v[:, ::2]):
        view = make(x)
        assert view.base is x
        assert not view.flags.owndata
        make(x)[...] = 9.0
        make(its)[...] = 9.0
        same(x, its)
        x[...], its[...] = A, A
    assert x.base is None
    assert x.flags.owndata
    assert x.copy().base is None
    assert tnp.may_share_memory(x, x.T)
    assert not tnp.shares_memory(x[0], x[1])


def test_views_of_other_dtypes() -> None:
    x, its = tnp.array(A), A.copy()
    same(x.view(np.int64), its.view(np.int64))
    same(x.view("u1"), its.view("u1"))
    x.view(np.int64)[0, 0] = 0
    assert float(x[0, 0]) == 0.0
    z, want = tnp.array(C), C.copy()
    z.real[0], want.real[0] = 7.0, 7.0
    z.imag, want.imag = A, A
    same(z, want)
    with pytest.raises(TypeError, match=r"imaginary part"):
        x.imag = 1.0
    with pytest.raises(RuntimeError, match=r"no view of another dtype"):
        x.requires_grad_().view(np.int64)


def test_shape_is_assigned() -> None:
    x = tnp.array(A)
    x.shape = (3, -1)
    same(x, A.reshape(3, 2))
    x.shape = 6
    same(x, A.ravel())
    with pytest.raises(ValueError, match=r"cannot reshape array of size 6"):
        x.shape = (4, 2)
    with pytest.raises(AttributeError, match=r"Incompatible shape for in-place modification"):
        x.reshape(2, 3).T.shape = 6


def test_flags() -> None:
    x = tnp.array(A)
    for name in ("C_CONTIGUOUS", "F", "O", "W", "ALIGNED", "FNC", "FORC"):
        assert x.flags[name] == A.copy().flags[name]
    with pytest.raises(KeyError):
        x.flags["Q"]
    x.flags.writeable = False
    with pytest.raises((RuntimeError, ValueError)):
        x[0] = 1.0
    assert "C_CONTIGUOUS : True" in repr(x.flags)


def test_flat() -> None:
    x, its = tnp.array(I), I.copy()
    assert [int(v) for v in x.flat] == list(its.flat)
    assert len(x.flat) == 6
    for index in (2, -1, slice(1, None, 2), [0, 5], ..., np.arange(6) > 3):
        same(x.flat[index], its.flat[index])
        value: Any = 70 if isinstance(index, int) else [70, 80]
        x.flat[index], its.flat[index] = value, value
        same(x, its)
    iterator = x.flat
    next(iterator)
    assert (iterator.index, iterator.coords) == (1, (0, 1))
    assert iterator.base is x
    same(x.flat == 70, its.flat == 70)
    x.flat = 5
    assert x.tolist() == [[5, 5, 5], [5, 5, 5]]
    with pytest.raises(IndexError):
        x.flat[0, 1]


@pytest.mark.parametrize("name", ["add", "reciprocal", "exp2", "floor_divide"])
def test_results_lie_in_memory_as_numpy_lays_them(name: str) -> None:
    """Axes of stride 0 stay where they are; the others are in the order of their strides."""
    x = np.arange(64 * 64).reshape(64, 64) % 7 + 1
    for axes in itertools.permutations((8, 512, 0)):
        lengths = [64 if stride else 3 for stride in axes]
        view = np.lib.stride_tricks.as_strided(x, lengths, axes)
        operands = (view,) if name in ("reciprocal", "exp2") else (view, 3)
        want = getattr(np, name)(*operands)
        got = getattr(tnp, name)(*[tnp.asarray(operand) for operand in operands])
        assert got.strides == want.strides, axes


def test_copies_of_broadcast_arrays_lie_in_memory_as_numpy_lays_them() -> None:
    """Axes of stride 0 come last in copies; ``ravel`` leaves them where they are."""
    x = np.arange(64 * 64).reshape(64, 64)
    for axes in itertools.permutations((8, 512, 0)):
        lengths = [64 if stride else 3 for stride in axes]
        view = np.lib.stride_tricks.as_strided(x, lengths, axes)
        its = tnp.asarray(view)
        for call in (lambda v: v.astype("f4"), lambda v: v.copy("K"), lambda v: _module(v).zeros_like(v)):
            assert call(its).strides == call(view).strides, axes
        np.testing.assert_array_equal(its.ravel("K"), view.ravel("K"))


def test_copies_of_arrays_with_negative_strides_keep_the_order_of_axes() -> None:
    x = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::-1, :, ::-1]
    its = tnp.asarray(x)
    assert its.strides == tuple(map(abs, x.strides))
    assert tnp.tanh(its).strides == np.tanh(x).strides
    assert tnp.shares_memory(its, its.transpose(1, 2, 0).reshape(-1))
    assert tnp.transpose(x).strides == tuple(map(abs, x.T.strides))


@pytest.mark.parametrize("dtype", ["i8", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("ndim", [2, 3])
def test_products_with_a_number_lie_in_memory_as_numpy_lays_them(dtype: str, ndim: int) -> None:
    """BLAS writes matrices of its dtypes row by row; other products are NumPy's ``multiply``."""
    x = np.arange(24).astype(dtype).reshape((4, 6) if ndim == 2 else (2, 3, 4)).T
    number = np.array(2, dtype)
    for operands in ((x, number), (number, x)):
        want = np.dot(*operands).strides
        assert tnp.dot(*operands).strides == want
        assert tnp.dot(*map(tnp.asarray, operands)).strides == want


def test_broadcast_arrays_cannot_be_written_to() -> None:
    """Their elements share memory, also in a view that has each element once."""
    x = tnp.arange(3.0)
    whole = tnp.broadcast_to(x, (3, 3))
    for view in (whole, whole[1:-1], whole[0], whole.T, tnp.broadcast_to(x, (3,))):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match=r"read-only|single memory location"):
            view *= 2
    assert x.tolist() == [0, 1, 2]
    x += 1
    assert whole[2].tolist() == [1, 2, 3]
    for other in (["a", "b"], np.array(["2026-01-01", "2026-01-02"], "M8[D]"), np.array([None, 1])):
        assert tnp.broadcast_to(other, (3, 2)).tolist() == np.broadcast_to(other, (3, 2)).tolist()
