"""nvJitLink: machine code and the assembler's figures."""

from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import Cubin, linking

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _ptx(body: str, declarations: str = "", bounds: str = "") -> str:
    return f"{_HEAD}.visible .entry k(.param .u64 p) {bounds}\n{{\n{declarations}\n{body}\nret;\n}}\n"


def test_a_cubin_survives_packing() -> None:
    cubin = Cubin(b"\x7fELF...", 40, 16, 8, 4096)
    assert Cubin.unpacked(cubin.packed()) == cubin


@pytest.mark.parametrize("cc", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_an_empty_kernel(cc: tuple[int, int]) -> None:
    cubin = linking.link(_ptx(""), "k", cc)
    assert cubin.image.startswith(b"\x7fELF")
    assert (cubin.stack, cubin.spills, cubin.shared) == (0, 0, 0)
    assert 0 < cubin.registers < 32


@pytest.mark.parametrize("cc", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_shared_memory_and_stack(cc: tuple[int, int]) -> None:
    declarations = """
    .shared .align 4 .b8 s[1280];
    .local .align 16 .b8 depot[128];
    .reg .b32 %r<4>; .reg .b64 %d<6>; .reg .f32 %f<2>;
    """
    body = """
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    ld.global.u32 %r1, [%d0];
    mul.wide.u32 %d1, %r1, 4;
    mov.u64 %d2, depot;
    add.u64 %d3, %d2, %d1;
    st.local.u32 [%d3], %r0;
    ld.global.u32 %r2, [%d0+4];
    mul.wide.u32 %d4, %r2, 4;
    add.u64 %d5, %d2, %d4;
    ld.local.u32 %r3, [%d5];
    st.shared.u32 [s], %r3;
    bar.sync 0;
    ld.shared.u32 %r1, [s+4];
    st.global.u32 [%d0], %r1;
    """
    cubin = linking.link(_ptx(body, declarations), "k", cc)
    assert cubin.shared == 1280
    assert cubin.stack == 128
    assert cubin.spills == 0


def test_spills() -> None:
    """A thread that may have 16 registers keeps 60 values."""
    loads = "\n".join([f"ld.volatile.global.u32 %r{i}, [%d0+{4 * i}];" for i in range(60)])
    stores = "\n".join([f"st.volatile.global.u32 [%d0+{4 * i}], %r{59 - i};" for i in range(60)])
    text = _ptx(f"ld.param.u64 %d0, [p];\n{loads}\n{stores}", ".reg .b32 %r<60>; .reg .b64 %d<1>;", ".maxnreg 24")
    cubin = linking.link(text, "k", (9, 0))
    assert cubin.registers <= 24
    assert cubin.spills >= 2 * 4 * (60 - 24)


def test_ptx_that_is_wrong() -> None:
    with pytest.raises(linking.LinkError, match=r"(?s)\[k\] the assembler refuses the PTX for sm_90.*foo"):
        linking.link(_ptx("foo.bar 1;"), "k", (9, 0))


def test_a_log_without_figures_is_an_error() -> None:
    with pytest.raises(linking.LinkError, match=r"\[k\] the assembler's log has no figures"):
        linking._figures("ptxas info    : everything is fine", "k")
