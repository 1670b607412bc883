"""Trees: nested lists, tuples, NamedTuples, dicts and dataclasses, taken apart into leaves and rebuilt.

Note [Trees]
~~~~~~~~~~~~
One rule holds wherever nested values are accepted. The parts of a list or tuple are its items, of a dict its values
(subclasses included), and of a dataclass instance the fields that ``__init__`` takes. Everything else is a leaf: None,
tensors of every class, NumPy arrays, strings, and mappings that are not dicts, since reading one may load a file. A
container is rebuilt in its own class, a dataclass by calling it, so that fields computed in ``__post_init__`` follow
their new parts. With ``bare=True`` a dataclass is copied instead and ``__init__`` does not run: for placeholders that
its checks would refuse. Guarded by ``tests/core/test_tree.py``.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final

from .tensor import Tensor

__all__ = [
    "broadcast_prefix", "flatten", "flatten_with_path", "map_tensors", "map_with_path", "parts_of", "tensors_in",
    "tree_map", "unflatten",
]  # fmt: skip

_LEAF, _SEQUENCE, _NAMED_TUPLE, _DICT, _DATACLASS = range(5)
_kinds: Final[dict[int, int]] = {}  # by the id of the class, so that the class is not kept alive
_seen: Final[dict[int, weakref.ref[type]]] = {}  # these references remove the entry when the class is collected


def _classify(kind: type) -> int:
    """Determine which kind of node instances of a class are, and remember it: transforms ask at every call."""
    if issubclass(kind, Tensor):
        found = _LEAF
    elif issubclass(kind, (list, tuple)):
        found = _NAMED_TUPLE if hasattr(kind, "_fields") else _SEQUENCE
    elif issubclass(kind, dict):
        found = _DICT
    else:
        found = _DATACLASS if hasattr(kind, "__dataclass_fields__") else _LEAF  # the test that `dataclasses` uses
    key, kinds, seen = id(kind), _kinds, _seen  # module globals are gone at interpreter exit

    def forget(reference: weakref.ref[type]) -> None:
        kinds.pop(key, None)
        seen.pop(key, None)

    _seen[key] = weakref.ref(kind, forget)
    _kinds[key] = found
    return found


def _field_names(tree: Any) -> list[str]:
    import dataclasses

    return [field.name for field in dataclasses.fields(tree) if field.init]


def parts_of(tree: Any) -> Any:
    """Return the parts of a container as an iterable, or None for a leaf."""
    kind = tree.__class__
    what = _kinds.get(id(kind))
    if what is None:
        what = _classify(kind)
    if what == _LEAF:
        return None
    if what == _DICT:
        return tree.values()
    return tree if what != _DATACLASS else [getattr(tree, name) for name in _field_names(tree)]


def _labels(tree: Any) -> list[str]:
    """Return the expressions that lead from a container to its parts: ``[0]``, ``['key']`` or ``.field``."""
    what = _kinds[id(tree.__class__)]
    if what == _SEQUENCE:
        return [f"[{i}]" for i in range(len(tree))]
    if what == _DICT:
        return [f"[{key!r}]" for key in tree]
    return [f".{name}" for name in (tree._fields if what == _NAMED_TUPLE else _field_names(tree))]


def _rebuilt(tree: Any, parts: list[Any], bare: bool) -> Any:
    """Return a container like ``tree`` with other parts."""
    kind = tree.__class__
    what = _kinds[id(kind)]
    if what == _SEQUENCE:
        return kind(parts)
    if what == _NAMED_TUPLE:
        return kind(*parts)
    if what == _DICT:
        values = dict(zip(tree, parts, strict=True))
        if kind is dict:
            return values
        if kind is OrderedDict:
            return kind(values)
        made = copy(tree)  # a defaultdict, or a class whose constructor takes something else
        made.update(values)
        return made
    fields = dict(zip(_field_names(tree), parts, strict=True))
    if bare:
        made = copy(tree)
        for name, part in fields.items():
            object.__setattr__(made, name, part)  # also where the class is frozen
        return made
    import dataclasses

    return dataclasses.replace(tree, **fields)


def flatten(tree: Any, leaf: type | None = None) -> list[Any]:
    """Return the leaves of a tree, in order; instances of the class ``leaf`` count as leaves even if containers.

    >>> flatten({"a": [1, 2], "b": (3, None)})
    [1, 2, 3, None]
    """
    if _kinds.get(id(tree.__class__)) == _LEAF:
        return [tree]
    leaves: list[Any] = []
    _flatten(tree, leaf, leaves)
    return leaves


def _flatten(tree: Any, leaf: type | None, leaves: list[Any]) -> None:
    parts = None if leaf is not None and isinstance(tree, leaf) else parts_of(tree)
    if parts is None:
        leaves.append(tree)
        return
    for part in parts:
        if _kinds.get(id(part.__class__)) == _LEAF:
            leaves.append(part)
        else:
            _flatten(part, leaf, leaves)


def unflatten(tree: Any, leaves: list[Any], leaf: type | None = None, *, bare: bool = False) -> Any:
    """Return a tree like ``tree`` with other leaves.

    >>> unflatten({"a": [1, 2]}, [5, 6])
    {'a': [5, 6]}
    """
    return leaves[0] if _kinds.get(id(tree.__class__)) == _LEAF else _rebuild(tree, iter(leaves), leaf, bare)


def _rebuild(tree: Any, leaves: Iterator[Any], leaf: type | None, bare: bool) -> Any:
    parts = None if leaf is not None and isinstance(tree, leaf) else parts_of(tree)
    if parts is None:
        return next(leaves)
    made = [
        next(leaves) if _kinds.get(id(part.__class__)) == _LEAF else _rebuild(part, leaves, leaf, bare)
        for part in parts
    ]
    return _rebuilt(tree, made, bare)


def tree_map(function: Callable[[Any], Any], tree: Any, *, bare: bool = False) -> Any:
    """Return the tree with ``function(leaf)`` in place of every leaf.

    >>> tree_map(lambda n: n + 1, [1, (2,)])
    [2, (3,)]
    """
    return _rebuild(tree, map(function, flatten(tree)), None, bare)


def tensors_in(tree: Any) -> list[Tensor]:
    """Return the tensors among the leaves, in order.

    >>> [x.shape for x in tensors_in(({"a": tk.ones(2)}, 3, [tk.ones((1, 2))]))]
    [(2,), (1, 2)]
    """
    found: list[Tensor] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[Tensor]) -> None:
    kind = tree.__class__
    parts = tree if kind is tuple or kind is list else parts_of(tree)
    if parts is None:
        if isinstance(tree, Tensor):
            found.append(tree)
        return
    for part in parts:
        kind = part.__class__
        if kind is Tensor:
            found.append(part)
        elif _kinds.get(id(kind)) != _LEAF or isinstance(part, Tensor):
            _collect(part, found)


def map_tensors(function: Callable[[Tensor], Any], tree: Any, *, bare: bool = False) -> Any:
    """Return the tree with ``function(tensor)`` in place of every tensor; the containers are new, other leaves stay.

    >>> map_tensors(lambda x: x.shape, {"a": [tk.ones(2), 3]})
    {'a': [(2,), 3]}
    """
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, Tensor) else leaf, tree, bare=bare)


def flatten_with_path(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a tree, each after the Python expression that leads to it from ``path``.

    >>> flatten_with_path({"a": [1, 2], "b": None}, "x")
    [("x['a'][0]", 1), ("x['a'][1]", 2), ("x['b']", None)]
    """
    parts = parts_of(tree)
    if parts is None:
        return [(path, tree)]
    return [pair for label, part in zip(_labels(tree), parts) for pair in flatten_with_path(part, path + label)]


def map_with_path(function: Callable[[Any, str], Any], tree: Any, path: str = "", *, bare: bool = False) -> Any:
    """Return the tree with ``function(leaf, path)`` in place of every leaf.

    >>> map_with_path(lambda leaf, path: f"{path}={leaf}", ([1, 2], {"a": 3}), "x")
    (['x[0][0]=1', 'x[0][1]=2'], {'a': "x[1]['a']=3"})
    """
    return _rebuild(tree, iter([function(leaf, label) for label, leaf in flatten_with_path(tree, path)]), None, bare)


def broadcast_prefix(prefix: Any, tree: Any, *, what: str, of: str) -> list[Any]:
    """Return, for each leaf of ``tree``, the entry of ``prefix`` that stands for it; ValueError if they do not fit.

    A prefix is a tree that ends earlier: one int stands for all leaves below it.

    >>> broadcast_prefix((0, None), ([1, 2], 3), what="in_dims", of="inputs")
    [0, 0, None]
    """
    parts, own = parts_of(prefix), parts_of(tree)
    if parts is None:
        return [prefix] * len(flatten(tree))
    fits = own is not None and len(own) == len(parts)
    fits = fits and (
        type(prefix) is type(tree)
        or any(isinstance(prefix, kinds) and isinstance(tree, kinds) for kinds in ((list, tuple), dict))
    )
    if fits and isinstance(prefix, dict):
        fits = set(prefix) == set(tree)
        parts = [prefix[key] for key in tree] if fits else []
    if not fits:
        name = "Tensor" if isinstance(tree, Tensor) else type(tree).__name__
        shown = f"a {name}" + ("" if own is None else f" of {len(own)}")
        raise ValueError(f"{what} is not compatible with the structure of {of}: {prefix!r} stands for {shown}.")
    return [one for p, part in zip(parts, own) for one in broadcast_prefix(p, part, what=what, of=of)]
