"""tenkey.library.load_native: functions of elements, mutation, gradients, and what is refused, against NumPy."""

from __future__ import annotations

import ctypes
import inspect
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import RegistrationError, SchemaError
from tenkey.dispatch.registry import registry
from tenkey.library import CustomOperator, load_native
from tenkey.library.native import kernels as native_kernels
from tests._native import AXPY, BOTH, NS, compiled, d, f, needs_compiler
from tests._registry import registry_as_before

HERE = "test_native.py:"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


class TestElements:
    def test_the_shortest_way(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        assert isinstance(saxpy, CustomOperator)
        x, y = np.arange(16, dtype=np.float32), np.linspace(-1, 1, 16, dtype=np.float32)
        out = saxpy(tk.asarray(x), tk.asarray(y), 2.0)
        assert out.dtype == np.float32
        np.testing.assert_array_equal(out.numpy(), np.float32(2) * x + y)
        assert tk.ops.native_test.saxpy(f([1]), f([2]), a=3.0).tolist() == [5.0]

    @pytest.mark.parametrize("form", [str, Path, lambda path: ctypes.CDLL(str(path))])
    def test_forms_of_a_library(self, library: Path, form: Callable[[Path], Any]) -> None:
        saxpy = load_native(form(library), AXPY)
        assert str(saxpy.operator) == f"{NS}::saxpy"  # libnative_test.so
        assert saxpy(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_a_library_in_the_current_folder(self, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(library.parent)
        assert load_native(library.name, AXPY)(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_an_address_and_a_ctypes_function(self, library: Path) -> None:
        function = ctypes.CDLL(str(library)).saxpy
        address = ctypes.cast(function, ctypes.c_void_p).value
        for target in (function, address):
            operator = load_native(target, f"{NS}::{AXPY}")
            assert operator(f([1]), f([2]), 3.0).tolist() == [5.0]
        other = load_native(library, f"x{AXPY}", namespace=NS, dtypes={"float64": function, "float32": address})
        assert other(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_dtypes_choose_the_function(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        tenth = axpy(d([0.1]), d([0.2]), 1.0)
        assert tenth.dtype == np.float64
        assert tenth.item() == 0.1 + 0.2
        assert axpy(f([0.1]), f([0.2]), 1.0).dtype == np.float32
        mixed = axpy(f([0.5]), d([0.1]), 1.0)  # promoted as by the built-in operators
        assert mixed.dtype == np.float64
        assert mixed.item() == 0.6
        assert axpy(f([0.5]), tk.asarray([2]), 1.0).dtype == np.float32

    def test_numbers_stand_for_tensors(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        assert axpy(f([1, 2]), 3, 2).tolist() == [5.0, 7.0]
        assert axpy(0.5, d([1]), 2.0).dtype == np.float64
        assert axpy(f([1]), np.asarray([2], np.float32), 1.0).tolist() == [3.0]

    def test_other_dtypes_are_refused(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        for x, y in [(d([1]), d([1])), (tk.asarray([1]), tk.asarray([1])), (f([1]), tk.asarray([1j]))]:
            with pytest.raises(
                TypeError, match=r"\[native_test::saxpy\] is compiled for float32, and the arguments are"
            ):
                saxpy(x, y, 1.0)

    @pytest.mark.parametrize(
        "cut",
        [
            lambda a: a[::2],
            lambda a: a[:, ::3],
            lambda a: a.T,
            lambda a: a[:0],
            lambda a: a[2, 3],
            lambda a: np.broadcast_to(a[1], (4, 6)),
            lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype),  # not aligned, not writable
        ],
    )
    def test_any_memory_layout(self, library: Path, cut: Callable[[Any], Any]) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        for dtype in (np.float32, np.float64):
            array = cut(np.arange(24, dtype=dtype).reshape(4, 6))
            out = axpy(tk.asarray(array), tk.asarray(array), 3.0)
            np.testing.assert_array_equal(out.numpy(), 4 * array)
            assert out.is_contiguous
            assert out.shape == array.shape

    def test_broadcasting(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        x, y = np.arange(6, dtype=np.float32).reshape(2, 1, 3), np.arange(4, dtype=np.float32).reshape(4, 1)
        np.testing.assert_array_equal(saxpy(f(x), f(y), 2.0).numpy(), 2 * x + y)
        with pytest.raises(ValueError, match=r"saxpy\] the shapes \(2,\) and \(3,\) cannot be broadcast together"):
            saxpy(f([1, 2]), f([1, 2, 3]), 1.0)

    def test_every_kind_of_number_and_two_results(self, library: Path) -> None:
        numbers = load_native(
            library,
            "numbers(Tensor x, int k, float a=0.5, *, bool flag=True, complex z=2j) -> (Tensor sum, Tensor imag)",
            dtypes="float64",
        )
        for x in ([1.0, 2.0], [[3.0]]):
            total, imag = numbers(d(x), -7, flag=True, z=0.25 + 3j)
            np.testing.assert_array_equal(total.numpy(), np.asarray(x) - 7 + 0.5 + 1000 + 0.25)
            np.testing.assert_array_equal(imag.numpy(), np.full_like(x, 3.0))
        total, _ = numbers(d([[1.0], [2.0]]), 1, 1.5, flag=False, z=4)
        assert total.tolist() == [[7.5], [8.5]]
        assert str(inspect.signature(numbers)) == "(x, k, a=0.5, *, flag=True, z=2j)"

    def test_an_int_that_is_no_int64(self, library: Path) -> None:
        count = load_native(library, "count(int k, Tensor x) -> Tensor", dtypes="float64")
        assert count(2**62, d([0])).item() == 2.0**62
        assert count(-(2**63), d([[0]])).item() == -(2.0**63)
        for x in (d([0, 1, 2]), d([0, 1, 2])[::2]):
            with pytest.raises(
                OverflowError, match=r"the argument 'k' is 9223372036854775808, which is not an int64_t"
            ):
                count(2**63, x)

    def test_a_dtype_for_each_tensor(self, library: Path) -> None:
        choose = load_native(
            library,
            "choose(Tensor condition, Tensor x, Tensor y) -> Tensor",
            dtypes=("bool", "float32", "int64", "float64"),
        )
        condition, x, y = np.array([True, False, True]), np.array([0.5, 1.5, 2.5], np.float32), np.array([[7], [8]])
        out = choose(tk.asarray(condition), tk.asarray(x), tk.asarray(y))
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out.numpy(), np.where(condition, x, y))
        assert choose(tk.asarray(condition), 1.5, 2).tolist() == [1.5, 2.0, 1.5]
        with pytest.raises(
            TypeError, match=r"compiled for \(bool, float32, int64, float64\), and .* are bool, float64, i"
        ):
            choose(tk.asarray(condition), d([1]), tk.asarray(y))

    def test_meta_gives_shape_and_dtype(self, library: Path) -> None:
        total = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: ())
        assert total(d([[1, 2], [3, 4]])).item() == 10.0
        assert total(d(np.ones((3, 0)))).item() == 0.0  # called for no elements too
        assert total(tk.empty((5, 2), dtype="float64", device="meta")).shape == ()
        wide = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: ((1, 1), "float64"))
        assert wide(d([1, 2])).tolist() == [[3.0]]
        for shape in ((-1,), (1.5,), "ab"):
            wrong = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x, s=shape: s)
            with pytest.raises(ValueError, match=r"total\] meta= returned .* for 1 results"):
                wrong(d([1, 2]))
        wrong = load_native(library, "total(Tensor x) -> Tensor", dtypes="float64", meta=lambda x: [(), ()])
        with pytest.raises(ValueError, match=r"total\] meta= returned \[\(\), \(\)\] for 1 results"):
            wrong(d([1]))

    def test_a_function_that_returns_a_number(self, library: Path) -> None:
        dot = load_native(library, "dot(Tensor x, Tensor y) -> float", dtypes="float64")
        x, y = np.arange(5.0), np.arange(5.0)[::-1]
        assert dot(d(x), d(y)) == float(x @ y)
        assert dot(d(x), 2.0) == 20.0
        elements = load_native(library, "elements(Tensor x) -> int", dtypes="float64")
        assert elements(d(np.zeros((3, 0)))) == 0
        assert elements(d(np.zeros((3, 4))[:, ::2])) == 6
        negative = load_native(library, "any_negative(Tensor x) -> bool", dtypes="float64")
        assert negative(d([1, -1])) is True
        assert negative(d([1])) is False

    def test_an_argument_that_may_be_absent(self, library: Path) -> None:
        shifted = load_native(library, "shifted(Tensor x, Tensor? bias=None) -> Tensor", dtypes="float64")
        assert shifted(d([1, 2])).tolist() == [101.0, 102.0]
        assert shifted(d([1, 2]), d([[10], [20]])).tolist() == [[11.0, 12.0], [21.0, 22.0]]

    def test_complex_elements(self, library: Path) -> None:
        doubled = load_native(library, "doubled_complex(Tensor x) -> Tensor", dtypes="complex128")
        assert doubled(tk.asarray(np.array([1 + 2j, -3j]))).tolist() == [2 + 4j, -6j]

    def test_status_codes(self, library: Path) -> None:
        root = load_native(library, "square_root(Tensor x) -> Tensor", dtypes="float64", status=True)
        for x in (d([4, 9]), d([4, 0, 9, 0])[::2]):
            assert root(x).tolist() == [2.0, 3.0]
            with pytest.raises(
                RuntimeError, match=r"\[native_test::square_root\] the native function square_root failed w"
            ):
                root(x - 5)
        told = load_native(library, "square_root(Tensor x) -> Tensor", dtypes="float64", status={33: "negative number"})
        with pytest.raises(RuntimeError, match="failed: negative number, with the code 33"):
            told(d([-1]))

    def test_the_interpreter_is_not_locked_meanwhile(self, library: Path) -> None:
        slow = load_native(library, "slow(Tensor x) -> Tensor")
        x, counted, done = f([1, 2]), [0], threading.Event()
        thread = threading.Thread(target=lambda: (slow(x), done.set()))
        thread.start()
        while not done.is_set():  # with the lock held, this loop would not turn until the thread is through
            counted[0] += 1
            time.sleep(0.001)
        thread.join()
        assert counted[0] > 10

    def test_many_threads(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        wrong: list[int] = []

        def work(seed: int) -> None:
            x = np.full(seed + 1, seed, np.float32)
            for _ in range(200):
                wrong.extend(np.flatnonzero(axpy(tk.asarray(x), tk.asarray(x), 1.0).numpy() != 2 * x))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestMutation:
    @pytest.fixture
    def scale(self, library: Path) -> CustomOperator:
        return load_native(library, "scale_in_place(Tensor(a!) x, float a) -> ()", dtypes="float64")

    def test_changes_its_argument_and_counts_it(self, scale: CustomOperator) -> None:
        x = d([1, 2])
        before = x._version
        assert scale(x, 3.0) is None
        assert x.tolist() == [3.0, 6.0]
        assert x._version == before + 1

    def test_a_view_with_gaps(self, scale: CustomOperator) -> None:
        x = tk.zeros((2, 4), dtype="float64") + 1.0
        scale(x[:, ::2], 5.0)
        assert x.tolist() == [[5.0, 1.0, 5.0, 1.0]] * 2

    def test_another_argument_is_broadcast_to_it(self, library: Path) -> None:
        add_into = load_native(library, "add_into(Tensor(a!) x, Tensor y) -> ()", dtypes="float64")
        x = tk.zeros((2, 3), dtype="float64") + 0.0
        add_into(x, d([1, 2, 3]))
        add_into(x, 1)
        assert x.tolist() == [[2.0, 3.0, 4.0]] * 2
        with pytest.raises(ValueError, match=r"changes 'x' of shape \(3,\), and .* the shape \(2, 3\)"):
            add_into(d([1, 2, 3]), x)

    @pytest.mark.parametrize("convention", ["elements", "dlpack"])
    def test_overlapping_arguments_are_read_before_the_call(self, library: Path, convention: str) -> None:
        """As by the built-in ``add_``, which NumPy agrees with."""
        source: Any = str(library)
        symbol = "add_into"
        if convention == "dlpack":
            symbol = "add_into_tensor"
        add_into = load_native(
            source, "add_in_place(Tensor(a!) x, Tensor y) -> ()", symbol=symbol, dtypes="float64", convention=convention
        )
        cases = {
            "itself": lambda x: (x, x),
            "another view of it": lambda x: (x, x[:]),
            "the previous elements": lambda x: (x[1:], x[:-1]),
            "the next elements": lambda x: (x[:-1], x[1:]),
            "every second element": lambda x: (x[:4], x[::2]),
            "reversed dimensions": lambda x: (x[:4].reshape(2, 2), x[:4].reshape(2, 2).T),
            "one element": lambda x: (x, x[3:4].expand(8) if convention == "dlpack" else x[3:4]),
        }
        for what, windows in cases.items():
            made, want = (tk.arange(1.0, 9.0, dtype="float64") for _ in range(2))
            target, source = windows(want)
            target.add_(source)
            add_into(*windows(made))
            assert made.tolist() == want.tolist(), what
            read = np.arange(1.0, 9.0)
            numpy_target, numpy_source = (np.asarray(t) for t in windows(tk.asarray(read)))
            numpy_target += numpy_source
            assert made.tolist() == read.tolist(), what

    def test_two_changed_arguments_must_not_overlap(self, library: Path) -> None:
        swap = load_native(library, "swap(Tensor(a!) x, Tensor(b!) y) -> ()", dtypes="float64")
        x = tk.arange(6.0, dtype="float64")
        for one, two in ((x, x), (x[:4], x[2:]), (x, x[:])):
            with pytest.raises(ValueError, match=r"changes 'x' and 'y', which share their memory: .* clone\(\)"):
                swap(one, two)
        swap(x[:3], x[3:])
        assert x.tolist() == [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]
        with pytest.raises(RuntimeError, match=r"more than one element .* the argument 'x' of shape"):
            swap(tk.broadcast_to(x[:1], (3,)), x[3:])

    def test_what_cannot_be_changed(self, scale: CustomOperator) -> None:
        with pytest.raises(TypeError, match="is compiled for float64"):
            scale(f([1]), 2.0)
        frozen = np.ones(3)
        frozen.flags.writeable = False
        x = tk.core.tensor.make_tensor(frozen, d([1])._word)
        with pytest.raises(ValueError, match="changes 'x', whose memory is read-only"):
            scale(x, 2.0)

    def test_one_dtype_of_several(self, library: Path) -> None:
        add_into = load_native(library, "add_into(Tensor(a!) x, Tensor y) -> ()", dtypes="float64")
        with pytest.raises(TypeError, match="changes 'x', which has dtype float32 where the function works on float64"):
            add_into(f([1]), d([1]))

    def test_a_leaf_that_wants_a_gradient(self, scale: CustomOperator) -> None:
        with pytest.raises(RuntimeError):
            scale(tk.tensor([1.0], dtype="float64", requires_grad=True), 2.0)

    def test_without_values(self, scale: CustomOperator) -> None:
        assert scale(tk.empty(3, dtype="float64", device="meta"), 2.0) is None


class TestGradients:
    def make(self, library: Path) -> CustomOperator:
        axpy = load_native(library, AXPY, dtypes=BOTH)

        def backward(ctx: Any, g: tk.Tensor) -> Any:
            zero = g * 0.0
            return axpy(g, zero, ctx.a), axpy(g, zero, 1.0), None

        axpy.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[2]))
        return axpy

    def test_without_a_formula(self, library: Path) -> None:
        x = tk.tensor([1.0], requires_grad=True)
        out = load_native(library, AXPY)(x, x.detach(), 2.0)
        with pytest.raises(NotImplementedError, match="register_autograd"):
            out.backward(tk.ones(1))

    def test_gradcheck(self, library: Path) -> None:
        axpy = self.make(library)
        x = tk.tensor(np.linspace(-1, 1, 5), requires_grad=True)
        y = tk.tensor(np.linspace(2, 3, 5), requires_grad=True)
        assert gradcheck(lambda x, y: axpy(x, y, 3.0), (x, y))
        assert gradgradcheck(lambda x, y: axpy(x, y, 3.0) ** 2, (x, y))

    def test_a_wrong_one_is_noticed(self, library: Path) -> None:
        axpy = load_native(library, AXPY, dtypes=BOTH)
        axpy.register_autograd(lambda ctx, g: (g, g, None))
        with pytest.raises(RuntimeError):
            gradcheck(lambda x: axpy(x, d([1.0]), 3.0), (tk.tensor([1.0], dtype="float64", requires_grad=True),))


class TestRegistration:
    def test_it_is_an_operator_like_others(self, library: Path) -> None:
        saxpy = load_native(library, AXPY, doc="a x + y, in C")
        assert saxpy.__doc__ == "a x + y, in C"
        assert saxpy(tk.empty((3, 1), device="meta"), tk.empty(4, device="meta"), 1.0).shape == (3, 4)
        assert "saxpy" in tk.dispatch.explain(saxpy, f([1]), f([1]), 1.0)
        assert HERE in tk.dispatch.explain(saxpy, f([1]), f([1]), 1.0)
        assert pickle.loads(pickle.dumps(saxpy)) is saxpy
        saxpy.register_fake(lambda x, y, a: tk.empty((7,), device="meta"))
        assert saxpy(tk.empty(3, device="meta"), tk.empty(3, device="meta"), 1.0).shape == (7,)

    def test_loading_again_replaces(self, library: Path) -> None:
        load_native(library, f"{NS}::f(Tensor x, Tensor y, float a) -> Tensor", symbol="saxpy")
        again = load_native(library, "f(Tensor x, Tensor y, float a) -> Tensor", symbol="daxpy", dtypes="float64")
        assert tk.ops.native_test.f(d([1]), d([1]), 1.0).tolist() == again(d([1]), d([1]), 1.0).tolist() == [2.0]

    def test_a_failure_leaves_the_operator_as_it_was(self, library: Path) -> None:
        saxpy = load_native(library, AXPY)
        for bad in ({"dtypes": "nothing"}, {"symbol": "missing"}, {"namespace": "two words"}):
            with pytest.raises(RegistrationError):
                load_native(library, AXPY, **bad)
        assert saxpy(f([1]), f([2]), 3.0).tolist() == [5.0]

    def test_namespaces(self, library: Path, tmp_path: Path) -> None:
        odd = tmp_path / "my-math.1.so"
        shutil.copy(library, odd)
        assert str(load_native(odd, AXPY).operator) == "my_math::saxpy"
        assert str(load_native(odd, AXPY, namespace=NS).operator) == f"{NS}::saxpy"
        with pytest.raises(RegistrationError, match="'native_test', and namespace= says 'other'"):
            load_native(library, f"{NS}::{AXPY}", namespace="other")
        with pytest.raises(RegistrationError, match="belongs to tenkey"):
            load_native(library, AXPY, namespace="tk")
        with tk.library.Library(NS, "FRAGMENT") as own:
            own.define("taken(Tensor x) -> Tensor")
            with pytest.raises(RegistrationError, match=r"taken\] is defined already at .*test_native\.py:"):
                load_native(library, "taken(Tensor x) -> Tensor", symbol="total")

    REFUSED = [  # noqa: RUF012
        ("f(Tensor x) -> Tensor", {}, "has no function 'f'"),
        ("f(Tensor x) -> Tensor", {"symbol": "nope"}, "has no function 'nope'"),
        ("f(Tensor x) -> Tensor", {"dtypes": {"float32": "nope"}}, "has no function 'nope'"),
        ("f(Tensor x) -> Tensor", {"dtypes": {}}, "dtypes={}"),
        ("f(Tensor x) -> Tensor", {"dtypes": "float31"}, "dtypes='float31'"),
        ("f(Tensor x) -> Tensor", {"dtypes": ["float32"]}, r"dtypes=\['float32'\]"),
        ("f(Tensor x) -> Tensor", {"dtypes": ("float32",) * 3}, "has 3 dtypes, the schema 1 Tensor arguments and 1"),
        ("f(Tensor x) -> Tensor", {"convention": "fortran"}, "convention must be 'elements', 'dlpack' or 'tvm-ffi'"),
        ("f(Tensor x) -> Tensor", {"meta": (2,)}, "meta= is a function"),
        (
            "f(Tensor x, int k) -> Tensor",
            {"meta": lambda x: ()},
            r"meta at .* is called as meta\(x, k\): .*Give it these parameters",
        ),
        ("f(Tensor x) -> Tensor", {"status": "no"}, "status='no': give True, or a dict of codes to texts"),
        ("f(Tensor[] x) -> Tensor", {}, r"the argument 'x' is a Tensor\[\]"),
        ("f(Tensor x, str mode) -> Tensor", {}, "the argument 'mode' is a str"),
        ("f(Tensor x, int? k) -> Tensor", {}, r"the argument 'k' is an int\?"),
        ("f(int n) -> Tensor", {}, "takes no Tensor"),
        ("f(Tensor x) -> ()", {}, "returns nothing and changes nothing"),
        ("f(Tensor x) -> str", {}, "returns str"),
        ("f(Tensor x) -> (Tensor, int)", {}, "returns Tensor, int"),
        ("f(Tensor(a!) x) -> Tensor(a!)", {}, "annotated as an argument"),
        ("f(Tensor x) -> float", {"status": True}, "status code as well"),
        ("f(Tensor x, Tensor y) -> Tensor", {"convention": "dlpack"}, "meta=lambda x, y: ..."),
    ]

    @pytest.mark.parametrize(("schema", "options", "message"), REFUSED)
    def test_refused_at_load_time(self, library: Path, schema: str, options: dict[str, Any], message: str) -> None:
        before = set(registry.operators)
        with pytest.raises(RegistrationError, match=message):
            load_native(library, schema, **options)
        assert set(registry.operators) == before

    def test_a_schema_that_cannot_be_read(self, library: Path) -> None:
        with pytest.raises(SchemaError) as caught:
            load_native(library, "f(Tensor x -> Tensor")
        assert caught.value.column is not None

    def test_a_file_that_is_none(self, tmp_path: Path) -> None:
        text = tmp_path / "libtext.so"
        text.write_text("no library")
        for path in (text, tmp_path / "libmissing.so", "libthat_nobody_has.so"):
            with pytest.raises(RegistrationError, match=r"the library '.*' could not be loaded"):
                load_native(path, AXPY)

    @pytest.mark.parametrize("value", [None, 0, 17, -1, True, 1 << 70, object(), 2.5])
    def test_what_is_no_function(self, value: Any) -> None:
        with pytest.raises(
            RegistrationError, match=r"is not the address of a function|a native function is a library's path"
        ):
            load_native(value, AXPY)


def test_the_address_of_an_array() -> None:
    assert native_kernels.addresses_are_known()
    base = np.arange(24.0)
    for array in (base, base[5:], base.reshape(4, 6).T, base[::-2], np.zeros(()), np.zeros((0, 3)), np.zeros(3, bool)):
        assert native_kernels.fast_address(array).value == array.ctypes.data


@needs_compiler
def test_without_that_the_slow_way_is_taken(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_kernels, "fast_address", lambda array: ctypes.c_void_p(1))
    native_kernels.addresses_are_known.cache_clear()
    try:
        assert not native_kernels.addresses_are_known()
        assert load_native(library, AXPY)(f([1]), f([2]), 3.0).tolist() == [5.0]
    finally:
        native_kernels.addresses_are_known.cache_clear()
