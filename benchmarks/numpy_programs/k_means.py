"""k-means: four groups of points on a plane, found by Lloyd's algorithm from seeds that lie far apart."""

from typing import Any

import numpy as np


def points(count: int) -> Any:
    """Return points around four centers; a low-discrepancy sequence takes the place of random numbers."""
    index = np.arange(1, count + 1)
    radius = 1.5 * np.sqrt(index * 0.618033988749895 % 1)
    angle = 2 * np.pi * (index * 0.7548776662466927 % 1)
    centers = np.array([[0, 0], [5, 1], [1, 6], [-4, 3]])
    return centers[index % 4] + np.column_stack((radius * np.cos(angle), radius * np.sin(angle)))


def main() -> Any:
    """Return the centers in order, the number of points of each, and the sum of squared distances."""
    data = points(20_000)
    seeds = [data[0]]
    for _ in range(3):
        apart = np.min([np.linalg.norm(data - seed, axis=1) for seed in seeds], axis=0)
        seeds.append(data[np.argmax(apart)])
    centers = np.array(seeds)
    while True:
        squares = np.sum((data[:, np.newaxis] - centers) ** 2, axis=-1)
        labels = squares.argmin(axis=1)
        moved = np.array([data[labels == k].mean(axis=0) for k in range(len(centers))])
        if np.allclose(moved, centers):
            break
        centers = moved
    order = np.lexsort((centers[:, 1], centers[:, 0]))
    return centers[order], np.bincount(labels)[order], squares.min(axis=1).sum()


if __name__ == "__main__":
    print(*main(), sep="\n")
