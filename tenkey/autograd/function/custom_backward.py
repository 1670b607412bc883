"""Gradients that were written by hand for an operator: the facet ``Backward``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.tensor import Tensor, shares_storage
from ...core.tree import tensors_in, tree_map
from ...core.word import REQUIRES_GRAD
from ...dispatch.keys import backend_mask, backends_in
from ...dispatch.local_state import SILENT, get_state, set_state
from ...dispatch.operator import Operator
from ...dispatch.tags import Tag
from ..recording.autograd_kernels import below_autograd, inner_call
from ..saved_tensors.hooks import HOOKED, with_choice
from ..saved_tensors.saved import SavedTensor
from ..tape.node import SEQUENCE, edge_of, longest, record_node, set_history, settle
from ..views.tracking import check_inplace, rebase
from .context import Context

__all__ = ["custom_kernel"]

_ALIAS: Final = (
    "[{operator}] returned one of its arguments, or a tensor that was there before the call: an operator returns new "
    "tensors; return x.clone()."
)


class _Slot:
    """The place of a tensor in a template."""


_SLOT: Final = _Slot()


def _template(value: Any) -> Any:
    """The structure of an argument or a result: nested lists and tuples with slots for tensors.

    Texts are kept, since they are the keys of what is a dict for the user; all else is None.
    """
    return tree_map(lambda leaf: _SLOT if isinstance(leaf, Tensor) else leaf if isinstance(leaf, str) else None, value)


def _filled(template: Any, values: Iterator[Any]) -> Any:
    """Return a template with the next values in its slots."""
    return tree_map(lambda leaf: next(values) if leaf is _SLOT else leaf, template)


def _needs(value: Any) -> Any:
    """Whether an argument needs a gradient; a list for a list or record, with an answer for each item."""
    if isinstance(value, Tensor):
        return bool(value._word & REQUIRES_GRAD)
    return [_needs(item) for item in value] if isinstance(value, (list, tuple)) else False


def _fields(value: Any, template: Any) -> Any:
    """The parts of a gradient that was given for a list or a record: of a dict, in the order of the argument."""
    if isinstance(value, Mapping):
        pairs = all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in template)
        if not pairs or set(value) - {item[0] for item in template}:
            return None
        return [(item[0], value.get(item[0])) for item in template]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value) if field.init]
    return value if isinstance(value, (list, tuple)) and len(value) == len(template) else None


def _spread(grad: Any, template: Any, operator: str, argument: str, into: list[Any]) -> None:
    """Put the gradients for the slots of an argument's template into a list, in order."""
    if template is _SLOT:
        into.append(grad)
    elif isinstance(template, (list, tuple)):
        parts = [None] * len(template) if grad is None else _fields(grad, template)
        if parts is None:
            got = f"{len(grad)} gradients" if isinstance(grad, (list, tuple)) else type(grad).__name__
            flat = all(item is _SLOT or item is None for item in template)
            text = (
                (
                    "[{operator}] its backward returned {got} for the argument {argument!r}, a list of {want} "
                    "tensors: return a list of {want} gradients, or None."
                )
                if flat and isinstance(template, (list, tuple))
                else (
                    "[{operator}] its backward returned {got} for the argument {argument!r}, a record, dict or "
                    "list of {want}: return the gradients in its structure, None for what has none, or None for all of "
                    "it."
                )
            )
            raise RuntimeError(text.format(operator=operator, got=got, argument=argument, want=len(template)))
        for part, item in zip(parts, template):
            _spread(part, item, operator, argument, into)


class _Plan:
    """What the schema says of the tensors of an operator with a gradient."""

    def __init__(self, operator: Operator) -> None:
        schema = operator.schema
        self.name = operator.name
        self.arguments = [a for a in schema.arguments if not a.kwarg_only]
        self.names = [a.name for a in self.arguments]
        self.has_keywords = len(self.names) < len(schema.arguments)
        self.tensors = tuple([i for i, a in enumerate(self.arguments) if a.type.contains_tensor])
        self.plain = all(str(self.arguments[i].type) == "Tensor" for i in self.tensors)
        self.plain_results = all(str(r.type) == "Tensor" for r in schema.returns)
        self.count = len(schema.returns)
        self.simple = (
            self.plain
            and not self.has_keywords
            and not schema.is_mutable
            and [str(r) for r in schema.returns] == ["Tensor"]
        )
        self.written = [(i, a) for i, a in enumerate(self.arguments) if a.is_mutable]
        # an operator without results that are tensors has what it writes to for results
        self.in_place = bool(self.written) and not any(r.type.contains_tensor for r in schema.returns)
        returned = {name for r in schema.returns if r.alias is not None for name in r.alias.names}
        self.rebased = [
            i for i, a in self.written if self.in_place or (a.alias and not returned.isdisjoint(a.alias.names))
        ]

    def check_written(self, args: tuple[Any, ...]) -> list[Tensor]:
        """The tensors that become outputs because they are written to; raises for what cannot be recorded."""
        found: list[Tensor] = []
        for i, a in self.written:
            for tensor in tensors_in(args[i]):
                if i not in self.rebased:
                    if tensor._word & REQUIRES_GRAD:
                        raise RuntimeError(
                            f"[{self.name}] mutates its argument {a.name!r}, which requires a gradient, and returns "
                            "tensors: gradients flow through its results alone. Give it x.detach(), or return what "
                            "it writes to as 'Tensor(a!)'."
                        )
                else:
                    check_inplace(
                        self.name,
                        tensor,
                        f"[{self.name}] a leaf Variable that requires grad is being used in an in-place operation: it "
                        f"mutates its argument {a.name!r}. Do it in a tk.no_grad() block, or give it a clone().",
                    )
                    found.append(tensor)
        return found

    def check_outputs(self, outputs: list[Tensor], tensors: list[Any], written: list[Tensor]) -> None:
        """Results are new tensors, but for those that are written to."""
        for tensor in outputs:
            if written and any(tensor is given for given in written):
                continue
            for given in tensors:
                if tensor is given:
                    raise RuntimeError(_ALIAS.format(operator=self.name))
            if tensor._word & REQUIRES_GRAD:
                raise RuntimeError(_ALIAS.format(operator=self.name))
            may_be_view = tensor._storage is not None or getattr(tensor._data, "base", None) is not None
            if may_be_view and any(given is not None and shares_storage(tensor, given) for given in tensors):
                raise RuntimeError(
                    f"[{self.name}] returned a view of one of its arguments: an operator returns new tensors; clone() "
                    "the result."
                )
        if len(outputs) > 1 and len({id(tensor) for tensor in outputs}) < len(outputs):
            raise RuntimeError(
                f"[{self.name}] returned one tensor as two of its results: return different tensors; clone() one of "
                "them."
            )


def custom_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """The Autograd kernel of an operator with a Backward facet."""
    facet = operator.facets["Backward"]
    inner = inner_call(operator, word)
    plan = _Plan(operator)
    names, plain, tensor_positions = plan.names, plan.plain, plan.tensors
    backward, setup = facet.backward, facet.setup_context
    count, base_name = len(names), operator.schema.base_name
    structured = plan.in_place or not plan.plain_results
    hooked = word & HOOKED

    class CustomContext(Context):
        operator_name = operator.name

        def name(self) -> str:
            return f"{base_name.capitalize()}Backward"

        def apply(self, *grads: Tensor | None) -> Any:
            grads = self.fill(grads)
            if structured:
                values = iter(grads)
                grads = tuple([_filled(template, values) for template in self.result_templates])
            results = backward(self, *grads)
            if not isinstance(results, tuple) or (count == 1 and self.is_whole(results)):
                results = (results,)
            if len(results) != count:
                raise RuntimeError(
                    f"[{operator.name}] its backward returned {len(results)} gradients, expected {count}: one for "
                    f"each argument ({', '.join(names)}), None where there is none."
                )
            if plain:
                return tuple([results[i] for i in tensor_positions])
            flat: list[Any] = []
            for i, template in zip(tensor_positions, self.templates):
                _spread(results[i], template, operator.name, names[i], flat)
            return tuple(flat)

        def is_whole(self, results: tuple[Any, ...]) -> bool:
            """Whether a tuple is the gradient of the only argument, a record, and does not hold it."""
            return hasattr(results, "_fields") or (
                not plain and isinstance(self.templates[0], tuple) and len(results) == len(self.templates[0]) != 1
            )

        templates: tuple[Any, ...] = ()
        result_templates: tuple[Any, ...] = ()

    if plan.simple:
        return _simple_kernel(operator, word, plan, CustomContext, setup)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        written = plan.check_written(args) if plan.written else []
        output = inner(*args, **kwargs)
        context = CustomContext()
        if plain:
            tensors = [args[i] for i in tensor_positions]
            context.needs_input_grad = tuple(
                [a.__class__ is not int and bool(getattr(a, "_word", 0) & REQUIRES_GRAD) for a in args]
            )
        else:
            tensors = tensors_in([args[i] for i in tensor_positions])
            context.templates = tuple([_template(args[i]) for i in tensor_positions])
            context.needs_input_grad = tuple([_needs(a) for a in args])
        if plan.in_place:
            outputs = written
            context.result_templates = tuple([_template(args[i]) for i, _ in plan.written])
        else:
            outputs = [output] if isinstance(output, Tensor) else tensors_in(output)
            if structured:
                context.result_templates = tuple([_template(r) for r in ((output,) if plan.count == 1 else output)])
        plan.check_outputs(outputs, tensors, written)
        if setup is not None:
            if plan.has_keywords:
                setup(context, args, kwargs, output)
            else:
                setup(context, args, output)
        record_node(context, tuple([edge_of(t) for t in tensors]), outputs, attach=False)
        if context._to_save:
            context.freeze(tensors, outputs)
            if hooked:
                context._pack()
        for nr, tensor in enumerate(outputs):
            if tensor.dtype.kind in "fcV":
                if written:
                    rebase(tensor, (context, nr), tensors)
                else:
                    set_history(tensor, context, nr)
        return output

    return kernel


def _simple_kernel(
    operator: Operator, word: int, plan: _Plan, context_class: type[Context], setup: Callable[..., Any] | None
) -> Callable[..., Any]:
    """The kernel of an operator that takes tensors one by one and returns one: the general one, written to be fast."""
    below = below_autograd(word)
    function = operator.cache[below]
    hooked = word & HOOKED
    if hooked:
        function = with_choice(operator, function)
    positions = plan.tensors
    only = positions == (0,) and len(plan.names) == 1  # then this argument is the reason for the call
    # its kernels were checked when they ran, but for fakes, which may return what they are given
    trusted = Tag.CUSTOM_OP in operator.tags and "Meta" not in backends_in(word & backend_mask())

    def kernel(*args: Any) -> Any:
        found = get_state()
        try:
            set_state(SILENT if found is None else found.silent)
            output = function(*args)
        finally:
            set_state(found)
        tensors = [args[i] for i in positions]
        if not trusted:
            plan.check_outputs([output], tensors, [])
        elif output._word & REQUIRES_GRAD:
            raise RuntimeError(_ALIAS.format(operator=plan.name))
        context = context_class()
        context.needs_input_grad = (
            (True,)
            if only
            else tuple([a.__class__ is not int and bool(getattr(a, "_word", 0) & REQUIRES_GRAD) for a in args])
        )
        if setup is not None:
            setup(context, args, output)
        saved = context._to_save
        if len(context.__dict__) > (2 if saved else 1):  # there are notes of the user's
            context.describe([output])
        else:
            data = output._data
            context.shape, context.dtype = data.shape, data.dtype
            if data.__class__ is np.ndarray:
                context.device = CPU
                context._word = output._word | REQUIRES_GRAD
            else:
                settle(context, output)
        context.sequence_nr = SEQUENCE.next()
        if only:
            edge = edge_of(args[0])
            context.next_edges = (edge,)
            context.topological_nr = edge[0].topological_nr + 1  # type: ignore[union-attr]  # it needs a gradient
        else:
            edges = context.next_edges = tuple([edge_of(t) for t in tensors])
            context.topological_nr = longest(edges)
        if saved:
            if len(saved) == 1 and saved[0] is not output and saved[0] is not None:
                context._saved = (SavedTensor(saved[0]),)
                context._to_save = ()
            else:
                context.freeze(tensors, [output])
            if hooked:
                context._pack()
        if output._data.dtype.kind in "fcV":
            set_history(output, context, 0)
        return output

    return kernel
