"""Functions that launch with prepared arguments: in machine code and in Python, with the same effect."""

from __future__ import annotations

import gc
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tenkey.backends.cuda.device import contexts, launch_functions, launching
from tenkey.backends.cuda.device.launch_functions import (
    Arguments,
    PackedArguments,
    compiled_launch,
    interpreted_launch,
    launch_of,
)
from tenkey.backends.cuda.device.streams import current_stream, synchronize
from tenkey.backends.llvm import images
from tenkey.backends.llvm.compiled import image_of
from tests.backends.cuda.device._kernels import ADD, NUMBERS, OUTSIDE, Memory

Make = Callable[..., Callable[..., Any]]
VALUES = np.arange(40, dtype=np.float32)


@pytest.fixture(params=[compiled_launch, interpreted_launch], ids=["machine code", "Python"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def anew() -> Iterator[None]:
    """Let the test find out anew whether machine code can be used."""
    launch_functions._maker.cache_clear()
    yield
    launch_functions._maker.cache_clear()


def adding(make: Make, n: int, number: float) -> Callable[..., Any]:
    """Return the launch of a kernel of two addresses, with the numbers n and number."""
    kernel = launching.kernel(ADD)
    packed = struct.pack("@QQIf", 0, 0, n, number)
    return make(kernel.function, kernel.configuration(2, 32), Arguments(packed, (16, 0, 8, 20), 2))


def test_addresses_and_numbers_arrive(either: Any, make: Make) -> None:
    launch = adding(make, 37, 2.5)
    for k in range(3):
        x, out = Memory(VALUES + k), Memory(np.zeros(40, np.float32))
        assert launch(current_stream(0).handle, out.address, x.address) == 0
        expected = np.where(VALUES < 37, VALUES + k + np.float32(2.5), 0)
        np.testing.assert_array_equal(out.read(), expected)


def test_numbers_of_every_type(either: Any, make: Make) -> None:
    values = (True, -3, 200, -3000, 60000, -(2**30), 2**32 - 1, -(2**60), 2**60, 1.5, -2.25)
    out = Memory(np.zeros(11))
    kernel = launching.kernel(NUMBERS)
    packed = struct.pack("@Q?bBhHiIqQfd", 0, *values)
    places = [struct.calcsize("@Q" + "?bBhHiIqQfd"[:k] + "0" + "?bBhHiIqQfd"[k]) for k in range(11)]
    launch = make(kernel.function, kernel.configuration(1, 32), Arguments(packed, (*places, 0), 1))
    assert launch(current_stream(0).handle, out.address) == 0
    np.testing.assert_array_equal(out.read(), np.array(values, float))


def test_arguments_that_end_within_a_word(emulator: Any, make: Make) -> None:
    kernel = launching.kernel(OUTSIDE)
    packed = struct.pack("@QQI", 0, 0, 8)
    launch = make(kernel.function, kernel.configuration(1, 32), Arguments(packed, (16, 0, 8), 2))
    x, out = Memory(VALUES), Memory(np.zeros(40, np.float32))
    assert launch(current_stream(0).handle, out.address, x.address) == 0
    np.testing.assert_array_equal(out.read(), np.concatenate([np.zeros(8, np.float32), VALUES[:32]]))


def test_arguments_that_are_given_packed(either: Any, make: Make) -> None:
    kernel = launching.kernel(ADD)
    launch = make(kernel.function, kernel.configuration(2, 32), PackedArguments(28, (0, 8, 16, 24)))
    stream = current_stream(0).handle
    for k in range(3):
        x, out = Memory(VALUES + k), Memory(np.zeros(40, np.float32))
        assert launch(stream, struct.pack("@I4xQQf", 37, out.address, x.address, 2.5)) == 0
        np.testing.assert_array_equal(out.read(), np.where(VALUES < 37, VALUES + k + np.float32(2.5), 0))


def test_packed_arguments_that_do_not_fit_launch_nothing(emulator: Any) -> None:
    kernel = launching.kernel(ADD)
    launch = compiled_launch(kernel.function, kernel.configuration(2, 32), PackedArguments(28, (0, 8, 16, 24)))
    stream, before = current_stream(0).handle, emulator.counts.launches
    assert launch(stream) == launch(stream, bytes(28), bytes(28)) == 1  # CUDA_ERROR_INVALID_VALUE
    assert launch(stream, bytes(27)) == 1
    for wrong in (bytearray(28), 28, None):
        with pytest.raises(TypeError):
            launch(stream, wrong)
    with pytest.raises(TypeError):
        launch("stream", bytes(28))
    assert emulator.counts.launches == before


def test_the_code_of_the_driver_is_returned(emulator: Any, make: Make) -> None:
    launch = adding(make, 4, 1.0)
    x = Memory(VALUES)
    emulator.fail_next("cuLaunchKernel*", 701)
    assert launch(current_stream(0).handle, x.address, x.address) == 701
    assert launch(current_stream(0).handle, x.address, x.address) == 0


def test_arguments_that_do_not_fit_launch_nothing(emulator: Any) -> None:
    launch = adding(compiled_launch, 4, 1.0)
    stream, x, before = current_stream(0).handle, Memory(VALUES), emulator.counts.launches
    assert launch(stream, x.address) == 1  # CUDA_ERROR_INVALID_VALUE
    assert launch(stream, x.address, x.address, x.address) == 1
    with pytest.raises(TypeError):
        launch(stream, x.address, "address")
    with pytest.raises(OverflowError):
        launch(stream, x.address, 1 << 65)
    assert emulator.counts.launches == before


def test_the_arguments_live_as_long_as_the_function(emulator: Any, make: Make) -> None:
    launches = [adding(make, 40, float(k)) for k in range(50)]
    gc.collect()
    others = [bytearray(b"\xff" * 200) for _ in range(500)]  # where the arguments were, if they were freed
    x, out = Memory(VALUES), Memory(VALUES)
    for k, launch in enumerate(launches):
        launch(current_stream(0).handle, out.address, x.address)
        np.testing.assert_array_equal(out.read(), VALUES + np.float32(k))
    assert len(others) == 500


def test_descriptions_live_as_long_as_the_functions(emulator: Any, anew: None) -> None:
    """Python reads the description of a function when it is called, and when it ends."""
    launches = [adding(compiled_launch, 40, float(k)) for k in range(20)]
    launch_functions._maker.cache_clear()
    gc.collect()
    others = [bytearray(b"\xff" * 32) for _ in range(5000)]
    x, out = Memory(VALUES), Memory(VALUES)
    while launches:
        assert launches.pop()(current_stream(0).handle, out.address, x.address) == 0
    assert len(others) == 5000


def test_threads_launch_with_one_function(emulator: Any, make: Make) -> None:
    launch = adding(make, 40, 1.0)
    stream = current_stream(0).handle
    codes: set[int] = set()
    pairs = [(Memory(VALUES * k), Memory(VALUES)) for k in range(8)]

    def work(k: int) -> None:
        x, out = pairs[k]
        with contexts.enter(0):
            codes.update([launch(stream, out.address, x.address) for _ in range(20)])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    synchronize(0)
    assert codes == {0}
    for x, out in pairs:
        np.testing.assert_array_equal(out.read(), x.values + 1)


def test_python_launches_where_nothing_is_compiled(
    emulator: Any, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    launch = adding(launch_of, 40, 3.0)
    assert hasattr(launch, "__code__")
    x, out = Memory(VALUES), Memory(VALUES)
    assert launch(current_stream(0).handle, out.address, x.address) == 0
    np.testing.assert_array_equal(out.read(), VALUES + 3)


def test_machine_code_launches_where_it_can_be_compiled(emulator: Any) -> None:
    assert not hasattr(adding(launch_of, 40, 3.0), "__code__")


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere, LLVM's own linker has to load it"
)
def test_it_is_loaded_without_the_linker_of_llvm() -> None:
    """LLVM's linker aborts the process where its sections lie more than 2 GiB apart, as beside a device's memory."""
    assert images.is_linked(image_of([launch_functions._TEXT], launch_functions._NAMES))
