"""A process that runs programs, watched from outside: a crash and a hang are outcomes like others."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Final

from .programs import Program

__all__ = ["LIMIT", "Worker"]

LIMIT: Final = 60.0  # seconds for one program, which takes some milliseconds, or a second if kernels are compiled
_START: Final = 120.0  # seconds to import everything
# In the workers that compile, small calls take the way of large ones, in small pieces on several threads.
_SMALL: Final = (
    ("backends.cpu.programs.program", "LARGE", 4),
    ("backends.cpu.programs.inner_loops", "HEAVY_CHUNK", 4), ("backends.cpu.programs.inner_loops", "HEAVY_LIMIT", 4),
    ("backends.cpu.programs.inner_loops", "LIGHT_CHUNK_BYTES", 64),
    ("backends.cpu.programs.inner_loops", "LIGHT_LIMIT_BYTES", 64),
    ("backends.cpu.programs.program", "LIGHT_LIMIT_BYTES", 64),
    ("backends.cpu.kernels", "_MUCH", 4), ("backends.cpu.programs.program", "_CALLS_BEFORE_COMPILING", 1),
    ("ops.builtin.reductions.reduction", "_SMALL", 4), ("ops.builtin.elementwise.limiting", "_SMALL", 4),
    ("ops.builtin.sorting.sort", "_SMALL", 4),
)  # fmt: skip


def _set_up(compiled: str, prepare: str) -> None:
    os.environ["TENKEY_COMPILE"] = compiled
    if compiled == "all":
        for module, name, value in _SMALL:
            space = vars(importlib.import_module(f"tenkey.{module}"))
            if name not in space:
                raise AttributeError(f"tenkey.{module} has no constant {name}: correct tools/soak/worker.py.")
            space[name] = value
    if prepare:
        module, _, function = prepare.partition(":")
        getattr(importlib.import_module(module), function)()


def _serve(connection: Connection, compiled: str, prepare: str, torch: bool | None, log: str) -> None:
    with Path(log).open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        _set_up(compiled, prepare)
        from .checking import check, has_torch

        torch = has_torch() if torch is None else torch
        connection.send(None)
        while (program := connection.recv()) is not None:
            connection.send(tuple(check(program, torch=torch)))


class Worker:
    """Runs programs that are compiled in one way; ``prepare`` names a function, ``module:name``, to call at the start.

    ``torch`` chooses the reference: True, False, or None for PyTorch if it is installed.
    """

    def __init__(self, compiled: str, prepare: str = "", torch: bool | None = None, limit: float = LIMIT) -> None:
        self.compiled, self.prepare, self.torch, self.limit = compiled, prepare, torch, limit
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._log: IO[str] | None = None

    def _start(self) -> Connection:
        self._log = tempfile.NamedTemporaryFile("r", suffix=".log", encoding="utf-8")  # noqa: SIM115 -- see close
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        arguments = (other, self.compiled, self.prepare, self.torch, self._log.name)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()
        if not self._connection.poll(_START):
            self.close()
            raise TimeoutError(f"the worker did not start within {_START:g} s.")
        self._connection.recv()
        return self._connection

    def run(self, program: Program) -> tuple[str, str, tuple[object, ...]]:
        """Return the kind, the detail and the expected results of a program's outcome."""
        connection = self._connection or self._start()
        connection.send(program)
        try:
            if connection.poll(self.limit):
                outcome: tuple[str, str, tuple[object, ...]] = connection.recv()
                return outcome
        except (EOFError, ConnectionResetError):
            return "crash", self._end(), ()
        self.close()
        return "hang", f"no result within {self.limit:g} s", ()

    def _end(self) -> str:
        """Return how the process ended, and where."""
        assert self._process is not None
        assert self._log is not None
        self._process.join(10)
        code = self._process.exitcode
        text = f"the process ended with status {code}\n{self._log.read()[:4000]}"
        self.close()
        return text

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        if self._log is not None:
            self._log.close()
        self._process = self._connection = self._log = None
