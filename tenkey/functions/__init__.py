"""Functions of the namespace whose signatures the schema language cannot express.

Most functions here belong to ``tk.linalg`` and ``tk.fft``, whose operators are declared at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._util.lazy_import import lazy_import

if TYPE_CHECKING:  # Note [Delayed modules]
    from .calculating.planar_transforms import fft2, ifft2, irfft2, rfft2
    from .calculating.tensor_systems import tensorinv, tensorsolve
    from .configuration import show_config
    from .matrix_norms import cond, matrix_norm, norm
    from .statistics import average, histogram, histogram_bin_edges, histogramdd

__all__ = [
    "average", "cond", "fft2", "histogram", "histogram_bin_edges", "histogramdd", "ifft2", "irfft2", "matrix_norm",
    "norm", "rfft2", "show_config", "tensorinv", "tensorsolve",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "calculating.planar_transforms": ("fft2", "ifft2", "irfft2", "rfft2"),
            "calculating.tensor_systems": ("tensorinv", "tensorsolve"),
            "configuration": ("show_config",),
            "matrix_norms": ("cond", "matrix_norm", "norm"),
            "statistics": ("average", "histogram", "histogram_bin_edges", "histogramdd"),
        },
    )
