"""Note [Interrupts]: an interrupt anywhere in an operator or a transform leaves the state as it was.

Guards are Python context managers: an interrupt at the beginning of ``__exit__`` keeps them on, and no other one does.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey._util import locks
from tenkey._util.interrupts import switch
from tenkey.core.compiled.loading import extension
from tenkey.dispatch import DispatchMode
from tests._interrupts import changed_variables, interrupted
from tests._tiers import only_full

Calls = Callable[[], Callable[[], Any]]
_ROUNDS = 12  # so that the interpreter has specialised the code, and the kernels exist


def _leaf(*shape: int) -> Tensor:
    return tk.tensor(np.ones(shape or (3,)), requires_grad=True)


class _Square(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @tk.autograd.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class _Through(DispatchMode):
    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.run_within(op, *args, **kwargs)


def _view() -> Tensor:
    return (_leaf(2, 3) * 1.0)[0]


def _loss(f: Callable[[Tensor], Tensor]) -> Tensor:
    return tk.sum(f(_leaf()))


def _chain(x: Tensor) -> Tensor:
    return tk.exp(x) * x


def _second_order(x: Tensor) -> Tensor:
    (g,) = tk.autograd.grad(tk.sum(_chain(x)), x, create_graph=True)
    return tk.autograd.grad(tk.sum(g), x)[0]


def _checkpointed(x: Tensor) -> Tensor:
    return tk.autograd.checkpoint(_chain, x)  # type: ignore[no-any-return]


def _within(guard: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the call in a guard that has been entered before the first interrupt, and is left after the last."""
    guard.__enter__()
    return call


# Each makes new tensors and returns a call on them.
CALLS: dict[str, Calls] = {
    "add": lambda: partial(tk.add, _leaf(), _leaf()),
    "divide": lambda: partial(tk.divide, tk.zeros(3), tk.zeros(3)),
    "sum": lambda: partial(tk.sum, tk.ones((3, 3)), axis=0),
    "mean": lambda: partial(tk.mean, _leaf(3, 3), axis=0),
    "many elements": lambda: partial(tk.exp, tk.ones(100_000)),
    "in place": lambda: partial(tk.ones(3).divide_, 0),
    "in place, recorded": lambda: (_leaf() * 1.0).exp_,
    "in place, of a view": lambda: partial(_view().multiply_, 2.0),
    "copy_": lambda: partial((_leaf() * 1.0).copy_, _leaf()),
    "copy_ of constants": lambda: partial((_leaf() * 1.0).copy_, tk.ones(3)),
    "assignment": lambda: partial((_leaf(2, 3) * 1.0).__setitem__, 1, _leaf()),
    "assignment to a view": lambda: partial(_view().__setitem__, slice(1, 2), 5.0),
    "out=": lambda: partial(tk.ops.tk.add.out, tk.ones(3), tk.ones(3), out=tk.ones(3)),
    "linspace": lambda: partial(tk.linspace, 0, 1, 5),
    "arange": lambda: partial(tk.arange, 0.0, 1.0, 0.25),
    "normal": lambda: partial(tk.random.normal, (3,)),
    "backward": lambda: _loss(tk.exp).backward,
    "second order": lambda: partial(_second_order, _leaf()),
    "Function": lambda: partial(_Square.apply, _leaf()),
    "backward of a Function": lambda: _loss(_Square.apply).backward,
    "checkpoint": lambda: partial(_checkpointed, _leaf()),
    "backward of a checkpoint": lambda: _loss(_checkpointed).backward,
    "vmap": lambda: partial(tk.transforms.vmap(_chain), tk.ones((3, 2))),
    "grad": lambda: partial(tk.transforms.grad(lambda x: tk.sum(_chain(x))), tk.ones(3)),
    "jvp": lambda: partial(tk.transforms.jvp, _chain, (tk.ones(3),), (tk.ones(3),)),
    "anomaly": lambda: _within(tk.autograd.anomaly_mode(), partial(tk.exp, _leaf())),
    "profile": lambda: _within(tk.autograd.profile(profile_memory=True), partial(tk.mean, _leaf())),
    "mode": lambda: _within(_Through(), partial(tk.matrix_transpose, tk.ones((2, 2)))),
    "autocast": lambda: _within(tk.autocast("cpu"), partial(tk.matmul, tk.ones((2, 2)), tk.ones((2, 2)))),
}
QUICK = ["divide", "sum", "in place", "in place, of a view", "assignment", "Function", "linspace"]


GUARDS: dict[str, Callable[[], Any]] = {
    "no_grad": tk.no_grad,
    "inference_mode": tk.inference_mode,
    "autocast": lambda: tk.autocast("cpu"),
    "anomaly_mode": tk.autograd.anomaly_mode,
    "saved_tensors_hooks": lambda: tk.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "save_on_cpu": tk.autograd.graph.save_on_cpu,
    "disable_saved_tensors_hooks": lambda: tk.autograd.graph.disable_saved_tensors_hooks("none here"),
    "allow_mutation_on_saved_tensors": tk.autograd.graph.allow_mutation_on_saved_tensors,
    "profile": tk.autograd.profile,
    "record_function": lambda: tk.autograd.record_function("region"),
    "dual_level": tk.autograd.forward_ad.dual_level,
    "mode": _Through,
}


@pytest.fixture(autouse=True)
def _lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence reports of interrupts in callbacks of weak references, where Python drops them."""
    monkeypatch.setattr(sys, "unraisablehook", lambda info: None)


def _sweep(make: Calls, step: int = 1) -> list[tuple[Any, dict[str, Any]]]:
    """Interrupt calls at one place after another; return the places that left a changed state."""
    for _ in range(_ROUNDS):
        contextvars.copy_context().run(lambda: make()())
    left: list[tuple[Any, dict[str, Any]]] = []
    number, place = 0, None

    def one() -> Any:
        call = make()
        before = contextvars.copy_context()
        place = interrupted(call, number)
        if changed := changed_variables(before):
            left.append((place, changed))
        return place

    while number == 0 or place is not None:
        number += step
        place = contextvars.copy_context().run(one)
        x = _leaf()
        tk.sum(x * x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
    # a call has a place; from Python 3.12 on, compiled ones may have none
    assert number > step or (sys.version_info >= (3, 12) and extension is not None)
    return left


@pytest.mark.parametrize("name", only_full(list(CALLS), QUICK))
def test_a_call_leaves_nothing_behind(name: str) -> None:
    assert _sweep(CALLS[name], 1 if name in QUICK else 3) == []  # the others go through the same places mostly


@pytest.fixture(autouse=True)
def _locks_are_free() -> Iterator[None]:
    """A reentrant lock that stays taken stops all other threads, and not the one that is tested."""
    yield
    assert not [lock for lock in locks._alive(locks._waiting) if lock._is_owned()]


@pytest.mark.parametrize("name", only_full(list(GUARDS), ["no_grad", "autocast", "profile"]))
def test_a_guard_stays_on_only_if_its_end_never_began(name: str) -> None:
    def make() -> Callable[[], None]:
        x = _leaf()

        def block() -> None:
            with GUARDS[name]():
                x * x

        return block

    left = _sweep(make)
    if name in ("inference_mode", "disable_saved_tensors_hooks"):  # these also end when they are freed
        assert left == []
    assert [(place.function in ("leave", "__exit__"), place.begins) for place, _ in left] in ([], [(True, True)]), left


def test_one_guard_entered_twice() -> None:
    """The repeated end of the inner block does not end the outer one."""
    found = []

    def make() -> Callable[[], None]:
        guard = tk.no_grad()

        def block() -> None:
            with guard:
                try:
                    with guard:
                        pass
                except KeyboardInterrupt:
                    found.append(tk.is_grad_enabled())
                    raise

        return block

    left = _sweep(make)
    assert [place.function for place, _ in left] == ["leave", "leave"]  # the two ends
    assert found
    assert not any(found)


def test_switch() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def call() -> None:
        restore = switch(variable, 1)
        try:
            assert variable.get() == 1
        finally:
            restore()

    assert _sweep(lambda: call) == []
