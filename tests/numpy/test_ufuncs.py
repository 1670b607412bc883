"""Note [Result dtypes of ufuncs]: values and dtypes of every ufunc are NumPy's, for every combination of dtypes."""

from __future__ import annotations

import operator
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy.namespace import universal
from tests._tiers import only_full
from tests.numpy._outcomes import counterpart

DTYPES = ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
QUICK = ["?", "i1", "i8", "u8", "f4", "f8"]
MATRICES = {"matmul", "vecdot", "matvec", "vecmat"}  # of more than one element at a time
UFUNCS = sorted(name for name, call in universal.items() if call.__name__ not in MATRICES and name == call.__name__)


def _values(dtype: str, first: int) -> np.ndarray:
    """Return three values that every dtype has and no function dislikes: 1, 2, 3 from another place on."""
    return np.roll(np.array([1, 2, 3]), first).astype(dtype)


def _outcome(call: Any, operands: list[Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made = call(*operands)
        except (TypeError, OverflowError, ValueError) as error:
            return type(error).__mro__[-4:-2] or TypeError
    return [np.asarray(x) for x in made] if isinstance(made, tuple) else [np.asarray(made)]


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, tk.Tensor) else x


def _compare(name: str, operands: list[Any]) -> None:
    wanted = _outcome(getattr(np, name), operands)
    found = _outcome(universal[name], [tnp.array(x) if isinstance(x, np.ndarray) else x for x in operands])
    label = f"{name}{[getattr(x, 'dtype', x) for x in operands]}"
    if not isinstance(wanted, list):
        assert not isinstance(found, list), label
        return
    assert isinstance(found, list), (label, found)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype, (label, a.dtype, b.dtype)
        bound = {2: 2e-3, 4: 2e-6, 8: 1e-13, 16: 1e-13}[b.dtype.itemsize] if b.dtype.kind in "fc" else 0
        if b.dtype == "c8":
            bound = 2e-6
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound, err_msg=label)


@pytest.mark.parametrize("dtypes", only_full([DTYPES, QUICK], [QUICK]), ids=len)
@pytest.mark.parametrize("name", UFUNCS)
def test_values_and_dtypes(name: str, dtypes: list[str]) -> None:
    for given in product(dtypes, repeat=universal[name].nin):
        if name == "ldexp" and given[1][0] not in "?iu":
            continue
        _compare(name, [_values(dtype, place) for place, dtype in enumerate(given)])


@pytest.mark.parametrize(
    "name", ["add", "multiply", "power", "maximum", "true_divide", "equal", "arctan2", "bitwise_and"]
)
def test_python_numbers_are_weak_and_numpy_scalars_are_not(name: str) -> None:
    for dtype, number in product(QUICK, [True, 2, 2.5, np.float32(2), np.int8(2), np.float64(2)]):
        _compare(name, [_values(dtype, 0), number])
        _compare(name, [number, _values(dtype, 0)])


def test_sequences_and_numbers_alone() -> None:
    for call in (
        lambda m: m.add(1, 2),
        lambda m: m.sqrt(2),
        lambda m: m.add([1, 2], 0.5),
        lambda m: m.sin(np.float32(1)),
    ):
        wanted, found = call(np), call(tnp)
        assert type(found) is counterpart(wanted)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.mark.parametrize("dtype", ["i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("exponent", [2, -1, 0.5])
def test_powers_that_are_other_ufuncs(dtype: str, exponent: float) -> None:
    """NumPy's operators compute squares, roots and reciprocals, with other bits and other limits than the power."""
    values = [1, 4, 9, 123, 2, 3, 5] if dtype == "i8" else [-np.inf, np.inf, np.nan, -0.0, 0.0, 2.0, 3.7]
    a = np.array(values).astype(dtype)
    if dtype.startswith("c"):
        a = np.array([-4 + 1e-3j, -2, 2j, 0.3 - 5j, 1 + 1j]).astype(dtype)
    for b in (a, a[:1], a[0, ...]):
        for requires_grad in (False, True) if dtype[0] in "fc" and b.ndim else (False,):
            x = tnp.asarray(b.copy()).requires_grad_(requires_grad)
            for _ in range(3):  # the third call has a plan
                wanted = str(_outcome(lambda b: b**exponent, [b]))
                assert wanted == str(_outcome(lambda x: _detached(x**exponent), [x]))
                with tk.no_grad():
                    assert wanted == str(_outcome(lambda x: x**exponent, [x]))
        for count in (1, 3):
            c, y = b.copy(), tnp.asarray(b.copy())
            for _ in range(count):
                wanted = str(_outcome(lambda c: c.__ipow__(exponent), [c]))
                assert wanted == str(_outcome(lambda y: y.__ipow__(exponent), [y]))
            assert c.tobytes() == y.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_half_powers_of_minus_infinity(dtype: str) -> None:
    """NumPy takes the square root of a repeated exponent, so calls with and without a plan pass the same strides."""
    infinity = -np.inf
    # Before NumPy 2.3 it was the operator that looked at the exponent, also at an array without dimensions; its ufunc,
    # which ours call, did not.
    by_operator = np.lib.NumpyVersion(np.__version__) < "2.3.0"
    for a, b in product((infinity, [infinity], [infinity] * 3), (0.5, [0.5], [0.5] * 3)):
        given, powers = np.array(a, dtype), np.array(b, dtype)
        x, y = tnp.asarray(given.copy()), tnp.asarray(powers.copy())
        power = np.power if by_operator and not powers.ndim else operator.pow
        for _ in range(3):
            assert str(_outcome(power, [given, powers])) == str(_outcome(operator.pow, [x, y]))
            assert str(_outcome(lambda y: infinity**y, [powers])) == str(_outcome(lambda y: infinity**y, [y]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("size", [3, 5000])
def test_half_as_a_number_in_large_arrays_and_of_a_class_of_its_own(size: int, dtype: str) -> None:
    class Number(float):
        """A float whose arithmetic NumPy does not ask for."""

    given, x = np.full(size, -np.inf, dtype), tnp.full(size, -np.inf, dtype)
    for exponent in (0.5, Number(0.5)):
        for call in (np.power, operator.pow, operator.ipow):
            if np.lib.NumpyVersion(np.__version__) < "2.3.0" and call is not np.power and exponent.__class__ is Number:
                continue  # as above
            own = tnp.power if call is np.power else call
            assert str(_outcome(call, [given.copy(), exponent])) == str(_outcome(own, [x.copy(), exponent]))
    recorded = _outcome(lambda x: tnp.power(x, 0.5).detach(), [x.requires_grad_()])
    assert str(recorded) == str(_outcome(np.power, [given, 0.5]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "u1", "c8"])
@pytest.mark.parametrize("kind", [int, float, complex])
def test_numbers_of_derived_classes_are_not_weak(kind: type, dtype: str) -> None:
    number = type("Number", (kind,), {})(3)
    given, x = np.ones(3, dtype), tnp.ones(3, dtype)
    for call in (operator.add, operator.pow, lambda x, y: y * x, np.add):
        own = tnp.add if call is np.add else call
        assert str(_outcome(call, [given, number])) == str(_outcome(own, [x, number]))


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
@pytest.mark.parametrize("form", [tnp.array, np.array, np.ndarray.tolist], ids=["ours", "NumPy's", "lists"])
def test_comparisons_of_signed_and_unsigned_integers(name: str, form: Any) -> None:
    """NumPy's loops for int64 and uint64 are exact, and take the operands in their order."""
    for kind in ("i1", "i4", "i8"):
        limits = np.iinfo(kind)
        few = np.array([limits.min, -1, 0, 1, limits.max], kind)
        many = np.array([0, 1, 127, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")
        x, y = (a.ravel() for a in np.meshgrid(many, few))
        for one, other in ((x, y), (x.reshape(5, 7), y.reshape(5, 7)), (x[:1], y[:1])):
            signed = form(other)
            expected = other if isinstance(signed, tnp.ndarray) else signed
            found = getattr(tnp, name)(tnp.array(one), signed), getattr(tnp, name)(signed, tnp.array(one))
            wanted = getattr(np, name)(one, expected), getattr(np, name)(expected, one)
            np.testing.assert_array_equal(found, wanted)


def test_gradients_of_powers() -> None:
    for exponent in (2, -1, 0.5):
        x = tnp.array([1.0, 4.0, 9.0]).requires_grad_()
        (x**exponent).sum().backward()
        np.testing.assert_allclose(x.grad, exponent * np.array([1.0, 4.0, 9.0]) ** (exponent - 1))


def test_out_where_and_dtype() -> None:
    x, out = tnp.array([1.0, 4.0, 9.0]), tnp.zeros(3)
    assert tnp.sqrt(x, out=out) is out
    assert out.tolist() == [1.0, 2.0, 3.0]
    tnp.add(x, 1, out=out, where=[True, False, True])
    assert out.tolist() == [2.0, 2.0, 10.0]
    assert tnp.add(x, 1, dtype="f4").dtype == np.float32
    with pytest.raises(TypeError, match="Cannot cast"):
        tnp.sqrt(x, out=tnp.zeros(3, dtype=int))
    with pytest.raises(ValueError, match="shape"):
        tnp.sqrt(x, out=tnp.zeros(2))
    numbers = np.zeros(3)
    assert tnp.sqrt(x, out=numbers) is numbers
    assert numbers.tolist() == [1.0, 2.0, 3.0]


def test_methods() -> None:
    m = np.arange(6.0).reshape(2, 3) + 1
    x = tnp.array(m)
    for name in ("add", "multiply", "maximum", "logical_or", "hypot"):
        source, call = getattr(np, name), universal[name]
        np.testing.assert_allclose(call.reduce(x, axis=1), source.reduce(m, axis=1))
        np.testing.assert_allclose(call.accumulate(x, axis=1), source.accumulate(m, axis=1))
        np.testing.assert_allclose(call.outer([1, 2], [3.0, 4]), source.outer([1, 2], [3.0, 4]))
        np.testing.assert_allclose(call.reduceat(x, [0, 2], axis=1), source.reduceat(m, [0, 2], axis=1))
    tnp.add.at(x, ([0, 0, 1], [1, 1, 2]), 10.0)
    np.add.at(m, ([0, 0, 1], [1, 1, 2]), 10.0)
    np.testing.assert_allclose(x, m)
    assert tnp.add.nin == 2
    assert isinstance(tnp.add, tnp.ufunc)


def test_gradients_reach_operands_of_other_dtypes() -> None:
    x = tnp.array([1.0, 2.0], dtype="f4").requires_grad_()
    tnp.sum(tnp.multiply(x, np.array([3, 4]))).backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_registered_kernels_are_called() -> None:
    """Note [Quick calls of ufuncs]: a kernel that is registered computes small calls until it is removed."""
    x = tnp.array([1.0, 2.0])
    assert tnp.negative(x).tolist() == [-1.0, -2.0]
    library = tk.library.Library("tk", "IMPL")
    with library.impl("negative", lambda x: tk.full(x.shape, 7.0, dtype=x.dtype), "cpu", allow_override=True):
        assert tnp.negative(x).tolist() == [7.0, 7.0]
        assert (-x).tolist() == [7.0, 7.0]
    assert tnp.negative(x).tolist() == [-1.0, -2.0]


def test_modes_see_small_calls() -> None:
    seen = []

    class Seeing(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append(op.name)
            return op(*args, **kwargs)

    x = tnp.array([1.0, 2.0])
    with Seeing():
        assert (tnp.exp(x) + 1.0).shape == (2,)
    assert seen == ["tk::exp", "tk::add"]


def test_plain_tensors_stay_plain() -> None:
    """A result that is the operand itself does not change the operand's class."""
    x = tk.asarray([1.0, 2.0])
    made = tnp.positive(x), tnp.conjugate(x), tnp.add(x, 1)
    assert all(isinstance(one, tnp.ndarray) for one in made)
    assert type(x) is tk.Tensor


def test_operators_only() -> None:
    with tnp.operators_only(), pytest.raises(NotImplementedError, match=r"numpy\.reduce"):
        tnp.gcd.reduce([4, 6])


def test_python_bools_beside_gradients() -> None:
    """A Python bool has the dtype of bools, which no array of numbers takes."""
    x = tnp.array([1.0, 2.0]).requires_grad_()
    for _ in range(2):
        (x * True + tnp.maximum(False, x)).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    assert (tnp.array([1, 2], dtype="i1") * True).dtype == np.int8


def test_an_operand_without_a_dtype_is_refused_at_once() -> None:
    class Odd(tnp.ndarray):
        def __getattribute__(self, name: str) -> Any:
            return 2

    x, odd = tnp.ones(3), tnp.ones(4).as_subclass(Odd)
    for call in (lambda: tnp.sin(odd), lambda: tnp.add(odd, odd), lambda: x - odd):
        with pytest.raises((TypeError, AttributeError)):
            call()
