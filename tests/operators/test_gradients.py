"""First and second derivatives of every built-in operator against central differences, by every argument that has one.

Each sample input is checked as it comes: with operands that broadcast, are transposed, have gaps, are empty or 0-d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.backends.cpu.programs.program import Program
from tenkey.core.tensor import Tensor
from tenkey.core.tree import flatten
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput
from tests._tiers import each
from tests.operators._table import INPLACE, SAMPLED, arrays, calls, chosen, named, sampled

_KNOWN = {
    "nonzero_rows", "unravel_rows", "ravel_multi_index",
    "argmax", "argmin", "all", "any", "isnan", "isfinite", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_not", "empty_like", "zeros_like", "ones_like", "full_like",
}  # fmt: skip
_NO_GRADIENT = _KNOWN | {op.schema.base_name for op in SAMPLED if "NotDifferentiable" in op.facets}
_DIFFERENTIABLE = [
    op for op in SAMPLED if op.schema.base_name not in _NO_GRADIENT | {"to_device"} and not op.schema.is_mutable
]


@pytest.fixture(scope="module", autouse=True)
def _no_switch_to_compiled_code() -> Iterator[None]:
    """gradcheck compares two equal calls bit by bit: a program that is compiled between them differs by a rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "count", lambda program, size: None)
        yield


def _floating(sample: SampleInput) -> list[Tensor]:
    return [t for t in sample.tensors() if t.dtype.kind in "fc"]


def _as_function(operator: Operator, sample: SampleInput) -> tuple[Callable[..., Any], list[Tensor]]:
    """The call as a function of its floating tensors, which require a gradient."""
    inputs = [t.detach().requires_grad_() for t in _floating(sample)]
    probe = operator.facets["SampleInputs"].gradcheck_wrapper if "SampleInputs" in operator.facets else None

    def function(*given: Tensor) -> Any:
        remaining = iter(given)
        moved = sample.map(lambda t: next(remaining) if t.dtype.kind in "fc" else t)
        return calls(operator, moved) if probe is None else probe(operator.call, *moved.args, **moved.kwargs)

    return function, inputs


def test_the_lists_are_those_of_the_declarations() -> None:
    declared = {op.schema.base_name for op in SAMPLED if "NotDifferentiable" in op.facets}
    assert declared >= {name for name in _KNOWN if not name.endswith("_like")}
    assert not declared & {"add", "exp", "sum", "floor", "where", "matmul"}
    assert len(_DIFFERENTIABLE) > 50


@pytest.mark.wider
@each("dtype", ["float64", "complex128"])
@named(_DIFFERENTIABLE)
def test_first_derivative(operator: Operator, dtype: str) -> None:
    for sample in chosen(operator, dtype, half=0):  # the other half in test_forward_mode.py
        function, inputs = _as_function(operator, sample)
        if _can_be_moved(sample):
            assert gradcheck(function, inputs), sample


@pytest.mark.full
@each("dtype", ["float64", "complex128"])
@named(_DIFFERENTIABLE)
def test_second_derivative(operator: Operator, dtype: str) -> None:
    for sample in sampled(operator, dtype):
        function, inputs = _as_function(operator, sample)
        if _can_be_moved(sample):
            assert gradgradcheck(function, inputs, fast_mode=True, projections=1), sample  # of hundreds of samples


def _can_be_moved(sample: SampleInput) -> bool:
    """Whether central differences can be taken: in double precision throughout."""
    given = [value for value in (*sample.args, *sample.kwargs.values()) if isinstance(value, np.dtype)]
    return all(dtype.name in ("float64", "complex128") for dtype in given)


@each("dtype", ["float32", "float64"])
@named(_DIFFERENTIABLE)
def test_gradients_have_the_shape_and_dtype_of_their_input(operator: Operator, dtype: str) -> None:
    for sample in sampled(operator, dtype):
        function, inputs = _as_function(operator, sample)
        out = function(*inputs)
        outs = [t for t in flatten(out) if t.dtype.kind in "fc"]
        assert all(t.requires_grad for t in outs), sample
        found = tk.autograd.grad(outs, inputs, [t.detach().clone() for t in outs], allow_unused=True)
        if operator.schema.base_name == "expand_as":  # of the second it takes the shape only
            inputs, found = inputs[:1], found[:1]
        assert [g is not None and (g.shape, g.dtype) for g in found] == [(x.shape, x.dtype) for x in inputs], sample


@named([op for op in SAMPLED if op.schema.base_name in _NO_GRADIENT and not op.schema.is_mutable])
def test_results_without_a_gradient(operator: Operator) -> None:
    for sample in sampled(operator, "float64"):
        function, inputs = _as_function(operator, sample)
        for out in flatten(function(*inputs)):
            assert not out.requires_grad
            assert out.grad_fn is None


@pytest.mark.parametrize("mixed", [("float32", "float64"), ("float64", "complex128")])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow", "where", "matmul"])
def test_gradients_keep_the_dtype_of_mixed_inputs(name: str, mixed: tuple[str, str]) -> None:
    values = np.array([[0.7, 1.2], [0.5, 2.0]])
    x1, x2 = (tk.tensor(values, dtype=dtype, requires_grad=True) for dtype in mixed)
    before = (tk.asarray([True, False]),) if name == "where" else ()
    out = getattr(tk, name)(*before, x1, x2)
    found = tk.autograd.grad(out, (x1, x2), tk.ones_like(out))
    assert [g is not None and g.dtype for g in found] == [np.dtype(d) for d in mixed]
    if mixed[0] == "float64":  # a real input of a complex result
        assert gradcheck(lambda a, b: getattr(tk, name)(*before, a, b), (x1, x2))
        assert gradgradcheck(lambda a, b: getattr(tk, name)(*before, a, b), (x1, x2))


# ---- in place: the gradient of the functional form


def _inplace_function(operator: Operator) -> Callable[..., Any]:
    # on a copy: a leaf that requires a gradient cannot be changed in place
    return lambda x, *rest: operator.call(x.clone(), *rest)


_KEEPING = {"add_", "subtract_", "divide_", "exp_", "negative_", "relu_", "sigmoid_", "sqrt_", "tanh_", "copy_"}


@named([op for op in INPLACE if op.schema.base_name in _KEEPING])
def test_inplace_gradients(operator: Operator) -> None:
    for sample in sampled(operator, "float64"):
        if sample.tensors()[0].size:
            inputs = [t.detach().requires_grad_() for t in sample.tensors()]
            assert gradcheck(_inplace_function(operator), inputs), sample


def _is_refused(function: Callable[..., Any], inputs: list[Tensor]) -> bool:
    """Whether a formula needs the values that were overwritten, and says so."""
    out = function(*inputs)
    try:
        tk.autograd.grad(out, inputs, out.detach().clone(), allow_unused=True)
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            return True
        raise
    return False


@each("dtype", ["float64", "complex128"])
@named([op for op in INPLACE if "Put" not in op.facets])
def test_inplace_gradients_are_right_or_refused(operator: Operator, dtype: str) -> None:
    for sample in sampled(operator, dtype):
        if sample.tensors()[0].size:
            inputs = [t.detach().requires_grad_() for t in sample.tensors()]
            function = _inplace_function(operator)
            if _is_refused(function, inputs):
                continue
            assert gradcheck(function, inputs), sample


@named(INPLACE)
def test_inplace_on_a_leaf_is_refused(operator: Operator) -> None:
    for sample in sampled(operator, "float64"):
        leaf = sample.tensors()[0].requires_grad_()
        before = arrays(sample).args[0]
        with pytest.raises(RuntimeError, match=r"in-place|mutates its argument") as error:
            calls(operator, sample)
        assert ("index_put" if "Put" in operator.facets else operator.schema.base_name) in str(error.value)
        assert "no_grad" in str(error.value)
        np.testing.assert_array_equal(leaf.detach().numpy(), before)
        assert leaf._version == 0


# ---- conventions: ties, steps, the branch that was not chosen


def _gradient(function: Callable[..., Tensor], *values: Any) -> list[Any]:
    inputs = [tk.tensor(v, dtype="float64", requires_grad=True) for v in values]
    out = function(*inputs)
    return [None if g is None else g.tolist() for g in tk.autograd.grad(out, inputs, tk.ones_like(out))]


def test_ties_share_the_gradient() -> None:
    assert _gradient(tk.maximum, [1.0, 2.0], [1.0, 1.0]) == [[0.5, 1.0], [0.5, 0.0]]
    assert _gradient(tk.minimum, [1.0, 2.0], [1.0, 1.0]) == [[0.5, 0.0], [0.5, 1.0]]
    assert _gradient(tk.max, [[2.0, 2.0], [1.0, 0.0]]) == [[[0.5, 0.5], [0.0, 0.0]]]
    assert _gradient(lambda x: tk.min(x, axis=1), [[2.0, 2.0], [1.0, 0.0]]) == [[[0.5, 0.5], [0.0, 1.0]]]


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "sign"])
def test_steps_keep_the_graph_with_a_zero_gradient(name: str) -> None:
    assert _gradient(getattr(tk, name), [0.3, -2.0, 1.5]) == [[0.0, 0.0, 0.0]]


def test_kinks() -> None:
    assert _gradient(tk.abs, [-1.0, 0.0, 1.0]) == [[-1.0, 0.0, 1.0]]
    assert _gradient(tk.relu, [-1.0, 0.0, 1.0]) == [[0.0, 0.0, 1.0]]


def test_where_passes_the_gradient_to_the_selected_side_only() -> None:
    x1, x2 = (tk.tensor([v, v], requires_grad=True) for v in (1.0, 2.0))
    out = tk.where(tk.asarray([True, False]), x1, x2)
    found = tk.autograd.grad(out, (x1, x2), tk.asarray([float("nan"), float("inf")]))
    np.testing.assert_array_equal([None if g is None else g.tolist() for g in found], [[np.nan, 0.0], [0.0, np.inf]])


def test_a_nan_of_the_other_branch_does_not_leak() -> None:
    found = _gradient(lambda x: tk.where(x > 0, tk.log(x), 0.0), [0.0, 2.0])
    assert found == [[0.0, 0.5]]


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
def test_product_with_zeros(values: list[float]) -> None:
    expected = [float(np.prod([v for j, v in enumerate(values) if j != i])) for i in range(len(values))]
    assert _gradient(tk.prod, values) == [expected]
    leaf = tk.tensor(values, dtype="float64", requires_grad=True)
    assert gradgradcheck(tk.prod, (leaf,))


def test_pow_at_zero() -> None:
    assert _gradient(tk.pow, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0])[0] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_gradients_without_overflow(name: str) -> None:
    (found,) = _gradient(lambda x: getattr(tk, name)(x, axis=-1), [1000.0, 999.0, -1000.0])
    assert np.isfinite(found).all()
