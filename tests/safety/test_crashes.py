"""Programs that must not end the process, whatever runs them: compiled calls or Python.

The programs of one test run one after another in one process. What each prints is compared, and a process that ended
early is reported with the title of its last program and with the place where it crashed.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_BEGIN = """
import faulthandler, gc, threading, weakref
import numpy
import tenkey as tk
import tenkey.numpy as np
faulthandler.enable()
"""

# Assignments whose value is a view of what is written to: NumPy prints the same.
ALIASES = {
    "an element, as a 0-d view": ("x = np.zeros(3)\nfor _ in range(3): x[...] = x[0, ...]\nprint(x)", "[0. 0. 0.]"),
    "an element of two axes": (
        "x = np.arange(4.0).reshape(2, 2)\ns = x[1, 0, ...]\nfor _ in range(100): x[:] = s\nprint(x.tolist())",
        "[[2.0, 2.0], [2.0, 2.0]]",
    ),
    "a 0-d array through a new axis": ("x = np.array(True)\nfor _ in range(3): x[None] = x\nprint(x)", "True"),
    "itself": ("x = np.arange(3.0)\nfor _ in range(100): x[...] = x; x[:] = x[:]; x[None] = x\nprint(x)", "[0. 1. 2.]"),
    "itself, shifted": ("x = np.arange(5)\nx[1:] = x[:-1]\nx[:-1] += x[1:]\nprint(x)", "[0 1 3 5 3]"),
    "itself, transposed": (
        "x = np.arange(4).reshape(2, 2)\nx[:] = x.T\nx += x.T\nprint(x.tolist())", "[[0, 3], [3, 6]]"
    ),
    "a tensor of tk": (
        "x = tk.arange(4.0)\nfor _ in range(100): x[...] = x[3, ...]\nprint(x.tolist())", "[3.0, 3.0, 3.0, 3.0]"
    ),
    "a column of a tensor": (
        "x = tk.arange(4.0).reshape(2, 2)\nfor _ in range(100): x[:, 0] = x[0]\nprint(x.tolist())",
        "[[0.0, 1.0], [1.0, 3.0]]",
    ),
}  # fmt: skip

# Operands that resize the array in use from __index__ and fill the freed memory: 7 is what is read where it was freed.
_EVIL = """
class Evil:
    def __index__(self):
        global junk
        x.resize((3,), refcheck=False)
        junk = [numpy.full(1000, 7.0) for _ in range(50)]
        return 0

class Smaller:
    def __index__(self):
        y.resize((1,), refcheck=False)
        return 0

def attempt(call):
    try:
        return call()
    except (IndexError, ValueError, TypeError):
        return None
"""
EVIL_INDEXES = {
    "assignment": "x[Evil():] = 5.",
    "reading": "r = attempt(lambda: x[Evil():]); assert r is None or not (numpy.asarray(r) == 7).any()",
    "one element": "r = attempt(lambda: x[Evil()]); assert r is None or float(r) == 1",
    "one element of an array that became empty": "x = np.ones(1); attempt(lambda: x[Evil()])",
    "assignment of an array": "y = np.ones(1000); attempt(lambda: x.__setitem__(slice(Smaller(), None), y))",
    "two indexes": "x = np.ones((40, 40)); attempt(lambda: x[Evil(), Evil():])",
    "a list of indexes": "attempt(lambda: x[[Evil(), 0]])",
    "an axis": "attempt(lambda: np.sum(x, axis=Evil()))",
    "a shape": "attempt(lambda: x.reshape(Evil(), -1))",
}
_VALID = "assert x.shape and numpy.isin(numpy.asarray(x), [0, 1, 5]).all()"

# Calls that meet an instance that no constructor has seen.
UNINITIALISED = (
    "np.ones(3)[u]", "np.ones(3).__setitem__(u, 1)", "np.ones(3).__setitem__(0, u)", "u[0]", "u.__setitem__(0, 1)",
    "u + 1",
    "1 + u", "u + u", "-u", "u @ u", "u == u", "u.__iadd__(1)", "np.ones(3) + u", "np.ones(3).__iadd__(u)",
    "np.sinh(u)",
    "np.add(u, 1)", "np.add(np.ones(3), 1, out=u)", "np.sum(u)", "u.sum()", "u.max(axis=0)", "len(u)", "bool(u)",
    "float(u)",
    "repr(u)", "iter(u)", "u.shape", "u.dtype", "u.T", "u.reshape(3)", "u.resize(3)", "np.where(u, 1, 2)",
    "numpy.asarray(u)",
    "numpy.add(u, 1)", "tk.exp(u)", "tk.add(u, u)", "u.copy()", "u.tolist()", "operator.index(u)",
    "hash(u), u + 1",  # the hash of a tensor is that of its identity
)  # fmt: skip


def _run(programs: dict[str, str], begin: str = "") -> dict[str, str]:
    """Run programs in one process; return what each printed, or its error."""
    lines = [_BEGIN, begin, "import sys, traceback"]
    for title, program in programs.items():
        lines.append(f"print('#', {title!r}, flush=True)\ntry:\n{textwrap.indent(program, '    ')}")
        lines.append("except Exception: traceback.print_exc(file=sys.stdout)")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    printed = {part.partition("\n")[0].strip(" '\""): part.partition("\n")[2] for part in done.stdout.split("# ")[1:]}
    assert done.returncode == 0, f"{list(printed)[-1:]} ended the process with status {done.returncode}\n{done.stderr}"
    return {title: text.strip() for title, text in printed.items()}


def test_values_that_share_memory_with_what_is_written() -> None:
    printed = _run({title: program for title, (program, _) in ALIASES.items()})
    assert printed == {title: expected for title, (_, expected) in ALIASES.items()}


def test_indexes_that_resize_the_array() -> None:
    """None reads or writes freed memory: the arrays keep their values, and later ones are not overwritten."""
    programs = {
        title: f"for _ in range(100):\n    x = np.ones(1000); junk = ()\n    {program}\n    {_VALID}\n"
        "    assert all((part == 7).all() for part in junk)"
        for title, program in EVIL_INDEXES.items()
    }  # fmt: skip
    assert _run(programs, _EVIL) == dict.fromkeys(programs, "")


@pytest.mark.parametrize("kind", ["np.ndarray", "tk.Tensor"])
def test_instances_that_no_constructor_has_seen(kind: str) -> None:
    programs = {
        str(number): f"try: u = object.__new__({kind}); {call}; print('no error')\n"
        f"except (TypeError, AttributeError): pass"  # the compiled core refuses to make one
        for number, call in enumerate(UNINITIALISED)
    }  # fmt: skip
    printed = _run(programs, "import operator")
    wrong = {UNINITIALISED[int(number)]: text for number, text in printed.items() if text}
    assert not wrong


def test_adding_none_in_place_raises() -> None:
    program = "x = {}(3)\ntry: x {}= None\nexcept TypeError: print(x.tolist())"
    programs = {
        f"{make} {operator}": program.format(make, operator)
        for make in ("np.ones", "tk.ones") for operator in ("+", "-", "*", "/", "//", "%", "**")
    }  # fmt: skip
    assert _run(programs) == dict.fromkeys(programs, "[1.0, 1.0, 1.0]")


def test_kernels_come_and_go_while_other_threads_call() -> None:
    """Large enough for NumPy's loops to release the GIL, in the middle of which the kernels are removed."""
    program = """
a, expected = np.ones((60, 60)).T, numpy.sinh(numpy.ones((60, 60)))
done, wrong = threading.Event(), []

def call():
    while not done.is_set():
        for found in (np.sinh(a), np.sinh(a, out=np.empty((60, 60)))):
            if abs(numpy.asarray(found) - expected).max() > 1e-12: wrong.append(found)

def replacement(x): return tk.asarray(numpy.sinh(x.numpy()))

threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads: thread.start()
try:
    for _ in range(300):
        with tk.library.Library("tk", "IMPL") as library:
            library.impl("sinh", replacement, "CPU")
        tk.library.register_kernel("tk::sinh", "cpu", replacement, allow_override=True).remove()
finally:
    done.set()
    for thread in threads: thread.join()
assert not wrong
"""
    assert _run({"kernels": program}, "sys = __import__('sys'); sys.setswitchinterval(1e-5)") == {"kernels": ""}
