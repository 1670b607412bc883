"""Note [Installers that wait]: when they act, in which order, and what undoes them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError
from tenkey.dispatch.kernel import Handle, Kernel
from tenkey.dispatch.keys import DispatchKey, DispatchKeySet
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import Registry
from tests._interrupts import interrupted

CPU = DispatchKey.CPU


def installing(seen: list[str], text: str, key: DispatchKey = CPU) -> Callable[[Operator], list[Handle]]:
    def install(operator: Operator) -> list[Handle]:
        seen.append(f"{text} {operator.name}")
        kernel = Kernel(lambda n, *, device=None: text, key, origin="generated")
        return [operator.registry.impl(operator.name, kernel)]

    return install


@pytest.fixture
def reg() -> Registry:
    made = Registry()
    made.hooks.device_word = lambda device: DispatchKeySet(CPU).mask
    made.define("t::f(int n, *, Device? device=None) -> Tensor")
    made.define("t::g(int n, *, Device? device=None) -> Tensor")
    return made


def test_they_act_when_the_kernels_are_asked_for(reg: Registry) -> None:
    seen: list[str] = []
    with reg.deferred_installers():
        reg.subscribe(installing(seen, "one"))
        reg.subscribe(installing(seen, "two", DispatchKey.Meta))
    assert seen == []
    f = reg.find("t::f")
    assert set(f.kernels) == {CPU, DispatchKey.Meta}
    assert seen == ["one t::f", "two t::f"]
    assert len(f.kernels[CPU]) == 1
    assert seen == ["one t::f", "two t::f"]
    assert reg.find("t::g")(1) == "one"
    assert seen[2:] == ["one t::g", "two t::g"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda op: op(1),
        lambda op: op.table(),
        lambda op: op.slot(CPU),
        lambda op: op.registry.registrations(CPU),
        lambda op: op.registry.impl(op.name, Kernel(lambda n, *, device=None: 0, CPU)),
        lambda op: op.registry.reinstall(op),
        lambda op: op.redispatch(DispatchKeySet(CPU), 1),
    ],
)
def test_whoever_asks(reg: Registry, ask: Callable[[Operator], Any]) -> None:
    seen: list[str] = []
    with reg.deferred_installers():
        reg.subscribe(installing(seen, "one"))
    ask(reg.find("t::f"))
    assert seen.count("one t::f") == 1
    assert [k.origin for k in reg.find("t::f").kernels[CPU]].count("generated") == 1


def test_later_operators_and_later_installers_do_not_wait(reg: Registry) -> None:
    seen: list[str] = []
    with reg.deferred_installers():
        reg.subscribe(installing(seen, "one"))
    reg.define("t::h(int n, *, Device? device=None) -> Tensor")
    assert seen == ["one t::h"]
    with pytest.raises(RegistrationError, match="already"):  # the second kernel of a kind for a key
        reg.subscribe(installing(seen, "two"))
    assert seen == ["one t::h", "one t::f", "two t::f"]
    assert [k.function(1) for k in reg.find("t::f").kernels[CPU]] == ["one"]


def test_an_installer_that_leaves_before_it_acted(reg: Registry) -> None:
    seen: list[str] = []
    with reg.deferred_installers():
        handle = reg.subscribe(installing(seen, "one"))
    assert reg.find("t::f").kernels
    handle.remove()
    assert not reg.find("t::f").kernels
    assert not reg.find("t::g").kernels
    assert seen == ["one t::f"]


def test_operators_that_go_before_they_were_asked(reg: Registry) -> None:
    seen: list[str] = []
    with reg.deferred_installers():
        reg.subscribe(installing(seen, "one"))
    reg.undefine(reg.find("t::f"))
    assert seen == []
    former = reg.find("t::g")
    reg.define("t::g(int n, *, Device? device=None) -> Tensor", replace=["t::g"])
    assert former(1) == "one"
    assert len(reg.find("t::g").kernels[CPU]) == 1


def test_an_installer_that_fails_fails_at_every_call(reg: Registry) -> None:
    def install(operator: Operator) -> None:
        raise RegistrationError("no")

    with reg.deferred_installers():
        reg.subscribe(install)
    for _ in range(2):
        with pytest.raises(RegistrationError, match="no"):
            reg.find("t::f")(1)


def test_threads_wait_for_the_last_installer(reg: Registry) -> None:
    seen: list[str] = []
    found: list[set[DispatchKey]] = []
    meta = installing(seen, "two", DispatchKey.Meta)

    def slow(operator: Operator) -> list[Handle]:
        time.sleep(0.05)
        return meta(operator)

    with reg.deferred_installers():
        reg.subscribe(installing(seen, "one"))
        reg.subscribe(slow)
    f = reg.find("t::f")
    threads = [threading.Thread(target=lambda: found.append(set(f.kernels))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{CPU, DispatchKey.Meta}] * 4
    assert seen == ["one t::f", "two t::f"]


def test_the_package_defers_its_installers() -> None:
    program = (
        "import tenkey as tk; waiting = [op for op in tk.dispatch.registry if op.outstanding]; "
        "assert len(waiting) > 400; x = tk.ones(2) + 1; assert tk.ops.tk.add.default.outstanding == (); "
        "assert tk.ops.tk.sinh.default.outstanding"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert tk.ops.tk.sinh.table()[CPU].kernel is not None


def test_an_interrupt_while_they_act_leaves_the_operator_whole() -> None:
    """At every place: a later call has each kernel once, and finds no operator that is being settled for ever."""
    number, place = 0, True
    while place:
        number += 1
        reg = Registry()
        reg.hooks.device_word = lambda device: DispatchKeySet(CPU).mask
        f = reg.define("t::f(int n, *, Device? device=None) -> Tensor")
        with reg.deferred_installers():
            reg.subscribe(installing([], "one"))
            reg.subscribe(installing([], "two", DispatchKey.Meta))
        place = interrupted(lambda f=f: f.kernels, number) is not None
        assert [len(f.kernels[key]) for key in (CPU, DispatchKey.Meta)] == [1, 1]
        assert f(1) == "one"
    assert number > 20
