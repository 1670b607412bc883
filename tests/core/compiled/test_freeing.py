"""Tensors are freed by the compiled core: what a class in Python frees, weak references, finalizers, cycles."""

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

KINDS = [tk.Tensor, tnp.ndarray]


def _made(kind: type) -> Any:
    return tk.ones(3) + 1 if kind is tk.Tensor else tnp.ones(3) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_references_are_given_back(kind: type) -> None:
    x, data, word = _made(kind), np.ones(3), (1 << 40) + 7
    counts = sys.getrefcount(kind), sys.getrefcount(data), sys.getrefcount(word)
    for _ in range(3):
        many = [_made(kind) for _ in range(100)]
        for one in many:
            one._data = data
        del many, one
    assert (sys.getrefcount(kind), sys.getrefcount(data), sys.getrefcount(word)) == counts
    del x


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_tensor_has_nothing_of_a_former_one(kind: type) -> None:
    former = [_made(kind) for _ in range(100)]
    slots = [name for name in tk.Tensor.__slots__ if name != "__weakref__"]
    for x in former:
        x.requires_grad_()
        for name in slots:
            setattr(x, name, x._autograd)
    del former, x
    for x in [_made(kind) for _ in range(100)]:
        assert x._autograd is None
        assert not any(hasattr(x, name) for name in slots)
        assert weakref.getweakrefcount(x) == 0


def test_a_new_view_has_nothing_of_a_former_one() -> None:
    """Arrays of views are used again (Note [Views are used again]): NumPy makes each one anew."""
    generator = np.random.default_rng(0)
    odd = tnp.zeros(8 * 27 + 1, tnp.uint8)[1:].view(tnp.float64).reshape(3, 3, 3)  # not aligned
    fixed = tnp.broadcast_to(tnp.float32(3), (4, 3, 3))  # cannot be written to
    sources = [odd, fixed, tnp.zeros((2, 3, 4, 5, 3)), tnp.zeros((3, 4, 3), tnp.int8)[:, 1:], tnp.zeros((3, 3, 3), "F")]
    indices: list[Any] = [1, -1, slice(1, 3), slice(None, None, 2), (slice(None), 1), (0, slice(1, 2), 1), None, ...]
    alive: list[Any] = []
    for _ in range(3000):
        x = sources[generator.integers(len(sources))]
        index = indices[generator.integers(len(indices))]
        view, expected = (x.T, x._data.T) if generator.integers(4) == 0 else (x[index], x._data[index])
        found = view._data
        assert (found.shape, found.dtype, found.ctypes.data) == (expected.shape, expected.dtype, expected.ctypes.data)
        steps = list(zip(found.shape, found.strides, expected.strides, strict=True))
        assert all(step == other for length, step, other in steps if length > 1)
        assert found.flags.num == expected.flags.num
        assert found.base is not None
        alive.append(view)
        if len(alive) > 40:
            del alive[:: generator.integers(1, 4)]


@pytest.mark.parametrize("kind", KINDS)
def test_views_give_references_back(kind: type) -> None:
    x = _made(kind)
    data = x._data
    count, of_dtype = sys.getrefcount(data), []
    for _ in range(3):
        views = [x[1:] for _ in range(100)]
        assert sys.getrefcount(data) == count + 100
        del views
        assert sys.getrefcount(data) == count
        of_dtype.append(sys.getrefcount(data.dtype))
    assert of_dtype[0] == of_dtype[1] == of_dtype[2]


@pytest.mark.parametrize("kind", KINDS)
def test_views_in_use_are_not_used_again(kind: type) -> None:
    x = _made(kind)
    x[1:]
    held, exported, watched = (x[1:] for _ in range(3))
    array, buffer, reference = held._data, memoryview(exported._data), weakref.ref(watched._data)
    del held, exported, watched
    for _ in range(100):
        x[:1]
    assert (array.shape, buffer.shape, reference()) == ((2,), (2,), None)
    assert array.__array_interface__["data"][0] == x._data[1:].__array_interface__["data"][0]
    buffer.release()
    for _ in range(100):
        x[:1]


def test_views_with_dtypes_of_users_are_not_kept() -> None:
    class Held:
        """An object in the metadata of a dtype."""

    held = Held()
    reference = weakref.ref(held)
    x = tnp.asarray(np.zeros((4, 5), np.dtype("f8", metadata={"held": held})))
    assert x[1:]._data.dtype.metadata is not None
    x[1]
    del held, x
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("kind", KINDS)
def test_weak_references(kind: type) -> None:
    x = _made(kind)
    found: list[Any] = []
    reference, quiet = weakref.ref(x, found.append), weakref.ref(x)
    del x
    assert found == [reference]
    assert reference() is quiet() is None
    assert quiet() is None
    y = _made(kind)
    assert quiet() is None
    del y


def test_instances_of_subclasses() -> None:
    log: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            log.append(self.name)

    class Plain(tk.Tensor):
        pass

    class WithSlots(tnp.ndarray):
        __slots__ = ("own",)

        def __del__(self) -> None:
            log.append("finalizer")

    for kind, like in ((Plain, tk.ones(2)), (WithSlots, tnp.ones(2))):
        x = like.as_subclass(kind)
        if kind is Plain:
            x.other = Noted("dict")
        else:
            x.own = Noted("slot")
        x._value = Noted("field")
        reference = weakref.ref(x)
        before = sys.getrefcount(kind)
        del x
        assert reference() is None
        assert sys.getrefcount(kind) == before - 1
        assert sorted(log) == (["dict", "field"] if kind is Plain else ["field", "finalizer", "slot"])
        assert kind is Plain or log[0] == "finalizer"
        log.clear()


def test_cycles_are_collected() -> None:
    for make in (lambda: tk.ones(3) + 1, lambda: tnp.ones(3) + 1):
        x: Any = make()
        reference = weakref.ref(x)
        x._extra = [x]
        del x
        assert reference() is not None
        gc.collect()
        assert reference() is None


PROGRAM = """
import ctypes, itertools, numpy, weakref
import tenkey as tk, tenkey.numpy as np
kept, calls = [], []
def save(x):
    calls.append(1)
    if len(calls) == 1: kept.append(x)
tk.Tensor.__del__ = save
x = tk.ones(3)
del x  # the finalizer saves it
assert kept[0].tolist() == [1, 1, 1]
kept.clear()  # a finalizer is called once
assert len(calls) == 1
y = np.ones(3)
del y
assert len(calls) == 2
del tk.Tensor.__del__
for _ in range(100): z = tk.ones(3) + 1
assert len(calls) == 2
class Buffer(ctypes.c_char * 1):
    def __init__(self, held): self.held = held
def in_field(x, former): x._extra = former
def in_storage(x, former): x._storage = former
def in_graph(x, former): x._autograd = former
def in_data(x, former): x._data = former
def in_base(x, former): x._data = numpy.frombuffer(Buffer(former), numpy.uint8)
def in_word(x, former): x._word = former
def in_two_fields(x, former): x._storage = x._autograd = itertools.repeat(former)
def in_data_and_storage(x, former): x._data = x._storage = itertools.repeat(former)
def also_in_list(x, former):  # until a callback empties the list while the tensor is freed
    others, x._storage = [former], former
    references.append(weakref.ref(x, lambda _: others.clear()))
def also_in_list_of_data(x, former):
    others, x._storage = [former], former
    references.append(weakref.ref(x._data, lambda _: others.clear()))
references = []
for hold in (in_field, in_storage, in_graph, in_data, in_base, in_word, in_two_fields, in_data_and_storage,
             also_in_list, also_in_list_of_data):
    x = None
    for _ in range(100_000):
        former, x = x, tk.ones(1) + 1
        hold(x, former)
    del former, x  # one after the other, with a stack of bounded depth
    references.clear()
print("done")
"""


def test_finalizers_of_the_class_itself_and_long_chains() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
