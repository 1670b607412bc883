"""CPU kernels of operators with the facet ``Rows``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from ....._util.record import Record
from .....core.tensor import cpu_word, make_tensor
from .....dispatch.operator import Operator
from .....dispatch.registry import registry
from .....ops.declare.sweeps import Rows
from .....ops.shapes import normalize_axes
from ....allocation.host import allocate
from ....llvm import kernel, lanes_of
from ....llvm.compiled import Case, compiled_or_none
from ...pool import STATE
from ...thresholds import COMPILED_ROWS
from ..expressions import UnsupportedInLoopError
from . import row_sweeps
from .axis_operators import with_large_calls
from .row_program import RowProgram

__all__ = ["cases", "rows_kernel"]

_ARRAYS: Final = 6  # that a template takes
_GROUPS: Final = 64  # of rows whose sums are kept apart
_WORK: Final = 1 << 13  # elements of a group of rows, at least
_LONG: Final = 1 << 16  # elements from which a row is cut if there are few
_FEW: Final = 8
_PLANS: Final = 256  # shapes and arguments that are remembered


def rows_kernel(operator: Operator) -> Callable[..., Any]:
    """Return the kernel: small calls and rare dtypes by NumPy or the composition, the others in sweeps."""
    large = _Large(operator, operator.facets["Rows"])
    return with_large_calls(operator, large.first, COMPILED_ROWS, large.run)


class _Plan(Record):
    """What calls of one dtype, shape, axis and numbers have in common."""

    call: Callable[..., Any]
    inputs: tuple[tuple[int, str, tuple[int, ...]], ...]  # place, role and shape of each tensor
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # role, and shape in memory
    word: int
    rows: int
    numbers: np.ndarray
    sizes: tuple[int, ...]
    vector: tuple[int, ...]  # the shape of a sum over all rows


class _Large:
    """Large calls of one operator."""

    def __init__(self, operator: Operator, facet: Rows) -> None:
        self._facet = facet
        self._name = operator.schema.base_name
        self._arguments = tuple([argument.name for argument in operator.schema.arguments])
        self.first = next(name for name, role in facet.tensors.items() if role == "row")
        self._place = self._arguments.index(self.first)
        self._plain = tuple([k for k, name in enumerate(self._arguments) if name not in facet.tensors])
        self._optional = tuple([self._arguments.index(name) for name in facet.tensors if name in facet.defaults])
        self._plans: dict[Any, _Plan] = {}

    def run(self, *values: Any) -> Any:
        """Return the results, or None for a call that the templates do not take."""
        x = values[self._place]._data
        dtype = x.dtype
        plain = [values[k] for k in self._plain]
        key = (dtype, x.shape, *plain, *[v.__class__ for v in plain], *[values[k] is None for k in self._optional])
        try:
            plan = self._plans[key]
        except KeyError:
            plan = self._planned(values, x)
            if plan is not None:
                if len(self._plans) >= _PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        except TypeError:  # axes in a list
            plan = self._planned(values, x)
        if plan is None:
            return None
        arrays: list[np.ndarray] = []
        for k, role, shape in plan.inputs:
            a: np.ndarray = values[k]._data
            if a.shape != shape and (role != "each" or a.size != plan.rows):
                return None
            if a.dtype is not dtype and a.dtype != dtype:
                if role == "row" or a.dtype.kind not in "iu":
                    return None
                a = a.astype(dtype)
            arrays.append(a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C"))
        accepts = self._facet.accepts
        if accepts is not None and not accepts(*[values[k]._data for k, _, _ in plan.inputs]):
            return None
        results: list[Any] = [allocate(shape, dtype) for _, shape in plan.outputs]
        six = (*arrays, *results, *[x] * (_ARRAYS - len(arrays) - len(results)))
        plan.call(STATE, *six, plan.numbers, *plan.sizes)
        for k, (role, shape) in enumerate(plan.outputs):
            if role == "column":  # sums of groups of rows
                total = results[k][0] if shape[0] == 1 else np.add.reduce(results[k], 0)
                results[k] = total.reshape(plan.vector)
        made = [make_tensor(result, plan.word) for result in results]
        return made[0] if len(made) == 1 else tuple(made)

    @compiled_or_none
    def _planned(self, values: tuple[Any, ...], x: np.ndarray) -> _Plan | None:
        facet = self._facet
        given = dict(zip(self._arguments, values, strict=True))
        dtype, shape, ndim = x.dtype, x.shape, x.ndim
        if dtype.char not in "fd" or not ndim:
            return None
        axes = sorted(normalize_axes(self._name, given.get("axis", -1), ndim))
        if not axes or axes[-1] - axes[0] != len(axes) - 1:
            return None
        vector = shape[axes[0] : axes[-1] + 1]
        n = prod(vector)
        inner = prod(shape[axes[-1] + 1 :])
        outer = prod(shape[: axes[0]])
        if not n * inner * outer or n >= 1 << 24:  # places are exact in float32
            return None
        program = self._program(frozenset([self._arguments[k] for k in self._optional if values[k] is None]), dtype)
        sums = "column" in facet.results.values()
        if program is None or (sums and inner != 1):
            return None
        count = outer * inner
        group = max(-(-count // _GROUPS), _WORK // n, 1)
        kept = tuple([1 if i in axes else m for i, m in enumerate(shape) if given.get("keepdims") or i not in axes])
        shapes = {"row": shape, "each": kept, "column": (n,)}
        sizes: tuple[int, ...]
        if inner != 1:
            template, sizes = row_sweeps.columns, (n, inner, outer)
        elif count < _FEW and n >= _LONG and not sums:
            template, sizes = row_sweeps.long_rows, (n, count)
        else:
            template, sizes = row_sweeps.rows, (n, count, group)
        return _Plan(
            kernel(template, **_statics(program)),
            tuple([(self._arguments.index(name), role, shapes[role])
                   for name, role in facet.tensors.items() if name in program.tensors]),
            tuple([(role, (-(-count // group), n) if role == "column" else shapes[role])
                   for role in facet.results.values()]),
            cpu_word(dtype), count, np.array([n, *[given[name] for name in facet.numbers]], dtype), sizes, vector,
        )  # fmt: skip

    def _program(self, missing: frozenset[str], dtype: np.dtype) -> RowProgram | None:
        key = (missing, dtype)
        found = self._facet.programs.get(key, False)
        if found is False:
            try:
                found = RowProgram(self._facet, missing, dtype)
            except UnsupportedInLoopError:
                found = None
            self._facet.programs[key] = found
        return found  # type: ignore[no-any-return]


def _statics(program: RowProgram) -> dict[str, Any]:
    return {"program": program, "A": program.type, "LANES": lanes_of(program.type)}


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels to be compiled ahead: Note [Kernels that are compiled ahead]."""
    for dtype, operator in itertools.product(dtypes, registry):
        facet = operator.facets.get("Rows")
        if facet is not None and dtype.char in "fd":
            yield Case(operator.name, row_sweeps.rows, _statics(RowProgram(facet, frozenset(), dtype)))
