"""`tk.autograd.profile(profile_memory=True)`: whose memory it is, and when it was freed (Note [Whose memory])."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import profile, record_function

N = 1000
BYTES = 4 * N


def find(prof: profile, name: str) -> Any:
    (event,) = [event for event in prof.events() if event.name == name]
    return event


def vector() -> tk.Tensor:
    return tk.ones(N, dtype=tk.float32)


def test_a_result_is_allocated_by_the_innermost_call() -> None:
    with profile(profile_memory=True) as prof:
        x = vector()
        y = tk.ones_like(x)
    inner = [event for event in prof.events() if event.name == "tk::ones"][-1]
    outer = find(prof, "tk::ones_like")
    assert inner.self_cpu_memory_usage == BYTES
    assert outer.self_cpu_memory_usage == 0
    assert outer.cpu_memory_usage == BYTES
    assert y.shape == (N,)


def test_views_arguments_and_older_memory_are_not_counted() -> None:
    x = vector()
    with profile(profile_memory=True) as prof:
        tk.reshape(x, (2, N // 2))
        x[1:]
        tk.asarray(x)
        x.add_(1.0)
        tk.matrix_transpose(tk.reshape(x, (2, N // 2)))
    assert prof.memory_timeline() == []
    assert all(event.cpu_memory_usage == 0 for event in prof.events())


def test_a_view_of_a_new_buffer_counts_the_buffer_once() -> None:
    with profile(profile_memory=True) as prof:
        x = vector()
        y = tk.reshape(x, (2, N // 2))
        del x
        with record_function("let go"):
            del y
    allocated, freed = prof.memory_timeline()
    assert (allocated.bytes, freed.bytes) == (BYTES, -BYTES)
    assert allocated.event is not None
    assert allocated.event.name == "tk::ones"
    assert freed.event is find(prof, "let go")
    assert allocated.buffer == freed.buffer
    assert find(prof, "let go").self_cpu_memory_usage == -BYTES


def test_what_the_program_lets_go_of_itself_is_nobodys() -> None:
    with profile(profile_memory=True) as prof:
        x = vector()
        del x
    assert [record.event and record.event.name for record in prof.memory_timeline()] == ["tk::ones", None]


def test_a_backward_frees_what_was_saved() -> None:
    w = vector().requires_grad_()
    with profile(profile_memory=True) as prof:
        loss = tk.sum(tk.exp(w))
        loss.backward()
    (kept,) = [r.buffer for r in prof.memory_timeline() if r.event is not None and r.event.name == "tk::exp"]
    (freed,) = [r for r in prof.memory_timeline() if r.buffer == kept and r.bytes < 0]
    assert freed.event is not None
    assert freed.event.name == "ExpBackward"
    live = sum(record.bytes for record in prof.memory_timeline())
    assert live == BYTES + loss.nbytes  # the gradient of w, and the loss
    assert w.grad is not None


def test_the_sum_is_what_is_alive() -> None:
    with profile(profile_memory=True) as prof:
        kept = [tk.exp(vector()) for _ in range(3)]
        tk.linalg.qr(tk.ones((8, 8), dtype=tk.float32))
    assert sum(record.bytes for record in prof.memory_timeline()) == sum(t.nbytes for t in kept)


def test_columns_of_the_table() -> None:
    with profile(profile_memory=True) as prof:
        x = vector()
        tk.exp(x)
    averages = prof.key_averages()
    table = averages.table(sort_by="self_cpu_memory_usage")
    assert "CPU Mem" in table
    assert "3.91 KB" in table
    assert "CPU Mem" not in profile_nothing().key_averages().table()
    assert averages.total_average().self_cpu_memory_usage == 2 * BYTES  # that the result of exp is gone is nobody's


def profile_nothing() -> profile:
    with profile() as prof:
        vector()
    return prof


def test_nested_profiles_share_the_ledger() -> None:
    with profile(profile_memory=True) as outer:
        x = vector()
        with profile(profile_memory=True) as inner:
            y = tk.exp(x)
        z = tk.log(x)
        with profile() as other:
            tk.sin(x)
    assert [r.event.name for r in inner.memory_timeline() if r.event] == ["tk::exp"]
    assert [r.event.name for r in outer.memory_timeline() if r.bytes > 0 and r.event] == [
        "tk::ones", "tk::exp", "tk::log", "tk::sin",
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="profile_memory=True"):
        other.memory_timeline()
    assert y.shape == z.shape


def test_after_the_profile_nothing_is_watched() -> None:
    with profile(profile_memory=True) as prof:
        x = vector()
    count = len(prof.memory_timeline())
    del x
    assert len(prof.memory_timeline()) == count == 1


def test_gradients_are_taken_over_as_without_a_profile() -> None:
    """The accumulator counts references (Note [Stealing gradients]): the profiler must not add any."""
    w = vector().requires_grad_()
    loss = tk.sum(tk.exp(w))
    with profile(profile_memory=True) as prof:
        loss.backward()
    assert "tk::clone" not in [event.name for event in prof.events()]
    np.testing.assert_allclose(w.grad.numpy(), np.full(N, np.e), rtol=1e-6)


def test_devices_of_backends_from_outside() -> None:
    class Elsewhere(tk.backends.Backend):
        name = "profiled"

        def allocate(self, nbytes: int, device: int = 0) -> bytearray:
            return bytearray(nbytes)

        def free(self, buffer: Any) -> None: ...

        def copy_from_host(self, buffer: Any, array: Any) -> None:
            buffer[: array.size] = array.tobytes()

        def copy_to_host(self, buffer: Any, array: Any) -> None:
            array[:] = np.frombuffer(buffer, np.uint8, array.size)

    with tk.backends.register(Elsewhere()), profile(profile_memory=True) as prof:
        x = tk.ones(N, dtype=tk.float32, device="profiled")
        y = tk.ones(N, dtype=tk.float32, device="meta")
        del x, y
    own = [record for record in prof.memory_timeline() if record.device.startswith("profiled")]
    assert [record.bytes for record in own] == [BYTES, -BYTES]
    assert not any(record.device == "meta" for record in prof.memory_timeline())


def test_the_timeline_as_a_file(tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof, record_function('a "name", with commas'):
        x = vector()
        del x
    prof.export_memory_timeline(tmp_path / "memory.json")
    prof.export_memory_timeline(tmp_path / "memory.json.gz")
    prof.export_memory_timeline(tmp_path / "memory.csv")
    rows = json.loads((tmp_path / "memory.json").read_text())
    assert rows == json.loads(gzip.decompress((tmp_path / "memory.json.gz").read_bytes()))
    assert [(row["action"], row["bytes"], row["total"]) for row in rows] == [
        ("allocate", BYTES, BYTES),
        ("free", -BYTES, 0),
    ]
    assert rows[0]["ts"] <= rows[1]["ts"]
    with (tmp_path / "memory.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["name"] for row in read] == ["tk::ones", 'a "name", with commas']
    assert [int(row["total"]) for row in read] == [BYTES, 0]
    prof.export_memory_timeline(tmp_path / "none.json", device="nowhere")
    assert json.loads((tmp_path / "none.json").read_text()) == []
    with pytest.raises(ValueError, match=r"ends in .json, .json.gz or .csv"):
        prof.export_memory_timeline(tmp_path / "memory.html")
