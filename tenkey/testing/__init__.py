"""What tests of operators are made of, for those shipped here and for yours: sample inputs from declarations."""

from __future__ import annotations

from .samples import SampleInput, accepts, samples

__all__ = ["SampleInput", "accepts", "samples"]
