"""Errors name what the user called: a sweep of wrong calls of all public functions and methods.

Each is called with values of wrong types, wrong shapes and axes, too many arguments and unknown keywords. An error may
say ``[name]``, ``tk::name`` or ``name()`` only of a public function, a method or a keyword of Python; private names
(``_cumsum()``), internal operators (``tk::meshgrid_of``) and ``<lambda>`` are of no use to the user.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.plans import special_methods
from tenkey.dispatch import registry

MODULES = {"": tk, "linalg": tk.linalg, "fft": tk.fft, "special": tk.special, "random": tk.random}
# Calls that do not return quickly, change global state, or take functions and files.
LEFT_OUT = frozenset({
    "set_num_threads", "set_printoptions", "set_grad_enabled", "save", "load", "fill_state", "set_state", "seed",
    "no_grad", "enable_grad", "inference_mode", "grad", "vmap", "jvp", "vjp", "value_and_grad", "autocast",
    "printoptions", "default_dtypes", "device", "Tensor", "share_memory_", "pin_memory", "backward", "as_subclass",
    "__reduce_ex__", "__deepcopy__", "__copy__", "record_stream", "register_hook", "is_grad_enabled",
    "register_post_accumulate_grad_hook", "__init_subclass__", "__class_getitem__", "__new__", "__getattribute__",
})  # fmt: skip


def _public() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for place, module in MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isroutine(value) and name not in LEFT_OUT:
                found[f"{place}.{name}" if place else name] = value
    return found


def _methods() -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for kind in (tk.Tensor,)
        for name, value in {**special_methods(), **vars(kind)}.items()
        if inspect.isroutine(value) and name not in LEFT_OUT and (not name.startswith("_") or name[:2] == "__")
    }


FUNCTIONS, METHODS = _public(), _methods()
# what errors may be about: operators by their names in the namespace, and words for indexing, conversion and so on
WORDS = frozenset({
    "index", "index_put", "bool", "float", "int", "len", "iter", "dtype", "device", "T", "mT", "shape", "real", "imag",
    "grad", "data", "numpy", "promotion", "copy", "asarray", "getitem", "setitem", "allocate", "meta",
})  # fmt: skip


def is_public(name: str) -> bool:
    bare = name.removeprefix("tk::").removeprefix("Tensor.").removeprefix("random.")
    module, _, rest = bare.partition("_")
    dotted = {bare, f"{module}.{rest}", *[f"{place}.{bare}" for place in MODULES]}
    return bool(dotted & FUNCTIONS.keys()) or bool({bare, bare.strip("_"), f"__{bare}__"} & (METHODS.keys() | WORDS))


def private_names(text: str) -> list[str]:
    """Return the names in an error that are of no use to a user."""
    names = re.findall(r"^\[([\w.:]+)\]", text) + re.findall(r"\b(tk::\w+)", text)
    names += re.findall(r"(?:^|\s)([\w.]+)\(\) (?:takes|missing|got)", text)
    hidden = [name for name in names if not is_public(name)]
    hidden += re.findall(r"<lambda>|\b_[a-z]\w*\(\)|<locals>|\$\w+", text)
    return hidden


def test_the_check_itself() -> None:
    assert private_names("[sum] axis 3 is out of range") == []
    assert private_names("[tk::linalg_inv] the argument 'x' must be a Tensor") == []
    assert private_names("[linalg.inv] and tk::exp, sum() takes 1") == []
    assert private_names("_cumsum() takes 1 positional argument") != []
    assert private_names("[tk::meshgrid_of] the argument") == ["tk::meshgrid_of", "tk::meshgrid_of"]
    assert private_names("<lambda>() missing 1 argument") != []


X = tk.asarray(np.arange(6.0).reshape(2, 3))
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), (("a",), {}), ((None,), {}), ((object(),), {}), ((X,), {"no_such_keyword": 1}), ((X,) * 9, {}),
    ((X, "a"), {}), ((X, None, "a"), {}), ((X, object()), {}), ((X, X[0, :2]), {}), ((X, 1.5), {}), ((X, 7), {}),
    ((X,), {"axis": 5}), ((X,), {"axis": "a"}), ((X,), {"dtype": "float31"}), ((X,), {"device": "nowhere"}),
    ((X > 0, 1j), {}), (([[1, 2], [3]],), {}), ((-1,), {}), (((2, -3),), {}), ((X, (0, 0)), {}), ((X[0, 0], 1), {}),
    ((X, X[:0]), {}), ((tk.asarray(["2", "3"] and [True, False]),), {}), ((X * 1j, 2, 3), {}), ((X, -9, 9), {}),
    ((X, [9, 9]), {}), ((X, tk.asarray([9, 9])), {}), ((X, X, X[0]), {}), ((X, X, X, X), {}), ((X[0], [X, X]), {}),
]  # fmt: skip


def errors_of(function: Callable[..., Any], method: bool) -> Iterator[tuple[str, str]]:
    for args, kwargs in WRONG:
        given = (X.clone(), *args[1:]) if method else tuple(a.clone() if isinstance(a, tk.Tensor) else a for a in args)
        try:
            function(*given, **kwargs)
        except Exception as error:
            yield f"{type(error).__name__}: {error}", str(error)


@pytest.mark.parametrize("kind", ["functions", "methods"])
def test_errors_name_public_functions(kind: str) -> None:
    found: dict[str, str] = {}
    for name, function in (FUNCTIONS if kind == "functions" else METHODS).items():
        for shown, text in errors_of(function, kind == "methods"):
            hidden = private_names(text)
            if hidden:
                found.setdefault(f"{name}: {', '.join(sorted({*hidden}))}", shown[:200])
    assert not found, "\n" + "\n".join(f"{name}\n    {text}" for name, text in sorted(found.items()))


def test_every_operator_that_errors_name_exists() -> None:
    assert all(is_public(name) for name in ("sum", "linalg.svd", "tk::special_erf", "reshape", "__add__"))
    assert not is_public("tk::meshgrid_of")
    assert "tk::meshgrid_of" in registry.operators
