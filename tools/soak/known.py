"""Differences from the references that are documented: what is not reported, and why."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .programs import Program, used

__all__ = ["DIFFERENCES", "Difference", "known"]


class Difference(NamedTuple):
    """A difference in programs that have one of the operators (empty: any), by the kind and text of the outcome."""

    operators: tuple[str, ...]
    kind: str
    text: str
    reason: str


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference((), "refused here", "modified by an inplace operation", "the libraries save other values for backward"),
    Difference((), "refused here", "not batched and '.*' is", "vmap: a value shared by samples takes none of one"),
    Difference(
        ("assign", "assign_sum", "assign_rows", "copy_"), "refused here", "dtype complex.* cannot be written into",
        "an imaginary part is not dropped silently",
    ),
    Difference(
        ("einsum", "einsum_sum", "matmul", "matmul_transposed"), "wrong dtype", "expected (float|complex)(32|64)",
        "PyTorch accepts operands of several dtypes only without elements, and then returns the dtype of one of them",
    ),
    Difference(
        ("copysign",), "wrong value", r"\((backward|second|jvp|jvp of grad|vmap of grad)\)",
        "the derivative of copysign(x, y) at x = 0 is 0, as in PyTorch, where that of copysign(x, x) = x is 1",
    ),
    # What PyTorch refuses, too, where NumPy is the reference:
    Difference((), "refused here", "a view of a leaf Variable that requires grad", "NumPy has no leaves"),
    Difference(("copy_",), "refused here", r"does not fit into|cannot be broadcast to", "NumPy drops leading axes"),
)  # fmt: skip


def known(program: Program, kind: str, text: str) -> str:
    """Return the reason for a known difference, or an empty text."""
    names = set(used(program))
    for difference in DIFFERENCES:
        fits = not difference.operators or names & set(difference.operators)
        if fits and difference.kind == kind and re.search(difference.text, text):
            return difference.reason
    return ""
