"""Registers the operators of this folder for a backend, in its ``setup``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ....core.device import Device
from ....core.tree import tensors_in
from ....dispatch.local_state import silently
from ....dispatch.registry import registry
from ....ops.declare import TensorSpec
from ...external.fallback import check_devices
from ...external.templates import Copier
from . import fft_kernels, linear_systems, matrix_functions, orthogonal, spectral
from .large_products import large_product
from .matrix_tools import filled
from .site import Handles, Place, Site

__all__ = ["OPERATORS", "Libraries"]

OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "tk::linalg_inv": linear_systems.inv,
    "tk::linalg_solve": linear_systems.solve,
    "tk::linalg_det": linear_systems.det,
    "tk::lapack_slogdet": linear_systems.slogdet,
    "tk::lu_factors": linear_systems.lu_factors,
    "tk::linalg_cholesky": linear_systems.cholesky,
    "tk::lapack_svd": spectral.svd,
    "tk::linalg_svdvals": spectral.svdvals,
    "tk::lapack_eigh": spectral.eigh,
    "tk::linalg_eigvalsh": spectral.eigvalsh,
    "tk::lapack_eig": spectral.eig,
    "tk::linalg_eigvals": spectral.eigvals,
    "tk::lapack_qr": orthogonal.qr,
    "tk::linalg_pinv": matrix_functions.pinv,
    "tk::lapack_lstsq": matrix_functions.lstsq,
    "tk::linalg_matrix_rank": matrix_functions.matrix_rank,
    "tk::linalg_adjugate": matrix_functions.adjugate,
    "tk::linalg_matrix_exp": matrix_functions.matrix_exp,
    **{f"tk::fft_{name}": partial(fft_kernels.transform, name) for name in ("fft", "ifft", "rfft", "irfft")},
}
"""Functions ``kernel(site, spec, *args)`` by operator; ``spec`` is what the operator's rule says of the results."""

_ZEROS: Final = frozenset([
    linear_systems.inv, linear_systems.cholesky, matrix_functions.pinv, matrix_functions.matrix_rank,
    matrix_functions.adjugate, matrix_functions.matrix_exp, spectral.svdvals, spectral.eigh, spectral.eigvalsh,
    spectral.eig, spectral.eigvals,
])  # fmt: skip
"""Functions of one tensor that are not called without elements: then the results, as far as there are any, are 0."""
_SHOWN: Final = {"lu_factors": "linalg.lu"}


class Libraries:
    """CUDA's libraries for one backend; ``place`` says how addresses, streams and contexts are found."""

    def __init__(self, backend: Any, place: Place) -> None:
        self._backend = backend
        self._place = place
        self._handles = Handles()
        self._copier = Copier(backend)

    def site(self, operator: str, device: Device) -> Site:
        """Return the place of a call on the current stream of a device."""
        stream = self._place.stream(device.index)
        return Site(operator, self._backend, self._place, device, stream, self._handles, self._copier)

    def setup(self, register: Callable[..., Any]) -> None:
        """Register a kernel for each operator by ``register(name, kernel)``."""
        for name, function in OPERATORS.items():
            register(name, self.kernel(name, function))

    def kernel(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the kernel of an operator: it checks the arguments as on the CPU and calls the function."""
        base = name.partition("::")[2]
        shown = _SHOWN.get(base) or base.replace("linalg_", "linalg.").replace("lapack_", "linalg.")
        shown = shown.replace("fft_", "fft.")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            operator = registry.find(name)
            check_devices(operator, args, kwargs)
            spec = operator.facets["Meta"].rule(*args, **kwargs)
            x = next(x for x in tensors_in((args, kwargs)) if x.device.backend is self._backend)
            site = self.site(shown, x.device)
            with self._place.entered(x.device.index):
                if function in _ZEROS and not x.size:
                    made = [filled(site, *one) for one in ([spec] if isinstance(spec, TensorSpec) else spec)]
                    return made[0] if len(made) == 1 else tuple(made)
                return silently(function, site, spec, *args, **kwargs)

        parameters = [*inspect.signature(function).parameters.values()][2:]
        kernel.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        kernel.__name__ = f"{base}_by_library"
        return kernel

    def product(self, dtype: np.dtype, own: Callable[..., None]) -> Callable[..., None]:
        """Return a kernel of the template ``matmul`` that leaves large products to cuBLASLt, others to ``own``."""
        large = large_product(lambda device: self.site("matmul", device), dtype)
        if large is None:
            return own

        def kernel(out: Any, a: Any, b: Any) -> None:
            if not large(out, a, b):
                own(out, a, b)

        return kernel
