"""``Function``: an operation whose gradient is written by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from numpy import ndarray

from ..core.device import CPU
from ..core.tensor import Tensor, make_view
from ..core.word import BFLOAT16_TRAIT, DTYPE_TRAIT, GRADIENT, INFERENCE
from ..core.wrapper import Wrapper, innermost
from ..dispatch.local import StateGuard, get_state, make_state, set_state
from ..ops.builtin.creation import zeros
from .anomaly import label_here
from .inference import refuse_to_save
from .kept import guarded, positions_of_intermediates, put_aside, restored
from .node import (
    AutogradMeta,
    Edge,
    Node,
    TensorMeta,
    edge_of,
    leaf_edge,
    longest,
    next_sequence,
    set_history,
    settle,
    stream_of,
)
from .profiling.observer import PROFILER, observe_function
from .raw_saved import pack_context, raw_saved_tensors
from .record import flat_tensors
from .saved import FREED, SavedOutput, SavedTensor
from .saving import HOOKED
from .views import check_inplace, function_history, rebase

__all__ = ["Context", "Function", "once_differentiable"]

_TWICE: Final = (
    "[{node}] trying to differentiate twice a function that was marked with @once_differentiable: its backward is not "
    "recorded."
)
_NO_BACKWARD: Final = (
    "[{node}] has no backward: define a staticmethod backward(ctx, *grad_outputs). (You must implement either the "
    "backward or vjp method.)"
)
_BOTH: Final = (
    "[{name}] Implementing both 'backward' and 'vjp' for a custom Function is not allowed: these are two names of one."
)
_NOT_RETURNED: Final = (
    "[{node}] Some elements marked as dirty during the forward method were not returned as output: what mark_dirty "
    "names must all be outputs of the Function."
)
_NOT_TENSORS: Final = (
    "[{node}] save_for_backward takes tensors and None, got {got}: it can only save variables, but argument {index} is "
    "of type {got}; keep other values on ctx itself."
)
_COUNT: Final = (
    "[{node}] returned an incorrect number of gradients (expected {want}, got {got}): one for each argument of "
    "forward, None where there is none."
)
_NO_TENSOR_GRADIENT: Final = (
    "[{node}] returned a gradient different than None at position {position}, but the corresponding forward input "
    "was not a Variable: return None for the argument {index}, which is no tensor."
)
_LEAF: Final = (
    "[{node}] a leaf Variable that requires grad is being used in an in-place operation: mark_dirty names it; give the "
    "Function a clone() of it."
)
_RESERVED: Final = (
    "[{node}] the context has {names} for purposes of its own (it is the node of the graph): keep your value under "
    "another name, such as ctx.my_{first}."
)
_NO_NOTE: Final = "[{node}] the context has no attribute {name!r}: forward or setup_context did not set it."
_OLD_STYLE: Final = (
    "[Function] a Function is not instantiated: call {name}.apply(...). (Functions are new-style, with a static "
    "forward method.)"
)


class Context(Node):
    """What ``forward`` hands to ``backward``; also the node of the call.

    Tensors go through ``save_for_backward``; other values may be attributes.

    Note [Saved as they are]
    ~~~~~~~~~~~~~~~~~~~~~~~~
    A tensor without a storage was never changed in place, by Note [Views share a version counter]: its version is 0.
    Where all that is saved are such tensors, and none is an output, the tuple that the user gave is what is kept; a
    tensor that has a storage at unpacking must still be at version 0. Guarded by
    ``tests/test_function_saved.py::test_a_modified_saved_tensor_is_found``.
    """

    runs_on_undefined = True
    _function: Any = None  # the Function, once it is called
    _saved: tuple[Any, ...] | None = ()  # None: they were let go of
    _to_save: tuple[Tensor | None, ...] = ()
    _for_forward: tuple[Tensor | None, ...] | None = None
    _dirty: tuple[Tensor, ...] = ()
    _not_differentiable: tuple[Tensor, ...] = ()
    _materialize = True
    needs_input_grad: tuple[bool, ...] = ()
    _input_positions: tuple[int, ...] = ()
    _intermediates: tuple[int, ...] = ()  # Note [Saved intermediates]
    _aside: dict[str, Any] | None = None  # Note [Outputs kept on the context]

    def name(self) -> str:
        """The name of the function, with ``Backward``."""
        return f"{self._function.__name__}Backward"

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``backward``, with a check that nobody changes them in between."""
        for tensor in tensors:
            if tensor.__class__ is not Tensor and tensor is not None and not isinstance(tensor, Tensor):
                raise self._not_tensors(tensors)
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``jvp``, which finds them in ``saved_tensors``."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise self._not_tensors(tensors)
        self._for_forward = tensors

    def _not_tensors(self, given: tuple[Any, ...]) -> TypeError:
        index, bad = next((i, x) for i, x in enumerate(given) if x is not None and not isinstance(x, Tensor))
        return TypeError(_NOT_TENSORS.format(node=self.name(), got=type(bad).__name__, index=index))

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that were saved, in order."""
        if self._intermediates and is_recording():
            return guarded(self, self._unpacked(), self._intermediates)
        return self._unpacked()

    def _unpacked(self) -> tuple[Tensor | None, ...]:
        saved = self._saved
        if saved is None:
            raise RuntimeError(FREED.format(node=self.name()))
        if self._to_save and not saved:
            return self._to_save
        for one in saved:
            if one.__class__ is not Tensor or one._storage is not None:
                break
        else:
            return saved  # Note [Saved as they are]: none was changed
        return tuple([None if one is None else self._unpack(one, nr) for nr, one in enumerate(saved)])

    def _unpack(self, saved: Any, nr: int) -> Tensor:
        if isinstance(saved, Tensor):
            made = SavedTensor(saved)
            made.version = 0
            return made.unpack(self, f"saved_tensors[{nr}]")
        found: Tensor = saved.unpack(self, f"saved_tensors[{nr}]")
        return found

    @property
    def _released(self) -> bool:
        """Whether what was saved is gone."""
        return self._saved is None

    _raw_saved_tensors = property(raw_saved_tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that ``forward`` changed these inputs in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient flows through these outputs."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for outputs without a gradient."""
        self._materialize = value

    def __getattr__(self, name: str) -> Any:
        aside = self._aside
        if aside is not None and name in aside:
            return restored(self, name, aside[name])
        raise AttributeError(_NO_NOTE.format(node=self.name(), name=name), name=name, obj=self)

    def freeze(self, inputs: Any, outputs: list[Any]) -> None:
        """Turn what ``forward`` saved into saved variables."""
        to_save = self._to_save
        found = positions_of_intermediates(to_save, inputs, outputs)
        if found:
            self._intermediates = found
        refuse_to_save(self.name(), to_save)
        self._to_save = ()
        for tensor in to_save:
            if tensor is None or tensor._storage is not None:
                break
            for out in outputs:
                if out is tensor:
                    break
            else:
                continue
            break
        else:
            self._saved = to_save
            return
        made: list[Any] = []
        for tensor in to_save:
            nr = next((i for i, out in enumerate(outputs) if out is tensor), None)
            made.append(None if tensor is None else SavedTensor(tensor) if nr is None else SavedOutput(tensor, nr))
        self._saved = tuple(made)

    def taken(self) -> set[str]:
        """The names that the user keeps something under."""
        return set(self.__dict__)

    def describe(self, outputs: list[Any]) -> None:
        """Note shape, dtype and device of the outputs, without touching what the user keeps under these names."""
        taken = self.taken()
        if not _RESERVED_NAMES.isdisjoint(taken):
            names = sorted(_RESERVED_NAMES.intersection(taken))
            raise RuntimeError(_RESERVED.format(node=type(self).name(self), names=", ".join(names), first=names[0]))
        if len(outputs) == 1 and isinstance(outputs[0], Tensor) and _OUTPUT_NAMES.isdisjoint(taken):
            self.shape, self.dtype, self.device = outputs[0].shape, outputs[0].dtype, outputs[0].device
            self._word = outputs[0]._word | GRADIENT
            settle(self, outputs[0])
        else:
            self._word = 0
            self.outputs = tuple(
                [TensorMeta(t.shape, t.dtype, t.device) if isinstance(t, Tensor) else None for t in outputs]
            )
            self._stream = stream_of(outputs)

    def release(self) -> None:
        """Let go of the saved tensors."""
        if self._saved:
            self._saved = None

    def fill(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Zeros for the outputs without a gradient, unless that was switched off."""
        if not self._materialize:
            return grads
        for grad in grads:
            if grad is None:
                break
        else:
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
        function = self._function
        for grad in grads:
            if grad is None:
                if not self._materialize and not any(g is not None for g in grads):
                    return (None,) * len(self.next_edges)
                grads = self.fill(grads)
                break
        formula = function.vjp or function.backward  # ``vjp`` is another name for it
        if formula is _no_backward:
            raise NotImplementedError(_NO_BACKWARD.format(node=self.name()))
        results = formula(self, *grads)
        if results.__class__ is not tuple:
            results = results if isinstance(results, tuple) else (results,)
        count = len(self.needs_input_grad)
        if len(results) != count:
            if len(results) > count and all(r is None for r in results[count:]):
                results = results[:count]
            else:
                raise RuntimeError(_COUNT.format(node=self.name(), want=count, got=len(results)))
        positions = self._input_positions
        if len(positions) == count:
            return results
        for index, result in enumerate(results):
            if result is not None and index not in positions:
                raise RuntimeError(_NO_TENSOR_GRADIENT.format(node=self.name(), index=index, position=index + 1))
        return tuple([results[i] for i in positions])

    device: Any = None


class _Call(Context):
    """The context of a call of a Function; each Function has a subclass of its own, which knows it.

    What every call sets are slots, so that the dict of a context holds the notes of the user alone, and is not made
    where there are none.
    """

    __slots__ = (
        "_input_positions",
        "_saved",
        "_to_save",
        "_word",
        "device",
        "dtype",
        "needs_input_grad",
        "next_edges",
        "sequence_nr",
        "shape",
        "topological_nr",
    )

    def taken(self) -> set[str]:
        """The names that the user keeps something under; what is to be set has the value None until then."""
        return super().taken() | {name for name in _SET_LAST if getattr(self, name) is not None}


_SET_LAST: Final = ("device", "dtype", "next_edges", "sequence_nr", "shape", "topological_nr")
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
    def backward(ctx: Any, *grads: Any, **kwargs: Any) -> Any:  # type checkers let any parameters override these
        """The gradients of the arguments of ``forward`` from those of its results."""
        raise NotImplementedError(_NO_BACKWARD.format(node="Function"))

    vjp: Any = None  # another name for ``backward``
    jvp: Any = None  # a staticmethod jvp(ctx, *tangents) gives the forward derivative
    vmap: Any = None  # a staticmethod vmap(info, in_dims, *args) gives (out, out_dims)
    generate_vmap_rule = False  # True: the staticmethods run on batched tensors; else, without vmap, sample by sample
    _context: type[_Call] = _Call

    @classmethod
    def _run(cls, args: tuple[Any, ...]) -> tuple[Any, Context]:
        """The result and the context of one call; ``apply`` does the same in a hurry."""
        context = Context()
        context._function = cls
        recording = is_recording()
        context.needs_input_grad = tuple([recording and _wants(value) for value in args])
        with StateGuard(exclude=GRADIENT):
            if cls.setup_context is _no_setup:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, args, output)
        if any(context.needs_input_grad):
            output = _record(context, args, output)
        return output, context

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward`` and record its ``backward``."""
        kind = cls._context
        if kind._function is not cls:
            kind = cls._context = _context_of(cls)
        context: Any = kind()
        context._to_save = context._saved = ()
        single = len(args) == 1 and args[0].__class__ is Tensor  # the usual case
        if single:
            value = args[0]
            word = value._word
        else:
            word = 0
            for value in args:
                if isinstance(value, Tensor):
                    word |= value._word
                    if value.__class__ is Wrapper:
                        level: Any = innermost(args)
                        return level.apply_function(cls, args) if level.is_open else level.escaped_function(cls, args)
        found = get_state()
        switch = True
        if found is None:
            recorded = word & GRADIENT
            set_state(_SILENT)
        elif found.include & PROFILER:  # Note [How a profiler sees calls]
            return observe_function(cls.__name__, args, lambda: cls._run(args))
        elif found.exclude & GRADIENT:
            recorded = switch = False
        else:
            recorded = word & GRADIENT
            set_state(make_state(found.include, found.exclude | GRADIENT, found.modes))
        try:
            if not recorded:
                context.needs_input_grad = (False,) * len(args)
            else:
                # Until these are set, None tells them from notes of the user under the same names.
                context.shape = context.dtype = context.device = None
                context.next_edges = context.sequence_nr = context.topological_nr = None
                context.needs_input_grad = _ONE if single else tuple([_wants(value) for value in args])
            if cls.setup_context is _no_setup:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, args, output)
        finally:
            if switch:
                set_state(found)
        if not recorded:
            return output
        if (
            not single
            or output.__class__ is not Tensor
            or context.__dict__
            or output._word & GRADIENT
            or output._storage is not None
            or found is not None
            or word & INFERENCE
            or value is output
            or not output._word & _DIFFERENTIABLE
            or context.shape is not None
            or context.dtype is not None
            or context.device is not None
            or context.next_edges is not None
            or context.sequence_nr is not None
            or context.topological_nr is not None
        ):
            return _record(context, args, output)
        # A function of one tensor that gives one, and no notes: what _record would do, without its calls.
        meta = value._autograd
        edge: Any = leaf_edge(value) if meta is None or meta.edge is None else meta.edge
        data = output._data
        context.shape = data.shape
        context.dtype = data.dtype
        if data.__class__ is ndarray:
            context.device = CPU
        else:
            settle(context, output)
        context._input_positions = _FIRST
        context.sequence_nr = next_sequence()
        context.next_edges = (edge,)
        context.topological_nr = edge[0].topological_nr + 1
        saved = context._to_save
        if len(saved) == 1 and saved[0] is value and value._storage is None:  # Note [Saved as they are]
            context._saved = saved
            context._to_save = ()
        elif saved:
            context.freeze(args, [output])
        made = output._autograd = AutogradMeta()
        made.node = context
        made.edge = (context, 0)
        output._word |= GRADIENT
        context._word = output._word if context.device is CPU else 0
        return output


def _context_of(function: type[Function]) -> Any:
    if function.vjp is not None and function.backward is not _no_backward and function.vjp is not function.backward:
        raise RuntimeError(_BOTH.format(name=function.__name__))
    members = {"__slots__": (), "_function": function, "__module__": function.__module__}
    return type(f"{function.__name__}Backward", (_Call,), members)


_no_setup: Final = Function.setup_context
_no_backward: Final = Function.backward
_ONE: Final = (True,)
_FIRST: Final = (0,)
_DIFFERENTIABLE: Final = BFLOAT16_TRAIT | sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc")
_SILENT: Final = make_state(0, GRADIENT, ())


def is_recording() -> bool:
    """Whether calls are recorded here."""
    state = get_state()
    return state is None or not state.exclude & GRADIENT


def _wants(value: Any) -> bool:
    return isinstance(value, Tensor) and bool(value._word & GRADIENT)


def _record(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    """Make the context the node that the results come from."""
    ctx._input_positions = tuple([i for i, value in enumerate(args) if isinstance(value, Tensor)])
    single = not isinstance(output, (tuple, list))
    items = [output] if single else list(output)
    if not any(isinstance(item, Tensor) for item in items):
        return output
    inputs = [args[i] for i in ctx._input_positions]
    for dirty in ctx._dirty:
        if all(item is not dirty for item in items):
            raise RuntimeError(_NOT_RETURNED.format(node=ctx.name()))
    differentiable = [
        isinstance(item, Tensor) and item.dtype.kind in "fcV" and all(item is not no for no in ctx._not_differentiable)
        for item in items
    ]
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            continue
        if any(item is dirty for dirty in ctx._dirty):
            check_inplace(ctx.name(), item, _LEAF.format(node=ctx.name()))
        elif item._word & GRADIENT or any(item is given for given in inputs):
            items[i] = make_view(item, item._data)  # returned as it came, with a history of its own to keep
    ctx.describe(items)
    ctx.sequence_nr = next_sequence()
    ctx.next_edges = tuple([edge_of(tensor) for tensor in inputs])
    ctx.topological_nr = longest(ctx.next_edges)
    ctx.freeze(args, items)
    for nr, (item, own) in enumerate(zip(items, differentiable)):
        if own and any(item is dirty for dirty in ctx._dirty):
            rebase(item, (ctx, nr), inputs)
        elif own:
            function_history(item, ctx, nr, inputs)
    ctx._dirty = ctx._not_differentiable = ()
    if ctx.__dict__:
        aside = put_aside(ctx.__dict__, items)
        if aside:
            ctx._aside = aside
    state = get_state()
    if state is not None:
        label_here(ctx)
        if state.include & HOOKED:
            pack_context(ctx)
    return items[0] if single else type(output)(items) if not hasattr(output, "_fields") else type(output)(*items)


class _Once(Node):
    """The node that refuses a second order."""

    def apply(self, *grads: Tensor | None) -> Any:
        raise RuntimeError(_TWICE.format(node=self.operator_name))


def _edges_of_saved(ctx: Any) -> list[Edge]:
    """Where the gradients of the saved tensors go, found without unpacking them."""
    edges: list[Edge] = []
    for one in ctx._saved or ctx._to_save:
        if getattr(one, "output_nr", -1) >= 0 and not isinstance(one, Tensor):
            edges.append((ctx, one.output_nr))
        else:
            tensor = one.tensor if isinstance(one, SavedTensor) else one
            edge = edge_of(tensor) if tensor is None or isinstance(tensor, Tensor) else one.edge
            if edge is not None and edge[0] is not None:
                edges.append(edge)
    return edges


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that is not itself differentiable: a second order is an error, not a wrong number.

    >>> import tenkey as tk
    >>> class Double(tk.autograd.Function):
    ...     forward = staticmethod(lambda ctx, x: x * 2)
    ...     backward = staticmethod(once_differentiable(lambda ctx, g: g * 2))
    >>> x = tk.tensor(1.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad.item()
    2.0
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with StateGuard(exclude=GRADIENT):
            results = function(ctx, *grads)
        if not is_recording():
            return results
        watched = [edge_of(t) for t in flat_tensors(grads) if t._word & GRADIENT] + _edges_of_saved(ctx)
        if not watched and not any(ctx.needs_input_grad):
            return results
        node = _Once()
        node.operator_name = ctx.name()
        node.next_edges = (*ctx.next_edges, *watched)
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
