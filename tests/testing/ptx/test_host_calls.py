"""``printf`` and ``assert`` in kernels."""

from __future__ import annotations

import pytest

from tenkey.testing import ptx
from tests.testing.ptx._instructions import kernel

HEAD = """
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 text[] = {37, 100, 58, 37, 46, 49, 102, 32, 37, 115, 37, 37, 10, 0};
.global .align 1 .b8 name[4] = {97, 98, 99};
.global .align 1 .b8 claim[6] = {120, 32, 62, 32, 48};
"""
PRINT = """
.local .align 8 .b8 l[24];
.reg .b32 t, a;
.reg .b64 x, y, z;
.reg .pred p;
mov.u32 t, %tid.x;
mov.u64 y, l;
cvta.local.u64 z, y;
st.local.u32 [y], t;
st.local.f64 [y+8], 0d4004000000000000;
mov.u64 x, name;
st.local.u64 [y+16], x;
{
.param .b64 f;
.param .b64 v;
.param .b32 r;
mov.u64 x, text;
st.param.b64 [f], x;
st.param.b64 [v], z;
call.uni (r), vprintf, (f, v);
ld.param.b32 a, [r];
}
setp.eq.u32 p, a, 3;
@p ret;
trap;
"""
ASSERT = """
.reg .b32 t;
.reg .b64 x;
.reg .pred p;
mov.u32 t, %tid.x;
setp.ne.u32 p, t, 2;
@p ret;
{
.param .b64 m;
.param .b64 f;
.param .b32 l;
.param .b64 n;
.param .b64 s;
mov.u64 x, claim;
st.param.b64 [m], x;
call.uni __assertfail, (m, f, l, n, s);
}
"""


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    kernel("", PRINT, head=HEAD).launch(1, 3)
    assert capsys.readouterr().out == "0:2.5 abc%\n1:2.5 abc%\n2:2.5 abc%\n"


def test_an_assertion_that_fails() -> None:
    with pytest.raises(
        ptx.KernelError, match=r"thread \(2, 0, 0\) of block \(0, 0, 0\) fails the assertion 'x > 0'"
    ) as caught:
        kernel("", ASSERT, head=HEAD).launch(1, 3)
    assert caught.value.kind == "assertion"
