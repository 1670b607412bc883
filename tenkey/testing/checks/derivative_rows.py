"""The rows autograd, gradient, second order and forward mode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...autograd.gradcheck.numerical import components
from ...core.dtypes.names import is_inexact
from ...core.tensor import Tensor
from .gradient_comparison import (
    Differences,
    Precision,
    compare,
    cotangents,
    differences,
    floating_results,
    pull_back,
    random_gradients,
    split_cotangent,
)
from .labels import Labelled, host_values, quote_all
from .sample import Failure, Sample, Skipped, Warned, described, is_deliberate

__all__ = ["Derivatives", "subsets"]

_SECOND_REMEDY: Final = (
    "In backward, compute with operators on saved tensors (no numpy(), no detach(), no values kept on ctx), or "
    "decorate backward with tk.autograd.once_differentiable, so that it is refused."
)


class Derivatives:
    """State shared by the four rows: the sample in double precision, its differences, and earlier findings."""

    def __init__(self, sample: Sample, atol: float | None, rtol: float | None) -> None:
        self.sample = sample
        self.atol, self.rtol = atol, rtol
        self.rng = np.random.default_rng(0)
        self.differentiable = False
        self.why_not = "not judged while 'autograd' fails"
        self._found: Differences | None = None
        self._arrays: list[np.ndarray[Any, Any]] = []
        self.precision = Precision.of(np.dtype("float64"), atol, rtol)
        self.note = ""

    # ---- the sample in double precision

    @property
    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The sample's values, in double precision if the operator accepts it and computes in it."""
        if not self._arrays:
            wide = [
                a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) if is_inexact(a.dtype) else a
                for a in self.sample.arrays
            ]
            try:
                results = floating_results(self.sample.function(self.sample.tensors(wide)))
                narrow = any(_real_size(part.value.dtype) < 8 for part in results)
            except Exception:
                results, narrow = [], True
            self._arrays = wide
            if narrow:
                self._arrays = self.sample.arrays
                results = floating_results(self.sample.function(self.sample.tensors()))
                self.note = "with wide tolerances in the sample's precision: the operator does not compute in float64"
            if results:
                least = min((part.value.dtype for part in results), key=_real_size)
                self.precision = Precision.of(least, self.atol, self.rtol)
        return self._arrays

    @property
    def found(self) -> Differences:
        """The differences at the sample."""
        if self._found is None:
            self._found = self.differences(self.arrays)
        return self._found

    def differences(self, arrays: Sequence[np.ndarray[Any, Any]], limit: int = 40) -> Differences:
        """Return the differences of the operator at other values."""
        return differences(
            self.sample.function, self.sample.tensors, arrays, self.sample.floating, self.precision, self.rng, limit
        )

    # ---- autograd

    def autograd(self) -> str | None:
        """Check that results require a gradient exactly when they should, and that backward runs."""
        sample = self.sample
        if not sample.floating:
            self.why_not = "no floating-point tensor argument"
            raise Skipped(self.why_not)
        self._check_unrecorded(sample.tensor_results(sample.tensors()), "although no argument does")
        with tk.no_grad():
            tensors = [
                t.clone() if leaf.mutable else t
                for leaf, t in zip(sample.leaves, sample.tensors(gradient=sample.floating))
            ]
            results = sample.tensor_results(tensors)
            made = [p for p in results if all(p.value is not t for t in tensors)]
            self._check_unrecorded(made, "in a no_grad() block")
        if not floating_results(results):
            self.why_not = "integer result" if results else "no tensor result"
        counts = [self._check_recorded(subset) for subset in subsets(sample.floating)]
        if not any(counts):
            self.why_not = "the result does not depend on the arguments' values"
            raise Skipped(self.why_not)
        self._check_backward()
        self.differentiable = True
        return None

    def _check_recorded(self, subset: tuple[int, ...]) -> int:
        """Check that the results require a gradient if these arguments do; return how many do."""
        sample = self.sample
        first = len(subset) == len(sample.floating)
        try:
            with tk.enable_grad():
                results = sample.function(sample.tensors(gradient=subset))
        except Exception as error:
            if "Backward" in sample.operator.facets or not first or not is_deliberate(error):
                named = quote_all([sample.labels[i] for i in subset])
                raise Failure(
                    f"with a gradient recorded for {named} the call raises {described(error)}. Correct setup_context "
                    "or the autograd kernel."
                ) from error
            raise self._no_gradient() from error
        for part in results:
            if part.value.requires_grad and not is_inexact(part.value.dtype):
                raise Failure(
                    f"{part.label} has dtype {part.value.dtype} and requires a gradient: only floating-point results "
                    "can. Do not mark it in the kernel."
                )
        floating = floating_results(results)
        if not floating:
            raise Skipped(self.why_not)
        recorded = [p for p in floating if p.value.requires_grad]
        if len(recorded) < len(floating):
            if "NotDifferentiable" in sample.operator.facets:
                self.why_not = "declared as not differentiable"
                raise Skipped(self.why_not)
            self._check_nothing_lost(subset, results)
        return len(recorded)

    def _no_gradient(self) -> Skipped:
        """Return why the row does not apply; a warning if the sample requests a gradient."""
        self.why_not = "no gradient registered"
        name = self.sample.operator.name
        marked = [self.sample.labels[i] for i in self.sample.floating if self.sample.leaves[i].marked]
        if not marked:
            return Skipped(
                f"no gradient registered; asking for one is refused. tk.library.register_autograd({name!r}, ...) adds "
                "one."
            )
        require = "requires" if len(marked) == 1 else "require"
        return Warned(
            f"{quote_all(marked)} {require} a gradient, but the operator has no gradient rule, and asking for one is "
            f"refused: give it one with tk.library.register_autograd({name!r}, ...)."
        )

    @staticmethod
    def _check_unrecorded(results: list[Labelled], when: str) -> None:
        for part in results:
            if part.value.requires_grad:
                raise Failure(
                    f"{part.label} requires a gradient {when}: an operator's result may do so only if an argument "
                    "does and recording is on. Do not return tensors with a history: detach() the tensors that the "
                    "kernel keeps, and remove its enable_grad."
                )

    def _check_nothing_lost(self, subset: Sequence[int], results: list[Labelled]) -> None:
        """Raise Failure if a result that is not recorded depends on an argument that requires a gradient."""
        start = 0
        for part in floating_results(results):
            size = components(part.value.detach().numpy()).size
            for i in () if part.value.requires_grad else subset:
                window = self.found.values[i][:, start : start + size]
                bent = self.found.kinks[i][:, start : start + size]
                if (np.abs(np.where(bent, 0, window)) > 10 * self.precision.atol).any():
                    label = self.sample.labels[i]
                    raise Failure(
                        f"the gradient with respect to '{label}' is silently lost: {part.label} depends on '{label}', "
                        f"which requires a gradient, and {part.label} does not require one. Compute with operators "
                        "only (no numpy(), detach() or no_grad in the function), register a gradient with "
                        "register_autograd, or define the operator with differentiable=False."
                    )
            start += size

    def _check_backward(self) -> None:
        """Raise Skipped if there is no gradient formula; the row gradient reports other mistakes."""
        operator = self.sample.operator
        with tk.enable_grad():
            tensors = self.sample.tensors(gradient=self.sample.floating)
            results = [p.value for p in floating_results(self.sample.function(tensors)) if p.value.requires_grad]
            inputs = [tensors[i] for i in self.sample.floating]
            try:
                tk.autograd.grad(results, inputs, [tk.ones_like(t) for t in results], allow_unused=True)
            except NotImplementedError as error:
                if "Backward" not in operator.facets and "derivative is not implemented" in str(error):
                    raise self._no_gradient() from error
            except Exception:
                return

    # ---- gradient

    def gradient(self) -> str | None:
        """Compare backward with differences: for all subsets of inputs, at two points, with broadcasting operands."""
        if not self.differentiable:
            raise Skipped(self.why_not)
        sample = self.sample
        columns = cotangents(self.found, self.rng)
        notes = [self.note] if self.note else []
        for number, subset in enumerate(subsets(sample.floating)):
            where = "" if not number else f" when only {quote_all([sample.labels[i] for i in subset])} require it"
            if len(subset) == 1:
                where = where.replace("require it", "requires it")
            self._check_at(self.arrays, subset, self.found, columns if not number else columns[:, :4], where)
        for arrays, where in self._other_points():
            found = self.differences(arrays, 12)
            self._check_at(arrays, sample.floating, found, cotangents(found, self.rng, 3), where)
        self._check_kept_inputs()
        notes += self._complex_note()
        if all(k.size and k.any(axis=1).all() for k in self.found.kinks.values()):
            notes.append("the sample lies on kinks only: give one with other values")
        return "; ".join(notes) or None

    def _check_at(
        self, arrays: Sequence[np.ndarray[Any, Any]], subset: Sequence[int], found: Differences,
        columns: np.ndarray[Any, Any], where: str,
    ) -> None:  # fmt: skip
        labels = self.sample.labels
        try:
            gradients, missing = pull_back(self.sample.function, self.sample.tensors, arrays, subset, found, columns)
        except Exception as error:
            raise Failure(
                f"backward, with a gradient wanted for {quote_all([labels[i] for i in subset]) + where}, "
                f"raises {described(error)}. Correct the function given to register_autograd."
            ) from error
        wrong = compare(arrays, found, columns, gradients, self.precision)
        if wrong is None:
            return
        label = labels[wrong.input]
        if wrong.input in missing:
            raise Failure(
                f"the gradient with respect to '{label}' is missing{where}: backward returns None for it, but at index "
                f"{wrong.place} finite differences give {wrong.want:.6g}. Return its gradient (or, if it is meant to "
                "have none, mark the other tensors of the sample with requires_grad)."
            )
        raise Failure(
            f"the gradient with respect to '{label}' is wrong{where}: at index {wrong.place} backward gives "
            f"{wrong.got:.6g}, finite differences give {wrong.want:.6g}.{wrong.hint} Correct what backward returns for "
            f"'{label}'."
        )

    def _check_kept_inputs(self) -> None:
        """Check that a change in place of an argument after the call is refused in backward, or does not matter."""
        sample = self.sample
        kept = [i for i, leaf in enumerate(sample.leaves) if not leaf.mutable and sample.arrays[i].size]
        want: list[Any] = []
        for i in (-1, *kept):
            tensors = sample.tensors(self.arrays, sample.floating)
            results = [p.value for p in floating_results(sample.function(tensors)) if p.value.requires_grad]
            if i >= 0:
                with tk.no_grad():
                    tensors[i][...] = tk.asarray(_changed(self.arrays[i])).to_device(tensors[i].device)
            try:
                values: list[Any] = random_gradients(results, [tensors[j] for j in sample.floating], 3)
            except Exception:
                if i < 0:
                    return
                continue
            if i < 0:
                want = values
            elif any(a is not None and not np.array_equal(a, b, equal_nan=True) for a, b in zip(want, values)):
                raise Failure(
                    f"a change in place of '{sample.labels[i]}' after the call silently changes the gradient: the "
                    f"operator keeps '{sample.labels[i]}', or an array on its memory, for backward. Save it with "
                    "ctx.save_for_backward, which refuses this, or keep a copy."
                )

    def _accepted(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Labelled] | None:
        """Return the floating results for other values, None if the operator refuses or they are not finite."""
        try:
            results = host_values(floating_results(self.sample.function(self.sample.tensors(arrays))))
        except Exception:
            return None
        with np.errstate(all="ignore"):
            return results if results and all(np.isfinite(p.value).all() for p in results) else None

    def _other_points(self) -> Iterator[tuple[list[np.ndarray[Any, Any]], str]]:
        """Yield the sample moved a little, and with one operand that broadcasts."""
        moved = [_moved(a, self.rng) if i in self.sample.floating else a for i, a in enumerate(self.arrays)]
        if self._accepted(moved) is not None:
            yield moved, " at values near the sample's"
        shapes = self.found.shapes
        if len(self.arrays) < 2:
            return
        for i, array in enumerate(self.arrays):
            if self.sample.leaves[i].mutable or not array.size:
                continue
            smaller = [np.asarray(array[0])] if array.ndim else []
            smaller += [np.take(array, [0], axis) for axis in range(array.ndim) if array.shape[axis] > 1][:3]
            for one in smaller:
                arrays = [one if j == i else a for j, a in enumerate(self.arrays)]
                results = self._accepted(arrays)
                if results is not None and [p.value.shape for p in results] == shapes:
                    text = ", ".join(f"'{label}' {a.shape}" for label, a in zip(self.sample.labels, arrays))
                    yield arrays, f" where '{self.sample.labels[i]}' broadcasts (shapes {text})"

    def _complex_note(self) -> list[str]:
        """Report a wrong gradient for complex values if the operator takes them and the sample has none."""
        if any(a.dtype.kind == "c" for a in self.arrays) or any(
            self.arrays[i].dtype != np.float64 for i in self.sample.floating
        ):
            return []
        arrays = [
            (a + 0.25j * self.rng.uniform(-1, 1, a.shape)) if i in self.sample.floating else a
            for i, a in enumerate(self.arrays)
        ]
        results = self._accepted(arrays)
        if results is None or not all(p.value.dtype == np.complex128 for p in results):
            return []
        found = self.differences(arrays, 12)
        try:
            self._check_at(arrays, self.sample.floating, found, cotangents(found, self.rng, 3), " for complex values")
        except Failure:
            if "Pointwise" in self.sample.operator.facets:
                raise
            note = "right for the sample, but wrong for complex values, which the operator also takes"
            return [f"{note}: give a complex sample to see how"]
        return []

    # ---- second order

    def second_order(self) -> str | None:
        """Compare backward of backward with differences of backward, by the inputs and the output gradients."""
        if not self.differentiable:
            raise Skipped(self.why_not)
        sample, floating = self.sample, self.sample.floating
        seeds = split_cotangent(cotangents(self.found, self.rng, 1)[:, 0], self.found)
        arrays = [*self.arrays, *seeds]
        count = len(sample.leaves)

        def make(values: Sequence[np.ndarray[Any, Any]], gradient: Sequence[int]) -> list[Tensor]:
            own = sample.tensors(values[:count], [i for i in gradient if i < count])
            others = [tk.asarray(np.array(v)).to_device(sample.device) for v in values[count:]]
            for i in gradient:
                if i >= count:
                    others[i - count].requires_grad_()
            return own + others

        def first(tensors: Sequence[Tensor]) -> list[Labelled]:
            own = list(tensors[:count])
            for i in floating:
                own[i] = own[i] if own[i].requires_grad else own[i].detach().requires_grad_()
            with tk.enable_grad():
                results = [p.value for p in floating_results(sample.function(own))]
                chosen = [k for k, t in enumerate(results) if t.requires_grad]
                got = tk.autograd.grad(
                    [results[k] for k in chosen], [own[i] for i in floating], [tensors[count + k] for k in chosen],
                    create_graph=True, allow_unused=True,
                )  # fmt: skip
            zeros = [tk.zeros_like(own[i]) if g is None else g for i, g in zip(floating, got)]
            return [Labelled(sample.labels[i], g) for i, g in zip(floating, zeros)]

        inputs = [*floating, *range(count, len(arrays))]
        found = differences(first, make, arrays, inputs, self.precision, self.rng, 16)
        columns = cotangents(found, self.rng, 4)
        try:
            gradients, _ = pull_back(first, make, arrays, inputs, found, columns)
        except Exception as error:
            if is_deliberate(error):
                return f"once differentiable: a second derivative is refused ({described(error)})"
            raise Failure(f"backward of backward raises {described(error)}. {_SECOND_REMEDY}") from error
        wrong = compare(arrays, found, columns, gradients, self.precision)
        if wrong is None:
            return self.note or None
        by = f"'{sample.labels[wrong.input]}'" if wrong.input < count else "the gradient of the result"
        of = quote_all([sample.labels[i] for i in floating])
        hint = wrong.hint if gradients[wrong.input].any() else " It is silently lost."
        raise Failure(
            f"the second derivative is wrong: of the gradient by {of}, "
            f"with respect to {by}, at index {wrong.place}: backward of backward gives {wrong.got:.6g}, finite "
            f"differences give {wrong.want:.6g}.{hint} {_SECOND_REMEDY}"
        )

    # ---- forward mode

    def forward(self) -> str | None:
        """Compare tangents with differences, for all inputs and for subsets, and with backward."""
        if not self.sample.floating:
            raise Skipped("no floating-point tensor argument")
        if not self.differentiable and "Forward" not in self.sample.operator.facets:
            raise Skipped(self.why_not)
        for number, subset in enumerate(subsets(self.sample.floating)):
            tangents = {i: _tangent(self.arrays[i], self.rng) for i in subset}
            try:
                got = self._push(tangents)
            except Exception as error:
                refused = "Forward" not in self.sample.operator.facets and isinstance(error, NotImplementedError)
                if refused and not number:
                    return f"no forward derivative: it is refused ({described(error)})"
                if refused:
                    continue
                raise Failure(
                    f"forward mode raises {described(error)}. Correct the function given to register_jvp."
                ) from error
            names = quote_all([self.sample.labels[i] for i in subset])
            only = f" when only {names} has a tangent" if number else ""
            self._check_tangents(got, tangents, only)
            if not number and self.differentiable:
                self._check_adjoint(got, tangents)
        return self.note or None

    def _push(self, tangents: dict[int, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any] | None]:
        forward_ad = tk.autograd.forward_ad
        with tk.enable_grad(), forward_ad.dual_level():
            tensors = self.sample.tensors(self.arrays)
            for i, tangent in tangents.items():
                tensors[i] = forward_ad.make_dual(tensors[i], tk.asarray(tangent).to_device(tensors[i].device))
            made: list[np.ndarray[Any, Any] | None] = []
            for part in floating_results(self.sample.function(tensors)):
                pushed = forward_ad.unpack_dual(part.value).tangent
                made.append(None if pushed is None else np.array(pushed.detach().numpy()))
        return made

    def _check_tangents(
        self, got: list[np.ndarray[Any, Any] | None], tangents: dict[int, np.ndarray[Any, Any]], where: str
    ) -> None:
        found = self.found
        # Components that were not moved (of a large input) have no differences: only the adjoint test judges them.
        if any(len(found.moved[i]) < components(t).size for i, t in tangents.items()):
            return
        want = sum(components(t) @ np.where(found.kinks[i], 0, found.values[i]) for i, t in tangents.items())
        bent = np.any([found.kinks[i].any(axis=0) for i in tangents], axis=0)
        want = np.asarray(want)
        start = 0
        for label, shape, size, tangent in zip(found.labels, found.shapes, found.sizes, got):
            window, judged = want[start : start + size], ~bent[start : start + size]
            start += size
            if tangent is not None and tangent.shape != shape:
                raise Failure(
                    f"the tangent of {label} has shape {tangent.shape}, {label} has {shape}: what register_jvp was "
                    "given must return a tangent of the result's shape."
                )
            given = np.zeros(size) if tangent is None else components(tangent)
            scale = max(1.0, float(np.max(np.abs(window), initial=0)))
            with np.errstate(invalid="ignore"):
                wrong = judged & ~(
                    np.abs(given - window) <= 2 * self.precision.atol * scale + self.precision.rtol * np.abs(window)
                )
            if wrong.any():
                at = int(np.argmax(np.where(wrong, np.nan_to_num(np.abs(given - window), nan=np.inf), -1)))
                value = "no tangent (a silent zero)" if tangent is None else f"{given[at]:.6g}"
                raise Failure(
                    f"the tangent of {label} is wrong{where}: the rule gives {value}, finite differences "
                    f"give {window[at]:.6g}. Correct what register_jvp was given."
                )

    def _check_adjoint(self, got: list[np.ndarray[Any, Any] | None], tangents: dict[int, np.ndarray[Any, Any]]) -> None:
        """Apply the dot product test, <u, J v> = <u J, v>, which is exact up to rounding."""
        column = cotangents(self.found, self.rng, 1)
        seeds = split_cotangent(column[:, 0], self.found)
        forward = sum(float(components(u) @ components(t)) for u, t in zip(seeds, got) if t is not None)
        try:
            gradients, _ = pull_back(
                self.sample.function, self.sample.tensors, self.arrays, list(tangents), self.found, column
            )
        except Exception:  # the row gradient reports it
            return
        backward = sum(float(gradients[i][:, 0] @ components(t)) for i, t in tangents.items())
        size = sum(float(np.abs(gradients[i][:, 0]) @ np.abs(components(t))) for i, t in tangents.items())
        if abs(forward - backward) > self.precision.rtol * 1e-2 * max(size, 1.0):
            raise Failure(
                f"the forward derivative and the gradient disagree: <u, J v> is {forward:.9g}, <u J, v> "
                f"is {backward:.9g}. One of the functions of register_jvp and register_autograd is inexact."
            )


def _real_size(dtype: np.dtype) -> int:
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def _moved(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    scale = 0.05 * np.maximum(np.abs(array), 0.5)
    by = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        by = by + 1j * rng.uniform(-1, 1, array.shape)
    return np.asarray(array + scale * by).astype(array.dtype)


def _changed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return other values that an operator is likely to accept: in another order, or scaled a little."""
    turned = np.flip(array).copy()
    if array.dtype.kind in "fc" and np.array_equal(turned, array, equal_nan=True):
        return np.asarray(array * 0.9375).astype(array.dtype)
    return turned


def _tangent(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    drawn = rng.uniform(0.5, 1.5, array.shape) * rng.choice([-1.0, 1.0], array.shape)
    if array.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, array.shape)
    return np.asarray(drawn).astype(array.dtype)


def subsets(inputs: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all inputs, then all smaller subsets of up to three inputs, or single ones of more inputs."""
    yield tuple(inputs)
    sizes = range(len(inputs) - 1, 0, -1) if len(inputs) <= 3 else [1]
    for size in sizes:
        if size < len(inputs):
            yield from itertools.combinations(inputs, size)
