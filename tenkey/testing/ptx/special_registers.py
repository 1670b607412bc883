"""Special registers: which thread it is, the sizes of the launch, clocks (PTX ISA, chapter "Special Registers")."""

from __future__ import annotations

from collections.abc import Callable

from ...backends.llvm.value_types import u32
from ...backends.llvm.values import Value, constant, convert
from .context_layout import Context

__all__ = ["special_register"]


def special_register(
    name: str, thread: Value, word: Callable[[int], Value], clock: Callable[[], Value]
) -> Value | None:
    """Return a special register, or None if it is not supported; ``word`` reads the context, ``clock`` the time."""
    stem, _, axis = name.partition(".")
    k = "xyz".find(axis) if axis else 0
    if k < 0:
        return None
    if stem == "tid":
        return Value(u32, f"%tid{k}")
    if stem in {"ntid", "nctaid", "ctaid"}:
        at = {"ntid": Context.NTID, "nctaid": Context.NCTAID, "ctaid": Context.CTAID}[stem]
        return convert(word(at + k), u32)
    lane = thread & 31
    one = constant(u32, 1) << lane
    zero = constant(u32, 0)
    known: dict[str, Callable[[], Value]] = {
        "laneid": lambda: lane,
        "warpid": lambda: thread >> 5,
        "nwarpid": lambda: convert((word(Context.THREADS) + 31) >> 5, u32),
        "lanemask_eq": lambda: one,
        "lanemask_lt": lambda: one - 1,
        "lanemask_le": lambda: one | (one - 1),
        "lanemask_gt": lambda: ~(one | (one - 1)),
        "lanemask_ge": lambda: ~(one - 1),
        "clock": clock, "clock_hi": lambda: zero, "clock64": clock, "globaltimer": clock, "globaltimer_lo": clock,
        "globaltimer_hi": lambda: zero,
        "smid": lambda: zero, "nsmid": lambda: constant(u32, 1),
        "gridid": lambda: word(Context.LAUNCH),
        "dynamic_smem_size": lambda: convert(word(Context.DYNAMIC_SHARED), u32),
        "total_smem_size": lambda: convert(word(Context.SHARED_SIZE), u32),
        "cluster_ctaid": lambda: zero, "cluster_nctaid": lambda: constant(u32, 1),
        "clusterid": lambda: convert(word(Context.CTAID + k), u32),
        "nclusterid": lambda: convert(word(Context.NCTAID + k), u32),
        "cluster_ctarank": lambda: zero, "cluster_nctarank": lambda: constant(u32, 1),
        "is_explicit_cluster": lambda: zero,
    }  # fmt: skip
    return known[stem]() if stem in known else None
