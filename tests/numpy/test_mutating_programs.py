"""Programs that change arrays: what is a view, what is written to, and in which dtype, is as in NumPy."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np

import tenkey.numpy as tnp
from tests._tiers import each
from tests.numpy._outcomes import counterpart

# ---- programs that once differed from NumPy: what ``r`` and the arrays hold at the end is compared

PROGRAMS = (
    # results are combined in the common dtype of the operand and out=, and cast to any dtype
    "r = np.zeros(2, 'i4'); np.prod(np.array([[4.5, 5.6], [2.0, 3.0]], 'f2'), axis=0, out=r)",
    "x = np.arange(6.0).reshape(2, 3); np.sum(x, axis=-1, keepdims=True, out=x[:, 1:2])",
    "r = np.zeros(2, 'f4'); np.sum(np.array([[1e8, 1.0], [1.0, 2.0], [-1e8, 1.0]]), axis=0, out=r)",
    "r = np.zeros((2, 2), 'i4'); np.cumprod(np.array([[4.5, 5.6], [2.0, 3.0]], 'f2'), axis=0, out=r)",
    "r = np.zeros(2, 'i4'); np.max(np.array([[4.5, 5.6], [2.0, 9.0]]), axis=1, out=r)",
    "r = np.zeros(2, 'i4'); np.median(np.array([[4.5, 5.6], [2.0, 9.0]]), axis=1, out=r)",
    "r = np.zeros(2, 'i4'); np.var(np.array([[4.5, 9.6], [2.0, 9.0]]), axis=1, out=r)",
    "r = np.zeros(2, 'i2'); np.argmax(np.array([[4.5, 9.6], [2.0, 1.0]]), axis=1, out=r)",
    "r = np.zeros(2); np.argmax(np.array([[4.5, 9.6], [2.0, 1.0]]), axis=1, out=r)",
    # Python numbers as operands of products are arrays
    "r = np.dot(np.ones(2, 'f4'), 2.5)", "r = np.inner(2, np.ones(2, 'f4'))", "r = np.outer(np.ones(2, 'f2'), 2)",
    "r = np.kron(np.ones(2, 'f4'), 2)", "r = np.convolve(np.ones(2, 'f4'), 2.0)", "r = np.polyval(np.ones(2, 'f4'), 2)",
    "r = np.linspace(np.zeros(2, 'f4'), 1, 3)",
    # other arguments than the first have an influence on the dtype in which a function computes
    "r = np.quantile(np.array([0.5, 0.75], 'f4'), np.array([0.1, 0.2]))",
    "r = np.clip(np.ones(2, 'f4'), np.ones(2), 3)",
    "r = np.average(np.array([0.1, 0.7], 'f4'), weights=[1, 2])", "r = np.round(np.ones(2, 'f4'), np.int64(1))",
    "r = [np.astype(np.arange(3.0), kind) for kind in (float, float, int, complex, complex)]",
    # copies only where they are asked for or necessary
    "x = np.arange(6.0)[::2]; x.astype(float, copy=False)[0] = 7; np.asarray(x, float)[1] = 8",
    "x = np.ones((2, 3)).T; np.array(x, copy=None, dtype=float)[0] = 7; np.astype(x, float, copy=False)[1] = 8",
    # parts of complex numbers are views, and infinite parts can be assigned
    "x = np.array([1 + 2j, 3]); np.real(x)[0] = 7; np.imag(x)[1] = 5",
    "x = np.array([1 + 2j, 3]); x.real = [1, 2]; x.imag = [3, np.inf]; x.real += 1",
    "r = np.imag(np.ones(2)), np.real(np.ones(2))",
    # numbers
    "r = float(np.ones(2))", "r = int(np.zeros(0))", "r = float(np.array([1 + 2j])[0])",
    "r = np.array([2.5])[0].as_integer_ratio(), np.array([2.0])[0].is_integer(), np.array([3])[0].is_integer()",
    # results with leading axes of length 1, which generalized ufuncs drop and others refuse
    "x = np.arange(9.0).reshape(3, 3); x @= np.ones((1, 3, 3))", "x = np.ones((3, 3)); x @= np.ones((2, 3, 3))",
    "x = np.zeros(()); r = np.vecdot(np.ones((1, 3)), np.ones(3), out=x)", "x = np.ones(3); x += np.ones((1, 3))",
    "x = np.zeros(2); r = np.matvec(np.ones((1, 2, 3)), np.ones(3), out=x)",
    "x = np.zeros(()); r = np.matvec(np.ones((1, 3)), np.ones(3), out=x)",
    "x = np.zeros(()); r = np.matmul(np.ones((1, 3)), np.ones((3, 1)), out=x)",
    "x = np.zeros(3); r = np.matmul(np.ones((1, 3)), np.ones((3, 3)), out=x)",
    # size and protection
    "x = np.arange(6); x.resize(2, -3)",
    "x = np.arange(6)[:2]; x.resize(5)",
    "x = np.arange(3); x.setflags(write=False); r = x.flags.writeable; x.setflags(write=True); x[0] = 7",
    # empty arrays
    "r = np.median(np.array([])), np.median(np.zeros((3, 0)), axis=1)", "r = np.max(np.array([]))",
)  # fmt: skip
if sys.version_info < (3, 14):  # from then on NumPy refuses to resize what a global variable holds
    PROGRAMS += (
        "x = np.arange(6.0); x.resize((2, 3)); r = x.shape; x.resize(2, 4); x[1] += 1",
        "x = np.arange(6); x.resize(4); x.resize()",
    )


def _run(lines: list[str], module: Any) -> tuple[dict[str, Any], list[type[Exception] | None]]:
    """Return the variables of a program, and the class of the error of each line."""
    scope: dict[str, Any] = {"np": module}
    errors: list[type[Exception] | None] = []
    for line in lines:
        try:
            exec(line, scope)
        except Exception as error:  # of any class
            errors.append(type(error))
        else:
            errors.append(None)
    return {name: x for name, x in scope.items() if name[0] in "rvx"}, errors


def _same(mine: Any, its: Any) -> None:
    if isinstance(its, dict):
        _same(list(mine.items()), list(its.items()))
    elif isinstance(its, (list, tuple)):
        assert type(mine) is type(its)
        for one, other in zip(mine, its, strict=True):
            _same(one, other)
    elif isinstance(its, (np.ndarray, np.generic)):
        assert type(mine) is counterpart(its)
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape)
        rough = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(its.dtype.char, 1e-12)
        np.testing.assert_allclose(np.asarray(mine), its, rtol=rough, atol=rough)
    else:
        assert mine == its


def _compare(lines: list[str]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        (theirs, raised), (ours, mine) = _run(lines, np), _run(lines, tnp)
    for line, numpys, own in zip(lines, raised, mine, strict=True):
        assert (numpys is None) == (own is None), f"{line}: {numpys} in NumPy, {own} here"
    assert theirs.keys() == ours.keys()
    for name, value in theirs.items():
        _same(ours[name], value)


@each("program", PROGRAMS)
def test_programs(program: str) -> None:
    _compare([program])


# ---- random programs

_SHAPES = ("(4,)", "(6,)", "(2, 3)", "(3, 3)", "(1, 3)", "(2, 2, 2)", "(0,)")
_DTYPES = ("f8", "f8", "f8", "i8", "i8", "f4", "i4", "i1", "u1", "?", "c16", "u8", "f2")
_VIEWS = (
    "{x}[1:]", "{x}[::2]", "{x}[None]", "{x}[..., :2]", "{x}[:, :1]", "{x}[:1]", "{x}[[0]]", "{x}.T", "{x}.ravel()",
    "{x}.reshape(-1)", "{x}.flatten()", "{x}.copy()", "np.asarray({x})", "np.array({x})",
    "{x}.astype(float, copy=False)", "{x}.astype({x}.dtype, copy=False)", "np.squeeze({x})", "np.atleast_2d({x})",
    "{x}.real", "np.nan_to_num({x}, copy=False)", "np.swapaxes({x}, 0, -1)", "np.split({x}, 1)[0]",
    "list(np.atleast_2d({x}))[0]", "np.conj({x})", "+{x}", "{x}.view()", "np.expand_dims({x}, 0)",
    "np.moveaxis({x}, 0, -1)", "np.ascontiguousarray({x})", "{x}.T.ravel()", "np.round({x})",
    "np.where({x}, {x}, {x})", "np.clip({x}, 0, 2)", "np.concatenate([{x}])", "np.tile({x}, 1)", "np.roll({x}, 1)",
)  # fmt: skip
_CHANGES = (
    "{x}[:1] = {n}", "{x}[...] = {n}", "{x}[{x} > 1] = 0", "{x}[{x} > 0] += 1", "{x} += {n}", "{x} *= {n}",
    "{x} -= {y}", "{x} /= 2", "{x} //= {n}", "{x} %= 3", "{x} |= {y}", "{x}[1:] += {x}[:-1]", "{x}[:-1] = {x}[1:]",
    "{x}[:] = {x}[::-1]", "{x} += {x}.T", "{x}[:] = {x}.T", "{x}[[0, 1]] = {x}[[1, 0]]", "{x}.sort()",
    "{x}.sort(axis=0)", "{x}.fill({n})", "{x}.put([0, -1], [1, 2])", "np.place({x}, {x} > 1, [1, 2])",
    "np.putmask({x}, {x} > 1, [0, 1])", "np.copyto({x}, 2)", "np.copyto({x}, 1, where={x} < 2)", "{x}.flat[1:3] = 1",
    "{x}.flat = 2", "{x}.real = 1", "np.add({x}, {y}, out={x})", "np.multiply({x}, 2, {x})",
    "np.subtract({x}, {y}, out={x}, where={x} > 1)", "np.add({x}[1:], {x}[:-1], out={x}[1:])",
    "np.add.at({x}, [0, 0], 1)", "np.negative({x}, out={y})", "np.sqrt(abs({x}), out={y})",
    "np.cumsum({x}, axis=0, out={x})", "np.clip({x}, 0, 2, out={y})", "for r in np.atleast_2d({x}): r *= 2",
    "for i, r in enumerate({x}): {x}[i] = r + 1", "np.fill_diagonal({x}, 7)", "{x}.T[...] = 1", "{x}.ravel()[:2] = 5",
    "{x}.flatten()[0] = 6", "np.swapaxes({x}, 0, -1)[0] = 2", "{x}[:1], {x}[1:2] = {x}[1:2], {x}[:1]",
)  # fmt: skip
_VALUES = (
    "{x}.sum()", "{x}.mean(axis=0)", "{x}.max()", "{x} * {n}", "{n} - {x}", "{x} ** 3", "{x} // {n}", "{x} % 2",
    "{x} + {y}", "{x} @ {x}", "np.cumsum({x})", "[t + 1 for t in {x}.ravel()]", "[t / 2 for t in {x}.ravel()]",
    "[float(t) for t in {x}.real.ravel()]", "sum({x}.ravel())", "{x}.tolist()", "str({x})",
    "[f'{{t:.2f}}' for t in {x}.real.ravel()]", "np.unique({x})", "2 in {x}", "{x} == 1", "~{x}", "-{x}",
    "{x}.nonzero()", "np.diff({x})", "list({x})", "sorted({x}.real.ravel())", "dict(enumerate({x}))",
    "np.sort({x}, axis=None)", "[t // 2 for t in {x}.real.ravel()]",
)  # fmt: skip


def _program(seed: int, length: int = 10) -> list[str]:
    """Return a program whose lines NumPy runs, and a few that it refuses."""
    draw = random.Random(seed)
    scope: dict[str, Any] = {"np": np}
    lines: list[str] = []
    while len(lines) < length:
        arrays = [name for name, x in scope.items() if isinstance(x, np.ndarray)]
        new = f"v{len(lines)}"
        if len(arrays) < 2:
            shape, dtype = draw.choice(_SHAPES), draw.choice(_DTYPES)
            size = int(np.prod(eval(shape)))
            values = [draw.randint(0 if dtype[0] in "u?" else -4, 5) + (dtype[0] in "fc") / 2 for _ in range(size)]
            line = f"{new} = np.array({values}).astype({dtype!r}).reshape({shape})"
        else:
            table = draw.choice((_VIEWS, _CHANGES, _CHANGES, _VALUES))
            numbers = ("0", "1", "2", "3", "0.5", "1.5", "True", "np.int64(2)", "np.float32(0.5)")
            line = draw.choice(table).format(x=draw.choice(arrays), y=draw.choice(arrays), n=draw.choice(numbers))
            line = line if table is _CHANGES else f"{new} = {line}"
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                exec(line, scope)
        except Exception:  # of any class
            if draw.random() < 0.7:
                continue
        lines.append(line)
    return lines


@each("seed", range(2000), fast=range(100))
def test_random_programs(seed: int) -> None:
    _compare(_program(seed))
