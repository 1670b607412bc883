"""matplotlib draws tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk

matplotlib = pytest.importorskip("matplotlib", minversion="3.9")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402  # after the choice of what it draws on


@pytest.fixture
def ax() -> Iterator[Any]:
    figure, axes = plt.subplots(figsize=(2, 2))
    yield axes
    figure.canvas.draw()
    plt.close(figure)


V = tk.linspace(0.0, 1.0, 20)
A = tk.reshape(tk.arange(12.0), (3, 4))


def test_lines(ax: Any) -> None:
    (line,) = ax.plot(V, tk.sin(V))
    np.testing.assert_array_equal(line.get_ydata(), tk.sin(V).numpy())
    assert len(ax.plot(A)) == 4
    ax.set_xlim(V[0], V[-1])
    ax.set_xticks(V[::5])
    ax.axhline(V[3])


def test_histogram(ax: Any) -> None:
    counts, edges, _ = ax.hist(V, bins=tk.linspace(0.0, 1.0, 5))
    np.testing.assert_array_equal(counts, np.histogram(V.numpy(), edges)[0])


def test_images(ax: Any) -> None:
    image = ax.imshow(A, vmin=A.min(), vmax=A.max())
    np.testing.assert_array_equal(image.get_array(), A.numpy())
    ax.imshow(tk.ones((2, 2, 3)))
    ax.pcolormesh(A)
    ax.contourf(A)


def test_points_and_bars(ax: Any) -> None:
    points = ax.scatter(V, V**2, c=V, s=10 * V + 1)
    np.testing.assert_allclose(points.get_offsets()[:, 1], V.numpy() ** 2, rtol=1e-6)
    ax.bar(V, V)
    ax.errorbar(V, V, yerr=0.1 * V)
    ax.fill_between(V, V, V + 1)
    ax.boxplot(V)
    ax.quiver(A, A)
