"""The elementwise kernels that ``python -m tenkey warm`` compiles: Note [Kernels that are compiled ahead]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....dispatch.registry import registry
from ...llvm.compiled import Case
from ..loops.elementwise_driver import elementwise
from ..loops.expressions import UnsupportedInLoopError
from ..loops.pointwise_loop import pointwise
from .inner_loops import cast_statics, loop_statics
from .program import program_of

__all__ = ["cases"]


def cases(dtypes: Sequence[np.dtype]) -> Iterator[Case]:
    """Yield the loops of operators on tensors of one dtype, and those that convert dtypes, each with the driver."""
    yield Case("tk::cast", elementwise, {})
    for given in dtypes:
        for wanted in dtypes:
            if given != wanted:
                yield Case("tk::cast", pointwise, cast_statics(given, wanted))
    for operator in registry:
        facet = operator.facets.get("Pointwise")
        if facet is None or not operator.name.startswith("tk::"):
            continue
        yield Case(operator.name, elementwise, {})
        for dtype in dtypes:
            try:
                compute, result = facet.promotion.dtypes(operator.name, (dtype,))
                program = program_of(operator.name, facet, compute, result)
                if program.ufunc is None or not program.left_to_numpy:
                    given_dtypes = program.signature if compute == dtype else (dtype,) * len(program.signature)
                    yield Case(operator.name, pointwise, loop_statics(program, given_dtypes))
            except (TypeError, UnsupportedInLoopError):  # not defined for this dtype, or left to NumPy
                continue
