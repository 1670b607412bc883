"""The thread pool: large calls on several cores, entered from compiled code.

A compiled function with regions takes :data:`STATE`, an int, as its argument ``pool``, and calls
``parallel(pool, task, data, n, chunk)`` of :mod:`.region` (Note [Regions]). Workers are started by the first call that
is large enough (Note [Workers are started when they are worth it]).
"""

from __future__ import annotations

from .state_block import MAX_THREADS, STATE
from .thread_limit import get_num_threads, set_num_threads
from .workers import is_native

__all__ = ["MAX_THREADS", "STATE", "get_num_threads", "is_native", "set_num_threads"]
