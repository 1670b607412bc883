"""Einstein summation, by permutations, products of matrices and sums: on every backend, with gradients.

Note [How einsum contracts]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
First each operand loses what concerns it alone: a label that it has twice becomes a diagonal, one that nobody else has
and the result does not want is summed. Then two operands at a time are joined: labels that both have and that are
wanted later are a batch, those that both have and nobody wants are summed by ``matmul``, the others stay. In which
order they are joined is opt_einsum's to say where it is installed and there are more than three, else the pair is next
whose product is smallest. Guarded by tests/ops/test_einsum.py.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import composite
from ..elementwise.arithmetic import multiply
from ..reductions.reduction import sum as sum_
from ..shape.views import broadcast_to, permute_dims, reshape
from .diagonals import diagonal
from .matmul import matmul

__all__ = ["einsum_of", "parse"]

_TEXT: Final = "[einsum] got {text!r}: {rule}."


def _terms(text: str) -> tuple[list[str], str | None]:
    """The terms and the result, None where the result is implied."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        bare = term.replace("...", "", 1)
        if not (bare.isalpha() or not bare):
            rule = "terms are letters with at most one '...', apart by commas, and '->' before the result"
            raise ValueError(_TEXT.format(text=text, rule=rule))
    return terms, right if arrow else None


@functools.lru_cache(maxsize=256)
def _parsed(text: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[str, ...], str, dict[str, int]]:
    """Terms, result, and the length of each label."""
    terms, result = parse(text, shapes)
    return tuple(terms), result, _sizes(text, terms, shapes)


def parse(text: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The terms and the result with a label for each dimension, also for those that ``...`` stands for."""
    terms, result = _terms(text)
    if len(terms) != len(shapes):
        raise ValueError(
            f"[einsum] got {text!r}, which speaks of {len(terms)} operands, and {len(shapes)}: one term for each "
            "operand."
        )
    used = {label for label in text if label.isalpha()}
    free = [label for label in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if label not in used]
    depth = 0
    for index, (term, shape) in enumerate(zip(terms, shapes)):
        named = len(term.replace("...", "", 1))
        if named > len(shape) or (named < len(shape) and "..." not in term):
            raise ValueError(
                f"[einsum] the term {term!r} of {text!r} has {named} labels, and operand {index} has shape {shape}."
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
        raise ValueError(_TEXT.format(text=text, rule=f"the result {result!r} has a label twice"))
    known = set("".join(spread))
    for label in out:
        if label not in known:
            raise ValueError(_TEXT.format(text=text, rule=f"the label {label!r} of the result is in no term"))
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


def _without_repeats(x: Tensor, term: str) -> tuple[Tensor, str]:
    """The diagonal over each label that a term has twice."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            i = term.index(label)
            j = term.index(label, i + 1)
            rest = [k for k in range(len(term)) if k not in (i, j)]
            if x.shape[i] != x.shape[j]:  # one of them is 1, which broadcasts
                n = x.shape[i] if x.shape[j] == 1 else x.shape[j]
                x = broadcast_to(x, tuple([n if k in (i, j) else m for k, m in enumerate(x.shape)]))
            x = diagonal(permute_dims(x, (*rest, i, j)))
            term = "".join(term[k] for k in rest) + label
    return x, term


def _summed(x: Tensor, term: str, wanted: str) -> tuple[Tensor, str]:
    """The sum over the labels that nobody wants."""
    axes = tuple([i for i, label in enumerate(term) if label not in wanted])
    if not axes:
        return x, term
    total: Tensor = sum_(x, axis=axes, dtype=x.dtype)
    return total, "".join(label for label in term if label in wanted)


def _arranged(x: Tensor, term: str, order: str) -> Tensor:
    return x if term == order else permute_dims(x, tuple([term.index(label) for label in order]))


def _product(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _joined(x: Tensor, left: str, y: Tensor, right: str, wanted: str) -> tuple[Tensor, str]:
    """The product of two operands, summed over what nobody wants."""
    shared = [label for label in left if label in right]
    # a length of 1 broadcasts, and matmul's inner length does not
    thin = "".join(label for label in shared if x.shape[left.index(label)] != y.shape[right.index(label)])
    summed = "".join(label for label in shared if label not in wanted)
    if thin:
        for label in thin:
            if label in summed:
                if x.shape[left.index(label)] == 1:
                    y, right = _summed(y, right, right.replace(label, ""))
                    x, left = _dropped(x, left, label)
                else:
                    x, left = _summed(x, left, left.replace(label, ""))
                    y, right = _dropped(y, right, label)
        summed = "".join(label for label in summed if label not in thin)
    batch = "".join(label for label in left if label in right and label not in summed)
    rows = "".join(label for label in left if label not in right)
    columns = "".join(label for label in right if label not in left)
    if not summed:
        order = batch + rows + columns
        a, b = _arranged(x, left, batch + rows), _arranged(y, right, batch + columns)
        if rows and columns:
            a = reshape(a, (*a.shape, *[1] * len(columns)))
            lengths = b.shape
            b = reshape(b, (*lengths[: len(batch)], *[1] * len(rows), *lengths[len(batch) :]))
        elif columns and not rows:
            a = reshape(a, (*a.shape, *[1] * len(columns)))
        elif rows:
            b = reshape(b, (*b.shape, *[1] * len(rows)))
        return multiply(a, b), order
    a, b = _arranged(x, left, batch + rows + summed), _arranged(y, right, batch + summed + columns)
    k = len(batch)
    inner = _product([x.shape[left.index(label)] for label in summed])
    row_shape, column_shape = a.shape[k : k + len(rows)], b.shape[k + len(summed) :]
    a = _as_matrices(a, k, _product(row_shape), inner, keep=len(rows) == 1 == len(summed))
    b = _as_matrices(b, k, inner, _product(column_shape), keep=len(columns) == 1 == len(summed))
    made: Tensor = matmul(a, b)
    shape = made.shape[:k] + row_shape + column_shape
    return (made if made.shape == shape else reshape(made, shape)), batch + rows + columns


def _as_matrices(x: Tensor, batch: int, m: int, n: int, *, keep: bool) -> Tensor:
    return x if keep else reshape(x, (*x.shape[:batch], m, n))


def _dropped(x: Tensor, term: str, label: str) -> tuple[Tensor, str]:
    """Without a dimension of length 1."""
    i = term.index(label)
    return reshape(x, x.shape[:i] + x.shape[i + 1 :]), term[:i] + term[i + 1 :]


# ---- the order


def _optimizer() -> Any:
    """opt_einsum, imported when it is first wanted; None where it is not installed."""
    global _opt_einsum  # remembered once
    if _opt_einsum is False:
        try:
            _opt_einsum = importlib.import_module("opt_einsum")
        except ImportError:
            _opt_einsum = None
    return _opt_einsum


_opt_einsum: Any = False


def _next_pair(terms: list[str], result: str, sizes: dict[str, int]) -> tuple[int, int]:
    """The pair whose product has the fewest elements."""
    best: tuple[int, int, int] | None = None
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            others = result + "".join(t for k, t in enumerate(terms) if k not in (i, j))
            cost = _product([sizes[label] for label in set(terms[i] + terms[j]) if label in others])
            if best is None or cost < best[0]:
                best = (cost, i, j)
    assert best is not None
    return best[1], best[2]


def _path(terms: list[str], result: str, sizes: dict[str, int]) -> list[tuple[int, ...]] | None:
    """What opt_einsum proposes."""
    if len(terms) < 4:  # the greedy choice is as good, and costs less
        return None
    module = _optimizer()
    if module is None:
        return None
    tree = module.paths.auto([set(t) for t in terms], set(result), sizes)
    return [tuple(sorted(step)) for step in tree]


def einsum_of(text: str, operands: Sequence[Tensor]) -> Tensor:
    """What ``tk.einsum`` computes."""
    given, result, sizes = _parsed(text, tuple([x.shape for x in operands]))
    terms = list(given)
    tensors = list(operands)
    for i, term in enumerate(terms):
        if len(set(term)) != len(term):
            tensors[i], terms[i] = _without_repeats(tensors[i], term)
    for i, term in enumerate(terms):
        if len(terms) == 1 or not all(label in result for label in term):
            others = result + "".join(t for k, t in enumerate(terms) if k != i)
            tensors[i], terms[i] = _summed(tensors[i], term, others)
    path = _path(terms, result, sizes)
    while len(tensors) > 1:
        if path is not None:
            step = path.pop(0)
            pairs = [step[:2]] if len(step) > 1 else []
            if len(step) > 2:  # what is left over is joined one by one
                path = None
            if not pairs:
                continue
            i, j = step[0], step[1]
        else:
            i, j = (0, 1) if len(tensors) == 2 else _next_pair(terms, result, sizes)
        y, right = tensors.pop(j), terms.pop(j)
        x, left = tensors.pop(i), terms.pop(i)
        joined, term = _joined(x, left, y, right, result + "".join(terms))
        tensors.append(joined)
        terms.append(term)
    found, term = _summed(tensors[0], terms[0], result)
    is_view = len(operands) == 1 and set(term) == set(given[0])
    found = _arranged(found, term, result)
    wanted = tuple([sizes[label] for label in result])
    if found.shape != wanted:
        found, is_view = broadcast_to(found, wanted), True
    return found.clone() if is_view else found


def _samples(rng: np.random.Generator) -> Any:
    return [
        ((text, [rng.standard_normal(shape) for shape in shapes]), {})
        for text, shapes in (
            ("ij,jk->ik", [(2, 3), (3, 4)]),
            ("ij,jk", [(2, 3), (3, 4)]),
            ("ii", [(3, 3)]),
            ("ii->i", [(3, 3)]),
            ("ij->ji", [(2, 3)]),
            ("ij->", [(2, 3)]),
            ("i,j->ij", [(2,), (3,)]),
            ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]),
            ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
            ("i,i,i->i", [(3,), (3,), (3,)]),
            ("ij,kj,lk->il", [(2, 3), (4, 3), (2, 4)]),
            ("aab,b->a", [(2, 2, 3), (3,)]),
            ("ij,jk->ik", [(2, 0), (0, 3)]),
        )
    ]


@composite(
    "einsum(str subscripts, Tensor[] operands) -> Tensor",
    sample_inputs=_samples,
    reference=lambda subscripts, operands: np.einsum(subscripts, *operands),
    tags=(Tag.INTERNAL,),
)
def einsum_operator(subscripts: str, operands: Sequence[Tensor]) -> Tensor:
    """The operator behind ``tk.einsum``."""
    return einsum_of(subscripts, operands)
