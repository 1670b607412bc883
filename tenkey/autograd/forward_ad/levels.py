"""Forward mode: tensors with tangents, at levels that nest (Note [Dual tensors])."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...core.wrapper import Wrapper, classed, open_levels, unwrapped
from .dual import DualLevel

__all__ = [
    "DualLevel", "UnpackedDual", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual",
]  # fmt: skip


class UnpackedDual(NamedTuple):
    """The two parts of a dual tensor; the tangent is None if there is none.

    >>> fw = tk.autograd.forward_ad
    >>> with fw.dual_level():
    ...     primal, tangent = fw.unpack_dual(fw.make_dual(tk.tensor([2.0]), tk.tensor([1.0])) ** 3)
    >>> primal.tolist(), tangent.tolist()
    ([8.0], [12.0])
    """

    primal: Tensor
    tangent: Tensor | None


def dual_level() -> DualLevel:
    """Return a context manager in which tensors can have tangents; it yields the level. Levels nest.

    >>> fw = tk.autograd.forward_ad
    >>> with fw.dual_level():
    ...     x = fw.make_dual(tk.tensor([2.0, 3.0]), tk.tensor([1.0, 10.0]))
    ...     fw.unpack_dual(x * x).tangent.tolist()
    [4.0, 60.0]
    """
    return DualLevel()


def enter_dual_level() -> DualLevel:
    """Begin a level like ``with dual_level():``; ``exit_dual_level()`` ends it.

    >>> fw = tk.autograd.forward_ad
    >>> level = fw.enter_dual_level()
    >>> fw.unpack_dual(fw.make_dual(tk.ones(1), tk.ones(1)) * 3, level=level).tangent.tolist()
    [3.0]
    >>> fw.exit_dual_level()
    """
    return DualLevel().__enter__()


def exit_dual_level(*, level: DualLevel | None = None) -> None:
    """End the innermost level. RuntimeError if none is open or ``level`` is not the innermost.

    >>> fw = tk.autograd.forward_ad
    >>> level = fw.enter_dual_level()
    >>> fw.exit_dual_level(level=level)
    >>> level.is_open
    False
    """
    own = _level("exit_dual_level", "end", level)
    if own is not next(_levels()):
        raise RuntimeError(
            "[exit_dual_level] Trying to exit a forward AD level that was not the last one that was created: end the "
            "inner ones first."
        )
    own.__exit__(None, None, None)


def _levels() -> Iterator[DualLevel]:
    return (level for level in reversed(open_levels()) if isinstance(level, DualLevel))


def _level(call: str, what: str, level: Any) -> DualLevel:
    if level is None:
        found = next(_levels(), None)
        if found is None:
            raise RuntimeError(
                f"[{call}] Trying to {what} a dual Tensor for forward AD but no level exists, make sure to "
                "enter_dual_level() first, with `with dual_level():`."
            )
        return found
    if not isinstance(level, DualLevel) or not level.is_open:
        got = "a level that has ended" if isinstance(level, DualLevel) else repr(level)
        raise RuntimeError(f"[{call}] got {got}: level is an open level as yielded by dual_level().")
    return level


def make_dual(tensor: Tensor, tangent: Tensor, level: DualLevel | None = None) -> Tensor:
    """Return the tensor with a tangent at ``level`` (default: the innermost), which calls propagate.

    Raises ValueError unless the tangent has the shape, dtype and device of the tensor, and the dtype is floating or
    complex; RuntimeError without a level, or for a tensor that already has a tangent at this level.

    >>> with tk.autograd.forward_ad.dual_level():
    ...     x = make_dual(tk.asarray([3.0]), tk.asarray([1.0]))
    ...     unpack_dual(x * x).tangent.tolist()
    [6.0]
    """
    own = _level("make_dual", "create", level)
    given: tuple[tuple[str, Any], ...] = (("primal", tensor), ("tangent", tangent))
    for what, x in given:
        if not isinstance(x, Tensor):
            raise TypeError(f"[make_dual] the {what} is a Tensor, got {type(x).__name__}.")
        if isinstance(x, Wrapper):
            if x._level is own:
                raise RuntimeError(
                    f"[make_dual] the {what} already has a tangent at this level: Making a dual Tensor based on a "
                    "Tensor that already has a forward gradient at the same level is not supported; open another "
                    "dual_level() for nested tangents."
                )
            if x._level.number > own.number:
                raise RuntimeError(
                    f"[make_dual] the {what} belongs to {x._level.name}, which was started inside this level: make the "
                    "dual outside of it, or open another dual_level() there."
                )
        if x.dtype.kind not in "fcV":
            raise ValueError(f"[make_dual] Expected {what} to be floating point or complex, got: {x.dtype}.")
    for what, got, want in (
        ("size", tangent.shape, tensor.shape),
        ("dtype", tangent.dtype, tensor.dtype),
        ("device", tangent.device, tensor.device),
    ):
        if got != want:
            raise ValueError(
                f"[make_dual] the tangent has the {'shape' if what == 'size' else what} {got} and the tensor {want}: "
                f"they must be equal (a forward gradient that has a different {what} than that of the original Tensor)."
            )
    if 0 in unwrapped(tangent).strides:  # broadcast: it could not be changed in place together with the tensor
        tangent = tangent.clone()
    own.shown |= {id(tensor), id(tangent)}
    return classed(own.dual(tensor, tangent), tensor.__class__)


def unpack_dual(tensor: Tensor, level: DualLevel | None = None) -> UnpackedDual:
    """Return primal and tangent of a tensor at ``level`` (default: the innermost); the tangent may be None.

    >>> with tk.autograd.forward_ad.dual_level():
    ...     primal, tangent = unpack_dual(tk.asarray([3.0]))
    >>> primal.tolist(), tangent
    ([3.0], None)
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"[unpack_dual] takes a Tensor, got {type(tensor).__name__}.")
    if level is None and next(_levels(), None) is None:  # an open level of another thread, or none
        inner: Any = tensor
        while isinstance(inner, Wrapper) and not (isinstance(inner._level, DualLevel) and inner._level.is_open):
            inner = inner._value
        level = getattr(inner, "_level", None)
        if level is None:
            return UnpackedDual(tensor, None)
    own = _level("unpack_dual", "unpack", level)
    primal, tangent = own.parts(tensor)
    own.shown |= {id(primal), id(tangent)}
    return UnpackedDual(primal, tangent)
