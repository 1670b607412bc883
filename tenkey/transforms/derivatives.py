"""Derivatives of functions: ``grad``, ``vjp``, ``jvp``, Jacobians, Hessians, ``linearize``.

Note [Derivatives of functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
These are made of the tape and of duals. The inputs that a function is differentiated by are given to it as aliases: new
tensors on the same memory, so that nothing else in the graph depends on them, and connected to the input's own history,
so that an outer derivative goes through. Inside of a vmap an input that the samples share becomes one input for each
sample, so the gradient is that of each sample. Whether the backward must be recorded itself is seen in the graph: only
if it leads to something else that requires a gradient. ``transforms`` does not import ``autograd``; the composition
root hands over what is needed of it (:func:`install_derivatives`). Guarded by ``tests/test_derivatives.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.tensor import Tensor
from ..core.tree import flatten, tree_map, unflatten
from ..core.word import GRADIENT
from ..core.wrapper import Wrapper, open_levels
from ..dispatch.local import StateGuard, current_state
from ..ops.aliases import fresh, repeated, unrecorded
from ..ops.builtin.creation import eye, zeros_like
from ..ops.builtin.view import reshape, slice
from .vmap import vmap

__all__ = ["grad", "hessian", "install_derivatives", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp"]

_FUNCTION: Final = "[{call}] the first argument is a function, got {type}."
_ARGNUMS: Final = "[{call}] argnums={argnums!r}: give an int or a tuple of ints that count the {count} arguments."
_NO_TENSOR: Final = (
    "[{call}] argument {index} holds no floating or complex tensor to differentiate by, got {got}: give tensors, or "
    "choose others with argnums."
)
_SCALAR: Final = (
    "[{call}] Expected f to return a scalar tensor, got {got}: sum it, or use vjp or jacrev for several outputs."
)
_AUX: Final = "[{call}] with has_aux=True the function returns a pair (output, aux), got {got}."
_OUTPUT: Final = "[{call}] the function must return floating or complex tensors, got {got}."
_COTANGENTS: Final = "[vjp] got {got} cotangents for {want} outputs: give them in the structure of the output."
_COTANGENT: Final = "[vjp] a cotangent is a Tensor of shape {want}, dtype {dtype}, like its output; got {got}."
_TUPLES: Final = "[{call}] primals and tangents are tuples, one entry for each argument, got {primals} and {tangents}."
_STRUCTURE: Final = (
    "[{call}] Expected primals and tangents to have the same structure: {primals} and {tangents} leaves."
)
_TANGENT: Final = "[{call}] tangent {index} must be a Tensor of shape {want}, dtype {dtype} like its primal; got {got}."
_NONE: Final = "[{call}] Expected at least one primal."
_COMPLEX: Final = "[{call}] is for real inputs and outputs, got dtype {dtype}: use vjp or jvp with chosen directions."

_services: dict[str, Any] = {}


def install_derivatives(gradient: Callable[..., Any], forward: Any) -> None:
    """Hand over ``tk.autograd.grad`` and the module ``tk.autograd.forward_ad``."""
    _services.update(gradient=gradient, forward=forward)


def _described(value: Any) -> str:
    return f"shape {value.shape}, dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def _differentiable(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.kind in "fcV"


# ---- inputs


def _alias(x: Tensor) -> Tensor:
    """A tensor of its own on the same memory, with the history of ``x``, that requires a gradient."""
    levels = open_levels()
    return fresh(repeated(x, levels) if levels else x, GRADIENT & current_state().keep)


def _bare(x: Tensor) -> list[Tensor]:
    """The plain tensors inside of wrappers."""
    if x.__class__ is Wrapper:
        return _bare(x._value) + (_bare(x._extra) if isinstance(x._extra, Tensor) else [])
    return [x]


def _leads_elsewhere(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> bool:
    """Whether the graph of the outputs ends in a leaf that was not made here."""
    own = {id(leaf) for x in inputs for leaf in _bare(x)}
    seen: set[int] = set()
    stack: list[Any] = []
    for tensor in (plain for x in outputs for plain in _bare(x)):
        if tensor.grad_fn is not None:
            stack.append(tensor.grad_fn)
        elif tensor._word & GRADIENT and id(tensor) not in own:
            return True
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not node.next_functions:
            leaf = getattr(node, "variable", None)
            if leaf is not None and id(leaf) not in own:
                return True
        stack.extend(n for n, _ in node.next_functions if n is not None)
    return False


def _positions(call: str, argnums: Any, args: tuple[Any, ...]) -> list[int]:
    listed = [argnums] if isinstance(argnums, int) else argnums
    count = len(args)
    valid = isinstance(listed, (tuple, list)) and listed and not isinstance(argnums, bool)
    if not valid or not all(isinstance(i, int) and -count <= i < count for i in listed):
        raise ValueError(_ARGNUMS.format(call=call, argnums=argnums, count=count))
    positions = [i % count for i in listed]
    if len(set(positions)) < len(positions):
        raise ValueError(_ARGNUMS.format(call=call, argnums=argnums, count=count))
    return positions


class _Run:
    """One run of a function on aliases of the inputs that it is differentiated by."""

    def __init__(self, call: str, fn: Callable[..., Any], chosen: list[Any], rest: Callable[[list[Any]], Any]) -> None:
        if not callable(fn):
            raise TypeError(_FUNCTION.format(call=call, type=type(fn).__name__))
        for index, part in enumerate(chosen):
            if not any(_differentiable(leaf) for leaf in flatten(part)):
                got = _described(part)
                raise TypeError(_NO_TENSOR.format(call=call, index=index, got=got))
        self.recording = bool(current_state().keep & GRADIENT)
        leaves = flatten(chosen)
        aliases = [_alias(leaf) if _differentiable(leaf) else leaf for leaf in leaves]
        self.inputs = [alias for alias in aliases if _differentiable(alias)]
        self.structure = chosen
        self.is_input = [_differentiable(leaf) for leaf in leaves]
        with StateGuard(unexclude=GRADIENT):
            self.output = rest(unflatten(chosen, aliases))

    def elsewhere(self, outputs: Sequence[Tensor]) -> bool:
        return self.recording and _leads_elsewhere(outputs, self.inputs)

    def gradients(self, outputs: list[Tensor], seeds: list[Any], *, create: bool, keep: bool) -> list[Any]:
        """The gradients in the structure of the chosen inputs; None for leaves that are no inputs."""
        outputs, seeds = _recorded(outputs, seeds)
        if outputs:
            with StateGuard(unexclude=GRADIENT if create else 0):
                found = _services["gradient"](
                    outputs,
                    self.inputs,
                    seeds,
                    create_graph=create,
                    retain_graph=keep or create,
                    materialize_grads=True,
                )
        else:
            found = [zeros_like(x.detach()) for x in self.inputs]
        remaining = iter(found)
        result: list[Any] = unflatten(self.structure, [next(remaining) if own else None for own in self.is_input])
        return result

    def free(self, value: Any, *, keeps: bool) -> Any:
        """The output without the history that leads to the aliases alone."""
        return value if keeps else tree_map(lambda x: unrecorded(x) if isinstance(x, Tensor) else x, value)


def _recorded(outputs: list[Tensor], seeds: list[Any]) -> tuple[list[Tensor], list[Any]]:
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o._word & GRADIENT]
    return [o for o, _ in pairs], [s for _, s in pairs]


def _aux(call: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(_AUX.format(call=call, got=_described(result)))
    return result


# ---- reverse mode


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
        raise TypeError(_FUNCTION.format(call=call, type=type(fn).__name__))

    @functools.wraps(fn)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(call, argnums, args)

        def rest(chosen: list[Any]) -> Any:
            given = list(args)
            for i, value in zip(positions, chosen, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        run = _Run(call, fn, [args[i] for i in positions], rest)
        value, aux = _aux(call, run.output, has_aux)
        if not isinstance(value, Tensor) or value.shape != () or value.dtype.kind not in "fV":
            raise ValueError(_SCALAR.format(call=call, got=_described(value)))
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
    run = _Run("vjp", fn, list(primals), lambda chosen: fn(*chosen))
    output, aux = _aux("vjp", run.output, has_aux)
    ends = flatten(output)
    for end in ends:
        if not isinstance(end, Tensor):
            raise TypeError(_OUTPUT.format(call="vjp", got=_described(end)))
    elsewhere = run.elsewhere(ends)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = flatten(cotangents)
        if len(given) != len(ends):
            raise ValueError(_COTANGENTS.format(got=len(given), want=len(ends)))
        for end, cotangent in zip(ends, given, strict=True):
            if not isinstance(cotangent, Tensor) or cotangent.shape != end.shape:
                raise ValueError(_COTANGENT.format(want=end.shape, dtype=end.dtype, got=_described(cotangent)))
        depends = any(c._word & GRADIENT & current_state().keep for c in given)
        return tuple(run.gradients(ends, given, create=elsewhere or depends, keep=True))

    result = run.free(output, keeps=elsewhere)
    return (result, pullback, run.free(aux, keeps=elsewhere)) if has_aux else (result, pullback)


# ---- forward mode


def jvp(fn: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> Any:
    """``(output, tangent of the output)``, or ``(output, tangent, aux)``, in the structure of the output.

    >>> import tenkey as tk
    >>> output, tangent = tk.transforms.jvp(lambda x: x * x, (tk.tensor([1.0, 2.0]),), (tk.tensor([1.0, 10.0]),))
    >>> output.tolist(), tangent.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    if not callable(fn):
        raise TypeError(_FUNCTION.format(call="jvp", type=type(fn).__name__))
    _check_tangents("jvp", primals, tangents)
    forward = _services["forward"]
    with forward.dual_level() as level:
        pairs = zip(flatten(primals), flatten(tangents), strict=True)
        duals = [forward.make_dual(p, t, level) if _differentiable(p) else p for p, t in pairs]
        result, aux = _aux("jvp", fn(*unflatten(primals, duals)), has_aux)
        ends = flatten(result)
        parts = []
        for end in ends:
            if not isinstance(end, Tensor):
                raise TypeError(_OUTPUT.format(call="jvp", got=_described(end)))
            primal, tangent = forward.unpack_dual(end, level)
            parts.append((primal, zeros_like(primal) if tangent is None else tangent))
        aux = tree_map(lambda x: forward.unpack_dual(x, level).primal if isinstance(x, Tensor) else x, aux)
    output, pushed = unflatten(result, [p for p, _ in parts]), unflatten(result, [t for _, t in parts])
    return (output, pushed, aux) if has_aux else (output, pushed)


def _check_tangents(call: str, primals: Any, tangents: Any) -> None:
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(_TUPLES.format(call=call, primals=type(primals).__name__, tangents=type(tangents).__name__))
    if not primals:
        raise ValueError(_NONE.format(call=call))
    ahead, along = flatten(primals), flatten(tangents)
    if len(ahead) != len(along) or len(primals) != len(tangents):
        raise ValueError(_STRUCTURE.format(call=call, primals=len(ahead), tangents=len(along)))
    for index, (primal, tangent) in enumerate(zip(ahead, along, strict=True)):
        if not _differentiable(primal):
            if isinstance(primal, Tensor) or not any(map(_differentiable, ahead)):
                raise TypeError(_NO_TENSOR.format(call=call, index=index, got=_described(primal)))
            continue
        if not isinstance(tangent, Tensor) or (tangent.shape, tangent.dtype) != (primal.shape, primal.dtype):
            raise ValueError(
                _TANGENT.format(call=call, index=index, want=primal.shape, dtype=primal.dtype, got=_described(tangent))
            )


def linearize(fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``(output, push)``: ``push(*tangents)`` gives the tangent of the output, linear in the tangents.

    Every push runs the function in forward mode, so one that draws random numbers is not linear from push to push.

    >>> import tenkey as tk
    >>> output, push = tk.transforms.linearize(lambda x: x * x, tk.tensor([1.0, 2.0]))
    >>> push(tk.tensor([1.0, 10.0])).tolist(), push(tk.tensor([0.0, 1.0])).tolist()
    ([2.0, 40.0], [0.0, 4.0])
    """
    if not callable(fn):
        raise TypeError(_FUNCTION.format(call="linearize", type=type(fn).__name__))
    if not primals:
        raise ValueError(_NONE.format(call="linearize"))
    output = fn(*primals)

    def push(*tangents: Any) -> Any:
        return jvp(fn, primals, tangents)[1]

    return output, push


# ---- whole derivatives


def _basis(leaves: list[Tensor]) -> list[Tensor]:
    """The unit vectors of all components of the leaves, for each leaf its part: shape (count, *leaf.shape)."""
    start, count = 0, sum([leaf.size for leaf in leaves])
    parts: list[Tensor] = []
    identity = eye(count, dtype=leaves[0].dtype, device=leaves[0].device)
    for leaf in leaves:
        part: Tensor = slice(identity, 1, start, start + leaf.size, 1)
        parts.append(reshape(part.clone(), (count, *leaf.shape)).astype(leaf.dtype))
        start += leaf.size
    return parts


def _check_real(call: str, leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Tensor) or leaf.dtype.kind not in "fV":
            if isinstance(leaf, Tensor) and leaf.dtype.kind == "c":
                raise NotImplementedError(_COMPLEX.format(call=call, dtype=leaf.dtype))
            raise TypeError(_OUTPUT.format(call=call, got=_described(leaf)))


def jacrev(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``fn`` by reverse mode: shape ``(*output.shape, *input.shape)``.

    One batched backward for all components of the output: the choice for few outputs and many inputs. For trees it
    gives, in the structure of the output, Jacobians in the structure of the input.

    >>> import tenkey as tk
    >>> tk.transforms.jacrev(lambda x: x * x)(tk.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if not callable(fn):
        raise TypeError(_FUNCTION.format(call="jacrev", type=type(fn).__name__))

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = _positions("jacrev", argnums, args)

        def of_chosen(*chosen: Any) -> Any:
            given = list(args)
            for i, value in zip(positions, chosen, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        chosen = [args[i] for i in positions]
        _check_real("jacrev", [leaf for leaf in flatten(chosen) if isinstance(leaf, Tensor)])
        output, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        ends = flatten(output)
        _check_real("jacrev", ends)
        rows = vmap(lambda *g: pullback(unflatten(output, list(g))))(*_basis(ends))
        result, start = [], 0
        for end in ends:
            block = tree_map(functools.partial(_rows, start=start, shape=end.shape, size=end.size), rows)
            result.append(block[0] if isinstance(argnums, int) else block)
            start += end.size
        whole = unflatten(output, result)
        return (whole, aux[0]) if has_aux else whole

    return jacobian


def _rows(rows: Any, start: int, shape: tuple[int, ...], size: int) -> Any:
    if not isinstance(rows, Tensor):
        return rows
    part: Tensor = slice(rows, 0, start, start + size, 1)
    result: Tensor = reshape(part, (*shape, *rows.shape[1:]))
    return result


def jacfwd(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The same by forward mode: one batched push for all components of the inputs, for few inputs and many outputs.

    >>> import tenkey as tk
    >>> tk.transforms.jacfwd(lambda x: tk.sum(x * x))(tk.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    if not callable(fn):
        raise TypeError(_FUNCTION.format(call="jacfwd", type=type(fn).__name__))

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = _positions("jacfwd", argnums, args)
        chosen = tuple([args[i] for i in positions])
        leaves = flatten(chosen)
        _check_real("jacfwd", leaves)

        def of_chosen(*values: Any) -> Any:
            given = list(args)
            for i, value in zip(positions, values, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        def push(*tangents: Tensor) -> Any:
            result = jvp(of_chosen, chosen, unflatten(chosen, list(tangents)), has_aux=has_aux)
            return result[1], (result[2] if has_aux else None)

        columns, aux = vmap(push, out_dims=(-1, None))(*_basis(leaves))

        def of_end(end: Tensor) -> Any:
            found, start = [], 0
            for leaf in leaves:
                piece: Tensor = slice(end, end.ndim - 1, start, start + leaf.size, 1)
                found.append(reshape(piece, (*end.shape[:-1], *leaf.shape)))
                start += leaf.size
            block = unflatten(chosen, found)
            return block[0] if isinstance(argnums, int) else block

        whole = unflatten(columns, [of_end(end) for end in flatten(columns)])
        return (whole, aux) if has_aux else whole

    return jacobian


def hessian(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of ``fn``: forward mode over reverse mode.

    >>> import tenkey as tk
    >>> tk.transforms.hessian(lambda x: tk.sum(x**3))(tk.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(fn, argnums), argnums)
