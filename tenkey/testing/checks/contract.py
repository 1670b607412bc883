"""The rows schema and fake: results that the schema declares, and results without values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ...core.device import META
from ...core.storage import StridedArray
from ...core.tensor import Tensor, make_tensor, shares_storage, word_for
from ...core.tree import flatten, map_tensors
from ...dispatch.keys import DispatchKey
from ...dispatch.tags import Tag
from ...library.kernel_checks import KernelChecks, may_return_argument
from .labels import Labelled, first_difference, leaves_of, results_of
from .sample import Failure, Sample, Skipped, described

__all__ = [
    "BaseCallFailure", "check_fake", "check_schema", "compare_with_fake", "fake_results", "other_sizes",
    "refuses_values",
]  # fmt: skip

_NO_FAKE: Final = (
    "there is no fake: without values the call raises {error}. Register one with tk.library.register_fake({name!r}), a "
    "function of the same arguments that returns tk.empty(shape, dtype=..., device=x.device); if the shape depends on "
    "values, one that raises NotImplementedError and says so."
)
_FAKE_RAISES: Final = (
    "{where}the fake raises {error}, where the real call gives a result. Correct the function given to register_fake."
)


class BaseCallFailure(Failure):
    """The sample's call itself raised: nothing else can be judged."""


# ---- schema


def check_schema(sample: Sample) -> str | None:
    """Call the operator once; check the types of the results, and which arguments are changed or shared."""
    tensors = sample.tensors()
    before = [np.array(t.detach().numpy()) for t in tensors]
    versions = [t._version for t in tensors]
    remaining = iter(tensors)
    args, kwargs = map_tensors(lambda _: next(remaining), (sample.args, sample.kwargs))
    labels = [leaf.label for leaf in leaves_of((args, kwargs), "arguments")]
    error = None
    result = None
    try:
        result = sample.call(*args, **kwargs)
    except Exception as raised:
        error = raised
    try:
        sample.wait()
    except Exception as late:
        raise BaseCallFailure(
            f"the call leads to {described(late)}. Correct the kernel, or give a sample that the operator accepts."
        ) from late
    notes = []
    for leaf, tensor, values, version in zip(sample.leaves, tensors, before, versions):
        changed = tensor.detach().numpy()
        same_bytes = values.tobytes() == changed.tobytes()
        if not leaf.mutable and not same_bytes:
            wrong = first_difference(values, changed)
            raise Failure(
                f"argument '{leaf.label}' was changed (first {wrong}), which the schema does not say: add it to "
                "mutates_args, or work on a copy (x.clone())."
            )
        if not leaf.mutable and tensor._version != version:
            raise Failure(
                f"argument '{leaf.label}' was written to in place (its version went up), which the schema does not "
                "say: add it to mutates_args, or use the functional operator."
            )
        if tensor.requires_grad and not leaf.mutable:
            raise Failure(
                f"argument '{leaf.label}' requires a gradient after the call but did not before: do not call "
                "requires_grad_ on an argument."
            )
        if leaf.mutable and error is None and same_bytes and values.size:
            notes.append(f"'{leaf.label}' is declared as changed and was not changed by this call")
    if error is not None:
        raise BaseCallFailure(
            f"the call raises {described(error)}. Give a sample that the operator accepts, or correct the kernel."
        ) from error
    if [leaf.label for leaf in leaves_of((args, kwargs), "arguments")] != labels:
        label = _changed_list(sample, args, kwargs)
        raise Failure(f"the list '{label}', an argument, was changed: work on a copy of it, list({label}).")
    _check_types(sample, result)
    _check_aliases(sample, result, tensors)
    _check_kept(sample, result, tensors)
    return "; ".join(notes) or None


def _changed_list(sample: Sample, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    names = [a.name for a in sample.operator.schema.arguments]
    for name, one, two in zip(names, sample.args, args):
        if len(flatten(one)) != len(flatten(two)):
            return name
    return next((k for k in kwargs if len(flatten(sample.kwargs[k])) != len(flatten(kwargs[k]))), "")


def _check_types(sample: Sample, result: Any) -> None:
    structure = sample.operator.facets.get("Structure")
    try:
        packed = result if structure is None else structure.pack_result(result)
        KernelChecks(sample.operator, sample.call, 0).result(packed)
    except TypeError as error:
        raise Failure(str(error).partition("] ")[2] or str(error)) from None


def _check_aliases(sample: Sample, result: Any, tensors: Sequence[Tensor]) -> None:
    if may_return_argument(sample.operator):
        return
    made = [part for part in results_of(result) if isinstance(part.value, Tensor)]
    for part in made:
        for leaf, tensor in zip(sample.leaves, tensors):
            if part.value is tensor or (tensor.size and shares_storage(part.value, tensor)):
                same = part.value is tensor
                raise Failure(
                    f"{part.label} is {'' if same else 'a view of '}the argument '{leaf.label}'"
                    f"{' itself' if same else ''}: an operator returns new tensors. Return "
                    f"{f'{leaf.label}.clone()' if same else 'a copy (clone() it)'}, or declare the alias in the "
                    f"schema: 'Tensor(a) {leaf.label}' and '-> Tensor(a)'."
                )
    for number, part in enumerate(made):
        for other in made[:number]:
            if part.value.size and shares_storage(part.value, other.value):
                raise Failure(f"{other.label} and {part.label} share their memory: clone() one of them.")


def _check_kept(sample: Sample, result: Any, tensors: Sequence[Tensor]) -> None:
    """Raise Failure if another call returns memory that this one returned: a cache, or a buffer for results."""
    first = [part for part in results_of(result) if isinstance(part.value, Tensor) and part.value.size]
    calls = [sample.tensors()]
    if not sample.operator.schema.is_mutable and not may_return_argument(sample.operator):
        calls.append(list(tensors))  # for a cache that recognizes tensors
    for given in calls:
        try:
            later = [part for part in results_of(sample.run(given)) if isinstance(part.value, Tensor)]
        except Exception:  # the row determinism reports it
            return
        for one in first:
            for two in later:
                if one.value is two.value or shares_storage(one.value, two.value):
                    raise Failure(
                        f"two calls returned the same memory as {one.label}: the operator keeps it (a cache, or a "
                        "buffer for results), so a change in place of one result would change the other. Return a "
                        "copy: clone() it."
                    )


# ---- fake


def _without_values(tensor: Tensor) -> Tensor:
    """Return a tensor on ``meta`` with the same shape, dtype and strides."""
    strides = tuple([n * tensor.itemsize for n in tensor.strides])
    return make_tensor(StridedArray(None, tensor.shape, tensor.dtype, META, strides), word_for(META, tensor.dtype))


def fake_results(sample: Sample, tensors: Sequence[Tensor]) -> list[Labelled]:
    """Return the operator's results for the tensors without their values."""
    return sample.results([_without_values(t) for t in tensors])


def refuses_values(error: Exception) -> bool:
    """Return whether a fake refuses because the result depends on values."""
    return isinstance(error, NotImplementedError) and "depend" in str(error)


def check_fake(sample: Sample) -> str | None:
    """Compare shape, dtype, strides and device with the fake, for the sample and for other sizes."""
    if not sample.leaves:
        return _check_factory(sample)
    tensors = sample.tensors()
    real = sample.results(tensors)
    try:
        fake = fake_results(sample, sample.tensors())
    except Exception as error:
        if refuses_values(error) or Tag.DATA_DEPENDENT_OUTPUT in sample.operator.tags:
            raise Skipped(f"the shape of the result depends on values: {described(error)}") from error
        if not any(isinstance(part.value, Tensor) for part in real):
            raise Skipped("no tensor result") from error
        if sample.operator.slot(DispatchKey.Meta).rule.startswith("1"):  # there is a kernel for the device meta
            raise Failure(_FAKE_RAISES.format(where="", error=described(error))) from error
        raise Failure(_NO_FAKE.format(error=described(error), name=sample.operator.name)) from error
    dense = all(t.is_contiguous for t in tensors) or Tag.NEEDS_EXACT_STRIDES in sample.operator.tags
    compare_with_fake(real, fake, "", strides=dense)
    for arrays, where in _resized(sample):
        made = sample.tensors(arrays)
        try:
            real = sample.results(made)
        except Exception:  # the operator refuses these sizes
            continue
        try:
            fake = fake_results(sample, sample.tensors(arrays))
        except Exception as error:
            raise Failure(_FAKE_RAISES.format(where=where, error=described(error))) from error
        compare_with_fake(real, fake, where, strides=dense)
    return None


def _check_factory(sample: Sample) -> str | None:
    names = [a.name for a in sample.operator.schema.arguments if str(a.type) in ("Device", "Device?")]
    if not names:
        raise Skipped("no tensor argument and no device argument")
    position = [a.name for a in sample.operator.schema.arguments if not a.kwarg_only]
    if names[0] in position[: len(sample.args)]:
        raise Skipped("the sample names its device by position")
    real = results_of(sample.call(*sample.args, **sample.kwargs))
    try:
        made = sample.call(*sample.args, **{**sample.kwargs, names[0]: "meta"})
    except Exception as error:
        raise Failure(_NO_FAKE.format(error=described(error), name=sample.operator.name)) from error
    compare_with_fake(real, results_of(made), "")
    return None


def _resized(sample: Sample) -> Iterator[tuple[list[np.ndarray[Any, Any]], str]]:
    """Yield the sample with other sizes: see :func:`other_sizes`."""

    def longer(array: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
        more = array if array.shape[axis] > 1 else np.concatenate([array, array], axis)
        return np.concatenate([array, np.take(more, [0, 1], axis)], axis) if array.size else array

    for arrays, _ in other_sizes(sample, longer):
        text = ", ".join(f"'{label}' {a.shape}" for label, a in zip(sample.labels, arrays))
        yield arrays, f"with other sizes ({text}) "


def other_sizes(
    sample: Sample, resize: Callable[[np.ndarray[Any, Any], int], np.ndarray[Any, Any]], *, everything: bool = False
) -> Iterator[tuple[list[np.ndarray[Any, Any]], bool]]:
    """Yield the arrays with ``resize(array, axis)`` applied to all dimensions of one length, then to one dimension.

    ``everything`` adds the case of all dimensions. The second item tells whether equal dimensions are still equal.
    """
    arrays = sample.arrays
    lengths = sorted({n for a in arrays for n in a.shape if n > 0})[:6]
    changes = [[[axis for axis, n in enumerate(a.shape) if n == length] for a in arrays] for length in lengths]
    changes += [[list(range(a.ndim)) for a in arrays]] if everything else []
    together = len(changes)
    for i, a in enumerate(arrays[:4]):
        axes = [axis for axis in range(min(a.ndim, 4)) if a.shape[axis] > 1]
        changes += [[[axis] if j == i else [] for j in range(len(arrays))] for axis in axes]
    tried = {tuple([a.shape for a in arrays])}
    for number, chosen in enumerate(changes):
        made = [functools.reduce(resize, axes, array) for array, axes in zip(arrays, chosen)]
        shapes = tuple([a.shape for a in made])
        if shapes not in tried:
            tried.add(shapes)
            yield made, number < together


def compare_with_fake(real: list[Labelled], fake: list[Labelled], where: str, *, strides: bool = True) -> None:
    """Raise Failure if a fake's results differ from those of the real run in more than their values."""
    rule = " (computed from the arguments' shapes, not the sample's numbers)" if where else ""

    def differs(result: str, what: str, expected: Any, got: Any, rule: str = "") -> Failure:
        return Failure(
            f"{where}{result} has {what} {expected} in the real run, {got} in the fake: make the fake return {what} "
            f"{expected}{rule}."
        )

    if len(real) != len(fake):
        raise differs("the call", "a number of results of", len(real), len(fake), rule)
    for one, two in zip(real, fake):
        if not isinstance(one.value, Tensor):
            continue
        if not isinstance(two.value, Tensor):
            raise differs(one.label, "type", "Tensor", type(two.value).__name__)
        if two.value.device.type != "meta":
            raise Failure(
                f"{where}the fake gives {two.label} on the device '{two.value.device}', but its arguments are on "
                "'meta': make it with device=x.device."
            )
        compared = [("shape", one.value.shape, two.value.shape), ("dtype", one.value.dtype, two.value.dtype)]
        if strides:
            compared.append(("strides", _strides(one.value), _strides(two.value)))
        for what, expected, got in compared:
            if expected != got:
                raise differs(one.label, what, _shown(expected), _shown(got), rule if what == "shape" else "")


def _shown(value: Any) -> str:
    return str(tuple(["any" if n is None else n for n in value])) if isinstance(value, tuple) else str(value)


def _strides(tensor: Tensor) -> tuple[int | None, ...]:
    """Return the strides of the dimensions that are longer than 1; other strides have no meaning."""
    if not tensor.size:
        return ()
    return tuple([stride if n > 1 else None for n, stride in zip(tensor.shape, tensor.strides)])
