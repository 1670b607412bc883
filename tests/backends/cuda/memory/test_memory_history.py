"""Snapshots of memory: the format of PyTorch's viewer, read by PyTorch's own functions. No driver is needed."""

from __future__ import annotations

import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.backends.cuda.memory import memory_functions
from tenkey.backends.cuda.memory.allocator import DeviceAllocator
from tenkey.backends.cuda.memory.memory_history import History, dump
from tests.backends.cuda._emulated import emulated, on_device

MIB = 1 << 20
# The operations that the reader in torch/utils/viz/MemoryViz.js knows.
READABLE = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "NONE", "NEWTRUE",
    "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "EMPTY_LIST",
    "EMPTY_DICT", "EMPTY_TUPLE", "LIST", "DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM",
    "SETITEMS",
}  # fmt: skip


class Example:
    """A history with everything that happens: small and large blocks, a pending one, a lack of memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allocator = DeviceAllocator(0)
        self.allocator.remember(History(1000, stacks=True, events=True))
        self.addresses = iter(range(1 << 40, 1 << 41, 1 << 30))
        monkeypatch.setattr(self.allocator, "_allocate", lambda nbytes, arena: next(self.addresses))
        monkeypatch.setattr(self.allocator, "_record_events", lambda block: [(9, object())])
        monkeypatch.setattr(self.allocator, "_ask_events", lambda: None)
        self.small = self.allocator.take(1000, 0)
        self.gone = self.allocator.take(2000, 0)
        self.large = self.allocator.take(3 * MIB, 0)
        self.pending = self.allocator.take(5 * MIB, 0)
        self.allocator.record(self.pending, 9)
        self.allocator.give(self.pending)
        self.allocator.give(self.gone)
        self.again = self.allocator.take(2000, 0)
        self.allocator.give(self.again)

    def snapshot(self) -> dict[str, Any]:
        segments = self.allocator.snapshot()
        return {"segments": segments, "device_traces": [self.allocator.trace()], "external_annotations": []}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Example:
    return Example(monkeypatch)


def test_segments(example: Example) -> None:
    small, large = example.snapshot()["segments"]
    assert (small["segment_type"], small["total_size"], small["stream"], small["device"]) == ("small", 2 * MIB, 0, 0)
    assert (large["segment_type"], large["total_size"]) == ("large", 20 * MIB)
    assert [b["state"] for b in small["blocks"]] == ["active_allocated", "inactive", "inactive"]
    assert [b["state"] for b in large["blocks"]] == ["active_allocated", "active_pending_free", "inactive"]
    assert [(b["size"], b["requested_size"]) for b in large["blocks"][:2]] == [(3 * MIB, 3 * MIB), (5 * MIB, 5 * MIB)]
    assert (small["blocks"][0]["size"], small["blocks"][0]["requested_size"]) == (1024, 1000)
    assert (large["allocated_size"], large["active_size"]) == (3 * MIB, 8 * MIB)
    for segment in (small, large):
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
        assert address == segment["address"] + segment["total_size"]


def test_events(example: Example) -> None:
    rows = example.snapshot()["device_traces"][0]
    assert [row["action"] for row in rows] == [
        "segment_alloc", "alloc", "alloc", "segment_alloc", "alloc", "alloc",
        "free_requested", "free_requested",  # by whoever gives back
        "free_completed", "alloc", "free_requested", "free_completed",  # the pending block is not completed
    ]  # fmt: skip
    assert [row["size"] for row in rows if row["action"] == "alloc"] == [1000, 2000, 3 * MIB, 5 * MIB, 2000]
    assert all(row["time_us"] > 0 and row["stream"] == 0 for row in rows)


def test_frames_are_those_of_the_program(example: Example) -> None:
    frames = example.snapshot()["segments"][0]["blocks"][0]["frames"]
    places = [(Path(frame["filename"]).name, frame["name"]) for frame in frames]
    assert (Path(__file__).name, "Example.__init__") in places
    line = next(f["line"] for f in frames if f["name"] == "Example.__init__")
    assert "self.small = " in Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    history = History(10, stacks=False, events=True)
    assert history.frames() == ()


def test_the_oldest_events_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = DeviceAllocator(0)
    monkeypatch.setattr(allocator, "_allocate", lambda nbytes, arena: 1 << 40)
    allocator.remember(History(3, stacks=False, events=True))
    for _ in range(10):
        allocator.give(allocator.take(100, 0))
    assert len(allocator.trace()) == 3
    allocator.remember(None)
    assert allocator.trace() == []


def test_the_viewer_can_read_the_pickle(example: Example, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    dump(example.snapshot(), file)
    data = file.read_bytes()
    used = {operation.name for operation, _, _ in pickletools.genops(data)}
    assert used <= READABLE, f"the viewer does not know {used - READABLE}"
    assert pickle.loads(data) == example.snapshot()


def test_pytorch_reads_it(example: Example, tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    file = tmp_path / "snapshot.pickle"
    dump(example.snapshot(), file)
    snapshot = pickle.loads(file.read_bytes())
    text = viz.segsum(snapshot)  # it adds up the blocks of each segment, and raises where they do not fill it
    assert "segments: 2" in text
    assert "total_reserved: 22.0MiB" in text
    flames = viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    found = re.findall(r"^stream_0;active_allocated;(.*) (\d+)$", flames, re.MULTILINE)
    assert sorted(int(size) for _, size in found if size != "24") == [1000, 3 * MIB]
    assert any("test_memory_history.py" in frames and "Example.__init__" in frames for frames, _ in found)
    trace = viz.trace(snapshot)
    assert trace.count("cudaMalloc") == 2
    assert trace.count("= ") >= 5
    for page in (viz.trace_plot(snapshot), viz.segment_plot(snapshot)):
        assert "snapshot.pickle" in page
    broken = pickle.loads(file.read_bytes())
    broken["segments"][0]["blocks"].pop()
    with pytest.raises(AssertionError):
        viz.segsum(broken)


def test_tk_cuda_writes_the_file(tmp_path: Path) -> None:
    with emulated(devices=2):
        tk.cuda.record_memory_history()
        x, y = on_device([1.0, 2.0]), on_device([3.0], device="cuda:1")
        z = x + x
        tk.cuda.memory_snapshot(file=tmp_path / "both.pickle")
        both = pickle.loads((tmp_path / "both.pickle").read_bytes())
        assert {segment["device"] for segment in both["segments"]} == {0, 1}
        assert [any(row["action"] == "alloc" for row in rows) for rows in both["device_traces"]] == [True, True]
        assert {segment["device"] for segment in tk.cuda.memory_snapshot("cuda:1")} == {1}
        tk.cuda.record_memory_history(None)
        tk.cuda.memory_snapshot(file=tmp_path / "none.pickle")
        assert pickle.loads((tmp_path / "none.pickle").read_bytes())["device_traces"] == [[], []]
        del x, y, z
        for wrong in ({"enabled": "some"}, {"context": "x"}, {"max_entries": 0}):
            with pytest.raises(ValueError, match="record_memory_history"):
                memory_functions.record_memory_history(**wrong)
