"""``tenkey.numpy.lib.stride_tricks``, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy.lib.stride_tricks import as_strided, sliding_window_view

_THEIRS = np.lib.stride_tricks


@pytest.mark.parametrize(
    ("shape", "window", "axis"),
    [((5,), 3, None), ((4, 5), (2, 3), None), ((4, 5), 2, 1), ((4, 5), (2, 2), (0, 0)), ((3, 4, 5), (2, 3), (-1, 0))],
)
def test_sliding_windows(shape: Any, window: Any, axis: Any) -> None:
    a = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    want = _THEIRS.sliding_window_view(a, window, axis)
    np.testing.assert_array_equal(sliding_window_view(tnp.array(a), window, axis), want, strict=True)
    found = tk.grad(lambda x: tnp.sum(sliding_window_view(x, window, axis)))(tnp.array(a))
    np.testing.assert_array_equal(found, np.bincount(want.ravel().astype(int), minlength=a.size).reshape(shape))


def test_windows_that_do_not_fit() -> None:
    x = tnp.zeros((2, 3))
    for window, axis, match in ((4, 1, "longer"), ((1, 1), 0, "one for each axis"), (-1, 0, "negative")):
        with pytest.raises(ValueError, match=match):
            sliding_window_view(x, window, axis)


def test_strides() -> None:
    a = np.arange(24, dtype=np.int32).reshape(4, 6)
    for given in (a, a.T, a[1:, ::2]):
        steps = given.strides
        for shape, strides in (
            ((2, 2, 2, 2), steps + steps),
            ((3,), (sum(steps),)),
            ((2, 3), (0, steps[0])),
            (None, None),
        ):
            want = _THEIRS.as_strided(given, shape, strides)
            np.testing.assert_array_equal(as_strided(tnp.asarray(given), shape, strides), want, strict=True)
    assert tk.grad(lambda x: tnp.sum(as_strided(x, (2, 2), (8, 8))))(tnp.array([1.0, 2.0, 3.0])).tolist() == [1, 2, 1]
    with pytest.raises(ValueError, match="not elements"):
        as_strided(tnp.arange(3), (4,), (8,))
    with pytest.raises(ValueError, match="one stride for each"):
        as_strided(tnp.arange(3), (2, 1), (8,))


def test_other_names_are_numpys() -> None:
    assert tnp.lib.NumpyVersion is np.lib.NumpyVersion
    assert tnp.lib.stride_tricks.as_strided is as_strided
