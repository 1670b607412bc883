"""The built-in operators, one folder for each kind. Importing a module declares its operators."""

# ruff: noqa: F401
from .. import variants  # last: in-place variants of the operators above
from . import creation, nn, random, tensor_methods
from .elementwise import (
    activations,
    arithmetic,
    closeness,
    comparison,
    complex,
    exponential,
    integers,
    limiting,
    rounding,
    trigonometry,
)
from .indexing import advanced_indexing, basic_indexing, getitem, scatter, selection, setitem
from .linalg import decompositions, diagonals, eigen, einsum, lu, matmul, norms, products, solve, triangular
from .numeric import data_dependent, differences, fft, histogram, histogram_grids, polynomials, signal
from .reductions import cumulative, gradient_sum, nan_reductions, quantiles, reduction, statistics
from .shape import copying, manipulation, padding, splitting, views
from .sorting import search, sets, sort
from .special import bessel, distributions, error_functions, gamma, incomplete, logarithmic

__all__: list[str] = []
