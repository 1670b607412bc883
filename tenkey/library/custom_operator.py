"""``custom_op``: define an operator by a Python function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar, overload

from ..dispatch.diagnostics.registration_checks import check_signature
from ..dispatch.diagnostics.sites import caller_site, function_site
from ..dispatch.errors import RegistrationError
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import StateGuard, current_state
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import FunctionSchema, parse_schema
from ..dispatch.tags import Tag
from ..ops.declare.facets import autocast_policy
from .derivatives import backward_facet, batch_facet, forward_facet, register_autocast, register_facet, set_facet
from .registration import (
    _RESERVED,
    _RESERVED_NAMESPACES,
    _one_or_several,
    as_decorator,
    key_for,
    make_kernel,
    register_fake,
    register_kernel,
    tags_of,
)
from .schema_inference import infer

__all__ = ["CustomOperator", "custom_op"]


_Function = TypeVar("_Function", bound=Callable[..., Any])


class CustomOperator:
    """An operator made by :func:`custom_op`: callable like the function, with methods for further registrations."""

    def __init__(self, function: Callable[..., Any], operator: Operator) -> None:
        functools.update_wrapper(self, function)
        self.operator = operator
        self._call = operator.call
        self._switched: set[DispatchKey] = set()
        try:
            self.__signature__ = inspect.signature(function)
        except (TypeError, ValueError):
            self.__signature__ = inspect.signature(operator.call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self._call(*args, **kwargs)

    @overload
    def register_kernel(self, device: Any, fn: None = None) -> Callable[[_Function], _Function]: ...

    @overload
    def register_kernel(self, device: Any, fn: Callable[..., Any]) -> Handle: ...

    def register_kernel(self, device: Any, fn: Callable[..., Any] | None = None) -> Any:
        """Register a kernel for one or more devices; without ``fn``, return a decorator, otherwise a handle."""
        devices = list(device) if isinstance(device, (list, tuple)) else [device]

        def register(function: Callable[..., Any]) -> Handle:
            with ExitStack() as stack:
                for one in devices:
                    stack.callback(register_kernel(self.operator.name, one, function).remove)
                remove = stack.pop_all().close
            if self._switched:
                with registry.lock:
                    self._switch_kernels()
            return Handle(remove, f"kernel of {self.operator.name} for {', '.join(map(str, devices))}")

        return as_decorator(register, fn)

    def register_fake(self, fn: _Function) -> _Function:
        """Register the operator's result for tensors without values."""
        register_fake(self.operator.name, fn)
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., Any] | None = None
    ) -> Handle:
        """Give the operator a gradient, replacing an earlier one (see :func:`tenkey.library.register_autograd`)."""
        return set_facet(self.operator, backward_facet(self.operator, backward, setup_context))

    def register_jvp(self, fn: Callable[..., Any], *, setup_context: Callable[..., Any] | None = None) -> Handle:
        """Give the operator a forward derivative (see :func:`tenkey.library.register_jvp`)."""
        return set_facet(self.operator, forward_facet(self.operator, fn, setup_context))

    @overload
    def register_vmap(self, fn: None = None) -> Callable[[_Function], _Function]: ...

    @overload
    def register_vmap(self, fn: Callable[..., Any]) -> Handle: ...

    def register_vmap(self, fn: Callable[..., Any] | None = None) -> Any:
        """Give the operator a vmap rule (see :func:`tenkey.library.register_vmap`); also a decorator."""
        return register_facet(self.operator, fn, batch_facet)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> Handle:
        """Set the dtype that autocast converts the floating tensors of a call to, on one type of device."""
        return register_autocast(self.operator, device_type, cast_inputs)

    def set_kernel_enabled(self, device: Any, enabled: bool = True) -> StateGuard:
        """Return a context manager that disables or enables the kernels for a device, for this thread and task.

        Without them a call goes to the next kernel, for example to the function of a ``custom_op`` for all devices.

        >>> op = tk.library.custom_op("docs::two_ways", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
        >>> handle = op.register_kernel("cpu", lambda x: x + 10)
        >>> with op.set_kernel_enabled("cpu", False):
        ...     op(tk.asarray(1.0)).item()
        2.0
        >>> op(tk.asarray(1.0)).item()
        11.0
        """
        key = key_for(self.operator.name, device)
        with registry.lock:
            self._switched.add(key)
            self._switch_kernels()
        return StateGuard(value=_Switch((self.operator.name, key), enabled))

    def _switch_kernels(self) -> None:
        """Give the kernels of all switched keys a condition, including those registered since."""
        for key in self._switched:
            for kernel in self.operator.kernels.get(key, ()):
                if kernel.when.__class__ is not _IsEnabled and not kernel.is_fallthrough:
                    _switch_kernel(kernel)
        self.operator.invalidate()

    def __repr__(self) -> str:
        return f"<custom operator {self.operator.schema}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_find, (self.operator.name,))


class _Switch(NamedTuple):
    """A value of the local state: the kernels of an operator for one key are enabled or disabled."""

    place: tuple[str, DispatchKey]
    enabled: bool


class _IsEnabled:
    """The condition (``when=``) of a kernel that ``set_kernel_enabled`` was ever called for."""

    def __init__(self, kernel: Kernel, when: Callable[..., bool] | None) -> None:
        self._place = (kernel.operator, kernel.key)
        self._when = when

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        for value in reversed(current_state().values):
            if value.__class__ is _Switch and value.place == self._place:
                if not value.enabled:
                    return False
                break
        return self._when is None or self._when(*args, **kwargs)


def _switch_kernel(kernel: Kernel) -> None:
    when, specialize = kernel.when, kernel.specialize_when
    if when is None:  # tried after all kernels that had a condition; explicit kernels before generated ones
        kernel.priority = -sys.maxsize + (kernel.origin == "explicit")
    kernel.when = _IsEnabled(kernel, when)
    if specialize is not None:
        kernel.specialize_when = lambda operator, word: _IsEnabled(kernel, specialize(operator, word))


def _find(name: str) -> CustomOperator:
    found: CustomOperator = registry.find(name).notes[CustomOperator]
    return found


@overload
def custom_op(
    name: str,
    fn: None = None,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Iterable[str] | None = None,
    schema: str | None = None,
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
) -> Callable[[Callable[..., Any]], CustomOperator]: ...


@overload
def custom_op(
    name: str,
    fn: Callable[..., Any],
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Iterable[str] | None = None,
    schema: str | None = None,
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
) -> CustomOperator: ...


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Iterable[str] | None = None,
    schema: str | None = None,
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
) -> Any:
    """Define an operator by a Python function; without ``fn``, return a decorator.

    Args: name: ``"namespace::name"``; mutates_args: the names of the tensors that the function changes, ``()`` for
    none, ``"unknown"`` for all; device_types: the devices that the function supports (default: all); schema: replaces
    the schema inferred from the annotations, without the name; autocast, tags: those of :meth:`Library.define`;
    autocast is off inside the function. A second definition with the same name replaces the operator.

    A function that draws random numbers takes them from the functions of ``tk.random``, in the tag
    ``nondeterministic``: they follow ``tk.random.seed`` on every device, and ``opcheck`` can fix them.

    Raises SchemaError for annotations that a schema cannot express, RegistrationError for an invalid or used name.

    >>> @tk.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: tk.Tensor) -> tk.Tensor:
    ...     return x * x * x
    >>> _ = cube.register_autograd(
    ...     lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    ... )
    >>> x = tk.tensor(2.0, requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad.item()
    12.0
    """
    site = caller_site()

    def make(function: Callable[..., Any]) -> CustomOperator:
        namespace, separator, _ = str(name).partition("::")
        if not separator:
            raise RegistrationError(f"[custom_op] the name must be 'namespace::name', got {name!r}.")
        if namespace in _RESERVED_NAMESPACES:
            raise RegistrationError(_RESERVED.format(namespace=namespace))
        facets: dict[str, Any] = {}
        if schema is None:
            inferred = infer(function, mutates_args=mutates_args)
            parsed = parse_schema(f"{name}{inferred.text}")
            if inferred.structure.is_needed:
                facets["Structure"] = inferred.structure
        else:
            text: object = schema
            if not isinstance(text, str) or not text.lstrip().startswith("("):
                raise RegistrationError(
                    f"[{name}] schema= is the text of a schema without the name, such as '(Tensor x) -> Tensor', "
                    f"got {schema!r} of type {type(schema).__name__}."
                )
            parsed = parse_schema(f"{name}{schema}")
            _check_mutated(parsed, mutates_args)
        if autocast is not None:
            facets["Autocast"] = autocast_policy(parsed, autocast)
        kernels = [make_kernel(name, function, key_for(name, device)) for device in _devices(name, device_types)]
        for kernel in kernels:
            kernel.site = function_site(function)
            check_signature(function, parsed, with_keyset=False, site=kernel.site)
        every_tag = (Tag.CUSTOM_OP, *tags_of(parsed.name, tags))
        return define_custom(
            parsed, kernels, facets=facets, tags=every_tag, site=site, doc=function.__doc__, function=function
        )

    return make if fn is None else make(fn)


def define_custom(
    schema: FunctionSchema,
    kernels: Iterable[Kernel],
    *,
    facets: dict[str, Any],
    site: str,
    doc: str | None,
    tags: Iterable[str] = (),
    function: Callable[..., Any] | None = None,
) -> CustomOperator:
    """Define an operator with its kernels, replacing an earlier custom one of the same name.

    ``function`` provides its name and signature (default: the entry of the operator).
    """
    name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
    with registry.lock:
        previous = registry.operators.get(name)
        if previous is not None and CustomOperator not in previous.notes:
            raise RegistrationError(
                f"[{name}] is defined already at {previous.site}, and not by custom_op: choose another name."
            )
        operator = registry.define(
            schema, facets=facets, tags=tags, kernels=kernels, replace=[name], site=site, doc=doc
        )
        made = operator.notes[CustomOperator] = CustomOperator(function or operator.call, operator)
    return made


def _check_mutated(schema: FunctionSchema, mutates_args: str | Iterable[str]) -> None:
    """Raise if ``mutates_args`` names an argument that a given schema does not mark."""
    names = _one_or_several(
        mutates_args,
        f"[{schema.name}] mutates_args must be 'unknown' or the names of arguments",
        ". Give the names of the tensors that the function changes, () or 'unknown'.",
    )
    marked = [a.name for a in schema.arguments if a.is_mutable]
    wrong = [name for name in names if name not in marked and name != "unknown"]
    if wrong:
        raise RegistrationError(
            f"[{schema.name}] mutates_args names {', '.join(map(repr, wrong))}, which the schema does not mark as "
            f"written to: write 'Tensor(a!) x' in {schema}."
        )


def _devices(name: str, device_types: str | Iterable[str] | None) -> list[str]:
    if device_types is None:
        return ["default"]
    rule = f"[{name}] device_types is a device such as 'cpu', or several, or None for all"
    return _one_or_several(device_types, rule)
