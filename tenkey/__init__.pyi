# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""tenkey: an extensible tensor framework. ``import tenkey as tk``."""

from builtins import bool as _bool
from collections.abc import Sequence
from typing import Final
from tenkey import (
    autograd as autograd,
    backends as backends,
    core as core,
    dispatch as dispatch,
    fft as fft,
    library as library,
    linalg as linalg,
    ops as ops,
    random as random,
    special as special,
    transforms as transforms,
)
from tenkey.autograd.grad_mode import (
    enable_grad as enable_grad,
    is_grad_enabled as is_grad_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from tenkey.autograd.inference_mode import (
    inference_mode as inference_mode,
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from tenkey.backends.cpu.threads import get_num_threads as get_num_threads, set_num_threads as set_num_threads
from tenkey.core.device import Device, Device as device
from tenkey.core.dtypes.limits import finfo as finfo, iinfo as iinfo
from tenkey.core.dtypes.names import DType, default_dtypes as default_dtypes, isdtype as isdtype
from tenkey.core.tensor import Tensor, Tensor as Tensor, shares_storage as shares_storage
from tenkey.core.text.formatting import (
    get_printoptions as get_printoptions,
    printoptions as printoptions,
    set_printoptions as set_printoptions,
)
from tenkey.core.typing import ArrayLike, DTypeLike, TensorLike
from tenkey.functions.creation import asarray as asarray, from_dlpack as from_dlpack, tensor as tensor
from tenkey.functions.dtypes import (
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    result_type as result_type,
)
from tenkey.functions.indexing import nonzero as nonzero, unravel_index as unravel_index
from tenkey.functions.inspection import array_namespace_info as __array_namespace_info__
from tenkey.functions.linalg import einsum as einsum, tensordot as tensordot
from tenkey.functions.linspace import linspace as linspace
from tenkey.functions.piecewise import apply_along_axis as apply_along_axis, piecewise as piecewise
from tenkey.functions.splitting import (
    array_split as array_split,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block as block,
    gradient as gradient,
    meshgrid as meshgrid,
    split as split,
)
from tenkey.functions.statistics import (
    average as average,
    histogram as histogram,
    histogram_bin_edges as histogram_bin_edges,
    histogramdd as histogramdd,
)
from tenkey.ops.autocast import autocast as autocast, is_autocast_enabled as is_autocast_enabled
from tenkey.ops.builtin.indexing.scatter import put_along_axis as put_along_axis
from tenkey.ops.builtin.sorting.search import CummaxResult, CumminResult, TopKResult
from tenkey.ops.builtin.sorting.sets import UniqueAllResult, UniqueCountsResult, UniqueInverseResult
from tenkey.serialization import load as load, save as save

__all__ = [
    "Tensor",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "angle",
    "any",
    "apply_along_axis",
    "arange",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "array_equal",
    "array_split",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autocast",
    "autograd",
    "average",
    "backends",
    "bincount",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "choose",
    "clip",
    "complex128",
    "complex64",
    "compress",
    "concat",
    "conj",
    "convolve",
    "copysign",
    "core",
    "corrcoef",
    "correlate",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "default_dtypes",
    "deg2rad",
    "device",
    "diag",
    "diagonal",
    "diff",
    "digitize",
    "dispatch",
    "divide",
    "dot",
    "dstack",
    "e",
    "ediff1d",
    "einsum",
    "elu",
    "empty",
    "empty_like",
    "enable_grad",
    "equal",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "extract",
    "eye",
    "fft",
    "finfo",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "from_dlpack",
    "full",
    "full_like",
    "gather",
    "gcd",
    "gelu",
    "geomspace",
    "get_num_threads",
    "get_printoptions",
    "gradient",
    "greater",
    "greater_equal",
    "hardtanh",
    "heaviside",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "hstack",
    "hypot",
    "iinfo",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "inf",
    "inference_mode",
    "inner",
    "int16",
    "int32",
    "int64",
    "int8",
    "interp",
    "intersect1d",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "isclose",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "kron",
    "lcm",
    "leaky_relu",
    "less",
    "less_equal",
    "library",
    "linalg",
    "linspace",
    "load",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logspace",
    "logsumexp",
    "masked_fill",
    "masked_select",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "negative",
    "newaxis",
    "nextafter",
    "no_grad",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "ops",
    "outer",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "pi",
    "piecewise",
    "polyval",
    "positive",
    "pow",
    "printoptions",
    "prod",
    "ptp",
    "put_along_axis",
    "quantile",
    "rad2deg",
    "random",
    "ravel",
    "ravel_multi_index",
    "real",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "rot90",
    "round",
    "rsqrt",
    "save",
    "scatter",
    "scatter_add",
    "searchsorted",
    "select",
    "selu",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "setdiff1d",
    "setxor1d",
    "shares_storage",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "softmax",
    "softplus",
    "softsign",
    "sort",
    "special",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensor",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transforms",
    "transpose",
    "trapezoid",
    "tri",
    "tril",
    "triu",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "union1d",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "unstack",
    "unwrap",
    "vander",
    "var",
    "vecdot",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]

bool: Final[DType]
complex128: Final[DType]
complex64: Final[DType]
e: Final[float]
float16: Final[DType]
float32: Final[DType]
float64: Final[DType]
inf: Final[float]
int16: Final[DType]
int32: Final[DType]
int64: Final[DType]
int8: Final[DType]
nan: Final[float]
newaxis: None
pi: Final[float]
uint16: Final[DType]
uint32: Final[DType]
uint64: Final[DType]
uint8: Final[DType]
__array_api_version__: Final[str]
__version__: Final[str]
bfloat16: Final[DType]

def abs(x: Tensor) -> Tensor:
    """Return the absolute value, for a numeric dtype; real for complex numbers. The derivative at 0 is 0."""
def acos(x: Tensor) -> Tensor:
    """Return the inverse cosine, in radians within [0, pi]; nan outside [-1, 1]."""
def acosh(x: Tensor) -> Tensor:
    """Return the inverse hyperbolic cosine, which is not negative; nan below 1."""
def add(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Add two tensors element by element, with broadcasting."""
def all(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Test whether all elements along axes are true (nonzero)."""
def allclose(
    x1: TensorLike,
    x2: TensorLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: _bool = False,
) -> Tensor:
    """Test whether all elements are close (see ``tk.isclose``); a 0-d bool tensor."""
def angle(x: Tensor) -> Tensor:
    """Return the angle of complex numbers in radians within [-pi, pi], a real tensor; 0 or pi for real numbers."""
def any(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Test whether any element along axes is true (nonzero)."""
def arange(
    start: complex,
    stop: complex | None = None,
    step: complex = 1,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return evenly spaced values from ``start`` (0 if only one is given) up to, but not including, ``stop``."""
def argmax(x: Tensor, axis: int | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the index of the largest element along an axis, the first at a tie; int64."""
def argmin(x: Tensor, axis: int | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the index of the smallest element along an axis, the first at a tie; int64."""
def argpartition(x: Tensor, kth: int, axis: int = -1) -> Tensor:
    """The indices of a partition along an axis: what would be at place ``kth`` of the sorted elements is there."""
def argsort(x: Tensor, axis: int = -1, *, descending: _bool = False, stable: _bool = True) -> Tensor:
    """The indices that sort along an axis: ``take_along_axis(x, argsort(x), axis=-1)`` is ``sort(x)``; int64."""
def argwhere(x: Tensor) -> Tensor:
    """Return the indices of the nonzero elements, one element per row; int64."""
def array_equal(x1: TensorLike, x2: TensorLike, *, equal_nan: _bool = False) -> Tensor:
    """Test whether two tensors have the same shape and equal elements; a 0-d bool tensor."""
def asin(x: Tensor) -> Tensor:
    """Return the inverse sine, in radians within [-pi/2, pi/2]; nan outside [-1, 1]."""
def asinh(x: Tensor) -> Tensor:
    """Return the inverse hyperbolic sine."""
def astype(x: Tensor, dtype: DTypeLike, *, copy: _bool = True, device: Device | str | None = None) -> Tensor:
    """The values in another dtype, on another ``device`` if one is named."""
def atan(x: Tensor) -> Tensor:
    """Return the inverse tangent, in radians within [-pi/2, pi/2]."""
def atan2(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the angle of the point (x2, x1) in radians within [-pi, pi], for real dtypes; integers give floats."""
def atanh(x: Tensor) -> Tensor:
    """Return the inverse hyperbolic tangent; infinite at -1 and 1, nan outside."""
def bincount(x: Tensor, weights: ArrayLike | None = None, minlength: int = 0) -> Tensor:
    """Count how often each number from 0 to the largest occurs in a vector of integers that are at least 0; int64."""
def bitwise_and(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 & x2``, bit by bit, for integers and bools."""
def bitwise_invert(x: Tensor) -> Tensor:
    """Return ``~x``, bit by bit, for integers and bools."""
def bitwise_left_shift(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Shift the bits of ``x1`` to the left by ``x2``, for integers."""
def bitwise_or(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 | x2``, bit by bit, for integers and bools."""
def bitwise_right_shift(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Shift the bits of ``x1`` to the right by ``x2``, for integers; a negative number stays negative."""
def bitwise_xor(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 ^ x2``, bit by bit, for integers and bools."""
def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a view that repeats dimensions of length 1 and new leading dimensions, without copying."""
def cbrt(x: Tensor) -> Tensor:
    """Return the real cube root, for negative numbers too; integers give floats."""
def ceil(x: Tensor) -> Tensor:
    """Return the smallest integer that is not below ``x``, in the dtype of ``x``. Its derivative is 0."""
def choose(indices: Tensor, choices: Sequence[ArrayLike]) -> Tensor:
    """Of each place the element of the choice whose number stands there; all broadcast together."""
def clip(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements to the interval from ``min`` to ``max``; where these cross, the result is ``max``."""
def compress(condition: Tensor, x: ArrayLike, axis: int | None = None) -> Tensor:
    """The slices along an axis at which the 1-d ``condition`` is true; without axis of ``x`` in one dimension."""
def concat(arrays: Sequence[Tensor], axis: int | None = 0) -> Tensor:
    """Join tensors along an existing axis; ``axis=None`` flattens them first."""
def conj(x: Tensor) -> Tensor:
    """Return the complex conjugate; a real tensor is copied."""
def convolve(a: Tensor, v: ArrayLike, mode: str = 'full') -> Tensor:
    """Return the convolution of two vectors: ``out[k]`` is the sum of ``a[i] * v[k - i]``."""
def copysign(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the magnitude of ``x1`` with the sign of ``x2``, for real dtypes; zeros and nan have signs too."""
def corrcoef(x: Tensor, y: TensorLike | None = None, *, rowvar: _bool = True) -> Tensor:
    """Return the Pearson correlation coefficients of variables, given as in ``tk.cov``; 0-d for one variable."""
def correlate(a: Tensor, v: ArrayLike, mode: str = 'valid') -> Tensor:
    """Return the correlation of two vectors: ``out[k]`` is the sum of ``a[i + k] * conj(v[i])``; see
    ``tk.convolve``.
    """
def cos(x: Tensor) -> Tensor:
    """Return the cosine of angles in radians."""
def cosh(x: Tensor) -> Tensor:
    """Return the hyperbolic cosine."""
def count_nonzero(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Count the nonzero elements along axes, in int64; nan counts as nonzero."""
def cov(
    x: Tensor,
    y: ArrayLike | None = None,
    *,
    rowvar: _bool = True,
    correction: float | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    ddof: float | None = None,
) -> Tensor:
    """Return the covariance matrix of variables, one per row of ``x`` (per column with ``rowvar=False``)."""
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of integer classes, a 0-d tensor."""
def cummax(x: Tensor, axis: int | None = None) -> CummaxResult:
    """The largest element so far along an axis, which may be left out for one dimension, and its index (int64)."""
def cummin(x: Tensor, axis: int | None = None) -> CumminResult:
    """The smallest element so far along an axis, which may be left out for one dimension, and its index (int64)."""
def cumprod(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative products along an axis, or of the flattened tensor."""
def cumsum(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative sums along an axis, or of the flattened tensor."""
def cumulative_prod(
    x: Tensor,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: _bool = False,
) -> Tensor:
    """Return the cumulative products along an axis, which may be left out for one dimension."""
def cumulative_sum(
    x: Tensor,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: _bool = False,
) -> Tensor:
    """Return the cumulative sums along an axis, which may be left out for one dimension."""
def deg2rad(x: Tensor) -> Tensor:
    """Convert degrees to radians; integers give floats."""
def diag(x: Tensor, k: int = 0) -> Tensor:
    """Return the matrix with a vector on its ``k``-th diagonal, or the ``k``-th diagonal of a matrix."""
def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a view of a diagonal over two axes, which becomes the last axis."""
def diff(
    x: Tensor,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Return the differences of neighbours along an axis, which becomes shorter by one, ``n`` times over."""
def digitize(x: Tensor, bins: ArrayLike, right: _bool = False) -> Tensor:
    """Return the bin between the edges ``bins`` in which each element lies: 0 before the first edge; int64."""
def divide(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Divide two tensors element by element, with broadcasting; integers give floats."""
def dot(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Sums of products over the last dimension of ``x1`` and the last but one of ``x2`` (the only one of a vector)."""
def dstack(arrays: Sequence[Tensor]) -> Tensor:
    """Stack in depth: join along the third axis, vectors as ``(1, n, 1)``."""
def ediff1d(x: Tensor, to_end: TensorLike | None = None, to_begin: TensorLike | None = None) -> Tensor:
    """Return the differences of consecutive elements in row-major order, between ``to_begin`` and ``to_end``."""
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return ``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert, Unterthiner and Hochreiter, 2015)."""
def empty(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return an uninitialized tensor; float32 unless ``dtype`` says otherwise."""
def empty_like(x: Tensor, dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> Tensor:
    """Return an uninitialized tensor with the shape, dtype and device of ``x``."""
def equal(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 == x2``, element by element, with broadcasting; a bool tensor."""
def exp(x: Tensor) -> Tensor:
    """Return the exponential function of each element."""
def exp2(x: Tensor) -> Tensor:
    """Return 2 to the power ``x``; integers give floats."""
def expand_dims(x: Tensor, axis: int | Sequence[int] = (0,)) -> Tensor:
    """Return a view with new dimensions of length 1 at the position or positions ``axis`` of the result."""
def expm1(x: Tensor) -> Tensor:
    """Return ``exp(x) - 1``, accurate near 0."""
def extract(condition: Tensor, x: ArrayLike) -> Tensor:
    """The elements of ``x`` at which ``condition``, of the same shape, is true, in one dimension."""
def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return a matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
def flatnonzero(x: Tensor) -> Tensor:
    """Return the indices of the nonzero elements in the flattened tensor; int64."""
def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Reverse the order of the elements along axes; a copy."""
def fliplr(x: Tensor) -> Tensor:
    """Reverse the order of the columns (axis 1); a copy."""
def flipud(x: Tensor) -> Tensor:
    """Reverse the order of the rows (axis 0); a copy."""
def floor(x: Tensor) -> Tensor:
    """Return the largest integer that is not above ``x``, in the dtype of ``x``. Its derivative is 0."""
def floor_divide(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Divide and round down to an integer, element by element, with Python's sign rule."""
def fmax(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the larger of two elements; where one is nan, the other. Where they are equal they share the gradient."""
def fmin(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the smaller of two elements; where one is nan, the other. Where they are equal they share the gradient."""
def fmod(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the remainder of the division rounded towards zero, with the sign of the dividend ``x1``."""
def full(
    shape: int | Sequence[int],
    fill_value: complex,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return a tensor filled with one number, whose kind determines the default dtype."""
def full_like(
    x: Tensor,
    fill_value: complex,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return a tensor filled with one number, with the shape, dtype and device of ``x``."""
def gather(x: Tensor, indices: ArrayLike, axis: int = -1) -> Tensor:
    """Along ``axis`` the element that each index names: ``out[i, j] = x[i, indices[i, j]]`` for the last of two
    axes.
    """
def gcd(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the greatest common divisor of two integers, element by element, with broadcasting; never negative."""
def gelu(x: Tensor) -> Tensor:
    """Return ``x`` times the probability that a standard normal variable is below it (Hendrycks and Gimpel, 2016)."""
def geomspace(
    start: float,
    stop: float,
    num: int,
    *,
    endpoint: _bool = True,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return ``num`` values from ``start`` to ``stop``, each the same multiple of the one before."""
def greater(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 > x2``, element by element, with broadcasting; a bool tensor."""
def greater_equal(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 >= x2``, element by element, with broadcasting; a bool tensor."""
def hardtanh(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Return ``min(max(x, low), high)``; its derivative at both ends is 0."""
def heaviside(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the step function: 0 below zero, 1 above, ``x2`` at zero, nan for nan."""
def histogram2d(
    x: Tensor,
    y: ArrayLike,
    bins: int | Sequence[int] = (10, 10),
    *,
    range: Sequence[float | Sequence[float]] | None = None,
    weights: ArrayLike | None = None,
    density: _bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Count the points ``(x, y)`` in each bin of a grid, and return the counts and the edges along both axes."""
def hstack(arrays: Sequence[Tensor]) -> Tensor:
    """Stack side by side: join along the second axis, vectors along the first."""
def hypot(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``sqrt(x1**2 + x2**2)`` without intermediate overflow, for real dtypes; integers give floats."""
def imag(x: Tensor) -> Tensor:
    """Return the imaginary part, a real tensor; zeros for a real one."""
def index_add(x: Tensor, indices: ArrayLike, source: ArrayLike, axis: int = 0, *, alpha: complex = 1) -> Tensor:
    """``x`` with ``alpha * source`` added at the 1-d ``indices`` of an axis; equal indices add up."""
def index_copy(x: Tensor, indices: ArrayLike, source: ArrayLike, axis: int = 0) -> Tensor:
    """``x`` with ``source`` put at the 1-d ``indices`` of an axis; of equal indices one is kept, on the CPU the
    last.
    """
def index_fill(x: Tensor, indices: ArrayLike, value: ArrayLike, axis: int = 0) -> Tensor:
    """``x`` with one value at the 1-d ``indices`` of an axis; ``value`` is a number or a 0-d tensor."""
def inner(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Sums of products over the last dimensions, without conjugation; with a number, the product."""
def interp(
    x: Tensor,
    xp: ArrayLike,
    fp: ArrayLike,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Tensor:
    """Evaluate the piecewise linear function through the points ``(xp, fp)`` at ``x``."""
def intersect1d(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the distinct elements of both of two tensors, ascending, as a vector of the promoted dtype. Not
    differentiable.
    """
def isclose(
    x1: TensorLike,
    x2: TensorLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: _bool = False,
) -> Tensor:
    """Test whether ``abs(x1 - x2) <= atol + rtol * abs(x2)``, element by element, with broadcasting; a bool tensor."""
def isfinite(x: Tensor) -> Tensor:
    """Return True where an element is neither infinite nor nan."""
def isin(x1: TensorLike, x2: ArrayLike, *, invert: _bool = False) -> Tensor:
    """Whether each element of ``x1`` is among those of ``x2`` (with ``invert``: is not); bool, of the shape of
    ``x1``.
    """
def isinf(x: Tensor) -> Tensor:
    """Return True where an element, or its real or imaginary part, is infinite."""
def isnan(x: Tensor) -> Tensor:
    """Return True where an element is nan."""
def kron(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The Kronecker product: blocks of the second, multiplied by each element of the first."""
def lcm(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the least common multiple of two integers, element by element, with broadcasting; never negative."""
def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """Return ``x`` where it is positive, else ``slope * x``."""
def less(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 < x2``, element by element, with broadcasting; a bool tensor."""
def less_equal(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 <= x2``, element by element, with broadcasting; a bool tensor."""
def log(x: Tensor) -> Tensor:
    """Return the natural logarithm; -inf at 0, nan for negative numbers."""
def log10(x: Tensor) -> Tensor:
    """Return the logarithm to base 10; -inf at 0, nan for negative numbers."""
def log1p(x: Tensor) -> Tensor:
    """Return ``log(1 + x)``, accurate near 0."""
def log2(x: Tensor) -> Tensor:
    """Return the logarithm to base 2; -inf at 0, nan for negative numbers."""
def log_sigmoid(x: Tensor) -> Tensor:
    """Return ``log(sigmoid(x))``, without overflow and underflow."""
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))``, without overflow."""
def logaddexp(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``log(exp(x1) + exp(x2))`` without overflow, for real dtypes; integers give floats."""
def logaddexp2(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``log2(2**x1 + 2**x2)`` without overflow."""
def logical_and(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return True where both elements are true (nonzero)."""
def logical_not(x: Tensor) -> Tensor:
    """Return True where ``x`` is false (zero)."""
def logical_or(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return True where at least one element is true (nonzero)."""
def logical_xor(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return True where exactly one element is true (nonzero)."""
def logspace(
    start: float,
    stop: float,
    num: int,
    *,
    base: float = 10.0,
    endpoint: _bool = True,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return ``num`` powers of ``base``, whose exponents are evenly spaced from ``start`` to ``stop``."""
def logsumexp(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along axes, without overflow; -inf for no elements, the principal branch if
    complex.
    """
def masked_fill(x: Tensor, mask: ArrayLike, value: ArrayLike) -> Tensor:
    """``x`` with one value where ``mask`` is true; the mask broadcasts against ``x``, the dtype is that of ``x``."""
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` is true, in one dimension; both broadcast together."""
def matmul(x1: Tensor, x2: Tensor) -> Tensor:
    """Matrix product over the last two dimensions, broadcasting the others; a 1-d operand is a vector."""
def matrix_transpose(x: Tensor) -> Tensor:
    """Return a view with the last two dimensions exchanged."""
def max(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the largest element along axes; nan if an element is nan. Equal elements share the gradient."""
def maximum(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the larger of two elements; nan if one is nan. Where they are equal they share the gradient."""
def mean(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the arithmetic mean along axes; integers give floats."""
def median(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the median along axes: the middle element, or the mean of the two; nan where an element is nan."""
def min(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the smallest element along axes; nan if an element is nan. Equal elements share the gradient."""
def minimum(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the smaller of two elements; nan if one is nan. Where they are equal they share the gradient."""
def mish(x: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))`` (Misra, 2019)."""
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return a view with the axes ``source`` moved to the positions ``destination``; the others keep their order."""
def multiply(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Multiply two tensors element by element, with broadcasting."""
def nan_to_num(x: Tensor, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return a copy with nan replaced by ``nan`` and infinities by ``posinf`` and ``neginf``."""
def nanargmax(x: Tensor, axis: int | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the index of the largest element along an axis that is not nan, at a tie the first; int64."""
def nanargmin(x: Tensor, axis: int | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the index of the smallest element along an axis that is not nan, at a tie the first; int64."""
def nancumprod(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative products along an axis, or of the flattened tensor; nan counts as 1."""
def nancumsum(x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the cumulative sums along an axis, or of the flattened tensor; nan counts as 0."""
def nanmax(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the largest element along axes that is not nan; nan where there is none. Ties share the gradient."""
def nanmean(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Return the arithmetic mean of the elements along axes that are not nan; nan where there are none."""
def nanmedian(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the median of the elements that are not nan; nan where there are none."""
def nanmin(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the smallest element along axes that is not nan; nan where there is none. Ties share the gradient."""
def nanpercentile(
    x: Tensor,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    method: str = 'linear',
    keepdims: _bool = False,
) -> Tensor:
    """Return ``tk.percentile`` of the elements that are not nan; nan where there are none."""
def nanprod(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Multiply the elements along axes that are not nan; 1 where there are none."""
def nanquantile(
    x: Tensor,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    method: str = 'linear',
    keepdims: _bool = False,
) -> Tensor:
    """Return ``tk.quantile`` of the elements that are not nan; nan where there are none."""
def nanstd(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Return the standard deviation of the elements along axes that are not nan: the square root of ``nanvar``."""
def nansum(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Sum the elements along axes that are not nan; 0 where there are none. Integers are summed in 64 bits."""
def nanvar(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Return the variance of the elements along axes that are not nan: the mean squared distance from their mean."""
def negative(x: Tensor) -> Tensor:
    """Return ``-x``, for a numeric dtype."""
def nextafter(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the number of the dtype next to ``x1`` in the direction of ``x2``; ``x2`` where they are equal."""
def not_equal(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1 != x2``, element by element, with broadcasting; a bool tensor."""
def ones(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return a tensor of ones; float32 unless ``dtype`` says otherwise."""
def ones_like(x: Tensor, dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> Tensor:
    """Return ones with the shape, dtype and device of ``x``."""
def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The matrix of all products of an element of one vector with an element of another."""
def pad(
    x: Tensor,
    pad_width: int | Sequence[int] | Sequence[int | Sequence[int]],
    mode: str = 'constant',
    *,
    constant_values: complex | Sequence[complex] | Sequence[complex | Sequence[complex]] = ((0,),),
    end_values: complex | Sequence[complex] | Sequence[complex | Sequence[complex]] = ((0,),),
    stat_length: int | Sequence[int] | Sequence[int | Sequence[int]] | None = None,
) -> Tensor:
    """Add a border of ``pad_width`` elements before and after each dimension."""
def partition(x: Tensor, kth: int, axis: int = -1) -> Tensor:
    """The elements along an axis with that at place ``kth`` where sorting would put it: see ``tk.argpartition``."""
def percentile(
    x: Tensor,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    method: str = 'linear',
    keepdims: _bool = False,
) -> Tensor:
    """Return ``tk.quantile`` with ``q`` in percent, within [0, 100]."""
def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a view with the dimensions in another order."""
def polyval(p: Tensor, x: ArrayLike) -> Tensor:
    """Evaluate the polynomial with coefficients ``p``, highest power first, at ``x``, by Horner's scheme."""
def positive(x: Tensor) -> Tensor:
    """Return ``+x``: a copy, for a numeric dtype."""
def pow(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1`` to the power ``x2``, element by element, with broadcasting."""
def prod(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Multiply the elements along axes. The gradient is correct at zeros too."""
def ptp(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: _bool = False) -> Tensor:
    """Return the largest less the smallest element along axes, in the dtype of ``x``; nan if an element is nan."""
def quantile(
    x: Tensor,
    q: ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    method: str = 'linear',
    keepdims: _bool = False,
) -> Tensor:
    """Return the ``q``-quantiles of the elements along axes; nan where an element is nan."""
def rad2deg(x: Tensor) -> Tensor:
    """Convert radians to degrees; integers give floats."""
def ravel(x: Tensor) -> Tensor:
    """Flatten to one dimension, in row-major order; a view where possible."""
def ravel_multi_index(multi_index: Sequence[Tensor], dims: Sequence[int], *, mode: str = 'raise') -> Tensor:
    """The flat, row-major index of coordinates in an array of shape ``dims``; int64."""
def real(x: Tensor) -> Tensor:
    """Return the real part, a real tensor."""
def reciprocal(x: Tensor) -> Tensor:
    """Return ``1 / x``; integers give floats."""
def relu(x: Tensor) -> Tensor:
    """Return ``max(x, 0)``; its derivative at 0 is 0."""
def relu6(x: Tensor) -> Tensor:
    """Return ``min(max(x, 0), 6)``; its derivative at both ends is 0."""
def remainder(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the remainder of the floor division, with the sign of the divisor."""
def repeat(x: Tensor, repeats: Tensor, axis: int | None = None) -> Tensor:
    """Repeat each element, or each slice along an axis."""
def reshape(x: Tensor, shape: Sequence[int], *, copy: _bool | None = None) -> Tensor:
    """Give the elements, in row-major order, another shape, in which one length may be -1; a view where possible."""
def roll(x: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Shift the elements along axes; elements shifted past the end reappear at the beginning."""
def rot90(x: Tensor, k: int = 1, axes: int | Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by ``k`` quarter turns in the plane of two axes, from the first towards the second; a copy."""
def round(x: Tensor) -> Tensor:
    """Return the nearest integer, at a tie the even one, in the dtype of ``x``. Its derivative is 0."""
def rsqrt(x: Tensor) -> Tensor:
    """Return ``1 / sqrt(x)``."""
def scatter(
    x: Tensor,
    indices: ArrayLike,
    source: ArrayLike,
    axis: int = -1,
    *,
    reduce: str | None = None,
) -> Tensor:
    """``x`` with the elements of ``source`` put where ``indices`` say along ``axis``: the inverse of ``gather``."""
def scatter_add(x: Tensor, indices: ArrayLike, source: ArrayLike, axis: int = -1) -> Tensor:
    """``x`` with ``source`` added at ``indices`` along an axis; equal indices add up."""
def searchsorted(x1: TensorLike, x2: ArrayLike, side: str = 'left', sorter: ArrayLike | None = None) -> Tensor:
    """Where to insert each element of ``x2`` into the sorted vector ``x1`` so that it stays sorted; int64."""
def select(condlist: Sequence[Tensor], choicelist: Sequence[ArrayLike], default: ArrayLike | None = None) -> Tensor:
    """Of each place the element of the first choice whose condition is true there, else that of ``default``, or
    zero.
    """
def selu(x: Tensor) -> Tensor:
    """Return ``elu`` with the scale and the alpha that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
def setdiff1d(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the distinct elements of the first of two tensors that the second does not have, ascending, as a vector
    of the promoted dtype. Not differentiable.
    """
def setxor1d(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the distinct elements of exactly one of two tensors, ascending, as a vector of the promoted dtype. Not
    differentiable.
    """
def sigmoid(x: Tensor) -> Tensor:
    """Return the logistic function ``1 / (1 + exp(-x))``."""
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1; for a complex number ``x / abs(x)``, and 0 at 0. nan stays nan."""
def signbit(x: Tensor) -> Tensor:
    """Return True where the sign of an element is minus, for real dtypes; zeros and nan have signs too."""
def silu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``, also known as swish."""
def sin(x: Tensor) -> Tensor:
    """Return the sine of angles in radians."""
def sinc(x: Tensor) -> Tensor:
    """Return ``sin(pi x) / (pi x)``, which is 1 at 0. Integers give floats."""
def sinh(x: Tensor) -> Tensor:
    """Return the hyperbolic sine."""
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow."""
def softplus(x: Tensor) -> Tensor:
    """Return ``log(1 + exp(x))`` without overflow: a smooth ``relu``."""
def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + abs(x))``."""
def sort(x: Tensor, axis: int = -1, *, descending: _bool = False, stable: _bool = True) -> Tensor:
    """The elements in ascending (or ``descending``) order along an axis; a copy."""
def sqrt(x: Tensor) -> Tensor:
    """Return the square root; nan for negative numbers."""
def square(x: Tensor) -> Tensor:
    """Return ``x * x``, for a numeric dtype."""
def squeeze(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Return a view without the named dimensions, which must have length 1."""
def stack(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of the same shape along a new axis."""
def std(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    correction: float = 0.0,
    keepdims: _bool = False,
) -> Tensor:
    """Return the standard deviation along axes: the square root of ``var``, with the same arguments."""
def subtract(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Subtract two tensors element by element, with broadcasting."""
def sum(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: _bool = False,
) -> Tensor:
    """Sum the elements along axes; integers and bools are summed in 64 bits."""
def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return a view with two axes exchanged."""
def take(x: Tensor, indices: ArrayLike, axis: int | None = None) -> Tensor:
    """The elements at ``indices`` of an axis, which may be left out for a 1-d tensor."""
def take_along_axis(x: Tensor, indices: ArrayLike, axis: int = -1) -> Tensor:
    """Along one axis the elements at ``indices``, which has the number of dimensions of ``x``."""
def tan(x: Tensor) -> Tensor:
    """Return the tangent of angles in radians."""
def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
def tile(x: Tensor, repetitions: int | Sequence[int]) -> Tensor:
    """Repeat a tensor ``repetitions`` times along each axis, aligned at the last axis."""
def topk(x: Tensor, k: int, axis: int = -1, *, largest: _bool = True) -> TopKResult:
    """The ``k`` largest (or smallest) elements along an axis, in order, and their indices (int64)."""
def trace(x: Tensor, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal of a matrix, or of each matrix of a stack; integers are summed in 64 bits."""
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return a view with the dimensions in the order of ``axes``, by default in reverse: see ``tk.permute_dims``."""
def trapezoid(y: Tensor, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Integrate ``y`` along an axis by the trapezoidal rule."""
def tri(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Ones on the ``k``-th diagonal and below, zeros above."""
def tril(x: Tensor, k: int = 0) -> Tensor:
    """The lower triangle of matrices in the last two dimensions, zero above the ``k``-th diagonal; a copy."""
def triu(x: Tensor, k: int = 0) -> Tensor:
    """The upper triangle of matrices in the last two dimensions, zero below the ``k``-th diagonal; a copy."""
def trunc(x: Tensor) -> Tensor:
    """Return ``x`` rounded towards zero, in the dtype of ``x``. Its derivative is 0."""
def union1d(x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return the distinct elements of either of two tensors, ascending, as a vector of the promoted dtype. Not
    differentiable.
    """
def unique_all(x: Tensor) -> UniqueAllResult:
    """The distinct elements, where each comes first, which of them each element is, and how often each occurs."""
def unique_counts(x: Tensor) -> UniqueCountsResult:
    """The distinct elements and how often each occurs (int64). Each NaN is distinct from every other."""
def unique_inverse(x: Tensor) -> UniqueInverseResult:
    """The distinct elements and which of them each element is: ``take(values, inverse_indices)`` has the elements of
    x.
    """
def unique_values(x: Tensor) -> Tensor:
    """The distinct elements of a tensor, in ascending order, in one dimension; equal elements share a gradient."""
def unstack(x: Tensor, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis, without that axis: a tuple of views."""
def unwrap(x: Tensor, *, discont: float | None = None, axis: int = -1, period: float = 6.283185307179586) -> Tensor:
    """Remove jumps of angles along an axis, by adding multiples of ``period``: no step is longer than half of it."""
def vander(x: Tensor, N: int | None = None, increasing: _bool = False) -> Tensor:
    """Return the Vandermonde matrix of a vector: decreasing powers of ``x`` in ``N`` columns (default: square)."""
def var(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    *,
    correction: float = 0.0,
    keepdims: _bool = False,
) -> Tensor:
    """Return the variance along axes: the sum of squared distances from the mean, divided by ``n - correction``."""
def vecdot(x1: Tensor, x2: Tensor, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, of the conjugate of ``x1`` with ``x2``; the other dimensions broadcast."""
def vstack(arrays: Sequence[Tensor]) -> Tensor:
    """Stack vertically: join along the first axis, vectors as rows."""
def where(condition: TensorLike, x1: TensorLike, x2: TensorLike) -> Tensor:
    """Return ``x1`` where the condition holds, else ``x2``, with broadcasting."""
def zeros(
    shape: int | Sequence[int],
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Tensor:
    """Return a tensor of zeros; float32 unless ``dtype`` says otherwise."""
def zeros_like(x: Tensor, dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> Tensor:
    """Return zeros with the shape, dtype and device of ``x``."""
