"""The inspection functions of the array API standard."""

from __future__ import annotations

import types

import pytest

import tenkey as tk

INFO = tk.__array_namespace_info__()


def test_version_and_namespace() -> None:
    assert tk.__array_api_version__ == "2025.12"
    x = tk.zeros(2)
    assert x.__array_namespace__() is tk
    assert x.__array_namespace__(api_version="2022.12") is tk
    assert isinstance(x.__array_namespace__(api_version=tk.__array_api_version__), types.ModuleType)
    with pytest.raises(ValueError, match=r"\[__array_namespace__\] got api_version='1999.12': give one of"):
        x.__array_namespace__(api_version="1999.12")


def test_capabilities() -> None:
    found = INFO.capabilities()
    assert found["boolean indexing"] is True
    assert found["data-dependent shapes"] is True
    dims = found["max dimensions"]
    assert tk.zeros((1,) * dims).ndim == dims


def test_devices_are_a_tuple_that_adds_to_a_list() -> None:
    devices = INFO.devices()
    assert isinstance(devices, tuple)
    assert INFO.default_device() == devices[0] == tk.device("cpu")
    assert [*devices, None] == devices + [None] == list(devices) + [None]  # noqa: RUF005  # what SciPy's tests do
    assert [None] + devices == [None, *devices]  # noqa: RUF005
    assert devices + (None,) == (*devices, None)  # noqa: RUF005
    assert all(device.type != "meta" for device in devices)
    with pytest.raises(TypeError):
        devices + 1
    with pytest.raises(TypeError):
        1 + devices


def test_default_dtypes_follow_the_settings() -> None:
    assert INFO.default_dtypes() == {
        "real floating": tk.float32, "complex floating": tk.complex64, "integral": tk.int64, "indexing": tk.int64,
    }  # fmt: skip
    with tk.core.dtypes.names.default_dtypes(real_floating="float64"):
        found = INFO.default_dtypes(device="cpu")
    assert found["real floating"] == tk.float64
    assert found["complex floating"] == tk.complex128


def test_dtypes() -> None:
    everything = INFO.dtypes()
    assert list(everything) == [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        "complex64", "complex128",
    ]  # fmt: skip
    assert all(getattr(tk, name) is dtype for name, dtype in everything.items())
    assert list(INFO.dtypes(kind="integral")) == list(everything)[1:9]
    assert list(INFO.dtypes(kind="numeric")) == list(everything)[1:]
    assert list(INFO.dtypes(kind=("bool", "complex floating"), device=tk.device("cpu"))) == [
        "bool", "complex64", "complex128",
    ]  # fmt: skip
    assert INFO.dtypes(kind=()) == {}


@pytest.mark.parametrize("kind", ["float", "", 3, ("bool", "x")])
def test_unknown_kinds(kind: object) -> None:
    with pytest.raises(ValueError, match="a kind is one of 'bool', 'signed integer'"):
        INFO.dtypes(kind=kind)  # type: ignore[arg-type]


def test_unknown_devices() -> None:
    for call in (INFO.dtypes, INFO.default_dtypes):
        with pytest.raises(ValueError, match="unknown device 'gpu'"):
            call(device="gpu")


def test_to_device() -> None:
    x = tk.zeros(2)
    assert x.to_device("cpu") is x
    assert x.to_device(x.device, stream=None) is x
    assert x.to_device("meta").device == "meta"
    with pytest.raises(ValueError, match=r"\[to_device\] got stream=1"):
        x.to_device("cpu", stream=1)
    leaf = tk.ones(2).requires_grad_()
    assert leaf.to_device("meta").requires_grad
