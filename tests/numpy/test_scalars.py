"""Note [Scalars and 0-d arrays]: NumPy's own scalars where NumPy returns them, and where 0-d arrays are needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tests._backends import Host

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "element": lambda m, x, a: x[2], "negative": lambda m, x, a: x[-1], "NumPy's index": lambda m, x, a: x[np.int64(1)],
    "element of a matrix": lambda m, x, a: a[1, 2], "of a row": lambda m, x, a: a[1][2], "row": lambda m, x, a: a[1],
    "with dots": lambda m, x, a: x[2, ...], "empty tuple": lambda m, x, a: m.asarray(2.5)[()],
    "iteration": lambda m, x, a: list(x), "flat": lambda m, x, a: a.flat[3], "item": lambda m, x, a: x.item(1),
    "sum": lambda m, x, a: [m.sum(x), x.sum(), m.sum(a, axis=0), m.sum(a, keepdims=True), m.sum(x, axis=0), sum(x)],
    "prod": lambda m, x, a: [m.prod(a), x.prod()], "mean": lambda m, x, a: [m.mean(x), a.mean(), m.mean(x, dtype="f4")],
    "var": lambda m, x, a: [m.var(x), a.std(), m.std(a, ddof=1)], "median": lambda m, x, a: [m.median(x), m.median(a)],
    "extremes": lambda m, x, a: [m.max(x), a.min(), m.amax(x), m.ptp(x), m.argmax(a), a.argmin()],
    "truth": lambda m, x, a: [m.any(x), m.all(a), (x > 1).any(), m.count_nonzero(x), m.allclose(x, x)],
    "nan": lambda m, x, a: [m.nansum(x), m.nanmean(a), m.nanmax(x)], "percentile": lambda m, x, a: m.percentile(x, 30),
    "quantiles": lambda m, x, a: m.quantile(x, [0.2, 0.3]), "average": lambda m, x, a: m.average(x, weights=x),
    "products": lambda m, x, a: [m.dot(x, x), m.inner(x, x), m.vdot(x, x), x @ x, m.dot(a, x), m.matmul(x, x)],
    "einsum": lambda m, x, a: [m.einsum("i,i", x, x), m.einsum("ij->", a), m.einsum("ij->i", a)],
    "linalg": lambda m, x, a: [m.linalg.norm(x), m.linalg.norm(a, "fro"), m.linalg.det(a[:, :2]), m.trace(a)],
    "integral": lambda m, x, a: [m.trapezoid(x), m.interp(1.5, x, x), m.searchsorted(x, 2.0)],
    "ufuncs": lambda m, x, a: [m.sin(x[0]), m.exp(m.asarray(1.0)), m.add(x[0], 1), m.maximum(1, 2), m.sqrt(4.0)],
    "operators": lambda m, x, a: [x[0] + x[1], m.asarray(2.0) * 3, -m.asarray(1), m.asarray(2) == 2, x[0] ** 2],
    "several": lambda m, x, a: [*m.divmod(x[1], 2.0), *m.modf(x[1])],
    "reduce": lambda m, x, a: [m.add.reduce(x), m.multiply.reduce(a, axis=None), m.add.reduce(a), m.maximum.reduce(x)],
    "arrays": lambda m, x, a: [m.array(1.0), m.zeros(()), m.ones(()), m.full((), 3), m.reshape(x[:1], ())],
    "views": lambda m, x, a: [m.squeeze(x[:1]), m.where(True, 1, 2), m.transpose(m.asarray(1.0)), m.copy(1.0)],
    "keepdims of 0-d": lambda m, x, a: m.sum(m.asarray(1.0)),
    "rounded": lambda m, x, a: [m.round(x[0], 1), round(x[0])],
    "integers": lambda m, x, a: [m.sum(m.arange(4)), m.arange(4)[1], m.cumsum(m.arange(4))[-1], m.bincount([1, 1])[1]],
    "dtypes": lambda m, x, a: [m.asarray([1], d)[0] for d in ("?", "i1", "u8", "f2", "f4", "c8", "c16")],
    "unique": lambda m, x, a: m.unique(x)[0], "clip": lambda m, x, a: [m.clip(x[0], 0, 1), m.clip(3, 0, 1)],
    "parts": lambda m, x, a: [m.real(x[0]), m.imag(1j), m.abs(x[0]), m.angle(1j)], "diff": lambda m, x, a: m.diff(x)[0],
    "polynomials": lambda m, x, a: [m.polyval([1, 2], 3), m.polyval([1.0, 2.0], x)[0]],
    "isnan": lambda m, x, a: m.isnan(x[0]),
}  # fmt: skip


def _facts(found: Any) -> Any:
    """Return types, with arrays of either package alike, dtypes and values."""
    if isinstance(found, (list, tuple)):
        return [_facts(one) for one in found]
    kind = "array" if isinstance(found, (tk.Tensor, np.ndarray)) else type(found)
    return kind, getattr(found, "dtype", None), np.asarray(found).tolist()


def _operands(m: Any) -> tuple[Any, Any]:
    return m.asarray(np.array([1.5, 2.0, 4.0])), m.asarray(np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 7.0]]))


@pytest.mark.parametrize("name", CALLS)
def test_types_are_numpys(name: str) -> None:
    if name in ("products", "linalg") and not hasattr(np, "trapezoid"):
        pytest.skip("names of NumPy 2")
    ours, theirs = CALLS[name](tnp, *_operands(tnp)), CALLS[name](np, *_operands(np))
    assert _facts(ours) == _facts(theirs)
    again = CALLS[name](tnp, *_operands(tnp))  # by another way than the first call
    assert _facts(again) == _facts(theirs)


SCALARS: dict[str, Callable[[Any], Any]] = {
    "element": lambda x: x[0], "sum": tnp.sum, "mean": tnp.mean, "max": lambda x: x.max(), "norm": tnp.linalg.norm,
    "dot": lambda x: tnp.dot(x, x), "ufunc": lambda x: tnp.sin(x[0]), "arithmetic": lambda x: x[0] * 2 + x[1],
    "einsum": lambda x: tnp.einsum("i,i", x, x), "median": tnp.median, "reduce": tnp.add.reduce,
}  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
def test_gradients_need_arrays(name: str) -> None:
    call = SCALARS[name]
    x = tnp.array([1.0, 3.0, 2.0])
    plain = call(x)
    assert isinstance(plain, np.float64)
    x.requires_grad_()
    for _ in range(3):
        y = call(x)
        assert (type(y), y.shape, y.requires_grad) == (tnp.ndarray, (), True)
        assert y.item() == plain
    y.backward()
    assert x.grad is not None
    with tk.no_grad():
        assert not getattr(call(x), "requires_grad", False)
    assert tk.grad(call)(tnp.array([1.0, 3.0, 2.0])).tolist() == x.grad.tolist()


@pytest.mark.parametrize("name", SCALARS)
def test_transforms_see_arrays(name: str) -> None:
    call, kinds = SCALARS[name], []

    def noted(x: Any) -> Any:
        y = call(x)
        kinds.append(isinstance(y, tnp.ndarray) and y.shape == ())
        return y

    rows = tnp.array([[1.0, 3.0, 2.0], [4.0, 0.5, 1.0]])
    found = tk.transforms.vmap(noted)(rows)
    assert kinds == [True]
    np.testing.assert_allclose(np.asarray(found), [float(call(row)) for row in rows], rtol=1e-15)
    value, tangent = tk.transforms.jvp(noted, (rows[0],), (tnp.ones(3),))
    assert kinds == [True, True]
    assert float(value) == call(rows[0])
    assert tangent.shape == ()


def test_functions_whose_result_does_not_depend_on_the_input() -> None:
    x = tnp.array([1.0, 2.0])
    constant = tnp.ones(3)
    assert tk.transforms.vmap(lambda v: tnp.sum(constant))(tnp.ones((4, 2))).tolist() == [3.0] * 4
    assert tk.transforms.jvp(lambda v: tnp.sum(constant), (x,), (x,))[1].tolist() == 0.0
    assert tk.grad(lambda v: tnp.sum(v * constant.max()))(x).tolist() == [1.0, 1.0]
    assert tk.transforms.jacrev(lambda v: v[0] * constant[0])(x).tolist() == [1.0, 0.0]


def test_devices_dtypes_and_subclasses_need_arrays() -> None:
    class Own(tnp.ndarray):
        @classmethod
        def __tk_dispatch__(cls, operator: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return "handled"

    class Plain(tnp.ndarray):
        pass

    own, plain = tnp.ones(3).as_subclass(Own), tnp.ones(3).as_subclass(Plain)
    assert (own.sum(), own[0]) == ("handled", "handled")
    assert (type(plain.sum()), type(plain[0])) == (np.float64, np.float64)  # as of NumPy's subclasses
    short = tnp.asarray(tk.ones(3, dtype=tk.bfloat16))
    assert isinstance(short[0], tnp.ndarray)
    assert isinstance(tnp.max(short), tnp.ndarray)
    meta = tnp.ones(3, device="meta")
    assert isinstance(meta[0], tnp.ndarray)
    assert isinstance(tnp.sum(meta), tnp.ndarray)
    with tk.backends.register(Host()):
        x = tnp.asarray([1.0, 2.0], device="host")
        for found in (x[0], tnp.sum(x), tnp.exp(x[0]), x[0] + 1):
            assert (type(found), found.device.type) == (tnp.ndarray, "host")


def test_scalars_are_written_into_elements() -> None:
    for dtype in ("f8", "f4", "i8", "i4", "?", "c16", "u1"):
        for value in (np.float64(2.0), np.int64(3), np.float32(1.0), np.bool_(True), np.float64("nan"), np.int64(300)):
            if np.dtype(dtype).kind in "iu" and (value != value or (value == 300 and dtype == "u1")):
                continue  # NumPy's result depends on the processor
            ours, theirs = tnp.zeros(3, dtype), np.zeros(3, dtype)
            for m, x in ((tnp, ours), (np, theirs)):
                for _ in range(3):
                    x[1] = value
                    x[2:] = value
                    x[m.asarray([0])] = value
            np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_tensors_stay_tensors() -> None:
    x = tk.ones(3)
    for found in (x[0], tk.sum(x), x.mean(), tk.exp(x[0]), x @ x):
        assert type(found) is tk.Tensor


def test_out_is_returned() -> None:
    out = tnp.zeros(())
    assert tnp.sum(tnp.ones(3), out=out) is out
    assert tnp.sin(tnp.asarray(1.0), out=out) is out
    assert tnp.add.reduce(tnp.ones(3), out=out) is out


def test_programs_for_numbers_take_them() -> None:
    x = tnp.array([0.5, 2.0])
    assert isinstance(x[0], float)
    assert json.dumps([x[0], x.sum()]) == "[0.5, 2.5]"
    assert Fraction(x[0]) == Fraction(1, 2)
    assert (f"{x[1]:.2f}", {x[0]: 1}[0.5], [1, 2, 3][tnp.argmax(x)]) == ("2.00", 1, 2)
    t = x[0]
    x[0], x[1] = x[1], t
    assert x.tolist() == [2.0, 0.5]
    t += 1
    assert x[1] == 0.5


def test_tensors_of_scalars() -> None:
    x = tnp.array([0.5, 2.0])
    assert tk.asarray(x[0]).dtype == np.float64
    assert tk.exp(tk.asarray(x[1])).shape == ()
    assert (tk.ones(2) * x[0]).tolist() == [0.5, 0.5]
    assert tnp.stack([x[0], x.sum()]).tolist() == [0.5, 2.5]
    assert tnp.array([[x[0], 1], [2, x[1]]]).dtype == np.float64
    y = tnp.array([1.0]).requires_grad_()
    assert tnp.array([y[0], x[0]]).requires_grad
