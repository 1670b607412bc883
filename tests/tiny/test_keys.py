"""Dispatch keys: their order, sets of them as functionality bits and backend bits, and how new ones are made."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from operator import length_hint
from types import SimpleNamespace
from typing import Any

import pytest

from tenkey.dispatch import DispatchKey, DispatchKeySet, keys
from tenkey.dispatch.keys import AliasKey, all_runtime_keys
from tests.tiny._fakes import AUTOGRAD_CPU, AUTOGRAD_CUDA, CPU, CUDA, META, TRAIT, private_copy

ORDER = [
    "Mode",
    "Subclass",
    "Batched",
    "VmapMode",
    "AutocastCPU",
    "Tracer",
    "Anomaly",
    "Inference",
    "AutogradCPU",
    "AutogradOther",
    "ADInplaceOrView",
    "Python",
    "BackendSelect",
    "CPU",
]
ALIASES = [DispatchKey.Autograd, DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeImplicitAutograd]
# What a careless caller may give where a key belongs.
NO_KEYS: list[Any] = ["CPU", 1, None, 1.5, object(), b"CPU", ["CPU"], [1], [None], {"CPU": 1}]


@pytest.fixture
def private() -> Iterator[SimpleNamespace]:
    with private_copy() as copied:
        yield copied


@pytest.fixture(scope="module")
def unchanged() -> Iterator[SimpleNamespace]:
    """One for all the tests in which every registration is refused, as they check: a copy takes a while."""
    with private_copy() as copied:
        before = list(copied.keys.DispatchKey)
        yield copied
        assert list(copied.keys.DispatchKey) == before


def test_order() -> None:
    """Highest first, as Note [Key order] lists them, whatever has been registered between them since."""
    keyset = DispatchKeySet([getattr(DispatchKey, name) for name in reversed(ORDER)])
    assert [key.name for key in keyset] == ORDER
    for higher, lower in itertools.pairwise(ORDER):
        pair = DispatchKeySet([getattr(DispatchKey, lower), getattr(DispatchKey, higher)])
        highest = pair.highest()
        assert highest is not None
        assert highest.name == higher
    note = keys.__doc__ or ""
    rows = [line.split("``")[1] for line in note.splitlines() if line.startswith("``")]
    documented = [{"Autocast": "AutocastCPU", "Autograd": "AutogradCPU", "Dense": "CPU"}.get(r, r) for r in rows]
    assert documented == ORDER


class TestKeySet:
    def test_empty(self) -> None:
        empty = DispatchKeySet()
        assert not empty
        assert empty == DispatchKeySet([]) == DispatchKeySet(())
        assert empty.highest() is None
        assert list(empty) == []
        assert repr(empty) == "DispatchKeySet()"
        assert empty.mask == 0

    @pytest.mark.parametrize("key", [CPU, AUTOGRAD_CPU, DispatchKey.Mode, DispatchKey.AutogradOther])
    def test_of_one_key(self, key: DispatchKey) -> None:
        keyset = DispatchKeySet(key)
        assert keyset == DispatchKeySet([key]) == DispatchKeySet({key}) == DispatchKeySet(iter([key]))
        assert keyset == DispatchKeySet(keyset)
        assert keyset.has(key)
        assert key in keyset
        assert keyset.highest() is key
        assert list(keyset) == [key]

    def test_backend_bits_and_functionality_bits_are_apart(self) -> None:
        """Three bits make AutogradCPU and CPU; a second backend adds one more bit and two more keys."""
        keyset = DispatchKeySet([CPU, AUTOGRAD_CPU])
        assert keyset.mask.bit_count() == 3
        both = keyset | CUDA
        assert both.mask.bit_count() == 4
        assert both.has(AUTOGRAD_CUDA)  # functionality x backend: nobody added this pair

    def test_mixed_set_is_led_by_the_highest_backend(self) -> None:
        assert DispatchKeySet([CPU, CUDA]).highest() is CUDA
        assert DispatchKeySet([CUDA, CPU, META]).highest() is META
        assert DispatchKeySet([AUTOGRAD_CPU, CUDA]).highest() is AUTOGRAD_CUDA

    def test_removal_leaves_the_backend_bit(self) -> None:
        keyset = DispatchKeySet([CPU, AUTOGRAD_CPU])
        without_dense = keyset.remove(CPU)
        assert list(without_dense) == [AUTOGRAD_CPU]
        assert not without_dense.has(CPU)
        only_bit = without_dense.remove(AUTOGRAD_CPU)
        assert only_bit.highest() is None
        assert list(only_bit) == []
        assert only_bit.mask == CPU.mask & AUTOGRAD_CPU.mask
        assert only_bit.add(DispatchKey.Dense).has(CPU)  # the bit that stayed is the CPU's
        assert repr(only_bit) == "DispatchKeySet(; bits: CPUBit)"

    def test_difference_leaves_the_backend_bits(self) -> None:
        keyset = DispatchKeySet([CPU, AUTOGRAD_CPU])
        assert keyset - CPU == keyset.remove(CPU)
        assert keyset - DispatchKeySet([CPU]) == keyset.remove(CPU)
        assert (keyset - keyset).mask == CPU.mask & AUTOGRAD_CPU.mask

    def test_removing_what_is_not_there(self) -> None:
        keyset = DispatchKeySet(CPU)
        assert keyset.remove(DispatchKey.Mode) == keyset
        assert DispatchKeySet().remove(CPU) == DispatchKeySet()
        # One functionality bit serves all backends: removing it for one removes it for all.
        assert not DispatchKeySet(CPU).remove(CUDA).has(CPU)

    @pytest.mark.parametrize("alias", ALIASES)
    def test_alias_gives_the_empty_set(self, alias: DispatchKey) -> None:
        assert DispatchKeySet(alias) == DispatchKeySet()
        assert not DispatchKeySet(alias).has(alias)
        keyset = DispatchKeySet(CPU)
        assert keyset.add(alias) == keyset.remove(alias) == (keyset | alias) == keyset
        assert not keyset.has(alias)
        assert not keyset & alias

    def test_operators_are_those_of_sets(self) -> None:
        a, b = DispatchKeySet([CPU, DispatchKey.Mode]), DispatchKeySet([DispatchKey.Mode, DispatchKey.Tracer])
        assert (a | b).mask == a.mask | b.mask
        assert (a & b) == DispatchKeySet(DispatchKey.Mode)
        assert (a | b) == (b | a)
        assert a.add(DispatchKey.Tracer) == a | b

    def test_immutable(self) -> None:
        keyset = DispatchKeySet(CPU)
        same, text, number = keyset, repr(keyset), hash(keyset)
        keyset.add(AUTOGRAD_CPU)
        keyset.remove(CPU)
        keyset |= AUTOGRAD_CPU
        assert repr(same) == text
        assert hash(same) == number
        assert same != keyset
        with pytest.raises(AttributeError):
            same.mask = 0  # type: ignore[misc]
        with pytest.raises(AttributeError):
            same.anything = 0  # type: ignore[attr-defined]

    def test_equality_and_hash(self) -> None:
        assert DispatchKeySet([CPU, AUTOGRAD_CPU]) == DispatchKeySet([AUTOGRAD_CPU, CPU])
        assert len({DispatchKeySet(CPU), DispatchKeySet([CPU]), DispatchKeySet(CUDA)}) == 2
        assert DispatchKeySet(CPU) != CPU
        assert DispatchKeySet() != 0
        assert CPU not in DispatchKeySet(CUDA)
        assert "CPU" not in DispatchKeySet(CPU)

    def test_below(self) -> None:
        """What a kernel redispatches with: neither its own key nor any before it."""
        keyset = DispatchKeySet([DispatchKey.Mode, AUTOGRAD_CPU, DispatchKey.ADInplaceOrView, CPU])
        assert list(keyset.below(AUTOGRAD_CPU)) == [DispatchKey.ADInplaceOrView, CPU]
        assert keyset.below(DispatchKey.Autograd) == keyset.below(AUTOGRAD_CUDA) == keyset.below(AUTOGRAD_CPU)
        assert list(keyset.below(DispatchKey.Tracer)) == [AUTOGRAD_CPU, DispatchKey.ADInplaceOrView, CPU]
        assert list(keyset.below(CPU)) == []

    def test_traits_are_no_keys(self) -> None:
        assert DispatchKeySet.from_word(CPU.mask | TRAIT) == DispatchKeySet(CPU)

    def test_repr_shows_runtime_keys_and_bits(self) -> None:
        text = repr(DispatchKeySet([CPU, AUTOGRAD_CPU, DispatchKey.Mode]))
        assert text == "DispatchKeySet(Mode, AutogradCPU, CPU; bits: Mode, AutogradFunctionality, Dense, CPUBit)"
        mixed = repr(DispatchKeySet([CPU, CUDA]))
        assert "CPUBit" in mixed
        assert "CUDABit" in mixed

    @pytest.mark.parametrize("wrong", NO_KEYS, ids=lambda value: repr(value).partition(" at 0x")[0])
    def test_what_is_no_key(self, wrong: Any) -> None:
        keyset = DispatchKeySet(CPU)
        calls: list[Callable[[], Any]] = [
            lambda: DispatchKeySet(wrong),
            lambda: keyset.add(wrong),
            lambda: keyset.has(wrong),
            lambda: keyset.remove(wrong),
            lambda: keyset | wrong,
            lambda: keyset - wrong,
            lambda: keyset & wrong,
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"is not a dispatch key: give a DispatchKey such as DispatchKey.CPU"):
                call()

    def test_pickle_and_copy(self) -> None:
        keyset = DispatchKeySet([CPU, AUTOGRAD_CPU])
        assert copy.deepcopy(keyset) == keyset
        assert pickle.loads(pickle.dumps(keyset)) == keyset


class TestKeys:
    @pytest.mark.parametrize("key", list(DispatchKey), ids=lambda value: repr(value).partition(" at 0x")[0])
    def test_identity_survives_pickle_and_copy(self, key: DispatchKey) -> None:
        assert pickle.loads(pickle.dumps(key)) is key
        assert copy.deepcopy(key) is key
        assert getattr(DispatchKey, key.name) is key
        assert repr(key) == f"DispatchKey.{key.name}"

    def test_what_a_key_says_of_itself(self) -> None:
        assert (CPU.functionality, CPU.backend) == ("Dense", "CPU")
        assert (AUTOGRAD_CPU.functionality, AUTOGRAD_CPU.backend) == ("AutogradFunctionality", "CPU")
        assert AUTOGRAD_CPU.is_autograd
        assert DispatchKey.AutogradOther.is_autograd
        assert not CPU.is_autograd
        assert [key.is_alias for key in (*ALIASES, CPU)] == [True, True, True, False]

    def test_runtime_keys_hold_no_alias_and_no_bare_functionality(self) -> None:
        everything = all_runtime_keys()
        assert len(set(everything)) == len(everything)
        for key in everything:
            assert not key.is_alias
            assert key.backend is not None or not key.per_backend
            assert DispatchKeySet(key).highest() is key

    def test_what_aliases_stand_for(self) -> None:
        standing = {
            alias.name: {key.name for key in (CPU, AUTOGRAD_CPU, DispatchKey.AutogradOther, DispatchKey.Mode)
                         if isinstance(alias, AliasKey) and alias.includes(key)}
            for alias in ALIASES
        }  # fmt: skip
        assert standing == {
            "Autograd": {"AutogradCPU", "AutogradOther"},
            "CompositeExplicitAutograd": {"CPU"},
            "CompositeImplicitAutograd": {"CPU", "AutogradCPU", "AutogradOther"},
        }

    def test_unknown_key(self) -> None:
        with pytest.raises(
            AttributeError, match=r"there is no dispatch key 'TPU'; known keys: .*CPU.*register_key"
        ) as e:
            _ = DispatchKey.TPU
        assert "AutogradCPU" in str(e.value)


class TestRegisterKey:
    """In a private copy of the dispatcher: a key stays for the life of the process."""

    def test_before_and_after(self, private: SimpleNamespace) -> None:
        key = private.keys.DispatchKey
        before = private.keys.register_key("Before", before=key.ADInplaceOrView)
        after = private.keys.register_key("After", after=key.ADInplaceOrView)
        keyset = private.keys.DispatchKeySet([key.CPU, after, key.ADInplaceOrView, before, key.Python])
        assert [k.name for k in keyset] == ["Before", "ADInplaceOrView", "After", "Python", "CPU"]
        assert key.Before is before
        assert [k.name for k in keyset.below(before)] == ["ADInplaceOrView", "After", "Python", "CPU"]

    def test_anchors_of_a_backend_and_aliases(self, private: SimpleNamespace) -> None:
        """The order is one of functionalities: a backend's key, and the alias of all, name the functionality."""
        key = private.keys.DispatchKey
        one = private.keys.register_key("One", before=key.AutogradCPU)
        two = private.keys.register_key("Two", after=key.Autograd)
        three = private.keys.register_key("Three", after=key.CUDA)
        keyset = private.keys.DispatchKeySet([three, two, one, key.AutogradCPU, key.CPU, key.AutogradOther])
        assert [k.name for k in keyset] == ["One", "AutogradCPU", "Two", "AutogradOther", "CPU", "Three"]

    def test_bits_do_not_move_and_do_not_run_out(self, private: SimpleNamespace) -> None:
        key = private.keys.DispatchKey
        old = private.keys.DispatchKeySet([key.CPU, key.AutogradCPU, key.Mode])
        mask, text = old.mask, repr(old)
        made = [private.keys.register_key(f"Key{i}", before=key.Python) for i in range(200)]
        assert (old.mask, repr(old)) == (mask, text)
        everything = private.keys.DispatchKeySet([*made, key.CPU])
        assert [k.name for k in everything] == [k.name for k in made] + ["CPU"]
        assert len({k.mask for k in made}) == 200

    def test_falls_through_until_something_is_registered(self, private: SimpleNamespace) -> None:
        registry = private.registry.Registry()
        op = registry.define("t::f(Tensor x) -> Tensor")
        registry.impl("t::f", private.kernel.Kernel(lambda x: "cpu", private.keys.DispatchKey.CPU))
        fake = SimpleNamespace(_word=private.keys.DispatchKey.CPU.mask)
        assert op(fake) == "cpu"
        key = private.keys.register_key("New", after=private.keys.DispatchKey.Tracer)  # after the first call
        newer = SimpleNamespace(_word=fake._word | key.mask)
        assert op(newer) == "cpu"
        assert op.table()[key].falls_through
        registry.impl("t::f", private.kernel.Kernel(lambda x: "new", key))
        assert op(newer) == "new"
        assert op(fake) == "cpu"
        assert op.table() == private.table.compute_table(op)

    def test_new_backend(self, private: SimpleNamespace) -> None:
        """It gets all three keys, and as the newest it wins where several backends meet."""
        key = private.keys.DispatchKey
        registry = private.registry.Registry()
        op = registry.define("t::f(Tensor x) -> Tensor")
        registry.impl("t::f", private.kernel.Kernel(lambda x: "gradient", key.Autograd))
        made = private.keys.register_backend_key("TPU")
        assert made is key.TPU
        assert "TPU" in private.keys.backend_names()
        keyset = private.keys.DispatchKeySet([key.CPU, key.AutogradTPU, key.AutocastTPU])
        assert [k.name for k in keyset] == ["AutocastTPU", "AutogradTPU", "TPU"]
        assert op.table()[key.AutogradTPU].rule == "2.3 Autograd"
        assert op.table()[key.TPU].rule == "4 missing"

    @pytest.mark.parametrize("name", ["CPU", "Autograd", "Dense", "CompositeImplicitAutograd"])
    def test_name_that_is_taken(self, unchanged: SimpleNamespace, name: str) -> None:
        match = f"'{name}' is a dispatch key already: choose another name"
        self._refused(unchanged, match, name, before=unchanged.keys.DispatchKey.CPU)

    @pytest.mark.parametrize(
        "name", ["", "1st", "a b", "class", "mask", "name", "backend", "mro", "is_alias", "__init__", 3, None]
    )
    def test_name_that_could_not_be_looked_up(self, unchanged: SimpleNamespace, name: Any) -> None:
        match = "the name of a key is an identifier that is not an attribute of DispatchKey, got"
        self._refused(unchanged, match, name, before=unchanged.keys.DispatchKey.CPU)
        with pytest.raises(unchanged.errors.RegistrationError, match=rf"\[register_backend_key\] {match}"):
            unchanged.keys.register_backend_key(name)

    def test_place(self, unchanged: SimpleNamespace) -> None:
        key = unchanged.keys.DispatchKey
        match = r"\[register_key\] 'New': give exactly one of before= and after=, a key of the order"
        self._refused(unchanged, match, "New")
        self._refused(unchanged, match, "New", before=key.CPU, after=key.CPU)
        self._refused(unchanged, match, "New", before="CPU")
        self._refused(unchanged, match, "New", after=key.CompositeImplicitAutograd)

    @pytest.mark.parametrize(("first", "second"), [("CPU", "CPU"), ("X", "X"), ("X", "AutogradX")])
    def test_backend_twice(self, private: SimpleNamespace, first: str, second: str) -> None:
        if first != "CPU":
            private.keys.register_backend_key(first)
        before = list(private.keys.DispatchKey)
        with pytest.raises(private.errors.RegistrationError, match="is a dispatch key already: choose another name"):
            private.keys.register_backend_key(second)
        assert list(private.keys.DispatchKey) == before

    def test_backend_takes_no_key_of_another_kind(self, private: SimpleNamespace) -> None:
        private.keys.register_key("AutocastX", before=private.keys.DispatchKey.CPU)
        before = list(private.keys.DispatchKey)
        with pytest.raises(private.errors.RegistrationError, match="'AutocastX' is a dispatch key already"):
            private.keys.register_backend_key("X")
        assert list(private.keys.DispatchKey) == before

    def _refused(self, private: SimpleNamespace, match: str, name: Any, **place: Any) -> None:
        before = self._state(private)
        with pytest.raises(private.errors.RegistrationError, match=match):
            private.keys.register_key(name, **place)
        assert self._state(private) == before

    def _state(self, private: SimpleNamespace) -> tuple[Any, ...]:
        keys = private.keys
        return list(keys.DispatchKey), keys.all_runtime_keys(), length_hint(keys._common_bits), repr(keys._rare_bits)
