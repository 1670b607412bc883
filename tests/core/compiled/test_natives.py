"""Note [Quick calls of functions]: entries in the compiled core pass on what NumPy's functions take, and no more."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.core.compiled.loading import extension

if extension is None:
    pytest.skip("runs in Python, without entries", allow_module_level=True)

V, M = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(2, 3)
WORD = tnp.ones(1)._word


def _entry(kinds: str, further: str = "", **given: Any) -> tuple[Any, list[Any]]:
    """Return an entry whose native function notes its arguments, and the notes."""
    notes: list[Any] = []

    def native(*args: Any, **options: Any) -> Any:
        notes.append((args, options))
        return np.zeros(1)

    def general(*args: Any, **options: Any) -> str:
        return "general"

    options = {"least": 1, "names": (), "known": None, "word": None, "limit": 100, "largest": 0, "is_view": False}
    options |= given
    function = options.pop("function", native)
    made = extension.natives.NativeEntry(general, lambda entry: entry.serve(function, kinds, further, **options))
    return made, notes


X = tnp.asarray(V)
ACCEPTED: list[tuple[str, Any]] = [
    ("a", X), ("~", X), ("~", 1), ("~", 1.5), ("~", True), ("~", 1j), ("#", 2), ("#", False), ("@", [X, X]),
    ("@", (X,)), ("[", [1, 2.0, True, 1j]), ("[", ([1], (2,))), ("[", 3), ("[", []), ("!", "ij"), (".", None),
    (".", (1, 2)), (".", np.float64(1)), (".", "f4"), ("@", []),
]  # fmt: skip
REFUSED: list[tuple[str, Any]] = [
    ("a", 1), ("a", V), ("a", tk.ones(2)), ("a", None), ("~", "1"), ("~", np.float32(1)), ("~", tk.ones(())), ("#", X),
    ("#", "1"), ("#", None), ("@", X), ("@", [X, 1]), ("@", [tk.ones(2)]), ("@", iter([X])), ("[", [X]),
    ("[", [1, None]), ("[", "12"), ("[", [[1], ["2"]]), ("[", [np.float32(1)]), ("!", b"ij"), ("!", None),
    (".", X), (".", tk.ones(2)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), ACCEPTED, ids=lambda x: type(x).__name__)
def test_arguments_that_are_passed_on(kind: str, value: Any) -> None:
    entry, notes = _entry(kind)
    assert type(entry(value)) is tnp.ndarray
    ((given,), options), = notes  # fmt: skip
    assert options == {}
    if isinstance(value, tk.Tensor):
        assert given is value._data
    elif kind == "@":
        assert type(given) is list
        assert [one is x._data for one, x in zip(given, value, strict=True)] == [True] * len(value)
    else:
        assert given is value


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=lambda x: type(x).__name__)
def test_arguments_that_the_call_in_python_gets(kind: str, value: Any) -> None:
    entry, notes = _entry(kind)
    assert entry(value) == "general"
    assert not notes


def test_counts_and_keywords() -> None:
    entry, notes = _entry("a..", least=2, names=["axis"])
    assert [entry(X), entry(), entry(X, 1, 2, 3), entry(X, 1, out=2), entry(X, 1, axis=X)] == ["general"] * 5
    assert not notes
    entry(X, 1), entry(X, 1, 2), entry(X, 1, axis=3)
    assert notes == [((X._data, 1), {}), ((X._data, 1, 2), {}), ((X._data, 1), {"axis": 3})]
    further, notes = _entry("!", "a")
    further("i,i", X, X)
    assert len(notes[0][0]) == 3
    assert further("i", X, X, X, X) == "general"  # more than the core holds
    assert [further("i", 1), further("i", X, "j")] == ["general"] * 2
    assert _entry(".....")[0](1, 2, 3, 4, 5) == "general"


def test_self_containing_and_deep_lists() -> None:
    entry, _ = _entry("[")
    items: list[Any] = [1]
    items.append(items)
    assert entry(items) == "general"
    for _ in range(10_000):
        items = [items]
    assert entry(items) == "general"


def test_limits() -> None:
    entry, _ = _entry("a@", limit=7)
    assert type(entry(X, [X])) is tnp.ndarray
    assert entry(X, [X, X]) == "general"
    small = _entry(".", largest=4, function=np.empty)[0]
    assert small(4).shape == (4,)
    assert small(5) == "general"


def test_what_is_known_of_words() -> None:
    asked: list[int] = []

    class Known(dict[int, bool]):
        def __missing__(self, word: int) -> bool:
            asked.append(word)
            self[word] = found = word == WORD
            return found

    known = Known()
    entry, notes = _entry("aa", known=known)
    for _ in range(3):
        entry(X, X)
    assert (asked, len(notes)) == ([WORD], 3)
    ints = tnp.arange(3)
    assert [entry(X, ints), entry(X, ints), entry(ints, ints)] == ["general"] * 3
    assert asked == [WORD, WORD | ints._word, ints._word]
    known.clear()
    known[WORD] = False
    entry.forget()
    assert entry(X, X) == "general"
    known.clear()
    assert type(entry(X, X)) is tnp.ndarray
    with tk.no_grad():
        assert entry(X, X) == "general"
    assert entry(tnp.ones(2).requires_grad_(), X) == "general"


def test_exceptions() -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    def wrong(*args: Any) -> Any:
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        _entry("a", function=interrupted)[0](X)
    assert _entry("a", function=wrong)[0](X) == "general"
    assert _entry("a", function=lambda x: np.array(["text"]))[0](X) == "general"  # no dtype of tensors
    assert _entry("a", function=lambda x: (x, x))[0](X) == "general"
    assert type(_entry("a", function=lambda x: np.float32(2))[0](X)) is np.float32


def test_arrays_that_are_taken_away_by_the_call() -> None:
    class Shape:
        def __index__(self) -> int:
            x._data = y._data = None
            self.kept = [np.full(1000, 7.0) for _ in range(20)]
            return 0

    for _ in range(50):
        x, y = tnp.ones(1000), tnp.ones(1000)
        entry, _ = _entry("a@.", function=lambda a, b, axis: np.concatenate([a, *b], axis), limit=10_000)
        assert entry(x, [y], Shape()).tolist() == [1.0] * 2000


def test_references_are_given_back() -> None:
    x = tnp.ones(5)
    functions: list[Callable[[], Any]] = [
        lambda: tnp.dot(x, x), lambda: tnp.concatenate([x, x]), lambda: tnp.zeros(3), lambda: tnp.array([1, 2.5]),
        lambda: tnp.where(x, x, 1), lambda: tnp.einsum("i,i->i", x, x), lambda: x.copy(),
        lambda: tnp.reshape(x, (5, 1)),
    ]  # fmt: skip
    for function in functions:
        function(), function()
    held = [x, x._data, x._word, tnp.ndarray]
    counts = [*map(sys.getrefcount, held)]
    for function in functions:
        for _ in range(10):
            function()
    assert [*map(sys.getrefcount, held)] == counts


ZEROS = [0, 3, (), (0,), (2, 3), (1,) * 8, (1,) * 9, (2, 0, 5), 16384, 16385, (128, 128), (128, 129), (1 << 20, 0)]


@pytest.mark.parametrize("shape", ZEROS, ids=str)
def test_zeros(shape: Any) -> None:
    made, wanted = tnp.zeros(shape), np.zeros(shape)
    assert (made.shape, made.dtype, made.strides) == (wanted.shape, wanted.dtype, wanted.strides)
    assert not made.numpy().any()


@pytest.mark.parametrize("shape", [-1, (3, -1), 1 << 70, (1 << 40, 1 << 40), (2, 2.0), "3"], ids=str)
def test_wrong_shapes_of_zeros(shape: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as wanted:
        np.zeros(shape)
    with pytest.raises(wanted.type):
        tnp.zeros(shape)


def test_calls_that_mean_something_else_without_an_argument() -> None:
    (places,) = tnp.where(X > 1)
    assert places.tolist() == [1, 2]
    assert tnp.copy(tnp.asarray(np.asfortranarray(M))).strides == np.copy(np.asfortranarray(M)).strides


def test_entries_are_methods_and_have_names() -> None:
    assert tnp.ndarray.copy(X).tolist() == V.tolist()
    bound = X.copy
    assert bound().tolist() == V.tolist()
    assert "copy" in repr(tnp.ndarray.copy)
    assert (tnp.dot.__name__, tnp.dot.__module__) == ("dot", "tenkey.numpy")
    np.testing.assert_array_equal(np.asarray(tnp.asarray(M).reshape(3, 2)), M.reshape(3, 2))
