"""load_native of functions that take DLPack structs, follow the TVM FFI, or are made in Python and by Numba."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.exchange.capsules import Array
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import CustomOperator, load_native
from tenkey.library.native import kernels as native_kernels
from tests._native import COMPILER, NS, compile_c, compiled, d, f
from tests._registry import registry_as_before


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


class TestDLPack:
    SCHEMA = "matrix_product(Tensor a, Tensor b, float scale=1.0) -> Tensor"

    @pytest.fixture
    def product(self, library: Path) -> CustomOperator:
        return load_native(
            library,
            self.SCHEMA,
            convention="dlpack",
            meta=lambda a, b, scale: (a.shape[0], b.shape[1]),
            status={1: "the inner sizes differ"},
        )

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_shapes_strides_and_dtypes_arrive(self, product: CustomOperator, dtype: Any) -> None:
        a, b = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(24, dtype=dtype).reshape(4, 6).T[::2]
        out = product(tk.asarray(a), tk.asarray(b), scale=0.5)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.numpy(), 0.5 * (a @ b))

    def test_zero_size(self, product: CustomOperator) -> None:
        assert product(d(np.ones((2, 0))), d(np.ones((0, 3)))).tolist() == [[0.0] * 3] * 2

    def test_its_status(self, product: CustomOperator) -> None:
        with pytest.raises(RuntimeError, match="failed: the inner sizes differ, with the code 1"):
            product(d([[1]]), d([[1], [2]]))
        with pytest.raises(RuntimeError, match="failed with the code 2"):
            product(tk.asarray([[1]]), d([[1]]))

    def test_dtypes_may_be_restricted(self, library: Path) -> None:
        product = load_native(
            library, self.SCHEMA, convention="dlpack", dtypes=["float64"], meta=lambda a, b, scale: (1, 1), status=True
        )
        assert product(d([[2]]), 3 * d([[1]])).tolist() == [[6.0]]
        assert product(d([[2]]), f([[3]])).tolist() == [[6.0]]
        with pytest.raises(TypeError, match="compiled for float64"):
            product(f([[1]]), f([[1]]))

    @pytest.mark.parametrize(
        ("dtype", "code"),
        [("bool", 6008), ("int8", 8), ("uint16", 1016), ("float16", 2016), ("float64", 2064), ("complex64", 5064)],
    )
    def test_codes_of_dtypes(self, library: Path, dtype: str, code: int) -> None:
        code_of = load_native(library, "code_of(Tensor t) -> int", convention="dlpack")
        assert code_of(tk.zeros(3, dtype=dtype)) == code

    def test_code_of_bfloat16(self) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        described = native_kernels.describe(np.zeros(3, ml_dtypes.bfloat16))
        assert (described.dtype.code, described.dtype.bits) == (4, 16)

    def test_a_mutated_view_and_an_absent_tensor(self, library: Path) -> None:
        fill = load_native(library, "fill_rows(Tensor(a!) t, Tensor? values=None) -> ()", convention="dlpack")
        x = tk.zeros((2, 4), dtype="float64") + 0.0
        fill(x[:, 1::2], d([[5, 6]]))
        fill(x[:, :1])
        assert x.tolist() == [[-1.0, 5.0, 0.0, 5.0], [-1.0, 6.0, 0.0, 6.0]]

    def test_the_struct_is_that_of_dlpack(self) -> None:
        assert ctypes.sizeof(Array) == 48
        offsets = {name: getattr(Array, name).offset for name in ("ndim", "dtype", "shape", "byte_offset")}
        assert offsets == {"ndim": 16, "dtype": 20, "shape": 24, "byte_offset": 40}


class TestPythonAndNumba:
    def test_a_python_function_registers_the_same_way(self) -> None:
        def hypot(x: tk.Tensor, y: tk.Tensor, a: float) -> tk.Tensor:
            """The length."""
            return tk.sqrt(x * x + y * y) * a

        operator = load_native(hypot, f"{NS}::hypot(Tensor x, Tensor y, float a=2.0) -> Tensor")
        assert operator(d([3]), d([4])).tolist() == [10.0]
        assert operator.__doc__ == "The length."
        assert str(load_native(hypot, "hypot(Tensor x, Tensor y, float a) -> Tensor").operator) == "native::hypot"

    def test_its_signature_is_checked(self) -> None:
        with pytest.raises(RegistrationError, match="has the signature"):
            load_native(lambda x: x, f"{NS}::two(Tensor x, Tensor y) -> Tensor")

    @pytest.mark.parametrize("option", [{"symbol": "f"}, {"dtypes": "float32"}, {"status": True}])
    def test_options_of_native_code_are_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(RegistrationError, match=f"{next(iter(option))}= is for native functions"):
            load_native(lambda x: x, f"{NS}::one(Tensor x) -> Tensor", **option)

    def test_its_meta(self) -> None:
        operator = load_native(lambda x: tk.sum(x), f"{NS}::s(Tensor x) -> Tensor", meta=lambda x: ())
        assert operator(d([1, 2])).item() == 3.0
        assert operator(tk.empty(3, device="meta")).shape == ()

    def test_a_cfunc(self) -> None:
        numba = pytest.importorskip("numba")
        types = numba.types
        pointer = types.CPointer(types.float64)

        @numba.cfunc(types.void(pointer, types.int64, pointer, types.int64))
        def power(x: Any, k: int, out: Any, n: int) -> None:
            for i in range(n):
                out[i] = x[i] ** k

        operator = load_native(power, f"{NS}::power(Tensor x, int k) -> Tensor")  # its dtype is in its signature
        x = np.linspace(-1, 2, 7)
        np.testing.assert_allclose(operator(tk.asarray(x), 3).numpy(), x**3, rtol=1e-14)
        with pytest.raises(TypeError, match="compiled for float64"):
            operator(f([1]), 3)
        with pytest.raises(RegistrationError, match=r"requires \(float64\*, float64, float64\*, int64\)"):
            load_native(power, f"{NS}::power(Tensor x, float k) -> Tensor")
        with pytest.raises(RegistrationError, match="the cfunc has the signature"):
            load_native(power, f"{NS}::power(Tensor x, int k) -> Tensor", dtypes="float32")

    def test_a_cfunc_with_several_dtypes(self) -> None:
        numba = pytest.importorskip("numba")
        types = numba.types
        signature = types.void(
            types.CPointer(types.float32),
            types.boolean,
            types.CPointer(types.int64),
            types.CPointer(types.int64),
            types.int64,
        )

        @numba.cfunc(signature)
        def take(x: Any, up: bool, index: Any, out: Any, n: int) -> None:
            for i in range(n):
                out[i] = index[i] + (math.ceil(x[i]) if up else math.floor(x[i]))

        operator = load_native(take, f"{NS}::take(Tensor x, bool up, Tensor index) -> Tensor")
        out = operator(f([0.5, 1.5]), True, tk.asarray([10, 20]))
        assert out.dtype == np.int64
        assert out.tolist() == [11, 22]

    def test_a_jitted_function_is_explained(self) -> None:
        numba = pytest.importorskip("numba")
        with pytest.raises(RegistrationError, match=r"decorate it with numba\.cfunc"):
            load_native(numba.njit(lambda x, out, n: None), f"{NS}::j(Tensor x) -> Tensor")


TVM_SOURCE = r"""
#include <tvm/ffi/c_api.h>
static DLTensor *tensor(const TVMFFIAny *any) {
    if (any->type_index == kTVMFFIDLTensorPtr) return (DLTensor *)any->v_ptr;
    if (any->type_index == kTVMFFITensor) return (DLTensor *)((char *)any->v_obj + sizeof(TVMFFIObject));
    return 0;
}
int __tvm_ffi_scaled(void *handle, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
    DLTensor *x = count == 3 ? tensor(&args[0]) : 0, *out = count == 3 ? tensor(&args[2]) : 0;
    if (!x || !out) { TVMFFIErrorSetRaisedFromCStr("TypeError", "scaled takes tensor, float, tensor"); return -1; }
    if (x->ndim != 1) { TVMFFIErrorSetRaisedFromCStr("ValueError", "scaled takes vectors"); return -1; }
    for (int64_t i = 0; i < x->shape[0]; i++)
        ((float *)out->data)[i] = args[1].v_float64 * ((float *)x->data)[i * x->strides[0]];
    return 0;
}
int __tvm_ffi_negate(void *handle, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
    DLTensor *x = tensor(&args[0]);
    for (int64_t i = 0; i < x->shape[0]; i++) ((float *)x->data)[i] *= -1;
    return 0;
}
"""


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose functions follow the TVM FFI's convention, compiled with the headers that its package ships."""
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="the package apache-tvm-ffi is not installed")
    if COMPILER is None:
        pytest.skip("there is no C compiler (cc, gcc or clang) on PATH")
    info = tvm_ffi.libinfo
    headers = [f"-I{path}" for path in (info.find_include_path(), info.find_dlpack_include_path())]
    return compile_c(TVM_SOURCE, tmp_path_factory.mktemp("tvm"), "tvm_test", *headers, str(info.find_libtvm_ffi()))


class TestTVMFFI:
    SCHEMA = "scaled(Tensor x, float a) -> Tensor"

    def test_it_computes(self, module: Path) -> None:
        scaled = load_native(module, self.SCHEMA, convention="tvm-ffi", dtypes="float32")
        assert str(scaled.operator) == "tvm_test::scaled"
        x = np.arange(8, dtype=np.float32)
        np.testing.assert_array_equal(scaled(tk.asarray(x), 2.5).numpy(), np.float32(2.5) * x)
        np.testing.assert_array_equal(scaled(tk.asarray(x)[::2], 2.5).numpy(), np.float32(2.5) * x[::2])
        frozen = tk.asarray(np.frombuffer(x.tobytes(), np.float32))
        np.testing.assert_array_equal(scaled(frozen, 1.0).numpy(), x)
        assert scaled(f([]), 1.0).tolist() == []
        assert scaled(tk.empty(5, device="meta"), 1.0).shape == (5,)

    def test_modules_and_functions(self, module: Path) -> None:
        import tvm_ffi

        loaded = tvm_ffi.load_module(str(module))
        for source in (loaded, loaded.get_function("scaled")):
            scaled = load_native(source, f"{NS}::{self.SCHEMA}", convention="tvm-ffi")
            assert scaled(f([1, 2]), 3.0).tolist() == [3.0, 6.0]

    def test_its_errors_are_those_of_the_function(self, module: Path) -> None:
        scaled = load_native(module, self.SCHEMA, convention="tvm-ffi")
        with pytest.raises(ValueError, match="scaled takes vectors"):
            scaled(f([[1]]), 2.0)

    def test_mutation(self, module: Path) -> None:
        negate = load_native(module, "negate(Tensor(a!) x) -> ()", convention="tvm-ffi", dtypes="float32")
        x = f([1, -2])
        negate(x)
        assert x.tolist() == [-1.0, 2.0]
        assert x._version == 1

    def test_what_it_does_not_find(self, module: Path, tmp_path: Path) -> None:
        with pytest.raises(RegistrationError, match="has no function 'nope'"):
            load_native(module, self.SCHEMA, symbol="nope", convention="tvm-ffi")
        with pytest.raises(RegistrationError, match="could not be loaded"):
            load_native(tmp_path / "libmissing.so", self.SCHEMA, convention="tvm-ffi")

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tvm_ffi", None)
        with pytest.raises(
            RegistrationError, match=r"needs the package apache-tvm-ffi: pip install 'tenkey\[tvm-ffi\]'"
        ):
            load_native("libfoo.so", self.SCHEMA, convention="tvm-ffi")
