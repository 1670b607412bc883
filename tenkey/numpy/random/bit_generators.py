"""Seeds and sources of random bits.

NumPy separates distributions from generators of bits, of which it has five. Here there is one, Philox 4x32-10 of
``tk.random``, whose numbers are the same on every device and for any number of threads. It answers to NumPy's names, so
that programs run; **the numbers are not those of NumPy's generators**.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ... import random as _random
from ...core.dtypes import names as dtypes
from ...core.random.ahead import Ahead
from ...core.random.generator import Generator as Source
from ...core.random.generator import GeneratorState, _from_state
from .drawing import as_drawn

__all__ = ["MT19937", "PCG64", "PCG64DXSM", "SFC64", "BitGenerator", "Philox", "source_of_seed", "state_of"]

_SEED: Final = "[random] got the seed {seed!r}: a seed is None, an integer of at least 0, or a sequence of these."
_END: Final = 1 << 64


def source_of_seed(seed: Any = None) -> Source:
    """Return a generator of ``tk.random``. An integer below 2**64 is its seed; longer seeds are hashed by NumPy.

    Raises TypeError and ValueError for anything but None, integers of at least 0, sequences of them and
    ``SeedSequence``.
    """
    if seed is None:
        return Source()
    if isinstance(seed, float) or (isinstance(seed, np.ndarray) and seed.dtype.kind == "f"):
        raise TypeError(_SEED.format(seed=seed))
    try:
        number = operator.index(seed)
    except TypeError:
        return _source_of_sequence(seed)
    if number < 0:
        raise ValueError(_SEED.format(seed=seed))
    return Source(number) if number < _END else _hashed(np.random.SeedSequence(number))


def _source_of_sequence(seed: Any) -> Source:
    if isinstance(seed, np.random.SeedSequence):
        entropy: Any = seed.entropy
        plain = not seed.spawn_key and isinstance(entropy, int) and entropy < _END
        return Source(entropy) if plain else _hashed(seed)
    if isinstance(seed, str) or (not isinstance(seed, Sequence) and not hasattr(seed, "__array__")):
        raise TypeError(_SEED.format(seed=seed))
    words = np.asarray(seed).reshape(-1)
    if words.dtype.kind not in "iu" or (words < 0).any():
        raise ValueError(_SEED.format(seed=seed))
    return _hashed(np.random.SeedSequence(words.tolist()))


def _hashed(sequence: np.random.SeedSequence) -> Source:
    seed, stream = sequence.generate_state(2, np.uint64).tolist()
    return _from_state(GeneratorState(seed, stream, 0))


def state_of(state: Any) -> tuple[int, int, int]:
    """Return the three integers of a state as ``BitGenerator.state`` and ``get_state`` return it."""
    if isinstance(state, dict) and isinstance(state.get("state"), dict):
        inner = state["state"]
        return inner["seed"], inner["stream"], inner["offset"]
    if isinstance(state, tuple) and len(state) == 2:
        return tuple(state[1])
    raise ValueError(
        f"[random] got the state {state!r}: it must come from get_state() or bit_generator.state of tenkey.numpy."
    )


class BitGenerator:
    """A source of random bits: Philox 4x32-10, which ``Generator`` and ``RandomState`` draw from.

    ``seed`` is as for ``default_rng``. ``generator`` is the ``tk.random.Generator`` that counts the numbers.

    >>> import tenkey.numpy.random as random
    >>> bits = random.Philox(7)
    >>> random.Generator(bits).random() == random.default_rng(7).random(), bits.generator
    (True, Generator(seed=7, stream=0, offset=1))
    """

    __slots__ = ("__weakref__", "_ahead", "_sequence", "generator", "lock")

    def __init__(self, seed: Any = None) -> None:
        self._sequence = seed if hasattr(seed, "spawn_key") else None
        self.generator = source_of_seed(seed)
        self.lock = threading.Lock()
        self._ahead: dict[str, Ahead] = {}

    @classmethod
    def of(cls, source: Source) -> BitGenerator:
        """Return the bit generator that draws from a generator of ``tk.random``."""
        made = cls(0)
        made.generator = source
        return made

    def ahead(self, kind: str, count: int) -> Any:
        """Draw a few numbers of a kind: see Note [Numbers ahead] in ``tenkey/core/random/ahead.py``."""
        numbers = self._ahead.get(kind)
        if numbers is None:
            numbers = self._ahead[kind] = Ahead(kind)
        key, start = self.generator.next_key(count)
        return numbers.take(key, start, count)

    @property
    def seed_seq(self) -> np.random.SeedSequence:
        """The seed as NumPy's ``SeedSequence``."""
        return self._sequence or np.random.SeedSequence(self.generator.initial_seed)

    @property
    def state(self) -> dict[str, Any]:
        """The state, which can be assigned: a dict with the three integers of ``tk.random.Generator.state``."""
        return {"bit_generator": type(self).__name__, "state": dict(self.generator.get_state()._asdict())}

    @state.setter
    def state(self, state: Any) -> None:
        self.generator.set_state(state_of(state))

    def spawn(self, n_children: int) -> list[BitGenerator]:
        """Return new sources, independent of this one and each other."""
        return [type(self).of(source) for source in self.generator.split(n_children)]

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Return random 64-bit integers."""
        drawn = _random.integers(0, 1 << 64, size, dtype=dtypes.uint64, generator=self.generator)
        return as_drawn(drawn, scalar=size is None) if output else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.generator)

    def __repr__(self) -> str:
        state = self.generator.get_state()
        return f"{type(self).__name__}(seed={state.seed}, stream={state.stream}, offset={state.offset})"


def _restored(cls: type[BitGenerator], source: Source) -> BitGenerator:
    return cls.of(source)


class Philox(BitGenerator):
    """Philox 4x32-10. NumPy's is the wider Philox 4x64-10, with other numbers.

    >>> import tenkey.numpy.random as random
    >>> random.Philox(7).advance(10).state["state"]["offset"]
    10
    """

    __slots__ = ()

    def __init__(self, seed: Any = None, counter: Any = None, key: Any = None) -> None:
        if counter is not None or key is not None:
            raise NotImplementedError(
                "[random.Philox] counter= and key= belong to NumPy's Philox 4x64: give seed=, or assign state, "
                "whose seed, stream and offset are the key and the counter here."
            )
        super().__init__(seed)

    def advance(self, delta: int) -> Philox:
        """Skip ``delta`` numbers and return the source itself."""
        self.generator.skip(operator.index(delta))
        return self

    def jumped(self, jumps: int = 1) -> Philox:
        """Return a new source with the seed of this one and a stream ``jumps`` further on."""
        seed, stream, _ = self.generator.get_state()
        state = GeneratorState(seed, (stream + operator.index(jumps)) % (1 << 64), 0)
        return type(self).of(_from_state(state))  # type: ignore[return-value]


MT19937 = PCG64 = PCG64DXSM = SFC64 = Philox
