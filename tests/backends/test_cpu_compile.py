"""Compiled kernels: they compute what NumPy computes, and their cache survives what happens to caches.

Note [Nothing waits for a compiler] in ``tenkey/backends/cpu/numba/compiler.py``.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey._util.record import replaced
from tenkey.backends.cpu.numba import compiler
from tenkey.backends.cpu.numba.program import Program, program_of
from tenkey.backends.cpu.pointwise import LARGE, large
from tenkey.backends.cpu.threads import PIECE
from tenkey.dispatch import registry
from tenkey.ops.declare.facets import Pointwise
from tests._tiers import each
from tests.operators._extra_references import AGAINST_MPMATH, EXTRA_ULPS, NEAR_ZERO
from tests.operators._references import reference_of
from tests.operators._table import OPERATORS, named

_SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, -1e30, 88.5, -103.5, 1e-45, 709.5]
# The bound of each scalar function is tested in test_libm.py; expressions add a few roundings.
_ULPS = 8


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of our own, and compiling at once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENKEY_CACHE_DIR", str(folder))
        patch.setenv("TENKEY_COMPILE", "sync")
        yield folder


def _program(facet: Pointwise, dtype: str, name: str) -> Program:
    """A program of our own: those of the operators are shared with all other tests."""
    compute, result = facet.promotion.dtypes(name, (np.dtype(dtype),))
    return Program(name, replaced(facet, ufunc=None), compute, result)


def _operands(facet: Pointwise, dtype: str, size: int, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Random numbers in the domain, with all combinations of special values at both ends."""
    names = [name for name in facet.parameters if name not in facet.boolean]
    combinations = np.array(list(itertools.product(_SPECIAL, repeat=len(names))), np.float64).T
    made = []
    remaining = iter(combinations)
    for name in facet.parameters:
        if name in facet.boolean:
            made.append(rng.random(size) < 0.5)
            continue
        values = rng.uniform(*facet.domain, size)
        special = next(remaining)
        values[: len(special)] = special
        values[-len(special) :] = special
        with np.errstate(over="ignore"):
            made.append(values.astype(dtype))
    return made


_POINTWISE = [
    op
    for op in OPERATORS
    if "Pointwise" in op.facets
    and op.facets["Pointwise"].promotion.name != "BOOLEAN"
    and "f" in op.facets["Pointwise"].promotion.accepts
    and op.schema.base_name != "close_floats"  # its tolerances are numbers of the caller's, not of any size
]
_FAST = [  # conditions, branches, several operands and numbers, and calls of functions of each kind
    registry.find(f"tk::{name}")
    for name in (
        "divide", "less", "exp", "log1p", "sin", "tanh", "sqrt", "pow", "atan2", "floor_divide", "remainder", "where",
        "sigmoid", "elu", "logaddexp",
    )
]  # fmt: skip
_SIZES = (LARGE, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 3)


@each("dtype", ["float32", "float64"])
@named(_POINTWISE, fast=_FAST)
def test_large_calls_compute_what_numpy_computes(operator: Any, dtype: str, cache: Path) -> None:
    facet = operator.facets["Pointwise"]
    if operator.schema.base_name in AGAINST_MPMATH:
        pytest.skip("tests/ops/test_special.py")
    program = _program(facet, dtype, operator.name)
    reference = reference_of(operator)
    assert reference is not None
    rng = np.random.default_rng(0)
    for size in _SIZES if dtype == "float32" else _SIZES[-1:]:
        operands = _operands(facet, dtype, size, rng)
        got = large(program, tuple(operands), (size,))
        with np.errstate(all="ignore"):
            want = reference(*[a if a.dtype == bool else a.astype(np.float64) for a in operands])
            want = want.astype(got.dtype)
            same_dtype = reference(*operands)
        assert got.dtype == program.result
        if got.dtype == bool:
            np.testing.assert_array_equal(got, same_dtype)
            continue
        tiny, eps = float(np.finfo(dtype).tiny), float(np.finfo(dtype).eps)
        if operator.schema.base_name in NEAR_ZERO:
            tiny = 4 * _ULPS * eps
        ulps = EXTRA_ULPS.get(operator.schema.base_name, _ULPS)
        close = np.isclose(got, want, rtol=ulps * eps, atol=tiny, equal_nan=True)
        # where NumPy itself, in this dtype, overflows on the way or rounds a quotient to the next whole number
        close |= np.isclose(got, same_dtype, rtol=_ULPS * eps, atol=tiny, equal_nan=True)
        assert close.all(), [(a[~close][:3], got[~close][:3], want[~close][:3]) for a in operands]


_COMPILED = {"exp", "log", "sin", "tanh", "sigmoid", "expm1", "rsqrt"}
_NUMPYS = {"add", "multiply", "maximum", "less", "equal", "sqrt", "floor", "negative"}  # NumPy's are as fast


@pytest.mark.parametrize("name", sorted(_COMPILED | _NUMPYS))
def test_which_programs_are_compiled(name: str, cache: Path) -> None:
    program = _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", f"tk::{name}")
    program.request()
    assert program.compiled is (name in _COMPILED)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16", "uint8"])
def test_what_numba_lacks_stays_with_numpy(dtype: str, cache: Path) -> None:
    program = _program(registry.find("tk::add").facets["Pointwise"], dtype, "test")
    program.request()
    assert not program.compiled


def test_broadcasting_and_strides_of_a_compiled_program(cache: Path) -> None:
    program = _program(registry.find("tk::tanh").facets["Pointwise"], "float32", "tk::tanh")
    wide = np.random.default_rng(0).standard_normal((700, 600)).astype(np.float32)
    for array in (wide, wide.T, wide[::2, ::3], np.broadcast_to(wide[:1], (300, 600)), wide[:0]):
        got = large(program, (array,), array.shape)
        np.testing.assert_allclose(got, np.tanh(array), rtol=1e-6)
    assert program.compiled
    pair = _program(registry.find("tk::floor_divide").facets["Pointwise"], "float32", "tk::floor_divide")
    for other in (np.array(2.0, np.float32), wide[:, :1], wide[:1], wide):
        np.testing.assert_array_equal(large(pair, (wide, other), wide.shape), np.floor_divide(wide, other))


# ---- the switch over


def test_small_calls_are_counted(cache: Path) -> None:
    program = _program(registry.find("tk::sigmoid").facets["Pointwise"], "float64", "tk::sigmoid")
    x = np.array([0.5, -2.0])
    before = program.call(x)
    states = []
    for _ in range(64):
        program.count()
        states.append(program.compiled)
    assert states == [False] * 63 + [True]
    np.testing.assert_allclose(program.call(x), before, rtol=1e-15)


def test_background_and_wait(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    program = _program(registry.find("tk::expm1").facets["Pointwise"], "float64", "tk::expm1")
    release = threading.Event()
    compiler.request("first in the queue", lambda: _wait_for(release))
    program.request()
    states = [program.compiled]
    np.testing.assert_allclose(large(program, (np.ones(LARGE),), (LARGE,)), np.expm1(1.0))  # served at once
    release.set()
    compiler.wait()
    states.append(program.compiled)
    assert states == [False, True]


def _wait_for(event: threading.Event) -> None:
    assert event.wait(timeout=60)


def test_a_failure_is_told_and_the_next_kernel_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("no such register")

    def ask() -> None:
        compiler.request("broken", fail)
        compiler.request("sound", lambda: done.append(1))
        compiler.wait()

    with pytest.warns(UserWarning, match="compiling the kernel broken failed") as caught:
        ask()
    assert done == [1]
    text = str(caught[0].message)
    assert "RuntimeError: no such register" in text
    assert "it keeps running on NumPy" in text


def test_a_failure_where_warnings_are_errors(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("no such register")

    compiler.request("broken", fail)
    compiler.request("sound", lambda: done.append(1))
    compiler.wait()  # the thread lives
    assert done == [1]


def test_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    program = _program(registry.find("tk::log1p").facets["Pointwise"], "float32", "tk::log1p")
    program.request()
    assert not program.compiled


# ---- the cache on disk, in processes of its own

_SCRIPT = """
import json, sys, warnings
import numpy as np, tenkey as tk
warnings.simplefilter("error")
x = tk.asarray(np.linspace(-3, 3, 50_000, dtype=np.float32))
got = tk.sigmoid(x).numpy()
want = 1 / (1 + np.exp(-x.numpy().astype(float)))
kernels = [m for m in sys.modules.values() if m.__name__.startswith("tenkey_kernel_")]
print(json.dumps({
    "error": float(np.abs(got / want - 1).max()), "kernels": len(kernels), "files": [m.__file__ for m in kernels],
}))
"""


def _start(folder: Path, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(folder), "TENKEY_COMPILE": "sync", **more}
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(out)
    assert found["error"] < 1e-6
    assert found["kernels"] == 1
    return found


def _compiled_files(folder: Path) -> dict[str, int]:
    """The machine code that Numba has cached, with the times at which it was written."""
    return {p.name: p.stat().st_mtime_ns for p in folder.rglob("*.nbc")}


def test_the_cache_is_used_by_the_next_process(tmp_path: Path) -> None:
    found = _finish(_start(tmp_path))
    written = _compiled_files(tmp_path)
    assert len(written) == 1
    (source,) = (tmp_path / "kernels").glob("tenkey_kernel_*.py")
    assert Path(found["files"][0]) == source
    assert not list((tmp_path / "kernels").glob("*.tmp"))
    before = source.stat().st_mtime_ns
    _finish(_start(tmp_path))
    assert _compiled_files(tmp_path) == written
    assert source.stat().st_mtime_ns == before


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _scramble(path: Path) -> None:
    path.write_bytes(b"\x80\x04nonsense" * 20)


@pytest.mark.parametrize("damage", [_truncate, _scramble, lambda path: path.write_bytes(b""), Path.unlink],
                         ids=["truncated", "scrambled", "empty", "deleted"])  # fmt: skip
@pytest.mark.parametrize("pattern", ["*.py", "*.nbi", "*.nbc"], ids=["source", "index", "code"])
def test_a_damaged_cache_is_written_anew(
    damage: Callable[[Path], Any], pattern: str, tmp_path: Path, cache: Path, request: pytest.FixtureRequest
) -> None:
    source = f"def kernel(x):\n    return x + np.float32({zlib.crc32(request.node.name.encode()) % 100_000})"
    float32 = np.dtype("float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
        first = compiler.compile_ufunc(source, "kernel", (float32,), float32)(np.zeros(3, np.float32))
        (path,) = (tmp_path / "kernels").rglob(pattern)
        damage(path)
        name = next((tmp_path / "kernels").glob("__pycache__/*.nb?"), path).name.partition(".")[0]
        for module in [m for m in sys.modules if m.startswith("tenkey_kernel_") and m == name]:
            del sys.modules[module]  # as in a process of its own
        again = compiler.compile_ufunc(source, "kernel", (float32,), float32)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(again, first)
    (whole,) = (tmp_path / "kernels").glob("*.py")
    assert "def kernel" in whole.read_text()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        found = _finish(_start(tmp_path / "cache", TMPDIR=str(tmp_path.parent)))
    finally:
        tmp_path.chmod(0o700)
    assert not (tmp_path / "cache").exists()
    assert Path(found["files"][0]).is_relative_to(tmp_path.parent)


def test_a_cache_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    found = _finish(_start(tmp_path / "file", TMPDIR=str(tmp_path / "temporary")))
    path = Path(found["files"][0])
    assert path.is_relative_to(tmp_path / "temporary")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
def test_a_temporary_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    planted = tmp_path / f"tenkey-kernels-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    found = _finish(_start(tmp_path / "file", TMPDIR=str(tmp_path)))
    assert not Path(found["files"][0]).is_relative_to(planted)
    assert list(planted.iterdir()) == []


def test_two_processes_at_once(tmp_path: Path) -> None:
    processes = [_start(tmp_path) for _ in range(2)]
    for process in processes:
        _finish(process)
    assert len(list((tmp_path / "kernels").glob("*.py"))) == 1
    assert not list((tmp_path / "kernels").glob("*.tmp"))
    _finish(_start(tmp_path))


def test_a_process_that_ends_while_it_compiles(tmp_path: Path) -> None:
    program = "import tenkey as tk\ntk.sigmoid(tk.ones(1 << 16)); tk.tanh(tk.ones(1 << 16)); tk.sin(tk.ones(1 << 16))"
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path), "TENKEY_COMPILE": "background"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
    assert compiler.cache_folder() == tmp_path
    monkeypatch.delenv("TENKEY_CACHE_DIR")
    assert compiler.cache_folder().name == "tenkey"


def test_different_sources_have_different_files(cache: Path) -> None:
    before = set((cache / "kernels").glob("*.py"))
    float64 = np.dtype("float64")
    stamp = time.time_ns()
    for k in range(2):
        source = f"def kernel(x):\n    return x * np.float64({stamp + k})"
        got = compiler.compile_ufunc(source, "kernel", (float64,), float64)(np.ones(2))
        np.testing.assert_array_equal(got, [stamp + k] * 2)
    assert len(set((cache / "kernels").glob("*.py")) - before) == 2


def test_a_module_that_fails_leaves_nothing_behind(cache: Path) -> None:
    loaded = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        compiler.load_module("x = 1 // 0\n")
    assert not [m for m in set(sys.modules) - loaded if m.startswith("tenkey_kernel_")]


def _hard_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Elements that raise floating-point flags where anything does: infinities, quiet and signalling nan, extremes."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, limits.max // 2 + 1], dtype)
    limits_f = np.finfo(dtype)
    largest, tiny = limits_f.max, limits_f.smallest_subnormal
    values = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, largest, -largest, tiny, -tiny], dtype)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    signalling = np.array([np.inf], dtype).view(bits) | np.array([1], bits)
    return np.concatenate([values, signalling.view(dtype)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"])
def test_silent_programs_never_warn(dtype: str) -> None:
    """Note [Floating-point flags]: a function that is run without silencing NumPy has nothing to say."""
    kind = np.dtype(dtype)
    values = _hard_values(kind)
    seen = 0
    for operator in OPERATORS:
        facet = operator.facets.get("Pointwise")
        if facet is None or facet.boolean or len(facet.parameters) != len(facet.tensors):
            continue
        try:
            compute, result = facet.promotion.dtypes(operator.name, (kind,))
        except TypeError:
            continue
        program = program_of(operator.name, facet, compute, result)
        if not program.silent:
            continue
        seen += 1
        operands = np.meshgrid(*[values.astype(compute)] * len(facet.parameters), indexing="ij")
        with np.errstate(all="raise"):
            program.call(*operands)
            program.call(*[operand.reshape(-1)[:1].reshape(()) for operand in operands])
    assert seen > 5


def test_warnings_are_left_alone_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note [Warnings of the compiler thread]: Numba's own contexts, entered where kernels are compiled."""
    from numba.core.errors import NumbaWarning, WarningsFixer
    from numba.np.ufunc.ufuncbuilder import _suppress_deprecation_warning_nopython_not_supplied as suppress

    def look() -> tuple[Any, ...]:
        return warnings.filters, list(warnings.filters), warnings.showwarning, warnings._showwarnmsg_impl  # type: ignore[attr-defined]

    def enter() -> None:
        with WarningsFixer(NumbaWarning).catch_warnings():
            seen.append(look())
        with suppress():
            seen.append(look())

    seen: list[tuple[Any, ...]] = []
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    before = look()
    compiler.request("test", enter)
    compiler.wait()
    assert len(seen) == 2
    for found in seen:
        assert found[0] is before[0]
        assert found[1:] == before[1:]
    enter()  # on another thread Numba has the module itself, and puts back what it found
    assert all(found[1] != before[1] for found in seen[2:])
    assert look()[1:] == before[1:]
