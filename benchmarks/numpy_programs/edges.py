"""Edges of a picture: a Gaussian filter, Sobel's slopes, thresholds and a histogram of directions."""

from typing import Any

import numpy as np


def picture(size: int) -> Any:
    """Return a disk and a bar on a slope, in 256 levels."""
    y, x = np.indices((size, size)) / size
    levels = 60 * x + 40 * y
    levels = np.where((x - 0.35) ** 2 + (y - 0.4) ** 2 < 0.05, 200, levels)
    levels[int(0.7 * size) : int(0.8 * size), int(0.2 * size) : int(0.9 * size)] = 150
    return (levels + 10 * np.sin(50 * x) * np.sin(43 * y)).clip(0, 255).astype(np.uint8)


def convolve(image: Any, kernel: Any) -> Any:
    """Return the convolution with a small kernel, with the edge repeated."""
    height, width = kernel.shape
    padded = np.pad(image, ((height // 2,) * 2, (width // 2,) * 2), mode="edge")
    result = np.zeros(image.shape)
    for i in range(height):
        for j in range(width):
            result += kernel[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
    return result


def main() -> Any:
    """Return the mask of edges, the histogram of their directions, and a picture of a quarter of the size."""
    image = picture(256).astype(np.float32) / 255
    line = np.exp(-(np.linspace(-2, 2, 5) ** 2) / 2)
    gaussian = np.outer(line, line)
    smooth = convolve(image, gaussian / gaussian.sum())
    sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
    across, down = convolve(smooth, sobel), convolve(smooth, sobel.T)
    strength, direction = np.hypot(across, down), np.degrees(np.arctan2(down, across)) % 180
    high, low = np.quantile(strength, [0.97, 0.9])
    strong = strength >= high
    near = np.pad(strong, 1)
    grown = np.logical_or.reduce([near[i : i + 256, j : j + 256] for i in range(3) for j in range(3)])
    mask = strong | (grown & (strength > low))
    histogram, _ = np.histogram(direction[mask], bins=8, range=(0, 180), weights=strength[mask])
    quarter = smooth.reshape(64, 4, 64, 4).mean(axis=(1, 3))
    median = np.median(quarter[:62, :62], axis=1)
    return mask, histogram, np.round(255 * quarter).astype(np.uint8), median


if __name__ == "__main__":
    print(main()[1])
