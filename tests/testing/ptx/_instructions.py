"""Running single instructions: a kernel for each, which applies it to arrays, one element per thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenkey.testing import ptx
from tests._tiers import Failures

__all__ = ["HEAD", "Case", "case", "check", "entry", "evaluate", "kernel"]

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
_REGISTERS = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


class Case(NamedTuple):
    """An instruction, or several: ``code`` computes the registers ``d`` (or ``d0``, ``d1``, ...) from ``a, b, c``."""

    code: str
    inputs: tuple[np.ndarray, ...]
    want: tuple[np.ndarray, ...]
    close: float = 0.0  # relative error that is allowed


def case(code: str, inputs: Sequence[Any], want: Any, *, close: float = 0.0) -> Case:
    """Describe a case; ``want`` is an array, several, or a function of the inputs."""
    arrays = tuple(np.broadcast_arrays(*inputs))
    with np.errstate(all="ignore"):
        result = want(*arrays) if callable(want) else want
    results = result if isinstance(result, tuple) else (result,)
    return Case(code, tuple(np.ascontiguousarray(x) for x in arrays), tuple(np.asarray(x) for x in results), close)


def entry(name: str, parameters: str, body: str) -> str:
    """Return the text of a kernel."""
    return f".visible .entry {name}({parameters})\n{{\n{body}\n\tret;\n}}\n"


def kernel(parameters: str, body: str, name: str = "k", head: str = "", **options: Any) -> ptx.Kernel:
    """Compile one kernel."""
    return ptx.Module(HEAD + head + entry(name, parameters, body), optimized=True, **options).kernel(name)


def _text(name: str, inputs: Sequence[np.dtype], outputs: Sequence[np.dtype], code: str) -> str:
    names = "abcefgh"[: len(inputs)]
    targets = ["d"] if len(outputs) == 1 else [f"d{k}" for k in range(len(outputs))]
    lines = ["\t.reg .pred p, q, r;", "\t.reg .b32 t, u, v, w, tid;", "\t.reg .b16 h0, h1, h2, h3;"]
    lines += ["\t.reg .b64 at, x, y, z;", "\tmov.u32 tid, %tid.x;"]
    for name_, dtype in (*zip(names, inputs, strict=True), *zip(targets, outputs, strict=True)):
        lines.append(f"\t.reg .{_REGISTERS[dtype.itemsize]} {name_};")
    for k, (one, dtype) in enumerate(zip(names, inputs, strict=True)):
        lines += _address(f"in{k}", dtype)
        lines.append(f"\tld.global.{'u' if dtype.kind != 'i' else 's'}{8 * dtype.itemsize} {one}, [at];")
    lines.append("\t" + code.replace("\n", "\n\t"))
    for k, (one, dtype) in enumerate(zip(targets, outputs, strict=True)):
        lines += _address(f"out{k}", dtype)
        lines.append(f"\tst.global.b{8 * dtype.itemsize} [at], {one};")
    parameters = [f".param .u64 in{k}" for k in range(len(inputs))] + [
        f".param .u64 out{k}" for k in range(len(outputs))
    ]
    return entry(name, ", ".join(parameters), "\n".join(lines))


def _address(parameter: str, dtype: np.dtype) -> list[str]:
    return [f"\tld.param.u64 at, [{parameter}];", f"\tmad.wide.u32 at, tid, {dtype.itemsize}, at;"]


def evaluate(cases: Sequence[Case], head: str = "", **launch: Any) -> list[tuple[np.ndarray, ...]]:
    """Return what each case computes; all are compiled together."""
    texts = [
        _text(f"k{n}", [x.dtype for x in one.inputs], [x.dtype for x in one.want], one.code)
        for n, one in enumerate(cases)
    ]
    module = ptx.Module(HEAD + head + "".join(texts), optimized=True)
    found = []
    for n, one in enumerate(cases):
        results = [np.zeros(one.inputs[0].shape if one.inputs else x.shape, x.dtype) for x in one.want]
        count = results[0].size
        assert count <= 1024, "one block"
        module.kernel(f"k{n}").launch(1, count, [*one.inputs, *results], **launch)
        found.append(tuple(results))
    return found


def _bits(x: np.ndarray) -> np.ndarray:
    """Return the bits, with every NaN of floats the same."""
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return x.view(f"u{x.itemsize}")


def check(cases: Sequence[Case], head: str = "", **launch: Any) -> None:
    """Compare each case with what is wanted, bit for bit or up to a relative error, and report all that differ."""
    failures = Failures()
    for one, found in zip(cases, evaluate(cases, head, **launch), strict=True):
        with failures.of(one.code):
            for got, want in zip(found, one.want, strict=True):
                if one.close:
                    np.testing.assert_allclose(got, want, rtol=one.close)
                    continue
                wrong = np.flatnonzero(_bits(got).ravel() != _bits(np.broadcast_to(want, got.shape).copy()).ravel())
                if len(wrong):
                    k = int(wrong[0])
                    given = ", ".join(str(x.ravel()[k]) for x in one.inputs)
                    raise AssertionError(
                        f"{len(wrong)} of {got.size} differ; for {given} got {got.ravel()[k]!r}, "
                        f"want {np.broadcast_to(want, got.shape).ravel()[k]!r}"
                    )
    failures.check()


def per_element(function: Callable[..., Any], dtype: Any) -> Callable[..., np.ndarray]:
    """Return a function of arrays from one of Python numbers."""

    def of_arrays(*arrays: np.ndarray) -> np.ndarray:
        rows = zip(*[x.ravel().tolist() for x in arrays], strict=True)
        return np.array([function(*row) for row in rows], dtype).reshape(arrays[0].shape)

    return of_arrays
