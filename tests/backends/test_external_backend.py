"""A backend of four methods, in host memory: everything works on it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import coverage
from tenkey.backends.cpu.programs import program
from tenkey.dispatch.errors import DeviceMismatchError
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import registry
from tenkey.library import Library
from tenkey.testing import samples
from tests._lodged import Lodged, Tensor, array, gradient, on, registered
from tests._tiers import only_full


class Second(Lodged):
    name = "second"

    def device_count(self) -> int:
        return 2


@pytest.fixture
def backend() -> Iterator[Lodged]:
    with registered(Lodged()) as made:
        yield made


@pytest.fixture
def second() -> Iterator[Second]:
    with registered(Second()) as made:
        yield made


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
        assert got.device.type == "lodged"
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
    facets = {"SampleInputs", "Pointwise", "Reduce", "Inplace"}
    return [
        op
        for op in registry
        if op.schema.namespace == "tk" and facets & set(op.facets) and not {"nondeterministic", "derived"} & op.tags
    ]


@pytest.mark.parametrize("dtype", only_full(["float32", "int64", "complex128", "bool"], ["float32"]))
def test_every_operator_equals_the_cpu(backend: Lodged, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the last digit may change when a small expression is compiled: between two calls that are compared it must not
    monkeypatch.setattr(program, "_CALLS_BEFORE_COMPILING", 1 << 62)
    compared = 0
    for op in with_samples():
        for sample in samples(op, np.random.default_rng(0), dtype):
            if op.name == "tk::empty_like":
                continue  # whatever the memory held
            ours = sample.map(lambda tensor: tensor.to_device("lodged"))
            reference = sample.map(lambda tensor: tensor.clone())
            wanted = op.call(*reference.args, **reference.kwargs)
            got = op.call(*ours.args, **ours.kwargs)
            # of a composition the CPU may know a shorter way, which rounds otherwise
            same(got, wanted, exact="Composite" not in op.facets)
            if op.schema.is_mutable:
                same(ours.tensors()[0], reference.tensors()[0])
            compared += 1
    assert compared > 100


def test_one_operator_of_each_kind_really_fell_back(backend: Lodged) -> None:
    x = on([[1.0, 2.0], [3.0, 4.0]])
    same(tk.sum(x + x), tk.asarray(20.0, dtype=tk.float64))
    same(x @ x, tk.asarray([[7.0, 10.0], [15.0, 22.0]], dtype=tk.float64))
    same(tk.concat([x, x]), tk.asarray([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]], dtype=tk.float64))
    calls = coverage("lodged").fallback
    assert calls == {"tk::add": 1, "tk::sum": 1, "tk::matmul": 1, "tk::concatenate": 1}


def test_printing(backend: Lodged) -> None:
    assert repr(on([1.0, 2.0])) == "tensor([1., 2.], shape=(2,), dtype=float64, device='lodged')"


# ---- views, in-place, item assignment


class TestMemory:
    def test_views_share_storage(self, backend: Lodged) -> None:
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

    def test_in_place(self, backend: Lodged) -> None:
        x = on(np.arange(6.0).reshape(2, 3))
        view = tk.permute_dims(x, (1, 0))[1:]
        assert view.add_(10) is view
        assert x.tolist() == [[0.0, 11.0, 12.0], [3.0, 14.0, 15.0]]
        assert x._version == view._version == 1
        x *= 2
        assert view.tolist() == [[22.0, 28.0], [24.0, 30.0]]
        assert x.device == "lodged"

    def test_item_assignment(self, backend: Lodged) -> None:
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

    def test_empty_windows(self, backend: Lodged) -> None:
        x = on(np.arange(6.0).reshape(2, 3))
        empty = x[2:, 3:]
        assert empty.shape == (0, 0)
        assert empty.tolist() == []
        empty.add_(1)
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert on(np.zeros((0, 3))).shape == (0, 3)

    def test_buffers_are_freed(self, backend: Lodged) -> None:
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

    def test_buffers_of_a_graph_are_freed(self, backend: Lodged) -> None:
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
    def test_equals_the_cpu(self, backend: Lodged, function: Callable[[Tensor], Tensor]) -> None:
        values = [0.5, 1.0, 2.0]
        wanted = tk.tensor(np.array(values), requires_grad=True)
        function(wanted).backward()
        x = on(values, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        assert wanted.grad is not None
        assert x.grad.device == "lodged"
        np.testing.assert_allclose(array(x.grad), array(wanted.grad), rtol=1e-14)

    def test_second_order_and_accumulation(self, backend: Lodged) -> None:
        x = on([1.0, 2.0], requires_grad=True)
        first = gradient(x**3, x, create_graph=True)
        assert gradient(first, x).tolist() == [6.0, 12.0]
        for _ in range(2):
            tk.sum(x * 2).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [4.0, 4.0]

    def test_custom_operators(self, backend: Lodged) -> None:
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
            assert g.device == "lodged"
            assert g.tolist() == [5.0, 8.0]
        finally:
            for name in [n for n in registry.operators if n.startswith("external_test::")]:
                if name in registry.operators:  # a derivative goes with its operator
                    registry.undefine(registry.operators[name], keep_kernels=False)


# ---- making and moving tensors


class TestDevices:
    def test_factories(self, backend: Lodged) -> None:
        made = [
            tk.zeros((2, 3), device="lodged"),
            tk.ones(3, device="lodged", dtype=tk.int8),
            tk.full((2,), 7, device="lodged"),
            tk.arange(5, device="lodged"),
            tk.linspace(0, 1, 5, device="lodged"),
            tk.eye(3, device="lodged"),
            tk.asarray([1.0, 2.0], device="lodged"),
            tk.tensor([1, 2], device="lodged"),
        ]
        on_cpu = [
            tk.zeros((2, 3)), tk.ones(3, dtype=tk.int8), tk.full((2,), 7), tk.arange(5), tk.linspace(0, 1, 5),
            tk.eye(3), tk.asarray([1.0, 2.0]), tk.tensor([1, 2]),
        ]  # fmt: skip
        for got, wanted in zip(made, on_cpu, strict=True):
            same(got, wanted)
        assert tk.empty((2, 3), device="lodged", dtype=tk.float64).device == "lodged"
        x = made[0]
        for like in (tk.ones_like(x), tk.zeros_like(x), tk.full_like(x, 3), tk.empty_like(x)):
            assert like.device == "lodged"
            assert like.shape == x.shape
        assert tk.ones_like(x).tolist() == [[1.0] * 3] * 2

    def test_random_numbers_are_those_of_the_cpu(self, backend: Lodged) -> None:
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
            same(function("lodged"), wanted)

    def test_copies(self, backend: Lodged, second: Second) -> None:
        host = tk.asarray(np.arange(6.0).reshape(2, 3))
        x = host.to_device("lodged")
        y = x.to_device("second:1")
        z = tk.permute_dims(y, (1, 0)).to_device("lodged")
        assert [str(t.device) for t in (x, y, z)] == ["lodged", "second:1", "lodged"]
        assert z.to_device("cpu").tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
        assert x.to_device("lodged").tolist() == x.tolist()
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

    def test_copy_of_the_wrong_shape(self, backend: Lodged) -> None:
        x = on([1.0, 2.0])
        with pytest.raises(ValueError, match=r"\[copy_\].*\(2,\) and \(3,\) cannot be broadcast together"):
            x.copy_(tk.zeros(3))
        fit = r"\[copy_\] the result of shape \(3, 2\) does not fit into the first argument, shape \(2,\)"
        with pytest.raises(ValueError, match=fit):
            x.copy_(tk.zeros((3, 2)))
        assert x.tolist() == [1.0, 2.0]

    def test_nothing_to_copy_on_meta(self, backend: Lodged) -> None:
        x = on([1.0, 2.0])
        with pytest.raises(RuntimeError, match=r"\[copy_\] a tensor on 'meta' has no values to copy to 'lodged'"):
            x.copy_(tk.zeros(2, device="meta"))
        with pytest.raises(RuntimeError, match="no values"):
            tk.zeros(2, device="meta").copy_(x)
        assert x.tolist() == [1.0, 2.0]

    def test_mixed_devices(self, backend: Lodged, second: Second) -> None:
        x = on([1.0, 2.0])
        for other, device in (
            (tk.ones(2), "cpu"), (tk.ones(2, device="second"), "second"), (tk.ones(2, device="meta"), "meta"),
        ):  # fmt: skip
            with pytest.raises(DeviceMismatchError, match=r"\[tk::add\] got tensors on different devices") as caught:
                x + other
            assert "lodged" in str(caught.value)
            assert device in str(caught.value)
            assert "to_device" in str(caught.value)
        with pytest.raises(DeviceMismatchError, match="second and second:1"):
            tk.ones(2, device="second") + tk.ones(2, device="second:1")
        with pytest.raises(DeviceMismatchError):
            tk.concat([x, tk.ones(2)])
        assert coverage("lodged").fallback == {}

    def test_device_index(self, second: Second) -> None:
        assert str(tk.ones(2, device="second:1").device) == "second:1"
        assert (tk.ones(2, device="second:1") + 1).device == "second:1"
        with pytest.raises(ValueError, match=r"\[second\] has 2 device\(s\), so there is no 'second:2'"):
            tk.ones(2, device="second:2")

    def test_a_device_argument_of_an_operator_from_outside(self, backend: Lodged) -> None:
        with Library("external_test", "DEF") as library:
            library.define("fresh(int n, Device? device=None) -> Tensor")
            library.impl("fresh", lambda n, device: tk.ones(n, device=device), "cpu")
            library.define("sent(Tensor x, Device device) -> Tensor")
            library.impl("sent", lambda x, device: x.to_device(device) * 2, "cpu")
            same(tk.ops.external_test.fresh(3, "lodged"), tk.ones(3))
            same(tk.ops.external_test.sent(on([1.0, 2.0]), "lodged"), tk.asarray([2.0, 4.0], dtype=tk.float64))
