"""The emulator for the tests of this folder: at once, and with work that is deferred and done in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tenkey as tk

Start = Callable[..., "tk.testing.CudaEmulator"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts an emulator with options, which is stopped at the end of the test."""
    pytest.importorskip("numba_cuda", reason="needs the extra cuda")
    from tenkey.testing.cuda_driver import stub_building

    if stub_building.compiler() is None:
        pytest.skip("needs a C compiler")
    running: list[tk.testing.CudaEmulator] = []

    def started(**options: object) -> tk.testing.CudaEmulator:
        running.append(tk.testing.cuda_emulator(**options))
        return running[-1]

    yield started
    while running:
        emulator = running.pop()
        emulator.clear_error()
        emulator.stop()


@pytest.fixture
def emulator(start: Start) -> tk.testing.CudaEmulator:
    """Return an emulator of one device."""
    return start()


@pytest.fixture(params=["at once", "deferred"])
def either(request: pytest.FixtureRequest, start: Start) -> tk.testing.CudaEmulator:
    """Return an emulator that works at once, and one that defers all work."""
    return start(deferred=request.param == "deferred", seed=3)
