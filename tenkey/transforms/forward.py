"""Derivatives by forward mode: ``jvp`` and ``linearize``.

Note [Linearization]
~~~~~~~~~~~~~~~~~~~~
``linearize`` runs the function once. Its graph gives the pullback ``u -> J^T u``, which is recorded at an arbitrary
``u``. The recorded pullback is linear in ``u``, so its own backward from a tangent gives ``J t``; this is what a push
computes, without calling the function's operators again. A backward written by a user may contain operations that are
not recorded. If the graph holds one, every push runs the function in forward mode instead, which knows for each
operator whether that is sound. Guarded by ``tests/transforms/test_linearize.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import forward_ad
from ..autograd.engine.functional import grad
from ..autograd.function.context import Context
from ..autograd.tape.node import walk
from ..core.tensor import Tensor
from ..core.tree import flatten, map_tensors, unflatten
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import class_of
from ..dispatch.local_state import current_state
from ..ops.aliases import recording, spread
from ..ops.builtin.creation import full_like, zeros_like
from .trace import (
    Run,
    as_inputs,
    bare,
    check_function,
    check_outputs,
    described,
    differentiable,
    in_class,
    refuse_input,
    split_aux,
)

__all__ = ["jvp", "linearize"]


def jvp(fn: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> Any:
    """Return ``(output, tangent of the output)``, or ``(output, tangent, aux)``, in the structure of the output.

    >>> output, tangent = tk.transforms.jvp(lambda x: x * x, (tk.tensor([1.0, 2.0]),), (tk.tensor([1.0, 10.0]),))
    >>> output.tolist(), tangent.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    check_function("jvp", fn)
    primals, tangents = _as_tensors(primals, tangents)
    pairs = _check_tangents("jvp", primals, tangents)

    def run(level: Any) -> tuple[Any, list[tuple[Any, Any]], Any]:
        duals = [forward_ad.make_dual(p, t, level) if differentiable(p) else p for p, t in pairs]
        result, aux = split_aux("jvp", fn(*unflatten(primals, duals)), has_aux, duals)
        ends = flatten(result)
        check_outputs("jvp", ends)
        parts = []
        for end in ends:
            primal, tangent = forward_ad.unpack_dual(end, level)
            parts.append((primal, zeros_like(primal) if tangent is None else tangent))
        if has_aux:
            aux = map_tensors(lambda x: in_class(forward_ad.unpack_dual(x, level).primal, x.__class__), aux)
        return result, parts, aux

    result, parts, aux = forward_ad.dual_level().run(run)
    kind = class_of(flatten(primals))
    output, pushed = (unflatten(result, [in_class(part[i], kind) for part in parts]) for i in (0, 1))
    return (output, pushed, aux) if has_aux else (output, pushed)


def _as_tensors(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Return primals and tangents with tensors for arrays and numbers; a number as a tangent takes the dtype."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        return primals, tangents
    made = tuple(as_inputs(primals))
    ahead, along = flatten(made), flatten(tangents)
    if len(ahead) == len(along):
        pairs = zip(ahead, along, strict=True)
        along = [_as_tangent(primal, tangent) if differentiable(primal) else tangent for primal, tangent in pairs]
        tangents = unflatten(tangents, along)
    return made, tangents


def _as_tangent(primal: Tensor, tangent: Any) -> Any:
    if isinstance(tangent, (bool, int, float, complex)) and primal.ndim == 0:
        return full_like(primal, tangent) if primal.dtype.kind == "c" or not isinstance(tangent, complex) else tangent
    return as_inputs([tangent])[0] if isinstance(tangent, (np.ndarray, np.generic)) else tangent


def _check_tangents(call: str, primals: Any, tangents: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of leaves; raise TypeError or ValueError if they do not fit."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"[{call}] primals and tangents are tuples, one entry for each argument, got {type(primals).__name__} "
            f"and {type(tangents).__name__}."
        )
    if not primals:
        raise ValueError(f"[{call}] Expected at least one primal.")
    ahead, along = flatten(primals), flatten(tangents)
    if len(ahead) != len(along) or len(primals) != len(tangents):
        raise ValueError(
            f"[{call}] Expected primals and tangents to have the same structure: {len(ahead)} and {len(along)} leaves."
        )
    pairs = [*zip(ahead, along, strict=True)]
    for index, (primal, tangent) in enumerate(pairs):
        if not differentiable(primal):
            if isinstance(primal, Tensor) or not any(map(differentiable, ahead)):
                refuse_input(call, index, primal)
            continue
        if not isinstance(tangent, Tensor) or (tangent.shape, tangent.dtype) != (primal.shape, primal.dtype):
            raise ValueError(
                f"[{call}] tangent {index} must be a Tensor of shape {primal.shape}, dtype {primal.dtype} like its "
                f"primal; got {described(tangent)}."
            )
    return pairs


def linearize(fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return ``(output, push)``; ``push(*tangents)`` computes the tangent of the output, linear in the tangents.

    The function runs once, and a push costs about as much as a backward: see Note [Linearization]. Random numbers stay
    the same in all pushes, and values computed in ``no_grad()`` are constants. A function that calls a ``Function`` or
    a custom operator with a hand-written backward runs again in every push.

    >>> output, push = tk.transforms.linearize(lambda x: x * x, tk.tensor([1.0, 2.0]))
    >>> push(tk.tensor([1.0, 10.0])).tolist(), push(tk.tensor([0.0, 1.0])).tolist()
    ([2.0, 40.0], [0.0, 4.0])
    """
    check_function("linearize", fn)
    primals = tuple(as_inputs(primals))
    _check_tangents("linearize", primals, primals)
    kind = class_of(flatten(primals))
    run = Run("linearize", [primals], lambda chosen: fn(*chosen[0]))
    output, _ = split_aux("linearize", run.output, False, run.inputs)
    ends = flatten(output)
    check_outputs("linearize", ends)
    elsewhere = run.elsewhere(ends)
    output = run.free(output, keeps=elsewhere)
    nodes = walk(*[plain.grad_fn for x in ends for plain in bare(x)])
    if any(isinstance(node, Context) and not node.operator_name.startswith("tk::") for node in nodes):
        return output, lambda *tangents: jvp(fn, primals, tangents)[1]  # a backward is written by a user
    recorded = [end for end in ends if end._word & REQUIRES_GRAD]
    pulled: list[Any] = [None] * len(run.inputs)
    restore = recording()
    try:
        seeds = [spread(zeros_like(end.detach()).detach(), [end]).detach().requires_grad_() for end in recorded]
        run.own(seeds)
        if recorded:
            pulled = list(grad(recorded, run.inputs, seeds, create_graph=True, allow_unused=True))
    finally:
        restore()

    def push(*tangents: Any) -> Any:
        tangents = _as_tensors(primals, tangents)[1]
        _check_tangents("linearize", primals, tangents)
        along = [t for t, own in zip(flatten(tangents), run.is_input, strict=True) if own]
        pairs = [(g, t) for g, t in zip(pulled, along, strict=True) if g is not None and g._word & REQUIRES_GRAD]
        found: list[Any] = [None] * len(seeds)
        if pairs:
            depends = elsewhere or any(t._word & REQUIRES_GRAD & current_state().keep for _, t in pairs)
            restore = recording(recorded=bool(depends))
            try:
                found = grad(
                    [g for g, _ in pairs], seeds, [t for _, t in pairs], create_graph=depends, retain_graph=True,
                    allow_unused=True,
                )  # fmt: skip
            finally:
                restore()
        remaining = iter(found)
        pushed = [next(remaining) if end._word & REQUIRES_GRAD else None for end in ends]
        made = [zeros_like(end.detach()) if t is None else t for end, t in zip(ends, pushed)]
        return unflatten(output, [in_class(x, kind) for x in made])

    return output, push
