"""The built-in operators."""

from . import (
    complex,
    copying,
    creation,
    indexing,
    inplace,
    linalg,
    nn,
    pointwise,
    random,
    reduction,
    tensor_methods,
    view,
)

__all__ = [
    "complex",
    "copying",
    "creation",
    "indexing",
    "inplace",
    "linalg",
    "nn",
    "pointwise",
    "random",
    "reduction",
    "tensor_methods",
    "view",
]
