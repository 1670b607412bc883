"""Reduces a program that fails to a smaller one that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from .checking import Outcome, ours_text, tangents_of
from .programs import Input, Program, Step, arrays_of, source

__all__ = ["script", "shrink", "smaller"]

_P = TypeVar("_P")


def shrink(program: _P, kind: str, run: Callable[[_P], Any], checks: int, smaller: Callable[[_P], Iterable[_P]]) -> _P:
    """Return a smaller program whose outcome has the same kind, trying at most so many; it depends on nothing else."""
    left = checks
    progress = True
    while progress:
        progress = False
        for candidate in smaller(program):
            if left == 0:
                return program
            left -= 1
            if run(candidate).kind == kind:
                program, progress = candidate, True
                break
    return program


def smaller(program: Program) -> Iterator[Program]:
    """Yield programs with less: steps first, then results, threads, modes, inputs and values."""
    for step in reversed(program.steps):
        yield from _without(program, step)
    if len(program.results) > 1:
        for result in program.results:
            yield program._replace(results=(result,))
    for plainer in (
        program._replace(callers=1), program._replace(threads=1), program._replace(compiled="off"),
        program._replace(mode="forward"),
    ):  # fmt: skip
        if plainer != program:
            yield plainer
    simpler = {"second": "backward", "jvp of grad": "backward", "vmap of grad": "backward"}.get(program.mode)
    if simpler:
        yield program._replace(mode=simpler)
    named = {name for step in program.steps for name in step.operands}
    for number, given in enumerate(program.inputs):
        if given.name not in named and len(program.inputs) > 1:
            yield program._replace(inputs=(*program.inputs[:number], *program.inputs[number + 1 :]))
        for other in _simpler_inputs(given):
            yield program._replace(inputs=(*program.inputs[:number], other, *program.inputs[number + 1 :]))
    for axis in range(max((len(given.shape) for given in program.inputs), default=0)):
        yield from _narrower(program, axis)


def _without(program: Program, step: Step) -> Iterator[Program]:
    """Yield the program without a step: with an operand in place of its result, or without all that depends on it."""
    others = tuple([other for other in program.steps if other is not step])
    if not step.target:
        yield program._replace(steps=others)
        return
    gone = {step.target}
    rest = []
    for other in others:
        if gone & set(other.operands):
            gone |= {other.target} - {""}
        else:
            rest.append(other)
    results = tuple([result for result in program.results if result[0] not in gone])
    if results:
        yield program._replace(steps=tuple(rest), results=results)
    kept = tuple([result for result in program.results if result[0] != step.target])
    for operand in step.operands if kept else ():
        bypassed = [
            other._replace(operands=tuple([operand if name == step.target else name for name in other.operands]))
            for other in others
        ]
        yield program._replace(steps=tuple(bypassed), results=kept)


def _simpler_inputs(given: Input) -> Iterator[Input]:
    whole = np.array(given.values, given.dtype)
    if given.differentiable:
        yield given._replace(differentiable=False)
    if given.batched:
        one = whole[: int(np.prod(given.shape))]
        yield given._replace(batched=False, values=tuple(one.tolist()))
    if given.dtype in {"float32", "complex64", "int32", "uint8"}:
        dtype = {"complex64": "complex128", "float32": "float64"}.get(given.dtype, "int64")
        yield given._replace(dtype=dtype)
    if whole.dtype.kind == "c":
        yield given._replace(dtype="float64", values=tuple(whole.real.tolist()))
    shorter = np.round(whole, 1) if whole.dtype.kind in "fc" else whole
    for plain in (np.ones(whole.size), np.arange(whole.size) + 1.0, shorter):
        values = tuple(plain.astype(given.dtype).tolist())
        if values == given.values:
            return  # the others are less simple
        yield given._replace(values=values)


def _narrower(program: Program, axis: int) -> Iterator[Program]:
    """Yield the program with an axis, counted from the last, shortened in all inputs, or removed from them."""
    for remove in (True, False):
        inputs = []
        changed = False
        for given in program.inputs:
            place = len(given.shape) - 1 - axis
            if place < 0 or (given.shape[place] < 2 and not remove):
                inputs.append(given)
                continue
            lead = (-1,) if given.batched else ()
            whole = np.array(given.values, given.dtype).reshape((*lead, *given.shape)) if given.values else None
            if whole is None:
                inputs.append(given)
                continue
            length = 1 if remove else given.shape[place] - 1
            cut = np.take(whole, range(length), place + len(lead))
            middle = () if remove else (length,)
            shape = (*given.shape[:place], *middle, *given.shape[place + 1 :])
            inputs.append(given._replace(shape=shape, values=tuple(cut.reshape(-1).tolist())))
            changed = True
        if changed:
            yield program._replace(inputs=tuple(inputs))


# ---- scripts


def script(program: Program, outcome: Outcome) -> str:
    """Return a program that shows the failure and needs nothing of this tool."""
    lines = ["import numpy as np", "import tenkey as tk", ""]
    where = "" if program.device == "cpu" else f", device={program.device!r}"
    if program.compiled != "off":
        lines.insert(0, f"import os; os.environ['TENKEY_COMPILE'] = {program.compiled!r}")
    if program.device != "cpu":
        lines.append("tk.cuda.is_available() or tk.testing.cuda_emulator()")
    if program.threads > 1:
        lines.append(f"tk.set_num_threads({program.threads})")
    if "loss" in ours_text(program):
        lines.append(
            f"weights = lambda v: tk.asarray(np.cos(np.arange(v.size)).astype(np.float32).reshape(v.shape){where})"
        )
    arrays = arrays_of(program)
    named: list[tuple[str, Any]] = [(given.name, array) for given, array in zip(program.inputs, arrays)]
    text = ours_text(program)
    named += [(f"t{i}", t) for i, t in enumerate(tangents_of(program, arrays)) if f"t{i}" in text]
    for name, array in named:
        made = f"tk.tensor({array.tolist()}" if array.size else f"tk.zeros({array.shape}"
        lines.append(f"{name} = {made}, dtype=tk.{array.dtype}{where})")
    lines += ["", text.rstrip("\n"), "print(results)"]
    if program.callers > 1:
        lines.append(f"# run by {program.callers} threads at the same time")
    if outcome.expected:
        lines.append("# expected: " + "; ".join(repr(np.asarray(value).tolist()) for value in outcome.expected))
    lines += ["# the same with PyTorch:", *[f"#   {line}" for line in source(program, "torch").splitlines()]]
    return "\n".join(lines)
