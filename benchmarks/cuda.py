"""The CUDA backend: ``python -m benchmarks.cuda``.

With a GPU, one call checks every operator against the CPU and times large and small work beside PyTorch and CuPy, in
less than eight minutes; it prints the table of targets with the least time that each part can take (Note [Roofline] in
benchmarks/_cuda_roofline.py). Without a GPU it prints what can be known: the figures of the compiled kernels
(``tools/kernel_figures.py``), the minimum times, and the time that the host needs for small operators, measured on the
driver of the emulator, which executes nothing. Such figures say nothing about the speed of a GPU.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

import tenkey as tk
from benchmarks._cuda_roofline import DEVICES, WORK, Part, minimum
from benchmarks._harness import INSTALL_TORCH
from tenkey.core.dtypes.names import to_dtype

__all__ = ["main"]

_CHECK_SECONDS: Final = 200.0
_ROUNDS: Final = 5
_LEAST: Final = 0.02  # seconds of a timing
SMALL: Final = {
    "add": "x + y",
    "exp": "exp(x)",
    "sum": "sum(x)",
    "x * 2": "x * 2",
    "reshape": "x.reshape((2, 2))",
    "add, gradient recorded": "p + y",
    "forward and backward of a product": "(p * y).sum().backward()",
}
"""Operators on 4 elements, where the time is the host's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and time what this machine can; return the exit status: 1 if a check has failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="without a GPU: only the kernels of sm_90")
    parser.add_argument("--seconds", type=float, default=_CHECK_SECONDS, help="with a GPU: for the checks")
    options = parser.parse_args(arguments)
    if tk.cuda.is_available():
        return _with_gpu(options.seconds)
    print("No GPU: compiled kernels, minimum times, and the time of the host. Nothing here was measured on a GPU.\n")
    failed = _compile_checks(((9, 0),) if options.fast else None)
    print()
    for line in _roofline_table():
        print(line)
    print()
    _host_times()
    return failed


# ---- without a GPU


def _compile_checks(architectures: Sequence[tuple[int, int]] | None) -> int:
    from tools.kernel_figures import ARCHITECTURES, broken_rules, kernels_of_table, rows_of

    start = time.perf_counter()
    rows = rows_of(kernels_of_table(), architectures or ARCHITECTURES)
    problems = broken_rules(rows)
    names = ", ".join(dict.fromkeys(figures.arch for _, figures in rows))
    print(f"Compiled kernels: {len(rows)} for {names} in {time.perf_counter() - start:.0f} s.")
    print(f"  registers of a thread: at most {max(figures.registers for _, figures in rows)}")
    full = sum(figures.occupancy == 1 for _, figures in rows)
    wide = sum(figures.wide_loads + figures.wide_stores > 0 for _, figures in rows)
    print(f"  full occupancy: {full}; accesses of 128 bits: {wide}; kernels that break a rule: {len(problems)}")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


def _roofline_table() -> Iterator[str]:
    heads = "".join([f"{device.name:>12} at least" for device in DEVICES])
    yield f"{'Minimum times':<40}{'MB':>9}{'GFLOP':>9}{heads}  limit"
    for part in WORK:
        times = [minimum(part, device) for device in DEVICES]
        columns = "".join([f"{1e6 * seconds:>18.1f} us" for seconds, _ in times])
        yield f"{part.name:<40}{part.bytes / 1e6:>9.0f}{part.flops / 1e9:>9.1f}{columns}  {times[-1][1]}"


def _host_times() -> None:
    from tenkey.testing.cuda_driver import cuda_emulator

    print("Time of the host for operators on 4 elements, on a driver that executes nothing (target: 3 us a kernel):")
    with cuda_emulator(execute=False):
        for name, seconds in _small_times(_tenkey_names("cuda"), time.thread_time):
            print(f"  {name:<40}{1e6 * seconds:>9.2f} us")


def _small_times(names: dict[str, Any], clock: Callable[[], float] = time.perf_counter) -> Iterator[tuple[str, float]]:
    """Yield the median time of each small statement, by a clock: Note [Two clocks] in benchmarks/_harness.py."""
    for name, statement in SMALL.items():
        timer = timeit.Timer(statement, globals=names, timer=clock)
        try:
            count = _calibrated(timer)
        except Exception as error:  # a library that lacks it
            print(f"  {name:<40}{type(error).__name__}: {error}")
            continue
        yield name, statistics.median([timer.timeit(count) / count for _ in range(_ROUNDS)])


def _calibrated(timer: timeit.Timer) -> int:
    """Return how many executions take a timing's time, after the kernels were compiled."""
    timer.timeit(3)
    count = 1
    while timer.timeit(count) < _LEAST:
        count *= 4
    return count


# ---- with a GPU


def _with_gpu(seconds: float) -> int:
    properties = tk.cuda.get_device_properties()
    print(f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {properties.multi_processor_count} SMs\n")
    failures = _check_operators(seconds)
    libraries = {"tenkey": _tenkey_names("cuda")} | _others()
    _large(libraries)
    print("\nOperators on 4 elements, time of the host and the device:")
    for library, names in libraries.items():
        for name, taken in _small_times(names):
            _synchronize(library)
            print(f"  {library:<8}{name:<40}{1e6 * taken:>9.2f} us")
    _graph()
    return 1 if failures else 0


def _check_operators(limit: float) -> int:
    """Compare every operator with the CPU on its sample inputs until the time is up; return the number of failures."""
    from tenkey.dispatch import registry
    from tenkey.dispatch.errors import ArgumentError
    from tenkey.testing import samples

    start, failures, compared = time.perf_counter(), [], 0
    operators = sorted(registry, key=lambda operator: operator.name)
    for position, operator in enumerate(operators):
        if time.perf_counter() - start > limit:
            failures.append(f"the time was up at {operator.name}, {len(operators) - position} operators were left")
            break
        try:
            given = [*samples(operator, np.random.default_rng(0), "float32")]
        except ArgumentError:
            continue
        for sample in given:
            moved = sample.map(lambda tensor: tensor.to_device("cuda"))  # before an operator changes it
            try:
                expected = operator.call(*sample.args, **sample.kwargs)
            except Exception:  # what the CPU refuses is not compared
                continue
            try:
                found = operator.call(*moved.args, **moved.kwargs)
                _compare(found, expected)
                compared += 1
            except Exception as error:
                text = str(error).strip().partition("\n")[0]
                failures.append(f"{operator.name} ({sample.name}): {type(error).__name__}: {text[:120]}")
    taken = time.perf_counter() - start
    print(f"Operators against the CPU: {compared} calls agree, {len(failures)} do not ({taken:.0f} s).")
    for failure in failures[:50]:
        print(f"  {failure}")
    print(f"  fallbacks: {sum(tk.backends.coverage('cuda').fallback.values())}\n")
    return len(failures)


def _compare(found: Any, expected: Any) -> None:
    if isinstance(expected, tk.Tensor):
        a, b = np.asarray(found.detach().to_device("cpu")), np.asarray(expected.detach())
        if a.shape != b.shape or a.dtype != b.dtype:
            raise AssertionError(f"{a.dtype}{a.shape} in the place of {b.dtype}{b.shape}")
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, equal_nan=True)
        else:
            np.testing.assert_array_equal(a, b)
    elif isinstance(expected, (list, tuple)):
        for one, other in zip(found, expected, strict=True):
            _compare(one, other)


def _large(libraries: dict[str, dict[str, Any]]) -> None:
    device = next((d for d in DEVICES if d.name in tk.cuda.get_device_properties().name), DEVICES[0])
    copy = 0.0
    print(
        f"{'Large work':<40}{'tenkey':>11}{'torch':>11}{'cupy':>11}{'minimum':>11}  of minimum, copy, torch (targets)"
    )
    for part in WORK:
        times: dict[str, float] = {}
        for library, names in libraries.items():
            try:
                times[library] = _timed(part, library, names)
            except Exception as error:  # a library that lacks the operator, or the memory
                print(f"  {library}: {type(error).__name__}: {str(error)[:100]}")
            gc.collect()
        least, _ = minimum(part, device)
        ours, theirs = times.get("tenkey"), times.get("torch")
        if ours is None:
            continue
        copy = copy or part.bytes / ours  # the first part is the copy
        columns = "".join(
            [f"{1e6 * times[n]:>8.1f} us" if n in times else f"{'-':>11}" for n in ("tenkey", "torch", "cupy")]
        )
        shares = [f"{least / ours:.2f}", _target(part.bytes / ours / copy, part.of_copy)]
        shares.append(_target(theirs / ours, part.of_torch) if theirs else "-")
        print(f"{part.name:<40}{columns}{1e6 * least:>8.1f} us  {', '.join(shares)}", flush=True)


def _target(share: float, target: float | None) -> str:
    if target is None:
        return f"{share:.2f}"
    return f"{share:.2f} ({'at least' if share >= target else 'MISSES'} {target:.2f})"


def _timed(part: Part, library: str, names: dict[str, Any]) -> float:
    """Return the seconds of a part: the median of several timings, each ended by a synchronization."""
    made = {name: names["_make"](shape, dtype) for name, (shape, dtype) in part.operands.items()}
    code = compile(part.statements.get(library, part.statement), part.name, "eval")
    space = {**names, **made}

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            eval(code, space)
        _synchronize(library)
        return time.perf_counter() - start

    run(2)
    count = max(1, int(_LEAST / max(run(1), 1e-6)))
    return statistics.median([run(count) / count for _ in range(_ROUNDS)])


def _graph() -> None:
    """Time a step of small operators, eager and as a graph."""
    names = _tenkey_names("cuda")
    x = names["x"]

    def step() -> Any:
        y = x
        for _ in range(20):
            y = y * 1.01 + 1
        return y

    graph = tk.cuda.graph(step)
    for name, function in (("eager", step), ("graph", graph)):
        function()
        tk.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            function()
        tk.cuda.synchronize()
        print(f"  40 small kernels, {name}: {1e4 * (time.perf_counter() - start):.1f} us")


# ---- libraries


def _tenkey_names(device: str) -> dict[str, Any]:
    def make(shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "int64":
            return tk.arange(shape[0], device=device)
        return tk.astype(tk.random.uniform(shape, device=device), to_dtype(dtype))

    def layer_norm(x: Any) -> Any:
        centred = x - tk.mean(x, axis=-1, keepdims=True)
        return centred * tk.rsqrt(tk.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    x = tk.asarray(np.arange(4, dtype=np.float32), device=device)
    return {
        "_make": make, "x": x, "y": x + 1, "p": tk.tensor(np.ones(4, np.float32), device=device, requires_grad=True),
        "copy": lambda x: x.clone(), "exp": tk.exp, "sin": tk.sin, "where": tk.where,
        "sum": lambda x, axis=None: tk.sum(x, axis=axis), "argmax": lambda x, axis: tk.argmax(x, axis=axis),
        "softmax": lambda x: tk.softmax(x, axis=-1), "layer_norm": layer_norm,
        "cumsum": lambda x, axis: tk.cumulative_sum(x, axis=axis), "sort": lambda x: tk.sort(x, axis=-1),
        "take": lambda x, i: tk.take(x, i, axis=0),
    }  # fmt: skip


def _others() -> dict[str, dict[str, Any]]:
    """Return PyTorch and CuPy, where they are installed with CUDA."""
    found: dict[str, dict[str, Any]] = {}
    for name, make in (("torch", _torch_names), ("cupy", _cupy_names)):
        try:
            found[name] = make(import_module(name))
        except Exception as error:  # not installed, or without CUDA
            print(f"{name} is left out: {type(error).__name__}: {error}. {INSTALL_TORCH if name == 'torch' else ''}")
    return found


def _torch_names(torch: Any) -> dict[str, Any]:
    torch.backends.cuda.matmul.allow_tf32 = False  # as in tenkey

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "int64":
            return torch.arange(shape[0], device="cuda")
        return torch.rand(shape, device="cuda").to(getattr(torch, dtype))

    x = torch.arange(4.0, device="cuda")
    return {
        "_make": make, "x": x, "y": x + 1, "p": torch.ones(4, device="cuda", requires_grad=True),
        "copy": lambda x: x.clone(memory_format=torch.contiguous_format), "exp": torch.exp, "sin": torch.sin,
        "where": torch.where, "sum": torch.sum, "argmax": torch.argmax,
        "softmax": lambda x: torch.softmax(x, -1), "cumsum": torch.cumsum, "sort": lambda x: torch.sort(x, -1)[0],
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        "take": lambda x, i: torch.index_select(x, 0, i),
    }  # fmt: skip


def _cupy_names(cupy: Any) -> dict[str, Any]:
    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return cupy.arange(shape[0]) if dtype == "int64" else cupy.random.rand(*shape).astype(dtype)

    x = cupy.arange(4, dtype="float32")
    return {
        "_make": make, "x": x, "y": x + 1, "copy": lambda x: x.copy("C"), "exp": cupy.exp, "sin": cupy.sin,
        "where": cupy.where, "sum": cupy.sum, "argmax": cupy.argmax, "cumsum": cupy.cumsum,
        "sort": lambda x: cupy.sort(x, -1), "take": lambda x, i: cupy.take(x, i, 0),
    }  # fmt: skip


def _synchronize(library: str) -> None:
    if library == "tenkey":
        tk.cuda.synchronize()
    elif library == "torch":
        import_module("torch").cuda.synchronize()
    else:
        import_module("cupy").cuda.Device().synchronize()


if __name__ == "__main__":
    sys.exit(main())
