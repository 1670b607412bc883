"""Handles, plans, workspaces and errors of the wrappers."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.libraries import cufft, entry_points
from tenkey.backends.cuda.libraries.library_operators import OPERATORS
from tenkey.dispatch.registry import registry
from tenkey.testing.cuda_libraries import installed, stand_ins
from tests.backends.cuda.libraries._library_device import LibraryDevice, device


def counted(module: Any, name: str) -> list[tuple[Any, ...]]:
    """The arguments of the calls of a function from now on."""
    calls: list[tuple[Any, ...]] = []
    function = getattr(module, name)

    def call(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    setattr(module, name, call)
    return calls


def on_device(x: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(x), device="libraries")


def test_every_operator_of_linear_algebra_is_registered() -> None:
    assert tk.linalg.inv is not tk.fft.fft  # loads the operators
    lapack = {name for name, op in registry.operators.items() if _needs_library(op)}
    assert lapack == {*OPERATORS}


def _needs_library(operator: Any) -> bool:
    """Whether an operator of linear algebra or Fourier transforms follows from no template and no other operator."""
    from tenkey.backends.external.coverage import templates_of

    name = operator.name.partition("::")[2]
    of_kind = name.startswith(("linalg_", "lapack_", "lu_", "fft_")) and operator.name.startswith("tk::")
    return of_kind and "NumPyKernel" in operator.facets and not templates_of(operator)


class TestHandles:
    def test_one_for_each_stream(self) -> None:
        with device() as backend:
            solver = sys.modules["nvmath.bindings.cusolverDn"]
            made = counted(solver, "create")
            x = on_device(np.eye(2))
            tk.linalg.det(x)
            tk.linalg.det(x)
            assert len(made) == 1
            place = backend.libraries._place
            backend.libraries._place = place._replace(stream=lambda device: 77)
            streams = counted(solver, "set_stream")
            tk.linalg.det(x)
            assert len(made) == 2
            assert [stream for _, stream in streams] == [77]

    def test_a_captured_stream_takes_the_handle_of_another(self) -> None:
        """None can be made during a capture."""
        with device() as backend:
            solver: Any = sys.modules["nvmath.bindings.cusolverDn"]
            x = on_device(np.eye(2))
            tk.linalg.det(x)
            made, streams = counted(solver, "create"), counted(solver, "set_stream")
            place = backend.libraries._place
            backend.libraries._place = place._replace(stream=lambda device: 77, captured=lambda stream: stream == 77)
            tk.linalg.det(x)
            tk.linalg.det(x)
            assert not made
            assert [stream for _, stream in streams] == [77]
            backend.libraries._place = place
            tk.linalg.det(x)
            assert len(made) == 1

    def test_they_are_made_anew_with_the_library(self) -> None:
        """An emulator that starts again has other handles."""
        backend = LibraryDevice()
        for _ in range(2):
            with installed(stand_ins(backend.allocations)), tk.backends.register(backend):
                assert tk.linalg.det(on_device(np.eye(2))).item() == 1
                assert tk.fft.fft(on_device(np.eye(2))).tolist() == [[1, 1], [1, -1]]

    def test_the_device_is_entered(self) -> None:
        entered: list[int] = []

        @contextlib.contextmanager
        def enter(index: int) -> Any:
            entered.append(index)
            yield
            entered.append(-1)

        with device() as backend:
            x = on_device(np.eye(2))
            backend.libraries._place = backend.libraries._place._replace(entered=enter)
            tk.linalg.det(x)
            assert entered == [0, -1]

    def test_several_threads(self) -> None:
        failures: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                a = np.random.default_rng(seed).uniform(-1, 1, (4, 3, 3)) + 3 * np.eye(3)
                for _ in range(5):
                    found = tk.linalg.inv(on_device(a)).cpu().numpy()
                    np.testing.assert_allclose(found, np.linalg.inv(a), atol=1e-12)
            except BaseException as error:
                failures.append(error)

        with device():
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not failures, failures


class TestPlans:
    def test_a_plan_is_made_once(self) -> None:
        with device():
            made = counted(sys.modules["nvmath.bindings.cufft"], "make_plan_many64")
            for _ in range(3):
                tk.fft.fft(on_device(np.ones((3, 4), np.complex64)))
            assert len(made) == 1
            tk.fft.fft(on_device(np.ones((2, 4), np.complex64)))
            assert len(made) == 2

    def test_old_plans_are_destroyed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cufft, "_KEPT", 2)
        with device():
            library = sys.modules["nvmath.bindings.cufft"]
            made, destroyed = counted(library, "create"), counted(library, "destroy")
            x = on_device(np.ones(6, np.complex64))
            for n in (2, 3, 2, 4, 2, 3):  # 3 was used before 2, so 4 replaces it
                tk.fft.fft(x, n=n)
            assert (len(made), len(destroyed)) == (4, 2)

    def test_a_plan_that_fails_is_destroyed(self) -> None:
        with device():
            library = sys.modules["nvmath.bindings.cufft"]
            made, destroyed = counted(library, "create"), counted(library, "destroy")
            right = library.make_plan_many64
            library.make_plan_many64 = lambda *args: right(*args[:-1], 0)
            with pytest.raises(RuntimeError, match="batch"):
                tk.fft.fft(on_device(np.ones(2)))
            assert (len(made), len(destroyed)) == (1, 1)


class FailedError(Exception):
    """An error of nvmath: its number is ``status``."""

    def __init__(self) -> None:
        super().__init__("ALLOC_FAILED (2)")
        self.status = 2


class NotSupportedError(RuntimeError):
    """What nvmath raises where a library is not installed."""


def fails(error: BaseException) -> Any:
    def function(*args: Any) -> Any:
        raise error

    return function


class TestErrors:
    def test_of_a_library(self) -> None:
        with device():
            sys.modules["nvmath.bindings.cusolverDn"].xgetrf = fails(FailedError())  # type: ignore[attr-defined]
            with pytest.raises(entry_points.LibraryError, match=r"\[linalg.det\] cuSOLVER failed in xgetrf: ALLOC"):
                tk.linalg.det(on_device(np.eye(2)))

    def test_without_the_library(self) -> None:
        with device():
            sys.modules["nvmath.bindings.cufft"].create = fails(NotSupportedError("no libcufft.so"))  # type: ignore[attr-defined]
            with pytest.raises(entry_points.LibraryMissingError, match="pip install nvidia-cufft"):
                tk.fft.fft(on_device(np.eye(2)))

    def test_without_nvmath(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent(name: str) -> Any:
            raise ModuleNotFoundError(f"No module named {name!r}")

        monkeypatch.setattr(entry_points, "import_module", absent)
        library = entry_points.Library("cuFFT", "cufft", "nvidia-cufft")
        monkeypatch.delitem(sys.modules, "nvmath.bindings.cufft", raising=False)
        with pytest.raises(entry_points.LibraryMissingError, match=r"pip install 'tenkey\[cuda\]'"):
            library.functions  # noqa: B018

    def test_wrong_calls_stay_what_they_are(self) -> None:
        def wrong(*args: Any) -> None:
            raise TypeError("an argument is missing")

        module = SimpleNamespace(create=wrong)
        with installed({"nvmath.bindings.cufft": module}), pytest.raises(TypeError, match="missing"):
            entry_points.cufft("fft.fft", "create")

    def test_large_products_run_without_cublaslt(self) -> None:
        with device():
            calls = []
            library = sys.modules["nvmath.bindings.cublasLt"]
            right = library.create

            def create() -> int:
                calls.append(1)
                raise NotSupportedError("no libcublasLt.so")

            library.create = create  # type: ignore[attr-defined]
            a = np.random.default_rng(0).uniform(-1, 1, (65, 65))
            for _ in range(2):
                np.testing.assert_allclose((on_device(a) @ on_device(a)).cpu().numpy(), a @ a, atol=1e-12)
            assert len(calls) == 1, "the library is not asked again"
            library.create = right  # type: ignore[attr-defined]


def test_numbers_of_enumerations_are_nvidias() -> None:
    cublas, solver, fft, lt = [
        pytest.importorskip(f"nvmath.bindings.{name}") for name in ("cublas", "cusolver", "cufft", "cublasLt")
    ]
    nvmath = pytest.importorskip("nvmath")
    from tenkey.backends.cuda.libraries import cublaslt, cusolver

    assert (cusolver.LOWER, cusolver.UPPER) == (cublas.FillMode.LOWER, cublas.FillMode.UPPER)
    assert (cublas.Operation.N, cublas.Operation.T, cublas.Operation.C) == (0, 1, 2)
    assert (solver.EigMode.NOVECTOR, solver.EigMode.VECTOR) == (0, 1)
    names = {0x29: "C2C", 0x69: "Z2Z", 0x2A: "R2C", 0x6A: "D2Z", 0x2C: "C2R", 0x6C: "Z2D"}
    assert names == {int(kind): kind.name for kind in fft.Type}
    assert {kind for kind, _ in cufft._KINDS.values()} == {*names}
    compute = {number for number, _ in cublaslt._COMPUTE.values()}
    assert compute == {cublas.ComputeType.COMPUTE_32F, cublas.ComputeType.COMPUTE_64F}
    attributes = lt.MatmulDescAttribute
    assert (cublaslt._TRANSA, cublaslt._TRANSB) == (attributes.TRANSA, attributes.TRANSB)
    layouts, preferences = lt.MatrixLayoutAttribute, lt.MatmulPreferenceAttribute
    assert (cublaslt._BATCH_COUNT, cublaslt._BATCH_OFFSET) == (layouts.BATCH_COUNT, layouts.STRIDED_BATCH_OFFSET)
    assert preferences.MAX_WORKSPACE_BYTES == cublaslt._MOST_WORKSPACE
    assert tuple([preferences[f"MIN_ALIGNMENT_{x}_BYTES"] for x in "ABCD"]) == cublaslt._LEAST_ALIGNMENT
    types = getattr(nvmath, "CudaDataType", None)
    if types is not None:
        short = {
            "float32": "CUDA_R_32F", "float64": "CUDA_R_64F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF",
            "complex64": "CUDA_C_32F", "complex128": "CUDA_C_64F", "int8": "CUDA_R_8I", "int32": "CUDA_R_32I",
        }  # fmt: skip
        assert {name: int(types[full]) for name, full in short.items()} == entry_points.DATA_TYPES
