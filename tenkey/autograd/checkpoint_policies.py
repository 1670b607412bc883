"""``tk.autograd.checkpoint_policies``: which results a checkpoint keeps, and which it recomputes.

Note [Selective checkpoints]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
While hooks on saved tensors are active, the autograd kernel of an operator asks the chooser of the checkpoint before it
calls the kernel below (``with_choice``). In the forward pass the chooser passes the result to the policy, and keeps it
or notes that it must be recomputed. In a recomputation the n-th call of an operator gets the result kept of its n-th
call in the forward pass; the call is recorded as usual, so the same tensors are saved. A policy sees the same calls as
autograd: recorded calls of operators that have their own gradient formula. An operator composed of others (``einsum``)
is not seen itself; in a list, it stands for all operators that it calls: a mode that is active in the forward pass
tracks such calls. Guarded by ``tests/autograd/checkpointing/test_checkpoint_policies.py``.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final

from ..core.tensor import Tensor, version_of
from ..core.tree import map_tensors, tree_map
from ..core.wrapper import Wrapper
from ..dispatch.calling.overloads import OperatorPacket
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import StateGuard, current_state, enter, make_state, set_state
from ..dispatch.modes import DispatchMode
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from .saved_tensors.saved import alone
from .saved_tensors.saved_tensor_hooks import Chooser

__all__ = [
    "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts",
    "recompute_only_these_operators", "save_everything", "save_nothing", "save_only_these_operators",
]  # fmt: skip

_LIBRARY: Final = __name__.partition(".")[0]


class CheckpointPolicy(enum.Enum):
    """The treatment of the result of a call in a selective checkpoint.

    MUST and PREFER are equivalent here; PREFER lets a compiler decide otherwise. CPU_OFFLOAD keeps the result in CPU
    memory.

    >>> tk.autograd.checkpoint_policies.CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """The first argument of a policy; ``op_output`` is the result of the call, ``is_recompute`` False as in PyTorch.

    A policy that keeps only small results:

    >>> policies = tk.autograd.checkpoint_policies
    >>> def small(ctx, op, *args, **kwargs):
    ...     return ctx.op_output.size < 3
    >>> def make():
    ...     return policies.create_selective_checkpoint_contexts(small)
    >>> x = tk.tensor([0.0, 1.0, 2.0], requires_grad=True)
    >>> y = tk.autograd.checkpoint(lambda x: tk.exp(tk.sum(x * x)), x, context_fn=make)
    >>> tk.autograd.grad(y, x)[0].shape
    (3,)
    """

    def __init__(self, *, is_recompute: bool = False, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


PolicyFunction = Callable[..., CheckpointPolicy | bool]


# ---- kept results


class _Kept:
    """A tensor that is the result of a call, or part of it."""

    __slots__ = ("device", "tensor", "version")

    def __init__(self, tensor: Tensor, offload: bool) -> None:
        self.device = tensor.device
        if offload and tensor.device.type not in ("cpu", "meta"):
            tensor = tensor.detach().to_device("cpu")
        self.tensor = alone(tensor)
        self.version = version_of(tensor)


class _Forward(Chooser):
    """The chooser of the forward pass: it asks the policy and keeps results in call order for each operator."""

    def __init__(self, policy: PolicyFunction) -> None:
        self.policy = policy
        self.results: defaultdict[str, list[Any]] = defaultdict(list)  # None: recompute

    def run(self, operator: Operator, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the operator and keep its result if the policy says so."""
        out = inner(*args, **kwargs)
        found = current_state()
        values = tuple([value for value in found.values if not isinstance(value, Chooser)])
        try:  # the policy's own calls are not recorded choices
            set_state(make_state(found.include, found.exclude, found.modes, values))
            policy: Any = self.policy(SelectiveCheckpointContext(op_output=out), operator, *args, **kwargs)
        finally:
            set_state(found)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(policy, CheckpointPolicy):
            raise TypeError(
                f"[checkpoint] the policy returned {policy!r} for {operator.name}: return a CheckpointPolicy or a bool."
            )
        offload = policy.name.endswith("OFFLOAD")
        kept = None
        if offload or policy.name.endswith("SAVE"):
            kept = map_tensors(lambda one: one if isinstance(one, Wrapper) else _Kept(one, offload), out)
        self.results[operator.name].append(kept)
        return out


class _Again(Chooser):
    """The chooser of one recomputation."""

    def __init__(self, results: defaultdict[str, list[Any]], allow_mutation: bool) -> None:
        self.results = results
        self.allow_mutation = allow_mutation
        self.counts: defaultdict[str, int] = defaultdict(int)

    def run(self, operator: Operator, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the kept result, or call the operator."""
        name = operator.name
        number = self.counts[name]
        self.counts[name] = number + 1
        if number >= len(self.results[name]):
            raise RuntimeError(
                f"[checkpoint] call {number + 1} of {name} was encountered during backward but not found in storage: "
                "it was not made in the forward pass. This can happen if the operations in the checkpointed region "
                "are nondeterministic or depend on global state that changed between forward and backward."
            )
        kept = self.results[name][number]
        if kept is None:
            return inner(*args, **kwargs)

        def again(one: Any) -> Any:
            if one.__class__ is not _Kept:
                return one
            if not self.allow_mutation and version_of(one.tensor) != one.version:
                raise RuntimeError(
                    "[checkpoint] Tensor cached during selective activation checkpoint has been mutated: "
                    f"result {number + 1} of {name}. Pass allow_cache_entry_mutation=True if this is intended, or let "
                    "the policy recompute it."
                )
            return alone(one.tensor if one.tensor.device == one.device else one.tensor.to_device(one.device))

        return tree_map(again, kept)


_going_on: Final[ContextVar[frozenset[Operator]]] = ContextVar("tenkey_composites_going_on", default=frozenset())


class _Composites(DispatchMode):
    """Tracks which of the given composite operators are being called."""

    def __init__(self, operators: frozenset[Operator]) -> None:
        self.operators = operators

    def __tk_dispatch__(self, op: Operator, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op not in self.operators:
            return NotImplemented
        found = _going_on.get()
        try:
            _going_on.set(found | {op})
            return self.run_within(op, *args, **kwargs)
        finally:
            _going_on.set(found)


class _Choosing(StateGuard):
    """A context manager that makes a new chooser with ``make()`` on every entry."""

    __slots__ = ("_composites", "_make")

    def __init__(self, make: Callable[[], Any], composites: frozenset[Operator] = frozenset()) -> None:
        self._make = make
        self._composites = composites

    def __enter__(self) -> None:  # type: ignore[override]
        modes = (_Composites(self._composites),) if self._composites else ()
        enter(self, include=DispatchKey.Mode.mask if modes else 0, modes=modes, value=self._make())


def create_selective_checkpoint_contexts(
    policy_fn_or_list: PolicyFunction | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the two contexts of a checkpoint that keeps some results, for ``context_fn`` of ``checkpoint``.

    Args: policy_fn_or_list: a function ``policy(ctx, op, *args, **kwargs)`` that returns a ``CheckpointPolicy`` (or a
    bool: True saves) for each recorded call in the forward pass, or a list of operators whose results are kept;
    allow_cache_entry_mutation: do not check whether kept results were changed in place.

    Several backwards may follow; kept results are freed with the graph.

    >>> import functools
    >>> policies = tk.autograd.checkpoint_policies
    >>> def policy(ctx, op, *args, **kwargs):
    ...     save = op is tk.ops.tk.exp.default
    ...     return policies.CheckpointPolicy.MUST_SAVE if save else policies.CheckpointPolicy.PREFER_RECOMPUTE
    >>> contexts = functools.partial(policies.create_selective_checkpoint_contexts, policy)
    >>> x = tk.ones(2).requires_grad_()
    >>> tk.autograd.checkpoint(lambda x: tk.sin(tk.exp(x)), x, context_fn=contexts).sum().backward()
    """
    policy: Any = policy_fn_or_list
    if isinstance(policy, (list, tuple, set, frozenset)):
        policy = _Listed(_operators("create_selective_checkpoint_contexts", policy), save=True)
    elif isinstance(policy, (Operator, OperatorPacket)) or not callable(policy):
        raise TypeError(
            "[create_selective_checkpoint_contexts] policy_fn_or_list must be either a function or a list of ops, got "
            f"{type(policy).__name__}: pass policy(ctx, op, *args, **kwargs), or [tk.matmul, ...]."
        )
    forward = _Forward(policy)
    composites: frozenset[Operator] = getattr(policy, "composites", frozenset())
    again = _Choosing(lambda: _Again(forward.results, allow_cache_entry_mutation))
    return _Choosing(lambda: forward, composites), again


def _operators(call: str, given: Iterable[Any]) -> frozenset[Operator]:
    """Return the named operators."""
    found: list[Operator] = []
    for one in given:
        operator = getattr(one, "operator", one)  # that of tk.matmul
        several = [operator] if isinstance(operator, Operator) else []
        if isinstance(one, OperatorPacket):
            several = list(registry.overloads(str(one)))
        elif isinstance(one, str):
            name = one if "::" in one else f"tk::{one}"
            several = list(registry.overloads(name)) or [registry.find(name)]
        elif not several and callable(one) and str(getattr(one, "__module__", "")).partition(".")[0] == _LIBRARY:
            several = list(registry.overloads(f"tk::{getattr(one, '__name__', '')}"))  # a function such as tk.einsum
        if not several:
            raise TypeError(
                f"[{call}] got {one!r}: name an operator as 'tk::matmul' or 'matmul', or pass tk.matmul, "
                "tk.ops.tk.matmul or tk.ops.tk.matmul.default."
            )
        found += several
    return frozenset(found)


class _Listed:
    """The policy of a list of operators: save their results, or all others."""

    def __init__(self, operators: frozenset[Operator], *, save: bool) -> None:
        self.operators = operators
        self.save = save
        own = {"Vjp", "Backward", "Pointwise", "Reduce", "View"}  # the facets of operators with their own formulas
        candidates = [op for op in operators if "Composite" in op.facets and not own & op.facets.keys()]
        self.composites = frozenset([op for op in candidates if op.facets["Composite"].implicit])

    def __call__(self, ctx: SelectiveCheckpointContext, op: Operator, *args: Any, **kwargs: Any) -> bool:
        named = op in self.operators or not self.composites.isdisjoint(_going_on.get())
        return named is self.save


# ---- ready-made policies


class _ContextFn:
    """A ``context_fn`` that prints like its definition."""

    def __init__(self, name: str, policy: PolicyFunction, operators: Iterable[Operator] = ()) -> None:
        self._policy = policy
        self._shown = f"{name}({', '.join(sorted(map(str, operators)))})"

    def __call__(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return create_selective_checkpoint_contexts(self._policy)

    def __repr__(self) -> str:
        return self._shown


def save_only_these_operators(*operators: Any) -> Callable[[], Any]:
    """Return a ``context_fn`` that keeps the results of these operators only; all others are recomputed.

    Operators are names ("tk::matmul", "matmul"), functions (tk.matmul) or operators (tk.ops.tk.matmul). For matrix
    products, which take most of the time of a layer but little of its memory, this saves most of both. An operator
    composed of others ("einsum") stands for all that it calls. Raises TypeError for values that are not operators, and
    OperatorNotFoundError for unknown names.

    >>> policy = tk.autograd.checkpoint_policies.save_only_these_operators("tk::matmul")
    >>> x, w = tk.ones((2, 3)), tk.ones((3, 3)).requires_grad_()
    >>> y = tk.autograd.checkpoint(lambda x: tk.tanh(x @ w), x, context_fn=policy)
    >>> y.sum().backward()
    """
    chosen = _operators("save_only_these_operators", operators)
    return _ContextFn("save_only_these_operators", _Listed(chosen, save=True), chosen)


def recompute_only_these_operators(*operators: Any) -> Callable[[], Any]:
    """Return a ``context_fn`` that keeps all results except those of these operators, which are cheap but large.

    >>> policy = tk.autograd.checkpoint_policies.recompute_only_these_operators(tk.tanh)
    >>> x = tk.ones(3).requires_grad_()
    >>> tk.autograd.checkpoint(lambda x: tk.exp(tk.tanh(x)), x, context_fn=policy).sum().backward()
    """
    chosen = _operators("recompute_only_these_operators", operators)
    return _ContextFn("recompute_only_these_operators", _Listed(chosen, save=False), chosen)


save_everything: Final = _ContextFn("save_everything", lambda ctx, op, *args, **kwargs: True)
"""A ``context_fn`` that keeps all results: no recorded call is computed twice."""

save_nothing: Final = _ContextFn("save_nothing", lambda ctx, op, *args, **kwargs: False)
"""A ``context_fn`` that keeps no result, like ``checkpoint`` without a ``context_fn``."""
