"""The rows layout, zero size, determinism and backends: variations that must not change the values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...core.device import device_types, to_device
from ...core.tensor import Tensor
from ...core.tree import flatten
from ...dispatch.errors import MissingKernelError
from ...dispatch.tags import Tag
from .contract import compare_with_fake, fake_results, other_sizes, refuses_values
from .derivative_rows import Derivatives
from .gradient_comparison import floating_results, random_gradients
from .labels import Labelled, host_values, quote_all
from .sample import Failure, Sample, Skipped, described, is_deliberate

__all__ = ["apart", "check_backends", "check_determinism", "check_layout", "check_zero_size", "differing", "rolled"]

_TAKEOVERS: Final = 5  # differences by rounding that are tolerated while compiled kernels take over
_ULPS: Final = 64  # allowed difference of sums in different orders, relative to the largest value
_LAYOUT_RAISES: Final = (
    "with {what} the call raises {error}. Use the tensor's strides, or copy first (np.ascontiguousarray(x.numpy())), "
    "or define the operator with the tag 'needs_exact_strides'."
)


def apart(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any], *, exact: bool = False) -> str:
    """Describe how two arrays differ; return "" if they are equal up to rounding, or bitwise if ``exact``.

    >>> apart(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    'at index (1,): 2.0 and 2.5'
    """
    if one.shape != two.shape:
        return f"shapes {one.shape} and {two.shape}"
    if one.dtype != two.dtype:
        return f"dtypes {one.dtype} and {two.dtype}"
    same = (one == two) | ((one != one) & (two != two))
    if not exact and one.dtype.kind in "fc" and one.size:
        eps = float(np.finfo(one.dtype).eps)
        with np.errstate(all="ignore"):
            size = np.abs(two)
            largest = float(np.max(size[np.isfinite(size)], initial=0.0))
            same |= np.abs(one - two) <= _ULPS * eps * (size + largest)
    if np.all(same):
        return ""
    index = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
    return f"at index {index}: {one[index]!s} and {two[index]!s}"


def _same_plain(one: Any, two: Any, exact: bool) -> bool:
    """Return whether two values other than tensors are equal; numbers up to rounding in single precision."""
    if isinstance(one, (float, complex)) and isinstance(two, (float, complex)) and not exact:
        return bool(np.isclose(one, two, rtol=1e-4, atol=1e-6, equal_nan=True))
    return one is two or bool(one == two) or bool(one != one and two != two)


def differing(one: list[Labelled], two: list[Labelled], *, exact: bool = False) -> tuple[str, str] | None:
    """Return the first result that differs, and a description of the difference."""
    if len(one) != len(two):
        return "the call", f"{len(one)} and {len(two)} results"
    for (label, first), (_, second) in zip(host_values(one), host_values(two)):
        arrays = [isinstance(value, np.ndarray) for value in (first, second)]
        if all(arrays):
            difference = apart(first, second, exact=exact)
        elif any(arrays):
            difference = f"types {type(first).__name__} and {type(second).__name__}"
        else:
            difference = "" if _same_plain(first, second, exact) else f"{first!r} and {second!r}"
        if difference:
            return label, difference
    return None


def rolled(array: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """Return other values of the same set: rolled, or scaled a little if that leaves floats as they are."""
    moved = np.roll(array, number)
    if number and array.dtype.kind in "fc" and np.array_equal(moved, array):
        return np.asarray(array * (1 - number / 32)).astype(array.dtype)
    return moved


# ---- determinism


def check_determinism(sample: Sample) -> str | None:
    """Check that equal calls give bitwise equal results; fix the seed from now on if the operator is tagged."""
    random = Tag.NONDETERMINISTIC in sample.operator.tags
    if random:
        sample.fix_seed()
    found = _unequal(sample)
    if random:
        if found is not None:
            raise Skipped("tagged nondeterministic, and it draws other numbers than those of tk.random")
        return "at a fixed seed, because it is tagged nondeterministic"
    for _ in range(_TAKEOVERS):
        if found is None or not found[2]:
            break
        time.sleep(0.05)  # a compiled kernel may have taken over between two calls, which happens only once
        found = _unequal(sample)
    if found is None:
        return None
    raise Failure(
        f"two calls with equal arguments gave different results ({found[0]} {found[1]}): make the kernel deterministic "
        "(no state, no unseeded random numbers, no uninitialised memory), or define the operator with the tag "
        "'nondeterministic'."
    )


def _unequal(sample: Sample) -> tuple[str, str, bool] | None:
    """Return what differs between equal calls, how, and whether only by rounding."""
    frozen = host_values(sample.results(sample.tensors()))
    for _ in range(3):
        again = host_values(sample.results(sample.tensors()))
        found = differing(frozen, again, exact=True)
        if found is not None:
            return (*found, differing(frozen, again) is None)
    return None


# ---- layout


def _transposed(tensor: Tensor) -> Tensor:
    axes = tuple(reversed(range(tensor.ndim)))
    return tk.permute_dims(tk.permute_dims(tensor, axes).clone(), axes)


def _strided(tensor: Tensor) -> Tensor:
    """Return a window on every second element of a larger tensor."""
    return _window(tensor)[0]


def _window(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the window and the larger tensor, whose other elements hold values that would show in a result."""
    values = tensor.numpy()
    larger = np.full([2 * n + 1 for n in values.shape], _unlikely(values.dtype), values.dtype)
    window = tuple([slice(1, 2 * n, 2) for n in values.shape])
    larger[window] = values
    whole = tk.asarray(larger).to_device(tensor.device)
    return whole[window], whole


def _check_gaps(whole: Tensor, label: str, what: str) -> None:
    """Raise Failure if memory between the elements of the window was written."""
    values = np.array(whole.numpy())
    unlikely = np.asarray(_unlikely(values.dtype), values.dtype)
    values[tuple([slice(1, n - 1, 2) for n in values.shape])] = unlikely
    if not np.array_equal(values, np.broadcast_to(unlikely, values.shape), equal_nan=values.dtype.kind in "fc"):
        raise Failure(
            f"with {what} memory between the elements of '{label}' was written: the kernel ignores strides when it "
            "writes."
        )


def _unlikely(dtype: np.dtype) -> Any:
    if dtype.kind in "fc":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else 0


def _repeated(tensor: Tensor) -> Tensor:
    return tk.broadcast_to(tensor[:1].clone(), tensor.shape)


def _layouts(sample: Sample) -> Iterator[tuple[str, list[Callable[[Tensor], Tensor] | None]]]:
    """Yield a name and a change for each tensor: for all tensors that can have the layout, then for single ones."""
    sized = [i for i, a in enumerate(sample.arrays) if a.ndim and a.size]
    fitting: list[tuple[str, Callable[[Tensor], Tensor], list[int]]] = [
        ("transposed", _transposed, [i for i in sized if sample.arrays[i].ndim > 1]),
        ("strided, offset", _strided, sized),
        ("repeated (stride 0)", _repeated, [i for i in sized if not sample.leaves[i].mutable]),
    ]
    for name, change, chosen in fitting:
        groups = [chosen] if chosen else []
        if 1 < len(chosen) <= 4 or (chosen and change is _strided and len(sample.leaves) > 1):
            groups += [[i] for i in chosen[:4] if [i] != chosen]
        for group in groups:
            made = [change if i in group else None for i in range(len(sample.leaves))]
            yield f"{quote_all([sample.labels[i] for i in group])} {name}", made


def check_layout(sample: Sample, derivatives: Derivatives) -> str | None:
    """Check values, changed arguments and gradients for transposed, strided and repeated arguments."""
    if Tag.NEEDS_EXACT_STRIDES in sample.operator.tags:
        raise Skipped("tagged needs_exact_strides")
    cases = list(_layouts(sample))
    if not cases:
        raise Skipped("no tensor argument with more than one element" if sample.leaves else "no tensor argument")
    for what, changes in cases:
        dense = [np.array(a, order="C") for a in sample.arrays]
        dense = [
            np.array(np.broadcast_to(a[:1], a.shape)) if change is _repeated else a for a, change in zip(dense, changes)
        ]
        try:
            want = sample.results(sample.tensors(dense))
        except Exception:  # the operator refuses repeated values
            continue
        tensors = [t if change is None else change(t) for t, change in zip(sample.tensors(dense), changes)]
        windows = {i: _window(tensors[i]) for i, c in enumerate(changes) if c is _strided and sample.leaves[i].mutable}
        for i, (window, _) in windows.items():
            tensors[i] = window
        try:
            got = sample.results(tensors)
        except Exception as error:
            raise Failure(_LAYOUT_RAISES.format(what=what, error=described(error))) from error
        found = differing(got, want)
        if found is not None:
            raise Failure(
                f"with {what} {found[0]} differs from that of contiguous arguments of the same values ({found[1]}): "
                "the kernel ignores strides or offset. Use the tensor's strides, or copy first: "
                "np.ascontiguousarray(x.numpy())."
            )
        for i, (_, whole) in windows.items():
            _check_gaps(whole, sample.labels[i], what)
        if derivatives.differentiable:
            _check_layout_gradient(sample, dense, changes, what)
    return None


def _check_layout_gradient(
    sample: Sample, dense: list[np.ndarray[Any, Any]], changes: list[Callable[[Tensor], Tensor] | None], what: str
) -> None:
    given: list[list[np.ndarray[Any, Any] | None]] = []
    for apply in (False, True):
        tensors = [t if c is None or not apply else c(t) for t, c in zip(sample.tensors(dense), changes)]
        for i in sample.floating:
            tensors[i] = tensors[i].detach().requires_grad_()
        try:
            given.append(_gradients(sample, tensors))
        except Exception as error:
            if not apply:  # the row gradient reports it
                return
            raise Failure(_LAYOUT_RAISES.format(what=what, error=f"in backward {described(error)}")) from error
    for i, want, got in zip(sample.floating, *given):
        difference = "" if want is None or got is None else apart(got, want)
        if difference or (want is None) != (got is None):
            raise Failure(
                f"with {what} the gradient with respect to '{sample.labels[i]}' differs from that of contiguous "
                f"arguments ({difference or 'None'}): backward ignores strides or offset. Use the tensors' strides "
                "there, or copy first."
            )


def _gradients(sample: Sample, tensors: list[Tensor]) -> list[np.ndarray[Any, Any] | None]:
    with tk.enable_grad():
        results = [p.value for p in floating_results(sample.function(tensors)) if p.value.requires_grad]
        if not results:
            return [None for _ in sample.floating]
        return random_gradients(results, [tensors[i] for i in sample.floating], 1)


# ---- zero size


def _may_refuse(sample: Sample, arrays: Sequence[np.ndarray[Any, Any]], error: Exception) -> bool:
    """Return whether an error may concern something that a fake does not check: an index or a number."""
    if any(a.size and a.dtype.kind in "iub" for a in arrays):
        return True
    numbers = [leaf for leaf in flatten((sample.args, sample.kwargs)) if isinstance(leaf, int)]
    return bool(numbers) and (is_deliberate(error) or isinstance(error, IndexError))


def check_zero_size(sample: Sample, derivatives: Derivatives) -> str | None:
    """Check that arguments with a dimension of length 0 agree with the fake, or that both refuse."""
    cases = list(other_sizes(sample, lambda array, axis: np.take(array, [], axis), everything=True))
    if sample.leaves and not sample.tensor_results(sample.tensors()):
        raise Skipped("no tensor result")
    if not cases:
        raise Skipped("no tensor argument with a dimension" if sample.leaves else "no tensor argument")
    accepted = 0
    by_values = Tag.DATA_DEPENDENT_OUTPUT in sample.operator.tags
    refusals: list[Failure] = []  # deliberate ones, where the fake gives a result
    recorded = derivatives.differentiable
    if recorded:  # the row gradient reports other mistakes of backward
        _, raised = _attempt(_gradients, sample, sample.tensors(gradient=sample.floating))
        recorded = raised is None
    for arrays, together in cases:  # together: dimensions that were equal still are
        where = ", ".join(f"'{label}' of shape {a.shape}" for label, a in zip(sample.labels, arrays))
        real, raised = _attempt(sample.results, sample.tensors(arrays))
        fake, refused = _attempt(fake_results, sample, sample.tensors(arrays))
        if refused is not None and (refuses_values(refused) or by_values):
            continue
        if raised is not None and refused is None:
            if not together or _may_refuse(sample, arrays, raised):
                continue
            failure = Failure(
                f"with {where} the call raises {described(raised)}, and the fake gives {_shapes(fake)}. Handle size 0 "
                "in the kernel (usually by returning an empty tensor of that shape), or refuse it in the fake with "
                "the same error."
            )
            if not is_deliberate(raised):
                raise failure from raised
            refusals.append(failure)
        if refused is not None and raised is None:
            raise Failure(
                f"with {where} the fake raises {described(refused)}, and the real call gives {_shapes(real)}. Make "
                "both accept it, or both refuse."
            ) from refused
        if raised is not None:
            continue
        accepted += 1
        compare_with_fake(real, fake, f"with {where} ", strides=False)
        if recorded:
            try:
                _gradients(sample, sample.tensors(arrays, sample.floating))
            except Exception as error:
                if not together or _may_refuse(sample, arrays, error):
                    continue
                raise Failure(f"with {where} backward raises {described(error)}. Handle size 0 in backward.") from error
    if refusals and not accepted:  # a single dimension may be refused for a reason, as by the maximum of nothing
        raise refusals[0]
    return None if accepted else "every dimension of length 0 is refused"


def _attempt(run: Callable[..., list[Any]], *args: Any) -> tuple[list[Any], Exception | None]:
    try:
        return run(*args), None
    except Exception as error:
        return [], error


def _shapes(results: list[Labelled]) -> str:
    found = [f"shape {p.value.shape}" for p in results if isinstance(p.value, Tensor)]
    return " and ".join(found) or "a result"


# ---- backends


def check_backends(sample: Sample) -> str | None:
    """Check that every other device gives the same values, shapes and dtypes."""
    home = sample.device
    others = [name for name in device_types() if name not in ("meta", home.type)]
    if not sample.leaves:
        raise Skipped("no tensor argument")
    if len({leaf.device.type for leaf in sample.leaves}) > 1:
        raise Skipped("the sample has tensors on several devices")
    if not others:
        raise Skipped(f"'{home.type}' is the only device here")
    want = sample.results(sample.tensors())
    notes = []
    for name in others:
        try:
            device = to_device(name)
            tensors = [t.to_device(device) for t in sample.tensors()]
        except Exception as error:
            notes.append(f"'{name}' cannot be used here ({described(error)})")
            continue
        kernel = sample.operator.slot(device.key).kernel
        place = f" ({kernel.site})" if kernel is not None and kernel.site and not kernel.boxed else ""
        try:
            got = sample.results(tensors)
        except MissingKernelError:
            notes.append(f"no kernel for '{name}'")
            continue
        except Exception as error:
            raise Failure(
                f"on '{name}' the call raises {described(error)}. Correct the kernel for '{name}'{place}, or remove it "
                "so that it falls back."
            ) from error
        for one, two in zip(want, got):
            if isinstance(two.value, Tensor) and two.value.device.type != name and one.value.device.type == home.type:
                raise Failure(
                    f"on '{name}' {two.label} is on the device '{two.value.device}': return a tensor on the device of "
                    "the arguments."
                )
        _compare_backends(want, got, name, home.type, place)
    return "; ".join(notes) or None


def _compare_backends(want: list[Labelled], got: list[Labelled], device: str, home: str, place: str) -> None:
    def differs(result: str, what: str, found: Any, expected: Any) -> Failure:
        return Failure(
            f"on '{device}' {result} has {what} {found}, on '{home}' {expected}: correct the kernel for "
            f"'{device}'{place}."
        )

    for one, two in zip(want, got):
        if not isinstance(one.value, Tensor) or not isinstance(two.value, Tensor):
            continue
        for what in ("shape", "dtype"):
            expected, found = getattr(one.value, what), getattr(two.value, what)
            if expected != found:
                raise differs(one.label, what, found, expected)
    found_difference = differing(got, want)
    if found_difference is not None:
        label, difference = found_difference
        mine, _, theirs = difference.rpartition(" and ")
        raise differs(label, "the value", mine, theirs)
