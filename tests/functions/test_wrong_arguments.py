"""Functions that no schema checks, and numbers at the edge: errors of our own that name the function and the rule."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tenkey as tk
from tests._registry import registry_as_before
from tests._tiers import only_full

X = np.arange(6.0).reshape(2, 3)
NOT_AN_AXIS: list[Any] = [None, "a", 1.0, {}, 1j]


@pytest.mark.parametrize("axis", NOT_AN_AXIS)
@pytest.mark.parametrize(
    "name", ["apply_along_axis", "put_along_axis", "split", "array_split", "shuffle", "permutation", "choice"]
)
def test_an_axis_is_an_int(name: str, axis: Any) -> None:
    x = tk.asarray(X.copy())
    calls: dict[str, Any] = {
        "apply_along_axis": lambda: tk.apply_along_axis(tk.sum, axis, x),
        "put_along_axis": lambda: tk.put_along_axis(x, tk.asarray([[0]]), 1.0, axis=axis),
        "split": lambda: tk.split(x, 1, axis=axis),
        "array_split": lambda: tk.array_split(x, 1, axis=axis),
        "shuffle": lambda: tk.random.shuffle(x, axis=axis),
        "permutation": lambda: tk.random.permutation(x, axis=axis),
        "choice": lambda: tk.random.choice(x, axis=axis),
    }
    place = "permutation" if name == "shuffle" else name
    with pytest.raises(TypeError, match=rf"\[{place}\] axis must be an int, got"):
        calls[name]()
    assert x.tolist() == X.tolist()


@pytest.mark.parametrize("axis", [1.0, "a", [0, "a"], {}])
def test_axes_are_ints(axis: Any) -> None:
    x = tk.asarray(X)
    for name, call in (("linalg.norm", tk.linalg.norm), ("gradient", tk.gradient)):
        with pytest.raises(TypeError, match=rf"\[{name}\] axis must be an int or several, got"):
            call(x, axis=axis)


def test_axes_may_be_numbers_of_numpy() -> None:
    x = tk.asarray(X)
    one = np.int64(1)
    np.testing.assert_allclose(tk.linalg.norm(x, axis=one).numpy(), np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(tk.gradient(x, axis=one).numpy(), np.gradient(X, axis=1))
    assert len(tk.split(x, 3, axis=one)) == 3
    assert [i.tolist() for i in tk.unravel_index(tk.asarray([3]), np.int64(5))] == [[3]]


@pytest.mark.parametrize("wrong", [None, "a", {1: 2}, {1, 2}, object()])
def test_what_is_no_tensor(wrong: Any) -> None:
    x, i = tk.asarray(X.copy()), tk.asarray([[0]])
    calls: dict[str, list[Any]] = {
        "nonzero": [lambda: tk.nonzero(wrong)],
        "shares_storage": [lambda: tk.shares_storage(wrong, x), lambda: tk.shares_storage(x, wrong)],
        "apply_along_axis": [lambda: tk.apply_along_axis(tk.sum, 0, wrong)],
        "put_along_axis": [lambda: tk.put_along_axis(wrong, i, 1.0), lambda: tk.put_along_axis(x, wrong, 1.0)],
    }
    for name, several in calls.items():
        for call in several:
            with pytest.raises(TypeError, match=rf"\[{name}\] takes (a Tensor|tensors), got {type(wrong).__name__}"):
                call()


B70 = 2**70


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: tk.unravel_index(tk.asarray(0), None), TypeError, r"\[unravel_index\] the shape is an int or"),
        (lambda x: tk.unravel_index(tk.asarray(0), 1.5), TypeError, r"\[unravel_index\] the shape is an int or"),
        (lambda x: tk.unravel_index(tk.asarray(0), [2, "a"]), TypeError, r"\[unravel_index\] the shape is an int or"),
        (
            lambda x: tk.piecewise(x, [x > 0], 1),
            TypeError,
            r"\[piecewise\] funclist is a list of functions, .* got int",
        ),
        (
            lambda x: tk.piecewise(x, [x > 0], [tk.ones(3)]),
            ValueError,
            r"\[index_put\] a value of shape \(3,\) does not fit where a mask selects the shape \(5,\)",
        ),
        (lambda x: tk.apply_along_axis(3, 0, x), TypeError, r"\[apply_along_axis\] the first argument is a function"),
        (lambda x: tk.linspace(x, 1, None), TypeError, r"\[linspace\] num is an integer, .* got None"),
        (lambda x: tk.linspace(np.dtype("int64"), 1, 2), TypeError, r"\[tk::linspace\] the argument 'start' must be a"),
        (lambda x: tk.linspace(x, 1, 2.0), TypeError, r"\[linspace\] num is an integer, .* got 2.0"),
        (
            lambda x: tk.array_split(x, 2**40),
            ValueError,
            r"\[array_split\] .* at most 16777216 parts, got 1099511627776",
        ),
        (lambda x: tk.asarray(x, copy=np.arange(3)), TypeError, r"\[asarray\] the argument 'copy' must be a bool"),
        (lambda x: tk.tensor(1.0, requires_grad="no"), TypeError, r"\[tensor\] the argument 'requires_grad' must be a"),
        (lambda x: tk.zeros(np.complex64), TypeError, r"\[tk::zeros\] the argument 'shape' must be an int"),
        (lambda x: tk.take_along_axis(x, tk.asarray([[0]]), axis=B70), IndexError, r"\[take_along_axis\] axis \d+ is"),
        (lambda x: tk.trace(x + 1j, dtype=tk.int64), TypeError, r"\[trace\] complex128 with dtype=int64 would lose"),
        (
            lambda x: tk.broadcast_to(x[0, 0], (2**40, 2**40)),
            ValueError,
            r"\[broadcast_to\] a tensor of shape .* larger",
        ),
        (lambda x: tk.broadcast_to(x[:1, :1], (2**40, 2**40)), ValueError, r"\[broadcast_to\] .* larger than an addr"),
        (lambda x: tk.masked_fill(x > 0, x > 0, B70), TypeError, r"\[masked_fill\] .* cannot hold a value of int"),
        (lambda x: tk.masked_fill(tk.arange(2), tk.ones(2) > 0, B70), OverflowError, "does not fit into int64"),
        (lambda x: tk.special.polygamma(2**80, x), ValueError, r"\[special_polygamma\] n .* below 2\*\*63"),
        (lambda x: tk.random.uniform(2**50), MemoryError, r"^\[uniform\] needs more memory than available, for shape"),
        (lambda x: tk.random.permutation(2**50), MemoryError, r"^\[permutation\] needs more memory than available"),
    ],
)
def test_errors_are_our_own(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(tk.asarray(X.copy()))


def test_a_value_that_does_not_fit_a_mask_changes_nothing() -> None:
    x = tk.asarray(X.copy())
    for values in (tk.ones(4), tk.ones((5, 1)), [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"\[index_put\] a value of shape .* mask selects the shape \(5,\)"):
            x[x > 0] = values
    with pytest.raises(ValueError, match=r"\[index_put\] .* mask selects the shape \(1, 3\)"):
        x[tk.asarray([True, False])] = tk.ones((2, 3))
    assert x.tolist() == X.tolist()


def test_ints_beyond_64_bits_are_floats_among_floats() -> None:
    x = tk.asarray(X)
    wide = float(B70)
    assert tk.masked_fill(x, x > 4, B70).tolist() == [[0, 1, 2], [3, 4, wide]]
    np.testing.assert_allclose(tk.linspace(5, B70, 3).tolist(), [5, wide / 2, wide])
    assert tk.full(2, B70, dtype=tk.float32).tolist() == [wide, wide]
    pytest.importorskip("ml_dtypes")
    assert tk.full(2, B70, dtype=tk.bfloat16).tolist() == [wide, wide]
    assert tk.special.stdtr(B70, tk.zeros(2, dtype=tk.bfloat16)).tolist() == [0.5, 0.5]


def test_numbers_as_weights_of_one_element() -> None:
    for weight in (1.5, 2):
        counts, _ = tk.histogram(tk.asarray(3.0), weights=weight)
        assert counts.sum().item() == weight


def _polygamma(n: int, x: float) -> Any:
    """By the series, whose terms from 2000 on are an integral and half a term."""
    with mpmath.workdps(60):
        start, order = mpmath.mpf(x), n + 1
        total = mpmath.fsum((start + k) ** -order for k in range(2000))
        end = start + 2000
        total += end ** (1 - order) / (order - 1) + end**-order / 2 + order * end ** (-order - 1) / 12
        return (-1) ** order * mpmath.factorial(n) * total


@pytest.mark.parametrize("n", only_full([1, 2, 7, 40, 100, 101, 170, 171, 400], [2, 171, 400]))
def test_polygamma_of_high_order_and_negative_numbers(n: int) -> None:
    """Where factorial and powers leave the range of double precision, though the result does not."""
    places = [0.3, 1.0, 2.5, 60.0, 200.0, -0.3, -0.5, -1.5, -2.7, -20.25]
    x = tk.asarray(places, dtype=tk.float64)
    for got in (tk.special.polygamma(n, x), tk.special.polygamma(tk.asarray(n), x)):
        want = [float(_polygamma(n, place)) for place in places]
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-290)
    poles = tk.special.polygamma(n, tk.asarray([0.0, -0.0, -3.0]))
    assert poles.tolist() == [np.inf if n % 2 else -np.inf] * 3


def _in_a_kernel() -> Any:
    registered = tk.library.custom_op(
        "one_traceback::shifted", lambda x: tk.asarray(x.numpy() + 1), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    return registered(tk.empty(2, device="meta"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x @ tk.ones((4, 5)),
        lambda x: tk.asarray(1.0) @ x,
        lambda x: x + tk.ones(2),
        lambda x: tk.add(x, "a"),
        lambda x: tk.add(x, [1, [2]]),
        lambda x: tk.where(x > 0, x, tk.ones(7)),
        lambda x: x.reshape(4),
        lambda x: x.reshape((-1, -1)),
        lambda x: x.reshape((-2, 3)),
        lambda x: x[2],
        lambda x: x[0, 0, 0],
        lambda x: x[tk.asarray([7])],
        lambda x: x[1.5],
        lambda x: x.__setitem__(0, tk.ones(2)),
        lambda x: x.__setitem__(tk.asarray([7]), 1.0),
        lambda x: tk.sum(x, axis=2),
        lambda x: tk.sum(x, axis=(0, 0)),
        lambda x: tk.max(x[:0], axis=0),
        lambda x: tk.argmax(x, axis=5),
        lambda x: tk.permute_dims(x, (0,)),
        lambda x: tk.squeeze(x, axis=0),
        lambda x: tk.flip(x, axis=5),
        lambda x: tk.broadcast_to(x, (2, 4)),
        lambda x: tk.concat([x, tk.ones((2, 4))]),
        lambda x: tk.stack([x, tk.ones(3)]),
        lambda x: tk.take_along_axis(x, tk.asarray([[7]]), axis=1),
        lambda x: tk.sort(x + 1j),
        lambda x: tk.cumulative_sum(x),
        lambda x: tk.clip(x, tk.ones(2), 5.0),
        lambda x: tk.trace(x + 1j, dtype=tk.int64),
        lambda x: tk.linalg.inv(tk.zeros((2, 2))),
        lambda x: tk.linalg.inv(x),
        lambda x: tk.linalg.cholesky(-tk.eye(2)),
        lambda x: tk.linalg.solve(tk.eye(2), tk.ones(3)),
        lambda x: tk.fft.fft(x, n=0),
        lambda x: tk.zeros(3, dtype="float31"),
        lambda x: tk.asarray(["a"]),
        lambda x: tk.asarray([object()]),
        lambda x: tk.astype(x, object),
        lambda x: tk.zeros(3, device="nowhere"),
        lambda x: tk.zeros(-1),
        lambda x: tk.full((10**9, 10**9, 10**9), 1.0),
        lambda x: tk.arange(0, 1, 0),
        lambda x: tk.arange(2, -3, -1, dtype=tk.uint8),
        lambda x: tk.eye(-1),
        lambda x: x.no_such_method(),
        lambda x: tk.no_such_function(x),
        lambda x: tk.ops.tk.no_such_operator(x),
        lambda x: tk.special.erf("a"),
        lambda x: tk.einsum("ij,jk", x, x),
        lambda x: tk.library.infer_schema(lambda y: y),
        lambda x: tk.library.pointwise(
            "one_traceback::wrong(Tensor x) -> Tensor", scalar=lambda T: lambda x, y: x + y, partials=None
        ),
        lambda x: _in_a_kernel(),
    ],
)  # fmt: skip
def test_one_traceback_for_each_error(call: Any) -> None:
    """NumPy's error, or Python's, by which a mistake was noticed is not shown before the one that explains it."""
    with registry_as_before(), pytest.raises(Exception, match=r"\w") as caught:
        call(tk.asarray(X.copy()))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert caught.value.__cause__ is None
