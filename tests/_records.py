"""Classes of records that are arguments and results of operators in tests."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Generic, NamedTuple, TypeVar

import tenkey as tk

NS = "records_test"
Tensor = tk.Tensor
T = TypeVar("T")


@dataclass
class Pair:
    a: Tensor
    b: Tensor
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Frozen:
    pair: Pair | None
    weights: dict[str, Tensor]


@dataclass(kw_only=True)
class Keywords:
    a: Tensor
    count: int = 1
    derived: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.derived = self.count * 2


class Point(NamedTuple):
    x: Tensor
    y: Tensor


class Named(NamedTuple):
    point: Point
    label: str = "none"


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Tree:
    value: Tensor
    children: list[Tree]


@dataclass
class NoField:
    pass


@dataclass
class WithInitVar:
    a: Tensor
    n: InitVar[int]


@dataclass
class BadField:
    a: Tensor
    b: set[int]


def leaf(*values: float) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)
