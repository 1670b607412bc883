"""From CUDA C++ to PTX by nvrtc, without a driver or a GPU."""

from __future__ import annotations

import re
from typing import Any, Final

from .kernel_source import CudaSource

__all__ = ["CudaCompileError", "cuda_to_ptx"]

_FILE: Final = re.compile(r'^(\s*\.file\s+\d+) ".*?([^/"]*)"', re.MULTILINE)


class CudaCompileError(RuntimeError):
    """A kernel in CUDA C++ that nvrtc does not compile."""


def cuda_to_ptx(source: CudaSource, cc: tuple[int, int]) -> str:
    """Return the PTX of a kernel for a compute capability such as ``(9, 0)``."""
    from cuda.bindings import nvrtc

    place = f"{source.name}.cu"
    text = source.text.encode()
    options = [f"--gpu-architecture=compute_{cc[0]}{cc[1]}".encode(), b"--fmad=false", b"--generate-line-info"]
    options += [f"--include-path={folder}".encode() for folder in _headers(source.text)]
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text, place.encode(), 0, [], []))
    try:
        (status, *_) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program)))
            _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
            lines = bytes(log).decode(errors="replace").rstrip("\0\n")
            raise CudaCompileError(f"[{source.name}] the CUDA source does not compile:\n{lines}")
        ptx = bytearray(_checked(nvrtc, nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetPTX(program, ptx))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    found = _FILE.sub(r'\1 "\2"', bytes(ptx).decode().rstrip("\0"))
    if f".entry {source.name}(" not in found:
        remedy = f'declare it as extern "C" __global__ void {source.name}(...)'
        raise CudaCompileError(f"[{source.name}] the CUDA source has no kernel of this name: {remedy}.")
    lines = "".join([f"//> {line}\n" for line in source.text.splitlines()])
    return f"{found}\n\n// Source of {source.name}:\n{lines}"


def _headers(text: str) -> list[str]:
    """Return the folders of CUDA's headers, such as ``cuda_fp16.h``, for a text that includes some."""
    if "#include" not in text:
        return []
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:  # an older release
        return []
    found = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return [str(folder) for folder in found if folder]


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        text = _checked(nvrtc, nvrtc.nvrtcGetErrorString(status))
        raise CudaCompileError(f"nvrtc: {text.decode()}")
    return values[0] if values else None
