# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Linear algebra: the array API standard's extension ``linalg``, and what array users know beside it."""


__all__ = [
]


