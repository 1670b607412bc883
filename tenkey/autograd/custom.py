"""Gradients that were written by hand for an operator: the facet ``Backward``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..core.tensor import Tensor, shares_storage
from ..core.word import GRADIENT
from ..dispatch.kernel import Handle, Kernel, function_site
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from .function import Context
from .node import edge_of, longest, next_sequence, set_history
from .record import flat_tensors, inner_call

__all__ = ["install_custom"]

_COUNT: Final = (
    "[{operator}] its backward returned {got} gradients, expected {want}: one for each argument ({names}), None where "
    "there is none."
)
_LIST: Final = (
    "[{operator}] its backward returned {got} for the argument {argument!r}, a list of {want} tensors: return a list "
    "of {want} gradients, or None."
)
_ALIAS: Final = (
    "[{operator}] returned one of its arguments, or a tensor that was there before the call: an operator returns new "
    "tensors; return x.clone()."
)
_VIEW: Final = (
    "[{operator}] returned a view of one of its arguments: an operator returns new tensors; clone() the result."
)
_TWICE: Final = "[{operator}] returned one tensor as two of its results: return different tensors; clone() one of them."


def custom_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """The Autograd kernel of an operator with a Backward facet."""
    facet = operator.facets["Backward"]
    inner = inner_call(operator, word)
    schema = operator.schema
    positional = [a for a in schema.arguments if not a.kwarg_only]
    names = [a.name for a in positional]
    backward, setup = facet.backward, facet.setup_context
    has_keywords = len(names) < len(schema.arguments)
    count = len(names)
    plain = all(str(a.type) == "Tensor" or not a.type.is_tensor_like for a in positional)
    tensor_positions = tuple([i for i, a in enumerate(positional) if a.type.is_tensor_like])

    class CustomContext(Context):
        operator_name = operator.name

        def name(self) -> str:
            return f"{schema.base_name.capitalize()}Backward"

        def apply(self, *grads: Tensor | None) -> Any:
            results = backward(self, *self.fill(grads))
            if not isinstance(results, tuple):
                results = (results,)
            if len(results) != count:
                raise RuntimeError(
                    _COUNT.format(operator=operator.name, got=len(results), want=count, names=", ".join(names))
                )
            if plain:
                return tuple([results[i] for i in tensor_positions])
            flat: list[Any] = []
            for i in tensor_positions:
                width = self.widths[i]
                if width < 0:
                    flat.append(results[i])
                    continue
                given = results[i] if results[i] is not None else [None] * width
                if not isinstance(given, (list, tuple)) or len(given) != width:
                    got = f"{len(given)} gradients" if isinstance(given, (list, tuple)) else type(given).__name__
                    raise RuntimeError(_LIST.format(operator=operator.name, got=got, argument=names[i], want=width))
                flat.extend(given)
            return tuple(flat)

        widths: tuple[int, ...] = ()

    def kernel(*args: Any, **kwargs: Any) -> Any:
        output = inner(*args, **kwargs)
        context = CustomContext()
        if plain:
            tensors = [args[i] for i in tensor_positions]
            context.needs_input_grad = tuple(
                [a.__class__ is not int and bool(getattr(a, "_word", 0) & GRADIENT) for a in args]
            )
        else:
            tensors = []
            context.widths = tuple([len(a) if isinstance(a, (list, tuple)) else -1 for a in args])
            for i in tensor_positions:
                tensors.extend(args[i] if isinstance(args[i], (list, tuple)) else (args[i],))
            context.needs_input_grad = tuple([any(t._word & GRADIENT for t in flat_tensors(a)) for a in args])
        outputs = [output] if isinstance(output, Tensor) else flat_tensors(output)
        for tensor in outputs:
            for given in tensors:
                if tensor is given:
                    raise RuntimeError(_ALIAS.format(operator=operator.name))
            if tensor._word & GRADIENT:
                raise RuntimeError(_ALIAS.format(operator=operator.name))
            may_be_view = tensor._storage is not None or getattr(tensor._data, "base", None) is not None
            if may_be_view and any(given is not None and shares_storage(tensor, given) for given in tensors):
                raise RuntimeError(_VIEW.format(operator=operator.name))
        if len(outputs) > 1 and len({id(tensor) for tensor in outputs}) < len(outputs):
            raise RuntimeError(_TWICE.format(operator=operator.name))
        if setup is not None:
            if has_keywords:
                setup(context, args, kwargs, output)
            else:
                setup(context, args, output)
        context.describe(outputs)
        context.sequence_nr = next_sequence()
        edges = context.next_edges = tuple([edge_of(t) for t in tensors])
        context.topological_nr = longest(edges)
        if context._to_save:
            context.freeze(outputs)
        for nr, tensor in enumerate(outputs):
            if tensor.dtype.kind in "fcV":
                set_history(tensor, context, nr)
        return output

    return kernel


def _silent_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """For operators without a gradient: their kernels may be made of operators that have one."""
    return inner_call(operator, word)


def _install(operator: Operator) -> list[Handle]:
    if "Backward" not in operator.facets:
        if "NotDifferentiable" not in operator.facets or operator.schema.namespace == "tk":
            return []
        silent = Kernel(
            _silent_kernel,
            DispatchKey.Autograd,
            site=operator.site,
            specialize=_silent_kernel,
            only_with=GRADIENT,
        )
        return [operator.registry.impl(operator.name, silent, allow_override=True)]
    # Explicit: it was written by hand, and beats what is derived for the operator.
    kernel = Kernel(
        custom_kernel,
        DispatchKey.Autograd,
        site=function_site(operator.facets["Backward"].backward),
        specialize=custom_kernel,
        only_with=GRADIENT,
    )
    return [operator.registry.impl(operator.name, kernel, allow_override=True)]


def install_custom(registry: Any) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_install)
