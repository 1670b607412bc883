"""Functions of ``tenkey.numpy`` that are not rows of the table: dimensions, writing into arrays, calling functions."""
