"""Numbers and sequences in the place of tensors: results of NumPy, dtypes by our rules, gradients, clear errors."""

# ruff: noqa: RUF005, SIM300  # ``x + [1, 2]`` of tensors is arithmetic, and the order of operands is what is tested
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk

A = np.array([1.5, -2.0, 0.5])
MASK = np.array([True, False, True])


def _both(call: Any) -> tuple[Any, Any]:
    """What a call gives for tensors of ``tk`` and for arrays of NumPy."""
    return call(tk, tk.asarray(A.copy()), tk.asarray(MASK.copy())), call(np, A.copy(), MASK.copy())


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, m: xp.sqrt(2),
        lambda xp, x, m: xp.exp(0.5),
        lambda xp, x, m: xp.sin(np.float64(1.0)),
        lambda xp, x, m: xp.abs(-3),
        lambda xp, x, m: xp.exp(1 + 2j),
        lambda xp, x, m: xp.sum(3),
        lambda xp, x, m: xp.clip(2.5, 0, 1),
        lambda xp, x, m: xp.isnan(float("nan")),
        lambda xp, x, m: xp.broadcast_to(1, 3),
        lambda xp, x, m: xp.expand_dims(3, 0),
        lambda xp, x, m: xp.mean([1, 2, 3]),
        lambda xp, x, m: xp.mean([[1, 2], [3, 4]], axis=0),
        lambda xp, x, m: xp.sqrt(range(5)),
        lambda xp, x, m: xp.max((3, 1, 2)),
        lambda xp, x, m: xp.sort([3, 1, 2]),
        lambda xp, x, m: xp.searchsorted([1, 2, 3], 2),
        lambda xp, x, m: xp.isin([1, 2], [2]),
        lambda xp, x, m: xp.reshape([1, 2], (2, 1)),
        lambda xp, x, m: xp.linalg.inv([[1.0, 2.0], [3.0, 4.0]]),
        lambda xp, x, m: xp.linalg.norm([3.0, 4.0]),
        lambda xp, x, m: xp.fft.fft([1, 2, 3]),
        lambda xp, x, m: xp.matmul([1, 2], [3, 4]),
        lambda xp, x, m: xp.nonzero([1, 0, 2])[0],
        lambda xp, x, m: xp.meshgrid([1, 2], [3, 4, 5])[1],
        lambda xp, x, m: xp.meshgrid(x, 2.0)[1],
        lambda xp, x, m: xp.broadcast_arrays([1, 2], 3)[1],
        lambda xp, x, m: xp.tensordot(x, [1.0, 2.0, 3.0], axes=1),
        lambda xp, x, m: xp.gradient([1.0, 4.0, 9.0]),
        lambda xp, x, m: xp.add(1, 2),
        lambda xp, x, m: xp.add(1, 2.5),
        lambda xp, x, m: xp.add(1.0, np.ones(2)),
        lambda xp, x, m: xp.add(np.float32(1), np.float64(2)),
        lambda xp, x, m: xp.add(np.float64(0.1), 0.2),
        lambda xp, x, m: xp.maximum([1, 2, 3], 2.5),
        lambda xp, x, m: xp.where(m, 1.0, A),
        lambda xp, x, m: xp.where(m, 1.0, 0.0),
        lambda xp, x, m: xp.where([True, False], 1, 0),
        lambda xp, x, m: xp.where(m, [1.0, 2.0, 3.0], x),
        lambda xp, x, m: x == [1.5, 2.0, 0.5],
        lambda xp, x, m: x != (1.5, 2.0, 0.5),
        lambda xp, x, m: x < [2, -3, 1],
        lambda xp, x, m: [2, -3, 1] < x,
        lambda xp, x, m: [1, 2, 3] - x,
        lambda xp, x, m: x * (1, 2, 3),
        lambda xp, x, m: x + range(3),
        lambda xp, x, m: x @ [[1.0], [2.0], [3.0]],
        lambda xp, x, m: [1.0, 2.0, 3.0] @ x,
        lambda xp, x, m: x ** [1, 2, 3],
        lambda xp, x, m: x + [[1], [2]],
        lambda xp, x, m: m & [True, True, False],
        lambda xp, x, m: x.__iadd__([1, 2, 3]),
        lambda xp, x, m: xp.stack([x, [1.0, 2.0, 3.0]]),
        lambda xp, x, m: xp.stack([x[0], 1.0, 2]),
        lambda xp, x, m: xp.stack([1, x[0]]),
        lambda xp, x, m: xp.hstack([1.0, x, [2, 3]]),
        lambda xp, x, m: xp.concat([x, [1.0, 2.0]]),
        lambda xp, x, m: xp.concat([[1, 2], [3]]),
        lambda xp, x, m: xp.full((2, 3), x),
        lambda xp, x, m: xp.full(3, x[0]),
        lambda xp, x, m: xp.full((2, 2), [1, 2]),
        lambda xp, x, m: xp.full_like(x, [1, 2, 3]),
        lambda xp, x, m: xp.asarray(int(xp.prod([2, 3]))),
        lambda xp, x, m: xp.quantile([1.0, 2.0, 4.0], [0.1, 0.5]),
    ],
)  # fmt: skip
def test_results_are_numpys(call: Any) -> None:
    got, expected = _both(call)
    assert got.shape == np.shape(expected)
    assert got.dtype.kind == np.asarray(expected).dtype.kind
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def test_dtypes() -> None:
    x, i = tk.ones(2, dtype=tk.float32), tk.ones(2, dtype=tk.int8)
    assert (x + [1.0, 2.0]).dtype == tk.float32
    assert (tk.ones(2, dtype=tk.float64) + [1.0, 2.0]).dtype == tk.float64
    assert (i + [1, 2]).dtype == tk.int64
    assert (i + [0.5, 2]).dtype == tk.float32
    assert (x + [1j, 2]).dtype == tk.complex64
    assert tk.add([1, 2], 0.5).dtype == tk.float32
    assert tk.sin(np.float64(1)).dtype == tk.float64
    assert tk.add(np.float64(1), 2).dtype == tk.float64
    assert tk.stack([x[0], 1.0, 2]).dtype == tk.float32
    assert tk.stack([i[0], 1]).dtype == tk.int8
    assert tk.full((2,), i[0]).dtype == tk.int8
    assert tk.full((2,), i[0], dtype=tk.float64).dtype == tk.float64
    with tk.core.dtypes.names.default_dtypes(real_floating="float64"):
        assert tk.sqrt(2).dtype == tk.sqrt([2, 3]).dtype == tk.float64
    with pytest.raises(OverflowError, match="does not fit into int8"):
        tk.stack([i[0], 300])
    with pytest.raises(OverflowError, match="fits into no integer dtype"):
        tk.sqrt(2**70)


def test_devices() -> None:
    x = tk.ones(2, device="meta")
    for found in (x + [1, 2], tk.stack([x, [1.0, 2.0]]), tk.stack([x[0], 1.0]), tk.full((3,), x[0]), x + [x[0], 1.0]):
        assert found.device == "meta"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tk.tensor([x[0], x[1] * 3]),
        lambda x: tk.tensor([[x[0], 1.0], [2, x[2]]]),
        lambda x: tk.tensor([x, [1, x[0], 2]]),
        lambda x: tk.tensor(x),
        lambda x: tk.tensor(x, dtype=tk.float32).astype(tk.float64),
        lambda x: tk.asarray((x[0], 1.0)),
        lambda x: x * [x[0], 1.0, x[1]],
        lambda x: [x[0], 1.0, x[1]] - x,
        lambda x: tk.sin([x[0], x[1]]),
        lambda x: tk.stack([x[0], 1.0, 2]),
        lambda x: tk.concat([x, [1.0, 2.0], [x[0]]]),
        lambda x: tk.full((2, 3), x),
        lambda x: tk.full(4, x[1]),
        lambda x: tk.full_like([1.0, 2.0], x[1], dtype=tk.float64),
        lambda x: tk.where([True, False, True], x, 0.0),
    ],
)  # fmt: skip
def test_gradients_reach_the_items_of_sequences(call: Any) -> None:
    x = tk.tensor(A, requires_grad=True)
    y = call(x)
    assert y.requires_grad
    weights = tk.asarray(np.random.default_rng(0).standard_normal(y.shape))
    (y * weights).sum().backward()
    assert x.grad is not None
    step, numeric = 1e-3, []
    for k in range(3):
        ends = []
        for sign in (1, -1):
            moved = A.copy()
            moved[k] += sign * step
            ends.append(float((call(tk.asarray(moved)) * weights).sum()))
        numeric.append((ends[0] - ends[1]) / (2 * step))
    np.testing.assert_allclose(x.grad.numpy(), numeric, atol=2e-4)


def test_leaves_on_request() -> None:
    x = tk.tensor(A, requires_grad=True)
    for leaf in (
        tk.tensor(x * 2, requires_grad=True), tk.tensor([x[0]], requires_grad=True),
        tk.full((2,), x[0], requires_grad=True), tk.full_like(x, x[0], requires_grad=True),
    ):  # fmt: skip
        assert leaf.is_leaf
        assert leaf.requires_grad
    with tk.no_grad():
        assert not tk.tensor([x[0]]).requires_grad


def test_inside_transforms() -> None:
    x = tk.asarray(A)
    assert tk.transforms.vmap(lambda v: v + [1.0, v])(x).tolist() == [[a + 1, 2 * a] for a in A]
    assert tk.transforms.vmap(lambda v: tk.full((2,), v))(x).tolist() == [[a, a] for a in A]
    assert tk.grad(lambda v: tk.stack([v, 1.0, v * v]).sum())(tk.asarray(3.0)).item() == 7.0


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: tk.sqrt([1.0, [2.0]]), ValueError, r"\[tk::sqrt\] the nested sequence has rows of different"),
        (lambda x: x + [1, [2]], ValueError, r"\[tk::add\] .* has rows of different lengths"),
        (lambda x: x == [1, [2]], ValueError, r"\[tk::equal\] .* has rows of different lengths"),
        (lambda x: tk.sqrt(["a"]), TypeError, r"\[tk::sqrt\] the argument 'x' must be a Tensor, got \['a'\]"),
        (lambda x: tk.sqrt("a"), TypeError, "must be a Tensor, got 'a' of type str"),
        (lambda x: tk.sqrt(None), TypeError, "must be a Tensor, got None"),
        (lambda x: tk.sqrt({}), TypeError, "must be a Tensor, got {} of type dict"),
        (lambda x: tk.sqrt({1}), TypeError, "must be a Tensor, got .1. of type set"),
        (lambda x: tk.sqrt([None]), TypeError, r"must be a Tensor, got \[None\]"),
        (lambda x: tk.concat([x, "a"]), TypeError, "must be a list of Tensors, got 'a'"),
        (lambda x: tk.concat(1.0), TypeError, "must be a list of Tensors, got 1.0"),
        (lambda x: x + "a", TypeError, "unsupported operand"),
        (lambda x: x + None, TypeError, "unsupported operand"),
        (lambda x: x + ["a"], TypeError, "unsupported operand"),
        (lambda x: x + [1, 2], ValueError, "cannot be broadcast"),
        (lambda x: x @ 2.0, TypeError, "unsupported operand"),
        (lambda x: tk.ops.tk.add_([1.0], x), TypeError, r"\[tk::add_\] the argument 'x1' must be a Tensor, got \["),
        (lambda x: tk.ops.tk.add_(1.0, x), TypeError, r"\[tk::add_\] the argument 'x1' must be a Tensor, got 1.0"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(tk.asarray(A))


def test_comparison_with_other_objects() -> None:
    x = tk.asarray(A)
    assert (x == "text") is False
    assert (x == None) is False  # noqa: E711
    assert (x == {}) is False
    assert (x != "text") is True


def test_a_sequence_that_contains_itself() -> None:
    endless: list[Any] = [1.0]
    endless.append(endless)
    with pytest.raises(ValueError, match=r"deeper than 64 levels|contains itself"):
        tk.sqrt(endless)
    with pytest.raises(ValueError, match=r"deeper than 64 levels|contains itself"):
        tk.asarray(A) + endless
