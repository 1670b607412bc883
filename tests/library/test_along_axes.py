"""``tk.library.scan``, ``gather`` and ``scatter``: values, derivatives, vmap, devices, mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.backends import coverage, strict_fallback
from tenkey.dispatch import registry
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import scalar as s
from tests._reference_device import Reference

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _remove_operators() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in sorted(set(registry.operators) - before, key=len, reverse=True):
        if name.startswith("rows::") and name in registry.operators:
            registry.undefine(registry.operators[name], keep_kernels=False)


@pytest.fixture
def device() -> Iterator[str]:
    with tk.backends.register(Reference()):
        yield "reference"


def recurrence(options: str = "") -> Any:
    return tk.library.scan(
        f"rows::recurrence(Tensor a, Tensor b, int axis{options}) -> Tensor",
        combine=lambda T: lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1),
        identity=(1.0, 0.0),
    )


def _recurrence(a: Any, b: Any) -> Any:
    out = [b[0]]
    for x, y in zip(a[1:], b[1:], strict=True):
        out.append(y + x * out[-1])
    return np.stack(out)


def leaf(*shape: int) -> tk.Tensor:
    return tk.asarray(RNG.standard_normal(shape)).requires_grad_()


# ---- scans


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 33])
def test_running_results_of_every_length(n: int) -> None:
    op = recurrence(", bool reverse=False, bool include_initial=False")
    a, b = RNG.standard_normal((n, 2)), RNG.standard_normal((n, 2))
    x, y = tk.asarray(a), tk.asarray(b)
    want = _recurrence(a, b)
    np.testing.assert_allclose(op(x, y, 0).numpy(), want, rtol=1e-10, strict=True)
    np.testing.assert_allclose(op(x.mT, y.mT, 1).numpy(), want.T, rtol=1e-10, strict=True)
    np.testing.assert_allclose(op(x, y, -2, True).numpy(), _recurrence(a[::-1], b[::-1])[::-1], rtol=1e-10)
    initial = op(x, y, 0, include_initial=True).numpy()
    np.testing.assert_allclose(initial, np.concatenate([np.zeros((1, 2)), want]), rtol=1e-10)


def test_all_parts_of_the_elements() -> None:
    op = tk.library.scan(
        "rows::both(Tensor a, Tensor b, int axis) -> (Tensor, Tensor)",
        combine=lambda T: lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1),
    )
    a, b = RNG.standard_normal(6), RNG.standard_normal(6)
    products, sums = op(tk.asarray(a), tk.asarray(b), 0)
    np.testing.assert_allclose(products.numpy(), np.cumprod(a))
    np.testing.assert_allclose(sums.numpy(), _recurrence(a, b))


def test_dtypes() -> None:
    largest = tk.library.scan(
        "rows::largest(Tensor x, int axis) -> Tensor", combine=lambda T: lambda a, b: s.maximum(a, b)
    )
    total = tk.library.scan("rows::total(Tensor x, int axis) -> Tensor", combine=lambda T: lambda a, b: a + b)
    for dtype in (tk.int8, tk.uint8, tk.int64, tk.float16, tk.float32):
        values = tk.asarray([3, 1, 4, 1, 5], dtype=dtype)
        assert largest(values, 0).tolist() == [3, 3, 4, 4, 5]
        assert largest(values, 0).dtype == dtype
        assert total(values, 0).tolist() == [3, 4, 8, 9, 14]
    assert total(tk.asarray([True, True, False]), 0).tolist() == [1, 2, 2]  # bools are counted
    assert total(tk.asarray([1j, 2.0]), 0).tolist() == [1j, 2 + 1j]
    with pytest.raises(TypeError, match="complex64"):
        largest(tk.asarray([1j]), 0)
    assert largest(tk.zeros((0, 3)), 0).shape == (0, 3)


def test_a_first_element_without_a_later_one() -> None:
    latest = tk.library.scan(
        "rows::latest(Tensor x, int axis) -> Tensor", combine=lambda T: lambda a, b: s.where(b != 0, b, a)
    )
    assert latest(tk.asarray([0.0, 3.0, 0.0, 0.0, 7.0, 0.0]), 0).tolist() == [0, 3, 3, 3, 7, 7]


def test_derivatives_of_scans() -> None:
    op = recurrence(", bool reverse=False")
    for reverse in (False, True):
        assert gradcheck(lambda a, b, r=reverse: op(a, b, 0, r), (leaf(5, 2), leaf(5, 2)))
        assert gradgradcheck(lambda a, b, r=reverse: op(a, b, 0, r), (leaf(3), leaf(3)))
    smooth = tk.library.scan(
        "rows::smooth(Tensor x, int axis) -> Tensor", combine=lambda T: lambda a, b: s.logaddexp(a, b)
    )
    assert gradcheck(lambda x: smooth(x, 1), (leaf(2, 6),))
    assert gradgradcheck(lambda x: smooth(x, 0), (leaf(4),))
    x = leaf(4)
    third = x
    value = tk.sum(smooth(x, 0))
    for _ in range(3):
        (third,) = tk.autograd.grad(value, x, create_graph=True)
        value = tk.sum(third * third)
    assert np.isfinite(third.detach().numpy()).all()


def test_forward_mode_and_vmap_of_scans() -> None:
    op = recurrence()
    a, b = tk.asarray(RNG.standard_normal((3, 5))), tk.asarray(RNG.standard_normal((3, 5)))
    mapped = tk.transforms.vmap(lambda x, y: op(x, y, 0))(a, b)
    np.testing.assert_allclose(mapped.numpy(), op(a, b, 1).numpy())
    _, tangent = tk.transforms.jvp(lambda x: op(x, b, 1), (a,), (tk.ones_like(a),))
    step = 1e-6
    difference = (op(a + step, b, 1) - op(a - step, b, 1)) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), difference.numpy(), rtol=1e-6, atol=1e-8)


def test_scans_pass_opcheck() -> None:
    op = recurrence(", bool reverse=False")
    tk.library.opcheck(op, (leaf(4, 2), leaf(4, 2), 0))


def test_scans_on_a_device(device: str) -> None:
    op = recurrence(", bool reverse=False")
    a, b = RNG.standard_normal((4, 5)), RNG.standard_normal((4, 5))
    found = []
    for place in ("cpu", device):
        x, y = [tk.asarray(v, device=place).requires_grad_() for v in (a, b)]
        with strict_fallback(), tk.no_grad():
            plain = op(x, y, 1, True)
        with strict_fallback():
            first = tk.autograd.grad(tk.sum(op(x, y, 1, True) ** 2), [x, y], create_graph=True)
            second = tk.autograd.grad(tk.sum(first[0] ** 2), [x, y])
        found.append([t.detach().numpy() for t in (plain, *first, *second)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert "rows::recurrence" in coverage(device).derived
    assert not coverage(device).fallback


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        ("rows::w(Tensor x, int axis) -> Tensor", {"combine": lambda T: lambda a, b: a - b}, "not associative"),
        (
            "rows::w(Tensor x, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b: s.minimum(a + b, 1.0)},
            "not associative",
        ),
        (
            "rows::w(Tensor x, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b: s.minimum(a + b, 1000)},
            "not associative",
        ),
        (
            "rows::w(Tensor x, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b: s.sqrt(a) + b},  # of a negative number not a number
            "not associative",
        ),
        ("rows::w(Tensor x, int axis) -> Tensor", {"combine": lambda T: lambda a, b: a & ~b}, "not associative"),
        (
            "rows::w(Tensor x, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b: s.maximum(a, b), "identity": -100},
            "not neutral",
        ),
        (
            "rows::w(Tensor x, Tensor y, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b, c, d: (a + c, b + d), "identity": 0},
            r"is 1 number\(s\), and an element has 2 part\(s\)",
        ),
        ("rows::w(Tensor x, int axis) -> Tensor", {"combine": lambda T: lambda a, b: a + b + s.index(0)}, "uses index"),
        (
            "rows::w(Tensor x, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b: a + b, "identity": 1},
            "not neutral",
        ),
        (
            "rows::w(Tensor x, Tensor y, int axis) -> Tensor",
            {"combine": lambda T: lambda a, b, c, d: a + b},
            "2 values",
        ),
        ("rows::w(Tensor x) -> Tensor", {"combine": lambda T: lambda a, b: a + b}, "is not a scan"),
        ("rows::w(Tensor x, int axis, int k) -> Tensor", {"combine": lambda T: lambda a, b: a + b}, "is not a scan"),
    ],
)
def test_mistakes_in_scans(schema: str, options: Any, text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        tk.library.scan(schema, **options)


def test_what_is_associative() -> None:
    """Where rounding, infinities or elements outside of the domain prove nothing."""

    def softmax(m0: Any, v0: Any, m1: Any, v1: Any) -> Any:
        m = s.maximum(m0, m1)
        return m, v0 * s.exp(m0 - m) + v1 * s.exp(m1 - m)

    one, two = "rows::right(Tensor x, int axis) -> Tensor", "rows::right(Tensor x, Tensor y, int axis) -> Tensor"
    for schema, combine, identity in (
        (two, softmax, (-math.inf, 0)),
        (two, lambda a, b, c, d: (a * c, b * c + d), (1, 0)),
        (two, lambda a, b, c, d: (a * c / 1000, b * c / 1000 + d), (1000, 0)),
        (one, s.logaddexp, -math.inf),
        (one, s.hypot, None),
        (one, lambda a, b: a * b / (a + b), None),
        (one, lambda a, b: (a + b) / (1 + a * b / 1e4), 0),
        (one, lambda a, b: a ^ b, 0),
        (one, lambda a, b: s.where(b != 1e6, b, a), 1e6),
    ):
        tk.library.scan(schema, combine=lambda T, combine=combine: combine, identity=identity)


def test_a_scan_without_identity_has_no_initial_value() -> None:
    op = tk.library.scan(
        "rows::initial(Tensor x, int axis, bool include_initial=False) -> Tensor",
        combine=lambda T: lambda a, b: s.maximum(a, b),
    )
    with pytest.raises(ValueError, match=r"\[initial\] include_initial=True needs an identity"):
        op(tk.ones(3), 0, True)


# ---- gather and scatter


def blocks() -> tuple[Any, Any]:
    embedding = tk.library.gather("rows::embedding(Tensor weights, Tensor tokens) -> Tensor")
    segment_sum = tk.library.scatter("rows::segment_sum(Tensor x, Tensor segments, int length) -> Tensor")
    return embedding, segment_sum


def test_an_embedding_and_its_reverse() -> None:
    embedding, segment_sum = blocks()
    weights, tokens = RNG.standard_normal((4, 3)), np.array([[3, 0], [3, -1]])
    np.testing.assert_array_equal(embedding(tk.asarray(weights), tk.asarray(tokens)).numpy(), weights[tokens])
    x, segments = RNG.standard_normal((5, 2)), np.array([0, 3, 3, 0, 1])
    want = np.zeros((4, 2))
    np.add.at(want, segments, x)
    np.testing.assert_allclose(segment_sum(tk.asarray(x), tk.asarray(segments), 4).numpy(), want, strict=True)
    for op, args in (
        (embedding, (tk.asarray(weights), tk.asarray([4]))),
        (segment_sum, (tk.ones(1), tk.asarray([9]), 4)),
    ):
        with pytest.raises(IndexError, match="out of"):
            op(*args)
    with pytest.raises(ValueError, match=r"\[segment_sum\] places of shape \(2,\) must be one for each of the 3"):
        segment_sum(tk.ones(3), tk.asarray([0, 1]), 2)
    with pytest.raises(TypeError, match=r"\[embedding\] indices must be integers, got float32"):
        embedding(tk.ones(3), tk.ones(2))


def test_indices_by_an_expression() -> None:
    rotate = tk.library.gather(
        "rows::rotate(Tensor x, int shift) -> Tensor", index=lambda T: lambda shift: s.index(0) - shift, axis=-1
    )
    x = RNG.standard_normal((2, 5))
    for shift in (0, 1, 3):
        np.testing.assert_array_equal(rotate(tk.asarray(x), shift).numpy(), np.roll(x, shift, -1))
    pairs = tk.library.scatter(
        "rows::pairs(Tensor x, int length) -> Tensor", index=lambda T: lambda length: s.index(0) // 2
    )
    assert pairs(tk.asarray([1.0, 2.0, 3.0]), 2).tolist() == [3.0, 3.0]
    windows = tk.library.gather(
        "rows::windows(Tensor x, Tensor starts, Tensor steps, int stride) -> Tensor",
        index=lambda T: lambda starts, steps, stride: starts * stride + steps,
    )
    found = windows(tk.asarray(np.arange(10.0)), tk.asarray([[0], [1], [2]]), tk.asarray([0, 1, 2]), 2)
    assert found.tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]


def test_modes() -> None:
    x, places = tk.asarray([3.0, -1.0, 2.0]), tk.asarray([0, 0, 2])
    for mode, want in (("multiply", [-3, 1, 2]), ("maximum", [3, -np.inf, 2]), ("minimum", [-1, np.inf, 2])):
        op = tk.library.scatter(
            f"rows::{mode}(Tensor x, Tensor places, int count) -> Tensor", mode=mode, length="count",
        )  # fmt: skip
        assert op(x, places, 3).tolist() == want
        assert gradcheck(lambda t, op=op: op(t, places // 2, 2), (leaf(3),))
    whole = registry.operators["rows::maximum"].call(tk.asarray([3, 1], dtype=tk.int8), tk.asarray([0, 0]), 2)
    assert whole.tolist() == [3, -128]


def test_derivatives_vmap_and_opcheck() -> None:
    embedding, segment_sum = blocks()
    tokens = tk.asarray([2, 0, 2])
    assert gradcheck(lambda w: embedding(w, tokens), (leaf(3, 2),))
    assert gradgradcheck(lambda w: tk.exp(embedding(w, tokens)), (leaf(3),))
    assert gradcheck(lambda x: segment_sum(x, tokens, 4), (leaf(3, 2),))
    assert gradgradcheck(lambda x: segment_sum(x, tokens, 3) ** 3, (leaf(3),))
    several = tk.asarray([[0, 1, 1], [2, 2, 0]])
    x = tk.asarray(RNG.standard_normal((2, 3)))
    mapped = tk.transforms.vmap(lambda v, t: segment_sum(v, t, 3))(x, several)
    want = [segment_sum(x[i], several[i], 3).tolist() for i in range(2)]
    np.testing.assert_allclose(mapped.numpy(), want)
    tk.library.opcheck(embedding, (leaf(3, 2), tokens))
    tk.library.opcheck(segment_sum, (leaf(3, 2), tokens, 3))


def test_on_a_device(device: str) -> None:
    embedding, segment_sum = blocks()
    weights, tokens = RNG.standard_normal((4, 3)), np.array([3, 0, 3])
    found = []
    for place in ("cpu", device):
        w, t = tk.asarray(weights, device=place).requires_grad_(), tk.asarray(tokens, device=place)
        with strict_fallback():
            out = segment_sum(embedding(w, t), t, 4)
            (first,) = tk.autograd.grad(tk.sum(out**3), w, create_graph=True)
            (second,) = tk.autograd.grad(tk.sum(first**2), w)
        found.append([x.detach().numpy() for x in (out, first, second)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    with pytest.raises(IndexError, match="out of range"):
        embedding(w, t + 9)


@pytest.mark.parametrize(
    ("declare", "schema", "options", "text"),
    [
        ("gather", "rows::w(Tensor x, int k) -> Tensor", {}, "needs index="),
        ("gather", "rows::w(Tensor x, float k) -> Tensor", {}, "k is a float"),
        ("gather", "rows::w(Tensor x, int k) -> Tensor", {"index": lambda T: lambda k: k + 1}, "one number"),
        ("gather", "rows::w(Tensor x, int k) -> Tensor", {"index": lambda T: lambda k: s.index(1) + k}, "alone"),
        ("scatter", "rows::w(Tensor x, Tensor i, int length) -> Tensor", {"mode": "mean"}, "mode='mean'"),
        ("scatter", "rows::w(Tensor x, Tensor i) -> Tensor", {}, "needs the length"),
    ],
)  # fmt: skip
def test_mistakes(declare: str, schema: str, options: Any, text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        getattr(tk.library, declare)(schema, **options)


def test_a_repeated_declaration_replaces_the_first() -> None:
    for factor in (1, 2):
        op = tk.library.gather(
            "rows::again(Tensor x, int k) -> Tensor", index=lambda T, f=factor: lambda k: s.index(0) // f + k
        )
        got = op(tk.asarray([1, 2, 3, 4]), 0).tolist()
    assert got == [1, 1, 2, 2]
