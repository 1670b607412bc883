"""Hand-written gradients of operators: the facet ``Backward``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...core.tensor import Tensor, shares_storage
from ...core.tree import tensors_in, tree_map
from ...core.word import REQUIRES_GRAD
from ...dispatch.keys import backend_mask, backends_in
from ...dispatch.local_state import SILENT, get_state, set_state
from ...dispatch.operator import Operator
from ...dispatch.tags import Tag
from ..grad_mode import is_grad_enabled
from ..recording.autograd_kernels import below_autograd, inner_call
from ..saved_tensors.saved_tensor_hooks import HOOKED, with_choice
from ..tape.node import edge_of, record_node, set_history
from ..views.tracking import check_inplace, rebase
from .context import DIFFERENTIABLE, Context, record_single
from .saved_intermediates import number_of
from .unconnected import run_recorded

__all__ = ["custom_kernel"]

_ALIAS: Final = (
    "[{operator}] returned one of its arguments, or a tensor that was there before the call: an operator returns new "
    "tensors; return x.clone()."
)
_SLOT: Final = object()  # the place of a tensor in a template


def _template(value: Any) -> Any:
    """Return the structure of an argument or result: nested lists and tuples with slots for tensors.

    Strings are kept, since they are the keys of user dicts; all other leaves are None.
    """
    return tree_map(lambda leaf: _SLOT if isinstance(leaf, Tensor) else leaf if isinstance(leaf, str) else None, value)


def _needs(value: Any) -> Any:
    """Return whether an argument needs a gradient; for a list or record, a list with an answer for each item."""
    if isinstance(value, Tensor):
        return bool(value._word & REQUIRES_GRAD)
    return [_needs(item) for item in value] if isinstance(value, (list, tuple)) else False


def _fields(value: Any, template: Any) -> Any:
    """Return the parts of the gradient of a list or record, those of a dict in the order of the argument."""
    if isinstance(value, Mapping):
        pairs = all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in template)
        if not pairs or set(value) - {item[0] for item in template}:
            return None
        return [(item[0], value.get(item[0])) for item in template]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value) if field.init]
    return value if isinstance(value, (list, tuple)) and len(value) == len(template) else None


def _spread(grad: Any, template: Any, operator: str, argument: str, into: list[Any]) -> None:
    """Append the gradients for the slots of an argument's template to a list, in order."""
    if template is _SLOT:
        into.append(grad)
    elif isinstance(template, (list, tuple)):
        parts = [None] * len(template) if grad is None else _fields(grad, template)
        if parts is None:
            got = f"{len(grad)} gradients" if isinstance(grad, (list, tuple)) else type(grad).__name__
            kind, remedy = "record, dict or list of", "the gradients in its structure, None for missing ones,"
            if all(item is _SLOT or item is None for item in template):
                kind, remedy = "list of", f"a list of {len(template)} gradients,"
            raise RuntimeError(
                f"[{operator}] its backward returned {got} for the argument {argument!r}, a {kind} {len(template)} "
                f"tensors: return {remedy} or None."
            )
        for part, item in zip(parts, template):
            _spread(part, item, operator, argument, into)


class _Plan:
    """The tensors in the schema of an operator with a gradient, and the checks of its calls."""

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
        returns = [str(r) for r in schema.returns]
        self.simple = self.plain and not self.has_keywords and not schema.is_mutable and returns == ["Tensor"]
        self.written = [(i, a) for i, a in enumerate(self.arguments) if a.is_mutable]
        # the results of an operator that returns no tensors are the tensors that it writes to
        self.in_place = bool(self.written) and not any(r.type.contains_tensor for r in schema.returns)
        returned = {name for r in schema.returns if r.alias is not None for name in r.alias.names}
        self.rebased = [
            i for i, a in self.written if self.in_place or (a.alias and not returned.isdisjoint(a.alias.names))
        ]

    def check_written(self, args: tuple[Any, ...]) -> list[Tensor]:
        """Return the tensors that become outputs because they are written to; raise if they cannot be recorded."""
        found: list[Tensor] = []
        for i, a in self.written:
            for tensor in tensors_in(args[i]):
                if i not in self.rebased:
                    if tensor._word & REQUIRES_GRAD:
                        raise RuntimeError(
                            f"[{self.name}] mutates its argument {a.name!r}, which requires a gradient, and returns "
                            "tensors: gradients flow through its results only. Pass x.detach(), or return the "
                            "argument as 'Tensor(a!)'."
                        )
                else:
                    check_inplace(
                        self.name,
                        tensor,
                        f"[{self.name}] a leaf Variable that requires grad is being used in an in-place operation: it "
                        f"mutates its argument {a.name!r}. Call it in a tk.no_grad() block, or pass a clone().",
                    )
                    found.append(tensor)
        return found

    def check_outputs(self, outputs: list[Tensor], tensors: list[Any], written: list[Tensor]) -> None:
        """Raise unless the results are new tensors, except for those that are written to."""
        for tensor in outputs:
            if number_of(tensor, written) >= 0:
                continue
            if tensor._word & REQUIRES_GRAD or number_of(tensor, tensors) >= 0:
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
    """Return the Autograd kernel of an operator with a Backward facet."""
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
                grads = tree_map(lambda leaf: next(values) if leaf is _SLOT else leaf, self.result_templates)
            results = run_recorded(self, backward, grads) if is_grad_enabled() else backward(self, *grads)
            if not isinstance(results, tuple) or (count == 1 and self.is_whole(results)):
                results = (results,)
            if len(results) != count:
                raise RuntimeError(
                    f"[{operator.name}] its backward returned {len(results)} gradients, expected {count}: one for "
                    f"each argument ({', '.join(names)}), None if there is none."
                )
            if plain:
                return tuple([results[i] for i in tensor_positions])
            flat: list[Any] = []
            for i, template in zip(tensor_positions, self.templates):
                _spread(results[i], template, operator.name, names[i], flat)
            return tuple(flat)

        def is_whole(self, results: tuple[Any, ...]) -> bool:
            """Return whether a tuple is the gradient of the only argument, a record, itself."""
            return hasattr(results, "_fields") or (
                not plain and isinstance(self.templates[0], tuple) and len(results) == len(self.templates[0]) != 1
            )

        templates: tuple[Any, ...] = ()
        result_templates: tuple[Any, ...] = ()

    def needs(args: tuple[Any, ...]) -> tuple[bool, ...]:
        return tuple([a.__class__ is not int and bool(getattr(a, "_word", 0) & REQUIRES_GRAD) for a in args])

    def record(context: CustomContext, tensors: list[Any], outputs: list[Tensor], written: list[Tensor]) -> None:
        record_node(context, tuple([edge_of(t) for t in tensors]), outputs, attach=False)
        if context._to_save:
            context.freeze(tensors, outputs)
        for nr, tensor in enumerate(outputs):
            if tensor.dtype.kind in "fcV":
                if written:
                    rebase(tensor, (context, nr), tensors)
                else:
                    set_history(tensor, context, nr)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        written = plan.check_written(args) if plan.written else []
        output = inner(*args, **kwargs)
        context = CustomContext()
        if plain:
            tensors = [args[i] for i in tensor_positions]
            context.needs_input_grad = needs(args)
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
            setup(context, args, *([kwargs] if plan.has_keywords else []), output)
        record(context, tensors, outputs, written)
        if hooked:
            context._pack()
        return output

    if not plan.simple:
        return kernel
    function = operator.cache[below_autograd(word)]
    if hooked:
        function = with_choice(operator, function)
    only = tensor_positions == (0,) and count == 1  # then this argument is the reason for the call
    # the kernels of custom_op check their results, except for fakes, which may return their arguments
    trusted = Tag.CUSTOM_OP in operator.tags and "Meta" not in backends_in(word & backend_mask())

    def simple_kernel(*args: Any) -> Any:
        """Call an operator that takes separate tensors and returns one."""
        found = get_state()
        try:
            set_state(SILENT if found is None else found.silent)
            output = function(*args)
        finally:
            set_state(found)
        tensors = [args[i] for i in tensor_positions]
        if not trusted:
            plan.check_outputs([output], tensors, [])
        elif output._word & REQUIRES_GRAD:
            raise RuntimeError(_ALIAS.format(operator=operator.name))
        context = CustomContext()
        context.needs_input_grad = (True,) if only else needs(args)
        if setup is not None:
            setup(context, args, output)
        # besides these two entries, the dict holds user attributes
        if len(context.__dict__) > (2 if context._to_save else 1) or not output._word & DIFFERENTIABLE:
            record(context, tensors, [output], [])
        elif only:
            edge: Any = edge_of(args[0])
            record_single(context, (edge,), args, output)
        else:
            edges = tuple([edge_of(t) for t in tensors])
            record_single(context, edges, tensors, output)
        if hooked:
            context._pack()
        return output

    return simple_kernel
