"""Every pointwise operator at 2^20 float32 elements: ``python -m benchmarks.pointwise``.

Compared with PyTorch (all threads) and NumPy, interleaved in one run: see Note [Interleaved measurement] in
benchmarks/_harness.py. The decisive figure is the geometric mean of the ratios to the faster of the two. PyTorch's
column requires ``pip install torch==2.13.0``, and JAX's (for information) ``pip install jax``; without them the others
are measured. Every library allocates its result, as in a user's expression. Operators that are trivial for float32 are
left out, and listed.
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
    """Return the name of the operator without its namespace."""
    name: str = operator.name
    return name.partition("::")[2] or name


def sample(operator: Any, size: int = SIZE) -> list[Array]:
    """Return reproducible operands within the domain of the operator, float32 unless ``OPERANDS`` says otherwise.

    ``operator.domain`` is a pair (low, high) for all operands, a sequence of such pairs, or None.
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
    """Return the module of a library and its conversion from NumPy; None if it is not installed."""
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
    """Return the compiled function, with a wait for its result, because JAX calls are asynchronous."""
    import jax

    compiled = jax.jit(function)
    return lambda *operands: compiled(*operands).block_until_ready()


def make_rows(operators: Sequence[Any], size: int = SIZE) -> list[Row]:
    """Return a row for each operator, with the libraries that have a counterpart."""
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
    # NumPy warns about overflow and invalid values at the edges of domains.
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
