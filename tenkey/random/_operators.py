"""The operators of random numbers, which an import of ``tenkey`` does not declare."""

from __future__ import annotations

from ..ops.builtin import load

load("random")  # Note [Operators that are declared on first use]
from ..ops.builtin.random import (  # noqa: E402
    check_values,
    random_addresses,
    random_category,
    random_checked,
    random_counts,
    random_exp,
    random_factor,
    random_hypergeometric,
    random_integers,
    random_log1p,
    random_normal,
    random_order,
    random_permutation,
    random_rejection,
    random_standard,
    random_uniform,
)

__all__ = [
    "check_values",
    "random_addresses",
    "random_category",
    "random_checked",
    "random_counts",
    "random_exp",
    "random_factor",
    "random_hypergeometric",
    "random_integers",
    "random_log1p",
    "random_normal",
    "random_order",
    "random_permutation",
    "random_rejection",
    "random_standard",
    "random_uniform",
]
