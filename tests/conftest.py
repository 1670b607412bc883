"""What pytest must know of this folder."""

from __future__ import annotations

import sys

import pytest

# Importing it registers backends, wrong ones among them: it is for processes of their own, and holds no doctests.
# The other one is wrong from end to end, for type checkers.
collect_ignore = ["_registered_backends.py", "typing/wrong_code.py"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The plug-in of Hypothesis imports all of it for the summary, which takes longer than many runs without it."""
    plugins = session.config.pluginmanager
    plugin = plugins.get_plugin("hypothesispytest")
    if plugin is not None and "hypothesis" not in sys.modules:
        plugins.unregister(plugin)
