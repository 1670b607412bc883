"""Mistakes with tenkey.numpy that mypy and pyright must report on exactly the lines that say so; never run."""

from __future__ import annotations

import tenkey.numpy as np

x = np.ones((2, 3))

# ---- names that do not exist
np.summ(x)  # error
np.flaot64  # error
np.longdouble  # error
np.linalg.invv(x)  # error
np.add.reduces(x)  # error
np.fft.ftt(x)  # error
np.random.nomal(size=2)  # error
x.summ()  # error

# ---- arguments of the wrong kind
np.sum(x, axis="0")  # error
np.sum(x, axes=0)  # error
np.mean(x, keepdim=True)  # error
np.zeros((2, 3), dtype=32)  # error
np.zeros("2")  # error
np.concatenate(x, {1})  # error
np.concatenate(None)  # error
np.linspace(0)  # error
np.median(x, axis=1.5)  # error
np.argsort(x, kind=1)  # error
np.exp()  # error
np.exp({1.0})  # error
np.add(x)  # error
np.add(x, None)  # error
np.add(x, 1, where=None)  # error
np.where(x > 0, x)  # error
np.linalg.norm(x, ord="L2")  # error
np.linalg.matrix_power(x, 0.5)  # error
np.fft.fft(x, norm="orthogonal")  # error
np.random.default_rng(1).normal(std=2)  # error
np.random.default_rng(1).normal(size="2")  # error
x.sum(axis=0.5)  # error
x.reshape("3")  # error
x.astype()  # error
x.sort(axis="0")  # error

# ---- operators and indices
x + {1}  # error
x @ None  # error
x["a"]  # error
x[0] = {1}  # error

# ---- results of another type than is written down
a: int = np.sum(x)  # error
b: np.ndarray = np.shape(x)  # error
c: np.ndarray = x.sort()  # error
d: np.ndarray = np.modf(x)  # error
e: float = np.random.normal(size=3)  # error
f: str = x.T  # error
