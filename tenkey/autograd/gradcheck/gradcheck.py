"""``gradcheck`` and ``gradgradcheck``; what compares the Jacobians (``comparing.py``) is imported by a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...ops.aliases import Recording
from ..engine.functional import grad
from .error import GradcheckError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


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

    Args: fn: takes the inputs, returns a tensor or several; inputs: a tensor or a sequence, those that require a
    gradient in double precision (it warns else); eps: step; atol, rtol: allowed absolute and relative difference;
    raise_exception: raise GradcheckError, not return False; nondet_tol: allowed difference between two equal calls;
    check_undefined_grad: that a gradient for some outputs alone is what it is with zeros for the others;
    check_grad_dtypes: that a gradient has the dtype of its input; check_batched_grad, check_batched_forward_grad: that
    vmap over backward and over forward mode gives what a loop gives; check_forward_ad, check_backward_ad: which modes
    are compared; fast_mode: look along random directions first, ``projections`` of them from ``seed``, and at each
    element only where one shows a difference.

    Raises ValueError where nothing can be checked, GradcheckError for what is wrong.

    >>> import tenkey as tk
    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradcheck(lambda x: tk.exp(x) * x, (x,), check_forward_ad=True)
    True
    """
    from .comparison import INPUTS, Settings, check_options, run, sequence

    settings = Settings(eps, atol, rtol, nondet_tol, fast_mode, projections, seed, recorded=False)
    check_options(fn, settings, has_mode=check_backward_ad or check_forward_ad)
    given = sequence(inputs, INPUTS)
    asked = {
        "backward": check_backward_ad,
        "ahead": check_forward_ad,
        "undefined": check_backward_ad and check_undefined_grad,
        "dtypes": check_backward_ad and check_grad_dtypes,
        "batched": check_backward_ad and check_batched_grad,
        "batched_ahead": check_forward_ad and check_batched_forward_grad,
    }
    return run(fn, given, settings, asked, raises=raise_exception)


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

    Args as for :func:`gradcheck`; grad_outputs: the gradients of the outputs, random ones from ``seed`` by default,
    with ``gen_non_contig_grad_outputs`` such as are not contiguous; check_rev_over_rev, check_fwd_over_rev: reverse and
    forward mode over the backward.

    >>> import tenkey as tk
    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradgradcheck(lambda x: x * x * x, (x,), check_fwd_over_rev=True)
    True
    """
    from .comparison import GRAD_OUTPUTS, INPUTS, Settings, check_options, run, second_seed, sequence
    from .numerical import outputs_of

    settings = Settings(eps, atol, rtol, nondet_tol, fast_mode, projections, seed, recorded=True)
    check_options(fn, settings, has_mode=check_rev_over_rev or check_fwd_over_rev)
    given = sequence(inputs, INPUTS)
    with Recording():
        outputs = [t for t in outputs_of(fn, given) if t.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(seed)
        seeds = [second_seed(rng, t, gaps=gen_non_contig_grad_outputs) for t in outputs]
    else:
        chosen = sequence(grad_outputs, GRAD_OUTPUTS)
        if wrong := [type(t).__name__ for t in chosen if not isinstance(t, (Tensor, type(None)))]:
            raise TypeError(GRAD_OUTPUTS.format(got=f"{wrong[0]} in it"))
        seeds = list(chosen)
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    count = len(given)

    def first(*args: Any) -> tuple[Tensor, ...]:
        recorded = [t if t.requires_grad else t.detach().requires_grad_() for t in (args[i] for i in checked)]
        own = list(args[:count])
        for i, t in zip(checked, recorded, strict=True):
            own[i] = t
        with Recording():
            made = [t for t in outputs_of(fn, own) if t.requires_grad]
            found = grad(made, recorded, list(args[count:]), create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    asked = {
        "backward": check_rev_over_rev,
        "ahead": check_fwd_over_rev,
        "undefined": check_rev_over_rev and check_undefined_grad,
        "dtypes": check_rev_over_rev and check_grad_dtypes,
        "batched": check_rev_over_rev and check_batched_grad,
        "batched_ahead": False,
    }
    return run(first, (*given, *seeds), settings, asked, raises=raise_exception)
