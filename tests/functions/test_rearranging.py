"""Functions that join, cut and overwrite tensors, and that make indices, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._backends import Host

X = np.arange(12.0).reshape(3, 4)
V = np.array([3.0, 0.0, 2.0, 1.0])
Z = np.zeros((4, 5, 3))
Z[1:3, 2, 0:2] = 1.0


def same(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for ours, theirs in zip(got, want):
            same(ours, theirs)
        return
    np.testing.assert_array_equal(got.numpy(), want, strict=True)


CALLS: dict[str, Any] = {
    "append": lambda xp, a: xp.append(a(X), a(V)),
    "append a number": lambda xp, a: xp.append(a(X), 7.5),
    "append rows": lambda xp, a: xp.append(a(X), [[1.0, 2.0, 3.0, 4.0]], axis=0),
    "append integers": lambda xp, a: xp.append(a(X.astype(int)), 7),
    "insert": lambda xp, a: xp.insert(a(X), 5, 9.0),
    "insert at the end": lambda xp, a: xp.insert(a(X), 12, [1, 2]),
    "insert a column": lambda xp, a: xp.insert(a(X), 1, a(V[:3]), axis=1),
    "insert columns": lambda xp, a: xp.insert(a(X), [1], [[1], [2], [3]], axis=1),
    "insert two columns": lambda xp, a: xp.insert(a(X), [1], np.arange(6.0).reshape(3, 2), axis=-1),
    "insert several": lambda xp, a: xp.insert(a(X), [3, -4, 0, 3], a(V)),
    "insert at a slice": lambda xp, a: xp.insert(a(X), slice(2, 4), [7, 8], axis=1),
    "insert nothing": lambda xp, a: xp.insert(a(V), [], []),
    "insert a row": lambda xp, a: xp.insert(a(X), -1, a(V), axis=0),
    "insert rounds down": lambda xp, a: xp.insert(a(X.astype(int)), 1, 2.7),
    "delete": lambda xp, a: xp.delete(a(X), 5),
    "delete a row": lambda xp, a: xp.delete(a(X), -1, axis=0),
    "delete columns": lambda xp, a: xp.delete(a(X), [0, -1, 0], axis=1),
    "delete a slice": lambda xp, a: xp.delete(a(X), slice(None, None, -2), axis=1),
    "delete a mask": lambda xp, a: xp.delete(a(X), np.array([True, False, True, False]), axis=1),
    "delete nothing": lambda xp, a: xp.delete(a(V), []),
    "resize": lambda xp, a: xp.resize(a(X), (5, 3)),
    "resize shorter": lambda xp, a: xp.resize(a(X), 5),
    "resize nothing": lambda xp, a: xp.resize(a(X[:0]), (2, 2)),
    "resize to nothing": lambda xp, a: xp.resize(a(X), (0, 2)),
    "trim_zeros": lambda xp, a: xp.trim_zeros(a(np.array([0, 0, 1, 0, 2, 0]))),
    "trim_zeros in front": lambda xp, a: xp.trim_zeros(a(np.array([0, 0, 1, 0, 2, 0])), "f"),
    "trim_zeros behind": lambda xp, a: xp.trim_zeros(a(np.array([0, 0, 1, 0, 2, 0])), "b"),
    "trim_zeros of zeros": lambda xp, a: xp.trim_zeros(a(np.zeros(3))),
    "column_stack": lambda xp, a: xp.column_stack([a(V[:3]), a(X), a(V[1:])]),
    "hsplit": lambda xp, a: xp.hsplit(a(X), 2),
    "hsplit a vector": lambda xp, a: xp.hsplit(a(V), [1, 3]),
    "vsplit": lambda xp, a: xp.vsplit(a(X), [1]),
    "dsplit": lambda xp, a: xp.dsplit(a(Z), 3),
    "indices": lambda xp, a: xp.indices((2, 3)),
    "indices without axes": lambda xp, a: xp.indices(()),
    "indices in a dtype": lambda xp, a: xp.indices((2, 3), dtype=np.float32),
    "sparse indices": lambda xp, a: xp.indices((2, 3, 1), sparse=True),
    "ix_": lambda xp, a: xp.ix_([0, 2], [True, False, True], a(np.array([1]))),
    "ix_ of nothing": lambda xp, a: xp.ix_([], [1]),
    "fromfunction": lambda xp, a: xp.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=np.float64),
    "tril_indices": lambda xp, a: xp.tril_indices(3, 1, 4),
    "triu_indices": lambda xp, a: xp.triu_indices(3, -1),
    "tril_indices_from": lambda xp, a: xp.tril_indices_from(a(X), -1),
    "triu_indices_from": lambda xp, a: xp.triu_indices_from(a(X), 1),
    "mask_indices": lambda xp, a: xp.mask_indices(3, xp.tril, -1),
    "diag_indices": lambda xp, a: xp.diag_indices(3, 3),
    "diag_indices_from": lambda xp, a: xp.diag_indices_from(a(X[:, :3])),
    "diagflat": lambda xp, a: xp.diagflat(a(X[:2, :2]), -2),
    "diagflat above": lambda xp, a: xp.diagflat(a(V), 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_in_numpy(name: str) -> None:
    same(CALLS[name](tk, lambda a: tk.asarray(a.copy())), CALLS[name](np, np.copy))


def test_trim_zeros_along_axes() -> None:
    assert tk.trim_zeros(tk.asarray(Z)).shape == (2, 1, 2)  # NumPy 2.2's rule, which older versions lack
    assert tk.trim_zeros(tk.asarray(Z), "f", axis=1).shape == (4, 3, 3)
    assert tk.trim_zeros(tk.asarray(Z), "b", axis=(0, -1)).shape == (3, 5, 2)


WRITES: dict[str, Any] = {
    "put": lambda xp, x, a: xp.put(x, [0, -1, 5], a(V[:2])),
    "put a number": lambda xp, x, a: xp.put(x, [[1, 2], [3, 4]], -1.0),
    "put more": lambda xp, x, a: xp.put(x, [1], a(V)),
    "put around": lambda xp, x, a: xp.put(x, [13, -14], [1, 2], mode="wrap"),
    "put at the ends": lambda xp, x, a: xp.put(x, [13, -14], [1, 2], mode="clip"),
    "put nothing": lambda xp, x, a: xp.put(x, [], [1, 2]),
    "place": lambda xp, x, a: xp.place(x, x > 4, a(V)),
    "place more": lambda xp, x, a: xp.place(x, x > 9, a(V)),
    "place nothing": lambda xp, x, a: xp.place(x, x > 99, a(V)),
    "place at integers": lambda xp, x, a: xp.place(x, a(np.arange(12) % 3), [7]),
    "putmask": lambda xp, x, a: xp.putmask(x, x > 4, -x),
    "putmask repeats": lambda xp, x, a: xp.putmask(x, x > 4, a(V[:3])),
    "putmask a number": lambda xp, x, a: xp.putmask(x, x > 4, 0.5),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_as_numpy_does(name: str) -> None:
    for source in (X, X.astype(np.int64), np.asfortranarray(X)):
        want, x = source.copy(), tk.asarray(source.copy())
        if name != "putmask a number" or source.dtype.kind == "f":  # NumPy writes only what it can cast safely
            WRITES[name](np, want, lambda a, dtype=source.dtype: a.astype(dtype))
            assert WRITES[name](tk, x, lambda a: tk.asarray(a.copy())) is x
        same(x, want)
    view = tk.asarray(np.concatenate([X, X], axis=1))[:, ::2]
    want = view.numpy().copy()
    WRITES[name](np, want, np.copy)
    WRITES[name](tk, view, lambda a: tk.asarray(a.copy()))
    same(view, want)


@pytest.mark.parametrize("shape", [(3, 4), (7, 3), (3, 3, 3), (0, 3), (3, 0)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    for value in (5.0, V[:2]):
        want = np.zeros(shape)
        np.fill_diagonal(want, value, wrap=wrap)
        x = tk.zeros(shape, dtype=tk.float64)
        same(tk.fill_diagonal(x, tk.asarray(value) if isinstance(value, np.ndarray) else value, wrap), want)
        assert not x.any()


def test_gradients() -> None:
    x = tk.tensor(X, requires_grad=True)
    v = tk.tensor(V, requires_grad=True)
    for function in (
        lambda x, v: tk.append(x, v),
        lambda x, v: tk.insert(x, [0, 2], v, axis=0),
        lambda x, v: tk.delete(x, [1, 2], axis=1) * v[:2],
        lambda x, v: tk.resize(x, (5, 3)) + v[0],
        lambda x, v: tk.fill_diagonal(x, v[:2]),
        lambda x, v: tk.diagflat(v, 1) + x[0, 0],
        lambda x, v: tk.put(x * 1, [0, -1], v[:2]),
        lambda x, v: tk.place(x * 1, x > 4.5, v),
        lambda x, v: tk.putmask(x * 1, x > 4.5, v),
    ):
        assert tk.autograd.gradcheck(function, (x, v))


def test_inside_vmap() -> None:
    x = tk.asarray(np.random.default_rng(0).standard_normal((2, 3, 4)))
    for function in (
        lambda y: tk.append(y, y[:1], axis=0),
        lambda y: tk.insert(y, [0, 2], y[0], axis=0),
        lambda y: tk.delete(y, 1, axis=1),
        lambda y: tk.fill_diagonal(y, y[0, :2]),
        lambda y: tk.putmask(y * 1, y > 0, y[0]),
    ):
        same(tk.vmap(function)(x), np.stack([function(one).numpy() for one in x]))


ERRORS: dict[str, tuple[type[Exception], str, Any]] = {
    "append": (ValueError, r"\[append\] values of shape \(4,\) cannot follow", lambda x: tk.append(x, x[0], axis=0)),
    "append far": (IndexError, r"\[append\] axis 2 is out of range", lambda x: tk.append(x, x, axis=2)),
    "delete": (IndexError, r"\[delete\] the index 4 is out of range for axis 1", lambda x: tk.delete(x, 4, axis=1)),
    "delete by half": (TypeError, r"\[delete\] indices are integers", lambda x: tk.delete(x, 0.5)),
    "delete a mask": (ValueError, r"\[delete\] a mask of shape \(2,\)", lambda x: tk.delete(x, [True, False])),
    "insert": (IndexError, r"\[insert\] the index 13 is out of range", lambda x: tk.insert(x, 13, 1.0)),
    "insert shape": (ValueError, r"\[insert\] values of shape", lambda x: tk.insert(x, [0, 1], [1.0, 2.0, 3.0])),
    "insert complex": (TypeError, r"\[insert\] values of dtype complex64", lambda x: tk.insert(x, 0, tk.asarray(1j))),
    "resize": (ValueError, r"\[resize\] a length", lambda x: tk.resize(x, (-1, 2))),
    "trim_zeros": (ValueError, r"\[trim_zeros\] trim is", lambda x: tk.trim_zeros(x, "g")),
    "dsplit": (ValueError, r"\[dsplit\] takes a tensor of 3", lambda x: tk.dsplit(x, 2)),
    "ix_": (ValueError, r"\[ix_\] takes vectors", lambda x: tk.ix_(x)),
    "tril": (ValueError, r"\[tril_indices_from\] takes a matrix", lambda x: tk.tril_indices_from(x[0])),
    "diag": (ValueError, r"\[diag_indices_from\] takes", lambda x: tk.diag_indices_from(x)),
    "fill": (ValueError, r"\[fill_diagonal\] takes a matrix", lambda x: tk.fill_diagonal(x[0], 1)),
    "put": (IndexError, r"\[put\] an index is out of range", lambda x: tk.put(x, [12], 1.0)),
    "put mode": (ValueError, r"\[put\] mode is", lambda x: tk.put(x, [1], 1.0, mode="near")),
    "place": (ValueError, r"\[place\] got no values", lambda x: tk.place(x, x > 0, [])),
    "putmask": (ValueError, r"\[putmask\] a mask of shape \(4,\)", lambda x: tk.putmask(x, x[0] > 0, 1.0)),
    "of a string": (TypeError, r"\[append\]", lambda x: tk.append("x", 1)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kind, text, call = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(tk.asarray(X.copy()))


def test_a_leaf_is_not_written() -> None:
    leaf = tk.tensor(X, requires_grad=True)
    for call in (
        lambda: tk.put(leaf, [0], 1.0),
        lambda: tk.place(leaf, X > 1, [1.0]),
        lambda: tk.putmask(leaf, X > 1, 1.0),
    ):
        with pytest.raises(RuntimeError, match="leaf"):
            call()


STRIDED = {
    "columns": lambda a: a.reshape((4, 6)).T, "every second": lambda a: a[::2],
    "window": lambda a: a.reshape((4, 6))[:, 1:5], "unit axes": lambda a: a.reshape((4, 1, 6))[:, :, None, ::2],
    "one row": lambda a: a.reshape((4, 6))[:1, ::2], "rows of columns": lambda a: a.reshape((2, 3, 4))[:, ::2],
    "reversed axes": lambda a: a.reshape((2, 3, 4)).T,
}  # fmt: skip
"""Views of 24 numbers."""


@pytest.fixture(params=["cpu", "host"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device whose views NumPy makes, and one whose views the operator describes."""
    if request.param == "cpu":
        yield "cpu"
    else:
        with tk.backends.register(Host()):
            yield "host"


@pytest.mark.parametrize("kind", STRIDED)
def test_reshape_is_a_view_where_numpys_is(kind: str, device: str) -> None:
    numpys = STRIDED[kind](np.arange(24.0))
    size = numpys.size
    shapes = {(n, size // n) for n in range(1, size + 1) if size % n == 0} | {(size,), (1, size, 1)}
    shapes |= {(2, m, size // 2 // m) for m in range(1, size) if size // 2 % m == 0 and size % 2 == 0}
    for shape in shapes:
        x = STRIDED[kind](tk.asarray(np.arange(24.0), device=device))
        try:
            wanted = np.reshape(numpys, shape, copy=False)
        except ValueError:
            with pytest.raises(ValueError, match="only as a copy"):
                tk.reshape(x, shape, copy=False)
            assert not tk.shares_storage(tk.reshape(x, shape), x)
            continue
        found = tk.reshape(x, shape, copy=False)
        assert tk.shares_storage(found, x)
        np.testing.assert_array_equal(found.cpu().numpy(), wanted)
