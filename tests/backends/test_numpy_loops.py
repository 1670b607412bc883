"""NumPy's inner loops by address: Note [NumPy's loops by address] in ``tenkey/backends/cpu/loops/numpy_loops.py``."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from tenkey.backends.cpu.loops import numpy_loops
from tenkey.backends.cpu.loops.numpy_loops import numpy_loop

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def _run(ufunc: np.ufunc, operands: list[np.ndarray[Any, Any]], result: Any, gap: int = 1) -> np.ndarray[Any, Any]:
    """Call the inner loop itself; the results are ``gap`` elements apart."""
    out = np.zeros(operands[0].size * gap, result)[::gap]
    arrays = [*operands, out]
    loop = numpy_loop(ufunc, [a.dtype for a in arrays])
    assert loop is not None
    count = len(arrays)
    args = (ctypes.c_void_p * count)(*[a.ctypes.data for a in arrays])
    steps = (ctypes.c_int64 * count)(*[a.strides[0] for a in arrays])
    _LOOP(loop.address)(args, ctypes.byref(ctypes.c_int64(out.size)), steps, loop.data or None)
    return out


_DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
_UFUNCS = [
    np.add, np.multiply, np.floor_divide, np.maximum, np.less, np.equal, np.logical_and, np.arctan2, np.exp, np.sqrt,
    np.absolute, np.logical_not, np.bitwise_xor, np.sign, np.rint, np.tanh, np.power,
]  # fmt: skip


@pytest.mark.parametrize("ufunc", _UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_loops_compute_what_their_ufunc_computes(ufunc: Any) -> None:
    rng = np.random.default_rng(0)
    failed, seen = [], 0
    for code in _DTYPES:
        values = [rng.integers(1, 100, 64).astype(code)[::2] for _ in range(ufunc.nin)]
        try:
            with np.errstate(all="ignore"):
                want = ufunc(*values)
        except TypeError:
            continue
        if numpy_loop(ufunc, [*[v.dtype for v in values], want.dtype]) is None:
            continue
        seen += 1
        if not np.array_equal(_run(ufunc, values, want.dtype), want, equal_nan=want.dtype.kind in "fc"):
            failed.append(code)
    assert not failed
    assert seen >= 3


def test_results_with_gaps() -> None:
    """Some loops of NumPy's are wrong there, and must not be used."""
    rng = np.random.default_rng(1)
    failed, seen = [], 0
    choices = itertools.product([*_UFUNCS, np.isnan, np.isinf, np.isfinite, np.negative, np.signbit], ["f4", "f8"])
    for (ufunc, code), (gap, step) in itertools.product(choices, [(3, 1), (3, 8), (4, 2)]):
        numbers = rng.choice([-3.0, -0.0, 0.5, np.inf, np.nan], (ufunc.nin, 100 * step)).astype(code)
        values = [one[::step] for one in numbers]
        with np.errstate(all="ignore"):
            want = ufunc(*[v.copy() for v in values]) if ufunc is not np.bitwise_xor else None
        if want is None or numpy_loop(ufunc, [*[v.dtype for v in values], want.dtype]) is None:
            continue
        seen += 1
        if not np.array_equal(_run(ufunc, values, want.dtype, gap), want, equal_nan=want.dtype.kind == "f"):
            failed.append(f"{ufunc.__name__} {code} {gap} {step}")
    assert not failed
    assert seen > 60


def test_combinations_without_a_loop() -> None:
    float32, int32, swapped = np.dtype("f4"), np.dtype("i4"), np.dtype(">f4")
    assert numpy_loop(np.add, [float32, int32, float32]) is None  # NumPy converts first
    assert numpy_loop(np.add, [float32, float32]) is None
    assert numpy_loop(np.add, [swapped] * 3) is None
    assert numpy_loop(np.add, [np.dtype(object)] * 3) is None
    assert numpy_loop(np.power, [int32] * 3) is None  # raises for negative exponents
    assert numpy_loop(np.matmul, [float32] * 3) is None  # its loop has other dimensions


def test_another_layout_of_ufuncs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields are compared before the first use; a struct that begins elsewhere has other contents."""
    float32 = np.dtype("f4")
    numpy_loops._known.cache_clear()
    monkeypatch.setattr(numpy_loops, "_HEAD", numpy_loops._HEAD + 4)
    try:
        assert numpy_loop(np.add, [float32] * 3) is None
    finally:
        monkeypatch.undo()
        numpy_loops._known.cache_clear()
    assert numpy_loop(np.add, [float32] * 3) is not None
