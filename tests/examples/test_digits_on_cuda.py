"""The main job on the emulated device: the same losses as on the CPU."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")
pytest.importorskip("sklearn", reason="has the digits")
pytest.importorskip("matplotlib", reason="draws the result")
pytest.importorskip("tqdm", reason="shows the progress")

import tenkey as tk
from tests._registry import registry_as_before

DIGITS = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.mark.full
def test_losses_are_those_of_the_cpu() -> None:
    found = {}
    with registry_as_before(), tk.testing.cuda_emulator(), tk.backends.strict_fallback():
        example = runpy.run_path(str(DIGITS))
        for device in ("cpu", "cuda"):
            tk.random.seed(0)
            images, numbers, *_ = example["load"](device)
            parameters = example["new_parameters"](device)
            losses = example["train"](parameters, images[:96], numbers[:96], epochs=2)
            found[device] = losses, [parameter.detach().cpu().numpy() for parameter in parameters]
    assert found["cpu"][0][1] < found["cpu"][0][0]
    np.testing.assert_allclose(found["cuda"][0], found["cpu"][0], rtol=1e-5)
    for expected, given in zip(found["cpu"][1], found["cuda"][1], strict=True):
        np.testing.assert_allclose(given, expected, atol=1e-5)
