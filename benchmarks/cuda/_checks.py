"""Checks of the CUDA backend: the figures of compiled kernels, and every operator against the CPU."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import tenkey as tk

__all__ = ["check_kernels", "check_operators", "difference"]


def check_kernels(architectures: Sequence[tuple[int, int]] | None) -> int:
    """Compile the kernels of the table, print what they cost, and return how many rules are broken."""
    from tools.kernel_figures import ARCHITECTURES, broken_rules, kernels_of_table, rows_of

    start = time.perf_counter()
    rows = rows_of(kernels_of_table(), architectures or ARCHITECTURES)
    problems = broken_rules(rows)
    names = ", ".join(dict.fromkeys(figures.arch for _, figures in rows))
    print(f"Compiled kernels: {len(rows)} for {names} in {time.perf_counter() - start:.0f} s.")
    print(f"  registers of a thread: at most {max(figures.registers for _, figures in rows)}")
    full = sum(figures.occupancy == 1 for _, figures in rows)
    wide = sum(figures.wide_loads + figures.wide_stores > 0 for _, figures in rows)
    print(f"  full occupancy: {full}; accesses of 128 bits: {wide}; rules that are broken: {len(problems)}")
    for problem in problems:
        print(f"  {problem}")
    return len(problems)


def check_operators(limit: float, pattern: str = "") -> int:
    """Compare the operators whose name matches a pattern with the CPU on their samples; return how many calls differ.

    After ``limit`` seconds the rest is left out, which counts as one difference.
    """
    from tenkey.dispatch import registry
    from tenkey.dispatch.errors import ArgumentError
    from tenkey.testing import samples

    start, failures, compared, refused = time.perf_counter(), [], 0, 0
    operators = [op for op in sorted(registry, key=lambda op: op.name) if re.search(pattern, op.name)]
    for position, operator in enumerate(operators):
        if time.perf_counter() - start > limit:
            failures.append(f"the time was up at {operator.name}, {len(operators) - position} operators were left")
            break
        try:
            given = [*samples(operator, np.random.default_rng(0), "float32")]
        except ArgumentError:  # an operator without samples
            continue
        for sample in given:
            moved = sample.map(lambda tensor: tensor.to_device("cuda"))  # before an operator changes it
            try:
                expected = operator.call(*sample.args, **sample.kwargs)
            except Exception:  # what the CPU refuses is not compared
                refused += 1
                continue
            try:
                found = operator.call(*moved.args, **moved.kwargs)
            except Exception as error:
                text = str(error).strip().partition("\n")[0]
                failures.append(f"{operator.name} ({sample.name}): {type(error).__name__}: {text[:120]}")
                continue
            differs = difference(found, expected)
            if differs:
                failures.append(f"{operator.name} ({sample.name}): {differs}")
            else:
                compared += 1
    taken = time.perf_counter() - start
    print(
        f"Operators against the CPU: {compared} calls agree, {len(failures)} do not, the CPU refuses {refused} "
        f"({taken:.0f} s)."
    )
    for failure in failures[:50]:
        print(f"  {failure}")
    fallback = {name: count for name, count in tk.backends.coverage("cuda").fallback.items() if count}
    print(f"  fallbacks to the CPU: {sum(fallback.values())} {', '.join(sorted(fallback))}".rstrip() + "\n", flush=True)
    return len(failures)


def difference(found: Any, expected: Any) -> str:
    """Return how a result differs from the expected one, empty if it does not.

    >>> difference(tk.ones(2), tk.ones(2)), difference(tk.ones(2), tk.zeros(3))
    ('', 'float32 (2,) in the place of float32 (3,)')
    """
    if isinstance(expected, tk.Tensor):
        if not isinstance(found, tk.Tensor):
            return f"{type(found).__name__} in the place of a tensor"
        a, b = np.asarray(found.detach().to_device("cpu")), np.asarray(expected.detach())
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {a.shape} in the place of {b.dtype} {b.shape}"
        if a.dtype.kind in "fc":
            near = np.isclose(a, b, rtol=2e-5, atol=2e-5, equal_nan=True)
        else:
            near = np.asarray(a == b)
        wrong = near.size - int(near.sum())
        if not wrong:
            return ""
        place = tuple(map(int, np.argwhere(~near)[0]))
        return f"{wrong} of {near.size} elements differ, at {place}: {a[place]} in the place of {b[place]}"
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"{type(found).__name__} in the place of {len(expected)} results"
        return next(filter(None, map(difference, found, expected)), "")
    return ""
