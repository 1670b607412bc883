"""Checking gradients against central differences.

Note [What gradcheck compares]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For every pair of an output and an input it builds the whole Jacobian twice: numerically, by central differences with
step ``eps`` of every real component of the input, and analytically, by one backward for every real component of the
output. For a complex input or output the components are the real and imaginary parts; the conjugate Wirtinger
convention of the engine makes the two comparable (the gradient of a real function by z is df/dx + i df/dy).

``fast_mode`` multiplies the Jacobian by a random direction on either side: two evaluations for an input and one
backward for an output, whatever their sizes. A wrong element moves the product, unless it is a small part of it. Where
the two products differ, or are no finite numbers, the whole Jacobians decide and give the message. Guarded by
``tests/test_gradcheck.py::TestFastMode``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor, cpu_word, make_tensor
from ..core.word import GRADIENT
from ..dispatch.local import StateGuard
from .functional import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_MISMATCH: Final = (
    "[gradcheck] Jacobian mismatch for output {output} with respect to input {input}: the largest error is {error:.3e} "
    "at row {row} (component of the input), column {column} (component of the output).\nnumerical:\n{numerical}\n"
    "analytical:\n{analytical}"
)
_PRECISION: Final = (
    "[gradcheck] input {index} has dtype {dtype}: central differences need double precision; convert with "
    "x.astype(tk.float64)."
)
_NO_INPUT: Final = "[gradcheck] expects at least one input tensor to require a gradient: set requires_grad on one."
_CHANGED: Final = "[gradcheck] the function is not deterministic: two calls gave outputs that differ by {error:.3e}."
_BACKWARD_CHANGED: Final = (
    "[gradcheck] the backward is not deterministic: two runs for output {output} with respect to input {input} gave "
    "gradients that differ by {error:.3e}; allow it with nondet_tol."
)
_NO_OUTPUT: Final = (
    "[gradcheck] the function returned {got}, no floating or complex tensor: there is nothing to check. Return a "
    "tensor or a sequence of tensors."
)


_ATTEMPTS: Final = 4


class GradcheckError(RuntimeError):
    """A gradient that differs from the numerical one."""


def _outputs(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = fn(*inputs)
    listed = list(result) if isinstance(result, (tuple, list)) else [result]
    found = [t for t in listed if isinstance(t, Tensor) and t.dtype.kind in "fc"]
    if not found:
        raise ValueError(_NO_OUTPUT.format(got=type(result).__name__))
    return found


def _components(values: np.ndarray) -> np.ndarray:
    """The real components of an array, one after the other (real part before imaginary part)."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind != "c":
        return flat.astype(np.float64)
    return flat.view(flat.real.dtype).astype(np.float64)


def _as_values(components: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The array of real components ``components``; the inverse of ``_components``."""
    flat = components.view(np.complex128) if like.dtype.kind == "c" else components
    values: np.ndarray = flat.astype(like.dtype).reshape(like.shape)
    return values


def _slope(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float, values: np.ndarray, direction: np.ndarray
) -> list[np.ndarray]:
    """The central difference of each output along a direction of one input."""
    both = []
    moves = direction.nonzero()  # the others stay as they are, with the sign of a zero
    for step in (eps, -eps):
        moved = np.array(values)
        moved.reshape(-1).view(np.float64)[moves] += direction[moves] * step
        replaced = list(inputs)
        replaced[at] = make_tensor(moved, cpu_word(moved.dtype) | GRADIENT)
        with StateGuard(exclude=GRADIENT):
            both.append([_components(t.detach().numpy()) for t in _outputs(fn, replaced)])
    return [(plus - minus) / (2 * eps) for plus, minus in zip(*both)]


def _numerical(fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float) -> list[np.ndarray]:
    source = inputs[at]
    values = np.array(source.detach().numpy(), order="C")  # so that reshape(-1) below is a window, not a copy
    parts = _components(values).size
    columns: list[list[np.ndarray]] = []
    for component in range(parts):
        direction = np.zeros(parts)
        direction[component] = 1.0
        columns.append(_slope(fn, inputs, at, eps, values, direction))
    if not columns:  # an empty input
        return [np.zeros((0, _components(t.detach().numpy()).size)) for t in _outputs(fn, inputs)]
    return [np.array(rows) for rows in zip(*columns)]


def _analytical(output: Tensor, source: Tensor) -> np.ndarray:
    values = output.detach().numpy()
    size = _components(values).size
    jacobian = np.zeros((_components(source.detach().numpy()).size, size))
    for component in range(size):
        seed = np.zeros(values.shape, values.dtype)
        flat = seed.reshape(-1)
        if values.dtype.kind == "c":
            flat[component // 2] = 1j if component % 2 else 1.0
        else:
            flat[component] = 1.0
        if not output.requires_grad:
            continue
        (found,) = grad(output, source, make_tensor(seed, cpu_word(seed.dtype)), retain_graph=True, allow_unused=True)
        if found is not None:
            jacobian[:, component] = _components(found.detach().numpy())
    return jacobian


def _random_direction(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Components of either sign, none of them small."""
    size = _components(values).size
    made: np.ndarray = rng.uniform(0.5, 1.0, size) * rng.choice(np.array([-1.0, 1.0]), size)
    return made


def _agree_along_a_direction(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    at: int,
    outputs: list[Tensor],
    eps: float,
    near: Callable[[Any, Any], Any],
    nondet: float,
) -> bool:
    """Whether a random direction shows no difference: see ``fast_mode`` in Note [What gradcheck compares]."""
    rng = np.random.default_rng(at)
    source = inputs[at]
    values = np.array(source.detach().numpy(), order="C")
    direction = _random_direction(rng, values)
    with np.errstate(invalid="ignore"):
        slopes = _slope(fn, inputs, at, eps, values, direction)
    for output, slope in zip(outputs, slopes):
        if not output.requires_grad:
            if slope.any():
                return False
            continue
        made = output.detach().numpy()
        weights = _random_direction(rng, made)
        seed = _as_values(weights, made)

        def backward(output: Tensor = output, seed: np.ndarray = seed) -> np.ndarray:
            found = grad(output, source, make_tensor(seed, cpu_word(seed.dtype)), retain_graph=True, allow_unused=True)
            return _components(values * 0 if found[0] is None else found[0].detach().numpy())

        gradient, error = _settled(backward, _distance, nondet)
        with np.errstate(invalid="ignore"):
            numerical, analytical = float(slope @ weights), float(gradient @ direction)
        if error > nondet or not np.isfinite(analytical) or not near(numerical, analytical):
            return False
    return True


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two arrays; equal infinities and nan on both sides count as equal."""
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    nondet_tol: float = 0.0,
    raise_exception: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare the gradients of ``fn`` with central differences (Note [What gradcheck compares]).

    Args: fn: takes the inputs, returns a tensor or several; inputs: a tensor or a sequence, those that require a
    gradient in double precision; eps: step; atol, rtol: allowed absolute and relative difference; nondet_tol: allowed
    difference between two equal calls; raise_exception: raise GradcheckError rather than return False; fast_mode: look
    along a random direction first, and at each element only where that shows a difference.

    >>> import tenkey as tk
    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradcheck(lambda x: tk.exp(x) * x, (x,))
    True
    """
    given: tuple[Any, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        with StateGuard(unexclude=GRADIENT):
            _check(fn, given, eps, atol, rtol, nondet_tol, fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


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
    return max(_distance(_components(a.detach().numpy()), _components(b.detach().numpy())) for a, b in pairs)


def _check(
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    eps: float,
    atol: float,
    rtol: float,
    nondet: float,
    fast: bool,
) -> None:
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError(_NO_INPUT)
    for i in checked:
        if inputs[i].dtype.name not in ("float64", "complex128"):
            raise ValueError(_PRECISION.format(index=i, dtype=inputs[i].dtype))
    outputs, error = _settled(lambda: _outputs(fn, inputs), _difference, nondet)
    if error > nondet:
        raise GradcheckError(_CHANGED.format(error=error))
    near = partial(np.isclose, rtol=rtol, atol=atol)
    for i in checked:
        if fast and _agree_along_a_direction(fn, inputs, i, outputs, eps, near, nondet):
            continue
        with np.errstate(invalid="ignore"):  # inf - inf: the comparison below judges the nan
            columns = _numerical(fn, inputs, i, eps)
        for number, (output, numerical) in enumerate(zip(outputs, columns)):
            analytical, error = _settled(partial(_analytical, output, inputs[i]), _distance, nondet)
            if error > nondet:
                raise GradcheckError(_BACKWARD_CHANGED.format(output=number, input=i, error=error))
            # nan on one side only is a mismatch as well
            wrong = ~np.isclose(numerical, analytical, rtol=rtol, atol=atol, equal_nan=True)
            if wrong.any():
                with np.errstate(invalid="ignore"):
                    difference = np.abs(numerical - analytical)
                row, column = np.unravel_index(int(np.argmax(np.where(wrong, difference, -1))), wrong.shape)
                raise GradcheckError(
                    _MISMATCH.format(
                        output=number,
                        input=i,
                        error=float(difference[row, column]),
                        row=row,
                        column=column,
                        numerical=numerical,
                        analytical=analytical,
                    )
                )


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    seed: int = 0,
    fast_mode: bool = False,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the backward of ``fn``, by inputs and output gradients.

    >>> import tenkey as tk
    >>> x = tk.tensor([0.5, 2.0], dtype=tk.float64, requires_grad=True)
    >>> tk.autograd.gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    given: tuple[Any, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with StateGuard(unexclude=GRADIENT):
        outputs = [t for t in _outputs(fn, given) if t.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(seed)
        seeds = []
        for t in outputs:
            values = np.asarray(rng.standard_normal(t.shape))
            if t.dtype.kind == "c":
                values = values + 1j * rng.standard_normal(t.shape)
            seeds.append(make_tensor(np.asarray(values, t.dtype), cpu_word(t.dtype) | GRADIENT))
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    count = len(given)

    def first(*args: Any) -> tuple[Tensor, ...]:
        recorded = [t if t.requires_grad else t.detach().requires_grad_() for t in (args[i] for i in checked)]
        own = list(args[:count])
        for i, t in zip(checked, recorded):
            own[i] = t
        with StateGuard(unexclude=GRADIENT):
            made = [t for t in _outputs(fn, own) if t.requires_grad]
            found = grad(made, recorded, list(args[count:]), create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        first, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, fast_mode=fast_mode
    )
