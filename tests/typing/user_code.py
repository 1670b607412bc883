"""Typical code of users: it passes the strict modes of mypy and pyright, and runs (tests/package/test_typing.py)."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tenkey as tk
from tenkey import Tensor
from tenkey.library import scalar as s

# ---- creation, dtypes, devices


def make() -> list[Tensor]:
    made = [
        tk.zeros(3),
        tk.ones((2, 3), dtype=tk.float64),
        tk.full([2, 2], 1.5, device="cpu"),
        tk.empty((0,), dtype=np.float32),
        tk.arange(5),
        tk.arange(0.0, 1.0, 0.25, dtype=float),
        tk.linspace(0, 1, 5, endpoint=False),
        tk.eye(3, k=1),
        tk.asarray([[1, 2], [3, 4]]),
        tk.asarray(np.ones(2), copy=True),
        tk.tensor([1.0, 2.0], dtype=tk.float32, requires_grad=True),
    ]
    made += [tk.zeros_like(x) for x in made[:2]]
    return made


def describe(x: Tensor) -> str:
    rows: int = x.shape[0] if x.ndim else 1
    kind: np.dtype[Any] = x.dtype
    where: tk.device = x.device
    bits = tk.finfo(kind).bits if tk.isdtype(kind, "real floating") else 8 * x.itemsize
    return f"{rows} {kind} {where} {bits} {x.size} {x.nbytes} {x.strides} {x.is_contiguous}"


def convert(x: Tensor) -> tuple[float, list[Any], np.ndarray[Any, Any]]:
    y = x.to(tk.float64).to("cpu").astype(tk.float32, copy=False)
    first = float(y.flatten()[0])
    return first, y.tolist(), y.numpy()


# ---- operators and indexing


def arithmetic(a: Tensor, b: Tensor) -> Tensor:
    c = a + b - 1 * a / 2.0
    c = 2**a - c % 3 + (a // 2) * 1.5
    c = -c + abs(b)
    c += 1
    c *= b
    c = tk.where(a > b, c, 0.0)
    mask = (a < b) | (a == b) & ~(b >= 2)
    return tk.maximum(c, 0) + tk.add(a, 1) + tk.pow(2.0, a) + tk.where(mask, 1.0, c)


def index(x: Tensor) -> list[Tensor]:
    rows = tk.asarray([0, 1])
    picked = [x[0], x[-1, ...], x[:, None], x[::2, 1:], x[rows], x[x > 0], x[[0, 1]], x[..., 0], x[0, 1:]]
    x[0] = 1.0
    x[:, 1] = tk.zeros(x.shape[0])
    x[x < 0] = 0
    total = tk.zeros(())
    for row in x:
        total = total + row.sum()
    return [*picked, total]


def shapes(x: Tensor) -> list[Tensor]:
    return [
        x.reshape(-1),
        x.reshape((x.size, 1)),
        tk.reshape(x, [x.size]),
        x.T,
        x.mT,
        tk.permute_dims(x, (1, 0)),
        tk.expand_dims(x, axis=0),
        tk.squeeze(tk.expand_dims(x, axis=0), 0),
        tk.broadcast_to(x, (2, *x.shape)),
        tk.concat([x, x], axis=-1),
        tk.stack((x, x), axis=1),
        tk.flip(x, axis=0),
    ]


# ---- reductions, products, functions of arrays


def reduce(x: Tensor) -> float:
    total = tk.sum(x, axis=0, keepdims=True) + x.mean() + tk.max(x, axis=(0, 1))
    where = tk.argmax(x, axis=1)
    best = tk.take(x, where[:1], axis=1)
    if tk.any(tk.isnan(x)) or not tk.all(tk.isfinite(total)):
        return tk.nan
    return float(best.sum()) + float(tk.logsumexp(x, axis=-1).sum()) + tk.pi


def standardize(x: Tensor, *, axis: int | Sequence[int] | None = None) -> Tensor:
    centred = x - tk.mean(x, axis=axis, keepdims=True)
    return centred / tk.sqrt(tk.mean(tk.square(centred), axis=axis, keepdims=True) + 1e-6)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = tk.softmax(q @ k.mT / q.shape[-1] ** 0.5, axis=-1)
    return tk.matmul(weights, v)


# ---- gradients


def fit(x: Tensor, y: Tensor, steps: int = 3) -> Tensor:
    w = tk.zeros((x.shape[1], 1)).requires_grad_()
    for _ in range(steps):
        loss: Tensor = ((x @ w - y) ** 2).mean()
        loss.backward()
        with tk.no_grad():
            if w.grad is not None:
                w -= 0.1 * w.grad
            w.grad = None
    return w.detach()


def gradients(f: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    seen: list[Tensor] = []
    handle = x.register_hook(lambda g: seen.append(g))
    out = f(x)
    (first,) = tk.autograd.grad(out, [x], create_graph=True)
    handle.remove()
    assert first is not None
    assert tk.autograd.gradcheck(f, (x,))
    second: Tensor = tk.transforms.grad(f)(x.detach())
    value, both = tk.transforms.value_and_grad(f)(x.detach())
    rows = tk.transforms.vmap(f, in_dims=1)(tk.ones((2, 2), dtype=tk.float64))
    return first, second + both + value + rows.sum()


class Cube(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope: Tensor = g * 3 * x * x
        return slope


# ---- operators and modes of one's own


softsign = tk.library.pointwise(
    "typed::softsign(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x / (T(1) + s.abs(x)),
)


@tk.library.custom_op("typed::scale", mutates_args=())
def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    return tk.asarray(x.numpy() * factor)


@scale.register_fake
def _(x: Tensor, factor: float = 2.0) -> Tensor:
    return tk.empty(x.shape, dtype=x.dtype, device=x.device)


class Names(tk.dispatch.DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __tk_dispatch__(
        self, op: tk.dispatch.Operator, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.names.append(op.name)
        return op(*args, **kwargs)


class Celsius(tk.Tensor):
    unit = "°C"


def extend(x: Tensor) -> list[str]:
    with Names() as mode:
        scale(softsign(x), 3.0)
        Cube.apply(x)
    warm: Celsius = x.as_subclass(Celsius)
    return [*mode.names, warm.unit, tk.dispatch.explain(tk.add, x, x)]


# ---- random numbers, copies, printing, modules of the namespace


def draw(count: int) -> Tensor:
    tk.random.seed(0)
    generator = tk.random.Generator(1)
    noise = tk.random.normal((count, 2), std=0.1, generator=generator)
    rows = tk.random.permutation(count)
    return (noise + tk.random.uniform(count)[:, None])[rows] + tk.random.integers(0, 6, (count, 1))


def keep(x: Tensor) -> Tensor:
    again: Tensor = pickle.loads(pickle.dumps(x))
    with tk.printoptions(precision=2):
        text = repr(copy.deepcopy(again)) + f"{again.sum():.3f}"
    assert text
    assert tk.shares_storage(x, x.detach())
    return again.clone()


def store(x: Tensor, folder: Path) -> Tensor:
    tk.save({"x": x, "epoch": 3}, folder / "x.npz")
    tree: dict[str, Tensor] = tk.load(folder / "x.npz", device="cpu")
    return tree["x"]


def solve(a: Tensor, b: Tensor) -> Tensor:
    values, vectors = tk.linalg.eigh(a @ a.mT)
    sizes = tk.linalg.svd(a).S + tk.linalg.eigh(a @ a.mT).eigenvalues + values
    spectrum = tk.fft.irfft(tk.fft.rfft(sizes), n=2)
    return tk.linalg.solve(a, b) + tk.special.erf(vectors) + spectrum + tk.linalg.vector_norm(b, axis=0, ord=2)


def main() -> None:
    print([describe(x) for x in make()])
    x = tk.asarray([[1.0, -2.0], [3.0, 4.0]])
    print(convert(x), arithmetic(x, x.T), index(x.clone()), shapes(x), reduce(x))
    with tempfile.TemporaryDirectory() as folder:
        print(store(x, Path(folder)), solve(x, x))
    print(standardize(x, axis=0), attention(x, x, x), fit(x, x[:, :1]))
    print(gradients(lambda t: (t**2).sum(), tk.ones(2, dtype=tk.float64)), extend(x), draw(4), keep(x))


if __name__ == "__main__":
    main()
