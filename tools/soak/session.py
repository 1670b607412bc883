"""One run of a kind of programs: workers, counts, and failures that are reduced and printed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from .shrinking import shrink
from .worker import Worker

__all__ = ["Session"]

_P = TypeVar("_P")
_R = TypeVar("_R", bound=tuple[Any, ...])  # the kind of the outcome, its detail, and more
_MOST: Final = 20  # failures that are reduced and printed; others are counted
_CHECKS: Final = {"crash": 60, "hang": 12}  # programs tried to reduce one; each that fails needs a new process


class Session(ABC, Generic[_P, _R]):
    """Draws programs by number, runs them in a worker and reduces those whose outcome is one of `bad`."""

    bad: tuple[str, ...]

    def __init__(self, seed: int, checks: int = 500) -> None:
        self.seed, self.checks = seed, checks
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seen: set[tuple[str, ...]] = set()
        self._worker: Worker | None = None

    @abstractmethod
    def draw(self, number: int) -> _P:
        """Return the program of this number."""

    @abstractmethod
    def new_worker(self, program: _P) -> Worker:
        """Return a worker for this program and those like it."""

    @abstractmethod
    def fits(self, worker: Worker, program: _P) -> bool:
        """Return whether a worker runs programs like this one."""

    @abstractmethod
    def result(self, found: tuple[Any, ...]) -> _R:
        """Return the outcome that a worker sent."""

    @abstractmethod
    def smaller(self, program: _P) -> Iterable[_P]:
        """Return smaller programs to try."""

    @abstractmethod
    def script(self, program: _P, result: _R) -> str:
        """Return a program that shows a failure and needs nothing of this tool."""

    @abstractmethod
    def features(self, program: _P, result: _R) -> tuple[str, ...]:
        """Return what two failures with one cause have in common."""

    @abstractmethod
    def count(self, program: _P, result: _R) -> None:
        """Note what ran, for the report."""

    @abstractmethod
    def report(self) -> None:
        """Print what ran."""

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def outcome(self, program: _P) -> _R:
        """Run one program in a worker."""
        if self._worker is None or not self.fits(self._worker, program):
            self.close()
            self._worker = self.new_worker(program)
        return self.result(self._worker.run(program))

    def run(self, number: int) -> _R:
        """Draw and run one program; reduce and print it if it fails."""
        program = self.draw(number)
        result = self.outcome(program)
        self.outcomes[result[0]] += 1
        self.count(program, result)
        if result[0] in self.bad:
            self._fail(number, program, result)
        return result

    def _fail(self, number: int, program: _P, result: _R) -> None:
        if len(self.failures) >= _MOST:
            self.failures.append("")
            return
        kind = result[0]
        print(f"\nprogram {number} of seed {self.seed}: {kind}; it is being reduced", flush=True)
        self.close()  # a new process shows whether the failure depends on the programs before
        again = self.outcome(program)
        head = f"program {number} of seed {self.seed}: {kind}"
        if again[0] != kind:
            text = f"{head}, but {again[0]} in a new process\n{result[1]}\n{self.script(program, result)}"
        else:
            most = min(self.checks, _CHECKS.get(kind, self.checks))
            program = shrink(program, kind, self.outcome, most, self.smaller)
            last = self.outcome(program)
            same = (last[0], *self.features(program, last))
            if same in self.seen:
                self.failures.append("")
                return
            self.seen.add(same)
            text = f"{head}\n{last[1]}\n\n{self.script(program, last)}"
        self.failures.append(text)
        print(f"\n---- {text}\n----", flush=True)
