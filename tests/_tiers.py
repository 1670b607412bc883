"""The two tiers of the test suite: ``pytest`` alone is the fast one, ``pytest --full`` the full matrix.

A test that only the full tier runs has the marker ``full``; one that checks more cases there has ``wider``, which
:func:`each` sets. ``pytest --full -m "full or wider"`` is therefore all that the fast tier leaves out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["Failures", "each", "is_full", "only_full", "tier"]

_state = {"full": False}


def set_full(full: bool) -> None:
    """Choose the tier; called by ``conftest.py`` before the tests are collected."""
    _state["full"] = full


def is_full() -> bool:
    return _state["full"]


def tier(fast: Any, full: Any) -> Any:
    """A number of examples, or a list of cases, by tier."""
    return full if is_full() else fast


def only_full(values: Sequence[Any], fast: Sequence[Any]) -> list[Any]:
    """Parameters of which those that are not in ``fast`` have the marker ``full``."""
    return [value if value in fast else pytest.param(value, marks=pytest.mark.full) for value in values]


class Failures:
    """Collects what fails of many cases, and raises one AssertionError that lists them all.

    >>> failures = Failures()
    >>> for value in (1, 2, 3):
    ...     with failures.of(f"value={value}"):
    ...         assert value == 2, "not two"
    >>> failures.check()
    Traceback (most recent call last):
    ...
    AssertionError: 2 of 3 cases fail:
      value=1: AssertionError: not two...
      value=3: AssertionError: not two...
    """

    def __init__(self) -> None:
        self.cases = 0
        self.errors: list[tuple[str, BaseException]] = []
        self.skipped: list[str] = []

    def of(self, label: str) -> AbstractContextManager[None]:
        """Run one case: its failure is kept, and the next case runs."""
        return _Case(self, label)

    def check(self) -> None:
        """Raise if a case has failed; skip if all of them were skipped."""
        if self.errors:
            lines = [f"{len(self.errors)} of {self.cases} cases fail:"]
            lines += [f"  {label}: {_described(error)}" for label, error in self.errors]
            raise AssertionError("\n".join(lines)) from self.errors[0][1]
        if self.cases and len(self.skipped) == self.cases:
            pytest.skip(self.skipped[0])


class _Case:
    def __init__(self, failures: Failures, label: str) -> None:
        self.failures, self.label = failures, label

    def __enter__(self) -> None:
        self.failures.cases += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, pytest.skip.Exception):
            self.failures.skipped.append(str(error))
        elif isinstance(error, (Exception, pytest.fail.Exception)) and not isinstance(error, pytest.exit.Exception):
            self.failures.errors.append((self.label, error))
        else:
            return False  # no error, or one that ends the run: an interrupt, pytest.exit
        return True


_HERE: Final = Path(__file__).parent


def _described(error: BaseException) -> str:
    """Type and message of an error, and the innermost line of the tests that it passed."""
    place, trace = "", error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if _HERE in path.parents and path.name != Path(__file__).name:
            place = f" ({path.relative_to(_HERE)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"


def each(
    name: str | tuple[str, ...], values: Sequence[Any], *, fast: Sequence[Any] | None = None
) -> Callable[[Any], Any]:
    """Run the body of a test for every value of one of its parameters; all values that fail are in one report.

    It takes the place of ``pytest.mark.parametrize`` where the cases are many and small. ``fast``: the values without
    ``--full``. Several names take the parts of each value, as in ``parametrize``.
    """
    names = (name,) if isinstance(name, str) else name

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        for one in names:
            assert one in signature.parameters, f"{test.__name__} has no parameter {one!r}"

        @functools.wraps(test)
        def run(**arguments: Any) -> None:
            failures = Failures()
            for value in values if fast is None or is_full() else fast:
                given = dict(zip(names, (value,) if isinstance(name, str) else value, strict=True))
                with failures.of(", ".join(f"{key}={part}" for key, part in given.items())):
                    test(**arguments, **given)
            failures.check()

        others = [p for p in signature.parameters.values() if p.name not in names]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # what pytest reads
        return run if fast is None else pytest.mark.wider(run)

    return decorate
