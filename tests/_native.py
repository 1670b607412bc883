"""Functions in C that tests of ``load_native`` load, and how they are compiled."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc or clang) on PATH")
NS = "native_test"
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
void swap(double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) { double kept = x[i]; x[i] = y[i]; y[i] = kept; }
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
void add_into_tensor(DLTensor *x, const DLTensor *y) {
    int last = x->ndim - 1;
    for (int64_t i = 0; i < (last ? x->shape[0] : 1); i++)
        for (int64_t j = 0; j < x->shape[last]; j++)
            ((double *)x->data)[(last ? i * x->strides[0] : 0) + j * x->strides[last]] +=
                ((double *)y->data)[(last ? i * y->strides[0] : 0) + j * y->strides[last]];
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


@functools.cache
def compiled(folder: Path) -> Path:
    """The library of ``SOURCE``, which is compiled once."""
    if COMPILER is None:
        pytest.skip("there is no C compiler (cc, gcc or clang) on PATH")
    return compile_c(SOURCE, folder, NS, "-lm")


def d(values: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(values, np.float64))


def f(values: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(values, np.float32))


AXPY = "saxpy(Tensor x, Tensor y, float a) -> Tensor"
BOTH = {"float32": "saxpy", "float64": "daxpy"}
