"""Lists of events and of averages, and the table that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .observer import OPERATOR, Event

__all__ = ["Averages", "EventList", "FunctionAverage", "format_bytes", "format_time"]


def format_time(microseconds: float) -> str:
    """``1.234ms``: three digits after the point, in the largest unit that fits."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def format_bytes(count: int) -> str:
    """``8.00 KB``: in the largest unit that fits."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"


class FunctionAverage:
    """The events of one name (and shapes, if they were asked for) together. Times are in microseconds.

    A call inside of another one of the same row counts for ``count`` and the times of its own, not again for the total.
    """

    def __init__(self, key: str, input_shapes: str = "", stack: tuple[str, ...] = ()) -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.stack = list(stack)
        self.scope = OPERATOR
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.thread_time_total = 0.0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.is_user_annotation = False
        self._parts: Any = None  # what makes it a row of its own

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def cpu_time(self) -> float:
        """The mean time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, event: Event, *, nested: bool) -> None:
        """Add one event; ``nested`` says that it ran inside of another one of this row."""
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
        return f"<{self.key}: {self.count} calls, {format_time(self.self_cpu_time_total)} of its own>"


# header, attribute, how a value is shown, and what must have been recorded
_Column = tuple[str, str, Callable[[Any], str], str]
_COLUMNS: Final[tuple[_Column, ...]] = (
    ("Self CPU %", "self_cpu_percent", "{:.2f}%".format, ""),
    ("Self CPU", "self_cpu_time_total", format_time, ""),
    ("CPU total %", "total_cpu_percent", "{:.2f}%".format, ""),
    ("CPU total", "cpu_time_total", format_time, ""),
    ("CPU time avg", "cpu_time", format_time, ""),
    ("Thread time", "thread_time_total", format_time, "thread"),
    ("CPU Mem", "cpu_memory_usage", format_bytes, "memory"),
    ("Self CPU Mem", "self_cpu_memory_usage", format_bytes, "memory"),
    ("# of Calls", "count", str, ""),
)
_TEXTS: Final = {"Name": "key", "Input Shapes": "input_shapes", "Source Location": "stack"}
_SAME: Final = {"name": "key", "self_cpu_percent": "self_cpu_time_total", "total_cpu_percent": "cpu_time_total"}
_OTHER_NAMES: Final = {
    "calls": "count", "self_cpu_time": "self_cpu_time_total", "self_time": "self_cpu_time_total",
    "total_time": "cpu_time_total", "cpu_time_avg": "cpu_time", "shapes": "input_shapes",
    "bytes": "cpu_memory_usage", "self_bytes": "self_cpu_memory_usage",
}  # fmt: skip


def _attribute(column: str) -> str:
    """The attribute that a column is sorted by; the column may be named by its header too."""
    known = {attribute: attribute for _, attribute, _, _ in _COLUMNS}
    known |= {header.lower(): attribute for header, attribute, _, _ in _COLUMNS}
    known |= {header.lower(): attribute for header, attribute in _TEXTS.items()}
    known |= {attribute: attribute for attribute in _TEXTS.values()} | _OTHER_NAMES
    found = known.get(str(column).lower())
    if found is None:
        names = [a for _, a, _, _ in _COLUMNS] + [*_TEXTS.values()]
        raise ValueError(f"[table] there is no column {column!r} to sort by: take one of {', '.join(names)}.")
    return _SAME.get(found, found)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


class Averages(list[FunctionAverage]):
    """Rows of averages; ``table()`` shows them."""

    def __init__(self, rows: Iterable[FunctionAverage], columns: frozenset[str], total: float) -> None:
        super().__init__(rows)
        self._columns = columns
        self._total = total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all rows without what runs inside of them."""
        return self._total

    def total_average(self) -> FunctionAverage:
        """All rows as one."""
        total = FunctionAverage("Total")
        for row in self:
            total.count += row.count
            total.self_cpu_time_total += row.self_cpu_time_total
            total.self_cpu_memory_usage += row.self_cpu_memory_usage
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
        """The rows as text. ``sort_by``: any column, by its attribute or its header; the largest first, texts in order.

        ``row_limit``: how many rows are shown; -1 shows all. Without ``sort_by`` rows stand in the order of their
        first event.

        >>> import tenkey as tk
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
            attribute = _attribute(sort_by)
            rows.sort(key=lambda row: getattr(row, attribute), reverse=attribute not in _TEXTS.values())
        rows = rows if row_limit == -1 else rows[:row_limit]
        shown = [column for column in _COLUMNS if not column[3] or column[3] in self._columns]
        lines = [["Name", *[column[0] for column in shown]]]
        with_shapes = any(row.input_shapes for row in self)
        with_stack = any(row.stack for row in self)
        lines[0] += (["Input Shapes"] if with_shapes else []) + (["Source Location"] if with_stack else [])
        for row in rows:
            values: dict[str, Any] = {
                "self_cpu_percent": 100 * row.self_cpu_time_total / self._total if self._total else 0.0,
                "total_cpu_percent": 100 * row.cpu_time_total / self._total if self._total else 0.0,
            }
            cells = [_short(row.key, max_name_column_width)]
            for _, name, form, _ in shown:
                cells.append(form(values[name] if name in values else getattr(row, name)))
            if with_shapes:
                cells.append(_short(row.input_shapes, max_shapes_column_width))
            if with_stack:
                cells.append(_short(row.stack[0] if row.stack else "", max_src_column_width))
            lines.append(cells)
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        texts = {0, *range(1 + len(shown), len(widths))}
        rule = "  ".join("-" * width for width in widths)
        made = [rule]
        for number, line in enumerate(lines):
            cells = [c.ljust(w) if i in texts else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))]
            made.append("  ".join(cells).rstrip())
            if number == 0:
                made.append(rule)
        made += [rule, f"Self CPU time total: {format_time(self._total)}"]
        return "\n".join([header, *made] if header else made)

    def __str__(self) -> str:
        return self.table()


def _row_of(event: Event, by_shape: bool, stack_n: int) -> tuple[Any, ...]:
    shapes = str(event.input_shapes) if by_shape and event.shapes else ""
    return event.name, shapes, tuple(event.stack[:stack_n])


class EventList(list[Event]):
    """The events of a profile, in the order of their beginning."""

    def __init__(self, events: Iterable[Event], columns: frozenset[str] = frozenset()) -> None:
        super().__init__(sorted(events, key=lambda event: event.id))
        self._columns = columns
        known = {event.id for event in self}
        for event in self:
            event._cpu_children = None
        for event in self:
            parent = event.parent
            if parent is not None and parent.id in known:
                if parent._cpu_children is None:
                    parent._cpu_children = []
                parent._cpu_children.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events without what runs inside of them."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """One row for each name, and shapes or callers if they are asked for."""
        given: Any = group_by_stack_n
        if not isinstance(given, int) or given < 0:
            raise (ValueError if isinstance(given, int) else TypeError)(
                f"[key_averages] group_by_stack_n is a number of callers, 0 or more, got {given!r}."
            )
        rows: dict[tuple[Any, ...], FunctionAverage] = {}
        known = {event.id for event in self}
        for event in self:
            key = _row_of(event, group_by_input_shape, group_by_stack_n)
            row = rows.get(key)
            if row is None:
                row = rows[key] = FunctionAverage(*key)
            above = event.parent
            while above is not None and (
                above.id not in known or _row_of(above, group_by_input_shape, group_by_stack_n) != key
            ):
                above = above.parent
            row.add(event, nested=above is not None)
        return Averages(rows.values(), self._columns, self.self_cpu_time_total)

    def total_average(self) -> FunctionAverage:
        """All events as one row."""
        return self.key_averages().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """``key_averages().table(…)``."""
        return self.key_averages().table(sort_by, row_limit, **options)

    def __str__(self) -> str:
        return self.table()
