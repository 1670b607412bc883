"""Functions of compiled libraries as operators."""
