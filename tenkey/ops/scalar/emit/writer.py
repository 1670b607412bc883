"""What the printers share: the operation table of a language and compute dtype, and the helpers that it calls."""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..expression import Expression
from ..operations import OPERATIONS
from .printer import OperationTable, UnsupportedOperationError

__all__ = ["Writer", "compute_dtype", "constant_of"]

_COMPUTED_IN: Final = {"float16": "float32", "bfloat16": "float32", "complex64": "float32", "complex128": "float64"}
# Of bools, which add by "or" and multiply by "and".
_BOOLS: Final = {
    "add": "({0} | {1})", "multiply": "({0} & {1})", "maximum": "({0} | {1})", "minimum": "({0} & {1})",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})", "abs": "{0}",
}  # fmt: skip
_EPS: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}


def compute_dtype(dtype: str) -> str:
    """Return the dtype of the arithmetic: floats of 16 bits are computed in float32, complex numbers in their parts.

    >>> compute_dtype("bfloat16"), compute_dtype("complex128"), compute_dtype("int8")
    ('float32', 'float64', 'int8')
    """
    return _COMPUTED_IN.get(dtype, dtype)


def constant_of(value: float, dtype: str) -> float:
    """Return a constant as a number of ``dtype``; beyond the largest float it is infinite.

    >>> constant_of(1e5, "float16"), constant_of(0.1, "float32")
    (inf, 0.1)
    """
    code = {"float16": "e", "float32": "f", "complex64": "f", "bfloat16": "f"}.get(dtype)
    if code is None:
        return value
    try:
        packed = struct.pack(f">{code}", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if dtype == "bfloat16" and value == value:
        bits = int.from_bytes(packed, "big")
        bits += 0x7FFF + (bits >> 16 & 1)
        return float(struct.unpack(">f", (bits & 0xFFFF0000).to_bytes(4, "big"))[0])
    return float(struct.unpack(">e", packed)[0]) if dtype == "float16" else value


class Writer(ABC):
    """The operation table for a language and compute dtype, and the helper functions that its entries call.

    A subclass says how the language writes values, conversions and functions. ``dtype`` is that of the expression, and
    ``compute`` that in which it is computed.
    """

    lacking: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    """Names that a parameter must not have in the source, besides those that no language allows."""
    statements: Mapping[str, str]

    def __init__(self, language: Any, dtype: str, name: str) -> None:
        self.language = language
        self.dtype = dtype
        self.compute = compute_dtype(dtype)
        self.name = name
        self.type: str = language.types[self.compute]
        self.is_float = self.compute.startswith("float")
        self.bits = 8 if dtype == "bool" else int("".join(c for c in self.compute if c.isdigit()))
        self._used: dict[str, str] = {}

    # ---- what a language decides

    @abstractmethod
    def load(self, text: str, source: str) -> tuple[str, ...]:
        """Return a parameter of dtype ``source`` as a number of the compute dtype, or as two for a complex one."""

    @abstractmethod
    def condition(self, text: str, source: str) -> str:
        """Return a parameter of dtype ``source`` as a condition: whether it differs from 0."""

    @abstractmethod
    def store(self, values: list[str], source: str, target: str) -> str:
        """Return the value as dtype ``target``: a complex one has two parts, and ``source`` may be "condition"."""

    @abstractmethod
    def entries(self) -> dict[str, Any]:
        """Return the source of the operations on numbers of the compute dtype."""

    @abstractmethod
    def literal(self, value: float) -> str:
        """Return a float of the compute dtype."""

    @abstractmethod
    def integer(self, value: int) -> str:
        """Return an integer of the compute dtype."""

    @abstractmethod
    def truth(self, value: bool) -> str:
        """Return a condition."""

    @abstractmethod
    def helper_source(self, key: str) -> str:
        """Return the source of a helper function, without its name."""

    @abstractmethod
    def function(self, parameters: list[tuple[str, str]], loads: list[tuple[str, str, str]], body: list[str],
                 value: str, result: str) -> str:  # fmt: skip
        """Return the function: parameters and their types; names, kinds and sources of loads; statements; result."""

    # ---- what they share

    def is_rounded(self, source: str) -> bool:
        """Tell whether numbers of dtype ``source`` are rounded to float16 before they are computed with: integers.

        Those for bfloat16, which is storage (Note [bfloat16 is storage]), are not.
        """
        return self.dtype == "float16" and source.lstrip("u") in ("int16", "int32", "int64")

    def table(self) -> OperationTable:
        """Return the operation table; an entry for an operation without a counterpart refuses."""
        entries: dict[str, Any] = dict.fromkeys(OPERATIONS, self._refuse)
        entries |= {
            "constant": self.constant,
            "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})",
            "greater_equal": "({0} >= {1})", "equal": "({0} == {1})", "not_equal": "({0} != {1})",
            "logical_and": "({0} && {1})", "logical_or": "({0} || {1})", "logical_xor": "({0} != {1})",
            "logical_not": "(!{0})", "where": "({0} ? {1} : {2})",
        }  # fmt: skip
        if self.is_float:
            entries["eps"] = self.literal(_EPS.get(self.dtype, 2.0**-52))
        else:
            entries |= {"isnan": self.truth(False), "isinf": self.truth(False), "isfinite": self.truth(True)}
            if self.dtype == "bool":
                entries |= _BOOLS | {"signbit": self.truth(False)}
            else:
                called = ("bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder")
                entries |= {"pow": self.power, **{name: self.helper(name) for name in called}}
                entries |= dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}")
        known = entries | self.entries()
        if self.dtype in ("float16", "bfloat16"):
            known["nextafter"] = self._refuse  # the neighbours in float32 are others
        return OperationTable(self.language.name, known)

    def _refuse(self, node: Expression, *operands: str) -> str:
        raise UnsupportedOperationError(
            f"[to_c] the operation {node.operation!r} on {self.dtype} has no counterpart in {self.language.name} with "
            "the same results."
        )

    def constant(self, value: Any, kind: str) -> str:
        """Return a constant of the expression."""
        if kind == "boolean":
            return self.truth(bool(value))
        if self.is_float:
            return self.literal(float(value))
        if self.dtype == "bool":
            return self.integer(int(bool(value)))
        if value != int(value):
            raise UnsupportedOperationError(
                f"[to_c] the constant {value} occurs in an expression on {self.dtype}: it is not an integer."
            )
        return self.integer(int(value) % (1 << self.bits))

    def power(self, node: Expression, base: str, exponent: str) -> str:
        """Call the helper for a power of integers, unless the exponent may be negative, which has to raise."""
        number = node.operands[1]
        known = number.operation == "constant" and number.value is not None and number.value >= 0
        if not (known or self.dtype.startswith("uint")):
            self._refuse(node)
        return self.call("pow", base, exponent)

    def call(self, key: str, *operands: str) -> str:
        """Return a call of a helper function, which is then part of the source."""
        if key not in self._used:
            self._used[key] = ""  # first, because helpers call others
            self._used[key] = self.helper_source(key)
        return f"{self.name}_{key}({', '.join(operands)})"

    def helper(self, key: str) -> Callable[..., str]:
        """Return a table entry that calls a helper function."""
        return lambda node, *operands: self.call(key, *operands)

    def filled(self, source: str, words: Mapping[str, str], formats: Mapping[str, str]) -> str:
        """Replace ``<WORD>`` by its meaning, ``<call:x>`` by the name of a helper, ``<format:x>`` by a format of x."""
        for word, meaning in words.items():
            source = source.replace(f"<{word}>", meaning)
        source = re.sub(r"<call:(\w+)>", lambda match: self.call(match[1])[:-2], source)
        return re.sub(r"<(\w+):(\w+)>", lambda match: formats[match[1]].format(match[2]), source)

    def helpers(self) -> str:
        """Return the source of the helpers that were called; those that others call come first."""
        names = list(self._used)
        depends = {
            key: [other for other in names if other != key and f"{self.name}_{other}(" in source]
            for key, source in self._used.items()
        }
        placed: list[str] = []
        while names:  # a helper after all that call it
            free = next(key for key in names if not any(key in depends[other] for other in names))
            names.remove(free)
            placed.append(free)
        return "".join(f"{self._used[key]}\n" for key in reversed(placed))
