"""Activation functions against their definitions, at ordinary places, far out, and where they have corners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk

X = np.array([-300.0, -50.0, -3.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, 30.0, 700.0])
ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
_tail = np.expm1(np.minimum(X, 0))
WANTED: dict[str, tuple[Callable[[tk.Tensor], tk.Tensor], Any]] = {
    "relu6": (tk.relu6, np.clip(X, 0, 6)),
    "hardtanh": (lambda x: tk.hardtanh(x, -2.0, 0.4), np.clip(X, -2.0, 0.4)),
    "leaky_relu": (lambda x: tk.leaky_relu(x, 0.25), np.where(X > 0, X, 0.25 * X)),
    "elu": (lambda x: tk.elu(x, 2.0), np.where(X > 0, X, 2 * _tail)),
    "selu": (tk.selu, SCALE * np.where(X > 0, X, ALPHA * _tail)),
    "mish": (tk.mish, X * np.tanh(np.logaddexp(0, X))),
    "softsign": (tk.softsign, X / (1 + np.abs(X))),
    "log_sigmoid": (tk.log_sigmoid, -np.logaddexp(0, -X)),
}


@pytest.mark.parametrize("name", WANTED)
def test_values_and_slopes(name: str) -> None:
    function, want = WANTED[name]
    x = tk.tensor(X, requires_grad=True)
    out = function(x)
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-13)
    out.sum().backward()
    assert x.grad is not None
    smooth = np.isin(X, [-3.0, -1.0, 0.5, 3.0, 30.0])  # no corner, and not beyond what a difference can resolve
    step = 1e-6
    ends = [function(tk.asarray(X + side)).numpy() for side in (step, -step)]
    np.testing.assert_allclose(x.grad.numpy()[smooth], ((ends[0] - ends[1]) / (2 * step))[smooth], atol=2e-8)
    assert np.isfinite(x.grad.numpy()).all()


def test_at_the_infinities() -> None:
    ends = tk.asarray([-np.inf, np.inf])
    want = {"relu6": [0, 6], "elu": [-1, np.inf], "mish": [0, np.inf], "softsign": [-1, 1], "log_sigmoid": [-np.inf, 0]}
    for name, values in want.items():
        assert getattr(tk, name)(ends).tolist() == values, name
        assert np.isnan(getattr(tk, name)(tk.asarray(np.nan)).item()), name


def test_dtypes() -> None:
    assert tk.relu6(tk.asarray([9, -1])).tolist() == [6, 0]
    assert tk.relu6(tk.asarray([9, -1])).dtype == tk.int64
    assert tk.elu(tk.asarray([1, 2])).dtype == tk.float32
    with pytest.raises(TypeError, match=r"\[tk::mish\]"):
        tk.mish(tk.asarray(1j))


def test_schema_of_a_decorated_expression() -> None:
    """``elementwise`` takes tensors from the parameters after T, and floats from those with defaults."""
    schema = tk.ops.tk.hardtanh.default.schema
    assert str(schema) == "tk::hardtanh(Tensor x, float low=-1.0, float high=1.0) -> Tensor"
    assert str(tk.ops.tk.heaviside.default.schema) == "tk::heaviside(Tensor x1, Tensor x2) -> Tensor"
