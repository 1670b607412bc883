"""The compiled loop of the engine against that in Python; plans of its graphs and of NumPy's names."""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.autograd.engine import engine
from tenkey.core.compiled.loading import extension
from tenkey.core.plans import is_planned
from tenkey.dispatch import registry

needs_core = pytest.mark.skipif(extension is None, reason="runs in Python, without plans")


def _random_graph(seed: int, order: list[int]) -> tuple[list[Any], Any]:
    """Return leaves and a scalar of a graph with shared results, several outputs, broadcasting and hooks."""
    rng = np.random.default_rng(seed)
    leaves = [
        tk.asarray(rng.standard_normal(shape), requires_grad=True) for shape in ((3,), (2, 3), (1, 3), (), (2, 1))
    ]
    values: list[Any] = list(leaves)
    for number in range(25):
        a, b = (values[int(i)] for i in rng.integers(0, len(values), 2))
        step = int(rng.integers(0, 7))
        if step == 0:
            made = a + b
        elif step == 1:
            made = a * b / 4.0
        elif step == 2:
            made = a.sum() * b
        elif step == 3:
            made = a.T @ a if a.ndim == 2 else a * 2.0
        elif step == 4 and a.ndim:
            made = a[..., :1] - b[..., None] if b.ndim == 0 else a[..., 0]
        elif step == 5 and a.ndim:
            made = tk.unstack(a, axis=0)[0]
        else:
            made = a - b if a.shape == b.shape else a.exp() / 8.0
        if made.ndim > 2:
            made = made.sum(0)
        try:
            tk.broadcast_shapes(made.shape, (2, 3))
        except ValueError:
            made = made.mean()
        if rng.integers(0, 3) == 0:
            made.register_hook(lambda g, number=number: order.append(number) or g * 1.5)
        values.append(made)
    return leaves, sum((v.sum() for v in values[5:]), tk.asarray(0.0, dtype=tk.float64))


@needs_core
@pytest.mark.parametrize("seed", range(40))
def test_both_loops_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients have the same bits, and hooks run in the same order; both loops run twice."""
    found: list[Any] = []
    for loop in (engine._run_loop, engine._loop):
        monkeypatch.setattr(engine, "_run_loop", loop)
        order: list[int] = []
        leaves, out = _random_graph(seed, order)
        out.backward(retain_graph=True)
        first = [None if x.grad is None else x.grad.numpy().tobytes() for x in leaves]
        captured = tk.autograd.grad(out, leaves, allow_unused=True, retain_graph=True)
        out.backward()
        second = [None if x.grad is None else x.grad.numpy().tobytes() for x in leaves]
        captures = [None if g is None else g.numpy().tobytes() for g in captured]
        found.append((order, first, captures, second))
    assert found[0] == found[1]
    assert any(found[0][1])


def test_a_wrong_number_of_gradients_is_refused() -> None:
    x = tk.ones(3, requires_grad=True)
    y = x * 2.0
    y.grad_fn.next_edges = (*y.grad_fn.next_edges, (None, 0), (None, 0))
    with pytest.raises(RuntimeError, match=r"MultiplyBackward\] returned 2 gradients, expected 4"):
        y.sum().backward()


@pytest.mark.parametrize("edges", [(5,), ((),), ((None,),), ("ab",), (None,)])
def test_edges_that_are_none_are_refused(edges: Any) -> None:
    x = tk.ones(3, requires_grad=True)
    y = tk.exp(x)
    y.grad_fn.next_edges = edges
    with pytest.raises((TypeError, ValueError, AttributeError)):
        y.sum().backward()


@pytest.mark.parametrize("field", ["_word", "shape", "next_edges", "sequence_nr"])
def test_fields_of_nodes_can_be_deleted_without_a_crash(field: str) -> None:
    x = tk.ones(3, requires_grad=True)
    y = tk.exp(x) + x
    for node in (y.grad_fn, y.grad_fn.next_edges[0][0]):
        delattr(node, field)
    with contextlib.suppress(AttributeError):  # where the field is needed
        y.sum().backward()


def test_a_gradient_that_is_held_elsewhere_is_not_written_to() -> None:
    given = tk.asarray([1.0, 2.0], dtype=tk.float64)
    x, y = (tk.ones(2, dtype=tk.float64).requires_grad_() for _ in range(2))
    kept: list[Any] = []
    total = x + y
    total.register_hook(kept.append)
    (total + x + x + y).backward(given)
    assert given.tolist() == kept[0].tolist() == [1.0, 2.0]
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 6.0]
    x.grad += 1.0
    assert given.tolist() == [1.0, 2.0]


@needs_core
def test_recorded_products_and_transposes_are_planned() -> None:
    p = tk.ones((2, 2), requires_grad=True)
    for call, name in ((lambda x: x @ x, "matmul"), (lambda x: x.T, "permute_dims")):
        call(p)
        assert is_planned(registry.find(f"tk::{name}"), p._word), name


REDUCTIONS = ("sum", "prod", "max", "amax", "min", "amin", "all", "any", "mean")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "?", "c16", "u1"])
def test_reductions_of_arrays_have_numpys_bits(name: str, dtype: str) -> None:
    """In every layout, also from the second call on, which a plan computes."""
    ours, theirs = getattr(tnp, name), getattr(np, name)
    rng = np.random.default_rng(3)
    for shape in ((), (1,), (7,), (200,), (3, 5), (2, 3, 4), (0,), (2, 0)):
        a = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
        for options in ({}, {"axis": 0}, {"axis": -1}, {"axis": None, "keepdims": True}, {"axis": 0, "keepdims": True}):
            for view in (a, a[::-1] if a.ndim else a, a.T):
                calls: list[Callable[..., Any]] = [ours]
                if hasattr(np.ndarray, name):
                    calls.append(getattr(tnp.ndarray, name))
                for call in calls:
                    for _ in range(3):
                        _same(partial(theirs, view, **options), partial(call, tnp.asarray(view), **options))


def _same(theirs: Callable[[], Any], ours: Callable[[], Any]) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = theirs()
        except (TypeError, ValueError):
            with pytest.raises((TypeError, ValueError)):
                ours()
            return
        found = ours()
    assert isinstance(wanted, np.ndarray) or type(found) is type(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_entries_behave_like_functions() -> None:
    for function, module in ((tk.exp, tk), (tk.sum, tk), (tk.reshape, tk), (tnp.sum, tnp)):
        name = function.__name__
        assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is getattr(module, name)
        assert inspect.isroutine(function)
        assert inspect.signature(function).parameters
        assert name in repr(function)
        assert function.__doc__
    bound: Any = type("Holder", (), {"method": tk.sum, "__array__": lambda self, *a, **k: np.ones(3)})
    assert bound.method is tk.sum
    with pytest.raises(TypeError):
        bound().method()  # bound, so it is called with what is no array
    for call in (
        lambda: tk.exp(), lambda: tk.exp(tk.ones(2), tk.ones(2)), lambda: tk.sum(tk.ones(2), axes=0),
        lambda: tk.sum(tk.ones(2), 0, axis=0), lambda: tk.sum(tk.ones(2), keepdims=1, axis="x"),
        lambda: tk.where(), lambda: tk.matmul(tk.ones(2), y=3),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            call()


@needs_core
def test_an_entry_that_was_not_made_cannot_be_called() -> None:
    entry = type(tk.exp).__new__(type(tk.exp))
    with pytest.raises(TypeError):
        entry(tk.ones(2))
    with pytest.raises(AttributeError):
        repr(entry)
