"""Every operator with samples in nested transforms: two batches at once, tangents in batches, real and complex.

One batch, along every dimension and of every choice of arguments, is ``test_vmap.py``; tangents against differences
and against reverse mode are ``test_forward_mode.py``. Exceptions are listed here, with reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.formulas.jvp_rules import parts_of, plan_of
from tenkey.core.tensor import Tensor
from tenkey.core.tree import flatten
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tenkey.testing import SampleInput
from tenkey.transforms import LOOPS, jvp, vmap
from tests._tiers import each
from tests.operators._table import SAMPLED, calls, named, probed, sampled

_FACTORS: Final = np.array([[1.0, 0.9], [0.95, 0.85]])
_SAMPLES: Final = 3  # of each operator and dtype: the first ones

_NO_BATCH: Final = {
    "to_device",  # its sample goes where there are no values
    "empty_like",  # has no values
    "invert_order",  # takes permutations
    "repeat",  # its result's shape depends on values
    "unique_all", "unique_counts", "unique_inverse",  # as does theirs
}  # fmt: skip
_NO_TANGENT: Final = {
    "to_device", "empty_like",
    "unique_all", "unique_counts", "unique_inverse",  # the shape of their results depends on values
}  # fmt: skip


def _first(operator: Operator, dtype: str) -> Iterator[SampleInput]:
    return itertools.islice(sampled(operator, dtype), _SAMPLES)


def _batches(tensor: Tensor) -> Tensor:
    """Two batches of two samples: floats are scaled, which keeps signs, domains and definiteness; others repeated."""
    values = tensor.detach().numpy()
    factors = _FACTORS if values.dtype.kind in "fc" else np.ones((2, 2))
    return tk.asarray((factors.reshape(2, 2, *[1] * values.ndim) * values).astype(values.dtype))


def _as_call(operator: Operator, sample: SampleInput) -> Callable[..., Any]:
    def call(*given: Tensor) -> Any:
        remaining = iter(given)
        return calls(operator, sample.map(lambda t: next(remaining)))

    return call


@each("dtype", ["float64", "complex128"])
@named([op for op in SAMPLED if op.schema.base_name not in _NO_BATCH and not op.schema.is_mutable])
def test_a_batch_of_batches(operator: Operator, dtype: str) -> None:
    if Tag.DATA_DEPENDENT_OUTPUT in operator.tags or Tag.NONDETERMINISTIC in operator.tags:
        return
    for sample in _first(operator, dtype):
        given = [_batches(t) for t in sample.tensors()]
        if not given:
            continue
        call = _as_call(operator, sample)
        LOOPS.clear()
        got = flatten(vmap(vmap(call))(*given))
        looped = dict(LOOPS)
        assert all(_may_loop(tk.dispatch.registry.find(name)) for name in looped), (operator, looped)
        want = [flatten(call(*[x[i, j] for x in given])) for i in range(2) for j in range(2)]
        for k, result in enumerate(got):
            expected = np.stack([each[k].numpy() for each in want])
            expected = expected.reshape((2, 2, *expected.shape[1:]))
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10, atol=1e-10, err_msg=str(sample))


def _may_loop(operator: Operator) -> bool:
    """Whether the block says so: ``batch=loop``, or ``gather`` where each sample has other data to look in."""
    facet = operator.facets.get("Batching")
    return Tag.DATA_DEPENDENT_OUTPUT in operator.tags or (facet is not None and facet.kind in ("loop", "gather"))


def _directions(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    values = rng.standard_normal((2, *tensor.shape))
    return tk.asarray(values + 1j * rng.standard_normal(values.shape) if tensor.dtype.kind == "c" else values)


@each("dtype", ["float64", "complex128"])
@named(
    [
        op for op in SAMPLED
        if op.schema.base_name not in _NO_TANGENT and not op.schema.is_mutable and "NotDifferentiable" not in op.facets
    ]
)  # fmt: skip
def test_tangents_in_a_batch(operator: Operator, dtype: str) -> None:
    """Primals and tangents batched together, against one sample after the other."""
    rng = np.random.default_rng(4)
    for sample in _first(operator, dtype):
        floating = [t for t in sample.tensors() if t.dtype.kind in "fc"]
        narrow = any(isinstance(v, np.dtype) and v.name not in ("float64", "complex128") for v in sample.args)
        if not floating or narrow or Tag.DATA_DEPENDENT_OUTPUT in operator.tags:
            continue

        def push(primals: list[Tensor], tangents: list[Tensor], sample: SampleInput = sample) -> Any:
            def call(*given: Tensor) -> Any:
                remaining = iter(given)
                return probed(operator, sample.map(lambda x: next(remaining) if x.dtype.kind in "fc" else x))

            return jvp(call, tuple(primals), tuple(tangents))[1]

        primals = [_batches(t)[0] for t in floating]
        tangents = [_directions(t, rng) for t in floating]
        got = vmap(push)(primals, tangents)
        want = [push([p[b] for p in primals], [t[b] for t in tangents]) for b in range(2)]
        expected = np.stack([t.numpy() for t in want])
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9, err_msg=str(sample))


def test_every_differentiable_operator_has_a_forward_rule() -> None:
    """By a formula, by its parts, or by its backward: never none."""
    without = [
        op.name
        for op in SAMPLED
        if not {"NotDifferentiable", "Backward", "Forward", "Out"} & op.facets.keys()
        and not op.schema.is_mutable
        and parts_of(op) is None
        and all(plan_of(op).rule(op, is_complex=c) is None for c in (False, True))
    ]
    assert without == []


# ---- operators of users, by declaration


@pytest.mark.parametrize("kind", ["pointwise", "reduction", "composite"])
def test_declared_operators_have_both_rules(kind: str) -> None:
    made: Any
    if kind == "pointwise":
        made = tk.library.pointwise(
            "transtest::bend(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x * x * y + y
        )
        args = [np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 3.0])]
        want: Any = lambda x, y, dx, dy: 2 * x * y * dx + (x * x + 1) * dy  # noqa: E731
    elif kind == "reduction":
        made = tk.library.reduction(
            "transtest::fold(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
            combine=lambda T: lambda a, b: a + b + a * b,
            identity=0,
        )
        args = [np.array([0.5, -0.25, 2.0])]
        want = lambda x, dx: np.sum(dx * np.prod(1 + x) / (1 + x))  # noqa: E731
    else:

        @tk.library.composite("transtest::mix(Tensor x, Tensor y) -> Tensor")
        def made(x: Any, y: Any) -> Any:
            return tk.sin(x) @ y

        args = [np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 3.0])]
        want = lambda x, y, dx, dy: (np.cos(x) * dx) @ y + np.sin(x) @ dy  # noqa: E731
    try:
        rng = np.random.default_rng(0)
        primals = [np.stack([a, a * 0.5]) for a in args]
        tangents = [rng.standard_normal(p.shape) for p in primals]
        LOOPS.clear()
        got = vmap(lambda p, t: jvp(made, tuple(p), tuple(t))[1])(
            [tk.asarray(p) for p in primals], [tk.asarray(t) for t in tangents]
        )
        assert not LOOPS
        for b in range(2):
            np.testing.assert_allclose(got[b].numpy(), want(*[p[b] for p in primals], *[t[b] for t in tangents]))
    finally:
        name = {"pointwise": "bend", "reduction": "fold", "composite": "mix"}[kind]
        tk.dispatch.registry.undefine(tk.dispatch.registry.find(f"transtest::{name}"), keep_kernels=False)
