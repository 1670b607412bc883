"""Registrations performed and taken back in any order leave what performing those that are left would have made."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenkey.dispatch import (
    DispatchKey,
    Handle,
    Kernel,
    MissingKernelError,
    RegistrationError,
    Registry,
    compute_table,
    fallthrough_kernel,
)
from tests._tiers import only_full, tier
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    CPU,
    CUDA,
    EXPLICIT,
    IMPLICIT,
    META,
    TRACER,
    Fake,
    fresh,
    named,
)

# Precedence is tested with kernels that shadow one another: the warning has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore::tenkey.dispatch.ShadowedKernelWarning")

SCHEMA = "t::h(Tensor x) -> Tensor"
OVERLOAD = "t::h.two(Tensor x, Tensor y) -> Tensor"
_KERNELS: dict[str, Kernel] = {
    "cpu": Kernel(named("cpu"), CPU),
    "cuda": Kernel(named("cuda"), CUDA),
    "cpu on top": Kernel(named("cpu on top"), CPU),
    "cpu when": Kernel(named("cpu when"), CPU, when=lambda x: hasattr(x, "special")),
    "cpu generated": Kernel(named("cpu generated"), CPU, origin="generated"),
    "skip": Kernel(fallthrough_kernel, TRACER),
    "autograd": Kernel(named("autograd"), AUTOGRAD),
    "autograd cpu": Kernel(named("autograd cpu"), AUTOGRAD_CPU),
    "implicit": Kernel(named("implicit"), IMPLICIT),
    "explicit": Kernel(named("explicit"), EXPLICIT),
    "meta": Kernel(named("meta"), META),
    "cuda when": Kernel(named("cuda when"), CUDA, when=lambda x: True),
    "overload": Kernel(named("overload"), CPU),
}
_FALLBACKS: dict[str, Kernel] = {
    "all tracer": Kernel(lambda op, *args: ("all tracer",), TRACER, boxed=True),
    "all meta": Kernel(lambda op, *args: ("all meta",), META, boxed=True),
    "all cuda": Kernel(lambda op, *args: ("all cuda",), CUDA, boxed=True),
}
ACTIONS = ["define", "define overload", *_KERNELS, *_FALLBACKS]
STACKED = ("cpu", "cpu on top")  # the only two whose order matters: of equals the newest wins


def perform(reg: Registry, action: str) -> Handle:
    if action == "define":
        op = reg.define(SCHEMA)
        return Handle(lambda: reg.undefine(op))
    if action == "define overload":
        other = reg.define(OVERLOAD)
        return Handle(lambda: reg.undefine(other))
    if action in _FALLBACKS:
        return reg.fallback(_FALLBACKS[action])
    return reg.impl("t::h.two" if action == "overload" else "t::h", _KERNELS[action], allow_override=action in STACKED)


def outcome(reg: Registry) -> dict[Any, Any]:
    """All that can be seen of a state: names, tables, and what every kind of call gives."""
    seen: dict[Any, Any] = {
        "names": sorted(reg.operators),
        "dangling": {n: {k.function.__qualname__ for k in stack} for n, stack in reg.dangling().items()},
        "fallbacks": {key: stack for key, stack in reg.fallbacks.items() if key is not DispatchKey.Mode},
    }
    for op in reg:
        assert op.table() == compute_table(op)
        seen[op.name] = {key: slot for key, slot in op.table().items() if key is not DispatchKey.Mode}
        for keys in ([CPU], [CUDA], [META], [AUTOGRAD_CPU, CPU], [TRACER, CPU], [TRACER, AUTOGRAD_CPU, CPU]):
            fakes = [Fake(*keys), Fake(*keys)]
            fakes[1].special = True  # type: ignore[attr-defined]
            for number, fake in enumerate(fakes):
                try:
                    seen[op.name, tuple(keys), number] = op(*[fake] * len(op.schema.arguments))[0]
                except (MissingKernelError, RegistrationError) as error:
                    seen[op.name, tuple(keys), number] = type(error)
    return seen


def left_alone(handles: dict[str, Handle]) -> dict[Any, Any]:
    """The outcome where only what is left has been performed."""
    stacked = [a for a in handles if a in STACKED]
    return _left_alone(tuple([a for a in ACTIONS if a in handles and a not in STACKED] + stacked))


@functools.cache
def _left_alone(actions: tuple[str, ...]) -> dict[Any, Any]:
    reg = fresh()
    for action in actions:
        perform(reg, action)
    return outcome(reg)


def check_order(order: Sequence[str], removals: Sequence[str], *, interleaved: bool) -> None:
    """Perform ``order``, take ``removals`` back (at once or at the end), then the others: compared at every step."""
    reg = fresh()
    handles: dict[str, Handle] = {}

    def remove(action: str) -> None:
        handles.pop(action).remove()
        assert outcome(reg) == left_alone(handles)  # also fills slots and caches: a stale one would show later

    for action in order:
        handles[action] = perform(reg, action)
        assert outcome(reg) == left_alone(handles)
        if interleaved:
            for done in [a for a in removals if a in handles]:
                remove(done)
    for action in [*removals, *order]:
        if action in handles:
            remove(action)
    assert outcome(reg) == outcome(fresh())
    assert not reg.pending


@pytest.mark.wider
@settings(max_examples=tier(37, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.permutations(ACTIONS), st.data(), st.booleans())
def test_any_order_of_registration_and_removal(order: list[str], data: st.DataObject, interleaved: bool) -> None:
    """Note [Registrations are transactional]."""
    taken = data.draw(st.lists(st.sampled_from(order), unique=True), label="performed")
    removals = data.draw(st.lists(st.sampled_from(taken), unique=True) if taken else st.just([]), label="removed")
    check_order([a for a in order if a in taken], removals, interleaved=interleaved)


_ORDERS: Final = list(itertools.permutations(["define", "cpu", "implicit", "all tracer"]))


@pytest.mark.parametrize("order", only_full(_ORDERS, _ORDERS[::3]), ids=",".join)
def test_every_order_of_a_few(order: tuple[str, ...]) -> None:
    for removals in itertools.permutations(order):
        check_order(order, removals, interleaved=False)


def test_definition_replaced_around_its_kernels() -> None:
    """Defined, removed and defined again: as if it had been defined once."""
    for position in range(3):
        reg = fresh()
        actions = ["cpu", "cuda"]
        actions.insert(position, "define")
        handles = {action: perform(reg, action) for action in actions}
        handles["define"].remove()
        perform(reg, "define")
        left = fresh()
        for action in ("define", "cpu", "cuda"):
            perform(left, action)
        assert outcome(reg) == outcome(left)
