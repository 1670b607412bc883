"""A NumPy program on tenkey.numpy, with the types that checkers see (tests/package/test_typing.py)."""

from __future__ import annotations

from typing import Any, assert_type

import tenkey as tk
import tenkey.numpy as np


def create() -> list[np.ndarray]:
    made = [
        np.array([[1, 2], [3, 4.5]]),
        np.zeros((2, 3), dtype=np.float32),
        np.full(3, 7.0),
        np.arange(5),
        np.arange(0, 1, 0.25),
        np.linspace(0.0, 1.0, num=4, endpoint=False),
        np.eye(3, k=1),
        np.ones_like(np.arange(3), dtype=float),
        np.asarray(range(3)),
    ]
    grid, other = np.meshgrid([1, 2], [3, 4], indexing="ij")
    points, step = np.linspace(0, 1, 5, retstep=True)
    return [*made, assert_type(grid, np.ndarray), other, assert_type(points, np.ndarray), step]


def arithmetic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    assert_type(a + b, np.ndarray)
    assert_type(2**a - [1, 2], np.ndarray)
    assert_type(a @ b, np.ndarray)
    assert_type(a == b, np.ndarray)
    assert_type((a < 1) & ~(b != 2), np.ndarray)
    assert_type(divmod(a, 2), tuple[np.ndarray, np.ndarray])
    a += 1
    a[a > 2] = 0
    a[0, :] = [1, 2]
    for row in a:
        assert_type(row, np.ndarray)
    return assert_type(-abs(a[..., None, ::2]), np.ndarray)


def functions(x: np.ndarray) -> dict[str, np.ndarray]:
    assert_type(np.exp(x), np.ndarray)
    assert_type(np.modf(x), tuple[np.ndarray, np.ndarray])
    assert_type(np.add.reduce(x, axis=0), np.ndarray)
    assert_type(np.multiply.outer([1, 2], x), np.ndarray)
    assert_type(np.add(x, 1, out=np.zeros((2, 2)), where=x > 0), np.ndarray)
    assert_type(np.matmul(x, x), np.ndarray)
    assert_type(np.shape(x), tuple[int, ...])
    assert_type(np.ndim(x), int)
    assert_type(np.allclose(x, x, rtol=1e-3), bool)
    assert_type(np.array_equal(x, [1, 2]), bool)
    assert_type(np.nonzero(x), tuple[np.ndarray, ...])
    assert_type(np.where(x > 0), tuple[np.ndarray, ...])
    assert_type(np.split(x, 2), list[np.ndarray])
    values, counts = np.unique(x, return_counts=True)
    return {
        "total": assert_type(np.sum(x, axis=(0, 1), keepdims=True), np.ndarray),
        "spread": assert_type(np.std(x, axis=0, ddof=1), np.ndarray),
        "median": np.median(x, axis=1) + np.percentile(x, [25, 75], axis=0),
        "chosen": assert_type(np.where(x > 0, x, 0.0), np.ndarray),
        "joined": np.concatenate([x, np.stack([x, x])[0]], axis=1),
        "clipped": np.clip(x, 0, None) + np.clip(x, min=0, max=1),
        "sorted": np.sort(x, axis=None)[np.argsort(x, axis=None, kind="stable")],
        "unique": assert_type(np.unique(x), np.ndarray),
        "values": values, "counts": counts,
        "product": np.einsum("ij,jk->ik", x, x) + np.tensordot(x, x, axes=1) + np.dot(x, x),
    }  # fmt: skip


def methods(x: np.ndarray) -> np.ndarray:
    assert_type(x.T, np.ndarray)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.sum(axis=0, keepdims=True), np.ndarray)
    assert_type(x.mean(), np.ndarray)
    assert_type(x.max(axis=1).argsort(), np.ndarray)
    assert_type(x.reshape(-1, 1).ravel(), np.ndarray)
    assert_type(x.astype(np.int64).copy(), np.ndarray)
    assert_type(x.dot(x).exp(), np.ndarray)
    x.sort(axis=0)
    x.fill(1)
    x.shape = (2, 2)
    assert x.flags.c_contiguous
    return x.transpose(1, 0).flatten()


def modules(a: np.ndarray) -> np.ndarray:
    assert_type(np.linalg.inv(a), np.ndarray)
    assert_type(np.linalg.norm(a, axis=0, ord=2), np.ndarray)
    vectors = assert_type(np.linalg.eigh(a).eigenvectors, np.ndarray)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    assert_type(np.linalg.svd(a, compute_uv=False), np.ndarray)
    assert_type(np.fft.ifft(np.fft.fft(a, n=2), norm="ortho"), np.ndarray)
    rng = np.random.default_rng(7)
    assert_type(rng.normal(), float)
    assert_type(rng.normal(0.0, 1.0, size=(2, 2)), np.ndarray)
    assert_type(rng.random((2, 2), dtype=np.float32), np.ndarray)
    assert_type(rng.integers(0, 6, 3), np.ndarray)
    np.random.seed(0)
    assert_type(np.random.uniform(-1, 1, size=3), np.ndarray)
    return u * s @ vh + vectors + np.random.randn(2, 2)


def gradient(x: np.ndarray) -> Any:
    w = x.requires_grad_()
    assert_type((w**2).sum().detach(), np.ndarray)

    def loss(v: np.ndarray) -> np.ndarray:
        return np.sum(np.sin(v))

    return tk.grad(loss)(x.detach())


def main() -> None:
    x = np.array([[2.0, 1.0], [1.0, 3.0]])
    print(create(), arithmetic(x.copy(), x), functions(x), methods(x.copy()), modules(x), gradient(x.copy()))
    print(np.pi, np.float32, np.finfo(float).eps, np.newaxis, np.s_[1:2])


if __name__ == "__main__":
    main()
