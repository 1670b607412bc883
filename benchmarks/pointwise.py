"""Every pointwise operator at 2^20 float32 elements: ``python -m benchmarks.pointwise``.

Beside PyTorch (all threads) and NumPy, interleaved in one run: see Note [Interleaved measurement] in
benchmarks/_harness.py. The ratio that counts is the one to the faster of the two, and its geometric mean. PyTorch's
column needs ``pip install torch==2.13.0``, JAX's (informative) ``pip install jax``; without them the rest is measured.
Every library allocates its result, as in a user's expression. Operators that have nothing to do on float32 are left
out, and named.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks import _tenkey
from benchmarks._harness import (
    INSTALL_TORCH,
    Row,
    Work,
    describe_machine,
    format_table,
    measure_rows,
    parse_options,
    write_json,
)
from benchmarks._references import LEFT_OUT, OPERANDS, reference, resolve
from tenkey.ops import pointwise_operators

__all__ = ["main"]

SIZE = 1 << 20
DEFAULT_DOMAIN = (-4.0, 4.0)

Array = np.ndarray[Any, np.dtype[Any]]


def _short(operator: Any) -> str:
    """The operator's name without its namespace."""
    name: str = operator.name
    return name.partition("::")[2] or name


def sample(operator: Any, size: int = SIZE) -> list[Array]:
    """Operands for the operator within its domain, reproducible: float32 unless ``OPERANDS`` says otherwise.

    ``operator.domain`` is one (low, high) for all operands, a sequence of them, one for each, or None.
    """
    generator = np.random.default_rng(20)
    short = _short(operator)
    domain = operator.domain or DEFAULT_DOMAIN
    domains = list(domain) if isinstance(domain[0], Sequence) else [domain] * operator.arity
    operands: list[Array] = []
    for kind, (low, high) in zip(OPERANDS.get(short, "f" * operator.arity), domains, strict=True):
        if kind == "b":
            operands.append(generator.random(size) < 0.5)
        else:
            operands.append(generator.uniform(low, high, size).astype(np.float32))
    return operands


def _library(name: str) -> tuple[Any, Callable[[Array], Any]] | None:
    """The library's module of functions and its conversion from NumPy; None when it is not installed."""
    if name == "NumPy":
        return np, lambda array: array
    if name == "PyTorch" and importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(os.cpu_count() or 1)
        return torch, torch.from_numpy
    if name == "JAX" and importlib.util.find_spec("jax") is not None:
        import jax

        return jax.numpy, jax.numpy.asarray
    return None


def _jax_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled, and waited for: JAX returns before the result is there."""
    import jax

    compiled = jax.jit(function)
    return lambda *operands: compiled(*operands).block_until_ready()


def make_rows(operators: Sequence[Any], size: int = SIZE) -> list[Row]:
    """One row for each operator, with those libraries that have its like."""
    libraries = {name: found for name in ("PyTorch", "NumPy", "JAX") if (found := _library(name)) is not None}
    rows = []
    for operator in operators:
        short = _short(operator)
        if short in LEFT_OUT:
            continue
        operands = sample(operator, size)
        works: dict[str, Work] = {"tenkey": _work(operator.call, [tk.asarray(operand) for operand in operands])}
        for name, (module, convert) in libraries.items():
            text = reference(short, "torch" if name == "PyTorch" else "numpy")
            function = resolve(module, text, len(operands))
            if function is not None:
                called = _jax_function(function) if name == "JAX" else function
                works[name] = _work(called, [convert(operand) for operand in operands])
        rows.append(Row(short, works))
    return rows


def _work(function: Callable[..., Any], operands: Sequence[Any]) -> Work:
    names: Mapping[str, object] = {f"x{position}": operand for position, operand in enumerate(operands, start=1)}
    return Work(f"function({', '.join(names)})", {"function": function, **names})


def main() -> None:
    """Measure and print the table."""
    options = parse_options(__doc__ or "", rounds=25)
    if importlib.util.find_spec("torch") is None:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy", "numba", "jax"])
    print(f"{machine}\n{options.heading}\n")
    # NumPy warns of overflow or invalid values at the edge of a domain; every library computes the same ones.
    operators = pointwise_operators()
    with np.errstate(all="ignore"):
        results = measure_rows(make_rows(operators), options, settle=_tenkey.settle)
    title = f"Pointwise operators, 2^{SIZE.bit_length() - 1} elements, float32"
    contestants = ["tenkey", "PyTorch", "NumPy", "JAX"]
    against = ["the faster", "PyTorch", "NumPy"]
    print(format_table(title, results, contestants, against=against, limit=0.7))
    for name in sorted({_short(operator) for operator in operators} & LEFT_OUT.keys()):
        print(f"left out: {name}: {LEFT_OUT[name]}")
    if options.json is not None:
        write_json(options.json, machine, {title: results})


if __name__ == "__main__":
    main()
