"""Backends of installed packages: found by entry points at first use, and isolated where they are broken."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tenkey as tk
from tenkey.backends import coverage, installed
from tenkey.core.device import device_types
from tenkey.dispatch import registry
from tenkey.dispatch.errors import RegistrationError

GOOD = """
import numpy as np
import tenkey as tk

class Plug(tk.backends.Backend):
    name = "{name}"
    def allocate(self, nbytes, device=0): return bytearray(nbytes)
    def free(self, buffer): pass
    def copy_from_host(self, buffer, array): buffer[: array.size] = array.tobytes()
    def copy_to_host(self, buffer, array): array[:] = np.frombuffer(buffer, np.uint8, array.size)
"""

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with one module and entry points on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules: list[str] = []

    def put(name: str, source: str, *points: str, distribution: str | None = None) -> str:
        module = f"tk_plugin_{name}"
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source).replace("{name}", name))
        info = tmp_path / f"{(distribution or module)}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution or module}\nVersion: 1.2\n")
        lines = points or (f"{name} = {module}:backend",)
        (info / "entry_points.txt").write_text("[tenkey.backends]\n" + "\n".join(lines) + "\n")
        importlib.invalidate_caches()
        modules.append(module)
        return module

    backends = set(device_types())
    yield put
    for module in modules:
        sys.modules.pop(module, None)
    from tenkey.backends.external.backend_registration import registered

    for device in set(device_types()) - backends:
        registered[device].remove()


def state() -> tuple[object, ...]:
    kernels = {op.name: {key.name: list(stack) for key, stack in op.kernels.items()} for op in registry}
    fallbacks = {key.name: list(stack) for key, stack in registry.fallbacks.items()}
    return device_types(), kernels, fallbacks, sorted(vars(tk.Tensor)), dict(registry.pending)


class TestLoading:
    def test_at_first_use_of_the_device(self, install: Install) -> None:
        module = install("plugone", GOOD + "\ndef backend(): return Plug()\n")
        assert installed()["plugone"] == f"{module}:backend"
        assert module not in sys.modules
        assert not hasattr(tk.Tensor, "plugone")
        x = tk.zeros(3, device="plugone")
        assert module in sys.modules
        assert x.device == "plugone"
        assert (x + 1).tolist() == [1.0, 1.0, 1.0]
        assert x.is_plugone
        assert not tk.ones(1).is_plugone
        assert tk.ones(2).plugone().device == "plugone"

    @pytest.mark.parametrize("form", ["def backend(): return Plug()", "backend = Plug()", "backend = Plug"])
    def test_forms(self, install: Install, form: str) -> None:
        install("plugform", GOOD + form + "\n")
        assert tk.ones(2, device="plugform:0").tolist() == [1.0, 1.0]

    def test_one_that_registers_itself(self, install: Install) -> None:
        install("plugself", GOOD + "made = Plug()\ntk.backends.register(made)\ndef backend(): return made\n")
        assert tk.ones(2, device="plugself").tolist() == [1.0, 1.0]

    def test_several_side_by_side(self, install: Install) -> None:
        names = [f"plugside{i}" for i in range(4)]
        for name in names:
            install(name, GOOD + "def backend(): return Plug()\n")
        tensors = [tk.full((2,), i, device=name) for i, name in enumerate(names)]
        assert [t.tolist() for t in tensors] == [[i, i] for i in range(4)]
        assert [str(t.device) for t in tensors] == names
        with pytest.raises(RuntimeError, match=r"plugside1 and plugside2"):
            tensors[1] + tensors[2]

    def test_coverage_and_registration_by_name_load_it(self, install: Install) -> None:
        install("plugcover", GOOD + "def backend(): return Plug()\n")
        assert coverage("plugcover").fallback == {}
        install("plugkernel", GOOD + "def backend(): return Plug()\n")
        with tk.library.register_kernel("tk::exp", "plugkernel", lambda x: x.clone()):
            assert tk.exp(tk.full((1,), 5.0, device="plugkernel")).tolist() == [5.0]

    def test_setup_registers_kernels_that_end_with_it(self, install: Install) -> None:
        install(
            "plugsetup",
            GOOD
            + """
    def setup(self):
        tk.library.register_kernel("tk::exp", "plugsetup", lambda x: x.clone())
def backend(): return Plug()
""",
        )
        before = state()
        x = tk.full((1,), 5.0, device="plugsetup")
        assert tk.exp(x).tolist() == [5.0]
        from tenkey.backends.external.backend_registration import registered

        registered["plugsetup"].remove()
        assert state() == before

    def test_a_tensor_unpickles_where_nobody_used_the_device(self, install: Install, tmp_path: Path) -> None:
        install("plugpickle", GOOD + "def backend(): return Plug()\n")
        make = "import pickle, sys, tenkey as tk; "
        first = make + "sys.stdout.buffer.write(pickle.dumps(tk.full((2,), 3, device='plugpickle')))"
        second = make + "x = pickle.load(sys.stdin.buffer); print(x.device, x.tolist())"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        data = subprocess.run([sys.executable, "-c", first], capture_output=True, check=True, env=environment).stdout
        done = subprocess.run(
            [sys.executable, "-c", second], input=data, capture_output=True, check=True, env=environment
        )
        assert done.stdout.decode().split("\n")[0] == "plugpickle [3, 3]"


BROKEN = {
    "raises": ("raise OSError('no driver')", r"it raised OSError: no driver"),
    "raises in the callable": ("def backend(): raise ValueError('bad')", r"it raised ValueError: bad"),
    "exits": ("import sys; sys.exit('no licence')", r"it raised SystemExit: no licence"),
    "exits in the callable": ("def backend(): raise SystemExit(3)", r"it raised SystemExit: 3"),
    "syntax": ("def backend(:", r"it raised SyntaxError"),
    "nothing there": ("x = 1", r"it raised AttributeError: .*backend"),
    "no backend": (
        "def backend(): return 3",
        r"it returned 3, which is not an instance of a subclass of tk\.backends\.Backend",
    ),
    "nothing returned": ("def backend(): pass", r"it returned None"),
    "other name": (
        GOOD.replace("{name}", "othername") + "def backend(): return Plug()",
        r"its backend is called 'othername', but its entry point 'plugbad'",
    ),
    "two instances": (
        GOOD + "tk.backends.register(Plug())\ndef backend(): return Plug()",
        r"it registered 'plugbad' by itself and returned another instance",
    ),
    "registers others and fails": (
        GOOD.replace("{name}", "stray")
        + "tk.backends.register(Plug())\ntk.library.register_kernel('tk::exp', 'stray', lambda x: x)\n1 / 0",
        r"it raised ZeroDivisionError",
    ),
    "registers twice": (
        GOOD + "made = Plug()\ntk.backends.register(made)\ntk.backends.register(Plug())\ndef backend(): return made",
        r"it raised RegistrationError: .*'plugbad' is registered already",
    ),
    "lacks a method": (
        GOOD + "    free = None\ndef backend(): return Plug()",
        r"it raised RegistrationError: .*lacks the method free",
    ),
    "a name that tensors use": (
        GOOD.replace("{name}", "reshape") + "def backend(): return Plug()",
        r"its backend is called 'reshape'",
    ),
    "setup fails": (
        GOOD + "    def setup(self): 1 / 0\ndef backend(): return Plug()",
        r"it raised ZeroDivisionError",
    ),
    "a kernel of no operator's signature": (
        GOOD
        + "    def setup(self): tk.library.register_kernel('tk::exp', 'plugbad', lambda: 0)\n"
        + "def backend(): return Plug()",
        r"it raised RegistrationError",
    ),
    "uses its device": (
        GOOD + "tk.library.register_kernel('tk::exp', 'plugbad', lambda x: x)\ndef backend(): return Plug()",
        r"uses its own device while it is being loaded: register kernels in the method setup",
    ),
    "defines an operator and fails": (
        GOOD + "tk.library.pointwise('plugbad::op(Tensor x) -> Tensor', scalar=lambda T: lambda x: x)\n1 / 0",
        r"it raised ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_plug_in_is_reported_and_isolated(install: Install, fault: str) -> None:
    source, message = BROKEN[fault]
    install("plugbad", source)
    install("plugfine", GOOD + "def backend(): return Plug()\n")
    before = state()
    texts = []
    for _ in range(3):
        with pytest.raises(RegistrationError, match=message) as caught:
            tk.zeros(3, device="plugbad")
        texts.append(str(caught.value))
        assert state() == before
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith("[tenkey.backends] the plug-in 'plugbad' of tk_plugin_plugbad 1.2")
    assert tk.ones(2, device="plugfine").tolist() == [1.0, 1.0]
    assert (tk.ones(2) + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("value", [":::", "a b:c", "module:", "3x:y"])
def test_an_entry_point_that_names_nothing(install: Install, value: str) -> None:
    install("plugnothing", GOOD, f"plugnothing = {value}")
    with pytest.raises(RegistrationError, match=r"the plug-in 'plugnothing' of .* could not be loaded: ") as caught:
        tk.zeros(3, device="plugnothing")
    assert "NoneType" not in str(caught.value)
    assert "plugnothing" in installed()


def test_a_name_that_two_distributions_define(install: Install) -> None:
    install("plugtwice", GOOD + "def backend(): return Plug()\n")
    install("plugagain", GOOD, "plugtwice = tk_plugin_plugagain:backend")
    for _ in range(2):
        with pytest.raises(
            RegistrationError, match=r"'plugtwice' is defined by several plug-ins: .*plug.* 1\.2 and .*"
        ):
            tk.zeros(3, device="plugtwice")


def test_an_interrupt_is_not_swallowed(install: Install) -> None:
    install("pluginterrupt", "raise KeyboardInterrupt")
    before = state()
    with pytest.raises(KeyboardInterrupt):
        tk.zeros(3, device="pluginterrupt")
    assert state() == before


def test_unknown_devices_name_what_there_is(install: Install) -> None:
    install("plugseen", GOOD + "def backend(): return Plug()\n")
    with pytest.raises(ValueError, match=r"unknown device 'plugunseen': known device types are cpu, meta.*plugseen"):
        tk.zeros(3, device="plugunseen")
    for bad in ("cpu:", "cpu:x", "cpu:-1", "cpu: 1", ":0", "", "cpu:٣", 3, None.__class__):
        with pytest.raises((ValueError, TypeError)):
            tk.zeros(3, device=bad)


def test_an_operator_left_over_by_a_module_does_not_hinder_import_of_tenkey(install: Install, tmp_path: Path) -> None:
    """``import tenkey`` neither looks at entry points nor loads a plug-in, however many there are."""
    for i in range(20):
        install(f"plugmany{i}", "raise SystemExit('loaded')")
    code = """
import importlib.metadata, sys
def scan(*args, **kwargs): raise SystemExit("scanned")
importlib.metadata.entry_points = scan
import tenkey as tk
tk.zeros(3, device="cpu")
assert not [name for name in sys.modules if name.startswith("tk_plugin")]
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


# ---- devices


class Counted(tk.backends.Backend):
    name = "counted"
    available = True
    count = 3
    current = 1

    def is_available(self) -> bool:
        return self.available

    def device_count(self) -> int:
        return self.count

    def current_device(self) -> int:
        return self.current

    def allocate(self, nbytes: int, device: int = 0) -> object:
        return [device, bytearray(nbytes)]

    def free(self, buffer: object) -> None:
        pass

    def copy_from_host(self, buffer, array) -> None:  # type: ignore[no-untyped-def]
        buffer[1][: array.size] = array.tobytes()

    def copy_to_host(self, buffer, array) -> None:  # type: ignore[no-untyped-def]
        array[:] = memoryview(buffer[1])[: array.size]


@pytest.fixture
def counted() -> Iterator[Counted]:
    made = Counted()
    with tk.backends.register(made):
        yield made


class TestDevices:
    @pytest.mark.parametrize("device", ["counted:3", "counted:7"])
    def test_an_index_out_of_range_is_an_error_at_once(self, counted: Counted, device: str) -> None:
        actions = [
            lambda: tk.zeros(3, device=device), lambda: tk.asarray([1.0], device=device), lambda: tk.device(device),
            lambda: tk.ones(2).to_device(device), lambda: tk.ones(2).counted(int(device[-1])),
            lambda: tk.device("counted", int(device[-1])), lambda: tk.empty((), device=device),
        ]  # fmt: skip
        for action in actions:
            with pytest.raises(ValueError, match=rf"\[counted\] has 3 device\(s\), so there is no '{device}'"):
                action()

    @pytest.mark.parametrize("device", ["cpu:7", "cpu:1", "meta:1"])
    def test_the_built_in_ones_have_one_each(self, device: str) -> None:
        for action in (lambda: tk.zeros(3, device=device), lambda: tk.device(device)):
            with pytest.raises(ValueError, match=rf"has 1 device\(s\), so there is no '{device}'"):
                action()
        assert tk.zeros(1, device=device[:-1] + "0").device == device[:-2]

    def test_without_an_index_the_current_device_is_meant(self, counted: Counted) -> None:
        x = tk.ones(2, device="counted")
        assert str(x.device) == "counted:1"
        assert x.array.buffer[0] == 1
        assert (x + 1).device == "counted:1"
        assert tk.ones(2, device="counted:0").device.index == 0
        assert tk.ones(2).counted().device.index == 1
        assert tk.ones(2).counted(2).device.index == 2
        assert counted.empty((2,), "float32").device.index == 1

    def test_an_unavailable_backend_says_so_at_first_use(self) -> None:
        made = Counted()
        made.available = False
        with tk.backends.register(made):
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"\[counted\] is not available on this machine"):
                    tk.zeros(3, device="counted")
            made.available = True
            assert tk.zeros(1, device="counted").tolist() == [0.0]

    def test_removal_undoes_the_methods(self) -> None:
        warm = tk.ones(2).requires_grad_()
        tk.sum(warm * 2).backward()  # operators that are derived when they are first needed stay
        before = state()
        handle = tk.backends.register(Counted())
        x = tk.ones(2).counted()
        assert x.is_counted
        assert x.counted() is x
        y = tk.ones(2).requires_grad_()
        tk.sum(y.counted() * 2).backward()
        assert y.grad is not None
        assert y.grad.tolist() == [2.0, 2.0]
        device = x.device
        handle.remove()
        assert state() == before
        assert not hasattr(x, "counted")
        with pytest.raises(RuntimeError, match="was removed"):
            tk.zeros(2, device=device)

    @pytest.mark.parametrize("name", ["reshape", "data", "numpy", "requires_grad", "shape"])
    def test_names_that_tensors_have(self, name: str) -> None:
        before = state()
        with pytest.raises(RegistrationError, match=rf"cannot be called '{name}'"):
            tk.backends.register(type("Bad", (Counted,), {"name": name})())
        assert state() == before

    def test_optional_parts_have_defaults(self, counted: Counted) -> None:
        assert counted.memory_stats(2) == tk.backends.MemoryStatistics(0, 0, 0, 0, 0, 0)
        x = tk.zeros((4, 4), device="counted:2")
        y = x + x
        assert counted.memory_stats(2).allocated_bytes == 128
        del y
        found = counted.memory_stats(2)
        assert (found.allocated_bytes, found.peak_bytes >= 128, found.allocations - found.frees) == (64, True, 1)
        assert counted.memory_stats(0).allocated_bytes == 0
        with counted.stream(1) as stream:
            first = stream.record_event()
            end = counted.event(1)
            assert not end.query()
            with pytest.raises(RuntimeError, match="was not recorded"):
                end.synchronize()
            end.record()
            stream.wait_event(end)
            stream.synchronize()
        assert first.elapsed_time(end) >= 0
