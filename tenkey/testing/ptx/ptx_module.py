"""Modules and kernels: what users of the executor call."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from ...backends.llvm import images
from ...backends.llvm.compiled import address_of
from .block_runtime import race_detection, scheduler
from .block_runtime.race_detection import CELL_WORDS
from .context_layout import COPY_WORDS, LARGEST_BLOCK, MOST_COPIES, SITE_WORDS, Context
from .device_printing import printer
from .error_reports import explained
from .ptx_compiler import Compiled, Entry, compiled
from .ptx_text import parse, plain_name

__all__ = ["Kernel", "Memory", "Module"]

_ORDERS: Final = {"up": 0, "down": 1, "random": 2}
_DTYPES: Final = {
    "s8": "i1", "u8": "u1", "b8": "u1", "s16": "i2", "u16": "u2", "b16": "u2", "f16": "f2", "s32": "i4", "u32": "u4",
    "b32": "u4", "f32": "f4", "s64": "i8", "u64": "u8", "b64": "u8", "f64": "f8",
}  # fmt: skip
_LARGEST_SHADOW: Final = 1 << 26  # bytes of an allocation in which races are looked for
_launches: Final = itertools.count(1)


class Memory(Protocol):
    """Says which addresses of this process kernels may access: what ``launch(memory=...)`` takes.

    >>> import numpy as np
    >>> class Allocations:
    ...     def __init__(self, *arrays):
    ...         self.arrays = sorted(arrays, key=lambda a: a.ctypes.data)
    ...
    ...     def table(self):
    ...         return np.array([(a.ctypes.data, a.ctypes.data + a.nbytes, 1) for a in self.arrays], np.int64)
    ...
    ...     def describe(self, address):
    ...         return None
    >>> Allocations(np.zeros(3), np.zeros(4, np.float32)).table().shape
    (2, 3)
    """

    def table(self) -> np.ndarray:
        """Return the allocations, an int64 array of shape (n, 3): begin, end and 1 if it may be written, sorted."""

    def describe(self, address: int) -> str | None:
        """Return what is known of an address that is not in the table, for errors: "a freed allocation", say."""


class Module:
    """A PTX module, translated to code for this processor.

    Args:
        ptx: the text, as a compiler has written it, or bytes of it.
        target: the architecture that is executed, such as "sm_90"; the one that the text states unless given. PTX does
            not depend on it beyond the instructions that it allows.
        races: whether two threads of a block are found that access one address without a barrier between them, one of
            them writing. Such code is several times slower.
        optimized: whether LLVM takes five times as long for code that is three times as fast.
        cached: whether the code is kept in tenkey's folder of compiled kernels.

    Raises:
        PtxSyntaxError: the text is not PTX.
        UnsupportedError: it contains an instruction that the executor does not have.

    >>> import numpy as np
    >>> from tenkey.testing import ptx
    >>> module = ptx.Module('''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry double_all(.param .u64 x) {
    ...     .reg .b64 %rd<4>;
    ...     .reg .b32 %r<4>;
    ...     ld.param.u64 %rd1, [x];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     ld.global.u32 %r2, [%rd3];
    ...     shl.b32 %r3, %r2, 1;
    ...     st.global.u32 [%rd3], %r3;
    ...     ret;
    ... }''')
    >>> x = np.arange(4, dtype=np.int32)
    >>> module.kernel("double_all").launch(1, 4, [x])
    >>> x
    array([0, 2, 4, 6], dtype=int32)
    >>> module.kernel("double_all").launch(1, 5, [x])
    Traceback (most recent call last):
    ...
    tenkey.testing.ptx.kernel_errors.KernelError: double_all: thread (4, 0, 0) of block (0, 0, 0) reads 4 bytes ...
    """

    def __init__(
        self,
        ptx: str | bytes,
        *,
        target: str | None = None,
        races: bool = False,
        optimized: bool = True,
        cached: bool = True,
    ) -> None:
        self.text = (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")
        self.target = target
        self.races = races
        self._compiled = found = compiled(self.text, races=races, optimized=optimized, cached=cached)
        addresses = images.load(found.image) if found.entries else {}
        self.data = _aligned(len(found.data) + 16)
        base = self.data.ctypes.data
        self.data[: len(found.data)] = np.frombuffer(found.data, np.uint8)
        for at, to in found.pointers:
            self.data[at : at + 8] = np.frombuffer((base + to).to_bytes(8, "little"), np.uint8)
        self.rows = np.array([(base + a, base + b, c) for a, b, c in found.rows], np.int64).reshape(-1, 3)
        self.kernels = {one.name: Kernel(self, found, one, addresses[f"k{k}"]) for k, one in enumerate(found.entries)}

    def kernel(self, name: str | None = None) -> Kernel:
        """Return a kernel by its name: the full one, or the plain one of a name that Numba or C++ has mangled.

        Without a name, the only kernel of the module is returned. KeyError if there is not exactly one.
        """
        if name in self.kernels:
            return self.kernels[name]
        found = [one for one in self.kernels.values() if name is None or plain_name(one.entry.name) == name]
        if len(found) != 1:
            names = ", ".join(self.kernels) or "none"
            raise KeyError(f"[ptx] the module has {len(found)} kernels named {name!r}: its kernels are {names}.")
        return found[0]

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the size in bytes of a ``.global`` or ``.const`` variable; KeyError if absent."""
        own = [one for one in parse(self.text).variables if one.space in {"global", "const"}]
        for k, one in enumerate(own):
            if one.name == name:
                return int(self.rows[k, 0]), one.size
        raise KeyError(f"[ptx] the module has no variable {name!r}.")


def _aligned(size: int, align: int = 128) -> np.ndarray:
    """Return bytes that begin at a multiple of ``align``."""
    whole = np.zeros(size + align, np.uint8)
    start = -whole.ctypes.data % align
    return whole[start : start + size]


@functools.cache
def _runner() -> Any:
    """Return the function that runs a launch; it keeps Python's lock, so that launches do not overlap."""
    address = address_of(scheduler.run)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)


class Kernel:
    """A kernel of a module, which can be launched: ``Module.kernel`` returns it.

    >>> import numpy as np
    >>> from tenkey.testing import ptx
    >>> kernel = ptx.Module('''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry set_all(.param .u64 x, .param .f32 value) {
    ...     .reg .b64 %rd<3>;
    ...     .reg .b32 %r<3>;
    ...     ld.param.u64 %rd1, [x];
    ...     ld.param.u32 %r1, [value];
    ...     mov.u32 %r2, %tid.x;
    ...     mad.wide.u32 %rd2, %r2, 4, %rd1;
    ...     st.global.u32 [%rd2], %r1;
    ...     ret;
    ... }''').kernel("set_all")
    >>> x = np.zeros(3, np.float32)
    >>> kernel.launch(grid=1, block=3, args=[x, 1.5], order="random", seed=1)
    >>> x
    array([1.5, 1.5, 1.5], dtype=float32)
    """

    def __init__(self, module: Module, found: Compiled, entry: Entry, address: int) -> None:
        self.module = module
        self.entry = entry
        self.name = entry.name
        self.address = address
        self.local_at = entry.frame_words + (entry.frame_words & 1)
        self.frame_words = self.local_at + found.local_words + (found.local_words & 1)
        self.template = np.zeros(int(Context.SIZE) + SITE_WORDS * found.sites, np.int64)
        printing = ctypes.cast(printer(), ctypes.c_void_p).value or 0
        values = {
            Context.HOST_CALL: printing,
            Context.LOOKUP: address_of(scheduler.look),
            Context.DATA: module.data.ctypes.data, Context.DATA_SIZE: len(found.data),
            Context.DATA_ROWS: module.rows.ctypes.data, Context.DATA_ROW_COUNT: len(module.rows),
            Context.FRAME_WORDS: self.frame_words, Context.LOCAL_AT: self.local_at,
            Context.LOCAL_SIZE: 8 * found.local_words,
        }  # fmt: skip
        for at, value in values.items():
            self.template[at] = value
        self.static_shared = found.shared_size
        self.copies = found.copies

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Any = (),
        *,
        shared: int = 0,
        order: str = "up",
        seed: int = 0,
        memory: Memory | np.ndarray | None = None,
        uninitialised: str = "error",
    ) -> None:
        """Run the kernel to its end.

        Args:
            grid: blocks along each axis, one to three numbers.
            block: threads of a block along each axis.
            args: for each parameter a NumPy array (the address of its memory is passed, which the kernel may access;
                a read-only array may be read only), or a number. Or one buffer of bytes with all parameters packed.
            shared: bytes of dynamic shared memory.
            order: of the threads: "up", "down" or "random".
            seed: of the random order.
            memory: which addresses may be accessed beside the arrays in ``args``: an object as `Memory` describes, or
                an int64 array of shape (n, 3) or (n, 2), sorted by its first column.
            uninitialised: "error", or "ignore" to let kernels read shared memory that was not written, 0xFF bytes.

        Raises:
            KernelError: the kernel did something that is undefined on a GPU.
            ValueError: the launch is not possible: too many threads, wrong arguments.
        """
        (gx, gy, gz), (bx, by, bz) = _three(grid, "grid"), _three(block, "block")
        threads = bx * by * bz
        most = self.entry.largest_block or LARGEST_BLOCK
        if threads > most:
            raise ValueError(f"[ptx] {self.name}: a block has {threads} threads, the kernel allows {most} at most.")
        if order not in _ORDERS:
            raise ValueError(f"[ptx] the order of threads is 'up', 'down' or 'random', got {order!r}.")
        parameters, table = self._arguments(args, memory)
        size = self.static_shared + shared
        frames = _frames(self.frame_words * (-(-threads // 32) * 32 if self.entry.waits else 1))
        context = self.template.copy()
        shared_memory = _aligned(2 * size + 32) if size else None
        base = shared_memory.ctypes.data if shared_memory is not None else 0
        context[: Context.DATA] = parameters.ctypes.data, self.entry.parameter_size, base, size, base + size + 16
        context[Context.TABLE : Context.LOOKUP] = table.ctypes.data, len(table)
        context[Context.THREADS : Context.ORDER + 1] = (
            threads, bx, by, bz, gx, gy, gz, 0, 0, 0, gx * gy * gz, _ORDERS[order]
        )  # fmt: skip
        context[Context.STATE] = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0x7FFFFFFFFFFFFFFF
        context[Context.FRAMES] = frames.ctypes.data
        copies = np.empty(threads * MOST_COPIES * COPY_WORDS if self.copies else 0, np.int64)
        context[Context.COPIES] = copies.ctypes.data
        context[Context.DYNAMIC_SHARED] = shared
        context[Context.LAUNCH] = next(_launches)
        context[Context.STEPPING] = order == "random"
        context[Context.LENIENT] = uninitialised == "ignore"
        shadows = self._shadows(context, size, table) if self.module.races else None
        if _runner()(context.ctypes.data, self.address, self.entry.waits):
            raise explained(self, context, frames, memory)
        del shadows, copies, shared_memory  # which the code has used until here

    def _shadows(self, context: np.ndarray, size: int, table: np.ndarray) -> list[np.ndarray]:
        """Return memory for the detector of races: cells for shared memory and for each allocation that is not huge."""
        cells = [np.zeros(CELL_WORDS * count, np.int64) for count in (size, *_sizes(table))]
        places = np.array([one.ctypes.data if len(one) else 0 for one in cells[1:]], np.int64)
        context[Context.RACE] = address_of(race_detection.note)
        context[Context.SHARED_SHADOW] = cells[0].ctypes.data
        context[Context.GLOBAL_SHADOW] = places.ctypes.data
        return [*cells, places]

    def _arguments(self, args: Any, memory: Memory | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the buffer of parameters, and the table of what may be accessed."""
        size = self.entry.parameter_size
        buffer = _frames(-(-size // 8) + 2).view(np.uint8)
        rows = []
        if isinstance(args, (bytes, bytearray, memoryview)):
            if len(args) < size:
                raise ValueError(f"[ptx] {self.name}: the parameters have {size} bytes, {len(args)} were given.")
            buffer[:size] = np.frombuffer(args, np.uint8, size)
        else:
            if len(args) != len(self.entry.parameters):
                raise ValueError(
                    f"[ptx] {self.name} takes {len(self.entry.parameters)} parameters, {len(args)} were given."
                )
            for value, (at, width, kind) in zip(args, self.entry.parameters, strict=True):
                if isinstance(value, np.ndarray) and value.ndim == 0 and width == value.nbytes and width != 8:
                    value = value[()]
                if isinstance(value, np.ndarray):
                    if value.size and width == 8:
                        low, high = np.lib.array_utils.byte_bounds(value)
                        rows.append((low, high, int(value.flags.writeable)))
                    raw = value.ctypes.data.to_bytes(8, "little")
                elif isinstance(value, bytes):
                    raw = value
                else:
                    raw = np.asarray(value).astype(_DTYPES[kind]).tobytes()
                if len(raw) != width:
                    raise ValueError(f"[ptx] {self.name}: a parameter of {width} bytes got {value!r}.")
                buffer[at : at + width] = np.frombuffer(raw, np.uint8)
        table = np.array(sorted(rows), np.int64).reshape(-1, 3)
        if memory is not None:
            more = memory if isinstance(memory, np.ndarray) else memory.table()
            if more.shape[1] == 2:
                more = np.column_stack([more, np.ones(len(more), np.int64)])
            table = more if not rows else np.concatenate([table, more])
            if rows:
                table = table[np.argsort(table[:, 0], kind="stable")]
        return buffer, np.ascontiguousarray(_merged(table) if rows else table, np.int64)


def _sizes(table: np.ndarray) -> list[int]:
    return [int(end - begin) if end - begin <= _LARGEST_SHADOW else 0 for begin, end in table[:, :2].tolist()]


def _merged(table: np.ndarray) -> np.ndarray:
    """Return the table with ranges that overlap as one: two views of one array."""
    if len(table) < 2 or (table[1:, 0] >= table[:-1, 1]).all():
        return table
    rows = [table[0].tolist()]
    for begin, end, writable in table[1:].tolist():
        if begin < rows[-1][1]:
            rows[-1] = [rows[-1][0], max(end, rows[-1][1]), rows[-1][2] | writable]
        else:
            rows.append([begin, end, writable])
    return np.array(rows, np.int64)


def _frames(count: int) -> np.ndarray:
    """Return so many words of zero that begin at a multiple of 16 bytes."""
    return _aligned(8 * count, 16).view(np.int64)


def _three(sizes: int | Sequence[int], what: str) -> tuple[int, int, int]:
    given = (sizes,) if isinstance(sizes, (int, np.integer)) else tuple(sizes)
    if not 1 <= len(given) <= 3 or any(one < 1 for one in given):
        raise ValueError(f"[ptx] the {what} has one to three sizes of at least 1, got {sizes!r}.")
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z
