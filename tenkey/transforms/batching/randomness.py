"""Random numbers inside vmap: the same for all samples, different ones, or an error.

Note [Randomness under vmap]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A draw has no tensor arguments, so it has no batched ones either. While a vmap runs, the key ``VmapMode`` is included in
every call of its thread or task. It falls through except for operators that draw, which are recognised by their
arguments ``seed``, ``stream`` and ``start``. ``different`` draws for all samples at once from a separate stream, which
is computed from the address of the call, so that no number is drawn twice. Guarded by
``tests/transforms/test_vmap.py::TestRandomness``.

Note [Random chunks]
~~~~~~~~~~~~~~~~~~~~
``chunk_size`` must not change a number. So every chunk starts with the generators in the state in which the first one
found them, and its draw is the part of the draw for all samples that belongs to its samples: the stream is computed
from the number of all samples, and the elements begin where those of the samples before end. Within another vmap, whose
samples each have a part of such a draw, and for operators whose elements are not addressed one by one, the draw for all
samples is made and cut. An operator without a batching rule, which runs sample by sample, may draw from a generator
itself: the first chunk counts what a sample takes, and every chunk skips what the samples before and behind it take.
Guarded by ``tests/transforms/test_vmap.py::TestRandomChunks``.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from ...core import random as core_random
from ...core.wrapper import open_levels
from ...dispatch.kernel import Handle, Kernel
from ...dispatch.keys import DispatchKey, DispatchKeySet
from ...dispatch.operator import Operator
from ...ops.builtin.shape.copying import stack
from ...ops.builtin.shape.views import slice

__all__ = ["install_randomness"]

_ADDRESS: Final = {"seed", "stream", "start"}
_MASK: Final = (1 << 64) - 1
_ONE_BY_ONE: Final = frozenset({"random_uniform", "random_normal", "random_integers", "random_standard"})


def _mixed(*numbers: int) -> int:
    """Hash the numbers to 64 bits with the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def _per_element(operator: Operator) -> int | None:
    """Return how many element numbers of its stream an element of a draw takes, or None if that is unknown."""
    if operator.schema.namespace != "tk":
        return None
    if operator.schema.base_name == "random_addresses":
        return core_random.samplers.BLOCKS_PER_ELEMENT
    return 1 if operator.schema.base_name in _ONE_BY_ONE else None


def _draw(operator: Operator, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
    from .level import _RANDOM, BatchLevel  # Note [Delayed modules]: this module is loaded at import

    levels = [level for level in open_levels() if isinstance(level, BatchLevel)]
    level = levels.pop() if levels else None
    if level is None:
        return operator.redispatch(keyset.below(DispatchKey.VmapMode), *args, **kwargs)
    if level.randomness == "error":
        raise RuntimeError(_RANDOM.format(operator=operator.name))
    nested = any(outer.randomness == "different" for outer in levels)
    restore = level.outside()
    try:
        if level.randomness == "same":
            return operator.call(*args, **kwargs)
        bound = operator.bind(*args, **kwargs)
        bound["stream"] = _mixed(bound["stream"], bound["start"], level.total)
        bound["start"] = 0
        first, stop = level.first, level.first + level.size
        if "shape" in bound:
            count = _per_element(operator)
            is_part = level.size < level.total
            is_cut = is_part and (count is None or nested)
            if is_part and not is_cut:
                bound["start"] = first * prod(bound["shape"]) * count
            bound["shape"] = (level.total if is_cut else level.size, *bound["shape"])
            drawn = operator.call(**bound)
            if is_cut:
                drawn = slice(drawn, 0, first, stop, 1)
        else:
            streams = [_mixed(bound["stream"], b) for b in range(first, stop)]
            drawn = stack([operator.call(**{**bound, "stream": stream}) for stream in streams], axis=0)
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
