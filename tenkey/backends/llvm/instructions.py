"""Operations of compiled code beyond Python's operators; the functions take and return :class:`Value`.

Integers are 64 bits wide unless a type says otherwise. Vectors have at most 64 bytes by convention.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .value_types import Type, i1, i8, i32, i64, pointer, vector, void
from .values import Value, as_value, body, constant, convert, emit, same_type, truth

__all__ = [
    "across", "address", "atomic_add", "atomic_and", "atomic_load", "atomic_or", "atomic_store", "bitcast", "call",
    "call_external", "cast", "ceil", "compare_exchange", "compress", "copy_bytes", "copysign", "count_true", "ctlz",
    "ctpop", "cttz", "element_address", "exchange", "extract", "fabs", "fence", "fill_bytes", "first_lanes", "floor",
    "fma", "gather", "interleave", "intrinsic", "iota", "lanes_of", "load", "maximum", "minimum", "pause", "prefetch",
    "rint", "select", "shuffle", "splat", "sqrt", "stack", "store", "trunc", "unroll", "zeros",
]  # fmt: skip


def unroll(count: int | Iterable[Any]) -> Iterable[Any]:
    """Repeat a loop's body while the code is translated: over ``range(count)``, or over the items given."""
    return range(count) if isinstance(count, int) else count


def lanes_of(T: Type, size: int = 64) -> int:
    """Return how many elements of a type a vector of ``size`` bytes holds."""
    return max(1, size // T.size)


# ---- memory


def cast(p: Value, type_: Type) -> Value:
    """Return a pointer with another type of elements, or the pointer at an address (an i64)."""
    if p.type.kind == "i":
        return emit(type_, f"inttoptr {p.text} to ptr")
    return Value(type_, p.name)


def address(p: Value) -> Value:
    """Return the address as i64."""
    return emit(i64, f"ptrtoint {p.text} to i64")


def element_address(p: Value, stride: Any, index: Any) -> Value:
    """Return the pointer ``stride * index`` bytes further."""
    offset = (as_value(stride, i64) * as_value(index, i64)).name
    return emit(p.type, f"getelementptr i8, {p.text}, i64 {offset}")


def stack(T: Type, count: int = 1, align: int = 64) -> Value:
    """Return a pointer to memory for ``count`` elements, which the function frees at its end.

    The memory is reserved once for each place in the code, not for each turn of a loop.
    """
    name = body().variable(T, count, align)
    return Value(pointer(T), name)


def _mask_arguments(mask: Value, T: Type, lanes: int) -> tuple[str, str]:
    suffix = f"v{lanes}{'f' if T.kind == 'f' else 'p' if T.kind == 'p' else 'i'}{T.bits}.p0"
    return suffix, f"<{lanes} x i1> {mask.name}"


def load(p: Value, lanes: int, mask: Value | None = None, fill: Any = 0, align: int | None = None) -> Value:
    """Load a vector of consecutive elements; where ``mask`` is False nothing is read and the lane is ``fill``."""
    T = p.type.target
    to = vector(T, lanes)
    align = T.size if align is None else align
    if mask is None:
        return emit(to, f"load {to.ir}, {p.text}, align {align}")
    if lanes == 1:
        raise TypeError("[llvm] a masked load needs a vector.")
    suffix, condition = _mask_arguments(mask, T, lanes)
    body().declare(f"declare {to.ir} @llvm.masked.load.{suffix}(ptr, i32, <{lanes} x i1>, {to.ir})")
    rest = convert(fill, to)
    return emit(to, f"call {to.ir} @llvm.masked.load.{suffix}({p.text}, i32 {align}, {condition}, {rest.text})")


def store(
    p: Value, value: Any, mask: Value | None = None, *, streaming: bool = False, align: int | None = None
) -> None:
    """Store a value or the lanes of a vector; where ``mask`` is False nothing is written.

    ``streaming`` bypasses the caches; the address must then be a multiple of the vector's size.
    """
    T = p.type.target
    value = convert(value, vector(T, value.type.lanes) if isinstance(value, Value) else T)
    align = (T.size * value.type.lanes if streaming else T.size) if align is None else align
    if mask is None:
        hint = ", !nontemporal !{i32 1}" if streaming else ""
        body().write(f"store {value.text}, {p.text}, align {align}{hint}")
        return
    lanes, to = value.type.lanes, value.type
    suffix, condition = _mask_arguments(mask, T, lanes)
    body().declare(f"declare void @llvm.masked.store.{suffix}({to.ir}, ptr, i32, <{lanes} x i1>)")
    body().write(f"call void @llvm.masked.store.{suffix}({value.text}, {p.text}, i32 {align}, {condition})")


def gather(p: Value, indices: Value, mask: Value | None = None, fill: Any = 0) -> Value:
    """Load the elements ``p[indices[k]]`` into the lanes ``k``."""
    T, lanes = p.type.target, indices.type.lanes
    to = vector(T, lanes)
    wide = convert(indices, vector(i64, lanes))
    pointers = emit(vector(pointer(T), lanes), f"getelementptr {T.ir}, {p.text}, {wide.text}")
    mask = constant(vector(i1, lanes), True) if mask is None else mask
    suffix, condition = _mask_arguments(mask, T, lanes)
    suffix = f"{suffix.removesuffix('.p0')}.v{lanes}p0"
    body().declare(f"declare {to.ir} @llvm.masked.gather.{suffix}(<{lanes} x ptr>, i32, <{lanes} x i1>, {to.ir})")
    rest = convert(fill, to)
    operands = f"<{lanes} x ptr> {pointers.name}, i32 {T.size}, {condition}, {rest.text}"
    return emit(to, f"call {to.ir} @llvm.masked.gather.{suffix}({operands})")


def compress(value: Value, mask: Value) -> Value:
    """Move the lanes in which ``mask`` is True to the front, in order; the lanes behind them are undefined."""
    T = value.type
    name = f"llvm.experimental.vector.compress.v{T.lanes}{'f' if T.kind == 'f' else 'i'}{T.bits}"
    body().declare(f"declare {T.ir} @{name}({T.ir}, <{T.lanes} x i1>, {T.ir})")
    return emit(T, f"call {T.ir} @{name}({value.text}, {mask.text}, {T.ir} poison)")


def count_true(mask: Value) -> Value:
    """Count the lanes in which a mask is True, as i64."""
    lanes = mask.type.lanes
    bits = emit(Type(f"u{lanes}", f"i{lanes}", max(1, lanes // 8), "u"), f"bitcast {mask.text} to i{lanes}")
    count = ctpop(bits)
    return emit(i64, f"zext {count.text} to i64") if lanes < 64 else Value(i64, count.name)


def first_lanes(count: Any, lanes: int) -> Value:
    """Return the mask of the first ``count`` lanes; counts beyond the number of lanes give all."""
    count = as_value(count, i64)
    least = minimum(count, lanes)
    return iota(i32, lanes) < splat(i32(least), lanes)


def copy_bytes(to: Value, source: Value, count: Any) -> None:
    """Copy bytes between regions that do not overlap."""
    body().declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    count = as_value(count, i64)
    body().write(f"call void @llvm.memcpy.p0.p0.i64({to.text}, {source.text}, {count.text}, i1 false)")


def fill_bytes(to: Value, value: Any, count: Any) -> None:
    """Set bytes to one value."""
    body().declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    byte, count = convert(value, i8), as_value(count, i64)
    body().write(f"call void @llvm.memset.p0.i64({to.text}, {byte.text}, {count.text}, i1 false)")


def prefetch(p: Value, *, write: bool = False, locality: int = 3) -> None:
    """Bring the cache line at an address closer; the address may be invalid."""
    body().declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    body().write(f"call void @llvm.prefetch.p0({p.text}, i32 {int(write)}, i32 {locality}, i32 1)")


# ---- vectors


def splat(x: Any, lanes: int) -> Value:
    """Return a vector with the value in every lane."""
    x = as_value(x)
    return convert(x, vector(x.type, lanes))


def zeros(T: Type, lanes: int = 1) -> Value:
    """Return zero in every lane."""
    return constant(vector(T, lanes), 0)


def iota(T: Type, lanes: int, start: int = 0) -> Value:
    """Return the vector of ``start, start + 1, ...``."""
    parts = [constant(T, start + k).text for k in range(lanes)]
    return Value(vector(T, lanes), f"<{', '.join(parts)}>" if lanes > 1 else parts[0].split(" ", 1)[1])


def extract(v: Value, lane: Any) -> Value:
    """Return one lane."""
    lane = as_value(lane, i64)
    return emit(v.type.scalar, f"extractelement {v.text}, {lane.text}") if v.type.is_vector else v


def shuffle(a: Value, b: Value, indices: Sequence[int]) -> Value:
    """Return the lanes ``indices`` of the two vectors one after the other; -1 leaves a lane undefined."""
    order = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in indices)
    to = vector(a.type.scalar, len(indices))
    return emit(to, f"shufflevector {a.text}, {b.text}, <{len(indices)} x i32> <{order}>")


def interleave(a: Value, b: Value) -> Value:
    """Return ``a[0], b[0], a[1], b[1], ...``, a vector of twice the lanes."""
    n = a.type.lanes
    return shuffle(a, b, [k // 2 + n * (k % 2) for k in range(2 * n)])


def across(v: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Combine all lanes in a tree: the upper half with the lower half, and so on."""
    if v.type.lanes & (v.type.lanes - 1):
        raise TypeError(f"[llvm] across(v) takes a power of two of lanes, got {v.type}: combine the rest on its own.")
    while v.type.is_vector:
        half = v.type.lanes // 2
        v = (
            combine(shuffle(v, v, range(half)), shuffle(v, v, range(half, 2 * half)))
            if half > 1
            else combine(extract(v, 0), extract(v, 1))
        )
    return v


# ---- choices, bits and mathematics


def select(condition: Any, chosen: Any, otherwise: Any) -> Value:
    """Return ``chosen`` where the condition holds and ``otherwise`` elsewhere; both are computed."""
    condition = truth(condition)
    if isinstance(chosen, Value) or isinstance(otherwise, Value):
        a, b = same_type(chosen, otherwise)
    else:
        a, b = as_value(chosen), as_value(otherwise)
    if condition.type.is_vector and not a.type.is_vector:
        a, b = splat(a, condition.type.lanes), splat(b, condition.type.lanes)
    return emit(a.type, f"select {condition.text}, {a.text}, {b.text}")


def minimum(a: Any, b: Any) -> Value:
    """Return the lesser integer."""
    a, b = same_type(a, b)
    return select(a < b, a, b)


def maximum(a: Any, b: Any) -> Value:
    """Return the greater integer."""
    a, b = same_type(a, b)
    return select(a > b, a, b)


def bitcast(x: Value, T: Type) -> Value:
    """Return the same bits as another type; of a vector, lane by lane if ``T`` is not a vector."""
    to = vector(T, x.type.lanes) if x.type.is_vector and not T.is_vector else T
    return emit(to, f"bitcast {x.text} to {to.ir}") if to.ir != x.type.ir else Value(to, x.name)


def intrinsic(name: str, *operands: Value, result: Type | None = None, extra: str = "", flags: str = "") -> Value:
    """Call LLVM's function ``llvm.<name>``, which is overloaded on the type of the first operand."""
    T = operands[0].type
    to = T if result is None else result
    suffix = ("" if T.lanes == 1 else f"v{T.lanes}") + {"f": "f", "p": "p"}.get(T.kind, "i") + str(T.bits)
    more = f", {extra}" if extra else ""
    kinds = ", ".join([operand.type.ir for operand in operands]) + (f", {extra.split(maxsplit=1)[0]}" if extra else "")
    body().declare(f"declare {to.ir} @llvm.{name}.{suffix}({kinds})")
    values = ", ".join(operand.text for operand in operands)
    return body().value(to, f"call {flags}{to.ir} @llvm.{name}.{suffix}({values}{more})", pure=True)


def _unary(name: str) -> Callable[[Value], Value]:
    def function(x: Value) -> Value:
        return intrinsic(name, x)

    function.__doc__ = f"Return LLVM's ``{name}`` of a float."
    return function


sqrt, floor, ceil, trunc, rint, fabs = map(_unary, ("sqrt", "floor", "ceil", "trunc", "rint", "fabs"))


def fma(a: Any, b: Any, c: Any) -> Value:
    """Return ``a * b + c``, rounded once."""
    return intrinsic("fma", *same_type(a, b, c))


def copysign(magnitude: Any, sign: Any) -> Value:
    """Return the magnitude of one float with the sign of another."""
    return intrinsic("copysign", *same_type(magnitude, sign))


def ctpop(x: Value) -> Value:
    """Count the bits that are 1."""
    return intrinsic("ctpop", x)


def ctlz(x: Value) -> Value:
    """Count the zeros before the first bit that is 1."""
    return intrinsic("ctlz", x, extra="i1 false")


def cttz(x: Value) -> Value:
    """Count the zeros after the last bit that is 1."""
    return intrinsic("cttz", x, extra="i1 false")


# ---- calls


def call(function: Value, *arguments: Any, returns: Type = void) -> Value | None:
    """Call a function by its address; numbers are passed as i64."""
    text = ", ".join(as_value(argument).text for argument in arguments)
    if returns == void:
        body().write(f"call void {function.name}({text})")
        return None
    return emit(returns, f"call {returns.ir} {function.name}({text})")


def call_external(name: str, *arguments: Value, returns: Type) -> Value:
    """Call a function of the C library that images may use (``images.py`` lists them)."""
    kinds = ", ".join(argument.type.ir for argument in arguments)
    body().declare(f"declare {returns.ir} @{name}({kinds})")
    return emit(returns, f"call {returns.ir} @{name}({', '.join(argument.text for argument in arguments)})")


# ---- threads

_ORDERS: Final = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")


def atomic_load(p: Value, order: str = "acquire") -> Value:
    """Load an element that another thread may change."""
    T = p.type.target
    return emit(T, f"load atomic {T.ir}, {p.text} {_order(order)}, align {T.size}")


def atomic_store(p: Value, value: Any, order: str = "release") -> None:
    """Store an element that another thread may read."""
    T = p.type.target
    body().write(f"store atomic {convert(value, T).text}, {p.text} {_order(order)}, align {T.size}")


def _order(order: str) -> str:
    if order not in _ORDERS:
        raise ValueError(f"[llvm] the order of an atomic operation is one of {', '.join(_ORDERS)}, got {order!r}.")
    return order


def _update(operation: str) -> Callable[..., Value]:
    def function(p: Value, value: Any, order: str = "acq_rel") -> Value:
        T = p.type.target
        return emit(T, f"atomicrmw {operation} {p.text}, {convert(value, T).text} {_order(order)}")

    function.__doc__ = f"Apply ``{operation}`` to an element as one step, and return what it was before."
    return function


atomic_add, atomic_and, atomic_or, exchange = map(_update, ("add", "and", "or", "xchg"))


def compare_exchange(p: Value, expected: Any, new: Any, order: str = "acq_rel") -> tuple[Value, Value]:
    """Store ``new`` if the element is ``expected``, as one step; return what it was, and whether it was stored."""
    T = p.type.target
    pair = "%" + body().name()
    operands = f"{p.text}, {convert(expected, T).text}, {convert(new, T).text}"
    body().write(f"{pair} = cmpxchg {operands} {_order(order)} {'seq_cst' if order == 'seq_cst' else 'acquire'}")
    kind = f"{{ {T.ir}, i1 }}"
    return emit(T, f"extractvalue {kind} {pair}, 0"), emit(i1, f"extractvalue {kind} {pair}, 1")


def fence(order: str = "seq_cst") -> None:
    """Order the accesses before against those after."""
    body().write(f"fence {_order(order)}")


def pause() -> None:
    """Tell the processor that the thread waits in a loop."""
    if platform.machine().lower() in ("x86_64", "amd64", "i686"):
        body().declare("declare void @llvm.x86.sse2.pause()")
        body().write("call void @llvm.x86.sse2.pause()")
    elif platform.machine().lower() in ("aarch64", "arm64"):
        body().declare("declare void @llvm.aarch64.hint(i32)")
        body().write("call void @llvm.aarch64.hint(i32 1)")
