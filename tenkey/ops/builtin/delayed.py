"""The names that modules declare on first use. Written by ``python -m tools.make_stubs``."""

from __future__ import annotations

from typing import Final

__all__ = ["METHODS", "MODULES"]

MODULES: Final = {
    **dict.fromkeys(("sigmoid", "log_sigmoid", "softplus", "relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu",
    "silu", "gelu", "mish", "softsign"), "elementwise.activations"),
    **dict.fromkeys(("close_floats", "isclose", "allclose", "array_equal"), "elementwise.closeness"),
    **dict.fromkeys(("ldexp", "frexp", "modf", "divmod", "spacing", "bitwise_count"), "elementwise.number_parts"),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "atan2", "hypot", "deg2rad", "rad2deg", "sinc", "angle"), "elementwise.trigonometry"),
    **dict.fromkeys(("index_sum", "index_reduce", "gather", "scatter", "scatter_add", "index_add", "index_copy",
    "index_fill"), "indexing.scatter"),
    **dict.fromkeys(("einsum",), "linalg.einsum"),
    **dict.fromkeys(("vecdot", "outer", "linalg_cross", "contract", "inner", "dot", "matvec", "vecmat", "kron",
    "linalg_multi_dot"), "linalg.products"),
    **dict.fromkeys(("tril", "triu"), "linalg.triangular"),
    **dict.fromkeys(("softmax_backward", "softmax", "log_softmax_backward", "log_softmax", "row_cross_entropy_backward",
    "row_cross_entropy", "cross_entropy", "layer_norm_backward", "layer_norm_weight_backward",
    "layer_norm_all_backward", "layer_norm", "special_softmax", "special_log_softmax"), "nn"),
    **dict.fromkeys(("argwhere", "flatnonzero", "union1d", "intersect1d", "setdiff1d", "setxor1d"),
    "numeric.data_dependent"),
    **dict.fromkeys(("bin_sums", "bincount", "digitize", "even_edges", "bins_of", "ascending", "histogram_bin_edges",
    "histogram"), "numeric.histogram"),
    **dict.fromkeys(("estimated_edges", "counts_on_grid", "histogram2d"), "numeric.histogram_grids"),
    **dict.fromkeys(("polyval", "vander"), "numeric.polynomials"),
    **dict.fromkeys(("convolve_full", "convolve", "correlate", "interval_of", "interp"), "numeric.signal"),
    **dict.fromkeys(("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanargmax", "nanargmin",
    "nancumsum", "nancumprod"), "reductions.nan_reductions"),
    **dict.fromkeys(("order_statistics", "quantile", "percentile", "nanquantile", "nanpercentile", "median",
    "nanmedian"), "reductions.quantiles"),
    **dict.fromkeys(("var_backward", "var", "std", "count_nonzero", "ptp", "average", "average_and_weights", "cov",
    "corrcoef"), "reductions.statistics"),
    **dict.fromkeys(("pad_constant", "pad"), "shape.padding"),
    **dict.fromkeys(("repeat_indices", "repeat_each", "repeat"), "shape.repetition"),
    **dict.fromkeys(("place_sorted", "searchsorted", "top_indices", "top_values", "topk", "running_max", "cummax_pairs",
    "running_min", "cummin_pairs", "cummax", "cummin", "argpartition", "partition"), "sorting.search"),
    **dict.fromkeys(("unique_parts", "unique_values", "unique_all", "unique_counts", "unique_inverse", "among", "isin"),
    "sorting.sets"),
    **dict.fromkeys(("argsort", "sorting_order", "mean_of_runs", "invert_order", "in_order", "sort"), "sorting.sort"),
}  # fmt: skip
"""Modules by the names of operators."""

METHODS: Final = (
    "acos", "acos_", "acosh", "acosh_", "allclose", "angle", "argsort", "asin", "asin_", "asinh", "asinh_", "atan",
    "atan2", "atan2_", "atan_", "atanh", "atanh_", "cos", "cos_", "cosh", "cosh_", "cummax", "cummin", "deg2rad_",
    "dot", "gather", "gelu", "gelu_", "hypot", "hypot_", "index_add", "index_copy", "index_fill", "isclose", "median",
    "nanmean", "nansum", "pad", "quantile", "rad2deg_", "relu", "relu_", "repeat", "scatter", "scatter_add",
    "searchsorted", "sigmoid", "sigmoid_", "silu", "silu_", "sin", "sin_", "sinc_", "sinh", "sinh_", "softplus",
    "softplus_", "sort", "std", "tan", "tan_", "tanh", "tanh_", "topk", "tril", "triu", "var", "vecdot",
)  # fmt: skip
"""The methods of Tensor that they make."""
