"""Render boxes and lines as SVG, placed by :class:`tenkey.autograd.visualize.layout.Layout`.

Boxes are light with dark text on any page; lines and the note are of a grey that stands out from both black and white.
Text widths assume a fixed-pitch font, whose letters are three fifths of the font size wide.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple

from .layout import Layout, layers_of

__all__ = ["COLOURS", "Box", "Line", "render"]

_TITLE, _TEXT = 13.0, 11.0  # font sizes
_STEP: Final = _TEXT + 4  # from line to line
_PITCH: Final = 0.605
_PAD: Final = 9.0
_LONGEST: Final = 44  # letters of a line; the tooltip has the whole text
_MARGIN: Final = 12.0
_FAR, _FAR_LEAF = 16, 3  # a line across more layers starts at a tag beside its user
COLOURS: Final = {
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


@dataclass(slots=True)
class Box:
    """A box: its kind, a title, lines of text, the saved values, and a note for the tooltip."""

    kind: str
    title: str
    lines: list[str]
    saved: list[str] = field(default_factory=list)
    note: str = ""

    def size(self) -> tuple[float, float]:
        """Return width and height."""
        widths = [_letters(self.title) * _TITLE * 1.08]  # room for bold letters of another font
        widths += [_letters(text) * _TEXT for text in (*self.lines, *self.saved)]
        height = _TITLE + 8 + _PAD + _STEP * (len(self.lines) + len(self.saved)) + 7 * bool(self.saved)
        return round(max(widths) * _PITCH + 2 * _PAD, 1), height


class Line(NamedTuple):
    """A line from a box to one that uses it; ``nr`` is the number of the output, None if it is the only one."""

    source: int
    target: int
    nr: int | None = None


def _letters(text: str) -> int:
    """Return the width of a text in letters; East Asian letters count twice."""
    return sum(2 if letter > "\u2e80" else 1 for letter in text[:_LONGEST])


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # the sum makes -0.0 positive


def _text(kind: str, x: float, y: float, text: str, *, centred: bool = True) -> str:
    shown = text if len(text) <= _LONGEST or kind == "page" else text[: _LONGEST - 1] + "…"
    anchor = ' text-anchor="middle"' if centred else ""
    return f'<text class="{kind}" x="{_number(x)}" y="{_number(y)}"{anchor}>{escape(shown, quote=False)}</text>'


def _with_tags(boxes: Sequence[Box], lines: Sequence[Line]) -> tuple[list[Box], list[Line], list[int]]:
    """Return boxes, lines and layers, with a tag beside the user in place of each line that crosses too many layers."""
    layers = layers_of(len(boxes), [(line.target, line.source) for line in lines])
    all_boxes, kept = list(boxes), []
    tags: dict[tuple[int, int | None, int], int] = {}
    for line in lines:
        above = layers[line.target] + 1
        source = boxes[line.source]
        if layers[line.source] - above >= (_FAR_LEAF if source.kind == "leaf" else _FAR):
            key = (line.source, line.nr, above)
            if key not in tags:
                tags[key] = len(all_boxes)
                all_boxes.append(Box("tag", source.title, source.lines[:1]))
                layers.append(above)
            line = line._replace(source=tags[key])
        kept.append(line)
    return all_boxes, kept, layers


def _path(route: Sequence[tuple[float, float, float]]) -> str:
    """Return the data of a path that is straight within layers and curved between them."""
    x, start, y = route[0]
    path = f"M{_number(x)} {_number(start)}V{_number(y)}"
    for i, (next_x, top, bottom) in enumerate(route[1:], 2):
        end = top - 7 if i == len(route) else top  # the head of the arrow is straight
        if abs(next_x - x) < 0.5:
            path += f"V{_number(end)}"
        else:
            numbers = (x, (y + end) / 2, next_x, (y + end) / 2, next_x, end)
            path += "C" + " ".join(map(_number, numbers))
        path += f"V{_number(bottom)}"
        x, y = next_x, bottom
    return path


def _rectangle(kind: str, x: float, y: float, width: float, height: float, style: str) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    return f'<rect class="{kind}" {place} {style}/>'


def _drawn(box: Box, x: float, y: float, width: float, height: float) -> list[str]:
    """Return the elements of a box, given its upper left corner and its size."""
    fill, stroke = COLOURS[box.kind]
    dashed = ' stroke-dasharray="4 3"' if box.kind in ("cut", "tag") else ""
    details = "\n".join([box.title, *box.lines, *box.saved, *([box.note] if box.note else [])])
    centre, line = x + width / 2, y + _TITLE + 4
    made = [
        f'<g class="{box.kind}"><title>{escape(details, quote=False)}</title>',
        _rectangle("box", x, y, width, height, f'rx="6" fill="{fill}" stroke="{stroke}"{dashed}'),
        _text("title", centre, line, box.title),
    ]
    made += [_text("line", centre, line + _STEP * i, text) for i, text in enumerate(box.lines, 1)]
    if box.saved:
        depth = len(box.saved) * _STEP + 5
        top = y + height - depth - 4
        made.append(_rectangle("kept", x + 4, top, width - 8, depth, 'rx="4" fill="#fef3c7"'))
        made += [
            _text("saved", x + _PAD, top - 1 + _STEP * i, text, centred=False) for i, text in enumerate(box.saved, 1)
        ]
    return [*made, "</g>"]


def render(boxes: Sequence[Box], lines: Sequence[Line], note: str) -> str:
    """Return the SVG document."""
    every, kept, layers = _with_tags(boxes, lines)
    sizes = [box.size() for box in every]
    light = [box.kind in ("leaf", "tag", "cut") for box in every]
    layout = Layout(sizes, layers, [(line.source, line.target) for line in kept], light)
    width = max(layout.width, len(note) * _TEXT * _PITCH) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + _TEXT + 10
    arrow = f"arrow-{zlib.crc32(repr((note, sizes, layers)).encode()):08x}"  # several pictures may share a page
    w, h = _number(width), _number(height)
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">',
        f"<title>{escape(note, quote=False)}</title><style>{_STYLE}</style>",
        f'<defs><marker id="{arrow}" {_ARROW}</marker></defs>',
        f'<g transform="translate({_number((width - layout.width) / 2)} {_number(_MARGIN)})">',
    ]
    for line, route in zip(kept, layout.routes):
        made.append(f'<path d="{_path(route)}" marker-end="url(#{arrow})"/>')
        if line.nr is not None:
            made.append(_text("page", route[0][0] + 4, route[0][1] + 12, str(line.nr), centred=False))
    for box, x, y, (wide, high) in zip(every, layout.x, layout.y, sizes):
        made += _drawn(box, x - wide / 2, y - high / 2, wide, high)
    return "\n".join([*made, "</g>", _text("page", width / 2, height - 8, note), "</svg>"]) + "\n"
