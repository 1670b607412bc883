"""The dispatch table of an operator, and the one function that fills its slots.

Note [Dispatch word]
~~~~~~~~~~~~~~~~~~~~
Every tensor carries one int, ``_word``: the bits of its keys and, above them, *traits*: bits that the dispatcher
carries along and does not read (the dtype, "requires a gradient"). A call unites the words of its tensors, applies the
local state, and looks the result up in one dict of the operator. What the dict holds was resolved and specialised for
this very word: a kernel for float32 alone, say, or, where no bit asks for a gradient, the backend's kernel with the
autograd hop left out. So semantics that need many layers cost one look-up. The dict is filled lazily and cleared by
every registration. Guarded by ``tests/tiny/test_dispatch.py``.

Note [Precedence]
~~~~~~~~~~~~~~~~~
The kernel for one operator and one runtime key, the first rule that applies:

1.   a kernel registered for this very key;
2.1  on a backend's own key: the operator's ``CompositeExplicitAutograd`` kernel;
2.2  the ``CompositeImplicitAutograd`` kernel, unless this is an autograd key and its backend has a kernel of its own
     or the operator has a ``CompositeExplicitAutograd`` kernel (these need a gradient formula instead); on
     ``AutogradOther`` it is ambiguous, an error of the call, if a backend behind that key has a kernel of its own;
2.3  on an autograd key: the kernel of the alias ``Autograd``;
3    the fallback registered for the key;
4    none: a backend's own key is missing its kernel, every other key falls through.

Within rule 1 an ``explicit`` kernel beats a ``generated`` one, and of equals the newest wins. Conditional kernels of a
key (``when=``) are asked first, the highest priority first and of equals the newest; if none accepts, the call goes on
as the rules say, which on a key that falls through means on to the next key. Guarded by ``tests/tiny/test_table.py``.

Note [Disabled kernels]
~~~~~~~~~~~~~~~~~~~~~~~
A kernel can be switched off for a part of a program without being removed: it carries a trait of its own,
``Kernel.disabled``, and a guard that includes this trait locally (``StateGuard(include=trait)``) puts it into the word
of every call. For such a word the slot is computed as if the kernel were not registered, whichever rule it stands
behind, so the call goes to the next one. Slots are kept by key and by those bits of the word that disable a kernel of
this operator; a call in which nothing is disabled does no work for it. A trait given to a kernel that is registered
already counts from the next ``operator.invalidate()``. Guarded by ``tests/tiny/test_table.py::TestDisabled``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .diagnostics.missing_kernel import missing_kernel
from .errors import DeviceMismatchError, MissingKernelError, RegistrationError
from .kernel import Kernel
from .keys import (
    AliasKey,
    DispatchKey,
    DispatchKeySet,
    all_runtime_keys,
    backend_mask,
    backends_in,
    key_mask,
    runtime_keys,
)

if TYPE_CHECKING:
    from .operator import Operator

__all__ = [
    "Slot",
    "Step",
    "Table",
    "ambiguous_backends",
    "best",
    "compute_slot",
    "compute_table",
    "disabling_bits",
    "mixed_devices",
    "resolve",
    "steps",
]


class Slot(NamedTuple):
    """The kernel for one runtime key, and the rule of Note [Precedence] that chose it."""

    rule: str
    kernel: Kernel | None
    conditional: tuple[Kernel, ...] = ()

    @property
    def falls_through(self) -> bool:
        """Whether a call passes this key by."""
        return self.kernel is None and not self.conditional and self.rule == "4 falls through"


class Table(dict[DispatchKey, Slot]):
    """Runtime key to slot, in the order of dispatch; prints as a table."""

    def __str__(self) -> str:
        rows = [(key.name, slot.rule, repr(slot.kernel) if slot.kernel else "-") for key, slot in self.items()]
        return _columns([row for row in rows if row[1] != "4 falls through"])


def _columns(rows: Iterable[tuple[str, ...]]) -> str:
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def best(stack: list[Kernel], disabled: int = 0) -> Kernel | None:
    """The unconditional kernel that a stack of registrations for one key amounts to."""
    for origin in ("explicit", "generated"):
        for kernel in reversed(stack):
            if kernel.origin == origin and kernel.when is None and not kernel.disabled & disabled:
                return kernel
    return None


def _enabled(stack: Iterable[Kernel], disabled: int) -> bool:
    return any(not kernel.disabled & disabled for kernel in stack)


def ambiguous_backends(operator: Operator, disabled: int = 0) -> list[str]:
    """The backends behind ``AutogradOther`` that have a kernel of their own."""
    names = operator.registry.autograd_other
    return [name for name in names if _enabled(operator.kernels.get(getattr(DispatchKey, name), ()), disabled)]


def disabling_bits(operator: Operator) -> int:
    """The traits that disable a kernel or fallback which this operator may reach."""
    bits = 0
    for stacks in (operator.kernels, operator.registry.fallbacks):
        for stack in tuple(stacks.values()):
            for kernel in stack:
                bits |= kernel.disabled
    return bits


def _conditional(kernels: dict[DispatchKey, list[Kernel]], key: DispatchKey, disabled: int) -> tuple[Kernel, ...]:
    """The kernels with a condition that are asked first: those for the key, then those for an alias that covers it."""
    aliases = [
        alias
        for alias in tuple(kernels)
        if isinstance(alias, AliasKey)
        and alias.includes(key)
        and (key.functionality == "Dense" or alias.name == "Autograd")
    ]
    found: list[Kernel] = []
    for place in (key, *aliases):
        stack = reversed(kernels.get(place, []))
        own = [kernel for kernel in stack if kernel.when is not None and not kernel.disabled & disabled]
        found += sorted(own, key=lambda kernel: -kernel.priority)
    return tuple(found)


def compute_slot(operator: Operator, key: DispatchKey, disabled: int = 0) -> Slot:
    """Fill one slot; the only place that knows Note [Precedence]. Kernels with a trait in ``disabled`` are absent."""
    kernels = operator.kernels
    conditional = _conditional(kernels, key, disabled)

    def of(place: DispatchKey, stacks: dict[DispatchKey, list[Kernel]] = kernels) -> Kernel | None:
        return best(stacks.get(place, []), disabled)

    # 1
    direct = of(key)
    if direct is not None:
        return Slot("1 direct", direct, conditional)
    explicit = of(DispatchKey.CompositeExplicitAutograd)
    implicit = of(DispatchKey.CompositeImplicitAutograd)
    is_backend = key.functionality == "Dense"
    # 2.1
    if explicit is not None and is_backend:
        return Slot("2.1 CompositeExplicitAutograd", explicit, conditional)
    # 2.2
    if implicit is not None and (is_backend or key.is_autograd):
        if key.functionality == "AutogradOther" and ambiguous_backends(operator, disabled):
            return Slot("2.2 ambiguous", None, conditional)
        has_own = explicit is not None
        if key.is_autograd and key.backend is not None:
            has_own = has_own or _enabled(kernels.get(getattr(DispatchKey, key.backend), ()), disabled)
        if is_backend or not has_own:
            return Slot("2.2 CompositeImplicitAutograd", implicit, conditional)
    # 2.3
    if key.is_autograd:
        autograd = of(DispatchKey.Autograd)
        if autograd is not None:
            return Slot("2.3 Autograd", autograd, conditional)
    # 3
    fallback = of(key, operator.registry.fallbacks)
    if fallback is None and key.is_autograd:
        fallback = of(DispatchKey.Autograd, operator.registry.fallbacks)
    if fallback is not None:
        return Slot("3 fallback", fallback, conditional)
    # 4
    return Slot("4 missing" if is_backend else "4 falls through", None, conditional)


def compute_table(operator: Operator) -> Table:
    """The whole table, from the registrations alone.

    >>> import tenkey as tk
    >>> op = tk.ops.tk.add.default
    >>> tk.dispatch.compute_table(op) == op.table()
    True
    """
    return Table({key: compute_slot(operator, key) for key in all_runtime_keys()})


class Step(NamedTuple):
    """What a call does at one key: for ``explain``."""

    key: DispatchKey
    slot: Slot
    chosen: bool
    why: str


def steps(operator: Operator, word: int) -> Iterable[Step]:
    """Walk the keys of a word from the first, up to and with the one that handles the call."""
    for key in runtime_keys(word):
        slot = operator.slot(key, word)
        kernel = slot.kernel
        if slot.falls_through or (kernel is not None and kernel.is_fallthrough and not slot.conditional):
            yield Step(key, slot, False, "falls through")
        elif kernel is not None and kernel.only_with and not word & kernel.only_with and not slot.conditional:
            yield Step(key, slot, False, "skipped: no argument needs it")
        else:
            why = "missing" if slot.rule == "4 missing" else "ambiguous" if slot.rule == "2.2 ambiguous" else ""
            yield Step(key, slot, True, "handles the call" if slot.conditional else why or "handles the call")
            return
    if not word & backend_mask():  # its lists are empty, its optionals None: what is for all devices serves the call
        alias = DispatchKey.CompositeExplicitAutograd
        kernel = best(operator.kernels.get(alias, []), word)
        if kernel is not None and not kernel.is_fallthrough:
            yield Step(alias, Slot(f"2.1 {alias.name}", kernel), True, "handles the call")


def mixed_devices(operator: Operator, word: int, step: Step) -> tuple[str, ...]:
    """The devices that a step may not mix; empty where all is well."""
    if step.key.functionality != "Dense" or step.slot.rule not in ("1 direct", "4 missing") or operator.mixes_devices:
        return ()
    present = backends_in(word & backend_mask())
    if step.slot.rule == "4 missing" and not any(operator.kernels.get(getattr(DispatchKey, name)) for name in present):
        return ()
    return tuple(map(operator.registry.device_name, present)) if len(present) > 1 else ()


def resolve(operator: Operator, word: int) -> Callable[..., Any]:
    """The callable that handles a call of ``operator`` with this dispatch word."""
    for step in steps(operator, word):
        if step.chosen:
            mixed = mixed_devices(operator, word, step)
            if mixed:
                raise DeviceMismatchError(
                    f"[{operator.name}] got tensors on different devices ({' and '.join(mixed)}): all tensors of a "
                    "call live on one device. Move them with x.to(device)."
                )
            return _bind(operator, word, step)
    raise missing_kernel(operator, word)


def _bind(operator: Operator, word: int, step: Step) -> Callable[..., Any]:
    slot = step.slot
    if not slot.conditional:
        if slot.kernel is None:
            raise _unhandled(operator, word, slot)
        return _bind_kernel(operator, word, slot.kernel)
    below = DispatchKeySet.from_word(word).below(step.key).mask | (word & ~key_mask())
    kernel = slot.kernel
    if kernel is None:
        goes_on = slot.rule == "4 falls through"
    else:
        goes_on = kernel.is_fallthrough or bool(kernel.only_with and not word & kernel.only_with)
    base = _bind_kernel(operator, word, kernel) if kernel is not None and not goes_on else None
    choices = [(_bind_condition(operator, word, k), _bind_kernel(operator, word, k)) for k in slot.conditional]

    def choose(*args: Any, **kwargs: Any) -> Any:
        for when, function in choices:
            if when(*args, **kwargs):
                return function(*args, **kwargs)
        if goes_on:
            return operator.cache[below](*args, **kwargs)
        if base is None:
            raise _unhandled(operator, word, slot)
        return base(*args, **kwargs)

    return choose


def _bind_condition(operator: Operator, word: int, kernel: Kernel) -> Callable[..., Any]:
    assert kernel.when is not None
    return kernel.when if kernel.specialize_when is None else kernel.specialize_when(operator, word)


def _bind_kernel(operator: Operator, word: int, kernel: Kernel) -> Callable[..., Any]:
    if kernel.specialize is not None:
        return kernel.specialize(operator, word)
    leading: list[Any] = [operator] if kernel.boxed else []
    if kernel.with_keyset:
        leading.append(DispatchKeySet.from_word(word))
    return partial(kernel.function, *leading) if leading else kernel.function


def _unhandled(operator: Operator, word: int, slot: Slot) -> MissingKernelError | RegistrationError:
    if slot.rule == "2.2 ambiguous":
        backends = ", ".join(ambiguous_backends(operator, word))
        return RegistrationError(
            f"[{operator.name}] is ambiguous for AutogradOther: it has a composite kernel, and {backends} has a "
            "kernel of its own. Register a kernel for AutogradOther."
        )
    return missing_kernel(operator, word)
