"""The faults that ``python -m tools.fault_injection`` applies, each a one-line edit that the fast tier must notice.

``old`` occurs once in the file at ``path``, and ``new`` takes its place. ``tests`` are arguments of pytest, files or
single tests without ``-k``, so that those of many faults fit into one run. ``tests/package/test_fault_injection.py``
checks the list. When a change of the package removes a text of the list, break the code that took its place instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """An edit that breaks something, and the tests that must fail with it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def _values(*operators: str) -> tuple[str, ...]:
    return _sweep("test_reference.py::test_values_dtype_and_shape", *operators)


def _gradients(*operators: str) -> tuple[str, ...]:
    return _sweep("test_gradients.py::test_first_derivative", *operators)


def _vmap(*operators: str) -> tuple[str, ...]:
    return _sweep("test_vmap.py::test_every_operator_against_a_loop", *operators)


def _sweep(test: str, *operators: str) -> tuple[str, ...]:
    return tuple([f"tests/operators/{test}[{name}]" for name in operators])


_DISPATCH: Final = (
    Fault(
        "dispatch: a generated kernel beats an explicit one",
        "tenkey/dispatch/table.py",
        'kernel.origin != "explicit"',
        'kernel.origin == "explicit"',
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: the oldest registration wins",
        "tenkey/dispatch/table.py",
        "for kernel in reversed([*stack]) if kernel.when is None",
        "for kernel in [*stack] if kernel.when is None",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: an implicit composite serves autograd beside a backend's kernel",
        "tenkey/dispatch/table.py",
        "if is_backend or not has_own:",
        "if True:",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: priorities of conditional kernels are turned round",
        "tenkey/dispatch/table.py",
        "key=lambda kernel: -kernel.priority",
        "key=lambda kernel: kernel.priority",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: a fallthrough kernel is called",
        "tenkey/dispatch/table.py",
        "return kernel.is_fallthrough or bool(",
        "return bool(",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: tensors of two devices are mixed",
        "tenkey/dispatch/diagnostics/missing_kernel.py",
        "if len(present) > 1 else ()",
        "if len(present) > 2 else ()",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: the first backend wins",
        "tenkey/dispatch/keys.py",
        "backend = next(reversed(backends_in(mask)), None)",
        "backend = next(iter(backends_in(mask)), None)",
        ("tests/tiny/test_keys.py",),
    ),
    Fault(
        "dispatch: a key is registered on the other side of its anchor",
        "tenkey/dispatch/keys.py",
        "order.index(wanted) + (before is None)",
        "order.index(wanted) + (after is None)",
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
        "dispatch: exclusion does not last",
        "tenkey/dispatch/local_state.py",
        "exclude |= self.exclude & ~unexclude",
        "exclude |= self.exclude & unexclude",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: a guard that ends early takes later ones along",
        "tenkey/dispatch/local_state.py",
        "_changes.set(kept)",
        "_changes.set(changes[:i])",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: an interrupt after its change leaves a guard on",
        "tenkey/dispatch/local_state.py",
        "_changes.set(changes)",
        "pass",
        ("tests/dispatch/test_interrupts.py",),
    ),
    Fault(
        "dispatch: an interrupt in the end of a guard leaves it on",
        "tenkey/dispatch/local_state.py",
        "if _changes.get() is not kept:",
        "if False:",
        ("tests/dispatch/test_interrupts.py",),
    ),
    Fault(
        "dispatch: an int prefers float to Scalar",
        "tenkey/dispatch/calling/overloads.py",
        'int: {"int": 0, "Scalar": 1, "float": 2,',
        'int: {"int": 0, "Scalar": 2, "float": 1,',
        ("tests/tiny/test_overloads.py",),
    ),
    Fault(
        "dispatch: of two overloads the one with more defaults is called",
        "tenkey/dispatch/calling/overloads.py",
        "return one[1] < other[1]",
        "return one[1] > other[1]",
        ("tests/tiny/test_overloads.py",),
    ),
    Fault(
        "dispatch: a superclass is asked before its subclass",
        "tenkey/dispatch/subclasses.py",
        "if issubclass(kind, other)), len(found))",
        "if issubclass(other, kind)), len(found))",
        ("tests/dispatch/test_subclass.py",),
    ),
    Fault(
        "dispatch: a generated kernel keeps an explicit one out",
        "tenkey/dispatch/registry.py",
        "k.key is kernel.key and k.origin == kernel.origin",
        "k.key is kernel.key",
        ("tests/tiny/test_registry.py",),
    ),
    Fault(
        "schema: a default may precede an argument without one",
        "tenkey/dispatch/schema/parser.py",
        "if not (kwarg_only or has_default) and arguments and arguments[-1].has_default:",
        "if False:",
        ("tests/tiny/test_schema.py",),
    ),
    Fault(
        "schema: arguments after the star are positional",
        "tenkey/dispatch/schema/parser.py",
        "arguments.append(Argument(name, type_, default, has_default, kwarg_only, alias))",
        "arguments.append(Argument(name, type_, default, has_default, False, alias))",
        ("tests/tiny/test_schema.py",),
    ),
)

_CORE: Final = (
    Fault(
        "core: an unsigned and a signed integer keep the width",
        "tenkey/core/dtypes/promotion.py",
        "size = max(signed, 2 * unsigned)",
        "size = max(signed, unsigned)",
        ("tests/core/test_promotion.py",),
    ),
    Fault(
        "core: a Python float widens to float64",
        "tenkey/core/dtypes/promotion.py",
        "defaults.integral, defaults.real_floating, defaults.complex_floating",
        "defaults.integral, dtypes.float64, defaults.complex_floating",
        ("tests/core/test_promotion.py",),
    ),
    Fault(
        "core: a gap before the last dimension is contiguous",
        "tenkey/core/storage.py",
        "if size != 1 and stride != expected:",
        "if size != 1 and stride < expected:",
        ("tests/operators/test_layouts.py", "tests/tiny/test_tensor.py"),
    ),
    Fault(
        "core: a multiplier of Philox",
        "tenkey/core/random/philox.py",
        "np.array([[0xD2511F53], [0xCD9E8D57]]",
        "np.array([[0xD2511F55], [0xCD9E8D57]]",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "core: the increment of the key of a few Philox blocks",
        "tenkey/core/random/philox.py",
        "(k0 + 0x9E3779B9)",
        "(k0 + 0x9E3779B8)",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "core: the numbers of a normal draw have variance 2",
        "tenkey/core/random/draws.py",
        "np.sqrt(-2.0 * _log(positive))",
        "np.sqrt(-4.0 * _log(positive))",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "core: integers of a tensor take a Python int that does not fit",
        "tenkey/core/lift.py",
        "if not low <= value <= high:",
        "if not low <= value:",
        ("tests/tiny/test_tensor.py",),
    ),
    Fault(
        "core: a zero of a Python float loses its sign",
        "tenkey/core/lift.py",
        "return _ZERO if copysign(1.0, value.real) > 0.0 else _NEGATIVE_ZERO",
        "return _ZERO",
        ("tests/ops/test_shorter_ways.py",),
    ),
    Fault(
        "core: bfloat16 is exported as uint16",
        "tenkey/core/exchange/dlpack.py",
        "_inside(capsule).dtype.code = _BFLOAT",
        "_inside(capsule).dtype.code = _UNSIGNED",
        ("tests/core/test_dlpack.py", "tests/core/test_bfloat16.py"),
    ),
    Fault(
        "core: a tensor that requires a gradient is exported",
        "tenkey/core/exchange/dlpack.py",
        "if tensor._word & REQUIRES_GRAD & current_state().keep:",
        "if False:",
        ("tests/core/test_dlpack.py",),
    ),
    Fault(
        "core: half of the edge is printed",
        "tenkey/core/text/formatting.py",
        "if size <= 2 * edge",
        "if size <= edge",
        ("tests/core/test_printing.py",),
    ),
    Fault(
        "core: the values of a dict are not leaves",
        "tenkey/core/tree.py",
        "        return tree.values()",
        "        return None",
        ("tests/core/test_tree.py",),
    ),
)

_OPERATORS: Final = (
    Fault(
        "ops: the derivative of the square root",
        "tenkey/ops/scalar/differentiation.py",
        "_HALF: Final = constant(0.5)",
        "_HALF: Final = constant(0.25)",
        _gradients("sqrt", "rsqrt"),
    ),
    Fault(
        "ops: the quotient rule",
        "tenkey/ops/scalar/differentiation.py",
        "return _divide(_subtract(dx, _multiply(node, dy)), y)",
        "return _divide(_add(dx, _multiply(node, dy)), y)",
        (*_gradients("softsign"), "tests/ops/test_scalar.py"),
    ),
    Fault(
        "ops: the power rule",
        "tenkey/ops/scalar/differentiation.py",
        "slope = _multiply(y, _power(x, _subtract(y, _ONE)))",
        "slope = _multiply(y, _power(x, y))",
        _gradients("pow"),
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
        _sweep("test_reference.py::test_special_values", "fmod"),
    ),
    Fault(
        "ops: isclose compares with the first operand",
        "tenkey/ops/builtin/elementwise/closeness.py",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x2)",
        "near = s.abs(x1 - x2) <= atol + rtol * s.abs(x1)",
        (*_values("isclose"), "tests/interop/test_beyond_the_standard.py"),
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
        _values("mean"),
    ),
    Fault(
        "ops: a reduced axis stays",
        "tenkey/ops/shapes.py",
        "return tuple([n for i, n in enumerate(shape) if i not in axes])",
        "return tuple([n for i, n in enumerate(shape) if i not in axes[1:]])",
        _sweep("test_meta.py::test_shape_and_dtype", "sum", "max"),
    ),
    Fault(
        "ops: a negative index selects the element before",
        "tenkey/ops/builtin/shape/views.py",
        "(index + n if index < 0 else index) * strides[i]",
        "(index + n - 1 if index < 0 else index) * strides[i]",
        ("tests/backends/test_external_backend.py", *_values("select_index")),
    ),
    Fault(
        "ops: a slice of another slice steps too far",
        "tenkey/ops/builtin/shape/views.py",
        "length = max(0, -(-(last - first) // step))",
        "length = max(0, (last - first) // step)",
        _sweep("test_meta.py::test_shape_and_dtype", "slice"),
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
        _gradients("broadcast_to", "add"),
    ),
    Fault(
        "ops: softmax without the product with its sum",
        "tenkey/ops/builtin/nn.py",
        "return shares * (g - sum(g * shares, axis=axis, keepdims=True))",
        "return shares * (g - sum(g, axis=axis, keepdims=True))",
        _gradients("softmax"),
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
        _gradients("take_along_axis"),
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
        _gradients("linalg_inv"),
    ),
    Fault(
        "ops: the gradient of the Cholesky factor",
        "tenkey/ops/builtin/linalg/solve.py",
        "inner = half_lower(matmul(adjoint(out), g))",
        "inner = matmul(adjoint(out), g)",
        _gradients("linalg_cholesky"),
    ),
    Fault(
        "ops: the gradient of a complex product of matrices",
        "tenkey/ops/builtin/linalg/matmul.py",
        "return conj(t) if t.dtype.kind ==",
        "return conj(t) if t.dtype.kind !=",
        _gradients("matmul"),
    ),
    Fault(
        "ops: the gradient of fft has the scale of fft",
        "tenkey/ops/builtin/numeric/fft.py",
        '{"backward": "forward", "forward": "backward", "ortho": "ortho"}',
        '{"backward": "backward", "forward": "forward", "ortho": "ortho"}',
        _gradients("fft_fft"),
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

_BACKENDS: Final = (
    Fault(
        "libm: a coefficient of exp",
        "tenkey/backends/libm/exponentials.py",
        "(0.5000000000000011, 0.166666666666664,",
        "(0.5000000000000011, 0.166666666666674,",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "libm: the reduction of angles",
        "tenkey/backends/libm/angles.py",
        "_PI_2_SECOND = each(-4.371139e-08, 6.123233995736766e-17)",
        "_PI_2_SECOND = each(-4.371139e-08, 6.123233995736766e-16)",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "libm: cosh lacks the falling exponential",
        "tenkey/backends/libm/exponentials.py",
        "return half + QUARTER / half",
        "return half + HALF / half",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "cpu: log1p of complex numbers near zero",
        "tenkey/backends/cpu/complex_functions.py",
        "0.5 * np.log1p(x * (2 + x) + y * y)",
        "0.5 * np.log1p(x * (2 + x))",
        (*_values("log1p"), "tests/ops/test_complex_expressions.py"),
    ),
    Fault(
        "cpu: the last piece of a large call is left out",
        "tenkey/backends/cpu/threads.py",
        "count = -(-length // piece)",
        "count = max(1, length // piece)",
        ("tests/backends/test_cpu_threads.py",),
    ),
    Fault(
        "cpu: the share of a worker overlaps the caller's",
        "tenkey/backends/cpu/threads.py",
        "start = own + (index - 1) * share",
        "start = own + index * share",
        ("tests/backends/test_cpu_threads.py",),
    ),
    Fault(
        "meta: pointwise operators do not promote",
        "tenkey/backends/meta.py",
        "*[t.shape for t in tensors]), dtype)",
        "*[t.shape for t in tensors]), compute)",
        _sweep("test_meta.py::test_shape_and_dtype", "equal", "isnan"),
    ),
    Fault(
        "external: the fallback does not write back",
        "tenkey/backends/external/fallback.py",
        "host.write_back(tensors_in(value))",
        "tensors_in(value)",
        ("tests/backends/test_external_backend.py",),
    ),
    Fault(
        "external: the fallback counts no call",
        "tenkey/backends/external/fallback.py",
        "calls[operator.name] += 1",
        "calls[operator.name] += 0",
        ("tests/backends/test_external_backend.py",),
    ),
    Fault(
        "external: the parts of a concatenation overlap",
        "tenkey/backends/external/derived.py",
        "start += x.shape[axis]",
        "start += 1",
        ("tests/backends/test_backend_templates.py",),
    ),
)

_AUTOGRAD: Final = (
    Fault(
        "autograd: the second gradient replaces the first",
        "tenkey/autograd/engine/engine.py",
        "buffer[1] = sums[word ^ REQUIRES_GRAD](held, grad, buffer[3])",
        "buffer[1] = grad",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: nodes run in the order of their calls",
        "tenkey/autograd/engine/engine.py",
        "heappush(heap, (-next_node.sequence_nr, order, buffer))",
        "heappush(heap, (next_node.sequence_nr, order, buffer))",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: the graph is freed although it is retained",
        "tenkey/autograd/engine/engine.py",
        "release = not task.keep_graph",
        "release = True",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: hooks run in the order opposite to their registration",
        "tenkey/autograd/engine/hook_calls.py",
        "for hook in tuple(own.values()):",
        "for hook in reversed(own.values()):",
        ("tests/autograd/test_hooks.py",),
    ),
    Fault(
        "autograd: what a hook returns is ignored",
        "tenkey/autograd/engine/hook_calls.py",
        "grads[nr] = _checked(node, hook, nr, hook(grad), grad)",
        "_checked(node, hook, nr, hook(grad), grad)",
        ("tests/autograd/test_hooks.py",),
    ),
    Fault(
        "autograd: an input that is given twice has one gradient",
        "tenkey/autograd/engine/graph_task.py",
        "captures.setdefault(edge, []).append(position)",
        "captures[edge] = [position]",
        ("tests/autograd/engine/test_autograd.py",),
    ),
    Fault(
        "autograd: half of a gradient that is larger than its input",
        "tenkey/autograd/engine/input_buffer.py",
        "summed = sum_(grad, tuple(axes), keepdims=True)",
        "summed = sum_(grad, tuple(axes), keepdims=True) * 0.5",
        ("tests/autograd/engine/test_autograd_errors.py", "tests/autograd/test_autograd_operators.py"),
    ),
    Fault(
        "autograd: a saved input that was changed is used",
        "tenkey/autograd/saved_tensors/saved.py",
        "if tensor._storage is not None and version_of(tensor) != self.version:",
        "if False:",
        ("tests/autograd/views/test_inplace.py",),
    ),
    Fault(
        "autograd: a saved output that was changed is used",
        "tenkey/autograd/saved_tensors/saved.py",
        "if self.storage.version != self.version:",
        "if self.storage.version < self.version:",
        ("tests/autograd/views/test_inplace.py",),
    ),
    Fault(
        "autograd: a change of a view leaves its gradient to the base",
        "tenkey/autograd/views/tracking.py",
        "None if base[0] is None else self.window.without(g),",
        "None if base[0] is None else g,",
        ("tests/autograd/views/test_views.py",),
    ),
    Fault(
        "autograd: a view of a leaf is changed in place",
        "tenkey/autograd/views/tracking.py",
        "root_is_leaf = meta is None or meta.node is None",
        "root_is_leaf = False",
        ("tests/autograd/views/test_inplace.py",),
    ),
    Fault(
        "autograd: enable_grad keeps recording off",
        "tenkey/autograd/grad_mode.py",
        '_change: Any = {"unexclude": REQUIRES_GRAD}',
        '_change: Any = {"exclude": REQUIRES_GRAD}',
        ("tests/autograd/test_grad_mode.py",),
    ),
    Fault(
        "autograd: a backward records itself",
        "tenkey/dispatch/local_state.py",
        "self.silent = LocalState(self.include, self.exclude | REQUIRES_GRAD, self.modes, self.values)",
        "self.silent = LocalState(self.include, self.exclude, self.modes, self.values)",
        ("tests/tiny/test_dispatch.py", "tests/autograd/engine/test_autograd.py"),
    ),
    Fault(
        "autograd: the tangent of a linear operator drops terms",
        "tenkey/autograd/formulas/gradients.py",
        "total = term if total is None else total + term",
        "total = term",
        _sweep("test_forward_mode.py::test_forward_mode_and_second_derivatives", "matmul"),
    ),
    Fault(
        "autograd: the gradient of a holomorphic function is not conjugated",
        "tenkey/autograd/formulas/partials.py",
        "result = conj(product(conj(g), *values))",
        "result = product(g, *values)",
        _gradients("exp"),
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
        "autograd: a function for one derivative gives a second",
        "tenkey/autograd/function/function.py",
        "record_node(node, (*ctx.next_edges, *watched), made)",
        "pass",
        ("tests/autograd/function/test_function_errors.py",),
    ),
    Fault(
        "autograd: a recomputation draws other random numbers",
        "tenkey/autograd/checkpointing/recomputation.py",
        "replace_generators(self.generators)",
        "pass",
        ("tests/autograd/checkpointing/test_checkpoint.py",),
    ),
    Fault(
        "autograd: a recomputation that differs is used",
        "tenkey/autograd/checkpointing/recomputation.py",
        "if note != frame.notes[number]:",
        "if False:",
        ("tests/autograd/checkpointing/test_checkpoint_errors.py",),
    ),
    Fault(
        "gradcheck: its tolerance",
        "tenkey/autograd/gradcheck/check.py",
        "atol=self.settings.atol, equal_nan=True)",
        "atol=1.0, equal_nan=True)",
        ("tests/autograd/gradcheck/test_gradcheck.py",),
    ),
    Fault(
        "gradcheck: the forward mode is not compared",
        "tenkey/autograd/gradcheck/check.py",
        'self._compare(*pair, number, i, hint, "computed with forward mode ")',
        "pass",
        ("tests/autograd/gradcheck/test_gradcheck_modes.py",),
    ),
    Fault(
        "anomaly: nan of a backward passes",
        "tenkey/autograd/anomaly.py",
        "        if options.check_backward:",
        "        if options.check_inf:",
        ("tests/autograd/test_anomaly.py",),
    ),
)

_TRANSFORMS: Final = (
    Fault(
        "vmap: a reduction takes the batch for an axis",
        "tenkey/transforms/batching/rules.py",
        'level.front(bound["x"]), tuple([i + 1 for i in axes])',
        'level.front(bound["x"]), tuple(axes)',
        _vmap("sum"),
    ),
    Fault(
        "vmap: a positive axis is that of the stack",
        "tenkey/transforms/batching/rules.py",
        "bound[name] = axis + 1",
        "bound[name] = axis",
        _vmap("sort", "cumulative_sum"),
    ),
    Fault(
        "vmap: a negative in_dim counts from the front",
        "tenkey/transforms/batching/mapping.py",
        "dims.append(dim % leaf.ndim)",
        "dims.append(abs(dim) % leaf.ndim)",
        ("tests/transforms/test_vmap.py",),
    ),
    Fault(
        "vmap: out_dims are ignored",
        "tenkey/transforms/batching/mapping.py",
        "return move(value, own, dim % ndim)",
        "return move(value, own, 0)",
        ("tests/transforms/test_vmap.py",),
    ),
    Fault(
        "vmap: samples draw the same numbers",
        "tenkey/transforms/batching/randomness.py",
        'own = {**bound, "stream": _mixed(bound["stream"], b)}',
        'own = {**bound, "stream": _mixed(bound["stream"], 0)}',
        ("tests/transforms/test_vmap.py",),
    ),
    Fault(
        "transforms: jacfwd has the columns in the place of the rows",
        "tenkey/transforms/jacobians.py",
        "_blocks(end, end.ndim - 1, leaves)",
        "_blocks(end, 0, leaves)",
        ("tests/transforms/test_derivatives.py",),
    ),
    Fault(
        "transforms: jvp of a result without a tangent is its value",
        "tenkey/transforms/forward.py",
        "parts.append((primal, zeros_like(primal) if tangent is None else tangent))",
        "parts.append((primal, primal if tangent is None else tangent))",
        ("tests/transforms/test_transform_programs.py", "tests/transforms/test_derivatives.py"),
    ),
)

_LIBRARY: Final = (
    Fault(
        "library: a result may share the memory of an argument",
        "tenkey/library/kernel_checks.py",
        "(_may_be_view(tensor) or tensor._data is given._data) and shares_storage(tensor, given)",
        "False and shares_storage(tensor, given)",
        ("tests/library/test_checks.py",),
    ),
    Fault(
        "library: a kernel may change what it only reads",
        "tenkey/library/kernel_checks.py",
        "if _fingerprint(tensor) != before:",
        "if False:",
        ("tests/library/test_checks.py",),
    ),
    Fault(
        "library: defaults are left out of an inferred schema",
        "tenkey/library/schema_inference.py",
        'default = "" if parameter.default is parameter.empty',
        'default = "" if parameter.default is not None',
        ("tests/library/test_infer_schema.py",),
    ),
    Fault(
        "library: an optional annotation is required",
        "tenkey/library/schema_inference.py",
        "return Nullable(node) if len(rest) < len(args)",
        "return Nullable(node) if len(rest) > len(args)",
        ("tests/library/test_infer_schema.py",),
    ),
    Fault(
        "library: a reduction may have a wrong identity",
        "tenkey/library/declaration_checks.py",
        "for left in (combine(identity, a), combine(a, identity)):",
        "for left in ():",
        ("tests/library/test_declaration_errors.py",),
    ),
    Fault(
        "opcheck: the row for layouts compares nothing",
        "tenkey/testing/checks/variations.py",
        " found = differing(got, want)",
        " found = None",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
    Fault(
        "opcheck: the row for the schema takes any change",
        "tenkey/testing/checks/contract.py",
        "if not leaf.mutable and not same_bytes:",
        "if False:",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
)

_OTHERS: Final = (
    Fault(
        "profiler: the time of a recursive call counts twice",
        "tenkey/profiler/averages.py",
        "        if not nested:",
        "        if True:",
        ("tests/profiler/test_profiler.py",),
    ),
    Fault(
        "profiler: memory that is freed stays",
        "tenkey/profiler/memory.py",
        "MemoryRecord(perf_counter_ns(), -nbytes,",
        "MemoryRecord(perf_counter_ns(), nbytes,",
        ("tests/profiler/test_profiler_memory.py",),
    ),
    Fault(
        "random: a geometric draw counts from zero",
        "tenkey/random/_discrete.py",
        "minimum(maximum(trials, 1.0), 2.0**63 - 1024)",
        "minimum(maximum(trials - 1.0, 0.0), 2.0**63 - 1024)",
        ("tests/random/test_random.py",),
    ),
    Fault(
        "random: a triangular draw falls with the slope of its rise",
        "tenkey/random/_basic.py",
        "(1.0 - u) * width * fall",
        "(1.0 - u) * width * rise",
        ("tests/random/test_random.py",),
    ),
    Fault(
        "serialization: tensors of a file lie one byte further",
        "tenkey/serialization/_safetensors.py",
        "begin += sizes[name]",
        "begin += sizes[name] + 1",
        ("tests/serialization/test_serialization.py",),
    ),
    Fault(
        "serialization: the checksum of the structure is not read",
        "tenkey/serialization/_safetensors.py",
        "if metadata[_CHECKSUM] != _checksum(metadata):",
        "if False:",
        ("tests/serialization/test_serialization_damage.py",),
    ),
    Fault(
        "serialization: an array of NumPy in Fortran's order",
        "tenkey/serialization/_numpy_files.py",
        "return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)",
        "return flat.reshape(shape)",
        ("tests/serialization/test_serialization_numpy.py",),
    ),
    Fault(
        "serialization: a header may repeat a name",
        "tenkey/serialization/_safetensors.py",
        'parse_json(bytes(content[8 : 8 + int.from_bytes(content[:8], "little")]), "the header")',
        "pass",
        ("tests/serialization/test_serialization_damage.py",),
    ),
    Fault(
        "serialization: others may enter the folder of a new file",
        "tenkey/_util/atomic_write.py",
        "folder.chmod(0o700 |",
        "folder.chmod(0o755 |",
        ("tests/serialization/test_serialization_writing.py",),
    ),
    Fault(
        "backends: the checksum of a cached kernel is not compared",
        "tenkey/backends/cpu/numba/kernel_files.py",
        "!= hashlib.sha256(rest).digest():",
        "== b'':",
        ("tests/backends/test_kernel_files.py::test_damaged_files_are_noticed",),
    ),
    Fault(
        "backends: the cache may lie in a folder of another user",
        "tenkey/_util/cache_folder.py",
        "if found.st_uid not in (0, os.getuid()):",
        "if False:",
        ("tests/package/test_cache_folder.py",),
    ),
    Fault(
        "interop: np.arctan2 of tensors is the hypotenuse",
        "tenkey/interop/numpy_names.py",
        '"arctan2": "atan2"',
        '"arctan2": "hypot"',
        ("tests/interop/test_numpy_functions.py", "tests/functions/test_asarray.py"),
    ),
    Fault(
        "testing: two results that differ by one element are equal",
        "tenkey/testing/checks/variations.py",
        "if np.all(same):",
        "if np.any(same):",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
)

FAULTS: Final = (
    *_DISPATCH,
    *_CORE,
    *_OPERATORS,
    *_BACKENDS,
    *_AUTOGRAD,
    *_TRANSFORMS,
    *_LIBRARY,
    *_OTHERS,
)
