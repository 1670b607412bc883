"""`tk.autograd.draw`: what is in the picture, that it can be read, and that it is well-formed whatever names are."""

from __future__ import annotations

import gc
import random
import re
import weakref
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import tenkey as tk
from tenkey.autograd import draw
from tenkey.autograd.visualize.layout import Layout, layers_of
from tests._functions import Cube

SVG = "{http://www.w3.org/2000/svg}"


def leaf(*shape: int) -> tk.Tensor:
    return tk.ones(shape, dtype=tk.float32).requires_grad_()


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box."""
    found = []
    for rect in ET.fromstring(svg).iter(f"{SVG}rect"):
        if rect.get("class") == "box":
            x, y, w, h = (float(rect.get(name, "nan")) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
    return found


def assert_apart(svg: str) -> None:
    found = boxes(svg)
    assert found
    for a, b in combinations(found, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)


def points(path: str) -> list[tuple[float, float]]:
    """Points on a path, curves cut into short pieces."""
    found: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MVC])([-\d. ]+)", path):
        values = [float(n) for n in numbers.split()]
        if command == "M":
            found.append((values[0], values[1]))
        elif command == "V":
            found += [(found[-1][0], found[-1][1] + (values[0] - found[-1][1]) * i / 8) for i in range(1, 9)]
        else:
            (x0, y0), (x1, y1, x2, y2, x3, y3) = found[-1], values
            for i in range(1, 17):
                t = i / 16
                u = 1 - t
                x = u**3 * x0 + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t**3 * x3
                y = u**3 * y0 + 3 * u * u * t * y1 + 3 * u * t * t * y2 + t**3 * y3
                found.append((x, y))
    return found


def assert_lines_avoid_boxes(svg: str) -> None:
    found = boxes(svg)
    group = ET.fromstring(svg).find(f"{SVG}g")
    assert group is not None
    lines = [path.get("d", "") for path in group.findall(f"{SVG}path")]
    assert lines
    for line in lines:
        for x, y in points(line):
            assert not any(a + 0.2 < x < c - 0.2 and b + 0.2 < y < d - 0.2 for a, b, c, d in found), (line, x, y)


def tangled(seed: int, count: int = 40) -> list[tk.Tensor]:
    choose = random.Random(seed)
    tensors = [leaf(2) for _ in range(4)]
    for i in range(count):
        a, b = choose.choice(tensors[-12:]), choose.choice(tensors)
        tensors.append(a * b if i % 2 else tk.exp(a) + b)
    return tensors


def test_what_is_in_it() -> None:
    w, b, x = leaf(3, 2), leaf(2), tk.ones((4, 3), dtype=tk.float32)
    hidden = tk.tanh(x @ w + b)
    picture = draw(tk.sum(hidden), params={"w": w, "b": b, "hidden": hidden})
    shown = texts(picture.svg)
    for text in (
        "w", "b", "AccumulateGrad", "(3, 2) float32", "(2,) float32", "MatmulBackward", "AddBackward", "TanhBackward",
        "hidden: (4, 2) float32", "SumBackward", "output", "() float32", "saved x1 (4, 3) float32 48 B",
        "saved out (4, 2) float32 32 B", "4 nodes, 2 leaves, 80 B saved",
    ):  # fmt: skip
        assert text in shown, text
    assert not any(text.startswith("saved x2") for text in shown)  # it would be for x
    assert (picture.nodes, picture.leaves, picture.left_out, picture.saved_bytes) == (4, 2, 0, 80)
    assert repr(picture) == "<drawing of 4 nodes and 2 leaves>"


def test_lines_and_saved_values_lie_in_their_box_without_overlap() -> None:
    w, b = leaf(3, 2), leaf(2)
    svg = draw(tk.sum(tk.tanh(w * w + b) * w), params={"w": w, "b": b}).svg
    groups = [g for g in ET.fromstring(svg).iter(f"{SVG}g") if g.find(f"{SVG}rect[@class='box']") is not None]
    assert any(g.find(f"{SVG}rect[@class='kept']") is not None for g in groups)
    for group in groups:
        (left, top, right, bottom), *kept = (
            (
                float(r.get("x", "nan")),
                float(r.get("y", "nan")),
                float(r.get("width", "nan")),
                float(r.get("height", "nan")),
            )
            for kind in ("box", "kept")
            for r in group.findall(f"{SVG}rect[@class='{kind}']")
        )
        right, bottom = left + right, top + bottom
        lines = [float(t.get("y", "nan")) for t in group.findall(f"{SVG}text") if t.get("class") != "saved"]
        saved = [float(t.get("y", "nan")) for t in group.findall(f"{SVG}text[@class='saved']")]
        assert all(low + 8 < high for low, high in pairwise([top, *lines, *saved])), "baselines of text with 8 or more"
        assert max([*lines, *saved]) < bottom
        for x, y, width, height in kept:
            assert left < x < x + width < right
            assert lines[-1] < y < saved[0] <= saved[-1] < y + height < bottom


def test_saved_tensors_are_called_as_the_user_calls_them() -> None:
    w, x = leaf(3), leaf(3)
    hidden = w * x
    shown = texts(draw(hidden * hidden, params={"w": w, "hidden": hidden}).svg)
    assert "saved x1 = w (3,) float32 12 B" in shown
    assert "saved x2 (3,) float32 12 B" in shown
    assert "saved x1 = hidden (3,) float32 12 B" in shown


def test_what_hooks_packed_is_not_unpacked() -> None:
    def refuse(packed: Any) -> Any:
        raise AssertionError("unpacked")

    with tk.autograd.graph.saved_tensors_hooks(lambda tensor: "on a shelf", refuse):
        y = tk.exp(leaf(3))
    assert "saved out (3,) packed by hooks" in texts(draw(y).svg)


def test_every_edge_is_a_line_downwards() -> None:
    w = leaf(3)
    svg = draw(tk.sum(w * w)).svg
    group = ET.fromstring(svg).find(f"{SVG}g")
    assert group is not None
    lines = [points(path.get("d", "")) for path in group.findall(f"{SVG}path")]
    assert len(lines) == 4  # w twice, the product, the output
    for line in lines:
        assert all(a[1] <= b[1] + 1e-9 for a, b in pairwise(line))
    assert all(path.get("marker-end") for path in group.findall(f"{SVG}path"))


def test_dot() -> None:
    w = leaf(3)
    dot = draw(tk.sum(tk.exp(w)), params={"w": w}).dot
    assert dot.startswith("digraph ")
    assert dot.rstrip().endswith("}")
    labels = dict(re.findall(r'(n\d+) \[label="(.*?)"', dot))
    number = {label.split("\\n")[0]: name for name, label in labels.items()}
    edges = set(re.findall(r"(n\d+) -> (n\d+)", dot))
    assert edges == {
        (number["w"], number["ExpBackward"]),
        (number["ExpBackward"], number["SumBackward"]),
        (number["SumBackward"], number["output"]),
    }
    assert "saved out (3,) float32 12 B" in labels[number["ExpBackward"]]
    assert "AccumulateGrad" in labels[number["w"]]


def test_without_what_was_saved() -> None:
    y = tk.exp(leaf(3))
    assert "saved out (3,) float32 12 B" in texts(draw(y).svg)
    picture = draw(y, saved=False)
    assert not any("12 B" in text for text in texts(picture.svg))
    assert "saved" not in picture.dot


def test_what_was_freed_is_said() -> None:
    y = tk.sum(tk.exp(leaf(3)))
    y.backward()
    assert "freed" in texts(draw(y).svg)


def test_several_outputs() -> None:
    x = leaf(2, 2)
    shown = texts(draw([tk.exp(x), tk.sin(x)]).svg)
    assert {"output 0", "output 1", "ExpBackward", "SinBackward"} <= set(shown)
    assert {"loss", "accuracy"} <= set(texts(draw({"loss": tk.exp(x), "accuracy": tk.sin(x)}).svg))
    result = tk.linalg.qr(x)
    shown = texts(draw({"q": result.Q, "r": result.R}).svg)
    assert "0: (2, 2) float32" in shown
    assert "1: (2, 2) float32" in shown
    assert {"0", "1"} <= set(shown)  # which output a line comes from


def test_a_leaf_is_a_graph_of_one() -> None:
    w = leaf(3)
    picture = draw(w, {"w": w})
    assert (picture.nodes, picture.leaves) == (0, 1)
    assert {"w", "output"} <= set(texts(picture.svg))


def test_gradient_edges() -> None:
    y = tk.exp(leaf(3))
    edge = tk.autograd.graph.get_gradient_edge(y)
    assert "ExpBackward" in texts(draw(edge).svg)


def test_functions_of_ones_own() -> None:
    shown = texts(draw(Cube.apply(leaf(3))).svg)
    assert "CubeBackward" in shown
    assert any(re.fullmatch(r"saved tensor 0 \(3,\) float32 12 B", text) for text in shown)


@pytest.mark.parametrize("seed", range(4))
def test_boxes_do_not_overlap(seed: int) -> None:
    """Note [The layout]; lines run round boxes, too."""
    tensors = tangled(seed)
    svg = draw([tensors[-1], tensors[-2], tensors[20]]).svg
    assert_apart(svg)
    assert_lines_avoid_boxes(svg)


def test_far_lines_are_drawn_from_tags() -> None:
    w = leaf(3)
    y = w
    for _ in range(30):
        y = tk.exp(y)
    svg = draw(y * w, {"w": w}).svg
    assert texts(svg).count("w") == 2  # the leaf, and the tag beside the product
    assert_apart(svg)


def test_names_of_every_kind() -> None:
    w = leaf(3)
    name = "<&\">'\\ \n]]> \x00 ünï 名前"
    picture = draw(tk.exp(w), params={name: w})
    assert any("ünï" in text for text in texts(picture.svg))  # it is well-formed
    assert ET.fromstring(picture.svg).tag == f"{SVG}svg"
    assert '\\"' in picture.dot
    long = draw(tk.exp(w), params={"n" * 500: w})
    assert max(map(len, texts(long.svg))) < 100
    assert "n" * 500 in long.svg  # in the tooltip


def test_the_page_may_be_light_or_dark() -> None:
    """Boxes bring their own light ground; what lies on the page has 3 : 1 to black and to white (WCAG 1.4.11)."""
    svg = draw(tk.exp(leaf(3))).svg
    (colour,) = set(re.findall(r"stroke:(#\w{6})", svg))
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert (light + 0.05) / 0.05 >= 3
    assert 1.05 / (light + 0.05) >= 3
    assert "background" not in svg


def test_a_large_graph_is_cut_with_a_note() -> None:
    x = leaf(2)
    y = x
    for _ in range(10_000):
        y = y + x
    picture = draw(y, max_nodes=50)
    assert picture.nodes + picture.leaves == 50
    assert picture.left_out == 9_951
    (note,) = [text for text in texts(picture.svg) if "not drawn: draw(" in text]
    assert "9,951 further nodes not drawn" in note
    assert "max_nodes" in note
    assert "1 input not drawn" in texts(picture.svg)
    assert note in picture.dot
    assert_apart(picture.svg)


def test_a_deep_graph_is_drawn_without_recursion() -> None:
    y = leaf(2)
    for _ in range(10_000):
        y = tk.sin(y)
    picture = draw(y, max_nodes=20_000, saved=False)
    assert picture.left_out == 0
    assert len(boxes(picture.svg)) == 10_002
    tops = [top for _, top, _, _ in boxes(picture.svg)]
    assert len(set(tops)) == 10_002


def test_save(tmp_path: Path) -> None:
    picture = draw(tk.exp(leaf(3)))
    picture.save(tmp_path / "graph.svg")
    picture.save(str(tmp_path / "graph.dot"))
    picture.save(tmp_path / "graph.gv")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == picture.svg == picture._repr_svg_()
    assert (tmp_path / "graph.dot").read_text() == (tmp_path / "graph.gv").read_text() == picture.dot
    with pytest.raises(ValueError, match=r"ends in .svg, .dot or .gv"):
        picture.save(tmp_path / "graph.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.dot", "graph.gv", "graph.svg"]


def test_bad_input() -> None:
    w = leaf(3)
    for wrong, kind, match in (
        (tk.ones(2), RuntimeError, "does not require grad"),
        ([w, tk.ones(2)], RuntimeError, "output 1 does not require grad"),
        (3, TypeError, "got int"),
        ([], TypeError, "got "),
        (None, TypeError, "got NoneType"),
    ):
        with pytest.raises(kind, match=match):
            draw(wrong)
    for params in ([w], {"w": 3}):
        with pytest.raises(TypeError, match="params is a dict of names and tensors"):
            draw(w, params=params)  # type: ignore[arg-type]
    for limit in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="max_nodes"):
            draw(w, max_nodes=limit)  # type: ignore[arg-type]


def test_nothing_of_the_graph_is_kept() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(3)
        y = tk.sum(tk.exp(x))
        node = weakref.ref(y.grad_fn)
        picture = draw(y)
        del x, y
        assert node() is None
        assert picture.svg
    finally:
        gc.enable()


def test_drawing_changes_nothing() -> None:
    x = leaf(3)
    y = tk.sum(tk.exp(x))
    assert draw(y).svg == draw(y).svg
    y.backward()
    assert x.grad is not None


class TestLayout:
    def test_layers_are_longest_paths(self) -> None:
        assert layers_of(4, [(0, 1), (1, 2), (0, 2), (0, 3)]) == [0, 1, 2, 1]

    def test_lines_of_a_ladder_do_not_cross(self) -> None:
        """Two chains whose first order is crossed are taken apart."""
        edges = [(0, 3), (1, 2), (2, 5), (3, 4)]
        layout = Layout([(50.0, 20.0)] * 6, [2, 2, 1, 1, 0, 0], edges)
        assert (layout.x[0] < layout.x[1]) == (layout.x[3] < layout.x[2]) == (layout.x[4] < layout.x[5])

    def test_a_chain_is_straight(self) -> None:
        layout = Layout([(50.0, 20.0), (90.0, 20.0), (30.0, 20.0)], [2, 1, 0], [(0, 1), (1, 2)])
        assert len({round(x, 6) for x in layout.x}) == 1
        assert layout.y == sorted(layout.y)


def test_trees_in_a_dict() -> None:
    x = tk.ones(2).requires_grad_()
    y = x * 3
    dot = tk.autograd.draw({"loss": tk.sum(y), "parts": [y, {"more": x + 1}]}).dot
    assert [name in dot for name in ('"loss', '"parts 0', '"parts 1')] == [True] * 3
