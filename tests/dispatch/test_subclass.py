"""Note [Tensor subclasses]: who is asked, in which order, and what a subclass keeps."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import DispatchKey, DispatchMode

LOG: list[Any] = []


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


class Plain(tk.Tensor):
    """No handler, attributes of its own."""

    unit: str


class Logged(tk.Tensor):
    """The natural handler: note the operator, run it."""

    @classmethod
    def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        LOG.append((cls.__name__, op.name))
        return op(*args, **kwargs)


class Keeps(tk.Tensor):
    """Results have the class, too."""

    @classmethod
    def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        LOG.append((cls.__name__, op.name))
        return super().__tk_dispatch__(op, types, args, kwargs)


class Metres(tk.Tensor):
    """Units: a constructor, attributes, and answers of its own."""

    power: int

    def __new__(cls, data: Any, power: int = 1) -> Metres:
        made = (data if isinstance(data, tk.Tensor) else tk.asarray(data)).as_subclass(cls)
        made.power = power
        return made

    @classmethod
    def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        powers = [a.power if isinstance(a, cls) else 0 for a in args]
        plain = [a.as_subclass(tk.Tensor) if isinstance(a, cls) else a for a in args]
        if op.name == "tk::multiply":
            return cls(op(*plain), sum(powers))
        if op.name == "tk::add":
            if len(set(powers)) > 1:
                raise TypeError("units differ")
            return cls(op(*plain), powers[0])
        if op.name == "tk::square":
            return args[0] * args[0]  # asked about again: another operator
        return NotImplemented


def of(cls: Any, values: Any = (1.0, 2.0), **options: Any) -> Any:
    return tk.tensor(list(values), **options).as_subclass(cls)


class TestAsSubclass:
    def test_shares_storage_and_counts_versions_together(self) -> None:
        x = tk.tensor([1.0, 2.0])
        s = x.as_subclass(Plain)
        assert type(s) is Plain
        assert isinstance(s, tk.Tensor)
        assert tk.shares_storage(x, s)
        x[0] = 5.0
        assert s.tolist() == [5.0, 2.0]
        assert s._version == x._version == 1
        back = s.as_subclass(tk.Tensor)
        assert type(back) is tk.Tensor
        assert tk.shares_storage(back, x)
        assert back.keyset == x.keyset

    def test_is_a_view_in_the_graph(self) -> None:
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        s = x.as_subclass(Logged)
        assert s.requires_grad
        assert not s.is_leaf
        tk.sum(s * s).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 4.0]
        with tk.no_grad():
            assert not x.as_subclass(Logged).requires_grad

    def test_a_leaf_of_its_own(self) -> None:
        s = of(Logged).requires_grad_()
        assert s.is_leaf
        tk.sum(s * 3).backward()
        assert s.grad.tolist() == [3.0, 3.0]

    @pytest.mark.parametrize("wrong", [int, list, None, 3, "Tensor", np.ndarray])
    def test_what_is_no_subclass(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"\[as_subclass\] needs a subclass of Tensor"):
            tk.ones(2).as_subclass(wrong)

    def test_other_devices_and_dtypes(self) -> None:
        assert tk.ones(2, device="meta").as_subclass(Plain).device.type == "meta"
        assert tk.asarray([1, 2]).as_subclass(Plain).dtype == tk.int64

    def test_inside_a_transform(self) -> None:
        with pytest.raises(TypeError, match="inside a transform"):
            tk.transforms.vmap(lambda x: x.as_subclass(Plain))(tk.ones((2, 3)))

    def test_the_class_is_not_called(self) -> None:
        class Strict(tk.Tensor):
            def __new__(cls, *args: Any) -> Any:
                raise AssertionError

            def __init__(self, *args: Any) -> None:
                raise AssertionError

        assert type(of(Strict)) is Strict
        with pytest.raises(TypeError, match=r"made by tk\.tensor"):
            Plain([1.0])


class TestAsked:
    def test_for_functions_methods_operators_and_lists(self) -> None:
        x, y = of(Logged), tk.ones(2)
        tk.exp(x)
        x + y
        y + x
        2 - x
        x.sum()
        tk.concat([y, x])
        tk.ops.tk.negative(x)
        x[0]
        names = [name for _, name in LOG]
        first = ["tk::exp", "tk::add", "tk::add", "tk::subtract", "tk::sum", "tk::concat"]
        assert names[:6] == first
        assert "tk::negative" in names

    def test_calling_it_again_runs_the_operator(self) -> None:
        """``op(*args, **kwargs)`` in a handler is the operator itself, and results are plain."""
        x = of(Logged)
        y = tk.exp(x)
        assert LOG == [("Logged", "tk::exp")]
        assert type(y) is tk.Tensor
        np.testing.assert_allclose(y.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)
        assert y.keyset == tk.ones(2).keyset

    def test_views_of_instances_are_plain(self) -> None:
        x = of(Logged)
        for y in (x[0], tk.reshape(x, (2, 1)), copy.copy(tk.reshape(x, (1, 2)))):
            LOG.clear()
            assert type(y) is tk.Tensor
            assert y.keyset == tk.ones(2).keyset
            _ = y + 1
            assert not LOG

    def test_super_keeps_the_class(self) -> None:
        x = of(Keeps)
        y = tk.exp(x) + 1
        assert type(y) is Keeps
        assert LOG == [("Keeps", "tk::exp"), ("Keeps", "tk::add")]
        assert type(tk.softmax(x)) is Keeps
        assert LOG[2:] == [("Keeps", "tk::softmax")]  # off for everything inside

    def test_composite_asks_about_its_parts_when_called_again(self) -> None:
        tk.softmax(of(Logged))
        assert LOG[0] == ("Logged", "tk::softmax")
        assert ("Logged", "tk::max") in LOG

    def test_units(self) -> None:
        a, b = Metres([1.0, 2.0]), Metres([3.0, 4.0])
        area = a * b
        assert (type(area), area.power, area.tolist()) == (Metres, 2, [3.0, 8.0])
        assert tk.square(a).power == 2
        assert (a + b).power == 1
        with pytest.raises(TypeError, match="units differ"):
            area + a
        with pytest.raises(TypeError, match=r"\[tk::exp\] no implementation found for the types .*Metres") as caught:
            tk.exp(a)
        assert "as_subclass(tk.Tensor)" in str(caught.value)

    def test_gradients_flow_through_a_handler(self) -> None:
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        area = Metres(x) * Metres([3.0, 4.0])
        tk.sum(area.as_subclass(tk.Tensor)).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 4.0]

    def test_handler_gets_the_arguments_of_the_schema(self) -> None:
        seen: list[Any] = []

        class Sees(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                seen.append((op, types, args, kwargs))
                return "answer"

        x, y = of(Sees), tk.ones(2)
        assert tk.sum(x, axis=0) == "answer"
        assert tk.where(y > 0, x, y) == "answer"
        op, types, args, kwargs = seen[0]
        assert (op.name, types, args[0] is x, args[1:], kwargs) == (
            "tk::sum",
            (Sees,),
            True,
            ((0,),),
            {"dtype": None, "keepdims": False},
        )
        assert seen[1][1] == (tk.Tensor, Sees)

    def test_in_place_on_an_alias(self) -> None:
        x = of(Logged)
        x += 1.0
        assert x.tolist() == [2.0, 3.0]
        x[0] = 7.0
        assert x.tolist() == [7.0, 3.0]

    def test_attributes_do_not_ask(self) -> None:
        x = of(Logged)
        assert (x.shape, x.dtype, x.device.type, x.ndim) == ((2,), tk.float32, "cpu", 1)
        assert x.numpy().tolist() == x.tolist() == [1.0, 2.0]
        assert type(x.detach()) is tk.Tensor
        assert not LOG

    def test_numbers_among_the_arguments(self) -> None:
        """A Python number arrives as a tensor that stands for it, and stays one if a handler converts it."""

        class Converts(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return op(*[a.as_subclass(tk.Tensor) if isinstance(a, tk.Tensor) else a for a in args], **kwargs)

        y = of(Converts) * 2.5
        assert (y.tolist(), y.dtype) == ([2.5, 5.0], tk.float32)
        assert (2 - of(Converts)).tolist() == [1.0, 0.0]

    def test_a_handler_that_never_ends(self) -> None:
        class Endless(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return op(*[a.as_subclass(cls) if isinstance(a, tk.Tensor) else a for a in args], **kwargs)

        x = of(Endless)
        with pytest.raises(
            RuntimeError, match=r"\[tk::multiply\] the handler of .*Endless has called the operator within"
        ):
            x * 2
        with pytest.raises(RuntimeError, match=r"\[tk::exp\]"):
            tk.exp(x)
        assert tk.exp(of(Logged)).shape == (2,)


class TestOrder:
    @staticmethod
    def kind(name: str, base: type = tk.Tensor, answer: Any = NotImplemented) -> Any:
        def handler(cls: Any, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            LOG.append((name, cls.__name__))
            return answer

        return type(name, (base,), {"__tk_dispatch__": classmethod(handler)})

    def test_left_to_right(self) -> None:
        a, b = self.kind("A"), self.kind("B", answer="b")
        assert of(a) + of(b) == "b"
        assert LOG == [("A", "A"), ("B", "B")]
        LOG.clear()
        assert of(b) + of(a) == "b"
        assert LOG == [("B", "B")]

    def test_subclasses_before_superclasses(self) -> None:
        a = self.kind("A", answer="a")
        b = self.kind("B", a)
        assert tk.add(of(a), of(b)) == tk.add(of(b), of(a)) == "a"
        assert LOG == [("B", "B"), ("A", "A")] * 2

    def test_each_class_once(self) -> None:
        a = self.kind("A")
        with pytest.raises(TypeError):
            tk.concat([of(a), tk.ones(2), of(a)])
        assert LOG == [("A", "A")]

    def test_an_inherited_handler_gets_the_class_of_the_instance(self) -> None:
        a = self.kind("A", answer=1)
        b = type("B", (a,), {})
        assert tk.exp(of(b)) == 1
        assert LOG == [("A", "B")]

    def test_modes_come_first(self) -> None:
        class Mode(DispatchMode):
            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                LOG.append(("mode", types))
                return op(*args, **kwargs) if op.name == "tk::exp" else NotImplemented

        a = self.kind("A", answer="a")
        with Mode():
            assert tk.exp(of(a)) == tk.sin(of(a)) == "a"
        assert [("mode", (a,)), ("A", "A")] * 2 == LOG


class TestBelowAutograd:
    def test_sees_what_autograd_left(self) -> None:
        class Below(tk.Tensor):
            __tk_dispatch_below_autograd__ = True

            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                LOG.append((op.name, tk.is_grad_enabled()))
                return op(*args, **kwargs)

        assert DispatchKey.Python in of(Below).keyset
        x = of(Below).requires_grad_()
        y = tk.exp(x)
        assert LOG == [("tk::exp", False)]  # the node is made above
        assert y.requires_grad
        tk.sum(y).backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)

    def test_above_autograd_otherwise(self) -> None:
        seen: list[bool] = []

        class Above(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                seen.append(tk.is_grad_enabled())
                return op(*args, **kwargs)

        assert tk.exp(of(Above).requires_grad_()).requires_grad
        assert seen == [True]
        assert DispatchKey.Subclass in of(Above).keyset


class TestClass:
    def test_without_a_handler_costs_and_changes_nothing(self) -> None:
        x, s = tk.tensor([1.0, 2.0]), of(Plain)
        assert s._word == x._word
        assert type(s + 1) is tk.Tensor
        assert type(tk.reshape(s, (2, 1))) is tk.Tensor

    def test_handler_that_is_no_classmethod(self) -> None:
        with pytest.raises(TypeError, match="is a function, not a classmethod: put @classmethod"):

            class Wrong(tk.Tensor):
                def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
                    return None

    def test_repr_names_the_class(self) -> None:
        assert repr(of(Plain)) == "Plain([1., 2.], shape=(2,), dtype=float32, device='cpu')"
        assert repr(of(Logged)).startswith("Logged([1., 2.]")
        lines = repr(tk.ones((2, 2)).as_subclass(Plain)).splitlines()
        assert lines[1].index("[") == lines[0].index("[") + 1
        assert not LOG

    @pytest.mark.parametrize("cls", [Plain, Logged, Metres])
    @pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies_keep_class_and_attributes(self, cls: Any, how: Any) -> None:
        x = of(cls)
        x.power, x.notes = 3, ["a"]
        y = how(x)
        assert type(y) is cls
        assert (y.power, y.notes, y.tolist()) == (3, ["a"], [1.0, 2.0])
        assert not tk.shares_storage(x, y)
        assert (y.notes is x.notes) == (how is copy.copy)
        assert y.keyset == x.keyset
        assert not LOG

    def test_copies_of_leaves(self) -> None:
        x = of(Logged).requires_grad_()
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert type(y) is Logged
            assert y.is_leaf
            assert y.requires_grad

    def test_deepcopy_of_what_refers_to_itself(self) -> None:
        x = of(Plain)
        x.own = x  # type: ignore[attr-defined]
        y = copy.deepcopy(x)
        assert y.own is y  # type: ignore[attr-defined]

    def test_tasks_do_not_share_what_is_being_asked(self) -> None:
        class Slow(Logged):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                LOG.append(op.name)
                return op(*args, **kwargs)

        async def work() -> None:
            for _ in range(3):
                tk.exp(of(Slow))
                await asyncio.sleep(0)

        async def main() -> None:
            await asyncio.gather(work(), work())

        asyncio.run(main())
        assert LOG == ["tk::exp"] * 6

    def test_an_error_in_a_handler_leaves_no_trace(self) -> None:
        class Fails(tk.Tensor):
            @classmethod
            def __tk_dispatch__(cls, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                LOG.append(op.name)
                raise ZeroDivisionError

        x = of(Fails)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                tk.exp(x)
        assert LOG == ["tk::exp"] * 2
