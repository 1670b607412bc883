"""Every operator in forward mode, and second derivatives along one direction for each sample.

First derivatives in reverse mode are compared with differences in ``test_gradients.py``. From there on one direction
``v`` and one seed ``s`` of the results are enough: forward mode is the transpose of reverse mode, forward-over-reverse
is the difference of the gradient along ``v``, and reverse-over-reverse is forward-over-reverse, since second
derivatives commute. The comparisons of forward mode and of second derivatives with differences, element by element,
are in the full tier.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.formulas.gradients import jvp_of
from tenkey.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput
from tenkey.transforms import vmap
from tests._registry import registry_as_before
from tests._tiers import each
from tests.operators._table import INPLACE, KINDS, SAMPLED, calls, chosen, is_probed, named, probed, sampled

_STEP = 1e-6
_OPERATORS = [op for op in SAMPLED if op.schema.base_name not in ("to_device", "empty_like", "scatter_rows_")]


def _random_like(x: Tensor, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    values = rng.standard_normal(x.shape)
    return values + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else values


def _call(operator: Operator, sample: SampleInput, change: Callable[[Tensor], Tensor]) -> Any:
    """The call with other tensors in place of the floating ones; what would be changed in place is a copy."""
    made = sample.map(lambda t: change(t) if t.dtype.kind in "fc" else t)
    if operator.schema.is_mutable:
        made = SampleInput((made.args[0].clone(), *made.args[1:]), made.kwargs)
    return probed(operator, made)


def _castless(sample: SampleInput) -> bool:
    return not any(isinstance(v, np.dtype) and v.name not in ("float64", "complex128") for v in sample.args)


@each("dtype", ["float64", "complex128"])
@named(_OPERATORS, fast=INPLACE)
def test_tangents_against_central_differences(operator: Operator, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for sample in sampled(operator, dtype):
        floating = [t for t in sample.tensors() if t.dtype.kind in "fc"]
        choices = [floating, *([t] for t in floating if len(floating) > 1)]
        if not _castless(sample):
            continue
        for moved in choices:
            directions = {id(t): _random_like(t, rng) for t in moved}
            before = _call(operator, sample, lambda t: t)
            with dual_level():
                out = _call(
                    operator,
                    sample,
                    lambda t, d=directions: make_dual(t, tk.asarray(d[id(t)])) if id(t) in d else t,
                )
                primal, tangent = unpack_dual(out)
            _check_primal(primal, before, operator, sample)
            if "NotDifferentiable" in operator.facets or out.dtype.kind not in "fc":
                assert tangent is None
                continue
            sides = [
                _call(
                    operator,
                    sample,
                    lambda t, d=directions, s=sign: tk.asarray(t.numpy() + s * _STEP * d[id(t)]) if id(t) in d else t,
                )
                for sign in (1, -1)
            ]
            got = np.zeros(out.shape) if tangent is None else tangent.numpy()
            assert tangent is None or (tangent.shape, tangent.dtype) == (out.shape, out.dtype)
            numerical = (sides[0].numpy() - sides[1].numpy()) / (2 * _STEP)
            np.testing.assert_allclose(got, numerical, rtol=2e-6, atol=2e-6, err_msg=str(sample))


@pytest.mark.wider
@each("dtype", ["float64", "complex128"])
@named([op for op in _OPERATORS if not op.schema.is_mutable])
def test_forward_mode_and_second_derivatives(operator: Operator, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for sample in filter(_castless, chosen(operator, dtype, half=1)):
        _check_along_a_direction(operator, sample, rng)


def _check_primal(primal: Any, before: Any, operator: Operator, sample: SampleInput) -> None:
    """The primal has the bits of the plain call before or after: a compiled loop with others may take over between."""
    if not np.array_equal(primal.detach().numpy(), before.numpy(), equal_nan=True):
        np.testing.assert_array_equal(primal.detach().numpy(), _call(operator, sample, lambda t: t).numpy())


def _check_along_a_direction(operator: Operator, sample: SampleInput, rng: np.random.Generator) -> None:
    floating = [t for t in sample.tensors() if t.dtype.kind in "fc"]
    along = {id(t): _random_like(t, rng) for t in floating}
    leaves = {id(t): t.detach().requires_grad_() for t in floating}
    expected = _call(operator, sample, lambda t: t)
    with dual_level():
        duals = {key: make_dual(leaf, tk.asarray(along[key])) for key, leaf in leaves.items()}
        out = _call(operator, sample, lambda t: duals[id(t)])
        primal, tangent = unpack_dual(out)
        _check_primal(primal, expected, operator, sample)
        if "NotDifferentiable" in operator.facets or expected.dtype.kind not in "fc":
            assert tangent is None
            assert not primal.requires_grad
            return
        assert tangent is None or (tangent.shape, tangent.dtype) == (expected.shape, expected.dtype)
        seed = tk.asarray(_random_like(expected, rng)).astype(expected.dtype).requires_grad_()
        if not primal.requires_grad:
            assert tangent is None or not tangent.numpy().any(), sample
            return
        options: Any = {"create_graph": True, "allow_unused": True}
        found = tk.autograd.grad(out, list(duals.values()), seed, **options)
        gradients = [(None, None) if g is None else unpack_dual(g) for g in found]
    forward = np.zeros(expected.shape) if tangent is None else tangent.detach().numpy()
    by_seed, first = np.vdot(forward, seed.detach().numpy()).real, 0.0
    for (gradient, _), v in zip(gradients, along.values(), strict=True):
        first += 0.0 if gradient is None else np.vdot(gradient.detach().numpy(), v).real
    np.testing.assert_allclose(by_seed, first, rtol=1e-9, atol=1e-10, err_msg=f"transpose: {sample}")

    recorded = [(g, along[key]) for (g, _), key in zip(gradients, leaves, strict=True) if g is not None]
    recorded = [(g, v) for g, v in recorded if g.requires_grad]
    ends, seeds = [g for g, _ in recorded], [tk.asarray(v).astype(g.dtype) for g, v in recorded]
    inputs = [*leaves.values(), seed]
    again = tk.autograd.grad(ends, inputs, seeds, allow_unused=True) if ends else [None] * len(inputs)
    np.testing.assert_allclose(_zeros(again[-1], seed), forward, rtol=1e-9, atol=1e-10, err_msg=f"by seed: {sample}")
    sides = [_gradients_beside(operator, sample, along, sign, seed.detach()) for sign in (1, -1)]
    for k, (key, leaf) in enumerate(leaves.items()):
        second = _zeros(gradients[k][1], leaf)
        scale = float(np.max(np.abs(second), initial=1.0))
        np.testing.assert_allclose(
            _zeros(again[k], leaf), second, rtol=1e-8, atol=1e-9 * scale, err_msg=f"reverse over reverse: {sample}"
        )
        numerical = (_zeros(sides[0][key], leaf) - _zeros(sides[1][key], leaf)) / (2 * _STEP)
        np.testing.assert_allclose(
            second, numerical, rtol=1e-4, atol=1e-6 * scale, err_msg=f"forward over reverse: {sample}"
        )


def _zeros(tensor: Tensor | None, like: Tensor) -> np.ndarray[Any, Any]:
    return np.zeros(like.shape, like.dtype) if tensor is None else tensor.detach().numpy()


def _gradients_beside(
    operator: Operator, sample: SampleInput, along: dict[int, Any], sign: int, seed: Tensor
) -> dict[int, Tensor | None]:
    """The gradients at a small distance along the direction."""
    leaves = {
        id(t): tk.asarray(t.detach().numpy() + sign * _STEP * along[id(t)]).requires_grad_()
        for t in sample.tensors()
        if id(t) in along
    }
    out = _call(operator, sample, lambda t: leaves[id(t)])
    return dict(zip(leaves, tk.autograd.grad(out, list(leaves.values()), seed, allow_unused=True), strict=True))


@pytest.mark.parametrize(
    ("backward", "jvp", "words"),
    [
        (lambda x, g: 2.0 * x * g, lambda x, t: 2.5 * x * t, "transpose"),
        (lambda x, g: 2.0 * x.detach() * g, None, "forward over reverse"),
        (lambda x, g: 2.0 * x * g, lambda x, t: 2.0 * x * t, None),
    ],
)
def test_the_check_rejects(backward: Any, jvp: Any, words: str | None) -> None:
    sample = SampleInput((tk.asarray(np.array([0.5, 1.5, -2.5])),))
    expected = pytest.raises(AssertionError, match=words) if words else nullcontext()
    with registry_as_before(), expected:
        made = tk.library.custom_op("forwardtest::f", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")
        made.register_autograd(
            lambda ctx, g: backward(ctx.saved_tensors[0], g),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
        if jvp is not None:
            made.register_jvp(lambda ctx, t: jvp(ctx.saved_tensors[0], t))
        _check_along_a_direction(tk.dispatch.registry.find("forwardtest::f"), sample, np.random.default_rng(0))


def _pushing(operator: Operator, sample: SampleInput, floating: list[Tensor]) -> Callable[..., Any]:
    def push(*rows: Tensor) -> Any:
        with dual_level():
            given = {id(t): make_dual(t, row) for t, row in zip(floating, rows, strict=True)}
            return unpack_dual(_call(operator, sample, lambda t: given[id(t)])).tangent

    return push


@pytest.mark.wider
@named([op for op in _OPERATORS if not op.schema.is_mutable and "NotDifferentiable" not in op.facets], fast=KINDS)
def test_vmap_of_every_tangent(operator: Operator) -> None:
    rng = np.random.default_rng(4)
    for sample in chosen(operator, "float64"):
        floating = [t for t in sample.tensors() if t.dtype.kind == "f"]
        if not floating or not _castless(sample):
            continue
        tangents = [tk.asarray(rng.standard_normal((2, *t.shape))) for t in floating]

        push = _pushing(operator, sample, floating)
        expected = [push(*[t[b] for t in tangents]) for b in range(2)]
        if expected[0] is None:
            continue
        got = vmap(push)(*tangents)
        want = np.stack([e.numpy() for e in expected])
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12, err_msg=str(sample))


# ---- the rules that follow from declarations, without the levels of forward mode

_RULED = [
    op for op in SAMPLED
    if not op.schema.is_mutable and op.schema.base_name != "to_device"  # its sample goes where there are no values
    and len(op.schema.returns) == 1
    and (op.facets.keys() & {"Pointwise", "Reduce", "Vjp", "View", "NotDifferentiable", "Jvp"})
]  # fmt: skip


def _moved(operator: Operator, sample: SampleInput, directions: dict[int, Any], step: float) -> np.ndarray[Any, Any]:
    def move(x: Tensor) -> Tensor:
        return tk.asarray(x.numpy() + step * directions[id(x)]) if id(x) in directions else x

    return calls(operator, sample.map(move)).numpy()


def _tangent_of(operator: Operator, sample: SampleInput, tangents: dict[int, Tensor]) -> tuple[Any, Tensor]:
    """The tangent that the rule gives, and the result."""
    bound = operator.bind(*sample.args, **sample.kwargs)
    out = calls(operator, sample)
    rule = jvp_of(operator, is_complex=any(t.dtype.kind == "c" for t in sample.tensors()))
    assert rule is not None
    given: dict[str, Any] = {}
    for argument in operator.schema.arguments:
        value = bound[argument.name]
        if argument.type.is_tensor_like:
            many = isinstance(value, (list, tuple))
            given[argument.name] = [tangents.get(id(t)) for t in value] if many else tangents.get(id(value))
    return rule(given, bound, out), out


@pytest.mark.full
@each("dtype", ["float64", "complex128"])
@named([op for op in _RULED if not is_probed(op)])  # those: test_tangents_against_central_differences
def test_rules_against_central_differences(operator: Operator, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for sample in sampled(operator, dtype):
        if any(isinstance(v, np.dtype) and v.name not in ("float64", "complex128") for v in sample.args):
            continue
        floating = [t for t in sample.tensors() if t.dtype.kind in "fc"]
        for moved in [floating, *([t] for t in floating if len(floating) > 1)]:
            directions = {id(t): _random_like(t, rng) for t in moved}
            tangent, out = _tangent_of(operator, sample, {key: tk.asarray(d) for key, d in directions.items()})
            if "NotDifferentiable" in operator.facets or out.dtype.kind not in "fc":
                assert tangent is None
                continue
            assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype), sample
            up, down = (_moved(operator, sample, directions, sign * _STEP) for sign in (1, -1))
            np.testing.assert_allclose(tangent.numpy(), (up - down) / (2 * _STEP), rtol=2e-6, atol=2e-6)


def test_the_table_of_rules_is_not_empty() -> None:
    assert len(_RULED) > 60
