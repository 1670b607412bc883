"""Numerical programs without gradients, written once for NumPy's names: the library is a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["dbscan", "image_filters", "k_means", "n_body", "naive_bayes", "smoke"]

Step = Callable[[], Any]


def _blobs(samples: int, features: int, centers: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    middles = rng.uniform(-10, 10, (centers, features))
    labels = rng.integers(0, centers, samples)
    return (middles[labels] + rng.standard_normal((samples, features))).astype(np.float32), labels


def k_means(samples: int = 20_000, features: int = 16, clusters: int = 12, rounds: int = 10) -> Callable[[Any], Step]:
    """Return runs of Lloyd's algorithm from given points."""

    def make(xp: Any) -> Step:
        x = xp.asarray(_blobs(samples, features, clusters)[0])

        def fit() -> Any:
            centers = x[:: samples // clusters][:clusters]
            for _ in range(rounds):
                distances = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
                nearest = xp.argmin(distances, axis=1)
                centers = xp.stack([x[nearest == k].mean(axis=0) for k in range(clusters)])
            return centers

        return fit

    return make


def dbscan(samples: int = 2_000, radius: float = 1.5, least: int = 8) -> Callable[[Any], Step]:
    """Return runs of density-based clustering, with all distances in one matrix; labels start at 1, noise is 0."""

    def make(xp: Any) -> Step:
        x = xp.asarray(_blobs(samples, 4, 8)[0])

        def fit() -> Any:
            squares = (x * x).sum(axis=1)
            near = squares[:, None] + squares[None, :] - 2 * (x @ x.T) <= radius**2
            core = near.sum(axis=1) >= least
            labels = xp.zeros(samples, dtype=xp.int64)
            cluster = 0
            for i in range(samples):
                if not bool(core[i]) or int(labels[i]) != 0:
                    continue
                cluster += 1
                front = xp.zeros(samples, dtype=xp.bool)
                front[i] = True
                while bool(front.any()):
                    labels = xp.where(front, cluster, labels)
                    reached = near[xp.nonzero(front & core)[0]].any(axis=0)
                    front = reached & (labels == 0)
            return labels

        return fit

    return make


def naive_bayes(samples: int = 20_000, features: int = 32, classes: int = 10) -> Callable[[Any], Step]:
    """Return runs that fit normal distributions to each class and predict the class of every sample."""

    def make(xp: Any) -> Step:
        points, given = _blobs(samples, features, classes)
        x, labels = xp.asarray(points), xp.asarray(given)

        def fit() -> Any:
            scores = []
            for k in range(classes):
                rows = x[labels == k]
                mean, variance = rows.mean(axis=0), rows.var(axis=0) + 1e-6
                prior = float(np.log(rows.shape[0] / samples))  # a float64 of NumPy would widen its scores
                density = -0.5 * xp.sum(xp.log(2 * np.pi * variance)) - 0.5 * xp.sum((x - mean) ** 2 / variance, axis=1)
                scores.append(density + prior)
            return xp.argmax(xp.stack(scores, axis=1), axis=1)

        return fit

    return make


def n_body(bodies: int = 500, steps: int = 10) -> Callable[[Any], Step]:
    """Return runs of a leapfrog integration of gravity between all pairs, in float64."""

    def make(xp: Any) -> Step:
        rng = np.random.default_rng(0)
        start, push = rng.standard_normal((bodies, 3)), 0.1 * rng.standard_normal((bodies, 3))
        x0, v0, mass = xp.asarray(start), xp.asarray(push), xp.asarray(rng.uniform(0.5, 1.5, bodies) / bodies)

        def pull(x: Any) -> Any:
            apart = x[None, :, :] - x[:, None, :]
            cubes = ((apart**2).sum(axis=2) + 0.01) ** -1.5
            return (apart * cubes[:, :, None] * mass[None, :, None]).sum(axis=1)

        def run() -> Any:
            x, v = x0, v0
            force = pull(x)
            for _ in range(steps):
                v = v + 0.005 * force
                x = x + 0.01 * v
                force = pull(x)
                v = v + 0.005 * force
            return x

        return run

    return make


def smoke(size: int = 128, steps: int = 5, sweeps: int = 20) -> Callable[[Any], Step]:
    """Return runs of a stable solver of smoke on a periodic grid: forces, advection and projection."""

    def make(xp: Any) -> Step:
        at = (np.arange(size) + 0.5) / size
        puff = np.exp(-80 * ((at[:, None] - 0.5) ** 2 + (at[None, :] - 0.2) ** 2)).astype(np.float32)
        grid = np.arange(size, dtype=np.float32)
        rows, columns = (xp.asarray(np.ascontiguousarray(g)) for g in np.meshgrid(grid, grid, indexing="ij"))
        begin = xp.asarray(puff)

        def advect(f: Any, u: Any, v: Any) -> Any:
            i, j = (rows - u) % size, (columns - v) % size
            i0, j0 = xp.floor(i), xp.floor(j)
            s, t = i - i0, j - j0
            i0, j0 = i0.astype(xp.int64) % size, j0.astype(xp.int64) % size
            i1, j1 = (i0 + 1) % size, (j0 + 1) % size
            above = (1 - t) * f[i0, j0] + t * f[i0, j1]
            below = (1 - t) * f[i1, j0] + t * f[i1, j1]
            return (1 - s) * above + s * below

        def around(f: Any) -> Any:
            return xp.roll(f, 1, axis=0) + xp.roll(f, -1, axis=0) + xp.roll(f, 1, axis=1) + xp.roll(f, -1, axis=1)

        def run() -> Any:
            density, u, v = begin, xp.zeros_like(begin), xp.zeros_like(begin)
            for _ in range(steps):
                v = v + 0.5 * density
                u, v, density = advect(u, u, v), advect(v, u, v), advect(density, u, v)
                spread = 0.5 * (
                    xp.roll(u, -1, axis=0) - xp.roll(u, 1, axis=0) + xp.roll(v, -1, axis=1) - xp.roll(v, 1, axis=1)
                )
                pressure = xp.zeros_like(spread)
                for _ in range(sweeps):
                    pressure = 0.25 * (around(pressure) - spread)
                u = u - 0.5 * (xp.roll(pressure, -1, axis=0) - xp.roll(pressure, 1, axis=0))
                v = v - 0.5 * (xp.roll(pressure, -1, axis=1) - xp.roll(pressure, 1, axis=1))
            return density

        return run

    return make


def image_filters(height: int = 720, width: int = 1280) -> Callable[[Any], Step]:
    """Return runs of a chain on a colour image of bytes: grey, blur, edges, sharpening, contrast, and back to bytes."""

    def make(xp: Any) -> Step:
        rng = np.random.default_rng(0)
        image = xp.asarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        shares = xp.asarray(np.array([0.299, 0.587, 0.114], np.float32))
        kernel = [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]

        def convolve(x: Any, axis: int) -> Any:
            border = ((2, 2), (0, 0)) if axis == 0 else ((0, 0), (2, 2))
            padded = xp.pad(x, border, mode="edge")
            total = xp.zeros_like(x)
            for k, share in enumerate(kernel):
                part = padded[k : k + height] if axis == 0 else padded[:, k : k + width]
                total = total + share * part
            return total

        def run() -> Any:
            grey = (image.astype(xp.float32) * shares).sum(axis=2)
            smooth = convolve(convolve(grey, 0), 1)
            p = xp.pad(smooth, ((1, 1), (1, 1)), mode="edge")
            down = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
            along = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
            edges = xp.sqrt(down * down + along * along)
            sharp = grey + 0.7 * (grey - smooth) + 0.1 * edges
            low, high = xp.min(sharp), xp.max(sharp)
            bright = 255 * ((sharp - low) / (high - low)) ** 0.8
            return xp.clip(xp.round(bright), 0, 255).astype(xp.uint8)

        return run

    return make
