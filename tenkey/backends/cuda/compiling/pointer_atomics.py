"""Atomic operations of numba.cuda on pointers.

Note [Atomic operations on parameters]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The parameters of our kernels are pointers, and ``cuda.atomic.add(out, i, value)`` and its relatives take arrays. They
are taught to take a pointer as an array of one dimension without a length: the types are those for an array, and the
code makes one of the pointer. An index below 0 is an address before the pointer, as elsewhere in C. Kernels of users
then count and sum as Numba's manual shows. Guarded by ``tests/backends/cuda/test_user_kernels.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["teach_atomics"]

_NAMES: Final = (
    "add", "sub", "max", "min", "nanmax", "nanmin", "and_", "or_", "xor", "inc", "dec", "exch", "cas",
)  # fmt: skip
_taught: Final[list[bool]] = []


def teach_atomics() -> None:
    """Let ``cuda.atomic`` take pointers, from now on in this process."""
    if _taught:
        return
    _taught.append(True)
    from numba.cuda import cudadecl, cudaimpl, descriptor, stubs, types

    known = [one for one in vars(cudadecl).values() if hasattr(one, "generic") and hasattr(one, "key")]
    templates = {template.key: template for template in known}
    for name in _NAMES:
        stub = getattr(stubs.atomic, name, None)
        template = templates.get(stub)
        if stub is None or template is None:
            continue
        template.generic = _typed(template.generic, types)
        values = [types.Any] * (2 if name == "cas" else 1)
        cudaimpl.registry.lower(stub, types.CPointer, types.intp, *values)(_lowered(stub, types))
    descriptor.cuda_target.target_context.refresh()


def _typed(original: Callable[..., Any], types: Any) -> Callable[..., Any]:
    """Return the typing of an operation that takes pointers, too."""

    def generic(self: Any, args: Any, kws: Any) -> Any:
        if not (args and isinstance(args[0], types.CPointer)):
            return original(self, args, kws)
        if not (len(args) > 1 and isinstance(args[1], types.Integer)):
            return None
        found = original(self, (types.Array(args[0].dtype, 1, "C"), *args[1:]), kws)
        return None if found is None else found.replace(args=(args[0], *found.args[1:]))

    return generic


def _lowered(stub: Any, types: Any) -> Callable[..., Any]:
    """Return what generates the code of an operation on a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.cuda.np import arrayobj

        pointer, *others = signature.args
        kind = types.Array(pointer.dtype, 1, "C")
        array = context.make_array(kind)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(pointer.dtype)))
        length = context.get_constant(types.intp, 0)
        arrayobj.populate_array(array, args[0], [length], [size], size, None)
        function = context.get_function(stub, signature.return_type(kind, *others))
        return function(builder, [array._getvalue(), *args[1:]])

    return generate
