"""What tests of operators are made of, for those shipped here and for yours: samples, and checks of one operator."""

from __future__ import annotations

from ..library.checking import OpCheckError, OpCheckReport, opcheck
from .samples import SampleInput, accepts, samples

__all__ = ["OpCheckError", "OpCheckReport", "SampleInput", "accepts", "opcheck", "samples"]
