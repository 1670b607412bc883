"""Templates: with ``pointwise`` and ``reduction`` whole families of operators run on a backend by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import ScalarFunction, coverage, strict_fallback
from tenkey.backends.external.templates import IndexedRunner
from tenkey.dispatch import registry
from tenkey.library import scalar as s
from tests._backends import Host, TemplateHost, window

RNG = np.random.default_rng(0)


@pytest.fixture
def backend() -> Iterator[TemplateHost]:
    made = TemplateHost()
    with tk.backends.register(made):
        yield made


def on(values: Any, **options: Any) -> tk.Tensor:
    return tk.tensor(np.asarray(values), device="templated", **options)


def equal(got: tk.Tensor, want: Any) -> None:
    assert got.device == "templated"
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-6, strict=True)


# ---- pointwise


def test_operators_gradients_and_in_place_variants_run_on_the_device(backend: TemplateHost) -> None:
    a = RNG.standard_normal((3, 4)).astype(np.float32)
    with strict_fallback():
        x = on(a, requires_grad=True)
        equal(tk.exp(x) * x + 1, np.exp(a) * a + np.float32(1))
        tk.sum(tk.tanh(x) * tk.sigmoid(x)).backward()
        assert x.grad is not None
        t, g = np.tanh(a), 1 / (1 + np.exp(-a))
        equal(x.grad, (1 - t * t) * g + t * g * (1 - g))
        y = on(a)
        y += 2
        y *= on(a[0])
        equal(y, (a + 2) * a[0])
    assert any("_vjp_" in name for name in backend.made)
    found = coverage("templated")
    assert {"tk::exp", "tk::add_", "tk::sum", "tk::tanh_vjp_x", "tk::cast", "tk::zeros"} <= set(found.derived)
    assert found.implemented == []
    assert found.fallback == {}


def test_a_gradient_written_by_hand_while_a_template_serves_the_operator(backend: TemplateHost) -> None:
    op = tk.library.pointwise("templates::by_hand(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x)
    x = on([3.0], requires_grad=True)
    with tk.library.register_autograd("templates::by_hand", lambda ctx, g: g * 7), strict_fallback():
        tk.sum(op(x)).backward()
    assert x.grad is not None
    equal(x.grad, np.asarray([7.0]))


def test_second_order(backend: TemplateHost) -> None:
    with strict_fallback():
        x = on([1.0, 2.0], requires_grad=True)
        (first,) = tk.autograd.grad(tk.sum(tk.exp(x) * x), x, create_graph=True)
        (second,) = tk.autograd.grad(tk.sum(first), x)
        equal(second, np.exp([1.0, 2.0]) * np.array([3.0, 4.0]))


def test_users_operators(backend: TemplateHost) -> None:
    op = tk.library.pointwise(
        "templates_test::blend(Tensor x, Tensor y, float a=0.25) -> Tensor",
        scalar=lambda T: lambda x, y, a: s.where(x > y, x * a, s.exp(y)),
    )
    try:
        a, b = RNG.standard_normal((2, 3, 1)), RNG.standard_normal((4,))
        with strict_fallback():
            x = on(a, requires_grad=True)
            equal(op(x, on(b), 0.5), np.where(a > b, a * 0.5, np.exp(b)))
            equal(op(x, 0.0), np.where(a > 0, a * 0.25, 1.0))
            tk.sum(op(x, on(b))).backward()
            equal(x.grad, np.where(a > b, 0.25, 0.0).sum(-1, keepdims=True))  # type: ignore[arg-type]
    finally:
        registry.undefine(registry.operators["templates_test::blend"], keep_kernels=False)


@pytest.mark.parametrize("left", ["float32", "int32", "bool", "uint8"])
@pytest.mark.parametrize("right", ["float64", "int64", "bool", 2, 2.5, True])
def test_promotion_is_that_of_the_cpu(backend: TemplateHost, left: str, right: Any) -> None:
    a = np.array([0, 1, 5]).astype(left)
    b: Any = np.array([[2], [0]]).astype(right) if isinstance(right, str) else right
    for op in (tk.add, tk.multiply, tk.maximum, tk.less, tk.logical_and):
        want = op(tk.asarray(a), tk.asarray(b) if isinstance(right, str) else b)
        with strict_fallback():
            got = op(on(a), on(b) if isinstance(right, str) else b)
        equal(got, want.numpy())


def test_conditions(backend: TemplateHost) -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([[10.0], [20.0]])
    with strict_fallback():
        equal(tk.where(on([True, False, True]), on(a), on(b)), np.where([True, False, True], a, b))
        equal(tk.where(on([1, 0, 2]), on(a), 0.0), np.array([1.0, 0.0, 3.0]))


def test_errors_are_those_of_the_cpu(backend: TemplateHost) -> None:
    x = on(np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match=r"\[add\] the shapes \(2, 3\) and \(2,\) cannot be broadcast together"):
        x + on(np.ones(2, np.float32))
    with pytest.raises(OverflowError, match=r"300 does not fit into uint8"):
        on([1], dtype=tk.uint8) + 300
    with pytest.raises(TypeError, match="cannot be written"):
        on([1, 2]).add_(0.5)
    with pytest.raises(ValueError, match="does not fit into the first argument"):
        on([1.0]).add_(on([1.0, 2.0]))
    with pytest.raises(
        tk.dispatch.DeviceMismatchError if hasattr(tk.dispatch, "DeviceMismatchError") else RuntimeError
    ):
        x + tk.ones((2, 3))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1), (2, 1, 3)])
def test_shapes(backend: TemplateHost, shape: tuple[int, ...]) -> None:
    a = np.ones(shape, np.float32)
    with strict_fallback():
        equal(on(a) + on(a), a + a)
        equal(tk.sum(on(a)), a.sum())
        x = on(a)
        x += 1
        equal(x, a + 1)


class TestMemory:
    def test_windows(self, backend: TemplateHost) -> None:
        a = np.arange(24.0).reshape(4, 6)
        x = on(a)
        with strict_fallback():
            equal(tk.permute_dims(x, (1, 0)) * 2, a.T * 2)
            equal(x[1:, ::2] + x[:3, 1::2], a[1:, ::2] + a[:3, 1::2])
            equal(tk.broadcast_to(x[0], (3, 6)) - 1, np.broadcast_to(a[0], (3, 6)) - 1)
            view = x[1:3, 2:5]
            view *= 0
            a[1:3, 2:5] = 0
            equal(x, a)

    def test_overlap(self, backend: TemplateHost) -> None:
        """What is read must not have been written before."""
        a = np.arange(6.0)
        with strict_fallback():
            x = on(a)
            tail = x[1:]
            tail += x[:-1]
            equal(x, np.array([0.0, 1.0, 3.0, 5.0, 7.0, 9.0]))
            m = on(np.arange(9.0).reshape(3, 3))
            m += tk.permute_dims(m, (1, 0))
            equal(m, np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T)
            y = on(a)
            y[1:] = y[:-1]
            equal(y, np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0]))
            z = on(a)
            z += z
            equal(z, 2 * a)

    def test_windows_are_fused(self) -> None:
        seen: list[Any] = []

        class Seen(TemplateHost):
            name = "seen"

            def pointwise(self, scalar: Any, operands: Any, result: Any) -> Any:
                kernel = super().pointwise(scalar, operands, result)

                def noting(out: Any, *inputs: Any) -> None:
                    seen.append((out.shape, *[x.strides for x in inputs]))
                    kernel(out, *inputs)

                return noting

        with tk.backends.register(Seen()):
            x = tk.asarray(np.ones((2, 3, 4), np.float32), device="seen")
            seen.clear()
            tk.exp(x)
            tk.exp(x[:, :, ::2])
            tk.add(x, x[0])
            tk.add(x, x[0, 0, :1])
        assert seen == [((24,), (4,)), ((12,), (8,)), ((2, 12), (48, 4), (0, 4)), ((24,), (4,), (0,))]

    def test_buffers_are_freed(self, backend: TemplateHost) -> None:
        x = on(np.ones((3, 4)), requires_grad=True)
        tk.sum(tk.exp(x) * x[0]).backward()
        del x
        assert backend.live == set()


# ---- copies and fills


def test_copies_and_fills_stay_on_the_device(backend: TemplateHost, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(12.0).reshape(3, 4)
    x, c = on(a), on(a * 1j)
    h = on(a.astype(np.float16))

    def forbidden(*args: Any) -> None:
        raise AssertionError("a copy went through the host")

    with strict_fallback(), monkeypatch.context() as patched:
        patched.setattr(TemplateHost, "copy_to_host", forbidden)
        patched.setattr(TemplateHost, "copy_from_host", forbidden)
        results = {
            "clone": (tk.permute_dims(x, (1, 0)).clone(), a.T),
            "complex": (tk.permute_dims(c, (1, 0)).clone(), a.T * 1j),
            "half": (h[:, 1].clone(), a.astype(np.float16)[:, 1]),
            "reshape": (tk.reshape(x[:, ::2], (6,)), a[:, ::2].reshape(6)),
            "astype": (x.astype(tk.int32), a.astype(np.int32)),
            "bool": (x.astype(tk.bool), a.astype(bool)),
            "concat": (tk.concat([x, x[:1]]), np.concatenate([a, a[:1]])),
            "mixed concat": (tk.concat([x, x.astype(tk.int32)], axis=1), np.concatenate([a, a], 1)),
            "stack": (tk.stack([x[0], x[1]], axis=-1), np.stack([a[0], a[1]], -1)),
            "zeros": (tk.zeros((2, 3), device="templated"), np.zeros((2, 3), np.float32)),
            "ones_like": (tk.ones_like(x), np.ones((3, 4))),
            "full": (tk.full((2,), 7, device="templated"), np.full(2, 7)),
        }
        y = tk.zeros_like(x)
        y[1:, ::2] = x[:2, :2]
        y[0] = 5
    for name, (got, want) in results.items():
        assert got.device == "templated", name
        np.testing.assert_array_equal(got.numpy(), want, strict=True, err_msg=name)
    want = np.zeros((3, 4))
    want[1:, ::2] = a[:2, :2]
    want[0] = 5
    equal(y, want)
    assert x[::2].to_device("cpu").tolist() == a[::2].tolist()


def test_what_a_template_cannot_fill_comes_from_the_cpu(backend: TemplateHost) -> None:
    equal(tk.ones(3, dtype=tk.float16, device="templated"), np.ones(3, np.float16))
    equal(tk.zeros(3, dtype=tk.float16, device="templated"), np.zeros(3, np.float16))
    equal(on(np.array([1.0, 2.0], np.float16)).astype(tk.float32), np.array([1.0, 2.0], np.float32))
    assert set(coverage("templated").fallback) == {"tk::ones", "tk::zeros", "tk::cast"}


def test_complex_numbers_are_moved_part_by_part(backend: TemplateHost) -> None:
    """The template computes in no complex dtype, but conversions, fills and parts need none."""
    a = np.array([[1 + 2j, -0.0 - 1j, 3], [0, 1j, np.inf + 1j]], np.complex64)
    x, real = on(a), on(np.array([[1.0, 0.0], [2.0, 3.0]], np.float32))
    with strict_fallback():
        equal(tk.full((2, 3), 1 - 2j, dtype=tk.complex64, device="templated"), np.full((2, 3), 1 - 2j, np.complex64))
        equal(tk.ones(3, dtype=tk.complex128, device="templated"), np.ones(3, np.complex128))
        for dtype in (np.complex128, np.complex64, np.bool_):
            equal(x.T.astype(np.dtype(dtype)), a.T.astype(dtype))
        for values in (np.array([1.5, -0.0]), np.array([1, -2]), np.array([True, False])):
            equal(on(values).astype(tk.complex64), values.astype(np.complex64))
        equal(tk.ops.tk.cast(x, np.dtype(np.float32)), a.real)
        equal(tk.real(x[:, ::2]), a.real[:, ::2])
        equal(tk.imag(x.T), a.imag.T)
        equal(tk.imag(real), np.zeros((2, 2), np.float32))
        equal(tk.conj(x), a.conj())
        joined = np.array([[1 + 1j, 2j], [2, 3 + 3j]], np.complex64)
        equal(tk.ops.tk.complex_from(real, real.T), joined)
        y = x.clone()
        y[:, :2] = real
        equal(y[:, :2], np.array([[1.0, 0.0], [2.0, 3.0]], np.complex64))
        equal(tk.zeros((0, 2), dtype=tk.complex64, device="templated").astype(tk.complex128), np.zeros((0, 2), complex))


def test_a_template_is_called_once_for_each_function(backend: TemplateHost) -> None:
    x = on(np.array([[1j, 0.0], [0.0, 2.0]], np.complex64))
    rows = on(np.zeros((2, 2))).T
    counted = ScalarFunction("count", ("x",), s.variable("x") + s.index(), np.dtype(np.float64))
    runner = IndexedRunner(backend, counted, lambda ndim: {"index_flat": None})
    made = []
    for _ in range(3):
        equal(x.astype(tk.bool), np.eye(2, dtype=bool))
        out = backend.empty((2, 2), tk.float64)
        assert runner.run(out.array, [rows.array])
        equal(out, np.arange(4.0).reshape(2, 2))
        made.append(len(backend.made))
    assert made == made[:1] * 3


# ---- reductions


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(backend: TemplateHost, axis: Any, keepdims: bool) -> None:
    a = RNG.uniform(0.5, 1.5, (3, 4, 2))
    for op, reference in ((tk.sum, np.sum), (tk.prod, np.prod), (tk.max, np.max)):
        with strict_fallback():
            for x, values in ((on(a), a), (tk.permute_dims(on(a), (2, 0, 1)), a.transpose(2, 0, 1))):
                equal(op(x, axis=axis, keepdims=keepdims), np.asarray(reference(values, axis=axis, keepdims=keepdims)))
    with strict_fallback():
        equal(tk.any(on(a > 1), axis=axis, keepdims=keepdims), np.asarray(np.any(a > 1, axis=axis, keepdims=keepdims)))


def test_long_and_empty_reductions(backend: TemplateHost) -> None:
    long = RNG.integers(-5, 5, 10_007)
    with strict_fallback():
        equal(tk.sum(on(long)), long.sum())
        equal(tk.max(on(np.stack([long, -long])), axis=1), np.array([long.max(), (-long).max()]))
        equal(tk.sum(on(long)[::3]), long[::3].sum())
        equal(tk.sum(on(np.zeros((0, 3))), axis=0), np.zeros(3))
        equal(tk.prod(on(np.zeros((0,)))), np.asarray(1.0))
        equal(tk.sum(on(np.zeros((0, 3))), axis=1), np.zeros(0))
        equal(tk.sum(on([True, True])), np.asarray(2))
        equal(tk.sum(on([1, 2]), dtype=tk.float32), np.asarray(3, np.float32))
    with pytest.raises(ValueError, match="the reduction of no elements"):
        tk.max(on(np.zeros((0, 3))), axis=0)
    with pytest.raises(IndexError, match="axis 2 is out of range"):
        tk.sum(on(np.zeros((0, 3))), axis=2)


def test_users_reductions(backend: TemplateHost) -> None:
    op = tk.library.reduction(
        "templates_test::norm1(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b, identity=0.0, scalar=lambda T: lambda x: s.abs(x),
    )  # fmt: skip
    try:
        a = RNG.standard_normal((2, 5000))
        with strict_fallback():
            equal(op(on(a), axis=1), np.abs(a).sum(1))  # in two steps: `scalar` is applied once
            equal(op(on(a), axis=0), np.abs(a).sum(0))
    finally:
        registry.undefine(registry.operators["templates_test::norm1"], keep_kernels=False)


# ---- what a template declines, and what it does wrong


def test_declined_dtypes_fall_back_and_are_counted(backend: TemplateHost) -> None:
    c = on(np.array([1 + 2j, 3.0]))
    equal(c * c, np.array([1 + 2j, 3.0]) ** 2)
    equal(tk.sum(c), np.asarray(4 + 2j))
    c += 1
    equal(c, np.array([2 + 2j, 4.0]))
    assert coverage("templated").fallback == {"tk::multiply": 1, "tk::sum": 1, "tk::add": 1}
    with strict_fallback(), pytest.raises(NotImplementedError, match=r"\[tk::multiply\] would fall back"):
        c * c


def test_a_kernel_by_hand_comes_first(backend: TemplateHost) -> None:
    calls: list[Any] = []

    def add(x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
        calls.append((x1.dtype, x2.dtype))
        return backend.from_host(backend.to_host(x1) + backend.to_host(x2))

    x = on([1.0, 2.0])
    with tk.library.register_kernel("tk::add", "templated", add):
        assert (x + x).tolist() == [2.0, 4.0]
        x += 1  # the in-place variant follows
        assert x.tolist() == [2.0, 3.0]
        assert "tk::add" in coverage("templated").implemented
    assert len(calls) == 2
    assert (x + x).tolist() == [4.0, 6.0]
    assert len(calls) == 2


def test_in_place_follows_a_kernel_without_templates() -> None:
    with tk.backends.register(Host()) as _:
        x = tk.asarray(np.arange(4.0), device="host")
        x += 1
        assert coverage("host").fallback == {"tk::add_": 1}
        assert "tk::add_" not in coverage("host").derived
        add = lambda a, b: x.device.backend.from_host(window(a) + window(b))  # noqa: E731
        with tk.library.register_kernel("tk::add", "host", add), strict_fallback():
            x[1:] += x[:-1]
            assert x.tolist() == [1.0, 3.0, 5.0, 7.0]
            assert "tk::add_" in coverage("host").derived


@pytest.mark.parametrize("value", [3, "kernel", ()])
def test_a_template_that_returns_no_kernel(value: Any) -> None:
    class Wrong(TemplateHost):
        name = "wrong"

        def pointwise(self, *args: Any) -> Any:
            return value

    with tk.backends.register(Wrong()):
        x = tk.asarray([1.0, 2.0], device="wrong")
        with pytest.raises(TypeError, match=r"\[tk::exp\] the template pointwise\(\) of the backend 'wrong' returned"):
            tk.exp(x)
        assert x.tolist() == [1.0, 2.0]


def test_a_template_without_kernels_is_no_template() -> None:
    class Declines(Host):
        name = "declines"

        def pointwise(self, *args: Any) -> Any:
            return None

        def reduction(self, *args: Any) -> Any:
            raise NotImplementedError

    with tk.backends.register(Declines()):
        x = tk.asarray(np.arange(6.0).reshape(2, 3), device="declines")
        y = tk.permute_dims(x, (1, 0))
        assert tk.sum(tk.exp(y) * 0 + y).item() == 15.0
        y += 1
        y[0] = tk.zeros(2, device="declines")
        assert x.tolist() == [[0.0, 2.0, 3.0], [0.0, 5.0, 6.0]]
        assert tk.concat([x, x]).shape == (4, 3)
        assert {"tk::exp", "tk::sum", "tk::concatenate"} <= set(coverage("declines").fallback)


def test_scalar_functions_describe_themselves() -> None:
    function = tk.backends.ScalarFunction("f", ("x", "y"), s.variable("x") * s.variable("y") + 1, np.dtype("int32"))
    assert function(2, 3) == 7
    assert repr(function) == "<scalar function f(x, y) = x * y + 1 in int32>"
    text = function.to_c(operands=[np.dtype("int8"), np.dtype("int32")], result=np.dtype("float64"), name="g")
    assert "static inline double g(int8_t x_, int32_t y_)" in text
