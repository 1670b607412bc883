"""Print the oldest versions of the run-time dependencies that `pyproject.toml` allows, as constraints for pip.

    python -m tools.oldest_versions > oldest.txt
    python -m pip install --only-binary numpy,numba,llvmlite -c oldest.txt -e '.[test]'

The oldest versions do not support a Python that is newer than those listed in `pyproject.toml`. On such a Python the
program prints only a note, to standard error, and pip installs the newest versions.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

__all__ = ["floors", "main", "pythons"]

ROOT: Final = Path(__file__).resolve().parents[1]
_FLOOR: Final = re.compile(r"([A-Za-z0-9._-]+)>=([0-9][0-9.]*)")


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]  # type: ignore[no-any-return]


def floors(requirements: Iterable[str]) -> list[str]:
    """Return the requirement ``name==version`` for each ``name>=version``; raise ValueError for one without a floor.

    >>> floors(["numpy>=2.1.2"])
    ['numpy==2.1.2']
    """
    found = []
    for requirement in requirements:
        match = _FLOOR.fullmatch(requirement)
        if match is None:
            raise ValueError(f"the requirement {requirement!r} is not of the form name>=version: it needs a floor.")
        found.append(f"{match[1]}=={match[2]}")
    return found


def pythons() -> set[tuple[int, int]]:
    """Return the versions of Python that `pyproject.toml` lists."""
    listed = [re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", c) for c in _project()["classifiers"]]
    return {(int(match[1]), int(match[2])) for match in listed if match}


def main() -> int:
    """Print the constraints; return the exit status."""
    if sys.version_info[:2] > max(pythons()):
        print(f"Python {sys.version_info[0]}.{sys.version_info[1]} is newer than the oldest versions.", file=sys.stderr)
        return 0
    print("\n".join(floors(_project()["dependencies"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
