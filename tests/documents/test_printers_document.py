"""docs/printers.md names every operation, dialect and rule that a printer has to know."""

from __future__ import annotations

import re

from tenkey.library import scalar as s
from tools.make_pictures import ROOT

TEXT = (ROOT / "docs" / "printers.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("## What a printer must preserve") :]


def test_every_operation_has_a_rule() -> None:
    assert [name for name in s.OPERATIONS if not re.search(rf"`{name}`", TABLE)] == []


def test_every_dialect_is_listed() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", TEXT[: TEXT.index("```python")], re.MULTILINE)
    assert listed == [*s.C_DIALECTS, "wgsl"]


def test_the_dtypes_without_a_type_are_those_named() -> None:
    def row(dialect: str) -> str:
        return TEXT.split(f"| `{dialect}` |")[1].split("\n")[0]

    every = s.C_DIALECTS["c"].types.keys()
    for dialect, language in {**s.C_DIALECTS, "wgsl": s.WGSL}.items():
        missing = [dtype for dtype in every if dtype not in language.types]
        named = [dtype for dtype in missing if dtype in row(dialect)]
        assert missing == named or "integers other than 32 bits" in row(dialect), dialect
    assert [dtype for dtype in every if "int" in dtype and dtype in s.WGSL.types] == ["int32", "uint32"]
