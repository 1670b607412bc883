"""Note [Quick calls of functions]: small calls are NumPy's own, and give what the general way gives."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.core.tensor import storage_of
from tenkey.numpy.call_rules import quick_functions
from tenkey.numpy.call_rules.quick_functions import quick_table
from tenkey.numpy.known import functions
from tenkey.profiler.profile import profile
from tests.numpy._outcomes import counterpart
from tests.numpy._versions import tells_parameters

M = np.array([[3.0, 1.0, 2.0], [0.5, -4.0, 6.0]])
D = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, -1.0], [0.5, 0.0, 3.0]])
V = np.array([2.0, -1.0, 0.5])
QUICK = quick_table()
CALLS: dict[str, Callable[[Any], Any]] = {
    "vstack": lambda f: f([V, V]), "hstack": lambda f: f((M, M)), "stack": lambda f: f([M, M]),
    "concatenate": lambda f: f([M, M], 1), "concat": lambda f: f((V, V)),
    "dot": lambda f: f(M, D), "inner": lambda f: f(M, V), "vdot": lambda f: f(V, V), "outer": lambda f: f(V, M),
    "cross": lambda f: f(V, D), "searchsorted": lambda f: f(np.sort(V), M), "repeat": lambda f: f(M, 2, 1),
    "take": lambda f: f(M, np.array([2, 0]), axis=1), "diag": lambda f: f(D, 1), "reshape": lambda f: f(M, (3, -1)),
    "transpose": lambda f: f(M), "permute_dims": lambda f: f(M, (1, 0)), "squeeze": lambda f: f(M[None]),
    "swapaxes": lambda f: f(M, 0, 1), "diagonal": lambda f: f(D, 1), "trace": lambda f: f(D),
    "linalg.solve": lambda f: f(D, V), "linalg.inv": lambda f: f(D), "linalg.det": lambda f: f(D),
    "linalg.norm": lambda f: f(M), "round": lambda f: f(M / 3, 1), "median": lambda f: f(M, 1),
    "sum": lambda f: f(M, 0), "prod": lambda f: f(M, keepdims=True), "max": lambda f: f(M, axis=(0, 1)),
    "sort": lambda f: f(M, None), "ravel": lambda f: f(M), "nonzero": lambda f: f(M > 1),
}  # fmt: skip


def _source(name: str) -> Any:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _ours(name: str, calls: list[Any] | None = None) -> Callable[..., Any]:
    """Return the function of the namespace, which gets arrays where it is given NumPy's."""

    def convert(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)([convert(one) for one in x])
        made = tnp.asarray(x) if isinstance(x, np.ndarray) else x
        if calls is not None and isinstance(x, np.ndarray):
            calls.append(made)
        return made

    entry: Any = functions[name]
    if not hasattr(entry, "known"):  # of a reduction with plans, which would compute
        entry = getattr(entry, "general", entry)
    return lambda *args, **kwargs: entry(*map(convert, args), **kwargs)


def _known(function: Any) -> Any:
    """Return what the entry of a function knows about unions of words; None where it makes no quick calls."""
    entry = functions[function] if isinstance(function, str) else function
    found = getattr(entry, "known", None)
    return getattr(entry, "general", entry).__globals__.get("known") if found is None else found


def _call(name: str, function: Callable[..., Any]) -> Any:
    return CALLS.get(name, lambda f: f(V))(function)


def _facts(made: Any) -> Any:
    """Return what is to agree of a result beside its numbers."""
    several = made if isinstance(made, tuple) and made and hasattr(made[0], "dtype") else (made,)
    return [(getattr(x, "dtype", None), np.shape(x), getattr(x, "strides", None)) for x in several]


def _numbers(made: Any) -> Any:
    return [np.asarray(x) for x in made] if isinstance(made, tuple) else np.asarray(made)


@pytest.mark.parametrize("name", QUICK)
def test_quick_calls_give_what_the_general_way_gives(name: str) -> None:
    source = _source(name)
    wanted = _call(name, source)
    operands: list[Any] = []
    _call(name, _ours(name))  # writes the entry
    found = _call(name, _ours(name, operands))
    if _known(name) is None:
        pytest.skip("this version of NumPy does not tell the function's signature")
    assert True in _known(name).values()
    with tk.no_grad():
        general = _call(name, _ours(name))
    if "raw" in QUICK[name].modes:
        assert found == general == wanted
        return
    results = zip(*[x if isinstance(wanted, tuple) else (x,) for x in (found, general, wanted)], strict=True)
    assert all(type(one) is type(other) is counterpart(its) for one, other, its in results)
    np.testing.assert_allclose(_numbers(found), _numbers(wanted), rtol=1e-14)
    np.testing.assert_allclose(_numbers(found), _numbers(general), rtol=1e-14)
    assert [f[:2] for f in _facts(found)] == [f[:2] for f in _facts(wanted)]
    assert _facts(found) == _facts(general)
    first = next(iter(operands))
    shares = "view" in QUICK[name].modes
    one = found[0] if isinstance(found, tuple) else found
    assert (isinstance(one, tk.Tensor) and tk.shares_storage(one, first)) is shares


@pytest.mark.parametrize("name", [name for name in QUICK if "view" in QUICK[name].modes])
def test_views_share_the_version_counter(name: str) -> None:
    for x in (tnp.ones((3, 3)), tnp.ones((4, 3, 3))[1]):
        y = {"reshape": lambda f, x: f(x, (9,)), "swapaxes": lambda f, x: f(x, 0, 1)}.get(
            name, lambda f, x: f(x)
        )(functions[name], x)  # fmt: skip
        before = x._version
        y[...] = 7.0
        assert x._version == y._version > before
        assert x.tolist()[1][1] == 7.0


@pytest.mark.parametrize("name", ["reshape", "ravel"])
def test_copies_are_not_views(name: str) -> None:
    x = tnp.ones((3, 2)).T
    y = functions[name](x, *([(6,)] if name == "reshape" else []))
    assert not tk.shares_storage(x, y)
    before = x._version
    y += 1
    assert x._version == before


@pytest.mark.parametrize("name", [name for name in QUICK if QUICK[name].operators])
def test_registered_kernels_are_found(name: str) -> None:
    """While another kernel handles one of the operators, calls are not quick."""
    _call(name, _ours(name))
    if _known(name) is None:
        pytest.skip("this version of NumPy does not tell the function's signature")
    library = tk.library.Library("tk", "IMPL")
    for operator in QUICK[name].operators:
        _call(name, _ours(name))
        assert True in _known(name).values()

        def kernel(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        with warnings.catch_warnings(), library.impl(operator, kernel, "cpu", allow_override=True):
            warnings.simplefilter("ignore")
            assert not _known(name)
            with contextlib.suppress(NotImplementedError):
                _call(name, _ours(name))
            assert True not in _known(name).values()
    _call(name, _ours(name))
    assert True in _known(name).values()


@pytest.mark.parametrize("name", [name for name in QUICK if QUICK[name].operators])
def test_the_table_names_the_operators_of_the_general_way(name: str) -> None:
    public = {"slice": "basic_index", "concatenate": "concat", "transpose": "permute_dims"}
    _call(name, _ours(name))
    with profile() as found:
        _call(name, _ours(name))
    called = {event.name.removeprefix("tk::") for event in found.events()}
    assert {public.get(one, one) for one in called} - {"alias"} <= {*QUICK[name].operators}
    assert called


def test_a_registered_kernel_computes() -> None:
    x = tnp.array([2.0, 1.0])
    assert tnp.sort(x).tolist() == [1.0, 2.0]
    library = tk.library.Library("tk", "IMPL")

    def kernel(x: Any, **options: Any) -> Any:
        return tk.full(x.shape, 7.0, dtype=x.dtype)

    with library.impl("sort", kernel, "cpu", allow_override=True):
        assert tnp.sort(x).tolist() == [7.0, 7.0]
    assert tnp.sort(x).tolist() == [1.0, 2.0]


def test_modes_see_small_calls() -> None:
    seen = []

    class Seeing(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append(op.name)
            return op(*args, **kwargs)

    x = tnp.array([2.0, 1.0])
    calls: list[Callable[[], Any]] = [lambda: tnp.sort(x), lambda: tnp.concatenate([x, x]), lambda: tnp.reshape(x, 2)]
    for call in calls:
        call()
    with Seeing():
        for call in calls:
            call()
    assert seen == ["tk::sort", "tk::concat", "tk::reshape"]


def test_gradients_and_wrappers_take_the_general_way() -> None:
    x = tnp.array([3.0, 1.0, 2.0])
    tnp.sum(tnp.cumsum(tnp.sort(x)))
    y = tnp.array([3.0, 1.0, 2.0]).requires_grad_()
    tnp.sum(tnp.cumsum(tnp.sort(y)) * x).backward()
    assert y.grad.tolist() == [2.0, 6.0, 3.0]
    assert tk.vmap(tnp.sort)(tnp.array([[2.0, 1.0], [0.0, 5.0]])).tolist() == [[1.0, 2.0], [0.0, 5.0]]
    assert tnp.concatenate([x, y]).requires_grad


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, 0.0])
def test_no_warnings(value: float) -> None:
    x, d = tnp.full(3, value), tnp.full((3, 3), value)
    for name in ("sum", "prod", "mean", "cumsum", "cumprod", "diff", "median", "round", "fft.fft", "dot", "inner",
                 "vdot", "outer"):  # fmt: skip
        given = (x, x) if name in ("dot", "inner", "vdot", "outer") else (x,)
        with np.errstate(all="ignore"):
            wanted = _source(name)(*map(np.asarray, given))
        np.testing.assert_allclose(np.asarray(functions[name](*given)), wanted)
    for name in ("trace", "linalg.det", "linalg.norm", "cross"):
        functions[name](*((d, d) if name == "cross" else (d,)))


def test_norms_neither_overflow_nor_underflow() -> None:
    for scale in (1e-200, 1.0, 1e200):
        np.testing.assert_allclose(float(tnp.linalg.norm(tnp.array([3.0, 4.0]) * scale)), 5 * scale)
    assert float(tnp.linalg.norm(tnp.zeros(2))) == 0.0


@pytest.mark.parametrize("name", ["concatenate", "dot", "sum", "mean", "cumsum", "take", "median", "linalg.norm"])
def test_dtypes(name: str) -> None:
    """Every first call of a union of words, and every later one, gives NumPy's dtype."""
    for dtype in ("?", "i1", "u8", "f2", "f4", "c8"):
        x = np.array([1, 0, 1]).astype(dtype)
        given: Any = {"concatenate": ([x, V],), "dot": (x, V), "take": (x, np.array([1, 0]))}.get(name, (x,))
        for _ in range(2):
            try:
                wanted = _source(name)(*given)
            except TypeError:
                with pytest.raises(TypeError):
                    _ours(name)(*given)
                continue
            found = _ours(name)(*given)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


def test_wrong_arguments_are_explained() -> None:
    x = tnp.ones((2, 3))
    for _ in range(2):
        with pytest.raises(np.exceptions.AxisError):
            tnp.cumsum(x, 2)
        with pytest.raises(ValueError, match=r"concat"):
            tnp.concatenate([x, tnp.ones(2)])
        with pytest.raises(np.linalg.LinAlgError):
            tnp.linalg.inv(tnp.zeros((2, 2)))


METHODS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: [x.reshape(3, 2), x.reshape((6,)), x.reshape(-1), x.T.reshape(6)],
    "transpose": lambda x: [x.transpose(), x.transpose(1, 0), x.transpose((0, 1)), x.transpose(None)],
    "flatten": lambda x: [x.flatten(), x.flatten("F"), x.T.flatten()],
    "copy": lambda x: [x.copy(), x.T.copy(), x.T.copy("K"), x.copy("F")],
    "astype": lambda x: [x.astype(int), x.astype("f4"), x.astype(np.float64), x.astype(bool), x.astype(complex)],
    "item": lambda x: [x.item(1), x.item(1, 2), x.item((0, 1)), x[0, 0].item()],
    "tolist": lambda x: [x.tolist(), x[0].tolist(), x[0, 0].tolist()],
    "sum": lambda x: [x.sum(), x.sum(1), x.sum(axis=0, keepdims=True), x.sum(dtype="f4")],
    "dot": lambda x: [x.dot(x.T), x[0].dot(x[1])],
    "argmax": lambda x: [x.argmax(), x.argmax(axis=1)],
    "squeeze": lambda x: [x.squeeze(), x[None].squeeze(0)],
    "ravel": lambda x: [x.ravel(), x.T.ravel(), x.ravel("F")],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    x = tnp.array(M)
    with tk.no_grad():
        general = METHODS[name](x)
    METHODS[name](x)
    found, wanted = METHODS[name](x), METHODS[name](M)
    for one, other, numpys in zip(found, general, wanted, strict=True):
        assert type(one) is type(other)
        assert _facts(one) == _facts(other)
        assert _facts(one)[0][:2] == (getattr(numpys, "dtype", None), np.shape(numpys))
        np.testing.assert_array_equal(np.asarray(one), np.asarray(numpys))
        if isinstance(one, tk.Tensor):
            assert tk.shares_storage(one, x) is tk.shares_storage(other, x) is np.shares_memory(numpys, M)
    if tells_parameters(getattr(np, name, getattr(np.ndarray, name))):
        assert True in _known(vars(tnp.ndarray)[name]).values()


CREATED: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda m: [m.zeros(3), m.zeros((2, 3), int), m.zeros([2]), m.zeros((), "f4"), m.zeros((2, 2), order="F")],
    "ones": lambda m: [m.ones(3), m.ones((2, 3), bool), m.ones(2, None), m.ones(np.int64(2))],
    "full": lambda m: [m.full(2, 1.5), m.full((2, 2), 3), m.full(2, True), m.full(2, 2.5, "f4"), m.full(1, 2**63)],
    "zeros_like": lambda m: [m.zeros_like(m.asarray(M)), m.zeros_like(m.asarray(M).T), m.zeros_like(m.ones(2), int)],
    "ones_like": lambda m: [m.ones_like(m.asarray(M)), m.ones_like(m.asarray(M), shape=(2,)), m.ones_like([1, 2])],
    "full_like": lambda m: [m.full_like(m.asarray(M), 7), m.full_like(m.arange(2), 2.5), m.full_like(m.arange(2), 1.0)],
    "array": lambda m: [m.array([1.0, 2]), m.array([[1], [2]], "f4"), m.array([]), m.array((True, 1j)), m.array(1.5)],
    "arange": lambda m: [m.arange(3), m.arange(1.0, 2, 0.25), m.arange(3, dtype="f4")],
    "linspace": lambda m: [m.linspace(0, 1, 3), m.linspace(0, 1), m.linspace(1, 2.5, 4, endpoint=False)],
    "eye": lambda m: [m.eye(2), m.eye(2, 3, 1), m.eye(2, k=-1), m.identity(2)],
    "copy": lambda m: [m.copy(m.asarray(M).T), m.copy(m.asarray(M).T, "C"), m.copy([1])],
    "where": lambda m: [m.where(m.asarray(M) > 1, m.asarray(M), 0), m.where(m.asarray(M) > 1, 1, 2.5),
                        *m.where(m.asarray(M) > 1), m.where(m.asarray(M), m.asarray(M), m.arange(3))],
    "einsum": lambda m: [m.einsum("ij,kj->ik", m.asarray(M), m.asarray(M)), m.einsum("ii->i", m.asarray(D)),
                         m.einsum("ij,j", m.asarray(M), m.arange(3)), m.einsum(m.asarray(M), [0, 1])],
}  # fmt: skip


@pytest.mark.parametrize("name", CREATED)
def test_created(name: str) -> None:
    CREATED[name](tnp)
    wanted = CREATED[name](np)
    with tk.no_grad():
        general = CREATED[name](tnp)
    for one, other, numpys in zip(CREATED[name](tnp), general, wanted, strict=True):
        assert type(one) is tnp.ndarray
        assert _facts(one)[0][:2] == _facts(numpys)[0][:2]
        assert _facts(one) == _facts(other)
        np.testing.assert_array_equal(np.asarray(one), numpys)
    if name not in ("array", "arange", "linspace", "eye"):  # which have no operator
        assert True in _known(name).values()


def test_devices() -> None:
    for call in (tnp.zeros, tnp.arange, tnp.eye, lambda n, **options: tnp.array([n, n], **options)):
        call(2)
        assert call(2, device="meta").device == "meta"
    x = tnp.ones(2, device="meta")
    assert tnp.zeros_like(x).device == x.copy().device == x.reshape(2, 1).device == tnp.sort(x).device == "meta"


def test_lists_of_tensors_keep_the_gradient() -> None:
    x = tnp.array([1.0, 2.0]).requires_grad_()
    for items in ([x[0], 1.0], [[x[0], 2.0], [1.0, x[1]]], [x, x]):
        assert tnp.array(items).requires_grad
    assert x.copy().requires_grad
    assert x.reshape(2, 1).requires_grad
    with pytest.raises(RuntimeError, match="grad"):
        x.astype("f4").numpy()


def test_overridden_creation_is_found() -> None:
    assert tnp.zeros(2).tolist() == [0.0, 0.0]
    library = tk.library.Library("tk", "IMPL")
    with library.impl("zeros", lambda shape, **options: tk.full(shape, 7.0), "cpu", allow_override=True):
        assert tnp.zeros(2).tolist() == [7.0, 7.0]
    assert tnp.zeros(2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("way", ["", "_in_python"], ids=["compiled", "in Python"])
def test_results_in_python_and_compiled(way: str) -> None:
    """Note [Results of quick calls]: both give arrays of the same memory and word, or None."""
    fresh, view = getattr(quick_functions, f"_fresh{way}"), getattr(quick_functions, f"_view{way}")
    for native in (np.zeros((2, 3)), np.float32(2), np.array([1, 2], "u1"), np.array(True), np.ones(2, "c8")):
        count = sys.getrefcount(native)
        made = fresh(native)
        if isinstance(native, np.generic):
            assert made is native  # Note [Scalars and 0-d arrays]
            continue
        assert (type(made), made._word) == (tnp.ndarray, tnp.asarray(native)._word)
        assert made.tolist() == native.tolist()
        assert made._storage is made._autograd is None
        del made
        assert sys.getrefcount(native) == count
    assert fresh(np.array(["text"])) is None
    for root in (tnp.ones((3, 4)), tnp.ones((2, 3, 4))[1]):
        storage_of(root)  # which refers to the array from its first use on
        counts = sys.getrefcount(root), sys.getrefcount(root._data)
        window, copy = view(root, root._data[1:]), view(root, root._data.copy())
        assert tk.shares_storage(window, root)
        assert window._version == root._version
        assert window._storage is (root if root._storage.__class__ is not type(root) else root._storage)
        assert copy._storage is None
        del window, copy
        assert (sys.getrefcount(root), sys.getrefcount(root._data)) == counts
    with tk.no_grad():
        assert fresh(np.zeros(2)) is None
        assert view(root, root._data[:1]) is None


def test_attributes() -> None:
    for x, y in ((tnp.array(M), M), (tnp.zeros(()), np.zeros(())), (tnp.ones((2, 3), device="meta"), np.ones((2, 3)))):
        assert (x.shape, x.size, x.ndim, x.dtype) == (y.shape, y.size, y.ndim, y.dtype)
        assert type(x.size) is int
