"""Functions of the namespace whose signatures the schema language cannot express; they call operators.

``NAMES`` belong to ``tk`` itself, the others to ``tk.linalg`` and ``tk.fft``, whose operators are declared at their
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .._util.lazy_import import lazy_import
from ..dispatch.registry import registry

if TYPE_CHECKING:  # Note [Delayed modules]
    from .calculating.number_tests import (
        array_equiv,
        iscomplex,
        iscomplexobj,
        isneginf,
        isposinf,
        isreal,
        isrealobj,
        real_if_close,
    )
    from .calculating.orders import lexsort, sort_complex
    from .calculating.planar_transforms import fft2, ifft2, irfft2, rfft2
    from .calculating.polynomial_algebra import (
        poly,
        polyadd,
        polyder,
        polydiv,
        polyfit,
        polyint,
        polymul,
        polysub,
        roots,
    )
    from .calculating.tensor_systems import tensorinv, tensorsolve
    from .calculating.windows import bartlett, blackman, hamming, hanning, kaiser
    from .configuration import show_config
    from .linalg import einsum, tensordot
    from .matrix_norms import cond, matrix_norm, norm
    from .rearranging.along_axis import put_along_axis
    from .rearranging.bit_packing import packbits, unpackbits
    from .rearranging.grids import (
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
    from .rearranging.joining import append, column_stack, delete, dsplit, hsplit, insert, resize, trim_zeros, vsplit
    from .rearranging.writing import place, put, putmask
    from .statistics import average, histogram, histogram_bin_edges, histogramdd

__all__ = [
    "NAMES", "append", "array_equiv", "average", "bartlett", "blackman", "column_stack", "cond", "delete",
    "diag_indices", "diag_indices_from", "diagflat", "dsplit", "einsum", "fft2", "fill_diagonal", "fromfunction",
    "hamming", "hanning", "histogram", "histogram_bin_edges", "histogramdd", "hsplit", "ifft2", "indices", "insert",
    "irfft2", "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "ix_", "kaiser", "lexsort",
    "mask_indices", "matrix_norm", "norm", "packbits", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit",
    "polyint", "polymul", "polysub", "put", "put_along_axis", "putmask", "real_if_close", "resize", "rfft2", "roots",
    "show_config", "sort_complex", "tensordot", "tensorinv", "tensorsolve", "tril_indices", "tril_indices_from",
    "trim_zeros", "triu_indices", "triu_indices_from", "unpackbits", "vsplit",
]  # fmt: skip
NAMES: Final = frozenset(__all__) - {
    "NAMES", "cond", "fft2", "ifft2", "irfft2", "matrix_norm", "norm", "rfft2", "tensorinv", "tensorsolve",
}  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    _find, __dir__ = lazy_import(
        __name__,
        {
            "calculating.number_tests": (
                "array_equiv", "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj",
                "real_if_close",
            ),
            "calculating.orders": ("lexsort", "sort_complex"),
            "calculating.planar_transforms": ("fft2", "ifft2", "irfft2", "rfft2"),
            "calculating.polynomial_algebra": (
                "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots",
            ),
            "calculating.tensor_systems": ("tensorinv", "tensorsolve"),
            "calculating.windows": ("bartlett", "blackman", "hamming", "hanning", "kaiser"),
            "configuration": ("show_config",),
            "linalg": ("einsum", "tensordot"),
            "matrix_norms": ("cond", "matrix_norm", "norm"),
            "rearranging.along_axis": ("put_along_axis",),
            "rearranging.bit_packing": ("packbits", "unpackbits"),
            "rearranging.grids": (
                "diag_indices", "diag_indices_from", "diagflat", "fill_diagonal", "fromfunction", "indices", "ix_",
                "mask_indices", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
            ),
            "rearranging.joining": (
                "append", "column_stack", "delete", "dsplit", "hsplit", "insert", "resize", "trim_zeros", "vsplit",
            ),
            "rearranging.writing": ("place", "put", "putmask"),
            "statistics": ("average", "histogram", "histogram_bin_edges", "histogramdd"),
        },
    )  # fmt: skip

    def __getattr__(name: str) -> object:
        with registry.lock:  # before that of the module, which may declare operators
            return _find(name)
