"""The template ``scatter``: ``out[i, index[i, j, k], k]`` is combined with ``source[i, j, k]``.

Where any order will do, a thread combines one source by an atomic operation, or in a loop that tries until no other
thread has changed the element meanwhile. Where the order counts, there are three ways:

- Mode "set" finds the last source of each place first. Every source stores its ``j`` in a table at its place, so that
  the entries in use hold one of theirs; then the largest wins; then the winners write. The table needs no fill.
- Few sources in each column are combined by one thread for each column, in their order.
- Otherwise the sources of each column are sorted by their places, in a stable way, and the thread at the first of
  those for a place combines them.

Elements of 8 bits have no atomic operations, and are combined in order too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.storage import StridedArray
from ....ops.scalar import maximum, minimum, variable
from ..compiling.kernel_source import KernelSource
from .emission import TYPES, to_numba
from .ordering import sort_places
from .places import THREADS, WORDS, blocks, indented, inner, offset, offset_type, steps, unpacked
from .registers import register_of

__all__ = ["atomic_source", "key_source", "ordered_source", "scatter", "segment_source", "set_source"]

_FEW: Final = 32  # sources of a column that one thread combines without sorting
_NAMES: Final = ("i", "j", "k")
_SIZES: Final = ("outer", "count", "inner")
_WINDOWS: Final = ("index", "source")
_EXPRESSIONS: Final = {
    "add": variable("a") + variable("b"), "multiply": variable("a") * variable("b"),
    "minimum": minimum(variable("a"), variable("b")), "maximum": maximum(variable("a"), variable("b")),
}  # fmt: skip
_AT: Final = "{kind}({kind}(cuda.blockIdx.x) * {kind}({threads}) + {kind}(cuda.threadIdx.x))"


def _combine(mode: str, dtype: str) -> str:
    """Return the device function ``combine(a, b)`` of a mode."""
    given = {"a": dtype, "b": dtype}
    return to_numba(_EXPRESSIONS[mode], given, dtype=dtype, name="combine")


def _parameters(kind: str, source: str, out: str = "") -> tuple[list[str], list[str]]:
    """Return the parameters of all kernels that read sources and write their places, and their types."""
    names = ["size", "count", "inner", "n", "code", "out", "out_0", "out_1", "out_2"]
    names += ["index", "index_0", "index_1", "index_2", "source", "source_0", "source_1", "source_2", "error"]
    window = (kind,) * 3
    types = [kind, kind, kind, "int64", "int64", f"{out or source}*", *window, "int64*", *window, f"{source}*", *window]
    return names, [*types, "int64*"]


def _each_source(
    name: str, kind: str, wide: tuple[bool, ...], lines: list[str], word: str, *, head: str = "", out: str = "",
    fails: bool = True, has_table: bool = False,
) -> KernelSource:  # fmt: skip
    """Return a kernel that runs ``lines`` for each source: ``to`` is its offset in ``out``, ``at`` in ``source``."""
    sizes = [size if is_wide else None for size, is_wide in zip(_SIZES, wide)]
    body = [
        f"flat = {_AT.format(kind=kind, threads=THREADS)}", "if flat >= size:", "    return",
        *unpacked(kind, "flat", _NAMES, sizes), f"found = index[{offset(kind, 'index', _NAMES, sizes)}]",
        f"at = {offset(kind, 'source', _NAMES, sizes)}", "if found >= 0 and found < n:", f"    place = {kind}(found)",
        f"    to = {_place(kind, 'out', wide)}", *inner(lines),
        "else:", "    atomic_exchange(error, 0, code)" if fails else "    pass",
    ]  # fmt: skip
    if not wide[1]:
        body = [f"j = {kind}(0)", *body]
    names, types = _parameters(kind, word, out)
    if has_table:
        names, types = [*names, "table", "table_0", "table_1", "table_2"], [*types, "uint32*", kind, kind, kind]
    return KernelSource(name, f"{head}\ndef {name}({', '.join(names)}):\n{indented(body, 1)}\n", tuple(types), THREADS)


def _place(kind: str, window: str, wide: tuple[bool, ...]) -> str:
    """Return the source of the offset of a place in a window."""
    return offset(kind, window, ("i", "place", "k"), ("outer" if wide[0] else None, "n", "inner" if wide[2] else None))


@functools.cache
def set_source(step: str, word: str, kind: str, wide: tuple[bool, ...]) -> KernelSource:
    """Return a kernel of mode "set".

    ``step`` is "only" if there is one source for each place; otherwise "mark", "claim" and "write" run in this order.
    The first two write to a table of uint32 in place of ``out``.
    """
    name, write = f"scatter_{step}", "out[to] = source[at]"
    if step == "only":
        return _each_source(name, kind, wide, [write], word)
    if step == "write":  # only the winner
        lines = [f"if table[{_place(kind, 'table', wide)}] == uint32(j):", f"    {write}"]
        return _each_source(name, kind, wide, lines, word, has_table=True)
    lines = {"mark": ["atomic_exchange(out, to, uint32(j))"], "claim": ["atomic_maximum(out, to, uint32(j))"]}[step]
    return _each_source(name, kind, wide, lines, word, out="uint32", fails=False)


@functools.cache
def atomic_source(mode: str, dtype: str, kind: str, wide: tuple[bool, ...]) -> KernelSource | None:
    """Return the kernel that combines sources in any order, or None where the dtype has no such operation."""
    word = TYPES[dtype]
    bits = np.dtype(word).itemsize * 8
    is_complex = dtype.startswith("complex")
    if bits < 16 or (is_complex and mode != "add"):
        return None
    name = f"scatter_{mode}_atomic"
    if mode == "add" and bits >= 32:
        lines = ["atomic_add(out, to, source[at])"]
        if is_complex:
            lines = [f"atomic_add(out, {kind}(2 * to + {n}), source[{kind}(2 * at + {n})])" for n in range(2)]
        return _each_source(name, kind, wide, lines, word)
    if mode in ("minimum", "maximum") and bits >= 32 and word[0] in "iu":
        return _each_source(name, kind, wide, [f"atomic_{mode}(out, to, source[at])"], word)
    unsigned = f"uint{bits}"
    is_float = word.startswith("float")
    value = "float_of(old)" if is_float else f"{word}(old)"
    new = f"combine({value}, given)"
    new = f"bits_of({new})" if is_float else f"{unsigned}({new})"
    lines = [
        "given = float_of(source[at])" if is_float else f"given = {word}(source[at])", "old = atomic_read(out, to)",
        "while True:", f"    new = {new}", "    if new == old:", "        break",
        "    seen = atomic_exchange_if(out, to, old, new)", "    if seen == old:", "        break", "    old = seen",
    ]  # fmt: skip
    return _each_source(name, kind, wide, lines, unsigned, head=_combine(mode, dtype))


@functools.cache
def ordered_source(mode: str, dtype: str, kind: str) -> KernelSource:
    """Return the kernel in which a thread combines the sources of a column (i, k) in their order."""
    register = register_of(dtype)
    at = f"{kind}(source_first + j * source_1)"
    body = [
        f"flat = {_AT.format(kind=kind, threads=THREADS)}", "if flat >= size:", "    return",
        f"i = {kind}(flat // inner)", f"k = {kind}(flat - i * inner)",
        *[f"{name}_first = {kind}(i * {name}_0 + k * {name}_2)" for name in ("out", *_WINDOWS)], f"j = {kind}(0)",
        "while j < count:", f"    found = index[{kind}(index_first + j * index_1)]",
        "    if found >= 0 and found < n:", f"        to = {kind}(out_first + {kind}(found) * out_1)",
        *inner(inner(register.load("a", "out", "to"))),
        *inner(inner(register.load("b", "source", at))),
        *inner(inner(register.call("c", "combine", "a", "b"))),
        *inner(inner(register.store("out", "to", "c"))),
        "    else:", "        atomic_exchange(error, 0, code)", f"    j = {kind}(j + {kind}(1))",
    ]  # fmt: skip
    names, types = _parameters(kind, register.kind)
    text = f"{_combine(mode, dtype)}\ndef scatter_ordered({', '.join(names)}):\n{indented(body, 1)}\n"
    return KernelSource("scatter_ordered", text, tuple(types), THREADS)


@functools.cache
def key_source(kind: str) -> KernelSource:
    """Return the kernel that writes the places of the sources as rows of keys; those out of range are the last."""
    text = f"""
def scatter_keys(size, count, inner, n, code, keys, index, index_0, index_1, index_2, error):
    flat = {_AT.format(kind=kind, threads=THREADS)}
    if flat < size:
        row = {kind}(flat // count)
        j = {kind}(flat - row * count)
        i = {kind}(row // inner)
        k = {kind}(row - i * inner)
        found = index[{kind}(i * index_0 + j * index_1 + k * index_2)]
        if found >= 0 and found < n:
            keys[flat] = uint32(found)
        else:
            keys[flat] = uint32(n)
            atomic_exchange(error, 0, code)
"""
    types = (kind, kind, kind, "int64", "int64", "uint32*", "int64*", kind, kind, kind, "int64*")
    return KernelSource("scatter_keys", text, types, THREADS)


@functools.cache
def segment_source(mode: str, dtype: str, kind: str) -> KernelSource:
    """Return the kernel that combines sources sorted by their places.

    ``keys`` and ``order`` have the shape (outer, inner or 1, count): with ``shared`` 1 they hold for all ``k``.
    """
    register = register_of(dtype)
    at = f"{kind}(i * source_0 + j * source_1 + k * source_2)"
    body = [
        f"flat = {_AT.format(kind=kind, threads=THREADS)}", "if flat >= size:", "    return",
        "if shared != 0:", f"    rest = {kind}(flat // inner)", f"    k = {kind}(flat - rest * inner)",
        f"    i = {kind}(rest // count)", f"    p = {kind}(rest - i * count)", f"    row = {kind}(i * count)",
        "else:", f"    rest = {kind}(flat // count)", f"    p = {kind}(flat - rest * count)",
        f"    i = {kind}(rest // inner)", f"    k = {kind}(rest - i * inner)", f"    row = {kind}(rest * count)",
        f"key = keys[{kind}(row + p)]", "if int64(key) >= n:", "    return",
        "if p > 0:", f"    if keys[{kind}(row + p - {kind}(1))] == key:", "        return",
        f"to = {kind}(i * out_0 + {kind}(key) * out_1 + k * out_2)", *register.load("a", "out", "to"), "more = True",
        "while more:", f"    j = {kind}(order[{kind}(row + p)])",
        *inner(register.load("b", "source", at)),
        *inner([*register.call("c", "combine", "a", "b"), *register.copy("a", "c")]),
        f"    p = {kind}(p + {kind}(1))", "    more = False", "    if p < count:",
        f"        more = keys[{kind}(row + p)] == key", *register.store("out", "to", "a"),
    ]  # fmt: skip
    names = ["size", "count", "inner", "shared", "n", "out", "out_0", "out_1", "out_2", "source", "source_0"]
    names += ["source_1", "source_2", "keys", "order"]
    window, pointer = (kind,) * 3, f"{register.kind}*"
    types = (kind, kind, kind, "uint32", "int64", pointer, *window, pointer, *window, "uint32*", "int64*")
    text = f"{_combine(mode, dtype)}\ndef scatter_segments({', '.join(names)}):\n{indented(body, 1)}\n"
    return KernelSource("scatter_segments", text, types, THREADS)


def scatter(backend: Any, mode: str, dtype: np.dtype, deterministic: bool) -> Callable[..., None] | None:
    """Return the host function ``kernel(out, index, source, error, code)``."""
    if mode == "set":
        return functools.partial(_set, backend)
    name = dtype.name
    if name.startswith("complex") and mode in ("minimum", "maximum"):
        return None

    def kernel(out: StridedArray, index: StridedArray, source: StridedArray, error: StridedArray, code: int) -> None:
        outer, count, inner = source.shape
        n = out.shape[1]
        kind = offset_type(out, index, source)
        given = (out, *steps(out), index, *steps(index), source, *steps(source), error)
        if not deterministic or count == 1:
            atomic = atomic_source(mode, name, kind, (outer > 1, count > 1, inner > 1))
            if atomic is not None:
                backend.launch(atomic, blocks(source.size), THREADS, source.size, count, inner, n, code, *given)
                return
        columns = outer * inner
        if count <= _FEW or n >= 2**32 - 1:
            ordered = ordered_source(mode, name, kind)
            backend.launch(ordered, blocks(columns), THREADS, columns, count, inner, n, code, *given)
            return
        shared = index.strides[2] == 0 or inner == 1
        each = 1 if shared else inner
        shape = (outer * each, count)
        size = outer * each * count
        keys = backend.scratch(shape, np.dtype(np.uint32), out.device)
        sizes = (size, count, each, n, code)
        backend.launch(key_source(kind), blocks(size), THREADS, *sizes, keys, index, *steps(index), error)
        keys, order = sort_places(backend, keys, n + 1)
        segments = segment_source(mode, name, kind)
        sizes = (source.size, count, inner, int(shared), n)
        places = (out, *steps(out), source, *steps(source), keys, order)
        backend.launch(segments, blocks(source.size), THREADS, *sizes, *places)

    return kernel


def _set(
    backend: Any, out: StridedArray, index: StridedArray, source: StridedArray, error: StridedArray, code: int
) -> None:
    outer, count, inner = source.shape
    n = out.shape[1]
    if count >= 2**32:
        raise NotImplementedError(f"{count} sources for a column: the table of the last ones counts in 32 bits")
    word = WORDS[out.dtype.itemsize]
    wide = (outer > 1, count > 1, inner > 1)
    shared = index.strides[2] == 0  # one table for all k, which all write the same numbers
    sizes = (source.size, count, inner, n, code)
    rest = (index, *steps(index), source, *steps(source), error)
    if count == 1:
        kind = offset_type(out, index, source)
        only = set_source("only", word, kind, wide)
        backend.launch(only, blocks(source.size), THREADS, *sizes, out, *steps(out), *rest)
        return
    table = backend.scratch((outer, n, 1 if shared else inner), np.dtype(np.uint32), out.device)
    kind = offset_type(out, index, source, table)
    places = (table, *steps(table))
    for step in ("mark", "claim"):
        backend.launch(set_source(step, word, kind, wide), blocks(source.size), THREADS, *sizes, *places, *rest)
    write = set_source("write", word, kind, wide)
    backend.launch(write, blocks(source.size), THREADS, *sizes, out, *steps(out), *rest, *places)
