"""vmap of operators of users: the loop over samples, and rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tenkey.ops.declare.facets import Batch
from tenkey.transforms import LOOPS, vmap
from tests._batches import rows

# ---- operators of users


@pytest.fixture
def custom() -> Iterator[Any]:
    made: list[str] = []

    def make(name: str, function: Callable[..., Any], **options: Any) -> Any:
        options.setdefault("mutates_args", ())
        made.append(f"vmaptest::{name}")
        return tk.library.custom_op(f"vmaptest::{name}", function, **options)

    yield make
    for name in made:
        registry.undefine(registry.find(name), keep_kernels=False)


def _double(x: Tensor, factor: float) -> Tensor:
    return tk.asarray(x.numpy() * factor)


def test_an_operator_without_a_rule_runs_sample_by_sample(custom: Any) -> None:
    operator = custom("double", _double)
    before = LOOPS["vmaptest::double"]
    x = rows()
    result = vmap(lambda row: operator(row, 3.0), in_dims=1, out_dims=1)(x)
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 3)
    assert LOOPS["vmaptest::double"] == before + 1


def _split(x: Tensor, others: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    return x + others[0], [x * 1, others[1] * 2]


def test_lists_and_several_results_in_the_loop(custom: Any) -> None:
    operator = custom("split", _split, schema="(Tensor x, Tensor[] others) -> (Tensor, Tensor[])")
    x, y = rows(), rows() + 1
    first, (second, third) = vmap(lambda a, b: operator(a, [b, tk.ones(2)]), in_dims=(0, 0))(x, y)
    np.testing.assert_array_equal(first.numpy(), (x + y).numpy())
    np.testing.assert_array_equal(second.numpy(), x.numpy())
    np.testing.assert_array_equal(third.numpy(), np.full((3, 2), 2.0))


def _fill(x: Tensor, value: Tensor) -> None:
    x.copy_(value)


def test_a_mutating_operator_in_the_loop(custom: Any) -> None:
    operator = custom("fill", _fill, mutates_args=("x",))
    x = tk.zeros((2, 3))
    vmap(lambda column, v: operator(column, v) or column, in_dims=(1, 0))(x, tk.asarray([1.0, 2.0, 3.0]))
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2
    with pytest.raises(RuntimeError, match="inplace"):
        vmap(lambda v: operator(tk.zeros(2), v) or v)(tk.asarray([1.0]))


def test_the_loop_is_differentiable(custom: Any) -> None:
    operator = custom("double", _double)
    operator.register_autograd(lambda ctx, g: (g * 3, None))
    x = tk.tensor(np.ones((3, 4)), requires_grad=True)
    vmap(lambda row: operator(row, 3.0) * row)(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.full((3, 4), 6.0))


def test_a_rule_of_the_user(custom: Any) -> None:
    operator = custom("double", _double)
    seen: list[Any] = []

    def rule(info: Any, in_dims: Any, x: Tensor, factor: float) -> tuple[Tensor, int]:
        seen.append((info.batch_size, info.randomness, in_dims, x.shape, factor))
        return operator(x, factor), in_dims[0]

    operator.operator.facets["Batch"] = Batch(rule)
    x = rows()
    result = vmap(lambda row: operator(row, 3.0), in_dims=1, out_dims=1, randomness="same")(x)
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 3)
    assert seen == [(4, "same", (1, None), (3, 4), 3.0)]
    nested = vmap(vmap(lambda v: operator(v, 2.0)))(x)
    np.testing.assert_array_equal(nested.numpy(), x.numpy() * 2)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: x, "must return \\(out, out_dims\\)"),
        (lambda x: (x, 5), "out_dims 5"),
        (lambda x: (x, 1), "length 3 of the batch"),
        (lambda x: (x, "0"), "out_dims"),
        (lambda x: (x, (0, 0)), "not compatible"),
    ],
)
def test_wrong_rules(custom: Any, returned: Callable[[Tensor], Any], words: str) -> None:
    operator = custom("double", _double)
    operator.operator.facets["Batch"] = Batch(lambda info, in_dims, x, factor: returned(x))
    with pytest.raises((RuntimeError, ValueError), match=words):
        vmap(lambda row: operator(row, 3.0))(rows())


def test_a_rule_whose_result_is_not_batched(custom: Any) -> None:
    operator = custom("double", _double)
    operator.operator.facets["Batch"] = Batch(lambda info, in_dims, x, factor: (tk.ones(2), None))
    assert vmap(lambda row: operator(row, 3.0))(rows()).shape == (3, 2)


def test_an_empty_batch_needs_a_rule(custom: Any) -> None:
    operator = custom("double", _double)
    with pytest.raises(RuntimeError, match="register_vmap"):
        vmap(lambda row: operator(row, 3.0))(tk.zeros((0, 2)))


def test_operators_of_one_expression() -> None:
    swish = tk.library.pointwise(
        "vmaptest::swish(Tensor x, float beta) -> Tensor",
        scalar=lambda T: lambda x, beta: x / (T(1) + tk.library.scalar.exp(-x * beta)),
    )
    try:
        x = rows()
        result = vmap(lambda row: swish(row, 2.0))(x)
        np.testing.assert_allclose(result.numpy(), x.numpy() / (1 + np.exp(-x.numpy() * 2)))
        assert "vmaptest::swish" not in LOOPS
    finally:
        registry.undefine(swish.operator)
