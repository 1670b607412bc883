"""tenkey.library.reduction and composite: a combining function gives values, gradients, shapes and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import INT_TO_FLOAT, composite, pointwise, reduction, scalar
from tests._pointwise import NS, REDUCE, gradients, leaf, log_add_exp
from tests._registry import registry_as_before


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


@pytest.mark.parametrize("value", [None, 3, (1, 2)])
def test_a_composite_returns_what_the_schema_says(value: Any) -> None:
    wrong = composite(f"{NS}::wrong(Tensor x) -> Tensor")(lambda x: value)
    with pytest.raises(TypeError, match=rf"\[{NS}::wrong\] its function at .*test_reduction_library.py:\d+ returned"):
        wrong(tk.ones(2))


class TestReduction:
    @pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 0, 1), ()])
    @pytest.mark.parametrize("keepdims", [False, True])
    def test_axes(self, axis: Any, keepdims: bool) -> None:
        x = np.random.default_rng(5).standard_normal((3, 4, 5))
        out = log_add_exp()(tk.asarray(x), axis=axis, keepdims=keepdims)
        axes = (0, 1, 2) if axis is None else axis
        wanted = scipy.special.logsumexp(x, axis=axes, keepdims=keepdims) if axes != () else x
        assert out.shape == np.shape(wanted)
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-13)

    def test_layouts(self) -> None:
        x = np.random.default_rng(6).standard_normal((6, 7))
        op = log_add_exp()
        t = tk.asarray(x)
        np.testing.assert_allclose(
            op(tk.permute_dims(t, (1, 0)), axis=0).numpy(), scipy.special.logsumexp(x, axis=1), rtol=1e-13
        )
        np.testing.assert_allclose(op(t[::2, 1:], axis=1).numpy(), scipy.special.logsumexp(x[::2, 1:], axis=1))

    def test_empty_gives_the_identity(self) -> None:
        op = log_add_exp()
        assert op(tk.zeros((0,))).item() == -np.inf
        assert op(tk.zeros((0, 3)), axis=0).tolist() == [-np.inf] * 3
        assert op(tk.zeros((0, 3)), axis=1).shape == (0,)

    def test_empty_without_identity(self) -> None:
        op = reduction(f"{NS}::largest({REDUCE}) -> Tensor", combine=lambda T: scalar.maximum)
        assert op(tk.asarray([[1, 5], [7, 2]]), axis=0).tolist() == [7, 5]
        assert op(tk.zeros((0, 3)), axis=1).shape == (0,)
        with pytest.raises(ValueError, match=r"\[largest\] got shape \(0, 3\) with axis=\(0,\)"):
            op(tk.zeros((0, 3)), axis=0)

    def test_scalar_comes_first(self) -> None:
        op = reduction(
            f"{NS}::squares({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: a + b, identity=0, scalar=lambda T: lambda x: x * x,
        )  # fmt: skip
        x = np.random.default_rng(7).standard_normal((3, 4))
        np.testing.assert_allclose(op(tk.asarray(x), axis=1).numpy(), (x * x).sum(1))
        assert op(tk.asarray([2, 3])).tolist() == 13

    def test_gradient(self) -> None:
        op = reduction(
            f"{NS}::squares({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: a + b, identity=0.0, scalar=lambda T: lambda x: x * x,
            vjp={"x": lambda g, x: 2 * g * x},
        )  # fmt: skip
        x = leaf(1.0, -2.0, 3.0)
        assert gradcheck(op, (x,))
        assert gradgradcheck(op, (x,))

    def test_gradient_without_a_formula(self) -> None:
        op = log_add_exp()
        x = leaf(1.0, 2.0, 2.0)
        (g,) = gradients(op(x), x)
        np.testing.assert_allclose(g.numpy(), scipy.special.softmax([1.0, 2.0, 2.0]), rtol=1e-12)

    def test_axis_out_of_range(self) -> None:
        with pytest.raises((IndexError, ValueError), match=r"\[log_add_exp\].*axis 2"):
            log_add_exp()(tk.zeros((3, 4)), axis=2)

    def test_meta(self) -> None:
        out = log_add_exp()(tk.empty((3, 4), device="meta", dtype=tk.int32), axis=1, keepdims=True)
        assert (out.shape, out.dtype, out.device) == ((3, 1), tk.float32, "meta")


class TestComposite:
    def rms(self) -> Callable[..., Any]:
        @composite(f"{NS}::rms({REDUCE}) -> Tensor")
        def rms(x: tk.Tensor, *, axis: Any, keepdims: bool) -> tk.Tensor:
            """Root of the mean square."""
            return tk.sqrt(tk.mean(x * x, axis=axis, keepdims=keepdims))

        made: Callable[..., Any] = rms
        return made

    def test_values_and_gradients(self) -> None:
        op = self.rms()
        assert op.__doc__ == "Root of the mean square."
        x = np.random.default_rng(8).standard_normal((3, 4))
        np.testing.assert_allclose(op(tk.asarray(x), axis=1).numpy(), np.sqrt((x * x).mean(1)))
        leaf_x = tk.tensor(x, requires_grad=True)
        assert gradcheck(op, (leaf_x,))
        assert gradgradcheck(op, (leaf_x,))

    def test_meta(self) -> None:
        assert self.rms()(tk.empty((3, 4), device="meta"), axis=0).shape == (4,)

    def test_with_a_formula_of_its_own(self) -> None:
        @composite(f"{NS}::square(Tensor x) -> Tensor", vjp={"x": lambda g, x: 5 * g * x})
        def square(x: tk.Tensor) -> tk.Tensor:
            return x * x

        x = leaf(3.0)
        out = square(x)
        assert out.grad_fn.name() == "SquareBackward"
        assert gradients(out, x)[0].tolist() == [15.0]


# ---- reductions through compiled functions and NumPy's


def test_a_compiled_combining_function_reduces_several_axes() -> None:
    op = reduction(
        f"{NS}::parallel({REDUCE}) -> Tensor",
        combine=lambda T: lambda a, b: a * b / (a + b),
        scalar=lambda T: lambda x: scalar.exp(x),
        promote=INT_TO_FLOAT,
    )
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    large = np.tile(x, (40, 10, 100))
    for _ in range(80):  # after 64 calls the function is compiled
        op(tk.asarray(x))
    op(tk.asarray(large))
    for axis in (None, 0, (0, 2), (1, -1), (0, 1, 2)):
        for values in (x, large, x.T, x[:, ::2]):
            # a new set of dispatch keys chooses the kernel anew
            for tensor in (tk.asarray(values), tk.tensor(values, requires_grad=True)):
                got = op(tensor, axis=axis)
                np.testing.assert_allclose(got.detach().numpy(), 1 / np.sum(np.exp(-values), axis), rtol=1e-9)
    batched = tk.transforms.vmap(lambda v: op(v), in_dims=2)(tk.asarray(x))
    np.testing.assert_allclose(batched.numpy(), 1 / np.sum(np.exp(-x), (0, 1)), rtol=1e-9)


def test_reducing_nothing_without_an_identity_is_an_error_whatever_numpy_says() -> None:
    functions: dict[str, Callable[..., Any]] = {"hypot": scalar.hypot, "total": lambda a, b: a + b}
    for name, function in functions.items():
        op = reduction(f"{NS}::{name}({REDUCE}) -> Tensor", combine=lambda T, f=function: f)
        with pytest.raises(ValueError, match=rf"\[{name}\].*the reduction of no elements has no value"):
            op(tk.zeros((3, 0)), axis=1)
        assert op(tk.zeros((3, 0)), axis=0).shape == (0,)
        assert op(tk.asarray([[3.0, 4.0]]), axis=1).tolist() == [5.0 if name == "hypot" else 7.0]


def test_a_sum_of_bools_counts_them() -> None:
    many = [True, True, False] * 100_000
    for dtype in ("", "DType? dtype=None, "):
        op = reduction(
            f"{NS}::how_many{len(dtype)}({REDUCE.replace('bool', dtype + 'bool')}) -> Tensor",
            combine=lambda T: lambda a, b: a + b,
            identity=0,
        )
        for values in (many[:3], many):
            total = op(tk.asarray(values))
            assert (total.item(), total.dtype) == (sum(values), tk.int64)
        assert op(tk.empty((2, 3), dtype=tk.bool, device="meta"), axis=0).dtype == tk.int64
        assert op(tk.asarray([100, 100], dtype="int8")).dtype == tk.int8
    assert op(tk.asarray(many[:3]), dtype=tk.int32).dtype == tk.int32
    both = reduction(f"{NS}::each({REDUCE}) -> Tensor", combine=lambda T: scalar.minimum)
    assert both(tk.asarray([True, False])).item() is False


def test_a_complex_number_is_not_cut_to_its_real_part() -> None:
    op = pointwise(f"{NS}::turned(Tensor x, complex c) -> Tensor", scalar=lambda T: lambda x, c: x * c)
    for repeats in (1, 1 << 19):
        x = tk.asarray([1 + 1j, 2.0] * repeats)
        assert op(x, 2j)[:2].tolist() == [-2 + 2j, 4j]
        with pytest.raises(TypeError, match=r"takes complex dtypes, since c is a complex number\. Convert"):
            op(tk.real(x), 2j)
    either = pointwise(f"{NS}::either(Tensor x, Scalar c) -> Tensor", scalar=lambda T: lambda x, c: x * c)
    assert either(tk.asarray([1j]), 2j).tolist() == [-2]
    assert either(tk.asarray([2]), 2.5).tolist() == [5]
    for call in (either, tk.ops.pointwise_test.either_):
        with pytest.raises(TypeError, match=r"either\] the number 2j is complex, and the call computes in float32"):
            call(tk.ones(2), 2j)
    with pytest.raises(RegistrationError, match=r"c is a complex number, but promote=INT_TO_FLOAT .* take real dtypes"):
        pointwise(f"{NS}::ordered(Tensor x, complex c) -> Tensor", scalar=lambda T: lambda x, c: x * c if x > 0 else x)
