"""Exchange of memory through DLPack."""

from __future__ import annotations

import ctypes
import enum
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.exchange import capsules

DTYPES = [str(dtype) for dtype in tk.core.dtypes.names.ALL]


class Exporter:
    """Another library's array: exports an ndarray, in the way of its time."""

    def __init__(self, array: np.ndarray, *, legacy: bool = False, device: Any = (1, 0)) -> None:
        self.array = array
        self.legacy = legacy
        self.device = device
        self.asked: dict[str, Any] = {}
        self.requested: dict[str, Any] = {}

    def __dlpack__(self, *, stream: Any = None, **asked: Any) -> Any:
        self.asked, self.requested = asked, dict(asked)
        if self.legacy:
            if asked:
                raise TypeError("unexpected keyword argument")
            return self.array.__dlpack__()
        asked.pop("dl_device", None)
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self.device


def name_of(capsule: object) -> str:
    """The name of a capsule, which says of which kind it is."""
    function = ctypes.pythonapi.PyCapsule_GetName
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.py_object]
    found = function(capsule)
    return found.decode() if found else ""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_numpy_both_ways(dtype: str, shape: tuple[int, ...]) -> None:
    source = np.ones(shape, dtype)
    x = tk.from_dlpack(source)
    back = np.from_dlpack(x)
    assert x.dtype == back.dtype == np.dtype(dtype)
    assert x.shape == back.shape == shape
    np.testing.assert_array_equal(back, source)
    if source.size:
        source[...] = 0
        assert not x.numpy().any(), "the memory is shared"
        assert not back.any(), "the memory is shared"


def test_views_keep_their_strides() -> None:
    base = np.arange(24.0).reshape(4, 6)
    x = tk.from_dlpack(base)[1:, ::2]
    out = np.from_dlpack(x)
    np.testing.assert_array_equal(out, base[1:, ::2])
    assert np.shares_memory(out, base)
    np.testing.assert_array_equal(np.from_dlpack(x.mT), base[1:, ::2].T)
    spread = tk.broadcast_to(tk.asarray([1.0, 2.0]), (3, 2))
    assert np.from_dlpack(spread).tolist() == [[1.0, 2.0]] * 3


def test_negative_strides_never_come_in_or_leave() -> None:
    backwards = np.arange(4)[::-1]
    x = tk.from_dlpack(backwards)
    assert x.tolist() == [3, 2, 1, 0]
    assert x.strides == (1,)
    assert all(stride >= 0 for stride in np.from_dlpack(tk.arange(4)[::-1]).strides)
    with pytest.raises(ValueError, match=r"\[from_dlpack\] copy=False, but this layout of memory needs a copy"):
        tk.from_dlpack(backwards, copy=False)


def test_kinds_of_capsules() -> None:
    x = tk.zeros(2)
    assert name_of(x.__dlpack__()) == "dltensor"
    assert name_of(x.__dlpack__(max_version=(0, 8))) == "dltensor"
    for version in ((1, 0), (1, 7), (2, 0)):
        assert name_of(x.__dlpack__(max_version=version)) == "dltensor_versioned"
    assert x.__dlpack_device__() == (1, 0)


def test_flags_of_a_versioned_capsule() -> None:
    def flags(capsule: Any) -> int:
        return int(capsules._struct_in(capsule)[1].flags)

    x = tk.zeros(2)
    assert flags(x.__dlpack__(max_version=(1, 0))) == 0
    assert flags(x.__dlpack__(max_version=(1, 0), copy=True)) == 2, "IS_COPIED"
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    assert flags(tk.from_dlpack(frozen).__dlpack__(max_version=(1, 0))) == 1, "READ_ONLY"


def test_copy_on_export() -> None:
    x = tk.zeros(2)
    assert not np.shares_memory(np.from_dlpack(x, copy=True), x.numpy())
    assert np.shares_memory(np.from_dlpack(x, copy=False), x.numpy())
    assert np.shares_memory(np.from_dlpack(x, device="cpu"), x.numpy())


def test_devices_of_exports() -> None:
    class Kind(enum.Enum):
        CPU = 1
        CUDA = 2

    x = tk.zeros(2)
    assert name_of(x.__dlpack__(dl_device=(Kind.CPU, 0))) == "dltensor"
    for wrong in ((Kind.CUDA, 0), (2, 0), (1, 1), (99, 0)):
        with pytest.raises(BufferError, match=r"\[__dlpack__\] a tensor on cpu cannot be exported to"):
            x.__dlpack__(dl_device=wrong)
    for malformed in ("cpu", 1, (1,), ("cpu", 0)):
        with pytest.raises(TypeError, match=r"\[__dlpack__\] got dl_device=.*: it is a pair"):
            x.__dlpack__(dl_device=malformed)
    with pytest.raises(ValueError, match=r"\[__dlpack__\] got stream=-1: on the CPU"):
        x.__dlpack__(stream=-1)
    with pytest.raises(TypeError):
        x.__dlpack__(max_version=1)


def test_a_gradient_is_not_lost() -> None:
    x = tk.ones(2).requires_grad_()
    for call in (lambda: np.from_dlpack(x), lambda: tk.from_dlpack(x), lambda: tk.from_dlpack(x * 2)):
        with pytest.raises(BufferError, match=r"can't export a tensor that requires a gradient.*use x.detach\(\)"):
            call()
    assert tk.shares_storage(tk.from_dlpack(x.detach()), x)


def test_meta_has_no_memory() -> None:
    x = tk.zeros(2, device="meta")
    for call in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(BufferError, match="has no memory to share: make it on another device"):
            call()


def test_own_tensors() -> None:
    x = tk.zeros(2)
    y = tk.from_dlpack(x)
    assert tk.shares_storage(x, y)
    version = x._version
    y += 1
    assert x.tolist() == [1.0, 1.0]
    assert x._version == version + 1, "the version counter is shared, too"
    assert not tk.shares_storage(tk.from_dlpack(x, copy=True), x)
    assert tk.from_dlpack(x, device="meta").device == "meta"
    with pytest.raises(ValueError, match=r"\[from_dlpack\] copy=False"):
        tk.from_dlpack(x, device="meta", copy=False)


@pytest.mark.parametrize("legacy", [False, True])
def test_exporters_of_any_age(legacy: bool) -> None:
    source = Exporter(np.arange(3.0), legacy=legacy)
    x = tk.from_dlpack(source)
    assert x.tolist() == [0.0, 1.0, 2.0]
    source.array += 1
    assert x.tolist() == [1.0, 2.0, 3.0], "the memory is shared"
    if legacy:  # a capsule that cannot say whether the memory may be changed
        with pytest.raises(RuntimeError, match=r"\[add_\] the first argument is on read-only memory"):
            x += 1
    else:
        x -= 1
        x += 1
    y = tk.from_dlpack(source, copy=True)
    y += 1
    assert source.array.tolist() == [1.0, 2.0, 3.0]
    assert not np.shares_memory(y.numpy(), source.array)
    assert tk.from_dlpack(Exporter(np.zeros((0, 3)), legacy=legacy)).shape == (0, 3)


def test_memory_that_numpy_takes_for_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy before 2.3 reads every capsule as read-only; the capsule says whether it is."""
    read = np.from_dlpack

    def old(exporter: Any) -> np.ndarray:
        array = read(exporter)
        array.flags.writeable = False
        return array

    monkeypatch.setattr(np, "from_dlpack", old)
    source = Exporter(np.arange(6.0).reshape(2, 3)[:, ::2], legacy=False)
    x = tk.from_dlpack(source)
    x += 1
    assert source.array.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    source.array.flags.writeable = False
    with pytest.raises(RuntimeError, match=r"\[add_\] the first argument is on read-only memory"):
        tk.from_dlpack(source).add_(1)


def test_what_is_asked_of_the_exporter() -> None:
    source = Exporter(np.arange(3.0))
    tk.from_dlpack(source)
    assert source.asked["max_version"] >= (1, 0)
    elsewhere = Exporter(np.arange(3.0), device=(2, 0))
    with pytest.raises(BufferError, match=r"\[from_dlpack\] the memory is on the DLPack device \(2, 0\)"):
        tk.from_dlpack(elsewhere)
    assert tk.from_dlpack(elsewhere, device="cpu").tolist() == [0.0, 1.0, 2.0]
    assert tk.from_dlpack(source, device="meta").device == "meta"
    with pytest.raises(ValueError, match=r"\[from_dlpack\] copy=False, but moving to meta needs a copy"):
        tk.from_dlpack(source, device="meta", copy=False)


def test_memory_that_may_only_be_read_is_shared() -> None:
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    x = tk.from_dlpack(frozen)
    assert np.shares_memory(x.numpy(), frozen)
    assert (x + 1).tolist() == [1.0, 2.0, 3.0]
    writes: list[Callable[[], Any]] = [
        lambda: x.add_(1),
        lambda: x.copy_(tk.ones(3)),
        lambda: x.zero_(),
        lambda: x.__setitem__(0, 1.0),
        lambda: x[1:].mul_(2),
    ]
    for write in writes:
        with pytest.raises(RuntimeError, match=r"on read-only memory.*clone\(\) it first"):
            write()
    assert frozen.tolist() == [0.0, 1.0, 2.0]
    y = x.clone()
    y += 1
    assert y.tolist() == [1.0, 2.0, 3.0]


def test_exports_keep_the_memory_alive() -> None:
    class Owner(np.ndarray):
        """An array that can be weakly referenced."""

    owner = np.arange(1000.0).view(Owner)
    alive = weakref.ref(owner)
    x = tk.from_dlpack(owner)
    view = x[10:20]
    out = np.from_dlpack(view)
    unused = x.__dlpack__(max_version=(1, 0))
    del owner, x, view
    gc.collect()
    assert alive() is not None
    assert out.tolist() == list(range(10, 20))
    del out
    gc.collect()
    assert alive() is not None, "a capsule that nobody took owns the memory"
    del unused
    gc.collect()
    assert alive() is None


def test_a_copy_is_asked_for_where_the_memory_cannot_be_used() -> None:
    here, there = Exporter(np.arange(3.0)), Exporter(np.arange(3.0), device=(4, 0))
    assert tk.from_dlpack(here, device="cpu").tolist() == tk.from_dlpack(there, device="cpu").tolist() == [0, 1, 2]
    assert here.requested.get("dl_device") is None
    assert there.requested["dl_device"] == (1, 0)


@pytest.mark.parametrize("value", [None, 3.0, [1.0], "x", object()])
def test_what_exports_nothing(value: object) -> None:
    with pytest.raises(TypeError, match=r"\[from_dlpack\] needs an object with __dlpack__ and __dlpack_device__"):
        tk.from_dlpack(value)


def test_dtypes_that_tensors_cannot_have() -> None:
    class Strange(Exporter):
        def __dlpack__(self, **asked: Any) -> Any:
            capsule = self.array.__dlpack__(max_version=(1, 0))
            capsules.inside(capsule).dtype.lanes = 4
            return capsule

    with pytest.raises(TypeError, match=r"\[from_dlpack\] tensors cannot hold the dtype float64x4"):
        tk.from_dlpack(Strange(np.zeros(2)))
    with pytest.raises(BufferError, match="longdouble"):  # the exporter's own error
        tk.from_dlpack(np.zeros(2, np.longdouble))


def test_a_capsule_is_used_once() -> None:
    capsule = np.zeros(2).__dlpack__()

    class Again(Exporter):
        def __dlpack__(self, **asked: Any) -> Any:
            return capsule

    source = Again(np.zeros(2))
    tk.from_dlpack(source)
    with pytest.raises(BufferError, match="which is not an unused DLPack capsule"):
        tk.from_dlpack(source)


# ---- other libraries


def test_torch_both_ways() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = tk.zeros((2, 3))
    y = torch.from_dlpack(x)
    y[0, 1] = 5
    assert x.tolist() == [[0, 5, 0], [0, 0, 0]]
    z = tk.from_dlpack(y)
    z += 1
    assert x.tolist() == y.tolist() == [[1, 6, 1], [1, 1, 1]]
    assert torch.from_dlpack(x.mT[1:]).tolist() == [[6, 1], [1, 1]]
    copied = torch.from_dlpack(x, copy=True)
    copied += 1
    assert x.tolist() == y.tolist()
    for dtype in DTYPES:
        for shape in ((), (2, 0), (2,)):
            there = torch.from_dlpack(tk.ones(shape, dtype=dtype))
            assert str(there.dtype) == f"torch.{dtype}"
            assert tk.from_dlpack(there).dtype == np.dtype(dtype)
            assert tk.asarray(there).tolist() == there.tolist()
    assert tk.asarray([torch.ones(2), torch.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    with pytest.raises(BufferError, match="require gradient"):
        tk.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="requires grad"):
        tk.asarray(torch.ones(2, requires_grad=True))


def test_jax_both_ways() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    there = jnp.arange(3.0)
    x = tk.from_dlpack(there)
    assert x.numpy().ctypes.data == there.unsafe_buffer_pointer(), "the memory is shared"
    with pytest.raises(RuntimeError, match="read-only memory"):
        x += 1  # JAX's arrays never change
    memory = np.zeros(1000 + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    y = tk.asarray(memory[start : start + 1000])  # JAX takes memory that begins at a multiple of 64 bytes
    here = jnp.from_dlpack(y)
    assert here.unsafe_buffer_pointer() == y.numpy().ctypes.data, "the memory is shared"
    z = tk.asarray(there)
    z += 1
    assert z.tolist() == [1.0, 2.0, 3.0]
    assert there.tolist() == [0.0, 1.0, 2.0]
    assert tk.asarray([there, there]).shape == (2, 3)
