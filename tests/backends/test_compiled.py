"""Kernels from memory, from the cache and from the compiler: ``tenkey/backends/llvm/compiled.py``."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

from tenkey.backends.llvm import (
    LoopError,
    UnavailableError,
    address_of,
    array,
    code_cache,
    compiled,
    complaints,
    data,
    descriptions,
    f32,
    f64,
    i64,
    images,
    kernel,
    loop,
    machine_code,
    pointer,
    shape,
    unroll,
)
from tenkey.backends.llvm.descriptions import describe

_NATIVE = sys.platform == "linux" and os.uname().machine == "x86_64"


@loop
def total(x: array, out: array, *, T: Any, SCALE: Any = 1) -> i64:
    """Add the elements of an array."""
    found = T(0)
    for k in range(shape(x)[0]):
        found += data(x, T)[k] * T(SCALE)
    data(out, T)[0] = found
    return shape(x)[0]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kernels of an empty cache, in a process that has no kernels; nothing has been warned of."""
    code_cache.environment()  # which remembers something in the folder
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TENKEY_COMPILE", raising=False)
    monkeypatch.setattr(complaints, "_said", set())
    _forget(monkeypatch)
    return tmp_path / "kernels"


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_codes", {})
    monkeypatch.setattr(compiled, "_functions", {})


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the kernels that are compiled."""
    seen: list[str] = []
    compile_text = compiled._compiled

    def counted(template: Any, text: str) -> bytes:
        seen.append(text)
        return compile_text(template, text)

    monkeypatch.setattr(compiled, "_compiled", counted)
    return seen


def _check(**statics: Any) -> None:
    T = statics["T"]
    x, out = np.arange(10, dtype=T.name.replace("f", "float")), np.zeros(1, T.name.replace("f", "float"))
    assert kernel(total, **statics)(x, out) == 10
    assert out[0] == 45 * statics.get("SCALE", 1)


def test_a_cached_kernel_is_not_compiled_again(
    cache: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        _check(T=f32)
        _forget(monkeypatch)
    assert len(compilations) == 1
    _check(T=f64)
    _check(T=f64, SCALE=3)
    assert len(compilations) == 3
    assert len(list(cache.iterdir())) == 3


def _code(value: Any) -> int:
    return {"1": 1, "1.0": 2, "True": 3, "0.0": 4, "-0.0": 5, "(1, 2)": 6, "(True, 2.0)": 7}[repr(value)]


@loop(inline=False)
def told(*, VALUE: Any) -> i64:
    """Return which value it was translated for."""
    return i64(_code(VALUE))


@loop
def told_all(*, VALUES: Any) -> i64:
    """Return what functions of one module were translated for, as digits."""
    found = i64(0)
    for value in unroll(VALUES):
        found = found * 10 + told(VALUE=value)
    return found


def test_equal_statics_of_other_types(cache: Path) -> None:
    """Python holds 1, 1.0 and True for equal, and so 0.0 and -0.0."""
    values = (1, 1.0, True, 0.0, -0.0, (1, 2), (True, 2.0))
    assert [kernel(told, VALUE=value)() for value in values] == [1, 2, 3, 4, 5, 6, 7]
    assert kernel(told_all, VALUES=values)() == 1234567


def test_the_address_of_a_kernel(cache: Path, compilations: list[str]) -> None:
    import ctypes

    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.py_object, ctypes.py_object)
    out = np.zeros(1)
    assert kind(address_of(total, T=f64))(np.arange(4.0), out) == 4
    assert out[0] == 6
    _check(T=f64)
    assert len(compilations) == 1


def test_a_template_that_is_wrong(cache: Path) -> None:
    with pytest.raises(LoopError, match="has no static WRONG"):
        kernel(total, T=f32, WRONG=3)
    assert not cache.exists() or list(cache.iterdir()) == []


# ---- what is not available


def test_off(cache: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    with pytest.raises(UnavailableError, match="TENKEY_COMPILE=off"):
        kernel(total, T=f32)
    assert compilations == []
    monkeypatch.delenv("TENKEY_COMPILE")
    _check(T=f32)


def test_without_llvm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cached can be used; one warning says why the rest cannot."""
    _check(T=f32)
    _forget(monkeypatch)
    monkeypatch.delattr("tenkey.backends.llvm.machine_code", raising=False)
    monkeypatch.setitem(sys.modules, "tenkey.backends.llvm.machine_code", None)
    if _NATIVE:
        _check(T=f32)
    message = "kernels are not compiled .*operators run on NumPy"
    with pytest.warns(UserWarning, match=message) as caught, pytest.raises(UnavailableError):
        kernel(total, T=f64)
    assert len(caught) == 1
    with pytest.raises(UnavailableError):
        kernel(total, T=f64)


@pytest.mark.parametrize("error", [OSError("a library is missing"), RuntimeError("an unknown processor")])
def test_what_llvm_cannot_compile_is_tried_once(error: Exception, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def refuse(text: str, brief: bool, *, cold: bool) -> bytes:
        tries.append(text)
        raise error

    monkeypatch.setattr(machine_code, "object_code", refuse)
    with (
        pytest.warns(UserWarning, match=f"not compiled .*{error}.*operators run on NumPy"),
        pytest.raises(UnavailableError, match=str(error)),
    ):
        kernel(total, T=f32)
    for ask in (kernel, address_of):
        with pytest.raises(UnavailableError, match=str(error)):
            ask(total, T=f32)
    assert len(tries) == 1


def test_an_interpreter_whose_arrays_have_other_fields(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that take arrays are unavailable, and those that take addresses are not."""

    @loop
    def twice(x: i64) -> i64:
        return x + x

    _check(T=f32)
    _forget(monkeypatch)
    monkeypatch.setattr(compiled, "supported", lambda: False)
    with pytest.warns(UserWarning, match="arrays have other fields"), pytest.raises(UnavailableError):
        kernel(total, T=f32)  # which is in the cache
    with pytest.raises(UnavailableError):
        kernel(total, T=f64)
    assert kernel(twice)(21) == 42


def test_without_sources(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @loop
    def packed(x: i64) -> i64:
        return x

    monkeypatch.setattr("linecache.getlines", lambda *_: [])
    with pytest.warns(UserWarning, match="packed is not available"), pytest.raises(UnavailableError):
        kernel(packed)


def test_a_damaged_kernel_is_compiled_again(
    cache: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(T=f32)
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    _forget(monkeypatch)
    with pytest.warns(UserWarning, match="its checksum is wrong"):
        _check(T=f32)
    _forget(monkeypatch)
    _check(T=f32)
    assert len(compilations) == 2


def test_where_warnings_are_errors_the_next_call_finds_the_kernel(cache: Path, compilations: list[str]) -> None:
    _check(T=f32)
    (path,) = cache.iterdir()
    path.write_bytes(b"")
    compiled._codes.clear()
    compiled._functions.clear()
    with pytest.raises(UserWarning, match="its checksum is wrong"):  # pytest makes warnings errors
        kernel(total, T=f32)
    _check(T=f32)
    assert len(compilations) == 2


def test_a_system_that_does_not_run_what_was_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(image: bytes) -> dict[str, int]:
        raise images.ImageError("memory that was written cannot become executable (Permission denied)")

    monkeypatch.setattr(images, "load", refused)
    message = r"kernels cannot be used \(ImageError: memory that was written"
    with pytest.warns(UserWarning, match=message), pytest.raises(UnavailableError):
        kernel(total, T=f32)
    assert not cache.exists() or list(cache.iterdir()) == []


# ---- threads and processes


def test_threads_compile_a_kernel_once(cache: Path, compilations: list[str]) -> None:
    barrier = threading.Barrier(4)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            barrier.wait()
            _check(T=f32)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(compilations) == 1


_LIBRARY = """
import json, sys
import numpy as np
from tenkey.backends.llvm import kernel, pointer, f32, i64, loop, compiled
from tenkey.backends.llvm.descriptions import describe
texts = []
compile_text = compiled._compiled
compiled._compiled = lambda template, text: texts.append(text) or compile_text(template, text)

@loop
def fill(x: pointer(f32), n: i64, *, VALUE) -> i64:
    for k in range(n):
        x[k] = f32(VALUE)
    return n

x = np.zeros(5, np.float32)
assert describe(fill, dict(VALUE=2.5)) is None
assert kernel(fill, VALUE=float(sys.argv[1]))(x.ctypes.data, 5) == 5
assert x.tolist() == [float(sys.argv[1])] * 5
print(json.dumps([len(texts), "tenkey.backends.llvm.llvm_library" in sys.modules]))
"""


def test_templates_of_others_are_cached_by_what_they_are(tmp_path: Path) -> None:
    """The file of a template that is not one of ours is not hashed: its translation is the key."""
    path = tmp_path / "library.py"

    def run(source: str, value: str) -> Any:
        path.write_text(source)
        environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path / "cache"), "TENKEY_COMPILE": "on"}
        done = subprocess.run(
            [sys.executable, str(path), value], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run(_LIBRARY, "2.5") == [1, True]
    assert run(_LIBRARY, "2.5") == [0, not _NATIVE]
    assert run(_LIBRARY, "3.5") == [1, True]
    assert run(_LIBRARY.replace("x[k] = f32(VALUE)", "x[k] = f32(VALUE) * f32(1)"), "2.5")[0] in {0, 1}
    assert run(_LIBRARY.replace("x[k] = f32(VALUE)", "x[k] = f32(VALUE) + x[k]"), "2.5")[0] == 1


# ---- descriptions


class _Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class _Record:
    name: str
    function: Callable[..., Any]


class _Keyed:
    def __init__(self, key: str) -> None:
        self.key = key


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this module be one whose source is hashed."""
    monkeypatch.setattr(descriptions, "_KNOWN", (*descriptions._KNOWN, __name__))


def _twice(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(function(x))


_ONE_LINE = (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a + b + 1, lambda a, b: a + b + 2)


@pytest.mark.usefixtures("ours")
def test_different_kernels_have_different_descriptions() -> None:
    functions = [*_ONE_LINE, _twice(_ONE_LINE[0]), _twice(_ONE_LINE[1]), _twice, _check, np.add, abs, max]
    values = [
        None, True, False, 1, 2, 1.0, "1", b"1", (), (1,), ((1,),), (1, 2), f32, f64, pointer(f32), np.dtype("f4"),
        np.dtype(">f4"), np.dtype("bool"), total, *functions, _Pair(1, 2), _Pair(1, f32), _Keyed("a"), _Keyed("b"),
        *[_Record(name, function) for name in "ab" for function in _ONE_LINE],
    ]  # fmt: skip
    texts = [describe(total, {"T": f32, "SCALE": value}) for value in values]
    assert None not in texts
    assert len({*texts}) == len(values)
    assert describe(total, {"T": f32}) != describe(total, {"U": f32})


def test_objects_without_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among them everything that comes from a module whose source is not hashed."""
    assert describe(total, {"T": f32}) is None
    assert describe(total, {}) is None
    monkeypatch.setattr(descriptions, "_KNOWN", (*descriptions._KNOWN, __name__))
    assert describe(total, {"T": f32}) is not None
    for value in (object(), {}, {1}, json.dumps, dataclasses.replace, _Record):
        assert describe(total, {"T": value}) is None
    empty = FunctionType(_twice(abs).__code__, globals(), closure=(_empty_cell(),))
    assert describe(total, {"T": empty}) is None


def _empty_cell() -> Any:
    from types import CellType

    return CellType()


_DESCRIBE = """
from tests.backends import test_compiled as module
from tenkey.backends.llvm import descriptions, f32
descriptions._KNOWN = (*descriptions._KNOWN, module.__name__)
statics = {"T": f32, "SCALE": (*module._ONE_LINE, module._twice(module._ONE_LINE[1]), module._Pair(1, 2.5))}
print(descriptions.describe(module.total, statics))
"""


def test_descriptions_are_the_same_in_every_process() -> None:
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _DESCRIBE], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    (text,) = texts
    assert " at 0x" not in text
    assert str(Path(__file__).parent) not in text
