"""opt_einsum infers the backend "tenkey" from the operands, and contracts with our einsum and tensordot."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk

oe = pytest.importorskip("opt_einsum", minversion="3.3")

EQUATIONS = ["ab,bc,cd->ad", "ab,ab->", "abc,bcd,dea->e", "i,j,k->kji", "aab,b->a", "ab->ba", "...a,ab->...b", "a,a,a"]
SIZES = dict(zip("abcdeijk", (2, 3, 4, 2, 3, 4, 2, 3), strict=True))


def _operands(equation: str) -> list[tk.Tensor]:
    terms = equation.split("->", maxsplit=1)[0].split(",")
    return [
        tk.random.normal((*([5] if "..." in term else []), *(SIZES[c] for c in term.strip("."))), dtype=tk.float64)
        for term in terms
    ]


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("backend", ["auto", "tenkey"])
def test_contract(equation: str, backend: str) -> None:
    operands = _operands(equation)
    got = oe.contract(equation, *operands, backend=backend)
    assert type(got) is tk.Tensor
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *[x.numpy() for x in operands]), rtol=1e-10)


def test_expressions_with_constants_and_shared_intermediates() -> None:
    a, b, c = _operands("ab,bc,cd->ad")
    expression = oe.contract_expression("ab,bc,cd->ad", a.shape, b, c, constants=[1, 2])
    want = a.numpy() @ b.numpy() @ c.numpy()
    np.testing.assert_allclose(expression(a).numpy(), want)
    np.testing.assert_allclose(expression(a, backend="tenkey").numpy(), want)
    with oe.shared_intermediates() as cache:
        first = oe.contract("ab,bc,cd->ad", a, b, c)
        before = len(cache)
        assert oe.contract("ab,bc,cd->ad", a, b, c) is first
        assert len(cache) == before
    path, info = oe.contract_path("ab,bc,cd->ad", a, b, c)
    assert len(path) == 2
    assert info.output_subscript == "ad"


def test_results_into_a_given_tensor() -> None:
    a, b, c = _operands("ab,bc,cd->ad")
    out = tk.zeros((2, 2), dtype=tk.float64)
    assert oe.contract("ab,bc,cd->ad", a, b, c, out=out) is out
    np.testing.assert_allclose(out.numpy(), a.numpy() @ b.numpy() @ c.numpy())
    with pytest.raises(ValueError, match="out= of shape"):
        tk.einsum("ab,bc->ac", a, b, out=tk.zeros(3))


def test_gradients_go_through() -> None:
    a, b = (x.requires_grad_() for x in _operands("ab,bc"))
    oe.contract("ab,bc->", a, b).backward()
    np.testing.assert_allclose(a.grad.numpy(), np.broadcast_to(b.detach().numpy().sum(1), (2, 3)))
