"""Scalar expressions made executable for one dtype: by NumPy, and by compiled loops."""
