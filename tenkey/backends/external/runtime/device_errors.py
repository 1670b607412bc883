"""Errors that kernels report through memory of their device.

Note [The error word]
~~~~~~~~~~~~~~~~~~~~~
A kernel that finds a bad value, such as an index out of range, cannot raise: it may run on another processor, and after
the call has returned. It stores a code in an int64 word of the device instead. A backend whose kernels are done when
they return (``asynchronous = False``) has one word for each thread, which is read after the call, so that the error
arises where it was made. Any other has one word for each device, which is read at the next synchronisation: a copy to
the host or ``tk.backends.synchronize``; the error may then concern an earlier call of another thread, and of several
errors one is reported. The word is zeroed before the error is raised. Whether it has to be read is decided before the
device is synchronised, since another thread may call a kernel meanwhile: what that reports is found the next time.
Guarded by ``tests/backends/test_device_errors.py``.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from ...._util.locks import new_lock
from ....core.device import to_device
from ....core.storage import StridedArray
from ..buffers import Owner

__all__ = ["ErrorWords", "error_words"]

_WORD: Final = np.dtype(np.int64)
_KEPT: Final = 65_536  # codes whose texts are remembered: far more than can be queued


class _Words:
    """Words by device, and the devices whose word may have been written since it was read."""

    def __init__(self) -> None:
        self.by_device: dict[int, StridedArray] = {}
        self.used: set[int] = set()


class ErrorWords:
    """The words of one backend by device, and what their codes mean."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._lock = new_lock(waits=False)  # held while the backend copies
        self._shared = _Words()
        self._own = threading.local()
        self._codes: dict[tuple[str, str, type[Exception]], int] = {}
        self._meanings: dict[int, tuple[str, str, type[Exception]]] = {}
        self._count = 0

    def word(self, device: int) -> StridedArray:
        """Return the word in which kernels of this thread report errors."""
        with self._lock:
            words = self._words().by_device
            if device not in words:
                buffer = self._backend.allocate(_WORD.itemsize, device)
                owner = Owner(self._backend, buffer, 0, device, self._backend.free)
                self._backend.copy_from_host(buffer, np.zeros(_WORD.itemsize, np.uint8))
                words[device] = StridedArray(buffer, (1,), _WORD, to_device(f"{self._backend.name}:{device}"))
                words[device].owner = owner
            self.mark(device)
            return words[device]

    def _words(self) -> _Words:
        if self._backend.asynchronous:
            return self._shared
        found = self._own.__dict__.get("words")
        return found or self._own.__dict__.setdefault("words", _Words())  # type: ignore[no-any-return]

    def mark(self, device: int) -> None:
        """Note that the word of a device may be written: the next synchronisation reads it."""
        self._words().used.add(device)

    def mark_again(self, device: int) -> None:
        """Mark the word of a device, if it has one, for kernels that run again without a call (a graph)."""
        if device in self._words().by_device:
            self.mark(device)

    def unmark(self, device: int) -> bool:
        """Forget that the word of a device may be written, and tell whether it was noted."""
        used = self._words().used
        marked = device in used
        used.discard(device)
        return marked

    def code(self, operator: str, message: str, error: type[Exception]) -> int:
        """Return the code of an error, a positive int."""
        meaning = (operator, message, error)
        with self._lock:
            code = self._codes.get(meaning)
            if code is None:
                self._count = code = self._count + 1
                self._codes[meaning] = code
                self._meanings[code] = meaning
                if len(self._codes) > _KEPT:
                    oldest = next(iter(self._meanings))
                    del self._codes[self._meanings.pop(oldest)]
            return code

    def check(self, device: int) -> None:
        """Raise the error that a kernel has stored in the word of a device, if any, and reset the word."""
        word = self._words().by_device[device]
        with self._lock:
            value = np.zeros(1, _WORD)
            self._backend.copy_to_host(word.buffer, value.view(np.uint8))
            code = int(value[0])
            if code == 0:
                return
            self._backend.copy_from_host(word.buffer, np.zeros(_WORD.itemsize, np.uint8))
            operator, message, error = self._meanings.get(
                code, (self._backend.name, f"a kernel has stored the unknown error code {code}.", RuntimeError)
            )
        raise error(f"[{operator}] {message}")


def error_words(backend: Any) -> ErrorWords:
    """Return the error words of a backend, which are kept on the instance of Backend."""
    found = backend.__dict__.get("_error_words")
    return found or backend.__dict__.setdefault("_error_words", ErrorWords(backend))  # type: ignore[no-any-return]
