"""Records: classes of named fields that are cheap to define.

``@dataclass`` generates and compiles four to seven methods for each class, which takes 0.2 ms and more for each of the
thirty classes that an import of the package defines. A subclass of :class:`Record` inherits its methods instead. In a
module that the import does not load, a dataclass is as good. Guarded by ``tests/tiny/test_record.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

__all__ = ["Record", "made", "replaced"]


class _Made:
    """The default of a field that is made anew for each record."""

    def __init__(self, factory: Callable[[], Any], shown: bool) -> None:
        self.factory, self.shown = factory, shown


def made(*, default_factory: Callable[[], Any], repr: bool = True) -> Any:
    """Declare a field with the default ``default_factory()``, which ``repr=False`` leaves out of the text."""
    return _Made(default_factory, repr)


@dataclass_transform(field_specifiers=(made,))
class Record:
    """A class of named fields: ``class Point(Record)`` has those that its annotations name, in that order.

    Records are made, compared, printed and matched as dataclasses are. With ``class Point(Record, frozen=True)`` they
    refuse assignments and can be hashed.

    >>> class Point(Record, frozen=True):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(y=2, x=1) == Point(1, 2)
    (Point(x=1, y=0), True)
    """

    _names: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _frozen: ClassVar[bool] = False

    def __init_subclass__(cls, *, frozen: bool = False) -> None:
        space = vars(cls)
        cls._names = tuple(space.get("__annotations__", ()))
        cls.__match_args__ = cls._names  # type: ignore[attr-defined, misc]
        cls._defaults = {name: space[name] for name in cls._names if name in space}
        cls._frozen = frozen
        if not frozen and "__hash__" not in space:
            cls.__hash__ = None  # type: ignore[assignment]

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._names
        if named or len(values) != len(names):
            values = self._bind(values, named)
        self.__dict__.update(zip(names, values))

    @classmethod
    def _bind(cls, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return the value of each field of a new record."""
        names, defaults = cls._names, cls._defaults
        if len(values) > len(names):
            raise TypeError(f"{cls.__name__}() takes {len(names)} values, got {len(values)} by position.")
        given = dict(zip(names, values))
        for name in named:
            if name in given:
                raise TypeError(f"{cls.__name__}() got two values for {name!r}.")
            if name not in names:
                raise TypeError(f"{cls.__name__}() has no field {name!r}; it has {', '.join(names) or 'none'}.")
        given |= named
        for name in names:
            if name not in given:
                if name not in defaults:
                    raise TypeError(f"{cls.__name__}() needs a value for {name!r}.")
                default = defaults[name]
                given[name] = default.factory() if default.__class__ is _Made else default
        return tuple([given[name] for name in names])

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._names])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or other.__class__ is not self.__class__:
            return NotImplemented
        return other is self or self._values() == other._values()

    def __hash__(self) -> int:  # of frozen records: the others have None in its place
        return hash(self._values())

    def __repr__(self) -> str:
        hidden = {name for name, default in self._defaults.items() if default.__class__ is _Made and not default.shown}
        shown = [f"{name}={getattr(self, name)!r}" for name in self._names if name not in hidden]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        if self._frozen:
            raise AttributeError(f"cannot assign to field {name!r}: a {self.__class__.__name__} does not change.")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if self._frozen:
            raise AttributeError(f"cannot delete field {name!r}: a {self.__class__.__name__} does not change.")
        object.__delattr__(self, name)


def replaced(record: Any, **changes: Any) -> Any:
    """Return a record like another one except for some fields."""
    return record.__class__(**(dict(zip(record._names, record._values())) | changes))
