"""Check that the built API reference has every public name.

    sphinx-build -W -b html docs docs/_build/html
    python -m tools.check_reference docs/_build/html

The inventory ``objects.inv``, which other sites use for links, lists every name that has an entry.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["MODULES", "inventory", "main", "missing"]

MODULES: Final = (
    "tenkey", "tenkey.linalg", "tenkey.fft", "tenkey.special", "tenkey.random", "tenkey.autograd",
    "tenkey.autograd.checkpoint_policies", "tenkey.autograd.communication", "tenkey.autograd.forward_ad",
    "tenkey.autograd.function", "tenkey.autograd.graph", "tenkey.transforms", "tenkey.library", "tenkey.dispatch",
    "tenkey.backends", "tenkey.cuda", "tenkey.testing", "tenkey.testing.ptx",
)  # fmt: skip
"""The modules whose ``__all__`` must be in the API reference."""


def inventory(path: Path) -> set[str]:
    """Return the Python names of an ``objects.inv``: a text head, then compressed lines ``name domain:role ...``."""
    data = path.read_bytes()
    head, body = data[: (end := _after_lines(data, 4))], data[end:]
    if not head.startswith(b"# Sphinx inventory version 2"):
        raise ValueError(f"{path} is not a Sphinx inventory of version 2.")
    lines = zlib.decompress(body).decode().splitlines()
    return {name for name, role, *_ in map(str.split, lines) if role.startswith("py:")}


def _after_lines(data: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        at = data.index(b"\n", at) + 1
    return at


def missing(names: Iterable[str]) -> list[str]:
    """Return the public names that are not among ``names``."""
    known = set(names)
    wanted = [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]
    return [name for name in wanted if name not in known]


def main(arguments: list[str]) -> int:
    """Print the missing names and return the exit status."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    names = inventory(Path(arguments[0]) / "objects.inv")
    lost = missing(names)
    for name in lost:
        print(f"{name}: not in the API reference")
    print(f"{len(names)} names in the inventory, {len(lost)} public names missing")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
