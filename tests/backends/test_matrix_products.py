"""The templates matmul and copy: shapes, layouts, dtypes, epilogues, fallbacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import ScalarFunction, coverage, strict_fallback
from tenkey.backends.external.backend_registration import registered
from tenkey.backends.external.matrix_products import MatrixProducts
from tenkey.backends.external.templates import Copier
from tenkey.library import scalar as s
from tests._reference_device import Reference
from tests._tiers import Failures
from tests.operators._table import DTYPES

RNG = np.random.default_rng(0)
SHAPES = [
    ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (6, 1, 3, 4)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((0,), (0,)),
    ((4, 0, 3), (3, 2)), ((1, 1), (1, 1)),
]  # fmt: skip


class Strict(Reference):
    """The reference device, which checks what the kernels are promised and counts their calls."""

    name = "strict"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []
        self.products: list[tuple[Any, Any, Any]] = []
        self.copies: list[tuple[Any, Any]] = []

    def matmul(self, dtype: np.dtype, epilogue: Any, operands: Any, result: np.dtype) -> Any:
        self.made.append((dtype.name, epilogue is not None, operands, result.name))
        kernel = super().matmul(dtype, epilogue, operands, result)

        def checked(out: Any, a: Any, b: Any, *inputs: Any) -> None:
            self.products.append((out, a, b))
            size, rows, columns = out.shape
            assert a.shape == (size, rows, a.shape[2])
            assert b.shape == (size, a.shape[2], columns)
            assert 0 not in (*a.shape, *b.shape)
            assert (a.dtype, b.dtype, out.dtype) == (dtype, dtype, result)
            assert out.owner not in (a.owner, b.owner)
            for x, operand in zip(inputs, operands, strict=True):
                assert x.dtype == operand.dtype
                assert operand.is_number or x.shape == out.shape
            kernel(out, a, b, *inputs)

        return checked

    def copy(self, dtype: np.dtype) -> Any:
        assert dtype.kind == "u"
        kernel = super().copy(dtype)

        def checked(out: Any, x: Any) -> None:
            self.copies.append((out, x))
            assert out.shape == x.shape
            assert out.ndim > 0
            assert out.size > 0
            assert out.dtype == x.dtype == dtype
            kernel(out, x)

        return checked


@pytest.fixture
def backend() -> Iterator[Strict]:
    made = Strict()
    with tk.backends.register(made):
        yield made


def there(values: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(values), device="strict")


def test_shapes(backend: Strict) -> None:
    failures = Failures()
    for first, second in SHAPES:
        a, b = RNG.standard_normal(first), RNG.standard_normal(second)
        with failures.of(f"{first} @ {second}"), strict_fallback():
            got = tk.matmul(there(a), there(b))
            np.testing.assert_allclose(got.numpy(), np.matmul(a, b), rtol=1e-12, atol=1e-12, strict=True)
    failures.check()


def test_dtypes_are_those_of_the_cpu(backend: Strict) -> None:
    failures = Failures()
    for first in (*DTYPES, "float16"):
        for second in (first, "float64", "bool"):
            a = tk.asarray(RNG.integers(-3, 4, (3, 300)).astype(first))
            b = tk.asarray(RNG.integers(-3, 4, (300, 2)).astype(second))
            with failures.of(f"{first} @ {second}"), strict_fallback():
                want, got = a @ b, a.to_device("strict") @ b.to_device("strict")
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, strict=True)
    failures.check()


def test_transposed_operands_are_not_copied(backend: Strict) -> None:
    a, b = there(RNG.standard_normal((4, 3, 2))), there(RNG.standard_normal((4, 5, 3)))
    backend.copies.clear()
    with strict_fallback():
        got = tk.matrix_transpose(a) @ tk.matrix_transpose(b)
    want = np.matmul(a.numpy().transpose(0, 2, 1), b.numpy().transpose(0, 2, 1))
    ((_, left, right),) = backend.products
    assert (left.owner, right.owner) == (a.array.owner, b.array.owner)
    np.testing.assert_allclose(got.numpy(), want)


def test_batches_take_one_call_where_they_can(backend: Strict) -> None:
    failures = Failures()
    for first, second, calls in [
        ((4, 2, 3), (3, 5), 1),
        ((6, 4, 2, 3), (3, 5), 1),
        ((6, 4, 2, 3), (6, 4, 3, 5), 1),
        ((2, 3), (6, 4, 3, 5), 1),
        ((6, 1, 2, 3), (4, 3, 5), 6),
    ]:
        a, b = there(np.ones(first)), there(np.ones(second))
        backend.products.clear()
        with failures.of(f"{first} @ {second}"):
            assert tk.matmul(a, b).numpy().min() == 3
            assert len(backend.products) == calls
            if second == (3, 5):
                assert backend.products[0][0].shape[0] == 1
    failures.check()


def test_half_precision_is_computed_in_single_where_the_backend_has_none(backend: Strict) -> None:
    whole = Strict.matmul
    backend.matmul = lambda dtype, *rest: None if dtype.itemsize == 2 else whole(backend, dtype, *rest)  # type: ignore[method-assign]
    a = RNG.standard_normal((3, 40)).astype(np.float16)
    with strict_fallback():
        got = there(a) @ there(a.T)
    assert backend.products[0][0].dtype == np.float32
    np.testing.assert_array_equal(got.numpy(), (tk.asarray(a) @ tk.asarray(a.T.copy())).numpy(), strict=True)


def test_a_backend_that_declines_falls_back(backend: Strict) -> None:
    backend.matmul = lambda *given: None  # type: ignore[method-assign]
    assert (there([[1.0, 2.0]]) @ there([3.0, 4.0])).tolist() == [11.0]
    assert coverage("strict").fallback["tk::matmul"] == 1


def test_errors_are_those_of_the_cpu(backend: Strict) -> None:
    with pytest.raises(ValueError, match=r"\[matmul\] got \(2, 3\) @ \(2,\): the inner sizes 3 and 2"):
        there(np.ones((2, 3))) @ there(np.ones(2))
    with pytest.raises(RuntimeError, match="different devices"):
        there(np.ones((2, 3))) @ tk.ones(3)


def test_gradients(backend: Strict) -> None:
    values = RNG.standard_normal((2, 3)), RNG.standard_normal((5, 3, 4))
    found = []
    for device in ("cpu", "strict"):
        a, b = [tk.asarray(v, device=device).requires_grad_() for v in values]
        with strict_fallback():
            first = tk.autograd.grad(tk.sum(tk.tanh(a @ b)), [a, b], create_graph=True)
            second = tk.autograd.grad(tk.sum(first[0] * first[0]) + tk.sum(first[1]), [a, b])
        found.append([g.detach().numpy() for g in (*first, *second)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("declines", [False, True])
def test_an_epilogue_is_a_function_of_the_sums(backend: Strict, declines: bool) -> None:
    whole = Strict.matmul
    if declines:
        backend.matmul = lambda *given: None if given[1] else whole(backend, *given)  # type: ignore[method-assign]
    a, b = RNG.standard_normal((4, 2, 3)).astype(np.float32), RNG.standard_normal((3, 5)).astype(np.float32)
    bias = RNG.standard_normal(5).astype(np.float32)
    x, y, z = s.variable("x"), s.variable("y"), s.variable("z")
    epilogue = ScalarFunction("bias", ("x", "y", "z"), s.maximum(x + y, 0) * z, np.dtype(np.float32))
    products = MatrixProducts(backend, registered["strict"].fallback, Copier(backend))
    out = backend.empty((4, 2, 5), tk.float64)
    left, right, added = there(a), there(b), there(bias)
    assert products.multiply(out.array, left.array, right.array, epilogue, [added.array, np.float32(2)])
    np.testing.assert_allclose(out.numpy(), np.maximum(a @ b + bias, 0).astype(np.float64) * 2, rtol=1e-6)
    if declines:
        assert backend.made == [("float32", False, (), "float32")]
        return
    (made,) = backend.made
    assert [(x.dtype.name, x.is_number) for x in made[2]] == [("float32", False), ("float32", True)]
    assert made[3] == "float64"


# ---- copy


def test_copies_use_the_template(backend: Strict) -> None:
    failures = Failures()
    for dtype in (*DTYPES, "float16"):
        values = RNG.integers(0, 2, (3, 4)).astype(dtype)
        x = tk.permute_dims(there(values), (1, 0))
        backend.copies.clear()
        with failures.of(dtype):
            np.testing.assert_array_equal(x.clone().numpy(), values.T, strict=True)
            assert len(backend.copies) == 1
            assert tk.broadcast_to(x[:1], (2, 3)).clone().tolist() == [values.T[0].tolist()] * 2
    failures.check()


def test_flip_is_a_copy_with_negative_strides(backend: Strict) -> None:
    failures = Failures()
    for dtype in (*DTYPES, "float16"):
        values = RNG.integers(0, 2, (3, 1, 4)).astype(dtype)
        x = there(values)
        backend.copies.clear()
        for axis in (None, 0, 1, -1, (0, 2), ()):
            with failures.of(f"{dtype}, {axis}"), strict_fallback():
                np.testing.assert_array_equal(tk.flip(x, axis=axis).numpy(), np.flip(values, axis), strict=True)
                rows = tk.flip(x[::2, 0].T, axis=axis if axis in (None, 0) else 1)
                np.testing.assert_array_equal(rows.numpy(), np.flip(values[::2, 0].T, axis if axis in (None, 0) else 1))
        assert any(min(source.strides) < 0 for _, source in backend.copies)
    failures.check()
    assert tk.flip(there(np.zeros((0, 2)))).shape == (0, 2)
    assert tk.flip(there(np.float64(3.0))).item() == 3


def test_flip_gathers_where_copy_declines(backend: Strict) -> None:
    backend.copy = lambda dtype: None  # type: ignore[method-assign]
    values = RNG.standard_normal((3, 4))
    with strict_fallback():
        np.testing.assert_array_equal(tk.flip(there(values), axis=0).numpy(), values[::-1])


def test_conversions_do_not(backend: Strict) -> None:
    x = there([1.5, -2.5])
    backend.copies.clear()
    with strict_fallback():
        assert tk.astype(x, tk.int32).tolist() == [1, -2]
    assert backend.copies == []


def test_pointwise_copies_where_the_template_declines(backend: Strict) -> None:
    backend.copy = lambda dtype: None  # type: ignore[method-assign]
    x = there(RNG.standard_normal((3, 4)))
    with strict_fallback():
        np.testing.assert_array_equal(tk.matrix_transpose(x).clone().numpy(), x.numpy().T)
