"""tenkey.core.dtypes: names, categories, normalisation, defaults and limits, against NumPy and ml_dtypes."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.dtypes import limits as dtype_limits
from tenkey.core.dtypes import names as dtypes
from tenkey.core.dtypes.names import DType

KIND_NAMES = [
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
]


@pytest.fixture
def without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # an import of it now fails
    dtypes._load_bfloat16.cache_clear()
    yield
    dtypes._load_bfloat16.cache_clear()


def bfloat16() -> DType:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype: DType = np.dtype(ml_dtypes.bfloat16)
    return dtype


def test_names_are_numpys_dtypes() -> None:
    assert len(dtypes.ALL) == 14
    for dtype in dtypes.ALL:
        assert getattr(dtypes, dtype.name) is dtype
        assert dtype == np.dtype(dtype.name)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_isdtype_is_numpys(kind: str) -> None:
    for dtype in dtypes.ALL:
        assert dtypes.isdtype(dtype, kind) == np.isdtype(dtype, kind), dtype
    assert set(dtypes.KINDS) == set(KIND_NAMES)


def test_isdtype_takes_dtypes_and_tuples() -> None:
    assert dtypes.isdtype(dtypes.int8, dtypes.int8)
    assert not dtypes.isdtype(dtypes.int8, dtypes.int16)
    assert dtypes.isdtype(dtypes.int8, ("bool", ("complex floating", dtypes.int8)))
    assert not dtypes.isdtype(dtypes.int8, ())
    with pytest.raises(ValueError, match="'real floating'"):
        dtypes.isdtype(dtypes.int8, "float")
    with pytest.raises(ValueError, match="float"):
        dtypes.isdtype(dtypes.int8, ("integral", "float"))
    with pytest.raises(TypeError, match="a kind is"):
        dtypes.isdtype(dtypes.int8, 3)


@pytest.mark.parametrize(
    ("predicate", "kinds"),
    [
        (dtypes.is_integral, ("integral",)),
        (dtypes.is_real_floating, ("real floating",)),
        (dtypes.is_complex, ("complex floating",)),
        (dtypes.is_inexact, ("real floating", "complex floating")),
    ],
)
def test_categories(predicate: Callable[[DType], bool], kinds: tuple[str, ...]) -> None:
    for dtype in dtypes.ALL:
        assert predicate(dtype) == np.isdtype(dtype, kinds), dtype


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float32", "float32"),
        ("<f8", "float64"),
        (">f8", "float64"),
        (np.dtype(">u2"), "uint16"),
        (np.longlong, "int64"),
        (np.dtype(np.longlong), "int64"),
        (np.complex64, "complex64"),
        (np.bool_, "bool"),
        ("?", "bool"),
        (bool, "bool"),
        (int, "int64"),
        (float, "float32"),
        (complex, "complex64"),
        ("bool", "bool"),
        ("int", "int64"),
        ("float", "float32"),
        ("complex", "complex64"),
    ],
)
def test_to_dtype(given: object, expected: str) -> None:
    assert dtypes.to_dtype(given) is getattr(dtypes, expected)  # one object per dtype, native byte order


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (None, "Name one of"),
        (3, "Name one of"),
        ("no such dtype", "Name one of"),
        ("f4,f4", "one tensor for each field"),
        (np.dtype([("x", "f4")]), "one tensor for each field"),
        (list, "Name one of"),
        (np.longdouble, "float64"),
        (np.dtype("clongdouble"), "complex128"),
        (object, "Name one of"),
        (np.dtype(object), "numbers first"),
        ("U3", "numbers first"),
        (np.bytes_, "numbers first"),
        ("datetime64[s]", "int64"),
        (np.timedelta64, "int64"),
    ],
)
def test_to_dtype_refuses_with_a_remedy(given: object, remedy: str) -> None:
    with pytest.raises(TypeError, match=remedy) as caught:
        dtypes.to_dtype(given)
    assert "float32" in str(caught.value)


def test_real_of_and_complex_of() -> None:
    assert dtypes.real_of(dtypes.complex64) is dtypes.float32
    assert dtypes.real_of(dtypes.complex128) is dtypes.float64
    for dtype in dtypes.ALL:
        if not dtypes.is_complex(dtype):
            assert dtypes.real_of(dtype) is dtype
    expected = {
        "bool": "complex64",
        "int8": "complex64",
        "uint64": "complex64",
        "float16": "complex64",
        "float32": "complex64",
        "float64": "complex128",
        "complex64": "complex64",
        "complex128": "complex128",
    }
    for real, result in expected.items():
        assert dtypes.complex_of(np.dtype(real)) == result


def default_names() -> list[str]:
    return [dtype.name for dtype in (dtypes.default_float(), dtypes.default_complex(), dtypes.default_int())]


def test_defaults_can_be_changed_and_are_restored() -> None:
    assert default_names() == ["float32", "complex64", "int64"]
    with dtypes.default_dtypes(real_floating="float64", integral="int32"):
        assert dtypes.default_float() == "float64"
        assert dtypes.default_complex() == "complex128"  # follows the real default
        assert dtypes.to_dtype(int) == "int32"
        dtypes.set_default_dtypes(complex_floating="complex64")
        assert dtypes.default_complex() == "complex64"
        assert dtypes.default_float() == "float64"
        dtypes.set_default_dtypes(real_floating="float16")
        assert dtypes.default_complex() == "complex64"
    with pytest.raises(KeyError), dtypes.default_dtypes(real_floating="float64"):
        raise KeyError
    assert default_names() == ["float32", "complex64", "int64"]


def test_defaults_are_local_to_thread_and_context() -> None:
    seen: list[DType] = []
    with dtypes.default_dtypes(real_floating="float64"):
        thread = threading.Thread(target=lambda: seen.append(dtypes.default_float()))
        thread.start()
        thread.join()
        contextvars.copy_context().run(lambda: dtypes.set_default_dtypes(real_floating="float16"))
        assert dtypes.default_float() == "float64"
    assert seen == [dtypes.float32]


_SHOW_DEFAULTS = """
import threading
import tenkey as tk
def show():
    print(tk.asarray([1.0]).dtype, tk.asarray([1j]).dtype, tk.zeros(1).dtype, tk.asarray([1]).dtype)
show()
thread = threading.Thread(target=show)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "float32 complex64 float32 int64\n" * 2),
        ("float64", "float64 complex128 float64 int64\n" * 2),
        ("int32", "TENKEY_DEFAULT_FLOAT is 'int32': give one of float32, float64."),
    ],
)
def test_the_environment_chooses_the_default_of_every_thread(given: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TENKEY_DEFAULT_FLOAT"}
    if given is not None:
        environment["TENKEY_DEFAULT_FLOAT"] = given
    done = subprocess.run(
        [sys.executable, "-c", _SHOW_DEFAULTS], capture_output=True, text=True, env=environment, check=False
    )
    assert expected in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("real_floating", "int32"),
        ("real_floating", "complex64"),
        ("complex_floating", "float32"),
        ("integral", "uint8"),
        ("integral", "float32"),
    ],
)
def test_wrong_defaults_are_refused(kind: str, given: str) -> None:
    with pytest.raises(TypeError, match=f"got {given}: the default must be one of"):
        dtypes.set_default_dtypes(**{kind: given})


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128"])
def test_finfo_is_numpys(name: str) -> None:
    ours, numpys = dtype_limits.finfo(name), np.finfo(name)
    for field in ("eps", "max", "min", "smallest_normal"):
        assert type(getattr(ours, field)) is float
        assert getattr(ours, field) == float(getattr(numpys, field)), field
    assert type(ours.bits) is int
    assert ours.bits == numpys.bits
    assert ours.dtype == numpys.dtype  # the real dtype


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_iinfo_is_numpys(name: str) -> None:
    ours, numpys = dtype_limits.iinfo(name), np.iinfo(name)
    assert (ours.bits, ours.max, ours.min) == (numpys.bits, numpys.max, numpys.min)
    assert type(ours.max) is int
    assert ours.dtype == name


def test_limits_of_arrays_and_of_wrong_dtypes() -> None:
    assert dtype_limits.finfo(np.zeros(3)).bits == 64
    assert dtype_limits.finfo(np.float32).bits == 32  # the type's attribute `dtype` is a descriptor
    assert dtype_limits.iinfo(np.zeros(3, np.int8)).max == 127
    with pytest.raises(TypeError, match="iinfo"):
        dtype_limits.finfo("int32")
    with pytest.raises(TypeError, match="finfo"):
        dtype_limits.iinfo("float32")
    with pytest.raises(TypeError, match="got bool"):
        dtype_limits.iinfo(bool)


def test_bfloat16() -> None:
    dtype = bfloat16()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert dtype in dtypes.all_dtypes()
    assert dtypes.bfloat16 == dtype
    assert dtypes.all_dtypes() == (*dtypes.ALL, dtype)
    for given in ("bfloat16", dtype, ml_dtypes.bfloat16):
        assert dtypes.to_dtype(given) == dtype
    assert dtypes.is_real_floating(dtype)
    assert dtypes.is_inexact(dtype)
    assert not dtypes.is_complex(dtype)
    assert not dtypes.is_integral(dtype)
    assert [kind for kind in KIND_NAMES if dtypes.isdtype(dtype, kind)] == ["real floating", "numeric"]
    assert dtypes.complex_of(dtype) == dtypes.complex64
    ours, theirs = dtype_limits.finfo(dtype), ml_dtypes.finfo(dtype)
    for field in ("eps", "max", "min", "smallest_normal"):
        assert getattr(ours, field) == float(getattr(theirs, field)), field
    assert ours.bits == theirs.bits
    with dtypes.default_dtypes(real_floating="bfloat16"):
        assert dtypes.default_float() == dtype


def test_other_extension_dtypes_are_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for extension in (ml_dtypes.float8_e5m2, ml_dtypes.int4):
        with pytest.raises(TypeError, match="astype"):
            dtypes.to_dtype(extension)


@pytest.mark.usefixtures("without_ml_dtypes")
def test_bfloat16_missing() -> None:
    assert dtypes.all_dtypes() == dtypes.ALL
    assert not hasattr(dtypes, "bfloat16")
    with pytest.raises(AttributeError, match="pip install ml_dtypes"):
        _ = dtypes.bfloat16
    with pytest.raises(TypeError, match="pip install ml_dtypes"):
        dtypes.to_dtype("bfloat16")
    dtypes.set_default_dtypes(real_floating="float32")  # its choices include bfloat16 only where there is one


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'float8'"):
        _ = dtypes.float8


def test_operators_follow_a_change_of_the_defaults() -> None:
    """Note [Default dtypes in specialised kernels]."""
    i, flags = tk.asarray([1, 2, 3]), tk.asarray([True, False])
    calls = {
        "log": lambda: tk.log(i), "quotient": lambda: i / i, "half": lambda: i * 2.5, "mean": lambda: tk.mean(i),
        "logsumexp": lambda: tk.logsumexp(i), "where": lambda: tk.where(i > 1, i, 0.5), "bool": lambda: tk.sqrt(flags),
    }  # fmt: skip
    for name, call in calls.items():
        assert call().dtype == "float32", name
        with dtypes.default_dtypes(real_floating="float64"):
            assert call().dtype == "float64", name
            seen: list[object] = []
            thread = threading.Thread(target=lambda call=call, seen=seen: seen.append(call().dtype))
            thread.start()
            thread.join()
            assert seen == [tk.float32], name
            with dtypes.default_dtypes(real_floating="float16"):
                assert call().dtype == "float16", name
        assert call().dtype == "float32", name
    assert (i + 1j).dtype == "complex64"
    with dtypes.default_dtypes(real_floating="float64"):
        assert (i + 1j).dtype == "complex128"
        assert (i + i).dtype == "int64"
        np.testing.assert_array_equal(tk.log(i).numpy(), np.log([1.0, 2.0, 3.0]))
