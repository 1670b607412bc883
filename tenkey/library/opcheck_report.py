"""``opcheck`` and its report; the checks themselves are in ``tenkey.testing.checks``.

The checks use all of tenkey, which this layer may not import. The composition root registers where they are, and the
first check of an operator imports them.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..dispatch.errors import TenkeyError
from ..dispatch.registry import registry

__all__ = ["ROWS", "OpCheckError", "OpCheckReport", "Row", "opcheck"]

ROWS: Final = (
    "schema", "fake", "autograd", "gradient", "second order", "forward mode", "vmap", "layout", "zero size",
    "determinism", "threads", "backends",
)  # fmt: skip
_NO_ROW: Final = "[opcheck] there is no row {name!r}: the rows are {rows}."

Status = Literal["passed", "warning", "failed", "skipped"]


class OpCheckError(TenkeyError, RuntimeError):
    """Error for an operator that fails a check; its text is the table of ``report``.

    >>> issubclass(OpCheckError, RuntimeError)
    True
    """

    def __init__(self, report: OpCheckReport) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return str(self.report)


@dataclass(frozen=True)
class Row:
    """Result of one check; ``text`` says what is wrong and what to change, or why the check does not apply.

    A row with the status ``"warning"`` counts as passed: nothing is wrong, but something may have been forgotten.

    >>> Row("fake", "skipped", "no tensor argument").passed
    True
    """

    name: str
    status: Status
    text: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check did not fail; true for a warning, and for a check that does not apply."""
        return self.status != "failed"


@dataclass(frozen=True)
class OpCheckReport:
    """Table of the checks of an operator; ``str(report)`` is its text.

    >>> report = tk.library.opcheck(tk.ops.tk.add, (tk.ones(2), tk.ones(2)))  # doctest: +ELLIPSIS
    opcheck tk::add(Tensor x1, Tensor x2) -> Tensor
      ...
    passed
    >>> report.passed, report.failed
    (True, ())
    """

    title: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether no row failed."""
        return all(row.passed for row in self.rows)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the rows that failed."""
        return tuple([row.name for row in self.rows if not row.passed])

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(_NO_ROW.format(name=name, rows=", ".join(row.name for row in self.rows)))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [f"opcheck {self.title}"]
        words = {"passed": "passed", "warning": "warning", "failed": "FAILED", "skipped": "-"}
        for row in self.rows:
            head = f"  {row.name:<13}{words[row.status]:<8}"
            indent = " " * len(head)
            text = [piece for line in row.text.splitlines() for piece in textwrap.wrap(line, 120 - len(head))]
            lines.append((head + (text[0] if text else "")).rstrip())
            lines += [indent + piece for piece in text[1:]]
        count = len(self.failed)
        lines.append("passed" if not count else f"{count} of {len(self.rows)} checks failed: {', '.join(self.failed)}")
        return "\n".join(lines)


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    raise_exception: bool = True,
    checks: str | Iterable[str] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> OpCheckReport:
    """Check an operator on a sample call, in every way in which it can be used.

    There are twelve checks, each a row of the report: the operator does what its *schema* declares (mutation, aliasing,
    results); the *fake* has the shapes, dtypes and strides of the real run, also for other sizes; *autograd* records
    it; *gradient*, *second order* and *forward mode* agree with finite differences, and *vmap* with a loop; *layout*
    and *zero size* of the inputs, *determinism*, concurrent *threads* and *backends* make no difference.

    Args: op: a custom operator, an operator, a packet, the function of ``tk.library.pointwise``, or a name; args,
    kwargs: one call of it, which is copied and not changed. All floating-point tensors are differentiated, unless some
    of them require a gradient: then only these. raise_exception: raise OpCheckError, whose text is the table, if a row
    failed; otherwise the table is printed. checks: names of the rows to run (default: all). atol, rtol: allowed
    difference between a derivative and its finite difference.

    Returns an OpCheckReport: ``passed``, ``rows``, ``failed``, ``report["fake"].text``. Raises TypeError if ``op`` is
    not an operator or the sample does not fit it.

    >>> @tk.library.custom_op("docs::shift", mutates_args=())
    ... def shift(x: tk.Tensor) -> tk.Tensor:
    ...     x.numpy()[...] += 1
    ...     return x * 2
    >>> report = tk.library.opcheck(shift, (tk.asarray([1.0, 2.0]),), raise_exception=False, checks="schema")
    opcheck docs::shift(Tensor x) -> Tensor
      schema       FAILED  argument 'x' was changed (first at index (0,): 1.0 -> 2.0), which the schema does not say:
                           add it to mutates_args, or work on a copy (x.clone()).
    1 of 1 checks failed: schema
    >>> tk.library.opcheck(tk.exp, (tk.asarray([0.5, 1.0]),), checks=("fake", "gradient")).passed
    opcheck tk::exp(Tensor x) -> Tensor
      fake         passed
      gradient     passed
    passed
    True
    """
    wanted = ROWS if checks is None else (checks,) if isinstance(checks, str) else tuple(checks)
    for name in wanted:
        if name not in ROWS:
            raise ValueError(_NO_ROW.format(name=name, rows=", ".join(ROWS)))
    report: OpCheckReport = registry.hooks.load_checks()(op, args, kwargs, wanted, atol, rtol)
    if raise_exception and not report.passed:
        raise OpCheckError(report)
    sys.stdout.write(f"{report}\n")
    return report
