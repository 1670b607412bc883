"""What the CUDA kernels cost: the rules of ``tools/kernel_figures.py``, and the committed table.

After a change that was meant: ``python -m tools.kernel_figures --write``.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")
if shutil.which("cc") is None:
    pytest.skip("the emulator needs a C compiler", allow_module_level=True)

from tenkey.backends.cuda.compiling import Figures, KernelSource
from tools import kernel_figures
from tools.kernel_figures import EXCEPTIONS, broken_rules, changes, kernels_of_table, rows_of, table_text

_FINE = Figures("k", "sm_90", 32, 0, 0, 0, 4, 1, 2, 1, 0, 1.0)
_VECTOR = KernelSource("add_vector", "", ("uint32", "float32*", "float32*"))


def _problems(source: KernelSource = _VECTOR, **changed: Any) -> list[str]:
    return broken_rules([(source, _FINE._replace(**changed))])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"spills": 8}, "add_vector for sm_90: 8 bytes of spills"),
        ({"local": 16}, "add_vector for sm_90: 16 bytes of local memory"),
        ({"float64": 1}, "add_vector for sm_90: 1 float64 instructions"),
        ({"occupancy": 0.25}, "add_vector for sm_90: an occupancy of 0.25"),
        ({"wide_loads": 0, "wide_stores": 0}, "add_vector for sm_90: no access of 128 bits"),
    ],
)
def test_each_rule_can_be_broken(changed: dict[str, Any], message: str) -> None:
    assert _problems() == []
    assert _problems(**changed) == [message]


def test_what_the_rules_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _problems(KernelSource("add_vector", "", ("uint32", "float64*")), float64=9) == []
    assert _problems(KernelSource("add_row", "", ("uint32", "float32*")), wide_loads=0, wide_stores=0) == []
    assert _problems(KernelSource("add_vector", "", ("uint32", "uint8*")), wide_loads=0, wide_stores=0) == []
    is_finite = KernelSource("isfinite_vector", "", ("uint32", "uint8*", "int64*"))
    assert _problems(is_finite, loads=0, wide_loads=0, wide_stores=0) == [], "nothing is loaded"
    assert _problems(is_finite, wide_loads=0, wide_stores=0) == ["isfinite_vector for sm_90: no access of 128 bits"]
    for operand, problems in (("uint16*", 0), ("float32*", 1)):
        reduction = KernelSource("sum_combine_block_vector_float32", "", ("uint32", "float32*", operand))
        assert len(_problems(reduction, wide_loads=0, wide_stores=0)) == problems, "what it loads counts"
    monkeypatch.setitem(EXCEPTIONS, "local", {"add_*": "a reason"})
    assert _problems(local=16) == []
    assert _problems(spills=16) == ["add_vector for sm_90: 16 bytes of spills"]


def test_exceptions_have_reasons() -> None:
    assert EXCEPTIONS.keys() == {"spills", "local", "float64", "occupancy", "vector"}
    assert all(len(reason) > 20 for patterns in EXCEPTIONS.values() for reason in patterns.values())


def test_a_change_of_a_figure_is_shown() -> None:
    before = table_text([(_VECTOR, _FINE), (_VECTOR, _FINE._replace(kernel="other"))])
    after = table_text([(_VECTOR, _FINE._replace(registers=40)), (_VECTOR, _FINE._replace(kernel="other"))])
    assert changes(before, before) == []
    assert changes(after, before) == [
        "- k sm_90 32 0 0 0 4 1 2 1 0 1.00",
        "+ k sm_90 40 0 0 0 4 1 2 1 0 1.00",
    ]
    assert changes(before.replace("numba_cuda ", "numba_cuda 0"), before) is None


_FAST = {"float32": ("add", "argmax", "exp", "sum", "take")}


def test_some_kernels_keep_the_rules() -> None:
    rows = rows_of(kernels_of_table(_FAST), ((9, 0),))
    assert len(rows) >= 15
    assert broken_rules(rows) == []


@pytest.mark.full
def test_the_kernels_of_the_table() -> None:
    """They keep the rules and cost what the table says, on each architecture."""
    rows = rows_of(kernels_of_table())
    assert len(rows) >= 300
    assert broken_rules(rows) == []
    found = changes(table_text(rows), kernel_figures.TABLE.read_text(encoding="utf-8"))
    if found is None:
        pytest.skip("the table was made with other versions of the compilers")
    assert found == [], "python -m tools.kernel_figures --write renews the table"


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "complex64"])
def test_the_kernels_of_all_operators(dtype: str) -> None:
    assert broken_rules(rows_of(kernels_of_table({dtype: ("*",)}), ((9, 0),))) == []
