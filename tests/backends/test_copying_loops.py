"""Copies between strided arrays, and the operators made of them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.loops.moves import strided_copies as copies
from tenkey.backends.cpu.loops.moves import triangles
from tenkey.backends.cpu.loops.moves.triangles import triangle
from tenkey.backends.cpu.pool import STATE
from tenkey.backends.cpu.thresholds import STREAMED
from tenkey.backends.llvm import UnavailableError, address_of, kernel
from tests._tiers import Failures, tier

Array = np.ndarray[Any, Any]
_DTYPES = (np.uint8, np.int16, np.float32, np.float64, np.complex128)
_LENGTHS = (0, 1, 2, 3, 4, 5, 7, 16, 17, 33, 64, 70, 130)
_KINDS = {"run": 0, "reversed": 1, "fill": 2, "repeat": 3, "transposed": 4, "strided": 5}


def _copy(out: Array, source: Array) -> int:
    """Copy in the loops whatever the size; return the kind of copy, -2 if they decline."""
    size = out.dtype.itemsize
    plans = np.empty((1, copies._WORDS), np.int64)
    kind: int = kernel(copies.copy_plans)(STATE, plans, _pairs((out, source)), np.zeros(6, np.int64), size)
    if kind >= 0:
        kernel(copies.copy_planned, SIZE=size if kind else 1, KIND=kind)(STATE, plans)
    return kind


def _pairs(*pieces: tuple[Array, Array]) -> Array:
    made = np.empty((len(pieces), 2), object)
    for k, (out, source) in enumerate(pieces):
        made[k, 0], made[k, 1] = out, source
    return made


def _numbered(shape: tuple[int, ...], dtype: Any, start: int = 0) -> Array:
    """An array in which neighbours differ, for small elements as well."""
    count = int(np.prod(shape))
    numbers = (np.arange(start, start + count) * 7919) % 251
    a = numbers.astype(dtype)
    if a.dtype.kind == "c":
        a += 1j * np.arange(count)
    elif a.dtype.itemsize > 2:
        a = np.arange(start, start + count).astype(dtype)
    return a.reshape(shape)


def _view(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, *, broadcast: bool) -> Array:
    """A view of this shape, axes in any order, with gaps and negative strides; ``broadcast``: some have length 1."""
    ndim = len(shape)
    order = rng.permutation(ndim)
    steps = [int(rng.choice([1, 1, 2])) for _ in shape]
    a = _numbered(tuple(shape[k] * steps[k] for k in order), dtype, int(rng.integers(100)))
    a = a.transpose(np.argsort(order)) if ndim else a
    index = [slice(None, None, step * int(rng.choice([1, 1, 1, -1]))) for step in steps]
    a = a[(*index, ...)]
    if broadcast:
        a = a[(*[slice(0, 1) if rng.random() < 0.2 else slice(None) for _ in shape], ...)]
        while a.ndim and a.shape[0] == 1 and rng.random() < 0.5:
            a = a[0, ...]
    return a


def test_layouts_and_item_sizes() -> None:
    rng = np.random.default_rng(0)
    failures, kinds = Failures(), set()
    for dtype in _DTYPES:
        for _ in range(tier(120, 600)):
            shape = tuple(int(n) for n in rng.choice(_LENGTHS, rng.integers(0, 5)))
            if np.prod(shape) > 100_000:
                continue
            out, source = _view(rng, shape, dtype, broadcast=False), _view(rng, shape, dtype, broadcast=True)
            want = out.copy()
            want[...] = source
            with failures.of(f"{np.dtype(dtype)} {shape} {out.strides} from {source.shape} {source.strides}"):
                kind = _copy(out, source)
                assert kind != -2, "declined"
                np.testing.assert_array_equal(out, want)
                kinds.add(kind)
    failures.check()
    assert kinds >= {_KINDS[name] for name in ("run", "reversed", "fill", "transposed", "strided")}


@pytest.mark.parametrize("dtype", _DTYPES)
def test_every_kind_on_several_threads(dtype: Any) -> None:
    a = _numbered((260, 1030), dtype)
    wide = np.zeros((260, 1030, 2), dtype)
    cases: dict[str, tuple[Array, Array, str]] = {
        "contiguous": (np.zeros_like(a), a, "run"),
        "rows with gaps": (np.zeros((260, 1040), dtype)[:, 5:-5], a, "run"),
        "rows backwards": (np.zeros_like(a), a[::-1], "run"),
        "columns backwards": (np.zeros_like(a), a[:, ::-1], "reversed"),
        "one column": (np.zeros_like(a), a[:, 3:4], "fill"),
        "each twice": (wide, a[..., None], "repeat"),
        "transposed": (np.zeros((1030, 260), dtype), a.T, "transposed"),
        "transposed backwards": (np.zeros((1030, 260), dtype), a[::-1, ::-1].T, "transposed"),
        "every second": (np.zeros((260, 515), dtype), a[:, ::2], "strided"),
        "into every second": (np.zeros((260, 1030, 2), dtype)[..., 1], a, "strided"),
    }
    failures = Failures()
    for name, (out, source, kind) in cases.items():
        with failures.of(name):
            found = _copy(out, source)
            if np.dtype(dtype).itemsize < 16 or kind == "run":
                assert found == _KINDS[kind]
            np.testing.assert_array_equal(out, np.broadcast_to(source, out.shape))
    failures.check()


def test_blocks_at_the_edges() -> None:
    """Lengths one below and above multiples of a block, of 128 elements each way or 64 KB in a row."""
    failures = Failures()
    shapes = [(m, n) for m in (1, 2, 1023, 1025, 1153) for n in (127, 128, 129, 257)]
    cases = {"transposed": [(n, m) for m, n in shapes] + shapes, "run": [(3, 65535), (3, 65537), (129, 513)]}
    cases["strided"] = cases["transposed"]
    for kind, those in cases.items():
        for shape in those:
            a = _numbered(shape if kind == "run" else (shape[1], 2 * shape[0] + 1), np.uint8)
            source = {"run": a, "transposed": a[:, : shape[0]].T, "strided": a[:, 1::2].T}[kind]
            out = np.zeros((shape[0], shape[1] + 1), np.uint8)[:, :-1]
            with failures.of(f"{kind} {shape}"):
                found = _copy(out, source)
                assert found == _KINDS[kind] or 1 in shape
                np.testing.assert_array_equal(out, source)
    failures.check()


def test_several_copies_at_once() -> None:
    rng = np.random.default_rng(3)
    failures, seen = Failures(), set()
    for dtype in _DTYPES:
        size = np.dtype(dtype).itemsize
        for _ in range(tier(40, 300)):
            count = int(rng.integers(1, 9))
            lengths = [rng.choice((0, 1, 3, 7, 30, 70), rng.integers(0, 4)) for _ in range(count)]
            shapes = [tuple(int(n) for n in some) if some.prod() < 50_000 else (70, 30) for some in lengths]
            if rng.random() < 0.5:  # as many tasks in each
                shapes = [shapes[0]] * count
            pieces, wanted, owners = [], [], []
            for shape in shapes:
                guarded = _numbered((int(np.prod(shape)) * 4 + 64,), dtype, int(rng.integers(100)))
                owners.append(guarded)
                out = guarded[32 : 32 + 2 * int(np.prod(shape))].reshape(*shape, 2)[..., int(rng.integers(2))]
                source = _view(rng, shape, dtype, broadcast=True)
                if not shape:  # arrays without elements of their own would not be written
                    out = guarded[32:33].reshape(())
                pieces.append((out, source))
            for guarded, (out, source) in zip(owners, pieces, strict=True):
                want = guarded.copy()
                start = (out.ctypes.data - guarded.ctypes.data) // size
                np.lib.stride_tricks.as_strided(want[start:], out.shape, out.strides)[...] = source
                wanted.append(want)
            with failures.of(f"{np.dtype(dtype)} {shapes} from {[source.strides for _, source in pieces]}"):
                copies._copy(pieces, size)
                for guarded, want in zip(owners, wanted, strict=True):
                    np.testing.assert_array_equal(guarded, want)
                seen.add(count)
    failures.check()
    assert len(seen) == 8


def test_several_copies_of_which_the_loops_decline_some() -> None:
    a = np.arange(40_000.0)
    unaligned = np.frombuffer(bytearray(range(256)) * 1250 + bytes(8), np.float64, 40_000, 1)
    outs = [np.zeros(40_000) for _ in range(4)]
    copies.copy_pieces(list(zip(outs, (a, unaligned, a[::-1], np.zeros(())), strict=True)))
    for out, want in zip(outs, (a, unaligned, a[::-1], np.zeros(40_000)), strict=True):
        np.testing.assert_array_equal(out, want)


def test_triangles() -> None:
    rng = np.random.default_rng(4)
    failures = Failures()
    ks = (-(2**63), -400, -3, -1, 0, 1, 2, 5, 400, 2**63 - 1)
    for dtype in (*_DTYPES, np.bool_, np.float16):
        for shape in ((5, 7), (7, 5), (1, 4), (4, 1), (3, 4, 6), (2, 3, 9, 8), (2, 300, 260)):
            a = rng.integers(1, 100, shape).astype(dtype)
            if a.dtype.kind == "f":
                a[..., 0, -1], a[..., -1, 0] = np.nan, -0.0
            layouts = {
                "C": a, "F": np.asfortranarray(a), "rows apart": np.repeat(a, 2, axis=-2)[..., ::2, :],
                "rows backwards": a[..., ::-1, :], "columns backwards": a[..., ::-1],
                "apart": np.repeat(a, 2, -1)[..., ::2],
                "repeated": np.broadcast_to(a[..., :1, :], shape), "batch backwards": a[::-1],
            }  # fmt: skip
            for layout, given in layouts.items():
                for k in ks:
                    near = max(-1000, min(k, 1000))
                    for upper, reference in ((False, np.tril), (True, np.triu)):
                        with failures.of(f"{np.dtype(dtype)} {shape} {layout} {k} {upper}"):
                            made = triangle(given, k, upper=upper)
                            assert made is not None
                            assert made.dtype == given.dtype
                            assert made.tobytes() == reference(given, near).tobytes()
    failures.check()


def test_copies_that_bypass_the_caches() -> None:
    count = STREAMED + 100_003
    source = np.arange(count + 5, dtype=np.uint64).astype(np.uint8)[5:]
    for offset in (0, 3):  # of a vector's address
        out = np.zeros(count + 64, np.uint8)[offset : offset + count]
        assert _copy(out, source) == _KINDS["run"]
        assert np.array_equal(out, source)


def test_the_loops_decline() -> None:
    a = np.arange(100.0)
    frozen = np.zeros(100)
    frozen.flags.writeable = False
    unaligned = np.frombuffer(bytearray(809), np.float64, 100, 1)
    cases = {
        "overlapping": (a[1:], a[:-1]),
        "repeated memory": (np.lib.stride_tricks.as_strided(np.zeros(1), (100,), (0,)), a),
        "shapes that do not fit": (np.zeros(99), a),
        "more dimensions than the result": (np.zeros(100), a[None]),
        "frozen": (frozen, a),
        "unaligned": (np.zeros(100), unaligned),
        "many axes": (np.zeros((2,) * 17), np.zeros((2,) * 17)),
    }
    assert [name for name, (out, source) in cases.items() if _copy(out, source) != -2] == []
    assert _copy(np.zeros((0, 3)), np.zeros((1, 3))) == -1


def test_a_wrong_plan_is_seen() -> None:
    a = _numbered((64, 64), np.float32)
    out = np.zeros_like(a)
    plans = np.empty((1, copies._WORDS), np.int64)
    kind = kernel(copies.copy_plans)(STATE, plans, _pairs((out, a.T)), np.zeros(6, np.int64), 4)
    assert kind == _KINDS["transposed"]
    plans[0, copies._ROWS + 1] += 4  # each row of the result begins one element too late
    plans[0, copies._ROWS] -= 1
    kernel(copies.copy_planned, SIZE=4, KIND=kind)(STATE, plans)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(out, a.T)


# ---- operators

_BIG = (300, 410)


def _operators() -> dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]]:
    """By name: a call on a tensor, and the same in NumPy."""
    modes = ("edge", "reflect", "symmetric", "wrap", "constant")
    pads = {
        f"pad {mode} {widths}": (
            lambda x, mode=mode, widths=widths: tk.pad(x, widths, mode),
            lambda a, mode=mode, widths=widths: np.pad(a, widths, mode),
        )
        for mode in modes
        for widths in (1, ((3, 0), (0, 7)), ((0, 0), (2, 5)), ((2, 1), (0, 0)))
    }
    return {
        "clone": (lambda x: x.clone(), lambda a: a),
        "clone of a transpose": (lambda x: x.T.clone(), lambda a: a.T),
        "reshape": (lambda x: tk.reshape(x.T, (-1,)), lambda a: a.T.reshape(-1)),
        "reshape copy": (lambda x: tk.reshape(x, (-1,), copy=True), lambda a: a.reshape(-1)),
        "flip": (lambda x: tk.flip(x), np.flip),
        "flip 0": (lambda x: tk.flip(x, axis=0), lambda a: np.flip(a, 0)),
        "flip -1": (lambda x: tk.flip(x, axis=-1), lambda a: np.flip(a, -1)),
        "concat": (lambda x: tk.concat([x, x[:7], x]), lambda a: np.concatenate([a, a[:7], a])),
        "concat -1": (lambda x: tk.concat([x, x[:, :7]], axis=-1), lambda a: np.concatenate([a, a[:, :7]], -1)),
        "concat flat": (lambda x: tk.concat([x, x.T], axis=None), lambda a: np.concatenate([a, a.T], None)),
        "concat of many": (lambda x: tk.concat([x[i] for i in range(300)]), lambda a: a.reshape(-1)),
        "concat of dtypes": (
            lambda x: tk.concat([x, tk.astype(x, tk.complex128)]), lambda a: np.concatenate([a, a.astype(complex)]),
        ),
        "stack": (lambda x: tk.stack([x, x]), lambda a: np.stack([a, a])),
        "stack 1": (lambda x: tk.stack([x, x], axis=1), lambda a: np.stack([a, a], 1)),
        "stack -1": (lambda x: tk.stack([x, x], axis=-1), lambda a: np.stack([a, a], -1)),
        "roll": (lambda x: tk.roll(x, 1234), lambda a: np.roll(a, 1234)),
        "roll 0": (lambda x: tk.roll(x, -7, axis=0), lambda a: np.roll(a, -7, 0)),
        "roll 1": (lambda x: tk.roll(x, 7, axis=1), lambda a: np.roll(a, 7, 1)),
        "roll both": (lambda x: tk.roll(x, (3, 4), axis=(0, 1)), lambda a: np.roll(a, (3, 4), (0, 1))),
        **pads,
        "pad with two values": (
            lambda x: tk.pad(x, ((1, 2), (3, 4)), constant_values=((1, 2), (3, 4))),
            lambda a: np.pad(a, ((1, 2), (3, 4)), constant_values=((1, 2), (3, 4))),
        ),
        **{
            f"repeat {count} {axis}": (
                lambda x, count=count, axis=axis: tk.repeat(x, count, axis=axis),
                lambda a, count=count, axis=axis: np.repeat(a, count, axis),
            )
            for count in (2, 3, 5)
            for axis in (0, 1, None)
        },
        "tile": (lambda x: tk.tile(x, (2, 3)), lambda a: np.tile(a, (2, 3))),
        "tril": (lambda x: tk.tril(x, k=3), lambda a: np.tril(a, 3)),
        "triu": (lambda x: tk.triu(x, k=-2), lambda a: np.triu(a, -2)),
        "triu of a stack": (lambda x: tk.triu(x[None, None]), lambda a: np.triu(a[None, None])),
        "stack of many": (lambda x: tk.stack([*x] * 2, axis=1), lambda a: np.stack([*a] * 2, 1)),
        "real": (lambda x: tk.real(tk.astype(x, tk.complex64)), lambda a: a.astype(np.float32)),
    }  # fmt: skip


@pytest.fixture(params=["loops", "without compiled code"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let copies run in the loops, or as where there are none."""
    if request.param != "loops":

        def missing() -> Any:
            raise UnavailableError("no compiled code")

        monkeypatch.setattr(copies, "_planner", missing)
        monkeypatch.setattr(triangles, "_kernel", missing)
    return None


@pytest.mark.usefixtures("compiled")
def test_operators() -> None:
    failures = Failures()
    for dtype in (np.float64, np.float32, np.int16):
        a = _numbered(_BIG, dtype)
        for layout, given in (("C", a), ("F", np.asfortranarray(a))):
            x = tk.asarray(given)
            for name, (ours, reference) in _operators().items():
                with failures.of(f"{name} {np.dtype(dtype)} {layout}"):
                    made = ours(x).numpy()
                    np.testing.assert_array_equal(made, reference(a))
                    assert made.flags.c_contiguous
    failures.check()


@pytest.mark.usefixtures("compiled")
def test_assignments() -> None:
    a = _numbered(_BIG, np.float32)
    other = -np.ones(_BIG, np.float32)

    def check(write: Callable[[Any, Any], None]) -> None:
        x, want = tk.asarray(a.copy()), a.copy()
        write(x, tk.asarray(other.copy()))
        write(want, other)
        np.testing.assert_array_equal(x.numpy(), want)

    def copy(x: Any, y: Any) -> None:
        if isinstance(x, np.ndarray):
            x[...] = y
        else:
            x.copy_(y)

    check(lambda x, y: x.__setitem__(slice(1, -1), y[1:-1]))
    check(lambda x, y: x.__setitem__((slice(None), slice(2, None, 2)), y[:, 2::2]))
    check(lambda x, y: x.__setitem__(..., y[:1]))
    check(copy)
    check(lambda x, y: copy(x[1:], y[:-1]))
    check(lambda x, y: copy(x[1:], x[:-1]))  # onto itself, shifted
    check(lambda x, y: copy(x[:, 1:], x[:, :-1]))
    check(lambda x, y: copy(x, y[:1]))
    with pytest.raises(ValueError, match=r"\[index_put\]"):
        tk.asarray(a.copy())[1:] = tk.asarray(other)


def test_gradients_of_large_views() -> None:
    a = np.random.default_rng(0).standard_normal(_BIG)
    weight = np.random.default_rng(1).standard_normal(_BIG)
    w = tk.asarray(weight)
    for function, where in (
        (lambda x: x[3:-5], np.s_[3:-5]), (lambda x: x[:, 3:], np.s_[:, 3:]), (lambda x: x[:, ::3], np.s_[:, ::3]),
        (lambda x: x[2], np.s_[2]),
    ):  # fmt: skip
        x = tk.tensor(a, requires_grad=True)
        part = function(x)
        (part * w[where]).sum().backward()
        want = np.zeros_like(a)
        want[where] = weight[where]
        np.testing.assert_array_equal(x.grad.numpy(), want)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x = tk.asarray(_numbered((700, 700), np.float32))
    found = []
    before = tk.get_num_threads()
    try:
        for count in (1, 2, 5):
            tk.set_num_threads(count)
            found.append([x.T.clone().numpy(), tk.flip(x).numpy(), tk.concat([x, x], axis=1).numpy()])
    finally:
        tk.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_kernels_that_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    for name, given in (("kernel", kernel), ("address_of", address_of)):

        def observed(template: Any, given: Any = given, **statics: Any) -> Any:
            asked.append((template, statics))
            return given(template, **statics)

        monkeypatch.setattr(copies, name, observed)
    x = tk.ones((500, 500))
    for function in (copies._planner, copies._movers):
        function.cache_clear()
    _ = x.T.clone(), tk.flip(x), tk.repeat(x, 2, axis=1), tk.tile(x[:, :1], (1, 500)), tk.stack([x, x], axis=-1)
    for function in (copies._planner, copies._movers):
        function.cache_clear()
    known = [(case.template, case.statics) for case in copies.cases([np.dtype("float32")])]
    assert sorted(statics["KIND"] for _, statics in asked if statics) == [1, 2, 3, 4, 5]
    assert [one for one in asked if one not in known] == []


@pytest.mark.parametrize("n", [1, 12, 1000, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "bool", "complex128"])
def test_a_vector_is_assigned_to_another_part_of_itself(n: int, dtype: str) -> None:
    def copy_(t: tk.Tensor, to: slice, values: tk.Tensor) -> None:
        t[to].copy_(values)

    half = (n + 1) // 2
    for to, source, assignments in [
        (slice(None, None, 2), slice(None, half), (tk.Tensor.__setitem__, copy_)),
        (slice(None, half), slice(None, None, 2), (tk.Tensor.__setitem__, copy_)),
        (slice(1, None), slice(None, -1), (tk.Tensor.__setitem__, copy_)),
        (slice(None, None, -1), slice(None), (tk.Tensor.__setitem__,)),  # t[::-1] is a copy
    ]:
        for assign in assignments:
            t = tk.arange(n).astype(getattr(tk, dtype))
            expected = t.numpy().copy()
            expected[to] = expected[source].copy()
            assign(t, to, t[source])
            np.testing.assert_array_equal(t.numpy(), expected)
