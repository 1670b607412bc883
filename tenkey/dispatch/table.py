"""The dispatch table of an operator, and the one function that fills its slots.

Note [Dispatch word]
~~~~~~~~~~~~~~~~~~~~
Every tensor carries one int, ``_word``: the bits of its keys and, above them, *traits*, bits that the dispatcher
passes on without reading them (the dtype, "requires a gradient"). A call unites the words of its tensors, applies the
local state, and looks the result up in one dict of the operator. Each entry of the dict was resolved and
specialized for its word: it is a kernel for float32 alone, say, or, where no bit asks for a gradient, the backend's
kernel without the autograd layer. Semantics that need many layers thus cost one look-up. The dict is filled lazily and
cleared by every registration. Guarded by ``tests/tiny/test_dispatch.py``.

Note [Precedence]
~~~~~~~~~~~~~~~~~
The first rule that applies selects the kernel for one operator and one runtime key:

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .._util.record import Record
from .diagnostics.missing_kernel import ambiguous_backends, check_devices, has_kernel, missing_kernel, unhandled
from .kernel import Kernel
from .keys import AliasKey, DispatchKey, DispatchKeySet, all_runtime_keys, backend_mask, runtime_keys, word_below
from .operator import Operator, Slot, Table

__all__ = ["Step", "best", "compute_slot", "compute_table", "resolve", "steps"]


def best(stack: Iterable[Kernel]) -> Kernel | None:
    """Return the unconditional kernel that a stack of registrations for one key amounts to."""
    newest_first = [kernel for kernel in reversed([*stack]) if kernel.when is None]
    return min(newest_first, key=lambda kernel: kernel.origin != "explicit", default=None)


def _conditional(kernels: dict[DispatchKey, list[Kernel]], key: DispatchKey) -> tuple[Kernel, ...]:
    """Return the kernels with a condition in the order of asking: those for the key, then those of its aliases."""
    aliases = [
        alias
        for alias in tuple(kernels)
        if isinstance(alias, AliasKey)
        and alias.includes(key)
        and (key.functionality == "Dense" or alias.name == "Autograd")
    ]
    found: list[Kernel] = []
    for place in (key, *aliases):
        own = [kernel for kernel in reversed(kernels.get(place, [])) if kernel.when is not None]
        found += sorted(own, key=lambda kernel: -kernel.priority)
    return tuple(found)


def compute_slot(operator: Operator, key: DispatchKey) -> Slot:
    """Fill one slot; the only function that knows Note [Precedence]."""
    kernels, fallbacks = operator.kernels, operator.registry.fallbacks
    conditional = _conditional(kernels, key)

    def of(place: DispatchKey, stacks: dict[DispatchKey, list[Kernel]] = kernels) -> Kernel | None:
        return best(stacks.get(place, ()))

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
        if key.functionality == "AutogradOther" and ambiguous_backends(operator):
            return Slot("2.2 ambiguous", None, conditional)
        has_own = explicit is not None or (
            key.is_autograd and key.backend is not None and has_kernel(operator, key.backend)
        )
        if is_backend or not has_own:
            return Slot("2.2 CompositeImplicitAutograd", implicit, conditional)
    # 2.3
    autograd = of(DispatchKey.Autograd) if key.is_autograd else None
    if autograd is not None:
        return Slot("2.3 Autograd", autograd, conditional)
    # 3
    fallback = of(key, fallbacks)
    if fallback is None and key.is_autograd:
        fallback = of(DispatchKey.Autograd, fallbacks)
    if fallback is not None:
        return Slot("3 fallback", fallback, conditional)
    # 4
    return Slot("4 missing" if is_backend else "4 falls through", None, conditional)


def compute_table(operator: Operator) -> Table:
    """Compute the whole table, from the registrations alone.

    >>> op = tk.ops.tk.add.default
    >>> tk.dispatch.compute_table(op) == op.table()
    True
    """
    return Table({key: compute_slot(operator, key) for key in all_runtime_keys()})


class Step(Record, frozen=True):
    """What a call does at one key."""

    key: DispatchKey
    slot: Slot
    chosen: bool


def _skips(kernel: Kernel, word: int) -> bool:
    return kernel.is_fallthrough or bool(kernel.only_with and not word & kernel.only_with)


def steps(operator: Operator, word: int) -> Iterable[Step]:
    """Walk the keys of a word from the first up to the one that handles the call."""
    for key in runtime_keys(word):
        slot = operator.slot(key)
        kernel = slot.kernel
        if slot.falls_through or (kernel is not None and not slot.conditional and _skips(kernel, word)):
            yield Step(key, slot, chosen=False)
        else:
            yield Step(key, slot, chosen=True)
            return
    if not word & backend_mask():  # lists are empty, optionals None: the kernel for all devices serves the call
        alias = DispatchKey.CompositeExplicitAutograd
        kernel = best(operator.kernels.get(alias, ()))
        if kernel is not None and not kernel.is_fallthrough:
            yield Step(alias, Slot(f"2.1 {alias.name}", kernel), chosen=True)


def resolve(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the callable that handles a call of ``operator`` with this dispatch word."""
    step = next((step for step in steps(operator, word) if step.chosen), None)
    if step is None:
        raise missing_kernel(operator, word)
    check_devices(operator, word, step.key, step.slot)
    slot, kernel = step.slot, step.slot.kernel
    if not slot.conditional:
        if kernel is None:
            raise unhandled(operator, word, slot)
        return _bind_kernel(operator, word, kernel)
    below = word_below(word, step.key)
    goes_on = slot.rule == "4 falls through" if kernel is None else _skips(kernel, word)
    base = _bind_kernel(operator, word, kernel) if kernel is not None and not goes_on else None
    choices = [(_bind_condition(operator, word, k), _bind_kernel(operator, word, k)) for k in slot.conditional]

    def choose(*args: Any, **kwargs: Any) -> Any:
        for when, function in choices:
            if when(*args, **kwargs):
                return function(*args, **kwargs)
        if goes_on:
            return operator.cache[below](*args, **kwargs)
        if base is None:
            raise unhandled(operator, word, slot)
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
