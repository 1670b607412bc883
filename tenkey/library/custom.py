"""``custom_op``: a Python function as an operator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..dispatch.errors import RegistrationError
from ..dispatch.kernel import Handle, caller_site, function_site
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import parse_schema
from .inference import infer_schema
from .registration import (
    _RESERVED,
    _RESERVED_NAMESPACES,
    key_for,
    make_kernel,
    register_autograd,
    register_fake,
    register_kernel,
)

__all__ = ["CustomOperator", "custom_op"]

_NAME: Final = "[custom_op] the name must be 'namespace::name', got {name!r}."
_NOT_CUSTOM: Final = "[{operator}] is defined already at {first}, and not by custom_op: choose another name."

_custom: dict[str, CustomOperator] = {}


class CustomOperator:
    """What :func:`custom_op` makes: callable like the function, with methods to register more about it."""

    def __init__(self, function: Callable[..., Any], operator: Operator) -> None:
        functools.update_wrapper(self, function)
        self.operator = operator
        self._call = operator.call
        self._function = function
        try:
            self.__signature__ = inspect.signature(function)
        except (TypeError, ValueError):
            self.__signature__ = inspect.signature(operator.call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def register_kernel(self, device: Any, fn: Callable[..., Any] | None = None) -> Any:
        """Register a kernel for one device or several; a decorator without ``fn``."""
        if isinstance(device, (list, tuple)):

            def register(function: Callable[..., Any]) -> Callable[..., Any]:
                for one in device:
                    register_kernel(self.operator.name, one, function)
                return function

            return register if fn is None else register(fn)
        return register_kernel(self.operator.name, device, fn)

    def register_fake(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Register what the operator gives for tensors without values."""
        register_fake(self.operator.name, fn)
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., Any] | None = None
    ) -> Handle:
        """Give the operator a gradient (see :func:`tenkey.library.register_autograd`); replaces an earlier one."""
        self.operator.facets.pop("Backward", None)
        return register_autograd(self.operator.name, backward, setup_context=setup_context)

    def __repr__(self) -> str:
        return f"<custom operator {self.operator.schema}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_find, (self.operator.name,))


def _find(name: str) -> CustomOperator:
    try:
        return _custom[name]
    except KeyError:
        registry.find(name)
        raise


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Iterable[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Make an operator of a Python function; a decorator without ``fn``.

    Args: name: ``"namespace::name"``; mutates_args: the names of the tensors that the function changes, ``()`` for
    none, ``"unknown"`` for all; device_types: the devices the function is for (all, if None); schema: instead of the
    one that the annotations give, without the name. Doing it again with the same name replaces the operator.

    Raises SchemaError for annotations that a schema cannot express, RegistrationError for a bad or taken name.

    >>> import tenkey as tk
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
        namespace, separator, _ = name.partition("::")
        if not separator:
            raise RegistrationError(_NAME.format(name=name))
        if namespace in _RESERVED_NAMESPACES:
            raise RegistrationError(_RESERVED.format(namespace=namespace))
        text = f"{name}{schema}" if schema is not None else infer_schema(function, mutates_args=mutates_args, name=name)
        parsed = parse_schema(text)
        keys = [key_for(name, d) for d in _devices(device_types)]
        with registry.lock:
            previous = registry.operators.get(name)
            if previous is not None:
                if name not in _custom:
                    raise RegistrationError(_NOT_CUSTOM.format(operator=name, first=previous.site))
                del registry.operators[name]
            try:
                operator = registry.define(parsed, site=site, doc=function.__doc__)
                for key in keys:
                    kernel = make_kernel(name, function, key)
                    kernel.specialize = None
                    kernel.site = function_site(function)
                    registry.impl(name, kernel)
            except BaseException:
                if name in registry.operators:
                    registry.undefine(registry.operators[name])
                if previous is not None:
                    registry.operators[name] = previous
                raise
            made = CustomOperator(function, operator)
            _custom[name] = made
        return made

    return make if fn is None else make(fn)


def _devices(device_types: str | Iterable[str] | None) -> list[str]:
    if device_types is None:
        return ["default"]
    return [device_types] if isinstance(device_types, str) else list(device_types)


