"""A process that runs programs, watched from outside: a crash and a hang are outcomes like others."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["LIMIT", "Worker"]

LIMIT: Final = 60.0  # seconds for one program, which takes some milliseconds, or a second if kernels are compiled
_START: Final = 600.0  # seconds to import everything
# In the workers that compile, small calls take the way of large ones, in small pieces on several threads.
_SMALL: Final = (
    ("backends.cpu.programs.program", "LARGE", 4),
    ("backends.cpu.programs.inner_loops", "HEAVY_CHUNK", 4), ("backends.cpu.programs.inner_loops", "HEAVY_LIMIT", 4),
    ("backends.cpu.programs.inner_loops", "LIGHT_CHUNK_BYTES", 64),
    ("backends.cpu.programs.inner_loops", "LIGHT_LIMIT_BYTES", 64),
    ("backends.cpu.programs.program", "LIGHT_LIMIT_BYTES", 64), ("backends.cpu.programs.program", "SMALL", 4),
    ("core.plans", "_BYTES", 33),
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
        _named(prepare)()


def _named(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _serve(connection: Connection, compiled: str, prepare: str, check: str, options: dict[str, Any], log: str) -> None:
    with Path(log).open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        os.dup2(file.fileno(), 2)  # the interpreter and the C library write their last words there
        _set_up(compiled, prepare)
        run = _named(check)
        connection.send(None)
        while (program := connection.recv()) is not None:
            connection.send(tuple(run(program, **options)))


class Worker:
    """Runs programs that are compiled in one way; ``prepare`` names a function, ``module:name``, to call at the start.

    ``check`` names the function that runs a program, and takes the options; what it returns becomes a tuple.
    """

    def __init__(
        self, compiled: str, prepare: str = "", limit: float = LIMIT, check: str = "tools.soak.checking:check",
        **options: Any,
    ) -> None:  # fmt: skip
        self.compiled, self.prepare, self.limit, self.check, self.options = compiled, prepare, limit, check, options
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._log: IO[str] | None = None

    def _start(self) -> Connection:
        self._log = tempfile.NamedTemporaryFile("r", suffix=".log", encoding="utf-8")  # noqa: SIM115 -- see close
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        arguments = (other, self.compiled, self.prepare, self.check, self.options, self._log.name)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()
        if not self._connection.poll(_START):
            self.close()
            raise TimeoutError(f"the worker did not start within {_START:g} s.")
        self._connection.recv()
        return self._connection

    def run(self, program: object) -> tuple[Any, ...]:
        """Return what the check returns: the kind of the outcome, its detail, and more of its own."""
        connection = self._connection or self._start()
        connection.send(program)
        try:
            if connection.poll(self.limit):
                outcome: tuple[Any, ...] = connection.recv()
                return outcome
        except (EOFError, ConnectionResetError):
            return "crash", self._end()
        assert self._process is not None
        os.kill(self._process.pid or 0, signal.SIGABRT)  # so that it writes where it is
        return "hang", f"no result within {self.limit:g} s\n{self._end()}"

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
