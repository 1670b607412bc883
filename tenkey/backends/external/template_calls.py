"""The calls of a backend's templates, and of the kernels that they return."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.storage import StridedArray
from .interface import Backend, memory_of
from .runtime.device_errors import error_words
from .runtime.streams import count_kernel, settle

__all__ = ["TEMPLATES", "Reason", "TemplateKernel", "has_templates", "taken_reason"]

TEMPLATES: Final = {
    "pointwise": "out, *operands", "reduction": "out, x", "arg_reduction": "out, x", "scan": "outs, xs, reverse",
    "gather": "out, x, index, error, code", "scatter": "out, index, source, error, code", "sort": "values, order, x",
    "matmul": "out, a, b, *operands", "copy": "out, x", "rows": "outs, xs, numbers",
}  # fmt: skip
"""The arguments of the kernel that each template returns."""


class Reason(NamedTuple):
    """The reason for a fallback: a template, what it or its kernel did, and for which dtypes."""

    template: str
    text: str
    dtypes: str


def has_templates(backend: Backend, *templates: str) -> bool:
    """Tell whether a backend has all of these templates."""
    kind = type(backend)
    return all(getattr(kind, name) is not getattr(Backend, name) for name in templates)


_last: Final = threading.local()


def taken_reason() -> Reason | None:
    """Return why a template was last not used by this thread, and forget it."""
    return _last.__dict__.pop("reason", None)  # type: ignore[no-any-return]


class TemplateKernel:
    """The kernel of a template for one function and combination of dtypes, or the knowledge that there is none.

    ``operator`` and ``dtypes`` name the call in errors; ``given`` are the arguments of the template. An error of the
    template is raised as a RuntimeError that names all of these; to an error of the kernel they are added as a note.
    """

    __slots__ = ("_backend", "_call", "_function", "_reason")

    def __init__(
        self, backend: Backend, template: str, operator: str, dtypes: Sequence[np.dtype], *given: Any
    ) -> None:  # fmt: skip
        self._backend = backend
        self._call = (operator, template, ", ".join(map(str, dtypes)))
        self._function: Any = None
        self._reason = Reason(template, "declined", self._call[2])
        try:
            self._function = getattr(backend, template)(*given)
        except NotImplementedError as error:
            self._reason = self._raised("raised", error)
        except MemoryError:
            raise
        except Exception as error:
            raise RuntimeError(
                f"[{operator}] the template {template}() of the backend {backend.name!r} raised "
                f"{type(error).__name__} for {self._call[2]}: {error}"
            ) from error
        if self._function is not None and not callable(self._function):
            raise TypeError(
                f"[{operator}] the template {template}() of the backend {backend.name!r} returned {self._function!r}: "
                f"it returns a function kernel({TEMPLATES[template]}), or None where it has none."
            )

    def __bool__(self) -> bool:
        """Tell whether there is a kernel; if not, note the reason for a fallback."""
        if self._function is None:
            _last.reason = self._reason
            return False
        return True

    def _raised(self, what: str, error: NotImplementedError) -> Reason:
        text = str(error)
        _, template, dtypes = self._call
        return Reason(template, f"{what} NotImplementedError{': ' if text else ''}{text}", dtypes)

    def prepared(self, how: str, out: StridedArray, operands: Sequence[Any]) -> Callable[..., Any] | None:
        """Return what the kernel prepares for the layouts of a call (``Backend.pointwise``); None if it does not."""
        prepare = getattr(self._function, how, None)
        return None if prepare is None else prepare(out, *operands)

    def run(self, *arguments: Any) -> bool:
        """Call the kernel; return false if there is none or it raises NotImplementedError: the call falls back."""
        if not self:
            return False
        backend = self._backend
        for value in arguments:
            for window in value if value.__class__ is tuple else (value,):
                if window.__class__ is StridedArray and getattr(window.owner, "_backend", backend) is not backend:
                    memory_of(window)  # raises
        try:
            self._function(*arguments)
        except NotImplementedError as error:
            _last.reason = self._raised("its kernel raised", error)
            return False
        except Exception as error:
            operator, template, dtypes = self._call
            error.add_note(f"[{operator}] In the kernel that {template}() of {backend.name!r} returned for {dtypes}.")
            raise
        if backend.batching:
            count_kernel(backend, _device(arguments[0]))
        return True

    def run_with_errors(
        self, operator: str, message: str, *arguments: Any, error: type[Exception] = IndexError
    ) -> bool:  # fmt: skip
        """Run a kernel whose last two arguments are an error word and the code of ``[operator] message``.

        On a synchronous backend, an error that it reports is raised here.
        """
        device = _device(arguments[0])
        backend = self._backend
        done = self.run(*arguments, backend.error_word(device), backend.error_code(operator, message, error))
        if backend.asynchronous:
            error_words(backend).mark(device)
        elif done:
            settle(backend, device)
        return done


def _device(first: Any) -> int:
    """Return the device of the first argument of a kernel."""
    return (first[0] if first.__class__ is tuple else first).device.index  # type: ignore[no-any-return]
