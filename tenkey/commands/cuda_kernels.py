"""The CUDA kernels that the built-in operators need: found by calling the operators, on a driver that runs nothing.

Note [Kernels that are found by calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Which kernels a call needs is decided by dispatch, promotion, templates, layouts and sizes. A list of its own would
repeat these decisions and be wrong some day. So the operators are called on their sample inputs, with tensors on the
device ``cuda`` of the emulator, which is told not to execute: every kernel that would have been launched is noted.
Calls with large shapes, which cost nothing then, add the forms for many elements. No value is computed here, so a copy
to the host brings a count of one, and for a bool true and false in turns: a loop until all elements are done ends, in
every second call after its body has run. Calls may also end in an error; their kernels up to there are noted. Guarded
by ``tests/package/test_warm_cuda.py``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ..dispatch.errors import ArgumentError
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..ops.builtin.creation import empty
from ..testing.samples import samples
from .progress import is_wanted

__all__ = ["CudaKernel", "kernels_of"]


_MOST_LAUNCHES: Final = 5000
_launches: Final = [0]
_reads: Final = [0]


class _EndlessError(Exception):
    """A call that waits for a value that never comes, because nothing is executed."""


class CudaKernel(NamedTuple):
    """A kernel's source, and the operator whose call launched it first."""

    source: Any
    operator: str


def kernels_of(
    dtypes: Sequence[np.dtype],
    operators: Sequence[str] = ("*",),
    *,
    progress: Callable[[list[Operator]], Iterable[Operator]] = iter,
) -> list[CudaKernel]:
    """Return the kernels of operators whose names fit the patterns, in their order, each once.

    Must be called while the emulator runs with ``execute=False``; nothing is compiled. ``progress`` is given the
    operators and yields them, one after the other.
    """
    from ..backends.cuda.device import launching

    found: dict[Any, str] = {}
    with _without_compiling():
        chosen = [operator for operator in registry if is_wanted(operator.name, operators)]
        for operator in progress(sorted(chosen, key=lambda operator: operator.name)):
            for dtype in dtypes:
                for number, call in enumerate((*_sample_calls(operator, dtype), *_large_calls(operator, dtype))):
                    _launches[0], _reads[0] = 0, number
                    with suppress(Exception):  # no value is computed: Note [Kernels that are found by calls]
                        call()
            for source, _ in list(launching._made):
                found.setdefault(source, operator.name)
    return [CudaKernel(source, name) for source, name in found.items()]


@contextmanager
def _without_compiling() -> Iterator[None]:
    """Give the driver kernels that return at once, which it will not execute anyway, in the place of compiled ones."""
    from ..backends.cuda.device import launching, prepared_launches
    from ..backends.cuda.memory import transfers

    launched, to_host = launching.__dict__["launched"], transfers.to_host

    def count(kernel: Any) -> None:
        launched(kernel)
        _launches[0] += 1
        if _launches[0] > _MOST_LAUNCHES:
            raise _EndlessError

    def read(buffer: Any, array: np.ndarray, *, wait: bool = True) -> None:
        to_host(buffer, array, wait=wait)
        _reads[0] += 1
        given = array.reshape(-1).view(np.uint8)  # without a dtype: one byte is a bool, eight are a count
        given[:] = 0
        given[:1] = _reads[0] % 2 if given.size == 1 else given.size == 8

    with ExitStack() as stack:
        for module, name, value in (
            (launching, "_image_of", lambda source, cc: _empty_kernel(source, cc).encode() + b"\0"),
            (launching, "launched", count),
            (prepared_launches, "launched", count),
            (transfers, "to_host", read),
        ):
            stack.callback(setattr, module, name, module.__dict__[name])
            setattr(module, name, value)
        launching.forget()
        stack.callback(launching.forget)
        yield


def _empty_kernel(source: Any, cc: tuple[int, int]) -> str:
    """Return PTX with the name and the parameters of a kernel."""
    sizes = {name: int(re.sub(r"\D", "", name) or 8) for name in source.parameters if not name.endswith("*")}
    kinds = [f".b{sizes.get(name, 64)}" for name in source.parameters]
    parameters = ",\n".join([f".param {kind} {source.name}_param_{i}" for i, kind in enumerate(kinds)])
    head = f".version 8.0\n.target sm_{cc[0]}{cc[1]}\n.address_size 64\n"
    return f"{head}.visible .entry {source.name}(\n{parameters}\n)\n{{\nret;\n}}\n"


def _sample_calls(operator: Operator, dtype: np.dtype) -> Iterator[Callable[[], Any]]:
    """Yield calls of an operator on its sample inputs, on the device."""
    if not any(a.type.is_tensor_like for a in operator.schema.arguments):
        return
    rng = np.random.default_rng(zlib.crc32(f"{operator.name} {dtype}".encode()))
    try:
        made = [*samples(operator, rng, dtype)]
    except ArgumentError:  # it declares no inputs
        return
    for sample in made:
        moved = sample.map(lambda tensor: tensor.to_device("cuda"))
        yield partial(operator.call, *moved.args, **moved.kwargs)


_ROWS = ((4096, 4096), (64, 512), (4, 1 << 20))


def _large_calls(operator: Operator, dtype: np.dtype) -> Iterator[Callable[[], Any]]:
    """Yield calls of a reduction, a scan or a sort on large tensors, along the last axis, the first, and all."""
    schema = operator.schema
    names = [argument.name for argument in schema.arguments]
    tensors = [a for a in schema.arguments if a.type.is_tensor_like]
    if len(tensors) != 1 or "axis" not in names or schema.is_mutable or operator.name.startswith("tk::fft_"):
        return
    if not all(str(result.type) == "Tensor" for result in schema.returns):  # one for each element of the axis
        return
    for shape in _ROWS:
        for axis in (-1, 0, None):
            yield partial(_call_large, operator, shape, dtype, axis)


def _call_large(operator: Operator, shape: tuple[int, ...], dtype: np.dtype, axis: int | None) -> Any:
    return operator.call(empty(shape, dtype=dtype, device="cuda"), axis=axis)
