"""A running emulator and a program on it, for the tests of the stub driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def emulator() -> Iterator[Any]:
    """An emulator with two devices; what a test leaves in error is forgotten."""
    pytest.importorskip("cuda.bindings")
    from tenkey.testing.cuda_driver import cuda_emulator, stub_building

    if stub_building.compiler() is None:
        pytest.skip("no C compiler")
    with cuda_emulator(devices=2, memory=2**26) as made:
        yield made
        made.finish()
        made.clear_error()


@pytest.fixture
def program(emulator: Any) -> Any:
    """A context and a module on the first device."""
    from tests.testing.cuda_driver._driver_calls import Program

    return Program()
