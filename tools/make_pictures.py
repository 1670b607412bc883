"""Draw the graph pictures of the documentation.

    python -m tools.make_pictures            # write the pictures that changed

``tests/documents/test_autograd_document.py`` checks that they are up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import tenkey as tk

__all__ = ["main", "make_pictures"]

ROOT: Final = Path(__file__).resolve().parents[1]


def make_pictures() -> dict[str, str]:
    """Return the pictures of docs/autograd.md as SVG, by path."""
    x, w = tk.ones(2).requires_grad_(), tk.ones(2).requires_grad_()
    y = x * w
    product = tk.autograd.draw({"loss": tk.sum(y)}, params={"x": x, "w": w, "y": y})
    w1, b1 = tk.ones((3, 4)).requires_grad_(), tk.zeros(4).requires_grad_()
    w2 = tk.ones((4, 1)).requires_grad_()
    hidden = tk.tanh(tk.ones((8, 3)) @ w1 + b1)
    loss = tk.mean((hidden @ w2 - 1.0) ** 2)
    network = tk.autograd.draw({"loss": loss}, params={"w1": w1, "b1": b1, "w2": w2, "hidden": hidden})
    return {"docs/pictures/multiplication.svg": product.svg, "docs/pictures/network.svg": network.svg}


def main() -> None:
    """Write the pictures that changed."""
    for name, text in make_pictures().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{name}: written")


if __name__ == "__main__":
    main()
