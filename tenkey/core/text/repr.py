"""``repr`` and ``format`` of tensors, and their display in notebooks as a table or a small heat map.

Note [Displays read only what they show]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The displayed elements are selected first, on the device, and only these are copied or converted, so tensors of any size
print at once. For tensors on the CPU, modes do not see this. Colours are half transparent, which suits light and dark
pages, and repeat what the text says; there are no scripts. Guarded by
``tests/core/test_display.py::test_huge_tensors`` and ``::test_elsewhere_the_edges_alone_are_copied``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..device import device_types
from ..tensor import Tensor, add_methods, cpu_word, make_tensor
from ..word import REQUIRES_GRAD
from ..wrapper import Wrapper
from .formatting import edge_indices, format_tensor, get_printoptions

__all__ = ["html_of"]

_CELLS: Final = 12  # rows and columns up to which a table shows a matrix in full
_PIXELS: Final = 32  # rows and columns of a heat map, at most
_SIDE: Final = 200  # its longer side on the page
_POSITIVE: Final = "214,96,30"
_NEGATIVE: Final = "40,110,200"
_NO_NUMBER: Final = "128,128,128"


def _state(self: Tensor) -> str:
    """Describe the gradient state."""
    if not self._word & REQUIRES_GRAD:
        return ""
    try:
        node = self.grad_fn
    except RuntimeError:  # a view whose memory was changed through another tensor
        return "grad_fn=<Invalid>"
    return "requires_grad=True" if node is None else f"grad_fn=<{node.name()}>"


def _has_values(self: Tensor) -> bool:
    device = self.device
    return self._data.__class__ is np.ndarray or (device.type in device_types() and device.backend is not None)


def _cut(self: Tensor, windows: tuple[slice, ...], what: str) -> np.ndarray:
    """Return the elements in a window, in host memory."""
    if self._data.__class__ is np.ndarray:
        return self._values(what)[windows]
    return self.detach()[windows].clone()._values(what)


def _on_host(self: Tensor, what: str) -> Tensor:
    """Return the tensor, or all its values if its backend cannot copy a part: then they are read once."""
    backend = None if self._data.__class__ is np.ndarray else self.device.backend
    if backend is None or type(backend).pointwise.__qualname__ != "Backend.pointwise":
        return self
    values = self._values(what)
    return make_tensor(values, cpu_word(values.dtype))


def _corners(self: Tensor, edges: Sequence[int | None], what: str) -> np.ndarray:
    """Return the given numbers of elements at both ends of each axis; None: the whole axis."""
    ends = [[slice(0, n)] if e is None else [slice(0, e), slice(n - e, n)] for n, e in zip(self.shape, edges)]
    if not ends:
        return self._values(what)

    def joined(*windows: slice) -> np.ndarray:
        axis = len(windows)
        if axis == len(ends):
            return _cut(self, windows, what)
        return np.concatenate([joined(*windows, window) for window in ends[axis]], axis)

    return joined()


def _edges(self: Tensor) -> np.ndarray:
    """Return the elements of a tensor not on the CPU that ``format_tensor`` needs."""
    indices = edge_indices(self.shape)
    if indices is None:
        return self._values("repr")
    self = _on_host(self, "repr")
    edge = get_printoptions().edgeitems
    cut = [None if len(index) == n else edge for n, index in zip(self.shape, indices)]
    values = _corners(self, cut, "repr")
    for axis, e in enumerate(cut):
        if e is not None:  # NumPy prints the dots in the place of the repeated item
            values = values.take([*range(e), e - 1, *range(e, 2 * e)], axis)
    return values


def _repr(self: Tensor) -> str:
    """Show values, shape, dtype, device and gradient state; of a large tensor only the edges."""
    extra = _state(self)
    if not _has_values(self):
        extra = f", {extra}" if extra else ""
        return f"tensor(..., shape={self.shape}, dtype={self.dtype}, device={str(self.device)!r}{extra})"
    name = "tensor" if self.__class__ is Tensor else type(self).__name__
    values = self._values("repr") if self._data.__class__ is np.ndarray else _edges(self)
    shape = None if values.shape == self.shape else self.shape
    return format_tensor(values, dtype=self.dtype, device=str(self.device), extra=extra, name=name, shape=shape)


def _format(self: Tensor, spec: str) -> str:
    """Format a 0-d tensor as a number, any other as the text of ``repr``."""
    if self.ndim == 0 and spec:
        try:
            return format(self.item(), spec)
        except ValueError as error:
            raise ValueError(f"[format] the format {spec!r} does not fit a number of {self.dtype}: {error}.") from None
    try:
        return format(repr(self), spec)
    except ValueError:
        raise TypeError(
            f"[format] the format {spec!r} is for a number, and the tensor has shape {self.shape}: index an element, "
            "or print the tensor within tk.printoptions(precision=...)."
        ) from None


# ---- notebooks


def _escape(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        text = text.replace(character, entity)
    return text


def html_of(self: Tensor) -> str:
    """Return HTML for notebooks: a table with coloured cells, and for a large matrix a heat map of samples.

    Other tensors than vectors and matrices, and those whose values cannot be read, show their ``repr``.

    >>> html = tk.asarray([[1.0, -2.0]])._repr_html_()
    >>> html.startswith("<div"), "1 × 2 · float32 · cpu" in html
    (True, True)
    """
    if isinstance(self, Wrapper) or not _has_values(self) or self.ndim not in (1, 2) or not self.size:
        return f"<div><pre>{_escape(repr(self))}</pre></div>"
    name = "tensor" if self.__class__ is Tensor else type(self).__name__
    parts = [f"{name}, {' × '.join(map(str, self.shape))}", self.dtype.name, str(self.device), _state(self)]
    caption = f'<caption style="text-align:left">{_escape(" · ".join(filter(None, parts)))}</caption>'
    readable = _on_host(self, "_repr_html_")
    map_ = _heat_map(readable) if self.ndim == 2 and max(self.shape) > _CELLS else ""
    return f'<div style="overflow-x:auto">{_table(readable, caption)}{map_}</div>'


def _magnitudes(values: np.ndarray) -> np.ndarray:
    """Return the numbers that determine colours: values, or absolute values of complex ones, in float64."""
    with np.errstate(all="ignore"):
        return np.abs(values).astype(np.float64) if values.dtype.kind == "c" else values.astype(np.float64)


def _scale(numbers: np.ndarray) -> float:
    finite = np.abs(numbers[np.isfinite(numbers)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _colour(number: float, scale: float) -> str:
    if number != number:
        return f"rgba({_NO_NUMBER},.35)"
    share = min(abs(number) / scale, 1.0)
    return f"rgba({_POSITIVE if number >= 0 else _NEGATIVE},{0.6 * round(share * 20) / 20:.2f})"


def _number(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    if kind in "biu":
        return str(value)
    return f"{complex(value) if kind == 'c' else float(value):.{max(get_printoptions().precision, 1)}g}"


def _table(self: Tensor, caption: str) -> str:
    edge = min(get_printoptions().edgeitems, _CELLS // 2)
    edges = [None if n <= _CELLS else edge for n in self.shape]
    values = _corners(self, edges, "_repr_html_")
    places: list[list[int | None]] = [
        [*range(n)] if e is None else [*range(e), None, *range(n - e, n)] for n, e in zip(self.shape, edges)
    ]
    rows, columns = places if self.ndim == 2 else ([0], places[0])  # None: the omitted ones
    values = values.reshape((-1, values.shape[-1]))
    numbers = _magnitudes(values)
    scale = _scale(numbers)
    cell = "padding:2px 6px;text-align:right;border:1px solid rgba(128,128,128,.3)"
    head = "padding:2px 6px;text-align:right;font-weight:normal;opacity:.6"
    lines = ['<table style="border-collapse:collapse;font-family:monospace">', f"{caption}<thead><tr>"]
    if self.ndim == 2:
        lines.append("<td></td>")
    lines += [f'<th scope="col" style="{head}">{"…" if j is None else j}</th>' for j in columns]
    lines.append("</tr></thead><tbody>")
    i = 0
    for row in rows:
        lines.append("<tr>")
        if self.ndim == 2:
            lines.append(f'<th scope="row" style="{head}">{"…" if row is None else row}</th>')
        j = 0
        for column in columns:
            if row is None or column is None:
                lines.append(f'<td style="{cell}">…</td>')
            else:
                colour = _colour(float(numbers[i, j]), scale)
                lines.append(f'<td style="{cell};background:{colour}">{_escape(_number(values[i, j]))}</td>')
            j += column is not None
        i += row is not None
        lines.append("</tr>")
    lines.append("</tbody></table>")
    return "".join(lines)


def _heat_map(self: Tensor) -> str:
    """Return an image of evenly spaced elements, with its scale in words."""
    steps = [-(-n // _PIXELS) for n in self.shape]
    values = _cut(self, (slice(None, None, steps[0]), slice(None, None, steps[1])), "_repr_html_")
    numbers = _magnitudes(values)
    scale = _scale(numbers)
    finite = numbers[np.isfinite(numbers)]
    what = "absolute values" if values.dtype.kind == "c" else "values"
    sampled = "" if steps == [1, 1] else f" of every {steps[0]}. row and {steps[1]}. column"
    extent = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none of them finite"
    label = f"Heat map: {what}{sampled}, {extent}"
    missing = int(np.isnan(numbers).sum())
    if missing:
        label += f", {missing} not a number (grey)"
    height, width = numbers.shape
    size = _SIDE / max(height, width)
    areas: dict[str, list[str]] = {}
    for i in range(height):
        for j in range(width):
            areas.setdefault(_colour(float(numbers[i, j]), scale), []).append(f"M{j} {i}h1v1h-1z")
    paths = [f'<path fill="{colour}" d="{"".join(area)}"/>' for colour, area in areas.items()]
    return (
        f'<svg role="img" aria-label="{_escape(label)}" width="{size * width:.0f}" height="{size * height:.0f}" '
        f'viewBox="0 0 {width} {height}" preserveAspectRatio="none" shape-rendering="crispEdges" '
        f'style="border:1px solid rgba(128,128,128,.3);margin-top:4px"><title>{_escape(label)}</title>'
        f'{"".join(paths)}</svg><div style="font-size:smaller;opacity:.7">{_escape(label)}</div>'
    )


add_methods(__repr__=_repr, __format__=_format, _repr_html_=html_of)
