"""The option ``--full`` (see ``tests/_tiers.py``), and the names that examples in docstrings use without an import."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import _tiers

_state: dict[str, Path | None] = {"path": None}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``."""
    parser.addoption("--full", action="store_true", help="run the full matrix of the tests instead of the fast tier")


def pytest_configure(config: pytest.Config) -> None:
    """Say which tier it is before the test modules are imported."""
    _tiers.set_full(config.getoption("full"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has the marker ``full``, unless the option is given."""
    if not config.getoption("full"):
        left_out = [item for item in items if item.get_closest_marker("full") is not None]
        if left_out:
            items[:] = [item for item in items if item.get_closest_marker("full") is None]
            config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def _example_names(doctest_namespace: dict[str, Any]) -> None:
    """Examples assume ``import numpy as np`` and ``import tenkey as tk``, as those of NumPy assume ``np``."""
    import tenkey as tk

    doctest_namespace.update(np=np, tk=tk)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of a file, put what is alive where collections of garbage do not look.

    Many tests start a collection on purpose; it would go through all tests and compiled code in memory.
    """
    if item.path != _state["path"]:
        _state["path"] = item.path
        gc.collect()
        gc.freeze()
