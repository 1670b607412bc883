"""The templates, called through the interface with windows that operators do not make, against NumPy.

A template that the backend does not have is skipped, and so is one that declines these functions and dtypes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import Operand, ScalarFunction, StridedArray
from tenkey.library import scalar as s
from tenkey.testing.backend.compare import close
from tenkey.testing.backend.plugin import Subject

A, B, C = map(s.variable, "abc")
F32, I64 = np.dtype("float32"), np.dtype("int64")
NAN = float("nan")
PAIRS = ("a0", "a1", "b0", "b1")  # variables of functions that combine pairs
CODE = 41  # what a kernel stores for an index out of range


def made(subject: Subject, template: str, *arguments: Any) -> Callable[..., None]:
    """Return a kernel of a template, or skip the test."""
    if getattr(type(subject.backend), template) is getattr(tk.backends.Backend, template):
        pytest.skip(f"the backend has no template {template}")
    try:
        kernel = getattr(subject.backend, template)(*arguments)
    except NotImplementedError:
        kernel = None
    if kernel is None:
        pytest.skip(f"the template {template} declines {', '.join(map(str, arguments))}")
    return kernel  # type: ignore[no-any-return]


class Window:
    """A window of any strides and offset on a device, in memory whose other elements must not change."""

    def __init__(self, subject: Subject, values: np.ndarray, steps: Sequence[int] | None = None, start: int = 2):
        shape = values.shape
        if steps is None:
            steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        low = sum((n - 1) * min(step, 0) for n, step in zip(shape, steps, strict=True))
        high = sum((n - 1) * max(step, 0) for n, step in zip(shape, steps, strict=True))
        self.start = start - low
        self.steps, self.shape, self.size = tuple(steps), shape, values.itemsize
        self.around = np.full(self.start + high + 3, 99).astype(values.dtype)
        self.inside(self.around)[...] = values
        self.tensor = tk.tensor(self.around, device=subject.name)
        self.data: StridedArray = self.tensor.array.window(
            shape, tuple(step * self.size for step in steps), self.tensor.array.offset + self.start * self.size
        )

    def inside(self, memory: np.ndarray) -> np.ndarray:
        """Return the window on an array of the whole memory."""
        strides = tuple(step * self.size for step in self.steps)
        return np.ndarray(self.shape, memory.dtype, memory.data, self.start * self.size, strides)

    def check(self, want: Any, what: str, **options: Any) -> None:
        """Raise AssertionError unless the window has these values and the memory around it is unchanged."""
        now = np.array(self.tensor.numpy())
        got = np.array(self.inside(now))
        close(got, np.broadcast_to(np.asarray(want, got.dtype), got.shape), what, **options)
        expected = self.around.copy()
        self.inside(expected)[...] = got
        np.testing.assert_array_equal(now, expected, f"{what}: memory around the window was written")


def written(subject: Subject, kernel: Callable[..., None], start: np.ndarray, *operands: Any) -> Window:
    """Call a kernel with arrays and windows as operands; return the window, at first of ``start``, that it writes."""
    out, *given = [Window(subject, one) if isinstance(one, np.ndarray) else one for one in (start, *operands)]
    kernel(*[one.data if isinstance(one, Window) else one for one in (out, *given)])
    return out


def rows(*shape: int, dtype: Any = F32, seed: int = 0) -> np.ndarray:
    """Return small whole numbers in random order."""
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(dtype)


LAYOUTS_2D = {"packed": None, "transposed": (1, 9), "gaps": (31, 3), "broadcast rows": (0, 2), "backwards": (-11, -2)}


class TestPointwise:
    @pytest.mark.parametrize("layout", LAYOUTS_2D)
    def test_windows(self, subject: Subject, layout: str) -> None:
        """Test operands with gaps, offsets, steps of 0 and negative steps."""
        function = ScalarFunction("suite", ("a", "b", "c"), A * B - C, F32)
        operands = (Operand("a", F32), Operand("b", F32), Operand("c", F32, True))
        kernel = made(subject, "pointwise", function, operands, F32)
        a = rows(4, 5)
        a = np.broadcast_to(a[:1], (4, 5)) if layout == "broadcast rows" else a
        left = Window(subject, a, LAYOUTS_2D[layout] if layout != "transposed" else (1, 4), start=5)
        right = Window(subject, np.broadcast_to(rows(4, 1, seed=1), (4, 5)), (3, 0))
        out = Window(subject, np.zeros((4, 5), F32), (20, 3), start=7)
        kernel(out.data, left.data, right.data, np.float32(0.5))
        out.check(a * rows(4, 1, seed=1) - np.float32(0.5), f"pointwise, {layout}")

    def test_dimensions_and_in_place(self, subject: Subject) -> None:
        function = ScalarFunction("suite", ("a",), A * 2 + 1, F32)
        kernel = made(subject, "pointwise", function, (Operand("a", F32),), F32)
        for shape in ((1,), (7,), (2, 3), (2, 1, 3), (2, 3, 2, 3), (2, 1, 2, 2, 3)):
            values = rows(*shape)
            steps = [int(np.prod([n + 1 for n in shape[i + 1 :]])) for i in range(len(shape))]
            out, x = Window(subject, np.zeros(shape, F32), steps), Window(subject, values)
            kernel(out.data, x.data)
            out.check(values * 2 + 1, f"pointwise, {len(shape)} dimensions")
            x.check(values, "an operand")
            kernel(x.data, x.data)
            x.check(values * 2 + 1, f"pointwise in place, {len(shape)} dimensions")

    def test_dtypes_of_operands(self, subject: Subject) -> None:
        function = ScalarFunction("suite", ("a", "b"), s.where(A > B, A, B + 1), F32)
        for dtypes in ("uint8 int64 float32", "float32 bool int32", "int16 float32 bool"):
            left, right, result = dtypes.split()
            operands = (Operand("a", np.dtype(left)), Operand("b", np.dtype(right)))
            kernel = made(subject, "pointwise", function, operands, np.dtype(result))
            a, b = np.array([0, 1, 5, 200]).astype(left), np.array([0, 3, 1, 1]).astype(right)
            out = written(subject, kernel, np.zeros(4, result), a, b)
            x, y = a.astype(F32), b.astype(F32)
            out.check(np.where(x > y, x, y + 1).astype(result), f"pointwise of {left} and {right} to {result}")


class TestReduction:
    @pytest.mark.parametrize("layout", LAYOUTS_2D)
    def test_windows(self, subject: Subject, layout: str) -> None:
        total = ScalarFunction("suite combine", ("a", "b"), A + B, F32)
        square = ScalarFunction("suite map", ("a",), A * A, F32)
        kernel = made(subject, "reduction", total, square, I64, 0)
        values = rows(9, 7, dtype=I64)
        values = np.broadcast_to(values[:1], (9, 7)) if layout == "broadcast rows" else values
        steps = {"gaps": (31, 3), "backwards": (-15, -2)}.get(layout, LAYOUTS_2D[layout])
        x = Window(subject, values, steps)
        out = Window(subject, np.full(9, NAN, F32))
        kernel(out.data, x.data)
        out.check((values**2).sum(1), f"reduction, {layout}", ulps=0)
        x.check(values, "the operand")

    @pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (1, 5003), (5003, 1), (300, 17), (17, 300), (2, 7001)])
    def test_sizes(self, subject: Subject, shape: tuple[int, int]) -> None:
        same, x = ScalarFunction("suite same", ("a",), A, F32), rows(*shape) - 100
        for name, combine, identity, want in (
            ("sum", A + B, 0, x.sum(1, np.float64)), ("max", s.maximum(A, B), -np.inf, x.max(1)),
            ("max without an identity", s.maximum(A, B), None, x.max(1)),
        ):  # fmt: skip
            function = ScalarFunction(f"suite {name}", ("a", "b"), combine, F32)
            kernel = made(subject, "reduction", function, same, F32, identity)
            written(subject, kernel, np.zeros(shape[0], F32), x).check(want, f"{name} of {shape}", ulps=0)
        greatest = ScalarFunction("suite max", ("a", "b"), s.maximum(A, B), F32)
        kernel = made(subject, "reduction", greatest, same, F32, None)
        for place in {0, shape[1] // 2, shape[1] - 1}:
            x = rows(*shape)
            x[:, place] = NAN
            out = written(subject, kernel, np.zeros(shape[0], F32), x)
            out.check(np.full(shape[0], NAN), f"max of {shape} with NaN at {place}")


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (1, 5003), (300, 17), (2, 260)])
def test_arg_reduction(subject: Subject, shape: tuple[int, int]) -> None:
    """Test conditions of the suite's own: the smallest size, and NaN as the best."""
    smallest = ScalarFunction("suite smallest size", ("a", "b"), abs(A) < abs(B), F32)
    kernel = made(subject, "arg_reduction", smallest, F32)
    x, none = rows(*shape), np.full(shape[0], -1, I64)
    for steps in (None, (1, shape[0]), (2 * shape[1] + 1, 2)):
        out = written(subject, kernel, none, Window(subject, x, steps))
        out.check(np.argmin(np.abs(x), 1), f"the first of the smallest sizes of {shape}")
    better = ScalarFunction("suite greatest", ("a", "b"), s.where(s.isnan(A), ~s.isnan(B), A > B), F32)
    kernel = made(subject, "arg_reduction", better, F32)
    for at, again in {(0, shape[1] - 1), (shape[1] // 2, shape[1] - 1), (shape[1] - 1, shape[1] - 1)}:
        x = rows(*shape)
        x[:, [at, again]] = NAN
        written(subject, kernel, none, x).check(np.full(shape[0], at), f"the first NaN of {shape}")
    for dtype in ("int64", "uint64"):
        greatest = ScalarFunction("suite greatest", ("a", "b"), A > B, np.dtype(dtype))
        kernel = made(subject, "arg_reduction", greatest, np.dtype(dtype))
        values = np.full(shape, np.iinfo(dtype).max - 5, dtype)
        values[:, -1] += 1
        out = written(subject, kernel, none, values)
        out.check(np.full(shape[0], shape[1] - 1), f"the greatest {dtype} of {shape}, by 1")


class TestScan:
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("shape", [(1, 1), (3, 2), (1, 1000), (70, 17), (2, 65)])
    def test_one_part(self, subject: Subject, shape: tuple[int, int], reverse: bool) -> None:
        """Test sums, and a combination that is not commutative: the last element that is not 0."""
        total = ScalarFunction("suite sum", ("a", "b"), A + B, F32)
        last = ScalarFunction("suite last", ("a", "b"), s.where(B == 0, A, B), F32)
        for function in (total, last):
            kernel = made(subject, "scan", (function,), F32)
            x = rows(*shape)
            ordered = x[:, ::-1] if reverse else x
            want = ordered.copy()
            for k in range(1, shape[1]):
                a, b = want[:, k - 1], ordered[:, k]
                want[:, k] = a + b if function is total else np.where(b == 0, a, b)
            for steps in (None, (1, shape[0]), (2 * shape[1] + 1, 2)):
                out, operand = Window(subject, np.full(shape, NAN, F32)), Window(subject, x, steps)
                kernel((out.data,), (operand.data,), reverse)
                out.check(want[:, ::-1] if reverse else want, f"{function.name}, reverse={reverse}", ulps=0)
                operand.check(x, "the operand")

    @pytest.mark.parametrize("reverse", [False, True])
    def test_two_parts(self, subject: Subject, reverse: bool) -> None:
        """Test a linear recurrence, whose elements are pairs: (a0, a1) then (b0, b1) is (a0 * b0, b0 * a1 + b1)."""
        a0, a1, b0, b1 = map(s.variable, PAIRS)
        combine = (ScalarFunction("suite", PAIRS, a0 * b0, F32), ScalarFunction("suite", PAIRS, b0 * a1 + b1, F32))
        kernel = made(subject, "scan", combine, F32)
        for shape in ((1, 1), (3, 40), (1, 300)):
            factor = np.where(rows(*shape) > 0, 1, -1).astype(F32)
            term = rows(*shape, seed=1)
            outs = [Window(subject, np.zeros(shape, F32)) for _ in range(2)]
            kernel(tuple(one.data for one in outs), tuple(Window(subject, x).data for x in (factor, term)), reverse)
            state, product = np.zeros(shape[0], F32), np.ones(shape[0], F32)
            want = np.zeros((2, *shape), F32)
            for k in range(shape[1])[:: -1 if reverse else 1]:
                state = factor[:, k] * state + term[:, k]
                product = product * factor[:, k]
                want[:, :, k] = product, state
            for out, values in zip(outs, want, strict=True):
                out.check(values, f"a linear recurrence of {shape}, reverse={reverse}", ulps=0)

    def test_parts_that_need_each_other(self, subject: Subject) -> None:
        """Test products of complex numbers, whose parts both need the parts of before."""
        a0, a1, b0, b1 = map(s.variable, PAIRS)
        real = ScalarFunction("suite", PAIRS, a0 * b0 - a1 * b1, F32)
        kernel = made(subject, "scan", (real, ScalarFunction("suite", PAIRS, a0 * b1 + a1 * b0, F32)), F32)
        numbers = np.array([1, 1j, -1, -1j, 1 + 1j, 0.5 - 0.5j])[rows(3, 40, dtype=I64) % 6]
        outs = [Window(subject, np.zeros((3, 40), F32)) for _ in range(2)]
        parts = [Window(subject, part.astype(F32)) for part in (numbers.real, numbers.imag)]
        kernel(tuple(one.data for one in outs), tuple(one.data for one in parts), False)
        want = np.cumprod(numbers, axis=1)
        for out, values in zip(outs, (want.real, want.imag), strict=True):
            out.check(values, "a product of complex numbers", ulps=0)


class TestGatherAndScatter:
    @pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
    def test_gather(self, subject: Subject, dtype: str) -> None:
        kernel = made(subject, "gather", np.dtype(dtype))
        for outer, n, inner, count in ((1, 5, 1, 9), (3, 4, 2, 5), (2, 1, 3, 1), (1, 300, 2, 700)):
            x = rows(outer, n, inner, dtype=dtype)
            index = np.random.default_rng(1).integers(0, n, (outer, count, inner))
            for steps in (None, (1, outer, outer * n)):
                out = Window(subject, np.zeros((outer, count, inner), dtype))
                error = Window(subject, np.zeros(1, I64))
                swapped = None if steps is None else (1, outer, outer * count)
                kernel(out.data, Window(subject, x, steps).data, Window(subject, index, swapped).data, error.data, CODE)
                out.check(np.take_along_axis(x, index, 1), "gather")
                error.check([0], "the error word of gather")
        spread = np.array([3, 0, 0, 2]).reshape(1, 4, 1)
        x = rows(3, 4, 2, dtype=dtype)
        places = Window(subject, np.broadcast_to(spread, (3, 4, 2)), (0, 3, 0))
        out = written(subject, kernel, np.zeros((3, 4, 2), dtype), x, places, np.zeros(1, I64), CODE)
        out.check(x[:, spread[0, :, 0]], "gather, an index that is broadcast")

    @pytest.mark.parametrize("wrong", [-1, 4, 5, 2**31, 2**32, -(2**32), 2**62, -(2**63)])
    def test_indices_out_of_range(self, subject: Subject, wrong: int) -> None:
        x = rows(2, 4, 3) + 50
        index = np.array([0, 3, wrong, 1])
        spread = np.broadcast_to(index.reshape(1, 4, 1), (2, 4, 3)).copy()
        kernel = made(subject, "gather", F32)
        out, error = Window(subject, np.full((2, 4, 3), 7, F32)), Window(subject, np.zeros(1, I64))
        kernel(out.data, Window(subject, x).data, Window(subject, spread).data, error.data, CODE)
        error.check([CODE], f"the error word of gather for the index {wrong} of 4 elements")
        want = x[:, [0, 3, 0, 1]]
        want[:, 2] = 0
        out.check(want, f"gather with the index {wrong} of 4 elements")

    @pytest.mark.parametrize("wrong", [-1, 4, 2**32, -(2**63)])
    def test_places_out_of_range(self, subject: Subject, wrong: int) -> None:
        x = rows(2, 4, 3) + 50
        spread = np.broadcast_to(np.array([0, wrong, 1]).reshape(1, 3, 1), (2, 3, 3)).copy()
        for mode, deterministic in itertools.product(("set", "add"), (False, True)):
            kernel = made(subject, "scatter", mode, F32, deterministic)
            out, error = Window(subject, x, start=9), Window(subject, np.zeros(1, I64))
            source = np.full((2, 3, 3), 2, F32)
            kernel(out.data, Window(subject, spread).data, Window(subject, source).data, error.data, CODE)
            error.check([CODE], f"the error word of scatter for the index {wrong} of 4 elements")
            want = x.copy()
            want[:, [0, 1]] = 2 if mode == "set" else want[:, [0, 1]] + 2
            out.check(want, f"scatter, mode {mode}, with the index {wrong} of 4 elements")

    @pytest.mark.parametrize("mode", ["set", "add", "multiply", "minimum", "maximum"])
    def test_scatter(self, subject: Subject, mode: str) -> None:
        combine: Any = {
            "set": lambda old, new: new, "add": np.add, "multiply": np.multiply, "minimum": np.minimum,
            "maximum": np.maximum,
        }[mode]  # fmt: skip
        for dtype, deterministic in itertools.product(("float32", "int64", "uint8"), (False, True)):
            kernel = made(subject, "scatter", mode, np.dtype(dtype), deterministic)
            for outer, n, inner, count in ((1, 5, 1, 9), (3, 4, 2, 7), (2, 1, 3, 3), (1, 3, 1, 200)):
                small = rows(outer, n, inner, dtype=dtype)
                index = np.random.default_rng(1).integers(0, n, (outer, count, inner))
                source = np.where(rows(outer, count, inner, seed=2) > 0, 1, 3).astype(dtype)
                if mode == "multiply" and dtype == "float32":
                    source = np.where(source > 1, -1, 1).astype(dtype)  # exact
                if mode == "set" and not deterministic:
                    source[:] = 3
                want = small.copy()
                for i, j, k in np.ndindex(index.shape):
                    want[i, index[i, j, k], k] = combine(want[i, index[i, j, k], k], source[i, j, k])
                out, error = Window(subject, small), Window(subject, np.zeros(1, I64))
                kernel(out.data, Window(subject, index).data, Window(subject, source).data, error.data, CODE)
                out.check(want, f"scatter, mode {mode}, deterministic={deterministic}", ulps=0)
                error.check([0], "the error word of scatter")

    def test_last_assignment_remains(self, subject: Subject) -> None:
        kernel = made(subject, "scatter", "set", F32, True)
        for count in (2, 9, 300):
            index = Window(subject, np.broadcast_to(np.ones((1, 1, 1), I64), (2, count, 1)), (0, 0, 0))
            source = np.arange(2.0 * count, dtype=F32).reshape(2, count, 1)
            out = written(subject, kernel, np.zeros((2, 3, 1), F32), index, source, np.zeros(1, I64), CODE)
            want = np.array([[0, count - 1, 0], [0, 2 * count - 1, 0]])
            out.check(want[:, :, None], "the last of several assignments")

    @pytest.mark.parametrize("mode", ["minimum", "maximum"])
    def test_nan_wins(self, subject: Subject, mode: str) -> None:
        kernel = made(subject, "scatter", mode, F32, True)
        start = np.array([1, NAN, 2, 3], F32).reshape(1, 4, 1)
        index = np.array([0, 0, 0, 1, 2, 2]).reshape(1, 6, 1)
        source = np.array([5, NAN, -5, 4, -4, 9], F32).reshape(1, 6, 1)
        out = written(subject, kernel, start, index, source, np.zeros(1, I64), CODE)
        want = np.array([NAN, NAN, -4 if mode == "minimum" else 9, 3]).reshape(1, 4, 1)
        out.check(want, f"scatter, mode {mode}, with NaN")


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_sort(subject: Subject, dtype: str) -> None:
    kernel = made(subject, "sort", np.dtype(dtype))
    for shape in ((1, 1), (2, 2), (5, 3), (3, 64), (2, 65), (1, 1025), (70, 5)):
        x = rows(*shape, dtype=dtype)
        if dtype == "float32":
            x[:, :: max(1, shape[1] // 3)] = NAN
            x[0, -1] = -np.inf
            x[x == 0] *= -1
        for steps in (None, (1, shape[0]), (2 * shape[1] + 1, 2)):
            values, order = Window(subject, np.zeros(shape, dtype)), Window(subject, np.zeros(shape, I64))
            operand = Window(subject, x, steps)
            kernel(values.data, order.data, operand.data)
            places = np.argsort(x, 1, kind="stable")
            order.check(places, f"the order of sort, {shape}")
            values.check(np.take_along_axis(x, places, 1), f"the values of sort, {shape}", ulps=0, zeros=True)
            operand.check(x, "the operand")


class TestMatmul:
    @pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 4, 5), (1, 17, 33, 15), (3, 66, 64, 65), (1, 5, 300, 2)])
    def test_layouts(self, subject: Subject, sizes: tuple[int, int, int, int]) -> None:
        kernel = made(subject, "matmul", F32, None, (), F32)
        batch, n, m, p = sizes
        a, b, start = rows(batch, n, m), rows(batch, m, p, seed=1), np.full((batch, n, p), NAN, F32)
        for left, right in itertools.product((None, (n * m, 1, n), (2 * n * m + 5, 2 * m, 2)), (None, (m * p, 1, m))):
            out = written(subject, kernel, start, Window(subject, a, left), Window(subject, b, right))
            out.check(a @ b, f"matmul of (batch, rows, inner, columns) = {sizes}, strides {left} and {right}", ulps=0)
        one = np.broadcast_to(a[:1], (batch, n, m))
        out = written(subject, kernel, start, Window(subject, one, (0, m, 1)), b)
        out.check(one @ b, "matmul, a matrix that is broadcast", ulps=0)

    def test_numbers(self, subject: Subject) -> None:
        """Test sums beyond the whole numbers of half precision, integers that wrap around, and 0 times infinity."""
        inf = float("inf")
        for dtype, left, right, want in (
            ("float32", 1, 1, 5001), ("int64", 2**40 + 1, 2**24 + 1, 5001 * (2**24 + 2**40 + 1)),
            ("float32", inf, 0, NAN), ("float32", 0, inf, NAN),
        ):  # fmt: skip
            kernel = made(subject, "matmul", np.dtype(dtype), None, (), np.dtype(dtype))
            a, b = np.full((1, 2, 5001), left, dtype), np.full((1, 5001, 3), right, dtype)
            out = written(subject, kernel, np.zeros((1, 2, 3), dtype), a, b)
            out.check(np.full((1, 2, 3), want, dtype), f"matmul of {left} and {right} in {dtype}", ulps=0)

    def test_epilogue(self, subject: Subject) -> None:
        function = ScalarFunction("suite", ("a", "b", "c"), s.maximum(A + B, 0.0) * C, F32)
        operands = (Operand("b", F32), Operand("c", F32, True))
        kernel = made(subject, "matmul", F32, function, operands, F32)
        for batch, n, m, p in ((1, 1, 1, 1), (2, 3, 4, 5), (1, 17, 33, 15)):
            a, b, bias = rows(batch, n, m), rows(batch, m, p, seed=1), rows(1, 1, p, seed=2)
            spread = Window(subject, np.broadcast_to(bias, (batch, n, p)), (0, 0, 2))
            out = written(subject, kernel, np.full((batch, n, p), NAN, F32), a, b, spread, np.float32(3))
            out.check(np.maximum(a @ b + bias, 0) * 3, "matmul with an epilogue", ulps=0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_copy(subject: Subject, dtype: str) -> None:
    kernel = made(subject, "copy", np.dtype(dtype))
    for shape, steps in (
        ((7,), (1,)), ((7,), (-1,)), ((7,), (3,)), ((4, 5), (1, 4)), ((4, 5), (-7, 1)), ((2, 3, 4), (1, 2, 6)),
        ((2, 3, 4), (0, 5, -1)), ((1, 3, 1), (9, 2, 1)), ((2, 3, 2, 2), (40, 2, 9, 1)), ((33, 65), (1, 33)),
    ):  # fmt: skip
        values = (np.arange(1, np.prod(shape) + 1, dtype=np.uint64).reshape(shape) * 0x0123_4567_89AB_CDEF).astype(
            dtype
        )
        values = np.broadcast_to(values[:1], shape) if steps[0] == 0 else values
        for target in (None, [2 * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]):
            out, x = Window(subject, np.zeros(shape, dtype), target, start=6), Window(subject, values, steps, start=3)
            kernel(out.data, x.data)
            out.check(values, f"copy of {shape} with the strides {steps}")
            x.check(values, "the operand")
