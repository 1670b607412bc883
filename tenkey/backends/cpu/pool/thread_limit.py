"""How many threads a large call uses: the cores that the process may use, unless the user says otherwise."""

from __future__ import annotations

import operator
import os
from functools import cache
from math import ceil

from .state_block import MAX_THREADS, RUN, block

__all__ = ["allowed_cores", "get_num_threads", "set_num_threads"]

_chosen: list[int] = []  # empty: as many as there are cores


def allowed_cores() -> list[int]:
    """Return the numbers of the cores that the main thread may use; where the system does not tell, of all."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    return sorted(os.sched_getaffinity(os.getpid()))


@cache
def _quota() -> float:
    """Return how many cores' time the control groups of the process grant; infinity without a limit."""
    try:
        groups = _text("/proc/self/cgroup").splitlines()
    except (OSError, ValueError):
        return float("inf")
    least = float("inf")
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = "/sys/fs/cgroup/cpu" if controllers else "/sys/fs/cgroup"
        for name in ("", *filter(None, path.split("/"))):
            group = os.path.join(group, name)
            least = min(least, _quota_of(group))
    return least


def _quota_of(group: str) -> float:
    try:
        if os.path.exists(limit := os.path.join(group, "cpu.max")):
            quota, period = _text(limit).split()
        else:
            quota, period = [_text(os.path.join(group, f"cpu.cfs_{name}_us")) for name in ("quota", "period")]
        return float(quota) / float(period) if quota != "max" and float(quota) > 0 else float("inf")
    except (OSError, ValueError, ZeroDivisionError):
        return float("inf")


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # importing pathlib takes 4 ms, in a first call
        return file.read()


def get_num_threads() -> int:
    """Return the greatest number of threads that a large call uses.

    Unless :func:`set_num_threads` has chosen it, this is the number of cores that the process may use: those of its
    affinity mask, limited by the time that its control group grants, and at most 64.

    >>> tk.get_num_threads() >= 1
    True
    """
    if _chosen:
        return _chosen[0]
    return max(1, min(len(allowed_cores()), MAX_THREADS, ceil(min(_quota(), MAX_THREADS))))


def set_num_threads(count: int) -> None:
    """Let a large call use at most ``count`` threads; results do not depend on it.

    The next large call arranges workers for this number, and for the cores that the process may then use.
    Raises ValueError for a number below one, TypeError for a value that is not an int.

    >>> before = tk.get_num_threads()
    >>> tk.set_num_threads(1)
    >>> tk.get_num_threads()
    1
    >>> tk.set_num_threads(before)
    """
    try:
        number = operator.index(count)
    except TypeError:
        raise TypeError(f"[set_num_threads] the number of threads must be an int, got {count!r}.") from None
    if number < 1:
        raise ValueError(f"[set_num_threads] needs at least 1 thread, got {number}.")
    _chosen[:] = [number]
    block[RUN] = 0
