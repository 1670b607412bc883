"""Compile the core of small calls in a copy of the tree, with additional compiler flags."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "build"]

FOLDER: Final = Path("tenkey", "core", "compiled")
_BUILD: Final = """
import pathlib, shutil, sys, tempfile, hatch_build
tree, folder = map(pathlib.Path, sys.argv[1:])
with tempfile.TemporaryDirectory(prefix="tenkey-core-") as temporary:
    for file in hatch_build._build(tree, pathlib.Path(temporary)):
        shutil.copy(file, tree / folder)
"""


def build(tree: Path, flags: str = "") -> None:
    """Write the extension files next to their sources below ``tree``; ``flags`` come after those of CFLAGS.

    Needs a C compiler and the build requirements, which the extra ``test`` has. Raises RuntimeError if it fails.
    """
    for file in (tree / FOLDER).glob("*.so"):
        file.unlink()
    variables = os.environ | {name: f"{os.environ.get(name, '')} {flags}" for name in ("CFLAGS", "LDFLAGS")}
    command = [sys.executable, "-c", _BUILD, str(tree), str(FOLDER)]
    root = Path(__file__).resolve().parents[1]  # where hatch_build.py is
    done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the core cannot be compiled:\n{done.stderr[-3000:]}")
