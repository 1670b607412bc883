"""Keywords of NumPy and PyTorch: methods accept them where they mean the same, all others are told our spelling."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.interop import numpy_names

X = np.arange(24.0).reshape(2, 3, 4) % 7
REDUCTIONS = ["sum", "mean", "prod", "all", "any", "argmax", "argmin", "logsumexp", "amax", "amin", "nansum"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_along_dim(name: str) -> None:
    x = tk.asarray(X)
    method = getattr(x, name)
    for axis in (0, -1) if name.startswith("arg") else (0, -1, (0, 2)):
        want = method(axis=axis)
        kept = method(axis=axis, keepdims=True)
        for _ in range(2):  # the first call, and the others
            np.testing.assert_array_equal(method(dim=axis).numpy(), want.numpy(), strict=True)
            np.testing.assert_array_equal(method(dim=axis, keepdim=True).numpy(), kept.numpy(), strict=True)
            np.testing.assert_array_equal(method(axis, True).numpy(), kept.numpy(), strict=True)
    with pytest.raises(TypeError, match=rf"\[{name}\] got axis=0 and dim=1: give one"):
        method(0, dim=1)


SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("softmax", {"dim": 1}, {"axis": 1}),
    ("log_softmax", {"dim": 0}, {"axis": 0}),
    ("cumsum", {"dim": 1}, {"axis": 1}),
    ("cumprod", {"dim": 1, "dtype": tk.float32}, {"axis": 1, "dtype": tk.float32}),
    ("argsort", {"dim": 0, "descending": True}, {"axis": 0, "descending": True}),
    ("quantile", {"q": 0.3, "dim": 1, "keepdim": True}, {"q": 0.3, "axis": 1, "keepdims": True}),
    ("flip", {"dims": (0, 2)}, {"axis": (0, 2)}),
    ("unsqueeze", {"dim": 1}, {"axis": 1}),
    ("roll", {"shifts": 2, "dims": 1}, {"shift": 2, "axis": 1}),
    ("diagonal", {"offset": 1, "dim1": 1, "dim2": 2}, {"offset": 1, "axis1": 1, "axis2": 2}),
    ("gather", {"dim": 2, "index": tk.zeros((2, 3, 1), dtype=tk.int64)},
     {"axis": 2, "indices": tk.zeros((2, 3, 1), dtype=tk.int64)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "theirs", "ours"), SAME)
def test_methods_accept_pytorchs_keywords(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    x = tk.tensor(X, requires_grad=True)
    for _ in range(2):
        got, want = getattr(x, name)(**theirs), getattr(x, name)(**ours)
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy(), strict=True)
        assert got.requires_grad == want.requires_grad
    function = getattr(tk, name, None)
    if function is not None:
        with pytest.raises(TypeError, match=rf"\[{name}\] has no argument"):
            function(x, **theirs)


@pytest.mark.parametrize("name", sorted(numpy_names.OTHER_RESULTS))
def test_methods_with_other_results_say_so(name: str) -> None:
    x = tk.asarray(X)
    for call in (lambda: getattr(x, name)(dim=0), lambda: getattr(x, name)(0, keepdim=True)):
        with pytest.raises(TypeError, match=rf"\[{name}\] has no argument '\w+': x\.{name}\(axis=...\)"):
            call()


CALLS: list[tuple[Any, str]] = [
    (lambda x: tk.sum(x, dim=0), r"\[sum\] has no argument 'dim': here it is 'axis'"),
    (lambda x: tk.sum(x, 0, keepdim=True), r"\[sum\] has no argument 'keepdim': here it is 'keepdims'"),
    (lambda x: tk.std(x, ddof=1), r"\[std\] has no argument 'ddof': here it is 'correction'"),
    (lambda x: tk.var(x, unbiased=False), r"\[var\] .* correction=1"),
    (lambda x: tk.clip(x, a_min=0, a_max=1), r"\[clip\] has no argument 'a_min': here it is 'min'"),
    (lambda x: tk.zeros(size=(2, 3)), r"\[zeros\] has no argument 'size': here it is 'shape'"),
    (lambda x: tk.reshape(x, newshape=(4, 6)), r"\[reshape\] has no argument 'newshape': here it is 'shape'"),
    (lambda x: tk.random.normal(size=3), r"\[random.normal\] has no argument 'size': here it is 'shape'"),
    (lambda x: tk.random.normal(loc=1.0), r"\[random.normal\] has no argument 'loc': here it is 'mean'"),
    (lambda x: tk.random.choice(x, size=3), r"\[random.choice\] has no argument 'size': here it is 'shape'"),
    (lambda x: tk.add(x, x, out=x), r"\[add\] has no argument 'out': use the result, or write it with y.copy_"),
    (lambda x: tk.add(x, x, x), r"\[add\] has no argument 'out': use the result"),
    (lambda x: tk.sum(x, out=x), r"\[sum\] has no argument 'out': use the result"),
    (lambda x: tk.ones(2, 3), r"\[tk::ones\] .* Give the shape as one tuple, as in tk.ones\(\(2, 3\)\)"),
    (lambda x: tk.zeros(2, 3, 4), r"\[zeros\] .* give the shape as one tuple, as in tk.zeros\(\(2, 3\)\)"),
    (lambda x: tk.empty(2, 3), r"Give the shape as one tuple, as in tk.empty\(\(2, 3\)\)"),
    (lambda x: tk.concat(tensors=[x, x]), r"\[concat\] has no argument 'tensors': here it is 'arrays'"),
    (lambda x: tk.concat([x, x], dim=1), r"\[concat\] has no argument 'dim': here it is 'axis'"),
    (lambda x: tk.split(x, 2, dim=0), r"\[split\] has no argument 'dim': here it is 'axis'"),
    (lambda x: tk.linalg.norm(x, dim=0), r"\[linalg.norm\] has no argument 'dim': here it is 'axis'"),
    (lambda x: tk.linalg.vector_norm(x, p=1), r"\[linalg.vector_norm\] has no argument 'p': here it is 'ord'"),
    (lambda x: tk.linalg.svd(x, compute_uv=False), r"\[linalg.svd\] .* tk.linalg.svdvals"),
    (lambda x: tk.fft.fft(x, dim=0), r"\[fft.fft\] has no argument 'dim': here it is 'axis'"),
    (lambda x: tk.sum(x, where=x > 0), r"\[sum\] .* tk.where\(mask, x, 0\)"),
    (lambda x: tk.sum(x, foo=1), r"\[sum\] has no argument 'foo': its arguments are x, axis, dtype, keepdims"),
    (lambda x: tk.sum(x, 0, 1, 2), r"\[sum\] got more arguments by position than it takes: its arguments are x, axis"),
    (lambda x: x.sum(foo=1), r"\[sum\] has no argument 'foo': its arguments are axis, dtype, keepdims"),
    (lambda x: x.sum(out=x), r"\[sum\] has no argument 'out'"),
    (lambda x: x.sum(input=x), r"\[sum\] has no argument 'input'"),
    (lambda x: tk.sum(), r"\[tk::sum\] needs the argument 'x'"),
    (lambda x: tk.reshape(x), r"\[tk::reshape\] needs the argument 'shape'"),
    (lambda x: tk.full(2), r"\[full\] missing 1 required positional argument: 'fill_value'"),
    (lambda x: tk.take(x), r"\[tk::take\] needs the argument 'indices'"),
    (lambda x: tk.add(x), r"\[tk::add\] needs the argument 'x2'"),
    (lambda x: tk.concat(), r"\[tk::concat\] needs the argument 'arrays'"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_errors_name_our_spelling(call: Any, words: str) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=words) as caught:
            call(tk.asarray(X))
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_every_function_with_an_axis_names_it() -> None:
    silent = []
    modules = [(tk, ""), (tk.linalg, "linalg."), (tk.fft, "fft."), (tk.special, "special."), (tk.random, "random.")]
    for module, prefix in modules:
        for name in module.__all__:
            function = getattr(module, name)
            names = inspect.signature(function).parameters if inspect.isroutine(function) else {}
            for theirs, ours in (("dim", "axis"), ("keepdim", "keepdims")):
                if ours not in names or name in numpy_names.FUNCTIONS:
                    continue
                try:
                    function(tk.ones((2, 2)), **{theirs: 0})
                except TypeError as error:
                    head, _, advice = (
                        str(error).replace(prefix, "", 1).partition(f"[{name}] has no argument {theirs!r}: ")
                    )
                    if not head and (advice == f"here it is {ours!r}." or f"{name}(axis=" in advice):
                        continue
                silent.append(f"{prefix}{name}({theirs})")
    assert not silent


def test_public_functions_look_like_what_they_are() -> None:
    assert str(inspect.signature(tk.sum)) == "(x, axis=None, *, dtype=None, keepdims=False)"
    assert str(inspect.signature(tk.Tensor.sum)) == str(inspect.signature(tk.sum))
    tk.sum(tk.ones(2))
    assert str(inspect.signature(tk.sum)) == "(x, axis=None, *, dtype=None, keepdims=False)"
    assert (tk.sum.__name__, tk.sum.__module__, tk.linalg.svd.__qualname__) == ("sum", "tenkey", "svd")
    assert pickle.loads(pickle.dumps((tk.sum, tk.linalg.svd, tk.split))) == (tk.sum, tk.linalg.svd, tk.split)
    assert tk.ops.tk.sum.default.call is not tk.sum
    with pytest.raises(TypeError, match="unexpected keyword"):
        tk.ops.tk.sum(tk.ones(2), dim=0)
