"""The row vmap: ``tk.transforms.vmap`` against a loop over the elements of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...core.tensor import Tensor
from ...dispatch.tags import Tag
from .derivative_rows import subsets
from .labels import Labelled, quote_all
from .sample import Failure, Sample, Skipped, described, is_deliberate
from .variations import apart, rolled

__all__ = ["check_vmap"]

_RAISES: Final = (
    "vmap over {over} raises {error}, but a loop does not. Correct the function given to register_vmap (in_dims is "
    "{dims})."
)


def check_vmap(sample: Sample) -> str | None:
    """Check all choices of batched tensors, several batch sizes, another batch dimension, and a nested vmap."""
    if not sample.leaves:
        raise Skipped("no tensor argument")
    if Tag.NONDETERMINISTIC in sample.operator.tags:
        raise Skipped("tagged nondeterministic")
    vmap = tk.transforms.vmap
    if not sample.tensor_results(sample.tensors()):
        raise Skipped("no tensor result")
    with tk.no_grad():
        for number, (chosen, size, last) in enumerate(_cases(sample)):
            dims = [(sample.arrays[i].ndim if last else 0) if i in chosen else None for i in range(len(sample.leaves))]
            note = _check(sample, vmap, dims, size, first=not number)
            if note:
                return note
        _check_nested(sample, vmap)
    return None


def _cases(sample: Sample) -> Iterator[tuple[tuple[int, ...], int, bool]]:
    """Yield which tensors are batched, the batch size, and whether the batch dimension is the last."""
    everything = tuple(range(len(sample.leaves)))
    yield everything, 3, False
    yield everything, 1, False
    yield everything, 2, True
    for chosen in subsets(everything):
        if chosen != everything and all(i in chosen for i in everything if sample.leaves[i].mutable):
            yield chosen, 3, False


def _elements(
    sample: Sample, dims: Sequence[int | None], size: int, shift: int = 0
) -> list[list[np.ndarray[Any, Any]]]:
    """Return the arguments of each element: the sample's values, rolled in batched tensors."""
    return [[a if dim is None else rolled(a, n + shift) for a, dim in zip(sample.arrays, dims)] for n in range(size)]


def _function(sample: Sample) -> Any:
    return lambda *tensors: tuple([part.value for part in sample.function(tensors)])


def _loop(sample: Sample, elements: list[list[np.ndarray[Any, Any]]]) -> list[Labelled] | None:
    """Return the stacked results of all elements; None if the operator refuses one or their shapes differ."""
    try:
        results = [sample.evaluate(arrays) for arrays in elements]
    except Exception:
        return None
    if any([p.value.shape for p in one] != [p.value.shape for p in results[0]] for one in results):
        return None
    return [Labelled(parts[0].label, np.stack([p.value for p in parts])) for parts in zip(*results)]


def _check(sample: Sample, vmap: Any, dims: list[int | None], size: int, *, first: bool) -> str | None:
    elements = _elements(sample, dims, size)
    want = _loop(sample, elements)
    if want is None:  # rolled values are refused: use the same ones in every element
        elements = [elements[0]] * size
        want = _loop(sample, elements)
        if want is None:
            raise Skipped("the results of equal calls have different shapes")
    arrays = [
        a if dim is None else np.stack([e[i] for e in elements], dim)
        for i, (a, dim) in enumerate(zip(sample.arrays, dims))
    ]
    over = _over(sample, dims)
    shown = tuple(dims) if len(dims) > 1 else dims[0]
    try:
        got = vmap(_function(sample), in_dims=tuple(dims))(*sample.tensors(arrays))
    except Exception as error:
        if first and "Batch" not in sample.operator.facets and is_deliberate(error) and "vmap" in str(error):
            return f"no batching rule: it is refused ({described(error)})"
        raise Failure(_RAISES.format(over=over, error=described(error), dims=shown)) from error
    _compare(list(got), want, over, str(shown))
    return None


def _over(sample: Sample, dims: Sequence[int | None]) -> str:
    batched = [label for label, dim in zip(sample.labels, dims) if dim is not None]
    rest = [label for label, dim in zip(sample.labels, dims) if dim is None]
    where = "" if all(dim in (0, None) for dim in dims) else " in the last dimension"
    return quote_all(batched) + where + (f" and not over {quote_all(rest)}" if rest else "")


def _compare(got: list[Tensor], want: list[Labelled], over: str, dims: str) -> None:
    for tensor, part in zip(got, want):
        values = np.array(tensor.detach().numpy())
        difference = apart(values, part.value)
        if difference:
            moved = values.shape != part.value.shape and sorted(values.shape) == sorted(part.value.shape)
            why = " The shapes would agree if the batch were in another dimension: check out_dims." if moved else ""
            raise Failure(
                f"vmap over {over} differs from a loop: {part.label} {difference}.{why} Correct the function given to "
                f"register_vmap (in_dims is {dims}; it returns the result and its out_dims)."
            )


def _check_nested(sample: Sample, vmap: Any) -> None:
    """Check a vmap within a vmap, both over all tensors."""
    dims: list[int | None] = [0 for _ in sample.leaves]
    rows = [_elements(sample, dims, 2, shift) for shift in (0, 1)]
    loops = [_loop(sample, row) for row in rows]
    if any(loop is None for loop in loops):
        return
    want = [
        Labelled(parts[0].label, np.stack([p.value for p in parts]))
        for parts in zip(*[loop for loop in loops if loop is not None])
        if len({p.value.shape for p in parts}) == 1
    ]
    arrays = [np.stack([np.stack([element[i] for element in row]) for row in rows]) for i in range(len(dims))]
    over = f"{quote_all(sample.labels)}, nested,"
    try:
        got = vmap(vmap(_function(sample)))(*sample.tensors(arrays))
    except Exception as error:
        raise Failure(_RAISES.format(over=over, error=described(error), dims=tuple(dims))) from error
    _compare(list(got), want, over, str(tuple(dims)))
