"""Python numbers in the place of tensors, in functions that are made of others: as in any operator they are weak."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import _names

NUMBERS: list[Any] = [1, 1.5, True, 2 + 1j, float("nan"), np.float32(1), np.int8(2)]
BASES = [
    np.array([1.0, 2.0], np.float32), np.array([1, 2]), np.array([1 + 1j, 2]), np.array([True, False]),
    np.array([[1.0, 2.0], [3.0, 4.5]]), np.array(2.0),
]  # fmt: skip
OF_SEVERAL = [
    (f"{module}.{name}".strip("."), call)
    for module in ("", "linalg", "fft", "special")
    for name, call in _names.expose(module).items()
    if sum(str(a.type) in ("Tensor", "Tensor?") for a in call.operator.schema.arguments if not a.kwarg_only) > 1  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(("name", "call"), OF_SEVERAL, ids=[name for name, _ in OF_SEVERAL])
def test_a_number_for_one_of_the_tensors(name: str, call: Any) -> None:
    """A result, or a refusal of the function's own: not that something inside it was called without tensors."""
    count = sum(str(a.type) in ("Tensor", "Tensor?") for a in call.operator.schema.arguments if not a.kwarg_only)
    for base in BASES:
        for number in NUMBERS:
            for which in range(count):
                args = [number if i == which else tk.asarray(base.copy()) for i in range(count)]
                said = "["
                try:
                    call(*args)
                except (ValueError, TypeError, IndexError, NotImplementedError, RuntimeError, OverflowError) as error:
                    said = str(error)
                assert said.startswith("["), (args, said)
                assert "without tensors" not in said, (args, said)


@pytest.mark.parametrize(("x", "number"), [([1.0, 2.0], 1), ([1, 2], 1), ([1, 2], 1.0), ([1 + 2j, 2], 1 + 2j)])
@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(x: Any, number: Any, equal_nan: bool) -> None:
    t = tk.asarray(x)
    want = np.isclose(x, number).tolist()
    assert tk.isclose(t, number, equal_nan=equal_nan).tolist() == want
    assert tk.isclose(number, t, equal_nan=equal_nan).tolist() == want
    assert tk.allclose(t, number).item() is all(want)
    assert tk.isclose(tk.asarray([np.nan, 1.0]), np.nan, equal_nan=True).tolist() == [True, False]


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_common_divisors_and_multiples_keep_the_dtype(name: str, dtype: str) -> None:
    a = np.array([4, 6, 0, 9], dtype)
    for got in (getattr(tk, name)(tk.asarray(a), 6), getattr(tk, name)(6, tk.asarray(a))):
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(a, 6), strict=True)
    with pytest.raises(TypeError, match=rf"\[{name}\]"):
        getattr(tk, name)(tk.asarray(a), 1.5)
    with pytest.raises(OverflowError, match="out of range"):
        getattr(tk, name)(tk.asarray(a), 2**70)


def test_functions_at_a_number() -> None:
    p = np.array([1.0, -2.0, 0.5])
    assert tk.polyval(tk.asarray(p), 3).item() == np.polyval(p, 3)
    assert tk.polyval(tk.asarray(p), 2.5).dtype == tk.float64
    for at in (1, 0.5, True):
        np.testing.assert_allclose(
            tk.interp(at, tk.asarray([0, 1, 2]), tk.asarray(p)).item(), np.interp(at, [0, 1, 2], p)
        )
    assert tk.repeat(7, tk.asarray([3])).tolist() == [7, 7, 7]
    assert tk.quantile(2.0, tk.asarray([0.5])).tolist() == [2.0]
    np.testing.assert_array_equal(tk.ediff1d(tk.asarray(p), 9, -1).numpy(), np.ediff1d(p, 9, -1), strict=True)
    logits = tk.asarray([0.0, 1.0, 2.0])
    assert tk.cross_entropy(logits, 1).item() == tk.cross_entropy(logits[None], tk.asarray([1])).item()


def test_powers_of_small_integers_do_not_wrap_around() -> None:
    for dtype in ("int8", "uint8", "int16", "int64"):
        a = np.array([2, 100, 7], dtype)
        got = tk.vander(tk.asarray(a), 4)
        assert got.dtype == ("uint64" if dtype == "uint8" else "int64")
        np.testing.assert_array_equal(got.numpy(), np.vander(a.astype("int64"), 4))
    assert tk.vander(tk.asarray([2.0, 3.0], dtype=tk.float16)).dtype == tk.float16


def test_logsumexp_of_nothing() -> None:
    assert tk.logsumexp(tk.zeros(0)).item() == -np.inf
    assert tk.logsumexp(tk.zeros((2, 0)), axis=1, keepdims=True).tolist() == [[-np.inf], [-np.inf]]
    assert tk.logsumexp(tk.zeros((2, 0)), axis=0).shape == (0,)
    x = tk.tensor(np.zeros((0, 3)), requires_grad=True)
    tk.logsumexp(x, axis=0).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("other", [3, 0.75, np.array([1.0, -2.0, 0.5]), np.float64(1.5)])
def test_divmod(other: Any) -> None:
    a = np.array([7.0, -7.0, 2.5])
    for got, want in (
        (divmod(tk.asarray(a), other), divmod(a, other)),
        (divmod(other, tk.asarray(a)), divmod(other, a)),
        (divmod(tk.asarray(a), tk.asarray(np.asarray(other))), divmod(a, other)),
    ):
        assert all(type(part) is tk.Tensor for part in got)
        np.testing.assert_allclose([part.numpy() for part in got], want)
    assert [part.item() for part in divmod(tk.asarray(7), 3)] == [2, 1]
    quotient, rest = divmod(np.float64(1.0), tk.tensor([0.0, 2.0], requires_grad=True))  # no warning of NumPy's
    assert (quotient.tolist(), str(rest.tolist())) == ([np.inf, 0.0], "[nan, 1.0]")
    assert rest.requires_grad
    with pytest.raises(TypeError, match="unsupported operand"):
        divmod(tk.asarray(a), "a")


def test_arrays_beside_tensors_in_products() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for x, y in ((tk.asarray(a), b), (a, tk.asarray(b))):
        np.testing.assert_allclose(tk.tensordot(x, y, axes=1).numpy(), a @ b)
        np.testing.assert_allclose(tk.einsum("ij,jk->ik", x, y).numpy(), a @ b)
    np.testing.assert_allclose(tk.tensordot(tk.asarray(a), b.tolist(), axes=1).numpy(), a @ b)
    with pytest.raises(TypeError, match=r"\[tensordot\] takes a Tensor, got dict"):
        tk.tensordot(tk.asarray(a), {}, axes=1)


def test_round_of_python() -> None:
    for value in (2.5, 3.5, -2.6, 1e10, 7):
        assert round(tk.asarray(value)) == round(value)
        assert type(round(tk.asarray(value))) is int
    a = np.array([2.567, -1.235, 17.0])
    for digits in (0, 1, 2, -1, np.int64(1)):
        np.testing.assert_allclose(round(tk.asarray(a), digits).numpy(), np.round(a, digits))
    assert round(tk.asarray(a)).tolist() == np.round(a).tolist()
    assert round(tk.asarray(a).mean(), 2).item() == pytest.approx(round(a.mean(), 2))
    assert round(tk.asarray([17, -25, 4]), -1).tolist() == np.round([17, -25, 4], -1).tolist()
    assert round(tk.asarray([17]), 2).tolist() == [17]
    with pytest.raises(TypeError, match=r"\[round\] the element .* is complex"):
        round(tk.asarray(1j))
    with pytest.raises(TypeError, match="interpreted as an integer"):
        round(tk.asarray(a), 1.5)
