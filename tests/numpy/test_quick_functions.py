"""Note [Quick calls of functions]: small calls are NumPy's own, and give what the general way gives."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy.call_rules.quick_functions import quick_table
from tenkey.numpy.known import functions

M = np.array([[3.0, 1.0, 2.0], [0.5, -4.0, 6.0]])
D = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, -1.0], [0.5, 0.0, 3.0]])
V = np.array([2.0, -1.0, 0.5])
QUICK = quick_table()
CALLS: dict[str, Callable[[Any], Any]] = {
    "vstack": lambda f: f([V, V]), "hstack": lambda f: f((M, M)), "stack": lambda f: f([M, M]),
    "concatenate": lambda f: f([M, M], 1), "concat": lambda f: f((V, V)),
    "dot": lambda f: f(M, D), "inner": lambda f: f(M, V), "vdot": lambda f: f(V, V), "outer": lambda f: f(V, M),
    "cross": lambda f: f(V, D), "searchsorted": lambda f: f(np.sort(V), M), "repeat": lambda f: f(M, 2, 1),
    "take": lambda f: f(M, np.array([2, 0]), axis=1), "diag": lambda f: f(V, 1), "reshape": lambda f: f(M, (3, -1)),
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

    return lambda *args, **kwargs: functions[name](*map(convert, args), **kwargs)


def _known(name: str) -> dict[int, bool]:
    """Return what the entry of a function knows about unions of words."""
    scope: Any = functions[name].__globals__  # type: ignore[attr-defined]
    found: dict[int, bool] = scope["known"].__self__
    return found


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
    if "known" not in functions[name].__globals__:  # type: ignore[attr-defined]
        pytest.skip("this version of NumPy does not tell the function's signature")
    assert True in _known(name).values()
    with tk.no_grad():
        general = _call(name, _ours(name))
    if name in ("shape", "ndim"):
        assert found == general == wanted
        return
    assert type(found[0] if isinstance(found, tuple) else found) is tnp.ndarray
    np.testing.assert_allclose(_numbers(found), _numbers(wanted), rtol=1e-14)
    np.testing.assert_allclose(_numbers(found), _numbers(general), rtol=1e-14)
    assert [f[:2] for f in _facts(found)] == [f[:2] for f in _facts(wanted)]
    assert _facts(found) == _facts(general)
    first = next(iter(operands))
    shares = "view" in QUICK[name].modes
    assert tk.shares_storage(found[0] if isinstance(found, tuple) else found, first) is shares


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
    if "known" not in functions[name].__globals__:  # type: ignore[attr-defined]
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
