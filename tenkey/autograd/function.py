"""``Function``: an operation whose gradient is written by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from ..core.tensor import Tensor, make_view
from ..core.word import GRADIENT
from ..core.wrapper import Wrapper, innermost
from ..dispatch.local import StateGuard, get_state
from ..ops.builtin.creation import zeros
from .node import Node, TensorMeta, edge_of, longest, next_sequence, set_history
from .record import flat_tensors
from .saved import FREED, SavedOutput, SavedTensor

__all__ = ["Context", "Function", "once_differentiable"]

_TWICE: Final = (
    "[{node}] trying to differentiate twice a function that was marked with @once_differentiable: its backward is not "
    "recorded."
)
_NO_BACKWARD: Final = "[{node}] has no backward: define a staticmethod backward(ctx, *grad_outputs)."
_NOT_TENSORS: Final = "[{node}] save_for_backward takes tensors and None, got {got}: keep other values on ctx itself."
_COUNT: Final = (
    "[{node}] returned an incorrect number of gradients (expected {want}, got {got}): one for each argument of "
    "forward, None where there is none."
)
_NO_TENSOR_GRADIENT: Final = "[{node}] returned a gradient for the argument {index}, which is no tensor: return None."
_LEAF: Final = (
    "[{node}] a leaf Variable that requires grad is being used in an in-place operation: mark_dirty names it; give the "
    "Function a clone() of it."
)
_RESERVED: Final = (
    "[{node}] the context has {names} for purposes of its own (it is the node of the graph): keep your value under "
    "another name, such as ctx.my_{first}."
)
_OLD_STYLE: Final = "[Function] a Function is not instantiated: call {name}.apply(...)."


class Context(Node):
    """What ``forward`` hands to ``backward``; also the node of the call.

    Tensors go through ``save_for_backward``; other values may be attributes.
    """

    runs_on_undefined = True
    _function: type[Function]
    _saved: tuple[Any, ...] = ()
    _to_save: tuple[Tensor | None, ...] = ()
    _for_forward: tuple[Tensor | None, ...] | None = None
    _dirty: tuple[Tensor, ...] = ()
    _not_differentiable: tuple[Tensor, ...] = ()
    _materialize = True
    _released = False
    needs_input_grad: tuple[bool, ...] = ()
    _input_positions: tuple[int, ...] = ()

    def name(self) -> str:
        """The name of the function, with ``Backward``."""
        return f"{self._function.__name__}Backward"

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``backward``, with a check that nobody changes them in between."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(_NOT_TENSORS.format(node=self.name(), got=type(tensor).__name__))
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``jvp``, which finds them in ``saved_tensors``."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(_NOT_TENSORS.format(node=self.name(), got=type(tensor).__name__))
        self._for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that were saved, in order."""
        if self._released:
            raise RuntimeError(FREED.format(node=self.name()))
        if self._to_save and not self._saved:
            return self._to_save
        return tuple([s if s is None else s.unpack(self, f"saved_tensors[{i}]") for i, s in enumerate(self._saved)])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that ``forward`` changed these inputs in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient flows through these outputs."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for outputs without a gradient."""
        self._materialize = value

    def freeze(self, outputs: list[Any]) -> None:
        """Turn what ``forward`` saved into saved variables."""
        made: list[Any] = []
        for tensor in self._to_save:
            if tensor is None:
                made.append(None)
                continue
            nr = next((i for i, out in enumerate(outputs) if out is tensor), None)
            made.append(SavedTensor(tensor) if nr is None else SavedOutput(tensor, nr))
        self._saved = tuple(made)
        self._to_save = ()

    def describe(self, outputs: list[Any]) -> None:
        """Note shape, dtype and device of the outputs, without touching what the user keeps under these names."""
        taken = self.__dict__
        if not _RESERVED_NAMES.isdisjoint(taken):
            names = sorted(_RESERVED_NAMES.intersection(taken))
            raise RuntimeError(_RESERVED.format(node=type(self).name(self), names=", ".join(names), first=names[0]))
        if len(outputs) == 1 and isinstance(outputs[0], Tensor) and _OUTPUT_NAMES.isdisjoint(taken):
            self.shape, self.dtype, self.device = outputs[0].shape, outputs[0].dtype, outputs[0].device
        else:
            self.outputs = tuple(
                [TensorMeta(t.shape, t.dtype, t.device) if isinstance(t, Tensor) else None for t in outputs]
            )

    def release(self) -> None:
        """Let go of the saved tensors."""
        if self._saved:
            self._saved = ()
            self._released = True

    def fill(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Zeros for the outputs without a gradient, unless that was switched off."""
        if not self._materialize or None not in [None if g is None else 1 for g in grads]:
            return grads
        metas = self.outputs if self.outputs is not None else (TensorMeta(self.shape, self.dtype, self.device),)  # type: ignore[arg-type]
        return tuple(
            [
                zeros(m.shape, dtype=m.dtype, device=m.device) if g is None and m is not None else g
                for g, m in zip(grads, metas)
            ]
        )

    def apply(self, *grads: Tensor | None) -> Any:
        """The gradients of the arguments that are tensors."""
        if not self._materialize and all(grad is None for grad in grads):
            return (None,) * len(self.next_edges)
        grads = self.fill(grads)
        results = self._function.run_backward(self, grads)
        results = results if isinstance(results, tuple) else (results,)
        count = len(self.needs_input_grad)
        if len(results) > count and all(r is None for r in results[count:]):
            results = results[:count]
        if len(results) != count:
            raise RuntimeError(_COUNT.format(node=self.name(), want=count, got=len(results)))
        for index, result in enumerate(results):
            if result is not None and index not in self._input_positions:
                raise RuntimeError(_NO_TENSOR_GRADIENT.format(node=self.name(), index=index))
        return tuple([results[i] for i in self._input_positions])

    device: Any = None


_OUTPUT_NAMES: Final = frozenset(("shape", "dtype", "device"))  # common notes of users: not needed beside ``outputs``
_RESERVED_NAMES: Final = (
    frozenset(name for name in dir(Context) if not name.startswith("_")) - _OUTPUT_NAMES - {"needs_input_grad"}
)


class Function:
    """Base of operations with a gradient written by hand.

    Subclasses define the staticmethods ``forward(ctx, *args)``, or ``forward(*args)`` with
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grad_outputs)``, which returns one gradient for each
    argument of ``forward`` (None for what needs none).

    >>> import tenkey as tk
    >>> class Cube(tk.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x * x
    >>> x = tk.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad.item()
    12.0
    """

    def __init__(self) -> None:
        raise TypeError(_OLD_STYLE.format(name=type(self).__name__))

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; with ``setup_context`` without the context as first argument."""
        raise NotImplementedError("[Function] define a staticmethod forward.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Fill the context from inputs and output, apart from ``forward``."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the arguments of ``forward`` from those of its results."""
        raise NotImplementedError(_NO_BACKWARD.format(node="Function"))

    jvp: Any = None  # a staticmethod jvp(ctx, *tangents) gives the forward derivative
    vmap: Any = None  # a staticmethod vmap(info, in_dims, *args) gives (out, out_dims)
    generate_vmap_rule = False  # without vmap every sample is run for itself in any case

    @classmethod
    def run_backward(cls, ctx: Context, grads: tuple[Any, ...]) -> Any:
        """Call the subclass's ``backward`` (or ``vjp``, another name for it)."""
        formula = getattr(cls, "vjp", None) or cls.backward
        if formula is Function.backward:
            raise NotImplementedError(_NO_BACKWARD.format(node=ctx.name()))
        return formula(ctx, *grads)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward`` and record its ``backward``."""
        if Wrapper in map(type, args):
            level: Any = innermost(args)
            return level.apply_function(cls, args) if level.is_open else level.escaped_function(cls, args)
        return cls._run(args)[0]

    @classmethod
    def _run(cls, args: tuple[Any, ...]) -> tuple[Any, Context]:
        """The result and the context of one call."""
        ctx = Context()
        ctx._function = cls
        state = get_state()
        recording = state is None or not state.exclude & GRADIENT
        tensors = tuple([isinstance(a, Tensor) for a in args])
        needs = tuple([recording and one and bool(a._word & GRADIENT) for a, one in zip(args, tensors)])
        ctx.needs_input_grad = needs
        ctx._input_positions = tuple([i for i, one in enumerate(tensors) if one])
        separate = cls.setup_context is not Function.setup_context
        with StateGuard(exclude=GRADIENT):
            output = cls.forward(*args) if separate else cls.forward(ctx, *args)
            if separate:
                cls.setup_context(ctx, args, output)
        if not any(needs):
            return output, ctx
        return _record(ctx, args, output), ctx


def _record(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    single = not isinstance(output, (tuple, list))
    items = [output] if single else list(output)
    if not any(isinstance(item, Tensor) for item in items):
        return output
    inputs = [args[i] for i in ctx._input_positions]
    differentiable = [
        isinstance(item, Tensor) and item.dtype.kind in "fcV" and all(item is not no for no in ctx._not_differentiable)
        for item in items
    ]
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            continue
        if any(item is dirty for dirty in ctx._dirty):
            if item.is_leaf and item._word & GRADIENT:
                raise RuntimeError(_LEAF.format(node=ctx.name()))
        elif item._word & GRADIENT or any(item is given for given in inputs):
            items[i] = make_view(item, item._data)  # returned as it came, with a history of its own to keep
    ctx.describe(items)
    ctx.sequence_nr = next_sequence()
    ctx.next_edges = tuple([edge_of(tensor) for tensor in inputs])
    ctx.topological_nr = longest(ctx.next_edges)
    ctx.freeze(items)
    for nr, (item, own) in enumerate(zip(items, differentiable)):
        if own:
            set_history(item, ctx, nr)
    ctx._dirty = ctx._not_differentiable = ()
    return items[0] if single else type(output)(items) if not hasattr(output, "_fields") else type(output)(*items)


class _Once(Node):
    """The node that refuses a second order."""

    def apply(self, *grads: Tensor | None) -> Any:
        raise RuntimeError(_TWICE.format(node=self.operator_name))


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that is not itself differentiable: a second order is an error, not a wrong number."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with StateGuard(exclude=GRADIENT):
            results = function(ctx, *grads)
        state = get_state()
        recording = state is None or not state.exclude & GRADIENT
        saved = [t for t in (ctx.saved_tensors if not ctx._released else ()) if t is not None]
        watched = [t for t in [*flat_tensors(grads), *saved] if t._word & GRADIENT]
        depends = recording and (watched or any(ctx.needs_input_grad))
        if not depends:
            return results
        node = _Once()
        node.operator_name = ctx.name()
        node.next_edges = (*ctx.next_edges, *[edge_of(tensor) for tensor in watched])
        node.sequence_nr = next_sequence()
        node.topological_nr = longest(node.next_edges)
        listed = results if isinstance(results, tuple) else (results,)
        node.outputs = tuple(
            [TensorMeta(t.shape, t.dtype, t.device) if isinstance(t, Tensor) else None for t in listed]
        )
        made = []
        for nr, result in enumerate(listed):
            if isinstance(result, Tensor):
                alias = make_view(result, result._data)
                set_history(alias, node, nr)
                made.append(alias)
            else:
                made.append(result)
        return tuple(made) if isinstance(results, tuple) else made[0]

    return wrapper
