"""Jacobians by reverse and by forward mode, and Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..core.tree import flatten, tree_map, unflatten
from ..core.wrapper import class_of
from ..ops.builtin.creation import eye
from ..ops.builtin.shape.views import reshape, slice
from .batching.mapping import vmap
from .forward import jvp
from .reverse import vjp
from .trace import as_inputs, check_function, in_class, positions_of, refuse_input, refuse_output, with_chosen

__all__ = ["hessian", "jacfwd", "jacrev"]


def _basis(leaves: list[Tensor]) -> list[Tensor]:
    """Return the unit vectors of all components of the leaves; the part of a leaf has shape (count, *leaf.shape)."""
    count = sum([leaf.size for leaf in leaves])
    identity = eye(count, dtype=leaves[0].dtype, device=leaves[0].device)
    return [part.astype(leaf.dtype) for leaf, part in zip(leaves, _blocks(identity, 1, leaves))]


def _blocks(x: Tensor, axis: int, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Split an axis that counts the components of all leaves into one block per leaf, in the leaf's shape."""
    blocks, start = [], 0
    for leaf in leaves:
        part = slice(x, axis, start, start + leaf.size, 1)
        blocks.append(reshape(part, (*x.shape[:axis], *leaf.shape, *x.shape[axis + 1 :])))
        start += leaf.size
    return blocks


def _check_inputs(call: str, positions: Sequence[int], chosen: Sequence[Any], all_tensors: bool) -> None:
    for index, part in zip(positions, chosen, strict=True):
        leaves = flatten(part)
        if not all_tensors:
            leaves = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for leaf in leaves or [part]:
            if not isinstance(leaf, Tensor) or leaf.dtype.kind not in "fV":
                _refuse_complex(call, "inputs", leaf)
                refuse_input(call, index, leaf)


def _refuse_complex(call: str, what: str, leaf: Any) -> None:
    if isinstance(leaf, Tensor) and leaf.dtype.kind == "c":
        raise NotImplementedError(
            f"[{call}] Expected all {what} to be real but received complex tensor of dtype {leaf.dtype}: use vjp or "
            "jvp with chosen directions."
        )


def jacrev(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fn`` by reverse mode: ``(*output.shape, *input.shape)``.

    It runs one batched backward for all components of the output, which suits few outputs and many inputs. For trees
    the result has the structure of the output, with Jacobians in the structure of the input in it. ``chunk_size`` is
    the number of components of the output in one backward.

    >>> tk.transforms.jacrev(lambda x: x * x)(tk.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return _by_rows("jacrev", fn, argnums, has_aux, chunk_size)


def _by_rows(
    call: str, fn: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, chunk_size: int | None
) -> Callable[..., Any]:
    check_function(call, fn)

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(call, argnums, args)
        chosen = as_inputs([args[i] for i in positions])
        of_chosen = with_chosen(fn, args, kwargs, positions)
        _check_inputs(call, positions, chosen, False)
        output, pullback, *aux = vjp(lambda *values: of_chosen(values), *chosen, has_aux=has_aux)
        ends = flatten(output)
        for end in ends or [output]:
            if not isinstance(end, Tensor) or end.dtype.kind not in "fV":
                _refuse_complex(call, "outputs", end)
                refuse_output(call, end)
        rows = vmap(lambda *g: pullback(unflatten(output, list(g))), chunk_size=chunk_size)(*_basis(ends))
        columns = [_blocks(x, 0, ends) if isinstance(x, Tensor) else [x] * len(ends) for x in flatten(rows)]
        result = [unflatten(rows, list(block)) for block in zip(*columns, strict=True)]
        kind = class_of(flatten(chosen))
        if kind is not Tensor:
            result = tree_map(lambda x: in_class(x, kind), result)
        whole = unflatten(output, [block[0] if isinstance(argnums, int) else block for block in result])
        return (whole, aux[0]) if has_aux else whole

    return jacobian


def jacfwd(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fn`` by forward mode, as :func:`jacrev` does by reverse mode.

    It runs one batched push for all components of the inputs, which suits few inputs and many outputs. ``randomness``
    and ``chunk_size`` are those of :func:`vmap` over the components of the inputs.

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
    check_function(call, fn)

    @functools.wraps(fn)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(call, argnums, args)
        chosen = tuple(as_inputs([args[i] for i in positions]))
        of_chosen = with_chosen(fn, args, kwargs, positions)
        leaves = flatten(chosen)
        _check_inputs(call, positions, chosen, True)

        def push(*tangents: Tensor) -> Any:
            result = jvp(lambda *v: of_chosen(v), chosen, unflatten(chosen, list(tangents)), has_aux=has_aux)
            if not flatten(result[1]):
                refuse_output(call, result[1])
            return result[1], (result[2] if has_aux else None)

        columns, aux = vmap(push, 0, (-1, None), randomness, chunk_size=chunk_size)(*_basis(leaves))
        kind = class_of(leaves)
        blocks = [
            unflatten(chosen, [in_class(block, kind) for block in _blocks(end, end.ndim - 1, leaves)])
            for end in flatten(columns)
        ]
        whole = unflatten(columns, [block[0] if isinstance(argnums, int) else block for block in blocks])
        return (whole, aux) if has_aux else whole

    return jacobian


def hessian(fn: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of ``fn``: forward mode over reverse mode.

    >>> tk.transforms.hessian(lambda x: tk.sum(x**3))(tk.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return _by_columns("hessian", _by_rows("hessian", fn, argnums, False, None), argnums, False, "error", None)
