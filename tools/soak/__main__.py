"""The command line of the package: see its description."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .arrays.session import ArraySession
from .checking import FAILURES, Outcome, has_torch
from .programs import Program, generate, used
from .session import Session
from .shrinking import script, smaller
from .worker import Worker

__all__ = ["Soak", "main"]


class Soak(Session[Program, Outcome]):
    """Programs of differentiable operators; `prepare` names a function to call in the workers, `module:name`."""

    bad = FAILURES

    def __init__(
        self, seed: int, prepare: str = "", torch: bool | None = None, checks: int = 500, device: str = "cpu"
    ) -> None:
        super().__init__(seed, checks)
        self.prepare, self.torch, self.device = prepare, torch, device
        self.modes: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def draw(self, number: int) -> Program:
        """Return the program of this number, for the device of the run."""
        program = generate(self.seed, number)
        if self.device != "cpu":  # kernels of devices are compiled in one way, and the emulator compiles, too
            program = program._replace(device=self.device, compiled="on")
        return program

    def new_worker(self, program: Program) -> Worker:
        """Return a worker for the program's way of compiling."""
        return Worker(program.compiled, self.prepare, torch=self.torch)

    def fits(self, worker: Worker, program: Program) -> bool:
        """Return whether a worker compiles as the program asks."""
        return worker.compiled == program.compiled

    def result(self, found: tuple[Any, ...]) -> Outcome:
        """Return what a worker sent as an outcome."""
        return Outcome(*found)

    def smaller(self, program: Program) -> Iterable[Program]:
        """Return smaller programs to try."""
        return smaller(program)

    def script(self, program: Program, result: Outcome) -> str:
        """Return a program that shows a failure."""
        return script(program, result)

    def features(self, program: Program, result: Outcome) -> tuple[str, ...]:
        """Return the mode and the operators of a program."""
        return (program.mode, *used(program))

    def count(self, program: Program, result: Outcome) -> None:
        """Count modes, operators and refusals."""
        self.modes[f"{program.mode}, {program.compiled}"] += 1
        self.operators.update(used(program))
        if result.kind in {"refused here", "refused by the reference", "known difference"}:
            self.refusals[f"{result.kind}: {result.detail}"] += 1

    def report(self) -> None:
        """Print what ran, what was skipped, and where the libraries disagree on what they refuse."""
        total = sum(self.outcomes.values())
        print(f"{total} programs, {len(self.operators)} operators in {sum(self.operators.values())} calls")
        for title, counts in (("outcomes", self.outcomes), ("ways to run", self.modes)):
            print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
        for text, count in self.refusals.most_common(40):
            print(f"{count:6d} {text}")
        print(f"{len(self.failures)} failures (seed {self.seed})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description="Random programs against a reference.")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to run (default 2)")
    parser.add_argument("--seed", type=int, help="the seed of an earlier run; a fresh one otherwise")
    parser.add_argument("--program", type=int, help="run only the program of this number")
    parser.add_argument("--first", type=int, default=0, help="begin with the program of this number")
    parser.add_argument("--programs", type=int, help="stop after this number of programs")
    parser.add_argument("--numpy", action="store_true", help="programs over arrays, some hostile, beside NumPy")
    parser.add_argument("--without-torch", action="store_true", help="do not compare with PyTorch if it is installed")
    parser.add_argument("--device", default="cpu", help="where the programs run: cuda is emulated without a GPU")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    torch = False if options.without_torch else None
    soak: Session[Any, Any] = ArraySession(seed) if options.numpy else Soak(seed, torch=torch, device=options.device)
    finite = "NumPy and finite differences"
    reference = "NumPy" if options.numpy else "PyTorch" if torch is None and has_torch() else finite
    print(f"soak: seed {seed}, compared with {reference}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    try:
        if options.program is not None:
            print(soak.run(options.program)[0])
        number = options.first
        last = None if options.programs is None else number + options.programs
        while options.program is None and time.monotonic() < end and number != last:
            soak.run(number)
            number += 1
    finally:
        soak.close()
    soak.report()
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
