"""Calls whose saved tensors are compared with PyTorch's, and what is common to measuring both libraries.

``saved_by_torch.json`` has what PyTorch 2.13.0 saves; ``python -m tools.saved_by_torch`` measured it. Both libraries
are measured in the same way: a pack hook (``saved_tensors_hooks``) sees every tensor that a call keeps for backward.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = ["CASES", "PEAK_SIZE", "TABLE", "operands", "roles_of", "wanted"]

TABLE: Final = Path(__file__).with_name("saved_by_torch.json")
PEAK_SIZE: Final = 100
"""Rows and columns of the matrices of programs whose peaks are compared."""
_ROWS, _COLUMNS = 20, 30


def operands() -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by name; those with floating elements may require a gradient."""
    rng = np.random.default_rng(0)

    def within(low: float, high: float, *shape: int) -> np.ndarray[Any, Any]:
        return rng.permutation(np.linspace(low, high, math.prod(shape))).reshape(shape).astype("float32")

    square = within(-1, 1, _ROWS, _ROWS)
    return {
        "x": within(0.1, 0.9, _ROWS, _COLUMNS),
        "y": within(0.15, 0.85, _ROWS, _COLUMNS),
        "z": within(1.2, 3.0, _ROWS, _COLUMNS),
        "w": within(-1, 1, _COLUMNS, 40),
        "t": within(-1, 1, 4, _ROWS, _COLUMNS),
        "u": within(-1, 1, 4, _COLUMNS, 10),
        "v": within(-1, 1, _COLUMNS),
        "a": square @ square.T + _ROWS * np.eye(_ROWS, dtype="float32"),
        "b": within(-1, 1, _ROWS, 5),
        "m": rng.random((_ROWS, _COLUMNS)) < 0.5,
        "i": rng.integers(0, _COLUMNS, (_ROWS, _COLUMNS)),
        "k": rng.integers(0, _ROWS, _ROWS),
    }


def _same(*names: str) -> dict[str, tuple[str, str]]:
    """Calls of one operand that are spelled alike in both libraries."""
    return {name: (f"xp.{name}(x)", f"xp.{name}(x)") for name in names}


_SPECIAL: Final = (
    "erf", "erfc", "erfcx", "erfinv", "ndtr", "ndtri", "log_ndtr", "expit", "logit", "entr", "gammaln", "digamma",
    "i0", "i0e", "i1", "i1e",
)  # fmt: skip

CASES: Final[Mapping[str, tuple[str, str]]] = {
    **_same(
        "negative", "positive", "abs", "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
        "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh",
        "deg2rad", "rad2deg", "sinc", "sigmoid", "relu", "floor", "ceil", "trunc", "round", "sign", "nan_to_num",
        "sum", "mean", "prod", "var", "std", "tril", "triu", "ravel", "median",
        "trace", "nansum", "nanmean",
    ),
    **{f"special_{name}": (f"xp.special.{name}(x)", f"xp.special.{name}(x)") for name in _SPECIAL},
    **{
        name: (f"xp.{name}(x)", f"xp.nn.functional.{name}(x)")
        for name in ("softplus", "leaky_relu", "elu", "selu", "silu", "gelu", "mish", "softsign", "relu6", "hardtanh")
    },
    **{
        name: (f"xp.{name}(x, y)", f"xp.{name}(x, y)")
        for name in (
            "add", "subtract", "multiply", "divide", "pow", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin",
            "copysign", "atan2", "hypot", "logaddexp", "logaddexp2",
        )
    },
    **{f"special_{name}": (f"xp.special.{name}(x, y)", f"xp.special.{name}(x, y)") for name in ("xlogy", "xlog1py")},
    "clone": ("x.clone()", "x.clone()"),
    "flip": ("xp.flip(x, axis=0)", "xp.flip(x, (0,))"),
    "roll": ("xp.roll(x, 1, axis=0)", "xp.roll(x, 1, 0)"),
    "expand_dims": ("xp.expand_dims(x, axis=0)", "xp.unsqueeze(x, 0)"),
    "log_sigmoid": ("xp.log_sigmoid(x)", "xp.nn.functional.logsigmoid(x)"),
    "acosh": ("xp.acosh(z)", "xp.acosh(z)"),
    "divide by a number": ("x / 1.1", "x / 1.1"),
    "divide a number": ("1.1 / x", "1.1 / x"),
    "divide by a vector": ("x / v", "x / v"),
    "multiply by a number": ("x * 1.1", "x * 1.1"),
    "multiply by booleans": ("x * m", "x * m"),
    "subtract a number": ("x - 1.1", "x - 1.1"),
    "power of a number": ("2.0**x", "2.0**x"),
    "power 2": ("x**2", "x**2"),
    "power 3": ("x**3", "x**3"),
    "power 0.5": ("x**0.5", "x**0.5"),
    "remainder of a number": ("x % 0.3", "x % 0.3"),
    "clip to numbers": ("xp.clip(x, 0.2, 0.7)", "xp.clip(x, 0.2, 0.7)"),
    "clip below": ("xp.clip(x, 0.2)", "xp.clip(x, 0.2)"),
    "clip above": ("xp.clip(x, None, 0.7)", "xp.clip(x, None, 0.7)"),
    "clip to tensors": ("xp.clip(x, y, z)", "xp.clip(x, y, z)"),
    "where": ("xp.where(m, x, y)", "xp.where(m, x, y)"),
    "where with a number": ("xp.where(m, x, 0.0)", "xp.where(m, x, 0.0)"),
    "masked_fill": ("xp.masked_fill(x, m, 0.0)", "xp.masked_fill(x, m, 0.0)"),
    "masked_select": ("xp.masked_select(x, m)", "xp.masked_select(x, m)"),
    "take_along_axis": ("xp.take_along_axis(x, i, axis=1)", "xp.gather(x, 1, i)"),
    "take": ("xp.take(x, k, axis=1)", "xp.index_select(x, 1, k)"),
    "index": ("x[k]", "x[k]"),
    "slice": ("x[2:9, ::2]", "x[2:9, ::2]"),
    "index with a mask": ("x[m]", "x[m]"),
    "scatter": ("xp.scatter(x, i, y, axis=1)", "xp.scatter(x, 1, i, y)"),
    "scatter_add": ("xp.scatter_add(x, i, y, axis=1)", "xp.scatter_add(x, 1, i, y)"),
    "index_add": ("xp.index_add(x, k, y, axis=0)", "xp.index_add(x, 0, k, y)"),
    "index_copy": ("xp.index_copy(x, k, y, axis=0)", "xp.index_copy(x, 0, k, y)"),
    "reshape": ("xp.reshape(x, (-1,))", "xp.reshape(x, (-1,))"),
    "transpose": ("xp.permute_dims(x, (1, 0))", "xp.permute(x, (1, 0))"),
    "broadcast_to": ("xp.broadcast_to(v, (9, 30))", "xp.broadcast_to(v, (9, 30))"),
    "concat": ("xp.concat([x, y])", "xp.concat([x, y])"),
    "stack": ("xp.stack([x, y])", "xp.stack([x, y])"),
    "tile": ("xp.tile(x, (2, 3))", "xp.tile(x, (2, 3))"),
    "pad": ("xp.pad(x, 1)", "xp.nn.functional.pad(x, (1, 1, 1, 1))"),
    "diagonal": ("xp.diagonal(x)", "xp.diagonal(x)"),
    "diff": ("xp.diff(x)", "xp.diff(x)"),
    "trapezoid": ("xp.trapezoid(x)", "xp.trapezoid(x)"),
    "cast": ("xp.astype(x, xp.float64)", "x.to(xp.float64)"),
    "sum of an axis": ("xp.sum(x, axis=0)", "xp.sum(x, dim=0)"),
    "prod of an axis": ("xp.prod(x, axis=0)", "xp.prod(x, dim=0)"),
    "max": ("xp.max(x)", "xp.amax(x)"),
    "max of an axis": ("xp.max(x, axis=0)", "xp.amax(x, dim=0)"),
    "min of an axis": ("xp.min(x, axis=0)", "xp.amin(x, dim=0)"),
    "var of an axis": ("xp.var(x, axis=0)", "xp.var(x, dim=0)"),
    "std of an axis": ("xp.std(x, axis=0)", "xp.std(x, dim=0)"),
    "median of an axis": ("xp.median(x, axis=0)", "xp.median(x, dim=0).values"),
    "quantile": ("xp.quantile(x, 0.3)", "xp.quantile(x, 0.3)"),
    "cumulative_sum": ("xp.cumulative_sum(x, axis=0)", "xp.cumsum(x, 0)"),
    "cumulative_prod": ("xp.cumulative_prod(x, axis=0)", "xp.cumprod(x, 0)"),
    "cummax": ("xp.cummax(x, 0)[0]", "xp.cummax(x, 0)[0]"),
    "sort": ("xp.sort(x, axis=0)", "xp.sort(x, dim=0).values"),
    "sort in descending order": ("xp.sort(x, descending=True)", "xp.sort(x, descending=True).values"),
    "topk": ("xp.topk(x, 3)[0]", "xp.topk(x, 3)[0]"),
    "softmax": ("xp.softmax(x, axis=1)", "xp.softmax(x, dim=1)"),
    "log_softmax": ("xp.log_softmax(x, axis=1)", "xp.log_softmax(x, dim=1)"),
    "logsumexp": ("xp.logsumexp(x, axis=1)", "xp.logsumexp(x, dim=1)"),
    "cross_entropy": ("xp.cross_entropy(x, k)", "xp.nn.functional.cross_entropy(x, k)"),
    "matmul": ("x @ w", "x @ w"),
    "matmul with a vector": ("x @ v", "x @ v"),
    "batched matmul": ("t @ u", "t @ u"),
    "matmul of a batch with a matrix": ("t @ w", "t @ w"),
    "outer": ("xp.outer(v, x[0])", "xp.outer(v, x[0])"),
    "dot": ("xp.dot(v, x[0])", "xp.dot(v, x[0])"),
    "einsum": ("xp.einsum('ij,jk->ik', x, w)", "xp.einsum('ij,jk->ik', x, w)"),
    "kron": ("xp.kron(b, v)", "xp.kron(b, v)"),
    "cross": ("xp.linalg.cross(x[:, :3], y[:, :3])", "xp.linalg.cross(x[:, :3], y[:, :3])"),
    "norm": ("xp.linalg.vector_norm(x)", "xp.linalg.vector_norm(x)"),
    "norm of an axis": ("xp.linalg.vector_norm(x, axis=1)", "xp.linalg.vector_norm(x, dim=1)"),
    "norm 1": ("xp.linalg.vector_norm(x, ord=1)", "xp.linalg.vector_norm(x, ord=1)"),
    "norm 3": ("xp.linalg.vector_norm(x, ord=3)", "xp.linalg.vector_norm(x, ord=3)"),
    "inv": ("xp.linalg.inv(a)", "xp.linalg.inv(a)"),
    "solve": ("xp.linalg.solve(a, b)", "xp.linalg.solve(a, b)"),
    "det": ("xp.linalg.det(a)", "xp.linalg.det(a)"),
    "slogdet": ("xp.linalg.slogdet(a)[1]", "xp.linalg.slogdet(a)[1]"),
    "cholesky": ("xp.linalg.cholesky(a)", "xp.linalg.cholesky(a)"),
    "qr": ("xp.linalg.qr(x)[1]", "xp.linalg.qr(x)[1]"),
    "svd": ("xp.linalg.svd(x, full_matrices=False)[1]", "xp.linalg.svd(x, full_matrices=False)[1]"),
    "svdvals": ("xp.linalg.svdvals(x)", "xp.linalg.svdvals(x)"),
    "eigh": ("xp.linalg.eigh(a)[0]", "xp.linalg.eigh(a)[0]"),
    "eigvalsh": ("xp.linalg.eigvalsh(a)", "xp.linalg.eigvalsh(a)"),
    "pinv": ("xp.linalg.pinv(b)", "xp.linalg.pinv(b)"),
    "matrix_exp": ("xp.linalg.matrix_exp(a)", "xp.linalg.matrix_exp(a)"),
    "fft": ("xp.fft.fft(x)", "xp.fft.fft(x)"),
    "rfft": ("xp.fft.rfft(x)", "xp.fft.rfft(x)"),
    "loss": ("((x - y)**2).mean()", "((x - y)**2).mean()"),
    "normalization": ("(x - x.mean()) / x.std()", "(x - x.mean()) / x.std(correction=0)"),
    **{
        f"complex {name}": (f"xp.{name}(c)", f"xp.{name}(c)")
        for name in ("exp", "sqrt", "reciprocal", "tanh", "abs", "square", "log")
    },
    "complex divide": ("c / x", "c / x"),
}  # fmt: skip
"""The call in tenkey and in PyTorch, by name; ``xp`` is the library, ``c`` the complex number ``x + 1j * y``."""


def wanted(expression: str) -> Iterator[tuple[str, ...]]:
    """Each choice of the floating operands of an expression that require a gradient."""
    known = operands()
    used = sorted(name for name in set(re.findall(r"\b[a-z]\b", expression)) & {*known, "c"})
    floating = [name for name in used if name == "c" or known[name].dtype.kind == "f"]
    for count in range(1, len(floating) + 1):
        yield from itertools.combinations(floating, count)


def roles_of(
    kept: list[tuple[int, int]], given: Mapping[str, tuple[int, int]], results: list[tuple[int, int]]
) -> dict[str, int]:
    """Bytes that a call keeps: of an operand, of the result ``out``, or of neither (``other``), each memory once.

    Memory is given by its address and size; Python numbers and other scalars are left out.
    """
    found: dict[str, int] = {}
    for address, size in sorted(set(kept)):
        if size > 16:
            owner = [name for name, (start, length) in given.items() if start <= address < start + max(length, 1)]
            is_result = any(start <= address < start + max(length, 1) for start, length in results)
            role = owner[0] if owner else "out" if is_result else "other"
            found[role] = max(found.get(role, 0), size) if role != "other" else found.get(role, 0) + size
    return found
