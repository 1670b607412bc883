"""Names of the pointwise operators in PyTorch and NumPy, and the operands of each measurement.

Operators with the same name in a library need no entry.

>>> reference("arccos", "torch", {"arccos": "acos"}.get)
'acos'
>>> reference("tk::exp", "torch", {}.get)
'exp'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["LEFT_OUT", "NUMPY", "OPERANDS", "TENKEY", "TORCH", "reference", "resolve"]

# tenkey name -> dotted name in torch, or an expression of the operands x1, x2, x3 if PyTorch has no such function.
TORCH: Mapping[str, str] = {
    "clip_between": "clamp",
    "close_floats": "isclose",
    "elu": "nn.functional.elu",
    "equal": "eq",
    "gelu": "nn.functional.gelu",
    "greater": "gt",
    "greater_equal": "ge",
    "leaky_relu": "nn.functional.leaky_relu",
    "less": "lt",
    "less_equal": "le",
    "log_sigmoid": "nn.functional.logsigmoid",
    "mish": "nn.functional.mish",
    "not_equal": "ne",
    "positive": "x1 + 0",  # torch.positive returns its argument; tenkey and NumPy copy it
    "relu6": "nn.functional.relu6",
    "replace_nonfinite": "nan_to_num",
    "hardtanh": "nn.functional.hardtanh",
    "silu": "nn.functional.silu",
    "softplus": "nn.functional.softplus",
    "softsign": "nn.functional.softsign",
    "special_beta": "exp(lgamma(x1) + lgamma(x2) - lgamma(x1 + x2))",
    "special_betaln": "lgamma(x1) + lgamma(x2) - lgamma(x1 + x2)",
    "special_exprel": "expm1(x1) / x1",
    "special_gamma": "exp(lgamma(x1))",
    "special_j0": "special.bessel_j0",
    "special_j1": "special.bessel_j1",
    "special_k0": "special.modified_bessel_k0",
    "special_k0e": "special.scaled_modified_bessel_k0",
    "special_k1": "special.modified_bessel_k1",
    "special_k1e": "special.scaled_modified_bessel_k1",
    "special_log_expit": "nn.functional.logsigmoid",
    "special_y0": "special.bessel_y0",
    "special_y1": "special.bessel_y1",
}

# The same for NumPy; expressions are what NumPy users write.
NUMPY: Mapping[str, str] = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "bitwise_not",
    "cbrt": "cbrt",
    "clip_between": "clip",
    "close_floats": "isclose",
    "hardtanh": "clip(x1, -1, 1)",
    "pow": "power",
    "relu": "maximum(x1, 0)",
    "relu6": "clip(x1, 0, 6)",
    "replace_nonfinite": "nan_to_num",
    "round": "rint",
    "rsqrt": "1 / sqrt(x1)",
    "sigmoid": "1 / (1 + exp(-x1))",
    "silu": "x1 / (1 + exp(-x1))",
    "softplus": "logaddexp(x1, 0)",
    "softsign": "x1 / (1 + abs(x1))",
    "special_entr": "-x1 * log(x1)",
    "special_expit": "1 / (1 + exp(-x1))",
    "special_exprel": "expm1(x1) / x1",
    "special_kl_div": "x1 * log(x1 / x2) - x1 + x2",
    "special_logit": "log(x1 / (1 - x1))",
    "special_rel_entr": "x1 * log(x1 / x2)",
    "special_xlog1py": "x1 * log1p(x2)",
    "special_xlogy": "x1 * log(x2)",
}

# Operators with required parameters beside their operands, and the function that supplies them.
TENKEY: Mapping[str, str] = {
    "clip_between": "clip",
    "close_floats": "isclose",
    "replace_nonfinite": "nan_to_num",
}

# Operands other than float32: one letter per operand, "b" a bool array, "f" float32 within the operator's domain.
OPERANDS: Mapping[str, str] = {
    "where": "bff",
}

_INTEGERS = "an operator of integers and bools"
_COMPLEX = "an operator of complex numbers; for real ones it returns its argument, or zeros"

# Operators left out because float32, the dtype of the table, is not their purpose. Name -> reason.
LEFT_OUT: Mapping[str, str] = {
    "bitwise_and": _INTEGERS,
    "bitwise_invert": _INTEGERS,
    "bitwise_left_shift": _INTEGERS,
    "bitwise_or": _INTEGERS,
    "bitwise_right_shift": _INTEGERS,
    "bitwise_xor": _INTEGERS,
    "conj": _COMPLEX,
    "imag": _COMPLEX,
    "real": _COMPLEX,
}


def reference(name: str, library: str, lookup: Callable[[str], str | None] | None = None) -> str:
    """Return the name or expression of a library for the operator ``name`` (with or without its namespace)."""
    short = name.partition("::")[2] or name
    if lookup is None:
        lookup = (TORCH if library == "torch" else NUMPY).get
    return lookup(short) or short.replace("special_", "special.", 1)


def resolve(module: Any, text: str, arity: int) -> Callable[..., Any] | None:
    """Return the function that ``text`` names in ``module`` or defines as an expression; None if there is none.

    >>> import math
    >>> resolve(math, "exp", 1)(0.0), resolve(math, "1 / (1 + exp(-x1))", 1)(0.0), resolve(math, "no_such", 1)
    (1.0, 0.5, None)
    """
    if not text.replace(".", "").isidentifier():
        parameters = ", ".join(f"x{position}" for position in range(1, arity + 1))
        made: Callable[..., Any] = eval(f"lambda {parameters}: {text}", {**vars(module)})  # text is from this file
        return made
    found = module
    for part in text.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found if callable(found) else None
