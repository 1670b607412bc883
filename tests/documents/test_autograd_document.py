"""docs/autograd.md says what is so: its pictures are current, its tests exist, no public name is left out."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import tenkey as tk
from tools.make_pictures import ROOT, make_pictures

TEXT = (ROOT / "docs" / "autograd.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "svg"), make_pictures().items())
def test_the_pictures_are_current(name: str, svg: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == svg, "run `python -m tools.make_pictures`"
    assert f"({Path(name).relative_to('docs').as_posix()})" in TEXT
    assert ET.fromstring(svg).tag.endswith("svg")


def test_the_second_picture_is_that_of_its_program() -> None:
    note = re.search(r">(\d+ nodes, \d+ leaves, .*? saved)<", make_pictures()["docs/pictures/network.svg"])
    assert note is not None
    assert note[1] in TEXT


def test_the_tests_that_it_names_exist() -> None:
    named = re.findall(r"`(test_\w+)`", TEXT)
    assert len(named) >= 5
    tests = (ROOT / "tests" / "autograd" / "test_hooks.py").read_text(encoding="utf-8")
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_the_lines_of_the_hook_table_are_numbered() -> None:
    assert re.findall(r"^\| (\d) \|", TEXT, re.MULTILINE) == [str(i) for i in range(1, 10)]


LEFT_OUT = {
    "function": "the module of Function and once_differentiable",
    "install": "what the composition root calls once",
}
NAMES = sorted({*tk.autograd.__all__, *tk.autograd.graph.__all__} - LEFT_OUT.keys())


@pytest.mark.parametrize("name", NAMES)
def test_it_speaks_of_every_part(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT)


def test_what_is_left_out_is_public() -> None:
    assert LEFT_OUT.keys() <= {*tk.autograd.__all__, *tk.autograd.graph.__all__}
