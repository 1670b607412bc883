"""Dispatch: keys, schemas, operators, tables and the registry. Knows no tensors, imports neither numpy nor numba."""

from .diagnostics.explain import explain
from .errors import (
    ArgumentError,
    DeviceMismatchError,
    MissingKernelError,
    OperatorNotFoundError,
    OutOfRangeError,
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
from .packet import OperatorPacket
from .registry import Registry, registry
from .schema import FunctionSchema, parse_schema
from .table import compute_table

dangling = registry.dangling
registrations = registry.registrations

__all__ = [
    "ArgumentError",
    "DeviceMismatchError",
    "DispatchKey",
    "DispatchKeySet",
    "DispatchMode",
    "ExcludeDispatchKeyGuard",
    "FunctionSchema",
    "Handle",
    "IncludeDispatchKeyGuard",
    "Kernel",
    "MissingKernelError",
    "Operator",
    "OperatorNotFoundError",
    "OutOfRangeError",
    "OperatorPacket",
    "RegistrationError",
    "Registry",
    "SchemaError",
    "ShadowedKernelWarning",
    "TenkeyError",
    "compute_table",
    "dangling",
    "explain",
    "fallthrough_kernel",
    "parse_schema",
    "register_key",
    "registrations",
    "registry",
]
