"""``explain``: what a call would do, in text, without doing it."""

from __future__ import annotations

from typing import Any

from .keys import DispatchKeySet, trait_names
from .local import current_state
from .operator import Operator, OperatorPacket
from .table import steps

__all__ = ["explain"]


def explain(op: Any, *args: Any, **kwargs: Any) -> str:
    """Say which kernel a call would reach and why; runs no kernel and never raises.

    >>> import tenkey as tk
    >>> print(explain(tk.add, tk.asarray([1.0]), tk.asarray([2.0])).splitlines()[0])
    explain tk::add(Tensor x1, Tensor x2) -> Tensor
    """
    try:
        return _explain(op, args, kwargs)
    except Exception as error:
        return f"explain {op!r}: cannot be explained: {type(error).__name__}: {error}"


def _operator_of(op: Any) -> Operator | None:
    if isinstance(op, Operator):
        return op
    if isinstance(op, OperatorPacket):
        return getattr(op, op.overloads()[0])
    found = getattr(op, "operator", None)
    return found if isinstance(found, Operator) else None


def _explain(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    operator = _operator_of(op)
    if operator is None:
        return f"explain {op!r}: this is no operator; give one of tk.ops.<namespace>.<name>."
    lines = [f"explain {operator.schema}", f"  defined at {operator.site}"]
    bound = operator.bind(*args, **kwargs)
    tensors = [a for a in operator.schema.arguments if a.type.is_tensor_like]
    try:
        values = operator.registry.lift(operator, tuple(bound[a.name] for a in tensors))
        bound.update(zip((a.name for a in tensors), values))
    except Exception as error:
        lines.append(f"  the call would raise {type(error).__name__}: {error}")
    word = 0
    for argument in operator.schema.arguments:
        value = bound[argument.name]
        if argument.type.is_tensor_like:
            own = operator.word_of((value,), {})
            word |= own
            lines.append(f"  argument {argument.name}: {DispatchKeySet.from_word(own)}{_traits(own)}")
    if not tensors:
        word = operator.registry.device_word(bound.get("device"))
        lines.append(f"  no tensor arguments; the device gives {DispatchKeySet.from_word(word)}")
    state = current_state()
    lines.append(f"  united: {DispatchKeySet.from_word(word)}{_traits(word)}")
    if state.include:
        lines.append(f"  included locally: {DispatchKeySet.from_word(state.include)}")
    if state.exclude:
        lines.append(f"  excluded locally: {DispatchKeySet.from_word(state.exclude)}{_traits(state.exclude)}")
    word = (word | state.include) & state.keep
    operator.registry.prepare(operator, word)
    for step in steps(operator, word):
        kernel = step.slot.kernel
        lines.append(f"  {step.key.name}: {step.why} (rule {step.slot.rule})")
        if kernel is not None and not kernel.is_fallthrough:
            name = getattr(kernel.function, "__qualname__", repr(kernel.function))
            lines.append(f"    {kernel.origin} kernel {name}, {kernel.site}")
        for conditional in step.slot.conditional:
            lines.append(f"    if {conditional.when}: {conditional!r} (priority {conditional.priority})")
        stack = operator.kernels.get(kernel.key, []) if kernel is not None else []
        for other in stack:
            if other is not kernel and other.when is None:
                lines.append(f"    hidden: {other!r}")
        if step.chosen:
            if step.why == "missing":
                lines.append("    the call would raise MissingKernelError")
            elif step.slot.rule == "2.3 Autograd":
                lines.append("    it records a node and redispatches to the keys below:")
                lines += _below(operator, word, step.key)
            break
    return "\n".join(lines)


def _below(operator: Operator, word: int, key: Any) -> list[str]:
    lines = []
    below = DispatchKeySet.from_word(word).below(key)
    for step in steps(operator, below.mask):
        lines.append(f"      {step.key.name}: {step.why} (rule {step.slot.rule})")
        if step.slot.kernel is not None:
            lines.append(f"        {step.slot.kernel!r}")
    return lines


def _traits(word: int) -> str:
    names = trait_names(word)
    return f" with {', '.join(names)}" if names else ""
