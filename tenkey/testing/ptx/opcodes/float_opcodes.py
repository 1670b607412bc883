"""Arithmetic of floats: rounded in every direction, with subnormal numbers flushed, saturated, packed.

PTX ISA, "Floating Point Instructions", "Half Precision" and "Mixed Precision". Functions that a device approximates
(``ex2.approx``, ``sin.approx``, ``rsqrt.approx``, ...) are computed as the C library does, which is more accurate.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....backends.llvm.instructions import bitcast, call_external, copysign, fabs, intrinsic, select, sqrt
from ....backends.llvm.instructions import fma as fused
from ....backends.llvm.value_types import f32, f64, u64
from ....backends.llvm.values import Value, constant, convert
from ..float_rounding import canonical, directed, exact_sum_to_odd, flushed, odd_single, saturated
from ..ptx_text import Instruction
from ..ptx_types import PtxType, unsigned
from ..thread_code import Translation
from .opcode_table import typed

__all__ = ["arithmetic", "divide", "extreme", "fma", "inputs", "least_or_greatest", "results", "sign"]

_MODES = ("rz", "rm", "rp")


def inputs(t: Translation, i: Instruction, operand: str, type_: PtxType) -> list[Value]:
    """Return the lanes of an operand, without subnormal numbers where the instruction has ``.ftz``."""
    values = t.lanes(operand, type_)
    if i.has("ftz") and type_.is_float:
        return [_flushed(value, type_) for value in values]
    return values


def _flushed(value: Value, type_: PtxType) -> Value:
    if type_.narrow == "f16":
        small = fabs(value) < constant(f32, 2.0**-14)
        return select(small, copysign(constant(f32, 0), value), value)
    return flushed(value) if type_.compute is f32 else value


def results(t: Translation, i: Instruction, values: Sequence[Value], type_: PtxType) -> None:
    """Write results: the one NaN, then what ``.sat``, ``.relu`` and ``.ftz`` ask for."""
    done = []
    for value in values:
        if not type_.narrow:
            value = canonical(value)
        if i.has("sat"):
            value = saturated(value)
        if i.has("relu"):
            value = select(value < 0, constant(value.type, 0), value)
        if i.has("ftz") and type_.narrow != "bf16":
            value = _flushed(value, type_)
        done.append(value)
    t.write_lanes(i.operands[0], done, type_)


def _result(t: Translation, i: Instruction, type_: PtxType) -> PtxType:
    """Return the type of the result and the last operand: of ``add.f32.f16 d, a, c``, it is not that of the first."""
    return t.type("f32", i) if i.parts[-2] == "f32" and type_.narrow else type_


def arithmetic(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Add, subtract or multiply."""
    name, mode = i.parts[0], i.one_of(_MODES)
    result = _result(t, i, type_)
    first, second = inputs(t, i, i.operands[1], type_), inputs(t, i, i.operands[2], result)
    values = []
    for a, b in zip(first, second, strict=True):
        if mode:
            values.append(directed({"add": "fadd", "sub": "fsub", "mul": "fmul"}[name], mode, a, b))
        else:
            values.append(a + b if name == "add" else a - b if name == "sub" else a * b)
    results(t, i, values, result)


@typed("fma")
def fma(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Multiply and add, rounded once."""
    mode = i.one_of(_MODES)
    result = _result(t, i, type_)
    x, y = (inputs(t, i, one, type_) for one in i.operands[1:3])
    z = inputs(t, i, i.operands[3], result)
    values = []
    for a, b, c in zip(x, y, z, strict=True):
        if mode:
            values.append(directed("fma", mode, a, b, c))
        elif result.narrow:
            p, q, r = (convert(one, f64) for one in (a, b, c))
            wide = p * q
            odd = exact_sum_to_odd(wide, r)
            values.append(odd_single(odd))
        else:
            values.append(fused(a, b, c))
    results(t, i, values, result)


def divide(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Divide."""
    a, b = (inputs(t, i, one, type_)[0] for one in i.operands[1:3])
    mode = i.one_of(_MODES)
    results(t, i, [directed("fdiv", mode, a, b) if mode else a / b], type_)


def sign(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Change the sign, or clear it."""
    values = inputs(t, i, i.operands[1], type_)
    if i.has("ftz") and type_.compute is f32 and not type_.narrow:
        t.write_lanes(i.operands[0], [-v if i.parts[0] == "neg" else fabs(v) for v in values], type_)
        return
    bits = t.raw(i.operands[1], type_.bits)
    mask = sum(1 << (type_.lane_bits * (k + 1) - 1) for k in range(type_.lanes))
    flipped = bits ^ mask if i.parts[0] == "neg" else bits & ~constant(bits.type, mask)
    t.write_raw(i.operands[0], flipped)


def extreme(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Choose the lesser or greater number: the other one where one is a NaN, or a NaN with ``.NaN``."""
    lesser = i.parts[0] == "min"
    operands = [inputs(t, i, one, type_) for one in i.operands[1:]]
    values = operands[0]
    for others in operands[1:]:
        values = [_extreme(a, b, lesser, i) for a, b in zip(values, others, strict=True)]
    results(t, i, values, type_)


def _extreme(a: Value, b: Value, lesser: bool, i: Instruction) -> Value:
    signs = None
    if i.has("xorsign"):
        whole = unsigned(a.type.bits)
        signs = (bitcast(a, whole) ^ bitcast(b, whole)) & (1 << (a.type.bits - 1))
    if i.has("abs"):
        a, b = fabs(a), fabs(b)
    value = least_or_greatest(a, b, lesser, nan=i.has("NaN"))
    return value if signs is None else bitcast(bitcast(value, signs.type) | signs, value.type)


def least_or_greatest(a: Value, b: Value, lesser: bool, *, nan: bool = False) -> Value:
    """Return the lesser or greater number; -0.0 is less than 0.0, and a NaN is not chosen unless ``nan`` is True."""
    whole = unsigned(a.type.bits)
    x, y = bitcast(a, whole), bitcast(b, whole)
    equal = bitcast(x | y if lesser else x & y, a.type)
    value = select(a < b if lesser else a > b, a, select(a == b, equal, b))
    if nan:
        return select(b != b, b, select(a != a, a, value))
    return select(b != b, a, select(a != a, b, value))


@typed("copysign")
def copied_sign(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Return the magnitude of the second operand with the sign of the first."""
    a, b = (t.read(one, type_) for one in i.operands[1:3])
    t.write(i.operands[0], copysign(b, a), type_)


@typed("ex2", "lg2", "sin", "cos", "tanh")
def elementary(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Compute a function that devices approximate."""
    values = inputs(t, i, i.operands[1], type_)
    if i.parts[0] == "tanh":
        values = [call_external("tanhf", value, returns=f32) for value in values]
    else:
        name = {"ex2": "exp2", "lg2": "log2"}.get(i.parts[0], i.parts[0])
        values = [intrinsic(name, value) for value in values]
    results(t, i, values, type_)


@typed("sqrt", "rcp", "rsqrt")
def root(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Compute a square root, a reciprocal, or both."""
    mode, name = i.one_of(_MODES), i.parts[0]
    value = inputs(t, i, i.operands[1], type_)[0]
    one = constant(value.type, 1)
    coarse = type_.compute is f64 and i.has("approx")  # these have 20 bits after the point, and flush
    if coarse:
        value = flushed(value)
    if name == "sqrt":
        value = directed("sqrt", mode, value) if mode else sqrt(value)
    elif name == "rcp":
        value = directed("fdiv", mode, one, value) if mode else one / value
    elif value.type is f32:
        value = convert(constant(f64, 1) / sqrt(convert(value, f64)), f32)
    else:
        value = one / sqrt(value)
    if coarse:
        value = flushed(bitcast(bitcast(value, u64) & 0xFFFFFFFF00000000, f64))
    results(t, i, [value], type_)


@typed("testp")
def testp(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Test which kind of number it is."""
    bits = t.raw(i.operands[1], type_.bits)
    fraction = 23 if type_.bits == 32 else 52
    magnitude = bits & ((1 << (type_.bits - 1)) - 1)
    infinity = constant(bits.type, ((1 << (type_.bits - 1 - fraction)) - 1) << fraction)
    smallest = constant(bits.type, 1 << fraction)
    value = {
        "finite": lambda: magnitude < infinity,
        "infinite": lambda: magnitude == infinity,
        "number": lambda: magnitude <= infinity,
        "notanumber": lambda: magnitude > infinity,
        "normal": lambda: (magnitude < infinity) & (magnitude >= smallest),
        "subnormal": lambda: (magnitude < smallest) & (magnitude != 0),
    }.get(i.parts[1])
    if value is None:
        t.unsupported(i)
    t.write_raw(i.operands[0], value())
