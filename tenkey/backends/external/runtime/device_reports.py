"""Errors that the operators on a device find, for kernels that cannot report them: Note [The error word]."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor, make_tensor, word_for
from ....dispatch.local_state import silently
from ....dispatch.registry import registry
from .device_errors import error_words
from .streams import settle

__all__ = ["report_if_any"]


def report_if_any(backend: Any, failed: Tensor, operator: str, message: str, error: type[Exception]) -> None:
    """Raise ``error(f"[{operator}] {message}")`` at the next synchronization if any element is true.

    On a synchronous backend that is now.
    """
    device = failed.device.index
    code = backend.error_code(operator, message, error)
    window = backend.error_word(device)
    word = make_tensor(window, word_for(window.device, window.dtype))
    silently(_store_code, word, failed, code)
    error_words(backend).mark(device)
    if not backend.asynchronous:
        settle(backend, device)


def _store_code(word: Tensor, failed: Tensor, code: int) -> None:
    """Store a code in an error word if any element is true; an error that is there remains."""
    call = {name: registry.find(f"tk::{name}").call for name in ("any", "equal", "logical_and", "where", "copy_")}
    first = call["logical_and"](call["any"](failed), call["equal"](word, 0))
    call["copy_"](word, call["where"](first, code, word))
