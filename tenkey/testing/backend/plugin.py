"""The pytest plug-in of the suite: its options, the backend under test, and the coverage at the end."""

from __future__ import annotations

import collections
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import tenkey as tk

__all__ = ["Subject"]

_NO_DEVICE: Final = (
    "--backend {name}: {error}\nA backend that is registered by importing something: --backend-module FILE_OR_MODULE."
)


class Subject:
    """The backend under test: ``name`` (the device string) and ``backend`` (its instance)."""

    def __init__(self, name: str) -> None:
        device = tk.device(name)
        self.name = name
        self.backend: tk.backends.Backend = device.backend
        self.count = self.backend.device_count()

    def has_float64(self) -> bool:
        """Whether results in double precision come back as such; devices without it may say so by an error."""
        try:
            x = tk.asarray([1.0], dtype=tk.float64, device=self.name)
            return bool((x + 1e-12).item() == 1 + 1e-12)
        except Exception:
            return False


_SUBJECT: Final = pytest.StashKey[Subject]()
_FALLBACK: Final = pytest.StashKey[collections.Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--backend`` and ``--backend-module``."""
    group = parser.getgroup("tenkey", "conformance suite for backends of tenkey")
    group.addoption("--backend", metavar="NAME", help="the device string of the backend to test")
    group.addoption(
        "--backend-module", metavar="FILE_OR_MODULE", action="append", default=[],
        help="import this first: it registers the backend",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Find the backend before tests are collected: the operators of its package belong to the table."""
    name = config.getoption("--backend")
    if config.getoption("help", default=False):
        return
    if not name:
        raise pytest.UsageError(
            "the conformance suite needs a device: pytest --pyargs tenkey.testing.backend --backend NAME"
        )
    if name.partition(":")[0] in ("cpu", "meta"):
        raise pytest.UsageError(
            f"the conformance suite compares with the CPU: --backend {name} is not a backend from outside."
        )
    for module in config.getoption("--backend-module"):
        try:
            _import(module)
        except Exception as error:
            text = f"--backend-module {module}: {type(error).__name__}: {error}"
            raise pytest.UsageError(text) from error
    try:
        config.stash[_SUBJECT] = Subject(name)
    except Exception as error:
        raise pytest.UsageError(_NO_DEVICE.format(name=name, error=error)) from error
    config.stash[_FALLBACK] = collections.Counter()


def _import(module: str) -> None:
    path = Path(module)
    if path.suffix != ".py":
        importlib.import_module(module)
        return
    name = path.stem
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path.resolve()}")
    if name in sys.modules:  # another file of this name
        name = f"{name}_under_test"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)


@pytest.fixture(scope="session")
def subject(request: pytest.FixtureRequest) -> Subject:
    """The backend under test."""
    return request.config.stash[_SUBJECT]


@pytest.fixture(scope="session")
def float64(subject: Subject) -> bool:
    """Whether the device computes in double precision."""
    return subject.has_float64()


@pytest.fixture(autouse=True)
def _fresh_random_numbers() -> None:
    """Tests that draw numbers give the same ones in every order."""
    tk.random.seed(0)


# ---- the report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note what fell back in this process; a worker of pytest-xdist sends it to the process that reports."""
    config = session.config
    if _SUBJECT not in config.stash:
        return
    calls = tk.backends.coverage(config.stash[_SUBJECT].name.partition(":")[0]).fallback
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["tenkey_fallback"] = dict(calls)
    else:
        config.stash[_FALLBACK].update(calls)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take in what a worker of pytest-xdist sends."""
    node.config.stash[_FALLBACK].update(getattr(node, "workeroutput", {}).get("tenkey_fallback", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the coverage: implemented, derived, fallback, wrong. What is derived may fall back for some dtypes."""
    if _SUBJECT not in config.stash:
        return
    name = config.stash[_SUBJECT].name
    found = tk.backends.coverage(name.partition(":")[0])
    calls = config.stash[_FALLBACK]
    reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
    wrong = sorted({what for report in reports for what in [_subject_of(report)]})
    terminalreporter.section(f"coverage of the backend {name!r}")
    for title, names in (
        ("implemented", found.implemented),
        ("derived", found.derived),
        ("fallback", [f"{one} x{count}" for one, count in sorted(calls.items())]),
        ("wrong", wrong),
    ):
        terminalreporter.write_line(f"{title} ({len(names)}): {', '.join(names)}")


def _subject_of(report: Any) -> str:
    """The operator that a failed test is about, or what else it tests."""
    properties = dict(report.user_properties)
    return str(properties.get("operator", report.nodeid.rpartition("::")[2]))
