"""Functions that calculate, with arguments that a schema cannot express; they call operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import

if TYPE_CHECKING:  # Note [Delayed modules]
    from .number_tests import array_equiv, iscomplex, iscomplexobj, isneginf, isposinf, isreal, isrealobj, real_if_close
    from .orders import lexsort, sort_complex
    from .polynomial_algebra import poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, roots
    from .windows import bartlett, blackman, hamming, hanning, kaiser

__all__ = [
    "array_equiv",
    "bartlett",
    "blackman",
    "hamming",
    "hanning",
    "iscomplex",
    "iscomplexobj",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "kaiser",
    "lexsort",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "real_if_close",
    "roots",
    "sort_complex",
]

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "number_tests": (
                "array_equiv",
                "iscomplex",
                "iscomplexobj",
                "isneginf",
                "isposinf",
                "isreal",
                "isrealobj",
                "real_if_close",
            ),
            "orders": (
                "lexsort",
                "sort_complex",
            ),
            "polynomial_algebra": (
                "poly",
                "polyadd",
                "polyder",
                "polydiv",
                "polyfit",
                "polyint",
                "polymul",
                "polysub",
                "roots",
            ),
            "windows": (
                "bartlett",
                "blackman",
                "hamming",
                "hanning",
                "kaiser",
            ),
        },
    )
