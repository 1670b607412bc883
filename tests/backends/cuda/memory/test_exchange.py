"""DLPack and ``__cuda_array_interface__`` of CUDA memory, both ways, with the order of streams."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device.driver import cu
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tenkey.backends.cuda.memory.device_memory import POOLS
from tenkey.core.exchange import capsules
from tests.backends.cuda._emulated import emulated, on_device


class Foreign:
    """An array of another library on the device, which exports in both ways and notes what it was asked."""

    def __init__(self, values: Any, *, device: int = 0, stream: Any = None, strides: Any = None) -> None:
        self.values = np.ascontiguousarray(values)
        self.device = device
        self.asked: dict[str, Any] = {}
        self.stream = stream
        self.strides = strides
        with Stream(device) if stream is None else stream:
            self.memory = tk.asarray(self.values, device=f"cuda:{device}")  # stands for memory of the library
        self.address = self.memory.array.buffer.address

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked = asked
        strides = self.strides or [step // self.values.itemsize for step in self.values.strides]
        return capsules.make(
            self.address, (2, self.device), self.values.dtype, self.values.shape, tuple(strides), self,
            versioned="max_version" in asked,
        )  # fmt: skip


class Interface:
    """The same by ``__cuda_array_interface__``."""

    def __init__(self, foreign: Foreign, **changes: Any) -> None:
        self.foreign = foreign
        self.__cuda_array_interface__ = {
            "shape": foreign.values.shape, "typestr": foreign.values.dtype.str, "data": (foreign.address, False),
            "version": 3, "strides": None, **changes,
        }  # fmt: skip


class Old(Foreign):
    """A library older than versioned capsules."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class ReadOnly(Foreign):
    """A library that exports its memory as read-only."""

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = super().__dlpack__(**asked)
        capsules._struct_in(capsule)[1].flags = capsules._READ_ONLY
        return capsule


class TestOut:
    @pytest.mark.parametrize("versioned", [False, True])
    def test_capsules(self, versioned: bool) -> None:
        with emulated(devices=2):
            for name in ("cuda", "cuda:1"):
                x = on_device(np.arange(12).reshape(3, 4), device=name)
                part = x[1:, ::2]
                assert part.__dlpack_device__() == (2, x.device.index)
                taken = capsules.Taken(part.__dlpack__(stream=-1, max_version=(1, 1) if versioned else None))
                array = taken.array
                assert (array.device_type, array.device_id) == (2, x.device.index)
                assert array.data + array.byte_offset == x.array.buffer.address + 16
                assert (taken.shape, taken.strides) == ((2, 2), (4, 2))
                assert capsules.dtype_of(array) == "float32"

    def test_memory_lives_as_long_as_the_consumer(self) -> None:
        with emulated():
            x = on_device(np.arange(1000))
            address = x.array.buffer.address
            taken = capsules.Taken(x.__dlpack__())
            del x
            assert on_device(np.zeros(1000)).array.buffer.address != address
            del taken
            assert address in [on_device(np.zeros(1000)).array.buffer.address for _ in range(2)]

    @pytest.mark.parametrize("how", ["handle", "legacy", "none", "per thread", "no order"])
    def test_the_consumer_s_stream_waits(self, how: str) -> None:
        """The consumer queues a copy on its stream at once; it must not run before our work."""
        with emulated(deferred=True):
            theirs = Stream()
            stream = {"handle": theirs.handle, "legacy": 1, "none": None, "per thread": 2, "no order": -1}[how]
            handle = {"handle": theirs.handle, "per thread": 2, "no order": theirs.handle}.get(how, 1)
            first = on_device(np.zeros(1000))  # the driver's memory of which all others are parts
            tk.cuda.synchronize()
            wrong = 0
            for i in range(1, 7):
                x = on_device(np.full(1000, i)) * 2
                taken = capsules.Taken(x.__dlpack__(stream=stream))
                out = tk.empty(1000, device="cuda")
                out.device.backend.record_stream(out.array.buffer, theirs)
                tk.cuda.current_stream()
                cu.cuMemcpyDtoDAsync(out.array.buffer.address, taken.array.data, 4000, handle)
                cu.cuStreamSynchronize(handle)
                wrong += set(out.tolist()) != {2.0 * i}
                tk.cuda.synchronize()
            assert (wrong > 0) == (how == "no order")
            del first

    def test_streams_that_are_not_permitted(self) -> None:
        with emulated():
            x = on_device([1.0])
            for wrong in (0, -2, "1", True):
                with pytest.raises(ValueError, match=r"\[__dlpack__\] got stream="):
                    x.__dlpack__(stream=wrong)

    def test_copies(self) -> None:
        with emulated():
            x = on_device([1.0, 2.0])
            taken = capsules.Taken(x.__dlpack__(copy=True, max_version=(1, 0)))
            assert taken.array.data != x.array.buffer.address
            assert capsules.Taken(x.__dlpack__(copy=False)).array.data == x.array.buffer.address
            np.testing.assert_array_equal(np.from_dlpack(_OnTheCpu(x)), [1, 2])
            with pytest.raises(BufferError, match="copy=False"):
                x.__dlpack__(dl_device=(1, 0), copy=False)
            with pytest.raises(BufferError, match="cannot be exported"):
                x.__dlpack__(dl_device=(10, 0))
            with pytest.raises(BufferError, match="requires a gradient"):
                x.requires_grad_().__dlpack__()

    def test_interface(self) -> None:
        with emulated():
            x = on_device(np.arange(12).reshape(3, 4))
            found = x.__cuda_array_interface__
            assert found == {
                "version": 3, "shape": (3, 4), "typestr": "<f4", "data": (x.array.buffer.address, False),
                "strides": None, "stream": current_stream().handle,
            }  # fmt: skip
            part = x[1:, ::2].__cuda_array_interface__
            assert (part["shape"], part["strides"]) == ((2, 2), (16, 8))
            assert part["data"][0] == x.array.buffer.address + 16
            assert x[:0].__cuda_array_interface__["data"][0] == 0
            assert not hasattr(tk.ones(2), "__cuda_array_interface__")
            assert not hasattr(tk.ones(2, device="meta"), "__cuda_array_interface__")
            with pytest.raises(RuntimeError, match="requires a gradient"):
                _ = x.requires_grad_().__cuda_array_interface__

    def test_numba_reads_it(self) -> None:
        cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        with emulated():
            x = on_device(np.arange(6).reshape(2, 3))
            array = cuda.as_cuda_array(x)
            assert (array.shape, array.dtype) == ((2, 3), np.float32)
            np.testing.assert_array_equal(array.copy_to_host(), np.arange(6).reshape(2, 3))


class _OnTheCpu:
    def __init__(self, x: tk.Tensor) -> None:
        self.x = x

    def __dlpack__(self, **asked: Any) -> Any:
        return self.x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class TestIn:
    @pytest.mark.parametrize("kind", [Foreign, Old])
    def test_capsules(self, kind: type[Foreign]) -> None:
        with emulated(devices=2):
            for device in (0, 1):
                given = kind(np.arange(12.0, dtype=np.float32).reshape(3, 4), device=device)
                x = tk.from_dlpack(given)
                assert (x.device.type, x.device.index, x.shape, x.dtype) == ("cuda", device, (3, 4), tk.float32)
                assert x.array.buffer.address == given.address
                assert given.asked["stream"] == current_stream(device).handle
                np.testing.assert_array_equal(np.asarray((x.T + 1).cpu()), given.values.T + 1)
                x[0, 0] = 50
                assert given.memory[0, 0].item() == 50

    def test_layouts(self) -> None:
        with emulated():
            given = Foreign(np.arange(12.0).reshape(3, 4), strides=(1, 3))
            x = tk.from_dlpack(given)
            assert x.strides == (1, 3)
            np.testing.assert_array_equal(np.asarray(x.cpu()), np.arange(12.0).reshape(4, 3).T)
            with pytest.raises(BufferError, match="negative"):
                tk.from_dlpack(Foreign(np.arange(12.0).reshape(3, 4), strides=(-4, 1)))
            assert tk.from_dlpack(Foreign(np.zeros((0, 4)))).shape == (0, 4)
            assert tk.from_dlpack(Foreign(np.array(2.5))).shape == (1,)  # ascontiguousarray of a number

    def test_the_memory_is_returned(self) -> None:
        with emulated():
            before = len(capsules._owned)
            x = tk.from_dlpack(Foreign(np.arange(3.0)))
            y = x[1:]
            del x
            assert len(capsules._owned) == before + 1
            assert y.tolist() == [1, 2]
            del y
            gc.collect()
            assert len(capsules._owned) == before

    def test_imported_memory_is_not_the_allocator_s(self) -> None:
        with emulated():
            given = Foreign(np.arange(1000.0))
            live = POOLS.of(0).stats()["allocation.all.current"]
            x = tk.from_dlpack(given)
            x.device.backend.record_stream(x.array.buffer, Stream())
            assert POOLS.of(0).stats()["allocation.all.current"] == live
            del x
            assert POOLS.of(0).stats()["allocation.all.current"] == live

    def test_asarray_prefers_the_device(self) -> None:
        with emulated():
            given = Foreign(np.arange(4.0))
            for source in (given, Interface(given)):
                x = tk.asarray(source)
                assert x.device.type == "cuda"
                assert x.array.buffer.address == given.address
                assert tk.asarray(source, dtype=tk.float32).dtype == tk.float32
                assert tk.asarray(source, copy=True).array.buffer.address != given.address
                assert tk.asarray(source, device="cpu").tolist() == [0, 1, 2, 3]
                assert tk.tensor(source).array.buffer.address != given.address
                with pytest.raises(ValueError, match="copy=False"):
                    tk.asarray(source, dtype=tk.float32, copy=False)

    def test_interface(self) -> None:
        with emulated(devices=2):
            given = Foreign(np.arange(12.0).reshape(3, 4), device=1)
            x = tk.asarray(Interface(given))
            assert x.device == "cuda:1"
            y = tk.asarray(Interface(given, shape=(4, 3), strides=(8, 32)))
            np.testing.assert_array_equal(np.asarray(y.cpu()), np.arange(12.0).reshape(3, 4).T)
            assert tk.asarray(Interface(given, shape=(0,), data=(0, False))).shape == (0,)
            assert tk.asarray(Interface(given, typestr="<i8")).dtype == tk.int64
            with pytest.raises(ValueError, match="stream of __cuda_array_interface__ is 0"):
                tk.asarray(Interface(given, stream=0))
            with pytest.raises(TypeError, match="mask"):
                tk.asarray(Interface(given, mask=object()))
            with pytest.raises(BufferError, match="no memory"):
                tk.asarray(Interface(given, data=(0, False)))

    def test_read_only_memory_is_copied(self) -> None:
        with emulated():
            given = Foreign(np.arange(4.0))
            one = Interface(given, data=(given.address, True))
            other = ReadOnly(np.arange(4.0))
            for source in (one, other):
                x = tk.asarray(source)
                x[0] = 7
                assert x.tolist() == [7, 1, 2, 3]
                assert (given.memory.tolist(), other.memory.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3])
                with pytest.raises(ValueError, match="copy=False forbids a copy"):
                    tk.asarray(source, copy=False)
            with pytest.raises(ValueError, match="copy=False forbids a copy"):
                tk.from_dlpack(other, copy=False)

    def test_an_empty_array_of_another_device_has_no_order(self) -> None:
        with emulated(devices=2):
            x = tk.zeros((0, 3), device="cuda:1")
            empty = Interface.__new__(Interface)
            empty.__cuda_array_interface__ = x.__cuda_array_interface__
            assert tk.asarray(empty).shape == (0, 3)

    @pytest.mark.parametrize("changes", [{"shape": (-1,)}, {"strides": (4,)}, {"data": (12345, False)}])
    def test_descriptions_that_are_wrong(self, changes: dict[str, Any]) -> None:
        with emulated(), pytest.raises(BufferError, match=r"\[asarray\] the a(rray|ddress)"):
            tk.asarray(Interface(Foreign(np.arange(4.0)), **changes))

    @pytest.mark.parametrize("named", [True, False])
    def test_we_wait_for_the_stream_of_an_interface(self, named: bool) -> None:
        with emulated(deferred=True):
            theirs = Stream()
            wrong = 0
            for i in range(1, 7):
                source = tk.full(1000, float(i)).pin_memory()
                target = tk.zeros(1000, device="cuda")
                tk.cuda.synchronize()
                cu.cuMemcpyHtoDAsync(
                    target.array.buffer.address, source.numpy().__array_interface__["data"][0], 4000, theirs.handle
                )
                given = Interface.__new__(Interface)
                given.__cuda_array_interface__ = {
                    "shape": (1000,), "typestr": "<f4", "data": (target.array.buffer.address, False), "version": 3,
                    **({"stream": theirs.handle} if named else {}),
                }  # fmt: skip
                result = tk.asarray(given) * 2
                current_stream().synchronize()
                wrong += set(result.tolist()) != {2.0 * i}
                tk.cuda.synchronize()
            assert (wrong > 0) == (not named)

    def test_numba_s_arrays(self) -> None:
        cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        with emulated():
            array = cuda.to_device(np.arange(4.0))
            x = tk.asarray(array)
            assert x.device.type == "cuda"
            assert x.tolist() == [0, 1, 2, 3]
