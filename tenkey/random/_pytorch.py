"""PyTorch's names of the usual draws: ``tk.rand``, ``tk.randn`` and ``tk.randint``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dispatch.calling.public import public
from ._basic import integers, normal, uniform

if TYPE_CHECKING:
    from ..core.random.generator import Generator
    from ..core.tensor import Tensor


def _sizes(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


@public
def rand(
    *size: int | Sequence[int], dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw numbers from [0, 1), all equally likely: ``tk.rand(2, 3)`` is ``tk.random.uniform((2, 3))``.

    >>> tk.rand(2, 3).shape, tk.rand((4,)).shape
    ((2, 3), (4,))
    """
    return uniform(_sizes(size), dtype=dtype, device=device, generator=generator, requires_grad=requires_grad)


@public
def randn(
    *size: int | Sequence[int], dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw standard normal numbers: ``tk.randn(2, 3)`` is ``tk.random.normal((2, 3))``.

    >>> tk.randn(2, 3, requires_grad=True).requires_grad
    True
    """
    return normal(_sizes(size), dtype=dtype, device=device, generator=generator, requires_grad=requires_grad)


@public
def randint(
    low: int, high: Any = None, size: int | Sequence[int] | None = None, *, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw integers in [low, high): ``tk.randint(10, (2, 3))`` begins at 0, ``tk.randint(5, 10, (2, 3))`` at 5.

    ``tk.random.integers`` does the same. Raises TypeError without a size.

    >>> x = tk.randint(5, 10, (100,))
    >>> x.shape, bool(tk.all((x >= 5) & (x < 10)))
    ((100,), True)
    """
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError(
            f"[randint] needs the size of the result, got low={low!r}, high={high!r}: give it as a tuple, as in "
            "tk.randint(10, (2, 3)), or () for a single number."
        )
    return integers(low, high, size, dtype=dtype, device=device, generator=generator)
