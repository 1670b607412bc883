"""Random numbers inside vmap: the same for all samples, different ones, or an error.

Note [Randomness under vmap]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A draw has no tensor arguments, so it has no batched ones either. While a vmap runs, the key ``VmapMode`` is included in
every call of its thread or task. It falls through except for operators that draw, which are recognised by their
arguments ``seed``, ``stream`` and ``start``. ``different`` draws for all samples at once from a separate stream, which
is computed from the address of the call, so that no number is drawn twice. Guarded by
``tests/transforms/test_vmap.py::TestRandomness``.
"""

from __future__ import annotations

from typing import Any, Final

from ...core.wrapper import open_levels
from ...dispatch.kernel import Handle, Kernel
from ...dispatch.keys import DispatchKey, DispatchKeySet
from ...dispatch.operator import Operator
from ...ops.builtin.shape.copying import stack

__all__ = ["install_randomness"]

_ADDRESS: Final = {"seed", "stream", "start"}
_MASK: Final = (1 << 64) - 1


def _mixed(*numbers: int) -> int:
    """Hash the numbers to 64 bits with the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def _draw(operator: Operator, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
    from .level import _RANDOM, BatchLevel  # Note [Delayed modules]: this module is loaded at import

    level = next((level for level in reversed(open_levels()) if isinstance(level, BatchLevel)), None)
    if level is None:
        return operator.redispatch(keyset.below(DispatchKey.VmapMode), *args, **kwargs)
    if level.randomness == "error":
        raise RuntimeError(_RANDOM.format(operator=operator.name))
    restore = level.outside()
    try:
        if level.randomness == "same":
            return operator.call(*args, **kwargs)
        bound = operator.bind(*args, **kwargs)
        names = [a.name for a in operator.schema.arguments]
        bound["stream"] = _mixed(bound["stream"], bound["start"], level.size)
        bound["start"] = 0
        if "shape" in bound:
            bound["shape"] = (level.size, *bound["shape"])
            drawn = operator.call(*[bound[n] for n in names if n not in kwargs], **{n: bound[n] for n in kwargs})
        else:
            draws = []
            for b in range(level.size):
                own = {**bound, "stream": _mixed(bound["stream"], b)}
                draws.append(operator.call(*[own[n] for n in names if n not in kwargs], **{n: own[n] for n in kwargs}))
            drawn = stack(draws, axis=0)
    finally:
        restore()
    return level.batch(drawn, 0)


def _install(operator: Operator) -> list[Handle]:
    if not {a.name for a in operator.schema.arguments} >= _ADDRESS:
        return []

    def specialize(op: Operator, word: int) -> Any:
        keyset = DispatchKeySet.from_word(word)
        return lambda *args, **kwargs: _draw(op, keyset, *args, **kwargs)

    kernel = Kernel(_draw, DispatchKey.VmapMode, origin="generated", specialize=specialize)
    return [operator.registry.impl(operator.name, kernel)]


def install_randomness(registry: Any) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_install)
