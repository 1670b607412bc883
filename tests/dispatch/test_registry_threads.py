"""Registrations and calls from several threads at once."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tenkey.dispatch import (
    Kernel,
    RegistrationError,
    Registry,
    compute_table,
)
from tests._threads import run_threads
from tests.tiny._fakes import (
    AUTOGRAD,
    AUTOGRAD_CPU,
    CPU,
    TRACER,
    Fake,
    fresh,
    impl,
    named,
    snapshot,
)

F = "t::f(Tensor x) -> Tensor"


@pytest.fixture
def reg() -> Registry:
    return fresh(F)


class TestThreads:
    def test_registration_while_others_call(self, reg: Registry) -> None:
        """A call sees the state before or after a registration, never a mixture, and no old slot stays."""
        op, fake = reg.find("t::f"), Fake(AUTOGRAD_CPU, CPU)
        impl(reg, "t::f", "base", CPU)
        done = threading.Event()

        def register() -> None:
            try:
                for _ in range(150):
                    with impl(reg, "t::f", "top", CPU, allow_override=True), impl(reg, "t::f", "autograd", AUTOGRAD):
                        assert op(fake)[0] == "autograd"
                    assert op(fake)[0] == "base"
            finally:
                done.set()

        def call() -> None:
            while not done.is_set():
                assert op(fake)[0] in {"base", "top", "autograd"}

        def look() -> None:
            while not done.is_set():
                assert len(op.table()) == len(compute_table(op))

        run_threads(register, call, call, look)
        assert op(fake)[0] == "base"
        assert op.table() == compute_table(op)

    def test_conditional_kernels_while_others_call(self, reg: Registry) -> None:
        op, fake = reg.find("t::f"), Fake(CPU)
        impl(reg, "t::f", "base", CPU)
        done = threading.Event()

        def register() -> None:
            try:
                for _ in range(100):
                    with impl(reg, "t::f", "when", CPU, when=lambda x: True):
                        assert op(fake)[0] == "when"
                    assert op(fake)[0] == "base"
            finally:
                done.set()

        def call() -> None:
            while not done.is_set():
                assert op(fake)[0] in {"base", "when"}

        run_threads(register, call, call)
        assert op.table() == compute_table(op)

    def test_registrations_at_once(self, reg: Registry) -> None:
        before = snapshot(reg)

        def register(number: int) -> None:
            for i in range(20):
                op = reg.define(f"t::f{number}_{i}(Tensor x) -> Tensor")
                handles = [impl(reg, "t::f", f"{number}", CPU, allow_override=True)]
                handles.append(reg.fallback(Kernel(named("fallback"), TRACER, boxed=True)))
                handles.append(impl(reg, op.name, "own", CPU))
                assert op(Fake(CPU))[0] == "own"
                for handle in handles:
                    handle.remove()
                reg.undefine(op)

        run_threads(*(partial(register, number) for number in range(4)))
        assert snapshot(reg) == before

    def test_one_of_many_duplicates_wins(self, reg: Registry) -> None:
        results: list[str] = []

        def register() -> None:
            try:
                impl(reg, "t::f", "mine", CPU)
                results.append("registered")
            except RegistrationError:
                results.append("refused")

        run_threads(*[register] * 6)
        assert sorted(results) == ["refused"] * 5 + ["registered"]
        assert len(reg.find("t::f").kernels[CPU]) == 1

    def test_handle_removed_by_many(self, reg: Registry) -> None:
        before = snapshot(reg)
        for _ in range(20):
            handle = reg.fallback(Kernel(named("fallback"), TRACER, boxed=True))
            run_threads(*[handle.remove] * 4)
        assert snapshot(reg) == before
