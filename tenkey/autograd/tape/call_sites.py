"""Where in the user's program a node was recorded and a tensor was changed: noted while anomaly mode is on.

Note [Traces]
~~~~~~~~~~~~~
A trace is a tuple of pairs (code object, index of the instruction), the innermost frame first. That costs a walk over
the frames and holds none of them; lines and texts are looked up when an error is written. A node has its trace in its
own dict, a storage that was changed has it in a table that does not keep it alive. Guarded by
``tests/autograd/test_anomaly.py::test_traces_keep_nothing_alive``.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import traceback
from pathlib import Path
from types import CodeType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ...core.storage import Storage
from ...core.tensor import Tensor, storage_of
from .node import Node

__all__ = ["forward_trace", "history_of", "label", "note_change", "place", "take"]

Trace = tuple[tuple[CodeType, int], ...]

_DEPTH: Final = 64  # frames that are kept
_PACKAGE: Final = f"{Path(__file__).parent.parent}{os.sep}"
_FORWARD: Final = "Traceback of forward call that caused the error (most recent call last):\n{lines}"

_changes: WeakKeyDictionary[Storage, tuple[str, Trace]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def take() -> Trace:
    """The frames of the caller's callers."""
    found: list[tuple[CodeType, int]] = []
    frame = sys._getframe(1).f_back
    while frame is not None and len(found) < _DEPTH:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def label(node: Node) -> None:
    """Note on a node where it was recorded, unless that is known."""
    notes = node.__dict__
    if "_trace" not in notes:
        notes["_trace"] = take()


def note_change(tensor: Tensor, operator: str) -> None:
    """Note which operator changed the memory of a tensor, and where."""
    with _lock:
        _changes[storage_of(tensor)] = (operator, take())


def _summary(trace: Trace) -> list[traceback.FrameSummary]:
    """The frames of the user's program, the outermost first."""
    found = []
    for code, instruction in trace:
        name = code.co_filename
        if name.startswith((_PACKAGE, "<")):
            continue
        line = next((n for start, end, n in code.co_lines() if start <= instruction < end and n is not None), 0)
        found.append(traceback.FrameSummary(name, line, code.co_name, lookup_line=False))
    linecache.checkcache()
    return found[::-1]


def place(trace: Trace) -> str:
    """``file:line`` of the innermost frame of the user's program, with its text."""
    frames = _summary(trace)
    if not frames:
        return "an unknown place"
    last = frames[-1]
    return f"{last.filename}:{last.lineno} ({last.line})" if last.line else f"{last.filename}:{last.lineno}"


def forward_trace(node: Any) -> str:
    """The traceback of the call that recorded a node, as text."""
    trace = getattr(node, "_trace", None)
    if trace is None:
        return "The forward call was not made in anomaly_mode(): make it there to see where it is."
    return _FORWARD.format(lines="".join(traceback.format_list(_summary(trace))).rstrip())


def history_of(node: Any, tensor: Tensor) -> str:
    """Who saved a tensor for ``node`` and who changed it last, as far as it is known; else how to find out."""
    trace = getattr(node, "_trace", None)
    text = "" if trace is None else f" It was saved by {node.operator_name or node.name()} at {place(trace)}."
    change = _changes.get(storage_of(tensor))
    if change is not None:
        text += f" The last change was by {change[0]} at {place(change[1])}."
    return text or (
        " Hint: enable anomaly detection to see where it was saved and where it was changed: run forward and "
        "backward in `with tk.autograd.anomaly_mode():`."
    )
