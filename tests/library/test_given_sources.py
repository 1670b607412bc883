"""Kernels that are given as source: Note [Kernels given as source]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError
from tests._backends import Host

NS = "given_sources"


class Compiling(Host):
    """A backend whose language is Python: the source is an expression of NumPy arrays."""

    name = "givensrc"

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[Any] = []

    def user_kernel(self, given: Any) -> Any:
        self.compiled.append(given)
        text = given if isinstance(given, str) else given.py_func()
        return lambda x, *rest: self.from_host(eval(text, {"x": self.to_host(x), "rest": rest}), x.device)


class Decorated:
    """As ``numba.cuda.jit`` returns it."""

    def py_func(self) -> str:
        return "x + 1"


@pytest.fixture
def backend() -> Iterator[Compiling]:
    made = Compiling()
    with tk.backends.register(made), tk.library.Library(NS, "DEF") as library:
        library.define("f(Tensor x, float a=1.0) -> Tensor")
        yield made


@pytest.mark.parametrize(("given", "expected"), [("x * 3", [3.0, 6.0]), (Decorated(), [2.0, 3.0])])
def test_the_backend_compiles_at_the_first_call(backend: Compiling, given: Any, expected: list[float]) -> None:
    with tk.library.register_kernel(f"{NS}::f", "givensrc", given):
        assert backend.compiled == []
        x = tk.asarray([1.0, 2.0], device="givensrc")
        for _ in range(2):
            found = tk.ops.given_sources.f(x, 2.0)
            assert (found.tolist(), str(found.device)) == (expected, "givensrc")
        assert backend.compiled == [given]


def test_without_the_device() -> None:
    """Registration needs none: the same program runs on machines without it."""
    with tk.library.Library(NS, "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        tk.library.register_kernel(f"{NS}::f", "cuda", "__global__ void f() {}").remove()
        library.impl("f", "__global__ void f() {}", "cuda")


@pytest.mark.parametrize("key", ["cpu", "meta", "default"])
def test_a_key_without_a_compiler(key: str) -> None:
    with tk.library.Library(NS, "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        with pytest.raises(RegistrationError, match=rf"\[{NS}::f\] got source as a kernel.*function of tensors"):
            tk.library.register_kernel(f"{NS}::f", key, "__global__ void f() {}")


def test_a_backend_without_a_compiler() -> None:
    with tk.backends.register(Host()), tk.library.Library(NS, "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        name = Host.name
        x = tk.asarray(np.ones(2), device=name)
        with (
            tk.library.register_kernel(f"{NS}::f", name, "__global__ void f() {}"),
            pytest.raises(NotImplementedError, match=rf"\[{NS}::f\] got source.*{name!r} does not compile"),
        ):
            tk.ops.given_sources.f(x)
