"""Skip the suite in runs of a repository's tests without ``--backend``."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the test modules unless the suite's plug-in is loaded."""
    asked = config.pluginmanager.has_plugin("tenkey.testing.backend.plugin")
    return True if collection_path.name.startswith("test_") and not asked else None
