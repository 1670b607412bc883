"""Tags: what the declaration of an operator says about it, apart from its schema and facets."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Tag"]


class Tag(StrEnum):
    """One property of an operator that drives rules which are derived for it.

    >>> Tag.POINTWISE in tk.ops.tk.add.default.tags, Tag("inplace") is Tag.INPLACE
    (True, True)
    """

    POINTWISE = "pointwise"  # each element of the result depends on the elements at the same place
    REDUCTION = "reduction"  # the operator combines elements along axes
    VIEW = "view"  # the result shares the memory of the first argument
    INPLACE = "inplace"  # the variant ``name_``, which writes into the first argument, is derived
    OUT = "out"  # the overload ``name.out``, which writes into ``out=``, is derived
    NONDETERMINISTIC = "nondeterministic"  # equal arguments may give different results
    DATA_DEPENDENT_OUTPUT = "data_dependent_output"  # the shape of the result depends on the values of the arguments
    NEEDS_EXACT_STRIDES = "needs_exact_strides"  # the kernels depend on the strides of the arguments
    MIXES_DEVICES = "mixes_devices"  # one call may take tensors of several devices
    KEEPS_PYTHON_SCALARS = "keeps_python_scalars"  # Python numbers among tensors stay Python numbers
    EXACT_SEQUENCES = "exact_sequences"  # floats in a list that stands for a tensor stay float64
    INTERNAL = "internal"  # the operator is not a public name
    DERIVED = "derived"  # the operator computes a derivative of another one, or a step of its decomposition
    VARIANT = "variant"  # the operator was derived when it was looked up; a definition may take its place
    INPLACE_VARIANT = "inplace_variant"  # the operator writes into its first argument what another operator computes
    CUSTOM_OP = "custom_op"  # the operator was made by ``tk.library.custom_op``
    LIBRARY = "library"  # the operator was declared with a function of ``tk.library``
