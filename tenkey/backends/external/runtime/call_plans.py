"""Plans of calls: what depends on the layouts of the operands alone, kept for later calls.

Note [Plans of calls]
~~~~~~~~~~~~~~~~~~~~~
Broadcasting, the merging of dimensions, and the choice of a launch depend on shapes, strides and the numbers among the
operands, not on values or addresses, and take longer than the launch itself. A program calls an operator with the same
few layouts again and again, so from the third call with a layout on a *plan* is used: for any backend, the merged
layouts, from which its windows are made directly; for a kernel with a method ``prepare``, the function that this has
returned for the layouts, which allocates the result and computes (``prepare_into`` for in-place variants). Reductions
have plans from their second call on. A key
consists of shape, strides and device of each window, its offset to 16 bytes, by which a kernel may choose its accesses,
its dtype where several occur, and the bytes of each number. Calls that raise, that fall back or that have no elements
leave no plan; a window of another backend, or of one that was registered before, has none either, and takes the long
way, which raises. Guarded by ``tests/backends/test_call_plans.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.device import to_device
from ....core.storage import StridedArray
from ....core.tensor import Tensor, word_for
from ....core.tensor_base import new_handle
from ....core.word import WEAK_MASK
from ....dispatch.calling import codegen
from ....dispatch.keys import DispatchKey
from ..interface import Backend
from ..template_calls import TemplateKernel
from ..templates import PointwiseRunner, fused

__all__ = ["InplacePlans", "Plans", "ReductionPlans"]

_MOST: Final = 1024  # plans of one operator and combination of dtypes; a program with more layouts begins anew
_ALIGNED: Final = 15

_Plan = Callable[..., StridedArray | None]

# What follows a plan; where there is none, the call is made outside, so that its errors have no context.
_FOLLOWED: Final = """
def kernel({parameters}):
    try:
        {read}
        device = a.device
        plan = plans[{key}]
        known = {known}
    except (AttributeError, KeyError):
        pass
    else:
        data = plan({windows}) if known else None
        if data is not None:
            made = new_handle(Tensor)
            made._data = data
            made._word = words[device.type]
            made._storage = None
            made._autograd = None
            return made
    return slow({parameters})
"""
_LAYOUT: Final = "{0}.shape, {0}.strides, {0}.offset & ALIGNED, {1}.index"
_READ_NUMBER: Final = "a, n, is_second = (x._data, y._data, True) if y._word & WEAK_MASK else (y._data, x._data, False)"


def _seen_once(*windows: StridedArray) -> None:
    """Stand for the plan of a layout that was met once."""


class Plans:
    """The plans of a pointwise operator for one dispatch word.

    ``mixed``: the arguments have several dtypes, or plain numbers are among them; ``numbers``: weak scalars are.
    """

    def __init__(self, backend: Backend, result: np.dtype, *, arity: int, mixed: bool, numbers: bool) -> None:
        self._backend = backend
        self._result = result
        self._plans: dict[Any, _Plan] = {}
        if arity == 3:
            self._key, self._followed = self._key_of_any, self._ternary
        elif mixed or arity > 2 or (numbers and arity < 2):
            self._key, self._followed = self._key_of_any, self._general
        elif numbers:
            self._key, self._followed = self._key_with_number, self._with_number
        else:
            self._key, self._followed = self._key_of_windows, partial(self._windows, count=arity)

    def kernel(self, slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return the function that follows a plan, or calls ``slow``, which calls :meth:`remember`, without one."""
        return self._followed(slow)

    def _ternary(self, slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return self._windows(self._general(slow), 3, ", {0}.dtype.num")  # the key that _key_and_windows makes

    def _windows(self, slow: Callable[..., Tensor], count: int, more: str = "") -> Callable[..., Tensor]:
        names, values = "abc"[:count], "xyz"[:count]
        layouts = [(_LAYOUT + more).format(w, "device" if w == "a" else f"{w}.device") for w in names]
        read = f"{', '.join(names)} = {', '.join([f'{x}._data' for x in values])}"
        return self._generated(slow, ", ".join(values), read, ", ".join(layouts), names)

    def _with_number(self, slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        key = _LAYOUT.format("a", "device") + ", is_second, n.dtype.num, n.tobytes()"
        return self._generated(slow, "x, y", _READ_NUMBER, key, "a")

    def _generated(
        self, slow: Callable[..., Tensor], parameters: str, read: str, key: str, windows: str
    ) -> Callable[..., Tensor]:
        """Return the function for windows of these names; ``key`` is that which ``_key`` makes of the arguments."""
        known = " and ".join([f"{w}.owner._backend is backend" for w in windows])
        source = _FOLLOWED.format(parameters=parameters, read=read, key=key, known=known, windows=", ".join(windows))
        scope = {
            "plans": self._plans, "backend": self._backend, "words": _Words(self._result), "slow": slow,
            "new_handle": new_handle, "Tensor": Tensor, "WEAK_MASK": WEAK_MASK, "ALIGNED": _ALIGNED,
        }  # fmt: skip
        return codegen.define(source.lstrip(), scope, f"<plans of {parameters}: {key}>")

    def _general(self, slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        plans, backend, words = self._plans, self._backend, _Words(self._result)

        def kernel(*args: Any) -> Tensor:
            found = _key_and_windows(args, backend)
            plan = None if found is None else plans.get(found[0])
            if found is None or plan is None:
                return slow(*args)
            windows = found[1]
            data = plan(*windows)
            if data is None:
                return slow(*args)
            made: Tensor = new_handle(Tensor)
            made._data = data
            made._word = words[data.device.type]
            made._storage = None
            made._autograd = None
            return made

        return kernel

    def remember(
        self, args: Sequence[Any], runner: PointwiseRunner, out: StridedArray, operands: Sequence[Any]
    ) -> None:
        """Make a plan of a call that has succeeded, if one with its layouts came before.

        ``operands`` are windows of the shape of ``out`` and NumPy scalars, as the runner got them.
        """
        if not out.size:
            return
        key = self._key(args)
        if key is None:
            return
        plans = self._plans
        if key not in plans:
            if len(plans) >= _MOST:
                plans.clear()
            plans[key] = _seen_once
        elif plans[key] is _seen_once:
            kernel = runner.kernel(out, operands)
            plans[key] = kernel.prepared("prepare", out, operands) or self._merged(kernel, out, operands)

    def _key_of_any(self, args: Sequence[Any]) -> Any:
        found = _key_and_windows(args, self._backend)
        return None if found is None else found[0]

    def _key_of_windows(self, args: Sequence[Any]) -> Any:
        windows = [x._data for x in args if isinstance(x, Tensor)]
        if len(windows) < len(args) or any(w.__class__ is not StridedArray for w in windows):
            return None
        return tuple([part for w in windows for part in (w.shape, w.strides, w.offset & _ALIGNED, w.device.index)])

    def _key_with_number(self, args: Sequence[Any]) -> Any:
        if not all(isinstance(x, Tensor) for x in args):
            return None
        is_second = bool(args[1]._word & WEAK_MASK)
        w, n = (args[0]._data, args[1]._data) if is_second else (args[1]._data, args[0]._data)
        if w.__class__ is not StridedArray or n.__class__ is not np.ndarray or n.dtype.hasobject:
            return None
        return w.shape, w.strides, w.offset & _ALIGNED, w.device.index, is_second, n.dtype.num, n.tobytes()

    def _merged(self, kernel: TemplateKernel, out: StridedArray, operands: Sequence[Any]) -> _Plan:
        """Return a plan for a kernel that takes windows."""
        backend, result, shape, device = self._backend, self._result, out.shape, out.device
        run = _merged_run(kernel, out, operands)

        def plan(*windows: StridedArray) -> StridedArray | None:
            made: StridedArray = backend.empty(shape, result, device)._data
            return made if run(made, *windows) else None

        return plan


class InplacePlans:
    """The plans of an in-place variant, a function of its arguments whose result is the first.

    ``slot(key)`` returns the entry of the dispatch table that the functional variant has now: a plan that was made for
    another one is not followed. Neither is one where another operand shares the memory of the first.
    """

    def __init__(self, backend: Backend, slot: Callable[[DispatchKey], Any]) -> None:
        self._backend = backend
        self._slot = slot
        self._plans: dict[Any, Any] = {}

    def kernel(self, slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return the function that follows a plan, or calls ``slow`` where there is none."""
        plans, backend, slot = self._plans, self._backend, self._slot

        def kernel(*args: Any) -> Tensor:
            found = _key_and_windows(args, backend)
            plan = None if found is None else plans.get(found[0])
            if found is not None and plan is not None and plan[0] is slot(plan[1]):
                target, *others = found[1]
                owner = target.owner
                for window in others:
                    if window.owner is owner:
                        break
                else:
                    if plan[2](target, target, *others):
                        return args[0]  # type: ignore[no-any-return]
            return slow(*args)

        return kernel

    def remember(
        self, args: Sequence[Any], runner: PointwiseRunner, out: StridedArray, operands: Sequence[Any]
    ) -> None:
        """Make a plan of a call that has succeeded."""
        found = _key_and_windows(args, self._backend) if out.size else None
        if found is None:
            return
        if len(self._plans) >= _MOST:
            self._plans.clear()
        kernel = runner.kernel(out, operands)
        run = kernel.prepared("prepare_into", out, operands) or _merged_run(kernel, out, operands)
        key = out.device.key
        self._plans[found[0]] = self._slot(key), key, run


class ReductionPlans:
    """The plans of a reduction for one dispatch word, by the layout of the operand and the options of the call."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._plans: dict[Any, _Reduction] = {}

    def follow(self, x: Tensor, options: tuple[Any, ...]) -> Tensor | None:
        """Return the result by a plan; None where there is none."""
        data = x._data
        try:
            plan = self._plans[data.shape, data.strides, data.offset & _ALIGNED, data.device.index, options]
            known = data.owner._backend is self._backend
        except (AttributeError, KeyError, TypeError):  # an axis may be a list
            return None
        if not known:
            return None
        if plan.prepared is not None:
            result = plan.prepared(data)
            if result is not None:
                found: Tensor = new_handle(Tensor)
                found._data = result
                found._word = plan.words[result.device.type]
                found._storage = None
                found._autograd = None
                return found
        made = self._backend.empty(plan.shape, plan.dtype, data.device)
        out: StridedArray = made._data
        out = StridedArray(out.buffer, plan.rows, plan.dtype, out.device, plan.steps, out.offset, out.owner)
        window = StridedArray(
            data.buffer, plan.matrix, data.dtype, data.device, plan.strides, data.offset, data.owner
        )  # fmt: skip
        return made if plan.kernel.run(out, window) else None

    def remember(self, x: Tensor, options: tuple[Any, ...], kernel: TemplateKernel, out: Any, window: Any) -> None:
        """Make a plan of a call in which one kernel has reduced the rows of ``window``, unless it is that of a copy."""
        data: StridedArray = x._data
        if window.owner is not data.owner or window.offset != data.offset:
            return
        if len(self._plans) >= _MOST:
            self._plans.clear()
        key = data.shape, data.strides, data.offset & _ALIGNED, data.device.index, options
        try:
            hash(key)
        except TypeError:
            return
        self._plans[key] = _Reduction(
            kernel, kernel.prepared("prepare", out._data, (window,)), _Words(out.dtype), out.shape, out.dtype,
            window.shape[:1], (out.dtype.itemsize,), window.shape, window.strides,
        )  # fmt: skip


class _Reduction(NamedTuple):
    """A kernel, what it has prepared, shape and dtype of the result, this as a row, and the operand as a matrix."""

    kernel: TemplateKernel
    prepared: _Plan | None
    words: _Words
    shape: tuple[int, ...]
    dtype: np.dtype
    rows: tuple[int, ...]
    steps: tuple[int, ...]
    matrix: tuple[int, ...]
    strides: tuple[int, ...]


def _merged_run(kernel: TemplateKernel, out: StridedArray, operands: Sequence[Any]) -> Callable[..., bool]:
    """Return the call of a kernel for windows of these layouts, whose dimensions it merges."""
    first, *rest = fused(out, operands)
    device, out_shape, out_strides = out.device, first.shape, first.strides
    layouts: list[Any] = []  # of each operand: a number, or shape and strides of its window
    for value, given in zip(rest, operands, strict=True):
        layouts.append((value.shape, value.strides) if value.__class__ is StridedArray else given)

    def run(made: StridedArray, *windows: StridedArray) -> bool:
        given = iter(windows)
        values: list[Any] = []
        for layout in layouts:
            if layout.__class__ is tuple:
                w = next(given)
                values.append(StridedArray(w.buffer, layout[0], w.dtype, device, layout[1], w.offset, w.owner))
            else:
                values.append(layout)
        target = StridedArray(made.buffer, out_shape, made.dtype, device, out_strides, made.offset, made.owner)
        return kernel.run(target, *values)

    return run


class _Words(dict[str, int]):
    """The dispatch word of a result by the type of its device, which is registered when it is first asked for."""

    def __init__(self, dtype: np.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __missing__(self, type: str) -> int:
        found = self[type] = word_for(to_device(type), self._dtype)
        return found


def _key_and_windows(args: Sequence[Any], backend: Backend) -> tuple[tuple[Any, ...], list[StridedArray]] | None:
    """Return the layouts of the arguments of a call, and the windows among them; None if there can be no plan."""
    key: list[Any] = []
    windows: list[StridedArray] = []
    try:
        for value in args:
            kind = value.__class__
            if kind is float or kind is int or kind is bool:
                key.append((kind, value.hex() if kind is float else value))
                continue
            data = value._data
            if data.__class__ is StridedArray:
                if data.owner._backend is not backend:
                    return None
                key += (data.shape, data.strides, data.offset & _ALIGNED, data.device.index, data.dtype.num)
                windows.append(data)
            elif value._word & WEAK_MASK:
                if data.dtype.hasobject:  # an int of more than 64 bits
                    return None
                key.append((value._word & WEAK_MASK, data.tobytes()))
            else:
                return None
    except AttributeError:
        return None
    return tuple(key), windows
