"""Memory traded for computation: what a deep chain of layers keeps for backward, with and without checkpoints.

    python examples/checkpoint_memory.py [depth]

A layer in this example saves three results of one size, so a chain of n layers keeps 3 n pieces. With a checkpoint
around every k layers, the graph keeps the inputs of the n / k groups and, while a group is recomputed, what its k
layers save: n / k + 3 k pieces, of the order of sqrt(n) if k is. Each layer is then computed twice. Nested checkpoints,
each around one half of the enclosing one, need pieces of the order of log(n) and compute a layer up to log2(n) times. A
policy keeps expensive results: if the results of the matrix products are kept, there is one more piece per layer, and
no product is recomputed.

The bytes are counted by tracemalloc, to which NumPy reports the memory of its arrays.
"""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TENKEY_COMPILE", "off")  # the memory of the compiler would be counted too

import tenkey as tk
from tenkey.autograd import checkpoint, checkpoint_policies

ROWS, WIDTH = 1024, 16
PIECE = ROWS * WIDTH * 4  # bytes of one result
keep_products = checkpoint_policies.save_only_these_operators(tk.matmul)
computed = [0]


def layer(x: tk.Tensor, w: tk.Tensor) -> tk.Tensor:
    """Compute a layer, which saves x for the product and both factors: three pieces."""
    computed[0] += 1
    y = x @ w
    return tk.tanh(y) * tk.sigmoid(y)


def chain(x: tk.Tensor, weights: list[tk.Tensor]) -> tk.Tensor:
    """Compute all layers in order."""
    for w in weights:
        x = layer(x, w)
    return x


def in_groups(x: tk.Tensor, weights: list[tk.Tensor], size: int, context_fn: Any = None) -> tk.Tensor:
    """Compute all layers with a checkpoint around every ``size`` of them."""
    for start in range(0, len(weights), size):
        x = checkpoint(chain, x, weights[start : start + size], context_fn=context_fn)
    return x


def halved(x: tk.Tensor, weights: list[tk.Tensor]) -> tk.Tensor:
    """Compute all layers with nested checkpoints, each around one half of the enclosing one."""
    if len(weights) == 1:
        return layer(x, weights[0])
    middle = len(weights) // 2
    for part in (weights[:middle], weights[middle:]):
        x = checkpoint(halved, x, part)
    return x


def measure(function: Callable[..., tk.Tensor], x: tk.Tensor, weights: list[tk.Tensor]) -> Any:
    """Return the bytes kept after forward, the peak, the number of runs per layer, and the gradients."""
    tk.autograd.grad(tk.sum(function(x, weights)), weights)  # do not count what the first call creates
    computed[0] = 0
    tracemalloc.start()
    try:
        loss = tk.sum(function(x, weights))
        kept, _ = tracemalloc.get_traced_memory()
        gradients = tk.autograd.grad(loss, weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept, peak, computed[0] / len(weights), gradients


def ways(depth: int) -> dict[str, Callable[..., tk.Tensor]]:
    """Return the name and function of each way to run the chain."""
    root = round(depth**0.5)
    return {
        "nothing recomputed": chain,
        f"groups of {root}": lambda x, weights: in_groups(x, weights, root),
        f"groups of {root}, products kept": lambda x, weights: in_groups(x, weights, root, keep_products),
        "halved again and again": halved,
    }


def main(depth: int = 36) -> dict[str, tuple[float, float, float]]:
    """Print a table; return for each way the pieces kept, their peak, and the number of runs per layer."""
    tk.random.seed(0)
    x = tk.random.normal((ROWS, WIDTH))
    weights = [(2 * tk.random.normal((WIDTH, WIDTH)) / WIDTH**0.5).requires_grad_() for _ in range(depth)]
    print(f"{depth} layers; a result has {PIECE // 1024} KiB")
    print(f"{'in units of one result':30}{'kept':>8}{'peak':>8}{'runs of a layer':>18}")
    found = {}
    reference = None
    for name, function in ways(depth).items():
        kept, peak, runs, gradients = measure(function, x, weights)
        print(f"{name:30}{kept / PIECE:8.1f}{peak / PIECE:8.1f}{runs:18.1f}")
        found[name] = (kept / PIECE, peak / PIECE, runs)
        reference = reference or gradients
        for got, wanted in zip(gradients, reference, strict=True):
            assert tk.all(got == wanted), "the gradients are the same to the last bit"
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
