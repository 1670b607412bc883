"""Dispatch: keys, schemas, operators, tables and the registry. Knows no tensors, imports neither numpy nor numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._util.lazy_import import lazy_import
from .calling.overloads import OperatorPacket
from .errors import (
    ArgumentError,
    DeviceMismatchError,
    MissingKernelError,
    OperatorNotFoundError,
    OutOfRangeError,
    ReadOnlyError,
    RegistrationError,
    SchemaError,
    ShadowedKernelWarning,
    TenkeyError,
)
from .kernel import Handle, Kernel, fallthrough_kernel
from .keys import DispatchKey, DispatchKeySet, register_key
from .local_state import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard
from .modes import DispatchMode
from .operator import Operator
from .registry import Registry, registry
from .schema import FunctionSchema, parse_schema
from .table import compute_table

if TYPE_CHECKING:  # Note [Delayed modules]
    from .diagnostics.explain import explain

dangling = registry.dangling
registrations = registry.registrations

__all__ = [
    "ArgumentError", "DeviceMismatchError", "DispatchKey", "DispatchKeySet", "DispatchMode",
    "ExcludeDispatchKeyGuard", "FunctionSchema", "Handle", "IncludeDispatchKeyGuard", "Kernel", "MissingKernelError",
    "Operator", "OperatorNotFoundError", "OutOfRangeError", "OperatorPacket", "ReadOnlyError", "RegistrationError",
    "Registry", "SchemaError", "ShadowedKernelWarning", "TenkeyError", "compute_table", "dangling", "explain",
    "fallthrough_kernel", "parse_schema", "register_key", "registrations", "registry",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(__name__, {"diagnostics.explain": ("explain",)})
