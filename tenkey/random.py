"""Random numbers: the same for one seed on every backend and for any number of threads (Philox 4x32-10).

Every call takes its numbers from a generator, the global one unless ``generator=`` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .core.generator import Generator, default_generator, seed
from .core.tensor import Tensor
from .ops.builtin.random import random_integers, random_normal, random_permutation, random_uniform

__all__ = ["Generator", "default_generator", "integers", "normal", "permutation", "seed", "uniform"]

Shape = int | Sequence[int]


def _key(shape: Shape, generator: Generator | None) -> tuple[tuple[int, ...], int, int, int]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    count = 1
    for n in sizes:
        if n < 0:
            raise ValueError(f"[random] a shape has no negative lengths, got {sizes}.")
        count *= n
    (first, second), start = (generator or default_generator()).next_key(count)
    return sizes, first, second, start


def uniform(
    shape: Shape = (), *, low: float = 0.0, high: float = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [low, high) of a floating dtype (float32 by default).

    >>> import tenkey as tk
    >>> _ = tk.random.seed(0)
    >>> x = tk.random.uniform((2, 3))
    >>> x.shape, bool(tk.all(x >= 0)), bool(tk.all(x < 1))
    ((2, 3), True, True)
    """
    sizes, first, second, start = _key(shape, generator)
    return random_uniform(sizes, first, second, start, low=low, high=high, dtype=dtype, device=device)


def normal(
    shape: Shape = (), *, mean: float = 0.0, std: float = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Normal numbers with a mean and a standard deviation.

    >>> import tenkey as tk
    >>> tk.random.normal((2, 3)).shape
    (2, 3)
    """
    if std < 0:
        raise ValueError(f"[normal] the standard deviation must not be negative, got {std}.")
    sizes, first, second, start = _key(shape, generator)
    drawn: Tensor = random_normal(sizes, first, second, start, dtype=dtype, device=device)
    return drawn if mean == 0.0 and std == 1.0 else drawn * std + mean


def integers(
    low: int, high: int, shape: Shape = (), *, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Integers in [low, high), all equally likely (bias below 2**-32).

    >>> import tenkey as tk
    >>> x = tk.random.integers(0, 6, 100)
    >>> bool(tk.all(x >= 0)), bool(tk.all(x < 6))
    (True, True)
    """
    sizes, first, second, start = _key(shape, generator)
    return random_integers(sizes, first, second, start, low=low, high=high, dtype=dtype, device=device)


def permutation(n: int, *, device: Any = None, generator: Generator | None = None) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    >>> import tenkey as tk
    >>> sorted(tk.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    _, first, second, start = _key(n, generator)
    return random_permutation(n, first, second, start, device=device)
