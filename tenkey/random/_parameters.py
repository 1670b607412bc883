"""What the distributions share: parameters, shapes, dtypes, and the numbers that a call takes from its generator.

Note [A refused draw takes no numbers]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Parameters are looked at before a generator is asked for numbers, and what fails afterwards gives them back
(``Generator.reserved``). So a wrong call leaves the sequence as it was. Guarded by
test_random.py::test_bad_input_leaves_the_generator_unchanged.
"""

from __future__ import annotations

import operator as _operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..core.device import to_device
from ..core.dtypes import names as dtypes
from ..core.random.generator import Generator, default_generator
from ..core.random.samplers import BLOCKS_PER_ELEMENT
from ..core.tensor import Tensor
from ..functions.creation import asarray
from ..ops.builtin.creation import full
from ..ops.builtin.random import check_values, random_addresses, random_checked, random_standard
from ..ops.builtin.shape.copying import astype

Shape: TypeAlias = int | Sequence[int] | None
Parameter: TypeAlias = Any
"""A number, a tensor, or what ``tk.asarray`` makes a tensor of."""

_KIND: Final = "[{operator}] {name} must be a real number or a tensor of real numbers, got {value}."


class Plan(NamedTuple):
    """Where a draw goes: the shape of the result, its dtype and its device."""

    shape: tuple[int, ...]
    dtype: np.dtype
    device: Any
    moves: bool = False  # the device was named: parameters are moved there

    def counted(self, operator: str, drawn: Tensor) -> Tensor:
        """Counts in the dtype of the result. Raises ValueError where it does not hold them, instead of wrapping."""
        if self.dtype.kind in "iu" and self.dtype.itemsize < 8:
            drawn = random_checked(drawn, caller=operator, name="every count drawn", rule=self.dtype.name)
        cast: Tensor = self.cast(drawn)
        return cast

    def cast(self, parameter: Any) -> Any:
        """A parameter in the dtype of the result, and on its device; numbers stay what they are."""
        if isinstance(parameter, Tensor) and parameter.dtype != self.dtype:
            parameter = astype(parameter, self.dtype)
        return self.move(parameter)

    def move(self, parameter: Any) -> Any:
        """A parameter on the device of the result, where that was named."""
        if self.moves and isinstance(parameter, Tensor) and parameter.device is not self.device:
            return parameter.to(self.device)
        return parameter


def sizes_of(operator: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of lengths. Raises TypeError and ValueError for what is none."""
    try:
        one = _operator.index(shape)
    except TypeError:
        try:
            sizes = tuple([_operator.index(n) for n in shape])
        except TypeError:
            raise TypeError(
                f"[{operator}] got the shape {shape!r}: a shape is an integer or a sequence of integers."
            ) from None
    else:
        sizes = (one,)
    if any(n < 0 for n in sizes):
        raise ValueError(f"[{operator}] a shape has no negative lengths, got {sizes}.")
    return sizes


def parameter(operator: str, name: str, value: Any, rule: str) -> Any:
    """A Python number, or a tensor, whose values keep the rule (see ``check_values``)."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(_KIND.format(operator=operator, name=name, value=value))
    if isinstance(value, (int, float, np.floating, np.integer)):
        number = value if isinstance(value, (int, float)) else value.item()
        check_values(operator, name, rule, _wide(operator, name, number))
        return number
    if not isinstance(value, Tensor):
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise TypeError(_KIND.format(operator=operator, name=name, value=type(value).__name__))
        value = asarray(value)
    if not (value.dtype.kind in "iu" or dtypes.is_real_floating(value.dtype)):
        raise TypeError(_KIND.format(operator=operator, name=name, value=f"dtype {value.dtype}"))
    return random_checked(value, caller=operator, name=name, rule=rule)


def _wide(operator: str, name: str, number: float) -> np.float64:
    try:
        return np.float64(number)
    except OverflowError:
        raise ValueError(f"[{operator}] {name} is out of the range of float64.") from None


def make_plan(
    operator: str, shape: Any, dtype: Any, device: Any, *parameters: Any, counts: bool = False, core: int = 0
) -> Plan:
    """The plan of a draw with these parameters, whose last ``core`` axes do not broadcast."""
    tensors = [p for p in parameters if isinstance(p, Tensor)]
    shapes = [t.shape[: t.ndim - core] for t in tensors]
    try:
        common = np.broadcast_shapes(*shapes)
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
            raise TypeError(
                (
                    (
                        "[{operator}] got dtype {given}: the numbers are counts, choose an integer or floating point "
                        "dtype."
                    )
                    if counts
                    else "[{operator}] got dtype {given}: the numbers are real, choose a floating point dtype."
                ).format(operator=operator, given=chosen.name)
            )
        return chosen
    if counts:
        return dtypes.int64
    floats = [t.dtype for t in tensors if dtypes.is_real_floating(t.dtype)]
    return max(floats, key=lambda d: d.itemsize) if floats else dtypes.default_float()


@contextmanager
def numbers(operator: str, generator: Any, plan: Plan, per_element: int = 1) -> Iterator[tuple[int, int, int]]:
    """Seed, stream and start of a draw; see Note [A refused draw takes no numbers]."""
    if generator is None:
        generator = default_generator()
    elif not isinstance(generator, Generator):
        raise TypeError(f"[{operator}] generator must be a tk.random.Generator, got {type(generator).__name__}.")
    count = per_element
    for n in plan.shape:
        count *= n
    try:
        with generator.reserved(count) as address:
            yield address
    except MemoryError:
        raise MemoryError(
            f"[{operator}] takes more memory than there is, for shape {plan.shape}: give a smaller shape, or draw in "
            "parts."
        ) from None


REJECTING: Final = BLOCKS_PER_ELEMENT
"""The numbers that an element takes where it may be rejected."""


def standard(operator: str, generator: Any, plan: Plan, kind: str, dtype: Any = None) -> Tensor:
    """Standard numbers of a kind, of the plan's dtype unless another is given."""
    with numbers(operator, generator, plan) as address:
        return random_standard(plan.shape, *address, kind=kind, dtype=dtype or plan.dtype, device=plan.device)


def addresses(plan: Plan, address: tuple[int, int, int], *more: int) -> Tensor:
    """The addresses of the elements of a plan."""
    return random_addresses((*plan.shape, *more), *address, device=plan.device)


def as_tensor(value: Any, plan: Plan, dtype: Any = dtypes.float64) -> Tensor:
    """A parameter as a tensor: one that no gradient flows through."""
    if isinstance(value, Tensor):
        detached: Tensor = plan.move(value.detach())
        return detached
    return full((), value, dtype=dtype, device=plan.device)


def refuse_gradient(operator: str, **parameters: Any) -> None:
    """Raise NotImplementedError where the result would silently lack a derivative."""
    from ..autograd import is_grad_enabled

    if not is_grad_enabled():
        return
    for name, value in parameters.items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise NotImplementedError(
                f"[{operator}] the derivative by {name} is not implemented: the numbers are drawn by rejection. "
                f"Give {name}.detach(), or draw inside tk.no_grad()."
            )
