"""Facets and the declaration functions that make blocks of them."""

from .along_axes import arg_reduction, place_meta, scan, scan_axis
from .batch import along, broadcast, core_dims, gather, loop, prepend, same_dim
from .declaration import Entry, composite, factory, operator_of, pointwise, reduction, structured, view
from .facets import FEW, ArgScan, Decomposition, ElementPlan, TensorSpec, checked, linear
from .methods import attach_methods
from .promotion import (
    ARITHMETIC,
    BOOLEAN,
    COMPARISON,
    EACH_TO_FLOAT,
    INT_TO_FLOAT,
    MAGNITUDE,
    ORDERED,
    REAL,
    REAL_TO_FLOAT,
    SAME,
    SUM,
)
from .samples import normal
from .short_forms import elementwise, internal, internal_composite, internal_function, scalar_function, unary_function
from .sweeps import Rows, Sweep

__all__ = [
    "ARITHMETIC", "BOOLEAN", "COMPARISON", "EACH_TO_FLOAT", "FEW", "INT_TO_FLOAT", "MAGNITUDE", "ORDERED", "REAL",
    "REAL_TO_FLOAT", "SAME", "SUM", "ArgScan", "Decomposition", "ElementPlan", "Entry", "Rows", "Sweep", "TensorSpec",
    "along", "arg_reduction", "attach_methods", "broadcast", "checked", "composite", "core_dims", "elementwise",
    "factory", "gather", "internal", "internal_composite", "internal_function", "linear", "loop", "normal",
    "operator_of", "place_meta", "pointwise", "prepend", "reduction", "same_dim", "scalar_function", "scan",
    "scan_axis", "structured", "unary_function", "view",
]  # fmt: skip
