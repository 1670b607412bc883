"""Programs that need a process of their own, in forks of one that has imported the package.

A process for each would spend half a second on the import. Where the system cannot fork, it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["Programs"]

# Runs the file of each line of the input in a fork, and says how it ended.
_SERVER = """
import os, runpy, sys, traceback
import tenkey

for line in sys.stdin:
    path = line.strip()
    child = os.fork()
    if not child:
        with open(path + ".out", "w") as sys.stdout, open(path + ".err", "w") as sys.stderr:
            status = 0
            try:
                runpy.run_path(path, run_name="__main__")
            except BaseException:
                traceback.print_exc()
                status = 1
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Programs:
    """Runs programs one after another; a context manager, which ends the process that forks."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.communicate()

    def run(self, source: str, folder: Path) -> str:
        """Return what a program prints, with warnings as errors; it lies in ``folder``."""
        path = folder / "program.py"
        path.write_text(source, encoding="utf-8")
        if not hasattr(os, "fork"):
            command = [sys.executable, "-W", "error", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout
        status = self._forked(path)
        assert status == 0, Path(f"{path}.err").read_text(encoding="utf-8")
        return Path(f"{path}.out").read_text(encoding="utf-8")

    def _forked(self, path: Path) -> int:
        if self._server is None:
            command = [sys.executable, "-W", "error", "-c", _SERVER]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(path, file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())
