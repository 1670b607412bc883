"""For tests of operators, of those shipped here and of yours: sample inputs, checks of one operator, and modes."""

from __future__ import annotations

from ..library.opcheck_report import OpCheckError, OpCheckReport, opcheck
from .modes import CallTrace, DeterministicCheck, FlopCounter, OperatorCounter, StrictFallback
from .samples import SampleInput, accepts, samples

__all__ = [
    "CallTrace",
    "DeterministicCheck",
    "FlopCounter",
    "OpCheckError",
    "OpCheckReport",
    "OperatorCounter",
    "SampleInput",
    "StrictFallback",
    "accepts",
    "opcheck",
    "samples",
]
