"""Wrong kernels of the template ``pointwise``: windows, special values, rounding, integers, conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests._backends import window

from .wrong import Wrong, functions, kernel, packed, template

__all__ = ["ELEMENTWISE"]

WINDOWS: Final = "test_templates::TestPointwise"
IN_PLACE: Final = "test_templates::TestPointwise::test_dimensions_and_in_place"


def is_window(x: Any) -> bool:
    """Tell whether an operand is a window, and not a number."""
    return not isinstance(x, np.generic)


def on_operands(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a change of a kernel that sees other windows as operands."""
    return lambda right, *_: lambda out, *xs: right(out, *[change(x) if is_window(x) else x for x in xs])


def on_result(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a change of a kernel whose result of floats goes through a function."""

    def changed(right: Any, scalar: Any, operands: Any, result: np.dtype) -> Any:
        def run(out: Any, *xs: Any) -> None:
            right(out, *xs)
            if result.kind == "f" and scalar.name != "copy":
                with np.errstate(all="ignore"):
                    window(out)[...] = change(window(out))

        return run

    return changed


def repeated_wrongly(x: Any) -> Any:
    return x.window(x.shape, x.strides[::-1], x.offset) if 0 in x.strides and x.ndim == 2 else x


def past_the_end(right: Any, *_: Any) -> Any:
    def run(out: Any, *xs: Any) -> None:
        right(out, *xs)
        end = (
            out.offset
            + sum((n - 1) * step for n, step in zip(out.shape, out.strides, strict=True))
            + out.dtype.itemsize
        )
        out.buffer.memory[end : end + 1] ^= 1

    return run


def clears_first(right: Any, *_: Any) -> Any:
    def run(out: Any, *xs: Any) -> None:
        if any(is_window(x) and x.owner is out.owner for x in xs):
            window(out)[...] = 0
        right(out, *xs)

    return run


def scratch(right: Any, scalar: Any, *_: Any) -> Any:
    def run(out: Any, *xs: Any) -> None:
        right(out, *xs)
        if is_window(xs[0]) and xs[0].dtype == out.dtype and scalar.name != "copy" and 0 not in xs[0].strides:
            window(xs[0])[...] = window(out)

    return run


def without_last(right: Any, *_: Any) -> Any:
    def run(out: Any, *xs: Any) -> None:
        if out.shape[-1] % 4 != 1 or out.shape[-1] < 4:
            right(out, *xs)
            return
        shape = (*out.shape[:-1], out.shape[-1] - 1)
        right(*[x.window(shape, x.strides, x.offset) if is_window(x) else x for x in (out, *xs)])

    return run


def first_number(right: Any, *_: Any) -> Any:
    seen: list[Any] = []

    def run(out: Any, *xs: Any) -> None:
        seen[:] = seen or [xs]
        right(out, *[x if is_window(x) else old for x, old in zip(xs, seen[0], strict=True)])

    return run


def in_dtype(wide: str, narrow: str) -> Callable[..., Any]:
    """Return a change of a kernel that computes operands of one dtype in a smaller one."""

    def changed(right: Any, *_: Any) -> Any:
        def run(out: Any, *xs: Any) -> None:
            right(out, *xs)
            if out.dtype == wide:
                with np.errstate(all="ignore"):
                    window(out)[...] = window(out).astype(narrow)

        return run

    return changed


def converting(rule: Callable[[Any, np.dtype], Any]) -> Callable[..., Any]:
    """Return a change of conversions: ``rule(values, target)`` gives the values or None where it is right."""

    def changed(right: Any, scalar: Any, operands: Any, result: np.dtype) -> Any:
        def run(out: Any, *xs: Any) -> None:
            right(out, *xs)
            if scalar.name == "copy" and is_window(xs[0]):
                with np.errstate(all="ignore"):
                    values = rule(window(xs[0]), out.dtype)
                if values is not None:
                    window(out)[...] = values

        return run

    return changed


def saturating(function: Any) -> Any:
    """Return integer arithmetic that saturates at the ends of the range."""

    def saturated(x: Any, y: Any) -> Any:
        if x.dtype.kind not in "iu" or x.dtype.itemsize == 8:
            return function(x, y)
        limits = np.iinfo(x.dtype)
        return np.clip(function(x.astype(np.int64), y.astype(np.int64)), limits.min, limits.max).astype(x.dtype)

    return saturated


def integers(function: Any, otherwise: Any) -> Any:
    """Return a function that differs for integers only."""
    return lambda *x: function(*x).astype(x[0].dtype) if x[0].dtype.kind in "iu" else otherwise(*x)


def signed(function: Any) -> Any:
    return lambda x, y: function(x.astype(np.int64), y.astype(np.int64)) if x.dtype.kind == "u" else function(x, y)


def single_reduction(x: Any) -> Any:
    """Return the sine after a range reduction with 2 pi in single precision."""
    return np.sin(np.remainder(x, x.dtype.type(np.float32(2 * np.pi)))) if x.dtype.kind == "f" else np.sin(x)


def half_up(x: Any) -> Any:
    return np.floor(x + x.dtype.type(0.5)) if x.dtype.kind == "f" else x


def of(operator: str, dtype: str = "float32") -> str:
    """Return the test of the values of an operator."""
    return f"test_operators::test_operator[tk::{operator}-{dtype}]"


def nan_as_zero(x: Any) -> Any:
    return np.where(np.isnan(x), 0, np.exp(x)).astype(x.dtype)


def flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, x.dtype.type(0), x)


ELEMENTWISE: Final[tuple[Wrong, ...]] = (
    template("operands are read as if they were packed", "pointwise", on_operands(packed), WINDOWS),
    template(
        "operands are read from the beginning of the buffer", "pointwise",
        on_operands(lambda x: x.window(x.shape, x.strides, 0)), WINDOWS,
    ),
    template("operands are repeated along the wrong dimension", "pointwise", on_operands(repeated_wrongly), of("add")),
    template(
        "the result is written as if it were packed", "pointwise",
        lambda right, *_: lambda out, *xs: right(packed(out), *xs), WINDOWS,
    ),
    template(
        "the result is written to the beginning of the buffer", "pointwise",
        lambda right, *_: lambda out, *xs: right(out.window(out.shape, out.strides, 0), *xs), WINDOWS,
    ),
    template("negative strides are read forwards", "pointwise",
             on_operands(lambda x: x.window(x.shape, tuple(map(abs, x.strides)), x.offset)), WINDOWS),
    template("a byte after the result is changed", "pointwise", past_the_end, WINDOWS),
    template("the result is cleared before it is computed in place", "pointwise", clears_first, IN_PLACE),
    template("the first operand is scratch memory", "pointwise", scratch, of("exp")),
    template("the last element of rows of 4k + 1 is forgotten", "pointwise", without_last, of("exp"), WINDOWS),
    template("the number of the first call is used for ever", "pointwise", first_number,
             "test_values::test_python_numbers_do_not_decide_the_dtype", of("elu")),
    template("infinities become the greatest number", "pointwise", on_result(np.nan_to_num), of("exp"), of("divide")),
    template("denormal results become 0", "pointwise", on_result(flushed),
             "test_values::test_denormal_numbers_are_kept"),
    template("negative zeros lose their sign", "pointwise", on_result(lambda x: x + x.dtype.type(0)), of("negative")),
    functions("exp of double precision is single", {"exp": lambda x: np.exp(x.astype(np.float32)).astype(x.dtype)
                                                    if x.dtype.kind == "f" else np.exp(x)}, of("exp", "float64")),
    template("single precision is half", "pointwise", in_dtype("float32", "float16"), of("sigmoid")),
    template("64-bit integers go through double precision", "pointwise", in_dtype("int64", "float64"),
             of("add", "int64")),
    template("conversions to integers round", "pointwise",
             converting(lambda x, to: np.rint(x) if x.dtype.kind == "f" and to.kind == "i" else None),
             "test_values::test_conversions_between_all_dtypes"),
    template("conversions to bool keep the lowest bit", "pointwise",
             converting(lambda x, to: x.astype(np.int64) & 1 if x.dtype.kind in "iu" and to.kind == "b" else None),
             "test_values::test_conversions_between_all_dtypes"),
    template("conversions to bool truncate", "pointwise",
             converting(lambda x, to: np.trunc(x) != 0 if x.dtype.kind == "f" and to.kind == "b" else None),
             "test_values::test_conversions_between_all_dtypes"),
    template("conversions to smaller integers saturate", "pointwise",
             converting(lambda x, to: np.clip(x, 0, 255) if x.dtype.kind == "i" and to == np.uint8 else None),
             "test_values::test_conversions_between_all_dtypes"),
    template("unsigned integers are converted as signed ones", "pointwise",
             converting(lambda x, to: x.astype(np.int64) if x.dtype == np.uint64 and to.kind == "f" else None),
             "test_values::test_conversions_between_all_dtypes"),
    functions("exp is clipped to +-20", {"exp": lambda x: np.exp(np.clip(x, -20, 20))}, of("exp")),
    functions("exp of NaN is 0", {"exp": nan_as_zero}, of("exp")),
    functions("sin of large numbers is reduced in single precision", {"sin": single_reduction}, of("sin")),
    functions("maximum ignores NaN", {"maximum": np.fmax}, of("maximum")),
    functions("minimum gives the second operand for NaN", {"minimum": lambda x, y: np.where(x < y, x, y)},
              of("minimum")),
    functions("comparisons with NaN are true", {"less": lambda x, y: ~(x >= y)}, of("less")),
    functions("round rounds halves up", {"round": half_up}, of("round")),
    functions("small integers saturate", {"add": saturating(np.add), "multiply": saturating(np.multiply)},
              "test_values::test_integers_wrap_around"),
    functions("floor division of integers truncates",
              {"floor_divide": integers(lambda x, y: np.trunc(np.divide(x, y)), np.floor_divide)},
              of("floor_divide", "int64")),
    functions("the remainder has the sign of the dividend", {"remainder": np.fmod}, of("remainder", "int64")),
    functions("unsigned integers are compared as signed ones", {"less": signed(np.less), "greater": signed(np.greater)},
              "test_values::test_integers_wrap_around", of("greater", "uint8")),
    functions("shifts use the lowest bits of the count",
              {"left_shift": lambda x, y: np.left_shift(x, y & (8 * x.dtype.itemsize - 1)),
               "bitwise_left_shift": lambda x, y: np.left_shift(x, y & (8 * x.dtype.itemsize - 1))},
              of("bitwise_left_shift", "int64")),
    functions("log1p is log(1 + x)", {"log1p": lambda x: np.log(1 + x)}, of("log1p")),
    kernel("a hand-written kernel gives double precision", "tk::exp",
           lambda self, x: self.from_host(np.exp(window(x).astype("float64"))), of("exp")),
    kernel("a hand-written kernel loses a dimension", "tk::tanh",
           lambda self, x: self.from_host(np.tanh(window(x)).reshape(-1)), of("tanh")),
)  # fmt: skip
