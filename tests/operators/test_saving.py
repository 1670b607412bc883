"""Every differentiable operator saves through hooks, and a checkpoint computes it again to the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import checkpoint, checkpoint_policies
from tenkey.autograd.graph import saved_tensors_hooks
from tenkey.backends.cpu.programs.program import Program
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tests._tiers import each, tier
from tests.operators._table import chosen, named
from tests.operators.test_gradients import _DIFFERENTIABLE, _as_function

_RECORDED = [op for op in _DIFFERENTIABLE if op.name != "tk::accumulate"]  # the engine's own, where nothing is recorded


@pytest.fixture(scope="module", autouse=True)
def _no_switch_to_compiled_code() -> Iterator[None]:
    """Two equal calls are compared bit by bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "count", lambda program, size: None)
        yield


def _gradients(function: Any, inputs: list[Tensor], *, twice: bool) -> list[Any]:
    """First derivatives of the results, and derivatives of these, by all inputs."""
    found = function(*inputs)
    ends = [t for t in (found if isinstance(found, (list, tuple)) else [found]) if t.requires_grad]
    if not ends:
        return []
    options: Any = {"allow_unused": True, "create_graph": twice}
    first = tk.autograd.grad(ends, inputs, [tk.cos(t.detach()) for t in ends], **options)
    again = [t for t in first if t is not None and t.requires_grad]
    second = tk.autograd.grad(again, inputs, [tk.ones_like(t) for t in again], allow_unused=True) if again else ()
    return [None if t is None else t.detach().numpy() for t in (*first, *second)]


@pytest.mark.wider
@each("dtype", ["float64", "complex128"])
@named(_RECORDED)
def test_gradients_are_the_same(operator: Operator, dtype: str) -> None:
    for sample in itertools.islice(chosen(operator, dtype), tier(2, None)):  # by any sample the same is saved
        function, inputs = _as_function(operator, sample)
        if not inputs:
            continue

        def hooked(*given: Tensor, function: Any = function) -> Any:
            with saved_tensors_hooks(lambda t: (t.detach().numpy().copy(), t.dtype), lambda p: tk.asarray(p[0])):
                return function(*given)

        def selective(*given: Tensor, function: Any = function) -> Any:
            return checkpoint(function, *given, context_fn=checkpoint_policies.save_everything)

        def again(*given: Tensor, function: Any = function) -> Any:
            return checkpoint(function, *given)

        twice = dtype == "float64"  # what is saved for a second order does not ask for the dtype
        plain = _gradients(function, inputs, twice=twice)
        for other in (hooked, again, selective):
            found = _gradients(other, inputs, twice=twice)
            assert len(found) == len(plain)
            for got, wanted in zip(found, plain, strict=True):
                assert (got is None) == (wanted is None)
                if got is None:
                    continue
                if other is hooked:  # what it unpacks lies in another order in memory, which products round differently
                    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12, err_msg=str(sample))
                else:
                    np.testing.assert_array_equal(got, wanted, err_msg=f"{other.__name__}: {sample}")
