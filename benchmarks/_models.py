"""Training steps and other programs with gradients, written for tenkey and for PyTorch alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["Program", "gpt", "kalman", "logistic_regression", "mlp"]

Program = Callable[[Any], Callable[[], Any]]
"""A function of a library, which returns a step without arguments; a step returns what is compared."""


def _leaf(library: Any, array: np.ndarray[Any, Any]) -> Any:
    return library.tensor(array.astype(np.float32), requires_grad=True)


def _constant(library: Any, array: np.ndarray[Any, Any]) -> Any:
    return library.tensor(array if array.dtype.kind == "i" else array.astype(np.float32))


def _descend(library: Any, parameters: Sequence[Any], rate: float) -> None:
    with library.no_grad():
        for parameter in parameters:
            parameter -= rate * parameter.grad
            parameter.grad = None


def mlp(sizes: Sequence[int], batch: int) -> Program:
    """Return steps of gradient descent of a classifier with layers of these widths."""

    def make(library: Any) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        x = _constant(library, rng.standard_normal((batch, sizes[0])))
        label = _constant(library, rng.integers(0, sizes[-1], batch))
        weights = [_leaf(library, rng.standard_normal(pair) / pair[0] ** 0.5) for pair in pairwise(sizes)]
        biases = [_leaf(library, np.zeros(size)) for size in sizes[1:]]
        rows = library.arange(batch)

        def step() -> Any:
            h = x
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                h = h @ weight + bias
                if layer < len(weights) - 1:
                    h = library.relu(h)
            loss = -library.log_softmax(h, -1)[rows, label].mean()
            loss.backward()
            _descend(library, [*weights, *biases], 0.01)
            return loss

        return step

    return make


def logistic_regression(samples: int, features: int, steps: int) -> Program:
    """Return runs of gradient descent from zero, with a penalty on the weights."""

    def make(library: Any) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        points = rng.standard_normal((samples, features))
        truth = rng.standard_normal(features)
        x = _constant(library, points)
        y = _constant(library, (points @ truth + rng.standard_normal(samples) > 0) * 2.0 - 1.0)

        def fit() -> Any:
            w, b = _leaf(library, np.zeros(features)), _leaf(library, np.zeros(()))
            for _ in range(steps):
                margin = y * (x @ w + b)
                loss = library.log1p(library.exp(-margin)).mean() + 1e-3 * (w * w).sum()
                loss.backward()
                _descend(library, [w, b], 0.5)
            return w

        return fit

    return make


def gpt(*, layers: int, heads: int, width: int, vocabulary: int, tokens: int, gradient: bool) -> Program:
    """Return passes through a transformer like GPT-2, a head at a time as in a first implementation.

    With ``gradient``, the next tokens' mean cross-entropy is differentiated, and one parameter's gradient compared.
    """

    def make(library: Any) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        made: list[Any] = []

        def weight(*shape: int, scale: float = 0.02, shift: float = 0.0) -> Any:
            array = shift + scale * rng.standard_normal(shape)
            made.append(_leaf(library, array) if gradient else _constant(library, array))
            return made[-1]

        def linear(inputs: int, outputs: int) -> tuple[Any, Any]:
            return weight(inputs, outputs), weight(outputs)

        def norm() -> tuple[Any, Any]:
            return weight(width, shift=1.0), weight(width)

        embedding, positions, final = weight(vocabulary, width), weight(tokens, width), norm()
        blocks = [
            (
                norm(),
                linear(width, 3 * width),
                linear(width, width),
                norm(),
                linear(width, 4 * width),
                linear(4 * width, width),
            )
            for _ in range(layers)
        ]
        text = _constant(library, rng.integers(0, vocabulary, tokens + 1))
        mask = _constant(library, (1 - np.tri(tokens)) * -1e10)
        last = library.arange(tokens)

        def gelu(x: Any) -> Any:
            return 0.5 * x * (1 + library.tanh(0.7978845608 * (x + 0.044715 * x**3)))

        def normalize(x: Any, scale: Any, shift: Any) -> Any:
            mean = x.mean(-1)[:, None]
            variance = ((x - mean) ** 2).mean(-1)[:, None]
            return scale * (x - mean) / library.sqrt(variance + 1e-5) + shift

        def attention(q: Any, k: Any, v: Any) -> Any:
            return library.softmax(q @ k.T / q.shape[-1] ** 0.5 + mask, -1) @ v

        def attend(x: Any, qkv: Any, project: Any) -> Any:
            x = x @ qkv[0] + qkv[1]
            size = width // heads
            parts = [[x[:, i * width + h * size : i * width + (h + 1) * size] for h in range(heads)] for i in range(3)]
            return library.hstack([attention(*part) for part in zip(*parts)]) @ project[0] + project[1]

        def forward() -> Any:
            x = embedding[text[:-1]] + positions
            for before, qkv, project, between, up, down in blocks:
                x = x + attend(normalize(x, *before), qkv, project)
                x = x + (gelu(normalize(x, *between) @ up[0] + up[1]) @ down[0] + down[1])
            return normalize(x, *final) @ embedding.T

        def differentiate() -> Any:
            loss = -library.log_softmax(forward(), -1)[last, text[1:]].mean()
            loss.backward()
            found = positions.grad
            for parameter in made:
                parameter.grad = None
            return found

        return differentiate if gradient else forward

    return make


def kalman(steps: int) -> Program:
    """Return runs of a filter that tracks a point with constant velocity in the plane, in float64."""

    def make(library: Any) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        truth = np.cumsum(rng.standard_normal((steps, 2)) * 0.1 + 0.5, axis=0)
        array = library.tensor if hasattr(library, "tensor") else np.asarray
        seen = [array(point) for point in truth + rng.standard_normal((steps, 2))]
        motion = np.eye(4)
        motion[0, 2] = motion[1, 3] = 1.0
        f, h = array(motion), array(np.eye(2, 4))
        q, r = array(0.01 * np.eye(4)), array(np.eye(2))
        unit, start = array(np.eye(4)), array(np.zeros(4))

        def track() -> Any:
            x, p = start, unit
            for z in seen:
                x, p = f @ x, f @ p @ f.T + q
                gain = p @ h.T @ library.linalg.inv(h @ p @ h.T + r)
                x = x + gain @ (z - h @ x)
                p = (unit - gain @ h) @ p
            return x

        return track

    return make
