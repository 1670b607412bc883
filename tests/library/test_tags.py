"""``tags=`` of the functions that define operators, and operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError
from tenkey.dispatch.registry import registry
from tenkey.dispatch.tags import Tag
from tests._backends import Host

NS = "tags_test"
REDUCE = "Tensor x, *, int[1]? axis=None, bool keepdims=False"


def _custom(tags: Any) -> Any:
    return tk.library.custom_op(f"{NS}::f", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor", tags=tags)


def _pointwise(tags: Any) -> Any:
    return tk.library.pointwise(f"{NS}::f(Tensor x) -> Tensor", scalar=lambda T: lambda x: x + 1, tags=tags)


def _family(tags: Any) -> Any:
    schema = f"{NS}::f(Tensor x, float? a=None) -> Tensor"
    return tk.library.pointwise(schema, scalar=lambda T: lambda x, a: x + (1 if a is None else a), tags=tags)


def _reduction(tags: Any) -> Any:
    return tk.library.reduction(f"{NS}::f({REDUCE}) -> Tensor", combine=lambda T: lambda a, b: a + b, tags=tags)


def _composite(tags: Any) -> Any:
    return tk.library.composite(f"{NS}::f(Tensor x) -> Tensor", tags=tags)(lambda x: x + 1)


DEFINITIONS = [_custom, _pointwise, _family, _reduction, _composite]


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def test_tags_of_every_definition() -> None:
    for define in DEFINITIONS:
        for tags in ("nondeterministic", ("needs_exact_strides", "nondeterministic"), [Tag.NONDETERMINISTIC]):
            made = define(tags).operator
            assert Tag.NONDETERMINISTIC in made.tags, define.__name__
            registry.undefine(made, keep_kernels=False)


@pytest.mark.parametrize("define", DEFINITIONS)
def test_what_is_not_a_tag_is_refused(define: Callable[[Any], Any]) -> None:
    with pytest.raises(RegistrationError, match=r"'random' is not a tag: tags are .*nondeterministic"):
        define("random")
    with pytest.raises(RegistrationError, match="tags is a tag or a sequence of tags, got 3 of type int"):
        define(3)
    assert not [op for op in registry if op.schema.namespace == NS]


class _HostOfTags(Host):
    name = "hosttags"


def test_a_random_operator_follows_the_seed_on_every_device() -> None:
    @tk.library.custom_op(f"{NS}::noisy", mutates_args=(), tags="nondeterministic")
    def noisy(x: tk.Tensor) -> tk.Tensor:
        return x + tk.random.normal(x.shape, dtype=x.dtype, device=x.device)

    x = tk.zeros((2, 3))
    tk.random.seed(5)
    first, second = noisy(x).numpy(), noisy(x).numpy()
    tk.random.seed(5)
    assert np.array_equal(noisy(x).numpy(), first)
    assert not np.array_equal(first, second)
    tk.random.seed(5)
    assert np.array_equal(tk.random.normal((2, 3)).numpy(), first)
    with tk.backends.register(_HostOfTags()):
        tk.random.seed(5)
        assert np.array_equal(noisy(x.to_device("hosttags")).numpy(), first)


def test_vmap_asks_for_a_choice_of_randomness() -> None:
    @tk.library.custom_op(f"{NS}::drawn", mutates_args=(), tags="nondeterministic")
    def drawn(x: tk.Tensor) -> tk.Tensor:
        return x + tk.random.uniform(x.shape, dtype=x.dtype, device=x.device)

    x = tk.zeros((4, 3))
    with pytest.raises(RuntimeError, match="randomness="):
        tk.transforms.vmap(drawn)(x)
    rows = tk.transforms.vmap(drawn, randomness="different")(x).numpy()
    assert len({row.tobytes() for row in rows}) == 4
