"""The inner loops of programs, and the driver that runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....ops.scalar import Expression, operations, variable
from ...llvm.compiled import UnavailableError, address_of, kernel
from ...llvm.complaints import complain, utter
from ..loops.elementwise_driver import elementwise, widths_of
from ..loops.expressions import ScalarLoop, UnsupportedInLoopError, to_loop
from ..loops.numpy_loops import Loop, numpy_loop
from ..loops.pointwise_loop import lanes_for, pointwise
from ..pool import STATE
from ..thresholds import HEAVY_CHUNK, HEAVY_LIMIT, LIGHT_CHUNK_BYTES, LIGHT_LIMIT_BYTES
from .by_numpy import LIGHT

__all__ = ["WorkLoop", "cast_loop", "cast_statics", "find_loop", "find_own_loop", "loop_statics"]


class _Program(Protocol):
    """What a loop is found for: see `Program`."""

    name: str
    expression: Expression
    parameters: tuple[str, ...]
    dtype: np.dtype
    result: np.dtype
    signature: tuple[np.dtype, ...]
    ufunc: np.ufunc | None
    left_to_numpy: bool


class WorkLoop(NamedTuple):
    """An inner loop, and the driver that runs it: ``run(arrays)``, the result last, returns 1 if it declines.

    ``driver`` has the address of the driver and its arguments before the arrays.
    """

    address: int
    run: Callable[[tuple[np.ndarray, ...]], int]
    driver: tuple[int, ...]


def find_loop(program: _Program, dtypes: tuple[np.dtype, ...]) -> WorkLoop | None:
    """Return the inner loop of a program for operands of these dtypes: Note [Which loop computes]."""
    if not all(dtype.isnative for dtype in dtypes):
        return None
    try:
        kernel(elementwise)
    except UnavailableError:
        return None
    given = None
    if program.ufunc is not None and dtypes == program.signature:
        given = numpy_loop(program.ufunc, (*dtypes, program.result))
    found = given if given is not None and program.left_to_numpy else _compiled(program, dtypes) or given
    if found is None:
        return None
    if operations(program.expression) <= LIGHT:
        return _light(found, dtypes, program.result)
    return _driven(found, dtypes, program.result, HEAVY_CHUNK, HEAVY_LIMIT)


def find_own_loop(program: _Program, dtypes: tuple[np.dtype, ...], stream: bool) -> WorkLoop | None:
    """Return a loop of ours, or None if it might compute other numbers than `find_loop`'s.

    The results of one that is to ``stream`` bypass the caches.
    """
    if program.left_to_numpy and program.expression.operation not in LIGHT:
        return None
    found = _compiled(program, dtypes, **({"STREAM": True} if stream else {}))
    return None if found is None else _light(found, dtypes, program.result, limit=1 if stream else None)


@cache
def cast_loop(given: np.dtype, wanted: np.dtype) -> WorkLoop | None:
    """Return the loop that converts elements of one dtype to another, or None: NumPy converts."""
    try:
        return _light(Loop(address_of(pointwise, **cast_statics(given, wanted)), 0), (given,), wanted)
    except (UnavailableError, KeyError, ValueError):
        return None


def _light(loop: Loop, inputs: tuple[np.dtype, ...], result: np.dtype, limit: int | None = None) -> WorkLoop:
    """Return a loop that is limited by memory, with its driver; ``limit``: elements from which threads share it."""
    size = sum([dtype.itemsize for dtype in (*inputs, result)])
    limit = LIGHT_LIMIT_BYTES // size if limit is None else limit
    return _driven(loop, inputs, result, max(1, LIGHT_CHUNK_BYTES // size), limit)


def _driven(loop: Loop, inputs: tuple[np.dtype, ...], result: np.dtype, chunk: int, limit: int) -> WorkLoop:
    given = (STATE, *loop, widths_of(inputs, (result,)), chunk, limit)
    return WorkLoop(loop.address, partial(kernel(elementwise), *given), (address_of(elementwise), *given))


def cast_statics(given: np.dtype, wanted: np.dtype) -> dict[str, Any]:
    """Return the static parameters of the loop that converts elements."""
    return _statics(to_loop(variable("x"), ("x",), given, wanted), (given,), wanted)


def loop_statics(program: _Program, dtypes: tuple[np.dtype, ...]) -> dict[str, Any]:
    """Return the static parameters of the loop of a program for operands of these dtypes."""
    function = to_loop(program.expression, program.parameters, program.dtype, program.result)
    return _statics(function, dtypes, program.result)


def _statics(function: ScalarLoop, inputs: tuple[np.dtype, ...], result: np.dtype) -> dict[str, Any]:
    lanes = lanes_for(function, inputs, (result,))
    return {"FUNCTION": function, "INPUTS": inputs, "OUTPUTS": (result,), "LANES": lanes}


def _compiled(program: _Program, dtypes: tuple[np.dtype, ...], **statics: bool) -> Loop | None:
    name = f"{program.name} for {program.dtype}"
    try:
        return Loop(address_of(pointwise, **loop_statics(program, dtypes), **statics), 0)
    except UnsupportedInLoopError as error:
        if not program.name.startswith("tk::"):  # the author of a custom operator is told why it is slow
            complain(f"the kernel {name} is not compiled ({error}): it keeps running on NumPy.")
    except UnavailableError:
        return None
    except Exception as error:
        complain(f"compiling the kernel {name} failed ({type(error).__name__}: {error}): it runs on NumPy.", error)
    utter()
    return None
