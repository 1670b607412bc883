"""Note [Large calls in the core]: the results are NumPy's and those of the calls in Python, and nothing is left out."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.backends.cpu import inplace, matmul
from tenkey.core.compiled.loading import extension

N = 1 << 17
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "lt", "floordiv")
}
UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": abs, "sqrt": tk.sqrt, "square": tk.square}
INPLACE = {name: getattr(operator, name) for name in ("iadd", "isub", "imul")}
without_loops = extension is None or os.environ.get("TENKEY_COMPILE") == "off"
needs_core = pytest.mark.skipif(without_loops, reason="large calls run in Python")


def _values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 100, shape).astype(dtype)


def _python_calls(call: Callable[[], Any]) -> set[str]:
    """Return the names of the functions in Python that a call uses."""
    names: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is not call.__code__:
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


def _layouts(dtype: str, seed: int = 0) -> Iterator[np.ndarray]:
    a = _values(dtype, (260, 256), seed)
    yield a
    yield a.T
    yield a[::-1]
    yield a[:, ::-1]
    yield a[:, 1:]
    yield _values(dtype, (260, 257), seed)
    yield np.broadcast_to(a[:1], (260, 256))


def _operands(dtype: str) -> Iterator[tuple[Any, Any]]:
    for a in _layouts(dtype):
        yield a, a
        yield a, _values(dtype, a.shape, 2)
        yield a, 3
        yield 3, a
        for b in (_values(dtype, a.shape[1:], 1), a[:, :1], a[0, 0], a[None, :1, :1]):
            yield a, b
            yield b, a
    for n in (16, 33, 250):
        yield _values(dtype, (400, 1, n), 3), _values(dtype, (7, 1), 4)
        yield _values(dtype, (700, 1), 5), _values(dtype, (n,), 6)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: str) -> None:
    call = BINARY[name]
    for a, b in _operands(dtype):
        expected = call(a, b)
        x, y = (v if isinstance(v, int) else tk.asarray(v) for v in (a, b))
        for _ in range(3):
            out = call(x, y)
            assert out.shape == expected.shape
            if name != "truediv" or dtype[0] == "f":  # integers are divided in float32 here
                assert out.numpy().dtype == expected.dtype
                np.testing.assert_array_equal(out.numpy(), expected)
            else:
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?"])
def test_numbers_of_elements_near_the_limits(dtype: str) -> None:
    for n in (1 << 12, 1 << 13, 1 << 14, 1 << 16, 1 << 18, 1 << 19):
        for size in (n - 1, n, n + 1):
            a, b = _values(dtype, (size,), 1), _values(dtype, (size,), 2)
            x, y = tk.asarray(a), tk.asarray(b)
            for _ in range(3):
                np.testing.assert_array_equal((x < y).numpy(), a < b)
                if dtype != "?":
                    np.testing.assert_array_equal((x * y).numpy(), a * b)
                    np.testing.assert_array_equal((x + 1).numpy(), a + 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, dtype: str) -> None:
    function = getattr(np, {"neg": "negative", "abs": "absolute"}.get(name, name))
    for a in _layouts(dtype):
        x = tk.asarray(a)
        for _ in range(3):
            expected = function(a) if name != "sqrt" or dtype[0] == "f" else np.sqrt(a.astype(np.float32))
            np.testing.assert_array_equal(UNARY[name](x).numpy(), expected)


@pytest.mark.parametrize("module", [tk, tnp], ids=["tk", "tenkey.numpy"])
def test_both_namespaces_keep_their_classes(module: Any) -> None:
    a = _values("f4", (N,))
    x = module.asarray(a)
    for _ in range(3):
        for out in (x + x, x * 2.0, -x):
            assert type(out) is type(x)
    np.testing.assert_array_equal(np.asarray(x + x), a + a)


@needs_core
def test_no_python_runs_where_the_loop_is_known() -> None:
    a = tk.asarray(_values("f4", (128, 1024)))
    row, odd = tk.asarray(_values("f4", (1024,))), tk.asarray(_values("f4", (N + 3,)))
    calls: list[Callable[[], Any]] = [
        lambda: a + a, lambda: -a, lambda: a * 2.0, lambda: 2.0 - a, lambda: a + row, lambda: row * a,
        lambda: odd + odd, lambda: a.__iadd__(1.0), lambda: odd.__imul__(2.0),
    ]  # fmt: skip
    some = tk.asarray(_values("f4", (32, 640)))  # small for the backend
    calls += [lambda: some + some, lambda: some * some[0], lambda: tk.relu(some), lambda: some.__isub__(2.0)]
    for call in calls:
        for _ in range(100):
            call()
        assert not _python_calls(call)
    strided = a[:, ::2]
    assert "compute" in _python_calls(lambda: strided + strided)  # the check notices other ways


def test_shapes_that_do_not_fit() -> None:
    x = tk.asarray(_values("f4", (260, 256)))
    for _ in range(3):
        x + x
        for shape in ((259, 256), (256, 260), (260, 255), (2, 256), (3, 260, 255)):
            with pytest.raises(ValueError, match="add"):
                x + tk.asarray(_values("f4", shape))
            with pytest.raises(ValueError, match="add"):
                x += tk.asarray(_values("f4", shape))


def test_layouts_are_those_of_numpy() -> None:
    a, b = np.asfortranarray(_values("f8", (2, 32, 1, 3))), _values("f8", (1, 65, 1))
    for x, y in ((a, b), (np.asfortranarray(np.repeat(a, 65, 2)), b)):
        for _ in range(3):
            assert tk.add(tk.asarray(x), tk.asarray(y)).numpy().strides == (x + y).strides


@needs_core
def test_errors_of_signals_are_raised_and_nothing_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class TimedOutError(RuntimeError):
        pass

    def then_raise(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            function(*args, **options)
            raise TimedOutError  # as the handler of a signal may, between two lines of Python

        return call

    x, y = tk.asarray(_values("f4", (300, 200))), tk.asarray(_values("f4", (200, 300)))
    x @ y
    with monkeypatch.context() as patch:
        patch.setattr(matmul, "any_product", then_raise(matmul.any_product))
        with pytest.raises(TimedOutError):
            x @ y
    small = tk.asarray(_values("u2", (3,)))
    small -= small
    values, other = _values("u2", (40_000,)), tk.asarray(_values("u2", (40_000,), 1))
    z = tk.asarray(values.copy())
    with monkeypatch.context() as patch:
        patch.setattr(inplace, "silenced", then_raise(inplace.silenced))
        patch.setattr(inplace, "quietly", then_raise(inplace.quietly))
        with pytest.raises(TimedOutError):
            z -= other
    assert z._version == 1
    np.testing.assert_array_equal(z.numpy(), values - other.numpy())


def test_empty_and_repeated_to_nothing() -> None:
    x = tk.asarray(_values("f4", (N, 1)))
    for _ in range(3):
        assert (x + x).shape == (N, 1)
        assert (x + tk.zeros((0,))).shape == (N, 0)


def test_gradients_are_recorded() -> None:
    a, b = _values("f8", (256, 512), 1), _values("f8", (512,), 2)
    for _ in range(4):
        x, y = tk.asarray(a, requires_grad=True), tk.asarray(b, requires_grad=True)
        out = x * y - x / y
        assert out.requires_grad
        first, second = tk.autograd.grad(out.sum(), (x, y), create_graph=True)
        np.testing.assert_allclose(first.detach().numpy(), np.broadcast_to(b - 1 / b, a.shape), rtol=1e-12)
        np.testing.assert_allclose(second.detach().numpy(), (a + a / b**2).sum(0), rtol=1e-12)
        (again,) = tk.autograd.grad(second.sum(), (y,))
        np.testing.assert_allclose(again.numpy(), (-2 * a / b**3).sum(0), rtol=1e-12)
        with tk.no_grad():
            assert not (x * y).requires_grad


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    call = INPLACE[name]
    a, b = _values("f4", (260, 256)), _values("f4", (260, 256), 1)
    others: list[Callable[[Any], Any]] = [
        lambda x: x, lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x[0], lambda x: x[:, :1], lambda x: x[3, 5],
        lambda x: x[:1], lambda x: 3, lambda x: 2.0,
    ]  # fmt: skip
    for other in others:
        for _ in range(3):
            expected = a.copy()
            call(expected, other(expected).copy() if isinstance(other(expected), np.ndarray) else other(expected))
            x = tk.asarray(a.copy())
            before = x._version
            assert call(x, other(x)) is x
            assert x._version == before + 1
            np.testing.assert_array_equal(x.numpy(), expected)
    for other in (b, b[0], b[:, :1], np.asarray(b.T).T, np.asfortranarray(b), b[3, 5]):
        for _ in range(3):
            expected, x = a.copy(), tk.asarray(a.copy())
            call(expected, other)
            call(x, tk.asarray(other))
            np.testing.assert_array_equal(x.numpy(), expected)


def test_in_place_on_views_that_touch_or_overlap() -> None:
    for _ in range(3):
        a = _values("f4", (3 * N,))
        x = tk.asarray(a.copy())
        for target, source in (
            (slice(0, N), slice(N, 2 * N)), (slice(0, N), slice(1, N + 1)), (slice(1, N + 1), slice(0, N)),
            (slice(N, 2 * N), slice(2 * N - 1, N - 1, -1)), (slice(N, 2 * N), slice(N - 1, None, -1)),
        ):  # fmt: skip
            a[target] += a[source].copy()
            view = x[target]
            view += x[source]
            np.testing.assert_array_equal(x.numpy(), a)


def test_what_may_not_be_changed() -> None:
    leaf = tk.asarray(_values("f4", (N,)), requires_grad=True)
    fixed = tk.broadcast_to(tk.asarray([2.0], dtype=tk.float32), (N,))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf += 1.0
        with pytest.raises((ValueError, RuntimeError)):
            fixed += 1.0
        with tk.no_grad():
            leaf *= 1.0
    kept = leaf * leaf
    with tk.no_grad():
        leaf += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        kept.sum().backward()


@needs_core
def test_results_begin_with_a_cache_line() -> None:
    x = tk.asarray(_values("f4", (N,)))
    for _ in range(8):
        assert (x + x).numpy().ctypes.data % 64 == 0
        assert (-x).numpy().flags.writeable


def test_large_results_are_counted_by_operator_and_limited() -> None:
    x = tk.asarray(_values("f4", (1 << 19,)))
    for _ in range(3):
        x + x
    before = tk.backends.memory_statistics("cpu")
    y = x + x
    after = tk.backends.memory_statistics("cpu")
    assert after.by_operator["tk::add"].allocated_bytes - before.by_operator["tk::add"].allocated_bytes == y.nbytes
    old = tk.backends.set_memory_limit("cpu", after.allocated_bytes + 1000)
    try:
        with pytest.raises(MemoryError, match="add"):
            x + x
    finally:
        tk.backends.set_memory_limit("cpu", old[0])
    np.testing.assert_array_equal((x + x).numpy(), y.numpy())


def test_the_number_of_threads_may_change() -> None:
    a = _values("f4", (1 << 18,))
    x, threads = tk.asarray(a), tk.get_num_threads()
    try:
        for n in (1, 2, 1, 2, 2):
            tk.set_num_threads(n)
            np.testing.assert_array_equal((x + x).numpy(), a + a)
    finally:
        tk.set_num_threads(threads)


def test_floating_point_events_are_silent() -> None:
    x = tk.asarray(np.full(N, 3e38, np.float32))
    with np.errstate(all="raise"):
        for _ in range(3):
            assert np.isinf((x * x).numpy()).all()
            assert np.isinf((x / 0.0).numpy()).all()
            y = x + 0.0
            y *= 2.0
            assert np.isinf(y.numpy()).all()
