"""How elements lie in memory and in registers, and how they pass between the lanes of a warp."""

from __future__ import annotations

from typing import Final, NamedTuple

from .emission import TYPES, parts_count

__all__ = ["Register", "register_of", "shuffled"]

_MASK: Final = "uint32(0xFFFFFFFF)"
_SHUFFLES: Final = {"up": "shfl_up_sync", "down": "shfl_down_sync", "xor": "shfl_xor_sync", "index": "shfl_sync"}


class Register(NamedTuple):
    """An element as one number of type ``kind``, or two (``parts``) for a complex dtype.

    The numbers are those that device functions of expressions take and return (``to_numba``).
    """

    kind: str
    parts: int = 1

    def names(self, name: str) -> list[str]:
        """Return the variables that hold an element.

        >>> Register("float32", 2).names("a")
        ['a_re', 'a_im']
        """
        return [name] if self.parts == 1 else [f"{name}_re", f"{name}_im"]

    def copy(self, to: str, source: str) -> list[str]:
        """Return lines for ``to = source``."""
        return [f"{a} = {b}" for a, b in zip(self.names(to), self.names(source))]

    def zero(self, to: str) -> list[str]:
        """Return lines that give ``to`` a value that is not used."""
        return [f"{name} = {self.kind}(0)" for name in self.names(to)]

    def load(self, to: str, pointer: str, place: str) -> list[str]:
        """Return lines that read the element at a place, counted in elements."""
        if self.parts == 1:
            return [f"{to} = {pointer}[{place}]"]
        return [f"{to}_re = {pointer}[2 * ({place})]", f"{to}_im = {pointer}[2 * ({place}) + 1]"]

    def store(self, pointer: str, place: str, source: str) -> list[str]:
        """Return lines that write the element at a place."""
        if self.parts == 1:
            return [f"{pointer}[{place}] = {source}"]
        return [f"{pointer}[2 * ({place})] = {source}_re", f"{pointer}[2 * ({place}) + 1] = {source}_im"]

    def call(self, to: str, function: str, *arguments: str) -> list[str]:
        """Return lines for ``to = function(*arguments)``, all of them elements."""
        given = ", ".join([name for argument in arguments for name in self.names(argument)])
        if self.parts == 1:
            return [f"{to} = {function}({given})"]
        return [f"{to}_re, {to}_im = {function}({given})"]

    def shuffle(self, to: str, way: str, source: str, place: str) -> list[str]:
        """Return lines that read an element from another lane of the warp (:func:`shuffled`)."""
        return [f"{a} = {shuffled(self.kind, way, b, place)}" for a, b in zip(self.names(to), self.names(source))]


def register_of(dtype: str) -> Register:
    """Return how an element of a dtype lies in registers.

    >>> register_of("float16")
    Register(kind='uint16', parts=1)
    """
    return Register(TYPES[dtype], parts_count(dtype))


def shuffled(kind: str, way: str, value: str, place: str) -> str:
    """Return the source of a number of another lane: ``way`` is "up", "down", "xor" or "index".

    >>> shuffled("uint16", "up", "a", "1")
    'uint16(cuda.shfl_up_sync(uint32(0xFFFFFFFF), int32(a), 1))'
    """
    if kind.startswith("float"):
        return f"cuda.{_SHUFFLES[way]}({_MASK}, {value}, {place})"
    word = "int64" if kind in ("int64", "uint64") else "int32"
    return f"{kind}(cuda.{_SHUFFLES[way]}({_MASK}, {word}({value}), {place}))"
