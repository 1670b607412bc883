"""Anomaly mode: find the call that produced a NaN or an infinity, forward or backward, and the call behind an error.

While the mode is on, the key ``Anomaly`` is included in every call. Its kernel is above autograd: it calls the next
kernel and records the current place in the program, on new nodes and for memory that was changed (Note [Traces]). It
also checks the results: a call that returns a NaN although its arguments have none is an error. The engine asks for the
mode once per backward, and then checks the results of every node. Calls outside the mode pay nothing. Guarded by
``tests/autograd/test_anomaly.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.tensor import Tensor
from ..core.tree import flatten, tensors_in
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import Wrapper
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import StateGuard, current_state, get_state, switched
from ..dispatch.operator import Operator
from ..ops.builtin.elementwise.comparison import isfinite, isinf, isnan
from ..ops.builtin.reductions.reduction import all as all_
from ..ops.builtin.reductions.reduction import any as any_
from .tape.node import Node

__all__ = ["ANOMALY", "anomaly_mode", "install_anomaly", "label_here", "watcher"]

ANOMALY: Final = DispatchKey.Anomaly.mask


class Options(NamedTuple):
    """The checks of an anomaly mode."""

    check_nan: bool
    check_inf: bool
    check_forward: bool
    check_backward: bool


_backward: ContextVar[bool] = ContextVar("tenkey_anomaly_in_backward", default=False)
_NOTHING: Final = Options(False, False, False, False)


class anomaly_mode(StateGuard):
    """Find the operation behind a NaN, an infinity, or an error in backward; context manager and decorator.

    In the mode every recorded node knows where in the program it was made. An error in backward then carries the
    traceback of the forward call, and the error for a saved tensor that was changed in place names the lines that saved
    and changed it. A NaN raises RuntimeError where it arises: in backward, when a node returns one; in forward, when a
    call returns one although its arguments have none.

    Args: check_nan, check_inf: which values are errors; check_forward, check_backward: where they are checked. The
    mode is local to the thread or task, and applies to backward() calls made in it.

    >>> x = tk.tensor(0.0, requires_grad=True)
    >>> with tk.autograd.anomaly_mode():
    ...     y = tk.sqrt(x * 0.0)
    ...     y.backward()  # infinity times 0
    Traceback (most recent call last):
      ...
    RuntimeError: [MultiplyBackward] Function 'MultiplyBackward' returned nan values in its 0th output: ...
    """

    def __init__(
        self,
        check_nan: bool = True,
        check_inf: bool = False,
        *,
        check_forward: bool = True,
        check_backward: bool = True,
    ) -> None:
        options = Options(check_nan, check_inf, check_forward, check_backward)
        for name, value in options._asdict().items():
            if callable(value):
                raise TypeError(
                    f"[anomaly_mode] decorates a function, with parentheses: @anomaly_mode(); got {value!r}."
                )
            if not isinstance(value, bool):
                raise TypeError(f"[anomaly_mode] {name} must be a bool, got {value!r}.")
        super().__init__(include=ANOMALY, value=options)


def _current() -> Options:
    return next((value for value in reversed(current_state().values) if isinstance(value, Options)), _NOTHING)


def _found(tensor: Any, options: Options) -> str:
    """Return the kind of bad value in a tensor, "nan" or "inf", or "" if there is none."""
    if not isinstance(tensor, Tensor) or isinstance(tensor, Wrapper) or tensor.dtype.kind not in "fcV":
        return ""
    data = tensor._data
    if data.__class__ is np.ndarray:
        if np.isfinite(data).all():
            return ""
        if options.check_nan and np.isnan(data).any():
            return "nan"
        return "inf" if options.check_inf and np.isinf(data).any() else ""
    if data.device.backend is None:  # meta tensors have no values
        return ""
    restore = switched(exclude=REQUIRES_GRAD | ANOMALY)
    try:
        if all_(isfinite(tensor)).item():
            return ""
        if options.check_nan and any_(isnan(tensor)).item():
            return "nan"
        return "inf" if options.check_inf and any_(isinf(tensor)).item() else ""
    finally:
        restore()


def _check_forward(operator: Operator, out: Any, given: Any, options: Options) -> None:
    for nr, one in enumerate(flatten(out)):
        what = _found(one, options)
        if what and not any(_found(argument, options) for argument in flatten(given)):
            raise RuntimeError(
                f"[{operator.name}] returned {what} values in forward, and its arguments have none: its result {nr} "
                f"has shape {one.shape}, dtype {one.dtype}. If that is meant to be, switch the check off: "
                "anomaly_mode(check_forward=False)."
            )


_UNCHECKED: Final = frozenset(["tk::empty", "tk::empty_like", "tk::full_like"])  # any value is fine


def _specialize(operator: Operator, word: int) -> Callable[..., Any]:
    from .tape.call_sites import label, note_change

    inner = operator.cache[word & ~ANOMALY]
    mutated = [(i, a.name) for i, a in enumerate(operator.schema.arguments) if a.is_mutable]
    has_values = bool(operator.tensor_arguments) and operator.name not in _UNCHECKED

    def kernel(*args: Any, **kwargs: Any) -> Any:
        options = _NOTHING if _backward.get() else _current()
        checks = has_values and options.check_forward
        targets = [args[position] if position < len(args) else kwargs.get(name) for position, name in mutated]
        if checks and any(_found(target, options) for target in flatten(targets)):
            checks = False  # the value was there before
        out = inner(*args, **kwargs)
        for target in tensors_in(targets):
            if not isinstance(target, Wrapper):
                note_change(target, operator.name)
        for one in out if isinstance(out, (tuple, list)) else (out,):
            meta = getattr(one, "_autograd", None)
            if meta is not None and meta.node is not None:
                label(meta.node)
        if checks:
            others = [one for one in flatten((args, kwargs)) if not any(one is target for target in targets)]
            _check_forward(operator, out, others, options)
        return out

    return kernel


def label_here(node: Node) -> None:
    """Record the place of the current call on a node that no operator made, if the mode is on."""
    state = get_state()
    if state is not None and state.include & ANOMALY:
        from .tape.call_sites import label

        label(node)


def watcher() -> Callable[..., Any] | None:
    """Return the function that replaces ``node.apply`` in the mode, or None outside it."""
    state = get_state()
    if state is None or not state.include & ANOMALY:
        return None
    from .tape.call_sites import forward_trace

    options = _current()

    def watch(node: Node, *grads: Any) -> Any:
        before = _backward.get()
        try:  # Note [Interrupts of backward]
            _backward.set(True)
            results = node.apply(*grads)
        except Exception as error:
            error.add_note(f"Error detected in {node.name()}. {forward_trace(node)}")
            raise
        finally:
            _backward.set(before)
        if options.check_backward:
            for nr, result in enumerate(results):
                what = _found(result, options)
                if what:
                    name = node.name()
                    raise RuntimeError(
                        f"[{name}] Function '{name}' returned {what} values in its {nr}th output: the gradient of "
                        f"input {nr}, of shape {result.shape}, dtype {result.dtype}.\n{forward_trace(node)}"
                    )
        return results

    return watch


def install_anomaly(registry: Any) -> None:
    """Register the kernel of the key ``Anomaly`` for all operators."""
    registry.fallback(Kernel(_specialize, DispatchKey.Anomaly, boxed=True, origin="generated", specialize=_specialize))
