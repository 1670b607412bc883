"""Sweeps over rows as code: what ``row_sweeps.py`` writes for the facet ``Rows`` of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....._util.cached_attribute import cached_property
from ....._util.record import Record
from .....ops.declare.sweeps import Rows, Sweep
from .....ops.scalar import free_variables, indices, maximum, minimum, trace, variable
from ....llvm import Type, Value, cast, i32, iota, load, of_dtype, pointer, splat, store
from ..expressions import ScalarLoop, to_loop

__all__ = ["Fold", "Place", "RowProgram"]

_INDEX: Final = "index_0"
_NEUTRAL: Final = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}


class Place(Record):
    """An array of a program: a tensor or a result."""

    name: str
    role: str  # row, each (a number for each row), column (shared by rows), group (sums over groups of rows)
    slot: int | None  # of the number that is read from it
    result_slot: int | None  # of the number that is stored into it


class Fold(Record):
    """A number that a sweep combines from the elements of a row."""

    name: str
    slot: int
    neutral: float
    combine: ScalarLoop
    element: ScalarLoop


class RowProgram:
    """The sweeps of an operator in one dtype; ``missing``: optional tensors that a call leaves out."""

    def __init__(self, facet: Rows, missing: frozenset[str], dtype: np.dtype) -> None:
        self.dtype = dtype
        self.type: Type = of_dtype(dtype)
        self.constants = {name: facet.defaults[name] for name in missing}
        self._slots: dict[str, int] = {}
        self.tensors = tuple([name for name in facet.tensors if name not in missing])
        self.numbers = tuple([self._slot(name) for name in ("count", *facet.numbers)])
        scalars = {name for sweep in facet.sweeps for name in (*sweep.folds, *sweep.then)}
        inputs = [
            Place(name, facet.tensors[name], self._slot(name) if facet.tensors[name] == "each" else None, None)
            for name in self.tensors
        ]
        for name in sorted(scalars):
            self._slot(name)
        outputs = [
            Place(name, "group" if role == "column" else role, None, self._slots[name] if role == "each" else None)
            for name, role in facet.results.items()
        ]
        self.arrays = (*inputs, *outputs)
        self.steps = range(len(facet.sweeps))
        self.folds = [self._folds_of(sweep) for sweep in facet.sweeps]  # the numbers that each sweep combines
        self._loops = [
            tuple({name: self._loop(f) for name, f in group.items()} for group in (s.elements, s.columns, s.then))
            for s in facet.sweeps
        ]

    def _slot(self, name: str) -> int:
        return self._slots.setdefault(name, len(self._slots))

    def _folds_of(self, sweep: Sweep) -> list[Fold]:
        a, b = variable("a"), variable("b")
        ways = {"add": a + b, "maximum": maximum(a, b), "minimum": minimum(a, b)}
        return [
            Fold(name, self._slots[name], _NEUTRAL[way], to_loop(ways[way], ("a", "b"), self.dtype), self._loop(f))
            for name, (way, f) in sweep.folds.items()
        ]

    def _loop(self, function: Callable[..., Any]) -> ScalarLoop:
        names = tuple(function.__code__.co_varnames[: function.__code__.co_argcount])
        return to_loop(trace(lambda T: function, names, name="sweep"), names, self.dtype)

    @cached_property
    def key(self) -> str:
        """A text that determines the code."""
        folds = [(f.name, f.slot, f.neutral, f.combine.key, f.element.key) for fs in self.folds for f in fs]
        loops = [[[(name, f.key) for name, f in group.items()] for group in groups] for groups in self._loops]
        places = [(p.name, p.role, p.slot, p.result_slot) for p in self.arrays]
        return repr((self.dtype.name, places, self.constants, self.numbers, folds, loops, sorted(self._slots.items())))

    # ---- what the template calls while it is translated

    def unrolled(self, step: int) -> int:
        """Return how many vectors a turn of a sweep takes: fewer if it computes much for each."""
        return 2 if self._loops[step][0] else 4

    def neutrals(self, step: int, count: int, lanes: int) -> list[Value]:
        """Return the first values of the accumulators, ``count`` for each fold."""
        return [splat(self.type(fold.neutral), lanes) for fold in self.folds[step] for _ in range(count)]

    def _used(self, step: int) -> set[str]:
        elements, columns, _ = self._loops[step]
        loops = [*elements.values(), *columns.values(), *[fold.element for fold in self.folds[step]]]
        return {name for f in loops for e in f.expressions for name in free_variables(e)}

    def known(self, step: int, numbers: Value, lanes: int, width: int = 0, first: int = 0) -> dict[str, Value]:
        """Return the numbers that a sweep uses: of the row, in all lanes, or of ``width`` columns from ``first`` on."""
        used = self._used(step)
        places = {name: numbers + (slot * max(width, 1) + first) for name, slot in self._slots.items() if name in used}
        found = {name: load(p, lanes) if width else splat(p[0], lanes) for name, p in places.items()}
        return found | {name: splat(self.type(value), lanes) for name, value in self.constants.items()}

    def pointers(self, p: Value) -> tuple[Value, ...]:
        """Return the pointers to the elements of all arrays."""
        return tuple([cast(p[k], pointer(self.type)) for k in range(len(self.arrays))])

    def elements(
        self, step: int, known: dict[str, Value], ends: tuple[Value, ...], i: Value, mask: Any, lanes: int,
        row: Value | None = None,
    ) -> list[Value]:  # fmt: skip
        """Compute and store a vector of elements; return what it adds to each fold. ``row``: lanes are columns."""
        T = self.type
        elements, columns, _ = self._loops[step]
        values = dict(known)
        used = self._used(step)
        for place, end in zip(self.arrays, ends, strict=True):
            if place.name in used and place.name not in elements and place.role in ("row", "column"):
                shared = place.role == "column" and row is not None
                values[place.name] = splat(end[row], lanes) if shared else load(end + i, lanes, mask)
            elif place.name in used and place.role == "row" and self._loads(step, place.name):
                values[place.name] = load(end + i, lanes, mask)
        values[_INDEX] = T(iota(i32, lanes) + splat(i32(i), lanes)) if row is None else splat(T(row), lanes)
        by_name = dict(zip([place.name for place in self.arrays], ends, strict=True))
        for name, f in elements.items():
            values[name] = self._called(f, values)
            if name in by_name:
                store(by_name[name] + i, values[name], mask)
        for name, f in columns.items():
            to = by_name[name] + i
            store(to, load(to, lanes, mask) + self._called(f, values), mask)
        return [self._called(fold.element, values) for fold in self.folds[step]]

    def _loads(self, step: int, name: str) -> bool:
        """Tell whether a sweep reads a result of an earlier one before it computes it anew."""
        return any(name in f.parameters for f in self._loops[step][0].values())

    def _called(self, f: ScalarLoop, values: dict[str, Value]) -> Value:
        given = [values[name] for name in f.parameters]
        if _INDEX in indices(f.expressions):
            given.append(values[_INDEX])
        return f(*given)  # type: ignore[no-any-return]

    def after(self, step: int, numbers: Value, lanes: int, width: int) -> None:
        """Compute the numbers that follow from those of a sweep."""
        for name, f in self._loops[step][2].items():
            values = []
            for parameter in f.parameters:
                place = numbers + (self._slots[parameter] * max(width, 1))
                values.append(place[0] if lanes == 1 else load(place, lanes))
            store(numbers + (self._slots[name] * max(width, 1)), f(*values))
