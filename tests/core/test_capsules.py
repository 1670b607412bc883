"""Capsules of DLPack, read and made by a consumer and a producer that are written by hand here."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from tenkey.core.exchange import capsules

# The structs of the header dlpack.h, written down once more.
DLTensor = np.dtype(
    {
        "names": ["data", "device_type", "device_id", "ndim", "code", "bits", "lanes", "shape", "strides", "offset"],
        "formats": ["u8", "i4", "i4", "i4", "u1", "u1", "u2", "u8", "u8", "u8"],
        "offsets": [0, 8, 12, 16, 20, 21, 22, 24, 32, 40],
        "itemsize": 48,
    }
)
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
api = ctypes.pythonapi


def pointer(capsule: Any, name: bytes) -> int:
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = (
        ctypes.c_void_p,
        (ctypes.py_object, ctypes.c_char_p),
    )
    return int(api.PyCapsule_GetPointer(capsule, name))


def tensor_at(address: int) -> Any:
    memory: Any = (ctypes.c_ubyte * 48).from_address(address)
    return np.frombuffer(memory, DLTensor)[0]


def longs(address: int, count: int) -> list[int]:
    return [*(ctypes.c_int64 * count).from_address(int(address))]


class Owner:
    """Something that must live as long as the memory."""


def made(versioned: bool, owner: Any, **options: Any) -> Any:
    return capsules.make(
        4096, (2, 1), np.dtype(np.float32), (2, 3), (3, 1), owner, versioned=versioned, **options
    )  # fmt: skip


@pytest.mark.parametrize("versioned", [False, True])
def test_fields(versioned: bool) -> None:
    capsule = made(versioned, Owner())
    name = VERSIONED if versioned else PLAIN
    address = pointer(capsule, name)
    t = tensor_at(address + (32 if versioned else 0))
    assert (t["data"], t["device_type"], t["device_id"], t["ndim"], t["offset"]) == (4096, 2, 1, 2, 0)
    assert (t["code"], t["bits"], t["lanes"]) == (2, 32, 1)
    assert longs(t["shape"], 2) == [2, 3]
    assert longs(t["strides"], 2) == [3, 1]
    if versioned:
        assert [*(ctypes.c_uint32 * 2).from_address(address)] == [1, 0]
        assert ctypes.c_uint64.from_address(address + 24).value == 0
        copied = made(True, Owner(), copied=True)
        assert ctypes.c_uint64.from_address(pointer(copied, VERSIONED) + 24).value == 2


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_is_not_used_frees_its_memory(versioned: bool) -> None:
    before = len(capsules._owned)
    capsule = made(versioned, Owner())
    assert len(capsules._owned) == before + 1
    del capsule
    assert len(capsules._owned) == before


@pytest.mark.parametrize("versioned", [False, True])
def test_a_consumer_in_c_deletes(versioned: bool) -> None:
    before = len(capsules._owned)
    capsule = made(versioned, Owner())
    name = VERSIONED if versioned else PLAIN
    address = pointer(capsule, name)
    api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    used = b"used_" + name
    api.PyCapsule_SetName(capsule, used)
    del capsule
    gc.collect()
    assert len(capsules._owned) == before + 1, "the memory belongs to the consumer now"
    deleter: Any = ctypes.c_void_p.from_address(address + (16 if versioned else 56)).value
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)
    assert len(capsules._owned) == before


class Producer:
    """A capsule as a library in C would make it."""

    def __init__(self, dtype: tuple[int, int, int] = (0, 64, 1), strides: tuple[int, ...] | None = None) -> None:
        self.deleted: list[int] = []
        self.values = np.arange(6)
        self.memory = np.zeros(64, np.uint8)
        t = self.memory[:48].view(DLTensor)
        self.shape = np.array([2, 3], np.int64)
        self.strides = None if strides is None else np.array(strides, np.int64)
        t["data"], t["device_type"], t["ndim"] = self.values.ctypes.data, 1, 2
        t["code"], t["bits"], t["lanes"] = dtype
        t["shape"] = self.shape.ctypes.data
        t["strides"] = 0 if self.strides is None else self.strides.ctypes.data
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleted.append)
        self.memory[56:].view(np.uint64)[0] = ctypes.cast(self.deleter, ctypes.c_void_p).value or 0
        api.PyCapsule_New.restype = ctypes.py_object
        api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule: Any = api.PyCapsule_New(self.memory.ctypes.data, PLAIN, None)


def test_taking_over() -> None:
    producer = Producer()
    taken = capsules.Taken(producer.capsule)
    assert (taken.shape, taken.strides, taken.is_read_only) == ((2, 3), None, False)
    assert capsules.dtype_of(taken.array) == "int64"
    with pytest.raises(BufferError, match="not an unused DLPack capsule"):
        capsules.Taken(producer.capsule)
    assert producer.deleted == []
    del taken
    assert producer.deleted == [producer.memory.ctypes.data]
    assert capsules.Taken(Producer(strides=(1, 2)).capsule).strides == (1, 2)


def test_dtypes() -> None:
    names = {
        (0, 8, 1): "int8", (1, 64, 1): "uint64", (2, 16, 1): "float16", (4, 16, 1): "bfloat16",
        (5, 128, 1): "complex128", (6, 8, 1): "bool", (2, 32, 4): None, (3, 64, 1): None,
        (2, 12, 1): None, (7, 8, 1): None,
    }  # fmt: skip
    for described, name in names.items():
        assert capsules.dtype_of(capsules.Taken(Producer(described).capsule).array) == name


def test_numpy_reads_what_is_made() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)

    class Exporter:
        def __dlpack__(self, **asked: Any) -> Any:
            return capsules.make(values.ctypes.data, (1, 0), values.dtype, (2, 3), (3, 1), values, versioned=True)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    before = len(capsules._owned)
    read = np.from_dlpack(Exporter())
    np.testing.assert_array_equal(read, values)
    del read
    gc.collect()
    assert len(capsules._owned) == before
