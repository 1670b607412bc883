"""DLPack: sharing memory with other array libraries without copying.

NumPy creates and reads the capsules and manages their lifetime; this module adds bfloat16, gradients, other devices,
and errors with a remedy.

Note [bfloat16 through DLPack]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
DLPack has bfloat16, NumPy does not. So NumPy exports the same memory as uint16, and the type code in the capsule is
changed before it is returned; on import it is changed in the opposite direction. DLPack's ABI fixes the layout of the
struct. Guarded by ``tests/core/test_bfloat16.py::test_dlpack_capsule`` and, with PyTorch,
``::test_torch``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...dispatch.errors import shown
from ...dispatch.local_state import current_state
from ...dispatch.registry import registry
from .. import exchange
from ..device import CPU
from ..dtypes import names as dtypes
from ..tensor import Tensor, add_methods
from ..word import REQUIRES_GRAD

__all__ = ["device_of", "export", "read", "refuse_gradient"]

CPU_DEVICE: Final = (1, 0)
_EXTENSION: Final = 12  # kDLExtDev: devices without a number of their own
_UNSIGNED: Final = 1
_BFLOAT: Final = 4
_CODES: Final = ("int", "uint", "float", "opaque handle", "bfloat", "complex", "bool")
_READABLE: Final = frozenset(  # codes and numbers of bits
    (code, bits)
    for code, many in ((0, (8, 16, 32, 64)), (_UNSIGNED, (8, 16, 32, 64)), (2, (16, 32, 64)), (5, (64, 128)), (6, (8,)))
    for bits in many
)
_INVALID: Final = "[from_dlpack] the capsule of {kind}.__dlpack__ is invalid: it {why}."

_META: Final = "[{call}] a tensor on the device 'meta' has no memory to share: make it on another device."


# ---- out


def _device_pair(given: Any) -> tuple[int, int]:
    try:
        kind, index = given
        return int(getattr(kind, "value", kind)), int(index)
    except (TypeError, ValueError):
        raise TypeError(
            f"[__dlpack__] got dl_device={shown(given)}: it is a pair (device type, index), (1, 0) for the CPU."
        ) from None


def refuse_gradient(tensor: Tensor) -> None:
    """Raise BufferError for a tensor whose gradient would be lost."""
    if tensor._word & REQUIRES_GRAD & current_state().keep:
        raise BufferError(
            "[__dlpack__] can't export a tensor that requires a gradient, which the other library would lose: use "
            "x.detach()."
        )


def export(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """Return a DLPack capsule of the memory, for ``from_dlpack`` of other libraries (array API standard).

    It keeps the memory alive. ``max_version`` of at least (1, 0) gives a versioned capsule, None the older kind;
    ``dl_device`` is None or (1, 0), the CPU, to which tensors on other devices are copied; ``copy`` forces or forbids a
    copy. A tensor on a CUDA device is exported there, and ``stream`` says what waits for the work on it
    (Note [Streams of an exchange]). Raises BufferError for a tensor that requires a gradient (use ``detach()``), for
    other devices, and where ``copy=False`` is impossible; ValueError for a stream of another device.

    >>> x = tk.zeros(2)
    >>> np.from_dlpack(x)[0] = 5
    >>> x.tolist()
    [5.0, 0.0]
    """
    refuse_gradient(self)
    device = self.device
    wanted = None if dl_device is None else _device_pair(dl_device)
    if device is not CPU:
        if device.type == "meta":
            raise BufferError(_META.format(call="__dlpack__"))
        place = exchange.device_exchange.place_of(device)
        if place is not None and wanted in (None, place):
            given = registry.find("tk::clone").call(self.detach()) if copy else self
            versioned = max_version is not None and max_version[0] >= 1
            return exchange.device_exchange.export(given, stream, versioned=versioned, copied=bool(copy))
        if wanted is None:
            raise BufferError(
                f"[__dlpack__] DLPack has no number for the memory of {device}: call x.to('cpu') first, or pass "
                "dl_device=(1, 0), which copies to the CPU."
            )
    if wanted is not None and wanted != CPU_DEVICE:
        raise BufferError(
            f"[__dlpack__] a tensor on {device} cannot be exported to the DLPack device {wanted}: only to its own "
            "device and to the CPU, (1, 0). Move it with x.to(...) first."
        )
    if stream is not None and device is CPU:
        raise ValueError(f"[__dlpack__] got stream={shown(stream)}: on the CPU, which has no streams, pass None.")
    if device is not CPU and copy is False:
        raise BufferError(f"[__dlpack__] copy=False, but going from {device} to the CPU needs a copy.")
    array = self._to_numpy("__dlpack__")
    if array.dtype.kind != "V":
        return array.__dlpack__(max_version=max_version, copy=copy)
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version, copy=copy)
    exchange.capsules.inside(capsule).dtype.code = _BFLOAT  # Note [bfloat16 through DLPack]
    return capsule


def device_of(self: Tensor) -> tuple[int, int]:
    """Return the DLPack device type (1 for the CPU) and index of the memory.

    >>> tk.zeros(2).__dlpack_device__()
    (1, 0)
    """
    device = self.device
    if device is CPU:
        return CPU_DEVICE
    if device.type == "meta":
        raise BufferError(_META.format(call="__dlpack_device__"))
    return exchange.device_exchange.place_of(device) or (_EXTENSION, device.index)


# ---- in


class _Exporter:
    """Passes an existing capsule to NumPy."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


class _Writable:
    """The memory of an array that NumPy before 2.3 takes for read-only although the capsule does not say so."""

    __slots__ = ("__array_interface__", "_array")

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def read(x: Any, *, to_cpu: bool, copy: bool | None) -> tuple[np.ndarray, bool]:
    """Return the host memory that another library exports, as an array, and whether that library copied it.

    With ``to_cpu``, memory elsewhere is copied to the CPU. The array is read-only if the exporter says so, or if its
    capsule is of the older kind, which cannot say (as JAX's, whose arrays never change). Raises BufferError for memory
    elsewhere, TypeError for objects that do not export and for unsupported dtypes; errors of the exporter pass through.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"[from_dlpack] needs an object with __dlpack__ and __dlpack_device__, got {type(x).__name__}: use "
            "tk.asarray for other data."
        )
    kind, index = _device_pair(x.__dlpack_device__())
    in_host_memory = exchange.capsules.IN_HOST_MEMORY
    reachable = kind in in_host_memory
    if not reachable and not to_cpu:
        raise BufferError(
            f"[from_dlpack] the memory is on the DLPack device {(kind, index)}, which tensors cannot use: pass "
            "device='cpu' for a copy."
        )
    asked: dict[str, Any] = {"copy": copy}
    if not reachable:
        asked["dl_device"] = CPU_DEVICE
    copied = copy is True or not reachable
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **asked)
    except TypeError:
        if not reachable:
            raise
        capsule, copied = x.__dlpack__(), False  # an exporter older than versioned capsules
    array_inside, writable = exchange.capsules.inside(capsule), exchange.capsules.is_writable(capsule)
    # without lengths NumPy would read them at address 0
    if array_inside.device_type not in in_host_memory or (array_inside.ndim and not array_inside.shape):
        raise BufferError(_INVALID.format(kind=type(x).__name__, why="has no lengths in host memory"))
    described = array_inside.dtype
    target: dtypes.DType | None = None
    if (described.code, described.bits, described.lanes) == (_BFLOAT, 16, 1):
        target = dtypes.to_dtype("bfloat16")
        described.code = _UNSIGNED  # Note [bfloat16 through DLPack]
    code, bits, lanes = described.code, described.bits, described.lanes
    try:
        array: np.ndarray = np.from_dlpack(_Exporter(capsule))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if lanes == 1 and (code, bits) in _READABLE:
            raise BufferError(_INVALID.format(kind=type(x).__name__, why=f"is refused by NumPy: {error}")) from None
        name = _CODES[code] if code < len(_CODES) else f"of code {code} with bits "
        many = "" if lanes == 1 else f"x{lanes}"
        raise TypeError(
            f"[from_dlpack] tensors cannot hold the dtype {name}{bits}{many}: convert it before exporting it."
        ) from None
    if not array_inside.data and array.size:
        raise BufferError(_INVALID.format(kind=type(x).__name__, why=f"has no memory for the shape {array.shape}"))
    if writable and not array.flags.writeable:
        array = np.asarray(_Writable(array))
    return (array if target is None else array.view(target)), copied


add_methods(__dlpack__=export, __dlpack_device__=device_of)
