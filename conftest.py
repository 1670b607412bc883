"""The option ``--full`` (see ``tests/_tiers.py``), and the names that examples in docstrings use without an import."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import _tiers

_HERE = Path(__file__).parent
collect_ignore = [str(path.with_suffix(".py")) for path in _HERE.glob("tenkey/core/compiled/*.pxd")]  # only compiled
if importlib.util.find_spec("numba_cuda") is None:  # what is in the scope of kernels is in numba.cuda's language
    collect_ignore += [f"tenkey/backends/cuda/kernels/{name}.py" for name in ("atomics", "intrinsics", "tuples")]

_state: dict[str, Path | None] = {"path": None}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``."""
    parser.addoption("--full", action="store_true", help="run the full matrix of the tests instead of the fast tier")


def pytest_configure(config: pytest.Config) -> None:
    """Say which tier it is before the test modules are imported."""
    _tiers.set_full(config.getoption("full"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect tests without collections of garbage, which would go through all syntax trees, modules and items."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has the marker ``full``, unless the option is given."""
    if not config.getoption("full"):
        left_out = [item for item in items if item.get_closest_marker("full") is not None]
        if left_out:
            items[:] = [item for item in items if item.get_closest_marker("full") is None]
            config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True, scope="session")
def _example_names(doctest_namespace: dict[str, Any]) -> None:
    """Examples assume ``import numpy as np`` and ``import tenkey as tk``, as those of NumPy assume ``np``."""
    import tenkey as tk

    doctest_namespace.update(np=np, tk=tk)


_CUDA = _HERE / "tenkey"
_EMULATOR = _CUDA / "testing" / "cuda_driver" / "emulator.py"


def _is_of_cuda(path: Path) -> bool:
    folders = [_CUDA / "backends" / "cuda" / name for name in ("device", "memory")]
    return path in (_EMULATOR, _CUDA / "cuda.py") or any(map(path.is_relative_to, folders))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the examples of ``tk.cuda`` and of the CUDA backend on the emulator, where the extra and a compiler exist."""
    if not isinstance(item, pytest.DoctestItem) or not _is_of_cuda(item.path):
        return (yield)
    pytest.importorskip("numba_cuda", reason="needs the extra cuda")
    import tenkey as tk
    from tenkey.testing.cuda_driver import stub_building

    if stub_building.compiler() is None:
        pytest.skip("needs a C compiler")
    if item.path == _EMULATOR:  # which starts one itself
        return (yield)
    with tk.testing.cuda_emulator():
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of a file, put what is alive where collections of garbage do not look.

    Many tests start a collection on purpose; it would go through all tests and compiled code in memory.
    """
    if item.path != _state["path"]:
        _state["path"] = item.path
        gc.collect()
        gc.freeze()
