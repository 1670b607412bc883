"""Errors for calls that no kernel can handle."""

from __future__ import annotations

from typing import Final

from ..errors import DeviceMismatchError, MissingKernelError, RegistrationError
from ..kernel import Kernel
from ..keys import DispatchKey, backend_mask, backend_names, backends_in
from ..operator import Operator, Slot

__all__ = ["ambiguous_backends", "check_devices", "has_kernel", "missing_kernel", "mixed_devices", "unhandled"]

_MAX_BACKENDS: Final = 20


def _remedy(operator: Operator, backend: str | None, device: str) -> str:
    registry = operator.registry
    if device in registry.hooks.removed_devices:
        return (
            f"The backend of {device!r} was removed, and its tensors can no longer be computed with: register it again."
        )
    if backend is not None:
        stack = _stack(operator, backend)
        if stack and all(k.when is not None for k in stack):
            return (
                f"Every kernel for {device} has a condition (when=, or set_kernel_enabled), and none accepted this "
                f"call; the first is from {stack[-1].site}. Register one without a condition."
            )
        waiting = {name: k for name, kernels in registry.pending.items() for k in kernels if k.key.name == backend}
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
    remedy = f"Register one with tk.library.register_kernel({operator.name!r}, {device!r})"
    return f"{remedy}, or move the tensors to a device that has one." if tensors else f"{remedy}."


def _stack(operator: Operator, backend: str) -> list[Kernel]:
    return [k for k in operator.kernels.get(getattr(DispatchKey, backend), ()) if not k.is_fallthrough]


def _lines(operator: Operator) -> list[str]:
    """Return one line for each backend that has a kernel."""
    found = {operator.registry.hooks.device_name(name): _stack(operator, name) for name in backend_names()}
    lines = [f"  {device}: {stack[-1].name}, {stack[-1].site}" for device, stack in sorted(found.items()) if stack]
    more = len(lines) - _MAX_BACKENDS
    return [*lines[:_MAX_BACKENDS], f"  and {more} more: see op.table()"] if more > 0 else lines


def missing_kernel(operator: Operator, word: int) -> MissingKernelError:
    """Return the error for a call of ``operator`` with this word, in at most 25 lines.

    The nearest remedy comes first, then one line for each backend that has a kernel.
    """
    device_name = operator.registry.hooks.device_name
    present = backends_in(word & backend_mask())
    device = device_name(present[-1]) if present else "cpu"
    where = " and ".join(map(device_name, present)) or "a call without tensors"
    remedy = _remedy(operator, present[-1] if present else None, device)
    kernels = "\n".join(["", *_lines(operator)]) if _lines(operator) else " none"
    return MissingKernelError(f"[{operator.label}] has no kernel for {where}. {remedy}\nKernels there are:{kernels}")


def has_kernel(operator: Operator, backend: str) -> bool:
    """Whether an operator has a kernel for the backend's own key."""
    return bool(operator.kernels.get(getattr(DispatchKey, backend)))


def mixed_devices(operator: Operator, word: int, key: DispatchKey, slot: Slot) -> tuple[str, ...]:
    """Return the devices that the kernel of a slot may not mix; empty where all is well."""
    if key.functionality != "Dense" or slot.rule not in ("1 direct", "4 missing") or operator.mixes_devices:
        return ()
    present = backends_in(word & backend_mask())
    if slot.rule == "4 missing" and not any(has_kernel(operator, name) for name in present):
        return ()
    return tuple(map(operator.registry.hooks.device_name, present)) if len(present) > 1 else ()


def check_devices(operator: Operator, word: int, key: DispatchKey, slot: Slot) -> None:
    """Raise DeviceMismatchError if the tensors of a call are on devices that the kernel of a slot may not mix."""
    mixed = mixed_devices(operator, word, key, slot)
    if mixed:
        raise DeviceMismatchError(
            f"[{operator.label}] got tensors on different devices ({' and '.join(mixed)}): all tensors of a call live "
            "on one device. Move them with x.to(device)."
        )


def ambiguous_backends(operator: Operator) -> list[str]:
    """Return the backends behind ``AutogradOther`` that have a kernel of their own."""
    return [name for name in operator.registry.autograd_other if has_kernel(operator, name)]


def unhandled(operator: Operator, word: int, slot: Slot) -> MissingKernelError | RegistrationError:
    """Return the error for a call whose slot has no kernel."""
    if slot.rule != "2.2 ambiguous":
        return missing_kernel(operator, word)
    return RegistrationError(
        f"[{operator.label}] is ambiguous for AutogradOther: it has a composite kernel, and "
        f"{', '.join(ambiguous_backends(operator))} has a kernel of its own. Register a kernel for AutogradOther."
    )
