"""The class of the arrays of ``tenkey.numpy``.

Note [Arrays with NumPy's rules]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``ndarray`` is a subclass of ``Tensor`` without a handler and without attributes of its own, so that a tensor becomes
one by a change of its class, which costs 50 ns. The class decides by which rules operators and methods compute: those
of ``Tensor`` follow the array API standard and PyTorch, those of ``ndarray`` NumPy (dtypes of results, ``x.sort()`` in
place, ``x += y`` on a 0-d array makes a new one, as on NumPy's scalars). Functions of ``tenkey.numpy`` return
instances, whatever tensors they are given; functions of ``tk`` return plain tensors. Memory, storage, history and
dispatch are those of any tensor: an ``ndarray`` can be given wherever a tensor is expected. Methods that only tensors
have (``x.exp()``, ``x.detach()``) return arrays too. A function given to ``tk.grad``, ``tk.vmap`` or another transform
gets arrays where the caller passed arrays (Note [Classes of wrappers]), and the results, the derivatives and ``x.grad``
are arrays. Guarded by ``tests/numpy/test_array_class.py``.

Note [Scalars and 0-d arrays]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Where NumPy returns a scalar (an element, a full reduction, a ufunc of numbers), so does ``tenkey.numpy``, and it is
NumPy's own: ``isinstance(x[0], float)`` is true, and its arithmetic costs what NumPy's costs. It has no place for a
graph, a device or the value of a sample, so the result is a 0-d array if it requires a gradient, is on another device,
has a dtype that NumPy lacks, or is computed while a transform, a mode or a trace is active. HIPS autograd decides in
the same way. Under ``no_grad`` results require no gradient. Functions that return 0-d arrays in NumPy (``reshape``,
``where``; ``ZERO_D`` in ``result_rules.py``) return them here. The compiled core applies the rule in ``result_of``,
``of_number``, ``reduce`` and ``subscript``. Guarded by ``tests/numpy/test_scalars.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..core.plans import use_array_class
from ..core.tensor import Tensor, cpu_word
from ..core.tree import tree_map
from ..core.word import DTYPE_TRAIT
from ..core.wrapper import Wrapper, classed, stand_in, wrapper_classes
from ..dispatch.local_state import SILENT, get_state

__all__ = ["as_ndarray", "as_ndarrays", "as_results", "as_scalars", "gives_scalars", "is_scalar", "ndarray"]


if TYPE_CHECKING:
    from ._array_members import ArrayMembers as _Members  # a stub: Note [Generated stubs] of tools/make_stubs.py
else:

    class _Members:
        __slots__ = ()


class ndarray(_Members, Tensor):  # NumPy's name for it
    """An array with NumPy's rules: the class of what the functions of ``tenkey.numpy`` return.

    It is a Tensor in every other respect: with gradients, on any device. Create one with ``tenkey.numpy.array`` or
    another function of the namespace.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.array([1, 2, 3])
    >>> type(x).__name__, (x / 2).dtype, (x + np.float32(1)).dtype
    ('ndarray', dtype('float64'), dtype('float64'))
    """

    __slots__ = ()


use_array_class(ndarray)


def as_ndarray(x: Any) -> Any:
    """Return a plain tensor that a user may hold as an ``ndarray``: a view with the same history. Others stay."""
    if x.__class__ is Wrapper:
        return classed(stand_in(x), ndarray)
    return x.as_subclass(ndarray) if x.__class__ is Tensor else x


def as_ndarrays(result: Any, given: tuple[Any, ...] = ()) -> Any:
    """Return a result with its plain tensors as ``ndarray``; those among ``given`` are not changed themselves.

    NumPy's scalars and arrays that NumPy computed stay what they are.
    """
    if result.__class__ is Tensor:
        if any(result is x for x in given):
            return result.as_subclass(ndarray)
        result.__class__ = ndarray
        return result
    if isinstance(result, (tuple, list)):
        return tree_map(lambda x: as_ndarrays(x, given), result)
    if result.__class__ is Wrapper:
        return classed(stand_in(result) if any(result is x for x in given) else result, ndarray)
    return result


_SCALAR_WORDS: Final = frozenset([cpu_word(dtype) for dtype in DTYPE_TRAIT if dtype.kind in "biufc"])


def gives_scalars() -> bool:
    """Return whether no transform, mode or trace is active: Note [Scalars and 0-d arrays]."""
    state = get_state()
    return state is None or state is SILENT


def is_scalar(x: ndarray) -> bool:
    """Return whether NumPy's scalar can stand for a 0-d array: Note [Scalars and 0-d arrays]."""
    return not x._data.shape and x._word in _SCALAR_WORDS and gives_scalars()


def as_scalars(result: Any) -> Any:
    """Return a result with NumPy's scalars for its 0-d arrays, where they can stand for them."""
    if result.__class__ is ndarray:
        return result._data[()] if is_scalar(result) else result
    return tree_map(as_scalars, result) if isinstance(result, tuple) else result


def as_results(result: Any, given: tuple[Any, ...] = ()) -> Any:
    """Return a result as ``as_ndarrays`` does, with NumPy's scalars for 0-d arrays."""
    return as_scalars(as_ndarrays(result, given))


class WrappedArray(Wrapper, ndarray):  # type: ignore[misc]  # Wrapper's detach and grad are annotated as Tensor's
    """An array inside a transform (Note [Classes of wrappers]): a Wrapper with the operators and methods of arrays."""

    __slots__ = ()
    stands_for = ndarray
    __hash__ = object.__hash__  # a 0-d array has the hash of its number, which a wrapper need not have

    def __getitem__(self, index: Any) -> Any:
        return as_ndarrays(super().__getitem__(index), (self,))

    def __str__(self) -> str:
        return Tensor.__str__(self)

    def __format__(self, spec: str) -> str:
        return Tensor.__format__(self, spec)


wrapper_classes.update({ndarray: WrappedArray, WrappedArray: WrappedArray})
