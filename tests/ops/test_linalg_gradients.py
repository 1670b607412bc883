"""Gradients of linear algebra where the tables do not go: coincidences, singular matrices, several uses of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.core.tensor import Tensor
from tenkey.transforms import hessian

_RNG = np.random.default_rng(0)


def _leaf(values: Any) -> Tensor:
    return tk.tensor(np.asarray(values), requires_grad=True)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_determinant_of_singular_matrices(rank: int, dtype: str) -> None:
    a, b = _RNG.standard_normal((2, 3, 3))
    values = (a[:, :rank] @ b[:rank]).astype(dtype)
    if dtype == "complex128":
        values = values * (1 + 0.5j)
    x = _leaf(values)
    assert gradcheck(tk.linalg.det, (x,))
    assert gradgradcheck(tk.linalg.det, (x,))
    (found,) = tk.autograd.grad(tk.linalg.det(x), x, tk.ones((), dtype=dtype))
    assert found is not None
    # the cofactors, by minors
    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(values, i, 0), j, 1)) for j in range(3)] for i in range(3)
    ]
    np.testing.assert_allclose(found.numpy(), np.conj(cofactors), atol=1e-12)


def test_second_derivatives_of_the_largest_determinant_that_is_exact_for_singular_matrices() -> None:
    a, b = _RNG.standard_normal((2, 6, 6))
    assert gradgradcheck(tk.linalg.det, (_leaf(a[:, :5] @ b[:5]),))


def test_qr_of_a_stack_of_wide_matrices() -> None:
    x = _leaf(_RNG.standard_normal((3, 2, 4)))
    assert gradcheck(lambda a: tuple(tk.linalg.qr(a)), (x,))


def test_determinant_of_larger_matrices() -> None:
    x = _leaf(_RNG.standard_normal((8, 8)))
    assert gradcheck(tk.linalg.det, (x,))
    assert gradgradcheck(tk.linalg.det, (x,))


def test_sign_of_a_complex_determinant() -> None:
    x = _leaf(_RNG.standard_normal((3, 3)) + 1j * _RNG.standard_normal((3, 3)))
    assert gradcheck(lambda a: tk.linalg.slogdet(a).sign, (x,))
    assert gradcheck(lambda a: tk.linalg.slogdet(a).logabsdet, (x,))


@pytest.mark.parametrize("values", [np.diag([1.0, 1.0, 2.0]), np.eye(3), np.zeros((3, 3))])
def test_values_that_are_equal_have_gradients_and_their_vectors_nan(values: Any) -> None:
    x = _leaf(values)
    (found,) = tk.autograd.grad((tk.linalg.eigh(x).eigenvalues ** 2).sum(), x)  # the trace of x x
    assert found is not None
    np.testing.assert_allclose(found.numpy(), 2 * values, atol=1e-12)
    (found,) = tk.autograd.grad((tk.linalg.svd(x).S ** 2).sum(), x)
    assert found is not None
    np.testing.assert_allclose(found.numpy(), 2 * values, atol=1e-12)
    for vectors in (tk.linalg.eigh(x).eigenvectors, tk.linalg.svd(x).U):
        (found,) = tk.autograd.grad(vectors, x, tk.ones_like(vectors))
        assert found is not None
        assert np.isnan(found.numpy()).any()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_decompositions_put_together_are_the_identity(shape: tuple[int, int], dtype: str) -> None:
    values = _RNG.standard_normal(shape) + 1j * _RNG.standard_normal(shape)
    x = _leaf(values if dtype == "complex128" else values.real)
    g = tk.asarray(_RNG.standard_normal(shape).astype(dtype))

    def by_svd(a: Tensor) -> Tensor:
        u, s, vh = tk.linalg.svd(a, full_matrices=False)
        made: Tensor = (u * s) @ vh
        return made

    def by_qr(a: Tensor) -> Tensor:
        q, r = tk.linalg.qr(a)
        made: Tensor = q @ r
        return made

    for function in (by_svd, by_qr):
        (found,) = tk.autograd.grad(function(x), x, g)
        assert found is not None
        np.testing.assert_allclose(found.numpy(), g.numpy(), atol=1e-10)


def test_one_result_alone() -> None:
    x = _leaf(_RNG.standard_normal((3, 3)) + 3 * np.eye(3))
    for function in (
        lambda a: tk.linalg.qr(a).R,
        lambda a: tk.linalg.qr(a).Q,
        lambda a: tk.linalg.svd(a).S,
        lambda a: tk.linalg.eig(a).eigenvalues,
        lambda a: tk.linalg.eigh(a + tk.matrix_transpose(a)).eigenvalues,
    ):
        assert gradcheck(function, (x,))
        assert gradgradcheck(function, (x,))


def test_forward_mode_of_several_results() -> None:
    values, direction = _RNG.standard_normal((2, 3, 3))
    values = values + values.T
    out, tangent = tk.transforms.jvp(
        lambda a: tk.linalg.eigh(a).eigenvalues, (tk.asarray(values),), (tk.asarray(direction + direction.T),)
    )
    v = np.linalg.eigh(values)[1]
    np.testing.assert_allclose(tangent.numpy(), np.diag(v.T @ (direction + direction.T) @ v), atol=1e-12)
    np.testing.assert_allclose(out.numpy(), np.linalg.eigvalsh(values))


def test_vmap_of_several_results() -> None:
    values = _RNG.standard_normal((4, 3, 3))
    found = tk.transforms.vmap(lambda a: tk.linalg.svd(a).S)(tk.asarray(values))
    np.testing.assert_allclose(found.numpy(), np.linalg.svd(values).S, atol=1e-12)
    inverse = tk.transforms.vmap(tk.linalg.inv)(tk.asarray(values))
    np.testing.assert_allclose(inverse.numpy(), np.linalg.inv(values), atol=1e-12)


@pytest.mark.parametrize("name", ["slogdet", "eigh", "eig", "svd", "qr", "lu", "cholesky", "eigvalsh"])
def test_vmap_takes_the_samples_as_a_stack(name: str) -> None:
    a = _RNG.standard_normal((4, 3, 3))
    stack = a @ np.swapaxes(a, -1, -2) + np.eye(3)
    found = tk.transforms.vmap(getattr(tk.linalg, name), in_dims=1)(tk.asarray(np.moveaxis(stack, 0, 1)))
    want = getattr(tk.linalg, name)(tk.asarray(stack))
    for one, other in zip(*([t] if isinstance(t, Tensor) else t for t in (found, want)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)


def test_a_real_tensor_times_a_complex_number() -> None:
    x = _leaf([1.0, 2.0])
    assert gradcheck(lambda a: a * 1j, (x,))
    assert gradgradcheck(lambda a: a * a * (2 + 1j), (x,))


@pytest.mark.parametrize("name", ["slogdet", "eigh", "svd", "qr"])
def test_hessians_of_several_results(name: str) -> None:
    x = tk.asarray(np.diag([1.0, 2.0, 3.0]) + 0.1)
    function = lambda a: getattr(tk.linalg, name)(a)[1].sum()  # noqa: E731
    hessian = tk.transforms.hessian(function)(x)
    other = tk.transforms.jacrev(tk.transforms.grad(function))(x)
    np.testing.assert_allclose(hessian.numpy(), other.numpy(), atol=1e-12)
    forward = tk.transforms.jacfwd(function)(x)
    np.testing.assert_allclose(forward.numpy(), tk.transforms.grad(function)(x).numpy(), atol=1e-12)


@pytest.mark.parametrize("ord", [1, -1, 1.5, 2, 3, np.inf, -np.inf])
@pytest.mark.parametrize("values", [[0.0, 2.0], [0.0, -2.0, 3.0], [0.0, 0.0], [1.0, -2.0]])
def test_second_derivatives_of_norms_where_an_element_is_zero(ord: float, values: list[float]) -> None:
    """Like the subgradient at zero, what is not differentiable twice counts as zero; the rest is by the formula."""
    z = np.asarray(values)
    with np.errstate(divide="ignore"):
        size = np.linalg.norm(z, ord)
    want = np.zeros((z.size, z.size))
    if size and abs(ord) != np.inf and ord != 1:
        # n' = s |z|^(p-1) n^(1-p), for the elements that are not zero
        unit = np.sign(z) * np.abs(np.where(z, z, 1.0) / size) ** (ord - 1)
        own = np.where(z, np.abs(np.where(z, z, 1.0) / size) ** (ord - 2), 1.0 if ord == 2 else 0.0)
        want = (ord - 1) / size * (np.diag(own) - np.outer(unit, unit))
    for function in (
        lambda x: tk.linalg.vector_norm(x, ord=ord),
        lambda x: tk.linalg.norm(x, ord),
    ):
        np.testing.assert_allclose(hessian(function)(_leaf(z)).detach().numpy(), want, atol=1e-12)


@pytest.mark.parametrize("ord", [1, -1, np.inf, -np.inf])
def test_second_derivatives_of_matrix_norms_of_sums_are_zero(ord: float) -> None:
    x = _leaf([[0.0, 2.0], [0.0, -1.0]])
    for function in (tk.linalg.matrix_norm, tk.linalg.norm):
        assert not hessian(lambda x, f=function: f(x, ord=ord))(x).detach().numpy().any()


@pytest.mark.parametrize("ord", [1, 1.5, np.inf, -np.inf])
def test_second_derivatives_of_complex_norms(ord: float) -> None:
    x = _leaf([3.0 + 4.0j, -1.0 + 1.0j, 0.5j])
    assert gradgradcheck(lambda x: tk.linalg.vector_norm(x, ord=ord), (x,))
