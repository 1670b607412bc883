"""Kernels: templates translated, compiled and callable from Python.

A kernel is found in memory, then in the cache of compiled code, and is compiled otherwise. ``kernel(template, T=f32)``
returns a function of ctypes: it takes what the template's entry point takes, and lets other threads run meanwhile.
Where code cannot be compiled, it raises `UnavailableError`, and the operator runs on NumPy. ``TENKEY_COMPILE=off``
makes all kernels unavailable that are not in memory.

Note [Kernels that are compiled ahead]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``python -m tenkey warm`` fills the cache. A module of the CPU backend that has templates says which kernels programs
will ask for, in a function ``cases(dtypes)``, which yields a `Case` for each: the operator that needs it (with its
namespace, ``"tk::exp"``), the template and its statics, the same that the operator passes to `kernel`. Note that
statics which differ in anything are another kernel. Guarded by ``tests/package/test_warm.py``.

Note [Forks and the compiler]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Kernels are compiled in the thread that needs them, one at a time, so that two threads that need the same one compile it
once. A fork waits until no kernel is being compiled (Note [Locks and forks] in ``tenkey/_util/locks.py``), because an
interrupted LLVM would be unusable in the child; the lock of llvmlite is taken, too, for programs that use Numba
themselves. If one of these locks does not become free, new kernels are unavailable in the child. Guarded by
``tests/package/test_forks.py``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from ..._util import locks
from . import code_cache, images
from .array_fields import supported
from .complaints import complain, utter
from .descriptions import describe
from .language import Template, instance, static_key
from .value_types import Type, array
from .values import Module

__all__ = ["Case", "UnavailableError", "address_of", "compiled_or_none", "counts", "image_of", "kernel", "module_text"]

_ENTRY: Final = "entry"
_P = ParamSpec("_P")
_R = TypeVar("_R")
_CTYPES: Final[dict[str, Any]] = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
    "f64": ctypes.c_double, "i1": ctypes.c_bool, "array": ctypes.py_object, "pointer": ctypes.c_void_p, "void": None,
}  # fmt: skip


class UnavailableError(RuntimeError):
    """Raised where a kernel is not in the cache and cannot be compiled."""


def compiled_or_none(function: Callable[_P, _R]) -> Callable[_P, _R | None]:
    """Make a function return None where kernels cannot be compiled."""

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _R | None:
        try:
            return function(*args, **options)
        except UnavailableError:
            return None

    return call


class Case(NamedTuple):
    """A kernel that can be compiled ahead: Note [Kernels that are compiled ahead]; ``operator`` is empty for all."""

    operator: str
    template: Template
    statics: dict[str, Any]


_Code = tuple[int, str]  # the address; the types of the result and of the parameters, as in _CTYPES
_compiling: Final = locks.new_lock()  # held while a kernel is loaded or compiled: Note [Forks and the compiler]
_codes: Final[dict[Any, _Code | str]] = {}  # of a kernel that is unavailable: why, since it would be translated again
_functions: Final[dict[Any, Callable[..., Any]]] = {}
counts: Final = {"loaded": 0, "compiled": 0}
"""How many kernels this process has loaded from the cache, and how many it has compiled."""


def kernel(template: Template, **statics: Any) -> Callable[..., Any]:
    """Return a kernel as a Python function; it is loaded or compiled at the first request.

    Raises:
        UnavailableError: it is not in the cache and cannot be compiled.
        LoopError: the template is wrong.
    """
    key = static_key(template, statics)
    function = _functions.get(key)
    if function is None:
        address, signature = _found(template, statics)
        function = _functions[key] = ctypes.CFUNCTYPE(*[_CTYPES[name] for name in signature.split()])(address)
    return function


def address_of(template: Template, **statics: Any) -> int:
    """Return the address of a kernel, which other kernels call; errors are those of `kernel`."""
    return _found(template, statics)[0]


def module_text(template: Template, **statics: Any) -> str:
    """Return the module of a kernel in LLVM's language, for readers and tests."""
    return "".join(_translated(template, statics)[0])


def image_of(parts: Sequence[str], exports: Sequence[str], *, cold: bool = False) -> bytes:
    """Compile modules in LLVM's language, which call each other, to one image: for code that is not from templates.

    Raises:
        UnavailableError: this process cannot compile: Note [Forks and the compiler].
        RuntimeError: LLVM does not understand the text.
    """
    from . import machine_code

    with _compiling:
        if not _State.usable:
            raise UnavailableError("The process was forked while a kernel was being compiled: it cannot compile any.")
        codes = [machine_code.object_code(text, brief=True, cold=cold) for text in parts if text]
    return images.build(codes, exports)


def _found(template: Template, statics: dict[str, Any]) -> _Code:
    key = static_key(template, dict(sorted(statics.items())))
    code = _codes.get(key)
    if code is None:
        if os.environ.get("TENKEY_COMPILE") == "off":
            raise UnavailableError("TENKEY_COMPILE=off: no kernel is compiled.")
        try:
            with _compiling:
                code = _codes.get(key)
                if code is None:
                    try:
                        code = _obtained(template, statics)
                    except UnavailableError as error:
                        code = str(error)
                    _codes[key] = code
        finally:
            utter()
    if isinstance(code, str):
        raise UnavailableError(code)
    return code


def _obtained(template: Template, statics: dict[str, Any]) -> _Code:
    """Load a kernel from the cache, or compile it."""
    key = describe(template, statics)
    translated = None
    if key is None:
        translated = _translated(template, statics)
        key = f"{template.brief} {''.join(translated[0])}"
    try:
        content = code_cache.load(key)
        if content is not None:
            code = _loaded(content)
            counts["loaded"] += 1
            return code
    except (ImportError, OSError, images.ImageError) as error:  # LLVM may be needed to know the processor
        complain(f"a cached kernel cannot be loaded ({error}): it is compiled again.", error)
    parts, signature = translated or _translated(template, statics)
    content = signature.encode() + b"\n" + _compiled(template, parts)
    try:
        code = _loaded(content)
    except images.ImageError as error:
        raise _unavailable("kernels cannot be used", error) from error
    counts["compiled"] += 1
    code_cache.store(key, content)
    return code


def _translated(template: Template, statics: dict[str, Any]) -> tuple[tuple[str, str], str]:
    """Return a kernel in LLVM's language, its usual functions and its cold ones, and its signature."""
    module = Module()
    try:
        _, result, parameters = instance(template, module, statics, _ENTRY)
    except OSError as error:  # a program that was packed without its sources
        raise _unavailable("kernels are not compiled", error) from error
    return module.parts(), " ".join(map(_ctype, (result, *parameters)))


def _ctype(type_: Type) -> str:
    return "pointer" if type_.is_pointer and type_ is not array else type_.name


def _compiled(template: Template, parts: Sequence[str]) -> bytes:
    """Compile a kernel to an image."""
    if not _State.usable:
        raise UnavailableError("The process was forked while a kernel was being compiled: it cannot compile any.")
    try:
        from . import machine_code  # not before code has to be compiled

        codes = [
            machine_code.object_code(text, template.brief, cold=cold)
            for cold, text in zip((False, True), parts)
            if text
        ]
        if machine_code.needs_half_conversions(parts):
            codes.append(machine_code.object_code(machine_code.HALF_CONVERSIONS))
    except (ImportError, OSError, RuntimeError) as error:  # llvmlite raises OSError if its library cannot be loaded
        raise _unavailable("kernels are not compiled", error) from error
    return images.build(codes, [_ENTRY])


def _unavailable(what: str, error: Exception) -> UnavailableError:
    complain(f"{what} ({type(error).__name__}: {error}): operators run on NumPy.", error)
    return UnavailableError(str(error))


def _loaded(content: bytes) -> _Code:
    head, _, image = content.partition(b"\n")
    signature = head.decode()
    if "array" in signature.split() and not supported():
        raise _unavailable("kernels cannot be used", images.ImageError("this interpreter's arrays have other fields"))
    return images.load(image)[_ENTRY], signature


# ---- forks


class _State:
    usable = True  # false in a child that was forked while LLVM was at work


def _llvm_locks() -> Iterator[Any]:
    """Yield the reentrant lock of llvmlite, if it is imported."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    lock = getattr(library, "_lock", None)
    lock = getattr(lock, "_lock", lock)
    if hasattr(lock, "_is_owned"):
        yield lock


def _after_fork() -> None:
    if any(lock in locks.missed for lock in (_compiling, *_llvm_locks())):
        _State.usable = False


locks.foreign.append(_llvm_locks)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
