"""Whole derivatives: Jacobians by reverse and by forward mode, Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..core.tree import flatten, tree_map, unflatten
from ..ops.builtin.creation import eye
from ..ops.builtin.shape.views import reshape, slice
from .batching.mapping import vmap
from .forward import jvp
from .reverse import vjp
from .trace import FUNCTION, NO_TENSOR, OUTPUT, described, positions_of

__all__ = ["hessian", "jacfwd", "jacrev"]


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


def _check_inputs(call: str, positions: Sequence[int], chosen: Sequence[Any], all_tensors: bool) -> None:
    for index, part in zip(positions, chosen, strict=True):
        leaves = flatten(part)
        if not all_tensors:
            leaves = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for leaf in leaves or [part]:
            if not isinstance(leaf, Tensor) or leaf.dtype.kind not in "fV":
                _refuse_complex(call, "inputs", leaf)
                raise TypeError(NO_TENSOR.format(call=call, index=index, got=described(leaf)))


def _check_outputs(call: str, output: Any) -> None:
    for leaf in flatten(output) or [output]:
        if not isinstance(leaf, Tensor) or leaf.dtype.kind not in "fV":
            _refuse_complex(call, "outputs", leaf)
            raise TypeError(OUTPUT.format(call=call, got=described(leaf)))


def _refuse_complex(call: str, what: str, leaf: Any) -> None:
    if isinstance(leaf, Tensor) and leaf.dtype.kind == "c":
        raise NotImplementedError(
            f"[{call}] Expected all {what} to be real but received complex tensor of dtype {leaf.dtype}: use vjp or "
            "jvp with chosen directions."
        )


def jacrev(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of ``fn`` by reverse mode: shape ``(*output.shape, *input.shape)``.

    One batched backward for all components of the output: the choice for few outputs and many inputs. For trees it
    gives, in the structure of the output, Jacobians in the structure of the input. ``chunk_size``: how many components
    of the output go backward at once.

    >>> import tenkey as tk
    >>> tk.transforms.jacrev(lambda x: x * x)(tk.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return _by_rows("jacrev", fn, argnums, has_aux, chunk_size)


def _by_rows(
    call: str, fn: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, chunk_size: int | None
) -> Callable[..., Any]:
    if not callable(fn):
        raise TypeError(FUNCTION.format(call=call, type=type(fn).__name__))

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(call, argnums, args)

        def of_chosen(*chosen: Any) -> Any:
            given = list(args)
            for i, value in zip(positions, chosen, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        chosen = [args[i] for i in positions]
        _check_inputs(call, positions, chosen, False)
        output, pullback, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        ends = flatten(output)
        _check_outputs(call, output)
        rows = vmap(lambda *g: pullback(unflatten(output, list(g))), chunk_size=chunk_size)(*_basis(ends))
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
    return reshape(part, (*shape, *rows.shape[1:]))


def jacfwd(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The same by forward mode: one batched push for all components of the inputs, for few inputs and many outputs.

    ``randomness`` and ``chunk_size`` are those of :func:`vmap` over the components of the inputs.

    >>> import tenkey as tk
    >>> tk.transforms.jacfwd(lambda x: tk.sum(x * x))(tk.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    return _by_columns("jacfwd", fn, argnums, has_aux, randomness, chunk_size)


def _by_columns(
    call: str,
    fn: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    randomness: str,
    chunk_size: int | None,
) -> Callable[..., Any]:
    if not callable(fn):
        raise TypeError(FUNCTION.format(call=call, type=type(fn).__name__))

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(call, argnums, args)
        chosen = tuple([args[i] for i in positions])
        leaves = flatten(chosen)
        _check_inputs(call, positions, chosen, True)

        def of_chosen(*values: Any) -> Any:
            given = list(args)
            for i, value in zip(positions, values, strict=True):
                given[i] = value
            return fn(*given, **kwargs)

        def push(*tangents: Tensor) -> Any:
            result = jvp(of_chosen, chosen, unflatten(chosen, list(tangents)), has_aux=has_aux)
            if not flatten(result[1]):
                raise TypeError(OUTPUT.format(call=call, got=described(result[1])))
            return result[1], (result[2] if has_aux else None)

        columns, aux = vmap(push, 0, (-1, None), randomness, chunk_size=chunk_size)(*_basis(leaves))

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
    return _by_columns("hessian", _by_rows("hessian", fn, argnums, False, None), argnums, False, "error", None)
