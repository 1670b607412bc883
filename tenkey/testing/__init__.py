"""Tools for testing operators: sample inputs, checks of an operator, and dispatch modes."""

from ..library.opcheck_report import OpCheckError, OpCheckReport, opcheck
from .cuda_driver import CudaEmulator, cuda_emulator
from .modes import CallTrace, DeterministicCheck, FlopCounter, OperatorCounter, StrictFallback
from .printers import PrintedFunction, PrinterReport, WrongPrinterError, WrongResult, check_printer
from .samples import SampleInput, accepts, samples

__all__ = [
    "CallTrace", "CudaEmulator", "DeterministicCheck", "FlopCounter", "OpCheckError", "OpCheckReport",
    "OperatorCounter", "PrintedFunction", "PrinterReport", "SampleInput", "StrictFallback", "WrongPrinterError",
    "WrongResult", "accepts", "check_printer", "cuda_emulator", "opcheck", "samples",
]  # fmt: skip
