"""``opcheck`` of operators whose arguments and results are records, dicts and other structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tenkey as tk
from tenkey.core.tensor import Tensor
from tests._opcheck import X, Y, report_of, sample


@dataclass
class _Layer:
    weight: Tensor
    bias: Tensor
    scale: float = 2.0


class _Both(NamedTuple):
    product: Tensor
    total: Tensor


def test_records_are_arguments_and_results() -> None:
    @tk.library.custom_op("right::layer", mutates_args=())
    def layer(p: _Layer, x: Tensor) -> _Both:
        return _Both(x * p.weight * p.scale, x + p.bias)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[0].scale
        ctx.save_for_backward(inputs[0].weight, inputs[1])

    def right(ctx: Any, g: Tensor, h: Tensor) -> Any:
        weight, x = ctx.saved_tensors
        return _Layer(g * x * ctx.scale, h, None), g * weight * ctx.scale + h  # type: ignore[arg-type]

    def wrong(ctx: Any, g: Tensor, h: Tensor) -> Any:
        gradient, x = right(ctx, g, h)
        return _Layer(gradient.weight, gradient.bias * 2, None), x  # type: ignore[arg-type]

    args = (_Layer(sample(3, 4, shift=0.2), Y), X)
    layer.register_autograd(right, setup_context=setup_context)
    report = report_of(layer, *args)
    assert report.passed, str(report)
    assert report["second order"].status == "passed"
    layer.register_autograd(wrong, setup_context=setup_context)
    report = report_of(layer, *args)
    assert report.failed == ("gradient",)
    assert "'p.bias'" in report["gradient"].text


def test_dicts_are_arguments_and_results() -> None:
    @tk.library.custom_op("right::double", mutates_args=())
    def double(values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value * 2 for name, value in values.items()}

    @tk.library.custom_op("wrong::first", mutates_args=())
    def first(values: dict[str, Tensor]) -> Tensor:
        values["a"].numpy()[...] = 0
        return values["a"] + 1

    report = report_of(double, {"a": X, "b": Y})
    assert report.passed, str(report)
    report = report_of(first, {"a": X.clone(), "b": Y})
    assert report.failed == ("schema",)
    assert "argument 'values['a']' was changed" in report["schema"].text
