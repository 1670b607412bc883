"""Compilation of scalar expressions with Numba."""
