"""The CPU backend: floating-point flags, and what its kernels give back."""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.fp_warnings import QUIET, errors, ignore, quietly, restore, silenced
from tenkey.core.tensor import Tensor

_HUGE = 3e38
_CALLS: list[tuple[str, Callable[[], Tensor], list[Any]]] = [
    ("divide", lambda: tk.divide(tk.asarray([1, -1, 0]), 0), [np.inf, -np.inf, np.nan]),
    ("divide 0-d", lambda: tk.divide(tk.asarray(1.0), tk.asarray(0.0)), [np.inf]),
    ("reflected", lambda: 1 / tk.asarray([0.0]), [np.inf]),
    ("log", lambda: tk.log(tk.asarray([0.0, -1.0])), [-np.inf, np.nan]),
    ("sqrt", lambda: tk.sqrt(tk.asarray([-1.0])), [np.nan]),
    ("exp overflow", lambda: tk.exp(tk.asarray([1000.0])), [np.inf]),
    ("exp underflow", lambda: tk.exp(tk.asarray([-1000.0])), [0.0]),
    ("multiply", lambda: tk.asarray([_HUGE]) * 10, [np.inf]),
    ("pow", lambda: tk.pow(tk.asarray([0.0]), -1.0), [np.inf]),
    ("weak scalar", lambda: tk.asarray([1.0]) * 1e300, [np.inf]),
    ("mixed", lambda: tk.asarray([1.0]) + tk.asarray([1e300], dtype="float64"), [1e300]),
    ("floor_divide", lambda: tk.floor_divide(tk.asarray([1.0]), 0.0), [np.inf]),
    ("remainder", lambda: tk.remainder(tk.asarray([1.0]), 0.0), [np.nan]),
    ("sigmoid", lambda: tk.sigmoid(tk.asarray([-1000.0, 1000.0])), [0.0, 1.0]),
    ("sum", lambda: tk.sum(tk.asarray([_HUGE, _HUGE])), [np.inf]),
    ("prod", lambda: tk.prod(tk.asarray([_HUGE, _HUGE])), [np.inf]),
    ("mean of nothing", lambda: tk.mean(tk.zeros(0)), [np.nan]),
    ("max", lambda: tk.max(tk.asarray([np.nan, 1.0])), [np.nan]),
    ("matmul", lambda: tk.matmul(tk.asarray([[_HUGE]]), tk.asarray([[10.0]])), [np.inf]),
    ("matmul of vectors", lambda: tk.matmul(tk.asarray([np.inf, 1.0]), tk.asarray([0.0, 1.0])), [np.nan]),
    ("cast", lambda: tk.astype(tk.asarray([1e300], dtype="float64"), "float32"), [np.inf]),
    ("cast nan", lambda: tk.astype(tk.asarray([np.nan]), "int32") * 0, [0]),
    ("asarray", lambda: tk.asarray([1e300]), [np.inf]),
    ("full", lambda: tk.full(1, 1e300), [np.inf]),
    ("in place", lambda: tk.asarray([1.0]).div_(0.0), [np.inf]),
    ("copy_", lambda: tk.zeros(1).copy_(tk.asarray([1e300], dtype="float64")), [np.inf]),
    ("softmax", lambda: tk.softmax(tk.asarray([1e30, -1e30])), [1.0, 0.0]),
    ("logsumexp", lambda: tk.logsumexp(tk.asarray([-np.inf, -np.inf])), [-np.inf]),
    ("arange", lambda: tk.arange(0.0, 1e-45, 1e-45), [0.0]),
    ("large", lambda: tk.divide(tk.ones(1 << 16), 0)[:1], [np.inf]),
    ("larger", lambda: tk.log(tk.zeros(1 << 18))[:1], [-np.inf]),
    ("large sum", lambda: tk.sum(tk.full((1 << 19,), _HUGE)), [np.inf]),
]


@pytest.mark.parametrize(("call", "want"), [case[1:] for case in _CALLS], ids=[case[0] for case in _CALLS])
def test_no_floating_point_warnings(call: Callable[[], Tensor], want: list[Any], capsys: Any) -> None:
    """Note [Floating-point flags]: inf and nan come silently, and the user's error state is as it was."""
    states: tuple[Any, ...] = ("raise", "warn", "print", "ignore")
    for state in states:
        with np.errstate(all=state), warnings.catch_warnings():
            warnings.simplefilter("error")
            before = np.geterr()
            got = call()
            assert np.geterr() == before, state
        np.testing.assert_array_equal(np.ravel(np.asarray(got.tolist())), np.array(want, got.dtype), state)
        assert capsys.readouterr() == ("", ""), state


def test_the_gradient_is_silent_too() -> None:
    with np.errstate(all="raise"):
        x = tk.tensor([0.0, 1.0], requires_grad=True)
        tk.log(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [np.inf, 1.0]


def test_an_error_leaves_the_error_state() -> None:
    with np.errstate(divide="raise", over="print"):
        before = np.geterr()
        for call in (
            lambda: tk.add(tk.ones(2), tk.ones(3)), lambda: tk.sum(tk.ones(2), axis=3), lambda: tk.max(tk.ones(0)),
            lambda: tk.matmul(tk.ones((2, 2)), tk.ones(3)), lambda: tk.ones(2).add_(tk.ones(3)),
            lambda: tk.ones(2, dtype="int64") + 2**70,
        ):  # fmt: skip
            with pytest.raises((ValueError, IndexError, OverflowError)):
                call()
            assert np.geterr() == before


def test_users_still_see_their_own_warnings() -> None:
    tk.divide(tk.ones(1), 0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.ones(1) / np.zeros(1)


def test_ignore_and_restore_nest() -> None:
    with np.errstate(all="raise"):
        outer = errors()
        ignore(QUIET)
        inner = errors()
        ignore(QUIET)
        assert set(np.geterr().values()) == {"ignore"}
        restore(inner)
        assert set(np.geterr().values()) == {"ignore"}
        restore(outer)
        assert set(np.geterr().values()) == {"raise"}


def test_silence_stays_in_its_thread_and_context() -> None:
    seen: list[Any] = []
    found = errors()
    try:
        ignore(QUIET)
        thread = threading.Thread(target=lambda: seen.append(np.geterr()["divide"]))
        thread.start()
        thread.join()
        contextvars.Context().run(lambda: seen.append(np.geterr()["divide"]))
    finally:
        restore(found)
    assert seen == ["warn", "warn"]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3)])
def test_results_are_arrays_of_their_dtype(shape: tuple[int, ...]) -> None:
    x = tk.ones(shape)
    for made in (tk.exp(x), x + x, x + 1, x > 0, tk.where(x > 0, x, 0.0), tk.sum(x), tk.sigmoid(x),
                 x.clone()):  # fmt: skip
        assert type(made.array) is np.ndarray
        assert made.array.dtype == made.dtype


def test_integer_division_by_zero_does_not_crash() -> None:
    assert tk.floor_divide(tk.asarray([1, 0]), 0).dtype == np.int64
    assert tk.remainder(tk.asarray([1, 0]), tk.asarray([0, 0])).shape == (2,)


class TestQuietContext:
    """Note [A context without warnings]: single calls of ufuncs, and what happens when the context is not free."""

    CALLS: tuple[Callable[[], Tensor], ...] = (
        lambda: tk.exp(tk.asarray([1000.0, 0.0])), lambda: tk.asarray([_HUGE, 1.0]) + tk.asarray([_HUGE, 0.0]),
        lambda: tk.asarray([_HUGE, 1.0]) ** 2, lambda: 10 * tk.asarray([_HUGE, 0.1]), lambda: tk.asarray([1e300, 1.0]),
    )  # fmt: skip

    @pytest.mark.parametrize("call", CALLS)
    def test_a_call_that_comes_while_it_is_entered(self, call: Callable[[], Tensor]) -> None:
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            first = call()  # scalars are remembered from here on
            try:
                again = quietly(call)
            except RuntimeError:  # this interpreter, or NumPy, has no such context
                again = silenced(call)
        assert first.tolist() == again.tolist() == [np.inf, 1.0]

    def test_threads_that_meet_in_it(self) -> None:
        x = tk.full((20_000,), _HUGE)
        wrong: list[Any] = []

        def work() -> None:
            try:
                assert all(tk.isinf(x + x).all().item() and tk.isinf(x * 10).all().item() for _ in range(200))
            except Exception as error:
                wrong.append(error)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong

    def test_silenced_gives_what_the_function_gives(self) -> None:
        with np.errstate(all="raise"):
            before = np.geterr()
            assert silenced(np.divide, 1.0, 0.0) == np.inf
            with pytest.raises(ValueError, match="operands"):
                silenced(np.add, np.ones(2), np.ones(3))
            assert np.geterr() == before
