"""Checking gradients against central differences.

Note [What gradcheck compares]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For every pair of an output and an input it builds the whole Jacobian twice: numerically, by central differences with
step ``eps`` of every real component of the input, and analytically, by one backward for every real component of the
output. For a complex input or output the components are the real and imaginary parts; the conjugate Wirtinger
convention of the engine makes the two comparable (the gradient of a real function by z is df/dx + i df/dy). With
``check_forward_ad`` the Jacobian by forward mode is compared in the same way.

``fast_mode`` multiplies the Jacobian by random directions on either side: two evaluations for an input and one
backward for an output, whatever their sizes. A wrong element moves the product, unless it is a small part of it; that
several directions miss it is the less likely. Where the products differ, or are no finite numbers, the whole Jacobians
decide and give the message, which names the seed of the directions. Guarded by
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
from ...dispatch.local_state import StateGuard
from ...ops.aliases import Recording
from ..engine.functional import grad
from .batched import batched_pull, batched_push
from .error import GradcheckError
from .jacobians import analytical, forward, gradients_of, pushed, random_seed
from .numerical import as_values, components, distance, from_array, numerical, outputs_of, slope

__all__ = ["GRAD_OUTPUTS", "INPUTS", "Settings", "check_options", "run", "second_seed", "sequence"]

_MISMATCH: Final = (
    "[gradcheck] Jacobian {mode}mismatch for output {output} with respect to input {input}: the largest error is "
    "{error:.3e} at row {row} (component of the input), column {column} (component of the output).{fast}\nnumerical:\n"
    "{numerical}\nanalytical:\n{analytical}"
)
_PRECISION: Final = (
    "[gradcheck] Input #{index} requires gradient and is not a double precision floating point or complex, it has "
    "dtype {dtype}: this will likely fail. Convert with x.astype(tk.float64), or give eps, atol and rtol that fit."
)
_BATCHED: Final = (
    "[gradcheck] the batched {mode} differs from the loop over its samples for {what} (largest error {error:.3e})."
)
_POSITIVE: Final = "[gradcheck] {name} is a positive number, got {value!r}."
_INTEGER: Final = "[gradcheck] {name} is an integer, {least} or more, got {value!r}."
INPUTS: Final = "[gradcheck] inputs is a tensor or a sequence of the arguments of fn, got {got}."
GRAD_OUTPUTS: Final = "[gradgradcheck] grad_outputs is a tensor or a sequence of one for each output, got {got}."

_ATTEMPTS: Final = 4
_BATCH: Final = 2


class Settings(NamedTuple):
    """What a check is asked for."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool
    projections: int
    seed: int
    recorded: bool  # whether forward mode runs over calls that are recorded

    def near(self, a: Any, b: Any) -> Any:
        """Whether two numbers are near enough."""
        return np.isclose(a, b, rtol=self.rtol, atol=self.atol, equal_nan=True)


def run(
    fn: Callable[..., Any], inputs: tuple[Any, ...], settings: Settings, asked: dict[str, bool], *, raises: bool
) -> bool:
    """Make the checks that are asked for; whether all is well."""
    try:
        with Recording():
            checked = _checked(inputs)
            outputs, error = _settled(lambda: outputs_of(fn, inputs), _difference, settings.nondet_tol)
            if error > settings.nondet_tol:
                raise GradcheckError(
                    f"[gradcheck] the function is not deterministic: two calls gave outputs that differ by {error:.3e}."
                )
            modes = {"backward": asked["backward"], "ahead": asked["ahead"]}
            _check_jacobians(fn, inputs, checked, outputs, settings, **modes)
            if asked["undefined"]:
                _check_undefined(inputs, checked, outputs, settings)
            if asked["dtypes"]:
                _check_dtypes(inputs, checked, outputs)
            if asked["batched"]:
                _check_batched(inputs, checked, outputs, settings)
            if asked["batched_ahead"]:
                _check_batched_forward(fn, inputs, checked, settings)
    except GradcheckError:
        if raises:
            raise
        return False
    return True


def check_options(fn: Any, settings: Settings, *, has_mode: bool) -> None:
    """Raise unless the settings are such as can be."""
    if not callable(fn):
        raise TypeError(f"[gradcheck] fn is a function of the inputs, got {type(fn).__name__}.")
    if not has_mode:
        raise ValueError(
            "[gradcheck] check_backward_ad and check_forward_ad are both False: there is nothing to check."
        )
    for name in ("projections", "seed", "eps", "atol", "rtol", "nondet_tol"):
        value = getattr(settings, name)
        least = int(name == "projections")
        text = (
            _INTEGER
            if least or name == "seed"
            else _POSITIVE
            if name == "eps"
            else "[gradcheck] {name} is a number, 0 or more, got {value!r}."
        )
        right = hasattr(value, "__index__") if text is _INTEGER else isinstance(value, Real)
        if not right or not value >= least or (text is _POSITIVE and not value > 0):
            raise (ValueError if right else TypeError)(text.format(name=name, least=least, value=value))


def sequence(given: Any, text: str) -> tuple[Any, ...]:
    """One tensor or several, as a tuple; ``text`` says what is wrong with anything else."""
    if not isinstance(given, Iterable):
        raise TypeError(text.format(got=type(given).__name__))
    return (given,) if isinstance(given, Tensor) else tuple(given)


def _checked(inputs: tuple[Any, ...]) -> list[int]:
    """The inputs that require a gradient; warns unless they are in double precision."""
    found = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not found:
        raise ValueError(
            "[gradcheck] gradcheck expects at least one input tensor to require gradient: set requires_grad on one."
        )
    for i in found:
        if inputs[i].dtype.name not in ("float64", "complex128"):
            warnings.warn(_PRECISION.format(index=i, dtype=inputs[i].dtype), UserWarning, stacklevel=4)
    return found


def _settled(call: Callable[[], Any], distance: Callable[[Any, Any], float], nondet: float) -> tuple[Any, float]:
    """What two calls in a row agree on, and by how much they differ.

    A kernel that has just been compiled may take over between two calls, and round the last digit otherwise. Each does
    so once; so a difference is looked at again. What is not deterministic differs again.
    """
    result, error = call(), 0.0
    for _ in range(_ATTEMPTS):
        before, result = result, call()
        error = distance(before, result)
        if error <= nondet:
            break
    return result, error


def _difference(first: list[Tensor], second: list[Tensor]) -> float:
    pairs = zip(first, second, strict=True)
    return max(distance(components(a.detach().numpy()), components(b.detach().numpy())) for a, b in pairs)


# ---- Jacobians


def _check_jacobians(
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: list[int],
    outputs: list[Tensor],
    settings: Settings,
    *,
    backward: bool,
    ahead: bool,
) -> None:
    for i in checked:
        hint = ""
        if settings.fast:
            at = _projection_that_differs(fn, inputs, i, outputs, settings, backward=backward, ahead=ahead)
            if at is None:
                continue
            hint = f" Found in fast mode: projection {at} of seed {settings.seed}."
        with np.errstate(invalid="ignore"):  # inf - inf: the comparison below judges the nan
            columns = numerical(fn, inputs, i, settings.eps)
        if ahead:
            for number, (found, wanted) in enumerate(
                zip(forward(fn, inputs, i, recorded=settings.recorded), columns, strict=True)
            ):
                _compare(wanted, found, number, i, settings, hint, mode="computed with forward mode ")
        if not backward:
            continue
        for number, (output, wanted) in enumerate(zip(outputs, columns, strict=True)):
            found, error = _settled(partial(analytical, output, inputs[i]), distance, settings.nondet_tol)
            if error > settings.nondet_tol:
                raise GradcheckError(
                    f"[gradcheck] the backward is not deterministic: two runs for output {number} with respect to "
                    f"input {i} gave gradients that differ by {error:.3e}; allow it with nondet_tol."
                )
            _compare(wanted, found, number, i, settings, hint)


def _compare(
    wanted: np.ndarray, found: np.ndarray, output: int, at: int, settings: Settings, hint: str, mode: str = ""
) -> None:
    wrong = ~settings.near(wanted, found)  # nan on one side only is a mismatch as well
    if not wrong.any():
        return
    with np.errstate(invalid="ignore"):
        difference = np.abs(wanted - found)
    row, column = np.unravel_index(int(np.argmax(np.where(wrong, difference, -1))), wrong.shape)
    raise GradcheckError(
        _MISMATCH.format(
            mode=mode, output=output, input=at, error=float(difference[row, column]), row=row, column=column, fast=hint,
            numerical=wanted, analytical=found,
        )
    )  # fmt: skip


def _random_direction(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Components of either sign, none of them small."""
    size = components(values).size
    made: np.ndarray = rng.uniform(0.5, 1.0, size) * rng.choice(np.array([-1.0, 1.0]), size)
    return made


def _projection_that_differs(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    at: int,
    outputs: list[Tensor],
    settings: Settings,
    *,
    backward: bool,
    ahead: bool,
) -> int | None:
    """The first random direction that shows a difference: see ``fast_mode`` in Note [What gradcheck compares]."""
    for projection in range(settings.projections):
        rng = np.random.default_rng([settings.seed, at, projection])
        values = np.array(inputs[at].detach().numpy(), order="C")
        direction = _random_direction(rng, values)
        with np.errstate(invalid="ignore"):
            slopes = slope(fn, inputs, at, settings.eps, values, direction)
        if ahead:
            tangents = pushed(
                fn, inputs, at, as_values(direction, values.shape, values.dtype), recorded=settings.recorded
            )
            for found, wanted in zip(tangents, slopes, strict=True):
                weights = rng.uniform(0.5, 1.0, found.size)
                if not _is_near(float(wanted @ weights), float(found @ weights), settings):
                    return projection
        if backward and not _backward_agrees(inputs[at], values, outputs, direction, slopes, rng, settings):
            return projection
    return None


def _is_near(wanted: float, found: float, settings: Settings) -> bool:
    return bool(np.isfinite(found)) and bool(settings.near(wanted, found))


def _backward_agrees(
    source: Tensor,
    values: np.ndarray,
    outputs: list[Tensor],
    direction: np.ndarray,
    slopes: list[np.ndarray],
    rng: np.random.Generator,
    settings: Settings,
) -> bool:
    for output, wanted in zip(outputs, slopes, strict=True):
        if not output.requires_grad:
            if wanted.any():
                return False
            continue
        made = output.detach().numpy()
        weights = _random_direction(rng, made)
        pull = partial(_pulled, output, source, as_values(weights, made.shape, made.dtype), values)
        gradient, error = _settled(pull, distance, settings.nondet_tol)
        with np.errstate(invalid="ignore"):
            expected, got = float(wanted @ weights), float(gradient @ direction)
        if error > settings.nondet_tol or not _is_near(expected, got, settings):
            return False
    return True


def _pulled(output: Tensor, source: Tensor, seed: np.ndarray, values: np.ndarray) -> np.ndarray:
    (found,) = grad(output, source, from_array(seed), retain_graph=True, allow_unused=True)
    return components(values * 0 if found is None else found.detach().numpy())


# ---- what else a backward has to do


def _check_undefined(inputs: tuple[Any, ...], checked: list[int], outputs: list[Tensor], settings: Settings) -> None:
    ends = [t for t in outputs if t.requires_grad]
    if len(ends) < 2:
        return
    rng = np.random.default_rng(settings.seed)
    sources = [inputs[i] for i in checked]
    seeds = [random_seed(rng, t) for t in ends]
    together = gradients_of(ends, sources, seeds)
    alone = [gradients_of([end], sources, [seed]) for end, seed in zip(ends, seeds, strict=True)]
    for nr, i in enumerate(checked):
        summed = np.sum([gradients[nr] for gradients in alone], axis=0)
        if not settings.near(summed, together[nr]).all():
            raise GradcheckError(
                "[gradcheck] Expected backward function to handle undefined output grads: with gradients for all "
                f"outputs, input {i} gets another gradient than the sum of those that each output gives alone "
                f"(largest error {distance(summed, together[nr]):.3e}). Where backward gets None for an output, treat "
                "it as zero."
            )


def _check_dtypes(inputs: tuple[Any, ...], checked: list[int], outputs: list[Tensor]) -> None:
    ends = [t for t in outputs if t.requires_grad]
    seeds = [random_seed(np.random.default_rng(0), t) for t in ends]
    found = grad(ends, [inputs[i] for i in checked], seeds, retain_graph=True, allow_unused=True)
    for i, gradient in zip(checked, found, strict=True):
        if gradient is not None and gradient.dtype != inputs[i].dtype:
            raise GradcheckError(
                f"[gradcheck] the gradient of input {i} has dtype {gradient.dtype}, and the input {inputs[i].dtype}."
            )


def _check_batched(inputs: tuple[Any, ...], checked: list[int], outputs: list[Tensor], settings: Settings) -> None:
    rng = np.random.default_rng(settings.seed)
    sources = [inputs[i] for i in checked]
    for number, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        seeds = [random_seed(rng, output) for _ in range(_BATCH)]
        rows = [gradients_of([output], sources, [seed]) for seed in seeds]
        batch = batched_pull(output, sources, seeds)
        for nr, i in enumerate(checked):
            wanted = np.stack([row[nr] for row in rows])
            found = np.stack([components(sample) for sample in batch[nr]])
            if not settings.near(wanted, found).all():
                what = f"output {number} with respect to input {i}"
                raise GradcheckError(_BATCHED.format(mode="backward", what=what, error=distance(wanted, found)))


def _check_batched_forward(
    fn: Callable[..., Any], inputs: tuple[Any, ...], checked: list[int], settings: Settings
) -> None:
    rng = np.random.default_rng(settings.seed)
    given = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    for i in checked:
        tangents = [random_seed(rng, given[i]) for _ in range(_BATCH)]
        rows = [pushed(fn, inputs, i, tangent.numpy(), recorded=False) for tangent in tangents]
        with StateGuard(exclude=REQUIRES_GRAD):
            batch = batched_push(fn, given, i, tangents)
        for number, samples in enumerate(batch):
            wanted = np.stack([row[number] for row in rows])
            found = np.stack([components(sample) for sample in samples])
            if not settings.near(wanted, found).all():
                what = f"output {number} with respect to input {i}"
                raise GradcheckError(_BATCHED.format(mode="forward mode", what=what, error=distance(wanted, found)))


# ---- second order


def second_seed(rng: np.random.Generator, output: Tensor, *, gaps: bool) -> Tensor:
    """A gradient of an output at random, which requires one; with ``gaps`` one that is not contiguous."""
    made = random_seed(rng, output)
    if gaps and output.ndim:
        made = from_array(np.repeat(made.numpy(), 2, axis=-1)[..., ::2])
    made._word |= REQUIRES_GRAD
    return made
