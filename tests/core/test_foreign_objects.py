"""Objects that claim to be arrays, with interfaces that are wrong, hostile or broken: each gives an error."""

import ctypes
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tenkey as tk

DATA = np.arange(6.0)
ADDRESS = DATA.ctypes.data
VALID = {"shape": (2,), "typestr": "<f8", "data": (ADDRESS, False), "version": 3}


class Interface:
    """An object with an ``__array_interface__``."""

    def __init__(self, **changes):
        self.__array_interface__ = {key: value for key, value in (VALID | changes).items() if value is not None}


class Calls:
    """An object whose ``__array__`` is given."""

    def __init__(self, function):
        self.function = function

    def __array__(self, dtype=None, copy=None):
        return self.function()


class Exporter:
    """An object that exports a capsule, which may be wrong."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class Mute:
    """An object that cannot be shown."""

    def __repr__(self):
        raise ZeroDivisionError("repr")


def test_valid_interfaces_are_read():
    assert tk.asarray(Interface()).tolist() == [0, 1]
    assert tk.asarray(Interface(strides=(16,))).tolist() == [0, 2]
    assert tk.asarray(Interface(strides=(-8,), data=(ADDRESS + 8, False))).tolist() == [1, 0]
    assert tk.asarray(Interface(data=(ADDRESS, True))).tolist() == [0, 1]
    assert tk.asarray([Interface(), Interface(strides=(16,))]).tolist() == [[0, 1], [0, 2]]
    assert tk.ones(3)[[Interface(typestr="<i8", data=(np.arange(2).ctypes.data, False))]].shape == (1, 2)


def test_addresses_of_objects_are_not_followed():
    """In a process of its own, which an error here would end."""
    program = """
        import tenkey as tk

        class Wild:
            __array_interface__ = {"shape": (2,), "typestr": "|O", "data": (12345678, False), "version": 3}

        class WildField:
            __array_interface__ = {
                "shape": (2,), "typestr": "|V8", "descr": [("a", "|O")], "data": (12345678, False), "version": 3
            }

        x = tk.ones(2)
        for wild in (Wild(), WildField()):
            for call in (
                lambda: tk.asarray(wild), lambda: tk.tensor(wild), lambda: tk.asarray([wild]),
                lambda: tk.asarray([[1.0, wild]]), lambda: tk.asarray(wild, dtype=tk.float32),
                lambda: tk.asarray([wild], dtype=tk.float32), lambda: x[[wild]], lambda: x[[[0, wild]]],
                lambda: x[wild], lambda: x.__setitem__(0, wild), lambda: x.__setitem__(0, [wild]), lambda: x + wild,
                lambda: tk.add(x, wild), lambda: tk.add(x, [wild]), lambda: tk.quantile(x, [wild]),
                lambda: tk.concat([x, wild]), lambda: tk.einsum("i,i", x, wild), lambda: tk.full((2,), wild),
            ):
                try:
                    call()
                except (TypeError, IndexError) as error:
                    assert "Wild" in str(error), error
                else:
                    raise AssertionError(call)
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("changes", [
    {"typestr": "nonsense"}, {"typestr": 5}, {"typestr": None}, {"shape": None}, {"shape": "ab"}, {"shape": (-2,)},
    {"shape": (1,) * 70}, {"shape": (2**62, 2**62)}, {"shape": (2**60,)}, {"strides": (8, 8)}, {"strides": ("a",)},
    {"data": (0, False)}, {"data": ("x", False)}, {"data": 5}, {"data": None},
], ids=str)  # fmt: skip
def test_impossible_interfaces_are_refused(changes):
    with pytest.raises((TypeError, ValueError), match=r"^\[asarray\] NumPy cannot read the array of an object of type"):
        tk.asarray(Interface(**changes))


@pytest.mark.parametrize("typestr", ["|V8", "<M8[s]", "<m8[s]", "|S8", "<U2", "<f16", "|O"])
def test_dtypes_that_tensors_do_not_have_are_refused(typestr):
    with pytest.raises(TypeError, match=r"^\[asarray\] cannot make a tensor of <.*Interface object.* with dtype"):
        tk.asarray(Interface(typestr=typestr, shape=(1,)))


@pytest.mark.parametrize("given", [3, None, "text", [1, 2], tk.ones(2), Mute()], ids=lambda x: type(x).__name__)
def test_methods_that_return_no_array_are_refused(given):
    with pytest.raises((TypeError, ValueError), match=r"^\[asarray\] NumPy cannot read the array of an object of type"):
        tk.asarray(Calls(lambda: given))
    with pytest.raises(BufferError, match="which is not an unused DLPack capsule"):
        tk.from_dlpack(Exporter(given))


@pytest.mark.filterwarnings("ignore:In future, it will be an error for 'np.bool' scalars:DeprecationWarning")
@pytest.mark.parametrize("last", [
    2, True, np.int64(2), np.uint8(2), tk.tensor(2), 2.0, 2.5, np.float64(2), np.bool_(True), 2**63, "2", None, [2],
], ids=repr)  # fmt: skip
def test_long_lists_are_read_as_short_ones(last):
    def outcome(length):
        found = []
        items = [0] * (length - 1) + [last]
        x, y = tk.arange(4.0), tk.zeros(length, dtype=tk.float64)
        for call in (lambda: x[items], lambda: y.__setitem__(slice(None), items) or y):
            try:
                got = call()
                found.append((got.dtype, got[-1].item()))
            except (IndexError, TypeError, ValueError) as error:
                found.append(type(error))
        return found

    assert outcome(40) == outcome(3)
    if last == 2:
        assert outcome(40)[1] == (tk.float64, 2)


def test_errors_of_the_object_itself_pass_through():
    def fail():
        raise ZeroDivisionError("mine")

    for call in (
        lambda: tk.asarray(Calls(fail)),
        lambda: tk.asarray([1.0, Calls(fail)]),
        lambda: tk.ones(2)[[Calls(fail)]],
    ):
        with pytest.raises(ZeroDivisionError, match="mine"):
            call()


@pytest.mark.parametrize("call", [
    tk.asarray, tk.tensor, lambda x: tk.asarray([x]), lambda x: tk.asarray(np.array([x])), lambda x: tk.asarray({1: x}),
    lambda x: tk.asarray(Calls(lambda: np.array([x]))), lambda x: tk.asarray(1.0, copy=x), lambda x: tk.ones(2)[x],
    lambda x: tk.ones(2)[[x]], lambda x: tk.ones(2)[x:], lambda x: tk.ones(2).__setitem__(0, x),
    lambda x: tk.ones(2).fill_(x), lambda x: tk.zeros(x), lambda x: tk.zeros(2, dtype=x),
    lambda x: tk.zeros(2, device=x), lambda x: tk.full((2,), x), lambda x: tk.ones(2).to(x),
    lambda x: tk.ones(2).to("cpu", x, x), lambda x: tk.ones(2).astype(x), lambda x: tk.ones(2).as_subclass(x),
    lambda x: tk.add(tk.ones(2), x), lambda x: tk.add(tk.ones(2), [x]), lambda x: tk.reshape(tk.ones(2), x),
    lambda x: tk.sum(tk.ones(2), axis=x), lambda x: tk.concat([x]), lambda x: tk.result_type(x), tk.finfo, tk.iinfo,
    lambda x: tk.isdtype(tk.float32, x), lambda x: tk.ones(2).__array_namespace__(api_version=x),
    lambda x: tk.ones(2).__dlpack__(dl_device=x), lambda x: tk.ones(2).__dlpack__(stream=x), tk.from_dlpack,
    lambda x: tk.from_dlpack(Exporter(x)), lambda x: tk.from_dlpack(Exporter(None, x)),
    lambda x: tk.from_dlpack(Exporter(None, (x, 0))), tk.random.normal, lambda x: tk.random.permutation(x),
    lambda x: tk.save({x: 1}, "x.safetensors"), lambda x: tk.save({"a": x}, "x.safetensors"),
])  # fmt: skip
def test_objects_that_cannot_be_shown_are_refused(call):
    with pytest.raises((TypeError, ValueError, IndexError, BufferError)):  # and not the error of the repr
        call(Mute())


# ---- capsules


class _DType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Capsule(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("dtype", _DType), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def _capsule(lengths=(2,), dtype=(2, 64, 1), **changes):
    """Return an exporter of six doubles with these changes, and what it needs alive."""
    lengths = (ctypes.c_int64 * max(len(lengths), 1))(*lengths)
    parts = {"data": ADDRESS, "device_type": 1, "ndim": len(lengths), "shape": ctypes.addressof(lengths)} | changes
    content = _Capsule(dtype=_DType(*dtype), **parts)
    return Exporter(_new_capsule(ctypes.addressof(content), b"dltensor", None)), (lengths, content)


def test_a_valid_capsule_is_read():
    exporter, alive = _capsule((2, 3))
    x = tk.from_dlpack(exporter)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError, match="which is not an unused DLPack capsule"):
        tk.from_dlpack(exporter)
    del x, alive


@pytest.mark.parametrize(("changes", "error"), [
    ({"data": None}, r"Exporter.__dlpack__ is invalid: it has no memory for the shape \(2,\)"),
    ({"shape": None}, "has no lengths in host memory"),
    ({"device_type": 2}, "has no lengths in host memory"),
    ({"ndim": 100}, "is refused by NumPy"),
    ({"ndim": -1}, "is refused by NumPy"),
    ({"lengths": (-2,)}, "is refused by NumPy"),
    ({"lengths": (2**62, 4)}, "is refused by NumPy"),
    ({"dtype": (2, 64, 4)}, "cannot hold the dtype float64x4"),
    ({"dtype": (0, 7, 1)}, "cannot hold the dtype int7"),
    ({"dtype": (99, 8, 1)}, "cannot hold the dtype of code 99"),
], ids=str)  # fmt: skip
def test_invalid_capsules_are_refused(changes, error):
    exporter, alive = _capsule(**changes)
    with pytest.raises((BufferError, TypeError), match=error):
        tk.from_dlpack(exporter)
    del alive


def test_an_empty_capsule_needs_no_memory():
    exporter, alive = _capsule((0, 3), data=None)
    assert tk.from_dlpack(exporter).shape == (0, 3)
    del alive
