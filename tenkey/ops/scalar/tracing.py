"""From a Python function to an expression, data-dependent branches included.

Note [Branches by re-running]
    `if x > 0:` asks the condition for its truth value. While a function is traced the answer is a decision: the
    first run answers True every time, later runs repeat a prefix of an earlier run's answers and flip the last True
    of it, until every path was taken. The results, joined from the leaves of that tree by `where`, are the function's
    value on any input. `and`, `or`, `not`, chained comparisons and the built-ins `max` and `min` ask in
    the same way.
    A condition that was decided on a path keeps its answer there. The number of paths is bounded: a loop whose
    condition depends on an input has no last path.
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
from .traversal import evaluate, is_closed

__all__ = ["MAXIMUM_PATHS", "PlainTypeMaker", "ScalarFactory", "ScalarTraceError", "TypeMaker", "trace"]

MAXIMUM_PATHS: Final = 64

ScalarFactory = Callable[[Any], Callable[..., Any]]
"""`lambda T: lambda x, y: ...`. `Any`: users write lambdas, whose parameters cannot be annotated."""

_FORM: Final = "write it as scalar=lambda T: lambda {parameters}: ... with functions from tk.library.scalar."
_NO_FACTORY: Final = "[{name}] scalar=... must be a function of T that returns a function, {problem}: " + _FORM
_WRONG_ARITY: Final = (
    "[{name}] the scalar function takes {signature}, but the operator hands it {count} parameter(s) ({parameters}): "
    + _FORM
)
_RAISED: Final = (
    "[{name}] the scalar function raised {error_type} at {place}: {error}\n"
    "It runs on symbolic numbers, one element at a time: " + _FORM
)
_UNEQUAL_OUTPUTS: Final = (
    "[{name}] the scalar function returns {first} on one branch and {second} on another: "
    "every branch must return equally many values."
)
_TOO_MANY_PATHS: Final = (
    "[{name}] the scalar function branches on its inputs in more than {limit} ways (a `while` loop whose condition "
    "depends on an input never ends here). Write choices as where(condition, a, b), and bound loops by Python numbers."
)
_NOT_DETERMINISTIC: Final = (
    "[{name}] the scalar function took other branches when it was run again: it must depend on its parameters alone "
    "(no random numbers, no state)."
)


class ScalarTraceError(TypeError):
    """A scalar function that cannot be traced; the text names the operator and the remedy."""


class TypeMaker:
    """The `T` of `lambda T: lambda x: ...`: makes constants of the type that the operator computes in.

    `T(number)` is a constant; `T(condition)` is 1 or 0; `T(expression)` is the expression. The attributes `pi`, `e`,
    `inf` and `nan` are constants; `eps`, the spacing of numbers at 1, becomes known when the compute type does.

    >>> T = TypeMaker()
    >>> print(T(2) * T.pi + T.eps)
    2 * 3.141592653589793 + eps
    """

    __slots__ = ()

    def __call__(self, value: Operand) -> Expression:
        """The constant `value`, or the expression itself."""
        node = as_expression(value)
        return make("where", node, 1, 0) if node.kind == "boolean" else node

    @property
    def pi(self) -> Expression:
        """The constant pi."""
        return constant(math.pi)

    @property
    def e(self) -> Expression:
        """Euler's number."""
        return constant(math.e)

    @property
    def inf(self) -> Expression:
        """Positive infinity."""
        return constant(math.inf)

    @property
    def nan(self) -> Expression:
        """Not a number."""
        return constant(math.nan)

    @property
    def eps(self) -> Expression:
        """The spacing of numbers at 1 in the compute type."""
        return make("eps")


class PlainTypeMaker:
    """A `T` for running a scalar function on plain Python floats, without a trace.

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
        """`value` as a float."""
        return float(value)


class _Path:
    """One run: the answers to repeat, and the decisions taken so far."""

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
    """The expression that `scalar(T)(*parameters)` computes, or a tuple of them if it returns a tuple.

    `parameters` names the variables in order; those in `booleans` are conditions. Branches on inputs become `where`
    (Note [Branches by re-running]). ScalarTraceError, which names the operator `name`, for anything that cannot be
    traced; ValueError for names that are repeated or no identifiers.

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
                _UNEQUAL_OUTPUTS.format(name=name, first=f"{len(paths[0][1])} value(s)", second=f"{len(outputs)}")
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
    return joined if is_tuple else joined[0]


def _function(scalar: ScalarFactory, parameters: Sequence[str], name: str) -> Callable[..., object]:
    """The inner function, its arity checked."""
    listed = ", ".join(parameters)

    def no_factory(problem: str) -> ScalarTraceError:
        return ScalarTraceError(_NO_FACTORY.format(name=name, problem=problem, parameters=listed))

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
    except (TypeError, ValueError):  # a built-in without a signature: the call itself will tell
        return function  # type: ignore[no-any-return]
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ScalarTraceError(
            _WRONG_ARITY.format(name=name, signature=signature, count=len(parameters), parameters=listed)
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
        import traceback  # errors alone need it

        frame = traceback.extract_tb(error.__traceback__)[-1]
        for candidate in traceback.extract_tb(error.__traceback__):
            if candidate.filename != __file__:  # the first frame that is the user's
                frame = candidate
                break
        raise ScalarTraceError(
            _RAISED.format(
                name=path.name,
                error_type=type(error).__name__,
                place=f"{frame.filename}:{frame.lineno}",
                error=error,
                parameters=", ".join(parameters),
            )
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
    """The outputs of a subtree of decisions; it is at most MAXIMUM_PATHS deep, so recursion is safe."""
    if len(paths) == 1:
        return paths[0][1]
    condition = paths[0][0][depth][0]
    chosen = _join([path for path in paths if path[0][depth][1]], depth + 1)
    other = _join([path for path in paths if not path[0][depth][1]], depth + 1)
    return tuple(_choose(condition, a, b) for a, b in zip(chosen, other, strict=True))


def _choose(condition: Expression, chosen: Expression, other: Expression) -> Expression:
    """where(condition, chosen, other), in the words of logic if these are conditions themselves."""
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
