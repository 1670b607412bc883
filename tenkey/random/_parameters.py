"""Parameters, shapes and dtypes of distributions, and the numbers that a call draws from its generator.

Note [A refused draw takes no numbers]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Parameters are checked before numbers are drawn from a generator, and a later failure returns the numbers
(``Generator.reserved``). So an invalid call does not change the sequence. Guarded by
test_random.py::test_bad_input_leaves_the_generator_unchanged.
"""

from __future__ import annotations

import functools
import math
import operator as _operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias

import numpy as np

from ..core.device import to_device
from ..core.dtypes import names as dtypes
from ..core.random.generator import Generator, default_generator
from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..dispatch.errors import shown
from ..functions.creation import asarray
from ..ops.builtin.creation import full
from ..ops.builtin.shape.copying import astype
from ..ops.declare.leaf import as_leaf, check_flag
from ._operators import check_values, random_addresses, random_checked, random_standard

_Given = ParamSpec("_Given")

Shape: TypeAlias = int | Sequence[int] | None
Parameter: TypeAlias = Any
"""A number, a tensor, or data for ``tk.asarray``."""

_KIND: Final = "[{operator}] {name} must be a real number or a tensor of real numbers, got {value}."


class Plan(NamedTuple):
    """The shape, dtype and device of a draw."""

    shape: tuple[int, ...]
    dtype: np.dtype
    device: Any
    moves: bool = False  # the device was given: parameters are moved there

    def counted(self, operator: str, drawn: Tensor) -> Tensor:
        """Return counts in the dtype of the result; raise ValueError where they do not fit, instead of wrapping."""
        if self.dtype.kind in "iu" and self.dtype.itemsize < 8:
            drawn = random_checked(drawn, caller=operator, name="every count drawn", rule=self.dtype.name)
        return self.cast(drawn)  # type: ignore[no-any-return]

    def cast(self, parameter: Any) -> Any:
        """Return a parameter in the dtype and on the device of the result; numbers are unchanged."""
        if isinstance(parameter, Tensor) and parameter.dtype != self.dtype:
            parameter = astype(parameter, self.dtype)
        return self.move(parameter)

    def move(self, parameter: Any) -> Any:
        """Return a parameter on the device of the result, if that was given."""
        if self.moves and isinstance(parameter, Tensor) and parameter.device is not self.device:
            return parameter.to(self.device)
        return parameter


def public_draw(function: Callable[_Given, Tensor]) -> Callable[_Given, Tensor]:
    """Explain arguments that do not fit, and implement ``requires_grad=``, which only the signature has."""
    call = public(function, "tenkey.random")

    @functools.wraps(call)
    def draw(*args: _Given.args, **kwargs: _Given.kwargs) -> Tensor:
        requires_grad = kwargs.pop("requires_grad", False)
        if requires_grad is False:
            return call(*args, **kwargs)
        check_flag(function.__name__, requires_grad)  # before numbers are drawn
        return as_leaf(function.__name__, call(*args, **kwargs).detach(), requires_grad)

    return draw


def sizes_of(operator: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of lengths. Raises TypeError and ValueError for an invalid shape."""
    try:
        sizes = tuple([_operator.index(n) for n in ((shape,) if hasattr(shape, "__index__") else shape)])
    except TypeError:
        raise TypeError(
            f"[{operator}] got the shape {shown(shape)}: a shape is an integer or a sequence of integers."
        ) from None
    if sizes and min(sizes) < 0:
        raise ValueError(f"[{operator}] a shape has no negative lengths, got {sizes}.")
    return sizes


@functools.lru_cache(maxsize=256, typed=True)  # of the numbers that are good: programs repeat the same
def _check_number(operator: str, name: str, rule: str, number: float) -> None:
    try:
        check_values(operator, name, rule, np.float64(number))
    except OverflowError:
        raise ValueError(f"[{operator}] {name} is out of the range of float64.") from None


def parameter(operator: str, name: str, value: Any, rule: str) -> Any:
    """Return a Python number or a tensor after checking that its values follow the rule (see ``check_values``)."""
    if value.__class__ is float or value.__class__ is int:
        _check_number(operator, name, rule, value)
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(_KIND.format(operator=operator, name=name, value=value))
    if isinstance(value, (int, float, np.floating, np.integer)):
        number = value if isinstance(value, (int, float)) else value.item()
        _check_number(operator, name, rule, number)
        return number
    if not isinstance(value, Tensor):
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise TypeError(_KIND.format(operator=operator, name=name, value=type(value).__name__))
        value = asarray(value)
    if not (value.dtype.kind in "iu" or dtypes.is_real_floating(value.dtype)):
        raise TypeError(_KIND.format(operator=operator, name=name, value=f"dtype {value.dtype}"))
    return random_checked(value, caller=operator, name=name, rule=rule)


def make_plan(
    operator: str, shape: Any, dtype: Any, device: Any, *parameters: Any, counts: bool = False, core: int = 0
) -> Plan:
    """Return the plan of a draw with these parameters, whose last ``core`` axes do not broadcast."""
    tensors = [p for p in parameters if isinstance(p, Tensor)]
    shapes = [t.shape[: t.ndim - core] for t in tensors]
    try:
        common = np.broadcast_shapes(*shapes) if shapes else ()
    except ValueError:
        raise ValueError(
            f"[{operator}] parameters of the shapes {', '.join(map(str, shapes))} do not broadcast with one another."
        ) from None
    sizes = common if shape is None else sizes_of(operator, shape)
    if shape is not None and tensors:
        try:
            fits = np.broadcast_shapes(sizes, common) == sizes
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"[{operator}] parameters of shape {common} do not broadcast to the shape {sizes}: leave out shape=, "
                "or give one that ends with theirs."
            )
    moves = device is not None
    if device is not None:
        device = to_device(device)
    elif tensors:
        device = tensors[0].device
    return Plan(sizes, _result_dtype(operator, dtype, tensors, counts), device, moves)


def _result_dtype(operator: str, dtype: Any, tensors: list[Tensor], counts: bool) -> np.dtype:
    if dtype is not None:
        chosen = dtypes.to_dtype(dtype)
        if not (dtypes.is_real_floating(chosen) or (counts and dtypes.is_integral(chosen))):
            kind, choice = ("counts", "an integer or floating point") if counts else ("real", "a floating point")
            raise TypeError(f"[{operator}] got dtype {chosen.name}: the numbers are {kind}, choose {choice} dtype.")
        return chosen
    if counts:
        return dtypes.int64
    floats = [t.dtype for t in tensors if dtypes.is_real_floating(t.dtype)]
    return max(floats, key=lambda d: d.itemsize) if floats else dtypes.default_float()


class numbers:
    """Give a ``with`` block seed, stream and start of a draw; see Note [A refused draw takes no numbers]."""

    __slots__ = ("_operator", "_reserved", "_shape")

    def __init__(self, operator: str, generator: Any, plan: Plan, per_element: int = 1) -> None:
        if generator is None:
            generator = default_generator()
        elif not isinstance(generator, Generator):
            raise TypeError(f"[{operator}] generator must be a tk.random.Generator, got {type(generator).__name__}.")
        self._operator = operator
        self._shape = plan.shape
        self._reserved = generator.reserved(per_element * math.prod(plan.shape))

    def __enter__(self) -> tuple[int, int, int]:
        address: tuple[int, int, int] = self._reserved.__enter__()
        return address

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            return
        self._reserved.__exit__(kind, error, traceback)
        if isinstance(error, MemoryError):
            raise MemoryError(
                f"[{self._operator}] needs more memory than available, for shape {self._shape}: give a smaller shape, "
                "or draw in parts."
            ) from None


def standard(operator: str, generator: Any, plan: Plan, kind: str, dtype: Any = None) -> Tensor:
    """Draw standard numbers of a kind, of the plan's dtype by default."""
    with numbers(operator, generator, plan) as address:
        return random_standard(plan.shape, *address, kind=kind, dtype=dtype or plan.dtype, device=plan.device)


def addresses(plan: Plan, address: tuple[int, int, int], *more: int) -> Tensor:
    """Return the addresses of the elements of a plan."""
    return random_addresses((*plan.shape, *more), *address, device=plan.device)


def as_tensor(value: Any, plan: Plan, dtype: Any = dtypes.float64) -> Tensor:
    """Return a parameter as a tensor without a gradient."""
    if isinstance(value, Tensor):
        return plan.move(value.detach())  # type: ignore[no-any-return]
    return full((), value, dtype=dtype, device=plan.device)


def refuse_gradient(operator: str, **parameters: Any) -> None:
    """Raise NotImplementedError where the result would lack a derivative without a warning."""
    from ..autograd import is_grad_enabled

    if not is_grad_enabled():
        return
    for name, value in parameters.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise NotImplementedError(
                f"[{operator}] the derivative by {name} is not implemented: the numbers are drawn by rejection. "
                f"Give {name}.detach(), or draw inside tk.no_grad()."
            )
