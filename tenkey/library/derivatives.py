"""Registration of gradients, forward derivatives, batching rules and autocast.

Each is a facet of the operator; the layers that read it are notified when it changes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..core.device import device_types
from ..core.dtypes.names import to_dtype
from ..dispatch.diagnostics.sites import function_site
from ..dispatch.errors import RegistrationError
from ..dispatch.kernel import Handle
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import FunctionSchema
from ..ops.declare.facets import Autocast, Backward, Batch, Forward
from .registration import as_decorator, name_of

__all__ = [
    "backward_facet", "batch_facet", "forward_facet", "register_autocast", "register_autograd", "register_facet",
    "register_jvp", "register_vmap", "set_facet",
]  # fmt: skip


def register_autograd(
    op: Any, backward: Callable[..., Any], *, setup_context: Callable[..., Any] | None = None
) -> Handle:
    """Give an operator a gradient: ``backward(ctx, *grads)`` returns one gradient for each argument.

    ``setup_context(ctx, inputs, output)`` saves the values that ``backward`` needs; ``inputs`` are the arguments in
    schema order with defaults filled in. With keyword-only arguments it is ``setup_context(ctx, inputs,
    keyword_only_inputs, output)``.

    ``backward`` gets one gradient for each result, None for a result that is not a tensor, and a list or dict of
    gradients for a list or dict. Each field of a record counts as a result; a ``backward(ctx, grad)`` with a single
    gradient parameter gets the gradient of the record as a record. ``backward`` returns the gradient of a list or
    record in the structure of the argument, with None for values without a gradient, such as numbers.

    If the operator changes arguments and returns no tensors, the changed tensors are its results: they become part of
    the graph, as with an in-place operator. If it returns tensors, gradients flow through these alone, and the changed
    arguments may not require gradients.

    >>> library = tk.library.Library("docs_autograd", "DEF")
    >>> _ = library.define("cube(Tensor x) -> Tensor")
    >>> _ = library.impl("cube", lambda x: x * x * x, "default")
    >>> handle = tk.library.register_autograd(
    ...     "docs_autograd::cube",
    ...     lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    ... )
    >>> x = tk.tensor(2.0, requires_grad=True)
    >>> tk.ops.docs_autograd.cube(x).backward()
    >>> x.grad.item()
    12.0
    """
    operator = registry.find(name_of(op))
    for taken in ("Backward", "Vjp", "Partials"):
        if taken in operator.facets:
            raise RegistrationError(
                f"[{operator.name}] has a gradient formula already. Remove it first, or register a kernel for "
                "DispatchKey.Autograd with allow_override=True."
            )
    return set_facet(operator, backward_facet(operator, backward, setup_context))


def backward_facet(operator: Operator, backward: Any, setup_context: Any) -> Backward:
    """Return the facet for a gradient, checked and adapted to the structure of the operator."""
    check_functions(operator, backward=backward, setup_context=setup_context)
    keywords = [a.name for a in operator.schema.arguments if a.kwarg_only and a.type.contains_tensor]
    if keywords:
        raise RegistrationError(
            f"[{operator.name}] has the keyword-only tensor arguments {', '.join(keywords)}, and backward returns "
            "gradients for the others alone: make them positional in the schema."
        )
    _check_setup(operator, setup_context)
    structure = operator.facets.get("Structure")
    results = len(operator.schema.returns)  # 0: there is a gradient for each argument that is written to
    if results and (structure is None or not structure.takes_record(backward)):
        check_call(operator, "backward", backward, ("ctx", *[f"grad{i}" for i in range(results)]))
    if structure is not None:
        backward = _keeping_name(structure.of_backward(backward), backward)
        setup_context = None if setup_context is None else structure.of_setup(setup_context)
    return Backward(backward, setup_context)


def _keeping_name(wrapper: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.update_wrapper(wrapper, function, updated=())


def register_jvp(
    op: Any, fn: Callable[..., Any] | None = None, *, setup_context: Callable[..., Any] | None = None
) -> Any:
    """Give an operator a forward derivative: ``fn(ctx, *tangents)`` returns the tangent of each result.

    There is one tangent for each argument: None unless it is a floating or complex tensor, and zeros for a tensor
    without a tangent (None after ``ctx.set_materialize_grads(False)``). ``setup_context`` is that of
    :func:`register_autograd`. Without ``fn`` this is a decorator; otherwise it returns a handle. A second registration
    replaces the first.

    >>> op = tk.library.custom_op("docs::jvp_twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> handle = tk.library.register_jvp(op, lambda ctx, tangent: tangent * 2)
    """
    return register_facet(op, fn, lambda operator, f: forward_facet(operator, f, setup_context))


def forward_facet(operator: Operator, function: Any, setup_context: Any) -> Forward:
    """Return the facet for a forward derivative, checked and adapted to the structure of the operator."""
    check_functions(operator, fn=function, setup_context=setup_context)
    tangents = [f"tangent_of_{a.name}" for a in operator.schema.arguments if not a.kwarg_only]
    check_call(operator, "fn", function, ("ctx", *tangents))
    _check_setup(operator, setup_context)
    structure = operator.facets.get("Structure")
    if structure is not None:
        function = _keeping_name(structure.of_forward(function), function)
        setup_context = None if setup_context is None else structure.of_setup(setup_context)
    return Forward(function, setup_context)


def register_vmap(op: Any, fn: Callable[..., Any] | None = None) -> Any:
    """Give an operator a rule for vmap: ``fn(info, in_dims, *args)`` returns ``(out, out_dims)``.

    ``info.batch_size`` is the number of samples; ``in_dims`` has the dimension of each argument that counts them, or
    None. Without ``fn`` this is a decorator; otherwise it returns a handle. A second registration replaces the first.

    >>> op = tk.library.custom_op("docs::vmap_thrice", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> @tk.library.register_vmap(op)
    ... def rule(info, in_dims, x):
    ...     return op(x), in_dims[0]
    """
    return register_facet(op, fn, batch_facet)


def batch_facet(operator: Operator, function: Any) -> Batch:
    """Return the facet for a vmap rule, checked and adapted to the structure of the operator."""
    check_functions(operator, fn=function)
    names = [a.name for a in operator.schema.arguments if not a.kwarg_only]
    keywords = [a.name for a in operator.schema.arguments if a.kwarg_only]
    check_call(operator, "fn", function, ("info", "in_dims", *names), keywords)
    structure = operator.facets.get("Structure")
    if structure is not None:
        function = _keeping_name(structure.of_batch(function), function)
    return Batch(function)


def register_autocast(op: Any, device_type: str, cast_inputs: Any) -> Handle:
    """Set the dtype that autocast converts the floating tensors of a call to, for one device type.

    It replaces the policy that the declaration of the operator states as ``autocast=``, until the handle removes it.

    >>> op = tk.library.custom_op("docs::cast_inc", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> handle = tk.library.register_autocast(op, "cpu", tk.float16)
    """
    operator = registry.find(name_of(op))
    known = list(dict.fromkeys((*device_types(), "cuda")))  # rules for CUDA may be set on machines without it
    if device_type not in known:
        text = f"[{operator.name}] {device_type!r} is not a device type: autocast is for one of {', '.join(known)}."
        raise ValueError(text)
    try:
        dtype = to_dtype(cast_inputs)
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or dtype.kind not in "fV":
        raise ValueError(
            f"[{operator.name}] autocast converts to a floating dtype such as tk.float16, got {cast_inputs!r}."
        )
    with registry.lock:
        before = operator.facets.get("Autocast")
        before = Autocast() if before is None else before
        set_facet(operator, Autocast(before.policy, {**before.dtypes, device_type: dtype}))

    def remove() -> None:
        with registry.lock:
            found = operator.facets.get("Autocast")
            if found is None or found.dtypes.get(device_type) is not dtype:
                return
            rest = {name: kind for name, kind in found.dtypes.items() if name != device_type}
            kept = Autocast(found.policy, rest) if rest or found.policy is not None else None
            _change_facet(operator, "Autocast", kept)

    return Handle(remove, f"autocast of {operator.name} on {device_type}")


def register_facet(op: Any, fn: Any, make: Callable[[Operator, Any], Any]) -> Any:
    """Set the facet ``make(operator, fn)`` and return a handle; without ``fn``, return a decorator."""
    operator = op if isinstance(op, Operator) else registry.find(name_of(op))
    return as_decorator(lambda function: set_facet(operator, make(operator, function)), fn)


def check_functions(operator: Operator, **given: Any) -> None:
    """Raise unless these are functions; ``setup_context`` may be None."""
    for what, value in given.items():
        if not callable(value) and not (what == "setup_context" and value is None):
            raise RegistrationError(
                f"[{operator.name}] {what} is a function, got {value!r} of type {type(value).__name__}."
            )


def _check_setup(operator: Operator, setup_context: Any) -> None:
    if setup_context is not None:
        keywords = ["keyword_only_inputs"] if any(a.kwarg_only for a in operator.schema.arguments) else []
        check_call(operator, "setup_context", setup_context, ("ctx", "inputs", *keywords, "output"))


def check_call(
    operator: Operator | FunctionSchema, what: str, function: Any, given: tuple[str, ...], keywords: Iterable[str] = ()
) -> None:
    """Raise unless ``function`` can be called with these arguments; functions without a signature pass."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    keywords = tuple(keywords)
    try:
        signature.bind(*given, **dict.fromkeys(keywords))
    except TypeError as error:
        called = ", ".join((*given, *[f"{name}={name}" for name in keywords]))
        raise RegistrationError(
            f"[{operator.name}] {what} at {function_site(function)} has the signature {signature} and is called "
            f"as {what}({called}): {error}. Give it these parameters."
        ) from None


def _change_facet(operator: Operator, name: str, new: Any) -> None:
    """Set or remove a facet and let the layers act on it; a failure restores the previous facet."""

    def put(facet: Any) -> None:
        operator.facets.pop(name, None)
        if facet is not None:
            operator.facets[name] = facet

    before = operator.facets.get(name)
    put(new)
    if registry.operators.get(operator.name) is not operator:  # removed or replaced: no layer has installed it
        return
    try:
        registry.reinstall(operator)
    except BaseException:
        put(before)
        registry.reinstall(operator)
        raise


def set_facet(operator: Operator, facet: Any) -> Handle:
    """Set a facet, replacing an earlier one of its kind; the handle removes only this one."""
    name = type(facet).__name__

    def remove() -> None:
        with registry.lock:
            if operator.facets.get(name) is facet:
                _change_facet(operator, name, None)

    with registry.lock:
        _change_facet(operator, name, facet)
    return Handle(remove, f"{name.lower()} of {operator.name}")
