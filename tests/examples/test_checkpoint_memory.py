"""examples/checkpoint_memory.py: measured bytes fall as it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint_memory.py"
MEASURE = """
import json, runpy, sys
example = runpy.run_path(sys.argv[1])
print("RESULT", json.dumps({depth: list(example["main"](depth).values()) for depth in (16, 64)}))
"""


@pytest.fixture(scope="module")
def measured() -> dict[int, list[list[float]]]:
    """For each depth and way: pieces kept, most pieces in use, runs of a layer."""
    environment = {**os.environ, "TENKEY_COMPILE": "off"}
    command = [sys.executable, "-c", MEASURE, str(EXAMPLE)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    return {int(depth): rows for depth, rows in json.loads(line.removeprefix("RESULT")).items()}


def test_without_checkpoints_memory_grows_with_depth(measured: dict[int, list[list[float]]]) -> None:
    for depth in (16, 64):
        kept, peak, runs = measured[depth][0]
        assert 3 * depth - 2 <= kept <= 3.1 * depth + 4
        assert kept <= peak <= 3.1 * depth + 10
        assert runs == 1


def test_groups_of_the_square_root_need_the_square_root(measured: dict[int, list[list[float]]]) -> None:
    for depth in (16, 64):
        root = depth**0.5
        kept, peak, runs = measured[depth][1]
        assert kept <= 1.2 * root + 2
        assert (
            peak <= 4 * root + 10
        )  # the inputs of the groups, three pieces for each layer of one, and what is at work
        assert runs == 2
    assert measured[64][1][1] < 2.3 * measured[16][1][1]  # four times the depth, twice the memory
    assert measured[64][0][1] > 3.5 * measured[16][0][1]


def test_a_policy_keeps_one_piece_for_each_layer(measured: dict[int, list[list[float]]]) -> None:
    for depth in (16, 64):
        groups, products = measured[depth][1], measured[depth][2]
        assert depth - 1 <= products[0] - groups[0] <= depth + 4
        assert products[2] == 2


def test_halving_needs_the_logarithm(measured: dict[int, list[list[float]]]) -> None:
    for depth, levels in ((16, 4), (64, 6)):
        kept, peak, runs = measured[depth][3]
        assert peak <= 4 * levels + 6
        assert 2 < runs <= levels
        assert kept <= levels + 8
