"""vmap: inputs and outputs, levels, randomness. Every operator in vmap: ``tests/operators/test_vmap.py``."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.core.tree import flatten
from tenkey.dispatch import registry
from tenkey.dispatch.tags import Tag
from tenkey.transforms import vmap
from tests._batches import rows

SIZE = 3


def test_no_builtin_operator_takes_the_loop() -> None:
    from tenkey.transforms.batching.level import BatchLevel

    level = BatchLevel(1)
    looped = [
        op
        for op in registry.operators.values()
        if op.schema.namespace == "tk" and level.rule(op) is BatchLevel.loop and "Batching" not in op.facets
    ]
    looped = [op for op in looped if "Factory" not in op.facets]  # no tensors
    refused = {Tag.DATA_DEPENDENT_OUTPUT, Tag.NONDETERMINISTIC}
    assert [op.name for op in looped if refused.isdisjoint(op.tags)] == []


# ---- inputs and outputs


class Pair(NamedTuple):
    first: Any
    second: Any


def test_a_tree_keeps_no_type_alive() -> None:
    class Local:
        pass

    class Record(NamedTuple):
        x: Any

    leaf = Local()
    tree = Record(leaf)
    assert flatten(tree) == flatten(tree) == [leaf]
    kinds = [weakref.ref(Local), weakref.ref(Record)]
    del leaf, tree, Local, Record
    gc.collect()
    assert [kind() for kind in kinds] == [None, None]


def test_trees_of_inputs_and_results() -> None:
    x, y = rows(), rows() * 2

    def function(pair: Pair, options: dict[str, Any], scale: float) -> dict[str, Any]:
        return {"sum": pair.first + options["y"], "parts": (pair.second * scale, [pair.first])}

    dims = (Pair(0, None), {"y": 1}, None)
    result = vmap(function, in_dims=dims, out_dims={"sum": 1, "parts": (0, [-1])})(Pair(x, y), {"y": y.T}, 10.0)
    np.testing.assert_array_equal(result["sum"].numpy(), (x + y).numpy().T)
    np.testing.assert_array_equal(result["parts"][0].numpy(), np.broadcast_to(y.numpy() * 10, (3, 3, 4)))
    np.testing.assert_array_equal(result["parts"][1][0].numpy(), x.numpy().T)


@pytest.mark.parametrize("in_dim", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out_dim", [0, 1, 2, -1, -2])
def test_dimensions(in_dim: int, out_dim: int) -> None:
    x = tk.reshape(tk.arange(24.0), (2, 3, 4))
    result = vmap(lambda sample: sample * 2, in_dims=in_dim, out_dims=out_dim)(x)
    expected = np.moveaxis(x.numpy() * 2, in_dim, out_dim)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_a_result_that_is_not_batched_is_repeated() -> None:
    x = rows()
    assert vmap(lambda row: tk.ones(2))(x).shape == (3, 2)
    assert vmap(lambda row: (row, tk.ones(2)), out_dims=(0, None))(x)[1].shape == (2,)
    assert vmap(lambda row: (row, 3.5), out_dims=(0, None))(x)[1] == 3.5


def test_keyword_arguments_are_shared() -> None:
    x = rows()
    result = vmap(lambda row, *, other: row @ other)(x, other=tk.ones(4, dtype=tk.float64))
    np.testing.assert_array_equal(result.numpy(), x.numpy().sum(1))


def _nothing(*args: Any) -> Any:
    return args[0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: vmap(3)(x), TypeError, "function"),  # type: ignore[arg-type]
        (lambda x: vmap(_nothing)(), ValueError, "got no inputs"),
        (lambda x: vmap(_nothing, in_dims="0")(x), ValueError, "expected `in_dims` to be int or a"),
        (lambda x: vmap(_nothing, in_dims=(0, 0))(x), ValueError, "not compatible with the structure"),
        (lambda x: vmap(_nothing, in_dims=({"a": 0},))(x), ValueError, "not compatible with the structure"),
        (lambda x: vmap(_nothing, in_dims=(0.5,))(x), ValueError, "either an integer dimension or None"),
        (lambda x: vmap(_nothing, in_dims=(True,))(x), ValueError, "either an integer dimension or None"),
        (lambda x: vmap(_nothing)(x, 2.0), ValueError, "cannot vmap over non-Tensor"),
        (lambda x: vmap(_nothing, in_dims=2)(x), ValueError, r"-2 <= in_dim < 2"),
        (lambda x: vmap(_nothing, in_dims=-3)(x), ValueError, r"-2 <= in_dim < 2"),
        (lambda x: vmap(_nothing)(x, tk.tensor(1.0)), ValueError, "dimensionality 0"),
        (lambda x: vmap(_nothing, in_dims=(None,))(x), ValueError, "nothing to map over"),
        (lambda x: vmap(_nothing)(x, x.T), ValueError, r"same size in the mapped dimension, got sizes \[3, 4\]"),
        (lambda x: vmap(lambda r: 1.0)(x), ValueError, "must only return Tensors, got type float"),
        (lambda x: vmap(_nothing, out_dims=None)(x), ValueError, "batched tensor when out_dim is None"),
        (lambda x: vmap(_nothing, out_dims=2)(x), ValueError, "out_dim=2"),
        (lambda x: vmap(_nothing, out_dims=(0, 0))(x), ValueError, "out_dims is not compatible"),
        (lambda x: vmap(_nothing, out_dims=0.5)(x), ValueError, "`out_dims` must be an int"),
        (lambda x: vmap(_nothing, randomness="some")(x), ValueError, "Only allowed values for randomness"),
    ],
)
def test_wrong_calls(call: Callable[[Tensor], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(rows())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x[0].item(),
        lambda x: float(x[0]),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x[x > 3],
        lambda x: range(x[0].astype(tk.int64)),
    ],
)
def test_what_needs_the_value_of_a_sample_is_refused(function: Callable[[Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(function)(rows())


def test_a_branch_by_the_data_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"data-dependent control flow.*tk\.where\(condition, x, y\)"):
        vmap(lambda row: row if row.sum() > 0 else -row)(rows())
    with pytest.raises(RuntimeError, match=r"\.item\(\).*data-dependent control flow"):
        vmap(lambda row: row * row.max().item())(rows())
    with pytest.raises(NotImplementedError, match=r"tk\.autograd\.grad or tk\.transforms\.grad"):
        vmap(lambda row: (row * 2).sum().backward())(rows().requires_grad_())


def test_errors_speak_of_the_sample() -> None:
    with pytest.raises(ValueError, match=r"\(4,\).*\(5,\)"):
        vmap(lambda row: row + tk.ones(5))(rows())
    with pytest.raises(IndexError, match="axis 1 is out of range for a tensor of 1 dim"):
        vmap(lambda row: tk.sum(row, axis=1))(rows())
    with pytest.raises(ValueError, match=r"\(4,\) @ \(3,\)"):
        vmap(lambda row: row @ tk.ones(3, dtype=tk.float64))(rows())


def test_a_tensor_that_escapes_is_refused_afterwards() -> None:
    kept = []
    vmap(lambda row: kept.append(row) or row)(rows())  # type: ignore[func-returns-value]
    assert kept[0].shape == (4,)
    with pytest.raises(RuntimeError, match="escaped from a vmap"):
        kept[0] + 1


def test_shape_dtype_and_repr_of_a_batched_tensor() -> None:
    seen = []

    def look(row: Tensor) -> Tensor:
        seen.append((row.shape, row.ndim, row.size, len(row), row.dtype, str(row.device), row.requires_grad))
        assert "batched" in repr(row)
        return row

    vmap(look)(rows().astype(tk.float32))
    assert seen == [((4,), 1, 4, 4, tk.float32, "cpu", False)]


def test_python_scalars_stay_weak() -> None:
    x = tk.asarray(np.arange(3, dtype=np.int8))
    assert vmap(lambda v: v + 1)(x).dtype == tk.int8
    assert vmap(lambda v: v * 1.5)(x).dtype == tk.float32
    assert vmap(lambda v: v + tk.ones((), dtype=tk.float64))(x).dtype == tk.float64


def test_an_empty_batch() -> None:
    assert vmap(lambda row: tk.exp(row).sum())(tk.zeros((0, 4))).shape == (0,)


def test_iteration_and_indexing() -> None:
    x = rows()
    result = vmap(lambda row: sum(row) + row[-1] + row[1:3].sum() + row[tk.asarray([0, 2])].sum())(x)
    values = x.numpy()
    np.testing.assert_array_equal(
        result.numpy(), values.sum(1) + values[:, -1] + values[:, 1:3].sum(1) + values[:, [0, 2]].sum(1)
    )


def test_a_batched_index() -> None:
    x, at = rows(), tk.asarray([3, 0, -1])
    np.testing.assert_array_equal(vmap(lambda row, i: row[i])(x, at).numpy(), x.numpy()[[0, 1, 2], [3, 0, -1]])
    np.testing.assert_array_equal(vmap(lambda i: x[:, i])(at).numpy(), x.numpy()[:, [3, 0, -1]].T)


# ---- in place


def test_in_place() -> None:
    x = rows()

    def change(row: Tensor) -> Tensor:
        made = tk.zeros_like(row)
        made[1:] = row[:-1]
        made += row
        made[tk.asarray([0])] = 7.0
        return made

    expected = x.numpy().copy()
    expected[:, 1:] += x.numpy()[:, :-1]
    expected[:, 0] = 7
    np.testing.assert_array_equal(vmap(change)(x).numpy(), expected)


def test_in_place_on_an_input_changes_it() -> None:
    x = tk.zeros((3, 4))
    vmap(lambda column, y: column.add_(y), in_dims=(1, 0))(x, tk.asarray([1.0, 2.0, 3.0, 4.0]))
    assert x.tolist() == [[1.0, 2.0, 3.0, 4.0]] * 3


def test_in_place_on_a_shared_tensor_is_refused() -> None:
    total = tk.zeros(4, dtype=tk.float64)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda row: total.add_(row))(rows())
    with pytest.raises(ValueError, match="shape"):
        vmap(lambda v, row: v.add_(row))(tk.zeros((3, 1), dtype=tk.float64), rows())
    assert total.tolist() == [0.0] * 4


def test_out_variants() -> None:
    x, target = rows(), tk.zeros((4, 3), dtype=tk.float64)
    vmap(lambda row, out: tk.ops.tk.add.out(row, 1.0, out=out), in_dims=(0, 1))(x, target)
    np.testing.assert_array_equal(target.numpy(), x.numpy().T + 1)
    assert target._version == 1
    with pytest.raises(RuntimeError, match="inplace"):
        vmap(lambda row: tk.ops.tk.add.out(row, 1.0, out=tk.zeros(4)))(x)
    with pytest.raises(ValueError, match="shape"):
        vmap(lambda row: tk.ops.tk.add.out(row, 1.0, out=row[:2]))(x)


# ---- nesting


def test_levels_nest_in_any_order() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 4)), rng.standard_normal((5, 4))
    outer = vmap(vmap(lambda x, y: tk.sum(x * tk.exp(y)), in_dims=(None, 0)), in_dims=(0, None))
    np.testing.assert_allclose(outer(tk.asarray(a), tk.asarray(b)).numpy(), a @ np.exp(b).T)
    three = rng.standard_normal((2, 3, 4))
    summed = vmap(vmap(vmap(lambda x: x * 2, out_dims=0), in_dims=1, out_dims=1), in_dims=1, out_dims=-1)
    np.testing.assert_allclose(summed(tk.asarray(three)).numpy(), np.moveaxis(three * 2, 1, -1))


def test_an_outer_batch_is_seen_inside() -> None:
    x, y = rows(), tk.asarray(np.arange(2.0))
    result = vmap(lambda row: vmap(lambda scale: row * scale)(y))(x)
    np.testing.assert_array_equal(result.numpy(), x.numpy()[:, None] * y.numpy()[:, None])


def test_threads_do_not_see_one_another() -> None:
    results: dict[int, Tensor] = {}
    barrier = threading.Barrier(4)

    def work(n: int) -> None:
        x = tk.asarray(np.full((n + 2, 3), float(n)))
        barrier.wait()
        for _ in range(20):
            results[n] = vmap(
                lambda row: vmap(lambda v: v + tk.random.uniform(()) * 0, randomness="same")(row),
                randomness="different",
            )(x)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (r.shape, r.numpy().max()) for n, r in results.items()} == {n: ((n + 2, 3), n) for n in range(4)}


# ---- random numbers


class TestRandomness:
    @pytest.mark.parametrize(
        "draw",
        [
            lambda: tk.random.uniform((2,)),
            lambda: tk.random.normal((2,), mean=1.0),
            lambda: tk.random.integers(0, 1000, (2,)),
            lambda: tk.random.permutation(50)[:2],
        ],
    )
    def test_policies(self, draw: Callable[[], Tensor]) -> None:
        x = tk.zeros((4, 2))
        with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
            vmap(lambda row: row + draw())(x)
        tk.random.seed(1)
        same = vmap(lambda row: row + draw(), randomness="same")(x).numpy()
        assert (same == same[0]).all()
        tk.random.seed(1)
        np.testing.assert_array_equal(same[0], (tk.zeros(2) + draw()).numpy())
        tk.random.seed(1)
        different = vmap(lambda row: row + draw(), randomness="different")(x).numpy()
        assert len(np.unique(different, axis=0)) == 4
        tk.random.seed(1)
        again = vmap(lambda row: row + draw(), randomness="different")(x).numpy()
        np.testing.assert_array_equal(different, again)

    def test_two_draws_differ(self) -> None:
        x = tk.zeros(3)
        first, second = vmap(lambda v: (v + tk.random.uniform(()), v + tk.random.uniform(())), randomness="different")(
            x
        )
        assert len({*first.tolist(), *second.tolist()}) == 6

    def test_nested(self) -> None:
        x = tk.zeros((3, 4))
        tk.random.seed(0)
        inner_same = vmap(vmap(lambda v: v + tk.random.uniform(()), randomness="same"), randomness="different")(
            x
        ).numpy()
        assert (inner_same == inner_same[:, :1]).all()
        assert len(np.unique(inner_same)) == 3
        all_different = vmap(vmap(lambda v: v + tk.random.uniform(()), randomness="different"), randomness="different")(
            x
        ).numpy()
        assert len(np.unique(all_different)) == 12

    def test_outside_afterwards_as_before(self) -> None:
        with pytest.raises(RuntimeError):
            vmap(lambda v: v + tk.random.uniform(()))(tk.zeros(3))
        assert tk.random.uniform((2,)).shape == (2,)


class TestRandomChunks:
    """``chunk_size`` changes no random number, and not the state in which the generators are left."""

    DRAWS: tuple[Callable[[Tensor], Any], ...] = (
        lambda v: tk.random.uniform((3,)) + v,
        lambda v: tk.random.uniform((), dtype="float64") + v,
        lambda v: tk.random.normal((2, 3), mean=1.0) + v,
        lambda v: tk.random.normal((3,), dtype="complex64") + v,
        lambda v: tk.random.integers(0, 1000, (3,)) + v,
        lambda v: tk.random.integers(0, 2**40, (3,)) + v,
        lambda v: tk.random.permutation(50)[:3] + v,
        lambda v: tk.random.exponential((3,), scale=v + 1.0),
        lambda v: tk.random.gamma((3,), a=v + 1.0),
        lambda v: tk.random.poisson((3,), lam=v * 1000 + 1.0),
        lambda v: tk.random.binomial((3,), n=10**6, p=0.3) + v,
        lambda v: tk.random.choice(1000, (3,)) + v,
        lambda v: tk.random.bernoulli((20,), p=0.5) + v,
        lambda v: tk.random.uniform(()) * v + tk.random.gamma((2,), a=v + 0.5) + tk.random.normal(()),
    )

    @staticmethod
    def _drawn(function: Callable[..., Any], x: Tensor, chunk_size: int | None, randomness: str) -> tuple[Any, Any]:
        tk.random.seed(5)
        tk.random.uniform((7,))  # an address that is not the first
        found = vmap(function, randomness=randomness, chunk_size=chunk_size)(x).numpy()
        return found, tk.random.default_generator().state

    @pytest.mark.parametrize("randomness", ["different", "same"])
    @pytest.mark.parametrize("draw", DRAWS)
    def test_the_numbers_of_the_whole_batch(self, draw: Callable[[Tensor], Any], randomness: str) -> None:
        x = tk.arange(7.0)
        whole, state = self._drawn(draw, x, None, randomness)
        for chunk_size in (1, 2, 3, 6, 7, 9):
            found, left = self._drawn(draw, x, chunk_size, randomness)
            np.testing.assert_array_equal(found, whole)
            assert left == state

    @pytest.mark.parametrize("inner", ["different", "same"])
    @pytest.mark.parametrize("outer", ["different", "same"])
    @pytest.mark.parametrize("draw", [DRAWS[0], DRAWS[6], DRAWS[8], DRAWS[13]])
    def test_nested(self, draw: Callable[[Tensor], Any], outer: str, inner: str) -> None:
        x = tk.arange(20.0).reshape((4, 5))
        whole, state = self._drawn(vmap(draw, randomness=inner), x, None, outer)
        for outer_size, inner_size in ((None, 2), (3, None), (3, 2), (1, 4), (2, 1)):
            function = vmap(draw, randomness=inner, chunk_size=inner_size)
            found, left = self._drawn(function, x, outer_size, outer)
            np.testing.assert_array_equal(found, whole)
            assert left == state

    def test_three_levels(self) -> None:
        x = tk.arange(24.0).reshape((2, 3, 4))

        def nested(*sizes: int | None) -> Any:
            def draw(v: Tensor) -> Tensor:
                return tk.random.normal((2,)) + v

            function: Callable[..., Any] = draw
            for size in reversed(sizes):
                function = vmap(function, randomness="different", chunk_size=size)
            tk.random.seed(5)
            return function(x).numpy()

        whole = nested(None, None, None)
        assert len(np.unique(whole - x.numpy()[..., None])) >= 47
        for sizes in ((1, 2, 3), (None, 2, None), (None, None, 3), (1, None, 1)):
            np.testing.assert_array_equal(nested(*sizes), whole)

    def test_an_operator_without_a_rule(self) -> None:
        @tk.library.custom_op("vmap_chunks::noisy", mutates_args=())
        def noisy(v: tk.Tensor) -> tk.Tensor:
            return v + tk.random.uniform((3,))

        def function(v: Tensor) -> Any:
            return noisy(v) + tk.random.normal(()) + noisy(v)

        x = tk.zeros((7, 1))
        whole, state = self._drawn(function, x, None, "different")
        assert len(np.unique(whole)) == 21
        for chunk_size in (1, 2, 3, 6):
            found, left = self._drawn(function, x, chunk_size, "different")
            np.testing.assert_array_equal(found, whole)
            assert left == state

    def test_a_generator_of_the_caller(self) -> None:
        x = tk.zeros((5,))
        found = []
        for chunk_size in (None, 2):
            generator = tk.random.Generator(3)
            draws = vmap(
                lambda v, g=generator: v + tk.random.normal((2,), generator=g),
                randomness="different", chunk_size=chunk_size,
            )(x)  # fmt: skip
            found.append((draws.tolist(), generator.state))
        assert found[0] == found[1]


# ---- with autograd


def test_flatten_keeps_what_is_no_container() -> None:
    assert flatten((1, [None, {"a": Pair(2, "x")}])) == [1, None, 2, "x"]
