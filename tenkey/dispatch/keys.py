"""Dispatch keys, their total order, and immutable sets of them.

Note [Key order]
~~~~~~~~~~~~~~~~
A *functionality* is one layer that a call passes through (a mode, autograd, the dense kernels). Some exist once per
*backend* (autograd of the CPU, autograd of the GPU). A call visits the functionalities of its keyset from the first
row of this list to the last; each row says why it stands where it does:

===================  ==============================================================================================
``Mode``             user code that wants to see every call sees it before anybody has rewritten it
``Subclass``         a tensor subclass handles the call as it was written, before transforms and autograd see it
``Batched``          the levels of transforms (``vmap``, forward mode) are taken off before anything else, the innermost
                     first, so that the layers below see and record what really runs
``VmapMode``         on while a ``vmap`` runs: random numbers, drawn from no batched argument, ask for its policy
``Autocast``         above autograd: the casts that it inserts are differentiable
``Tracer``           above autograd: a captured graph can be differentiated again
``Anomaly``          just above autograd, whose nodes it labels: on while ``anomaly_mode`` looks where values come from
``Inference``        above autograd: decides what autograd may see of inference tensors, and marks the results
``Autograd``         one per backend; records a node, then redispatches below itself
``AutogradOther``    autograd of backends that asked for no autograd key of their own
``ADInplaceOrView``  below autograd: bumps version counters of what was mutated, whether or not a gradient is recorded
``Python``           tensor subclasses that asked for the calls which autograd has already taken apart
``BackendSelect``    factories have no tensor argument; their ``device`` argument decides the backend
``Dense``            the kernels of a backend: ``CPU``, ``CUDA``, ``Meta`` and those registered from outside
===================  ==============================================================================================

New functionalities are put between any two of these by :func:`register_key`: the order is kept in a list of its own,
so a bit once given out never moves. Guarded by ``tests/tiny/test_keys.py::test_order``.

Note [Common and rare bits]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
Python's ints have no limit, but those below 2**30 are one digit to CPython, which unites and masks them by a shorter
path: small operators gain two to five percent by it. So the bits that the words of ordinary tensors have (autograd,
dense kernels, dtypes, "requires a gradient") are given out from bit 0, and all others from bit 30.
Guarded by ``tests/tiny/test_tensor.py::test_words_are_short``.
"""

from __future__ import annotations

import keyword
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .errors import RegistrationError

__all__ = [
    "AliasKey",
    "DispatchKey",
    "DispatchKeySet",
    "all_runtime_keys",
    "backend_mask",
    "backend_names",
    "backends_in",
    "highest_backend",
    "key_mask",
    "register_backend_key",
    "register_key",
    "register_trait",
    "runtime_keys",
    "trait_names",
]

_KEY_EXISTS: Final = "[register_key] {name!r} is a dispatch key already: choose another name."
_ONE_OF_BEFORE_AFTER: Final = "[register_key] {name!r}: give exactly one of before= and after=, a key of the order."

_lock = threading.RLock()
_DIGIT: Final = 30  # bits that CPython keeps in one digit of an int
_next_common = 0
_next_bit = _DIGIT
_keys: dict[str, DispatchKey] = {}
_order: list[DispatchKey] = []  # the functionalities, the first to be visited first
_backends: list[str] = []  # the lowest priority first
_backend_bits: dict[str, int] = {}
_trait_names: dict[int, str] = {}
_key_mask = 0
_backend_mask = 0


def _allocate_bit(*, common: bool = False) -> int:
    """A bit that nobody has; ``common`` ones are low as long as there are any (Note [Common and rare bits])."""
    global _next_bit, _next_common
    if common and _next_common < _DIGIT:
        number, _next_common = _next_common, _next_common + 1
    else:
        number, _next_bit = _next_bit, _next_bit + 1
    return 1 << number


class _DispatchKeyMeta(type):
    """Lets ``DispatchKey.CPU`` find keys that were registered later on."""

    def __getattr__(cls, name: str) -> DispatchKey:
        try:
            return _keys[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            raise AttributeError(
                f"there is no dispatch key {name!r}; known keys: {', '.join(_keys)}. A new one is made by "
                "register_key()."
            ) from None

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

    name: str
    functionality: str
    backend: str | None
    mask: int
    per_backend: bool

    def __init__(self, name: str, functionality: str, backend: str | None, mask: int, per_backend: bool) -> None:
        self.name = name
        self.functionality = functionality
        self.backend = backend
        self.mask = mask
        self.per_backend = per_backend

    @property
    def is_alias(self) -> bool:
        """Whether the key stands for several runtime keys and never occurs in a set."""
        return isinstance(self, AliasKey)

    @property
    def is_autograd(self) -> bool:
        """Whether the key belongs to the autograd layer."""
        return self.functionality in ("AutogradFunctionality", "AutogradOther")

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_lookup, (self.name,))


class AliasKey(DispatchKey):
    """A name for many runtime keys, to register one kernel for all of them."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, name, None, 0, False)

    def includes(self, key: DispatchKey) -> bool:
        """Whether a kernel registered for this alias may fill the slot of ``key``."""
        if self.name == "Autograd":
            return key.is_autograd
        if self.name == "CompositeImplicitAutograd":
            return key.is_autograd or key.functionality == "Dense"
        return key.functionality == "Dense"  # the two CompositeExplicit aliases


def _lookup(name: str) -> DispatchKey:
    key: DispatchKey = getattr(DispatchKey, name)
    return key


def _add_functionality(
    name: str, *, per_backend: bool, position: int | None = None, common: bool = False
) -> DispatchKey:
    global _key_mask
    key = DispatchKey(name, name, None, _allocate_bit(common=common), per_backend)
    _keys[name] = key
    _order.insert(len(_order) if position is None else position, key)
    _key_mask |= key.mask
    return key


def register_key(name: str, *, before: DispatchKey | None = None, after: DispatchKey | None = None) -> DispatchKey:
    """Make a new functionality key, dispatched just ``before`` or just ``after`` another one.

    It falls through for every operator until something is registered for it.

    >>> key = register_key("KeyOfTheDocs", before=DispatchKey.ADInplaceOrView)
    >>> DispatchKeySet([key, DispatchKey.ADInplaceOrView]).highest()
    DispatchKey.KeyOfTheDocs
    """
    with _lock:
        _check_name("register_key", name)
        if name in _keys:
            raise RegistrationError(_KEY_EXISTS.format(name=name))
        anchor = before if before is not None else after
        if not isinstance(anchor, DispatchKey) or (before is not None and after is not None):
            raise RegistrationError(_ONE_OF_BEFORE_AFTER.format(name=name))
        place = next((i for i, key in enumerate(_order) if key.functionality == _functionality_of(anchor)), None)
        if place is None:
            raise RegistrationError(_ONE_OF_BEFORE_AFTER.format(name=name))
        return _add_functionality(name, per_backend=False, position=place if before is not None else place + 1)


def _check_name(function: str, name: object) -> None:
    """Raise unless ``DispatchKey.NAME`` can be written and finds the key, not an attribute of the class."""
    if (
        not isinstance(name, str)
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or (name not in _keys and hasattr(DispatchKey, name))
    ):
        raise RegistrationError(
            f"[{function}] the name of a key is an identifier and no attribute of DispatchKey, got {name!r}."
        )


def _functionality_of(key: DispatchKey) -> str:
    return "AutogradFunctionality" if key.name == "Autograd" else key.functionality


def register_backend_key(name: str) -> DispatchKey:
    """Make the keys of a backend: ``NAME``, ``AutogradNAME`` and ``AutocastNAME``; return the first.

    The backend registered last wins where tensors of several meet in one keyset.
    """
    global _key_mask, _backend_mask
    with _lock:
        _check_name("register_backend_key", name)
        made = [_runtime_name(functionality.name, name) for functionality in _order if functionality.per_backend]
        for taken in made:
            if taken in _keys:
                raise RegistrationError(_KEY_EXISTS.format(name=taken))
        bit = _allocate_bit(common=True)
        _backends.append(name)
        _backend_bits[name] = bit
        _key_mask |= bit
        _backend_mask |= bit
        for functionality in _order:
            if functionality.per_backend:
                runtime = _runtime_name(functionality.name, name)
                _keys[runtime] = DispatchKey(runtime, functionality.name, name, functionality.mask | bit, True)
        return _keys[name]


def _runtime_name(functionality: str, backend: str) -> str:
    return functionality.removesuffix("Functionality").removesuffix("Dense") + backend


def register_trait(name: str, *, common: bool = False) -> int:
    """Allocate a bit that rides along in a dispatch word but is no key (see Note [Dispatch word]); return its mask.

    ``common``: the words of ordinary tensors have it (Note [Common and rare bits]).
    """
    with _lock:
        bit = _allocate_bit(common=common)
        _trait_names[bit] = name
        return bit


def backend_names() -> tuple[str, ...]:
    """The names of the backends that have keys, the lowest priority first."""
    return tuple(_backends)


def key_mask() -> int:
    """All bits that belong to keys, as opposed to traits."""
    return _key_mask


def backend_mask() -> int:
    """All backend bits."""
    return _backend_mask


def trait_names(word: int) -> tuple[str, ...]:
    """The names of the traits set in a dispatch word."""
    return tuple(name for bit, name in _trait_names.items() if word & bit)


def runtime_keys(mask: int) -> Iterator[DispatchKey]:
    """The runtime keys that a call with these bits visits, the first to be visited first.

    A per-backend functionality without a backend bit, or a backend bit without functionality, stands for nothing.
    """
    backend = highest_backend(mask)
    for functionality in tuple(_order):
        if not mask & functionality.mask:
            continue
        if not functionality.per_backend:
            yield functionality
        elif backend is not None:
            yield _keys[_runtime_name(functionality.name, backend)]


def highest_backend(mask: int) -> str | None:
    """The name of the backend that wins in this set of bits."""
    for name in reversed(_backends):
        if mask & _backend_bits[name]:
            return name
    return None


def backends_in(mask: int) -> tuple[str, ...]:
    """The names of all backends whose bit is set."""
    return tuple(name for name in _backends if mask & _backend_bits[name])


def all_runtime_keys() -> tuple[DispatchKey, ...]:
    """Every runtime key there is, in the order of Note [Key order]."""
    found: list[DispatchKey] = []
    for functionality in tuple(_order):
        if functionality.per_backend:
            found += [_keys[_runtime_name(functionality.name, name)] for name in reversed(_backends)]
        else:
            found.append(functionality)
    return tuple(found)


class DispatchKeySet:
    """An immutable set of dispatch keys: a bitset of functionalities and backends.

    Functionality bits and backend bits are apart, so a set that holds ``CPU`` and ``AutogradCPU`` has three bits, and
    removing ``CPU`` leaves its backend bit, which ``AutogradCPU`` still needs. An alias key gives the empty set.

    >>> keys = DispatchKeySet([DispatchKey.CPU, DispatchKey.AutogradCPU])
    >>> keys.highest(), keys.remove(DispatchKey.AutogradCPU).highest()
    (DispatchKey.AutogradCPU, DispatchKey.CPU)
    >>> keys
    DispatchKeySet(AutogradCPU, CPU; bits: AutogradFunctionality, Dense, CPUBit)
    """

    __slots__ = ("_word",)
    _word: int

    def __init__(self, keys: DispatchKey | DispatchKeySet | Iterable[DispatchKey] = ()) -> None:
        self._word = _mask_of(keys)

    @classmethod
    def from_word(cls, word: int) -> DispatchKeySet:
        """The keys of a dispatch word; its traits are dropped."""
        made = object.__new__(cls)
        made._word = word & _key_mask
        return made

    @property
    def mask(self) -> int:
        """The bits as an int."""
        return self._word

    def has(self, key: DispatchKey) -> bool:
        """Whether all bits of ``key`` are set; never true of an alias."""
        mask = _mask_of(key)
        return mask != 0 and self._word & mask == mask

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with ``key``."""
        return DispatchKeySet.from_word(self._word | _mask_of(key))

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without the functionality of ``key``; a backend bit stays."""
        return DispatchKeySet.from_word(self._word & ~(_mask_of(key) & ~_backend_mask))

    def highest(self) -> DispatchKey | None:
        """The key that is dispatched to first, or None for a set without runtime keys."""
        return next(runtime_keys(self._word), None)

    def below(self, key: DispatchKey) -> DispatchKeySet:
        """What is left for a redispatch from ``key``: the keys that come after it in Note [Key order]."""
        word = self._word
        for functionality in tuple(_order):
            word &= ~functionality.mask
            if functionality.functionality == _functionality_of(key):
                break
        return DispatchKeySet.from_word(word)

    def __or__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_word(self._word | _mask_of(other))

    def __and__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_word(self._word & _mask_of(other))

    def __sub__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_word(self._word & ~(_mask_of(other) & ~_backend_mask))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, DispatchKey) and self.has(key)

    def __iter__(self) -> Iterator[DispatchKey]:
        return runtime_keys(self._word)

    def __bool__(self) -> bool:
        return self._word != 0

    def __eq__(self, other: object) -> bool:
        return self._word == other._word if isinstance(other, DispatchKeySet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._word)

    def __repr__(self) -> str:
        bits = [key.name for key in _order if self._word & key.mask]
        bits += [f"{name}Bit" for name in _backends if self._word & _backend_bits[name]]
        names = ", ".join(key.name for key in self)
        return f"DispatchKeySet({names}; bits: {', '.join(bits)})" if bits else "DispatchKeySet()"


def _mask_of(keys: Any) -> int:
    """The bits of a key, a set of keys, or an iterable of keys; TypeError for anything else."""
    if isinstance(keys, DispatchKeySet):
        return keys._word
    if isinstance(keys, DispatchKey):
        return keys.mask
    mask = 0
    for key in keys if isinstance(keys, Iterable) and not isinstance(keys, str) else (keys,):
        if not isinstance(key, DispatchKey):
            raise TypeError(
                f"{key!r} of type {type(key).__name__} is no dispatch key: give a DispatchKey such as "
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
    _add_functionality(_name, per_backend=_per_backend, common=_common)
for _name in ("Autograd", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
    _keys[_name] = AliasKey(_name)
for _name in ("CPU", "CUDA", "Meta"):
    register_backend_key(_name)
