"""cuFFT: transforms of many rows in one call, with plans that are kept.

A plan belongs to a device and is made once for each transform: making one takes milliseconds, running one
microseconds. It gets stream and work area with each call. The arguments follow the cuFFT documentation,
https://docs.nvidia.com/cuda/cufft/, sections "Advanced Data Layout", ``cufftMakePlanMany64``,
``cufftSetAutoAllocation`` (before the plan is made) and ``cufftSetWorkArea`` (after).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from .entry_points import cufft
from .site import Handle, Site

__all__ = ["FORWARD", "INVERSE", "Rows", "transform"]

FORWARD: Final = -1
INVERSE: Final = 1
_KEPT: Final = 128  # plans of one backend; the work areas are not part of them
# cufftType by the dtypes of input and result, and the functions that run them
_KINDS: Final = {
    ("complex64", "complex64"): (0x29, "exec_c2c"), ("complex128", "complex128"): (0x69, "exec_z2z"),
    ("float32", "complex64"): (0x2A, "exec_r2c"), ("float64", "complex128"): (0x6A, "exec_d2z"),
    ("complex64", "float32"): (0x2C, "exec_c2r"), ("complex128", "float64"): (0x6C, "exec_z2d"),
}  # fmt: skip


class Rows(NamedTuple):
    """Where the rows of a transform lie: address, elements between neighbours, elements between rows, dtype."""

    address: int
    step: int
    distance: int
    dtype: str


def transform(site: Site, x: Rows, out: Rows, points: int, count: int, direction: int) -> None:
    """Transform ``count`` rows of ``points`` points, without scaling; rows of half a spectrum have points // 2 + 1.

    Each row of complex numbers that becomes real ones may be overwritten.
    """
    kind, function = _KINDS[x.dtype, out.dtype]
    plans = site.handles.get(cufft, site, lambda _: _Plans())
    assert isinstance(plans, _Plans)
    with plans.lock:
        plan, nbytes = plans.get(site, (points, x.step, x.distance, out.step, out.distance, kind, count))
        memory, address = site.scratch(nbytes)
        cufft(site.operator, "set_stream", plan, site.stream)
        if nbytes:
            cufft(site.operator, "set_work_area", plan, address)
        places = (x.address, out.address, direction) if x.dtype == out.dtype else (x.address, out.address)
        cufft(site.operator, function, plan, *places)
        del memory


class _Plans(Handle):
    """The plans of a device, the last used at the end."""

    def __init__(self) -> None:
        super().__init__(0)
        self._made: OrderedDict[tuple[int, ...], tuple[int, int]] = OrderedDict()

    def get(self, site: Site, key: tuple[int, ...]) -> tuple[int, int]:
        """Return a plan and the size of its work area."""
        found = self._made.get(key)
        if found is not None:
            self._made.move_to_end(key)
            return found
        if len(self._made) >= _KEPT:
            cufft(site.operator, "destroy", self._made.popitem(last=False)[1][0])
        points, step, distance, out_step, out_distance, kind, count = key
        plan = cufft(site.operator, "create")
        try:
            cufft(site.operator, "set_auto_allocation", plan, 0)
            # "embed" matters in several dimensions only, but without it the steps do not count
            nbytes = cufft(
                site.operator, "make_plan_many64", plan, 1, [points], [points], step, distance, [points], out_step,
                out_distance, kind, count,
            )  # fmt: skip
        except BaseException:
            cufft(site.operator, "destroy", plan)
            raise
        self._made[key] = found = (plan, nbytes)
        return found
