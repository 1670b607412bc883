"""Coverage: the operators that a backend implements, that are derived for it, and that ran on the CPU."""

from __future__ import annotations

__all__ = ["Coverage"]


class Coverage:
    """The operators that a backend implements, that are derived for it, and that fell back to the CPU.

    ``implemented`` and ``derived`` are lists of names; derived are composites, views, copies and the operators that the
    backend's templates run. ``fallback`` maps names to numbers of calls.

    >>> from tenkey.backends import Coverage
    >>> Coverage("mine", ["tk::add"], [], {"tk::exp": 2}).fallback
    {'tk::exp': 2}
    """

    def __init__(self, name: str, implemented: list[str], derived: list[str], fallback: dict[str, int]) -> None:
        self.name = name
        self.implemented = implemented
        self.derived = derived
        self.fallback = fallback

    def __str__(self) -> str:
        lines = [f"coverage of {self.name!r}"]
        for title, names in (("implemented", self.implemented), ("derived", self.derived)):
            lines.append(f"  {title} ({len(names)}): {', '.join(names)}")
        calls = ", ".join(f"{name} x{count}" for name, count in sorted(self.fallback.items()))
        lines.append(f"  fallback to the CPU ({len(self.fallback)}): {calls}")
        return "\n".join(lines)

    __repr__ = __str__
