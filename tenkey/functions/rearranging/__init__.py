"""Functions that join, cut and overwrite tensors, and that make indices; they call operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import

if TYPE_CHECKING:  # Note [Delayed modules]
    from .bit_packing import packbits, unpackbits
    from .grids import (
        diag_indices,
        diag_indices_from,
        diagflat,
        fill_diagonal,
        fromfunction,
        indices,
        ix_,
        mask_indices,
        tril_indices,
        tril_indices_from,
        triu_indices,
        triu_indices_from,
    )
    from .joining import append, column_stack, delete, dsplit, hsplit, insert, resize, trim_zeros, vsplit
    from .writing import place, put, putmask

__all__ = [
    "append",
    "column_stack",
    "delete",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "dsplit",
    "fill_diagonal",
    "fromfunction",
    "hsplit",
    "indices",
    "insert",
    "ix_",
    "mask_indices",
    "packbits",
    "place",
    "put",
    "putmask",
    "resize",
    "tril_indices",
    "tril_indices_from",
    "trim_zeros",
    "triu_indices",
    "triu_indices_from",
    "unpackbits",
    "vsplit",
]

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "bit_packing": (
                "packbits",
                "unpackbits",
            ),
            "grids": (
                "diag_indices",
                "diag_indices_from",
                "diagflat",
                "fill_diagonal",
                "fromfunction",
                "indices",
                "ix_",
                "mask_indices",
                "tril_indices",
                "tril_indices_from",
                "triu_indices",
                "triu_indices_from",
            ),
            "joining": (
                "append",
                "column_stack",
                "delete",
                "dsplit",
                "hsplit",
                "insert",
                "resize",
                "trim_zeros",
                "vsplit",
            ),
            "writing": (
                "place",
                "put",
                "putmask",
            ),
        },
    )
