"""array-api-extra's functions on tensors, against the same on NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk

xpx = pytest.importorskip("array_api_extra", minversion="0.8")

RNG = np.random.default_rng(0)
M = RNG.standard_normal((3, 4))
CALLS = {
    "atleast_nd": lambda x: xpx.atleast_nd(x[0], ndim=3),
    "cov": xpx.cov,
    "create_diagonal": lambda x: xpx.create_diagonal(x[0], offset=1),
    "kron": lambda x: xpx.kron(x, x[:2, :2]),
    "nunique": lambda x: xpx.nunique(x[:, :2]),
    "pad": lambda x: xpx.pad(x, ((1, 0), (0, 2)), constant_values=7),
    "sinc": xpx.sinc,
    "setdiff1d": lambda x: xpx.setdiff1d(x[0], x[0, 1:3]),
    "one_hot": lambda x: xpx.one_hot(x.__array_namespace__().asarray([0, 2, 1]), 3),
    "isclose": lambda x: xpx.isclose(x, x + 1e-12),
    "at": lambda x: xpx.at(x, (slice(None), 1)).add(10.0),
    "at by mask": lambda x: xpx.at(x, x > 0).set(-1.0),
    "apply_where": lambda x: xpx.apply_where(x > 0, x, lambda v: v**0.5, fill_value=-1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    call: Any = CALLS[name]
    got, want = call(tk.asarray(M.copy())), call(M.copy())
    assert type(got) is tk.Tensor
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_default_dtypes_and_lazy_functions() -> None:
    assert xpx.default_dtype(tk) == tk.float32
    got = xpx.lazy_apply(np.cumsum, tk.asarray(M.copy()), shape=(12,), dtype=tk.float64, as_numpy=True)
    assert type(got) is tk.Tensor
    np.testing.assert_allclose(got.numpy(), M.cumsum())
