"""Operators of functions that compute on the host, on devices that are not named in their definition.

Note [Functions that compute on the host]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The function of a ``custom_op`` without ``device_types`` serves every device. If it consists of operators, it runs where
its arguments are. If it computes with NumPy (``tk.asarray(x.numpy() ** 3)``), ``x.numpy()`` is a copy on the host, and
so is the result. A result on the CPU therefore shows that the function belongs there: the call, and later ones, take
the fallback of the device, which copies arguments and results, is counted by ``tk.backends.coverage``, and is refused
by ``strict_fallback``. A function that changes an argument would change the copy, which shows nowhere: it always takes
the fallback. ``register_kernel`` adds a kernel for the device. Guarded by ``tests/library/test_host_functions.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..core.random.generator import default_generator
from ..core.tree import tensors_in
from ..core.word import WEAK_MASK
from ..dispatch.keys import DispatchKey, backend_mask, backends_in
from ..dispatch.operator import Operator
from ..dispatch.table import best
from ..dispatch.tags import Tag

__all__ = ["with_host"]


def with_host(operator: Operator, word: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel for a word that runs ``function``, or the device's fallback if it computes on the host."""
    names = backends_in(word & backend_mask())
    key = getattr(DispatchKey, names[-1]) if names else None
    fallback = None if key is None else best(operator.registry.fallbacks.get(key, ()))
    if key in (None, DispatchKey.CPU, DispatchKey.Meta) or fallback is None or operator.mixes_devices:
        return function
    on_host = partial(fallback.function, operator)
    if operator.schema.is_mutable:
        return on_host
    found = False
    random = Tag.NONDETERMINISTIC in operator.tags

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if found:
            return on_host(*args, **kwargs)
        state = default_generator().get_state() if random else None
        out = function(*args, **kwargs)
        if any(t._data.__class__ is np.ndarray and not t._word & WEAK_MASK for t in tensors_in(out)):
            found = True
            if state is not None:
                default_generator().set_state(state)
            return on_host(*args, **kwargs)
        return out

    return run
