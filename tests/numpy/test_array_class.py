"""Note [Arrays with NumPy's rules], Note [In-place operators of arrays]: the class, its operators and methods."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tests.numpy._outcomes import counterpart
from tests.numpy._versions import SHORT_POWERS

A = np.array([[3.0, 1.0, 2.0], [0.5, 5.0, 4.0]])
I = np.array([[3, -1, 2], [0, 5, 4]])  # noqa: E741
C = A * (1 + 2j)
B = A > 2

# each is called with an array of NumPy's, then with one of ours
METHODS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: (x != 0).all(1), "any": lambda x: (x != 0).any(), "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(), "argsort": lambda x: x.argsort(0), "clip": lambda x: x.clip(1, 3),
    "compress": lambda x: x.compress([True, False, True], axis=1), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(), "diagonal": lambda x: x.diagonal(1), "dot": lambda x: x.dot(x.T),
    "max": lambda x: x.max(0), "mean": lambda x: x.mean(1, keepdims=True), "min": lambda x: x.min(),
    "nonzero": lambda x: x.nonzero(), "prod": lambda x: x.prod(0), "ptp of a function": lambda x: np.ptp(x, 0),
    "ravel": lambda x: x.ravel("F"), "repeat": lambda x: x.repeat(2, 1), "reshape": lambda x: x.reshape(3, -1),
    "reshape by columns": lambda x: x.reshape((3, 2), order="F"), "round": lambda x: x.round(0),
    "searchsorted": lambda x: x[0].copy().searchsorted([1, 2]), "std": lambda x: x.std(ddof=1),
    "sum": lambda x: x.sum(0), "swapaxes": lambda x: x.swapaxes(0, 1), "take": lambda x: x.take([2, 0], axis=1),
    "take beyond": lambda x: x.take([7, -9], mode="wrap"), "trace": lambda x: x.trace(), "var": lambda x: x.var(1),
    "transpose": lambda x: x.transpose(1, 0), "T": lambda x: x[None].T, "mT": lambda x: x[None].mT,
    "flatten": lambda x: x.flatten("F"), "squeeze": lambda x: x[:1].squeeze(), "astype": lambda x: x.astype("f4"),
    "conj": lambda x: x.conj(), "real": lambda x: x.real, "imag": lambda x: x.imag, "item": lambda x: x.item(1, 2),
    "tolist": lambda x: x.tolist(), "tobytes": lambda x: x.tobytes("F"), "len": len, "list": lambda x: list(x[0]),
    "contains": lambda x: (2 in x, 77 in x),
    "format": lambda x: f"{x[1, 0]:.3f} {x[0]}", "str": str,
    "argpartition": lambda x: x.argpartition(1, axis=None)[:2].shape,
    "nbytes": lambda x: (x.nbytes, x.itemsize, x.ndim),
    "int": lambda x: int(x[1, 1].real), "bool": lambda x: bool(x[0, 0]), "choose": lambda x: (x > 2).choose([x, -1]),
}  # fmt: skip
ORDERED = {"argmax", "argmin", "argsort", "clip", "max", "min", "ptp of a function", "searchsorted", "argpartition",
           "choose"}  # fmt: skip


def same(mine: Any, its: Any) -> None:
    """Compare values, dtypes, shapes and classes."""
    if isinstance(its, (tuple, list)):
        assert isinstance(mine, type(its))
        assert len(mine) == len(its)
        for one, other in zip(mine, its, strict=True):
            same(one, other)
    elif isinstance(its, (np.ndarray, np.generic)):
        assert type(mine) is counterpart(its)
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape)
        np.testing.assert_allclose(np.asarray(mine), its, rtol=1e-12, atol=1e-12)
    else:
        assert type(mine) is type(its)
        assert mine == its


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    for values in (A, I, C):
        if values is C and (name in ORDERED or name in ("format", "astype")):
            continue
        with np.errstate(all="ignore"):
            try:
                want = METHODS[name](values.copy())
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    METHODS[name](tnp.array(values))
                continue
            same(METHODS[name](tnp.array(values)), want)


OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.ge, operator.and_, operator.xor, operator.lshift, divmod,
    operator.matmul,
)  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda f: f.__name__)
def test_operators_with_dtypes_of_numpys(apply: Callable[[Any, Any], Any]) -> None:
    vectors = [v[0].astype(d) for v, d in ((A, "f4"), (A, "f8"), (I, "i1"), (I, "i8"), (abs(I), "u1"), (B, "?"))]
    others = (2, 2.0, True, np.float32(2), np.int8(2), [1, 2, 3], (1.0, 2.0, 3.0))
    for x in vectors:
        for y in (*vectors, *others):
            if apply is operator.pow and SHORT_POWERS:
                if x.dtype.kind in "iu" and isinstance(y, np.generic):
                    continue
                if x.dtype.kind == "b" and isinstance(y, (float, np.generic)):
                    continue
            for left, right in ((x, y), (y, x)):
                mine = [tnp.array(v) if v is x else v for v in (left, right)]
                with np.errstate(all="ignore"):
                    try:
                        want = apply(left, right)
                    except (TypeError, ValueError):
                        with pytest.raises((TypeError, ValueError)):
                            apply(*mine)
                        continue
                    same(apply(*mine), want)


def test_in_place() -> None:
    for value in (2, 2.5, A[0], [1, 2, 3]):
        x = tnp.array(A)
        alias, want = x, A.copy()
        x += value
        want += value
        x /= 2
        want /= 2
        assert alias is x
        same(x, want)
    x = tnp.array(I)
    with pytest.raises(TypeError, match=r"same_kind"):
        x += 1.5
    with pytest.raises(TypeError):
        x /= 2
    same(x, I)
    total = first = tnp.array(A)[0, 0]  # a scalar of NumPy's
    total += 1
    assert total is not first
    assert (float(total), float(first)) == (4.0, 3.0)
    view = tnp.array(A)
    row = view[0]
    row *= 10
    same(view[0], A[0] * 10)


def test_sorting_in_place() -> None:
    for values in (A, I):
        for axis in (0, 1, -1):
            x, want = tnp.array(values), values.copy()
            assert x.sort(axis) is None
            want.sort(axis)
            same(x, want)
        x.partition(1, axis=1)
        assert all(row[0] == min(row) for row in x.tolist())
    with pytest.raises(ValueError, match=r"does not own its data"):
        x[0].resize(7)


def test_the_class_is_kept() -> None:
    x = tnp.array(A)
    for made in (
        copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x[0], x.T, x.detach(), x.clone(), x.exp(),
        x.to("cpu"), x.float(), tnp.sin(tk.asarray(A)), np.sum(x, axis=0), np.add(A, x), x.mT,
    ):  # fmt: skip
        assert type(made) is tnp.ndarray
    assert type(tk.exp(x)) is tk.Tensor
    assert type(x.as_subclass(tk.Tensor)) is tk.Tensor

    class Named(tnp.ndarray):
        pass

    named = Named((2, 3))
    named.name = "x"
    assert type(copy.copy(named)) is Named
    assert copy.deepcopy(named).name == "x"


def test_derivatives_are_arrays() -> None:
    x = tnp.array([1.0, 2.0]).requires_grad_()
    (x**2).sum().backward()
    same(x.grad, np.array([2.0, 4.0]))
    x.grad = None
    assert x.grad is None
    seen: list[type] = []

    def function(v: Any) -> Any:
        seen.append(type(v))
        return (v.flatten() ** 3).sum()

    same(tk.grad(function)(x.detach()), np.array([3.0, 12.0]))
    assert seen == [tnp.ndarray]


def test_elements_are_keys() -> None:
    counts: dict[Any, int] = {}
    for value in tnp.array([3, 1, 3]):
        counts[value] = counts.get(value, 0) + 1
    assert counts == {3: 2, 1: 1}
    assert set(tnp.array([1.5, 1.5])) == {1.5}
    leaf = tnp.array(1.0).requires_grad_()
    before = hash(leaf)
    with tk.no_grad():
        leaf.add_(1)
    assert hash(leaf) == before


def test_values_written_by_index_keep_gradients() -> None:
    def function(v: Any) -> Any:
        made = tnp.zeros((2, 2))
        made[0] = [v[0], 2.0]
        made[1, 1] = v[1] ** 2
        return (made * tnp.array([[1.0, 1.0], [1.0, 3.0]])).sum()

    same(tk.grad(function)(tnp.array([1.0, 2.0])), np.array([1.0, 12.0]))
    x, want = tnp.array(I), I.copy()
    x[:, 0] = tnp.array([[7, 8]])
    want[:, 0] = np.array([[7, 8]])
    x[x > 4] = 2.9
    want[want > 4] = 2.9
    same(x, want)
    with pytest.raises(TypeError, match=r"complex"):
        x[0] = 1j
    with pytest.raises(IndexError, match=r"arrays used as indices must be of integer"):
        x[tnp.array([0.5])]


def test_optimizers_of_scipy_take_values_and_gradients() -> None:
    """Their compiled code gets NumPy's arrays, into which NumPy's own ``atleast_1d`` converts."""
    optimize = pytest.importorskip("scipy.optimize")

    def rosenbrock(x: Any) -> Any:
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    fun = tk.value_and_grad(lambda x: rosenbrock(x))
    for method in ("L-BFGS-B", "BFGS", "CG"):
        found = optimize.minimize(lambda x: fun(tnp.asarray(x)), np.array([0.3, -0.2]), jac=True, method=method)
        np.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-3)
    assert type(np.atleast_2d(tnp.ones(2))) is np.ndarray
    assert type(tnp.atleast_2d(tnp.ones(2))) is tnp.ndarray
