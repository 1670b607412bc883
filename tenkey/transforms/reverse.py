"""Derivatives by reverse mode: ``grad``, ``value_and_grad``, ``vjp``.

Note [Derivatives of functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
These are made of the tape and of duals. The inputs that a function is differentiated by are given to it as aliases: new
tensors on the same memory, so that nothing else in the graph depends on them, and connected to the input's own history,
so that an outer derivative goes through. Inside of a vmap an input that the samples share becomes one input for each
sample, so the gradient is that of each sample. Whether the backward must be recorded itself is seen in the graph: only
if it leads to something else that requires a gradient. ``transforms`` does not import ``autograd``; the composition
root hands over what is needed of it (:func:`install_derivatives`). Guarded by ``tests/transforms/test_derivatives.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..core.tree import flatten
from ..core.word import REQUIRES_GRAD
from ..dispatch.local_state import current_state
from .trace import FUNCTION, OUTPUT, Run, described, positions_of, split_aux

__all__ = ["grad", "value_and_grad", "vjp"]


def value_and_grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives ``(value, gradient)`` of ``fn``, which returns one real number as a 0-d tensor.

    Args: argnums: by which argument, or by which of them (then the gradient is a tuple); has_aux: ``fn`` returns
    ``(value, aux)``, and the result is ``((value, aux), gradient)``. Arguments may be trees of tensors.

    >>> import tenkey as tk
    >>> value, gradient = tk.transforms.value_and_grad(lambda x: tk.sum(x * x))(tk.tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    return _value_and_grad("value_and_grad", fn, argnums, has_aux)


def _value_and_grad(call: str, fn: Any, argnums: Any, has_aux: bool) -> Callable[..., Any]:
    if not callable(fn):
        raise TypeError(FUNCTION.format(call=call, type=type(fn).__name__))

    @functools.wraps(fn)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(call, argnums, args)

        def rest(chosen: list[Any]) -> Any:
            given = list(args)
            for i, value in zip(positions, chosen, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        run = Run(call, fn, [args[i] for i in positions], rest)
        value, aux = split_aux(call, run.output, has_aux)
        if not isinstance(value, Tensor) or value.shape != () or value.dtype.kind not in "fV":
            raise ValueError(
                f"[{call}] Expected f to return a scalar tensor, got {described(value)}: sum it, or use vjp or jacrev "
                "for several outputs."
            )
        create = run.elsewhere([value])
        found = run.gradients([value], [None], create=create, keep=create)
        gradient = found[0] if isinstance(argnums, int) else tuple(found)
        value, aux = run.free((value, aux), keeps=create)
        return ((value, aux) if has_aux else value), gradient

    return differentiated


def grad(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of ``fn``, which returns one real number as a 0-d tensor.

    Args as for :func:`value_and_grad`; with ``has_aux`` the result is ``(gradient, aux)``. ``vmap(grad(fn))`` gives a
    gradient for each sample, also of what the samples share.

    >>> import tenkey as tk
    >>> cube = lambda x: x**3
    >>> (
    ...     tk.transforms.grad(cube)(tk.tensor(2.0)).item(),
    ...     tk.transforms.grad(tk.transforms.grad(cube))(tk.tensor(2.0)).item(),
    ... )
    (12.0, 12.0)
    """
    both = _value_and_grad("grad", fn, argnums, has_aux)

    @functools.wraps(fn)
    def gradient_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return gradient_of


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """``(output, pullback)``, or ``(output, pullback, aux)``; the pullback takes cotangents like the output.

    It returns a tuple with the gradient of each primal, and can be called again and again.

    >>> import tenkey as tk
    >>> output, pullback = tk.transforms.vjp(lambda x: x * x, tk.tensor([1.0, 2.0]))
    >>> output.tolist(), pullback(tk.tensor([1.0, 10.0]))[0].tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    run = Run("vjp", fn, list(primals), lambda chosen: fn(*chosen))
    output, aux = split_aux("vjp", run.output, has_aux)
    ends = flatten(output)
    for end in ends:
        if not isinstance(end, Tensor):
            raise TypeError(OUTPUT.format(call="vjp", got=described(end)))
    elsewhere = run.elsewhere(ends)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = flatten(cotangents)
        if len(given) != len(ends):
            raise ValueError(
                f"[vjp] got {len(given)} cotangents for {len(ends)} outputs: give them in the structure of the output."
            )
        for end, cotangent in zip(ends, given, strict=True):
            if not isinstance(cotangent, Tensor) or cotangent.shape != end.shape:
                raise ValueError(
                    f"[vjp] a cotangent is a Tensor of shape {end.shape}, dtype {end.dtype}, like its output; "
                    f"got {described(cotangent)}."
                )
        depends = any(c._word & REQUIRES_GRAD & current_state().keep for c in given)
        return tuple(run.gradients(ends, given, create=elsewhere or depends, keep=True))

    result = run.free(output, keeps=elsewhere)
    return (result, pullback, run.free(aux, keeps=elsewhere)) if has_aux else (result, pullback)
