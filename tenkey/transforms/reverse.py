"""Derivatives by reverse mode: ``grad``, ``value_and_grad``, ``vjp``.

Note [Derivatives of functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Transforms are built on the recorded graph and on dual numbers. A function gets its inputs as aliases: new tensors on
the same memory, on which nothing else in the graph depends, connected to the history of the input, so that an outer
derivative passes through. Inside ``vmap``, an input that the samples share becomes one input per sample, so each
sample has its own gradient. The graph decides whether the backward pass is recorded: only if it leads to something
else that requires a gradient. Guarded by ``tests/transforms/test_derivatives.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..core.tree import flatten
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import from_scalar
from ..dispatch.local_state import current_state
from .trace import Run, check_function, check_outputs, described, positions_of, split_aux, with_chosen

__all__ = ["grad", "value_and_grad", "vjp"]


def value_and_grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes ``(value, gradient)`` of ``fn``, which returns one real number as a 0-d tensor.

    Args: argnums: the argument, or the arguments, to differentiate by (a tuple gives a tuple of gradients); has_aux:
    ``fn`` returns ``(value, aux)``, and the result is ``((value, aux), gradient)``. Arguments may be trees of tensors.

    >>> value, gradient = tk.transforms.value_and_grad(lambda x: tk.sum(x * x))(tk.tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    differentiate = _differentiated("value_and_grad", fn, argnums, has_aux)

    @functools.wraps(fn)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        run, value, aux, gradient, recorded = differentiate(args, kwargs)
        value, aux = run.free(value, keeps=recorded), run.free(aux, keeps=recorded)
        return ((value, aux) if has_aux else value), gradient

    return value_and_gradient


def _differentiated(call: str, fn: Any, argnums: Any, has_aux: bool) -> Callable[..., Any]:
    """Return a function ``(args, kwargs) -> (run, value, aux, gradient, whether it is recorded)``."""
    check_function(call, fn)

    def differentiate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        positions = positions_of(call, argnums, args)
        run = Run(call, [args[i] for i in positions], with_chosen(fn, args, kwargs, positions))
        value, aux = split_aux(call, run.output, has_aux, run.inputs)
        if not isinstance(value, Tensor) or value.shape != () or value.dtype.kind not in "fV":
            raise ValueError(
                f"[{call}] Expected f to return a scalar tensor, got {described(value)}: sum it, or use vjp or jacrev "
                "for several outputs."
            )
        found, recorded = run.scalar_gradients(value)
        return run, value, aux, (found[0] if isinstance(argnums, int) else tuple(found)), recorded

    return differentiate


def grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``fn``, which returns one real number as a 0-d tensor.

    The arguments are those of :func:`value_and_grad`; with ``has_aux`` the result is ``(gradient, aux)``.
    ``vmap(grad(fn))`` computes a gradient for each sample, also by inputs that the samples share.

    >>> cube = lambda x: x**3
    >>> (
    ...     tk.transforms.grad(cube)(tk.tensor(2.0)).item(),
    ...     tk.transforms.grad(tk.transforms.grad(cube))(tk.tensor(2.0)).item(),
    ... )
    (12.0, 12.0)
    """
    differentiate = _differentiated("grad", fn, argnums, has_aux)

    @functools.wraps(fn)
    def gradient_of(*args: Any, **kwargs: Any) -> Any:
        run, _, aux, gradient, recorded = differentiate(args, kwargs)
        return (gradient, run.free(aux, keeps=recorded)) if has_aux else gradient

    return gradient_of


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return ``(output, pullback)``, or ``(output, pullback, aux)``.

    The pullback takes cotangents in the structure of the output and returns a tuple with the gradient of each primal.
    It can be called repeatedly.

    >>> output, pullback = tk.transforms.vjp(lambda x: x * x, tk.tensor([1.0, 2.0]))
    >>> output.tolist(), pullback(tk.tensor([1.0, 10.0]))[0].tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    run = Run("vjp", list(primals), lambda chosen: fn(*chosen))
    output, aux = split_aux("vjp", run.output, has_aux, run.inputs)
    ends = flatten(output)
    check_outputs("vjp", ends)
    elsewhere = run.elsewhere(ends)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = [from_scalar(x, run.inputs) for x in flatten(cotangents)]
        if len(given) != len(ends):
            raise ValueError(
                f"[vjp] got {len(given)} cotangents for {len(ends)} outputs: give them in the structure of the output."
            )
        for end, cotangent in zip(ends, given, strict=True):
            if not isinstance(cotangent, Tensor) or cotangent.shape != end.shape:
                raise ValueError(
                    f"[vjp] a cotangent is a Tensor of shape {end.shape}, dtype {end.dtype}, like its output; got "
                    f"{described(cotangent)}."
                )
        depends = any(c._word & REQUIRES_GRAD & current_state().keep for c in given)
        return tuple(run.gradients(ends, given, create=elsewhere or depends, keep=True))

    result = run.free(output, keeps=elsewhere)
    return (result, pullback, run.free(aux, keeps=elsewhere)) if has_aux else (result, pullback)
