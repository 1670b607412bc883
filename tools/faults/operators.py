"""Faults of the operators."""

from __future__ import annotations

from typing import Final

from .fault import Fault, gradients, sweep, values

__all__ = ["OPERATORS"]

OPERATORS: Final = (
    Fault(
        "ops: the derivative of the square root",
        "tenkey/ops/scalar/differentiation.py",
        "_HALF: Final = constant(0.5)",
        "_HALF: Final = constant(0.25)",
        gradients("sqrt", "rsqrt"),
    ),
    Fault(
        "ops: the quotient rule",
        "tenkey/ops/scalar/differentiation.py",
        "return _divide(_subtract(dx, _multiply(node, dy)), y)",
        "return _divide(_add(dx, _multiply(node, dy)), y)",
        (*gradients("softsign"), "tests/ops/test_scalar.py"),
    ),
    Fault(
        "ops: the power rule",
        "tenkey/ops/scalar/differentiation.py",
        "slope = _multiply(y, _power(x, _subtract(y, _ONE)))",
        "slope = _multiply(y, _power(x, y))",
        gradients("pow"),
    ),
    Fault(
        "ops: the gradient of relu6 above its limit",
        "tenkey/ops/builtin/elementwise/activations.py",
        "partials=lambda x: (x > 0) & (x < 6)",
        "partials=lambda x: x > 0",
        ("tests/ops/test_activations.py",),
    ),
    Fault(
        "ops: fmod has the sign of the divisor",
        "tenkey/ops/builtin/elementwise/arithmetic.py",
        "signed = s.where(x1 < 0, -size, size)",
        "signed = s.where(x2 < 0, -size, size)",
        sweep("test_reference.py::test_special_values", "fmod"),
    ),
    Fault(
        "ops: isclose compares with the first operand",
        "tenkey/ops/builtin/elementwise/closeness.py",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x2)",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x1)",
        (*values("isclose"), "tests/interop/test_beyond_the_standard.py"),
    ),
    Fault(
        "ops: the scale of selu",
        "tenkey/ops/builtin/elementwise/activations.py",
        "_SELU_SCALE: Final = 1.0507009873554805",
        "_SELU_SCALE: Final = 1.0507709873554805",
        ("tests/ops/test_activations.py",),
    ),
    Fault(
        "ops: the product of nothing",
        "tenkey/ops/builtin/reductions/reduction.py",
        "    identity=1,",
        "    identity=0,",
        ("tests/backends/test_backend_templates.py",),
    ),
    Fault(
        "ops: the mean of a part divides by the size of the whole",
        "tenkey/ops/builtin/reductions/reduction.py",
        "x.size // total.size",
        "x.size",
        values("mean"),
    ),
    Fault(
        "ops: a reduced axis stays",
        "tenkey/ops/shapes.py",
        "return tuple([n for i, n in enumerate(shape) if i not in axes])",
        "return tuple([n for i, n in enumerate(shape) if i not in axes[1:]])",
        sweep("test_meta.py::test_shape_and_dtype", "sum", "max"),
    ),
    Fault(
        "ops: a negative index selects the element before",
        "tenkey/ops/builtin/shape/views.py",
        "(index + n if index < 0 else index) * strides[i]",
        "(index + n - 1 if index < 0 else index) * strides[i]",
        ("tests/backends/test_external_backend.py", *values("select_index")),
    ),
    Fault(
        "ops: a slice of another slice steps too far",
        "tenkey/ops/builtin/shape/views.py",
        "length = max(0, -(-(last - first) // step))",
        "length = max(0, (last - first) // step)",
        sweep("test_meta.py::test_shape_and_dtype", "slice"),
    ),
    Fault(
        "ops: lengths that differ broadcast",
        "tenkey/ops/shapes.py",
        "sizes = {shape[i] for shape in shapes if len(shape) >= -i} - {1}",
        "sizes = {max(shape[i] for shape in shapes if len(shape) >= -i)} - {1}",
        ("tests/functions/test_dtype_functions.py", "tests/operators/test_errors.py"),
    ),
    Fault(
        "ops: a gradient is not summed over stretched dimensions",
        "tenkey/ops/builtin/shape/views.py",
        "if n == 1 and g.shape[lead + i] != 1])",
        "if n == 1 and g.shape[lead + i] == 1])",
        gradients("broadcast_to", "add"),
    ),
    Fault(
        "ops: softmax without the product with its sum",
        "tenkey/ops/builtin/nn.py",
        "return shares * (g - sum(g * shares, axis=axis, keepdims=True))",
        "return shares * (g - sum(g, axis=axis, keepdims=True))",
        gradients("softmax"),
    ),
    Fault(
        "ops: the gradient of equal indices is not divided among ties",
        "tenkey/ops/builtin/indexing/scatter.py",
        "found = index(divide(g, count), indices)",
        "found = index(g, indices)",
        ("tests/ops/test_assignment.py",),
    ),
    Fault(
        "ops: half of the gradient of take_along_axis",
        "tenkey/ops/builtin/indexing/advanced_indexing.py",
        "return sum_to_shape(scatter_add_zeros(g, spread, wide, i), shape)",
        "return sum_to_shape(scatter_add_zeros(g, spread, wide, i) * 0.5, shape)",
        gradients("take_along_axis"),
    ),
    Fault(
        "ops: equal elements change their order in a descending sort",
        "tenkey/ops/builtin/sorting/sort.py",
        "order = _reversed(_reversed(x, axis).argsort(axis, kind), axis)",
        "order = x.shape[axis] - 1 - _reversed(x.argsort(axis, kind), axis)",
        ("tests/ops/test_sorting.py",),
    ),
    Fault(
        "ops: ties of a sort do not share their gradient",
        "tenkey/ops/builtin/sorting/sort.py",
        "return take_along_axis(mean_of_runs(g, starts, axis), invert_order(order, axis), axis=axis)",
        "return take_along_axis(g, invert_order(order, axis), axis=axis)",
        ("tests/ops/test_sorting.py",),
    ),
    Fault(
        "ops: the gradient of the inverse is not conjugated",
        "tenkey/ops/builtin/linalg/solve.py",
        'vjp={"x": lambda g, out: negative(matmul(matmul(adjoint(out), g), adjoint(out)))},',
        'vjp={"x": lambda g, out: negative(matmul(matmul(adjoint(conj(out)), g), adjoint(out)))},',
        gradients("linalg_inv"),
    ),
    Fault(
        "ops: the gradient of the Cholesky factor",
        "tenkey/ops/builtin/linalg/solve.py",
        "inner = half_lower(matmul(adjoint(out), g))",
        "inner = matmul(adjoint(out), g)",
        gradients("linalg_cholesky"),
    ),
    Fault(
        "ops: the gradient of a complex product of matrices",
        "tenkey/ops/builtin/linalg/matmul.py",
        "return conj(t) if t.dtype.kind ==",
        "return conj(t) if t.dtype.kind !=",
        gradients("matmul"),
    ),
    Fault(
        "ops: the gradient of fft has the scale of fft",
        "tenkey/ops/builtin/numeric/fft.py",
        '{"backward": "forward", "forward": "backward", "ortho": "ortho"}',
        '{"backward": "backward", "forward": "forward", "ortho": "ortho"}',
        gradients("fft_fft"),
    ),
    Fault(
        "ops: a wide result is written into a narrow tensor",
        "tenkey/ops/variants.py",
        "return _RANK[result.kind] <= _RANK[dtype.kind]",
        "return True",
        ("tests/ops/test_variants.py",),
    ),
    Fault(
        "ops: in-place operators write into elements that share their memory",
        "tenkey/ops/variants.py",
        "if 0 in x._data.strides and any(",
        "if False and any(",
        ("tests/operators/test_layouts.py::test_elements_that_share_their_memory_are_not_written",),
    ),
    Fault(
        "ops: autocast computes a norm in half precision",
        "tenkey/ops/autocast.py",
        '"linalg_vector_norm", ',
        "",
        ("tests/ops/test_autocast.py",),
    ),
)
