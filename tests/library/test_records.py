"""Records as arguments and results of operators: schemas of annotations, and calls. Note [Records in schemas]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import ArgumentError, DeviceMismatchError, SchemaError
from tenkey.library import CustomOperator, Library, custom_op, infer_schema
from tests._records import (
    NS,
    BadField,
    Box,
    Frozen,
    Keywords,
    Named,
    NoField,
    Pair,
    Point,
    Tensor,
    Tree,
    WithInitVar,
)
from tests._registry import registry_as_before


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


def make(function: Any, name: str = "f", **options: Any) -> CustomOperator:
    # In this file: names of the functions around it are found through callers of the same file.
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
            (WithInitVar, "'n', which is not a field"),
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
            assert "as separate arguments" in caught.value.remedy
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
