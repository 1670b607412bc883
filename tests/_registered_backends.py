"""Registers a right backend and one with a mistake, for a process that runs the conformance suite on one of them.

``tools/wrong_kernels`` has the other wrong ones, which the suite must notice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenkey as tk
from tests._backends import TemplateHost


class Right(TemplateHost):
    name = "right"


class Raises(TemplateHost):
    """A template with a mistake in it."""

    name = "raises"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        if scalar.name == "tk::tanh":
            raise KeyError("mistake of the author")
        return super().pointwise(scalar, operands, result)


for _kind in (Right, Raises):
    tk.backends.register(_kind())
