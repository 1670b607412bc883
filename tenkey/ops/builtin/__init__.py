"""The built-in operators."""

from . import complex, copying, creation, indexing, inplace, linalg, nn, pointwise, random, reduction, view

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
    "view",
]
