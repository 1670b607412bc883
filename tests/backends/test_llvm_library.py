"""LLVM's functions as they are declared here, against llvmlite's own declarations."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest

from tenkey.backends import processor
from tenkey.backends.cpu.loops.elementwise_driver import elementwise
from tenkey.backends.llvm import llvm_library, machine_code
from tenkey.backends.llvm.compiled import _translated
from tenkey.backends.llvm.llvm_library import _DECLARED, Library, library

_ON_LINUX = sys.platform == "linux"


def _kind(type_: Any) -> Any:
    """Return what a type is for a call: all opaque pointers are alike, and a number is its size."""
    if type_ is None or type_ is ctypes.c_char_p or type_ is ctypes.POINTER(ctypes.c_char_p):
        return type_
    if type_ is ctypes.c_void_p or issubclass(type_, ctypes._Pointer):
        return ctypes.c_void_p
    return ctypes.sizeof(type_), type_ is ctypes.c_bool


def test_declarations_are_those_of_llvmlite() -> None:
    """What llvmlite does not declare takes nothing, a string, or returns a number that is not used."""
    import llvmlite.binding as llvm

    wrong = []
    for name, (result, *parameters) in _DECLARED.items():
        theirs = getattr(llvm.ffi.lib, f"LLVMPY_{name}")
        if theirs.restype is not ctypes.c_int and _kind(theirs.restype) != _kind(result):
            wrong.append((name, theirs.restype, result))
        if theirs.argtypes is None:
            if parameters not in ([], [ctypes.c_char_p]):
                wrong.append((name, None, parameters))
            continue
        kinds = [_kind(one) for one in theirs.argtypes]
        expected = [_kind(one) for one in parameters]
        if name == "buildPerModuleDefaultPipeline":
            expected = expected[: len(kinds)]  # later versions do not have the last parameter
        if kinds != expected:
            wrong.append((name, theirs.argtypes, parameters))
    assert not wrong


def test_both_ways_compile_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, _ = _translated(elementwise, {})
    text = parts[1]
    assert isinstance(library(), Library)

    def compiled() -> list[bytes]:
        for one in (processor.host, machine_code._context, machine_code._machine):
            one.cache_clear()
        return [machine_code.object_code(text, brief=k == 1, cold=k == 2) for k in range(3)]

    ours = compiled()
    theirs = Library(None)
    for module in (machine_code, llvm_library):  # the second for ``processor``
        monkeypatch.setattr(module, "library", lambda: theirs)
    assert compiled() == ours
    assert len({*ours}) > 2
    monkeypatch.undo()
    compiled()  # contexts of this library again


def test_only_known_versions_are_loaded_without_llvmlite(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    found = llvm_library._known_library()
    assert (found is not None and os.path.exists(found)) == _ON_LINUX  # noqa: PTH110 -- a text
    for version, known in (("0.44.1", False), ("0.45.0", True), ("0.99.0", False), ("1.45.0", False), ("what", False)):
        (tmp_path / "_version.py").write_text(f"\nversion_version = '{version}'\n")
        monkeypatch.setattr(llvm_library, "file_of_package", lambda *_: str(tmp_path / "_version.py"))
        assert (llvm_library._known_library() is not None) == (known and _ON_LINUX), version
    monkeypatch.setattr(llvm_library, "file_of_package", lambda *_: None)
    assert llvm_library._known_library() is None


def test_a_kernel_is_compiled_without_llvmlite() -> None:
    program = (
        "import sys; from tenkey.backends.llvm import machine_code; code = machine_code.object_code(sys.argv[1]); "
        "assert len(code) > 100; print('llvmlite' in sys.modules)"
    )
    text = "define i64 @f(i64 %x) {\n  ret i64 %x\n}\n"
    done = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(not _ON_LINUX), "")


def test_what_llvm_does_not_understand() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)LLVM does not understand the code: .*expected"):
        machine_code.object_code("define nonsense")
