"""Containers as arguments and results of operators: Note [Records in schemas]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Generic, NamedTuple, Optional, TypeVar

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import ArgumentError, DeviceMismatchError, RegistrationError, SchemaError
from tenkey.dispatch.registry import registry
from tenkey.library import CustomOperator, Library, custom_op, infer_schema

NS = "records_test"
Tensor = tk.Tensor
T = TypeVar("T")


@dataclass
class Pair:
    a: Tensor
    b: Tensor
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Frozen:
    pair: Pair | None
    weights: dict[str, Tensor]


@dataclass(kw_only=True)
class Keywords:
    a: Tensor
    count: int = 1
    derived: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.derived = self.count * 2


class Point(NamedTuple):
    x: Tensor
    y: Tensor


class Named(NamedTuple):
    point: Point
    label: str = "none"


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Tree:
    value: Tensor
    children: list[Tree]


@dataclass
class NoField:
    pass


@dataclass
class WithInitVar:
    a: Tensor
    n: InitVar[int]


@dataclass
class BadField:
    a: Tensor
    b: set[int]


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def leaf(*values: float) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def make(function: Any, name: str = "f", **options: Any) -> CustomOperator:
    options.setdefault("mutates_args", ())
    made: CustomOperator = custom_op(f"{NS}::{name}", function, **options)
    return made


def of(annotation: Any, result: Any = Tensor) -> Any:
    def function(v: Any) -> Any:
        raise NotImplementedError

    function.__annotations__ = {"v": annotation, "return": result}
    return function


ARGUMENTS: list[tuple[Any, str]] = [
    (dict[str, Tensor], "(str, Tensor)[]"),
    (Mapping[str, int], "(str, int)[]"),
    (dict[str, list[Tensor]], "(str, Tensor[])[]"),
    (dict[str, Tensor] | None, "(str, Tensor)[]?"),
    (Pair, "(Tensor, Tensor, float)"),
    (Optional[Pair], "(Tensor, Tensor, float)?"),  # noqa: UP045  # the old spelling is tested, too
    (list[Pair], "(Tensor, Tensor, float)[]"),
    (Point, "(Tensor, Tensor)"),
    (Named, "((Tensor, Tensor), str)"),
    (Frozen, "((Tensor, Tensor, float)?, (str, Tensor)[])"),
    (Keywords, "(Tensor, int)"),
    (Box[Tensor], "(Tensor,)"),
    (Box[list[int]], "(int[],)"),
    (tuple[Tensor, tuple[Tensor, int]], "(Tensor, (Tensor, int))"),
    (list[tuple[str, Tensor | None]], "(str, Tensor?)[]"),
    (Sequence[Sequence[Tensor]], "Tensor[][]"),
    (list[str] | None, "str[]?"),
]

RESULTS: list[tuple[Any, str]] = [
    (dict[str, Tensor], "((str, Tensor)[])"),
    (Pair, "(Tensor a, Tensor b, float scale)"),
    (Pair | None, "((Tensor, Tensor, float)?)"),
    (Point, "(Tensor x, Tensor y)"),
    (Named, "((Tensor, Tensor) point, str label)"),
    (Box[Tensor], "((Tensor,))"),
    (list[Point], "((Tensor, Tensor)[])"),
    (tuple[Tensor, Point], "(Tensor, (Tensor, Tensor))"),
    (tuple[Tensor], "((Tensor,))"),
    (Tensor | None, "Tensor?"),
    (list[str], "str[]"),
    (float | None, "float?"),
]


class TestSchema:
    @pytest.mark.parametrize(("annotation", "text"), ARGUMENTS, ids=str)
    def test_arguments(self, annotation: Any, text: str) -> None:
        assert infer_schema(of(annotation)) == f"({text} v) -> Tensor"

    @pytest.mark.parametrize(("annotation", "text"), RESULTS, ids=str)
    def test_results(self, annotation: Any, text: str) -> None:
        assert infer_schema(of(Tensor, annotation)) == f"(Tensor v) -> {text}"

    @pytest.mark.parametrize(
        ("annotation", "text"),
        [
            (dict[int, Tensor], "the keys of a dict are str"),
            (dict, "has no counterpart"),
            (Tensor | int, "a union is one type and None, or numbers"),
            (Pair | Point, "a union is one type and None, or numbers"),
            (Tree, "it holds itself"),
            (NoField, "it has no fields"),
            (WithInitVar, "'n', which is no field"),
            (BadField, r"set\[int\] has none"),
            (Box, "has none|has no counterpart"),
            (list[Box[Any]], "has none|has no counterpart"),
            (type("Own", (), {}), "has no counterpart"),
        ],
        ids=str,
    )
    def test_refused_with_the_column(self, annotation: Any, text: str) -> None:
        function = of(annotation)
        with pytest.raises(SchemaError, match=text) as caught:
            infer_schema(function)
        assert caught.value.text[caught.value.column :].startswith("v: ")
        assert "pass schema=" in caught.value.remedy
        with pytest.raises(SchemaError, match="of the result") as caught:
            infer_schema(of(Tensor, annotation))
        assert caught.value.text[caught.value.column :].startswith(" -> ")

    def test_nesting_is_bounded(self) -> None:
        annotation: Any = int
        for _ in range(300):
            annotation = list[annotation]
        with pytest.raises(SchemaError, match="nested more than"):
            infer_schema(of(annotation))

    def test_defaults(self) -> None:
        def f(
            x: Tensor,
            sizes: dict[str, int] = {"a": 1},  # noqa: B006  # a default is read, never changed
            at: tuple[int, float] = (1, 2.0),
            names: list[str] = ["p", "q"],  # noqa: B006  # as above
        ) -> Tensor:
            assert sizes == {"a": 1}
            assert at == (1, 2.0)
            assert names == ["p", "q"]
            return x * 2

        wanted = "(Tensor x, (str, int)[] sizes=[('a', 1)], (int, float) at=(1, 2.0), str[] names=['p', 'q']) -> Tensor"
        assert infer_schema(f) == wanted
        assert make(f)(tk.ones(1)).tolist() == [2.0]

    def test_long_texts_are_kept_whole(self) -> None:
        def f(x: Tensor, text: str = "a" * 1000) -> str:
            return text

        assert make(f)(tk.ones(1)) == "a" * 1000

    def test_mutated_records_are_refused(self) -> None:
        def f(x: Tensor, p: Pair) -> None:
            raise NotImplementedError

        for mutates in ("p", "unknown"):
            with pytest.raises(SchemaError, match=r"'p' .* whose tensors lie in tuples or records") as caught:
                infer_schema(f, mutates_args=mutates)
            assert "arguments of their own" in caught.value.remedy
        with pytest.raises(SchemaError, match=r"mutates_args must be 'unknown' or the names"):
            infer_schema(f, mutates_args=(1,))  # type: ignore[arg-type]

    def test_classes_of_a_function(self) -> None:
        @dataclass
        class Local:
            a: Tensor

        def f(v: Local) -> Tensor:
            return v.a * 2

        assert make(f)(Local(tk.ones(2))).tolist() == [2.0, 2.0]


class TestCall:
    def test_kernels_get_the_annotated_types(self) -> None:
        seen: list[Any] = []

        def f(
            p: Pair, q: Frozen, names: list[str], sizes: tuple[int, ...], n: Named, *, more: dict[str, float]
        ) -> Tensor:
            seen.extend((p, q, names, sizes, n, more))
            return p.a + 1

        op = make(f)
        a = tk.ones(2)
        arguments = (Pair(a, a, 2), Frozen(None, {"w": a}), ("x", "y"), [1, 2], Named(Point(a, a)))
        for call in (op, op.operator, getattr(tk.ops, NS).f, getattr(tk.ops, NS).f.default):
            seen.clear()
            assert call(*arguments, more={"k": 1}).tolist() == [2.0, 2.0]
            p, q, names, sizes, n, more = seen
            assert type(p) is Pair
            assert p.a is a
            assert (type(p.scale), p.scale) == (float, 2.0)
            assert type(q) is Frozen
            assert q.pair is None
            assert list(q.weights) == ["w"]
            assert q.weights["w"] is a
            assert (names, sizes) == (["x", "y"], (1, 2))
            assert type(n) is Named
            assert type(n.point) is Point
            assert n.label == "none"
            assert more == {"k": 1.0}

    def test_keyword_only_fields_and_derived_ones(self) -> None:
        def f(k: Keywords, b: Box[list[int]]) -> int:
            return k.derived + sum(b.value)

        assert make(f)(Keywords(a=tk.ones(1), count=4), Box([1, 2])) == 11

    def test_results_have_the_annotated_types(self) -> None:
        def pair(x: Tensor) -> Pair:
            return Pair(x + 1, x + 2, 3.0)

        def point(x: Tensor) -> Point:
            return Point(x + 1, x + 2)

        def boxed(x: Tensor) -> Box[Tensor]:
            return Box(x + 1)

        def mapping(x: Tensor) -> dict[str, Tensor]:
            return {"b": x + 1, "a": x + 2}

        def listed(x: Tensor) -> list[Point]:
            return [Point(x + 1, x + 2), Point(x + 3, x + 4)]

        def maybe(x: Tensor, give: bool) -> Pair | None:
            return Pair(x + 1, x + 2) if give else None

        def text(x: Tensor) -> str:
            return f"{x.shape}"

        def one(x: Tensor) -> tuple[Tensor]:
            return (x + 1,)

        x = tk.zeros(1)
        for fn in (pair, point, boxed, mapping, listed, maybe, text, one):
            make(fn, fn.__name__)
        ops = getattr(tk.ops, NS)
        out = ops.pair(x)
        assert type(out) is Pair
        assert (out.a.item(), out.b.item(), out.scale) == (1.0, 2.0, 3.0)
        assert type(ops.point(x)) is Point
        assert ops.point(x).y.item() == 2.0
        assert type(ops.boxed(x)) is Box
        assert ops.boxed(x).value.item() == 1.0
        assert {k: v.item() for k, v in ops.mapping(x).items()} == {"b": 1.0, "a": 2.0}
        assert list(ops.mapping(x)) == ["b", "a"]
        assert [type(p) for p in ops.listed(x)] == [Point, Point]
        assert type(ops.maybe(x, True)) is Pair
        assert ops.maybe(x, False) is None
        assert ops.text(x) == "(1,)"
        assert isinstance(ops.one(x), tuple)
        assert ops.one(x)[0].item() == 1.0

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (3, "the argument 'p' must be a Pair, got 3 of type int"),
            (Point(tk.ones(1), tk.ones(1)), "the argument 'p' must be a Pair, got .* of type Point"),
            (None, "the argument 'p' must be a Pair, got None"),
            (Pair(tk.ones(1), 2.0), "must be a Tensor, got 2.0"),  # type: ignore[arg-type]
            (Pair(tk.ones(1), np.ones(1)), "must be a Tensor, got array"),  # type: ignore[arg-type]
            (Pair(tk.ones(1), tk.ones(1), "x"), "must be a float, got 'x'"),  # type: ignore[arg-type]
        ],
        ids=range(6),
    )
    def test_wrong_records(self, given: Any, text: str) -> None:
        def f(p: Pair) -> Tensor:
            raise NotImplementedError

        with pytest.raises(ArgumentError, match=rf"\[{NS}::f\].*{text}"):
            make(f)(given)

    def test_wrong_dicts_and_texts(self) -> None:
        def f(d: dict[str, Tensor], names: list[str]) -> Tensor:
            raise NotImplementedError

        op = make(f)
        with pytest.raises(ArgumentError, match="a dict whose keys are str, got the key 1 of type int"):
            op({1: tk.ones(1)}, ["a"])
        with pytest.raises(ArgumentError, match=r"the argument 'd' must be a sequence .*got 3"):
            op(3, ["a"])
        with pytest.raises(ArgumentError, match="the argument 'names' must be a sequence of str, got 'abc'"):
            op({"a": tk.ones(1)}, "abc")

    def test_wrong_results(self) -> None:
        def f(x: Tensor) -> Pair:
            return (x + 1, 3)  # type: ignore[return-value]

        with pytest.raises(TypeError, match=rf"\[{NS}::f\] its kernel .*f returned.*the result must be a Pair, got"):
            make(f)(tk.ones(1))

        def g(x: Tensor) -> Pair:
            return Pair(x + 1, x.numpy())  # type: ignore[arg-type]

        with pytest.raises(TypeError, match=r"returned array\(.* of type ndarray as its result b: the schema says Ten"):
            make(g)(tk.ones(1))

    def test_tensors_within_count(self) -> None:
        """Devices, modes, explain and fakes see tensors in records."""

        def f(d: dict[str, Pair]) -> Tensor:
            return d["k"].a + 1

        op = make(f, device_types="cpu")

        @op.register_fake
        def _(d: dict[str, Pair]) -> Tensor:
            return tk.empty((*d["k"].a.shape, 7), device=d["k"].a.device)

        on_cpu, on_meta = Pair(tk.ones(1), tk.ones(1)), Pair(tk.empty(1, device="meta"), tk.empty(1, device="meta"))
        assert op({"k": on_cpu}).tolist() == [2.0]
        assert op({"k": on_meta}).shape == (1, 7)
        with pytest.raises(DeviceMismatchError, match="cpu and meta"):
            op({"k": Pair(tk.ones(1), tk.empty(1, device="meta"))})
        seen: list[Any] = []

        class Watch(tk.dispatch.DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                seen.append((str(op), types))
                return op(*args, **kwargs)

        with Watch():
            assert op({"k": on_cpu}).tolist() == [2.0]
        assert seen[0] == (f"{NS}::f", (Tensor,))
        assert "argument d: " in tk.dispatch.explain(op, {"k": on_cpu})
        assert "must be a Pair" in tk.dispatch.explain(op, {"k": 3})

    def test_modes_keep_the_type_of_the_result(self) -> None:
        class Pass(tk.dispatch.DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return op(*args, **kwargs)

        def f(x: Tensor) -> Frozen:
            return Frozen(Pair(x + 1, x + 2), {"w": x + 3})

        def g(x: Tensor) -> Box[dict[str, Tensor]]:
            return Box({"w": x + 3})

        op, boxed = make(f), make(g, "g")
        with Pass(), Pass():
            out = op(tk.zeros(1))
            assert type(out) is Frozen
            assert type(out.pair) is Pair
            assert out.weights["w"].item() == 3.0
            assert boxed(tk.zeros(1)).value["w"].item() == 3.0

    def test_schemas_by_hand_take_records_for_tuples(self) -> None:
        with Library(NS, "FRAGMENT") as library:
            library.define("h((Tensor, Tensor) p, (str, Tensor)[] d, (int, float)? n=None) -> (Tensor, Tensor)")
            library.impl("h", lambda p, d, n: (p[0] + p[1], d[0][1] * 2), "cpu")
            a = tk.ones(1)
            for p in ((a, a), [a, a], Point(a, a)):
                first, second = tk.ops.records_test.h(p, {"k": a})
                assert (first.item(), second.item()) == (2.0, 2.0)
            assert tk.ops.records_test.h((a, a), [("k", a)], (1, 2))[0].item() == 2.0
            with pytest.raises(ArgumentError, match="'p' must have 2 elements"):
                tk.ops.records_test.h((a,), {"k": a})

    def test_overloads_are_chosen_by_records(self) -> None:
        def f(p: Pair) -> int:
            return 1

        def g(p: dict[str, Tensor]) -> int:
            return 2

        custom_op(f"{NS}::over.pair", f, mutates_args=())
        custom_op(f"{NS}::over.dict", g, mutates_args=())
        assert tk.ops.records_test.over(Pair(tk.ones(1), tk.ones(1))) == 1
        assert tk.ops.records_test.over({"k": tk.ones(1)}) == 2


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
