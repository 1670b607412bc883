"""The outer planets around the sun, by the leapfrog scheme."""

from typing import Any

import numpy as np

GRAVITY = 2.95912208286e-4  # in astronomical units, solar masses and days
MASSES = np.array([1.00000597682, 9.54786104043e-4, 2.85583733151e-4, 4.37273164546e-5, 5.17759138449e-5])
POSITIONS = np.array(
    [
        [0.0, 0.0, 0.0],
        [-3.5023653, -3.8169847, -1.5507963],
        [9.0755314, -3.0458353, -1.6483708],
        [8.3101420, -16.2901086, -7.2521278],
        [11.4707666, -25.7294829, -10.8169456],
    ]
)
VELOCITIES = np.array(
    [
        [0.0, 0.0, 0.0],
        [0.00565429, -0.00412490, -0.00190589],
        [0.00168318, 0.00483525, 0.00192462],
        [0.00354178, 0.00137102, 0.00055029],
        [0.00288930, 0.00114527, 0.00039677],
    ]
)


def accelerations(x: Any) -> Any:
    """Return the pull of all bodies on each."""
    apart = x[None, :, :] - x[:, None, :]
    distances = np.linalg.norm(apart, axis=2)
    np.fill_diagonal(distances, 1.0)
    return GRAVITY * np.einsum("ijk,ij,j->ik", apart, distances**-3, MASSES)


def energy(x: Any, v: Any) -> Any:
    """Return the energy of motion and of gravity."""
    i, j = np.triu_indices(len(x), k=1)
    potential = -GRAVITY * np.sum(MASSES[i] * MASSES[j] / np.linalg.norm(x[i] - x[j], axis=1))
    return 0.5 * np.sum(MASSES * np.sum(v**2, axis=1)) + potential


def main() -> Any:
    """Return the positions after 1000 steps of ten days, and the energies on the way."""
    x, v, step = POSITIONS.copy(), VELOCITIES.copy(), 10.0
    v -= np.average(v, axis=0, weights=MASSES)
    pull = accelerations(x)
    energies = []
    for k in range(1000):
        v += 0.5 * step * pull
        x += step * v
        pull = accelerations(x)
        v += 0.5 * step * pull
        if k % 100 == 0:
            energies.append(energy(x, v))
    return x, np.asarray(energies)


if __name__ == "__main__":
    print(*main(), sep="\n")
