"""The faults that ``python -m tools.fault_injection`` applies, each a one-line edit that the fast tier must notice.

They are plausible mistakes that no mutant of ``tools.mutation`` resembles: wrong formulas, wrong precedence, missing
synchronization, the wrong one of two variables, and changes in generated code. ``old`` occurs once in the file at
``path``, and ``new`` takes its place. ``tests/package/test_fault_injection.py`` checks the list. When a change of the
package removes a text of the list, break the code that took its place instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FAULTS", "Fault"]

_VALUES: Final = "tests/operators/test_reference.py::test_values_dtype_and_shape"
_GRADIENTS: Final = "tests/operators/test_gradients.py::test_first_derivative"


class Fault(NamedTuple):
    """An edit that breaks something, and the tests that must fail with it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest, files or single tests without ``-k``, so that those of many faults fit into one run."""


FAULTS: Final = (
    Fault(
        "dispatch: the oldest registration wins",
        "tenkey/dispatch/table.py",
        "for kernel in reversed([*stack]) if kernel.when is None",
        "for kernel in [*stack] if kernel.when is None",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: the first backend wins",
        "tenkey/dispatch/keys.py",
        "backend = next(reversed(backends_in(mask)), None)",
        "backend = next(iter(backends_in(mask)), None)",
        ("tests/tiny/test_keys.py",),
    ),
    Fault(
        "dispatch: inclusion wins over exclusion",
        "tenkey/dispatch/calling/bindings.py",
        "$word = ($word | $local.include) & $local.keep",
        "$word = ($word & $local.keep) | $local.include",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: a superclass is asked before its subclass",
        "tenkey/dispatch/subclasses.py",
        "if issubclass(kind, other)), len(found))",
        "if issubclass(other, kind)), len(found))",
        ("tests/dispatch/test_subclass.py",),
    ),
    Fault(
        "dispatch: a guard that ends early takes later ones along",
        "tenkey/dispatch/local_state.py",
        "_changes.set(kept)",
        "_changes.set(changes[:i])",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "core: a Python float widens to float64",
        "tenkey/core/dtypes/promotion.py",
        "defaults.integral, defaults.real_floating, defaults.complex_floating",
        "defaults.integral, dtypes.float64, defaults.complex_floating",
        ("tests/core/test_promotion.py",),
    ),
    Fault(
        "core: bfloat16 is exported as uint16",
        "tenkey/core/exchange/dlpack.py",
        "inside(capsule).dtype.code = _BFLOAT",
        "inside(capsule).dtype.code = _UNSIGNED",
        ("tests/core/test_dlpack.py", "tests/core/test_bfloat16.py"),
    ),
    Fault(
        "cpu: a compiled draw begins with the first element of a block",
        "tenkey/backends/cpu/loops/random_draws.py",
        "at = group * size - skip * parts",
        "at = group * size",
        ("tests/backends/test_random_loops.py",),
    ),
    Fault(
        "cpu: the two zeros have different keys",
        "tenkey/backends/cpu/loops/row_sorts.py",
        "bits = bitcast(select(value == 0.0, 0.0, value), U)",
        "bits = bitcast(value, U)",
        ("tests/backends/test_sorting_loops.py",),
    ),
    Fault(
        "cpu: log1p of complex numbers near zero",
        "tenkey/backends/cpu/programs/complex_functions.py",
        "0.5 * np.log1p(x * (2 + x) + y * y)",
        "0.5 * np.log1p(x * (2 + x))",
        (f"{_VALUES}[log1p]", "tests/ops/test_complex_expressions.py"),
    ),
    Fault(
        "cpu: memory is given back while views use it",
        "tenkey/backends/allocation/host.py",
        "return np.ndarray(shape, dtype, memory, -start % _LINE)",
        "return np.frombuffer(block if nbytes >= REUSED else memory.tobytes(), dtype, prod(shape)).reshape(shape)",
        ("tests/backends/test_cpu_memory.py",),
    ),
    Fault(
        "ops: the power rule",
        "tenkey/ops/scalar/differentiation.py",
        "slope = _multiply(y, _power(x, _subtract(y, _ONE)))",
        "slope = _multiply(y, _power(x, y))",
        (f"{_GRADIENTS}[pow]",),
    ),
    Fault(
        "ops: fmod has the sign of the divisor",
        "tenkey/ops/builtin/elementwise/arithmetic.py",
        "signed = s.where(x1 < 0, -size, size)",
        "signed = s.where(x2 < 0, -size, size)",
        ("tests/operators/test_reference.py::test_special_values[fmod]",),
    ),
    Fault(
        "ops: isclose compares with the first operand",
        "tenkey/ops/builtin/elementwise/closeness.py",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x2)",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x1)",
        (f"{_VALUES}[isclose]", "tests/interop/test_beyond_the_standard.py"),
    ),
    Fault(
        "ops: the mean of a part divides by the size of the whole",
        "tenkey/ops/builtin/reductions/reduction.py",
        "is not _ndarray else x.size // total.size",
        "is not _ndarray else x.size",
        (f"{_VALUES}[mean]",),
    ),
    Fault(
        "ops: softmax without the product with its sum",
        "tenkey/ops/builtin/nn.py",
        "return shares * (g - sum(g * shares, axis=axis, keepdims=True))",
        "return shares * (g - sum(g, axis=axis, keepdims=True))",
        (f"{_GRADIENTS}[softmax]",),
    ),
    Fault(
        "ops: the gradient of equal indices is not divided among ties",
        "tenkey/ops/builtin/indexing/scatter.py",
        "found = index(divide(g, count), indices)",
        "found = index(g, indices)",
        ("tests/ops/test_assignment.py",),
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
        (f"{_GRADIENTS}[linalg_inv]",),
    ),
    Fault(
        "ops: the gradient of the Cholesky factor",
        "tenkey/ops/builtin/linalg/solve.py",
        "inner = half_lower(matmul(adjoint(out), g))",
        "inner = matmul(adjoint(out), g)",
        (f"{_GRADIENTS}[linalg_cholesky]",),
    ),
    Fault(
        "ops: the gradient of fft has the scale of fft",
        "tenkey/ops/builtin/numeric/fft.py",
        '{"backward": "forward", "forward": "backward", "ortho": "ortho"}',
        '{"backward": "backward", "forward": "forward", "ortho": "ortho"}',
        (f"{_GRADIENTS}[fft_fft]",),
    ),
    Fault(
        "ops: autocast computes a norm in half precision",
        "tenkey/ops/builtin/linalg/norms.py",
        'autocast="float32"',
        "autocast=None",
        ("tests/ops/test_autocast.py",),
    ),
    Fault(
        "ops: an index of several tensors wraps into the next row on a device",
        "tenkey/ops/builtin/indexing/places.py",
        "scalar.where(i < n, place * n + i, -1)",
        "place * n + i",
        ("tests/backends/test_indexing_on_devices.py::test_an_index_that_does_not_fit",),
    ),
    Fault(
        "ops: NaN has no place behind the numbers in a binary search",
        "tenkey/ops/builtin/sorting/insertion.py",
        "s.where(s.isnan(x2), ~s.isnan(x1), x1 < x2)",
        "x1 < x2",
        ("tests/operators/test_decompositions.py::test_special_values",),
    ),
    Fault(
        "external: a cached buffer serves any queue",
        "tenkey/backends/allocation/cached_buffers.py",
        "_Place(device, self._backend.current_stream(device), size_class(nbytes))",
        "_Place(device, None, size_class(nbytes))",
        ("tests/backends/test_backend_memory.py",),
    ),
    Fault(
        "autograd: an input saved as it is has any version",
        "tenkey/autograd/saved_tensors/saved.py",
        "saved.tensor, saved.version = value, 0",
        "saved.tensor, saved.version = value, version_of(value)",
        ("tests/autograd/test_saved_tensors.py",),
    ),
    Fault(
        "autograd: the second gradient replaces the first",
        "tenkey/autograd/engine/engine.py",
        "buffer[1] = sums[word ^ REQUIRES_GRAD](held, grad, buffer[3])",
        "buffer[1] = grad",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: an input that is given twice has one gradient",
        "tenkey/autograd/engine/graph_task.py",
        "captures.setdefault(edge, []).append(position)",
        "captures[edge] = [position]",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: a change of a view leaves its gradient to the base",
        "tenkey/autograd/views/tracking.py",
        "None if base[0] is None else self.window.without(g),",
        "None if base[0] is None else g,",
        ("tests/autograd/views/test_views.py",),
    ),
    Fault(
        "autograd: a backward records itself",
        "tenkey/dispatch/local_state.py",
        "self.silent = LocalState(self.include, self.exclude | REQUIRES_GRAD, self.modes, self.values)",
        "self.silent = LocalState(self.include, self.exclude, self.modes, self.values)",
        ("tests/tiny/test_dispatch.py", "tests/autograd/engine/test_autograd.py"),
    ),
    Fault(
        "autograd: the gradient of a holomorphic function is not conjugated",
        "tenkey/autograd/formulas/partials.py",
        "result = conj(product(conj(g), *values))",
        "result = product(g, *values)",
        (f"{_GRADIENTS}[exp]",),
    ),
    Fault(
        "autograd: an infinite derivative times a zero gradient is nan",
        "tenkey/autograd/formulas/partials.py",
        "product = where(isfinite(derivative), product, where(direction == 0, 0, product))",
        "product = direction * derivative",
        ("tests/autograd/test_autograd_operators.py", "tests/autograd/forward_ad/test_jvp_formulas.py"),
    ),
    Fault(
        "autograd: ties of a maximum all get the whole gradient",
        "tenkey/autograd/formulas/reductions.py",
        "return where(chosen, restore_axes(g, shape, axis, keepdims) / count, 0.0)",
        "return where(chosen, restore_axes(g, shape, axis, keepdims), 0.0)",
        ("tests/autograd/test_reduction_gradients.py", "tests/autograd/test_autograd_operators.py"),
    ),
    Fault(
        "vmap: a reduction takes the batch for an axis",
        "tenkey/transforms/batching/rules.py",
        'level.front(bound["x"]), tuple([i + 1 for i in axes])',
        'level.front(bound["x"]), tuple(axes)',
        ("tests/operators/test_vmap.py::test_every_operator_against_a_loop[sum]",),
    ),
    Fault(
        "vmap: samples draw the same numbers",
        "tenkey/transforms/batching/randomness.py",
        'streams = [_mixed(bound["stream"], b) for b',
        'streams = [_mixed(bound["stream"], 0) for b',
        ("tests/transforms/test_vmap.py",),
    ),
    Fault(
        "transforms: jvp of a result without a tangent is its value",
        "tenkey/transforms/forward.py",
        "parts.append((primal, zeros_like(primal) if tangent is None else tangent))",
        "parts.append((primal, primal if tangent is None else tangent))",
        ("tests/transforms/test_transform_programs.py", "tests/transforms/test_derivatives.py"),
    ),
    Fault(
        "interop: np.arctan2 of tensors is the hypotenuse",
        "tenkey/interop/numpy_names.py",
        '"arctan2": "atan2", "arctanh": "atanh", "around"',
        '"arctan2": "hypot", "arctanh": "atanh", "around"',
        ("tests/interop/test_numpy_functions.py", "tests/functions/test_asarray.py"),
    ),
    Fault(
        "cuda rows: a running sum of exponentials is not scaled when a larger element appears",
        "tenkey/backends/cuda/kernels/sweeps/sweep_source.py",
        'f"{own[1]} = {own[1]} * {self.power(own[0], top)} + {other[1]} * {self.power(other[0], top)}",',
        'f"{own[1]} = {own[1]} + {other[1]} * {self.power(other[0], top)}",',
        ("tests/backends/cuda/kernels/sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda kernels: a block reads the totals of warps that are not there yet",
        "tenkey/backends/cuda/kernels/scan.py",
        'tile += ["cuda.syncthreads()", *write.at("load", "whole", "shared", "0")',
        'tile += [*write.at("load", "whole", "shared", "0")',
        ("tests/backends/cuda/kernels/test_scan.py",),
    ),
    Fault(
        "cuda kernels: the best places of warps are read before they are stored",
        "tenkey/backends/cuda/kernels/arg_reduction.py",
        '"cuda.syncthreads()", "lane = cuda.threadIdx.x"]',
        '"lane = cuda.threadIdx.x"]',
        ("tests/backends/cuda/kernels/test_arg_reduction.py",),
    ),
    Fault(
        "cuda kernels: threads claim a place without an atomic operation",
        "tenkey/backends/cuda/kernels/scatter.py",
        '"claim": ["atomic_maximum(out, to, uint32(j))"]',
        '"claim": ["out[to] = uint32(j)"]',
        ("tests/backends/cuda/kernels/test_scatter.py",),
    ),
    Fault(
        "cuda compiling: kernels of one architecture are found for another",
        "tenkey/backends/cuda/compiling/kernel_files.py",
        'return f"cuda {kind} {cc[0]}.{cc[1]} {source.__class__.__name__} {tuple(source)!r}"',
        'return f"cuda {kind} {source.__class__.__name__} {tuple(source)!r}"',
        ("tests/backends/cuda/compiling/test_kernel_files.py",),
    ),
    Fault(
        "cuda streams: an event is recorded in the current stream instead of the one that was given",
        "tenkey/backends/cuda/device/streams.py",
        "where = current_stream(self.device) if stream is None else stream",
        "where = current_stream(self.device)",
        ("tests/backends/cuda/device/test_streams.py",),
    ),
    Fault(
        "cuda graphs: a replay computes with the arguments of the capture",
        "tenkey/backends/cuda/device/graphs.py",
        'silently(registry.find("tk::copy_").call, static, x)',
        'silently(registry.find("tk::copy_").call, static, static)',
        ("tests/backends/cuda/device/test_graphs.py",),
    ),
    Fault(
        "plans: a plan is used for memory that overlaps",
        "tenkey/backends/external/runtime/call_plans.py",
        "if window.owner is owner:",
        "if window is owner:",
        ("tests/backends/cuda/device/test_prepared_launches.py",),
    ),
)
