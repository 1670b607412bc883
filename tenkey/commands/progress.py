"""Choose operators and show progress in commands that take minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

__all__ = ["is_wanted", "with_progress"]

T = TypeVar("T")


def is_wanted(operator: str, patterns: Iterable[str]) -> bool:
    """Return whether an operator has one of the names, with its namespace or without."""
    names = (operator, operator.rpartition("::")[2])
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def with_progress(items: Iterable[T], names: Sequence[str], unit: str) -> Iterator[T]:
    """Yield items, of which there are as many as names, and show what they belong to.

    This is a progress bar of tqdm; without tqdm, which is optional, a line for each name that differs from the last.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        last = None
        for number, (name, item) in enumerate(zip(names, items), 1):
            if name != last:
                last = name
                print(f"{number}/{len(names)} {last}", flush=True)
            yield item
        return
    with tqdm(zip(names, items), total=len(names), unit=unit) as bar:
        for name, item in bar:
            bar.set_description(name, refresh=False)
            yield item
