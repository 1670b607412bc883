"""``Function`` under ``vmap``: the rule generated for ``generate_vmap_rule = True``.

Note [Generated rules of functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The staticmethods of a Function are written for one sample. The generated rule is another Function, on tensors that hold
all samples. Its ``forward`` calls the user's on batched tensors, and so do its ``setup_context``, ``backward`` and
``jvp``, each at its own level, because a level ends before the backward begins. Saved tensors pass through the
generated context with all samples in them, and are batched again for the user; other attributes stay on the context
that the user sees. The gradient of an input that the samples share is summed over the samples. Guarded by
``tests/transforms/test_function_transforms.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.function import Function
from ...core.tensor import Tensor
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.views import broadcast_to, reshape
from .level import BatchLevel, function_rules, move

__all__ = ["generated_rule"]


class _SampleContext:
    """The context that the user's staticmethods see, for one sample."""

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]) -> None:
        self._name = name
        self._for_backward: tuple[Tensor | None, ...] = ()
        self._for_forward: tuple[Tensor | None, ...] | None = None
        self._not_differentiable: tuple[Tensor, ...] = ()
        self._materialize = True
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``backward``."""
        self._for_backward = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``jvp``."""
        self._for_forward = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare that no gradient flows through these outputs."""
        self._not_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Raise: an argument changed here is not an input of the generated Function."""
        raise NotImplementedError(
            f"[{self._name}] mark_dirty under vmap with a generated rule is not possible: write a vmap staticmethod, "
            "or return a new tensor."
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Choose zeros or None for missing gradients in ``backward`` and missing tangents in ``jvp``."""
        self._materialize = value


def generated_rule(level: BatchLevel, function: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of ``function.apply`` on arguments of which some are batched at ``level``."""
    name = function.__name__
    if function.vmap is not None:
        raise RuntimeError(
            f"[{name}] has generate_vmap_rule=True and a vmap staticmethod: define only one of them, since each says "
            "what happens under vmap."
        )
    if function.setup_context is Function.setup_context:
        raise RuntimeError(
            f"[{name}] In order to use a Function with generate_vmap_rule=True under vmap, it must override the "
            "setup_context staticmethod: write forward(*args) without a ctx, and setup_context(ctx, inputs, output)."
        )
    pairs = [level.split(x) for x in args]
    dims = [dim for _, dim in pairs]
    shapes = [x.shape if isinstance(x, Tensor) else None for x in args]
    single = [True]
    out_dims: list[int | None] = []

    def batched(own: BatchLevel, values: Sequence[Any], places: Sequence[int | None]) -> list[Any]:
        return [v if d is None or v is None else own.batch(v, d) for v, d in zip(values, places, strict=True)]

    def apart(own: BatchLevel, values: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
        found = [own.split(v) for v in values]
        return [v for v, _ in found], [d for _, d in found]

    def forward(*values: Any) -> Any:
        with level.again() as own:
            out = function.forward(*batched(own, values, dims))
            single[0] = not isinstance(out, (tuple, list))
            listed = [out] if single[0] else list(out)
            # Each sample gets separate results, even if they are equal, so that their gradients can be told apart.
            results = [own.front(x) if isinstance(x, Tensor) else x for x in listed]
            out_dims[:] = [0 if isinstance(x, Tensor) else None for x in listed]
        return results[0] if single[0] else tuple(results)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = [output] if single[0] else list(output)
        with level.again() as own:
            given, made = batched(own, inputs, dims), batched(own, results, out_dims)
            sample = _SampleContext(name, ctx.needs_input_grad)
            function.setup_context(sample, tuple(given), made[0] if single[0] else tuple(made))
            behind, ctx.behind_dims = apart(own, sample._for_backward)
            ahead, ctx.ahead_dims = apart(own, sample._for_forward or sample._for_backward)
            off = [r for r, m in zip(results, made, strict=True) if any(m is x for x in sample._not_differentiable)]
        ctx.save_for_backward(*behind)
        ctx.save_for_forward(*ahead)
        if off:
            ctx.mark_non_differentiable(*off)
        ctx.set_materialize_grads(sample._materialize)
        sample._for_backward, sample._for_forward, sample._not_differentiable = (), None, ()
        ctx.sample = sample

    def backward(ctx: Any, *grads: Any) -> Any:
        with level.again() as own:
            sample = _again(ctx, batched(own, ctx.saved_tensors, ctx.behind_dims))
            found = (function.vjp or function.backward)(sample, *batched(own, grads, out_dims))
            found = found if isinstance(found, (tuple, list)) else (found,)
            return tuple([_fitted(own, g, d, s) for g, d, s in zip(found, dims, shapes, strict=False)])

    def jvp(ctx: Any, *tangents: Any) -> Any:
        with level.again() as own:
            sample = _again(ctx, batched(own, ctx.saved_tensors, ctx.ahead_dims))
            found = function.jvp(sample, *batched(own, tangents, dims))
            listed = [found] if single[0] else list(found)
            results = [own.front(t) if isinstance(t, Tensor) else t for t in listed]
        return results[0] if single[0] else tuple(results)

    members: dict[str, Any] = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if function.jvp is not None:
        members["jvp"] = jvp
    methods = {key: staticmethod(value) for key, value in members.items()}
    made: Any = type(f"Vmapped{name}", (Function,), {**methods, "generate_vmap_rule": True})
    output = made.apply(*[value for value, _ in pairs])
    results = batched(level, [output] if single[0] else output, out_dims)
    return results[0] if single[0] else tuple(results)


function_rules["generated"] = generated_rule


def _again(ctx: Any, saved: list[Any]) -> _SampleContext:
    """Return the user's context for one call, with its saved tensors."""
    made = object.__new__(_SampleContext)
    made.__dict__.update(ctx.sample.__dict__)
    made.saved_tensors = tuple(saved)
    return made


def _fitted(own: BatchLevel, gradient: Any, dim: int | None, shape: tuple[int, ...] | None) -> Any:
    """Turn the gradients of the samples into that of the tensor that holds them, or that they share."""
    value, place = own.split(gradient)
    if gradient is None or shape is None:
        return gradient
    if dim is None:
        return value if place is None else sum_(value, axis=place)
    rows = own.front(gradient)
    rest = rows.shape[1:]
    if rest != shape:  # a gradient may be larger, as long as its sum has the shape
        lead = len(rest) - len(shape)
        axes = [i + 1 for i in range(len(rest)) if i < lead or (shape[i - lead] == 1 and rest[i] != 1)]
        rows = reshape(sum_(rows, axis=tuple(axes), keepdims=True), (own.size, *shape)) if lead >= 0 else rows
        rows = broadcast_to(rows, (own.size, *shape))
    return move(rows, 0, dim)
