"""Special functions, under their names in ``scipy.special``, with derivatives.

Every name is an operator whose block begins with ``special_`` (``tenkey/ops/builtin``).
"""

from __future__ import annotations

from ._names import fill_module

__all__: list[str] = []
__getattr__ = fill_module("special", globals())
