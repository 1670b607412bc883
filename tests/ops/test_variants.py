"""In-place and out= variants of operators that others declared: Note [Variants]."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError
from tenkey.dispatch.registry import registry
from tenkey.library import Library, pointwise, reduction
from tenkey.library import scalar as s

NS = "variant_test"


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if name.startswith(f"{NS}::") and name in registry.operators:
            registry.undefine(registry.operators[name], keep_kernels=False)


def declare() -> Callable[..., tk.Tensor]:
    """A number stands between the tensors: the variants must keep the order of the arguments."""
    return pointwise(
        f"{NS}::blend(Tensor x, float a, Tensor y) -> Tensor", scalar=lambda T: lambda x, a, y: x * a + s.exp(y)
    )


def operands(dtype: Any = "float64") -> tuple[tk.Tensor, tk.Tensor, np.ndarray[Any, Any]]:
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(dtype)
    return tk.asarray(x), tk.asarray(y), x * np.asarray(0.5, dtype) + np.exp(y)


class TestInplace:
    def test_values_and_version(self) -> None:
        declare()
        x, y, wanted = operands()
        memory, version = x.numpy(), x._version
        result = tk.ops.variant_test.blend_(x, 0.5, y)
        assert result is x
        np.testing.assert_allclose(memory, wanted, rtol=1e-14)
        assert x._version == version + 1

    def test_schema(self) -> None:
        declare()
        operator = registry.find(f"{NS}::blend_")
        assert str(operator.schema) == f"{NS}::blend_(Tensor(a!) x, float a, Tensor y) -> Tensor(a!)"

    def test_on_views_and_overlapping_memory(self) -> None:
        declare()
        base = np.arange(6.0)
        x = tk.asarray(base.copy())
        tk.ops.variant_test.blend_(x[1:], 2.0, x[:-1])
        np.testing.assert_allclose(x.numpy(), np.r_[0.0, base[1:] * 2 + np.exp(base[:-1])])

    def test_without_values(self) -> None:
        declare()
        x = tk.empty((2, 3), device="meta")
        assert tk.ops.variant_test.blend_(x, 1.0, tk.empty(3, device="meta")) is x
        with pytest.raises(ValueError, match="does not fit"):
            tk.ops.variant_test.blend_(x, 1.0, tk.empty((4, 2, 3), device="meta"))

    @pytest.mark.parametrize(
        ("x", "y", "error"),
        [((3,), (2, 3), ValueError), ("int64", "float64", TypeError), ("float32", "complex64", TypeError)],
    )
    def test_what_does_not_fit(self, x: Any, y: Any, error: type[Exception]) -> None:
        declare()
        tensors = [tk.ones(v) if isinstance(v, tuple) else tk.ones(3, dtype=v) for v in (x, y)]
        with pytest.raises(error, match=r"\[blend_\]"):
            tk.ops.variant_test.blend_(tensors[0], 1.0, tensors[1])
        assert tensors[0]._version == 0
        assert bool(tk.all(tensors[0] == 1))

    def test_a_wider_float_is_cast(self) -> None:
        declare()
        x, y, wanted = operands("float32")
        out = tk.ops.variant_test.blend_(x, 0.5, y.astype("float64"))
        assert out.dtype == tk.float32
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-6)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_gradient(self, dtype: str) -> None:
        declare()
        leaf = tk.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        other = tk.tensor([0.5, 1.0], dtype=tk.float64, requires_grad=True)
        x = leaf * 3.0
        out = tk.ops.variant_test.blend_(x, 2.0, other)
        out.sum().backward()
        assert leaf.grad is not None
        assert other.grad is not None
        assert (leaf.grad.dtype, other.grad.dtype) == (np.dtype(dtype), np.dtype("float64"))
        np.testing.assert_allclose(leaf.grad.numpy(), [6.0, 6.0])
        np.testing.assert_allclose(other.grad.numpy(), np.exp([0.5, 1.0]), rtol=1e-6)

    def test_a_leaf_refuses(self) -> None:
        declare()
        leaf = tk.tensor([1.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            tk.ops.variant_test.blend_(leaf, 2.0, leaf)

    def test_where_there_is_none(self) -> None:
        pointwise(f"{NS}::number_first(float a, Tensor x) -> Tensor", scalar=lambda T: lambda a, x: a * x)
        reduction(
            f"{NS}::total(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
            combine=lambda T: lambda a, b: a + b,
        )
        for name in ("number_first_", "total_", "blend_"):
            with pytest.raises(AttributeError, match="there is no operator"):
                getattr(tk.ops.variant_test, name)

    def test_overloads(self) -> None:
        pointwise(f"{NS}::twice.double(Tensor x) -> Tensor", scalar=lambda T: lambda x: x + x)
        x = tk.asarray([1.0])
        tk.ops.variant_test.twice_.double(x)
        assert x.tolist() == [2.0]
        assert tk.ops.variant_test.twice.double_out(x, out=x).tolist() == [4.0]


class TestOut:
    def test_values_and_version(self) -> None:
        op = declare()
        x, y, wanted = operands()
        out = tk.zeros((3, 4), dtype=tk.float64)
        version = out._version
        assert tk.ops.variant_test.blend.out(x, 0.5, y, out=out) is out
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-14)
        assert out._version == version + 1
        assert tk.ops.variant_test.blend(x, a=0.5, y=y, out=out) is out
        np.testing.assert_array_equal(tk.ops.variant_test.blend(x, 0.5, y).numpy(), op(x, 0.5, y).numpy())

    def test_the_packet_finds_it_before_it_was_asked_for(self) -> None:
        declare()
        x, y, wanted = operands()
        out = tk.zeros((3, 4))
        tk.ops.variant_test.blend(x, 0.5, y, out=out)
        np.testing.assert_allclose(out.numpy(), wanted.astype("float32"), rtol=1e-6)

    def test_an_argument_may_be_out(self) -> None:
        declare()
        x, y, wanted = operands()
        tk.ops.variant_test.blend.out(x, 0.5, y, out=x)
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-14)

    def test_of_reductions(self) -> None:
        op = reduction(
            f"{NS}::total(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
            combine=lambda T: lambda a, b: a + b,
            identity=0,
        )
        out = tk.zeros(2)
        tk.ops.variant_test.total.out(tk.ones((2, 3)), axis=1, out=out)
        assert out.tolist() == [3.0, 3.0]
        with pytest.raises(ValueError, match=r"\[total\].*shape \(\) does not fit into out, shape \(2,\)"):
            tk.ops.variant_test.total.out(tk.ones((2, 3)), out=out)
        assert op(tk.ones(3)).item() == 3.0

    def test_built_in(self) -> None:
        out = tk.zeros(2, dtype=tk.float64)
        assert tk.ops.tk.exp.out(tk.asarray([0.0, 1.0]), out=out).tolist() == pytest.approx([1, np.e], rel=1e-6)

    def test_what_does_not_fit(self) -> None:
        declare()
        x, y, _ = operands()
        for out, error in (
            (tk.zeros((4, 3)), ValueError), (tk.zeros((3, 4), dtype=tk.int64), TypeError),
            (tk.broadcast_to(tk.zeros(4), (3, 4)), RuntimeError),
        ):  # fmt: skip
            with pytest.raises(error, match=r"\[blend\]"):
                tk.ops.variant_test.blend.out(x, 0.5, y, out=out)
            assert not tk.any(out != 0).item()
            assert out._version == 0

    @pytest.mark.parametrize("which", ["x", "y", "out"])
    def test_no_gradient(self, which: str) -> None:
        declare()
        tensors = {name: tk.zeros(2) for name in ("x", "y", "out")}
        tensors[which].requires_grad_()
        with pytest.raises(RuntimeError, match=r"out=\.\.\. arguments don't support automatic differentiation"):
            tk.ops.variant_test.blend.out(tensors["x"], 1.0, tensors["y"], out=tensors["out"])
        with tk.no_grad():
            tk.ops.variant_test.blend.out(tensors["x"], 1.0, tensors["y"], out=tensors["out"])
        assert tensors["out"].tolist() == [1.0, 1.0]

    def test_without_values(self) -> None:
        declare()
        x, out = tk.empty(3, device="meta"), tk.empty(3, device="meta")
        assert tk.ops.variant_test.blend.out(x, 1.0, x, out=out) is out
        with pytest.raises(ValueError, match="does not fit"):
            tk.ops.variant_test.blend.out(x, 1.0, x, out=tk.empty(4, device="meta"))


class TestRegistry:
    def test_nothing_is_made_before_it_is_asked_for(self) -> None:
        declare()
        assert [name for name in registry.operators if name.startswith(f"{NS}::")] == [f"{NS}::blend"]

    def test_they_go_with_the_operator(self) -> None:
        operator = declare().operator  # type: ignore[attr-defined]
        inplace, out = tk.ops.variant_test.blend_, tk.ops.variant_test.blend.out
        registry.undefine(operator)
        assert not [name for name in registry.operators if name.startswith(f"{NS}::")]
        x = tk.zeros(2)
        with pytest.raises(LookupError):
            inplace(x, 1.0, x)
        with pytest.raises(LookupError):
            out(x, 1.0, x, out=x)

    def test_a_definition_takes_the_place_of_a_variant(self) -> None:
        declare()
        assert registry.find(f"{NS}::blend_") is registry.find(f"{NS}::blend_")
        with Library(NS, "FRAGMENT") as lib:
            lib.define("blend_(Tensor(a!) x, float a, Tensor y) -> Tensor(a!)")
            lib.impl("blend_", lambda x, a, y: x, "cpu")
            x = tk.ones(2)
            assert tk.ops.variant_test.blend_(x, 5.0, x).tolist() == [1.0, 1.0]
            with pytest.raises(RegistrationError, match="is defined already"):
                lib.define("blend_(Tensor(a!) x) -> Tensor(a!)")
        assert tk.ops.variant_test.blend_(tk.ones(1), 5.0, tk.zeros(1)).tolist() == [6.0]

    def test_declared_again(self) -> None:
        for factor in (2.0, 3.0):
            pointwise(f"{NS}::again(Tensor x) -> Tensor", scalar=lambda T, f=factor: lambda x: x * f)
            assert tk.ops.variant_test.again_(tk.ones(1)).tolist() == [factor]
            assert tk.ops.variant_test.again.out(tk.ones(1), out=tk.zeros(1)).tolist() == [factor]

    def test_many_threads_ask_at_once(self) -> None:
        declare()
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(registry.find(f"{NS}::blend_"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


class TestMethods:
    def test_every_tagged_block_has_its_method(self) -> None:
        for name in ("sin_", "abs_", "mul_", "multiply_", "neg_", "floor_divide_", "round_", "log1p_"):
            assert hasattr(tk.Tensor, name), name
        assert tk.asarray([-1.5]).abs_().tolist() == [1.5]
        assert tk.asarray([7.0]).floor_divide_(2).tolist() == [3.0]

    def test_methods_go_with_the_operator(self) -> None:
        from tenkey.ops.declare import pointwise as declare_block

        entry = declare_block(
            f"{NS}::cube(Tensor x) -> Tensor",
            scalar=lambda T: lambda x: x * x * x,
            methods=("cube_of_the_test",),
            tags=("inplace",),
        )
        x = tk.asarray([2.0])
        assert x.cube_of_the_test().tolist() == [8.0]
        assert x.cube_of_the_test_().tolist() == [8.0]
        registry.undefine(entry.operator)  # type: ignore[attr-defined]
        assert not hasattr(tk.Tensor, "cube_of_the_test")
        assert not hasattr(tk.Tensor, "cube_of_the_test_")

    def test_a_method_that_was_covered_comes_back(self) -> None:
        from tenkey.ops.declare import pointwise as declare_block

        before = tk.Tensor.sin
        entry = declare_block(f"{NS}::other(Tensor x) -> Tensor", scalar=lambda T: lambda x: x, methods=("sin",))
        assert tk.asarray([2.0]).sin().tolist() == [2.0]
        registry.undefine(entry.operator)  # type: ignore[attr-defined]
        assert tk.Tensor.sin is before


def test_an_out_variant_leaves_the_name_to_its_operator() -> None:
    """Once it was asked for, calls and explanations of the name are as before."""
    op = tk.library.pointwise("renamed::named(Tensor x) -> Tensor", scalar=lambda T: lambda x: x + T(1))
    packet = tk.ops.renamed.named
    before = tk.dispatch.explain("renamed::named", 1)
    with pytest.raises(TypeError) as error:
        packet("a")
    out = tk.zeros(2)
    assert packet.out(tk.ones(2), out=out) is out
    assert "out" in packet.overloads()
    assert tk.dispatch.explain("renamed::named", 1) == before
    with pytest.raises(TypeError) as again:
        packet("a")
    assert str(again.value) == str(error.value)
    assert packet(tk.ones(2)).tolist() == op(tk.ones(2)).tolist() == [2.0, 2.0]
    assert packet(tk.ones(2), out=out) is out
