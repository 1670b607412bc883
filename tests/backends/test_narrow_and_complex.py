"""Float16, bfloat16 and complex numbers on a device with templates: computed there, with the dtypes of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.testing import samples
from tests._reference_device import Reference
from tests._tiers import Failures
from tests.operators._table import OPERATORS

_TOLERANCE: Final = {"float16": 4e-3, "bfloat16": 3e-2, "complex64": 1e-5, "complex128": 1e-13}
_NAMES: Final = ("contiguous", "transposed", "broadcast")


@pytest.fixture
def device() -> Iterator[str]:
    with tk.backends.register(Reference()), tk.backends.strict_fallback():
        yield "reference"


def close(got: tk.Tensor, want: tk.Tensor, dtype: str) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    wide = "complex128" if want.dtype.kind == "c" else "float64"
    a, b = (x.detach().numpy().astype(wide) for x in (got, want))
    np.testing.assert_allclose(a, b, rtol=_TOLERANCE[dtype], atol=_TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", _TOLERANCE)
def test_pointwise_operators(device: str, dtype: str) -> None:
    failures = Failures()
    for operator in OPERATORS:
        if "Pointwise" not in operator.facets:
            continue
        try:
            operator.facets["Pointwise"].promotion.dtypes(operator.name, (tk.finfo(dtype).dtype,))
        except TypeError:
            continue
        for sample in samples(operator, np.random.default_rng(0), dtype):
            if sample.name in _NAMES:
                with failures.of(f"{operator.name} {sample.name}"):
                    want = operator.call(*sample.args, **sample.kwargs)
                    there = sample.map(lambda t: t.to_device(device))
                    close(operator.call(*there.args, **there.kwargs), want, dtype)
    failures.check()


@pytest.mark.parametrize("dtype", _TOLERANCE)
def test_numbers_reductions_gradients_and_copies(device: str, dtype: str) -> None:
    values = np.linspace(0.5, 2, 6).reshape(2, 3)

    def run(where: str) -> list[Any]:
        x = tk.asarray(values).astype(dtype).to_device(where).requires_grad_()
        y = x * 2.5 + 1 - x / 2
        tk.sum(tk.real(y * y) if x.dtype.kind == "c" else y * y).backward()
        other = tk.astype(x.detach(), "complex64" if x.dtype.kind == "c" else "float32")
        z = x.detach().clone()
        z *= 3
        extended = x.detach() + 1j
        return [y, x.grad, other, z, extended, tk.where(x == 1, x, 0.0), x.mT.clone(), tk.sum(x, axis=0)]

    if dtype == "complex128":
        values = values + 1j * values[::-1]
    for got, want in zip(run(device), run("cpu"), strict=True):
        assert got.device == device
        close(got, want, dtype)
