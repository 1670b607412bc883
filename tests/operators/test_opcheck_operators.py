"""``opcheck`` of built-in operators on their own samples: of one of each kind, and with ``--full`` of every one."""

from __future__ import annotations

from typing import Any

from tenkey.dispatch.operator import Operator
from tenkey.library import opcheck
from tenkey.library.opcheck_report import ROWS
from tests._opcheck import report_of
from tests.operators._table import FACTORIES, KINDS, SAMPLED, is_probed, named, sampled

_SLOW_SAMPLES = 3  # of each operator
_ALL = list(ROWS)
# Many calls of four threads take longer than the other rows together, and show the same for each sample of an operator.
_FAST = [*KINDS, *[op for op in SAMPLED if op.schema.base_name in ("add", "exp", "matmul", "sort", "take_along_axis")]]
_REST = [row for row in ROWS if row != "threads"]


# the samples of to_device go to "meta"; opcheck does not know what has a derivative only as a probe
@named([op for op in SAMPLED if op.name != "tk::to_device" and not is_probed(op)], fast=_FAST)
def test_the_built_in_operators_pass(operator: Operator) -> None:
    samples = next(filter(None, ([*sampled(operator, dtype)] for dtype in ("float32", "bool", "int64"))))
    made = [one for one in samples if one.name not in ("transposed", "strided", "repeated")]
    chosen = made[:: max(1, len(made) // _SLOW_SAMPLES)][:_SLOW_SAMPLES]
    assert chosen
    for one in chosen:
        checks = _ALL if one is chosen[0] else _REST
        report = opcheck(operator, one.args, one.kwargs, raise_exception=False, checks=checks)
        assert report.passed, (one, str(report))


@named([op for op in FACTORIES if op.schema.base_name in ("zeros", "ones", "full", "eye", "linspace", "arange")])
def test_factories_pass(operator: Operator) -> None:
    args: dict[str, tuple[Any, ...]] = {"full": ((2, 3), 1.5), "eye": (3,), "linspace": (0, 1, 5), "arange": (5,)}
    assert report_of(operator, *args.get(operator.schema.base_name, ((2, 3),)))["fake"].status == "passed"
