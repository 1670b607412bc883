"""Functions that write into their first argument, and functions that call functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

from .test_array_class import A, I, same

WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "copyto": lambda m, x: m.copyto(x, [7, 8, 9], where=[True, False, True]),
    "copyto a number": lambda m, x: m.copyto(x, 3), "copyto nothing": lambda m, x: m.copyto(x, 3, where=False),
    "copyto unsafely": lambda m, x: m.copyto(x, m.array([1.5, 2.5, 3.5]), casting="unsafe"),
    "put": lambda m, x: m.put(x, [0, -1], [7, 8]), "put beyond": lambda m, x: m.put(x, [0, 9], 7, mode="wrap"),
    "place": lambda m, x: m.place(x, x > 1, [7, 8]), "putmask": lambda m, x: m.putmask(x, x > 1, [7, 8]),
    "fill_diagonal": lambda m, x: m.fill_diagonal(x, [7, 8]),
    "put_along_axis": lambda m, x: m.put_along_axis(x, m.array([[1], [2]]), 9, 1),
    "put_along_axis of all": lambda m, x: m.put_along_axis(x, m.array([1, 4]), m.array([8, 9]), None),
    "fill": lambda m, x: x.fill(4), "put of an array": lambda m, x: x.put([1], 5),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_writers(name: str) -> None:
    for values in (A, I):
        x, its = tnp.array(values), values.copy()
        assert WRITERS[name](tnp, x) is WRITERS[name](np, its) is None
        same(x, its)


def test_what_does_not_fit_is_refused() -> None:
    for call in (
        lambda m, x: m.copyto(x, 1.5), lambda m, x: m.copyto(x, m.array([1.5])),
        lambda m, x: m.put(x, m.array([0.5]), 1), lambda m, x: m.putmask(x, x > 1, m.array([1.5])),
        lambda m, x: m.copyto([1], 2), lambda m, x: m.place([1], [True], 2),
    ):  # fmt: skip
        for m, x in ((np, I.copy()), (tnp, tnp.array(I))):
            with pytest.raises(TypeError):
                call(m, x)  # type: ignore[no-untyped-call]
        same(x, I)
    with pytest.raises(ValueError, match=r"at least 2-d"):
        tnp.fill_diagonal(tnp.ones(3), 1)
    with pytest.raises(IndexError):
        tnp.put(tnp.ones(3), [5], 1)


def test_gradients_of_what_is_written() -> None:
    def written(write: Callable[[Any, Any], Any]) -> Any:
        def function(v: Any) -> Any:
            made = tnp.zeros((2, 2))
            write(made, v)
            return (made * tnp.array([[1.0, 10.0], [100.0, 1000.0]])).sum()

        return tk.grad(function)(tnp.array([1.0, 2.0]))

    same(written(lambda x, v: tnp.copyto(x, v)), np.array([101.0, 1010.0]))
    same(written(lambda x, v: tnp.copyto(x, v, where=[[True, False], [True, True]])), np.array([101.0, 1000.0]))
    same(written(lambda x, v: tnp.put(x, [1, 2], v)), np.array([10.0, 100.0]))
    same(written(lambda x, v: tnp.place(x, x == 0, v)), np.array([101.0, 1010.0]))
    same(written(lambda x, v: tnp.putmask(x, [[True, False], [False, True]], v)), np.array([1.0, 1000.0]))
    same(written(lambda x, v: tnp.fill_diagonal(x, v)), np.array([1.0, 1000.0]))
    same(written(lambda x, v: tnp.put_along_axis(x, tnp.array([[1], [0]]), v[:, None], 1)), np.array([10.0, 100.0]))
    same(written(lambda x, v: x.fill(v[1])), np.array([0.0, 1111.0]))
    with pytest.raises(RuntimeError, match=r"requires grad"):
        written(lambda x, v: tnp.copyto(np.zeros((2, 2)), v))


def test_joins_have_gradients() -> None:
    x = tnp.array([1.0, 2.0])
    for call, want in (
        (lambda v: tnp.append(v, v * 2).sum(), [3, 3]), (lambda v: tnp.insert(v, 1, v[0]).sum(), [2, 1]),
        (lambda v: tnp.delete(v, 0).sum(), [0, 1]), (lambda v: tnp.tile(v, 3).sum(), [3, 3]),
        (lambda v: tnp.resize(v, 3).sum(), [2, 1]), (lambda v: tnp.block([[v], [2 * v]]).sum(), [3, 3]),
        (lambda v: tnp.column_stack([v, v]).sum(), [2, 2]), (lambda v: tnp.hsplit(v, 2)[1].sum(), [0, 1]),
        (lambda v: tnp.polyval(v, 3.0), [3, 1]), (lambda v: tnp.unique(v).sum(), [1, 1]),
        (lambda v: tnp.vander(v, 2).sum(), [1, 1]), (lambda v: tnp.diagflat(v).sum(), [1, 1]),
    ):  # fmt: skip
        same(tk.grad(call)(x), np.array(want, float))


def test_functions_of_the_user() -> None:
    def spread(row: Any) -> Any:
        return row.max() - row.min()

    def applied(m: Any, x: Any) -> Any:
        return (
            m.apply_along_axis(spread, 1, x), m.apply_along_axis(lambda v: [v[0], v[1], 1.0], 0, x),
            m.apply_along_axis(lambda v: m.stack([v, v * 2]), 0, x), m.apply_over_axes(m.sum, x, (0, 1)),
            m.piecewise(x, [x < 1, x >= 4], [lambda v: -v, 7.0]), m.piecewise(x, [x > 2], [lambda v: v * 10, 0.5]),
        )  # fmt: skip

    same(applied(tnp, tnp.array(A)), applied(np, A))
    found = tk.grad(lambda v: tnp.apply_along_axis(lambda row: row * row[0], 1, v).sum())(tnp.array(A))
    same(found, np.array([[9.0, 3.0, 3.0], [10.0, 0.5, 0.5]]))
    found = tk.grad(lambda v: tnp.piecewise(v, [v < 2, v >= 2], [lambda r: r * r, lambda r: -r]).sum())(tnp.array(A))
    same(found, np.where(A < 2, 2 * A, -1.0))
    with pytest.raises(ValueError, match=r"iteration dimensions are 0"):
        tnp.apply_along_axis(spread, 1, np.ones((0, 3)))
    with pytest.raises(ValueError, match=r"1 or 2 functions are expected"):
        tnp.piecewise(tnp.array(A), [A > 1], [1, 2, 3])


def test_broadcast() -> None:
    both, its = tnp.broadcast([[1], [2]], [10, 20, 30]), np.broadcast([[1], [2]], [10, 20, 30])
    assert (both.shape, both.nd, both.size, both.numiter) == (its.shape, its.nd, its.size, its.numiter)
    assert [(int(x), int(y)) for x, y in both] == [(int(x), int(y)) for x, y in its]
    with pytest.raises(ValueError, match=r"shape mismatch"):
        tnp.broadcast([1, 2], [1, 2, 3])


def test_polynomials_as_objects() -> None:
    p, q = tnp.poly1d([1, -3, 2]), np.poly1d([1, -3, 2])
    assert isinstance(tnp.polymul(p, [1, 2]), tnp.poly1d)
    same(tnp.polymul(p, [1, 2]).coeffs, np.polymul(q, [1, 2]).coeffs)
    same(tnp.roots(p), np.roots(q))
    same(tnp.polyval(p, tnp.array(A)), np.polyval(q, A))
    assert str(tnp.polyval(p, tnp.poly1d([1, 1]))) == str(np.polyval(q, np.poly1d([1, 1])))


def test_ufuncs_at_indices_and_in_slices() -> None:
    at = [0, 2, 0, 0]
    for name, values in (("add", 2.0), ("subtract", A.ravel()[:4]), ("multiply", 3.0), ("maximum", A.ravel()[:4])):
        for strict in (False, True):
            its = np.arange(4.0)
            getattr(np, name).at(its, at, values)
            x = tnp.arange(4.0)
            with tnp.operators_only() if strict else tk.enable_grad():
                getattr(tnp, name).at(x, at, tnp.array(values) if strict else values)
            same(x, its)

    def function(v: Any) -> Any:
        made = tnp.ones(3)
        tnp.add.at(made, [0, 1, 0], v)
        tnp.multiply.at(made, [0, 0], v[:2])
        return made.sum() + tnp.multiply.reduceat(v, [0, 2])[0]

    same(tk.grad(function)(tnp.array([1.0, 2.0, 3.0])), np.array([2 + 5 * 2 + 2.0, 5 + 1 + 1.0, 2.0]))
    with pytest.raises(TypeError, match=r"same_kind"), tnp.operators_only():
        tnp.add.at(tnp.array([1, 2]), [0], 1.5)


def test_vectorized_functions_have_gradients() -> None:
    call = tnp.vectorize(lambda a, b: a * b if a > 1 else b)
    same(call(A, 2.0), np.vectorize(lambda a, b: a * b if a > 1 else b)(A, 2.0))
    same(tk.grad(lambda v: call(v, 2.0).sum())(tnp.array(A)), np.where(A > 1, 2.0, 0.0))
