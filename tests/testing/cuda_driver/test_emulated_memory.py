"""Memory of the stub driver: allocation, pools, pinned and registered host memory, and what a pointer is."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

from tests.testing.cuda_driver._driver_calls import Program, checked, code

P = driver.CUpointer_attribute
M = 2**20
TOTAL = 2**26  # of the fixture's devices


def test_memory_is_aligned_and_counted(program: Program, emulator: Any) -> None:
    free, total = checked(driver.cuMemGetInfo())
    assert total == TOTAL
    addresses = [int(checked(driver.cuMemAlloc(n))) for n in (1, 100, 4096, M)]
    assert all(address % 256 == 0 for address in addresses)
    assert free - checked(driver.cuMemGetInfo())[0] >= M + 4096 + 101
    for address in addresses:
        checked(driver.cuMemFree(address))
    assert checked(driver.cuMemGetInfo())[0] == free
    assert emulator.counts.allocations == emulator.counts.frees == 4


def test_wrong_sizes_and_addresses_are_refused(program: Program) -> None:
    assert code(driver.cuMemAlloc(0)) == 1
    address = int(checked(driver.cuMemAlloc(100)))
    assert code(driver.cuMemFree(address + 4)) == 1
    assert code(driver.cuMemFree(0)) == 0  # as free(NULL)
    checked(driver.cuMemFree(address))
    assert code(driver.cuMemFree(address)) == 1
    assert code(driver.cuMemFreeHost(address)) == 1
    assert code(driver.cuMemAllocPitch(10, 10, 3)) == 1


def test_memory_runs_out(program: Program) -> None:
    free = checked(driver.cuMemGetInfo())[0]
    assert code(driver.cuMemAlloc(free + M)) == 2
    held = int(checked(driver.cuMemAlloc(free - M)))
    assert code(driver.cuMemAlloc(2 * M)) == 2
    checked(driver.cuMemFree(held))
    checked(driver.cuMemFree(checked(driver.cuMemAlloc(2 * M))))


def test_each_device_has_its_own_memory(program: Program) -> None:
    def free_of_other() -> int:
        checked(driver.cuCtxPushCurrent(checked(driver.cuDevicePrimaryCtxRetain(1))))
        free = int(checked(driver.cuMemGetInfo())[0])
        checked(driver.cuCtxPopCurrent())
        return free

    before = free_of_other()
    held = int(checked(driver.cuMemAlloc(M)))
    assert free_of_other() == before
    checked(driver.cuMemFree(held))


def test_new_memory_is_not_zero_and_freed_memory_is_not_kept(program: Program) -> None:
    address = program.device_array([1, 2, 3])
    checked(driver.cuMemFree(address))
    again = program.allocate(3)
    assert np.isnan(program.download(again, 3)).all()


def test_many_allocations_do_not_overlap(program: Program) -> None:
    random = np.random.default_rng(0)
    held: dict[int, int] = {}
    for _ in range(2000):
        if held and random.random() < 0.5:
            address = list(held)[random.integers(len(held))]
            checked(driver.cuMemFree(address))
            del held[address]
        else:
            size = int(random.integers(1, 20_000))
            status, address = driver.cuMemAlloc(size)
            if int(status) == 0:
                assert int(address) not in held
                held[int(address)] = size
    places = sorted(held.items())
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(places))
    for address in held:
        checked(driver.cuMemFree(address))


def test_pools_use_freed_memory_again_in_the_order_of_a_stream(program: Program) -> None:
    a, b = program.stream(), program.stream()
    first = int(checked(driver.cuMemAllocAsync(4096, a)))
    checked(driver.cuMemFreeAsync(first, a))
    assert int(checked(driver.cuMemAllocAsync(4096, a))) == first
    checked(driver.cuMemFreeAsync(first, b))
    assert code(driver.cuMemFreeAsync(first, b)) == 1
    assert code(driver.cuMemAllocAsync(0, a)) == 1


def test_pool_statistics(program: Program) -> None:
    pool = checked(driver.cuDeviceGetDefaultMemPool(0))
    used, reserved = (driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                      driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)  # fmt: skip
    checked(driver.cuMemPoolTrimTo(pool, 0))
    before = int(checked(driver.cuMemPoolGetAttribute(pool, used)))
    stream = program.stream()
    address = checked(driver.cuMemAllocAsync(8192, stream))
    assert int(checked(driver.cuMemPoolGetAttribute(pool, used))) == before + 8192
    checked(driver.cuMemFreeAsync(address, stream))
    assert int(checked(driver.cuMemPoolGetAttribute(pool, used))) == before
    assert int(checked(driver.cuMemPoolGetAttribute(pool, reserved))) >= 8192
    checked(driver.cuMemPoolTrimTo(pool, 0))
    assert int(checked(driver.cuMemPoolGetAttribute(pool, reserved))) == before
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    checked(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(12345)))
    assert int(checked(driver.cuMemPoolGetAttribute(pool, threshold))) == 12345


def test_own_pools(program: Program) -> None:
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    properties.maxSize = 4 * M
    pool = checked(driver.cuMemPoolCreate(properties))
    stream = program.stream()
    address = checked(driver.cuMemAllocFromPoolAsync(M, pool, stream))
    assert code(driver.cuMemAllocFromPoolAsync(4 * M, pool, stream)) == 2
    checked(driver.cuDeviceSetMemPool(0, pool))
    assert int(checked(driver.cuDeviceGetMemPool(0))) == int(pool)
    assert int(checked(driver.cuDeviceGetDefaultMemPool(0))) != int(pool)
    checked(driver.cuMemFreeAsync(address, stream))
    checked(driver.cuStreamSynchronize(stream))
    checked(driver.cuMemPoolDestroy(pool))
    assert int(checked(driver.cuDeviceGetMemPool(0))) == int(checked(driver.cuDeviceGetDefaultMemPool(0)))
    assert code(driver.cuMemPoolDestroy(checked(driver.cuDeviceGetDefaultMemPool(0)))) == 1


def test_memory_freed_in_other_streams_ends_a_shortage(program: Program) -> None:
    a, b = program.stream(), program.stream()
    free = checked(driver.cuMemGetInfo())[0] - M
    address = checked(driver.cuMemAllocAsync(free, a))
    assert code(driver.cuMemAllocAsync(free, b)) == 2
    checked(driver.cuMemFreeAsync(address, a))
    address = checked(driver.cuMemAllocAsync(free, b))
    checked(driver.cuMemFreeAsync(address, b))
    checked(driver.cuMemFree(checked(driver.cuMemAlloc(free))))


def test_pinned_memory(program: Program, emulator: Any) -> None:
    address = int(checked(driver.cuMemHostAlloc(4096, 0)))
    values = np.frombuffer((ctypes.c_float * 1024).from_address(address), np.float32)
    values[:] = 3
    assert int(checked(driver.cuMemHostGetDevicePointer(address, 0))) == address
    program.scale(address, 2, 1024)  # kernels reach it
    checked(driver.cuCtxSynchronize())
    assert (values == 6).all()
    assert code(driver.cuMemFree(address)) == 1
    checked(driver.cuMemFreeHost(address))
    assert emulator.counts.pinned_allocations == emulator.counts.pinned_frees == 1
    assert code(driver.cuMemFreeHost(address)) == 1
    assert code(driver.cuMemHostAlloc(16, 64)) == 1


def test_registered_memory(program: Program) -> None:
    values = np.ones(1000, np.float32)
    address = values.ctypes.data
    assert code(driver.cuMemHostGetDevicePointer(address, 0)) == 1
    checked(driver.cuMemHostRegister(address, values.nbytes, 0))
    assert code(driver.cuMemHostRegister(address + 400, 4, 0)) == 712
    program.scale(address, 5, 1000)
    checked(driver.cuCtxSynchronize())
    assert (values == 5).all()
    assert checked(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) is not None
    checked(driver.cuMemHostUnregister(address))
    assert code(driver.cuMemHostUnregister(address)) == 713


def test_memory_that_was_registered_is_ordinary_memory_again(program: Program) -> None:
    values = np.zeros(100, np.float32)
    address = values.ctypes.data
    source = int(checked(driver.cuMemAlloc(400)))
    checked(driver.cuMemsetD8(source, 1, 400))
    checked(driver.cuMemHostRegister(address, values.nbytes, 0))
    checked(driver.cuMemHostUnregister(address))
    checked(driver.cuMemcpyDtoH(address, source, 400))
    checked(driver.cuCtxSynchronize())
    assert (values.view(np.uint8) == 1).all()
    checked(driver.cuMemFree(source))


def test_managed_memory_is_reached_by_host_and_device(program: Program) -> None:
    address = int(checked(driver.cuMemAllocManaged(400, 1)))
    values = np.frombuffer((ctypes.c_float * 100).from_address(address), np.float32)
    values[:] = 7
    program.scale(address, 2, 100)
    checked(driver.cuCtxSynchronize())
    assert (values == 14).all()
    assert checked(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_IS_MANAGED, address))
    checked(driver.cuMemFree(address))
    assert code(driver.cuMemAllocManaged(400, 0)) == 1


def test_pointer_attributes(program: Program) -> None:
    address, pinned = program.allocate(100), int(checked(driver.cuMemHostAlloc(400, 0)))

    def value(attribute: Any, pointer: int) -> Any:
        return checked(driver.cuPointerGetAttribute(attribute, pointer))

    assert int(value(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) == 2
    assert int(value(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned)) == 1
    assert int(value(P.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address + 40)) == 0
    assert int(value(P.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 40)) == address
    assert int(value(P.CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)) == 400
    assert int(value(P.CU_POINTER_ATTRIBUTE_CONTEXT, address)) == int(program.context)
    assert value(P.CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != value(P.CU_POINTER_ATTRIBUTE_BUFFER_ID, pinned)
    plain = np.zeros(4)
    assert code(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain.ctypes.data)) == 1
    base, size = checked(driver.cuMemGetAddressRange(address + 8))
    assert (int(base), size) == (address, 400)
    assert code(driver.cuMemGetAddressRange(plain.ctypes.data)) == 500
    checked(driver.cuMemFree(address))
    assert code(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) == 1


def test_a_kernel_does_not_reach_another_device_without_peer_access(program: Program, emulator: Any) -> None:
    other = checked(driver.cuDevicePrimaryCtxRetain(1))
    checked(driver.cuCtxPushCurrent(other))
    address = program.allocate(64)
    checked(driver.cuMemsetD32(address, 0, 64))
    checked(driver.cuCtxPopCurrent())
    checked(driver.cuCtxEnablePeerAccess(other, 0))
    program.scale(address, 2, 64)
    checked(driver.cuCtxSynchronize())
    checked(driver.cuCtxDisablePeerAccess(other))
    program.scale(address, 2, 64)
    assert code(driver.cuCtxSynchronize()) == 700
    emulator.clear_error()
    checked(driver.cuMemFree(address))


def test_cuda_core_buffers(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    with device.allocate(1024, stream=stream) as buffer:
        assert buffer.size == 1024
        assert buffer.is_device_accessible
        other = device.allocate(1024, stream=stream)
        checked(driver.cuMemsetD8Async(int(buffer.handle), 9, 1024, stream.handle))
        buffer.copy_to(other, stream=stream)
        stream.sync()
        found = np.zeros(1024, np.uint8)
        checked(driver.cuMemcpyDtoH(found.ctypes.data, int(other.handle), 1024))
        assert (found == 9).all()
        other.close(stream)
    pinned = core.PinnedMemoryResource().allocate(64, stream=stream)
    assert pinned.is_host_accessible
    address = int(pinned.handle)
    assert int(checked(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))) == 1
    pinned.close(stream)
    assert code(driver.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) == 1  # freed
