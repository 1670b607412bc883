"""Modes: objects that handle every operator call in a ``with`` block.

Note [What a mode costs]
~~~~~~~~~~~~~~~~~~~~~~~~
A mode is a bit in the local state: without one, no call runs a line of this module. With one, the word of a call has
the key ``Mode``, and the entry of the operator's cache for this word is specialized: it knows where the tensors are
among the arguments and which word lies below. The state without the innermost mode is part of the state with it
(``LocalState.outer``), so switching a mode off while its handler runs is one assignment. Guarded by
``tests/tiny/test_modes.py``; measured by ``python -m benchmarks.dispatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from .kernel import Kernel
from .keys import DispatchKey, word_below
from .local_state import LocalState, current_state, enter, get_state, leave, set_state, switched
from .operator import Operator
from .registry import Registry
from .schema import BaseType

__all__ = ["DispatchMode", "install_modes", "leaves", "tensor_types", "types_reader"]


class DispatchMode:
    """A base class: a subclass defines ``__tk_dispatch__`` to handle the operator calls in a ``with`` block.

    The innermost mode handles a call first and is inactive while its handler runs. The handler gets the operator, the
    types of the tensors among the arguments, the positional arguments as a tuple and the keyword arguments as a dict;
    its result is the result of the call. ``NotImplemented`` passes the call on to the next mode, and at last to the
    operator, for whose kernel all modes are active again: they handle the calls that it makes of other operators.

    >>> class Names(DispatchMode):
    ...     def __tk_dispatch__(self, op, types, args, kwargs):
    ...         print(op)
    ...         return op(*args, **kwargs)
    >>> with Names():
    ...     _ = tk.asarray([1.0]) + tk.asarray([2.0])
    tk::add
    """

    def __tk_dispatch__(self, op: Operator, types: tuple[type, ...], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Handle one call; the default passes it on."""
        return NotImplemented

    def run_within(self, op: Operator, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator from a handler, with this mode active for the calls that its kernel makes of others.

        The modes around this one handle the call first, as always; one of them may return the result instead.

        >>> class Nested(DispatchMode):
        ...     def __tk_dispatch__(self, op, types, args, kwargs):
        ...         print("begin", op)
        ...         result = self.run_within(op, *args, **kwargs)
        ...         print("end", op)
        ...         return result
        >>> with Nested():
        ...     _ = tk.matrix_transpose(tk.asarray([[1.0, 2.0]]))
        begin tk::matrix_transpose
        begin tk::permute_dims
        end tk::permute_dims
        end tk::matrix_transpose
        """
        found = state = get_state()
        types = tensor_types(args, kwargs)
        try:
            while state is not None and state.modes:
                mode, state = state.modes[-1], state.outer
                set_state(state)
                result = mode.__tk_dispatch__(op, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        finally:
            set_state(found)
        state = current_state()
        word = (op.call_word(args, kwargs) | state.include) & state.keep & ~DispatchKey.Mode.mask
        restore = switched(self, include=DispatchKey.Mode.mask, modes=(self,))
        try:
            return op.cache[word](*args, **kwargs)
        finally:
            restore()

    def __enter__(self) -> Self:
        enter(self, include=DispatchKey.Mode.mask, modes=(self,))
        return self

    __exit__ = leave


def leaves(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arguments of a call, and the items of those that are lists, tuples or dicts, in order."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from leaves(value)
        elif isinstance(value, dict):
            yield from leaves(value.values())
        else:
            yield value


def tensor_types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[type, ...]:
    """Return the types of the tensors among the arguments, in lists too, each once, in order."""
    return tuple(dict.fromkeys([type(x) for x in leaves((*args, *kwargs.values())) if hasattr(x, "_word")]))


def types_reader(operator: Operator) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[type, ...]]:
    """Return :func:`tensor_types` specialized for an operator: for one or two plain tensors it does not search."""
    arguments = operator.schema.arguments
    tensors = [i for i, a in enumerate(arguments) if a.type.contains_tensor]
    plain = all(arguments[i].type == BaseType("Tensor") and not arguments[i].kwarg_only for i in tensors)
    if not plain or len(tensors) not in (1, 2):
        return tensor_types
    first, last = tensors[0], tensors[-1]

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[type, ...]:
        if len(args) <= last:  # a redispatch may name its arguments
            return tensor_types(args, kwargs)
        one, other = args[first].__class__, args[last].__class__
        return (one,) if one is other else (one, other)

    return read


def _run_modes(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel of the key ``Mode``: it lets the modes handle the call, the innermost first."""
    below = word_below(word, DispatchKey.Mode)
    cache = operator.cache
    types_of = types_reader(operator)

    def run(*args: Any, **kwargs: Any) -> Any:
        found = get_state()
        if found is None or not found.modes:  # the key was included by a guard, without a mode
            return cache[below](*args, **kwargs)
        types = types_of(args, kwargs)
        state: LocalState | None = found
        try:
            while state is not None and state.modes:
                mode, state = state.modes[-1], state.outer
                set_state(state)
                result = mode.__tk_dispatch__(operator, types, args, kwargs)
                if result is not NotImplemented:
                    return result
            set_state(found)
            return cache[below](*args, **kwargs)
        finally:
            set_state(found)

    return run


def install_modes(registry: Registry) -> None:
    """Register the fallback of the key ``Mode``, which runs the stack of modes."""
    registry.fallback(Kernel(_run_modes, DispatchKey.Mode, boxed=True, origin="generated", specialize=_run_modes))
