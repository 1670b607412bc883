"""The stand-in for ``nvmath.bindings.cufft``.

The rules are those of the cuFFT documentation, https://docs.nvidia.com/cuda/cufft/: "Advanced Data Layout",
``cufftMakePlanMany64``, ``cufftSetAutoAllocation``, ``cufftSetWorkArea``, ``cufftExecC2C`` and its siblings. A result
in real numbers is defined for Hermitian input only, so the imaginary parts of its ends must be zero; the input of such
a transform may be destroyed, and is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from .library_checks import Array, Call, LibraryCallError
from .library_handles import StandIn, Thing

__all__ = ["CheckedCufft"]

_KINDS: Final = {
    0x29: ("c2c", "complex64", "complex64"), 0x69: ("z2z", "complex128", "complex128"),
    0x2A: ("r2c", "float32", "complex64"), 0x6A: ("d2z", "float64", "complex128"),
    0x2C: ("c2r", "complex64", "float32"), 0x6C: ("z2d", "complex128", "float64"),
}  # fmt: skip
"""The types of transforms: the name of the function, and the dtypes of its input and result."""
_PLAN: Final = "plan"


class _Transform(NamedTuple):
    """What a plan computes: steps and distances are in elements."""

    kind: int
    points: int
    batch: int
    step: int
    distance: int
    out_step: int
    out_distance: int
    nbytes: int


class CheckedCufft(StandIn):
    """cuFFT's plans for one-dimensional transforms, with the parameters of ``nvmath.bindings``."""

    def __init__(self, surroundings: Any) -> None:
        super().__init__("cuFFT", surroundings)
        self._plans = itertools.count(1)  # a plan is a small integer
        for kind, (name, source, result) in _KINDS.items():
            method = self._transform if source == result else self._transform_real
            setattr(self, f"exec_{name}", partial(method, f"exec_{name}", kind))

    def create(self) -> int:
        """Return a plan that is not made yet."""
        return self._new(_PLAN, next(self._plans))

    def destroy(self, plan: int) -> None:
        """Destroy a plan."""
        self._remove(self._call("destroy"), _PLAN, plan)

    def set_stream(self, plan: int, stream: int) -> None:
        """Set the stream of a plan."""
        self._find(self._call("set_stream"), _PLAN, plan).stream = stream

    def set_auto_allocation(self, plan: int, auto_allocate: int) -> None:
        """Say that the caller gives the work area; only before the plan is made."""
        call = self._call("set_auto_allocation")
        found = self._find(call, _PLAN, plan)
        call.member("auto_allocate", auto_allocate, (0, 1))
        call.require("transform" not in found.values, "the plan is made already.")
        found.values["auto"] = bool(auto_allocate)

    def make_plan_many64(
        self, plan: int, rank: int, n: Sequence[int], inembed: Sequence[int], istride: int, idist: int,
        onembed: Sequence[int], ostride: int, odist: int, type: int, batch: int,
    ) -> int:  # fmt: skip
        """Make a plan and return the size of its work area."""
        call = self._call("make_plan_many64")
        found = self._find(call, _PLAN, plan)
        call.require("transform" not in found.values, "the plan is made already.")
        call.require(rank == 1, f"rank is {rank}: the stand-in has transforms of one dimension.")
        call.member("type", type, tuple(_KINDS))
        given: tuple[tuple[str, Any], ...] = (("n", n), ("inembed", inembed), ("onembed", onembed))
        for name, value in given:
            call.require(
                isinstance(value, Sequence) and len(value) == rank,
                f"{name} is {value!r}: it must have a number for each dimension; without inembed or onembed the steps "
                "are ignored.",
            )
        call.least("n[0]", n[0], 1)
        call.least("batch", batch, 1)
        for name, step in (("istride", istride), ("ostride", ostride)):
            call.least(name, step, 1)
        if batch > 1:
            call.least("idist", idist, 1)
            call.least("odist", odist, 1)
        nbytes = 48 + 8 * n[0] + batch
        found.values["transform"] = _Transform(type, n[0], batch, istride, idist, ostride, odist, nbytes)
        return nbytes

    def set_work_area(self, plan: int, work_area: int) -> None:
        """Set the work area of a plan that was made without one."""
        call = self._call("set_work_area")
        found = self._find(call, _PLAN, plan)
        transform = self._made(call, found)
        call.require(not found.values.get("auto", True), "set_auto_allocation(plan, 0) was not called before.")
        found.values["area"] = call.workspace("work_area", work_area, transform.nbytes, transform.nbytes)

    def _made(self, call: Call, found: Thing) -> _Transform:
        transform = found.values.get("transform")
        if transform is None:
            call.refuse("the plan is not made: make_plan_many64 comes first.")
        assert isinstance(transform, _Transform)
        return transform

    def _transform_real(self, function: str, kind: int, plan: int, idata: int, odata: int) -> None:
        self._transform(function, kind, plan, idata, odata, -1)

    def _transform(self, function: str, kind: int, plan: int, idata: int, odata: int, direction: int) -> None:
        call = self._call(function)
        stream = self._stream(call, plan, _PLAN)
        found = self._find(call, _PLAN, plan)
        given = self._made(call, found)
        call.require(given.kind == kind, f"the plan was made for the type {given.kind:#x}, not {kind:#x}.")
        call.member("direction", direction, (-1, 1))
        area = found.values.get("area")
        if area is None:
            call.require(found.values.get("auto", True), "the plan has no work area: call set_work_area.")
        else:  # it may have been freed since
            call.workspace("work_area", area.address, area.nbytes, given.nbytes)
        source, result = [np.dtype(name) for name in _KINDS[kind][1:]]
        half = given.points // 2 + 1
        lengths = [half if dtype.kind == "c" and source != result else given.points for dtype in (source, result)]
        width = 2 * source.type(0).real.dtype.itemsize  # both pointers are aligned to complex numbers
        x = call.array(
            "idata", idata, (given.batch, lengths[0]), source, (given.distance, given.step), alignment=width
        )  # fmt: skip
        in_place = idata == odata
        if in_place:
            call.require(source == result, "idata and odata are equal: only complex transforms are done in place here.")
        out = call.array(
            "odata", odata, (given.batch, lengths[1]), result, (given.out_distance, given.out_step), alignment=width,
            shared=in_place,
        )  # fmt: skip
        _refuse_folded(call, out)
        name = {"c": "fft" if direction < 0 else "ifft", "f": "rfft"}[source.kind] if result.kind == "c" else "irfft"

        def work() -> None:
            values = x.values()
            if name == "irfft":
                ends = [values[:, 0], *([values[:, -1]] if given.points % 2 == 0 else [])]
                if any((end.imag != 0).any() for end in ends):
                    raise LibraryCallError(f"[cuFFT {function}] the ends of a half spectrum have imaginary parts.")
            options = {} if source.kind == "c" and result.kind == "c" else {"n": given.points}
            unscaled = "forward" if name in ("ifft", "irfft") else "backward"
            found = getattr(np.fft, name)(values, axis=1, norm=unscaled, **options)
            if name == "irfft":
                values[...] = np.nan
            out.values()[...] = found

        call.enqueue(stream, work, *([] if area is None else [area]))


def _refuse_folded(call: Call, out: Array) -> None:
    """Refuse rows of results that share elements."""
    (batch, length), (row, step) = out.shape, out.strides
    if batch > 1 and row < length * step and step < batch * row:
        call.refuse(f"rows of the result share elements: ostride {step}, odist {row} bytes.")
