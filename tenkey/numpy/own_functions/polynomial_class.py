"""``poly1d``: a polynomial of one variable."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..converting import from_numpy, on_host
from ..known import define, functions

__all__ = ["poly1d"]


class poly1d:  # NumPy's name for it
    """A polynomial with NumPy's methods and operators; coefficients are given from the highest power down.

    NumPy computes it from the values, without gradients; for these use ``polyval`` with an array of coefficients.

    >>> import tenkey.numpy as tnp
    >>> p = tnp.poly1d([1, -3, 2])
    >>> p(tnp.array([0, 1, 2])), p.roots
    (array([2, 0, 0]), array([2., 1.]))
    """

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        self._poly: np.poly1d
        given: Any = c_or_r._poly if isinstance(c_or_r, poly1d) else c_or_r
        if isinstance(given, np.poly1d):
            self._poly = np.poly1d(given, r, variable)
        else:
            self._poly = np.poly1d(np.asarray(given), r, variable)

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, np.poly1d):
            return poly1d(result)
        if isinstance(result, tuple):
            return tuple([self._wrapped(one) for one in result])
        return from_numpy(result)

    def __call__(self, val: Any) -> Any:
        """Return the values at ``val``."""
        if isinstance(val, poly1d):
            return poly1d(self._poly(val._poly))
        return on_host(self._poly, (val,), {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._poly, name)
        if not callable(found) or isinstance(found, np.poly1d):
            return self._wrapped(found)
        return lambda *args, **kwargs: self._wrapped(found(*map(_bare, args), **kwargs))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self._poly.coeffs, dtype)

    def __str__(self) -> str:
        return str(self._poly)

    def __repr__(self) -> str:
        return repr(self._poly)

    def __len__(self) -> int:
        return len(self._poly)

    def __iter__(self) -> Any:
        return iter(from_numpy(self._poly.coeffs))

    def __getitem__(self, power: int) -> Any:
        return self._wrapped(self._poly[power])

    def __setitem__(self, power: int, value: Any) -> None:
        self._poly[power] = _bare(value)


def _bare(x: Any) -> Any:
    if isinstance(x, poly1d):
        return x._poly
    return np.asarray(x) if hasattr(x, "_word") else x


def _operator(name: str) -> Any:
    def method(self: poly1d, *others: Any) -> Any:
        result = getattr(self._poly, name)(*map(_bare, others))
        return NotImplemented if result is NotImplemented else self._wrapped(result)

    method.__name__ = name
    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "neg", "pos", "eq", "ne"):
    setattr(poly1d, f"__{_name}__", _operator(f"__{_name}__"))


def _of_polynomials(name: str) -> None:
    """Let a function of coefficients take polynomials too, and return one if an operand is one."""
    call: Any = functions[name]

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(x, poly1d) for x in args):
            return call(*args, **kwargs)
        if name == "polyval" and isinstance(args[1], poly1d):
            return poly1d(np.polyval(_bare(args[0]), args[1]._poly))
        given = [from_numpy(x._poly.coeffs) if isinstance(x, poly1d) else x for x in args]
        made = call(*given, **kwargs)
        if name in ("polyval", "roots"):
            return made
        return tuple(map(poly1d, made)) if isinstance(made, tuple) else poly1d(made)

    define(function, name)


for _name in ("polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint", "polyval", "roots"):
    _of_polynomials(_name)
