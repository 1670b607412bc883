"""``Function``: an operation with a hand-written gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor, make_view
from ...core.tree import tensors_in
from ...core.word import INFERENCE, REQUIRES_GRAD
from ...core.wrapper import Wrapper, from_scalar, innermost
from ...dispatch.local_state import SILENT, get_state, set_state, silently, switched
from ...profiler.observer import PROFILER, observe_function
from ..anomaly import label_here
from ..grad_mode import is_grad_enabled
from ..saved_tensors.saved_tensor_hooks import HOOKED
from ..tape.node import edge_of, leaf_edge, record_node
from ..views.tracking import check_inplace, function_history, rebase
from .context import DIFFERENTIABLE, NO_BACKWARD, UNSET, Call, Context, record_single
from .saved_intermediates import number_of, set_aside
from .unconnected import connected_to_error

__all__ = ["Context", "Function", "once_differentiable"]


class Function:
    """Base class of operations with a hand-written gradient.

    Subclasses define the staticmethods ``forward(ctx, *args)``, or ``forward(*args)`` with
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grad_outputs)``, which returns one gradient for each
    argument of ``forward``, or None if it needs none.

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
        raise TypeError(
            f"[Function] a Function is not instantiated: call {type(self).__name__}.apply(...). (Functions are "
            "new-style, with a static forward method.)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; the first argument is the context, unless there is a ``setup_context``."""
        raise NotImplementedError("[Function] define a staticmethod forward.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Fill the context from inputs and output, separately from ``forward``."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *grads: Any, **kwargs: Any) -> Any:  # type checkers let any parameters override these
        """Compute the gradients of the arguments of ``forward`` from those of its results."""
        raise NotImplementedError(NO_BACKWARD.format(node="Function"))

    _missing_backward = backward
    vjp: Any = None  # another name for ``backward``
    jvp: Any = None  # a staticmethod jvp(ctx, *tangents) gives the forward derivative; zeros for a tensor without one
    vmap: Any = None  # a staticmethod vmap(info, in_dims, *args) gives (out, out_dims)
    generate_vmap_rule = False  # True: the staticmethods run on batched tensors; else, without vmap, sample by sample
    _context: type[Call] = Call

    @classmethod
    def _run(cls, args: tuple[Any, ...]) -> tuple[Any, Context]:
        """Return the result and the context of a call; ``apply`` is the fast form."""
        context = Context()
        context._function = cls
        recording = is_grad_enabled()
        context.needs_input_grad = tuple([recording and _wants(value) for value in args])
        restore = switched(exclude=REQUIRES_GRAD)
        try:
            if cls.setup_context is _no_setup:
                output = cls.forward(context, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(context, args, output)
        finally:
            restore()
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
        single = len(args) == 1 and args[0].__class__ is Tensor  # the common case
        if single:
            value = args[0]
            word = value._word
        else:
            word = 0
            for value in args:
                if isinstance(value, Tensor):
                    word |= value._word
                    if isinstance(value, Wrapper):
                        level: Any = innermost(args)
                        return level.apply_function(cls, args) if level.is_open else level.escaped_function(cls, args)
        found = get_state()
        if found is not None and found.include & PROFILER:  # Note [How a profiler sees calls]
            return observe_function(cls.__name__, args, lambda: cls._run(args))
        switch = True
        try:
            if found is None:
                recorded = word & REQUIRES_GRAD
                set_state(SILENT)
            elif found.exclude & REQUIRES_GRAD:
                recorded = switch = False
            else:
                recorded = word & REQUIRES_GRAD
                set_state(found.silent)
            if not recorded:
                context.needs_input_grad = (False,) * len(args)
            else:
                # Until a call sets these, their values distinguish them from user attributes of the same names.
                context.shape = context.dtype = context.device = UNSET
                context.next_edges = context.sequence_nr = None
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
        unset = UNSET
        if (
            output.__class__ is not Tensor
            or context.__dict__
            or output._word & REQUIRES_GRAD
            or output._storage is not None
            or found is not None
            or word & INFERENCE
            or not output._word & DIFFERENTIABLE
            or context.shape is not unset
            or context.dtype is not unset
            or context.device is not unset
            or context.next_edges is not None
            or context.sequence_nr is not None
        ):
            return _record(context, args, output)
        if single:
            meta = value._autograd
            edge: Any = leaf_edge(value) if meta is None or meta.edge is None else meta.edge
            context._input_positions = _FIRST
            record_single(context, (edge,), args, output)
            return output
        positions = context._input_positions = tuple([i for i, x in enumerate(args) if isinstance(x, Tensor)])
        edges = tuple([edge_of(args[i]) for i in positions])
        if number_of(output, args) >= 0:
            return _record(context, args, output)
        record_single(context, edges, args, output)
        return output


def _context_of(function: type[Function]) -> Any:
    if (
        function.vjp is not None
        and function.backward is not function._missing_backward
        and function.vjp is not function.backward
    ):
        raise RuntimeError(
            f"[{function.__name__}] Implementing both 'backward' and 'vjp' for a custom Function is not allowed: "
            "these are two names for one method."
        )
    members = {"__slots__": (), "_function": function, "__module__": function.__module__}
    return type(f"{function.__name__}Backward", (Call,), members)


_no_setup: Final = Function.setup_context
_ONE: Final = (True,)
_FIRST: Final = (0,)


def _wants(value: Any) -> bool:
    return isinstance(value, Tensor) and bool(value._word & REQUIRES_GRAD)


def _without_scalars(ctx: Context, args: tuple[Any, ...], items: list[Any]) -> list[Any]:
    """Return the results with tensors for NumPy's scalars, also where the context refers to one of them."""
    tensors = {id(item): from_scalar(item, args) for item in items if isinstance(item, np.generic)}
    for name in ("_to_save", "_for_forward", "_not_differentiable"):
        listed = getattr(ctx, name)
        if listed:
            setattr(ctx, name, tuple([tensors.get(id(x), x) for x in listed]))
    return [tensors.get(id(item), item) for item in items]


def _refuse_nested(ctx: Context, item: Any) -> None:
    """Refuse a result with nested tensors, which would silently have no gradient."""
    for leaf in tensors_in(item):
        floating = leaf._word & DIFFERENTIABLE and not leaf._word & REQUIRES_GRAD
        if floating and number_of(leaf, ctx._not_differentiable) < 0:
            raise TypeError(
                f"[{ctx.name()}] forward returned a {type(item).__name__} with tensors in it, through which no "
                "gradient would flow: return a flat tuple of tensors, or name them in ctx.mark_non_differentiable."
            )


def _record(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    """Make the context the node of the results."""
    ctx._input_positions = tuple([i for i, value in enumerate(args) if isinstance(value, Tensor)])
    single = not isinstance(output, (tuple, list))
    items = [output] if single else list(output)
    if any(isinstance(item, np.generic) for item in items):
        output = items = _without_scalars(ctx, args, items)
    if not any(isinstance(item, Tensor) for item in items):
        for item in items:
            _refuse_nested(ctx, item)
        return output
    inputs = [args[i] for i in ctx._input_positions]
    for dirty in ctx._dirty:
        if number_of(dirty, items) < 0:
            raise RuntimeError(
                f"[{ctx.name()}] Some elements marked as dirty during the forward method were not returned as output: "
                "all tensors passed to mark_dirty must be outputs of the Function."
            )
    differentiable = [
        isinstance(item, Tensor) and item.dtype.kind in "fcV" and number_of(item, ctx._not_differentiable) < 0
        for item in items
    ]
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            _refuse_nested(ctx, item)
            continue
        if number_of(item, ctx._dirty) >= 0:
            check_inplace(
                ctx.name(),
                item,
                f"[{ctx.name()}] a leaf Variable that requires grad is being used in an in-place operation: "
                "it was passed to mark_dirty; pass a clone() of it to the Function.",
            )
        elif item._word & REQUIRES_GRAD or number_of(item, inputs) >= 0:
            items[i] = make_view(item, item._data)  # an input that was returned keeps its own history
    record_node(ctx, tuple([edge_of(tensor) for tensor in inputs]), items, attach=False)
    ctx.freeze(args, items)
    for nr, (item, own) in enumerate(zip(items, differentiable)):
        if own and number_of(item, ctx._dirty) >= 0:
            rebase(item, (ctx, nr), inputs)
        elif own:
            function_history(item, ctx, nr, inputs)
    ctx._dirty = ctx._not_differentiable = ()
    if ctx.__dict__:
        aside = set_aside(ctx.__dict__, items)
        if aside:
            ctx._aside = aside
    state = get_state()
    if state is not None:
        label_here(ctx)
        if state.include & HOOKED:
            ctx._pack()
    return items[0] if single else type(output)(items) if not hasattr(output, "_fields") else type(output)(*items)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that is not itself differentiable: a second order raises instead of being wrong.

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
        results = silently(function, ctx, *grads)
        if not is_grad_enabled():
            return results
        return connected_to_error(
            ctx,
            grads,
            results,
            f"[{ctx.name()}] trying to differentiate twice a function that was marked with @once_differentiable: its "
            "backward is not recorded.",
        )

    return wrapper
