"""A CUDA driver in host memory: the device ``cuda`` on a machine without a GPU."""

from .emulator import CudaEmulator, EmulatorCounts, cuda_emulator, emulator_from_environment

__all__ = ["CudaEmulator", "EmulatorCounts", "cuda_emulator", "emulator_from_environment"]
