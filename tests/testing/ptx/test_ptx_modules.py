"""Reading PTX, names, the cache of compiled modules, and that nothing is imported too early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tenkey.testing import ptx
from tenkey.testing.ptx import ptx_compiler
from tenkey.testing.ptx.ptx_text import number, parse, plain_name, source_place, split
from tests.testing.ptx._instructions import HEAD, entry


def test_operands_are_divided() -> None:
    assert split("{a, b}, [x+4], -1, (p, q), %r1|%p2") == ["{a, b}", "[x+4]", "-1", "(p, q)", "%r1|%p2"]
    assert split("") == []


def test_numbers() -> None:
    assert number("0x10", 32) == 16
    assert number("-3", 32) == -3
    assert number("017", 32) == 15
    assert number("0b101", 32) == 5
    assert number("7U", 32) == 7
    assert number("0f3F800000", 32) == 0x3F800000
    assert number("0d3FF8000000000000", 64) == 0x3FF8000000000000
    assert number("-0f3F800000", 32) == 0xBF800000
    assert number("1.5", 64) == 0x3FF8000000000000
    assert number("2.0", 32) == 0x40000000


def test_a_module_is_divided() -> None:
    text = (
        HEAD
        + """
    .file 1 "a \\"b\\".cu"
    .extern .func (.param .b32 r) outside (.param .b64 x) ;
    .visible .global .align 16 .v4 .f32 wide[3];
    .weak .const .align 1 .b8 letters[4] = {1, 2};
    .extern .shared .align 16 .b8 dynamic[];
    .visible .entry one(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[12], .param .u16 h)
    .maxntid 32, 4, 1
    .minnctapersm 2
    {
    /* a comment; with a semicolon
       and a second line */ .reg .b32 %r<4>; { .reg .pred p; }
    $L_1: // comment
    .loc 1 7 3
    @!p bra $L_1;
    .loc 1 8 1, function_name $L__info_string0, inlined_at 1 3 2
    mov.b32 {%r1, %r2}, 5; ret;
    }
    .section .debug_str { .b8 1, 2; }
    """
    )
    module = parse(text)
    assert (module.version, module.target) == ("8.6", "sm_90a")
    assert [(v.name, v.space, v.size, v.align, v.is_external) for v in module.variables] == [
        ("wide", "global", 48, 16, False), ("letters", "const", 4, 1, False), ("dynamic", "shared", 0, 16, True),
    ]  # fmt: skip
    one = module.functions["one"]
    assert [(p.name, p.offset, p.size) for p in one.parameters] == [("p", 0, 8), ("s", 8, 12), ("h", 20, 2)]
    assert one.largest_block == 128
    assert module.functions["outside"].body is None
    opcodes = [(i.opcode, i.predicate, i.operands) for i in one.body or ()]
    assert ("bra", "!p", ["$L_1"]) in opcodes
    assert ("mov.b32", "", ["{%r1, %r2}", "5"]) in opcodes
    line = next(i.line for i in one.body or () if i.opcode == "mov.b32")
    assert text.split("\n")[line - 1].strip().startswith("mov.b32")
    assert source_place(text, line) == ('a \\"b\\".cu', 8)
    assert source_place(text, 5) == (None, None)


def test_plain_names() -> None:
    assert plain_name("saxpy") == "saxpy"
    assert plain_name("_Z5saxpyPfS_f") == "saxpy"
    assert plain_name("_ZN2ns3addEi") == "add"
    assert plain_name("_ZN8__main__7row_sumB2v1B92cw51cXTLSUwv1sDUaKthqa") == "row_sum"


KERNEL = HEAD + entry(
    "k",
    ".param .u64 out",
    """
.reg .b64 x;
ld.param.u64 x, [out];
st.global.u32 [x], 42;
""",
)


def test_a_compiled_module_is_taken_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        out = np.zeros(1, "u4")
        ptx.Module(KERNEL.replace("42", "43")).kernel().launch(1, 1, [out])
        assert out[0] == 43
        monkeypatch.setattr(ptx_compiler, "parse", None)  # a second compilation would fail
    with pytest.raises(TypeError):
        ptx.Module(KERNEL.replace("42", "44"))


def test_all_facts_survive_the_cache() -> None:
    text = HEAD + """
    .global .align 4 .u32 numbers[3] = {1, 2};
    .const .align 8 .u64 places[1] = {numbers};
    """ + entry("first", ".param .u64 a, .param .f32 b", "bar.sync 0;") + entry("second", "", "")  # fmt: skip
    found = ptx_compiler.compiled(text, cached=False)
    again = ptx_compiler._unpacked(ptx_compiler._packed(found))
    assert again == found


def test_a_module_without_kernels() -> None:
    module = ptx.Module(HEAD + ".global .u32 alone = 5;")
    assert module.kernels == {}
    with pytest.raises(KeyError, match="its kernels are none"):
        module.kernel()
    assert module.variable("alone")[1] == 4


def test_importing_tenkey_does_not_import_the_executor() -> None:
    code = """
import sys, tenkey
assert not any("testing.ptx" in name for name in sys.modules)
import tenkey.testing.ptx
assert not any(name.split(".")[0] in {"numba", "cuda", "nvmath"} for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
