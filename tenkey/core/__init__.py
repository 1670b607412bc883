"""Core: dtypes, promotion, devices, storage, the Tensor, printing, random numbers."""

from ..dispatch.registry import registry
from .compiled import loading as _loading  # noqa: F401  # refuses a stale extension before anything runs in it
from .device import CPU, Device, register_device, to_device
from .dtypes.names import ALL, to_dtype
from .exchange import dlpack as _dlpack  # noqa: F401
from .exchange import pickling as _copying  # noqa: F401  # adds methods to Tensor, like the next ones
from .exchange import pinning as _pinning  # noqa: F401
from .exchange import sharing as _sharing  # noqa: F401
from .lift import lift, weak_tensor
from .storage import Storage, StridedArray
from .tensor import Tensor, make_tensor, make_view, shares_storage, storage_of
from .text import repr as _display  # noqa: F401
from .word import REQUIRES_GRAD, tensor_dtype

registry.hooks.converters["DType"] = tensor_dtype
registry.hooks.as_they_are["DType"] = frozenset(map(id, ALL))
registry.hooks.lifters.append(lift)
registry.hooks.number = weak_tensor

__all__ = [
    "CPU", "REQUIRES_GRAD", "Device", "Storage", "StridedArray", "Tensor", "lift", "make_tensor", "make_view",
    "register_device", "shares_storage", "storage_of", "to_device", "to_dtype", "weak_tensor",
]  # fmt: skip
