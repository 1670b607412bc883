"""Windows as operations: what a view reads of its root, the adjoint, and zeros at the window; against NumPy."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenkey import Tensor
from tenkey.autograd.views.as_strided import Window, _Places, _Sliced, window_between
from tenkey.core.tensor import cpu_word, make_tensor, make_view
from tenkey.transforms import vmap
from tests._tiers import tier

Array = np.ndarray[Any, Any]


def around(array: Array) -> Tensor:
    return make_tensor(array, cpu_word(array.dtype))


def check(root: Array, view: Array) -> Window:
    """``view`` is a window on ``root``: compare with what NumPy does through it."""
    window = window_between(around(root), make_view(around(root), view)._data)
    values = around(np.array(root))  # the same elements, in a memory of their own
    np.testing.assert_array_equal(window.read(values).numpy(), view)
    assert window.read(values).shape == view.shape
    rng = np.random.default_rng(0)
    g, h = rng.integers(-9, 9, view.shape).astype(float), rng.integers(-9, 9, root.shape).astype(float)
    embedded = window.embed(around(g))
    assert embedded.shape == root.shape
    assert (embedded.numpy() * h).sum() == (g * window.read(around(h)).numpy()).sum()
    changed = window.without(values).numpy()
    before = root.copy()
    view[...] = 0
    np.testing.assert_array_equal(changed, root)
    root[...] = before
    return window


def counted(*shape: int) -> Array:
    return np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)


VIEWS: list[tuple[str, type, Any, Any]] = [
    ("row", _Sliced, lambda: counted(3, 4), lambda a: a[1]),
    ("column", _Sliced, lambda: counted(3, 4), lambda a: a[:, -1]),
    ("element", _Sliced, lambda: counted(3, 4), lambda a: a[1, 2, ...]),
    ("steps", _Sliced, lambda: counted(7, 5), lambda a: a[1::2, ::3]),
    ("transposed", _Sliced, lambda: counted(2, 3, 4), lambda a: a.transpose(2, 0, 1)[1:, :, 0]),
    ("flat", _Sliced, lambda: counted(3, 4), lambda a: a.reshape(-1)),
    ("part of flat", _Sliced, lambda: counted(3, 4), lambda a: a.reshape(-1)[2:4]),
    ("cut anew", _Sliced, lambda: counted(12), lambda a: a.reshape(2, 2, 3)[1, :, :2]),
    ("merged", _Sliced, lambda: counted(2, 3, 4), lambda a: a.reshape(6, 4)[:, 1]),
    ("new dimensions", _Sliced, lambda: counted(3, 4), lambda a: a[None, 1:, None]),
    ("of ones", _Sliced, lambda: counted(1, 3, 1), lambda a: a[0, :, 0]),
    ("0-d", _Sliced, lambda: np.array(5.0), lambda a: a.reshape(1, 1)),
    ("Fortran's order", _Sliced, lambda: np.asfortranarray(counted(3, 4)), lambda a: a[1:, 2]),
    ("Fortran's order, flat", _Sliced, lambda: np.asfortranarray(counted(3, 4)), lambda a: a.T.reshape(-1)[3:5]),
    ("a root with gaps", _Sliced, lambda: counted(6, 8)[::2, 1::3], lambda a: a[1:, 1]),
    ("diagonal", _Places, lambda: counted(3, 3), np.diagonal),
    ("the other diagonal", _Places, lambda: counted(3, 3), lambda a: a.reshape(-1)[2:-1:2]),
    ("a root that runs backward", _Places, lambda: counted(5)[::-1], lambda a: a[1:3]),
    ("across the rows", _Places, lambda: counted(3, 4), lambda a: a.reshape(-1)[1::5]),
]


@pytest.mark.parametrize(("name", "kind", "make", "take"), VIEWS, ids=[v[0] for v in VIEWS])
def test_views_of_every_kind(name: str, kind: type, make: Any, take: Any) -> None:
    root = make()
    view = take(root)
    view.flags.writeable = True
    assert isinstance(check(root, view), kind)


def test_long_lists_of_places_are_not_kept() -> None:
    gc.collect()
    gc.disable()
    try:
        for n, kept in ((60, True), (5000, False)):
            root = np.ones(5 * n)[::-1]
            places = ref(window_between(around(root), root[2 : 2 + n]).places)  # type: ignore[attr-defined]
            assert (places() is not None) is kept
    finally:
        gc.enable()


def test_stretched_windows_add_up() -> None:
    root = counted(2, 1)
    window = window_between(around(root), np.broadcast_to(root, (3, 2, 4)))
    assert window.embed(around(np.ones((3, 2, 4)))).tolist() == [[12.0], [12.0]]
    assert window.read(around(root)).tolist() == np.broadcast_to(root, (3, 2, 4)).tolist()
    sliding = np.lib.stride_tricks.as_strided(counted(4), (3, 2), (8, 8))
    root = counted(4)
    sliding = np.lib.stride_tricks.as_strided(root, (3, 2), (8, 8))
    assert window_between(around(root), sliding).embed(around(np.ones((3, 2)))).tolist() == [1.0, 2.0, 2.0, 1.0]


def test_empty_windows() -> None:
    for root, shape in (((3, 4), (0, 2)), ((0, 4), (4, 0)), ((3,), (0,))):
        array = counted(*root)
        window = window_between(around(array), np.zeros(shape))
        assert window.read(around(array)).shape == shape
        assert window.embed(around(np.zeros(shape))).tolist() == np.zeros(root).tolist()
        assert window.without(around(array)).tolist() == array.tolist()


def test_the_whole() -> None:
    array = counted(2, 3)
    window = window_between(around(array), array[:])
    assert window.without(around(array)).tolist() == [[0.0] * 3] * 2
    assert window.read(around(array)).tolist() == array.tolist()


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no longer lies in the memory of its base"):
        window_between(around(counted(3)), counted(3)[1:2])
    repeated = np.lib.stride_tricks.as_strided(counted(1), (3,), (0,))
    with pytest.raises(RuntimeError, match="more than one element of the base"):
        window_between(around(repeated), repeated[1:])


def test_under_vmap() -> None:
    root = counted(3, 4)
    for view in (root[1:, 2], root.reshape(-1)[2:4], np.diagonal(root[:, 1:]), root.T):
        window = window_between(around(root), view)
        stack = np.random.default_rng(1).standard_normal((5, 3, 4))
        for function in (window.read, window.without):
            together = vmap(function)(around(stack)).numpy()
            np.testing.assert_array_equal(together, [function(around(one)).numpy() for one in stack])
        stack = np.random.default_rng(1).standard_normal((5, *view.shape))
        together = vmap(window.embed)(around(stack)).numpy()
        np.testing.assert_array_equal(together, [window.embed(around(one)).numpy() for one in stack])


@st.composite
def _chains(draw: st.DrawFn) -> tuple[Array, Array]:
    """A root of some layout and a chain of NumPy's own views of it."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    root = counted(*shape)
    if draw(st.booleans()):
        root = root.transpose(draw(st.permutations(range(root.ndim))))
    if draw(st.booleans()):
        root = root[tuple(slice(draw(st.integers(0, 1)), None, draw(st.sampled_from([1, 2, -1]))) for _ in root.shape)]
    view = root
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["slice", "select", "transpose", "reshape", "new", "diagonal"]))
        if kind == "slice" and view.ndim:
            axis = draw(st.integers(0, view.ndim - 1))
            cut = slice(draw(st.integers(0, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 2)))
            view = view[(slice(None),) * axis + (cut,)]
        elif kind == "select" and view.ndim and view.shape[0]:
            view = view[draw(st.integers(0, view.shape[0] - 1)), ...]
        elif kind == "transpose":
            view = view.transpose(draw(st.permutations(range(view.ndim))))
        elif kind == "reshape":
            lengths = draw(st.sampled_from([(-1,), (2, -1), (-1, 1, 2), (3, -1)]))
            if view.size and view.size % abs(int(np.prod(lengths))) == 0:
                changed = view.reshape(lengths)
                view = changed if np.shares_memory(changed, view) else view
        elif kind == "new":
            view = view[None]
        elif kind == "diagonal" and view.ndim >= 2:
            view = np.diagonal(view)
            view.flags.writeable = True
    return root, view


@pytest.mark.wider
@settings(max_examples=tier(75, 300), deadline=None)
@given(_chains())
def test_chains_of_views(pair: tuple[Array, Array]) -> None:
    root, view = pair
    check(root, view)
