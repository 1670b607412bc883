"""The command line of the package: see its description."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from .checking import FAILURES, Outcome, has_torch
from .programs import Program, generate, used
from .shrinking import script, shrink
from .worker import Worker

__all__ = ["Soak", "main"]

_MOST: Final = 20  # failures that are reduced and printed; others are counted
_CHECKS: Final = {"crash": 60, "hang": 12}  # programs tried to reduce one; each that fails needs a new process


class Soak:
    """One run: workers, counts and failures."""

    def __init__(
        self, seed: int, prepare: str = "", torch: bool | None = None, checks: int = 500, device: str = "cpu"
    ) -> None:
        self.seed, self.prepare, self.torch, self.checks, self.device = seed, prepare, torch, checks, device
        self.outcomes: Counter[str] = Counter()
        self.modes: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seen: set[tuple[str, ...]] = set()
        self._worker: Worker | None = None

    def _worker_for(self, compiled: str) -> Worker:
        if self._worker is None or self._worker.compiled != compiled:
            self.close()
            self._worker = Worker(compiled, self.prepare, self.torch)
        return self._worker

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def outcome(self, program: Program) -> Outcome:
        """Run one program in the worker for its way of compiling."""
        kind, detail, expected = self._worker_for(program.compiled).run(program)
        return Outcome(kind, detail, expected)

    def run(self, number: int) -> Outcome:
        """Draw and run one program; reduce and print it if it fails."""
        program = generate(self.seed, number)
        if self.device != "cpu":  # kernels of devices are compiled in one way, and the emulator compiles, too
            program = program._replace(device=self.device, compiled="on")
        outcome = self.outcome(program)
        self.outcomes[outcome.kind] += 1
        self.modes[f"{program.mode}, {program.compiled}"] += 1
        self.operators.update(used(program))
        if outcome.kind in {"refused here", "refused by the reference", "known difference"}:
            self.refusals[f"{outcome.kind}: {outcome.detail}"] += 1
        if outcome.kind in FAILURES:
            self._fail(number, program, outcome)
        return outcome

    def _fail(self, number: int, program: Program, outcome: Outcome) -> None:
        if len(self.failures) >= _MOST:
            self.failures.append("")
            return
        print(f"\nprogram {number} of seed {self.seed}: {outcome.kind}; it is being reduced", flush=True)
        self.close()  # a new process shows whether the failure depends on the programs before
        again = self.outcome(program)
        head = f"program {number} of seed {self.seed}: {outcome.kind}"
        if again.kind != outcome.kind:
            text = f"{head}, but {again.kind} in a new process\n{outcome.detail}\n{script(program, outcome)}"
        else:
            program = shrink(
                program, outcome.kind, self.outcome, min(self.checks, _CHECKS.get(outcome.kind, self.checks))
            )
            last = self.outcome(program)
            same = (last.kind, program.mode, *used(program))
            if same in self.seen:
                self.failures.append("")
                return
            self.seen.add(same)
            text = f"{head}\n{last.detail}\n\n{script(program, last)}"
        self.failures.append(text)
        print(f"\n---- {text}\n----", flush=True)

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
    parser.add_argument("--numpy", action="store_true", help="compare with NumPy even if PyTorch is installed")
    parser.add_argument("--device", default="cpu", help="where the programs run: cuda is emulated without a GPU")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    torch = False if options.numpy else None
    reference = "PyTorch" if torch is None and has_torch() else "NumPy and finite differences"
    print(f"soak: seed {seed}, compared with {reference}", flush=True)
    soak = Soak(seed, torch=torch, device=options.device)
    end = time.monotonic() + 60 * options.minutes
    try:
        if options.program is not None:
            print(soak.run(options.program).kind)
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
