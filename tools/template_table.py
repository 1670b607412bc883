"""Print which operators need which templates of a backend: ``python -m tools.template_table``.

Every operator outside LAPACK and FFT runs its samples on the reference device of the tests, which has every template;
an operator needs those whose kernels were called, apart from ``copy``, in whose place ``pointwise`` serves.
``docs/adding_a_backend.md`` shows the result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import tenkey as tk
from tests._reference_device import Reference
from tests.backends.test_reference_device import on_the_host
from tests.operators._table import FACTORIES, OPERATORS, chosen
from tests.operators.test_meta import _MADE

TEMPLATES: Final = ("pointwise", "reduction", "gather", "scan", "scatter", "sort", "matmul", "arg_reduction")


class Counting(Reference):
    """The reference device, which notes the templates whose kernels are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        return self._counted(name, method) if name in TEMPLATES else method

    def _counted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def template(*args: Any) -> Any:
            kernel = method(*args)

            def run(*values: Any) -> None:
                self.called.add(name)
                kernel(*values)

            return kernel and run

        template.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
        return template

    def copy(self, dtype: Any) -> None:
        """Leave copies to ``pointwise``."""


def needs() -> dict[str, set[str]]:
    """Return the templates that each operator needs."""
    device = Counting()
    found: dict[str, set[str]] = {}
    with tk.backends.register(device):
        for operator in OPERATORS:
            if on_the_host(operator.name) or operator.name == "tk::to_device":
                continue
            calls: list[tuple[Any, Any]] = []
            if operator in FACTORIES:
                calls = [(args, {**kw, "device": device.name}) for args, kw in _MADE[operator.schema.base_name]]
            else:
                for dtype in ("float32", "int64", "bool", "complex64"):
                    samples = [s.map(lambda t: t.to(device.name)) for s in chosen(operator, dtype)]
                    calls += [(s.args, s.kwargs) for s in samples]
            device.called = set()
            before = tk.backends.coverage(device.name).fallback
            for args, kwargs in calls:
                try:
                    operator.call(*args, **kwargs)
                except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
                    continue  # a sample of an error
            if tk.backends.coverage(device.name).fallback == before:  # else it is made of LAPACK's
                found[operator.name] = set(device.called)
    return found


def table(found: dict[str, set[str]]) -> list[str]:
    """Return the rows of a Markdown table: each template adds to those above it."""
    rows = ["| template | operators that use it | native with it and those above | examples |", "|---|---|---|---|"]
    having: set[str] = set()
    native: set[str] = set()
    for template in ("", *TEMPLATES):
        having |= {template}
        more = {name for name, used in found.items() if used <= having} - native
        native |= more
        users = sum(template in used for used in found.values()) if template else ""
        share = f"{len(native)} ({len(native) / len(found):.0%})"
        shown = ", ".join(f"`{name.removeprefix('tk::')}`" for name in sorted(more)[:: max(1, len(more) // 5)][:5])
        rows.append(f"| {f'`{template}`' if template else 'none'} | {users} | {share} | {shown} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table(needs())))
