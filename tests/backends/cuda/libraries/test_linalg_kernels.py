"""Linear algebra by the libraries, compared with NumPy: batches, layouts, sizes and dtypes, without a fallback."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import tenkey as tk
from tenkey.testing.backend.compare import outcome
from tests._tiers import only_full
from tests.backends.cuda.libraries._library_device import LibraryDevice, device

DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(scope="module", autouse=True)
def backend() -> Iterator[LibraryDevice]:
    with device() as made, tk.backends.strict_fallback():
        yield made


def matrices(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Matrices with well-separated singular values."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-0.5, 0.5, shape)
    if "complex" in dtype:
        values = values + 1j * rng.uniform(-0.5, 0.5, shape)
    k = min(shape[-2:])
    values[..., range(k), range(k)] += 2.0 * np.arange(1, k + 1)
    return values.astype(dtype)


def put(x: Any) -> tk.Tensor:
    return tk.asarray(np.asarray(x), device="libraries")


def host(x: Any) -> Any:
    return tuple([host(each) for each in x]) if isinstance(x, tuple) else x.cpu().numpy()


def tolerance(dtype: Any) -> dict[str, float]:
    return {"rtol": 1e-3, "atol": 1e-4} if np.finfo(dtype).bits == 32 else {"rtol": 1e-9, "atol": 1e-10}


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def transposed(x: np.ndarray) -> tk.Tensor:
    return put(np.ascontiguousarray(np.swapaxes(x, -1, -2))).mT


def with_gaps(x: np.ndarray) -> tk.Tensor:
    wide = np.full((*x.shape[:-2], 2 * x.shape[-2] + 1, x.shape[-1] + 3), 77, x.dtype)
    wide[..., 1::2, 2:-1] = x
    return put(wide)[..., 1::2, 2:-1]


LAYOUTS = [put, transposed, with_gaps]
SQUARE = [(3, 3), (1, 1), (2, 3, 3), (2, 1, 4, 4), (3, 40, 40), (1, 5, 5)]


@pytest.mark.parametrize("dtype", only_full(DTYPES, ("float32", "complex128")))
@pytest.mark.parametrize("layout", only_full(LAYOUTS, [with_gaps]))
@pytest.mark.parametrize("shape", SQUARE)
class TestSquare:
    def test_inverse_and_determinants(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        x = layout(a)
        found = host(tk.linalg.inv(x))
        assert found.dtype == a.dtype
        assert_allclose(found @ a, np.broadcast_to(np.eye(shape[-1]), shape), **tolerance(dtype))
        sign, size = host(tk.linalg.slogdet(x))
        want_sign, want_size = np.linalg.slogdet(a)
        assert_allclose(sign, want_sign, **tolerance(dtype))
        assert_allclose(size, want_size, **tolerance(dtype))
        if shape[-1] < 9:
            assert_allclose(host(tk.linalg.det(x)), np.linalg.det(a), **tolerance(dtype))
        assert_allclose(host(x), a)

    def test_hermitian(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        a = a + adjoint(a) + 4 * np.eye(shape[-1], dtype=dtype)
        a = a.astype(dtype)
        for upper in (False, True):
            other = np.triu(np.ones(shape[-2:], bool), 1)
            read = np.where(other.T if upper else other, np.asarray(np.nan, dtype), a)
            factor = host(tk.linalg.cholesky(layout(read), upper=upper))
            assert_allclose(adjoint(factor) @ factor if upper else factor @ adjoint(factor), a, **tolerance(dtype))
            assert not np.any(factor[..., other.T if upper else other])
        read = np.where(np.triu(np.ones(shape[-2:], bool), 1), np.asarray(99, dtype), a)  # the lower triangle is read
        w, v = host(tk.linalg.eigh(layout(read)))
        assert_allclose(w, np.linalg.eigvalsh(a), **tolerance(dtype))
        assert_allclose(v * w[..., None, :] @ adjoint(v), a, **tolerance(dtype))
        assert_allclose(host(tk.linalg.eigvalsh(layout(read))), w, **tolerance(dtype))

    def test_eigenvalues(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        if "complex" not in dtype and shape[-1] > 1:  # a conjugate pair
            a[..., :2, :2] = [[1, -2], [2, 1]]
            a[..., 2:, :2] = 0
        w, v = host(tk.linalg.eig(layout(a)))
        assert w.dtype == v.dtype == np.result_type(a.dtype, np.complex64)
        assert_allclose(a @ v, v * w[..., None, :], **tolerance(dtype))
        assert_allclose(np.linalg.norm(v, axis=-2), 1, **tolerance(dtype))
        found = host(tk.linalg.eigvals(layout(a)))
        assert_allclose(np.sort_complex(found.round(3)), np.sort_complex(np.linalg.eigvals(a).round(3)), atol=5e-3)


@pytest.mark.parametrize("dtype", only_full(DTYPES, ("float32", "complex128")))
@pytest.mark.parametrize("layout", only_full(LAYOUTS, [with_gaps]))
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 5, 2), (2, 2, 5), (2, 2, 3, 3), (2, 40, 7), (7, 40)])
class TestRectangular:
    def test_singular_values(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        k = min(shape[-2:])
        for full in (False, True):
            u, s, vh = host(tk.linalg.svd(layout(a), full_matrices=full))
            assert_allclose(s, np.linalg.svd(a, compute_uv=False), **tolerance(dtype))
            assert_allclose(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, **tolerance(dtype))
            widths = (shape[-2], shape[-1]) if full else (k, k)
            assert (u.shape[-1], vh.shape[-2]) == widths
            for each in (adjoint(u) @ u, vh @ adjoint(vh)):
                assert_allclose(each, np.broadcast_to(np.eye(each.shape[-1]), each.shape), **tolerance(dtype))
        assert_allclose(host(tk.linalg.svdvals(layout(a))), s, **tolerance(dtype))

    def test_qr(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        for mode in ("reduced", "complete"):
            q, r = host(tk.linalg.qr(layout(a), mode=mode))
            want = np.linalg.qr(a, mode=mode)
            assert q.shape == want[0].shape
            assert_allclose(q @ r, a, **tolerance(dtype))
            assert_allclose(
                adjoint(q) @ q,
                np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *[q.shape[-1]] * 2)),
                **tolerance(dtype),
            )
            assert_allclose(r, want[1], **tolerance(dtype))
            assert not np.any(np.tril(r, -1))

    def test_lu(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)[..., ::-1, :].copy()  # the largest pivots are last
        p, lower, upper = host(tk.linalg.lu(layout(a)))
        assert_allclose(p @ lower @ upper, a, **tolerance(dtype))
        for i in np.ndindex(shape[:-2]):
            for found, want in zip((p[i], lower[i], upper[i]), scipy.linalg.lu(a[i]), strict=True):
                assert_allclose(found, want, **tolerance(dtype))

    def test_pseudo_inverses(self, shape: Any, layout: Any, dtype: str) -> None:
        a = matrices(shape, dtype)
        a[..., -1] = a[..., 0]  # of lower rank, if there are no more columns than rows
        assert_allclose(host(tk.linalg.pinv(layout(a))), np.linalg.pinv(a, rcond=1e-5), **tolerance(dtype))
        assert np.array_equal(host(tk.linalg.matrix_rank(layout(a))), np.linalg.matrix_rank(a, rtol=1e-5))
        b = matrices((*shape[:-2], shape[-2], 2), dtype, 1)
        found = host(tk.linalg.lstsq(layout(a), put(b)).solution)
        assert_allclose(found, np.linalg.pinv(a, rcond=1e-5) @ b, **tolerance(dtype))


@pytest.mark.parametrize("dtype", only_full(DTYPES, ("float32", "complex128")))
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((3, 3), (4, 3, 2)), ((1, 3, 3), (4, 3, 2)), ((4, 3, 3), (3, 2)),
     ((2, 1, 3, 3), (5, 3, 1)), ((2, 3, 3), (3,)), ((2, 300, 300), (2, 300, 2)), ((3, 3), (2, 5, 3, 1))],
)  # fmt: skip
@pytest.mark.parametrize("layout", only_full(LAYOUTS, [with_gaps]))
def test_solutions(left: Any, right: Any, layout: Any, dtype: str) -> None:
    a, b = matrices(left, dtype), np.random.default_rng(1).uniform(-1, 1, right).astype(dtype)
    columns = b[..., None] if b.ndim == 1 else b
    want = np.linalg.solve(a, columns)
    found = host(tk.linalg.solve(layout(a), put(b)))
    assert found.dtype == want.dtype
    assert_allclose(found, want[..., 0] if b.ndim == 1 else want, **tolerance(dtype))


def test_one_factorization_serves_all_right_hand_sides() -> None:
    library = sys.modules["nvmath.bindings.cusolverDn"]
    calls = []
    right = library.xgetrf
    library.xgetrf = lambda *args: (calls.append(1), right(*args))[1]  # type: ignore[attr-defined]
    try:
        tk.linalg.solve(put(matrices((3, 3))), put(matrices((6, 3, 2))))
    finally:
        library.xgetrf = right  # type: ignore[attr-defined]
    assert len(calls) == 1


@pytest.mark.parametrize(("shape", "batched"), [((2, 8, 8), True), ((2, 257, 257), False), ((1, 8, 8), False)])
def test_batched_routines_are_for_stacks_of_small_matrices(shape: Any, batched: bool) -> None:
    solver, blas = sys.modules["nvmath.bindings.cusolverDn"], sys.modules["nvmath.bindings.cublas"]
    called: list[str] = []
    before = solver.xgetrf, blas.dgetrf_batched
    solver.xgetrf = lambda *args: (called.append("one"), before[0](*args))[1]  # type: ignore[attr-defined]
    blas.dgetrf_batched = lambda *args: (called.append("all"), before[1](*args))[1]  # type: ignore[attr-defined]
    try:
        tk.linalg.slogdet(put(matrices(shape)))
    finally:
        solver.xgetrf, blas.dgetrf_batched = before  # type: ignore[attr-defined]
    assert called == (["all"] if batched else ["one"] * shape[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exponential(dtype: str) -> None:
    a = matrices((4, 3, 3), dtype)
    a[1] *= 6
    a[2] = 0
    a[3, 0, 0] = np.inf
    found = host(tk.linalg.matrix_exp(put(a)))
    want = np.stack([scipy.linalg.expm(each) for each in a[:3]])
    assert_allclose(found[:3] / np.abs(want).max((-2, -1), keepdims=True),
                    want / np.abs(want).max((-2, -1), keepdims=True), **tolerance(dtype))  # fmt: skip
    assert np.isnan(found[3]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_of_singular_matrices(dtype: str) -> None:
    a = np.ones((2, 3, 3), dtype)
    a[1] = 0
    assert host(tk.linalg.det(put(a))).tolist() == [0, 0]
    sign, size = host(tk.linalg.slogdet(put(a)))
    assert sign.tolist() == [0, 0]
    assert np.isneginf(size).all()
    adjugate = host(tk.ops.tk.linalg_adjugate.default(put(matrices((2, 3, 3), dtype))))
    want = np.linalg.det(matrices((2, 3, 3), dtype))[:, None, None] * np.linalg.inv(matrices((2, 3, 3), dtype))
    assert_allclose(adjugate, want, **tolerance(dtype))


FUNCTIONS: dict[str, Callable[[tk.Tensor], Any]] = {
    "inv": tk.linalg.inv, "det": tk.linalg.det, "slogdet": tk.linalg.slogdet, "cholesky": tk.linalg.cholesky,
    "svd": tk.linalg.svd, "thin svd": lambda x: tk.linalg.svd(x, full_matrices=False), "svdvals": tk.linalg.svdvals,
    "qr": tk.linalg.qr, "complete qr": lambda x: tk.linalg.qr(x, mode="complete"), "lu": tk.linalg.lu,
    "eigh": tk.linalg.eigh, "eigvalsh": tk.linalg.eigvalsh, "eig": tk.linalg.eig, "eigvals": tk.linalg.eigvals,
    "pinv": tk.linalg.pinv, "matrix_rank": tk.linalg.matrix_rank, "matrix_exp": tk.linalg.matrix_exp,
    "solve": lambda x: tk.linalg.solve(x, x), "lstsq": lambda x: tk.linalg.lstsq(x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (0, 2), (2, 0), (0, 3, 2), (2, 0, 3)])
def test_empty_matrices(name: str, shape: tuple[int, ...]) -> None:
    function, a = FUNCTIONS[name], np.zeros(shape, np.float32)
    want, refused = outcome(lambda: function(tk.asarray(a)))
    if refused is not None:
        with pytest.raises(refused) as caught:
            function(put(a))
        assert str(caught.value) == str(want)
        return
    wants, founds = [x if isinstance(x, tuple) else (x,) for x in (want, function(put(a)))]
    for expected, found in zip(wants, founds, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert np.array_equal(host(found), expected.numpy())


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool"])
def test_other_dtypes_are_as_on_the_cpu(name: str, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes")
    function = FUNCTIONS[name]
    a = tk.asarray(np.diag([2.0, 3, 5])).astype(tk.bfloat16 if dtype == "bfloat16" else np.dtype(dtype))
    want, refused = outcome(lambda: function(a))
    if refused is not None:
        with pytest.raises(refused) as caught:
            function(a.to_device("libraries"))
        assert str(caught.value) == str(want)
        return
    wants, founds = [x if isinstance(x, tuple) else (x,) for x in (want, function(a.to_device("libraries")))]
    for expected, found in zip(wants, founds, strict=True):
        assert found.dtype == expected.dtype
        given, wanted = [np.asarray(x.cpu().numpy()).astype("complex64") for x in (found, expected)]
        assert_allclose(np.sort(np.abs(given).ravel()), np.sort(np.abs(wanted).ravel()), rtol=2e-2, atol=1e-6)


def test_memory_is_given_back(backend: LibraryDevice) -> None:
    x = put(matrices((3, 5, 5), "complex64"))
    for name, function in FUNCTIONS.items():
        if name != "cholesky":
            function(x)
    gc.collect()  # what other tests left, which would be freed meanwhile
    before = len(backend.allocations.known)
    for name, function in FUNCTIONS.items():
        if name != "cholesky":
            function(x)
    assert len(backend.allocations.known) == before


@pytest.mark.parametrize("name", ["inv", "svdvals", "eigvalsh", "det", "pinv", "solve", "matrix_exp", "qr", "eigh"])
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    a = matrices((2, 3, 3))

    def gradient(x: tk.Tensor) -> Any:
        leaf = x.requires_grad_()
        with tk.enable_grad():
            found = FUNCTIONS[name](leaf)
            values = found[0] if isinstance(found, tuple) else found
            tk.sum(values * values * values).backward()
        return leaf.grad.cpu().numpy()  # type: ignore[union-attr]

    symmetric = (a + adjoint(a)) * (0.1 if name == "matrix_exp" else 1.0)
    assert_allclose(gradient(put(symmetric)), gradient(tk.asarray(symmetric.copy())), rtol=1e-7, atol=1e-8)
