"""``Function``: an operation whose gradient is written by hand."""

from __future__ import annotations

from typing import Any, Final

from numpy import ndarray

from ...core.device import CPU
from ...core.tensor import Tensor, make_view
from ...core.tree import flatten
from ...core.word import BFLOAT16_TRAIT, DTYPE_TRAIT, INFERENCE, REQUIRES_GRAD
from ...core.wrapper import Wrapper, innermost
from ...dispatch.local_state import SILENT, StateGuard, get_state, set_state
from ...profiler.observer import PROFILER, observe_function
from ..anomaly import label_here
from ..grad_mode import is_grad_enabled
from ..saved_tensors.hooks import HOOKED
from ..tape.node import SEQUENCE, AutogradMeta, edge_of, leaf_edge, record_node, settle
from ..views.tracking import check_inplace, function_history, rebase
from .context import NO_BACKWARD, UNSET, Call, Context
from .once_differentiable import once_differentiable
from .saved_intermediates import put_aside

__all__ = ["Context", "Function", "once_differentiable"]


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
        raise TypeError(
            f"[Function] a Function is not instantiated: call {type(self).__name__}.apply(...). (Functions are "
            "new-style, with a static forward method.)"
        )

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
        raise NotImplementedError(NO_BACKWARD.format(node="Function"))

    _missing_backward = backward
    vjp: Any = None  # another name for ``backward``
    jvp: Any = None  # a staticmethod jvp(ctx, *tangents) gives the forward derivative; zeros for a tensor without one
    vmap: Any = None  # a staticmethod vmap(info, in_dims, *args) gives (out, out_dims)
    generate_vmap_rule = False  # True: the staticmethods run on batched tensors; else, without vmap, sample by sample
    _context: type[Call] = Call

    @classmethod
    def _run(cls, args: tuple[Any, ...]) -> tuple[Any, Context]:
        """The result and the context of one call; ``apply`` does the same in a hurry."""
        context = Context()
        context._function = cls
        recording = is_grad_enabled()
        context.needs_input_grad = tuple([recording and _wants(value) for value in args])
        with StateGuard(exclude=REQUIRES_GRAD):
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
                # Until these are set, these values tell them from notes of the user under the same names.
                context.shape = context.dtype = context.device = UNSET
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
        unset = UNSET
        if (
            not single
            or output.__class__ is not Tensor
            or context.__dict__
            or output._word & REQUIRES_GRAD
            or output._storage is not None
            or found is not None
            or word & INFERENCE
            or value is output
            or not output._word & _DIFFERENTIABLE
            or context.shape is not unset
            or context.dtype is not unset
            or context.device is not unset
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
        context.sequence_nr = SEQUENCE.next()
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
        output._word |= REQUIRES_GRAD
        context._word = output._word if context.device is CPU else 0
        return output


def _context_of(function: type[Function]) -> Any:
    if (
        function.vjp is not None
        and function.backward is not function._missing_backward
        and function.vjp is not function.backward
    ):
        raise RuntimeError(
            f"[{function.__name__}] Implementing both 'backward' and 'vjp' for a custom Function is not allowed: "
            "these are two names of one."
        )
    members = {"__slots__": (), "_function": function, "__module__": function.__module__}
    return type(f"{function.__name__}Backward", (Call,), members)


_no_setup: Final = Function.setup_context
_ONE: Final = (True,)
_FIRST: Final = (0,)
_DIFFERENTIABLE: Final = BFLOAT16_TRAIT | sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc")


def _wants(value: Any) -> bool:
    return isinstance(value, Tensor) and bool(value._word & REQUIRES_GRAD)


def _refuse_nested(ctx: Context, item: Any) -> None:
    """A result that is no tensor: refuse one with tensors in it that would silently have no gradient."""
    for leaf in flatten(item):
        if (
            isinstance(leaf, Tensor)
            and leaf._word & _DIFFERENTIABLE
            and not leaf._word & REQUIRES_GRAD
            and all(leaf is not no for no in ctx._not_differentiable)
        ):
            raise TypeError(
                f"[{ctx.name()}] forward returned a {type(item).__name__} with tensors in it, through which no "
                "gradient would flow: return the tensors one by one, in a tuple, or name them in "
                "ctx.mark_non_differentiable."
            )


def _record(ctx: Context, args: tuple[Any, ...], output: Any) -> Any:
    """Make the context the node that the results come from."""
    ctx._input_positions = tuple([i for i, value in enumerate(args) if isinstance(value, Tensor)])
    single = not isinstance(output, (tuple, list))
    items = [output] if single else list(output)
    if not any(isinstance(item, Tensor) for item in items):
        for item in items:
            _refuse_nested(ctx, item)
        return output
    inputs = [args[i] for i in ctx._input_positions]
    for dirty in ctx._dirty:
        if all(item is not dirty for item in items):
            raise RuntimeError(
                f"[{ctx.name()}] Some elements marked as dirty during the forward method were not returned as output: "
                "what mark_dirty names must all be outputs of the Function."
            )
    differentiable = [
        isinstance(item, Tensor) and item.dtype.kind in "fcV" and all(item is not no for no in ctx._not_differentiable)
        for item in items
    ]
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            _refuse_nested(ctx, item)
            continue
        if any(item is dirty for dirty in ctx._dirty):
            check_inplace(
                ctx.name(),
                item,
                f"[{ctx.name()}] a leaf Variable that requires grad is being used in an in-place operation: "
                "mark_dirty names it; give the Function a clone() of it.",
            )
        elif item._word & REQUIRES_GRAD or any(item is given for given in inputs):
            items[i] = make_view(item, item._data)  # returned as it came, with a history of its own to keep
    record_node(ctx, tuple([edge_of(tensor) for tensor in inputs]), items, attach=False)
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
            ctx._pack()
    return items[0] if single else type(output)(items) if not hasattr(output, "_fields") else type(output)(*items)
