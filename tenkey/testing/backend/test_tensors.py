"""Tests of tensors on the device: creation, copies, views, mutation, random numbers, printing, memory and errors."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.testing.backend.compare import close, same
from tenkey.testing.backend.plugin import Subject

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return different values in every element."""
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)


def values(x: tk.Tensor) -> np.ndarray:
    """Return the values on the host."""
    return x.detach().numpy()


class TestCopies:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 4), (2, 0, 3), (2, 3, 4)])
    def test_there_and_back(self, subject: Subject, dtype: str, shape: tuple[int, ...]) -> None:
        a = array(*shape, dtype=dtype)
        x = tk.asarray(a, device=subject.name)
        assert (x.shape, str(x.dtype)) == (shape, dtype)
        assert x.device is tk.device(subject.name)
        np.testing.assert_array_equal(values(x), a, strict=True)
        np.testing.assert_array_equal(np.asarray(x.to_device("cpu")), a, strict=True)
        same(x.clone(), tk.asarray(a), subject.name)
        assert not tk.shares_storage(x.clone(), x)

    def test_layouts(self, subject: Subject) -> None:
        a = array(4, 6)
        for source in (a.T, a[1:, ::2], np.asfortranarray(a), np.broadcast_to(a[0], (3, 6))):
            np.testing.assert_array_equal(values(tk.tensor(source, device=subject.name)), source)
        x = tk.asarray(a, device=subject.name)
        for view, want in ((x[1:, ::2], a[1:, ::2]), (tk.permute_dims(x, (1, 0)), a.T), (x[:, 2], a[:, 2])):
            np.testing.assert_array_equal(values(view), want)
            same(view.clone(), tk.asarray(want.copy()), subject.name)
            assert view.clone().is_contiguous

    def test_between_tensors(self, subject: Subject) -> None:
        a = array(3, 4)
        x = tk.zeros((3, 4), device=subject.name)
        assert x.copy_(tk.asarray(a)) is x
        np.testing.assert_array_equal(values(x), a)
        back = tk.zeros((3, 4)).copy_(x)
        np.testing.assert_array_equal(back.numpy(), a)
        x.copy_(tk.asarray([1, 2, 3, 4]))  # broadcast and converted
        np.testing.assert_array_equal(values(x), np.broadcast_to([1, 2, 3, 4], (3, 4)))
        x[1].copy_(tk.asarray(a[2], device=subject.name))
        x[:, 0].copy_(x[:, 3])
        want = np.array([[4, 2, 3, 4], [11, 9, 10, 11], [4, 2, 3, 4]])
        np.testing.assert_array_equal(values(x), want)
        x[:, 1:] = x[:, :-1].clone()
        assert values(x)[1].tolist() == [11, 11, 9, 10]

    def test_between_devices(self, subject: Subject) -> None:
        name = tk.device(subject.name).type
        for index in range(subject.count):
            x = tk.asarray(array(2, 3), device=subject.name).to_device(f"{name}:{index}")
            assert x.device.index == index
            np.testing.assert_array_equal(values(tk.permute_dims(x, (1, 0)).to_device(subject.name)), array(2, 3).T)
        assert tk.ones(2, device=subject.name).to_device("meta").device.type == "meta"
        x = tk.ones(2, device=subject.name)
        assert x.to_device(subject.name).device is x.device

    def test_large(self, subject: Subject) -> None:
        a = np.random.default_rng(0).standard_normal(300_001).astype(np.float32)
        x = tk.asarray(a, device=subject.name)
        close(values(x * 2 + 1), a * 2 + 1)
        assert abs(tk.sum(x.astype(tk.float32)).item() - a.sum(dtype=np.float64)) < 0.1
        assert tk.max(x).item() == a.max()
        close(values((x[::3] + 1)[1:]), (a[::3] + 1)[1:])


class TestViews:
    def test_share_storage_and_version(self, subject: Subject) -> None:
        a = array(3, 4)
        x = tk.tensor(a, device=subject.name)
        views = [x[1], x[:, ::2], tk.permute_dims(x, (1, 0)), tk.reshape(x, (4, 3)), tk.expand_dims(x, 0), x[1:, 2]]
        for view in views:
            assert tk.shares_storage(view, x)
        assert not tk.shares_storage(tk.reshape(views[2], (12,)), x)
        x.add_(10)
        wanted = [b + 10 for b in (a[1], a[:, ::2], a.T, a.reshape(4, 3), a[None], a[1:, 2])]
        for view, want in zip(views, wanted, strict=True):
            np.testing.assert_array_equal(values(view), want)
            assert view._version == x._version == 1

    def test_change_what_they_look_at(self, subject: Subject) -> None:
        a = array(4, 5)
        x = tk.tensor(a, device=subject.name)
        view = tk.permute_dims(x, (1, 0))[1:4, ::2]
        view += 100
        a.T[1:4, ::2] += 100
        np.testing.assert_array_equal(values(x), a)
        view *= view[0]
        a.T[1:4, ::2] *= a.T[1:4, ::2][0].copy()
        np.testing.assert_array_equal(values(x), a)

    def test_overlap(self, subject: Subject) -> None:
        x = tk.tensor(array(6), device=subject.name)
        tail = x[1:]
        tail += x[:-1]
        assert values(x).tolist() == [0, 1, 3, 5, 7, 9]
        x[:-1] = x[1:]
        assert values(x).tolist() == [1, 3, 5, 7, 9, 9]

    def test_items(self, subject: Subject) -> None:
        a, x = array(3, 4), tk.tensor(array(3, 4), device=subject.name)
        for index in ((1,), (slice(None), 2), (slice(1, None), slice(None, None, 2)), (Ellipsis, -1), (2, 3)):
            np.testing.assert_array_equal(values(x[index]), a[index])
            x[index] = a[index] = 7
            np.testing.assert_array_equal(values(x), a)
        rows, mask = [2, 0], np.array([True, False, True])
        np.testing.assert_array_equal(values(x[rows]), a[rows])
        np.testing.assert_array_equal(values(x[tk.asarray(rows, device=subject.name)]), a[rows])
        x[tk.asarray(mask, device=subject.name)] = -1
        a[mask] = -1
        np.testing.assert_array_equal(values(x), a)
        assert [row.tolist() for row in x] == a.tolist()


class TestMaking:
    def test_factories(self, subject: Subject) -> None:
        calls: list[Any] = [
            lambda device: tk.zeros((2, 3), device=device),
            lambda device: tk.ones(3, dtype=tk.int8, device=device),
            lambda device: tk.full((2,), 7, device=device),
            lambda device: tk.full((), 2.5, device=device),
            lambda device: tk.zeros((0, 3), dtype=tk.complex64, device=device),
            lambda device: tk.arange(5, device=device),
            lambda device: tk.linspace(0, 1, 5, device=device),
            lambda device: tk.eye(3, device=device),
            lambda device: tk.asarray([[1.0, 2.0]], device=device),
            lambda device: tk.tensor([True, False], device=device),
            lambda device: tk.ones_like(tk.zeros((2, 2), dtype=tk.int64, device=device)),
            lambda device: tk.full_like(tk.zeros((2, 2), device=device), 3),
        ]
        for call in calls:
            same(call(subject.name), call("cpu"), subject.name)
        made = tk.empty((2, 3), dtype=tk.int16, device=subject.name)
        assert (made.shape, made.dtype, made.device.type) == ((2, 3), tk.int16, tk.device(subject.name).type)

    def test_random_numbers_are_those_of_the_cpu(self, subject: Subject) -> None:
        calls: list[Any] = [
            lambda device: tk.random.uniform((4, 5), device=device),
            lambda device: tk.random.normal((7,), mean=1.0, std=2.0, device=device),
            lambda device: tk.random.integers(0, 100, (6,), device=device),
            lambda device: tk.random.permutation(9, device=device),
        ]
        for call in calls:
            tk.random.seed(11)
            want = call("cpu")
            tk.random.seed(11)
            same(call(subject.name), want, subject.name)

    def test_methods(self, subject: Subject) -> None:
        kind = tk.device(subject.name).type
        x = getattr(tk.ones(2), kind)()
        assert x.device.type == kind
        assert getattr(x, f"is_{kind}")
        assert not getattr(tk.ones(2), f"is_{kind}")

    def test_printing_pickling_copying(self, subject: Subject) -> None:
        a = array(2, 3)
        x = tk.tensor(a, device=subject.name, requires_grad=True)
        wanted = repr(tk.tensor(a, requires_grad=True)).replace("'cpu'", repr(str(x.device)))
        assert "".join(repr(x).split()) == "".join(wanted.split())
        assert x.detach()[0].tolist() == a[0].tolist()
        for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert made.requires_grad
            assert made.device is x.device
            np.testing.assert_array_equal(values(made), a)
            assert not tk.shares_storage(made, x)
        assert float(x[1, 2].detach()) == 5.0
        assert bool(tk.any(x.detach() > 4))


class TestErrors:
    def test_mixed_devices(self, subject: Subject) -> None:
        x = tk.ones(2, device=subject.name)
        for other in (tk.ones(2), tk.ones(2, device="meta")):
            for call in (lambda o=other: x + o, lambda o=other: x @ o, lambda o=other: tk.concat([x, o])):
                with pytest.raises(RuntimeError, match="devices"):
                    call()
        with pytest.raises(RuntimeError, match="devices"):
            x.add_(tk.ones(2))

    def test_bad_arguments(self, subject: Subject) -> None:
        x = tk.ones((2, 3), device=subject.name)
        call: Callable[[], Any]
        for call in (
            lambda: x + tk.ones((2, 2), device=subject.name), lambda: x @ x, lambda: tk.reshape(x, (4,)),
            lambda: tk.sum(x, axis=2), lambda: tk.max(x[:0]), lambda: x.copy_(tk.ones(2)), lambda: x[5],
            lambda: tk.concat([x, tk.ones((3, 2), device=subject.name)]),
        ):  # fmt: skip
            with pytest.raises((ValueError, IndexError)):
                call()
        with pytest.raises(TypeError):
            tk.ones(2, dtype=tk.int64, device=subject.name).add_(0.5)
        np.testing.assert_array_equal(values(x), np.ones((2, 3)))


class TestMemory:
    def test_buffers_are_given_back(self, subject: Subject) -> None:
        index = tk.device(subject.name).index
        gc.collect()
        before = subject.backend.memory_stats(index).allocated_bytes
        x = tk.tensor(array(50, 50), device=subject.name, requires_grad=True)
        tk.sum(tk.exp(x[1:] * 0.001) @ tk.permute_dims(x[:49], (1, 0))).backward()
        y = x.detach()[::2]
        assert subject.backend.memory_stats(index).allocated_bytes > before
        del x
        gc.collect()
        np.testing.assert_array_equal(values(y), array(50, 50)[::2])  # a view keeps the memory
        del y
        gc.collect()
        assert subject.backend.memory_stats(index).allocated_bytes <= before

    def test_memory_is_used_again(self, subject: Subject) -> None:
        """Check memory use: a backend that keeps freed buffers would take 400 MB here."""
        a = np.ones(1 << 20, np.float64)
        for _ in range(5):
            tk.asarray(a, device=subject.name)
        gc.collect()
        before = resident()
        for _ in range(50):
            x = tk.asarray(a, device=subject.name)
            del x
        gc.collect()
        assert resident() - before < 150 << 20, "memory that was freed is still held"

    def test_results_survive_their_operands(self, subject: Subject) -> None:
        """Check that memory freed during asynchronous work is not reused before the work is done."""
        x = tk.asarray(array(1000), device=subject.name)
        results = []
        for i in range(50):
            results.append((x + i) * 2 - i)  # intermediate results are freed at once
            tk.zeros(1000, device=subject.name)
        for i, result in enumerate(results):
            np.testing.assert_array_equal(values(result), (array(1000) + i) * 2 - i)

    def test_threads(self, subject: Subject) -> None:
        x = tk.asarray(array(200), device=subject.name)
        together = threading.Barrier(4)

        def work(k: int) -> None:
            together.wait()  # each has its thread
            for _ in range(20):
                y = x * k
                y += 1
                np.testing.assert_array_equal(values(y), array(200) * k + 1)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def resident() -> int:
    """Return the resident memory of the process in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    except OSError:
        return 0


def test_training(subject: Subject) -> None:
    """Train two layers to fit a sine, as on the CPU."""

    def loss(device: str) -> float:
        tk.random.seed(0)
        x = tk.asarray(np.linspace(-2, 2, 64, dtype=np.float32)[:, None], device=device)
        y = tk.sin(2 * x)
        shapes = ((1, 16), (16,), (16, 1), (1,))
        w1, b1, w2, b2 = parameters = [
            tk.random.normal(shape, std=0.8, device=device).requires_grad_() for shape in shapes
        ]
        for _ in range(30):
            tk.mean((tk.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).backward()
            with tk.no_grad():
                for parameter in parameters:
                    assert parameter.grad is not None
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
        return float(tk.mean((tk.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).item())

    want = loss("cpu")
    assert loss(subject.name) == pytest.approx(want, rel=1e-3)
