"""Compiled code for the CPU: loops written in Python, translated to LLVM's language and compiled with llvmlite."""

from .array_fields import data, flags, ndim, shape, strides
from .compiled import Case, UnavailableError, address_of, kernel
from .instructions import *  # noqa: F403 -- the operations of the language
from .language import LoopError, Template, function_pointer, loop, static
from .value_types import (
    Type,
    array,
    b8,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    of_dtype,
    pointer,
    u8,
    u16,
    u32,
    u64,
    unsigned_of,
    vector,
    void,
)
from .values import Value, as_value, constant, convert
