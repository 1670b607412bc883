"""A plug-in of pytest that records which test files execute which lines of the package, and how long they take.

``python -m tools.mutation --record`` uses it. Files with failing tests are left out. Lines that programs in processes
of their own execute are not recorded.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest

__all__ = ["Record", "read"]


class Record(NamedTuple):
    """What test files take, and which of them execute each line of a file."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]


def read(folder: Path) -> Record:
    """Join what runs of pytest have recorded, each in a file."""
    record = Record({}, {})
    for file in sorted(folder.glob("*.json")):
        part = json.loads(file.read_text(encoding="utf-8"))
        record.seconds.update(part["seconds"])
        for path, lines in part["lines"].items():
            for line, tests in lines.items():
                record.lines.setdefault(path, {}).setdefault(int(line), []).extend(tests)
    return record


class _Recorder:
    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.file = root, folder, ""
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage = coverage.Coverage(data_file=None, include=[f"{root}/tenkey/*"])
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = nodeid.partition("::")[0]
        if file != self.file:
            self.file = file
            self.coverage.switch_context(file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[self.file] = self.seconds.get(self.file, 0.0) + report.duration
        if report.failed:
            self.failed.add(self.file)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        passed = {file: seconds for file, seconds in self.seconds.items() if file not in self.failed}
        lines = {
            Path(path).relative_to(self.root).as_posix(): {
                line: [test for test in tests if test in passed]
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps({"seconds": passed, "lines": lines}))


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record."""
    config.pluginmanager.register(_Recorder(config.rootpath, Path(os.environ["TENKEY_MUTATION_RECORD"])))
