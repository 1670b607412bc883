"""Transforms under their short names, of Python numbers and NumPy arrays."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import transforms


def _cube(x: Any) -> Any:
    return x**3


def _energy(x: tk.Tensor) -> tk.Tensor:
    return tk.sum(x**3)


def test_short_names() -> None:
    for name in ("grad", "jvp", "vmap"):
        assert getattr(tk, name) is getattr(transforms, name)
        assert name in tk.__all__
        assert name in dir(tk)
    assert tk.vmap(tk.grad(_cube))(tk.asarray([1.0, 2.0])).tolist() == [3.0, 12.0]


def test_they_are_loaded_at_first_use() -> None:
    source = """
import sys, tenkey as tk
assert not [name for name in sys.modules if name.startswith("tenkey.transforms.reverse")]
from tenkey import *
assert grad is tk.grad is tk.transforms.grad and vmap is tk.transforms.vmap
"""
    subprocess.run([sys.executable, "-c", source], check=True)


def test_numbers() -> None:
    assert tk.grad(_cube)(3.0).item() == 27.0
    assert tk.grad(_cube)(3.0).dtype == tk.float32
    assert tk.grad(tk.grad(_cube))(3.0).item() == 18.0
    assert tk.grad(_cube)(np.float64(3.0)).dtype == tk.float64
    with tk.default_dtypes(real_floating=tk.float64):
        assert tk.grad(_cube)(3.0).dtype == tk.float64
    value, gradient = transforms.value_and_grad(_cube)(2.0)
    assert (value.item(), gradient.item()) == (8.0, 12.0)
    output, tangent = tk.jvp(_cube, (2.0,), (1.0,))
    assert (output.item(), tangent.item()) == (8.0, 12.0)
    output, pull = transforms.vjp(_cube, 2.0)
    assert pull(tk.asarray(1.0))[0].item() == 12.0
    output, push = transforms.linearize(_cube, 2.0)
    assert (output.item(), push(10.0).item()) == (8.0, 120.0)
    for transform in (transforms.jacrev, transforms.jacfwd):
        assert transform(_cube)(2.0).item() == 12.0
    assert transforms.hessian(_cube)(2.0).item() == 12.0
    gradients = tk.grad(lambda p: p["a"] ** 2 * p["b"])({"a": 3.0, "b": 2.0})
    assert {name: g.item() for name, g in gradients.items()} == {"a": 12.0, "b": 9.0}
    assert tk.grad(lambda z: tk.real(z * tk.conj(z)))(1.0 + 2.0j).item() == 2.0 + 4.0j


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays(dtype: str) -> None:
    x = np.array([1.0, -2.0, 3.0], dtype)
    want = 3 * x**2
    found = {
        "grad": tk.grad(_energy)(x),
        "value_and_grad": transforms.value_and_grad(_energy)(x)[1],
        "vjp": transforms.vjp(_cube, x)[1](tk.ones(3, dtype=dtype))[0],
        "jvp": tk.jvp(_cube, (x,), (np.ones(3, dtype),))[1],
        "linearize": transforms.linearize(_cube, x)[1](np.ones(3, dtype)),
        "jacrev": tk.linalg.diagonal(transforms.jacrev(_cube)(x)),
        "jacfwd": tk.linalg.diagonal(transforms.jacfwd(_cube)(x)),
        "vmap": tk.vmap(tk.grad(_cube))(x),
        "hessian": tk.linalg.diagonal(transforms.hessian(_energy)(x)) * x / 2,
    }
    wrong = {n: g for n, g in found.items() if g.dtype != dtype or not np.allclose(g.numpy(), want, rtol=1e-6)}
    assert not wrong
    assert x.tolist() == [1.0, -2.0, 3.0]
    assert tk.grad(_energy)(x[::-1]).tolist() == want[::-1].tolist()


def test_arrays_and_tensors_in_one_argument() -> None:
    parameters = {"w": tk.asarray([1.0, 2.0]), "b": np.array([3.0]), "rate": 0.5}
    found = tk.grad(lambda p: tk.sum(p["w"] * p["b"]) * p["rate"])(parameters)
    assert found["w"].tolist() == [1.5, 1.5]
    assert found["b"].tolist() == [1.5]
    assert found["rate"] is None  # beside tensors a number is a constant


def test_what_has_no_derivative_is_refused() -> None:
    for x in (3, True, np.array([1, 2]), "x", None, np.array(["a"])):
        with pytest.raises(TypeError, match=r"\[grad\] argument 0 holds no floating or complex tensor"):
            tk.grad(_cube)(x)
    with pytest.raises(ValueError, match="tangent 0 must be a Tensor of shape"):
        tk.jvp(_cube, (np.ones(2),), (np.ones(3),))
    with pytest.raises(ValueError, match="We cannot vmap over non-Tensor arguments"):
        tk.vmap(_cube)([1.0, 2.0])
