"""Every differentiable function of ``tenkey.numpy`` records its gradient, as differences of NumPy's values show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.interop.numpy_functions import named_functions
from tests._tiers import each
from tests.numpy._calls import CALLS

STEP = 1e-6

# rows whose results are bools, indices, counts or steps, or that make arrays without operands
WITHOUT = {
    "all", "any", "argmax", "argmin", "nanargmax", "nanargmin", "count_nonzero", "size", "tril_indices_from",
    "triu_indices_from", "diag_indices_from", "ix_", "ravel_multi_index", "unravel_index", "packbits", "unpackbits",
    "iscomplexobj", "isrealobj", "unique_all", "unique_counts", "unique_inverse", "unique_values", "iscomplex",
    "isreal", "isneginf", "isposinf", "fix", "real_if_close", "round", "isclose", "allclose", "array_equal",
    "array_equiv", "shape", "ndim", "argwhere", "flatnonzero", "nonzero", "result_type", "isin", "argsort",
    "argpartition", "searchsorted", "digitize", "histogram", "histogram_bin_edges", "histogram2d", "histogramdd",
    "lexsort", "intersect1d", "union1d", "setxor1d", "bartlett", "blackman", "hamming", "hanning", "zeros_like",
    "ones_like", "empty_like", "arange", "zeros", "ones", "empty", "eye", "linalg.matrix_rank", "fft.fftfreq",
    "fft.rfftfreq", "row_stack", "permute_dims",
}  # fmt: skip


def _score(result: Any, total: Any = 0.0) -> Any:
    """Return a sum of the parts of the results with weights that differ."""
    if isinstance(result, (tuple, list)):
        for k, part in enumerate(result):
            total = total + _score(part) * (k + 1)
        return total
    if result.dtype.kind not in "fc":
        return total
    weights = np.cos(np.arange(result.size) + 0.3).reshape(result.shape)
    if result.dtype.kind == "c":
        return total + (result.real * weights).sum() + (result.imag * weights).sum() * 0.7
    return total + (result * weights).sum()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_gradients_along_a_direction(name: str) -> None:
    call, values = CALLS[name]
    direction = np.sin(np.arange(values.size) * 1.7 + 1).reshape(values.shape)
    ahead, behind = (_score(call(np, values + sign * STEP * direction)) for sign in (1, -1))
    x = tnp.array(values)
    x.requires_grad_()
    made = call(tnp, x)
    score = _score(made)
    np.testing.assert_allclose(float(score), _score(call(np, values)), rtol=1e-10)
    score.backward()
    slope = float((np.asarray(x.grad) * direction)[~np.isnan(values)].sum())
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * STEP), rtol=2e-5, atol=2e-6)


def test_each_row_is_checked() -> None:
    names = {*named_functions()}
    assert sorted(names - CALLS.keys() - WITHOUT) == []
    assert sorted(WITHOUT & CALLS.keys()) == []


UNARY = {name for name, f in vars(tnp).items() if isinstance(f, tnp.ufunc) and (f.nin, f.nout) == (1, 1)}
STEPS = {
    "ceil", "floor", "trunc", "rint", "sign", "signbit", "isfinite", "isinf", "isnan", "logical_not", "spacing",
    "invert", "bitwise_not", "bitwise_invert", "bitwise_count",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY - STEPS))
def test_gradients_of_ufuncs(name: str) -> None:
    shift = 1.5 if name in ("arccosh", "acosh") else 0.0
    values = np.array([0.2, 0.6]) + shift
    x = tnp.array(values)
    x.requires_grad_()
    getattr(tnp, name)(x).sum().backward()
    f = getattr(np, name)
    np.testing.assert_allclose(np.asarray(x.grad), (f(values + STEP) - f(values - STEP)) / (2 * STEP), rtol=1e-6)


BINARY = {name for name, f in vars(tnp).items() if isinstance(f, tnp.ufunc) and (f.nin, f.nout) == (2, 1)}
DISCRETE = {"gcd", "lcm", "nextafter", "ldexp", "heaviside", "floor_divide", "matmul", "vecdot", "matvec", "vecmat"}


@pytest.mark.parametrize("name", sorted(BINARY - DISCRETE))
def test_gradients_of_ufuncs_of_two(name: str) -> None:
    f, y = getattr(np, name), np.array([1.7, 0.4])
    values = np.array([0.2, 0.6])
    try:
        if f(values, y).dtype.kind != "f":
            return
    except TypeError:  # integers only
        return
    x = tnp.array(values)
    x.requires_grad_()
    (getattr(tnp, name)(x, y) * [1.0, 2.0] + getattr(tnp, name)(y, x)).sum().backward()

    def both(v: Any) -> Any:
        return f(v, y) * [1.0, 2.0] + f(y, v)

    np.testing.assert_allclose(
        np.asarray(x.grad), (both(values + STEP) - both(values - STEP)) / (2 * STEP), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_running_and_sliced_ufuncs(name: str) -> None:
    values = np.array([[0.5, -1.5, 2.0, 0.25], [1.5, 0.75, -0.5, 3.0]])
    for call in (
        lambda xp, x: getattr(xp, name).accumulate(x, axis=1),
        lambda xp, x: getattr(xp, name).reduceat(x, [0, 2, 1], axis=1),
    ):
        x = tnp.array(values).requires_grad_()
        made = call(tnp, x)
        np.testing.assert_allclose(made.detach().numpy(), call(np, values))
        weights = np.cos(np.arange(made.size)).reshape(made.shape)
        (made * weights).sum().backward()
        slopes = np.zeros_like(values)
        for at in np.ndindex(*values.shape):
            shift = np.zeros_like(values)
            shift[at] = STEP
            slopes[at] = ((call(np, values + shift) - call(np, values - shift)) * weights).sum() / (2 * STEP)
        np.testing.assert_allclose(x.grad.numpy(), slopes, atol=1e-7)


@each("call", (
    lambda xp, x: xp.append([[x[0], x[1]]], [[x[1] * 2, 3.0]], axis=0), lambda xp, x: xp.insert([1.0, 2.0], 1, [x[0]]),
    lambda xp, x: xp.concatenate([[x[0]], [x[1], 2.0]]), lambda xp, x: xp.vstack([[x[0], 1.0], [2.0, x[1]]]),
    lambda xp, x: xp.gradient([x[0], x[1], 3.0]), lambda xp, x: xp.full((2, 2), [x[0], x[1]]),
    lambda xp, x: xp.interp([x[0]], [0.0, 1.0, 9.0], [1.0, 2.0, x[1]]), lambda xp, x: xp.polyval([x[0], x[1]], 2.0),
    lambda xp, x: xp.average([x[0], 2.0], weights=[x[1], 1.0]), lambda xp, x: xp.dot([x[0], x[1]], [1.0, 2.0]),
    lambda xp, x: xp.diff([x[0], x[1]], prepend=[x[1]]), lambda xp, x: xp.einsum("i,i", [x[0], 1.0], [x[1], x[1]]),
    lambda xp, x: xp.where([True, False], [x[0], 1.0], [x[1], x[1]]), lambda xp, x: xp.hstack([[x[0]], x]),
))  # fmt: skip
def test_lists_of_elements_keep_their_gradient(call: Any) -> None:
    values = np.array([1.5, 2.5])

    def total(xp: Any, x: Any) -> Any:
        made = call(xp, x)
        return (made * (1.0 + xp.arange(made.size)).reshape(made.shape)).sum()

    slopes = [(total(np, values + h) - total(np, values - h)) / (2 * STEP) for h in STEP * np.eye(2)]
    np.testing.assert_allclose(tk.grad(lambda x: total(tnp, x))(tnp.array(values)).numpy(), slopes, atol=1e-7)
