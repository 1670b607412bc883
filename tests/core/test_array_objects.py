"""NumPy array objects that enter and leave tensors: a tensor shares their memory, never the object."""

import array
import copy
import io
import math
import pickle

import numpy as np
import pytest

import tenkey as tk

pytestmark = pytest.mark.filterwarnings("ignore:Setting the (shape|dtype) on a NumPy array:DeprecationWarning")


class Holder:
    """An array of another library, which hands out the object that it works with itself."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def _mangle(array):
    """Change everything about an array object that NumPy lets its holder change."""
    array.shape = (array.size,)
    array.dtype = np.int64
    array.setflags(write=False)


def _check(x):
    """Check that a tensor of the numbers 0 to 5 in two rows is what it was."""
    assert (x.shape, x.dtype, x.strides) == ((2, 3), tk.float64, (3, 1))
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    x += 1
    assert (x * 2).tolist() == [[2, 4, 6], [8, 10, 12]]
    x -= 1


def _array():
    return np.arange(6.0).reshape(2, 3).copy()


@pytest.mark.parametrize("make", [
    tk.asarray,
    lambda a: tk.asarray(a, copy=False),
    lambda a: tk.asarray(a, dtype=tk.float64),
    lambda a: tk.asarray(Holder(a)),
    tk.from_dlpack,
])  # fmt: skip
def test_changes_of_an_array_object_do_not_reach_the_tensor(make):
    a = _array()
    x = make(a)
    same = a.view()
    _mangle(a)
    _check(x)
    same[0, 0] = 7
    assert x[0, 0].item() == 7, "the memory is shared"


@pytest.mark.parametrize("make", [_array, lambda: np.arange(12.0).reshape(4, 3)[:2]], ids=["owner", "window"])
@pytest.mark.parametrize("give", [
    lambda x: x.numpy(), lambda x: x.array, np.asarray, lambda x: np.asarray(x, np.float64),
    pytest.param(np.from_dlpack, marks=pytest.mark.skipif(
        np.lib.NumpyVersion(np.__version__) < "2.3.0", reason="NumPy before 2.3 reads every capsule as read-only")),
    lambda x: x.__array__(), lambda x: x.detach().numpy(),
])  # fmt: skip
def test_changes_of_an_array_that_was_handed_out_do_not_reach_the_tensor(make, give):
    x = tk.asarray(make())
    for _ in range(2):
        given = give(x)
        given[0, 0] = 8
        assert x[0, 0].item() == 8, "the memory is shared"
        given[0, 0] = 0
        _mangle(given)
        _check(x)


def test_saved_tensors_keep_their_shape():
    a, b = _array(), _array()
    x = tk.asarray(a).requires_grad_()
    y = tk.sum(x * b)  # the operand is an array, which backward needs
    z = tk.sum(x[np.array([0, 1]), :] * 2)
    _mangle(b)
    index = np.array([1, 1])
    rows = tk.sum(x[index])
    index.dtype = np.int32
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), _array())
    x.grad = None
    (z + rows).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2, 2, 2], [4, 4, 4]])


def test_assigned_and_copied_arrays_stay_apart():
    a = _array()
    x = tk.zeros((2, 3), dtype=tk.float64)
    x[...] = a
    _mangle(a)
    _check(x)
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        _check(made)
    both = pickle.loads(pickle.dumps((x, x._data)))  # the pickle contains the array once
    _mangle(both[1])
    _check(both[0])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_pickle_may_map_a_file(mode, tmp_path):
    class Mapping(pickle.Pickler):
        """Writes arrays to files, as joblib does."""

        def reducer_override(self, obj):
            if type(obj) is not np.ndarray:
                return NotImplemented
            np.save(tmp_path / "a.npy", obj)
            return np.load, (tmp_path / "a.npy", mode)

    stream = io.BytesIO()
    Mapping(stream).dump(tk.asarray(_array()).requires_grad_())
    x = pickle.loads(stream.getvalue())
    assert type(x._data) is np.ndarray
    assert x.device == tk.device("cpu")
    assert x.requires_grad
    _check(x.detach())
    assert isinstance(x._data.base, np.memmap) == (mode != "r"), "writable memory is shared"


def test_gradients_do_not_take_the_memory_of_a_users_array():
    kept = np.ones(3)

    class Scaled(tk.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return tk.asarray(kept)

    x = tk.zeros(3, dtype=tk.float64).requires_grad_()
    for _ in range(3):
        tk.sum(Scaled.apply(x)).backward()
    assert x.grad.tolist() == [3, 3, 3]
    assert kept.tolist() == [1, 1, 1]


SOURCE = np.ones(3)


@pytest.mark.parametrize(("name", "result"), [
    ("argument", lambda x: tk.asarray(x.numpy())),
    ("data", lambda x: tk.asarray(x.array)),
    ("window", lambda x: tk.asarray(x.numpy()[1:])),
    ("source", lambda x: tk.asarray(SOURCE)),
])  # fmt: skip
def test_custom_operators_that_return_views_are_found(name, result):
    view = tk.library.custom_op(f"test_array_objects::{name}", result, mutates_args=(), schema="(Tensor x) -> Tensor")
    for x in (tk.asarray(SOURCE), tk.asarray(SOURCE)[:], tk.asarray(SOURCE[:])):
        with pytest.raises(RuntimeError, match="returned a view of one of its arguments, 'x'"):
            view(x)
    if name == "source":
        assert view(tk.zeros(3)).tolist() == [1, 1, 1]


def test_kernels_cannot_change_the_numbers_of_a_program():
    @tk.library.custom_op("test_array_objects::overwrites", mutates_args=())
    def overwrites(x: tk.Tensor, y: tk.Tensor) -> tk.Tensor:
        y.numpy()[...] = 7
        return x * y

    with pytest.raises(ValueError, match="read-only"):
        overwrites(tk.ones(2), 2.0)
    assert (tk.ones(2) * 2.0).tolist() == [2, 2]


class Named(np.ndarray):
    """A subclass with an attribute that tensors use for something else."""

    device = "a name"

    def view(self, *args):
        raise AssertionError("overridden methods of a subclass are not called")


@pytest.mark.parametrize("kind", ["subclass", "memmap", "read-only memmap", "recarray"])
def test_subclasses_are_accepted_as_plain_arrays(kind, tmp_path):
    a = _array()
    if "memmap" in kind:
        np.save(tmp_path / "a.npy", a)
        given = np.load(tmp_path / "a.npy", mmap_mode="r" if "read-only" in kind else "r+")
    else:
        given = np.ndarray.view(a, Named if kind == "subclass" else np.recarray)
    x = tk.asarray(given)
    made = [
        x, tk.tensor(given), pickle.loads(pickle.dumps(x)), tk.zeros((2, 3), dtype=tk.float64) + given,
        tk.asarray([given])[0], tk.where(tk.ones((2, 3), dtype=tk.bool), x, given), x[np.array([0, 1]).view(Named)],
    ]  # fmt: skip
    y = tk.zeros((2, 3), dtype=tk.float64)
    y[...] = given
    for one in (*made, y):
        assert type(one._data) is np.ndarray
        assert one.device == tk.device("cpu")
        _check(one)
    assert np.shares_memory(x.numpy(), given) == ("read-only" not in kind)


class TestElementsThatRequireAGradient:
    """NumPy takes an element with ``float(x)``, which a user may call and an assignment may not."""

    x = tk.tensor([1.5, 2.0], dtype=tk.float64, requires_grad=True)

    @pytest.mark.parametrize("given", [x[0], x[:1], x[:1] * 2])
    @pytest.mark.parametrize("dtype", [float, np.float32, int, complex])
    def test_elements_of_arrays_do_not_lose_gradients(self, given, dtype):
        a = np.zeros((2, 3), dtype)

        def at_ints():
            a[0, 1] = given

        def at_the_end():
            a[..., -1][0] = given

        def in_place():
            a[0][0] += given

        def flat():
            a.flat[2] = given

        def scalar():
            np.zeros((), dtype)[()] = given

        def record():
            np.zeros(2, [("first", dtype)])["first"][0] = given

        def of_python():
            array.array("d", [0.0])[0] = given

        for assign in (at_ints, at_the_end, in_place, flat, scalar, record, of_python):
            with pytest.raises((RuntimeError, ValueError)) as caught:
                assign()
            reason = caught.value
            while reason.__cause__ is not None:  # NumPy puts errors about elements before it
                reason = reason.__cause__
            if assign is not flat:  # for which NumPy replaces every error by its own
                assert "Can't assign a Tensor that requires grad" in str(reason)
        assert not a.any()

    def test_whole_arrays_and_lists(self):
        a, x = np.zeros(2), self.x

        def whole():
            a[:] = x

        def row():
            a[:] = [x[0], x[1]]

        for call in (
            whole,
            row,
            lambda: np.array([x[0], x[1]]),
            lambda: np.array([[x[0], 1.0]]),
            lambda: np.full(2, x[0]),
        ):
            with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
                call()
        assert not a.any()

    def test_what_is_allowed(self):
        a, e = np.zeros(4), self.x[0]
        a[0], a[1] = float(e), e.detach()
        with tk.no_grad():
            a[2] = e
        a[3] = tk.asarray(1.5)
        assert a.tolist() == [1.5] * 4
        assert (int(e), complex(e), f"{e:.1f}", math.floor(e), np.float64(e)) == (1, 1.5, "1.5", 1, 1.5)
        numbers = {}
        numbers["twice"] = float(e) + float(e)
        assert numbers == {"twice": 3.0}
        objects = np.zeros(1, object)
        objects[0] = e
        assert objects[0] is e
