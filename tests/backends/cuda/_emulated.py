"""What tests on the emulator share: where it is available, and work that keeps a stream busy."""

from __future__ import annotations

import gc
import shutil
from typing import Any

import numpy as np
import pytest

import tenkey as tk

__all__ = ["emulated", "on_device"]


def emulated(*, guard: int = 0, spare: int | None = None, **options: Any) -> Any:
    """Start the emulator for a ``with`` block; skip the test where it cannot run.

    ``spare`` bytes of memory are free: programs of earlier tests that ended in an error leave memory behind.
    """
    pytest.importorskip("cuda.bindings", reason="the extra cuda is not installed")
    pytest.importorskip("cuda.core", reason="the extra cuda is not installed")
    if shutil.which("cc") is None:
        pytest.skip("the stub driver is compiled, and no C compiler is installed")
    gc.collect()  # tensors of earlier tests, whose memory is freed when the emulator starts
    if spare is not None:
        with tk.testing.cuda_emulator(**options) as emulator:
            options["memory"] = spare + emulator.held()[1]
    return tk.testing.cuda_emulator(guard=guard, **options)


def on_device(values: Any, dtype: Any = np.float32, device: str = "cuda") -> tk.Tensor:
    return tk.asarray(np.asarray(values, dtype), device=device)
