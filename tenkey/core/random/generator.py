"""Random generators: keys, and counts of the random numbers drawn.

A random number is a function of a key and an element number (``philox``). A ``Generator`` holds a key and counts the
elements drawn, so that no number is used twice. Its state is three integers.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from ..._util.checked_integer import checked_integer
from ..._util.interrupts import switch
from ..._util.locks import new_lock
from .philox import ELEMENT_LIMIT, Key, derive_keys

__all__ = ["Generator", "GeneratorState", "default_generator", "note_draws", "replace_generators", "seed"]


class GeneratorState(NamedTuple):
    """The state of a generator: three integers.

    >>> tk.random.Generator(7).get_state().seed
    7
    """

    seed: int
    stream: int
    offset: int


def _checked_seed(seed: Any) -> int:
    message = f"[Generator] got the seed {seed!r}: a seed is an integer in [0, 2**64)."
    return checked_integer(seed, message, limit=1 << 64)


_lock: Final = new_lock()  # one for all generators: it is held for less than a microsecond


def _checked_count(method: str, count: Any) -> int:
    return checked_integer(count, f"[Generator.{method}] got {count!r}: the count must be an integer of at least 0.")


# Note [One count for all layouts]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The offset counts *elements* of any distribution and dtype, not blocks: the layout of a distribution determines where
# the bits of an element are (Note [Random addresses] in philox.py), and draws of different layouts never use the same
# bits. So a draw of 10 elements followed by one of 20 gives the same numbers as one draw of 30, and a kernel needs only
# (seed, stream, start). Guarded by test_philox.py::test_two_draws_are_one_draw.
class Generator:
    """A source of random numbers with an explicit state. Threads may share one: they never get the same numbers.

    ``seed`` is an integer in [0, 2**64), by default chosen by the operating system. Raises TypeError for other types
    and ValueError outside the range.

    >>> generator = Generator(7)
    >>> generator.next_key(100), generator.next_key(5)
    (((7, 0), 0), ((7, 0), 100))
    """

    __slots__ = ("__weakref__", "_offset", "_seed", "_stream")

    def __init__(self, seed: int | None = None) -> None:
        self._seed = int.from_bytes(os.urandom(8)) if seed is None else _checked_seed(seed)
        self._stream = 0
        self._offset = 0

    @property
    def initial_seed(self) -> int:
        """The seed; a run with a seed chosen by the operating system can be repeated with it."""
        return self._in_use._seed

    def manual_seed(self, seed: int) -> Generator:
        """Restart from ``seed``, like a new ``Generator(seed)``, and return the generator."""
        value = _checked_seed(seed)
        own = self._in_use
        with _lock:
            own._seed, own._stream, own._offset = value, 0, 0
        return self

    def next_key(self, count: int) -> tuple[Key, int]:
        """Reserve ``count`` elements and return the key and the number of the first, for ``philox``.

        Raises RuntimeError if the stream has fewer left.
        """
        number = _checked_count("next_key", count)
        own = self if _replaced.get() is None else self._in_use
        with _lock:
            return own._reserve(number)

    @property
    def _in_use(self) -> Generator:
        """The generator that takes the place of this one in this context."""
        return (_replaced.get() or {}).get(self, self)

    def _reserve(self, count: int) -> tuple[Key, int]:
        if self._offset + count > ELEMENT_LIMIT:
            raise RuntimeError(
                f"[Generator.next_key] got a request for {count} elements after {self._offset}: a stream has 2**60. "
                "Continue with a generator made by `split`, or seed this one again."
            )
        for states in _noting.get():
            states.setdefault(self, GeneratorState(self._seed, self._stream, self._offset))
        start = self._offset  # read last: a garbage collection may have run a finalizer that draws
        self._offset = start + count
        return (self._seed, self._stream), start

    def skip(self, count: int) -> None:
        """Advance past ``count`` elements that other calls draw.

        >>> generator = Generator(7)
        >>> generator.skip(3)
        >>> generator.state.offset
        3
        """
        own = self._in_use
        with _lock:
            own._offset = min(own._offset + count, ELEMENT_LIMIT)

    def reserved(self, count: int) -> _Reserved:
        """Reserve ``count`` elements for a ``with`` block, which gets (seed, stream, start).

        If the block raises, the elements are returned (unless another draw has followed): a refused call does not
        change the generator.

        >>> generator = Generator(7)
        >>> with generator.reserved(3) as (seed, stream, start):
        ...     print(seed, stream, start)
        7 0 0
        """
        return _Reserved(self if _replaced.get() is None else self._in_use, count)

    def split(self, n: int) -> list[Generator]:
        """Return ``n`` new generators, determined by the state of this one and independent of it and each other.

        For parallel work: the numbers of one do not depend on how many the others drew. This generator advances, so
        that a second ``split`` gives different ones.

        >>> first, second = Generator(7).split(2)
        >>> first.get_state() == second.get_state()
        False
        """
        number = _checked_count("split", n)
        own = self._in_use
        with _lock:
            key, start = own._reserve(number)
        return [_from_state(GeneratorState(seed, stream, 0)) for seed, stream in derive_keys(key, start, number)]

    def spawn(self, n: int) -> list[Generator]:
        """Return ``split(n)``, under NumPy's name for it."""
        return self.split(n)

    def clone(self) -> Generator:
        """Return a generator in the same state, which draws the same numbers."""
        return _from_state(self.get_state())

    def get_state(self) -> GeneratorState:
        """Return the state, from which ``set_state`` repeats all later draws."""
        own = self._in_use
        with _lock:
            return GeneratorState(own._seed, own._stream, own._offset)

    def set_state(self, state: tuple[int, int, int]) -> None:
        """Return to a state from ``get_state``. Raises ValueError for an impossible state.

        >>> generator = Generator(7)
        >>> before = generator.get_state()
        >>> first = generator.next_key(3)
        >>> generator.set_state(before)
        >>> generator.next_key(3) == first
        True
        """
        message = (
            f"[Generator.set_state] got {state!r}: a state is (seed, stream, offset) with seed and stream in "
            "[0, 2**64) and offset in [0, 2**60], as `get_state` returns it."
        )
        try:
            seed, stream, offset = map(operator.index, state)
        except (TypeError, ValueError):
            raise ValueError(message) from None
        if not (0 <= seed < 1 << 64 and 0 <= stream < 1 << 64 and 0 <= offset <= ELEMENT_LIMIT):
            raise ValueError(message)
        own = self._in_use
        with _lock:
            own._seed, own._stream, own._offset = seed, stream, offset

    @property
    def state(self) -> GeneratorState:
        """``get_state()``; assigning to it is ``set_state``.

        >>> generator = Generator(7)
        >>> generator.state = (7, 0, 100)
        >>> generator.state.offset
        100
        """
        return self.get_state()

    @state.setter
    def state(self, state: tuple[int, int, int]) -> None:
        self.set_state(state)

    def __repr__(self) -> str:
        state = self.get_state()
        return f"Generator(seed={state.seed}, stream={state.stream}, offset={state.offset})"

    # A lock can be neither copied nor pickled, and the state determines the rest.
    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, (self.get_state(),)


class _Reserved:
    """The context manager of ``Generator.reserved``."""

    __slots__ = ("_count", "_generator", "_taken")

    def __init__(self, generator: Generator, count: int) -> None:
        self._generator = generator
        self._count = count

    def __enter__(self) -> tuple[int, int, int]:
        (seed, stream), start = self._generator.next_key(self._count)
        self._taken = seed, stream, start
        return self._taken

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is not None:
            own, (seed, stream, start) = self._generator, self._taken
            with _lock:
                if (own._seed, own._stream, own._offset) == (seed, stream, start + self._count):
                    own._offset = start


_noting: ContextVar[tuple[dict[Generator, GeneratorState], ...]] = ContextVar("tenkey_note_draws", default=())


def note_draws(states: dict[Generator, GeneratorState]) -> Callable[[], Any]:
    """Record in ``states`` each generator used from now on, with its state before the first draw.

    Returns the function that ends this, for ``finally`` (Note [Interrupts]).

    >>> generator, states = Generator(7), {}
    >>> end = note_draws(states)
    >>> try:
    ...     first = generator.next_key(3)
    ... finally:
    ...     _ = end()
    >>> states[generator].offset, generator.state.offset
    (0, 3)
    """
    return switch(_noting, (*_noting.get(), states))


_replaced: ContextVar[dict[Generator, Generator] | None] = ContextVar("tenkey_replaced_generators", default=None)


def replace_generators(states: Iterable[tuple[Generator, GeneratorState]]) -> None:
    """Let copies in these states take the place of generators in this context, and of it only.

    >>> from contextvars import copy_context
    >>> generator = Generator(7)
    >>> def draw():
    ...     replace_generators([(generator, (7, 0, 100))])
    ...     return generator.next_key(5)
    >>> copy_context().run(draw), generator.next_key(5)
    (((7, 0), 100), ((7, 0), 0))
    """
    copies = {generator: _from_state(GeneratorState(*state)) for generator, state in states}
    _replaced.set({**(_replaced.get() or {}), **copies})


def _from_state(state: GeneratorState) -> Generator:
    generator = Generator(0)
    generator.set_state(state)
    return generator


_default = Generator()


def default_generator() -> Generator:
    """Return the generator that random functions use by default; the operating system seeds it at import."""
    return _default


def seed(n: int) -> Generator:
    """Seed the default generator, so that later numbers are the same in every run, and return it.

    >>> seed(7).next_key(1)
    ((7, 0), 0)
    """
    return _default.manual_seed(n)
