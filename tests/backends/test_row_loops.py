"""Operators that are sweeps over rows: the compiled templates against references, along any axis, with gradients."""

from __future__ import annotations

import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.backends.cpu.loops.reductions import row_operators
from tenkey.backends.llvm import compiled
from tenkey.core.tree import tree_map
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import registry
from tenkey.ops.declare import Rows
from tests._tiers import Failures, only_full
from tests.operators._extra_references import EXTRA_REFERENCES
from tests.operators._references import reference_of
from tests.operators._table import OPERATORS, named, sampled

Array = np.ndarray[Any, Any]
_SHAPES: Final = [(1, 1), (5, 3), (4, 16), (3, 100), (2, 70_000), (130, 33), (3, 5, 40)]
Arguments = dict[str, Any]


def computed(name: str, *args: Any) -> Any:
    """Compute with the template alone; fail if it declines."""
    operator = registry.find(f"tk::{name}")
    given = [tk.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    found = row_operators._Large(operator, operator.facets["Rows"]).run(*given)
    assert found is not None, "declined"
    return [one.numpy() for one in found] if isinstance(found, tuple) else [found.numpy()]


def _enlarged(operator: Operator, sample: Arguments, shape: tuple[int, ...], axis: Any, dtype: str) -> Arguments:
    """The arguments of a sample for rows in a tensor of another shape, with values near those of the sample."""
    facet: Rows = operator.facets["Rows"]
    rng = np.random.default_rng(zlib.crc32(f"{operator.name} {shape} {axis}".encode()))
    kept = np.zeros(shape).sum(axis, keepdims=bool(sample.get("keepdims"))).shape
    shapes = {"row": shape, "each": kept, "column": (math.prod(shape) // np.zeros(shape).sum(axis).size,)}
    found = {a.name: axis if a.name == "axis" else sample[a.name] for a in operator.schema.arguments}
    for name, role in facet.tensors.items():
        if sample[name] is not None:
            values = rng.choice(sample[name].numpy().reshape(-1), shapes[role])
            shares = rng.uniform(0.5, 1.0, values.shape) if values.dtype.kind == "f" else 1
            found[name] = np.asarray(values * shares, dtype if values.dtype.kind == "f" else None)
    return found


def _cases(operator: Operator, dtype: str) -> Iterator[tuple[tuple[int, ...], Any, Arguments]]:
    """Yield each shape with each axis, and the arguments of one of the samples; others take their turn."""
    bound = [operator.bind(*sample.args, **sample.kwargs) for sample in sampled(operator, dtype)]
    bound = [*{str(tree_map(lambda v: getattr(v, "shape", v), one)): one for one in bound}.values()]
    turn = itertools.cycle(bound)
    axes = dict.fromkeys([-1, 0, *[one["axis"] for one in bound]]) if "axis" in bound[0] else (-1,)
    for shape, axis in itertools.product(_SHAPES, axes):
        yield shape, axis, _enlarged(operator, next(turn), shape, axis, dtype)


def _is_taken(facet: Rows, shape: tuple[int, ...], axis: Any, arguments: Arguments) -> bool:
    """Whether the template computes a call: rows lie together, and sums over rows need rows along the last axis."""
    last = len(shape) - 1
    axes = sorted({i % len(shape) for i in (range(len(shape)) if axis is None else np.atleast_1d(axis).tolist())})
    if axes[-1] - axes[0] != len(axes) - 1 or ("column" in facet.results.values() and axes[-1] != last):
        return False
    return facet.accepts is None or facet.accepts(*[arguments[name] for name in facet.tensors])


def _call(function: Callable[..., Any], operator: Operator, arguments: Arguments) -> Any:
    only = [a.name for a in operator.schema.arguments if a.kwarg_only]
    args = [value for name, value in arguments.items() if name not in only]
    return function(*args, **{name: arguments[name] for name in only})


@pytest.mark.parametrize("dtype", only_full(["float32", "float64"], ["float32"]))
@named([op for op in OPERATORS if "Rows" in op.facets])
def test_sweeps_of_every_operator(operator: Operator, dtype: str) -> None:
    """Samples have a dozen elements, which the composition computes: here the rows are long enough for the sweeps."""
    reference = reference_of(operator)
    assert reference is not None
    failures = Failures()
    eps = float(np.finfo(dtype).eps)
    taken = 0
    for shape, axis, arguments in _cases(operator, dtype):
        if not _is_taken(operator.facets["Rows"], shape, axis, arguments):
            continue
        taken += 1
        with failures.of(f"{shape} axis={axis}"):
            wide = {k: v.astype(float) if getattr(v, "dtype", None) == dtype else v for k, v in arguments.items()}
            wide |= {k: v for k, v in operator.facets["Rows"].defaults.items() if wide[k] is None}
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):  # variance of one element
                expected = _call(reference, operator, wide)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for got, want in zip(computed(operator.schema.base_name, *arguments.values()), expected, strict=True):
                assert got.shape == np.shape(want)
                largest = np.max(np.abs(want), initial=1, where=np.isfinite(want))
                np.testing.assert_allclose(got, want, rtol=100 * eps, atol=300 * eps * largest)
    failures.check()
    assert taken > len(_SHAPES) // 2


def test_infinities_and_nan() -> None:
    row = np.zeros((4, 40), np.float32)
    row[0] = -np.inf
    row[1, 3] = np.inf
    row[2, 5] = np.nan
    expected = [-np.inf, np.inf, np.nan, np.log(40)]
    np.testing.assert_allclose(computed("logsumexp", row, 1, False)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(computed("logsumexp", np.ascontiguousarray(row.T), 0, False)[0], expected, rtol=1e-6)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(computed("softmax", row, 1)[0], scipy.special.softmax(row, 1), rtol=1e-6)


def test_log_softmax_of_infinities_is_that_of_softmax() -> None:
    """It is the logarithm of ``softmax``, whose row is NaN if its largest element is infinite; so it is in PyTorch."""
    for few in ([np.inf, 0.0], [np.inf, np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 0.0, 1.0], [np.nan, 1.0]):
        for n in (1, 400):  # by the composition and by the template
            for axis in (0, 1):
                row = np.array(few * n, np.float32)
                x = row[:, None] if axis == 0 else row[None]
                with np.errstate(all="ignore"):
                    shares = np.exp(row - row.max())
                    expected = np.log(shares / shares.sum())
                assert np.isnan(expected).all() == (not np.isfinite(row.max())), few
                got = tk.log_softmax(tk.asarray(x), axis=axis).numpy().reshape(-1)
                np.testing.assert_allclose(got, expected, rtol=1e-5, err_msg=f"{few} {n} {axis}")


def test_log_softmax_far_from_zero() -> None:
    x = (1e5 + np.random.default_rng(9).integers(0, 8, (3, 700)) / 8).astype(np.float32)
    expected = scipy.special.log_softmax(x.astype(float), 1)
    np.testing.assert_allclose(computed("log_softmax", x, 1)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(
        tk.log_softmax(tk.asarray(x[:, :5])).numpy(), scipy.special.log_softmax(x[:, :5], 1), 1e-6
    )


def test_several_axes_and_a_long_row() -> None:
    x = np.random.default_rng(1).standard_normal((3, 200, 300))
    np.testing.assert_allclose(computed("var", x, None, 0.0, False)[0], x.var(), rtol=1e-12)
    np.testing.assert_allclose(computed("var", x, (1, 2), 0.0, True)[0], x.var((1, 2), keepdims=True), rtol=1e-12)
    expected = scipy.special.logsumexp(x, (0, 1))
    np.testing.assert_allclose(computed("logsumexp", x, (0, 1), False)[0], expected, rtol=1e-12)


def test_variances_of_numbers_far_from_zero() -> None:
    x = (1e4 + np.random.default_rng(2).standard_normal((3, 5000))).astype(np.float32)
    np.testing.assert_allclose(computed("var", x, 1, 0.0, False)[0], x.astype(float).var(1), rtol=1e-4)


def test_the_operators_use_the_template_and_differentiate(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[str] = set()
    inner = row_operators._Large._planned  # is called for the first call of a shape

    def counted(self: Any, *values: Any) -> Any:
        taken.add(self._name)
        return inner(self, *values)

    monkeypatch.setattr(row_operators._Large, "_planned", counted)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((43, 50))
    target = rng.integers(0, 50, 43)
    functions: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda t: tk.sum(tk.softmax(t) ** 2),
        "log_softmax": lambda t: tk.sum(tk.log_softmax(t) ** 2),
        "logsumexp": lambda t: tk.sum(tk.logsumexp(t, axis=1) ** 2),
        "var": lambda t: tk.sum(tk.var(t, axis=1) ** 2),
        "layer_norm": lambda t: tk.sum(tk.layer_norm(t, tk.asarray(x[0]), tk.asarray(x[1])) ** 3),
        "cross_entropy": lambda t: tk.cross_entropy(t, tk.asarray(target)),
    }
    direction = rng.standard_normal(x.shape)
    step = 1e-6
    for name, function in functions.items():
        given = tk.tensor(x, requires_grad=True)
        function(given).backward()
        slope = float((given.grad.numpy() * direction).sum())
        found = [function(tk.asarray(x + sign * step * direction)).item() for sign in (1, -1)]
        assert slope == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-6, abs=1e-8), name
        _, tangent = tk.jvp(function, (tk.asarray(x),), (tk.asarray(direction),))
        assert tangent.item() == pytest.approx(slope, rel=1e-9, abs=1e-12), name
        each = tk.vmap(lambda row, f=function: f(row[None]))(tk.asarray(x)) if name != "cross_entropy" else None
        if each is not None:
            np.testing.assert_allclose(each.numpy()[7], function(tk.asarray(x[7:8])).item(), rtol=1e-12)
    assert taken >= {
        "softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "logsumexp", "logsumexp_backward", "var",
        "var_backward", "layer_norm", "layer_norm_backward", "row_cross_entropy", "row_cross_entropy_backward",
    }  # fmt: skip


def test_second_derivatives() -> None:
    x = tk.tensor(np.random.default_rng(4).standard_normal((3, 4)), requires_grad=True)
    assert tk.autograd.gradcheck(lambda t: tk.layer_norm(t, axis=0), (x,))
    assert tk.autograd.gradgradcheck(lambda t: tk.layer_norm(t), (x,))
    assert tk.autograd.gradgradcheck(lambda t: tk.cross_entropy(t, tk.asarray([0, 3, 1])), (x,))


def test_all_gradients_of_layer_norm_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that are computed one by one, with several operands of the same kind, and differentiable."""
    passes: list[str] = []
    inner = row_operators._Large._planned  # is called for the first call of a shape

    def counted(self: Any, *values: Any) -> Any:
        passes.append(self._name)
        return inner(self, *values)

    monkeypatch.setattr(row_operators._Large, "_planned", counted)
    rng = np.random.default_rng(8)
    given = [rng.standard_normal(shape) for shape in ((307, 71), (71,), (71,), (307, 71))]
    operands = [tk.tensor(a, requires_grad=True) for a in given[:3]]
    g = tk.asarray(given[3])
    out = tk.layer_norm(*operands)
    passes.clear()
    together = tk.autograd.grad(out, operands, g, retain_graph=True)
    assert passes == ["layer_norm_all_backward"]
    alone = []
    for a in operands:
        out = tk.layer_norm(*[b if b is a else b.detach() for b in operands])
        alone += tk.autograd.grad(out, a, g)
    expected = EXTRA_REFERENCES["layer_norm_all_backward"](given[3], *given[:2], -1, 1e-5)
    for found, one, wanted in zip(together, alone, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-9, atol=1e-10)
    few = [tk.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((3, 4), (4,), (4,))]
    assert tk.autograd.gradcheck(tk.layer_norm, few)
    assert tk.autograd.gradgradcheck(tk.layer_norm, few)


def test_classes_out_of_range() -> None:
    logits = tk.zeros((40, 50))
    few = tk.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    for bad in (50, 1000, -1, -100):
        for dtype in (tk.int64, tk.int8, tk.uint8) if abs(bad) < 128 else (tk.int64,):
            target = tk.asarray([bad % 256 if dtype == tk.uint8 else bad], dtype=dtype)
            with pytest.raises(IndexError, match=r"not in \[0, 50\)"):
                tk.cross_entropy(logits, tk.broadcast_to(target, (40,)))
            with pytest.raises(IndexError, match=r"not in \[0, 3\)"):  # by the composition
                tk.cross_entropy(few, target)
    many = tk.zeros((2, 300))
    assert tk.cross_entropy(many, tk.asarray([3, 0], dtype=tk.int8)).item() == pytest.approx(np.log(300))


def test_layer_norm_of_half_precision() -> None:
    """The squares of the deviations are beyond float16."""
    rng = np.random.default_rng(7)
    for shape in ((2, 10), (40, 200)):
        values, slopes = (rng.standard_normal(shape) * 300).astype(np.float16), rng.standard_normal(shape)
        x = tk.tensor(values, requires_grad=True)
        weight = tk.tensor(np.ones(shape[1], np.float16), requires_grad=True)
        out = tk.layer_norm(x, weight)
        wide = values.astype(float)
        expected = EXTRA_REFERENCES["layer_norm"](wide)
        assert out.dtype == tk.float16
        np.testing.assert_allclose(out.detach().numpy(), expected, rtol=2e-3, atol=2e-3)
        by_x, by_weight = tk.autograd.grad(tk.sum(out * tk.asarray(slopes)), [x, weight])
        assert (by_x.dtype, by_weight.dtype) == (tk.float16, tk.float16)
        wanted = EXTRA_REFERENCES["layer_norm_backward"](slopes, wide, np.ones(shape[1]), -1, 1e-5)
        np.testing.assert_allclose(by_x.numpy(), wanted, rtol=2e-3, atol=2e-5)
        np.testing.assert_allclose(by_weight.numpy(), np.sum(slopes * expected, 0), rtol=5e-3, atol=5e-2)


def test_rows_without_elements() -> None:
    for axis, shape in ((-1, (3, 0)), (0, (0, 3)), (-1, (0, 3))):
        for name in ("softmax", "log_softmax", "layer_norm"):
            x = tk.zeros(shape).requires_grad_()
            out = getattr(tk, name)(x, axis=axis)
            assert (out.shape, tk.autograd.grad(tk.sum(out), x)[0].shape) == (shape, shape), name


def test_no_axes() -> None:
    for shape in ((3,), (40, 50)):
        x = np.random.default_rng(7).standard_normal(shape)
        for name, expected in (("var", 0 * x), ("std", 0 * x), ("logsumexp", x)):
            found = getattr(tk, name)(tk.asarray(x), axis=())
            np.testing.assert_array_equal(found.numpy(), expected, err_msg=name)


def test_a_weight_that_is_not_a_vector() -> None:
    for n in (3, 500):
        with pytest.raises(ValueError, match="must be a vector"):
            tk.layer_norm(tk.ones((40, n)), tk.ones((1, n)))


def test_without_compiled_code_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    monkeypatch.setattr(compiled, "_codes", {})
    monkeypatch.setattr(compiled, "_functions", {})
    for name in ("softmax", "sum", "argmax", "cumulative_sum"):
        for facet in ("Rows", "Reduce", "ArgReduce", "Scan"):
            found = registry.find(f"tk::{name}").facets.get(facet)
            for field in ("programs", "kernels"):
                if hasattr(found, field):
                    monkeypatch.setattr(found, field, {})
    x = np.random.default_rng(6).standard_normal((100, 120))
    t = tk.asarray(x)
    np.testing.assert_allclose(tk.softmax(t).numpy(), scipy.special.softmax(x, -1), rtol=1e-12)
    np.testing.assert_allclose(tk.sum(t, axis=1).numpy(), x.sum(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(tk.argmax(t, axis=0).numpy(), x.argmax(0))
    np.testing.assert_allclose(tk.cumulative_sum(t, axis=0).numpy(), x.cumsum(0), rtol=1e-9, atol=1e-12)
