"""Forward mode: tangents are propagated along with the values.

Note [Dual tensors]
~~~~~~~~~~~~~~~~~~~
A dual tensor is a wrapper at a level (Note [Levels]) around a value, its primal, and a tangent of the same shape. A
call on duals calls the operator on the primals, which may be recorded or be duals of an outer level, and gives the
result a tangent by the rule of the operator: a user's facet ``Forward``; the facets that reverse mode uses too
(``jvp_of``); the parts of a composite; or a hand-written ``Backward``, differentiated by its gradient argument, in
which it is linear. Without a sound rule there is an error, never a tangent of zero. After its level has ended, a dual
is its primal. Guarded by ``tests/autograd/forward_ad/test_forward_mode.py``.

Note [Tangents in place]
~~~~~~~~~~~~~~~~~~~~~~~~
An in-place change of a dual changes its primal and its tangent in place. Therefore the tangent of a view is the same
view of the tangent, and the tangents of other results share no memory with those of the arguments. A primal may be
batched where its tangent is not, so values written into the primal would not fit into the tangent: the tangent is
batched before it is viewed or changed. Where a tangent has another memory layout than its primal, a view of one may be
a copy of the other (``reshape``): such a dual refuses to be changed. Guarded by
``tests/autograd/forward_ad/test_forward_mode.py::test_views_in_place`` and
``tests/transforms/test_transform_programs.py::test_changes_in_place_in_nested_transforms``.

Note [Gradients of duals]
~~~~~~~~~~~~~~~~~~~~~~~~~
The gradient ``g = J(x)^T s`` of a dual output by a dual input is a dual as well. Second derivatives commute, so its
tangent along ``v`` is the gradient of the output's tangent ``J(x) v``, plus ``J(x)^T`` of the tangent of ``s``. Here
``v`` is constant: if it was computed from ``x`` (as the tangent of ``exp(y)`` is computed from its result), the
gradient that flows to ``x`` through ``v`` is subtracted. Guarded by
``tests/autograd/forward_ad/test_forward_mode.py::test_forward_over_reverse``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from ..._util.context_decorator import decorate
from ...core.tensor import Tensor
from ...core.tree import flatten, tree_map, unflatten
from ...core.word import DTYPE_TRAIT, REQUIRES_GRAD, WEAK_TRAIT
from ...core.wrapper import Level, Wrapper, innermost, unwrapped, wrap
from ...dispatch.operator import Operator
from ...ops.builtin.creation import ones_like, zeros_like
from ...ops.variants import write_out
from ..engine.roots import SEED_SCALAR, UNUSED_INPUT
from ..formulas import jvp_rules
from ..function.context import Context
from ..function.function import Function
from ..tape.node import edge_of, walk
from .dual_inplace import fit_tangent, in_place, restore

__all__ = ["DualLevel"]

_COMPLEX: Final = sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind == "c") | WEAK_TRAIT[complex]
_LIKE: Final = frozenset(["tk::zeros_like", "tk::ones_like", "tk::full_like", "tk::empty_like"])


class DualLevel(Level):
    """One level of tangents, as yielded by ``dual_level()``.

    >>> fw = tk.autograd.forward_ad
    >>> with fw.dual_level() as level:
    ...     isinstance(level, fw.DualLevel), level.is_open
    (True, True)
    >>> level.is_open
    False
    """

    name = "forward mode"

    def __init__(self) -> None:
        super().__init__()
        # Note [Targets without a tangent]: made for the first of them, since most levels have none
        self.adopted: WeakValueDictionary[int, Tensor] | None = None

    def _close(self) -> None:
        super()._close()
        if self.adopted is not None:
            restore(self)

    def __call__(self, function: Any) -> Any:
        """Decorate ``function`` so that every call has its own level."""
        return decorate(function, DualLevel)

    def dual(self, primal: Tensor, tangent: Tensor) -> Wrapper:
        """Return the dual tensor of a primal and a tangent that fits it."""
        return wrap(self, primal, tangent, primal.shape, tangent._word)

    def primal(self, x: Any) -> Any:
        """Return the primal of a dual tensor of this level, anything else as it is."""
        return x._value if isinstance(x, Wrapper) and x._level is self else x

    def tangent(self, x: Any) -> Any:
        """Return the tangent of a dual tensor of this level, None for anything else."""
        return x._extra if isinstance(x, Wrapper) and x._level is self else None

    def parts(self, x: Any) -> tuple[Any, Tensor | None]:
        """Return primal and tangent at this level, also below the wrappers of inner levels."""
        if not isinstance(x, Wrapper) or x._level.number < self.number:
            return x, None
        if x._level is self:
            return x._value, x._extra
        has_tangent = False

        def part(value: Tensor, *, tangent: bool) -> Any:
            nonlocal has_tangent
            inner, found = self.parts(value)
            has_tangent |= found is not None
            return inner if not tangent else zeros_like(inner) if found is None else found

        outer = x._level.through(x, partial(part, tangent=False), int)
        return outer, x._level.through(x, partial(part, tangent=True), int) if has_tangent else None

    # ---- calls

    def process(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Process a call (Note [Dual tensors])."""
        plan = jvp_rules.plan_of(operator)
        if plan.is_special:
            facets = operator.facets
            if "Forward" in facets:
                return jvp_rules.by_user(self, operator, args, kwargs)
            if "Out" in facets:
                return write_out(facets["Out"].functional, *args, **kwargs)
            return in_place(self, operator, args, kwargs)
        if operator.name in _LIKE:
            return self._like(operator, args, kwargs)
        parts = jvp_rules.parts_of(operator) if plan.is_open else plan.parts
        if parts is not None:
            return parts(*args, **kwargs)
        if plan.is_view and args and self.owns(args[0]):
            fit_tangent(args[0])
        duals: list[Wrapper] = []
        word = 0
        primals: list[Any] = []
        tangents = plan.tangents.copy()
        for name, x in zip(plan.names, args):
            if isinstance(x, Wrapper) and x._level is self:
                duals.append(x)
                primals.append(x._value)
                tangents[name] = x._extra
                word |= x._word
            elif isinstance(x, Tensor):
                primals.append(x)
                word |= x._word
            elif (x.__class__ is list or x.__class__ is tuple) and innermost(x) is not None:
                break
            else:
                primals.append(x)
        else:
            if len(args) <= len(plan.names) and (not kwargs or innermost(kwargs.values()) is None):
                rule = plan.rule(operator, is_complex=bool(word & _COMPLEX))
                if rule is not None:
                    out = operator.call(*primals, **kwargs)
                    bound = {**plan.defaults, **dict(zip(plan.names, primals)), **kwargs}
                    tangent = rule(tangents, bound, out)
                    return out if tangent is None else self._result(operator, duals, out, tangent)
        return self._general(plan, operator, args, kwargs)

    def _general(self, plan: jvp_rules.Plan, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Process duals in lists and among the keyword arguments, and operators without a rule."""
        leaves = flatten((args, kwargs))
        primals, keywords = unflatten((args, kwargs), [self.primal(x) for x in leaves])
        is_complex = any(isinstance(x, Tensor) and x.dtype.kind == "c" for x in leaves)
        rule = plan.rule(operator, is_complex=is_complex)
        if rule is None:
            facets = operator.facets
            if "Composite" in facets:
                return facets["Composite"].function(*args, **kwargs)
            if "Backward" in facets:

                def call(values: list[Any]) -> Any:
                    positional, keywords = unflatten((args, kwargs), values)
                    return operator.call(*positional, **keywords)

                return jvp_rules.transposed(self, operator.name, leaves, call)
            why = "the operator has no rule for forward mode and no gradient formula"
            raise NotImplementedError(jvp_rules.NO_RULE.format(operator=operator.name, why=why))
        out = operator.call(*primals, **keywords)
        tangents: dict[str, Any] = {}
        for name, value in operator.bind(*args, **kwargs).items():
            if isinstance(value, (list, tuple)):
                found = [self.tangent(x) for x in value]
                tangents[name] = found if any(t is not None for t in found) else None
            else:
                tangents[name] = self.tangent(value)
        tangent = rule(tangents, operator.bind(*primals, **keywords), out)
        if tangent is None:
            return out
        return self._result(operator, [x for x in leaves if self.owns(x)], out, tangent)

    def _like(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Return a new tensor with a tangent of zero, so that dual tensors can be written into it."""
        out: Tensor = operator.call(args[0]._value, *args[1:], **kwargs)
        if out.dtype.kind not in "fcV":
            return out
        tangent = args[0]._extra
        if isinstance(tangent, Wrapper) or isinstance(out, Wrapper):
            tangent = args[0]._value + tangent  # its future values belong to the levels of both
        return self.dual(out, zeros_like(tangent, dtype=out.dtype, device=out.device))

    def _result(self, operator: Operator, duals: list[Wrapper], out: Tensor, tangent: Tensor) -> Tensor:
        """Return the dual of a result (Note [Tangents in place])."""
        bare = tangent if tangent.__class__ is Tensor else unwrapped(tangent)
        shares = bare._storage is not None
        for x in duals:
            if x._value is out:  # the operator returned its argument
                return x
            extra = x._extra
            if (extra if extra.__class__ is Tensor else unwrapped(extra)) is bare:
                shares = True
        if "View" in operator.facets:
            made = self.dual(out, tangent)
            made._apart = any(x._apart for x in duals) or (
                unwrapped(out)._storage is not None and bare._storage is None
            )
            return made
        return self.dual(out, tangent.clone() if shares else tangent)

    def escaped(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the operator on the primals."""
        primals, keywords = tree_map(self.primal, (args, kwargs))
        return operator.call(*primals, **keywords)

    def apply_function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Apply a ``Function`` to duals by its ``jvp``, or by transposing its ``backward``."""
        primals = tuple([self.primal(x) for x in args])
        if function.jvp is None:
            return jvp_rules.transposed(self, function.__name__, list(args), lambda leaves: function.apply(*leaves))
        if function.setup_context is not Function.setup_context:
            out = function.apply(*primals)  # recorded, and processed by outer levels
            ctx: Context = jvp_rules.JvpContext()
            ctx._function = function
            ctx.needs_input_grad = tuple([self.owns(x) for x in args])
            function.setup_context(ctx, primals, out)
        elif innermost(primals) is not None:
            raise NotImplementedError(
                f"[{function.__name__}] In order to use a Function with a jvp inside of other transforms (vmap, grad, "
                "jvp, ...), it must override the setup_context staticmethod: write forward(*args) without a ctx, and "
                "setup_context(ctx, inputs, output)."
            )
        else:
            out, ctx = function._run(primals)
            ctx = jvp_rules.JvpContext.of(ctx)
        tangents = [self.tangent(x) for x in args]
        results = function.jvp(ctx, *jvp_rules.materialized(ctx, primals, tangents))
        return jvp_rules.with_tangents(self, function.__name__, out, results)

    def escaped_function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Apply the function to the primals."""
        return function.apply(*[self.primal(x) for x in args])

    def released(self, wrapper: Wrapper) -> Tensor:
        """Return the primal."""
        return wrapper._value

    # ---- properties of wrappers

    def values(self, wrapper: Wrapper, what: str) -> np.ndarray:
        """Return the values of the primal; NumPy gets them only after the level has ended."""
        if what in ("numpy", "__array__"):
            if self.is_open:
                raise RuntimeError(
                    f"[{what}] the tensor has a tangent, which NumPy would lose: use "
                    "tk.autograd.forward_ad.unpack_dual(x).primal."
                )
            return wrapper._value._to_numpy(what)
        return wrapper._value._values(what)

    def detach(self, wrapper: Wrapper) -> Tensor:
        """Return the primal without history: detaching also drops the tangent."""
        return wrapper._value.detach()

    def describe(self, wrapper: Wrapper) -> str:
        """Show both parts."""
        return f"dual({wrapper._value!r}, tangent={wrapper._extra!r})"

    def through(self, wrapper: Wrapper, function: Callable[[Tensor], Tensor], dims: Callable[[int], int]) -> Tensor:
        """Apply the function to both parts."""
        return self.dual(function(wrapper._value), function(wrapper._extra))

    def combine(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Apply the function to the primals and to the tangents."""
        pairs = [(x._value, x._extra) if self.owns(x) else (x, zeros_like(x)) for x in tensors]
        return self.dual(function(*[p for p, _ in pairs]), function(*[t for _, t in pairs]))

    # ---- gradients

    def gradient(self, grad: Callable[..., Any], outputs: list[Any], inputs: list[Any], **options: Any) -> Any:
        """Return gradients (Note [Gradients of duals])."""
        given = options.pop("grad_outputs")
        allow, materialize = options.pop("allow_unused"), options.pop("materialize_grads")
        flags = {"create_graph": options["create_graph"], "retain_graph": True, "allow_unused": True}
        wanted = [self.parts(x)[0] for x in inputs]
        total: list[Any] = [None] * len(inputs)
        slope: list[Any] = [None] * len(inputs)
        for output, seed in zip(outputs, given, strict=True):
            primal, tangent = self.parts(output)
            if seed is None:
                if output.size != 1 or output.dtype.kind == "c":
                    raise RuntimeError(SEED_SCALAR.format(call="grad", shape=output.shape))
                seed = ones_like(primal.detach())
            ahead, along = self.parts(seed)
            if primal._word & REQUIRES_GRAD:
                _add(total, grad([primal], wanted, [ahead], **flags))
                if along is not None:
                    _add(slope, grad([primal], wanted, [along], **flags))
            if tangent is not None and tangent._word & REQUIRES_GRAD:
                _add(slope, self._by_inputs(grad, tangent, inputs, ahead, **flags))
        results: list[Any] = []
        for index, (x, g, t) in enumerate(zip(wanted, total, slope, strict=True)):
            if g is None and t is None:
                if not allow and not materialize:
                    raise RuntimeError(UNUSED_INPUT.format(index=index))
                results.append(zeros_like(x.detach()) if materialize else None)
                continue
            whole = zeros_like(x.detach()) if g is None else g
            results.append(whole if t is None else self.join(whole, t))
        return tuple(results)

    def _by_inputs(
        self, grad: Callable[..., Any], tangent: Tensor, inputs: list[Any], seed: Tensor, **flags: Any
    ) -> Any:
        """Return the gradients of a tangent by the inputs, without the part through the tangents of the inputs."""
        found: list[Any] = []
        for x in inputs:
            primal, own = self.parts(x)
            (whole,) = grad([tangent], [primal], [seed], **flags)
            if whole is not None and own is not None and _depends(own, primal):
                (through,) = grad([tangent], [own], [seed], **flags)
                if through is not None:
                    (less,) = grad([own], [primal], [through], **flags)
                    whole = whole if less is None else whole - less
            found.append(whole)
        return found

    def join(self, primal: Tensor, tangent: Tensor) -> Tensor:
        """Return the dual of two parts, below the wrappers of inner levels."""
        inner = max(
            [x._level for x in (primal, tangent) if isinstance(x, Wrapper)],
            key=lambda level: level.number,
            default=self,
        )
        if inner.number > self.number:
            return inner.combine(self.join, primal, tangent)
        return self.dual(primal, tangent)


def _add(totals: list[Any], more: tuple[Any, ...]) -> None:
    for i, term in enumerate(more):
        if term is not None:
            totals[i] = term if totals[i] is None else totals[i] + term


def _depends(tangent: Tensor, primal: Any) -> bool:
    """Return whether the tangent of an input was computed from the input."""
    if not tangent._word & REQUIRES_GRAD:
        return False
    target, _ = edge_of(unwrapped(primal))
    return any(node is target for node in walk(edge_of(unwrapped(tangent))[0]))
