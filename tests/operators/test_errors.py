"""Bad arguments: each error names the operator, what was given, the rule and where it helps the remedy.

The same call on the device ``meta`` raises the same error with the same text, unless only values can tell.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch.errors import ArgumentError, DeviceMismatchError
from tests._tiers import each
from tests.operators._table import FACTORIES, INPLACE, OPERATORS, SAMPLED

Make = Callable[..., Tensor]
Case = tuple[str, Callable[[Make, Make], Any], type[Exception], str | None]
_BROADCAST = " cannot be broadcast together: counted from the last, each dimension must be equal or 1 in all of them."
_INDICES = ": give at most one for each dimension (None adds one)."
_RANGE = " is out of range for a tensor of 2 dimensions: it must be in [-2, 1]."
o = tk.ops.tk


def _further_cases() -> list[Case]:
    """The cases of the modules ``_wrong_*.py`` beside this one, each with those of a topic in ``cases()``."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("_wrong_*.py"))
    return [case for name in found for case in importlib.import_module(f"tests.operators.{name}").cases()]


def _cases() -> list[Case]:
    """(name, call, error, text); ``f(*shape)`` makes floats and ``i(*shape)`` integers on the device under test."""
    return [
        # shapes
        ("add", lambda f, i: tk.add(f(2, 3), f(4)), ValueError, "[add] the shapes (2, 3) and (4,)" + _BROADCAST),
        ("where", lambda f, i: tk.where(f(2, dtype=bool), f(3), f(1)), ValueError,
         "[where] the shapes (2,) and (3,) and (1,)" + _BROADCAST),
        ("matmul", lambda f, i: f(2, 3) @ f(4, 5), ValueError,
         "[matmul] got (2, 3) @ (4, 5): the inner sizes 3 and 4 must be equal."),
        ("matmul", lambda f, i: f(2, 3) @ f(2), ValueError,
         "[matmul] got (2, 3) @ (2,): the inner sizes 3 and 2 must be equal."),
        ("matmul", lambda f, i: f(2, 2, 3) @ f(3, 3, 4), ValueError, "[matmul] the shapes (2,) and (3,)" + _BROADCAST),
        ("matmul", lambda f, i: f() @ f(2), ValueError,
         "[matmul] got () @ (2,): both need at least one dimension; multiply by a scalar with *."),
        ("reshape", lambda f, i: tk.reshape(f(2, 3), (4,)), ValueError,
         "[reshape] a tensor of shape (2, 3) (6 elements) cannot take the shape (4,): that has 4 elements."),
        ("reshape", lambda f, i: tk.reshape(f(2, 3), (4, -1)), ValueError,
         "[reshape] a tensor of shape (2, 3) (6 elements) cannot take the shape (4, -1): 6 is not divisible by 4."),
        ("reshape", lambda f, i: tk.reshape(f(2, 3), (-1, -1)), ValueError,
         "[reshape] a tensor of shape (2, 3) (6 elements) cannot take the shape (-1, -1): only one -1 is allowed."),
        ("reshape", lambda f, i: tk.reshape(f(2, 3), (-2, 3)), ValueError,
         "[reshape] a tensor of shape (2, 3) (6 elements) cannot take the shape (-2, 3): -2 is not a length."),
        ("reshape", lambda f, i: tk.reshape(f(0, 3), (0, -1)), ValueError,
         "[reshape] a tensor of shape (0, 3) (0 elements) cannot take the shape (0, -1): 0 is not divisible by 0."),
        ("broadcast_to", lambda f, i: tk.broadcast_to(f(2, 3), (3, 3)), ValueError,
         "[broadcast_to] the shapes (2, 3) and (3, 3)" + _BROADCAST),
        ("broadcast_to", lambda f, i: tk.broadcast_to(f(2, 3), (3,)), ValueError,
         "[broadcast_to] a tensor of shape (2, 3) cannot be broadcast to (3,)."),
        ("broadcast_to", lambda f, i: tk.broadcast_to(f(1), (-1,)), ValueError,
         "[broadcast_to] a tensor of shape (1,) cannot be broadcast to (-1,)."),
        ("expand_as", lambda f, i: o.expand_as(f(2, 3), f(3)), ValueError,
         "[expand_as] a tensor of shape (2, 3) cannot be broadcast to (3,)."),
        ("squeeze", lambda f, i: tk.squeeze(f(2, 1), 0), ValueError,
         "[squeeze] dimension 0 of shape (2, 1) has length 2, not 1."),
        ("matrix_transpose", lambda f, i: tk.matrix_transpose(f(3)), ValueError,
         "[matrix_transpose] needs at least two dimensions, got shape (3,)."),
        ("clip", lambda f, i: tk.clip(f(3), f(2), 4.0), ValueError, "[clip] the shapes (3,) and (2,)" + _BROADCAST),
        ("clip", lambda f, i: tk.clip(f(3), 0.0, f(2)), ValueError, "[clip] the shapes (3,) and (2,)" + _BROADCAST),
        ("clip", lambda f, i: tk.clip(f(2, dtype="complex64"), 0.0), TypeError,
         "[clip] got dtype complex64: it takes real numeric dtypes. Convert with tk.astype(x, dtype)."),
        ("concat", lambda f, i: tk.concat([f(2, 3), f(2, 4)]), ValueError,
         "[concat] the shapes (2, 3) and (2, 4) must agree in every dimension but axis 0."),
        ("concat", lambda f, i: tk.concat([f(2, 3), f(2)]), ValueError,
         "[concat] the shapes (2, 3) and (2,) must agree in every dimension but axis 0."),
        ("stack", lambda f, i: tk.stack([f(2, 3), f(2)]), ValueError,
         "[stack] the shapes (2, 3) and (2,) must all be the same: tk.concat joins along an axis that exists."),
        ("complex_from", lambda f, i: o.complex_from(f(2), f(3)), ValueError,
         "[complex_from] got real part (2,) and imaginary part (3,): the shapes must be equal. Use tk.broadcast_to."),
        ("cross_entropy", lambda f, i: tk.cross_entropy(f(2, 3), i(3)), ValueError,
         ("[cross_entropy] got logits of shape (2, 3) and target of shape (3,), dtype int64: the target holds one "
         "integer class for each row of the logits, shape (2,).")),
        ("add_", lambda f, i: f(3).add_(f(2, 3)), ValueError,
         ("[add_] the result of shape (2, 3) does not fit into the first argument, shape (3,). (output with "
         "shape (3,) doesn't match the broadcast shape (2, 3))")),
        ("copy_", lambda f, i: f(3).copy_(f(2)), ValueError, "[copy_] the shapes (3,) and (2,)" + _BROADCAST),
        ("copy_", lambda f, i: f(3).copy_(f(1, 3)), ValueError,
         ("[copy_] the result of shape (1, 3) does not fit into the first argument, shape (3,). (output with "
         "shape (3,) doesn't match the broadcast shape (1, 3))")),
        ("put_", lambda f, i: o.put_(f(3), [i(2)], f(3)), ValueError,
         "[index_put] the shapes (2,) and (3,)" + _BROADCAST),
        ("put_", lambda f, i: o.put_(f(3), [i(2)], f(1, 2)), ValueError,
         "[index_put] the result of shape (1, 2) does not fit into the first argument, shape (2,)."),
        # axes
        ("sum", lambda f, i: tk.sum(f(2, 3), axis=2), IndexError, "[sum] axis 2" + _RANGE),
        ("sum", lambda f, i: tk.sum(f(2, 3), axis=(0, -3)), IndexError, "[sum] axis -3" + _RANGE),
        ("sum", lambda f, i: tk.sum(f(2, 3), axis=(0, -2)), ValueError, "[sum] axis (0, -2) names a dimension twice."),
        ("mean", lambda f, i: tk.mean(f(2, 3), axis=5), IndexError, "[mean] axis 5" + _RANGE),
        ("argmax", lambda f, i: tk.argmax(f(2, 3), axis=2), IndexError, "[argmax] axis 2" + _RANGE),
        ("argmin", lambda f, i: tk.argmin(f(2, 3), axis=2), IndexError, "[argmin] axis 2" + _RANGE),
        ("logsumexp", lambda f, i: tk.logsumexp(f(2, 3), axis=2), IndexError, "[logsumexp] axis 2" + _RANGE),
        ("softmax", lambda f, i: tk.softmax(f(2, 3), axis=2), IndexError, "[softmax] axis 2" + _RANGE),
        ("log_softmax", lambda f, i: tk.log_softmax(f(2, 3), axis=2), IndexError, "[log_softmax] axis 2" + _RANGE),
        ("layer_norm", lambda f, i: tk.layer_norm(f(2, 3), f(2)), ValueError,
         ("[layer_norm] weight of shape (2,) must be a vector of 3 elements, the length of axis -1 of x, whose shape "
          "is (2, 3).")),
        ("layer_norm", lambda f, i: tk.layer_norm(i(2, 3)), TypeError,
         "[layer_norm] got x of dtype int64: it takes real floating dtypes."),
        ("permute_dims", lambda f, i: tk.permute_dims(f(2, 3), (0, 2)), IndexError, "[permute_dims] axis 2" + _RANGE),
        ("permute_dims", lambda f, i: tk.permute_dims(f(2, 3), (0, 0)), ValueError,
         "[permute_dims] axis (0, 0) names a dimension twice."),
        ("permute_dims", lambda f, i: tk.permute_dims(f(2, 3), (0,)), ValueError,
         "[permute_dims] axes (0,) must name each of the 2 dimensions of shape (2, 3) once."),
        ("squeeze", lambda f, i: tk.squeeze(f(2, 1), 2), IndexError, "[squeeze] axis 2" + _RANGE),
        ("expand_dims", lambda f, i: tk.expand_dims(f(2), 4), IndexError, "[expand_dims] axis 4" + _RANGE),
        ("select_index", lambda f, i: o.select_index(f(2, 3), 2, 0), IndexError, "[select_index] axis 2" + _RANGE),
        ("slice", lambda f, i: o.slice(f(2, 3), 2, 0, 1), IndexError, "[slice] axis 2" + _RANGE),
        ("slice", lambda f, i: o.slice(f(3), 0, 0, 3, 0), ValueError,
         "[slice] the step of a view must be at least 1, got 0: flip first, for a copy."),
        ("flip", lambda f, i: tk.flip(f(2, 3), axis=2), IndexError, "[flip] axis 2" + _RANGE),
        ("flip", lambda f, i: tk.flip(f(2, 3), axis=(1, 1)), ValueError, "[flip] axis (1, 1) names a dimension twice."),
        ("concat", lambda f, i: tk.concat([f(2, 3)], axis=2), IndexError, "[concat] axis 2" + _RANGE),
        ("stack", lambda f, i: tk.stack([f(2), f(2)], axis=2), IndexError, "[stack] axis 2" + _RANGE),
        ("take", lambda f, i: tk.take(f(2, 3), i(2), axis=2), IndexError, "[take] axis 2" + _RANGE),
        ("take", lambda f, i: tk.take(f(2, 3), i(2)), ValueError, "[take] needs axis= for a tensor of shape (2, 3)."),
        ("take_along_axis", lambda f, i: tk.take_along_axis(f(2, 3), i(2, 3), axis=2), IndexError,
         "[take_along_axis] axis 2" + _RANGE),
        ("scatter_add", lambda f, i: tk.scatter_add(f(2, 3), i(2, 3), f(2, 3), axis=2), IndexError,
         "[scatter_add] axis 2" + _RANGE),
        # no elements
        *[
            (name, lambda f, i, name=name, axis=axis: getattr(tk, name)(f(0, 3), axis=axis), ValueError,
             (f"[{name}] got shape (0, 3) with axis={shown}: the reduction of no elements has no value. Test x.size "
             "first."))
            for name in ("max", "min", "argmax", "argmin")
            for axis, shown in ((None, "None"), (0, "0" if name.startswith("arg") else "(0,)"))
        ],
        # dtypes
        ("subtract", lambda f, i: f(2, dtype=bool) - f(2, dtype=bool), TypeError,
         ("[tk::subtract] is not defined for dtype bool: it takes numeric dtypes, not bool. Convert with tk.astype(x, "
         "dtype).")),
        ("floor", lambda f, i: tk.floor(f(2, dtype="complex64")), TypeError,
         ("[tk::floor] is not defined for dtype complex64: it takes real numeric dtypes. Convert with tk.astype(x, "
         "dtype).")),
        *[
            (name, lambda f, i, name=name: getattr(tk, name)(f(2, dtype="complex64"), 1), TypeError,
             (f"[tk::{name}] is not defined for dtype complex64: it takes dtypes with an order, not complex ones. "
             "Convert with tk.astype(x, dtype)."))
            for name in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")
        ],
        ("max", lambda f, i: tk.max(f(2, dtype="complex64")), TypeError,
         ("[tk::max] is not defined for dtype complex64: it takes dtypes with an order, not complex ones. Convert with "
          "tk.astype(x, dtype).")),
        ("argmax", lambda f, i: tk.argmax(f(2, dtype="complex64")), TypeError,
         "[argmax] is not defined for dtype complex64: complex numbers have no order. Consider tk.real(x)."),
        ("argmin", lambda f, i: tk.argmin(f(2, dtype="complex64")), TypeError,
         "[argmin] is not defined for dtype complex64: complex numbers have no order. Consider tk.real(x)."),
        ("astype", lambda f, i: tk.astype(f(2, dtype="complex64"), "float32"), TypeError,
         "[astype] complex64 to float32 would lose the imaginary part: take tk.real(x) first."),
        ("to", lambda f, i: o.to(f(2, dtype="complex64"), dtype=tk.float32), TypeError,
         "[astype] complex64 to float32 would lose the imaginary part: take tk.real(x) first."),
        ("complex_from", lambda f, i: o.complex_from(i(2), i(2)), TypeError,
         ("[complex_from] got real part int64 and imaginary part int64: both must have one floating dtype. Convert "
         "with tk.astype(x, dtype).")),
        ("cross_entropy", lambda f, i: tk.cross_entropy(f(2, 3), f(2)), ValueError,
         ("[cross_entropy] got logits of shape (2, 3) and target of shape (2,), dtype float32: the target holds one "
         "integer class for each row of the logits, shape (2,).")),
        ("add_", lambda f, i: i(3).add_(f(3)), TypeError,
         ("[add_] a result of dtype float32 cannot be written into a tensor of dtype int64: cast it first. (result "
         "type float32 can't be cast to the desired output type int64)")),
        ("divide_", lambda f, i: i(3).div_(2), TypeError,
         ("[divide_] a result of dtype float32 cannot be written into a tensor of dtype int64: cast it first. (result "
         "type float32 can't be cast to the desired output type int64)")),
        ("exp_", lambda f, i: i(3).exp_(), TypeError,
         ("[exp_] a result of dtype float32 cannot be written into a tensor of dtype int64: cast it first. (result "
         "type float32 can't be cast to the desired output type int64)")),
        ("multiply_", lambda f, i: f(3).mul_(1j), TypeError,
         ("[multiply_] a result of dtype complex64 cannot be written into a tensor of dtype float32: cast it first. ("
         "result type complex64 can't be cast to the desired output type float32)")),
        ("copy_", lambda f, i: f(3).copy_(f(3, dtype="complex64")), TypeError,
         ("[copy_] a result of dtype complex64 cannot be written into a tensor of dtype float32: cast it first. ("
         "result type complex64 can't be cast to the desired output type float32)")),
        ("put_", lambda f, i: o.put_(f(3), [i(2)], f(2, dtype="complex64")), TypeError,
         ("[index_put] a result of dtype complex64 cannot be written into a tensor of dtype float32: cast it first. ("
         "result type complex64 can't be cast to the desired output type float32)")),
        # indices
        ("take", lambda f, i: tk.take(f(3), f(2)), TypeError, "[take] indices must be integers, got float32."),
        ("take_along_axis", lambda f, i: tk.take_along_axis(f(2, 3), f(2, 3)), TypeError,
         "[take_along_axis] indices must be integers, got float32."),
        ("take_along_axis", lambda f, i: tk.take_along_axis(f(2, 3), i(3)), ValueError,
         "[take_along_axis] indices of shape (3,) must have the 2 dimensions of (2, 3)."),
        ("take_along_axis", lambda f, i: tk.take_along_axis(f(2, 3), i(4, 3)), ValueError,
         "[take_along_axis] the shapes (2, 1) and (4, 1)" + _BROADCAST),
        ("scatter_add", lambda f, i: tk.scatter_add(f(3), f(2), f(2)), TypeError,
         "[scatter_add] indices must be integers, got float32."),
        ("scatter_add", lambda f, i: tk.scatter_add(f(3, 3), i(2, 4), f(2, 4), axis=0), ValueError,
         ("[scatter_add] indices of shape (2, 4) are longer than the tensor, shape (3, 3), in dimension 1: they may be "
          "longer only along axis 0.")),
        ("scatter_add", lambda f, i: tk.scatter_add(f(3, 3), i(2), f(2), axis=0), ValueError,
         "[scatter_add] indices of shape (2,) must have the 2 dimensions of the tensor, shape (3, 3)."),
        ("scatter_add", lambda f, i: tk.scatter_add(f(3), i(2), f(1, 2)), ValueError,
         "[scatter_add] a source of shape (1, 2) neither broadcasts to the shape of the indices, (2,), nor covers it."),
        ("index", lambda f, i: o.index(f(3), [i(2), i(2)]), IndexError,
         "[index] got 2 indices for a tensor of 1 dimensions, shape (3,)" + _INDICES),
        ("index", lambda f, i: o.index(f(3), [f(2)]), IndexError,
         ("[index] an index consists of ints, slices, None, '...', and tensors of integers or bools; got a tensor of "
         "dtype float32.")),
        ("index", lambda f, i: o.index(f(3, 3), [i(2), i(3)]), IndexError,
         "[index] the shapes (2,) and (3,)" + _BROADCAST),
        ("gather", lambda f, i: tk.gather(f(2, 3), f(2, 3)), TypeError,
         "[gather] indices must be integers, got float32."),
        ("gather", lambda f, i: tk.gather(f(2, 3), i(3, 1)), ValueError,
         ("[gather] indices of shape (3, 1) are longer than the tensor, shape (2, 3), in dimension 0: they may be "
         "longer only along axis 1.")),
        ("scatter", lambda f, i: tk.scatter(f(2, 3), i(3), 1.0), ValueError,
         "[scatter] indices of shape (3,) must have the 2 dimensions of the tensor, shape (2, 3)."),
        ("scatter", lambda f, i: tk.scatter(f(3), i(3), 1.0, reduce="mode"), ValueError,
         "[scatter] reduce must be None, 'add', 'multiply', 'max' or 'min', got 'mode'."),
        ("scatter", lambda f, i: tk.scatter(i(3), i(3), f(3)), TypeError,
         "[scatter] a source of dtype float32 cannot be stored in a tensor of int64: cast the tensor first."),
        ("index_reduce", lambda f, i: tk.scatter(f(3, dtype="complex64"), i(3), 1.0, reduce="max"), TypeError,
         "[scatter] reduce='maximum' needs an order, which complex64 does not have."),
        ("index_add", lambda f, i: tk.index_add(f(3), i(2, 2), f(2)), ValueError,
         "[index_add] indices must have one dimension, got shape (2, 2)."),
        ("index_add", lambda f, i: tk.index_add(f(3), i(2), f(3, 3)), ValueError,
         "[index_add] a source of shape (3, 3) neither broadcasts to the shape of the indices, (2,), nor covers it."),
        ("index_copy", lambda f, i: tk.index_copy(f(3), f(2), f(2)), TypeError,
         "[index_copy] indices must be integers, got float32."),
        ("index_fill", lambda f, i: tk.index_fill(f(3), i(2), f(2)), ValueError,
         "[index_fill] the value must be 0-d, got shape (2,): use index_copy."),
        ("polygamma_of", lambda f, i: tk.special.polygamma(-1, f(2)), ValueError,
         "[special_polygamma] n is the number of derivatives of digamma, at least 0 and below 2**63; got -1."),
        ("polygamma_each", lambda f, i: tk.special.polygamma(f(2), f(2)), TypeError,
         "[special_polygamma] n is the number of derivatives: an int or a tensor of integers, got float32."),
        ("special_polygamma", lambda f, i: tk.special.polygamma(1.5, f(2)), TypeError,
         "[special_polygamma] n is the number of derivatives: an int or a tensor of integers, got float."),
        ("select", lambda f, i: tk.select([f(2) > 1], [f(2), f(2)]), ValueError,
         "[select] got 1 conditions and 2 choices: each condition needs one choice."),
        ("choose", lambda f, i: tk.choose(f(2), [f(2)]), TypeError,
         "[choose] the numbers of the choices must be integers, got float32."),
        ("masked_fill", lambda f, i: tk.masked_fill(i(2), i(2) > 0, 1.5), TypeError,
         "[masked_fill] a tensor of int64 cannot hold a value of float64: cast it first."),
        ("masked_select", lambda f, i: tk.masked_select(f(2), f(2)), TypeError,
         "[masked_select] a mask must be a tensor of bools, got float32."),
        ("compress", lambda f, i: tk.compress(f(3) > 0, f(2)), ValueError,
         "[compress] a condition of shape (3,) does not fit axis 0 of shape (2,)."),
        ("extract", lambda f, i: tk.extract(f(3) > 0, f(2)), ValueError,
         "[extract] a condition of shape (3,) must have the tensor's shape, (2,)."),
        ("unravel_rows", lambda f, i: tk.unravel_index(f(2), (2, 3)), TypeError,
         "[unravel_index] indices must be integers, got float32."),
        ("ravel_multi_index", lambda f, i: tk.ravel_multi_index([i(2)], (2, 3)), ValueError,
         "[ravel_multi_index] got 1 tensors for the shape (2, 3)."),
        ("basic_index", lambda f, i: o.basic_index(f(2, 3), (0, 0, 0)), IndexError,
         ("[index] got 3 indices for a tensor of 2 dimensions, shape (2, 3): give at most one for each dimension (None "
         "adds one).")),
        ("basic_index", lambda f, i: f(2, 3)[:, 3], IndexError,
         "[index] index 3 is out of range for dimension 1 of shape (2, 3): it must be in [-3, 2]."),
        ("basic_index", lambda f, i: o.basic_index(f(3), (slice(None, None, -1),)), ValueError,
         ("[tk::basic_index] the argument 'index': [index] the step of a view must be at least 1, got slice(None, "
         "None, -1): flip first, for a copy.")),
        ("select_index", lambda f, i: o.select_index(f(2, 3), 1, 3), IndexError,
         "[index] index 3 is out of range for dimension 1 of shape (2, 3): it must be in [-3, 2]."),
        # what is no tensor, no int, no dtype, no device
        ("add", lambda f, i: tk.add(f(2), "a"), ArgumentError,
         "[tk::add] the argument 'x2' must be a Tensor, got 'a' of type str. Convert it with tk.asarray(...)."),
        ("add", lambda f, i: tk.add(f(2), None), ArgumentError,
         "[tk::add] the argument 'x2' must be a Tensor, got None of type NoneType. Convert it with tk.asarray(...)."),
        ("matmul", lambda f, i: tk.matmul(f(2), 2.0), ArgumentError,
         "[tk::matmul] the argument 'x2' must be a Tensor, got 2.0 of type float. Convert it with tk.asarray(...)."),
        ("sum", lambda f, i: tk.sum(f(2), axis=1.5), ArgumentError,
         "[tk::sum] the argument 'axis' must be an int, got 1.5 of type float."),
        ("sum", lambda f, i: tk.sum(f(2), keepdims=3), ArgumentError,
         "[tk::sum] the argument 'keepdims' must be a bool, got 3 of type int."),
        ("reshape", lambda f, i: tk.reshape(f(6), 6), ArgumentError,
         "[tk::reshape] the argument 'shape' must be a sequence of int, got 6 of type int."),
        ("to_device", lambda f, i: f(2).to_device("gpu"), ValueError, None),
        ("astype", lambda f, i: tk.astype(f(2), "float31"), TypeError, None),
        *_further_cases(),
    ]  # fmt: skip


def _make(device: str) -> tuple[Make, Make]:
    def floats(*shape: int, dtype: Any = "float32") -> Tensor:
        return tk.ones(shape, dtype=dtype, device=device)

    def integers(*shape: int) -> Tensor:
        return tk.ones(shape, dtype="int64", device=device)

    return floats, integers


@each("device", ["cpu", "meta"])
@pytest.mark.parametrize(("name", "call", "error", "text"), _cases())
def test_text(name: str, call: Callable[..., Any], error: type[Exception], text: str | None, device: str) -> None:
    with pytest.raises(error) as caught:
        call(*_make(device))
    assert caught.type is error
    assert str(caught.value) == text if text is not None else f"tk::{name}]" in str(caught.value)


def test_the_table_covers_the_operators() -> None:
    """Every operator that can be given something wrong stands in the table, is pointwise, or shares a rule with one."""
    tested = {name for name, *_ in _cases()}
    same_rule = {
        "concatenate": "concat", "scatter_add_zeros": "scatter_add", "cast": "astype", "prod": "sum", "all": "sum",
        "any": "sum", "min": "max", "index_backward": "index", "slice_backward": "slice",
        "basic_index_backward": "basic_index", "basic_put": "basic_index", "put": "put_",
        "cumulative_prod": "cumulative_sum", "std": "var", "cumsum": "cumulative_sum", "cumprod": "cumulative_sum",
        "transpose": "permute_dims", "ediff1d": "diff", "accumulate": "add", "average_and_weights": "average",
        "gcd_of": "gcd", "lcm_of": "lcm", "softmax_backward": "softmax", "log_softmax_backward": "log_softmax",
        "logsumexp_backward": "logsumexp", "var_backward": "var", "row_cross_entropy": "cross_entropy",
        "row_cross_entropy_backward": "cross_entropy", "layer_norm_backward": "layer_norm",
        "layer_norm_weight_backward": "layer_norm", "layer_norm_all_backward": "layer_norm",
    }  # fmt: skip
    takes_all = {
        "alias",
        "angle",
        "clone",
        "conj",
        "real",
        "imag",
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
    }
    takes_all |= {
        "angle",
        "ravel",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "mean_of_runs",
        "invert_order",
        "repeat_indices",
    }
    # called by composites that have checked
    takes_all |= {"gamma_tail", "beta_tail", "hurwitz", "f_tail", "student_below", "student_quantile"}
    takes_all |= {"bessel_jn", "bessel_yn", "bessel_ive", "complex_erf"}
    # steps of tk.pad, histograms, quantiles and tk.interp, which have checked
    takes_all |= {"pad_constant", "bins_of", "ascending", "order_statistics", "interval_of"}
    # steps of the samplers of tk.random, which have checked; their errors are in tests/random/test_random.py
    takes_all |= {"random_rejection", "random_counts", "random_category", "random_order", "random_factor"}
    takes_all |= {"random_hypergeometric"}
    takes_all |= {"random_exp", "random_log1p", "random_checked"}
    takes_all |= {"nonzero_rows"}  # of any shape; tk.nonzero refuses 0-d
    takes_all |= {"sorting_order", "in_order", "index_sum"}  # steps of tk.sort and tk.index_add, which have checked
    takes_all |= {"repeat_each", "linear_recurrence"}  # called by formulas and composites that have checked
    takes_all |= {"unique_all", "unique_counts", "unique_inverse", "unique_values", "unique_parts"}
    takes_all |= {"place_sorted", "top_indices", "top_values", "cummax_pairs", "cummin_pairs", "among"}
    names = {op.schema.base_name for op in SAMPLED if "Pointwise" not in op.facets and op not in INPLACE}
    # these have tables of their own: tests/ops/test_linalg.py, tests/ops/test_fft.py, tests/ops/test_einsum.py
    names = {name for name in names if not name.startswith(("linalg_", "fft_"))}
    names -= {"vecdot", "outer", "trace", "contract", "inner", "dot", "kron", "einsum", "diagonal_embed"}
    names -= {"affine_scan", "running_max", "running_min"}  # steps of decompositions, which have checked
    names -= {"gather_rows", "scatter_rows_", "sort_rows"}  # tests/ops/test_primitives.py
    assert names <= tested | set(same_rule) | takes_all, names - tested - set(same_rule) - takes_all
    assert set(same_rule.values()) <= tested


# ---- all pointwise operators, all reductions, all in-place variants

_BINARY = [op for op in OPERATORS if "Pointwise" in op.facets and len(op.facets["Pointwise"].tensors) == 2]
_KINDS_OF = {
    "biufc": "float32",
    "biuf": "float32",
    "iufc": "float32",
    "iuf": "float32",
    "b": "bool",
    "f": "float32",
    "biu": "int64",
    "iu": "int64",
}


def _dtype(operator: Any) -> str:
    """A dtype that the operator takes."""
    return _KINDS_OF[operator.facets["Pointwise"].promotion.accepts]


_REDUCTIONS = [op for op in OPERATORS if "Reduce" in op.facets]


@each("device", ["cpu", "meta"])
@pytest.mark.parametrize("operator", _BINARY, ids=str)
def test_pointwise_shapes(operator: Any, device: str) -> None:
    floats, _ = _make(device)
    with pytest.raises(ValueError, match=r"the shapes \(2, 3\) and \(2,\) cannot be broadcast together") as caught:
        operator.call(floats(2, 3, dtype=_dtype(operator)), floats(2, dtype=_dtype(operator)))
    assert str(caught.value).startswith(f"[{operator.schema.base_name}] ")


@pytest.mark.parametrize("operator", _BINARY, ids=str)
def test_large_pointwise_shapes(operator: Any) -> None:
    with pytest.raises(ValueError, match="cannot be broadcast together") as caught:
        operator.call(tk.ones((300, 300), dtype=_dtype(operator)), tk.ones((299,), dtype=_dtype(operator)))
    assert str(caught.value).startswith(f"[{operator.schema.base_name}] ")


@pytest.mark.parametrize("operator", _BINARY, ids=str)
def test_pointwise_devices(operator: Any) -> None:
    with pytest.raises(DeviceMismatchError) as caught:
        operator.call(tk.ones(2), tk.ones(2, device="meta"))
    assert str(caught.value).startswith(f"[{operator.name}] got tensors on different devices (cpu and meta): ")
    assert "Move them with x.to" in str(caught.value)


@pytest.mark.parametrize("operator", [op for op in OPERATORS if "Pointwise" in op.facets], ids=str)
def test_numbers_alone(operator: Any) -> None:
    """They are tensors of the default dtype, or refused as such tensors are."""
    count = len(operator.schema.arguments)
    found = []
    for value in (1, tk.asarray(1)):
        try:
            result = operator.call(*[value] * count)
            found.append((result.tolist(), result.dtype))
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


@each("device", ["cpu", "meta"])
@pytest.mark.parametrize("operator", _REDUCTIONS, ids=str)
def test_reduction_axes(operator: Any, device: str) -> None:
    floats, _ = _make(device)
    name = operator.schema.base_name
    with pytest.raises(IndexError) as caught:
        operator.call(floats(2, 3), axis=(0, 2))
    assert str(caught.value) == f"[{name}] axis 2" + _RANGE
    with pytest.raises(ValueError, match=rf"^\[{name}\] axis \(1, 1\) names a dimension twice\.$"):
        operator.call(floats(2, 3), axis=(1, 1))


@pytest.mark.parametrize("operator", INPLACE, ids=str)
def test_inplace_errors_leave_the_target_as_it_was(operator: Any) -> None:
    if len(operator.schema.arguments) == 1:
        target = tk.asarray([1, 2, 3])
        functional = operator.facets["Inplace"].functional
        if functional.facets["Pointwise"].promotion.dtypes(operator.name, (target.dtype,))[1] == target.dtype:
            return  # it gives integers for integers
        with pytest.raises(TypeError, match="cannot be written into a tensor of dtype int64"):
            operator.call(target)
    else:
        target = tk.asarray([1, 2, 3])
        before = {"put_": ([tk.asarray([0, 1])],), "basic_put_": ((slice(0, 2),),)}.get(operator.schema.base_name, ())
        for bad in (tk.ones((5, 3), dtype="int64"), tk.asarray([1j, 2j, 3j])):
            with pytest.raises((ValueError, TypeError), match=r"^\[(tk::)?\w+\] "):
                operator.call(target, *before, bad)
    assert target.tolist() == [1, 2, 3]
    assert target._version == 0


# ---- devices


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("matmul", tk.matmul),
        ("concatenate", lambda a, b: tk.concat([a, b])),
        ("concatenate", lambda a, b: tk.stack([a, b])),
        ("where", lambda a, b: tk.where(tk.ones((2, 2), dtype=bool), a, b)),
        ("add_", lambda a, b: a.add_(b)),
        ("take_along_axis", lambda a, b: tk.take_along_axis(a, b.astype("int64"))),
        ("index", lambda a, b: a[b.astype("int64")]),
    ],
)
def test_mixed_devices(name: str, call: Callable[[Tensor, Tensor], Any]) -> None:
    here = tk.ones((2, 2))
    with pytest.raises(DeviceMismatchError) as caught:
        call(here, tk.ones((2, 2), device="meta"))
    text = str(caught.value)
    assert text.startswith(f"[tk::{name}] got tensors on different devices (cpu and meta)")
    assert "all tensors of a call live on one device" in text
    assert here.tolist() == [[1.0, 1.0], [1.0, 1.0]]


# ---- what only values can tell


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tk.take(tk.ones(3), tk.asarray([3])), "[index] index 3 is out of range for axis 0 of length 3."),
        (lambda: tk.take(tk.ones((2, 3)), tk.asarray([-4]), axis=1),
         "[index] index -4 is out of range for axis 1 of length 3."),
        (lambda: tk.take_along_axis(tk.ones((2, 3)), tk.asarray([[3], [0]]), axis=1),
         "[take_along_axis] index 3 is out of range for axis 1 of length 3."),
        (lambda: tk.scatter_add(tk.ones(3), tk.asarray([0, -5]), tk.ones(2), axis=0),
         "[scatter_add] index -5 is out of range for axis 0 of length 3."),
        (lambda: o.put_(tk.ones(3), [tk.asarray([7])], tk.ones(1)),
         "[index_put] index 7 is out of range for axis 0 of length 3."),
        (lambda: tk.cross_entropy(tk.ones((1, 3)), tk.asarray([3])),
         ("[cross_entropy] the target holds a class that is not in [0, 3), the columns of logits of shape (1, 3): "
          "leave out rows without a class, as in logits[target >= 0].")),
    ],
)  # fmt: skip
def test_indices_out_of_range(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(IndexError) as caught:
        call()
    assert str(caught.value) == text


# ---- creation


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda d: tk.empty((-1,), device=d), ValueError, "[empty] a shape has no negative lengths, got (-1,)."),
        (lambda d: tk.zeros((2, -1), device=d), ValueError, "[zeros] a shape has no negative lengths, got (2, -1)."),
        (lambda d: tk.ones(-1, device=d), ValueError, "[ones] a shape has no negative lengths, got (-1,)."),
        (lambda d: tk.full((-1,), 2, device=d), ValueError, "[full] a shape has no negative lengths, got (-1,)."),
        (lambda d: tk.eye(-1, device=d), ValueError, "[eye] n_rows and n_cols must be at least 0, got -1 and -1."),
        (lambda d: tk.linspace(0, 1, -1, device=d), ValueError,
         "[linspace] num is the number of values, at least 0; got -1."),
        (lambda d: tk.arange(0, 5, 0, device=d), ValueError, "[arange] the step must not be 0."),
        (lambda d: tk.arange(0, 5j, device=d), TypeError,
         "[arange] start, stop and step must be real numbers, got 5j."),
        (lambda d: tk.full(2, 300, dtype="uint8", device=d), OverflowError,
         "[full] the fill value 300 is out of range for uint8, which holds 0 to 255: name a wider dtype."),
        (lambda d: tk.full(2, 1j, dtype="float32", device=d), TypeError,
         "[full] got the complex number 1j for the dtype float32, which cannot hold it: use a complex dtype."),
        (lambda d: tk.linspace(0, 1j, 3, dtype="float32", device=d), TypeError,
         "[linspace] got the complex number 1j for the dtype float32, which cannot hold it: use a complex dtype."),
        (lambda d: tk.full(2, "a", device=d), ArgumentError,
         "[tk::full] the argument 'fill_value' must be a Python number, got 'a' of type str."),
        (lambda d: tk.zeros("a", device=d), ArgumentError,
         "[tk::zeros] the argument 'shape' must be an int, got 'a' of type str."),
        (lambda d: tk.zeros((1.5,), device=d), ArgumentError,
         "[tk::zeros] the argument 'shape' must be an int, got 1.5 of type float."),
    ],
)  # fmt: skip
def test_creation(call: Callable[[str], Any], error: type[Exception], text: str, device: str) -> None:
    with pytest.raises(error) as caught:
        call(device)
    assert str(caught.value) == text


@pytest.mark.parametrize("operator", FACTORIES, ids=str)
def test_creation_on_an_unknown_device(operator: Any) -> None:
    required = [a for a in operator.schema.arguments if not a.has_default]
    args = {a.name: (1,) if a.name == "shape" else 1 for a in required}
    with pytest.raises(ValueError, match=r"unknown device 'tpu': known device types are cpu, meta") as caught:
        operator.call(**args, device="tpu")
    assert str(caught.value).startswith(f"[{operator.name}] the argument 'device': ")


def test_uint64_with_signed_integers_has_no_dtype() -> None:
    with pytest.raises(TypeError, match="no integer dtype holds both") as caught:
        tk.add(tk.ones(2, dtype="uint64"), tk.ones(2, dtype="int64"))
    assert "x.astype('int64')" in str(caught.value)


def test_mixed_list_and_foreign_operands() -> None:
    with pytest.raises(ArgumentError, match=r"\[tk::concat\] the argument 'arrays' must be .*got 'a' of type str"):
        tk.concat([tk.ones(2), "a"])
    with pytest.raises(TypeError, match="unsupported operand"):
        tk.ones(2) + "a"
    assert not tk.ones(2) == "a"  # noqa: SIM201 (Python's answer where neither side knows the other)
