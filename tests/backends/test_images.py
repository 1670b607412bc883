"""Images of machine code: Note [Images of machine code]. The references are Python, and LLVM's own linker."""

from __future__ import annotations

import ctypes
import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey.backends.llvm import images, machine_code, object_files
from tenkey.backends.llvm.images import ImageError

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere, object code stays as it is"
)


@functools.cache
def _machine(features: str = "") -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = "x86-64" if features else llvm.get_host_cpu_name()
    features = features or llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="small", jit=True
    )


def _object(text: str, features: str = "") -> bytes:
    import llvmlite.binding as llvm

    machine = _machine(features)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _loaded(text: str, *exports: str, features: str = "") -> dict[str, int]:
    image = images.build([_object(text, features)], exports)
    assert images.is_linked(image)
    return images.load(image)


def _double(address: int, arguments: int = 1) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)(address)


_LIBM = """
declare double @fmod(double, double)
declare double @sin(double)
declare double @cos(double)
define double @calls(double %x, double %y) {
  %a = call double @fmod(double %x, double %y)
  %b = call double @sin(double %a)
  %c = call double @cos(double %a)
  %d = fadd double %b, %c
  %e = fmul double %d, 1.25
  ret double %e
}
"""


def test_functions_of_the_c_library() -> None:
    call = _double(_loaded(_LIBM, "calls")["calls"], 2)
    for x, y in ((7.5, 2.0), (-123.4, 0.7), (1e9, 3.3)):
        a = math.fmod(x, y)
        assert call(x, y) == pytest.approx((math.sin(a) + math.cos(a)) * 1.25, rel=1e-15)


_GIVEN = """
declare void @given.mark()
define i64 @where() {
  ret i64 ptrtoint (ptr @given.mark to i64)
}
"""


def test_addresses_that_the_loader_is_given() -> None:
    image = images.build([_object(_GIVEN)], ("where",))
    for mark in (1234, 1 << 46):
        found = images.load(image, {"given.mark": mark})
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(found["where"])() == mark
    with pytest.raises(ImageError, match=r"given\.mark"):
        images.load(image)


def test_every_listed_function_is_found() -> None:
    unknown = []
    for name in sorted(object_files.FUNCTIONS):
        try:
            images._address_of(name)
        except ImageError:
            unknown.append(name)
    assert unknown == []


_CONSTANTS = """
@table = internal constant [5 x double] [double 0.5, double 1.5, double -2.0, double 8.0, double 1.0e300]
define double @look_up(i64 %n) {
  %p = getelementptr [5 x double], ptr @table, i64 0, i64 %n
  %v = load double, ptr %p
  ret double %v
}
define void @add(ptr %x) {
  %v = load <16 x float>, ptr %x, align 4
  %w = fadd <16 x float> %v, <NUMBERS>
  store <16 x float> %w, ptr %x, align 4
  ret void
}
""".replace("NUMBERS", ", ".join(f"float {k}.0" for k in range(16)))


@pytest.mark.parametrize("features", ["", "+sse2", "+avx2,+fma"])
def test_constants(features: str) -> None:
    found = _loaded(_CONSTANTS, "look_up", "add", features=features)
    look_up = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(found["look_up"])
    assert [look_up(n) for n in range(5)] == [0.5, 1.5, -2.0, 8.0, 1e300]
    x = np.ones(16, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found["add"])(x.ctypes.data)
    assert x.tolist() == [1.0 + k for k in range(16)]


def _switch(cases: int) -> str:
    """A function with a branch for each case, so that LLVM makes a table of jumps."""
    arms = " ".join(f"i64 {k}, label %case{k}" for k in range(cases))
    bodies = "\n".join(
        f"case{k}:\n  %v{k} = call double @fmod(double %x, double {k + 2.5})\n  ret double %v{k}" for k in range(cases)
    )
    return (
        "declare double @fmod(double, double)\n"
        f"define double @choose(i64 %n, double %x) {{\n  switch i64 %n, label %other [{arms}]\n{bodies}\n"
        "other:\n  ret double -1.0\n}\n"
    )


def test_a_table_of_jumps() -> None:
    choose = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(_loaded(_switch(9), "choose")["choose"])
    assert [choose(n, 100.0) for n in range(10)] == [math.fmod(100.0, k + 2.5) for k in range(9)] + [-1.0]


_POINTERS = """
declare double @cos(double)
define internal double @inner(double %x) noinline {
  %y = fmul double %x, 3.0
  ret double %y
}
define double @outer(double %x) noinline {
  %y = fadd double %x, 1.0
  ret double %y
}
define ptr @give(i64 %which) {
  %a = icmp eq i64 %which, 0
  %b = icmp eq i64 %which, 1
  %c = select i1 %b, ptr @outer, ptr @cos
  %d = select i1 %a, ptr @inner, ptr %c
  ret ptr %d
}
define double @all(double %x) {
  %a = call double @inner(double %x)
  %b = call double @outer(double %a)
  ret double %b
}
"""


def test_addresses_of_functions() -> None:
    """Of one that the module keeps to itself, one that it exports, and one of the C library."""
    found = _loaded(_POINTERS, "outer", "give", "all")
    give = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(found["give"])
    assert [_double(give(k))(0.5) for k in range(3)] == [1.5, 1.5, math.cos(0.5)]
    assert give(1) == found["outer"]
    assert _double(found["all"])(2.0) == 7.0


_LOOP = """
define void @scale(ptr noalias %out, ptr noalias %x, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, 2.5
  %q = getelementptr float, ptr %out, i64 %i
  store float %w, ptr %q
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
define void @copy(ptr %out, ptr %x, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %x, i64 %n, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def test_loops_and_copies() -> None:
    found = _loaded(_LOOP, "scale", "copy")
    x = np.random.default_rng(0).normal(size=1003).astype(np.float32)
    scaled, copied = np.zeros_like(x), np.zeros_like(x)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    kind(found["scale"])(scaled.ctypes.data, x.ctypes.data, x.size)
    kind(found["copy"])(copied.ctypes.data, x.ctypes.data, x.nbytes)
    np.testing.assert_array_equal(scaled, x * np.float32(2.5))
    np.testing.assert_array_equal(copied, x)


def test_llvm_links_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not linked here stays object code, which LLVM links."""

    def refused(code: bytes, exports: Sequence[str]) -> None:
        raise object_files.LinkError("as elsewhere")

    monkeypatch.setattr(object_files, "link", refused)
    found = {}
    for text, exports in ((_LIBM, ["calls"]), (_CONSTANTS, ["look_up", "add"]), (_POINTERS, ["outer", "all"])):
        image = images.build([_object(text)], exports)
        assert not images.is_linked(image)
        found |= images.load(image)
    assert found.keys() == {"calls", "look_up", "add", "outer", "all"}
    assert _double(found["calls"], 2)(7.5, 2.0) == (math.sin(1.5) + math.cos(1.5)) * 1.25
    assert _double(found["all"])(2.0) == 7.0


_CALLER = """
declare hidden i64 @twice(i64)
define hidden i64 @add_one(i64 %x) {
  %v = add i64 %x, 1
  ret i64 %v
}
define i64 @run(i64 %x) {
  %v = call i64 @twice(i64 %x)
  ret i64 %v
}
"""
_CALLED = """
declare hidden i64 @add_one(i64)
define hidden i64 @twice(i64 %x) {
  %place = alloca ptr
  store ptr @add_one, ptr %place
  %f = load volatile ptr, ptr %place
  %v = call i64 %f(i64 %x)
  %w = call i64 @add_one(i64 %v)
  %z = mul i64 %w, %w
  ret i64 %z
}
"""


@pytest.mark.parametrize("by", ["ours", "LLVM"])
def test_object_files_that_call_each_other(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of one file call those of another one, by name and by address."""

    def refused(codes: Sequence[bytes], exports: Sequence[str]) -> None:
        raise object_files.LinkError("as elsewhere")

    if by == "LLVM":
        monkeypatch.setattr(object_files, "link", refused)
    codes = [machine_code.object_code(_CALLER, brief=True), machine_code.object_code(_CALLED, cold=True)]
    for order in (codes, codes[::-1]):
        image = images.build(order, ["run"])
        assert images.is_linked(image) == (by == "ours")
        run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(images.load(image)["run"])
        assert [run(x) for x in (-2, 0, 5)] == [0, 4, 49]
    image = images.build(codes[:1], ["run"])
    assert not images.is_linked(image)  # a function is missing


_IMPURE = {
    "a variable": "@n = internal global i64 3\ndefine i64 @f() {\n  %v = load volatile i64, ptr @n\n  ret i64 %v\n}",
    "a variable that is zero": (
        "@n = internal global i64 0\ndefine i64 @f() {\n  %v = load volatile i64, ptr @n\n  ret i64 %v\n}"
    ),
    "a variable of a thread": (
        "@n = thread_local global i64 0\ndefine i64 @f() {\n  %v = load volatile i64, ptr @n\n  ret i64 %v\n}"
    ),
    "an unknown function": "declare i64 @getpid()\ndefine i64 @f() {\n  %v = call i64 @getpid()\n  ret i64 %v\n}",
    "a table of addresses": (
        "@t = constant [2 x ptr] [ptr @f, ptr @g]\ndefine i64 @g() {\n  ret i64 1\n}\n"
        "define i64 @f() {\n  ret i64 2\n}\ndefine ptr @h(i64 %n) {\n"
        "  %p = getelementptr [2 x ptr], ptr @t, i64 0, i64 %n\n  %v = load ptr, ptr %p\n  ret ptr %v\n}"
    ),
}


@pytest.mark.parametrize("what", _IMPURE)
def test_what_pure_code_does_not_have_is_refused(what: str) -> None:
    code = _object(_IMPURE[what])
    with pytest.raises(object_files.LinkError):
        object_files.link([code], ["f"])
    assert not images.is_linked(images.build([code], ["f"]))


def test_other_refusals() -> None:
    code = _object(_LOOP)
    with pytest.raises(object_files.LinkError, match="lacks the function nowhere"):
        object_files.link([code], ["nowhere"])
    with pytest.raises(object_files.LinkError, match="not an ELF file"):
        object_files.link([b"MZ" + code[2:]], ["scale"])
    with pytest.raises(object_files.LinkError, match="not an ordinary object file for x86-64"):
        object_files.link([code[:18] + b"\xb7" + code[19:]], ["scale"])  # the number of another processor


def test_what_is_not_an_image() -> None:
    image = images.build([_object(_LOOP)], ["scale"])
    for wrong, message in ((b"nonsense", "not an image"), (image[:-1], "truncated"), (image[:20], "not an image")):
        with pytest.raises(ImageError, match=message):
            images.load(wrong)


def test_a_function_that_this_system_lacks() -> None:
    image = images.build([_object(_LIBM)], ["calls"])
    with pytest.raises(ImageError, match="does not have the function fmoX"):
        images.load(image.replace(b"fmod", b"fmoX"))


def test_an_image_can_be_loaded_at_several_addresses() -> None:
    image = images.build([_object(_POINTERS)], ["outer", "give", "all"])
    first, second = images.load(image), images.load(image)
    for found in (first, second):
        give = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(found["give"])
        assert give(1) == found["outer"]
    assert first["outer"] != second["outer"]


def _protection(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    raise AssertionError("no memory there")


def test_code_is_not_writable() -> None:
    assert _protection(_loaded(_LIBM, "calls")["calls"]) == "r-xp"


def test_a_system_that_forbids_written_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SELinux may; the memory is given back."""
    freed: list[int] = []
    library = images._library()

    class _Strict:
        mmap = library.mmap

        @staticmethod
        def mprotect(*args: Any) -> int:
            ctypes.set_errno(13)
            return -1

        @staticmethod
        def munmap(base: int, size: int) -> int:
            freed.append(size)
            return int(library.munmap(base, size))

    image = images.build([_object(_LOOP)], ["scale"])
    monkeypatch.setattr(images, "_library", lambda: _Strict)
    with pytest.raises(ImageError, match=r"cannot become executable \(Permission denied\)"):
        images.load(image)
    assert len(freed) == 1


_ELSEWHERE = """
import ctypes, json, sys
from tenkey.backends.llvm import images
image = open(sys.argv[1], "rb").read()
found = images.load(image)
call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(found["calls"])
names = "llvmlite", "numba", "tenkey.backends.llvm.llvm_library"
print(json.dumps([call(7.5, 2.0), [name for name in names if name in sys.modules]]))
"""


def test_another_process_loads_an_image_without_llvm(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(images.build([_object(_LIBM)], ["calls"]))
    done = subprocess.run([sys.executable, "-c", _ELSEWHERE, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [(math.sin(1.5) + math.cos(1.5)) * 1.25, []]
