"""Text forms of tensors, and the options for them.

A tensor prints its values *and* its shape, dtype and device. Only the displayed elements are read: the repr of a tensor
with 10**9 elements costs as much as that of one with a thousand.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from ..._util.checked_integer import checked_integer
from ..._util.record import Record, replaced
from ..dtypes import names as dtypes

__all__ = ["PrintOptions", "edge_indices", "format_tensor", "get_printoptions", "printoptions", "set_printoptions"]


class PrintOptions(Record, frozen=True):
    """Options for printing tensors.

    ``precision``: maximum number of digits after the point. ``threshold``: larger tensors are summarised.
    ``edgeitems``: number of items that a summary shows at each end of each axis. ``linewidth``: characters per line.
    ``sci_mode``: scientific notation always (True), never (False), or depending on the magnitudes (None).
    """

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


# A context variable: one thread or task does not change the options of another.
_INITIAL: Final = PrintOptions()
_options: ContextVar[PrintOptions] = ContextVar("tenkey_print_options", default=_INITIAL)

_LEAST: Final = {"precision": 0, "threshold": 0, "edgeitems": 1, "linewidth": 1}


def get_printoptions() -> PrintOptions:
    """Return the print options of this thread and asyncio task.

    >>> get_printoptions().threshold
    1000
    """
    return _options.get()


def set_printoptions(**options: Any) -> None:
    """Change print options, named as in ``PrintOptions``, for this thread and asyncio task; the others stay.

    Raises TypeError for an unknown option or a wrong type, ValueError for a number out of range.

    >>> before = tk.get_printoptions()
    >>> tk.set_printoptions(precision=2)
    >>> tk.asarray([3.14159])
    tensor([3.14], shape=(1,), dtype=float32, device='cpu')
    >>> tk.set_printoptions(precision=before.precision)
    """
    known = PrintOptions.__match_args__
    checked: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"[set_printoptions] got the option {name!r}: the options are {', '.join(known)}.")
        if name != "sci_mode":
            message = f"[set_printoptions] got {name}={value!r}: it must be an integer of at least {_LEAST[name]}."
            checked[name] = checked_integer(value, message, _LEAST[name])
        elif value is None or isinstance(value, bool):
            checked[name] = value
        else:
            raise TypeError(
                f"[set_printoptions] got sci_mode={value!r}: it must be True (always in scientific notation), False "
                "(never) or None (depending on the magnitudes)."
            )
    _options.set(replaced(_options.get(), **checked))


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[PrintOptions]:
    """Change print options inside a ``with`` block.

    >>> with printoptions(precision=2):
    ...     print(format_tensor(np.array([1 / 3, 2.0]), dtype=np.dtype("float64"), device="cpu"))
    tensor([0.33, 2.  ], shape=(2,), dtype=float64, device='cpu')
    """
    token = _options.set(_options.get())
    try:
        set_printoptions(**options)
        yield _options.get()
    finally:
        _options.reset(token)


# Note [Summaries read only the edges]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# An axis of which NumPy would print the first and last `edgeitems` is cut to these, with one item doubled, so that it
# is still too long and NumPy prints "..." for the double. The text is the same, but everything after the cut
# (converting bfloat16, finding common widths, copying from another device) handles a few hundred elements. For arrays
# not in host memory, only `edge_indices(shape)` are fetched and passed with `shape=`.
# Guarded by test_printing.py::test_summary_is_numpys and ::test_piece_with_shape.


def edge_indices(shape: Sequence[int]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], ...] | None:
    """Return, for each axis, the indices that a summary of a tensor of this shape shows; None if it shows everything.

    >>> [axis.tolist() for axis in edge_indices((2000, 2))]
    [[0, 1, 2, 2, 1997, 1998, 1999], [0, 1]]
    """
    options = _options.get()
    if math.prod(shape) <= options.threshold:
        return None
    edge = options.edgeitems
    return tuple(
        np.arange(size)
        if size <= 2 * edge
        else np.concatenate([np.arange(edge), [edge - 1], np.arange(size - edge, size)])
        for size in shape
    )


def format_tensor(
    values: np.ndarray[Any, Any], *, dtype: dtypes.DType, device: str, extra: str = "",
    shape: Sequence[int] | None = None, name: str = "tensor",
) -> str:  # fmt: skip
    """Return the repr of a tensor with these values; ``name`` precedes them.

    ``values`` has the tensor's shape and is read only where it is shown; ``dtype`` and ``device`` are printed as given,
    followed by ``extra``, such as ``"requires_grad=True"``. If ``shape`` is given, it is the tensor's shape, and
    ``values`` has only the elements at ``edge_indices(shape)``, if these are not None.

    >>> print(format_tensor(np.array([[1, 2], [3, 4]], "float32"), dtype=np.dtype("float32"), device="cpu"))
    tensor([[1., 2.],
            [3., 4.]], shape=(2, 2), dtype=float32, device='cpu')
    """
    options = _options.get()
    prefix = f"{name}("
    values = np.asarray(values)
    full_shape = tuple(values.shape if shape is None else shape)
    edges = edge_indices(full_shape)
    if edges is not None and shape is None:
        values = values[np.ix_(*edges)]
    body = _format_values(values, options, prefix, summarised=edges is not None)
    tail = f"shape={full_shape}, dtype={dtype.name}, device={device!r}"
    if extra:
        tail = f"{tail}, {extra}"
    # The body's first line follows the prefix, later ones carry their own indentation.
    last_line = f"{prefix}{body}".rpartition("\n")[2]
    fits = len(last_line) + len(f", {tail})") <= options.linewidth
    separator = ", " if fits else ",\n" + " " * len(prefix)
    return f"{prefix}{body}{separator}{tail})"


def _format_values(values: np.ndarray[Any, Any], options: PrintOptions, prefix: str, *, summarised: bool) -> str:
    if values.dtype.kind == "V":
        values = values.astype(np.float32)  # bfloat16: NumPy aligns only its own dtypes
    formatter: dict[str, Callable[[Any], str]] | None = None
    if options.sci_mode is not None and values.dtype.kind in "fc":
        formatter = _fixed_format(values, options)
    # NumPy's global options (nanstr, formatter, legacy) do not apply to tensors.
    with np.printoptions(formatter=None, nanstr="nan", infstr="inf", legacy=False):
        return np.array2string(
            values,
            max_line_width=options.linewidth,
            precision=options.precision,
            suppress_small=False,
            separator=", ",
            prefix=prefix,
            threshold=0 if summarised else max(values.size, 1),
            edgeitems=options.edgeitems,
            floatmode="maxprec",
            sign="-",
            formatter=formatter,  # type: ignore[arg-type]  # the stubs list the keys in a TypedDict
        )


def _fixed_format(values: np.ndarray[Any, Any], options: PrintOptions) -> dict[str, Callable[[Any], str]]:
    """Return formatters for ``sci_mode`` True or False, which pad numbers to a common width."""
    code = f".{options.precision}{'e' if options.sci_mode else 'f'}"

    def real(x: Any) -> str:
        return format(float(x), code)

    def complex_(z: Any) -> str:
        return f"{format(float(z.real), code)}{format(float(z.imag), '+' + code)}j"

    one = complex_ if values.dtype.kind == "c" else real
    width = max((len(one(x)) for x in values.flat), default=0)
    key = "complex_kind" if values.dtype.kind == "c" else "float_kind"
    return {key: lambda x: one(x).rjust(width)}
