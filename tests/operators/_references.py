"""What the built-in operators compute, in terms of NumPy and SciPy alone, and which dtype their results have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import scipy.linalg
import scipy.special

from tenkey.dispatch.operator import Operator
from tests.operators._block_references import BLOCK_REFERENCES
from tests.operators._composed_references import COMPOSED_REFERENCES
from tests.operators._evaluation import (
    composite_reference,
    declared_reference,
    named_reference,
    numpy_function,
    result_rule,
)
from tests.operators._extra_references import EXTRA_REFERENCES
from tests.operators._table import arrays, sampled

__all__ = ["REFERENCES", "expected_dtype", "independent_reference", "reference_of"]

Array = np.ndarray[Any, Any]
Reference = Callable[..., Any]


def _slice(x: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    return np.moveaxis(np.moveaxis(x, axis, 0)[start:stop:step], 0, axis)


def _slice_backward(g: Array, shape: Sequence[int], axis: int, start: int, step: int) -> Array:
    out = np.zeros(shape, g.dtype)
    for i in range(g.shape[axis]):
        np.moveaxis(out, axis, 0)[start + i * step] = np.moveaxis(g, axis, 0)[i]
    return out


def _add_at(flat: Array, values: Array, shape: Sequence[int]) -> Array:
    """Zeros of ``shape`` with each value added at its flat position."""
    out = np.zeros(int(np.prod(shape)), values.dtype)
    for position, value in zip(flat.reshape(-1), values.reshape(-1), strict=True):
        out[position] += value
    return out.reshape(shape)


def _positions(shape: Sequence[int]) -> Array:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _scatter(source: Array, indices: Array, shape: Sequence[int], axis: int) -> Array:
    return _add_at(np.take_along_axis(_positions(shape), indices, axis), source, shape)


def _index(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def _put(x: Array, indices: Sequence[Array | None], source: Array) -> Array:
    x[_index(indices)] = source
    return x


def _basic_put(x: Array, index: tuple[Any, ...], source: Array) -> Array:
    x[index] = source
    return x


def _copy(x: Array, source: Array) -> Array:
    x[...] = source
    return x


def _cross_entropy(logits: Array, target: Array) -> Any:
    chosen = [-np.log(scipy.special.softmax(row)[k]) for row, k in zip(logits, target, strict=True)]
    return np.mean(chosen)


def _sum(x: Array, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.sum(x, axis, dtype or _accumulator(x), keepdims=keepdims)


def _prod(x: Array, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.prod(x, axis, dtype or _accumulator(x), keepdims=keepdims)


def _accumulator(x: Array) -> Any:
    return {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)


def _like(make: Callable[..., Array]) -> Reference:
    return lambda x, *rest, dtype=None, device=None: make(x.shape, *rest, dtype=dtype or x.dtype)


_POINTWISE: Final[dict[str, Reference]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.mod, "pow": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "negative": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square,
    "reciprocal": lambda x: np.true_divide(1, x), "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: np.true_divide(1, np.sqrt(x)), "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, x.dtype.type(0)), "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_not": np.logical_not, "isnan": np.isnan, "isfinite": np.isfinite,
    "where": np.where,
}  # fmt: skip


def _lu(x: Array) -> Any:
    """SciPy's; of nothing its permutation has no elements, ours has the rows."""
    p, lower, upper = scipy.linalg.lu(x)
    if not x.size:
        p = np.broadcast_to(np.eye(x.shape[-2]), (*x.shape[:-1], x.shape[-2]))
    return p.real, lower, upper


REFERENCES: Final[Mapping[str, Reference]] = {
    **_POINTWISE,
    **COMPOSED_REFERENCES,
    **EXTRA_REFERENCES,
    **BLOCK_REFERENCES,
    "linalg_lu": _lu,
    "copy_": _copy,
    "put_": _put,
    "put": lambda x, indices, source: _put(x.copy(), indices, source),
    "basic_put_": _basic_put,
    "basic_put": lambda x, index, source: _basic_put(x.copy(), index, source),
    "basic_index": lambda x, index: np.array(x[index]),
    "basic_index_backward": lambda g, shape, index: _basic_put(np.zeros(shape, g.dtype), index, g),
    "conj": np.conj,
    "real": lambda x: np.real(x).copy(),
    "imag": lambda x: np.imag(x).copy(),
    "complex_from": lambda real, imag: real + 1j * imag,
    "empty_like": _like(np.zeros),  # of its values nothing is said
    "zeros_like": _like(np.zeros),
    "ones_like": _like(np.ones),
    "full_like": _like(np.full),
    "reshape": np.reshape,
    "permute_dims": np.transpose,
    "broadcast_to": np.broadcast_to,
    "squeeze": np.squeeze,
    "expand_dims": lambda x, axis=0: np.expand_dims(x, axis),
    "select_index": lambda x, axis, index: np.moveaxis(x, axis, 0)[index],
    "slice": _slice,
    "slice_backward": _slice_backward,
    "matrix_transpose": np.matrix_transpose,
    "alias": np.copy,
    "clone": np.copy,
    "cast": lambda x, dtype: (x if dtype.kind in "cb" else np.real(x)).astype(dtype),
    "astype": lambda x, dtype: x.astype(dtype),
    "to": lambda x, dtype: x.astype(dtype),
    "flip": np.flip,
    "concatenate": np.concatenate,
    "concat": np.concatenate,
    "stack": np.stack,
    "expand_as": lambda x, other: np.broadcast_to(x, other.shape),
    "take_along_axis": lambda x, indices, axis=-1: np.take_along_axis(
        *_broadcast_but(x, indices, axis), axis=axis
    ),
    "scatter_add_zeros": _scatter,
    "index": lambda x, indices: x[_index(indices)],
    "index_backward": lambda g, shape, indices: _add_at(_positions(shape)[_index(indices)], g, shape),
    "take": lambda x, indices, axis=None: np.take(x, indices, axis),
    "matmul": np.matmul,
    "sum": _sum,
    "prod": _prod,
    "max": np.max,
    "min": np.min,
    "all": np.all,
    "any": np.any,
    "mean": np.mean,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "logsumexp": scipy.special.logsumexp,
    "softmax": lambda x, axis=-1: scipy.special.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: scipy.special.log_softmax(x, axis),
    "cross_entropy": _cross_entropy,
}  # fmt: skip


def _broadcast_but(x: Array, indices: Array, axis: int) -> tuple[Array, Array]:
    """Both broadcast in every dimension but one."""
    i = axis % x.ndim
    rest = np.broadcast_shapes((*x.shape[:i], 1, *x.shape[i + 1 :]), (*indices.shape[:i], 1, *indices.shape[i + 1 :]))
    spread = [np.broadcast_to(a, (*rest[:i], a.shape[i], *rest[i + 1 :])) for a in (x, indices)]
    return spread[0], spread[1]


_RESULT_DTYPE: Final[Mapping[str, str]] = {  # where the package's rule is not NumPy's
    "conj": "same", "clip": "same", "select": "same", "vander": "accumulator",
}  # fmt: skip


def reference_of(operator: Operator) -> Reference | None:
    """What an operator computes, in terms of NumPy; for a composite without a reference, what its parts compute."""
    known = independent_reference(operator)
    return composite_reference(operator, reference_of) if known is None and "Composite" in operator.facets else known


def independent_reference(operator: Operator) -> Reference | None:
    """Return a reference that computes an operator in another way than its block does; None if there is none.

    That is the function here, the ``reference=`` of the block, or NumPy's or SciPy's function of the same name.
    """
    functional = operator.facets["Inplace"].functional if "Inplace" in operator.facets else None
    if functional is not None:
        return independent_reference(functional)
    named = named_reference if "Pointwise" in operator.facets else numpy_function
    return REFERENCES.get(operator.schema.base_name) or declared_reference(operator) or named(operator)


@functools.cache
def expected_dtype(operator: Operator, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the result for data of one dtype.

    Pointwise operators and reductions have the documented rule of their promotion. Of all others the reference says
    the kind; a floating result has the precision of the data, and single precision for integers.
    """
    rule = _RESULT_DTYPE.get(operator.schema.base_name) or result_rule(operator)
    if rule == "accumulator":
        return np.dtype({"b": "int64", "i": "int64", "u": "uint64"}.get(dtype.kind, dtype.name))
    if rule == "same":
        return dtype
    if rule == "bool":
        return np.dtype(bool)
    if rule == "float":
        return dtype if dtype.kind in "fc" else np.dtype("float32")
    if rule == "real":
        return np.zeros((), dtype).real.dtype
    found = _reference_dtype(operator, dtype)
    if found.kind not in "fc":
        return found
    size = np.zeros((), dtype).real.itemsize if dtype.kind in "fc" else 4
    return np.dtype(f"{found.kind}{size * (2 if found.kind == 'c' else 1)}")


def _reference_dtype(operator: Operator, dtype: np.dtype[Any]) -> np.dtype[Any]:
    reference = reference_of(operator)
    assert reference is not None
    for sample in sampled(operator, dtype.name):
        given = arrays(sample)
        if any(isinstance(value, np.dtype) for value in (*given.args, *given.kwargs.values())):
            continue
        with np.errstate(all="ignore"):
            try:
                found = reference(*given.args, **given.kwargs)
            except TypeError:  # NumPy refuses to subtract bools; the package takes them as integers
                assert dtype.kind == "b", sample
                whole = [x.astype(np.int8) if isinstance(x, np.ndarray) else x for x in given.args]
                found = reference(*whole, **given.kwargs)
        return np.asarray(found[0] if isinstance(found, (tuple, list)) else found).dtype
    return dtype
