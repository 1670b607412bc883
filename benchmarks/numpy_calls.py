"""Small calls of ``tenkey.numpy`` beside NumPy: ``python -m benchmarks.numpy_calls``.

Sixty functions, operators and indexes on arrays of 4 and 4 x 4 float64 numbers, without gradients: what a program of
small arrays consists of; and some on 400 x 400 numbers. Contestants are interleaved: see Note [Interleaved measurement]
in benchmarks/_harness.py.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tenkey.numpy as tnp
from benchmarks._harness import Row, Work, measure_rows, parse_options
from benchmarks._tables import describe_machine, format_table, targets_of, write_json

__all__ = ["CALLS", "main"]

CALLS: Final = (
    "np.add(a, b)", "a - b", "a * 2.0", "a / b", "a**2", "-a", "abs(a)", "a == b", "a < b", "np.exp(a)", "np.log(p)",
    "np.sqrt(p)", "np.sin(a)", "np.tanh(a)", "np.maximum(a, b)", "np.isnan(a)", "np.floor(a)", "np.sign(a)",
    "np.sum(m)", "np.sum(m, axis=0)", "a.sum()", "np.mean(m)", "np.mean(m, axis=1)", "np.std(m)", "np.var(m)",
    "np.prod(a)", "np.max(m)", "np.min(m, axis=0)", "np.argmax(a)", "np.all(c)", "np.any(c)", "np.cumsum(a)",
    "np.dot(a, b)", "m @ m", "np.outer(a, b)", "np.einsum('ij,j->i', m, a)", "np.where(c, a, b)", "np.clip(a, 0, 1)",
    "np.round(a)", "np.concatenate([a, b])", "np.stack([a, b])", "np.reshape(m, (16,))", "m.T",
    "np.expand_dims(a, 0)", "np.broadcast_to(a, (4, 4))", "np.zeros(4)", "np.ones((4, 4))", "np.arange(4)",
    "np.linspace(0, 1, 4)", "np.array([1.0, 2.0, 3.0])", "np.sort(a)", "np.argsort(a)", "np.repeat(a, 2)",
    "np.tile(a, 2)", "m[1]", "a[2]", "a[c]", "m[1:3, 0]", "np.linalg.norm(a)", "np.linalg.solve(d, a)",
    "np.linalg.inv(d)", "np.fft.fft(a)",
)  # fmt: skip
LARGE: Final = ("x**2", "x**-1.5", "x == y", "x > 1.0", "x + y", "np.exp(x)", "z[z > 1.0] = 1.2", "np.sum(x, axis=0)")
_TITLE: Final = "Small calls of tenkey.numpy"
_LARGE_TITLE: Final = "Calls of tenkey.numpy on 400 x 400 float64"


def _row(call: str) -> Row:
    rng = np.random.default_rng(0)
    square, many = rng.standard_normal((4, 4)), rng.random((400, 400)) + 0.5
    arrays = {
        "a": rng.standard_normal(4), "b": rng.standard_normal(4), "p": rng.random(4) + 0.5, "c": rng.random(4) > 0.5,
        "m": square, "d": square + 4 * np.eye(4), "x": many, "y": many[::-1], "z": many,
    }  # fmt: skip
    works: dict[str, Work] = {}
    for library, module in (("tenkey", tnp), ("NumPy", np)):
        namespace: Any = module  # each library allocates its arrays: their alignment decides about the speed of loops
        own = {
            name: namespace.asarray(x) if x.dtype == bool else namespace.asarray(x) * 1 for name, x in arrays.items()
        }
        works[library] = Work(call, {"np": module, **own})
    return Row(call, works)


def main() -> None:
    """Measure and print the table."""
    options = parse_options(__doc__ or "", rounds=15)
    machine = describe_machine(["tenkey", "numpy"])
    print(f"{machine}\n{options.heading}")
    results = measure_rows([_row(call) for call in CALLS], options)
    print("\n" + format_table(_TITLE, results, ["tenkey", "NumPy"], against=["NumPy"]))
    targets = targets_of(_TITLE, results, "NumPy", mean=0.75, worst=1.5)
    large = measure_rows([_row(call) for call in LARGE], options)
    print("\n" + format_table(_LARGE_TITLE, large, ["tenkey", "NumPy"], against=["NumPy"], spread=True))
    targets += targets_of(_LARGE_TITLE, large, "NumPy", mean=1.0, worst=1.0)
    print(*targets, sep="\n")
    if options.json is not None:
        write_json(options.json, machine, {_TITLE: results, _LARGE_TITLE: large}, targets)


if __name__ == "__main__":
    main()
