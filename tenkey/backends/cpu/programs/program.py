"""Programs: scalar expressions made executable for one dtype.

Note [Which loop computes]
~~~~~~~~~~~~~~~~~~~~~~~~~~
Small calls go to NumPy: to the ufunc that computes the whole expression, or to a function of several. Large calls go
to an inner loop; so do small calls of an expression that no single ufunc computes, after a call of `LARGE` elements or
64 smaller ones (the first where NumPy lacks a function, so that Python computes it element by element), and where
NumPy's ufunc takes several times as long (`is_slow`), after 64 calls for which that matters. As ufuncs, such loops
serve calls for which the driver and a second thread do not pay:

- NumPy's own, if it has one for these dtypes and it is as good as ours: nothing is compiled (`is_left_to_numpy`).
  Where rows are apart and are no whole vectors, ours is better: of 1,024 x 1,023 float32, ``x[:, 1:] + x[:, :-1]``
  takes 230 us in NumPy's and 160 in ours. The same holds in place: after ``h @ p``, in which both cores read
  ``p`` (512 x 512), ``p -= d`` takes 160 to 200 us in NumPy's loop, which prefetches lines for reading, and 60 in ours.
- Otherwise ours, which is compiled for the dtypes of the operands, and cached on disk. It converts what it reads, so
  operands of other dtypes need no pass of their own, and it rounds once: results may differ in the last digits from
  those of a NumPy function of several steps, and those of complex functions where a part is infinite or NaN, or in the
  sign of a zero (:mod:`tenkey.ops.scalar.complex_parts`).
- If there is no compiled code (``TENKEY_COMPILE=off``, an operation that it lacks), NumPy computes large calls as well.

Guarded by ``tests/backends/test_cpu_compile.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.plans import SMALL
from ....ops.declare.facets import Pointwise
from ....ops.scalar import Expression
from ....ops.scalar.traversal import operations
from ..thresholds import LARGE, LIGHT_LIMIT_BYTES, STREAMED
from .by_numpy import BY_ELEMENT, LIGHT, is_left_to_numpy, is_slow, numpy_function, single_ufunc, whole_power
from .compiled_ufuncs import as_ufunc
from .inner_loops import WorkLoop, find_loop, find_own_loop

__all__ = ["Program", "compute_into", "program_of"]

_CALLS_BEFORE_COMPILING: Final = 64
_VECTOR: Final = 64  # bytes
_COUNTED: Final = 256  # elements from which calls of a slow ufunc are counted
_SILENT: Final = frozenset([
    "variable", "maximum", "minimum", "negative", "abs", "copysign", "signbit", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal",
])  # fmt: skip
"""Operations in which NumPy never warns, whatever the elements."""


class Program:
    """One pointwise expression for one compute dtype.

    ``call(*arrays)`` serves small calls: a NumPy ufunc, a function of several, or a compiled ufunc. ``loop(dtypes)`` is
    the inner loop for large calls, kept in ``loops``. ``is_ufunc`` tells whether NumPy has a ufunc of its own, and
    ``slow`` whether ours replaces it; ``compiled``, whether ``call`` is a compiled ufunc, and ``single``, whether it is
    any ufunc; ``limit`` is the number of elements from which calls are large, and ``tiled`` tells whether those of many
    short rows are; ``silent``, whether NumPy never warns in it (Note [Floating-point flags]).
    """

    __slots__ = (
        "_calls", "call", "compiled", "dtype", "expression", "is_ufunc", "left_to_numpy", "limit", "loops",
        "name", "parameters", "result", "signature", "silent", "single", "slow", "tiled", "ufunc",
    )  # fmt: skip

    def __init__(self, name: str, facet: Pointwise, dtype: np.dtype, result: np.dtype) -> None:
        self.name = name
        self.parameters = (*facet.parameters, *facet.indices)
        self.dtype = dtype
        self.result = result
        self.signature = tuple([np.dtype(bool) if p in facet.boolean else dtype for p in self.parameters])
        self.expression: Expression = facet.expression
        by_element = not operations(self.expression).isdisjoint(BY_ELEMENT)
        self._calls = _CALLS_BEFORE_COMPILING - 1 if by_element else 0
        self.loops: dict[tuple[np.dtype | bool, ...], WorkLoop | None] = {}  # with a bool last: see `_own_loop`
        self.compiled = False
        ufunc = facet.ufunc
        if ufunc is None:
            ufunc = single_ufunc(self.expression, self.parameters, dtype)
        self.is_ufunc = ufunc is not None
        self.call: Callable[..., Any] = ufunc if ufunc is not None else self._by_numpy(facet)
        operation = self.expression.operation
        self.silent = ufunc is not None and (
            (operation in _SILENT and dtype.kind != "c")  # the magnitude of a complex number may overflow
            or operation.startswith(("is", "logical_", "bitwise_"))
            or (dtype.kind in "iub" and operation in {"add", "subtract", "multiply", "square"})
        )
        self.left_to_numpy = is_left_to_numpy(operation, dtype)
        self.tiled = ufunc is not None and self.left_to_numpy
        self.ufunc = ufunc
        self.slow = ufunc is not None and is_slow(ufunc, dtype)
        self.limit = LARGE
        if operations(self.expression) <= LIGHT:  # small calls run a ufunc, NumPy's or ours, that is as fast
            whole = [one.itemsize for p, one in zip(self.parameters, self.signature) if p in facet.tensors]
            size = sum(whole) + result.itemsize
            self.limit = max(LARGE, LIGHT_LIMIT_BYTES // size)
        if ufunc is np.power and dtype.kind in "iu":
            self.call = whole_power
        self.single = isinstance(self.call, np.ufunc)

    def _by_numpy(self, facet: Pointwise) -> Callable[..., Any]:
        """Compose a function from NumPy functions, and generate it at its first call: large calls do not need it."""
        function: Callable[..., Any] | None = None

        def call(*arrays: Any) -> Any:
            nonlocal function
            if function is None:
                function = numpy_function(facet, self.dtype, self.result)
                if self.call is call:
                    self.call = function
            return function(*arrays)

        return call

    def loop(self, dtypes: tuple[np.dtype, ...]) -> WorkLoop | None:
        """Return the inner loop for operands of these dtypes, compiled if need be; None: NumPy computes."""
        try:
            return self.loops[dtypes]
        except KeyError:
            found = self.loops.setdefault(dtypes, find_loop(self, dtypes))
            if found is not None and dtypes == self.signature and (self.slow or not self.is_ufunc):
                ufunc = as_ufunc(found.address, (*dtypes, self.result))
                if ufunc is not None:
                    self.call = ufunc
                    self.compiled = self.single = True
            return found

    def streaming_loop(self, dtypes: tuple[np.dtype, ...]) -> WorkLoop | None:
        """Return the loop for a new result beyond the caches, or None: Note [Results beyond the caches]."""
        return self._own_loop(dtypes, True)

    def loop_of_rows(self, dtypes: tuple[np.dtype, ...], out: np.ndarray) -> WorkLoop | None:
        """Return the loop for a result whose rows lie apart: Note [Which loop computes]."""
        whole = not self.left_to_numpy or not out.ndim or out.shape[-1] * out.itemsize % _VECTOR == 0
        return self.loop(dtypes) if whole else self._own_loop(dtypes, False) or self.loop(dtypes)

    def loop_into(self, dtypes: tuple[np.dtype, ...], out: np.ndarray) -> WorkLoop | None:
        """Return the loop for a result in place: Note [Which loop computes]."""
        own = self.left_to_numpy and out.flags.c_contiguous
        return (self._own_loop(dtypes, False) if own else None) or self.loop(dtypes)

    def _own_loop(self, dtypes: tuple[np.dtype, ...], stream: bool) -> WorkLoop | None:
        key: tuple[np.dtype | bool, ...] = (*dtypes, stream)
        if key not in self.loops:
            self.loops[key] = None if self.loop(dtypes) is None else find_own_loop(self, dtypes, stream)
        return self.loops[key]

    def driver(self, *, in_place: bool = False) -> tuple[Any, ...] | None:
        """Return what the core needs to run the loop, if there is one: Note [Large calls in the core].

        Small calls count: a loop is worth looking for after many of them.
        """
        self._calls += 1
        if self._calls >= _CALLS_BEFORE_COMPILING:
            self.loop(self.signature)
        loop = self.loops.get(self.signature)
        if loop is None:
            return None
        if in_place and self.left_to_numpy:
            loop = self._own_loop(self.signature, False) or loop
        return (*loop.driver, SMALL, STREAMED // self.result.itemsize, self.left_to_numpy, self.name)

    def count(self, size: int) -> None:
        """Count a small call of a program that has no ufunc, or a slow one; after many, or a longer one, compile it."""
        if self.is_ufunc and (size < _COUNTED or not self.slow):
            return
        self._calls += 1
        if self._calls == _CALLS_BEFORE_COMPILING or (size >= LARGE and self.signature not in self.loops):
            self.loop(self.signature)

    def request(self) -> None:
        """Let small calls use the compiled loop, if there is one and no ufunc of NumPy's."""
        if not self.is_ufunc:
            self.loop(self.signature)


def compute_into(program: Program, arrays: tuple[np.ndarray, ...], out: np.ndarray) -> bool:
    """Compute a program into an array by its inner loop; False: nothing was computed."""
    if out.dtype != program.result:  # an in-place call that rounds: the loop would write numbers of another size
        return False
    loop = program.loop_into(tuple([a.dtype for a in arrays]), out)
    return loop is not None and not loop.run((*arrays, out))


def program_of(name: str, facet: Pointwise, compute: np.dtype, result: np.dtype) -> Program:
    """Return the program of a pointwise facet for one compute dtype, made once and kept with the facet."""
    program: Program | None = facet.programs.get((compute, result))
    if program is None:
        program = facet.programs.setdefault((compute, result), Program(name, facet, compute, result))
    return program
