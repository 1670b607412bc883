"""Conway's game of life on a torus."""

from typing import Any

import numpy as np

GUN = """
........................X...........
......................X.X...........
............XX......XX............XX
...........X...X....XX............XX
XX........X.....X...XX..............
XX........X...X.XX....X.X...........
..........X.....X.......X...........
...........X...X....................
............XX......................
"""


def neighbours(cells: Any) -> Any:
    """Return how many of the eight cells around each are alive."""
    return sum(
        np.roll(cells, (i, j), axis=(0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
    )


def main() -> Any:
    """Return the cells after 120 generations of a glider gun, the populations, and the first row that is alive."""
    pattern = np.array([[cell == "X" for cell in line] for line in GUN.split()])
    cells = np.zeros((64, 64), dtype=bool)
    cells[5 : 5 + pattern.shape[0], 3 : 3 + pattern.shape[1]] = pattern
    population = []
    for _ in range(120):
        population.append(np.count_nonzero(cells))
        count = neighbours(cells)
        cells = (count == 3) | (cells & (count == 2))
    alive = np.flatnonzero(cells.any(axis=1))
    return cells, np.array(population), alive[0]


if __name__ == "__main__":
    final, population, _ = main()
    print("\n".join("".join(".X"[int(cell)] for cell in row) for row in final), population)
