"""Apply a sample of mutants to the package, one at a time, and run the tests that execute the changed lines.

    python -m tools.mutation --record                     # once: which tests execute which lines (half an hour)
    python -m tools.mutation --count 200 --seed 1         # 200 mutants of the whole package (an hour)
    python -m tools.mutation tenkey/core tenkey/ops       # all mutants of files and folders (days)
    python -m tools.mutation tenkey/core/tree.py:57       # those of a line

A mutant is *found* if a test fails or does not end, and the test passes without it. With the compiled core, a mutant
gets a second run in Python (``TENKEY_COMPILED=0``), and one of the core's own modules an extension of its own. The exit
status is 1 if one survives. Look at each survivor: write the test that fails with it, or see that it changes nothing
that a caller can observe. Mutants are applied in a copy of the tree, with a cache of kernels of its own. Record again
when the lines of the package have moved.

Maintained tools do not fit: mutmut 3 wraps functions, but declarations here are statements of modules, and the language
of loops reads the source of its functions; cosmic-ray edits the working tree and runs one command for all mutants.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from unittest import mock

import platformdirs

from ..compiled_core import FOLDER, build
from ..fault_injection import ROOT, Outcome, copy_tree, run_tests
from .mutants import Mutant, defined, mutants
from .recording import Record, read

__all__ = ["chosen_tests", "main", "sample", "try_mutant"]

_RECORDED: Final = (
    "tiny", "core", "dispatch", "autograd", "ops", "library", "transforms", "functions", "random", "printers",
    "backends",
)  # fmt: skip
_WIDER: Final = 5  # factor on the time limit of lines whose tests are unknown
_ASPECTS: Final = ("reference", "gradients", "errors", "meta", "vmap", "decompositions")
_SWEEPS: Final = [f"tests/operators/test_{name}.py" for name in _ASPECTS]


def sample(root: Path, places: Sequence[str], without: Sequence[str], count: int, seed: int) -> Iterator[Mutant]:
    """Yield ``count`` mutants of files, folders and lines (``FILE:LINE``), in an order that depends on the seed."""
    found: list[Mutant] = []
    for place in places:
        name, _, line = place.partition(":")
        for file in sorted((root / name).rglob("*.py")) if (root / name).is_dir() else [root / name]:
            path = file.relative_to(root)
            if not any(path.is_relative_to(other) for other in without):
                of_file = mutants(path.as_posix(), file.read_text(encoding="utf-8"))
                found += [mutant for mutant in of_file if line in ("", str(mutant.line))]
    random.Random(seed).shuffle(found)
    usable = (mutant for mutant in found if mutant.applied((root / mutant.path).read_text(encoding="utf-8")))
    return itertools.islice(usable, count)


def chosen_tests(mutant: Mutant, record: Record, root: Path, limit: float) -> list[list[str]]:
    """Return the arguments for the runs of pytest that a mutant needs, the most specific first.

    They are the sweeps over its operator, or those of its file; the examples and the tests that are named after its
    file; and the test files that execute its line, or those of its part if that is not known, the shortest first, as
    many as take ``limit`` seconds.
    """
    runs = []
    text = (root / mutant.path).read_text(encoding="utf-8")
    if mutant.path.startswith("tenkey/ops/builtin/"):
        blocks = [s for s in ast.parse(text).body if getattr(s, "decorator_list", None) or hasattr(s, "value")]
        names = [name for name in map(defined, blocks) if name and not name.startswith("_")]
        wanted = [mutant.owner] if mutant.owner in names else names
        runs.append([*_SWEEPS, "-k", " or ".join(f"{name}]" for name in wanted)])
    lines = record.lines.get(mutant.path, {})
    covering = [*(lines.get(mutant.line) or lines.get(mutant.statement) or [])]
    part = f"tests/{Path(mutant.path).parts[1]}/"
    if len(covering) < 2:  # loops are translated, not executed, and constants are made once: any test may notice
        covering += [test for test in record.seconds if test.startswith(part) and test not in covering]
        limit *= _WIDER
    named = [test for test in record.seconds if Path(mutant.path).stem.strip("_") in test]
    runs.append([])
    for tests in (named, [test for test in covering if test not in named]):
        left = limit
        for test in sorted(filter(lambda test: (root / test).exists(), tests), key=record.seconds.__getitem__):
            left -= record.seconds[test]
            runs[-1] += [test] if left > 0 else []
        runs.append([])
    if runs[-2] and ">>> " in text:
        runs[-2].append(mutant.path)  # its examples, after a test: collected alone, the file would be imported twice
    return [run for run in runs if run]


def try_mutant(mutant: Mutant, runs: list[list[str]], root: Path, limit: float) -> Outcome:
    """Apply a mutant to the tree below ``root``, run its tests until one finds it, and take the mutant back."""
    path, outcome = root / mutant.path, Outcome(False, "no test is known", selects=False)
    text = path.read_text(encoding="utf-8")
    extensions = {file: file.read_bytes() for file in (root / FOLDER).glob("*.so")}
    of_core = bool(extensions) and Path(mutant.path).parent == FOLDER
    try:
        _write(path, mutant.applied(text) or "")
        if of_core:
            build(root)
        for small_calls in ("1", "0") if extensions and not of_core else ("1",):
            for run in runs:
                with mock.patch.dict("os.environ", {"TENKEY_COMPILED": small_calls}):
                    outcome = _run(run, path, None if of_core else text, root, limit)
                if outcome.failed:
                    return outcome
    except RuntimeError as error:
        return Outcome(True, str(error).partition("\n")[0])
    finally:
        _write(path, text)
        for file, content in extensions.items() if of_core else ():
            file.write_bytes(content)
    return outcome


def _run(run: list[str], path: Path, text: str | None, root: Path, limit: float) -> Outcome:
    """Run tests until one fails that passes with the file as it was, which is not asked if ``text`` is None."""
    options = ["-x"]
    while True:
        outcome = run_tests(root, run, *options, limit=limit)
        word, _, failure = outcome.says.partition(" ")
        if word not in ("FAILED", "ERROR") or text is None:
            return outcome
        test, edited = failure.split(" - ")[0], path.read_text(encoding="utf-8")
        _write(path, text)
        without = run_tests(root, [test], limit=limit)
        _write(path, edited)
        if not without.failed:
            return outcome
        options += ["--deselect", test]


def _write(path: Path, text: str) -> None:
    modified = path.stat().st_mtime + 2  # compiled files go by seconds and size
    path.write_text(text, encoding="utf-8")
    os.utime(path, (modified, modified))


def record_tests(tree: Path, folder: Path) -> None:
    """Record the fast tier of a tree, folder by folder: a run that is cut short leaves what it has done."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ.update(TENKEY_MUTATION_RECORD=str(folder), TENKEY_CACHE_DIR=str(tree.parent))
    for name in _RECORDED:  # without those that interrupt each function, the recording ones too
        outcome = run_tests(
            tree, [f"tests/{name}"], "-p", "tools.mutation.recording", "-k", "not interrupt", limit=7200.0
        )
        print(f"tests/{name}: {outcome.says}", flush=True)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Record, list or try mutants of the tree below ``root``; return 1 if one survives, otherwise 0."""
    parser = argparse.ArgumentParser(prog="tools.mutation", description="Apply mutants and run the tests they concern.")
    parser.add_argument("places", nargs="*", default=["tenkey"], help="folders, files, or FILE:LINE")
    parser.add_argument("--without", nargs="*", default=[], metavar="PATH", help="files and folders left out")
    parser.add_argument("--count", type=int, default=None, help="how many mutants (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of its order (default 0)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of recorded tests for each mutant (default 60)")
    parser.add_argument("--record", action="store_true", help="record which tests execute which lines and stop")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("tenkey") / "mutation")
    options = parser.parse_args(arguments)
    chosen = list(sample(root, options.places, options.without, options.count, options.seed))
    survivors = []
    with tempfile.TemporaryDirectory(prefix="tenkey-mutation-") as folder:
        tree = copy_tree(root, Path(folder) / "tree")
        if options.record:
            record_tests(tree, options.folder / "record")
            return 0
        record = read(options.folder / "record")
        if not record.seconds:
            parser.error("there is no record of the tests: run `python -m tools.mutation --record` first.")
        os.environ["TENKEY_CACHE_DIR"] = str(options.folder / "kernels")
        for mutant in chosen:
            begin = time.monotonic()
            runs = chosen_tests(mutant, record, root, options.seconds)
            outcome = try_mutant(mutant, runs, tree, 2 * _WIDER * options.seconds)
            if not outcome.failed:
                survivors.append(mutant)
            word = "found" if outcome.failed else "SURVIVED"
            print(f"{word:8} {time.monotonic() - begin:5.0f} s  {mutant}\n{'':18}{outcome.says}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants found", *survivors, sep="\n  survived: ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
