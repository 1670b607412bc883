"""Conversion of trees to JSON with references to arrays, and back.

JSON's null, booleans, strings and integers stand for themselves. Everything else is an object with one tag:

    {"f": "nan"}                      a float that JSON does not have       {"x": [1.0, 2.0]}     a complex number
    {"l": [...]}  {"u": [...]}        a list, a tuple                       {"d": [[key, value], ...]}  a dict
    {"n": ["Name", ["field"], [...]]} a NamedTuple                          {"g": [1, 2, 3]}      a random generator
    {"t": ["name", "float32", [2, 3]]} a tensor ("p": one that requires gradients, "a": a NumPy array, "s": its scalar)
"""

from __future__ import annotations

import collections
import json
import keyword
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..core.random.generator import Generator
from ..core.tensor import Tensor
from ..dispatch.errors import shown

DEPTH: Final = 100
"""The maximum depth of a tree."""


class StructureError(ValueError):
    """A structure that ``save`` cannot have written."""


class Writer:
    """Collects the arrays of a tree: ``arrays`` by name, each once."""

    def __init__(self, dtypes: set[str]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._dtypes = dtypes  # those that the file can hold
        self._names: dict[Any, str] = {}
        self._alive: list[Any] = []  # the arrays whose addresses are in _names

    def encode(self, tree: Any, place: tuple[str, ...] = ()) -> Any:
        """Return the JSON value of a tree at a place."""
        if len(place) > DEPTH:
            raise ValueError(
                f"[save] {_shown(place[:3]) + ' ...'}: the tree is deeper than {DEPTH} levels, or contains itself."
            )
        if tree is None or isinstance(tree, (bool, str)):
            return tree if tree is None or isinstance(tree, bool) else str(tree)
        if isinstance(tree, Tensor):
            return self._tensor(tree, place)
        if isinstance(tree, (np.ndarray, np.generic)):
            tag = "a" if isinstance(tree, np.ndarray) else "s"
            return {tag: self._array(np.asarray(tree), place)}
        if isinstance(tree, (int, float, complex)):
            return _number(tree)
        if isinstance(tree, Generator):
            return {"g": list(tree.get_state())}
        if isinstance(tree, dict):
            return {"d": [[self._key(key, place), self.encode(tree[key], (*place, str(key)))] for key in tree]}
        if isinstance(tree, (list, tuple)):
            parts = [self.encode(part, (*place, str(i))) for i, part in enumerate(tree)]
            if isinstance(tree, tuple) and hasattr(tree, "_fields"):
                return {"n": [type(tree).__name__, list(tree._fields), parts]}
            return {"l" if isinstance(tree, list) else "u": parts}
        raise TypeError(
            f"[save] {_shown(place)} is of type {type(tree).__name__}, which cannot be saved: a file holds dicts, "
            "lists, tuples, tensors, arrays, numbers, strings, None and generators. Convert it first."
        )

    def _key(self, key: Any, place: tuple[str, ...]) -> Any:
        if key is None or type(key) in (bool, str, int, float):
            return key if key is None or type(key) in (bool, str) else _number(key)
        raise TypeError(f"[save] {_shown(place)} has the key {shown(key)}: keys are strings, numbers or None.")

    def _tensor(self, tensor: Tensor, place: tuple[str, ...]) -> Any:
        if tensor.device.type == "meta":
            raise ValueError(f"[save] {_shown(place)} is a tensor on the device {tensor.device}, which has no values.")
        tag = "p" if tensor.requires_grad and tensor.is_leaf else "t"
        return {tag: self._array(tensor.detach().numpy(), place, identity=id(tensor))}

    def _array(self, array: np.ndarray, place: tuple[str, ...], identity: int | None = None) -> Any:
        if array.dtype.name not in self._dtypes:
            raise TypeError(
                f"[save] {_shown(place)} is an array of dtype {array.dtype}, which a file cannot hold: convert it to "
                "numbers."
            )
        window = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str, str(array.dtype))
        name = self._names.get(window) if array.size else None
        if name is None:
            name = base = ".".join(place) or "tensor"
            number = 1
            while name in self.arrays or name == "__metadata__":
                number += 1
                name = f"{base}~{number}"
            self.arrays[name] = array
            self._names[window] = name
            self._alive.append(array)
        return [name, array.dtype.name, list(array.shape)]


def _number(value: Any) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, complex):
        return {"x": [_number(value.real), _number(value.imag)]}
    return float(value) if math.isfinite(value) else {"f": str(float(value))}


def _shown(place: tuple[str, ...]) -> str:
    return "".join(f"[{part!r}]" if not part.isdigit() else f"[{part}]" for part in place) or "the object"


class Reader:
    """Rebuilds a tree. ``make(tag, name, dtype, shape)`` returns the leaf of an array, once for equal ones."""

    def __init__(self, make: Callable[[str, str, str, tuple[int, ...]], Any]) -> None:
        self._make = make
        self._made: dict[tuple[str, str], Any] = {}
        self.names: set[str] = set()

    def decode(self, node: Any, depth: int = 0) -> Any:
        """Return the tree of a JSON value. Raises StructureError if it is not of the form described above."""
        if depth > DEPTH:
            raise StructureError(f"the structure is deeper than {DEPTH} levels")
        if node is None or isinstance(node, (bool, str, int, float)):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            raise StructureError(f"the structure holds {_brief(node)}")
        ((tag, value),) = node.items()
        method = self._tags.get(tag)
        if method is None:
            raise StructureError(f"the structure has the unknown tag {_brief(tag)}")
        return method(self, tag, value, depth + 1)

    def _leaf(self, tag: str, value: Any, depth: int) -> Any:
        name, dtype, shape = _parts(value, 3)
        if not (isinstance(name, str) and isinstance(dtype, str) and isinstance(shape, list)):
            raise StructureError(f"the structure has the leaf {_brief(value)}")
        if not all(type(n) is int and n >= 0 for n in shape):
            raise StructureError(f"the structure has the shape {_brief(shape)}")
        self.names.add(name)
        if (tag, name) not in self._made:
            self._made[tag, name] = self._make(tag, name, dtype, tuple(shape))
        return self._made[tag, name]

    def _list(self, tag: str, value: Any, depth: int) -> Any:
        parts = [self.decode(part, depth) for part in _parts(value)]
        return parts if tag == "l" else tuple(parts)

    def _dict(self, tag: str, value: Any, depth: int) -> Any:
        result = {}
        for pair in _parts(value):
            key, part = _parts(pair, 2)
            is_float = isinstance(key, dict) and list(key) == ["f"]
            decoded = self._float("f", key["f"], 0) if is_float else key
            if isinstance(decoded, (list, dict, complex)) or decoded in result:
                raise StructureError(f"the structure has the key {_brief(key)}")
            result[decoded] = self.decode(part, depth)
        return result

    def _named(self, tag: str, value: Any, depth: int) -> Any:
        name, fields, parts = _parts(value, 3)
        good = isinstance(fields, list) and isinstance(parts, list) and len(fields) == len(parts) and len(fields) <= 255
        words = [name, *fields] if good else []
        if not good or not all(isinstance(w, str) and w.isidentifier() and not keyword.iskeyword(w) for w in words):
            raise StructureError(f"the structure has the NamedTuple {_brief(value)}")
        if len(set(fields)) < len(fields) or any(field.startswith("_") for field in fields):
            raise StructureError(f"the structure has a NamedTuple of the fields {_brief(fields)}")
        kind = collections.namedtuple(name, fields)  # type: ignore[misc]  # noqa: PYI024  # its fields are in the file
        return kind(*[self.decode(part, depth) for part in parts])

    def _float(self, tag: str, value: Any, depth: int) -> Any:
        if value not in ("nan", "inf", "-inf"):
            raise StructureError(f"the structure has the float {_brief(value)}")
        return float(value)

    def _complex(self, tag: str, value: Any, depth: int) -> Any:
        real, imag = (self.decode(part, depth) for part in _parts(value, 2))
        if type(real) is not float or type(imag) is not float:
            raise StructureError(f"the structure has the complex number {_brief(value)}")
        return complex(real, imag)

    def _generator(self, tag: str, value: Any, depth: int) -> Any:
        generator = Generator(0)
        try:
            generator.set_state(value)
        except ValueError as error:
            raise StructureError(str(error)) from None
        return generator

    _tags: Final[dict[str, Callable[..., Any]]] = {
        **dict.fromkeys("tpas", _leaf), **dict.fromkeys("lu", _list), "d": _dict, "n": _named, "f": _float,
        "x": _complex, "g": _generator,
    }  # fmt: skip


def _parts(value: Any, count: int | None = None) -> list[Any]:
    if not isinstance(value, list) or count not in (None, len(value)):
        raise StructureError(f"the structure holds {_brief(value)}")
    return value


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_json(text: str | bytes, what: str) -> Any:
    """Parse JSON. Raises StructureError for invalid JSON, repeated keys and too deep nesting."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise StructureError(f"{what} repeats a name")
        return made

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise StructureError(f"{what} nests too deep") from None
    except StructureError:
        raise
    except ValueError as error:
        raise StructureError(f"{what} is not JSON ({_brief(str(error))})") from None
