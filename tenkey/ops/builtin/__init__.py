"""The built-in operators."""

from . import (
    complex,
    copying,
    creation,
    indexing,
    inplace,
    linalg,
    linalg_decompositions,
    linalg_solve,
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
    "linalg_decompositions",
    "linalg_solve",
    "nn",
    "pointwise",
    "random",
    "reduction",
    "tensor_methods",
    "view",
]
