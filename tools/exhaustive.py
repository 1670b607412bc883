"""Check one-argument functions over all 2^32 float32 patterns: ``python -m tools.exhaustive``.

Each function's results are compared with those of NumPy or SciPy in float64, and the greatest error is printed in units
in the last place (ulp) of float32, with its input. NaN, infinities and zeros with their signs must be exact. A function
takes 20 to 60 seconds on two cores, most of it in NumPy; ``--only`` selects functions, and ``--stride 1000`` takes
every 1,000th pattern. ``--dtype float64 --samples N`` checks random patterns against NumPy's ``longdouble`` where that
is wider. The exit status is 1 if an error exceeds its bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["BOUND", "BOUNDS", "Worst", "check", "check_named", "main", "patterns", "references", "ulps"]

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[[Array], Any]

BOUND: Final = 2.5
_COMPOSED: Final = ("elu", "mish", "selu", "sigmoid", "silu", "softplus", "special_expit")
BOUNDS: Final[Mapping[str, float]] = dict.fromkeys(_COMPOSED, 4.0) | {"gelu": 200.0, "special_erfc": 2.75}
"""Functions composed of several, whose errors add; that of ``gelu`` grows with x**2, which is rounded, in its tail."""

# Below, exp(-x) exceeds float32's largest number, or a factor of the result is subnormal: these are zero or inaccurate
# where the exact number is near the smallest of float32. PyTorch's are, too.
RANGES: Final[Mapping[str, tuple[float, float]]] = dict.fromkeys(
    ["mish", "sigmoid", "silu", "special_expit"], (-88.0, np.inf)
) | {"gelu": (-12.5, np.inf)}
UNSIGNED: Final = frozenset({"gelu", "log_sigmoid", "mish", "silu"})
"""Functions that return zero where the exact number is too small: either zero is right."""

CHUNK: Final = 1 << 17  # the arrays of a chunk fit a cache: four times as fast as 1 << 20
PATTERNS: Final = 1 << 32


def references() -> dict[str, Function]:
    """Return the reference of each function by its name in tenkey; without SciPy, those of NumPy."""
    found: dict[str, Function] = {
        "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
        "atan": np.arctan, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh,
        "deg2rad": np.deg2rad, "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "exp": np.exp, "exp2": np.exp2,
        "expm1": np.expm1, "floor": np.floor, "hardtanh": lambda x: np.clip(x, -1, 1),
        "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x), "log": np.log, "log10": np.log10, "log1p": np.log1p,
        "log2": np.log2, "negative": np.negative, "positive": np.positive, "rad2deg": np.rad2deg,
        "reciprocal": lambda x: 1 / x, "relu": lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0.0)),
        "relu6": lambda x: np.clip(x, 0, 6), "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x),
        "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "softplus": lambda x: np.logaddexp(x, 0),
        "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), "sqrt": np.sqrt,
        "square": np.square, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    }  # fmt: skip
    if importlib.util.find_spec("scipy") is not None:
        import scipy.special as s

        found |= {
            "gelu": lambda x: x * s.ndtr(x), "log_sigmoid": s.log_expit,
            "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)), "sigmoid": s.expit, "silu": lambda x: x * s.expit(x),
        }  # fmt: skip
        found |= {f"special_{name}": getattr(s, name) for name in ("erf", "erfc", "expit")}
    return found


def functions() -> dict[str, Function]:
    """Return tenkey's pointwise operators of one argument, as functions of arrays."""
    import tenkey as tk
    from tenkey.ops import pointwise_operators

    def of(call: Callable[..., Any]) -> Function:
        return lambda x: np.asarray(call(tk.asarray(x)))

    return {op.name.partition("::")[2]: of(op.call) for op in pointwise_operators() if op.arity == 1}


@dataclass(frozen=True)
class Worst:
    """The greatest error of a function, where it occurs, and how many inputs were tried."""

    error: float = 0.0
    at: float = 0.0
    got: float = 0.0
    want: float = 0.0
    count: int = 0

    def __or__(self, other: Worst) -> Worst:
        larger = other if other.error > self.error else self
        return Worst(larger.error, larger.at, larger.got, larger.want, self.count + other.count)


def ulps(got: Array, want: Array, signed: bool = True) -> Array:
    """Return the distances from the exact numbers ``want``, of a wider dtype, in units in the last place of ``got``.

    The distance is infinite where a NaN, an infinity or a zero is expected and something else, or if ``signed`` the
    zero of the other sign, is found. An infinity in the place of a finite number counts as the number that follows the
    largest.

    >>> ulps(np.array([1, 0, np.inf], np.float32), np.array([1 + 2.0**-23, -0.0, 1.0]))[:2]
    array([ 1., inf])
    """
    limits = np.finfo(got.dtype)
    wide = want.dtype.type
    top = np.ldexp(wide(1), limits.maxexp)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(np.minimum(np.abs(want), np.nextafter(top, wide(0))))[1] - 1, limits.minexp)
        unit = np.ldexp(wide(1), exponent - limits.nmant)
        finite = np.clip(got.astype(wide), -top, top)
        error = np.abs(finite - np.clip(want, -top, top)) / unit
    special = np.isnan(want) | np.isinf(want) | (want == 0)
    same = (got == want) & ((not signed) | (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))
    exact: Array = np.where(special, np.where(same, 0, np.inf), np.where(np.isnan(got), np.inf, error)).astype(
        np.float64
    )
    return exact


def _compare(inputs: Array, got: Array, want: Array, signed: bool) -> Worst:
    """Return the worst of one chunk; only the results farthest from the rounded reference need the exact measure."""
    integer = np.int32 if got.dtype == np.float32 else np.int64
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
    steps = np.abs(got.view(integer) - rounded.view(integer))
    missing = np.isnan(rounded)
    if missing.any():
        steps[missing & np.isnan(got)] = 0
    steps[steps < 0] = np.iinfo(integer).max  # results of different signs
    far = int(steps.max(initial=0))
    if far == 0:  # rounded correctly everywhere
        exact = bool(np.array_equal(rounded, want, equal_nan=True))
        return Worst(0.0 if exact else 0.5, float(inputs[0]), float(got[0]), float(want[0]), inputs.size)
    where = np.nonzero(steps >= min(far, 4))[0]
    errors = ulps(got[where], want[where], signed)
    worst = int(np.argmax(errors))
    at = where[worst]
    return Worst(float(errors[worst]), float(inputs[at]), float(got[at]), float(want[at]), inputs.size)


def patterns(start: int, stop: int, stride: int, chunk: int = CHUNK) -> Iterator[Array]:
    """Yield the float32 numbers whose patterns are ``range(start, stop, stride)``, in equal chunks.

    No chunk is much smaller than the others, because small calls may be computed by other code.

    >>> [found.size for found in patterns(0, 1 << 32, 1 << 20, 1000)]
    [1024, 1024, 1024, 1024]
    """
    count = -(-(stop - start) // stride)
    chunks = max(1, count // chunk)
    for i in range(chunks):
        bits = np.arange(count * i // chunks, count * (i + 1) // chunks, dtype=np.int64) * stride + start
        yield bits.astype(np.uint32).view(np.float32)


def samples(count: int, seed: int, domain: tuple[float, float]) -> Iterator[Array]:
    """Yield ``count`` float64 numbers in chunks: random patterns, and as many from the domain."""
    rng = np.random.default_rng(seed)
    while count > 0:
        size = min(CHUNK // 4, count)
        bits = rng.integers(0, 1 << 64, size - size // 2, dtype=np.uint64).view(np.float64)
        yield np.concatenate([bits, rng.uniform(*domain, size // 2)])
        count -= size


def check(
    function: Function,
    reference: Function,
    chunks: Iterator[Array],
    within: tuple[float, float] = (-np.inf, np.inf),
    signed: bool = True,
) -> Worst:
    """Compare a function with its reference in a wider dtype, for inputs within a range; return the greatest error.

    >>> check(np.sqrt, np.sqrt, patterns(0, 1 << 32, 1 << 14)).error
    0.5
    >>> check(lambda x: np.sqrt(x) * np.float32(1.0001), np.sqrt, patterns(0, 1 << 32, 1 << 14)).error > 800
    True
    """
    worst = Worst()
    with np.errstate(all="ignore"):
        for inputs in chunks:
            wide = np.float64 if inputs.dtype == np.float32 else np.longdouble
            if within != (-np.inf, np.inf):
                inputs = inputs[~((inputs < within[0]) | (inputs > within[1]))]
                if not inputs.size:
                    continue
            got, want = np.asarray(function(inputs)), np.asarray(reference(inputs.astype(wide)))
            worst |= _compare(inputs, got, want, signed)
    return worst


@dataclass(frozen=True)
class _Task:
    """A part of the work on one function, for a process."""

    name: str
    part: int
    parts: int
    stride: int
    chunk: int
    samples: int | None
    seed: int


def _run(task: _Task) -> Worst:
    chunks: Iterator[Array]
    if task.samples is None:
        share = PATTERNS // task.parts
        chunks = patterns(task.part * share, (task.part + 1) * share, task.stride, task.chunk)
    else:
        chunks = samples(task.samples // task.parts, task.seed + task.part, DOMAINS.get(task.name, (-20.0, 20.0)))
    return check_named(task.name, chunks)


def check_named(name: str, chunks: Iterator[Array]) -> Worst:
    """Compare one of tenkey's functions with its reference."""
    within = RANGES.get(name, (-np.inf, np.inf))
    return check(functions()[name], references()[name], chunks, within, name not in UNSIGNED)


DOMAINS: Final[Mapping[str, tuple[float, float]]] = {
    "acos": (-1, 1), "acosh": (1, 20), "asin": (-1, 1), "atanh": (-1, 1), "exp": (-700, 700), "log": (0, 20),
    "log10": (0, 20), "log1p": (-1, 20), "log2": (0, 20), "rsqrt": (0, 20), "sqrt": (0, 20),
}  # fmt: skip


def _only_float64() -> set[str]:
    """Return the names whose references exist in float64 alone."""
    narrow = set()
    for name, reference in references().items():
        try:
            with np.errstate(all="ignore"):
                if np.asarray(reference(np.ones(1, np.longdouble))).dtype != np.longdouble:
                    narrow.add(name)
        except TypeError:
            narrow.add(name)
    return narrow


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the functions; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="only this function; may be repeated")
    parser.add_argument("--stride", type=int, default=1, help="every STRIDE-th pattern of float32 (default 1: all)")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--samples", type=int, default=10_000_000, help="numbers of float64 (default 10 million)")
    parser.add_argument(
        "--chunk", type=int, default=CHUNK, help=f"numbers in a call (default {CHUNK}); NumPy computes small calls"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the samples of float64")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default one for each core)")
    parser.add_argument("--bound", type=float, help=f"the greatest error allowed (default {BOUND} ulp, for some more)")
    options = parser.parse_args(arguments)
    narrow = options.dtype == "float32"
    if not narrow and np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        print("NumPy's longdouble is not wider than float64 here: float64 cannot be checked.")
        return 0
    known = sorted(functions().keys() & references().keys())
    names = options.only or known
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"--only takes functions with a reference, {', '.join(known)}; got {', '.join(unknown)}")
    if not options.only:
        print(f"without a reference here: {', '.join(sorted(functions().keys() - references().keys()))}")
    if not narrow:
        missing = sorted(set(names) & _only_float64())
        names = [name for name in names if name not in missing]
        print(f"without a reference wider than float64: {', '.join(missing)}")
    parts = max(options.jobs, min(64, PATTERNS // (options.chunk * options.stride))) if narrow else options.jobs
    failed = []
    if options.jobs > 1:
        os.environ.update({"TENKEY_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # of the processes
    with multiprocessing.get_context("spawn").Pool(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        for name in names:
            begin = said = time.perf_counter()
            worst = Worst()
            count = None if narrow else options.samples
            tasks = [
                _Task(name, part, parts, options.stride, options.chunk, count, options.seed) for part in range(parts)
            ]
            for done, found in enumerate(pool.imap_unordered(_run, tasks) if pool else map(_run, tasks), start=1):
                worst |= found
                if time.perf_counter() - said > 10 and done < parts:
                    said = time.perf_counter()
                    print(f"{name}: {done / parts:.0%}, so far {worst.error:.3f} ulp", flush=True)
            bound = BOUNDS.get(name, BOUND) if options.bound is None else options.bound
            wrong = worst.error > bound
            failed += [name] if wrong else []
            print(
                f"{name}: {'FAILED: ' if wrong else ''}{worst.error:.3f} ulp (at most {bound}) at {worst.at!r} (got "
                f"{worst.got!r}, exact {worst.want!r}), {worst.count:,} numbers, {time.perf_counter() - begin:.0f} s",
                flush=True,
            )
    print(f"{len(names) - len(failed)} of {len(names)} functions within their bounds")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
