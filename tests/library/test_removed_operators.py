"""Nothing stays of an operator that was used in every way and removed again."""

from __future__ import annotations

import gc
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import tenkey as tk
from tenkey.dispatch import registry
from tenkey.dispatch.calling import codegen
from tenkey.dispatch.operator import Operator
from tenkey.transforms.batching import level
from tests._tiers import is_full, tier

_numbers = itertools.count()
_library = tk.library.Library("removed", "FRAGMENT")


def _use(function: Callable[..., Any]) -> None:
    x = tk.tensor([0.5, 0.6], requires_grad=True)
    function(x).sum().backward()
    x = x.detach()
    tk.transforms.jvp(function, (x,), (x,))
    tk.transforms.vmap(function)(x)
    tk.transforms.hessian(lambda x: function(x).sum())(x)


def _defined() -> None:
    name = f"name{next(_numbers)}"
    handles = [_library.define(f"{name}(Tensor x) -> Tensor")]
    handles.append(_library.impl(name, lambda x: x * x, "CompositeImplicitAutograd"))
    _use(getattr(tk.ops.removed, name))
    for handle in handles:
        handle.remove()


def _custom() -> None:
    operator = tk.library.custom_op(
        f"removed::name{next(_numbers)}", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_autograd(lambda ctx, g: g * 2)
    operator.register_jvp(lambda ctx, t: t * 2)
    _use(operator)
    with operator.set_kernel_enabled("cpu"):
        operator(tk.ones(2))
    registry.undefine(operator.operator)


def _pointwise() -> None:
    name = f"name{next(_numbers)}"
    call = tk.library.pointwise(f"removed::{name}(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x + T(3))
    _use(call)
    packet = getattr(tk.ops.removed, name)
    packet(tk.ones(2), out=tk.zeros(2))
    getattr(tk.ops.removed, f"{name}_")(tk.ones(2))
    assert "vjp" in str([op.name for op in registry if op.facets.get("DerivedFrom") is call.operator])
    tk.dispatch.explain(call, tk.ones(2))
    registry.undefine(call.operator)


def _reduction() -> None:
    call = tk.library.reduction(
        f"removed::name{next(_numbers)}(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        identity=0.0,
        scalar=lambda T: lambda x: x * x,
    )
    x = tk.tensor([[0.5, 0.6]], requires_grad=True)
    call(x).backward()
    tk.transforms.jvp(call, (x.detach(),), (x.detach(),))
    tk.transforms.vmap(call)(x.detach())
    registry.undefine(call.operator)


KINDS = {"define": _defined, "custom_op": _custom, "pointwise": _pointwise, "reduction": _reduction}


def _named(values: Iterable[Any]) -> list[str]:
    return [value for value in values if type(value) is str and "removed::name" in value]


def _define_another() -> None:
    """Define a function, which removes the texts of those that were freed."""
    codegen.define("def another():\n    pass\n", {}, "<another>")


def _after(count: int, cycle: Callable[[], None]) -> tuple[int, int]:
    """The numbers of operators and of blocks of memory after some cycles."""
    for _ in range(count):
        cycle()
    gc.collect()
    gc.collect()
    _define_another()
    return sum(isinstance(one, Operator) for one in gc.get_objects()), sys.getallocatedblocks()


@pytest.mark.parametrize("kind", KINDS)
def test_removed_operators_leave_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "MOST_NAMES", 0)
    monkeypatch.setenv("TENKEY_COMPILE", "off")  # Numba's import would be counted
    cycle, count = KINDS[kind], tier(5, 1000)
    operators, blocks = _after(tier(2, 50), cycle)
    more_operators, more_blocks = _after(count, cycle)
    assert more_operators == operators
    if is_full():  # with few cycles, what grows only once counts too much
        assert more_blocks - blocks < count
    level.LOOPS.clear()
    assert _named(linecache.cache) == []
    containers = [owner for owner in gc.get_objects() if isinstance(owner, dict | list | set | tuple)]
    assert [named for owner in containers if (named := _named(owner))] == []


def test_the_text_of_a_function_stays_as_long_as_its_code() -> None:
    call = tk.library.pointwise(f"removed::name{next(_numbers)}(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x)
    call(tk.ones(1))
    registry.undefine(call.operator)
    gc.collect()
    assert "$" not in inspect.getsource(call)
    del call
    gc.collect()
    _define_another()
    assert _named(linecache.cache) == []


def test_a_packet_follows_its_name_as_long_as_it_is_held() -> None:
    name = f"name{next(_numbers)}"
    packets = []
    for factor in (2.0, 3.0):
        with _library.define(f"{name}(Tensor x) -> Tensor"), _library.impl(name, lambda x: x * factor, "cpu"):  # noqa: B023
            packets.append(getattr(tk.ops.removed, name))
            assert packets[0](tk.ones(())).item() == factor
    assert packets[0] is packets[1]


def test_a_custom_operator_can_be_defined_again_after_its_removal() -> None:
    """Its own kernel goes with it; one that was registered for the name waits for the next definition."""
    name = f"removed::name{next(_numbers)}"
    for factor in (2.0, 3.0):
        operator = tk.library.custom_op(name, lambda x: x * factor, mutates_args=(), schema="(Tensor x) -> Tensor")  # noqa: B023
        assert operator(tk.ones(())).item() == factor
        registry.undefine(operator.operator)
        assert name not in registry.pending
    schema = "(Tensor x) -> Tensor"
    refused = pytest.raises(tk.dispatch.RegistrationError, match="not by custom_op")
    with _library.define(name.partition("::")[2] + schema), refused:
        tk.library.custom_op(name, lambda x: x, mutates_args=(), schema=schema)
    operator = tk.library.custom_op(name, lambda x: x, mutates_args=(), schema=schema, device_types="cpu")
    operator.register_kernel("meta", lambda x: x)
    registry.undefine(operator.operator)
    assert [kernel.key.name for kernel in registry.pending.pop(name)] == ["Meta"]


def test_a_library_forgets_handles_that_were_removed() -> None:
    library = tk.library.Library("removed_handles", "DEF")
    kept = library.define("kept(Tensor x) -> Tensor")
    for _ in range(10):
        library.define("f(Tensor x) -> Tensor").remove()
    assert [*library._handles] == [kept]
    library.remove()
    assert "removed_handles::kept" not in registry.operators
    assert not library._handles
