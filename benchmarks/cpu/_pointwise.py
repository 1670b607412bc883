"""Rows for every pointwise operator with float32 operands, from the registry.

Operators that are trivial for float32 are left out; those for which neither PyTorch nor NumPy has a counterpart have no
ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks._harness import Row, Work
from tenkey.ops import pointwise_operators

from ._references import LEFT_OUT, OPERANDS, TENKEY, reference, resolve
from ._rows import LIBRARIES, disagreement

__all__ = ["pointwise_rows"]

DEFAULT_DOMAIN = (-4.0, 4.0)

# Near 1 ulp in every library, but PyTorch and NumPy compute these by formulas that cancel.
_LOOSE = {"special_exprel", "special_gamma", "special_beta", "special_betaln", "special_kl_div", "special_rel_entr"}

Array = np.ndarray[Any, np.dtype[Any]]


def sample(operator: Any, size: int) -> list[Array]:
    """Return reproducible operands within the domain of the operator, float32 unless ``OPERANDS`` says otherwise.

    ``operator.domain`` is a pair (low, high) for all operands, a sequence of such pairs, or None.
    """
    generator = np.random.default_rng(20)
    short = operator.name.partition("::")[2]
    domain = operator.domain or DEFAULT_DOMAIN
    domains = list(domain) if isinstance(domain[0], Sequence) else [domain] * operator.arity
    operands: list[Array] = []
    for kind, (low, high) in zip(OPERANDS.get(short, "f" * operator.arity), domains, strict=True):
        if kind == "b":
            operands.append(generator.random(size) < 0.5)
        else:
            operands.append(generator.uniform(low, high, size).astype(np.float32))
    return operands


def pointwise_rows(size: int, only: str = "", step: int = 1) -> Iterator[Row]:
    """Yield a row for every ``step``-th operator whose name contains ``only``, with the libraries that have it, too."""
    for operator in pointwise_operators()[::step]:
        short = operator.name.partition("::")[2]
        if short in LEFT_OUT or only not in short:
            continue
        arrays = sample(operator, size)
        works: dict[str, Work] = {}
        failures: dict[str, str] = {}
        ours: Any = None
        for name, library in LIBRARIES.items():
            function: Callable[..., Any] | None
            if name != "tenkey":
                text = reference(short, "torch" if name == "PyTorch" else "numpy")
                function = resolve(library.names["xp"], text, len(arrays))
            else:
                function = getattr(library.names["xp"], TENKEY[short]) if short in TENKEY else operator.call
            if function is None:
                continue
            operands = [library.convert(array) for array in arrays]
            result = function(*operands)
            if name == "tenkey":
                ours = result
            else:
                tolerance = 1e-2 if short in _LOOSE else 1e-4
                if difference := disagreement(ours, result, tolerance):
                    failures[name] = f"the results differ: {difference}"
                    continue
            works[name] = _work(function, operands)
        yield Row(short, works, failures)


def _work(function: Callable[..., Any], operands: Sequence[Any]) -> Work:
    names: Mapping[str, object] = {f"x{position}": operand for position, operand in enumerate(operands, start=1)}
    return Work(f"function({', '.join(names)})", {"function": function, **names})
