"""Dispatch keys, their total order, and immutable sets of them.

Note [Key order]
~~~~~~~~~~~~~~~~
A *functionality* is one layer that a call passes through (a mode, autograd, the dense kernels). Some exist once per
*backend* (autograd of the CPU, autograd of the GPU). A call visits the functionalities of its keyset from the first row
of this list to the last; each row gives the reason for its position:

===================  ==============================================================================================
``Mode``             user code that observes every call sees it before any layer has rewritten it
``Subclass``         a tensor subclass handles the call as it was written, before transforms and autograd
``Batched``          the levels of transforms (``vmap``, forward mode) are unwrapped first, from the innermost, so that
                     the layers below see and record the calls that really run
``VmapMode``         active while a ``vmap`` runs: random operators without a batched argument apply its policy
``Autocast``         above autograd: the casts that it inserts are differentiable
``Tracer``           above autograd: a captured graph can be differentiated again
``Anomaly``          just above autograd, whose nodes it labels; active in ``anomaly_mode``
``Inference``        above autograd: hides inference tensors from autograd and marks the results
``Autograd``         one per backend; records a node, then redispatches below itself
``AutogradOther``    autograd of backends without an autograd key of their own
``ADInplaceOrView``  below autograd: increments the versions of mutated tensors, with or without recording
``Python``           tensor subclasses that handle the calls which autograd has already decomposed
``BackendSelect``    factories have no tensor argument; their ``device`` argument decides the backend
``Dense``            the kernels of a backend: ``CPU``, ``CUDA``, ``Meta`` and those registered from outside
===================  ==============================================================================================

:func:`register_key` inserts new functionalities between any two of these: the order is a list of its own, so the bit
of a key never changes. Guarded by ``tests/tiny/test_keys.py::test_order``.

Note [Common and rare bits]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
Python's ints are unbounded, but CPython stores those below 2**30 in one digit and combines them by a faster path, which
makes small operators two to five percent faster. The bits in the words of ordinary tensors (autograd, dense kernels,
dtypes, "requires a gradient") are therefore allocated from bit 0, all others from bit 30.
Guarded by ``tests/tiny/test_tensor.py::test_words_are_short``.
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .._util.locks import new_lock
from .._util.record import Record
from .errors import RegistrationError

__all__ = [
    "AliasKey", "DispatchKey", "DispatchKeySet", "all_runtime_keys", "backend_mask", "backend_names", "backends_in",
    "key_mask", "register_backend_key", "register_key", "register_trait", "runtime_keys", "trait_names", "word_below",
]  # fmt: skip

_lock = new_lock()
_DIGIT: Final = 30  # bits in one digit of an int in CPython
_common_bits, _rare_bits = iter(range(_DIGIT)), itertools.count(_DIGIT)
_keys: dict[str, DispatchKey] = {}
_order: list[DispatchKey] = []  # the functionalities in the order of dispatch
_backends: list[str] = []  # the lowest priority first
_backend_bits: dict[str, int] = {}
_trait_names: dict[int, str] = {}
_key_mask = 0
_backend_mask = 0


def _allocate_bit(*, common: bool = False) -> int:
    """Return an unused bit; ``common`` ones are low while there are any left (Note [Common and rare bits])."""
    low = next(_common_bits, None) if common else None
    return 1 << (next(_rare_bits) if low is None else low)


class _DispatchKeyMeta(type):
    """Lets ``DispatchKey.NAME`` find keys that are registered later."""

    def __getattr__(cls, name: str) -> DispatchKey:
        if name not in _keys:
            known = ", ".join(_keys)
            raise AttributeError(f"there is no dispatch key {name!r}; known keys: {known}. register_key() makes one.")
        return _keys[name]

    def __iter__(cls) -> Iterator[DispatchKey]:
        return iter(tuple(_keys.values()))


class DispatchKey(metaclass=_DispatchKeyMeta):
    """One key of the dispatch table; ``DispatchKey.NAME`` looks it up.

    A key is a *functionality* (``Mode``), a *runtime key* of one backend (``AutogradCPU``: the functionality
    ``Autograd`` on the backend ``CPU``), or an *alias* that stands for many runtime keys (:class:`AliasKey`).

    >>> DispatchKey.CPU, DispatchKey.AutogradCPU.backend
    (DispatchKey.CPU, 'CPU')
    """

    __slots__ = ("backend", "functionality", "mask", "name", "per_backend")

    def __init__(self, name: str, functionality: str, backend: str | None, mask: int, per_backend: bool) -> None:
        self.name = name
        self.functionality = functionality
        self.backend = backend
        self.mask = mask
        self.per_backend = per_backend

    @property
    def is_alias(self) -> bool:
        """Whether the key stands for several runtime keys and occurs in no set."""
        return isinstance(self, AliasKey)

    @property
    def is_autograd(self) -> bool:
        """Whether the key belongs to the autograd layer."""
        return self.functionality in ("AutogradFunctionality", "AutogradOther")

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (getattr, (DispatchKey, self.name))


class AliasKey(DispatchKey):
    """A name for many runtime keys, to register one kernel for all of them."""

    __slots__ = ()

    def includes(self, key: DispatchKey) -> bool:
        """Whether a kernel registered for this alias may fill the slot of ``key``."""
        is_dense = key.functionality == "Dense" and self.name != "Autograd"
        return is_dense or (key.is_autograd and self.name != "CompositeExplicitAutograd")


def _add_functionality(name: str, position: int, *, per_backend: bool = False, common: bool = False) -> DispatchKey:
    global _key_mask
    key = _keys[name] = DispatchKey(name, name, None, _allocate_bit(common=common), per_backend)
    _order.insert(position, key)
    _key_mask |= key.mask
    return key


def register_key(name: str, *, before: DispatchKey | None = None, after: DispatchKey | None = None) -> DispatchKey:
    """Make a functionality key that is dispatched just ``before`` or just ``after`` another one.

    It falls through for every operator until a kernel is registered for it.

    >>> key = register_key("KeyOfTheDocs", before=DispatchKey.ADInplaceOrView)
    >>> DispatchKeySet([key, DispatchKey.ADInplaceOrView]).highest()
    DispatchKey.KeyOfTheDocs
    """
    with _lock:
        _check_name("register_key", name)
        _check_new(name)
        anchor = before if before is not None else after
        order = [key.functionality for key in _order]
        wanted = _functionality_of(anchor) if isinstance(anchor, DispatchKey) else ""
        if wanted not in order or (before is not None and after is not None):
            raise RegistrationError(
                f"[register_key] {name!r}: give exactly one of before= and after=, a key of the order."
            )
        return _add_functionality(name, order.index(wanted) + (before is None))


def _check_name(function: str, name: object) -> None:
    """Raise unless ``DispatchKey.NAME`` is valid Python and finds the key, not an attribute of the class."""
    is_name = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not is_name or (name not in _keys and hasattr(DispatchKey, str(name))):
        raise RegistrationError(
            f"[{function}] the name of a key is an identifier that is not an attribute of DispatchKey, got {name!r}."
        )


def _check_new(*names: str) -> None:
    for name in names:
        if name in _keys:
            raise RegistrationError(f"[register_key] {name!r} is a dispatch key already: choose another name.")


def _functionality_of(key: DispatchKey) -> str:
    return "AutogradFunctionality" if key.name == "Autograd" else key.functionality


def register_backend_key(name: str) -> DispatchKey:
    """Make the keys ``NAME``, ``AutogradNAME`` and ``AutocastNAME`` of a backend; return the first.

    In a keyset with several backends, the one registered last wins.
    """
    global _key_mask, _backend_mask
    with _lock:
        _check_name("register_backend_key", name)
        made = {_runtime_name(key.name, name): key for key in _order if key.per_backend}
        _check_new(*made)
        bit = _allocate_bit(common=True)
        _backends.append(name)
        _backend_bits[name] = bit
        _key_mask |= bit
        _backend_mask |= bit
        for runtime, key in made.items():
            _keys[runtime] = DispatchKey(runtime, key.name, name, key.mask | bit, True)
        return _keys[name]


def _runtime_name(functionality: str, backend: str) -> str:
    return functionality.removesuffix("Functionality").removesuffix("Dense") + backend


def register_trait(name: str, *, common: bool = False) -> int:
    """Allocate a bit of dispatch words that is not a key (Note [Dispatch word]); return its mask.

    ``common``: the words of ordinary tensors have it (Note [Common and rare bits]).
    """
    with _lock:
        bit = _allocate_bit(common=common)
        _trait_names[bit] = name
        return bit


def backend_names() -> tuple[str, ...]:
    """Return the names of the backends that have keys, lowest priority first."""
    return tuple(_backends)


def key_mask() -> int:
    """Return all bits that belong to keys rather than traits."""
    return _key_mask


def backend_mask() -> int:
    """Return all backend bits."""
    return _backend_mask


def trait_names(word: int) -> tuple[str, ...]:
    """Return the names of the traits in a dispatch word."""
    return tuple(name for bit, name in _trait_names.items() if word & bit)


def runtime_keys(mask: int) -> Iterator[DispatchKey]:
    """Return the runtime keys that a call with these bits visits, in the order of dispatch.

    A per-backend functionality without a backend bit, or a backend bit without a functionality, has no runtime key.
    """
    backend = next(reversed(backends_in(mask)), None)
    for key in tuple(_order):
        if mask & key.mask and not key.per_backend:
            yield key
        elif mask & key.mask and backend is not None:
            yield _keys[_runtime_name(key.name, backend)]


def backends_in(mask: int) -> tuple[str, ...]:
    """Return the names of all backends whose bit is set."""
    return tuple(name for name in _backends if mask & _backend_bits[name])


def all_runtime_keys() -> tuple[DispatchKey, ...]:
    """Return every runtime key, in the order of dispatch (Note [Key order])."""
    found: list[DispatchKey] = []
    for key in tuple(_order):
        found += [_keys[_runtime_name(key.name, name)] for name in reversed(_backends)] if key.per_backend else [key]
    return tuple(found)


class DispatchKeySet(Record, frozen=True):
    """An immutable set of dispatch keys: a bitset of functionalities and backends.

    Functionality bits and backend bits are separate: a set of ``CPU`` and ``AutogradCPU`` has three bits, and removing
    ``CPU`` leaves its backend bit, which ``AutogradCPU`` still needs. An alias key gives the empty set.

    >>> keys = DispatchKeySet([DispatchKey.CPU, DispatchKey.AutogradCPU])
    >>> keys.highest(), keys.remove(DispatchKey.AutogradCPU).highest()
    (DispatchKey.AutogradCPU, DispatchKey.CPU)
    >>> keys
    DispatchKeySet(AutogradCPU, CPU; bits: AutogradFunctionality, Dense, CPUBit)
    """

    mask: int
    """The bits as an int."""

    def __init__(self, keys: DispatchKey | DispatchKeySet | Iterable[DispatchKey] = ()) -> None:
        super().__init__(_mask_of(keys))

    @classmethod
    def from_word(cls, word: int) -> DispatchKeySet:
        """Return the keys of a dispatch word, without its traits."""
        made = object.__new__(cls)
        made.__dict__["mask"] = word & _key_mask
        return made

    def has(self, key: DispatchKey) -> bool:
        """Whether all bits of ``key`` are set; never true for an alias."""
        mask = _mask_of(key)
        return mask != 0 and self.mask & mask == mask

    def add(self, key: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        """Return the set with ``key``."""
        return DispatchKeySet.from_word(self.mask | _mask_of(key))

    def remove(self, key: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        """Return the set without the functionality of ``key``; a backend bit stays."""
        return DispatchKeySet.from_word(self.mask & ~(_mask_of(key) & ~_backend_mask))

    __or__, __sub__ = add, remove

    def highest(self) -> DispatchKey | None:
        """Return the key that is dispatched to first, or None for a set without runtime keys."""
        return next(runtime_keys(self.mask), None)

    def below(self, key: DispatchKey) -> DispatchKeySet:
        """Return the keys after ``key`` in the order of dispatch: the keyset of a redispatch from ``key``."""
        return DispatchKeySet.from_word(word_below(self.mask, key))

    def __and__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_word(self.mask & _mask_of(other))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, DispatchKey) and self.has(key)

    def __iter__(self) -> Iterator[DispatchKey]:
        return runtime_keys(self.mask)

    def __bool__(self) -> bool:
        return self.mask != 0

    def __repr__(self) -> str:
        bits = [key.name for key in _order if self.mask & key.mask]
        bits += [f"{name}Bit" for name in _backends if self.mask & _backend_bits[name]]
        names = ", ".join(key.name for key in self)
        return f"DispatchKeySet({names}; bits: {', '.join(bits)})" if bits else "DispatchKeySet()"


def word_below(word: int, key: DispatchKey) -> int:
    """Return a dispatch word, traits included, with only those keys that come after ``key``."""
    for other in tuple(_order):
        word &= ~other.mask
        if other.name == _functionality_of(key):
            break
    return word


def _mask_of(keys: Any) -> int:
    """Return the bits of a key, a set of keys, or an iterable of keys; raise TypeError for anything else."""
    if isinstance(keys, (DispatchKeySet, DispatchKey)):
        return keys.mask
    mask = 0
    for key in keys if isinstance(keys, Iterable) and not isinstance(keys, str) else (keys,):
        if not isinstance(key, DispatchKey):
            raise TypeError(
                f"{key!r} of type {type(key).__name__} is not a dispatch key: give a DispatchKey such as "
                "DispatchKey.CPU, or several."
            )
        mask |= key.mask
    return mask


for _name, _per_backend, _common in (
    ("Mode", False, False),
    ("Subclass", False, True),
    ("Batched", False, False),
    ("VmapMode", False, False),
    ("AutocastFunctionality", True, True),
    ("Tracer", False, False),
    ("Anomaly", False, False),
    ("Inference", False, False),
    ("AutogradFunctionality", True, True),
    ("AutogradOther", False, False),
    ("ADInplaceOrView", False, True),
    ("Python", False, True),
    ("BackendSelect", False, False),
    ("Dense", True, True),
):
    _add_functionality(_name, len(_order), per_backend=_per_backend, common=_common)
for _name in ("Autograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
    _keys[_name] = AliasKey(_name, _name, None, 0, False)
for _name in ("CPU", "CUDA", "Meta"):
    register_backend_key(_name)
