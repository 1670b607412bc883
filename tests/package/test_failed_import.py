"""Note [A failed import]: the import is interrupted in many places, each in a process of its own, and repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests._tiers import tier

_PROGRAM = """
import gc, os, sys
import numpy, platformdirs, typing_extensions  # an interrupted import of theirs is theirs to survive
{others}

def run(limit):
    count = 0
    def look(frame, event, argument):
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == limit:
                sys.setprofile(None)
                raise KeyboardInterrupt
    sys.setprofile(look)
    try:
        import tenkey
    finally:
        sys.setprofile(None)
    return count

def again(limit):
    try:
        run(limit)
    except KeyboardInterrupt:
        pass
    else:
        return ""  # the interrupt was lost in the callback of a weak reference
    import tenkey as tk
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    tk.sum(x * x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert type(numpy.exp(tk.zeros(2))) is tk.Tensor
    assert tk.linalg.inv(tk.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert tk.transforms.vmap(tk.sum)(tk.ones((2, 3))).tolist() == [3.0, 3.0]
    if {einops}:
        import einops
        assert type(einops.rearrange(tk.ones((2, 3)), "a b -> b a")) is tk.Tensor
    if not (child := os.fork()):  # what a failed import has registered for forks does no harm
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    gc.collect()
    assert gc.isenabled() and gc.get_threshold() == threshold
    return ""

def in_a_process(call):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(call())
        except BaseException as error:
            said = f"{{type(error).__name__}}: {{error}}"
        os.write(write, said[:500].encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as end:
        return end.read()

threshold = gc.get_threshold()
sys.unraisablehook = lambda info: None
total = [int(in_a_process(lambda: run(-1))) for _ in "12"][1]  # the first one may compile modules
places = [1 + int(total * (i + 0.5) / {places}) for i in range({places})]
for place in places:
    if said := in_a_process(lambda: again(place)):
        print(f"{{place}} of {{total}}: {{said}}")
"""


@pytest.mark.wider
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied after NumPy has been imported")
def test_it_can_be_repeated() -> None:
    known = [name for name in ("ml_dtypes", "einops") if find_spec(name) is not None]
    others = "".join(f"import {name}\n" for name in known)
    program = _PROGRAM.format(others=others, einops="einops" in known, places=tier(3, 30))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_reload_keeps_the_classes() -> None:
    program = "import importlib, tenkey\nbefore = tenkey.Tensor\nassert importlib.reload(tenkey).Tensor is before"
    subprocess.run([sys.executable, "-c", program], check=True)
