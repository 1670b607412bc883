"""Protocols and names of other libraries: NumPy functions and ufuncs, einops."""
