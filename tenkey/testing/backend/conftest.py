"""Without ``--backend`` there is nothing to test: a run of all tests of a repository passes the suite by."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the test modules alone unless the suite was asked for."""
    asked = config.pluginmanager.has_plugin("tenkey.testing.backend.plugin")
    return True if collection_path.name.startswith("test_") and not asked else None
