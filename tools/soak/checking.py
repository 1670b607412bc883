"""Runs a program here and in a reference, and says how the results compare: see the note of the package."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError, SchemaError

from .known import known
from .operators import OPERATORS
from .programs import Program, arrays_of, define, source

__all__ = ["FAILURES", "Outcome", "check", "has_torch", "ours_text"]

Arrays = list[np.ndarray[Any, Any]]
FAILURES: Final = ("wrong value", "wrong dtype", "wrong shape", "internal error", "crash", "hang")
_DOCUMENTED: Final = (TypeError, ValueError, IndexError, OverflowError, RuntimeError, NotImplementedError)
_UNDOCUMENTED: Final = (
    RecursionError,
    UnicodeError,
    RegistrationError,
    SchemaError,
    tk.cuda.CudaError,
)  # derive from documented ones
_NOISES: Final = ((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0))  # seeds and signs: a step nearby lies on one of two sides
_LARGEST: Final = {"f": 1e10, "c": 1e10, "i": 1e6, "u": 1e6}
_SMALLEST: Final = 1e-25
_GUARD: Final = 256  # bytes between tensors of the emulator, so that an access beyond the end is noticed


class Outcome(NamedTuple):
    """What came of a program: a kind, of which ``FAILURES`` are failures, and a text; ``expected`` for the script."""

    kind: str
    detail: str = ""
    expected: tuple[Any, ...] = ()


class _SkipError(Exception):
    """The program has no reference: it is ill-conditioned, near a discontinuity, or not finite."""


def has_torch() -> bool:
    """Return whether PyTorch, the better reference, is installed."""
    with contextlib.suppress(ImportError):
        import torch

        return bool(torch.__version__)
    return False


# ---- this library


def weights_of(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the weights of a result in the sum that is differentiated: numbers that float32 holds."""
    return np.cos(np.arange(int(np.prod(shape)))).astype(np.float32).astype(np.float64).reshape(shape)


def tangents_of(program: Program, arrays: Arrays) -> Arrays:
    """Return a direction for each differentiable input."""
    found = []
    for given, array in zip(program.inputs, arrays):
        if given.differentiable:
            direction = np.sin(np.arange(array.size) + 1.0).astype(np.float32).reshape(array.shape)
            found.append(np.asarray(direction * (1 - 0.5j) if array.dtype.kind == "c" else direction, array.dtype))
    return found


_MODES: Final = {
    "forward": "results = program({all})",
    "backward": "loss({all}).backward()\nresults = [x.grad if x.grad is not None else x * 0 for x in [{some}]]",
    "second": (
        "options = dict(create_graph=True, allow_unused=True, materialize_grads=True)\n"
        "first = tk.autograd.grad(loss({all}), [{some}], **options)\n"
        "total = sum(tk.sum(tk.real(tk.conj(g) * t)) if 'complex' in str(g.dtype) else tk.sum(g * t) "
        "for g, t in zip(first, [{tangents}]))\n"
        "results = tk.autograd.grad(total, [{some}], **options) if total.requires_grad else [x * 0 for x in [{some}]]"
    ),
    "jvp": "results = tk.transforms.jvp(lambda {some}: program({all}), ({some},), ({tangents},))[1]",
    "jvp of grad": (
        "of = tk.transforms.grad(lambda {some}: loss({all}), argnums={numbers})\n"
        "results = tk.transforms.jvp(of, ({some},), ({tangents},))[1]"
    ),
    "vmap": "results = tk.transforms.vmap(program, in_dims={dims})({all})",
    "vmap of grad": (
        "of = tk.transforms.grad(loss, argnums={places})\nresults = tk.transforms.vmap(of, in_dims={dims})({all})"
    ),
}


def ours_text(program: Program) -> str:
    """Return the code that runs the program here and leaves ``results``; the inputs and tangents are given."""
    chosen = [number for number, given in enumerate(program.inputs) if given.differentiable]
    some = ", ".join(program.inputs[number].name for number in chosen)
    lines = source(program, "tk").splitlines()
    if "loss(" not in _MODES[program.mode] and "(loss" not in _MODES[program.mode]:
        lines = lines[: next(i for i, line in enumerate(lines) if line.startswith("def loss"))]
    if program.mode in {"backward", "second"}:
        lines += [f"{program.inputs[number].name}.requires_grad_()" for number in chosen]
    dims = tuple([0 if given.batched else None for given in program.inputs])
    lines.append(
        _MODES[program.mode].format(
            all=", ".join(given.name for given in program.inputs), some=some, numbers=tuple(range(len(chosen))),
            tangents=", ".join(f"t{i}" for i in range(len(chosen))), places=tuple(chosen), dims=dims,
        )
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _ours(program: Program) -> list[Arrays]:
    """Run the program in as many threads as it says; return the results of each."""
    text = ours_text(program)
    arrays = arrays_of(program)
    device = program.device
    if device.startswith("cuda") and not tk.cuda.is_available():
        tk.testing.cuda_emulator(guard=_GUARD)

    def weights(value: tk.Tensor) -> tk.Tensor:
        return tk.asarray(weights_of(value.shape).astype(np.float32), device=device)

    def run(_: int) -> Arrays:
        scope = {given.name: tk.tensor(array, device=device) for given, array in zip(program.inputs, arrays)}
        scope |= {f"t{i}": tk.tensor(array, device=device) for i, array in enumerate(tangents_of(program, arrays))}
        results = define(text, tk, "tk", weights=weights, **scope)["results"]
        return [v.detach().cpu().numpy().copy() for v in (results if isinstance(results, tuple | list) else [results])]

    tk.set_num_threads(program.threads)
    if program.callers == 1:
        return [run(0)]
    with ThreadPoolExecutor(program.callers) as pool:
        return list(pool.map(run, range(program.callers)))


# ---- references


class _Wide:
    """A library whose single precision is double precision."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, {"float32": "float64", "complex64": "complex128"}.get(name, name))


def _widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype({"f": np.float64, "c": np.complex128}.get(array.dtype.kind, array.dtype))


class _Seen:
    """Observes the results of the steps of one run, adds noise or rounds, and notes what a comparison needs to know."""

    def __init__(
        self,
        unit: float = 0.0,
        seed: int | None = None,
        make: Callable[[Any], Any] = np.asarray,
        rounding: Callable[[np.ndarray[Any, Any], float], np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.unit, self.make = unit, make  # a unit below 0 turns the noise round
        self.rounding = rounding  # of a result and the greatest number so far
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.shift = 0.0  # is added to each result, and is the same in all runs, which finite differences need
        self.whole: Arrays = []
        self.largest = 0.0
        self.dtypes: set[str] = set()
        self.scalar = False

    def noise(self, array: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Return a factor near 1 and a small number to add."""
        assert self.rng is not None
        pairs = [self.rng.uniform(-1, 1, array.shape) for _ in range(4)]
        is_complex = array.dtype.kind == "c"
        r, s = (pairs[i] + 1j * pairs[i + 1] if is_complex else pairs[i] for i in (0, 2))
        scale = float(np.max(np.abs(array), initial=0.0)) or 1.0
        return 1 + self.unit * r, 0.01 * self.unit * scale * s

    def __call__(self, value: Any, fresh: bool, written: bool, deviation: bool) -> Any:
        """Observe a result: fresh, written into, or a view. A deviation (standard) near zero is one of rounding."""
        value = value if hasattr(value, "detach") else np.asarray(value)
        array: np.ndarray[Any, Any] = _numpy(value) if hasattr(value, "detach") else value
        self.dtypes.add(array.dtype.name)
        self.scalar |= not array.ndim
        size = np.abs(array) if array.dtype.kind in "fc" else array
        if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
            raise _SkipError("not finite")
        if deviation and np.any(size < 1e-3):
            raise _SkipError("ill-conditioned")
        if array.dtype.kind != "b" and array.size:
            greatest = float(np.max(np.abs(array.astype(np.float64)) if array.dtype.kind in "iu" else size))
            if greatest > _LARGEST[array.dtype.kind] or np.any((size > 0) & (size < _SMALLEST)):
                raise _SkipError("out of range")
            self.largest = max(self.largest, greatest)
        if array.dtype.kind not in "fc":
            self.whole.append(array.copy())
        elif self.shift and (fresh or written):
            return np.asarray(np.add(value, self.shift, out=value if written else None))
        elif self.rounding is not None:
            return _replaced(value, self.rounding(array, self.largest))
        elif fresh and self.rng is not None:
            factor, beside = self.noise(array)
            moved = value * self.make(factor) + self.make(beside)
            return moved if hasattr(moved, "detach") else np.asarray(moved)
        return value


def _replaced(value: Any, rounded: np.ndarray[Any, Any]) -> Any:
    """Put a rounded result in the memory of the result, if it has any, which views and later steps see."""
    array = value.data.numpy() if hasattr(value, "detach") else value
    if isinstance(array, np.ndarray) and array.ndim and array.flags.writeable:
        array[...] = rounded
        return value
    return value if hasattr(value, "detach") else rounded.astype(array.dtype)


def _single(array: np.ndarray[Any, Any], largest: float) -> np.ndarray[Any, Any]:
    return array.astype(np.complex64 if array.dtype.kind == "c" else np.float32)


def _numpy(value: Any) -> np.ndarray[Any, Any]:
    return np.array(value.detach().numpy(force=True))


def _torch(program: Program, arrays: Arrays, seen: _Seen, *, wide: bool = True) -> Arrays:
    """Run the program with PyTorch, in double precision if ``wide``; only forward otherwise."""
    import torch

    tensors = [torch.from_numpy(array.copy()) for array in arrays]
    tangents = [torch.from_numpy(array) for array in tangents_of(program, arrays)]

    def weights(value: Any) -> Any:
        return torch.from_numpy(weights_of(value.shape))

    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    space = define(
        source(program, "torch", observed=True), _Wide(torch) if wide else torch, "torch", seen=seen, weights=weights
    )
    run, loss = space["program"], space["loss"]
    chosen = [number for number, given in enumerate(program.inputs) if given.differentiable]
    if not wide:
        return [_numpy(value) for value in run(*_samples(program, tensors)[0])]
    if program.mode == "vmap":
        rows = [run(*sample) for sample in _samples(program, tensors)]
        return [np.stack([_numpy(row[i]) for row in rows]) for i in range(len(program.results))]
    if program.mode == "forward":
        return [_numpy(value) for value in run(*tensors)]
    options: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    if program.mode == "vmap of grad":
        gradients = []
        for sample in _samples(program, tensors):
            leaves = [t.detach().clone().requires_grad_(i in chosen) for i, t in enumerate(sample)]
            gradients.append(_gradients(loss(*leaves), [leaves[i] for i in chosen], options))
        return [np.stack([_numpy(row[i]) for row in gradients]) for i in range(len(chosen))]
    leaves = [t.requires_grad_(i in chosen) for i, t in enumerate(tensors)]
    some = [leaves[i] for i in chosen]

    def dot(a: Any, b: Any) -> Any:
        return torch.sum(torch.real(torch.conj(a) * b))

    if program.mode == "jvp":
        found = []
        for value in run(*leaves):
            if not value.requires_grad:
                found.append(np.zeros(value.shape, _numpy(value).dtype))
                continue
            u = torch.zeros_like(value, requires_grad=True)
            g = torch.autograd.grad(dot(value, u), some, create_graph=True, **options)
            total = sum(dot(a, b) for a, b in zip(g, tangents, strict=True))
            found.append(_numpy(_gradients(total, [u], {**options, "retain_graph": True})[0]))
        return found
    total = loss(*leaves)
    if program.mode == "jvp of grad" and not (torch.is_tensor(total) and total.requires_grad):
        return [np.zeros(t.shape, _numpy(t).dtype) for t in some]
    first = torch.autograd.grad(total, some, create_graph=program.mode != "backward", **options)
    if program.mode == "backward":
        return [_numpy(g) for g in first]
    total = sum(dot(a, b) for a, b in zip(first, tangents, strict=True))
    return [_numpy(g) for g in _gradients(total, some, options)]


def _gradients(total: Any, leaves: list[Any], options: dict[str, Any]) -> Any:
    import torch

    if not torch.is_tensor(total) or not total.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return torch.autograd.grad(total, leaves, **options)


def _samples(program: Program, tensors: list[Any]) -> list[list[Any]]:
    if not program.mode.startswith("vmap"):
        return [tensors]
    count = next(len(t) for t, given in zip(tensors, program.inputs) if given.batched)
    return [
        [t[k].clone() if given.batched and hasattr(t, "clone") else np.array(t[k]) if given.batched else t
         for t, given in zip(tensors, program.inputs)]
        for k in range(count)
    ]  # fmt: skip


def _differences(program: Program, arrays: Arrays, seen: _Seen) -> Arrays:
    """Run the program with NumPy; derivatives along directions are finite differences of its loss."""
    scope = {"seen": seen, "weights": lambda value: weights_of(np.shape(value))}
    space = define(source(program, "np", observed=True), _Wide(np), "np", **scope)
    run, loss = space["program"], space["loss"]
    if program.mode == "forward":
        return [np.array(value) for value in run(*[a.copy() for a in arrays])]
    samples = _samples(program, arrays)
    if program.mode == "vmap":
        rows = [run(*[np.array(a) for a in sample]) for sample in samples]
        return [np.stack([np.array(row[i]) for row in rows]) for i in range(len(program.results))]
    if any(step.operator == "detach" for step in program.steps):
        raise _SkipError("no reference")
    seen.rng = None
    twice = program.mode in {"second", "jvp of grad"}
    found = []
    for sample in samples:
        ways = iter(tangents_of(program, sample))
        along = [next(ways) if given.differentiable else None for given in program.inputs]
        both = [_slope(loss, sample, along, h, twice) for h in ((2e-3, 1e-3) if twice else (2e-4, 1e-4))]
        estimates, bends = zip(*both)
        estimate = (4 * estimates[1] - estimates[0]) / 3
        if abs(bends[1]) > max(0.75 * abs(bends[0]), 1e-3 * max(abs(estimate), 1.0)):
            raise _SkipError("near a discontinuity")  # a kink: equal elements may be in another order on either side
        if abs(estimates[1] - estimates[0]) > 1e-3 * max(abs(estimate), 1.0):
            raise _SkipError("ill-conditioned")
        for seen.shift in (1e-5, -1e-5, 0.0) if twice else ():  # more than the square of h, and less than h
            shifted = _slope(loss, sample, along, 2e-3, twice)[0]
            if abs(shifted - estimates[0]) > 1e-4 * max(abs(estimates[0]), 0.1):
                raise _SkipError("near a discontinuity")  # a kink that is touched on one side, as of abs(x**2)
        found.append(estimate)
    return [np.array(found)]


def _slope(loss: Callable[..., Any], sample: Arrays, along: list[Any], h: float, twice: bool) -> tuple[float, float]:
    """Return the slope, or the second one, and by how much the slopes on either side differ."""

    def at(s: float) -> float:
        return float(loss(*[np.array(a if t is None else a + s * t) for a, t in zip(sample, along, strict=True)]))

    before, here, after = at(-h), at(0), at(h)
    bend = (after - 2 * here + before) / h
    return (bend / h if twice else (after - before) / (2 * h)), bend


def _along(program: Program, results: Arrays) -> Arrays:
    """Reduce derivatives to the numbers that finite differences give: their products with the directions."""
    batch = program.mode == "vmap of grad"
    ways = [weights_of(r.shape) for r in results] if program.mode == "jvp" else _directions(program, batch)
    if program.mode == "jvp":
        parts = [np.sum((r.real + r.imag) * w) for r, w in zip(results, ways, strict=True)]
        return [np.array([sum(parts)])]
    axes = [tuple(range(1 if batch else 0, r.ndim)) for r in results]
    products = [np.sum((np.conj(r) * t).real, axis=a) for r, t, a in zip(results, ways, axes, strict=True)]
    return [np.atleast_1d(sum(products))]


def _directions(program: Program, batch: bool) -> Arrays:
    one = tangents_of(program, _samples(program, arrays_of(program))[0])
    return [t[None] for t in one] if batch else one


# ---- comparison


def check(program: Program, *, torch: bool | None = None) -> Outcome:
    """Run a program here and in the reference (PyTorch, or NumPy if it is not installed), and compare."""
    torch = has_torch() if torch is None else torch
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        refusal, results = None, None
        try:
            results = _ours(program)
        except Exception as error:
            refusal = error
        if refusal is not None and (isinstance(refusal, _UNDOCUMENTED) or not isinstance(refusal, _DOCUMENTED)):
            return Outcome("internal error", "".join(traceback.format_exception(refusal)[-6:]))
        try:
            try:
                expected, dtypes, tolerances = _reference(program, torch)
            except _SkipError:
                raise
            except Exception as error:
                if refusal is not None:
                    return Outcome("refused by both", _blamed(program, error))
                if not torch:
                    raise
                torch = False  # what PyTorch refuses, NumPy may compute
                expected, dtypes, tolerances = _reference(program, torch)
        except _SkipError as error:
            return Outcome(f"skipped: {error}")
        except Exception as error:
            return Outcome("refused by the reference", f"{_blamed(program, error)}: {_first_line(error)}")
        if refusal is not None:
            reason = known(program, "refused here", str(refusal))
            detail = f"{_blamed(program, refusal)}: {type(refusal).__name__}: {_first_line(refusal)}"
            return Outcome("known difference", reason) if reason else Outcome("refused here", detail)
        assert results is not None
        for found in results:
            outcome = _compare(program, found, expected, dtypes, tolerances, torch)
            if outcome is not None:
                reason = known(program, outcome.kind, outcome.detail)
                return Outcome("known difference", reason) if reason else outcome
        return Outcome("agrees")


def _reference(program: Program, torch: bool) -> tuple[Arrays, list[str] | None, list[float]]:
    """Return the expected results, their dtypes if the reference tells, and the tolerances."""
    arrays = arrays_of(program)
    dtypes = None
    plain = {array.dtype.name for array in arrays}
    if torch:
        native = _Seen()
        results = _torch(program, arrays, native, wide=False)
        plain |= native.dtypes
        # PyTorch promotes tensors without dimensions less than others; here, as in the standard, shapes do not matter
        scalar = native.scalar or any(not given.shape for given in program.inputs)
        if scalar and len([name for name in plain if np.dtype(name).kind in "iu"]) > 1:
            raise _SkipError("no reference")  # narrower integers overflow
        if program.mode in {"forward", "vmap"} and not scalar:
            dtypes = [value.dtype.name for value in results]
    else:
        plain |= {dict(step.attributes).get("dtype", "float32") for step in program.steps} | {"float32"}
    single = any(name in plain for name in ("float32", "complex64"))
    unit = float(np.finfo(np.float32 if single else np.float64).eps)
    wide = [_widened(array) for array in arrays]
    run = _torch if torch else _differences
    make: Callable[[Any], Any] = _from_numpy if torch else np.asarray
    exact = _Seen()
    expected = run(program, wide, exact)
    spreads = [0.0] * len(expected)
    for seed, sign in _NOISES:
        noisy = _Seen(sign * unit, seed, make)
        moved = [_moved(noisy, array) for array in wide]
        found = run(program, moved, noisy)
        if _jumps(exact.whole, noisy.whole):
            raise _SkipError("near a discontinuity")
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            if other.dtype.kind in "fc" and other.size:
                if not np.all(np.isfinite(one)):
                    raise _SkipError("not finite")
                spreads[number] = max(spreads[number], float(np.max(np.abs(one - other))))
    if single and (torch or program.mode in {"forward", "vmap"}):  # tanh(10) is 1 only in single precision
        rounded = _Seen(rounding=_single)
        found = run(program, wide, rounded)
        if _jumps(exact.whole, rounded.whole) or any(map(_far, found, expected)):
            raise _SkipError("near a discontinuity")
    if exact.whole and program.mode in {"forward", "vmap"}:  # noise moves an exact zero, and never makes one
        flushed = _Seen(rounding=lambda array, largest: np.where(np.abs(array) < 16 * unit * largest, 0, array))
        run(program, wide, flushed)
        if _jumps(exact.whole, flushed.whole):
            raise _SkipError("near a discontinuity")
    if single and {"float64", "complex128"} & plain and not torch and program.mode in {"forward", "vmap"}:
        mixed = _Seen()  # a number that is kept in single precision differs from itself in double precision
        run(program, [array.copy() for array in arrays], mixed)
        if _jumps(exact.whole, mixed.whole):
            raise _SkipError("near a discontinuity")
    tolerances = []
    for value, spread in zip(expected, spreads, strict=True):
        if value.dtype.kind in "fc" and not np.all(np.isfinite(value)):
            raise _SkipError("not finite")
        largest = _largest(value)
        if spread > 0.01 * max(largest, 1e-3):
            raise _SkipError("ill-conditioned")
        tolerances.append(16 * spread + unit * (32 * largest + max(exact.largest, 1.0)))
    # Formulas of derivatives cancel (1 - tanh(x)**2 where it is flat; a norm along x), which noise does not reach.
    cancelling = {"forward": 1, "vmap": 1, "second": 100, "jvp of grad": 100}.get(program.mode, 10)
    tolerances = [cancelling * max(tolerances) if cancelling > 1 else t for t in tolerances]
    if not torch and program.mode not in {"forward", "vmap"}:
        tolerances = [
            2 * t + 1e-5 * max(float(np.max(np.abs(v), initial=0.0)), 1.0) for t, v in zip(tolerances, expected)
        ]
    return expected, dtypes, tolerances


def _largest(array: np.ndarray[Any, Any]) -> float:
    return float(np.max(np.abs(array), initial=0.0)) if array.dtype.kind in "fc" else 0.0


def _far(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return other.dtype.kind in "fc" and _largest(one - other) > 0.01 * max(_largest(other), 1e-3)


def _jumps(ones: Arrays, others: Arrays) -> bool:
    """Return whether whole numbers and truth values, by which a program decides, differ between two runs."""
    pairs = zip(ones, others)
    return len(ones) != len(others) or any(a.shape != b.shape or bool(np.any(a != b)) for a, b in pairs)


def _from_numpy(array: np.ndarray[Any, Any]) -> Any:
    import torch

    return torch.from_numpy(np.array(array))


def _moved(seen: _Seen, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind not in "fc":
        return array
    factor, beside = seen.noise(array)
    return np.asarray(array * factor + beside)


def _compare(
    program: Program, found: Arrays, expected: Arrays, dtypes: list[str] | None, tolerances: list[float], torch: bool
) -> Outcome | None:
    """Return the failure that these results show, if any."""
    if not torch and program.mode not in {"forward", "vmap"}:
        if not all(np.all(np.isfinite(one)) for one in found):
            return Outcome("skipped: not finite")  # at a pole, which finite differences step over
        found = _along(program, found)
    for number, (one, other, tolerance) in enumerate(zip(found, expected, tolerances, strict=True)):
        where = f"result {number} ({program.mode})"
        if one.shape != other.shape:
            return Outcome("wrong shape", f"{where}: {one.shape}, expected {other.shape}", tuple(expected))
        if dtypes is not None and one.dtype.name != dtypes[number]:
            return Outcome("wrong dtype", f"{where}: {one.dtype}, expected {dtypes[number]}", tuple(expected))
        if other.dtype.kind not in "fc" and one.dtype.kind not in "fc":
            if np.any(one != other):
                return Outcome("wrong value", f"{where}: {one.tolist()}, expected {other.tolist()}", tuple(expected))
        elif not np.all(np.abs(one - other) <= tolerance):
            worst = float(np.max(np.abs(one - other))) if one.size else 0.0
            text = f"{where}: differs by {worst:.3g}, allowed {tolerance:.3g}:\n{one}\nexpected\n{other}"
            return Outcome("wrong value", text, tuple(expected))
    return None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:160]


def _blamed(program: Program, error: BaseException) -> str:
    """Return the operator of the step in which an error was raised, or the mode if it was raised by no step."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<program>"]
    places = [line - 2 for line in lines if line is not None and 0 <= line - 2 < len(program.steps)]
    return OPERATORS[program.steps[places[-1]].operator].name if places else program.mode
