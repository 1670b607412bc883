"""Faults of autograd and of transforms."""

from __future__ import annotations

from typing import Final

from .fault import Fault, gradients, sweep, vmap

__all__ = ["AUTOGRAD", "TRANSFORMS"]

AUTOGRAD: Final = (
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
        sweep("test_forward_mode.py::test_forward_mode_and_second_derivatives", "matmul"),
    ),
    Fault(
        "autograd: the gradient of a holomorphic function is not conjugated",
        "tenkey/autograd/formulas/partials.py",
        "result = conj(product(conj(g), *values))",
        "result = product(g, *values)",
        gradients("exp"),
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
        "tenkey/autograd/function/unconnected.py",
        "record_node(DelayedError(RuntimeError, message), (*context.next_edges, *watched), made)",
        "pass",
        ("tests/autograd/function/test_function_errors.py",),
    ),
    Fault(
        "autograd: a backward that leaves the graph is not noticed",
        "tenkey/autograd/function/unconnected.py",
        "    if not departures.calls:",
        "    if departures:",
        ("tests/autograd/function/test_unconnected.py",),
    ),
    Fault(
        "autograd: a recorded call skips the keys between Autograd and AutogradOther",
        "tenkey/autograd/recording/autograd_kernels.py",
        "return word_below(word, DispatchKey.Autograd)",
        "return word_below(word, DispatchKey.AutogradOther)",
        ("tests/dispatch/test_key_below_autograd.py",),
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

TRANSFORMS: Final = (
    Fault(
        "vmap: a reduction takes the batch for an axis",
        "tenkey/transforms/batching/rules.py",
        'level.front(bound["x"]), tuple([i + 1 for i in axes])',
        'level.front(bound["x"]), tuple(axes)',
        vmap("sum"),
    ),
    Fault(
        "vmap: a positive axis is that of the stack",
        "tenkey/transforms/batching/rules.py",
        "bound[name] = axis + 1",
        "bound[name] = axis",
        vmap("sort", "cumulative_sum"),
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
