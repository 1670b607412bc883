"""Rows of the tables, made from statements: operands for each library, and the check that the libraries agree."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

import tenkey as tk
from benchmarks._harness import Row, Work

__all__ = ["LIBRARIES", "Line", "Operands", "disagreement", "make_row"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Line:
    """The statements of a row. ``numpy`` and ``torch`` are tenkey's unless given; empty where a library has none.

    ``y`` is computed beforehand, by ``prepare`` (for PyTorch by ``prepare_torch`` if given). A statement that returns
    nothing names in ``result`` what it has changed. Random results are not compared.
    """

    name: str
    tenkey: str
    numpy: str | None = None
    torch: str | None = None
    prepare: str = ""
    prepare_torch: str | None = None
    result: str = ""
    random: bool = False
    tolerance: float = 1e-3

    def texts(self, library: str) -> tuple[str, str]:
        """Return the preparation and the statement of a library."""
        own = {"tenkey": self.tenkey, "NumPy": self.numpy, "PyTorch": self.torch}[library]
        prepare = self.prepare_torch if library == "PyTorch" and self.prepare_torch is not None else self.prepare
        return prepare, self.tenkey if own is None else own


@dataclass(frozen=True)
class Library:
    """A contestant: its names in statements, and how it takes an array."""

    names: Mapping[str, Any]
    convert: Callable[[Array], Any]


def _libraries() -> dict[str, Library]:
    found = {"tenkey": Library({"xp": tk}, tk.asarray)}
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(tk.get_num_threads())
        found["PyTorch"] = Library({"xp": torch, "F": torch.nn.functional}, torch.from_numpy)
    found["NumPy"] = Library({"xp": np, "rng": np.random.default_rng(0)}, lambda array: array)
    return found


LIBRARIES: Final[Mapping[str, Library]] = _libraries()


@dataclass
class Operands:
    """The arrays of the statements, made when a statement first names them. ``size`` is a power of two.

    >>> operands = Operands(1 << 10)
    >>> operands["x"].shape, operands["X"].shape, operands["T"].shape, operands["C32"].shape
    ((1024,), (32, 32), (8, 8, 16), (1, 32, 32))
    """

    size: int
    made: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        if name not in self.made:
            self.made[name] = np.ascontiguousarray(self._make(name))
        return self.made[name]

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of the matrices."""
        bits = self.size.bit_length() - 1
        return 1 << bits // 2, 1 << bits - bits // 2

    @property
    def cube(self) -> tuple[int, int, int]:
        """The shape of the arrays with three axes."""
        bits = self.size.bit_length() - 1
        return 1 << bits // 3, 1 << (bits - bits // 3) // 2, 1 << (bits - bits // 3 + 1) // 2

    def _make(self, name: str) -> Array:
        rng = np.random.default_rng(sum(map(ord, name)))
        n, (rows, columns) = self.size, self.matrix
        if name[0] in "AB" and name[1:].isdigit():  # matrices of a given size
            side = int(name[1:])
            return rng.standard_normal((side, side), np.float32)
        if name[0] in "CD" and name[1:].isdigit():  # batches of matrices
            side = int(name[1:])
            return rng.standard_normal((max(1, n // side**2), side, side), np.float32)
        shapes = {"x": (n,), "v": (n,), "X": (rows, columns), "Y": (rows, columns), "T": self.cube}
        shapes |= {"row": (columns,), "shift": (columns,), "col": (rows, 1), "g": (rows, columns)}
        if name in shapes:
            return rng.standard_normal(shapes[name], np.float32)
        makers: dict[str, Callable[[], Array]] = {
            "p": lambda: rng.uniform(0.1, 4, n).astype(np.float32),
            "near": lambda: rng.uniform(0.9995, 1.0005, n).astype(np.float32),
            "d": lambda: rng.standard_normal(n),
            "e": lambda: rng.uniform(0.1, 4, n),
            "E": lambda: rng.standard_normal((rows, columns)),
            "i": lambda: rng.integers(-1000, 1000, n, np.int32),
            "j": lambda: rng.integers(1, 1000, n, np.int32),
            "k": lambda: rng.integers(-1000, 1000, n),
            "l": lambda: rng.integers(1, 1000, n),
            "few": lambda: rng.integers(0, max(1, n >> 6), n),
            "wide": lambda: rng.integers(-(1 << 62), 1 << 62, n),
            "u": lambda: rng.integers(0, 256, n, np.uint8),
            "m": lambda: rng.random(n) < 0.5,
            "no": lambda: np.zeros((rows, columns), np.bool_),
            "yes": lambda: np.ones((rows, columns), np.bool_),
            "no3": lambda: np.zeros(self.cube, np.bool_),
            "yes3": lambda: np.ones(self.cube, np.bool_),
            "at": lambda: rng.integers(0, n, n),
            "once": lambda: rng.permutation(n),
            "rows": lambda: rng.integers(0, rows, rows),
            "AT": lambda: rng.integers(0, columns, (rows, columns)),
            "sorted": lambda: np.sort(rng.standard_normal(n, np.float32)),
            "label": lambda: rng.integers(0, columns, rows),
            "z": lambda: np.zeros(n, np.float32),
            "Z": lambda: np.zeros((rows, columns), np.float32),
        }
        return makers[name]()


@cache
def _used(text: str) -> tuple[str, ...]:
    return compile(text, "<statement>", "exec").co_names


def _bind(text: str, library: Library, operands: Operands, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the names of a statement; a name that ends in ``_grad`` is a tensor with gradient."""
    bound: dict[str, Any] = {}
    for name in _used(text):
        plain = name.removesuffix("_grad")
        if name in extra or name in library.names:
            bound[name] = extra.get(name, library.names.get(name))
        elif name != plain:
            bound[name] = library.convert(operands[plain]).requires_grad_()
        else:
            try:
                bound[name] = library.convert(operands[name])
            except KeyError:
                continue  # an attribute
    return bound


def make_row(line: Line, operands: Operands, compare: bool = True) -> Row:
    """Return a row, with the statements that run and, with ``compare``, agree; the others are its failures."""
    works: dict[str, Work] = {}
    failures: dict[str, str] = {}
    results: dict[str, Any] = {}
    for name, library in LIBRARIES.items():
        prepare, text = line.texts(name)
        if not text:
            continue
        try:
            extra = {"size": operands.size, "matrix": operands.matrix, "columns": operands.matrix[1]}
            if prepare:
                names = _bind(prepare, library, operands, extra)
                extra["y"] = eval(prepare, names)  # the texts are those of this package
            names = _bind(text, library, operands, extra)
            if line.result:
                exec(text, names)
                results[name] = _array(names[line.result]).copy()  # the libraries change the same memory
            else:
                results[name] = eval(text, names)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            continue
        works[name] = Work(text, {key: names[key] for key in _used(text) if key in names})
    if compare and not line.random:
        for name in list(works):
            if "tenkey" in works and name != "tenkey":
                difference = disagreement(results["tenkey"], results[name], line.tolerance)
                if difference:
                    failures[name] = f"the results differ: {difference}"
                    del works[name]
    return Row(line.name, works, failures)


def _array(value: Any) -> Array:
    while isinstance(value, (tuple, list)):  # (values, indices), or one gradient
        value = value[0]
    if hasattr(value, "detach"):
        value = value.detach()
    return np.asarray(value)


def disagreement(ours: Any, theirs: Any, tolerance: float) -> str:
    """Tell how two results differ by more than the tolerance, relative to the largest number; "" if they do not.

    >>> disagreement(np.ones(2), np.ones(2), 1e-3), disagreement(np.ones(2), np.zeros(2), 1e-3)
    ('', 'by 1 where the numbers reach 0')
    """
    first, second = _array(ours), _array(theirs)
    if first.shape != second.shape:
        return f"the shapes are {first.shape} and {second.shape}"
    if first.size == 0:
        return ""
    if first.dtype.kind != "f":
        different = int((first != second).sum())
        return f"in {different} of {first.size} elements" if different else ""
    if np.array_equal(first, second):
        return ""
    with np.errstate(all="ignore"):
        scale = np.nanmax(np.where(np.isfinite(second), np.abs(second), 0), initial=0)
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        largest = np.max(np.where(same, 0, np.abs(first.astype(np.float64) - second)))
    return "" if largest <= tolerance * max(scale, 1e-30) else f"by {largest:.3g} where the numbers reach {scale:.3g}"
