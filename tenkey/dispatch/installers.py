"""Installers: functions of the layers that register kernels for every operator, according to its facets.

Note [Installers that wait]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
A process calls only a few of the hundreds of operators that are defined when the package is imported. The installers
that the package itself brings therefore do not run for all of them at once, but for each operator when its kernels are
first read (``Operator.kernels``): by a call, a table, a registration, another installer. They run in the order in which
they subscribed, those that are ``prompt`` first, before any caller sees a kernel; only the import time shows the
difference. For operators that users define later, and for installers that subscribe later, installers run at once, so
that a mistake in a declaration is reported where it is made. Those that are ``prompt`` never wait: methods are there as
soon as their operator. Operators of the package that are declared on first use are as if they had been declared by the
import. Guarded by ``tests/tiny/test_deferred_installers.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .kernel import Handle
from .operator import Operator

__all__ = ["Installer", "Installers"]

Installer = Callable[[Operator], Iterable[Handle] | None]


class Installers:
    """The installers of one registry, and the registrations that they have made."""

    def __init__(self, lock: Any, operators: Callable[[], Iterable[Operator]]) -> None:
        self._lock = lock
        self._operators = operators
        self._installers: list[Installer] = []
        self.made: dict[tuple[int, str], list[Handle]] = {}  # by installer and name of the operator
        self._prompt: list[Installer] = []
        self._waits = False
        self._settling: set[Operator] = set()

    def subscribe(self, installer: Installer, *, prompt: bool = False) -> Handle:
        """Call ``installer`` for every operator defined so far and for every later one; at once if it is ``prompt``."""
        with self._lock:
            self._installers.append(installer)
            if prompt:
                self._prompt.append(installer)
            try:
                for operator in self._operators():
                    if self._waits and not prompt:
                        operator.outstanding = (*operator.outstanding, installer)
                    else:
                        self._run(installer, operator)
            except BaseException:
                self._unsubscribe(installer)
                raise
            return Handle(lambda: self._unsubscribe(installer), f"installer {installer!r}")

    def _unsubscribe(self, installer: Installer) -> None:
        with self._lock:
            for operator in self._operators():
                operator.outstanding = tuple([other for other in operator.outstanding if other is not installer])
            self._installers.remove(installer)
            if installer in self._prompt:
                self._prompt.remove(installer)
            self._remove(lambda key: key[0] == id(installer))

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let installers that subscribe in a ``with`` block wait for the operators that are defined already."""
        before, self._waits = self._waits, True
        try:
            yield
        finally:
            self._waits = before

    def _run(self, installer: Installer, operator: Operator, rest: tuple[Installer, ...] | None = None) -> None:
        """Let one installer act on one operator, for which ``rest`` waits then; a failure leaves nothing behind."""
        before = {key: stack[:] for key, stack in operator.kernels.items()}
        outstanding, place = operator.outstanding, (id(installer), operator.name)
        try:
            handles = installer(operator)
            if handles is not None:
                self.made[place] = list(handles)
            if rest is not None:
                operator.outstanding = rest
        except BaseException:  # an interrupt may come after any call above
            operator.outstanding = outstanding
            self.made.pop(place, None)
            operator.kernels.clear()
            operator.kernels.update(before)
            operator.invalidate()
            raise

    def install(self, operator: Operator) -> None:
        """Let all installers act on an operator."""
        for installer in self._prompt if self._waits else self._installers:
            self._run(installer, operator)
        if self._waits:
            operator.outstanding = tuple([one for one in self._installers if one not in self._prompt])

    def settle(self, operator: Operator) -> None:
        """Let those installers act that wait for this operator."""
        with self._lock:
            if operator in self._settling:
                return  # an installer asks for the kernels so far
            try:
                self._settling.add(operator)  # within: an interrupt may come as soon as it is there
                while operator.outstanding:
                    self._run(operator.outstanding[0], operator, operator.outstanding[1:])
            finally:
                self._settling.discard(operator)

    def reinstall(self, operator: Operator) -> None:
        """Let the installers act again after the facets of an operator have changed."""
        with self._lock:
            operator.invalidate()  # what was resolved may depend on a facet that is gone
            self.uninstall(operator)
            self.install(operator)

    def uninstall(self, operator: Operator) -> None:
        """Remove the registrations that installers made for an operator."""
        self._remove(lambda key: key[1] == operator.name)
        operator.outstanding = ()

    def _remove(self, wanted: Callable[[tuple[int, str]], bool]) -> None:
        for key in [*filter(wanted, self.made)]:
            for handle in self.made.pop(key):
                handle.remove()
