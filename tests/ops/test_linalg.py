"""Linear algebra as a user meets it: accuracy on ill-conditioned input, stacks, empty input, errors, named results."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg

import tenkey as tk
from tests._tiers import each

_RNG = np.random.default_rng(0)
_EPS = float(np.finfo(np.float64).eps)


def _graded(n: int, smallest: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A matrix whose singular values fall to ``smallest`` evenly, and these."""
    q = np.linalg.qr(_RNG.standard_normal((n, n)))[0]
    p = np.linalg.qr(_RNG.standard_normal((n, n)))[0]
    s = np.geomspace(1.0, smallest, n)
    return (q * s) @ p, s


# ---- accuracy


@pytest.mark.parametrize("n", [3, 6, 9])
def test_hilbert_matrices_against_mpmath(n: int) -> None:
    h = scipy.linalg.hilbert(n)
    with mpmath.workdps(60):
        exact = mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in h])
        determinant, inverse = mpmath.det(exact), exact**-1
        want = np.array([[float(inverse[i, j]) for j in range(n)] for i in range(n)])
        right = mpmath.lu_solve(exact, mpmath.matrix([1] * n))
    x = tk.asarray(h)
    condition = tk.linalg.cond(x).item()
    np.testing.assert_allclose(condition, np.linalg.cond(h), rtol=1e-3)
    bound = 10 * n * condition * _EPS
    assert abs(tk.linalg.det(x).item() - float(determinant)) <= bound * abs(float(determinant))
    sign, logarithm = tk.linalg.slogdet(x)
    assert sign.item() == 1
    assert abs(logarithm.item() - float(mpmath.log(determinant))) <= bound
    np.testing.assert_allclose(tk.linalg.inv(x).numpy(), want, atol=bound * np.abs(want).max(), rtol=0)
    found = tk.linalg.solve(x, tk.ones(n, dtype="float64")).numpy()
    values = np.array([float(v) for v in right])
    np.testing.assert_allclose(found, values, atol=bound * np.abs(values).max(), rtol=0)
    factor = tk.linalg.cholesky(x).numpy()
    np.testing.assert_allclose(factor @ factor.T, h, atol=n * _EPS)


@pytest.mark.parametrize("smallest", [1e-3, 1e-8, 1e-14])
def test_graded_singular_values(smallest: float) -> None:
    a, s = _graded(12, smallest)
    x = tk.asarray(a)
    u, found, vh = tk.linalg.svd(x)
    np.testing.assert_allclose(found.numpy(), s, atol=50 * _EPS, rtol=0)  # to the accuracy of the largest
    np.testing.assert_allclose(tk.linalg.svdvals(x).numpy(), scipy.linalg.svdvals(a), atol=50 * _EPS)
    np.testing.assert_allclose((u.numpy() * found.numpy()) @ vh.numpy(), a, atol=50 * _EPS)
    for basis in (u.numpy(), vh.numpy(), tk.linalg.qr(x).Q.numpy()):
        np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=50 * _EPS)
    assert tk.linalg.matrix_rank(x, rtol=1e-6).item() == np.count_nonzero(s > 1e-6)
    q, r = tk.linalg.qr(x)
    np.testing.assert_allclose(q.numpy() @ r.numpy(), a, atol=50 * _EPS)
    np.testing.assert_array_equal(np.tril(r.numpy(), -1), 0)
    p = tk.linalg.pinv(x, rtol=1e-6).numpy()
    want = scipy.linalg.pinv(a, rtol=1e-6)
    np.testing.assert_allclose(p, want, atol=1e3 * _EPS / 1e-6**2)
    b = _RNG.standard_normal(12)
    answer = tk.linalg.lstsq(x, tk.asarray(b), rtol=1e-6).solution.numpy()
    np.testing.assert_allclose(answer, want @ b, atol=1e4 * _EPS / 1e-6**2)


def test_hermitian_eigenproblems_on_graded_matrices() -> None:
    q = np.linalg.qr(_RNG.standard_normal((8, 8)) + 1j * _RNG.standard_normal((8, 8)))[0]
    w = np.geomspace(1e-12, 1.0, 8)
    a = (q * w) @ q.conj().T
    a = (a + a.conj().T) / 2
    found, v = tk.linalg.eigh(tk.asarray(a))
    np.testing.assert_allclose(found.numpy(), w, atol=50 * _EPS, rtol=0)
    np.testing.assert_allclose((v.numpy() * found.numpy()) @ v.numpy().conj().T, a, atol=50 * _EPS)
    np.testing.assert_allclose(tk.linalg.eigvalsh(tk.asarray(a)).numpy(), scipy.linalg.eigvalsh(a), atol=50 * _EPS)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_general_eigenproblems(dtype: str) -> None:
    a = _RNG.standard_normal((2, 6, 6))
    if dtype == "complex128":
        a = a + 1j * _RNG.standard_normal((2, 6, 6))
    w, v = tk.linalg.eig(tk.asarray(a))
    assert w.dtype == v.dtype == np.dtype("complex128")
    np.testing.assert_allclose(a @ v.numpy(), v.numpy() * w.numpy()[:, None, :], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v.numpy(), axis=-2), 1, atol=1e-14)
    np.testing.assert_allclose(np.sort(tk.linalg.eigvals(tk.asarray(a)).numpy()), np.sort(w.numpy()), atol=1e-12)


@pytest.mark.parametrize("size", [1e-8, 0.1, 3.0, 40.0])
def test_the_matrix_exponential_against_scipy(size: float) -> None:
    a = _RNG.standard_normal((3, 5, 5)) * size / 5
    want = scipy.linalg.expm(a)
    found = tk.linalg.matrix_exp(tk.asarray(a)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-11 * np.abs(want).max())


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e200])
@pytest.mark.parametrize("axis", [None, 0])
def test_norms_neither_overflow_nor_underflow(scale: float, axis: int | None) -> None:
    values = _RNG.standard_normal(50) * scale
    with mpmath.workdps(40):
        want = float(mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(v)) ** 2 for v in values)))
    for x in (values, values * 1j):
        assert math.isclose(tk.linalg.vector_norm(tk.asarray(x), axis=axis).item(), want, rel_tol=8 * _EPS)
        assert math.isclose(tk.linalg.norm(tk.asarray(x)).item(), want, rel_tol=8 * _EPS)


@pytest.mark.parametrize("order", [2, 1, 3, 0.5])
def test_norms_of_special_values(order: float) -> None:
    assert tk.linalg.vector_norm(tk.zeros(3), ord=order).item() == 0
    assert tk.linalg.vector_norm(tk.zeros(0), ord=order).item() == 0
    assert tk.linalg.vector_norm(tk.asarray([math.inf, 1.0]), ord=order).item() == math.inf
    assert math.isnan(tk.linalg.vector_norm(tk.asarray([math.nan, 1.0]), ord=order).item())


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms(order: Any, keepdims: bool) -> None:
    for a in (_RNG.standard_normal((2, 3, 4)), _RNG.standard_normal((3, 3)) * (1 + 1j)):
        want = np.linalg.matrix_norm(a, ord=order, keepdims=keepdims)
        x = tk.asarray(a)
        np.testing.assert_allclose(tk.linalg.matrix_norm(x, ord=order, keepdims=keepdims).numpy(), want)
        np.testing.assert_allclose(tk.linalg.norm(x, order, axis=(-2, -1), keepdims=keepdims).numpy(), want)
        np.testing.assert_allclose(
            tk.linalg.norm(x, order, axis=(-1, -2)).numpy(), np.linalg.norm(a, order, axis=(-1, -2))
        )


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, "fro", "nuc", math.inf, -math.inf])
def test_condition_numbers(p: Any) -> None:
    a = _RNG.standard_normal((2, 3, 3))
    np.testing.assert_allclose(tk.linalg.cond(tk.asarray(a), p).numpy(), np.linalg.cond(a, p), rtol=1e-10)
    singular = tk.linalg.cond(tk.zeros((2, 2)), p).item()
    assert singular == math.inf or math.isnan(singular)


@pytest.mark.parametrize("order", [2, 1, 3, math.inf])
def test_at_zero_norms_have_the_gradient_zero(order: float) -> None:
    x = tk.zeros(3, dtype="float64").requires_grad_()
    tk.linalg.vector_norm(x, ord=order).backward()
    assert x.grad is not None
    if order == math.inf:  # all tie
        assert np.isfinite(x.grad.numpy()).all()
    else:
        assert x.grad.tolist() == [0.0, 0.0, 0.0]
    m = tk.zeros((2, 2), dtype="float64").requires_grad_()
    tk.linalg.matrix_norm(m).backward()
    assert m.grad is not None
    assert m.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


# ---- shapes, layouts, names


def test_fortran_ordered_and_strided_input() -> None:
    a = np.asfortranarray(_RNG.standard_normal((4, 4)) + 4 * np.eye(4))
    wide = np.zeros((8, 8))
    wide[::2, 1::2] = a
    for given in (a, wide[::2, 1::2], a[None].repeat(2, 0)):
        x = tk.asarray(given)
        np.testing.assert_allclose(tk.linalg.inv(x).numpy(), np.linalg.inv(given), atol=1e-13)
        np.testing.assert_allclose(tk.linalg.qr(x).R.numpy(), np.linalg.qr(given).R, atol=1e-13)
        np.testing.assert_allclose(tk.linalg.vector_norm(x).item(), np.linalg.norm(given.ravel()))
        assert tk.linalg.svd(x).Vh.is_contiguous


def test_named_results() -> None:
    x = tk.eye(2)
    assert tk.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert tk.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert tk.linalg.qr(x)._fields == ("Q", "R")
    assert tk.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert tk.linalg.svd(x)._fields == ("U", "S", "Vh")


def test_names_of_both_modules_are_one_operator() -> None:
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot", "outer", "trace"):
        assert getattr(tk, name) is getattr(tk.linalg, name)


def test_integers_are_taken_as_floats() -> None:
    x = tk.asarray([[2, 0], [0, 4]])
    assert tk.linalg.inv(x).tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert tk.linalg.svd(x).S.dtype == tk.float32
    assert tk.linalg.solve(x, tk.asarray([1.0, 1.0], dtype="float64")).dtype == tk.float64


@each("dtype", ["int8", "uint16", "int64", "float16", "float32", "complex64", "bool"])
@pytest.mark.parametrize(
    "shapes",
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((2, 1, 2, 3), (4, 3, 2)),
     ((0,), (0,)), ((2, 0), (0, 2)), ((0, 2, 2), (2, 2))],
)  # fmt: skip
def test_matmul_of_every_dtype(dtype: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = ((_RNG.integers(0, 3, shape) - (dtype[0] in "ifc")).astype(dtype) for shape in shapes)
    found = tk.asarray(a) @ tk.asarray(b)
    want = np.matmul(a, b)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(found.numpy(), want)


def test_vecdot_conjugates_the_first() -> None:
    a, b = ((_RNG.standard_normal((2, 3)) + 1j * _RNG.standard_normal((2, 3))) for _ in range(2))
    np.testing.assert_allclose(tk.vecdot(tk.asarray(a), tk.asarray(b)).numpy(), np.sum(a.conj() * b, -1))
    np.testing.assert_allclose(tk.vecdot(tk.asarray(a), tk.asarray(b), axis=0).numpy(), np.sum(a.conj() * b, 0))


def test_least_squares() -> None:
    a, b = _RNG.standard_normal((5, 3)), _RNG.standard_normal((5, 2))
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    a = u * [3.0, 2.0, 0.5] @ vh  # of these singular values, whatever the tests before have drawn
    found = tk.linalg.lstsq(tk.asarray(a), tk.asarray(b))
    want = scipy.linalg.lstsq(a, b)
    for mine, other in zip(found, want, strict=True):
        np.testing.assert_allclose(mine.numpy(), other)
    with pytest.raises(TypeError, match="rcond and rtol"):
        tk.linalg.lstsq(tk.asarray(a), tk.asarray(b), 1e-3, rtol=1e-3)
    cut = tk.linalg.lstsq(tk.asarray(a), tk.asarray(b), rcond=0.5)  # some singular values count as 0
    numpys = np.linalg.lstsq(a, b, rcond=0.5)
    assert 0 < cut.rank.item() == numpys[2] < found.rank.item()
    np.testing.assert_allclose(cut.solution.numpy(), numpys[0])
    wide = tk.linalg.lstsq(tk.asarray(a.T), tk.asarray(b[:3]))
    np.testing.assert_allclose(wide.solution.numpy(), scipy.linalg.lstsq(a.T, b[:3])[0])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(100, 100), (90, 40), (40, 90), (3, 2, 35, 35), (33, 33)])
def test_lu_chooses_the_pivots_of_lapack(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.standard_normal(shape).astype(dtype)
    if dtype == "complex128":
        values = values + 1j * rng.standard_normal(shape)
    for mine, its in zip(tk.linalg.lu(tk.asarray(values)), scipy.linalg.lu(values), strict=True):
        assert mine.dtype == its.dtype
        np.testing.assert_allclose(mine.numpy(), its, atol=1e-10)


def test_lu_of_singular_matrices() -> None:
    for values in ([[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 2.0]]):
        x = tk.asarray(values)
        p, lower, upper = tk.linalg.lu(x)
        assert (p @ lower @ upper).tolist() == x.tolist()


# ---- bad input

_SQUARE = ("inv", "det", "slogdet", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "matrix_exp")
_MATRIX = (*_SQUARE, "svd", "svdvals", "qr", "lu", "pinv", "matrix_rank", "matrix_norm", "cond", "diagonal")


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", [*_SQUARE, "matrix_power"])
def test_what_is_not_square(name: str, device: str) -> None:
    more = (2,) if name == "matrix_power" else ()
    with pytest.raises(ValueError, match=r"got shape \(2, 3\): the last two dimensions must be equal") as found:
        getattr(tk.linalg, name)(tk.ones((2, 3), device=device), *more)
    assert str(found.value).startswith(f"[linalg.{name}]")


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("name", _MATRIX)
def test_what_is_no_matrix(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"it takes a matrix, or a stack of matrices") as found:
        getattr(tk.linalg, name)(tk.ones(shape))
    assert str(found.value).startswith(f"[linalg.{name}] got shape {shape}")


@pytest.mark.parametrize("name", [n for n in _MATRIX if n != "diagonal"])
def test_bools_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"\[linalg\.\w+\] is not defined for dtype bool.*tk.astype"):
        getattr(tk.linalg, name)(tk.ones((2, 2), dtype="bool"))


@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2)])
def test_singular_matrices(shape: tuple[int, ...]) -> None:
    x = tk.zeros(shape)
    with pytest.raises(tk.linalg.LinAlgError, match=r"^\[linalg.inv\] .* the matrix is singular"):
        tk.linalg.inv(x)
    with pytest.raises(ValueError, match=r"^\[linalg.solve\] .*tk.linalg.lstsq"):
        tk.linalg.solve(x, x)
    with pytest.raises(ValueError, match=r"^\[linalg.cholesky\] .*not positive definite"):
        tk.linalg.cholesky(x)
    with pytest.raises(ValueError, match=r"^\[linalg.inv\]"):
        tk.linalg.matrix_power(x, -1)
    assert (tk.linalg.det(x).numpy() == 0).all()
    assert np.isneginf(tk.linalg.slogdet(x).logabsdet.numpy()).all()
    assert (tk.linalg.pinv(x).numpy() == 0).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tk.linalg.solve(tk.eye(3), tk.ones(2)), ValueError, r"\[linalg.solve\].*M = 3"),
        (lambda: tk.linalg.solve(tk.eye(3), tk.ones((2, 2))), ValueError, r"\[linalg.solve\].*M = 3"),
        (lambda: tk.linalg.solve(tk.eye(3), tk.ones(())), ValueError, r"\[linalg.solve\].*M = 3"),
        (lambda: tk.linalg.lstsq(tk.ones((3, 2)), tk.ones(2)), ValueError, r"\[linalg.lstsq\].*M = 3"),
        (lambda: tk.linalg.qr(tk.eye(2), mode="raw"), ValueError, r"\[linalg.qr\].*'reduced' or 'complete'"),
        (lambda: tk.linalg.cross(tk.ones(2), tk.ones(2)), ValueError, r"\[linalg.cross\].*length 3"),
        (lambda: tk.linalg.cross(tk.ones(()), tk.ones(3)), IndexError, r"\[linalg.cross\] axis"),
        (lambda: tk.linalg.cross(tk.ones(3), tk.ones(3), axis=1), IndexError, r"\[linalg.cross\] axis 1"),
        (lambda: tk.vecdot(tk.ones(3), tk.ones(2)), ValueError, r"\[vecdot\].*axis -1 must have one length"),
        (lambda: tk.vecdot(tk.ones(3), tk.ones(3), axis=1), IndexError, r"\[vecdot\] axis 1"),
        (lambda: tk.vecdot(tk.ones(()), tk.ones(3)), ValueError, r"\[vecdot\].*at least one dimension"),
        (lambda: tk.vecdot(tk.ones((1,)), tk.ones(3)), ValueError, r"\[vecdot\]"),
        (lambda: tk.linalg.outer(tk.ones((2, 2)), tk.ones(2)), ValueError, r"\[outer\].*vectors"),
        (lambda: tk.linalg.trace(tk.ones(2)), ValueError, r"it takes a matrix"),
        (lambda: tk.linalg.matrix_norm(tk.eye(2), ord=3), ValueError, r"\[linalg.matrix_norm\].*ord=3"),
        (lambda: tk.linalg.matrix_norm(tk.eye(2), ord="max"), ValueError, r"\[linalg.matrix_norm\].*ord='max'"),
        (lambda: tk.linalg.vector_norm(tk.ones(3), axis=1), IndexError, r"\[linalg.vector_norm\] axis 1"),
        (lambda: tk.linalg.vector_norm(tk.ones((2, 2)), axis=(0, 0)), ValueError, r"names a dimension twice"),
        (lambda: tk.linalg.vector_norm(tk.ones(0), ord=-1), ValueError, r"\[linalg.vector_norm\] got shape \(0,\)"),
        (lambda: tk.linalg.norm(tk.ones((2, 2, 2)), 2), ValueError, r"\[linalg.norm\]"),
        (lambda: tk.linalg.norm(tk.ones(3), "fro"), ValueError, r"\[linalg.norm\].*a number for a vector"),
        (lambda: tk.linalg.norm("34"), TypeError, r"\[linalg.norm\] takes a Tensor, got str"),
        (lambda: tk.linalg.multi_dot([tk.ones((2, 2))]), ValueError, r"\[linalg.multi_dot\].*two or more"),
        (lambda: tk.linalg.multi_dot([tk.eye(2), tk.ones(2), tk.eye(2)]), ValueError, r"\[linalg.multi_dot\]"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "name", ["inv", "det", "svd", "qr", "lu", "eigh", "eig", "cholesky", "pinv", "matrix_exp", "lstsq"]
)
def test_nan_never_crashes(name: str) -> None:
    x = tk.asarray([[math.nan, 1.0], [1.0, 2.0]])
    more = (tk.ones(2),) if name == "lstsq" else ()
    try:
        found = getattr(tk.linalg, name)(x, *more)
    except np.linalg.LinAlgError as error:
        assert str(error).startswith("[linalg.")  # noqa: PT017  # NumPy has both answers
    else:
        flat = [found] if isinstance(found, tk.Tensor) else list(found)
        assert any(np.isnan(t.numpy()).any() for t in flat)


_M: Any = [[2.0, 1.0], [1.0, 3.0]]
_HALF: dict[str, Any] = {
    "vector_norm": tk.linalg.vector_norm, "norm": lambda x: tk.linalg.norm(x, np.inf),
    "matrix_norm": tk.linalg.matrix_norm, "cond": tk.linalg.cond, "det": tk.linalg.det, "inv": tk.linalg.inv,
    "slogdet": lambda x: tk.linalg.slogdet(x)[1], "svdvals": tk.linalg.svdvals, "cholesky": tk.linalg.cholesky,
    "svd": lambda x: tk.linalg.svd(x)[1], "qr": lambda x: tk.linalg.qr(x)[1], "pinv": tk.linalg.pinv,
    "eigh": lambda x: tk.linalg.eigh(x)[0], "eigvalsh": tk.linalg.eigvalsh, "lu": lambda x: tk.linalg.lu(x)[2],
    "eig": lambda x: tk.linalg.eig(x)[0], "eigvals": tk.linalg.eigvals, "matrix_exp": tk.linalg.matrix_exp,
    "solve": lambda x: tk.linalg.solve(x, x[0]), "lstsq": lambda x: tk.linalg.lstsq(x, x[0])[0],
    "fft": tk.fft.fft, "ifft": tk.fft.ifft, "rfft": tk.fft.rfft, "irfft": tk.fft.irfft, "fftn": tk.fft.fftn,
    "hfft": tk.fft.hfft,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", _HALF.values(), ids=_HALF)
def test_half_precisions_are_computed_in_float32_and_rounded(function: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes")
    x, wide = (tk.asarray(_M).astype(d).requires_grad_() for d in (dtype, "float32"))
    found, want = function(x), function(wide)
    assert found.dtype.name == ("complex64" if want.dtype.kind == "c" else dtype)
    assert found.tolist() == want.astype(found.dtype).tolist()
    on_meta = function(x.detach().to("meta"))
    assert (on_meta.shape, on_meta.dtype) == (found.shape, found.dtype)
    for y in (found, want):
        tk.sum(tk.abs(y) ** 2).backward()
    assert x.grad is not None
    assert wide.grad is not None
    assert x.grad.dtype.name == dtype
    rounding = 0.02 if dtype == "float16" else 0.2
    np.testing.assert_allclose(x.grad.astype("float32").numpy(), wide.grad.numpy(), rounding / 2, rounding)


def test_half_precisions_beside_others() -> None:
    half, single = tk.asarray(_M).astype("float16"), tk.asarray(_M)
    assert tk.linalg.solve(half, single).dtype == tk.float32
    assert tk.linalg.solve(half, single.astype("float64")).dtype == tk.float64
    assert tk.linalg.solve(half, tk.asarray([1, 2])).dtype == tk.float16
    assert tk.linalg.lstsq(half.to("meta"), tk.asarray([1, 2]).to("meta")).solution.dtype == tk.float16
    assert tk.linalg.matrix_rank(half).item() == 2


def test_diagonals_of_empty_stacks() -> None:
    x = tk.zeros((4, 5, 0, 1))
    assert tk.diagonal(x, offset=-2).shape == (0, 1, 2)
    assert tk.diagonal(x, offset=3).shape == (0, 1, 2)
    assert tk.diagonal(tk.zeros(3)[1:1].reshape((4, 5, 0)), offset=-2).shape == (0, 2)


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (3, None), (0, 3), (3, 0)])
def test_diagonals_beyond_every_matrix(shape: tuple[int, int | None]) -> None:
    for k in range(-6, 7):
        np.testing.assert_array_equal(tk.tri(*shape, k=k).numpy(), np.tri(*shape, k))
    for k in (2**40, 2**70):
        assert tk.tri(*shape, k=k).numpy().all()
        assert not tk.tri(*shape, k=-k).numpy().any()
        assert not tk.eye(*shape, k=k).numpy().any()
        x = tk.ones((2, 3))
        assert tk.tril(x, k=k).tolist() == x.tolist()
        assert not tk.triu(x, k=k).numpy().any()
