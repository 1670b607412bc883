"""Note [Scalars and 0-d arrays]: where NumPy gives a scalar, so does ``tenkey.numpy``, unless an array is needed."""

from __future__ import annotations

import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tests._backends import Host
from tests._tiers import each
from tests.numpy._outcomes import counterpart

F32, I64, C128 = np.float32(1.5), np.int64(1), np.complex128(1 + 2j)
"""Numbers that the calls combine with arrays."""

# each is evaluated with NumPy and with ours; v and w are vectors, m is a matrix, z and i are 0-d arrays, o an output
CALLS = (
    # elements
    "v[0]", "v[-1]", "v[I64]", "v[i]", "v[(0,)]", "m[0, 1]", "m[0][1]", "m[I64, -1]", "m[i, i]", "z[()]", "list(v)",
    "list(m)", "next(iter(v))", "next(m.flat)", "m.flat[1]", "w[1]", "b[0]", "tuple(np.ndenumerate(v))",
    "v[:, None][0]", "np.unstack(v)", "max(v)", "sum(v)", "sorted(v)", "v[np.argmax(v)]", "z[...]", "v[0, ...]",
    "v[..., 0]", "v[[0]]",
    # reductions
    *[f"np.{name}(m)" for name in (
        "sum", "prod", "mean", "std", "var", "min", "max", "amin", "amax", "any", "all", "argmin", "argmax", "ptp",
        "median", "average", "nansum", "nanprod", "nanmean", "nanstd", "nanvar", "nanmin", "nanmax", "nanmedian",
        "nanargmin", "nanargmax", "trace", "linalg.norm", "linalg.det", "linalg.cond", "linalg.slogdet",
        "linalg.trace", "linalg.matrix_norm", "linalg.vector_norm", "count_nonzero",
    )],
    *[f"m.{name}()" for name in (
        "sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax", "trace", "tolist",
    )],
    "np.percentile(v, 30)", "np.quantile(v, 0.3)", "np.nanpercentile(v, 30)", "np.sum(v, axis=0)", "v.max(axis=0)",
    "np.sum(m, axis=(0, 1))", "np.sum(z)", "z.mean()", "np.sum(v, keepdims=True)", "np.sum(z, keepdims=True)",
    "np.sum(v, dtype='f4')", "np.max(v, initial=9.0)", "np.sum(v, where=v > 1)", "np.sum(b)", "np.mean(b)", "w.sum()",
    "np.sum([1, 2])", "np.mean([F32, F32])", "np.average(v, returned=True)", "np.add.reduce(v)", "np.gcd.reduce(n)",
    "np.maximum.reduce(m, axis=None)", "np.logical_and.reduce(v)", "np.trapezoid(v)", "np.corrcoef(v)", "np.cov(v)",
    # products
    "np.dot(v, v)", "np.vdot(m, m)", "np.inner(v, v)", "v @ v", "np.matmul(v, v)", "v.dot(v)", "np.linalg.vecdot(v, v)",
    "np.einsum('i,i', v, v)", "np.einsum('ij->', m)", "np.linalg.multi_dot([v, m, v])", "np.tensordot(v, v, 1)",
    "np.kron(z, z)", "np.dot(2.0, 3.0)",
    # ufuncs and operators
    "np.sin(z)", "np.sin(1.5)", "np.sin(F32)", "np.add(z, 1)", "np.add(1, 2)", "np.add(F32, 1)", "np.add(F32, I64)",
    "np.divmod(z, 2.0)", "np.modf(z)", "np.frexp(1.5)", "np.isnan(z)", "np.hypot(3, 4)", "np.add.outer(z, z)",
    "np.ldexp(1.5, I64)", "np.sqrt(v[0])", "np.maximum(v[0], 2.0)", "np.sin(z, dtype='f4')", "np.sqrt(-1.0)",
    "np.bitwise_count(I64)", "np.conjugate(C128)", "-z", "abs(z)", "z + 1", "1 + z", "z * z", "z / F32", "z // 2",
    "z**2", "2**z", "divmod(z, 2)", "z > 1", "z == 1", "z != z", "z == {}", "z != 'a'",
    "i << 1", "~i", "v[0] + v[1]", "v[0] * w", "w * v[0]",
    "w * F32", "F32 * w", "w + I64", "I64 - n", "n * I64", "v > v[0]", "v[0] > v", "n // I64", "I64 % n", "v * C128",
    "n << I64", "b & b[0]", "b[0] | b", "m @ v * v[0]", "v ** I64", "I64 ** n", "round(v[0])", "round(v[0], 1)",
    "[1] * n[0]", "z.round()", "z.clip(0, 1)", "np.clip(z, 0, 1)", "np.round(z)",
    "np.clip(v, F32, v[1])", "np.real(z)", "np.real(v[0])", "np.imag(C128)", "np.real(1.5)", "np.angle(C128)",
    "np.nan_to_num(z)", "np.sinc(z)", "np.isreal(z)", "np.isclose(1, 1)", "np.allclose(v, v)", "np.i0(z)",
    "np.array_equal(v, v)", "np.flip(z)", "np.interp(1.5, v, v)", "np.searchsorted(v, 1.5)", "np.digitize(1.5, v)",
    "np.polyval(v, 2.0)", "np.take(v, 1)", "v.take(i)", "np.choose(i, v)", "np.linspace(0, 1, 3, retstep=True)",
    "np.unravel_index(1, (2, 2))", "np.linspace(z, 2.0, 3, retstep=True)",
    "np.squeeze(v[0])", "np.transpose(F32)",
    # 0-d arrays
    "np.array(1.5)", "np.array(v[0])", "np.asarray(F32)", "np.zeros(())", "np.ones(())", "np.full((), v[0])",
    "np.zeros_like(z)", "np.zeros_like(v[0])", "np.reshape(z, ())", "v[:1].reshape(())", "np.squeeze(v[:1])",
    "v[:1].squeeze()", "np.transpose(z)", "z.T", "z.copy()", "np.copy(z)", "z.astype('f4')", "np.astype(z, 'f4')",
    "np.astype(v[0], 'f4')", "z.real", "z.view()", "z.conj()", "np.where(True, v[0], 2.0)", "np.where(v > 1, v[0], v)",
    "np.select([True], [v[0]])", "np.isin(1, v)", "np.broadcast_to(v[0], ())", "np.expand_dims(z, ())", "np.block(z)",
    "np.real_if_close(z)", "np.roll(z, 1)", "np.tile(z, ())", "np.apply_along_axis(np.sum, 0, v)",
    "np.piecewise(z, [z > 0], [1.0, 2.0])", "np.vectorize(abs)(z)", "np.broadcast_arrays(z, z)", "np.resize(z, ())",
    # outputs
    *[f"np.{call}, out=o)" for call in (
        "sin(z", "add(z, 1", "sum(v", "max(v", "mean(v", "round(z", "clip(z, 0, 1", "median(v", "var(v",
    )],
    # scalars as operands
    "np.array([v[0], v[1]])", "np.stack([v[0], F32])", "np.concatenate([v, [v[0]]])", "np.hstack([v[0], v])",
    "np.full(3, w[0])", "np.arange(n[0])", "np.zeros((I64, I64))", "np.sum(m, axis=I64)", "np.repeat(v, I64)",
    "np.linspace(v[0], 2, 3)", "m[I64]", "m[:, I64]", "m[I64:]", "np.isscalar(v[0])", "np.insert(w, I64, F32)",
    "np.array([[I64, I64], n[:2]])", "np.outer(F32, w)", "np.dot(F32, w)", "np.max([v[0], F32])",
    "[1, 2] * i", "i * (1, 2)", "np.where(C128, 2, n)", "np.where(2.5j, F32, w)", "np.where(0.5, True, n)",
    "np.fmax(np.array(np.nan), np.nan * 1j)", "np.fmin([np.nan * 1j], [np.nan])",
)  # fmt: skip


def _evaluated(text: str, module: Any) -> Any:
    scope = {
        "np": module, "v": module.array([1.0, 2.5, 4.0]), "w": module.array([1, 2, 3], "f4"), "F32": F32, "I64": I64,
        "m": module.array([[1.0, 2.0, 0.5], [3.0, 4.0, 1.0], [0.5, 1.0, 5.0]]), "n": module.array([4, 6, 8]),
        "z": module.array(1.5), "i": module.array(1), "b": module.array([True, False]), "o": module.array(0.0),
        "C128": C128,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        return eval(text, scope)


def _same(mine: Any, its: Any) -> None:
    """Compare classes, dtypes and values, in tuples and lists too."""
    if isinstance(its, (tuple, list)):
        assert type(mine).__name__ == type(its).__name__
        for one, other in zip(mine, its, strict=True):
            _same(one, other)
        return
    if type(its) in (int, bool) and isinstance(mine, np.generic):  # newer versions give NumPy's own here
        assert mine == its
        return
    assert type(mine) is counterpart(its)
    assert getattr(mine, "dtype", None) == getattr(its, "dtype", None)
    np.testing.assert_allclose(np.asarray(mine), its, rtol=1e-6 if getattr(its, "dtype", "") == "f4" else 1e-13)


@each("text", CALLS)
def test_classes_and_values_are_numpys(text: str) -> None:
    wanted = _evaluated(text, np)
    for _ in range(3):  # the first time without a plan
        _same(_evaluated(text, tnp), wanted)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes(dtype: str) -> None:
    its = np.array([[1, 0], [1, 1]], dtype)
    x = tnp.array(its)
    for call in (
        lambda a: a[0, 1], lambda a: a[0][1], lambda a: a.sum(), lambda a: a.max(), lambda a: a[1] @ a[1],
        lambda a: a.mean(), lambda a: a[0, 0] == a[1, 1], lambda a: abs(a[0, 0]),
    ):  # fmt: skip
        for _ in range(3):
            _same(call(x), call(its))


@each("x", [2.5, -1.0, 0.0, -0.0, np.inf, np.nan, np.float64(0.5), np.float64(1e308), F32, 3, True, 1j])
def test_ufuncs_of_a_number_again_and_again(x: Any) -> None:
    """Results are NumPy's, of the third call too, which has a plan, and while nothing is recorded."""
    for name in (name for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and hasattr(tnp, name)):
        theirs, ours = getattr(np, name), getattr(tnp, name)
        if theirs.nin != 1 or theirs.nout != 1:
            continue
        with np.errstate(all="ignore"):
            try:
                expected = theirs(x)
            except TypeError:
                with pytest.raises(TypeError):
                    ours(x)
                continue
            found = [ours(x) for _ in range(3)]
            with tk.no_grad():
                found.append(ours(x))
        for one in found:
            _same(one, expected)


def test_scalars_are_pythons_numbers() -> None:
    x = tnp.array([1.5, 2.0])
    assert isinstance(x[0], float)
    assert isinstance(np.mean(x), float)  # NumPy's own function
    assert json.dumps([x[0], x.sum()]) == "[1.5, 3.5]"
    assert f"{x.sum():.2f}" == "3.50"
    assert (x.sum().item(), float(x.max()), repr(x[0])) == (3.5, 2.0, repr(np.float64(1.5)))
    assert pickle.loads(pickle.dumps(x[0])) == 1.5
    with pytest.raises(TypeError):
        round(tnp.array(1.5))  # type: ignore[call-overload]
    y = x[0]
    y += 1
    assert (y, x.tolist()) == (2.5, [1.5, 2.0])


# ---- where an array is needed

RESULTS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[0], lambda x: next(iter(x)), lambda x: x.sum(), tnp.sum, tnp.max, tnp.median, tnp.linalg.norm,
    lambda x: x @ x, lambda x: tnp.sin(x[0]), lambda x: x[0] * 2, lambda x: x[0] + x[1], lambda x: tnp.std(x),
    lambda x: tnp.dot(x, x), lambda x: tnp.einsum("i,i", x, x), lambda x: x.mean(), lambda x: -x[0],
)  # fmt: skip


@pytest.mark.parametrize("place", range(len(RESULTS)))
def test_arrays_that_require_a_gradient(place: int) -> None:
    call = RESULTS[place]
    x = tnp.array([1.5, 2.0]).requires_grad_()
    for _ in range(3):
        made = call(x)
        assert type(made) is tnp.ndarray
        assert made.requires_grad
        assert made.shape == ()
        with tk.no_grad():
            assert type(call(x)) is np.float64
        assert type(call(x.detach())) is np.float64
        assert call(x.detach()) == float(made)
    made.backward()
    assert x.grad.shape == x.shape


class _Through(tk.dispatch.DispatchMode):
    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return op(*args, **kwargs)


@pytest.mark.parametrize("place", range(len(RESULTS)))
def test_modes_and_transforms(place: int) -> None:
    call = RESULTS[place]
    x = tnp.array([1.5, 2.0])
    for _ in range(3):
        with _Through():
            made = call(x)
        assert (type(made), made.shape, float(made)) == (tnp.ndarray, (), float(call(x)))
        with tk.inference_mode():
            assert type(call(x)) is tnp.ndarray
        rows = tk.vmap(call)(tnp.stack([x, x * 2]))
        np.testing.assert_allclose(np.asarray(rows), [call(x), call(x * 2)], rtol=1e-14)
        assert type(tk.grad(call)(x)) is tnp.ndarray


def test_other_devices_and_dtypes() -> None:
    x = tk.asarray([1.5, 2.0], device="meta").as_subclass(tnp.ndarray)
    for made in (x[0], x.sum(), tnp.max(x), x[0] * 2, tnp.sin(x[0])):
        assert (type(made), made.shape, str(made.device)) == (tnp.ndarray, (), "meta")
    pytest.importorskip("ml_dtypes")
    y = tk.asarray([1.5, 2.0], dtype=tk.bfloat16).as_subclass(tnp.ndarray)
    for made in (y[0], tnp.max(y), y[1:][0]):
        assert (type(made), made.shape, made.dtype) == (tnp.ndarray, (), tk.bfloat16)


def test_arrays_of_a_backend_with_memory_of_its_own() -> None:
    with tk.backends.register(Host()):
        x = tnp.asarray([1.0, 2.0], device="host")
        for found in (x[0], tnp.sum(x), tnp.exp(x[0]), x[0] + 1):
            assert (type(found), found.device.type) == (tnp.ndarray, "host")


def test_subclasses() -> None:
    class Logged(tnp.ndarray):
        @classmethod
        def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return super().__tk_dispatch__(op, types, args, kwargs)

    x = tnp.array([1.5, 2.0]).as_subclass(Logged)
    for made, value in ((x[0], 1.5), (x.sum(), 3.5), (tnp.max(x), 2.0), (x[0] * 2, 3.0)):
        assert (type(made), made.shape, float(made)) == (Logged, (), value)


def test_results_of_tensors_stay_tensors() -> None:
    x = tk.asarray([1.5, 2.0])
    a = tnp.array([1.5, 2.0])
    for made in (x[0], x.sum(), tk.sum(x), tk.sum(a), tk.add(a[0], a[1]), x[0] * a[0], tk.max(a)):
        assert isinstance(made, tk.Tensor)


def test_in_place_operators_of_0d_arrays() -> None:
    """They change arrays, and rebind names of what stands for a scalar: Note [In-place operators of arrays]."""
    for make in (lambda m: m.array(1.5), lambda m: m.zeros(()), lambda m: m.array([2.0])[0, ...]):
        for _ in range(3):
            x, its = make(tnp), make(np)
            same, other = x, its
            x += 1
            its += 1
            x *= F32
            its *= F32
            assert (x is same, float(x)) == (its is other, float(its)) == (True, float(its))
    x = tnp.array(1)
    with pytest.raises(TypeError):
        x += 1.5
    w = tnp.array(1.5).requires_grad_()
    total = same = w * 1
    total += 1
    assert (float(same), float(total)) == (1.5, 2.5)
    total = same = tnp.zeros(())
    total += w
    assert total is same
    total.backward()
    assert float(w.grad) == 1.0


# ---- functions that return scalars


@each("convert", [float, int])
def test_complex_numbers_have_no_real_value(convert: Callable[[Any], Any]) -> None:
    for module in (np, tnp):
        with pytest.raises(TypeError, match="complex"):
            convert(module.array(1j))


def test_results_that_are_objects_do_not_fit_into_an_array() -> None:
    """``x += value`` and ``out=`` raise NumPy's error where the class of the value computes anything at all."""

    class Value:
        def __radd__(self, other: Any) -> str:
            return "text"

    for module in (np, tnp):
        x = module.ones(3)
        assert (x + Value()).tolist() == ["text"] * 3
        with pytest.raises(TypeError, match=r"Cannot cast ufunc 'add' output"):
            module.add(x, Value(), out=x)
        with pytest.raises(TypeError, match=r"Cannot cast ufunc 'add' output"):
            x += Value()
        assert x.tolist() == [1.0] * 3


@each("shapes", [((5,), (5,)), ((2, 3), (3,)), ((3,), ()), ((3, 3), (3, 1)), ((3, 3), (3, 3)), ((3,), (3, 3))])
def test_matrix_products_in_place(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """The second operand is a matrix with as many columns as the first; nothing is written otherwise."""
    found = []
    for module in (np, tnp):
        x, y = (module.ones(shape) * 2 for shape in shapes)
        if shapes[1][-2:] != (3, 3):
            with pytest.raises(ValueError, match=r"inplace matrix|enough dimensions|mismatch in its core"):
                x @= y
        else:
            x @= y
        found.append(np.asarray(x))
    np.testing.assert_array_equal(*found)


def test_operands_that_compute_ufuncs_replace_the_array() -> None:
    class Own:
        def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            return ufunc.__name__, method

    for module in (np, tnp):
        x = module.ones((2, 2))
        x @= Own()
        assert x == ("matmul", "__call__")


@each("text", ["text", b"text"])
@each("value", [2, 2.0, True, [2]])
def test_text_is_not_repeated_by_an_array(text: Any, value: Any) -> None:
    for module in (np, tnp):
        x = module.array(value)
        for call in (lambda x: x * text, lambda x: text * x, lambda x: operator.imul(x, text)):
            with pytest.raises(TypeError, match=r"multiply"):
                call(x)
        np.testing.assert_array_equal(np.asarray(x), value)


@each("dtype", [*"?bhilBHILefdFD"])
@each("name", ["add", "sub", "mul", "truediv", "pow", "lt", "or_", "iadd", "isub", "imul", "ifloordiv", "ipow", "ior"])
def test_operators_with_scalars_of_all_dtypes(dtype: str, name: str) -> None:
    """Results and dtypes are NumPy's, of the third call too, which has a plan."""
    call = getattr(operator, name)
    for code in "?bhilBHILefdFD":
        scalar = np.array(3 - 2j if code in "FD" else 3).astype(code)[()]
        for _ in range(3):
            found: list[Any] = []
            for module in (np, tnp):
                with np.errstate(all="ignore"):
                    try:
                        found.append(np.asarray(call(module.array([1, 2, 3], dtype), scalar)))
                    except (TypeError, ValueError):
                        found.append(None)
            its, mine = found
            assert (its is None) is (mine is None), code
            if its is not None:
                assert mine.dtype == its.dtype, code
                np.testing.assert_allclose(mine, its, rtol=1e-3 if its.dtype == "f2" else 1e-6, err_msg=code)


def test_functions_that_do_not_depend_on_their_input() -> None:
    x, y = tnp.array([1.0, 2.0]), tnp.array([4.0, 5.0])
    constant = lambda v: np.float64(9.0)  # noqa: E731
    for call in (lambda v: tnp.sum(y), lambda v: y[0], constant):
        assert tk.grad(call)(x).tolist() == [0.0, 0.0]
        value, gradient = tk.value_and_grad(call)(x)
        assert (type(value), float(value), gradient.tolist()) == (tnp.ndarray, float(call(x)), [0.0, 0.0])
        output, pullback = tk.vjp(call, x)
        assert pullback(np.float64(1.0))[0].tolist() == [0.0, 0.0]
        assert type(output) is tnp.ndarray
        assert [float(part) for part in tk.jvp(call, (x,), (x,))] == [float(call(x)), 0.0]
        for jacobian in (tk.transforms.jacrev, tk.transforms.jacfwd):
            assert jacobian(call)(x).tolist() == [0.0, 0.0]
        assert tk.transforms.hessian(call)(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert tk.vmap(call)(x).tolist() == [float(call(x))] * 2
        assert float(tk.transforms.linearize(call, x)[1](x)) == 0.0
    assert tk.grad(lambda v: tnp.sum(v * tnp.max(y)))(x).tolist() == [5.0, 5.0]
    assert tk.grad(lambda v: tnp.max(y) * v[0] - y[0] / v[1])(x).tolist() == [5.0, 1.0]
    assert tk.grad(lambda v: (tnp.sum(v), y[0]), has_aux=True)(x)[1].__class__ is np.float64


def test_functions_and_hooks_that_return_scalars() -> None:
    class Square(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            out = tnp.sum(a * a)
            ctx.save_for_backward(a, out, tnp.max(a))
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            a, out, largest = ctx.saved_tensors
            assert (float(out), float(largest)) == (5.0, 2.0)
            return 2 * a * grad

    class Exponential(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            out = tnp.exp(a)
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.saved_tensors[0] * grad

    x, z = tnp.array([1.0, 2.0]), tnp.array(0.5)
    assert tk.grad(Square.apply)(x).tolist() == [2.0, 4.0]
    for order in (tk.grad(Exponential.apply), tk.grad(tk.grad(Exponential.apply))):
        np.testing.assert_allclose(float(order(z)), np.exp(0.5))
    w = x.copy().requires_grad_()
    total = tnp.sum(w * w)
    total.register_hook(lambda grad: np.float64(3.0) * grad)
    total.backward(np.float64(2.0))
    assert w.grad.tolist() == [12.0, 24.0]
    assert tk.autograd.gradcheck(lambda a: tnp.sum(a * a), (w,))


def test_kernels_that_return_scalars() -> None:
    with tk.library.Library("scalars", "FRAGMENT") as library:
        library.define("total(Tensor x) -> Tensor")
        library.impl("total", tnp.sum, "cpu")
        assert float(tk.ops.scalars.total(tnp.array([1.0, 2.0]))) == 3.0


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
