"""Conditional kernels (``when=``) and kernels with a keyset on real operators: promotion, gradients, overriding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import DispatchKey, DispatchKeySet
from tenkey.library import Library, fallthrough_kernel

NS = "conditional_kernels"


@pytest.fixture
def library() -> Iterator[Library]:
    with Library(NS, "DEF") as made:
        yield made


@pytest.fixture
def scaled(library: Library) -> Any:
    """A pointwise operator ``x1 + 2 * x2``."""
    return tk.library.pointwise(
        f"{NS}::scaled(Tensor x1, Tensor x2) -> Tensor", scalar=lambda T: lambda a, b: a + b + b
    )


def _noting(seen: list[Any], answer: float) -> Any:
    def kernel(x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
        seen.append((x1.dtype, x2.dtype, x1.device.type, x2.device.type))
        return tk.full(x1.shape, answer, dtype=x1.dtype)

    return kernel


class TestPromotedOperands:
    """What a plain kernel of a pointwise operator gets: operands of one dtype, numbers as tensors."""

    @pytest.mark.parametrize(
        "options", [{}, {"when": lambda x1, x2: True}, {"priority": 1, "when": lambda x1, x2: True}]
    )
    def test_kernel(self, library: Library, scaled: Any, options: Any) -> None:
        seen: list[Any] = []
        x = tk.ones(3, dtype=tk.float32)
        with library.impl("scaled", _noting(seen, 5.0), "cpu", **options):
            assert scaled(x, 2).tolist() == [5.0] * 3
            assert scaled(x, tk.ones(3, dtype=tk.float64)).dtype == tk.float64
            assert scaled(tk.ones(3, dtype=tk.int64), x).dtype == tk.float32
        assert [dtypes[:2] for dtypes in seen] == [(tk.float32,) * 2, (tk.float64,) * 2, (tk.float32,) * 2]
        assert all(places[2:] == ("cpu", "cpu") for places in seen)
        assert scaled(x, 2).tolist() == [5.0] * 3  # 1 + 2 * 2, from the generated kernel again

    def test_condition_gets_the_kernels_arguments(self, library: Library, scaled: Any) -> None:
        seen: list[Any] = []

        def is_double(x1: tk.Tensor, x2: tk.Tensor) -> bool:
            seen.append((x1.dtype, x2.dtype))
            return x2.dtype == tk.float64

        with library.impl("scaled", _noting([], 7.0), "cpu", when=is_double):
            assert scaled(tk.ones(2, dtype=tk.float32), 1).tolist() == [3.0, 3.0]
            assert scaled(tk.ones(2, dtype=tk.float64), 1).tolist() == [7.0, 7.0]
        assert seen == [(tk.float32, tk.float32), (tk.float64, tk.float64)]

    def test_with_keyset(self, library: Library, scaled: Any) -> None:
        seen: list[Any] = []

        def kernel(keyset: DispatchKeySet, x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
            seen.append((keyset.has(DispatchKey.CPU), x1.dtype, x2.dtype))
            return x1 * x2

        with library.impl("scaled", kernel, "cpu", with_keyset=True):
            assert scaled(tk.ones(2, dtype=tk.float32), 4).tolist() == [4.0, 4.0]
        assert seen == [(True, tk.float32, tk.float32)]

    def test_with_keyset_and_a_wrong_signature_before_the_definition(self, library: Library) -> None:
        library.impl("later", lambda keyset, x: x, "cpu", with_keyset=True)
        library.define("later(Tensor x) -> Tensor")
        x = tk.ones(2)
        assert tk.ops.conditional_kernels.later(x).tolist() == [1.0, 1.0]
        library.impl("never", lambda x: x, "cpu", with_keyset=True)
        with pytest.raises(tk.dispatch.RegistrationError, match="cannot be called with this schema"):
            library.define("never(Tensor x) -> Tensor")

    def test_fallthrough_on_a_backend_stays_one(self, library: Library, scaled: Any) -> None:
        with library.impl("scaled", fallthrough_kernel, "cpu"), pytest.raises(NotImplementedError, match="scaled"):
            scaled(tk.ones(2), tk.ones(2))


def test_under_autograd(library: Library) -> None:
    """The formula stays that of the operator, whichever kernel ran; a kernel records nothing of its own."""
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "cpu")
    library.impl("double", lambda x: x * 3 - x, "cpu", when=lambda x: x.size > 2)
    tk.library.register_autograd(f"{NS}::double", lambda ctx, g: g * 2)
    for size in (2, 4):
        x = tk.tensor(np.arange(size, dtype=np.float64), requires_grad=True)
        y = tk.ops.conditional_kernels.double(x)
        assert y.tolist() == (2 * np.arange(size)).tolist()
        tk.sum(y * y).backward()
        assert x.grad is not None
        assert x.grad.tolist() == (8 * np.arange(size)).tolist()


def test_condition_that_fails_under_autograd_leaves_recording_on(library: Library, scaled: Any) -> None:
    def when(x1: Any, x2: Any) -> bool:
        raise ZeroDivisionError

    x = tk.tensor([1.0, 1.0], requires_grad=True)
    with library.impl("scaled", _noting([], 0.0), "cpu", when=when), pytest.raises(ZeroDivisionError):
        scaled(x, x)
    assert scaled(x, x).requires_grad


def test_scoped_override() -> None:
    """A handle is a context manager: the kernel counts in the block, and the older one after it."""
    x = tk.tensor([1.0, 2.0])
    with Library("tk", "IMPL") as mine:
        with mine.impl("exp", lambda x: x * 0, "cpu", allow_override=True):
            assert tk.exp(x).tolist() == [0.0, 0.0]
            with mine.impl("exp", lambda x: x * 10, "cpu", allow_override=True):
                assert tk.exp(x).tolist() == [10.0, 20.0]
            assert tk.exp(x).tolist() == [0.0, 0.0]
        np.testing.assert_allclose(tk.exp(x).numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


def test_second_registration_in_a_foreign_namespace_names_both_places(library: Library) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x, "cpu")
    with Library(NS, "IMPL") as other:
        with pytest.raises(tk.dispatch.RegistrationError, match="allow_override=True") as caught:
            other.impl("f", lambda x: -x, "cpu")
        assert str(caught.value).count(f"{__file__}:") == 2
        other.impl("f", lambda x: -x, "cpu", allow_override=True)
        assert tk.ops.conditional_kernels.f(tk.ones(1)).tolist() == [-1.0]
    assert tk.ops.conditional_kernels.f(tk.ones(1)).tolist() == [1.0]


def test_fallbacks_stack_and_fallthrough_is_masked(library: Library) -> None:
    key = DispatchKey.Tracer
    library.define("f(Tensor x, int n=3, *, float a=1.5) -> Tensor")
    library.impl("f", lambda x, n, *, a: x * n * a, "cpu")
    seen: list[Any] = []

    def fallback(name: str) -> Any:
        def run(op: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append((name, op.name, args[1:], kwargs))
            return op.redispatch(DispatchKeySet(DispatchKey.CPU), *args, **kwargs)

        return run

    f, x = tk.ops.conditional_kernels.f, tk.ones(1)
    with Library("_", "IMPL") as everything, tk.dispatch.IncludeDispatchKeyGuard(key):
        first = everything.fallback(fallback("first"), key)
        second = everything.fallback(fallback("second"), key)
        assert f(x).tolist() == [4.5]
        second.remove()
        f(x, 3, a=1.5)
        with library.impl("f", fallthrough_kernel, key):
            assert f(x).tolist() == [4.5]
        first.remove()
        assert f(x).tolist() == [4.5]
    # redispatch strips no argument that equals its default, so every kernel sees all of them
    own = [call for call in seen if call[1] == f"{NS}::f"]
    assert own == [(name, f"{NS}::f", (3,), {"a": 1.5}) for name in ("second", "first")]
