"""Note [Small calls in machine code]: compiled calls have NumPy's results to the bit, and keep no reference."""

from __future__ import annotations

import operator
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy.compiled_calls import python_objects, ufunc_plans
from tenkey.numpy.compiled_calls.class_slots import compiled
from tenkey.numpy.namespace import universal
from tests.numpy._outcomes import frames, outcome, same
from tests.numpy._versions import COMPARES_UNSIGNED, SHORT_POWERS

pytestmark = pytest.mark.skipif(compiled() is None, reason="this interpreter runs no compiled calls")

DTYPES = ["?", "i1", "i8", "u8", "f2", "f4", "f8", "c16"]
BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, divmod,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
UNARY = [operator.neg, operator.pos, operator.invert, abs, bool, float, int, operator.index, len]


_WINDOWS: tuple[Callable[[Any], Any], ...] = (
    lambda v: v[:4], lambda v: v[::3], lambda v: v.reshape(3, 4)[:2, :2], lambda v: v.reshape(3, 4).T, lambda v: v[:0],
    lambda v: v[3:4], lambda v: v[:4].reshape(1, 4), lambda v: v[1:2].reshape(()),
)  # fmt: skip
"""Arrays in rows, with steps, of two dimensions, in columns, empty, of one element, and of no dimension."""


def layouts(dtype: str) -> list[tuple[Any, np.ndarray]]:
    """Return each layout as an array of ours and of NumPy."""
    values = np.array([3, 1, 0, 2, 1, 5, 4, 2, 7, 1, 3, 0]).astype(dtype)
    return [(window(tnp.array(values)), window(values)) for window in _WINDOWS]


class TestUfuncs:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_operators_of_all_layouts(self, dtype: str) -> None:
        tnp.power(tnp.ones(2, dtype), 2)  # of which x**2 makes no use
        arrays = layouts(dtype)
        numbers = [(number, number) for number in (2, 2.0, -1, np.float64(0.5))]
        if dtype.startswith("u") and not COMPARES_UNSIGNED:
            numbers.remove((-1, -1))
        if SHORT_POWERS and dtype in ("f2", "f4"):
            numbers.remove((0.5, 0.5))
        if SHORT_POWERS and dtype == "?":
            numbers = numbers[:1]
        for apply in BINARY:
            for x in arrays:
                for y in (*arrays, *numbers):
                    for (a, one), (b, other) in ((x, y), (y, x)):
                        wanted = outcome(apply, one, other)
                        agree = _close if apply is operator.pow else same  # NumPy's operator ** has reciprocals
                        for _ in range(2):  # the second call is compiled
                            assert agree(outcome(apply, a, b), wanted), (apply, one, other)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_functions_of_all_layouts(self, dtype: str) -> None:
        names = ["exp", "sqrt", "sin", "isnan", "floor", "sign", "square", "reciprocal", "logical_not", "absolute"]
        names += ["maximum", "arctan2", "logaddexp", "copysign", "fmod", "hypot", "logical_and", "less", "float_power"]
        for a, x in layouts(dtype):
            for name in names:
                count = getattr(np, name).nin
                wanted = outcome(getattr(np, name), *[x] * count)
                for _ in range(2):
                    assert _close(outcome(universal[name], *[a] * count), wanted), (name, x)

    def test_no_python_function_is_entered(self) -> None:
        x, y = tnp.array([1.0, 2.0]), tnp.array([3.0, 4.0])
        calls: list[Callable[[], Any]] = [
            lambda: x + y, lambda: 2.0 * x, lambda: x - 1, lambda: -x, lambda: x < y, lambda: x**2, lambda: tnp.exp(x),
            lambda: tnp.maximum(x, y), lambda: x[0], lambda: x[:1], lambda: x[x > 1], lambda: x.T, lambda: len(x),
            lambda: bool(x[0] > 0), lambda: float(x[1]), lambda: operator.iadd(x, 1.0), lambda: x.__setitem__(0, 2.0),
        ]  # fmt: skip
        for call in calls:
            call()
            assert frames(call) == 0, call.__code__.co_firstlineno

    def test_results_are_laid_out_as_numpys(self) -> None:
        x = np.arange(6.0).reshape(2, 3)
        a = tnp.array(x)
        for call in (lambda v: v + v, lambda v: v.T + v.T, lambda v: v.T * 2.0, lambda v: v[:, ::2] + v[:, ::2]):
            call(a)
            assert call(a).strides == call(x).strides

    def test_calls_that_are_not_small_or_not_plain(self) -> None:
        x = tnp.array([1.0, 2.0])
        assert (x + x).tolist() == [2.0, 4.0]
        many = tnp.ones(1 << 13)
        assert (many + many).sum() == 1 << 14
        traced = tnp.array([1.0, 2.0]).requires_grad_()
        assert (traced + x).grad_fn is not None
        assert (x * traced).grad_fn is not None
        assert tk.vmap(lambda v: v + v)(tnp.ones((2, 3))).shape == (2, 3)
        assert type(tk.tensor([1.0, 2.0], dtype=tk.float64) + x) is tnp.ndarray
        with tk.no_grad():
            assert (x + traced).grad_fn is None

    def test_errors_are_numpys(self) -> None:
        whole = tnp.array([1, 2])
        for _ in range(3):
            assert (whole**whole).tolist() == [1, 4]
            with pytest.raises(ValueError, match="fractions"):
                whole ** tnp.array([-1, -1])
            with pytest.raises(OverflowError):
                whole + (1 << 70)
            with pytest.raises(ValueError, match="broadcast"):
                whole + tnp.array([1, 2, 3])
        assert (tnp.array([1.0]) / 0.0).tolist() == [np.inf]

    def test_registered_kernels_are_called(self) -> None:
        x = tnp.array([1.0, 2.0])
        calls: dict[str, tuple[Callable[[], Any], Any]] = {
            "add": (lambda: x + x, lambda a, b: tk.full(a.shape, 7.0, dtype=a.dtype)),
            "less": (lambda: x < x, lambda a, b: tk.full(a.shape, True)),
            "permute_dims": (lambda: x.T, lambda a, axes: a[:]),
        }
        library = tk.library.Library("tk", "IMPL")
        for name, (call, kernel) in calls.items():
            seen = []
            call()
            assert frames(call) == 0

            def counting(*args: Any, kernel: Any = kernel, seen: list[Any] = seen) -> Any:
                seen.append(args)
                return kernel(*args)

            with library.impl(name, counting, "cpu", allow_override=True):
                call()
                call()
                assert len(seen) == 2, name
            call()
            assert len(seen) == 2, name

    def test_kernels_for_operators_that_nothing_has_called(self) -> None:
        """A small call need not make the kernels that it stands for, and those registered later are found."""
        program = (
            "import tenkey as tk, tenkey.numpy as np; from tenkey.dispatch.registry import registry\n"
            "x = np.array([8.0, 27.0]); assert (np.cbrt(x) > [1.9, 2.9]).all() and (x * x)[0] == 64.0\n"
            "assert registry.find('tk::cbrt').is_untouched and registry.find('tk::multiply').is_untouched\n"
            "library = tk.library.Library('tk', 'IMPL')\n"
            "seven = lambda x, *y: tk.full(x.shape, 7.0, dtype=x.dtype)\n"
            "for name, call in {'cbrt': np.cbrt, 'multiply': lambda x: x * x}.items():\n"
            "    with library.impl(name, seven, 'cpu', allow_override=True):\n"
            "        assert call(x).tolist() == [7.0, 7.0] == call(x).tolist()\n"
            "    assert call(x)[0] != 7.0\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)

    def test_modes_see_all_calls(self) -> None:
        class Seeing(tk.dispatch.DispatchMode):
            def __init__(self) -> None:
                self.seen: list[str] = []

            def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
                self.seen.append(op.name)
                return op(*args, **kwargs)

        x = tnp.ones((2, 2))
        calls: dict[str, Callable[[], Any]] = {
            "add": lambda: x + 1.0, "exp": lambda: tnp.exp(x), "basic_index": lambda: x[1:], "index": lambda: x[x > 0],
            "permute_dims": lambda: x.T, "matmul": lambda: x @ x, "add_": lambda: operator.iadd(x, 0.0),
            "basic_put_": lambda: operator.setitem(x, 0, 1.0),
        }  # fmt: skip
        for name, call in calls.items():
            call()
            assert frames(call) == 0
            with Seeing() as mode:
                call()
            assert f"tk::{name}" in mode.seen, name
            call()  # the mode may have needed kernels that were not made yet
            assert frames(call) == 0

    def test_threads(self) -> None:
        x = np.linspace(0.0, 1.0, 700)  # of which NumPy lets other threads run
        wanted = (np.add.outer(x[:5], x) * 2.0).tobytes()
        rows, column = tnp.array(x), tnp.array(x[:5]).reshape(5, 1)
        wrong: list[int] = []

        def work() -> None:
            wrong.extend([k for k in range(200) if np.asarray((column + rows) * 2.0).tobytes() != wanted])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def _close(found: Any, wanted: Any) -> bool:
    """Tell whether two outcomes agree up to the last places: where a call is not compiled, our kernels compute."""
    if isinstance(wanted, type) or isinstance(found, type):
        return isinstance(wanted, type) and isinstance(found, type)
    x, y = np.asarray(found), np.asarray(wanted)
    exact = x.dtype.kind not in "fc"
    limit = 0 if exact else 8 * float(np.finfo(x.dtype).eps)
    return x.dtype == y.dtype and x.shape == y.shape and np.allclose(x, y, rtol=limit, atol=0, equal_nan=not exact)


class TestSlots:
    """Note [Types with compiled slots]."""

    @pytest.mark.parametrize("dtype", ["?", "i8", "f8", "c16"])
    def test_unary_operators(self, dtype: str) -> None:
        for x in (np.array([2, 1, 3]).astype(dtype), np.array([2]).astype(dtype)[0], np.zeros((), dtype)):
            for apply in UNARY:
                if dtype == "c16" and apply in (float, int):
                    continue  # NumPy warns and drops the imaginary part
                given = tnp.array(x)
                wanted = outcome(apply, x) if x.ndim or apply is not len else TypeError
                for _ in range(2):
                    found = outcome(apply, given)
                    assert isinstance(found, type) == isinstance(wanted, type), (apply, x, found, wanted)
                    assert isinstance(wanted, type) or np.all(np.asarray(found) == np.asarray(wanted))

    def test_other_operands_compute(self) -> None:
        class Other:
            __array_ufunc__ = None

            def __radd__(self, other: Any) -> str:
                return "added"

            def __lt__(self, other: Any) -> str:
                return "less"

        x = tnp.array([1.0])
        assert x + Other() == "added"
        assert (x > Other()) == "less"
        for call in (lambda: x + "text", lambda: {} - x, lambda: x < "text", lambda: pow(x, 2, 3)):
            with pytest.raises(TypeError):
                call()

    def test_elements_repeat_sequences(self) -> None:
        """What an integer does; an array with an axis is multiplied by the sequence."""
        lengths, wanted = tnp.array([2, 3]), np.array([2, 3])
        for _ in range(2):
            assert [0] * lengths[1] == [0] * wanted[1] == [0, 0, 0]
            assert lengths[0] * (1, 2) == (1, 2, 1, 2)
            assert (lengths * [5, 6]).tolist() == (wanted * [5, 6]).tolist()
            assert (tnp.array(2.0) * [5, 6]).tolist() == [10.0, 12.0]

    def test_subclasses_override(self) -> None:
        class Loud(tnp.ndarray):
            def __add__(self, other: Any) -> Any:
                return "loud"

            def __getitem__(self, index: Any) -> Any:
                return "item"

        x = tnp.array([1.0, 2.0]).as_subclass(Loud)
        assert x + 1 == "loud"
        assert x[0] == "item"
        assert (1 + x).tolist() == [2.0, 3.0]
        assert (x * 2).tolist() == [2.0, 4.0]

    def test_attributes(self) -> None:
        x = tnp.ones((2, 3))
        assert (x.shape, x.ndim, x.dtype) == ((2, 3), 2, np.float64)
        x.shape = (3, -1)
        assert x.shape == (3, 2)
        for wrong in ((4, 2), "text", None):
            with pytest.raises((TypeError, ValueError)):
                x.shape = wrong
        with pytest.raises((TypeError, AttributeError)):
            del x.shape
        with pytest.raises(AttributeError):
            x.ndim = 3
        assert tk.vmap(lambda v: tk.full((), v.ndim + len(v.shape)))(x).tolist() == [2.0, 2.0, 2.0]
        assert tnp.ones((2, 3)).to("meta").as_subclass(tnp.ndarray).shape == (2, 3)

    def test_elements_cannot_be_deleted(self) -> None:
        x = tnp.array([1.0, 2.0])
        with pytest.raises(TypeError, match=r"numpy\.delete"):
            del x[0]
        assert x.tolist() == [1.0, 2.0]

    def test_methods_are_found_by_name(self) -> None:
        x = tnp.array([1.0, 2.0])
        assert x.__add__(1.0).tolist() == [2.0, 3.0]
        assert x.__radd__(1.0).tolist() == [2.0, 3.0]
        assert tnp.ndarray.__getitem__(x, 1) == 2.0
        assert x.__len__() == 2
        assert tnp.ndarray.T.__get__(x).shape == (2,)
        with pytest.raises(AttributeError):
            x.T = x

    def test_without_compiled_code(self) -> None:
        """All calls take their way in Python where nothing may be compiled."""
        program = (
            "import tenkey.numpy as np; from tenkey.numpy.compiled_calls.class_slots import compiled\n"
            "x = np.array([1.0, 2.0]); t = x[0]; x[0] = 5; x += 1\n"
            "assert compiled() is None and t == 1.0 and len(x) == 2 and (2 * x).T.tolist() == [12.0, 6.0]\n"
            "assert np.exp(x * 0)[x > 3].tolist() == [1.0] and bool(x[0] > x[1]) and float(-x[1]) == -3.0\n"
        )
        environment = {"TENKEY_COMPILE": "off", "PATH": "", "PYTHONPATH": ":".join(sys.path)}
        subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)


class TestIndexing:
    """Note [Indexing in machine code]."""

    INDEXES: tuple[Any, ...] = (
        0, -1, 2, 5, -6, 1 << 70, True, slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1), None,
        ..., (), (0,), (1, 2), (1, -1), (1, 9), (0, 0, 0), (slice(1), 0), (None, 1), (..., 0), (0, ...),
        (slice(None), None), slice(3, 1), slice(0, 1 << 70), np.int64(1), (np.int64(1), 0), [0, 2],
        ([0, 1], [1, 0]), (slice(None), [0]),
        np.array([2, 0]), np.array([], np.int64), np.array([9]), np.array([0.5]), "text", 1.0,
    )  # fmt: skip

    @pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 2), ()])
    def test_values_and_aliasing_are_numpys(self, shape: tuple[int, ...]) -> None:
        x = np.arange(float(np.prod(shape))).reshape(shape)
        mask = x % 2 == 0
        for index in (*self.INDEXES, mask, mask[..., None]):
            given = tnp.array(index) if isinstance(index, np.ndarray) else index
            for _ in range(2):
                a, b = tnp.array(x), x.copy()
                found, wanted = outcome(operator.getitem, a, given), outcome(operator.getitem, b, index)
                assert same(found, wanted), index
                if isinstance(wanted, np.ndarray) and wanted.size:
                    a[...] += 1.0
                    changed = not np.shares_memory(b, wanted) or index == slice(None, None, -1)  # a copy here
                    assert same(found, wanted if changed else wanted + 1.0), index

    def test_arrays_that_stand_for_integers(self) -> None:
        """An element of an array of integers selects what an integer does; NumPy's scalars do, too."""
        x, places = tnp.arange(12.0).reshape(3, 4), tnp.array([2, -1, 7])
        y = np.arange(12.0).reshape(3, 4)
        for _ in range(2):
            one, last, outside = places
            assert tk.shares_storage(x[one], x)
            assert x[one].tolist() == y[2].tolist()
            assert x[one, last] == y[2, -1]
            assert x[:, one].tolist() == x[..., one].tolist() == y[:, 2].tolist()
            assert x[one : one + 1, last].tolist() == y[2:3, -1].tolist()
            x[one, 0], y[2, 0] = 5.0, 5.0
            x[:, last] = 3.0
            y[:, -1] = 3.0
            for index in (outside, (outside, 0), (0, outside)):
                with pytest.raises(IndexError):
                    x[index]
        assert x.tolist() == y.tolist()

    def test_views_share_storage(self) -> None:
        x = tnp.arange(12.0).reshape(3, 4)
        for _ in range(2):
            assert tk.shares_storage(x[1], x)
            assert tk.shares_storage(x.T, x)
            assert tk.shares_storage(x[1][2:], x)
            assert not tk.shares_storage(x[1, 1], x)
            assert not tk.shares_storage(x[x > 3], x)
        row = x[0]
        row += 1.0
        assert x._version == row._version > 0

    def test_gradients_are_recorded(self) -> None:
        x = tnp.array([1.0, 2.0, 3.0])
        x[0], x[:2], x[x > 1]
        x.requires_grad_()
        (x[0] * 2 + x[1:].sum() + (x[x > 2] * 5).sum() + x.T[1]).backward()
        assert x.grad.tolist() == [2.0, 2.0, 6.0]


class TestRecord:
    """Note [The record of compiled calls]."""

    def test_the_places_of_slots(self) -> None:
        x = tnp.array([1.0])
        words = (python_objects.ctypes.c_void_p * (tk.Tensor.__basicsize__ // 8)).from_address(id(x))
        found = [words[place // 8] for place in python_objects.layout()[:4]]
        assert found == [id(x._data), id(x._word), id(x._storage), id(x._autograd)]

    def test_calls_while_the_interpreter_shuts_down(self) -> None:
        """What compiled code reads outlives all modules."""
        program = (
            "import builtins, os, tenkey.numpy as np\n"
            "class Last:\n"
            "    def __init__(self): self.x = np.array([1.0, 2.0])\n"
            "    def __del__(self, add=np.add, write=os.write, float=float, len=len):\n"
            "        x = self.x\n"
            "        x += 1.0; x[0] = 5.0; y = x + x; z = add(x[x > 0], 2.0); m = x[:1].T; len(x), float(x[1])\n"
            "        write(1, b'done' if float(y[0]) == 10.0 else b'wrong')\n"
            "builtins.last = Last(); x = builtins.last.x\n"
            "x += 1.0; x[0] = 1.0; x[x > 0]; x.T; np.add(x, 2.0); x + x; len(x), x.ndim, float(x[1]); del x\n"
        )
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == ("done", "")

    def test_references_are_given_back(self) -> None:
        """After a thousand calls of each kind, nothing has more references than before."""
        x, y, index = tnp.array([1.0, 2.0, 3.0]), tnp.array([4.0, 5.0, 6.0]), tnp.array([0, 2])
        m, column, large, large_index = tnp.ones((2, 3)), tnp.ones((2, 1)), 1 << 70, tnp.array([5, 6, 7])
        calls: list[Callable[[], Any]] = [
            lambda: x + y, lambda: x + 2.5, lambda: 3 - x, lambda: -x, lambda: x < y, lambda: x**2, lambda: tnp.exp(x),
            lambda: m + column, lambda: x + large_index, lambda: x[0] + x[1], lambda: x[1], lambda: m[1],
            lambda: m[1, 1], lambda: x[:2], lambda: m[:, index[0]],
            lambda: m[index[0], index[1]], lambda: x[index], lambda: x[x > 2], lambda: m.T, lambda: float(x[0]),
            lambda: int(index[1]), lambda: bool(x[0] > 2), lambda: len(m), lambda: (m.ndim, m.dtype),
            lambda: operator.iadd(x, 0.0),
            lambda: operator.imul(x, x[0]),
            lambda: operator.setitem(x, 0, 1.0), lambda: operator.setitem(x, slice(2), 1.0),
            lambda: operator.setitem(x, index, 1.0), lambda: operator.setitem(m, 0, x), lambda: m[0].__iadd__(x),
            lambda: outcome(operator.getitem, x, 7), lambda: outcome(operator.add, index, large),
            lambda: outcome(operator.add, x, "text"), lambda: x == None,  # noqa: E711 - what NumPy compares
        ]  # fmt: skip
        watched = [x, y, m, x._data, m._data, x._word, index._word, (x > 1)._word, x._data.dtype, index._data.dtype,
                   np.dtype(bool), tnp.ndarray, np.ndarray, NotImplemented, large, tk.Tensor]  # fmt: skip
        for call in calls:
            call()
            call()
            before = [sys.getrefcount(each) for each in watched]
            for _ in range(1000):
                call()
            after = [sys.getrefcount(each) for each in watched]
            grown = [each for each, one, other in zip(watched, before, after) if other - one > 100]
            assert not grown, (call.__code__.co_firstlineno, grown)


class TestPlans:
    """Note [Plans of ufuncs]."""

    def test_loops_are_those_of_numpy(self) -> None:
        """A loop that is called by its address computes what the ufunc does."""
        for source in (np.add, np.less, np.sqrt, np.arctan2, np.left_shift, np.logical_not):
            loops = ufunc_plans.loops_of(source)
            assert set(loops) == {t.replace("->", "") for t in source.types if set(t) <= set("?bhilqBHILQefdFD->")}
        address, data = ufunc_plans.loops_of(np.subtract)["ddd"]
        ctypes = python_objects.ctypes
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)
        operands = [np.array([5.0, 7.0]), np.array([1.0, 2.0]), np.zeros(2)]
        call(
            (ctypes.c_void_p * 3)(*[v.ctypes.data for v in operands]), (ctypes.c_int64 * 1)(2),
            (ctypes.c_int64 * 3)(8, 8, 8), data,
        )  # fmt: skip
        assert operands[2].tolist() == [4.0, 5.0]

    def test_plans_of_other_words_take_their_place(self) -> None:
        """There are more combinations of dtypes than places: each call finds its own plan or none."""
        for _ in range(3):
            for one in "bhilBHILefdFD":
                for other in "bhilBHILefdFD":
                    x, y = np.array([2, 1]).astype(one), np.array([3, 4]).astype(other)
                    assert same(tnp.array(x) + tnp.array(y), x + y)
                    assert same(tnp.array(x) < 2, x < 2)

    def test_ufuncs_of_one_operator_keep_their_own(self) -> None:
        """``absolute`` and ``fabs`` are one operator, with results of different dtypes."""
        x = tnp.array([-1, 2])
        for _ in range(3):
            assert tnp.absolute(x)._word == x._word
            assert tnp.fabs(x)._word == tnp.array([1.0])._word
