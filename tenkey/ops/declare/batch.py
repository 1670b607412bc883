"""The values of ``batch=``, which states how vmap runs an operator once for all samples.

Note [Batching facet]
~~~~~~~~~~~~~~~~~~~~~
A batched tensor holds all samples along one more dimension. Pointwise operators, reductions, their variants and
composites need no ``batch=``: their rules follow from their definitions. Other blocks name one of these:

- ``same_dim``: the operator maps its one tensor element by element, so the batch dimension stays where it is;
- ``along("axis")``: the batch dimension goes to the front, and the named axes count one dimension more;
- ``prepend("shape")``: the batch dimension goes to the front, and the length of the batch in front of the named shape;
- ``broadcast``: the tensors broadcast against one another, so the samples do too;
- ``core_dims(2, ...)``: each tensor has that many core dimensions, and the ones before them broadcast (a stack of
  matrices takes the samples as a larger stack);
- ``gather("x")``: each element of that tensor is looked up in the others, which the samples share; if they do not share
  them, the samples are computed one after the other;
- ``loop``: the samples are computed one after the other, because the kernel processes one at a time anyway;
- a function ``rule(level, operator, args, kwargs)``, which gets a :class:`VmapLevel` and returns batched tensors.

The values are inert; ``tenkey/transforms/batching/rules.py`` interprets them. Guarded by
``tests/transforms/test_vmap.py::test_no_builtin_operator_takes_the_loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from ..._util.record import Record, made
from ...core.tensor import Tensor
from ...dispatch.operator import Operator

__all__ = [
    "BatchRule", "Batching", "VmapLevel", "along", "broadcast", "core_dims", "gather", "loop", "prepend", "same_dim",
]  # fmt: skip


class VmapLevel(Protocol):
    """One run of vmap, as the rule of a block sees it."""

    size: int

    def owns(self, x: Any) -> bool:
        """Return whether ``x`` is batched at this level."""

    def split(self, x: Any) -> tuple[Any, Any]:
        """Return the value and its batch dimension; ``(x, None)`` if ``x`` is not batched."""

    def front(self, x: Tensor) -> Tensor:
        """Return the value with the batch dimension first; repeat what the samples share."""

    def aligned(self, x: Any, ndim: int) -> Any:
        """Return the value with the batch dimension first, then ones up to ``ndim`` dimensions of a sample."""

    def move(self, value: Tensor, source: int, target: int) -> Tensor:
        """Move one dimension; both count from the front."""

    def batch(self, value: Tensor, dim: int = 0) -> Tensor:
        """Return the batched tensor that holds its samples along ``dim`` of ``value``."""

    def check(self, operator: Operator, args: Any, kwargs: dict[str, Any]) -> None:
        """Raise what the operator raises for arguments of the shapes of one sample."""

    def check_mutation(self, operator: Operator, args: Any, kwargs: dict[str, Any]) -> None:
        """Raise if a tensor that the samples share would be changed by a batched one."""

    def loop(self, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
        """Compute the samples one after the other."""


BatchRule: TypeAlias = Callable[[VmapLevel, Operator, Any, dict[str, Any]], Any]


class Batching(Record):
    """How vmap runs the operator: see Note [Batching facet].

    ``axes`` names the arguments that count dimensions. ``entries`` maps arguments to what goes in front of their
    values, None for the length of the batch. ``core`` has the number of core dimensions of each tensor, and
    ``argument`` names the tensor whose elements are looked up.
    """

    kind: str
    function: BatchRule | None = None
    axes: tuple[str, ...] = ()
    entries: Mapping[str, tuple[Any, ...] | None] = made(default_factory=dict)
    core: tuple[int, ...] = ()
    argument: str = ""


same_dim: Final = Batching("same_dim")
broadcast: Final = Batching("core_dims")
loop: Final = Batching("loop")


def along(*axes: str) -> Batching:
    """Return the rule of an operator that works along the axes that these arguments give."""
    return Batching("front", axes=axes)


def prepend(*sizes: str, along: tuple[str, ...] = (), **entries: tuple[Any, ...]) -> Batching:
    """Return the rule of an operator whose arguments ``sizes`` are shapes of all dimensions.

    ``entries`` gives what goes in front of other arguments; ``along`` is as in :func:`along`.
    """
    return Batching("front", axes=along, entries={**dict.fromkeys(sizes), **entries})


def core_dims(*counts: int) -> Batching:
    """Return the rule of an operator whose tensors have this many dimensions each behind those that broadcast."""
    return Batching("core_dims", core=counts)


def gather(argument: str) -> Batching:
    """Return the rule of an operator that looks each element of one tensor up in the others."""
    return Batching("gather", argument=argument)
