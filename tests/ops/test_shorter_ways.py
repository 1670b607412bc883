"""Composites with a shorter way on NumPy arrays: it gives what the composition gives, or leaves the call to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey._util import numpy_internals as numpy_functions
from tenkey.core.lift import weak_tensor

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *[
        ("clip", (np.array([-3, 0, 9]).astype(dtype), low, high), {})
        for dtype in ("int8", "int64", "float16", "float32", "float64")
        for low, high in ((-1, 2), (None, 300), (-1.5, None), (0, 2.5), (True, 5), (None, None))
    ],
    ("clip", (np.ones(3, np.float32), np.zeros(3), None), {}),
    ("stack", ([np.ones(2), np.ones(2, np.float32)],), {}),
    ("stack", ([np.ones((2, 3)), np.zeros((2, 3))],), {"axis": -1}),
    ("stack", ([np.ones((2, 3)), np.zeros((2, 3))],), {"axis": 1}),
    ("take", (np.arange(6.0).reshape(2, 3).T, np.array([-1, 0], np.int8)), {"axis": 1}),
    ("roll", (np.arange(6.0).reshape(2, 3).T, -4), {"axis": -1}),
    ("roll", (np.arange(6.0), 7), {}),
    ("stack", ([np.ones(()), np.zeros(())],), {"axis": -1}),
    ("pad", (np.arange(6.0).reshape(2, 3).T, 1), {}),
    ("pad", (np.arange(6.0).reshape(2, 3), ((1, 0), (0, 2))), {}),
    ("pad", (np.ones((2, 0)), (1, 2)), {}),
    ("pad", (np.ones(()), 3), {}),
    ("pad", (np.ones(2, np.float32), 1), {"constant_values": -0.0}),
    ("pad", (np.ones(2), 1, "edge"), {}),
    ("tile", (np.arange(6.0).reshape(2, 3).T, (2, 1)), {}),
    ("tile", (np.arange(3.0), (2, 1, 2)), {}),
    ("tile", (np.ones((2, 3)), (3,)), {}),
    ("tile", (np.ones(()), (2, 0)), {}),
    ("tile", (np.ones((0, 2)), (1 << 40, 3)), {}),
    ("repeat", (np.arange(6.0).reshape(2, 3).T, 2), {}),
    ("repeat", (np.arange(6.0).reshape(2, 3), 3), {"axis": -2}),
    ("repeat", (np.ones(()), 3), {}),
    ("repeat", (np.arange(3.0), np.array([2, 0, 1])), {}),
    ("tril", (np.arange(6.0).reshape(2, 3).T, 1), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_the_composition_gives_the_same(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    def tensors(value: Any) -> Any:
        if isinstance(value, list):
            return [tensors(item) for item in value]
        return tk.asarray(value) if isinstance(value, np.ndarray) else value

    def whole(*given: Any, **options: Any) -> Any:
        return getattr(tk, name)(*given, **options)

    args = tuple([tensors(value) for value in args])
    found = whole(*args, **kwargs)
    first = args[0][0] if isinstance(args[0], list) else args[0]
    if first.dtype.kind == "f":  # a call that records a gradient goes the long way
        leaf = first.detach().requires_grad_()
        given = [leaf, *args[0][1:]] if isinstance(args[0], list) else leaf
        long = whole(given, *args[1:], **kwargs)
        assert long.requires_grad
        long = long.detach()
    else:
        lifted = [weak_tensor(value) if isinstance(value, (bool, int, float)) else value for value in args]
        long = getattr(tk.ops.tk, name).default.facets["Composite"].function(*lifted, **kwargs)
    assert (found.dtype, found.shape, found.tolist()) == (long.dtype, long.shape, long.tolist())
    assert found.is_contiguous


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: tk.pad(x, -1), "negative"),
        (lambda x: tk.pad(x, ((1, 1), (1, 1), (1, 1))), "pad_width"),
        (lambda x: tk.pad(x, 1, constant_values=1j), "cannot stand"),
        (lambda x: tk.tile(x, -1), "0 times or more"),
        (lambda x: tk.repeat(x, -1), "0 times or more"),
        (lambda x: tk.repeat(x, 2, axis=3), "out of range"),
        (lambda x: tk.repeat(x[0, 0], 2, axis=0), "out of range"),
        (lambda x: tk.stack([x, x], axis=4), "out of range"),
        (lambda x: tk.stack([x, x[0]], axis=-1), "must all be the same"),
    ],
)
def test_the_composition_explains_errors(call: Any, error: str) -> None:
    for x in (tk.ones((2, 3)), tk.ones((400, 300))):
        with pytest.raises((ValueError, IndexError, TypeError), match=error):
            call(x)


def test_functions_of_numpy() -> None:
    """tenkey/_util/numpy_internals.py: they give what the public ones give, whether this NumPy has them or not."""
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32", "float64", "int8", "uint64", "bool"):
        x = rng.integers(0, 3, (3, 4)).astype(dtype)
        assert numpy_functions.count_nonzero(x) == np.count_nonzero(x)
        joined = numpy_functions.concatenate([x, x], 1)
        np.testing.assert_array_equal(joined, np.concatenate([x, x], 1), strict=True)
        if dtype != "bool":
            for clip in (numpy_functions.clip, numpy_functions._clip):
                np.testing.assert_array_equal(clip(x, 1, 2), np.clip(x, 1, 2), strict=True)
                np.testing.assert_array_equal(clip(x, 2, 1), np.clip(x, 2, 1), strict=True)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    for low, high in ((-1, 1), (np.array(np.nan, np.float32), np.array(1, np.float32))):
        np.testing.assert_array_equal(numpy_functions.clip(odd, low, high), numpy_functions._clip(odd, low, high))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 3, 2), (0,), (0, 2), (3, 0)])
def test_nonzero_takes_its_table_apart(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(1).integers(0, 2, shape)
    for given in (a, a.T, a[::-1].astype(bool), a.astype(np.float32)):
        found, want = tk.nonzero(tk.asarray(given)), given.nonzero()
        assert [x.tolist() for x in found] == [x.tolist() for x in want]
        assert all(x.dtype == np.int64 and x.is_contiguous for x in found)
        for x in found:  # memory of their own
            x += 1
        assert [x.tolist() for x in found] == [(x + 1).tolist() for x in want]


def test_zeros_keep_their_sign() -> None:
    """Python numbers are remembered by value: 0.0 and -0.0 are equal, and so are 0, False and 0j."""
    x = tk.asarray([1.0])
    for value in (0.0, -0.0, 0, False, -0.0, 0.0, 0j, complex(0.0, -0.0), complex(-0.0, 0.0), 0):
        got, want = (x * value).numpy(), np.ones(1, np.float32) * value
        assert got.dtype == want.dtype
        assert np.signbit(got.real) == np.signbit(want.real)
        assert np.signbit(got.imag) == np.signbit(want.imag)
    for value in (-0.0, 0.0, 0):
        want = np.pad(np.ones(1, np.float32), 1, constant_values=value)
        np.testing.assert_array_equal(np.signbit(tk.pad(x, 1, constant_values=value).numpy()), np.signbit(want))
