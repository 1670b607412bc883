"""One table of the names that NumPy and PyTorch use for what has another name here: functions, methods, keywords.

Names of methods and keywords of methods with the same meaning are accepted (``x.sum(dim=0)``); for all others, errors
name the spelling of ``tk``. What is accepted stands here once: ``pytorch_methods.py`` makes the methods,
``foreign_arguments.py`` reads the keywords, and the table in ``docs/arrays.md`` is generated from both.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADVICE", "DTYPE_METHODS", "FUNCTIONS", "INPLACE_METHODS", "KEYWORDS", "METHODS", "NUMPY_NAMES", "OF_METHODS",
    "OTHER_RESULTS", "counterpart",
]  # fmt: skip

NUMPY_NAMES: Final = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round", "array": "asarray",
    "bitwise_not": "bitwise_invert", "concatenate": "concat", "conjugate": "conj", "copy": "clone",
    "cross": "linalg.cross", "degrees": "rad2deg", "fix": "trunc", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "mod": "remainder", "power": "pow", "radians": "deg2rad",
    "right_shift": "bitwise_right_shift", "rint": "round", "row_stack": "vstack", "true_divide": "divide",
}  # fmt: skip
"""NumPy's name, and the name of the same function in ``tk``; NumPy functions and ufuncs of tensors follow it."""

_SIMILAR: Final = {
    "array": "tk.asarray, or tk.tensor for a copy", "as_tensor": "tk.asarray", "bmm": "tk.matmul", "clamp": "tk.clip",
    "copy": "x.clone()", "copyto": "x.copy_(y)", "div": "tk.divide", "double": "tk.float64", "eq": "tk.equal",
    "erf": "tk.special.erf", "fabs": "tk.abs", "float": "tk.float32", "from_numpy": "tk.asarray", "ge":
    "tk.greater_equal", "gt": "tk.greater", "half": "tk.float16", "identity": "tk.eye", "index_select": "tk.take",
    "int": "tk.int64", "inv": "tk.linalg.inv", "is_tensor": "isinstance(x, tk.Tensor)", "le": "tk.less_equal",
    "long": "tk.int64", "lt": "tk.less", "manual_seed": "tk.random.seed", "mm": "tk.matmul", "mul": "tk.multiply",
    "multinomial": "tk.random.multinomial", "mv": "tk.matmul", "ndim": "x.ndim", "ne": "tk.not_equal",
    "neg": "tk.negative", "norm": "tk.linalg.norm", "numel": "x.size", "permute": "tk.permute_dims",
    "randperm": "tk.random.permutation", "rollaxis": "tk.moveaxis", "shape": "x.shape",
    "size": "x.size", "sub": "tk.subtract", "svd": "tk.linalg.svd", "trapz": "tk.trapezoid", "unbind": "tk.unstack",
    "unique": "tk.unique_values, tk.unique_counts, tk.unique_inverse or tk.unique_all", "unsqueeze": "tk.expand_dims",
    "vdot": "tk.vecdot",
}  # fmt: skip

FUNCTIONS: Final = {"cat": "concat"}
"""PyTorch's name of a function that ``tk`` has as well, with PyTorch's keywords, and the operator that it calls."""

METHODS: Final = {
    **{name: name for name in (
        "count_nonzero", "diag", "diff", "fliplr", "flipud", "floor_divide", "fmax", "fmin", "fmod", "greater",
        "greater_equal", "heaviside", "inner", "kron", "less", "less_equal", "logaddexp2", "logical_and", "logical_or",
        "logical_xor", "moveaxis", "nanquantile", "not_equal", "outer", "remainder", "roll", "rot90", "signbit", "sinc",
    )},
    **{name: NUMPY_NAMES[name] for name in (
        "absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
        "bitwise_not", "true_divide",
    )},
    "bmm": "matmul", "eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less",
    "mm": "matmul", "movedim": "moveaxis", "mv": "matmul", "ne": "not_equal", "swapdims": "swapaxes",
}  # fmt: skip
"""Operators by PyTorch's names of methods."""

INPLACE_METHODS: Final = (
    "absolute_", "clamp_", "clip_", "eq_", "fmod_", "ge_", "gt_", "le_", "logical_and_", "logical_not_", "logical_or_",
    "logical_xor_", "lt_", "masked_fill_", "nan_to_num_", "ne_", "scatter_", "scatter_add_", "true_divide_", "tril_",
    "triu_", "index_add_", "index_copy_", "index_fill_", "erf_", "erfinv_", "lgamma_", "digamma_", "softmax_",
)  # fmt: skip
"""Methods that write the result of the method without the underscore into the tensor."""

DTYPE_METHODS: Final = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "cdouble": "complex128", "cfloat": "complex64",
    "char": "int8", "double": "float64", "float": "float32", "half": "float16", "int": "int32", "long": "int64",
    "short": "int16",
}  # fmt: skip
"""PyTorch's methods that convert to a dtype."""

KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    "A": ("x",), "B": ("x2",), "a": ("x", "x1"), "a_max": ("max",), "a_min": ("min",), "ar1": ("x1",), "ar2": ("x2",),
    "array": ("x",), "arr": ("x",), "arrays": ("tensors",), "ary": ("x",), "assume_unique": (), "axes": ("axis",),
    "axis": ("axes",), "axis0": ("axis1",), "b": ("x2",), "bins": (), "ddof": ("correction",), "diagonal": ("k",
    "offset"), "dim": ("axis", "axes"), "dim0": ("axis1",), "dim1": ("axis1",), "dim2": ("axis2",),
    "dims": ("axis", "axes"), "element": ("x1",), "end": ("stop",), "exponent": ("x2",), "index": ("indices",),
    "input": ("x", "x1"), "interpolation": ("method",), "keepdim": ("keepdims",), "lower": ("upper",), "m": ("x", "n"),
    "mat2": ("x2",), "max_": ("max",), "n": ("num",), "newshape": ("shape",), "object": ("obj",), "offset": ("k",),
    "ord": ("p",), "other": ("x2",), "p": ("ord",), "rcond": ("rtol",), "repeats": ("repetitions",),
    "reps": ("repetitions",), "seq": ("arrays",), "shifts": ("shift",), "size": ("shape",), "sizes": ("shape",),
    "src": ("source",), "steps": ("num",), "tensor": ("x",), "tensors": ("arrays",), "test_elements": ("x2",),
    "tol": ("rtol",), "tup": ("arrays",), "unbiased": ("correction",), "v": ("x2",), "vec": ("x2",), "vec2": ("x2",),
    "N": ("n_rows",), "M": ("n_cols",), "decimals": (), "x": ("x1",), "y": ("x2",), "xi": ("arrays",),
    "destination": (), "indices_or_sections": ("parts",), "split_size_or_sections": ("parts",), "sections": ("parts",),
    "chunks": ("parts",), "loc": ("mean",), "scale": ("std",), "low": ("low",), "lam": ("rate",),
}  # fmt: skip
"""A keyword of NumPy or PyTorch, and the arguments of ``tk`` that mean the same, where a function has one."""

OF_METHODS: Final = {"swapaxes": {"dim1": "axis2"}, "swapdims": {"dim1": "axis2"}}
"""Where a keyword means something else than in other methods."""

ADVICE: Final = {
    "alpha": "multiply before: x1 + alpha * x2",
    "beta": "multiply before: beta * x1 + x2",
    "casting": "convert with x.astype(dtype)",
    "compute_uv": "tk.linalg.svdvals(x) gives the singular values alone",
    "ddof": "multiply the result by n / (n - ddof)",
    "decimals": "the builtin round(x, decimals) takes it",
    "dtype": "convert with x.astype(dtype) before or after",
    "generator": "tk.random draws with generator=",
    "initial": "combine it with the result, as in tk.maximum(result, initial)",
    "inplace": "the in-place method has an underscore, as in x.relu_()",
    "layout": "leave it out",
    "like": "give device= or dtype=",
    "memory_format": "leave it out: tensors are in row-major order",
    "order": "leave it out: results are in row-major order",
    "out": "use the result, or write it with y.copy_(result) or y[...] = result",
    "pin_memory": "call x.pin_memory() on the result",
    "requires_grad": "call x.requires_grad_() on the result",
    "return_counts": "tk.unique_counts(x) gives the counts",
    "return_index": "tk.unique_all(x) gives the indices",
    "return_inverse": "tk.unique_inverse(x) gives the inverse",
    "rounding_mode": "call tk.floor_divide(x1, x2), or tk.trunc(x1 / x2)",
    "sorted": "leave it out: the results are sorted",
    "subok": "leave it out",
    "UPLO": "leave it out: both triangles are read",
    "weights": "tk.average(x, weights=...) takes them",
    "where": "select before, as in tk.where(mask, x, 0)",
}  # fmt: skip
"""What to do about a keyword that no argument of ``tk`` corresponds to."""

OTHER_RESULTS: Final = {
    "max": "x.max(axis=...) gives the values, x.argmax(axis=...) their indices",
    "median": "x.median(axis=...) gives the values, the mean of the two in the middle for an even number",
    "min": "x.min(axis=...) gives the values, x.argmin(axis=...) their indices",
    "sort": "x.sort(axis=...) gives the values, x.argsort(axis=...) their indices",
    "std": "x.std(axis=...) divides by n, x.std(axis=..., correction=1) by n - 1 as in PyTorch",
    "var": "x.var(axis=...) divides by n, x.var(axis=..., correction=1) by n - 1 as in PyTorch",
}
"""Methods that return something else in PyTorch when they are called with ``dim``: they do not accept it."""


def counterpart(name: str) -> str:
    """Return what stands here for a name of NumPy or PyTorch, for error messages; "" if nothing is known.

    >>> counterpart("arcsin"), counterpart("copyto"), counterpart("nonsense")
    ('tk.asin', 'x.copy_(y)', '')
    """
    ours = NUMPY_NAMES.get(name)
    return _SIMILAR.get(name) or (f"tk.{ours}" if ours else "")
