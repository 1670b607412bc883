"""Kernels of the template ``rows``: sweeps over rows that a warp or a block keeps in registers, and over long rows."""

from .sweeping import sweeping

__all__ = ["sweeping"]
