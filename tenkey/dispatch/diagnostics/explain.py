"""``explain``: a text that says what a call would do, without the call."""

from __future__ import annotations

from typing import Any, Final

from ..calling.arguments import convert_argument, lift
from ..calling.overloads import OperatorPacket
from ..errors import shown
from ..keys import AliasKey, DispatchKeySet, trait_names, word_below
from ..local_state import current_state
from ..operator import Operator, any_word, is_device
from ..registry import registry
from ..table import Step, steps
from .missing_kernel import ambiguous_backends, mixed_devices
from .sites import function_site

__all__ = ["explain"]


def explain(op: Any, /, *args: Any, **kwargs: Any) -> str:
    """Explain which kernel a call would reach and why; run no kernel and never raise.

    ``op`` is an operator, an entry such as ``tk.add``, a packet of overloads, or a name (``"tk::add"``, or ``"add"``).
    The text gives the keys of each tensor argument, their union, the keys that guards include and exclude, each key
    that the call visits with the rule of Note [Precedence], the kernel and its ``file:line``, and last the kernels that
    lost, with the reason. Conditions (``when=``) are named, not called.

    >>> print(explain(tk.add, tk.asarray([1.0]), tk.asarray([2.0])).splitlines()[0])
    explain tk::add(Tensor x1, Tensor x2) -> Tensor
    """
    try:
        return _explain(op, args, kwargs)
    except Exception as error:  # explain never raises
        return f"explain {shown(op)}: cannot be explained: {_text(error)}"


# How the kernels of these keys go on to the keys below.
_GOING_ON: Final = {
    "Mode": "if every mode passes the call on",
    "Subclass": "where a handler calls the operator again",
    "Python": "where a handler calls the operator again",
    "AutocastFunctionality": "with the arguments cast, on the keys below",
    "AutogradFunctionality": "it records a node and redispatches to the keys below",
    "AutogradOther": "it records a node and redispatches to the keys below",
}


def _text(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the text of an exception is user code, too
        return type(error).__name__


def _operator_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operator | None:
    if isinstance(op, Operator):
        return op
    if isinstance(op, OperatorPacket):
        return op._select(args, kwargs)
    if isinstance(op, str):
        return _named(op, args, kwargs)
    found = getattr(op, "operator", None)
    return found if isinstance(found, Operator) else None


def _named(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operator:
    """Return ``"ns::name.overload"``, the overload of ``"ns::name"`` that fits, or the built-in operator ``"name"``."""
    known = name if "::" in name else f"tk::{name}"
    return registry.packet(known)._select(args, kwargs) if registry.overloads(known) else registry.find(known)


def _explain(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    operator = _operator_of(op, args, kwargs)
    if operator is None:
        return f"explain {shown(op)}: not an operator; give one (tk.add, tk.ops.<namespace>.<name>) or its name."
    lines = [f"explain {operator.schema}", f"  defined at {operator.site}"]
    try:
        bound = operator.bind(*args, **kwargs)
        for a in operator.schema.arguments:
            if not a.type.is_tensor_like:
                bound[a.name] = convert_argument(operator, a, bound[a.name])
    except Exception as error:  # the mistake in the arguments is the explanation
        return "\n".join([*lines, f"  the call would raise {_text(error)}"])
    tensors = [a.name for a in operator.tensor_arguments]
    try:
        bound.update(zip(tensors, lift(operator, tuple(bound[name] for name in tensors)), strict=False))
    except Exception as error:  # as above
        lines.append(f"  the call would raise {_text(error)}")
    word = _word(operator, bound, lines)
    state = current_state()
    lines.append(f"  united: {_keys(word)}{_traits(word)}")
    if state.include:
        lines.append(f"  included locally: {_keys(state.include)}")
    if state.exclude:
        lines.append(f"  excluded locally: {_keys(state.exclude)}{_traits(state.exclude)}")
    if operator.registry.hooks.is_planned(operator, word) and not state.modes:
        lines.append("  a plan of the compiled core serves small calls like this; it does what follows:")
    return "\n".join(lines + _walk(operator, (word | state.include) & state.keep))


def _word(operator: Operator, bound: dict[str, Any], lines: list[str]) -> int:
    """Return the word of a call, and append a line for each argument that adds to it."""
    word = 0
    carriers = [a.name for a in operator.schema.arguments if a.type.contains_tensor]
    for name in carriers:
        own = any_word(bound[name])
        word |= own
        lines.append(f"  argument {name}: {_keys(own)}{_traits(own)}")
    if not carriers:
        devices = [a.name for a in operator.schema.arguments if is_device(a)]
        word = operator.registry.hooks.device_word(bound[devices[0]] if devices else None)
        lines.append(f"  no tensor arguments; the {'device' if devices else 'default device'} gives {_keys(word)}")
    return word


def _walk(operator: Operator, word: int) -> list[str]:
    """Return the lines about the keys that a call visits, its outcome, and the kernels that lost."""
    lines: list[str] = []
    walked: list[Step] = []
    below: list[Step] = []
    for step in steps(operator, word):
        walked.append(step)
        kernel = step.slot.kernel
        lines.append(f"  {step.key.name}: {_why(step)} (rule {step.slot.rule})")
        if kernel is not None and not kernel.is_fallthrough:
            lines.append(f"    {kernel.origin} kernel {kernel.name}, {kernel.site}")
        lines += [
            f"    first asks (it is not asked now): if {_condition(c)}: {c!r} (priority {c.priority})"
            for c in step.slot.conditional
        ]
        if step.slot.conditional and step.slot.rule == "4 missing":
            lines.append("    if none accepts, the call would raise MissingKernelError")
        goes_on = kernel is not None and (kernel.origin == "generated" or kernel.only_with)
        if step.chosen and kernel is not None and kernel.composed:
            lines.append("    it calls other operators: each of these calls visits the keys of its own arguments")
        elif step.chosen and goes_on and step.key.functionality in _GOING_ON:
            lines.append(f"    {_GOING_ON[step.key.functionality]}:")
            below = list(steps(operator, word_below(word, step.key)))
            for inner in below:
                lines.append(f"      {inner.key.name}: {_why(inner)} (rule {inner.slot.rule})")
                if inner.slot.kernel is not None:
                    lines.append(f"        {inner.slot.kernel!r}")
    last = walked[-1] if walked else None
    mixed = mixed_devices(operator, word, last.key, last.slot) if last is not None and last.chosen else ()
    if last is None or not last.chosen or (_why(last) == "missing" and not mixed):
        lines.append("    the call would raise MissingKernelError")
    elif _why(last) == "ambiguous":
        behind = ", ".join(ambiguous_backends(operator))
        lines.append(f"    the call would raise RegistrationError: {behind} has a kernel of its own")
    elif mixed:
        lines.append(f"    the call would raise DeviceMismatchError: {' and '.join(mixed)}")
    return lines + _lost(operator, word, walked, below)


def _why(step: Step) -> str:
    """Return what a call does at a key."""
    if step.chosen:
        why = {"4 missing": "missing", "2.2 ambiguous": "ambiguous"}.get(step.slot.rule, "handles the call")
        return "handles the call" if step.slot.conditional else why
    kernel = step.slot.kernel
    return "falls through" if kernel is None or kernel.is_fallthrough else "skipped: no argument needs it"


def _condition(kernel: Any) -> str:
    """Return the name and place of a condition; its repr is user code and is not called."""
    when = kernel.when
    return f"{getattr(when, '__qualname__', type(when).__name__)} ({function_site(when)})"


def _lost(operator: Operator, word: int, walked: list[Step], below: list[Step]) -> list[str]:
    """Return one line for each kernel of the operator that is not in the walk above, with the reason."""
    shown_above = {kernel for step in walked + below for kernel in (step.slot.kernel, *step.slot.conditional)}
    here = {kernel.key: step for step in walked if (kernel := step.slot.kernel) is not None}
    lines: list[str] = []
    for key, stack in tuple(operator.kernels.items()):
        for kernel in reversed(stack):
            if kernel in shown_above or kernel.is_fallthrough:
                continue
            if key in here:
                why = "hidden by the one above: explicit beats generated, then the newest wins"
            elif isinstance(key, AliasKey):
                stands_for = [step for step in walked if key.includes(step.key)]
                why = f"rule {stands_for[-1].slot.rule} comes first" if stands_for else "no key of the call is reached"
            elif DispatchKeySet.from_word(word).has(key):
                why = f"{walked[-1].key.name} comes first"
            else:
                why = f"the call has no key {key.name}"
            lines.append(f"  lost: {kernel!r}: {why}")
    fallbacks = operator.registry.fallbacks.get(walked[-1].key, []) if walked else []
    lost = [kernel for kernel in fallbacks if kernel not in shown_above]
    return lines + [f"  lost: fallback {kernel!r}: rule {walked[-1].slot.rule} comes first" for kernel in lost]


def _keys(word: int) -> str:
    """Return the names of the keys in the order of dispatch."""
    return " > ".join(key.name for key in DispatchKeySet.from_word(word)) or "no keys"


def _traits(word: int) -> str:
    names = trait_names(word)
    return f" with {', '.join(names)}" if names else ""
