"""The names of operators and methods that are declared on first use."""

from __future__ import annotations

import textwrap

from tenkey.dispatch.registry import registry
from tenkey.ops.builtin import FAMILIES

__all__ = ["delayed_names"]

_HEAD = '''"""The names that modules declare on first use. Written by ``python -m tools.make_stubs``."""

from __future__ import annotations

from typing import Final

__all__ = ["METHODS", "MODULES"]
'''


def delayed_names() -> str:
    """Return the text of the module with the names that belong to the families."""
    operators: dict[str, list[str]] = {module: [] for module in FAMILIES}
    methods: list[str] = []
    for operator in registry:
        module = next((m for m in FAMILIES if f"/{m.replace('.', '/')}.py:" in operator.site), None)
        if module is None:
            continue
        functional = operator.facets.get("DerivedFrom", operator)
        name = functional.schema.base_name
        if functional is operator and name not in operators[module]:
            operators[module].append(name)
        made = operator.facets["Methods"].names if "Methods" in operator.facets else ()
        if not {*made} <= {name, f"{name}_"}:
            raise LookupError(f"{name} makes the methods {made}: in a module that waits, a method has the same name.")
        methods += made
    places = [f"**dict.fromkeys({tuple(names)!r}, {module!r})," for module, names in operators.items()]
    return (
        _HEAD
        + _block("MODULES: Final = {", places, "}", "Modules by the names of operators.")
        + _block(
            "METHODS: Final = (",
            [repr(tuple(sorted(methods)))[1:-1] + ","],
            ")",
            "The methods of Tensor that they make.",
        )
    )


def _block(first: str, entries: list[str], last: str, doc: str) -> str:
    lines = [f"    {line}" for entry in entries for line in textwrap.wrap(entry.replace("'", '"'), 116)]
    return "\n".join(["", first, *lines, f"{last}  # fmt: skip", f'"""{doc}"""', ""])
