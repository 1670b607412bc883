"""Tests of the methods of the backend itself."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk
from tenkey.testing.backend.plugin import Subject

SIZES = (1, 3, 64, 4096, 1_000_003)


def data(nbytes: int, seed: int = 0) -> np.ndarray:
    """Return random bytes."""
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def read(subject: Subject, buffer: object, nbytes: int, device: int = 0) -> np.ndarray:
    """Return the first bytes of a buffer."""
    subject.backend.synchronize(device)
    host = np.zeros(nbytes, np.uint8)
    subject.backend.copy_to_host(buffer, host)
    return host


def test_devices(subject: Subject) -> None:
    backend = subject.backend
    assert backend.is_available() is True
    assert isinstance(backend.device_count(), int)
    assert backend.device_count() >= 1
    assert 0 <= backend.current_device() < backend.device_count()
    for index in range(backend.device_count()):
        assert tk.zeros(1, device=f"{backend.name}:{index}").device.index == index
    with pytest.raises(ValueError, match="so there is no"):
        tk.zeros(1, device=f"{backend.name}:{backend.device_count()}")


@pytest.mark.parametrize("nbytes", SIZES)
def test_what_goes_in_comes_out(subject: Subject, nbytes: int) -> None:
    for index in range(subject.count):
        buffer = subject.backend.allocate(nbytes, index)
        given = data(nbytes)
        kept = given.copy()
        subject.backend.copy_from_host(buffer, given)
        given[:] = 0  # the array belongs to the caller again
        np.testing.assert_array_equal(read(subject, buffer, nbytes, index), kept)
        subject.backend.free(buffer)


def test_a_shorter_array_is_the_beginning_of_the_buffer(subject: Subject) -> None:
    buffer = subject.backend.allocate(1000)
    whole = data(1000)
    subject.backend.copy_from_host(buffer, whole)
    part = data(100, seed=1)
    subject.backend.copy_from_host(buffer, part)
    np.testing.assert_array_equal(read(subject, buffer, 1000), np.concatenate([part, whole[100:]]))
    np.testing.assert_array_equal(read(subject, buffer, 10), part[:10])
    subject.backend.free(buffer)


def test_buffers_have_memory_of_their_own(subject: Subject) -> None:
    buffers = [subject.backend.allocate(257) for _ in range(20)]
    for seed, buffer in enumerate(buffers):
        subject.backend.copy_from_host(buffer, data(257, seed))
    for buffer in buffers[::2]:
        subject.backend.free(buffer)
    fresh = [subject.backend.allocate(257) for _ in range(10)]
    for seed, buffer in enumerate(fresh):
        subject.backend.copy_from_host(buffer, data(257, 100 + seed))
    for seed, buffer in enumerate(fresh):
        np.testing.assert_array_equal(read(subject, buffer, 257), data(257, 100 + seed))
    for seed, buffer in list(enumerate(buffers))[1::2]:
        np.testing.assert_array_equal(read(subject, buffer, 257), data(257, seed))
        subject.backend.free(buffer)
    for buffer in fresh:
        subject.backend.free(buffer)


def test_optional_parts(subject: Subject) -> None:
    with subject.backend.stream() as stream:
        first, end = subject.backend.event(), subject.backend.event()  # those of a stream may have no time
        first.record()
        x = tk.ones(1000, device=subject.name) + 1
        end.record()
        stream.record_event().synchronize()
        end.synchronize()
        stream.synchronize()
        assert end.query()
        assert first.elapsed_time(end) >= 0
    statistics = subject.backend.memory_stats(x.device.index)
    assert statistics.allocated_bytes >= x.nbytes
    assert statistics.peak_bytes >= statistics.allocated_bytes
