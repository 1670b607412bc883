"""``tk.einsum`` against NumPy's, in both forms, and as opt_einsum's backend."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey.autograd import gradcheck
from tenkey.ops.builtin.linalg import einsum as module
from tests._tiers import tier

_RNG = np.random.default_rng(0)


def _operands(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    return [_RNG.standard_normal(shape) for shape in shapes]


_CASES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ba", [(2, 3)]),
    ("b a -> a b", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("iii->i", [(3, 3, 3)]),
    ("iij->j", [(2, 2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("...", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("i...,i...->...", [(3, 2), (3, 2)]),
    ("...i,ij,...j", [(2, 3), (3, 4), (5, 2, 4)]),
    (",ij->ij", [(), (2, 3)]),
    (",", [(), ()]),
    ("i,j,k,l,m->mlkji", [(2,), (3,), (2,), (1,), (2,)]),
    ("ab,bc,cd,de,ef->af", [(2, 3), (3, 4), (4, 2), (2, 5), (5, 2)]),
    ("abc,abd,acd->bcd", [(2, 3, 4), (2, 3, 2), (2, 4, 2)]),
    ("ab,ab,ab->", [(2, 3), (2, 3), (2, 3)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("i,i", [(1,), (3,)]),
    ("ij,j->ij", [(2, 1), (3,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("i,j->ij", [(0,), (3,)]),
]


@pytest.mark.parametrize(("text", "shapes"), _CASES)
@pytest.mark.parametrize("optimizer", [True, False])
def test_as_numpy(text: str, shapes: list[tuple[int, ...]], optimizer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if optimizer:
        pytest.importorskip("opt_einsum")
    else:
        monkeypatch.setattr(module, "_optimizer", lambda: None)
    arrays = _operands(*shapes)
    found = tk.einsum(text, *map(tk.asarray, arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(text, *arrays), atol=1e-13)


@st.composite
def _expressions(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    sizes = {label: draw(st.integers(0 if label == "a" else 1, 3)) for label in "abcd"}
    terms = draw(st.lists(st.text("abcd", min_size=0, max_size=4), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    result = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
    text = ",".join(terms) + ("->" + "".join(result) if draw(st.booleans()) else "")
    return text, [tuple(sizes[label] for label in term) for term in terms]


@pytest.mark.wider
@settings(max_examples=tier(50, 200), deadline=None)
@given(_expressions())
def test_any_expression(expression: tuple[str, list[tuple[int, ...]]]) -> None:
    text, shapes = expression
    arrays = _operands(*shapes)
    found = tk.einsum(text, *map(tk.asarray, arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(text, *arrays), atol=1e-12)


def test_the_interleaved_form() -> None:
    x, y = _operands((2, 3), (3, 4))
    a, b = tk.asarray(x), tk.asarray(y)
    np.testing.assert_allclose(tk.einsum(a, [0, 1], b, [1, 2], [2, 0]).numpy(), np.einsum(x, [0, 1], y, [1, 2], [2, 0]))
    np.testing.assert_allclose(tk.einsum(a, [30, 2]).numpy(), np.einsum(x, [30, 2]))
    np.testing.assert_allclose(tk.einsum(a, [Ellipsis, 0], b, [0, 1]).numpy(), np.einsum(x, [Ellipsis, 0], y, [0, 1]))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex64", "bool"])
def test_dtypes(dtype: str) -> None:
    x = _RNG.integers(0, 3, (3, 3)).astype(dtype)
    for text in ("ij,jk->ik", "ij,ij->", "ij->j", "ii->i", "i,j->ij"):
        arrays = [x[:, 0].copy()] * 2 if text == "i,j->ij" else [x] * (text.count(",") + 1)
        found = tk.einsum(text, *map(tk.asarray, arrays))
        want = np.einsum(text, *arrays)
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,ij->", "ij,kj->jik"])
def test_gradients(text: str) -> None:
    x, y = (tk.tensor(a, requires_grad=True) for a in _operands((3, 3), (3, 3)))
    assert gradcheck(lambda a, b: tk.einsum(text, a, b), (x, y))


def test_the_pair_with_the_smallest_product_comes_first() -> None:
    sizes = {"a": 2, "b": 100, "c": 3, "d": 50}  # ac: 6 elements, bd: 5000, abcd: 30000
    assert module._next_pair(["ab", "bc", "cd"], "ad", sizes) == (0, 1)
    assert module._next_pair(["ab", "bc", "cd"], "ad", {**sizes, "a": 40, "b": 4, "d": 5}) == (1, 2)  # bd: 20, ac: 120


def test_results_are_copies() -> None:
    x = tk.ones((3, 3))
    for text in ("ij", "ij->ji", "ii->i", "...", "ij->ij"):
        assert not tk.shares_storage(tk.einsum(text, x), x)


def test_it_is_vmapped() -> None:
    x, y = _operands((4, 2, 3), (3, 2))
    found = tk.transforms.vmap(lambda a: tk.einsum("ij,jk->ik", a, tk.asarray(y)))(tk.asarray(x))
    np.testing.assert_allclose(found.numpy(), x @ y)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: tk.einsum("ij,jk->ik", x), ValueError, "has 2 terms, and 1 operands"),
        (lambda x: tk.einsum("ijk->i", x), ValueError, "has 3 labels"),
        (lambda x: tk.einsum("i->i", x), ValueError, "has 1 labels"),
        (lambda x: tk.einsum("ii->i", x), ValueError, "label 'i'.*length 2 in one place and 3"),
        (lambda x: tk.einsum("ij->k", x), ValueError, "label 'k' of the result"),
        (lambda x: tk.einsum("ij->ii", x), ValueError, "label twice"),
        (lambda x: tk.einsum("i1->i", x), ValueError, "terms are letters"),
        (lambda x: tk.einsum("i......->i", x), ValueError, "terms are letters"),
        (lambda x: tk.einsum("ij->i->j", x), ValueError, "terms are letters"),
        (lambda x: tk.einsum("ij"), ValueError, "at least one operand"),
        (lambda x: tk.einsum("ij", {1.0}), TypeError, "takes a Tensor, got set"),
        (lambda x: tk.einsum(x, [0, 99]), ValueError, "integers from 0 to 51"),
        (lambda x: tk.einsum(x, "ij"), ValueError, "integers from 0 to 51"),
    ],
)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as found:
        call(tk.ones((2, 3)))
    assert str(found.value).startswith("[einsum]")


def test_opt_einsum_uses_it_as_a_backend() -> None:
    opt_einsum = pytest.importorskip("opt_einsum")
    arrays = _operands((2, 3), (3, 4), (4, 5), (5, 2))
    tensors = [tk.tensor(a, requires_grad=True) for a in arrays]
    for text in ("ab,bc,cd,da->", "ab,bc,cd,de->ae", "ab,bc,cd,da->ac"):
        found = opt_einsum.contract(text, *tensors, backend="tenkey")
        assert isinstance(found, tk.Tensor)
        np.testing.assert_allclose(found.detach().numpy(), np.einsum(text, *arrays), atol=1e-12)
        found = opt_einsum.contract(text, *tensors)  # the backend is found by the operands
        assert isinstance(found, tk.Tensor)
        assert found.requires_grad


def test_opt_einsum_is_not_imported_with_tenkey() -> None:
    import subprocess

    code = "import sys, tenkey; sys.exit('opt_einsum' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 1), (1, 0)), (1, 0), ([-1], [0])])
def test_tensordot(axes: Any) -> None:
    x, y = _operands((3, 3), (3, 3))
    np.testing.assert_allclose(tk.tensordot(tk.asarray(x), tk.asarray(y), axes=axes).numpy(), np.tensordot(x, y, axes))


@pytest.mark.parametrize(
    ("axes", "error"),
    [(-1, ValueError), (3, ValueError), (((0,), (1, 0)), ValueError), ((5, 0), IndexError), ((0, 1, 2), ValueError)],
)
def test_tensordot_errors(axes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\[tensordot\]"):
        tk.tensordot(tk.ones((2, 2)), tk.ones((2, 2)), axes=axes)


def test_the_method_transpose() -> None:
    x = tk.ones((2, 3, 4))
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose(0, 2, 1).shape == x.transpose((0, 2, 1)).shape == (2, 4, 3)
    assert tk.shares_storage(x, x.transpose())
    with pytest.raises(ValueError, match="must name each of the 3 dimensions"):
        x.transpose(0, 1)
