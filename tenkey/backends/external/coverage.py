"""What a backend runs itself and what fell back to the CPU, at what cost, why, and what would end it.

Note [Whose parts fell back]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A composite operator is native to a device only if its parts are. A fallback is slow anyway, so it looks at the call
stack: the composites and decompositions whose functions are running are noted as having a part that fell back, and
nothing need be counted in calls that stay on the device. An operator that has not run yet is taken to be native.
Guarded by ``tests/backends/test_backend_coverage.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, Final

from ..._util.locks import new_lock
from ..._util.record import Record, made
from ...dispatch.kernel import Handle
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from .template_calls import Reason, has_templates

__all__ = ["Coverage", "Fallback", "Ledger", "templates_of"]

_SHOWN: Final = 30  # operators in the text
_NAMED: Final = 8  # operators that one remedy names
_PRIMITIVE: Final = {
    "tk::matmul": "matmul", "tk::gather_rows": "gather", "tk::scatter_rows_": "scatter", "tk::sort_rows": "sort",
}  # fmt: skip
_COPIES: Final = ("cast", "concatenate", "full", "zeros", "ones", "real", "imag", "complex_from")


def templates_of(operator: Operator) -> tuple[str, ...]:
    """Return the templates that would run an operator on a device; none if it needs a kernel of its own."""
    facets = operator.facets
    if "Inplace" in facets and facets["Inplace"].functional is not None:
        return templates_of(facets["Inplace"].functional)
    if operator.name in _PRIMITIVE:
        return (_PRIMITIVE[operator.name],)
    if "Pointwise" in facets or "Elements" in facets or operator.name in [f"tk::{name}" for name in _COPIES]:
        return ("pointwise",)
    for facet, template in (("Reduce", "reduction"), ("ArgReduce", "arg_reduction"), ("Scan", "scan")):
        if facet in facets:
            return (template,)
    return ("pointwise", *facets["Decomposition"].needs) if "Decomposition" in facets else ()


class Fallback(Record, frozen=True):
    """The fallbacks of one operator for one combination of dtypes and one reason.

    ``remedy`` says what would end them; ``seconds`` includes the copies and the work of the CPU.

    >>> one = tk.backends.Fallback("tk::exp", ("float16",), "pointwise() declined", "accept float16", 2, 8, 8, 1e-4)
    >>> one.bytes_to_host + one.bytes_from_host
    16
    """

    operator: str
    dtypes: tuple[str, ...]
    reason: str
    remedy: str
    calls: int
    bytes_to_host: int
    bytes_from_host: int
    seconds: float


class Coverage(Record):
    """The operators that a backend implements, that are derived for it, and that fell back to the CPU.

    ``implemented`` and ``derived`` are lists of names; derived are composites, views, copies and the operators that the
    backend's templates run. An operator that is derived and of which a call, or a part of a call, fell back is in
    ``derived_with_fallbacks`` instead. ``fallback`` maps names to numbers of calls, and ``details`` lists the fallbacks
    by operator, dtypes and reason, the most expensive first; ``str`` shows them with what to do next.

    >>> from tenkey.backends import Coverage
    >>> Coverage("mine", ["tk::add"], [], {"tk::exp": 2}).fallback
    {'tk::exp': 2}
    """

    name: str
    implemented: list[str]
    derived: list[str]
    fallback: dict[str, int]
    derived_with_fallbacks: list[str] = made(default_factory=list)
    details: list[Fallback] = made(default_factory=list)

    def __str__(self) -> str:
        lines = [f"coverage of {self.name!r}"]
        for title, names in (
            ("implemented", self.implemented), ("derived", self.derived),
            ("derived, with parts that fell back", self.derived_with_fallbacks),
        ):  # fmt: skip
            lines.append(f"  {title} ({len(names)}): {', '.join(names)}")
        calls = sum(self.fallback.values())
        lines.append(f"  fallback to the CPU ({len(self.fallback)}): {calls} calls, {_cost(self.details)}")
        by_operator = _grouped(self.details, lambda one: one.operator)
        for operator, found in by_operator[:_SHOWN]:
            why = "; ".join(dict.fromkeys(f"{one.reason} ({', '.join(one.dtypes)})" for one in found))
            lines.append(f"    {operator} x{sum(one.calls for one in found)}: {_cost(found)}; {why}")
        if len(by_operator) > _SHOWN:
            lines.append(f"    and {len(by_operator) - _SHOWN} more, in coverage(...).details")
        for remedy, found in _grouped(self.details, lambda one: one.remedy)[:_SHOWN]:
            names = [*dict.fromkeys(one.operator for one in found)]
            named = ", ".join([*names[:_NAMED], "..."] if len(names) > _NAMED else names)
            lines.append(f"  next: {remedy}, which ends {_cost(found)} in {len(names)} of these ({named})")
        return "\n".join(lines)

    __repr__ = __str__


def _cost(found: Iterable[Fallback]) -> str:
    found = [*found]
    to, back = sum(one.bytes_to_host for one in found), sum(one.bytes_from_host for one in found)
    seconds = sum(one.seconds for one in found)
    return f"{seconds * 1e3:.3g} ms, {to:,} bytes to the host, {back:,} back"


def _grouped(
    details: Iterable[Fallback], key: Callable[[Fallback], str]
) -> list[tuple[str, list[Fallback]]]:  # fmt: skip
    """Group the fallbacks, the most expensive group first."""
    groups: dict[str, list[Fallback]] = {}
    for one in details:
        groups.setdefault(key(one), []).append(one)
    return sorted(groups.items(), key=lambda item: -sum(one.seconds for one in item[1]))


class Ledger:
    """The fallbacks of one backend so far."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._lock = new_lock()
        self._rows: dict[tuple[str, tuple[str, ...], Reason | None], list[Any]] = {}
        self._parts: dict[CodeType, list[tuple[str, dict[str, Any]]]] = {}
        self._enclosing: set[str] = set()  # composites in which an operator fell back

    def watch(self, operator: Operator) -> list[Handle]:
        """Recognize the function of a composite or decomposition on the call stack."""
        handles = []
        for facet in ("Composite", "Decomposition"):
            function = getattr(operator.facets.get(facet), "function", None)
            code = getattr(function, "__code__", None)
            if code is not None:
                cells = zip(code.co_freevars, function.__closure__ or (), strict=True)  # type: ignore[union-attr]
                entry = (operator.name, {name: cell.cell_contents for name, cell in cells if _filled(cell)})
                self._parts.setdefault(code, []).append(entry)
                handles.append(Handle(lambda c=code, e=entry: self._forget(c, e), f"code of {operator.name}"))  # type: ignore[misc]
        return handles

    def _forget(self, code: CodeType, entry: tuple[str, dict[str, Any]]) -> None:
        rest = [one for one in self._parts.pop(code, []) if one is not entry]
        if rest:
            self._parts[code] = rest

    def note_call(self, operator: Operator, dtypes: tuple[str, ...], reason: Reason | None) -> list[Any]:
        """Count a fallback and return its row, [calls, bytes to the host, bytes back, seconds], to add to."""
        frame: FrameType | None = sys._getframe(1)
        with self._lock:
            row = self._rows.setdefault((operator.name, dtypes, reason), [0, 0, 0, 0.0])
            row[0] += 1
            while frame is not None:
                known = self._parts.get(frame.f_code, ())
                self._enclosing.update([name for name, cells in known if len(known) == 1 or _runs(frame, cells)])
                frame = frame.f_back
        return row

    def note_cost(self, row: list[Any], to_host: int, from_host: int, seconds: float) -> None:
        """Add the cost of a fallback to its row."""
        with self._lock:
            row[1] += to_host
            row[2] += from_host
            row[3] += seconds

    def split(self) -> set[str]:
        """Return the operators of which a part fell back: a template that declined, or an operator in a composite."""
        with self._lock:
            return self._enclosing | {name for name, _, reason in self._rows if reason is not None}

    def calls(self) -> dict[str, int]:
        """Return the numbers of calls by operator."""
        found: dict[str, int] = {}
        with self._lock:
            for (name, _, _), row in self._rows.items():
                found[name] = found.get(name, 0) + row[0]
        return found

    def details(self) -> list[Fallback]:
        """Return all fallbacks, the most expensive first."""
        with self._lock:
            rows = [(*key, [*row]) for key, row in self._rows.items()]
        found = [Fallback(name, dtypes, *self.advice(name, reason), *row) for name, dtypes, reason, row in rows]
        return sorted(found, key=lambda one: -one.seconds)

    def advice(self, operator: str, reason: Reason | None) -> tuple[str, str]:
        """Return the reason for a fallback, and what would end it."""
        if reason is not None:
            dtypes = ", ".join(dict.fromkeys(reason.dtypes.split(", ")))
            return f"{reason.template}() {reason.text}", f"accept {dtypes} in {reason.template}()"
        known = registry.operators.get(operator)
        missing = [] if known is None else [t for t in templates_of(known) if not has_templates(self._backend, t)]
        if not missing:
            return "no kernel", f"register a kernel with tk.library.register_kernel(name, {self._backend.name!r})"
        written = " and ".join(f"{template}()" for template in missing)
        return f"no template {written}", f"implement {written}"


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _runs(frame: FrameType, cells: dict[str, Any]) -> bool:
    """Tell whether a frame runs the closure with these cells: a factory gives one code to several operators."""
    local = frame.f_locals
    return all(local.get(name) is value for name, value in cells.items())
