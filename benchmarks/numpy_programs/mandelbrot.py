"""The Mandelbrot set: how soon each point of a grid escapes."""

from typing import Any

import numpy as np


def main() -> Any:
    """Return the counts of rounds, their histogram, and the area of the set."""
    columns, rows, rounds = 240, 160, 60
    real, imaginary = np.mgrid[-2.25 : 0.75 : columns * 1j, -1.25 : 1.25 : rows * 1j]
    c = real + 1j * imaginary
    z = np.zeros_like(c)
    escaped = np.full(c.shape, rounds)
    inside = np.ones(c.shape, dtype=bool)
    for k in range(rounds):
        z[inside] = z[inside] ** 2 + c[inside]
        gone = inside & (np.abs(z) > 2)
        escaped[gone] = k
        inside[gone] = False
    histogram, _ = np.histogram(escaped, bins=np.arange(0, rounds + 2, 6))
    area = inside.sum() / inside.size * 3.0 * 2.5
    return escaped, histogram, area


if __name__ == "__main__":
    print(*main()[1:])
