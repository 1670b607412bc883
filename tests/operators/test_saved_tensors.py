"""What calls save for backward: at most what PyTorch saves, and only inputs and results that PyTorch saves too."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

import tenkey as tk
from benchmarks.memory import PROGRAMS, traced_peak
from tenkey.autograd.graph import saved_tensors_hooks
from tenkey.core.tensor import Tensor
from tests.operators._saved_cases import CASES, PEAK_SIZE, TABLE, operands, roles_of, wanted

_TABLE: Final = json.loads(TABLE.read_text())

# Calls that keep another tensor than PyTorch's, or more bytes.
_TIES = "equal elements share the gradient, which takes more than the places of the chosen ones"
_LATER = "computes its factors in backward, from the input, and PyTorch in forward"
_JUSTIFIED: Final[dict[str, str]] = {
    "cross_entropy": "keeps the logits, and PyTorch its logarithms of the softmax, a tensor more",
    "expm1": "PyTorch's out + 1 has lost all digits of exp(x) where x is far below 0",
    "special_erfinv": "keeps the result, and PyTorch the input, of which backward computes the result again",
    "special_ndtr": "keeps the input, and PyTorch's composition a third tensor",
    "divide a number": "keeps the input, and PyTorch's composition a third tensor",
    "copysign": "keeps both inputs, and PyTorch an input and the result",
    "scatter": "keeps the numbers of the rows too",
    "median of an axis": _TIES,
    "topk": _TIES,
    "quantile": _TIES,
    "svdvals": _LATER,
    "eigvalsh": _LATER,
}


def _memory(tensor: Tensor) -> tuple[int, int]:
    return tensor.detach().numpy().__array_interface__["data"][0], tensor.nbytes


def _saved(expression: str, need: tuple[str, ...]) -> dict[str, int]:
    known: dict[str, Any] = {name: tk.asarray(array) for name, array in operands().items()}
    known["c"] = known["x"] + 1j * known["y"]
    for name in need:
        known[name].requires_grad_()
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.detach())
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda t: t):
        out = eval(expression, {**known, "xp": tk})
    return roles_of([_memory(t) for t in kept], {n: _memory(t) for n, t in known.items()}, [_memory(out)])


@pytest.mark.parametrize("name", CASES)
def test_no_more_is_saved_than_by_pytorch(name: str) -> None:
    ours, _ = CASES[name]
    different = []
    for need in wanted(ours):
        case = f"{name} by {', '.join(need)}"
        theirs = _TABLE[case]
        found = _saved(ours, need)
        extra = {role for role in found if role != "other" and role not in theirs}
        if sum(found.values()) > sum(theirs.values()) or extra:
            different.append(f"{case}: {found}, PyTorch {theirs}")
    assert bool(different) == (name in _JUSTIFIED), different


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peak_is_at_most_that_of_pytorch(name: str) -> None:
    step = PROGRAMS[name](tk, PEAK_SIZE)
    step()
    assert traced_peak(step) <= _TABLE[f"peak of a {name}"]


def test_the_table_has_the_cases() -> None:
    cases = {f"{name} by {', '.join(need)}" for name, (ours, _) in CASES.items() for need in wanted(ours)}
    assert _TABLE.keys() - {"source"} == cases | {f"peak of a {name}" for name in PROGRAMS}
    assert _JUSTIFIED.keys() <= CASES.keys()
