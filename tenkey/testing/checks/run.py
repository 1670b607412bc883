"""Run the checks in order, and separate a mistake from its consequences.

Note [One mistake, one row]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
Most mistakes disturb several checks: an operator that changes its argument cannot agree with finite differences. The
report should show the cause. A row that fails is therefore "not judged" if a row that it depends on has failed. Rows
run in the order of these dependencies and are printed in the order of the table. Guarded by
``tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone`` and
``::test_a_row_is_not_judged_while_one_below_it_fails``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...dispatch.tags import Tag
from ...library.opcheck_report import ROWS, OpCheckReport, Row
from .concurrency import check_threads
from .contract import BaseCallFailure, check_fake, check_schema
from .derivative_rows import Derivatives
from .sample import Failure, Sample, Skipped, Warned, described, operator_of
from .variations import check_backends, check_determinism, check_layout, check_zero_size
from .vmap import check_vmap

__all__ = ["run_checks", "surroundings"]

surroundings: Final[list[Callable[[], AbstractContextManager[Any]]]] = []
"""What the checks run within: an emulator watches kernels for races meanwhile."""

_VALUES: Final = ("schema", "determinism")
_BUILDS_UPON: Final[dict[str, tuple[str, ...]]] = {
    "schema": (),
    "determinism": ("schema",),
    "fake": ("schema",),
    "autograd": _VALUES,
    "gradient": (*_VALUES, "autograd"),
    "second order": (*_VALUES, "autograd", "gradient"),
    "forward mode": (*_VALUES, "autograd", "gradient", "second order"),  # which may be derived from backward
    "layout": _VALUES,
    "zero size": ("schema", "fake"),
    "threads": _VALUES,
    "vmap": (*_VALUES, "layout"),  # a loop takes slices of its arguments
    "backends": _VALUES,
}
"""The rows in the order in which they run, each with the rows that it depends on."""

_NOT_JUDGED: Final = "not judged while {rows} {fail}"


def run_checks(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None,
    wanted: Sequence[str],
    atol: float | None,
    rtol: float | None,
) -> OpCheckReport:
    """Run the ``wanted`` checks and those that they depend on; see :func:`tenkey.library.opcheck`."""
    listed = args if isinstance(args, (tuple, list)) else ()
    operator, call = operator_of(op, listed, kwargs if isinstance(kwargs, dict) else {})
    generator = tk.random.default_generator()
    state = generator.get_state()
    rows: dict[str, Row] = {}
    try:
        with ExitStack() as stack, warnings.catch_warnings(), np.errstate(all="ignore"), tk.enable_grad():
            for surrounding in surroundings:
                stack.enter_context(surrounding())
            warnings.simplefilter("ignore")  # kernels may warn about samples that the user did not choose
            sample = Sample(operator, call, args, kwargs)
            derivatives = Derivatives(sample, atol, rtol)
            checks: dict[str, Callable[[], str | None]] = {
                "schema": lambda: check_schema(sample),
                "determinism": lambda: check_determinism(sample),
                "fake": lambda: check_fake(sample),
                "autograd": derivatives.autograd,
                "gradient": derivatives.gradient,
                "second order": derivatives.second_order,
                "forward mode": derivatives.forward,
                "vmap": lambda: check_vmap(sample),
                "layout": lambda: check_layout(sample, derivatives),
                "zero size": lambda: check_zero_size(sample, derivatives),
                "threads": lambda: check_threads(sample),
                "backends": lambda: check_backends(sample),
            }
            needed = _closure(wanted)
            random = Tag.NONDETERMINISTIC in operator.tags
            for name, below in _BUILDS_UPON.items():
                if name not in needed:
                    continue
                row = _row(name, sample, checks[name], [rows[b] for b in below if b in rows], random=random)
                if name == "determinism":
                    random = random and row.status == "skipped"  # otherwise the seed is fixed
                if row.status == "failed" and not isinstance(row, _Fatal):
                    row = _judged(row, [rows[b] for b in below])
                rows[name] = row
    finally:
        generator.set_state(state)
    return OpCheckReport(str(operator.schema), tuple([rows[name] for name in ROWS if name in wanted]))


def _closure(wanted: Sequence[str]) -> set[str]:
    return {name for row in wanted for name in (row, *_BUILDS_UPON[row])} | (
        {"autograd", "determinism"} if {"layout", "zero size"} & set(wanted) else set()
    )


def _row(name: str, sample: Sample, check: Callable[[], str | None], below: list[Row], *, random: bool) -> Row:
    if any(isinstance(row, _Fatal) for row in below):
        return _Fatal(name, "skipped", _NOT_JUDGED.format(rows="'schema'", fail="fails"))
    if random and "determinism" in _BUILDS_UPON[name]:
        return Row(name, "skipped", "tagged nondeterministic: two calls cannot be compared")
    try:
        note = check()
        sample.wait()
    except Skipped as reason:
        return Row(name, "warning" if isinstance(reason, Warned) else "skipped", str(reason))
    except BaseCallFailure as failure:
        return _Fatal(name, "failed", str(failure))
    except Failure as failure:
        text = str(failure)
    except Exception as error:
        text = (
            f"the call raises {described(error)} in this check, but not by itself. Correct the operator's kernel for "
            "such a call."
        )
    else:
        return Row(name, "passed", note or "")
    return Row(name, "failed", text)


def _judged(row: Row, below: list[Row]) -> Row:
    """Return the failed row, or a skipped one if a row that it depends on has failed."""
    failed = [f"'{other.name}'" for other in below if not other.passed]
    if not failed:
        return row
    rows = " and ".join(failed)
    return Row(row.name, "skipped", _NOT_JUDGED.format(rows=rows, fail="fails" if len(failed) == 1 else "fail"))


class _Fatal(Row):
    """A row after which no other check can run."""
