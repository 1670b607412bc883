"""What pytest must know of this folder."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest

from tests._programs import Programs

# Importing it registers backends, wrong ones among them: it is for processes of their own, and holds no doctests.
# The other one is wrong from end to end, for type checkers.
collect_ignore = ["_registered_backends.py", "typing/wrong_code.py", "typing/numpy_wrong_code.py"]

if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
    # Many tests start processes, each of which would compile all of the package again: they share a folder of the
    # session. Workers of xdist inherit it.
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="tenkey-pycache-")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job of a shell in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Runs programs in processes of their own, without an import for each."""
    with Programs() as made:
        yield made


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The plug-in of Hypothesis imports all of it for the summary, which takes longer than many runs without it."""
    plugins = session.config.pluginmanager
    plugin = plugins.get_plugin("hypothesispytest")
    if plugin is not None and "hypothesis" not in sys.modules:
        plugins.unregister(plugin)
