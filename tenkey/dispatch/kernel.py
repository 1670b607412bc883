"""Kernels and handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

from .diagnostics.registration_checks import check_kernel
from .diagnostics.sites import function_site
from .keys import DispatchKey

__all__ = ["Handle", "Kernel", "fallthrough_kernel"]

Specialize = Callable[[Any, int], Callable[..., Any]]  # of an operator and a dispatch word


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Marker kernel: dispatch skips the key it is registered for. It is masked before selection and never called.

    >>> key = tk.dispatch.DispatchKey.AutogradCPU
    >>> library = tk.library.Library("docs_fallthrough", "DEF")
    >>> _ = library.define("same(Tensor x) -> Tensor")
    >>> _ = library.impl("same", lambda x: x, "cpu")
    >>> with library.impl("same", tk.dispatch.fallthrough_kernel, key):
    ...     tk.ops.docs_fallthrough.same(tk.ones(())).item()
    1.0
    """
    raise AssertionError("a fallthrough kernel is never called")


class Handle:
    """The result of a registration: ``remove()`` undoes it, once; also a context manager.

    >>> library = tk.library.Library("docs_handle", "DEF")
    >>> handle = library.define("same(Tensor x) -> Tensor")
    >>> handle.remove()
    >>> "docs_handle::same" in tk.dispatch.registry.operators
    False
    """

    __slots__ = ("_remove", "description")

    def __init__(self, remove: Callable[[], None], description: str = "") -> None:
        self._remove = [remove]  # a list: taking the last item is atomic, so of many threads only one removes
        self.description = description

    def remove(self) -> None:
        """Undo the registration; a second call does nothing."""
        try:
            remove = self._remove.pop()
        except IndexError:
            return
        remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Handle: {self.description}{'' if self._remove else ' (removed)'}>"


class Kernel:
    """One registered implementation: inert data that the table reads.

    ``specialize(operator, word)``, if given, returns a callable for one dispatch word (Note [Dispatch word]) that is
    called in place of ``function``; ``specialize_when`` does the same for the condition ``when``. ``only_with`` is a
    set of traits: a call that has none of them skips the kernel. ``boxed`` kernels are fallbacks: they take the
    operator as their first argument. ``composed`` says that the kernel does not redispatch but calls other operators.
    ``operator`` is the name of the operator it is registered for, "" for a fallback.

    >>> tk.dispatch.Kernel(lambda x: x, DispatchKey.CPU).key
    DispatchKey.CPU
    """

    def __init__(
        self,
        function: Callable[..., Any],
        key: DispatchKey,
        *,
        origin: Literal["explicit", "generated"] = "explicit",
        site: str = "",
        specialize: Specialize | None = None,
        specialize_when: Specialize | None = None,
        only_with: int = 0,
        boxed: bool = False,
        with_keyset: bool = False,
        composed: bool = False,
        when: Callable[..., bool] | None = None,
        priority: int = 0,
    ) -> None:
        check_kernel(function, key, when, priority)
        self.function = function
        self.key = key
        self.origin = origin
        self.site = site or function_site(function)
        self.specialize = specialize
        self.specialize_when = specialize_when
        self.warned = False  # whether a warning said that it is shadowed
        self.only_with = only_with
        self.boxed = boxed
        self.with_keyset = with_keyset
        self.composed = composed
        self.when = when
        self.conditional = when is not None  # as registered: set_kernel_enabled adds a condition later
        self.priority = priority
        self.operator = ""

    @property
    def is_fallthrough(self) -> bool:
        """Whether the kernel only marks its key as skipped."""
        return self.function is fallthrough_kernel

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def __repr__(self) -> str:
        of = f" of {self.operator}" if self.operator else ""
        return f"<{self.origin} kernel {self.name} for {self.key.name}{of} from {self.site}>"
