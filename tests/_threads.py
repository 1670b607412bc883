"""Functions that run in several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

__all__ = ["run_threads"]


def run_threads(*functions: Callable[[], None]) -> None:
    """Run all at once, with frequent switches between them; the first exception of any is raised here."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        try:
            barrier.wait(10)
            function()
        except BaseException as error:  # handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
