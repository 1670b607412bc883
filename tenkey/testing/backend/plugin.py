"""The pytest plug-in of the conformance suite: options, the backend under test, and the coverage report."""

from __future__ import annotations

import collections
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk

from ..cuda_driver import emulator_from_environment

__all__ = ["Subject"]


class Subject:
    """The backend under test: ``name`` (the device string) and ``backend`` (its instance)."""

    def __init__(self, name: str) -> None:
        device = tk.device(name)
        self.name = name
        self.backend: tk.backends.Backend = device.backend
        self.count = self.backend.device_count()

    def has_float64(self) -> bool:
        """Return whether the device computes in double precision; it may also raise an error."""
        try:
            x = tk.asarray([1.0], dtype=tk.float64, device=self.name)
            return bool((x + 1e-12).item() == 1 + 1e-12)
        except Exception:
            return False


_SUBJECT: Final = pytest.StashKey[Subject]()
_FALLBACK: Final = pytest.StashKey[collections.Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--backend`` and the options beside it."""
    group = parser.getgroup("tenkey", "conformance suite for backends of tenkey")
    group.addoption("--backend", metavar="NAME", help="the device string of the backend to test")
    group.addoption(
        "--backend-module", metavar="FILE_OR_MODULE", action="append", default=[],
        help="import this first: it registers the backend",
    )  # fmt: skip
    group.addoption(
        "--flushes-denormals", action="store_true", help="the device replaces denormal numbers by zero, as many GPUs do"
    )
    group.addoption(
        "--strict-fallback", action="store_true", help="a call that falls back to the CPU fails: the device has all"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find the backend before collection, so that the operators of its package are tested too."""
    name = config.getoption("--backend")
    if config.getoption("help", default=False):
        return
    if not name:
        raise pytest.UsageError(
            "the conformance suite needs a device: pytest --pyargs tenkey.testing.backend --backend NAME"
        )
    if name.partition(":")[0] in ("cpu", "meta"):
        raise pytest.UsageError(
            f"the conformance suite compares with the CPU: --backend {name} is not an external backend."
        )
    for module in config.getoption("--backend-module"):
        try:
            _import(module)
        except Exception as error:
            text = f"--backend-module {module}: {type(error).__name__}: {error}"
            raise pytest.UsageError(text) from error
    try:
        if name.partition(":")[0] == "cuda":
            emulator_from_environment()
        config.stash[_SUBJECT] = Subject(name)
    except Exception as error:
        raise pytest.UsageError(
            f"--backend {name}: {error}\nIf importing a module registers the backend, add --backend-module "
            "FILE_OR_MODULE."
        ) from error
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


@pytest.fixture(scope="session")
def flushes(request: pytest.FixtureRequest) -> bool:
    """Whether the device replaces denormal numbers by zero."""
    return bool(request.config.getoption("--flushes-denormals"))


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """Let kernels in host memory compute with NumPy, which would warn of overflow and NaN."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(autouse=True)
def _fallbacks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make fallbacks to the CPU errors, if the option says so."""
    strict = request.config.getoption("--strict-fallback")
    with tk.backends.strict_fallback() if strict else contextlib.nullcontext():
        yield


@pytest.fixture(autouse=True)
def _fresh_random_numbers() -> None:
    """Seed the generator, so that tests do not depend on their order."""
    tk.random.seed(0)


# ---- the report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Count the fallbacks of this process; a worker of pytest-xdist sends them to the reporting process."""
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
    """Add the fallbacks that a worker of pytest-xdist sends."""
    node.config.stash[_FALLBACK].update(getattr(node, "workeroutput", {}).get("tenkey_fallback", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the coverage: implemented, derived (which may fall back for some dtypes), fallback, wrong."""
    if _SUBJECT not in config.stash:
        return
    name = config.stash[_SUBJECT].name
    found = tk.backends.coverage(name.partition(":")[0])
    calls = config.stash[_FALLBACK]
    reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, [])]
    wrong = sorted({str(dict(r.user_properties).get("operator", r.nodeid.rpartition("::")[2])) for r in reports})
    terminalreporter.section(f"coverage of the backend {name!r}")
    for title, names in (
        ("implemented", found.implemented),
        ("derived", sorted([*found.derived, *found.derived_with_fallbacks])),
        ("fallback", [f"{one} x{count}" for one, count in sorted(calls.items())]),
        ("wrong", wrong),
    ):
        terminalreporter.write_line(f"{title} ({len(names)}): {', '.join(names)}")
