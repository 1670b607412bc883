"""Tools for testing operators: sample inputs, checks of an operator, and dispatch modes."""

from ..library.opcheck_report import OpCheckError, OpCheckReport, opcheck
from .modes import CallTrace, DeterministicCheck, FlopCounter, OperatorCounter, StrictFallback
from .samples import SampleInput, accepts, samples

__all__ = [
    "CallTrace", "DeterministicCheck", "FlopCounter", "OpCheckError", "OpCheckReport", "OperatorCounter", "SampleInput",
    "StrictFallback", "accepts", "opcheck", "samples",
]  # fmt: skip
