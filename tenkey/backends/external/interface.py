"""The interface of a backend: four required methods; everything else has a default.

Note [What a new backend gets]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend that implements only ``allocate``, ``free``, ``copy_from_host`` and ``copy_to_host`` works with every
operator: composites run unchanged, views are windows on its buffers, copies use its two copy methods, and an operator
without a kernel runs on the CPU. Such a call copies the arguments to the host and the result back, and is counted
(``tk.backends.coverage(name)``). A *template* replaces the fallback for whole families: ``pointwise`` for every
operator that is one scalar expression, its derivatives and in-place variants, and all copies on the device;
``reduction`` for every reduction; ``arg_reduction``, ``scan``, ``gather``, ``scatter``, ``sort`` and ``matmul`` for the
operators that are made of them. A kernel that is registered for the device takes precedence over all of these.
Guarded by ``tests/backends/test_external_backend.py`` and ``tests/backends/test_backend_templates.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...core.device import Device, to_device
from ...core.exchange.device_exchange import MemoryExchange
from ...core.storage import StridedArray
from ...core.tensor import Tensor, make_tensor, word_for
from ..allocation.cached_buffers import Pool
from ..allocation.counts import MemoryStatistics, counts_of
from .buffers import Owner
from .runtime.device_errors import error_words
from .runtime.streams import Event, Stream, settle, submit
from .scalar_function import Operand, RowFunction, ScalarFunction

__all__ = ["MINIMAL", "Backend", "extent", "memory_of", "read", "write", "write_bytes"]


MINIMAL = ("allocate", "free", "copy_from_host", "copy_to_host")


class Backend:
    """The base class of backends: device memory and copies. ``name`` becomes the device string.

    A *buffer* is any object that ``allocate`` returns; tenkey only passes it on. Host arrays are 1-d ``uint8`` arrays.
    ``docs/adding_a_backend.md`` leads from an empty file to a backend that passes the conformance suite.

    >>> class InHostMemory(tk.backends.Backend):
    ...     name = "docsmem"
    ...
    ...     def allocate(self, nbytes, device=0):
    ...         return bytearray(nbytes)
    ...
    ...     def free(self, buffer):
    ...         buffer.clear()
    ...
    ...     def copy_from_host(self, buffer, array):
    ...         buffer[: array.size] = array.tobytes()
    ...
    ...     def copy_to_host(self, buffer, array):
    ...         array[:] = memoryview(buffer)[: array.size]
    >>> with tk.backends.register(InHostMemory()):
    ...     x = tk.ones(3, device="docsmem")
    ...     (x + x).tolist(), tk.backends.coverage("docsmem").fallback["tk::add"]
    ([2.0, 2.0, 2.0], 1)
    """

    name: str = ""
    asynchronous: bool = False
    """Whether work may be unfinished when a call returns, so that errors of kernels are found later."""
    caching: bool = False
    """Whether buffers that tensors gave back are kept for later tensors (``empty_cache``)."""
    batching: int = 0
    """The number of kernels of templates after which ``flush`` is called; 0 if they are not queued."""
    exchange: MemoryExchange | None = None
    """How memory on the device is shared with other libraries (DLPack); without it, arrays are copied to the host."""
    deterministic: bool = True
    """Whether floats that are scattered to one place are combined in order: the same bits in each run, at a price."""

    # ---- the device

    def is_available(self) -> bool:
        """Tell whether the device can be used on this machine. Called at the first use of the device."""
        return True

    def why_unavailable(self) -> str | None:
        """Return what is missing and how to get it, the text of the error if the device is not available, or None."""
        return None

    def device_count(self) -> int:
        """Return the number of devices."""
        return 1

    def current_device(self) -> int:
        """Return the index of the device that is used by default."""
        return 0

    def synchronize(self, device: int = 0) -> None:
        """Wait until all work on the device is done. Called before every ``copy_to_host``."""

    def flush(self, device: int = 0) -> None:
        """Submit the commands that were queued for the device: from now on they run without another call.

        A backend that sends commands in batches declares ``batching``. Its kernels may then queue commands, which run
        in the order of the calls. ``flush`` is called after every ``batching`` kernels of templates, and before
        ``synchronize``, ``copy_from_host`` and ``copy_to_host``. A buffer may be freed before the commands that use it
        are submitted, unless the backend is ``caching``. A stream or an event of your own calls it where it needs it.
        """

    # ---- the four methods that every backend implements

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        """Return a new buffer of at least ``nbytes`` bytes; ``nbytes`` is at least 1."""
        raise NotImplementedError

    def free(self, buffer: Any) -> None:
        """Free a buffer that no tensor uses any more. Queued work may still use it."""
        raise NotImplementedError

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        """Copy all of ``array`` to the beginning of the buffer, which may be longer. The array is reused afterwards."""
        raise NotImplementedError

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        """Fill ``array`` from the beginning of the buffer, which may be longer."""
        raise NotImplementedError

    # ---- optional: templates

    def pointwise(
        self, scalar: ScalarFunction, operands: tuple[Operand, ...], result: np.dtype
    ) -> Callable[..., None] | None:
        """Return a kernel ``kernel(out, *operands)`` for a scalar function, or None to fall back to the CPU.

        Called once for each function and combination of dtypes; the kernel is called many times. ``out`` and the
        operands are windows (:class:`StridedArray`) of one shape, with at least one dimension and one element; an
        operand that is broadcast has strides of 0 bytes. An operand with ``is_number`` is a NumPy scalar of its dtype
        instead. ``out`` has the dtype ``result`` and shares no memory with an operand unless both are the same window.
        If the function uses index variables (``scalar.indices``), the dimensions of ``out`` are those of the result.
        ``scalar.to_c(...)`` returns the function as source. Raising NotImplementedError is the same as returning None.

        A kernel may have an attribute ``prepare``, a function ``prepare(out, *operands)`` that returns, for windows and
        numbers such as ``kernel`` gets, although their dimensions are not merged, None or a function of the windows
        among the operands. This function is called in place of the kernel for windows with the same dtypes, shapes,
        strides, devices, and offsets to 16 bytes: it allocates a result like ``out``, computes it and returns its
        window; None leaves the call to ``kernel``. So what depends on the layouts is done once. ``prepare_into`` does
        the same for in-place variants: its function takes the window of the result before the others, and returns True.
        """
        return None

    def reduction(
        self, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, identity: Any
    ) -> Callable[[StridedArray, StridedArray], None] | None:
        """Return a kernel ``kernel(out, x)`` for a reduction, or None to fall back to the CPU.

        ``x`` has the two dimensions (kept, reduced), neither of them 0; ``out`` is contiguous, shape (kept,), with the
        dtype ``combine.dtype``. ``scalar`` maps every element of ``x``, which has the dtype ``operand`` (often it is
        the identity, that is a conversion), and ``combine``, which is associative and commutative, joins those of a
        row. ``identity`` is its neutral element, or None.

        A kernel may have an attribute ``prepare``, as those of :meth:`pointwise` may: ``prepare(out, x)`` gets ``out``
        with the shape of the result, and its function a window with the buffer and the offset of ``x``, whose shape
        and strides may be others.
        """
        return None

    def arg_reduction(self, better: ScalarFunction, operand: np.dtype) -> Callable[..., None] | None:
        """Return a kernel ``kernel(out, x)`` for the places of the best elements, or None to fall back to the CPU.

        ``x`` has the two dimensions (kept, reduced), neither of them 0, and the dtype ``operand``; ``out`` is
        contiguous int64, shape (kept,). The kernel stores the first place in each row whose element is ``best``:
        beginning with the first element, an element replaces the one found so far if ``better(element, found)``, a
        condition in ``operand``, holds. Its parameters are ``a`` and ``b``. Bools arrive as uint8.
        """
        return None

    def scan(self, combine: tuple[ScalarFunction, ...], dtype: np.dtype) -> Callable[..., None] | None:
        """Return a kernel ``kernel(outs, xs, reverse)`` for an inclusive scan along rows, or None to fall back.

        ``xs`` and ``outs`` are tuples of windows of one shape (rows, columns), neither of them 0, with the dtype
        ``dtype``: the parts of the elements that are combined. With one part ``combine`` is one function of ``a`` and
        ``b``; with several there is a function for each, of all parts of the earlier element (``a0``, ``a1``, ...) and
        all parts of the later one (``b0``, ``b1``, ...). It is associative, and not always commutative. ``reverse``: a
        scan from the last element to the first, in which the element nearer to the end is the earlier one.
        """
        return None

    def gather(self, dtype: np.dtype) -> Callable[..., None] | None:
        """Return a kernel ``kernel(out, x, index, error, code)``, or None to fall back to the CPU.

        ``out[i, j, k] = x[i, index[i, j, k], k]``. ``dtype`` is an unsigned integer of the size of the elements, or
        complex128. ``x`` has the shape (outer, n, inner), ``out`` and ``index`` (outer, count, inner), none of these 0
        except n. ``index`` is int64; it and ``x`` have strides of 0 where they are broadcast, and ``out`` is
        contiguous. Where an index is not in ``0 <= index < n`` the kernel stores ``code``, an int, in the int64 window
        ``error`` of shape (1,), and 0 in ``out``; nothing is read.
        """
        return None

    def scatter(self, mode: str, dtype: np.dtype, deterministic: bool) -> Callable[..., None] | None:
        """Return a kernel ``kernel(out, index, source, error, code)``, or None to fall back to the CPU.

        ``out[i, index[i, j, k], k]`` is combined with ``source[i, j, k]`` in the way that ``mode`` names: ``"set"``,
        ``"add"``, ``"multiply"``, ``"minimum"`` or ``"maximum"`` (NaN wins). Sources for one place are combined in the
        order of ``j``; of several with mode ``"set"`` the last remains. Unless ``deterministic``, any order will do, as
        that of atomic operations. With mode ``"set"``, and for bools, ``dtype`` is as in ``gather``. ``out`` has the
        shape (outer, n, inner), ``index``, int64, and ``source`` (outer, count, inner); both have strides of 0 where
        they are broadcast. An index that is out of range is reported as in ``gather``, and nothing is written for it.
        """
        return None

    def sort(self, dtype: np.dtype) -> Callable[..., None] | None:
        """Return a kernel ``kernel(values, order, x)`` that sorts rows, or None to fall back to the CPU.

        ``x`` has the shape (rows, columns), neither of them 0. ``values`` and ``order``, int64, are contiguous and of
        this shape: the elements of each row in ascending order, NaN last, and the places where they were. Equal
        elements (and NaNs) keep their order. Bools arrive as uint8; complex numbers have no order.
        """
        return None

    def matmul(
        self, dtype: np.dtype, epilogue: ScalarFunction | None, operands: tuple[Operand, ...], result: np.dtype
    ) -> Callable[..., None] | None:
        """Return a kernel ``kernel(out, a, b, *operands)`` for matrix products, or None to fall back to the CPU.

        ``a`` has the shape (batch, rows, inner), ``b`` (batch, inner, columns), ``out`` (batch, rows, columns), none of
        them 0; strides are those of any layout, so a transposed operand is not copied, and 0 in a broadcast dimension.
        ``dtype`` is that of ``a`` and ``b``. Without ``epilogue``, ``out`` gets the sums and has this dtype too. With
        it, ``out`` gets ``epilogue(sum, *operands)`` in the dtype ``result``; ``operands`` are as in ``pointwise``,
        with the shape of ``out``. A backend that has no use for an epilogue returns None for it: the product and the
        function then run one after the other. Products of bools are sums in int32, and half precision that is declined
        is computed in float32.
        """
        return None

    def copy(self, dtype: np.dtype) -> Callable[[StridedArray, StridedArray], None] | None:
        """Return a kernel ``kernel(out, x)`` that copies elements between two layouts, or None to use ``pointwise``.

        The two are windows of one shape, with at least one dimension and one element, and share no memory; ``x`` may
        have strides of 0 and negative strides. ``dtype`` is an unsigned integer of the size of the elements.
        """
        return None

    def rows(self, function: RowFunction) -> Callable[..., None] | None:
        """Return a kernel ``kernel(outs, xs, numbers)`` for a few sweeps over each row, or None to leave them composed.

        Without it, softmax, layer norm and the like are other operators, each of which reads the elements again.
        ``xs`` and ``outs`` are tuples of windows, as ``function.inputs`` and ``function.results``: those of role "row"
        have the shape (rows, columns), neither of them 0, and adjacent elements in each row; "each" (rows,) and
        "column" (columns,) are contiguous, and so is every result. Only rows of inputs may overlap. ``numbers`` are
        floats, for ``function.numbers``. A kernel that raises NotImplementedError before it writes leaves the call to
        these other operators. It may have a function ``prepare(out, xs, numbers)`` for functions with one result, as
        ``pointwise``; ``out`` has the shape of the result.
        """
        return None

    def setup(self) -> None:
        """Register kernels with ``tk.library.register_kernel``. Called once the device string exists.

        The kernels are removed with the backend.
        """

    # ---- optional: streams, events, statistics

    def stream(self, device: int = 0) -> Stream:
        """Return a queue of the device. By default there is one."""
        return Stream(self, device)

    def current_stream(self, device: int = 0) -> Stream | None:
        """Return the queue that this thread currently uses, or None if there is only one.

        A backward node runs under ``with stream:`` for the stream of its forward call, which makes it current.
        """
        return None

    def record_stream(self, buffer: Any, stream: Stream) -> None:
        """Record that work in another queue than the one a buffer was allocated for uses the buffer.

        The buffer may be reused only when the work that is now in that queue is done. A ``caching`` backend inherits
        this method: it waits for an event in that queue.
        """
        if self.caching:
            pool_of(self).record(buffer, stream)

    def event(self, device: int = 0) -> Event:
        """Return a new event of the device."""
        return Event(self, device)

    def memory_stats(self, device: int = 0) -> MemoryStatistics:
        """Return what tensors hold on the device; a backend with a memory pool may override this."""
        return counts_of(self, device).snapshot()

    def empty_cache(self, device: int | None = None) -> None:
        """Free the memory of a device, or of all, that a ``caching`` backend keeps and no tensor uses.

        This happens by itself when ``allocate`` raises MemoryError, before it is called again.
        """
        if self.caching:
            pool_of(self).empty(device)

    def _make_pool(self, finish: Callable[[int], None]) -> Any:
        """Return what keeps the buffers of a ``caching`` backend: a Pool, or an object with its public methods."""
        return Pool(self, finish)

    # ---- optional: copies that the four methods would do in more steps

    def part(self, buffer: Any, offset: int) -> Any:
        """Return a buffer that begins at an offset of another one, in bytes, or None if that is not possible.

        It is passed to the copy methods at once, while the other one is alive. With it, only the elements of a window
        without gaps are copied; otherwise everything from the beginning of its buffer on.
        """
        return None

    def copy_between(self, target: StridedArray, source: StridedArray) -> bool:
        """Copy the elements of a window without gaps to such a window on another device, and tell whether it was done.

        By default it is not, and the elements are copied through the host.
        """
        return False

    def to_host_later(self, tensor: Tensor) -> np.ndarray | None:
        """Return an array that is filled with the values of a tensor without gaps when the current stream is done.

        This is ``x.to("cpu", non_blocking=True)``. None, the default, stands for a copy that is waited for.
        """
        return None

    def from_host_later(self, array: np.ndarray, device: Device | str | None = None) -> Tensor:
        """Return a tensor that is filled when the current stream is done; the array does not change until then.

        This is ``x.to(device, non_blocking=True)``. By default the copy is waited for.
        """
        return self.from_host(array, device)

    def pinned_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """Return a new array in host memory that the device reads by itself, or None if it has no such memory.

        The base of the array is a ``HostMemory`` with ``pinned = True``. ``x.pin_memory()`` copies into it.
        """
        return None

    # ---- for authors of kernels: built on the methods above

    def error_word(self, device: int = 0) -> StridedArray:
        """Return a window of shape (1,) and dtype int64 in which a kernel stores an error code; it is 0 otherwise.

        tenkey passes it to the kernels of templates. Get it anew for every call of a kernel of your own. It is read
        after the call of a template's kernel and, if the backend is ``asynchronous``, at the next synchronisation only.
        """
        return error_words(self).word(device)

    def error_code(self, operator: str, message: str, error: type[Exception] = IndexError) -> int:
        """Return the positive int that stands for an error: ``error(f"[{operator}] {message}")`` is raised for it.

        >>> class Reporting(tk.backends.Backend):
        ...     name = "docserrors"
        >>> backend = Reporting()
        >>> backend.error_code("take", "an index is out of range.") == backend.error_code("take", "no room.")
        False
        """
        return error_words(self).code(operator, message, error)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device | str | None = None) -> Tensor:
        """Return an uninitialized tensor on the device, for the result of a kernel."""
        target = to_device(device or self.name)
        wanted = np.dtype(dtype)
        nbytes = max(1, prod(shape) * wanted.itemsize)
        free: Callable[[Any], None] = self.free
        if self.caching:
            buffer, free = pool_of(self).take(nbytes, target.index)
        else:
            counts_of(self, target.index).admit(nbytes, lambda: None)  # nothing is kept that could be freed
            buffer = self.allocate(nbytes, target.index)
        if buffer is None:
            raise TypeError(
                f"[{self.name}] allocate({nbytes}, {target.index}) returned None: it returns a buffer, any object "
                "that the copy methods understand, or raises MemoryError."
            )
        owner = Owner(self, buffer, nbytes, target.index, free)
        data = StridedArray(buffer, tuple(shape), wanted, target, owner=owner)
        return make_tensor(data, word_for(target, wanted))

    def from_host(self, array: np.ndarray, device: Device | str | None = None) -> Tensor:
        """Return a tensor on the device with the values of a NumPy array."""
        made = self.empty(array.shape, array.dtype, device)
        write(made._data, array)
        return made

    def to_host(self, tensor: Tensor) -> np.ndarray:
        """Return the values of a tensor on the device as a new NumPy array."""
        return read(tensor._data)


def pool_of(backend: Backend) -> Pool:
    """Return the pool of a backend, which is kept on the instance."""

    def finish(device: int) -> None:
        submit(backend, device)
        backend.synchronize(device)

    found = backend.__dict__.get("_pool")
    return found or backend.__dict__.setdefault("_pool", backend._make_pool(finish))  # type: ignore[no-any-return]


def extent(data: StridedArray) -> int:
    """Return the offset of the byte after the last element of a window that is not empty."""
    last = sum([(n - 1) * step for n, step in zip(data.shape, data.strides)])
    return int(data.offset + last + data.dtype.itemsize)


def memory_of(data: StridedArray) -> Backend:
    """Return the backend of a window's buffer; RuntimeError if another backend has its name now."""
    backend: Backend = data.device.backend
    if getattr(data.owner, "_backend", backend) is not backend:
        raise RuntimeError(
            f"[{backend.name}] the memory of a tensor belongs to another backend that had the name {backend.name!r} "
            "and was removed: create the tensor again. Tensors outlive a removal only if the same instance is "
            "registered again."
        )
    return backend


def read(data: StridedArray) -> np.ndarray:
    """Return the elements of a window as a new array; the buffer is copied up to the last of them."""
    if not data.size:  # the window may lie beyond the end of the buffer
        if data.device.backend.asynchronous:  # a call without results may have found an error too
            settle(memory_of(data), data.device.index)
        return np.empty(data.shape, data.dtype)
    backend = memory_of(data)
    settle(backend, data.device.index)
    if data.is_contiguous:
        buffer = backend.part(data.buffer, data.offset) if data.offset else data.buffer
        if buffer is not None:
            host = np.empty(data.nbytes, np.uint8)
            backend.copy_to_host(buffer, host)
            return host.view(data.dtype).reshape(data.shape)
    host = np.empty(extent(data), np.uint8)
    backend.copy_to_host(data.buffer, host)
    return np.array(np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides))


def write(data: StridedArray, values: np.ndarray) -> None:
    """Write an array into a window of its shape; bytes between the elements are read and written back."""
    if not data.size:
        return
    backend = memory_of(data)
    if data.is_contiguous:
        buffer = backend.part(data.buffer, data.offset) if data.offset else data.buffer
        if buffer is not None:
            flat = np.ascontiguousarray(values, data.dtype).reshape(-1).view(np.uint8)
            submit(backend, data.device.index)
            backend.copy_from_host(buffer, flat)
            return
    settle(backend, data.device.index)
    host = np.empty(extent(data), np.uint8)
    backend.copy_to_host(data.buffer, host)
    np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides)[...] = values
    write_bytes(data, host)


def write_bytes(data: StridedArray, array: np.ndarray) -> None:
    """Copy bytes to the beginning of a window's buffer, behind what is queued and uses it."""
    backend: Backend = data.device.backend
    submit(backend, data.device.index)
    backend.copy_from_host(data.buffer, array)
