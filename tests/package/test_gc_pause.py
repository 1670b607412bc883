"""Note [No collections during the import]: the collector before and after the import."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_it_is_as_before(enabled: bool, fails: bool) -> None:
    program = (
        f"import gc\nif not {enabled}: gc.disable()\nbefore = gc.get_threshold()\n"
        "try: import tenkey\nexcept ValueError: print('failed')\n"
        f"assert gc.isenabled() is {enabled} and gc.get_threshold() == before"
    )
    settings = os.environ | {"TENKEY_DEFAULT_FLOAT": "nonsense" if fails else "float32"}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=True)
    assert ("failed" in done.stdout) is fails


def test_an_error_that_only_the_collector_frees() -> None:
    program = (
        "import gc\nbefore = gc.get_threshold()\ntry: import tenkey\nexcept ValueError as e: e.cycle = [e]\n"
        "lists = [[] for _ in range(1_000_000)]\nassert gc.get_threshold() == before"
    )
    settings = os.environ | {"TENKEY_DEFAULT_FLOAT": "nonsense"}
    subprocess.run([sys.executable, "-c", program], env=settings, check=True)


def test_here() -> None:
    importlib.import_module("tenkey")
    assert gc.isenabled()


@pytest.mark.parametrize("frozen", [True, False])
def test_no_collection_follows_at_once(frozen: bool) -> None:
    """The imported objects move to the oldest generation, unless the program has frozen objects of its own."""
    program = (
        f"import gc\nif {frozen}: gc.freeze()\nimport tenkey\n"
        "print(gc.get_freeze_count() > 0, any(one is tenkey.ops for one in gc.get_objects(2)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == (["True", "False"] if frozen else ["False", "True"])
