"""The exception of a signal's handler arrives in loops of small calls: none is lost, wherever the signal comes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import tenkey as tk
import tenkey.numpy as tnp

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are part of POSIX")

_RAISED = 300
_PERIODS = (0.001, 0.002, 0.003)  # seconds


class _Interrupt(BaseException):
    pass


def _add_and_assign(x: Any) -> None:
    y = x + 1
    y[0] = 2.0


def _change(x: Any) -> None:
    x += 1
    x[1:] *= 0.5


def _reduce(x: Any) -> None:
    x.sum()
    x[..., 1]


def _arrivals(body: Callable[[Any], None], x: Any) -> int:
    """Return how many of the exceptions that a timer raises arrive while the body is repeated."""
    raised = arrived = 0

    def handler(number: int, frame: Any) -> None:
        nonlocal raised
        raised += 1
        raise _Interrupt

    def repeated() -> None:  # in a function, because the jump of a loop is not in `try` in Python 3.13.0
        seen, end = raised, time.monotonic() + 30
        signal.setitimer(signal.ITIMER_REAL, _PERIODS[seen % len(_PERIODS)])
        while raised == seen and time.monotonic() < end:
            body(x)
        assert raised > seen, "the handler did not run"

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while raised < _RAISED:
            try:
                repeated()
            except _Interrupt:
                arrived += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return arrived


@pytest.mark.parametrize("body", [_add_and_assign, _change, _reduce])
@pytest.mark.parametrize("module", [tnp, tk], ids=["tenkey.numpy", "tk"])
def test_every_interrupt_arrives(module: Any, body: Callable[[Any], None]) -> None:
    assert _arrivals(body, module.zeros(3)) == _RAISED
