"""Kernels of users: a function in numba.cuda's language, or CUDA C++, that is called with tensors.

Note [The arguments of a user's kernel]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The convention is that of ``load_native`` for functions of elements. A kernel gets the arguments of the call in their
order: for a tensor a pointer to its elements in row-major order, ``int`` as int64, ``bool`` as uint8, and ``float`` in
the dtype of the first result (of the first tensor, if there is none), so that ``a * x[i]`` stays in float32. Pointers
to the results follow, then sizes as int64. Without ``launch`` the tensors are broadcast to one shape, and the only size
is the number of elements ``n``, each of which has a thread. ``launch(*arguments)`` returns grid, block and sizes for
anything else; tensors are then passed with the shapes that they have. bool elements are uint8, and those of float16 and
bfloat16 the bits of a uint16; complex ones are pairs of floats. In CUDA C++ the declaration states the types: numbers
are converted to them, and a tensor of another dtype is refused, because memory is never reinterpreted. Guarded by
``tests/backends/cuda/test_user_kernels.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ...core.device import Device
from ...core.dtypes.promotion import result_dtype
from ...core.tensor import Tensor
from ...core.word import WEAK_MASK
from ...ops.builtin.shape.copying import clone, to_device
from ...ops.builtin.shape.views import broadcast_to
from ...ops.shapes import broadcast_shapes
from .compiling import CudaSource, KernelSource, Source
from .compiling.c_signatures import parameters_of
from .compiling.function_text import origins_of, text_of
from .compiling.numba_compiler import PythonCompileError
from .device import failures
from .kernels.emission import TYPES
from .kernels.launches import Launcher, address

__all__ = ["UserKernel", "kernel"]

_GLOBAL: Final = re.compile(r"__global__[^;{(]*?(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_DEF: Final = re.compile(r"^def\s+(\w+)", re.MULTILINE)


class UserKernel:
    """A kernel that is called with tensors; :func:`kernel` makes it.

    >>> tk.cuda.kernel('extern "C" __global__ void twice(const float *x, float *out, long long n) {}')
    <CUDA kernel twice>
    """

    def __init__(
        self,
        given: Callable[..., Any] | str,
        name: str | None,
        launch: Callable[..., Any] | None,
        threads: int,
        shared: int,
        results: int,
        meta: Callable[..., Any] | None,
    ) -> None:
        text = given if isinstance(given, str) else text_of(given)
        if not isinstance(given, str):
            failures.origins[text] = origins_of(given)
        self._is_cuda = "__global__" in text
        self.function = None if isinstance(given, str) else given
        self.text = text
        self.name = name or self._found_name(text)
        self.__name__ = self.__qualname__ = self.name
        self.__doc__ = getattr(getattr(given, "py_func", given), "__doc__", None) if callable(given) else None
        self._launch = launch
        self._threads = threads
        self._shared = shared
        self._results = results
        self._meta = meta
        self._launchers: dict[tuple[str, ...], Launcher] = {}
        self._declared = parameters_of(text, self.name) if self._is_cuda else None

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.name}>"

    def _found_name(self, text: str) -> str:
        found = (_GLOBAL if self._is_cuda else _DEF).findall(text)
        if not found:
            raise ValueError(
                f"[kernel] the source has neither a function in Python nor a __global__ function: {text[:60]!r}. Give "
                "the source of a kernel."
            )
        return str(found[0] if self._is_cuda else found[-1])  # helper functions of Python come before the kernel

    def source(self, parameters: tuple[str, ...]) -> Source:
        """Return the source for parameters such as ``("float32*", "float32", "int64")``."""
        kind = CudaSource if self._is_cuda else KernelSource
        return kind(self.name, self.text, parameters, self._threads, self._shared)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel in the current stream, and return its results: a tensor, a tuple of several, or None."""
        values = [*args, *kwargs.values()]
        device = self._device(values)
        values = [to_device(x, device) if isinstance(x, Tensor) and x.device is not device else x for x in values]
        shape: tuple[int, ...] = ()
        if self._launch is None:
            shape = broadcast_shapes(self.name, *[x.shape for x in values if isinstance(x, Tensor)])
        values = [self._placed(x, shape) if isinstance(x, Tensor) else x for x in values]
        made = [device.backend.empty(*spec, device) for spec in self._specs(values, shape)]
        grid, block, sizes = self._configuration(values, shape)
        if grid != 0:
            self._run(device, grid, block, [*values, *made, *sizes])
        return made[0] if len(made) == 1 else tuple(made) if made else None

    def _device(self, values: Sequence[Any]) -> Device:
        for value in values:
            if isinstance(value, Tensor) and not value._word & WEAK_MASK:
                return value.device
        raise ValueError(f"[{self.name}] got no tensor: a kernel runs on the device of its first one.")

    def _placed(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor whose elements are in row-major order, of the common shape if there is one."""
        if self._launch is None and x.shape != shape:
            x = broadcast_to(x, shape)
        if x._data.is_contiguous:
            return x
        if not self._results:
            raise ValueError(
                f"[{self.name}] a kernel without results changes its arguments, and one of shape {x.shape} is not "
                "contiguous, or is broadcast: pass x.clone(), or give the kernel a result."
            )
        return clone(x)

    def _specs(self, values: Sequence[Any], shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Return shape and dtype of each result."""
        dtype = result_dtype([x.dtype for x in values if isinstance(x, Tensor)])
        if self._meta is None:
            if self._launch is not None and self._results:
                first = next(x for x in values if isinstance(x, Tensor))
                shape = first.shape
            return [(shape, dtype)] * self._results
        given = self._meta(*values)
        listed = given if isinstance(given, list) else [given]
        if len(listed) != self._results:
            raise ValueError(
                f"[{self.name}] meta= returned {given!r} for {self._results} results: give a shape or (shape, dtype) "
                "for one, a list of these for several."
            )
        return [_spec(one, dtype) for one in listed]

    def _configuration(self, values: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, Any, tuple[int, ...]]:
        """Return grid, block and sizes; the grid is 0 where nothing is to be launched."""
        if self._launch is None:
            count = prod(shape)
            return -(-count // self._threads), self._threads, (count,)
        configuration = self._launch(*values)
        if not isinstance(configuration, tuple) or len(configuration) < 2:
            raise TypeError(
                f"[{self.name}] launch= returned {configuration!r}: return (grid, block, *sizes), such as "
                "(x.shape[0], 256, x.shape[1])."
            )
        grid, block, *sizes = configuration
        empty = 0 in grid if isinstance(grid, tuple) else grid == 0
        return 0 if empty else grid, block, tuple(sizes)

    def _run(self, device: Device, grid: Any, block: Any, values: Sequence[Any]) -> None:
        tensors = [x for x in values if isinstance(x, Tensor)]
        number = tensors[-1 if self._results == 1 else len(tensors) - self._results if self._results else 0].dtype
        kinds: list[str] = []
        arguments: list[Any] = []
        for value in values:
            if value is None:  # an absent Tensor?
                kinds.append("uint8*")
                arguments.append(0)
            elif isinstance(value, Tensor):
                kinds.append(f"{TYPES[str(value.dtype)]}*")
                arguments.append(address(value._data))
            else:
                kind, numbers = self._number(value, number)
                kinds += [kind] * len(numbers)
                arguments += numbers
        if self._declared is not None:
            self._fit(kinds, arguments, tensors)
        key = tuple(kinds)
        launcher = self._launchers.get(key)
        if launcher is None:
            launcher = self._launchers.setdefault(key, Launcher(self.source(key)))
        try:
            launcher(device.index, grid, block, *arguments)
        except PythonCompileError as error:
            head, _, rest = str(error).partition("\n")
            text = f"{failures.with_sources(head, {self.name: self.text})}\n{rest}".rstrip()
            raise error.__class__(text) from error.__cause__

    def _fit(self, kinds: list[str], arguments: list[Any], tensors: list[Tensor]) -> None:
        """Give numbers the types that the kernel in CUDA C++ declares, and refuse tensors of other dtypes."""
        declared = self._declared
        assert declared is not None
        if len(declared) != len(kinds):
            raise TypeError(
                f"[{self.name}] the kernel declares {len(declared)} parameters, and this call passes {len(kinds)} "
                f"({', '.join(kinds)}): declare the arguments, then the results, then the sizes."
            )
        places = iter(tensors)
        for at, (kind, wanted) in enumerate(zip(kinds, declared, strict=True)):
            tensor = next(places) if kind.endswith("*") and arguments[at] else None
            if wanted is None or wanted == kind:
                continue
            if kind.endswith("*") != wanted.endswith("*") or tensor is not None:
                given = f"a tensor of {tensor.dtype}" if tensor is not None else f"the number {arguments[at]!r}"
                raise TypeError(
                    f"[{self.name}] parameter {at + 1} of the kernel is declared as {wanted}, and this call passes "
                    f"{given}: convert it, or write a kernel for its dtype."
                )
            kinds[at] = wanted
            arguments[at] = float(arguments[at]) if wanted.startswith("float") else arguments[at]

    def _number(self, value: Any, dtype: np.dtype) -> tuple[str, list[Any]]:
        """Return the type and the arguments of a number."""
        if isinstance(value, (bool, np.bool_)):
            return "uint8", [int(value)]
        if isinstance(value, (int, np.integer)):
            return "int64", [int(value)]
        half = dtype.itemsize == 2 and dtype.kind not in "iu"
        float_kind = "float32" if half or str(dtype) in ("float32", "complex64") else "float64"
        if isinstance(value, (float, np.floating)):
            return float_kind, [float(value)]
        if isinstance(value, complex):
            return float_kind, [value.real, value.imag]
        raise TypeError(
            f"[{self.name}] got {value!r} of type {type(value).__name__}: kernels take tensors and numbers."
        )


def _spec(one: Any, dtype: np.dtype) -> tuple[tuple[int, ...], np.dtype]:
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], tuple):
        return tuple(one[0]), np.dtype(one[1])
    return tuple(one), dtype


def kernel(
    given: Any = None,
    *,
    name: str | None = None,
    launch: Callable[..., Any] | None = None,
    threads: int = 256,
    shared: int = 0,
    results: int = 1,
    meta: Callable[..., Any] | None = None,
) -> Any:
    """Make a kernel that is called with tensors, for ``tk.library.register_kernel(op, "cuda", kernel)`` or by itself.

    Args: given: a function in numba.cuda's language, or the source of a kernel in CUDA C++ or Python; without it, a
    decorator is returned; name: of the kernel in a source with several; launch: ``launch(*arguments)`` returns
    ``(grid, block, *sizes)``, by default a thread for each element of the broadcast shape, and the size ``n``; threads:
    of the largest block; shared: bytes of dynamic shared memory; results: the number of tensors that are allocated for
    the kernel to fill, 0 for one that changes its arguments; meta: ``meta(*arguments)`` returns the shape of the
    result, or ``(shape, dtype)``, or a list of one for each of several, in place of the common shape and dtype.

    Parameters are the arguments in their order, the results, and the sizes as int64: Note [The arguments of a user's
    kernel]. The kernel is compiled for each combination of dtypes when it is first called with it, and kept on disk.
    Raises ValueError if the source of a function cannot be read.

    >>> @kernel
    ... def saxpy(x, y, a, out, n):
    ...     i = cuda.grid(1)
    ...     if i < n:
    ...         out[i] = a * x[i] + y[i]
    >>> saxpy
    <CUDA kernel saxpy>
    >>> kernel('extern "C" __global__ void scale(float *x, float a, long long n) {}', results=0).name
    'scale'
    """

    def make(value: Any) -> UserKernel:
        return UserKernel(value, name, launch, threads, shared, results, meta)

    return make if given is None else make(given)
