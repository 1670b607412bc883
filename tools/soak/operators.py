"""The operators of random programs, and how each library spells them.

In a spelling, ``L.`` stands for the library, ``{0}``, ``{1}`` for operands and other names in braces for attributes.
PyTorch's differs by ``dim`` and ``keepdim``; NumPy's names and what it lacks are given where they differ. Arguments of
roots, logarithms and quotients are kept inside their domain by the spelling.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["LIBRARIES", "OPERATORS", "Operator", "spelled"]

LIBRARIES: Final = ("tk", "torch", "np")
Arrays = list[np.ndarray[Any, Any]]
Attributes = dict[str, str]
_Draw = Callable[[random.Random, Arrays], Attributes | None]


class Operator(NamedTuple):
    """One operator: the kinds of dtypes of its operands (f, c, i, u, b), and its spelling."""

    name: str
    kinds: tuple[str, ...]
    ours: str
    torch: str
    numpy: str
    attributes: _Draw
    form: str
    """``fresh`` (a new tensor), ``view`` (perhaps a view), or ``statement`` (changes its first operand)."""
    by_value: bool = False
    """Whether the shape depends on values, so that the operator cannot be batched."""


def spelled(operator: Operator, library: str) -> str:
    """Return the spelling in a library."""
    return {"tk": operator.ours, "torch": operator.torch, "np": operator.numpy}[library]


OPERATORS: Final[dict[str, Operator]] = {}


def _none(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {}


def _add(
    name: str, kinds: str, ours: str = "", torch: str = "", numpy: str = "",
    attributes: _Draw = _none, form: str = "fresh",
    by_value: bool = False,
) -> None:  # fmt: skip
    """Add an operator; ``kinds`` has a word for each operand."""
    words = tuple(kinds.split())
    ours = ours or f"L.{name}({', '.join(f'{{{i}}}' for i in range(len(words)))})"
    if not torch:
        torch = ours.replace("keepdims=", "keepdim=").replace("axis=", "dim=")
    own, its, theirs = (t.replace("L.", f"{lib}.") for t, lib in zip((ours, torch, numpy or ours), LIBRARIES))
    OPERATORS[name] = Operator(name, words, own, its, theirs, attributes, form, by_value)


# ---- attributes


def _axis(rng: random.Random, arrays: Arrays) -> Attributes | None:
    """One axis, and whether it is kept."""
    if not arrays[0].ndim:
        return None
    return {"axis": str(rng.randrange(-arrays[0].ndim, arrays[0].ndim)), "keep": str(rng.random() < 0.5)}


def _filled_axis(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return _axis(rng, arrays) if arrays[0].size else None


def _axes(rng: random.Random, arrays: Arrays) -> Attributes | None:
    """Some axes, and whether they are kept."""
    count = arrays[0].ndim
    if not count or not arrays[0].size:
        return None
    chosen = tuple(sorted(rng.sample(range(count), rng.randint(1, count))))
    return {"axis": str(chosen), "keep": str(rng.random() < 0.5)}


def _new_axis(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {"axis": str(rng.randrange(-arrays[0].ndim - 1, arrays[0].ndim + 1))}


def _two_axes(rng: random.Random, arrays: Arrays) -> Attributes | None:
    if arrays[0].ndim < 2:
        return None
    a, b = rng.sample(range(arrays[0].ndim), 2)
    return {"a": str(a), "b": str(b - rng.choice((0, arrays[0].ndim)))}


def _shape(rng: random.Random, arrays: Arrays) -> Attributes | None:
    size = arrays[0].size
    if not size:
        return None
    shape: list[int] = []
    while size > 1 and len(shape) < 3:
        step = rng.choice([n for n in range(1, size + 1) if size % n == 0])
        shape.append(step)
        size //= step
    if size > 1:
        shape.append(size)
    if shape and rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = -1
    return {"shape": str(tuple(shape))}


def _order(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {"axes": str(tuple(rng.sample(range(arrays[0].ndim), arrays[0].ndim)))}


def _unit_axis(rng: random.Random, arrays: Arrays) -> Attributes | None:
    units = [axis for axis, n in enumerate(arrays[0].shape) if n == 1]
    return {"axis": str(rng.choice(units))} if units else None


def _wider(rng: random.Random, arrays: Arrays) -> Attributes | None:
    shape = tuple(rng.randint(1, 3) if n == 1 else n for n in arrays[0].shape)
    return {"shape": str((*[rng.randint(1, 2)] * rng.randint(0, 1), *shape))}


def _offset(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {"k": str(rng.randint(-1, 1))} if arrays[0].ndim >= 2 else None


def _shift(rng: random.Random, arrays: Arrays) -> Attributes | None:
    found = _axis(rng, arrays)
    return found and {**found, "shift": str(rng.randint(-3, 3))}


def _row(rng: random.Random, arrays: Arrays) -> Attributes | None:
    if not arrays[0].ndim or not len(arrays[0]):
        return None
    return {"row": str(rng.randrange(len(arrays[0])))}


def _two_rows(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {} if arrays[0].ndim and len(arrays[0]) > 1 else None


def _rows(rng: random.Random, arrays: Arrays) -> Attributes | None:
    if not arrays[0].ndim or not len(arrays[0]):
        return None
    count = len(arrays[0])
    return {"rows": str([rng.randrange(-count, count) for _ in range(rng.randint(1, 3))])}


def _index(rng: random.Random, arrays: Arrays) -> Attributes | None:
    """A basic index; the ellipsis makes NumPy return an array, never a scalar."""
    parts = []
    for n in arrays[0].shape[: rng.randint(0, arrays[0].ndim)]:
        kind = rng.randrange(4)
        if kind == 0 and n:
            parts.append(str(rng.randrange(-n, n)))
        elif kind == 1:
            parts.append(f"{rng.randrange(n + 1)}:")
        elif kind == 2:
            parts.append(f"::{rng.randint(1, 2)}")
        else:
            parts.append(f":{rng.randint(-1, n)}")
        if rng.random() < 0.15:
            parts.append("None")
    return {"index": ", ".join([*parts, "..."])}


def _dtype(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {"dtype": rng.choice(["float32", "float64", "int64", "int32", "bool", "complex64"])}


def _real_dtype(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {"dtype": rng.choice(["float32", "float64"])}


def _vectors(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {} if all(a.ndim == 1 for a in arrays) else None


def _square(rng: random.Random, arrays: Arrays) -> Attributes | None:
    return {} if arrays[0].ndim >= 2 and arrays[0].shape[-1] == arrays[0].shape[-2] > 0 else None


# ---- elementwise

for _name in ("sin", "cos", "tanh", "sinh", "cosh", "exp"):
    _add(_name, "fci")
for _name in ("expm1", "floor", "ceil", "trunc"):
    _add(_name, "f")
for _name in ("square", "negative", "abs"):
    _add(_name, "fci")
_add("sign", "fi")
_add("round", "f")
_add("sqrt", "fi", "L.sqrt(L.square({0}) + 0.25)")
_add("sqrt_complex", "c", "L.sqrt({0})")
_add("rsqrt", "f", "L.rsqrt(L.square({0}) + 0.25)", numpy="1 / L.sqrt(L.square({0}) + 0.25)")
_add("log", "fi", "L.log(L.square({0}) + 0.25)")
_add("log_complex", "c", "L.log({0} + 3)")
_add("log1p", "f", "L.log1p(L.square({0}))")
_add("log2", "f", "L.log2(L.square({0}) + 0.25)")
_add("exp2", "f")
_add("reciprocal", "fc", "1 / ({0} * {0} + 2.5)")
_add("asin", "f", "L.asin(0.9 * L.sin({0}))", numpy="L.arcsin(0.9 * L.sin({0}))")
_add("acos", "f", "L.acos(0.9 * L.sin({0}))", numpy="L.arccos(0.9 * L.sin({0}))")
_add("atan", "f", numpy="L.arctan({0})")
_add("asinh", "f", numpy="L.arcsinh({0})")
_add("acosh", "f", "L.acosh(L.square({0}) + 1.5)", numpy="L.arccosh(L.square({0}) + 1.5)")
_add("atanh", "f", "L.atanh(0.9 * L.sin({0}))", numpy="L.arctanh(0.9 * L.sin({0}))")
_add("tan", "f", "L.tan(1.2 * L.sin({0}))")
_add("sigmoid", "f", numpy="1 / (1 + L.exp(-{0}))")
_add("relu", "f", numpy="L.maximum({0}, 0)")
_add("softplus", "f", torch="L.logaddexp({0}, L.zeros_like({0}))", numpy="L.logaddexp(0, {0})")
_add("silu", "f", torch="L.nn.functional.silu({0})", numpy="{0} / (1 + L.exp(-{0}))")
_add("isfinite", "fc")
_add("logical_not", "fib")
_add("bitwise_invert", "iub", torch="L.bitwise_not({0})", numpy="L.invert({0})")
_add("conj", "c", torch="L.conj_physical({0})")
for _name in ("real", "imag"):  # views in the other libraries
    _add(_name, "c", torch=f"L.{_name}({{0}}).clone()", numpy=f"L.{_name}({{0}}).copy()")
for _name in ("add", "subtract", "multiply"):
    _add(_name, "fciub fciub")
    _add(f"{_name}_again", "fc fc", f"L.{_name}({{0}}, {{1}})")  # floats more often
_add("divide", "fciu f", "{0} / (L.square({1}) + 0.5)")
_add("divide_integers", "iu iu", "{0} / ({1} * {1} + 1)")
_add("maximum", "fiu fiu")
_add("minimum", "fiu fiu")
_add("atan2", "f f", "L.atan2({0}, {1})", numpy="L.arctan2({0}, {1})")
_add("hypot", "f f")
_add("logaddexp", "f f")
_add("copysign", "f f")
_add("power", "f f", "(L.square({0}) + 0.5) ** {1}")
_add("cube", "fci", "{0} ** 3")
_add("squared", "fciu", "{0} ** 2")
_add("remainder", "fi", "L.remainder({0}, 3)")
_add("floor_divide", "fi", "{0} // 2")
for _name, _sign in (("less", "<"), ("less_equal", "<="), ("equal", "=="), ("not_equal", "!=")):
    _add(_name, "fiub fiub", f"{{0}} {_sign} {{1}}")
for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^")):
    _add(_name, "iub iub", f"{{0}} {_sign} {{1}}")
_add("where", "b fci fci", "L.where({0}, {1}, {2})")
_add("where_positive", "f fc fc", "L.where({0} > 0, {1}, {2})")
_add("clip", "fi", "L.clip({0}, -0.5, 0.75)")
for _name, _text in (
    ("plus_two", "{0} + 2"), ("half", "{0} * 0.5"), ("from_number", "1.5 - {0}"), ("times_j", "{0} * 0.5j"),
    ("over_number", "{0} / 3"), ("minus", "-{0}"),
):  # fmt: skip
    _add(_name, "fc" if _name in {"minus", "times_j"} else "fciu", _text)
_add("astype", "fi", "L.astype({0}, {dtype})", "{0}.to({dtype}, copy=True)", "{0}.astype({dtype})", _dtype)
_add("astype_float", "fiub", "L.astype({0}, {dtype})", "{0}.to({dtype}, copy=True)", "{0}.astype({dtype})", _real_dtype)
_add("clone", "fciub", "{0}.clone()", numpy="{0}.copy()")
_add("detach", "fc", "{0}.detach()", numpy="{0}.view()", form="view")

# ---- reductions

for _name, _kinds in (("sum", "fcib"), ("mean", "fc")):
    _add(f"{_name}_all", _kinds, f"L.{_name}({{0}})")
    _add(_name, _kinds, f"L.{_name}({{0}}, axis={{axis}}, keepdims={{keep}})", attributes=_axes)
_add("prod", "fci", "L.prod({0}, axis={axis}, keepdims={keep})", attributes=_axis)
for _name in ("max", "min"):
    _text = f"L.a{_name}({{0}}, axis={{axis}}, keepdims={{keep}})"
    _add(
        _name,
        "fi",
        _text.replace(".a", "."),
        _text.replace("keepdims", "keepdim").replace("axis=", "dim="),
        _text,
        _axes,
    )
for _name in ("var", "std"):
    _add(_name, "f", f"L.{_name}({{0}}, axis={{axis}}, correction=0, keepdims={{keep}})", attributes=_axes)
_add("logsumexp", "f", "L.logsumexp({0}, axis={axis}, keepdims={keep})",
     numpy="L.logaddexp.reduce({0}, axis={axis}, keepdims={keep})", attributes=_filled_axis)  # fmt: skip
for _name in ("all", "any"):
    _add(_name, "fib", f"L.{_name}({{0}}, axis={{axis}}, keepdims={{keep}})", attributes=_axes)
for _name in ("argmax", "argmin"):
    _add(_name, "fi", f"L.{_name}({{0}}, axis={{axis}}, keepdims={{keep}})", attributes=_filled_axis)
for _name in ("cumsum", "cumprod"):
    _add(_name, "fci", f"L.{_name}({{0}}, {{axis}})", attributes=_axis)
_add("softmax", "f", "L.softmax({0}, {axis})", attributes=_filled_axis,
     numpy="L.exp({0}) / L.sum(L.exp({0}), axis={axis}, keepdims=True)")  # fmt: skip
_add("log_softmax", "f", "L.log_softmax({0}, {axis})", attributes=_filled_axis,
     # relative to the greatest element, so that the only element of an axis gives exactly 0
     numpy="({0} - L.max({0}, axis={axis}, keepdims=True)) - "
           "L.log(L.sum(L.exp({0} - L.max({0}, axis={axis}, keepdims=True)), axis={axis}, keepdims=True))")  # fmt: skip
_add("vector_norm", "fc", "L.linalg.vector_norm({0}, axis={axis}, keepdims={keep})", attributes=_axes)
_add("count_nonzero", "fib", "L.count_nonzero({0}, axis={axis})", attributes=_axes)

# ---- shapes

_add("reshape", "fciub", "L.reshape({0}, {shape})", attributes=_shape, form="view")
_add(
    "permute",
    "fciub",
    "L.permute_dims({0}, {axes})",
    "L.permute({0}, {axes})",
    "L.transpose({0}, {axes})",
    _order,
    "view",
)
_add("swapaxes", "fciub", "L.swapaxes({0}, {a}, {b})", attributes=_two_axes, form="view")
_add("moveaxis", "fciub", "L.moveaxis({0}, {a}, {b})", attributes=_two_axes, form="view")
_add("squeeze", "fciub", "L.squeeze({0}, {axis})", attributes=_unit_axis, form="view")
_add(
    "expand_dims", "fciub", "L.expand_dims({0}, {axis})", "L.unsqueeze({0}, {axis})", attributes=_new_axis, form="view"
)
_add("broadcast_to", "fciub", "L.broadcast_to({0}, {shape})", attributes=_wider, form="view")
_add("diagonal", "fc", "L.diagonal({0}, offset={k})", numpy="diagonal({0}, {k})", attributes=_offset, form="view")
_add("row", "fciub", "L.unstack({0})[{row}]", "L.unbind({0})[{row}]", "{0}[{row}, ...]", _row, "view")
_add("slice", "fciub", "{0}[{index}]", attributes=_index, form="view")
_add("slice_again", "fc", "{0}[{index}]", attributes=_index, form="view")
_add("rows", "fciub", "{0}[{rows}]", attributes=_rows)
_add("positive", "f", "{0}[{0} > 0.125]", by_value=True)
_add("flip", "fci", "L.flip({0}, axis={axis})", "L.flip({0}, [{axis}])", "L.flip({0}, axis={axis}).copy()", _axis)
_add("roll", "fci", "L.roll({0}, {shift}, axis={axis})", "L.roll({0}, {shift}, dims={axis})", attributes=_shift)
_add("concat", "fci fci", "L.concat([{0}, {1}], axis={axis})", attributes=_axis)
_add("stack", "fci fci", "L.stack([{0}, {1}], axis={axis})", attributes=_new_axis)
_add("tile", "fc", "L.tile({0}, (2, 1))")
_add("tril", "fc", "L.tril({0}, k={k})", "L.tril({0}, {k})", attributes=_offset)
_add("triu", "fc", "L.triu({0}, k={k})", "L.triu({0}, {k})", attributes=_offset)
_add("diff", "fc", "L.diff({0}, axis={axis})", attributes=_axis)
_add("sort", "fi", "L.sort({0}, axis={axis})", "L.sort({0}, dim={axis}).values", attributes=_filled_axis)
_add("take_along", "f", "L.take_along_axis({0}, L.argsort({0}, axis={axis}), axis={axis})",
     "L.take_along_dim({0}, L.argsort({0}, dim={axis}), dim={axis})", attributes=_filled_axis)  # fmt: skip

# ---- products

_add("matmul", "fc fc")
_add("matmul_transposed", "fc fc", "L.matmul({0}, L.swapaxes({1}, -1, -2))")
_add("einsum", "fc fc", "L.einsum('ij,kj->ik', {0}, {1})")
_add("einsum_sum", "fc fc", "L.einsum('...i,...i->...', {0}, {1})")
_add("outer", "f f", attributes=_vectors)
_add("inv", "fc", "L.linalg.inv({0})", attributes=_square)
_add("det", "fc", "L.linalg.det({0})", attributes=_square)

# ---- changes in place


def _change(
    name: str,
    kinds: str,
    ours: str,
    numpy: str,
    attributes: _Draw = _none,
) -> None:
    # PyTorch leaves undefined what an operand gives that shares memory with what is changed
    _add(name, kinds, ours, ours.replace("{1}", "{1}.clone()"), numpy, attributes, "statement")


for _name, _ufunc in (("add_", "add"), ("sub_", "subtract"), ("mul_", "multiply")):
    _change(_name, "fci fciub", f"{{0}}.{_name}({{1}})", f"L.{_ufunc}({{0}}, {{1}}, out={{0}})")
    _change(f"{_name}again", "fc fc", f"{{0}}.{_name}({{1}})", f"L.{_ufunc}({{0}}, {{1}}, out={{0}})")
_change("iadd", "fci fci", "{0} += {1}", "{0} += {1}")
_change("imul", "fci fci", "{0} *= {1}", "{0} *= {1}")
_change("div_", "fc", "{0}.div_(2.0)", "{0} /= 2.0")
for _name in ("sin", "cos", "tanh", "square", "exp"):
    _change(f"{_name}_", "fc", f"{{0}}.{_name}_()", f"L.{_name}({{0}}, out={{0}})")
_change("neg_", "fci", "{0}.neg_()", "L.negative({0}, out={0})")
_change("sigmoid_", "f", "{0}.sigmoid_()", "{0}[...] = 1 / (1 + L.exp(-{0}))")
_change("relu_", "f", "{0}.relu_()", "{0}[...] = L.maximum({0}, 0)")
_change("copy_", "fci fciub", "{0}.copy_({1})", "{0}[...] = {1}")
_change("fill_", "fc", "{0}.fill_(0.75)", "{0}[...] = 0.75")
_change("zero_", "fci", "{0}.zero_()", "{0}[...] = 0")
_change("assign", "fc fc", "{0}[{index}] = {1}", "{0}[{index}] = {1}", _index)
_change("assign_number", "fci", "{0}[{index}] = 2", "{0}[{index}] = 2", _index)
_change("assign_sum", "fc fc", "{0}[{index}] += {1}", "{0}[{index}] += {1}", _index)
_change("assign_rows", "fc fc", "{0}[[0, -1]] = {1}", "{0}[[0, -1]] = {1}", _two_rows)
_change("assign_masked", "f", "{0}[{0} > 0.125] = 0.25", "{0}[{0} > 0.125] = 0.25")
