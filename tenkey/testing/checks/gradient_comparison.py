"""Derivatives by differences, and their comparison with the derivatives of an operator.

Note [Differences at a kink]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Derivatives are compared with central differences by every real component of an input, as in ``tk.autograd.gradcheck``;
components of large inputs are sampled. Hand-written samples often lie on kinks, such as a ``relu`` of 0 or the maximum
of equal values. The differences to the left and to the right disagree there, so the component is not judged; neither is
it at a jump, where differences grow as the step shrinks. Unlike ``gradcheck``, this also judges operators that compute
in single precision only, with a wider step. Guarded by ``tests/library/test_opcheck.py::test_a_kink_is_not_judged``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import tenkey as tk

from ...autograd.gradcheck.numerical import as_values, components, displaced
from ...core.dtypes.names import is_inexact
from ...core.tensor import Tensor
from .labels import Labelled, host_values

__all__ = ["Differences", "Mismatch", "Precision", "compare", "cotangents", "differences", "pull_back"]

Function = Callable[[Sequence[Tensor]], list[Labelled]]
Make = Callable[[Sequence[np.ndarray], Sequence[int]], list[Tensor]]

_COMPONENTS: Final = 40  # of one input, at most
_ONE_HOT: Final = 24  # components of the results that are pulled back one by one; for more, random mixtures


class Precision(NamedTuple):
    """Step and tolerances for the dtype that an operator computes in; for ``kink`` see the Note."""

    step: float
    atol: float
    rtol: float
    kink: float

    @classmethod
    def of(cls, dtype: np.dtype, atol: float | None, rtol: float | None) -> Precision:
        """Return the precision for results of a dtype."""
        size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        found = {8: cls(1e-6, 1e-5, 1e-3, 1e-2), 4: cls(4e-3, 1e-2, 2e-2, 0.1)}.get(size, cls(6e-2, 0.1, 0.1, 0.5))
        return cls(found.step, found.atol if atol is None else atol, found.rtol if rtol is None else rtol, found.kink)


class Differences(NamedTuple):
    """For each input: the moved components, the derivatives of all components of the results, and the kinks."""

    moved: dict[int, np.ndarray[Any, Any]]
    values: dict[int, np.ndarray[Any, Any]]
    kinks: dict[int, np.ndarray[Any, Any]]
    labels: list[str]  # of the results
    shapes: list[tuple[int, ...]]
    dtypes: list[np.dtype]

    @property
    def sizes(self) -> list[int]:
        """The number of real components of each result."""
        return [math.prod(s) * (2 if d.kind == "c" else 1) for s, d in zip(self.shapes, self.dtypes)]


class Mismatch(NamedTuple):
    """The largest wrong component: its input and index, its value, and the expected value."""

    input: int
    place: tuple[int, ...]
    got: float
    want: float
    hint: str


def floating_results(results: list[Labelled]) -> list[Labelled]:
    """Return the results that can carry a gradient."""
    return [part for part in results if is_inexact(part.value.dtype)]


def random_gradients(results: list[Tensor], inputs: list[Tensor], seed: int) -> list[np.ndarray[Any, Any] | None]:
    """Return the gradients of ``inputs`` for random gradients of the results; None where there is none."""
    rng = np.random.default_rng(seed)
    drawn = [np.asarray(rng.uniform(0.5, 1.5, t.shape)).astype(t.dtype) for t in results]
    seeds = [tk.asarray(values).to_device(t.device) for values, t in zip(drawn, results)]
    got = tk.autograd.grad(results, inputs, seeds, allow_unused=True)
    return [None if g is None else np.array(g.detach().numpy()) for g in got]


def differences(
    function: Function,
    make: Make,
    arrays: Sequence[np.ndarray[Any, Any]],
    inputs: Sequence[int],
    precision: Precision,
    rng: np.random.Generator,
    limit: int = _COMPONENTS,
) -> Differences:
    """Return central differences of all floating results by ``inputs`` (Note [Differences at a kink])."""

    def values_of(moved: Sequence[np.ndarray[Any, Any]]) -> list[Labelled]:
        return host_values(floating_results(function(make(moved, ()))))

    def stacked(results: list[Labelled]) -> np.ndarray[Any, Any]:
        return np.concatenate([np.zeros(0), *[components(p.value) for p in results]])

    base = values_of(arrays)
    found = Differences(
        {}, {}, {}, [p.label for p in base], [p.value.shape for p in base], [p.value.dtype for p in base]
    )

    here = stacked(base)
    for i in inputs:
        count = components(arrays[i]).size
        chosen = np.arange(count) if count <= limit else np.sort(rng.permutation(count)[:limit])
        rows, kinks = [], []
        for component in chosen:

            def slopes(
                step: float, i: int = i, count: int = count, component: int = int(component)
            ) -> list[np.ndarray[Any, Any]]:
                """Return the differences to the right and to the left."""
                direction = np.eye(1, count, component)[0]
                before = components(arrays[i])[component]
                found = []
                for sign in (1.0, -1.0):
                    values = displaced(arrays[i], direction, sign * step * max(1.0, abs(before)))
                    moved = components(values)[component] - before  # what became of the step in the dtype
                    results = values_of([values if j == i else a for j, a in enumerate(arrays)])
                    found.append((stacked(results) - here) / moved)
                return found

            with np.errstate(all="ignore"):
                right, left = slopes(precision.step)
                row = (right + left) / 2
                bent = np.abs(right - left) > precision.kink * (1 + np.abs(row))
                steep = np.abs(row) * precision.step > math.sqrt(precision.step) * (1 + np.abs(here))
                if (steep & ~bent).any():  # a jump, at which both sides grow as the step shrinks?
                    right, left = slopes(precision.step / 4)
                    bent |= steep & ~(np.abs((right + left) / 2 - row) <= np.abs(row))
            rows.append(row)
            kinks.append(bent | ~np.isfinite(row))
        found.moved[i] = chosen
        found.values[i] = np.array(rows).reshape(len(chosen), here.size)
        found.kinks[i] = np.array(kinks, bool).reshape(len(chosen), here.size)
    return found


def cotangents(found: Differences, rng: np.random.Generator, columns: int | None = None) -> np.ndarray[Any, Any]:
    """Return the cotangents to pull back: each component of the results, or random mixtures if there are many."""
    count = sum(found.sizes)
    if columns is None and count <= _ONE_HOT:
        return np.eye(count)
    signs = rng.choice([-1.0, 1.0], (count, columns or 6))
    return np.asarray(signs * rng.uniform(0.5, 1.5, signs.shape))


def split_cotangent(column: np.ndarray[Any, Any], found: Differences) -> list[np.ndarray[Any, Any]]:
    """Return one column as an array for each result."""
    parts = np.split(column, np.cumsum(found.sizes)[:-1])
    return [as_values(part, shape, dtype) for part, shape, dtype in zip(parts, found.shapes, found.dtypes)]


def pull_back(
    function: Function,
    make: Make,
    arrays: Sequence[np.ndarray[Any, Any]],
    subset: Sequence[int],
    found: Differences,
    columns: np.ndarray[Any, Any],
) -> tuple[dict[int, np.ndarray[Any, Any]], list[int]]:
    """Return the gradients by the inputs in ``subset`` for all cotangents, and the inputs without a gradient."""
    with tk.enable_grad():
        tensors = make(arrays, subset)
        leaves = [tensors[i] for i in subset]
        results = [part.value for part in floating_results(function(tensors))]
        recorded = [k for k, t in enumerate(results) if t.requires_grad]
        missing = set(subset)
        gradients = {i: np.zeros((components(arrays[i]).size, columns.shape[1])) for i in subset}
        for number, column in enumerate(columns.T if recorded else ()):
            split = split_cotangent(column, found)
            seeds = [tk.asarray(split[k]).to_device(results[k].device) for k in recorded]
            got = tk.autograd.grad([results[k] for k in recorded], leaves, seeds, retain_graph=True, allow_unused=True)
            for i, gradient in zip(subset, got):
                if gradient is not None:
                    missing.discard(i)
                    gradients[i][:, number] = components(gradient.detach().numpy())
    return gradients, sorted(missing)


def compare(
    arrays: Sequence[np.ndarray[Any, Any]],
    found: Differences,
    columns: np.ndarray[Any, Any],
    gradients: dict[int, np.ndarray[Any, Any]],
    precision: Precision,
) -> Mismatch | None:
    """Return the largest deviation of the gradients from the differences, or None if they agree."""
    for i, gradient in gradients.items():
        if not gradient.size or not found.values[i].size:
            continue
        finite = np.where(found.kinks[i], 0.0, found.values[i])
        want = finite @ columns
        judged = (found.kinks[i].astype(float) @ np.abs(columns)) == 0
        got = gradient[found.moved[i]]
        scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
        with np.errstate(invalid="ignore"):
            apart = np.abs(got - want)
        wrong = judged & ~(apart <= precision.atol * scale + precision.rtol * np.abs(want))
        if wrong.any():
            row, column = np.unravel_index(
                int(np.argmax(np.where(wrong, np.nan_to_num(apart, nan=np.inf), -1))), want.shape
            )
            index, part = _place(int(found.moved[i][row]), arrays[i])
            return Mismatch(
                i, index, float(got[row, column]), float(want[row, column]), _hint(got, want, judged, arrays[i], part)
            )
    return None


def _place(component: int, array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], str]:
    complex_ = array.dtype.kind == "c"
    flat = component // 2 if complex_ else component
    part = ("real part", "imaginary part")[component % 2] if complex_ else ""
    return tuple(int(n) for n in np.unravel_index(flat, array.shape)), part


def _hint(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], judged: np.ndarray[Any, Any], array: np.ndarray[Any, Any],
    part: str,
) -> str:  # fmt: skip
    """Describe the probable mistake."""
    if array.dtype.kind == "c" and got.shape[0] == components(array).size:
        flipped = want * np.where(np.arange(len(want)) % 2, -1.0, 1.0)[:, None]
        # Columns that pull back the imaginary part of a result have the opposite sign.
        columns = [
            any(np.allclose(a, s * b, rtol=1e-3, atol=1e-5) for s in (1.0, -1.0)) for a, b in zip(got.T, flipped.T)
        ]
        if judged.all() and all(columns):
            return (
                f" ({part}) It is the conjugate of what it should be: the gradient of a complex input is g * "
                "tk.conj(derivative)."
            )
    inside = judged & (np.abs(want) > 1e-8) & np.isfinite(got)
    if inside.any():
        ratio = got[inside] / want[inside]
        if np.allclose(ratio, ratio[0], rtol=1e-3) and abs(ratio[0]) > 1e-6:
            return f"{f' ({part})' if part else ''} All of it is {ratio[0]:.4g} times what it should be."
    return f" ({part})" if part else ""
