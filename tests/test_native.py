"""tenkey.library.load_native: compiled functions as operators, in each convention, against NumPy."""

from __future__ import annotations

import ctypes
import inspect
import math
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import RegistrationError, SchemaError
from tenkey.dispatch.registry import registry
from tenkey.library import CustomOperator, load_native, native_kernels

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc or clang) on PATH")

NS = "native_test"
HERE = "test_native.py:"

SOURCE = r"""
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

void saxpy(const float *x, const float *y, double a, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)a * x[i] + y[i];
}
void daxpy(const double *x, const double *y, double a, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a * x[i] + y[i];
}
/* every kind of number, and two results */
void numbers(const double *x, int64_t k, double a, bool flag, const double *z, double *sum, double *imag, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        sum[i] = x[i] + k + a + (flag ? 1000 : 0) + z[0];
        imag[i] = z[1];
    }
}
void count(int64_t k, const double *x, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (double)k + 0 * x[i];
}
void choose(const bool *condition, const float *x, const int64_t *y, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = condition[i] ? x[i] : (double)y[i];
}
void total(const double *x, double *out, int64_t n) {
    out[0] = 0;
    for (int64_t i = 0; i < n; i++) out[0] += x[i];
}
double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}
int64_t elements(const double *x, int64_t n) { return n; }
bool any_negative(const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) if (x[i] < 0) return true;
    return false;
}
void scale_in_place(double *x, double a, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= a;
}
void add_into(double *x, const double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}
int square_root(const double *x, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) { if (x[i] < 0) return 33; out[i] = sqrt(x[i]); }
    return 0;
}
void shifted(const double *x, const double *bias, double *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + (bias ? bias[i] : 100);
}
void doubled_complex(const double complex *x, double complex *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i];
}
void slow(const float *x, float *out, int64_t n) {
    usleep(200000);
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
}

typedef struct {
    void *data; int32_t device_type, device_id; int32_t ndim; uint8_t code, bits; uint16_t lanes;
    int64_t *shape, *strides; uint64_t byte_offset;
} DLTensor;

static double at(const DLTensor *t, int64_t i, int64_t j) {
    int64_t offset = i * t->strides[0] + j * t->strides[1];
    return t->bits == 32 ? ((float *)t->data)[offset] : ((double *)t->data)[offset];
}
int matrix_product(const DLTensor *a, const DLTensor *b, double scale, DLTensor *out) {
    if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0]) return 1;
    if (a->code != 2 || a->device_type != 1 || a->device_id || a->lanes != 1 || a->byte_offset) return 2;
    if (out->shape[0] != a->shape[0] || out->shape[1] != b->shape[1]) return 3;
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < a->shape[1]; k++) sum += at(a, i, k) * at(b, k, j);
            int64_t place = i * out->strides[0] + j * out->strides[1];
            if (out->bits == 32) ((float *)out->data)[place] = scale * sum;
            else ((double *)out->data)[place] = scale * sum;
        }
    return 0;
}
int64_t code_of(const DLTensor *t) { return t->code * 1000 + t->bits; }
void fill_rows(DLTensor *t, const DLTensor *values) {
    for (int64_t i = 0; i < t->shape[0]; i++)
        for (int64_t j = 0; j < t->shape[1]; j++)
            ((double *)t->data)[i * t->strides[0] + j * t->strides[1]] = values ? at(values, 0, i) : -1;
}
"""


def compile_c(source: str, folder: Path, name: str, *options: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    path = folder / f"lib{name}.so"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", f"{folder / name}.c", "-o", path, *options], check=True)
    return path


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("there is no C compiler (cc, gcc or clang) on PATH")
    return compile_c(SOURCE, tmp_path_factory.mktemp("native"), NS, "-lm")


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if not name.startswith("tk::") and name in registry.operators:  # derivatives of built-in ones stay
            registry.undefine(registry.operators[name], keep_kernels=False)


def d(values: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(values, np.float64))


def f(values: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(values, np.float32))


AXPY = "saxpy(Tensor x, Tensor y, float a) -> Tensor"
BOTH = {"float32": "saxpy", "float64": "daxpy"}


class TestElements:
    def test_the_shortest_way(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        assert isinstance(saxpy, CustomOperator)
        x, y = np.arange(16, dtype=np.float32), np.linspace(-1, 1, 16, dtype=np.float32)
        out = saxpy(tk.asarray(x), tk.asarray(y), 2.0)
        assert out.dtype == np.float32
        np.testing.assert_array_equal(out.numpy(), np.float32(2) * x + y)
        assert tk.ops.native_test.saxpy(f([1]), f([2]), a=3.0).tolist() == [5.0]

    @pytest.mark.parametrize("form", [str, Path, lambda path: ctypes.CDLL(str(path))])
    def test_forms_of_a_library(self, library: Path, form: Callable[[Path], Any]) -> None:
        saxpy = load_native(form(library), AXPY)
        assert str(saxpy.operator) == f"{NS}::saxpy"  # libnative_test.so
        assert saxpy(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_a_library_in_the_current_folder(self, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(library.parent)
        assert load_native(library.name, AXPY)(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_an_address_and_a_ctypes_function(self, library: Path) -> None:
        function = ctypes.CDLL(str(library)).saxpy
        address = ctypes.cast(function, ctypes.c_void_p).value
        for target in (function, address):
            operator = load_native(target, f"{NS}::{AXPY}")
            assert operator(f([1]), f([2]), 3.0).tolist() == [5.0]
        other = load_native(library, f"x{AXPY}", namespace=NS, dtypes={"float64": function, "float32": address})
        assert other(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_dtypes_choose_the_function(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        tenth = axpy(d([0.1]), d([0.2]), 1.0)
        assert tenth.dtype == np.float64
        assert tenth.item() == 0.1 + 0.2
        assert axpy(f([0.1]), f([0.2]), 1.0).dtype == np.float32
        mixed = axpy(f([0.5]), d([0.1]), 1.0)  # promoted as by the built-in operators
        assert mixed.dtype == np.float64
        assert mixed.item() == 0.6
        assert axpy(f([0.5]), tk.asarray([2]), 1.0).dtype == np.float32

    def test_numbers_stand_for_tensors(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        assert axpy(f([1, 2]), 3, 2).tolist() == [5.0, 7.0]
        assert axpy(0.5, d([1]), 2.0).dtype == np.float64
        assert axpy(f([1]), np.asarray([2], np.float32), 1.0).tolist() == [3.0]

    def test_other_dtypes_are_refused(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        for x, y in [(d([1]), d([1])), (tk.asarray([1]), tk.asarray([1])), (f([1]), tk.asarray([1j]))]:
            with pytest.raises(
                TypeError, match=r"\[native_test::saxpy\] is compiled for float32, and the arguments are"
            ):
                saxpy(x, y, 1.0)

    @pytest.mark.parametrize(
        "cut",
        [
            lambda a: a[::2],
            lambda a: a[:, ::3],
            lambda a: a.T,
            lambda a: a[:0],
            lambda a: a[2, 3],
            lambda a: np.broadcast_to(a[1], (4, 6)),
            lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype),  # not aligned, not writable
        ],
    )
    def test_any_memory_layout(self, library: Path, cut: Callable[[Any], Any]) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        for dtype in (np.float32, np.float64):
            array = cut(np.arange(24, dtype=dtype).reshape(4, 6))
            out = axpy(tk.asarray(array), tk.asarray(array), 3.0)
            np.testing.assert_array_equal(out.numpy(), 4 * array)
            assert out.is_contiguous
            assert out.shape == array.shape

    def test_broadcasting(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        x, y = np.arange(6, dtype=np.float32).reshape(2, 1, 3), np.arange(4, dtype=np.float32).reshape(4, 1)
        np.testing.assert_array_equal(saxpy(f(x), f(y), 2.0).numpy(), 2 * x + y)
        with pytest.raises(ValueError, match=r"saxpy\] the shapes \(2,\) and \(3,\) cannot be broadcast together"):
            saxpy(f([1, 2]), f([1, 2, 3]), 1.0)

    def test_every_kind_of_number_and_two_results(self, library: Path) -> None:
        numbers = load_native(
            library,
            "numbers(Tensor x, int k, float a=0.5, *, bool flag=True, complex z=2j) -> (Tensor sum, Tensor imag)",
            dtypes="float64",
        )
        for x in ([1.0, 2.0], [[3.0]]):
            total, imag = numbers(d(x), -7, flag=True, z=0.25 + 3j)
            np.testing.assert_array_equal(total.numpy(), np.asarray(x) - 7 + 0.5 + 1000 + 0.25)
            np.testing.assert_array_equal(imag.numpy(), np.full_like(x, 3.0))
        total, _ = numbers(d([[1.0], [2.0]]), 1, 1.5, flag=False, z=4)
        assert total.tolist() == [[7.5], [8.5]]
        assert str(inspect.signature(numbers)) == "(x, k, a=0.5, *, flag=True, z=2j)"

    def test_an_int_that_is_no_int64(self, library: Path) -> None:
        count = load_native(library, "count(int k, Tensor x) -> Tensor", dtypes="float64")
        assert count(2**62, d([0])).item() == 2.0**62
        assert count(-(2**63), d([[0]])).item() == -(2.0**63)
        for x in (d([0, 1, 2]), d([0, 1, 2])[::2]):
            with pytest.raises(OverflowError, match=r"the argument 'k' is 9223372036854775808, which is no int64_t"):
                count(2**63, x)

    def test_a_dtype_for_each_tensor(self, library: Path) -> None:
        choose = load_native(
            library,
            "choose(Tensor condition, Tensor x, Tensor y) -> Tensor",
            dtypes=("bool", "float32", "int64", "float64"),
        )
        condition, x, y = np.array([True, False, True]), np.array([0.5, 1.5, 2.5], np.float32), np.array([[7], [8]])
        out = choose(tk.asarray(condition), tk.asarray(x), tk.asarray(y))
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out.numpy(), np.where(condition, x, y))
        assert choose(tk.asarray(condition), 1.5, 2).tolist() == [1.5, 2.0, 1.5]
        with pytest.raises(
            TypeError, match=r"compiled for \(bool, float32, int64, float64\), and .* are bool, float64, i"
        ):
            choose(tk.asarray(condition), d([1]), tk.asarray(y))

    def test_meta_gives_shape_and_dtype(self, library: Path) -> None:
        total = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: ())
        assert total(d([[1, 2], [3, 4]])).item() == 10.0
        assert total(d(np.ones((3, 0)))).item() == 0.0  # called for no elements too
        assert total(tk.empty((5, 2), dtype="float64", device="meta")).shape == ()
        wide = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: ((1, 1), "float64"))
        assert wide(d([1, 2])).tolist() == [[3.0]]
        for shape in ((-1,), (1.5,), "ab"):
            wrong = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x, s=shape: s)
            with pytest.raises(ValueError, match=r"total\] meta= returned .* for 1 results"):
                wrong(d([1, 2]))
        wrong = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: [(), ()])
        with pytest.raises(ValueError, match=r"total\] meta= returned \[\(\), \(\)\] for 1 results"):
            wrong(d([1]))

    def test_a_function_that_returns_a_number(self, library: Path) -> None:
        dot = load_native(library, "dot(Tensor x, Tensor y) -> float", dtypes="float64")
        x, y = np.arange(5.0), np.arange(5.0)[::-1]
        assert dot(d(x), d(y)) == float(x @ y)
        assert dot(d(x), 2.0) == 20.0
        elements = load_native(library, "elements(Tensor x) -> int", dtypes="float64")
        assert elements(d(np.zeros((3, 0)))) == 0
        assert elements(d(np.zeros((3, 4))[:, ::2])) == 6
        negative = load_native(library, "any_negative(Tensor x) -> bool", dtypes="float64")
        assert negative(d([1, -1])) is True
        assert negative(d([1])) is False

    def test_an_argument_that_may_be_absent(self, library: Path) -> None:
        shifted = load_native(library, "shifted(Tensor x, Tensor? bias=None) -> Tensor", dtypes="float64")
        assert shifted(d([1, 2])).tolist() == [101.0, 102.0]
        assert shifted(d([1, 2]), d([[10], [20]])).tolist() == [[11.0, 12.0], [21.0, 22.0]]

    def test_complex_elements(self, library: Path) -> None:
        doubled = load_native(library, "doubled_complex(Tensor x) -> Tensor", dtypes="complex128")
        assert doubled(tk.asarray(np.array([1 + 2j, -3j]))).tolist() == [2 + 4j, -6j]

    def test_status_codes(self, library: Path) -> None:
        root = load_native(library, "square_root(Tensor x) -> Tensor", dtypes="float64", status=True)
        for x in (d([4, 9]), d([4, 0, 9, 0])[::2]):
            assert root(x).tolist() == [2.0, 3.0]
            with pytest.raises(
                RuntimeError, match=r"\[native_test::square_root\] the native function square_root failed w"
            ):
                root(x - 5)
        told = load_native(library, "square_root(Tensor x) -> Tensor", dtypes="float64", status={33: "negative number"})
        with pytest.raises(RuntimeError, match="failed: negative number, with the code 33"):
            told(d([-1]))

    def test_the_interpreter_is_not_locked_meanwhile(self, library: Path) -> None:
        slow = load_native(library, "slow(Tensor x) -> Tensor")
        x, counted, done = f([1, 2]), [0], threading.Event()
        thread = threading.Thread(target=lambda: (slow(x), done.set()))
        thread.start()
        while not done.is_set():  # with the lock held, this loop would not turn until the thread is through
            counted[0] += 1
            time.sleep(0.001)
        thread.join()
        assert counted[0] > 10

    def test_many_threads(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        wrong: list[int] = []

        def work(seed: int) -> None:
            x = np.full(seed + 1, seed, np.float32)
            for _ in range(200):
                wrong.extend(np.flatnonzero(axpy(tk.asarray(x), tk.asarray(x), 1.0).numpy() != 2 * x))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestMutation:
    @pytest.fixture
    def scale(self, library: Path) -> CustomOperator:
        return load_native(library, "scale_in_place(Tensor(a!) x, float a) -> ()", dtypes="float64")

    def test_changes_its_argument_and_counts_it(self, scale: CustomOperator) -> None:
        x = d([1, 2])
        before = x._version
        assert scale(x, 3.0) is None
        assert x.tolist() == [3.0, 6.0]
        assert x._version == before + 1

    def test_a_view_with_gaps(self, scale: CustomOperator) -> None:
        x = tk.zeros((2, 4), dtype="float64") + 1.0
        scale(x[:, ::2], 5.0)
        assert x.tolist() == [[5.0, 1.0, 5.0, 1.0]] * 2

    def test_another_argument_is_broadcast_to_it(self, library: Path) -> None:
        add_into = load_native(library, "add_into(Tensor(a!) x, Tensor y) -> ()", dtypes="float64")
        x = tk.zeros((2, 3), dtype="float64") + 0.0
        add_into(x, d([1, 2, 3]))
        add_into(x, 1)
        assert x.tolist() == [[2.0, 3.0, 4.0]] * 2
        with pytest.raises(ValueError, match=r"changes 'x' of shape \(3,\), and .* the shape \(2, 3\)"):
            add_into(d([1, 2, 3]), x)
        with pytest.raises(ValueError, match=r"changes 'x', and the same tensor is given for 'y'"):
            add_into(x, x)

    def test_what_cannot_be_changed(self, scale: CustomOperator) -> None:
        with pytest.raises(TypeError, match="is compiled for float64"):
            scale(f([1]), 2.0)
        frozen = np.ones(3)
        frozen.flags.writeable = False
        x = tk.core.tensor.make_tensor(frozen, d([1])._word)
        with pytest.raises(ValueError, match="changes 'x', whose memory is read-only"):
            scale(x, 2.0)

    def test_one_dtype_of_several(self, library: Path) -> None:
        add_into = load_native(library, "add_into(Tensor(a!) x, Tensor y) -> ()", dtypes="float64")
        with pytest.raises(TypeError, match="changes 'x', which has dtype float32 where the function works on float64"):
            add_into(f([1]), d([1]))

    def test_a_leaf_that_wants_a_gradient(self, scale: CustomOperator) -> None:
        with pytest.raises(RuntimeError):
            scale(tk.tensor([1.0], dtype="float64", requires_grad=True), 2.0)

    def test_without_values(self, scale: CustomOperator) -> None:
        assert scale(tk.empty(3, dtype="float64", device="meta"), 2.0) is None


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
        assert (described.code, described.bits) == (4, 16)

    def test_a_mutated_view_and_an_absent_tensor(self, library: Path) -> None:
        fill = load_native(library, "fill_rows(Tensor(a!) t, Tensor? values=None) -> ()", convention="dlpack")
        x = tk.zeros((2, 4), dtype="float64") + 0.0
        fill(x[:, 1::2], d([[5, 6]]))
        fill(x[:, :1])
        assert x.tolist() == [[-1.0, 5.0, 0.0, 5.0], [-1.0, 6.0, 0.0, 6.0]]

    def test_the_struct_is_that_of_dlpack(self) -> None:
        assert ctypes.sizeof(native_kernels.DLTensor) == 48
        offsets = {
            name: getattr(native_kernels.DLTensor, name).offset for name in ("ndim", "code", "shape", "byte_offset")
        }
        assert offsets == {"ndim": 16, "code": 20, "shape": 24, "byte_offset": 40}


class TestGradients:
    def make(self, library: Path) -> CustomOperator:
        axpy = load_native(library, AXPY, dtypes=BOTH)

        def backward(ctx: Any, g: tk.Tensor) -> Any:
            zero = g * 0.0
            return axpy(g, zero, ctx.a), axpy(g, zero, 1.0), None

        axpy.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[2]))
        return axpy

    def test_without_a_formula(self, library: Path) -> None:
        x = tk.tensor([1.0], requires_grad=True)
        out = load_native(library, AXPY)(x, x.detach(), 2.0)
        with pytest.raises(NotImplementedError, match="register_autograd"):
            out.backward(tk.ones(1))

    def test_gradcheck(self, library: Path) -> None:
        axpy = self.make(library)
        x = tk.tensor(np.linspace(-1, 1, 5), requires_grad=True)
        y = tk.tensor(np.linspace(2, 3, 5), requires_grad=True)
        assert gradcheck(lambda x, y: axpy(x, y, 3.0), (x, y))
        assert gradgradcheck(lambda x, y: axpy(x, y, 3.0) ** 2, (x, y))

    def test_a_wrong_one_is_noticed(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        axpy.register_autograd(lambda ctx, g: (g, g, None))
        with pytest.raises(RuntimeError):
            gradcheck(lambda x: axpy(x, d([1.0]), 3.0), (tk.tensor([1.0], dtype="float64", requires_grad=True),))


class TestRegistration:
    def test_it_is_an_operator_like_others(self, library: Path) -> None:
        saxpy = load_native(library, AXPY, doc="a x + y, in C")
        assert saxpy.__doc__ == "a x + y, in C"
        assert saxpy(tk.empty((3, 1), device="meta"), tk.empty(4, device="meta"), 1.0).shape == (3, 4)
        assert "saxpy" in tk.dispatch.explain(saxpy, f([1]), f([1]), 1.0)
        assert HERE in tk.dispatch.explain(saxpy, f([1]), f([1]), 1.0)
        assert pickle.loads(pickle.dumps(saxpy)) is saxpy
        saxpy.register_fake(lambda x, y, a: tk.empty((7,), device="meta"))
        assert saxpy(tk.empty(3, device="meta"), tk.empty(3, device="meta"), 1.0).shape == (7,)

    def test_loading_again_replaces(self, library: Path) -> None:
        load_native(library, f"{NS}::f(Tensor x, Tensor y, float a) -> Tensor", symbol="saxpy")
        again = load_native(library, "f(Tensor x, Tensor y, float a) -> Tensor", symbol="daxpy", dtypes="float64")
        assert tk.ops.native_test.f(d([1]), d([1]), 1.0).tolist() == again(d([1]), d([1]), 1.0).tolist() == [2.0]

    def test_a_failure_leaves_the_operator_as_it_was(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        for bad in ({"dtypes": "nothing"}, {"symbol": "missing"}, {"namespace": "two words"}):
            with pytest.raises(RegistrationError):
                load_native(library, AXPY, **bad)
        assert saxpy(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_namespaces(self, library: Path, tmp_path: Path) -> None:
        odd = tmp_path / "my-math.1.so"
        shutil.copy(library, odd)
        assert str(load_native(odd, AXPY).operator) == "my_math::saxpy"
        assert str(load_native(odd, AXPY, namespace=NS).operator) == f"{NS}::saxpy"
        with pytest.raises(RegistrationError, match="'native_test', and namespace= says 'other'"):
            load_native(library, f"{NS}::{AXPY}", namespace="other")
        with pytest.raises(RegistrationError, match="belongs to tenkey"):
            load_native(library, AXPY, namespace="tk")
        with tk.library.Library(NS, "FRAGMENT") as own:
            own.define("taken(Tensor x) -> Tensor")
            with pytest.raises(RegistrationError, match=r"taken\] is defined already at .*test_native\.py:"):
                load_native(library, "taken(Tensor x) -> Tensor", symbol="total")

    REFUSED = [  # noqa: RUF012
        ("f(Tensor x) -> Tensor", {}, "has no function 'f'"),
        ("f(Tensor x) -> Tensor", {"symbol": "nope"}, "has no function 'nope'"),
        ("f(Tensor x) -> Tensor", {"dtypes": {"float32": "nope"}}, "has no function 'nope'"),
        ("f(Tensor x) -> Tensor", {"dtypes": {}}, "dtypes={}"),
        ("f(Tensor x) -> Tensor", {"dtypes": "float31"}, "dtypes='float31'"),
        ("f(Tensor x) -> Tensor", {"dtypes": ["float32"]}, r"dtypes=\['float32'\]"),
        ("f(Tensor x) -> Tensor", {"dtypes": ("float32",) * 3}, "has 3 dtypes, the schema 1 Tensor arguments and 1"),
        ("f(Tensor x) -> Tensor", {"convention": "fortran"}, "convention must be 'elements', 'dlpack' or 'tvm-ffi'"),
        ("f(Tensor x) -> Tensor", {"meta": (2,)}, "meta= is a function"),
        (
            "f(Tensor x, int k) -> Tensor",
            {"meta": lambda x: ()},
            r"meta= cannot be called .*write it as meta=lambda x, k: ...",
        ),
        ("f(Tensor x) -> Tensor", {"status": "no"}, "status='no': give True, or a dict of codes to texts"),
        ("f(Tensor[] x) -> Tensor", {}, r"the argument 'x' is a Tensor\[\]"),
        ("f(Tensor x, str mode) -> Tensor", {}, "the argument 'mode' is a str"),
        ("f(Tensor x, int? k) -> Tensor", {}, r"the argument 'k' is an int\?"),
        ("f(int n) -> Tensor", {}, "takes no Tensor"),
        ("f(Tensor x) -> ()", {}, "returns nothing and changes nothing"),
        ("f(Tensor x) -> str", {}, "returns str"),
        ("f(Tensor x) -> (Tensor, int)", {}, "returns Tensor, int"),
        ("f(Tensor(a!) x) -> Tensor(a!)", {}, "its result is an argument"),
        ("f(Tensor x) -> float", {"status": True}, "no status code"),
        ("f(Tensor x, Tensor y) -> Tensor", {"convention": "dlpack"}, "meta=lambda x, y: ..."),
    ]

    @pytest.mark.parametrize(("schema", "options", "message"), REFUSED)
    def test_refused_at_load_time(self, library: Path, schema: str, options: dict[str, Any], message: str) -> None:
        before = set(registry.operators)
        with pytest.raises(RegistrationError, match=message):
            load_native(library, schema, **options)
        assert set(registry.operators) == before

    def test_a_schema_that_cannot_be_read(self, library: Path) -> None:
        with pytest.raises(SchemaError) as caught:
            load_native(library, "f(Tensor x -> Tensor")
        assert caught.value.column is not None

    def test_a_file_that_is_none(self, tmp_path: Path) -> None:
        text = tmp_path / "libtext.so"
        text.write_text("no library")
        for path in (text, tmp_path / "libmissing.so", "libthat_nobody_has.so"):
            with pytest.raises(RegistrationError, match=r"the library '.*' could not be loaded"):
                load_native(path, AXPY)

    @pytest.mark.parametrize("value", [None, 0, 17, -1, True, 1 << 70, object(), 2.5])
    def test_what_is_no_function(self, value: Any) -> None:
        with pytest.raises(
            RegistrationError, match=r"is no address of a function|a native function is a library's path"
        ):
            load_native(value, AXPY)


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
        with pytest.raises(RegistrationError, match=r"asks for \(float64\*, float64, float64\*, int64\)"):
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


def test_the_address_of_an_array() -> None:
    assert native_kernels.addresses_are_known()
    base = np.arange(24.0)
    for array in (base, base[5:], base.reshape(4, 6).T, base[::-2], np.zeros(()), np.zeros((0, 3)), np.zeros(3, bool)):
        assert native_kernels.fast_address(array).value == array.ctypes.data


@needs_compiler
def test_without_that_the_slow_way_is_taken(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_kernels, "fast_address", lambda array: ctypes.c_void_p(1))
    native_kernels.addresses_are_known.cache_clear()
    try:
        assert not native_kernels.addresses_are_known()
        assert load_native(library, AXPY)(f([1]), f([2]), 3.0).tolist() == [5.0]
    finally:
        native_kernels.addresses_are_known.cache_clear()
