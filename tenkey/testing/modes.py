"""Dispatch modes for tests; each is also an example of a short mode (:class:`tenkey.dispatch.DispatchMode`).

All of them also see the calls inside composite operators: their handlers pass a call on (``NotImplemented``), or run
the operator by ``run_within`` if they need its result.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from ..backends.external import strict_fallback
from ..core.tensor import Tensor
from ..core.tree import flatten
from ..dispatch.modes import DispatchMode
from ..dispatch.operator import Operator
from ..dispatch.tags import Tag
from ..ops.scalar.expression import topological_order

__all__ = ["CallTrace", "DeterministicCheck", "FlopCounter", "OperatorCounter", "StrictFallback"]


class CallTrace(DispatchMode):
    """Collect the calls as a tree of ``(name, arguments, inner calls)``; ``str(trace)`` formats it.

    >>> with CallTrace() as trace:
    ...     _ = tk.matrix_transpose(tk.ones((2, 3)))
    >>> print(trace)
    tk::ones((2, 3), dtype=None, device=None) -> float32(2, 3)
    tk::matrix_transpose(float32(2, 3)) -> float32(3, 2)
      tk::permute_dims(float32(2, 3), (1, 0)) -> float32(3, 2)
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, list[Any]]] = []

    def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
        """Add a branch, and collect inner calls while the operator runs."""
        outer, text = self.calls, ", ".join([*map(_short, args), *[f"{k}={_short(v)}" for k, v in kwargs.items()]])
        inside: list[Any] = []
        self.calls = inside
        try:
            result = self.run_within(op, *args, **kwargs)
            text = f"({text}) -> {_short(result)}"
        except BaseException as error:
            text = f"({text}) raised {type(error).__name__}"
            raise
        finally:
            self.calls = outer
            outer.append((op.name, text, inside))
        return result

    def __str__(self) -> str:
        def lines(calls: list[Any], indent: str) -> list[str]:
            return [x for name, text, inside in calls for x in (f"{indent}{name}{text}", *lines(inside, indent + "  "))]

        return "\n".join(lines(self.calls, ""))


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype}{value.shape}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return f"[{', '.join(map(_short, value))}]"
    return str(value) if isinstance(value, np.dtype) else repr(value)


class OperatorCounter(DispatchMode):
    """Count the calls of each operator in ``counts``, including those in composite operators.

    >>> with OperatorCounter() as counter:
    ...     _ = tk.exp(tk.ones(2)) + tk.exp(tk.zeros(2))
    >>> counter.counts["tk::exp"], counter.counts["tk::add"]
    (2, 1)
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of all calls."""
        return self.counts.total()

    def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
        """Count the call and pass it on."""
        self.counts[op.name] += 1
        return NotImplemented


class FlopCounter(DispatchMode):
    """Count floating-point operations in ``total`` and by operator in ``flops``.

    A matrix product of (m, k) by (k, n) counts 2 m n k, a pointwise operator its arithmetic operations and functions
    times the elements of the result, a reduction one for each element it reads. Composite operators count their parts;
    all other operators count nothing.

    >>> with FlopCounter() as counter:
    ...     _ = tk.ones((2, 3)) @ tk.ones((3, 4)) + 1
    >>> counter.flops["tk::matmul"], counter.flops["tk::add"], counter.total
    (48, 8, 56)
    """

    def __init__(self) -> None:
        self.flops: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """The number of all operations."""
        return self.flops.total()

    def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
        """Run the operator, and count by its declaration."""
        result = self.run_within(op, *args, **kwargs)
        if op.name == "tk::matmul":
            self.flops[op.name] += 2 * math.prod(result.shape) * args[0].shape[-1]
        elif "Pointwise" in op.facets:
            nodes = topological_order([op.facets["Pointwise"].expression])
            per_element = sum(node.operation not in ("variable", "constant", "eps") for node in nodes)
            self.flops[op.name] += per_element * math.prod(result.shape)
        elif "Reduce" in op.facets:
            self.flops[op.name] += math.prod(args[0].shape)
        return result


class DeterministicCheck(DispatchMode):
    """Run every call twice and raise RuntimeError, naming the operator, unless the results are bitwise equal.

    Operators that change an argument and those tagged ``nondeterministic``, such as ``tk::empty``, run once.

    >>> with DeterministicCheck():
    ...     tk.sum(tk.ones(3)).item()
    3.0
    """

    def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
        """Run the operator twice and compare."""
        result = self.run_within(op, *args, **kwargs)
        left_out = op.schema.is_mutable or Tag.NONDETERMINISTIC in op.tags
        if not left_out and _bits(result) != _bits(op(*args, **kwargs)):
            raise RuntimeError(
                f"[{op.name}] gave different results for the same arguments in two runs, called "
                f"with {', '.join(map(_short, args)) or 'nothing'}. If that is intended, give it the tag "
                "'nondeterministic'."
            )
        return result


def _bits(value: Any) -> Any:
    """Return a value that is equal for bitwise equal results."""

    def bits(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return repr(leaf)
        values = b"" if leaf.device.type == "meta" else leaf.detach()._values("DeterministicCheck").tobytes()
        return leaf.shape, str(leaf.dtype), str(leaf.device), values

    return [bits(leaf) for leaf in flatten(value)]


class StrictFallback(DispatchMode):
    """Raise an error if an external backend has no kernel and would fall back to the CPU.

    >>> with StrictFallback():
    ...     tk.exp(tk.zeros(1)).item()
    1.0
    """

    def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
        """Run the operator with fallbacks forbidden."""
        with strict_fallback():
            return self.run_within(op, *args, **kwargs)
