"""Initialisation, devices and contexts of the stub driver, as the driver's manual has them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

import tenkey as tk
from tests.testing.cuda_driver._driver_calls import Program, checked, code

A = driver.CUdevice_attribute


def test_devices_are_counted_and_named(emulator: Any) -> None:
    checked(driver.cuInit(0))
    assert checked(driver.cuDeviceGetCount()) == 2
    assert b"H100" in checked(driver.cuDeviceGetName(100, 0))
    assert checked(driver.cuDeviceTotalMem(1)) == 2**26
    assert bytes(checked(driver.cuDeviceGetUuid(0)).bytes) != bytes(checked(driver.cuDeviceGetUuid(1)).bytes)
    assert int(checked(driver.cuDeviceGetByPCIBusId(b"0000:02:00.0"))) == int(checked(driver.cuDeviceGet(1)))
    assert code(driver.cuDeviceGet(2)) == code(driver.cuDeviceGet(-1)) == 101
    assert code(driver.cuInit(1)) == 1


@pytest.mark.parametrize(
    ("cc", "processors", "shared"), [((8, 0), 108, 163 * 1024), ((9, 0), 132, 227 * 1024), ((10, 0), 148, 227 * 1024)]
)
def test_attributes_are_those_of_the_architecture(cc: tuple[int, int], processors: int, shared: int) -> None:
    with tk.testing.cuda_emulator(cc=cc):
        checked(driver.cuInit(0))

        def value(attribute: Any) -> int:
            return int(checked(driver.cuDeviceGetAttribute(attribute, 0)))

        assert (value(A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                value(A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)) == cc  # fmt: skip
        assert value(A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == processors
        assert value(A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == shared
        assert value(A.CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32
        assert value(A.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024
        assert value(A.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1
        assert value(A.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1
        assert value(A.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 1
        assert value(A.CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) == 1
        assert value(A.CU_DEVICE_ATTRIBUTE_INTEGRATED) == 0
        assert value(A.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == 0


def test_an_emulator_that_stopped_has_no_device() -> None:
    with tk.testing.cuda_emulator():
        checked(driver.cuInit(0))
    assert code(driver.cuInit(0)) == 100
    assert code(driver.cuMemAlloc(16)) != 0


def test_contexts_form_a_stack(program: Program) -> None:
    primary = program.context
    other = checked(driver.cuCtxCreate(None, 0, 1))
    assert int(checked(driver.cuCtxGetDevice())) == 1
    assert int(checked(driver.cuCtxPopCurrent())) == int(other)
    assert int(checked(driver.cuCtxGetCurrent())) == int(primary)
    checked(driver.cuCtxPushCurrent(other))
    assert checked(driver.cuCtxGetId(other)) != checked(driver.cuCtxGetId(primary))
    checked(driver.cuCtxDestroy(other))
    assert int(checked(driver.cuCtxGetCurrent())) == int(primary)
    assert code(driver.cuCtxPushCurrent(other)) == 709
    assert code(driver.cuCtxDestroy(primary)) == 201  # primary contexts are released


def test_calls_need_a_context(program: Program) -> None:
    checked(driver.cuCtxSetCurrent(0))
    assert code(driver.cuMemAlloc(16)) == 201
    assert code(driver.cuStreamCreate(0)) == 201
    assert code(driver.cuCtxSynchronize()) == 201
    checked(driver.cuCtxSetCurrent(program.context))


def test_a_primary_context_is_one_object(program: Program) -> None:
    again = checked(driver.cuDevicePrimaryCtxRetain(0))
    assert int(again) == int(program.context)
    assert checked(driver.cuDevicePrimaryCtxGetState(0))[1] == 1
    checked(driver.cuDevicePrimaryCtxRelease(0))
    assert code(driver.cuDevicePrimaryCtxRetain(7)) == 101


def test_limits_and_flags(program: Program) -> None:
    limit = driver.CUlimit.CU_LIMIT_STACK_SIZE
    assert checked(driver.cuCtxGetLimit(limit)) == 1024
    checked(driver.cuCtxSetLimit(limit, 4096))
    assert checked(driver.cuCtxGetLimit(limit)) == 4096
    checked(driver.cuCtxSetLimit(limit, 1024))
    assert checked(driver.cuCtxGetStreamPriorityRange()) == (0, -5)


def test_peer_access_is_enabled_once(program: Program) -> None:
    other = checked(driver.cuDevicePrimaryCtxRetain(1))
    assert checked(driver.cuDeviceCanAccessPeer(0, 1)) == 1
    assert checked(driver.cuDeviceCanAccessPeer(0, 0)) == 0
    checked(driver.cuCtxEnablePeerAccess(other, 0))
    assert code(driver.cuCtxEnablePeerAccess(other, 0)) == 704
    checked(driver.cuCtxDisablePeerAccess(other))
    assert code(driver.cuCtxDisablePeerAccess(other)) == 705
    assert code(driver.cuCtxEnablePeerAccess(program.context, 0)) == 101
    assert code(driver.cuCtxEnablePeerAccess(other, 1)) == 1


def test_nothing_is_shared_between_processes(program: Program) -> None:
    address = program.allocate(16)
    assert code(driver.cuIpcGetMemHandle(address)) == 801
    assert code(driver.cuIpcGetEventHandle(program.event(timing=False))) == 801
    assert code(driver.cuEventCreate(6)) == 801  # CU_EVENT_INTERPROCESS
    assert code(driver.cuEventCreate(4)) == 1  # it needs CU_EVENT_DISABLE_TIMING
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.handleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    assert code(driver.cuMemPoolCreate(properties)) == 801


def test_errors_have_names_and_texts(emulator: Any) -> None:
    for error in driver.CUresult:
        status, name = driver.cuGetErrorName(error)
        if int(status) == 0:  # the stub knows those that it can return, and some others
            assert name.decode() == error.name
            assert checked(driver.cuGetErrorString(error))
    assert checked(driver.cuGetErrorString(driver.CUresult(2))) == b"out of memory"


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 100, 101, 200, 201, 209, 218, 301, 400, 401, 500, 600, 700, 701, 702,
                                    704, 705, 709, 710, 712, 713, 715, 716, 718, 719, 720, 800, 801, 900, 901, 902, 903,
                                    904, 905, 906, 907, 908, 910])  # fmt: skip
def test_codes_that_the_stub_returns_have_names(emulator: Any, number: int) -> None:
    assert checked(driver.cuGetErrorName(driver.CUresult(number))).decode() == driver.CUresult(number).name


def test_functions_are_found_by_name(emulator: Any) -> None:
    address, status = checked(driver.cuGetProcAddress(b"cuMemAlloc", 13000, 0))
    assert int(address) != 0
    assert int(status) == 0
    assert code(driver.cuGetProcAddress(b"cuNothing", 13000, 0)) == 500
    assert checked(driver.cuDriverGetVersion()) >= 13000


def test_cuda_core_sees_the_devices(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    devices = core.Device.get_all_devices() if hasattr(core.Device, "get_all_devices") else [core.Device(0)]
    device = devices[0]
    device.set_current()
    assert tuple(device.compute_capability) == (9, 0)
    assert device.properties.multiprocessor_count == 132
    assert core.Device().device_id == 0
