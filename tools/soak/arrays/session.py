"""A run of programs over arrays, with its closing line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from ..session import Session
from ..worker import Worker
from .drawing import generate
from .program import FAILURES, ArrayProgram, Result, script, smaller
from .running import small_calls

__all__ = ["ArraySession"]

_LIMIT = 120.0  # seconds for one program, which takes some milliseconds


class ArraySession(Session[ArrayProgram, Result]):
    """Programs of `tools.soak.arrays`; `prepare` names a function to call in the worker, `module:name`."""

    bad = FAILURES

    def __init__(self, seed: int, prepare: str = "", checks: int = 200, limit: float = _LIMIT) -> None:
        super().__init__(seed, checks)
        self.prepare, self.limit = prepare, limit
        self.statements = self.raised = self.arrived = 0

    def draw(self, number: int) -> ArrayProgram:
        """Return the program of this number."""
        return generate(self.seed, number)

    def new_worker(self, program: ArrayProgram) -> Worker:
        """Return a worker that compiles or not as this process does."""
        compiled = os.environ.get("TENKEY_COMPILE", "on")
        return Worker(compiled, self.prepare, self.limit, check="tools.soak.arrays.running:check")

    def fits(self, worker: Worker, program: ArrayProgram) -> bool:
        """Return True: all programs run in one worker."""
        return True

    def result(self, found: tuple[Any, ...]) -> Result:
        """Return what a worker sent as a result."""
        return Result(*found)

    def smaller(self, program: ArrayProgram) -> Iterable[ArrayProgram]:
        """Return programs with fewer statements."""
        return smaller(program)

    def script(self, program: ArrayProgram, result: Result) -> str:
        """Return a program that shows a failure."""
        return script(program, result.detail)

    def features(self, program: ArrayProgram, result: Result) -> tuple[str, ...]:
        """Return the statement that failed, without the numbers in it."""
        return (re.sub(r"\d+", "#", result.detail.partition("\n")[0]),)

    def count(self, program: ArrayProgram, result: Result) -> None:
        """Count statements and interrupts."""
        self.statements += result.statements
        self.raised += result.raised
        self.arrived += result.arrived

    def report(self) -> None:
        """Print the outcomes and the closing line."""
        print(", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items())))
        crashes = self.outcomes["crash"] + self.outcomes["hang"]
        differences = sum(self.outcomes[name] for name in FAILURES if name.startswith(("wrong", "internal")))
        print(
            f"{sum(self.outcomes.values())} programs, {self.statements} statements, {self.raised} interrupts raised, "
            f"{self.arrived} arrived, {crashes} crashes and hangs, {differences} differences; {small_calls()}; "
            f"seed {self.seed}"
        )
