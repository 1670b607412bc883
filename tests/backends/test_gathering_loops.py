"""Gathers and scatters in compiled loops, and the operators that use them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.loops import gathering
from tenkey.backends.cpu.moving import indexing, walks
from tenkey.backends.llvm import UnavailableError, kernel
from tests._tiers import Failures, tier

Array = np.ndarray[Any, Any]
Indices = list[Array | None]
_DTYPES = (np.float32, np.bool_, np.uint8, np.int32, np.float16, np.float64, np.complex64, np.complex128)
_UFUNCS = {"add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum}


def _subscript(indices: Indices) -> tuple[Any, ...]:
    return tuple([slice(None) if i is None else i for i in indices])


def _random_indices(rng: np.random.Generator, x: Array) -> Indices:
    """One to three tensors of indices, which broadcast, for leading axes; some count 0, 1, 2, ..."""
    count = int(rng.integers(1, x.ndim + 1))
    chosen = set(rng.choice(count, min(count, int(rng.integers(1, tier(3, 4)))), replace=False).tolist())
    common = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 3)))
    dtype = rng.choice([np.int64, np.int32]) if x.dtype in tier([np.bool_], _DTYPES) else np.int64
    indices: Indices = []
    for axis in range(max(chosen) + 1):
        if axis not in chosen:
            indices.append(None)
            continue
        shape = tuple([n if rng.random() < 0.7 else 1 for n in common][int(rng.integers(0, 2)) if common else 0 :])
        n = x.shape[axis]
        index = rng.integers(-n, n, shape).astype(dtype)
        longest = max(shape, default=0)
        if longest == index.size and 1 < longest <= n and rng.random() < 0.5:
            index = np.arange(longest, dtype=dtype).reshape(shape)
        indices.append(np.asarray(index))
    return indices


def _array(rng: np.random.Generator, dtype: Any) -> Array:
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 5)))
    if rng.random() < 0.15:
        shape = (*shape[:-1], 300)
    a = rng.integers(0, 50, shape).astype(dtype)
    if rng.random() < 0.3 and shape[-1] > 1:
        a = a[..., : shape[-1] // 2]  # rows with gaps
    if rng.random() < 0.5:
        a = a.transpose(rng.permutation(a.ndim))
    return a[::-1] if rng.random() < 0.3 else a


def _source(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    source = rng.integers(0, 50, shape).astype(dtype)
    return np.broadcast_to(source[..., :1], shape) if source.ndim and rng.random() < 0.3 else source


def test_selections_of_every_form() -> None:
    rng = np.random.default_rng(0)
    failures, walked = Failures(), 0
    for dtype in tier((np.float32, np.bool_, np.complex128), _DTYPES):  # every form is a kernel of its own
        modes = tier(["add", "maximum"], list(_UFUNCS)) if dtype is np.float32 else ["add"]
        for _ in range(tier(80 if dtype is np.float32 else 30, 400)):
            x = _array(rng, dtype)
            indices = _random_indices(rng, x)
            at = _subscript(indices)
            walk = walks.walk_of(x, indices)
            if walk is None:
                continue
            walked += 1
            want = np.asarray(x[at])
            label = f"{np.dtype(dtype)} {x.shape} {x.strides} at {[None if i is None else i.shape for i in indices]}"
            with failures.of(f"gather {label}"):
                out = np.empty(walk.shape, dtype)
                assert walks.carry_out(x, walk, out, "get")
                np.testing.assert_array_equal(out, want, strict=True)
            source = _source(rng, want.shape, dtype)
            with failures.of(f"set {label}"):
                made, expected = x.copy(), x.copy()
                again = walks.walk_of(made, indices)
                assert again is not None
                assert walks.in_range(again)
                assert walks.carry_out(made, again, source, "set")
                expected[at] = source
                np.testing.assert_array_equal(made, expected)
            for mode in {"add", str(rng.choice(modes))}:
                if not walks.combines(x.dtype, mode):
                    continue
                with failures.of(f"{mode} {label}"), np.errstate(all="ignore"):
                    made, expected = x.copy(), x.copy()
                    again = walks.walk_of(made, indices)
                    assert again is not None
                    assert walks.carry_out(made, again, source, mode)
                    _UFUNCS[mode].at(expected, at, source)
                    np.testing.assert_array_equal(made, expected)
    failures.check()
    assert walked > 80


def test_walks_by_one_index_are_remembered() -> None:
    rng = np.random.default_rng(11)
    failures, walked = Failures(), 0
    for _ in range(tier(300, 3000)):
        x = _array(rng, rng.choice(_DTYPES))
        axis = int(rng.integers(0, x.ndim))
        along = bool(rng.integers(0, 2))
        shape = list(x.shape)
        shape[axis] = int(rng.integers(1, 7))
        if along and rng.random() < 0.2:
            shape[int(rng.integers(0, x.ndim))] = 1
        index = rng.integers(-x.shape[axis], x.shape[axis], shape if along else shape[: int(rng.integers(0, 3))])
        index = np.asarray(index, rng.choice([np.int64, np.int32]))
        if along or axis < index.ndim:
            index = index[(*[slice(None)] * axis, slice(None, None, int(rng.choice([1, 2, -1]))))]
        label = f"{x.dtype} {x.shape} {x.strides} at {index.shape} {index.strides} of {axis}, along: {along}"
        at: Any = [slice(None)] * axis + [index]
        if along:
            at = list(np.indices((*x.shape[:axis], 1, *x.shape[axis + 1 :]), sparse=True))
            at[axis] = index
        want = np.asarray(x[tuple(at)])
        source = rng.integers(0, 50, want.shape).astype(x.dtype)
        for mode in ("get", "set", "add"):
            made, expected, out = x.copy("K"), x.copy("K"), np.empty(want.shape, x.dtype)
            with failures.of(f"{mode} {label}"):
                if not walks.walk_by_one(made, np.asarray(index), axis, out if mode == "get" else source, mode, along):
                    continue
                walked += 1
                if mode == "get":
                    np.testing.assert_array_equal(out, want)
                elif mode == "set":
                    expected[tuple(at)] = source
                else:
                    np.add.at(expected, tuple(at), source)
                np.testing.assert_array_equal(made, expected)
    failures.check()
    assert walked > 400


def test_places_that_rows_share_are_not_scattered_to() -> None:
    x = np.zeros((1, 5), np.float32)
    index = np.zeros((4, 3), np.int64)
    source = np.ones((4, 3), np.float32)
    assert not walks.walk_by_one(x, index, 1, source, "add", True)
    assert not walks.walk_by_one(x, index, 2, source, "add", True)
    assert walks.walk_by_one(x, index, 1, source, "get", True)


def test_rows_with_gaps() -> None:
    whole = np.arange(300, dtype=np.float32).reshape(100, 3)
    index = np.arange(99, -100, -1)
    for x in (whole[:, :2], whole[:, 1:], whole[:, 1:2], whole[:, ::2]):
        walk = walks.walk_of(x, [index])
        assert walk is not None
        out = np.empty(walk.shape, np.float32)
        assert walks.carry_out(x, walk, out, "get")
        np.testing.assert_array_equal(out, x[index])


def test_duplicates_keep_their_order() -> None:
    rng = np.random.default_rng(1)
    x = np.zeros(1000, np.float32)
    index = rng.integers(-1000, 1000, 200_000)
    source = rng.standard_normal(index.size).astype(np.float32) * 10.0 ** rng.integers(-6, 6, index.size)
    source = source.astype(np.float32)
    last, total = x.copy(), x.copy()
    last[index] = source
    np.add.at(total, index, source)
    for count in (1, 2, 5):
        before = tk.get_num_threads()
        tk.set_num_threads(count)
        try:
            for mode, want in (("set", last), ("add", total)):
                made = x.copy()
                walk = walks.walk_of(made, [index])
                assert walk is not None
                assert walks.carry_out(made, walk, source, mode)
                np.testing.assert_array_equal(made, want)  # sums of floats too: their order is that of the indices
        finally:
            tk.set_num_threads(before)


def test_nan_and_signed_zeros() -> None:
    x = np.array([1.0, np.nan, -0.0, 0.0])
    index = np.array([0, 1, 2, 3, 0])
    source = np.array([np.nan, 1.0, 0.0, -0.0, 5.0])
    for mode in ("minimum", "maximum"):
        made, want = x.copy(), x.copy()
        walk = walks.walk_of(made, [index])
        assert walk is not None
        assert walks.carry_out(made, walk, source, mode)
        with np.errstate(invalid="ignore"):
            _UFUNCS[mode].at(want, index, source)
        np.testing.assert_array_equal(made, want)


def test_every_index_is_checked() -> None:
    n = 40_000
    x = np.zeros(n, np.float32)
    rows = np.zeros((50, 8), np.float32)
    failures = Failures()
    for dtype in (np.int64, np.int32):
        for place in (0, 7, 8191, 8192, n - 1):
            for bad in (n, -n - 1, 2**31 - 1, -(2**31)):
                index = np.zeros(n, dtype)
                index[place] = bad
                with failures.of(f"{np.dtype(dtype)}: {bad} at {place}"):
                    for array, given in ((x, [index]), (rows, [index]), (x, [index[::-1]]), (rows, [None, index])):
                        walk = walks.walk_of(array, given)
                        assert walk is not None
                        assert not walks.in_range(walk)
                        assert not walks.carry_out(array, walk, np.empty(walk.shape, np.float32), "get")
                        source = np.broadcast_to(np.float32(1), walk.shape)
                        assert not walks.carry_out(array.copy(), walk, source, "set")
                        assert not walks.carry_out(array.copy(), walk, source, "add")
                index[place] = -n
                walk = walks.walk_of(x, [index])
                assert walk is not None
                assert walks.in_range(walk)
                assert walks.carry_out(x, walk, np.empty(n, np.float32), "get")
    failures.check()


def test_what_the_loops_do_not_handle() -> None:
    x = np.zeros((4, 4, 4, 4))
    i = np.array([0, 1])
    unaligned = np.frombuffer(bytearray(33), np.float64, 4, 1)
    for array, indices in (
        (x, [i, i, i, i]), (x, [i, np.array([0, 1, 2])]), (x, [i.astype(np.uint64)]), (x[:0], [i]), (unaligned, [i]),
        (x, [i > 0]), (x, [np.zeros(0, np.int64)]), (np.zeros((2, 2)), [i, i, i]),
    ):  # fmt: skip
        assert walks.walk_of(array, indices) is None


# ---- operators

_ROWS, _COLUMNS = 300, 200


def _operators() -> dict[str, tuple[Callable[..., Any], Callable[..., Array]]]:
    """By name: a call with tensors ``x, rows, along, y``, and the same in NumPy."""

    def put(x: Any, at: Any, value: Any) -> Any:
        copy = x.copy()
        copy[at] = value
        return copy

    def added(a: Array, at: Any, value: Any, ufunc: np.ufunc = np.add) -> Array:
        copy = a.copy()
        ufunc.at(copy, at, value)
        return copy

    def grid(along: Array, axis: int) -> tuple[Array, ...]:
        at = list(np.indices(along.shape, sparse=True))
        at[axis] = along
        return tuple(at)

    return {
        "rows": (lambda x, r, i, y: x[r], lambda x, r, i, y: x[r]),
        "columns": (lambda x, r, i, y: x[:, r % 7], lambda x, r, i, y: x[:, r % 7]),
        "pairs": (lambda x, r, i, y: x[i, i % _COLUMNS], lambda x, r, i, y: x[i, i % _COLUMNS]),
        "take": (lambda x, r, i, y: tk.take(x, r, axis=0), lambda x, r, i, y: x.take(r, 0)),
        "take flat": (lambda x, r, i, y: tk.take(tk.reshape(x, (-1,)), i), lambda x, r, i, y: x.reshape(-1).take(i)),
        "along 0": (
            lambda x, r, i, y: tk.take_along_axis(x, i, axis=0), lambda x, r, i, y: np.take_along_axis(x, i, 0),
        ),
        "along 1": (
            lambda x, r, i, y: tk.take_along_axis(x, i % 200), lambda x, r, i, y: np.take_along_axis(x, i % 200, 1),
        ),
        "along 1 of one row": (
            lambda x, r, i, y: tk.take_along_axis(x[:1], i % _COLUMNS),
            lambda x, r, i, y: np.take_along_axis(x[:1], i % _COLUMNS, 1),
        ),
        "gather": (lambda x, r, i, y: tk.gather(x, i, 0), lambda x, r, i, y: np.take_along_axis(x, i, 0)),
        "scatter": (lambda x, r, i, y: tk.scatter(x, i, y, 0), lambda x, r, i, y: put(x, grid(i, 0), y)),
        "scatter_add": (lambda x, r, i, y: tk.scatter_add(x, i, y, 0), lambda x, r, i, y: added(x, grid(i, 0), y)),
        "scatter max": (
            lambda x, r, i, y: tk.scatter(x, i, y, 0, reduce="max"),
            lambda x, r, i, y: added(x, grid(i, 0), y, np.maximum),
        ),
        "index_add": (lambda x, r, i, y: tk.index_add(x, r, y[: len(r)]), lambda x, r, i, y: added(x, r, y[: len(r)])),
        "index_copy": (lambda x, r, i, y: tk.index_copy(x, r, y), lambda x, r, i, y: put(x, r, y)),
        "put": (lambda x, r, i, y: put(x, r, y), lambda x, r, i, y: put(x, r, y)),
        "fill a mask": (lambda x, r, i, y: put(x, x > 50, 3), lambda x, r, i, y: put(x, x > 50, 3)),
        "fill masked rows": (lambda x, r, i, y: put(x, r > 50, 3), lambda x, r, i, y: put(x, r > 50, 3)),
        "masked": (lambda x, r, i, y: x[x > 50], lambda x, r, i, y: x[x > 50]),
        "put masked": (lambda x, r, i, y: put(x, r > 50, y[:1]), lambda x, r, i, y: put(x, r > 50, y[:1])),
        "put a number": (lambda x, r, i, y: put(x, i, 3), lambda x, r, i, y: put(x, i, 3)),
        "fill rows": (lambda x, r, i, y: put(x, r, 3), lambda x, r, i, y: put(x, r, 3)),
        "fill columns": (
            lambda x, r, i, y: put(x, (slice(None), r % 7), 3), lambda x, r, i, y: put(x, (slice(None), r % 7), 3),
        ),
        "put numbers of another dtype": (
            lambda x, r, i, y: put(x, r, _as_bytes(y)), lambda x, r, i, y: put(x, r, _as_bytes(y)),
        ),
        "put pairs": (
            lambda x, r, i, y: put(x, (i, i % _COLUMNS), y), lambda x, r, i, y: put(x, (i, i % _COLUMNS), y),
        ),
        "put itself": (lambda x, r, i, y: _put_itself(x, r), lambda x, r, i, y: put(x, r, x)),
    }  # fmt: skip


def _as_bytes(y: Any) -> Any:
    return y.astype(np.int8) if isinstance(y, np.ndarray) else tk.astype(y, tk.int8)


def _put_itself(x: Any, rows: Any) -> Any:
    copy = x.copy()
    copy[rows] = copy
    return copy


@pytest.fixture(params=["loops", "without compiled code"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let selections run in the loops, or as where there are none; the list says which loops ran."""
    ran: list[str] = []
    for name in ("carry_out", "walk_by_one"):
        function = getattr(indexing, name)

        def observed(*args: Any, name: str = name, function: Callable[..., bool] = function) -> bool:
            if request.param != "loops":
                raise UnavailableError("no compiled code")
            ran.append(name)
            return function(*args)

        monkeypatch.setattr(indexing, name, observed)
    yield ran
    assert bool(ran) == (request.param == "loops")


def test_operators(compiled: list[str]) -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(-_ROWS, _ROWS, _ROWS)
    along = rng.integers(-_ROWS, _ROWS, (_ROWS, _COLUMNS))
    failures = Failures()
    for dtype in (np.float32, np.int16, np.float64):
        x, y = (rng.integers(0, 100, (_ROWS, _COLUMNS)).astype(dtype) for _ in range(2))
        for name, (ours, reference) in _operators().items():
            for kind in (np.int64, np.int32, np.int16):
                with failures.of(f"{name} {np.dtype(dtype)} {np.dtype(kind)}"):
                    r, i = rows.astype(kind), along.astype(kind)
                    made = ours(*[tk.asarray(given.copy()) for given in (x, r, i, y)])
                    np.testing.assert_array_equal(made.numpy(), reference(x, r, i, y), strict=True)
    failures.check()
    if compiled:
        assert set(compiled) == {"carry_out", "walk_by_one"}


@pytest.mark.usefixtures("compiled")
def test_one_index_per_row() -> None:
    """The place depends on the row and on an index, which run along the same axis."""
    n = 1 << 15
    labels = np.random.default_rng(8).integers(0, 3, n)
    wanted = np.eye(3, dtype=np.float32)[labels]
    ones = tk.ones((n, 1), dtype=tk.float32)
    failures = Failures()
    for kind in (np.int64, np.int32):
        index = tk.asarray(labels.astype(kind))
        x = tk.zeros((n, 3), dtype=tk.float32)
        made = {
            "scatter_add": tk.scatter_add(x, index[:, None], ones, 1),
            "scatter": tk.scatter(x, index[:, None], ones, 1),
            "take_along_axis": tk.grad(lambda x, i=index: tk.sum(tk.take_along_axis(x, i[:, None], axis=1)))(x),
            "pairs": tk.grad(lambda x, i=index: tk.sum(x[tk.arange(n), i]))(x),
        }
        for name, found in made.items():
            with failures.of(f"{name} {np.dtype(kind)}"):
                np.testing.assert_array_equal(found.numpy(), wanted)
    failures.check()


def test_indices_that_are_overwritten() -> None:
    """The indices are those from before the assignment, whatever it writes over them."""
    n = 1 << 15
    order, values = (np.random.default_rng(seed).permutation(n) for seed in (9, 10))
    x = tk.asarray(order.copy())
    x[x] = tk.asarray(values)
    wanted = order.copy()
    wanted[order] = values
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_assignments_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*args: Any, **statics: Any) -> Any:
        raise UnavailableError("no compiled code")

    monkeypatch.setattr(walks, "kernel", unavailable)
    x = tk.zeros(1 << 15)
    x[tk.arange(1 << 15)] = tk.ones(1 << 15)
    assert tk.all(x == 1)


@pytest.mark.usefixtures("compiled")
def test_errors_name_the_index() -> None:
    x = tk.zeros((300, 200))
    rows = np.zeros(300, np.int64)
    rows[299] = 300
    r = tk.asarray(rows)
    along = tk.asarray(np.full((300, 200), -301))
    message = r"\[{}\] index {} is out of range for axis 0 of length 300"
    with pytest.raises(IndexError, match=message.format("index", 300)):
        _ = x[r]
    with pytest.raises(IndexError, match=message.format("take_along_axis", -301)):
        tk.take_along_axis(x, along, axis=0)
    with pytest.raises(IndexError, match=message.format("index_put", 300)):
        x[r] = tk.ones((300, 200))
    with pytest.raises(IndexError, match=message.format("scatter_add", -301)):
        tk.scatter_add(x, along, x, 0)
    assert not x.any()  # nothing was written


@pytest.mark.usefixtures("compiled")
def test_gradients() -> None:
    rng = np.random.default_rng(3)
    a, w = rng.standard_normal((2, 300, 200))
    rows = rng.integers(-300, 300, 300)
    along = rng.integers(-300, 300, (300, 200))
    for function, at in (
        (lambda x: x[tk.asarray(rows)], (rows,)),
        (lambda x: tk.take_along_axis(x, tk.asarray(along), axis=0), (along, np.arange(200))),
        (lambda x: x[tk.asarray(along), tk.asarray(along % 200)], (along, along % 200)),
    ):
        x = tk.tensor(a, requires_grad=True)
        (function(x) * tk.asarray(w)).sum().backward()
        want = np.zeros_like(a)
        np.add.at(want, at, w)
        np.testing.assert_array_equal(x.grad.numpy(), want)


def test_kernels_that_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def observed(template: Any, **statics: Any) -> Any:
        asked.append((template, statics))
        return kernel(template, **statics)

    monkeypatch.setattr(walks, "kernel", observed)
    walks._kernel.cache_clear()
    walks._known.cache_clear()
    x = tk.ones((500, 500))
    rows = tk.asarray(np.arange(500) % 7)
    flat, places = tk.ones(200_000), tk.asarray(np.arange(200_000) % 1000)
    _ = x[rows], flat[places]
    x[rows] = x.clone()
    flat[places] = flat.clone()
    tk.scatter_add(flat, places, flat)
    tk.index_add(x, rows, x)
    tk.scatter_add(x, tk.asarray(np.arange(250_000).reshape(500, 500) % 500), x)
    walks._kernel.cache_clear()
    walks._known.cache_clear()
    known = [(case.template, case.statics) for case in gathering.cases([np.dtype("float32")])]
    assert len(asked) > 6
    assert [one for one in asked if one not in known] == []
