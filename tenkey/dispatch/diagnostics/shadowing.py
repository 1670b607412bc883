"""Warnings about registrations that have no effect.

Note [Shadowed registrations]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An ``explicit`` kernel without ``when=`` is *shadowed* if Note [Precedence] gives every runtime key that it stands for
to another registration. Two cases can occur without ``allow_override=True``, which permits them:

- ``CompositeImplicitAutograd`` beside ``CompositeExplicitAutograd``: the latter takes all backends and disables the
  former on the autograd keys. No later kernel changes that, so the warning comes with the second registration.
- an alias whose keys are all taken, as those of ``Autograd`` are by ``CompositeImplicitAutograd`` while no backend has
  a kernel of its own. A later kernel may change that, so the warning waits for the first call.

Each shadowed registration causes one warning, which names both places. A generated kernel that an explicit one replaces
is normal and causes none. Guarded by
``tests/tiny/test_registry.py::TestShadowed``.
"""

from __future__ import annotations

import warnings

from ..errors import ShadowedKernelWarning
from ..kernel import Kernel
from ..keys import AliasKey, DispatchKey, all_runtime_keys
from ..operator import Operator

__all__ = ["warn_of_lost", "warn_of_shadowed"]


def _written(operator: Operator, key: DispatchKey) -> list[Kernel]:
    return [k for k in operator.kernels.get(key, ()) if k.origin == "explicit" and k.when is None and not k.warned]


def _warn(operator: Operator, lost: Kernel, won: Kernel) -> None:
    lost.warned = True
    text = (
        f"[{operator.name}] the kernel for {lost.key.name} registered at {lost.site} is never reached: the one "
        f"for {won.key.name} registered at {won.site} takes precedence for every key that it stands for. Remove one "
        "of them, or pass allow_override=True to the registration that is meant to win."
    )
    place, _, line = won.site.rpartition(":")
    warnings.warn_explicit(text, ShadowedKernelWarning, place or "tenkey", int(line) if line.isdecimal() else 0)


def warn_of_shadowed(operator: Operator, *, asked_for: bool) -> None:
    """Warn about kernels that no later registration can make reachable, unless the newest one may override them."""
    if DispatchKey.CompositeExplicitAutograd not in operator.kernels:
        return
    explicit = [k for k in operator.kernels.get(DispatchKey.CompositeExplicitAutograd, ()) if k.when is None]
    if not explicit:
        return
    for lost in _written(operator, DispatchKey.CompositeImplicitAutograd):
        if asked_for:
            lost.warned = True
        else:
            _warn(operator, lost, explicit[-1])


def warn_of_lost(operator: Operator) -> None:
    """Warn at the first call about kernels for an alias whose keys are all taken by other registrations."""
    for alias in tuple(operator.kernels):
        if not isinstance(alias, AliasKey):
            continue
        lost = _written(operator, alias)
        if not lost or lost[-1].is_fallthrough:
            continue
        slots = [operator.registry.compute_slot(operator, key) for key in all_runtime_keys() if alias.includes(key)]
        winners = [slot.kernel for slot in slots if slot.kernel is not None]
        if winners and not any(kernel in lost for kernel in winners):
            _warn(operator, lost[-1], winners[-1])
