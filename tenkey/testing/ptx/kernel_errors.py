"""What an execution finds, and what cannot be executed."""

from __future__ import annotations

__all__ = ["KernelError", "PtxSyntaxError", "UnsupportedError"]


class PtxSyntaxError(ValueError):
    """The text is not PTX."""


class UnsupportedError(NotImplementedError):
    """A module contains an instruction, or a form of one, that the executor does not have."""


class KernelError(RuntimeError):
    """A kernel did what is undefined on a GPU: a bad access, a barrier that not all threads reach, a race.

    The attributes say where: ``kernel`` is the kernel's name, ``kind`` what happened (a word from the table in
    ``docs/ptx_executor.md``), ``thread`` and ``block`` are three indices each, ``file`` and ``line`` are those of the
    source, from the ``.loc`` directives that compilers write with ``lineinfo``, or None without them. ``ptx_line`` and
    ``instruction`` are those of the PTX, and ``address`` is the address of an access of ``nbytes``: within its window
    for shared and local memory, otherwise absolute. ``other`` is the place of the other access of a race: a file and a
    line.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str,
        kind: str,
        thread: tuple[int, int, int] | None = None,
        block: tuple[int, int, int] | None = None,
        line: int | None = None,
        file: str | None = None,
        address: int | None = None,
        nbytes: int = 0,
        ptx_line: int | None = None,
        instruction: str | None = None,
        other: tuple[str | None, int | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.kind = kind
        self.thread = thread
        self.block = block
        self.line = line
        self.file = file
        self.address = address
        self.nbytes = nbytes
        self.ptx_line = ptx_line
        self.instruction = instruction
        self.other = other
