"""Lists of events and of averages, and the table of a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .observer import OPERATOR, Event

__all__ = ["Averages", "EventList", "FunctionAverage", "format_bytes", "format_time"]


def format_time(microseconds: float) -> str:
    """Format a time with three decimals in the largest unit that fits: ``1.234ms``."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= unit:
            return f"{microseconds / unit:.3f}{name}"
    return f"{microseconds:.3f}us"


def format_bytes(count: int) -> str:
    """Format a size in the largest unit that fits: ``8.00 KB``."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"


class FunctionAverage:
    """All events of one name (and of the same shapes or callers, if grouped by them). Times are in microseconds.

    A call inside another call of the same row adds to ``count`` and to the self times, but not again to the totals.
    """

    scope = OPERATOR
    count = cpu_memory_usage = self_cpu_memory_usage = 0
    cpu_time_total = self_cpu_time_total = thread_time_total = 0.0
    is_user_annotation = False

    def __init__(self, key: str, input_shapes: str = "", stack: tuple[str, ...] = ()) -> None:
        self.key = self.name = key
        self.input_shapes = input_shapes
        self.stack = list(stack)

    @property
    def cpu_time(self) -> float:
        """The mean time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, event: Event, *, nested: bool) -> None:
        """Add one event; ``nested`` states that it ran inside another event of this row."""
        self.count += 1
        self.scope = event.scope
        self.is_user_annotation = event.is_user_annotation
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        if not nested:
            self.cpu_time_total += event.cpu_time_total
            self.thread_time_total += event.thread_time_total
            self.cpu_memory_usage += event.cpu_memory_usage

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} calls, {format_time(self.self_cpu_time_total)} self time>"


# header, attribute, format, and what must have been recorded; a percentage is of the time of all rows
_Column = tuple[str, str, Callable[[Any], str], str]
_COLUMNS: Final[tuple[_Column, ...]] = (
    ("Self CPU %", "self_cpu_time_total", "{:.2f}%".format, ""),
    ("Self CPU", "self_cpu_time_total", format_time, ""),
    ("CPU total %", "cpu_time_total", "{:.2f}%".format, ""),
    ("CPU total", "cpu_time_total", format_time, ""),
    ("CPU time avg", "cpu_time", format_time, ""),
    ("Thread time", "thread_time_total", format_time, "thread"),
    ("CPU Mem", "cpu_memory_usage", format_bytes, "memory"),
    ("Self CPU Mem", "self_cpu_memory_usage", format_bytes, "memory"),
    ("# of Calls", "count", str, ""),
)
_TEXTS: Final = ("key", "input_shapes", "stack")
_SORTED_BY: Final = {  # other names of attributes, besides the headers
    "name": "key", "input shapes": "input_shapes", "shapes": "input_shapes", "source location": "stack",
    "calls": "count", "self_cpu_time": "self_cpu_time_total", "self_time": "self_cpu_time_total",
    "self_cpu_percent": "self_cpu_time_total", "total_time": "cpu_time_total", "total_cpu_percent": "cpu_time_total",
    "cpu_time_avg": "cpu_time", "bytes": "cpu_memory_usage", "self_bytes": "self_cpu_memory_usage",
} | {header.lower(): attribute for header, attribute, _, _ in _COLUMNS}  # fmt: skip


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


class Averages(list[FunctionAverage]):
    """Rows of averages; ``table()`` formats them."""

    def __init__(self, rows: Iterable[FunctionAverage], columns: frozenset[str], total: float) -> None:
        super().__init__(rows)
        self._columns = columns
        self.self_cpu_time_total = total  # microseconds

    def total_average(self) -> FunctionAverage:
        """Return the sum of all rows as one row."""
        total = FunctionAverage("Total")
        for name in ("count", "self_cpu_time_total", "self_cpu_memory_usage"):
            setattr(total, name, sum(getattr(row, name) for row in self))
        total.cpu_time_total = total.self_cpu_time_total
        total.cpu_memory_usage = total.self_cpu_memory_usage
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        *,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        max_src_column_width: int = 75,
        header: str | None = None,
    ) -> str:
        """Return the rows as text, sorted by a column.

        ``sort_by`` is an attribute or a header; numbers are sorted in descending order, texts in ascending order.
        Without it, rows appear in the order of their first event. ``row_limit`` is the number of rows shown; -1 shows
        all.

        >>> with tk.autograd.profile() as prof:
        ...     _ = tk.exp(tk.ones(3)) + tk.exp(tk.zeros(3))
        >>> table = prof.key_averages().table(sort_by="count", row_limit=1)
        >>> [line.split()[0] for line in table.splitlines()[3:4]]
        ['tk::exp']
        """
        limit: Any = row_limit
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < -1:
            raise ValueError(f"[table] row_limit is the number of rows, or -1 for all, got {row_limit!r}.")
        rows = list(self)
        if sort_by is not None:
            wanted = str(sort_by).lower()
            attribute = _SORTED_BY.get(wanted, wanted)
            attributes = dict.fromkeys([*(column[1] for column in _COLUMNS), *_TEXTS])
            if attribute not in attributes:
                raise ValueError(f"[table] there is no column {sort_by!r}: sort by one of {', '.join(attributes)}.")
            rows.sort(key=lambda row: getattr(row, attribute), reverse=attribute not in _TEXTS)
        rows = rows if row_limit == -1 else rows[:row_limit]
        shown = [column for column in _COLUMNS if not column[3] or column[3] in self._columns]
        texts: list[tuple[str, int, Callable[[FunctionAverage], str]]]
        texts = [("Name", max_name_column_width, lambda row: row.key)]
        if any(row.input_shapes for row in self):
            texts.append(("Input Shapes", max_shapes_column_width, lambda row: row.input_shapes))
        if any(row.stack for row in self):
            texts.append(("Source Location", max_src_column_width, lambda row: row.stack[0] if row.stack else ""))
        lines = [["Name", *[column[0] for column in shown], *[title for title, _, _ in texts[1:]]]]
        percent = 100 / self.self_cpu_time_total if self.self_cpu_time_total else 0.0
        for row in rows:
            cells = [_short(text(row), width) for _, width, text in texts]
            values = [getattr(row, name) * (percent if title.endswith("%") else 1) for title, name, _, _ in shown]
            lines.append([cells[0], *[column[2](value) for column, value in zip(shown, values)], *cells[1:]])
        widths = [max(map(len, cells)) for cells in zip(*lines)]
        rule = "  ".join("-" * width for width in widths)
        made = []
        for line in lines:
            cells = [
                cell.rjust(width) if 0 < i <= len(shown) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths))
            ]
            made.append("  ".join(cells).rstrip())
        made = [rule, made[0], rule, *made[1:], rule, f"Self CPU time total: {format_time(self.self_cpu_time_total)}"]
        return "\n".join([header, *made] if header else made)

    def __str__(self) -> str:
        return self.table()


class EventList(list[Event]):
    """The events of a profile, in the order of their start."""

    def __init__(self, events: Iterable[Event], columns: frozenset[str] = frozenset()) -> None:
        super().__init__(sorted(events, key=lambda event: event.id))
        self._columns = columns
        self._ids = {event.id for event in self}
        children: dict[int, list[Event]] = {}
        for event in self:
            event.cpu_children = children.setdefault(event.id, [])
            if event.cpu_parent is not None and event.cpu_parent.id in self._ids:
                children[event.cpu_parent.id].append(event)  # a parent begins first

    @property
    def self_cpu_time_total(self) -> float:
        """The self times of all events, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Return one row for each name, or for each combination of name, input shapes and callers."""
        given: Any = group_by_stack_n
        if not isinstance(given, int) or given < 0:
            raise (ValueError if isinstance(given, int) else TypeError)(
                f"[key_averages] group_by_stack_n is a number of callers, 0 or more, got {given!r}."
            )

        def row_of(event: Event) -> tuple[str, str, tuple[str, ...]]:
            shapes = str(event.input_shapes) if group_by_input_shape and event.shapes else ""
            return event.name, shapes, tuple(event.stack[:group_by_stack_n])

        rows: dict[tuple[Any, ...], FunctionAverage] = {}
        for event in self:
            key = row_of(event)
            if key not in rows:
                rows[key] = FunctionAverage(*key)
            above = event.cpu_parent
            while above is not None and (above.id not in self._ids or row_of(above) != key):
                above = above.cpu_parent
            rows[key].add(event, nested=above is not None)
        return Averages(rows.values(), self._columns, self.self_cpu_time_total)

    def total_average(self) -> FunctionAverage:
        """Return the sum of all events as one row."""
        return self.key_averages().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return ``key_averages().table(…)``."""
        return self.key_averages().table(sort_by, row_limit, **options)

    def __str__(self) -> str:
        return self.table()
