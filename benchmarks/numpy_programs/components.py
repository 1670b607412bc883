"""Principal components of noisy mixtures, by power iteration with deflation, and by singular values."""

from typing import Any

import numpy as np


def measurements(samples: int, channels: int) -> Any:
    """Return three signals that each channel mixes in its own way."""
    time = np.linspace(0, 10, samples)
    signals = np.stack([4 * np.sin(2 * time), 2 * np.sign(np.cos(5 * time)), time % 1.0], axis=1)
    mixing = np.cos(np.outer([1.0, 2.3, 3.7], np.arange(channels)))
    return signals @ mixing + 0.05 * np.sin(np.outer(time * 997, np.arange(1, channels + 1)))


def leading(matrix: Any, rounds: int = 500) -> Any:
    """Return the greatest eigenvalue of a symmetric matrix and its vector."""
    vector = np.ones(len(matrix)) / np.sqrt(len(matrix))
    value = 0.0
    for _ in range(rounds):
        image = matrix @ vector
        before, value = value, vector @ image
        vector = image / np.linalg.norm(image)
        if abs(value - before) < 1e-12 * abs(value):
            break
    return value, vector * np.sign(vector[np.argmax(np.abs(vector))])


def main() -> Any:
    """Return three eigenvalues, their vectors, the part of the variance that they explain, and the best error."""
    data = measurements(2000, 20)
    data = (data - data.mean(axis=0)) / data.std(axis=0)
    covariance = np.cov(data, rowvar=False)
    rest, values, vectors = covariance.copy(), [], []
    for _ in range(3):
        value, vector = leading(rest)
        rest -= value * np.outer(vector, vector)
        values.append(value)
        vectors.append(vector)
    basis = np.vstack(vectors)
    error = np.linalg.norm(data - data @ basis.T @ basis)
    singular = np.linalg.svd(data, full_matrices=False)[1]
    return np.array(values), basis, sum(values) / np.trace(covariance), error / np.sqrt(np.sum(singular[3:] ** 2))


if __name__ == "__main__":
    print(*main(), sep="\n")
