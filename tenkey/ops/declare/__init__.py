"""Facets and the declaration functions that make blocks of them."""

from .declaration import Entry, composite, factory, operator_of, pointwise, reduction, structured, view
from .facets import TensorSpec
from .promotion import ARITHMETIC, BOOLEAN, COMPARISON, INT_TO_FLOAT, REAL, SAME, SUM

__all__ = [
    "ARITHMETIC",
    "BOOLEAN",
    "COMPARISON",
    "INT_TO_FLOAT",
    "REAL",
    "SAME",
    "SUM",
    "Entry",
    "TensorSpec",
    "composite",
    "factory",
    "operator_of",
    "pointwise",
    "reduction",
    "structured",
    "view",
]
