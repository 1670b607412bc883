"""Place sample inputs on a device in every layout, and compare results with those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...core.tensor import Tensor, make_view
from ...core.tree import tensors_in
from ...dispatch.operator import Operator
from ..samples import LAYOUTS, SampleInput

__all__ = [
    "LAYOUTS", "Placed", "agree", "agree_on_errors", "close", "comparable", "finished", "gradient_of", "outcome",
    "place", "same",
]  # fmt: skip

_BEFORE, _AFTER = 3, 2  # elements around a window, which must not be read or written
_ULPS: Final = 64  # libraries of mathematical functions differ by some units in the last place
_DENORMALS: Final = 4  # steps between denormal numbers, whose units in the last place are large


class Placed:
    """A tensor on the device, as a window into a larger one."""

    def __init__(self, tensor: Tensor, base: Tensor, around: np.ndarray, inside: np.ndarray) -> None:
        self.tensor = tensor
        self._base = base
        self._around = around
        self._inside = inside

    def untouched(self) -> bool:
        """Return whether the memory around the window is unchanged."""
        now = self._base.detach().numpy()
        return bool(np.array_equal(now[~self._inside], self._around[~self._inside], equal_nan=True))


def place(x: Tensor, device: str) -> Placed:
    """Copy a CPU tensor to a device, with its strides and an offset, surrounded by other values."""
    values = x.detach().numpy()
    strides = x.strides
    extent = sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True)) + 1 if values.size else 0
    filler = np.nan if values.dtype.kind in "fc" else True if values.dtype.kind == "b" else 113
    memory = np.full(_BEFORE + extent + _AFTER, filler, values.dtype)
    inside = np.zeros(memory.shape, bool)
    if values.size:
        steps = tuple(step * values.itemsize for step in strides)
        np.lib.stride_tricks.as_strided(memory[_BEFORE:], values.shape, steps)[...] = values
        marks = np.lib.stride_tricks.as_strided(inside[_BEFORE:], values.shape, strides)
        marks[...] = True
    base = tk.tensor(memory, device=device)
    data = base.array
    size = values.itemsize
    window = data.window(values.shape, tuple(step * size for step in strides), data.offset + _BEFORE * size)
    return Placed(make_view(base, window), base, memory, inside)


def comparable(operator: Operator, result: Any, sample: SampleInput) -> Any:
    """Return what is compared of a result: the result, unless the operator has several correct ones."""
    facet = operator.facets.get("Compared")
    several = isinstance(result, tuple) and all(isinstance(x, Tensor) for x in result)
    if facet is None or not (several or isinstance(result, Tensor)):
        return result
    host = sample.map(lambda x: x.detach().numpy())
    if several:
        found = facet.function(tuple([x.detach().numpy() for x in result]), *host.args, **host.kwargs)
        return tuple([tk.asarray(x, device=result[0].device) for x in found])
    return tk.asarray(facet.function(result.detach().numpy(), *host.args, **host.kwargs), device=result.device)


def same(got: Any, want: Any, device: str, what: str = "result", **options: Any) -> None:
    """Raise AssertionError unless two results have the same structure, shapes, dtypes and, up to rounding, values.

    The options are those of :func:`close`.
    """
    if isinstance(want, Tensor):
        assert isinstance(got, Tensor), f"{what}: a {type(got).__name__}, the CPU gives a Tensor"
        assert got.shape == want.shape, f"{what}: shape {got.shape}, the CPU gives {want.shape}"
        assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, the CPU gives {want.dtype}"
        if want.device.type == "meta":
            assert got.device.type == "meta", f"{what} is on {got.device}, the CPU's on meta"
            return
        expected = tk.device(device)
        assert got.device is expected, f"{what} is on {got.device}, not on {expected}"
        close(got.detach().numpy(), want.detach().numpy(), what, **options)
    elif isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)), f"{what}: a {type(got).__name__}, the CPU gives {len(want)} values"
        assert len(got) == len(want), f"{what}: {len(got)} values, the CPU gives {len(want)}"
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            same(one, other, device, f"{what}[{i}]", **options)
    else:
        assert got == want, f"{what}: {got!r}, the CPU gives {want!r}"


def close(
    got: np.ndarray, want: np.ndarray, what: str = "values", *,
    absolute: bool = True, zeros: bool = False, operands: Sequence[Any] = (), ulps: int = _ULPS, term: Any = 0,
) -> None:  # fmt: skip
    """Raise AssertionError unless the arrays are equal; floats may differ by some units in the last place.

    With ``absolute``, these are units of 1 for values below 1, since sums of several terms may have lost as much.
    ``zeros``: zeros have the same sign too. ``operands``: arrays that broadcast to the result, for the message.
    ``term``: an array of real numbers, which others may cancel in the result: the units are those of the term, where it
    is larger than the result.

    >>> got, want = np.array([1e-3 + 1e-15]), np.array([1e-3])
    >>> close(got, want, absolute=False, term=-0.25)
    >>> close(got, want, absolute=False)
    Traceback (most recent call last):
    ...
    AssertionError: values: 1 of 1 elements of float64 are wrong.
    ...
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if want.dtype.kind not in "fc":
        wrong = got != want
    elif want.dtype.kind == "c":
        parts = [_wrong(getattr(got, part), getattr(want, part), absolute, ulps, 0) for part in ("real", "imag")]
        wrong = parts[0] | parts[1]
        with np.errstate(all="ignore"):  # the error of one part may have the size of the other
            size = np.maximum(np.abs(want), float(absolute))
            wrong &= ~(np.abs(got - want) <= ulps * np.finfo(want.dtype).eps * size)
    else:
        wrong = _wrong(got, want, absolute, ulps, term)
        if zeros:
            wrong |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    if not np.any(wrong):
        return
    places = np.argwhere(wrong)
    lines = [f"{what}: {len(places)} of {want.size} elements of {want.dtype} are wrong."]
    for place_ in map(tuple, places[:4]):
        of = [np.broadcast_to(one, want.shape)[place_].item() for one in operands]
        where = f" for {', '.join(map(repr, of))}" if of else ""
        found, expected = got[place_].item(), want[place_].item()
        lines.append(f"  at {[int(i) for i in place_]}{where}: got {found!r}, expected {expected!r}")
    raise AssertionError("\n".join(lines))


def _wrong(got: np.ndarray, want: np.ndarray, absolute: bool, ulps: int, term: Any) -> Any:
    info = np.finfo(want.dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), np.maximum(np.abs(term), float(absolute)))
        tolerance = ulps * float(info.eps) * size
        tolerance = tolerance + (_DENORMALS if ulps else 0) * float(info.smallest_subnormal)
        near = np.abs(got.astype(np.float64) - want) <= tolerance
        near &= np.isfinite(got) & np.isfinite(want)
    return ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def outcome(function: Callable[[], Any]) -> tuple[Any, type[BaseException] | None]:
    """Return the result of a call, or its error and the type of the error."""
    try:
        return function(), None
    except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return error, type(error)


def agree_on_errors(got: Any, refused: type[BaseException] | None, what: str) -> None:
    """Raise the error of a call that works on the CPU, or AssertionError for another error than on the CPU."""
    if isinstance(got, BaseException) and refused is None:
        got.add_note(f"{what}: the CPU gives a result.")
        raise got
    assert refused is None or isinstance(got, refused), f"{what}: {got!r}, the CPU raises {refused.__name__}"


def agree(
    device: str, call: Callable[..., Any], *arrays: np.ndarray, what: str, layouts: Iterable[str] = ("contiguous",),
    refused: bool = False, **options: Any,
) -> None:  # fmt: skip
    """Raise AssertionError unless a function of tensors gives the same on the device as on the CPU.

    Results and the arguments after the call are compared (options: those of :func:`close`). With ``refused`` the CPU
    may raise an error, and the device then raises one of its type.
    """
    for layout in layouts:
        says = f"{what}, {layout}, {', '.join(f'{a.dtype}{list(a.shape)}' for a in arrays)}"
        placed = [place(tk.asarray(LAYOUTS[layout](a)), device) for a in arrays]
        theirs = [tk.tensor(a) for a in arrays]
        want, error = outcome(lambda theirs=theirs: call(*theirs))  # type: ignore[misc]
        if error is not None and not refused:
            raise want
        got, _ = outcome(lambda placed=placed: finished(call(*[one.tensor for one in placed])))  # type: ignore[misc]
        agree_on_errors(got, error, says)
        if error is None:
            same(got, want, device, says, **options)
            for one, other in zip(placed, theirs, strict=True):
                close(one.tensor.numpy(), other.numpy(), f"{says}: an argument", **options)
        assert all(one.untouched() for one in placed), f"{says}: memory around an argument was written"


def gradient_of(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives the gradient of a weighted sum of the call's result by its first argument."""

    def gradient(x: Any, *others: Any) -> Any:
        leaf = x.detach().clone().requires_grad_()
        result = call(leaf, *others)
        weights = tk.reshape(tk.arange(result.size, dtype=result.dtype, device=result.device), result.shape)
        tk.sum(result * weights).backward()
        return leaf.grad

    return gradient


def finished(result: Any) -> Any:
    """Return a result whose work is done: an asynchronous device reports an error at the next synchronization."""
    for tensor in tensors_in(result):
        if tensor.device.type not in ("cpu", "meta"):
            tensor.detach().numpy()
    return result
