"""One table of the names that NumPy and PyTorch use for what has another name here."""

from __future__ import annotations

from typing import Final

__all__ = ["NUMPY_NAMES", "counterpart"]

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
    "array": "tk.asarray, or tk.tensor for a copy", "as_tensor": "tk.asarray", "bmm": "tk.matmul", "cat": "tk.concat",
    "clamp": "tk.clip", "copy": "x.clone()", "copyto": "x.copy_(y)", "div": "tk.divide", "double": "tk.float64",
    "erf": "tk.special.erf", "fabs": "tk.abs", "float": "tk.float32", "from_numpy": "tk.asarray", "half": "tk.float16",
    "identity": "tk.eye", "int": "tk.int64", "inv": "tk.linalg.inv", "long": "tk.int64",
    "manual_seed": "tk.random.seed", "mm": "tk.matmul", "mul": "tk.multiply", "multinomial": "tk.random.multinomial",
    "ndim": "x.ndim", "neg": "tk.negative", "norm": "tk.linalg.norm", "permute": "tk.permute_dims",
    "rand": "tk.random.uniform", "randint": "tk.random.integers", "randn": "tk.random.normal",
    "randperm": "tk.random.permutation", "rollaxis": "tk.moveaxis", "shape": "x.shape",
    "size": "x.size", "sub": "tk.subtract", "svd": "tk.linalg.svd", "trapz": "tk.trapezoid",
    "unique": "tk.unique_values, tk.unique_counts, tk.unique_inverse or tk.unique_all", "unsqueeze": "tk.expand_dims",
    "vdot": "tk.vecdot",
}  # fmt: skip


def counterpart(name: str) -> str:
    """Return what stands here for a name of NumPy or PyTorch, for error messages; "" if nothing is known.

    >>> counterpart("arcsin"), counterpart("copyto"), counterpart("nonsense")
    ('tk.asin', 'x.copy_(y)', '')
    """
    ours = NUMPY_NAMES.get(name)
    return _SIMILAR.get(name) or (f"tk.{ours}" if ours else "")
