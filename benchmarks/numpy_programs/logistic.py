"""Logistic regression with a gradient written by hand, in small batches, on a plane that a curve divides."""

from typing import Any

import numpy as np


def examples(count: int) -> Any:
    """Return features of points, with their powers, and labels of which some are wrong."""
    index = np.arange(count)
    x = 4 * (index * 0.7548776662466927 % 1) - 2
    y = 4 * (index * 0.5698402909980532 % 1) - 2
    labels = (y > 0.5 * x**2 - 0.7 * x).astype(float)
    labels[::25] = 1 - labels[::25]
    return np.c_[np.ones_like(x), x, y, x**2, x * y, y**2], labels


def main() -> Any:
    """Return the weights, the losses of the epochs, and the table of predictions and labels."""
    features, labels = examples(4000)
    train, test = slice(0, 3000), slice(3000, None)
    mean, deviation = features[train, 1:].mean(0), features[train, 1:].std(0)
    features[:, 1:] = (features[:, 1:] - mean) / deviation
    weights, velocity, losses = np.zeros(features.shape[1]), np.zeros(features.shape[1]), []
    for epoch in range(20):
        rate = 0.5 / (1 + 0.1 * epoch)
        for batch in np.array_split(np.arange(3000), 30):
            scores = features[batch] @ weights
            error = 1 / (1 + np.exp(-scores)) - labels[batch]
            gradient = features[batch].T @ error / len(batch) + 1e-3 * weights
            velocity = 0.8 * velocity - rate * gradient
            weights += velocity
        scores = features[train] @ weights
        losses.append(np.mean(np.logaddexp(0, scores) - labels[train] * scores))
    predictions = features[test] @ weights > 0
    table = np.zeros((2, 2), dtype=int)
    np.add.at(table, (predictions.astype(int), labels[test].astype(int)), 1)
    return weights, np.array(losses), table


if __name__ == "__main__":
    print(*main(), sep="\n")
