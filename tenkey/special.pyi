# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Special functions, as ``scipy.special`` names them, with derivatives."""


__all__ = [
]


