"""Transforms of transforms: every composition of two, and of three, against differences in 60 digits.

A transform takes a function of three numbers to one, by contracting what it gives with fixed or moving vectors, so any
two compose. The reference does the same on functions written with mpmath, whose derivatives are central differences
with a step of 1e-12: accurate to 20 digits, and independent of everything here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import mpmath
import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import Function
from tenkey.core.tensor import Tensor
from tenkey.transforms import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tests._tiers import tier

Call = Callable[[Any], Any]

_DIGITS: Final = 110
_STEP: Final = mpmath.mpf(10) ** -12
_rng = np.random.default_rng(0)
_A: Final = np.round(_rng.standard_normal((3, 3)), 3)
_V: Final = np.array([1.0, -0.5, 0.75])
_POINT: Final = np.array([0.7, -0.4, 1.3])


def _exact(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([mpmath.mpf(float(v)) for v in values.reshape(-1)], dtype=object).reshape(values.shape)


_TA, _TV = tk.asarray(_A), tk.asarray(_V)
_MA, _MV = _exact(_A), _exact(_V)
_exp = np.vectorize(mpmath.exp, otypes=[object])
_sin = np.vectorize(mpmath.sin, otypes=[object])
_cos = np.vectorize(mpmath.cos, otypes=[object])
_log = np.vectorize(mpmath.log, otypes=[object])


# ---- functions of three numbers, twice each


class _Cube(Function):
    """With all that a Function can say of its derivatives, and an intermediate result among them."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * t

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> Any:
        return _Cube.apply(x), in_dims[0]


class _ExpOut(Function):
    """Whose derivatives use the result, and whose rule for vmap is generated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return tk.exp(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        return ctx.saved_tensors[0] * t


class _OldCube(Function):
    """With a backward alone, in the older style."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    cube = tk.library.custom_op(
        "comptest::cube", lambda x: tk.asarray(x.numpy() ** 3), schema="(Tensor x) -> Tensor", mutates_args=()
    )
    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    pairs = tk.library.reduction(
        "comptest::pairs(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b + a * b,
        identity=0,
    )
    bend = tk.library.pointwise(
        "comptest::bend(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x * tk.library.scalar.sin(y) * y
    )
    _MADE.update(custom_op=cube, reduction=pairs, pointwise=bend)
    yield
    for operator in _MADE.values():
        tk.dispatch.registry.undefine(operator.operator, keep_kernels=False)


_MADE: Final[dict[str, Any]] = {}


def _in_place(x: Tensor) -> Tensor:
    y = tk.zeros_like(x)
    y[1:] = x[1:] * x[:-1]
    y[tk.asarray([0])] = x[2] * x[2]
    z = y * x
    z *= x
    z += y
    return z


def _mp_in_place(x: Any) -> Any:
    y = np.array([x[2] * x[2], x[1] * x[0], x[2] * x[1]], dtype=object)
    return y * x * x + y


def _mp_lse(x: Any) -> Any:
    return _log(_exp(x[:, None] * _MA).sum(axis=1))


def _mp_softmax(x: Any) -> Any:
    return _exp(x) / _exp(x).sum() * x


def _mp_fold(x: Any) -> Any:  # a + b + a * b is (1 + a) * (1 + b) - 1
    return ((1 + x[0]) * (1 + x[1]) * (1 + x[2]) - 1) * x


FUNCTIONS: Final[dict[str, tuple[Call, Call]]] = {
    "pointwise": (lambda x: tk.sin(x) * x + 0.3 * x**3, lambda x: _sin(x) * x + mpmath.mpf(0.3) * x**3),
    "matmul": (lambda x: (_TA @ x) * (tk.outer(x, x) @ _TA)[0], lambda x: (_MA @ x) * (np.outer(x, x) @ _MA)[0]),
    "logsumexp": (lambda x: tk.logsumexp(tk.expand_dims(x, 1) * _TA, axis=1), _mp_lse),
    "softmax": (lambda x: tk.softmax(x, axis=0) * x, _mp_softmax),
    "where": (lambda x: tk.where(x > 0, x**3, tk.exp(x)), lambda x: np.where(x > 0, x**3, _exp(x))),
    "index": (lambda x: x[tk.asarray([2, 0, 0])] ** 2 * x[::-1], lambda x: x[[2, 0, 0]] ** 2 * x[::-1]),
    "cumulative_sum": (lambda x: tk.cumulative_sum(x * x) * x, lambda x: np.cumsum(x * x) * x),
    "norm": (lambda x: x * tk.linalg.vector_norm(x), lambda x: x * mpmath.sqrt((x * x).sum())),
    "join": (
        lambda x: tk.concat([x, x * x])[1:4] * tk.sum(tk.stack([x, x**3]), axis=0),
        lambda x: np.concatenate([x, x * x])[1:4] * (x + x**3),
    ),
    "in_place": (_in_place, _mp_in_place),
    "function": (_Cube.apply, lambda x: x**3),
    "generated": (lambda x: _ExpOut.apply(x * 0.5) * x, lambda x: _exp(x / 2) * x),
    "older": (_OldCube.apply, lambda x: x**3),
    "custom_op": (lambda x: _MADE["custom_op"](x), lambda x: x**3),
    "reduction": (lambda x: _MADE["reduction"](x) * x, _mp_fold),
    "composed": (lambda x: _MADE["pointwise"](x, x[::-1]), lambda x: x * _sin(x[::-1]) * x[::-1]),
}


# ---- transforms, twice each


def _jacobian(f: Call) -> Callable[[Any], Any]:
    def columns(x: Any) -> Any:
        steps = [np.array([_STEP if i == j else mpmath.mpf(0) for j in range(3)], dtype=object) for i in range(3)]
        return np.stack([(f(x + step) - f(x - step)) / (2 * _STEP) for step in steps], axis=1)

    return columns


def _along(f: Call, x: Any, v: Any) -> Any:
    return (f(x + v * _STEP) - f(x - v * _STEP)) / (2 * _STEP)


TRANSFORMS: Final[dict[str, tuple[Callable[[Call], Call], Callable[[Call], Call]]]] = {
    "grad": (lambda f: grad(lambda x: tk.sum(f(x) * _TV)), lambda f: lambda x: _jacobian(f)(x).T @ _MV),
    "jacrev": (
        lambda f: lambda x: tk.sum(jacrev(f)(x) * _TA, axis=0), lambda f: lambda x: (_jacobian(f)(x) * _MA).sum(axis=0),
    ),
    "jacfwd": (
        lambda f: lambda x: tk.sum(jacfwd(f)(x) * _TA, axis=0), lambda f: lambda x: (_jacobian(f)(x) * _MA).sum(axis=0),
    ),
    "jvp": (lambda f: lambda x: jvp(f, (x,), (x * _TV,))[1], lambda f: lambda x: _along(f, x, x * _MV)),
    "vjp": (lambda f: lambda x: vjp(f, x)[1](tk.cos(x))[0], lambda f: lambda x: _jacobian(f)(x).T @ _cos(x)),
    "linearize": (lambda f: lambda x: linearize(f, x)[1](x * _TV), lambda f: lambda x: _along(f, x, x * _MV)),
    "hessian": (
        lambda f: lambda x: hessian(lambda y: tk.sum(f(y) * _TV))(x) @ _TV,
        lambda f: lambda x: _along(lambda y: _jacobian(f)(y).T @ _MV, x, _MV),
    ),
    "vmap": (
        lambda f: lambda x: tk.sum(vmap(f)(tk.stack([x, x * 0.5])), axis=0), lambda f: lambda x: f(x) + f(x / 2),
    ),
    "vmap of constants": (
        lambda f: lambda x: tk.sum(vmap(lambda s: f(x) * s)(tk.asarray([1.0, 2.0])), axis=0),
        lambda f: lambda x: 3 * f(x),
    ),
}  # fmt: skip


def _check(name: str, chain: tuple[str, ...]) -> None:
    """``chain``: the outermost transform first."""
    ours, exact = FUNCTIONS[name]
    for transform in reversed(chain):
        ours, exact = TRANSFORMS[transform][0](ours), TRANSFORMS[transform][1](exact)
    x = tk.asarray(_POINT)
    got = ours(x)
    with mpmath.workdps(_DIGITS):
        want = np.array([float(v) for v in exact(_exact(_POINT))])
    scale = max(1.0, float(np.max(np.abs(want))))
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-11 * scale, err_msg=f"{chain} of {name}")
    assert not got.requires_grad
    assert x.tolist() == _POINT.tolist()


def test_a_number_that_is_assigned_has_no_tangent() -> None:
    _check("in_place", ("jvp", "jacfwd", "linearize"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_functions(name: str) -> None:
    for transform in TRANSFORMS:
        _check(name, (transform,))


# the others: each third composition
_WHOLE: Final = tier((), ("pointwise", "logsumexp", "in_place", "function", "custom_op"))


@pytest.mark.wider
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_transforms(name: str) -> None:
    position = list(FUNCTIONS).index(name)
    for number, chain in enumerate(itertools.product(TRANSFORMS, repeat=2)):
        if name in _WHOLE or number % 3 == position % 3:
            _check(name, chain)


_THREE: Final = list(itertools.product(TRANSFORMS, repeat=3))


@pytest.mark.full
@pytest.mark.parametrize("outermost", TRANSFORMS)
def test_transforms_of_transforms_of_transforms(outermost: str) -> None:
    """Every composition of three, each of one of the functions in turn."""
    names = list(FUNCTIONS)
    for number, chain in enumerate(_THREE):
        if chain[0] == outermost:
            _check(names[number % len(names)], chain)
