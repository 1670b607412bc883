"""The heat equation on a plate with fixed edges, in explicit steps."""

from typing import Any

import numpy as np


def main() -> Any:
    """Return the temperatures after 200 steps, the mean after every tenth, and the hottest cell."""
    size, diffusivity, spacing = 128, 0.1, 1 / 127
    step = 0.2 * spacing**2 / diffusivity
    axis = np.linspace(0, 1, size)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    plate = np.zeros((size, size))
    plate[0, :] = 100
    plate[:, -1] = 50 * axis
    plate[(x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.04] = 80
    source = 4000 * np.exp(-80 * ((x - 0.7) ** 2 + (y - 0.7) ** 2))
    means = []
    for k in range(200):
        inner = plate[1:-1, 1:-1]
        around = plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2]
        change = diffusivity * (around - 4 * inner) / spacing**2 + source[1:-1, 1:-1]
        plate[1:-1, 1:-1] += step * change
        if k % 10 == 0:
            means.append(plate.mean())
    hottest = np.unravel_index(np.argmax(plate), plate.shape)
    return plate, np.array(means), np.array(hottest)


if __name__ == "__main__":
    print(*main()[1:], sep="\n")
