"""Programs as data: drawn at random, printed as source, and executed from that source."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from .operators import OPERATORS, Operator, spelled

__all__ = ["COMPILED", "MODES", "Input", "Program", "Step", "arrays_of", "define", "generate", "source", "used"]

MODES: Final = {
    "forward": 4, "backward": 4, "second": 2, "jvp": 2, "vmap": 2, "vmap of grad": 1, "jvp of grad": 1
}  # fmt: skip
"""Ways to run a program, and how often each is drawn."""
COMPILED: Final = ("off", "all", "on")
_DTYPES: Final = ("float32",) * 5 + ("float64",) * 4 + ("complex64", "complex128", "int64", "int32", "uint8", "bool")
_SHAPES: Final = ((), (1,), (3,), (4,), (2, 3), (3, 3), (2, 2), (1, 4), (2, 1, 3), (2, 3, 2), (0, 3), (9, 5))
_BATCH: Final = 3
_DRAWN: Final = [name for name, operator in OPERATORS.items() for _ in range(1 if operator.form == "fresh" else 2)]
_TRIES: Final = 25  # draws of one step, most of which do not fit the shapes


class Input(NamedTuple):
    """One input: ``values`` has ``_BATCH`` samples if it is ``batched``, which the modes of vmap use."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[Any, ...]
    differentiable: bool
    batched: bool


class Step(NamedTuple):
    """One operator call; ``target`` is the name of the result, ``""`` for a change in place."""

    target: str
    operator: str
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...] = ()


class Program(NamedTuple):
    """Inputs, steps, the names of the results with the kinds of their dtypes, and how to run it."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    results: tuple[tuple[str, str], ...]
    mode: str = "forward"
    threads: int = 1
    callers: int = 1
    compiled: str = "off"
    device: str = "cpu"


def arrays_of(program: Program) -> list[np.ndarray[Any, Any]]:
    """Return the inputs as arrays, with a leading dimension for batches in the modes of vmap."""
    batched = program.mode.startswith("vmap")
    found = []
    for given in program.inputs:
        whole = np.array(given.values, given.dtype)
        if given.batched:
            whole = whole.reshape((_BATCH, *given.shape))
            found.append(whole if batched else np.ascontiguousarray(whole[0]).reshape(given.shape))
        else:
            found.append(whole.reshape(given.shape))
    return found


def _line(step: Step, library: str) -> str:
    text = spelled(OPERATORS[step.operator], library).format(
        *step.operands, **{name: _dtype(value, library) for name, value in step.attributes}
    )
    return text if not step.target else f"{step.target} = {text}"


def _dtype(value: str, library: str) -> str:
    is_dtype = value.isidentifier() and value not in {"True", "False", "None"}
    return f"{library}.{value}" if is_dtype and not (library == "np" and value == "bool") else value


def source(program: Program, library: str, *, observed: bool = False) -> str:
    """Return the functions ``program`` and ``loss`` as source; ``observed`` shows every result to ``seen``."""
    names = ", ".join(given.name for given in program.inputs)
    lines = [f"def program({names}):"]
    for step in program.steps:
        lines.append(f"    {_line(step, library)}")
        if observed:
            name = step.target or step.operands[0]
            fresh = step.target != "" and OPERATORS[step.operator].form == "fresh"
            lines[-1] += f"; {name} = seen({name}, {fresh}, {not step.target}, {step.operator == 'std'})"
    lines.append(f"    return ({' '.join(f'{name},' for name, _ in program.results)})")
    terms = []
    for number, (_, kind) in enumerate(program.results):
        part = f"results[{number}]"
        if kind == "f":
            terms.append(f"{library}.sum({part} * weights({part}))")
        elif kind == "c":
            terms += [f"{library}.sum({library}.{side}({part}) * weights({part}))" for side in ("real", "imag")]
    lines += ["def loss(*inputs):", "    results = program(*inputs)", f"    return {' + '.join(terms) or '0.0'}"]
    return "\n".join(lines) + "\n"


def _diagonal(x: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """Return a diagonal as a view that may be written to, which NumPy does not give."""
    diagonal: np.ndarray[Any, Any] = np.einsum("ii...->i...", x[tuple(_corner(x, offset))])
    return diagonal.transpose(*range(1, x.ndim - 1), 0)


def _corner(x: np.ndarray[Any, Any], offset: int) -> list[slice]:
    rows, columns = x.shape[:2]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    return [slice(max(-offset, 0), max(-offset, 0) + length), slice(max(offset, 0), max(offset, 0) + length)]


def define(text: str, library: Any, name: str, **scope: Any) -> dict[str, Any]:
    """Execute a program's source, in which the library has this name; return its functions."""
    space = {name: library, "diagonal": _diagonal, **scope}
    exec(compile(text, "<program>", "exec"), space)
    return space


# ---- drawing


def generate(seed: int, number: int, block: int = 150) -> Program:
    """Draw the program of this number in the run of this seed; blocks of programs are compiled in the same way."""
    rng = random.Random(f"{seed} {number}")
    mode = rng.choices(list(MODES), list(MODES.values()))[0]
    inputs = _inputs(rng)
    values = {given.name: _wide(given) for given in inputs}
    owners = dict.fromkeys(values, True)  # whether a value is an input or a view of one
    steps: list[Step] = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rng.randint(1, 9)):
            step = _step(rng, values, owners, len(steps), allow_by_value="vmap" not in mode)
            if step is not None:
                steps.append(step)
    kinds = {step.target: values[step.target].dtype.kind for step in steps if step.target}
    changed = {step.operands[0] for step in steps if not step.target}
    results = {name: kind for name, kind in kinds.items() if name in changed or rng.random() < 0.4}
    results |= dict(list(kinds.items())[-1:])
    differs = any(name in results and kinds[name] in "fc" for name in _dependent(inputs, steps, kinds))
    if not differs and mode not in {"forward", "vmap"}:
        mode = "forward"
    return Program(
        inputs, tuple(steps), tuple(results.items()), mode, rng.randint(1, 4), rng.choice((1, 1, 1, 2, 4)),
        COMPILED[number // block % len(COMPILED)],
    )  # fmt: skip


def _dependent(inputs: tuple[Input, ...], steps: list[Step], kinds: dict[str, str]) -> set[str]:
    """Return the values that depend on a differentiable input, but for views of what is changed later."""
    found = {given.name for given in inputs if given.differentiable}
    for step in steps:
        if found & set(step.operands) and step.operator != "detach":
            name = step.target or step.operands[0]
            found |= {name} if kinds.get(name, "f") in "fc" else set()
    return found


def _inputs(rng: random.Random) -> tuple[Input, ...]:
    base = rng.choice(_SHAPES)
    found = []
    for number in range(rng.randint(1, 3)):
        shape = base[rng.randint(0, len(base)) if rng.random() < 0.25 else 0 :]
        shape = tuple(1 if rng.random() < 0.1 else n for n in shape)
        dtype = np.dtype(rng.choice(_DTYPES))
        batched = number == 0 or rng.random() < 0.7
        size = int(np.prod(shape)) * (_BATCH if batched else 1)
        draw: Callable[[], Any] = {
            "f": lambda: round(rng.uniform(-2, 2), 3), "i": lambda: rng.randint(-4, 4), "u": lambda: rng.randint(0, 5),
            "c": lambda: complex(round(rng.uniform(-2, 2), 2), round(rng.uniform(-2, 2), 2)),
            "b": lambda: rng.random() < 0.5,
        }[dtype.kind]  # fmt: skip
        values = tuple([draw() for _ in range(size)])
        differentiable = dtype.kind in "fc" and rng.random() < 0.85
        found.append(Input(f"x{number}", dtype.name, shape, values, differentiable, batched))
    return tuple(found)


def _wide(given: Input) -> np.ndarray[Any, Any]:
    one = np.array(given.values, given.dtype).reshape((_BATCH if given.batched else 1, *given.shape))[0]
    return np.array(one, {"f": "float64", "c": "complex128"}.get(one.dtype.kind))


def _step(
    rng: random.Random, values: dict[str, Any], owners: dict[str, bool], number: int, *, allow_by_value: bool
) -> Step | None:
    """Draw a step that fits the values so far, and carry it out on them with NumPy."""
    for _ in range(_TRIES):
        operator = OPERATORS[rng.choice(_DRAWN)]
        change = operator.form == "statement"
        if operator.by_value and not allow_by_value:
            continue
        operands: list[str] = []
        for kinds in operator.kinds:
            fitting = [name for name, value in values.items() if value.dtype.kind in kinds]
            if change and not operands:
                fitting = [name for name in fitting if not owners[name]]
            fitting = fitting[-2:] if rng.random() < 0.5 else fitting  # so that chains of steps arise
            operands += [rng.choice(fitting)] if fitting else []
        if len(operands) < len(operator.kinds):
            continue
        given = [values[name] for name in operands]
        attributes = operator.attributes(rng, given)
        if attributes is None:
            continue
        step = Step("" if change else f"v{number}", operator.name, tuple(operands), tuple(attributes.items()))
        made = _try(step, operator, values)
        if made is None:
            continue
        if not change:
            values[step.target] = made
            owners[step.target] = any(owners[name] and np.shares_memory(values[name], made) for name in operands)
        return step
    return None


def _try(step: Step, operator: Operator, values: dict[str, Any]) -> np.ndarray[Any, Any] | None:
    """Return what the step makes with NumPy, or None if it raises or leaves the range in which programs compute."""
    target = step.operands[0]
    kept: dict[str, Any] = {}
    if operator.form == "statement":
        if not values[target].flags.writeable:
            return None
        kept = {name: value.copy() for name, value in values.items() if value.flags.writeable}
    try:
        space: dict[str, Any] = {**values, "np": np, "diagonal": _diagonal}
        exec(_line(step, "np"), space)
        made = np.asarray(space[step.target or target])
    except Exception:  # the operands do not fit: another step is drawn
        return None
    if made.size > 200 or (made.size and made.dtype.kind in "fci" and not np.all(np.abs(made) < 1e4)):
        for name, value in kept.items():
            np.copyto(values[name], value)
        return None
    return made


def used(program: Program) -> Iterator[str]:
    """Yield the names of the operators in a program."""
    for step in program.steps:
        yield step.operator
