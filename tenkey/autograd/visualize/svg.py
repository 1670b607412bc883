"""Boxes and lines as SVG, placed by :class:`tenkey.autograd.visualize.layout.Layout`.

Boxes are light with dark text, on whatever the page is; lines and the note are of a grey that stands out from black
and from white. The widths are those of fixed-pitch fonts, whose letters are all three fifths of their size wide.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from .layout import Layout, layers_of

__all__ = ["Box", "Line", "render"]

_TITLE, _TEXT = 13.0, 11.0  # sizes of letters
_PITCH: Final = 0.605
_PAD: Final = 9.0
_LONGEST: Final = 44  # letters of a line; the whole text is in the tooltip
_MARGIN: Final = 12.0
_COLOURS: Final = {
    "leaf": ("#dbeafe", "#2563eb"),
    "node": ("#f4f4f5", "#71717a"),
    "output": ("#dcfce7", "#16a34a"),
    "cut": ("#fafafa", "#a1a1aa"),
    "tag": ("#eef2ff", "#818cf8"),
}
_GREY: Final = "#858b96"
_STYLE: Final = (
    "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;"
    "font-size:11px;fill:#18181b}text.title{font-size:13px;font-weight:600}text.saved{fill:#92400e}"
    f"text.page{{fill:{_GREY}}}path{{fill:none;stroke:{_GREY};stroke-width:1.2}}"
)
_ARROW: Final = (
    'viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 .8L8 4L0 7.2z" style="fill:{_GREY};stroke:none"/>'
)


class Box:
    """A box: its kind, a title, lines of text, what was saved, and a note for the tooltip."""

    __slots__ = ("kind", "lines", "note", "saved", "title")

    def __init__(self, kind: str, title: str, lines: list[str]) -> None:
        self.kind = kind
        self.title = title
        self.lines = lines
        self.saved: list[str] = []
        self.note = ""

    def size(self) -> tuple[float, float]:
        """Width and height."""
        widths = [_letters(self.title) * _TITLE * 1.08]  # room for bold letters of another font
        widths += [_letters(text) * _TEXT for text in (*self.lines, *self.saved)]
        height = _TITLE + 5 + len(self.lines) * (_TEXT + 4) + _PAD + 3
        if self.saved:
            height += len(self.saved) * (_TEXT + 4) + 7
        return round(max(widths) * _PITCH + 2 * _PAD, 1), height


class Line(NamedTuple):
    """A line from a box to one that uses it; ``nr`` says which output it is, unless it is the ``only`` one."""

    source: int
    target: int
    nr: int
    only: bool


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _letters(text: str) -> int:
    """How many letters wide a text is: those of East Asia are as wide as two."""
    return sum(2 if letter > "\u2e80" else 1 for letter in _short(text))


def _with_tags(
    boxes: Sequence[Box], lines: Sequence[Line], far: int, far_leaf: int
) -> tuple[list[Box], list[Line], list[int]]:
    """Boxes, lines and layers, with a tag beside the user in place of each line that would cross too many layers."""
    layers = layers_of(len(boxes), [(line.target, line.source) for line in lines])
    all_boxes, kept = list(boxes), []
    tags: dict[tuple[int, int, int], int] = {}
    for line in lines:
        above = layers[line.target] + 1
        source = boxes[line.source]
        if layers[line.source] - layers[line.target] <= (far_leaf if source.kind == "leaf" else far):
            kept.append(line)
            continue
        key = (line.source, line.nr, above)
        if key not in tags:
            tags[key] = len(all_boxes)
            all_boxes.append(Box("tag", source.title, [source.lines[0]] if source.lines else []))
            layers.append(above)
        kept.append(Line(tags[key], line.target, line.nr, line.only))
    return all_boxes, kept, layers


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(route: Sequence[tuple[float, float, float]]) -> str:
    """A line: straight through its layers, and curves between them."""
    (x, start, y), *rest = route
    parts = [f"M{_number(x)} {_number(start)}"]
    if y != start:
        parts.append(f"V{_number(y)}")
    for i, (next_x, top, bottom) in enumerate(rest):
        end = top - 7 if i == len(rest) - 1 else top  # the head of the arrow is straight
        if abs(next_x - x) < 0.5:
            parts.append(f"V{_number(end)}")
        else:
            middle = (y + end) / 2
            parts.append(
                f"C{_number(x)} {_number(middle)} {_number(next_x)} {_number(middle)} {_number(next_x)} {_number(end)}"
            )
        if bottom != end:
            parts.append(f"V{_number(bottom)}")
        x, y = next_x, bottom
    return "".join(parts)


def _drawn(box: Box, x: float, y: float, width: float, height: float) -> list[str]:
    """The elements of a box whose upper left corner is given."""
    fill, stroke = _COLOURS[box.kind]
    details = [box.title, *box.lines, *box.saved, *([box.note] if box.note else [])]
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    dashed = ' stroke-dasharray="4 3"' if box.kind in ("cut", "tag") else ""
    made = [
        f'<g class="{box.kind}"><title>{_escape(chr(10).join(details))}</title>',
        f'<rect class="box" {place} rx="6" fill="{fill}" stroke="{stroke}"{dashed}/>',
    ]
    line = y + _TITLE + 4
    centre = _number(x + width / 2)
    made.append(f'<text class="title" x="{centre}" y="{_number(line)}" text-anchor="middle">{_text(box.title)}</text>')
    for text in box.lines:
        line += _TEXT + 4
        made.append(f'<text x="{centre}" y="{_number(line)}" text-anchor="middle">{_text(text)}</text>')
    if box.saved:
        depth = len(box.saved) * (_TEXT + 4) + 5
        made.append(
            f'<rect class="kept" x="{_number(x + 4)}" y="{_number(y + height - depth - 4)}" '
            f'width="{_number(width - 8)}" height="{_number(depth)}" rx="4" fill="#fef3c7"/>'
        )
        line = y + height - depth - 4 - 1
        for text in box.saved:
            line += _TEXT + 4
            made.append(f'<text class="saved" x="{_number(x + _PAD)}" y="{_number(line)}">{_text(text)}</text>')
    return [*made, "</g>"]


def _text(text: str) -> str:
    return _escape(_short(text))


def render(boxes: Sequence[Box], lines: Sequence[Line], note: str, *, far: int, far_leaf: int) -> str:
    """The SVG document."""
    every, kept, layers = _with_tags(boxes, lines, far, far_leaf)
    sizes = [box.size() for box in every]
    light = [box.kind in ("leaf", "tag", "cut") for box in every]
    layout = Layout(sizes, layers, [(line.source, line.target) for line in kept], light)
    width = max(layout.width, len(note) * _TEXT * _PITCH) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + _TEXT + 10
    shift = (width - layout.width) / 2
    arrow = f"arrow-{zlib.crc32(repr((note, sizes, layers)).encode()):08x}"  # several pictures share a page
    w, h = _number(width), _number(height)
    size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{_escape(note)}</title><style>{_STYLE}</style>",
        f'<defs><marker id="{arrow}" {_ARROW}</marker></defs>',
        f'<g transform="translate({_number(shift)} {_number(_MARGIN)})">',
    ]
    for line, route in zip(kept, layout.routes):
        made.append(f'<path d="{_path(route)}" marker-end="url(#{arrow})"/>')
        if not line.only:
            x, _, y = route[0]
            made.append(f'<text class="page" x="{_number(x + 4)}" y="{_number(y + 12)}">{line.nr}</text>')
    for box, x, y, (wide, high) in zip(every, layout.x, layout.y, sizes):
        made += _drawn(box, x - wide / 2, y - high / 2, wide, high)
    place = f'x="{_number(width / 2)}" y="{_number(height - 8)}" text-anchor="middle"'
    return "\n".join([*made, "</g>", f'<text class="page" {place}>{_escape(note)}</text>', "</svg>"]) + "\n"
