"""Every example runs as its reader runs it, prints what it promises, and stays short.

The miniature has a test of its own, `test_example_miniature.py`. The examples assert their own claims; some faults are
put into them here, one at a time, because a claim that cannot fail would teach nothing.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from tests._registry import registry_as_before

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = {
    "checkpoint_memory.py": 112,
    "cuda_operator.py": 176,
    "digits.py": 160,
    "custom_operator.py": 170,
    "custom_backend.py": 136,
    "dispatcher_from_scratch.py": 299,
    "native_operator.py": 145,
    "profile_training.py": 116,
}

# In `-c`: run the first argument as a script, on a device that is no part of tenkey and has no kernel.
ON_ANOTHER_DEVICE = """
import runpy, sys
import numpy as np, tenkey as tk

class Elsewhere(tk.backends.Backend):
    name = "elsewhere"
    def allocate(self, nbytes, device=0): return bytearray(nbytes)
    def free(self, buffer): pass
    def copy_from_host(self, buffer, array): buffer[: array.size] = array.tobytes()
    def copy_to_host(self, buffer, array): array[:] = np.frombuffer(buffer, np.uint8, array.size)

tk.backends.register(Elsewhere())
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
print(tk.backends.coverage("elsewhere"))
"""


def run(*arguments: str | Path, folder: Path, cold: bool = False) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``; ``cold``: without any kernel that was compiled before."""
    environment = dict(os.environ)
    if cold:
        environment["TENKEY_CACHE_DIR"] = str(folder / "kernels")
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


def refuses(name: str, options: tuple[str, ...], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call ``main()`` of an example in this process: a process for each option would only import."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, *options])
    said = io.StringIO()
    with registry_as_before(), redirect_stderr(said), pytest.raises((SystemExit, ValueError)) as caught:
        runpy.run_path(str(EXAMPLES / name), run_name="example")["main"]()
    assert message in f"{said.getvalue()}{caught.value}"
    assert not list(folder.iterdir())


def digits(folder: Path, *options: str, cold: bool = False) -> list[str]:
    """The lines that the main job prints."""
    # Warnings about the numbers are errors; what the libraries for data and drawing warn of is not ours.
    result = run("-W", "error::RuntimeWarning", EXAMPLES / "digits.py", *options, folder=folder, cold=cold)
    assert result.returncode == 0, result.stderr
    return [*result.stdout.splitlines(), *re.split(r"[\r\n]+", result.stderr)]


def accuracy(lines: list[str]) -> float:
    (line,) = [line for line in lines if line.startswith("Test accuracy: ")]
    found = re.fullmatch(r"Test accuracy: (\d\.\d{4}) on the 359 held-out digits\.", line)
    assert found is not None, line
    return float(found[1])


def in_order(lines: list[str], expected: list[str]) -> None:
    """Each of ``expected`` is the beginning of a line, in this order."""
    rest = iter(lines)
    for text in expected:
        assert any(line.strip().startswith(text) for line in rest), f"{text!r} is missing or too early"


def test_digits_learns_explains_and_draws(tmp_path: Path) -> None:
    lines = digits(tmp_path, cold=True)
    in_order(
        lines,
        [
            "1438 digits to learn from, 359 held out, on device 'cpu'.",
            "Network: 64 pixels -> 128 mish -> 10 digits, 9,610 parameters.",
            "How a call of mish, the operator that this file registered, finds its kernel:",
            "explain digits::mish(Tensor x) -> Tensor",
            "defined at ",
            "argument x: ",
            "AutogradCPU: handles the call",
            "it records a node and redispatches to the keys below:",
            "CPU: handles the call",
            "Loss fell from ",
            "Test accuracy: ",
            "Drew digits.png.",
            "training: 100%",
        ],
    )
    assert accuracy(lines) >= 0.97
    (line,) = [line for line in lines if line.startswith("Loss fell from ")]
    first, last = map(float, re.findall(r"\d+\.\d+", line))
    assert last < first / 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.png", "kernels"]
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = matplotlib.image.imread(tmp_path / "digits.png")
    height, width = picture.shape[:2]
    assert 800 <= width <= 2400
    assert 400 <= height <= 1600
    left, right = picture[:, : width // 2, :3], picture[:, width // 2 :, :3]
    blue, black, red_or_green = np.array([31, 119, 180]) / 255, 0.1, 0.3
    assert np.sum(np.all(np.abs(left - blue) < 0.05, axis=-1)) > 500  # the curve
    assert np.mean(np.all(right < black, axis=-1)) > 0.05  # ink of the digits
    assert np.sum(right.max(axis=-1) - right.min(axis=-1) > red_or_green) > 100  # the answers above them


@pytest.mark.full
@pytest.mark.parametrize("seed", ["1", "2024"])
def test_digits_learns_from_any_seed(seed: str, tmp_path: Path) -> None:
    assert accuracy(digits(tmp_path, "--seed", seed, "--out", "pictures/out.png")) >= 0.97
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["out.png"]


@pytest.mark.full
def test_digits_runs_on_another_device(tmp_path: Path) -> None:
    script = ("-W", "error::RuntimeWarning", "-c", ON_ANOTHER_DEVICE, EXAMPLES / "digits.py")
    result = run(*script, "--device", "elsewhere", "--epochs", "3", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    in_order(lines, ["1438 digits to learn from, 359 held out, on device 'elsewhere'.", "coverage of 'elsewhere'"])
    assert accuracy(lines) >= 0.9
    for name in ("digits::mish", "tk::matmul"):
        assert re.search(rf"^    {name} x\d+: ", result.stdout, re.MULTILINE), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epochs", "0"), "--epochs must be at least 1, got 0"),
        (("--device", "nowhere"), "unknown device 'nowhere'"),
        (("--seed", "-1"), "a seed is an integer in [0, 2**64)"),
    ],
)
def test_digits_refuses(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses("digits.py", options, message, tmp_path, monkeypatch)


def test_custom_operator(tmp_path: Path) -> None:
    result = run("-W", "error", EXAMPLES / "custom_operator.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    in_order(
        result.stdout.splitlines(),
        [
            "1. One expression: tk.library.pointwise",
            "ok: the derivatives found symbolically agree with differences",
            "ok: so do the second derivatives",
            "explain demo::bump(Tensor x, Tensor y, float width=1.0) -> Tensor",
            "2. A Python function: tk.library.custom_op",
            "Without a formula there is no gradient:",
            "NotImplementedError: [demo::discounted] derivative is not implemented",
            "ok: with a formula there is",
            "ok: shapes without values",
            "3. A library: schema, kernels and rules one by one",
            "MissingKernelError: [geometry::length] has no kernel for cpu.",
            "the default kernel:   [5.0, inf]",
            "ok: it was called for a plane, and is not called for space",
            "OperatorAttributeError: [tk.ops] there are no operators",
            "4. What errors look like",
            "SchemaError: ",
            "RegistrationError: [demo::bump] is defined already",
            "ScalarTraceError: [demo::g]",
            "RegistrationError: [demo::discounted",
            "DeviceMismatchError: [demo::bump] got tensors on different devices (cpu and meta)",
            "ValueError: [bump] the shapes (3, 1) and (2, 2)",
            "GradcheckError: [gradcheck] Jacobian mismatch",
            "All claims hold.",
        ],
    )
    assert not list(tmp_path.iterdir())


def test_custom_backend(tmp_path: Path) -> None:
    result = run("-W", "error", EXAMPLES / "custom_backend.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    in_order(
        result.stdout.splitlines(),
        [
            "tensor([[1., 2.],",
            "Loss after training: ",
            "coverage of 'toy'",
            "implemented (0):",
            "derived (",
            "fallback to the CPU (",
            "With five kernels: ",
            "Implemented: tk::add, tk::matmul, tk::multiply, tk::subtract, tk::tanh",
            "explain tk::tanh(Tensor x) -> Tensor",
            "explicit kernel pointwise_kernel.<locals>.kernel",
            "Runs on the device alone: [[8.0, 12.0], [18.0, 26.0]]",
            "[tk::exp] would fall back to the CPU on 'toy'",
            "Bytes that are still allocated: 0",
        ],
    )
    after, before = re.findall(r"and (\d+) instead of (\d+) calls on the CPU", result.stdout)[0]
    assert int(after) < int(before)
    assert not list(tmp_path.iterdir())


def test_profile_training(tmp_path: Path) -> None:
    result = run("-W", "error", EXAMPLES / "profile_training.py", "--out", "record", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    in_order(
        result.stdout.splitlines(),
        [
            "Loss: ",
            "What takes the time:",
            "Name ",
            "Self CPU time total: ",
            "What allocates the memory:",
            "Name ",
            "ok: every step is there",
            "ok: tanh ran once a step, and so did its node",
            "ok: each node is linked to its call by their sequence number",
            "ok: tanh ran inside of the model",
            "ok: the operators' own times add up to the whole",
            "ok: the steps left no memory behind",
            "Wrote ",
        ],
    )
    first, last = re.findall(r"\d+\.\d+", result.stdout)[:2]
    assert float(last) < float(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record"]
    folder = tmp_path / "record"
    assert sorted(path.name for path in folder.iterdir()) == ["graph.svg", "memory.csv", "trace.json"]
    trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    assert {"M", "X", "s", "f", "C"} == {event["ph"] for event in trace["traceEvents"]}
    assert "w1" in (folder / "graph.svg").read_text(encoding="utf-8")


def test_profile_training_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses("profile_training.py", ("--steps", "0"), "--steps must be at least 1, got 0", tmp_path, monkeypatch)


COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc or clang) on PATH")


@needs_compiler
def test_native_operator(tmp_path: Path) -> None:
    result = run("-W", "error", EXAMPLES / "native_operator.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    in_order(
        result.stdout.splitlines(),
        [
            "<custom operator activations::softplus(Tensor x, float slope=1.0) -> Tensor>",
            "ok: the values are those of NumPy",
            "ok: any memory layout will do",
            "ok: the gradient agrees with differences",
            "ok: so does the second one",
            "ok: integers are refused: [activations::softplus] is compiled for float32 or float64, ",
            "ok: a status code is an error: [activations::reciprocal] ",
            "a call with 16 elements: ",
        ],
    )
    assert not list(tmp_path.iterdir())


# The example, the text, and what replaces it.
FAULTS = {
    "a value": ("custom_operator.py", "s.exp(-(x * x + y * y)", "s.exp(-(x * x + y)"),
    "a recursion": ("custom_operator.py", "factor * values[..., t - 1]", "values[..., t - 1]"),
    "a backward": ("custom_operator.py", "tk.flip(g, axis=-1), ctx.factor), axis=-1)", "g, ctx.factor), axis=-1)"),
    "a default that is forgotten": ("custom_operator.py", "_, ctx.factor = inputs", "ctx.factor = 0.25"),
    "a shape": ("custom_operator.py", "return tk.empty_like(x)", "return tk.empty_like(x[0])"),
    "no error": ("custom_operator.py", "partials=lambda x: x)", "partials=lambda x: x + x)"),
    "a product": ("custom_backend.py", '"multiply": np.multiply', '"multiply": np.add'),
    "strides": ("custom_backend.py", "where.offset, where.strides)", "where.offset)"),
    "C": ("native_operator.py", "/ (1 + exp(-slope * x[i]))", "/ (1 + exp(slope * x[i]))"),
    "a second derivative": ("native_operator.py", "return g * g0 * s * (1 - s)", "return g * g0 * s * s"),
    "a dtype": ("native_operator.py", '"float64": "softplus_f64"', '"float64": "softplus_f32"'),
    "a name in the profile": ("profile_training.py", 'record_function("model")', 'record_function("modell")'),
    "memory": ("custom_backend.py", "self.live -= len(buffer)", "self.live -= 1"),
}


OFTEN = ("a recursion", "strides", "C", "a name in the profile")  # one of each example


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=[*[needs_compiler] * ("native" in file), *[pytest.mark.full] * (name not in OFTEN)])
        for name, (file, _, _) in FAULTS.items()
    ],
)
def test_a_fault_is_noticed(fault: str, tmp_path: Path) -> None:
    name, right, wrong = FAULTS[fault]
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{right!r} must stand in {name} exactly once"
    broken = tmp_path / name
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    result = run(broken, folder=tmp_path)
    assert result.returncode == 1
    assert "Error" in result.stderr


def test_examples_are_short_and_all_known() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lines.keys() == LONGEST.keys()
    assert {name: count for name, count in lines.items() if count > LONGEST[name]} == {}
