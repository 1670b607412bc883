"""Errors of kernels in words: which thread did what, where, and why it is wrong."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any, Final

import numpy as np

from .context_layout import KINDS, Context, Frame, Kind, Status
from .device_printing import text_at
from .kernel_errors import KernelError
from .ptx_text import SIZES, plain_name, source_place

__all__ = ["explained"]

_SPACE: Final = {Kind.LOCAL: "the thread's local memory", Kind.PARAMETER: "the parameters"}


def explained(kernel: Any, context: np.ndarray, frames: np.ndarray, memory: Any) -> KernelError:
    """Return the error that the words of the context describe."""
    kind = Kind(int(context[Context.ERROR]))
    line = int(context[Context.ERROR_LINE])
    thread = int(context[Context.ERROR_THREAD])
    details = ""
    if kind is Kind.DIVERGENT:
        kind, thread, line, details = _stuck(kernel, context, frames, thread)
    text = kernel.module.text.split("\n")
    instruction = text[line - 1].strip() if 0 < line <= len(text) else ""
    file, source_line = source_place(kernel.module.text, line)
    name = plain_name(kernel.name)
    index = _index(thread, context[Context.NTID : Context.NTID + 3])
    block = _index(int(context[Context.ERROR_BLOCK]), context[Context.NCTAID : Context.NCTAID + 3])
    address = int(np.uint64(context[Context.ERROR_ADDRESS]))
    other = None
    if kind is Kind.RACE:
        line_of_other = int(context[Context.ERROR_OTHER])
        other = source_place(kernel.module.text, line_of_other)
        index_of_other = _index(int(context[Context.ERROR_OTHER_THREAD]), context[Context.NTID : Context.NTID + 3])
        size = int(context[Context.ERROR_SIZE])
        details = (
            f"accesses {size} bytes at {_spot(address, context)}, which thread {index_of_other} accesses at "
            f"{_place(kernel, line_of_other)} without a barrier between them"
        )
    what = details or _described(kind, address, instruction, context, memory)
    place = f"{file}:{source_line}" if source_line is not None else f"PTX line {line}"
    message = f"{name}: thread {index} of block {block} {what}, at {place}: {instruction}"
    return KernelError(
        message, kernel=name, kind=KINDS[kind], thread=index, block=block, line=source_line, file=file, address=address,
        nbytes=int(context[Context.ERROR_SIZE]) or _size(instruction),
        ptx_line=line, instruction=instruction, other=other,
    )  # fmt: skip


def _spot(address: int, context: np.ndarray) -> str:
    offset = address - int(context[Context.SHARED])
    if 0 <= offset < int(context[Context.SHARED_SIZE]):
        return f"offset {offset} of shared memory"
    return f"address {address:#x}"


def _index(linear: int, sizes: np.ndarray) -> tuple[int, int, int]:
    x, y = int(sizes[0]), int(sizes[1])
    return linear % x, linear // x % y, linear // (x * y)


def _described(kind: Kind, address: int, instruction: str, context: np.ndarray, memory: Any) -> str:
    """Return what the thread does."""
    size = int(context[Context.ERROR_SIZE]) or _size(instruction)
    opcode = instruction.split("@", 1)[-1].split(None, 1)[-1] if instruction.startswith("@") else instruction
    verb = "reads" if opcode.startswith("ld") else "writes" if opcode.startswith("st") else "accesses"
    access = f"{verb} {size} bytes" if size else verb
    match kind:
        case Kind.GLOBAL | Kind.DATA:
            known = memory.describe(address) if hasattr(memory, "describe") else None
            return f"{access} at address {address:#x}, which {known or _nearest(address, context)}"
        case Kind.SHARED:
            return f"{access} at offset {address} of shared memory, which has {int(context[Context.SHARED_SIZE])} bytes"
        case Kind.LOCAL | Kind.PARAMETER:
            return f"{access} at offset {address}, outside {_SPACE[kind]}"
        case Kind.MISALIGNED:
            return f"{access} at the misaligned address {address:#x}: it is not a multiple of the size"
        case Kind.READ_ONLY:
            return f"writes at address {address:#x}, which may only be read"
        case Kind.UNINITIALISED:
            return f"{access} at offset {address} of shared memory, where nothing was written"
        case Kind.TRAP:
            return "reaches a trap instruction"
        case Kind.ENDLESS:
            return "loops without an end, or waits for a thread that does not come"
        case Kind.NOT_MEMBER:
            return f"takes part in a warp operation whose mask does not name the lane {address}"
        case Kind.ASSERTION:
            return f"fails the assertion {text_at(address)!r}"
        case Kind.CALL:
            return "jumps or calls to what is not in the table"
        case Kind.BARRIER:
            return "names a barrier that does not exist, or a number of threads that is not a multiple of 32"
        case Kind.COPIES:
            return "has more asynchronous copies under way than the executor keeps"
    return KINDS[kind]


def _size(instruction: str) -> int:
    """Return how many bytes an instruction accesses, 0 if it does not say."""
    words = instruction.split()
    opcode = next((word for word in words if not word.startswith("@")), "")
    parts = opcode.split(".")
    count = next((int(part[1:]) for part in parts if part in {"v2", "v4", "v8"}), 1)
    return SIZES.get(parts[-1].strip(), 0) * count


def _nearest(address: int, context: np.ndarray) -> str:
    """Return how an address relates to the allocation before or after it."""
    count = int(context[Context.TABLE_SIZE])
    if not count:
        return "lies in no allocation: the kernel has none"
    rows = np.array((ctypes.c_int64 * (3 * count)).from_address(int(context[Context.TABLE]))).reshape(-1, 3)
    before = rows[rows[:, 0] <= address]
    if len(before) and address - before[-1, 1] < 1 << 20:
        begin, end = before[-1, :2].tolist()
        if address >= end:
            return f"lies {address - end} bytes after the end of an allocation of {end - begin} bytes"
        return f"ends beyond an allocation of {end - begin} bytes"
    after = rows[rows[:, 0] > address]
    if len(after) and after[0, 0] - address < 1 << 20:
        return f"lies {int(after[0, 0]) - address} bytes before an allocation of {int(after[0, 1] - after[0, 0])} bytes"
    return "lies in no allocation"


def _stuck(kernel: Any, context: np.ndarray, frames: np.ndarray, thread: int) -> tuple[Kind, int, int, str]:
    """Return why threads wait for ever: the kind, one such thread, its line and a description."""
    count = int(context[Context.THREADS])
    table = frames[: count * kernel.frame_words].reshape(count, kernel.frame_words)
    status, lines = table[:, Frame.STATUS], table[:, Frame.LINE]
    if thread < 0:
        in_warp = np.flatnonzero(status == Status.WARP)
        if len(in_warp):
            first = int(in_warp[0])
            return Kind.MISSING, first, int(lines[first]), _missing(kernel, table, first)
    waiting = np.flatnonzero(status == Status.BARRIER)
    first = thread if thread >= 0 else int(waiting[0])
    others: Counter[str] = Counter()
    for other in range(count):
        if status[other] == Status.ENDED:
            others["have ended"] += 1
        elif lines[other] != lines[first] and status[other] == Status.BARRIER:
            others[f"wait at another one ({_place(kernel, int(lines[other]))})"] += 1
    why = " and ".join(f"{number} threads {what}" for what, number in others.items())
    details = f"waits at a barrier that not all threads reach: {why or 'too few come'}"
    return Kind.DIVERGENT, first, int(lines[first]), details


def _missing(kernel: Any, table: np.ndarray, first: int) -> str:
    mask = int(table[first, Frame.WORD])
    warp = first & ~31
    why: dict[int, str] = {}
    for lane in range(32):
        if not mask >> lane & 1 or warp + lane >= len(table):
            continue
        other = table[warp + lane]
        if other[Frame.STATUS] == Status.ENDED:
            why[lane] = "has ended"
        elif other[Frame.PC] != table[first, Frame.PC] or other[Frame.STATUS] != Status.WARP:
            why[lane] = f"waits at {_place(kernel, int(other[Frame.LINE]))}"
        elif other[Frame.WORD] != mask:
            why[lane] = f"names the mask {int(other[Frame.WORD]):#010x}"
    lane, reason = next(iter(why.items()), (0, "does not come"))
    more = f", as do {len(why) - 1} more lanes" if len(why) > 1 else ""
    return f"waits in an operation of its warp, with the mask {mask:#010x}, for lane {lane}, which {reason}{more}"


def _place(kernel: Any, line: int) -> str:
    file, source = source_place(kernel.module.text, line)
    return f"{file}:{source}" if source is not None else f"PTX line {line}"
