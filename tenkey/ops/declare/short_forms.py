"""Short forms of the declaration functions for the most common blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ...dispatch.tags import Tag
from .. import scalar
from .declaration import Entry, composite, pointwise, structured
from .promotion import INT_TO_FLOAT, REAL_TO_FLOAT, Promotion

__all__ = ["elementwise", "internal", "internal_composite", "internal_function", "scalar_function", "unary_function"]


def scalar_function(
    name: str,
    doc: str,
    arguments: tuple[str, ...] = ("x",),
    *,
    promote: Promotion = INT_TO_FLOAT,
    methods: Iterable[str] | None = None,
    inplace: bool = True,
    **options: Any,
) -> Entry:
    """Declare the function ``name`` of ``tenkey.library.scalar`` as an operator of tensors.

    By default it is also a method of Tensor with the same name, and has an in-place variant. ``options`` are the other
    options of ``pointwise``.
    """
    return pointwise(
        f"{name}({', '.join([f'Tensor {argument}' for argument in arguments])}) -> Tensor",
        scalar=lambda T: getattr(scalar, name),
        promote=promote,
        methods=(name,) if methods is None else methods,
        tags=(Tag.INPLACE,) if inplace else (),
        doc=doc,
        **options,
    )


def internal_function(
    signature: str, function: Callable[..., Any], doc: str, *, promote: Promotion, **options: Any
) -> Entry:
    """Declare a function of scalar expressions as an operator that the compositions of others consist of."""
    return pointwise(
        f"{signature} -> Tensor",
        scalar=lambda T: function,
        promote=promote,
        differentiable=False,
        tags=(Tag.INTERNAL, Tag.DERIVED),
        doc=doc,
        **options,
    )


def internal(schema: str, *, tags: Iterable[str] = (), **options: Any) -> Entry:
    """Declare an operator that others are composed of, like ``structured``; only ``vjp`` makes it differentiable."""
    return structured(schema, differentiable="vjp" in options, tags=(Tag.INTERNAL, *tags), **options)


def internal_composite(schema: str, **options: Any) -> Callable[[Callable[..., Any]], Entry]:
    """Declare a step of compositions that is itself a composition, like ``composite``."""
    return composite(schema, tags=(Tag.INTERNAL,), **options)


def unary_function(name: str, summary: str, examples: dict[float, float], note: str = "", **options: Any) -> Entry:
    """Declare a scalar function of one argument, whose documentation shows its results for the ``examples``."""
    paragraph = f"\n    {note}\n" if note else ""
    doc = f"""{summary}
{paragraph}
    >>> tk.{name}(tk.asarray({list(examples)})).tolist()
    {list(examples.values())}
    """
    return scalar_function(name, doc, **options)


def elementwise(*, promote: Promotion = REAL_TO_FLOAT, **options: Any) -> Callable[[Callable[..., Any]], Entry]:
    """Declare a function of ``T`` and of scalar expressions as an operator, by decorating it.

    The operator has its name and docstring. The parameters after ``T`` are tensors, or floats if they have defaults.
    ``options`` are the other options of ``pointwise``.
    """

    def decorate(function: Callable[..., Any]) -> Entry:
        names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        tensors = len(names) - len(defaults)
        arguments = [f"Tensor {name}" for name in names[:tensors]]
        arguments += [f"float {name}={default}" for name, default in zip(names[tensors:], defaults)]
        return pointwise(
            f"{function.__name__}({', '.join(arguments)}) -> Tensor",
            scalar=lambda T: functools.partial(function, T),
            promote=promote,
            doc=function.__doc__,
            **options,
        )

    return decorate
