"""What tests of vmap share."""

from __future__ import annotations

import numpy as np

import tenkey as tk
from tenkey.core.tensor import Tensor


def rows() -> Tensor:
    return tk.asarray(np.arange(12.0).reshape(3, 4))
