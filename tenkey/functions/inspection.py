"""The inspection functions of the array API standard, which describe the namespace."""

from __future__ import annotations

from typing import Any, Final

from ..core.device import Device, available_devices, default_device, to_device
from ..core.dtypes import names as dtypes
from ..core.dtypes.names import DType

__all__ = ["ARRAY_API_VERSION", "ArrayNamespaceInfo", "array_namespace_info"]

ARRAY_API_VERSION: Final = "2025.12"


class _Devices(tuple[Device, ...]):
    """The devices as a tuple (2025.12), which can be added to lists for programs written for earlier versions."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return list(self) + other if isinstance(other, list) else tuple.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return other + list(self) if isinstance(other, list) else NotImplemented


class ArrayNamespaceInfo:
    """The result of ``tk.__array_namespace_info__()``.

    >>> info = tk.__array_namespace_info__()
    >>> info.default_device(), info.capabilities()["boolean indexing"]
    (device('cpu'), True)
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard exist, and the maximum number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of tensors created without ``device=``."""
        return default_device()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that hold values: the CPU, and those of registered backends (``meta`` holds none)."""
        return _Devices(available_devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the dtypes of Python numbers and of indices, in this thread and task.

        >>> tk.__array_namespace_info__().default_dtypes()["real floating"]
        dtype('float32')
        """
        if device is not None:
            to_device(device)
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.default_int(),
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the dtypes of a kind, of several kinds, or all, by name (float16 and bfloat16 are not standard).

        Raises ValueError for an unknown kind.

        >>> list(tk.__array_namespace_info__().dtypes(kind="complex floating"))
        ['complex64', 'complex128']
        """
        if device is not None:
            to_device(device)
        standard = ("bool", "integral", "real floating", "complex floating")
        kinds = (standard if kind is None else (kind,)) if not isinstance(kind, tuple) else kind
        for one in kinds:
            if one not in dtypes.KINDS:
                raise ValueError(
                    f"[__array_namespace_info__] got kind {one!r}: a kind is one "
                    f"of {', '.join(map(repr, dtypes.KINDS))}, or a tuple of these."
                )
        chosen = {dtype for one in kinds for dtype in dtypes.KINDS[one]} - {dtypes.float16}
        return {dtype.name: dtype for dtype in dtypes.ALL if dtype in chosen}

    def __repr__(self) -> str:
        return f"<the array API standard {ARRAY_API_VERSION} in tenkey>"


def array_namespace_info() -> ArrayNamespaceInfo:
    """Return an object that describes the namespace; source: array API standard 2025.12, "Inspection".

    >>> str(tk.__array_namespace_info__().devices()[0])
    'cpu'
    """
    return ArrayNamespaceInfo()
