"""Pointwise operators with several results, optional arguments and keyword-only numbers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import registry
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import scalar as s
from tests._backends import TemplateHost

A, B = np.linspace(-2, 2, 3)[:, None], np.linspace(0.5, 3, 4)


@pytest.fixture(params=["cpu", "templated"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with tk.backends.register(TemplateHost()), tk.backends.strict_fallback():
        yield request.param


@pytest.fixture(autouse=True)
def cleaned() -> Iterator[None]:
    yield
    for op in [op for op in registry if op.schema.namespace == "family_test" and "DerivedFrom" not in op.facets]:
        registry.undefine(op, keep_kernels=False)
    assert not [op.name for op in registry if op.schema.namespace == "family_test"]  # the parts went with it


def on(device: str, values: Any, **options: Any) -> tk.Tensor:
    return tk.tensor(np.asarray(values), device=device, **options)


def swish(**options: Any) -> Any:
    return tk.library.pointwise(
        "family_test::swish(Tensor x, Tensor y, float? alpha=None, *, float eps=0.25) -> Tensor",
        scalar=lambda T: lambda x, y, alpha, eps: x * y + eps if alpha is None else s.sin(x) * y * alpha + eps,
        **options,
    )


def parts() -> Any:
    return tk.library.pointwise(
        "family_test::parts(Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)",
        scalar=lambda T: lambda x, y: (s.exp(x) * y, x > y, s.where(x > 0, x, y)),
    )


def test_optional_and_keyword_only_numbers(device: str) -> None:
    op = swish()
    x, y = on(device, A), on(device, B)
    for got, want in (
        (op(x, y), A * B + 0.25),
        (op(x, y, None, eps=3.0), A * B + 3),
        (op(x, y, 2.5), np.sin(A) * B * 2.5 + 0.25),
        (op(x, y, alpha=-1, eps=0), -np.sin(A) * B),
        (op(x, 2.0), A * 2 + 0.25),
    ):
        assert got.device == device
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-15, strict=True)
    with pytest.raises(TypeError, match="swish"):
        op(x, y, 1.0, 2.0)


def test_several_results(device: str) -> None:
    op = parts()
    got = op(on(device, A), on(device, B))
    assert isinstance(got, tuple)
    want = np.exp(A) * B, A > B, np.where(A > 0, A, B)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-15, strict=True)


def test_gradients(device: str) -> None:
    x, y = on(device, A, requires_grad=True), on(device, B, requires_grad=True)
    first, condition, last = parts()(x, y)
    assert not condition.requires_grad
    gx, gy = tk.autograd.grad(tk.sum(first * 2) + tk.sum(last), (x, y), create_graph=True)
    positive = A > 0
    np.testing.assert_allclose(gx.detach().numpy(), (2 * np.exp(A) * B + positive).sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(gy.detach().numpy(), (2 * np.exp(A) + ~positive + 0 * B).sum(0), rtol=1e-14)
    (second,) = tk.autograd.grad(tk.sum(gx), x)
    np.testing.assert_allclose(second.numpy(), (2 * np.exp(A) * B).sum(1, keepdims=True), rtol=1e-14)
    op = swish()
    (gradient,) = tk.autograd.grad(tk.sum(op(x, y, 2.0, eps=7.0)), x)
    np.testing.assert_allclose(gradient.numpy(), (np.cos(A) * B * 2).sum(1, keepdims=True), rtol=1e-14)
    _, tangent = tk.transforms.jvp(lambda x: op(x, on(device, B)), (on(device, A),), (on(device, np.ones_like(A)),))
    np.testing.assert_allclose(tangent.numpy(), np.broadcast_to(B, (3, 4)), rtol=1e-14)


def test_vmap(device: str) -> None:
    rows = np.arange(12.0).reshape(3, 4) - 5
    first, condition, _ = tk.transforms.vmap(parts(), in_dims=(0, None))(on(device, rows), on(device, B))
    np.testing.assert_allclose(first.numpy(), np.exp(rows) * B, rtol=1e-14)
    np.testing.assert_array_equal(condition.numpy(), rows > B)
    op = swish()
    got = tk.transforms.vmap(lambda x, y: op(x, y, 2.0, eps=1.0), in_dims=(1, 0))(on(device, rows), on(device, B))
    np.testing.assert_allclose(got.numpy(), np.sin(rows.T) * B[:, None] * 2 + 1, rtol=1e-14)


def test_an_optional_tensor(device: str) -> None:
    op = tk.library.pointwise(
        "family_test::affine(Tensor x, Tensor? scale=None, Tensor? shift=None) -> Tensor",
        scalar=lambda T: lambda x, scale, shift: x * (1 if scale is None else scale) + (0 if shift is None else shift),
    )
    x, y = on(device, A), on(device, B, requires_grad=True)
    np.testing.assert_array_equal(op(x).numpy(), A)
    np.testing.assert_array_equal(op(x, y).detach().numpy(), A * B)
    np.testing.assert_array_equal(op(x, None, y).detach().numpy(), A + B)
    np.testing.assert_array_equal(op(x, y, shift=y).detach().numpy(), A * B + B)
    tk.sum(op(x, None, y) * 2).backward()
    assert y.grad is not None
    np.testing.assert_array_equal(y.grad.numpy(), np.full(4, 6.0))


def test_variants(device: str) -> None:
    swish()
    x, y = on(device, A * np.ones(4)), on(device, B)
    made = tk.ops.family_test.swish_(x, y, None, eps=1.0)
    assert made is x
    np.testing.assert_array_equal(x.numpy(), A * B + 1)
    out = on(device, np.zeros((3, 4)))
    tk.ops.family_test.swish.out(on(device, A), y, 2.0, out=out)
    np.testing.assert_allclose(out.numpy(), np.sin(A) * B * 2 + 0.25, rtol=1e-15)
    leaf = on(device, A * np.ones(4), requires_grad=True)
    z = leaf * 1
    tk.ops.family_test.swish_(z, y)
    tk.sum(z).backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), np.broadcast_to(B, (3, 4)))


def test_opcheck_and_samples() -> None:
    for op in (parts(), swish()):
        assert tk.library.opcheck(op, (tk.asarray(A), tk.asarray(B))).passed
        kinds = list(tk.testing.samples(op.operator, np.random.default_rng(0)))
        assert len(kinds) >= 5
        for sample in kinds:
            op(*sample.args, **sample.kwargs)


def test_partials_of_an_operator_with_a_keyword() -> None:
    op = tk.library.pointwise(
        "family_test::cube(Tensor x, *, float by=1.0) -> Tensor",
        scalar=lambda T: lambda x, by: x * x * x * by,
        partials=lambda x, by: 100 * x * by,
    )
    x = tk.tensor(2.0, requires_grad=True)
    op(x, by=3.0).backward()
    assert x.grad is not None
    assert x.grad.item() == 600.0


def test_a_repeated_declaration_replaces_all_parts() -> None:
    def declare(factor: float) -> Any:
        return tk.library.pointwise(
            "family_test::again(Tensor x, float? a=None) -> (Tensor, Tensor)",
            scalar=lambda T: lambda x, a: (x * factor, x if a is None else x * a),
        )

    for factor in (2.0, 3.0):
        op = declare(factor)
        x = tk.tensor(5.0, requires_grad=True)
        first, second = op(x, 2.0)
        first.backward()
        assert x.grad is not None
        assert (first.item(), second.item(), x.grad.item()) == (5 * factor, 10.0, factor)
    assert pickle.loads(pickle.dumps(op)) is op


def test_mistakes() -> None:
    with pytest.raises(RegistrationError, match=r"returns 2 value\(s\), and the schema has 3 result\(s\)"):
        tk.library.pointwise(
            "family_test::two(Tensor x) -> (Tensor, Tensor, Tensor)", scalar=lambda T: lambda x: (x, x)
        )
    with pytest.raises(RegistrationError, match=r"returns 1 value\(s\) for a None"):
        tk.library.pointwise(
            "family_test::one(Tensor x, float? a=None) -> (Tensor, Tensor)",
            scalar=lambda T: lambda x, a: x if a is None else (x, a * x),
        )
    with pytest.raises(s.ScalarTraceError, match="TypeError"):  # None is not handled
        tk.library.pointwise(
            "family_test::none(Tensor x, float? a=None) -> Tensor", scalar=lambda T: lambda x, a: x * a
        )
    with pytest.raises(RegistrationError, match="is for conditions, which give bool"):  # of a part
        tk.library.pointwise(
            "family_test::promoted(Tensor x) -> (Tensor, Tensor)",
            scalar=lambda T: lambda x: (x > 0, x),
            promote=tk.library.BOOLEAN,
        )
    assert not [name for name in registry.operators if name.startswith("family_test::")]
    with pytest.raises(RegistrationError, match="partials are for operators without optional arguments"):
        swish(partials=(None, None))
    many = ", ".join(f"float? a{i}=None" for i in range(5))
    with pytest.raises(RegistrationError, match="has 5 optional arguments"):
        tk.library.pointwise(f"family_test::many(Tensor x, {many}) -> Tensor", scalar=lambda T: lambda x, *a: x)
    with pytest.raises(RegistrationError, match="the Tensor y is keyword-only"):
        tk.library.pointwise("family_test::kw(Tensor x, *, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x)
