"""What pytest loads of tenkey: nothing, unless the conformance suite for backends is asked for.

    pytest --pyargs tenkey.testing.backend --backend NAME

The suite has options of its own, and pytest wants to know them before it looks for the package. This module is all
that a run of other tests sees: it imports nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["pytest_load_initial_conftests"]

SUITE = "tenkey.testing.backend"


def pytest_load_initial_conftests(early_config: Any, args: list[str]) -> None:
    """Load the suite's plug-in, and its options with it, if the suite is among the arguments."""
    path = SUITE.replace(".", "/")
    if any(arg.split("::")[0] == SUITE or arg.startswith(f"{SUITE}.") or path in arg for arg in args):
        early_config.pluginmanager.import_plugin(f"{SUITE}.plugin")
