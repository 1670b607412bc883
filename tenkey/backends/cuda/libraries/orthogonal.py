"""The operator of QR decompositions."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor
from ....ops.builtin import load
from ....ops.builtin.shape.views import reshape
from . import cublas, cusolver
from .matrix_tools import as_dtype, compute_dtype, filled, fresh, identity, move, pointers, stacked, status, turned
from .site import Site

load("linalg.triangular")  # Note [Operators that are declared on first use]
from ....ops.builtin.linalg.triangular import triu  # noqa: E402

__all__ = ["qr"]


def qr(site: Site, spec: Any, x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """Implement ``tk::lapack_qr``: the library sees A, and stores the columns of Q."""
    of_q, of_r = spec
    if not x.size:
        return identity(site, of_q.shape, of_q.dtype), filled(site, of_r.shape, of_r.dtype)
    a = stacked(fresh(site, x, compute_dtype(site.operator, x.dtype), transposed=True))
    count, n, m = a.shape
    reflections = min(m, n)
    tau = site.empty((count, reflections, 1), a.dtype)
    info = status(site, 1)  # wrong arguments only
    step = reflections * tau.itemsize
    if count > 1:
        places, factors = pointers(site, a), pointers(site, tau)
        cublas.geqrf_batched(site, site.address(places), site.matrices(a)[0], site.address(factors), count)
    else:
        cusolver.geqrf(site, site.matrices(a)[0], site.address(tau), site.address(info))
    columns = of_q.shape[-1]
    r = triu(turned(a)[..., : of_r.shape[-2], :])
    q = a
    if columns != n:
        q = site.empty((count, columns, m), a.dtype)
        kept = min(n, columns)
        move(site, q[:, :kept], a[:, :kept])
    for i, matrix in enumerate(site.matrices(q)):
        cusolver.orgqr(site, matrix, reflections, site.address(tau) + i * step, site.address(info))
    return as_dtype(reshape(turned(q), of_q.shape), of_q.dtype), as_dtype(reshape(r, of_r.shape), of_r.dtype)
