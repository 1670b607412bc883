"""repr and notebook display of tensors."""

from __future__ import annotations

import html.parser
import re
import time
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._backends import Host, TemplateHost


class Page(html.parser.HTMLParser):
    """Checks that tags are closed, and collects what is on the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(x: tk.Tensor) -> Page:
    made = Page(x._repr_html_())
    assert "script" not in made.tags
    assert not any(name.startswith("on") for name, _ in made.attributes)
    assert made.tags[0] == "div"
    return made


def test_matrix() -> None:
    found = page(tk.asarray([[1.0, -2.5], [0.0, float("nan")]]))
    assert found.text.startswith("tensor, 2 × 2 · float32 · cpu")
    assert found.tags.count("td") == 5
    for number in ("1", "-2.5", "0", "nan"):
        assert number in found.text
    colours = [value for name, value in found.attributes if name == "style" and value and "background" in value]
    assert len(set(colours)) == 4, "positive, negative, zero and nan"
    assert "svg" not in found.tags


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (tk.asarray(3.5), ["3.5", "shape=()"]),
        (tk.asarray([1.0, float("inf")]), ["tensor, 2 · float32", "inf"]),
        (tk.asarray([[True, False]]), ["True", "False", "bool"]),
        (tk.asarray([[1 + 2j]]), ["1+2j", "complex64"]),
        (tk.asarray([[2**63]], dtype=tk.uint64), [str(2**63)]),
        (tk.zeros((0, 3)), ["shape=(0, 3)"]),
        (tk.ones((2, 3, 4)), ["shape=(2, 3, 4)"]),
        (tk.ones((2, 2), device="meta"), ["meta", "tensor(..."]),
        (tk.ones((1, 2)).requires_grad_(), ["requires_grad=True"]),
        (tk.ones((1, 2)).requires_grad_() * 2, ["grad_fn=<MultiplyBackward>"]),
        (tk.arange(100), ["tensor, 100 · int64", "99", "…"]),
    ],
)
def test_kinds(x: tk.Tensor, words: list[str]) -> None:
    found = page(x)
    for word in words:
        assert word in found.text


def test_large_matrices_have_a_heat_map_in_words_too() -> None:
    x = tk.reshape(tk.arange(6400, dtype=tk.float32), (80, 80)).clone()
    x[0, 0] = float("nan")
    found = page(x)
    labels = [value for name, value in found.attributes if name == "aria-label"]
    assert labels == ["Heat map: values of every 3. row and 3. column, from 3 to 6318, 1 not a number (grey)"]
    assert found.tags.count("title") == 1
    assert ("role", "img") in found.attributes
    for dtype in ("complex64", "bool", "int8", "bfloat16"):
        if dtype == "bfloat16":
            pytest.importorskip("ml_dtypes")
        assert "svg" in page(tk.ones((20, 20), dtype=dtype)).tags
    assert "none of them finite" in page(tk.full((20, 20), float("nan"))).text
    assert "absolute values" in page(tk.ones((20, 20), dtype=tk.complex64)).text


def test_names_are_escaped() -> None:
    class Odd(tk.Tensor):
        """A subclass whose name is none."""

    Odd.__name__ = "<script>alert(1)</script>"
    for shape in ((2, 2), (2, 2, 2)):
        text = tk.ones(shape).as_subclass(Odd)._repr_html_()
        assert "<script" not in text
        assert "&lt;script&gt;" in text
    assert repr(tk.ones(1).as_subclass(Odd)).startswith("<script>")  # repr is text


def test_huge_tensors() -> None:
    started = time.perf_counter()
    for shape in ((10**6, 10**6), (10**12,), (10**4, 10**4, 10**4)):
        huge = tk.broadcast_to(tk.asarray(1.0), shape)
        assert len(repr(huge)) < 3000
        assert len(huge._repr_html_()) < 60_000
    assert time.perf_counter() - started < 20, "hours, if they looked at every element"


class Counting(TemplateHost):
    """Counts the bytes that leave the device."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        self.bytes += array.nbytes
        super().copy_to_host(buffer, array)


class Plain(Host):
    """The four methods alone."""

    name = "plainhost"


@pytest.mark.parametrize("kind", [Counting, Plain])
@pytest.mark.parametrize("shape", [(3,), (5000,), (70, 80), (3, 2000), (12, 13, 14)])
def test_elsewhere_the_edges_alone_are_copied(kind: Any, shape: tuple[int, ...]) -> None:
    backend = kind()
    with tk.backends.register(backend):
        here = tk.reshape(tk.arange(int(np.prod(shape)), dtype=tk.float32), shape)
        there = here.to(backend.name)
        assert repr(there) == repr(here).replace("'cpu'", repr(backend.name))
        if kind is Counting and here.size > 1000:
            assert 0 < backend.bytes < 4 * 8**3
        assert there._repr_html_() == here._repr_html_().replace("· cpu", f"· {backend.name}").replace(
            "&#x27;cpu&#x27;", f"&#x27;{backend.name}&#x27;"
        )


def test_inside_of_transforms_and_modes() -> None:
    seen: list[str] = []

    def function(v: tk.Tensor) -> tk.Tensor:
        seen.extend([repr(v), v._repr_html_()])
        return v * 2

    tk.transforms.vmap(function)(tk.ones((2, 3)))
    assert "batched" in seen[0]
    assert "batched" in seen[1]


def test_format() -> None:
    assert f"{tk.asarray(1.23456):.2f}" == "1.23"
    assert f"{tk.ones(1)}" == repr(tk.ones(1))
    with pytest.raises(TypeError, match=re.escape("[format] the format '.2f' is for a number")):
        f"{tk.ones(2):.2f}"


def test_messages_of_numpy_name_the_operands() -> None:
    from tenkey.ops.declare import TensorSpec, structured

    def on_numpy(x: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
        raise ValueError("something inside went wrong")

    structured(
        "display::failing(Tensor x, Tensor y, int n) -> Tensor",
        meta=lambda x, y, n: TensorSpec(x.shape, x.dtype),
        numpy=on_numpy,
    )
    with pytest.raises(ValueError, match="went wrong") as caught:
        tk.ops.display.failing(tk.ones((2, 3)), tk.ones(4, dtype=tk.int8), 5)
    assert str(caught.value) == (
        "[failing] something inside went wrong (It was called with float32 (2, 3), int8 (4,), 5.)"
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: tk.maximum(a, b),
        lambda a, b: tk.where(a > 0, a, b),
        lambda a, b: a.copy_(b),
        lambda a, b: a.add_(b),
        lambda a, b: tk.concat([a, b]),
        lambda a, b: tk.stack([a, b]),
    ],
)
def test_messages_of_shapes_that_do_not_fit_show_both(call: Any) -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(4, 5\)"):
        call(tk.ones((2, 3)), tk.ones((4, 5)))
