"""Note [Autocast]: what is cast to what, that gradients arrive in the parameter's dtype, and that it stays local."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import DispatchMode, registry
from tenkey.dispatch.local_state import get_state
from tenkey.library import scalar as s
from tenkey.ops.declare.facets import Autocast
from tenkey.testing import samples

NS = "test_autocast"
F16, F32, F64 = tk.float16, tk.float32, tk.float64
DECLARED = {op.name: op for op in registry if op.schema.namespace == "tk" and "Autocast" in op.facets}
EXPECTED = {
    "lower": "matmul vecdot einsum",
    "float32": "exp expm1 exp2 log log1p log2 log10 logaddexp pow reciprocal rsqrt cosh sinh tan acos asin acosh "
    "special_erf special_erfinv sum prod mean var std cumulative_prod cumulative_sum logsumexp linalg_vector_norm "
    "softmax log_softmax cross_entropy layer_norm",
    "widest": "concat concatenate stack scatter_add where linalg_cross",
}
"""The policies that programs rely on. A new operator with a policy is tested without being listed here."""


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    yield
    assert get_state() is None


def rand(*shape: int, dtype: Any = F32, **options: Any) -> Any:
    values = np.random.default_rng(0).standard_normal(shape)
    return tk.tensor(values.astype(dtype), **options)


class TestLists:
    def test_products_are_lowered(self) -> None:
        a, b = rand(3, 4), rand(4, 5)
        with tk.autocast("cpu", dtype=F16):
            y = a @ b
            z = tk.matmul(y, rand(5, 2))  # float16 meets float32
        assert y.dtype == z.dtype == F16
        want = (a.numpy().astype(F16).astype(F32) @ b.numpy().astype(F16).astype(F32)).astype(F16)
        np.testing.assert_array_equal(y.numpy(), want)  # storage in float16, sums in float32
        assert (a @ b).dtype == F32

    @pytest.mark.parametrize(
        "name", ["exp", "log", "sum", "mean", "softmax", "log_softmax", "logsumexp", "rsqrt", "prod"]
    )
    def test_delicate_ones_are_kept_in_float32(self, name: str) -> None:
        x = tk.abs(rand(3, 4, dtype=F16))
        function = getattr(tk, name)
        with tk.autocast("cpu"):
            y = function(x)
        assert y.dtype == F32
        np.testing.assert_array_equal(y.numpy(), function(tk.astype(x, F32)).numpy())
        assert function(x).dtype == F16

    def test_losses(self) -> None:
        logits = rand(3, 4, dtype=F16)
        with tk.autocast("cpu"):
            assert tk.cross_entropy(logits, tk.asarray([0, 1, 2])).dtype == F32

    def test_widest(self) -> None:
        with tk.autocast("cpu"):
            assert tk.concat([rand(2, dtype=F16), rand(2)]).dtype == F32
            assert tk.concat([rand(2, dtype=F16), rand(2, dtype=F16)]).dtype == F16
            assert tk.stack([rand(2, dtype=F16), rand(2)]).dtype == F32

    def test_all_else_as_it_is(self) -> None:
        with tk.autocast("cpu"):
            for dtype in (F16, F32):
                x = rand(3, dtype=dtype)
                for y in (x + 1, tk.relu(x), x * x, tk.reshape(x, (3, 1)), tk.max(x), tk.tanh(x)):
                    assert y.dtype == dtype

    @pytest.mark.parametrize("dtype", [F64, tk.complex64, tk.int64])
    def test_other_dtypes_are_never_cast(self, dtype: Any) -> None:
        x = tk.ones((2, 2), dtype=dtype)
        with tk.autocast("cpu"):
            assert (x @ x).dtype == dtype
            assert tk.exp(x).dtype == tk.exp(tk.ones((2, 2), dtype=dtype)).dtype
        with tk.autocast("cpu"):
            assert (tk.ones((2, 2), dtype=F64) @ rand(2, 2)).dtype == F64

    def test_numbers_stay_numbers(self) -> None:
        with tk.autocast("cpu"):
            assert tk.pow(rand(3, dtype=F16), 2).dtype == F32
            assert tk.pow(tk.ones(3, dtype=F64), 2).dtype == F64

    def test_in_place_stays_in_place(self) -> None:
        x = tk.ones(3, dtype=F16)
        with tk.autocast("cpu"):
            tk.ops.tk.exp_(x)
        assert x.dtype == F16
        assert x.tolist() == pytest.approx([np.e] * 3, rel=1e-3)

    @pytest.mark.parametrize("policy", EXPECTED)
    def test_policies_of_the_built_in_operators(self, policy: str) -> None:
        for name in EXPECTED[policy].split():
            assert DECLARED[f"tk::{name}"].facets["Autocast"] == Autocast(policy), name

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: tk.linalg.vector_norm(x),
            lambda x: tk.special.erf(x),
            lambda x: tk.special.erfinv(x * 0.1),
        ],
    )
    def test_operators_of_submodules(self, call: Any) -> None:
        with tk.autocast("cpu"):
            assert call(rand(3, dtype=F16)).dtype == F32

    def test_the_widest_of_submodules(self) -> None:
        for a, b in ((F16, F32), (F32, F16)):
            with tk.autocast("cpu"):
                assert tk.linalg.cross(rand(3, dtype=a), rand(3, dtype=b)).dtype == F32
        with tk.autocast("cpu"):
            assert tk.linalg.cross(rand(3, dtype=F16), rand(3, dtype=F16)).dtype == F16

    @pytest.mark.parametrize("name", DECLARED)
    def test_every_operator_with_a_policy(self, name: str) -> None:
        operator = DECLARED[name]
        policy = operator.facets["Autocast"].policy
        mixed = [F32, F16] if policy == "widest" else [F32] if policy == "lower" else [F16]
        for sample in samples(operator, np.random.default_rng(0), F32):
            floating = [t for t in sample.tensors() if t.dtype == F32]
            if "dtype" in sample.kwargs or len(floating) < len(mixed):
                continue
            dtypes = itertools.cycle(mixed)
            given = sample.map(lambda t, dtypes=dtypes: t.astype(next(dtypes)) if t.dtype == F32 else t)
            with tk.autocast("cpu"):
                result = operator(*given.args, **given.kwargs)
            assert result.dtype == (F16 if policy == "lower" else F32)
            return
        pytest.fail("no sample")


class TestGradients:
    def test_arrives_in_the_dtype_of_the_parameter(self) -> None:
        x, w = rand(5, 3), rand(3, 4, requires_grad=True)
        with tk.autocast("cpu", dtype=F16):
            y = x @ w
            loss = tk.mean(y * y)
        assert (y.dtype, loss.dtype) == (F16, F32)
        loss.backward()
        assert w.grad is not None
        assert w.grad.dtype == F32
        exact = w.detach().requires_grad_()
        tk.mean((x @ exact) ** 2).backward()
        assert exact.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), exact.grad.numpy(), rtol=2e-2, atol=2e-3)
        assert w.grad.numpy().tolist() != exact.grad.numpy().tolist()  # it did run in float16

    def test_training_goes_down(self) -> None:
        x, target = rand(20, 3), rand(20, 1)
        w = tk.zeros((3, 1)).requires_grad_()
        losses = []
        for _ in range(20):
            with tk.autocast("cpu"):
                loss = tk.mean((x @ w - target) ** 2)
            (g,) = tk.autograd.grad(loss, (w,))
            w = (w - g * 0.1).detach().requires_grad_()
            losses.append(loss.item())
        assert losses[-1] < losses[0]

    def test_no_grad(self) -> None:
        w = rand(3, 4, requires_grad=True)
        with tk.autocast("cpu"), tk.no_grad():
            y = rand(2, 3) @ w
        assert (y.dtype, y.requires_grad) == (F16, False)


class TestRegions:
    def test_nested_and_disabled(self) -> None:
        x = rand(2, 2)
        with tk.autocast("cpu"):
            with tk.autocast("cpu", enabled=False):
                assert (x @ x).dtype == F32
                assert not tk.is_autocast_enabled("cpu")
                with tk.autocast("cpu", dtype=F16):
                    assert (x @ x).dtype == F16
                assert (x @ x).dtype == F32
            assert (x @ x).dtype == F16
            assert tk.is_autocast_enabled("cpu")
        assert (x @ x).dtype == F32
        with tk.autocast("cpu", enabled=False):
            assert (x @ x).dtype == F32

    def test_restored_after_an_error(self) -> None:
        with pytest.raises(ZeroDivisionError), tk.autocast("cpu"):
            raise ZeroDivisionError
        assert (rand(2, 2) @ rand(2, 2)).dtype == F32

    def test_one_object_entered_again(self) -> None:
        cast = tk.autocast("cpu")
        with cast, cast:
            assert tk.is_autocast_enabled()
        assert not tk.is_autocast_enabled()

    def test_for_another_device(self) -> None:
        with tk.autocast("meta"):
            assert (rand(2, 2) @ rand(2, 2)).dtype == F32
            m = tk.ones((2, 2), device="meta")
            assert (m @ m).dtype == F16
        with tk.autocast("cuda"):
            assert not tk.is_autocast_enabled("cpu")
            assert (rand(2, 2) @ rand(2, 2)).dtype == F32

    def test_decorator(self) -> None:
        @tk.autocast("cpu")
        def product(x: Any) -> Any:
            """What it does."""
            return x @ x

        assert product(rand(2, 2)).dtype == F16
        assert product.__doc__ == "What it does."
        assert not tk.is_autocast_enabled()

        @tk.autocast("cpu")
        async def later(x: Any) -> Any:
            await asyncio.sleep(0)
            return x @ x

        assert asyncio.run(later(rand(2, 2))).dtype == F16

    def test_threads_and_tasks(self) -> None:
        seen: list[Any] = []
        x = rand(2, 2)

        async def work(on: bool) -> Any:
            with tk.autocast("cpu", enabled=on):
                for _ in range(3):
                    await asyncio.sleep(0)
                    assert (x @ x).dtype == (F16 if on else F32)

        async def main() -> None:
            await asyncio.gather(work(True), work(False), work(True))

        asyncio.run(main())
        with tk.autocast("cpu"):
            thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
            thread.start()
            thread.join(20)
        assert seen == [F32]  # a new thread starts without

    def test_with_modes(self) -> None:
        names: list[str] = []

        class Names(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                names.append(op.name)
                return op(*args, **kwargs)

        with tk.autocast("cpu"), Names():
            assert (rand(2, 2) @ rand(2, 2)).dtype == F16
        assert names == ["tk::matmul"]

    def test_off_it_leaves_no_key_in_a_call(self) -> None:
        x = rand(2, 2)
        with tk.autocast("cpu"):
            x @ x
        op = registry.find("tk::matmul")
        op.invalidate()
        x @ x
        assert list(op.cache) == [x._word]
        assert "AutocastCPU: skipped: no argument needs it" in tk.dispatch.explain(op, x, x)
        with tk.autocast("cpu"):
            assert "AutocastCPU: handles the call" in tk.dispatch.explain(op, x, x)


class TestCustomOperators:
    @pytest.fixture
    def seen(self) -> Iterator[list[Any]]:
        seen: list[Any] = []

        @tk.library.custom_op(
            f"{NS}::noted", mutates_args=(), schema="(Tensor x, Tensor[] ys, *, Tensor? z=None) -> Tensor"
        )
        def noted(x: Any, ys: Any, *, z: Any = None) -> Any:
            seen.append(
                (x.dtype, [y.dtype for y in ys], None if z is None else z.dtype, (rand(2, 2) @ rand(2, 2)).dtype)
            )
            return x * 1

        yield seen
        registry.undefine(registry.find(f"{NS}::noted"), keep_kernels=False)

    def test_facet(self, seen: list[Any]) -> None:
        op = registry.find(f"{NS}::noted")
        x = rand(2, 2)
        with tk.autocast("cpu"):
            op(x, [x, tk.ones(2, dtype=F64)])
        op.facets["Autocast"] = Autocast(dtypes={"cpu": F16})
        registry.reinstall(op)
        with tk.autocast("cpu"):
            op(x, [x, tk.ones(2, dtype=F64), tk.ones(2, dtype=tk.int64)], z=x)
            assert tk.is_autocast_enabled("cpu")
        op(x, [])
        assert seen == [
            (F32, [F32, F64], None, F16),
            (F16, [F16, F64, tk.int64], F16, F32),  # cast, and off inside
            (F32, [], None, F32),
        ]

    def test_for_another_device_alone(self, seen: list[Any]) -> None:
        op = registry.find(f"{NS}::noted")
        op.facets["Autocast"] = Autocast(dtypes={"cuda": F16})
        registry.reinstall(op)
        with tk.autocast("cpu"):
            op(rand(2), [])
        assert seen[0][0] == F32

    def test_float32_for_a_custom_operator(self, seen: list[Any]) -> None:
        op = registry.find(f"{NS}::noted")
        op.facets["Autocast"] = Autocast(dtypes={"cpu": F32})
        registry.reinstall(op)
        with tk.autocast("cpu"):
            op(rand(2, dtype=F16), [])
        assert seen[0] == (F32, [], None, F32)


def _by_pointwise(name: str, policy: str) -> Any:
    return tk.library.pointwise(f"{name}(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * 2, autocast=policy)


def _by_family(name: str, policy: str) -> Any:
    schema = f"{name}(Tensor x, *, float? a=None) -> Tensor"
    return tk.library.pointwise(schema, scalar=lambda T: lambda x, a: x * (2 if a is None else a), autocast=policy)


def _by_reduction(name: str, policy: str) -> Any:
    schema = f"{name}(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor"
    return tk.library.reduction(schema, combine=lambda T: lambda a, b: s.maximum(a, b), autocast=policy)


def _by_scan(name: str, policy: str) -> Any:
    combine: Any = lambda T: lambda a, b: s.maximum(a, b)  # noqa: E731
    return tk.library.scan(f"{name}(Tensor x, int axis=-1) -> Tensor", combine=combine, autocast=policy)


def _by_gather(name: str, policy: str) -> Any:
    call = tk.library.gather(f"{name}(Tensor x, Tensor places) -> Tensor", autocast=policy)
    return lambda x: call(x, tk.asarray([2, 0]))


def _by_scatter(name: str, policy: str) -> Any:
    call = tk.library.scatter(f"{name}(Tensor x, Tensor places, int length) -> Tensor", autocast=policy)
    return lambda x: call(x, tk.asarray([0, 2, 0]), 3)


def _by_composite(name: str, policy: str) -> Any:
    @tk.library.composite(f"{name}(Tensor x) -> Tensor", autocast=policy)
    def function(x: Any) -> Any:
        return x * 2

    return function


def _by_custom_op(name: str, policy: str) -> Any:
    return tk.library.custom_op(name, lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor", autocast=policy)


def _by_library(name: str, policy: str) -> Any:
    library = tk.library.Library(NS, "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor", autocast=policy)
    library.impl(name, lambda x: x * 2, "default")
    return getattr(tk.ops, NS).declared


class TestDeclaredOutside:
    """Operators of other packages state their policies by the keyword that the built-in blocks use."""

    NAME = f"{NS}::declared"

    @pytest.fixture(autouse=True)
    def _defined_for_one_test(self) -> Iterator[None]:
        yield
        self._undefine()

    @pytest.mark.parametrize(
        "declare",
        [
            _by_pointwise,
            _by_family,
            _by_reduction,
            _by_scan,
            _by_gather,
            _by_scatter,
            _by_composite,
            _by_custom_op,
            _by_library,
        ],
    )
    def test_is_cast(self, declare: Callable[[str, str], Any]) -> None:
        for policy, given, want in (("lower", F32, F16), ("float32", F16, F32), ("widest", F16, F16)):
            call = declare(self.NAME, policy)
            x = rand(3, dtype=given, requires_grad=True)
            assert call(x.detach()).dtype == given
            with tk.autocast("cpu"):
                y = call(x)
                assert call(tk.ones(3, dtype=F64)).dtype == F64
            assert y.dtype == want
            self._undefine()

    def _undefine(self) -> None:
        if self.NAME in registry.operators:
            registry.undefine(registry.find(self.NAME), keep_kernels=False)

    @pytest.mark.parametrize("declare", [_by_pointwise, _by_composite, _by_custom_op, _by_library])
    def test_unknown_policy(self, declare: Callable[[str, str], Any]) -> None:
        with pytest.raises(tk.dispatch.RegistrationError, match=r"autocast='half': it is 'lower', 'float32', 'widest'"):
            declare(self.NAME, "half")

    def test_widest(self) -> None:
        seen: list[Any] = []

        @tk.library.custom_op(self.NAME, mutates_args=("out",), autocast="widest")
        def function(x: tk.Tensor, y: tk.Tensor, out: tk.Tensor) -> None:
            seen.append((x.dtype, y.dtype, out.dtype, (rand(2, 2) @ rand(2, 2)).dtype))

        with tk.autocast("cpu"):
            function(rand(2), rand(2, dtype=F16), tk.ones(2, dtype=F16))
            function(rand(2, dtype=F16), rand(2, dtype=F16), tk.ones(2, dtype=F16))
        assert seen == [(F32, F32, F16, F32), (F16, F16, F16, F32)]  # what it changes is not cast, and off inside

    def test_parts_of_a_composite_follow_their_own_policies(self) -> None:
        @tk.library.composite(f"{self.NAME}(Tensor x) -> Tensor", autocast="float32")
        def function(x: Any) -> Any:
            assert x.dtype == F32
            return x @ x

        with tk.autocast("cpu"):
            assert function(rand(2, 2, dtype=F16)).dtype == F16

    def test_a_registered_dtype_replaces_the_policy(self) -> None:
        call = _by_custom_op(self.NAME, "float32")
        handle = tk.library.register_autocast(call, "cpu", F16)
        other = tk.library.register_autocast(call, "cuda", F16)
        with tk.autocast("cpu"):
            assert call(rand(2)).dtype == F16
            handle.remove()
            assert call(rand(2, dtype=F16)).dtype == F32
            other.remove()
            assert call(rand(2, dtype=F16)).dtype == F32


class TestRefusals:
    @pytest.mark.parametrize("dtype", [F64, F32, tk.int64, tk.complex64])
    def test_dtype(self, dtype: Any) -> None:
        with pytest.raises(ValueError, match=r"\[autocast\] dtype must be float16"):
            tk.autocast("cpu", dtype=dtype)

    @pytest.mark.parametrize("dtype", ["nonsense", object()])
    def test_what_is_no_dtype(self, dtype: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            tk.autocast("cpu", dtype=dtype)

    @pytest.mark.parametrize("device", ["nowhere", 3, None, ""])
    def test_device(self, device: Any) -> None:
        with pytest.raises(ValueError, match="device"):
            tk.autocast(device)

    def test_enabled(self) -> None:
        with pytest.raises(TypeError, match="enabled must be a bool"):
            tk.autocast("cpu", enabled="yes")  # type: ignore[arg-type]

    def test_decorated(self) -> None:
        def generator() -> Any:
            yield 1

        with pytest.raises(TypeError, match="generator function"):
            tk.autocast("cpu")(generator)
        with pytest.raises(TypeError, match="decorates a function"):
            tk.autocast("cpu")(3)  # type: ignore[type-var]
