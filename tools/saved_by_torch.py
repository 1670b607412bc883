"""Write what PyTorch's operators save for backward: ``python -m tools.saved_by_torch``, with torch 2.13.0 installed.

The result is ``tests/operators/saved_by_torch.json``, which ``tests/operators/test_saved_tensors.py`` compares with
what tenkey saves. The calls are those of ``tests/operators/_saved_cases.py``; a pack hook sees the saved tensors. The
peaks are of the programs of ``benchmarks/memory.py``, as PyTorch's profiler sees them.
"""

from __future__ import annotations

import json
from typing import Any

import torch

from benchmarks.memory import PROGRAMS, traced_peak
from tests.operators._saved_cases import CASES, PEAK_SIZE, TABLE, operands, roles_of, wanted


def saved(expression: str, need: tuple[str, ...]) -> dict[str, int]:
    """Return the bytes that PyTorch saves of operands, result and others if the operands in ``need`` have a gradient.

    >>> sorted(saved("x * y", ("x",)))
    ['y']
    """
    known: dict[str, Any] = {name: torch.from_numpy(array.copy()) for name, array in operands().items()}
    known["c"] = torch.complex(known["x"], known["y"])
    for name in need:
        known[name].requires_grad_()
    kept: list[Any] = []

    def pack(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = eval(expression, {**known, "xp": torch})
    return roles_of([_memory(t) for t in kept], {n: _memory(t) for n, t in known.items()}, [_memory(out)])


def _memory(tensor: Any) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def main() -> None:
    """Measure every call and write the table."""
    table: dict[str, Any] = {"source": f"PyTorch {torch.__version__}, python -m tools.saved_by_torch"}
    for name, (_, expression) in CASES.items():
        for need in wanted(expression):
            table[f"{name} by {', '.join(need)}"] = saved(expression, need)
    for name, program in PROGRAMS.items():
        step = program(torch, PEAK_SIZE)
        step()
        table[f"peak of a {name}"] = traced_peak(step, torch)
    lines = [f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in table.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
