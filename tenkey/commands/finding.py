"""A line of the report of ``python -m tenkey doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

__all__ = ["Finding", "version_of"]


@dataclass(frozen=True)
class Finding:
    """A line of the report; ``problem`` says what is wrong, and how to solve it."""

    name: str
    value: str
    problem: str = ""


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
