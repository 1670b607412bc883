"""``gradcheck`` and ``gradgradcheck``; the first check imports the comparison of the Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...ops.aliases import recording
from ..engine.functional import grad
from .numerical import GradcheckError, outputs_of

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_INPUTS: Final = "[gradcheck] inputs is a tensor or a sequence of the arguments of fn"


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    projections: int = 3,
    seed: int = 0,
) -> bool:
    """Compare the gradients of ``fn`` with central differences (Note [What gradcheck compares]).

    Args: fn: takes the inputs, returns one or more tensors; inputs: a tensor or a sequence, in double precision where a
    gradient is required (otherwise it warns); eps: step; atol, rtol: allowed absolute and relative difference;
    raise_exception: raise GradcheckError instead of returning False; nondet_tol: allowed difference between two equal
    calls; check_undefined_grad: check that missing output gradients act as zeros; check_grad_dtypes: check that
    gradients have the dtypes of their inputs; check_batched_grad, check_batched_forward_grad: check that vmap over
    backward and over forward mode agrees with a loop; check_forward_ad, check_backward_ad: the modes to compare;
    fast_mode: compare along ``projections`` random directions from ``seed`` first, and single elements only if one
    direction shows a difference.

    Raises ValueError if nothing can be checked, GradcheckError if a check fails.

    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradcheck(lambda x: tk.exp(x) * x, (x,), check_forward_ad=True)
    True
    """
    from .check import Settings, run, sequence

    numbers = (eps, atol, rtol, nondet_tol, fast_mode, projections, seed)
    checks = (check_backward_ad, check_forward_ad, check_undefined_grad, check_grad_dtypes, check_batched_grad)
    settings = Settings(*numbers, *checks, batched_forward=check_batched_forward_grad)
    settings.check(fn)
    return run(fn, sequence(inputs, _INPUTS), settings, raises=raise_exception)


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    gen_non_contig_grad_outputs: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    projections: int = 3,
    seed: int = 0,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the backward of ``fn``, by inputs and output gradients.

    Args as for :func:`gradcheck`; grad_outputs: the gradients of the outputs, by default random ones from ``seed``, not
    contiguous with ``gen_non_contig_grad_outputs``; check_rev_over_rev, check_fwd_over_rev: reverse and forward mode
    over the backward.

    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradgradcheck(lambda x: x * x * x, (x,), check_fwd_over_rev=True)
    True
    """
    from .check import Settings, grad_output, run, sequence

    numbers = (eps, atol, rtol, nondet_tol, fast_mode, projections, seed)
    checks = (check_rev_over_rev, check_fwd_over_rev, check_undefined_grad, check_grad_dtypes, check_batched_grad)
    settings = Settings(*numbers, *checks, recorded=True)
    settings.check(fn)
    given = sequence(inputs, _INPUTS)
    restore = recording()
    try:
        outputs = [t for t in outputs_of(fn, given) if t.requires_grad]
    finally:
        restore()
    if grad_outputs is None:
        rng = np.random.default_rng(seed)
        seeds: tuple[Any, ...] = tuple(
            [grad_output(rng, t, gaps=gen_non_contig_grad_outputs, recorded=True) for t in outputs]
        )
    else:
        wanted = "[gradgradcheck] grad_outputs is a tensor or a sequence of one for each output"
        seeds = sequence(grad_outputs, wanted)
        if wrong := [type(t).__name__ for t in seeds if not isinstance(t, (Tensor, type(None)))]:
            raise TypeError(f"{wanted}, got {wrong[0]} in it.")
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    count = len(given)

    def first(*args: Any) -> tuple[Tensor, ...]:
        own = list(args[:count])
        for i in checked:
            own[i] = own[i] if own[i].requires_grad else own[i].detach().requires_grad_()
        restore = recording()
        try:
            made = [t for t in outputs_of(fn, own) if t.requires_grad]
            sources = [own[i] for i in checked]
            found = grad(made, sources, list(args[count:]), create_graph=True, allow_unused=True)
        finally:
            restore()
        return tuple([g for g in found if g is not None])

    return run(first, (*given, *seeds), settings, raises=raise_exception)
