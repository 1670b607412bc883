"""The literate miniature, `examples/dispatcher_from_scratch.py`, runs alone, says what it should, and checks itself.

It asserts its own results against finite differences and NumPy. So it is run as its reader runs it, and again with
one fault put into it at a time: a claim that cannot fail would teach nothing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests._tiers import only_full

MINIATURE = Path(__file__).parents[2] / "examples" / "dispatcher_from_scratch.py"

IMPORTANT_LINES = [
    "1. union: Autograd|CPU, highest Autograd",
    "3. inside the guard: CPU",
    "   meanwhile in another context: Autograd|CPU",
    "   by rules: 2 composite, 1 direct kernel",
    "5. before any installer: [mul] has a kernel for no key, but none for CPU: register one.",
    "6. graph: exp <- mul <- leaf",
    "   through 2000 nodes: [2001.0, 2001.0, 2001.0]",
    "   tanh, dot, cumsum by rules: 1 2 3",
    "10. a trace: loss tanh cumsum dot mul total",
    "11. explain: mul: included Log, excluded none, effective Log|Autograd|CPU",
    "   Log       3 fallback",
    "   Autograd  1 direct kernel",
    "   CPU       1 direct kernel",
    "All claims hold.",
]

# What is broken: (the text, what replaces it).
FAULTS = {
    "a wrong derivative": ("(g * x2, g * x1)", "(g * x2, g * x2)"),
    "a wrong derivative outside": ("g + g * out * out * -1.0", "g + g * out * -1.0"),
    "a wrong formula for cumsum": ("cumsum(g) * -1.0 + g,", "cumsum(g) * -1.0,"),
    "first is the lowest key": ("1 << keys.bit_length() - 1", "keys & -keys"),
    "inclusion wins": ("return keys & ~excluded", "return keys"),
    "guards that leak": ("LOCAL.reset(token)", "pass"),
    "the guard is forgotten while recording": ("keys & AUTOGRAD - 1, *args", "keys, *args"),
    "slots are never forgotten": ("op.table.clear()", "pass"),
    "composites are overlooked": ("if COMPOSITE in self.kernels", "if None in self.kernels"),
    "late installers miss the early blocks": ("for op, facets in BLOCKS:", "for op, facets in BLOCKS[:0]:"),
    "late blocks miss the installers": ("for install in INSTALLERS:", "for install in INSTALLERS[:0]:"),
    "nodes do not wait for their consumers": ("if not waiting[edge]:", "if True:"),
    "shares are not summed": ("sums[edge] + share if edge in sums else share", "share"),
    "broadcasting is not undone": ("share if share.data.shape == edge.shape else total(share)", "share"),
    "second order is not recorded": ("NONE if create_graph else AUTOGRAD", "AUTOGRAD"),
    "the copy over forgets the order": ("Tensor(np.flip(arg.data))", "Tensor(arg.data)"),
    "the log jumps over Autograd": ("return op.redispatch(keys & LOG - 1, ", "return op.redispatch(CPU, "),
    "the log shuts out the calls below": ("keys & LOG - 1, *args", "LOCAL.set((NONE, LOG)) and keys & LOG - 1, *args"),
}


def _run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # -I: neither the working folder nor the environment can lend it tenkey from the checkout.
    command = [sys.executable, "-I", "-W", "error", str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=60, check=False)


def test_runs_alone_and_prints_its_claims(tmp_path: Path) -> None:
    result = _run(MINIATURE, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    positions = [lines.index(line) for line in IMPORTANT_LINES if line in lines]
    assert [lines[position] for position in positions] == IMPORTANT_LINES
    assert positions == sorted(positions)
    assert not list(tmp_path.iterdir())


def test_is_short_and_imports_only_the_standard_library_and_numpy() -> None:
    text = MINIATURE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    modules: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    assert modules <= sys.stdlib_module_names | {"numpy"}
    assert "numpy" in modules


@pytest.mark.parametrize("fault", only_full([*FAULTS], [*FAULTS][::4]))
def test_a_fault_is_noticed(fault: str, tmp_path: Path) -> None:
    right, wrong = FAULTS[fault]
    text = MINIATURE.read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{right!r} must stand in the miniature exactly once"
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    result = _run(broken, tmp_path)
    assert result.returncode == 1
    assert "All claims hold." not in result.stdout
