"""Checking gradients against central differences.

Note [What gradcheck compares]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For every pair of an output and an input, the whole Jacobian is computed twice: numerically, by central differences with
step ``eps`` in every real component of the input, and analytically, by one backward for every real component of the
output. The components of a complex input or output are its real and imaginary parts; the conjugate Wirtinger convention
of the engine makes the two comparable (the gradient of a real function by z is df/dx + i df/dy). With
``check_forward_ad`` the Jacobian by forward mode is compared in the same way.

``fast_mode`` multiplies the Jacobian by random directions on both sides: two evaluations per input and one backward per
output, whatever their sizes. A wrong element changes the product unless it is a small part of it; further directions
make it less likely that it is missed. Where the products differ or are not finite, the whole Jacobians decide and
provide the message, which names the seed of the directions. Guarded by
``tests/autograd/gradcheck/test_gradcheck.py::TestFastMode``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Real
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...ops.aliases import recording
from ..engine.functional import grad
from .analytical import analytical, batched_pull, batched_push, pulled, pushed
from .numerical import (
    GradcheckError,
    as_values,
    components,
    distance,
    from_array,
    jacobians,
    numerical,
    outputs_of,
    parts,
    slope,
)

__all__ = ["Settings", "grad_output", "run", "sequence"]

_ATTEMPTS: Final = 4
_BATCH: Final = 2


class Settings(NamedTuple):
    """The settings of a check, and which checks to make."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool
    projections: int
    seed: int
    backward: bool
    forward: bool
    undefined: bool
    dtypes: bool
    batched: bool
    batched_forward: bool = False
    recorded: bool = False  # whether forward mode runs over recorded calls

    def check(self, fn: Any) -> None:
        """Raise unless the values make sense."""
        if not callable(fn):
            raise TypeError(f"[gradcheck] fn is a function of the inputs, got {type(fn).__name__}.")
        if not self.backward and not self.forward:
            raise ValueError(
                "[gradcheck] check_backward_ad and check_forward_ad are both False: there is nothing to check."
            )
        for name, value, kind, text in (
            ("projections", self.projections, "__index__", "an integer, 1 or more"),
            ("seed", self.seed, "__index__", "an integer, 0 or more"),
            ("eps", self.eps, "", "a positive number"),
            ("atol", self.atol, "", "a number, 0 or more"),
            ("rtol", self.rtol, "", "a number, 0 or more"),
            ("nondet_tol", self.nondet_tol, "", "a number, 0 or more"),
        ):
            typed = hasattr(value, kind) if kind else isinstance(value, Real)
            if not typed or not (value > 0 if name in ("projections", "eps") else value >= 0):
                raise (ValueError if typed else TypeError)(f"[gradcheck] {name} is {text}, got {value!r}.")


def sequence(given: Any, what: str) -> tuple[Any, ...]:
    """Return one tensor or several as a tuple; ``what`` begins the error for anything else."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{what}, got {type(given).__name__}.")
    return (given,) if isinstance(given, Tensor) else tuple(given)


def run(fn: Callable[..., Any], inputs: tuple[Any, ...], settings: Settings, *, raises: bool) -> bool:
    """Make the checks; return whether all of them passed."""
    try:
        restore = recording()
        try:
            check = _Check(fn, inputs, settings)
            check.compare_jacobians()
            if settings.backward and settings.undefined:
                check.compare_undefined()
            if settings.backward and settings.dtypes:
                check.compare_dtypes()
            if settings.backward and settings.batched:
                check.compare_batched()
            if settings.forward and settings.batched_forward:
                check.compare_batched_forward()
        finally:
            restore()
    except GradcheckError:
        if raises:
            raise
        return False
    return True


class _Check:
    """The checks of one function at given inputs."""

    def __init__(self, fn: Callable[..., Any], inputs: tuple[Any, ...], settings: Settings) -> None:
        self.fn = fn
        self.inputs = inputs
        self.settings = settings
        self.checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        if not self.checked:
            raise ValueError(
                "[gradcheck] gradcheck expects at least one input tensor to require gradient: set requires_grad on one."
            )
        for i in self.checked:
            if inputs[i].dtype.name not in ("float64", "complex128"):
                warnings.warn(
                    f"[gradcheck] Input #{i} requires gradient and is not a double precision floating point or "
                    f"complex, it has dtype {inputs[i].dtype}: this will likely fail. Convert with "
                    "x.astype(tk.float64), or give eps, atol and rtol that fit.",
                    UserWarning,
                    stacklevel=4,
                )
        self.sources = [inputs[i] for i in self.checked]
        _, error = self._settled(lambda: [parts(t) for t in self._call()])
        if error > settings.nondet_tol:
            raise GradcheckError(
                f"[gradcheck] the function is not deterministic: two calls gave outputs that differ by {error:.3e}."
            )
        self.ends = [t for t in self.outputs if t.requires_grad]

    def _call(self) -> list[Tensor]:
        self.outputs = outputs_of(self.fn, self.inputs)
        return self.outputs

    def _settled(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Return what two calls in a row agree on, and by how much they differ.

        A kernel that has just been compiled may take over between two calls and round the last digit differently, but
        only once. Therefore a difference is checked again; what is not deterministic differs again.
        """
        result, error = call(), 0.0
        for _ in range(_ATTEMPTS):
            before, result = result, call()
            error = max([distance(a, b) for a, b in zip(before, result, strict=True)], default=0.0)
            if error <= self.settings.nondet_tol:
                break
        return result, error

    def _near(self, wanted: Any, found: Any) -> Any:
        return np.isclose(wanted, found, rtol=self.settings.rtol, atol=self.settings.atol, equal_nan=True)

    def _random(self, rng: np.random.Generator, tensors: Iterable[Tensor]) -> list[Tensor]:
        return [grad_output(rng, tensor) for tensor in tensors]

    # ---- Jacobians

    def compare_jacobians(self) -> None:
        """Compare every element, in fast mode only if a random direction shows a difference."""
        fn, inputs, settings = self.fn, self.inputs, self.settings
        for i in self.checked:
            hint = ""
            if settings.fast:
                at = next((at for at in range(settings.projections) if not self._projections_agree(i, at)), None)
                if at is None:
                    continue
                hint = f" Found in fast mode: projection {at} of seed {settings.seed}."
            with np.errstate(invalid="ignore"):  # inf - inf: the comparison below judges the nan
                wanted = numerical(fn, inputs, i, settings.eps)
            if settings.forward:
                found = jacobians(fn, inputs, i, partial(self._pushed, i))
                for number, pair in enumerate(zip(wanted, found, strict=True)):
                    self._compare(*pair, number, i, hint, "computed with forward mode ")
            if settings.backward:
                for number, (output, jacobian) in enumerate(zip(self.outputs, wanted, strict=True)):
                    made, error = self._settled(partial(analytical, output, inputs[i]))
                    if error > settings.nondet_tol:
                        raise GradcheckError(
                            f"[gradcheck] the backward is not deterministic: two runs for output {number} with respect "
                            f"to input {i} gave gradients that differ by {error:.3e}; allow it with nondet_tol."
                        )
                    self._compare(jacobian, made, number, i, hint)

    def _pushed(self, at: int, direction: np.ndarray) -> list[np.ndarray]:
        return pushed(self.fn, self.inputs, at, direction, recorded=self.settings.recorded)

    def _compare(self, wanted: np.ndarray, found: np.ndarray, output: int, at: int, hint: str, mode: str = "") -> None:
        wrong = ~self._near(wanted, found)  # nan on one side only is a mismatch as well
        if not wrong.any():
            return
        with np.errstate(invalid="ignore"):
            difference = np.abs(wanted - found)
        row, column = np.unravel_index(int(np.argmax(np.where(wrong, difference, -1))), wrong.shape)
        raise GradcheckError(
            f"[gradcheck] Jacobian {mode}mismatch for output {output} with respect to input {at}: the largest error is "
            f"{float(difference[row, column]):.3e} at row {row} (component of the input), column {column} (component "
            f"of the output).{hint}\nnumerical:\n{wanted}\nanalytical:\n{found}"
        )

    def _projections_agree(self, at: int, projection: int) -> bool:
        """Return whether derivatives along one random direction agree (``fast_mode``)."""
        source, settings = self.inputs[at], self.settings
        rng = np.random.default_rng([settings.seed, at, projection])
        direction = _random_direction(rng, parts(source).size)
        with np.errstate(invalid="ignore"):
            slopes = slope(self.fn, self.inputs, at, settings.eps, direction)
        if settings.forward:
            for wanted, found in zip(slopes, self._pushed(at, direction), strict=True):
                weights = rng.uniform(0.5, 1.0, found.size)
                if not self._numbers_agree(wanted @ weights, found @ weights):
                    return False
        if not settings.backward:
            return True
        for output, wanted in zip(self.outputs, slopes, strict=True):
            if not output.requires_grad:
                if wanted.any():
                    return False
                continue
            weights = _random_direction(rng, wanted.size)
            seed = from_array(as_values(weights, output.shape, output.dtype))
            (gradient,), error = self._settled(partial(pulled, [output], [source], [seed]))
            with np.errstate(invalid="ignore"):
                agree = self._numbers_agree(wanted @ weights, gradient @ direction)
            if error > settings.nondet_tol or not agree:
                return False
        return True

    def _numbers_agree(self, wanted: Any, found: Any) -> bool:
        return bool(np.isfinite(found) and self._near(wanted, found))

    # ---- further properties of a backward

    def compare_undefined(self) -> None:
        """Compare gradients for all outputs with the sum of those for each output alone."""
        if len(self.ends) < 2:
            return
        seeds = self._random(np.random.default_rng(self.settings.seed), self.ends)
        together = pulled(self.ends, self.sources, seeds)
        alone = [pulled([end], self.sources, [seed]) for end, seed in zip(self.ends, seeds, strict=True)]
        for i, whole, terms in zip(self.checked, together, zip(*alone, strict=True), strict=True):
            summed = np.sum(terms, axis=0)
            if not self._near(summed, whole).all():
                raise GradcheckError(
                    "[gradcheck] Expected backward function to handle undefined output grads: with gradients for all "
                    f"outputs, the gradient of input {i} differs from the sum of those for each output alone (largest "
                    f"error {distance(summed, whole):.3e}). Where backward gets None for an output, treat it as zero."
                )

    def compare_dtypes(self) -> None:
        """Compare the dtypes of gradients with those of the inputs."""
        seeds = self._random(np.random.default_rng(0), self.ends)
        found = grad(self.ends, self.sources, seeds, retain_graph=True, allow_unused=True)
        for i, source, gradient in zip(self.checked, self.sources, found, strict=True):
            if gradient is not None and gradient.dtype != source.dtype:
                raise GradcheckError(
                    f"[gradcheck] the gradient of input {i} has dtype {gradient.dtype}, but the input has dtype "
                    f"{source.dtype}."
                )

    def compare_batched(self) -> None:
        """Compare ``vmap`` over backward with a loop."""
        rng = np.random.default_rng(self.settings.seed)
        for number, output in enumerate(self.outputs):
            if output.requires_grad:
                seeds = self._random(rng, [output] * _BATCH)
                rows = [pulled([output], self.sources, [seed]) for seed in seeds]
                batches = batched_pull(output, self.sources, seeds)
                for i, batch, samples in zip(self.checked, batches, zip(*rows, strict=True), strict=True):
                    self._compare_batch("backward", number, i, batch, samples)

    def compare_batched_forward(self) -> None:
        """Compare ``vmap`` over forward mode with a loop."""
        rng = np.random.default_rng(self.settings.seed)
        for i, source in zip(self.checked, self.sources, strict=True):
            tangents = self._random(rng, [source] * _BATCH)
            rows = [pushed(self.fn, self.inputs, i, parts(tangent), recorded=False) for tangent in tangents]
            batches = batched_push(self.fn, self.inputs, i, tangents)
            for number, (batch, samples) in enumerate(zip(batches, zip(*rows, strict=True), strict=True)):
                self._compare_batch("forward mode", number, i, batch, samples)

    def _compare_batch(self, mode: str, output: int, at: int, found: np.ndarray, samples: Sequence[np.ndarray]) -> None:
        wanted = np.stack(samples)
        if not self._near(wanted, found).all():
            raise GradcheckError(
                f"[gradcheck] the batched {mode} differs from the loop over its samples for output {output} with "
                f"respect to input {at} (largest error {distance(wanted, found):.3e})."
            )


def _random_direction(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return random components of either sign, none of them small."""
    made: np.ndarray = rng.uniform(0.5, 1.0, size) * rng.choice(np.array([-1.0, 1.0]), size)
    return made


def grad_output(rng: np.random.Generator, output: Tensor, *, gaps: bool = False, recorded: bool = False) -> Tensor:
    """Return a random gradient of an output; with ``gaps`` not contiguous, with ``recorded`` requiring a gradient."""
    values = rng.standard_normal(components(np.empty(output.shape, output.dtype)).size)
    made = as_values(values, output.shape, output.dtype)
    if gaps and output.ndim:
        made = np.repeat(made, 2, axis=-1)[..., ::2]
    return from_array(made, word=REQUIRES_GRAD if recorded else 0)
