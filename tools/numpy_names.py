"""Write the table of NumPy's names in ``docs/numpy.md``: ``python -m tools.numpy_names``.

Every public name of ``numpy``, ``numpy.linalg``, ``numpy.fft`` and ``numpy.random`` is listed by how ``tenkey.numpy``
offers it. The table depends on the version of NumPy; ``tests/numpy/test_names.py`` checks that each name has a place.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any, Final

import numpy as np

import tenkey.numpy as tnp
from tenkey.numpy.public_names import kind_of

__all__ = ["main", "names_of", "place_of", "table"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "numpy.md"
MARKS: Final = ("<!-- names: begin -->\n", "<!-- names: end -->\n")
KINDS: Final = {
    "operators": "Computed by operators: gradients, any device",
    "host": "Computed by NumPy from the values: no gradients, copied from and to other devices",
    "NumPy's own": "NumPy's own objects: dtypes, constants, settings, modules",
    "refused": "Refused",
    "out of scope": "Out of scope",
}


def names_of(module: str) -> list[str]:
    """Return the public names of a module of NumPy's, "" for the main namespace."""
    source: Any = getattr(np, module) if module else np
    inner = {"mtrand", "bit_generator", "test"} if module == "random" else {"test"}
    return sorted({name for name in source.__all__ if not name.startswith("_")} - inner)  # NumPy 2.1 lists private ones


def place_of(module: str, name: str) -> str:
    """Return the kind of a name; "" if it is missing without a reason."""
    if module != "random":
        return kind_of(module, name)
    return "operators" if hasattr(tnp.random, name) else ""


def table() -> str:
    """Return the table as Markdown."""
    lines = [
        f"With NumPy {'.'.join(np.__version__.split('.')[:2])}:",
        "",
        "| | names | " + " | ".join(KINDS.values()) + " |",
    ]
    lines.append("|---|" + "---|" * (len(KINDS) + 1))
    details = []
    for module in ("", "linalg", "fft", "random"):
        found: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for name in names_of(module):
            found[place_of(module, name)].append(name)
        title = f"`numpy.{module}`" if module else "`numpy`"
        lines.append(f"| {title} | {len(names_of(module))} | " + " | ".join(str(len(found[k])) for k in KINDS) + " |")
        for kind, names in found.items():
            if names:
                text = textwrap.fill(", ".join(f"`{name}`" for name in names) + ".", width=120)
                details.append(f"**{title}: {KINDS[kind].partition(':')[0].lower()}.** {len(names)} names:\n{text}\n")
    return "\n".join([*lines, "", *details])


def main(arguments: list[str]) -> int:
    """Write the table; with ``--check`` return 1 if the page has another one."""
    page = PAGE.read_text()
    before, _, rest = page.partition(MARKS[0])
    new = before + MARKS[0] + table() + MARKS[1] + rest.partition(MARKS[1])[2]
    if "--check" in arguments:
        return int(new != page)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
