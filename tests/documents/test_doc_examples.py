"""Every public name has a docstring with an example, and every example in a docstring is executed.

pytest collects the examples of modules (``--doctest-modules``). Those of public operators are found in the namespace;
those of operators that only ``tk.ops`` and methods reach are in no module, and are executed here.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tests._tiers import each
from tools.check_reference import MODULES

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NO_EXAMPLE = {
    "install": "what the composition root calls once",
    "default_generator": "gives the generator that the other functions use",
}


def public() -> dict[str, Any]:
    """The public classes and functions, by module and name; exceptions are shown by what raises them."""
    found: dict[str, Any] = {}
    for module in MODULES:
        namespace = importlib.import_module(module)
        for name in namespace.__all__:
            value = getattr(namespace, name)
            kind = inspect.isclass(value) or inspect.isroutine(value)
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if kind and not is_error and name not in NO_EXAMPLE:
                found[f"{module}.{name}"] = value
    return found


PUBLIC = public()


def examples(value: Any, name: str) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(value, name, module=False) if test.examples]


@each("name", sorted(PUBLIC))
def test_public_name_has_a_docstring_with_an_example(name: str) -> None:
    value = PUBLIC[name]
    assert (value.__doc__ or "").strip(), "no docstring"
    assert examples(value, name), "no example in the docstring, nor in that of a method"


def test_examples_of_public_names_are_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tenkey"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    collected = {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    wanted = {f"{value.__module__}.{value.__qualname__}": name for name, value in PUBLIC.items()}
    lost = [
        name
        for path, name in sorted(wanted.items())
        if path not in collected and not any(item.startswith(f"{path}.") for item in collected)
    ]
    assert lost == []


HIDDEN = [
    operator
    for operator in registry
    if ">>>" in (operator.doc or "")
    and operator.schema.namespace == "tk"
    and operator.call not in {v for v in PUBLIC.values() if inspect.isroutine(v)}
]


@pytest.mark.parametrize("operator", HIDDEN, ids=str)
def test_example_of_an_operator_that_is_no_public_name(operator: Any) -> None:
    for test in examples(operator.call, operator.name):
        test.globs = {"np": np, "tk": tk}
        result = doctest.DocTestRunner(optionflags=FLAGS).run(test)
        assert result.failed == 0
        assert result.attempted


def test_there_are_such_operators() -> None:
    assert {"tk::clone", "tk::linspace"} <= {str(operator) for operator in HIDDEN}


def test_a_missing_example_is_noticed() -> None:
    def plain() -> None:
        """Nothing to see."""

    assert examples(plain, "plain") == []
    assert examples(tk.add, "add")


def test_methods_have_docstrings() -> None:
    bare = [
        name
        for name, value in vars(Tensor).items()
        if not name.startswith("_") and not (getattr(value, "__doc__", None) or "").strip()
    ]
    assert bare == []
