"""Draws programs that NumPy runs as well, and those that are interrupted.

NumPy runs each statement as it is drawn, so that most of them fit their operands; a few that NumPy refuses are kept,
because the errors are compared, too. What NumPy answers with arrays of objects or strings is not drawn: tenkey has
none.
"""

from __future__ import annotations

import random
import re
import warnings
from typing import Any, Final

import numpy

from . import hostile
from .program import ArrayProgram, namespace
from .vocabulary import REPLACED

__all__ = ["generate"]

_DTYPES: Final = ("f8",) * 5 + ("i8",) * 3 + ("f4", "f2", "?", "?", "i1", "u1", "i2", "i4", "u8", "c16", "c8")
_SHAPES: Final = (
    "(4,)", "(4,)", "(3,)", "(1,)", "(2, 3)", "(3, 3)", "(1, 3)", "(3, 1)", "(2, 2, 2)", "()", "()", "(0,)", "(0, 3)",
    "(2, 0)", "(1, 1)", "(7,)", "(511,)", "(4095,)", "(4096,)", "(4097,)", "(64, 64)", "(65, 63)", "(5000,)",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "1", "-1", "2", "3", "0.5", "-0.0", "nan", "inf", "-inf", "True", "False", "255", "256", "-129", "2**31",
    "2**63", "-2**63", "2**64 - 1", "10**30", "1e300", "1e-300", "1j", "nan * 1j", "numpy.float32(0.5)",
    "numpy.float16(2)", "numpy.int8(-3)", "numpy.uint8(200)", "numpy.uint64(2**63 + 5)", "numpy.int64(-1)",
    "numpy.bool_(True)", "numpy.complex64(1j)", "numpy.float64(nan)", "numpy.array(2)", "numpy.array(0.5, 'f4')",
)  # fmt: skip
_OTHERS: Final = (
    "[1, 2]", "(1.5,)", "[[1], [2]]", "[]", "None", "'text'", "numpy.array([1, 2])", "numpy.arange(3.)[::-1]",
    "numpy.arange(9.).reshape(3, 3).T", "IntNumber(3)", "FloatNumber(0.5)", "Index(1)", "AsArray(2.0)",
    "AsArray([1, 2])", "Deferring()", "Overriding()", "Raising()", "object()", "slice(1)", "{{}}", "range(3)",
    "numpy.array(['a', 'b'])",
)  # fmt: skip
_MAKERS: Final = (
    "np.array(numbers({shape}, {dtype!r}, {seed}))", "np.asarray(numbers({shape}, {dtype!r}, {seed}))",
    "np.asarray(numbers({shape}, {dtype!r}, {seed}).T)", "np.array(numbers({shape}, {dtype!r}, {seed}, True))",
    "np.zeros({shape}, {dtype!r})", "np.ones({shape}, {dtype!r})", "np.full({shape}, {number})",
    "np.array({number})", "np.array(numbers((6, 5), {dtype!r}, {seed})[::-2, ::-1])",
    "numpy.broadcast_to(numbers((3,), {dtype!r}, {seed}), (2, 3))",
    "tensor(numbers({shape}, 'f8', {seed}))", "numbers({shape}, {dtype!r}, {seed})",
    "numbers((4, 3), {dtype!r}, {seed})[::-1]", "numbers((4, 3), {dtype!r}, {seed}).T[..., ::-1]",
)  # fmt: skip
_BINARY: Final = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "@", "**")
_COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
_UFUNCS: Final = (
    "add", "subtract", "multiply", "maximum", "minimum", "logical_and", "logical_or", "equal", "less", "copysign",
    "floor_divide", "fmax", "bitwise_and",
)  # fmt: skip
_UNARY: Final = (
    "negative", "absolute", "sqrt", "exp", "sin", "sinh", "tanh", "floor", "sign", "isnan", "square", "conj",
    "logical_not", "invert", "isfinite", "signbit", "positive", "reciprocal",
)  # fmt: skip
_REDUCED: Final = ("sum", "prod", "max", "min", "mean", "any", "all")
_INDEXES: Final = (
    "{i}", "{i}", "-1", "{i}:", ":{i}", "::2", "{i}:-1", "..., {i}", "{i}, ...", "None", "..., None", "{i}, {i}",
    ":, {i}",
    ":, None", "()", "...", "True", "False", "[0, -1]", "[]", "[0, 0, {i}]", "numpy.array([{i}, 0])", "{x} > 0",
    "{y} > 0",
    "np.array([0, {i}])", "{i}:{i}", "5:1", ":10**30", "-2**70:", "Index({i})", "Index({i}):", "numpy.int64({i})",
    "[True]",
    "numpy.array({i})", "np.array({i})", "{i}.0", "'a'", "[[0, {i}]]", "..., [0]", "[0], [{i}]", "10**30", "1, 1, 1, 1",
    "[False, True, True, False]", "numpy.bool_(True)", "Raising()", "slice(None, Index(2))", "(0, slice(None))",
)  # fmt: skip
_VALUES: Final = (
    "{x} {compared} {y}", "{x} {compared} {number}", "{number} {compared} {x}", "{x} {compared} {other}",
    "{x} {binary} {y}", "{x} {binary} {y}", "{x} {binary} {number}", "{x} {binary} {number}", "{number} {binary} {x}",
    "{x} {binary} {other}", "{other} {binary} {x}", "np.{ufunc}({x}, {y})", "np.{ufunc}({x}, {number})",
    "np.{ufunc}({x}, {y}, dtype={dtype!r})", "np.{ufunc}({x}, {other})", "np.{unary}({x})", "np.{unary}({x})", "-{x}",
    "~{x}", "+{x}", "abs({x})", "np.{unary}({number})", "np.{unary}({other})", "{x}[{index}]", "{x}[{index}]",
    "{x}[{index}]", "{x}[::-1] + 1", "{x}.T[..., ::-1] * {number}", "{x}.{reduced}()", "{x}.{reduced}(axis={axis})",
    "np.{reduced}({x}, axis={axis}, keepdims=True)", "np.sum({x}, dtype={dtype!r})", "np.{reduced}({x})",
    "np.{reduced}({other})", "{x}.reshape(-1)", "{x}.reshape(2, -1)", "np.reshape({x}, (-1, 1))", "{x}.T",
    "np.transpose({x})", "{x}.swapaxes(0, -1)", "{x}.ravel()", "{x}.copy()", "{x}.astype({dtype!r})",
    "np.matmul({x}, {y})", "{x} @ {x}.T", "np.dot({x}, {y})", "np.where({x} > 0, {x}, {y})",
    "np.where({x}, {number}, {y})", "np.broadcast_to({x}, (3, *{x}.shape))", "slope_of_squares({x})",
    "slope_of_products({x}, {plain})", "batched({x})", "len({x})", "bool({x})", "float({x})", "int({x})",
    "{x}.tolist()",
    "{x}.item()", "[t for t in {x}]", "{number} in {x}", "np.array([{x}, {y}])", "np.add({x}, {y}, out={x} * 1)",
    "divmod({x}, {number})", "{x}.squeeze()", "np.maximum({x}, {y}, where={x} == {x}, out={x} * 1)", "{x}.flatten()",
    "np.concatenate([{x}, {y}])", "np.stack([{x}, {x}])", "{x}.real", "{x}.argmax()", "round({x}, 1)",
)  # fmt: skip
_CHANGES: Final = (
    "{x} {binary}= {y}", "{x} {binary}= {number}", "{x} {binary}= {other}", "{x}[{index}] = {number}",
    "{x}[{index}] = {y}", "{x}[{index}] = {other}", "{x}[{index}] {binary}= {number}", "{x}[{index}] {binary}= {y}",
    "{x}[1:] = {x}[:-1]", "{x}[:-1] += {x}[1:]", "{x}[...] = {x}[0, ...]", "{x}[:] = {x}.T", "{x}[:] = {x}[::-1]",
    "{x}[None] = {x}", "{x}[...] = {x}[None]", "{x}[:, 0] = {x}[0]", "np.add({x}, {y}, out={x})",
    "np.multiply({x}, {number}, {x})", "np.add({x}[1:], {x}[:-1], out={x}[:-1])", "np.negative({x}, out={x}.T)",
    "{x}.fill({number})", "{x}.T[...] = {x}", "{x}[{x} > 0] = {number}", "{x}[{y} == {y}] = {number}",
    "{x}[{x} < {number}] += 1", "{x}[0], {x}[-1] = {x}[-1], {x}[0]", "{x}.setflags(write=False)",
    "np.sum({x}, axis=0, out={x}[0])", "np.copyto({x}, {y})", "{x}.sort()", "{x}[{index}] = {x}",
)  # fmt: skip
_THREADS: Final = ("kernels", "modes", "transforms", "collections")
_OF_TENSORS: Final = (  # the statements on tensors of tk whose rules are those of NumPy
    "{x} {exact} {y}", "{x} {exact} {plain}", "{plain} {exact} {x}", "{x}[{place}]", "{x}.sum()", "{x}.reshape(-1)",
    "{x}.T", "{x} > {plain}", "{x}[{x} > 0]", "abs({x})", "-{x}", "{x}.max()", "slope_of_squares({x})", "batched({x})",
)  # fmt: skip
_CHANGES_OF_TENSORS: Final = (
    "{x}[{place}] = {plain}", "{x}[...] = {y}", "{x}[1:] = {x}[:-1]", "{x}[...] = {x}[0, ...]",
    "{x}[{x} > 0] = {plain}",
)  # fmt: skip
_PLACES: Final = ("{i}", "-1", "{i}:", "::2", "..., {i}", "None", "..., None", ":, {i}", "...", "[0, -1]")


class _Drawn:
    """A program that is being drawn: its statements, and what NumPy makes of them."""

    def __init__(self, rng: random.Random, plain: bool) -> None:
        self.rng, self.plain = rng, plain
        self.scope = namespace(ours=False)
        self.lines: list[str] = []
        self.tensors: set[str] = set()
        self.raw: set[str] = set()  # arrays of NumPy in both libraries: tenkey copies those with negative strides

    def fill(self, template: str, names: list[str]) -> str:
        """Return a statement from a template."""
        rng = self.rng
        others = _NUMBERS if self.plain or rng.random() < 0.3 else _OTHERS
        parts = {
            "x": rng.choice(names) if names else "", "y": rng.choice(names) if names else "",
            "i": str(rng.randint(0, 3)),
            "number": f"({rng.choice(_NUMBERS)})", "binary": rng.choice(_BINARY), "compared": rng.choice(_COMPARISONS),
            "ufunc": rng.choice(_UFUNCS),
            "unary": rng.choice(_UNARY), "reduced": rng.choice(_REDUCED), "dtype": rng.choice(_DTYPES),
            "shape": rng.choice(_SHAPES), "axis": rng.choice(("0", "-1", "1", "None", "(0, 1)", "()", "0")),
            "seed": rng.randint(0, 99), "exact": rng.choice(("+", "-", "*")), "plain": rng.choice(("2", "0.5", "-1")),
        }  # fmt: skip
        parts["other"] = rng.choice(others).format() if others is _OTHERS else f"({rng.choice(others)})"
        indexes = [index for index in _INDEXES if "Raising" not in index] if self.plain else _INDEXES
        parts["index"] = rng.choice(indexes).format(**parts)
        parts["place"] = rng.choice(_PLACES).format(**parts)
        return template.format(**parts)

    def arrays(self, *, changed: bool) -> list[str]:
        """Return the variables that are arrays; ``changed``: those that statements may write to."""
        found = []
        for name, value in self.scope.items():
            if name[0] != "v" or name in self.tensors or not isinstance(value, numpy.ndarray | numpy.generic):
                continue
            if changed and (isinstance(value, numpy.generic) or value.ndim == 0 or self._shared(value)):
                continue  # NumPy's scalars cannot be written to, and 0-d arrays behave like scalars here
            found.append(name)
        return found

    def _shared(self, value: Any) -> bool:
        """Return whether a change of an array may be visible in one that tenkey copies, or in a 0-d array."""
        others = [self.scope[name] for name in self.raw] + [
            other for other in self.scope.values() if isinstance(other, numpy.ndarray) and other.ndim == 0
        ]
        return any(numpy.may_share_memory(value, other) for other in others)

    def statement(self) -> str:
        """Return a statement that uses the variables so far."""
        rng = self.rng
        new = f"v{len(self.lines)}"
        if self.tensors and rng.random() < 0.3:
            templates = _CHANGES_OF_TENSORS if rng.random() < 0.3 else _OF_TENSORS
            names = [name for name in self.tensors if self.scope[name].ndim or templates is _OF_TENSORS]
            if names:
                line = self.fill(rng.choice(templates), sorted(names))
                return line if templates is _CHANGES_OF_TENSORS else f"{new} = {line}"
        names = self.arrays(changed=False)
        if len(names) < 2 or rng.random() < 0.15:
            return f"{new} = {self.fill(rng.choice(_MAKERS), names)}"
        if rng.random() < 0.4:
            changed = self.arrays(changed=True)
            if changed:
                template = rng.choice(_CHANGES).replace("{x}", rng.choice(changed))
                return self.fill(template, names)
        recent = names[-3:] if rng.random() < 0.5 else names
        return f"{new} = {self.fill(rng.choice(_VALUES), recent)}"

    def add(self) -> None:
        """Add one statement, unless NumPy refuses it (most of the time) or answers with objects."""
        line = self.statement()
        given = line.partition("(")[2].partition(")")[0].partition(",")[0]
        if any(f" = {name}" in line for name in REPLACED) and not _is_differentiable(self.scope.get(given)):
            return
        if "slope" in line and given in self.raw:
            return  # gradients of arrays of NumPy are tensors
        target = line.split(" = ")[0] if line.startswith(f"v{len(self.lines)} = ") else ""
        try:
            exec(line, self.scope)
        except Exception:
            if self.rng.random() < 0.8:
                return
        value = self.scope.get(target)
        operands = [name for name in set(re.findall(r"v\d+", line)) & set(self.scope) if name != target]
        scalars = any(isinstance(self.scope[name], numpy.generic) for name in operands)
        # Indexes of tensors are views even if they select one element, and so are rearranged 0-d arrays.
        if isinstance(value, numpy.generic) and any(name in self.tensors for name in operands) and "[" in line:
            value = object
        if isinstance(value, numpy.ndarray) and value.size == 1 and scalars:
            value = object
        if isinstance(value, numpy.ndarray) and re.search(r"\[(np|numpy)\.array\(\d\)\]$", line):
            value = object  # a copy in NumPy, a view here: see differences.py
        if target and (value is object or not _is_comparable(value)):
            self.scope.pop(target, None)
            return
        if target and isinstance(value, numpy.ndarray | numpy.generic):
            own = bool(operands) and self.raw.issuperset(operands) and "np." not in line
            if line.startswith((f"{target} = numbers", f"{target} = numpy")) or own:
                self.raw.add(target)
            if "tensor(" in line or self.tensors.intersection(operands):
                if value.dtype.kind != "f":
                    del self.scope[target]
                    return
                self.tensors.add(target)
        self.lines.append(line)


def _is_differentiable(value: Any) -> bool:
    """Return whether an operand of a function of the vocabulary has rows of floating-point numbers."""
    return value is None or (value.dtype.kind == "f" and value.ndim > 0 and len(value) > 0)


def _is_comparable(value: Any) -> bool:
    if isinstance(value, numpy.ndarray | numpy.generic):
        return value.dtype.kind in "?biufc" and value.size <= 20000 and value.dtype.char not in "gG"
    if isinstance(value, list | tuple):
        return all(map(_is_comparable, value))
    return True


def generate(seed: int, number: int) -> ArrayProgram:
    """Draw the program of this number in the run of this seed."""
    rng = random.Random(f"arrays {seed} {number}")
    kind = rng.choices(("compared", "hostile", "interrupted"), (12, 6, 1))[0]
    threads = tuple([name for name in _THREADS if rng.random() < 0.5]) if rng.random() < 0.08 else ()
    if kind == "hostile":
        threads = tuple([name for name in threads if name != "kernels"])  # the statements register kernels themselves
        return ArrayProgram(kind, hostile.statements(rng), threads)
    drawn = _Drawn(rng, plain=kind == "interrupted" or bool(threads))
    length = rng.randint(3, 14)
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(10 * length):
            if len(drawn.lines) < length:
                drawn.add()
    return ArrayProgram(kind, tuple(drawn.lines), threads, rng.randint(1, 20) if kind == "interrupted" else 0)
