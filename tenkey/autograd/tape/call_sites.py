"""Call sites: where in the user's program a node was recorded and a tensor was changed, in anomaly mode.

Note [Traces]
~~~~~~~~~~~~~
A trace is a tuple of pairs (code object, instruction index), the innermost frame first. Taking one costs a walk over
the frames and keeps none of them alive; lines and source text are looked up when an error is written. A node holds its
trace in its own dict; the traces of changed storages are in a table with weak keys. Guarded by
``tests/autograd/test_anomaly.py::test_traces_keep_nothing_alive``.
"""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import Final
from weakref import WeakKeyDictionary

from ..._util.locks import new_lock
from ...core.storage import Storage
from ...core.tensor import Tensor, storage_of
from .node import Node

__all__ = ["forward_trace", "history_of", "label", "note_change"]

Trace = tuple[tuple[CodeType, int], ...]

_DEPTH: Final = 64  # the number of frames kept
_PACKAGE: Final = f"{Path(__file__).parents[2]}{os.sep}"

_changes: WeakKeyDictionary[Storage, tuple[str, Trace]] = WeakKeyDictionary()
_lock: Final = new_lock()  # Note [Locks of autograd]


def _take() -> Trace:
    """Return the frames above the caller's caller."""
    found: list[tuple[CodeType, int]] = []
    frame = sys._getframe(1).f_back
    while frame is not None and len(found) < _DEPTH:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def label(node: Node) -> None:
    """Record on a node where it was made, unless that is known."""
    if "_trace" not in vars(node):
        vars(node)["_trace"] = _take()


def note_change(tensor: Tensor, operator: str) -> None:
    """Record which operator changed the memory of a tensor, and where."""
    with _lock:
        _changes[storage_of(tensor)] = (operator, _take())


def _summary(trace: Trace) -> list[traceback.FrameSummary]:
    """Return the frames of the user's program, the outermost first."""
    found = []
    for code, instruction in trace:
        name = code.co_filename
        if name.startswith((_PACKAGE, "<")):
            continue
        line = next((n for start, end, n in code.co_lines() if start <= instruction < end and n is not None), 0)
        found.append(traceback.FrameSummary(name, line, code.co_name, lookup_line=False))
    for name in {frame.filename for frame in found}:
        linecache.checkcache(name)  # by name: without one it fails if another thread removes any text meanwhile
    return found[::-1]


def _place(trace: Trace) -> str:
    """Return ``file:line`` of the innermost frame of the user's program, with its source text."""
    frames = _summary(trace)
    if not frames:
        return "an unknown place"
    last = frames[-1]
    return f"{last.filename}:{last.lineno} ({last.line})" if last.line else f"{last.filename}:{last.lineno}"


def forward_trace(node: Node) -> str:
    """Return the traceback of the call that recorded a node, as text."""
    trace = vars(node).get("_trace")
    if trace is None:
        return "The forward call was not made in anomaly_mode(): make it there to see where it is."
    lines = "".join(traceback.format_list(_summary(trace))).rstrip()
    return f"Traceback of forward call that caused the error (most recent call last):\n{lines}"


def history_of(node: Node, tensor: Tensor) -> str:
    """Describe which calls saved a tensor for ``node`` and changed it last, or how to find out."""
    trace = vars(node).get("_trace")
    text = "" if trace is None else f" It was saved by {node.operator_name or node.name()} at {_place(trace)}."
    change = _changes.get(storage_of(tensor))
    if change is not None:
        text += f" The last change was by {change[0]} at {_place(change[1])}."
    return text or (
        " Hint: enable anomaly detection to see where it was saved and where it was changed: run forward and backward "
        "in `with tk.autograd.anomaly_mode():`."
    )
