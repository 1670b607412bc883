"""Registration of backends: device string, keys, Tensor methods, derived kernels and fallback, all of it reversible."""

from __future__ import annotations

import contextlib
import functools
import inspect
import keyword
from typing import Any, Final

from ...core.device import Device, default_device, device_types, register_device, to_device, unregister_device
from ...core.tensor import Tensor, replaceable
from ...dispatch.errors import RegistrationError
from ...dispatch.kernel import Handle, Kernel
from ...dispatch.keys import DispatchKey
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from .coverage import Coverage, Ledger
from .derived import Derived
from .fallback import run_on_cpu
from .interface import MINIMAL, Backend
from .runtime.streams import settle
from .template_calls import TEMPLATES, taken_reason

__all__ = ["coverage", "explicit_kernels", "new_kernels", "register", "registered", "synchronize"]

_CALLED: Final = (
    *MINIMAL, "is_available", "device_count", "current_device", "synchronize", "flush", *TEMPLATES, "setup",
)  # fmt: skip

registered: Final[dict[str, Registered]] = {}


class Registered:
    """A registered backend and everything that was created for it."""

    def __init__(self, backend: Backend, key: DispatchKey) -> None:
        self.backend = backend
        self.key = key
        self.ledger = Ledger(backend)
        self.own: set[int] = set()  # ids of the kernels made here
        self.fallback = functools.partial(run_on_cpu, backend, self.ledger, lambda: None)
        self.derived = Derived(backend, functools.partial(run_on_cpu, backend, self.ledger, taken_reason))
        self.handles: list[Handle] = []

    def install(self, operator: Operator) -> list[Handle]:
        """Register the kernel that is derived for an operator."""
        handles = self.ledger.watch(operator)
        function, specialize = self.derived.kernel(operator)
        if function is None:
            return handles
        kernel = Kernel(function, self.key, origin="generated", specialize=specialize)
        self.own.add(id(kernel))
        return [*handles, registry.impl(operator.name, kernel)]

    def remove(self) -> None:
        """Undo the registration."""
        name = self.backend.name
        with registry.lock:
            for handle in reversed(self.handles):
                handle.remove()
            self.handles.clear()
            if registered.get(name) is self:
                del registered[name]
            unregister_device(name)
        self.backend.__dict__.pop("_error_words", None)  # frees them
        pool = self.backend.__dict__.pop("_pool", None)
        if pool is not None:
            pool.close()


def explicit_kernels() -> dict[int, tuple[str, Kernel]]:
    """Return the explicitly registered kernels with the names of their operators, by id."""
    found = [(op.name, kernel) for op in registry for stack in op.kernels.values() for kernel in stack]
    found += [(name, kernel) for name, stack in registry.pending.items() for kernel in stack]
    return {id(kernel): (name, kernel) for name, kernel in found if kernel.origin == "explicit"}


def new_kernels(before: dict[int, tuple[str, Kernel]]) -> list[Handle]:
    """Return handles for the kernels that were registered explicitly since ``before``."""
    new = [pair for key, pair in explicit_kernels().items() if key not in before]
    return [
        Handle(functools.partial(registry._remove_kernel, name, kernel), f"kernel of {name} for {kernel.key.name}")
        for name, kernel in new
    ]


def _add_methods(name: str) -> Handle:
    """Add ``x.NAME(index)`` and ``x.is_NAME`` to Tensor."""
    before = {attribute: vars(Tensor)[attribute] for attribute in replaceable & {name, f"is_{name}"}}

    def move(self: Tensor, index: int | None = None, *, non_blocking: bool = False) -> Tensor:
        device = to_device(name if index is None else f"{name}:{index}")
        if device is self.device:
            return self
        return registry.find("tk::to_device").call(self, device, non_blocking=non_blocking)  # type: ignore[no-any-return]

    move.__name__ = move.__qualname__ = name
    move.__doc__ = f"Move the tensor to the device {name!r}, or {name}:index; return itself if it is there already."

    def is_there(self: Tensor) -> bool:
        return self.device.type == name

    is_here = property(is_there, doc=f"Whether the tensor is on a device {name!r}.")
    setattr(Tensor, name, move)
    setattr(Tensor, f"is_{name}", is_here)

    def remove() -> None:
        for attribute, value in ((name, move), (f"is_{name}", is_here)):
            if Tensor.__dict__.get(attribute) is value:
                delattr(Tensor, attribute)
                if attribute in before:
                    setattr(Tensor, attribute, before[attribute])

    return Handle(remove, f"methods of the backend {name!r}")


def register(backend: Backend) -> Handle:
    """Register a backend as a device, with keys, derived kernels and CPU fallback; ``remove()`` undoes it.

    Tensors get the method ``x.NAME()`` and the property ``x.is_NAME``. Raises RegistrationError, and changes nothing,
    for an invalid name, a missing method, or a name that is taken.

    >>> class Bytes(tk.backends.Backend):
    ...     name = "docsbytes"
    ...
    ...     def allocate(self, nbytes, device=0):
    ...         return bytearray(nbytes)
    ...
    ...     def free(self, buffer):
    ...         pass
    ...
    ...     def copy_from_host(self, buffer, array):
    ...         buffer[: array.size] = array.tobytes()
    ...
    ...     def copy_to_host(self, buffer, array):
    ...         array[:] = np.frombuffer(buffer, np.uint8, array.size)
    >>> with register(Bytes()):
    ...     tk.exp(tk.zeros(2, device="docsbytes")).tolist()
    ...     coverage("docsbytes").fallback["tk::exp"]
    [1.0, 1.0]
    1
    """
    if not isinstance(backend, Backend):
        raise RegistrationError(f"[register] needs an instance of a subclass of tk.backends.Backend, got {backend!r}.")
    name: Any = backend.name
    valid = isinstance(name, str) and name.isascii() and name.isidentifier() and name == name.lower()
    if not valid or keyword.iskeyword(name) or name == "default":
        raise RegistrationError(
            "[register] a backend needs a class attribute 'name', a lower-case identifier of ASCII letters, not "
            f"a keyword and not 'default', which means all devices; got {name!r}."
        )
    for method in MINIMAL:
        if getattr(type(backend), method, None) in (None, getattr(Backend, method)):
            raise RegistrationError(
                f"[register] the backend {name!r} lacks the method {method}(): every backend "
                f"implements {', '.join(MINIMAL)}."
            )
    _check_signatures(backend)
    with registry.lock:
        if name not in device_types():
            for attribute in (name, f"is_{name}"):
                if hasattr(Tensor, attribute) and attribute not in replaceable:
                    raise RegistrationError(
                        f"[register] a backend cannot be called {name!r}: Tensor has {attribute!r} already, and "
                        f"registering adds the method x.{name}() and the property x.is_{name}. Choose another name."
                    )
        key = register_device(name, backend=backend)
        entry = Registered(backend, key)
        registered[name] = entry
        try:
            fallback = Kernel(entry.fallback, key, boxed=True, origin="generated")
            entry.handles.append(registry.fallback(fallback))
            entry.handles.append(registry.subscribe(entry.install))
            entry.handles.append(_add_methods(name))
            before = explicit_kernels()
            try:
                backend.setup()
            finally:  # the kernels that the backend registered are removed with it
                entry.handles += new_kernels(before)
        except BaseException:
            entry.remove()
            raise
    return Handle(entry.remove, f"backend {name!r}")


def _check_signatures(backend: Backend) -> None:
    """Raise RegistrationError unless the methods that tenkey calls accept its arguments."""
    for method in _CALLED:
        arguments = list(inspect.signature(getattr(Backend, method)).parameters)[1:]
        given = getattr(backend, method)
        try:
            signature: Any = inspect.signature(given)
        except ValueError:  # a compiled module may not have one
            continue
        except TypeError:
            signature = f" = {given!r}"
        else:
            with contextlib.suppress(TypeError):
                signature.bind(*arguments)
                continue
        call = f"{method}({', '.join(arguments)})"
        raise RegistrationError(
            f"[register] the method {method}{signature} of the backend {backend.name!r} cannot be called as {call}: "
            "give it these parameters, as in tk.backends.Backend."
        )


def synchronize(device: Device | str | None = None) -> None:
    """Wait until all work on a device is done, and raise the error that a kernel has reported there.

    By default the device is the default device.

    >>> tk.backends.synchronize("cpu")
    """
    target = default_device() if device is None else to_device(device)
    if target.backend is not None:
        settle(target.backend, target.index)


def coverage(name: str) -> Coverage:
    """Report what a backend implements, what is derived for it, and what has fallen back to the CPU so far.

    Printed, it says what to do next: each fallback with its cost, its reason and the template that would end it.
    Raises ValueError for an unknown name.

    >>> tk.backends.coverage("no_such_device")
    Traceback (most recent call last):
        ...
    ValueError: ...
    """
    entry = registered.get(name)
    if entry is None:
        with contextlib.suppress(ValueError):  # loads an installed plug-in that was not used yet
            entry = registered.get(to_device(name).type)
    if entry is None:
        raise ValueError(
            f"[coverage] there is no registered backend {name!r}; known: {', '.join(registered) or 'none'}."
        )
    split = entry.ledger.split()
    implemented: list[str] = []
    derived: list[str] = []
    partly: list[str] = []
    for operator in registry:
        slot = operator.slot(entry.key)
        made_here = slot.rule == "1 direct" and id(slot.kernel) in entry.own
        facet = operator.facets.get("Inplace")
        functional = None if facet is None else facet.functional
        # a derived kernel of an in-place variant runs on the device if the functional variant has one there
        runs_there = made_here and (functional is None or functional.slot(entry.key).rule == "1 direct")
        if slot.rule.startswith("2") or runs_there:
            whole = operator.name not in split and (functional is None or functional.name not in split)
            (derived if whole else partly).append(operator.name)
        elif not made_here and (slot.rule == "1 direct" or any(k.when is not None for k in slot.conditional)):
            implemented.append(operator.name)
    return Coverage(
        name, sorted(implemented), sorted(derived), entry.ledger.calls(), sorted(partly), entry.ledger.details()
    )  # fmt: skip
