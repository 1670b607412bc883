"""Gradients, batches and tangents of operators whose arguments or results are records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import RegistrationError
from tenkey.library import CustomOperator, custom_op
from tests._records import NS, Box, Pair, Point, Tensor, leaf
from tests._registry import registry_as_before


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


def make(function: Any, name: str = "f", **options: Any) -> CustomOperator:
    options.setdefault("mutates_args", ())
    made: CustomOperator = custom_op(f"{NS}::{name}", function, **options)
    return made


class TestGradient:
    def polynomial(self) -> CustomOperator:
        """p.scale * p.a * p.b + w["u"] * w["v"], with all its tensors in records."""

        def f(p: Pair, w: dict[str, Tensor], n: int) -> Tensor:
            return p.scale * p.a * p.b + w["u"] * w["v"]

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            p, w, _ = inputs
            assert type(p) is Pair
            assert type(w) is dict
            ctx.scale = p.scale
            ctx.save_for_backward(p.a, p.b, w["u"], w["v"])

        def backward(ctx: Any, g: Tensor) -> Any:
            a, b, u, v = ctx.saved_tensors
            return Pair(g * ctx.scale * b, g * ctx.scale * a, None), {"v": g * u, "u": g * v}, None  # type: ignore[arg-type]

        op = make(f, "polynomial")
        op.register_autograd(backward, setup_context=setup)
        return op

    def test_gradcheck(self) -> None:
        op = self.polynomial()

        def flat(a: Tensor, b: Tensor, u: Tensor, v: Tensor) -> Any:
            return op(Pair(a, b, 3.0), {"u": u, "v": v}, 2)

        inputs = (leaf(1.0, -2.0), leaf(0.5, 3.0), leaf(2.0, 2.5), leaf(-1.0, 4.0))
        assert gradcheck(flat, inputs)
        assert gradgradcheck(flat, inputs)

    @pytest.mark.parametrize("kind", ["tuple", "list", "none"])
    def test_gradients_may_be_plain(self, kind: str) -> None:
        def f(p: Pair, q: Point) -> Tensor:
            return p.a * 2 + q.x * 5

        def backward(ctx: Any, g: Tensor) -> Any:
            plain = {"tuple": (g * 2, None, None), "list": [g * 2, None, None], "none": None}[kind]
            return plain, Point(g * 5, None)  # type: ignore[arg-type]

        op = make(f)
        op.register_autograd(backward)
        a, b, x = leaf(1.0), leaf(1.0), leaf(1.0)
        op(Pair(a, b), Point(x, b)).backward(tk.ones(1, dtype=tk.float64))
        assert (None if a.grad is None else a.grad.tolist()) == (None if kind == "none" else [2.0])
        assert b.grad is None
        assert x.grad is not None
        assert x.grad.tolist() == [5.0]

    def test_the_only_argument(self) -> None:
        def f(p: Point) -> Tensor:
            return p.x * 2 + p.y * 3

        op = make(f)
        for gradient in (Point, lambda x, y: (x, y), lambda x, y: (Point(x, y),), lambda x, y: [x, y]):
            op.register_autograd(lambda ctx, g, gradient=gradient: gradient(g * 2, g * 3))
            x, y = leaf(1.0), leaf(1.0)
            found = tk.autograd.grad(tk.sum(op(Point(x, y))), (x, y))
            assert [None if g is None else g.tolist() for g in found] == [[2.0], [3.0]]

    def test_missing_keys_have_no_gradient(self) -> None:
        def f(d: dict[str, Tensor]) -> Tensor:
            return d["a"] + d["b"]

        op = make(f)
        op.register_autograd(lambda ctx, g: {"b": g})
        a, b = leaf(1.0), leaf(1.0)
        op({"a": a, "b": b}).backward(tk.ones(1, dtype=tk.float64))
        assert a.grad is None
        assert b.grad is not None

    @pytest.mark.parametrize(
        "wrong",
        [lambda g: {"c": g}, lambda g: (g,), lambda g: g, lambda g: (g, g, g), lambda g: 3],
        ids=["unknown key", "one", "tensor", "three", "number"],
    )
    def test_wrong_structures_are_refused(self, wrong: Any) -> None:
        def f(d: dict[str, Tensor], n: int) -> Tensor:
            return d["a"] + d["b"]

        op = make(f)
        op.register_autograd(lambda ctx, g: (wrong(g), None))
        a, b = leaf(1.0), leaf(1.0)
        with pytest.raises(RuntimeError, match=rf"\[{NS}::f\] its backward returned .* for the argument 'd', a record"):
            op({"a": a, "b": b}, 1).backward(tk.ones(1, dtype=tk.float64))
        assert a.grad is None

    def test_record_results(self) -> None:
        def f(x: Tensor, y: Tensor) -> Pair:
            return Pair(x * 2, y * 3, 4.0)

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            assert type(output) is Pair
            ctx.save_for_backward(output.a)

        seen: list[Any] = []

        def backward(ctx: Any, ga: Tensor, gb: Tensor, gscale: Any) -> Any:
            seen.append(gscale)
            return ga * 2, gb * 3

        op = make(f)
        op.register_autograd(backward, setup_context=setup)
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        out = op(x, y)
        assert type(out) is Pair
        found = tk.autograd.grad(tk.sum(out.a * out.b), (x, y))
        assert [None if g is None else g.tolist() for g in found] == [[18.0, 24.0], [6.0, 12.0]]
        assert seen == [None]

        def both(x: Tensor, y: Tensor) -> Any:
            out = op(x, y)
            return out.a, out.b

        assert gradcheck(both, (x, y))

    def test_list_and_dict_results(self) -> None:
        def lists(x: Tensor) -> list[Tensor]:
            return [x * 2, x * 3]

        def dicts(x: Tensor) -> tuple[dict[str, Tensor], int]:
            return {"a": x * 2, "b": x * 3}, 7

        one, two = make(lists, "lists"), make(dicts, "dicts")
        one.register_autograd(lambda ctx, grads: grads[0] * 2 + grads[1] * 3)

        def backward(ctx: Any, grads: dict[str, Tensor], number: None) -> Tensor:
            assert number is None
            return grads["a"] * 2 + grads["b"] * 3

        two.register_autograd(backward)
        x = leaf(1.0)
        first, second = one(x)
        assert [g.tolist() for g in tk.autograd.grad(tk.sum(first + 10 * second), (x,)) if g is not None] == [[32.0]]
        named, seven = two(x)
        assert seven == 7
        total = tk.sum(named["a"] + 10 * named["b"])
        assert [g.tolist() for g in tk.autograd.grad(total, (x,)) if g is not None] == [[32.0]]

    def test_results_of_one_field(self) -> None:
        def boxed(x: Tensor) -> Box[Tensor]:
            return Box(x * 2)

        def single(x: Tensor) -> tuple[Tensor]:
            return (x * 2,)

        x = leaf(1.0)
        for function in (boxed, single):
            op = make(function)
            op.register_autograd(lambda ctx, g: g * 2)
            out = op(x)
            out = out[0] if isinstance(out, tuple) else out.value
            assert [g.tolist() for g in tk.autograd.grad(tk.sum(out), (x,)) if g is not None] == [[2.0]]

    def test_optional_results(self) -> None:
        def f(x: Tensor, give: bool) -> tuple[Tensor, Tensor | None]:
            return x * 2, x * 3 if give else None

        op = make(f)
        op.register_autograd(lambda ctx, g, h: (g * 2 if h is None else g * 2 + h * 3, None))
        x = leaf(1.0)
        first, none = op(x, False)
        assert none is None
        assert [g.tolist() for g in tk.autograd.grad(tk.sum(first), (x,)) if g is not None] == [[2.0]]
        first, second = op(x, True)
        assert second is not None
        assert [g.tolist() for g in tk.autograd.grad(tk.sum(first + second), (x,)) if g is not None] == [[5.0]]

    def test_needs_input_grad_has_the_structure(self) -> None:
        def f(xs: list[Tensor], p: Point, n: int) -> Tensor:
            return xs[0] + p.x

        seen: list[Any] = []

        def backward(ctx: Any, g: Tensor) -> Any:
            seen.append(ctx.needs_input_grad)
            return [g, None], (g, None), None

        op = make(f)
        op.register_autograd(backward)
        a, plain = leaf(1.0), tk.ones(1, dtype=tk.float64)
        tk.sum(op([a, plain], Point(plain, a), 1)).backward()
        assert seen == [([True, False], [False, True], False)]

    def test_a_gradient_without_formula_is_refused(self) -> None:
        def f(d: dict[str, Tensor]) -> Tensor:
            return d["a"] * 2

        out = make(f)({"a": leaf(1.0)})
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            tk.sum(out).backward()

    def test_results_may_not_alias_what_lies_in_records(self) -> None:
        def f(d: dict[str, Pair]) -> Tensor:
            return d["k"].b

        with pytest.raises(RuntimeError, match=r"returned one of its arguments, 'd'"):
            make(f)({"k": Pair(tk.ones(1), tk.ones(1))})


class TestRules:
    """Facets that other layers read get functions for canonical values, and call the user's with the annotated ones."""

    def test_forward_and_batch(self) -> None:
        def f(p: Pair, n: int) -> Point:
            return Point(p.a * n, p.b * n)

        op = make(f)

        def forward(ctx: Any, tangents: Any, n: Any) -> Point:
            assert type(tangents) is Pair
            assert tangents.scale is None
            return Point(tangents.a * ctx.n, tangents.b)

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            assert type(inputs[0]) is Pair
            assert type(output) is Point
            ctx.n = inputs[1]

        def rule(info: Any, in_dims: Any, p: Any, n: Any) -> Any:
            assert type(in_dims[0]) is Pair
            assert in_dims[0].a == 0
            assert type(p) is Pair
            return Point(p.a, p.b), Point(0, None)  # type: ignore[arg-type]

        op.register_jvp(forward, setup_context=setup)
        op.register_vmap(rule)
        facets = op.operator.facets
        a = tk.ones(2)

        class Ctx:
            n = 0

        ctx = Ctx()
        facets["Forward"].setup_context(ctx, ((a, a, 1.0), 3), (a, a))
        assert ctx.n == 3
        out = facets["Forward"].function(ctx, (a, a, None), None)
        assert type(out) is tuple
        assert [t.tolist() for t in out] == [[3.0, 3.0], [1.0, 1.0]]
        out, dims = facets["Batch"].function(None, ((0, None, None), None), (a, a, 1.0), 3)
        assert type(out) is tuple
        assert dims == (0, None)


def test_gradient_of_a_record_as_one_record() -> None:
    def swap(pair: Point, x: Tensor) -> Point:
        return Point(pair.y * 2, pair.x * x)

    op = custom_op(f"{NS}::swap", swap, mutates_args=())
    seen: list[Any] = []

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.inputs = inputs

    def whole(ctx: Any, g: Point) -> tuple[Point, Tensor]:
        seen.append(g)
        return Point(g.y * ctx.inputs[1], g.x * 2), g.y * ctx.inputs[0].x

    def parts(ctx: Any, gx: Tensor, gy: Tensor) -> tuple[Point, Tensor]:
        return whole(ctx, Point(gx, gy))

    for backward in (whole, parts):
        op.register_autograd(backward, setup_context=keep)
        a, b, x = (tk.tensor(v, requires_grad=True) for v in (3.0, 5.0, 7.0))
        out = op(Point(a, b), x)
        (out.x + out.y * 10).backward()
        assert isinstance(seen[-1], Point)
        assert [t.grad.item() for t in (a, b, x)] == [70.0, 2.0, 30.0]
    with pytest.raises(RegistrationError, match=r"backward\(ctx, grad0, grad1\)"):
        op.register_autograd(lambda ctx: None)
