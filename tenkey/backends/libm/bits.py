"""Numba intrinsics beneath the scalar functions: bit casts, single LLVM operations, Horner's rule, a rare slow path.

This is the only module of the package that imports numba. The scalar functions use nothing but arithmetic,
comparisons, integer operations and the names exported here.

Note [Select, not branch]
-------------------------
A conditional expression in Numba becomes a branch, a block and a phi node, which cost compile time, and LLVM vectorises
the loop only if it can undo every one of them. `llvm_select` is LLVM's `select` directly. The order of its operands
matters: `llvm_select(x > LIMIT, LIMIT, x)` is one `minps` instruction and keeps a NaN in `x`.
Guard: `tests/backends/test_libm.py::test_loops_are_vectorised`.

Note [Rare slow path]
---------------------
Reducing a huge argument modulo pi takes far more work than the rest of a sine, and huge arguments are rare. A branch
would prevent vectorisation. `library_sin(x, limit)` therefore calls a small function that has vector variants
(LLVM's `vector-function-abi-variant` attribute): the loop vectoriser calls the variant of its width, which tests
whether *any* lane is beyond the limit and only then walks over the lanes and asks the C library, whose reduction is
exact. The usual cost is one call for every vector. Where no variant fits, the loop is merely not vectorised.
`library_fmod(rest, x, y)` does the same for the remainder of huge quotients: an infinite `rest` asks the C library.
Guard: `tests/backends/test_libm.py::test_huge_angles`, `test_huge_quotients`, `test_loops_are_vectorised`.

Note [Large ufunc bodies]
-------------------------
`numba.vectorize` compiles the element-wise function separately and relies on LLVM's inliner to bring it into the loop.
A body with two or three transcendental functions, or one `pow`, exceeds the inliner's threshold: the loop then calls a
scalar function and runs ten times slower. The statement `always_inline()` in that body forces the inlining. An explicit
loop in `njit` does not need it (and must not have it: the loop itself would be copied into its wrappers).
Guard: `tests/backends/test_libm.py::test_large_ufunc_bodies_are_inlined`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "DEFINITIONS", "always_inline", "bits_from_float32", "bits_from_float64", "float32_from_bits", "float64_from_bits",
    "horner", "library_cos", "library_fmod", "library_sin", "library_tan", "llvm_ceil", "llvm_copysign", "llvm_fabs",
    "llvm_floor", "llvm_fma", "llvm_rint", "llvm_select", "llvm_sqrt", "llvm_trunc",
]  # fmt: skip

_Lowering = tuple[Any, Callable[..., Any]]
# LLVM 16 renamed the attribute; Numba 0.61 brings LLVM 15.
_NO_MEMORY = "memory(none)" if binding.llvm_version_info >= (16,) else "readnone"

_FLOAT, _DOUBLE, _I32, _I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)


def _to_bits(float_type: Any, int_type: Any, llvm_int: Any) -> Callable[[Any, Any], _Lowering | None]:
    def define(typing_context: Any, x: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            return builder.bitcast(arguments[0], llvm_int)

        return (int_type(float_type), generate) if x == float_type else None

    return define


def _from_bits(float_type: Any, llvm_int: Any, llvm_float: Any) -> Callable[[Any, Any], _Lowering | None]:
    def define(typing_context: Any, bits: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            value = arguments[0]
            # Numba widens int32 arithmetic to int64; LLVM narrows it again once the result is truncated here.
            if value.type.width > llvm_int.width:
                value = builder.trunc(value, llvm_int)
            elif value.type.width < llvm_int.width:
                value = builder.sext(value, llvm_int)
            return builder.bitcast(value, llvm_float)

        return (float_type(bits), generate) if isinstance(bits, types.Integer) else None

    return define


def _select(typing_context: Any, condition: Any, chosen: Any, otherwise: Any) -> _Lowering | None:
    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        return builder.select(*arguments)

    if condition != types.boolean or chosen != otherwise:
        return None
    return chosen(condition, chosen, otherwise), generate


def _llvm_function(name: str, arity: int) -> Callable[..., _Lowering | None]:
    def lowering(arguments: tuple[Any, ...]) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            element = values[0].type
            function_type = ir.FunctionType(element, [element] * arity)
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [element], function_type), values)

        if not all(argument == arguments[0] and isinstance(argument, types.Float) for argument in arguments):
            return None
        return arguments[0](*arguments), generate

    # Numba takes the arity of an intrinsic from its signature, so each arity is spelled out.
    def unary(typing_context: Any, x: Any) -> _Lowering | None:
        return lowering((x,))

    def binary(typing_context: Any, x: Any, y: Any) -> _Lowering | None:
        return lowering((x, y))

    def ternary(typing_context: Any, x: Any, y: Any, z: Any) -> _Lowering | None:
        return lowering((x, y, z))

    return (unary, binary, ternary)[arity - 1]


def _always_inline(typing_context: Any) -> _Lowering:
    """Mark the compiled function that contains the call: see Note [Large ufunc bodies]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        builder.function.attributes.add("alwaysinline")
        return context.get_dummy_value()

    return types.none(), generate


def _horner(typing_context: Any, x: Any, coefficients: Any) -> _Lowering | None:
    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        value, packed = arguments
        terms = [builder.extract_value(packed, index) for index in range(coefficients.count)]
        result = terms.pop()
        while terms:
            # A polynomial gains from fused multiply-add and depends on no rounding: contraction is always safe.
            product = builder.fmul(result, value, flags=("contract",))
            result = builder.fadd(product, terms.pop(), flags=("contract",))
        return result

    if not isinstance(coefficients, types.UniTuple) or coefficients.dtype != x:
        return None
    return x(x, coefficients), generate


def _mark_pure(function: Any) -> None:
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    # llvmlite checks attribute names against a list that lacks these two; the vectoriser needs them.
    set.add(function.attributes, _NO_MEMORY)
    set.add(function.attributes, "willreturn")


def _magnitude(builder: Any, x: Any) -> Any:
    if not hasattr(x.type, "count"):
        return builder.call(builder.module.declare_intrinsic("llvm.fabs", [x.type]), [x])
    name = f"llvm.fabs.v{x.type.count}f{32 if x.type.element == _FLOAT else 64}"
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, ir.FunctionType(x.type, [x.type]), name), [x])


class _RareCase(NamedTuple):
    """A function of `arity` arguments that is its first argument unless `asks` holds; then it is `answer`."""

    name: str
    arity: int
    asks: Callable[[Any, Sequence[Any]], Any]  # builder, scalars or vectors -> condition or vector of conditions
    answer: Callable[[Any, Sequence[Any]], Any]  # builder, scalars -> scalar


def _define_scalar(module: Any, case: _RareCase, element: Any, name: str) -> Any:
    function = ir.Function(module, ir.FunctionType(element, [element] * case.arity), name)
    function.linkage = "linkonce_odr"
    _mark_pure(function)
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    with builder.if_then(case.asks(builder, function.args), likely=False):
        builder.ret(case.answer(builder, function.args))
    builder.ret(function.args[0])
    return function


def _define_vector(module: Any, case: _RareCase, scalar: Any, width: int) -> Any:
    """Define the variant of `scalar` for `width` lanes; it returns its first argument at once unless some lane asks."""
    vector = ir.VectorType(scalar.args[0].type, width)
    function = ir.Function(module, ir.FunctionType(vector, [vector] * case.arity), f"{scalar.name}_{width}")
    # Nothing refers to the variants before the vectoriser runs; `weak_odr` keeps them until then.
    function.linkage = "weak_odr"
    _mark_pure(function)
    first = function.args[0]
    entry, loop, fast, done = (function.append_basic_block(name) for name in ("entry", "loop", "fast", "done"))
    builder: Any = ir.IRBuilder(entry)
    mask = builder.bitcast(case.asks(builder, function.args), ir.IntType(width))
    builder.cbranch(builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0)), loop, fast)
    builder.position_at_end(fast)
    builder.ret(first)
    builder.position_at_end(loop)
    lane, partial = builder.phi(_I32, "lane"), builder.phi(vector, "partial")
    value = builder.call(scalar, [builder.extract_element(argument, lane) for argument in function.args])
    result, following = builder.insert_element(partial, value, lane), builder.add(lane, ir.Constant(_I32, 1))
    for phi, initial, later in ((lane, ir.Constant(_I32, 0), following), (partial, first, result)):
        phi.add_incoming(initial, entry)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(_I32, width)), loop, done)
    builder.position_at_end(done)
    builder.ret(result)
    return function


def _call_rare(builder: Any, case: _RareCase, arguments: Sequence[Any]) -> Any:
    """Emit a call of `case` that the loop vectoriser can replace; see Note [Rare slow path]."""
    module, element = builder.module, arguments[0].type
    suffix, widths = ("float32", (4, 8, 16)) if element == _FLOAT else ("float64", (2, 4, 8))
    name = f"tenkey_library_{case.name}_{suffix}"
    scalar = module.globals.get(name)
    if scalar is None:
        scalar = _define_scalar(module, case, element, name)
        for width in widths:
            _define_vector(module, case, scalar, width)
    kinds = "v" * case.arity
    variants = ",".join(f"_ZGV_LLVM_N{width}{kinds}_{name}({name}_{width})" for width in widths)
    call = builder.call(scalar, arguments)
    set.add(call.attributes, f'"vector-function-abi-variant"="{variants}"')
    return call


def _library(name: str) -> Callable[[Any, Any, Any], _Lowering | None]:
    """Define `f(x, limit)`: the C library's function where `|x| > limit`, otherwise `x`."""

    def beyond(builder: Any, arguments: Sequence[Any]) -> Any:
        x, limit = arguments
        return builder.fcmp_ordered(">", _magnitude(builder, x), limit)

    def ask(builder: Any, arguments: Sequence[Any]) -> Any:
        module, element = builder.module, arguments[0].type
        library_name = f"{name}f" if element == _FLOAT else name
        library = module.globals.get(library_name)
        library = library or ir.Function(module, ir.FunctionType(element, [element]), library_name)
        return builder.call(library, [arguments[0]])

    case = _RareCase(name, 2, beyond, ask)

    def define(typing_context: Any, x: Any, limit: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            return _call_rare(builder, case, arguments)

        return (x(x, limit), generate) if x == limit and isinstance(x, types.Float) else None

    return define


def _is_infinite(builder: Any, arguments: Sequence[Any]) -> Any:
    rest = arguments[0]
    element = getattr(rest.type, "element", rest.type)
    infinity = ir.Constant(element, float("inf"))
    if rest.type != element:
        infinity = ir.Constant(rest.type, [infinity] * rest.type.count)
    return builder.fcmp_ordered("==", _magnitude(builder, rest), infinity)


def _remainder(builder: Any, arguments: Sequence[Any]) -> Any:
    return builder.frem(*arguments[1:])  # LLVM turns it into a call of the C library's fmod


_FMOD = _RareCase("fmod", 3, _is_infinite, _remainder)


def _library_fmod(typing_context: Any, rest: Any, x: Any, y: Any) -> _Lowering | None:
    """Define `library_fmod(rest, x, y)`: fmod(x, y) where `rest` is infinite, otherwise `rest`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        return _call_rare(builder, _FMOD, arguments)

    return (rest(rest, x, y), generate) if rest == x == y and isinstance(rest, types.Float) else None


DEFINITIONS: dict[str, Callable[..., Any]] = {}
"""Typing functions by name, for a target with an `intrinsic` decorator of its own (CUDA; it lacks `library_*`)."""


def _intrinsic(name: str, definition: Callable[..., Any]) -> Any:
    DEFINITIONS[name] = definition
    return intrinsic(definition)


always_inline = _intrinsic("always_inline", _always_inline)
bits_from_float32 = _intrinsic("bits_from_float32", _to_bits(types.float32, types.int32, _I32))
bits_from_float64 = _intrinsic("bits_from_float64", _to_bits(types.float64, types.int64, _I64))
float32_from_bits = _intrinsic("float32_from_bits", _from_bits(types.float32, _I32, _FLOAT))
float64_from_bits = _intrinsic("float64_from_bits", _from_bits(types.float64, _I64, _DOUBLE))
horner = _intrinsic("horner", _horner)
library_cos = _intrinsic("library_cos", _library("cos"))
library_fmod = _intrinsic("library_fmod", _library_fmod)
library_sin = _intrinsic("library_sin", _library("sin"))
library_tan = _intrinsic("library_tan", _library("tan"))
llvm_ceil = _intrinsic("llvm_ceil", _llvm_function("ceil", 1))
llvm_copysign = _intrinsic("llvm_copysign", _llvm_function("copysign", 2))
llvm_fabs = _intrinsic("llvm_fabs", _llvm_function("fabs", 1))
llvm_floor = _intrinsic("llvm_floor", _llvm_function("floor", 1))
llvm_fma = _intrinsic("llvm_fma", _llvm_function("fma", 3))
llvm_rint = _intrinsic("llvm_rint", _llvm_function("rint", 1))
llvm_select = _intrinsic("llvm_select", _select)
llvm_sqrt = _intrinsic("llvm_sqrt", _llvm_function("sqrt", 1))
llvm_trunc = _intrinsic("llvm_trunc", _llvm_function("trunc", 1))
