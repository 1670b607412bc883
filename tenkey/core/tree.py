"""Pytrees: nested lists, tuples, NamedTuples, dicts and dataclasses, taken apart into leaves and put together again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["broadcast_prefix", "flatten", "tree_map", "unflatten"]

_PREFIX: Final = "{what} is not compatible with the structure of {of}: {prefix!r} stands for {value}."


_LEAF, _SEQUENCE, _RECORD, _DICT, _DATACLASS = range(5)
_kinds: dict[int, int] = {}  # by the id of the type, which is not kept alive
_seen: dict[int, weakref.ref[type]] = {}  # they take the entry out when the type goes


def _kind(kind: type) -> int:
    """What values of this type are to a tree; remembered, since every call of a transform asks it often."""
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        found = _RECORD
    elif kind is list or kind is tuple:
        found = _SEQUENCE
    elif issubclass(kind, dict):
        found = _DICT
    else:
        found = _DATACLASS if hasattr(kind, "__dataclass_fields__") else _LEAF  # as `dataclasses` itself asks
    key, kinds, seen = id(kind), _kinds, _seen  # globals are gone when the interpreter ends

    def forget(reference: weakref.ref[type]) -> None:
        kinds.pop(key, None)
        seen.pop(key, None)

    _seen[key] = weakref.ref(kind, forget)
    _kinds[key] = found
    return found


def _children(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """The parts of a container and the function that makes it of other parts; None for a leaf."""
    kind = tree.__class__
    what = _kinds.get(id(kind))
    if what is None:
        what = _kind(kind)
    if what == _LEAF:
        return None
    if what == _SEQUENCE:
        return list(tree), kind
    if what == _RECORD:
        return list(tree), lambda parts: kind(*parts)
    if what == _DICT:
        keys = list(tree)
        if kind is dict or kind is OrderedDict:
            return list(tree.values()), lambda parts: kind(zip(keys, parts, strict=True))

        def like(parts: list[Any]) -> Any:
            from copy import copy

            made = copy(tree)  # a defaultdict, or a class whose constructor takes something else
            made.update(zip(keys, parts, strict=True))
            return made

        return list(tree.values()), like
    import dataclasses

    names = [field.name for field in dataclasses.fields(tree) if field.init]
    return [getattr(tree, n) for n in names], lambda parts: dataclasses.replace(
        tree, **dict(zip(names, parts, strict=True))
    )


def flatten(tree: Any, leaf: type | None = None) -> list[Any]:
    """The leaves of a tree, in order; None is a leaf, and so are instances of the class ``leaf``, though a container.

    >>> flatten({"a": [1, 2], "b": (3, None)})
    [1, 2, 3, None]
    """
    found = None if leaf is not None and isinstance(tree, leaf) else _children(tree)
    if found is None:
        return [tree]
    leaves: list[Any] = []
    for part in found[0]:
        if _kinds.get(id(part.__class__)) == _LEAF:
            leaves.append(part)
        else:
            leaves += flatten(part, leaf)
    return leaves


def unflatten(tree: Any, leaves: list[Any], leaf: type | None = None) -> Any:
    """A tree like ``tree`` with other leaves.

    >>> unflatten({"a": [1, 2]}, [5, 6])
    {'a': [5, 6]}
    """
    return _rebuild(tree, iter(leaves), leaf)


def _rebuild(tree: Any, leaves: Iterator[Any], leaf: type | None) -> Any:
    found = None if leaf is not None and isinstance(tree, leaf) else _children(tree)
    if found is None:
        return next(leaves)
    parts, make = found
    return make(
        [next(leaves) if _kinds.get(id(part.__class__)) == _LEAF else _rebuild(part, leaves, leaf) for part in parts]
    )


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with ``function(leaf)`` in place of every leaf.

    >>> tree_map(lambda n: n + 1, [1, (2,)])
    [2, (3,)]
    """
    return unflatten(tree, [function(leaf) for leaf in flatten(tree)])


def broadcast_prefix(prefix: Any, tree: Any, *, what: str, of: str) -> list[Any]:
    """For each leaf of ``tree`` the entry of ``prefix`` that stands for it; ValueError where they do not fit.

    A prefix is a tree that ends earlier: one int stands for all leaves below its place.

    >>> broadcast_prefix((0, None), ([1, 2], 3), what="in_dims", of="inputs")
    [0, 0, None]
    """
    parts = _children(prefix)
    if parts is None:
        return [prefix] * len(flatten(tree))
    own = _children(tree)
    same = any(isinstance(prefix, kinds) and isinstance(tree, kinds) for kinds in ((list, tuple), dict))
    if own is None or len(own[0]) != len(parts[0]) or not (same or type(prefix) is type(tree)):
        raise ValueError(_PREFIX.format(what=what, of=of, prefix=prefix, value=_shown(tree)))
    if isinstance(prefix, dict):
        if set(prefix) != set(tree):
            raise ValueError(_PREFIX.format(what=what, of=of, prefix=prefix, value=_shown(tree)))
        return [d for key, part in tree.items() for d in broadcast_prefix(prefix[key], part, what=what, of=of)]
    return [d for p, part in zip(parts[0], own[0]) for d in broadcast_prefix(p, part, what=what, of=of)]


def _shown(tree: Any) -> str:
    found = _children(tree)
    name = type(tree).__name__
    return f"a {'Tensor' if name == 'Wrapper' else name}" + ("" if found is None else f" of {len(found[0])}")
