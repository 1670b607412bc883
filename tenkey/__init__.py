"""tenkey: an extensible tensor framework. ``import tenkey as tk``.

This module is the composition root: it imports the layers and lets each subscribe to the operators. Public are the
names without an underscore that are imported or assigned here, and every operator with a docstring
(``tenkey/_names.py``). Type checkers read the stub beside this file, which ``python -m tools.make_stubs`` writes.

Note [A failed import]
~~~~~~~~~~~~~~~~~~~~~~
When an import fails, by an interrupt for example, Python removes the module that failed and keeps those below it that
were complete. They hold registrations that a second import would repeat, which is an error. So the package begins by
removing what it finds of itself, and everything is made anew. A place that an interrupt cannot skip is the beginning of
the next import and not the end of the failed one. Guarded by ``tests/package/test_failed_import.py``.
"""

import math as _math
import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

if "Tensor" not in globals():  # otherwise it is a reload
    if (_left := f"{__name__}._util.gc_pause") in _sys.modules:
        _sys.modules[_left].resume()
    for _left in [name for name in [*_sys.modules] if name.startswith(f"{__name__}.")]:  # Note [A failed import]
        _sys.modules.pop(_left, None)

from ._util import gc_pause as _gc_pause  # isort: skip  # first: Note [No collections during the import]
from . import _names, autograd, backends, core, dispatch, functions, library, ops, random, transforms
from ._util.locks import new_lock as _new_lock
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .backends import cpu as _cpu
from .backends import meta as _meta
from .backends.cpu import get_num_threads, set_num_threads
from .core.device import Device as device  # noqa: N813  # PyTorch's name for it
from .core.dtypes.limits import finfo, iinfo
from .core.dtypes.names import (
    bool,
    complex64,
    complex128,
    default_dtypes,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.tensor import Tensor, shares_storage
from .core.text.formatting import get_printoptions, printoptions, set_printoptions
from .core.wrapper import install_levels as _install_levels
from .dispatch import registry as _registry
from .dispatch.modes import install_modes as _install_modes
from .dispatch.subclasses import install_subclasses as _install_subclasses
from .functions.creation import asarray, from_dlpack, tensor
from .functions.dtypes import broadcast_arrays, broadcast_shapes, can_cast, result_type
from .functions.filling import full, full_like
from .functions.indexing import nonzero, unravel_index
from .functions.inspection import ARRAY_API_VERSION as _ARRAY_API_VERSION
from .functions.inspection import array_namespace_info as __array_namespace_info__
from .functions.linspace import linspace
from .functions.piecewise import apply_along_axis, apply_over_axes, piecewise
from .functions.splitting import array_split, atleast_1d, atleast_2d, atleast_3d, block, gradient, meshgrid, split
from .ops.autocast import autocast, is_autocast_enabled
from .ops.autocast import install_autocast as _install_autocast
from .ops.composite_kernels import install_composite_kernels as _install_composite_kernels
from .ops.version_bump import install_version_bumps as _install_version_bumps
from .serialization import load, save

__version__ = "0.1.0"
__array_api_version__ = _ARRAY_API_VERSION

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi

with _registry.deferred_installers():  # Note [Installers that wait]
    _install_modes(_registry)
    _install_subclasses(_registry)
    _install_autocast(_registry)
    _install_levels(_registry)
    _install_composite_kernels(_registry)
    _install_version_bumps(_registry)
    _cpu.install(_registry)
    _meta.install(_registry)
    autograd.install(_registry)
    transforms.install(_registry)


_LATER = ("cuda", "numpy", "testing", *_names.MODULES)
_DELAYED = {  # functions whose modules are loaded at first use
    **dict.fromkeys(("grad", "jvp", "value_and_grad", "vjp", "vmap"), transforms),
    **dict.fromkeys(functions.NAMES, functions),
    **dict.fromkeys(("rand", "randint", "randn"), random),
}


def _load_checks() -> _Any:
    from .testing.checks import run_checks

    return run_checks


_registry.hooks.load_checks = _load_checks


def _start_emulator() -> None:
    from .testing.cuda_driver import emulator_from_environment

    emulator_from_environment()


if _os.environ.get("TENKEY_CUDA_EMULATOR", "0") not in ("", "0"):
    from .backends.cuda.device.driver import starters as _starters

    _starters.append(_start_emulator)


def __getattr__(name: str) -> _Any:
    """Find operators, ``tk.bfloat16``, some functions and modules and ``__all__`` when they are first read."""
    if name in _LATER:
        with _new_lock():  # as in Note [Delayed modules]
            return _import_module(f".{name}", __name__)  # sets the attribute
    if name in _DELAYED:
        found = globals()[name] = getattr(_DELAYED[name], name)
        return found
    if name == "bfloat16":
        return core.dtypes.names.bfloat16  # or an AttributeError that says what to install
    if name == "__all__":
        found = globals()[name] = _names.list_public(_imported)
        return found
    return _names.find_public("", name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_names.expose(""), *_LATER, *_DELAYED})


from .interop import einops as _einops  # noqa: E402  # Note [einops finds its backends among subclasses]
from .interop import pytorch_methods as _pytorch_methods  # noqa: E402  # PyTorch's methods of Tensor
from .interop import ufuncs as _ufuncs  # noqa: E402  # Note [Ufuncs on tensors]

_imported = {**globals(), **dict.fromkeys((*_LATER, *_DELAYED))}

_gc_pause.resume()  # Note [No collections during the import]
