"""Sample inputs of an operator, generated from its declaration.

Note [Where samples come from]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Pointwise operators are sampled inside their ``domain``, with floats at a distance from whole numbers, and with operands
that broadcast, have gaps, are transposed, empty or 0-d. Reductions are sampled over various axes in the same layouts,
and in-place variants like their functional operators. Other operators declare their inputs in a ``SampleInputs`` facet,
in double precision; each of these is also generated in other layouts. Integer arrays in it are indices and keep their
dtype; other arrays are converted to the requested dtype. Guarded by ``tests/testing/test_testing_samples.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tenkey as tk

from ..core.dtypes.names import to_dtype
from ..core.tensor import Tensor
from ..core.tree import flatten, map_tensors, tensors_in, tree_map
from ..dispatch.errors import ArgumentError
from ..dispatch.operator import Operator
from ..dispatch.schema import FunctionSchema
from ..ops.builtin.shape.views import broadcast_to
from ..ops.declare.facets import Pointwise, Reduce, SampleInputs

__all__ = ["LAYOUTS", "SampleInput", "accepts", "arranged", "samples"]

_ROWS, _COLUMNS = 3, 4
_DISTANCE: Final = 1e-3
_PLAIN: Final = {"int": 2, "bool": True, "str": "", "complex": 0.5 + 0.5j}


@dataclass(frozen=True)
class SampleInput:
    """One call of an operator: ``operator.call(*sample.args, **sample.kwargs)``; ``name`` describes its layout.

    >>> sample = SampleInput((tk.ones(2), 3), {"axis": 0}, "plain")
    >>> sample.map(lambda tensor: tensor.shape)
    SampleInput(args=((2,), 3), kwargs={'axis': 0}, name='plain')
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def map(self, function: Callable[[Tensor], Any]) -> SampleInput:
        """Return the same call with ``function(tensor)`` in place of every tensor, including those in lists."""
        return map_tensors(function, self)  # type: ignore[no-any-return]

    def tensors(self) -> list[Tensor]:
        """Return the tensors of the call in order, including those in lists."""
        return tensors_in(self)


def samples(operator: Operator, rng: np.random.Generator, dtype: Any = None) -> Iterator[SampleInput]:
    """Yield sample inputs of ``operator``, whose data has ``dtype`` (default: float32), on the CPU.

    Shapes are small, with at most some dozens of elements. There are no samples for dtypes that the operator refuses.
    Raises ArgumentError for an operator that declares no inputs (Note [Where samples come from]).

    >>> made = list(samples(tk.add.operator, np.random.default_rng(0), tk.float64))
    >>> [t.shape for t in made[0].tensors()], made[0].name
    ([(3, 4), (3, 4)], 'contiguous')
    >>> sorted({sample.name for sample in made})[:3]
    ['0-d', 'broadcast', 'broadcast 0-d']
    """
    wanted = to_dtype("float32" if dtype is None else dtype)
    facets = _functional(operator).facets
    if not accepts(operator, wanted):
        return
    if "SampleInputs" in operator.facets:
        yield from _declared(operator.facets["SampleInputs"], rng, wanted)
    elif "Pointwise" in facets:
        make = _pointwise if _functional(operator) is operator else _inplace
        facet: Pointwise = facets["Pointwise"]
        axes = [axis for axis in facet.indices.values() if axis is not None]
        least = max([axis + 1 if axis >= 0 else -axis for axis in axes], default=0)
        yield from [x for x in make(facet, rng, wanted) if max([t.ndim for t in x.tensors()]) >= least]
    elif "Reduce" in facets:
        yield from _reduction(operator, facets["Reduce"], rng, wanted)
    else:
        raise ArgumentError(
            f"[samples] {operator.name} has no Pointwise, Reduce or SampleInputs facet, which would declare its "
            "inputs: give its declaration sample_inputs=lambda rng: [((arguments,), {})]."
        )


def _functional(operator: Operator) -> Operator:
    """Return the operator that an in-place variant is derived from, or the operator itself."""
    inplace = operator.facets.get("Inplace")
    return operator if inplace is None or inplace.functional is None else inplace.functional


def accepts(operator: Operator, dtype: Any) -> bool:
    """Return whether an operator is defined for a dtype: whether its rules accept a sample without values.

    >>> accepts(tk.floor.operator, tk.float32), accepts(tk.floor.operator, tk.complex64)
    (True, False)
    """
    wanted = to_dtype(dtype)
    source = _functional(operator)
    facet = source.facets.get("Pointwise") or source.facets.get("Reduce")
    try:
        if "SampleInputs" in operator.facets:
            rng = np.random.default_rng(0)
            first = next(iter(_declared(operator.facets["SampleInputs"], rng, wanted)), None)
            if first is not None and first.tensors():
                moved = first.map(lambda tensor: tensor.to_device("meta"))
                operator.call(*moved.args, **moved.kwargs)
        elif facet is not None:
            _, result = facet.promotion.dtypes(source.name, (wanted,))
            return source is operator or bool(result == wanted)
    except TypeError:
        return False
    except NotImplementedError:  # the shape of the result depends on values
        return True
    return True


# ---- values and layouts


def _values(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, domain: tuple[float, float]
) -> np.ndarray[Any, Any]:
    """Draw values of ``dtype`` in ``domain``; complex numbers get imaginary parts in addition."""
    low, high = domain
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        least = math.ceil(low) if dtype.kind == "i" else max(math.ceil(low), 0)
        most = max(math.floor(high), least)  # a domain within (0, 1) contains no whole number
        return np.asarray(rng.integers(least, most, shape, np.int64, endpoint=True).astype(dtype))
    drawn = np.asarray(rng.uniform(low, high, shape))
    # Kinks and steps lie at whole numbers (0 first of all): a central difference must not straddle one.
    near = np.abs(drawn - np.rint(drawn)) < _DISTANCE
    drawn = np.where(near, drawn + 2 * _DISTANCE * np.sign((low + high) / 2 - drawn), drawn)
    if dtype.kind == "c":
        return np.asarray((drawn + 1j * rng.uniform(-1, 1, shape)).astype(dtype))
    return np.asarray(drawn.astype(dtype))


def _strided(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the same values as every second element of a larger array, starting at its second."""
    larger = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
    every_second: tuple[Any, ...] = (*[slice(1, None, 2)] * array.ndim, ...)
    window: np.ndarray[Any, Any] = larger[every_second]
    window[...] = array
    return window


LAYOUTS: Final[dict[str, Callable[[Any], Any]]] = {
    "contiguous": lambda array: np.array(array, order="C"),  # np.ascontiguousarray gives a 0-d array one dimension
    "transposed": lambda array: np.asfortranarray(array) if array.ndim > 1 else array,
    "strided": _strided,
}


def _convert(value: Any, rng: np.random.Generator, dtype: np.dtype, layout: Callable[[Any], Any]) -> Any:
    """Replace the arrays in a sample's value by tensors."""
    return tree_map(
        lambda leaf: tk.asarray(layout(_as_dtype(leaf, rng, dtype))) if isinstance(leaf, np.ndarray) else leaf, value
    )


def _as_dtype(array: np.ndarray[Any, Any], rng: np.random.Generator, dtype: np.dtype) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "iub":  # indices, masks
        return array
    if dtype.kind == "c":
        beside = 0 if array.dtype.kind == "c" else 1j * rng.uniform(-1, 1, array.shape)
        return np.asarray(array + beside, dtype)
    real = np.asarray(array.real)
    if dtype.kind == "b":
        return np.asarray(real > 0)
    if dtype.kind in "iu":
        whole = np.rint(3 * real)
        return np.asarray((np.abs(whole) if dtype.kind == "u" else whole).astype(dtype))
    return np.asarray(real.astype(dtype))


# ---- one generator for each kind of declaration


def _declared(facet: SampleInputs, rng: np.random.Generator, dtype: np.dtype) -> Iterator[SampleInput]:
    for args, kwargs in facet.make(rng):
        sizes = [leaf.size for leaf in flatten((args, kwargs)) if isinstance(leaf, np.ndarray)]
        layouts = list(LAYOUTS.items())[: 3 if any(sizes) else 1]
        for name, layout in layouts:
            state = rng.bit_generator.state  # all layouts have the same values
            made = SampleInput(
                tuple([_convert(value, rng, dtype, layout) for value in args]),
                {key: _convert(value, rng, dtype, layout) for key, value in kwargs.items()},
                name if not sizes or any(sizes) else "empty",
            )
            if name != layouts[-1][0]:
                rng.bit_generator.state = state
            yield made


def _pointwise(facet: Pointwise, rng: np.random.Generator, dtype: np.dtype) -> Iterator[SampleInput]:
    """Yield operands of one shape in several layouts, then operands that broadcast."""
    count = len(facet.tensors)
    full = (_ROWS, _COLUMNS)
    for name, layout in LAYOUTS.items():
        yield _operands(facet, rng, dtype, [full] * count, name, layout)
    yield _operands(facet, rng, dtype, [(0, _COLUMNS)] * count, "empty")
    yield _operands(facet, rng, dtype, [()] * count, "0-d")
    yield _operands(facet, rng, dtype, [(2, 1, 5)] * count, "three dimensions")
    # stride 0: one row repeated
    # asarray copies broadcast arrays, since NumPy marks them read-only: broadcast the tensor again
    repeated = _operands(facet, rng, dtype, [(1, _COLUMNS)] * count, "repeated", lambda a: np.broadcast_to(a, full))
    yield repeated.map(lambda tensor: broadcast_to(tensor[:1], tensor.shape))
    if count < 2:
        return
    for at in range(count):
        small: list[tuple[int, ...]]
        for name, shape in (("broadcast", (_COLUMNS,)), ("broadcast", (_ROWS, 1)), ("broadcast 0-d", ())):
            small = [shape if i == at else full for i in range(count)]
            yield _operands(facet, rng, dtype, small, name)
    yield _operands(facet, rng, dtype, [full, (2, 1, 1), (_COLUMNS,)][:count], "broadcast all")
    yield _operands(facet, rng, dtype, [(0, 1), (1, _COLUMNS), ()][:count], "empty broadcast")


def _operands(
    facet: Pointwise,
    rng: np.random.Generator,
    dtype: np.dtype,
    shapes: Sequence[tuple[int, ...]],
    name: str,
    layout: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = np.asarray,
) -> SampleInput:
    """Make arguments of a pointwise operator: tensors of these shapes, and a value in the domain for each number."""
    remaining = iter(shapes)
    values: list[Any] = []
    for argument in facet.schema.arguments:
        if argument.name in facet.tensors:
            kind = np.dtype(bool) if argument.name in facet.boolean else dtype
            values.append(tk.asarray(layout(_values(rng, next(remaining, shapes[-1]), kind, facet.domain))))
        elif argument.has_default:
            values.append(argument.default)
        else:
            values.append(_PLAIN.get(str(argument.type), float(rng.uniform(*facet.domain))))
    return arranged(facet.schema, values, name)


def arranged(schema: FunctionSchema, values: Sequence[Any], name: str) -> SampleInput:
    """Return a call with a value for each argument of a schema."""
    pairs = list(zip(schema.arguments, values, strict=True))
    kwargs = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    return SampleInput(tuple([value for argument, value in pairs if not argument.kwarg_only]), kwargs, name)


def _inplace(facet: Pointwise, rng: np.random.Generator, dtype: np.dtype) -> Iterator[SampleInput]:
    """Yield the samples of the functional operator whose result fits into the first operand."""
    for sample in _pointwise(facet, rng, dtype):
        target, *others = sample.tensors()
        fits = np.broadcast_shapes(target.shape, *[t.shape for t in others]) == target.shape
        if fits and sample.name != "repeated":  # writing to elements that share their memory is not defined
            yield sample


def _reduction(operator: Operator, facet: Reduce, rng: np.random.Generator, dtype: np.dtype) -> Iterator[SampleInput]:
    def tensor(shape: tuple[int, ...], layout: Callable[[Any], Any] = np.asarray) -> Tensor:
        return tk.asarray(layout(_values(rng, shape, dtype, facet.domain)))

    shape = (_ROWS, _COLUMNS, 2)
    for axis in (None, 0, -1, (0, 2), ()):
        for keepdims in (False, True):
            yield SampleInput((tensor(shape),), {"axis": axis, "keepdims": keepdims}, "contiguous")
    for name, layout in list(LAYOUTS.items())[1:]:
        for axis in (None, 1):
            yield SampleInput((tensor(shape, layout),), {"axis": axis}, name)
    yield SampleInput((tensor(()),), {}, "0-d")
    yield SampleInput((tensor((0, 3)),), {"axis": 1}, "empty")
    if facet.identity is not None:
        yield SampleInput((tensor((0, 3)),), {"axis": 0}, "empty")
        yield SampleInput((tensor((0,)),), {}, "empty")
    if any(argument.name == "dtype" for argument in operator.schema.arguments):
        wide = np.dtype("complex128" if dtype.kind == "c" else "float64")
        yield SampleInput((tensor(shape),), {"axis": 0, "dtype": wide}, "dtype")
