"""Every name of NumPy's has a place in the namespace, and the page of names is up to date."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey.numpy as tnp
from tenkey.numpy.public_names import OUT_OF_SCOPE, REFUSED
from tools.numpy_names import MARKS, PAGE, names_of, place_of, table


@pytest.mark.parametrize("module", ["", "linalg", "fft", "random"])
def test_every_name_has_a_place(module: str) -> None:
    assert [name for name in names_of(module) if not place_of(module, name)] == []


@pytest.mark.parametrize("module", ["", "linalg", "fft", "random"])
def test_what_is_offered_is_there(module: str) -> None:
    """A name that the table counts as offered is an attribute, and one that it does not count is an error."""
    namespace = getattr(tnp, module) if module else tnp
    for name in names_of(module):
        offered = place_of(module, name) not in ("refused", "out of scope")
        assert hasattr(namespace, name) == offered, name


def test_missing_names_are_explained() -> None:
    with pytest.raises(AttributeError, match="out of scope"):
        tnp.longdouble  # noqa: B018
    for name, reason in REFUSED.items():
        with pytest.raises(AttributeError, match=reason.split(":", maxsplit=1)[0]):
            getattr(tnp, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tnp.nonsense  # noqa: B018


def test_reasons_name_names_of_numpy() -> None:
    """A name that NumPy does not have in any supported version is a misspelling."""
    known = {*dir(np), "matrix", "rec", "core", "busday_count", "in1d", "trapz"}
    listed = {name for names in OUT_OF_SCOPE.values() for name in names.split()} | {*REFUSED}
    assert sorted(listed - known - {"float128", "complex256", "strings"}) == []


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    version = ".".join(np.__version__.split(".")[:2])
    if f"With NumPy {version}:" not in text:
        pytest.skip("the page is made with another version of NumPy, which has other names")
    assert text == table(), "run `python -m tools.numpy_names`"
