"""Note [Arrays made of numbers]: functions that make arrays, beside NumPy's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

from .test_array_class import A, I, same

CALLS: dict[str, Callable[[Any], Any]] = {
    "array": lambda m: m.array([[1, 2.5], [True, 4]], ndmin=3), "array of numbers": lambda m: m.array(3, dtype="f4"),
    "array from rows": lambda m: m.array([m.arange(3), [1.5, 2, 3]]), "asarray": lambda m: m.asarray(I, "f4"),
    "big endian": lambda m: m.array(np.arange(3, dtype=">f8")).sum(),
    "ascontiguousarray": lambda m: m.ascontiguousarray(3.0), "asfortranarray": lambda m: m.asfortranarray(A),
    "copy": lambda m: m.copy(m.array(A), "F"), "require": lambda m: m.require(m.array(A), "f4", ["F", "W"]),
    "zeros": lambda m: m.zeros((2, 3)), "ones": lambda m: m.ones(4, int), "full": lambda m: m.full((2, 2), 7),
    "full of a row": lambda m: m.full((2, 3), m.array([1, 2, 3]), dtype=float),
    "zeros_like": lambda m: m.zeros_like(I), "ones_like": lambda m: m.ones_like(m.array(A), dtype=int, shape=(3,)),
    "full_like": lambda m: m.full_like(m.array(A), [1, 2, 3]), "arange": lambda m: m.arange(1, 2, 0.1),
    "arange of a scalar": lambda m: m.arange(np.float32(3)), "eye": lambda m: m.eye(2, 3, k=1),
    "identity": lambda m: m.identity(2, int), "tri": lambda m: m.tri(3, 4, -1),
    "linspace": lambda m: m.linspace(0, 1, 7), "linspace and step": lambda m: m.linspace(0, 1, 5, False, True),
    "linspace between rows": lambda m: m.linspace(m.array([0.0, 1.0]), m.array([2, 5]), 4, axis=1),
    "linspace of integers": lambda m: m.linspace(m.array(0), m.array(9), 4, dtype=int),
    "logspace": lambda m: m.logspace(0, 2, 5), "logspace between rows": lambda m: m.logspace(m.array([0, 1]), 2, 3),
    "geomspace": lambda m: m.geomspace(1, 1000, 4), "geomspace of arrays": lambda m: m.geomspace(m.array(1.0), 8, 4),
    "fromfunction": lambda m: m.fromfunction(lambda i, j: 10 * i + j, (2, 3)), "indices": lambda m: m.indices((2, 3)),
    "fromiter": lambda m: m.fromiter(range(3), float), "frombuffer": lambda m: m.frombuffer(b"abcd", "u1"),
    "loadtxt": lambda m: m.loadtxt(StringIO("1 2\n3 4")), "meshgrid": lambda m: m.meshgrid([1, 2], [3, 4, 5]),
    "tril_indices": lambda m: m.tril_indices(3, 1, 4), "diag_indices": lambda m: m.diag_indices(3, 3),
    "mask_indices": lambda m: m.mask_indices(3, m.triu, 1), "tril of a vector": lambda m: m.tril(m.arange(3)),
    "diag of a list": lambda m: m.diag([1, 2], -1), "hanning": lambda m: m.hanning(5),
    "atleast_2d": lambda m: m.atleast_2d([1, 2]), "atleast_3d of two": lambda m: m.atleast_3d(A, 2.0),
    "broadcast_arrays": lambda m: m.broadcast_arrays([1, 2], [[3], [4]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arrays_are_numpys(name: str) -> None:
    same(CALLS[name](tnp), CALLS[name](np))


def test_memory_is_shared_where_numpy_shares_it() -> None:
    its = A.copy()
    tnp.asarray(its)[0, 0] = 77.0
    assert its[0, 0] == 77.0
    tnp.array(its)[0, 0] = 5.0
    assert its[0, 0] == 77.0
    x = tnp.array(A)
    assert tnp.asarray(x) is x
    assert tnp.array(x, copy=None) is x
    assert tnp.array(x) is not x
    for given in ([1, 2], x.T):
        with pytest.raises(ValueError, match=r"Unable to avoid copy"):
            tnp.array(given, copy=False, order="C")


def test_gradients_reach_what_arrays_are_made_of() -> None:
    x = tnp.array([1.0, 2.0])
    for call, want in (
        (lambda v: tnp.array([v[0], [v[1], 3.0][0]]).sum(), [1, 1]),
        (lambda v: tnp.full((3,), v[0]).sum(), [3, 0]),
        (lambda v: tnp.full_like(tnp.zeros((3, 2)), v).sum(), [3, 3]),
        (lambda v: tnp.linspace(v[0], v[1], 3)[1], [0.5, 0.5]),
        (lambda v: tnp.geomspace(v[0], v[1], 3)[0], [1, 0]),
        (lambda v: tnp.asfortranarray(v).sum(), [1, 1]),
        (lambda v: tnp.atleast_2d(v)[0, 1], [0, 1]),
        (lambda v: tnp.broadcast_arrays(v, tnp.ones((4, 1)))[0].sum(), [4, 4]),
    ):
        same(tk.grad(call)(x), np.array(want, float))
    with pytest.raises(RuntimeError, match=r"requires grad"):
        tk.grad(lambda v: tnp.arange(v[0]).sum())(x)


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"arrays of dtype <U1 do not exist here"):
        tnp.array(["a"])
    with pytest.raises(TypeError, match=r"Use \(\)"):
        tnp.zeros(None)
    with pytest.raises(ValueError, match=r"infs or NaNs"):
        tnp.asarray_chkfinite([1.0, np.inf])
    with pytest.raises(ValueError, match=r"both 'C' and 'F'"):
        tnp.require(A, requirements="CF")


@pytest.mark.parametrize("method", ["__array_struct__", "__array_interface__", "__array__", "__buffer__", "__len__"])
def test_an_object_that_empties_the_list_it_is_in(method: str) -> None:
    """NumPy itself ends the process for some of them."""
    code = f"""
import contextlib, numpy
import tenkey.numpy as np

def emptying(items):
    def run(self, *given, **options):
        items.clear()
        return numpy.ones(4)

    is_attribute = "struct" in {method!r} or "interface" in {method!r}
    return type("Emptying", (), {{{method!r}: property(run) if is_attribute else run}})()

for use in (np.array, np.asarray, np.sum, np.stack, lambda items: np.zeros(4).__setitem__(..., items)):
    for outer in (False, True):
        for _ in range(20):
            items = [0, 1, 2]
            items[0] = emptying(items)
            with contextlib.suppress(Exception):
                use([items, [1, 2, 3]] if outer else items)
"""
    environment = {**os.environ, "PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
