"""Mistakes that mypy and pyright must report on exactly the lines that say so; never run."""

from __future__ import annotations

import numpy as np

import tenkey as tk
from tenkey import Tensor

x = tk.ones((2, 3))

# ---- names that do not exist
tk.addd(x, x)  # error
x.summ()  # error
x.foo  # error
tk.linalg.no_such_function(x)  # error
tk.fft.ftt(x)  # error
tk.special.gama(x)  # error
tk.random.nomal((2,))  # error
tk.flaot32  # error

# ---- arguments of the wrong kind
tk.exp({2.0})  # error
tk.add(x)  # error
tk.add(x, None)  # error
tk.sum(x, axis="0")  # error
tk.sum(x, 0, True)  # error
tk.sum(x, keepdim=True)  # error
tk.sum(x, axis=1.5)  # error
tk.reshape(x, 6)  # error
tk.zeros(2.0)  # error
tk.zeros((2, 3), dtype=32)  # error
tk.ones(2, device=0)  # error
tk.concat(x, x)  # error
tk.stack(None)  # error
tk.where(x > 0, x)  # error
tk.matmul(x, None)  # error
tk.asarray(x, dtype=tk.float32, devise="cpu")  # error
x.sum(axis=[0.5])  # error
x.mean(dim=0)  # error
x.astype()  # error
x.requires_grad_("yes")  # error
x.to(1.5)  # error
tk.linalg.svd(x, full=True)  # error
tk.linalg.eigh(x).values  # error
tk.linalg.matrix_power(x, 0.5)  # error
tk.fft.fft(x, n="2")  # error
tk.special.gammaln()  # error
tk.random.normal((2,), scale=1.0)  # error
tk.save(x)  # error

# ---- operators and indices
x + {1}  # error
x @ None  # error
x["a"]  # error
x[0.5]  # error
x[0] = {1}  # error
x.shape = (3, 2)  # error
x.dtype = tk.float64  # error
y = tk.ones(2)
y += {1}  # error

# ---- results of another type than is written down
a: int = tk.sum(x)  # error
b: Tensor = x.shape  # error
c: list[int] = x.shape  # error
d: Tensor = x.numpy()  # error
e: np.ndarray = tk.exp(x)  # error
f: Tensor = x.grad  # error
g: str = x.device  # error
h: bool = tk.float32  # error


def double(y: Tensor) -> float:
    return y * 2  # error


class NoForward(tk.autograd.Function):
    def apply(self) -> int:  # error
        return 1


@tk.library.custom_op("typed::wrong")  # error
def wrong(y: Tensor) -> Tensor:
    return y
