"""A C function as an operator: compiled here, called through a pointer, with a checked gradient.

    python examples/native_operator.py

It needs a C compiler (`cc`). The functions follow the convention "elements": pointers to the elements of the tensors
and numbers, in the order of the schema, then a pointer to the result and the number of elements. docs/native_code.md
describes the other conventions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

import numpy as np

import tenkey as tk

# One source for both dtypes. Softplus with a slope a: log(1 + exp(a x)) / a. Its derivative is the logistic function.
SOURCE = r"""
#include <math.h>
#include <stdint.h>

#define DEFINE(T, SUFFIX)                                                                     \
    void softplus_##SUFFIX(const T *x, double slope, T *out, int64_t n) {                     \
        for (int64_t i = 0; i < n; i++) out[i] = log1p(exp(slope * x[i])) / slope;            \
    }                                                                                         \
    void logistic_##SUFFIX(const T *x, const T *g, double slope, T *out, int64_t n) {         \
        for (int64_t i = 0; i < n; i++) out[i] = g[i] / (1 + exp(-slope * x[i]));             \
    }
DEFINE(float, f32)
DEFINE(double, f64)

int reciprocal(const double *x, double *out, int64_t n) { /* a status other than 0 reports a failure */
    for (int64_t i = 0; i < n; i++) {
        if (x[i] == 0) return 1;
        out[i] = 1 / x[i];
    }
    return 0;
}
"""


def build(folder: Path) -> Path:
    """Compile the source to a shared library and return its path."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("This example needs a C compiler: install cc, gcc or clang.")
    source, library = folder / "activations.c", folder / "libactivations.so"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    return library


def check(what: str, holds: bool) -> None:
    """Assert a claim, and print it."""
    assert holds, what
    print(f"ok: {what}")


def main(folder: Path) -> None:
    """Compile, load, register a gradient, check."""
    library = build(folder)

    # `dtypes` assigns a function to each dtype; other dtypes are rejected, never reinterpreted.
    softplus = tk.library.load_native(
        library,
        "softplus(Tensor x, float slope=1.0) -> Tensor",
        dtypes={"float32": "softplus_f32", "float64": "softplus_f64"},
    )
    logistic = tk.library.load_native(
        library,
        "logistic(Tensor x, Tensor g, float slope) -> Tensor",
        dtypes={"float32": "logistic_f32", "float64": "logistic_f64"},
    )
    print(softplus)  # the namespace is the file's name

    # The gradient is another C function, whose own gradient is composed of operators: a second order exists.
    softplus.register_autograd(
        lambda ctx, g: (logistic(ctx.saved_tensors[0], g, ctx.slope), None), setup_context=keep_softplus
    )
    logistic.register_autograd(logistic_backward, setup_context=keep_logistic)

    values = np.linspace(-2, 2, 6).reshape(2, 3)
    x = tk.tensor(values, requires_grad=True)
    expected = np.logaddexp(0, 3 * values) / 3
    check("the values are those of NumPy", np.allclose(softplus(x, 3.0).detach().numpy(), expected, rtol=1e-14))
    narrow = softplus(tk.asarray(values.astype(np.float32)))
    check("float32 goes to the function for float32", narrow.dtype == tk.float32)
    every_other = softplus(x.detach()[:, ::2], 3.0)
    check("any memory layout will do", np.allclose(every_other.numpy(), expected[:, ::2], rtol=1e-14))
    shape = softplus(tk.empty((7, 2), device="meta")).shape
    check(f"shapes are known without values: {shape}", shape == (7, 2))
    check("the gradient agrees with differences", tk.autograd.gradcheck(lambda x: softplus(x, 3.0), (x,)))
    check("so does the second one", tk.autograd.gradgradcheck(lambda x: softplus(x, 3.0), (x,)))
    try:
        softplus(tk.asarray([1, 2, 3]))
    except TypeError as error:
        print(f"ok: integers are refused: {error}")

    reciprocal = tk.library.load_native(
        library, "reciprocal(Tensor x) -> Tensor", dtypes="float64", status={1: "division by zero"}
    )
    check("1 / 4", reciprocal(tk.asarray([4.0], dtype=tk.float64)).item() == 0.25)
    try:
        reciprocal(tk.zeros(3, dtype=tk.float64))
    except RuntimeError as error:
        print(f"ok: a status code is an error: {error}")

    small = tk.asarray(np.ones(16, np.float32))
    seconds = min(timeit.repeat(lambda: softplus(small), number=2000, repeat=5)) / 2000
    print(f"a call with 16 elements: {seconds * 1e6:.1f} us")


def keep_softplus(ctx: Any, inputs: tuple[Any, ...], output: tk.Tensor) -> None:
    """Save what the gradient needs."""
    ctx.save_for_backward(inputs[0])
    ctx.slope = inputs[1]


def keep_logistic(ctx: Any, inputs: tuple[Any, ...], output: tk.Tensor) -> None:
    """Save what the gradient of the gradient needs."""
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.slope = inputs[2]


def logistic_backward(ctx: Any, g: tk.Tensor) -> Any:
    """Return the derivatives of ``g0 * logistic(slope x)`` with respect to ``x`` and ``g0``."""
    x, g0 = ctx.saved_tensors
    s = tk.sigmoid(x * ctx.slope)
    return g * g0 * s * (1 - s) * ctx.slope, g * s, None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
