"""Tracing: from a Python function to an expression, including data-dependent branches.

Note [Branches by re-running]
    `if x > 0:` evaluates the truth value of the condition. During a trace the answer is a decision: the first run
    always answers True; each later run repeats a prefix of an earlier run's answers and flips the last True in it,
    until every path was taken. The results, joined from the leaves of this tree by `where`, are the function's value
    for any input. `and`, `or`, `not`, chained comparisons and the built-ins `max` and `min` work in the same way. On
    one path, a condition always has the same answer. The number of paths is limited, because a loop whose condition
    depends on an input has infinitely many.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from typing import Any, Final

from .expression import DECIDE, Expression, Operand, as_expression, constant, make, variable
from .operations import Kind
from .traversal import evaluate, indices, is_closed

__all__ = ["MAXIMUM_PATHS", "PlainTypeMaker", "ScalarFactory", "ScalarTraceError", "TypeMaker", "trace"]

MAXIMUM_PATHS: Final = 64

ScalarFactory = Callable[[Any], Callable[..., Any]]
"""`lambda T: lambda x, y: ...`. Contains `Any` because the parameters of lambdas cannot be annotated."""

_FORM: Final = "write it as scalar=lambda T: lambda {parameters}: ... with functions from tk.library.scalar."
_TOO_MANY_PATHS: Final = (
    "[{name}] the scalar function branches on its inputs in more than {limit} ways (a `while` loop whose condition "
    "depends on an input never ends here). Write choices as where(condition, a, b), and bound loops by Python numbers."
)
_NOT_DETERMINISTIC: Final = (
    "[{name}] the scalar function took other branches when it was run again: it must depend only on its parameters "
    "(no random numbers, no state)."
)


class ScalarTraceError(TypeError):
    """Raised for a scalar function that cannot be traced; the message names the operator and the remedy."""


class TypeMaker:
    """The `T` of `lambda T: lambda x: ...`: makes constants of the type in which the operator computes.

    `T(number)` is a constant; `T(condition)` is 1 or 0; `T(expression)` is the expression. The attributes `pi`, `e`,
    `inf` and `nan` are constants; `eps`, the spacing of numbers at 1, depends on the compute type.

    >>> T = TypeMaker()
    >>> print(T(2) * T.pi + T.eps)
    2 * 3.141592653589793 + eps
    """

    __slots__ = ()
    pi: Final = constant(math.pi)
    e: Final = constant(math.e)
    inf: Final = constant(math.inf)
    nan: Final = constant(math.nan)
    eps: Final = make("eps")

    def __call__(self, value: Operand) -> Expression:
        """Return the constant `value`, or the expression itself."""
        node = as_expression(value)
        return make("where", node, 1, 0) if node.kind == "boolean" else node


class PlainTypeMaker:
    """A `T` that runs a scalar function on plain Python floats, without a trace.

    >>> from tenkey.ops.scalar import exp
    >>> scalar = lambda T: lambda x: T(1) / (T(1) + exp(-x))
    >>> scalar(PlainTypeMaker())(0.0)
    0.5
    """

    __slots__ = ()
    pi: Final = math.pi
    e: Final = math.e
    inf: Final = math.inf
    nan: Final = math.nan
    eps: Final = sys.float_info.epsilon

    def __call__(self, value: float) -> float:
        """Return `value` as a float."""
        return float(value)


class _Path:
    """One run: the answers to repeat, and the decisions made so far."""

    def __init__(self, name: str, repeat: list[tuple[Expression, bool]]) -> None:
        self.name = name
        self.repeat = repeat
        self.taken: list[tuple[Expression, bool]] = []
        self.known: dict[Expression, bool] = {}

    def decide(self, condition: Expression) -> bool:
        if condition.operation == "logical_not":
            return not self.decide(condition.operands[0])
        if condition in self.known:
            return self.known[condition]
        if is_closed(condition):
            return bool(evaluate(condition, {}))
        position = len(self.taken)
        answer = True
        if position < len(self.repeat):
            expected, answer = self.repeat[position]
            if expected is not condition:
                raise ScalarTraceError(_NOT_DETERMINISTIC.format(name=self.name))
        elif position >= MAXIMUM_PATHS - 1:  # a path with n decisions implies n + 1 paths
            raise ScalarTraceError(_TOO_MANY_PATHS.format(name=self.name, limit=MAXIMUM_PATHS))
        self.taken.append((condition, answer))
        self.known[condition] = answer
        return answer


_Outputs = tuple[Expression, ...]


def trace(
    scalar: ScalarFactory, parameters: Sequence[str], *, name: str = "operator", booleans: Collection[str] = ()
) -> Expression | tuple[Expression, ...]:
    """Return the expression that `scalar(T)(*parameters)` computes, or a tuple of them if it returns a tuple.

    `parameters` names the variables in order; those in `booleans` are conditions. Branches on inputs become `where`
    (Note [Branches by re-running]). Raises ScalarTraceError, which names the operator `name`, for a function that
    cannot be traced, and ValueError for parameter names that are repeated or not identifiers.

    >>> from tenkey.ops.scalar import exp
    >>> print(trace(lambda T: lambda x: x if x > 0 else exp(x) - T(1), ["x"], name="elu"))
    where(x > 0, x, exp(x) - 1)
    """
    if len(set(parameters)) != len(parameters):
        raise ValueError(f"[{name}] parameter names must differ, got {list(parameters)}.")
    kinds: list[Kind] = ["boolean" if parameter in booleans else "number" for parameter in parameters]
    variables = [variable(parameter, kind) for parameter, kind in zip(parameters, kinds, strict=True)]
    function = _function(scalar, parameters, name)

    paths: list[tuple[list[tuple[Expression, bool]], _Outputs]] = []
    is_tuple = False
    repeat: list[tuple[Expression, bool]] = []
    while True:
        path = _Path(name, repeat)
        result = _run(function, variables, path, parameters)
        is_tuple = isinstance(result, tuple | list)
        outputs = tuple(_output(value, name) for value in (result if isinstance(result, tuple | list) else (result,)))
        if len(path.taken) < len(repeat):
            raise ScalarTraceError(_NOT_DETERMINISTIC.format(name=name))
        if paths and len(paths[0][1]) != len(outputs):
            raise ScalarTraceError(
                f"[{name}] the scalar function returns {len(paths[0][1])} value(s) on one branch and {len(outputs)} on "
                "another: every branch must return equally many values."
            )
        paths.append((path.taken, outputs))
        repeat = list(path.taken)
        while repeat and not repeat[-1][1]:
            repeat.pop()
        if not repeat:
            break
        repeat[-1] = (repeat[-1][0], False)
        if len(paths) >= MAXIMUM_PATHS:
            raise ScalarTraceError(_TOO_MANY_PATHS.format(name=name, limit=MAXIMUM_PATHS))
    joined = _join(paths, 0)
    taken = [parameter for parameter in parameters if parameter in indices(joined)]
    if taken:
        raise ValueError(f"[{name}] the parameter {taken[0]} has the name of an index variable: rename it.")
    return joined if is_tuple else joined[0]


def _function(scalar: ScalarFactory, parameters: Sequence[str], name: str) -> Callable[..., object]:
    """Return the inner function after checking its arity."""
    form = _FORM.format(parameters=", ".join(parameters))

    def no_factory(problem: str) -> ScalarTraceError:
        return ScalarTraceError(
            f"[{name}] scalar=... must be a function of T that returns a function, {problem}: {form}"
        )

    if not callable(scalar):
        raise no_factory(f"got {scalar!r}")
    function: Any
    try:
        function = scalar(TypeMaker())
    except Exception as error:
        raise no_factory(f"calling it with T raised {type(error).__name__}: {error}") from error
    if not callable(function) or isinstance(function, TypeMaker):
        shown = "T itself" if isinstance(function, TypeMaker) else repr(function)
        raise no_factory(f"it returned {shown}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in without a signature: a wrong arity fails in the call
        return function  # type: ignore[no-any-return]
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ScalarTraceError(
            f"[{name}] the scalar function takes {signature}, but the operator passes {len(parameters)} parameter(s) "
            f"({', '.join(parameters)}): {form}"
        ) from None
    return function  # type: ignore[no-any-return]


def _run(
    function: Callable[..., object], variables: list[Expression], path: _Path, parameters: Sequence[str]
) -> object:
    def run() -> object:
        DECIDE.set(path.decide)
        return function(*variables)

    try:
        return copy_context().run(run)
    except ScalarTraceError:
        raise
    except Exception as error:
        import traceback  # needed for errors only

        frames = traceback.extract_tb(error.__traceback__)
        frame = next((frame for frame in frames if frame.filename != __file__), frames[-1])  # the user's code
        form = _FORM.format(parameters=", ".join(parameters))
        raise ScalarTraceError(
            f"[{path.name}] the scalar function raised {type(error).__name__} at {frame.filename}:{frame.lineno}: "
            f"{error}\nIt runs on symbolic numbers, one element at a time: {form}"
        ) from error


def _output(value: object, name: str) -> Expression:
    try:
        return as_expression(value)
    except TypeError:
        raise ScalarTraceError(
            f"[{name}] the scalar function returned {repr(value)[:80]} of type {type(value).__name__}: it must return "
            "a scalar expression, a number, or a tuple of these."
        ) from None


def _join(paths: list[tuple[list[tuple[Expression, bool]], _Outputs]], depth: int) -> _Outputs:
    """Join the outputs of a subtree of decisions; its depth is at most MAXIMUM_PATHS, so recursion is safe."""
    if len(paths) == 1:
        return paths[0][1]
    condition = paths[0][0][depth][0]
    chosen = _join([path for path in paths if path[0][depth][1]], depth + 1)
    other = _join([path for path in paths if not path[0][depth][1]], depth + 1)
    return tuple(_choose(condition, a, b) for a, b in zip(chosen, other, strict=True))


def _choose(condition: Expression, chosen: Expression, other: Expression) -> Expression:
    """Return where(condition, chosen, other), as a logical operation if both are conditions."""
    if chosen is other:
        return chosen
    if chosen.kind == other.kind == "boolean":
        if other is condition or other is constant(False):  # condition and chosen
            return condition if chosen is constant(True) else make("logical_and", condition, chosen)
        if chosen is condition or chosen is constant(True):  # condition or other
            return make("logical_or", condition, other)
        if chosen is constant(False) and other is constant(True):
            return make("logical_not", condition)
    return make("where", condition, chosen, other)
