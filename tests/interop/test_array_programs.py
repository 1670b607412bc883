"""What programs that were written for NumPy or for the standard expect, found by SciPy's own tests on our namespace."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import tenkey as tk


def test_iteration_makes_a_row_when_it_is_asked_for() -> None:
    x = tk.zeros((3, 2))
    rows = iter(x)  # numpy.iterable(x) and its like ask for no more than this
    x[0, 0] = 5.0
    x[2, 1] = 7.0
    assert [row.tolist() for row in rows] == [[5.0, 0.0], [0.0, 0.0], [0.0, 7.0]]
    assert np.iterable(x)
    assert not np.iterable(tk.asarray(1.0))
    huge = tk.broadcast_to(tk.zeros(()), (1 << 40,))
    assert next(iter(huge)).item() == 0.0


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_put_along_axis_writes_in_place(axis: int) -> None:
    rng = np.random.default_rng(3)
    x, values = rng.standard_normal((2, 4, 5))
    order = rng.permuted(np.broadcast_to(np.arange(x.shape[axis]), np.moveaxis(x, axis, -1).shape), axis=-1)
    order = np.moveaxis(order, -1, axis)
    ours = tk.asarray(x.copy())
    given = tk.put_along_axis(ours, tk.asarray(order), tk.asarray(values), axis=axis)
    np.put_along_axis(x, order, values, axis)
    assert given is ours
    np.testing.assert_array_equal(ours.numpy(), x)


def test_put_along_axis_broadcasts_and_is_differentiable() -> None:
    x = tk.zeros((2, 3), dtype=tk.int64)
    tk.put_along_axis(x, tk.asarray([[0, 2]]), 9, axis=1)
    assert x.tolist() == [[9, 0, 9], [9, 0, 9]]
    leaf = tk.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    value = tk.tensor(4.0, requires_grad=True)
    made = leaf * 2
    tk.put_along_axis(made, tk.asarray([[1]]), value)
    made.sum().backward()
    assert leaf.grad.tolist() == [[2.0, 0.0, 2.0]]
    assert value.grad.item() == 1.0
    before = tk.ones(3, dtype=tk.int64)
    wrong: list[tuple[Any, Any, type[Exception]]] = [
        (tk.asarray([5]), 1, IndexError),
        (tk.asarray([0.0]), 1, TypeError),
        (tk.asarray([[0]]), 1, ValueError),
        (tk.asarray([0]), 1.5, TypeError),
        (tk.asarray([0]), "one", TypeError),
    ]
    for indices, values, error in wrong:
        with pytest.raises(error, match=r"\[(put_along_axis|index_put)\]"):
            tk.put_along_axis(before, indices, values)
    assert before.tolist() == [1, 1, 1]


def test_copy_is_a_method() -> None:
    x = tk.asarray([[1.0, 2.0]])
    y = x.copy()
    y[0, 0] = 3.0
    assert x.tolist() == [[1.0, 2.0]]
    assert y.tolist() == [[3.0, 2.0]]


def test_a_tensor_of_no_dimensions_is_a_number() -> None:
    assert tk.arange(tk.asarray(3)).tolist() == [0, 1, 2]
    assert tk.arange(tk.asarray(1.0), tk.asarray(2.0), tk.asarray(0.5)).tolist() == [1.0, 1.5]
    assert tk.full((2,), tk.asarray(7)).dtype == tk.int64
    for call in (
        lambda: tk.arange(tk.asarray([3])),
        lambda: tk.arange(tk.tensor(3.0, requires_grad=True)),  # its gradient would be lost
    ):
        with pytest.raises(TypeError, match="must be a Python number, got tensor"):
            call()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_rounded_by_their_parts(dtype: str) -> None:
    z = np.array([0.5 + 1.5j, -2.5 - 0.4j, 3.7 - 1e9j, np.inf + 0.5j, complex(np.nan, -np.inf)], dtype)
    got = tk.round(tk.asarray(z))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.numpy(), np.round(z))
    np.testing.assert_array_equal(np.signbit(got.numpy().imag), np.signbit(np.round(z).imag))
    wide = np.tile(z, 20000)
    np.testing.assert_array_equal(tk.round(tk.asarray(wide)).numpy(), np.round(wide))
    leaf = tk.tensor([0.6 + 1.2j], requires_grad=True)
    tk.round(leaf).backward(tk.ones_like(leaf))
    assert leaf.grad.tolist() == [0j]


# ---- special functions


def test_polygamma_of_tensors_of_orders() -> None:
    rng = np.random.default_rng(4)
    n = rng.integers(-4, 21, (3, 1))
    x = np.concatenate([rng.uniform(-5, 20, 20), [-3.0, 0.0, 1.0, np.inf]])
    got = tk.special.polygamma(tk.asarray(n), tk.asarray(x)).numpy()
    with np.errstate(all="ignore"):
        want = scipy.special.polygamma(n, x)
    np.testing.assert_allclose(got[:, :-1], want[:, :-1], rtol=1e-9)
    for order in (0, 1, 2, 7):
        assert tk.special.polygamma(tk.asarray(order), tk.asarray(0.7, dtype=tk.float64)).item() == pytest.approx(
            float(mpmath.polygamma(order, 0.7)), rel=1e-14
        )
    assert tk.special.polygamma(1, tk.asarray([-2.0, 0.0])).tolist() == [np.inf, np.inf]
    assert tk.special.polygamma(2, tk.asarray([-2.0, 0.0])).tolist() == [-np.inf, -np.inf]
    leaf = tk.tensor([0.7, 2.5], dtype=tk.float64, requires_grad=True)
    orders = tk.asarray([[1], [3]])
    assert tk.autograd.gradcheck(lambda t: tk.special.polygamma(orders, t), leaf)
    for given, error in ((tk.asarray([1, 2, 3]), ValueError), (tk.asarray([1.0]), TypeError), (1.5, TypeError)):
        with pytest.raises(error, match=r"\[special_polygamma\]"):
            tk.special.polygamma(given, tk.ones(2))


def test_betaln_of_negative_numbers() -> None:
    rng = np.random.default_rng(5)
    a = np.concatenate([rng.uniform(-20, 20, 300), rng.integers(-6, 7, 300)])
    b = np.concatenate([np.round(rng.uniform(-20, 20, 100)), rng.uniform(-20, 20, 200), rng.integers(-6, 7, 300)])
    got = tk.special.betaln(tk.asarray(a), tk.asarray(b)).numpy()
    np.testing.assert_allclose(got, scipy.special.betaln(a, b), rtol=1e-10, atol=1e-12)
    assert tk.special.betaln(tk.asarray(-3.0), tk.asarray(2.0)).item() == pytest.approx(np.log(1 / 6), rel=1e-6)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln"])
def test_integers_beside_floats_are_default_floats(name: str) -> None:
    function = getattr(tk.special, name)
    integers, half = tk.asarray([2]), tk.asarray([2.0], dtype=tk.float16)
    assert function(integers, tk.asarray([2.0])).dtype == tk.float32
    assert function(integers, half).dtype == tk.float32
    assert function(integers, tk.asarray([2.0], dtype=tk.float64)).dtype == tk.float64
    assert function(half, half).dtype == function(2, half).dtype == tk.float16
