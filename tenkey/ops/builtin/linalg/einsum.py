"""Einstein summation by permutations, matrix products and sums: on every backend, with gradients.

First each operand is simplified on its own: a repeated label becomes a diagonal, and a label that occurs neither in
another operand nor in the result is summed. Then operands are contracted in pairs: shared labels that are needed later
are batch dimensions, other shared labels are summed by ``matmul``, and the remaining labels are kept. opt_einsum, if
installed, chooses the order for more than three operands; otherwise the pair with the smallest product is next. The
steps depend on the equation and on the shapes alone, and are kept for the next call. Guarded by
tests/ops/test_einsum.py.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import Any

from ....core.tensor import Tensor
from ...declare import internal_composite
from ...declare.samples import normal
from ..elementwise.arithmetic import multiply
from ..reductions.reduction import sum as sum_
from ..shape.copying import clone
from ..shape.views import broadcast_to, permute_dims, reshape
from .diagonals import diagonal
from .matmul import matmul


def _terms(text: str) -> tuple[list[str], str | None]:
    """Return the terms and the result, which is None if it is implied."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        bare = term.replace("...", "", 1)
        if not (bare.isalpha() or not bare):
            raise ValueError(
                f"[einsum] got {text!r}: terms are letters with at most one '...', separated by commas, and '->' "
                "precedes the result."
            )
    return terms, right if arrow else None


def parse(text: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return the terms and the result with a label for each dimension, including those that ``...`` stands for."""
    terms, result = _terms(text)
    if len(terms) != len(shapes):
        raise ValueError(
            f"[einsum] got {text!r}, which has {len(terms)} terms, and {len(shapes)} operands: give one term for each "
            "operand."
        )
    used = {label for label in text if label.isalpha()}
    free = [label for label in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if label not in used]
    depth = 0
    for index, (term, shape) in enumerate(zip(terms, shapes)):
        named = len(term.replace("...", "", 1))
        if named > len(shape) or (named < len(shape) and "..." not in term):
            raise ValueError(
                f"[einsum] the term {term!r} of {text!r} has {named} labels, but operand {index} has shape {shape}."
            )
        if "..." in term and len(shape) - named > depth:
            depth = len(shape) - named
    if depth > len(free):
        free += [chr(0x100 + i) for i in range(depth)]
    dots = "".join(free[:depth])
    spread = []
    for term, shape in zip(terms, shapes):
        count = len(shape) - len(term.replace("...", "", 1))
        spread.append(term.replace("...", dots[depth - count :]))
    if result is None:
        labels = "".join(terms).replace(".", "")
        return spread, dots + "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    out = result.replace("...", dots)
    if len(set(out)) != len(out):
        raise ValueError(f"[einsum] got {text!r}: the result {result!r} has a label twice.")
    known = set("".join(spread))
    for label in out:
        if label not in known:
            raise ValueError(f"[einsum] got {text!r}: the label {label!r} of the result is in no term.")
    return spread, out


def _sizes(text: str, terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes):
        for label, n in zip(term, shape):
            known = sizes.setdefault(label, n)
            if known not in (n, 1) and n != 1:
                raise ValueError(
                    f"[einsum] the label {label!r} of {text!r} has length {known} in one place and {n} in another."
                )
            if known == 1:
                sizes[label] = n
    return sizes


# ---- steps


class _Value:
    """An operand or an intermediate result while the steps are written down: its place and its shape."""

    __slots__ = ("place", "shape", "steps")

    def __init__(self, steps: _Steps, place: int, shape: tuple[int, ...]) -> None:
        self.steps, self.place, self.shape = steps, place, shape

    def then(self, function: Callable[..., Tensor], shape: Sequence[int], *arguments: Any) -> _Value:
        """Write down a step on this value."""
        return self.steps.add(function, (self,), tuple(shape), arguments)

    def permuted(self, axes: tuple[int, ...]) -> _Value:
        return self.then(permute_dims, [self.shape[i] for i in axes], axes)

    def reshaped(self, shape: tuple[int, ...]) -> _Value:
        return self.then(reshape, shape, shape)

    def spread(self, shape: tuple[int, ...]) -> _Value:
        return self.then(broadcast_to, shape, shape)

    def diagonal(self) -> _Value:
        return self.then(diagonal, self.shape[:-1])

    def summed(self, axes: tuple[int, ...]) -> _Value:
        return self.then(_sum, [n for i, n in enumerate(self.shape) if i not in axes], axes)

    def times(self, other: _Value) -> _Value:
        return self.steps.add(multiply, (self, other), _common(self.shape, other.shape), ())

    def matmul(self, other: _Value) -> _Value:
        shape = (*_common(self.shape[:-2], other.shape[:-2]), self.shape[-2], other.shape[-1])
        return self.steps.add(matmul, (self, other), shape, ())


class _Steps:
    """What an equation does with operands of these shapes: calls, the places of their operands, other arguments.

    Each value is used once, so that it is released as soon as it has been.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.calls: list[tuple[Callable[..., Tensor], int, int | None, tuple[Any, ...]]] = []
        self.operands = [_Value(self, i, shape) for i, shape in enumerate(shapes)]
        self._places = len(shapes)

    def add(
        self, function: Callable[..., Tensor], given: tuple[_Value, ...], shape: tuple[int, ...], arguments: Any
    ) -> _Value:
        """Write down a call, and return its result."""
        second = given[1].place if len(given) > 1 else None
        self.calls.append((function, given[0].place, second, arguments))
        self._places += 1
        return _Value(self, self._places - 1, shape)

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        """Compute the result."""
        values: list[Any] = list(operands)
        for function, i, j, arguments in self.calls:
            x, values[i] = values[i], None
            if j is None:
                values.append(function(x, *arguments))
            else:
                y, values[j] = values[j], None
                values.append(function(x, y))
            x = y = None
        return values[-1]  # type: ignore[no-any-return]


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n if m == 1 else m for m, n in zip(first, second)])


def _sum(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return sum_(x, axis=axes, dtype=x.dtype)


def _without_repeats(x: _Value, term: str) -> tuple[_Value, str]:
    """Take the diagonal over each label that a term repeats."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            i = term.index(label)
            j = term.index(label, i + 1)
            rest = [k for k in range(len(term)) if k not in (i, j)]
            if x.shape[i] != x.shape[j]:  # one of them is 1, which broadcasts
                n = x.shape[i] if x.shape[j] == 1 else x.shape[j]
                x = x.spread(tuple([n if k in (i, j) else m for k, m in enumerate(x.shape)]))
            x = x.permuted((*rest, i, j)).diagonal()
            term = "".join(term[k] for k in rest) + label
    return x, term


def _summed(x: _Value, term: str, wanted: str) -> tuple[_Value, str]:
    """Sum over the labels that are not in ``wanted``."""
    axes = tuple([i for i, label in enumerate(term) if label not in wanted])
    if not axes:
        return x, term
    return x.summed(axes), "".join(label for label in term if label in wanted)


def _arranged(x: _Value, term: str, order: str) -> _Value:
    return x if term == order else x.permuted(tuple([term.index(label) for label in order]))


def _joined(x: _Value, left: str, y: _Value, right: str, wanted: str) -> tuple[_Value, str]:
    """Multiply two operands and sum over the shared labels that are not in ``wanted``."""
    shared = [label for label in left if label in right]
    # a length of 1 broadcasts, but not as the inner length of matmul
    thin = "".join(label for label in shared if x.shape[left.index(label)] != y.shape[right.index(label)])
    summed = "".join(label for label in shared if label not in wanted)
    for label in thin:  # summed in the operand that has it, dropped from the other
        if label in summed:
            x, left = _summed(x, left, left.replace(label, ""))
            y, right = _summed(y, right, right.replace(label, ""))
    summed = "".join(label for label in summed if label not in thin)
    batch = "".join(label for label in left if label in right and label not in summed)
    rows = "".join(label for label in left if label not in right)
    columns = "".join(label for label in right if label not in left)
    if not summed:
        order = batch + rows + columns
        a, b = _arranged(x, left, batch + rows), _arranged(y, right, batch + columns)
        if columns:
            a = a.reshaped((*a.shape, *[1] * len(columns)))
        if rows:
            b = b.reshaped((*b.shape[: len(batch)], *[1] * len(rows), *b.shape[len(batch) :]))
        return a.times(b), order
    a, b = _arranged(x, left, batch + rows + summed), _arranged(y, right, batch + summed + columns)
    k = len(batch)
    inner = prod([x.shape[left.index(label)] for label in summed])
    row_shape, column_shape = a.shape[k : k + len(rows)], b.shape[k + len(summed) :]
    if not len(rows) == 1 == len(summed):
        a = a.reshaped((*a.shape[:k], prod(row_shape), inner))
    if not len(columns) == 1 == len(summed):
        b = b.reshaped((*b.shape[:k], inner, prod(column_shape)))
    made = a.matmul(b)
    shape = made.shape[:k] + row_shape + column_shape
    return (made if made.shape == shape else made.reshaped(shape)), batch + rows + columns


# ---- the order


@functools.cache
def _optimizer() -> Any:
    """Import opt_einsum at the first use; return None if it is not installed."""
    try:
        return importlib.import_module("opt_einsum")
    except ImportError:
        return None


def _next_pair(terms: list[str], result: str, sizes: dict[str, int]) -> tuple[int, int]:
    """Return the pair whose product has the fewest elements."""

    def elements(pair: tuple[int, int]) -> int:
        others = result + "".join(t for k, t in enumerate(terms) if k not in pair)
        return prod([sizes[label] for label in set(terms[pair[0]] + terms[pair[1]]) if label in others])

    return min(combinations(range(len(terms)), 2), key=elements)


def _path(terms: list[str], result: str, sizes: dict[str, int]) -> list[tuple[int, ...]] | None:
    """Return the order that opt_einsum proposes; None if it is not used."""
    if len(terms) < 4:  # the greedy choice is as good, and costs less
        return None
    module = _optimizer()
    if module is None:
        return None
    tree = module.paths.auto([set(t) for t in terms], set(result), sizes)
    return [tuple(sorted(step)) for step in tree]


@functools.lru_cache(maxsize=256)
def _steps(text: str, shapes: tuple[tuple[int, ...], ...]) -> _Steps:
    """Return what the equation does with operands of these shapes."""
    given, result = parse(text, shapes)
    sizes = _sizes(text, given, shapes)
    terms, steps = list(given), _Steps(shapes)
    values = list(steps.operands)
    for i, term in enumerate(terms):
        if len(set(term)) != len(term):
            values[i], terms[i] = _without_repeats(values[i], term)
    for i, term in enumerate(terms):
        if len(terms) == 1 or not all(label in result for label in term):
            others = result + "".join(t for k, t in enumerate(terms) if k != i)
            values[i], terms[i] = _summed(values[i], term, others)
    path = _path(terms, result, sizes)
    while len(values) > 1:
        if path is not None:
            step = path.pop(0)
            if len(step) == 1:
                continue
            if len(step) > 2:  # the remaining operands are joined pair by pair
                path = None
            i, j = step[:2]
        else:
            i, j = (0, 1) if len(values) == 2 else _next_pair(terms, result, sizes)
        y, right = values.pop(j), terms.pop(j)
        x, left = values.pop(i), terms.pop(i)
        joined, term = _joined(x, left, y, right, result + "".join(terms))
        values.append(joined)
        terms.append(term)
    found, term = _summed(values[0], terms[0], result)
    is_view = len(shapes) == 1 and set(term) == set(given[0])
    found = _arranged(found, term, result)
    wanted = tuple([sizes[label] for label in result])
    if found.shape != wanted:
        found, is_view = found.spread(wanted), True
    if is_view:
        found.then(clone, found.shape)
    return steps


_samples = normal(
    ("ij,jk->ik", ([2, 3], [3, 4])), ("ij,jk", ([2, 3], [3, 4])), ("ii", ([3, 3],)), ("ii->i", ([3, 3],)),
    ("ij->ji", ([2, 3],)), ("ij->", ([2, 3],)), ("i,j->ij", ([2], [3])), ("bij,bjk->bik", ([2, 2, 3], [2, 3, 2])),
    ("...ij,...jk->...ik", ([2, 2, 3], [3, 2])), ("i,i,i->i", ([3], [3], [3])), ("ij,jk->ik", ([2, 0], [0, 3])),
    ("ij,kj,lk->il", ([2, 3], [4, 3], [2, 4])), ("aab,b->a", ([2, 2, 3], [3])),
)  # fmt: skip


@internal_composite(
    "einsum(str subscripts, Tensor[] operands) -> Tensor",
    autocast="lower",
    sample_inputs=_samples,
)
def einsum_operator(subscripts: str, operands: Sequence[Tensor]) -> Tensor:
    """Compute ``tk.einsum``."""
    return _steps(subscripts, tuple([x.shape for x in operands])).run(operands)
