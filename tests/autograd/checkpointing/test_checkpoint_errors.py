"""The errors of checkpoint: runs that differ, exceptions in both runs, inputs that were changed, bad arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import CheckpointError, checkpoint
from tenkey.autograd.saved_tensors.saved_tensor_hooks import HOOKED, active_hooks
from tenkey.dispatch.local_state import current_state


def leaf(*shape: int, seed: int = 0) -> Any:
    return tk.asarray(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


class TestDifferentRuns:
    def test_another_operator(self) -> None:
        first = [True]

        def function(x: Any) -> Any:
            y = tk.exp(x)
            return tk.sin(y) if first and first.pop() else tk.cos(y)

        y = checkpoint(function, leaf(3), debug=True).sum()
        with pytest.raises(CheckpointError, match="have different metadata than during the forward pass") as error:
            y.backward()
        text = str(error.value)
        assert "tk::sin" in text
        assert "recomputation x of tk::cos with shape (3,), dtype float64" in text
        assert "Operators of the recomputation:\n  tk::exp(float64[3])\n  tk::cos(float64[3])" in text
        assert issubclass(CheckpointError, RuntimeError)

    def test_another_shape_or_dtype(self) -> None:
        for change in (lambda x: x[:2], lambda x: tk.astype(x, tk.float32)):
            first = [True]

            def function(x: Any, first: Any = first, change: Any = change) -> Any:
                return tk.exp(x if first and first.pop() else change(x)).sum()

            y = checkpoint(function, leaf(3))
            with pytest.raises(CheckpointError, match="Saved tensor 1 of 1: in forward out of tk::exp with shape"):
                y.backward()

    def test_fewer_and_more_tensors(self) -> None:
        for forward, again, early in ((3, 2, True), (3, 2, False), (2, 3, False)):
            lengths = iter([forward, again])

            def function(x: Any, lengths: Any = lengths) -> Any:
                for _ in range(next(lengths)):
                    x = tk.exp(x)
                return x

            y = checkpoint(function, leaf(3), early_stop=early).sum()
            with pytest.raises(CheckpointError, match="A different number of tensors was saved") as error:
                y.backward()
            assert f"during forward: {forward}. Number of tensors saved during recomputation: {again}." in str(
                error.value
            )
            assert ("first additional one" if again > forward else "first missing one") in str(error.value)
            assert "tk::exp" in str(error.value)

    def test_the_check_can_be_switched_off(self) -> None:
        first = [True]

        def function(x: Any) -> Any:
            return tk.sin(x) if first and first.pop() else tk.cos(x)

        x = leaf(3)
        checkpoint(function, x, determinism_check="none").sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()))  # what was saved is x in either case


class TestExceptions:
    def test_an_exception_in_the_forward_pass(self) -> None:
        def function(x: Any) -> Any:
            tk.exp(x)
            raise KeyError("forward")

        with pytest.raises(KeyError, match="forward"):
            checkpoint(function, leaf(3))
        assert not current_state().include & HOOKED
        assert active_hooks() == ()

    def test_an_exception_in_the_recomputation(self) -> None:
        broken = [False]

        def function(x: Any) -> Any:
            tk.random.uniform(3)
            y = tk.exp(x)
            if broken[0]:
                raise KeyError("again")
            return tk.sin(y)

        x = leaf(3)
        y = checkpoint(function, x).sum()
        state = tk.random.get_state()
        broken[0] = True
        with pytest.raises(KeyError, match="again"):
            y.backward()
        assert x.grad is None
        assert tk.random.get_state() == state
        assert not current_state().include & HOOKED
        assert active_hooks() == ()
        assert tk.is_grad_enabled()
        broken[0] = False
        y.backward()  # nothing was lost
        assert x.grad is not None


class TestBadInput:
    def test_an_input_that_was_changed(self) -> None:
        x, w = leaf(3), leaf(3, seed=1).detach()
        y = checkpoint(lambda x, *, w: tk.exp(x) * w, x, w=w).sum()
        w.multiply_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation: the saved tensor argument 'w'"):
            y.backward()

    def test_a_result_that_requires_no_gradient(self) -> None:
        with pytest.warns(UserWarning, match="none of output has requires_grad=True"):
            checkpoint(lambda x: x.detach() * 2, leaf(3))
        with pytest.warns(UserWarning, match="nothing that .*lambda.* returned requires a gradient"):
            checkpoint(lambda x: tk.exp(x).detach(), leaf(3))

    def test_arguments(self) -> None:
        x = leaf(3)
        with pytest.raises(TypeError, match="takes a function and its arguments, got Tensor"):
            checkpoint(x, x)
        with pytest.raises(ValueError, match="determinism_check should be one of"):
            checkpoint(tk.exp, x, determinism_check="values")
        with pytest.raises(ValueError, match="non-reentrant"):
            checkpoint(tk.exp, x, use_reentrant=True)
        with pytest.raises(TypeError, match="early_stop is a bool"):
            checkpoint(tk.exp, x, early_stop=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="context_fn returns two context managers"):
            checkpoint(tk.exp, x, context_fn=lambda: nullcontext())  # type: ignore[arg-type, return-value]
        with pytest.raises(TypeError, match="context_fn returns two context managers"):
            checkpoint(tk.exp, x, context_fn=3)  # type: ignore[arg-type]
        assert active_hooks() == ()

    def test_contexts(self) -> None:
        log: list[str] = []

        @contextmanager
        def named(name: str) -> Iterator[None]:
            log.append(name)
            yield

        x = leaf(3)
        checkpoint(tk.exp, x, context_fn=lambda: (named("forward"), named("again"))).sum().backward()
        assert log == ["forward", "again"]

        y = checkpoint(tk.exp, x, context_fn=lambda: (named("forward"), named("again"))).sum()
        grads = [tk.autograd.grad(y, x, retain_graph=True)[0].numpy() for _ in range(3)]
        assert log[2:] == ["forward", "again", "again", "again"]
        np.testing.assert_array_equal(grads, [np.exp(x.detach().numpy())] * 3)

        @contextmanager
        def suppressing() -> Iterator[None]:
            with suppress(KeyError):
                yield

        def fail(x: Any) -> Any:
            raise KeyError

        with pytest.raises(RuntimeError, match="suppressed an exception raised during the checkpointed forward"):
            checkpoint(fail, x, context_fn=lambda: (suppressing(), nullcontext()))
