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

__all__ = ["WorkLoop", "cast_loop", "cast_statics", "find_loop", "find_streaming_loop", "loop_statics"]


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
    """An inner loop, and the driver that runs it: ``run(arrays)``, the result last, returns 1 if it declines."""

    address: int
    run: Callable[[tuple[np.ndarray, ...]], int]


def find_loop(program: _Program, dtypes: tuple[np.dtype, ...]) -> WorkLoop | None:
    """Return the inner loop of a program for operands of these dtypes: Note [Which loop computes]."""
    if not all(dtype.isnative for dtype in dtypes):
        return None
    try:
        drive = kernel(elementwise)
    except UnavailableError:
        return None
    given = None
    if program.ufunc is not None and dtypes == program.signature:
        given = numpy_loop(program.ufunc, (*dtypes, program.result))
    if given is not None and program.left_to_numpy:
        address, context = given
    else:
        found = _compiled(program, dtypes) or given
        if found is None:
            return None
        address, context = found
    if operations(program.expression) <= LIGHT:
        size = sum([dtype.itemsize for dtype in dtypes]) + program.result.itemsize
        chunk, limit = max(1, LIGHT_CHUNK_BYTES // size), LIGHT_LIMIT_BYTES // size
    else:
        chunk, limit = HEAVY_CHUNK, HEAVY_LIMIT
    return WorkLoop(
        address, partial(drive, STATE, address, context, widths_of(dtypes, (program.result,)), chunk, limit)
    )


def find_streaming_loop(program: _Program, dtypes: tuple[np.dtype, ...]) -> WorkLoop | None:
    """Return a loop whose results bypass the caches, or None if it might compute other numbers than `find_loop`'s."""
    if program.left_to_numpy and program.expression.operation not in LIGHT:
        return None
    found = _compiled(program, dtypes, STREAM=True)
    if found is None:
        return None
    size = sum([dtype.itemsize for dtype in dtypes]) + program.result.itemsize
    shared = (widths_of(dtypes, (program.result,)), max(1, LIGHT_CHUNK_BYTES // size), 1)
    return WorkLoop(found.address, partial(kernel(elementwise), STATE, *found, *shared))


@cache
def cast_loop(given: np.dtype, wanted: np.dtype) -> WorkLoop | None:
    """Return the loop that converts elements of one dtype to another, or None: NumPy converts."""
    try:
        drive = kernel(elementwise)
        address = address_of(pointwise, **cast_statics(given, wanted))
    except (UnavailableError, KeyError, ValueError):
        return None
    size = given.itemsize + wanted.itemsize
    shared = (widths_of((given,), (wanted,)), max(1, LIGHT_CHUNK_BYTES // size), LIGHT_LIMIT_BYTES // size)
    return WorkLoop(address, partial(drive, STATE, address, 0, *shared))


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
