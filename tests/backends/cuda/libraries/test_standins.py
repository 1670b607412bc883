"""The stand-ins compute what LAPACK, BLAS and the definition of a transform say, as the libraries store it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy.linalg import lapack

from tests.backends.cuda.libraries._memory import STREAM, Memory, codes

DTYPES = ("float32", "float64", "complex64", "complex128")
LETTER = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, shape)
    return (values + 1j * rng.uniform(-1, 1, shape) if "complex" in dtype else values).astype(dtype)


def tolerance(dtype: str) -> dict[str, float]:
    return {"rtol": 0, "atol": 2e-5 if dtype in ("float32", "complex64") else 1e-12}


def at(x: Any) -> int:
    return int(x.ctypes.data)


class Calls:
    """Calls of cuSOLVER's 64-bit interface with workspaces of the sizes that the queries return."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.handle = memory.opened(memory.solver)
        self.params = memory.solver.create_params()
        self.info = memory.put(np.full(8, -9, np.int32))

    def __call__(self, name: str, given: tuple[Any, ...], query: tuple[Any, ...] | None = None, *tail: Any) -> int:
        solver = self.memory.solver
        fixed = (self.handle, self.params)
        sizes = getattr(solver, f"{name}_buffer_size")(*fixed, *(given if query is None else query))
        device, host = self.memory.empty(sizes[0]), np.zeros(sizes[1] + 1, np.uint8)
        getattr(solver, name)(*fixed, *given, at(device), sizes[0], at(host), sizes[1], at(self.info), *tail)
        return int(self.info[0])


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (6, 3), (3, 6)])
def test_lu(dtype: str, shape: tuple[int, int], memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    a = numbers(shape, dtype)
    x, pivots = memory.put(a), memory.put(np.zeros(min(shape), np.int64))
    head = (*shape, kind, at(x), shape[0])
    assert call("xgetrf", (*head, at(pivots), kind), (*head, kind)) == 0
    want, want_pivots, _ = lapack.get_lapack_funcs("getrf", (a,))(a)
    assert_allclose(x, want, **tolerance(dtype))
    assert pivots.tolist() == (want_pivots + 1).tolist()
    if shape[0] != shape[1]:
        return
    for operation, of in enumerate((a, a.T, a.conj().T)):
        b = numbers((5, 2), dtype, 1)
        y = memory.put(b)
        memory.solver.xgetrs(
            call.handle, call.params, operation, 5, 2, kind, at(x), 5, at(pivots), kind, at(y), 5, at(call.info)
        )
        assert_allclose(of @ y, b, **tolerance(dtype))


def test_a_singular_matrix_is_reported(memory: Memory) -> None:
    call = Calls(memory)
    x, pivots = memory.put(np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])), memory.put(np.zeros(3, np.int64))
    head = (3, 3, 1, at(x), 3)
    assert call("xgetrf", (*head, at(pivots), 1), (*head, 1)) == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_exchanges_of_rows(dtype: str, memory: Memory) -> None:
    handle = memory.opened(memory.solver)
    x, pivots = memory.put(numbers((4, 2), dtype)), memory.put(np.array([3, 4, 3], np.int32))
    before = x.copy()
    getattr(memory.solver, f"{LETTER[dtype]}laswp")(handle, 2, at(x), 4, 1, 3, at(pivots), 1)
    assert np.array_equal(x, before[[2, 3, 0, 1]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", [0, 1])
def test_cholesky(dtype: str, part: int, memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    root = numbers((4, 4), dtype)
    a = root @ root.conj().T + 4 * np.eye(4, dtype=dtype)
    other = np.triu(np.ones((4, 4), bool), 1) if part == 0 else np.tril(np.ones((4, 4), bool), -1)
    x = memory.put(np.where(other, np.nan, a).astype(dtype))  # the other triangle is not read
    assert call("xpotrf", (part, 4, kind, at(x), 4, kind)) == 0
    want = scipy.linalg.cholesky(a, lower=part == 0)
    assert_allclose(np.where(other, 0, x), want, **tolerance(dtype))
    assert np.isnan(x[other]).all()


@pytest.mark.parametrize("part", [0, 1])
def test_an_indefinite_matrix_is_reported_by_its_first_bad_minor(part: int, memory: Memory) -> None:
    call = Calls(memory)
    x = memory.put(np.diag([1.0, 4.0, -1.0, 1.0]))
    assert call("xpotrf", (part, 4, 1, at(x), 4, 1)) == 3


def test_a_batch_of_cholesky_factors_uses_the_other_triangle(memory: Memory) -> None:
    handle = memory.opened(memory.solver)
    a = [np.diag([4.0, 9.0]) + 1, np.diag([1.0, -2.0])]
    xs = [memory.put(each) for each in a]
    places, info = memory.put(np.array([at(x) for x in xs])), memory.put(np.full(2, -9, np.int32))
    memory.solver.dpotrf_batched(handle, 0, 2, at(places), 2, at(info), 2)
    assert info.tolist() == [0, 2]
    assert_allclose(np.tril(np.nan_to_num(xs[0])), np.linalg.cholesky(a[0]))
    assert np.isnan(xs[0][0, 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_qr(dtype: str, shape: tuple[int, int], memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    m, n = shape
    k = min(shape)
    a = numbers(shape, dtype)
    x, tau = memory.put(a), memory.put(np.zeros(k, dtype))
    assert call("xgeqrf", (m, n, kind, at(x), m, kind, at(tau), kind)) == 0
    want, want_tau, *_ = lapack.get_lapack_funcs("geqrf", (a,))(a)
    assert_allclose(x, want, **tolerance(dtype))
    assert_allclose(tau, want_tau, **tolerance(dtype))
    q = memory.put(np.concatenate([x[:, :k], np.full((m, m - k), np.nan, dtype)], axis=1))  # not read
    name = f"{LETTER[dtype]}{'ung' if 'complex' in dtype else 'org'}qr"
    given = (call.handle, m, m, k, at(q), m, at(tau))
    size = getattr(memory.solver, f"{name}_buffer_size")(*given)
    work = memory.empty(size * q.itemsize)
    getattr(memory.solver, name)(*given, at(work), size, at(call.info))
    assert_allclose(q.conj().T @ q, np.eye(m), **tolerance(dtype))
    assert_allclose(q[:, :k] @ np.triu(x)[:k], a, **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("jobs", [b"NN", b"SS", b"AA"])
def test_singular_values(dtype: str, jobs: bytes, memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    a = numbers((5, 3), dtype)
    x, s = memory.put(a), memory.put(np.zeros(3, a.real.dtype))
    width = 5 if jobs == b"AA" else 3
    u, vh = memory.put(np.zeros((5, width), dtype)), memory.put(np.zeros((3, 3), dtype))
    real = codes[str(a.real.dtype)]
    given = (*jobs, 5, 3, kind, at(x), 5, real, at(s), kind, at(u), 5, kind, at(vh), 3, kind)
    assert call("xgesvd", given) == 0
    assert_allclose(s, scipy.linalg.svdvals(a), **tolerance(dtype))
    assert np.isnan(x).all(), "the matrix is destroyed"
    if jobs != b"NN":
        assert_allclose(u[:, :3] * s @ vh, a, **tolerance(dtype))
        assert_allclose(u.conj().T @ u, np.eye(width), **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_values_of_a_stack(dtype: str, memory: Memory) -> None:
    handle, solver = memory.opened(memory.solver), memory.solver
    a = numbers((2, 3, 4), dtype)
    x = memory.put(a.transpose(2, 1, 0)[::1].transpose(1, 0, 2))  # column-major matrices one after the other
    s = memory.put(np.zeros((3, 2), a.real.dtype))
    u, v = memory.put(np.zeros((3, 3, 2), dtype)), memory.put(np.zeros((4, 4, 2), dtype))
    info, params = memory.put(np.full(2, -9, np.int32)), solver.create_gesvdj_info()
    name = f"{LETTER[dtype]}gesvdj_batched"
    given = (handle, 1, 3, 4, at(x), 3, at(s), at(u), 3, at(v), 4)
    size = getattr(solver, f"{name}_buffer_size")(*given, params, 2)
    work = memory.empty(size * a.itemsize)
    getattr(solver, name)(*given, at(work), size, at(info), params, 2)
    assert info.tolist() == [0, 0]
    for i in range(2):
        assert_allclose(s[:, i], scipy.linalg.svdvals(a[i]), **tolerance(dtype))
        sigma = np.zeros((3, 4))
        np.fill_diagonal(sigma, s[:, i])
        assert_allclose(u[:, :, i] @ sigma @ v[:, :, i].conj().T, a[i], **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("batch", [0, 2])
def test_hermitian_eigenvalues(dtype: str, part: int, batch: int, memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    full = numbers((4, 4, batch or 1), dtype)
    full = full + full.conj().transpose(1, 0, 2)
    other = np.triu(np.ones((4, 4), bool), 1) if part == 0 else np.tril(np.ones((4, 4), bool), -1)
    x, w = (
        memory.put(np.where(other[:, :, None], 77, full).astype(dtype)),
        memory.put(np.zeros((4, batch or 1), full.real.dtype)),
    )
    given = (1, part, 4, kind, at(x), 4, codes[str(full.real.dtype)], at(w), kind)
    if batch:
        assert call("xsyev_batched", given, (*given, batch), batch) == 0
    else:
        assert call("xsyevd", given) == 0
    for i in range(batch or 1):
        assert_allclose(w[:, i], scipy.linalg.eigvalsh(full[:, :, i]), **tolerance(dtype))
        assert_allclose(full[:, :, i] @ x[:, :, i], x[:, :, i] * w[:, i], **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_of_general_matrices(dtype: str, memory: Memory) -> None:
    call, kind = Calls(memory), codes[dtype]
    a = numbers((5, 5), dtype, 3)
    is_complex = "complex" in dtype
    x, w = memory.put(a), memory.put(np.zeros(5 if is_complex else 10, dtype))
    v = memory.put(np.zeros((5, 5), dtype))
    given = (0, 1, 5, kind, at(x), 5, kind, at(w), kind, 0, 5, kind, at(v), 5, kind)
    assert call("xgeev", given) == 0
    if is_complex:
        assert_allclose(a @ v, v * w, **tolerance(dtype))
        return
    wr, wi, *_ = lapack.get_lapack_funcs("geev", (a,))(a)
    first = np.flatnonzero(wi > 0)
    assert len(first) > 0, "the sample has a conjugate pair"
    assert_allclose(w, np.concatenate([wr, wi]), **tolerance(dtype))
    pairs = v[:, first] + 1j * v[:, first + 1]
    assert_allclose(a @ pairs, pairs * (wr + 1j * wi)[first], **tolerance(dtype))
    alone = wi == 0
    assert_allclose(a @ v[:, alone], v[:, alone] * wr[alone], **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks_in_cublas(dtype: str, memory: Memory) -> None:
    handle, blas, letter = memory.opened(memory.blas), memory.blas, LETTER[dtype]
    a = [numbers((3, 3), dtype, seed) for seed in range(2)] + [np.zeros((3, 3), dtype)]
    b = [numbers((3, 2), dtype, seed + 5) for seed in range(3)]
    xs, ys = [memory.put(each) for each in a], [memory.put(each) for each in b]
    places, others = [memory.put(np.array([at(x) for x in each])) for each in (xs, ys)]
    pivots, info = memory.put(np.zeros(9, np.int32)), memory.put(np.full(3, -9, np.int32))
    getattr(blas, f"{letter}getrf_batched")(handle, 3, at(places), 3, at(pivots), at(info), 3)
    assert info.tolist() == [0, 0, 1]
    status = np.full(1, -9, np.int32)
    getattr(blas, f"{letter}getrs_batched")(
        handle, 1, 3, 2, at(places), 3, at(pivots), at(others), 3, at(status), 2
    )  # fmt: skip
    assert status[0] == 0
    for one, y, right in zip(a[:2], ys[:2], b[:2], strict=True):
        assert_allclose(one.T @ y, right, **tolerance(dtype))
    taus = [memory.put(np.zeros(3, dtype)) for _ in range(2)]
    xs = [memory.put(each) for each in a[:2]]
    places, factors = [memory.put(np.array([at(x) for x in each])) for each in (xs, taus)]
    getattr(blas, f"{letter}geqrf_batched")(handle, 3, 3, at(places), 3, at(factors), at(status), 2)
    for one, x, tau in zip(a[:2], xs, taus, strict=True):
        want, want_tau, *_ = lapack.get_lapack_funcs("geqrf", (one,))(one)
        assert_allclose(x, want, **tolerance(dtype))
        assert_allclose(tau, want_tau, **tolerance(dtype))


@pytest.mark.parametrize("points", [1, 4, 5])
@pytest.mark.parametrize("kind", ["exec_c2c", "exec_z2z", "exec_r2c", "exec_d2z", "exec_c2r", "exec_z2d"])
def test_transforms_are_sums_of_exponentials(kind: str, points: int, memory: Memory) -> None:
    fft = memory.fft
    number = {
        "exec_c2c": 0x29,
        "exec_z2z": 0x69,
        "exec_r2c": 0x2A,
        "exec_d2z": 0x6A,
        "exec_c2r": 0x2C,
        "exec_z2d": 0x6C,
    }
    wide = kind[5] in "zd"
    complex_, real = ("complex128", "float64") if wide else ("complex64", "float32")
    half = points // 2 + 1
    batch, step, gap = 3, 2, 1
    k = np.arange(points)
    wave = np.exp(-2j * np.pi * np.outer(k, k) / points)
    signal = numbers((batch, points), real if kind[5] in "rd" or kind[7] in "rd" else complex_)
    spectrum = signal @ wave
    given, want = {
        "c2c": (signal, spectrum), "r2c": (signal, spectrum[:, :half]), "c2r": (spectrum[:, :half], signal * points)
    }[kind[5:].replace("z2z", "c2c").replace("d2z", "r2c").replace("z2d", "c2r")]  # fmt: skip
    if kind[7] in "rd":  # rounding leaves parts that a Hermitian spectrum does not have
        given = np.where((np.arange(half) == 0) | (2 * np.arange(half) == points), given.real, given)
    source, result = (complex_ if kind[5] in "cz" else real), (complex_ if kind[7] in "cz" else real)
    row = step * given.shape[1] + gap
    x = memory.put(np.zeros(batch * row, source))
    window = np.ndarray(given.shape, source, x.data, 0, (row * x.itemsize, step * x.itemsize))
    window[...] = given
    out = memory.put(np.zeros(want.shape[::-1], result))  # rows one after the other
    plan = fft.create()
    fft.set_auto_allocation(plan, 0)
    fft.set_stream(plan, STREAM)
    size = fft.make_plan_many64(
        plan, 1, [points], [points], step, row, [points], 1, want.shape[1], number[kind], batch
    )  # fmt: skip
    area = memory.empty(size)
    fft.set_work_area(plan, at(area))
    for direction in (-1, 1) if kind in ("exec_c2c", "exec_z2z") else (None,):
        getattr(fft, kind)(plan, at(x), at(out), *([] if direction is None else [direction]))
        expected = want if direction != 1 else signal @ wave.conj()
        assert_allclose(out.T, expected, **tolerance(result))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", *DTYPES])
@pytest.mark.parametrize("operations", [(0, 0), (1, 0), (0, 1), (2, 1)])
def test_products(dtype: str, operations: tuple[int, int], memory: Memory) -> None:
    import tenkey as tk

    kind = {"float16": 2, "bfloat16": 14, **codes}[dtype]
    number = tk.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    lt = memory.lt
    a, b = numbers((2, 3, 4), "complex128" if "complex" in dtype else "float64"), numbers((4, 2), "float64", 1)
    a, b = a.astype(number), b.astype(number)
    compute = {"float64": (70, 1), "complex64": (68, 4), "complex128": (70, 5)}.get(dtype, (68, 0))
    scale = np.dtype({0: "float32", 1: "float64", 4: "complex64", 5: "complex128"}[compute[1]])
    operation = lt.matmul_desc_create(*compute)
    layouts, places = [], []
    for attribute, value, code in ((3, a, operations[0]), (4, b[None], operations[1])):
        lt.matmul_desc_set_attribute(operation, attribute, at(np.array([code], np.int32)), 4)
        stored = value if code == 0 else value.swapaxes(-1, -2)
        stored = stored.conj() if code == 2 and "complex" in dtype else stored
        places.append(memory.put(np.moveaxis(stored, 0, -1)))
        layouts.append(lt.matrix_layout_create(kind, *stored.shape[1:], stored.shape[1]))
    layouts.append(lt.matrix_layout_create(kind, 3, 2, 3))
    out = memory.put(np.zeros((3, 2, 2), number))
    for layout, distance in zip(layouts, (12, 0, 6), strict=True):
        lt.matrix_layout_set_attribute(layout, 5, at(np.array([2], np.int32)), 4)
        lt.matrix_layout_set_attribute(layout, 6, at(np.array([distance], np.int64)), 8)
    preference = lt.matmul_preference_create()
    lt.matmul_preference_set_attribute(preference, 1, at(np.array([1 << 20], np.uint64)), 8)
    results, count = np.zeros(1, lt.matmul_heuristic_result_dtype), np.zeros(1, np.int32)
    handle = lt.create()
    lt.matmul_algo_get_heuristic(handle, operation, *layouts, layouts[2], preference, 1, at(results), at(count))
    assert count[0] == 1
    size = int(results["workspace_size"][0])
    work, one, zero = memory.empty(size), np.ones(1, scale), np.zeros(1, scale)
    lt.matmul(
        handle, operation, at(one), at(places[0]), layouts[0], at(places[1]), layouts[1], at(zero), at(out), layouts[2],
        at(out), layouts[2], at(results), at(work), size, STREAM,
    )  # fmt: skip
    wide = "complex128" if "complex" in dtype else "float64"
    got = np.moveaxis(out, -1, 0).astype(wide)
    atol = {"float16": 5e-3, "bfloat16": 5e-2}.get(dtype, tolerance(dtype)["atol"])
    assert_allclose(got, a.astype(wide) @ b.astype(wide), rtol=0, atol=atol)


@pytest.mark.parametrize("library", ["cublas", "cublasLt", "cufft", "cusolverDn"])
def test_signatures_are_those_of_nvmath(library: str, memory: Memory) -> None:
    """The parameters in nvmath's documentation: names and order, as its functions have no other signature."""
    real = pytest.importorskip(f"nvmath.bindings.{library}")
    mine = {"cublas": memory.blas, "cublasLt": memory.lt, "cufft": memory.fft, "cusolverDn": memory.solver}[library]
    names = [name for name in {*dir(mine)} if not name.startswith("_") and callable(getattr(mine, name))]
    assert len(names) > 10
    for name in sorted(names):
        head = getattr(real, name).__doc__.strip().splitlines()[0]
        assert head.startswith(f"{name}("), f"{library}.{name} has no signature in its documentation"
        listed = head[len(name) + 1 : head.index(")")]
        wanted = [each.split()[-1] for each in listed.split(",")] if listed else []
        assert list(inspect.signature(getattr(mine, name)).parameters) == wanted, f"{library}.{name}"


def test_the_result_of_a_heuristic_has_nvmaths_layout(memory: Memory) -> None:
    real = pytest.importorskip("nvmath.bindings.cublasLt")
    assert memory.lt.matmul_heuristic_result_dtype == real.matmul_heuristic_result_dtype
