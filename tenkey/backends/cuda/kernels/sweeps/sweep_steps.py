"""The sweeps of an operator in the form that a kernel computes: what is stored, and sweeps that can be made at once.

Note [Sweeps of long rows]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A row that the registers of a block do not hold is read by every sweep. Two pairs of sweeps become one. The largest
element, and the sum of exponentials of the distances from it, are a *running sum*: where a larger element appears, the
sum so far is multiplied by the exponential of the difference (Milakov and Gimelshein 2018). The mean, and the sum of
squared distances from it, are *running moments*: parts are joined with their counts (Chan, Golub and LeVeque 1979).
Values that a sweep would leave in memory for the next one are computed again. Guarded by
``tests/backends/cuda/kernels/sweeps/test_sweep_steps.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .....ops.scalar import Expression, free_variables, make, substitute, variable
from ....external.scalar_function import RowFunction, RowSweep, ScalarFunction

__all__ = ["Fold", "Step", "kept_rows", "of_long_rows", "of_registers"]


class Fold(NamedTuple):
    """A number of the row, or two that are combined together.

    ``way`` is "add", "maximum" or "minimum"; "running_sum", of the largest ``element``, called ``name``, and the sum
    ``other`` of exponentials of the distances from ``origin``; or "moments", of the sum ``name`` of the elements and
    the sum ``other`` of their squared distances from the mean.
    """

    name: str
    way: str
    element: ScalarFunction
    other: str = ""
    origin: str = ""


class Step(NamedTuple):
    """One sweep: values of the elements, folds, and numbers that follow; ``stored`` are the values that are results."""

    elements: tuple[tuple[str, ScalarFunction], ...]
    folds: tuple[Fold, ...]
    then: tuple[tuple[str, ScalarFunction], ...]
    stored: frozenset[str]
    columns: tuple[tuple[str, ScalarFunction], ...] = ()  # values of the elements that are summed over the rows

    def used(self) -> set[str]:
        """Return the names that the functions of the elements use."""
        functions = [*[f for _, f in (*self.elements, *self.columns)], *[fold.element for fold in self.folds]]
        return {name for f in functions for name in f.parameters}


def of_registers(function: RowFunction) -> list[Step]:
    """Return the sweeps as they are declared, for elements that stay in registers."""
    return [
        Step(one.elements, tuple([Fold(*fold) for fold in one.folds]), one.then, _last(function, k), one.columns)
        for k, one in enumerate(function.sweeps)
    ]


def kept_rows(function: RowFunction) -> int:
    """Return how many values of each element are in registers between two sweeps, at most."""
    rows = {array.name for array in function.inputs if array.role == "row"}
    live: set[str] = set()
    most = 1
    for one in reversed(of_registers(function)):
        most = max(most, len(live))
        made: set[str] = set()
        for name, f in one.elements:
            made |= {name} - set(f.parameters)
        inner = {name for name, _ in one.elements}
        live = (live - made) | (one.used() & (rows | (inner - made)))
    return most


def of_long_rows(function: RowFunction) -> list[Step]:
    """Return as few sweeps as possible, each of which computes what it needs from the inputs."""
    known: dict[str, Expression] = {}
    steps: list[Step] = []
    for k, one in enumerate(function.sweeps):
        stored = _last(function, k)
        elements = []
        for name, f in one.elements:
            known[name] = substitute(f.expression, known)
            if name in stored:
                elements.append((name, _again(f, known[name])))
        folds = tuple([Fold(name, way, _again(f, substitute(f.expression, known))) for name, way, f in one.folds])
        steps.append(Step(tuple(elements), folds, one.then, stored))
        if len(steps) > 1:
            steps[-2:] = _paired(*steps[-2:])
    return steps


def _last(function: RowFunction, k: int) -> frozenset[str]:
    """Return the results among the values of a sweep that no later sweep computes again."""
    results = {array.name for array in function.results if array.role == "row"}

    def named(sweeps: Iterable[RowSweep]) -> set[str]:
        return {name for one in sweeps for name, _ in one.elements}

    return frozenset((results & named(function.sweeps[k : k + 1])) - named(function.sweeps[k + 1 :]))


def _again(f: ScalarFunction, expression: Expression) -> ScalarFunction:
    """Return a function with another expression."""
    return ScalarFunction(f.name, tuple(sorted(free_variables(expression))), expression, f.dtype)


def _paired(first: Step, second: Step) -> list[Step]:
    """Make one sweep of two whose folds can be combined together, else return both."""
    if first.elements or second.elements or not second.folds:
        return [first, second]
    own = {fold.name for fold in first.folds} | {name for name, _ in first.then}
    folds, then = [*first.folds], [*first.then]
    for fold in second.folds:
        if not own & set(fold.element.parameters):
            folds.append(fold)
            continue
        for k, other in enumerate(folds):
            joined = _running_sum(first, other, fold) or _moments(first, other, fold)
            if joined is not None and not other.other:
                folds[k] = joined
                break
        else:
            return [first, second]
    return [Step((), tuple(folds), (*then, *second.then), frozenset())]


def _running_sum(step: Step, largest: Fold, total: Fold) -> Fold | None:
    """Return the two as one if ``total`` sums exponentials of distances from a number that follows from the largest."""
    if largest.way != "maximum" or total.way != "add":
        return None
    follows = {name for name, f in step.then if set(f.parameters) <= {largest.name}}
    for origin in (largest.name, *sorted(follows)):
        if total.element.expression is make("exp", make("subtract", largest.element.expression, variable(origin))):
            return largest._replace(way="running_sum", other=total.name, origin=origin)
    return None


def _moments(step: Step, total: Fold, squares: Fold) -> Fold | None:
    """Return the two as one if ``squares`` sums squared distances from the mean."""
    if total.way != squares.way or total.way != "add":
        return None
    mean = make("divide", variable(total.name), variable("count"))
    for name, f in step.then:
        distance = make("subtract", total.element.expression, variable(name))
        if f.expression is mean and squares.element.expression is make("square", distance):
            return total._replace(way="moments", other=squares.name, origin=name)
    return None
