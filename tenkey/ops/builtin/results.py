"""The results of operators that have names.

They are apart from their operators so that a result can be unpickled without declaring these
(Note [Operators that are declared on first use]).
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.tensor import Tensor


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: Tensor
    logabsdet: Tensor


class LUResult(NamedTuple):
    """``P @ L @ U``."""

    P: Tensor
    L: Tensor
    U: Tensor


class SVDResult(NamedTuple):
    """``U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QRResult(NamedTuple):
    """``Q @ R``."""

    Q: Tensor
    R: Tensor


class LstsqResult(NamedTuple):
    """Solution, sums of squared residuals, rank, and singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Eigenvalues in no particular order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class TopKResult(NamedTuple):
    """``values`` and their ``indices`` along the axis."""

    values: Tensor
    indices: Tensor


class CummaxResult(NamedTuple):
    """``values`` and their ``indices`` along the axis."""

    values: Tensor
    indices: Tensor


class CumminResult(NamedTuple):
    """``values`` and their ``indices`` along the axis."""

    values: Tensor
    indices: Tensor


class UniqueAllResult(NamedTuple):
    """The result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """The result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


class FrexpResult(NamedTuple):
    """The result of ``frexp``."""

    mantissa: Tensor
    exponent: Tensor


class ModfResult(NamedTuple):
    """The result of ``modf``."""

    fractional: Tensor
    integral: Tensor


class DivmodResult(NamedTuple):
    """The result of ``divmod``."""

    quotient: Tensor
    remainder: Tensor
