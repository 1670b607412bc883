"""The level of one ``vmap``: turns a call on batched tensors into a call on the tensors that hold the whole batch.

Note [Batching rules]
~~~~~~~~~~~~~~~~~~~~~
A batched tensor is a wrapper around a value with one additional dimension, the batch dimension. A call is processed by
the first of these that exists: the facet ``Batch``, registered by a user with ``register_vmap``; the facet
``Batching``, which is ``batch=`` in a block (Note [Batching facet]); the rule derived from other facets (pointwise,
reduction, in-place); the parts of a composite; the loop. The loop takes the batch apart, calls the operator for every
sample and stacks the results: slow, but correct for every operator. ``LOOPS`` counts its runs by operator. Guarded by
``tests/transforms/test_vmap.py``.

Note [Gradients of samples]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
The samples are independent, so the gradient of all outputs by a batched input holds the gradient of each sample in its
place. An input that the samples share also has one gradient per sample, but the recorded graph sums them. The backward
therefore runs with one seed per sample, all in one batch, which costs as much as one backward per sample.
``tk.transforms.grad`` costs one backward, since it repeats the input for the samples before the function runs.
Guarded by ``tests/transforms/test_vmap_autograd.py::test_grad_of_a_shared_input_inside_of_vmap``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from ...autograd.engine.roots import SEED_SCALAR, SEED_SHAPE, UNUSED_INPUT
from ...core.random.generator import Generator, GeneratorState, note_draws
from ...core.tensor import Tensor
from ...core.tree import broadcast_prefix, flatten, unflatten
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import Level, Wrapper, wrap
from ...dispatch.keys import DispatchKey
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.tags import Tag
from ...ops.builtin.creation import eye, ones_like, zeros_like
from ...ops.builtin.elementwise.comparison import where
from ...ops.builtin.shape.copying import stack
from ...ops.builtin.shape.views import broadcast_to, permute_dims, reshape, select_index

__all__ = [
    "LOOPS", "BatchInfo", "BatchLevel", "Rule", "batching_rules", "derived_rules", "function_rules", "move",
]  # fmt: skip

Rule = Callable[["BatchLevel", Operator, tuple[Any, ...], dict[str, Any]], Any]

LOOPS: Final[Counter[str]] = Counter()
"""The number of calls that ran sample by sample, for each operator without a rule."""
MOST_NAMES = 256  # with more, the numbers of operators that were removed are forgotten

batching_rules: Final[dict[str, Rule]] = {}
derived_rules: Final[dict[str, Rule]] = {}
function_rules: Final[dict[str, Callable[..., Any]]] = {}

_RANDOM: Final = (
    "[{operator}] vmap: called random operation while in randomness error mode: pass randomness='different' (other "
    "numbers for each sample) or 'same' to vmap, or draw outside of it."
)


class BatchInfo(NamedTuple):
    """Information for a vmap rule: ``batch_size`` and ``randomness``.

    >>> tk.transforms.BatchInfo(3, "error").batch_size
    3
    """

    batch_size: int
    randomness: str


def move(value: Tensor, source: int, target: int) -> Tensor:
    """Move one dimension of a tensor; both positions count from the front."""
    if source == target:
        return value
    order = [i for i in range(value.ndim) if i != source]
    order.insert(target, source)
    return permute_dims(value, tuple(order))


class BatchLevel(Level):
    """One run of ``vmap`` over ``size`` samples, from sample ``first`` of ``total`` on (Note [Random chunks])."""

    name = "vmap"

    def __init__(
        self,
        size: int,
        randomness: str = "error",
        first: int = 0,
        total: int | None = None,
        drawn: list[dict[Generator, int]] | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness
        self.first = first
        self.total = size if total is None else total
        self.drawn = [] if drawn is None else drawn  # by the loops of a chunk: numbers for each sample
        self.loops = 0

    def again(self) -> BatchLevel:
        """Return another level over the same samples."""
        return BatchLevel(self.size, self.randomness, self.first, self.total)

    # ---- values and dimensions

    def batch(self, value: Tensor, dim: int = 0) -> Wrapper:
        """Return the batched tensor that holds its samples along ``dim`` of ``value``."""
        shape = value._data.shape
        return wrap(self, value, dim, shape[1:] if dim == 0 else shape[:dim] + shape[dim + 1 :])

    def split(self, x: Any) -> tuple[Any, Any]:
        """Return the value and its batch dimension, or ``x`` itself and None."""
        if isinstance(x, Wrapper) and x._level is self:
            return x._value, x._extra
        return x, None

    def front(self, x: Tensor) -> Tensor:
        """Return the value with the batch dimension first; a shared value is repeated for every sample."""
        value, dim = self.split(x)
        if dim is None:
            return broadcast_to(value, (self.size, *value.shape))
        return move(value, dim, 0)

    def aligned(self, x: Any, ndim: int) -> Any:
        """Return the value for broadcasting with ``ndim`` dimensions: batch dimension, ones, other dimensions."""
        value, dim = self.split(x)
        if dim is None:
            return value
        value = move(value, dim, 0)
        missing = ndim + 1 - value.ndim
        if missing > 0:
            value = reshape(value, (value.shape[0], *[1] * missing, *value.shape[1:]))
        return value

    move = staticmethod(move)

    # ---- calls

    def process(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Process a call: see Note [Batching rules]."""
        return self.rule(operator)(self, operator, args, kwargs)

    def rule(self, operator: Operator) -> Rule:
        """Return the rule that processes calls of the operator."""
        facets = operator.facets
        if "Batch" in facets:
            return _by_user
        facet = facets.get("Batching")
        if facet is not None:
            return facet.function or batching_rules[facet.kind]
        for name, derived in derived_rules.items():
            if name in facets:
                return derived
        if "Composite" in facets or operator.kernels.get(DispatchKey.CompositeImplicitAutograd):
            return _by_parts
        return BatchLevel.loop

    def check(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise what the operator raises for arguments of the shapes of one sample."""
        meta = operator.facets.get("Meta")
        if meta is not None:
            meta.rule(*args, **kwargs)
        elif "View" in operator.facets:
            operator.facets["View"].window(*args, **kwargs)

    def check_mutation(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise if a tensor that the samples share would be changed by a batched one."""
        if not operator.schema.is_mutable:
            return
        bound = operator.bind(*args, **kwargs)
        batched = [name for name, value in bound.items() if any(self.owns(leaf) for leaf in flatten(value))]
        for argument in operator.schema.arguments:
            if not argument.is_mutable:
                continue
            for leaf in flatten(bound[argument.name]):
                if isinstance(leaf, Tensor) and not self.owns(leaf):
                    raise RuntimeError(
                        f"[{operator.schema.base_name}] vmap: inplace arithmetic on {argument.name!r} is not possible, "
                        f"since it is not batched and {', '.join(map(repr, batched))} is: every sample would write "
                        f"into the same memory. Use the functional form, or make the target from a batched tensor "
                        f"(tk.zeros_like(x), x.clone())."
                    )

    def loop(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the operator for every sample."""
        self.check_mutation(operator, args, kwargs)
        if self.randomness == "error" and Tag.NONDETERMINISTIC in operator.tags:
            raise RuntimeError(_RANDOM.format(operator=operator.name))
        if self.randomness == "same" and Tag.NONDETERMINISTIC in operator.tags:
            raise RuntimeError(
                f"[{operator.name}] vmap: the operator has the tag 'nondeterministic', and randomness='same' requires "
                f"equal numbers for all samples, which one call for each sample does not give: pass "
                f"randomness='different', or give it a rule by register_vmap."
            )
        if Tag.DATA_DEPENDENT_OUTPUT in operator.tags:
            raise RuntimeError(
                f"[{operator.name}] vmap: its output has a dynamic shape, which depends on the data (tag "
                f"'data_dependent_output'), and the results of the samples need not fit together. Call it outside of "
                f"vmap, give it a rule by register_vmap, or write the computation with tk.where, which keeps the shape."
            )
        return _loop(self, operator.name, operator.call, args, kwargs)

    # ---- requests by wrappers

    def values(self, wrapper: Wrapper, what: str) -> NoReturn:
        """Raise: there is a value for each sample."""
        call = f"{what}()" if what in ("numpy", "item", "tolist") else what
        remedy = (
            "Use operators of tenkey, or return the tensor and convert it outside of vmap."
            if what in ("numpy", "__array__", "tolist", "pickle")
            else (
                "That is data-dependent control flow, which is not supported inside of vmap: write `if` with "
                "tk.where(condition, x, y), and an index with tk.take."
            )
        )
        raise RuntimeError(
            f"vmap: .{call} of a batched tensor (shape {wrapper.shape} for each of {self.size} samples) has a "
            f"different value for every sample. {remedy}"
        )

    def detach(self, wrapper: Wrapper) -> Tensor:
        """Return the batched tensor without history."""
        return self.batch(wrapper._value.detach(), wrapper._extra)

    def describe(self, wrapper: Wrapper) -> str:
        """Describe the value and its batch dimension."""
        return f"batched(level={self.number}, dim={wrapper._extra}, value={wrapper._value!r})"

    def through(self, wrapper: Wrapper, function: Callable[[Tensor], Tensor], dims: Callable[[int], int]) -> Tensor:
        """Apply a function to the value: see ``Level.through``."""
        return self.batch(function(wrapper._value), dims(wrapper._extra))

    def combine(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Apply a function to several values: see ``Level.combine``."""
        return self.batch(function(*[self.front(x) for x in tensors]), 0)

    def apply_function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Run ``Function.apply`` on batched tensors, by its ``vmap`` or sample by sample."""
        if function.generate_vmap_rule:
            return function_rules["generated"](self, function, args)
        if function.vmap is not None:
            return _run_rule(self, function.__name__, function.vmap, args, {})
        return _loop(self, function.__name__, function.apply, args, {})

    def repeat(self, x: Tensor) -> Tensor:
        """Repeat a tensor for the samples: see ``Level.repeat``."""
        return self.batch(broadcast_to(x, (self.size, *x.shape)), 0)

    # ---- gradients

    def gradient(self, grad: Callable[..., Any], outputs: list[Any], inputs: list[Any], **options: Any) -> Any:
        """Compute gradients: see Note [Gradients of samples]."""
        allow, materialize = options.pop("allow_unused"), options.pop("materialize_grads")
        flags = {"create_graph": options["create_graph"], "allow_unused": True}
        retain = options["create_graph"] if options["retain_graph"] is None else options["retain_graph"]
        given = options.pop("grad_outputs") or [None] * len(outputs)
        ends: list[Any] = []  # of each sample: value, batch dimension, seed
        shared: list[Any] = []  # of all: value, seed
        for index, (output, seed) in enumerate(zip(outputs, given, strict=True)):
            value, dim = self.split(output)
            if seed is None:
                if output.size != 1 or output.dtype.kind == "c":
                    raise RuntimeError(SEED_SCALAR.format(call="grad", shape=output.shape))
                seed = ones_like(value.detach())
            elif seed.shape != output.shape:
                raise RuntimeError(SEED_SHAPE.format(call="grad", index=index, got=seed.shape, want=output.shape))
            elif dim is not None:
                seed = move(self.expose(seed), 0, dim)
            if value._word & REQUIRES_GRAD:
                if dim is None:
                    shared.append((value, seed))
                else:
                    ends.append((value, seed, dim))
        pairs = [self.split(x) for x in inputs]
        own = [i for i, (_, dim) in enumerate(pairs) if dim is not None]
        others = [i for i, (_, dim) in enumerate(pairs) if dim is None]
        results: list[Any] = [None] * len(inputs)

        def run(group: list[Any], chosen: list[int], keep: bool) -> Iterator[tuple[int, Any]]:
            values, seeds = [end[0] for end in group], [end[1] for end in group]
            return zip(chosen, grad(values, [pairs[i][0] for i in chosen], seeds, retain_graph=keep, **flags))

        if ends and own:
            for i, result in run(ends, own, bool(retain or others)):
                results[i] = None if result is None else self.hide(result, pairs[i][1])
        if shared and others:
            for i, result in run(shared, others, bool(retain or ends)):
                results[i] = result
        if ends and others:
            found = self._by_sample(grad, ends, [pairs[i][0] for i in others], retain_graph=bool(retain), **flags)
            for i, result in zip(others, found, strict=True):
                if result is not None:
                    results[i] = result if results[i] is None else results[i] + result
        for i, result in enumerate(results):
            if result is None and materialize:
                results[i] = zeros_like(inputs[i].detach())
            elif result is None and not allow:
                raise RuntimeError(UNUSED_INPUT.format(index=i))
        return tuple(results)

    def _by_sample(
        self, grad: Callable[..., Any], ends: list[Any], inputs: list[Any], *, retain_graph: Any, **flags: Any
    ) -> list[Any]:
        """Return the gradients by shared inputs, from one seed for each sample with zeros for the others."""

        def differentiate(level: BatchLevel) -> list[tuple[Any, int | None]]:
            seeds = []
            for value, seed, dim in ends:
                one = eye(self.size, dtype=np.dtype(bool), device=value.device)
                one = reshape(one, (self.size, *[1] * dim, self.size, *[1] * (value.ndim - 1 - dim)))
                seeds.append(level.batch(where(one, seed, 0), 0))
            found = grad([value for value, _, _ in ends], inputs, seeds, retain_graph=retain_graph, **flags)
            return [level.split(x) for x in found]

        split = BatchLevel(self.size).run(differentiate)
        return [value if dim is None else self.hide(value, dim) for value, dim in split]

    def expose(self, x: Tensor) -> Tensor:
        """Return the tensor with this level's batch dimension first, also below the wrappers of inner levels."""
        if isinstance(x, Wrapper) and x._level.number > self.number:
            return x._level.through(x, self.expose, lambda dim: dim + 1)
        return self.front(x)

    def hide(self, x: Tensor, dim: int) -> Tensor:
        """Invert :meth:`expose`, for a batch dimension at ``dim``."""
        if isinstance(x, Wrapper) and x._level.number > self.number:
            level = x._level
            if isinstance(level, BatchLevel):
                inner: int = x._extra
                place = dim if dim < inner else dim + 1
                return level.batch(self.hide(x._value, place), inner - (place < inner))
            return level.through(x, lambda value: self.hide(value, dim), lambda d: d)
        return self.batch(x, dim)


# ---- rules that any operator may fall back on


def _by_user(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for name, value in kwargs.items():
        if any(level.owns(leaf) for leaf in flatten(value)):
            raise NotImplementedError(
                f"[{operator.name}] its vmap rule gets positional arguments, and the keyword-only argument {name!r} "
                "is batched: make it positional in the schema."
            )
    return _run_rule(level, operator.name, operator.facets["Batch"].function, args, kwargs)


def _run_rule(
    level: BatchLevel, name: str, rule: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    values = [_map(value, lambda x: level.split(x)[0]) for value in args]
    dims = tuple([_map(value, lambda x: level.split(x)[1] if isinstance(x, Tensor) else None) for value in args])
    restore = level.outside()
    try:
        result = rule(BatchInfo(level.size, level.randomness), dims, *values, **kwargs)
    finally:
        restore()
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise RuntimeError(f"[{name}] its vmap rule must return (out, out_dims), got {got}.")
    out, out_dims = result
    ends = broadcast_prefix(out_dims, out, what=f"[{name}] out_dims", of="the result")
    return unflatten(out, [_from_rule(level, name, leaf, dim) for leaf, dim in zip(flatten(out), ends)])


def _from_rule(level: BatchLevel, name: str, leaf: Any, dim: Any) -> Any:
    if dim is None or not isinstance(leaf, Tensor):
        return leaf
    wrong = isinstance(dim, bool) or not isinstance(dim, int) or not -leaf.ndim <= dim < leaf.ndim
    if wrong or leaf.shape[dim] != level.size:
        raise RuntimeError(
            f"[{name}] its vmap rule returned out_dims {dim} for a result of shape {leaf.shape}: that dimension must "
            f"have the length {level.size} of the batch; None says that a result is not batched."
        )
    return level.batch(leaf, dim % leaf.ndim)


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply ``function`` to an argument, or to each item of a container that holds tensors."""
    leaves = flatten(value)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        return function(value)
    return unflatten(value, [function(leaf) for leaf in leaves])


def _by_parts(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the composite's function: its parts have batching rules."""
    facet = operator.facets.get("Composite")
    if facet is not None:
        return facet.function(*args, **kwargs)
    return operator.kernels[DispatchKey.CompositeImplicitAutograd][-1].function(*args, **kwargs)


def _loop(
    level: BatchLevel, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function for every sample; those of a chunk draw in turn with the others (Note [Random chunks])."""
    if level.size == level.total:
        return _one_by_one(level, name, function, args, kwargs)
    number, level.loops = level.loops, level.loops + 1
    if number == len(level.drawn):  # the first chunk, which finds out what a sample draws
        level.drawn.append({})
    for generator, count in level.drawn[number].items():
        generator.skip(level.first * count)
    before: dict[Generator, GeneratorState] = {}
    restore = note_draws(before)
    try:
        result = _one_by_one(level, name, function, args, kwargs)
    finally:
        restore()
    for generator, state in before.items():
        count, rest = divmod(generator.get_state().offset - state.offset, level.size)
        if not rest:
            level.drawn[number][generator] = count
            generator.skip((level.total - level.first - level.size) * count)
    return result


def _one_by_one(
    level: BatchLevel, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if level.size == 0:
        raise RuntimeError(
            f"[{name}] has no batching rule, and vmap over a batch of size 0 cannot find out what it returns: give it "
            f"a rule with tk.library.register_vmap({name!r}, rule)."
        )
    LOOPS[name] += 1
    if len(LOOPS) > MOST_NAMES:
        for known in [known for known in LOOPS if "::" in known and known not in registry.operators]:
            del LOOPS[known]
    leaves = flatten((args, kwargs))
    split = [level.split(leaf) for leaf in leaves]
    results = []
    same: list[Any] = []
    structure: Any = None
    restore = level.outside()
    try:
        for b in range(level.size):
            sample = [value if dim is None else select_index(value, dim, b) for value, dim in split]
            positional, keywords = unflatten((args, kwargs), sample)
            result = function(*positional, **keywords)
            out = flatten(result)
            results.append(out)
            if b == 0:  # a result that is an argument, changed in place
                places = {id(value): i for i, value in enumerate(sample) if isinstance(value, Tensor)}
                same = [places.get(id(leaf)) if isinstance(leaf, Tensor) else None for leaf in out]
                structure = result
        stacked = []
        for k, column in enumerate(zip(*results, strict=True)):
            place = same[k]
            stacked.append(leaves[place] if place is not None else _stacked(level, name, column))
    finally:
        restore()
    return unflatten(structure, stacked)


def _stacked(level: BatchLevel, name: str, column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, Tensor):
        for other in column:
            if other.shape != first.shape:
                raise RuntimeError(
                    f"[{name}] under vmap its results have different shapes, {first.shape} and {other.shape}, and "
                    "cannot be stacked."
                )
        return level.batch(stack(list(column), axis=0), 0)
    for other in column:
        if other is not first and other != first:
            raise RuntimeError(
                f"[{name}] under vmap its results differ from sample to sample in something that is not a tensor "
                f"({first!r} and {other!r}): that cannot be stacked."
            )
    return first
