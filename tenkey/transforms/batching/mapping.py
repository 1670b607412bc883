"""``vmap``: turn a function of one sample into a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.random.generator import Generator, GeneratorState, note_draws
from ...core.tensor import Tensor, from_host
from ...core.tree import broadcast_prefix, flatten, tree_map, unflatten
from ...core.word import DTYPE_TRAIT
from ...core.wrapper import class_of, classed, from_scalar
from ...dispatch.keys import DispatchKey
from ...ops.builtin.shape.copying import concatenate
from ...ops.builtin.shape.views import broadcast_to, slice
from ..trace import in_class
from . import function_rule as _functions  # noqa: F401  # the rules of batching, which put themselves into its tables
from . import rules as _rules  # noqa: F401
from .level import BatchLevel, move

__all__ = ["vmap"]


def vmap(
    fn: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies ``fn`` to every sample of a batch, calling each operator once for the whole batch.

    Args: fn: takes and returns tensors of one sample, in nested lists, tuples, dicts and records; in_dims: the
    dimension of each input that counts the samples, None for an input that all samples share; one int for all inputs,
    or a structure like that of the inputs; out_dims: the position of this dimension in the results; randomness:
    ``"error"``, ``"different"`` or ``"same"`` random numbers for the samples; chunk_size: the number of samples
    computed at once, which bounds the memory and changes no random number. Keyword arguments are shared by all samples.

    Raises ValueError for dimensions that do not fit, and RuntimeError where ``fn`` needs the value of a sample
    (``if``, ``item()``): use ``tk.where``.

    >>> rows = tk.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> tk.transforms.vmap(lambda row: row / tk.sum(row))(rows).shape
    (2, 2)
    >>> tk.transforms.vmap(tk.matmul, in_dims=(0, None))(rows, tk.asarray([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    if not callable(fn):
        raise TypeError(f"[vmap] the first argument is a function, got {fn!r} of type {type(fn).__name__}.")
    if randomness not in ("error", "different", "same"):
        raise ValueError(
            f"[vmap] Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness!r}."
        )
    given: Any = chunk_size
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise ValueError(f"[vmap] chunk_size should be None or greater than 0, an int, got {chunk_size!r}.")
    name = getattr(fn, "__name__", type(fn).__name__)
    if isinstance(in_dims, bool) or not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"[vmap] ({name}) expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims).__name__}."
        )
    for dim in flatten(out_dims):
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise ValueError(
                f"[vmap] ({name}) `out_dims` must be an int, None or a tuple of them like the results, got {dim!r}."
            )

    @functools.wraps(fn)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims = _inputs(name, in_dims, args)
        sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
        if not sizes:
            raise ValueError(
                f"[vmap] ({name}, in_dims={in_dims}) nothing to map over: at least one input must have an in_dim that "
                "is not None, and hold a tensor."
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"[vmap] Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for "
                "the mapped dimension."
            )
        if chunk_size is not None and chunk_size < sizes[0]:
            result = in_chunks(sizes[0], leaves, dims, args, kwargs)
        else:
            result = at_once(BatchLevel(sizes[0], randomness), leaves, dims, args, kwargs)
        kind = class_of(leaves)
        return result if kind is Tensor else tree_map(lambda x: in_class(x, kind), result)

    def at_once(level: BatchLevel, leaves: list[Any], dims: list[int | None], args: Any, kwargs: dict[str, Any]) -> Any:
        def run(level: BatchLevel) -> Any:
            level.shown.update(map(id, leaves))
            pairs = zip(leaves, dims, strict=True)
            given = [x if dim is None else classed(level.batch(x, dim), x.__class__) for x, dim in pairs]
            return fn(*unflatten(args, given), **kwargs)

        result = level.run(run, include=DispatchKey.VmapMode.mask)
        ends = broadcast_prefix(out_dims, result, what=f"[vmap] ({name}) out_dims", of="the results")
        return unflatten(result, [_output(level, name, leaf, dim) for leaf, dim in zip(flatten(result), ends)])

    def in_chunks(size: int, leaves: list[Any], dims: list[int | None], args: Any, kwargs: dict[str, Any]) -> Any:
        parts = []
        before: dict[Generator, GeneratorState] = {}  # each chunk begins where the first one did: Note [Random chunks]
        drawn: list[dict[Generator, int]] = []
        for start in range(0, size, chunk_size or size):
            stop = min(size, start + (chunk_size or size))
            for generator, state in before.items():
                generator.set_state(state)
            given = [
                x if dim is None else in_class(slice(x, dim, start, stop, 1), x.__class__)
                for x, dim in zip(leaves, dims, strict=True)
            ]
            level = BatchLevel(stop - start, randomness, start, size, drawn)
            restore = note_draws(before)
            try:
                parts.append(at_once(level, given, dims, args, kwargs))
            finally:
                restore()
        ends = broadcast_prefix(out_dims, parts[0], what=f"[vmap] ({name}) out_dims", of="the results")
        columns = zip(*[flatten(part) for part in parts], strict=True)
        joined = [
            concatenate(list(column), axis=dim) if isinstance(column[0], Tensor) and dim is not None else column[0]
            for column, dim in zip(columns, ends, strict=True)
        ]
        return unflatten(parts[0], joined)

    return mapped


def _inputs(name: str, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[int | None]]:
    """Return the leaves of the inputs and the batch dimension of each, counted from the front."""
    leaves = flatten(args)
    if not leaves:
        raise ValueError(
            f"[vmap] ({name}) got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    wanted = broadcast_prefix(in_dims, args, what=f"[vmap] ({name}) in_dims", of="the inputs")
    dims: list[int | None] = []
    for index, (leaf, dim) in enumerate(zip(leaves, wanted, strict=True)):
        if dim is None or leaf is None:
            dims.append(None)
            continue
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(
                f"[vmap] ({name}, in_dims={in_dims}) Got in_dim={dim!r} for an input but in_dim must be either an "
                "integer dimension or None."
            )
        if isinstance(leaf, np.ndarray) and leaf.dtype in DTYPE_TRAIT:
            leaf = leaves[index] = from_host(leaf)
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"[vmap] ({name}, in_dims={in_dims}) Got in_dim={dim} for an input but the input is of "
                f"type {type(leaf).__name__}. We cannot vmap over non-Tensor arguments, please use None as the "
                "respective in_dim (tk.asarray makes a tensor of numbers)."
            )
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(
                f"[vmap] ({name}, in_dims={in_dims}) Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
            )
        dims.append(dim % leaf.ndim)
    return leaves, dims


def _output(level: BatchLevel, name: str, leaf: Any, dim: int | None) -> Any:
    """Return a result as seen outside, with the batch dimension at ``dim``."""
    leaf = leaf if dim is None else from_scalar(leaf)
    if not isinstance(leaf, Tensor):
        if dim is None or leaf is None:
            return leaf
        raise ValueError(
            f"[vmap] ({name}) must only return Tensors, got type {type(leaf).__name__}. Set out_dims to None for other "
            "results."
        )
    value, own = level.split(leaf)
    if dim is None:
        if own is not None:
            raise ValueError(
                f"[vmap] ({name}) can not return a batched tensor when out_dim is None: it has a value for every "
                "sample."
            )
        return value
    if own is None:
        value, own = broadcast_to(value, (level.size, *value.shape)), 0
    ndim = value.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"[vmap] ({name}) out_dim={dim} for a result of shape {leaf.shape}: with the batch dimension it "
            f"has {ndim} dimensions, so it must satisfy -{ndim} <= out_dim < {ndim}."
        )
    return move(value, own, dim % ndim)
