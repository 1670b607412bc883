"""tenkey: an extensible tensor framework. ``import tenkey as tk``.

This module is the composition root: it imports the layers, lets each subscribe to the operators, and names what is
public.
"""

from __future__ import annotations

import math as _math
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import _names, autograd, backends, core, dispatch, library, ops, random, transforms
from .autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .backends import cpu as _cpu
from .backends import meta as _meta
from .backends.cpu import get_num_threads, set_num_threads
from .core.device import Device as device  # noqa: N813  # PyTorch's name for it
from .core.dtypes import (
    bool,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.printing import get_printoptions, printoptions, set_printoptions
from .core.tensor import Tensor, shares_storage
from .core.wrapper import install_levels as _install_levels
from .creation import asarray, tensor
from .dispatch import registry as _registry
from .dispatch.mode import install_modes as _install_modes
from .dispatch.subclass import install_subclasses as _install_subclasses
from .library.checking import provide_checks as _provide_checks
from .ops import install as _install
from .ops.autocast import autocast, is_autocast_enabled
from .ops.autocast import install_autocast as _install_autocast
from .ops.builtin.complex import conj, imag, real
from .ops.builtin.copying import astype, concat, flip, stack
from .ops.builtin.creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .ops.builtin.indexing import scatter_add, take, take_along_axis
from .ops.builtin.linalg import matmul
from .ops.builtin.nn import cross_entropy, log_softmax, softmax
from .ops.builtin.pointwise import (
    abs,
    add,
    ceil,
    cos,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
    where,
)
from .ops.builtin.reduction import all, any, argmax, argmin, logsumexp, max, mean, min, prod, sum
from .ops.builtin.view import broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape, squeeze

if TYPE_CHECKING:
    from . import testing as testing

__version__ = "0.1.0"

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi


def __getattr__(name: str) -> _Any:
    """``tk.testing``, at first use; an operator that was declared after the namespace was made."""
    if name == "testing":
        return _import_module(".testing", __name__)  # sets the attribute
    return _names.find_public("", name)


def __dir__() -> list[str]:
    return sorted({*globals(), "testing"})


_install_modes(_registry)
_install_subclasses(_registry)
_install_autocast(_registry)
_install_levels(_registry)
_install.install(_registry)
_cpu.install(_registry)
_meta.install(_registry)
autograd.install(_registry)
transforms.install(_registry, gradient=autograd.grad, forward=autograd.forward_ad)


def _load_checks() -> _Any:
    from .testing.checks import run_checks

    return run_checks


_provide_checks(_load_checks)

globals().update(_names.expose(""))

from . import fft as fft  # noqa: E402  # what they hold are the operators with these prefixes
from . import linalg as linalg  # noqa: E402
from . import special as special  # noqa: E402

__all__ = [
    "Tensor",
    "abs",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "astype",
    "autocast",
    "autograd",
    "backends",
    "bool",
    "broadcast_to",
    "ceil",
    "complex128",
    "complex64",
    "concat",
    "conj",
    "core",
    "cos",
    "cross_entropy",
    "device",
    "dispatch",
    "divide",
    "e",
    "empty",
    "empty_like",
    "enable_grad",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "finfo",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "get_num_threads",
    "get_printoptions",
    "greater",
    "greater_equal",
    "iinfo",
    "imag",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_autocast_enabled",
    "is_grad_enabled",
    "isdtype",
    "isfinite",
    "isnan",
    "less",
    "less_equal",
    "library",
    "linspace",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "no_grad",
    "not_equal",
    "ones",
    "ones_like",
    "ops",
    "permute_dims",
    "pi",
    "pow",
    "printoptions",
    "prod",
    "random",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "round",
    "rsqrt",
    "scatter_add",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "shares_storage",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tanh",
    "tensor",
    "transforms",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "where",
    "zeros",
    "zeros_like",
]

__all__.extend(sorted({*_names.expose(""), "fft", "linalg", "special"} - {*__all__}))  # noqa: PYI056  # the stub beside it is what type checkers read
