"""CPU kernels of operators with the facet ``Rows``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from .....core.silence import silently
from .....core.tensor import cpu_word, make_tensor
from .....dispatch.calling import codegen
from .....dispatch.operator import Operator
from .....dispatch.registry import registry
from .....ops.declare.sweeps import Rows
from .....ops.shapes import normalize_axes
from ....allocation.host import allocate
from ....llvm import kernel, lanes_of
from ....llvm.compiled import Case
from ...numpy_kernels import numpy_kernel
from ...pool import STATE
from ...thresholds import COMPILED_ROWS
from ..expressions import UnsupportedInLoopError
from . import row_sweeps
from .calls import compiled_or_none
from .row_program import RowProgram

__all__ = ["cases", "rows_kernel"]

_ARRAYS: Final = 6  # that a template takes
_GROUPS: Final = 64  # of rows whose sums are kept apart
_WORK: Final = 1 << 13  # elements of a group of rows, at least
_LONG: Final = 1 << 16  # elements from which a row is cut if there are few
_FEW: Final = 8

_SOURCE: Final = """
def kernel({parameters}):
    $first = {first}._data
    if $first.size >= $limit:
        $made = $large({arguments})
        if $made is not None:
            return $made
    return $small({called})
"""


def rows_kernel(operator: Operator) -> Callable[..., Any]:
    """Return the kernel: small calls and rare dtypes by NumPy or the composition, the others in sweeps."""
    schema = operator.schema
    facet: Rows = operator.facets["Rows"]
    composite = operator.facets["Composite"]
    silent = composite.function if composite.implicit else partial(silently, composite.function)
    small = numpy_kernel(operator) if "NumPyKernel" in operator.facets else silent
    large = _Large(operator, facet)
    names = [argument.name for argument in schema.arguments]
    source = _SOURCE.format(
        parameters=codegen.parameters(schema, defaults=True), first=large.first, arguments=", ".join(names),
        called=codegen.call(schema),
    )  # fmt: skip
    scope = {"limit": COMPILED_ROWS, "large": large.run, "small": small}
    return codegen.define(source.lstrip(), scope, f"<rows kernel of {operator.name}>", schema)


class _Large:
    """Large calls of one operator."""

    def __init__(self, operator: Operator, facet: Rows) -> None:
        self._facet = facet
        self._name = operator.schema.base_name
        self._arguments = tuple([argument.name for argument in operator.schema.arguments])
        self.first = next(name for name, role in facet.tensors.items() if role == "row")
        self._optional = [name for name in facet.tensors if name in facet.defaults]

    @compiled_or_none
    def run(self, *values: Any) -> Any:
        """Return the results, or None for a call that the templates do not take."""
        facet = self._facet
        given = dict(zip(self._arguments, values, strict=True))
        x = given[self.first]._data
        dtype, shape, ndim = x.dtype, x.shape, x.ndim
        if dtype.char not in "fd" or not ndim:
            return None
        axes = sorted(normalize_axes(self._name, given.get("axis", -1), ndim))
        if axes[-1] - axes[0] != len(axes) - 1:
            return None
        n = prod([shape[i] for i in axes])
        inner = prod(shape[axes[-1] + 1 :])
        outer = prod(shape[: axes[0]])
        if not n * inner * outer or n >= 1 << 24:  # places are exact in float32
            return None
        missing = frozenset([name for name in self._optional if given[name] is None])
        program = self._program(missing, dtype)
        if program is None:
            return None
        if facet.accepts is not None and not facet.accepts(*[given[name]._data for name in program.tensors]):
            return None
        arrays: list[np.ndarray] = []
        for name in program.tensors:
            a = given[name]._data
            if facet.tensors[name] == "row":
                if (a.dtype is not dtype and a.dtype != dtype) or a.shape != shape:
                    return None
            elif a.dtype.kind not in "iuf" or (
                a.shape != (n,) if facet.tensors[name] == "column" else a.size != outer * inner
            ):
                return None
            if a.dtype.kind == "f" and a.dtype != dtype:
                return None
            arrays.append(a if a.dtype == dtype and a.flags.carray else np.array(a, dtype, order="C"))
        return self._computed(program, given, arrays, axes, (outer, n, inner))

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

    def _computed(
        self, program: RowProgram, given: dict[str, Any], arrays: list[np.ndarray], axes: list[int],
        sizes: tuple[int, int, int],
    ) -> Any:  # fmt: skip
        outer, n, inner = sizes
        facet, dtype = self._facet, program.dtype
        shape = given[self.first]._data.shape
        count = outer * inner
        group = max(-(-count // _GROUPS), _WORK // n, 1)
        results = []
        for role in facet.results.values():
            if role == "row":
                results.append(allocate(shape, dtype))
            elif role == "each":
                results.append(np.empty(_kept(shape, axes, keepdims=bool(given.get("keepdims"))), dtype))
            else:
                results.append(np.zeros((-(-count // group), n), dtype))
        numbers = np.array([n, *[given[name] for name in facet.numbers]], dtype)
        six = [*arrays, *results]
        six += six[:1] * (_ARRAYS - len(six))
        sums = "column" in facet.results.values()
        if inner != 1:
            if sums:
                return None
            _kernel(program, row_sweeps.columns)(STATE, *six, numbers, n, inner, outer)
        elif count < _FEW and n >= _LONG and not sums:
            _kernel(program, row_sweeps.long_rows)(STATE, *six, numbers, n, count)
        else:
            _kernel(program, row_sweeps.rows)(STATE, *six, numbers, n, count, group)
        if sums:
            for k, role in enumerate(facet.results.values()):
                if role == "column":
                    parts = results[k]
                    total = parts[0] if len(parts) == 1 else np.add.reduce(parts, 0)
                    results[k] = total.reshape([shape[i] for i in axes])
        word = cpu_word(dtype)
        made = [make_tensor(result, word) for result in results]
        return made[0] if len(made) == 1 else tuple(made)


def _kept(shape: tuple[int, ...], axes: list[int], *, keepdims: bool) -> tuple[int, ...]:
    return tuple([1 if i in axes else m for i, m in enumerate(shape) if keepdims or i not in axes])


def _kernel(program: RowProgram, template: Any) -> Callable[..., Any]:
    try:
        return program.kernels[template]
    except KeyError:
        found = program.kernels[template] = kernel(template, **_statics(program))
        return found


def _statics(program: RowProgram) -> dict[str, Any]:
    return {"program": program, "A": program.type, "LANES": lanes_of(program.type)}


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels to be compiled ahead: Note [Kernels that are compiled ahead]."""
    for dtype, operator in itertools.product(dtypes, registry):
        facet = operator.facets.get("Rows")
        if facet is not None and dtype.char in "fd":
            yield Case(operator.name, row_sweeps.rows, _statics(RowProgram(facet, frozenset(), dtype)))
