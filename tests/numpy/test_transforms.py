"""Arrays keep NumPy's rules inside of transforms: a function gives there what it gives for each slice by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tests.numpy._calls import CALLS
from tests.numpy._versions import EIG_IS_COMPLEX, SHORT_POWERS

Function = Callable[[Any], Any]


def alike(got: Any, expected: Any) -> None:
    """Equal classes, shapes, dtypes and values, in tuples and lists too."""
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            alike(one, other)
        return
    assert type(got) is type(expected) is tnp.ndarray
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    rtol = 2**-23 if SHORT_POWERS and got.dtype == np.float32 else 1e-12  # its power is not the root that it takes
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, atol=1e-14)


def stacked(results: list[Any]) -> Any:
    if isinstance(results[0], (tuple, list)):
        return [stacked(list(column)) for column in zip(*results, strict=True)]
    return tnp.stack(results)


def in_place(x: Any) -> Any:
    y = x.copy()
    y += 1
    y *= x
    y[0] = 7
    y[1:] -= x[1:]
    return y


def sorted_in_place(x: Any) -> Any:
    y = x.copy()
    assert y.sort() is None
    return y


def of_elements(x: Any) -> Any:
    """An element is not changed by ``+=``, be it a scalar or a 0-d array."""
    total = x[0]
    total += 1
    return total / 2 + x[0]


def several(x: Any) -> Any:
    return divmod(x, 2)


def mixed(x: Any) -> Any:
    return x + np.float32(0.5), x * np.float64(2), np.arange(3, dtype=np.int8) * x, 2 * x, [1, 2, 3] - x


PROGRAMS: dict[str, Function] = {
    "divide": lambda x: x / 2, "divide by itself": lambda x: x / (x + 1), "power": lambda x: x**2,
    "square root": lambda x: (x + 3) ** 0.5, "floor divide": lambda x: x // 2, "of several": several, "mixed": mixed,
    "mean": tnp.mean, "method mean": lambda x: x.mean(), "sum": lambda x: x.sum(), "variance": lambda x: x.var(ddof=1),
    "cumulative": lambda x: x.cumsum(), "transpose": lambda x: x.T, "compare": lambda x: (x == [1, 2, 3]) | (x > 2),
    "clip": lambda x: x.clip(1, 2), "index": lambda x: x[::2] + x[-1], "negative": lambda x: -x, "abs": abs,
    "integers": lambda x: x.astype(np.int16) * 300, "argsort": lambda x: x.argsort(), "take": lambda x: x.take([0, 2]),
    "reshape": lambda x: x.reshape(3, 1) @ x[None], "dot": lambda x: x.dot(x), "methods of tensors": lambda x: x.exp(),
    "detach": lambda x: x.detach() / 2, "in place": in_place, "sorted in place": sorted_in_place,
    "elements": of_elements, "iterated": lambda x: tnp.stack([row / 2 for row in x]),
    "NumPy's functions": lambda x: np.add(x, 1) / 2 + np.mean(x), "a copy": lambda x: tnp.array(x) / 4,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_vmap_gives_what_each_slice_gives(dtype: str) -> None:
    x = tnp.array([[1, 4, 2], [3, 1, 2]], dtype=dtype)
    for name, function in PROGRAMS.items():
        try:
            alike(tk.transforms.vmap(function)(x), stacked([function(row) for row in x]))
        except Exception as error:
            raise AssertionError(f"{name} of {dtype}") from error


def test_operators_of_matrices_and_booleans() -> None:
    x = tnp.arange(8).reshape(2, 2, 2)
    mask = x > 3
    for function in (lambda a: a.T / 3, lambda a: a @ a.T, lambda a: tnp.linalg.det(a), lambda a: a.mean(axis=0)):
        alike(tk.transforms.vmap(function)(x), stacked([function(a) for a in x]))
    for function in (lambda a: a + a, lambda a: ~a, lambda a: a.sum(), lambda a: a * a, lambda a: a.mean()):
        alike(tk.transforms.vmap(function)(mask), stacked([function(a) for a in mask]))


def test_nested_vmap_and_shared_arguments() -> None:
    x, y = tnp.arange(6).reshape(2, 3), tnp.arange(1, 4)

    def product(a: Any, b: Any) -> Any:
        return (a / b) ** 2 + a // b

    nested = tk.transforms.vmap(tk.transforms.vmap(product))
    alike(nested(x, x + 1), product(x, x + 1))
    alike(tk.transforms.vmap(lambda row: row / 2, chunk_size=1)(x), x / 2)
    shared = tk.transforms.vmap(product, in_dims=(0, None))
    alike(shared(x, y), stacked([product(row, y) for row in x]))
    moved = tk.transforms.vmap(lambda row: tk.transforms.vmap(lambda e: e / 2)(row) / 2 + row.mean(), in_dims=1)
    alike(moved(x), stacked([column / 4 + column.mean() for column in x.T]))


def test_the_function_sees_arrays() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append(x)
        y = (x * 2)[0:1].sum()
        seen.append(y)
        return y

    rows = tnp.ones((2, 3))
    tk.transforms.vmap(look)(rows)
    tk.transforms.jvp(look, (rows[0],), (rows[1],))
    tk.transforms.vmap(tk.transforms.grad(look))(rows)
    tk.transforms.jacfwd(look)(rows[0])
    tk.transforms.hessian(look)(rows[0])
    assert len(seen) == 10
    assert all(isinstance(x, tnp.ndarray) for x in seen)
    assert type(tk.transforms.vmap(lambda x: tk.exp(x))(rows)) is tnp.ndarray  # as the argument is


def test_plain_tensors_keep_their_rules() -> None:
    def half(x: Any) -> Any:
        assert not isinstance(x, tnp.ndarray)
        return x / 2

    made = tk.transforms.vmap(half)(tk.asarray([1, 2]))
    assert (type(made), made.dtype) == (tk.Tensor, tk.float32)


def test_a_function_of_the_namespace_makes_arrays_of_tensors() -> None:
    def function(x: Any) -> Any:
        y = tnp.add(x, 0)
        assert isinstance(y, tnp.ndarray)
        assert not isinstance(x, tnp.ndarray)
        return y / 2

    assert tk.transforms.vmap(function)(tk.asarray([1, 2])).dtype == tk.float64


def scalar(x: Any) -> Any:
    y = x.copy()
    y += x**2
    y[0] *= 2
    y.sort()
    total = (y / 3).mean() * tnp.sum(y.T**3)
    total += y[-1]
    return total


def differences(function: Function, x: Any, step: float = 1e-6) -> Any:
    """The Jacobian by central differences of NumPy's values, by the last axis."""
    columns = []
    for i in range(x.size):
        shift = np.zeros(x.size)
        shift[i] = step
        columns.append((np.asarray(function(x + shift)) - np.asarray(function(x - shift))) / (2 * step))
    return np.stack(columns, axis=-1)


def test_derivatives_are_those_of_differences() -> None:
    x = tnp.array([0.5, 2.0, 1.25])
    slope = differences(scalar, np.array(x))
    value, along = tk.transforms.jvp(scalar, (x,), (tnp.array([1.0, -2.0, 0.5]),))
    alike(value, tnp.asarray(scalar(x)))
    alike(tk.transforms.jvp(lambda v: (v.sum(), v * 2), (x,), (x,), has_aux=True)[2], x * 2)
    np.testing.assert_allclose(float(along), slope @ [1.0, -2.0, 0.5], rtol=1e-7)
    for transform in (tk.transforms.grad, tk.transforms.jacrev, tk.transforms.jacfwd):
        made = transform(scalar)(x)
        assert type(made) is tnp.ndarray
        np.testing.assert_allclose(np.asarray(made), slope, rtol=1e-7)
    curve = differences(tk.transforms.grad(scalar), x)
    for outer in (tk.transforms.hessian(scalar), tk.transforms.jacrev(tk.transforms.jacfwd(scalar))):
        made = outer(x)
        assert type(made) is tnp.ndarray
        np.testing.assert_allclose(np.asarray(made), curve, rtol=1e-6)
    rows = tnp.stack([x, x * 2])
    for inner in (tk.transforms.grad(scalar), tk.transforms.jacfwd(scalar), tk.transforms.hessian(scalar)):
        alike(tk.transforms.vmap(inner)(rows), stacked([inner(row) for row in rows]))


def test_linearize_returns_arrays() -> None:
    x, along = tnp.array([0.5, 2.0, 1.25]), tnp.array([1.0, -2.0, 0.5])
    output, push = tk.transforms.linearize(scalar, x)
    expected = tk.transforms.jvp(scalar, (x,), (along,))
    alike((output, push(along)), expected)


def test_subclasses_have_the_rules_too() -> None:
    class Own(tnp.ndarray):  # type: ignore[misc]
        __slots__ = ()

    x = tnp.array([[1, 2], [3, 4]]).as_subclass(Own)
    made = tk.transforms.vmap(lambda row: row / 2)(x)
    assert (type(made), made.dtype) == (Own, tk.float64)


def test_an_array_from_outside_is_changed_in_place() -> None:
    """Inside forward mode it gets a tangent, and is an ordinary array afterwards."""
    held = tnp.zeros(2)

    def function(x: Any) -> Any:
        held[0] = x[1] ** 2
        return (held * x).sum()

    x = tnp.array([2.0, 3.0])
    value, along = tk.transforms.jvp(function, (x,), (tnp.array([1.0, 10.0]),))
    assert (float(value), float(along)) == (18.0, 9.0 * 1 + 2.0 * 2 * 3 * 10)
    assert type(held) is tnp.ndarray
    np.testing.assert_array_equal(np.asarray(held), [9.0, 0.0])


# shapes or dtypes of their results depend on the values, of which each sample has its own
DEPENDENT = {
    *(() if EIG_IS_COMPLEX else ("linalg.eig", "linalg.eigvals")), "linalg.lstsq", "polymul", "polydiv", "polyfit",
    "roots", "trim_zeros", "extract", "bincount", "unique", "setdiff1d",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_each_function_under_vmap() -> None:
    """Of those with a call in ``tests/numpy/_calls.py``: NumPy's result for each slice, or an error."""
    wrong, refused = [], set()
    for name, (call, values) in CALLS.items():
        batch = tnp.array(np.stack([values, values + 0.25]))
        try:
            made = tk.transforms.vmap(lambda x, call=call: call(tnp, x))(batch)
        except (RuntimeError, np.linalg.LinAlgError):
            refused.add(name)
            continue
        try:
            alike(made, stacked([call(tnp, row) for row in batch]))
        except AssertionError as error:
            wrong.append((name, str(error)[:200]))
    assert wrong == []
    assert refused == DEPENDENT
