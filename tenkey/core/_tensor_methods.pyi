# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""What the declarations of operators and the layers above core put on Tensor."""

import numpy as np
from collections.abc import Callable, Sequence
from typing import Any, Self, SupportsIndex
from tenkey.autograd.tape.node import HookHandle
from tenkey.core.device import Device
from tenkey.core.tensor import Tensor
from tenkey.core.typing import ArrayLike, DTypeLike, Index, Operand, TensorLike
from tenkey.ops.builtin.sorting.search import CummaxResult, CumminResult, TopKResult


class TensorMethods:
    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
    def __abs__(self) -> Tensor:
        """Return the absolute value, for a numeric dtype; real for complex numbers. The derivative at 0 is 0."""
    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __copy__(self) -> Tensor:
        """Return a copy with its own memory, recorded in the graph like ``clone()``."""
    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Return a leaf with its own memory, the same ``requires_grad``, and a copy of ``.grad``."""
    def __divmod__(self, other: Any) -> Any:
        """``divmod(x, y)``: the pair ``(x // y, x % y)``."""
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of the memory, for ``from_dlpack`` of other libraries (array API standard)."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type (1 for the CPU) and index of the memory."""
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __format__(self, spec: str) -> str:
        """Format a 0-d tensor as a number, any other as the text of ``repr``."""
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Index) -> Tensor: ...
    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Self: ...
    def __iand__(self, other: Operand) -> Self: ...
    def __ifloordiv__(self, other: Operand) -> Self: ...
    def __ilshift__(self, other: Operand) -> Self: ...
    def __imatmul__(self, other: Operand) -> Self: ...
    def __imod__(self, other: Operand) -> Self: ...
    def __imul__(self, other: Operand) -> Self: ...
    def __invert__(self) -> Tensor:
        """Return ``~x``, bit by bit, for integers and bools."""
    def __ior__(self, other: Operand) -> Self: ...
    def __ipow__(self, other: Operand) -> Self: ...
    def __irshift__(self, other: Operand) -> Self: ...
    def __isub__(self, other: Operand) -> Self: ...
    def __itruediv__(self, other: Operand) -> Self: ...
    def __ixor__(self, other: Operand) -> Self: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor:
        """Return ``-x``, for a numeric dtype."""
    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return ``+x``: a copy, for a numeric dtype."""
    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __rdivmod__(self, other: Any) -> Any:
        """The pair ``(y // x, y % x)``."""
    def __reduce_ex__(self, protocol: Any) -> tuple[object, ...]:
        """Pickle values, dtype, device and ``requires_grad``, but neither history nor ``.grad``."""
    def __repr__(self) -> str:
        """Show values, shape, dtype, device and gradient state; of a large tensor only the edges."""
    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __round__(self, digits: SupportsIndex | None = None) -> Any:
        """``round(x)``: of one number the nearest int, as of a float; of more elements, and to digits, a tensor."""
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Index, value: Operand) -> None: ...
    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    @property
    def _version(self) -> int:
        """The number of in-place changes of the memory."""
    def abs(self) -> Tensor:
        """Return the absolute value, for a numeric dtype; real for complex numbers. The derivative at 0 is 0."""
    def abs_(self) -> Self:
        """``abs`` written into its first argument, which is returned."""
    def acos(self) -> Tensor:
        """Return the inverse cosine, in radians within [0, pi]; nan outside [-1, 1]."""
    def acos_(self) -> Self:
        """``acos`` written into its first argument, which is returned."""
    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine, which is not negative; nan below 1."""
    def acosh_(self) -> Self:
        """``acosh`` written into its first argument, which is returned."""
    def add(self, x2: TensorLike) -> Tensor:
        """Add two tensors element by element, with broadcasting."""
    def add_(self, x2: TensorLike) -> Self:
        """``add`` written into its first argument, which is returned."""
    def all(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Test whether all elements along axes are true (nonzero)."""
    def allclose(self, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Test whether all elements are close (see ``tk.isclose``); a 0-d bool tensor."""
    def angle(self) -> Tensor:
        """Return the angle of complex numbers in radians within [-pi, pi], a real tensor; 0 or pi for real numbers."""
    def any(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Test whether any element along axes is true (nonzero)."""
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the index of the largest element along an axis, the first at a tie; int64."""
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the index of the smallest element along an axis, the first at a tie; int64."""
    def argpartition(self, kth: int, axis: int = -1) -> Tensor:
        """The indices of a partition along an axis: what would be at place ``kth`` of the sorted elements is there."""
    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """The indices that sort along an axis: ``take_along_axis(x, argsort(x), axis=-1)`` is ``sort(x)``; int64."""
    def asin(self) -> Tensor:
        """Return the inverse sine, in radians within [-pi/2, pi/2]; nan outside [-1, 1]."""
    def asin_(self) -> Self:
        """``asin`` written into its first argument, which is returned."""
    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine."""
    def asinh_(self) -> Self:
        """``asinh`` written into its first argument, which is returned."""
    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: Device | str | None = None) -> Tensor:
        """The values in another dtype, on another ``device`` if one is named."""
    def atan(self) -> Tensor:
        """Return the inverse tangent, in radians within [-pi/2, pi/2]."""
    def atan2(self, x2: TensorLike) -> Tensor:
        """Return the angle of the point (x2, x1) in radians within [-pi, pi], for real dtypes; integers give floats."""
    def atan2_(self, x2: TensorLike) -> Self:
        """``atan2`` written into its first argument, which is returned."""
    def atan_(self) -> Self:
        """``atan`` written into its first argument, which is returned."""
    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent; infinite at -1 and 1, nan outside."""
    def atanh_(self) -> Self:
        """``atanh`` written into its first argument, which is returned."""
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute the gradients of this tensor and add them to ``.grad`` of the leaves. See
        ``tk.autograd.backward``.
        """
    def bitwise_and(self, x2: TensorLike) -> Tensor:
        """Return ``x1 & x2``, bit by bit, for integers and bools."""
    def bitwise_and_(self, x2: TensorLike) -> Self:
        """``bitwise_and`` written into its first argument, which is returned."""
    def bitwise_invert(self) -> Tensor:
        """Return ``~x``, bit by bit, for integers and bools."""
    def bitwise_invert_(self) -> Self:
        """``bitwise_invert`` written into its first argument, which is returned."""
    def bitwise_left_shift(self, x2: TensorLike) -> Tensor:
        """Shift the bits of ``x1`` to the left by ``x2``, for integers."""
    def bitwise_left_shift_(self, x2: TensorLike) -> Self:
        """``bitwise_left_shift`` written into its first argument, which is returned."""
    def bitwise_or(self, x2: TensorLike) -> Tensor:
        """Return ``x1 | x2``, bit by bit, for integers and bools."""
    def bitwise_or_(self, x2: TensorLike) -> Self:
        """``bitwise_or`` written into its first argument, which is returned."""
    def bitwise_right_shift(self, x2: TensorLike) -> Tensor:
        """Shift the bits of ``x1`` to the right by ``x2``, for integers; a negative number stays negative."""
    def bitwise_right_shift_(self, x2: TensorLike) -> Self:
        """``bitwise_right_shift`` written into its first argument, which is returned."""
    def bitwise_xor(self, x2: TensorLike) -> Tensor:
        """Return ``x1 ^ x2``, bit by bit, for integers and bools."""
    def bitwise_xor_(self, x2: TensorLike) -> Self:
        """``bitwise_xor`` written into its first argument, which is returned."""
    def cbrt(self) -> Tensor:
        """Return the real cube root, for negative numbers too; integers give floats."""
    def cbrt_(self) -> Self:
        """``cbrt`` written into its first argument, which is returned."""
    def ceil(self) -> Tensor:
        """Return the smallest integer that is not below ``x``, in the dtype of ``x``. Its derivative is 0."""
    def ceil_(self) -> Self:
        """``ceil`` written into its first argument, which is returned."""
    def clamp(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Limit the elements to the interval from ``min`` to ``max``; where these cross, the result is ``max``."""
    def clip(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Limit the elements to the interval from ``min`` to ``max``; where these cross, the result is ``max``."""
    def clone(self) -> Tensor:
        """A contiguous copy."""
    def conj(self) -> Tensor:
        """Return the complex conjugate; a real tensor is copied."""
    def copy(self) -> Tensor:
        """A contiguous copy."""
    def copy_(self, source: TensorLike) -> Self:
        """Write the values of ``source``, broadcast and converted, into ``x``, which is returned."""
    def copysign(self, x2: TensorLike) -> Tensor:
        """Return the magnitude of ``x1`` with the sign of ``x2``, for real dtypes; zeros and nan have signs too."""
    def copysign_(self, x2: TensorLike) -> Self:
        """``copysign`` written into its first argument, which is returned."""
    def cos(self) -> Tensor:
        """Return the cosine of angles in radians."""
    def cos_(self) -> Self:
        """``cos`` written into its first argument, which is returned."""
    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine."""
    def cosh_(self) -> Self:
        """``cosh`` written into its first argument, which is returned."""
    def cpu(self) -> Tensor:
        """The values on the CPU."""
    def cummax(self, axis: int | None = None) -> CummaxResult:
        """The largest element so far along an axis, which may be left out for one dimension, and its index (int64)."""
    def cummin(self, axis: int | None = None) -> CumminResult:
        """The smallest element so far along an axis, which may be left out for one dimension, and its index (int64)."""
    def cumprod(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """The products of all elements up to each along an axis, or in row-major order. See ``tk.cumulative_prod``."""
    def cumsum(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """The sums of all elements up to each along an axis, or in row-major order. See ``tk.cumulative_sum``."""
    def deg2rad_(self) -> Self:
        """``deg2rad`` written into its first argument, which is returned."""
    def detach(self) -> Tensor:
        """Return a tensor without history on the same memory; both share the version counter."""
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Return a view of a diagonal over two axes, which becomes the last axis."""
    def digamma(self) -> Tensor:
        """Return the derivative of ``gammaln`` (DLMF 5.2.2); nan at negative whole numbers."""
    def dim(self) -> int:
        """The number of dimensions: ``x.ndim``."""
    def div(self, x2: TensorLike) -> Tensor:
        """Divide two tensors element by element, with broadcasting; integers give floats."""
    def div_(self, x2: TensorLike) -> Self:
        """``divide`` written into its first argument, which is returned."""
    def divide(self, x2: TensorLike) -> Tensor:
        """Divide two tensors element by element, with broadcasting; integers give floats."""
    def divide_(self, x2: TensorLike) -> Self:
        """``divide`` written into its first argument, which is returned."""
    def dot(self, x2: TensorLike) -> Tensor:
        """Sums of products over the last dimension of ``x1`` and the last but one of ``x2`` (the only one of a
        vector).
        """
    def erf(self) -> Tensor:
        """Return the error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x (DLMF 7.2.1)."""
    def erfinv(self) -> Tensor:
        """Return the number whose error function is ``x``; infinite at -1 and 1, nan outside."""
    def exp(self) -> Tensor:
        """Return the exponential function of each element."""
    def exp2(self) -> Tensor:
        """Return 2 to the power ``x``; integers give floats."""
    def exp2_(self) -> Self:
        """``exp2`` written into its first argument, which is returned."""
    def exp_(self) -> Self:
        """``exp`` written into its first argument, which is returned."""
    def expand(self, *shape: int | Sequence[int]) -> Tensor:
        """Broadcast to a shape, in which -1 keeps a length: ``x.expand(2, -1)`` or ``x.expand((2, -1))``."""
    def expm1(self) -> Tensor:
        """Return ``exp(x) - 1``, accurate near 0."""
    def expm1_(self) -> Self:
        """``expm1`` written into its first argument, which is returned."""
    def fill_(self, value: Tensor | complex) -> Tensor:
        """Fill with one value, in place."""
    def flatten(self) -> Tensor:
        """All elements in one dimension."""
    def flip(self, *axes: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
        """The elements in reverse order along axes, ``x.flip(0, 1)`` or ``x.flip(axis=(0, 1))``; without along all."""
    def floor(self) -> Tensor:
        """Return the largest integer that is not above ``x``, in the dtype of ``x``. Its derivative is 0."""
    def floor_(self) -> Self:
        """``floor`` written into its first argument, which is returned."""
    def floor_divide_(self, x2: TensorLike) -> Self:
        """``floor_divide`` written into its first argument, which is returned."""
    def gather(self, indices: ArrayLike, axis: int = -1) -> Tensor:
        """Along ``axis`` the element that each index names: ``out[i, j] = x[i, indices[i, j]]`` for the last of two
        axes.
        """
    def gelu(self) -> Tensor:
        """Return ``x`` times the probability that a standard normal variable is below it (Hendrycks and Gimpel,
        2016).
        """
    def gelu_(self) -> Self:
        """``gelu`` written into its first argument, which is returned."""
    @property
    def grad(self) -> Any:
        """The accumulated gradient, or None."""
    @grad.setter
    def grad(self, value: Tensor | None = None) -> None: ...
    @grad.deleter
    def grad(self) -> None: ...
    @property
    def grad_fn(self) -> Any:
        """The node that made the tensor; None for a leaf."""
    def hypot(self, x2: TensorLike) -> Tensor:
        """Return ``sqrt(x1**2 + x2**2)`` without intermediate overflow, for real dtypes; integers give floats."""
    def hypot_(self, x2: TensorLike) -> Self:
        """``hypot`` written into its first argument, which is returned."""
    @property
    def imag(self) -> Tensor:
        """The imaginary part: zeros unless the tensor is complex. See ``tk.imag``."""
    def index_add(self, indices: ArrayLike, source: ArrayLike, axis: int = 0, *, alpha: complex = 1) -> Tensor:
        """``x`` with ``alpha * source`` added at the 1-d ``indices`` of an axis; equal indices add up."""
    def index_copy(self, indices: ArrayLike, source: ArrayLike, axis: int = 0) -> Tensor:
        """``x`` with ``source`` put at the 1-d ``indices`` of an axis; of equal indices one is kept, on the CPU the
        last.
        """
    def index_fill(self, indices: ArrayLike, value: ArrayLike, axis: int = 0) -> Tensor:
        """``x`` with one value at the 1-d ``indices`` of an axis; ``value`` is a number or a 0-d tensor."""
    @property
    def is_inference(self) -> Any:
        """Whether the tensor was made in inference mode; ``x.is_inference()`` says the same."""
    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by a recorded call."""
    def is_shared(self) -> bool:
        """Return whether the memory is shared with other processes; see ``share_memory_``."""
    def isclose(self, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Test whether ``abs(x1 - x2) <= atol + rtol * abs(x2)``, element by element, with broadcasting; a bool
        tensor.
        """
    def isfinite(self) -> Tensor:
        """Return True where an element is neither infinite nor nan."""
    def isinf(self) -> Tensor:
        """Return True where an element, or its real or imaginary part, is infinite."""
    def isnan(self) -> Tensor:
        """Return True where an element is nan."""
    def lgamma(self) -> Tensor:
        """Return ``log(abs(gamma(x)))``, without overflow; infinite at 0, -1, -2, ..."""
    def log(self) -> Tensor:
        """Return the natural logarithm; -inf at 0, nan for negative numbers."""
    def log10(self) -> Tensor:
        """Return the logarithm to base 10; -inf at 0, nan for negative numbers."""
    def log10_(self) -> Self:
        """``log10`` written into its first argument, which is returned."""
    def log1p(self) -> Tensor:
        """Return ``log(1 + x)``, accurate near 0."""
    def log1p_(self) -> Self:
        """``log1p`` written into its first argument, which is returned."""
    def log2(self) -> Tensor:
        """Return the logarithm to base 2; -inf at 0, nan for negative numbers."""
    def log2_(self) -> Self:
        """``log2`` written into its first argument, which is returned."""
    def log_(self) -> Self:
        """``log`` written into its first argument, which is returned."""
    def log_softmax(self, axis: int = -1) -> Tensor:
        """Return ``log(softmax(x))``, without overflow."""
    def logaddexp(self, x2: TensorLike) -> Tensor:
        """Return ``log(exp(x1) + exp(x2))`` without overflow, for real dtypes; integers give floats."""
    def logaddexp_(self, x2: TensorLike) -> Self:
        """``logaddexp`` written into its first argument, which is returned."""
    def logical_not(self) -> Tensor:
        """Return True where ``x`` is false (zero)."""
    def logsumexp(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Return ``log(sum(exp(x)))`` along axes, without overflow; -inf for no elements, the principal branch if
        complex.
        """
    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
    def masked_fill(self, mask: ArrayLike, value: ArrayLike) -> Tensor:
        """``x`` with one value where ``mask`` is true; the mask broadcasts against ``x``, the dtype is that of
        ``x``.
        """
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask`` is true, in one dimension; both broadcast together."""
    def matmul(self, x2: Tensor) -> Tensor:
        """Matrix product over the last two dimensions, broadcasting the others; a 1-d operand is a vector."""
    def max(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the largest element along axes; nan if an element is nan. Equal elements share the gradient."""
    def maximum(self, x2: TensorLike) -> Tensor:
        """Return the larger of two elements; nan if one is nan. Where they are equal they share the gradient."""
    def mean(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the arithmetic mean along axes; integers give floats."""
    def median(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the median along axes: the middle element, or the mean of the two; nan where an element is nan."""
    def min(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the smallest element along axes; nan if an element is nan. Equal elements share the gradient."""
    def minimum(self, x2: TensorLike) -> Tensor:
        """Return the smaller of two elements; nan if one is nan. Where they are equal they share the gradient."""
    def mul(self, x2: TensorLike) -> Tensor:
        """Multiply two tensors element by element, with broadcasting."""
    def mul_(self, x2: TensorLike) -> Self:
        """``multiply`` written into its first argument, which is returned."""
    def multiply(self, x2: TensorLike) -> Tensor:
        """Multiply two tensors element by element, with broadcasting."""
    def multiply_(self, x2: TensorLike) -> Self:
        """``multiply`` written into its first argument, which is returned."""
    def nan_to_num(self, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """Return a copy with nan replaced by ``nan`` and infinities by ``posinf`` and ``neginf``."""
    def nanmean(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Return the arithmetic mean of the elements along axes that are not nan; nan where there are none."""
    def nansum(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Sum the elements along axes that are not nan; 0 where there are none. Integers are summed in 64 bits."""
    def neg(self) -> Tensor:
        """Return ``-x``, for a numeric dtype."""
    def neg_(self) -> Self:
        """``negative`` written into its first argument, which is returned."""
    def negative(self) -> Tensor:
        """Return ``-x``, for a numeric dtype."""
    def negative_(self) -> Self:
        """``negative`` written into its first argument, which is returned."""
    def nextafter(self, x2: TensorLike) -> Tensor:
        """Return the number of the dtype next to ``x1`` in the direction of ``x2``; ``x2`` where they are equal."""
    def nextafter_(self, x2: TensorLike) -> Self:
        """``nextafter`` written into its first argument, which is returned."""
    def nonzero(self) -> tuple[Tensor, ...]:
        """The places of the elements that are not zero. See ``tk.nonzero``."""
    def numel(self) -> int:
        """The number of elements: ``x.size``."""
    @property
    def output_nr(self) -> Any:
        """The number of the tensor among the outputs of its node."""
    def pad(
        self,
        pad_width: int | Sequence[int] | Sequence[int | Sequence[int]],
        mode: str = 'constant',
        *,
        constant_values: complex | Sequence[complex] | Sequence[complex | Sequence[complex]] = ((0,),),
        end_values: complex | Sequence[complex] | Sequence[complex | Sequence[complex]] = ((0,),),
        stat_length: int | Sequence[int] | Sequence[int | Sequence[int]] | None = None,
    ) -> Tensor:
        """Add a border of ``pad_width`` elements before and after each dimension."""
    def permute(self, *axes: int | Sequence[int]) -> Tensor:
        """The dimensions in another order. See ``tk.permute_dims``."""
    def positive(self) -> Tensor:
        """Return ``+x``: a copy, for a numeric dtype."""
    def pow(self, x2: TensorLike) -> Tensor:
        """Return ``x1`` to the power ``x2``, element by element, with broadcasting."""
    def pow_(self, x2: TensorLike) -> Self:
        """``pow`` written into its first argument, which is returned."""
    def prod(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Multiply the elements along axes. The gradient is correct at zeros too."""
    def quantile(
        self,
        q: ArrayLike,
        axis: int | Sequence[int] | None = None,
        *,
        method: str = 'linear',
        keepdims: bool = False,
    ) -> Tensor:
        """Return the ``q``-quantiles of the elements along axes; nan where an element is nan."""
    def rad2deg_(self) -> Self:
        """``rad2deg`` written into its first argument, which is returned."""
    def ravel(self) -> Tensor:
        """Flatten to one dimension, in row-major order; a view where possible."""
    @property
    def real(self) -> Tensor:
        """The real part: the tensor itself unless it is complex. See ``tk.real``."""
    def reciprocal(self) -> Tensor:
        """Return ``1 / x``; integers give floats."""
    def reciprocal_(self) -> Self:
        """``reciprocal`` written into its first argument, which is returned."""
    def register_hook(self, hook: Callable[[Tensor], Any]) -> HookHandle:
        """Call ``hook(gradient)`` whenever the gradient of this tensor is computed; it may return a new gradient."""
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> HookHandle:
        """Call ``hook(tensor)`` after a gradient has been added to ``.grad`` of this leaf."""
    def relu(self) -> Tensor:
        """Return ``max(x, 0)``; its derivative at 0 is 0."""
    def relu_(self) -> Self:
        """``relu`` written into its first argument, which is returned."""
    def remainder_(self, x2: TensorLike) -> Self:
        """``remainder`` written into its first argument, which is returned."""
    def repeat(self, repeats: Tensor, axis: int | None = None) -> Tensor:
        """Repeat each element, or each slice along an axis."""
    @property
    def requires_grad(self) -> Any:
        """Whether calls on the tensor are recorded."""
    @requires_grad.setter
    def requires_grad(self, value: bool) -> None: ...
    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether a leaf requires a gradient, and return the tensor."""
    def reshape(self, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
        """The same elements under another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``. See ``tk.reshape``."""
    def retain_grad(self) -> None:
        """Store the gradient of this tensor, which is not a leaf, in ``.grad``."""
    @property
    def retains_grad(self) -> Any:
        """Whether a non-leaf keeps its gradient."""
    def round(self) -> Tensor:
        """Return the nearest integer, at a tie the even one, in the dtype of ``x``. Its derivative is 0."""
    def round_(self) -> Self:
        """``round`` written into its first argument, which is returned."""
    def rsqrt(self) -> Tensor:
        """Return ``1 / sqrt(x)``."""
    def rsqrt_(self) -> Self:
        """``rsqrt`` written into its first argument, which is returned."""
    def scatter(
        self,
        indices: ArrayLike,
        source: ArrayLike,
        axis: int = -1,
        *,
        reduce: str | None = None,
    ) -> Tensor:
        """``x`` with the elements of ``source`` put where ``indices`` say along ``axis``: the inverse of ``gather``."""
    def scatter_add(self, indices: ArrayLike, source: ArrayLike, axis: int = -1) -> Tensor:
        """``x`` with ``source`` added at ``indices`` along an axis; equal indices add up."""
    def searchsorted(self, x2: ArrayLike, side: str = 'left', sorter: ArrayLike | None = None) -> Tensor:
        """Where to insert each element of ``x2`` into the sorted vector ``x1`` so that it stays sorted; int64."""
    def share_memory_(self) -> Tensor:
        """Move the values into memory that other processes can share, and return the tensor."""
    def sigmoid(self) -> Tensor:
        """Return the logistic function ``1 / (1 + exp(-x))``."""
    def sigmoid_(self) -> Self:
        """``sigmoid`` written into its first argument, which is returned."""
    def sign(self) -> Tensor:
        """Return -1, 0 or 1; for a complex number ``x / abs(x)``, and 0 at 0. nan stays nan."""
    def sign_(self) -> Self:
        """``sign`` written into its first argument, which is returned."""
    def silu(self) -> Tensor:
        """Return ``x * sigmoid(x)``, also known as swish."""
    def silu_(self) -> Self:
        """``silu`` written into its first argument, which is returned."""
    def sin(self) -> Tensor:
        """Return the sine of angles in radians."""
    def sin_(self) -> Self:
        """``sin`` written into its first argument, which is returned."""
    def sinc_(self) -> Self:
        """``sinc`` written into its first argument, which is returned."""
    def sinh(self) -> Tensor:
        """Return the hyperbolic sine."""
    def sinh_(self) -> Self:
        """``sinh`` written into its first argument, which is returned."""
    def softmax(self, axis: int = -1) -> Tensor:
        """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow."""
    def softplus(self) -> Tensor:
        """Return ``log(1 + exp(x))`` without overflow: a smooth ``relu``."""
    def softplus_(self) -> Self:
        """``softplus`` written into its first argument, which is returned."""
    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """The elements in ascending (or ``descending``) order along an axis; a copy."""
    def sqrt(self) -> Tensor:
        """Return the square root; nan for negative numbers."""
    def sqrt_(self) -> Self:
        """``sqrt`` written into its first argument, which is returned."""
    def square(self) -> Tensor:
        """Return ``x * x``, for a numeric dtype."""
    def square_(self) -> Self:
        """``square`` written into its first argument, which is returned."""
    def squeeze(self, axis: int | Sequence[int] | None = None) -> Tensor:
        """Without the dimensions ``axis``, which have length 1; without ``axis`` all that do. See ``tk.squeeze``."""
    def std(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        correction: float = 0.0,
        keepdims: bool = False,
    ) -> Tensor:
        """Return the standard deviation along axes: the square root of ``var``, with the same arguments."""
    def sub(self, x2: TensorLike) -> Tensor:
        """Subtract two tensors element by element, with broadcasting."""
    def sub_(self, x2: TensorLike) -> Self:
        """``subtract`` written into its first argument, which is returned."""
    def subtract(self, x2: TensorLike) -> Tensor:
        """Subtract two tensors element by element, with broadcasting."""
    def subtract_(self, x2: TensorLike) -> Self:
        """``subtract`` written into its first argument, which is returned."""
    def sum(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Sum the elements along axes; integers and bools are summed in 64 bits."""
    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return a view with two axes exchanged."""
    def take(self, indices: ArrayLike, axis: int | None = None) -> Tensor:
        """The elements at ``indices`` of an axis, which may be left out for a 1-d tensor."""
    def tan(self) -> Tensor:
        """Return the tangent of angles in radians."""
    def tan_(self) -> Self:
        """``tan`` written into its first argument, which is returned."""
    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent."""
    def tanh_(self) -> Self:
        """``tanh`` written into its first argument, which is returned."""
    def tile(self, repetitions: int | Sequence[int]) -> Tensor:
        """Repeat a tensor ``repetitions`` times along each axis, aligned at the last axis."""
    def to(
        self,
        *targets: DTypeLike | Device | Tensor | None,
        dtype: DTypeLike | None = None,
        device: Device | str | None = None,
        copy: bool = False,
    ) -> Tensor:
        """The values on another device, in another dtype, or both; the tensor itself if nothing changes."""
    def to_device(self, device: Device | str, *, stream: Any = None) -> Tensor:
        """The values on another device; the tensor itself if it is there already."""
    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> TopKResult:
        """The ``k`` largest (or smallest) elements along an axis, in order, and their indices (int64)."""
    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
        """The sum of a diagonal of a matrix, or of each matrix of a stack; integers are summed in 64 bits."""
    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """The dimensions in the order of ``axes``, all of them, as NumPy has it; without axes in reverse."""
    def tril(self, k: int = 0) -> Tensor:
        """The lower triangle of matrices in the last two dimensions, zero above the ``k``-th diagonal; a copy."""
    def triu(self, k: int = 0) -> Tensor:
        """The upper triangle of matrices in the last two dimensions, zero below the ``k``-th diagonal; a copy."""
    def trunc(self) -> Tensor:
        """Return ``x`` rounded towards zero, in the dtype of ``x``. Its derivative is 0."""
    def trunc_(self) -> Self:
        """``trunc`` written into its first argument, which is returned."""
    def unsqueeze(self, axis: int) -> Tensor:
        """With a new dimension of length 1 at the place ``axis`` of the result. See ``tk.expand_dims``."""
    def var(
        self,
        axis: int | Sequence[int] | None = None,
        *,
        correction: float = 0.0,
        keepdims: bool = False,
    ) -> Tensor:
        """Return the variance along axes: the sum of squared distances from the mean, divided by ``n - correction``."""
    def vecdot(self, x2: Tensor, *, axis: int = -1) -> Tensor:
        """The dot product along an axis, of the conjugate of ``x1`` with ``x2``; the other dimensions broadcast."""
    def zero_(self) -> Tensor:
        """Fill with zeros, in place."""
