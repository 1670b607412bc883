"""Write the tables of PyTorch's names in ``docs/pytorch.md``: ``python -m tools.pytorch_names``.

They are generated from the table of names, ``tenkey/interop/numpy_names.py``, and from the methods themselves.
``tests/interop/test_pytorch_methods.py`` checks that the page is up to date.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Final

import tenkey as tk
from tenkey.interop import numpy_names
from tenkey.interop.pytorch_methods import PYTORCH_METHODS

__all__ = ["main", "page", "tables"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "pytorch.md"
MARKS: Final = ("<!-- names: begin -->\n", "<!-- names: end -->\n")


def _ours(operator: str) -> str:
    module, _, rest = operator.partition("_")
    return f"tk.{module}.{rest}" if module in ("linalg", "fft", "special") else f"tk.{operator}"


def tables() -> str:
    """Return the tables as text."""
    lines = ["| PyTorch | here |", "|---|---|"]
    lines += [f"| `tk.{name}` | `tk.{ours}` |" for name, ours in sorted(numpy_names.FUNCTIONS.items())]
    draws = {"rand": "uniform", "randint": "integers", "randn": "normal"}
    lines += [f"| `tk.{name}` | `tk.random.{ours}` |" for name, ours in draws.items()]
    for name in sorted(PYTORCH_METHODS):
        if name in numpy_names.METHODS:
            lines.append(f"| `x.{name}` | `{_ours(numpy_names.METHODS[name])}` |")
        elif name not in numpy_names.INPLACE_METHODS:
            first = inspect.cleandoc(getattr(tk.Tensor, name).__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            lines.append(f"| `x.{name}` | {first} |")
    in_place = ", ".join(f"`x.{name}`" for name in sorted(set(PYTORCH_METHODS) & set(numpy_names.INPLACE_METHODS)))
    keywords = ", ".join(
        f"`{theirs}` ({' or '.join(f'`{name}`' for name in ours)})"
        for theirs, ours in sorted(numpy_names.KEYWORDS.items())
        if ours and theirs in _OF_PYTORCH
    )
    texts = [f"In place: {in_place}.", f"Keywords of methods: {keywords}."]
    return "\n".join([*lines, "", "\n\n".join(textwrap.fill(text, 120, break_on_hyphens=False) for text in texts), ""])


_OF_PYTORCH: Final = frozenset({
    "dim", "dims", "dim0", "dim1", "dim2", "keepdim", "index", "src", "shifts", "p", "other", "exponent", "diagonal",
    "mat2", "vec2", "vec", "split_size_or_sections", "steps", "end",
})  # fmt: skip


def page() -> str:
    """Return the page with the tables."""
    head, _, rest = PAGE.read_text().partition(MARKS[0])
    _, _, tail = rest.partition(MARKS[1])
    return f"{head}{MARKS[0]}{tables()}{MARKS[1]}{tail}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
