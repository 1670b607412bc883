"""What tests of ``opcheck`` share: sample tensors, and the report of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.library import OpCheckReport, opcheck


def sample(*shape: int, dtype: str = "float32", shift: float = 0.0) -> Tensor:
    """Values of both signs, none of them near a whole number."""
    count = int(np.prod(shape))
    values = (np.arange(count) * 0.7 + 0.3 + shift) % 3 - 1.2
    return tk.asarray(values.reshape(shape).astype(dtype))


X = sample(3, 4)
Y = sample(3, 4, shift=0.45)


def report_of(op: Any, *args: Any, checks: Any = None, **kwargs: Any) -> OpCheckReport:
    """The report of a call, whether it passes or not."""
    return opcheck(op, args, kwargs, raise_exception=False, checks=checks)
