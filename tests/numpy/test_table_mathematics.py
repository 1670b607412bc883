"""Functions of ``tenkey.numpy`` give NumPy's values, dtypes, shapes, classes and errors, for several dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey.numpy as tnp
from tests._tiers import tier
from tests.numpy._calls import CALLS
from tests.numpy._outcomes import counterpart

DTYPES = tier(("bool", "int64", "float32"), ("bool", "int8", "uint8", "int64", "float32", "complex64"))
# calls that are not compared: NumPy's poly is real where the zeros are pairs, kaiser takes a number for these dtypes
DIFFERENT: dict[str, tuple[str, ...]] = {"poly": ("complex64",), "kaiser": DTYPES}


def _outcome(call: Any, xp: Any, values: Any) -> Any:
    try:
        return call(xp, values)
    except Exception as error:  # any of them: its class is compared
        return error


def _compare(mine: Any, its: Any) -> None:
    if isinstance(its, (tuple, list)):
        assert type(mine).__name__ == type(its).__name__
        assert len(mine) == len(its)
        for one, other in zip(mine, its, strict=True):
            _compare(one, other)
        return
    assert type(mine) is counterpart(its), type(mine)
    assert mine.dtype == its.dtype
    assert mine.shape == its.shape
    rough = its.dtype.kind in "fc" and its.dtype.itemsize < (16 if its.dtype.kind == "c" else 8)
    coarse = its.dtype == np.float16
    tolerance = 3e-2 if coarse else 2e-4 if rough else 1e-9
    np.testing.assert_allclose(np.asarray(mine), its, rtol=tolerance, atol=tolerance)


@pytest.mark.wider
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_values_and_dtypes(name: str) -> None:
    call, values = CALLS[name]
    if np.isnan(values).any():
        values = np.nan_to_num(values)
    failures = []
    for dtype in DTYPES:
        if dtype in DIFFERENT.get(name, ()):
            continue
        operand = values.astype(dtype)
        want = _outcome(call, np, operand.copy())
        got = _outcome(call, tnp, tnp.array(operand))
        try:
            if isinstance(want, Exception):
                kind = next(k for k in (np.linalg.LinAlgError, TypeError, ValueError, Exception) if isinstance(want, k))
                assert isinstance(got, kind), f"{got!r} in the place of {want!r}"
            elif isinstance(got, Exception):
                raise got
            else:
                _compare(got, want)
        except Exception as failure:  # every dtype is checked
            failures.append(f"{dtype}: {type(failure).__name__} {str(failure)[:300]}")
    assert not failures, "\n".join(failures)


class _AsArray:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.value, dtype)


@pytest.mark.parametrize(
    "name",
    ["max", "min", "sum", "sort", "cumsum", "argmax", "around", "unique", "ravel", "shape", "tril", "trapezoid"],
)
def test_objects_that_export_arrays(name: str) -> None:
    """Each object is at the address of the one before it, which has another dtype."""
    for make in (_AsArray, lambda value: memoryview(np.atleast_1d(value))):
        for value in ([2.0, 1.0], [1, 2], [1j, 2j], np.float32([2, 5]), [False, True], 2 * [[3.5, 1.25]]) * 2:
            try:
                wanted = getattr(np, name)(make(value))  # type: ignore[no-untyped-call]
            except TypeError:
                continue
            found = getattr(tnp, name)(make(value))  # type: ignore[no-untyped-call]
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["sort", "median", "unique", "ravel", "max"])
def test_objects_whose_export_fails(name: str) -> None:
    class OnDevice:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise TypeError("it is on a device")

    with pytest.raises(TypeError, match="it is on a device"):
        getattr(tnp, name)(OnDevice())
