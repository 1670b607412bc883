"""Kernels that are given as source: a string, or a function that a compiler for devices has decorated.

Note [Kernels given as source]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``register_kernel(op, "cuda", source)`` takes CUDA C++ as a string, and a function that ``numba.cuda.jit`` decorates.
What runs them is the backend of the device, through ``Backend.user_kernel``. It is asked at the first call: a program
registers its kernels on machines without such a device, too. Guarded by ``tests/library/test_given_sources.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..core.tree import tensors_in
from ..core.word import WEAK_MASK
from ..dispatch.errors import RegistrationError
from ..dispatch.keys import DispatchKey

__all__ = ["is_source", "kernel_of_source"]


def is_source(given: Any, key: DispatchKey) -> bool:
    """Return whether a kernel is given as source, and not as a function of tensors."""
    is_device = key.functionality == "Dense" and key not in (DispatchKey.CPU, DispatchKey.Meta)
    return isinstance(given, str) or (is_device and hasattr(given, "py_func"))


def kernel_of_source(name: str, given: Any, key: DispatchKey) -> Callable[..., Any]:
    """Return a function of tensors that the backend of the device makes of the source when it is first called."""
    if key.functionality != "Dense" or key in (DispatchKey.CPU, DispatchKey.Meta):
        raise RegistrationError(
            f"[{name}] got source as a kernel for {key.name}, which no compiler takes: give a function of tensors, or "
            "register the source for a device such as 'cuda'."
        )
    made: dict[Any, Callable[..., Any]] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = tensors_in((args, kwargs))
        device = next((t.device for t in tensors if not t._word & WEAK_MASK), tensors[0].device)
        backend = device.backend
        kernel = made.get(backend)
        if kernel is None:
            make = getattr(backend, "user_kernel", None)
            if make is None:
                raise NotImplementedError(
                    f"[{name}] got source as a kernel, which the backend of {device.type!r} does not compile: register "
                    "a function of tensors."
                )
            kernel = made[backend] = make(given)
        return kernel(*args, **kwargs)

    run.__qualname__ = getattr(given, "__qualname__", None) or "a kernel given as source"
    return run
