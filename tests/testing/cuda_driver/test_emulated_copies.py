"""Copies and memsets of the stub driver, compared with NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

from tests.testing.cuda_driver._driver_calls import Program, checked, code

KIND = driver.CUmemorytype
N = 64


def bytes_at(address: int, count: int) -> np.ndarray:
    found = np.zeros(count, np.uint8)
    checked(driver.cuMemcpyDtoH(found.ctypes.data, address, count))
    return found


def test_copies_within_themselves_are_found(program: Program, emulator: Any) -> None:
    """The driver does not define what they give, and in host memory they mostly work."""
    base = int(checked(driver.cuMemAlloc(N)))
    checked(driver.cuMemcpyDtoD(base, base + N // 2, N // 2))
    checked(driver.cuCtxSynchronize())
    checked(driver.cuMemcpyDtoDAsync(base + 1, base, N // 2, 0))
    assert code(driver.cuCtxSynchronize()) == 700
    assert "overlaps its target" in str(emulator.error)
    emulator.clear_error()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("source", "target"), [*itertools.product(["pageable", "pinned", "device"], repeat=2)])
def test_unified_copies(program: Program, source: str, target: str, asynchronous: bool) -> None:
    values = np.arange(N, dtype=np.uint8)

    def place(kind: str) -> tuple[int, Any]:
        if kind == "pageable":
            array = np.zeros(N, np.uint8)
            return array.ctypes.data, array
        if kind == "pinned":
            array = program.pinned(N // 4).view(np.uint8)
            return array.ctypes.data, array
        return int(checked(driver.cuMemAlloc(N))), None

    (a, held), (b, kept) = place(source), place(target)
    checked(driver.cuMemcpy(a, values.ctypes.data, N))
    stream = program.stream()
    checked(driver.cuCtxSynchronize())
    checked(driver.cuMemcpyAsync(b, a, N, stream) if asynchronous else driver.cuMemcpy(b, a, N))
    checked(driver.cuCtxSynchronize())
    found = np.zeros(N, np.uint8)
    checked(driver.cuMemcpy(found.ctypes.data, b, N))
    np.testing.assert_array_equal(found, values)
    del held, kept


def test_directions_are_checked(program: Program) -> None:
    host, device = np.zeros(N, np.uint8), program.allocate(N)
    assert code(driver.cuMemcpyHtoD(host.ctypes.data, host.ctypes.data, N)) == 1
    assert code(driver.cuMemcpyDtoD(device, host.ctypes.data, N)) == 1
    assert code(driver.cuMemcpyDtoH(host.ctypes.data, host.ctypes.data, N)) == 1
    assert code(driver.cuMemcpyHtoD(device, host.ctypes.data, 4 * N + 1)) == 1  # beyond the end
    assert code(driver.cuMemcpyHtoD(device + 4, host.ctypes.data, 4 * N)) == 1
    assert code(driver.cuMemcpyHtoD(0, host.ctypes.data, N)) == 1
    assert code(driver.cuMemcpyHtoD(device, host.ctypes.data, 0)) == 0
    checked(driver.cuMemFree(device))
    assert code(driver.cuMemcpyHtoD(device, host.ctypes.data, N)) == 1


def test_copies_between_devices(program: Program) -> None:
    other = checked(driver.cuDevicePrimaryCtxRetain(1))
    x = program.device_array(np.arange(N))
    checked(driver.cuCtxPushCurrent(other))
    y = program.allocate(N)
    checked(driver.cuCtxPopCurrent())
    checked(driver.cuMemcpyPeer(y, other, x, program.context, 4 * N))
    np.testing.assert_array_equal(program.download(y, N), np.arange(N))
    assert code(driver.cuMemcpyPeer(y, 0, x, program.context, 4 * N)) in (1, 201)
    assert code(driver.cuMemcpyPeer(y, program.context, x, program.context, 4 * N)) == 1  # each with its own context
    assert code(driver.cuMemcpyPeerAsync(y, other, x, other, 4 * N, 0)) == 1


@pytest.mark.parametrize("seed", range(40))
def test_copies_of_planes(program: Program, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, width, more, less, x, y = random.integers([1, 1, 0, 0, 0, 0], [6, 10, 7, 7, 4, 3]).tolist()
    to_device = bool(seed % 2)
    from_pitch, to_pitch = x + width + more, width + less
    source = random.integers(0, 255, (rows + y, from_pitch)).astype(np.uint8)
    target = np.full((rows, to_pitch), 77, np.uint8)
    expected = target.copy()
    expected[:, :width] = source[y:, x : x + width]
    device = int(checked(driver.cuMemAlloc(max(source.nbytes, target.nbytes))))
    plane = driver.CUDA_MEMCPY2D()
    plane.srcXInBytes, plane.srcY, plane.srcPitch = x, y, from_pitch
    plane.dstPitch, plane.WidthInBytes, plane.Height = to_pitch, width, rows
    if to_device:
        checked(driver.cuMemcpyHtoD(device, target.ctypes.data, target.nbytes))
        plane.srcMemoryType, plane.srcHost = KIND.CU_MEMORYTYPE_HOST, source.ctypes.data
        plane.dstMemoryType, plane.dstDevice = KIND.CU_MEMORYTYPE_DEVICE, device
        checked(driver.cuMemcpy2D(plane))
        checked(driver.cuMemcpyDtoH(target.ctypes.data, device, target.nbytes))
    else:
        checked(driver.cuMemcpyHtoD(device, source.ctypes.data, source.nbytes))
        plane.srcMemoryType, plane.srcDevice = KIND.CU_MEMORYTYPE_DEVICE, device
        plane.dstMemoryType, plane.dstHost = KIND.CU_MEMORYTYPE_HOST, target.ctypes.data
        checked(driver.cuMemcpy2DAsync(plane, 0))
        checked(driver.cuCtxSynchronize())
    checked(driver.cuMemFree(device))
    np.testing.assert_array_equal(target, expected)


def test_a_plane_that_does_not_fit_its_pitch_is_refused(program: Program) -> None:
    device = program.allocate(N)
    host = np.zeros(N, np.uint8)
    plane = driver.CUDA_MEMCPY2D()
    plane.srcMemoryType, plane.srcHost, plane.srcPitch = KIND.CU_MEMORYTYPE_HOST, host.ctypes.data, 4
    plane.dstMemoryType, plane.dstDevice, plane.dstPitch = KIND.CU_MEMORYTYPE_DEVICE, device, 8
    plane.WidthInBytes, plane.Height = 8, 2
    assert code(driver.cuMemcpy2D(plane)) == 1


def test_copies_of_spaces(program: Program) -> None:
    source = np.arange(4 * 5 * 6, dtype=np.uint8).reshape(4, 5, 6)
    device = int(checked(driver.cuMemAlloc(source.nbytes)))
    checked(driver.cuMemcpyHtoD(device, source.ctypes.data, source.nbytes))
    target = np.zeros((2, 3, 4), np.uint8)
    space = driver.CUDA_MEMCPY3D()
    space.srcMemoryType, space.srcDevice, space.srcPitch, space.srcHeight = KIND.CU_MEMORYTYPE_DEVICE, device, 6, 5
    space.srcXInBytes, space.srcY, space.srcZ = 1, 2, 1
    space.dstMemoryType, space.dstHost, space.dstPitch, space.dstHeight = (
        KIND.CU_MEMORYTYPE_HOST,
        target.ctypes.data,
        4,
        3,
    )
    space.WidthInBytes, space.Height, space.Depth = 4, 3, 2
    checked(driver.cuMemcpy3D(space))
    np.testing.assert_array_equal(target, source[1:3, 2:5, 1:5])


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_memsets(program: Program, size: int, asynchronous: bool) -> None:
    device = int(checked(driver.cuMemAlloc(N * size)))
    value = 0xA1B2C3D4 & (2 ** (8 * size) - 1)
    name = f"cuMemsetD{8 * size}" + ("Async" if asynchronous else "")
    extra = (program.stream(),) if asynchronous else ()
    checked(getattr(driver, name)(device, value, N, *extra))
    checked(driver.cuCtxSynchronize())
    expected = np.full(N, value, f"<u{size}")
    np.testing.assert_array_equal(bytes_at(device, N * size).view(f"<u{size}"), expected)
    assert code(getattr(driver, name)(device, value, N + 1, *extra)) == 1
    if size > 1:
        assert code(getattr(driver, name)(device + 1, value, 1, *extra)) == 1


@pytest.mark.parametrize("size", [1, 2, 4])
def test_memsets_of_planes(program: Program, size: int) -> None:
    device = int(checked(driver.cuMemAlloc(6 * 40)))
    checked(driver.cuMemsetD8(device, 9, 6 * 40))
    value = 0x01020304 & (2 ** (8 * size) - 1)
    checked(getattr(driver, f"cuMemsetD2D{8 * size}")(device, 40, value, 5, 6))
    found = bytes_at(device, 6 * 40).reshape(6, 40)
    np.testing.assert_array_equal(found[:, : 5 * size].copy().view(f"<u{size}"), np.full((6, 5), value))
    assert (found[:, 5 * size :] == 9).all()
    assert code(getattr(driver, f"cuMemsetD2D{8 * size}")(device, 2, value, 5, 6)) == 1


def test_which_copies_wait(program: Program, emulator: Any) -> None:
    x, stream = program.device_array(np.zeros(N)), program.stream()
    host, pinned = np.zeros(N, np.float32), program.pinned(N)

    def waits(call: Any, *arguments: Any) -> bool:
        emulator.reset_counts()
        checked(call(*arguments))
        counts = emulator.counts
        return counts.synchronisations + counts.implicit_synchronisations > 0

    assert not waits(driver.cuMemcpyHtoDAsync, x, host.ctypes.data, 4 * N, stream)
    assert not waits(driver.cuMemcpyHtoDAsync, x, pinned.ctypes.data, 4 * N, stream)
    assert not waits(driver.cuMemcpyDtoHAsync, pinned.ctypes.data, x, 4 * N, stream)
    assert waits(driver.cuMemcpyDtoHAsync, host.ctypes.data, x, 4 * N, stream)
    assert waits(driver.cuMemcpyDtoH, host.ctypes.data, x, 4 * N)
    assert waits(driver.cuMemcpyHtoD, x, pinned.ctypes.data, 4 * N)
    assert not waits(driver.cuMemcpyHtoD, x, host.ctypes.data, 4 * N)
    assert not waits(driver.cuMemsetD8, x, 0, 4 * N)
    assert waits(driver.cuMemsetD8, pinned.ctypes.data, 0, 4 * N)
    assert not waits(driver.cuMemcpyDtoD, x, x, 4)


def test_pageable_memory_is_taken_when_a_copy_is_called(emulator: Any) -> None:
    from tenkey.testing.cuda_driver import cuda_emulator

    with cuda_emulator(devices=2, memory=2**26, deferred=True):
        program = Program()
        x, stream = program.allocate(N), program.stream()
        values = np.arange(N, dtype=np.float32)
        program.upload(x, values, stream)
        values[:] = -1
        checked(driver.cuStreamSynchronize(stream))
        np.testing.assert_array_equal(program.download(x, N), np.arange(N))
