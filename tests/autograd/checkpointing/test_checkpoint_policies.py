"""Selective checkpoints: which operators run again, what is kept and for how long, and the errors of policies."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import checkpoint
from tenkey.autograd import checkpoint_policies as policies
from tenkey.autograd.checkpoint_policies import CheckpointPolicy, create_selective_checkpoint_contexts
from tests._backends import Host

SAVE, RECOMPUTE = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE


def leaf(*shape: int, seed: int = 0) -> Any:
    return tk.asarray(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


RUNS: dict[str, int] = {}


def counting(name: str, function: Any, derivative: Any) -> Any:
    """A custom operator that counts how often its kernel runs."""

    @tk.library.custom_op(f"docs_policies::{name}", mutates_args=())
    def operator(x: tk.Tensor) -> tk.Tensor:
        RUNS[name] = RUNS.get(name, 0) + 1
        return function(x)

    operator.register_autograd(
        lambda ctx, g: g * derivative(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return operator


slow = counting("slow", tk.sin, tk.cos)
cheap = counting("cheap", tk.exp, tk.exp)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RUNS.clear()


def function(x: Any) -> Any:
    return slow(cheap(slow(cheap(x)))) * 1.0


def expected(x: Any) -> np.ndarray:
    (g,) = tk.autograd.grad(tk.sum(tk.sin(tk.exp(tk.sin(tk.exp(x))))), x)
    return np.asarray(g.numpy())


class TestWhatRunsAgain:
    @pytest.mark.parametrize(
        ("context_fn", "slow_runs", "cheap_runs"),
        [
            (None, 4, 4),
            (policies.save_nothing, 4, 4),
            (policies.save_everything, 2, 2),
            (policies.save_only_these_operators("docs_policies::slow"), 2, 4),
            (policies.save_only_these_operators(tk.ops.docs_policies.slow), 2, 4),
            (policies.save_only_these_operators(tk.ops.docs_policies.slow.default), 2, 4),
            (policies.recompute_only_these_operators("docs_policies::slow"), 4, 2),
            (functools.partial(create_selective_checkpoint_contexts, [tk.ops.docs_policies.slow.default]), 2, 4),
            (lambda: create_selective_checkpoint_contexts(lambda ctx, op, *args: "slow" in op.name), 2, 4),
        ],
    )
    def test_operators(self, context_fn: Any, slow_runs: int, cheap_runs: int) -> None:
        x = leaf(3)
        y = checkpoint(function, x, context_fn=context_fn).sum()
        assert RUNS == {"slow": 2, "cheap": 2}
        y.backward(retain_graph=True)
        assert {"slow": slow_runs, "cheap": cheap_runs} == RUNS
        np.testing.assert_allclose(x.grad.numpy(), expected(x))
        y.backward()  # what was kept is there for another one
        assert {"slow": 2 * slow_runs - 2, "cheap": 2 * cheap_runs - 2} == RUNS
        np.testing.assert_allclose(x.grad.numpy(), 2 * expected(x))

    def test_built_in_operators(self) -> None:
        x, w = leaf(4, 3), leaf(3, 3, seed=1)

        def layers(x: Any) -> Any:
            for _ in range(3):
                x = tk.tanh(x @ w + 1.0)
            return x

        (plain,) = tk.autograd.grad(tk.sum(layers(x)), w)
        runs = [0]

        def counted(x1: Any, x2: Any) -> Any:
            runs[0] += 1
            return tk.asarray(np.matmul(x1.array, x2.array))

        with tk.library.Library("tk", "IMPL") as library:
            library.impl("matmul", counted, "cpu", allow_override=True)
            for chosen in ("matmul", "tk::matmul", tk.matmul, tk.ops.tk.matmul.default):
                y = tk.sum(checkpoint(layers, x, context_fn=policies.save_only_these_operators(chosen)))
                runs[0] = 0
                (g,) = tk.autograd.grad(y, w)
                assert runs == [6]  # two for the gradient of each product, and none for its result
                np.testing.assert_allclose(g.numpy(), plain.numpy())

    def test_an_operator_that_is_made_of_others_stands_for_what_it_calls(self) -> None:
        @tk.library.composite("docs_policies::both(Tensor x) -> Tensor")
        def both(x: Any) -> Any:
            return slow(cheap(x))

        def layers(x: Any) -> Any:
            return cheap(slow(tk.ops.docs_policies.both(x)))

        x = leaf(3)
        (plain,) = tk.autograd.grad(tk.sum(layers(x)), x)
        for policy, slow_runs, cheap_runs in (
            (policies.save_only_these_operators("docs_policies::both"), 3, 3),  # two of each in forward
            (policies.recompute_only_these_operators("docs_policies::both"), 3, 3),
            (policies.save_only_these_operators("docs_policies::both", "docs_policies::slow"), 2, 3),
        ):
            RUNS.clear()
            (again,) = tk.autograd.grad(tk.sum(checkpoint(layers, x, context_fn=policy)), x)
            assert RUNS == {"slow": slow_runs, "cheap": cheap_runs}  # noqa: SIM300
            np.testing.assert_array_equal(again.numpy(), plain.numpy())

    def test_a_public_function_that_is_no_operator_itself(self) -> None:
        named = policies.save_only_these_operators("einsum")
        assert repr(policies.save_only_these_operators(tk.einsum)) == repr(named)
        assert repr(policies.recompute_only_these_operators(tk.einsum, tk.matmul)).count("tk::") == 2
        x = leaf(3, 3)
        y = checkpoint(
            lambda x: tk.einsum("ij,jk->ik", x, tk.exp(x)) * 2.0,
            x,
            context_fn=lambda: create_selective_checkpoint_contexts([tk.einsum]),
        )
        (plain,) = tk.autograd.grad(tk.sum(tk.matmul(x, tk.exp(x)) * 2.0), x)
        (g,) = tk.autograd.grad(tk.sum(y), x)
        np.testing.assert_allclose(g.numpy(), plain.numpy())

    def test_each_policy_of_a_function(self) -> None:
        seen: list[Any] = []

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            assert not ctx.is_recompute
            assert isinstance(ctx.op_output, tk.Tensor)
            tk.sum(ctx.op_output)  # a policy may call operators
            seen.append((op.name, args[0].shape))
            return next(answers)

        for answer in CheckpointPolicy:
            answers = iter([answer, RECOMPUTE] * 4)
            x = leaf(3)
            RUNS.clear()
            y = checkpoint(
                lambda x: slow(cheap(x)),
                x,
                context_fn=lambda: create_selective_checkpoint_contexts(policy),
            )
            y.sum().backward()
            kept = "RECOMPUTE" not in answer.name
            assert RUNS["cheap"] == (1 if kept else 2), answer
            np.testing.assert_allclose(x.grad.numpy(), _derivative(x))
        assert seen[:2] == [("docs_policies::cheap", (3,)), ("docs_policies::slow", (3,))]

    def test_offloaded_results_lie_on_the_cpu(self) -> None:
        with tk.backends.register(Host()):
            x = tk.asarray([0.3, 0.7], device="host").requires_grad_()
            contexts = create_selective_checkpoint_contexts(lambda ctx, op, *args: CheckpointPolicy.MUST_CPU_OFFLOAD)
            y = checkpoint(lambda x: tk.sin(tk.exp(x)), x, context_fn=lambda: contexts)
            (g,) = tk.autograd.grad(y.sum(), x)
            assert g.device == x.device
            values = np.array([0.3, 0.7])
            np.testing.assert_allclose(g.numpy(), np.cos(np.exp(values)) * np.exp(values), rtol=1e-6)

    def test_lists_and_compositions(self) -> None:
        x = leaf(4, 4)

        def several(x: Any) -> Any:
            q = tk.concat([x, x * 2], axis=0)
            r = tk.sin(q * 1.5)
            return tk.sum(tk.einsum("ij,kj->ik", r, q) ** 2)

        (plain,) = tk.autograd.grad(several(x), x)
        for policy in (policies.save_everything, policies.save_nothing):
            (again,) = tk.autograd.grad(checkpoint(several, x, context_fn=policy), x)
            np.testing.assert_allclose(again.numpy(), plain.numpy())

    def test_second_order_and_nesting(self) -> None:
        x = leaf(3)

        def inner(x: Any) -> Any:
            return checkpoint(lambda x: tk.sin(tk.exp(x)), x, context_fn=policies.save_only_these_operators("exp"))

        def outer(x: Any) -> Any:
            return checkpoint(lambda x: inner(inner(x)), x, context_fn=policies.save_only_these_operators("sin"))

        assert tk.autograd.gradcheck(outer, (x,))
        assert tk.autograd.gradgradcheck(outer, (x,))


def _derivative(x: Any) -> np.ndarray:
    values = x.detach().numpy()
    return np.asarray(np.cos(np.exp(values)) * np.exp(values))


class TestMemory:
    def test_what_is_kept_is_freed_with_the_graph(self) -> None:
        held: list[Any] = []

        def policy(ctx: Any, op: Any, *args: Any) -> bool:
            held.append(weakref.ref(ctx.op_output._data))
            return "exp" in op.name

        gc.collect()
        gc.disable()
        try:
            x = leaf(3)
            y = checkpoint(
                lambda x: tk.sin(tk.exp(x)) * 1.0,
                x,
                context_fn=lambda: create_selective_checkpoint_contexts(policy),
            ).sum()
            assert [data() is not None for data in held[:2]] == [True, False]
            y.backward()
            assert held[0]() is None
            y = checkpoint(
                lambda x: tk.sin(tk.exp(x)) * 1.0,
                x,
                context_fn=lambda: create_selective_checkpoint_contexts(policy),
            ).sum()
            kept = held[-3]
            assert kept() is not None
            del y
            assert kept() is None
        finally:
            gc.enable()


class TestErrors:
    def test_what_is_no_operator(self) -> None:
        with pytest.raises(TypeError, match=r"\[save_only_these_operators\] got 3: name an operator"):
            policies.save_only_these_operators(3)
        with pytest.raises(TypeError, match=r"\[recompute_only_these_operators\] got"):
            policies.recompute_only_these_operators(len)

        def einsum(x: Any) -> Any:
            return x

        with pytest.raises(TypeError, match="name an operator"):  # a function of another library
            policies.save_only_these_operators(einsum)
        with pytest.raises(tk.dispatch.OperatorNotFoundError, match="no_such"):
            policies.save_only_these_operators("no_such")
        with pytest.raises(TypeError, match=r"\[create_.*must be either a function or a list of ops, got int: "):
            create_selective_checkpoint_contexts(3)  # type: ignore[arg-type]

    def test_what_a_policy_returns(self) -> None:
        with pytest.raises(TypeError, match="the policy returned 'save' for tk::exp"):
            checkpoint(tk.exp, leaf(3), context_fn=lambda: create_selective_checkpoint_contexts(lambda *a: "save"))  # type: ignore[arg-type, return-value]

    def test_a_call_that_was_not_made_in_forward(self) -> None:
        first = [True]

        def changing(x: Any) -> Any:
            return tk.sin(x) if first and first.pop() else tk.sin(tk.exp(x))

        y = checkpoint(changing, leaf(3), context_fn=policies.save_everything).sum()
        with pytest.raises(RuntimeError, match="call 1 of tk::exp was encountered during backward but not found"):
            y.backward()

    def test_a_kept_result_that_was_changed(self) -> None:
        def changing(x: Any) -> Any:
            y = tk.exp(x)
            z = tk.sin(y * 2.0)
            y.detach().multiply_(2.0)
            return z

        x = leaf(3)
        y = checkpoint(changing, x, context_fn=policies.save_everything).sum()
        with pytest.raises(RuntimeError, match="cached during selective activation checkpoint has been mutated"):
            y.backward()
        y = checkpoint(
            changing,
            x,
            context_fn=lambda: create_selective_checkpoint_contexts(["exp"], allow_cache_entry_mutation=True),
        )
        y.sum().backward()

    def test_names(self) -> None:
        shown = repr(policies.save_only_these_operators("matmul", "exp"))  # and exp.out, if it was derived before
        assert shown.startswith("save_only_these_operators(tk::exp, ")
        assert shown.endswith("tk::matmul)")
        assert repr(policies.save_nothing) == "save_nothing()"
