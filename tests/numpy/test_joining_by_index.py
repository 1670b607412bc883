"""``r_`` and ``c_`` of arrays that require a gradient, against NumPy's own; rows as a sequence; exact triangles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

_CASES: list[Callable[[Any, Any, Any], Any]] = [
    lambda lib, x, y: lib.r_[x, 1, y],
    lambda lib, x, y: lib.r_[1:4, 0, x],
    lambda lib, x, y: lib.r_["0,2", x, y],
    lambda lib, x, y: lib.r_["0,2,0", x, y],
    lambda lib, x, y: lib.r_["-1", x, 2.0],
    lambda lib, x, y: lib.r_["1,3,1", x, y],
    lambda lib, x, y: lib.r_["0,3,-1", x, y],
    lambda lib, x, y: lib.c_[x, y],
    lambda lib, x, y: lib.c_[x, 1:4],
]


@pytest.mark.parametrize("case", _CASES)
def test_joined_by_an_index(case: Callable[[Any, Any, Any], Any]) -> None:
    a, b = np.arange(3.0), np.arange(3.0) + 5
    found = case(tnp, tnp.array(a).requires_grad_(), tnp.array(b))
    assert found.requires_grad
    np.testing.assert_array_equal(found.detach().numpy(), case(np, a, b), strict=True)
    assert tk.grad(lambda x: tnp.sum(case(tnp, x, tnp.array(b)) * 2))(tnp.array(a)).tolist() == [2.0] * 3


def test_the_rows_of_an_array_are_a_sequence() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for name in ("vstack", "hstack", "concatenate", "stack", "dstack"):
        for given in (tnp.array(a), a):
            np.testing.assert_array_equal(getattr(tnp, name)(given), getattr(np, name)(a), strict=True)


def test_joined_arrays_of_several_dtypes() -> None:
    dtypes = ("?", "i8", "u8", "f4", "f8", "c8")
    for one, other in itertools.combinations([np.ones((2, 3), dtype) for dtype in dtypes], 2):
        for name in ("concatenate", "stack", "vstack", "hstack"):
            for _ in range(2):  # the second call knows the dtypes
                found = getattr(tnp, name)([tnp.array(one), tnp.array(other)])
                np.testing.assert_array_equal(found, getattr(np, name)([one, other]), strict=True)
    x, codes = tnp.ones(2).requires_grad_(), tnp.array([3, 4])
    assert tnp.concatenate((x, codes), axis=0).requires_grad
    with pytest.raises(np.exceptions.AxisError):
        tnp.concatenate((x, codes), axis=1)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_depends_on_one_triangle(uplo: str) -> None:
    """Its gradient is that of the function as computed: zero for the other triangle."""
    a = tnp.array(np.random.default_rng(0).standard_normal((4, 4))).requires_grad_()
    assert tk.autograd.gradcheck(lambda x: tuple(tnp.linalg.eigh(x, uplo)), (a,), check_forward_ad=True)
    assert tk.autograd.gradcheck(lambda x: tnp.linalg.eigvalsh(x, uplo), (a,))


def test_fabs() -> None:
    for given in (np.array([-1, 2]), np.array([-1.5, 2], np.float32), -2):
        found = tnp.fabs(tnp.array(given) if isinstance(given, np.ndarray) else given)
        np.testing.assert_array_equal(found, np.fabs(given))
        assert found.dtype == np.fabs(given).dtype
    assert tk.grad(lambda x: tnp.fabs(x))(tnp.array(-3.0)).item() == -1.0
