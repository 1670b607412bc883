"""A backend of four methods, in host memory: everything works on it, and everything about it can be undone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import Backend, coverage, register, strict_fallback
from tenkey.core.device import device_types
from tenkey.dispatch.errors import DeviceMismatchError, MissingKernelError, RegistrationError
from tenkey.dispatch.keys import backends_in, key_mask
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import registry
from tenkey.library import Library, register_kernel
from tenkey.testing import samples

Tensor = tk.Tensor


class Pinned(Backend):
    """The smallest backend. A buffer is an object of its own, so that nothing can look into it by accident."""

    name = "pinned"

    class Buffer:
        def __init__(self, nbytes: int) -> None:
            self.memory = bytearray(nbytes)

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.allocated = 0

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = self.Buffer(nbytes)
        self.live.add(id(buffer))
        self.allocated += 1
        return buffer

    def free(self, buffer: Any) -> None:
        self.live.remove(id(buffer))

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        assert array.dtype == np.uint8
        assert array.ndim == 1
        buffer.memory[: array.size] = array.tobytes()

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        assert array.dtype == np.uint8
        assert array.ndim == 1
        array[...] = np.frombuffer(buffer.memory, np.uint8, array.size)


class Second(Pinned):
    name = "second"

    def device_count(self) -> int:
        return 2


@contextmanager
def registered(backend: Backend) -> Iterator[Any]:
    with register(backend):
        yield backend


@pytest.fixture
def backend() -> Iterator[Pinned]:
    with registered(Pinned()) as made:
        yield made


@pytest.fixture
def second() -> Iterator[Second]:
    with registered(Second()) as made:
        yield made


def on(values: Any, device: str = "pinned", **options: Any) -> Tensor:
    return tk.tensor(np.asarray(values), device=device, **options)


def array(x: Tensor) -> np.ndarray:
    values: np.ndarray = x.detach().numpy()
    return values


def gradient(out: Tensor, x: Tensor, *, create_graph: bool = False) -> Tensor:
    (found,) = tk.autograd.grad(tk.sum(out), x, create_graph=create_graph)
    assert found is not None
    return found


# ---- every operator


def same(got: Any, wanted: Any, exact: bool = True) -> None:
    """The same structure, shapes, dtypes and values; where the CPU's result is on the CPU, ours is on the backend.

    Unless ``exact``, floats may differ by rounding.
    """
    if isinstance(wanted, Tensor):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        if wanted.device.type == "meta":
            assert got.device.type == "meta"
            return
        assert got.device.type == "pinned"
        if exact or wanted.dtype.kind not in "fc":
            np.testing.assert_array_equal(array(got), array(wanted))
        else:
            eps = 16 * float(np.finfo(wanted.dtype).eps)
            np.testing.assert_allclose(array(got), array(wanted), rtol=eps, atol=eps)
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same(one, other, exact)
    else:
        assert got == wanted


def with_samples() -> list[Operator]:
    facets = {"Samples", "Pointwise", "Reduce", "Inplace"}
    return [
        op
        for op in registry
        if op.schema.namespace == "tk" and facets & set(op.facets) and not {"nondeterministic", "derived"} & op.tags
    ]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "bool"])
def test_every_operator_equals_the_cpu(backend: Pinned, dtype: str) -> None:
    compared = 0
    for op in with_samples():
        for sample in samples(op, np.random.default_rng(0), dtype):
            if op.name == "tk::empty_like":
                continue  # whatever the memory held
            ours = sample.map(lambda tensor: tensor.to_device("pinned"))
            reference = sample.map(lambda tensor: tensor.clone())
            wanted = op.call(*reference.args, **reference.kwargs)
            got = op.call(*ours.args, **ours.kwargs)
            # of a composition the CPU may know a shorter way, which rounds otherwise
            same(got, wanted, exact="Composite" not in op.facets)
            if op.schema.is_mutable:
                same(ours.tensors()[0], reference.tensors()[0])
            compared += 1
    assert compared > 100


def test_one_operator_of_each_kind_really_fell_back(backend: Pinned) -> None:
    x = on([[1.0, 2.0], [3.0, 4.0]])
    same(tk.sum(x + x), tk.asarray(20.0, dtype=tk.float64))
    same(x @ x, tk.asarray([[7.0, 10.0], [15.0, 22.0]], dtype=tk.float64))
    same(tk.concat([x, x]), tk.asarray([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]], dtype=tk.float64))
    calls = coverage("pinned").fallback
    assert calls == {"tk::add": 1, "tk::sum": 1, "tk::matmul": 1, "tk::concatenate": 1}


def test_printing(backend: Pinned) -> None:
    assert repr(on([1.0, 2.0])) == "tensor([1., 2.], shape=(2,), dtype=float64, device='pinned')"


# ---- views, in-place, item assignment


class TestMemory:
    def test_views_share_storage(self, backend: Pinned) -> None:
        x = on(np.arange(12.0).reshape(3, 4))
        allocated = backend.allocated
        views = [x[1], x[:, ::2], tk.permute_dims(x, (1, 0)), tk.reshape(x, (4, 3)), tk.expand_dims(x, 0), x[1:, 2]]
        views.append(views[2][1:, :2])
        assert backend.allocated == allocated
        host = np.arange(12.0).reshape(3, 4)
        wanted = [host[1], host[:, ::2], host.T, host.reshape(4, 3), host[None], host[1:, 2], host.T[1:, :2]]
        for view, values in zip(views, wanted, strict=True):
            assert tk.shares_storage(view, x)
            np.testing.assert_array_equal(array(view), values)
        assert not tk.shares_storage(tk.reshape(views[2], (12,)), x)  # only a copy can have that shape

    def test_in_place(self, backend: Pinned) -> None:
        x = on(np.arange(6.0).reshape(2, 3))
        view = tk.permute_dims(x, (1, 0))[1:]
        assert view.add_(10) is view
        assert x.tolist() == [[0.0, 11.0, 12.0], [3.0, 14.0, 15.0]]
        assert x._version == view._version == 1
        x *= 2
        assert view.tolist() == [[22.0, 28.0], [24.0, 30.0]]
        assert x.device == "pinned"

    def test_item_assignment(self, backend: Pinned) -> None:
        x = on(np.zeros((3, 4)))
        x[1] = 5
        x[:, 0] = on([1.0, 2.0, 3.0])
        x[2, 1:3] = tk.asarray([8.0, 9.0])  # a copy may come from the CPU
        assert x.tolist() == [[1.0, 0.0, 0.0, 0.0], [2.0, 5.0, 5.0, 5.0], [3.0, 8.0, 9.0, 0.0]]
        x[[0, 2]] = 7  # a list of indices is on the CPU
        x[on([False, True, False])] = 4
        assert x.tolist() == [[7.0] * 4, [4.0] * 4, [7.0] * 4]
        assert x[[0, 1]].tolist() == [[7.0] * 4, [4.0] * 4]
        assert x[on(np.array([1]))].tolist() == [[4.0] * 4]

    def test_empty_windows(self, backend: Pinned) -> None:
        x = on(np.arange(6.0).reshape(2, 3))
        empty = x[2:, 3:]
        assert empty.shape == (0, 0)
        assert empty.tolist() == []
        empty.add_(1)
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert on(np.zeros((0, 3))).shape == (0, 3)

    def test_buffers_are_freed(self, backend: Pinned) -> None:
        x = on(np.arange(4.0))
        y = (x + x)[1:]
        z = tk.reshape(y * 2, (3, 1))
        del y
        gc.collect()
        assert len(backend.live) == 2  # x, and what z looks at
        assert z.tolist() == [[4.0], [8.0], [12.0]]
        del x, z
        gc.collect()
        assert backend.live == set()
        assert backend.allocated == 3

    def test_buffers_of_a_graph_are_freed(self, backend: Pinned) -> None:
        x = on([1.0, 2.0], requires_grad=True)
        tk.sum(tk.exp(x) * x).backward()
        del x
        gc.collect()
        assert backend.live == set()


# ---- gradients


class TestGradient:
    @pytest.mark.parametrize(
        "function",
        [
            lambda x: tk.sum(x * x),
            lambda x: tk.sum(tk.exp(x) / (1 + x * x)),
            lambda x: tk.logsumexp(x) + tk.max(x) - tk.mean(x),
            lambda x: tk.sum(x[1:] * x[:-1]),
            lambda x: tk.sum(tk.softmax(x)[::2]),
            lambda x: tk.sum(tk.where(x > 1.5, x, x * x)),
            lambda x: tk.sum(tk.reshape(x, (3, 1)) @ tk.reshape(x, (1, 3))),
            lambda x: tk.sum(tk.concat([x, x * 2])) + tk.sum(tk.take(x, tk.zeros(2, dtype=tk.int64, device=x.device))),
            lambda x: tk.sum(x.to_device("cpu") * 3),
            lambda x: tk.sum(x.astype(tk.float32)),
        ],
    )
    def test_equals_the_cpu(self, backend: Pinned, function: Callable[[Tensor], Tensor]) -> None:
        values = [0.5, 1.0, 2.0]
        wanted = tk.tensor(np.array(values), requires_grad=True)
        function(wanted).backward()
        x = on(values, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        assert wanted.grad is not None
        assert x.grad.device == "pinned"
        np.testing.assert_allclose(array(x.grad), array(wanted.grad), rtol=1e-14)

    def test_second_order_and_accumulation(self, backend: Pinned) -> None:
        x = on([1.0, 2.0], requires_grad=True)
        first = gradient(x**3, x, create_graph=True)
        assert gradient(first, x).tolist() == [6.0, 12.0]
        for _ in range(2):
            tk.sum(x * 2).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [4.0, 4.0]

    def test_custom_operators(self, backend: Pinned) -> None:
        op = tk.library.custom_op(
            "external_test::square", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        op.register_autograd(
            lambda ctx, g: 2 * g * ctx.saved_tensors[0],
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
        pointwise = tk.library.pointwise(
            "external_test::cube(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * x
        )
        try:
            x = on([1.0, -2.0], requires_grad=True)
            g = gradient(op(x) + pointwise(x), x)
            assert g.device == "pinned"
            assert g.tolist() == [5.0, 8.0]
        finally:
            for name in [n for n in registry.operators if n.startswith("external_test::")]:
                if name in registry.operators:  # a derivative goes with its operator
                    registry.undefine(registry.operators[name], keep_kernels=False)


# ---- making and moving tensors


class TestDevices:
    def test_factories(self, backend: Pinned) -> None:
        made = [
            tk.zeros((2, 3), device="pinned"),
            tk.ones(3, device="pinned", dtype=tk.int8),
            tk.full((2,), 7, device="pinned"),
            tk.arange(5, device="pinned"),
            tk.linspace(0, 1, 5, device="pinned"),
            tk.eye(3, device="pinned"),
            tk.asarray([1.0, 2.0], device="pinned"),
            tk.tensor([1, 2], device="pinned"),
        ]
        on_cpu = [
            tk.zeros((2, 3)), tk.ones(3, dtype=tk.int8), tk.full((2,), 7), tk.arange(5), tk.linspace(0, 1, 5),
            tk.eye(3), tk.asarray([1.0, 2.0]), tk.tensor([1, 2]),
        ]  # fmt: skip
        for got, wanted in zip(made, on_cpu, strict=True):
            same(got, wanted)
        assert tk.empty((2, 3), device="pinned", dtype=tk.float64).device == "pinned"
        x = made[0]
        for like in (tk.ones_like(x), tk.zeros_like(x), tk.full_like(x, 3), tk.empty_like(x)):
            assert like.device == "pinned"
            assert like.shape == x.shape
        assert tk.ones_like(x).tolist() == [[1.0] * 3] * 2

    def test_random_numbers_are_those_of_the_cpu(self, backend: Pinned) -> None:
        functions: list[Callable[[str], Tensor]] = [
            lambda device: tk.random.uniform((4, 5), device=device),
            lambda device: tk.random.normal((7,), mean=1.0, std=2.0, device=device),
            lambda device: tk.random.integers(0, 100, (6,), device=device),
            lambda device: tk.random.permutation(9, device=device),
        ]
        for function in functions:
            tk.random.seed(11)
            wanted = function("cpu")
            tk.random.seed(11)
            same(function("pinned"), wanted)

    def test_copies(self, backend: Pinned, second: Second) -> None:
        host = tk.asarray(np.arange(6.0).reshape(2, 3))
        x = host.to_device("pinned")
        y = x.to_device("second:1")
        z = tk.permute_dims(y, (1, 0)).to_device("pinned")
        assert [str(t.device) for t in (x, y, z)] == ["pinned", "second:1", "pinned"]
        assert z.to_device("cpu").tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
        assert x.to_device("pinned").tolist() == x.tolist()
        target = tk.zeros((2, 3), device="second")
        target.copy_(x)
        assert target.tolist() == host.tolist()
        back = tk.zeros((2, 3))
        back.copy_(target)
        assert back.tolist() == host.tolist()
        target.copy_(tk.asarray([1, 2, 3]))  # broadcast and converted
        assert target.tolist() == [[1.0, 2.0, 3.0]] * 2
        assert x.to_device("meta").device == "meta"
        assert np.asarray(x).tolist() == host.tolist()

    def test_copy_of_the_wrong_shape(self, backend: Pinned) -> None:
        x = on([1.0, 2.0])
        with pytest.raises(ValueError, match=r"\[copy_\].*\(2,\) and \(3,\) cannot be broadcast together"):
            x.copy_(tk.zeros(3))
        fit = r"\[copy_\] the result of shape \(3, 2\) does not fit into the first argument, shape \(2,\)"
        with pytest.raises(ValueError, match=fit):
            x.copy_(tk.zeros((3, 2)))
        assert x.tolist() == [1.0, 2.0]

    def test_nothing_to_copy_on_meta(self, backend: Pinned) -> None:
        x = on([1.0, 2.0])
        with pytest.raises(RuntimeError, match=r"\[copy_\] a tensor on 'meta' has no values to take to 'pinned'"):
            x.copy_(tk.zeros(2, device="meta"))
        with pytest.raises(RuntimeError, match="no values"):
            tk.zeros(2, device="meta").copy_(x)
        assert x.tolist() == [1.0, 2.0]

    def test_mixed_devices(self, backend: Pinned, second: Second) -> None:
        x = on([1.0, 2.0])
        for other, device in (
            (tk.ones(2), "cpu"), (tk.ones(2, device="second"), "second"), (tk.ones(2, device="meta"), "meta"),
        ):  # fmt: skip
            with pytest.raises(DeviceMismatchError, match=r"\[tk::add\] got tensors on different devices") as caught:
                x + other
            assert "pinned" in str(caught.value)
            assert device in str(caught.value)
            assert "to_device" in str(caught.value)
        with pytest.raises(DeviceMismatchError, match="second and second:1"):
            tk.ones(2, device="second") + tk.ones(2, device="second:1")
        with pytest.raises(DeviceMismatchError):
            tk.concat([x, tk.ones(2)])
        assert coverage("pinned").fallback == {}

    def test_device_index(self, second: Second) -> None:
        assert str(tk.ones(2, device="second:1").device) == "second:1"
        assert (tk.ones(2, device="second:1") + 1).device == "second:1"
        with pytest.raises(ValueError, match=r"\[second\] has 2 device\(s\), so there is no 'second:2'"):
            tk.ones(2, device="second:2")

    def test_a_device_argument_of_an_operator_from_outside(self, backend: Pinned) -> None:
        with Library("external_test", "DEF") as library:
            library.define("fresh(int n, Device? device=None) -> Tensor")
            library.impl("fresh", lambda n, device: tk.ones(n, device=device), "cpu")
            library.define("sent(Tensor x, Device device) -> Tensor")
            library.impl("sent", lambda x, device: x.to_device(device) * 2, "cpu")
            same(tk.ops.external_test.fresh(3, "pinned"), tk.ones(3))
            same(tk.ops.external_test.sent(on([1.0, 2.0]), "pinned"), tk.asarray([2.0, 4.0], dtype=tk.float64))


# ---- kernels and coverage


class TestKernels:
    def test_a_registered_kernel_takes_over(self, backend: Pinned) -> None:
        seen: list[Any] = []

        def add(a: Tensor, b: Tensor) -> Tensor:
            seen.append((a.dtype, b.dtype, b.shape, str(a.device), str(b.device)))
            return backend.from_host(backend.to_host(a) + backend.to_host(b), a.device)

        x, ints = on([1.0, 2.0], dtype=tk.float32), on([1, 2])
        with register_kernel("tk::add", "pinned", add):
            with strict_fallback():
                assert (x + x).tolist() == [2.0, 4.0]
                assert (x + 0.5).tolist() == [1.5, 2.5]
                assert (1 + x).tolist() == [2.0, 3.0]
            assert (x + ints).tolist() == [2.0, 4.0]
            assert (ints + 0.5).dtype == tk.float32
            assert coverage("pinned").fallback == {"tk::cast": 2}
            assert "tk::add" in coverage("pinned").implemented
            y = on([1.0, 2.0], requires_grad=True)
            assert gradient(y + y, y).tolist() == [2.0, 2.0]
        assert seen[0] == (tk.float32, tk.float32, (2,), "pinned", "pinned")
        assert seen[1] == (tk.float32, tk.float32, (), "pinned", "pinned")
        assert all(a == b for a, b, *_ in seen)
        count = len(seen)
        assert (x + x).tolist() == [2.0, 4.0]
        assert len(seen) == count
        assert coverage("pinned").fallback["tk::add"] == 1

    def test_coverage(self, backend: Pinned) -> None:
        x = on([1.0, 2.0])
        tk.exp(x)
        tk.exp(x)
        tk.mean(x)
        with register_kernel("tk::multiply", "pinned", lambda a, b: a):
            found = coverage("pinned")
            assert found.implemented == ["tk::multiply"]
            assert {"tk::reshape", "tk::to_device", "tk::mean", "tk::copy_", "tk::empty"} <= set(found.derived)
            assert found.fallback["tk::exp"] == 2
            text = str(found)
            assert text.startswith("coverage of 'pinned'\n")
            assert "implemented (1): tk::multiply" in text
            assert "fallback to the CPU" in text
            assert "tk::exp x2" in text
            assert repr(found) == text
        assert coverage("pinned").implemented == []

    def test_coverage_of_an_unknown_backend(self, backend: Pinned) -> None:
        with pytest.raises(ValueError, match=r"\[coverage\] there is no registered backend 'nothing'; known: .*pinned"):
            coverage("nothing")

    def test_strict_fallback(self, backend: Pinned) -> None:
        x = on([1.0, 2.0])
        with strict_fallback():
            with pytest.raises(
                MissingKernelError, match=r"\[tk::exp\] would fall back to the CPU on 'pinned'"
            ) as caught:
                tk.exp(x)
            assert "tk.library.register_kernel('tk::exp', 'pinned')" in str(caught.value)
            assert x[1:].tolist() == [2.0]  # views and copies need no fallback
            assert x.clone().tolist() == [1.0, 2.0]
        assert coverage("pinned").fallback == {}
        np.testing.assert_allclose(array(tk.exp(x)), np.exp([1.0, 2.0]))

    def test_strict_fallback_is_local_and_ends(self, backend: Pinned) -> None:
        x = on([1.0])
        results: list[Any] = []

        def fails() -> None:
            with strict_fallback():
                thread = threading.Thread(target=lambda: results.append(tk.exp(x)))
                thread.start()
                thread.join()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        assert len(results) == 1
        tk.exp(x)

    def test_default_kernels_run_on_the_backend(self, backend: Pinned) -> None:
        with Library("external_test", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x[:1] if x.device == "pinned" else x, "default")
            assert tk.ops.external_test.twice(on([1.0, 2.0])).tolist() == [1.0]
            assert "external_test::twice" in coverage("pinned").derived


class TestFallback:
    """Note [The fallback moves buffers]."""

    def test_arguments_that_overlap_still_do(self, backend: Pinned) -> None:
        x = on(np.arange(6.0))
        tail = x[1:]
        tail += x[:-1]  # reads what it has not written
        assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 9.0]
        with Library("external_test", "DEF") as library:
            library.define("write_then_read(Tensor(a!) x, Tensor(b!) y) -> Tensor")

            def kernel(x: Tensor, y: Tensor) -> Tensor:
                x.data[...] = 7
                return y + 0

            library.impl("write_then_read", kernel, "cpu", allow_override=True)
            z = on(np.zeros(4))
            assert tk.ops.external_test.write_then_read(z[:2], z[1:]).tolist() == [7.0, 0.0, 0.0]
            assert z.tolist() == [7.0, 7.0, 0.0, 0.0]

    def test_views_and_arguments_among_the_results(self, backend: Pinned) -> None:
        with Library("external_test", "DEF") as library:
            library.define("parts(Tensor(a) x) -> (Tensor(a), Tensor(a), Tensor)")
            library.impl("parts", lambda x: (x, x[1:], x + 1), "cpu")
            x = on(np.arange(6.0).reshape(2, 3))
            view = tk.permute_dims(x, (1, 0))
            same_one, tail, fresh = tk.ops.external_test.parts(view)
            assert same_one is view
            assert tk.shares_storage(tail, x)
            assert not tk.shares_storage(fresh, x)
            assert tail.tolist() == [[1.0, 4.0], [2.0, 5.0]]
            tail.add_(10)
            assert x.tolist() == [[0.0, 11.0, 12.0], [3.0, 14.0, 15.0]]
            assert tail._version == x._version == 1

    def test_lists_and_optionals(self, backend: Pinned) -> None:
        with Library("external_test", "DEF") as library:
            library.define("gathered(Tensor[] xs, Tensor? y=None, *, Tensor?[] zs) -> (Tensor, Tensor[])")
            library.impl("gathered", lambda xs, y, *, zs: (xs[0] + sum(z for z in zs if z is not None), [*xs]), "cpu")
            x = on([1.0, 2.0])
            total, listed = tk.ops.external_test.gathered([x, x[:1]], None, zs=[None, x])
            assert total.tolist() == [2.0, 4.0]
            assert total.device == listed[1].device == "pinned"
            assert listed[0] is x
            assert coverage("pinned").fallback == {"external_test::gathered": 1}

    def test_only_what_is_needed_is_copied(self, backend: Pinned, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes: list[int] = []
        copy = Pinned.copy_to_host
        monkeypatch.setattr(Pinned, "copy_to_host", lambda self, b, a: (sizes.append(a.size), copy(self, b, a))[1])
        x = on(np.arange(1000.0))
        tk.exp(x[:10])
        x + x
        assert sizes == [80, 8000]  # one buffer is copied once


# ---- registration


def refused(action: Callable[[], object], *parts: str) -> None:
    devices, fallbacks = device_types(), {key.name: list(stack) for key, stack in registry.fallbacks.items()}
    kernels = {op.name: {key.name: list(stack) for key, stack in op.kernels.items()} for op in registry}
    with pytest.raises(RegistrationError) as caught:
        action()
    for part in parts:
        assert part in str(caught.value)
    assert device_types() == devices
    assert {key.name: list(stack) for key, stack in registry.fallbacks.items()} == fallbacks
    assert {op.name: {key.name: list(stack) for key, stack in op.kernels.items()} for op in registry} == kernels


class TestRegistration:
    @pytest.mark.parametrize("name", ["", "With Space", "Upper", "1st", "a-b", 3, None])
    def test_bad_names(self, name: Any) -> None:
        bad = type("Bad", (Pinned,), {"name": name})
        refused(lambda: register(bad()), "[register]", "lower-case identifier", repr(name))

    @pytest.mark.parametrize("name", ["cpu", "meta"])
    def test_taken_names(self, name: str) -> None:
        bad = type("Bad", (Pinned,), {"name": name})
        refused(lambda: register(bad()), "[register]", repr(name), "registered already")

    def test_twice(self, backend: Pinned) -> None:
        x = on([1.0])
        refused(lambda: register(Pinned()), "'pinned' is registered already")
        assert (x + 1).tolist() == [2.0]

    @pytest.mark.parametrize("method", ["allocate", "free", "copy_from_host", "copy_to_host"])
    def test_missing_methods(self, method: str) -> None:
        bad = type("Bad", (Pinned,), {"name": "bad", method: getattr(Backend, method)})
        refused(lambda: register(bad()), "[register]", "'bad'", f"lacks the method {method}()", "copy_to_host")
        none = type("Bad", (Pinned,), {"name": "bad", method: None})
        refused(lambda: register(none()), f"lacks the method {method}()")

    @pytest.mark.parametrize("bad", [Pinned, object(), "pinned", None])
    def test_no_instance(self, bad: Any) -> None:
        refused(lambda: register(bad), "[register] needs an instance of a subclass of tk.backends.Backend", repr(bad))

    def test_removed_and_registered_again(self) -> None:
        before = device_types()
        handle = register(Pinned())
        x = on([1.0, 2.0])
        assert (x + 1).tolist() == [2.0, 3.0]
        handle.remove()
        handle.remove()
        assert device_types() == before
        with pytest.raises(ValueError, match="unknown device 'pinned'"):
            tk.zeros(2, device="pinned")
        with pytest.raises(ValueError, match="no registered backend 'pinned'"):
            coverage("pinned")
        with pytest.raises(MissingKernelError):
            x + 1  # a tensor that has outlived its backend
        with registered(Pinned()) as again:
            assert (on([1.0]) + 1).tolist() == [2.0]
            assert coverage("pinned").fallback == {"tk::add": 1}
            assert again.allocated > 0

    def test_operators_defined_later(self, backend: Pinned) -> None:
        with Library("external_test", "DEF") as library:
            library.define("late(Tensor x) -> Tensor")
            library.impl("late", lambda x: x * 3, "cpu")
            assert tk.ops.external_test.late(on([1.0])).tolist() == [3.0]
            assert coverage("pinned").fallback == {"external_test::late": 1}

    def test_keys(self, backend: Pinned) -> None:
        x = on([1.0])
        assert x.keyset.has(tk.dispatch.DispatchKey.PINNED)
        assert x.keyset.has(tk.dispatch.DispatchKey.AutogradPINNED)
        assert backends_in(x._word & key_mask()) == ("PINNED",)

    @pytest.mark.parametrize("method", ["allocate", "copy_from_host", "copy_to_host", "synchronize"])
    def test_a_method_that_raises(self, method: str) -> None:
        armed = False

        def fails(self: Any, *args: Any, **kwargs: Any) -> Any:
            if armed:
                raise OSError(f"{method} failed")
            return getattr(Pinned, method)(self, *args, **kwargs)

        with registered(type("Failing", (Pinned,), {"name": "failing", method: fails})()) as made:
            x = on([1.0, 2.0], "failing")
            armed = True
            with pytest.raises(OSError, match=f"{method} failed"):
                x + x
            armed = False
            gc.collect()
            assert len(made.live) == 1  # what was allocated for the result was given back
            assert (x + x).tolist() == [2.0, 4.0]
            assert x._version == 0
