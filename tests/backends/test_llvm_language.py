"""The language of loops: what Python means by a function is what its compiled code computes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tenkey.backends.llvm import (
    LoopError,
    across,
    address,
    array,
    atomic_add,
    atomic_load,
    atomic_store,
    b8,
    bf16,
    bitcast,
    call,
    cast,
    compare_exchange,
    compress,
    copysign,
    data,
    element_address,
    extract,
    f32,
    f64,
    first_lanes,
    fma,
    function_pointer,
    gather,
    i8,
    i16,
    i32,
    i64,
    interleave,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    ndim,
    of_dtype,
    pointer,
    select,
    shape,
    shuffle,
    splat,
    sqrt,
    stack,
    static,
    store,
    strides,
    u8,
    u16,
    u32,
    u64,
    unroll,
    void,
    zeros,
)
from tenkey.backends.llvm.array_fields import supported
from tenkey.backends.llvm.compiled import module_text
from tenkey.backends.processor import has_feature

SCALARS = {"i8": i8, "i16": i16, "i32": i32, "i64": i64, "u8": u8, "u16": u16, "u32": u32, "u64": u64}


@loop
def collatz(n: i64) -> i64:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps > 1000:
            break
    return steps


def test_while_if_break() -> None:
    def expected(n: int) -> int:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    function = kernel(collatz)
    assert [function(n) for n in range(1, 60)] == [expected(n) for n in range(1, 60)]
    assert function(0) == 1001


@loop
def odd_sum(n: i64, start: i64, *, STEP: Any = 1) -> i64:
    total = 0
    for i in range(start, n, STEP):
        if i % 2 == 0:
            continue
        for j in range(i):
            if j > 3:
                break
            total += j
        total += i
    return total


@pytest.mark.parametrize("step", [1, 3, -1])
def test_ranges(step: int) -> None:
    def expected(n: int, start: int) -> int:
        total = 0
        for i in range(start, n, step):
            if i % 2 == 0:
                continue
            total += sum(range(min(i, 4))) + i
        return total

    function = kernel(odd_sum, STEP=step)
    for n, start in [(10, 0), (0, 10), (0, 0), (7, 7), (30, 4), (1, 31)]:
        assert function(n, start) == expected(n, start), (n, start)


@loop
def returns_early(x: f64) -> f64:
    if x < 0.0:
        return -x
    if x > 100.0:
        return f64(100)
    return sqrt(x)


def test_return_on_every_branch() -> None:
    function = kernel(returns_early)
    assert [function(x) for x in (-4.0, 9.0, 1e9)] == [4.0, 3.0, 100.0]


@loop(inline=True)
def swapped(pair, combine):
    a, b = pair
    a, b = b, a
    return [combine(a, 1), combine(b, 1)]


@loop
def with_lists(x: pointer(i64), *, N) -> i64:
    items = [x[k] for k in unroll(N)]
    for k in unroll(N):
        items[k] = items[k] * 10
    for k, scale in unroll(enumerate((1, 2))):
        items[k] += scale
    two = swapped(items[0:2], lambda a, b: a + b)
    total: i64 = 0
    for k in unroll(N):
        total += items[k]
    if N > 2:
        factor = static(3)
    else:
        factor = static(1)
    assert factor in (1, 3)
    return total * factor + two[0]


def test_lists_and_inlined_functions() -> None:
    x = np.array([5, 7, 9], np.int64)
    assert kernel(with_lists, N=3)(x.ctypes.data) == (51 + 72 + 90) * 3 + 73
    assert kernel(with_lists, N=2)(x.ctypes.data) == (51 + 72) + 73


@loop
def integers(a: pointer(T), b: pointer(T), out: pointer(T), *, T) -> void:
    x, y = a[0], b[0]
    for k, value in unroll(
        enumerate([
            x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, x << 3, x >> 2, minimum(x, y), maximum(x, y), -x,
            ~x, T(x < y), T(x <= y), T(x == y), T(x != y), T(x > y > 3), T(not x >= y or y == 3), 7 - x,
        ])
    ):  # fmt: skip
        out[k] = value


def test_integers() -> None:
    failures = []
    for name, T in SCALARS.items():
        dtype = np.dtype(name.replace("i", "int").replace("u", "uint"))
        lowest, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        for x in {max(lowest, v) for v in (lowest, -9, -1, 0, 3, 100, greatest)}:
            for y in (1, 3, 7, greatest):
                out = np.zeros(21, dtype)
                a, b = np.array([x], dtype), np.array([y], dtype)
                kernel(integers, T=T)(a.ctypes.data, b.ctypes.data, out.ctypes.data)
                quotient = abs(x) // y * (1 if x >= 0 else -1)
                exact = [
                    x + y, x - y, x * y, quotient, x - quotient * y, x & y, x | y, x ^ y, x << 3, x >> 2, min(x, y),
                    max(x, y), -x, ~x, x < y, x <= y, x == y, x != y, x > y > 3, x < y or y == 3, 7 - x,
                ]  # fmt: skip
                expected = [(int(v) - lowest) % (1 << (8 * dtype.itemsize)) + lowest for v in exact]
                if out.tolist() != expected:
                    failures.append((name, x, y, out.tolist(), expected))
    assert not failures, failures[:3]


@loop
def convert_to(x: pointer(T), out: pointer(U), n: i64, *, T, U, L) -> void:
    for i in range(0, n, L):
        m = first_lanes(n - i, L)
        store(out + i, U(load(x + i, L, mask=m)), mask=m)


NAMES = ["bool", *(n.replace("i", "int").replace("u", "uint") for n in SCALARS), "float16", "float32", "float64"]


def test_conversions() -> None:
    failures = []
    values = [0, 1, 2, 3, 100, 127, 1.5, 2.25, 0.1, 77.7]
    for a in NAMES:
        for b in NAMES:
            x = np.array(values * 2 + values[:3], a)
            out = np.zeros(len(x), b)
            kernel(convert_to, T=of_dtype(x.dtype), U=of_dtype(out.dtype), L=8)(x.ctypes.data, out.ctypes.data, len(x))
            if not np.array_equal(out, x.astype(b)):
                failures.append((a, b, out, x.astype(b)))
    assert not failures, failures[:2]


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 4096, dtype=np.uint32)
    for x in (bits.view(np.float32), rng.normal(size=512).astype(np.float64), np.array([np.nan, np.inf, -0.0, 3.4e38])):
        out = np.zeros(len(x), np.uint16)
        kernel(convert_to, T=of_dtype(x.dtype), U=bf16, L=16)(x.ctypes.data, out.ctypes.data, len(x))
        with np.errstate(all="ignore"):
            expected = x.astype(ml_dtypes.bfloat16)
        nan = np.isnan(x)
        assert np.array_equal(out[~nan], expected.view(np.uint16)[~nan])
        assert np.isnan(out.view(ml_dtypes.bfloat16)[nan].astype(np.float32)).all()
        back = np.zeros(len(x), np.float32)
        kernel(convert_to, T=bf16, U=f32, L=16)(out.ctypes.data, back.ctypes.data, len(x))
        assert np.array_equal(back[~nan], expected[~nan].astype(np.float32))


@loop
def vectors(x: pointer(f32), out: pointer(f32)) -> void:
    v = load(x, 8)
    store(out, shuffle(v, v, [7, 6, 5, 4, 3, 2, 1, 0]))
    store(out + 8, interleave(v, splat(f32(0.5), 8)))
    store(out + 24, gather(x, iota(i64, 8) * 2, first_lanes(3, 8), fill=-1))
    store(out + 32, select(v > 3, v, -v))
    out[40] = across(v, lambda a, b: a + b)
    out[41] = extract(v, 2)
    store(out + 42, fma(v, 2, copysign(f32(1), -v)))
    store(out + 50, bitcast(bitcast(v, u32) | 0x80000000, f32))
    local = stack(f32, 4)
    for k in range(4):
        local[k] = x[k] * 3
    out[58] = local[0] + local[3]
    store(out + 59, f32(load(cast(x, pointer(u8)), 4)))
    out[63] = f32(cast(element_address(x, 8, 3), pointer(f32))[0])


def test_vectors() -> None:
    x = np.arange(16, dtype=np.float32) + 1
    out = np.zeros(64, np.float32)
    kernel(vectors)(x.ctypes.data, out.ctypes.data)
    v = x[:8]
    expected = [
        *v[::-1], *np.stack([v, np.full(8, 0.5)], 1).ravel(), 1, 3, 5, *[-1] * 5, *np.where(v > 3, v, -v), v.sum(), 3,
        *(2 * v - 1), *-v, 3 + 12, *x.view(np.uint8)[:4], 7,
    ]  # fmt: skip
    assert out.tolist() == expected


@loop
def fields(a: array, out: pointer(i64)) -> void:
    out[0] = address(data(a, f32))
    out[1] = ndim(a)
    for i in range(ndim(a)):
        out[2 + i] = shape(a)[i]
        out[5 + i] = strides(a)[i]


def test_fields_of_arrays() -> None:
    assert supported()
    a = np.zeros((4, 5, 6), np.float32)[::-1, ::2, 1:]
    out = np.zeros(8, np.int64)
    kernel(fields)(a, out.ctypes.data)
    assert out.tolist() == [a.ctypes.data, 3, *a.shape, *a.strides]


@loop
def add_one(p: pointer(i8), start: i64, stop: i64) -> void:
    x = cast(p, pointer(i64))
    for i in range(start, stop):
        x[i] += i


@loop
def by_address(x: pointer(i64), n: i64) -> void:
    call(function_pointer(add_one), x, 0, n)


def test_call_by_address() -> None:
    x = np.zeros(5, np.int64)
    kernel(by_address)(x.ctypes.data, 5)
    assert x.tolist() == [0, 1, 2, 3, 4]


@loop
def count_up(p: pointer(i64), n: i64) -> void:
    for _ in range(n):
        atomic_add(p, 1)
        done: b8 = False
        while not done:
            old = atomic_load(p + 1)
            _before, ok = compare_exchange(p + 1, old, old + 2)
            done = b8(ok)
    atomic_store(p + 2, n)


def test_atomic_operations() -> None:
    x = np.zeros(3, np.int64)
    function = kernel(count_up)
    threads = [threading.Thread(target=function, args=(x.ctypes.data, 20000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.tolist() == [80000, 160000, 20000]


@loop
def sum_rows(a: array, out: array, *, T) -> void:
    for r in range(shape(a)[0]):
        row = element_address(data(a, T), strides(a)[0], r)
        total = zeros(T, 16)
        n = shape(a)[1]
        i = 0
        while i < n:
            total += load(row + i, 16, mask=first_lanes(n - i, 16))
            i += 16
        data(out, T)[r] = across(total, lambda x, y: x + y)


def test_arrays_as_arguments() -> None:
    for n in (0, 1, 15, 16, 17, 100):
        a = np.random.default_rng(n).normal(size=(7, n))
        out = np.full(7, np.nan)
        kernel(sum_rows, T=f64)(a, out)
        np.testing.assert_allclose(out, a.sum(1), rtol=1e-12)
    with pytest.raises(TypeError):
        kernel(sum_rows, T=f64)(a)


class TestMistakes:
    def test_types_differ(self) -> None:
        @loop
        def wrong(a: i64, b: f32) -> f32:
            return b + a

        with pytest.raises(LoopError, match=r"test_llvm_language\.py:\d+: \[wrong\].*types f32, i64: convert"):
            module_text(wrong)

    def test_variable_of_unknown_type(self) -> None:
        @loop
        def wrong(n: i64) -> f64:
            total = 0.5
            total += 1
            return total

        with pytest.raises(LoopError, match="state its type"):
            module_text(wrong)

    def test_unknown_name_and_static(self) -> None:
        @loop
        def wrong(n: i64) -> i64:
            return n + missing

        with pytest.raises(LoopError, match="the name missing is not defined"):
            module_text(wrong)
        with pytest.raises(LoopError, match="no static K"):
            module_text(wrong, K=1)
        with pytest.raises(LoopError, match=r"needs the static T"):
            module_text(sum_rows)

    def test_truth_of_a_value_in_a_python_function(self) -> None:
        def macro(x: Any) -> Any:
            return x if x > 0 else -x

        @loop
        def wrong(n: i64) -> i64:
            return macro(n)

        with pytest.raises(LoopError, match="not known while code is translated"):
            module_text(wrong)

    def test_statements_outside_the_language(self) -> None:
        @loop
        def wrong(n: i64) -> i64:
            with n:
                return n

        with pytest.raises(LoopError, match="With is not part of the language"):
            module_text(wrong)

    def test_what_would_be_ignored_is_refused(self) -> None:
        """Parts of statements that Python has and the language has not."""

        @loop
        def loop_with_else(n: i64) -> void:
            for k in range(n):
                if k == 3:
                    break
            else:
                n = 0

        @loop
        def break_while_unrolling(n: i64) -> void:
            while n > 0:
                for k in unroll(3):
                    if n == k:
                        break
                n -= 1

        @loop
        def format_of_a_number(n: i64, *, K: Any) -> i64:
            return n + len(f"{K:04d}")

        @loop
        def lanes_without_a_half(p: pointer(f64)) -> f64:
            return across(load(p, 3), maximum)

        for template, statics, words in (
            (lanes_without_a_half, {}, "takes a power of two of lanes"),
            (loop_with_else, {}, "a loop has no else"),
            (break_while_unrolling, {}, "break and continue belong into range and while loops"),
            (format_of_a_number, {"K": 3}, "has no formats"),
        ):
            with pytest.raises(LoopError, match=rf"\[{template.__name__}\].*{words}"):
                module_text(template, **statics)


@loop
def front(source: pointer(i32), target: pointer(i32), *, LANES: Any) -> void:
    values = load(source, LANES)
    store(target, compress(values, values > 0), first_lanes(2, LANES))


def test_compress() -> None:
    source, target = np.array([-1, 5, 0, 7, -2, -3, -4, 0], np.int32), np.zeros(8, np.int32)
    kernel(front, LANES=8)(source.ctypes.data, target.ctypes.data)
    assert target.tolist() == [5, 7, 0, 0, 0, 0, 0, 0]


def _product_and_sum(a: f64, b: f64, c: f64) -> f64:
    return a * b + c


@pytest.mark.skipif(not has_feature("fma"), reason="fused operations need a processor that has them")
def test_fused_operations() -> None:
    a, b = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    assert kernel(loop(contract=False)(_product_and_sum))(a, b, -1.0) == 0.0  # the product is rounded to 1
    assert kernel(loop(_product_and_sum))(a, b, -1.0) == -(2.0**-60)


# fmt: off
@loop(
    brief=True,
)
def _brief_sum(
    x: array, *, T: Any,
) -> T:
    p = data(x, T)
# a comment before the margin
    total = T(0)

    for i in range(shape(x)[0]):
        total += p[i]
    return total
# fmt: on


@loop(brief=True, cold=True)
def _cold_sum(x: array, *, T: Any) -> T:
    total = _cold_part(data(x, T), 0, shape(x)[0] // 2, T=T)
    total += _cold_part(data(x, T), shape(x)[0] // 2, shape(x)[0], T=T)
    return total


@loop(cold=True)
def _cold_part(p: pointer(T), start: i64, stop: i64, *, T: Any) -> T:
    total = across(splat(T(0), 8), lambda a, b: a + b)
    for i in range(start, stop):
        total += p[i]
    return total


@loop(cold=True)
def _cold_and_optimized(x: array, *, T: Any) -> T:
    return _cold_part(data(x, T), 0, shape(x)[0], T=T)


@pytest.mark.parametrize("template", [_brief_sum, _cold_sum, _cold_and_optimized])
def test_kernels_that_are_compiled_quickly(template: Any) -> None:
    assert kernel(template, T=f64)(np.arange(11.0)) == 55.0


@loop
def _repeated(x: f64, n: i64) -> f64:
    first = sqrt(x * x + 1.0)
    if n > 0:
        second = sqrt(x * x + 1.0) + x * 3.0  # of which x * 3.0 is not computed for all n
    else:
        second = x * 5.0
    total = first - first
    for _ in range(n):
        total += x * 3.0
    return total + second + x * 3.0 + x * 5.0


def test_instructions_are_written_once() -> None:
    """What was computed on every way to a place is not computed again; what was not, is."""
    text = module_text(_repeated)
    assert text.count("@llvm.sqrt.f64(") == 2  # its declaration, and a call
    assert text.count("fmul contract double %p0, %p0") == 1
    assert text.count("%p0, 0x4008000000000000") == 3  # x * 3.0: on a branch, in the loop, behind it
    x = 0.75
    for n in (-1, 0, 2):
        second = np.sqrt(x * x + 1) + x * 3 if n > 0 else x * 5
        assert kernel(_repeated)(x, n) == pytest.approx(max(n, 0) * x * 3 + second + x * 3 + x * 5, rel=1e-15)


@loop
def _reads(x: array) -> i64:
    p = data(x, i64)
    before = p[0]
    p[0] = before + 1
    return p[0] * 10 + before


def test_memory_is_read_again() -> None:
    a = np.array([4])
    assert kernel(_reads)(a) == 54
