"""Options that NumPy's users give by position, though the standard has them by keyword."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.interop import numpy_names

X = np.random.default_rng(5).standard_normal((3, 4))
V = np.array([3.0, 1.0, 2.0, 1.0])
K = np.array([[0, 2], [1, 0], [2, 2]])

CALLS: dict[str, Any] = {
    "sort": lambda xp, x, v, k: xp.sort(x, 0),
    "argsort": lambda xp, x, v, k: xp.argsort(x, 0),
    "concat": lambda xp, x, v, k: xp.concat([x, x], 1),
    "stack": lambda xp, x, v, k: xp.stack([x, x], -1),
    "roll": lambda xp, x, v, k: xp.roll(x, 1, 0),
    "flip": lambda xp, x, v, k: xp.flip(x, 1),
    "repeat": lambda xp, x, v, k: xp.repeat(x, 2, 0),
    "take": lambda xp, x, v, k: xp.take(x, k[0], 1),
    "take_along_axis": lambda xp, x, v, k: xp.take_along_axis(x, k, 1),
    "compress": lambda xp, x, v, k: xp.compress(v > 1, x, 1),
    "tril": lambda xp, x, v, k: xp.tril(x, 1),
    "triu": lambda xp, x, v, k: xp.triu(x, -1),
    "diag": lambda xp, x, v, k: xp.diag(v, 1),
    "eye": lambda xp, x, v, k: xp.eye(3, 4, 1, dtype="float64"),
    "tri": lambda xp, x, v, k: xp.tri(3, 4, 1, dtype="float64"),
    "diff": lambda xp, x, v, k: xp.diff(x, 2),
    "diff along an axis": lambda xp, x, v, k: xp.diff(x, 1, 0),
    "searchsorted": lambda xp, x, v, k: xp.searchsorted(xp.sort(v), v, "right"),
    "searchsorted in an order": lambda xp, x, v, k: xp.searchsorted(v, v, "left", xp.argsort(v)),
    "digitize": lambda xp, x, v, k: xp.digitize(x, xp.sort(v)[1:], True),
    "trace": lambda xp, x, v, k: xp.trace(x, 1),
    "diagonal": lambda xp, x, v, k: xp.diagonal(x, 1, 1, 0),
    "vander": lambda xp, x, v, k: xp.vander(v, 3, True),
    "zeros": lambda xp, x, v, k: xp.zeros((2, 2), int),
    "ones": lambda xp, x, v, k: xp.ones(3, "int8"),
    "full": lambda xp, x, v, k: xp.full(3, 2, "float64"),
    "zeros_like": lambda xp, x, v, k: xp.zeros_like(x, int),
    "ones_like": lambda xp, x, v, k: xp.ones_like(x, bool),
    "full_like": lambda xp, x, v, k: xp.full_like(x, 7, "uint8"),
    "arange": lambda xp, x, v, k: xp.arange(0, 6, 2, "float64"),
    "asarray": lambda xp, x, v, k: xp.asarray([1, 2], "float64"),
    "histogram": lambda xp, x, v, k: xp.histogram(x, 4, (-1.0, 1.0))[0],
    "histogram_bin_edges": lambda xp, x, v, k: xp.histogram_bin_edges(x, 4, (-1.0, 1.0)),
    "average": lambda xp, x, v, k: xp.average(x, 1, v),
}


@pytest.mark.parametrize("name", CALLS)
def test_options_by_position(name: str) -> None:
    got = CALLS[name](tk, *[tk.asarray(a.copy()) for a in (X, V, K)])
    np.testing.assert_allclose(got.numpy(), CALLS[name](np, X, V, K), strict=True)


def test_methods_take_them_too() -> None:
    x = tk.asarray(X)
    assert x.sort(0).tolist() == np.sort(X, 0).tolist()
    assert x.argsort(0).tolist() == np.argsort(X, 0).tolist()
    assert x.repeat(2, 0).tolist() == X.repeat(2, 0).tolist()
    assert x.take(tk.asarray([0, 2]), 1).tolist() == X.take([0, 2], 1).tolist()
    assert x.diagonal(1).tolist() == X.diagonal(1).tolist()
    assert x.trace(1).item() == pytest.approx(X.trace(1))


def test_empty_tensors_by_position() -> None:
    assert tk.empty((2, 2), int).dtype == tk.int64
    assert tk.empty_like(tk.zeros(2), tk.int8).dtype == tk.int8


def test_the_signature_says_what_is_keyword_only() -> None:
    kinds = {name: p.kind.name for name, p in inspect.signature(tk.sort).parameters.items()}
    assert kinds == {
        "x": "POSITIONAL_OR_KEYWORD", "axis": "POSITIONAL_OR_KEYWORD", "descending": "KEYWORD_ONLY",
        "stable": "KEYWORD_ONLY",
    }  # fmt: skip
    x = tk.asarray(V)
    assert tk.sort(x, axis=0).tolist() == tk.sort(x, 0).tolist()  # as before its first call, and after it
    for call in (lambda: tk.sort(x, 0, True), lambda: tk.sort(x, 0, axis=0), lambda: tk.ones(2, int, "cpu")):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("name", sorted(numpy_names.NUMPY_NAMES.keys() | numpy_names._SIMILAR.keys()))
def test_names_of_other_libraries_tell_ours(name: str) -> None:
    ours = numpy_names.counterpart(name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': the name here is "):
        getattr(tk, name)
    assert not hasattr(tk, name)
    for word in re.findall(r"tk((?:\.\w+)+)", ours):
        assert functools.reduce(getattr, word[1:].split("."), tk) is not None


def test_names_that_are_nowhere() -> None:
    with pytest.raises(AttributeError, match=r"module 'tenkey' has no attribute 'nothing'$"):
        tk.nothing  # noqa: B018


def test_where_of_a_condition_alone() -> None:
    x = tk.asarray(X)
    for _ in range(2):  # at the first call, and after it
        assert [i.tolist() for i in tk.where(x > 0)] == [i.tolist() for i in np.where(X > 0)]
    assert tk.where(x > 0, x, 0.0).tolist() == np.where(X > 0, X, 0.0).tolist()
    assert tk.where(condition=x > 0, x1=1.0, x2=x).tolist() == np.where(X > 0, 1.0, X).tolist()
    for call in (lambda: tk.where(x > 0, x), lambda: tk.where(x > 0, x2=x), lambda: tk.where(x > 0, None, 1.0)):
        with pytest.raises(TypeError, match=r"\[tk::where\] the argument 'x[12]' must be a Tensor, got None"):
            call()
    assert [i.tolist() for i in tk.where([True, False, True])] == [[0, 2]]
    with pytest.raises(TypeError, match=r"\[nonzero\] takes a Tensor, got str"):
        tk.where("text")
