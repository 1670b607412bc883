"""The documented differences from NumPy: which statements show them, how, and where the documents say so."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["DIFFERENCES", "Difference", "known"]


class Difference(NamedTuple):
    """A difference in statements that match `statement`, by the kind of the outcome and its text."""

    statement: str
    kind: str
    text: str
    reason: str


_OBJECTS = "there are no arrays of objects, to which NumPy converts such operands and values (docs/numpy.md)"
_SEVERAL = "the call breaks several rules, and NumPy names another one first"
_EMPTY = "NumPy takes an array of another library without elements for indices, a mask too"
_ZEROS = r"[-+( ]0(\.0)?\D.* in NumPy; .*[-+( ]0(\.0)?\D.* here"
_IMAGINARY, _NEGATIVE = r"\(-?[\d.e+]+j\)", r"\(-0[-+]"  # complex numbers with a real part of 0.0, -0.0
_ZERO_PARTS = f"{_IMAGINARY} in NumPy; .*{_NEGATIVE}|{_NEGATIVE}.* in NumPy; .*{_IMAGINARY} here"

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(r"\[.*\] = ", "wrong error", r"\[setitem\] an array of dtype \S+ takes numbers, got ", _OBJECTS),
    Difference(r"10\*\*30|2\*\*6[34]|2\*\*70", "wrong error", "OutOfRangeError.* here", _OBJECTS),
    Difference(
        r"None|object\(\)|slice|\{\}|AsArray|Raising|Index\(|Deferring|Overriding|'text'|\['a'", "wrong error",
        r"^(?!no error).* in NumPy; (TypeError|ValueError|ArgumentError|LookupError|IndexError|\w*UFuncTypeError)",
        _SEVERAL,
    ),
    Difference(r"\{\}|slice|object\(\)|range|\['a'", "wrong error", "^no error in NumPy; TypeError", _OBJECTS),
    Difference(r"slice|object\(\)", "wrong error", r"^UFuncTypeError.*dtype\('O'\).*no error here", _OBJECTS),
    Difference(r" [<>]=? None", "wrong error", "^no error in NumPy; TypeError", _OBJECTS),
    Difference(r"Index\(", "wrong error", r"dtype\('O'\).*no error here", _OBJECTS),
    Difference(r"\[.*\] [^ ]*= |out=|, v\d+\)$", "wrong error", "read-only.* no error here", "nothing is written"),
    Difference(r"\.sort\(\)", "wrong error", "read-only.* no error here", "nothing is written"),
    Difference(r"v\d+ \S+= ", "wrong error", "^ValueError.*read-only.* no error here", "nothing is written"),
    Difference(
        r"fill\(|\] \S*= ", "wrong error", "^no error in NumPy; ReadOnlyError.*single memory location",
        "a view here, since slices with negative steps are copies (docs/numpy.md)",
    ),
    Difference(r"copyto\(v\d+, v\d+\)", "wrong error", "^no error in NumPy; ReadOnlyError", "nothing is written"),
    Difference("", "wrong error", "(read-only|Cannot cast|casting rule).* in NumPy; (?!no error)", _SEVERAL),
    Difference("", "wrong error", r"^(?!no error).*in NumPy; .*\[setitem\] (a complex number|an array of)", _SEVERAL),
    Difference(r"@", "wrong error", "(matmul|inplace matrix).* in NumPy; (?!no error)", _SEVERAL),
    Difference(r"@= ", "wrong error", "^OverflowError.* in NumPy; ValueError.*inplace matrix", _SEVERAL),
    Difference(r"\[.*\] = ", "wrong error", r"^(Index|Value)Error.* in NumPy; (Index|Value|O\w+)Error", _SEVERAL),
    Difference(r"logical_", "wrong error", r"^OverflowError.*no error here", "any int is true or false"),
    Difference(r"10\*\*30|2\*\*6[34]|2\*\*70", "wrong error", "^OverflowError.*no error here", _OBJECTS),
    Difference(r"np\.(fm|m)(ax|in)|max\(|min\(|sort\(", "wrong value", _ZEROS, "either of two zeros"),
    Difference(r"np\.dot|@|matmul", "wrong value", _ZEROS, "the sign of a zero of BLAS"),
    Difference(r"sum\(|mean\(", "wrong value", _ZEROS, "a sum of negative zeros alone, in large arrays"),
    Difference(r"np\.dot|@|matmul|\*\*|sort\(", "wrong value", _ZERO_PARTS, "the same of complex numbers"),
    Difference(r"dot\(", "wrong value", r"[ (]-?0(\.0|j)\D.* in NumPy; .*nan.* here", "BLAS takes 0 times inf for 0"),
    Difference(r"\*\*=? ", "wrong value", _ZEROS, "the sign of a zero in a power"),
    Difference(r"prod\(", "wrong value", _ZEROS, "factors of reversed arrays: NumPy takes them in another order"),
    Difference(r"@|matmul|dot\(", "wrong value", r"complex\d+\([^)]*(inf|nan)", "infinities: BLAS and loops differ"),
    Difference(
        r"(float|int|complex)\(|\] [^=]*= ", "wrong error", "^TypeError.*only 0-dim",
        "arrays of one element convert to numbers, as in NumPy up to 2.3",
    ),
    Difference(r"\] \S*= v\d+$", "wrong error", "^(ValueError.*a sequence|TypeError.*only 0-dim)", "as above"),
    Difference(
        r"\] = v\d+$", "wrong error", r"^no error in NumPy; TypeError.*\[(int|float)\] the element",
        "NumPy converts a foreign element by int() or float(), which reject complex numbers",
    ),
    Difference(
        r"\] \S*= |fill", "wrong error", "(cannot convert float|out of bounds for|int too large).* no error here",
        "a NumPy scalar is converted as an array of its dtype is, which NumPy does to all integers but int64",
    ),
    Difference(r"@= Overriding", "wrong value", "'axes', 'out'", "NumPy names the axes, which are the last two"),
    # Faults, which are to be corrected: remove the entry with the fault.
    Difference(r"(int|float)\(", "wrong error", r"^TypeError.*ValueError\('\[item\]", "fault: should be a TypeError"),
    Difference(r"\*\*", "wrong value", r"complex.*nan.*(in NumPy|here)", "fault: powers of complex infinities"),
    Difference(r"1j|complex64", "wrong error", "^no error.*complex number cannot be written", "fault: into bools"),
    Difference(r"1j|complex64", "wrong error", "^no error.*dtype complex.* cannot be written", "fault: into tensors"),
    Difference(r"numpy\.uint64", "wrong dtype", "", "fault: divmod takes NumPy's scalars for weak numbers"),
    Difference(r"where", "wrong error", "^OverflowError.* out of bounds", "fault: NumPy 2.5 refuses ints out of range"),
    Difference(r"Deferring", "wrong error", "^TypeError.*no error here", "fault: refused in place by NumPy"),
    Difference(r"\['a', 'b'\]", "wrong error", "^no error", "fault: comparisons with texts are all False in NumPy"),
    Difference(r"inf|nan", "wrong error", "^OverflowError.*ValueError.*not an int", "fault: an OverflowError"),
    Difference(r"\] = ", "wrong error", "^TypeError.*boolean array indexing", "a ValueError here"),
    Difference(r"\] = ", "wrong error", r"^no error.*a mask selects the shape \(0,\)", "nothing is written"),
    Difference(r"\] = AsArray", "wrong error", "^TypeError.*AsArray['\"]+\\).*no error here", "elements take these"),
    Difference(r"\] = ", "wrong error", r"^no error.*shape \([\d, ]*\b0[,)].*does not fit", "nothing is written"),
    Difference(r"\*\*= ", "wrong value", r"np\.u?int", "NumPy has written elements before it raises an error"),
    Difference(r"signbit|copysign", "wrong value", "", "the sign of nan"),
    Difference(r"\[v\d+ ", "wrong error", "^IndexError.*(boolean|too many indices).*no error here", _EMPTY),
    Difference(r"\[v\d+ ", "wrong shape", r"\(0,[^)]*\) in NumPy; \(", _EMPTY),
    Difference(r"fill\(", "wrong error", "read-only.* no error here", "x.squeeze() can be x itself in NumPy"),
    Difference(r"where", "wrong error", "^OverflowError.*ValueError.*broadcast together", _SEVERAL),
    Difference(
        r"out=v\d+\[:-1\]", "wrong value", "", "a view of what NumPy copies: conversion gives elements their own places"
    ),
    Difference(r"axis=", "wrong error", "^no error.*IndexError.*of 0 dim", "fault: axes 0 and -1 of a 0-d array"),
)  # fmt: skip


def known(line: str, kind: str, text: str) -> str:
    """Return the reason for a known difference, or an empty text."""
    for entry in DIFFERENCES:
        if re.search(entry.kind, kind) and re.search(entry.statement, line) and re.search(entry.text, text):
            return entry.reason
    return ""
