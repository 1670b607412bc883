"""The libraries that ``python -m benchmarks.cuda`` compares: the same statements on tenkey, PyTorch and CuPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import tenkey as tk
from benchmarks._harness import INSTALL_TORCH
from tenkey.core.dtypes.names import to_dtype

__all__ = ["Library", "cupy_library", "others", "tenkey_library", "torch_library"]


class Library(NamedTuple):
    """A library: what its statements use, how operands are made, and what else a timing needs.

    ``graph`` returns a function that replays what a function has queued. ``module`` makes tensors on the device, for
    :mod:`benchmarks._models`. Both are None where they are not compared.
    """

    name: str
    names: Mapping[str, Any]
    make: Callable[[tuple[int, ...], str], Any]
    synchronize: Callable[[], None]
    graph: Callable[[Callable[[], Any]], Callable[[], Any]] | None = None
    module: Any = None


class _OnDevice:
    """A library whose ``tensor`` and ``arange`` make tensors on a device."""

    def __init__(self, module: Any, device: str) -> None:
        self._module = module
        self._device = device

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return partial(found, device=self._device) if name in ("tensor", "arange") else found


def tenkey_library(device: str = "cuda") -> Library:
    """Return tenkey on a device."""

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "int64":
            return tk.arange(shape[0], device=device)
        return tk.astype(tk.random.uniform(shape, device=device), to_dtype(dtype))

    def layer_norm(x: Any) -> Any:
        centred = x - tk.mean(x, axis=-1, keepdims=True)
        return centred * tk.rsqrt(tk.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    x = tk.asarray(np.arange(4, dtype=np.float32), device=device)
    names = {
        "x": x, "y": x + 1, "c": x > 1, "p": tk.tensor(np.ones(4, np.float32), device=device, requires_grad=True),
        "copy": lambda x: x.clone(), "exp": tk.exp, "sin": tk.sin, "where": tk.where, "sum": tk.sum,
        "argmax": lambda x, axis: tk.argmax(x, axis=axis), "softmax": lambda x: tk.softmax(x, axis=-1),
        "layer_norm": layer_norm, "cumsum": lambda x, axis: tk.cumulative_sum(x, axis=axis),
        "sort": lambda x: tk.sort(x, axis=-1), "take": lambda x, i: tk.take(x, i, axis=0),
    }  # fmt: skip
    on_gpu = device == "cuda"
    synchronize = tk.cuda.synchronize if on_gpu else _nothing
    graph = tk.cuda.graph if on_gpu else None
    return Library("tenkey", names, make, synchronize, graph, _OnDevice(tk, device))


def torch_library(torch: Any, device: str = "cuda") -> Library:
    """Return PyTorch on a device; its matrix products are in full float32, as those of tenkey."""
    torch.backends.cuda.matmul.allow_tf32 = False

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "int64":
            return torch.arange(shape[0], device=device)
        return torch.rand(shape, device=device).to(getattr(torch, dtype))

    def graph(step: Callable[[], Any]) -> Callable[[], Any]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # libraries are loaded outside of the capture
        torch.cuda.current_stream().wait_stream(side)
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made):
            step()
        return made.replay  # type: ignore[no-any-return]

    x = torch.arange(4.0, device=device)
    names = {
        "x": x, "y": x + 1, "c": x > 1, "p": torch.ones(4, device=device, requires_grad=True),
        "copy": lambda x: x.clone(memory_format=torch.contiguous_format), "exp": torch.exp, "sin": torch.sin,
        "where": torch.where, "sum": torch.sum, "argmax": torch.argmax, "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), "cumsum": torch.cumsum,
        "sort": lambda x: torch.sort(x, -1)[0], "take": lambda x, i: torch.index_select(x, 0, i),
    }  # fmt: skip
    synchronize = torch.cuda.synchronize if device == "cuda" else _nothing
    return Library("torch", names, make, synchronize, graph, _OnDevice(torch, device))


def cupy_library(cupy: Any) -> Library:
    """Return CuPy, or NumPy in its place, which has the same functions."""

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return cupy.arange(shape[0]) if dtype == "int64" else cupy.random.rand(*shape).astype(dtype)

    def softmax(x: Any) -> Any:
        e = cupy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layer_norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / cupy.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)

    x = cupy.arange(4, dtype="float32")
    names = {
        "x": x, "y": x + 1, "c": x > 1, "copy": lambda x: x.copy("C"),
        "exp": cupy.exp, "sin": cupy.sin, "where": cupy.where,
        "sum": cupy.sum, "argmax": cupy.argmax, "softmax": softmax, "layer_norm": layer_norm, "cumsum": cupy.cumsum,
        "sort": lambda x: cupy.sort(x, -1), "take": lambda x, i: cupy.take(x, i, 0),
    }  # fmt: skip
    on_gpu = hasattr(cupy, "cuda")
    return Library("cupy", names, make, (lambda: cupy.cuda.Device().synchronize()) if on_gpu else _nothing)


def others() -> list[Library]:
    """Return PyTorch and CuPy, where they are installed and can use the GPU; say so of the others."""
    found = []
    for name, make in (("torch", torch_library), ("cupy", cupy_library)):
        try:
            found.append(make(import_module(name)))
        except Exception as error:  # not installed, or without CUDA
            text = str(error).strip().partition("\n")[0]
            remedy = INSTALL_TORCH if name == "torch" else "CuPy's column needs CuPy: pip install cupy-cuda13x"
            print(f"{name} is left out: {type(error).__name__}: {text}. {remedy}")
    return found


def _nothing() -> None:
    """Do nothing: calls are complete when they return."""
