"""tenkey.library.Library: what can be defined, what is refused, handles, and modules that are loaded again."""

from __future__ import annotations

import importlib
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.dispatch import DispatchKey
from tenkey.dispatch.errors import (
    MissingKernelError,
    OperatorNotFoundError,
    RegistrationError,
    SchemaError,
)
from tenkey.dispatch.kernel import Handle
from tenkey.dispatch.registry import registry
from tenkey.library import Library, register_autograd
from tests._library import NS, nothing_left, refused, state, values

HERE = "test_library.py:"


@pytest.fixture(autouse=True)
def _state_as_before() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.fixture
def library() -> Iterator[Library]:
    with Library(NS, "DEF") as made:
        yield made


X = tk.asarray([1.0, 2.0, 3.0])


class TestKinds:
    def test_unknown_kind(self) -> None:
        refused(lambda: Library(NS, "NEW"), RegistrationError, "[Library]", "'DEF', 'FRAGMENT' or 'IMPL'", "'NEW'")

    @pytest.mark.parametrize("name", ["a b", "", "a::b", "1st", "a.b"])
    def test_namespace_is_an_identifier(self, name: str) -> None:
        refused(lambda: Library(name, "DEF"), RegistrationError, "[Library]", "identifier", repr(name))

    @pytest.mark.parametrize("kind", ["DEF", "FRAGMENT"])
    def test_reserved_namespace(self, kind: str) -> None:
        refused(lambda: Library("tk", kind), RegistrationError, "'tk' belongs to tenkey", "'IMPL'")

    def test_impl_library_cannot_define(self, library: Library) -> None:
        made = Library(NS, "IMPL")
        refused(lambda: made.define("f(Tensor x) -> Tensor"), RegistrationError, "'IMPL'", "'DEF' or 'FRAGMENT'")

    def test_one_owner_of_a_namespace(self, library: Library) -> None:
        text = refused(lambda: Library(NS, "DEF"), RegistrationError, repr(NS), "owned", "'FRAGMENT'")
        assert text.count(HERE) == 2

    def test_fragment_adds_to_an_owned_namespace(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        with Library(NS, "FRAGMENT") as fragment:
            fragment.define("g(Tensor x) -> Tensor")
            fragment.impl("g", lambda x: x + 1, "cpu")
            assert values(tk.ops.library_test.g(X)) == [2.0, 3.0, 4.0]
        assert f"{NS}::f" in registry.operators
        assert f"{NS}::g" not in registry.operators

    def test_ownership_ends_with_the_library(self) -> None:
        first = Library(NS, "DEF")
        first.remove()
        second = Library(NS, "DEF")
        first.remove()  # removed already: it must not give away what the second one owns
        with pytest.raises(RegistrationError, match="owned"):
            Library(NS, "DEF")
        second.remove()

    def test_lives_on_without_a_reference(self) -> None:
        Library(NS, "FRAGMENT").define("kept(Tensor x) -> Tensor")
        Library(NS, "IMPL").impl("kept", lambda x: x * 2, "cpu")
        assert values(tk.ops.library_test.kept(X)) == [2.0, 4.0, 6.0]
        registry.undefine(registry.find(f"{NS}::kept"), keep_kernels=False)

    def test_context_manager_after_an_exception(self) -> None:
        before = state()

        def fails() -> None:
            with Library(NS, "DEF") as made:
                made.define("f(Tensor x) -> Tensor")
                made.impl("f", lambda x: x, "cpu")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        assert state() == before
        Library(NS, "DEF").remove()


class TestDefine:
    def test_schema_error_points_at_the_column(self, library: Library) -> None:
        def define() -> None:
            library.define("f(Tenso x) -> Tensor")

        text = refused(define, SchemaError, "'Tenso'", "Tensor")
        assert "^" in text

    def test_foreign_namespace(self, library: Library) -> None:
        refused(lambda: library.define("other::f(Tensor x) -> Tensor"), RegistrationError, "'other'", repr(NS))

    def test_own_namespace_may_be_written(self, library: Library) -> None:
        library.define(f"{NS}::f(Tensor x) -> Tensor")
        assert f"{NS}::f" in registry.operators

    def test_twice_names_both_places(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        text = refused(
            lambda: library.define("f(Tensor x, Tensor y) -> Tensor"),
            RegistrationError, f"[{NS}::f]", "defined already", "remove()",
        )  # fmt: skip
        assert text.count(HERE) == 2

    def test_overloads(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor")
        library.define("f.by(Tensor x, float by) -> Tensor")
        library.impl("f", lambda x: x + 1, "cpu")
        library.impl("f.by", lambda x, by: x * by, "cpu")
        packet = tk.ops.library_test.f
        assert packet.overloads() == ["default", "by"]
        assert values(packet(X)) == [2.0, 3.0, 4.0]
        assert values(packet(X, 3.0)) == [3.0, 6.0, 9.0]
        assert values(packet.default(X)) == [2.0, 3.0, 4.0]

    def test_handle_removes_the_operator(self, library: Library) -> None:
        handle = library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x, "cpu")
        function = tk.ops.library_test.f.default
        assert values(function(X)) == [1.0, 2.0, 3.0]
        handle.remove()
        handle.remove()
        with pytest.raises(OperatorNotFoundError, match="was removed from the registry"):
            function(X)

    def test_unknown_operator_has_close_matches(self, library: Library) -> None:
        library.define("smooth(Tensor x) -> Tensor")
        text = refused(lambda: registry.find(f"{NS}::smoth"), OperatorNotFoundError, "no operator", f"{NS}::smooth")
        assert "Close" in text
        refused(lambda: tk.ops.library_test.smoth, AttributeError, f"{NS}::smooth")

    def test_unknown_names_are_missing_attributes_with_close_matches(self, library: Library) -> None:
        library.define("smooth(Tensor x) -> Tensor")
        for call in (
            lambda: tk.ops.library_test.smoth,
            lambda: tk.ops.library_test.smooth.out2,
            lambda: tk.ops.library_tst.smooth,
        ):
            refused(call, OperatorNotFoundError, "no operator", "Close: library_test")
            refused(call, AttributeError, "no operator")
        assert not hasattr(tk.ops.library_test, "smoth")

    @pytest.mark.parametrize("tags", ["sorted", ("pointwise", "sorted"), [3], 3])
    def test_unknown_tags(self, library: Library, tags: Any) -> None:
        text = refused(lambda: library.define("f(Tensor x) -> Tensor", tags=tags), RegistrationError, f"[{NS}::f]")
        assert "data_dependent_output" in text
        assert ("'sorted'" if "3" not in repr(tags) else "3") in text
        assert f"{NS}::f" not in registry.operators

    def test_one_tag(self, library: Library) -> None:
        library.define("f(Tensor x) -> Tensor", tags="nondeterministic")
        assert registry.find(f"{NS}::f").tags == {"nondeterministic"}

    def test_variants_by_the_tags(self, library: Library) -> None:
        library.define("scale(Tensor x, float k, *, float by=1.0) -> Tensor", tags=("inplace", "out"))
        library.impl("scale", lambda x, k, *, by=1.0: x * k * by, "default")
        register_autograd(f"{NS}::scale", lambda ctx, g: (g * 7, None))
        op, op_ = tk.ops.library_test.scale, tk.ops.library_test.scale_
        x, out = tk.asarray([1.0, 2.0]), tk.empty(2)
        version = x._version
        assert op_(x, 2.0, by=3.0) is x
        assert values(x) == [6.0, 12.0]
        assert x._version > version
        assert op(x, 2.0, out=out) is out
        assert values(out) == [12.0, 24.0]
        leaf = tk.tensor([1.0], requires_grad=True)
        refused(lambda: op_(leaf, 2.0), RuntimeError, "leaf")
        y = leaf * 1
        op_(y, 2.0).sum().backward()
        assert values(leaf.grad) == [7.0]
        registry.undefine(registry.find(f"{NS}::scale"))
        assert not hasattr(tk.ops, NS)

    @pytest.mark.parametrize("schema", ["f(int n) -> Tensor", "f() -> Tensor", "f(Tensor x) -> (Tensor, Tensor)"])
    def test_what_has_no_inplace_variant(self, library: Library, schema: str) -> None:
        refused(lambda: library.define(schema, tags="inplace"), RegistrationError, f"[{NS}::f]", "'inplace'")

    def test_vmap_asks_the_tags(self, library: Library) -> None:
        for name, tag in (("shape", "data_dependent_output"), ("noise", "nondeterministic")):
            library.define(f"{name}(Tensor x) -> Tensor", tags=(tag,))
            library.impl(name, lambda x: x * 1, "default")
        vmap, operators = tk.transforms.vmap, tk.ops.library_test
        refused(lambda: vmap(operators.shape)(X), RuntimeError, f"[{NS}::shape]", "dynamic shape", "register_vmap")
        refused(lambda: vmap(operators.noise)(X), RuntimeError, f"[{NS}::noise]", "random")
        refused(lambda: vmap(operators.noise, randomness="same")(X), RuntimeError, f"[{NS}::noise]", "'different'")
        assert values(vmap(operators.noise, randomness="different")(X)) == [1.0, 2.0, 3.0]


class TestHandles:
    def test_order_of_removal_does_not_matter(self) -> None:
        """Whatever is removed in whatever order, what is left works as if nothing else had ever been."""
        steps: dict[str, Callable[[Library], Handle]] = {
            "cpu": lambda made: made.impl("f", lambda x: 1, "cpu", allow_override=True),
            "over": lambda made: made.impl("f", lambda x: 2, "cpu", allow_override=True),
            "default": lambda made: made.impl("f", lambda x: 3, "default"),
            "conditional": lambda made: made.impl("f", lambda x: 4, "cpu", when=lambda x: x.size > 2),
        }

        def answer(left: set[str], x: tk.Tensor) -> int | None:
            if "conditional" in left and x.size > 2:
                return 4
            ranked = [(n, r) for n, r in (("over", 2), ("cpu", 1), ("default", 3)) if n in left]
            return ranked[0][1] if ranked else None

        for order in itertools.permutations(steps):
            with Library(NS, "DEF") as made:
                made.define("f(Tensor x) -> int")
                call = tk.ops.library_test.f
                clean = state()
                handles = {name: step(made) for name, step in steps.items()}
                left = set(steps)
                for name in order:
                    handles[name].remove()
                    left.remove(name)
                    for x in (X, X[:1]):
                        if answer(left, x) is None:
                            with pytest.raises(MissingKernelError):
                                call(x)
                        else:
                            assert call(x) == answer(left, x)
                assert state() == clean

    def test_handle_is_a_context_manager(self, library: Library) -> None:
        with library.define("f(Tensor x) -> Tensor") as handle:
            assert "operator" in repr(handle)
            assert f"{NS}::f" in registry.operators
        assert "(removed)" in repr(handle)
        assert f"{NS}::f" not in registry.operators


class TestModules:
    """A module that registers can be loaded again, also after it failed; see ``Library``."""

    def write(self, path: Path, *lines: str) -> None:
        path.write_text("\n".join(["import tenkey as tk", *lines]))
        importlib.invalidate_caches()
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)

    @pytest.fixture
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        monkeypatch.syspath_prepend(str(tmp_path))
        yield tmp_path / "registers_for_test.py"
        sys.modules.pop("registers_for_test", None)
        self.write(tmp_path / "registers_for_test.py", f"tk.library.Library({NS!r}, 'DEF').remove()")
        importlib.import_module("registers_for_test")
        sys.modules.pop("registers_for_test", None)

    def lines(self, factor: int) -> list[str]:
        return [
            f"lib = tk.library.Library({NS!r}, 'DEF')",
            "lib.define('f(Tensor x) -> Tensor')",
            f"tk.library.Library({NS!r}, 'IMPL').impl('f', lambda x: x * {factor}, 'cpu')",
            f"more = tk.library.Library({NS!r}, 'FRAGMENT')",
            "more.define('g(Tensor x) -> Tensor')",
            f"more.impl('g', lambda x: x + {factor}, 'default')",
        ]

    def test_reload(self, module: Path) -> None:
        self.write(module, *self.lines(2))
        loaded = importlib.import_module("registers_for_test")
        for factor in (2, 3, 5):
            self.write(module, "# a line more", *self.lines(factor))
            importlib.reload(loaded)
            assert values(tk.ops.library_test.f(X[:2])) == [factor, 2.0 * factor]
            assert values(tk.ops.library_test.g(X[:1])) == [1.0 + factor]
            assert len(registry.find(f"{NS}::f").kernels[DispatchKey.CPU]) == 1

    def test_again_after_a_failure(self, module: Path) -> None:
        self.write(module, *self.lines(2), "lib.define('f(Tensor x) -> Tensor')")
        with pytest.raises(RegistrationError, match="defined already"):
            importlib.import_module("registers_for_test")
        assert values(tk.add(X, X)) == [2.0, 4.0, 6.0]
        self.write(module, *self.lines(3))
        importlib.import_module("registers_for_test")
        assert values(tk.ops.library_test.f(X)) == [3.0, 6.0, 9.0]

    def test_twice_in_one_run_is_an_error(self, module: Path) -> None:
        self.write(module, f"for _ in range(2): tk.library.Library({NS!r}, 'DEF')")
        with pytest.raises(RegistrationError, match="owned by"):
            importlib.import_module("registers_for_test")
        self.write(module, *self.lines(2), *self.lines(2)[:1])
        with pytest.raises(RegistrationError, match="owned by"):
            importlib.import_module("registers_for_test")


def test_cached_attributes_of_ops_follow_the_definitions() -> None:
    """Namespaces and packets are attributes after their first use, for as long as they have operators."""
    for _ in range(2):
        with Library("cached_test", "DEF") as library:
            library.define("f(Tensor x) -> Tensor")
            first = library.define("g(Tensor x) -> Tensor")
            library.impl("f", lambda x: x + 1, "cpu")
            assert tk.ops.cached_test.f(tk.asarray(1.0)).item() == 2.0
            assert "cached_test" in vars(tk.ops)
            assert tk.ops.cached_test is tk.ops.cached_test
            assert tk.ops.cached_test.g is tk.ops.cached_test.g
            first.remove()
            assert not hasattr(tk.ops.cached_test, "g")
            assert hasattr(tk.ops.cached_test, "f")
        assert not hasattr(tk.ops, "cached_test")


def test_the_index_of_overloads_is_what_a_scan_finds() -> None:
    def scan() -> tuple[dict[str, list[Any]], dict[Any, int]]:
        found: dict[str, list[Any]] = {}
        spaces: dict[Any, int] = {}
        for op in registry:
            found.setdefault(op.schema.name, []).append(op)
            spaces[op.schema.namespace] = spaces.get(op.schema.namespace, 0) + 1
        return found, spaces

    def check() -> None:
        found, spaces = scan()
        assert {name: list(ops) for name, ops in registry.operators.overloads.items()} == found
        assert registry.operators.namespaces == spaces

    check()
    with Library("index_test", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        first = library.define("f.a(Tensor x, int k) -> Tensor")
        library.define("f.b(Tensor x, str k) -> Tensor")
        check()
        first.remove()
        check()
        library.define("f.a(Tensor x, float k) -> Tensor")
        check()
        assert tk.ops.index_test.f.overloads() == ["default", "b", "a"]
        operator = registry.operators["index_test::f"]
        registry.operators["index_test::f"] = operator  # the newest now
        check()
        assert tk.ops.index_test.f.overloads() == ["b", "a", "default"]
        del registry.operators["index_test::f"]
        check()
        registry.operators["index_test::f"] = operator
        check()
    check()
    assert "index_test" not in registry.operators.namespaces
    with pytest.raises(AttributeError, match="no operators in a namespace 'index_test'"):
        _ = tk.ops.index_test
