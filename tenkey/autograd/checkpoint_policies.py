"""``tk.autograd.checkpoint_policies``: which results a checkpoint keeps, and which it computes again.

Note [Selective checkpoints]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Where hooks on saved tensors are on, the autograd kernel of an operator asks the chooser of the checkpoint before it
calls the kernel below (``saving.with_choice``). In the forward pass the chooser asks the policy once the result is
there, and keeps it or notes that it is to be computed again. In a recomputation the n-th call of an operator gets what
was kept of its n-th call in forward; the call is recorded as ever, so the same tensors are saved. So a policy sees what
autograd sees: calls that are recorded, of the operators that have a gradient formula of their own. An operator that is
made of others (``einsum``) is not seen itself; where it is named in a list, it stands for all that it calls: a mode
that is on in the forward pass then says which such calls are going on. Guarded by
``tests/autograd/checkpointing/test_checkpoint_policies.py``.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final

from ..core.tensor import Tensor, version_of
from ..core.tree import tree_map
from ..core.wrapper import Wrapper
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import StateGuard, current_state, enter, make_state, set_state
from ..dispatch.modes import DispatchMode
from ..dispatch.operator import Operator
from ..dispatch.packet import OperatorPacket
from ..dispatch.registry import registry
from .saved_tensors.hooks import Chooser
from .saved_tensors.saved import alone

__all__ = [
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
    "recompute_only_these_operators",
    "save_everything",
    "save_nothing",
    "save_only_these_operators",
]

_LIBRARY: Final = __name__.partition(".")[0]


class CheckpointPolicy(enum.Enum):
    """What becomes of the result of a call in a selective checkpoint.

    MUST and PREFER do the same here; PREFER lets a compiler decide otherwise. The two of CPU_OFFLOAD keep the result in
    the memory of the CPU.

    >>> tk.autograd.checkpoint_policies.CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVE: Final = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_OFFLOAD: Final = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy is told besides the call: ``op_output``, its result. ``is_recompute`` is False, as in PyTorch.

    A policy that keeps only what is small:

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


# ---- what is kept


class _Kept:
    """A result, or a part of one that is a tensor."""

    __slots__ = ("device", "tensor", "version")

    def __init__(self, tensor: Tensor, offload: bool) -> None:
        self.device = tensor.device
        if offload and tensor.device.type not in ("cpu", "meta"):
            tensor = tensor.detach().to_device("cpu")
        self.tensor = alone(tensor)
        self.version = version_of(tensor)

    def again(self) -> Tensor:
        """The result for a recomputation, without history."""
        tensor = self.tensor
        return alone(tensor if tensor.device == self.device else tensor.to_device(self.device))


class _Forward(Chooser):
    """The chooser of the forward pass: asks the policy, keeps results in the order of the calls of each operator."""

    def __init__(self, policy: PolicyFunction) -> None:
        self.policy = policy
        self.results: defaultdict[str, list[Any]] = defaultdict(list)  # None: to be computed again

    def run(self, operator: Operator, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the operator."""
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
        kept = None
        if policy in _SAVE or policy in _OFFLOAD:
            kept = tree_map(lambda one: _Kept(one, policy in _OFFLOAD) if _is_plain(one) else one, out)
        self.results[operator.name].append(kept)
        return out


def _is_plain(value: Any) -> bool:
    return isinstance(value, Tensor) and value.__class__ is not Wrapper


class _Again(Chooser):
    """The chooser of one recomputation."""

    def __init__(self, results: defaultdict[str, list[Any]], allow_mutation: bool) -> None:
        self.results = results
        self.allow_mutation = allow_mutation
        self.counts: defaultdict[str, int] = defaultdict(int)

    def run(self, operator: Operator, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result that was kept, or the call."""
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
                    f"result {number + 1} of {name}. Pass allow_cache_entry_mutation=True if that is meant, or let "
                    "the policy recompute it."
                )
            return one.again()

        return tree_map(again, kept)


_going_on: Final[ContextVar[frozenset[Operator]]] = ContextVar("tenkey_composites_going_on", default=frozenset())


class _Composites(DispatchMode):
    """Notes which of some operators, each made of others, are being called."""

    def __init__(self, operators: frozenset[Operator]) -> None:
        self.operators = operators

    def __tk_dispatch__(self, op: Operator, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op not in self.operators:
            return NotImplemented
        token = _going_on.set(_going_on.get() | {op})
        try:
            return self.run_within(op, *args, **kwargs)
        finally:
            _going_on.reset(token)


class _Choosing(StateGuard):
    """A context manager in which ``make()`` decides; every entry makes a chooser of its own."""

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
    """The two contexts of a checkpoint that keeps some results: what ``context_fn`` of ``checkpoint`` returns.

    Args: policy_fn_or_list: a function ``policy(ctx, op, *args, **kwargs)`` that returns a ``CheckpointPolicy`` (or a
    bool: True saves) for each recorded call in the forward pass, or a list of operators whose results are kept;
    allow_cache_entry_mutation: do not check that nobody changed in place what was kept.

    One backward may follow another; what was kept is freed with the graph.

    >>> import functools
    >>> policies = tk.autograd.checkpoint_policies
    >>> def policy(ctx, op, *args, **kwargs):
    ...     save = op is tk.ops.tk.exp.default
    ...     return policies.CheckpointPolicy.MUST_SAVE if save else policies.CheckpointPolicy.PREFER_RECOMPUTE
    >>> contexts = functools.partial(policies.create_selective_checkpoint_contexts, policy)
    >>> x = tk.ones(2).requires_grad_()
    >>> tk.autograd.checkpoint(lambda x: tk.sin(tk.exp(x)), x, context_fn=contexts).sum().backward()
    """
    policy = _policy("create_selective_checkpoint_contexts", policy_fn_or_list)
    forward = _Forward(policy)
    composites: frozenset[Operator] = getattr(policy, "composites", frozenset())
    return _Choosing(lambda: forward, composites), _Choosing(
        lambda: _Again(forward.results, allow_cache_entry_mutation)
    )


def _policy(call: str, given: Any) -> PolicyFunction:
    if isinstance(given, (list, tuple, set, frozenset)):
        return _Listed(_operators(call, given), save=True)
    if isinstance(given, (Operator, OperatorPacket)) or not callable(given):
        raise TypeError(
            f"[{call}] policy_fn_or_list must be either a function or a list of ops, got {type(given).__name__}: give "
            "policy(ctx, op, *args, **kwargs), or [tk.matmul, ...]."
        )
    return given  # type: ignore[no-any-return]


def _operators(call: str, given: Iterable[Any]) -> frozenset[Operator]:
    """The operators that are named."""
    found: list[Operator] = []
    for one in given:
        if isinstance(one, Operator):
            found.append(one)
        elif isinstance(getattr(one, "operator", None), Operator):  # tk.matmul
            found.append(one.operator)
        elif isinstance(one, OperatorPacket):
            found += registry.overloads(str(one))
        elif isinstance(one, str):
            several = registry.overloads(one if "::" in one else f"tk::{one}")
            found += several or [registry.find(one if "::" in one else f"tk::{one}")]
        elif of_function := _of_function(one):
            found += of_function
        else:
            raise TypeError(
                f"[{call}] got {one!r}: name an operator as 'tk::matmul' or 'matmul', or give tk.matmul, "
                "tk.ops.tk.matmul or tk.ops.tk.matmul.default."
            )
    return frozenset(found)


def _of_function(given: Any) -> list[Operator]:
    """The operators that a function of the library stands for which is none itself (tk.einsum)."""
    module, name = getattr(given, "__module__", None), getattr(given, "__name__", None)
    if not callable(given) or not isinstance(module, str) or not isinstance(name, str):
        return []
    return list(registry.overloads(f"tk::{name}")) if module.partition(".")[0] == _LIBRARY else []


class _Listed:
    """The policy of a list: ``save`` what is in it, or all the rest."""

    def __init__(self, operators: frozenset[Operator], *, save: bool) -> None:
        self.operators = operators
        self.save = save
        self.composites = frozenset([op for op in operators if _is_made_of_others(op)])

    def __call__(self, ctx: SelectiveCheckpointContext, op: Operator, *args: Any, **kwargs: Any) -> bool:
        named = op in self.operators or not self.composites.isdisjoint(_going_on.get())
        return named is self.save


def _is_made_of_others(operator: Operator) -> bool:
    composite = operator.facets.get("Composite")
    own = {"Vjp", "Backward", "Pointwise", "Reduce", "View"} & operator.facets.keys()
    return composite is not None and composite.implicit and not own


# ---- ready made


class _ContextFn:
    """What ``context_fn`` calls; prints as it was written."""

    def __init__(self, name: str, policy: PolicyFunction, shown: str = "") -> None:
        self._policy = policy
        self._shown = f"{name}({shown})"

    def __call__(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return create_selective_checkpoint_contexts(self._policy)

    def __repr__(self) -> str:
        return self._shown


def save_only_these_operators(*operators: Any) -> Callable[[], Any]:
    """A ``context_fn`` that keeps the results of these operators, and has everything else computed again.

    Operators are names ("tk::matmul", "matmul"), functions (tk.matmul) or operators (tk.ops.tk.matmul). For products of
    matrices, which cost most of the time of a layer and little of its memory, this saves most of both. An operator that
    is made of others ("einsum") stands for all that it calls. Raises TypeError for what is no operator, and
    OperatorNotFoundError for a name that there is not.

    >>> policy = tk.autograd.checkpoint_policies.save_only_these_operators("tk::matmul")
    >>> x, w = tk.ones((2, 3)), tk.ones((3, 3)).requires_grad_()
    >>> y = tk.autograd.checkpoint(lambda x: tk.tanh(x @ w), x, context_fn=policy)
    >>> y.sum().backward()
    """
    chosen = _operators("save_only_these_operators", operators)
    return _ContextFn("save_only_these_operators", _Listed(chosen, save=True), ", ".join(sorted(map(str, chosen))))


def recompute_only_these_operators(*operators: Any) -> Callable[[], Any]:
    """A ``context_fn`` that keeps the results of all operators but these: for cheap ones with large results.

    >>> policy = tk.autograd.checkpoint_policies.recompute_only_these_operators(tk.tanh)
    >>> x = tk.ones(3).requires_grad_()
    >>> tk.autograd.checkpoint(lambda x: tk.exp(tk.tanh(x)), x, context_fn=policy).sum().backward()
    """
    chosen = _operators("recompute_only_these_operators", operators)
    return _ContextFn(
        "recompute_only_these_operators", _Listed(chosen, save=False), ", ".join(sorted(map(str, chosen)))
    )


save_everything: Final = _ContextFn("save_everything", lambda ctx, op, *args, **kwargs: True)
"""A ``context_fn`` that keeps all results: nothing that is recorded is computed twice."""

save_nothing: Final = _ContextFn("save_nothing", lambda ctx, op, *args, **kwargs: False)
"""A ``context_fn`` that keeps no result: what ``checkpoint`` does without one."""
