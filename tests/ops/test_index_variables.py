"""Index variables of scalar expressions: the position of an element in the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import registry
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import scalar as s
from tests._backends import TemplateHost

SHAPE = (3, 4)
ROWS, COLUMNS = np.indices(SHAPE)
FLAT = np.arange(12).reshape(SHAPE)


@pytest.fixture(params=["cpu", "templated"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with tk.backends.register(TemplateHost()), tk.backends.strict_fallback():
        yield request.param


@pytest.fixture
def define() -> Iterator[Any]:
    made: list[str] = []

    def one(scalar: Any, arguments: str = "Tensor x, Tensor y", **options: Any) -> Any:
        made.append(f"index_test::op{len(made)}")
        return tk.library.pointwise(f"{made[-1]}({arguments}) -> Tensor", scalar=scalar, **options)

    yield one
    for name in made:
        for op in [op for op in registry if op.facets.get("DerivedFrom") is registry.operators[name]]:
            registry.undefine(op, keep_kernels=False)
        registry.undefine(registry.operators[name], keep_kernels=False)


def on(device: str, values: Any, **options: Any) -> tk.Tensor:
    return tk.tensor(np.asarray(values), device=device, **options)


X, Y = np.linspace(-1, 2, 3)[:, None], np.linspace(1, 2, 4)


@pytest.mark.parametrize(
    ("scalar", "want"),
    [
        (lambda T: lambda x, y: x * y + s.index(0), X * Y + ROWS),
        (lambda T: lambda x, y: x * y + s.index(1) * 10, X * Y + COLUMNS * 10),
        (lambda T: lambda x, y: s.where(s.index(-1) > s.index(-2), x, y), np.where(COLUMNS > ROWS, X, Y)),
        (lambda T: lambda x, y: x * y * s.index(), X * Y * FLAT),
        (lambda T: lambda x, y: s.index() - s.index(1) + 0 * x * y, (FLAT - COLUMNS) * 1.0),
        (lambda T: lambda x, y: x if s.index(0) == 1 else y, np.where(ROWS == 1, X, Y)),
    ],
)
def test_values(device: str, define: Any, scalar: Any, want: np.ndarray) -> None:
    op = define(scalar)
    np.testing.assert_array_equal(op(on(device, X), on(device, Y)).numpy(), want, strict=True)
    dense = op(on(device, X * np.ones(SHAPE)), on(device, Y * np.ones(SHAPE)))  # merged where that is right
    np.testing.assert_array_equal(dense.numpy(), want, strict=True)


def test_dtypes_and_shapes(device: str, define: Any) -> None:
    op = define(lambda T: lambda x: x + s.index(-1) + s.index(), "Tensor x", promote=tk.library.SAME)
    failed = []
    for dtype in ("int8", "int32", "uint8", "int64", "float32", "float64"):
        for shape in ((0,), (5,), (2, 3), (2, 0, 3), (1, 1), (2, 3, 4)):
            a = np.ones(shape, dtype)
            want = a + np.arange(shape[-1]).astype(dtype) + np.arange(a.size).reshape(shape).astype(dtype)
            got = op(on(device, a)).numpy()
            if got.dtype != want.dtype or not np.array_equal(got, want):
                failed.append((dtype, shape))
    assert failed == []
    with pytest.raises(TypeError, match="is not defined for dtype bool"):
        op(on(device, [True]))


def test_layouts_and_in_place(device: str, define: Any) -> None:
    op = define(lambda T: lambda x: x * 100 + s.index(0) * 10 + s.index(1), "Tensor x")
    flat = define(lambda T: lambda x: x * 100 + s.index(), "Tensor x")
    x = on(device, FLAT.astype(float))
    np.testing.assert_array_equal(
        op(x.T).numpy(), FLAT.T * 100 + COLUMNS.T * 0 + np.add.outer(np.arange(4) * 10, range(3))
    )
    np.testing.assert_array_equal(flat(x.T).numpy(), FLAT.T * 100 + np.arange(12).reshape(4, 3))
    np.testing.assert_array_equal(flat(x[1:, ::2]).numpy(), FLAT[1:, ::2] * 100 + np.arange(4).reshape(2, 2))
    inplace = registry.derive("index_test::op1_")
    if inplace is not None:
        inplace.call(x.T)
        np.testing.assert_array_equal(x.numpy(), (FLAT.T * 100 + np.arange(12).reshape(4, 3)).T)


def test_a_large_call_is_compiled_alike(define: Any) -> None:
    op = define(lambda T: lambda x, y: s.sin(x) * s.index(1) + y * s.index(0) + s.index())
    a, b = np.linspace(0, 1, 400).astype(np.float32)[:, None], np.linspace(0, 1, 500).astype(np.float32)
    want = np.sin(a) * np.arange(500, dtype=np.float32) + b * np.arange(400, dtype=np.float32)[:, None]
    want += np.arange(200_000, dtype=np.float32).reshape(400, 500)
    for _ in range(3):
        np.testing.assert_allclose(op(tk.asarray(a), tk.asarray(b)).numpy(), want, rtol=1e-6, strict=True)


def test_an_axis_that_the_result_lacks(device: str, define: Any) -> None:
    op = define(lambda T: lambda x: x + s.index(1), "Tensor x")
    for where in (device, "meta"):
        with pytest.raises(
            IndexError, match=r"\[op0\] its expression uses index\(1\), and the result has 1 dimension:"
        ):
            op(tk.ones(3, device=where))
    assert op(tk.ones((3, 2), device="meta")).shape == (3, 2)


def test_derivatives(device: str, define: Any) -> None:
    op = define(lambda T: lambda x, y: s.sin(x) * s.index(1) + x * x * y * s.index(0))
    x, y = on(device, X, requires_grad=True), on(device, Y, requires_grad=True)
    gx, gy = tk.autograd.grad(tk.sum(op(x, y)), (x, y), create_graph=True)
    np.testing.assert_allclose(
        gx.detach().numpy(), (np.cos(X) * COLUMNS + 2 * X * Y * ROWS).sum(1, keepdims=True), rtol=1e-12
    )
    np.testing.assert_allclose(gy.detach().numpy(), (X * X * ROWS).sum(0), rtol=1e-12)
    (second,) = tk.autograd.grad(tk.sum(gx), x)
    np.testing.assert_allclose(second.numpy(), (-np.sin(X) * COLUMNS + 2 * Y * ROWS).sum(1, keepdims=True), rtol=1e-12)
    _, tangent = tk.transforms.jvp(lambda x: op(x, on(device, Y)), (on(device, X),), (on(device, np.ones_like(X)),))
    np.testing.assert_allclose(tangent.numpy(), np.cos(X) * COLUMNS + 2 * X * Y * ROWS, rtol=1e-12)


@pytest.mark.parametrize("axis", [-1, -2, 0, 1, None])
def test_vmap(device: str, define: Any, axis: int | None) -> None:
    op = define(lambda T: lambda x, y: x * y + s.index(axis))
    a = np.arange(24.0).reshape(2, 3, 4)
    position = {-1: COLUMNS, -2: ROWS, 0: ROWS, 1: COLUMNS, None: FLAT}[axis]
    for at, in_dims in ((a, (0, None)), (np.moveaxis(a, 0, 1), (1, None)), (np.moveaxis(a, 0, 2), (2, 0))):
        y = np.ones((2, 1)) if in_dims[1] is not None else np.ones(4)
        got = tk.transforms.vmap(op, in_dims=in_dims)(on(device, at), on(device, y))
        np.testing.assert_array_equal(got.numpy(), a + position)


def test_vmap_does_not_count_the_batch(define: Any) -> None:
    op = define(lambda T: lambda x: x + s.index(-1), "Tensor x")
    with pytest.raises(IndexError, match=r"uses index\(-1\), and the result has 0 dimensions"):
        tk.transforms.vmap(op)(tk.ones(3))


class TestExpressions:
    def test_text_and_parameters(self) -> None:
        expression = s.index(0) * s.variable("x") + s.index(-1) + s.index()
        assert str(expression) == "index(0) * x + index(-1) + index()"
        assert s.free_variables(expression) == {"x"}
        assert "index" not in s.operations(expression)
        values = {"x": 0.5, "index_0": 4, "index_m1": 1, "index_flat": 30}
        assert s.evaluate(expression, values) == 33.0
        with pytest.raises(KeyError, match="index_m1"):
            s.evaluate(expression, {"x": 0.5, "index_0": 4})
        assert s.differentiate(expression, "x") is s.index(0)

    def test_emitted_functions_take_them_as_further_parameters(self) -> None:
        expression = s.variable("x") * 2 + s.index(1)
        for table in (s.PYTHON, s.NUMPY):
            scope: dict[str, Any] = {}
            exec("\n".join([*table.imports, s.function_source("f", ["x"], [expression], table)]), scope)
            assert scope["f"](1.5, 7) == 10.0
            assert scope["f"](x=1.5, index_1=7) == 10.0
        assert "float f(float x_, int64_t index_1_)" in s.to_c(expression, {"x": "float32"}, dtype="float32", name="f")
        assert "(float x_, long index_1_)" in s.to_c(
            expression, {"x": "float32"}, dtype="float32", name="f", dialect="opencl"
        )

    def test_scalar_functions(self) -> None:
        function = tk.backends.ScalarFunction("f", ("x",), s.variable("x") + s.index(2) * s.index(0), np.dtype("int64"))
        assert function.indices == (0, 2)
        assert function(5, index_0=2, index_2=3) == 11

    def test_mistakes(self) -> None:
        with pytest.raises(TypeError, match="an axis is an integer known to Python, got"):
            s.index(0.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="the parameter index_0 has the name of an index variable"):
            s.trace(lambda T: lambda index_0: index_0 + s.index(0), ["index_0"])


def test_only_pointwise_operators_have_them() -> None:
    schema = "index_test::sum(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor"
    for options in ({}, {"scalar": lambda T: lambda x: x * s.index(0)}):
        combine = (lambda T: lambda a, b: a + b) if options else (lambda T: lambda a, b: a + b * s.index())
        with pytest.raises(RegistrationError, match=r"uses index\(\), the position of an element"):
            tk.library.reduction(schema, combine=combine, identity=0, **options)  # type: ignore[arg-type]


def test_opcheck_takes_samples_that_have_the_axes(define: Any) -> None:
    op = define(lambda T: lambda x, y: s.sin(x) * s.index(1) + y * s.index(-1))
    made = list(tk.testing.samples(op.operator, np.random.default_rng(0)))
    assert {sample.name for sample in made} >= {"contiguous", "three dimensions", "broadcast", "empty"}
    for sample in made:
        assert tk.library.opcheck(op, sample.args).passed
