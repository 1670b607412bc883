"""A check of printers: scalar expressions as source of another language compute what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..ops import scalar as s
from .printer_cases import PrinterCase, cases, conversions, kind_of, limits, numpy_dtype

__all__ = ["PrintedFunction", "PrinterReport", "WrongPrinterError", "WrongResult", "check_printer"]

_ALL: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "float16",
    "bfloat16", "complex64", "complex128",
)  # fmt: skip
_SHOWN: Final = 3
Printer = Callable[..., str]
Runner = Callable[[list["PrintedFunction"]], Sequence[Any]]


class PrintedFunction(NamedTuple):
    """A function to run: ``name`` in ``source``, for the elements of ``arrays``.

    ``parameters`` maps its parameters to dtypes, and ``result`` is the dtype of its value.

    >>> PrintedFunction("f", "float f(float x_) ...", {"x": "float32"}, "float32", [np.zeros(2)]).result
    'float32'
    """

    name: str
    source: str
    parameters: dict[str, str]
    result: str
    arrays: list[np.ndarray]


class WrongResult(NamedTuple):
    """A case that fails: its title, its dtype, and the elements: operands, what was given, what was expected.

    If the printer or ``run`` raised an exception, ``error`` describes it, and ``elements`` is empty.

    >>> WrongResult("maximum on float32", "float32", [((float("nan"), 1.0), 1.0, float("nan"))]).elements[0][1]
    1.0
    """

    title: str
    dtype: str
    elements: list[tuple[tuple[Any, ...], Any, Any]]
    error: str = ""


class PrinterReport(NamedTuple):
    """The number of cases that were checked, and the titles of those that the printer declined.

    >>> PrinterReport(80, ["fma on float32"]).declined
    ['fma on float32']
    """

    checked: int
    declined: list[str]


class WrongPrinterError(AssertionError):
    """Raised for a printer with wrong results; ``wrong`` lists them as `WrongResult`.

    >>> WrongPrinterError("1 of 80 cases is wrong", [WrongResult("add on int8", "int8", [])]).wrong[0].title
    'add on int8'
    """

    def __init__(self, message: str, wrong: list[WrongResult]) -> None:
        super().__init__(message)
        self.wrong = wrong


def check_printer(
    printer: Printer,
    run: Runner,
    *,
    dtypes: Sequence[str] | None = None,
    tolerance: float = 32.0,
    subnormals: bool = True,
) -> PrinterReport:
    """Compare the functions that a printer writes with NumPy, for every operation, special values, and dtypes.

    ``printer(expression, parameters, dtype=, result=, name=)`` returns the source of a function ``name``, as `to_c`
    does; it raises NotImplementedError for what its language cannot express. ``run(functions)`` compiles a list of
    `PrintedFunction` and returns one array of results for each. ``dtypes`` are the compute dtypes (None: all that the
    printer accepts). Results that are not exact may differ by ``tolerance`` units of the dtype's precision. With
    ``subnormals=False``, results are not compared where an operand or the result is subnormal, for devices that replace
    these by zero. Raises WrongPrinterError, which lists all that is wrong.

    >>> from tenkey.library import scalar as s
    >>> def printer(expression, parameters, *, dtype, result, name):
    ...     lines, (value,) = s.Emitter(s.PYTHON).emit([expression], reserved=[name])
    ...     return "\\n".join([f"def {name}({', '.join(parameters)}):", *lines, f"    return {value}"])
    >>> def run(functions):
    ...     from tenkey.ops.scalar import reference
    ...
    ...     results = []
    ...     for f in functions:
    ...         scope = {"math": __import__("math"), "reference": reference}
    ...         exec(f.source, scope)
    ...         rows = zip(*[array.tolist() for array in f.arrays])
    ...         results.append([scope[f.name](*row) for row in rows])
    ...     return results
    >>> check_printer(printer, run, dtypes=["float64"]).checked > 80
    True
    """
    chosen = list(dtypes) if dtypes is not None else [dtype for dtype in _ALL if _has(printer, dtype)]
    wrong: list[WrongResult] = []
    declined: list[str] = [f"all expressions on {dtype}" for dtype in _ALL if dtype not in chosen]
    checked = 0
    for dtype in chosen:
        todo: list[tuple[PrinterCase, PrintedFunction]] = []
        count = len(declined)
        for case in _cases(dtype, chosen):
            name = f"scalar_{len(todo)}"
            try:
                source = printer(case.expression, case.parameters, dtype=case.dtype, result=case.result, name=name)
            except NotImplementedError:
                declined.append(case.title)
                continue
            except Exception as error:
                wrong.append(WrongResult(case.title, dtype, [], f"the printer raised {_described(error)}"))
                continue
            todo.append((case, PrintedFunction(name, source, case.parameters, case.result, case.arrays)))
        if not todo and len(declined) > count:
            wrong.append(WrongResult(f"everything on {dtype}", dtype, [], "the printer declines every expression"))
        for (case, _), given in zip(todo, _results(run, [function for _, function in todo]), strict=True):
            checked += 1
            if isinstance(given, Exception):
                wrong.append(WrongResult(case.title, dtype, [], f"run raised {_described(given)}"))
                continue
            elements = _different(case, given, tolerance, subnormals)
            if isinstance(elements, str) or elements:
                reason, found = (elements, []) if isinstance(elements, str) else ("", elements)
                wrong.append(WrongResult(case.title, dtype, found, reason))
    if not chosen:
        wrong.append(WrongResult("everything", "", [], "the printer declines every dtype"))
    if wrong:
        raise WrongPrinterError(_message(wrong, checked), wrong)
    return PrinterReport(checked, declined)


def _has(printer: Printer, dtype: str) -> bool:
    if dtype == "bfloat16":
        try:
            numpy_dtype(dtype)
        except ImportError:
            return False
    try:
        printer(s.variable("x"), {"x": dtype}, dtype=dtype, result=dtype, name="scalar")
    except NotImplementedError:
        return False
    return True


def _cases(dtype: str, dtypes: Sequence[str]) -> Iterator[PrinterCase]:
    yield from cases(dtype)
    for other in dtypes:
        if other != dtype:
            yield from conversions(other, dtype)
    yield from conversions(dtype, dtype)


def _results(run: Runner, functions: list[PrintedFunction]) -> list[Any]:
    """Run all functions at once; if that fails, run the halves, down to the functions that fail."""
    if not functions:
        return []
    try:
        results = list(run(functions))
    except Exception as error:
        if len(functions) == 1:
            return [error]
    else:
        if len(results) == len(functions):
            return results
        if len(functions) == 1:
            return [TypeError(f"it returned {len(results)} results for one function")]
    half = len(functions) // 2
    return _results(run, functions[:half]) + _results(run, functions[half:])


def _described(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:400]}{'...' if len(text) > 400 else ''}"


def _different(
    case: PrinterCase, given: Any, tolerance: float, subnormals: bool
) -> list[tuple[tuple[Any, ...], Any, Any]] | str:
    expected = case.expected
    dtype = numpy_dtype(case.result)
    with np.errstate(all="ignore"):
        values = np.asarray(given).astype(dtype) if not isinstance(given, np.ndarray) else given
    if values.shape != expected.shape or values.dtype != dtype:
        return f"run returned {values.dtype} of shape {values.shape}, expected {dtype} of shape {expected.shape}"
    kind = kind_of(case.result)
    if kind in ("bool", "integer"):
        same = values == expected
        if kind == "bool":
            same &= np.ascontiguousarray(values).view("uint8") <= 1  # True is the byte 1, and not any other
    else:
        same = _close(case, values, expected, tolerance)
        if not subnormals:
            same |= _is_subnormal(expected, case.result) | _is_subnormal(values, case.result)
    if not subnormals:
        for array, parameter in zip(case.arrays, case.parameters.values(), strict=True):
            same |= _is_subnormal(array, parameter)
    if case.compared is not None:
        same |= ~case.compared
    columns = [array.tolist() for array in case.arrays]
    return [
        (tuple([column[i] for column in columns]), values[i].item(), expected[i].item()) for i in np.flatnonzero(~same)
    ]


def _close(case: PrinterCase, values: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    wide = "complex128" if kind_of(case.result) == "complex" else "float64"
    got, want = values.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        if case.zeros:
            same &= (want != 0) | (np.signbit(got) == np.signbit(want))
        if not case.exact:
            eps, least = _precision(case.result)
            scale = np.maximum(np.abs(want), 1.0) if case.against_one else np.abs(want)
            same |= np.isfinite(want) & (np.abs(got - want) <= tolerance * (eps * scale + least))
    return np.asarray(same)


def _precision(dtype: str) -> tuple[float, float]:
    """Return the spacing at 1, and the smallest subnormal number."""
    _, _, least, after_one = limits("float32" if dtype == "complex64" else dtype)
    return after_one - 1, least


def _is_subnormal(array: np.ndarray, dtype: str) -> np.ndarray:
    if kind_of(dtype) != "float":
        return np.zeros(array.shape, bool)
    eps, least = _precision(dtype)
    wide = np.abs(array.astype("float64"))
    return np.asarray((wide > 0) & (wide < least / eps))


def _message(wrong: list[WrongResult], checked: int) -> str:
    lines = [f"[check_printer] {len(wrong)} of {checked} cases are wrong:"]
    for case in wrong:
        if case.error:
            lines.append(f"  {case.title}: {case.error}")
            continue
        shown = [
            f"{operands} gives {given}, expected {expected}" for operands, given, expected in case.elements[:_SHOWN]
        ]
        more = f" (and {len(case.elements) - _SHOWN} more)" if len(case.elements) > _SHOWN else ""
        lines.append(f"  {case.title}: {'; '.join(shown)}{more}")
    lines.append("The rules are in docs/printers.md.")
    return "\n".join(lines)
