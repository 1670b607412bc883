"""Random programs with in-place changes, run by tenkey and by PyTorch: ``python -m tools.inplace_programs``.

Each program takes a leaf, calls functions, makes views and changes tensors in place, and differentiates a sum of what
it has made. Programs that PyTorch differentiates and tenkey refuses, because it saved a tensor that PyTorch did not
save, are counted by the node that refuses; different gradients are shown whole. What remains are the calls that
``tests/operators/test_saved_tensors.py`` justifies, and NaN that PyTorch masks. Needs ``pip install torch==2.13.0``.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch

import tenkey as tk

__all__ = ["Program", "main"]

# Statements for both libraries; {0} and {1} are tensors of shape (3, 4), or views of that shape.
_CALLS = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} ** 2", "{0} / 1.1", "{0} * 1.1", "1.1 / {0}", "-{0}",
    "{0} ** {1}", "xp.maximum({0}, {1})", "xp.minimum({0}, {1})", "xp.exp({0})", "xp.log({0})", "xp.sqrt({0})",
    "xp.rsqrt({0})", "xp.sin({0})", "xp.cos({0})", "xp.tanh({0})", "xp.sigmoid({0})", "xp.relu({0})", "xp.abs({0})",
    "xp.reciprocal({0})", "xp.square({0})", "xp.clip({0}, 0.3, 0.8)", "xp.where({0} > {1}, {0}, {1})",
    "xp.softmax({0}, {axis}=1)", "xp.log_softmax({0}, {axis}=0)", "xp.cumsum({0}, 0)", "{0} - xp.mean({0})",
    "{0} * xp.sum({0}, {axis}=0)", "{0} / xp.sum({0}, {axis}=1, {keepdims}=True)", "{0} * {max}({0}, {axis}=0)",
    "{0} - xp.logsumexp({0}, {axis}=1, {keepdims}=True)", "xp.hypot({0}, {1})", "xp.atan2({0}, {1})",
    "xp.nan_to_num({0})", "{sort}", "xp.flip({0}, (0,))", "{0}[[2, 0, 1]]", "xp.tril({0})", "{0} @ {1}.T @ {0}",
    "xp.{concat}([{0}[:1], {1}[:2]])", "xp.log1p({0})", "xp.atan({0})", "xp.fmod({0}, {1})", "{0}.clone()",
    "xp.prod({0}, {axis}=0) + {1}", "{0} * xp.var({0}, correction=1)", "{0} * xp.std({0}, {axis}=0, correction=1)",
    "xp.logaddexp({0}, {1})",
    "xp.expm1({0})", "xp.special.erf({0})", "xp.special.erfinv({0} * 0.9)", "xp.roll({0}, 1, 0)", "xp.acos({0})",
    "xp.sinh({0})", "xp.tan({0})", "xp.asinh({0})", "xp.log2({0})", "xp.exp2({0})", "xp.special.logit({0})",
    "xp.special.xlogy({0}, {1})", "xp.where({0} > 0.5, {0}, 0.0)", "xp.masked_fill({0}, {1} > 0.5, 0.1)",
    "{0}[{1} > 0.5].sum() + {0}", "xp.fmax({0}, {1})", "xp.linalg.inv({0} @ {0}.T + 3.0) @ {0}",
    "xp.linalg.det({0} @ {1}.T) * {0}", "xp.linalg.vector_norm({0}, {axis}=0) + {1}", "xp.linalg.qr({0}.T)[1] @ {1}",
    "xp.linalg.svd({0}, full_matrices=False)[1][:, None] * {1}", "xp.linalg.svdvals({0})[:, None] * {1}",
    "xp.linalg.cross({0}.T, {1}.T).T", "xp.outer({0}[0], {1}[1])[:3]", "xp.einsum('ij,ij->ij', {0}, {1})",
    "xp.remainder({0}, {1})", "{0} % 0.4", "xp.copysign({0}, {1})", "2.0 ** {0}", "{0} ** 3", "{0} ** 0.5",
    "xp.kron({0}[:1, :2], {1}[:, :2])", "xp.stack([{0}, {1}]).sum(0)", "xp.cumprod({0}, 0)",
    "xp.quantile({0}, 0.3) * {1}", "xp.fft.fft({0}).real", "xp.special.i0({0})", "xp.trapezoid({0}).sum() * {1}",
)  # fmt: skip
_VIEWS = ("{0}[:]", "{0}.T.T", "{0}.reshape((4, 3)).reshape((3, 4))", "{0}[0:3]")
_CHANGES = (
    "{0}.mul_({1})", "{0}.add_({1})", "{0}.sub_({1})", "{0}.div_({1})", "{0}.mul_(1.3)", "{0}.div_(1.3)",
    "{0}.add_(0.2)", "{0}.exp_()", "{0}.sin_()", "{0}.tanh_()", "{0}.sigmoid_()", "{0}.sqrt_()", "{0}.relu_()",
    "{0}.copy_({1})", "{0}.zero_()", "{0}.fill_(0.7)", "{0}.abs_()", "{0}.reciprocal_()", "{0}.square_()",
    "{0}[1] = {1}[0]", "{0}[:, 2] = 0.4", "{0}[0].mul_(2.0)", "{0}[1:].add_({1}[1:])", "{0} += {1}", "{0} *= 0.9",
    "{0}.log_()", "{0}.cos_()", "{0}.pow_(2)", "{0}.pow_({1})", "{0}.mul_(-1)", "{0}[{1} > 0.5] = 0.3",
    "{0}[[0, 2]] = {1}[[1, 1]]", "{0}.T.mul_({1}.T)", "{0}.reshape((12,))[2:5].add_(1.0)", "{0}.sub_({0})",
    "{0}.mul_({0})", "{0} **= 2",
)  # fmt: skip
_WORDS = {
    "tenkey": {"axis": "axis", "keepdims": "keepdims", "max": "xp.max", "concat": "concat"},
    "torch": {"axis": "dim", "keepdims": "keepdim", "max": "xp.amax", "concat": "cat"},
}
_SORT = {"tenkey": "xp.sort({0}, axis=0)", "torch": "xp.sort({0}, dim=0).values"}


class Program:
    """A random program: statements in which tensors are ``v0``, ``v1`` and so on; ``v0`` is the leaf.

    >>> program = Program(3)
    >>> set(program.run("tenkey")) == set(program.run("torch")) == {"gradient"}
    True
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.start = rng.permutation(np.linspace(0.2, 0.9, 12)).reshape(3, 4)
        self.other = rng.permutation(np.linspace(0.25, 0.95, 12)).reshape(3, 4)
        self.lines: list[tuple[str, str, str, str]] = []  # target, statement, operands
        count = 2
        for _ in range(int(rng.integers(3, 9))):
            first, second = [f"v{rng.integers(0, count)}" for _ in range(2)]
            kind = rng.random()
            if kind < 0.35 and count > 2:
                self.lines.append(("", str(rng.choice(_CHANGES)), f"v{rng.integers(2, count)}", second))
                continue
            self.lines.append((f"v{count} = ", str(rng.choice(_VIEWS if kind > 0.9 else _CALLS)), first, second))
            count += 1
        self.ends = [f"v{i}" for i in range(2, count) if rng.random() < 0.6] or [f"v{count - 1}"]

    def text(self, library: str) -> str:
        """Return the statements in the words of a library."""
        words = _WORDS[library]
        return "\n".join(
            [
                target + statement.replace("{sort}", _SORT[library]).format(first, second, **words)
                for target, statement, first, second in self.lines
            ]
        )

    def run(self, library: str) -> dict[str, Any]:
        """Return the gradient, or the error."""
        names: dict[str, Any] = {"xp": tk if library == "tenkey" else torch}
        make: Any = tk.asarray if library == "tenkey" else torch.from_numpy
        names |= {"v0": make(self.start.copy()).requires_grad_(), "v1": make(self.other.copy())}
        try:
            exec(self.text(library), names)
            total = sum(names[end].sum() for end in self.ends)
            if total.requires_grad:
                total.backward()
        except (RuntimeError, np.linalg.LinAlgError) as error:
            return {"error": str(error)}
        found = names["v0"].grad
        return {"gradient": np.zeros((3, 4)) if found is None else found.numpy()}


def main() -> None:
    """Run the programs and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=3, help="programs shown for each node that refuses alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    refused: dict[str, list[int]] = {}
    for seed in range(options.first, options.first + options.programs):
        program = Program(seed)
        ours, theirs = program.run("tenkey"), program.run("torch")
        kind = f"tenkey {next(iter(ours))}, PyTorch {next(iter(theirs))}"
        if "gradient" in ours and "gradient" in theirs:
            if (
                not np.allclose(ours["gradient"], theirs["gradient"], 1e-6, 1e-9, equal_nan=True)
                and not np.isnan(theirs["gradient"]).any()
            ):
                kind = "gradients differ"
                print(f"--- {kind}, seed {seed}\n{program.text('tenkey')}\n{ours} {theirs} {program.ends}")
        elif "error" in ours and "gradient" in theirs:
            refused.setdefault(ours["error"].partition(" of shape")[0], []).append(seed)
        counts[kind] += 1
    for kind, count in counts.most_common():
        print(f"{count:8} {kind}")
    for message, seeds in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"--- {len(seeds)} programs that PyTorch computes: {message}")
        for seed in seeds[: options.show]:
            program = Program(seed)
            print(f"seed {seed}, the sum of {', '.join(program.ends)}:\n{program.text('tenkey')}\n")


if __name__ == "__main__":
    main()
