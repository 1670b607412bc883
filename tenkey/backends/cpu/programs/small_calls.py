"""Kernels for small calls of pointwise operators, generated for the kinds of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from string import ascii_lowercase
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor, cpu_word
from ....core.tensor_base import new_handle
from ....core.word import WEAK_MASK
from ....dispatch.calling import codegen
from ....dispatch.operator import Operator
from ....ops.shapes import broadcast_shapes
from ..fp_warnings import quietly, silenced
from ..kernels import own_error, quiet_copy
from ..thresholds import SHORT_ROW, TILED_ROWS
from .program import Program

__all__ = ["SQUARE", "common_shape", "form_of", "is_large", "quiet_cast", "small_kernel"]

SQUARE: Final = np.square


def common_shape(name: str, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return the shape to which arrays broadcast; errors name the operator."""
    try:
        return np.broadcast(*arrays).shape
    except ValueError:
        return broadcast_shapes(name.partition("::")[2], *[a.shape for a in arrays])


def quiet_cast(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an array as another dtype, without warnings."""
    return a if a.dtype == dtype else quiet_copy(a, dtype)


# The kernels for small calls have one form; they differ in how they load arrays, when they leave the call to the
# function ``general``, and how they call the program.
_SOURCE: Final = """
def make(call, limit, general, program, word, name, wanted, converted, convert):
    {unpack}
    def kernel({operands}):
        {load}
        if {guard}:
            return general({operands})
        {prepare}
        try:
            {run}
        except ValueError:
            own_error(common_shape, name, ({arrays},))
            raise
        {check}
        made = new(Tensor)
        made._data = data if data.__class__ is ndarray else asarray(data)
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return kernel
"""
_WEAK: Final = """known = converted.get(id(x2))
        if known is not None:
            call, b, _ = known
            a = x1._data
            size = a.size
        else:
            known = converted.get(id(x1))
            if known is None:
                return general(x1, x2)
            call, a, b = program.call, known[1], x2._data
            size = b.size"""
_RUN: Final = {
    "silent": "data = call({arrays})",
    "quiet": """try:
                data = quietly(call, {arrays})
            except RuntimeError:  # Note [A context without warnings]
                data = silenced(call, {arrays})""",
    "weak": """try:
                data = quietly(call, a) if call is square else quietly(call, a, b)
            except RuntimeError:  # Note [A context without warnings]
                return general(x1, x2)""",
    "program": """if not program.compiled:
                program.count({size})
            try:
                if program.single:
                    data = quietly(program.call, {arrays})
                else:
                    data = silenced(program.call, {arrays})
            except RuntimeError:  # Note [A context without warnings]
                data = silenced(program.call, {arrays})""",
}
_CHECK: Final = "if data.dtype is not program.result: data = data.astype(program.result)"
# A tensor of another dtype is converted, that of a Python number once; so is a number.
_CONVERT: Final = {
    "t": """if {a}.dtype is not wanted{k}:
            if {x}._word & weak_mask:
                known = converted{k}.get(id({x}))
                {a} = convert({k}, {x}) if known is None else known[0]
            else:
                {a} = quiet_cast({a}, wanted{k})""",
    "n": """known = converted{k}.get(({x}.__class__, {x} or str({x})))
        {a} = convert({k}, {x}) if known is None else known[0]""",
}


# If one of two operands is repeated along leading axes or along the last, the result is as large as the other operand.
_UNLESS_ROWS: Final = """ and (
            {a}.shape[:-1] != {b}.shape[:-1]
            and {a}.shape[-{b}.ndim:] != {b}.shape and {b}.shape[-{a}.ndim:] != {a}.shape
            or {a}_size + {b}_size >= max({b}.shape[-1], {a}.ndim and {a}.shape[-1]) * many_rows
        )"""


def is_large(program: Program, shape: tuple[int, ...]) -> bool:
    """Tell whether a call with a result of this shape is large, or has so many short rows that tiles pay."""
    size = prod(shape)
    return size >= program.limit or (program.tiled and 0 < shape[-1] <= SHORT_ROW and size >= TILED_ROWS * shape[-1])


def _reach(program: Program, *arrays: np.ndarray) -> bool:
    """Tell whether what arrays broadcast to is large; False if they do not broadcast."""
    try:
        return is_large(program, np.broadcast(*arrays).shape)
    except ValueError:
        return False


@cache
def _maker(form: str, kinds: str, mixed: bool) -> Callable[..., Any]:
    """Return the function that makes kernels of this form, which is generated once.

    ``kinds`` has a letter for each operand: t for tensors, n for numbers. ``mixed``: operands may have other dtypes.
    """
    count = len(kinds)
    names, operands = ascii_lowercase[:count], [f"x{i + 1}" for i in range(count)]
    arrays = ", ".join(names)
    tensors = [a for a, kind in zip(names, kinds) if kind == "t"]
    guard = " or ".join(f"{a}_size >= limit" for a in tensors)
    if len(tensors) == 1:
        guard = f"{tensors[0]}.size >= limit"
    else:  # operands that are repeated along different axes have a larger result
        first, *others = tensors
        other = " or ".join(f"({a}.ndim and {a}.shape != {first}.shape)" for a in others)
        guard += f" or ({' or '.join(f'{a}.ndim > 1' for a in tensors)}) and ({other})"
        if len(tensors) == 2:
            guard += _UNLESS_ROWS.format(a=first, b=others[0])
        guard += f" and reach(program, {', '.join(tensors)})"
        guard = f"{' * '.join(f'({a}_size := {a}.size)' for a in tensors)} >= limit and ({guard})"
    load = "; ".join(f"{a} = {x}._data" for a, x in zip(names, operands) if a in tensors)
    slots = range(count) if mixed else ()
    source = _SOURCE.format(
        unpack="".join(f"wanted{k}, converted{k} = wanted[{k}], converted[{k}]; " for k in slots),
        operands=", ".join(operands),
        arrays=arrays,
        load=_WEAK if form == "weak" else load,
        guard="call is None or size >= limit" if form == "weak" else guard,
        prepare="\n        ".join(_CONVERT[kinds[k]].format(k=k, a=names[k], x=operands[k]) for k in slots),
        run=_RUN[form].format(arrays=arrays, size=" + ".join(f"{a}.size" for a in tensors)),
        check=_CHECK if mixed else "",
    )
    scope = {
        "Tensor": Tensor, "asarray": np.asarray, "common_shape": common_shape, "ndarray": np.ndarray,
        "new": new_handle,
        "own_error": own_error, "quiet_cast": quiet_cast, "quietly": quietly, "reach": _reach, "silenced": silenced,
        "square": SQUARE, "weak_mask": WEAK_MASK, "many_rows": TILED_ROWS,
    }  # fmt: skip
    label = f"{form}, {kinds}{', mixed' if mixed else ''}"
    return codegen.define(source.lstrip(), scope, f"<pointwise kernel, {label}>")


def small_kernel(
    form: str, kinds: str, operator: Operator, program: Program, general: Callable[..., Tensor], *,
    converted: Any = None, wanted: Any = None, convert: Any = None,
) -> Callable[..., Tensor]:  # fmt: skip
    """Return the kernel of a form; ``general`` takes the calls that are large or need more."""
    word = cpu_word(program.result)
    make = _maker(form, kinds, wanted is not None)
    return make(  # type: ignore[no-any-return]
        program.call, program.limit, general, program, word, operator.name, wanted, converted, convert
    )


def form_of(program: Program) -> str:
    """Return the form of kernels that call a program directly."""
    return "program" if program.slow or not program.single else "silent" if program.silent else "quiet"
