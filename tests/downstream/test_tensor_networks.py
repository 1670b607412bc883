"""autoray finds functions by the class of an array; cotengra and quimb compute through it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

ar = pytest.importorskip("autoray", minversion="0.7")
with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
    warnings.simplefilter("ignore")  # cotengra names the packages that it could use as well
    patched.setattr(
        numba.config, "DISABLE_JIT", True
    )  # quimb compiles when it is imported, for 10 s; arrays of NumPy only
    ctg = pytest.importorskip("cotengra", minversion="0.7")
    pytest.importorskip("quimb", minversion="1.11")
    qtn = pytest.importorskip("quimb.tensor")

pytestmark = pytest.mark.filterwarnings("ignore:Couldn't import `kahypar`")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> None:
    """What a program of a user of these libraries says first."""
    ar.register_backend(tk.Tensor, "tenkey.numpy")
    ar.register_backend(tnp.ndarray, "tenkey.numpy")
    ar.register_function("tenkey.numpy", "linalg.svd", ar.autoray.svd_not_full_matrices_wrapper, wrap=True)


def _gram_schmidt(x: Any) -> Any:
    """Return orthonormal rows of the same span: the example in autoray's documents."""
    rows: list[Any] = []
    for j in range(ar.do("shape", x)[0]):
        q = x[j]
        for r in rows:
            q = q - ar.do("sum", r * x[j]) * r
        rows.append(q / ar.do("linalg.norm", q))
    return ar.do("stack", rows)


AUTORAY: dict[str, Callable[[Any], Any]] = {
    "Gram-Schmidt": _gram_schmidt,
    "names of NumPy": lambda x: ar.do("concatenate", [ar.do("power", ar.do("absolute", x), 0.5), ar.do("mod", x, 0.3)]),
    "creation": lambda x: ar.do("eye", 3, like=x) + ar.do("zeros", (3,), like=x) + ar.do("arange", 3, like=x),
    "thin singular vectors": lambda x: ar.do("linalg.svd", x)[0] @ ar.do("linalg.svd", x)[2] + x,
    "least squares": lambda x: ar.do("linalg.solve", ar.do("dot", x.T, x), ar.do("transpose", x)),
    "selection": lambda x: ar.do("where", x > 0, ar.do("clip", x, 0.1, 0.5), ar.do("take", x, [2, 0, 1], axis=1)),
    "pad, einsum": lambda x: ar.do("einsum", "ab,cb->ac", x, ar.do("pad", x, ((1, 0), (0, 0)))),
    "dtypes, squeeze": lambda x: ar.do("squeeze", ar.do("conj", ar.astype(x[None], "complex64") * 1j)),
}  # fmt: skip


@pytest.mark.parametrize("name", AUTORAY)
@pytest.mark.parametrize("convert", [tnp.array, tk.asarray])
def test_autoray(name: str, convert: Callable[[Any], Any]) -> None:
    got, want = AUTORAY[name](convert(X.copy())), AUTORAY[name](X)
    assert isinstance(got, tk.Tensor)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(ar.to_numpy(got), want, atol=1e-12)


@pytest.mark.parametrize("slices", [1, 4])
def test_cotengra_contracts_a_lattice(slices: int) -> None:
    inputs, output, shapes, sizes = ctg.utils.lattice_equation([3, 3], d_min=2, d_max=3, seed=1)
    arrays = [RNG.normal(size=shape) for shape in shapes]
    tree = ctg.array_contract_tree(inputs, output, sizes, shapes=shapes, optimize="greedy")
    tree.slice_(target_slices=slices)
    assert tree.nslices >= slices
    equation = ",".join(map("".join, inputs)) + "->"
    want = np.einsum(equation, *arrays, optimize="greedy")
    tensors = [tnp.array(x) for x in arrays]
    got = tree.contract(tensors)
    assert isinstance(got, (tk.Tensor, np.generic))  # numbers are NumPy's scalars, which show no origin
    np.testing.assert_allclose(float(got), want, rtol=1e-10)
    gradient = tk.grad(lambda x: tree.contract([x, *tensors[1:]]))(tensors[0])
    rest = np.einsum(",".join(map("".join, inputs[1:])) + "->" + "".join(inputs[0]), *arrays[1:], optimize="greedy")
    np.testing.assert_allclose(gradient.numpy(), rest, rtol=1e-9)  # the value is linear in each array


def _state(sites: int = 8, bond: int = 6, dtype: str = "float64") -> tuple[Any, Any]:
    """Return a random matrix-product state of arrays, and the same of tensors."""
    arrays = qtn.MPS_rand_state(sites, bond, dtype=dtype, seed=1)
    tensors = arrays.copy()
    tensors.apply_to_arrays(tnp.array)
    return arrays, tensors


@pytest.mark.parametrize("options", [{"max_bond": 3}, {"cutoff": 1e-2}, {"max_bond": 4, "method": "svd:eig"}])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_quimb_compresses_a_state(options: dict[str, Any], dtype: str) -> None:
    arrays, tensors = _state(dtype=dtype)
    for state in (arrays, tensors):
        state.compress(**options)
    assert all(isinstance(x.data, tk.Tensor) for x in tensors)
    assert tensors.bond_sizes() == arrays.bond_sizes()
    np.testing.assert_allclose(np.asarray(tensors.to_dense()), arrays.to_dense(), atol=1e-10)


def test_quimb_keeps_the_best_approximation_of_two_halves() -> None:
    matrix = RNG.normal(size=(8, 8))
    network = qtn.MatrixProductState.from_dense(tnp.array(matrix.ravel()), dims=[8, 8])
    network.compress(max_bond=3, cutoff=0.0)
    u, s, vh = np.linalg.svd(matrix)  # the best of rank 3, by Eckart, Young and Mirsky
    np.testing.assert_allclose(np.asarray(network.to_dense()).reshape(8, 8), (u[:, :3] * s[:3]) @ vh[:3], atol=1e-12)


QUIMB: dict[str, Callable[[Any], Any]] = {
    "norm of a lattice state": lambda to: to(qtn.PEPS.rand(3, 3, 2, seed=2)).make_norm().contract_boundary(max_bond=8),
    "compressed contraction": lambda to: to(qtn.TN2D_rand(4, 4, 3, seed=1)).contract_compressed("greedy", max_bond=8),
    "canonical form": lambda to: to(qtn.MPS_rand_state(6, 4, seed=3)).canonicalize(2)[2].norm(),
}  # fmt: skip


@pytest.mark.parametrize("name", QUIMB)
@pytest.mark.filterwarnings("ignore:The contraction tree is not a compressed one")
def test_quimb_contracts(name: str) -> None:
    def tensors(network: Any) -> Any:
        network.apply_to_arrays(tnp.array)
        return network

    got = QUIMB[name](tensors)
    assert isinstance(got, (tk.Tensor, np.generic))
    np.testing.assert_allclose(complex(got), complex(QUIMB[name](lambda network: network)), rtol=1e-10)


def test_quimb_runs_a_circuit() -> None:
    circuit = qtn.CircuitMPS(4, to_backend=tnp.array)
    for site in range(4):
        circuit.h(site)
    for site in range(3):
        circuit.cz(site, site + 1)
        circuit.ry(0.3 * site, site)
    state = np.ones(16) / 4
    for site in range(3):
        bits = np.array(list(itertools.product([0, 1], repeat=4)))
        state = state * (1 - 2 * bits[:, site] * bits[:, site + 1])
        c, s = np.cos(0.15 * site), np.sin(0.15 * site)
        turned = np.tensordot([[c, -s], [s, c]], state.reshape(2**site, 2, -1), axes=(1, 1))
        state = turned.swapaxes(0, 1).ravel()
    assert isinstance(circuit.psi[0].data, tk.Tensor)
    np.testing.assert_allclose(np.asarray(circuit.to_dense(optimize="greedy")).ravel(), state, atol=1e-12)


def test_gradient_descent_finds_a_ground_state() -> None:
    """Minimize the energy of a matrix-product state, as quimb's optimizer does with other libraries' gradients."""
    from scipy.optimize import minimize

    sites = 4
    hamiltonian = qtn.MPO_ham_heis(sites)
    exact = np.linalg.eigvalsh(hamiltonian.to_dense())[0]
    start, operator = qtn.MPS_rand_state(sites, 4, seed=2), hamiltonian.copy()
    operator.apply_to_arrays(tnp.array)
    shapes = [site.shape for site in start]
    ends = np.cumsum([np.prod(shape) for shape in shapes])

    def energy(parameters: Any) -> Any:
        state = start.copy()
        parts = tnp.split(parameters, ends[:-1].tolist())
        for site, shape, part in zip(state, shapes, parts, strict=True):
            site.modify(data=part.reshape(shape))
        bra, middle, ket = qtn.tensor_network_align(state.H, operator, state)
        return (bra & middle & ket).contract(optimize="greedy") / (bra & bra.H).contract(optimize="greedy")

    value_and_grad = tk.value_and_grad(energy)

    def objective(x: Any) -> Any:
        value, gradient = value_and_grad(tnp.array(x))
        return float(value), gradient.numpy()

    first = np.concatenate([site.data.ravel() for site in start])
    step = 1e-5 * RNG.normal(size=first.shape)
    change = objective(first + step)[0] - objective(first - step)[0]
    np.testing.assert_allclose(2 * objective(first)[1] @ step, change, rtol=1e-6)
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    np.testing.assert_allclose(found.fun, exact, rtol=1e-5)
