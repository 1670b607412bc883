"""What incomplete functions and their kin refuse: rows of the table in ``test_errors.py``."""

from __future__ import annotations

from typing import Any

import tenkey as tk

__all__ = ["cases"]

_BROADCAST = " cannot be broadcast together: counted from the last, each dimension must be equal or 1 in all of them."


def cases() -> list[Any]:
    """(name, call, error, text)."""
    return [
        ("special_gammainc", lambda f, i: tk.special.gammainc(f(2), f(3)), ValueError,
         "[special_gammainc] the shapes (2,) and (3,)" + _BROADCAST),
        ("special_gammaincc", lambda f, i: tk.special.gammaincc(f(2), f(3)), ValueError,
         "[special_gammaincc] the shapes (2,) and (3,)" + _BROADCAST),
        ("special_betainc", lambda f, i: tk.special.betainc(f(2), f(2), f(3)), ValueError,
         "[special_betainc] the shapes (2,) and (2,) and (3,)" + _BROADCAST),
        *[
            (f"special_{name}", lambda f, i, name=name: getattr(tk.special, name)(f(2), f(3)), ValueError,
             f"[special_{name}] the shapes (2,) and (3,)" + _BROADCAST)
            for name in ("chdtr", "chdtrc", "stdtr", "stdtrit", "jn", "yn", "iv", "ive")
        ],
        *[
            (f"special_{name}", lambda f, i, name=name: getattr(tk.special, name)(f(2), f(2), f(3)), ValueError,
             f"[special_{name}] the shapes (2,) and (2,) and (3,)" + _BROADCAST)
            for name in ("betaincc", "fdtr", "fdtrc")
        ],
        ("special_zeta", lambda f, i: tk.special.zeta(f(2), f(3)), ValueError,
         "[special_zeta] the shapes (2,) and (3,)" + _BROADCAST),
        ("special_multigammaln", lambda f, i: tk.special.multigammaln(f(2), 0), ValueError,
         "[special_multigammaln] d is the number of dimensions, at least 1; got 0."),
    ]  # fmt: skip
