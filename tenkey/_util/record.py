"""Records: classes of named fields, whose methods nobody has to write.

Note [Records are not generated]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``@dataclass`` writes the source of four to seven methods for each class and compiles it: a fifth of a millisecond and
more, for each of forty classes that every import of the package makes. A :class:`Record` behaves in the same way and
has its methods from its base class, which reads the names of the fields. All that asks about dataclasses works:
``fields``, ``replace``, ``asdict``, ``is_dataclass``, matching by position, ``inspect.signature``; an assignment to
what is frozen raises FrozenInstanceError. In a module that an import does not load a dataclass does as well.
Guarded by ``tests/tiny/test_record.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, dataclass_transform

__all__ = ["Record", "made", "replaced"]


class _Made:
    """The default of a field that is made anew for each record."""

    __slots__ = ("factory", "shown")

    def __init__(self, factory: Callable[[], Any], shown: bool) -> None:
        self.factory = factory
        self.shown = shown


def made(*, default_factory: Callable[[], Any], repr: bool = True) -> Any:
    """A field whose default ``default_factory()`` gives, and which ``repr=False`` keeps out of the text."""
    return _Made(default_factory, repr)


class _DataclassFields:
    """The attribute by which the module ``dataclasses`` knows its own: a dataclass with the same fields has it."""

    def __get__(self, record: object, kind: _Kind) -> dict[str, Any]:
        return kind._dataclass().__dataclass_fields__  # type: ignore[attr-defined, no-any-return]


@dataclass_transform(field_specifiers=(made,))
class _Kind(type):
    """The class of classes of records."""

    _names: tuple[str, ...]
    _defaults: dict[str, Any]
    _frozen: bool
    _setters: tuple[Callable[[Any, Any], None], ...]

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], *, frozen: bool = False) -> _Kind:
        """A class of records; one without fields that has no slots either is a base of such that have."""
        names = tuple(space.get("__annotations__", ()))
        defaults = {field: space[field] for field in names if field in space}
        if frozen:
            for field in defaults:
                del space[field]  # a slot takes its place
            space["__slots__"] = names
        else:
            for field, value in defaults.items():
                if value.__class__ is _Made:
                    del space[field]
            space.setdefault("__hash__", None)
        space["__match_args__"] = names
        kind = super().__new__(cls, name, bases, space)
        kind._names, kind._defaults, kind._frozen = names, defaults, frozen
        kind._setters = tuple([vars(kind)[field].__set__ for field in names]) if frozen else ()
        return kind

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, space)

    def _dataclass(cls) -> type:
        """A dataclass with the same fields."""
        import dataclasses

        space: dict[str, Any] = {
            name: dataclasses.field(default_factory=default.factory, repr=default.shown)
            if default.__class__ is _Made
            else default
            for name, default in cls._defaults.items()
        }
        space["__annotations__"] = {name: cls.__annotations__[name] for name in cls._names}
        return dataclasses.dataclass(type(cls.__name__, (), space))

    @property
    def __signature__(cls) -> Any:
        import inspect

        return inspect.signature(cls._dataclass())


class Record(metaclass=_Kind):
    """A class of named fields: ``class Point(Record)`` has those that its annotations name, in that order.

    It is made, compared, printed and matched as a dataclass is. ``class Point(Record, frozen=True)`` has slots, refuses
    assignments, and can be hashed.

    >>> class Point(Record, frozen=True):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(y=2, x=1) == Point(1, 2)
    (Point(x=1, y=0), True)
    """

    __slots__ = ()
    __dataclass_fields__ = _DataclassFields()

    def __init__(self, *values: Any, **named: Any) -> None:
        kind = self.__class__
        names = kind._names
        if named or len(values) != len(names):
            values = _bind(kind, values, named)
        if kind._frozen:
            for set_field, value in zip(kind._setters, values):
                set_field(self, value)
        else:
            self.__dict__.update(zip(names, values))

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        if other is self:
            return True
        return _values(self) == _values(other)

    def __hash__(self) -> int:  # of the frozen ones: the others have None in its place
        return hash(_values(self))

    def __repr__(self) -> str:
        kind = self.__class__
        hidden = [name for name, default in kind._defaults.items() if default.__class__ is _Made and not default.shown]
        shown = [f"{name}={getattr(self, name)!r}" for name in kind._names if name not in hidden]
        return f"{kind.__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        if self.__class__._frozen:
            _refuse("assign to", name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if self.__class__._frozen:
            _refuse("delete", name)
        object.__delattr__(self, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (self.__class__, _values(self)) if self.__class__._frozen else object.__reduce_ex__(self, protocol)


def replaced(record: Any, **changes: Any) -> Any:
    """A record like another one, but for some fields: ``dataclasses.replace``, with one look at each field."""
    kind = record.__class__
    return kind(**(dict(zip(kind._names, _values(record))) | changes))


def _values(record: Any) -> tuple[Any, ...]:
    return tuple([getattr(record, name) for name in record.__class__._names])


def _refuse(what: str, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {what} field {name!r}")


def _bind(kind: _Kind, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The value of each field of a new record."""
    names, defaults = kind._names, kind._defaults
    if len(values) > len(names):
        raise TypeError(f"{kind.__name__}() takes {len(names)} values, got {len(values)} by position.")
    given = dict(zip(names, values))
    for field in named:
        if field in given or field not in names:
            text = (
                "{name}() got two values for {field!r}."
                if field in given
                else "{name}() has no field {field!r}; it has {fields}."
            )
            raise TypeError(text.format(name=kind.__name__, field=field, fields=", ".join(names) or "none"))
    given.update(named)
    for field in names:
        if field not in given:
            if field not in defaults:
                raise TypeError(f"{kind.__name__}() needs a value for {field!r}.")
            default = defaults[field]
            given[field] = default.factory() if default.__class__ is _Made else default
    return tuple([given[field] for field in names])
