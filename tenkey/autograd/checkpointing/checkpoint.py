"""``checkpoint``: keep the inputs of a function instead of the tensors its backward needs, and recompute these."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from ...core.tensor import Tensor
from ...core.tree import flatten, map_with_path, tensors_in
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import current_state
from ..saved_tensors.saved_tensor_hooks import enter_saver
from .recomputation import CheckpointError, Frame, generators_of, keep, logging, name_of

__all__ = ["CheckpointError", "checkpoint"]

_CONTEXTS: Final = (
    "[checkpoint] context_fn returns two context managers, for the forward pass and for the recomputation; got {got}."
)
_UNSET: Final[Any] = object()


def _check(fn: Any, context_fn: Any, determinism_check: Any, use_reentrant: Any, **flags: Any) -> None:
    if not callable(fn):
        raise TypeError(f"[checkpoint] takes a function and its arguments, got {type(fn).__name__}.")
    if use_reentrant:
        raise ValueError(
            "[checkpoint] got use_reentrant=True: only the non-reentrant form exists, which covers the other one. Omit "
            "the argument."
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"[checkpoint] determinism_check should be one of ['default', 'none'], but got {determinism_check!r}."
        )
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(
                f"[checkpoint] {name} is a bool, got {type(value).__name__}: other keyword arguments go to the "
                "function."
            )
    if context_fn is not None and not callable(context_fn):
        raise TypeError(_CONTEXTS.format(got=type(context_fn).__name__))


def checkpoint(
    fn: Callable[..., Any],
    /,
    *args: Any,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Call ``fn(*args, **kwargs)`` and keep only the inputs for backward, which recomputes the rest.

    This trades time for memory: for a chain of n layers, checkpoints around every sqrt(n) of them keep about 2 sqrt(n)
    results instead of n, at the cost of one more forward pass. See ``examples/checkpoint_memory.py``.

    Args: context_fn: returns two context managers, one around the forward pass and one around each recomputation; the
    policies of ``tk.autograd.checkpoint_policies`` keep the results of some operators; preserve_rng_state: restore the
    state of the generators (the global one, and those among the arguments and in the closure of ``fn``);
    determinism_check: ``"default"`` compares operators, shapes, dtypes and devices of saved tensors with those of the
    first run, ``"none"`` does not; debug: the error of this check lists the operators of both runs; early_stop: stop
    the recomputation as soon as all required tensors are available. All other keyword arguments go to ``fn``.

    Checkpoints nest; ``fn`` may use tensors of its closure, may call ``grad()``, and can be differentiated again. One
    backward recomputes it once. If nothing is recorded, this is an ordinary call.

    Raises CheckpointError (a RuntimeError) in backward if the recomputation differs, naming the operator that saved the
    tensor, or if ``fn`` runs a backward through the result of its own checkpoint, and RuntimeError if an input has been
    changed in place. Warns if an argument requires a gradient and no result does.

    >>> def layer(x, w, *, scale):
    ...     return tk.tanh(x @ w) * scale
    >>> x, w = tk.ones((2, 3)), tk.ones((3, 3)).requires_grad_()
    >>> y = tk.autograd.checkpoint(layer, x, w, scale=2.0)
    >>> y.sum().backward()
    >>> w.grad.shape
    (3, 3)
    """
    flags = {"preserve_rng_state": preserve_rng_state, "debug": debug, "early_stop": early_stop}
    _check(fn, context_fn, determinism_check, use_reentrant, **flags)
    if current_state().exclude & REQUIRES_GRAD:
        return fn(*args, **kwargs)
    frame = Frame(fn, checks=determinism_check == "default", early_stop=early_stop, debug=debug)
    forward: Any = nullcontext()
    if context_fn is not None:
        pair: Any = context_fn()
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(hasattr(c, "__enter__") for c in pair):
            raise TypeError(_CONTEXTS.format(got=repr(pair)))
        forward, frame.context = pair
    given = (args, kwargs)
    named = {name: map_with_path(keep, value, f"argument {name!r}", bare=True) for name, value in kwargs.items()}
    listed = [map_with_path(keep, value, f"argument {i}", bare=True) for i, value in enumerate(args)]
    frame.arguments = (tuple(listed), named)
    if preserve_rng_state:
        frame.generators = [(g, g.get_state()) for g in dict.fromkeys(generators_of(given, fn))]
    result = _UNSET
    restore = enter_saver(frame, frame)
    try:
        with logging(frame.log, debug), forward:
            result = fn(*args, **kwargs)
    finally:
        restore()
    if result is _UNSET:
        raise RuntimeError(
            "[checkpoint] the forward context provided by context_fn suppressed an exception raised during the "
            "checkpointed forward: a checkpoint cannot return a value for a failed forward."
        )
    frame.complete = True
    if _ends_here(result, given):
        warnings.warn(
            "[checkpoint] none of output has requires_grad=True, this checkpoint() is not necessary: nothing "
            f"that {name_of(fn)} returned requires a gradient, although an argument does, so no gradient will flow "
            "through it. Does it detach its result, or compute it in a no_grad() block?",
            UserWarning,
            stacklevel=2,
        )
    return result


def _ends_here(result: Any, given: Any) -> bool:
    """Return whether an argument requires a gradient, and the result consists of numbers that do not."""
    leaves = flatten(result)
    if not all(value is None or isinstance(value, (Tensor, bool, int, float, complex, str)) for value in leaves):
        return False  # an unknown object may contain tensors
    floating = [value for value in leaves if isinstance(value, Tensor) and value.dtype.kind in "fcV"]
    recorded, wanted = [any(x._word & REQUIRES_GRAD for x in tensors) for tensors in (floating, tensors_in(given))]
    return bool(floating) and wanted and not recorded
