"""The error for a call that nothing handles: the nearest remedy first, then one line for each backend with a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..errors import MissingKernelError
from ..kernel import Kernel
from ..keys import DispatchKey, backend_mask, backend_names, backends_in
from ..operator import Operator

__all__ = ["missing_kernel"]

_HAVING: Final = "Kernels there are:{kernels}"
_MAX_BACKENDS: Final = 20


def _remedy(operator: Operator, word: int, backend: str | None, device: str) -> str:
    registry = operator.registry
    if device in registry.hooks.removed_devices:
        return (
            f"The backend of {device!r} was removed, and its tensors can no longer be computed with: register it again."
        )
    if backend is not None:
        key: DispatchKey = getattr(DispatchKey, backend)
        stack = [k for k in operator.kernels.get(key, ()) if not k.is_fallthrough]
        if stack and all(k.when is not None for k in stack):
            return (
                f"Every kernel for {device} has a condition (when=, or set_kernel_enabled), and none accepted this "
                f"call; the first is from {stack[-1].site}. Register one without a condition."
            )
        waiting = {name: k for name, kernels in registry.pending.items() for k in kernels if k.key is key}
        import difflib

        close = difflib.get_close_matches(operator.name, waiting, n=1)
        if close:
            return (
                f"A kernel for {device} waits for an operator {close[0]!r} that is not defined, "
                f"from {waiting[close[0]].site}: is the name misspelled?"
            )
    tensors = any(a.type.is_tensor_like for a in operator.schema.arguments)
    if tensors and backend is None:
        return "It needs at least one tensor, whose device says which kernel runs."
    if device == "meta":
        return (
            f"Give it a rule for the shapes and dtypes of its results with tk.library.register_fake({operator.name!r}, "
            "function)."
        )
    return (
        (
            "Register one with tk.library.register_kernel({operator!r}, {device!r}), or move the tensors to a device "
            "that has one."
        )
        if tensors
        else "Register one with tk.library.register_kernel({operator!r}, {device!r})."
    ).format(operator=operator.name, device=device)


def _lines(operator: Operator) -> Iterator[str]:
    """One line for each backend that has a kernel, and one for each composite."""

    def newest(key: DispatchKey) -> Kernel | None:
        stack = [k for k in operator.kernels.get(key, ()) if not k.is_fallthrough]
        return stack[-1] if stack else None

    def text(kernel: Kernel) -> str:
        return f"{getattr(kernel.function, '__qualname__', 'a kernel')}, {kernel.site}"

    found = {operator.registry.hooks.device_name(name): newest(getattr(DispatchKey, name)) for name in backend_names()}
    having = sorted((device, kernel) for device, kernel in found.items() if kernel is not None)
    for device, kernel in having[:_MAX_BACKENDS]:
        yield f"  {device}: {text(kernel)}"
    if len(having) > _MAX_BACKENDS:
        yield f"  and {len(having) - _MAX_BACKENDS} more: see op.table()"


def missing_kernel(operator: Operator, word: int) -> MissingKernelError:
    """The error for a call of ``operator`` with this word; its text has at most 25 lines."""
    present = backends_in(word & backend_mask())
    device = operator.registry.hooks.device_name(present[-1]) if present else "cpu"
    where = " and ".join(operator.registry.hooks.device_name(name) for name in present) or "a call without tensors"
    remedy = _remedy(operator, word, present[-1] if present else None, device)
    lines = list(_lines(operator))
    kernels = "\n".join(["", *lines]) if lines else " none"
    text = f"[{operator.name}] has no kernel for {where}. {remedy}"
    return MissingKernelError(f"{text}\n{_HAVING.format(kernels=kernels)}")
