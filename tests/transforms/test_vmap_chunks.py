"""``chunk_size``: the samples in parts, with the results of all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.transforms import grad, jacfwd, jacrev, vmap
from tests._batches import rows


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 4, 100, None])
def test_chunks_give_what_all_at_once_gives(chunk_size: int | None) -> None:
    sizes: list[int] = []

    def function(pair: dict[str, Tensor], w: Tensor, *, scale: float) -> dict[str, Any]:
        sizes.append(pair["a"].ndim)
        return {"sum": (pair["a"] * scale).sum(), "rest": (pair["b"], w, 3)}

    batch = {"a": rows(), "b": tk.asarray(np.arange(6.0).reshape(2, 3))}
    dims = ({"a": 0, "b": 1}, None)
    out_dims = {"sum": 0, "rest": (-1, None, None)}
    got = vmap(function, dims, out_dims, chunk_size=chunk_size)(batch, tk.ones(2), scale=2.0)
    np.testing.assert_array_equal(got["sum"].numpy(), 2 * rows().numpy().sum(axis=1))
    np.testing.assert_array_equal(got["rest"][0].numpy(), batch["b"].numpy())
    assert got["rest"][1].tolist() == [1.0, 1.0]
    assert got["rest"][2] == 3
    assert len(sizes) == (1 if chunk_size is None else -(-3 // min(chunk_size, 3)))


def test_chunks_inside_and_outside_of_derivatives() -> None:
    def total(x: Tensor) -> Tensor:
        return tk.sum(vmap(lambda row: tk.sin(row) * row.sum(), chunk_size=2)(x))

    x = rows() / 10
    values = x.numpy()
    expected = np.cos(values) * values.sum(1, keepdims=True) + np.sin(values).sum(1, keepdims=True)
    np.testing.assert_allclose(grad(total)(x).numpy(), expected)
    per_sample = vmap(grad(lambda row: tk.sum(row**3)), chunk_size=2)(x)
    np.testing.assert_allclose(per_sample.numpy(), 3 * values**2)
    nested = vmap(vmap(tk.sin, chunk_size=3), chunk_size=2)(x)
    np.testing.assert_allclose(nested.numpy(), np.sin(values))


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_in_chunks(transform: Any) -> None:
    x = tk.asarray(np.array([0.5, 1.0, 2.0, -1.0]))
    for chunk_size in (1, 3):
        got = transform(lambda y: tk.sin(y)[::2] * y.sum(), chunk_size=chunk_size)(x)
        np.testing.assert_allclose(got.numpy(), transform(lambda y: tk.sin(y)[::2] * y.sum())(x).numpy(), rtol=1e-14)


def test_the_same_random_numbers_in_every_chunk() -> None:
    tk.random.seed(0)
    same = vmap(lambda x: x * 0 + tk.random.uniform((2,)), randomness="same", chunk_size=2)(tk.zeros((5, 2))).numpy()
    assert len(np.unique(same, axis=0)) == 1
    different = vmap(lambda x: x * 0 + tk.random.uniform((2,)), randomness="different", chunk_size=2)(tk.zeros((5, 2)))
    assert len(np.unique(different.numpy(), axis=0)) == 5


def test_the_same_numbers_of_a_generator_in_every_chunk() -> None:
    own, late = tk.random.Generator(3), tk.random.Generator(4)
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(1)
        drawn = tk.random.uniform((), generator=own) + tk.random.uniform(())
        return x + drawn + (tk.random.uniform((), generator=late) * 1e-30 if len(calls) > 1 else 0)

    tk.random.uniform((3,), generator=own)
    same = vmap(function, randomness="same", chunk_size=2)(tk.zeros(5)).numpy()
    assert len(np.unique(same)) == 1
    assert (own.state.offset, late.state.offset) == (4, 1)

    inner = vmap(lambda v: v + tk.random.uniform((), generator=own), randomness="same", chunk_size=2)
    nested = vmap(inner, randomness="same", chunk_size=1)(tk.zeros((3, 3))).numpy()
    assert len(np.unique(nested)) == 1
    rows_differ = vmap(inner, randomness="different", chunk_size=1)(tk.zeros((3, 3))).numpy()
    assert [len(np.unique(row)) for row in rows_differ] == [1, 1, 1]
    assert len(np.unique(rows_differ)) == 3


@pytest.mark.parametrize("chunk_size", [0, -1, 1.5, True, "2"])
def test_wrong_sizes(chunk_size: Any) -> None:
    with pytest.raises(ValueError, match="chunk_size should be None or greater than 0"):
        vmap(tk.sin, chunk_size=chunk_size)
