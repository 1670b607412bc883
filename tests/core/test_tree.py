"""One rule for nested values: Note [Trees] in ``tenkey/core/tree.py``, and the callers that follow it."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.core.tree import flatten, flatten_with_path, map_tensors, map_with_path, tensors_in, tree_map, unflatten


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Record:
    pair: Any
    named: Any
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", len(self.named))


@dataclass
class Positive:
    x: Tensor
    total: Any = field(init=False)

    def __post_init__(self) -> None:
        self.total = self.x.sum()


class Items(list[Any]):
    """A subclass of list."""


class Labelled(dict[str, Any]):
    """A dict whose constructor takes something else."""

    def __init__(self, label: str, **items: Any) -> None:
        super().__init__(items)
        self.label = label


X, Y = tk.asarray([1.0, 2.0]), tk.asarray([3.0, 4.0])
TREE = Record(Pair(X, [Y, 2]), {"z": (X, None)})


def test_leaves_and_paths() -> None:
    assert [path for path, _ in flatten_with_path(TREE, "r")] == [
        "r.pair.first",
        "r.pair.second[0]",
        "r.pair.second[1]",
        "r.named['z'][0]",
        "r.named['z'][1]",
    ]
    for path, leaf in flatten_with_path(TREE, "r"):
        assert eval(path, {"r": TREE}) is leaf
    assert [leaf is one for leaf, one in zip(flatten(TREE), [X, Y, 2, X, None], strict=True)] == [True] * 5
    assert [x is one for x, one in zip(tensors_in(TREE), [X, Y, X], strict=True)] == [True] * 3


def test_rebuilding() -> None:
    shapes = map_tensors(lambda x: x.shape, TREE)
    assert shapes == Record(Pair((2,), [(2,), 2]), {"z": ((2,), None)})
    assert TREE.pair.first is X
    made = map_with_path(lambda leaf, path: path, Pair(1, {"a": 2}), "p")
    assert made == Pair("p.first", {"a": "p.second['a']"})
    assert unflatten(Pair(1, (2, [])), [3, 4]) == Pair(3, (4, []))


@pytest.mark.parametrize(
    "tree",
    [[1], (1,), Pair(1, 1), {"a": 1}, OrderedDict(a=1), defaultdict(list, a=1), Labelled("l", a=1), Items([1])],
    ids=type,
)
def test_containers_keep_their_class(tree: Any) -> None:
    made = tree_map(lambda n: n + 1, tree)
    assert type(made) is type(tree)
    assert made is not tree
    assert set(flatten(tree)) == {1}
    assert set(flatten(made)) == {2}
    assert getattr(made, "label", None) == getattr(tree, "label", None)


@pytest.mark.parametrize(
    "leaf", [None, "text", 3, np.ones(2), MappingProxyType({"a": 1}), {1, 2}, range(3), Pair], ids=str
)
def test_leaves(leaf: Any) -> None:
    (found,) = flatten([leaf])
    assert found is leaf


def test_fields_that_init_computes_follow_their_parts() -> None:
    made = map_tensors(lambda x: x * 2, Positive(X))
    assert made.total.item() == 6
    bare = tree_map(lambda leaf: "placeholder", Positive(X), bare=True)
    assert bare.x == "placeholder"
    assert bare.total.item() == 3


def test_tensors_of_dataclasses_are_arguments_of_checkpoints() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    packed = []
    with tk.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
        y = tk.autograd.checkpoint(lambda p: p.x * p.x * p.total, Positive(x * 1))
    assert (2,) in packed  # the argument itself was saved, inside the dataclass
    y.sum().backward()
    numbers = np.asarray([1.0, 2.0])
    expected = 2 * numbers * numbers.sum() + (numbers**2).sum()
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_results_in_records_on_the_context_keep_no_cycle() -> None:
    class Square(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            out = x * x
            ctx.kept = Record(Pair(out, 1), {"x": out})
            return out

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            assert type(ctx.kept.pair) is Pair
            return g * 2 * tk.sqrt(ctx.kept.pair.first)

    x = tk.tensor([3.0], requires_grad=True)
    y = Square.apply(x)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0]
    gone = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert gone() is None  # the context in the graph did not hold its own result
    finally:
        gc.enable()
