"""Calls of operators along rows on a device: one kernel each, the same by the short way, and what is composed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests.backends.cuda._emulated import emulated, on_device

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.cuda_backend import CudaBackend
from tenkey.backends.cuda.kernels.launches import Launcher


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> Iterator[None]:
    with emulated(), tk.backends.strict_fallback():
        yield


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the kernels that are launched the long way from now on."""
    names: list[str] = []
    launch, on = CudaBackend.launch, Launcher.on

    def noted(self: Any, source: Any, *given: Any) -> None:
        names.append(source.name)
        launch(self, source, *given)

    def noted_on(self: Any, device: int) -> Any:
        names.append(self.source.name)
        return on(self, device)

    monkeypatch.setattr(CudaBackend, "launch", noted)
    monkeypatch.setattr(Launcher, "on", noted_on)
    return names


def test_one_kernel_and_then_the_short_way(launched: list[str]) -> None:
    values = np.random.default_rng(0).standard_normal((3, 4, 12)).astype(np.float32)
    weight = np.arange(12, dtype=np.float32)
    for k in range(4):
        found = tk.layer_norm(on_device(values[k % 3]), on_device(weight)).numpy()
        expected = tk.layer_norm(tk.asarray(values[k % 3]), tk.asarray(weight)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(launched) == 1
    assert "layer_norm_rows_group" in launched[0]


def test_other_layouts_have_their_own_plans() -> None:
    values = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    x = on_device(values)
    for _ in range(3):
        for view in (np.s_[:, :8], np.s_[:, 1:9], np.s_[::2, 4:12], np.s_[:, ::2], np.s_[2:5, :8], np.s_[0, :8]):
            expected = tk.softmax(tk.asarray(values[view].copy())).numpy()
            np.testing.assert_allclose(tk.softmax(x[view]).numpy(), expected, rtol=1e-5)


def test_gradients_are_kernels_too(launched: list[str]) -> None:
    x = on_device(np.random.default_rng(0).standard_normal((4, 12))).requires_grad_()
    tk.sum(tk.log_softmax(tk.softmax(x)) * on_device(np.ones(12))).backward()
    names = [name.partition("_rows_")[0] for name in launched if "_rows_" in name]
    assert names == ["tk_softmax", "tk_log_softmax", "tk_log_softmax_backward", "tk_softmax_backward"]
    there = tk.asarray(x.detach().numpy()).requires_grad_()
    tk.sum(tk.log_softmax(tk.softmax(there))).backward()
    assert x.grad is not None
    assert there.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), there.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(3, 4, "float32"), (300, 33, "float32"), (9, 40, "float64")])
def test_sums_over_all_rows(rows: int, columns: int, dtype: str, launched: list[str]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(dtype) for shape in ((rows, columns), (rows, columns), (columns,))]
    with tk.no_grad():
        found, expected = [
            tk.ops.tk.layer_norm_all_backward(*[tk.asarray(v, device=device) for v in values], -1, 1e-5)
            for device in ("cuda", "cpu")
        ]
    eps = float(np.finfo(dtype).eps)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=100 * eps, atol=200 * eps, strict=True)
    assert "_rows_block" in launched[0]
    assert len(launched) >= 3
    assert all("_sums_" in name for name in launched[1:]), "of the blocks, for weight and bias"


def test_what_is_composed(launched: list[str]) -> None:
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    np.testing.assert_allclose(
        tk.softmax(on_device(values), axis=0).numpy(), tk.softmax(tk.asarray(values), axis=0).numpy(), rtol=1e-5
    )
    long = on_device(np.arange(70_000) % 7)
    assert tk.var(long).item() == pytest.approx(float(np.var(np.arange(70_000) % 7)), rel=1e-5)
    assert not [name for name in launched if "_rows_" in name]
