"""The libraries on the emulated device: with kernels of the backend, streams, graphs, and work in adversarial order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tenkey as tk
from tenkey.backends.cuda.libraries.library_operators import OPERATORS
from tenkey.testing.cuda_libraries import LibraryCallError
from tests.backends.cuda._emulated import emulated


@pytest.fixture(params=["at once", "deferred"])
def emulator(request: pytest.FixtureRequest) -> Iterator[Any]:
    with emulated(deferred=request.param == "deferred") as made, tk.backends.strict_fallback():
        yield made


def matrices(shape: tuple[int, ...] = (2, 3, 3)) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, shape) + 3 * np.eye(*shape[-2:])


def put(x: np.ndarray) -> tk.Tensor:
    return tk.asarray(x, device="cuda")


def host(x: tk.Tensor) -> np.ndarray:
    return np.asarray(x.cpu().numpy())


@pytest.mark.parametrize("shape", [(2, 3, 3), (3, 3)])
def test_values(emulator: Any, shape: tuple[int, ...]) -> None:
    a = matrices(shape)
    x = put(a)
    assert_allclose(host(tk.linalg.inv(x)), np.linalg.inv(a), atol=1e-12)
    assert_allclose(host(tk.linalg.det(x)), np.linalg.det(a), atol=1e-12)
    assert_allclose(host(tk.linalg.solve(x, x.mT)), np.linalg.solve(a, a.swapaxes(-1, -2)), atol=1e-12)
    u, s, vh = [host(each) for each in tk.linalg.svd(x)]
    assert_allclose(u * s[..., None, :] @ vh, a, atol=1e-12)
    q, r = [host(each) for each in tk.linalg.qr(x)]
    assert_allclose(q @ r, a, atol=1e-12)
    w, v = [host(each) for each in tk.linalg.eig(x)]
    assert_allclose(a @ v, v * w[..., None, :], atol=1e-12)
    w, v = [host(each) for each in tk.linalg.eigh(x + x.mT)]
    assert_allclose(v * w[..., None, :] @ v.swapaxes(-1, -2), a + a.swapaxes(-1, -2), atol=1e-12)
    p, lower, upper = [host(each) for each in tk.linalg.lu(x)]
    assert_allclose(p @ lower @ upper, a, atol=1e-12)


def test_transforms(emulator: Any) -> None:
    a = matrices()
    assert_allclose(host(tk.fft.fft(put(a), axis=1)), np.fft.fft(a, axis=1), atol=1e-12)
    assert_allclose(host(tk.fft.irfft(tk.fft.rfft(put(a)), n=3)), a, atol=1e-12)


def test_large_products(emulator: Any) -> None:
    a = matrices((70, 80))
    before = emulator.counts.host_functions
    assert_allclose(host(put(a) @ put(a).mT), a @ a.T, atol=1e-12)
    assert emulator.counts.host_functions == before + 1, "a library's work is a host function of the emulator"


def test_a_singular_matrix_is_reported_at_the_next_synchronization(emulator: Any) -> None:
    with pytest.raises(np.linalg.LinAlgError) as expected:
        tk.linalg.inv(tk.zeros((2, 2)))
    made = tk.linalg.inv(tk.zeros((2, 2), device="cuda"))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        tk.cuda.synchronize()
    assert str(caught.value) == str(expected.value)
    assert made.shape == (2, 2)


def test_streams(emulator: Any) -> None:
    """Work in a stream of its own waits for what is written in another, if the program says so."""
    a = matrices()
    x = put(a)
    stream = tk.cuda.Stream()
    stream.wait_stream(tk.cuda.current_stream())
    with tk.cuda.stream(stream):
        found = tk.linalg.inv(x)
    tk.cuda.current_stream().wait_stream(stream)
    assert_allclose(host(found @ x), np.broadcast_to(np.eye(3), a.shape), atol=1e-12)


def test_graphs(emulator: Any) -> None:
    """Inverses and transforms are captured, and run again with other values."""
    a = matrices()
    step = tk.cuda.graph(lambda x: tk.real(tk.fft.ifft(tk.fft.fft(tk.linalg.inv(x)))))
    for factor in (1.0, 2.0, 3.0, 4.0):
        assert_allclose(host(step(put(a * factor))), np.linalg.inv(a * factor), atol=1e-12)


def test_several_devices() -> None:
    with emulated(devices=2), tk.backends.strict_fallback():
        a = matrices()
        for device in ("cuda:1", "cuda:0", "cuda:1"):
            found = tk.linalg.inv(tk.asarray(a, device=device))
            assert str(found.device) in (device, device.removesuffix(":0"))
            assert_allclose(host(found), np.linalg.inv(a), atol=1e-12)


def test_a_wrong_call_is_refused_at_once() -> None:
    with emulated():
        library: Any = sys.modules["nvmath.bindings.cusolverDn"]
        right = library.xgetrf
        library.xgetrf = lambda handle, params, m, n, *rest: right(handle, params, m + 9, n, *rest)
        x = put(matrices((3, 3)))
        with pytest.raises(LibraryCallError, match="max"):
            tk.linalg.det(x)


def test_a_call_that_reads_too_far_fails_the_next_synchronization() -> None:
    with emulated(deferred=True) as emulator:
        library: Any = sys.modules["nvmath.bindings.cufft"]
        right = library.exec_z2z
        library.exec_z2z = lambda plan, idata, odata, way: right(plan, idata + (1 << 40), odata, way)
        kept = tk.fft.fft(put(np.ones(4, complex)))
        with pytest.raises(RuntimeError, match="cuFFT exec_z2z"):
            tk.cuda.synchronize()
        emulator.clear_error()
        assert kept.shape == (4,)


def test_memory_beside_a_tensor_is_not_used() -> None:
    with emulated():
        library: Any = sys.modules["nvmath.bindings.cufft"]
        right = library.exec_z2z
        library.exec_z2z = lambda plan, idata, odata, way: right(plan, idata + 16, odata, way)
        x = put(np.ones(4, complex))
        with pytest.raises(LibraryCallError, match=r"idata takes 64 bytes .* ends after 48"):
            tk.fft.fft(x)


def test_no_operator_of_linear_algebra_falls_back() -> None:
    with emulated():
        assert tk.ones(1, device="cuda").device.type == "cuda"
        covered = tk.backends.coverage("cuda")
        assert {*OPERATORS} <= {*covered.implemented}
