"""cuSOLVER: factorizations of single matrices, and of stacks where it has a batched routine.

Every function takes the site of the call and matrices in LAPACK's layout, queues its work on the site's stream and
returns at once. ``info`` is the address of one int32 for each matrix: 0, or what LAPACK reports. The arguments follow
the cuSOLVER API Reference, https://docs.nvidia.com/cuda/cusolver/, sections "Dense Eigenvalue Solver Reference" and
"cuSolverDN: dense LAPACK Function Reference" (legacy and 64-bit).
"""

from __future__ import annotations

from typing import Any, Final

from .entry_points import DATA_TYPES, LETTERS, cusolver
from .site import Handle, Matrix, Site

__all__ = [
    "LOWER", "UPPER", "geev", "geqrf", "gesvd", "gesvdj_batched", "getrf", "getrs", "laswp", "orgqr", "potrf",
    "potrf_batched", "syev_batched", "syevd",
]  # fmt: skip

LOWER: Final = 0  # cublasFillMode_t
UPPER: Final = 1
_REAL: Final = {"float32": 0, "float64": 1, "complex64": 0, "complex128": 1}
_TRANSPOSED: Final = 1  # cublasOperation_t


def _create(site: Site) -> Handle:
    handle = cusolver(site.operator, "create")
    cusolver(site.operator, "set_stream", handle, site.stream)
    return Handle(handle, cusolver(site.operator, "create_params"))


def _handle(site: Site) -> Handle:
    return site.handles.get(cusolver, site, _create, by_stream=True)


def _run(site: Site, function: str, given: tuple[Any, ...], query: tuple[Any, ...] | None = None, *tail: Any) -> None:
    """Call a function of the 64-bit interface: handle, params, arguments, two workspaces, and what follows these."""
    handle = _handle(site)
    with handle.lock:
        fixed = (handle.value, handle.extra)
        asked = given if query is None else query
        on_device, on_host = cusolver(site.operator, f"{function}_buffer_size", *fixed, *asked)
        memory, address = site.scratch(on_device)
        cusolver(
            site.operator, function, *fixed, *given, address, on_device, handle.host(on_host), on_host, *tail
        )  # fmt: skip
        del memory


def getrf(site: Site, a: Matrix, pivots: int, info: int) -> None:
    """Overwrite a matrix with its LU factors; ``pivots`` gets the exchanged rows, int64, counted from 1."""
    kind = DATA_TYPES[a.dtype.name]
    head = (a.rows, a.columns, kind, a.address, a.leading)
    _run(site, "xgetrf", (*head, pivots, kind), (*head, kind), info)


def getrs(site: Site, a: Matrix, pivots: int, b: Matrix, transposed: bool, info: int) -> None:
    """Overwrite ``b`` with the solution for the matrix that :func:`getrf` has factorized, or for its transpose."""
    handle = _handle(site)
    kind = DATA_TYPES[a.dtype.name]
    with handle.lock:
        cusolver(
            site.operator, "xgetrs", handle.value, handle.extra, _TRANSPOSED if transposed else 0, a.rows, b.columns,
            kind, a.address, a.leading, pivots, kind, b.address, b.leading, info,
        )  # fmt: skip


def laswp(site: Site, a: Matrix, pivots: int, count: int) -> None:
    """Exchange the rows of a matrix as ``count`` pivots say, int32, counted from 1."""
    handle = _handle(site)
    with handle.lock:
        function = f"{LETTERS[a.dtype.name]}laswp"
        cusolver(site.operator, function, handle.value, a.columns, a.address, a.leading, 1, count, pivots, 1)


def potrf(site: Site, a: Matrix, part: int, info: int) -> None:
    """Overwrite one triangle of a Hermitian matrix with its Cholesky factor; the other one is not read."""
    kind = DATA_TYPES[a.dtype.name]
    _run(site, "xpotrf", (part, a.rows, kind, a.address, a.leading, kind), None, info)


def potrf_batched(site: Site, pointers: int, first: Matrix, part: int, info: int, batch: int) -> None:
    """Factorize as :func:`potrf` does for matrices like ``first``, whose addresses are in device memory.

    The other triangle is used as a workspace.
    """
    handle = _handle(site)
    with handle.lock:
        cusolver(
            site.operator, f"{LETTERS[first.dtype.name]}potrf_batched", handle.value, part, first.rows, pointers,
            first.leading, info, batch,
        )  # fmt: skip


def geqrf(site: Site, a: Matrix, tau: int, info: int) -> None:
    """Overwrite a matrix with R and the vectors of Householder reflections, whose factors go to ``tau``."""
    kind = DATA_TYPES[a.dtype.name]
    _run(site, "xgeqrf", (a.rows, a.columns, kind, a.address, a.leading, kind, tau, kind), None, info)


def orgqr(site: Site, a: Matrix, reflections: int, tau: int, info: int) -> None:
    """Overwrite a matrix, whose first columns hold reflections, with the columns of their product."""
    name = f"{LETTERS[a.dtype.name]}{'ung' if a.dtype.kind == 'c' else 'org'}qr"
    handle = _handle(site)
    given = (handle.value, a.rows, a.columns, reflections, a.address, a.leading, tau)
    with handle.lock:
        elements = cusolver(site.operator, f"{name}_buffer_size", *given)
        memory, address = site.scratch(elements * a.dtype.itemsize)
        cusolver(site.operator, name, *given, address, elements, info)
        del memory


def gesvd(site: Site, a: Matrix, s: int, u: Matrix | None, vh: Matrix | None, info: int) -> None:
    """Compute singular values, and vectors into ``u`` and ``vh`` unless these are None; ``a`` is destroyed.

    ``a`` has at least as many rows as columns. A square ``u`` gets all vectors, else the first ones.
    """
    kind, real = DATA_TYPES[a.dtype.name], _REAL[a.dtype.name]
    jobs = [ord("N"), ord("N")]
    places: list[Any] = []
    for which, x in enumerate((u, vh)):
        if x is None:
            places += [kind, 0, a.columns if which else a.rows]
        else:
            jobs[which] = ord("A" if x.rows == x.columns else "S")
            places += [kind, x.address, x.leading]
    _run(site, "xgesvd", (*jobs, a.rows, a.columns, kind, a.address, a.leading, real, s, *places, kind), None, info)


def gesvdj_batched(site: Site, a: Matrix, s: int, u: Matrix | None, v: Matrix | None, info: int, batch: int) -> None:
    """Compute singular values, descending, and all vectors of a contiguous stack of matrices like ``a``.

    Neither dimension is above 32. ``u`` and ``v`` are the first of square matrices that follow one another. ``a`` is
    destroyed.
    """
    handle = _handle(site)
    name = f"{LETTERS[a.dtype.name]}gesvdj_batched"
    places = [0, a.rows, 0, a.columns] if u is None or v is None else [u.address, u.leading, v.address, v.leading]
    given = (handle.value, 0 if u is None else 1, a.rows, a.columns, a.address, a.leading, s, *places)
    with handle.lock:
        params = cusolver(site.operator, "create_gesvdj_info")  # the defaults: sorted, to machine precision
        try:
            elements = cusolver(site.operator, f"{name}_buffer_size", *given, params, batch)
            memory, address = site.scratch(elements * a.dtype.itemsize)
            cusolver(site.operator, name, *given, address, elements, info, params, batch)
            del memory
        finally:
            cusolver(site.operator, "destroy_gesvdj_info", params)


def syevd(site: Site, a: Matrix, w: int, vectors: bool, part: int, info: int) -> None:
    """Compute ascending eigenvalues of a Hermitian matrix, of which one triangle is read; ``a`` gets the vectors."""
    kind, real = DATA_TYPES[a.dtype.name], _REAL[a.dtype.name]
    _run(site, "xsyevd", (int(vectors), part, a.rows, kind, a.address, a.leading, real, w, kind), None, info)


def syev_batched(site: Site, a: Matrix, w: int, vectors: bool, part: int, info: int, batch: int) -> None:
    """Compute as :func:`syevd` does for a contiguous stack of matrices like ``a``."""
    kind, real = DATA_TYPES[a.dtype.name], _REAL[a.dtype.name]
    given = (int(vectors), part, a.rows, kind, a.address, a.leading, real, w, kind)
    _run(site, "xsyev_batched", given, (*given, batch), info, batch)


def geev(site: Site, a: Matrix, w: int, vectors: Matrix | None, info: int) -> None:
    """Compute the eigenvalues of a matrix, and its right eigenvectors unless ``vectors`` is None; ``a`` is destroyed.

    All numbers have one dtype, as in LAPACK. For a real matrix ``w`` gets the real parts, then the imaginary parts, and
    the vectors of a conjugate pair are real and imaginary part in two columns.
    """
    kind = DATA_TYPES[a.dtype.name]
    none = (kind, 0, a.rows)
    place = none if vectors is None else (kind, vectors.address, vectors.leading)
    wanted = 0 if vectors is None else 1
    given = (0, wanted, a.rows, kind, a.address, a.leading, kind, w, *none, *place, kind)
    _run(site, "xgeev", given, None, info)
